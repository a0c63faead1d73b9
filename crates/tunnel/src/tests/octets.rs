//! Octet for octet against the answers of Open vSwitch and of Linux's VXLAN device, which `conformance/tunnels` has recorded.
//!
//! What differs from Open vSwitch, and why:
//! - The UDP source port is a hash of our own, so that the checksum differs with it.
//! - ERSPAN III bears the time. Packets that may be fragmented have identifications, in place of 0.
//! - ECT(1) outside makes ECT(1) of ECT(0) inside, as RFC 6040 §4.2 and Linux have it. Open vSwitch leaves ECT(0).
//! - A GRE packet that ends within its key is refused. Open vSwitch reads the key from the padding.
//! - An option that is not there is 0. Open vSwitch's `move` of it copies what lies there.
//! - VXLAN's group policy is taken by ports that have it. Open vSwitch's userspace knows none.

use std::net::IpAddr;

use contract::tunnel::{LEN, OptionMap, flags};
use wire::IpProtocol;
use wire::checksum::Pseudo;

use crate::config::{Config, Kind};
use crate::descriptor::Fields;
use crate::headers::{HEADERS_MAX, Outgoing, Packet, Path};
use crate::inner::decapsulate;
use crate::parse::Received;
use crate::refused::Refused;
use crate::table::Table;

const ANSWERS: &str = include_str!("answers.txt");
const LOCAL_MAC: [u8; 6] = [0xaa, 0x55, 0xaa, 0x55, 0, 0];
const REMOTE_MAC: [u8; 6] = [0xf8, 0xbc, 0x12, 0x44, 0x34, 0xb6];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().map(|c| (c as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn lines(kind: &str) -> impl Iterator<Item = (usize, Vec<&'static str>)> {
    let line = move |(n, line): (usize, &'static str)| {
        let mut words = line.split(" | ").map(str::trim);
        (words.next() == Some(kind)).then(|| (n + 1, words.collect()))
    };
    ANSWERS.lines().enumerate().filter_map(line)
}

/// Packets from the underlay, from their IP header on.
pub(super) fn incoming() -> Vec<Vec<u8>> {
    lines("in")
        .filter(|(_, words)| !words.is_empty())
        .map(|(_, words)| bytes(words[0])[14..].to_vec())
        .collect()
}

fn map() -> OptionMap {
    OptionMap::new(3, &[(0, 0xffff, 0x80, 4), (1, 0x102, 1, 16), (2, 0x103, 2, 8)]).unwrap()
}

fn config(spec: &str) -> Config {
    let (word, options) = spec.split_once(':').unwrap();
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word).unwrap();
    Config::parse(kind, options).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// A descriptor with what a flow entry sets.
fn descriptor(sets: &str) -> Vec<u8> {
    let map = map();
    let mut fields = Fields { map: map.number, ..Fields::default() };
    let mut data = vec![0; map.len()];
    for (name, value) in sets.split(',').filter_map(|word| word.split_once('=')) {
        match name {
            "tun_id" => fields.id = number(value),
            "tun_dst" => fields.dst = Some(value.parse().unwrap()),
            "tun_flags" => fields.flags = flags::OAM,
            "tun_erspan_ver" => fields.erspan_ver = number(value) as u8,
            "tun_erspan_idx" => fields.erspan_idx = number(value) as u32,
            _ => {
                let index: u8 = name.strip_prefix("tun_metadata").unwrap().parse().unwrap();
                let option = map.by_index(index).unwrap();
                let (at, len) = (usize::from(option.at), usize::from(option.len));
                data[at..at + len].copy_from_slice(&number(value).to_be_bytes()[8 - len..]);
                fields.present |= 1 << index;
            }
        }
    }
    let mut out = vec![0; LEN];
    fields.write(out.first_chunk_mut().unwrap());
    out.extend(data);
    out
}

/// Makes equal what is free, after a look whether it is right.
fn mask(frame: &mut [u8], config: &Config) {
    let (l4, pseudo) = match frame[12] {
        8 => {
            assert_eq!(wire::checksum::sum(&frame[14..34]), 0xffff, "IPv4 checksum");
            if !config.df_default {
                frame[18..20].fill(0);
                frame[24..26].fill(0);
            }
            let address = |at: usize| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap();
            (34, Pseudo::V4 { src: address(26).into(), dst: address(30).into() })
        }
        _ => {
            let address = |at: usize| <[u8; 16]>::try_from(&frame[at..at + 16]).unwrap();
            (54, Pseudo::V6 { src: address(22).into(), dst: address(38).into() })
        }
    };
    if config.kind.udp_port().is_some() {
        let port = u16::from_be_bytes([frame[l4], frame[l4 + 1]]);
        assert!((32768..=61000).contains(&port), "{port}");
        if frame[l4 + 6..l4 + 8] != [0, 0] {
            assert_eq!(pseudo.sum_over(IpProtocol::UDP, &frame[l4..]), 0xffff, "UDP checksum");
            frame[l4 + 6..l4 + 8].fill(1);
        }
        frame[l4..l4 + 2].fill(0);
    } else if frame[l4 + 2..l4 + 4] == [0x22, 0xeb] {
        frame[l4 + 12..l4 + 16].fill(0);
    }
}

#[test]
fn sends_what_open_vswitch_sends() {
    let compared = sends(lines("out").map(|(line, words)| {
        let [spec, sets, inner, expected] = words[..] else { panic!("line {line}") };
        (line, spec, sets, inner, expected)
    }));
    assert!(compared > 200, "{compared}");
}

#[test]
fn sends_what_linux_sends() {
    let compared = sends(lines("kernel-out").map(|(line, words)| {
        let [spec, inner, expected] = words[..] else { panic!("line {line}") };
        (line, spec, "", inner, expected)
    }));
    assert!(compared > 30, "{compared}");
}

/// Compares lines: port, fields that are set, inner frame, outer frame.
fn sends<'a>(lines: impl Iterator<Item = (usize, &'a str, &'a str, &'a str, &'a str)>) -> usize {
    let map = map();
    let mut ports: Vec<(&str, Outgoing)> = Vec::new();
    let mut compared = 0;
    for (line, spec, sets, inner, expected) in lines {
        if ports.last().is_none_or(|(last, _)| *last != spec) {
            ports.push((spec, Outgoing::new(config(spec))));
        }
        let (_, port) = ports.last().unwrap();
        let inner = bytes(inner);
        let mut frame = descriptor(sets);
        frame.extend(&inner);
        let packet = Packet::read(&frame, &map).unwrap();
        let (remote, local) = port.ends(&packet.fields).unwrap();
        assert_eq!(local, None);
        let source = if remote.is_ipv4() { "10.1.1.1" } else { "2001:db8::1" };
        let path = Path {
            remote,
            source: source.parse().unwrap(),
            local_mac: LOCAL_MAC,
            next_mac: REMOTE_MAC,
            stamp: 5,
        };
        let mut room = [0xee; HEADERS_MAX];
        let len =
            port.write(&packet, &path, &mut room).unwrap_or_else(|e| panic!("line {line}: {e}"));
        let mut sent = room[..len].to_vec();
        sent.extend(&inner);
        let mut expected = bytes(expected);
        mask(&mut sent, port.config());
        mask(&mut expected, port.config());
        assert_eq!(sent, expected, "line {line}");
        compared += 1;
        for short in 0..len {
            assert_eq!(port.write(&packet, &path, &mut room[..short]), Err(Refused::NoRoom));
        }
    }
    compared
}

/// A VXLAN device of Linux takes what a port with the same options takes.
#[test]
fn takes_what_linux_takes() {
    let mut taken = 0;
    for (line, words) in lines("kernel-in") {
        let [spec, outer, expected] = words[..] else { panic!("line {line}") };
        let config = config(spec);
        let mut table = Table::default();
        table.add(&config, config.clone()).unwrap();
        let outer = bytes(outer);
        let packet = &outer[14..];
        let ours = match Received::read(packet, &table, false) {
            Ok(Some(received)) if received.local.to_string() != "10.1.1.77" => {
                let mut inner = packet[received.inner.clone()].to_vec();
                let tos = match outer[12] {
                    8 => packet[1],
                    _ => packet[0] << 4 | packet[1] >> 4,
                };
                let port = table.find(&received).ok_or(Refused::NoPort);
                let suits = port.and_then(|config| received.suits(config));
                suits.and_then(|()| decapsulate(tos, &mut inner)).map(|()| inner)
            }
            Ok(_) => Err(Refused::NoPort),
            Err(reason) => Err(reason),
        };
        let expected = (expected != "-").then(|| bytes(expected));
        assert_eq!(ours.as_ref().ok(), expected.as_ref(), "line {line} {spec}: {ours:?}");
        taken += u32::from(expected.is_some());
    }
    assert!(taken > 20, "{taken}");
}

/// The frame with its tunnel port's number, key and option in its addresses, as the flow entries of the answers do.
fn receive(table: &Table<(u16, Config)>, outer: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
    let packet = &outer[14..];
    let Some(received) = Received::read(packet, table, false)? else { return Ok(None) };
    let local: [IpAddr; 2] = ["10.1.1.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    if !local.contains(&received.local) {
        return Ok(None);
    }
    let (number, config) = table.find(&received).ok_or(Refused::NoPort)?;
    received.suits(config)?;
    let map = map();
    let mut descriptor = vec![0xee; map.descriptor_len()];
    assert_eq!(received.describe(packet, &map, &mut descriptor)?, descriptor.len());
    let fields = Fields::read(&descriptor).unwrap();
    assert_eq!((fields.src, fields.dst), (Some(received.remote), Some(received.local)));
    let (tos, ttl) = match outer[12] {
        8 => (packet[1], packet[8]),
        _ => (packet[0] << 4 | packet[1] >> 4, packet[7]),
    };
    assert_eq!((fields.tos, fields.ttl), (tos, ttl));
    let mut frame = packet[received.inner.clone()].to_vec();
    decapsulate(tos, &mut frame)?;
    frame[..2].copy_from_slice(&number.to_be_bytes());
    frame[2..6].copy_from_slice(&(fields.id as u32).to_be_bytes());
    let option = if fields.present & 1 != 0 { &descriptor[LEN..LEN + 4] } else { &[0; 4] };
    frame[6..10].copy_from_slice(option);
    Ok(Some(frame))
}

#[test]
fn what_is_cut_is_refused_or_left_alone() {
    let mut table = Table::default();
    for spec in ["geneve:remote_ip=flow", "vxlan:remote_ip=flow,exts=gbp", "gre:remote_ip=flow"] {
        table.add(&config(spec), ()).unwrap();
    }
    for packet in incoming() {
        let len = match packet[0] >> 4 {
            4 => usize::from(u16::from_be_bytes([packet[2], packet[3]])),
            _ => 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])),
        };
        // IPv4 without options, not fragmented, UDP, port 6081.
        let is_plain_geneve = packet[0] == 0x45
            && packet[6..8] == [0x40, 0]
            && packet[9] == 17
            && packet[22..24] == 6081u16.to_be_bytes();
        for cut in 0..len.min(packet.len()) {
            let read = Received::read(&packet[..cut], &table, true);
            assert!(!matches!(read, Ok(Some(_))), "{cut} of {len}: {packet:02x?}");
            if is_plain_geneve && cut >= 24 {
                assert_eq!(read, Err(Refused::IpLength), "{cut} of {len}");
            }
        }
    }
}

#[test]
fn takes_what_open_vswitch_takes() {
    let mut table = Table::default();
    let mut reasons = std::collections::BTreeMap::<&str, u32>::new();
    let (mut taken, mut policies) = (0, 0);
    for (n, line) in ANSWERS.lines().enumerate() {
        let n = n + 1;
        let words: Vec<&str> = line.split(" | ").map(str::trim).collect();
        match words[..] {
            ["in"] => table = Table::default(),
            ["port", number, spec] => {
                let config = config(spec);
                table.add(&config, (number.parse().unwrap(), config.clone())).unwrap();
            }
            ["in", outer, expected] => {
                let outer = bytes(outer);
                let ours = receive(&table, &outer);
                let padded_key =
                    outer.len() == 60 && ours == Err(Refused::Truncated) && outer[23] == 47;
                if let Err(reason) = ours {
                    *reasons.entry(reason.name()).or_default() += 1;
                }
                // VXLAN with the G bit, at the port of a port with `exts=gbp`.
                if outer[36..38] == 4790u16.to_be_bytes() && outer[42] == 0x88 {
                    assert!(expected == "-" && matches!(ours, Ok(Some(_))));
                    policies += 1;
                    continue;
                }
                if expected == "-" {
                    assert!(!matches!(ours, Ok(Some(_))), "line {n}: {ours:02x?}");
                    continue;
                }
                if padded_key {
                    continue;
                }
                let mut expected = bytes(expected);
                let Ok(Some(mut ours)) = ours else { panic!("line {n}: {ours:?}") };
                // ECT(1) outside and ECT(0) inside.
                if outer[12] == 8 && outer[15] & 3 == 1 {
                    for frame in [&mut ours, &mut expected] {
                        match frame[12..14] {
                            [8, 0] => {
                                assert_eq!(wire::checksum::sum(&frame[14..34]), 0xffff);
                                frame[15] &= !3;
                                frame[24..26].fill(0);
                            }
                            [0x86, 0xdd] => frame[15] &= !0x30,
                            _ => {}
                        }
                    }
                }
                // An option that has no field.
                if outer.windows(4).any(|w| w == [0x77, 0x77, 1, 1]) {
                    expected[6..10].fill(0);
                }
                assert_eq!(ours, expected, "line {n}");
                taken += 1;
            }
            _ => {}
        }
    }
    let reasons: Vec<_> = reasons.into_keys().collect();
    assert!(taken > 50 && policies == 1, "{taken}");
    for reason in [
        "critical_option",
        "ecn_not_capable",
        "erspan_header",
        "fragment",
        "geneve_option",
        "geneve_protocol",
        "geneve_version",
        "gre_checksum",
        "gre_flags",
        "gre_protocol",
        "inner_too_short",
        "ip_checksum",
        "ip_options",
        "no_port",
        "truncated",
        "udp_checksum",
        "udp_length",
        "vxlan_flags",
    ] {
        assert!(reasons.contains(&reason), "{reason} is not among {reasons:?}");
    }
}
