//! The body of the fuzz target `agent`: requests of both versions against a running agent.

use super::small;
use crate::bed::Small;
use crate::{Agent, Event};
use of_lower::conjunctive;
use openflow::codec::{HEADER_LEN, decode, encode};
use openflow::{
    ErrorCode, FlowMod, FlowModCommand, GroupId, GroupMod, GroupModCommand, GroupType,
    Instructions, MacAddr, Match, Message, MeterFlags, MeterId, MeterMod, MeterModCommand,
    PortConfig, PortFeatures, PortMod, PortNo, SwitchConfig, TableId, Version, Xid,
};
use port::memory::Handle;
use std::cell::RefCell;
use switch::Switch;

/// Requests of one input, at most.
const REQUESTS_MAX: usize = 200;
/// First byte of an input that is a run of four bytes for each request; others are messages.
const SMALL: u8 = b'?';

/// Requests against an agent, whose switch has three ports, two synchronised tables, and no traffic but packet-outs.
///
/// `data` is a stream of messages, of version 1.0 if the version byte is odd, else 1.3, of which a
/// length below a header's or beyond the end means all the rest; or, after a `?`, four bytes for
/// each request of a small world of ids. The two lowest bits of its length say what becomes of
/// packets without an entry.
///
/// Nothing may panic; a refused request changes nothing; what the store says is in the switch, is,
/// and nothing else; replies and events encode and decode; when all is deleted, all is gone.
///
/// # Panics
/// When it does not; that is the finding.
pub fn agent(data: &[u8]) {
    thread_local! {
        static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
    }
    RUN.with_borrow_mut(|kept| {
        // Left out of its place while it is used: an agent on which something failed is not reused.
        let mut run = kept.take().unwrap_or_else(Run::new);
        run.agent.set_miss_to_controller(data.len() & 1 != 0);
        run.agent.set_standalone(data.len() & 2 != 0);
        match data {
            [SMALL, rest @ ..] => {
                for bytes in rest.as_chunks::<4>().0.iter().take(REQUESTS_MAX) {
                    let (version, mut message) = small::message(*bytes);
                    if let Message::PortMod(request) = &mut message {
                        request.hw_addr = run.hw_addr(request.port_no).unwrap_or(request.hw_addr);
                    }
                    run.request(version, message);
                }
            }
            _ => run.stream(data),
        }
        run.empty();
        *kept = Some(run);
    });
}

/// An agent under test, and what its switch held when it was new.
struct Run {
    agent: Agent,
    far: Vec<Handle>,
    fresh_actions: usize,
}

/// What a refusal must leave as it was.
#[derive(Debug, PartialEq)]
struct State {
    version: u64,
    flows: String,
    groups: String,
    meters: String,
    settings: SwitchConfig,
    ports: String,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.agent.switch().stop();
    }
}

impl Run {
    fn new() -> Run {
        let synchronised = ["2=1", "5=3,goto_table:6"].map(|text| text.parse().expect("it is one"));
        let small = Small { synchronised: synchronised.to_vec(), ..Small::default() };
        let (agent, far) = small.agent(Switch::start);
        let fresh_actions = agent.switch().with_pipeline(|p| p.added_actions().count());
        Run { agent, far, fresh_actions }
    }

    fn hw_addr(&self, port: PortNo) -> Option<MacAddr> {
        self.agent.port_descs().into_iter().find(|p| p.port_no == port).map(|p| p.hw_addr)
    }

    fn stream(&mut self, data: &[u8]) {
        let mut rest = data.to_vec();
        for _ in 0..REQUESTS_MAX {
            let [first, _, hi, lo, ..] = &rest[..] else { break };
            let version = if first & 1 == 1 { Version::V10 } else { Version::V13 };
            let length = usize::from(u16::from_be_bytes([*hi, *lo]));
            let whole = rest.len().min(usize::from(u16::MAX));
            let length = if (HEADER_LEN..=whole).contains(&length) { length } else { whole };
            let next = rest.split_off(length);
            let [first, _, hi, lo, ..] = &mut rest[..] else { break };
            *first = version.wire();
            [*hi, *lo] = (length as u16).to_be_bytes();
            if let Ok((_, message)) = decode(version, &rest) {
                self.request(version, message);
            }
            rest = next;
        }
    }

    fn state(&self) -> State {
        let agent = &self.agent;
        let flows =
            (0..agent.stores.flows.tables() as u8).flat_map(|table| agent.stores.flows.iter(table));
        State {
            version: agent.env.switch.with_pipeline(ir::Pipeline::version),
            flows: format!("{:?}", flows.collect::<Vec<_>>()),
            groups: format!("{:?}", agent.stores.groups),
            meters: format!("{:?}", agent.stores.meters),
            settings: agent.settings.config(),
            ports: format!(
                "{:?} {:?}",
                agent.stores.ports,
                agent.env.switch.ports().into_iter().map(|p| p.config).collect::<Vec<_>>()
            ),
        }
    }

    fn request(&mut self, version: Version, message: Message) {
        let before = self.state();
        match self.agent.handle(version, message.clone()) {
            Ok(replies) => {
                for reply in &replies {
                    readable(version, reply);
                }
            }
            Err(refusal) => {
                assert_eq!(self.state(), before, "refused ({refusal}), yet it did: {message:?}");
                let text = refusal.to_string();
                // Which pipeline update failed is for us to know before it gets there.
                assert_ne!(refusal.code(), ErrorCode::FmfcUnknown, "{text}: {message:?}");
            }
        }
        self.in_step();
        self.synchronised();
    }

    /// Each entry of a source that names an end has its reflection, and there are no others.
    fn synchronised(&self) {
        let agent = &self.agent;
        for one in &agent.env.config.synchronised {
            let reflected = agent.stores.flows.iter(one.from).filter(|(_, flow)| {
                let Some(matching) = flow.matching.transposed() else { return false };
                assert!(agent.is_reflection(one.table, flow.priority, &matching), "{flow:?}");
                true
            });
            let reflections =
                agent.stores.flows.iter(one.table).filter(|(_, flow)| flow.synchronised);
            assert_eq!(reflected.count(), reflections.count(), "{one:?}");
        }
    }

    /// What the store says is in the switch, is, and nothing else.
    fn in_step(&self) {
        let agent = &self.agent;
        agent.env.switch.with_pipeline(|pipeline| {
            for table in 0..agent.stores.flows.tables() as u8 {
                let of = |table| pipeline.entries(table);
                let own = ir::TableId(table.into());
                let held = of(own).len() + of(agent.env.layout.conjunctive_table(table)).len();
                let kept = agent.stores.flows.len(table) + agent.stores.conjunctions.entries(table);
                assert_eq!(held, kept, "table {table}");
                for (key, flow) in agent.stores.flows.iter(table) {
                    let part = conjunctive::part(&flow.matching, &flow.instructions);
                    let (place, matches) =
                        conjunctive::place(&agent.env.layout, table, &flow.matching, part);
                    let entry = of(place).get(ir::EntryId(key.id)).expect("the entry is there");
                    assert_eq!(entry.priority, i32::from(flow.priority));
                    assert_eq!(entry.matches, matches);
                    assert_eq!(entry.action.action, flow.action);
                    assert_eq!(entry.cookie, flow.cookie);
                    assert!(pipeline.action(flow.action).is_some(), "{flow:?}");
                    let found =
                        agent.stores.flows.find_strict(table, flow.priority, &flow.matching);
                    assert_eq!(found, Some(key));
                }
            }
            // Two groups are the agent's own: ALL and FLOOD.
            assert_eq!(pipeline.groups().count(), agent.stores.groups.len() + 2);
            for (id, group) in agent.stores.groups.iter() {
                let held = pipeline.group(ir::GroupId(id)).expect("the group is there");
                assert_eq!(held.buckets.len(), group.buckets.len());
                assert_eq!(held.counter, group.counter);
            }
            assert_eq!(pipeline.meters().count(), agent.stores.meters.len());
            for (id, meter) in agent.stores.meters.iter() {
                let held = pipeline.meter(ir::MeterId(id)).expect("the meter is there");
                assert_eq!(held.bands.len(), meter.bands.len());
            }
            assert_eq!(pipeline.added_actions().count(), agent.stage.len());
        });
    }

    /// Asks for all there is, reads all events, and deletes everything.
    fn empty(&mut self) {
        for far in &self.far {
            while far.take().is_some() {}
        }
        for event in self.agent.poll() {
            for version in Version::ALL {
                if event.is_for(version) {
                    let message = match event.clone() {
                        Event::PacketInTo(_, p) => Message::PacketIn(p),
                        // Nobody watches here.
                        Event::FlowChange(_) => continue,
                        Event::PacketIn(packet) => Message::PacketIn(packet),
                        Event::FlowRemoved(removed) => Message::FlowRemoved(removed),
                        Event::PortStatus(status) => Message::PortStatus(status),
                        Event::TableStatus(status) => Message::TableStatus(status),
                        Event::FlowStats(counts) => {
                            let body = openflow::MultipartReplyBody::FlowCounts(vec![counts]);
                            Message::MultipartReply(openflow::MultipartReply { more: false, body })
                        }
                    };
                    readable(version, &message);
                }
            }
        }
        self.in_step();
        self.must(Message::FlowMod(FlowMod {
            command: FlowModCommand::Delete,
            table_id: TableId::ALL,
            ..FlowMod::add(Match::new(), Instructions::new())
        }));
        self.must(Message::GroupMod(GroupMod {
            command_bucket: openflow::BucketId::ALL,
            selection: None,
            command: GroupModCommand::Delete,
            group_type: GroupType::All,
            group_id: GroupId::ALL,
            buckets: Vec::new(),
        }));
        self.must(Message::MeterMod(MeterMod {
            command: MeterModCommand::Delete,
            flags: MeterFlags::empty(),
            meter_id: MeterId::ALL,
            bands: Vec::new(),
        }));
        self.must(Message::SetConfig(SwitchConfig::DEFAULT));
        for port in self.agent.port_descs() {
            self.must(Message::PortMod(PortMod {
                port_no: port.port_no,
                hw_addr: port.hw_addr,
                config: PortConfig::empty(),
                mask: PortConfig::V13,
                advertise: PortFeatures::empty(),
            }));
        }
        self.agent.set_miss_to_controller(false);
        self.agent.set_standalone(false);
        assert!(self.agent.stores.flows.is_empty());
        assert!(self.agent.stores.groups.is_empty() && self.agent.stores.meters.is_empty());
        self.in_step();
        let actions = self.agent.env.switch.with_pipeline(|p| p.added_actions().count());
        assert_eq!(actions, self.fresh_actions, "an action that nothing uses");
    }

    fn must(&mut self, message: Message) {
        if let Err(refusal) = self.agent.handle(Version::V13, message.clone()) {
            panic!("{refusal}: {message:?}");
        }
    }
}

/// What goes to a controller encodes, and decodes as a message.
fn readable(version: Version, message: &Message) {
    let bytes = match encode(version, Xid(1), message) {
        Ok(bytes) => bytes,
        Err(error) => panic!("{error}: {message:?}"),
    };
    let mut rest = &bytes[..];
    while let openflow::codec::Frame::Message { length } = openflow::codec::frame(rest) {
        let (first, next) = rest.split_at(length);
        if let Err(error) = decode(version, first) {
            panic!("{error}: {message:?}");
        }
        rest = next;
    }
    assert!(rest.is_empty(), "{message:?}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn holds_on_seeds_and_random_bytes() {
        super::super::run_on("agent", 400, super::agent);
    }

    #[test]
    fn holds_on_requests_of_a_small_world() {
        for round in 0..60 {
            let mut rng = openflow::testing::Rng::new(round);
            let mut data = vec![super::SMALL];
            data.extend((0..400).map(|_| rng.u8()));
            super::agent(&data);
        }
    }
}
