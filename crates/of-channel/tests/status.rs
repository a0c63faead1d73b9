//! What controllers are told of each other's channels (1.5.1 §7.3.5.15, §7.4.7).

mod common;

use common::*;
use of_channel::connection::Timing;
use of_channel::{Config, Target};
use openflow::{
    AsyncChange, AsyncKind, ControllerReason, ControllerStatus, ErrorCode, ErrorKind, Message,
    MultipartReplyBody, MultipartRequest, MultipartRequestBody, Role, RoleMessage, Version,
};
use std::net::TcpListener;
use std::time::Duration;

const REQUEST: MultipartRequest =
    MultipartRequest { more: false, body: MultipartRequestBody::ControllerStatus };

fn watch(c: &mut Controller) {
    c.send(&Message::SetAsync(AsyncChange {
        masks: vec![(AsyncKind::ControllerStatus, false, 0x7f)],
    }));
    c.barrier();
}

fn told(c: &mut Controller) -> ControllerStatus {
    match c.next().unwrap().1 {
        Message::ControllerStatus(status) => status,
        other => panic!("{other:?}"),
    }
}

fn all(c: &mut Controller) -> Vec<ControllerStatus> {
    match c.ask(&Message::MultipartRequest(REQUEST)) {
        Message::MultipartReply(reply) => match reply.body {
            MultipartReplyBody::ControllerStatus(list) => list,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn controllers_hear_of_each_other_s_channels() {
    //= openflow-1.5.1 §7.3.5.15: every controller of the configuration is told of, with its channel's
    //= state; those that have connected are, too.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let bed = Bed::new(Config {
        controllers: vec![Target { host: "127.0.0.1".into(), port, tls: false }],
        timing: Timing { probe: Duration::from_secs(60) },
        backoff_max: Duration::from_millis(20),
        ..listening()
    });
    let uri = format!("tcp:127.0.0.1:{port}");
    let mut watcher = bed.controller(Version::V15);
    //= openflow-1.5.1 §7.4.7: a change of a channel is told to who asked to hear of it.
    watch(&mut watcher);
    let down = all(&mut watcher);
    assert_eq!(down.len(), 2);
    assert_eq!((down[0].uri.as_str(), down[0].up), (uri.as_str(), false));
    assert!(down[1].up && down[1].uri.starts_with("tcp:127.0.0.1:"));
    assert_eq!((down[1].role, down[1].reason), (Role::Equal, ControllerReason::Request));
    // The controller of the configuration comes.
    let mut configured = Controller::new(listener.accept().unwrap().0, Version::V15);
    configured.barrier();
    let status = told(&mut watcher);
    let up = ControllerStatus {
        short_id: RoleMessage::NO_ID,
        role: Role::Equal,
        reason: ControllerReason::Channel,
        up: true,
        uri: uri.clone(),
    };
    assert_eq!(status, up);
    // It becomes master, and gives itself a number.
    let role = RoleMessage { role: Role::Master, short_id: 7, generation_id: 1 };
    configured.ask(&Message::RoleRequest(role));
    let master = ControllerStatus { role: Role::Master, short_id: 7, ..up };
    assert_eq!(
        told(&mut watcher),
        ControllerStatus { reason: ControllerReason::Role, ..master.clone() }
    );
    assert_eq!(
        told(&mut watcher),
        ControllerStatus { reason: ControllerReason::ShortId, ..master.clone() }
    );
    assert_eq!(
        all(&mut watcher)[0],
        ControllerStatus { reason: ControllerReason::Request, ..master.clone() }
    );
    // Asking again for what one has changes nothing.
    configured.ask(&Message::RoleRequest(role));
    // Another one connects, takes over, and is gone again.
    let mut third = bed.controller(Version::V13);
    let added = told(&mut watcher);
    assert_eq!((added.reason, added.up), (ControllerReason::Added, true));
    let role = RoleMessage { role: Role::Master, short_id: 0, generation_id: 2 };
    third.ask(&Message::RoleRequest(role));
    let (taken, lost) = (told(&mut watcher), told(&mut watcher));
    assert_eq!((taken.role, &taken.uri), (Role::Master, &added.uri));
    assert_eq!((lost.role, lost.uri.as_str(), lost.short_id), (Role::Slave, uri.as_str(), 7));
    // 1.3 has no such messages, and is refused the request.
    let request = Message::MultipartRequest(REQUEST);
    let mut bytes = openflow::codec::encode(Version::V15, openflow::Xid(9), &request).unwrap();
    bytes[0] = Version::V13.wire();
    std::io::Write::write_all(&mut third.stream, &bytes).unwrap();
    let (_, Message::Error(error)) = third.next().unwrap() else { panic!("no error") };
    assert_eq!(error.kind, ErrorKind::Code(ErrorCode::BrcBadMultipart));
    drop(third);
    let removed = told(&mut watcher);
    assert_eq!((removed.reason, removed.up), (ControllerReason::Removed, false));
    assert_eq!((removed.role, removed.uri), (Role::Master, added.uri));
    drop(configured);
    let status = told(&mut watcher);
    assert_eq!((status.reason, status.up, status.uri), (ControllerReason::Channel, false, uri));
}

#[test]
fn who_does_not_ask_is_not_told_of_controllers() {
    let bed = Bed::new(listening());
    let mut silent = bed.controller(Version::V15);
    let mut watcher = bed.controller(Version::V15);
    watch(&mut watcher);
    let other = bed.controller(Version::V15);
    assert_eq!(told(&mut watcher).reason, ControllerReason::Added);
    drop(other);
    assert_eq!(told(&mut watcher).reason, ControllerReason::Removed);
    assert_eq!(silent.barrier(), []);
}
