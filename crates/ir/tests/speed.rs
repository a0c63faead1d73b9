//! A large table is filled in a fraction of a second: the verifier looks at each entry once.

use ir::{ActionCall, ActionId, Bits, Entry, EntryId, KeyMatch, Pattern, Pipeline, Update, text};
use std::sync::Arc;
use std::time::Instant;

#[test]
fn a_hundred_thousand_entries() {
    let mut blocks = String::new();
    for i in 0..254 {
        blocks.push_str(&format!("table t{i} {{ key ipv4.dst ternary; key ipv4.src ternary }}\n"));
        blocks.push_str(&format!("block b{i} {{ apply t{i} hit last miss last }}\n"));
    }
    let source = format!("use std\naction go {{ goto last }}\n{blocks}block last {{ end }}\n");
    let mut p: Pipeline = text::pipeline(&source).unwrap();
    let table = p.program().find_table("t0").unwrap();
    let capacity = {
        let mut program = (**p.program()).clone();
        program.tables[0].capacity = 200_000;
        Arc::new(program)
    };
    p.transact(&[Update::SetProgram(capacity)]).unwrap();
    let go: ActionId = p.find_action("go").unwrap();
    let start = Instant::now();
    for i in 0..100_000u32 {
        let v = Bits::from_u128(i.into(), 32);
        let entry = Entry {
            id: EntryId(i),
            priority: 1,
            matches: [KeyMatch { key: 0, pattern: Pattern::Exact(v) }].into_iter().collect(),
            action: ActionCall::new(go),
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        };
        ir::verify::entry(&p, table, &entry).unwrap();
    }
    let verified = start.elapsed();
    // Ten times what it takes, for slow machines and unoptimised builds.
    assert!(verified.as_millis() < 3000, "{verified:?}");
    println!("100,000 entries verified in {verified:?}");
}
