//! Checksum modes against a computation from the emitted bytes.

mod common;

use common::*;
use ir::builder::Builder;
use ir::{BinaryOp, Checksum, ChecksumAlgorithm, ChecksumMode, Expr, Op, Transition};
use proptest::prelude::*;

fn ip_checksum(net: &Net, mode: ChecksumMode) -> Checksum {
    Checksum {
        field: net.field(net.ipv4, "csum"),
        algorithm: ChecksumAlgorithm::Csum16,
        mode,
        inputs: net.ipv4_inputs(),
        payload: false,
        condition: None,
        zero_is_none: false,
    }
}

fn udp_checksum(net: &Net, mode: ChecksumMode) -> Checksum {
    Checksum {
        field: net.field(net.udp, "csum"),
        algorithm: ChecksumAlgorithm::Csum16,
        mode,
        inputs: net.udp_inputs(),
        payload: mode != ChecksumMode::Incremental,
        condition: Some(Expr::Valid(net.ipv4)),
        zero_is_none: true,
    }
}

/// Rewrites addresses, ports and TTL, and sends it; then rewrites once more and sends it again.
fn nat(mode: ChecksumMode, src: u32, port: u16) -> ir::Pipeline {
    let mut net = Net::new();
    let (ip, udp) = (ip_checksum(&net, mode), udp_checksum(&net, mode));
    net.b.checksum(ip);
    net.b.checksum(udp);
    let set = |name, value: u32, h| Op::Assign(net.field(h, name), num(value, 32));
    let port = |name| Op::Assign(net.field(net.udp, name), num(port, 16));
    let ttl = net.field(net.ipv4, "ttl");
    let less = Op::Assign(ttl, bin(BinaryOp::SubSat, Expr::Field(ttl), num(1u8, 8)));
    let ops = vec![
        set("src", src, net.ipv4),
        port("src"),
        less.clone(),
        out(1),
        set("dst", !src, net.ipv4),
        port("dst"),
        less,
        out(2),
    ];
    one_block(net.b, ops)
}

/// Writes correct checksums into an Ethernet/IPv4/UDP frame.
fn correct(frame: &mut [u8]) {
    let udp_at = 14 + 4 * usize::from(frame[14] & 15);
    frame[24..26].fill(0);
    let sum = csum(&[&frame[14..udp_at]]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let length = frame.len() - udp_at;
    frame[udp_at + 6..udp_at + 8].fill(0);
    let pseudo = [&frame[26..34], &[0, 17], &(length as u16).to_be_bytes()].concat();
    let sum = csum(&[&pseudo, &frame[udp_at..]]);
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[udp_at + 6..udp_at + 8].copy_from_slice(&sum.to_be_bytes());
}

proptest! {
    #[test]
    fn every_mode_gives_what_computing_anew_gives(
        payload in proptest::collection::vec(any::<u8>(), 0..70),
        options in 0..4usize, src: u32, port: u16,
    ) {
        let frame = udp_frame(&[], &vec![1; 4 * options], &payload);
        for mode in [ChecksumMode::Incremental, ChecksumMode::IfChanged, ChecksumMode::Always] {
            let ran = run(&nat(mode, src, port), &frame);
            for output in &ran.sink.outputs {
                let mut expected = output.bytes.clone();
                correct(&mut expected);
                prop_assert_eq!(&output.bytes, &expected, "{:?} {}", mode, ran.trace);
            }
            prop_assert_eq!(ran.ports(), [1, 2]);
        }
    }

    #[test]
    fn what_is_not_changed_is_not_corrected(wrong: u16) {
        let mut frame = udp_frame(&[], &[], b"abc");
        let right = u16::from_be_bytes([frame[24], frame[25]]);
        frame[24..26].copy_from_slice(&wrong.to_be_bytes());
        for mode in [ChecksumMode::Incremental, ChecksumMode::IfChanged, ChecksumMode::Always] {
            let mut net = Net::new();
            let ip = ip_checksum(&net, mode);
            net.b.checksum(ip);
            let dst = net.field(net.eth, "dst");
            let tos = net.field(net.ipv4, "tos");
            let same = Expr::Field(tos);
            let ops = vec![
                out(1),
                Op::Assign(tos, num(9u8, 8)),
                Op::Assign(tos, num(0u8, 8)),
                Op::Assign(dst, num(1u8, 48)),
                out(2),
                Op::Assign(tos, bin(BinaryOp::Add, same, num(4u8, 8))),
                out(3),
            ];
            let ran = run(&one_block(net.b, ops), &frame);
            let sums: Vec<u16> = ran.sink.outputs.iter()
                .map(|o| u16::from_be_bytes([o.bytes[24], o.bytes[25]])).collect();
            let changed = right.checked_sub(4).unwrap();
            match mode {
                ChecksumMode::Always => prop_assert_eq!(sums, [right, right, changed]),
                ChecksumMode::IfChanged => prop_assert_eq!(sums, [wrong, wrong, changed]),
                ChecksumMode::Incremental => {
                    prop_assert_eq!(&sums[..2], [wrong, wrong]);
                    // As wrong as it was: the difference is that of the change.
                    let off = |a: u16, b: u16| (u32::from(a) + u32::from(!b)) % 0xffff;
                    prop_assert_eq!(off(sums[2], changed), off(wrong, right));
                }
            }
        }
    }
}

#[test]
fn zero_is_no_checksum_and_stays() {
    let mut frame = udp_frame(&[], &[], b"abc");
    frame[40..42].fill(0);
    for mode in [ChecksumMode::Incremental, ChecksumMode::IfChanged, ChecksumMode::Always] {
        let ran = run(&nat(mode, 0x0102_0304, 99), &frame);
        for output in &ran.sink.outputs {
            assert_eq!(output.bytes[40..42], [0, 0], "{mode:?}");
        }
    }
}

#[test]
fn a_header_made_since_parsing_is_computed_or_left_as_written() {
    let mut frame = udp_frame(&[], &[], &[]);
    frame.truncate(14);
    frame[12..14].copy_from_slice(&[0x12, 0x34]);
    for (mode, expected) in [
        (ChecksumMode::Incremental, 0xabcd),
        (ChecksumMode::IfChanged, !(0x4500u16 + 0x0a00)),
        (ChecksumMode::Always, !(0x4500u16 + 0x0a00)),
    ] {
        let mut net = Net::new();
        let ip = ip_checksum(&net, mode);
        net.b.checksum(ip);
        let f = |name| net.field(net.ipv4, name);
        let ops = vec![
            Op::SetValid(net.ipv4),
            Op::Assign(f("version"), num(4u8, 4)),
            Op::Assign(f("ihl"), num(5u8, 4)),
            Op::Assign(f("src"), num(0x0a00_0000u32, 32)),
            Op::Assign(f("csum"), num(0xabcdu16, 16)),
            out(1),
        ];
        let ran = run(&one_block(net.b, ops), &frame);
        assert_eq!(ran.only().len(), 34);
        assert_eq!(ran.only()[24..26], expected.to_be_bytes(), "{mode:?}");
    }
}

#[test]
fn crc32c_covers_the_payload_and_lies_as_sctp_carries_it() {
    let mut b = Builder::new();
    let ty = b.header_type("tag", &[("tag", 32), ("crc", 32)]);
    let h = b.header("h", ty);
    let start = b.state("start");
    b.set_state(start, vec![extract(h)], Transition::Accept);
    b.emit(h);
    let tag = field(&b, h, "tag");
    b.checksum(Checksum {
        field: field(&b, h, "crc"),
        algorithm: ChecksumAlgorithm::Crc32c,
        mode: ChecksumMode::IfChanged,
        inputs: vec![Expr::Field(tag), num(0u8, 32)],
        payload: true,
        condition: None,
        zero_is_none: false,
    });
    // RFC 3720 §B.4: 32 bytes of zeros have the CRC aa 36 91 8a on the wire.
    let mut bytes = [0; 32];
    bytes[3] = 7;
    let ran = run(&one_block(b, vec![out(1), Op::Assign(tag, num(0u8, 32)), out(2)]), &bytes);
    assert_eq!(ran.sink.outputs[0].bytes, bytes);
    let mut expected = [0; 32];
    expected[4..8].copy_from_slice(&[0xaa, 0x36, 0x91, 0x8a]);
    assert_eq!(ran.sink.outputs[1].bytes, expected);
}
