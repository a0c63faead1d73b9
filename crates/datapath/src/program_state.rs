//! What belongs to a program and is written by its packets: table counters, registers, counter
//! arrays.
//!
//! It is made with the program and shared by all snapshots of it; another program has another one,
//! which goes on with the registers and counter arrays that are the same in both (name, size, width).
//! Table and array counters are per worker and summed by readers; registers are shared, as a program
//! expects of them.

use abi::TableCell;
use abi::counters::bump;
use crossbeam_utils::CachePadded;
use ir::{Bits, Program, RegisterId};
use smallvec::{SmallVec, smallvec};
use state::registers::Registers;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets and bytes.
#[derive(Default)]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// One worker's counters.
struct PerWorker {
    tables: Box<[TableCell]>,
    arrays: Box<[Arc<[Cell]>]>,
}

/// Counters and registers of one program.
pub struct ProgramState {
    workers: Box<[CachePadded<PerWorker>]>,
    registers: Box<[Arc<Registers>]>,
}

impl ProgramState {
    /// Zero everywhere, for so many workers.
    pub fn new(program: &Program, workers: usize) -> ProgramState {
        ProgramState::after(program, workers, None)
    }

    /// The state of a program that takes the place of another: zero, but for what is in both.
    pub fn after(
        program: &Program,
        workers: usize,
        before: Option<(&Program, &ProgramState)>,
    ) -> ProgramState {
        let array = |worker: usize, array: &ir::program::CounterArray| -> Arc<[Cell]> {
            let kept = before.and_then(|(old, state)| {
                let at = old.counters.iter().position(|c| c == array)?;
                state.workers.get(worker)?.arrays.get(at).cloned()
            });
            kept.unwrap_or_else(|| (0..array.size).map(|_| Cell::default()).collect())
        };
        let per_worker = |worker| PerWorker {
            tables: program.tables.iter().map(|_| TableCell::default()).collect(),
            arrays: program.counters.iter().map(|c| array(worker, c)).collect(),
        };
        let register = |r: &ir::Register| {
            let kept = before.and_then(|(old, state)| {
                let at = old.registers.iter().position(|o| o == r)?;
                state.registers.get(at).cloned()
            });
            kept.unwrap_or_else(|| {
                // The verifier bounds widths far below what an array refuses.
                let made = Registers::new(r.size as usize, r.width).unwrap_or_else(|e| {
                    unreachable!("register {} passed the verifier: {e}", r.name)
                });
                Arc::new(made)
            })
        };
        ProgramState {
            workers: (0..workers).map(|w| CachePadded::new(per_worker(w))).collect(),
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

    /// A worker's counters of tables, by id.
    #[inline]
    pub fn tables(&self, worker: usize) -> &[TableCell] {
        &self.workers[worker].tables
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

    /// A register's value into words that are zero; past the array's end they stay so.
    #[inline]
    pub fn read_words(&self, register: RegisterId, index: u32, value: &mut [u64]) {
        if let Some(array) = self.registers.get(register.index()) {
            // Only an index past the end is refused.
            let _ = array.read(index as usize, value);
        }
    }

    /// Writes a register's words; past the array's end does nothing.
    #[inline]
    pub fn write_words(&self, register: RegisterId, index: u32, value: &[u64]) {
        if let Some(array) = self.registers.get(register.index()) {
            // Only an index past the end is refused.
            let _ = array.write(index as usize, value);
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

#[cfg(test)]
mod tests {
    use super::*;
    use ir::TableId;
    use ir::builder::Builder;
    use ir::testing::Rng;

    #[test]
    fn registers_of_every_width_hold_what_was_written() {
        let widths = [1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 256, 1000, 2048];
        let mut b = Builder::new();
        for width in widths {
            b.register(&format!("r{width}"), width, 3);
        }
        let state = ProgramState::new(&b.finish(), 1);
        let mut random = Rng::new(1);
        for (i, width) in widths.into_iter().enumerate() {
            let register = RegisterId(i as u32);
            assert_eq!(state.read_register(register, 2), Some(Bits::zero(width)));
            let values = [Bits::ones(width), random.bits(width), random.bits(width)];
            for (index, value) in values.iter().enumerate() {
                state.write_register(register, index as u32, value);
            }
            for (index, value) in values.iter().enumerate() {
                let read = state.read_register(register, index as u32);
                assert_eq!(read.as_ref(), Some(value), "width {width}");
            }
            // A value of another width is cut, or filled with zeros.
            state.write_register(register, 0, &Bits::ones(width + 70));
            assert_eq!(state.read_register(register, 0), Some(Bits::ones(width)));
            state.write_register(register, 0, &Bits::ones(1));
            assert_eq!(state.read_register(register, 0), Some(Bits::from_u128(1, width)));
            state.write_register(register, 3, &Bits::ones(width));
            assert_eq!(state.read_register(register, 3), None);
        }
        assert_eq!(state.read_register(RegisterId(99), 0), None);
        state.write_register(RegisterId(99), 0, &Bits::ones(8));
    }

    #[test]
    fn what_two_programs_share_goes_on() {
        let program = |size: u32| {
            let mut b = Builder::new();
            b.register("other", 8, size);
            b.register("same", 16, 4);
            b.counter("resized", size);
            b.counter("same", 2);
            b.finish()
        };
        let (old, new) = (program(1), program(2));
        let before = ProgramState::new(&old, 2);
        let value = Bits::from_u128(0xbeef, 16);
        before.write_register(RegisterId(1), 3, &value);
        before.write_register(RegisterId(0), 0, &Bits::ones(8));
        (0..2).for_each(|worker| before.count_array(worker, 1, 1, 100));
        before.count_array(0, 0, 0, 100);
        let after = ProgramState::after(&new, 2, Some((&old, &before)));
        assert_eq!(after.read_register(RegisterId(1), 3), Some(value));
        assert_eq!(after.read_register(RegisterId(0), 0), Some(Bits::zero(8)));
        assert_eq!((after.array(1, 1), after.array(0, 0)), (Some((2, 200)), Some((0, 0))));
    }

    #[test]
    fn counters_are_summed_over_workers_and_bounded() {
        let mut b = Builder::new();
        let array = b.counter("c", 2);
        let mut program = b.finish();
        program.tables.push(ir::Table {
            name: "t".to_string(),
            key: std::sync::Arc::new([]),
            actions: None,
            default: ir::ActionCall::new(ir::ActionId(0)),
            default_const: false,
            capacity: 1,
            counters: false,
        });
        let state = ProgramState::new(&program, 2);
        for worker in 0..2 {
            state.count_table(worker, TableId(0), true);
            state.count_table(worker, TableId(0), false);
            state.count_table(worker, TableId(7), true);
            (0..4).for_each(|index| state.count_array(worker, array, index, 100));
            state.count_array(worker, array + 1, 0, 100);
        }
        assert_eq!(state.table(TableId(0)), (4, 2));
        assert_eq!(state.table(TableId(7)), (0, 0));
        assert_eq!(state.array(array, 1), Some((2, 200)));
        assert_eq!((state.array(array, 2), state.array(array + 1, 0)), (None, None));
    }
}
