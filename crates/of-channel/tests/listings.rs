//! Long answers: made as the peer takes them, and whole whatever changes meanwhile.

mod common;

use common::*;
use openflow::{
    Action, Bucket, BucketId, FlowMod, FlowModCommand, FlowStatsRequest, GroupDesc, GroupId,
    GroupMod, GroupModCommand, GroupType, Message, MeterFlags, MeterId, MeterMod, MeterModCommand,
    MultipartReply, MultipartReplyBody, MultipartRequest, MultipartRequestBody, PortNo, Version,
};
use std::collections::BTreeSet;

fn request(body: MultipartRequestBody) -> Message {
    Message::MultipartRequest(MultipartRequest { more: false, body })
}

fn all_flows() -> Message {
    request(MultipartRequestBody::Flow(FlowStatsRequest::all()))
}

/// Many entries, straight into the agent.
fn fill(bed: &Bed, flows: std::ops::Range<u32>) {
    let mut agent = bed.agent.lock().unwrap();
    for n in flows {
        agent.handle(Version::V13, Message::FlowMod(flow(n))).unwrap();
    }
}

#[test]
fn who_reads_slowly_has_it_all_and_in_order() {
    let bed = Bed::new(listening());
    fill(&bed, 0..20_000);
    let mut slow = bed.controller(Version::V13);
    let first = slow.send(&all_flows());
    let echo = slow.send(&Message::EchoRequest(vec![7]));
    let second = slow.send(&all_flows());
    let barrier = slow.send(&Message::BarrierRequest);
    let mut xids = Vec::new();
    for (xid, _) in slow.until(barrier) {
        if xids.last() != Some(&xid) {
            xids.push(xid);
        }
    }
    assert_eq!(xids, [first, echo, second, barrier], "one after the other");
}

#[test]
fn entries_that_stay_are_told_once_while_others_come_and_go() {
    let bed = Bed::new(listening());
    fill(&bed, 0..20_000);
    let mut slow = bed.controller(Version::V13);
    let asked = slow.send(&all_flows());
    let mut other = bed.controller(Version::V13);
    let (mut told, mut last) = (Vec::new(), false);
    let mut round = 0;
    while !last {
        // A part is read, then entries change.
        match slow.next().expect("closed") {
            (at, Message::MultipartReply(MultipartReply { more, body })) if at == asked => {
                let MultipartReplyBody::Flow(part) = body else { panic!("{body:?}") };
                told.extend(part.into_iter().map(|flow| format!("{:?}", flow.matching)));
                last = !more;
            }
            (_, message) => panic!("{message:?}"),
        }
        for n in 0..20 {
            // Every tenth goes, and new ones come.
            let gone = (round * 20 + n) * 10 % 20_000;
            let delete = FlowMod { command: FlowModCommand::DeleteStrict, ..flow(gone) };
            other.send(&Message::FlowMod(delete));
            other.send(&Message::FlowMod(flow(100_000 + round * 20 + n)));
        }
        other.barrier();
        round += 1;
    }
    assert!(round > 3, "in several parts: {round}");
    let distinct: BTreeSet<_> = told.iter().cloned().collect();
    assert_eq!(distinct.len(), told.len(), "none is told twice");
    let stay = (0..20_000u32).filter(|n| n % 10 != 0);
    let missing = stay.filter(|n| !distinct.contains(&format!("{:?}", flow(*n).matching))).count();
    assert_eq!(missing, 0);
}

#[test]
fn groups_and_meters_are_listed_in_parts_too() {
    let bed = Bed::new(listening());
    let bucket = |id: u32| Bucket {
        id: BucketId(id),
        weight: 0,
        watch_port: PortNo::ANY,
        watch_group: GroupId::ANY,
        actions: [Action::output(PortNo(2))].into_iter().collect(),
    };
    {
        let mut agent = bed.agent.lock().unwrap();
        for group in 1..=1500 {
            let add = GroupMod {
                command: GroupModCommand::Add,
                group_type: GroupType::All,
                group_id: GroupId(group),
                command_bucket: BucketId::ALL,
                selection: None,
                buckets: (0..30).map(bucket).collect(),
            };
            agent.handle(Version::V13, Message::GroupMod(add)).unwrap();
        }
        for meter in 1..=3000 {
            let add = MeterMod {
                command: MeterModCommand::Add,
                flags: MeterFlags::KBPS,
                meter_id: MeterId(meter),
                bands: Vec::new(),
            };
            agent.handle(Version::V13, Message::MeterMod(add)).unwrap();
        }
    }
    let mut controller = bed.controller(Version::V13);
    let mut list = |body: MultipartRequestBody| {
        let asked = controller.send(&request(body));
        let (mut count, mut parts) = (0, 0);
        loop {
            match controller.next().expect("closed") {
                (at, Message::MultipartReply(MultipartReply { more, body })) if at == asked => {
                    parts += 1;
                    count += match &body {
                        MultipartReplyBody::Group(all) => all.len(),
                        MultipartReplyBody::GroupDesc(all) => {
                            let whole = |desc: &GroupDesc| desc.buckets.len() == 30;
                            assert!(all.iter().all(whole));
                            all.len()
                        }
                        MultipartReplyBody::Meter(all) => all.len(),
                        MultipartReplyBody::MeterConfig(all) => all.len(),
                        other => panic!("{other:?}"),
                    };
                    if !more {
                        return (count, parts > 1);
                    }
                }
                (_, message) => panic!("{message:?}"),
            }
        }
    };
    use MultipartRequestBody as Body;
    assert_eq!(list(Body::Group(GroupId::ALL)), (1500, true));
    assert_eq!(list(Body::GroupDesc(GroupId::ALL)), (1500, true));
    assert_eq!(list(Body::Meter(MeterId::ALL)), (3000, true));
    assert_eq!(list(Body::MeterConfig(MeterId::ALL)).0, 3000);
    assert_eq!(list(Body::Group(GroupId(7))), (1, false));
    assert_eq!(list(Body::Group(GroupId(77_777))), (0, false));
    assert_eq!(list(Body::Meter(MeterId(3000))), (1, false));
    let refused = controller.ask(&request(Body::Meter(MeterId(3001))));
    assert!(matches!(refused, Message::Error(_)), "{refused:?}");
}
