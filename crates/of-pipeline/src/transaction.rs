//! One request's updates, all or none.
//!
//! A request collects updates here, with the actions it begins and ceases to use and the counters it
//! takes and gives back. [`Transaction::commit`] hands them to the switch as one transaction; one
//! that is dropped instead leaves nothing behind, so a refusal anywhere on the way is a plain `?`.

use crate::lower::{Call, Interner};
use crate::refusal::Refusal;
use ir::{ActionCall, ActionId, CounterId, EntryId, Update};
use openflow::ErrorCode;
use switch::Switch;

/// Updates under way.
pub(crate) struct Transaction<'a> {
    switch: &'a Switch,
    interner: &'a mut Interner,
    updates: Vec<Update>,
    /// Counters taken, to be given back if nothing comes of it.
    taken: Vec<u32>,
    /// Counters to be given back if it happens.
    spent: Vec<u32>,
    committed: bool,
}

/// Counters that nothing counts with any more, once the switch is in step: read what they say, then
/// [`retire`](Spent::retire) them.
#[must_use = "counters that are not retired are lost"]
pub(crate) struct Spent(Vec<u32>);

impl Spent {
    /// Gives them back.
    pub(crate) fn retire(self, switch: &Switch) {
        self.0.into_iter().for_each(|id| switch.retire_counter(id));
    }
}

impl<'a> Transaction<'a> {
    /// Nothing yet.
    pub(crate) fn new(switch: &'a Switch, interner: &'a mut Interner) -> Transaction<'a> {
        Transaction {
            switch,
            interner,
            updates: Vec::new(),
            taken: Vec::new(),
            spent: Vec::new(),
            committed: false,
        }
    }

    /// One more update.
    pub(crate) fn push(&mut self, update: Update) {
        self.updates.push(update);
    }

    /// The call as an entry holds it; its action has one more user.
    pub(crate) fn intern(&mut self, call: Call) -> ActionCall {
        call.intern(self.interner)
    }

    /// An action has one user less.
    pub(crate) fn release(&mut self, action: ActionId) {
        self.interner.release(action);
    }

    /// A fresh counter; `code` tells how this kind of request says that there is none.
    pub(crate) fn take_counter(&mut self, code: ErrorCode) -> Result<u32, Refusal> {
        let id = self
            .switch
            .allocate_counter()
            .map_err(|full| Refusal::CountersFull { ids_max: full.ids_max, code })?;
        self.taken.push(id);
        Ok(id)
    }

    /// A fresh id for an entry of a table.
    pub(crate) fn take_entry_id(&mut self) -> Result<EntryId, Refusal> {
        self.take_counter(ErrorCode::FmfcTableFull).map(EntryId)
    }

    /// A fresh counter for a group or bucket.
    pub(crate) fn take_group_counter(&mut self) -> Result<CounterId, Refusal> {
        self.take_counter(ErrorCode::GmfcOutOfGroups).map(CounterId)
    }

    /// A counter, or entry id, that is not needed any more if this happens.
    pub(crate) fn spend(&mut self, id: u32) {
        self.spent.push(id);
    }

    /// Does it all, or nothing.
    pub(crate) fn commit(mut self) -> Result<Spent, Refusal> {
        let before: Vec<Update> = self.interner.adds().collect();
        let adds = before.len();
        let own = self.updates.len();
        let mut updates = before;
        updates.append(&mut self.updates);
        updates.extend(self.interner.removes());
        if updates.is_empty() {
            self.committed = true;
            self.interner.commit();
            return Ok(Spent(std::mem::take(&mut self.spent)));
        }
        match self.switch.transact(&updates) {
            Ok(_) => {
                self.committed = true;
                self.interner.commit();
                Ok(Spent(std::mem::take(&mut self.spent)))
            }
            Err((at, error)) => {
                let at = at.saturating_sub(adds).min(own);
                Err(Refusal::Pipeline { at, error: Box::new(error) })
            }
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.committed {
            self.interner.rollback();
            self.taken.drain(..).for_each(|id| self.switch.retire_counter(id));
        }
    }
}
