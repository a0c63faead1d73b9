//! Entries as answers show them.

use std::fmt::Write as _;
use switch::Switch;

/// An entry that was hit, in a line: its priority, cookie and counters.
pub(crate) fn line(switch: &Switch, table: ir::TableId, entry: ir::EntryId) -> Option<String> {
    let (priority, cookie, counted) = switch.with_pipeline(|pipeline| {
        let counted = pipeline.program().tables.get(table.index())?.counters;
        let found = pipeline.entries(table).iter().find(|e| e.id == entry)?;
        Some((found.priority, found.cookie, counted))
    })?;
    let mut line = format!("entry {}: priority {priority}, cookie {cookie:#x}", entry.0);
    if counted {
        let count = switch.counter(entry.0);
        // Writing to a string does not fail.
        let _ = write!(line, ", {} packets, {} bytes so far", count.packets, count.bytes);
    }
    Some(line)
}
