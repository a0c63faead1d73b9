//! What the interpreter forwards by: a program and what controllers put into it.
//!
//! A [`View`] is one version, seen through lookups only, so that tables may be kept in any structure.
//! [`ir::Pipeline`] is a view too, by reading every entry in order: the plainest one, and the oracle
//! for all others.

use ir::{
    Action, ActionCall, ActionId, Bits, Entry, EntryId, Group, GroupId, Pipeline, Program, Select,
    TableId, ValueSetId,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a lookup came to.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The entry that won, if one matched.
    pub entry: Option<EntryId>,
    /// What is to be done.
    pub action: ActionId,
    /// With what.
    pub args: Args<'a>,
}

/// Arguments of an action.
#[derive(Clone, Copy, Debug)]
pub enum Args<'a> {
    /// As values.
    Values(&'a [Bits]),
    /// One behind the other, each in as many 64-bit words as it takes, least significant first; more words may follow.
    Words(&'a [u64]),
}

/// The key fields of a packet at a table. What they say is pure, and may be asked in any order, for those fields only
/// that matter to the lookup.
pub trait KeyFields {
    /// The value of the field at a position, right-aligned and big-endian: as many bytes as its width takes.
    fn bytes(&mut self, at: u16, out: &mut [u8]);

    /// The value of a field of at most 64 bits.
    fn word(&mut self, at: u16) -> u64;
}

/// One version of a pipeline.
pub trait View {
    /// The program. The same `Arc` for as long as the program is the same: the interpreter keeps
    /// what it has derived from it.
    fn program(&self) -> &Arc<Program>;

    /// The action with this id.
    fn action(&self, id: ActionId) -> Option<&Action>;

    /// The entry of a table that wins (see [`ir::Table`]) among those that match. `key` gives the
    /// value of the key field at a position; it is pure, and may be asked in any order, for those
    /// fields only that matter to the lookup.
    fn lookup(&self, table: TableId, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Entry>;

    /// The same for whoever has values as bytes: `key` writes the value of a key field, right-aligned and big-endian,
    /// to as many bytes as its width takes.
    fn lookup_packed(&self, table: TableId, key: &mut dyn FnMut(u16, &mut [u8])) -> Option<&Entry> {
        let fields = self.program().tables[table.index()].key.clone();
        self.lookup(table, &mut |at| {
            let width = fields[usize::from(at)].width;
            let mut bytes = vec![0; width.div_ceil(8) as usize];
            key(at, &mut bytes);
            Bits::from_be_bytes(&bytes, width)
        })
    }

    /// What a table says of a packet.
    fn find(&self, table: TableId, key: &mut dyn KeyFields) -> Found<'_> {
        let entry = self.lookup_packed(table, &mut |at, out| key.bytes(at, out));
        let call = entry.map_or_else(|| self.default_action(table), |entry| &entry.action);
        Found { entry: entry.map(|e| e.id), action: call.action, args: Args::Values(&call.args) }
    }

    /// A number that is another one whenever a table holds something else; none if nobody keeps one. Of views of one
    /// program by one number, all tables hold the same.
    fn version(&self) -> Option<u64> {
        None
    }

    /// A number that is another one whenever this table holds something else, for views that have a
    /// [`version`](Self::version).
    fn stamp(&self, _table: TableId) -> u64 {
        self.version().unwrap_or(0)
    }

    /// All entries of a table, the one that wins first, if they are no more than so many.
    fn in_order(&self, _table: TableId, _most: usize) -> Option<Vec<Arc<Entry>>> {
        None
    }

    /// What happens when no entry of the table matches.
    fn default_action(&self, table: TableId) -> &ActionCall;

    /// The group with this number.
    fn group(&self, id: GroupId) -> Option<&Group>;

    /// The members of a value set.
    fn value_set(&self, id: ValueSetId) -> &[Select];
}

/// Reads every entry, best first. Cost: linear in the entries.
impl View for Pipeline {
    fn program(&self) -> &Arc<Program> {
        Pipeline::program(self)
    }

    fn action(&self, id: ActionId) -> Option<&Action> {
        Pipeline::action(self, id).map(|a| &**a)
    }

    fn lookup(&self, table: TableId, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Entry> {
        let fields = Pipeline::program(self).tables[table.index()].key.len();
        let mut known: SmallVec<[Option<Bits>; 8]> = SmallVec::new();
        known.resize(fields, None);
        let mut matches = |entry: &Entry| {
            entry.matches.iter().all(|m| match known.get_mut(m.key as usize) {
                Some(value) => m.pattern.matches(value.get_or_insert_with(|| key(m.key))),
                None => false,
            })
        };
        self.entries(table).iter().map(|e| &**e).find(|e| matches(e))
    }

    fn default_action(&self, table: TableId) -> &ActionCall {
        self.entries(table).default()
    }

    fn group(&self, id: GroupId) -> Option<&Group> {
        Pipeline::group(self, id).map(|g| &**g)
    }

    fn value_set(&self, id: ValueSetId) -> &[Select] {
        Pipeline::value_set(self, id)
    }
}
