//! `millrace conntrack`: the connections that a running switch knows (OpenFlow's `ct`), shown and forgotten; [`crate::image`]
//! has them outlive the switch.
//!
//! The switch's side of the question ([`answer`]) is here, too.

use crate::Failure;
use crate::cli::{ConntrackCommand, ConntrackOptions};
use crate::ctl::{Request, ask};
use serde_json::{Value, json};
use service::conntrack::{Config, Connection, Tuple};
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};
use switch::Switch;

/// Connections held at most, unless told otherwise: 32 MiB of them.
pub(crate) const CONNECTIONS: usize = 1 << 18;
/// Connections listed at most, unless told otherwise.
const LISTED: usize = 1000;

/// `millrace conntrack`.
pub(crate) fn conntrack(options: ConntrackOptions) -> Result<(), Failure> {
    let ctl = options.ctl.as_deref();
    let request = match options.command {
        Some(ConntrackCommand::Export { file }) => {
            return crate::image::export(ctl, &file, options.json);
        }
        Some(ConntrackCommand::Import { file }) => {
            return crate::image::import(ctl, &file, options.json);
        }
        None => Request::Conntrack { flush: false, zone: None, limit: LISTED },
        Some(ConntrackCommand::Show { zone, limit }) => {
            Request::Conntrack { flush: false, zone, limit: limit.unwrap_or(LISTED) }
        }
        Some(ConntrackCommand::Flush { zone }) => {
            Request::Conntrack { flush: true, zone, limit: 0 }
        }
    };
    let value = ask(ctl, &request)?;
    crate::query::show(&value, options.json, print)
}

/// What a tracker of so many connections is made of: as many may be translated. Its secret is this
/// process's own.
pub(crate) fn config(connections: usize) -> Config {
    let seed = RandomState::new().build_hasher().finish();
    Config { translated_max: connections, ..Config::new(connections, seed) }
}

/// The switch's answer.
pub(crate) fn answer(
    switch: &Switch,
    flush: bool,
    zone: Option<u16>,
    limit: usize,
) -> Result<Value, String> {
    let Some(connections) = switch.services().connections() else {
        return Err("this switch tracks no connections: it runs a P4 program".to_owned());
    };
    if flush {
        return Ok(json!({"flushed": connections.flush(zone)}));
    }
    let in_zone = |c: &Connection| zone.is_none_or(|zone| c.original.zone == zone);
    let list = connections.list(switch.now_ns(), limit, &in_zone);
    let (held, half_open, memory) = connections.size();
    let counters: serde_json::Map<String, Value> =
        connections.counters().all().map(|(name, n)| (name.to_string(), json!(n))).collect();
    Ok(json!({
        "held": held, "half_open": half_open, "memory_bytes": memory.total(), "counters": counters,
        "connections": list.iter().map(connection).collect::<Vec<_>>(),
    }))
}

fn connection(c: &Connection) -> Value {
    let state = c.tcp.map(|s| format!("{s:?}")).or_else(|| c.sctp.map(|s| format!("{s:?}")));
    json!({
        "protocol": protocol(c.original.protocol.0), "zone": c.original.zone,
        "original": side(&c.original), "reply": side(&c.reply), "state": state,
        "mark": c.mark, "label": format!("{:#x}", c.label), "replied": c.replied,
        "assured": c.assured, "timeout": c.timeout,
    })
}

fn side(tuple: &Tuple) -> Value {
    let address = |bits: u128| match tuple.v6 {
        true => Ipv6Addr::from(bits).to_string(),
        false => Ipv4Addr::from(bits as u32).to_string(),
    };
    let (src, dst) = (address(tuple.src), address(tuple.dst));
    json!({"src": src, "dst": dst, "src_port": tuple.src_port, "dst_port": tuple.dst_port})
}

fn protocol(number: u8) -> String {
    let known = [(1, "icmp"), (6, "tcp"), (17, "udp"), (58, "icmpv6"), (132, "sctp")];
    let name = known.iter().find(|(n, _)| *n == number);
    name.map_or_else(|| number.to_string(), |(_, name)| (*name).to_string())
}

fn print(value: &Value) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    if let Some(flushed) = value["flushed"].as_u64() {
        let _ = writeln!(out, "{flushed} connections forgotten");
        return out;
    }
    let _ = writeln!(
        out,
        "{} connections, {} of them half open, {} bytes",
        value["held"], value["half_open"], value["memory_bytes"]
    );
    let counters = value["counters"].as_object();
    for (name, n) in counters.into_iter().flatten().filter(|(_, n)| n.as_u64() != Some(0)) {
        let _ = writeln!(out, "  {name}={n}");
    }
    for c in value["connections"].as_array().into_iter().flatten() {
        let text = |v: &Value| v.as_str().unwrap_or("?").to_string();
        let side = |v: &Value| {
            let (src, dst) = (text(&v["src"]), text(&v["dst"]));
            format!("src={src},dst={dst},sport={},dport={}", v["src_port"], v["dst_port"])
        };
        let _ = write!(
            out,
            "{},orig=({}),reply=({}),zone={},timeout={}",
            text(&c["protocol"]),
            side(&c["original"]),
            side(&c["reply"]),
            c["zone"],
            c["timeout"]
        );
        if let Some(state) = c["state"].as_str() {
            let _ = write!(out, ",state={state}");
        }
        if c["mark"].as_u64() != Some(0) {
            let _ = write!(out, ",mark={}", c["mark"]);
        }
        if c["label"].as_str() != Some("0x0") {
            let _ = write!(out, ",labels={}", text(&c["label"]));
        }
        let _ = writeln!(out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_shown_line_by_line() {
        let end = |n: u8| json!({"src": format!("10.0.0.{n}"), "dst": "10.0.0.9", "src_port": 1, "dst_port": 80});
        let value = json!({"held": 1, "half_open": 0, "memory_bytes": 7, "counters": {"new": 2, "invalid": 0},
            "connections": [{"protocol": "tcp", "zone": 5, "original": end(1), "reply": end(2), "state": "Established",
            "mark": 3, "label": "0x0", "replied": true, "assured": true, "timeout": 60}]});
        let expected = "\
1 connections, 0 of them half open, 7 bytes
  new=2
tcp,orig=(src=10.0.0.1,dst=10.0.0.9,sport=1,dport=80),reply=(src=10.0.0.2,dst=10.0.0.9,sport=1,dport=80),zone=5,timeout=60,state=Established,mark=3
";
        assert_eq!(print(&value), expected);
        assert_eq!(print(&json!({"flushed": 3})), "3 connections forgotten\n");
    }
}
