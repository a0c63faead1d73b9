//! A replica as the interpreter and code for whole programs see it.

use super::Replica;
use interp::{Args, Found, KeyFields, View};
use ir::{
    Action, ActionCall, ActionId, Bits, Entry, EntryId, Group, GroupId, Program, Select, TableId,
    ValueSetId,
};
use std::sync::Arc;

impl View for Replica {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn action(&self, id: ActionId) -> Option<&Action> {
        let own = self.program.actions.get(id.index());
        own.or_else(|| self.actions.get(&id)).map(|a| &**a)
    }

    fn lookup(&self, table: TableId, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Entry> {
        self.tables[table.index()].lookup(&self.program.tables[table.index()], key).map(|e| &**e)
    }

    fn lookup_packed(&self, table: TableId, key: &mut dyn FnMut(u16, &mut [u8])) -> Option<&Entry> {
        let of = &self.program.tables[table.index()];
        self.tables[table.index()].lookup_packed(of, key).map(|e| &**e)
    }

    fn find(&self, table: TableId, key: &mut dyn KeyFields) -> Found<'_> {
        let index = &self.tables[table.index()];
        let found = index.find_lazily(&self.program.tables[table.index()], key);
        let (entry, record) = (found.map(|(id, _)| EntryId(id)), found.map_or(0, |(_, r)| r));
        let (action, words) = index.records.what(record);
        Found { entry, action, args: Args::Words(words) }
    }

    fn version(&self) -> Option<u64> {
        Some(self.version)
    }

    fn stamp(&self, table: TableId) -> u64 {
        self.tables[table.index()].stamp
    }

    fn in_order(&self, table: TableId, most: usize) -> Option<Vec<Arc<Entry>>> {
        let few = self.tables[table.index()].entries.len() <= most;
        few.then(|| self.entries_in_order(table))
    }

    fn default_action(&self, table: TableId) -> &ActionCall {
        &self.tables[table.index()].default
    }

    fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id).map(|g| &**g)
    }

    fn value_set(&self, id: ValueSetId) -> &[Select] {
        &self.value_sets[id.index()]
    }
}
