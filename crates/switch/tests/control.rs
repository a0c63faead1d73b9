//! Counters that are used again, entries that expire, punts that flood, and many entries.

mod common;

use common::{Net, balance, config, until};
use ir::{Entry, EntryId, Update};
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::{Message, Reason};
use testkit::station::{FIRST, SECOND, call, entry, frame, insert};

/// Each round's entry takes a counter that an earlier round gave back while traffic matched it.
#[test]
fn a_counter_used_again_begins_at_zero() {
    let net = Net::new(2, 3);
    let drop_all = call("drop", &[]);
    let (mut used, mut again) = (std::collections::HashSet::new(), 0);
    for round in 0..400u32 {
        let id = net.switch.allocate_counter().unwrap();
        again += u32::from(!used.insert(id));
        assert_eq!(net.switch.counter(id), Default::default());
        net.switch.transact(&[insert(FIRST, id, round, drop_all.clone())]).unwrap();
        net.switch.sync();
        let frames = u64::from(1 + round % 3);
        for _ in 0..frames {
            assert!(net.far(1 + round % 3).inject_bytes(&frame(round, 0)));
        }
        if round % 2 == 0 {
            until("they are counted", || net.switch.counter(id).packets == frames);
            assert_eq!(net.switch.counter(id).bytes, 64 * frames);
        }
        // In odd rounds frames may still be on their way: they count for this entry or for none, but
        // never for the next one that has the counter.
        net.switch.transact(&[Update::Delete(FIRST, EntryId(id))]).unwrap();
        net.switch.retire_counter(id);
        if round % 7 == 0 {
            std::thread::sleep(Duration::from_millis(6));
        }
    }
    println!("{} counters for 400 entries", used.len());
    assert!(again > 200, "counters are not used again: {again}");
}

#[test]
fn retired_counters_come_back_by_themselves() {
    let net = Net::new(1, 1);
    let ids: Vec<u32> = (0..100).map(|_| net.switch.allocate_counter().unwrap()).collect();
    ids.iter().for_each(|id| net.switch.retire_counter(*id));
    until("the first counter is free", || {
        let id = net.switch.allocate_counter().unwrap();
        id < 100
    });
}

#[test]
fn entries_expire_idle_and_hard() {
    let net = Net::new(2, 2);
    let ids: Vec<u32> = (0..4).map(|_| net.switch.allocate_counter().unwrap()).collect();
    let ms = |n: u64| n * 1_000_000;
    let with = |i: usize, idle: u64, hard: u64| {
        let plain = entry(ids[i], i as u32, call("drop", &[]));
        let timed = Entry { idle_timeout_ns: ms(idle), hard_timeout_ns: ms(hard), ..plain };
        Update::Insert(FIRST, Arc::new(timed))
    };
    // Before the entries are there: what is measured from here is never shorter than their lives.
    let begin = Instant::now();
    net.switch
        .transact(&[with(0, 150, 0), with(1, 150, 0), with(2, 0, 400), with(3, 0, 0)])
        .unwrap();
    net.switch.sync();
    let (mut told, mut used) = (Vec::new(), Duration::ZERO);
    while told.len() < 3 && begin.elapsed() < Duration::from_secs(60) {
        // Station 1 is used for a while.
        if begin.elapsed() < Duration::from_millis(350) {
            used = begin.elapsed();
            assert!(net.far(1).inject_bytes(&frame(1, 0)));
        }
        for expired in net.switch.expired() {
            net.switch.transact(&[Update::Delete(expired.table, expired.entry)]).unwrap();
            told.push((expired.entry.0, expired.reason, begin.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let which: Vec<_> = told.iter().map(|(id, reason, _)| (*id, *reason)).collect();
    println!("{told:?}");
    assert_eq!(which.len(), 3, "{told:?}");
    assert!(which.contains(&(ids[0], Reason::Idle)));
    assert!(which.contains(&(ids[2], Reason::Hard)) && which.contains(&(ids[1], Reason::Idle)));
    let after = |id| told.iter().find(|t| t.0 == id).map_or(0, |t| t.2.as_millis());
    assert!(after(ids[2]) >= 400 && after(ids[0]) >= 150);
    // A worker stamps a burst with the time at which it last looked, a few milliseconds ago if nothing holds it up.
    assert!(after(ids[1]) + 100 >= used.as_millis() + 150, "used last at {used:?}: {told:?}");
    // Deleted and cleared entries are not told.
    net.switch.transact(&[with(0, 20, 0), with(1, 20, 0)]).unwrap();
    net.switch.transact(&[Update::Delete(FIRST, EntryId(ids[0])), Update::Clear(FIRST)]).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(net.switch.expired(), []);
}

#[test]
fn a_flood_of_punts_holds_nothing_up() {
    let net = Net::with(switch::Config { punt_rate: 1_000_000_000, ..config(1) }, 2);
    net.switch
        .transact(&[insert(FIRST, 1, 5, call("punt", &[])), insert(FIRST, 2, 6, call("out", &[2]))])
        .unwrap();
    net.switch.sync();
    // Nobody takes them: the ring fills, the rest is counted, the switch goes on.
    let mut sent = 0u64;
    for number in 0..30_000 {
        sent += u64::from(net.far(1).inject_bytes(&frame(5, number)));
    }
    let begin = Instant::now();
    for id in 10..60 {
        net.switch.transact(&[insert(SECOND, id, id, call("drop", &[]))]).unwrap();
        net.switch.sync();
    }
    println!("50 transactions with sync under a flood of punts: {:?}", begin.elapsed());
    sent += u64::from(net.far(1).inject_bytes(&frame(6, 1)));
    assert!(net.far(2).take_within(Duration::from_secs(60)).is_some());
    until("all frames have ended", || balance(&net.switch) == (sent, sent));
    let counters = net.switch.port_counters()[0].1.clone();
    let full = ("punt_ring_full", sent - 1 - counters.punted);
    // A ninth of the room is left for other ports.
    assert_eq!((counters.punted, &counters.drops[..]), (7281, &[full][..]));
    // The first ones are there, in order, and room is made by taking them.
    for number in 0..7281 {
        let Some(Message::Punt(punt)) = net.switch.try_message() else { panic!("{number}") };
        assert_eq!((punt.bytes, punt.in_port), (frame(5, number), 1));
        assert_eq!((punt.table, punt.entry), (Some(FIRST), Some(EntryId(1))));
    }
    assert!(net.switch.try_message().is_none());
    assert!(net.far(1).inject_bytes(&frame(5, 0)));
    assert!(net.switch.next_message(Duration::from_secs(60)).is_some());
}

#[test]
fn waiting_ends_with_an_event_or_the_time() {
    let net = Net::new(1, 1);
    net.switch.wait(Duration::from_secs(60));
    assert!(net.switch.try_port_event().is_some());
    while net.switch.try_port_event().is_some() {}
    let begin = Instant::now();
    net.switch.wait(Duration::from_millis(30));
    assert!(begin.elapsed() >= Duration::from_millis(25));
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_hundred_thousand_entries() {
    const ENTRIES: u32 = 100_000;
    let net = Net::new(2, 2);
    let before = resident_kib();
    let begin = Instant::now();
    for station in 0..ENTRIES {
        let id = net.switch.allocate_counter().unwrap();
        net.switch.transact(&[insert(FIRST, id, station, call("out", &[2]))]).unwrap();
    }
    let (accepted, version) = (begin.elapsed(), net.switch.sync());
    println!(
        "{ENTRIES} entries one by one: accepted in {accepted:?}, in force after {:?}, {} MiB",
        begin.elapsed(),
        (resident_kib() - before) / 1024
    );
    assert_eq!(version, u64::from(ENTRIES));
    for station in (0..ENTRIES).step_by(997) {
        assert!(net.far(1).inject_bytes(&frame(station, station)));
        assert!(net.far(2).take_within(Duration::from_secs(60)).is_some());
        assert_eq!(net.switch.counter(station).packets, 1);
    }
    let begin = Instant::now();
    let all: Vec<Update> = (0..ENTRIES).map(|id| Update::Delete(FIRST, EntryId(id))).collect();
    net.switch.transact(&all).unwrap();
    (0..ENTRIES).for_each(|id| net.switch.retire_counter(id));
    net.switch.sync();
    println!("deleted in one transaction: {:?}", begin.elapsed());
    assert_eq!(net.switch.table_stats(FIRST).entries, 0);
    assert!(net.far(1).inject_bytes(&frame(1, 1)));
    until("it is dropped", || net.switch.port_counters()[0].1.drops == [("table_miss", 1)]);
}
