//! What a barrier and a bundle promise, held against traffic.
//!
//! Full sizes take minutes and are ignored; ordinary runs do a part. Settings: `MILLRACE_ROUNDS`.

mod common;

use common::*;
use openflow::{
    Action, BundleAdd, BundleControl, BundleControlType, BundleFlags, BundleId, FieldId, FlowMod,
    Instruction, Match, Message, PortNo, Version,
};
use std::io::Write;
use std::time::{Duration, Instant};

/// Every frame leaves by port 2, with the round in its source.
fn rule(round: u32) -> FlowMod {
    let mark = Action::set_field(FieldId::EthSrc, 0x0200_0000_0000 | u128::from(round));
    let list = vec![mark, Action::output(PortNo(2))];
    FlowMod::add(Match::new(), [Instruction::ApplyActions(list)].into_iter().collect())
}

fn rounds(count: u32) {
    let bed = Bed::new(listening());
    let mut c = bed.controller(Version::V13);
    let mut wrong = 0;
    for round in 0..count {
        c.send(&Message::FlowMod(rule(round)));
        assert_eq!(c.barrier(), []);
        // From here on no packet may go by the rule before.
        assert!(bed.hosts[0].inject_bytes(&frame(7, 60)));
        let got = bed.hosts[1].take_within(PATIENCE).expect("it comes out");
        let mark = u32::from_be_bytes(got.data()[8..12].try_into().unwrap());
        wrong += u32::from(mark != round);
    }
    assert_eq!(wrong, 0, "packets by the rule before, of {count}");
}

#[test]
fn after_the_barrier_no_packet_goes_by_the_old_rule() {
    //= openflow-1.3.5 §7.3.8: what was asked before is done when the barrier is answered.
    let count = std::env::var("MILLRACE_ROUNDS").ok().and_then(|n| n.parse().ok());
    rounds(count.unwrap_or(1000));
}

#[test]
#[ignore = "a minute or more; 100,000 rounds"]
fn after_a_hundred_thousand_barriers() {
    rounds(100_000);
}

/// Adds so many entries in one bundle, under traffic to its first, middle and last: from one packet on
/// all of them are there. Tells how long the commit took.
fn bundle(entries: u32) -> Duration {
    let bed = Bed::new(listening());
    let mut c = bed.controller(Version::V14);
    let flags = BundleFlags::ATOMIC | BundleFlags::ORDERED;
    let control = |control| {
        Message::BundleControl(BundleControl { bundle_id: BundleId(1), control, flags, time: None })
    };
    c.ask(&control(BundleControlType::OpenRequest));
    let mut bytes = Vec::new();
    for n in 0..entries {
        let mut flow = flow(n);
        flow.dialect = Version::V14;
        let (xid, message) = c.encode(&Message::FlowMod(flow));
        let add = BundleAdd { bundle_id: BundleId(1), flags, message };
        let add = Message::BundleAdd(add);
        openflow::codec::encode_into(&mut bytes, Version::V14, xid, &add).unwrap();
    }
    c.stream.write_all(&bytes).unwrap();
    c.ask(&control(BundleControlType::CloseRequest));
    assert_eq!(bed.flows(), 0, "nothing happens before the commit");

    let (done, told) = std::sync::mpsc::channel();
    let commit = std::thread::spawn({
        let message = control(BundleControlType::CommitRequest);
        move || {
            let start = Instant::now();
            let answer = c.ask(&message);
            c.barrier();
            done.send(start.elapsed()).unwrap();
            (c, answer)
        }
    });
    // Frames to three entries in turn, numbered, until some time after the commit.
    let wanted = [0, entries / 2, entries - 1];
    let (mut sent, mut came, mut after, mut took) = (0u32, Vec::new(), 0, None);
    while after < 300 {
        let mut bytes = frame(wanted[sent as usize % 3], 60);
        bytes[14..18].copy_from_slice(&sent.to_be_bytes());
        sent += u32::from(bed.hosts[0].inject_bytes(&bytes));
        while let Some(frame) = bed.hosts[1].take_within(Duration::ZERO) {
            came.push(u32::from_be_bytes(frame.data()[14..18].try_into().unwrap()));
        }
        took = took.or_else(|| told.try_recv().ok());
        after += u32::from(took.is_some());
        std::thread::sleep(Duration::from_micros(100));
    }
    // The last one was sent when all entries were in force.
    while came.last() != Some(&(sent - 1)) {
        let frame = bed.hosts[1].take_within(PATIENCE).expect("it comes out");
        came.push(u32::from_be_bytes(frame.data()[14..18].try_into().unwrap()));
    }
    let (_c, answer) = commit.join().unwrap();
    assert_eq!(answer, control(BundleControlType::CommitReply));
    assert_eq!(bed.flows(), entries as usize);
    let first = *came.first().expect("in the end all are there");
    let all: Vec<u32> = (first..sent).collect();
    assert_eq!(came, all, "from one packet on every one finds its entry");
    took.unwrap()
}

#[test]
fn a_bundle_is_there_as_a_whole_or_not_at_all() {
    //= openflow-1.4.1 §6.8: packets see all of a bundle or nothing of it.
    bundle(5000);
}

#[test]
#[ignore = "measures; run it alone, in the release profile"]
fn a_hundred_thousand_entries_in_one_version_within_two_seconds() {
    let took = bundle(100_000);
    println!("100,000 entries in one bundle: {took:?} from commit to barrier");
    assert!(took < Duration::from_secs(2), "{took:?}");
}
