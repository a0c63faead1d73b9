//! Idle and hard timeouts of entries.
//!
//! The switch notes every entry that is inserted with a timeout and, when asked, says which have
//! expired; its client removes them (and tells its controller, or does not). An idle timeout is
//! judged by when a packet last matched the entry, which workers write; so its timer is re-armed
//! lazily, when it fires, and a matching packet costs nothing.
//!
//! Cost: two map operations per entry with a timeout, and `state::timers`'.

use hashbrown::HashMap;
use ir::{Entry, EntryId, TableId};
use state::timers::Timers;

/// An entry whose time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Its table.
    pub table: TableId,
    /// The entry.
    pub entry: EntryId,
    /// Which timeout.
    pub reason: Reason,
}

/// Which timeout ended an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No packet matched it for so long.
    Idle,
    /// It has been there for so long.
    Hard,
}

#[derive(Clone, Copy)]
struct Watch {
    table: TableId,
    inserted_ns: u64,
    idle_ns: u64,
    hard_ns: u64,
}

/// The entries that can expire.
pub struct Expiry {
    watched: HashMap<EntryId, Watch>,
    timers: Timers,
    tick_shift: u32,
}

/// Timeouts are told to about a millisecond (2^20 nanoseconds).
const TICK_SHIFT: u32 = 20;

impl Default for Expiry {
    fn default() -> Self {
        Expiry::with_ticks(TICK_SHIFT)
    }
}

impl Watch {
    fn next(&self, last_used_ns: u64) -> u64 {
        let idle =
            if self.idle_ns == 0 { u64::MAX } else { last_used_ns.saturating_add(self.idle_ns) };
        let hard = if self.hard_ns == 0 {
            u64::MAX
        } else {
            self.inserted_ns.saturating_add(self.hard_ns)
        };
        idle.min(hard)
    }
}

impl Expiry {
    fn with_ticks(tick_shift: u32) -> Expiry {
        Expiry { watched: HashMap::new(), timers: Timers::new(tick_shift, 0), tick_shift }
    }

    /// An entry came.
    pub fn insert(&mut self, table: TableId, entry: &Entry, now_ns: u64) {
        if entry.idle_timeout_ns == 0 && entry.hard_timeout_ns == 0 {
            return;
        }
        let watch = Watch {
            table,
            inserted_ns: now_ns,
            idle_ns: entry.idle_timeout_ns,
            hard_ns: entry.hard_timeout_ns,
        };
        self.timers.arm(u64::from(entry.id.0), watch.next(now_ns));
        self.watched.insert(entry.id, watch);
    }

    /// An entry was replaced, perhaps by one with other timeouts. They count from when the entry
    /// came, or from now if it had none.
    pub fn modify(&mut self, table: TableId, entry: &Entry, now_ns: u64) {
        let since_ns = self.watched.get(&entry.id).map_or(now_ns, |watch| watch.inserted_ns);
        self.remove(entry.id);
        self.insert(table, entry, since_ns);
    }

    /// An entry went.
    pub fn remove(&mut self, entry: EntryId) {
        if self.watched.remove(&entry).is_some() {
            self.timers.cancel(u64::from(entry.0));
        }
    }

    /// All entries of a table went.
    pub fn clear(&mut self, table: TableId) {
        let gone: Vec<EntryId> =
            self.watched.iter().filter(|(_, w)| w.table == table).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// Everything went. Says when what was watched had come, for entries that are put back: their
    /// time does not begin anew.
    pub fn reset(&mut self) -> HashMap<EntryId, u64> {
        let before = std::mem::replace(self, Expiry::with_ticks(self.tick_shift));
        before.watched.into_iter().map(|(id, watch)| (id, watch.inserted_ns)).collect()
    }

    /// A time before which nothing expires, in nanoseconds of the switch's clock.
    pub fn next_ns(&self) -> Option<u64> {
        self.timers.next_ns()
    }

    /// What has expired; each entry is told once. `last_used_ns` says when a packet last matched.
    pub fn advance(&mut self, now_ns: u64, last_used_ns: impl Fn(EntryId) -> u64) -> Vec<Expired> {
        let mut expired = Vec::new();
        let watched = &mut self.watched;
        self.timers.advance(now_ns, &mut |id| {
            let entry = EntryId(id as u32);
            let watch = watched.get(&entry)?;
            let used = last_used_ns(entry).max(watch.inserted_ns);
            let next = watch.next(used);
            if next > now_ns {
                return Some(next);
            }
            let hard =
                watch.hard_ns != 0 && now_ns >= watch.inserted_ns.saturating_add(watch.hard_ns);
            let reason = if hard { Reason::Hard } else { Reason::Idle };
            expired.push(Expired { table: watch.table, entry, reason });
            watched.remove(&entry);
            None
        });
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{ActionCall, ActionId};

    fn entry(id: u32, idle: u64, hard: u64) -> Entry {
        Entry {
            id: EntryId(id),
            priority: 0,
            matches: Default::default(),
            action: ActionCall::new(ActionId(0)),
            cookie: 0,
            idle_timeout_ns: idle,
            hard_timeout_ns: hard,
        }
    }

    #[test]
    fn idle_is_put_off_by_use_and_hard_is_not() {
        let mut e = Expiry::with_ticks(0);
        e.insert(TableId(0), &entry(1, 10, 0), 100);
        e.insert(TableId(1), &entry(2, 10, 25), 100);
        e.insert(TableId(1), &entry(3, 0, 0), 100);
        assert!(e.next_ns().is_some_and(|t| t <= 110));
        assert_eq!(e.advance(109, |_| 0), []);
        assert_eq!(e.advance(110, |_| 105), []);
        let one = Expired { table: TableId(0), entry: EntryId(1), reason: Reason::Idle };
        assert_eq!(e.advance(119, |id| if id.0 == 1 { 105 } else { 118 }), [one]);
        let two = Expired { table: TableId(1), entry: EntryId(2), reason: Reason::Hard };
        assert_eq!(e.advance(125, |_| 124), [two]);
        assert_eq!(e.next_ns(), None);
    }

    #[test]
    fn modified_timeouts_count_from_the_beginning() {
        let mut e = Expiry::with_ticks(0);
        let fired = |e: &mut Expiry, now| e.advance(now, |_| 0).len();
        e.insert(TableId(0), &entry(1, 0, 50), 100);
        e.modify(TableId(0), &entry(1, 0, 50), 140);
        assert_eq!((fired(&mut e, 149), fired(&mut e, 150)), (0, 1));
        e.modify(TableId(0), &entry(2, 0, 10), 200);
        e.insert(TableId(0), &entry(3, 0, 10), 200);
        e.modify(TableId(0), &entry(3, 0, 0), 205);
        e.insert(TableId(0), &entry(4, 0, 500), 200);
        e.modify(TableId(0), &entry(4, 0, 5), 208);
        assert_eq!((fired(&mut e, 209), fired(&mut e, 210), e.next_ns()), (1, 1, None));
    }

    #[test]
    fn removed_and_cleared_entries_do_not_expire() {
        let mut e = Expiry::with_ticks(0);
        for id in 0..100 {
            e.insert(TableId(id % 2), &entry(id, 0, 5), 0);
        }
        e.clear(TableId(0));
        (0..50).for_each(|id| e.remove(EntryId(id)));
        assert_eq!(e.advance(5, |_| 0).len(), 25);
        e.insert(TableId(0), &entry(1, 0, 5), 10);
        e.reset();
        assert_eq!(e.next_ns(), None);
    }

    #[test]
    fn timeouts_near_the_end_of_time_do_not_wrap() {
        let mut e = Expiry::with_ticks(0);
        e.insert(TableId(0), &entry(1, u64::MAX, u64::MAX), 1000);
        assert_eq!(e.advance(u64::MAX - 1, |_| 0), []);
    }
}
