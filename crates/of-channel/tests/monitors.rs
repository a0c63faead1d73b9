//! Flow monitors over connections, in every version's words (1.4.1 §7.3.5.17).

mod common;

use common::*;
use openflow::{
    BundleAdd, BundleControl, BundleControlType, BundleFlags, BundleId, ErrorCode, ErrorKind,
    FlowModCommand, FlowMonitorRequest, FlowUpdate, FlowUpdateKind, GroupId, Match, Message,
    MonitorCommand, MonitorFlags, MultipartReply, MultipartReplyBody, MultipartRequest,
    MultipartRequestBody, Nicira, PortNo, TableId, Version, Xid,
};
use std::io::Write;
use std::time::Duration;

const ALL: MonitorFlags = MonitorFlags::INITIAL
    .union(MonitorFlags::ADD)
    .union(MonitorFlags::REMOVED)
    .union(MonitorFlags::MODIFY)
    .union(MonitorFlags::INSTRUCTIONS);

fn watch(monitor_id: u32, command: MonitorCommand, flags: MonitorFlags) -> FlowMonitorRequest {
    FlowMonitorRequest {
        monitor_id,
        command,
        flags,
        out_port: PortNo::ANY,
        out_group: GroupId::ANY,
        table_id: TableId::ALL,
        matching: Match::new(),
    }
}

fn ask(request: FlowMonitorRequest) -> Message {
    let body = MultipartRequestBody::FlowMonitor(vec![request]);
    Message::MultipartRequest(MultipartRequest { more: false, body })
}

fn updates(messages: &[(Xid, Message)]) -> Vec<FlowUpdate> {
    let mut all = Vec::new();
    for (_, message) in messages {
        match message {
            Message::MultipartReply(MultipartReply {
                body: MultipartReplyBody::FlowMonitor(list),
                ..
            }) => all.extend(list.clone()),
            other => panic!("{other:?}"),
        }
    }
    all
}

fn kinds(list: &[FlowUpdate]) -> Vec<FlowUpdateKind> {
    let kind = |update: &FlowUpdate| match update {
        FlowUpdate::Full(full) => full.kind,
        other => panic!("{other:?}"),
    };
    list.iter().map(kind).collect()
}

fn add(version: Version, n: u32, port: u32) -> Message {
    let mut flow = flow(n);
    flow.dialect = version;
    if let openflow::Instruction::ApplyActions(actions) = &mut flow.instructions[0] {
        actions[0] = openflow::Action::output(PortNo(port));
    }
    Message::FlowMod(flow)
}

fn delete(version: Version) -> Message {
    let mut all = flow(0);
    all.dialect = version;
    all.command = FlowModCommand::Delete;
    all.matching = Match::new();
    all.instructions.clear();
    Message::FlowMod(all)
}

#[test]
fn what_becomes_of_entries_is_told_in_every_version() {
    for version in [Version::V10, Version::V13, Version::V14, Version::V15] {
        //= openflow-1.4.1 §7.3.5.17: entries that are there, that come, change and go.
        let bed = Bed::new(listening());
        let (mut doer, mut watcher) = (bed.controller(version), bed.controller(version));
        doer.send(&add(version, 1, 2));
        doer.barrier();
        let xid = watcher.send(&ask(watch(9, MonitorCommand::Add, ALL)));
        let first = updates(&watcher.until(xid));
        let initial =
            if version < Version::V14 { FlowUpdateKind::Added } else { FlowUpdateKind::Initial };
        assert_eq!(kinds(&first), [initial], "{version}");
        doer.send(&add(version, 2, 2));
        doer.send(&add(version, 2, 1));
        doer.send(&delete(version));
        assert_eq!(doer.barrier(), []);
        let told = updates(&watcher.barrier());
        use FlowUpdateKind::*;
        assert_eq!(kinds(&told), [Added, Modified, Removed, Removed], "{version}");
        let FlowUpdate::Full(added) = &told[0] else { panic!("{told:?}") };
        assert_eq!((added.matching.clone(), added.instructions.len()), (flow(2).matching, 1));
        // One's own changes are told by their transaction, once for each.
        let xid = watcher.send(&add(version, 3, 2));
        assert_eq!(updates(&watcher.barrier()), [FlowUpdate::Abbreviated(xid)], "{version}");
        // A monitor that ends tells nothing more.
        if version < Version::V14 {
            watcher.send(&Message::Nicira(Nicira::MonitorCancel(9)));
        } else {
            let xid = watcher.send(&ask(watch(9, MonitorCommand::Delete, ALL)));
            assert_eq!(updates(&watcher.until(xid)), []);
        }
        assert_eq!(watcher.barrier(), []);
        doer.send(&delete(version));
        doer.barrier();
        assert_eq!(watcher.barrier(), []);
    }
}

#[test]
fn wrong_requests_have_their_codes() {
    let bed = Bed::new(listening());
    let mut c = bed.controller(Version::V14);
    let mut code = |request| match c.ask(&ask(request)) {
        Message::Error(error) => match error.kind {
            ErrorKind::Code(code) => Some(code),
            other => panic!("{other}"),
        },
        _ => None,
    };
    //= openflow-1.4.1 §7.5.4.16: the codes of flow monitors.
    assert_eq!(code(watch(1, MonitorCommand::Add, ALL)), None);
    assert_eq!(code(watch(1, MonitorCommand::Add, ALL)), Some(ErrorCode::MofcMonitorExists));
    assert_eq!(code(watch(2, MonitorCommand::Modify, ALL)), Some(ErrorCode::MofcUnknownMonitor));
    assert_eq!(code(watch(2, MonitorCommand::Delete, ALL)), Some(ErrorCode::MofcUnknownMonitor));
    let nowhere =
        FlowMonitorRequest { table_id: TableId(254), ..watch(3, MonitorCommand::Add, ALL) };
    assert_eq!(code(nowhere), Some(ErrorCode::MofcBadTableId));
    assert_eq!(code(watch(3, MonitorCommand::Add, ALL)), None, "the refused one began nothing");
}

#[test]
fn a_bundle_that_fails_tells_nothing() {
    let bed = Bed::new(listening());
    let (mut doer, mut watcher) = (bed.controller(Version::V14), bed.controller(Version::V14));
    watcher.ask(&ask(watch(1, MonitorCommand::Add, ALL)));
    let flags = BundleFlags::ATOMIC;
    for (bad, expected) in [(true, 0), (false, 2)] {
        for n in [1, 2] {
            // Port 0 is none.
            let (xid, message) =
                doer.encode(&add(Version::V14, n, if bad && n == 2 { 0 } else { 2 }));
            let add = Message::BundleAdd(BundleAdd { bundle_id: BundleId(7), flags, message });
            let bytes = openflow::encode(Version::V14, xid, &add).unwrap();
            doer.stream.write_all(&bytes).unwrap();
        }
        doer.ask(&Message::BundleControl(BundleControl {
            bundle_id: BundleId(7),
            control: BundleControlType::CommitRequest,
            flags,
            time: None,
        }));
        doer.barrier();
        assert_eq!(updates(&watcher.barrier()).len(), expected);
    }
}

#[test]
fn who_does_not_read_is_paused_and_then_told_all() {
    let bed = Bed::new(listening());
    let (mut doer, mut watcher) = (bed.controller(Version::V14), bed.controller(Version::V14));
    let flags = ALL | MonitorFlags::NO_ABBREV;
    watcher.ask(&ask(watch(1, MonitorCommand::Add, flags)));
    // So much that neither sockets nor buffers hold it.
    let doing = std::thread::spawn(move || {
        for round in 0..8u32 {
            for n in 0..4000 {
                doer.send(&add(Version::V14, n, 1 + round % 2));
            }
            doer.barrier();
        }
        doer
    });
    let _doer = doing.join().unwrap();
    let (mut entries, mut paused, mut resumed) = (std::collections::BTreeMap::new(), 0, 0);
    let last = flow(0).instructions;
    let begun = std::time::Instant::now();
    loop {
        let Some(Some((_, message))) = watcher.next_within(Duration::from_secs(1)) else {
            // Silence is the end, unless the switch was not given the time to say all.
            let whole = paused == resumed
                && entries.len() == 4000
                && entries.values().all(|instructions| *instructions == last);
            if whole || begun.elapsed() > PATIENCE {
                break;
            }
            continue;
        };
        if let Message::EchoRequest(data) = &message {
            watcher.send(&Message::EchoReply(data.clone()));
            continue;
        }
        for update in updates(&[(Xid(0), message)]) {
            match update {
                FlowUpdate::Paused => paused += 1,
                FlowUpdate::Resumed => resumed += 1,
                FlowUpdate::Full(full) => {
                    entries.insert(format!("{:?}", full.matching), full.instructions);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(paused, resumed);
    // However it went, in the end the watcher knows all, as it is.
    assert_eq!(entries.len(), 4000);
    assert!(entries.values().all(|i| *i == last), "paused {paused} times");
}
