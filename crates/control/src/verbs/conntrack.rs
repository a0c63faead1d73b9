//! `conntrack`: the connections that the switch knows (OpenFlow's `ct`), told or forgotten.

use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use service::conntrack::{Connection, Tuple};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Conntrack {
    /// They are forgotten.
    pub flush: bool,
    /// Those of this zone.
    pub zone: Option<u16>,
    /// So many are told, at most.
    pub limit: usize,
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// They were forgotten.
    Flushed {
        /// So many.
        flushed: u64,
    },
    /// They are told.
    Known(Known),
}

/// What the switch knows.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Connections.
    pub held: u64,
    /// Those of them that are half open.
    pub half_open: u64,
    /// Bytes that they take.
    pub memory_bytes: u64,
    /// What has happened.
    pub counters: BTreeMap<String, u64>,
    /// Some of them.
    pub connections: Vec<One>,
}

/// A connection.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// By name, or by number.
    pub protocol: String,
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

impl Verb for Conntrack {
    const NAME: &'static str = "conntrack";
    const ABOUT: &'static str = "Connections: told, or forgotten";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let Conntrack { flush, zone, limit } = self;
        let Some(connections) = at.switch()?.services().connections() else {
            return Err("this switch tracks no connections: it runs a P4 program".to_owned());
        };
        if flush {
            return Ok(Reply::Answer(Answer::Flushed { flushed: connections.flush(zone) as u64 }));
        }
        let in_zone = |c: &Connection| zone.is_none_or(|zone| c.original.zone == zone);
        let list = connections.list(at.switch()?.now_ns(), limit, &in_zone);
        let (held, half_open, memory) = connections.size();
        Ok(Reply::Answer(Answer::Known(Known {
            held: held as u64,
            half_open: half_open as u64,
            memory_bytes: memory.total() as u64,
            counters: connections.counters().all().map(|(name, n)| (name.to_string(), n)).collect(),
            connections: list.iter().map(connection).collect(),
        })))
    }

    fn change(&self) -> Option<Change> {
        let zone = self.zone.map_or_else(|| "all zones".to_owned(), |zone| format!("zone {zone}"));
        self.flush.then_some(Change { kind: "conntrack", how: "delete", text: zone })
    }

    fn text(answer: &Answer) -> String {
        match answer {
            Answer::Flushed { flushed } => format!("{flushed} connections forgotten\n"),
            Answer::Known(known) => print(known),
        }
    }
}

fn connection(c: &Connection) -> One {
    One {
        protocol: protocol(c.original.protocol.0),
        zone: c.original.zone,
        original: side(&c.original),
        reply: side(&c.reply),
        state: c.tcp.map(|s| format!("{s:?}")).or_else(|| c.sctp.map(|s| format!("{s:?}"))),
        mark: c.mark,
        label: format!("{:#x}", c.label),
        replied: c.replied,
        assured: c.assured,
        timeout: c.timeout.into(),
    }
}

fn side(tuple: &Tuple) -> Side {
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

fn protocol(number: u8) -> String {
    let known = [(1, "icmp"), (6, "tcp"), (17, "udp"), (58, "icmpv6"), (132, "sctp")];
    let name = known.iter().find(|(n, _)| *n == number);
    name.map_or_else(|| number.to_string(), |(_, name)| (*name).to_string())
}

fn print(known: &Known) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{} connections, {} of them half open, {} bytes",
        known.held, known.half_open, known.memory_bytes
    );
    for (name, n) in known.counters.iter().filter(|(_, n)| **n != 0) {
        let _ = writeln!(out, "  {name}={n}");
    }
    for c in &known.connections {
        let side = |s: &Side| {
            let mut text = format!("src={},dst={}", s.src, s.dst);
            let numbers = [
                ("sport", s.src_port),
                ("dport", s.dst_port),
                ("id", s.icmp_id),
                ("type", s.icmp_type.map(u16::from)),
                ("code", s.icmp_code.map(u16::from)),
            ];
            for (name, number) in numbers.iter().filter_map(|(name, n)| Some((name, (*n)?))) {
                let _ = write!(text, ",{name}={number}");
            }
            text
        };
        let _ = write!(
            out,
            "{},orig=({}),reply=({}),zone={},timeout={}",
            c.protocol,
            side(&c.original),
            side(&c.reply),
            c.zone,
            c.timeout
        );
        if let Some(state) = &c.state {
            let _ = write!(out, ",state={state}");
        }
        if c.mark != 0 {
            let _ = write!(out, ",mark={}", c.mark);
        }
        if c.label != "0x0" {
            let _ = write!(out, ",labels={}", c.label);
        }
        let _ = writeln!(out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use service::conntrack::Role;

    #[test]
    fn connections_are_shown_line_by_line() {
        let print = |value| Conntrack::text(&serde_json::from_value(value).unwrap());
        let end = |n: u8| json!({"src": format!("10.0.0.{n}"), "dst": "10.0.0.9", "src_port": 1, "dst_port": 80});
        let value = json!({"held": 1, "half_open": 0, "memory_bytes": 7, "counters": {"new": 2, "invalid": 0},
            "connections": [{"protocol": "tcp", "zone": 5, "original": end(1), "reply": end(2), "state": "Established",
            "mark": 3, "label": "0x0", "replied": true, "assured": true, "timeout": 60}]});
        let expected = "\
1 connections, 0 of them half open, 7 bytes
  new=2
tcp,orig=(src=10.0.0.1,dst=10.0.0.9,sport=1,dport=80),reply=(src=10.0.0.2,dst=10.0.0.9,sport=1,dport=80),zone=5,timeout=60,state=Established,mark=3
";
        assert_eq!(print(value), expected);
        assert_eq!(print(json!({"flushed": 3})), "3 connections forgotten\n");
    }

    #[test]
    fn a_ping_is_shown_by_type_code_and_identifier() {
        let (zone, protocol, role) = (7, wire::IpProtocol::ICMP, Role::Request);
        let (src, dst, src_port, dst_port) = (0x0a00_0001, 0x0a00_0002, 77, 8 << 8);
        let ping = Tuple { src, dst, src_port, dst_port, zone, protocol, v6: false, role };
        let (original, reply) = (side(&ping), side(&ping.inverted()));
        let (protocol, label) = ("icmp".to_owned(), "0x0".to_owned());
        let timeout = 30;
        let one = One { protocol, zone, original, reply, label, timeout, ..One::default() };
        let text = print(&Known { connections: vec![one], ..Known::default() });
        let line = "icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id=77,type=8,code=0),\
            reply=(src=10.0.0.2,dst=10.0.0.1,id=77,type=0,code=0),zone=7,timeout=30";
        assert_eq!(text.lines().nth(1), Some(line));
    }
}
