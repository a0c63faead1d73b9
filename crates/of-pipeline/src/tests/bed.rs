//! A small switch, and what tests ask of its agent.

use crate::bed::Small;
pub(super) use crate::bed::program;
use crate::{Agent, Event, Refusal, Synchronised};
use datapath::services::Services;
use ir::DropReason;
use of_lower::ProgramConfig;
use openflow::{
    Action, ErrorCode, FieldId, FlowMod, FlowModCommand, FlowStats, FlowStatsRequest, Instruction,
    Instructions, Match, Message, MultipartReplyBody, MultipartRequest, MultipartRequestBody,
    PortNo, TableId, Version,
};
use port::memory::Handle;
use std::cell::Cell;
use std::time::{Duration, Instant};
use switch::{EngineKind, Switch};

pub(super) const V10: Version = Version::V10;
pub(super) const V13: Version = Version::V13;

/// How long something may take that takes no time.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for something that must not come.
const SILENCE: Duration = Duration::from_millis(30);

pub(super) struct Bed {
    pub(super) agent: Agent,
    pub(super) far: Vec<Handle>,
    /// Frames that were put on ports.
    sent: Cell<u64>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.agent.switch().stop();
    }
}

impl Bed {
    /// A small switch with so many ports, numbered from 1.
    pub(super) fn new(ports: usize) -> Bed {
        Bed::of(program(), ports)
    }

    pub(super) fn of(program: ProgramConfig, ports: usize) -> Bed {
        Bed::by(EngineKind::default(), program, ports)
    }

    /// The same by an engine.
    pub(super) fn by(engine: EngineKind, program: ProgramConfig, ports: usize) -> Bed {
        Bed::synchronised(engine, program, ports, Vec::new())
    }

    /// The same, with tables that reflect others.
    pub(super) fn synchronised(
        engine: EngineKind,
        program: ProgramConfig,
        ports: usize,
        synchronised: Vec<Synchronised>,
    ) -> Bed {
        let mut services = Services::default();
        let room = service::conntrack::Config::new(1000, 7);
        services.track(service::conntrack::Config { translated_max: 100, ..room });
        services.soft();
        let small = Small { engine, program, ports: ports as u32, synchronised };
        let (agent, far) = small.agent(|config| Switch::start_with(config, services));
        Bed { agent, far, sent: Cell::new(0) }
    }

    /// Executes a request that must succeed.
    pub(super) fn ok(&mut self, message: impl Into<Request>) -> Vec<Message> {
        let Request(version, message) = message.into();
        match self.agent.handle(version, message.clone()) {
            Ok(replies) => replies,
            Err(refusal) => panic!("{refusal}: {message:?}"),
        }
    }

    /// Executes a request that must be refused, and gives the code.
    pub(super) fn refused(&mut self, message: impl Into<Request>) -> ErrorCode {
        self.refusal(message).code()
    }

    pub(super) fn refusal(&mut self, message: impl Into<Request>) -> Refusal {
        let Request(version, message) = message.into();
        let before = self.flows(TableId::ALL).len();
        match self.agent.handle(version, message.clone()) {
            Ok(_) => panic!("not refused: {message:?}"),
            Err(refusal) => {
                assert_eq!(self.flows(TableId::ALL).len(), before, "a refusal changes nothing");
                refusal
            }
        }
    }

    /// One multipart request, its reply's parts.
    pub(super) fn ask(
        &mut self,
        version: Version,
        body: MultipartRequestBody,
    ) -> Vec<MultipartReplyBody> {
        let request = MultipartRequest { more: false, body };
        let replies = self.ok(Request(version, Message::MultipartRequest(request)));
        let bodies = replies.into_iter().map(|message| match message {
            Message::MultipartReply(reply) => reply.body,
            other => panic!("{other:?}"),
        });
        bodies.collect()
    }

    /// Statistics of the entries of a table.
    pub(super) fn flows(&mut self, table_id: TableId) -> Vec<FlowStats> {
        let request = FlowStatsRequest { table_id, ..FlowStatsRequest::all() };
        self.flows_by(request)
    }

    pub(super) fn flows_by(&mut self, request: FlowStatsRequest) -> Vec<FlowStats> {
        let parts = self.ask(V13, MultipartRequestBody::Flow(request));
        let flows = parts.into_iter().flat_map(|body| match body {
            MultipartReplyBody::Flow(flows) => flows,
            other => panic!("{other:?}"),
        });
        flows.collect()
    }

    /// Puts a frame on a port once everything before is in force.
    pub(super) fn send(&self, port: usize, frame: &[u8]) {
        self.agent.switch().sync();
        assert!(self.far[port - 1].inject_bytes(frame));
        self.sent.set(self.sent.get() + 1);
    }

    /// Puts frames on a port such that the switch finds all of them there at once, as one burst of up to 32.
    pub(super) fn burst(&self, port: usize, frames: &[Vec<u8>]) {
        let switch = self.agent.switch();
        switch.sync();
        switch.set_receiving(false);
        for frame in frames {
            assert!(self.far[port - 1].inject_bytes(frame));
        }
        self.sent.set(self.sent.get() + frames.len() as u64);
        switch.set_receiving(true);
    }

    /// Returns when all frames that were put on ports are done with, however busy the machine is.
    pub(super) fn settle(&self) {
        let switch = self.agent.switch();
        let until = Instant::now() + Duration::from_secs(60);
        let taken = || {
            let ports = switch.port_counters().into_iter().map(|(_, counters, _)| counters);
            ports.chain([switch.departed()]).map(|counters| counters.rx_packets).sum::<u64>()
        };
        while taken() < self.sent.get() {
            assert!(Instant::now() < until, "frames that were put on ports are not received");
            std::thread::sleep(Duration::from_millis(1));
        }
        // What a worker received counts before it is run: a command is obeyed behind it.
        switch.set_receiving(true);
    }

    /// What comes out of a port of all that was put on ports, if anything.
    pub(super) fn taken(&self, port: usize) -> Option<Vec<u8>> {
        self.settle();
        self.far[port - 1].take().map(|frame| frame.data().to_vec())
    }

    /// What comes out of a port, within patience.
    pub(super) fn receive(&self, port: usize) -> Vec<u8> {
        match self.far[port - 1].take_within(PATIENCE) {
            Some(frame) => frame.data().to_vec(),
            None => panic!("nothing came out of port {port}"),
        }
    }

    /// How many packets were given up for a reason, of all that were put on ports and injected.
    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.settle();
        let switch = self.agent.switch();
        let ports = switch.port_counters().into_iter().map(|(_, counters, _)| counters);
        let all = ports.chain([switch.injected()]).flat_map(|counters| counters.drops);
        all.filter(|(word, _)| *word == reason.word()).map(|(_, n)| n).sum()
    }

    /// Nothing comes out of a port of all that was put on ports.
    pub(super) fn silent(&self, port: usize) {
        self.settle();
        let frame = self.far[port - 1].take();
        assert!(frame.is_none(), "port {port} sent something");
    }

    /// The next event that `pick` picks; others are passed over.
    pub(super) fn event<T>(&mut self, pick: impl Fn(&Event) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.agent.poll().iter().find_map(&pick) {
                return found;
            }
            assert!(Instant::now() < until, "the event did not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// No event comes.
    pub(super) fn no_event(&mut self) {
        self.settle();
        std::thread::sleep(SILENCE);
        assert_eq!(self.agent.poll(), []);
    }

    /// Polls until something is so.
    pub(super) fn until(&mut self, what: &str, so: impl Fn(&Bed) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !so(self) {
            assert!(Instant::now() < until, "{what}");
            self.agent.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A message in a version; 1.3 unless told.
pub(super) struct Request(pub(super) Version, pub(super) Message);

impl From<Message> for Request {
    fn from(message: Message) -> Request {
        Request(V13, message)
    }
}

impl From<FlowMod> for Request {
    fn from(request: FlowMod) -> Request {
        Request(request.dialect, Message::FlowMod(request))
    }
}

impl From<openflow::GroupMod> for Request {
    fn from(request: openflow::GroupMod) -> Request {
        Request(V13, Message::GroupMod(request))
    }
}

impl From<openflow::MeterMod> for Request {
    fn from(request: openflow::MeterMod) -> Request {
        Request(V13, Message::MeterMod(request))
    }
}

impl From<openflow::PacketOut> for Request {
    fn from(request: openflow::PacketOut) -> Request {
        Request(V13, Message::PacketOut(request))
    }
}

impl From<MultipartRequestBody> for Request {
    fn from(body: MultipartRequestBody) -> Request {
        Request(V13, Message::MultipartRequest(MultipartRequest { more: false, body }))
    }
}

pub(super) fn output(port: u32) -> Action {
    Action::output(PortNo(port))
}

pub(super) fn apply(actions: impl IntoIterator<Item = Action>) -> Instructions {
    Instructions::from_iter([Instruction::ApplyActions(actions.into_iter().collect())])
}

/// A match of an ingress port.
pub(super) fn from_port(port: u32) -> Match {
    Match::new().with(FieldId::InPort, port.into())
}

/// An add to table 0.
pub(super) fn add(matching: Match, instructions: Instructions) -> FlowMod {
    FlowMod::add(matching, instructions)
}

pub(super) fn with_command(command: FlowModCommand, request: FlowMod) -> FlowMod {
    FlowMod { command, ..request }
}

/// A delete of all that a match covers, in all tables.
pub(super) fn delete(matching: Match) -> FlowMod {
    let request = FlowMod::add(matching, Instructions::new());
    FlowMod { command: FlowModCommand::Delete, table_id: TableId::ALL, ..request }
}

/// The same as 1.0 says it.
pub(super) fn v10(request: FlowMod) -> FlowMod {
    FlowMod { dialect: V10, table_id: TableId::ALL, ..request }
}

/// An Ethernet frame of 60 bytes of no known protocol.
pub(super) fn frame(dst: u64, src: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(60);
    bytes.extend_from_slice(&dst.to_be_bytes()[2..]);
    bytes.extend_from_slice(&src.to_be_bytes()[2..]);
    bytes.extend_from_slice(&0x88b5u16.to_be_bytes());
    bytes.resize(60, 0);
    bytes
}
