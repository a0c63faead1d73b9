//! Updates of the switch: a batch of them happens whole or not at all.
//!
//! A request collects updates in a [`Batch`], with the actions it begins and ceases to use and the counters it
//! takes and gives back. [`Batch::commit`] hands them to the switch as one transaction; one
//! that is dropped instead leaves nothing behind, so a refusal anywhere on the way is a plain `?`.
//!
//! While a bundle is under way ([`Stage::begin`]), what requests commit gathers in the [`Stage`], and
//! goes to the switch as one transaction of all of them ([`Stage::finish`]), or not at all
//! ([`Stage::abort`]). What cannot be taken back waits there, too ([`Deferred`]).

use crate::admission::Admission;
use crate::flow::{Flow, FlowKey};
use crate::refusal::Refusal;
use crate::relearning::Numbers;
use ir::{ActionCall, ActionId, CounterId, EntryId, Update};
use of_lower::{Call, Interner, Layout};
use openflow::{ErrorCode, FlowRemovedReason, Learn, PortConfig};
use std::mem::take;
use std::ops::Deref;
use std::sync::Arc;
use switch::{Forgotten, Injection, Switch};

/// The actions in use and, while a bundle is under way, what its requests committed.
pub(crate) struct Stage {
    interner: Interner,
    admission: Arc<Admission>,
    staged: Option<Staged>,
}

#[derive(Default)]
struct Staged {
    updates: Vec<Update>,
    taken: Vec<u32>,
    spent: Vec<u32>,
    deferred: Deferred,
}

/// What waits for the end of a bundle.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Counters to be set to zero.
    pub(crate) resets: Vec<u32>,
    /// Entries that went, to be told.
    pub(crate) removed: Vec<Removed>,
    /// Packets to be sent.
    pub(crate) packets: Vec<Injection>,
    /// Ports whose configuration changed, with what it was: the switch's, and OpenFlow's own.
    pub(crate) ports: Vec<(u32, switch::PortConfig, PortConfig)>,
}

/// An entry that went and asked for that to be told.
pub(crate) type Removed = (FlowKey, FlowRemovedReason, Box<Flow>);

impl Deref for Stage {
    type Target = Interner;

    fn deref(&self) -> &Interner {
        &self.interner
    }
}

impl Stage {
    /// No bundle is under way, and no action is in use. `admission` follows the `learn`s in use.
    pub(crate) fn new(
        layout: Arc<Layout>,
        admission: Arc<Admission>,
        forgotten: Arc<Forgotten>,
    ) -> Stage {
        let learners = Numbers { others: admission.clone(), forgotten };
        let interner = Interner::new(layout).told_to(Arc::new(learners));
        Stage { interner, admission, staged: None }
    }

    /// Who says which entries may be learned.
    pub(crate) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// See [`Interner::set_layout`].
    pub(crate) fn set_layout(&mut self, layout: Arc<Layout>) {
        self.interner.set_layout(layout);
    }

    /// See [`Interner::hold`].
    pub(crate) fn hold(&mut self, learn: &Arc<Learn>) -> u32 {
        self.interner.hold(learn)
    }

    /// See [`Interner::let_go`].
    pub(crate) fn let_go(&mut self, learn: u32) {
        self.interner.let_go(learn);
    }

    /// A bundle is under way.
    pub(crate) fn is_staging(&self) -> bool {
        self.staged.is_some()
    }

    /// What waits for the end of the bundle, if one is under way.
    pub(crate) fn deferred(&mut self) -> Option<&mut Deferred> {
        self.staged.as_mut().map(|staged| &mut staged.deferred)
    }

    /// A bundle begins.
    pub(crate) fn begin(&mut self) {
        self.staged = Some(Staged::default());
    }

    /// The bundle's updates happen in one version. On an error nothing did, and the bundle is still
    /// to be [aborted](Self::abort).
    pub(crate) fn finish(&mut self, switch: &Switch) -> Result<(Spent, Deferred), Refusal> {
        let Some(staged) = &mut self.staged else {
            return Ok((Spent(Vec::new()), Deferred::default()));
        };
        let mut updates: Vec<Update> = Vec::new();
        if !staged.updates.is_empty() {
            updates.extend(self.interner.adds_all());
        }
        let adds = updates.len();
        updates.append(&mut staged.updates);
        if !updates.is_empty() {
            updates.extend(self.interner.removes_all());
        }
        if !updates.is_empty() {
            switch.transact(&updates).map_err(|(at, error)| Refusal::Pipeline {
                at: at.saturating_sub(adds),
                error: Box::new(error),
            })?;
        }
        self.interner.commit();
        let (spent, deferred) = (take(&mut staged.spent), take(&mut staged.deferred));
        self.staged = None;
        Ok((Spent(spent), deferred))
    }

    /// Nothing of the bundle happens. What waited for its end is for the caller to forget, or to set back.
    pub(crate) fn abort(&mut self, switch: &Switch) -> Deferred {
        let Some(staged) = self.staged.take() else { return Deferred::default() };
        self.interner.rollback();
        staged.taken.into_iter().for_each(|id| switch.retire_counter(id));
        staged.deferred
    }
}

/// Updates under way.
pub(crate) struct Batch<'a> {
    switch: &'a Switch,
    stage: &'a mut Stage,
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

impl<'a> Batch<'a> {
    /// Nothing yet.
    pub(crate) fn new(switch: &'a Switch, stage: &'a mut Stage) -> Batch<'a> {
        Batch {
            switch,
            stage,
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
        call.intern(&mut self.stage.interner)
    }

    /// An action has one user less.
    pub(crate) fn release(&mut self, action: ActionId) {
        self.stage.interner.release(action);
    }

    /// The action of a call has one user less.
    pub(crate) fn release_call(&mut self, call: &Call) {
        if let Some(action) = self.stage.interner.find(&call.shape) {
            self.release(action);
        }
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
        if let Some(staged) = &mut self.stage.staged {
            staged.updates.append(&mut self.updates);
            staged.taken.append(&mut self.taken);
            staged.spent.append(&mut self.spent);
            self.committed = true;
            return Ok(Spent(Vec::new()));
        }
        let interner = &mut self.stage.interner;
        let before: Vec<Update> = interner.adds().collect();
        let adds = before.len();
        let own = self.updates.len();
        let mut updates = before;
        updates.append(&mut self.updates);
        updates.extend(interner.removes());
        if updates.is_empty() {
            self.committed = true;
            interner.commit();
            return Ok(Spent(take(&mut self.spent)));
        }
        match self.switch.transact(&updates) {
            Ok(_) => {
                self.committed = true;
                interner.commit();
                Ok(Spent(take(&mut self.spent)))
            }
            Err((at, error)) => {
                let at = at.saturating_sub(adds).min(own);
                Err(Refusal::Pipeline { at, error: Box::new(error) })
            }
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.committed {
            // A bundle's actions go with all of it.
            if !self.stage.is_staging() {
                self.stage.interner.rollback();
            }
            self.taken.drain(..).for_each(|id| self.switch.retire_counter(id));
        }
    }
}
