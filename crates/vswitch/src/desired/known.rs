//! Ports as an earlier database had them.

use super::port::Port;
use super::reader::Reader;
use ovsdb::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Ports as they were read before, and rows that have changed since.
#[derive(Default)]
pub(super) struct Known {
    pub(super) ports: BTreeMap<Uuid, Arc<Port>>,
    pub(super) changed: BTreeSet<Uuid>,
}

impl Known {
    /// A port. One whose rows are as they were is not read again: among thousands a few change at a time.
    pub(super) fn port(&self, reader: &Reader<'_>, uuid: Uuid) -> Option<Arc<Port>> {
        let row = reader.database.row("Port", uuid)?;
        let mut rows = std::iter::once(uuid).chain(row.uuids("interfaces"));
        let same = |row: Uuid| !self.changed.contains(&row);
        // Queues have rows of their own, and rows of theirs.
        if row.uuids("qos").next().is_none()
            && rows.all(same)
            && let Some(known) = self.ports.get(&uuid)
        {
            return Some(known.clone());
        }
        Some(Arc::new(Port::of(reader, uuid, row)))
    }
}
