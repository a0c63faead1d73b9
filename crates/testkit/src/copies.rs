//! Random programs whose packets go to many ports and change on the way from one to the next, and packets for them.
//!
//! Three tables one behind the other, the actions of which output, change headers (with checksums), insert and remove tags, cut
//! what is output, and do lists on copies. So a packet may come to any table with outputs of which some are of it as it was before.

use crate::packet::Udp;
use ir::testing::Rng;
use std::fmt::Write;

/// Outputs are to ports from 1 to this and one more.
pub const PORTS: u32 = 9;
/// Packets are to come in by ports from 1 to this.
pub const IN_PORTS: u32 = 3;

const HEAD: &str = "\
use std
meta class: 8
table t { key std.in_port exact; key eth.dst exact; actions a0 a1 a2 a3 a4; default a0 }
table u { key class ternary; actions b0 b1 b2; default b0 }
table v { key udp.dport exact; actions c0 c1 c2; default c0 }
block first { apply t hit second miss third }
block second { class = cast(8, ipv4.dst); apply u hit third miss over }
block third { if eth.src == 02:00:00:00:00:09 { output 2; output 3; output 4; output 5 }; apply v hit over miss over }
block over { if class & 3 == 0 { ipv4.ttl = ipv4.ttl - 1; output 6 }; end }
";

/// A program as text, with entries.
pub fn program(seed: u64) -> String {
    let mut rng = Rng::new(seed ^ 0xc0b1e5);
    let mut text = HEAD.to_owned();
    for action in ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "c0", "c1", "c2"] {
        let body = list(&mut rng, 2);
        let _ = writeln!(text, "action {action} {{ {body} }}");
    }
    for at in 0..12 {
        let (port, station, action) = (1 + at % IN_PORTS, rng.below(6), rng.below(5));
        let key = format!("entry t {port} 02:00:00:00:00:0{station} =>");
        // Of two alike, the first one stays.
        if !text.contains(&key) {
            let _ = writeln!(text, "{key} a{action}");
        }
    }
    text.push_str("entry u 1 &&& 1 priority=2 => b1\nentry u 2 &&& 2 priority=1 => b2\n");
    text.push_str("entry v 53 => c1\nentry v 54 => c2\n");
    text
}

fn list(rng: &mut Rng, depth: u32) -> String {
    let n = rng.below(7);
    (0..n).map(|_| statement(rng, depth)).collect::<Vec<_>>().join("; ")
}

fn statement(rng: &mut Rng, depth: u32) -> String {
    match rng.below(20) {
        0..=7 => format!("output {}", 1 + rng.below(PORTS as usize + 1)),
        8 => "ipv4.ttl = ipv4.ttl - 1".to_owned(),
        9 => format!("ipv4.dst = 10.0.0.{}", rng.below(256)),
        10 => "udp.dport = udp.dport + 1".to_owned(),
        11 => "eth.src = eth.dst".to_owned(),
        12 => "push vlan 1; vlan[0].type = eth.type; vlan[0].vid = 7; eth.type = 0x8100".to_owned(),
        13 => "eth.type = vlan[0].type; pop vlan 1".to_owned(),
        14 => format!("truncate {}", rng.below(120)),
        15 => format!("std.queue = {}", rng.below(3)),
        16 if depth > 0 => format!("on_copy {{ {} }}", list(rng, depth - 1)),
        17 if depth > 0 => {
            let (then, or_else) = (list(rng, depth - 1), list(rng, depth - 1));
            format!("if ipv4.ttl & 1 == 1 {{ {then} }} else {{ {or_else} }}")
        }
        18 if rng.one_in(3) => "drop".to_owned(),
        _ => "class = class + 1".to_owned(),
    }
}

/// A packet that hits some entry, perhaps.
pub fn packet(rng: &mut Rng) -> Udp {
    let mut udp = Udp::default();
    udp.eth_dst[5] = rng.below(6) as u8;
    udp.eth_src[5] = if rng.one_in(4) { 9 } else { 1 };
    udp.dst[3] = rng.below(256) as u8;
    udp.dst_port = 52 + rng.below(4) as u16;
    udp.vlans = (0..rng.below(3)).map(|_| rng.below(4096) as u16).collect();
    udp.payload = vec![rng.below(256) as u8; rng.below(80)];
    udp
}
