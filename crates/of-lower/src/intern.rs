//! Which action of the pipeline stands for which shape, and how many use it.
//!
//! Works beside a transaction: acquire and release while its updates are collected; then
//! [`adds`](Interner::adds) go in front of them and [`removes`](Interner::removes) behind, and after
//! the outcome [`commit`](Interner::commit) or [`rollback`](Interner::rollback). An action that
//! loses its last user and finds a new one in the same transaction stays.
//!
//! Invariants: between transactions, the pipeline's added actions are exactly those in use here; ids
//! of removed actions are given out again, smallest first, so that ids stay dense.
//! Cost: a hash of the steps; the body is built for new shapes only.

use super::layout::Layout;
use super::step::{self, Shape, Step};
use hashbrown::HashMap;
use ir::{Action, ActionId, Update};
use openflow::Learn;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Slot {
    shape: Shape,
    action: Arc<Action>,
    users: usize,
}

/// The `learn`s of a shape, each as often as it is there.
fn learns(shape: &[Step]) -> impl Iterator<Item = u32> {
    shape.iter().filter_map(|step| match step {
        Step::Learn(id, _) | Step::LearnTold(id, _) => Some(*id),
        _ => None,
    })
}

/// Shapes in use.
#[derive(Debug)]
pub struct Interner {
    layout: Arc<Layout>,
    by_shape: HashMap<Shape, ActionId>,
    slots: BTreeMap<ActionId, Slot>,
    free: BTreeSet<ActionId>,
    next: u32,
    /// Actions touched since the last commit, with the users they had then; `None` for new ones.
    touched: BTreeMap<ActionId, Option<usize>>,
    /// The `learn`s of the shapes, and of how many shapes each is.
    learns: HashMap<Arc<Learn>, u32>,
    learn_users: BTreeMap<u32, (Arc<Learn>, usize)>,
    /// Is told of `learn`s that get or lose a number.
    learners: Arc<dyn Learners>,
}

/// Follows which `learn`s have a number.
pub trait Learners: Debug + Send + Sync {
    /// A `learn` has a number.
    fn begin(&self, which: u32, learn: &Arc<Learn>);
    /// It has none any more.
    fn end(&self, which: u32, learn: &Learn);
}

/// Nobody follows.
impl Learners for () {
    fn begin(&self, _: u32, _: &Arc<Learn>) {}

    fn end(&self, _: u32, _: &Learn) {}
}

impl Interner {
    /// Nothing in use yet.
    pub fn new(layout: Arc<Layout>) -> Interner {
        Interner {
            next: layout.first_action.0,
            layout,
            by_shape: HashMap::new(),
            slots: BTreeMap::new(),
            free: BTreeSet::new(),
            touched: BTreeMap::new(),
            learns: HashMap::new(),
            learn_users: BTreeMap::new(),
            learners: Arc::new(()),
        }
    }

    /// The same, which tells of `learn`s that get or lose a number.
    #[must_use]
    pub fn told_to(self, learners: Arc<dyn Learners>) -> Interner {
        Interner { learners, ..self }
    }

    /// The ids of the program's parts.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// From here on actions are those of this layout, whose ids are the same. The pipeline is to be given
    /// those in use ([`action`](Self::action)) instead of what it has.
    pub fn set_layout(&mut self, layout: Arc<Layout>) {
        for slot in self.slots.values_mut() {
            slot.action = Arc::new(step::build(&slot.shape, &layout));
        }
        self.layout = layout;
    }

    /// The number of a `learn`, which a shape is about to name.
    pub fn learn(&mut self, learn: &Arc<Learn>) -> u32 {
        if let Some(id) = self.learns.get(learn) {
            return *id;
        }
        // The least that is free.
        let id = (0..).zip(self.learn_users.keys()).find(|(i, id)| i != *id);
        let id = id.map_or(self.learn_users.len() as u32, |(i, _)| i);
        self.learns.insert(learn.clone(), id);
        self.learners.begin(id, learn);
        self.learn_users.insert(id, (learn.clone(), 0));
        id
    }

    /// The `learn` of a number.
    pub fn learn_of(&self, id: u32) -> Option<&Arc<Learn>> {
        self.learn_users.get(&id).map(|(learn, _)| learn)
    }

    /// The action of a shape, with one more user.
    pub fn acquire(&mut self, shape: &[Step]) -> ActionId {
        if let Some(id) = self.by_shape.get(shape).copied() {
            self.retain(id);
            return id;
        }
        let id = self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            ActionId(self.next - 1)
        });
        for id in learns(shape) {
            if let Some((_, users)) = self.learn_users.get_mut(&id) {
                *users += 1;
            }
        }
        let action = Arc::new(step::build(shape, &self.layout));
        let shape = Shape::from_slice(shape);
        self.by_shape.insert(shape.clone(), id);
        self.slots.insert(id, Slot { shape, action, users: 1 });
        self.touched.insert(id, None);
        id
    }

    /// The action of a shape, if it is in use.
    pub fn find(&self, shape: &[Step]) -> Option<ActionId> {
        self.by_shape.get(shape).copied()
    }

    /// One more user of an action in use; nothing if it is not one of ours.
    pub fn retain(&mut self, id: ActionId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            self.touched.entry(id).or_insert(Some(slot.users));
            slot.users += 1;
        }
    }

    /// One user less; nothing if it is not one of ours.
    pub fn release(&mut self, id: ActionId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            self.touched.entry(id).or_insert(Some(slot.users));
            slot.users = slot.users.saturating_sub(1);
        }
    }

    /// The action with this id, if it is in use (or was before this transaction).
    pub fn action(&self, id: ActionId) -> Option<&Arc<Action>> {
        self.slots.get(&id).map(|s| &s.action)
    }

    /// The shape of an action in use.
    pub fn shape(&self, id: ActionId) -> Option<&[Step]> {
        self.slots.get(&id).map(|s| &*s.shape)
    }

    /// Actions in use.
    pub fn len(&self) -> usize {
        self.slots.values().filter(|s| s.users > 0).count()
    }

    /// No action is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Updates for the front of the transaction: actions that are new and in use.
    pub fn adds(&self) -> impl Iterator<Item = Update> {
        self.touched.iter().filter(|(_, before)| before.is_none()).filter_map(|(id, _)| {
            let slot = self.slots.get(id).filter(|s| s.users > 0)?;
            Some(Update::AddAction(*id, slot.action.clone()))
        })
    }

    /// Updates for the end of the transaction: actions that lost their last user.
    pub fn removes(&self) -> impl Iterator<Item = Update> {
        let unused = |id: &&ActionId| self.slots.get(*id).is_some_and(|s| s.users == 0);
        let known = self.touched.iter().filter(|(_, before)| before.is_some()).map(|(id, _)| id);
        known.filter(unused).map(|id| Update::RemoveAction(*id))
    }

    /// As [`adds`](Self::adds), those included that were new and are not in use any more: updates of
    /// a bundle in between may name them.
    pub fn adds_all(&self) -> impl Iterator<Item = Update> {
        self.touched
            .iter()
            .filter(|(_, before)| before.is_none())
            .filter_map(|(id, _)| Some(Update::AddAction(*id, self.slots.get(id)?.action.clone())))
    }

    /// As [`removes`](Self::removes), for [`adds_all`](Self::adds_all).
    pub fn removes_all(&self) -> impl Iterator<Item = Update> {
        let unused = |id: &&ActionId| self.slots.get(*id).is_some_and(|s| s.users == 0);
        self.touched.keys().filter(unused).map(|id| Update::RemoveAction(*id))
    }

    /// The transaction happened.
    pub fn commit(&mut self) {
        for (id, _) in std::mem::take(&mut self.touched) {
            if self.slots.get(&id).is_some_and(|s| s.users == 0) {
                self.forget(id);
            }
        }
    }

    /// The transaction did not happen: everything is as it was at the last commit.
    pub fn rollback(&mut self) {
        for (id, before) in std::mem::take(&mut self.touched) {
            match (before, self.slots.get_mut(&id)) {
                (Some(users), Some(slot)) => slot.users = users,
                _ => self.forget(id),
            }
        }
    }

    fn forget(&mut self, id: ActionId) {
        if let Some(slot) = self.slots.remove(&id) {
            self.by_shape.remove(&slot.shape);
            self.free.insert(id);
            for id in learns(&slot.shape) {
                self.let_go(id);
            }
        }
    }

    /// The number of a `learn`, with one more user.
    pub fn hold(&mut self, learn: &Arc<Learn>) -> u32 {
        let id = self.learn(learn);
        if let Some((_, users)) = self.learn_users.get_mut(&id) {
            *users += 1;
        }
        id
    }

    /// A `learn` has one user less.
    pub fn let_go(&mut self, id: u32) {
        let Some((learn, users)) = self.learn_users.get_mut(&id) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.learns.remove(learn);
            self.learners.end(id, learn);
            self.learn_users.remove(&id);
        }
    }
}
