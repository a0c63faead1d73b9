//! Reads packets from standard input, one a line: a time in nanoseconds and an IP packet in hexadecimal;
//! `reset` begins anew. Prints what the tracker says of each: `lab/conntrack` compares it with Linux.
//!
//! A line of output: state (`new`, `established`, `related`, `invalid`, `untracked`), direction
//! (`original`, `reply`, `none`), and for TCP and SCTP the connection's state and its timeout in
//! seconds after the packet.

use service::conntrack::{Config, CtState, Nat, Outcome, Request, Tracker};
use service::packet::{Offsets, Packet};
use std::io::BufRead;
use wire::layers::Layers;

fn main() {
    let config = || Config { check_checksums: true, ..Config::new(4096, 1) };
    let mut tracker = Tracker::new(config(), 0);
    let request = Request { commit: true, nat: Nat::None, ..Request::default() };
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input can be read");
        if line == "reset" {
            tracker = Tracker::new(config(), 0);
            continue;
        }
        let (time, hex) = line.split_once(' ').expect("a time and a packet");
        let now_ns: u64 = time.parse().expect("a time in nanoseconds");
        let octets = hex.as_bytes().chunks(2).map(|two| {
            u8::from_str_radix(str::from_utf8(two).expect("ASCII"), 16).expect("hexadecimal")
        });
        let mut packet: Vec<u8> = octets.collect();
        let at = Offsets::from_layers(&packet, &Layers::of_ip(&packet));
        let mut packets = [Packet {
            frame: &mut packet,
            at,
            checksum: Default::default(),
            hint: Default::default(),
        }];
        let mut outcomes = [Outcome::default()];
        tracker.process(now_ns, &request, &mut packets, &mut outcomes);
        let state = outcomes[0].state;
        let named = [
            (CtState::INVALID, "invalid"),
            (CtState::RELATED, "related"),
            (CtState::ESTABLISHED, "established"),
            (CtState::NEW, "new"),
        ];
        let name = named.iter().find(|(bit, _)| state.contains(*bit)).map_or("untracked", |n| n.1);
        let direction = match name {
            "invalid" | "untracked" => "none",
            _ if state.contains(CtState::REPLY) => "reply",
            _ => "original",
        };
        let connection = tracker.connections(now_ns).next();
        let inner = connection.map_or("- -".to_string(), |c| {
            let tcp = c.tcp.map(|state| format!("{state:?}"));
            let sctp = c.sctp.map(|state| format!("{state:?}"));
            format!("{} {}", tcp.or(sctp).unwrap_or("-".to_string()), c.timeout)
        });
        println!("{name} {direction} {inner}");
    }
}
