//! `millrace conntrack`: the connections that a running switch knows (OpenFlow's `ct`), shown and forgotten; [`crate::image`]
//! has them outlive the switch.
//!
//! The switch's side of the question ([`answer`]) is here, too.

use crate::cli::{ConntrackCommand, ConntrackOptions};
use crate::ctl::{Request, ask};
use control::failure::Failure;
use serde_json::{Value, json};
use service::conntrack::{Connection, Role, Tuple};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use switch::Switch;
use wire::icmpv4;

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
    // The tracker keeps type and code of the request, for both directions.
    let icmp = |id: u16, message: u16, answers: bool| {
        let [asked, code] = message.to_be_bytes();
        let kind = match (answers, tuple.v6, asked) {
            (false, ..) => asked,
            (true, false, icmpv4::ECHO_REQUEST) => icmpv4::ECHO_REPLY,
            // Of all others the answer comes next.
            (true, ..) => asked.wrapping_add(1),
        };
        json!({"src": src, "dst": dst, "icmp_id": id, "icmp_type": kind, "icmp_code": code})
    };
    match tuple.role {
        Role::Request => return icmp(tuple.src_port, tuple.dst_port, false),
        Role::Reply => return icmp(tuple.dst_port, tuple.src_port, true),
        Role::Any => {}
    }
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
            match &v["icmp_id"] {
                Value::Null => {
                    format!("src={src},dst={dst},sport={},dport={}", v["src_port"], v["dst_port"])
                }
                id => format!(
                    "src={src},dst={dst},id={id},type={},code={}",
                    v["icmp_type"], v["icmp_code"]
                ),
            }
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

    #[test]
    fn a_ping_is_shown_by_type_code_and_identifier() {
        let (zone, protocol, role) = (7, wire::IpProtocol::ICMP, Role::Request);
        let (src, dst, src_port, dst_port) = (0x0a00_0001, 0x0a00_0002, 77, 8 << 8);
        let ping = Tuple { src, dst, src_port, dst_port, zone, protocol, v6: false, role };
        let value = json!({"held": 1, "half_open": 0, "memory_bytes": 7, "counters": {}, "connections": [
            {"protocol": "icmp", "zone": 7, "original": side(&ping), "reply": side(&ping.inverted()),
            "mark": 0, "label": "0x0", "timeout": 30}]});
        let line = "icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id=77,type=8,code=0),\
            reply=(src=10.0.0.2,dst=10.0.0.1,id=77,type=0,code=0),zone=7,timeout=30";
        assert_eq!(print(&value).lines().nth(1), Some(line));
    }
}
