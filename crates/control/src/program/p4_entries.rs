//! Lines `entry` of a configuration, of a P4 program, which come and go while packets pass.
//!
//! In: the lines that there were, and those that there are to be. Out: the program has the difference, all of it or nothing.
//! Lines say what is to be there, and are told from others by a key: [`place`](::p4::commands::place) has the list. A line whose
//! thing is there already makes it another, and what was there comes back when the line goes with the next configuration. What
//! others have added stays.
//!
//! All lines are one transaction, but for registers, which are written one by one. If one is refused, those that were done are
//! undone. At a start lines add what is missing.
//!
//! Lines that mean something at the start alone are refused if they change ([`P4Entries::fixed`]).
//!
//! Checked by: the tests below; `reload`'s; millrace's `tests/take_over_bridges.rs`.

use ::p4::commands::{Place, Placed, grouped};
use std::collections::{BTreeMap, HashSet};

/// What does the lines.
pub(crate) trait Program {
    /// Where a line stands to what is there.
    fn place(&self, line: &str) -> Result<Place, String>;
    /// Does lines. If one is refused: which, if that is known, and why. The others may be done.
    fn run(&self, lines: &[String]) -> Result<(), (Option<usize>, String)>;
}

/// The lines of a program that runs.
#[derive(Default)]
pub(crate) struct P4Entries {
    lines: Vec<String>,
    /// The same, with multicast groups as one line each.
    things: Vec<String>,
    /// What lines of the last configuration took the place of, as lines.
    replaced: BTreeMap<String, String>,
}

/// What is done for a line.
struct Step {
    line: String,
    goes: bool,
    /// What was there, as a line.
    before: Option<String>,
    command: String,
}

impl Step {
    fn refused(&self, why: &str) -> String {
        let goes = if self.goes { ", which goes" } else { "" };
        format!("entry {:?}{goes}: {why}", self.line)
    }
}

fn live(place: Place) -> Option<Placed> {
    match place {
        Place::Live(placed) => Some(placed),
        Place::Fixed(_) => None,
    }
}

/// The command by which what a line is of becomes that of another line, or goes.
fn command(
    program: &dyn Program,
    there: &Placed,
    wanted: Option<&str>,
) -> Result<Option<String>, String> {
    let Some(wanted) = wanted else { return Ok(there.deletes()) };
    let modifies = live(program.place(wanted)?).and_then(|wanted| there.modifies(&wanted));
    Ok(Some(modifies.unwrap_or_else(|| wanted.to_owned())))
}

/// What a step has done is undone.
fn undo(program: &dyn Program, step: &Step) -> Result<(), String> {
    let Some(there) = live(program.place(&step.line)?) else { return Ok(()) };
    let Some(command) = command(program, &there, step.before.as_deref())? else { return Ok(()) };
    program.run(&[command]).map_err(|(_, why)| why)
}

impl P4Entries {
    /// What there is.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Lines that mean something at the start alone, and that would come, go or change their order: each with the reason.
    pub(crate) fn fixed(
        &self,
        program: &dyn Program,
        to: &[String],
    ) -> Vec<(String, &'static str)> {
        let of = |lines: &[String]| -> Vec<(String, &'static str)> {
            let fixed = |line: &String| match program.place(line) {
                Ok(Place::Fixed(why)) => Some((line.clone(), why)),
                _ => None,
            };
            lines.iter().filter_map(fixed).collect()
        };
        let (was, is) = (of(&self.things), of(&grouped(to)));
        if was == is {
            return Vec::new();
        }
        let comes = is.iter().filter(|one| !was.contains(one));
        let goes = was.iter().filter(|one| !is.contains(one));
        let changed: Vec<_> = goes.chain(comes).cloned().collect();
        if changed.is_empty() { is } else { changed }
    }

    /// Makes the lines these, all of them or nothing. `missing`: what is there under a line's key stays, and lines that mean
    /// something at the start alone have been read.
    pub(crate) fn set(
        &mut self,
        program: &dyn Program,
        to: &[String],
        missing: bool,
    ) -> Result<(), String> {
        if !missing && let Some((line, why)) = self.fixed(program, to).first() {
            return Err(format!("entry {line:?} changes with a restart: {why}"));
        }
        let things = grouped(to);
        let (steps, replaced) = self.steps(program, &things, missing)?;
        let commands: Vec<String> = steps.iter().map(|step| step.command.clone()).collect();
        if let Err((at, why)) = program.run(&commands) {
            for step in steps.iter().rev() {
                if let Err(error) = undo(program, step) {
                    let line = &step.line;
                    tracing::error!(
                        line,
                        error,
                        "an entry is not as it was before a line was refused"
                    );
                }
            }
            let step = at.and_then(|at| steps.get(at));
            return Err(step.map_or_else(|| format!("entry: {why}"), |step| step.refused(&why)));
        }
        (self.lines, self.things, self.replaced) = (to.to_vec(), things, replaced);
        Ok(())
    }

    /// What is to be done, and what lines take the place of then.
    fn steps(
        &self,
        program: &dyn Program,
        to: &[String],
        missing: bool,
    ) -> Result<(Vec<Step>, BTreeMap<String, String>), String> {
        let (mut come, mut replaced) = (BTreeMap::new(), BTreeMap::new());
        let (stays, was): (HashSet<&String>, HashSet<&String>) =
            (to.iter().collect(), self.things.iter().collect());
        // Of another program than the one that they were written for, lines that go mean nothing.
        let gone = self.things.iter().filter(|line| !stays.contains(line));
        let gone: Vec<(&String, Placed)> = gone
            .filter_map(|line| Some((line, program.place(line).ok().and_then(live)?)))
            .collect();
        let of_key: BTreeMap<&String, &String> =
            gone.iter().map(|(line, placed)| (&placed.key, *line)).collect();
        let mut comes = Vec::new();
        for line in to {
            let placed = program.place(line).map_err(|why| format!("entry {line:?}: {why}"))?;
            let Some(placed) = live(placed) else { continue };
            if let Some(other) = come.insert(placed.key.clone(), line) {
                return Err(format!("entry {line:?}: {other:?} says what the same is to be"));
            }
            if was.contains(line) {
                replaced
                    .extend(self.replaced.get_key_value(line).map(|(a, b)| (a.clone(), b.clone())));
                continue;
            }
            match &placed.unsaid {
                Some(_) if missing => continue,
                Some(why) => return Err(format!("entry {line:?}: {why}")),
                None => {}
            }
            match &placed.there {
                Some(_) if missing => continue,
                // Another line of the configuration is no one else's.
                Some(there) => match of_key.get(&placed.key) {
                    None => drop(replaced.insert(line.clone(), there.clone())),
                    Some(old) => {
                        replaced
                            .extend(self.replaced.get(*old).map(|was| (line.clone(), was.clone())));
                    }
                },
                None => {}
            }
            let command = placed.modifies(&placed).unwrap_or_else(|| line.clone());
            let (line, before) = (line.clone(), placed.there);
            comes.push(Step { line, goes: false, before, command });
        }
        // Entries go first, as those that come may need their room; the rest last, as it may be in use.
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for (line, placed) in gone.iter().rev() {
            // Somebody may have taken it away, or made another of it that no line can say: that stays.
            if come.contains_key(&placed.key) || placed.there.is_none() {
                continue;
            }
            let again = self.replaced.get(*line).map(String::as_str);
            let command = command(program, placed, again);
            let command = command.map_err(|why| format!("entry {line:?}, which goes: {why}"))?;
            let Some(command) = command else { continue };
            let (line, before) = ((*line).clone(), placed.there.clone());
            let step = Step { line, goes: true, before, command };
            if placed.is_entry() { first.push(step) } else { last.push(step) }
        }
        Ok((first.into_iter().chain(comes).chain(last).collect(), replaced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::p4::commands::{Blind, place, run};
    use ::p4::control::Control;
    use std::cell::RefCell;
    use std::path::Path;

    const PROGRAM: &str = "#include <v1model.p4>
header e_t { bit<48> dst; bit<48> src; bit<16> type; }
struct h_t { e_t e; } struct m_t { }
parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {
  value_set<bit<16>>(4) known;
  state start { p.extract(h.e); transition select(h.e.type) { known: accept; default: accept; } } }
control V(inout h_t h, inout m_t m) { apply { } }
control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {
  action send(bit<9> port) { s.egress_spec = port; }
  action drop() { mark_to_drop(s); }
  meter(4, MeterType.packets) rate;
  table to { key = { h.e.dst: exact; } actions = { send; drop; } size = 4; }
  table by { key = { h.e.type: ternary; } actions = { send; drop; } }
  apply { to.apply(); by.apply(); bit<2> c; rate.execute_meter(1, c); if (c == 2) { clone(CloneType.I2E, 5); s.mcast_grp = 3; } } }
control E(inout h_t h, inout m_t m, inout standard_metadata_t s) { apply { } }
control C(inout h_t h, inout m_t m) { apply { } }
control D(packet_out p, in h_t h) { apply { p.emit(h.e); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

    struct Alone(RefCell<Control>);

    impl Alone {
        fn new() -> Alone {
            let lowered = crate::program::p4_file::compile_text(Path::new("test.p4"), PROGRAM);
            Alone(RefCell::new(Control::new(lowered.unwrap()).unwrap()))
        }

        /// All that there is.
        fn has(&self) -> Vec<String> {
            let (told, wrong) =
                run("table_dump to\ntable_dump by", &mut self.0.borrow_mut(), &mut Blind);
            assert_eq!(wrong, []);
            let lines = told.iter();
            let mut all: Vec<String> =
                lines.map(|line| line.split('#').next().unwrap().trim().to_owned()).collect();
            let control = self.0.borrow();
            all.extend(control.multicast_groups().map(|(group, copies)| {
                let copies = copies.replicas.iter().map(|r| format!("{}:{}", r.instance, r.port));
                format!("group {group} {}", copies.collect::<Vec<_>>().join(" "))
            }));
            all.extend(control.sessions().map(|(session, of)| {
                let group = control.session_of(session).and_then(|(_, group)| group);
                // What one of a group sends is the group's.
                let replicas = of.replicas.iter().filter(|_| group.is_none());
                format!("session {session} {:?} {group:?}", replicas.collect::<Vec<_>>())
            }));
            let meters = control.names.meters.iter().flat_map(|m| m.first..m.first + m.size);
            all.extend(meters.filter_map(|meter| {
                let rates = control.pipeline.meter(ir::MeterId(meter))?;
                Some(format!("meter {meter} {:?}", rates.bands))
            }));
            let sets = 0..control.names.value_sets.len() as u32;
            all.extend(sets.map(|set| {
                format!("set {set} {:?}", control.pipeline.value_set(ir::ValueSetId(set)))
            }));
            all.sort();
            all
        }
    }

    impl Program for Alone {
        fn place(&self, line: &str) -> Result<Place, String> {
            place(&self.0.borrow(), &mut Blind, line)
        }

        fn run(&self, lines: &[String]) -> Result<(), (Option<usize>, String)> {
            let (_, wrong) = run(&lines.join("\n"), &mut self.0.borrow_mut(), &mut Blind);
            let first = wrong.into_iter().next();
            first.map_or(Ok(()), |wrong| Err((wrong.line.checked_sub(1), wrong.text)))
        }
    }

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn lines_come_change_and_go_and_what_others_added_stays() {
        let (program, mut own) = (Alone::new(), P4Entries::default());
        program.run(&lines(&["table_add to send 9 => 1"])).unwrap();
        let alone = program.has();
        let first =
            lines(&["table_add to send 1 => 1", "table_add by send 0x800&&&0xffff => 2 10"]);
        own.set(&program, &first, false).unwrap();
        assert_eq!(program.has().len(), alone.len() + 2);
        let with_first = program.has();
        let second = lines(&["table_add to send 1 => 3", "table_add by drop 0x800&&&0xffff => 11"]);
        own.set(&program, &second, false).unwrap();
        let told = program.has();
        assert_eq!(told.len(), alone.len() + 2, "another priority is another entry: {told:?}");
        assert!(told.iter().any(|line| line.ends_with(" => 3")), "{told:?}");
        own.set(&program, &first, false).unwrap();
        assert_eq!(program.has(), with_first);
        own.set(&program, &[], false).unwrap();
        assert_eq!(program.has(), alone);
    }

    #[test]
    fn what_a_line_takes_the_place_of_comes_back() {
        let (program, mut own) = (Alone::new(), P4Entries::default());
        program.run(&lines(&["table_add to send 1 => 7"])).unwrap();
        let before = program.has();
        let to = |port: u8| lines(&[&format!("table_add to send 1 => {port}")]);
        own.set(&program, &to(2), false).unwrap();
        own.set(&program, &to(3), false).unwrap();
        assert_ne!(program.has(), before);
        own.set(&program, &[], false).unwrap();
        assert_eq!(program.has(), before);
        // At a start it stays.
        own.set(&program, &to(2), true).unwrap();
        assert_eq!(program.has(), before);
    }

    #[test]
    fn a_line_that_is_refused_leaves_all_as_it_was() {
        let (program, mut own) = (Alone::new(), P4Entries::default());
        own.set(&program, &lines(&["table_add to send 1 => 1", "table_add to drop 2 =>"]), false)
            .unwrap();
        let before = program.has();
        for (bad, why) in [
            ("table_add to sned 5 => 1", "no action `sned`"),
            ("table_add to send 5 => 1000", "needs 10 bits"),
            ("table_add to send 1 => 2", "says what the same is to be"),
            ("table_clear to", "changes with a restart: it says what to do once"),
        ] {
            let all = lines(&["table_add to send 1 => 4", "table_add to send 8 => 1", bad]);
            let refused = own.set(&program, &all, false).unwrap_err();
            assert!(refused.contains(why) && refused.contains("entry \""), "{refused}");
            assert_eq!(program.has(), before, "{bad}");
        }
        // The table is full with the last of them.
        let many: Vec<String> = (1..6).map(|n| format!("table_add to send {n} => 4")).collect();
        assert!(own.set(&program, &many, false).unwrap_err().contains("full"));
        assert_eq!(program.has(), before);
    }

    /// Each kind of line comes, becomes another and goes, beside what others have made.
    #[test]
    fn lines_of_every_kind_come_change_and_go() {
        let (program, mut own) = (Alone::new(), P4Entries::default());
        let alone = program.has();
        let first = [
            "table_set_default to send 1",
            "meter_set_rates rate 1 0.5:10 1:20",
            "pvs_add known 0x800",
            "mc_node_create 7 1 2",
            "mc_mgrp_create 3",
            "mc_node_associate 3 0",
            "mirroring_add 5 4",
            "table_add to send 1 => 1",
        ];
        own.set(&program, &lines(&first), false).unwrap();
        let with_first = program.has();
        for is in ["group 3 7:1 7:2", "I.send 1"] {
            assert!(with_first.iter().any(|line| line.contains(is)), "{is}: {with_first:?}");
        }
        let second = [
            "table_set_default to drop",
            "meter_set_rates rate 1 1:10 2:20",
            "meter_set_rates rate 2 1:10",
            "pvs_add known 0x806",
            "mc_node_create 8 6",
            "mc_mgrp_create 3",
            "mc_node_associate 3 0",
            "mc_mgrp_create 4",
            "mirroring_add_mc 6 4",
            "mirroring_add 5 3",
        ];
        own.set(&program, &lines(&second), false).unwrap();
        let with_second = program.has();
        for is in ["group 3 8:6", "group 4 ", "session 6 [] Some(4)", "I.drop"] {
            assert!(with_second.iter().any(|line| line.contains(is)), "{is}: {with_second:?}");
        }
        assert!(!with_second.iter().any(|line| line.contains("table_add")), "{with_second:?}");
        own.set(&program, &lines(&first), false).unwrap();
        assert_eq!(program.has(), with_first);
        own.set(&program, &[], false).unwrap();
        assert_eq!(program.has(), alone);
    }

    #[test]
    fn what_lines_of_every_kind_take_the_place_of_comes_back() {
        let theirs = [
            "table_set_default by send 1",
            "meter_set_rates rate 0 1.5:7",
            "mc_mgrp_set 3 1:1 2:1",
            "mirroring_add_mc 5 3",
            "pvs_add known 7",
        ];
        let ours = lines(&[
            "table_set_default by send 2",
            "meter_set_rates rate 0 2:7 3:7",
            "mc_mgrp_create 3",
            "mirroring_add 5 3",
            "pvs_add known 8",
        ]);
        // At a start what is there stays, and the rest is added.
        let program = Alone::new();
        program.run(&lines(&theirs)).unwrap();
        let before = program.has();
        P4Entries::default().set(&program, &ours, true).unwrap();
        let mut with_missing = program.has();
        with_missing.retain(|line| !before.contains(line));
        assert!(with_missing.len() == 1 && with_missing[0].starts_with("set "), "{with_missing:?}");
        let (program, mut own) = (Alone::new(), P4Entries::default());
        program.run(&lines(&theirs)).unwrap();
        own.set(&program, &ours, false).unwrap();
        assert_ne!(program.has(), before);
        // One that is refused has all the others undone.
        let with_ours = program.has();
        let bad = lines(&[
            "table_set_default by send 3",
            "meter_set_rates rate 3 2:7 3:7",
            "mc_mgrp_create 9",
            "pvs_add known 9",
            "table_add to send 1 => 1",
            "table_add to send 2 => 1",
            "table_add to send 3 => 1",
            "table_add to send 4 => 1",
            "table_add to send 5 => 1",
            "mirroring_add 5 9",
        ]);
        let refused = own.set(&program, &bad, false).unwrap_err();
        assert!(
            refused.contains("table_add to send 5 => 1") && refused.contains("full"),
            "{refused}"
        );
        assert_eq!(program.has(), with_ours);
        own.set(&program, &[], false).unwrap();
        assert_eq!(program.has(), before);
    }

    /// What P4Runtime has made of a session stays, at a start and when the line goes, and is in the way of another line.
    #[test]
    fn what_no_line_can_say_stays() {
        let (program, mut own) = (Alone::new(), P4Entries::default());
        let replica = |port| ::p4::control::multicast::Replica {
            port,
            instance: 0,
            numbered: false,
            backups: Vec::new(),
        };
        let of = ::p4::control::multicast::Session {
            replicas: vec![replica(1), replica(2)],
            cut: Default::default(),
        };
        program.0.borrow_mut().session_insert(5, of).unwrap();
        let before = program.has();
        let refused = own.set(&program, &lines(&["mirroring_add 5 3"]), false).unwrap_err();
        assert!(refused.contains("was made by P4Runtime"), "{refused}");
        own.set(&program, &lines(&["mirroring_add 5 3"]), true).unwrap();
        own.set(&program, &lines(&["mirroring_add 5 3", "mirroring_add 6 3"]), false).unwrap();
        assert_eq!(program.has().len(), before.len() + 1);
        own.set(&program, &[], false).unwrap();
        assert_eq!(program.has(), before);
    }

    #[test]
    fn lines_that_mean_something_in_their_order_are_told_with_the_reason() {
        let (program, mut own) = (Alone::new(), P4Entries::default());
        let start =
            lines(&["table_add to send 1 => 1", "table_set_timeout to 0 500", "show_tables"]);
        own.set(&program, &start, true).unwrap();
        let why = |own: &P4Entries, to: &[&str]| -> Vec<String> {
            let fixed = own.fixed(&program, &lines(to));
            fixed.into_iter().map(|(line, why)| format!("{line}: {why}")).collect()
        };
        let same = ["table_add to send 2 => 1", "table_set_timeout to 0 500", "show_tables"];
        assert!(why(&own, &same).is_empty());
        own.set(&program, &lines(&same), false).unwrap();
        let other = why(&own, &[same[0], "table_set_timeout to 0 600", same[2]]);
        assert!(other.len() == 2 && other[0].contains("by its handle"), "{other:?}");
        assert_eq!(why(&own, &[same[0], same[2], same[1]]).len(), 2, "the order");
        for (line, reason) in [
            ("mc_node_associate 3 4", "not all that these name come from lines"),
            ("act_prof_create_group p", "members or groups"),
            ("meter_array_set_rates rate 1:1", "for each"),
            ("set_crc16_parameters c 1 0 0 0 0", "another program"),
            ("table_delete to 0", "by its handle"),
            ("register_reset r", "what to do once"),
        ] {
            let told = why(&own, &[same[0], same[1], same[2], line]);
            assert!(told.len() == 1 && told[0].contains(reason), "{told:?}");
        }
        let refused = own.set(&program, &lines(&["table_add to send 2 => 1"]), false).unwrap_err();
        assert!(refused.contains("changes with a restart"), "{refused}");
    }
}
