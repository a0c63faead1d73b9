//! Breaks every rule, once or more, and checks that the rule named is the one broken.

use super::*;
use crate::bits::WIDTH_MAX;
use crate::builder::Builder;
use crate::expr::{BinaryOp, Crc, FieldRef, HashAlgorithm};
use crate::id::*;
use crate::op::PortIs;
use crate::pipeline::{Bucket, KeyMatch, Pipeline, Update};
use crate::program::*;
use crate::verdict::DropReason;
use smallvec::smallvec;
use std::sync::Arc;

const ETH: HeaderId = HeaderId(0);
const OPT: HeaderId = HeaderId(1);
const V0: HeaderId = HeaderId(2);
const A: HeaderId = HeaderId(4);
const B: HeaderId = HeaderId(5);
const TYPE: FieldRef = FieldRef::Header(ETH, FieldId(1));
const SUM: FieldRef = FieldRef::Header(ETH, FieldId(2));
const OPTIONS: FieldRef = FieldRef::Header(OPT, FieldId(1));
const M: FieldRef = FieldRef::Meta(MetaId(6));
const BYTE: FieldRef = FieldRef::Meta(MetaId(7));
const PORT: Expr = Expr::Param(0);

fn int(v: u128, w: u32) -> Expr {
    Expr::int(v, w)
}

fn bits(v: u128, w: u32) -> Bits {
    Bits::from_u128(v, w)
}

/// A program with one of everything, that obeys every rule.
fn good() -> Program {
    let mut b = Builder::new();
    let eth = b.header_type("eth", &[("dst", 48), ("type", 16), ("sum", 16)]);
    let opt = b.header_type_fields(
        "opt",
        vec![
            Field { name: "len".into(), width: 8, varbit: false },
            Field { name: "options".into(), width: 320, varbit: true },
        ],
    );
    let vlan = b.header_type("vlan", &[("tag", 16), ("type", 16)]);
    b.header("eth", eth);
    b.header("opt", opt);
    let stack = b.stack("vlan", vlan, 2);
    let (x, y) = (b.header("a", vlan), b.header("b", vlan));
    b.union("ab", &[x, y]);
    b.meta("m", 32);
    b.meta("byte", 8);
    let set = b.value_set("types", 16, 4);
    let start = b.state("start");
    let more = b.state("more");
    let case = |p: Select, next| SelectCase { patterns: vec![p], next };
    b.set_state(
        start,
        vec![ParserOp::Extract { header: eth_id(), varbit: None }],
        Transition::Select {
            keys: vec![Expr::Field(TYPE)],
            cases: vec![
                case(Select::Masked(bits(1, 16), Bits::ones(16)), Transition::State(more)),
                case(Select::ValueSet(set), Transition::Reject),
                case(Select::Range(bits(3, 16), bits(5, 16)), Transition::Accept),
                case(Select::Any, Transition::Accept),
            ],
        },
    );
    b.set_state(
        more,
        vec![
            ParserOp::Extract { header: OPT, varbit: Some(Expr::Lookahead { skip: 0, width: 8 }) },
            ParserOp::ExtractNext { stack, varbit: None },
            ParserOp::Verify(Expr::bool(true), 16),
        ],
        Transition::Accept,
    );
    b.emit(ETH);
    b.emit_stack(stack);
    b.checksum(Checksum {
        field: SUM,
        algorithm: ChecksumAlgorithm::Csum16,
        mode: ChecksumMode::Incremental,
        inputs: vec![Expr::Field(TYPE)],
        payload: false,
        condition: Some(Expr::Valid(ETH)),
        zero_is_none: false,
    });
    b.register("r", 32, 8);
    b.counter("c", 8);
    b.digest("d", &[("m", 32)]);
    b.service("s", &[("a", 32)], &[("x", 32), ("y", 8)], true);
    let fwd = b.action("fwd", &[("port", 32)], vec![Op::Output { port: PORT }]);
    let drop = b.action("drop", &[], vec![Op::Drop(DropReason::Action)]);
    let go = b.action("go", &[], vec![Op::Goto(BlockId(2))]);
    b.action("many", &[("group", 32)], vec![Op::Group { group: PORT }]);
    let key = |name: &str, kind| Key { name: name.into(), expr: Expr::Field(M), kind, width: 32 };
    b.table(Table {
        name: "t".into(),
        key: Arc::new([
            key("e", MatchKind::Exact),
            key("l", MatchKind::Lpm),
            key("t", MatchKind::Ternary),
            key("r", MatchKind::Range),
            key("o", MatchKind::Optional),
        ]),
        actions: Some(vec![fwd, drop, go]),
        default: ActionCall::new(drop),
        default_const: false,
        capacity: 10,
        counters: true,
    });
    b.table(Table {
        name: "any".into(),
        key: Arc::new([]),
        actions: None,
        default: ActionCall::new(drop),
        default_const: false,
        capacity: 10,
        counters: false,
    });
    let blocks: Vec<_> = ["b0", "b1", "b2", "b3"].iter().map(|n| b.block(n)).collect();
    b.set_block(
        blocks[0],
        vec![],
        Terminator::Apply {
            table: TableId(0),
            hit: blocks[1],
            miss: blocks[2],
            by_action: vec![(fwd, blocks[3])],
        },
    );
    b.set_block(
        blocks[1],
        vec![Op::Clone { block: blocks[3], copy: crate::op::Copy::Current }],
        Terminator::If {
            condition: Expr::Field(M).eq(int(1, 32)),
            then: blocks[2],
            or_else: blocks[3],
        },
    );
    b.set_block(
        blocks[2],
        vec![],
        Terminator::Apply { table: TableId(1), hit: blocks[3], miss: blocks[3], by_action: vec![] },
    );
    b.finish()
}

fn eth_id() -> HeaderId {
    ETH
}

#[track_caller]
fn breaks(rule: Rule, change: impl FnOnce(&mut Program)) {
    let mut p = good();
    change(&mut p);
    match program(&p) {
        Err(e) => {
            assert_eq!(e.rule, rule, "{e}");
            assert!(!e.place.is_empty(), "{e}");
        }
        Ok(()) => panic!("rule {rule} was not broken"),
    }
}

#[track_caller]
fn action_breaks(rule: Rule, op: Op) {
    let a = Action {
        name: "x".into(),
        params: vec![Param { name: "p".into(), width: 32 }],
        body: vec![op],
    };
    match action(&good(), &a) {
        Err(e) => {
            assert_eq!(e.rule, rule, "{e}");
            assert!(e.place.starts_with("action x, operation 1 ("), "{e}");
        }
        Ok(()) => panic!("rule {rule} was not broken"),
    }
}

#[track_caller]
fn expr_breaks(rule: Rule, e: Expr) {
    action_breaks(rule, Op::Punt { reason: crate::verdict::PuntReason::Action, args: vec![e] });
}

#[test]
fn the_list_holds_every_rule_once() {
    let head = include_str!("mod.rs");
    for rule in Rule::ALL {
        assert_eq!(head.matches(&format!("//! - {rule}: ")).count(), 1, "{rule}");
    }
    assert_eq!(head.matches("//! - ").count(), Rule::ALL.len());
}

#[test]
fn a_good_program_passes() {
    program(&good()).unwrap();
    program(&Program::new()).unwrap();
    for i in 0..4 {
        block(&good(), BlockId(i)).unwrap();
    }
    assert_eq!(block(&good(), BlockId(4)).unwrap_err().rule, Rule::N4);
}

#[test]
fn names() {
    breaks(Rule::N1, |p| p.header_types[1].name = "eth".into());
    breaks(Rule::N1, |p| p.headers[0].name = "vlan".into());
    breaks(Rule::N1, |p| p.tables[0].name = String::new());
    breaks(Rule::N1, |p| p.blocks[0].name = "b1".into());
    breaks(Rule::N1, |p| p.header_types[0].fields[0].name = "type".into());
    breaks(Rule::N1, |p| {
        let mut key = p.tables[0].key.to_vec();
        key[1].name = "e".into();
        p.tables[0].key = key.into();
    });
    breaks(Rule::N1, |p| {
        let two = Param { name: "m".into(), width: 8 };
        p.digests[0].fields.push(two);
    });
    breaks(Rule::N2, |p| p.header_types[0].fields[0].name = "a.b".into());
    breaks(Rule::N2, |p| p.headers[0].name = "eth.last".into());
    breaks(Rule::N2, |p| p.metadata[6].name = "eth.dst".into());
    breaks(Rule::N2, |p| p.metadata[6].name = "vlan.last.tag".into());
    breaks(Rule::N2, |p| p.parser[1].name = "accept".into());
    breaks(Rule::N3, |p| p.metadata[0].width = 9);
    breaks(Rule::N3, |p| p.metadata.clear());
}

#[test]
fn references() {
    breaks(Rule::N4, |p| p.headers[0].header_type = HeaderTypeId(9));
    breaks(Rule::N4, |p| p.deparser.push(HeaderId(99)));
    breaks(Rule::N4, |p| p.parser[1].next = Transition::State(ParserStateId(7)));
    breaks(Rule::N4, |p| p.tables[0].default.action = ActionId(9));
    breaks(Rule::N4, |p| p.tables[0].actions = Some(vec![ActionId(9)]));
    breaks(Rule::N4, |p| p.blocks[3].end = Terminator::Jump(BlockId(9)));
    breaks(Rule::N4, |p| p.unions[0].members.push(HeaderId(99)));
    for op in [
        Op::Assign(FieldRef::Meta(MetaId(99)), int(0, 32)),
        Op::Assign(FieldRef::Header(ETH, FieldId(9)), int(0, 32)),
        Op::Assign(FieldRef::Last(StackId(9), FieldId(0)), int(0, 32)),
        Op::SetValid(HeaderId(99)),
        Op::CopyHeader { to: ETH, from: HeaderId(99) },
        Op::PushFront(StackId(9), 1),
        Op::Clone { block: BlockId(9), copy: crate::op::Copy::Ingress },
        Op::Goto(BlockId(9)),
        Op::Digest { digest: DigestId(9), args: vec![], once: None },
        Op::Service { service: ServiceId(9), args: vec![], results: vec![] },
        Op::Count { counter: 9, index: int(0, 32) },
        Op::RegisterRead { field: M, register: RegisterId(9), index: int(0, 32) },
        Op::Resubmit { keep: vec![MetaId(99)] },
        Op::Output { port: Expr::Param(1) },
    ] {
        action_breaks(Rule::N4, op);
    }
}

fn hash_of(width: u32) -> Expr {
    Expr::Hash { algorithm: HashAlgorithm::Crc16, width, inputs: vec![int(1, 8)] }
}

#[test]
fn widths() {
    breaks(Rule::W1, |p| p.header_types[0].fields[0].width = 0);
    breaks(Rule::W1, |p| p.metadata[6].width = FIELD_WIDTH_MAX + 1);
    let varbit = |p: &mut Program, width| {
        let last = p.header_types[0].fields.last_mut().unwrap();
        (last.varbit, last.width) = (true, width);
    };
    breaks(Rule::W1, |p| varbit(p, VARBIT_WIDTH_MAX + 1));
    breaks(Rule::W1, |p| varbit(p, 0));
    breaks(Rule::W9, |p| {
        p.header_types[0].fields.clear();
        p.header_types[0].fields.push(crate::program::Field {
            name: "rest".into(),
            width: VARBIT_WIDTH_MAX,
            varbit: true,
        });
        let one = p.headers[0].clone();
        let more = (0..300).map(|i| HeaderInstance { name: format!("more{i}"), ..one.clone() });
        p.headers.extend(more);
    });
    breaks(Rule::W1, |p| p.registers[0].width = 0);
    expr_breaks(Rule::W2, Expr::binary(BinaryOp::Add, Expr::Param(0), int(1, 16)));
    expr_breaks(Rule::W2, Expr::Param(0).eq(int(1, 16)));
    expr_breaks(
        Rule::W2,
        Expr::Mux(Box::new(Expr::bool(true)), Box::new(int(1, 8)), Box::new(int(1, 9))),
    );
    for op in [
        Op::Assign(M, int(1, 31)),
        Op::AssignSlice(M, 7, 0, int(1, 9)),
        Op::Output { port: int(1, 16) },
        Op::Group { group: int(1, 16) },
        Op::Meter { meter: int(1, 16), color: BYTE, level: BYTE },
        Op::Meter { meter: int(1, 32), color: M, level: BYTE },
        Op::Count { counter: 0, index: int(0, 31) },
        Op::RegisterRead { field: BYTE, register: RegisterId(0), index: int(0, 32) },
        Op::RegisterWrite { register: RegisterId(0), index: int(0, 32), value: int(0, 8) },
        Op::Random { field: M, lo: int(0, 32), hi: int(0, 8) },
        Op::PayloadSum { field: M },
        Op::PayloadHash { field: M, hash: int(0, 32) },
        Op::PayloadHash { field: M, hash: hash_of(16) },
        Op::Truncate { length: int(0, 16) },
    ] {
        action_breaks(Rule::W3, op);
    }
    let yes = |condition| Op::If { condition, then: vec![], or_else: vec![] };
    action_breaks(Rule::W4, yes(Expr::Field(M)));
    action_breaks(Rule::W4, Op::Loop { condition: Expr::Field(M), body: vec![] });
    let once = |op| Op::Loop { condition: Expr::bool(true), body: vec![Op::Exit, yes_do(op)] };
    for op in [
        Op::Output { port: int(1, 32) },
        Op::Goto(crate::id::BlockId(1)),
        Op::Reparse,
        Op::Resubmit { keep: vec![] },
        Op::Service { service: ServiceId(0), args: vec![int(1, 32)], results: vec![] },
    ] {
        action_breaks(Rule::L1, once(op));
    }
    action_breaks(Rule::W3, once(Op::PayloadSum { field: M }));
    action_breaks(Rule::H4, Op::CopyVarbit { to: M, from: M });
    expr_breaks(Rule::W4, Expr::Field(M).and(Expr::bool(true)));
    expr_breaks(Rule::W4, Expr::Field(M).not());
    breaks(Rule::W4, |p| p.parser[1].ops[2] = ParserOp::Verify(Expr::Field(M), 16));
    expr_breaks(Rule::W5, Expr::Param(0).slice(32, 0));
    expr_breaks(Rule::W5, Expr::Param(0).slice(3, 4));
    action_breaks(Rule::W5, Op::AssignSlice(M, 40, 0, int(1, 41)));
    expr_breaks(Rule::W6, Expr::Const(Bits::zero(0)));
    expr_breaks(Rule::W6, int(1, 8).cast(u32::MAX));
    let wide = || int(1, WIDTH_MAX);
    expr_breaks(Rule::W6, Expr::binary(BinaryOp::Concat, wide(), wide()));
    expr_breaks(
        Rule::W6,
        Expr::Hash { algorithm: HashAlgorithm::Crc32, width: 32, inputs: vec![wide(), wide()] },
    );
    let crc = |width, polynomial| {
        let (reflect_in, reflect_out) = (true, false);
        let crc =
            Crc { width, polynomial, init: 0, xor_out: 0, reflect_in, reflect_out, function: 0 };
        Expr::Hash { algorithm: HashAlgorithm::Crc(crc), width: 32, inputs: vec![int(1, 8)] }
    };
    expr_breaks(Rule::W8, crc(7, 1));
    expr_breaks(Rule::W8, crc(33, 1));
    expr_breaks(Rule::W8, crc(16, 0x1_0000));
    let mut deep = Expr::bool(true);
    for _ in 0..=DEPTH_MAX {
        deep = deep.not();
    }
    expr_breaks(Rule::W7, deep);
    let mut op = Op::Exit;
    for _ in 0..=DEPTH_MAX {
        op = Op::If { condition: Expr::bool(true), then: vec![op], or_else: vec![] };
    }
    action_breaks(Rule::W7, op);
}

#[test]
fn scopes() {
    breaks(Rule::X1, |p| p.blocks[0].ops.push(Op::Output { port: PORT }));
    expr_breaks(Rule::X2, Expr::Remaining);
    expr_breaks(Rule::X2, Expr::Lookahead { skip: 0, width: 8 });
}

#[test]
fn headers() {
    breaks(Rule::H1, |p| p.header_types[0].fields[0].varbit = true);
    breaks(Rule::H2, |p| p.stacks[0].size = 3);
    breaks(Rule::H2, |p| p.stacks[0].size = 0);
    breaks(Rule::H2, |p| p.headers[V0.index()].name = "other".into());
    breaks(Rule::H2, |p| p.headers[V0.index() + 1].header_type = HeaderTypeId(0));
    breaks(Rule::H2, |p| p.headers[0].stack = Some((StackId(0), 0)));
    breaks(Rule::H3, |p| p.unions[0].members.push(A));
    breaks(Rule::H3, |p| p.headers[B.index()].union = None);
    breaks(Rule::H3, |p| p.unions[0].members.push(V0));
    breaks(Rule::H3, |p| p.headers[0].union = Some(UnionId(0)));
    action_breaks(Rule::H4, Op::Assign(OPTIONS, int(0, 320)));
    expr_breaks(Rule::H4, Expr::Field(OPTIONS).slice(7, 0));
    action_breaks(Rule::H5, Op::CopyHeader { to: ETH, from: A });
    action_breaks(Rule::H6, Op::PushFront(StackId(0), 0));
    action_breaks(Rule::H6, Op::PopFront(StackId(0), 3));
}

#[test]
fn parser_deparser_checksums() {
    breaks(Rule::P1, |p| p.parser[1].ops[0] = ParserOp::Extract { header: OPT, varbit: None });
    breaks(Rule::P1, |p| {
        p.parser[1].ops[0] = ParserOp::Extract { header: ETH, varbit: Some(int(8, 8)) };
    });
    let case = |p: &mut Program, pattern: Select| {
        let Transition::Select { cases, .. } = &mut p.parser[0].next else { unreachable!() };
        cases[0].patterns = vec![pattern];
    };
    breaks(Rule::P2, |p| case(p, Select::Masked(bits(1, 8), Bits::ones(8))));
    breaks(Rule::P2, |p| {
        p.value_sets[0].width = 8;
    });
    breaks(Rule::P2, |p| {
        let Transition::Select { cases, .. } = &mut p.parser[0].next else { unreachable!() };
        cases[0].patterns.clear();
    });
    breaks(Rule::P3, |p| p.parser[1].ops[2] = ParserOp::Verify(Expr::bool(true), 0));
    breaks(Rule::P4, |p| case(p, Select::Masked(bits(3, 16), bits(1, 16))));
    breaks(Rule::P4, |p| case(p, Select::Range(bits(3, 16), bits(1, 16))));
    breaks(Rule::D1, |p| p.deparser.push(ETH));
    breaks(Rule::C1, |p| p.checksums[0].field = M);
    breaks(Rule::C1, |p| p.checksums[0].field = FieldRef::Header(ETH, FieldId(0)));
    breaks(Rule::C1, |p| p.checksums[0].inputs.push(Expr::Field(SUM)));
    breaks(Rule::C2, |p| p.checksums[0].inputs.push(int(1, 8)));
    breaks(Rule::C3, |p| p.checksums[0].payload = true);
}

#[test]
fn actions_tables_blocks() {
    breaks(Rule::A1, |p| p.tables[0].default = ActionCall::new(ActionId(0)));
    breaks(Rule::A1, |p| {
        p.tables[0].default = ActionCall::with(ActionId(0), [bits(1, 16)]);
    });
    action_breaks(Rule::A2, Op::Digest { digest: DigestId(0), args: vec![], once: None });
    let one = |once| Op::Digest { digest: DigestId(0), args: vec![int(1, 8)], once };
    action_breaks(Rule::A2, one(None));
    action_breaks(Rule::A2, one(Some(2)));
    breaks(Rule::N1, |p| p.services.push(p.services[0].clone()));
    breaks(Rule::W1, |p| p.services[0].results[0].width = 0);
    let call = |args, results: &[u32]| {
        let results = results.iter().map(|m| MetaId(*m)).collect();
        Op::Service { service: ServiceId(0), args, results }
    };
    action_breaks(Rule::A4, call(vec![], &[]));
    action_breaks(Rule::A4, call(vec![int(1, 8)], &[]));
    action_breaks(Rule::A4, call(vec![int(1, 32)], &[6, 7, 7]));
    action_breaks(Rule::W3, call(vec![int(1, 32)], &[7]));
    action_breaks(Rule::N4, call(vec![int(1, 32)], &[99]));
    let mut p = good();
    p.blocks[2].ops.push(call(vec![int(1, 32)], &[6]));
    program(&p).unwrap();
    action_breaks(Rule::A3, Op::Recirculate { keep: vec![MetaId(6), MetaId(6)] });
    breaks(Rule::T1, |p| {
        let mut key = p.tables[0].key.to_vec();
        key[1].width = 31;
        p.tables[0].key = key.into();
    });
    breaks(Rule::T2, |p| p.tables[0].actions = Some(vec![ActionId(0), ActionId(0)]));
    breaks(Rule::T2, |p| {
        let Terminator::Apply { by_action, .. } = &mut p.blocks[0].end else { unreachable!() };
        by_action[0].0 = ActionId(3);
    });
    breaks(Rule::T3, |p| {
        let Terminator::Apply { table, .. } = &mut p.blocks[2].end else { unreachable!() };
        *table = TableId(0);
    });
    breaks(Rule::T3, |p| p.tables[1].default.action = ActionId(2));
    breaks(Rule::B1, |p| p.blocks[1].end = Terminator::Jump(BlockId(1)));
    breaks(Rule::B1, |p| p.blocks[1].end = Terminator::Jump(BlockId(0)));
    breaks(Rule::B2, |p| p.blocks[0].ops.push(Op::Goto(BlockId(3))));
    breaks(Rule::B3, |p| {
        let op = Op::Clone { block: BlockId(2), copy: crate::op::Copy::Current };
        p.blocks[2].ops.push(op);
    });
    // A call leads anywhere, back included; a copy in place goes nowhere.
    let mut p = good();
    p.blocks[2].ops.push(Op::Call { block: BlockId(0), until: BlockId(3), guise: None, site: 0 });
    p.blocks[2].ops.push(Op::OnCopy { body: vec![Op::Exit] });
    program(&p).unwrap();
    breaks(Rule::N4, |p| {
        let call = Op::Call { block: BlockId(0), until: BlockId(99), guise: None, site: 0 };
        p.blocks[2].ops.push(call);
    });
    breaks(Rule::N4, |p| {
        let guise =
            Some(crate::Guise { in_port: int(1, 32), columns: vec![], tables: vec![TableId(99)] });
        p.blocks[2].ops.push(Op::Call { block: BlockId(0), until: BlockId(3), guise, site: 0 });
    });
    breaks(Rule::W3, |p| {
        let guise = Some(crate::Guise { in_port: int(1, 8), columns: vec![], tables: vec![] });
        p.blocks[2].ops.push(Op::Call { block: BlockId(0), until: BlockId(3), guise, site: 0 });
    });
    breaks(Rule::W3, |p| {
        p.blocks[2].ops.push(Op::PortIs { field: M, what: PortIs::Live, port: int(1, 32) })
    });
    breaks(Rule::L2, |p| {
        p.blocks[2].ops.push(Op::OnCopy { body: vec![Op::Goto(BlockId(3))] });
    });
}

fn matching(key: u16, pattern: Pattern) -> KeyMatch {
    KeyMatch { key, pattern }
}

fn exact() -> KeyMatch {
    matching(0, Pattern::Exact(bits(1, 32)))
}

fn an_entry(matches: Vec<KeyMatch>) -> Entry {
    Entry {
        id: EntryId(1),
        priority: 0,
        matches: matches.into(),
        action: ActionCall::new(ActionId(1)),
        cookie: 0,
        idle_timeout_ns: 0,
        hard_timeout_ns: 0,
    }
}

fn pipeline() -> Pipeline {
    Pipeline::new(Arc::new(good())).unwrap()
}

#[track_caller]
fn entry_breaks(rule: Rule, table: u32, e: &Entry) {
    let err = entry(&pipeline(), TableId(table), e).unwrap_err();
    assert_eq!(err.rule, rule, "{err}");
}

#[test]
fn entries() {
    let good = |m: Vec<KeyMatch>| entry(&pipeline(), TableId(0), &an_entry(m)).unwrap();
    good(vec![exact()]);
    good(vec![
        exact(),
        matching(1, Pattern::Prefix(bits(0x0a00_0000, 32), 8)),
        matching(2, Pattern::Masked(bits(1, 32), bits(3, 32))),
        matching(3, Pattern::Range(bits(1, 32), bits(1, 32))),
        matching(4, Pattern::Exact(bits(1, 32))),
    ]);
    good(vec![exact(), matching(2, Pattern::Prefix(bits(0, 32), 0))]);
    let bad = |rule, more: Vec<KeyMatch>| {
        let mut m = vec![exact()];
        m.extend(more);
        entry_breaks(rule, 0, &an_entry(m));
    };
    let one = |w| Pattern::Exact(bits(1, w));
    bad(Rule::E1, vec![exact()]);
    bad(Rule::E1, vec![matching(3, one(32)), matching(2, one(32))]);
    bad(Rule::N4, vec![matching(5, one(32))]);
    bad(Rule::E2, vec![matching(1, Pattern::Masked(bits(1, 32), bits(1, 32)))]);
    bad(Rule::E2, vec![matching(2, Pattern::Range(bits(1, 32), bits(1, 32)))]);
    bad(Rule::E2, vec![matching(3, Pattern::Prefix(bits(0, 32), 0))]);
    bad(Rule::E2, vec![matching(4, Pattern::Prefix(bits(0, 32), 0))]);
    bad(Rule::E3, vec![matching(1, one(31))]);
    bad(Rule::E3, vec![matching(1, Pattern::Prefix(bits(0, 32), 33))]);
    bad(Rule::E3, vec![matching(1, Pattern::Prefix(bits(1, 32), 8))]);
    bad(Rule::E3, vec![matching(2, Pattern::Masked(bits(3, 32), bits(1, 32)))]);
    bad(Rule::E3, vec![matching(3, Pattern::Range(bits(3, 32), bits(1, 32)))]);
    entry_breaks(Rule::E4, 0, &an_entry(vec![]));
    entry_breaks(Rule::E4, 0, &an_entry(vec![matching(1, one(32))]));
    let call = |call| Entry { action: call, ..an_entry(vec![exact()]) };
    entry_breaks(Rule::E5, 0, &call(ActionCall::with(ActionId(3), [bits(1, 32)])));
    entry_breaks(Rule::A1, 0, &call(ActionCall::new(ActionId(0))));
    entry_breaks(Rule::N4, 1, &Entry { action: ActionCall::new(ActionId(77)), ..an_entry(vec![]) });
    entry_breaks(Rule::T3, 1, &Entry { action: ActionCall::new(ActionId(2)), ..an_entry(vec![]) });
    let e = table_call(&pipeline(), TableId(0), &ActionCall::new(ActionId(3))).unwrap_err();
    assert_eq!(e.rule, Rule::E5);
    let e = table_call(&pipeline(), TableId(1), &ActionCall::new(ActionId(2))).unwrap_err();
    assert_eq!(e.rule, Rule::T3);
    table_call(&pipeline(), TableId(0), &ActionCall::new(ActionId(2))).unwrap();
}

fn yes_do(op: Op) -> Op {
    Op::If { condition: Expr::bool(true), then: vec![op], or_else: vec![] }
}

fn a_group(kind: GroupKind, calls: Vec<ActionCall>) -> Group {
    let bucket = |action| Bucket {
        weight: 1,
        watch_port: None,
        watch_group: None,
        action,
        counter: CounterId(0),
    };
    Group {
        kind,
        buckets: calls.into_iter().map(bucket).collect(),
        hash: [].into(),
        counter: CounterId(0),
    }
}

#[test]
fn groups() {
    let p = pipeline();
    let bad = |rule, g: &Group| {
        let e = group(&p, GroupId(1), g).unwrap_err();
        assert_eq!(e.rule, rule, "{e}");
    };
    let drop = || ActionCall::new(ActionId(1));
    let to = |n| ActionCall::with(ActionId(3), [bits(n, 32)]);
    group(&p, GroupId(1), &a_group(GroupKind::All, vec![drop(), to(2)])).unwrap();
    bad(Rule::G1, &a_group(GroupKind::Indirect, vec![]));
    bad(Rule::G1, &a_group(GroupKind::Indirect, vec![drop(), drop()]));
    bad(Rule::G2, &a_group(GroupKind::All, vec![ActionCall::new(ActionId(2))]));
    bad(Rule::A1, &a_group(GroupKind::All, vec![ActionCall::new(ActionId(0))]));
    bad(Rule::G4, &a_group(GroupKind::All, vec![to(1)]));
    let mut watch = a_group(GroupKind::FastFailover, vec![drop()]);
    watch.buckets[0].watch_group = Some(GroupId(1));
    bad(Rule::G4, &watch);
    let mut hash = a_group(GroupKind::Select, vec![drop()]);
    hash.hash = [PORT].into();
    bad(Rule::X1, &hash);

    // A circle of three, and a chain that is too long.
    let mut p = pipeline();
    let set = |p: &mut Pipeline, id, n| {
        let g = Arc::new(a_group(GroupKind::All, vec![to(n)]));
        p.transact(&[Update::SetGroup(GroupId(id), g)]).map(|_| ())
    };
    set(&mut p, 2, 3).unwrap();
    set(&mut p, 3, 1).unwrap();
    assert!(set(&mut p, 1, 2).unwrap_err().1.to_string().contains("circle"));
    let mut p = pipeline();
    for i in 0..GROUP_CHAIN_MAX as u32 {
        set(&mut p, 100 - i, u128::from(101 - i)).unwrap();
    }
    assert!(set(&mut p, 92, 93).unwrap_err().1.to_string().contains("chain"));

    // A bucket may clone past the last block that can use a group (b2, by table `any`), not to it.
    let clone = |p: &mut Pipeline, id, to| {
        let copy = crate::op::Copy::Current;
        let body = vec![Op::Clone { block: BlockId(to), copy }];
        let action = Action { name: format!("clone{to}"), params: vec![], body };
        let g =
            a_group(GroupKind::All, vec![ActionCall { action: ActionId(id), args: smallvec![] }]);
        p.transact(&[Update::AddAction(ActionId(id), Arc::new(action))]).unwrap();
        group(p, GroupId(5), &g).map_err(|e| e.rule)
    };
    assert_eq!(clone(&mut p, 50, 3), Ok(()));
    assert_eq!(clone(&mut p, 51, 2), Err(Rule::G3));
}

#[test]
fn value_sets() {
    let set = ValueSet { name: "s".into(), width: 16, capacity: 4 };
    let good = [Select::Masked(bits(1, 16), bits(1, 16)), Select::Range(bits(1, 16), bits(2, 16))];
    value_set(&set, &good).unwrap();
    for bad in [
        Select::ValueSet(ValueSetId(0)),
        Select::Masked(bits(1, 8), bits(1, 8)),
        Select::Masked(bits(1, 16), bits(2, 16)),
        Select::Range(bits(2, 16), bits(1, 16)),
    ] {
        assert_eq!(value_set(&set, &[bad]).unwrap_err().rule, Rule::V1);
    }
}

#[test]
fn messages_are_precise() {
    let mut p = good();
    let inner = Op::Assign(M, int(1, 8));
    let op = Op::If { condition: Expr::bool(true), then: vec![Op::Exit, inner], or_else: vec![] };
    p.blocks[1].ops.push(op);
    assert_eq!(
        program(&p).unwrap_err().to_string(),
        "block b1, operation 2 (if), then, operation 2 (assignment): m is 32 bits wide, \
         the value has 8: cast it (rule W3)"
    );
    let call = ActionCall::with(ActionId(3), [bits(1, 32)]);
    let e = Entry { action: call, ..an_entry(vec![exact()]) };
    assert_eq!(
        entry(&pipeline(), TableId(0), &e).unwrap_err().to_string(),
        "table t, entry1: the table does not allow action many; it allows fwd, drop, go (rule E5)"
    );
}
