//! Each pass on the smallest program that shows it, as text before and after; and the smallest
//! programs on which one was wrong.

mod common;

use common::check;
use ir::{BlockId, Op, Pipeline, Terminator};
use opt::{Bail, Optimised, Options, contents};

const HEADERS: &str = "
    type h { kind: 8; a: 8; b: 16 }
    header x: h
    header y: h
    header z: h
    meta m8: 8
    meta bit: 1
    meta wide: 16
    deparser x y z
    reject continues
";

fn pipeline(text: &str) -> Pipeline {
    let text = format!("{HEADERS}{text}");
    ir::text::pipeline(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// With all passes, checked against the interpreter on packets that tell states and fields apart.
fn optimised(text: &str) -> Optimised {
    let pipeline = pipeline(text);
    let mut packets: Vec<(u32, Vec<u8>)> = Vec::new();
    for kind in 0..4 {
        for len in 0..14 {
            let bytes = (0..len).map(|i| if i % 4 == 0 { kind } else { i }).collect();
            packets.push((u32::from(kind), bytes));
        }
    }
    let summary = contents(&pipeline);
    check(&pipeline, &summary, Options::default(), &packets, text);
    opt::optimise(pipeline.program(), &summary, &Options::default())
}

/// The operations of a block, and of a program's action.
fn block(o: &Optimised, at: u32) -> Vec<String> {
    let ops = &o.program.blocks[BlockId(at).index()].ops;
    ops.iter().map(|op: &Op| ir::text::print_op(&o.program, &[], op)).collect()
}

fn state(o: &Optimised, at: usize) -> (usize, bool) {
    let state = &o.program.parser[at];
    (state.ops.len(), state.next == ir::Transition::Accept)
}

#[test]
fn a_test_that_was_decided_goes_and_so_does_what_it_led_to() {
    let o = optimised(
        "block a { branch m8 == 0 then b else c }
         block b { output 1; end }
         block c { output 2; end }",
    );
    assert_eq!(block(&o, 0), ["output 1"]);
    assert!(block(&o, 1).is_empty() && block(&o, 2).is_empty());
    assert_eq!(o.program.blocks[0].end, Terminator::Exit);
}

/// The same, where calls are given up.
fn without_calls(text: &str) -> Optimised {
    let pipeline = pipeline(text);
    let packets: Vec<(u32, Vec<u8>)> = (0..8).map(|n| (n, vec![n as u8; 6])).collect();
    let bail = Bail { calls: true, ..Bail::default() };
    let options = Options { bail, ..Options::default() };
    let summary = contents(&pipeline);
    check(&pipeline, &summary, options, &packets, text);
    opt::optimise(pipeline.program(), &summary, &options)
}

/// Some operation is a call.
fn calls(o: &Optimised) -> bool {
    let blocks = o.program.blocks.iter().map(|block| &block.ops);
    let bodies = o.actions.values().map(|action| &action.body);
    let mut found = false;
    for ops in blocks.chain(bodies) {
        ops.iter().for_each(|op| op.visit(&mut |op| found |= matches!(op, Op::Call { .. })));
    }
    found
}

#[test]
fn what_is_called_is_laid_out_and_leads_back() {
    let o = without_calls(
        "action called { m8 = 1 }
         action gone { drop no_output }
         action there(port: 32) { call c until d; output port; m8 = 2; goto d }
         table t { key std.in_port exact; default gone }
         table u { key std.in_port exact; default gone }
         block a { apply t hit d miss d }
         block c { apply u hit d miss d }
         block d { if m8 == 1 { output 9 }; end }
         entry t 1 => there(5)
         entry t 2 => there(6)
         entry u 1 => called",
    );
    assert!(!calls(&o));
    // What is called is applied by the copy alone: nothing else leads there.
    let applies = |b: &&ir::Block| matches!(b.end, Terminator::Apply { .. });
    assert_eq!(o.program.blocks.iter().filter(applies).count(), 2);
}

#[test]
fn a_call_that_calls_itself_stays_one_in_the_end() {
    let o = without_calls(
        "action again { call a until d; output 1 }
         table t { key std.in_port exact; default again }
         block a { apply t hit d miss d }
         block d { end }",
    );
    assert!(calls(&o));
}

#[test]
fn a_test_tells_what_holds_behind_it() {
    let o = optimised(
        "state s { extract x; m8 = x.a; accept }
         block a { branch m8[3:3] == 1 then b else c }
         block b { if m8 & 8 != 0 { output 1 } else { output 2 }; end }
         block c { if valid(y) { output 3 }; if m8[3:3] == 1 { output 4 }; end }",
    );
    assert_eq!(block(&o, 1), ["output 1"]);
    assert!(block(&o, 2).is_empty());
}

#[test]
fn a_bit_that_the_parser_sets_speaks_for_its_header() {
    let o = optimised(
        "state s { extract x; bit = 1; accept }
         block a { branch bit == 1 then b else c }
         block b { if valid(x) { output 1 }; end }
         block c { if valid(x) { output 2 }; end }",
    );
    assert_eq!(block(&o, 1), ["output 1"]);
    assert!(block(&o, 2).is_empty());
}

#[test]
fn what_nobody_looks_at_is_not_parsed() {
    let o = optimised(
        "state s { extract x; m8 = x.b[7:0]; select x.kind { 1 => t; _ => accept } }
         state t { extract y; m8 = y.a; accept }
         block a { output cast(32, x.a); end }",
    );
    assert_eq!((state(&o, 0), state(&o, 1)), ((1, true), (0, true)));
}

#[test]
fn a_header_in_front_of_one_that_appears_is_parsed() {
    // As payload, y would come behind z.
    let o = optimised(
        "state s { extract x; extract y; accept }
         block a { set_valid z; z.a = 7; output 1; end }",
    );
    assert_eq!(state(&o, 0), (2, true));
    // In front of x, it may stay payload.
    let o = optimised(
        "state s { extract y; extract z; accept }
         block a { set_valid x; x.a = 7; output 1; end }",
    );
    assert_eq!(state(&o, 0), (0, true));
}

#[test]
fn headers_out_of_order_are_parsed() {
    let o = optimised(
        "state s { extract y; extract x; accept }
         block a { output 1; end }",
    );
    assert!(state(&o, 0).0 > 0, "y and x change places");
}

#[test]
fn writes_that_nobody_reads_go() {
    let o = optimised(
        "state s { extract x; accept }
         block a { m8 = 1; x.a = 1; x.a = x.kind; wide[15:8] = 1; wide[7:0] = x.kind;
                   output cast(32, wide); x.b = 9; m8 = 2; end }",
    );
    assert_eq!(block(&o, 0), ["x.a = x.kind", "wide = 8w1 ++ x.kind", "output cast(32, wide)"]);
}

#[test]
fn a_miss_is_told_from_what_was_done_to_no_effect() {
    // The packet missed, then something was done to it: `no_output`, not `table_miss`.
    optimised(
        "action nothing { }
         table t { default nothing; capacity 4 }
         block a { apply t hit b miss b }
         block b { m8 = 1; end }",
    );
    optimised(
        "action idle { m8 = 1 }
         table t { default idle; capacity 4 }
         block a { apply t hit b miss b }
         block b { end }",
    );
}

#[test]
fn a_table_that_always_hits_leads_nowhere_else() {
    let o = optimised(
        "action to(p: 32) { output p }
         action nothing { }
         table t { key x.a exact; default nothing; capacity 4 }
         table all { default nothing; capacity 4 }
         block a { apply all hit c miss b }
         block b { apply t hit c miss c }
         block c { end }
         entry all => to(3)",
    );
    assert!(o.tables[0].is_none() && o.tables[1].is_some());
    assert_eq!(
        ir::text::print_op(&o.program, &[], &o.actions[&ir::ActionId(0)].body[0]),
        "output 3"
    );
}

/// `z` behind `x` or behind `y`, as layer 4 behind two versions of IP.
const TWO_WAYS: &str = "
    state s { select lookahead(8) { 1 => v; 2 => w; _ => accept } }
    state v { extract x; select x.a { 1 => l4; _ => accept } }
    state w { extract y; select y.a { 1 => l4; _ => accept } }
    state l4 { extract z; accept }
    checksum z.b csum16 incremental { inputs x.b, z.kind, z.a; if valid(x) }
    checksum z.b csum16 incremental { inputs y.b, z.kind, z.a; if valid(y) && m8 == 0 }
";

#[test]
fn behind_a_header_without_a_live_checksum_nothing_is_parsed() {
    let o = optimised(&format!("{TWO_WAYS} block a {{ x.b = 7; output 1; end }}"));
    assert_eq!(o.program.checksums.len(), 1);
    assert_eq!((state(&o, 1), state(&o, 2), state(&o, 3)), ((1, false), (0, true), (1, true)));
    let o = optimised(&format!("{TWO_WAYS} block a {{ y.b = 7; output 1; end }}"));
    assert_eq!((state(&o, 1), state(&o, 2), state(&o, 3)), ((0, true), (1, false), (1, true)));
    // Here it is read behind both.
    let o = optimised(&format!("{TWO_WAYS} block a {{ z.a = 7; output 1; end }}"));
    assert_eq!((state(&o, 1).0, state(&o, 2).0, state(&o, 3).0), (1, 1, 1));
}

#[test]
fn a_header_that_a_checksum_wants_may_be_made() {
    // Behind y, too, the checksum of z may be written.
    let o = optimised(&format!(
        "{TWO_WAYS} block a {{ if m8 == 0 {{ set_valid x }}; x.b = 7; output 1; end }}"
    ));
    assert_eq!((state(&o, 1).0, state(&o, 2).0, state(&o, 3).0), (1, 1, 1));
}

#[test]
fn what_the_next_parse_reads_is_set() {
    // The second parse goes another way for what the first one has set last.
    let o = optimised(
        "state s { select m8 { 1 => u; _ => t } }
         state t { extract x; m8 = 1; accept }
         state u { extract y; accept }
         block a { reparse; output valid(y) ? 32w1 : 32w2; end }",
    );
    assert_eq!((state(&o, 1).0, state(&o, 2).0), (2, 1));
    // Here every parse sets it first.
    let o = optimised(
        "state s { extract x; m8 = x.a; select m8 { 1 => u; _ => t } }
         state t { m8 = 1; accept }
         state u { extract y; accept }
         block a { reparse; output valid(y) ? 32w1 : 32w2; end }",
    );
    assert_eq!((state(&o, 1).0, state(&o, 2).0), (0, 1));
}

#[test]
fn cases_that_others_decide_alike_go() {
    let o = optimised(
        "state s { extract x; select x.kind, x.a {
             1, 5 => accept; 1, _ => accept; 0..2, 9 => t; 2, 3 => accept; 3, 9 => t; _, _ => accept } }
         state t { extract y; accept }
         block a { output cast(32, y.a); end }",
    );
    let ir::Transition::Select { cases, .. } = &o.program.parser[0].next else { panic!() };
    // The second one is not led to the same place by the third, the fourth is apart from all others.
    assert_eq!(cases.len(), 4);
}

// What the oracle found.

#[test]
fn a_second_header_cut_short_leaves_the_first_one_valid() {
    optimised(
        "state s { extract x; extract y; accept }
         block a { output valid(x) ? 32w1 : 32w2; output valid(y) ? 32w3 : 32w4; end }",
    );
}

#[test]
fn a_parser_that_looks_at_its_last_error_is_not_cut() {
    optimised(
        "state s { m8 = std.parser_error; extract x; select x.kind { 1 => accept } }
         block a { output cast(32, m8); reparse; output cast(32, m8); end }",
    );
}
