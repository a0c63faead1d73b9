//! What would happen to a packet, step by step, by the version in force. Nothing is sent, counted or
//! learnt; meters are taken as green, registers as they are. The connection tracker says what it knows, and translates the
//! packet as it would, but keeps nothing. Services that flows name would remember the packet, so they are not called:
//! [`Traced::not_called`] names them.

use crate::switch::Switch;
use datapath::engine::{Forward, Scratch};
use datapath::ports::PortTable;
use datapath::services::{Call, Services, elements};
use interp::{Color, Externs, Input, Packet, Punt, Start, Trace};
use ir::{Bits, DigestId, PortIs, PuntReason, Verdict};
use std::sync::Arc;

/// What would happen.
pub struct Traced {
    /// The version that was asked.
    pub version: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// Every step.
    pub trace: Trace,
    /// Frames that would leave: port and bytes.
    pub outputs: Vec<(u32, Vec<u8>)>,
    /// The queues of their ports by which these frames would leave, one for each; 0 where none was chosen.
    pub queues: Vec<u32>,
    /// To how many bytes these frames would be cut at most, one for each; none where nothing says so.
    pub cuts: Vec<Option<u32>>,
    /// Copies that would go to the control side.
    pub punts: Vec<(PuntReason, Vec<u8>)>,
    /// Services on the packet's way that were not called, each once. From there on it is taken as it was before.
    pub not_called: Vec<String>,
}

#[derive(Default)]
struct Record {
    outputs: Vec<(u32, Vec<u8>)>,
    queues: Vec<u32>,
    cuts: Vec<Option<u32>>,
    /// Of the next output.
    cut: Option<u32>,
    punts: Vec<(PuntReason, Vec<u8>)>,
}

impl interp::Sink for Record {
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>) {
        self.queues.push(queue);
        self.cuts.push(self.cut.take());
        self.outputs.push((port, [packet.headers, packet.payload].concat()));
    }

    fn cut_to(&mut self, bytes: u32) {
        self.cut = Some(bytes);
    }

    fn punt(&mut self, punt: Punt<'_>) {
        self.punts.push((punt.reason, [punt.packet.headers, punt.packet.payload].concat()));
    }

    fn digest(&mut self, _digest: DigestId, _args: &[Bits]) {}
}

/// Reads what workers read; writes nothing.
struct ReadOnly {
    forward: Arc<dyn Forward>,
    ports: Arc<PortTable>,
    services: Services,
    now_ns: u64,
    not_called: Vec<String>,
}

impl Externs for ReadOnly {
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        self.ports.is(what, port)
    }

    fn count_table(&mut self, _table: ir::TableId, _hit: bool) {}

    fn count_entry(&mut self, _table: ir::TableId, _entry: ir::EntryId, _bytes: u32) {}

    fn count(&mut self, _counter: ir::CounterId, _bytes: u32) {}

    fn count_indirect(&mut self, _array: u32, _index: u32, _bytes: u32) {}

    fn meter(&mut self, _meter: ir::MeterId, _bytes: u32) -> Color {
        Color { color: 0, level: 0 }
    }

    fn service(
        &mut self,
        service: &ir::program::Service,
        args: &[Bits],
        packet: &mut Vec<u8>,
        results: &mut [Bits],
    ) -> bool {
        let (csum, now_ns) = (port::Csum::None, self.now_ns);
        let look = true;
        if [elements::NAME, elements::EDIT_NAME].contains(&&*service.name) {
            let number = args.first().map_or(0, Bits::low_u64) as u32;
            let named = self.services.elements().and_then(|elements| elements.get(number));
            if let Some(named) = named.filter(|named| !self.not_called.contains(&named.name)) {
                self.not_called.push(named.name.clone());
            }
        }
        self.services.call(Call { service, args, packet, csum, now_ns, look, news: None }, results)
    }

    fn register_read(&mut self, register: ir::RegisterId, index: u32) -> Option<Bits> {
        self.forward.state().read_register(register, index)
    }

    fn register_write(&mut self, _register: ir::RegisterId, _index: u32, _value: Bits) {}

    fn random(&mut self, lo: &Bits, _hi: &Bits) -> Bits {
        lo.clone()
    }
}

impl Switch {
    /// What would happen to a packet that came in by `in_port` now.
    pub fn trace(&self, in_port: u32, bytes: &[u8]) -> Traced {
        self.sync();
        let forward = self.inner.publisher.snapshot();
        let mut externs = ReadOnly {
            forward: forward.clone(),
            ports: self.inner.port_table(),
            services: self.inner.services.clone(),
            now_ns: self.now_ns(),
            not_called: Vec::new(),
        };
        let mut record = Record::default();
        let input = Input { bytes, in_port, now_ns: self.now_ns(), start: Start::Pipeline };
        let (verdict, trace) =
            forward.trace(&mut Scratch::default(), input, &mut externs, &mut record);
        let Record { outputs, queues, cuts, cut: _, punts } = record;
        let not_called = externs.not_called;
        let version = forward.version();
        Traced { version, verdict, trace, outputs, queues, cuts, punts, not_called }
    }
}
