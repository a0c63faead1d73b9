//! `@entry_restriction` and `@action_restriction`: entries that violate one are refused with its text.

#[allow(unreachable_pub)]
mod common;

use common::{action, bed, exact, ternary, write};
use p4_runtime::config::compile;
use p4_runtime::proto::v1;
use v1::entity::Entity as E;
use v1::update::Type;

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<32> dst; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    @action_restriction("
        port != 0;        // The port 0 is nobody's.
        port < 500;
    ")
    action forward(bit<9> port) { sm.egress_spec = port; }
    @entry_restriction("
        // Without a kind there is no address.
        a == 0 -> dst::mask == 0;
        dst::mask == 0 || dst::mask == 0xffffffff;
        ::priority < 100;
    ")
    table acl {
        key = { h.h.a: exact @name("a"); h.h.dst: ternary @name("dst"); }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }
    apply { acl.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

#[test]
fn entries_keep_to_their_restrictions() {
    let bed = bed(PROGRAM);
    let _told = bed.primary();
    let (acl, forward) = (bed.id("I.acl"), bed.id("I.forward"));
    let entry = |key: Vec<v1::FieldMatch>, priority, port: &[u8]| {
        E::TableEntry(v1::TableEntry {
            table_id: acl,
            r#match: key,
            priority,
            action: Some(action(forward, Some(port))),
            ..v1::TableEntry::default()
        })
    };
    let all = [0xff; 4];
    let good = entry(vec![exact(1, &[1]), ternary(2, &[10, 0, 0, 1], &all)], 7, &[3]);
    bed.done(&write(Type::Insert, good.clone()));
    for (e, text) in [
        (
            entry(vec![exact(1, &[0]), ternary(2, &[10, 0, 0, 1], &all)], 7, &[3]),
            "the entry violates @entry_restriction: a == 0 -> dst::mask == 0",
        ),
        (
            entry(vec![exact(1, &[1]), ternary(2, &[10, 0, 0, 0], &[0xff, 0, 0, 0])], 7, &[3]),
            "the entry violates @entry_restriction: dst::mask == 0 || dst::mask == 0xffffffff",
        ),
        (
            entry(vec![exact(1, &[1])], 100, &[3]),
            "the entry violates @entry_restriction: ::priority < 100",
        ),
        (
            entry(vec![exact(1, &[1])], 7, &[0]),
            "action `I.forward`: its arguments violate @action_restriction: port != 0",
        ),
        (
            entry(vec![exact(1, &[1])], 7, &[1, 0xf4]),
            "action `I.forward`: its arguments violate @action_restriction: port < 500",
        ),
    ] {
        let (code, told) = bed.refused(&write(Type::Insert, e));
        assert_eq!(code, 3, "{told}");
        assert!(told.ends_with(text), "{told}");
    }
    // A default action's arguments, too.
    let default = v1::TableEntry {
        table_id: acl,
        is_default_action: true,
        action: Some(action(forward, Some(&[0]))),
        ..v1::TableEntry::default()
    };
    let told = bed.refused(&write(Type::Modify, E::TableEntry(default)));
    assert_eq!(told.0, 3, "{}", told.1);
    // What is there may always go.
    let asked = E::TableEntry(v1::TableEntry { table_id: acl, ..v1::TableEntry::default() });
    assert_eq!(bed.read(asked.clone()), std::slice::from_ref(&good));
    bed.done(&write(Type::Delete, good));
    assert_eq!(bed.read(asked), []);
}

#[test]
fn a_wrong_restriction_is_refused_with_its_place() {
    let program = PROGRAM.replace("::priority < 100", "::priority < dst");
    let built = compile(&program, p4::limits::Limits::default()).map_err(|e| e.text).unwrap();
    let l = &built.lowered;
    let bound = p4_runtime::schema::Schema::bind(&built.info, &l.names, &l.program);
    let text = bound.unwrap_err().text;
    assert!(text.starts_with("P4Info, the table `I.acl`, @entry_restriction, column "), "{text}");
    assert!(
        text.ends_with("a ternary key is only equal or not; name its ::value or ::mask"),
        "{text}"
    );
}
