//! The parser and the deparser: any widths, any failures.

mod common;

use common::*;
use ir::builder::Builder;
use ir::program::{Field, intrinsic, parser_error};
use ir::{
    BinaryOp, Bits, DropReason, Expr, FieldRef, Op, ParserOp, Select, SelectCase, Transition,
    Update, Verdict,
};

fn error_of(ran: &Ran) -> u32 {
    ran.sink.punts[0].args[0].low_u32()
}

fn punt_error() -> Op {
    Op::Punt { reason: ir::PuntReason::Action, args: vec![Expr::meta(intrinsic::PARSER_ERROR)] }
}

/// Two headers of 13 bits in a row: `kind` 5 bits, `value` 8 bits.
fn thirteen() -> (Builder, ir::HeaderId, ir::HeaderId) {
    let mut b = Builder::new();
    let ty = b.header_type("odd", &[("kind", 5), ("value", 8)]);
    let (first, second) = (b.header("first", ty), b.header("second", ty));
    let (start, more) = (b.state("start"), b.state("more"));
    let kind = Expr::Field(field(&b, first, "kind"));
    b.set_state(start, vec![extract(first)], select(kind, 5, &[(3, more)], Transition::Accept));
    b.set_state(more, vec![extract(second)], Transition::Accept);
    b.emit(first);
    b.emit(second);
    (b, first, second)
}

#[test]
fn headers_of_thirteen_bits_follow_one_another() {
    // 00011 10101010 | 00001 11110000 | payload from bit 26 on.
    let bytes = [0b0001_1101, 0b0101_0000, 0b0111_1100, 0b0010_1010, 0xff];
    let (b, first, second) = thirteen();
    let value = field(&b, second, "value");
    let ops = vec![
        Op::Assign(field(&b, first, "value"), num(0x55u8, 8)),
        out(1),
        Op::Assign(value, bin(BinaryOp::Add, Expr::Field(value), num(1u8, 8))),
        out(2),
        Op::SetInvalid(first),
        out(3),
    ];
    let ran = run(&one_block(b, ops), &bytes);
    let outputs = ran.outputs();
    assert_eq!(outputs[0].1, [0b0001_1010, 0b1010_1000, 0b0111_1100, 0b0010_1010, 0xff]);
    assert_eq!(outputs[1].1, [0b0001_1010, 0b1010_1000, 0b0111_1100, 0b0110_1010, 0xff]);
    // 13 bits less: the payload moves to another bit, 27 bits are padded to 32.
    assert_eq!(outputs[2].1, [0b0000_1111, 0b1000_1101, 0b0101_1111, 0b1110_0000]);
    ran.says("parse start: first, second; payload 14 bits");
    ran.says("second.value = 241");
}

#[test]
fn an_odd_payload_that_stays_where_it_is_is_not_copied() {
    let (b, first, _) = thirteen();
    let ops = vec![Op::Assign(field(&b, first, "value"), num(1u8, 8)), out(1)];
    let pipeline = one_block(b, ops);
    let bytes = [0; 100];
    struct Look<'a>(&'a [u8]);
    impl interp::Sink for Look<'_> {
        fn output(&mut self, _: u32, _: u32, packet: interp::Packet<'_>) {
            assert_eq!(packet.headers.len(), 2);
            assert_eq!(packet.payload.as_ptr_range(), self.0[2..].as_ptr_range());
            assert!(!packet.unchanged);
        }
        fn punt(&mut self, _: interp::Punt<'_>) {}
        fn digest(&mut self, _: ir::DigestId, _: &[Bits]) {}
    }
    let input =
        interp::Input { bytes: &bytes, in_port: 0, now_ns: 0, start: interp::Start::Pipeline };
    let mut machine = interp::Machine::new();
    machine.run(&pipeline, input, &mut interp::NullExterns, &mut Look(&bytes), None);
}

#[test]
fn a_packet_that_ends_early_is_rejected_or_goes_on_with_what_is_there() {
    let (b, ..) = thirteen();
    let strict = one_block(b, vec![out(1)]);
    for bytes in [&[][..], &[0b0001_1000], &[0b0001_1101, 0b0101_0000, 0b0111_1100]] {
        let ran = run(&strict, bytes);
        assert_eq!(ran.verdict, Verdict::Drop(DropReason::ParserReject));
        ran.says("drop parser_reject");
    }
    let (mut b, ..) = thirteen();
    let main = b.block("main");
    b.set_block(main, vec![punt_error(), out(1)], ir::Terminator::Exit);
    let mut program = b.finish();
    program.reject_continues = true;
    let lenient = pipeline(program);
    for bytes in [&[][..], &[0b0001_1000], &[0b0001_1101, 0b0101_0000, 0b0111_1100]] {
        let ran = run(&lenient, bytes);
        assert_eq!(error_of(&ran), u32::from(parser_error::PACKET_TOO_SHORT));
        assert_eq!(ran.only(), bytes);
        assert!(ran.sink.outputs[0].unchanged);
    }
}

#[test]
fn a_program_without_parser_takes_the_packet_as_payload() {
    let ran = run(&one_block(Builder::new(), vec![out(1)]), b"anything");
    assert_eq!(ran.only(), b"anything");
    assert!(ran.sink.outputs[0].unchanged);
    let ran = run(&one_block(Builder::new(), vec![out(1)]), b"");
    assert_eq!(ran.only(), b"");
}

#[test]
fn varbit_fields_have_the_width_that_was_extracted() {
    let mut net = Net::new();
    let args = vec![net.get(net.ipv4, "options")];
    let ops = vec![Op::Punt { reason: ir::PuntReason::Action, args }, out(1)];
    let main = net.b.block("main");
    net.b.set_block(main, ops, ir::Terminator::Exit);
    let pipeline = pipeline(net.b.finish());
    let frame = udp_frame(&[], &[1, 1, 1, 0], b"xyz");
    let ran = run(&pipeline, &frame);
    assert_eq!(ran.sink.punts[0].args[0], bits(0x0101_0100u32, 320));
    assert_eq!(ran.only(), frame);
    // ihl says 40 bytes of options, but the packet ends before.
    let mut short = udp_frame(&[], &[], b"");
    short[14] = 0x4f;
    assert_eq!(run(&pipeline, &short).verdict, Verdict::Drop(DropReason::ParserReject));
}

#[test]
fn a_varbit_field_longer_than_declared_is_too_short_a_header() {
    let mut b = Builder::new();
    let fields = vec![
        Field { name: "len".into(), width: 8, varbit: false },
        Field { name: "data".into(), width: 16, varbit: true },
    ];
    let ty = b.header_type_fields("tlv", fields);
    let tlv = b.header("tlv", ty);
    let start = b.state("start");
    let varbit = Some(Expr::Field(field(&b, tlv, "len")));
    b.set_state(start, vec![ParserOp::Extract { header: tlv, varbit }], Transition::Accept);
    b.emit(tlv);
    let main = b.block("main");
    let seen = vec![
        Expr::meta(intrinsic::PARSER_ERROR),
        Expr::Valid(tlv),
        Expr::Field(field(&b, tlv, "data")),
    ];
    let punt = Op::Punt { reason: ir::PuntReason::Action, args: seen };
    b.set_block(main, vec![punt, out(1)], ir::Terminator::Exit);
    let mut program = b.finish();
    program.reject_continues = true;
    let pipeline = pipeline(program);
    let case = |bytes: &[u8], error: u8, valid: bool, data: u32| {
        let ran = run(&pipeline, bytes);
        let args = &ran.sink.punts[0].args;
        let seen = (args[0].low_u32() as u8, args[1].low_u32() == 1, args[2].low_u32());
        assert_eq!(seen, (error, valid, data), "{bytes:?}");
        assert_eq!(ran.only(), bytes);
    };
    case(&[0, 9, 9], parser_error::NONE, true, 0);
    case(&[3, 0b1010_0000, 9], parser_error::NONE, true, 0b101);
    case(&[16, 1, 2, 3], parser_error::NONE, true, 0x0102);
    case(&[17, 1, 2, 3], parser_error::HEADER_TOO_SHORT, false, 0);
    case(&[16, 1], parser_error::PACKET_TOO_SHORT, false, 0);
    case(&[], parser_error::PACKET_TOO_SHORT, false, 0);
}

#[test]
fn stacks_fill_in_order_and_overflow_is_an_error() {
    let mut net = Net::new();
    let seen = vec![
        Expr::StackSize(net.vlan),
        Expr::Field(FieldRef::Last(net.vlan, net.b.field(net.b.element(net.vlan, 0), "vid"))),
        Expr::meta(intrinsic::PARSER_ERROR),
    ];
    let main = net.b.block("main");
    let punt = Op::Punt { reason: ir::PuntReason::Action, args: seen };
    net.b.set_block(main, vec![punt, out(1)], ir::Terminator::Exit);
    let mut program = net.b.finish();
    program.reject_continues = true;
    let pipeline = pipeline(program);
    for (tags, size, last, error) in [
        (&[][..], 0, 0, parser_error::NONE),
        (&[5], 1, 5, parser_error::NONE),
        (&[5, 6], 2, 6, parser_error::NONE),
        (&[5, 6, 7], 2, 6, parser_error::STACK_OUT_OF_BOUNDS),
    ] {
        let frame = udp_frame(tags, &[], b"payload");
        let ran = run(&pipeline, &frame);
        let args: Vec<u32> = ran.sink.punts[0].args.iter().map(Bits::low_u32).collect();
        assert_eq!(args, [size, last, u32::from(error)]);
        assert_eq!(ran.only(), frame);
    }
}

/// A parser of one state with these steps, whose error and metadata `m` (32 bits) are punted.
fn one_state(
    build: impl FnOnce(&mut Builder, ir::MetaId, ir::ParserStateId) -> (Vec<ParserOp>, Transition),
) -> ir::Pipeline {
    let mut b = Builder::new();
    let m = b.meta("m", 32);
    let start = b.state("start");
    let (ops, next) = build(&mut b, m, start);
    b.set_state(start, ops, next);
    let main = b.block("main");
    let args = vec![Expr::meta(intrinsic::PARSER_ERROR), Expr::meta(m)];
    let ops = vec![Op::Punt { reason: ir::PuntReason::Action, args }, out(1)];
    b.set_block(main, ops, ir::Terminator::Exit);
    let mut program = b.finish();
    program.reject_continues = true;
    pipeline(program)
}

fn seen(pipeline: &ir::Pipeline, bytes: &[u8]) -> (u32, u32, Vec<u8>) {
    let ran = run(pipeline, bytes);
    let args = &ran.sink.punts[0].args;
    (args[0].low_u32(), args[1].low_u32(), ran.only().to_vec())
}

#[test]
fn lookahead_advance_remaining_verify() {
    let look = one_state(|_, m, _| {
        let e = Expr::Lookahead { skip: 4, width: 12 }.cast(32);
        (vec![ParserOp::Assign(FieldRef::Meta(m), e)], Transition::Accept)
    });
    assert_eq!(seen(&look, &[0x12, 0x34]), (0, 0x234, vec![0x12, 0x34]));
    assert_eq!(seen(&look, &[0x12]), (0, 0x200, vec![0x12]));
    assert_eq!(seen(&look, &[]), (0, 0, vec![]));

    let advance = one_state(|_, m, _| {
        let first = Expr::Lookahead { skip: 0, width: 8 }.cast(32);
        let ops =
            vec![ParserOp::Advance(first), ParserOp::Assign(FieldRef::Meta(m), Expr::Remaining)];
        (ops, Transition::Accept)
    });
    assert_eq!(seen(&advance, &[16, 1, 2, 3]), (0, 16, vec![2, 3]));
    assert_eq!(seen(&advance, &[0, 1]), (0, 16, vec![0, 1]));
    assert_eq!(seen(&advance, &[12, 1, 0x23]), (0, 12, vec![0x12, 0x30]));
    let too_short = u32::from(parser_error::PACKET_TOO_SHORT);
    assert_eq!(seen(&advance, &[17, 1]), (too_short, 0, vec![17, 1]));

    let verify = one_state(|_, _, _| {
        let first = Expr::Lookahead { skip: 0, width: 8 };
        (vec![ParserOp::Verify(first.eq(num(1u8, 8)), parser_error::USER)], Transition::Accept)
    });
    assert_eq!(seen(&verify, &[1]).0, 0);
    assert_eq!(seen(&verify, &[2]).0, 16);
    run(&verify, &[2]).says("parse start: no header; reject error 16; payload 1 bytes");
}

#[test]
fn a_loop_that_does_not_end_times_out() {
    let endless = one_state(|_, m, start| {
        let e = bin(BinaryOp::Add, Expr::meta(m), num(1u8, 32));
        (vec![ParserOp::Assign(FieldRef::Meta(m), e)], Transition::State(start))
    });
    assert_eq!(seen(&endless, &[1]), (u32::from(parser_error::TIMEOUT), 256, vec![1]));
}

#[test]
fn select_by_mask_range_value_set_and_several_keys() {
    let mut set = None;
    let mut pipeline = one_state(|b, m, _| {
        let vs = b.value_set("known", 8, 4);
        set = Some(vs);
        let mut cases = Vec::new();
        for (i, a, z) in [
            (1u8, Select::Masked(bits(0x50u8, 8), bits(0xf0u8, 8)), Select::Any),
            (
                2,
                Select::Range(bits(3u8, 8), bits(5u8, 8)),
                Select::Range(bits(9u8, 8), bits(9u8, 8)),
            ),
            (3, Select::ValueSet(vs), Select::Any),
        ] {
            let state = b.state(&format!("case{i}"));
            let assign = ParserOp::Assign(FieldRef::Meta(m), num(i, 32));
            b.set_state(state, vec![assign], Transition::Accept);
            cases.push(SelectCase { patterns: vec![a, z], next: Transition::State(state) });
        }
        let keys =
            vec![Expr::Lookahead { skip: 0, width: 8 }, Expr::Lookahead { skip: 8, width: 8 }];
        (vec![], Transition::Select { keys, cases })
    });
    let no_match = u32::from(parser_error::NO_MATCH);
    let get = |p: &ir::Pipeline, bytes: [u8; 2]| {
        let (error, m, _) = seen(p, &bytes);
        (error, m)
    };
    assert_eq!(get(&pipeline, [0x5f, 0]), (0, 1));
    assert_eq!(get(&pipeline, [3, 9]), (0, 2));
    assert_eq!(get(&pipeline, [5, 9]), (0, 2));
    assert_eq!(get(&pipeline, [6, 9]), (no_match, 0));
    assert_eq!(get(&pipeline, [4, 8]), (no_match, 0));
    let members = vec![Select::Masked(bits(4u8, 8), Bits::ones(8))];
    pipeline.transact(&[Update::SetValueSet(set.unwrap(), members)]).unwrap();
    assert_eq!(get(&pipeline, [4, 8]), (0, 3));
    assert_eq!(get(&pipeline, [4, 9]), (0, 2));
}

#[test]
fn of_a_union_the_header_read_last_is_valid() {
    let mut b = Builder::new();
    let ty = b.header_type("byte", &[("v", 8)]);
    let (one, two) = (b.header("one", ty), b.header("two", ty));
    b.union("either", &[one, two]);
    let start = b.state("start");
    b.set_state(start, vec![extract(one), extract(two)], Transition::Accept);
    b.emit(one);
    b.emit(two);
    let ops =
        vec![out(1), Op::SetValid(one), out(2), Op::CopyHeader { to: two, from: one }, out(3)];
    let ran = run(&one_block(b, ops), &[1, 2, 3]);
    assert_eq!(ran.outputs(), [(1, vec![2, 3]), (2, vec![0, 3]), (3, vec![0, 3])]);
}

#[test]
fn a_deparser_in_another_order_or_with_a_header_left_out_changes_the_packet() {
    let build = |emit: &[usize]| {
        let mut b = Builder::new();
        let ty = b.header_type("byte", &[("v", 8)]);
        let headers = [b.header("one", ty), b.header("two", ty)];
        let start = b.state("start");
        b.set_state(start, headers.map(extract).to_vec(), Transition::Accept);
        emit.iter().for_each(|i| b.emit(headers[*i]));
        one_block(b, vec![out(1)])
    };
    for (emit, expected) in
        [(&[0, 1][..], &[1, 2, 3][..]), (&[1, 0], &[2, 1, 3]), (&[1], &[2, 3]), (&[], &[3])]
    {
        let ran = run(&build(emit), &[1, 2, 3]);
        assert_eq!(ran.only(), expected);
        assert_eq!(ran.sink.outputs[0].unchanged, emit == [0, 1]);
    }
}
