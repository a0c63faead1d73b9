//! Groups: which buckets run, on what, and what is counted.

mod common;

use common::*;
use interp::MemoryExterns;
use ir::{
    ActionCall, ActionId, Bucket, CounterId, DropReason, Expr, FieldRef, Group, GroupId, GroupKind,
    Op, PuntReason, Terminator, Verdict,
};

/// A bucket whose action is given this argument; its counter is its port's number.
fn bucket(action: ActionId, arg: u32) -> Bucket {
    Bucket {
        weight: 1,
        watch_port: None,
        watch_group: None,
        action: ActionCall::with(action, [bits(arg, 32)]),
        counter: CounterId(arg),
    }
}

fn group(kind: GroupKind, buckets: Vec<Bucket>) -> Group {
    Group { kind, buckets, hash: [].into(), counter: CounterId(1000) }
}

struct Fixture {
    pipeline: ir::Pipeline,
    /// Outputs and sets `m`, then outputs there, too.
    out: ActionId,
    /// Goes to a group.
    chain: ActionId,
    /// Drops.
    drop: ActionId,
    src: Expr,
}

fn fixture() -> Fixture {
    let mut net = Net::new();
    let m = net.b.meta("m", 32);
    let dst = net.field(net.eth, "dst");
    let output = |e| Op::Output { port: e };
    let set = Op::Assign(dst, Expr::Param(0).cast(48));
    let body = vec![set, output(Expr::Param(0)), Op::Assign(FieldRef::Meta(m), num(1u8, 32))];
    let out = net.b.action("out", &[("port", 32)], body);
    let chain = net.b.action("chain", &[("group", 32)], vec![Op::Group { group: Expr::Param(0) }]);
    let drop = net.b.action("drop", &[("_", 32)], vec![Op::Drop(DropReason::Meter)]);
    let main = net.b.block("main");
    let seen = Op::Punt { reason: PuntReason::Group, args: vec![Expr::meta(m), Expr::Field(dst)] };
    let punt_if = Op::If {
        condition: Expr::Field(dst).eq(num(0xffff_ffff_ffffu64, 48)),
        then: vec![seen],
        or_else: vec![],
    };
    net.b.set_block(main, vec![Op::Group { group: num(1u8, 32) }, punt_if], Terminator::Exit);
    let src = net.get(net.eth, "src");
    Fixture { pipeline: pipeline(net.b.finish()), out, chain, drop, src }
}

#[test]
fn all_gives_each_bucket_a_copy_of_its_own() {
    let mut f = fixture();
    let mut frame = udp_frame(&[], &[], b"x");
    frame[..6].fill(0xff);
    let buckets = vec![bucket(f.out, 5), bucket(f.drop, 0), bucket(f.out, 6)];
    set_group(&mut f.pipeline, 1, group(GroupKind::All, buckets));
    let ran = run(&f.pipeline, &frame);
    assert_eq!(ran.ports(), [5, 6]);
    for output in &ran.sink.outputs {
        assert_eq!(output.bytes[..6], [0, 0, 0, 0, 0, output.port as u8]);
        assert_eq!(output.bytes[6..], frame[6..]);
    }
    // The packet itself goes on as it was.
    assert_eq!(ran.sink.punts[0].bytes, frame);
    assert!(ran.sink.punts[0].args[0].is_zero());
    let length = frame.len() as u64;
    for counter in [0, 5, 6, 1000] {
        assert_eq!(ran.externs.counters[&CounterId(counter)].bytes, length);
    }
    ran.says("bucket 0: out(5)");
    ran.says("drop meter_drop");
}

#[test]
fn groups_that_give_nothing_say_why() {
    let mut f = fixture();
    let frame = udp_frame(&[], &[], b"x");
    let verdict = |f: &Fixture| run(&f.pipeline, &frame).verdict;
    assert_eq!(verdict(&f), Verdict::Drop(DropReason::GroupUnknown));
    for kind in [GroupKind::All, GroupKind::Select, GroupKind::FastFailover] {
        set_group(&mut f.pipeline, 1, group(kind, vec![]));
        assert_eq!(verdict(&f), Verdict::Drop(DropReason::GroupDead), "{kind:?}");
    }
    let buckets = vec![bucket(f.drop, 0)];
    set_group(&mut f.pipeline, 1, group(GroupKind::Indirect, buckets));
    assert_eq!(verdict(&f), Verdict::Drop(DropReason::Meter));
}

#[test]
fn failover_takes_the_first_live_bucket() {
    let mut f = fixture();
    let watch = |arg, port: Option<u32>, group: Option<u32>| Bucket {
        watch_port: port,
        watch_group: group.map(GroupId),
        ..bucket(f.out, arg)
    };
    let buckets =
        vec![watch(5, Some(5), None), watch(6, None, Some(2)), watch(7, Some(7), Some(2))];
    let inner = vec![watch(8, Some(8), None), watch(9, Some(9), None)];
    let (outer, inner) = (group(GroupKind::FastFailover, buckets), group(GroupKind::All, inner));
    set_group(&mut f.pipeline, 2, inner);
    set_group(&mut f.pipeline, 1, outer);
    let frame = udp_frame(&[], &[], b"x");
    let ports = |dead: &[u32]| {
        let mut externs = MemoryExterns::new(f.pipeline.program());
        externs.dead_ports.extend(dead);
        run_with(&f.pipeline, externs, &frame).ports()
    };
    assert_eq!(ports(&[]), [5]);
    assert_eq!(ports(&[5]), [6]);
    assert_eq!(ports(&[5, 8]), [6]);
    // Bucket 7 watches a port and a group: either will do.
    assert_eq!(ports(&[5, 8, 9]), [7]);
    assert_eq!(ports(&[5, 7, 8]), [6]);
    assert_eq!(ports(&[5, 7, 8, 9]), [0; 0]);
}

#[test]
fn chains_go_on_to_a_depth_and_loops_end() {
    let mut f = fixture();
    let frame = udp_frame(&[], &[], b"x");
    set_group(&mut f.pipeline, 2, group(GroupKind::Indirect, vec![bucket(f.out, 4)]));
    set_group(
        &mut f.pipeline,
        1,
        group(GroupKind::All, vec![bucket(f.chain, 2), bucket(f.out, 3)]),
    );
    assert_eq!(run(&f.pipeline, &frame).ports(), [4, 3]);
    // Whether or not the pipeline refuses loops: they come to an end.
    let looped = group(GroupKind::Indirect, vec![bucket(f.chain, 1)]);
    let update = ir::Update::SetGroup(GroupId(2), std::sync::Arc::new(looped));
    if f.pipeline.transact(&[update]).is_ok() {
        let ran = run(&f.pipeline, &frame);
        assert_eq!(ran.ports().len(), interp::limits::GROUP_DEPTH_MAX as usize / 2);
        ran.says("drop group_chain_too_deep");
    }
}

#[test]
fn select_spreads_by_hash_and_moves_only_what_was_on_a_dead_bucket() {
    let mut f = fixture();
    let buckets = (1..=4).map(|port| Bucket {
        watch_port: Some(port),
        weight: if port == 4 { 0 } else { port as u16 },
        ..bucket(f.out, port)
    });
    let select =
        Group { hash: [f.src.clone()].into(), ..group(GroupKind::Select, buckets.collect()) };
    set_group(&mut f.pipeline, 1, select);
    let mut shares = [0usize; 5];
    for flow in 0..1200u32 {
        let mut frame = udp_frame(&[], &[], b"x");
        frame[8..12].copy_from_slice(&flow.to_be_bytes());
        let port = |dead: &[u32]| {
            let mut externs = MemoryExterns::new(f.pipeline.program());
            externs.dead_ports.extend(dead);
            run_with(&f.pipeline, externs, &frame).ports()[0]
        };
        let chosen = port(&[]);
        shares[chosen as usize] += 1;
        let without = port(&[3]);
        assert!(chosen == 3 && without != 3 || chosen == without);
    }
    assert_eq!(shares[4], 0);
    for (port, share) in shares[1..=3].iter().enumerate() {
        let expected = 200 * (port + 1);
        assert!(share.abs_diff(expected) < 60, "{shares:?}");
    }
}

#[test]
fn copies_are_bounded_however_groups_multiply() {
    let mut f = fixture();
    set_group(&mut f.pipeline, 7, group(GroupKind::All, vec![bucket(f.out, 1); 4]));
    for id in (1..7).rev() {
        let buckets = vec![bucket(f.chain, id + 1); 4];
        set_group(&mut f.pipeline, id, group(GroupKind::All, buckets));
    }
    let ran = run(&f.pipeline, &udp_frame(&[], &[], b"x"));
    assert!(ran.ports().len() < interp::limits::COPIES_MAX as usize);
    assert!(ran.ports().len() > 1000);
    ran.says("drop group_chain_too_deep");
}
