//! What ports and entries have counted, handed over behind everything else: while the new process forwards already.
//!
//! In: all bridges of a process whose packets have stopped. Out: for each a line of JSON with its ports' counters, then its flow
//! entries with packets, bytes and age as OpenFlow's statistics. It is the answer to `finish`. The new process adds them to what
//! it has counted itself since, so packets do not wait for it. What has gone meanwhile is left.
//!
//! Groups, meters and queues count anew.
//!
//! Checked by: the test below; millrace's `tests/take_over_bridges.rs`, with processes.

use super::wire::VERSION;
use datapath::ports::PortCounters;
use of_pipeline::Agent;
use openflow::codec;
use openflow::{
    FlowStatsRequest, Message, MultipartReply, MultipartReplyBody, MultipartRequest,
    MultipartRequestBody, Xid,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Error, Write};
use switch::Switch;

/// A bridge.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    bridge: String,
    ports: Vec<Port>,
    /// Octets of the messages behind the line.
    len: usize,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Port {
    name: String,
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
    punted: u64,
    digests_refused: u64,
    drops: BTreeMap<String, u64>,
    rx_dropped: u64,
    tx_dropped: u64,
}

impl Port {
    fn of(name: String, counters: PortCounters) -> Port {
        let PortCounters {
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
            punted,
            digests_refused,
            drops,
            rx_dropped,
            tx_dropped,
        } = counters;
        let drops = drops.into_iter().map(|(word, n)| (word.to_owned(), n)).collect();
        Port {
            name,
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
            punted,
            digests_refused,
            drops,
            rx_dropped,
            tx_dropped,
        }
    }

    /// Reasons that this process does not know are left out.
    fn counters(&self) -> PortCounters {
        let known = |(word, n): (&String, &u64)| Some((PortCounters::drop_word(word)?, *n));
        PortCounters {
            rx_packets: self.rx_packets,
            rx_bytes: self.rx_bytes,
            tx_packets: self.tx_packets,
            tx_bytes: self.tx_bytes,
            punted: self.punted,
            digests_refused: self.digests_refused,
            drops: self.drops.iter().filter_map(known).collect(),
            rx_dropped: self.rx_dropped,
            tx_dropped: self.tx_dropped,
        }
    }
}

/// Counters of the ports of a bridge, which may be closed by now: taken before.
pub(super) fn ports(switch: &Switch) -> Vec<(String, PortCounters)> {
    let all = switch.port_counters().into_iter();
    all.map(|(view, counters, _)| (view.info.name, counters)).collect()
}

/// Writes what a bridge has counted; `agent` of one with OpenFlow's tables.
pub(super) fn give(
    bridge: &str,
    ports: Vec<(String, PortCounters)>,
    agent: Option<&mut Agent>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    if let Some(agent) = agent {
        let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
        let ask = Message::MultipartRequest(MultipartRequest { more: false, body });
        let replies = agent.handle(VERSION, ask).map_err(|e| Error::other(e.to_string()))?;
        for reply in &replies {
            codec::encode_into(&mut bytes, VERSION, Xid(0), reply)
                .map_err(|e| Error::other(e.to_string()))?;
        }
    }
    let ports = ports.into_iter().map(|(name, counters)| Port::of(name, counters)).collect();
    let head = Head { bridge: bridge.to_owned(), ports, len: bytes.len() };
    let line = serde_json::to_string(&head).map_err(Error::other)?;
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    out.write_all(&bytes)
}

/// Goes on with what was counted. `of` finds a bridge's switch.
pub(crate) fn take(
    bytes: &[u8],
    mut of: impl FnMut(&str, &mut dyn FnMut(&Switch, Option<&mut Agent>)),
) -> Result<(), String> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.iter().position(|octet| *octet == b'\n').ok_or("a line has no end")?;
        let (line, behind) = (&rest[..end], &rest[end + 1..]);
        let head: Head = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let (messages, behind) = behind.split_at_checked(head.len).ok_or("it is cut short")?;
        rest = behind;
        let messages: Vec<Message> =
            super::running::Messages(messages).collect::<Result<_, String>>()?;
        of(&head.bridge, &mut |switch, agent| {
            for port in &head.ports {
                switch.carry_port_counters(&port.name, &port.counters());
            }
            let Some(agent) = agent else { return };
            for message in &messages {
                let Message::MultipartReply(MultipartReply { body, .. }) = message else {
                    continue;
                };
                let MultipartReplyBody::Flow(flows) = body else { continue };
                for flow in flows {
                    // One that has gone meanwhile is left.
                    let _ = agent.carry(flow);
                }
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tables::{self, Told, tell};

    fn bed() -> (Switch, Agent) {
        let switch = tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
        let (near, far) = port::memory::port("p1", port::memory::Config::default()).unwrap();
        std::mem::forget(far);
        switch.add_port(Some(1), Box::new(near)).unwrap();
        let mut agent = tables::agent(&switch, Some(1)).unwrap();
        for line in
            ["priority=9,ip,nw_dst=10.0.0.0/8,actions=drop", "table=1,priority=0,actions=drop"]
        {
            tell(&mut agent, Told::Flow, line, &|_| None).unwrap();
        }
        (switch, agent)
    }

    #[test]
    fn ports_and_entries_go_on_counting() {
        let ((old, mut old_agent), (new, mut new_agent)) = (bed(), bed());
        let flow = old_agent.flows().iter(0).next().map(|(key, _)| key).unwrap();
        assert!(old.carry_counter(flow.id, 5, 500));
        let counted = PortCounters {
            rx_packets: 7,
            drops: vec![("table_miss", 3)],
            ..PortCounters::default()
        };
        assert!(old.carry_port_counters("p1", &counted));
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let mut out = Vec::new();
        give("br0", ports(&old), Some(&mut old_agent), &mut out).unwrap();
        for at in [1, 40, out.len() - 1] {
            assert!(take(&out[..at], |_, _| {}).is_err(), "{at}");
        }
        take(&out, |bridge, take| {
            assert_eq!(bridge, "br0");
            take(&new, Some(&mut new_agent));
        })
        .unwrap();
        let (_, counters, _) = new.counters_of_port(1).unwrap();
        assert_eq!((counters.rx_packets, counters.drops), (7, vec![("table_miss", 3)]));
        let (key, flow) = new_agent.flows().iter(0).next().unwrap();
        assert_eq!(new.counter(key.id).packets, 5);
        assert!(flow.before_ns >= 1_000_000_000, "{}", flow.before_ns);
        [old, new].iter().for_each(Switch::stop);
    }
}
