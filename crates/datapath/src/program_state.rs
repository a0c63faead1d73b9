//! What belongs to a program and is written by its packets: table counters, registers, counter
//! arrays.
//!
//! It is made with the program and shared by all snapshots of it; another program has another one.
//! Table and array counters are per worker and summed by readers; registers are shared, as a program
//! expects of them.

use crossbeam_utils::CachePadded;
use ir::{Bits, Program, RegisterId};
use smallvec::{SmallVec, smallvec};
use state::registers::Registers;
use std::sync::atomic::{AtomicU64, Ordering};

/// Looked up, and matched.
#[derive(Default)]
struct TableCell {
    lookups: AtomicU64,
    matches: AtomicU64,
}

/// Packets and bytes.
#[derive(Default)]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// One worker's counters.
struct PerWorker {
    tables: Box<[TableCell]>,
    arrays: Box<[Box<[Cell]>]>,
}

/// Counters and registers of one program.
pub struct ProgramState {
    workers: Box<[CachePadded<PerWorker>]>,
    registers: Box<[Registers]>,
}

/// Adds to a counter that only the calling worker writes.
#[inline]
fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl ProgramState {
    /// Zero everywhere, for so many workers.
    pub fn new(program: &Program, workers: usize) -> ProgramState {
        let per_worker = || PerWorker {
            tables: program.tables.iter().map(|_| TableCell::default()).collect(),
            arrays: program
                .counters
                .iter()
                .map(|array| (0..array.size).map(|_| Cell::default()).collect())
                .collect(),
        };
        let register = |r: &ir::Register| {
            // The verifier bounds widths far below what an array refuses.
            Registers::new(r.size as usize, r.width)
                .unwrap_or_else(|e| unreachable!("register {} passed the verifier: {e}", r.name))
        };
        ProgramState {
            workers: (0..workers).map(|_| CachePadded::new(per_worker())).collect(),
            registers: program.registers.iter().map(register).collect(),
        }
    }

    /// Counts a lookup. Called by worker `worker` alone.
    #[inline]
    pub fn count_table(&self, worker: usize, table: ir::TableId, hit: bool) {
        if let Some(cell) = self.workers[worker].tables.get(table.index()) {
            bump(&cell.lookups, 1);
            if hit {
                bump(&cell.matches, 1);
            }
        }
    }

    /// Counts a packet in cell `index` of an array; past its end does nothing. Called by worker
    /// `worker` alone.
    pub fn count_array(&self, worker: usize, array: u32, index: u32, bytes: u32) {
        let cells = self.workers[worker].arrays.get(array as usize);
        if let Some(cell) = cells.and_then(|cells| cells.get(index as usize)) {
            bump(&cell.packets, 1);
            bump(&cell.bytes, u64::from(bytes));
        }
    }

    /// A register's value; `None` past the array's end.
    pub fn read_register(&self, register: RegisterId, index: u32) -> Option<Bits> {
        let array = self.registers.get(register.index())?;
        let mut words: SmallVec<[u64; 4]> = smallvec![0; array.words()];
        array.read(index as usize, &mut words).ok()?;
        let bytes: Vec<u8> = words.iter().rev().flat_map(|w| w.to_be_bytes()).collect();
        Some(Bits::from_be_bytes(&bytes, array.width()))
    }

    /// Writes a register; past the array's end does nothing.
    pub fn write_register(&self, register: RegisterId, index: u32, value: &Bits) {
        if let Some(array) = self.registers.get(register.index()) {
            let mut words: SmallVec<[u64; 4]> = smallvec![0; array.words()];
            words.iter_mut().zip(value.limbs()).for_each(|(w, l)| *w = *l);
            // Only an index past the end is refused.
            let _ = array.write(index as usize, &words);
        }
    }

    /// Lookups and matches of a table so far.
    pub fn table(&self, table: ir::TableId) -> (u64, u64) {
        self.workers.iter().filter_map(|w| w.tables.get(table.index())).fold((0, 0), |(l, m), c| {
            (l + c.lookups.load(Ordering::Relaxed), m + c.matches.load(Ordering::Relaxed))
        })
    }

    /// Packets and bytes of a cell of an array so far; `None` past its end.
    pub fn array(&self, array: u32, index: u32) -> Option<(u64, u64)> {
        let cell = |w: &CachePadded<PerWorker>| {
            let c = w.arrays.get(array as usize)?.get(index as usize)?;
            Some((c.packets.load(Ordering::Relaxed), c.bytes.load(Ordering::Relaxed)))
        };
        self.workers.iter().map(cell).try_fold((0, 0), |(p, b), c| c.map(|(x, y)| (p + x, b + y)))
    }
}
