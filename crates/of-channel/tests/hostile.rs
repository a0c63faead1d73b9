//! Malformed messages, peers that never pause, resets, long pipelines.

mod common;

use common::*;
use openflow::codec::{self, Header};
use openflow::testing::{Rng, arbitrary};
use openflow::{ErrorCode, ErrorKind, ErrorMessage, Message, Nicira, Version, Xid};
use std::io::Write;
use std::time::{Duration, Instant};

/// A message of the version, and what came of breaking it; framed rightly, with this xid.
fn broken(rng: &mut Rng, version: Version, xid: u32) -> Vec<u8> {
    let message = arbitrary::message(rng, version);
    let Ok(mut bytes) = codec::encode(version, Xid(xid), &message) else {
        return broken(rng, version, xid);
    };
    match rng.below(5) {
        0 => bytes.truncate(8 + rng.below(bytes.len() - 7)),
        1 if bytes.len() > 10 => {
            // Where lengths stand, mostly.
            let at = 8 + rng.below((bytes.len() - 9) / 2) * 2;
            bytes[at..at + 2].copy_from_slice(&rng.u16().to_be_bytes());
        }
        2 => bytes[1] = rng.u8(),
        3 => bytes[0] = rng.u8(),
        _ => {
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
        }
    }
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes[4..8].copy_from_slice(&xid.to_be_bytes());
    bytes
}

/// What a message that is well-formed after all does not change.
fn is_harmless(message: &Message) -> bool {
    !matches!(
        message,
        Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PortMod(_)
            | Message::SetConfig(_)
            | Message::SetAsync(_)
            | Message::RoleRequest(_)
            | Message::PacketOut(_)
            | Message::Resume(_)
    )
}

fn malformed(version: Version, seed: u64) {
    let bed = Bed::new(listening());
    let mut controller = bed.controller(version);
    for i in 0..100 {
        controller.send(&Message::FlowMod(flow(i)));
    }
    controller.barrier();
    let before = controller.dump();
    assert_eq!(before.len(), 100);
    let mut rng = Rng::new(seed);
    let (mut refused, mut sent) = (0, 0);
    let mut xid = 0x1_0000;
    while refused < 1000 {
        xid += 1;
        let bytes = broken(&mut rng, version, xid);
        let decoded = codec::decode(version, &bytes);
        if decoded.as_ref().is_ok_and(|(_, m)| !is_harmless(m)) {
            continue;
        }
        sent += 1;
        controller.stream.write_all(&bytes).unwrap();
        let answers = controller.barrier();
        let errors: Vec<&ErrorMessage> = answers
            .iter()
            .filter(|(at, _)| *at == Xid(xid))
            .filter_map(|(_, m)| if let Message::Error(e) = m { Some(e) } else { None })
            .collect();
        match decoded {
            Err(error) => {
                refused += 1;
                assert_eq!(answers.len(), 1, "{bytes:x?}: {answers:?}");
                assert_eq!(errors.len(), 1, "{bytes:x?}: {answers:?}");
                // 1.0 has fewer codes: the nearest comes.
                let type_only_switches_send = match version {
                    Version::V10 => [6, 8, 10, 11, 12, 17, 19, 21].contains(&bytes[1]),
                    Version::V13 => [6, 8, 10, 11, 12, 19, 21, 23, 25, 27].contains(&bytes[1]),
                    Version::V14 | Version::V15 => {
                        [6, 8, 10, 11, 12, 19, 21, 25, 27, 30, 31, 32].contains(&bytes[1])
                    }
                };
                let code = match error.code {
                    ErrorCode::BrcBadVersion => ErrorCode::BrcBadVersion,
                    _ if type_only_switches_send => ErrorCode::BrcBadType,
                    code => code,
                };
                let (error_type, number) = code.wire(version);
                let nearest = match version {
                    // Groups are Nicira's there, and so are their errors.
                    Version::V10 if code.nicira_v10().is_some() => code,
                    // Those of Nicira's own come as they are.
                    _ if version != Version::V10 && code.nicira().is_some() => code,
                    // It has them as the ONF's.
                    Version::V13 if code.onf_v13().is_some() => code,
                    _ => ErrorCode::from_wire(version, error_type, number).unwrap(),
                };
                assert_eq!(errors[0].kind, ErrorKind::Code(nearest), "{bytes:x?}: {error}");
                assert_eq!(errors[0].data, bytes[..bytes.len().min(ErrorMessage::DATA_BYTES)]);
            }
            Ok((_, message)) => {
                // Heard and not answered: hello, error, echo reply. All else is.
                let silent = matches!(
                    Header::parse(&bytes).unwrap().message_type,
                    Header::HELLO | Header::ERROR | 3
                ) || matches!(message, Message::TableMod(_))
                    || matches!(
                        message,
                        Message::Nicira(Nicira::FlushZone(_) | Nicira::CtFlush(_))
                    )
                    || matches!(message, Message::MultipartRequest(ref r) if r.more);
                assert!(silent || !answers.is_empty(), "{message:?} was not answered");
            }
        }
    }
    println!("{version}: {sent} sent, {refused} of them malformed");
    let mut after = controller.dump();
    assert_eq!(after.len(), before.len());
    for (flow, old) in after.iter_mut().zip(&before) {
        flow.age = old.age;
    }
    assert_eq!(after, before);
}

#[test]
fn a_thousand_malformed_messages_of_1_3() {
    malformed(Version::V13, 13);
}

#[test]
fn a_thousand_malformed_messages_of_1_0() {
    malformed(Version::V10, 10);
}

#[test]
fn resets_in_the_middle_of_messages_lose_no_flow() {
    let bed = Bed::new(listening());
    let mut rng = Rng::new(1);
    for round in 0..50 {
        let mut controller = bed.controller(Version::V13);
        controller.send(&Message::FlowMod(flow(round)));
        controller.barrier();
        let (_, mut bytes) = controller.encode(&Message::FlowMod(flow(1000 + round)));
        bytes.truncate(1 + rng.below(bytes.len() - 1));
        // Left unread, the answer turns the close into a reset.
        let (_, echo) = controller.encode(&Message::EchoRequest(vec![0; 100]));
        controller.stream.write_all(&[echo, bytes].concat()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut controller = bed.controller(Version::V13);
    assert_eq!(controller.dump().len(), 50);
}

#[test]
fn who_never_pauses_delays_nobody() {
    let bed = Bed::new(listening());
    let mut busy = bed.controller(Version::V13);
    let mut other = bed.controller(Version::V13);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let (_, one) = busy.encode(&Message::FlowMod(flow(1)));
    let many: Vec<u8> = one.iter().copied().cycle().take(one.len() * 1000).collect();
    let mut stream = busy.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let mut sent = 0;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            stream.write_all(&many).unwrap();
            sent += 1000;
        }
        sent
    });
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let asked = Instant::now();
        other.barrier();
        slowest = slowest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    // What happens in the switch is told to the busy one, too.
    bed.hosts[1].set_carrier(false);
    assert!(matches!(busy.next(), Some((_, Message::PortStatus(_)))));
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let sent = writing.join().unwrap();
    busy.barrier();
    println!("{sent} flow-mods of one; slowest barrier of another took {slowest:?}");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    assert_eq!(bed.flows(), 1);
}

#[test]
fn long_pipelines_and_long_answers() {
    const FLOWS: u32 = 100_000;
    let bed = Bed::new(listening());
    let mut controller = bed.controller(Version::V13);
    let mut bytes = Vec::new();
    for i in 0..FLOWS {
        codec::encode_into(&mut bytes, Version::V13, Xid(i), &Message::FlowMod(flow(i))).unwrap();
    }
    let started = Instant::now();
    controller.stream.write_all(&bytes).unwrap();
    assert_eq!(controller.barrier(), []);
    let added = started.elapsed();
    assert_eq!(bed.flows(), FLOWS as usize);
    let started = Instant::now();
    assert_eq!(controller.dump().len(), FLOWS as usize);
    println!("{FLOWS} flows: added in {added:?}, told in {:?}", started.elapsed());
}
