//! Entries as Antrea's and Neutron's agents write them, and Open vSwitch's answers to frames (`conformance/agents` records them):
//! compiled code and the interpreter send the same, and no packet is interpreted once there is code.
//!
//! Bridges are switches of their own here. What leaves by a patch port is put into the other one.

use super::bed::V13;
use crate::vlans::NormalConfig;
use crate::{Agent, AgentConfig};
use contract::tunnel::OptionMap;
use datapath::services::Services;
use of_lower::ProgramConfig;
use of_lower::normal::config::{PortVlans, PriorityTags, VlanMode};
use of_lower::tunnel::descriptor;
use openflow::syntax::{Context, parse_flow, parse_group, parse_meter};
use openflow::{
    FieldId, Match, Message, MultipartReply, MultipartReplyBody, MultipartRequest,
    MultipartRequestBody, PortConfig, PortFeatures, PortMod, PortNo, Version,
};
use port::memory::{self, Handle};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::{Config, EngineKind, Switch};

const ANTREA: &str = include_str!("antrea.txt");
const NEUTRON: &str = include_str!("neutron.txt");

/// Where a descriptor has the tunnel's destination, and its key.
const TUN_DST: std::ops::Range<usize> = 20..24;
const TUN_ID: std::ops::Range<usize> = 24..32;
/// Ethernet's least length, to which frames are padded before they are compared.
const FRAME_MIN: usize = 60;

/// A port of a bridge.
type Place = (&'static str, u32);

struct Bridge {
    agent: Agent,
    far: BTreeMap<u32, Handle>,
    normal: NormalConfig,
    sent: u64,
}

impl Bridge {
    fn new(engine: EngineKind) -> Bridge {
        let program = ProgramConfig { tables: 100, table_capacity: 4000, normal_capacity: 100 };
        let (ir, _) = of_lower::program(&program);
        let mut services = Services::default();
        let room = service::conntrack::Config::new(10_000, 7);
        services.track(service::conntrack::Config { translated_max: 5000, ..room });
        services.soft();
        let config = Config {
            program: Arc::new(ir),
            workers: 1,
            cpus: vec![],
            punt_rate: 1_000_000,
            engine,
            validate: None,
        };
        let switch = Switch::start_with(config, services).expect("a switch starts");
        let config = AgentConfig {
            program,
            groups_max: 100,
            meters_max: 300,
            flows_max: 100_000,
            ..AgentConfig::default()
        };
        let agent = Agent::new(switch, config).expect("an agent takes charge");
        Bridge { agent, far: BTreeMap::new(), normal: NormalConfig::default(), sent: 0 }
    }

    fn add_port(&mut self, number: u32, described: bool) {
        let config = memory::Config { described, ..memory::Config::default() };
        let (near, far) = memory::port(&format!("p{number}"), config).expect("a port");
        self.agent.switch().add_port(Some(number), Box::new(near)).expect("it is taken");
        self.agent.follow_ports();
        self.far.insert(number, far);
    }

    fn tell(&mut self, version: Version, message: Message, line: &str) {
        if let Err(refusal) = self.agent.handle(version, message) {
            panic!("{refusal}: {line}");
        }
    }

    /// Has a port left out where packets are flooded.
    fn no_flood(&mut self, number: u32, line: &str) {
        let body = MultipartRequestBody::PortDesc(PortNo::ANY);
        let request = Message::MultipartRequest(MultipartRequest { more: false, body });
        let replies = self.agent.handle(V13, request).expect("ports are told");
        let ports = replies.into_iter().flat_map(|reply| match reply {
            Message::MultipartReply(MultipartReply {
                body: MultipartReplyBody::PortDesc(p),
                ..
            }) => p,
            other => panic!("{other:?}"),
        });
        let port =
            ports.into_iter().find(|port| port.port_no == PortNo(number)).expect("it is there");
        let (config, advertise) = (PortConfig::NO_FLOOD, PortFeatures::empty());
        let change = PortMod {
            port_no: port.port_no,
            hw_addr: port.hw_addr,
            config,
            mask: config,
            advertise,
        };
        self.tell(V13, Message::PortMod(change), line);
    }

    /// Waits until there is code for all that was told and learned.
    fn rest(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        self.agent.poll();
        self.agent.switch().sync();
        while !self.agent.switch().is_settled() {
            assert!(Instant::now() < until, "the engine does not come to rest");
            self.agent.switch().advance();
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Puts a frame on a port; what came out of others.
    fn send(&mut self, number: u32, bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.agent.switch().sync();
        assert!(self.far[&number].inject_bytes(bytes));
        self.sent += 1;
        let switch = self.agent.switch();
        let until = Instant::now() + Duration::from_secs(60);
        let taken = || {
            switch
                .port_counters()
                .into_iter()
                .map(|(_, counters, _)| counters.rx_packets)
                .sum::<u64>()
        };
        while taken() < self.sent {
            assert!(Instant::now() < until, "the frame is not received");
            std::thread::sleep(Duration::from_micros(100));
        }
        // What a worker received counts before it is run: a command is obeyed behind it.
        switch.set_receiving(true);
        self.agent.poll();
        let mut out = Vec::new();
        for (port, far) in &self.far {
            while let Some(frame) = far.take() {
                out.push((*port, frame.data().to_vec()));
            }
        }
        out
    }
}

/// Bridges, by name, and what joins them.
struct World {
    bridges: BTreeMap<&'static str, Bridge>,
    patches: BTreeMap<Place, Place>,
    /// Tunnel ports; the remote end if it is the port's own.
    tunnels: BTreeMap<Place, Option<Ipv4Addr>>,
    map: OptionMap,
}

/// A frame as a line has it: `BRIDGE PORT KEY SOURCE DESTINATION OCTETS`; keys and addresses are a tunnel's, or `-`.
struct Told {
    place: Place,
    key: Option<u64>,
    source: Option<Ipv4Addr>,
    destination: Option<Ipv4Addr>,
    bytes: Vec<u8>,
}

impl Told {
    fn read(line: &'static str) -> Told {
        let words: Vec<&str> = line.split(' ').collect();
        let [bridge, port, key, source, destination, octets] = words[..] else { panic!("{line}") };
        let digits = octets.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
        Told {
            place: (bridge, port.parse().unwrap()),
            key: key.parse().ok(),
            source: source.parse().ok(),
            destination: destination.parse().ok(),
            bytes: digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect(),
        }
    }

    fn padded(mut self) -> Told {
        self.bytes.resize(self.bytes.len().max(FRAME_MIN), 0);
        self
    }
}

impl World {
    fn read(engine: &EngineKind, text: &'static str) -> World {
        let mut world = World {
            bridges: BTreeMap::new(),
            patches: BTreeMap::new(),
            tunnels: BTreeMap::new(),
            map: OptionMap::default(),
        };
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap();
            if matches!(word, ">" | "<") {
                break;
            }
            let words: Vec<&'static str> = rest.splitn(3, ' ').collect();
            let bridge = |world: &mut World, name: &'static str| {
                world.bridges.entry(name).or_insert_with(|| Bridge::new(engine.clone()));
            };
            bridge(&mut world, words[0]);
            let number = || words[1].parse::<u32>().unwrap();
            let here = world.bridges.get_mut(words[0]).unwrap();
            match word {
                "port" => {
                    here.add_port(number(), false);
                    if let Ok(tag) = words[2].parse() {
                        let (mode, priority_tags) = (VlanMode::Access(tag), PriorityTags::Never);
                        let vlans = PortVlans { mode, vlans: None, priority_tags };
                        here.normal.ports.insert(number(), vlans);
                        here.agent.set_normal_config(here.normal.clone()).unwrap();
                    }
                }
                "tunnel" => {
                    here.add_port(number(), true);
                    world.tunnels.insert((words[0], number()), words[2].parse().ok());
                }
                "no-flood" => here.no_flood(number(), line),
                "patch" => {
                    let (other, port) = words[2].split_once(' ').unwrap();
                    let (a, b) = ((words[0], number()), (other, port.parse().unwrap()));
                    here.add_port(a.1, false);
                    bridge(&mut world, b.0);
                    world.bridges.get_mut(b.0).unwrap().add_port(b.1, false);
                    world.patches.extend([(a, b), (b, a)]);
                }
                _ => {
                    let version = if words[1] == "15" { Version::V15 } else { V13 };
                    let cx = Context::new(version);
                    let message = match word {
                        "flow" => parse_flow(words[2], &cx).map(Message::FlowMod),
                        "group" => parse_group(words[2], &cx).map(Message::GroupMod),
                        "meter" => parse_meter(words[2], &cx).map(Message::MeterMod),
                        other => panic!("{other}"),
                    };
                    here.tell(version, message.unwrap_or_else(|e| panic!("{e}: {line}")), line);
                }
            }
        }
        world
    }

    /// What comes out of hosts' ports and tunnels for a frame.
    fn send(&mut self, told: &Told) -> Vec<Told> {
        let mut bytes = told.bytes.clone();
        if let Some(key) = told.key {
            let address = |of: Option<Ipv4Addr>| u128::from(of.unwrap().to_bits());
            let fields = Match::new()
                .with(FieldId::TunnelId, key.into())
                .with(FieldId::TunSrc, address(told.source))
                .with(FieldId::TunDst, address(told.destination));
            bytes = [descriptor(&self.map, &fields), bytes].concat();
        }
        let mut waiting = vec![(told.place, bytes)];
        let mut came = Vec::new();
        while let Some(((name, port), bytes)) = waiting.pop() {
            for (port, bytes) in self.bridges.get_mut(name).unwrap().send(port, &bytes) {
                let place = (name, port);
                if let Some(other) = self.patches.get(&place) {
                    waiting.push((*other, bytes));
                    continue;
                }
                let Some(remote) = self.tunnels.get(&place) else {
                    let (key, source, destination) = (None, None, None);
                    came.push(Told { place, key, source, destination, bytes });
                    continue;
                };
                let at = self.map.descriptor_len();
                let number = |range| u64::from_str_radix(&hex(&bytes[range]), 16).unwrap();
                let flowing = Ipv4Addr::from_bits(number(TUN_DST) as u32);
                let destination = remote.or(Some(flowing));
                // Without one there is nowhere to send it.
                if destination == Some(Ipv4Addr::UNSPECIFIED) {
                    continue;
                }
                let (key, bytes) = (Some(number(TUN_ID)), bytes[at..].to_vec());
                came.push(Told { place, key, source: None, destination, bytes });
            }
        }
        came
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A frame as it is compared: where, by which tunnel, and what.
fn shown(told: Told) -> String {
    let told = told.padded();
    let (key, destination) = (told.key.unwrap_or(0), told.destination.map(|ip| ip.to_string()));
    let Told { place: (bridge, port), bytes, .. } = told;
    format!("{bridge} {port} {key} {} {}", destination.unwrap_or_default(), hex(&bytes))
}

/// Plays all frames; how many there were, and which were answered otherwise than by Open vSwitch.
fn played(engine: EngineKind, text: &'static str) -> (usize, Vec<String>) {
    let mut world = World::read(&engine, text);
    world.bridges.values_mut().for_each(Bridge::rest);
    let lines = text.lines().skip_while(|line| !line.starts_with('>'));
    let (mut frames, mut wrong) = (0, Vec::new());
    let (mut sent, mut came, mut expected): (Vec<&str>, Vec<String>, Vec<String>) =
        (Vec::new(), Vec::new(), Vec::new());
    for line in lines.chain(["> "]) {
        match line.split_at(2) {
            ("< ", answer) => expected.push(shown(Told::read(answer))),
            (_, frame) => {
                // Frames that follow each other are answered together.
                if !expected.is_empty() || frame.is_empty() || came.is_empty() {
                    came.sort();
                    expected.sort();
                    if came != expected {
                        wrong.push(format!("{sent:?}:\n  came {came:#?}\n  not {expected:#?}"));
                    }
                    (sent, came, expected) = Default::default();
                }
                if !frame.is_empty() {
                    frames += 1;
                    sent.push(frame);
                    came.extend(world.send(&Told::read(frame)).into_iter().map(shown));
                }
            }
        }
    }
    // All that is learned is there now, and code for it: none of the same frames is interpreted.
    if matches!(engine, EngineKind::Jit(_)) {
        let interpreted = |world: &World| {
            let ran = world.bridges.values().map(|bridge| bridge.agent.switch().ran());
            ran.map(|ran| ran.interpreter.packets).sum::<u64>()
        };
        world.bridges.values_mut().for_each(Bridge::rest);
        let before = interpreted(&world);
        for frame in text.lines().filter_map(|line| line.strip_prefix("> ")) {
            world.send(&Told::read(frame));
        }
        assert_eq!(interpreted(&world) - before, 0, "packets were interpreted");
    }
    world.bridges.values().for_each(|bridge| bridge.agent.switch().stop());
    (frames, wrong)
}

fn check(text: &'static str, frames_min: usize) {
    for engine in [EngineKind::default(), EngineKind::Interp] {
        let (frames, wrong) = played(engine, text);
        assert!(
            wrong.is_empty(),
            "{} of {frames}: {}",
            wrong.len(),
            wrong[..wrong.len().min(5)].join("\n")
        );
        assert!(frames >= frames_min, "{frames} frames");
    }
}

#[test]
fn antrea_s_entries_forward_as_by_open_vswitch() {
    check(ANTREA, 1000);
}

#[test]
fn neutron_s_entries_forward_as_by_open_vswitch() {
    check(NEUTRON, 1000);
}
