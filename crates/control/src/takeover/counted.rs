//! What ports and entries have counted, handed over behind everything else: while the new process forwards already.
//!
//! In: all bridges of a process whose packets have stopped. Out: for each a line of JSON with the counters of its ports and their
//! queues, then its flow entries, groups and meters with counts and age as OpenFlow's statistics. It is the answer to `finish`.
//! The new process adds them to what it has counted itself since, so packets do not wait for it. What has gone meanwhile is left.
//!
//! Counters of a P4 program come before, with what packets have written ([`p4_runtime::device`]).
//!
//! Checked by: the tests below; millrace's `tests/take_over_bridges.rs`, with processes.

use super::wire::VERSION;
use datapath::ports::PortCounters;
use datapath::queues::QueueCounters;
use of_pipeline::Agent;
use openflow::codec;
use openflow::{
    FlowStatsRequest, GroupId, Message, MeterId, MultipartReply, MultipartReplyBody,
    MultipartRequest, MultipartRequestBody, Xid,
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
    /// Its egress queues have been there so long.
    queues_ns: u64,
    queues: Vec<Queue>,
}

/// An egress queue of a port.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Queue {
    id: u32,
    tx_packets: u64,
    tx_bytes: u64,
    tx_errors: u64,
}

impl Queue {
    fn counters(&self) -> QueueCounters {
        QueueCounters {
            tx_packets: self.tx_packets,
            tx_bytes: self.tx_bytes,
            tx_errors: self.tx_errors,
        }
    }
}

/// What a port has counted, which may be closed by now.
#[derive(Debug, Default)]
pub(super) struct Counted {
    name: String,
    counters: PortCounters,
    queues_ns: u64,
    queues: Vec<(u32, QueueCounters)>,
}

impl Port {
    fn of(port: Counted) -> Port {
        let Counted { name, counters, queues_ns, queues } = port;
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
            queues_ns,
            queues: queues
                .into_iter()
                .map(|(id, counters)| {
                    let QueueCounters { tx_packets, tx_bytes, tx_errors } = counters;
                    Queue { id, tx_packets, tx_bytes, tx_errors }
                })
                .collect(),
        }
    }

    /// The port of this name and its queues go on with it. A queue that is not there is left.
    fn carry(&self, switch: &Switch) {
        switch.carry_port_counters(&self.name, &self.counters());
        let number = switch.ports().into_iter().find(|view| view.info.name == self.name);
        let Some(queues) = number.and_then(|view| switch.queues(view.number)) else { return };
        if self.queues.is_empty() {
            return;
        }
        queues.carry_age(self.queues_ns);
        for queue in &self.queues {
            queues.carry(queue.id, &queue.counters());
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

/// Counters of the ports of a bridge, before they are closed.
pub(super) fn ports(switch: &Switch) -> Vec<Counted> {
    let now_ns = switch.now_ns();
    let all = switch.port_counters().into_iter();
    all.map(|(view, counters, _)| {
        let queues = switch.queues(view.number);
        let queues_ns = queues.as_ref().map_or(0, |queues| queues.age_ns(now_ns));
        let each = queues.iter().flat_map(|queues| queues.counters());
        let queues = each.map(|(queue, counters)| (queue.id, counters)).collect();
        Counted { name: view.info.name, counters, queues_ns, queues }
    })
    .collect()
}

/// Writes what a bridge has counted; `agent` of one with OpenFlow's tables.
pub(super) fn give(
    bridge: &str,
    ports: Vec<Counted>,
    agent: Option<&mut Agent>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    if let Some(agent) = agent {
        let bodies = [
            MultipartRequestBody::Flow(FlowStatsRequest::all()),
            MultipartRequestBody::Group(GroupId::ALL),
            MultipartRequestBody::Meter(MeterId::ALL),
        ];
        for body in bodies {
            let ask = Message::MultipartRequest(MultipartRequest { more: false, body });
            let replies = agent.handle(VERSION, ask).map_err(|e| Error::other(e.to_string()))?;
            for reply in &replies {
                codec::encode_into(&mut bytes, VERSION, Xid(0), reply)
                    .map_err(|e| Error::other(e.to_string()))?;
            }
        }
    }
    let ports = ports.into_iter().map(Port::of).collect();
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
            head.ports.iter().for_each(|port| port.carry(switch));
            let Some(agent) = agent else { return };
            for message in &messages {
                let Message::MultipartReply(MultipartReply { body, .. }) = message else {
                    continue;
                };
                // What has gone meanwhile is left.
                match body {
                    MultipartReplyBody::Flow(flows) => flows.iter().for_each(|flow| {
                        agent.carry(flow);
                    }),
                    MultipartReplyBody::Group(groups) => groups.iter().for_each(|group| {
                        agent.carry_group(group);
                    }),
                    MultipartReplyBody::Meter(meters) => meters.iter().for_each(|meter| {
                        agent.carry_meter(meter);
                    }),
                    _ => {}
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
    use switch::CounterValue;
    use switch::queues::Setting;

    fn bed() -> (Switch, Agent) {
        let switch = tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
        let (near, far) = port::memory::port("p1", port::memory::Config::default()).unwrap();
        std::mem::forget(far);
        switch.add_port(Some(1), Box::new(near)).unwrap();
        let queues = ["1,max=8M", "1:7,weight=3"].map(|text| Setting::parse(text).unwrap());
        switch.set_queues(&queues).unwrap();
        let mut agent = tables::agent(&switch, Some(1)).unwrap();
        for (kind, line) in [
            (Told::Meter, "meter=4,pktps,bands=type=drop,rate=10"),
            (Told::Group, "group_id=3,type=select,bucket=output:1,bucket=drop"),
            (Told::Flow, "priority=9,ip,nw_dst=10.0.0.0/8,actions=drop"),
            (Told::Flow, "table=1,priority=0,actions=drop"),
        ] {
            tell(&mut agent, kind, line, &|_| None).unwrap();
        }
        (switch, agent)
    }

    /// The old bed with counts, and what it gives after a second.
    fn given(old: &Switch, agent: &mut Agent) -> Vec<u8> {
        let flow = agent.flows().iter(0).next().map(|(key, _)| key).unwrap();
        assert!(old.carry_counter(flow.id, 5, 500));
        let counted = PortCounters {
            rx_packets: 7,
            drops: vec![("table_miss", 3)],
            ..PortCounters::default()
        };
        assert!(old.carry_port_counters("p1", &counted));
        let queue = QueueCounters { tx_packets: 4, tx_bytes: 400, tx_errors: 1 };
        assert!(old.queues(1).unwrap().carry(7, &queue));
        let group = agent.groups().get(3).unwrap();
        for (counter, packets) in
            [group.counter].iter().chain(&group.bucket_counters).zip([9, 6, 3])
        {
            assert!(old.carry_counter(counter.0, packets, packets * 60));
        }
        let count = |packets| CounterValue { packets, bytes: packets * 60, last_used_ns: None };
        let meter = switch::MeterStats { input: count(11), bands: vec![count(2)] };
        assert!(old.carry_meter(ir::MeterId(4), &meter));
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let mut out = Vec::new();
        give("br0", ports(old), Some(agent), &mut out).unwrap();
        out
    }

    fn taken(out: &[u8], new: &Switch, agent: &mut Agent) {
        take(out, |bridge, take| {
            assert_eq!(bridge, "br0");
            take(new, Some(&mut *agent));
        })
        .unwrap();
    }

    #[test]
    fn ports_and_entries_go_on_counting() {
        let ((old, mut old_agent), (new, mut new_agent)) = (bed(), bed());
        let out = given(&old, &mut old_agent);
        for at in [1, 40, out.len() - 1] {
            assert!(take(&out[..at], |_, _| {}).is_err(), "{at}");
        }
        taken(&out, &new, &mut new_agent);
        let (_, counters, _) = new.counters_of_port(1).unwrap();
        assert_eq!((counters.rx_packets, counters.drops), (7, vec![("table_miss", 3)]));
        let (key, flow) = new_agent.flows().iter(0).next().unwrap();
        assert_eq!(new.counter(key.id).packets, 5);
        assert!(flow.before_ns >= 1_000_000_000, "{}", flow.before_ns);
        [old, new].iter().for_each(Switch::stop);
    }

    #[test]
    fn groups_meters_and_queues_go_on_counting() {
        let ((old, mut old_agent), (new, mut new_agent)) = (bed(), bed());
        let out = given(&old, &mut old_agent);
        taken(&out, &new, &mut new_agent);
        let queues = new.queues(1).unwrap();
        let counted: Vec<_> =
            queues.counters().map(|(queue, c)| (queue.id, c.tx_packets)).collect();
        assert_eq!(counted, [(0, 0), (7, 4)]);
        assert!(queues.age_ns(new.now_ns()) >= 1_000_000_000);
        let group = |agent: &Agent| {
            let entry = agent.groups().get(3).unwrap();
            let told = agent.group_stats(3, entry, new.now_ns());
            let buckets: Vec<u64> = told.buckets.iter().map(|b| b.packet_count).collect();
            (told.packet_count, told.byte_count, buckets, told.age.sec >= 1)
        };
        assert_eq!(group(&new_agent), (9, 540, vec![6, 3], true));
        let meter = |agent: &Agent| {
            let told = agent.meter_stats(4);
            let bands: Vec<u64> = told.bands.iter().map(|b| b.packet_count).collect();
            (told.packet_in_count, told.byte_in_count, bands, told.age.sec >= 1)
        };
        assert_eq!(meter(&new_agent), (11, 660, vec![2], true));
        // One that is modified goes on, too, and so does what the next process is given.
        let modify = Message::MeterMod(openflow::MeterMod {
            command: openflow::MeterModCommand::Modify,
            flags: openflow::MeterFlags::PKTPS,
            meter_id: MeterId(4),
            bands: Vec::new(),
        });
        new_agent.handle(VERSION, modify).unwrap();
        assert_eq!(meter(&new_agent), (11, 660, vec![], true));
        let (third, mut third_agent) = bed();
        let mut out = Vec::new();
        give("br0", ports(&new), Some(&mut new_agent), &mut out).unwrap();
        taken(&out, &third, &mut third_agent);
        assert_eq!(meter(&third_agent), (11, 660, vec![0], true));
        assert_eq!(group(&third_agent), (9, 540, vec![6, 3], true));
        // Another process may have fewer buckets by then: the group itself goes on.
        let (other, mut other_agent) = bed();
        let fewer = "group_id=3,type=select,bucket=output:1";
        let fewer = crate::program::entries::Entries {
            groups: vec![fewer.to_owned()],
            ..Default::default()
        };
        let mut inline = crate::program::entries::Inline::default();
        inline.set(&mut other_agent, &|_| None, &fewer, false).unwrap();
        taken(&out, &other, &mut other_agent);
        let (packets, _, buckets, _) = group(&other_agent);
        assert_eq!((packets, buckets), (9, vec![0]));
        [old, new, third, other].iter().for_each(Switch::stop);
    }
}
