//! Counting what code has looked up itself, and entries.

use crate::emit::{Counts, Gen, fixed, trusted};
use crate::mutant::{Mutant, is_planted};
use abi::{offset, size};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, condcodes::IntCC, types};
use ir::TableId;

impl Gen<'_, '_> {
    pub(super) fn one_more_lookup(&mut self) {
        let lookups = self.b.use_var(self.lookups);
        let more = self.plus(lookups, 1);
        self.b.def_var(self.lookups, more);
    }

    /// Counts a lookup that the code did itself.
    pub(crate) fn count_direct(&mut self, table: TableId, entry: Option<Value>) {
        self.one_more_lookup();
        self.looked_up(table, None, entry);
        let tables = self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_TABLES);
        let cell = self.plus(tables, (table.index() * size::TABLE_CELL) as u64);
        self.add(cell, offset::TABLE_LOOKUPS, 1);
        if let Some(entry) = entry {
            self.add(cell, offset::TABLE_MATCHES, 1);
            if self.plan.program.tables[table.index()].counters {
                self.count_entry(entry);
            }
        }
    }

    /// Adds to a counter.
    fn add(&mut self, base: Value, at: i32, k: i64) {
        let old = self.b.ins().load(types::I64, trusted(), base, at);
        let new = self.b.ins().iadd_imm_u(old, k);
        self.b.ins().store(trusted(), new, base, at);
    }

    /// What counting an entry takes.
    pub(crate) fn load_counts(&mut self, flags: MemFlagsData) -> Counts {
        let context = self.context;
        Counts {
            cells: self.b.ins().load(types::I64, flags, context, offset::CONTEXT_CELLS),
            len: self.b.ins().uload32(flags, context, offset::CONTEXT_CELLS_LEN),
            now: self.b.ins().load(types::I64, flags, context, offset::CONTEXT_NOW_NS),
        }
    }

    /// Counts the packet for an entry, if that has a counter.
    pub(crate) fn count_entry(&mut self, entry: Value) {
        let flags = trusted();
        let rest = self.b.create_block();
        let counts = match self.counts {
            Some(counts) => counts,
            None => self.load_counts(fixed()),
        };
        let there = self.compare(IntCC::UnsignedLessThan, entry, counts.len);
        let yes = self.b.create_block();
        self.branch(&there, yes, rest);
        self.enter(yes);
        let place = match self.known(entry) {
            Some(entry) => self.plus(counts.cells, entry * size::CELL as u64),
            None => {
                let at = self.b.ins().ishl_imm_u(entry, i64::from(size::CELL.trailing_zeros()));
                self.b.ins().iadd(counts.cells, at)
            }
        };
        self.b.ins().store(flags, counts.now, place, offset::CELL_LAST_USED_NS);
        let bytes = self.b.ins().load(types::I64, flags, place, offset::CELL_BYTES);
        let bytes = self.b.ins().iadd(bytes, self.length);
        self.b.ins().store(flags, bytes, place, offset::CELL_BYTES);
        // Last, so that whoever sees the packet sees its bytes and time.
        if !is_planted(Mutant::LostCounter) {
            self.add(place, offset::CELL_PACKETS, 1);
        }
        self.b.ins().jump(rest, &[]);
        self.enter(rest);
    }
}
const _: () = assert!(size::CELL.is_power_of_two());
