//! P4Info: ids, aliases, keys, parameters, profiles, direct resources.

mod common;

use common::folder;

fn info(text: &str) -> (String, Vec<u8>) {
    p4::with_stack(|| {
        let options = p4::preprocess::Options::default();
        let path = std::path::Path::new("x.p4");
        let mut c = p4::front(&p4::preprocess::NoFiles, &options, path, text);
        let lowered = p4::lower::lower(&c.program, &mut c.diagnostics);
        let lowered = lowered.unwrap_or_else(|| panic!("{}", c.diagnostics.render(&c.map)));
        (p4::info::to_text(&c.program, &lowered), p4::info::to_bytes(&c.program, &lowered))
    })
}

/// The message that begins with `head` and holds `name`.
fn message<'t>(text: &'t str, head: &str, name: &str) -> &'t str {
    let mut parts = text.split("\n}\n").filter(|m| m.trim_start().starts_with(head));
    let name = format!("name: \"{name}\"");
    parts.find(|m| m.contains(&name)).unwrap_or_else(|| panic!("no {head} {name} in\n{text}"))
}

#[test]
fn a_control_plane_finds_tables_keys_actions_and_externs() {
    let source = std::fs::read_to_string(folder("filetests/p4").join("profiles.p4")).unwrap();
    let source = source.replace("table limited", "@id(7) @max(3) table limited");
    let (text, bytes) = info(&source);
    let spread = message(&text, "tables {", "I.spread");
    // The selector's key is no match field.
    assert_eq!(spread.matches("match_fields").count(), 1);
    for part in [
        "alias: \"spread\"",
        "name: \"hdr.h.key\"\n    bitwidth: 8\n    match_type: LPM",
        "initial_default_action",
    ] {
        assert!(spread.contains(part), "{part}: {spread}");
    }
    let id = |of: &str| -> u32 {
        let line = of.lines().find_map(|l| l.trim().strip_prefix("id: ")).unwrap();
        line.parse().unwrap()
    };
    let balanced = message(&text, "action_profiles {", "I.balanced");
    assert_eq!(id(balanced) >> 24, 0x11);
    assert!(balanced.contains("with_selector: true") && balanced.contains("size: 16"));
    assert!(balanced.contains(&format!("table_ids: {}", id(spread))));
    assert!(balanced.contains("@mode(\\\"fair\\\")"), "{balanced}");
    assert!(spread.contains(&format!("implementation_id: {}", id(balanced))));
    let shared = message(&text, "action_profiles {", "I.shared");
    assert_eq!(shared.matches("table_ids").count(), 2);
    let limited = message(&text, "tables {", "I.limited");
    assert_eq!(id(limited), 0x0200_0007);
    assert!(limited.contains("annotations: \"@max(3)\""), "{limited}");
    let rate = message(&text, "direct_meters {", "I.rate");
    assert!(rate.contains("unit: PACKETS"));
    assert!(rate.contains(&format!("direct_table_id: {}", 0x0200_0007)));
    assert!(limited.contains(&format!("direct_resource_ids: {}", id(rate))));
    let metered = message(&text, "actions {", "I.metered");
    assert_eq!(metered.matches("params").count(), 1, "the entry's meter is no parameter");
    assert!(metered.contains("name: \"port\"\n    bitwidth: 9"), "{metered}");
    // The default action's argument, in as few bytes as it needs.
    assert!(limited.contains("param_id: 1\n      value: \"\\011\""), "{limited}");
    assert!(!text.contains("\"v1."), "the architecture's own is not told");
    assert!(bytes.windows(8).any(|w| w == b"I.spread"));
}

#[test]
fn names_that_end_alike_have_longer_aliases() {
    let (text, _) = info(
        "#include <core.p4>\n#include <v1model.p4>\nstruct e { }
         parser P(packet_in b, out e h, inout e m, inout standard_metadata_t s) {
             state start { transition accept; } }
         control Sub(inout standard_metadata_t s) {
             action go(@name(\"where\") bit<9> p) { s.egress_spec = p; }
             table t { key = { s.ingress_port: exact @name(\"in\"); } actions = { go; } }
             apply { t.apply(); } }
         control C(inout e h, inout e m) { apply { } }
         control I(inout e h, inout e m, inout standard_metadata_t s) {
             Sub() one; Sub() two;
             action quiet() { s.priority = 1; }
             apply { one.apply(s); two.apply(s); quiet(); } }
         control E(inout e h, inout e m, inout standard_metadata_t s) { apply { } }
         control D(packet_out b, in e h) { apply { } }
         V1Switch(P(), C(), I(), E(), C(), D()) main;",
    );
    let one = message(&text, "tables {", "I.one.t");
    assert!(one.contains("alias: \"one.t\"") && one.contains("name: \"in\""), "{one}");
    assert!(one.contains("scope: DEFAULT_ONLY"), "NoAction is its default: {one}");
    assert!(message(&text, "actions {", "I.two.go").contains("name: \"where\""));
    assert!(message(&text, "actions {", "I.quiet").contains("alias: \"quiet\""));
}

#[test]
fn controller_headers_types_and_the_package_are_told() {
    let (text, bytes) = info(
        "#include <core.p4>\n#include <v1model.p4>\n
         enum bit<8> why_t { UNKNOWN = 1, LOST = 0 }
         @controller_header(\"packet_in\") header in_t { bit<9> port; @id(7) bit<7> pad; why_t why; }
         type bit<9> port_t;
         @p4runtime_translation(\"x.org/vrf\", string) type bit<10> vrf_t;
         struct learn_t { bit<48> src; port_t port; bool more; }
         struct e { in_t i; } struct m_t { vrf_t vrf; }
         parser P(packet_in b, out e h, inout m_t m, inout standard_metadata_t s) {
             state start { transition accept; } }
         control C(inout e h, inout m_t m) { apply { } }
         control I(inout e h, inout m_t m, inout standard_metadata_t s) {
             action go(bit<9> p) { s.egress_spec = p; }
             table t { key = { m.vrf: exact; } actions = { go; } default_action = go(3); }
             apply { t.apply(); digest<learn_t>(1, { 48w1, (port_t) 9w2, true }); } }
         control E(inout e h, inout m_t m, inout standard_metadata_t s) { apply { } }
         control D(packet_out b, in e h) { apply { b.emit(h.i); } }
         @pkginfo(name=\"p.p4\", version=\"1.2\")
         V1Switch(P(), C(), I(), E(), C(), D()) main;",
    );
    assert!(text.contains("name: \"p.p4\"\n  version: \"1.2\"\n  arch: \"v1model\""), "{text}");
    let header = message(&text, "controller_packet_metadata {", "packet_in");
    let id = header.lines().find_map(|l| l.trim().strip_prefix("id: ")).unwrap();
    assert_eq!(id.parse::<u32>().unwrap() >> 24, 4);
    assert!(header.contains("id: 7\n    name: \"pad\"\n    bitwidth: 7"), "{header}");
    for part in [
        "key: \"learn_t\"",
        "name: \"port\"\n        type_spec {\n          new_type {\n            name: \"port_t\"",
        "key: \"why_t\"\n    value {\n      underlying_type {\n        bitwidth: 8",
        "name: \"UNKNOWN\"\n        value: \"\\001\"",
        "uri: \"x.org/vrf\"\n        sdn_string {\n        }",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Field 4 of the call; 2 and 3 of the argument.
    assert!(bytes.windows(7).any(|w| w == [0x22, 5, 0x10, 1, 0x1a, 1, 3]), "{bytes:?}");
    assert!(text.contains("@noWarn(\\\"unused\\\")") || !text.contains("NoAction"));
}
