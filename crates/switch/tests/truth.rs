//! What `sync` promises, with traffic and several workers; and what tracing must not do.

mod common;

use common::{Net, balance, injection, until};
use port::Frame;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use switch::Switch;
use testkit::station::{FIRST, SECOND, call, frame, insert, modify};

/// Traffic from every port but the first, until told to stop.
fn load(net: &Net, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let (stop, far) = (stop.clone(), net.far[1..].to_vec());
    std::thread::spawn(move || {
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            for (far, port) in far.iter().zip(2..) {
                for _ in 0..32 {
                    sent += u64::from(far.inject(Frame::copy_of(&frame(100 + port, 0))).is_ok());
                }
                far.take_into(usize::MAX, drop);
            }
            std::thread::yield_now();
        }
        sent
    })
}

#[test]
fn after_sync_the_next_packet_follows_the_new_rules() {
    for workers in 1..=3 {
        let net = Net::new(workers, 4);
        net.switch.transact(&[insert(FIRST, 1, 5, call("out", &[2]))]).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let others = (2..=4).map(|p| insert(FIRST, 10 + p, 100 + p, call("out", &[3])));
        net.switch.transact(&others.collect::<Vec<_>>()).unwrap();
        let load = load(&net, &stop);
        for round in 0..300u32 {
            // Dropped or punted in turn: a packet that met the old rule does the other thing.
            let action = if round % 2 == 0 { call("drop", &[]) } else { call("punt", &[]) };
            let version = net.switch.transact(&[modify(FIRST, 1, 5, action)]).unwrap();
            assert!(net.switch.sync() >= version);
            assert!(net.far(1).inject_bytes(&frame(5, round)));
            if round % 2 == 0 {
                until("it is dropped", || {
                    let dropped = &net.switch.port_counters()[0].1.drops;
                    *dropped == [("action_drop", u64::from(round / 2 + 1))]
                });
            } else {
                let message = net.switch.next_message(Duration::from_secs(60));
                let Some(switch::Message::Punt(punt)) = message else { panic!("punted") };
                assert_eq!(punt.bytes, frame(5, round));
            }
        }
        stop.store(true, Ordering::Relaxed);
        let sent = load.join().unwrap() + 300;
        until("all frames have ended", || balance(&net.switch) == (sent, sent));
        assert!(net.switch.try_message().is_none());
    }
}

#[test]
fn after_sync_what_was_injected_has_left() {
    let net = Net::new(2, 2);
    for round in 0..500 {
        net.switch.inject(injection(1, frame(9, round), 2));
        net.switch.sync();
        assert_eq!(net.far(2).take().unwrap().data(), frame(9, round));
    }
    assert_eq!(net.switch.injected().rx_packets, 500);
    // To a port that is not there, and by an action that sends nothing.
    net.switch.inject(injection(1, frame(9, 0), 77));
    net.switch.sync();
    assert_eq!(net.switch.injected().drops, [("port_unknown", 1)]);
}

#[test]
fn an_injected_packet_runs_by_all_that_was_committed_before() {
    let net = Net::new(1, 2);
    let mut again = injection(1, frame(5, 0), 2);
    // Its action sends the packet through the pipeline.
    let body = vec![ir::Op::Goto(ir::BlockId(0))];
    again.action = Arc::new(ir::Action { name: "table".to_string(), params: vec![], body });
    again.args.clear();
    for id in 1..200 {
        let packet = || switch::Injection {
            bytes: frame(id, id),
            action: again.action.clone(),
            args: Vec::new(),
            in_port: 1,
        };
        net.switch.transact(&[insert(FIRST, id, id, call("out", &[2]))]).unwrap();
        net.switch.inject(packet());
    }
    net.switch.sync();
    let numbers: Vec<Vec<u8>> = (1..200).map(|id| frame(id, id)).collect();
    assert_eq!(net.taken(2), numbers);
}

#[test]
fn gathered_updates_are_published_soon_and_together() {
    let net = Net::new(1, 1);
    let begin = Instant::now();
    for id in 0..2000 {
        net.switch.transact(&[insert(FIRST, id, id, call("drop", &[]))]).unwrap();
    }
    println!("2000 transactions in {:?}", begin.elapsed());
    // Without `sync`, within the interval and some scheduling.
    until("the last version is published", || net.switch.version() == 2000);
    assert_eq!(net.switch.table_stats(FIRST).entries, 2000);
    assert_eq!(net.switch.explain()[0].entries, 2000);
}

#[test]
fn a_refused_transaction_changes_nothing() {
    let net = Net::new(1, 2);
    net.switch.transact(&[insert(FIRST, 1, 5, call("out", &[2]))]).unwrap();
    let updates = [
        modify(FIRST, 1, 5, call("drop", &[])),
        insert(FIRST, 2, 6, call("drop", &[])),
        insert(FIRST, 3, 6, call("drop", &[])),
    ];
    let (at, error) = net.switch.transact(&updates).unwrap_err();
    assert_eq!((at, error.to_string().contains("same key and priority")), (2, true));
    assert_eq!(net.switch.sync(), 1);
    assert!(net.far(1).inject_bytes(&frame(5, 1)));
    assert!(net.far(2).take_within(Duration::from_secs(60)).is_some());
}

/// Everything that can be read of a switch.
fn state(switch: &Switch) -> String {
    let counters: Vec<_> = (0..10).map(|id| switch.counter(id)).collect();
    let tables = [FIRST, SECOND].map(|t| switch.table_stats(t));
    let ports: Vec<_> = switch.port_counters().into_iter().map(|(_, c, _)| c).collect();
    format!(
        "{counters:?} {tables:?} {ports:?} {:?} {:?}",
        switch.injected(),
        switch.meter_stats(ir::MeterId(1))
    )
}

#[test]
fn tracing_shows_and_changes_nothing() {
    let net = Net::new(2, 2);
    (0..10).for_each(|id| assert_eq!(net.switch.allocate_counter(), Ok(id)));
    let band = ir::Band { rate: 1, burst: 1, color: 2, level: 0 };
    let meter = ir::Meter { packets: true, bands: vec![band] };
    net.switch
        .transact(&[
            ir::Update::SetMeter(ir::MeterId(1), Arc::new(meter)),
            insert(FIRST, 1, 5, call("mark", &[3])),
            insert(SECOND, 2, 5, call("meter", &[1, 2])),
            insert(FIRST, 3, 6, call("punt", &[])),
            insert(FIRST, 4, 7, call("tag", &[9, 2])),
        ])
        .unwrap();
    net.switch.sync();
    assert!(net.far(1).inject_bytes(&frame(5, 0)));
    until("it is counted", || net.switch.counter(2).packets == 1 && balance(&net.switch) == (1, 1));
    let before = state(&net.switch);
    for _ in 0..100 {
        // The meter would be red by now.
        let traced = net.switch.trace(1, &frame(5, 7));
        assert_eq!((traced.version, traced.verdict), (1, ir::Verdict::Forward));
        assert_eq!(traced.outputs, [(2, frame(5, 7))]);
        let text = traced.trace.to_string();
        assert!(text.contains("mark(3)") && text.contains("meter"), "{text}");
        assert_eq!(net.switch.trace(1, &frame(6, 0)).punts.len(), 1);
        assert_eq!(net.switch.trace(1, &frame(7, 0)).outputs[0].1.len(), 68);
        assert_eq!(net.switch.trace(1, &[]).outputs.len(), 0);
    }
    assert_eq!(state(&net.switch), before);
    assert!(net.switch.try_message().is_none());
    assert_eq!(net.taken(2).len(), 1);
}

#[test]
fn another_program_takes_over_under_traffic() {
    let net = Net::new(2, 4);
    let stop = Arc::new(AtomicBool::new(false));
    let load = load(&net, &stop);
    let ids: Vec<u32> = (0..8).map(|_| net.switch.allocate_counter().unwrap()).collect();
    for round in 0..200 {
        let mut updates = vec![ir::Update::SetProgram(testkit::station::program())];
        let entries = (2..=4).map(|p| insert(FIRST, ids[p], 100 + p as u32, call("out", &[2])));
        updates.extend(entries.skip(round % 3));
        net.switch.transact(&updates).unwrap();
        if round % 2 == 0 {
            net.switch.sync();
        }
    }
    net.switch.sync();
    stop.store(true, Ordering::Relaxed);
    let sent = load.join().unwrap();
    until("all frames have ended", || balance(&net.switch) == (sent, sent));
    let lookups = net.switch.table_stats(FIRST).lookups;
    assert!(lookups <= sent);
}
