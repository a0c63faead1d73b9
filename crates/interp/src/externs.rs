//! What a program reads and writes outside of the packet: liveness, counters, meters, registers,
//! chance.
//!
//! Two implementations for tests and offline runs are here: [`NullExterns`], in which nothing is
//! ever remembered, and [`MemoryExterns`], plain collections.

use crate::meters::Measured;
use ir::program::Service;
use ir::{Bits, CounterId, EntryId, Meter, MeterId, PortIs, Program, RegisterId, TableId};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// A meter's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Color {
    /// 0 green (no band exceeded), 1 yellow (a band that marks), 2 red (a band that drops).
    pub color: u8,
    /// The band's level; 0 when green.
    pub level: u8,
}

/// A lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// In this table.
    pub table: TableId,
    /// The entry that matched, if one did.
    pub entry: Option<EntryId>,
    /// The table's entries count.
    pub counts: bool,
}

/// The outside, as the packet path sees it.
pub trait Externs {
    /// Whether something holds of a port.
    fn port_is(&self, what: PortIs, port: u32) -> bool;
    /// A table was looked up.
    fn count_table(&mut self, table: TableId, hit: bool);
    /// An entry matched a packet of so many bytes (tables with [`ir::Table::counters`] only).
    fn count_entry(&mut self, table: TableId, entry: EntryId, bytes: u32);
    /// A packet of so many bytes was looked up in these tables, one after the other.
    fn count_lookups(&mut self, lookups: &[Lookup], bytes: u32) {
        for Lookup { table, entry, counts } in lookups {
            self.count_table(*table, entry.is_some());
            if let Some(entry) = entry
                && *counts
            {
                self.count_entry(*table, *entry, bytes);
            }
        }
    }
    /// A packet of so many bytes reached a group or a bucket.
    fn count(&mut self, counter: CounterId, bytes: u32);
    /// Cell `index` of a counter array counts a packet; nothing past the end.
    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32);
    /// Asks a meter about a packet of so many bytes; one that does not exist is green.
    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color;
    /// Hands a packet to a service, which may change it if it edits, and its length; false drops it. `results` are zero
    /// when it is called. Without services, nothing happens and the answers are zero.
    fn service(
        &mut self,
        _service: &Service,
        _args: &[Bits],
        _packet: &mut Vec<u8>,
        _results: &mut [Bits],
    ) -> bool {
        true
    }
    /// The same of values one behind the other, each in as many words as its width takes, least significant first.
    fn service_words(
        &mut self,
        service: &Service,
        args: &[u64],
        packet: &mut Vec<u8>,
        results: &mut [u64],
    ) -> bool {
        with_values(service, args, results, |args, values| {
            self.service(service, args, packet, values)
        })
    }
    /// A register's cell; `None` past the end.
    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits>;
    /// Writes a register's cell; nothing past the end.
    fn register_write(&mut self, register: RegisterId, index: u32, value: Bits);
    /// A random value between `lo` and `hi`, both included, of the width of `lo`.
    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits;
}

/// Calls a service that takes values, with words; `results` become the words of its answers.
pub fn with_values(
    service: &Service,
    mut args: &[u64],
    results: &mut [u64],
    call: impl FnOnce(&[Bits], &mut [Bits]) -> bool,
) -> bool {
    let mut next = |width: u32| {
        let value = Bits::from_words(args, width);
        args = args.get(value.limbs().len()..).unwrap_or_default();
        value
    };
    let args: SmallVec<[Bits; 16]> = service.args.iter().map(|arg| next(arg.width)).collect();
    let mut values: SmallVec<[Bits; 16]> =
        service.results.iter().map(|result| Bits::zero(result.width)).collect();
    let passes = call(&args, &mut values);
    let words = values.iter().flat_map(|value| value.limbs());
    results.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
    passes
}

/// Every port is live, meters are green, registers are absent, chance always gives the least value.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullExterns;

impl Externs for NullExterns {
    fn port_is(&self, what: PortIs, _: u32) -> bool {
        what == PortIs::Live
    }
    fn count_table(&mut self, _: TableId, _: bool) {}
    fn count_entry(&mut self, _: TableId, _: EntryId, _: u32) {}
    fn count(&mut self, _: CounterId, _: u32) {}
    fn count_indirect(&mut self, _: u32, _: u32, _: u32) {}
    fn meter(&mut self, _: MeterId, _: u32) -> Color {
        Color::default()
    }
    fn register_read(&mut self, _: RegisterId, _: u32) -> Option<Bits> {
        None
    }
    fn register_write(&mut self, _: RegisterId, _: u32, _: Bits) {}
    fn random(&mut self, lo: &Bits, _: &Bits) -> Bits {
        lo.clone()
    }
}

/// A service without state, for tests: its answers depend on its name, the arguments and the packet, one
/// packet in eight is dropped, and if it edits, one byte in half of the others changes.
pub fn imitate(service: &Service, args: &[Bits], packet: &mut [u8], results: &mut [Bits]) -> bool {
    let mix = |seed: u64, bytes: &[u8]| {
        bytes.iter().fold(seed, |hash, byte| crate::hash::mix64(hash ^ u64::from(*byte)))
    };
    let mut hash = mix(mix(0, service.name.as_bytes()), packet);
    for arg in args {
        hash = mix(hash ^ 0x100, &arg.to_be_bytes());
    }
    for (i, result) in results.iter_mut().enumerate() {
        let words = [crate::hash::mix64(hash + 2 * i as u64), crate::hash::mix64(!hash ^ i as u64)];
        let value = u128::from(words[0]) << 64 | u128::from(words[1]);
        *result = Bits::from_u128(value, 128).cast(result.width());
    }
    if service.edits
        && hash >> 8 & 1 == 1
        && let Some(byte) =
            packet.len().checked_sub(1).map(|last| (hash >> 16) as usize % (last + 1))
    {
        packet[byte] ^= 0x11;
    }
    hash & 7 != 0
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// Everything remembered in plain collections, for filetests and offline runs.
///
/// A meter answers what [`meters`](Self::meters) says, so that a test may choose; else it measures by
/// [`now_ns`](Self::now_ns), if [`set_meter`](Self::set_meter) has made it known.
/// Chance is a fixed sequence from `seed` (splitmix64, Steele et al. 2014).
#[derive(Clone, Debug, Default)]
pub struct MemoryExterns {
    /// Ports that are down; all others are live.
    pub dead_ports: BTreeSet<u32>,
    /// Ports whose frames begin with a descriptor; none by default.
    pub tunnel_ports: BTreeSet<u32>,
    /// Table lookups: hits, misses.
    pub tables: BTreeMap<TableId, (u64, u64)>,
    /// Direct counters.
    pub entries: BTreeMap<EntryId, Count>,
    /// Counters of groups and buckets.
    pub counters: BTreeMap<CounterId, Count>,
    /// Counter arrays, by array and cell.
    pub arrays: BTreeMap<(u32, u32), Count>,
    /// What meters answer.
    pub meters: BTreeMap<MeterId, Color>,
    /// Register cells, by array.
    pub registers: Vec<Vec<Bits>>,
    /// The time that meters measure by, in nanoseconds.
    pub now_ns: u64,
    measured: BTreeMap<MeterId, Measured>,
    /// Cells of each counter array.
    array_sizes: Vec<u32>,
    /// State of the random sequence.
    pub seed: u64,
}

impl MemoryExterns {
    /// For a program: its registers are zero, all ports live.
    pub fn new(program: &Program) -> MemoryExterns {
        MemoryExterns {
            registers: program
                .registers
                .iter()
                .map(|r| vec![Bits::zero(r.width); r.size as usize])
                .collect(),
            array_sizes: program.counters.iter().map(|c| c.size).collect(),
            ..MemoryExterns::default()
        }
    }

    /// Adds or replaces a meter, with full buckets, or removes it.
    pub fn set_meter(&mut self, id: MeterId, meter: Option<&Meter>) {
        match meter {
            Some(meter) => self.measured.insert(id, Measured::new(meter)),
            None => self.measured.remove(&id),
        };
    }

    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::hash::mix64(self.seed)
    }
}

impl Externs for MemoryExterns {
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        match what {
            PortIs::Live => !self.dead_ports.contains(&port),
            PortIs::Tunnel => self.tunnel_ports.contains(&port),
        }
    }

    fn count_table(&mut self, table: TableId, hit: bool) {
        let (hits, misses) = self.tables.entry(table).or_default();
        *(if hit { hits } else { misses }) += 1;
    }

    fn count_entry(&mut self, _: TableId, entry: EntryId, bytes: u32) {
        self.entries.entry(entry).or_default().add(bytes);
    }

    fn count(&mut self, counter: CounterId, bytes: u32) {
        self.counters.entry(counter).or_default().add(bytes);
    }

    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32) {
        if self.array_sizes.get(array as usize).is_some_and(|size| index < *size) {
            self.arrays.entry((array, index)).or_default().add(bytes);
        }
    }

    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        if let Some(chosen) = self.meters.get(&meter) {
            return *chosen;
        }
        let measured = self.measured.get_mut(&meter);
        measured.map(|m| m.ask(bytes, self.now_ns)).unwrap_or_default()
    }

    fn service(
        &mut self,
        service: &Service,
        args: &[Bits],
        packet: &mut Vec<u8>,
        results: &mut [Bits],
    ) -> bool {
        imitate(service, args, packet, results)
    }

    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits> {
        self.registers.get(register.index())?.get(index as usize).cloned()
    }

    fn register_write(&mut self, register: RegisterId, index: u32, value: Bits) {
        let cells = self.registers.get_mut(register.index());
        if let Some(cell) = cells.and_then(|r| r.get_mut(index as usize)) {
            *cell = value.cast(cell.width());
        }
    }

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        let width = lo.width();
        let span = hi.cast(width).sub_sat(lo).low_u128();
        let draw = u128::from(self.draw()) << 64 | u128::from(self.draw());
        let above = if span == u128::MAX { draw } else { draw % (span + 1) };
        lo.add(&Bits::from_u128(above, width))
    }
}
