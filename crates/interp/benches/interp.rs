//! Nanoseconds per packet of the interpreter, for a switch of layer 2 and a router.
//!
//! Prints one line for each program and frame length. Tables hold few entries, so that the linear
//! lookup of [`ir::Pipeline`] counts for little; each result is checked before it is timed.

#[path = "../tests/common/mod.rs"]
mod common;

use common::*;
use interp::{Input, Machine, NullExterns, Packet, Punt, Sink, Start};
use ir::{
    ActionCall, BinaryOp, Checksum, ChecksumAlgorithm, ChecksumMode, DropReason, MatchKind, Op,
    Pattern, Pipeline, Terminator, Verdict,
};
use std::hint::black_box;
use std::time::Instant;

/// Counts bytes, as a port would read them.
#[derive(Default)]
struct Null {
    bytes: usize,
}

impl Sink for Null {
    fn output(&mut self, _: u32, _: u32, packet: Packet<'_>) {
        self.bytes += black_box(packet).len();
    }
    fn punt(&mut self, _: Punt<'_>) {}
    fn digest(&mut self, _: ir::DigestId, _: &[ir::Bits]) {}
}

/// Source and destination address looked up, then output.
fn l2() -> Pipeline {
    let mut net = Net::new();
    let known = net.b.action("known", &[], vec![]);
    let port = ir::Expr::Param(0);
    let forward = net.b.action("forward", &[("port", 32)], vec![Op::Output { port }]);
    let drop = net.b.action("drop", &[], vec![Op::Drop(DropReason::TableMiss)]);
    let mac = |name: &str, net: &Net| key(name, net.get(net.eth, name), MatchKind::Exact, 48);
    let src = table("src", vec![mac("src", &net)], ActionCall::new(drop));
    let dst = table("dst", vec![mac("dst", &net)], ActionCall::new(drop));
    let (src, dst) = (net.b.table(src), net.b.table(dst));
    let blocks = ["learn", "forward", "end"].map(|n| net.b.block(n));
    let apply = |table, next| Terminator::Apply { table, hit: next, miss: next, by_action: vec![] };
    net.b.set_block(blocks[0], vec![], apply(src, blocks[1]));
    net.b.set_block(blocks[1], vec![], apply(dst, blocks[2]));
    let mut pipeline = pipeline(net.b.finish());
    let mac = |i: u32| Pattern::Exact(bits(0x0200_0000_0000u128 + u128::from(i), 48));
    let of = |id, i, call| entry(id, 0, &[(0, mac(i))], call);
    let sources = (1..=4).map(|i| of(i, i, ActionCall::new(known))).collect();
    insert(&mut pipeline, src, sources);
    let call = |i: u32| ActionCall::with(forward, [bits(i, 32)]);
    insert(&mut pipeline, dst, (1..=4).map(|i| of(10 + i, i, call(i))).collect());
    pipeline
}

/// Longest prefix to a next hop, next hop to addresses and port; TTL and its checksum.
fn l3() -> Pipeline {
    let mut net = Net::new();
    let hop = net.b.meta("hop", 16);
    let ttl = net.field(net.ipv4, "ttl");
    let less = bin(BinaryOp::Sub, ir::Expr::Field(ttl), num(1u8, 8));
    let route =
        vec![Op::Assign(ir::FieldRef::Meta(hop), ir::Expr::Param(0)), Op::Assign(ttl, less)];
    let route = net.b.action("route", &[("hop", 16)], route);
    let send = vec![
        Op::Assign(net.field(net.eth, "dst"), ir::Expr::Param(0)),
        Op::Assign(net.field(net.eth, "src"), ir::Expr::Param(1)),
        Op::Output { port: ir::Expr::Param(2) },
    ];
    let send = net.b.action("send", &[("dst", 48), ("src", 48), ("port", 32)], send);
    let drop = net.b.action("drop", &[], vec![Op::Drop(DropReason::TableMiss)]);
    let dst = key("dst", net.get(net.ipv4, "dst"), MatchKind::Lpm, 32);
    let routes = net.b.table(table("route", vec![dst], ActionCall::new(drop)));
    let hop = key("hop", ir::Expr::meta(hop), MatchKind::Exact, 16);
    let hops = net.b.table(table("hop", vec![hop], ActionCall::new(drop)));
    let inputs = net.ipv4_inputs();
    net.b.checksum(Checksum {
        field: net.field(net.ipv4, "csum"),
        algorithm: ChecksumAlgorithm::Csum16,
        mode: ChecksumMode::Incremental,
        inputs,
        payload: false,
        condition: None,
        zero_is_none: false,
    });
    let blocks = ["check", "route", "hop", "end"].map(|n| net.b.block(n));
    let apply = |table, next| Terminator::Apply { table, hit: next, miss: next, by_action: vec![] };
    let condition = bin(BinaryOp::Gt, ir::Expr::Field(ttl), num(1u8, 8));
    let check = Terminator::If { condition, then: blocks[1], or_else: blocks[3] };
    net.b.set_block(blocks[0], vec![], check);
    net.b.set_block(blocks[1], vec![], apply(routes, blocks[2]));
    net.b.set_block(blocks[2], vec![], apply(hops, blocks[3]));
    let mut pipeline = pipeline(net.b.finish());
    let prefix = |value: u32, len| Pattern::Prefix(bits(value, 32), len);
    let to = |id, p, hop: u32| entry(id, 0, &[(0, p)], ActionCall::with(route, [bits(hop, 16)]));
    let entries = vec![
        to(1, prefix(0x0a00_0000, 8), 1),
        to(2, prefix(0x0a01_0000, 16), 2),
        to(3, prefix(0x0a02_0000, 16), 3),
        to(4, prefix(0, 0), 1),
    ];
    insert(&mut pipeline, routes, entries);
    let hop = |i: u32| {
        let args = [bits(0x0300_0000_0000u128 + u128::from(i), 48), bits(1u8, 48), bits(i, 32)];
        entry(10 + i, 0, &[(0, Pattern::Exact(bits(i, 16)))], ActionCall::with(send, args))
    };
    insert(&mut pipeline, hops, (1..=3).map(hop).collect());
    pipeline
}

fn time(name: &str, pipeline: &Pipeline, frame: &[u8]) {
    let mut machine = Machine::new();
    let mut sink = Null::default();
    let rounds = if cfg!(debug_assertions) { 1_000 } else { 200_000 };
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        for now_ns in 0..rounds {
            let input = Input { bytes: frame, in_port: 1, now_ns, start: Start::Pipeline };
            let verdict = machine.run(pipeline, input, &mut NullExterns, &mut sink, None);
            assert_eq!(verdict, Verdict::Forward);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / rounds as f64);
    }
    assert_eq!(sink.bytes, 5 * rounds as usize * frame.len());
    println!("{name:<4} {:>6} bytes {best:>8.0} ns/packet", frame.len());
}

fn main() {
    let (l2, l3) = (l2(), l3());
    for payload in [18, 1400, 60_000] {
        let frame = udp_frame(&[], &[], &vec![0x5a; payload]);
        let ran = run(&l2, &frame);
        assert_eq!(ran.outputs(), [(1, frame.clone())]);
        assert!(ran.sink.outputs[0].unchanged);
        time("l2", &l2, &frame);
        let ran = run(&l3, &frame);
        let mut expected = frame.clone();
        expected[..12].copy_from_slice(&[3, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1]);
        expected[22] -= 1;
        expected[24..26].fill(0);
        let sum = csum(&[&expected[14..34]]);
        expected[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(ran.outputs(), [(2, expected)], "{}", ran.trace);
        time("l3", &l3, &frame);
    }
}
