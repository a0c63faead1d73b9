//! Framing, versions, refusals, cutting of replies; random messages whole, cut short and damaged.

use super::*;
use crate::action::{Action, Instruction, SetField};
use crate::field::FieldId;
use crate::flow::{FlowMod, FlowRemoved, FlowRemovedReason, FlowStats};
use crate::flow_match::Match;
use crate::ids::{GroupId, MeterId, PortNo, QueueId, TableId};
use crate::message::{CtFlush, CtTuple, Hello, Nicira};
use crate::multipart::{MultipartReply, MultipartReplyBody};
use crate::testing::{Rng, arbitrary, check_stable, fuzz_decode};
use crate::version::VersionSet;
use smallvec::smallvec;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A message of 1.3 with this type and body.
fn message(number: u8, body: &str) -> Vec<u8> {
    message_of(Version::V13, number, body)
}

fn message_of(version: Version, number: u8, body: &str) -> Vec<u8> {
    let body = hex(body);
    let length = (8 + body.len()) as u16;
    let mut bytes = vec![version.wire(), number];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(body);
    bytes
}

fn code(version: Version, bytes: &[u8]) -> ErrorCode {
    decode(version, bytes).expect_err("must be refused").code
}

#[test]
fn every_kind_round_trips() {
    for version in Version::ALL {
        for kind in 0..arbitrary::kinds(version) {
            for seed in 0..300 {
                let mut rng = Rng::new(seed << 8 | kind as u64);
                let message = arbitrary::message_of_kind(&mut rng, version, kind);
                let xid = Xid(rng.u32());
                let bytes = encode(version, xid, &message).expect("it can be said");
                assert_eq!(frame(&bytes), Frame::Message { length: bytes.len() });
                let decoded = decode(version, &bytes).unwrap_or_else(|e| {
                    panic!("{version} seed {seed} kind {kind}: {e}\n{message:?}\n{bytes:02x?}")
                });
                assert_eq!(decoded, (xid, message), "{version} seed {seed} kind {kind}");
            }
        }
    }
}

#[test]
fn cut_short_is_an_error_and_never_a_panic() {
    for version in Version::ALL {
        for kind in 0..arbitrary::kinds(version) {
            for seed in 0..20 {
                let mut rng = Rng::new(seed << 8 | kind as u64);
                let message = arbitrary::message_of_kind(&mut rng, version, kind);
                let bytes = encode(version, Xid(1), &message).unwrap();
                for end in 0..bytes.len() {
                    assert_eq!(code(version, &bytes[..end]), ErrorCode::BrcBadLen);
                    // With a header that admits it, the rest must notice or mean something.
                    if end >= HEADER_LEN {
                        let mut cut = bytes[..end].to_vec();
                        cut[2..4].copy_from_slice(&(end as u16).to_be_bytes());
                        check_stable(version, &cut);
                    }
                }
            }
        }
    }
}

#[test]
fn damaged_never_panics() {
    for version in Version::ALL {
        for seed in 0..6000 {
            let mut rng = Rng::new(seed);
            let message = arbitrary::message(&mut rng, version);
            let bytes = encode(version, Xid(1), &message).unwrap();
            for _ in 0..10 {
                let mut bytes = bytes.clone();
                for _ in 0..1 + rng.below(3) {
                    let at = rng.below(bytes.len());
                    bytes[at] ^= 1 << rng.below(8);
                }
                let length = bytes.len() as u16;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                fuzz_decode(&bytes);
            }
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut rng = Rng::new(7);
    for _ in 0..20_000 {
        let mut bytes = rng.bytes(200);
        if bytes.len() >= HEADER_LEN {
            bytes[0] = rng.choose(&[1, 4]);
            bytes[1] %= 30;
            let length = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
        }
        fuzz_decode(&bytes);
    }
}

#[test]
fn framing() {
    assert_eq!(frame(&[]), Frame::Incomplete { need: 8 });
    assert_eq!(frame(&hex("04 02 00 0c 000000")), Frame::Incomplete { need: 8 });
    assert_eq!(frame(&hex("04 02 00 0c 00000001 0000")), Frame::Incomplete { need: 12 });
    assert_eq!(frame(&hex("04 02 00 08 00000001 04020008")), Frame::Message { length: 8 });
    assert!(matches!(frame(&hex("04 02 00 07 00000001 00")), Frame::Bad { .. }));
}

#[test]
fn versions() {
    let echo = message(2, "");
    assert_eq!(code(Version::V10, &echo), ErrorCode::BrcBadVersion);
    let error = decode(Version::V10, &echo).unwrap_err();
    assert_eq!(
        error.to_string(),
        "version is 0x4; 1 (OpenFlow 1.0) is right, at byte 0 (OFPBRC_BAD_VERSION)"
    );
    // A hello is read under any version, even an unknown one, whatever it holds.
    let versions = Some(VersionSet(0b10010));
    for (first, body, versions) in [
        ("06", "0001 0008 00000012", versions),
        ("01", "0001 0008 00000012", versions),
        ("04", "0002 0005 00000000 0001 0008 00000012", versions),
        ("04", "0002 0004 00000000 0001 0008 00000012", versions),
        ("04", "0001 0004", None),
        ("04", "0001 0003 00000012", None),
        ("04", "ffffffffff", None),
        ("09", "", None),
    ] {
        let mut bytes = message(0, body);
        bytes[0] = hex(first)[0];
        let hello = Message::Hello(Hello { versions });
        assert_eq!(decode(Version::V13, &bytes), Ok((Xid(1), hello)), "{body}");
    }
    assert_eq!(code(Version::V13, &message(30, "")), ErrorCode::BrcBadType);
    assert_eq!(code(Version::V10, &message_of(Version::V10, 22, "")), ErrorCode::BrcBadType);
    assert_eq!(code(Version::V13, &message(20, "00")), ErrorCode::BrcBadLen);
}

/// A flow-mod's fixed part in 1.3 up to its match: cookie, mask, table, command, timeouts, priority,
/// no buffer, any port and group, no flags.
const FLOW_MOD: &str = "0000000000000000 0000000000000000 00 00 0000 0000 8000 ffffffff \
    ffffffff ffffffff 0000 0000";
const ANY: &str = "0001 0004 00000000";

fn refused_match(oxm: &str) -> ErrorCode {
    let length = 4 + hex(oxm).len();
    let pad = "00".repeat(length.next_multiple_of(8) - length);
    code(Version::V13, &message(14, &format!("{FLOW_MOD} 0001 {length:04x} {oxm} {pad}")))
}

fn refused_action(action: &str) -> ErrorCode {
    let length = 8 + hex(action).len();
    let body = format!("{FLOW_MOD} {ANY} 0004 {length:04x} 00000000 {action}");
    code(Version::V13, &message(14, &body))
}

fn refused_instruction(instruction: &str) -> ErrorCode {
    code(Version::V13, &message(14, &format!("{FLOW_MOD} {ANY} {instruction}")))
}

#[test]
fn matches_are_refused_with_their_codes() {
    let tail = |m: &str| code(Version::V13, &message(14, &format!("{FLOW_MOD} {m}")));
    assert_eq!(tail("0000 0004 00000000"), ErrorCode::BmcBadType);
    assert_eq!(tail("0001 0003 00000000"), ErrorCode::BmcBadLen);
    assert_eq!(tail("0001 0010 00000000"), ErrorCode::BmcBadLen);
    assert_eq!(tail("0001 0006 80000000"), ErrorCode::BmcBadLen);
    assert_eq!(refused_match("80000004 000000"), ErrorCode::BmcBadLen);
    assert_eq!(refused_match("80000005 0000000100"), ErrorCode::BmcBadLen);
    assert_eq!(refused_match("80000108 00000001ffffffff"), ErrorCode::BmcBadMask);
    assert_eq!(refused_match("80005002 0000"), ErrorCode::BmcBadField);
    assert_eq!(refused_match("00014604 00000000"), ErrorCode::BmcBadField);
    assert_eq!(refused_match("ffff0004 00000000"), ErrorCode::BmcBadField);
    assert_eq!(refused_match("80000004 00000001 80000004 00000001"), ErrorCode::BmcDupField);
    assert_eq!(
        refused_match("8000070c 000000000000 000000000000 8000070c 000000000000 ffffffffffff"),
        ErrorCode::BmcDupField
    );
    assert_eq!(refused_match("80001401 06"), ErrorCode::BmcBadPrereq);
    assert_eq!(refused_match("80001401 06 80000a02 0800"), ErrorCode::BmcBadPrereq);
    assert_eq!(refused_match("80000a02 0800 80001401 11 80001a02 0050"), ErrorCode::BmcBadPrereq);
    assert_eq!(refused_match("80000c02 0064"), ErrorCode::BmcBadValue);
    assert_eq!(refused_match("80000c02 2064"), ErrorCode::BmcBadValue);
    assert_eq!(refused_match("80000a02 0800 80001001 40"), ErrorCode::BmcBadValue);
    assert_eq!(
        refused_match("80000a02 0800 80001708 0a000001 ffffff00"),
        ErrorCode::BmcBadWildcards
    );
    let text = decode(
        Version::V13,
        &message(14, &format!("{FLOW_MOD} 0001 0009 80001401 06 00000000000000")),
    )
    .unwrap_err()
    .to_string();
    assert_eq!(
        text,
        "field ip_proto needs eth_type=0x0800 or eth_type=0x86dd before it, at byte 57 \
         (OFPBMC_BAD_PREREQ)"
    );
}

#[test]
fn actions_and_instructions_are_refused_with_their_codes() {
    use ErrorCode::*;
    assert_eq!(refused_action("0001 0008 00000000"), BacBadType);
    assert_eq!(refused_action("0000 0008 00000000"), BacBadLen);
    assert_eq!(refused_action("0012 0010 00000000 0000000000000000"), BacBadLen);
    assert_eq!(refused_action("0012 0004 00000000"), BacBadLen);
    assert_eq!(refused_action("0012 000c 00000000 00000000 00000000"), BacBadLen);
    assert_eq!(refused_action("0012 0018 00000000"), BacBadLen);
    assert_eq!(refused_action("0011 0008 0800 0000"), BacBadArgument);
    assert_eq!(refused_action("0013 0008 0800 0000"), BacBadArgument);
    assert_eq!(refused_action("001a 0008 0800 0000"), BacBadArgument);
    // set_field of in_phy_port, tcp_flags, an unknown field, with a mask
    assert_eq!(refused_action("0019 0010 80000204 00000001 00000000"), BacBadSetType);
    assert_eq!(refused_action("0019 0010 80005402 0001 0000 00000000"), BacBadSetType);
    assert_eq!(refused_action("0019 0010 80005004 00000001 00000000"), BacBadSetType);
    assert_eq!(
        refused_action("0019 0018 8000070c 000000000000 ffffffffffff 00000000"),
        BacBadSetType
    );
    assert_eq!(refused_action("0019 0010 80000a04 08000000 00000000"), BacBadSetLen);
    assert_eq!(
        refused_action("0019 0018 80000a02 0800 0000 00000000 00000000 00000000"),
        BacBadSetLen
    );
    assert_eq!(refused_action("0019 0010 80000e01 08 000000 00000000"), BacBadSetArgument);
    assert_eq!(refused_action("0019 0010 80000c02 0064 0000 00000000"), BacBadSetArgument);
    assert_eq!(refused_instruction("0007 0008 00000000"), BicUnknownInst);
    assert_eq!(refused_instruction("0001 0007 00000000"), BicBadLen);
    assert_eq!(refused_instruction("0001 0010 00000000 0000000000000000"), BicBadLen);
    assert_eq!(refused_instruction("0001 0010 00000000"), BicBadLen);
    assert_eq!(refused_instruction("0001 0008 01000000 0001 0008 02000000"), BicDupInst);
    assert_eq!(BicDupInst.wire(Version::V13), BicUnsupInst.wire(Version::V13));
    let v10 = |action: &str| {
        let body = format!("003820ff {} {action}", "00".repeat(36 + 24));
        code(Version::V10, &message_of(Version::V10, 14, &body))
    };
    assert_eq!(v10("000c 0008 00000000"), BacBadType);
    assert_eq!(v10("0001 0008 1000 0000"), BacBadArgument);
    assert_eq!(v10("0002 0008 08000000"), BacBadArgument);
    assert_eq!(v10("0008 0008 01000000"), BacBadArgument);
    assert_eq!(v10("000b 0010 fffd 000000000000 00000000"), BacBadOutPort);
    assert_eq!(v10("0004 0008 00000000"), BacBadLen);
}

#[test]
fn other_requests_are_refused_with_their_codes() {
    use ErrorCode::*;
    let v13 = |number, body: &str| code(Version::V13, &message(number, body));
    let flow_mod = |command: &str, flags: &str| {
        format!(
            "0000000000000000 0000000000000000 00 {command} 0000 0000 8000 ffffffff \
             ffffffff ffffffff {flags} 0000 {ANY}"
        )
    };
    assert_eq!(v13(14, &flow_mod("05", "0000")), FmfcBadCommand);
    assert_eq!(v13(14, &flow_mod("00", "0020")), FmfcBadFlags);
    assert_eq!(v13(9, "0004 0080"), ScfcBadFlags);
    assert_eq!(v13(9, "0000"), BrcBadLen);
    assert_eq!(v13(15, "0003 00 00 00000001"), GmfcBadCommand);
    assert_eq!(v13(15, "0000 04 00 00000001"), GmfcBadType);
    assert_eq!(v13(15, "0000 00 00 00000001 0008 0000 00000000"), GmfcBadBucket);
    assert_eq!(
        v13(16, "00000001 00000000 000000000001 0000 00000000 00000010 00000000 00000000"),
        PmfcBadConfig
    );
    assert_eq!(v13(24, "00000004 00000000 0000000000000000"), RrfcBadRole);
    assert_eq!(v13(29, "0003 0001 00000001"), MmfcBadCommand);
    assert_eq!(v13(29, "0000 0003 00000001"), MmfcBadFlags);
    assert_eq!(v13(29, "0000 0010 00000001"), MmfcBadFlags);
    assert_eq!(v13(29, "0000 0001 00000001 0003 0010 00000000 00000000 00000000"), MmfcBadBand);
    assert_eq!(v13(29, "0000 0001 00000001 0001 000c 00000000 00000000"), BrcBadLen);
    assert_eq!(v13(18, "000e 0000 00000000"), BrcBadMultipart);
    let features = format!(
        "0048 00 0000000000 {} {} {} {} {} {}",
        "00".repeat(32),
        "00".repeat(8),
        "00".repeat(8),
        "00000000",
        "00000000",
        "0009 0004 00000000"
    );
    assert_eq!(v13(18, &format!("000c 0000 00000000 {features}")), TffcBadType);
    let v10 = |number, body: &str| code(Version::V10, &message_of(Version::V10, number, body));
    assert_eq!(v10(16, "0006 0000"), BrcBadMultipart);
    assert_eq!(v10(16, "0001 0000 00000000"), BrcBadLen);
}

#[test]
fn answers_carry_the_request() {
    let bytes = message(15, &format!("0003 00 00 00000001 {}", "00".repeat(200)));
    let error = decode(Version::V13, &bytes).unwrap_err();
    let answer = error.answer(&bytes);
    assert!(answer.data.len() >= 64 && bytes.starts_with(&answer.data));
    let wire = encode(Version::V13, Xid(1), &Message::Error(answer)).unwrap();
    assert_eq!(wire[8..12], [0, 6, 0, 11]);
}

#[test]
fn long_replies_are_cut() {
    for version in Version::ALL {
        let mut rng = Rng::new(3);
        let entries: Vec<FlowStats> =
            (0..3000).map(|_| arbitrary::flow_stats(&mut rng, version)).collect();
        for more in [false, true] {
            let reply = MultipartReply { more, body: MultipartReplyBody::Flow(entries.clone()) };
            let mut bytes = vec![0xee; 3];
            encode_into(&mut bytes, version, Xid(9), &Message::MultipartReply(reply)).unwrap();
            let mut rest = &bytes[3..];
            let (mut found, mut flags) = (Vec::new(), Vec::new());
            while let Frame::Message { length } = frame(rest) {
                let (xid, message) = decode(version, &rest[..length]).unwrap();
                let Message::MultipartReply(MultipartReply {
                    more,
                    body: MultipartReplyBody::Flow(list),
                }) = message
                else {
                    panic!("a flow reply")
                };
                assert_eq!(xid, Xid(9));
                found.extend(list);
                flags.push(more);
                rest = &rest[length..];
            }
            assert!(rest.is_empty());
            assert!(flags.len() > 2);
            assert_eq!(flags.pop(), Some(more));
            assert!(flags.iter().all(|f| *f));
            assert_eq!(found, entries);
        }
    }
}

#[test]
fn too_long_is_an_error_that_leaves_the_buffer_alone() {
    let mut buf = vec![1, 2, 3];
    let echo = Message::EchoRequest(vec![0; 65528]);
    assert_eq!(
        encode_into(&mut buf, Version::V13, Xid(1), &echo),
        Err(EncodeError::TooLong { length: 65536 })
    );
    assert_eq!(buf, [1, 2, 3]);
    assert!(encode(Version::V13, Xid(1), &Message::EchoRequest(vec![0; 65527])).is_ok());
}

#[test]
fn what_1_0_cannot_say() {
    let flow_mod = |m: Match, actions: Vec<Action>| {
        let m = FlowMod::add(m, smallvec![Instruction::ApplyActions(actions)]);
        encode(Version::V10, Xid(1), &Message::FlowMod(m))
    };
    let ip = || Match::new().with(FieldId::EthType, 0x0800);
    assert!(flow_mod(ip(), vec![Action::output(PortNo(1))]).is_ok());
    assert!(flow_mod(ip().with_masked(FieldId::Ipv4Src, 0x0a000000, 0xff000000), vec![]).is_ok());
    for m in [
        ip().with_masked(FieldId::Ipv4Src, 0x0a000001, 0xff0000ff),
        ip().with(FieldId::IpEcn, 1),
        Match::new().with(FieldId::Metadata, 1),
        Match::new().with_masked(FieldId::EthDst, 1, 3),
        Match::new().with_masked(FieldId::VlanVid, 96, 240),
        Match::new().with_masked(FieldId::VlanVid, 0x1000, 0x1000),
        Match::new().with(FieldId::InPort, 0x10000),
        Match::new().with(FieldId::EthType, 0x86dd).with(FieldId::Ipv6Src, 1),
        Match::new().with(FieldId::EthType, 0x0806).with(FieldId::ArpOp, 256),
    ] {
        assert_eq!(flow_mod(m.clone(), vec![]), Err(EncodeError::MatchBeyondV10), "{m:?}");
    }
    assert!(flow_mod(ip(), vec![Action::Meter(MeterId(1))]).is_err());
    assert!(flow_mod(ip(), vec![Action::Group(GroupId(1))]).is_ok(), "Nicira's");
    assert_eq!(
        flow_mod(ip(), vec![Action::output(PortNo(0x10000))]).unwrap_err().to_string(),
        "port 65536 has no number in OpenFlow10, which ends at 65279; use a later version"
    );
    assert_eq!(
        encode(Version::V10, Xid(1), &Message::GetAsyncRequest).unwrap_err().to_string(),
        "OpenFlow10 has no OFPT_GET_ASYNC_REQUEST; leave it out, or use a later version"
    );
    let masked = |version, report: bool| {
        let set = SetField { field: FieldId::EthDst, value: 1, mask: Some(1) };
        let mut m = FlowMod::add(
            ip(),
            smallvec![Instruction::ApplyActions(vec![
                Action::SetField(set),
                Action::output(PortNo(1)),
            ])],
        );
        m.table_id = TableId::ALL;
        if !report {
            return encode(version, Xid(1), &Message::FlowMod(m)).is_ok();
        }
        let mut entry = arbitrary::flow_stats(&mut Rng::new(1), version);
        entry.instructions = m.instructions;
        let body = MultipartReplyBody::Flow(vec![entry]);
        let reply = Message::MultipartReply(MultipartReply { more: false, body });
        encode(version, Xid(1), &reply).is_ok_and(|bytes| decode(version, &bytes).is_ok())
    };
    for version in Version::ALL {
        // Before 1.5 by Nicira's load.
        assert!(masked(version, false), "a request must not lose a mask");
        assert!(masked(version, true), "a report may");
    }
    // 1.3's way to write an address, and its push, are one action of 1.0.
    let actions = vec![
        Action::PushVlan(0x8100),
        Action::set_field(FieldId::VlanVid, 0x1064),
        Action::set_field(FieldId::IpDscp, 8),
        Action::set_field(FieldId::UdpDst, 53),
    ];
    let bytes = flow_mod(ip(), actions).unwrap();
    let Ok((_, Message::FlowMod(m))) = decode(Version::V10, &bytes) else { panic!("a flow-mod") };
    let Instruction::ApplyActions(actions) = &m.instructions[0] else { panic!("actions") };
    assert_eq!(actions[..], [Action::SetVlanVid(100), Action::SetNwTos(32), Action::SetTpDst(53)]);
}

#[test]
fn actions_of_1_0_in_1_3() {
    let m = Match::new().with(FieldId::EthType, 0x0800).with(FieldId::IpProto, 17);
    let actions = vec![
        Action::SetVlanVid(100),
        Action::SetNwTos(32),
        Action::SetTpSrc(53),
        Action::SetNwDst(1),
        Action::Enqueue { port: PortNo(2), queue: QueueId(7) },
    ];
    let m = FlowMod::add(m, smallvec![Instruction::ApplyActions(actions)]);
    let bytes = encode(Version::V13, Xid(1), &Message::FlowMod(m)).unwrap();
    let Ok((_, Message::FlowMod(m))) = decode(Version::V13, &bytes) else { panic!("a flow-mod") };
    let Instruction::ApplyActions(actions) = &m.instructions[0] else { panic!("actions") };
    assert_eq!(
        actions[..],
        [
            Action::PushVlan(0x8100),
            Action::set_field(FieldId::VlanVid, 0x1064),
            Action::set_field(FieldId::IpDscp, 8),
            Action::set_field(FieldId::UdpSrc, 53),
            Action::set_field(FieldId::Ipv4Dst, 1),
            Action::SetQueue(QueueId(7)),
            Action::Output { port: PortNo(2), max_len: 0 },
            Action::PopQueue,
        ]
    );
}

#[test]
fn matches_of_1_0_mean_what_open_vswitch_reads() {
    // wildcards, in_port, dl_src, dl_dst, dl_vlan, pcp, pad, dl_type, tos, proto, pad, nw, nw, tp, tp
    let decode10 = |text: &str| {
        let bytes = hex(text);
        let mut r = Reader::new(&bytes, 0, "match", ErrorCode::BrcBadLen);
        let m = match10::decode(&mut r).unwrap();
        let mut back = Vec::new();
        assert!(match10::encode(&mut back, &m));
        (m, back == bytes)
    };
    let zeros = "0000 000000000000 000000000000";
    let (m, same) = decode10(&format!(
        "003820ff {zeros} 0000 00 00 0000 00 00 0000 00000000 00000000 0000 0000"
    ));
    assert!(m.is_empty() && same);
    // No tag; a priority with it contradicts, and is dropped.
    let (m, _) = decode10(&format!(
        "003820fd {zeros} ffff 05 00 0000 00 00 0000 00000000 00000000 0000 0000"
    ));
    assert_eq!(m, Match::new().with(FieldId::VlanVid, 0));
    // A priority alone needs a tag.
    let (m, same) = decode10(&format!(
        "002820ff {zeros} 0000 05 00 0000 00 00 0000 00000000 00000000 0000 0000"
    ));
    assert_eq!(
        m,
        Match::new().with_masked(FieldId::VlanVid, 0x1000, 0x1000).with(FieldId::VlanPcp, 5)
    );
    assert!(same);
    // ARP: operation and addresses; type of service and ports mean nothing.
    let (m, _) = decode10(&format!(
        "00080800 {zeros} ffff 00 00 0806 20 02 0000 0a0b0c0d 0a000000 0001 0002"
    ));
    assert_eq!(m.exact(FieldId::ArpOp), Some(2));
    assert_eq!(m.get(FieldId::ArpSpa).map(|f| f.value), Some(0x0a0b0c00));
    assert_eq!(m.get(FieldId::ArpSpa).map(|f| f.mask), Some(0xffffff00));
    assert!(!m.has(FieldId::IpDscp) && !m.has(FieldId::TcpSrc));
    // IPv6 keeps type of service, protocol and ports, not the IPv4 addresses.
    let (m, _) = decode10(&format!(
        "00000000 {zeros} ffff 00 00 86dd 23 3a 0000 0a0b0c0d 0a000000 0087 0000"
    ));
    assert_eq!(m.exact(FieldId::IpDscp), Some(8));
    assert_eq!(m.exact(FieldId::Icmpv6Type), Some(135));
    assert!(!m.has(FieldId::Ipv4Src));
    // Without a type, the upper layers say nothing.
    let (m, _) = decode10(&format!(
        "00000010 {zeros} 0001 00 00 0800 00 06 0000 0a0b0c0d 0a000000 0087 0000"
    ));
    assert!(!m.has(FieldId::IpProto) && m.exact(FieldId::VlanVid) == Some(0x1001));
}

#[test]
fn an_entry_of_1_0_without_wildcards_has_the_highest_priority() {
    //= openflow-1.0.2 §3.4: an entry without wildcards comes before all others.
    let mut request = FlowMod::add(Match::new(), smallvec![]);
    request.dialect = Version::V10;
    request.table_id = TableId::ALL;
    request.priority = 7;
    let mut bytes = encode(Version::V10, Xid(1), &Message::FlowMod(request)).unwrap();
    let priority = |bytes: &[u8]| match decode(Version::V10, bytes) {
        Ok((_, Message::FlowMod(m))) => m.priority,
        other => panic!("{other:?}"),
    };
    assert_eq!(priority(&bytes), 7);
    // The bits of the addresses' wildcards count from 32 on.
    bytes[8..12].copy_from_slice(&0u32.to_be_bytes());
    assert_eq!(priority(&bytes), u16::MAX);
    // What it said is kept, to be told back.
    let (xid, exact) = decode(Version::V10, &bytes).unwrap();
    assert!(matches!(&exact, Message::FlowMod(m) if m.uncounted.priority == Some(7)));
    let told = encode(Version::V10, xid, &exact).unwrap();
    assert_eq!(told[62..64], [0, 7]);
    // It has no address or port, which are not wild all the same.
    assert_eq!(decode(Version::V10, &told), Ok((xid, exact)));
    bytes[8..12].copy_from_slice(&0x100u32.to_be_bytes());
    assert_eq!(priority(&bytes), 7, "one bit of an address is wild");
}

#[test]
fn icmp_types_of_1_0_have_8_bits() {
    let icmp = Match::new()
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::IpProto, 1)
        .with(FieldId::Icmpv4Type, 8);
    let mut request = FlowMod::add(icmp.clone(), smallvec![]);
    request.dialect = Version::V10;
    request.table_id = TableId::ALL;
    let mut bytes = encode(Version::V10, Xid(1), &Message::FlowMod(request)).unwrap();
    // tp_src, behind the wildcards and 32 bytes of others.
    assert_eq!(bytes[44..46], [0, 8]);
    bytes[44] = 0xda;
    match decode(Version::V10, &bytes) {
        Ok((xid, Message::FlowMod(m))) => {
            assert_eq!((&m.matching, m.uncounted.icmp), (&icmp, [0xda, 0]));
            // The high byte is told back, in 1.0 alone; of a code that is wild there is none.
            assert_eq!(encode(Version::V10, xid, &Message::FlowMod(m.clone())).unwrap(), bytes);
            let removed = FlowRemoved {
                cookie: 0,
                priority: u16::MAX,
                reason: FlowRemovedReason::Delete,
                table_id: TableId(0),
                age: Default::default(),
                idle_timeout: 0,
                hard_timeout: 0,
                packet_count: 0,
                byte_count: 0,
                uncounted: crate::flow::Uncounted { priority: Some(7), icmp: [0xda, 0xdb] },
                matching: icmp,
            };
            let told = encode(Version::V10, xid, &Message::FlowRemoved(removed.clone())).unwrap();
            assert_eq!((&told[44..48], &told[56..58]), (&[0xda, 8, 0, 0][..], &[0, 7][..]));
            let told = encode(Version::V13, xid, &Message::FlowRemoved(removed)).unwrap();
            assert_eq!(told[16..18], [0xff, 0xff]);
            assert!(!told.contains(&0xda));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn roles_of_1_0_are_niciras() {
    use crate::switch::{Role, RoleMessage};
    let request = message_of(Version::V10, 4, "00002320 0000000a 00000001");
    let role = |role| RoleMessage { role, short_id: RoleMessage::NO_ID, generation_id: 0 };
    let master = Message::RoleRequest(role(Role::Master));
    assert_eq!(decode(Version::V10, &request).unwrap().1, master);
    assert_eq!(encode(Version::V10, Xid(1), &master).unwrap(), request);
    let reply = message_of(Version::V10, 4, "00002320 0000000b 00000002");
    let slave = Message::RoleReply(role(Role::Slave));
    assert_eq!(encode(Version::V10, Xid(1), &slave).unwrap(), reply);
    assert_eq!(
        code(Version::V10, &message_of(Version::V10, 4, "00002320 0000000a 00000003")),
        ErrorCode::RrfcBadRole
    );
}

#[test]
fn connections_to_be_forgotten() {
    // Zone 5, mark 1/0xf, TCP from 10.0.0.1 to port 80, answered by fd00::2 in a second message.
    let head = "00002320 00000020 06 00000000000000";
    let original = "0000 0028 00000000 \
        0000 0014 00000000000000000000ffff0a000001 00000000 0003 0008 0050 0000";
    let rest = "0002 0008 0005 0000 0003 0008 00000001 0004 0008 0000000f";
    let bytes = message(4, &format!("{head} {original} {rest}"));
    let Ok((_, Message::Nicira(Nicira::CtFlush(flush)))) = decode(Version::V13, &bytes) else {
        panic!("{:?}", decode(Version::V13, &bytes));
    };
    let original_tuple =
        CtTuple { src: Some([10, 0, 0, 1].into()), dst_port: 80, ..CtTuple::default() };
    let expected = CtFlush {
        zone: Some(5),
        protocol: 6,
        original: original_tuple,
        mark: (1, 0xf),
        ..CtFlush::default()
    };
    assert_eq!(*flush, expected);
    assert_eq!(encode(Version::V13, Xid(1), &Message::Nicira(Nicira::CtFlush(flush))), Ok(bytes));

    // A mark without a mask counts whole.
    let bytes = message(4, "00002320 00000020 00 00000000000000 0003 0008 00000007");
    let Ok((_, Message::Nicira(Nicira::CtFlush(flush)))) = decode(Version::V13, &bytes) else {
        panic!("{:?}", decode(Version::V13, &bytes));
    };
    assert_eq!(flush.mark, (7, u32::MAX));

    let refused = |text: &str| code(Version::V13, &message(4, text));
    assert_eq!(refused("00002320 00000020 00 01000000000000"), ErrorCode::NxbrcMustBeZero);
    let head = "00002320 00000020 00 00000000000000";
    assert_eq!(refused(&format!("{head} 0009 0008 00000000")), ErrorCode::BpcBadType);
    assert_eq!(refused(&format!("{head} 0003 0006 0000 0000")), ErrorCode::BpcBadLen);
    assert_eq!(refused(&format!("{head} 0000 0004 00000000")), ErrorCode::BpcBadLen);
    let both = "0000 0038 00000000 0000 0014 00000000000000000000ffff0a000001 00000000 \
        0001 0014 fd000000000000000000000000000002 00000000";
    assert_eq!(refused(&format!("{head} {both}")), ErrorCode::BpcBadValue);
}

#[test]
fn a_tag_is_named_once_in_nxm() {
    let add = |tlvs: &str, length: u16| {
        let flow_mod = format!(
            "00002320 0000000d 0000000000000000 0000 0000 0000 8000 ffffffff ffff 0000 {length:04x} 000000000000 {tlvs}"
        );
        decode(Version::V10, &message_of(Version::V10, 4, &flow_mod)).map_err(|e| e.code)
    };
    assert!(add("00000802 9005 0000", 6).is_ok());
    // The second one says that there is no tag, and left the priority of the first one.
    let twice = add("00000802 9005 00000802 0000 00000000", 12);
    assert_eq!(twice.err(), Some(ErrorCode::BmcDupField));
}

#[test]
fn fields_of_erspan_have_nicira_s_long_headers() {
    let matching = Match::new()
        .with(FieldId::TunErspanVer, 2)
        .with_masked(FieldId::TunErspanIdx, 0x7, 0xf)
        .with(FieldId::TunErspanDir, 1)
        .with(FieldId::TunErspanHwid, 0x2a);
    let sets = [FieldId::TunErspanHwid, FieldId::TunErspanIdx].map(|id| Action::set_field(id, 3));
    let long = hex("ffff 180500002320 02");
    for version in Version::ALL {
        let instructions = smallvec![Instruction::ApplyActions(sets.to_vec())];
        let flow = FlowMod {
            dialect: version,
            extended: true,
            ..FlowMod::add(matching.clone(), instructions)
        };
        let bytes = encode(version, Xid(1), &Message::FlowMod(flow)).expect("it is written");
        assert!(bytes.windows(long.len()).any(|part| part == long), "{version}");
        let Ok((_, Message::FlowMod(read))) = decode(version, &bytes) else { panic!("{version}") };
        assert_eq!(read.matching, matching, "{version}");
        assert_eq!(read.instructions[..], [Instruction::ApplyActions(sets.to_vec())], "{version}");
    }
    // What stands for such a header in here is no field's on the wire, nor is another's number.
    for header in ["fffe 1801 02", "ffff 1805 00002321 02"] {
        let length = header.chars().filter(char::is_ascii_hexdigit).count() / 2;
        let tlvs = format!("0001 {:04x} {header} {}", 4 + length, "00".repeat(16 - 4 - length));
        let flow_mod = format!(
            "0000000000000000 0000000000000000 00 00 0000 0000 8000 ffffffff ffffffff ffffffff 0000 0000 {tlvs}"
        );
        assert_eq!(code(Version::V13, &message(14, &flow_mod)), ErrorCode::BmcBadField, "{header}");
    }
}
