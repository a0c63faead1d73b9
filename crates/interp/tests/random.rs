//! Random packets through a program with a bit of everything: no panic, no surprise.

mod common;

use common::*;
use interp::{Input, Machine, MemoryExterns, Start};
use ir::{
    ActionCall, BinaryOp, Bucket, Checksum, ChecksumAlgorithm, ChecksumMode, Copy, CounterId, Expr,
    FieldRef, Group, GroupKind, Op, PuntReason, Terminator, Verdict,
};
use proptest::prelude::*;

/// Every operation, chosen by bits of the packet's first bytes.
fn broad(reject_continues: bool) -> ir::Pipeline {
    let mut net = Net::new();
    let x = net.b.meta("x", 37);
    let small = net.b.meta("small", 8);
    let register = net.b.register("r", 37, 3);
    let counter = net.b.counter("c", 3);
    let digest = net.b.digest("d", &[("x", 37)]);
    for mode in [ChecksumMode::Incremental, ChecksumMode::Always] {
        let (field, inputs) = match mode {
            ChecksumMode::Always => (net.field(net.udp, "csum"), net.udp_inputs()),
            _ => (net.field(net.ipv4, "csum"), net.ipv4_inputs()),
        };
        net.b.checksum(Checksum {
            field,
            algorithm: ChecksumAlgorithm::Csum16,
            mode,
            inputs,
            payload: mode == ChecksumMode::Always,
            condition: None,
            zero_is_none: mode == ChecksumMode::Always,
        });
    }
    let dst = net.get(net.eth, "dst");
    let bit = |i: u32| dst.clone().slice(i, i);
    let when = |i: u32, then: Vec<Op>| Op::If { condition: bit(i), then, or_else: vec![] };
    let index = dst.clone().slice(1, 0).cast(32);
    let xf = FieldRef::Meta(x);
    let vid = FieldRef::Last(net.vlan, net.b.field(net.b.element(net.vlan, 0), "vid"));
    let first = net.b.element(net.vlan, 0);
    let body = vec![out(8), Op::Assign(vid, num(5u8, 12)), Op::Reparse, out(9)];
    let act = net.b.action("act", &[("_", 32)], body);
    let [main, rest] = ["main", "rest"].map(|n| net.b.block(n));
    let ops = vec![
        when(0, vec![Op::PushFront(net.vlan, 1), Op::Assign(vid, num(7u8, 12))]),
        when(1, vec![Op::PopFront(net.vlan, 1)]),
        when(2, vec![Op::SetValid(first), Op::SetInvalid(net.tcp)]),
        when(3, vec![Op::SetInvalid(net.udp), Op::SetValid(net.ipv4)]),
        when(
            4,
            vec![Op::Assign(xf, dst.clone().slice(40, 4)), Op::AssignSlice(xf, 9, 3, num(5u8, 7))],
        ),
        when(5, vec![Op::Reparse]),
        when(6, vec![Op::Group { group: index.clone() }]),
        when(7, vec![Op::Clone { block: rest, copy: Copy::Ingress }]),
        when(8, vec![Op::Clone { block: rest, copy: Copy::Current }]),
        when(9, vec![Op::RegisterWrite { register, index: index.clone(), value: Expr::meta(x) }]),
        when(10, vec![Op::Random { field: xf, lo: num(3u8, 37), hi: num(1u8, 37) }]),
        when(11, vec![Op::Count { counter, index: index.clone() }]),
        when(12, vec![Op::Digest { digest, args: vec![Expr::meta(x)], once: None }]),
        when(
            13,
            vec![Op::Meter {
                meter: index.clone(),
                color: FieldRef::Meta(small),
                level: FieldRef::Meta(small),
            }],
        ),
        when(14, vec![Op::Punt { reason: PuntReason::Action, args: vec![Expr::Field(vid)] }]),
        when(
            15,
            vec![
                Op::Assign(
                    net.field(net.eth, "dst"),
                    bin(BinaryOp::Xor, dst.clone(), num(0x8000u16, 48)),
                ),
                Op::Recirculate { keep: vec![x] },
            ],
        ),
        when(16, vec![Op::Resubmit { keep: vec![x] }]),
        when(17, vec![Op::CopyHeader { to: net.b.element(net.vlan, 1), from: first }]),
        when(18, vec![Op::Assign(net.field(net.ipv4, "ttl"), num(9u8, 8))]),
    ];
    net.b.set_block(main, ops, Terminator::Jump(rest));
    let read = Op::RegisterRead { field: xf, register, index };
    net.b.set_block(rest, vec![read, out(1), Op::SetInvalid(net.eth), out(2)], Terminator::Exit);
    let hash = vec![net.get(net.ipv4, "src"), net.get(net.eth, "type")];
    let mut program = net.b.finish();
    program.reject_continues = reject_continues;
    let mut pipeline = pipeline(program);
    for (id, kind) in [(0, GroupKind::All), (1, GroupKind::Select), (2, GroupKind::FastFailover)] {
        let buckets = (0..3).map(|i| Bucket {
            weight: i,
            watch_port: Some(u32::from(i)),
            watch_group: None,
            action: ActionCall::with(act, [bits(i, 32)]),
            counter: CounterId(0),
        });
        let hash = if kind == GroupKind::Select { hash.clone().into() } else { [].into() };
        let group = Group { kind, buckets: buckets.collect(), hash, counter: CounterId(1) };
        set_group(&mut pipeline, id, group);
    }
    pipeline
}

/// Every payload is a tail of the input, not a copy of one.
struct Tails<'a>(&'a [u8]);

impl interp::Sink for Tails<'_> {
    fn output(&mut self, _: u32, _: u32, packet: interp::Packet<'_>) {
        assert_eq!(packet.payload.as_ptr_range().end, self.0.as_ptr_range().end);
        assert!(packet.payload.len() <= self.0.len());
        if packet.unchanged {
            assert_eq!(packet.to_vec(), self.0);
        }
    }
    fn punt(&mut self, punt: interp::Punt<'_>) {
        self.output(0, 0, punt.packet);
    }
    fn digest(&mut self, _: ir::DigestId, _: &[ir::Bits]) {}
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = || proptest::collection::vec(any::<u8>(), 0..60);
    let tags = proptest::collection::vec(any::<u16>(), 0..4);
    let built =
        (tags, 0..3usize, payload(), any::<u64>(), any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(tags, options, payload, dst, cut, whole)| {
                let mut frame = udp_frame(&tags, &vec![0; 4 * options], &payload);
                frame[..6].copy_from_slice(&dst.to_be_bytes()[2..]);
                frame.truncate(if whole { frame.len() } else { cut.index(frame.len() + 1) });
                frame
            });
    prop_oneof![built, proptest::collection::vec(any::<u8>(), 0..120)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_packet_gets_a_verdict_and_tracing_changes_nothing(frame in frames(), lenient: bool) {
        let pipeline = broad(lenient);
        let mut externs = MemoryExterns::new(pipeline.program());
        externs.dead_ports.insert(1);
        let ran = run_with(&pipeline, externs, &frame);
        match ran.verdict {
            Verdict::Forward => prop_assert!(!ran.sink.outputs.is_empty()),
            Verdict::Punt(_) => prop_assert!(ran.sink.outputs.is_empty() && !ran.sink.punts.is_empty()),
            Verdict::Drop(_) => prop_assert!(ran.sink.outputs.is_empty() && ran.sink.punts.is_empty()),
        }
        let input = Input { bytes: &frame, in_port: 7, now_ns: 0, start: Start::Pipeline };
        let mut externs = MemoryExterns::new(pipeline.program());
        Machine::new().run(&pipeline, input, &mut externs, &mut Tails(&frame), None);
        let last = format!("verdict: {}\n", ran.verdict);
        prop_assert!(ran.trace.ends_with(&last), "{}", ran.trace);
    }

    #[test]
    fn what_nothing_changes_comes_out_as_it_came_in(frame in frames()) {
        let mut net = Net::new();
        let main = net.b.block("main");
        // Parse it again in several ways, too.
        let again = Op::If {
            condition: Expr::meta(ir::program::intrinsic::PASS).eq(num(0u8, 8)),
            then: vec![out(1), Op::Reparse, out(2), Op::Recirculate { keep: vec![] }],
            or_else: vec![out(3)],
        };
        net.b.set_block(main, vec![again], Terminator::Exit);
        let mut program = net.b.finish();
        program.reject_continues = true;
        let ran = run(&pipeline(program), &frame);
        prop_assert_eq!(ran.ports(), [1, 2, 3]);
        for output in &ran.sink.outputs {
            prop_assert!(output.unchanged);
            prop_assert_eq!(&output.bytes, &frame);
        }
    }
}
