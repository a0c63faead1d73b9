//! A flood of punts or digests at one port leaves the others theirs.

mod common;

use common::{Net, balance, config, until};
use ir::builder::Builder;
use ir::program::intrinsic;
use ir::{DropReason, Expr, Op, Program, Terminator, Transition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use switch::{EngineKind, Message};
use testkit::station::{FIRST, call, frame, insert};

fn punts(net: &Net) {
    net.switch.transact(&[insert(FIRST, 1, 5, call("punt", &[]))]).unwrap();
    net.switch.sync();
}

/// What waits, by port.
fn taken(net: &Net) -> BTreeMap<u32, u64> {
    let mut by_port = BTreeMap::new();
    while let Some(message) = net.switch.try_message() {
        let Message::Punt(punt) = message else { panic!("a digest") };
        *by_port.entry(punt.in_port).or_default() += 1;
    }
    by_port
}

fn punted(net: &Net, port: u32) -> (u64, u64) {
    let all = net.switch.port_counters();
    let (_, counters, _) = all.iter().find(|(view, ..)| view.number == port).unwrap();
    (counters.punted, counters.drops.iter().map(|(_, n)| n).sum())
}

#[test]
fn a_flood_beyond_the_rate_costs_a_quiet_port_nothing() {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        beyond_the_rate(engine);
    }
}

fn beyond_the_rate(engine: EngineKind) {
    let net = Net::with(switch::Config { engine, punt_rate: 100, ..config(1) }, 3);
    punts(&net);
    let mut sent = 0;
    for number in 0..20_000 {
        sent += u64::from(net.far(1).inject_bytes(&frame(5, number)));
    }
    until("the flood has ended", || balance(&net.switch) == (sent, sent));
    for quiet in [2, 3] {
        for number in 0..3 {
            assert!(net.far(quiet).inject_bytes(&frame(5, number)));
        }
    }
    until("all have ended", || balance(&net.switch) == (sent + 6, sent + 6));
    assert!(punted(&net, 1).1 > 10_000, "the flood is limited");
    assert_eq!((punted(&net, 2), punted(&net, 3)), ((3, 0), (3, 0)));
    let taken = taken(&net);
    assert_eq!((taken[&2], taken[&3]), (3, 3));
}

#[test]
fn a_full_ring_has_room_for_a_quiet_port() {
    let net = Net::with(switch::Config { punt_rate: 1_000_000_000, ..config(2) }, 4);
    punts(&net);
    let mut sent = 0;
    for number in 0..12_000 {
        sent += u64::from(net.far(1).inject_bytes(&frame(5, number)));
        sent += u64::from(net.far(2).inject_bytes(&frame(5, number)));
    }
    until("the floods have ended", || balance(&net.switch) == (sent, sent));
    assert!(punted(&net, 1).1 > 0 && punted(&net, 2).1 > 0, "nobody takes them");
    for quiet in [3, 4] {
        for number in 0..20 {
            assert!(net.far(quiet).inject_bytes(&frame(5, number)));
        }
    }
    until("all have ended", || balance(&net.switch) == (sent + 40, sent + 40));
    assert_eq!((punted(&net, 3), punted(&net, 4)), ((20, 0), (20, 0)));
    // They need not wait until the floods' are taken.
    let mut early = 0;
    for _ in 0..500 {
        let Some(Message::Punt(punt)) = net.switch.next_message(Duration::from_secs(60)) else {
            panic!("there are more")
        };
        early += u32::from(punt.in_port > 2);
    }
    assert_eq!(early, 40);
}

#[test]
fn floods_at_many_ports_share_what_there_is() {
    let net = Net::with(switch::Config { punt_rate: 1_000_000_000, ..config(1) }, 6);
    punts(&net);
    let mut sent = 0;
    for port in 1..=6 {
        for number in 0..9000 {
            sent += u64::from(net.far(port).inject_bytes(&frame(5, number)));
        }
    }
    until("the floods have ended", || balance(&net.switch) == (sent, sent));
    let shares: Vec<u64> = (1..=6).map(|port| punted(&net, port).0).collect();
    assert!(shares.iter().all(|n| *n > 0), "{shares:?}");
    let taken = taken(&net);
    assert_eq!(taken.values().copied().collect::<Vec<_>>(), shares);
    // With room again, the one that came last has all that it wants.
    for number in 0..1000 {
        assert!(net.far(6).inject_bytes(&frame(5, number)));
    }
    until("all have ended", || balance(&net.switch) == (sent + 1000, sent + 1000));
    assert_eq!(punted(&net, 6).0, shares[5] + 1000);
}

/// Every packet tells the port that it came by, and goes nowhere.
fn tells_its_port() -> Arc<Program> {
    let mut b = Builder::new();
    let came = b.digest("came", &[("port", 32)]);
    let start = b.state("start");
    b.set_state(start, vec![], Transition::Accept);
    let one = b.block("one");
    let tell = Op::Digest { digest: came, args: vec![Expr::meta(intrinsic::IN_PORT)], once: None };
    b.set_block(one, vec![tell, Op::Drop(DropReason::Action)], Terminator::Exit);
    Arc::new(b.finish())
}

/// Digests, as NORMAL's and P4's learning has them, by both engines: those of a flood fill what there is, and a quiet port's
/// come through beside them and behind them.
#[test]
fn a_flood_of_digests_leaves_a_quiet_port_its_own() {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let program = tells_its_port();
        let config = switch::Config { program, engine, punt_rate: 1_000_000_000, ..config(1) };
        let net = Net::with(config, 3);
        let mut sent = 0;
        for number in 0..12_000 {
            sent += u64::from(net.far(1).inject_bytes(&frame(5, number)));
        }
        for number in 0..20 {
            sent += u64::from(net.far(2).inject_bytes(&frame(5, number)));
        }
        until("the flood has ended", || balance(&net.switch) == (sent, sent));
        // Behind the flood, with nobody who took anything.
        for number in 0..20 {
            sent += u64::from(net.far(3).inject_bytes(&frame(5, number)));
        }
        until("all have ended", || balance(&net.switch) == (sent, sent));
        let mut by_port = BTreeMap::<u128, u64>::new();
        while let Some(message) = net.switch.try_message() {
            let Message::Digest { args, .. } = message else { panic!("a packet") };
            *by_port.entry(args[0].to_u128().unwrap()).or_default() += 1;
        }
        assert_eq!((by_port[&2], by_port[&3]), (20, 20));
        assert!((1..12_000).contains(&by_port[&1]), "{by_port:?}: the ring has a bound");
    }
}
