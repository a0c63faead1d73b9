//! Programs as bmv2's JSON: the same verdicts as from their text; refusals that name the node.

mod common;

use common::{control, files, folder};
use ir::testing::Rng;
use ir::text::filetest::{Engine, Injected};
use p4::bmv2::{Compiled, Hints, KeyHint, Refused, TableHints, compile, translate};
use p4::control::Control;
use p4::limits::Limits;
use std::collections::HashMap;

fn compiled(json: &str, hints: &Hints) -> Result<Compiled, Refused> {
    p4::with_stack(|| compile(json, hints, Limits::default()))
}

fn json(name: &str) -> String {
    std::fs::read_to_string(folder("filetests/p4/bmv2").join(name)).unwrap()
}

fn from_json(name: &str) -> Control {
    let c = compiled(&json(name), &Hints::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    Control::new(c.lowered).unwrap()
}

/// Packets that a program's parser makes something of: those of its tests, with changes.
fn changed(packets: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut bytes = random.pick(packets);
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.push(random.below(256) as u8),
            _ => bytes[at] = random.below(256) as u8,
        }
    }
    bytes
}

fn packets(stf: &str) -> Vec<Vec<u8>> {
    let lines = stf.lines().filter_map(|l| l.strip_prefix("packet "));
    let bytes = |l: &str| -> Vec<u8> {
        let digits: String = l.split_whitespace().skip(1).collect();
        let digits: Vec<char> = digits.chars().collect();
        let pair = |p: &[char]| u8::from_str_radix(&p.iter().collect::<String>(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    };
    lines.map(bytes).collect()
}

#[test]
fn json_and_text_forward_alike() {
    for (name, text, stf) in [
        ("router.json", "filetests/p4/router.p4", "filetests/p4/router.stf"),
        ("sums.json", "filetests/p4/bmv2/sums.p4", "filetests/p4/bmv2/sums.stf"),
    ] {
        let test = std::fs::read_to_string(folder(stf)).unwrap();
        let run = |mut control: Control| {
            let mut engine = interp::filetest::Interpreter::new();
            let (checks, failures) = p4::stf::run(&test, &mut control, &mut engine);
            assert!(checks > 0);
            assert!(failures.is_empty(), "{name}: {failures:#?}");
            engine
        };
        let mut of_text = run(control(&folder(text)));
        let mut of_json = run(from_json(name));
        let packets = packets(&test);
        let mut random = Rng::new(5);
        let (mut left, mut kinds) = (0, HashMap::new());
        for n in 0..20_000 {
            let bytes = changed(&packets, &mut random);
            let injected = Injected { bytes: &bytes, in_port: 1, now_ns: 2_000_000_000 + n };
            let (a, b) = (of_text.packet(&injected), of_json.packet(&injected));
            let (shown_a, shown_b) = (format!("{:?}", a.events), format!("{:?}", b.events));
            assert_eq!(shown_a, shown_b, "{name}: {bytes:02x?}");
            assert_eq!(format!("{:?}", a.verdict), format!("{:?}", b.verdict), "{name}");
            left += usize::from(!a.events.is_empty());
            *kinds.entry(shown_a.len()).or_insert(0) += 1;
        }
        assert!(left > 1000 && kinds.len() > 1, "{name}: {left} packets left");
    }
}

#[test]
fn names_are_those_of_the_control_plane() {
    let c = compiled(&json("router.json"), &Hints::default()).unwrap();
    let written = c.lowered.names.tables.iter().filter(|t| t.source.is_some());
    let mut tables: Vec<&str> = written.map(|t| t.name.as_str()).collect();
    tables.sort_unstable();
    assert_eq!(tables, ["I.hop.arp", "I.routes"], "what p4c makes of statements is no table");
    let arp = c.lowered.names.table("I.hop.arp").unwrap();
    assert_eq!((arp.size, arp.keys[0].name.as_str(), arp.keys[0].width), (16, "hop", 32));
    let actions: Vec<&str> = arp.actions.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(actions, ["I.hop.set", "NoAction"]);
    assert_eq!(arp.actions[0].params, [("mac".to_owned(), 48)]);
    assert_eq!(c.lowered.names.counters[0].0, "I.seen");
    let s = compiled(&json("sums.json"), &Hints::default()).unwrap();
    assert_eq!(s.lowered.names.value_sets[0].0, "P.more");
    // Each line says where it comes from.
    assert_eq!(s.translated.text.lines().count(), s.translated.nodes.len());
    assert!(s.translated.nodes.iter().all(|n| !n.is_empty()));
}

#[test]
fn parameters_may_have_any_name() {
    for name in ["h", "m", "sm", "b", "result", "counter_0", "meta", "hdr", "op"] {
        let text = json("sums.json").replace("\"name\": \"k\"", &format!("\"name\": \"{name}\""));
        let c = compiled(&text, &Hints::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let ops = c.lowered.names.table("I.ops").unwrap();
        assert_eq!(ops.action("I.choose").unwrap().params, [(name.to_owned(), 8)]);
    }
    let text = json("sums.json").replace("\"name\": \"k\"", "\"name\": \"action\"");
    let e = compiled(&text, &Hints::default()).map(|_| ()).unwrap_err();
    assert_eq!(
        e.to_string(),
        "actions[6].runtime_data[0]: `action` is no name of its own for a parameter"
    );
}

#[test]
fn hints_tell_what_the_json_leaves_out() {
    let text = json("sums.json").replace(", \"entries\": [", ", \"_entries\": [");
    let key = KeyHint { width: 8, optional: true };
    let ops = TableHints {
        keys: HashMap::from([("op".to_owned(), key)]),
        default_only: ["NoAction".to_owned()].into(),
        group_only: Default::default(),
        table_only: ["I.add".to_owned()].into(),
    };
    let ports = TableHints::default();
    let tables = HashMap::from([("I.ops".to_owned(), ops), ("I.ports".to_owned(), ports)]);
    let value_sets = HashMap::from([("P.more".to_owned(), 7)]);
    let hints = Hints { tables: Some(tables), value_sets };
    let t = translate(&text, &hints).unwrap();
    assert!(t.text.contains("hdr__.h.op: optional @name(\"op\");"), "{}", t.text);
    assert!(t.text.contains("@defaultonly NoAction;"), "{}", t.text);
    assert!(t.text.contains("value_set<bit<8>>(7)"), "{}", t.text);
    compiled(&text, &hints).unwrap();
}

/// A change of the router's JSON, and what is said of it.
#[test]
fn what_cannot_be_translated_names_its_node() {
    let router = json("router.json");
    let sums = json("sums.json");
    for (text, from, to, node, says) in [
        (
            &router,
            "\"mark_to_drop\"",
            "\"fly\"",
            "actions[1].primitives[0]",
            "the primitive `fly` is not supported",
        ),
        (
            &router,
            "\"expression\": {\"type\": \"expression\", \"value\": {\"op\": \"<=\"",
            "\"expression\": {\"type\": \"expression\", \"value\": {\"op\": \"<>\"",
            "pipelines[0].conditionals[1].expression.value",
            "the operation `<>` is not supported",
        ),
        (
            &router,
            "\"target\": [\"ip\", \"dst\"]",
            "\"target\": [\"ip\", \"dest\"]",
            "pipelines[0].tables[3].key[0].target",
            "the header `ip` has no field `dest`",
        ),
        (
            &router,
            "\"init_table\": \"node_2\"",
            "\"init_table\": \"node_9\"",
            "pipelines[0].init_table",
            "no node of the pipeline has this name",
        ),
        (
            &router,
            "\"false_next\": \"I.routes\"",
            "\"false_next\": \"node_2\"",
            "pipelines[0].conditionals[0]",
            "a way leads from it back to it",
        ),
        (
            &router,
            "\"version\": [2, 23]",
            "\"version\": [3, 0]",
            "__meta__.version[0]",
            "the format's version 2 is known",
        ),
        (
            &router,
            "\"extern_instances\": []",
            "\"extern_instances\": [{\"name\": \"e\"}]",
            "extern_instances[0]",
            "extern instances are not known in v1model",
        ),
        (
            &router,
            "\"action_ids\": [7, 0]",
            "\"action_ids\": [70, 0]",
            "pipelines[0].tables[5]",
            "no action has the id 70",
        ),
        (
            &router,
            "\"algo\": \"csum16\"",
            "\"algo\": \"md5\"",
            "calculations[0].algo",
            "the algorithm `md5` is not known",
        ),
        (
            &router,
            "\"next_state\": \"ip\"",
            "\"next_state\": \"ipv6\"",
            "parsers[0].parse_states[0].transitions[0].next_state",
            "there is no state `ipv6`",
        ),
        (
            &router,
            "\"name\": \"egress\"",
            "\"name\": \"late\"",
            "pipelines[1]",
            "v1model has no pipeline `late`; it has ingress and egress",
        ),
        (
            &router,
            "\"bitwidth\": 48",
            "\"bitwidth\": 0",
            "actions[7].runtime_data[0].bitwidth",
            "a parameter has 1 to 2048 bits",
        ),
        (
            &router,
            "\"size\": 4, \"bitwidth\": 8",
            "\"size\": 4, \"bitwidth\": 5000",
            "register_arrays[0]",
            "",
        ),
        (
            &sums,
            "\"0x00000005\"",
            "\"0x00000000\"",
            "actions[7].primitives[0]",
            "a loop in an action is not supported",
        ),
        (
            &sums,
            "\"0x00000005\"",
            "\"0x00000055\"",
            "actions[7].primitives[0].parameters[1]",
            "the action has no primitive 85",
        ),
        (
            &sums,
            "\"compressed_bitwidth\": 8",
            "\"compressed_bitwidth\": 9",
            "parsers[0].parse_states[1].transitions[1].value",
            "it has 9 bits; the state looks at 8",
        ),
        (
            &sums,
            "\"key\": \"0x14\"",
            "\"key\": \"0x114\"",
            "pipelines[0].tables[2].entries[4].match_key[0].key",
            "it does not fit 8 bits",
        ),
        (
            &sums,
            "\"0x2080\"",
            "\"0x302080\"",
            "parsers[0].parse_states[0].transitions[1].value",
            "it has more bytes than the fields that the state looks at",
        ),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(*text, changed, "{from}");
        let e = compiled(&changed, &Hints::default()).map(|_| ()).unwrap_err();
        assert_eq!(e.node, node, "{e}");
        assert!(if says.is_empty() { !e.text.is_empty() } else { e.text == says }, "{e}");
    }
    let e = compiled("[]", &Hints::default()).map(|_| ()).unwrap_err();
    assert_eq!(e.to_string(), "the JSON: an object is needed");
    let e = compiled("{\"a\": ", &Hints::default()).map(|_| ()).unwrap_err();
    assert_eq!(e.node, "the JSON");
}

#[test]
fn any_change_is_compiled_or_refused() {
    let texts: Vec<String> = files("filetests/p4/bmv2", "json")
        .iter()
        .map(|f| std::fs::read_to_string(f).unwrap())
        .collect();
    let mut random = Rng::new(9);
    for _ in 0..300 {
        let mut text = random.pick(&texts);
        for _ in 0..1 + random.below(3) {
            // A word or a number in place of another one.
            let words: Vec<(usize, &str)> = text.match_indices(['"', ' ']).collect();
            let (from, _) = random.pick(&words);
            let (other, _) = random.pick(&words);
            let end = |at: usize| {
                text[at + 1..].find(['"', ',', ']', '}', ' ']).map_or(text.len(), |n| at + 1 + n)
            };
            let piece = text[other..end(other)].to_owned();
            text.replace_range(from..end(from), &piece);
        }
        p4::bmv2::fuzz(text.as_bytes());
    }
}

/// JSON files of others, from a folder that the environment names: each is compiled, or refused with its node.
#[test]
fn json_of_others_is_compiled_or_refused() {
    let Ok(folder) = std::env::var("BMV2_JSON") else { return };
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        let Ok(text) = std::fs::read_to_string(file.path()) else { continue };
        let name = file.path();
        match compiled(&text, &Hints::default()) {
            Ok(c) => println!("{}: {} lines", name.display(), c.translated.nodes.len()),
            Err(e) => {
                assert!(!e.node.is_empty() && !e.text.is_empty());
                println!("{}: {e}", name.display());
                if let Ok(t) = p4::with_stack(|| translate(&text, &Hints::default())) {
                    println!("{}", t.text);
                }
            }
        }
    }
}
