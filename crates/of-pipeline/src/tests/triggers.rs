//! Stat-triggers over a switch.

use super::bed::*;
use crate::Event;
use openflow::{
    Age, EntryStats, ErrorCode, FieldId, FlowCounts, FlowMod, FlowModCommand, FlowModFlags,
    Instruction, Instructions, Match, StatTrigger, StatTriggerFlags, Version,
};

fn with_trigger(flags: StatTriggerFlags, thresholds: EntryStats) -> Instructions {
    let mut list = apply([output(2)]);
    list.insert(0, Instruction::StatTrigger(Box::new(StatTrigger { flags, thresholds })));
    list
}

fn packets(n: u64) -> EntryStats {
    EntryStats { packets: Some(n), ..EntryStats::default() }
}

fn v15(request: FlowMod) -> FlowMod {
    FlowMod { dialect: Version::V15, ..request }
}

fn told(bed: &mut Bed) -> FlowCounts {
    bed.event(|event| match event {
        Event::FlowStats(counts) => Some(counts.clone()),
        _ => None,
    })
}

/// No trigger is told of while the counters are looked at several times.
fn silent(bed: &mut Bed) {
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert_eq!(bed.agent.poll(), []);
    }
}

#[test]
fn thresholds_are_told_when_packets_reach_them() {
    //= openflow-1.5.1 §7.2.5: an event tells of an entry whose statistics reach a threshold.
    let mut bed = Bed::new(2);
    let matching = Match::new().with(FieldId::EthDst, 1);
    let periodic = with_trigger(StatTriggerFlags::PERIODIC, packets(3));
    bed.ok(v15(FlowMod { priority: 7, ..add(matching.clone(), periodic) }));
    let send = |bed: &Bed, n: usize| {
        for _ in 0..n {
            bed.send(1, &frame(1, 2));
            bed.receive(2);
        }
    };
    send(&bed, 2);
    silent(&mut bed);
    send(&bed, 1);
    let counts = told(&mut bed);
    assert_eq!((counts.priority, counts.reason, &counts.matching), (7, 1, &matching));
    assert_eq!((counts.stats.packets, counts.stats.bytes), (Some(3), Some(180)));
    assert!(counts.stats.duration.is_some());
    silent(&mut bed);
    send(&bed, 3);
    assert_eq!(told(&mut bed).stats.packets, Some(6));
    // A modification takes the trigger away; another one brings one that is told of at once.
    bed.ok(v15(with_command(FlowModCommand::Modify, add(matching.clone(), apply([output(2)])))));
    send(&bed, 3);
    silent(&mut bed);
    let again = with_trigger(StatTriggerFlags::empty(), packets(5));
    bed.ok(v15(with_command(FlowModCommand::Modify, add(matching.clone(), again.clone()))));
    assert_eq!(told(&mut bed).stats.packets, Some(9));
    // Counts that are set to zero count anew.
    let flags = FlowModFlags::RESET_COUNTS;
    let reset = with_command(FlowModCommand::Modify, add(matching.clone(), again));
    bed.ok(v15(FlowMod { flags, ..reset }));
    silent(&mut bed);
    send(&bed, 5);
    assert_eq!(told(&mut bed).stats.packets, Some(5));
    // The statistics of 1.3 leave out what it has no word for; the flow itself stays.
    assert_eq!(bed.flows(openflow::TableId(0)).len(), 1);
    // With the entry its trigger goes.
    bed.ok(delete(Match::new()));
    silent(&mut bed);
}

#[test]
fn times_are_thresholds_too() {
    let mut bed = Bed::new(2);
    let short = Some(Age { sec: 0, nsec: 100_000_000 });
    let idle = EntryStats { idle: short, ..EntryStats::default() };
    bed.ok(v15(add(Match::new(), with_trigger(StatTriggerFlags::empty(), idle))));
    let first = told(&mut bed);
    assert_eq!(first.stats.packets, Some(0));
    silent(&mut bed);
    // A packet begins another idle time.
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    assert_eq!(told(&mut bed).stats.packets, Some(1));
    let duration = EntryStats { duration: short, ..EntryStats::default() };
    bed.ok(v15(add(from_port(1), with_trigger(StatTriggerFlags::PERIODIC, duration))));
    let age = |counts: FlowCounts| counts.stats.duration.map(|a| (a.sec, a.nsec)).unwrap();
    let (one, two) = (age(told(&mut bed)), age(told(&mut bed)));
    assert!(one >= (0, 100_000_000) && two >= (0, 200_000_000), "{one:?} {two:?}");
}

#[test]
fn a_bundle_that_fails_triggers_nothing_anew() {
    let mut bed = Bed::new(2);
    let once = with_trigger(StatTriggerFlags::empty(), packets(1));
    bed.ok(v15(add(Match::new(), once)));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    assert_eq!(told(&mut bed).stats.packets, Some(1));
    let bad = v15(add(
        Match::new(),
        Instructions::from_iter([Instruction::GotoTable(openflow::TableId(0))]),
    ));
    let messages = vec![
        openflow::Message::FlowMod(v15(delete(Match::new()))),
        openflow::Message::FlowMod(bad),
    ];
    assert!(bed.agent.bundle(Version::V15, messages).is_err());
    silent(&mut bed);
}

#[test]
fn a_trigger_of_what_is_not_counted_is_refused() {
    let mut bed = Bed::new(1);
    let flags = FlowModFlags::NO_PKT_COUNTS;
    let request = add(Match::new(), with_trigger(StatTriggerFlags::empty(), packets(1)));
    assert_eq!(bed.refused(v15(FlowMod { flags, ..request })), ErrorCode::BicUnsupInst);
}
