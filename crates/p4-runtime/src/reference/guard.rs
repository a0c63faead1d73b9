//! References of what changes beside P4Runtime: lines of `millrace p4 do`.

use super::index::{Change, Index};
use super::refs::{Had, References};
use crate::code::Fault;
use crate::entity::{referring, table};
use crate::schema::{Schema, Table};
use ir::{ActionCall, Entry, EntryId, KeyMatch, TableId};
use p4::control::{self, Control, Does, Guard, Kind, Refused};
use std::sync::{Arc, Mutex, PoisonError};

/// Asked before each change.
pub(crate) struct Watch {
    pub(crate) schema: Schema,
    pub(crate) references: References,
    pub(crate) index: Arc<Mutex<Index>>,
    /// What was asked for last.
    pub(crate) asked: Option<Change>,
    /// The table whose default that changes.
    pub(crate) default: Option<TableId>,
}

impl Watch {
    fn table(&self, id: TableId) -> Option<&Table> {
        let t = self.schema.tables.get(self.schema.table_ids.get(&id)?)?;
        self.references.concern(&self.schema, t.id).then_some(t)
    }

    /// What an entry has that is there.
    fn had(&self, control: &Control, t: &Table, entry: &Entry) -> Had {
        self.references.had(&self.schema, &table::told(&self.schema, control, t, entry))
    }

    fn held(&self, control: &Control, t: &Table, id: EntryId) -> Had {
        let entry = control.pipeline.entries(t.table).get(id);
        entry.map_or_else(Had::default, |entry| self.had(control, t, entry))
    }

    /// What an entry with this key will have.
    fn will(&self, t: &Table, matches: &[KeyMatch], does: &Does) -> Had {
        let call = match does {
            Does::Action(call) => Some(call),
            Does::Refers(_) => None,
        };
        let of = table::entry_of(&self.schema, t, matches, call);
        self.references.had(&self.schema, &of)
    }

    fn default(&self, control: &Control, t: &Table) -> Had {
        self.references.had(&self.schema, &table::told_default(&self.schema, control, t))
    }

    /// What a change takes away and adds; none if it has nothing to do with references.
    fn change(&self, control: &Control, change: &control::Change<'_>) -> Option<Change> {
        use control::Change as C;
        let key = |t: &Table, id| {
            let entry = control.pipeline.entries(t.table).get(id);
            entry.map_or_else(Vec::new, |e| e.matches.to_vec())
        };
        Some(match *change {
            C::Insert { table, matches, does } => {
                let t = self.table(table)?;
                Change { before: Had::default(), after: self.will(t, matches, does) }
            }
            C::Modify { table, entry, does } => {
                let t = self.table(table)?;
                let after = self.will(t, &key(t, entry), does);
                Change { before: self.held(control, t, entry), after }
            }
            C::Remove { table, entry } => {
                let t = self.table(table)?;
                Change { before: self.held(control, t, entry), after: Had::default() }
            }
            C::Clear { table } => {
                let t = self.table(table)?;
                let mut before = Had::default();
                for entry in control.pipeline.entries(t.table).iter() {
                    before.extend(self.had(control, t, entry));
                }
                Change { before, after: Had::default() }
            }
            C::Default { table, does } => {
                let t = self.table(table)?;
                let default = &control.pipeline.program().tables[table.index()].default;
                let own = Does::Action(ActionCall {
                    action: control
                        .named(table)
                        .map_or(default.action, |t| t.of_default(default.action)),
                    ..default.clone()
                });
                let after = self.will(t, &[], does.unwrap_or(&own));
                // What refers to others: the keys of a default are none.
                let after = Had { has: Vec::new(), ..after };
                Change { before: self.default(control, t), after }
            }
            C::Member { profile, member, to } if self.references.of_actions() => {
                let (id, p) = self.schema.profiles.iter().find(|(_, p)| p.name == profile)?;
                let before =
                    referring::of_member(&self.references, &self.schema, control, *id, member);
                let mut after = Had::default();
                if let Some(to) = to {
                    let named = p.actions.keys();
                    let mut named =
                        named.filter_map(|id| Some((*id, self.schema.actions.get(id)?)));
                    let (id, action) = named.find(|(_, a)| a.name == to.action)?;
                    let action = table::told_action(action, id, &to.args);
                    self.references.of_action(&self.schema, &action, &mut after);
                }
                Change { before, after }
            }
            C::Group { group, there } if self.references.to_groups() => {
                let had = |there: bool| match there {
                    true => self.references.of_group(group),
                    false => Had::default(),
                };
                let before = had(control.has_multicast_group(group));
                Change { before, after: had(there) }
            }
            C::Member { .. } | C::Group { .. } => return None,
        })
    }
}

fn refused(fault: Fault) -> Refused {
    let kind = match fault.code {
        crate::code::Code::NotFound => Kind::NotFound,
        _ => Kind::Precondition,
    };
    Refused::new(kind, fault.text)
}

impl Guard<Control> for Watch {
    fn may(&mut self, control: &Control, change: &control::Change<'_>) -> Result<(), Refused> {
        self.asked = self.change(control, change);
        self.default = match change {
            control::Change::Default { table, .. } => Some(*table),
            _ => None,
        };
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.asked {
            Some(change) => index.check(&self.references, change).map_err(refused),
            None => Ok(()),
        }
    }

    fn done(&mut self, control: &Control, did: bool) {
        let Some(change) = self.asked.take().filter(|_| did) else { return };
        let t = self.default.and_then(|table| self.table(table));
        let after = t.map_or_else(|| change.after.clone(), |t| self.default(control, t));
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.done(Change { after, ..change });
    }
}
