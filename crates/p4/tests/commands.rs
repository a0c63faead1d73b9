//! Entries as text: what is done, what is told, what is refused and how; and programs swapped.

mod common;

use common::{compile, control, files, folder};
use ir::{Bits, EntryId, Pipeline, RegisterId, TableId, Update};
use p4::commands::{Blind, Plane, Wrong, run};
use p4::control::Control;
use std::collections::HashMap;
use std::path::Path;

/// A plane that keeps a pipeline of its own, as a switch does.
struct Follower {
    pipeline: Pipeline,
    cells: HashMap<(u32, u32), Bits>,
}

impl Follower {
    fn of(control: &Control) -> Follower {
        let mut pipeline = Pipeline::new(control.pipeline.program().clone()).unwrap();
        pipeline.transact(&control.pipeline.contents()).unwrap();
        Follower { pipeline, cells: HashMap::new() }
    }
}

impl Plane for Follower {
    fn update(&mut self, updates: &[Update]) -> Result<(), String> {
        self.pipeline.transact(updates).map(|_| ()).map_err(|(_, e)| e.to_string())
    }
    fn register(&mut self, r: RegisterId, i: u32) -> Result<Option<Bits>, String> {
        let width = self.pipeline.program().registers[r.index()].width;
        Ok(Some(self.cells.get(&(r.0, i)).cloned().unwrap_or(Bits::zero(width))))
    }
    fn set_register(&mut self, r: RegisterId, i: u32, to: &Bits) -> Result<(), String> {
        self.cells.insert((r.0, i), to.clone());
        Ok(())
    }
    fn counter(&mut self, _: u32, i: u32) -> Result<Option<(u64, u64)>, String> {
        Ok((i < 4).then_some((u64::from(i), 64 * u64::from(i))))
    }
    fn reset_counter(&mut self, _: u32, _: u32) -> Result<(), String> {
        Ok(())
    }
    fn entry(&mut self, e: EntryId) -> Result<(u64, u64), String> {
        Ok((e.0.into(), 0))
    }
    fn reset_entry(&mut self, _: EntryId) -> Result<(), String> {
        Ok(())
    }
    fn table(&mut self, _: TableId) -> Result<(u64, u64), String> {
        Ok((0, 0))
    }
}

const EVERYTHING: &str = include_str!("../../../filetests/p4/everything.p4");

fn everything() -> Control {
    Control::new(compile(Path::new("everything.p4"), EVERYTHING)).unwrap()
}

/// Does lines; all of them are right. What they told.
#[track_caller]
fn good(control: &mut Control, plane: &mut Follower, text: &str) -> String {
    let (told, wrong) = run(text, control, plane);
    assert_eq!(wrong, Vec::<Wrong>::new());
    assert_eq!(
        ir::text::print_pipeline(&control.pipeline).replace(' ', ""),
        ir::text::print_pipeline(&plane.pipeline).replace(' ', ""),
        "the switch has what control has"
    );
    told.join("\n")
}

/// What is told of a line that is refused; it changes nothing.
#[track_caller]
fn refused(control: &mut Control, line: &str) -> String {
    let before = ir::text::print_pipeline(&control.pipeline);
    let (_, wrong) = run(&format!("\n{line}"), control, &mut Blind);
    assert_eq!(wrong.len(), 1, "{line} is taken");
    assert_eq!(wrong[0].line, 2);
    assert_eq!(before, ir::text::print_pipeline(&control.pipeline));
    wrong[0].text.clone()
}

#[test]
fn entries_of_every_kind_are_added_dumped_and_taken_away() {
    let (mut c, p) = (everything(), &mut Follower::of(&everything()));
    let told = good(
        &mut c,
        p,
        "table_add exactly go 1 0x10 => 3   # a comment
         table_add I.exactly I.group kind=7 h.h.a=10.0.0.1 => g=9
         table_add longest go 10.0.0.0/8 => 1
         table_add longest go 0/0 => 2
         table_add many go 0x0a000000 &&& 0xff000000 1 -> 5 * => 4 10
         table_add many go 0&&&0 0..255 7 => 5 20",
    );
    assert_eq!(told, "handle 0\nhandle 1\nhandle 0\nhandle 1\nhandle 0\nhandle 1");
    let dump = good(&mut c, p, "table_dump exactly");
    assert!(dump.starts_with("table_add I.exactly I.go 0x1 16 => 3  # handle 0, "), "{dump}");
    let dump = good(&mut c, p, "table_dump many\ntable_num_entries many");
    assert_eq!(
        dump,
        "table_add I.many I.go 0xa000000&&&0xff000000 1->5 * => 4 10  # handle 0\n\
         table_add I.many I.go 0&&&0 0->255 7 => 5 20  # handle 1\n2"
    );
    // A smaller number wins.
    let table = c.table("many").unwrap().id;
    let best = c.pipeline.entries(table).iter().next().unwrap();
    assert_eq!(best.priority, -10);
    // What a dump prints, another switch reads.
    let (mut again, q) = (everything(), &mut Follower::of(&everything()));
    good(&mut again, q, &dump[..dump.rfind('\n').unwrap()]);
    assert_eq!(good(&mut again, q, "table_dump many"), good(&mut c, p, "table_dump many"));
    good(&mut c, p, "table_modify exactly go 1 => 8\ntable_delete exactly 0\ntable_clear many");
    assert!(good(&mut c, p, "table_dump_entry exactly 1").contains("I.go 0xa000001 7 => 8"));
    assert_eq!(good(&mut c, p, "table_add exactly go 1 0x10 => 3"), "handle 2");
    good(&mut c, p, "table_set_default longest go 5\ntable_reset_default longest");
    assert_eq!(c.retired.len(), 3);
}

#[test]
fn what_is_wrong_is_told_with_what_would_be_right() {
    let mut c = everything();
    good(&mut c, &mut Follower::of(&everything()), "table_add longest go 10.0.0.0/8 => 1");
    for (line, told) in [
        ("table_ad x y", "there is no command `table_ad`; the nearest is `table_add`"),
        (
            "table_add exactly",
            "write `table_add TABLE ACTION KEY ... => [ARGUMENT ...] [PRIORITY]`",
        ),
        ("table_add exacty go 1 2 => 3", "there is no table `exacty`; the nearest is `exactly`"),
        ("table_add exactly gone 1 2 => 3", "has no action `gone`; it has I.go, I.group"),
        ("table_add exactly go 1 2 3", "`=>` is missing between the keys (h.h.a, kind)"),
        (
            "table_add exactly go 1 => 3",
            "has 2 keys, not 1: h.h.a (exact, 32 bits), kind (exact, 16 bits)",
        ),
        ("table_add exactly go 1 70000 => 3", "`70000` needs 17 bits and has 16"),
        ("table_add exactly go 1 x => 3", "`x` is no number"),
        ("table_add exactly go 1 2/8 => 3", "a prefix for the key `kind`, which is exact"),
        (
            "table_add exactly go 1 2 => 512",
            "`I.go`, parameter `port`: `512` needs 10 bits and has 9",
        ),
        ("table_add exactly go 1 2 => 1 2", "`I.go` takes 1 arguments, not 2: port (9 bits)"),
        ("table_add exactly go 1 2 =>", "`I.go` takes 1 arguments, not 0: port (9 bits)"),
        ("table_add longest go 10.0.0.0/33 => 1", "a prefix of the key `h.h.a` has 0 to 32 bits"),
        ("table_add longest go 10.0.0.0/8 => 4", "entry"),
        ("table_add longest drop 11.0.0.0/8 =>", "`I.drop` is @defaultonly"),
        ("table_add many go 1&&&1 1->2 3 => 4", "needs a priority after the arguments"),
        ("table_add many go 1&&&1 1->2 3 => 4 high", "`high` is no priority"),
        ("table_add many go 1&&&1 5->2 3 => 4 1", "ends before it begins"),
        ("table_add fixed go 3 => 1", "has const entries"),
        ("table_clear fixed", "has const entries"),
        ("table_delete fixed 0", "has const entries"),
        ("table_delete longest 7", "no entry with the handle 7: it was never given"),
        (
            "table_set_timeout longest 0 5",
            "of the table `I.longest` have no timeouts: it lacks `support_timeout = true`",
        ),
        ("register_write lost 0 1", "there is no register `lost`; the nearest is `last`"),
        ("register_write last 3 1", "the register `I.last` has 3 cells: 0 to 2"),
        ("register_write last 0 0x1000000", "needs 25 bits and has 24"),
        ("counter_read hitz 0", "there is no counter `hitz`"),
        ("meter_set_rates rate 0 fast", "write RATE:BURST"),
        ("meter_set_rates rate 0 2:1 1:1", "the first rate"),
        ("meter_set_rates rate 2 1:1", "has 2 cells: 0 to 1"),
        ("mc_node_associate 1 0", "there is no multicast node 0"),
        ("mc_mgrp_create 0", "numbers from 1"),
        ("mc_node_create 1 600", "`600` is no port: 0 to 511 are"),
        ("mirroring_delete 4", "there is no mirroring session 4"),
        ("pvs_remove seen 4", "`4` is not in"),
        ("pvs_add sen 4", "there is no value set `sen`"),
        ("act_prof_create_member p a", "there is no action profile `p`; the program has none"),
        ("table_indirect_add exactly 1 2 => 0", "the table `I.exactly` has no action profile"),
        ("meter_set_rates rat 0 1:1", "there is no meter `rat`; the nearest is `rate`"),
    ] {
        let text = refused(&mut c, line);
        assert!(text.contains(told), "{line}: {text}");
    }
}

#[test]
fn groups_sessions_registers_meters_and_value_sets() {
    let (mut c, p) = (everything(), &mut Follower::of(&everything()));
    let told = good(
        &mut c,
        p,
        "mc_mgrp_create 1\nmc_node_create 0 1 2\nmc_node_create 1 3\nmc_node_associate 1 0
         mc_node_associate 1 1\nmirroring_add 5 7\nmirroring_add_mc 5 1\nmirroring_add 6 2",
    );
    assert_eq!(told, "node 0\nnode 1");
    let group = |p: &Follower| p.pipeline.group(ir::GroupId(1)).unwrap().buckets.len();
    assert_eq!(group(p), 3);
    good(&mut c, p, "mc_node_update 0 4\nmc_node_destroy 1\nmirroring_delete 6");
    assert_eq!(group(p), 1);
    // A group that a session sends to stays; one that none does any more may go.
    let told = refused(&mut c, "mc_mgrp_destroy 1");
    assert!(told.contains("a mirroring session sends to the multicast group 1"), "{told}");
    good(&mut c, p, "mirroring_add_mc 7 1\nmirroring_add 5 3");
    assert!(refused(&mut c, "mc_mgrp_destroy 1").contains("sends to the multicast group 1"));
    good(&mut c, p, "mirroring_delete 7\nmc_mgrp_destroy 1\nmc_mgrp_set 1 0:4 7:5");
    assert_eq!(group(p), 2);
    good(&mut c, p, "mc_mgrp_set 1 0:4");
    assert_eq!(group(p), 1);
    good(&mut c, p, "mirroring_delete 5\nregister_write last 1 0xabc");
    assert_eq!(
        good(&mut c, p, "register_read last\nregister_read last 1"),
        "I.last = 0x0, 0xabc, 0x0\nI.last[1] = 0xabc"
    );
    good(&mut c, p, "register_reset last");
    assert_eq!(good(&mut c, p, "register_read last 1"), "I.last[1] = 0x0");
    assert_eq!(good(&mut c, p, "counter_read hits 3"), "I.hits[3]: 3 packets, 192 bytes");
    good(&mut c, p, "table_add exactly go 1 2 => 3");
    assert!(good(&mut c, p, "counter_read used 0").starts_with("I.used[0]: "));
    good(&mut c, p, "meter_set_rates rate 1 0.001:5 0.002:6");
    assert_eq!(
        good(&mut c, p, "meter_get_rates rate 1\nmeter_get_rates rate 0"),
        "I.rate[1]: 1000 packets/s, burst 5 packets; 2000 packets/s, burst 6 packets\n\
         I.rate[0]: no rates: everything is green"
    );
    good(&mut c, p, "pvs_add seen 0x800\npvs_add seen 6&&&7\npvs_remove seen 0x800");
    assert!(good(&mut c, p, "pvs_get seen").ends_with("seen: 6&&&7"));
    let info = good(&mut c, p, "table_info many");
    assert!(info.contains("keys h.h.a (ternary, 32 bits), h.h.c (range, 8 bits)"), "{info}");
    assert!(good(&mut c, p, "show_actions").contains("I.go(port: 9 bits)"));
}

const PROFILES: &str = include_str!("../../../filetests/p4/profiles.p4");

fn profiles() -> Control {
    Control::new(compile(Path::new("profiles.p4"), PROFILES)).unwrap()
}

#[test]
fn members_and_groups_are_shared_and_dumped() {
    let (mut c, p) = (profiles(), &mut Follower::of(&profiles()));
    let told = good(
        &mut c,
        p,
        "act_prof_create_member shared send 1\nact_prof_create_member shared mark 2 0x42
         table_indirect_add first 1 => 0\ntable_indirect_add second 1&&&3 => 1 5
         act_prof_create_member balanced send 3\nact_prof_create_member balanced send 4
         act_prof_create_group balanced\nact_prof_add_member_to_group balanced 1 0
         table_indirect_add_with_group spread 0x10/4 => 0
         table_indirect_set_default spread 0",
    );
    assert_eq!(
        told,
        "member 0\nmember 1\nhandle 0\nhandle 0\nmember 0\nmember 1\ngroup 0\nhandle 0"
    );
    assert_eq!(
        good(&mut c, p, "act_prof_dump balanced\nact_prof_dump_member shared 1"),
        "act_prof_create_member I.balanced I.send 3  # member 0\n\
         act_prof_create_member I.balanced I.send 4  # member 1\n\
         act_prof_create_group I.balanced  # group 0, members 1\n\
         act_prof_create_member I.shared I.mark 2 66  # member 1"
    );
    assert_eq!(
        good(&mut c, p, "table_dump spread"),
        "table_indirect_add_with_group I.spread 16/4 => 0  # handle 0\n\
         table_indirect_set_default I.spread 0"
    );
    assert!(
        good(&mut c, p, "table_dump second")
            .starts_with("table_indirect_add I.second 1&&&3 => 1 5  # handle 0")
    );
    // Entries may have actions of their own, too.
    good(&mut c, p, "table_add first mark 2 => 7 8\ntable_modify first send 0 9");
    let places = |p: &Follower| p.pipeline.entries(c_members(&p.pipeline)).len();
    assert_eq!(places(p), 1);
    good(&mut c, p, "act_prof_add_member_to_group balanced 0 0");
    assert_eq!(places(p), 2);
    for (line, told) in [
        ("act_prof_delete_member balanced 1", "the group 0 has the member 1"),
        ("act_prof_delete_member shared 1", "entries of `I.second` refer to it"),
        ("act_prof_delete_group balanced 0", "entries of `I.spread` refer to it"),
        ("act_prof_create_group shared", "which has no groups"),
        ("act_prof_add_member_to_group balanced 0 0", "has the member 0 already"),
        ("act_prof_add_member_to_group balanced 7 0", "has no member 7"),
        ("act_prof_add_member_to_group balanced 0 3", "has no group 3"),
        ("table_indirect_add first 3 => 9", "`I.shared` has no member 9"),
        ("table_indirect_add_with_group first 3 => 0", "has no group 0"),
        ("table_indirect_add second 1&&&2 => 1", "needs a priority"),
        ("table_indirect_add first 3 => 0 1", "the handle of one member"),
        ("act_prof_modify_member shared gone 1", "has no action `gone`"),
        ("act_prof_dump_group balanced 5", "none with the handle 5"),
        ("meter_set_rates I.rate 4 1:1", "has no entry with the handle 4"),
    ] {
        let text = refused(&mut c, line);
        assert!(text.contains(told), "{line}: {text}");
    }
    // Member 0 of `shared` was left by the entry that got an action.
    good(&mut c, p, "act_prof_delete_member shared 0\nact_prof_create_member shared drop");
    good(&mut c, p, "act_prof_create_member shared drop\nact_prof_create_member shared drop");
    assert!(refused(&mut c, "act_prof_create_member shared drop").contains("it has 4 members"));
    good(
        &mut c,
        p,
        "table_indirect_delete spread 0\ntable_indirect_reset_default spread
         act_prof_delete_group balanced 0\nact_prof_delete_member balanced 1",
    );
    assert_eq!(places(p), 0);
}

/// The table of `spread`'s members.
fn c_members(pipeline: &Pipeline) -> TableId {
    pipeline.program().find_table("v1.members.I.spread").unwrap()
}

#[test]
fn meters_of_entries_come_and_go_with_them() {
    let (mut c, p) = (profiles(), &mut Follower::of(&profiles()));
    good(
        &mut c,
        p,
        "table_add limited metered 1 => 3\ntable_add limited drop 2 =>
         meter_set_rates rate 0 0.001:5 0.002:6\ntable_modify limited metered 0 => 4",
    );
    assert!(
        good(&mut c, p, "table_dump limited")
            .starts_with("table_add I.limited I.metered 1 => 4  #")
    );
    assert_eq!(
        good(&mut c, p, "meter_get_rates I.rate 0\nmeter_get_rates rate 1"),
        "I.rate[0]: 1000 packets/s, burst 5 packets; 2000 packets/s, burst 6 packets\n\
         I.rate[1]: no rates: everything is green"
    );
    let (updates, carried) = c.swap(compile(Path::new("next.p4"), PROFILES)).unwrap();
    p.update(&updates).unwrap();
    assert_eq!((carried.entries, carried.left.len()), (2, 0));
    assert!(good(&mut c, p, "meter_get_rates rate 0").contains("1000 packets/s"));
    let entry = c.entry("limited", 0).unwrap().1;
    assert!(p.pipeline.meter(ir::MeterId(0x8000_0000 | entry.0)).is_some());
    good(&mut c, p, "table_delete limited 0");
    assert!(p.pipeline.meter(ir::MeterId(0x8000_0000 | entry.0)).is_none());
}

#[test]
fn members_and_groups_come_along_to_another_program() {
    let (mut c, p) = (profiles(), &mut Follower::of(&profiles()));
    good(
        &mut c,
        p,
        "act_prof_create_member balanced send 3\nact_prof_create_member balanced mark 4 5
         act_prof_create_group balanced\nact_prof_add_member_to_group balanced 0 0
         act_prof_add_member_to_group balanced 1 0
         table_indirect_add_with_group spread 0x10/4 => 0\ntable_indirect_add spread 0x11/8 => 1
         act_prof_create_member shared send 1\ntable_indirect_add first 1 => 0
         table_indirect_set_default_with_group spread 0",
    );
    // `spread` loses `mark`, and with it a member.
    let text = PROFILES.replace(
        "hdr.h.flow: selector; }\n        actions = { send; mark; drop; }",
        "hdr.h.flow: selector; }\n        actions = { send; drop; }",
    );
    let text = text.replacen("                mark: { hdr.h.color = 0x77; }\n                send: { hdr.h.color = 0x88; }\n                default", "                send: { hdr.h.color = 0x88; }\n                default", 1);
    assert_ne!(text, PROFILES);
    let (updates, carried) = c.swap(compile(Path::new("next.p4"), &text)).unwrap();
    p.update(&updates).unwrap();
    assert_eq!(carried.entries, 2, "{carried:?}");
    assert_eq!(carried.left.len(), 2, "{carried:?}");
    assert_eq!(p.pipeline.entries(c_members(&p.pipeline)).len(), 1);
    let dump = good(&mut c, p, "table_dump spread\nact_prof_dump balanced");
    assert!(dump.contains("table_indirect_add_with_group I.spread 16/4 => 0"), "{dump}");
    assert!(dump.contains("table_indirect_set_default_with_group I.spread 0"), "{dump}");
    assert!(dump.ends_with("# group 0, members 0"), "{dump}");
    // A new member takes the next handle.
    assert_eq!(good(&mut c, p, "act_prof_create_member balanced send 9"), "member 2");
    good(&mut c, p, "act_prof_add_member_to_group balanced 2 0");
    assert_eq!(p.pipeline.entries(c_members(&p.pipeline)).len(), 2);
}

#[test]
fn idle_timeouts_come_along_where_the_table_has_them() {
    let (mut c, p) = (everything(), &mut Follower::of(&everything()));
    good(&mut c, p, "table_add exactly go 1 2 => 3\ntable_set_timeout exactly 0 5");
    let idle_ns = |c: &Control| {
        let (table, entry) = c.entry("exactly", 0).unwrap();
        c.pipeline.entries(table).get(entry).unwrap().idle_timeout_ns
    };
    assert_eq!(idle_ns(&c), 5_000_000);
    assert!(good(&mut c, p, "table_dump exactly").contains("told of when idle for 5 ms"));
    good(&mut c, p, "table_modify exactly group 0 => 3");
    assert_eq!(idle_ns(&c), 5_000_000, "another action changes nothing of it");
    let (updates, _) = c.swap(compile(Path::new("next.p4"), EVERYTHING)).unwrap();
    p.update(&updates).unwrap();
    assert_eq!(idle_ns(&c), 5_000_000);
    let without = EVERYTHING.replace("support_timeout = true;", "support_timeout = false;");
    let (updates, carried) = c.swap(compile(Path::new("next.p4"), &without)).unwrap();
    p.update(&updates).unwrap();
    assert_eq!((idle_ns(&c), carried.entries), (0, 1));
    assert!(refused(&mut c, "table_set_timeout exactly 0 5").contains("lacks `support_timeout"));
    assert!(refused(&mut c, "table_set_timeout exactly 0").contains("TABLE HANDLE MILLISECONDS"));
}

#[test]
fn another_program_gets_what_fits_it() {
    let (mut c, p) = (everything(), &mut Follower::of(&everything()));
    good(
        &mut c,
        p,
        "table_add exactly go 1 2 => 3\ntable_add exactly group 2 2 => 3
         table_add longest go 10.0.0.0/8 => 1\ntable_add many go 1&&&1 1->2 3 => 4 5
         table_set_default longest go 9\nmc_mgrp_create 1\nmc_node_create 0 1\nmc_node_associate 1 0
         mirroring_add 5 7\nmeter_set_rates rate 1 0.001:5\npvs_add seen 0x800",
    );
    let ids = |c: &Control| -> Vec<u32> {
        let t = c.table("exactly").unwrap().id;
        c.handles(t).map(|(_, e)| e.0).collect()
    };
    let before = ids(&c);
    // `many` has another key, `exactly` lost an action, a table came, tables stand in another order.
    let text = EVERYTHING
        .replace("h.h.d: optional", "h.h.d: ternary")
        .replace("actions = { go; group; } counters", "actions = { go; } counters")
        .replace(
            "    table exactly",
            "    table first { key = { h.h.b: exact; } actions = { go; } }\n    table exactly",
        )
        .replace("exactly.apply();", "first.apply(); exactly.apply();");
    let (updates, carried) = c.swap(compile(Path::new("next.p4"), &text)).unwrap();
    let version = p.pipeline.version();
    p.update(&updates).unwrap();
    assert_eq!(p.pipeline.version(), version + 1, "one step");
    assert_eq!(carried.entries, 3, "{carried:?}");
    assert_eq!(carried.left.len(), 2, "{carried:?}");
    assert!(carried.left.contains(&"I.many: 1 entries, as its keys are others now".to_string()));
    assert!(carried.left.iter().any(|l| l.contains("no action `I.group` any more")), "{carried:?}");
    assert_eq!(ids(&c), before[..1], "entries keep their counters");
    let told = good(&mut c, p, "table_dump longest\nmeter_get_rates rate 1\npvs_get seen");
    assert!(told.contains("table_add I.longest I.go 0xa000000/8 => 1"), "{told}");
    assert!(told.contains("table_set_default I.longest I.go 9"), "{told}");
    assert!(told.contains("1000 packets/s") && told.contains("seen: 2048"), "{told}");
    assert!(p.pipeline.group(ir::GroupId(1)).is_some());
    // Ids of what was left behind are free: two entries, and the two that the program itself had.
    assert_eq!(c.retired.len(), 4);
    // And back again.
    let (updates, carried) = c.swap(compile(Path::new("e.p4"), EVERYTHING)).unwrap();
    p.update(&updates).unwrap();
    assert_eq!((carried.entries, carried.left.len()), (3, 0));
    good(&mut c, p, "table_add many go 1&&&1 1->2 3 => 4 5");
}

#[test]
fn entries_of_the_examples_are_right() {
    for path in files("examples/p4", "txt") {
        let program = path.with_extension("p4");
        let mut c = control(&program);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut plane = Follower::of(&c);
        let (_, wrong) = run(&text, &mut c, &mut plane);
        assert_eq!(wrong, Vec::<Wrong>::new(), "{}", path.display());
    }
    assert!(folder("examples/p4/router.txt").exists());
}

#[test]
fn any_bytes_are_done_or_refused() {
    let programs = [
        compile(Path::new("everything.p4"), EVERYTHING),
        compile(Path::new("profiles.p4"), PROFILES),
    ];
    let words = [
        "table_add",
        "table_delete",
        "table_modify",
        "table_clear",
        "exactly",
        "many",
        "longest",
        "fixed",
        "go",
        "group",
        "=>",
        "1",
        "0x1*",
        "10.0.0.1/8",
        "5&&&7",
        "1->9",
        "*",
        "-1",
        "99999999999",
        "a=b",
        "=",
        "::1",
        "\n",
        "\n",
        "\n",
        "pvs_add",
        "seen",
        "mirroring_add",
        "mc_mgrp_create",
        "mc_node_create",
        "mc_node_associate",
        "meter_set_rates",
        "table_indirect_add",
        "table_indirect_add_with_group",
        "table_indirect_set_default",
        "act_prof_create_member",
        "act_prof_create_group",
        "act_prof_add_member_to_group",
        "act_prof_remove_member_from_group",
        "act_prof_modify_member",
        "act_prof_delete_group",
        "first",
        "spread",
        "balanced",
        "send",
        "0",
        "rate",
        "1:1",
        "last",
        "é",
        "#",
        "&&&",
    ];
    let mut random = ir::testing::Rng::new(7);
    for _ in 0..1000 {
        let n = random.below(40);
        let text: Vec<&str> = (0..n).map(|_| random.pick(&words)).collect();
        p4::commands::fuzz(random.pick(&[&programs[0], &programs[1]]), text.join(" ").as_bytes());
    }
}

const CRCS: &str = include_str!("../../../filetests/p4/crc.p4");

#[test]
fn parameters_of_crcs_change_and_come_along() {
    let fresh = || Control::new(compile(Path::new("crc.p4"), CRCS)).unwrap();
    let (mut c, p) = (fresh(), &mut Follower::of(&fresh()));
    let begin = "calc 0x8005 0x0 0x0 true true (16 bits)\n\
                 calc_0 0x4c11db7 0xffffffff 0xffffffff true true (32 bits)";
    assert_eq!(
        good(&mut c, p, "show_crcs"),
        begin,
        "one use is one function, however often written"
    );
    good(&mut c, p, "table_add first both 1 =>\ntable_add second both 2&&&3 => 1");
    let entries = |c: &Control| {
        let all = |name| c.pipeline.entries(c.table(name).unwrap().id).len();
        (all("first"), all("second"))
    };
    good(&mut c, p, "set_crc16_parameters calc 0x1021 0xffff 0 False 0");
    let now = good(&mut c, p, "show_crcs");
    assert!(now.starts_with("calc 0x1021 0xffff 0x0 false false (16 bits)\ncalc_0 0x4c11db7 "));
    assert_eq!(entries(&c), (1, 1), "entries stay");
    // Another program has the same function, and gets the same parameters.
    let (updates, carried) = c.swap(compile(Path::new("crc.p4"), CRCS)).unwrap();
    p.update(&updates).unwrap();
    assert_eq!((carried.entries, carried.left.len()), (2, 0));
    assert_eq!(good(&mut c, p, "show_crcs"), now);
    for (line, told) in [
        ("set_crc16_parameters calc_1 1 0 0 0 0", "there is no CRC `calc_1`"),
        ("set_crc16_parameters calc_0 1 0 0 0 0", "has 32 bits: use set_crc32_parameters"),
        ("set_crc16_parameters calc 0x10000 0 0 0 0", "the polynomial: `0x10000` needs 17 bits"),
        ("set_crc16_parameters calc 1 0 0 yes 0", "`yes` is neither true nor false"),
        ("set_crc16_parameters calc 1 0 0 0", "write `set_crc16_parameters CRC POLYNOMIAL"),
    ] {
        let found = refused(&mut c, line);
        assert!(found.contains(told), "{line}: {found}");
    }
    // A program without any says how to make one.
    let found = refused(&mut everything(), "set_crc32_parameters calc 1 0 0 0 0");
    assert!(found.contains("`crc16_custom` and `crc32_custom` make them"), "{found}");
}

const KEYLESS: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct meta_t { }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action_profile(4) members;
    action_selector(HashAlgorithm.crc16, 4, 4) groups;
    action set(bit<8> v) { h.h.b = v; }
    table bare { actions = { set; } default_action = set(0x42); }
    table empty { key = { } actions = { set; NoAction; } }
    table shared { actions = { set; NoAction; } implementation = members; }
    table grouped { KEY actions = { set; NoAction; } implementation = groups; }
    apply {
        sm.egress_spec = 1;
        if (h.h.a == 0) { bare.apply(); }
        if (h.h.a == 1) { empty.apply(); }
        if (h.h.a == 2) { shared.apply(); }
        if (h.h.a == 3 && grouped.apply().hit) { h.h.a = 0xff; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

fn keyless(key: &str) -> p4::lower::Lowered {
    compile(Path::new("keyless.p4"), &KEYLESS.replace("KEY", key))
}

#[test]
fn a_table_without_keys_takes_no_entries() {
    let mut c = Control::new(keyless("")).unwrap();
    let p = &mut Follower::of(&c);
    good(
        &mut c,
        p,
        "act_prof_create_member members set 5\nact_prof_create_member groups set 6\n\
         act_prof_create_group groups\nact_prof_add_member_to_group groups 0 0",
    );
    for (line, table) in [
        ("table_add bare set => 7", "I.bare"),
        ("table_add empty set => 7", "I.empty"),
        ("table_indirect_add shared => 0", "I.shared"),
        ("table_indirect_add grouped => 0", "I.grouped"),
        ("table_indirect_add_with_group grouped => 0", "I.grouped"),
    ] {
        let text = refused(&mut c, line);
        let told = format!("the table `{table}` has no keys, so it holds no entries");
        assert!(text.contains(&told) && text.ends_with("set its default action"), "{line}: {text}");
    }
    // What it does without one may be said.
    good(
        &mut c,
        p,
        "table_set_default bare set 0x43\ntable_set_default empty set 0x44\n\
         table_indirect_set_default shared 0\ntable_indirect_set_default_with_group grouped 0",
    );
    let packets = "add bare set(v:0x77)\nadd empty set(0x77)\n\
                   packet 1 0000\nexpect 1 0043 $\npacket 1 0100\nexpect 1 0144 $\n\
                   packet 1 0200\nexpect 1 0205 $\npacket 1 0300\nexpect 1 0306 $";
    let mut engine = interp::filetest::Interpreter::new();
    let (checks, failures) = p4::stf::run(packets, &mut c, &mut engine);
    assert_eq!(checks, 5);
    let lines: Vec<usize> = failures.iter().map(|f| f.line).collect();
    assert_eq!(lines, [1, 2], "{failures:?}");
    assert!(failures.iter().all(|f| f.text.contains("has no keys, so it holds no entries")));
}

#[test]
fn entries_stay_behind_when_a_table_loses_its_only_key() {
    let mut c = Control::new(keyless("key = { h.h.a : selector; }")).unwrap();
    let p = &mut Follower::of(&c);
    good(&mut c, p, "act_prof_create_member groups set 6\ntable_indirect_add grouped => 0");
    let (updates, carried) = c.swap(keyless("")).unwrap();
    p.update(&updates).unwrap();
    assert_eq!(carried.entries, 0);
    let told = "I.grouped: 1 entries, as its keys are others now";
    assert!(carried.left.iter().any(|l| l == told), "{:?}", carried.left);
}
