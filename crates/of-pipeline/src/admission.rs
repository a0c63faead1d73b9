//! Which entries may be learned (ovs-actions(7), `learn` with `limit` and `result_dst`).
//!
//! A packet that learns and wants to know what comes of it is told by the worker that runs it, before the control side
//! makes the entry: 1 if the entry is there or will be, 0 if `limit` forbids it. So the room that a limit leaves is
//! dealt out here: an entry that was promised ([`Room::promised`]) takes its place at once, and the control side makes
//! it when the digest comes, or says that it cannot ([`Admission::settle`]). A promise whose digest is lost lasts
//! [`PROMISE_NS`] since the last packet that was given it.
//!
//! As Open vSwitch counts: a limit is of all entries of the table with the `learn`'s cookie, whoever made them. An entry
//! that is there already, the same in all, needs no room; one that would replace another does.
//!
//! Invariants: a [`Room`]'s entries are those of [`FlowTables`](crate::flow_table::FlowTables) with its table and
//! cookie, as long as some `learn` with a result has that table and cookie, and from before the switch does the first.
//! Cost: a packet, the entry that it makes and its hash, under a lock; a change of an entry, one look whether there are
//! rooms.
//! Checked by: `tests/learning.rs`.

use crate::flow::{Flow, FlowKey};
use crate::learned::entry;
use crate::observer::Observer;
use datapath::services::admission::Judge;
use hashbrown::{HashMap, HashSet};
use ir::Bits;
use of_lower::intern::Learners;
use openflow::{FlowMod, FlowModFlags, Instruction, Learn, Match};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A promise holds for so long without a packet.
const PROMISE_NS: u64 = 10_000_000_000;

/// An entry, in all that is learned of it: two hashes by keys that nobody knows.
type Print = (u64, u64);

/// The entries of a table with a cookie.
#[derive(Debug, Default)]
struct Room {
    /// Those that are there.
    entries: HashSet<Print>,
    /// Those that will be, and when a packet was last told so.
    promised: HashMap<Print, u64>,
    /// `learn`s with a result that fill it.
    learns: usize,
}

#[derive(Debug, Default)]
struct State {
    learns: HashMap<u32, Arc<Learn>>,
    rooms: HashMap<(u8, u64), Room>,
}

/// Deals out the room that limits leave.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    state: Mutex<State>,
    /// There are rooms.
    any: AtomicBool,
    hashers: (RandomState, RandomState),
}

fn room_of(learn: &Learn) -> (u8, u64) {
    (learn.table_id.0, learn.cookie)
}

/// What an entry is, its table and cookie aside.
type Parts<'a> = (u16, &'a Match, &'a [Instruction], [u16; 3], FlowModFlags);

fn parts(flow: &Flow) -> Parts<'_> {
    let times = [flow.idle_timeout, flow.hard_timeout, flow.importance];
    (flow.priority, &flow.matching, &flow.instructions, times, flow.flags)
}

fn parts_of(request: &FlowMod) -> Parts<'_> {
    let times = [request.idle_timeout, request.hard_timeout, request.importance];
    (request.priority, &request.matching, &request.instructions, times, request.flags)
}

impl Admission {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, (priority, matching, instructions, times, flags): Parts<'_>) -> Print {
        let what = (priority, matching, instructions, times, flags.bits());
        (self.hashers.0.hash_one(what), self.hashers.1.hash_one(what))
    }

    /// There will be such `learn`s: what they fill is watched from here on.
    /// `entries` are those that a table has.
    pub(crate) fn open<'a, 'f, I: Iterator<Item = &'f Flow>>(
        &self,
        learns: impl Iterator<Item = &'a Learn>,
        entries: impl Fn(u8) -> I,
    ) {
        for learn in learns.filter(|learn| learn.result_dst.is_some()) {
            let mut state = self.state();
            if state.rooms.contains_key(&room_of(learn)) {
                continue;
            }
            // Of those that came to nothing none is kept.
            state.rooms.retain(|_, room| room.learns != 0);
            let own = entries(learn.table_id.0).filter(|flow| flow.cookie == learn.cookie);
            let entries = own.map(|flow| self.print(parts(flow))).collect();
            state.rooms.insert(room_of(learn), Room { entries, ..Room::default() });
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Whether an entry that a packet asks for was promised. It is as long as it has not [come](Observer::came) or been
    /// [settled](Admission::settle).
    pub(crate) fn promised(&self, learn: &Learn, request: &FlowMod) -> bool {
        learn.result_dst.is_some() && {
            let print = self.print(parts_of(request));
            let state = self.state();
            state.rooms.get(&room_of(learn)).is_some_and(|room| room.promised.contains_key(&print))
        }
    }

    /// Such an entry needs no room that is kept for it.
    pub(crate) fn settle(&self, learn: &Learn, request: &FlowMod) {
        if learn.result_dst.is_some() {
            let print = self.print(parts_of(request));
            let mut state = self.state();
            if let Some(room) = state.rooms.get_mut(&room_of(learn)) {
                room.promised.remove(&print);
            }
        }
    }
}

/// It is shared with the switch.
impl Observer for Arc<Admission> {
    fn came(&mut self, key: FlowKey, flow: &Flow) {
        if self.any.load(Ordering::Relaxed)
            && let Some(room) = self.state().rooms.get_mut(&(key.table, flow.cookie))
        {
            let print = self.print(parts(flow));
            room.promised.remove(&print);
            room.entries.insert(print);
        }
    }

    fn went(&mut self, key: FlowKey, flow: &Flow) {
        if self.any.load(Ordering::Relaxed)
            && let Some(room) = self.state().rooms.get_mut(&(key.table, flow.cookie))
        {
            room.entries.remove(&self.print(parts(flow)));
        }
    }
}

impl Learners for Admission {
    fn begin(&self, which: u32, learn: &Arc<Learn>) {
        if learn.result_dst.is_some() {
            let mut state = self.state();
            state.learns.insert(which, learn.clone());
            state.rooms.entry(room_of(learn)).or_default().learns += 1;
        }
    }

    fn end(&self, which: u32, learn: &Learn) {
        if learn.result_dst.is_some() {
            let mut state = self.state();
            state.learns.remove(&which);
            let place = room_of(learn);
            if let Some(room) = state.rooms.get_mut(&place) {
                room.learns = room.learns.saturating_sub(1);
                if room.learns == 0 {
                    state.rooms.remove(&place);
                }
            }
            self.any.store(!state.rooms.is_empty(), Ordering::Relaxed);
        }
    }
}

impl Judge for Admission {
    fn admits(&self, args: &[Bits], now_ns: u64, look: bool) -> bool {
        let Some((which, values)) = args.split_first() else { return false };
        let learn = self.state().learns.get(&which.low_u32()).cloned();
        let Some(learn) = learn else { return false };
        let request = entry(&learn, values.iter().map(Bits::low_u128));
        let print = self.print(parts_of(&request));
        let mut state = self.state();
        let Some(room) = state.rooms.get_mut(&room_of(&learn)) else { return false };
        if room.entries.contains(&print) {
            return true;
        }
        if let Some(told_ns) = room.promised.get_mut(&print) {
            *told_ns = if look { *told_ns } else { now_ns };
            return true;
        }
        let full = |room: &Room| {
            learn.limit != 0 && room.entries.len() + room.promised.len() >= learn.limit as usize
        };
        if full(room) {
            let lasts = |told_ns: &u64| now_ns.saturating_sub(*told_ns) < PROMISE_NS;
            room.promised.retain(|_, told_ns| lasts(told_ns));
        }
        if full(room) {
            return false;
        }
        if !look {
            room.promised.insert(print, now_ns);
        }
        true
    }
}
