//! `runtime.json` of the tutorials: what it says is done, what is wrong with it is told with its place.

mod common;

use common::compile;
use p4::commands::{Blind, Names, run};
use p4::control::Control;
use std::path::Path;

const EVERYTHING: &str = include_str!("../../../filetests/p4/everything.p4");

fn control() -> Control {
    Control::new(compile(Path::new("everything.p4"), EVERYTHING)).unwrap()
}

/// What the tables then have, and what was wrong.
fn done(text: &str) -> (Control, Vec<String>) {
    let mut control = control();
    let (told, wrong) = run(text, &mut control, &mut Blind);
    assert!(told.is_empty(), "{told:?}");
    (control, wrong.into_iter().map(|w| w.text).collect())
}

fn dump(control: &mut Control, table: &str) -> String {
    let (told, wrong) = run(&format!("table_dump {table}"), control, &mut Blind);
    assert_eq!(wrong, []);
    told.join("\n")
}

#[test]
fn entries_groups_and_sessions_are_made() {
    let (mut control, wrong) = done(
        r#"{"target": "bmv2", "p4info": "a", "bmv2_json": "b",
            "table_entries": [
              {"table": "I.exactly", "match": {"kind": 7, "h.h.a": ["10.0.0.1"]}, "action_name": "I.group",
               "action_params": {"g": 9}},
              {"table": "longest", "match": {"h.h.a": ["10.0.0.0", 8]}, "action_name": "I.go", "action_params": {"port": 1}},
              {"table": "longest", "default_action": true, "action_name": "I.go", "action_params": {"port": 3}},
              {"table": "many", "match": {"h.h.a": ["10.0.0.0", "255.0.0.0"], "h.h.c": [1, 5]}, "priority": 10,
               "action_name": "drop", "action_params": {}}],
            "multicast_group_entries": [{"multicast_group_id": 1, "replicas": [{"egress_port": 2, "instance": 1}]}],
            "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 3, "instance": 1}],
                                       "packet_length_bytes": 64, "class_of_service": 2}]}"#,
    );
    assert_eq!(wrong, [""; 0]);
    assert!(
        dump(&mut control, "exactly").starts_with("table_add I.exactly I.group 0xa000001 7 => 9")
    );
    let longest = dump(&mut control, "longest");
    assert!(longest.contains("I.go 0xa000000/8 => 1"), "{longest}");
    assert!(longest.ends_with("table_set_default I.longest I.go 3"), "{longest}");
    let many = dump(&mut control, "many");
    assert!(many.contains("0xa000000&&&0xff000000 1->5 * =>"), "{many}");
    // As in P4Runtime a larger number wins.
    let table = control.table("many").unwrap().id;
    assert_eq!(control.pipeline.entries(table).iter().next().unwrap().priority, 10);
    assert!(control.has_multicast_group(1));
    let cuts = control.sessions().map(|(session, of)| (session, of.cut.length, of.cut.queue));
    assert_eq!(cuts.collect::<Vec<_>>(), [(5, 64, 2)]);
}

#[test]
fn what_is_wrong_has_its_place_and_the_rest_is_done() {
    let (mut control, wrong) = done(
        r#"{"table_entries": [
              {"table": "longer", "match": {}, "action_name": "I.go", "action_params": {"port": 1}},
              {"table": "longest", "match": {"h.h.z": 1}, "action_name": "I.go", "action_params": {"port": 1}},
              {"table": "longest", "match": {"h.h.a": [1, 2, 3]}, "action_name": "I.go", "action_params": {"port": 1}},
              {"table": "longest", "match": {"h.h.a": ["10.0.0.0", 8]}, "action_name": "I.go", "action_params": {"port": -1}},
              {"table": "longest", "match": {"h.h.a": ["10.0.0.0", 8]}, "priority": 4, "action_name": "I.go",
               "action_params": {"port": 1}},
              {"table": "many", "match": {"h.h.a": [1, 1]}, "action_name": "drop"},
              {"table": "longest", "default_action": true, "match": {"h.h.a": [1, 8]}, "action_name": "drop"},
              {"table": "longest", "match": {"h.h.a": ["11.0.0.0", 8]}, "action_name": "I.go", "action_params": {"port": 2}}],
            "multicast_group_entries": [{"multicast_group_id": 1, "replicas": [{"egress_port": 600}]}],
            "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 512}]}]}"#,
    );
    let starts = [
        "table_entries[0]: there is no table `longer`; the nearest is `longest`",
        "table_entries[1]: the table `I.longest` has no key `h.h.z`; it has h.h.a",
        "table_entries[2]: match.h.h.a: [1,2,3]: [value, prefix length] was expected, as the key is lpm",
        "table_entries[3]: action_params.port: -1 is no value",
        "table_entries[4]: entries of the table `I.longest` have no priority",
        "table_entries[5]: the table `I.many` has ternary, range or optional keys",
        "table_entries[6]: a default action has no match",
        "multicast_group_entries[0]: egress_port 600 is no port: 0 to 511 are",
        "clone_session_entries[0]: egress_port 512 is no port: 0 to 511 are",
    ];
    assert_eq!(wrong.len(), starts.len(), "{wrong:#?}");
    for (text, start) in wrong.iter().zip(starts) {
        assert!(text.starts_with(start), "{text}\n{start}");
    }
    assert!(dump(&mut control, "longest").contains("0xb000000/8 => 2"));
}

#[test]
fn a_file_of_another_form_is_refused() {
    let text = |json: &str| done(json).1.join("; ");
    assert!(text("{").starts_with("no runtime file as the tutorials have: EOF"));
    assert!(text(r#"{"tables": []}"#).contains("unknown field `tables`"));
    assert_eq!(text(r#"{"target": "tofino"}"#), "target \"tofino\": bmv2 is the only one");
}

#[test]
fn names_are_those_of_the_program() {
    let names = Names::of(&control());
    let tables: Vec<&str> = names.tables.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(tables, ["I.exactly", "I.longest", "I.many", "I.fixed"]);
    let keys: Vec<&str> = names.tables[0].keys.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(keys, ["h.h.a", "kind"]);
    assert_eq!(names.tables[0].actions[0].params, [("port".to_owned(), 9)]);
    assert_eq!((names.registers.len(), names.meters.len()), (1, 1));
    assert_eq!(names.counters, ["I.hits", "I.used"]);
    assert!(names.tables[2].prioritised && !names.tables[1].prioritised);
    assert!(names.commands.iter().any(|c| c.word == "help"));
}
