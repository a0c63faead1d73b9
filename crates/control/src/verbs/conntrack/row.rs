//! A connection as it is told: by the tracker that knows it, for programs and for people.

use serde::{Deserialize, Serialize};
use service::conntrack::{Connection, Tuple};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A connection.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// By name, or by number.
    pub protocol: String,
    /// The tracker that knows it: `ct`, or a service by its name.
    pub tracker: String,
    /// Its zone.
    pub zone: u16,
    /// Addresses and ports of who began.
    pub original: Side,
    /// Of what comes back.
    pub reply: Side,
    /// Of TCP and SCTP.
    pub state: Option<String>,
    /// `ct_mark`.
    pub mark: u32,
    /// `ct_label`.
    pub label: String,
    /// Something has come back.
    pub replied: bool,
    /// It stays where there is little room.
    pub assured: bool,
    /// Seconds that it has left.
    pub timeout: u64,
    /// The backend that a balancer has given its flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Packets of the opener's direction, and of the other, if they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<[u64; 2]>,
    /// Octets of IP packets, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub octets: Option<[u64; 2]>,
}

/// Addresses and ports of one direction.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Side {
    /// From this address.
    pub src: String,
    /// To this one.
    pub dst: String,
    /// From this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_port: Option<u16>,
    /// To this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<u16>,
    /// In place of ports: ICMP's identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_id: Option<u16>,
    /// ICMP's type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u8>,
    /// ICMP's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_code: Option<u8>,
}

impl One {
    /// A connection that this tracker knows.
    pub(super) fn of(tracker: &str, c: &Connection, backend: Option<String>) -> One {
        One {
            tracker: tracker.to_owned(),
            protocol: protocol(c.original.protocol.0),
            zone: c.original.zone,
            original: side(&c.original),
            reply: side(&c.reply),
            state: state(c),
            mark: c.mark,
            label: format!("{:#x}", c.label),
            replied: c.replied,
            assured: c.assured,
            timeout: c.timeout.into(),
            backend,
            packets: c.account.map(|account| account.packets),
            octets: c.account.map(|account| account.octets),
        }
    }

    /// A line for people.
    pub(super) fn line(&self) -> String {
        let mut out = format!(
            "{},orig=({}),reply=({}),zone={},timeout={}",
            self.protocol,
            ends(&self.original),
            ends(&self.reply),
            self.zone,
            self.timeout
        );
        let pair = |[original, reply]: [u64; 2]| format!("{original}/{reply}");
        let mut say = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                // Writing to a string does not fail.
                let _ = write!(out, ",{key}={value}");
            }
        };
        say("state", self.state.clone());
        say("mark", (self.mark != 0).then(|| self.mark.to_string()));
        say("labels", (!["", "0x0"].contains(&&*self.label)).then(|| self.label.clone()));
        say("packets", self.packets.map(pair));
        say("octets", self.octets.map(pair));
        say("backend", self.backend.clone());
        say("tracker", (!self.tracker.is_empty()).then(|| self.tracker.clone()));
        out
    }
}

/// The state of a protocol that has states.
pub(super) fn state(c: &Connection) -> Option<String> {
    c.tcp.map(|s| format!("{s:?}")).or_else(|| c.sctp.map(|s| format!("{s:?}")))
}

fn ends(side: &Side) -> String {
    let mut text = format!("src={},dst={}", side.src, side.dst);
    let numbers = [
        ("sport", side.src_port),
        ("dport", side.dst_port),
        ("id", side.icmp_id),
        ("type", side.icmp_type.map(u16::from)),
        ("code", side.icmp_code.map(u16::from)),
    ];
    for (name, number) in numbers.iter().filter_map(|(name, n)| Some((name, (*n)?))) {
        let _ = write!(text, ",{name}={number}");
    }
    text
}

pub(super) fn side(tuple: &Tuple) -> Side {
    let address = |bits: u128| match tuple.v6 {
        true => Ipv6Addr::from(bits).to_string(),
        false => Ipv4Addr::from(bits as u32).to_string(),
    };
    let side = Side { src: address(tuple.src), dst: address(tuple.dst), ..Side::default() };
    match tuple.message() {
        Some((id, kind, code)) => {
            Side { icmp_id: Some(id), icmp_type: Some(kind), icmp_code: Some(code), ..side }
        }
        None => Side { src_port: Some(tuple.src_port), dst_port: Some(tuple.dst_port), ..side },
    }
}

pub(super) fn protocol(number: u8) -> String {
    let name = PROTOCOLS.iter().find(|(n, _)| *n == number);
    name.map_or_else(|| number.to_string(), |(_, name)| (*name).to_string())
}

/// Protocols that have a name here.
pub(super) const PROTOCOLS: [(u8, &str); 5] =
    [(1, "icmp"), (6, "tcp"), (17, "udp"), (58, "icmpv6"), (132, "sctp")];
