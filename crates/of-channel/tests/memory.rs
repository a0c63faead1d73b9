//! What flow entries, groups and meters cost in memory, and that all of it comes back.
//!
//! Settings: `MILLRACE_CYCLES`, how often everything is added and deleted (5); `MILLRACE_CYCLE`, of
//! each kind so many (20,000).

mod common;

use common::*;
use openflow::{
    Action, Band, BandKind, Bucket, BucketId, FieldId, FlowMod, GroupId, GroupMod, GroupModCommand,
    GroupType, Instruction, Match, Message, MeterFlags, MeterId, MeterMod, MeterModCommand, PortNo,
    TableId, Version,
};
use std::sync::Mutex;

#[global_allocator]
static HEAP: testkit::heap::Counting = testkit::heap::Counting::new();

/// The heap is everybody's: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn setting(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).ok().map_or(otherwise, |n| n.parse().unwrap())
}

/// Sends messages, and waits until they are done.
fn send_all(c: &mut Controller, messages: impl Iterator<Item = Message>) {
    use std::io::Write;
    let mut bytes = Vec::new();
    for message in messages {
        bytes.extend(c.encode(&message).1);
        if bytes.len() > 1 << 16 {
            c.stream.write_all(&bytes).unwrap();
            bytes.clear();
        }
    }
    c.stream.write_all(&bytes).unwrap();
    assert!(c.barrier().is_empty(), "a request was refused");
}

/// An entry of an access list.
fn rule(number: u32) -> FlowMod {
    let port = u128::from(number % 60_000);
    let matching = Match::new()
        .with(FieldId::EthType, 0x800)
        .with(FieldId::IpProto, 6)
        .with(FieldId::Ipv4Src, 0x0a00_0000 | u128::from(number))
        .with(FieldId::TcpDst, port);
    let output = Action::output(PortNo(2));
    let mut rule =
        FlowMod::add(matching, [Instruction::ApplyActions(vec![output])].into_iter().collect());
    rule.table_id = TableId(1);
    rule
}

fn group(number: u32) -> GroupMod {
    let bucket = |id| Bucket {
        id: BucketId(id),
        weight: 0,
        watch_port: PortNo::ANY,
        watch_group: GroupId::ANY,
        actions: vec![Action::output(PortNo(id + 1))],
    };
    GroupMod {
        command: GroupModCommand::Add,
        group_type: GroupType::All,
        group_id: GroupId(number),
        command_bucket: BucketId::ALL,
        selection: None,
        buckets: vec![bucket(0), bucket(1)],
    }
}

fn meter(number: u32) -> MeterMod {
    MeterMod {
        command: MeterModCommand::Add,
        flags: MeterFlags::KBPS,
        meter_id: MeterId(number + 1),
        bands: vec![Band { rate: 1000 + number, burst_size: 0, kind: BandKind::Drop }],
    }
}

/// What a cycle leaves behind: the median of the steps from each to the next.
///
/// A leak shows in every cycle. A buffer that doubles for the fullest moment so far does so in one,
/// and nobody can say in which: messages and answers meet as the threads happen to run.
fn growth(after: &[usize]) -> usize {
    let mut steps: Vec<_> = after.windows(2).map(|two| two[1].saturating_sub(two[0])).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or_default()
}

#[test]
fn what_is_added_has_its_price() {
    let _turn = TURN.lock().unwrap();
    let bed = Bed::new(listening());
    let mut c = bed.controller(Version::V13);
    let count = 50_000;
    let mut price = |what: &str, make: &dyn Fn(u32) -> Message, most: usize| {
        // What the first one of a kind needs is there afterwards.
        send_all(&mut c, (0..1000).map(make));
        c.clear();
        let before = HEAP.settled(PATIENCE);
        send_all(&mut c, (0..count).map(make));
        let each = HEAP.settled(PATIENCE).saturating_sub(before) / count as usize;
        println!("{what}: {each} bytes");
        assert!(each <= most, "{what}: {each} bytes, at most {most}");
        c.clear();
    };
    price("a flow entry by address", &|n| Message::FlowMod(flow(n)), 1200);
    price("a flow entry of an access list", &|n| Message::FlowMod(rule(n)), 2000);
    // With what code of bursts reads of it, once for each of two snapshots.
    price("a group of two buckets", &|n| Message::GroupMod(group(n)), 1800);
    price("a meter of one band", &|n| Message::MeterMod(meter(n)), 800);
}

#[test]
fn what_is_deleted_is_given_back() {
    let _turn = TURN.lock().unwrap();
    let (cycles, count) = (setting("MILLRACE_CYCLES", 5), setting("MILLRACE_CYCLE", 20_000));
    let bed = Bed::new(listening());
    let mut c = bed.controller(Version::V13);
    let mut after = Vec::new();
    for cycle in 0..cycles {
        send_all(&mut c, (0..count).map(|n| Message::MeterMod(meter(n))));
        send_all(&mut c, (0..count).map(|n| Message::GroupMod(group(n))));
        send_all(&mut c, (0..count).map(|n| Message::FlowMod(flow(n))));
        send_all(&mut c, (0..count).map(|n| Message::FlowMod(rule(n))));
        // Packets meet the entries.
        for n in 0..100 {
            bed.hosts[0].inject_bytes(&frame(n, 60));
        }
        let full = HEAP.settled(PATIENCE);
        c.clear();
        assert_eq!(bed.flows(), 0);
        let empty = HEAP.settled(PATIENCE);
        println!("cycle {cycle}: {full} bytes full, {empty} empty");
        after.push(empty);
        while bed.hosts[1].take().is_some() {}
    }
    let grown = growth(&after);
    assert!(grown < 64 << 10, "every cycle leaves {grown} bytes: {after:?}");
}

/// Controllers that come and go, one after the other, each with a request of its own.
#[test]
fn who_leaves_takes_all_along() {
    let _turn = TURN.lock().unwrap();
    let (cycles, count) = (setting("MILLRACE_CYCLES", 5), setting("MILLRACE_VISITS", 400));
    let bed = Bed::new(listening());
    let mut after = Vec::new();
    for cycle in 0..cycles {
        for n in 0..count {
            let version = [Version::V10, Version::V13, Version::V14, Version::V15][n as usize % 4];
            let mut c = bed.controller(version);
            c.send(&Message::EchoRequest(vec![7; 100]));
            c.barrier();
        }
        let left = HEAP.settled(PATIENCE);
        println!("cycle {cycle}: {left} bytes left");
        after.push(left);
    }
    let grown = growth(&after);
    assert!(grown < 16 << 10, "every round of visits leaves {grown} bytes: {after:?}");
}
