//! Entries of a P4 program that a configuration has itself: lines `table_add`, which come and go while packets pass.
//!
//! In: the lines that there were, and those that there are to be. Out: the program's tables have the difference, all of it or
//! nothing. An entry is told from others by its table, keys and priority: a line whose entry is there already gives it another
//! action, and what was there comes back when the line goes with the next configuration. What others have added stays.
//!
//! Lines go one by one, so packets may meet some of them before the others. A line that is refused has those before it undone.
//! At a start lines add what is missing. Other lines of `entry` are read at the start, and change with a restart.
//!
//! Checked by: the tests below; `reload`'s.

use ::p4::commands::Placed;
use std::collections::BTreeMap;

/// What does the lines.
pub(crate) trait Program {
    /// Where a line stands to what is there.
    fn place(&self, line: &str) -> Result<Placed, String>;
    /// Does a line.
    fn run(&self, line: &str) -> Result<(), String>;
}

/// The lines of a program that runs.
#[derive(Default)]
pub(crate) struct P4Entries {
    lines: Vec<String>,
    /// What lines of the last configuration took the place of, as lines.
    replaced: BTreeMap<String, String>,
}

/// The entry that a line is of becomes that of another line, or goes.
fn make(program: &dyn Program, line: &str, wanted: Option<&str>) -> Result<(), String> {
    let there = program.place(line)?;
    let run = match wanted {
        None => there.deletes(),
        Some(wanted) => {
            let modifies = there.modifies(&program.place(wanted)?);
            modifies.or_else(|| Some(wanted.to_owned()))
        }
    };
    run.map_or(Ok(()), |line| program.run(&line))
}

impl P4Entries {
    /// What there is.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Makes the lines these, all of them or nothing. `missing`: what is there under a line's key stays.
    pub(crate) fn set(
        &mut self,
        program: &dyn Program,
        to: &[String],
        missing: bool,
    ) -> Result<(), String> {
        let mut undo: Vec<(&str, Option<String>)> = Vec::new();
        let done = self.change(program, to, missing, &mut undo);
        match done {
            Ok(replaced) => {
                self.replaced = replaced;
                self.lines = to.to_vec();
                Ok(())
            }
            Err(why) => {
                for (line, before) in undo.iter().rev() {
                    if let Err(error) = make(program, line, before.as_deref()) {
                        tracing::error!(
                            line,
                            error,
                            "an entry is not as it was before a line was refused"
                        );
                    }
                }
                Err(why)
            }
        }
    }

    fn change<'a>(
        &'a self,
        program: &dyn Program,
        to: &'a [String],
        missing: bool,
        undo: &mut Vec<(&'a str, Option<String>)>,
    ) -> Result<BTreeMap<String, String>, String> {
        let (mut come, mut replaced) = (BTreeMap::new(), BTreeMap::new());
        let of = |line: &str| {
            let line = line.to_owned();
            move |why| format!("entry {line:?}: {why}")
        };
        // Of another program than the one that they were written for, lines that go mean nothing.
        let gone = self.lines.iter().filter(|line| !to.contains(line));
        let gone: Vec<(&String, Placed)> =
            gone.filter_map(|line| Some((line, program.place(line).ok()?))).collect();
        for line in to {
            let placed = program.place(line).map_err(of(line))?;
            if let Some(other) = come.insert(placed.key.clone(), line) {
                return Err(format!(
                    "entry {line:?}: {other:?} has the same table, keys and priority"
                ));
            }
            if self.lines.contains(line) {
                replaced
                    .extend(self.replaced.get_key_value(line).map(|(a, b)| (a.clone(), b.clone())));
                continue;
            }
            match &placed.there {
                Some(_) if missing => continue,
                // Another line of the configuration is no one else's entry.
                Some(there) => match gone.iter().find(|(_, one)| one.key == placed.key) {
                    None => drop(replaced.insert(line.clone(), there.clone())),
                    Some((old, _)) => {
                        replaced
                            .extend(self.replaced.get(*old).map(|was| (line.clone(), was.clone())));
                    }
                },
                None => {}
            }
            undo.push((line, placed.there));
            make(program, line, Some(line)).map_err(of(line))?;
        }
        for (line, placed) in gone.into_iter().rev() {
            // Somebody may have taken it away.
            if come.contains_key(&placed.key) || placed.there.is_none() {
                continue;
            }
            undo.push((line, placed.there));
            let again = self.replaced.get(line).map(String::as_str);
            make(program, line, again)
                .map_err(|why| format!("entry {line:?}, which goes: {why}"))?;
        }
        Ok(replaced)
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
parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) { state start { p.extract(h.e); transition accept; } }
control V(inout h_t h, inout m_t m) { apply { } }
control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {
  action send(bit<9> port) { s.egress_spec = port; }
  action drop() { mark_to_drop(s); }
  table to { key = { h.e.dst: exact; } actions = { send; drop; } size = 4; }
  table by { key = { h.e.type: ternary; } actions = { send; drop; } }
  apply { to.apply(); by.apply(); } }
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
            let lines = told.iter().filter(|line| line.starts_with("table_add"));
            let mut all: Vec<String> =
                lines.map(|line| line.split('#').next().unwrap().trim().to_owned()).collect();
            all.sort();
            all
        }
    }

    impl Program for Alone {
        fn place(&self, line: &str) -> Result<Placed, String> {
            place(&self.0.borrow(), line)
        }

        fn run(&self, line: &str) -> Result<(), String> {
            let (_, wrong) = run(line, &mut self.0.borrow_mut(), &mut Blind);
            wrong.into_iter().next().map_or(Ok(()), |wrong| Err(wrong.text))
        }
    }

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn lines_come_change_and_go_and_what_others_added_stays() {
        let (program, mut own) = (Alone::new(), P4Entries::default());
        program.run("table_add to send 9 => 1").unwrap();
        let alone = program.has();
        let first =
            lines(&["table_add to send 1 => 1", "table_add by send 0x800&&&0xffff => 2 10"]);
        own.set(&program, &first, false).unwrap();
        assert_eq!(program.has().len(), 3);
        let with_first = program.has();
        let second = lines(&["table_add to send 1 => 3", "table_add by drop 0x800&&&0xffff => 11"]);
        own.set(&program, &second, false).unwrap();
        let told = program.has();
        assert_eq!(told.len(), 3, "another priority is another entry: {told:?}");
        assert!(told.iter().any(|line| line.ends_with(" => 3")), "{told:?}");
        own.set(&program, &first, false).unwrap();
        assert_eq!(program.has(), with_first);
        own.set(&program, &[], false).unwrap();
        assert_eq!(program.has(), alone);
    }

    #[test]
    fn what_a_line_takes_the_place_of_comes_back() {
        let (program, mut own) = (Alone::new(), P4Entries::default());
        program.run("table_add to send 1 => 7").unwrap();
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
            ("table_add to send 1 => 2", "has the same table, keys and priority"),
            ("table_clear to", "write `table_add"),
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
}
