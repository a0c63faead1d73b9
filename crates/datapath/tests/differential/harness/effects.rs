//! What a packet does, kept in buffers that are used again, and what it counts.

use interp::{Caller, Color, Externs, Packet, Punt, Sink};
use ir::testing::Rng;
use ir::{
    Bits, CounterId, DigestId, EntryId, GroupId, MeterId, Pipeline, PortIs, Program, PuntReason,
    RegisterId, TableId, Verdict,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Something that left.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Out {
        port: u32,
        queue: u32,
        bytes: Range<usize>,
    },
    Punt {
        reason: PuntReason,
        table: Option<TableId>,
        entry: Option<EntryId>,
        bucket: Option<(GroupId, u32)>,
        callers: Vec<Caller>,
        args: Vec<Bits>,
        bytes: Range<usize>,
    },
    Digest(DigestId, Vec<Bits>),
}

/// All that a packet did, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    bytes: Vec<u8>,
    events: Vec<Event>,
    verdict: Option<Verdict>,
}

impl Effects {
    /// Nothing, again.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.events.clear();
        self.verdict = None;
    }

    /// What became of the packet.
    pub(crate) fn end(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
    }

    /// A copy went to a port.
    pub(crate) fn out(&mut self, port: u32, queue: u32, bytes: &[u8]) {
        let bytes = self.keep(bytes, &[]);
        self.events.push(Event::Out { port, queue, bytes });
    }

    fn keep(&mut self, a: &[u8], b: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(a);
        self.bytes.extend_from_slice(b);
        start..self.bytes.len()
    }

    /// The packet left by a port.
    pub(crate) fn forwarded(&self) -> bool {
        self.verdict == Some(Verdict::Forward)
    }
}

/// Equal events lie at equal places, as each begins where the one before it ends.
impl PartialEq for Effects {
    fn eq(&self, other: &Effects) -> bool {
        self.verdict == other.verdict && self.events == other.events && self.bytes == other.bytes
    }
}

impl Sink for Effects {
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>) {
        let bytes = self.keep(packet.headers, packet.payload);
        self.events.push(Event::Out { port, queue, bytes });
    }

    fn punt(&mut self, punt: Punt<'_>) {
        let bytes = self.keep(punt.packet.headers, punt.packet.payload);
        let Punt { reason, table, entry, bucket, .. } = punt;
        let (callers, args) = (punt.callers.to_vec(), punt.args.to_vec());
        self.events.push(Event::Punt { reason, table, entry, bucket, callers, args, bytes });
    }

    fn digest(&mut self, digest: DigestId, args: &[Bits]) {
        self.events.push(Event::Digest(digest, args.to_vec()));
    }
}

impl std::fmt::Display for Effects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = |r: &Range<usize>| -> String {
            self.bytes[r.clone()].iter().map(|b| format!("{b:02x}")).collect()
        };
        let list =
            |args: &[Bits]| args.iter().map(|a| format!("{a:#}")).collect::<Vec<_>>().join(", ");
        for event in &self.events {
            match event {
                Event::Out { port, queue, bytes } => {
                    writeln!(f, "out={port} queue={queue} hex {}", hex(bytes))?;
                }
                Event::Punt { reason, table, entry, bucket, callers, args, bytes } => {
                    let by = (table.map(|t| t.0), entry.map(|e| e.0), bucket, callers);
                    writeln!(f, "punt {reason}({}) by {by:?} hex {}", list(args), hex(bytes))?;
                }
                Event::Digest(digest, args) => writeln!(f, "{digest}({})", list(args))?,
            }
        }
        match self.verdict {
            Some(verdict) => writeln!(f, "{verdict}"),
            None => writeln!(f, "no verdict"),
        }
    }
}

/// A random value that depends on the seed alone; both sides draw it.
pub(crate) fn draw(seed: &mut u64, lo: &Bits, hi: &Bits) -> Bits {
    *seed = Rng::new(*seed).next_u64();
    let span = hi.cast(lo.width()).sub_sat(lo).low_u128();
    let above = u128::from(*seed) % span.saturating_add(1);
    lo.add(&Bits::from_u128(above, lo.width()))
}

/// Packets, bytes, and when the last one came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) last_ns: Option<u64>,
}

/// The oracle's outside: plain collections.
pub(crate) struct Plain {
    /// Lookups and matches.
    pub(crate) tables: Vec<(u64, u64)>,
    /// Of entries, groups and buckets, by id.
    pub(crate) counts: Vec<Count>,
    /// Packets and bytes, by array and cell.
    pub(crate) arrays: BTreeMap<(u32, u32), (u64, u64)>,
    pub(crate) registers: Vec<Vec<Bits>>,
    array_sizes: Vec<u32>,
    /// What draws depend on.
    pub(crate) seed: u64,
    pub(crate) now_ns: u64,
    pub(crate) called: super::run::Called,
    dead_port: u32,
}

impl Plain {
    /// Zero everywhere; counters for ids below `ids`.
    pub(crate) fn new(program: &Program, ids: u32, dead_port: u32) -> Plain {
        let mut plain = Plain {
            tables: Vec::new(),
            counts: vec![Count::default(); ids as usize],
            arrays: BTreeMap::new(),
            registers: Vec::new(),
            array_sizes: Vec::new(),
            seed: 0,
            now_ns: 0,
            called: super::run::Called::new(),
            dead_port,
        };
        plain.adopt(&Program::new(), program);
        plain
    }

    /// What belongs to a program begins at zero, but for registers and counter arrays that are the same
    /// in the one before.
    pub(crate) fn adopt(&mut self, before: &Program, program: &Program) {
        self.tables = vec![(0, 0); program.tables.len()];
        let (arrays, registers) =
            (std::mem::take(&mut self.arrays), std::mem::take(&mut self.registers));
        for ((old, cell), count) in arrays {
            let same = program.counters.iter().position(|c| *c == before.counters[old as usize]);
            if let Some(new) = same {
                self.arrays.insert((new as u32, cell), count);
            }
        }
        let cells = |r: &ir::Register| {
            let kept = before.registers.iter().position(|old| old == r);
            kept.map_or(vec![Bits::zero(r.width); r.size as usize], |at| registers[at].clone())
        };
        self.registers = program.registers.iter().map(cells).collect();
        self.array_sizes = program.counters.iter().map(|c| c.size).collect();
    }

    /// Cells of each counter array.
    pub(crate) fn array_sizes(&self) -> &[u32] {
        &self.array_sizes
    }

    fn count_id(&mut self, id: u32, bytes: u32) {
        let now_ns = self.now_ns;
        if let Some(count) = self.counts.get_mut(id as usize) {
            count.packets += 1;
            count.bytes += u64::from(bytes);
            count.last_ns = Some(now_ns);
        }
    }
}

/// The plain collections with the version that a packet is run by.
pub(crate) struct Outside<'a> {
    pub(crate) plain: &'a mut Plain,
    pub(crate) pipeline: &'a Pipeline,
}

impl Externs for Outside<'_> {
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        match what {
            PortIs::Live => port != self.plain.dead_port,
            PortIs::Tunnel => port == super::run::TUNNEL_PORT,
        }
    }

    fn count_table(&mut self, table: TableId, hit: bool) {
        let cell = &mut self.plain.tables[table.index()];
        cell.0 += 1;
        cell.1 += u64::from(hit);
    }

    fn count_entry(&mut self, _: TableId, entry: EntryId, bytes: u32) {
        self.plain.count_id(entry.0, bytes);
    }

    fn count(&mut self, counter: CounterId, bytes: u32) {
        self.plain.count_id(counter.0, bytes);
    }

    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32) {
        if self.plain.array_sizes.get(array as usize).is_some_and(|size| index < *size) {
            let cell = self.plain.arrays.entry((array, index)).or_default();
            cell.0 += 1;
            cell.1 += u64::from(bytes);
        }
    }

    /// A meter without memory: no band, or one that always applies.
    fn meter(&mut self, meter: MeterId, _: u32) -> Color {
        let band = self.pipeline.meter(meter).and_then(|m| m.bands.first());
        band.map_or(Color::default(), |b| Color { color: b.color, level: b.level })
    }

    fn service(
        &mut self,
        service: &ir::program::Service,
        args: &[Bits],
        packet: &mut Vec<u8>,
        results: &mut [Bits],
    ) -> bool {
        super::run::note(&mut self.plain.called, service, args, packet, results)
    }

    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits> {
        self.plain.registers.get(register.index())?.get(index as usize).cloned()
    }

    fn register_write(&mut self, register: RegisterId, index: u32, value: Bits) {
        let cells = self.plain.registers.get_mut(register.index());
        if let Some(cell) = cells.and_then(|r| r.get_mut(index as usize)) {
            *cell = value.cast(cell.width());
        }
    }

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        draw(&mut self.plain.seed, lo, hi)
    }
}

/// A meter that answers the same whoever asks when: what it says above its first rate.
pub(crate) fn without_memory(meter: &ir::Meter) -> Arc<ir::Meter> {
    let bands = meter.bands.first().map(|b| ir::Band { rate: 0, burst: 0, ..b.clone() });
    Arc::new(ir::Meter { packets: meter.packets, bands: bands.into_iter().collect() })
}
