//! What a running switch has counted: entries, tables, registers, meters.

use super::{Switch, TableStats, lock};
use datapath::meter::LiveMeter;
use ir::TableId;
use state::counters::{CounterValue, CountersFull};
use state::meters::MeterStats;

impl Switch {
    /// A fresh counter, which is also a fresh entry id: packets, bytes and last use begin at zero.
    pub fn allocate_counter(&self) -> Result<u32, CountersFull> {
        self.inner.counters.allocate()
    }

    /// Gives a counter back; it is used again once no worker can count with it. Nothing in the
    /// pipeline refers to it any more.
    pub fn retire_counter(&self, id: u32) {
        let mut control = lock(&self.inner.control);
        let version = control.pipeline.version();
        control.retired.push((version, id));
        self.inner.signals.publish.wake();
    }

    /// What a counter has counted; zero if it is not in use.
    pub fn counter(&self, id: u32) -> CounterValue {
        self.inner.counters.read(id).unwrap_or_default()
    }

    /// Reads many counters under one lock, which keeps out other control and no worker. To be dropped
    /// before anything else is asked of the switch: that may need the same lock.
    pub fn counters(&self) -> state::counters::Reader<'_> {
        self.inner.counters.reader()
    }

    /// An entry's counter goes on from what another process has counted; false if it is not in use.
    pub fn carry_counter(&self, id: u32, packets: u64, bytes: u64) -> bool {
        self.inner.counters.carry(id, packets, bytes)
    }

    /// Sets a counter to zero.
    pub fn reset_counter(&self, id: u32) {
        self.inner.counters.reset(id);
    }

    /// Lookups and matches of a table of the current program.
    pub fn table_stats(&self, table: TableId) -> TableStats {
        let (lookups, matches) = self.inner.publisher.snapshot().state().table(table);
        let entries = self.with_pipeline(|p| {
            if table.index() < p.program().tables.len() { p.entries(table).len() } else { 0 }
        });
        TableStats { lookups, matches, entries }
    }

    /// A cell of a register; none past its end.
    pub fn register(&self, register: ir::RegisterId, index: u32) -> Option<ir::Bits> {
        self.published().state().read_register(register, index)
    }

    /// Writes a cell of a register, beside packets that may write it, too; past its end does nothing.
    pub fn set_register(&self, register: ir::RegisterId, index: u32, value: &ir::Bits) {
        self.published().state().write_register(register, index, value);
    }

    /// Packets and bytes of a cell of an array of counters; none past its end.
    pub fn array_counter(&self, array: u32, index: u32) -> Option<(u64, u64)> {
        self.published().state().array(array, index)
    }

    /// What a meter has counted, if it exists: packets and bytes that reached it, and for each band,
    /// in the order of the meter's bands, what it applied to.
    pub fn meter_stats(&self, meter: ir::MeterId) -> Option<MeterStats> {
        self.with_meter(meter, LiveMeter::stats)
    }

    /// A meter goes on from what another process has counted; false if it is not there.
    pub fn carry_meter(&self, meter: ir::MeterId, counted: &MeterStats) -> bool {
        self.with_meter(meter, |live| live.carry(counted)).unwrap_or(false)
    }

    /// The meter as it is now.
    fn with_meter<T>(&self, meter: ir::MeterId, with: impl FnOnce(&LiveMeter) -> T) -> Option<T> {
        let mut control = lock(&self.inner.control);
        self.inner.publish(&mut control);
        drop(control);
        let snapshot = self.inner.publisher.snapshot();
        snapshot.meter(meter).map(with)
    }
}
