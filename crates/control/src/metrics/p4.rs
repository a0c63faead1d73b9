//! Counters of P4 programs, by the names that the program gives them.
//!
//! Cells that have counted nothing have no series: an array has as many cells as it may need.

use super::source::{SERIES_MOST, Source};
use crate::controllers::p4::P4;
use metrics::{Family, Text};

const CELL_PACKETS: Family = Family::counter(
    "millrace_p4_counter_packets",
    "Packets that a cell of a P4 program's counter has counted",
);
const CELL_BYTES: Family =
    Family::counter("millrace_p4_counter_bytes", "Bytes of packets that a cell has counted");
const DIRECT_PACKETS: Family = Family::counter(
    "millrace_p4_direct_counter_packets",
    "Packets that hit an entry of a table with a direct counter; entries by their handles",
);
const DIRECT_BYTES: Family =
    Family::counter("millrace_p4_direct_counter_bytes", "Bytes of packets that hit such an entry");
const LEFT_OUT: Family = Family::gauge(
    "millrace_p4_counter_cells_left_out",
    "Cells of a counter, or entries of its table, that have no series of their own, as there are too many",
);

/// What a counter of a program has counted.
struct Counted {
    bridge: String,
    counter: String,
    /// Of a table's entries.
    is_direct: bool,
    /// By cell or entry.
    cells: Vec<(u32, (u64, u64))>,
    left_out: usize,
}

/// A counter of a program.
enum Counter {
    /// An array of so many cells.
    Array { id: u32, size: u32 },
    /// Handles and numbers of a table's entries.
    Direct(Vec<(u32, u32)>),
}

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let mut all = Vec::new();
    for bridge in &source.all {
        let Some(p4) = bridge.controllers().find::<P4>() else { continue };
        let mut room = SERIES_MOST;
        for (counter, of) in counters(&p4) {
            let switch = bridge.switch();
            let cell = |n| Some((n, switch.array_counter(id_of(&of), n)?));
            let entry = |(handle, id): &(u32, u32)| {
                let counted = switch.counter(*id);
                (*handle, (counted.packets, counted.bytes))
            };
            let (is_direct, cells): (bool, Vec<_>) = match &of {
                Counter::Array { size, .. } => (false, (0..*size).filter_map(cell).collect()),
                Counter::Direct(entries) => (true, entries.iter().map(entry).collect()),
            };
            let mut cells: Vec<_> =
                cells.into_iter().filter(|(_, counted)| *counted != (0, 0)).collect();
            let left_out = cells.len().saturating_sub(room);
            cells.truncate(room);
            room -= cells.len();
            let bridge = bridge.name().to_owned();
            all.push(Counted { bridge, counter, is_direct, cells, left_out });
        }
    }
    for (family, of_entries, is_bytes) in [
        (CELL_PACKETS, false, false),
        (CELL_BYTES, false, true),
        (DIRECT_PACKETS, true, false),
        (DIRECT_BYTES, true, true),
    ] {
        let mut family = text.family(&family);
        for one in all.iter().filter(|one| one.is_direct == of_entries) {
            for (at, (packets, bytes)) in &one.cells {
                let at = at.to_string();
                let cell = if of_entries { "entry" } else { "index" };
                let labels = [("bridge", &*one.bridge), ("counter", &*one.counter), (cell, &*at)];
                family.put(&labels, if is_bytes { *bytes } else { *packets });
            }
        }
    }
    let mut family = text.family(&LEFT_OUT);
    for one in &all {
        family.put(&[("bridge", &*one.bridge), ("counter", &*one.counter)], one.left_out);
    }
}

fn id_of(counter: &Counter) -> u32 {
    match counter {
        Counter::Array { id, .. } => *id,
        Counter::Direct(_) => 0,
    }
}

/// A program's counters by name. Its control waits no longer than this takes.
fn counters(p4: &P4) -> Vec<(String, Counter)> {
    let host = p4.host();
    let control = host.control();
    let program = control.pipeline.program();
    let arrays = control.names.counters.iter().filter_map(|(name, id)| {
        let size = program.counters.get(*id as usize)?.size;
        Some((name.clone(), Counter::Array { id: *id, size }))
    });
    let direct = control.names.tables.iter().filter_map(|table| {
        let entries = control.handles(table.id).map(|(handle, entry)| (handle, entry.0));
        Some((table.counter.clone()?, Counter::Direct(entries.collect())))
    });
    arrays.chain(direct).collect()
}
