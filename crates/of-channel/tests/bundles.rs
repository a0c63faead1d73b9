//! Bundles, role-status and requestforward over a connection.

mod common;

use common::*;
use openflow::{
    BundleAdd, BundleControl, BundleControlType, BundleFlags, BundleId, ErrorCode, ErrorKind,
    FlowMod, ForwardedRequest, GroupId, GroupMod, GroupModCommand, GroupType, Match, Message,
    PortNo, Role, RoleMessage, RoleReason, Version, Xid,
};
use std::io::Write;

const FLAGS: BundleFlags = BundleFlags::ATOMIC;

fn control(id: u32, control: BundleControlType) -> Message {
    Message::BundleControl(BundleControl {
        bundle_id: BundleId(id),
        control,
        flags: FLAGS,
        time: None,
    })
}

fn flow(version: Version, n: u64, port: u32) -> Message {
    let mut flow = flow_to(n, port);
    flow.dialect = version;
    Message::FlowMod(flow)
}

fn flow_to(n: u64, port: u32) -> FlowMod {
    let matching = Match::new().with(openflow::FieldId::EthDst, n.into());
    let output = openflow::Action::output(PortNo(port));
    FlowMod::add(
        matching,
        [openflow::Instruction::ApplyActions(vec![output])].into_iter().collect(),
    )
}

/// Adds a message, whose xid is that of the addition.
fn add(controller: &mut Controller, id: u32, message: &Message) {
    let (xid, message) = controller.encode(message);
    let add = BundleAdd { bundle_id: BundleId(id), flags: FLAGS, message };
    let bytes = openflow::encode(controller.version, xid, &Message::BundleAdd(add)).unwrap();
    controller.stream.write_all(&bytes).unwrap();
}

fn codes(answers: &[(Xid, Message)]) -> Vec<ErrorCode> {
    answers
        .iter()
        .filter_map(|(_, m)| match m {
            Message::Error(error) => match error.kind {
                ErrorKind::Code(code) => Some(code),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

fn entries(bed: &Bed) -> usize {
    bed.agent.lock().unwrap().flows().len(0)
}

#[test]
fn bundles_over_a_connection() {
    let bed = Bed::new(listening());
    // 1.3 has them as an extension, whose errors are the ONF's own.
    for version in [Version::V13, Version::V14, Version::V15] {
        let before = entries(&bed);
        let mut c = bed.controller(version);
        let opened = c.ask(&control(1, BundleControlType::OpenRequest));
        assert_eq!(opened, control(1, BundleControlType::OpenReply));
        let base = u64::from(version.wire()) << 20;
        (0..500).for_each(|n| add(&mut c, 1, &flow(version, base + n, 2)));
        assert_eq!(entries(&bed), before, "nothing happens before the commit");
        c.ask(&control(1, BundleControlType::CloseRequest));
        let done = c.ask(&control(1, BundleControlType::CommitRequest));
        assert_eq!(done, control(1, BundleControlType::CommitReply));
        assert_eq!(entries(&bed), before + 500);
        // One bad message: its own error, that of the commit, and nothing else.
        add(&mut c, 2, &flow(version, base + 1000, 2));
        add(&mut c, 2, &flow(version, base + 1001, 0));
        add(&mut c, 2, &flow(version, base + 1002, 2));
        c.send(&control(2, BundleControlType::CommitRequest));
        let answers = c.barrier();
        assert_eq!(codes(&answers), [ErrorCode::BacBadOutPort, ErrorCode::BfcMsgFailed]);
        assert_eq!(entries(&bed), before + 500);
        c.send(&control(2, BundleControlType::DiscardRequest));
        assert_eq!(codes(&c.barrier()), [ErrorCode::BfcBadId], "the bundle is gone");
    }
}

#[test]
fn the_others_are_told_what_was_done() {
    //= openflow-1.4.1 §7.4.6: requestforward goes to others that asked for it.
    let bed = Bed::new(listening());
    let mut one = bed.controller(Version::V14);
    let mut two = bed.controller(Version::V14);
    let wants =
        openflow::AsyncChange { masks: vec![(openflow::AsyncKind::RequestForward, false, 3)] };
    two.send(&Message::SetAsync(wants.clone()));
    one.send(&Message::SetAsync(wants));
    two.barrier();
    let group = GroupMod {
        command: GroupModCommand::Add,
        group_type: GroupType::All,
        group_id: GroupId(7),
        command_bucket: openflow::BucketId::ALL,
        selection: None,
        buckets: Vec::new(),
    };
    one.send(&Message::GroupMod(group.clone()));
    assert_eq!(one.barrier(), [], "who asked is not told");
    let told = two.barrier();
    let [(_, Message::RequestForward(forward))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(forward.request, ForwardedRequest::Group(group.clone()));
    // What was refused is not told.
    one.send(&Message::GroupMod(group));
    assert_eq!(codes(&one.barrier()), [ErrorCode::GmfcGroupExists]);
    assert_eq!(two.barrier(), []);
    //= openflow-1.4.1 §7.4.4: a master that is overtaken is told that it is slave.
    let master = |generation_id| {
        let short_id = RoleMessage::NO_ID;
        Message::RoleRequest(RoleMessage { role: Role::Master, short_id, generation_id })
    };
    one.ask(&master(1));
    two.ask(&master(2));
    let told = one.barrier();
    let [(_, Message::RoleStatus(status))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((status.role, status.reason), (Role::Slave, RoleReason::MasterRequest));
    assert_eq!(status.generation_id, 2);
}

#[test]
fn a_scheduled_bundle_is_done_at_its_time() {
    use openflow::{
        BundleFeaturesRequest, MultipartReplyBody, MultipartRequest, MultipartRequestBody,
    };
    //= openflow-1.5.1 §7.3.9.5: a commit may say when; its reply comes when it is done.
    let bed = Bed::new(listening());
    let mut c = bed.controller(Version::V15);
    let body = BundleFeaturesRequest { flags: 0, times: None };
    let body = MultipartRequestBody::BundleFeatures(body);
    let asked = Message::MultipartRequest(MultipartRequest { more: false, body });
    let now = match c.ask(&asked) {
        Message::MultipartReply(openflow::MultipartReply {
            body: MultipartReplyBody::BundleFeatures(features),
            ..
        }) => {
            assert!(features.capabilities.contains(BundleFlags::TIME));
            features.times.unwrap().now
        }
        other => panic!("{other:?}"),
    };
    let flags = FLAGS | BundleFlags::TIME;
    let timed = |id: u32, control, time| {
        Message::BundleControl(BundleControl { bundle_id: BundleId(id), control, flags, time })
    };
    for id in [1, 2] {
        c.ask(&timed(id, BundleControlType::OpenRequest, None));
        add(&mut c, id, &flow(Version::V15, id.into(), 2));
    }
    let soon = Some((now.0 + 2, now.1));
    let begun = std::time::Instant::now();
    let first = c.send(&timed(1, BundleControlType::CommitRequest, soon));
    c.send(&timed(2, BundleControlType::CommitRequest, Some((now.0 + 60, 0))));
    c.barrier();
    assert_eq!(entries(&bed), 0, "not yet");
    // What waits may be discarded.
    let answer = c.ask(&timed(2, BundleControlType::DiscardRequest, None));
    let discarded = BundleControlType::DiscardReply;
    assert!(matches!(answer, Message::BundleControl(m) if m.control == discarded));
    let all = c.until(first);
    let done = BundleControlType::CommitReply;
    assert!(matches!(&all.last().unwrap().1, Message::BundleControl(m) if m.control == done));
    assert!(begun.elapsed() >= std::time::Duration::from_millis(1500));
    assert_eq!(entries(&bed), 1);
    let late = timed(3, BundleControlType::CommitRequest, Some((now.0 - 60, 0)));
    c.ask(&timed(3, BundleControlType::OpenRequest, None));
    let xid = c.send(&late);
    assert_eq!(codes(&c.until(xid)), [ErrorCode::BfcSchedPast]);
}
