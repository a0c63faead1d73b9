//! Operations, tables, passes and verdicts.

mod common;

use common::*;
use interp::{Collect, Color, Input, Machine, MemoryExterns, NullExterns, Start};
use ir::builder::Builder;
use ir::program::intrinsic;
use ir::{
    Action, ActionCall, BinaryOp, Bits, BlockId, Copy, DropReason, EntryId, Expr, FieldRef,
    HeaderId, MatchKind, MeterId, Op, Param, ParserOp, Pattern, Pipeline, PortIs, PuntReason,
    RegisterId, StackId, TableId, Terminator, Transition, Verdict,
};

/// `n` elements of one byte each, as many as the first byte says.
fn labels(n: u32) -> (Builder, StackId, ir::FieldId) {
    let mut b = Builder::new();
    let ty = b.header_type("label", &[("last", 1), ("value", 7)]);
    let stack = b.stack("labels", ty, n);
    let start = b.state("start");
    let element = b.element(stack, 0);
    let (last, value) = (b.field(element, "last"), b.field(element, "value"));
    let next =
        select(Expr::Field(FieldRef::Last(stack, last)), 1, &[(0, start)], Transition::Accept);
    b.set_state(start, vec![ParserOp::ExtractNext { stack, varbit: None }], next);
    b.emit_stack(stack);
    (b, stack, value)
}

#[test]
fn push_and_pop_shift_the_stack() {
    let case = |ops: &[fn(StackId) -> Op], bytes: &[u8]| {
        let (b, stack, _) = labels(3);
        let mut ops: Vec<Op> = ops.iter().map(|op| op(stack)).collect();
        ops.push(out(1));
        let ran = run(&one_block(b, ops), bytes);
        match ran.verdict {
            Verdict::Forward => Ok(ran.only().to_vec()),
            Verdict::Drop(reason) => Err(reason),
            Verdict::Punt(_) => unreachable!(),
        }
    };
    let push = |s| Op::PushFront(s, 1);
    let pop = |s| Op::PopFront(s, 1);
    let pop_many = |s| Op::PopFront(s, 3);
    let full = [1, 2, 0x83, 9];
    assert_eq!(case(&[push], &[0x81, 9]), Ok(vec![0, 0x81, 9]));
    assert_eq!(case(&[push, push], &[0x81, 9]), Ok(vec![0, 0, 0x81, 9]));
    assert_eq!(case(&[push], &full), Err(DropReason::HeaderStackOverflow));
    assert_eq!(case(&[pop], &full), Ok(vec![2, 0x83, 9]));
    assert_eq!(case(&[pop, push], &full), Ok(vec![0, 2, 0x83, 9]));
    assert_eq!(case(&[pop, pop, pop, pop], &full), Ok(vec![9]));
    assert_eq!(case(&[pop_many], &full), Ok(vec![9]));
    assert_eq!(case(&[pop_many, push], &full), Ok(vec![0, 9]));
}

#[test]
fn last_is_the_last_valid_element() {
    let (b, stack, value) = labels(3);
    let last = FieldRef::Last(stack, value);
    let first = b.element(stack, 0);
    let ops = vec![
        Op::Assign(last, num(0x7fu8, 7)),
        out(1),
        Op::PopFront(stack, 3),
        Op::Assign(last, num(1u8, 7)),
        Op::Punt { reason: PuntReason::Action, args: vec![Expr::Field(last)] },
        out(2),
        Op::SetValid(first),
        Op::AssignSlice(last, 6, 4, num(0b101u8, 3)),
        out(3),
    ];
    let ran = run(&one_block(b, ops), &[1, 0x82, 9]);
    assert_eq!(ran.outputs(), [(1, vec![1, 0xff, 9]), (2, vec![9]), (3, vec![0x50, 9])]);
    assert!(ran.sink.punts[0].args[0].is_zero());
    ran.says("labels.last.value: header not valid, nothing assigned");
}

#[test]
fn set_valid_zeroes_only_what_was_invalid_and_copies_are_whole() {
    let mut b = Builder::new();
    let ty = b.header_type("byte", &[("v", 8)]);
    let (one, two) = (b.header("one", ty), b.header("two", ty));
    let start = b.state("start");
    b.set_state(start, vec![extract(one)], Transition::Accept);
    b.emit(one);
    b.emit(two);
    let ops = vec![
        Op::SetValid(one),
        out(1),
        Op::SetInvalid(one),
        Op::SetValid(one),
        out(2),
        Op::Assign(field(&b, one, "v"), num(5u8, 8)),
        Op::CopyHeader { to: two, from: one },
        out(3),
        Op::SetInvalid(one),
        Op::CopyHeader { to: two, from: one },
        Op::CopyHeader { to: one, from: one },
        out(4),
    ];
    let ran = run(&one_block(b, ops), &[7, 9]);
    let expected = [(1, vec![7, 9]), (2, vec![0, 9]), (3, vec![5, 5, 9]), (4, vec![9])];
    assert_eq!(ran.outputs(), expected);
    assert!(ran.sink.outputs[0].unchanged);
}

#[test]
fn expressions_have_their_documented_values() {
    let a = num(0xf0u8, 8);
    let b8 = |v: u8| num(v, 8);
    let invalid = FieldRef::Header(HeaderId(0), ir::FieldId(0));
    for (e, width, value) in [
        (bin(BinaryOp::Add, a.clone(), b8(0x20)), 8, 0x10),
        (bin(BinaryOp::AddSat, a.clone(), b8(0x20)), 8, 0xff),
        (bin(BinaryOp::Sub, b8(1), b8(2)), 8, 0xff),
        (bin(BinaryOp::SubSat, b8(1), b8(2)), 8, 0),
        (bin(BinaryOp::Mul, a.clone(), b8(2)), 8, 0xe0),
        (bin(BinaryOp::Shl, a.clone(), num(100u8, 16)), 8, 0),
        (bin(BinaryOp::Shr, a.clone(), num(4u8, 3).cast(16)), 8, 0xf),
        (bin(BinaryOp::Sar, a.clone(), num(200u8, 16)), 8, 0xff),
        (bin(BinaryOp::SLt, a.clone(), b8(1)), 1, 1),
        (bin(BinaryOp::Lt, a.clone(), b8(1)), 1, 0),
        (bin(BinaryOp::SLe, b8(1), b8(1)), 1, 1),
        (bin(BinaryOp::Ge, b8(1), b8(1)), 1, 1),
        (bin(BinaryOp::Concat, a.clone(), num(5u8, 4)), 12, 0xf05),
        (bin(BinaryOp::LogicalAnd, num(1u8, 1), num(0u8, 1)), 1, 0),
        (bin(BinaryOp::LogicalOr, num(1u8, 1), num(0u8, 1)), 1, 1),
        (Expr::Unary(ir::UnaryOp::Not, Box::new(a.clone())), 8, 0x0f),
        (Expr::Unary(ir::UnaryOp::Neg, Box::new(b8(1))), 8, 0xff),
        (num(0u8, 1).not(), 1, 1),
        (a.clone().slice(7, 4), 4, 0xf),
        (a.clone().cast(4), 4, 0),
        (Expr::SignCast(Box::new(a.clone()), 12), 12, 0xff0),
        (Expr::Mux(Box::new(num(1u8, 1)), Box::new(b8(3)), Box::new(b8(4))), 8, 3),
        (Expr::Field(invalid), 8, 0),
        (Expr::Valid(HeaderId(0)), 1, 0),
        (Expr::meta(intrinsic::IN_PORT), 32, 7),
        (Expr::meta(intrinsic::PACKET_LENGTH), 32, 3),
        (Expr::meta(intrinsic::NOW), 64, 1000),
        (
            Expr::Hash {
                algorithm: ir::HashAlgorithm::Crc32,
                width: 32,
                inputs: vec![num(0x3132_3334u32, 32), num(0x35_3637_3839u64, 40)],
            },
            32,
            0xcbf4_3926_u128,
        ),
        (
            Expr::Hash {
                algorithm: ir::HashAlgorithm::Identity,
                width: 16,
                inputs: vec![num(5u8, 3), num(1u8, 10)],
            },
            16,
            0x1401,
        ),
    ] {
        let mut b = Builder::new();
        let ty = b.header_type("byte", &[("v", 8)]);
        b.header("never", ty);
        let op = Op::Punt { reason: PuntReason::Action, args: vec![e.clone()] };
        let ran = run(&one_block(b, vec![op]), &[1, 2, 3]);
        assert_eq!(ran.sink.punts[0].args[0], bits(value, width), "{e:?}");
        assert_eq!(ran.verdict, Verdict::Punt(PuntReason::Action));
    }
}

/// Two tables in a row on the first and second byte.
struct TwoTables {
    pipeline: Pipeline,
    act: ir::ActionId,
    stop: ir::ActionId,
    jump: ir::ActionId,
    say: ir::ActionId,
}

fn two_tables() -> TwoTables {
    let mut b = Builder::new();
    let ty = b.header_type("pair", &[("a", 8), ("b", 8)]);
    let pair = b.header("pair", ty);
    let start = b.state("start");
    b.set_state(start, vec![extract(pair)], Transition::Accept);
    b.emit(pair);
    let nothing = b.action("nothing", &[], vec![]);
    let drop = b.action("drop", &[], vec![Op::Drop(DropReason::Action)]);
    let act = b.action("act", &[("port", 32)], vec![Op::Output { port: Expr::Param(0) }]);
    let stop = b.action("stop", &[], vec![Op::Exit, out(99)]);
    let reason = PuntReason::TableMiss;
    let say = b.action("say", &[], vec![Op::Punt { reason, args: vec![] }]);
    let names = ["first", "second", "hit", "miss", "listed", "end"];
    let [first, second, hit, miss, listed, end] = names.map(|n| b.block(n));
    let jump = b.action("jump", &[], vec![Op::Goto(miss), out(50)]);
    let on = |name, b: &Builder, h, kind| key(name, Expr::Field(field(b, h, name)), kind, 8);
    let a = on("a", &b, pair, MatchKind::Ternary);
    let one = b.table(table("one", vec![a.clone()], ActionCall::new(nothing)));
    let both = vec![a, on("b", &b, pair, MatchKind::Range)];
    let two = b.table(table("two", both, ActionCall::new(nothing)));
    let apply = |table, hit, miss, by_action| Terminator::Apply { table, hit, miss, by_action };
    b.set_block(first, vec![], apply(one, second, second, vec![]));
    b.set_block(second, vec![], apply(two, hit, miss, vec![(say, listed)]));
    b.set_block(hit, vec![out(100)], Terminator::Exit);
    b.set_block(miss, vec![], Terminator::Jump(end));
    b.set_block(listed, vec![out(101)], Terminator::Exit);
    let _ = drop;
    TwoTables { pipeline: pipeline(b.finish()), act, stop, jump, say }
}

#[test]
fn tables_hits_misses_goto_and_actions_lead_where_they_should() {
    let TwoTables { mut pipeline, act, stop, jump, say } = two_tables();
    let ran = run(&pipeline, &[1, 2]);
    assert_eq!(ran.verdict, Verdict::Drop(DropReason::TableMiss));
    assert_eq!(ran.externs.tables[&TableId(0)], (0, 1));
    ran.says("one: miss -> nothing");
    ran.says("verdict: drop(table_miss)");
    let masked = |v: u8, m: u8| (0, Pattern::Masked(bits(v, 8), bits(m, 8)));
    let range = |lo: u8, hi: u8| (1, Pattern::Range(bits(lo, 8), bits(hi, 8)));
    let forward = |p: u32| ActionCall::with(act, [bits(p, 32)]);
    insert(
        &mut pipeline,
        TableId(0),
        vec![
            entry(1, 5, &[masked(0x10, 0xf0)], forward(1)),
            entry(2, 9, &[masked(0x11, 0xff)], forward(2)),
            entry(3, 1, &[masked(0x20, 0xff)], ActionCall::new(stop)),
            entry(4, 1, &[masked(0x30, 0xff)], ActionCall::new(jump)),
        ],
    );
    insert(
        &mut pipeline,
        TableId(1),
        vec![
            entry(5, 1, &[range(5, 6)], forward(3)),
            entry(6, 2, &[masked(0, 1), range(6, 9)], ActionCall::new(say)),
        ],
    );
    let ran = run(&pipeline, &[0x12, 0]);
    assert_eq!((ran.ports(), ran.verdict), (vec![1], Verdict::Forward));
    assert_eq!(ran.externs.entries[&EntryId(1)].bytes, 2);
    assert_eq!(run(&pipeline, &[0x11, 5]).ports(), [2, 3, 100]);
    let ran = run(&pipeline, &[0x20, 5]);
    assert_eq!(ran.verdict, Verdict::Drop(DropReason::NoOutput));
    let ran = run(&pipeline, &[0x30, 5]);
    assert_eq!(ran.ports(), [50]);
    ran.says("goto miss");
    ran.says("key: 48");
    let ran = run(&pipeline, &[0x12, 6]);
    assert_eq!(ran.ports(), [1, 101]);
    ran.says("two: 0 &&& 1 6..9 -> say");
    ran.says("key: 18 6");
    let punt = &ran.sink.punts[0];
    assert_eq!((punt.table, punt.entry), (Some(TableId(1)), Some(EntryId(6))));
    assert_eq!(run(&pipeline, &[0x13, 6]).ports(), [1, 3, 100]);
    assert_eq!(run(&pipeline, &[0x14, 10]).ports(), [1]);
    // A punt and no output.
    assert_eq!(run(&pipeline, &[0x40, 6]).ports(), [101]);
}

#[test]
fn an_injected_packet_runs_its_action_and_ends_or_goes_on() {
    let TwoTables { pipeline, .. } = two_tables();
    let inject = |body: Vec<Op>, args: &[Bits]| {
        let params = args.iter().map(|a| Param { name: "p".into(), width: a.width() }).collect();
        let action = Action { name: "injected".into(), params, body };
        let mut sink = Collect::default();
        let start = Start::Action(&action, args);
        let input = Input { bytes: &[1, 2], in_port: 9, now_ns: 0, start };
        let verdict = Machine::new().run(&pipeline, input, &mut NullExterns, &mut sink, None);
        (verdict, sink.outputs.iter().map(|o| o.port).collect::<Vec<_>>())
    };
    let pass = Expr::meta(intrinsic::PASS).cast(32);
    let (verdict, ports) = inject(
        vec![Op::Output { port: Expr::Param(0) }, Op::Output { port: pass }],
        &[bits(5u8, 32)],
    );
    assert_eq!((verdict, ports), (Verdict::Forward, vec![5, 4]));
    assert_eq!(inject(vec![], &[]).0, Verdict::Drop(DropReason::NoOutput));
    assert_eq!(inject(vec![Op::Goto(ir::BlockId(2))], &[]).1, [100]);
    assert_eq!(
        inject(vec![Op::Resubmit { keep: vec![] }], &[]).0,
        Verdict::Drop(DropReason::TableMiss)
    );
}

#[test]
fn if_drop_exit_and_the_reasons_they_leave() {
    let when = |v: u8| Op::If {
        condition: Expr::Field(IN_PORT).eq(num(v, 32)),
        then: vec![out(1), Op::Drop(DropReason::InvalidTtl)],
        or_else: vec![Op::Drop(DropReason::InvalidTtl), out(2)],
    };
    let ran = run(&one_block(Builder::new(), vec![when(7), out(3)]), b"x");
    assert_eq!((ran.verdict, ran.ports()), (Verdict::Forward, vec![1]));
    let ran = run(&one_block(Builder::new(), vec![when(8), out(3)]), b"x");
    assert_eq!(ran.verdict, Verdict::Drop(DropReason::InvalidTtl));
    ran.says("drop invalid_ttl");
    let ran = run(&one_block(Builder::new(), vec![Op::Exit, out(3)]), b"x");
    assert_eq!(ran.verdict, Verdict::Drop(DropReason::NoOutput));
    let punt = Op::Punt { reason: PuntReason::InvalidTtl, args: vec![] };
    let ops = vec![punt, Op::Drop(DropReason::Action)];
    let ran = run(&one_block(Builder::new(), ops), b"x");
    assert_eq!(ran.verdict, Verdict::Punt(PuntReason::InvalidTtl));
    assert_eq!(
        run(&pipeline(Builder::new().finish()), b"x").verdict,
        Verdict::Drop(DropReason::NoOutput)
    );
}

#[test]
fn output_is_what_the_packet_is_at_that_moment() {
    let net = Net::new();
    let queue = FieldRef::Meta(intrinsic::QUEUE);
    let dst = net.field(net.eth, "dst");
    let ops = vec![
        out(1),
        Op::Assign(dst, num(0x0a0b_0c0d_0e0fu64, 48)),
        Op::Assign(queue, num(3u8, 32)),
        out(2),
        Op::Assign(dst, num(0x0200_0000_0001u64, 48)),
        out(3),
    ];
    let frame = udp_frame(&[], &[], b"hello");
    let ran = run(&one_block(net.b, ops), &frame);
    let mut second = frame.clone();
    second[..6].copy_from_slice(&[0xa, 0xb, 0xc, 0xd, 0xe, 0xf]);
    assert_eq!(ran.outputs(), [(1, frame.clone()), (2, second), (3, frame)]);
    let seen: Vec<_> = ran.sink.outputs.iter().map(|o| (o.queue, o.unchanged)).collect();
    assert_eq!(seen, [(0, true), (3, false), (3, true)]);
    ran.says("eth.dst = 0a:0b:0c:0d:0e:0f");
    ran.says("output 2 queue 3: 47 bytes");
}

#[test]
fn externs_are_asked_and_told() {
    let mut b = Builder::new();
    let r = b.register("seen", 16, 4);
    let c = b.counter("bytes", 2);
    let d = b.digest("news", &[("port", 32), ("count", 16)]);
    let (x, color, level) = (b.meta("x", 16), b.meta("color", 8), b.meta("level", 8));
    let more = bin(BinaryOp::Add, Expr::meta(x), num(1u8, 16));
    let read = |index: u8| Op::RegisterRead {
        field: FieldRef::Meta(x),
        register: r,
        index: num(index, 32),
    };
    let write =
        |index: u8, value: Expr| Op::RegisterWrite { register: r, index: num(index, 32), value };
    let ops = vec![
        read(1),
        write(1, more.clone()),
        write(4, num(9u8, 16)),
        read(1),
        Op::Digest { digest: d, args: vec![Expr::Field(IN_PORT), Expr::meta(x)], once: None },
        read(4),
        Op::Count { counter: c, index: num(1u8, 32) },
        Op::Count { counter: c, index: num(2u8, 32) },
        Op::Meter {
            meter: num(3u8, 32),
            color: FieldRef::Meta(color),
            level: FieldRef::Meta(level),
        },
        Op::Random { field: FieldRef::Meta(x), lo: num(5u8, 16), hi: num(7u8, 16) },
        Op::Punt {
            reason: PuntReason::Action,
            args: vec![Expr::meta(x), Expr::meta(color), Expr::meta(level)],
        },
    ];
    let pipeline = one_block(b, ops);
    let mut externs = MemoryExterns::new(pipeline.program());
    externs.registers[0][1] = bits(41u8, 16);
    externs.meters.insert(MeterId(3), Color { color: 2, level: 4 });
    let ran = run_with(&pipeline, externs, b"four");
    assert_eq!(ran.externs.registers[0][1], bits(42u8, 16));
    assert!(ran.externs.registers[0][3].is_zero());
    assert_eq!(ran.sink.digests[0].1, [bits(7u8, 32), bits(42u8, 16)]);
    assert_eq!(ran.externs.arrays.len(), 1);
    assert_eq!(ran.externs.arrays[&(0, 1)].bytes, 4);
    let args: Vec<u32> = ran.sink.punts[0].args.iter().map(Bits::low_u32).collect();
    assert!((5..=7).contains(&args[0]));
    assert_eq!(args[1..], [2, 4]);
    assert_eq!(RegisterId(0), r);
    ran.says("meter 3: red, level 4");
    ran.says("digest news(port=7, count=42)");
    ran.says("x = seen(1) = 42");
    ran.says("seen(1) = 42");
}

#[test]
fn loops_go_on_as_long_as_their_condition_holds_and_not_for_ever() {
    let program = |most: u32| {
        let mut b = Builder::new();
        let (i, sum) = (b.meta("i", 32), b.meta("sum", 32));
        let add = |m: ir::MetaId, by: Expr| {
            Op::Assign(FieldRef::Meta(m), bin(BinaryOp::Add, Expr::meta(m), by))
        };
        let until = |n: u32| bin(BinaryOp::Lt, Expr::meta(i), num(n, 32));
        let inner = Op::Loop { condition: until(3), body: vec![add(i, num(1u8, 32))] };
        let stop = Op::If {
            condition: bin(BinaryOp::Eq, Expr::meta(sum), num(99u8, 32)),
            then: vec![Op::Drop(DropReason::Action)],
            or_else: vec![],
        };
        let body = vec![inner, add(sum, Expr::meta(i)), add(i, num(1u8, 32)), stop];
        let ops = vec![
            Op::Loop { condition: until(most), body },
            Op::Punt { reason: PuntReason::Action, args: vec![Expr::meta(i), Expr::meta(sum)] },
            out(1),
        ];
        run(&one_block(b, ops), b"x")
    };
    let seen =
        |ran: &Ran| -> Vec<u32> { ran.sink.punts[0].args.iter().map(Bits::low_u32).collect() };
    assert_eq!(seen(&program(0)), [0, 0]);
    assert_eq!(seen(&program(6)), [6, 3 + 4 + 5]);
    // 3 + 4 + ... + 14 = 102 goes past 99; 3 + ... + n = 99 never is.
    assert_eq!(seen(&program(15)), [15, 102]);
    assert_eq!(program(u32::MAX).verdict, Verdict::Drop(DropReason::LoopLimit));
}

#[test]
fn outputs_are_cut_to_the_shortest_length() {
    let mut b = Builder::new();
    let ty = b.header_type("byte", &[("v", 8)]);
    let one = b.header("one", ty);
    let start = b.state("start");
    b.set_state(start, vec![extract(one)], Transition::Accept);
    b.emit(one);
    let cut = |n: u8| Op::Truncate { length: num(n, 32) };
    let ops = vec![
        out(1),
        cut(9),
        out(2),
        cut(3),
        cut(4),
        out(3),
        Op::Assign(field(&b, one, "v"), num(5u8, 8)),
        out(4),
        cut(0),
        out(5),
    ];
    let ran = run(&one_block(b, ops), &[7, 8, 9, 10]);
    let expected = [
        (1, vec![7, 8, 9, 10]),
        (2, vec![7, 8, 9, 10]),
        (3, vec![7, 8, 9]),
        (4, vec![5, 8, 9]),
        (5, vec![]),
    ];
    assert_eq!(ran.outputs(), expected);
    let unchanged: Vec<bool> = ran.sink.outputs.iter().map(|o| o.unchanged).collect();
    assert_eq!(unchanged, [true, true, false, false, false]);
}

#[test]
fn varbit_fields_are_copied_with_their_lengths_and_payloads_summed() {
    let mut b = Builder::new();
    let field = |name: &str, width, varbit| ir::Field { name: name.into(), width, varbit };
    let ty = b.header_type_fields("v", vec![field("n", 8, false), field("d", 32, true)]);
    let (one, two, gone) = (b.header("one", ty), b.header("two", ty), b.header("gone", ty));
    let sum = b.meta("sum", 16);
    let (n, d) = (ir::FieldId(0), ir::FieldId(1));
    let start = b.state("start");
    let get = |h: HeaderId| ParserOp::Extract {
        header: h,
        varbit: Some(bin(BinaryOp::Shl, Expr::header(h, n).cast(32), num(3u8, 8))),
    };
    b.set_state(start, vec![get(one), get(two)], Transition::Accept);
    b.emit(one);
    b.emit(two);
    let copy = |to: HeaderId, from: HeaderId| Op::CopyVarbit {
        to: FieldRef::Header(to, d),
        from: FieldRef::Header(from, d),
    };
    let ops = vec![
        Op::PayloadSum { field: FieldRef::Meta(sum) },
        Op::Punt { reason: PuntReason::Action, args: vec![Expr::meta(sum)] },
        copy(two, one),
        out(1),
        copy(one, gone),
        copy(gone, two),
        out(2),
    ];
    let ran = run(&one_block(b, ops), &[2, 1, 2, 0, 0xff, 0xff, 0x12]);
    let expected =
        [(1, vec![2, 1, 2, 0, 1, 2, 0xff, 0xff, 0x12]), (2, vec![2, 0, 1, 2, 0xff, 0xff, 0x12])];
    assert_eq!(ran.outputs(), expected);
    assert_eq!(ran.sink.punts[0].args[0], bits(0x1200u16, 16));
}

/// A one-byte header that is decremented; what happens when it is not yet zero.
fn countdown(again: impl Fn(ir::MetaId) -> Op) -> Pipeline {
    let mut b = Builder::new();
    let ty = b.header_type("count", &[("n", 8)]);
    let (total, lost) = (b.meta("total", 32), b.meta("lost", 32));
    let count = b.header("count", ty);
    let start = b.state("start");
    b.set_state(start, vec![extract(count)], Transition::Accept);
    b.emit(count);
    let n = field(&b, count, "n");
    let plus = |m: ir::MetaId| {
        Op::Assign(FieldRef::Meta(m), bin(BinaryOp::Add, Expr::meta(m), num(1u8, 32)))
    };
    let args = vec![
        Expr::meta(total),
        Expr::meta(lost),
        Expr::meta(intrinsic::PASS),
        Expr::meta(intrinsic::PACKET_LENGTH),
        Expr::Field(IN_PORT),
    ];
    let ops = vec![
        plus(total),
        plus(lost),
        Op::If {
            condition: bin(
                BinaryOp::LogicalAnd,
                Expr::Field(n).ne(num(0u8, 8)),
                bin(BinaryOp::Lt, Expr::meta(total), num(5u8, 32)),
            ),
            then: vec![
                Op::Assign(n, bin(BinaryOp::Sub, Expr::Field(n), num(1u8, 8))),
                again(total),
            ],
            or_else: vec![],
        },
        Op::Punt { reason: PuntReason::Action, args },
        out(1),
    ];
    one_block(b, ops)
}

#[test]
fn recirculation_keeps_the_packet_and_resubmission_does_not() {
    let seen =
        |ran: &Ran| -> Vec<u32> { ran.sink.punts[0].args.iter().map(Bits::low_u32).collect() };
    let pipeline = countdown(|total| Op::Recirculate { keep: vec![total] });
    let ran = run(&pipeline, &[3, 9]);
    assert_eq!(ran.outputs(), [(1, vec![0, 9])]);
    assert_eq!(seen(&ran), [4, 1, 2, 2, 7]);
    let pipeline = countdown(|total| Op::Resubmit { keep: vec![total] });
    let ran = run(&pipeline, &[3, 9]);
    assert_eq!(ran.outputs(), [(1, vec![3, 9])]);
    assert_eq!(seen(&ran), [5, 1, 1, 2, 7]);
    ran.says("resubmit");
    // Nothing is kept: it never ends by itself.
    let endless = countdown(|_| Op::Resubmit { keep: vec![] });
    let ran = run(&endless, &[3, 9]);
    assert_eq!(ran.verdict, Verdict::Drop(DropReason::RecirculationLimit));
    assert_eq!(ran.trace.matches("resubmit").count(), interp::limits::PASSES_MAX as usize);
}

#[test]
fn reparse_sees_the_new_headers_and_keeps_metadata() {
    let (mut b, stack, value) = labels(3);
    let kept = b.meta("kept", 8);
    let look = |b: &Builder| {
        let element = b.element(stack, 0);
        vec![
            Expr::StackSize(stack),
            Expr::meta(kept),
            Expr::Field(FieldRef::Header(element, value)),
            Expr::meta(intrinsic::PARSER_ERROR),
        ]
    };
    let args = look(&b);
    let first = b.element(stack, 0);
    let last = field(&b, first, "last");
    let ops = vec![
        Op::Assign(FieldRef::Meta(kept), num(5u8, 8)),
        Op::Assign(last, num(0u8, 1)),
        Op::Reparse,
        Op::Punt { reason: PuntReason::Action, args: args.clone() },
        out(1),
        Op::PopFront(stack, 1),
        Op::Reparse,
        Op::Punt { reason: PuntReason::Action, args },
        out(2),
    ];
    let ran = run(&one_block(b, ops), &[0x81, 2, 0x83, 9]);
    let seen: Vec<Vec<u32>> =
        ran.sink.punts.iter().map(|p| p.args.iter().map(Bits::low_u32).collect()).collect();
    // What was payload has become headers.
    assert_eq!(seen, [[3, 5, 1, 0], [2, 5, 2, 0]]);
    assert_eq!(ran.outputs(), [(1, vec![1, 2, 0x83, 9]), (2, vec![2, 0x83, 9])]);
    // A reparse that is rejected drops.
    let (b, stack, value) = labels(2);
    let last = FieldRef::Header(b.element(stack, 0), ir::FieldId(0));
    let _ = value;
    let ops = vec![Op::Assign(last, num(0u8, 1)), Op::Reparse, out(1)];
    let ran = run(&one_block(b, ops), &[0x81]);
    assert_eq!(ran.verdict, Verdict::Drop(DropReason::ParserReject));
}

#[test]
fn clones_run_on_copies_of_what_is_or_of_what_came() {
    for (copy, bytes) in [(Copy::Current, vec![5, 9]), (Copy::Ingress, vec![1, 9])] {
        let mut b = Builder::new();
        let ty = b.header_type("byte", &[("v", 8)]);
        let h = b.header("h", ty);
        let m = b.meta("m", 32);
        let start = b.state("start");
        b.set_state(start, vec![extract(h)], Transition::Accept);
        b.emit(h);
        let [main, mirror] = ["main", "mirror"].map(|n| b.block(n));
        let v = field(&b, h, "v");
        let set = |value: u8| Op::Assign(v, num(value, 8));
        let set_m = |value: u8| Op::Assign(FieldRef::Meta(m), num(value, 32));
        let clone = Op::Clone { block: mirror, copy };
        let ops = vec![set(5), set_m(20), clone, Op::Output { port: Expr::meta(m) }];
        b.set_block(main, ops, Terminator::Exit);
        let pass = Expr::meta(intrinsic::PASS).cast(32);
        let port = bin(BinaryOp::Add, Expr::meta(m), pass);
        let ops = vec![Op::Output { port }, set(77), set_m(99), Op::Drop(DropReason::Action)];
        b.set_block(mirror, ops, Terminator::Exit);
        let ran = run(&pipeline(b.finish()), &[1, 9]);
        assert_eq!(ran.outputs(), [(23, bytes), (20, vec![5, 9])]);
        assert_eq!(ran.verdict, Verdict::Forward);
        ran.says("clone mirror");
    }
}

/// Table `t`, by port: its action `add` adds to `m`, `stop` drops.
fn called(main: impl Fn(&Names) -> Vec<Op>) -> ir::Pipeline {
    let mut b = Builder::new();
    let m = b.meta("m", 32);
    let live = b.meta("live", 1);
    let [main_block, by_port, end] = ["main", "by_port", "end"].map(|n| b.block(n));
    let add = bin(BinaryOp::Add, Expr::meta(m), Expr::Param(0));
    let punt = Op::Punt { reason: PuntReason::Action, args: vec![Expr::meta(intrinsic::IN_PORT)] };
    let add = b.action("add", &[("by", 32)], vec![Op::Assign(FieldRef::Meta(m), add), punt]);
    let again = Op::Call { block: by_port, until: end, guise: None, site: 0 };
    let again = b.action("again", &[], vec![again, out(8)]);
    let stop = b.action("stop", &[], vec![Op::Drop(DropReason::Action)]);
    let key = key("port", Expr::meta(intrinsic::IN_PORT), MatchKind::Exact, 32);
    let t = b.table(table("t", vec![key], ActionCall::new(stop)));
    let ops = main(&Names { m, live, by_port, end, table: t });
    b.set_block(main_block, ops, Terminator::Exit);
    let apply = Terminator::Apply { table: t, hit: end, miss: end, by_action: Vec::new() };
    b.set_block(by_port, Vec::new(), apply);
    b.set_block(end, vec![out(9)], Terminator::Exit);
    let mut pipeline = pipeline(b.finish());
    let on = |port: u32| Pattern::Exact(bits(port, 32));
    let add = |by: u32| ActionCall::with(add, [bits(by, 32)]);
    let entries = vec![
        entry(1, 1, &[(0, on(7))], add(30)),
        entry(2, 1, &[(0, on(5))], add(50)),
        entry(3, 1, &[(0, on(4))], ActionCall::new(again)),
    ];
    insert(&mut pipeline, t, entries);
    pipeline
}

struct Names {
    m: ir::MetaId,
    live: ir::MetaId,
    by_port: BlockId,
    end: BlockId,
    table: ir::TableId,
}

#[test]
fn calls_come_back_with_what_they_changed() {
    let call = |n: &Names, port: Option<u32>| {
        let seen =
            |p: u32| ir::Guise { in_port: num(p, 32), columns: vec![], tables: vec![n.table] };
        Op::Call { block: n.by_port, until: n.end, guise: port.map(seen), site: 0 }
    };
    let out_m = |n: &Names| Op::Output { port: Expr::meta(n.m) };
    // The packet comes in by port 7: once by itself, once as if by 5; the action sees 7.
    let p = called(|n| vec![call(n, None), out_m(n), call(n, Some(5)), out_m(n)]);
    let ran = run(&p, &[1]);
    assert_eq!(ran.ports(), [30, 80], "and `end` is not run");
    let seen: Vec<u32> = ran.sink.punts.iter().map(|p| p.args[0].low_u32()).collect();
    assert_eq!(seen, [7, 7]);
    // A drop ends the call alone, and is why a packet went nowhere.
    let p = called(|n| vec![call(n, Some(6)), out(3)]);
    assert_eq!(run(&p, &[1]).verdict, Verdict::Forward);
    let p = called(|n| vec![call(n, Some(6))]);
    assert_eq!(run(&p, &[1]).verdict, Verdict::Drop(DropReason::Action));
    // A column is seen as the call has it, and by its lookups alone.
    let as_if = |n: &Names, port: u32| {
        let columns = vec![(0, num(port, 32))];
        let guise = ir::Guise { in_port: num(1u32, 32), columns, tables: vec![n.table] };
        Op::Call { block: n.by_port, until: n.end, guise: Some(guise), site: 0 }
    };
    let p = called(|n| vec![as_if(n, 5), out_m(n), call(n, None), out_m(n)]);
    let ran = run(&p, &[1]);
    assert_eq!(ran.ports(), [50, 80]);
    assert_eq!(ran.sink.punts.iter().map(|p| p.args[0].low_u32()).collect::<Vec<_>>(), [7, 7]);
    // On a copy nothing comes back.
    let p = called(|n| {
        let body = vec![call(n, None), out_m(n), Op::Drop(DropReason::Action)];
        vec![Op::OnCopy { body }, out_m(n)]
    });
    assert_eq!(run(&p, &[1]).ports(), [30, 0]);
}

#[test]
fn calls_end() {
    // The entry of port 4 calls its own table, where the port is 7 again: one level.
    let seen = |n: &Names| {
        Some(ir::Guise { in_port: num(4u32, 32), columns: vec![], tables: vec![n.table] })
    };
    let p = called(|n| {
        vec![Op::Call { block: n.by_port, until: n.end, guise: seen(n), site: 0 }, out(1)]
    });
    assert_eq!(run(&p, &[1]).ports(), [8, 1]);
    // The real port is 4: it would never end.
    let p = called(|n| {
        let port = FieldRef::Meta(intrinsic::IN_PORT);
        let call = Op::Call { block: n.by_port, until: n.end, guise: None, site: 0 };
        vec![Op::Assign(port, num(4u32, 32)), call, out(1)]
    });
    let ran = run(&p, &[1]);
    assert_eq!((ran.ports(), ran.verdict), (vec![], Verdict::Drop(DropReason::LoopLimit)));
    let looked_up = ran.trace.matches("call by_port").count();
    assert_eq!(looked_up, ir::op::CALL_DEPTH_MAX as usize);
    // Not deep, but too many.
    let p = called(|n| {
        let call = Op::Call { block: n.by_port, until: n.end, guise: None, site: 0 };
        let calls = vec![call; ir::op::CALLS_MAX as usize + 1];
        calls.into_iter().chain([out(1)]).collect()
    });
    assert_eq!(run(&p, &[1]).verdict, Verdict::Punt(PuntReason::Action));
}

#[test]
fn ports_are_live_or_not() {
    let p = called(|n| {
        let live = |port: u32| Op::PortIs {
            field: FieldRef::Meta(n.live),
            what: PortIs::Live,
            port: num(port, 32),
        };
        let told = Op::Output { port: Expr::meta(n.live).cast(32) };
        vec![live(1), told.clone(), live(2), told]
    });
    let mut externs = MemoryExterns::new(p.program());
    externs.dead_ports.insert(2);
    assert_eq!(run_with(&p, externs, &[1]).ports(), [1, 0]);
}

/// A service that adds its argument to the packet's first byte, if it may, answers what that was, and drops
/// packets of which it was 99.
struct Adds;

impl interp::Externs for Adds {
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        NullExterns.port_is(what, port)
    }
    fn count_table(&mut self, _: TableId, _: bool) {}
    fn count_entry(&mut self, _: TableId, _: EntryId, _: u32) {}
    fn count(&mut self, _: ir::CounterId, _: u32) {}
    fn count_indirect(&mut self, _: u32, _: u32, _: u32) {}
    fn meter(&mut self, _: MeterId, _: u32) -> Color {
        Color::default()
    }
    fn register_read(&mut self, _: RegisterId, _: u32) -> Option<Bits> {
        None
    }
    fn register_write(&mut self, _: RegisterId, _: u32, _: Bits) {}
    fn random(&mut self, lo: &Bits, _: &Bits) -> Bits {
        lo.clone()
    }
    fn service(
        &mut self,
        service: &ir::program::Service,
        args: &[Bits],
        packet: &mut Vec<u8>,
        results: &mut [Bits],
    ) -> bool {
        let was = packet[0];
        results[0] = bits(was, 8);
        results[1] = bits(packet.len() as u8, 8);
        if service.edits {
            packet[0] = was.wrapping_add(args[0].low_u32() as u8);
            *packet.last_mut().unwrap() ^= args[1].low_u32() as u8;
        }
        was != 99
    }
}

#[test]
fn a_service_sees_the_packet_as_it_is_and_what_it_changes_is_parsed() {
    // The header is one byte; what the service saw goes to a port, what is parsed to another.
    let case = |edits: bool, first: u8, turn: u8, bytes: &[u8]| {
        let mut b = Builder::new();
        let ty = b.header_type("one", &[("v", 8)]);
        let h = b.header("h", ty);
        let (was, len) = (b.meta("was", 8), b.meta("len", 8));
        let (args, results) = ([("by", 8), ("turn", 8)], [("was", 8), ("len", 8)]);
        let service = b.service("adds", &args, &results, edits);
        let start = b.state("start");
        b.set_state(start, vec![extract(h)], Transition::Accept);
        b.emit(h);
        let v = field(&b, h, "v");
        let port = |e: Expr| Op::Output { port: e.cast(32) };
        let args = vec![num(3u8, 8), num(turn, 8)];
        let ops = vec![
            Op::Assign(v, num(first, 8)),
            Op::Service { service, args, results: vec![was, len] },
            port(Expr::meta(was)),
            port(Expr::meta(len)),
            port(Expr::Field(v)),
        ];
        let p = one_block(b, ops);
        let input = Input { bytes, in_port: 1, now_ns: 0, start: Start::Pipeline };
        let mut sink = Collect::default();
        let verdict = Machine::new().run(&p, input, &mut Adds, &mut sink, None);
        let ports: Vec<u32> = sink.outputs.iter().map(|o| o.port).collect();
        (verdict, ports, sink.outputs.last().map(|o| o.bytes.clone()))
    };
    let forward =
        |ports: [u32; 3], bytes: &[u8]| (Verdict::Forward, ports.to_vec(), Some(bytes.to_vec()));
    assert_eq!(case(false, 7, 0, &[1, 2, 3]), forward([7, 3, 7], &[7, 2, 3]));
    assert_eq!(case(true, 7, 0, &[1, 2, 3]), forward([7, 3, 10], &[10, 2, 3]));
    assert_eq!(case(true, 7, 0xf0, &[1, 2, 3]), forward([7, 3, 10], &[10, 2, 0xf3]), "payload");
    let dropped = (Verdict::Drop(DropReason::Service), vec![], None);
    assert_eq!(case(true, 99, 0, &[1, 2, 3]), dropped);
    assert_eq!(case(false, 99, 0, &[1, 2, 3]), dropped);
}
