//! A switch on memory ports with an agent and a channel, and a controller to talk to it.
#![allow(dead_code, unreachable_pub)] // each test takes what it needs

use of_channel::connection::Timing;
use of_channel::{Channel, Config, Listen};
use of_pipeline::lower::{self, ProgramConfig};
use of_pipeline::{Agent, AgentConfig};
use openflow::codec::{self, Frame};
use openflow::{
    Action, BucketId, FieldId, FlowMod, FlowModCommand, FlowStatsRequest, GroupId, GroupMod,
    GroupModCommand, GroupType, Hello, Instruction, Match, Message, MeterFlags, MeterId, MeterMod,
    MeterModCommand, MultipartReply, MultipartReplyBody, MultipartRequest, MultipartRequestBody,
    PortNo, TableId, Version, VersionSet, Xid,
};
use port::memory;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use switch::Switch;

/// What every answer must come within.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Bed {
    pub channel: Option<Channel>,
    pub agent: Arc<Mutex<Agent>>,
    pub switch: Switch,
    pub hosts: Vec<memory::Handle>,
}

/// A configuration that listens on a free port of the loopback.
pub fn listening() -> Config {
    let address = Ipv4Addr::LOCALHOST.into();
    Config {
        listeners: vec![Listen::Tcp { address, port: 0 }],
        timing: Timing { probe: Duration::from_secs(60) },
        ..Config::default()
    }
}

impl Bed {
    pub fn new(config: Config) -> Bed {
        Bed::with_punt_rate(config, 1_000_000)
    }

    pub fn with_punt_rate(config: Config, punt_rate: u64) -> Bed {
        let (program, _) = lower::program(&ProgramConfig::default());
        let program = Arc::new(program);
        let config_of_switch = switch::Config {
            program,
            workers: 1,
            cpus: Vec::new(),
            punt_rate,
            engine: Default::default(),
            validate: None,
        };
        let switch = Switch::start(config_of_switch).unwrap();
        let mut hosts = Vec::new();
        for name in ["one", "two"] {
            let (port, host) = memory::port(name, memory::Config::default()).unwrap();
            switch.add_port(None, Box::new(port)).unwrap();
            hosts.push(host);
        }
        let agent = Agent::new(switch.clone(), AgentConfig::default()).unwrap();
        let agent = Arc::new(Mutex::new(agent));
        let channel = Channel::start(switch.clone(), agent.clone(), config).unwrap();
        Bed { channel: Some(channel), agent, switch, hosts }
    }

    pub fn channel(&self) -> &Channel {
        self.channel.as_ref().unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        match self.channel().listening()[0] {
            Listen::Tcp { address, port } | Listen::Tls { address, port } => (address, port).into(),
            Listen::Unix(_) => panic!("a UNIX socket comes first"),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub fn controller(&self, version: Version) -> Controller {
        Controller::new(self.connect(), version)
    }

    pub fn flows(&self) -> usize {
        let agent = self.agent.lock().unwrap();
        (0..=253).map(|table| agent.flows().len(table)).sum()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.channel = None;
        self.switch.stop();
    }
}

pub struct Controller {
    pub stream: TcpStream,
    pub version: Version,
    input: Vec<u8>,
    xid: u32,
}

impl Controller {
    /// Shakes hands.
    pub fn new(stream: TcpStream, version: Version) -> Controller {
        let mut controller = Controller::silent(stream, version);
        let versions = Some(VersionSet::of(&[version]));
        controller.send(&Message::Hello(Hello { versions }));
        assert!(matches!(controller.next(), Some((_, Message::Hello(_)))));
        // Answered after the hello is handled: from here on we are a member.
        controller.barrier();
        controller
    }

    /// Says nothing yet.
    pub fn silent(stream: TcpStream, version: Version) -> Controller {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Controller { stream, version, input: Vec::new(), xid: 0x100 }
    }

    pub fn encode(&mut self, message: &Message) -> (Xid, Vec<u8>) {
        self.xid += 1;
        (Xid(self.xid), codec::encode(self.version, Xid(self.xid), message).unwrap())
    }

    pub fn send(&mut self, message: &Message) -> Xid {
        let (xid, bytes) = self.encode(message);
        self.stream.write_all(&bytes).unwrap();
        xid
    }

    /// The next message; none at the end of the stream. Panics if nothing comes.
    pub fn next(&mut self) -> Option<(Xid, Message)> {
        self.next_within(PATIENCE).expect("nothing came")
    }

    /// As [`next`](Self::next); the outer option is none if nothing came in time.
    pub fn next_within(&mut self, time: Duration) -> Option<Option<(Xid, Message)>> {
        let until = Instant::now() + time;
        loop {
            if let Frame::Message { length } = codec::frame(&self.input) {
                let bytes: Vec<u8> = self.input.drain(..length).collect();
                return Some(Some(codec::decode(self.version, &bytes).unwrap()));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            let mut chunk = [0; 65536];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Some(None),
                Ok(n) => self.input.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return Some(None),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) => panic!("{e}"),
            }
        }
    }

    /// Everything up to the message with this xid, which comes last. Echo requests are answered.
    pub fn until(&mut self, xid: Xid) -> Vec<(Xid, Message)> {
        let mut all = Vec::new();
        loop {
            let (at, message) = self.next().expect("closed");
            all.push((at, message));
            if at == xid {
                return all;
            }
        }
    }

    /// The answer to a message.
    pub fn ask(&mut self, message: &Message) -> Message {
        let xid = self.send(message);
        self.until(xid).pop().unwrap().1
    }

    /// What came before the answer to a barrier.
    pub fn barrier(&mut self) -> Vec<(Xid, Message)> {
        let xid = self.send(&Message::BarrierRequest);
        let mut all = self.until(xid);
        assert!(matches!(all.pop(), Some((_, Message::BarrierReply))));
        all
    }

    /// Takes all flow entries, groups and meters away.
    pub fn clear(&mut self) {
        let flows = FlowMod {
            command: FlowModCommand::Delete,
            table_id: TableId::ALL,
            ..FlowMod::add(Match::new(), Default::default())
        };
        let groups = GroupMod {
            command: GroupModCommand::Delete,
            group_type: GroupType::All,
            group_id: GroupId::ALL,
            command_bucket: BucketId::ALL,
            selection: None,
            buckets: Vec::new(),
        };
        let meters = MeterMod {
            command: MeterModCommand::Delete,
            flags: MeterFlags::KBPS,
            meter_id: MeterId::ALL,
            bands: Vec::new(),
        };
        self.send(&Message::FlowMod(flows));
        self.send(&Message::GroupMod(groups));
        self.send(&Message::MeterMod(meters));
        let refused = |(_, m): &(Xid, Message)| matches!(m, Message::Error(_));
        assert!(!self.barrier().iter().any(refused), "a delete was refused");
    }

    /// Flow entries, as the switch tells them.
    pub fn dump(&mut self) -> Vec<openflow::FlowStats> {
        let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
        let xid = self.send(&Message::MultipartRequest(MultipartRequest { more: false, body }));
        let mut flows = Vec::new();
        loop {
            match self.next().expect("closed") {
                (at, Message::MultipartReply(MultipartReply { more, body })) if at == xid => {
                    let MultipartReplyBody::Flow(part) = body else { panic!("{body:?}") };
                    flows.extend(part);
                    if !more {
                        return flows;
                    }
                }
                (_, Message::Error(error)) => panic!("{error:?}"),
                _ => {}
            }
        }
    }
}

/// An entry that sends frames of this source address out of port 2.
pub fn flow(number: u32) -> FlowMod {
    let matching = Match::new().with(FieldId::EthSrc, 0x0200_0000_0000 | u128::from(number));
    let output = Action::output(PortNo(2));
    FlowMod::add(matching, [Instruction::ApplyActions(vec![output])].into_iter().collect())
}

/// An entry that sends all frames to the controller.
pub fn to_controller() -> FlowMod {
    let output = Action::output(PortNo::CONTROLLER);
    let instructions = [Instruction::ApplyActions(vec![output])].into_iter().collect();
    FlowMod { priority: 0, ..FlowMod::add(Match::new(), instructions) }
}

/// An Ethernet frame from this source.
pub fn frame(source: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.max(60)];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0xff]);
    bytes[6..8].copy_from_slice(&[2, 0]);
    bytes[8..12].copy_from_slice(&source.to_be_bytes());
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes
}

/// Waits for something that others do.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what}: in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}
