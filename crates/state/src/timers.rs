//! A hierarchical timing wheel (Varghese and Lauck, 1987), keyed by ids of the caller.
//!
//! Time is cut into ticks of a power of two of nanoseconds. Level 0 has a slot for each of the next
//! 64 ticks, every level above slots 64 times as long. A timer is filed at the level of the highest
//! digit (base 64) in which its tick differs from now, and moves down when that slot begins; empty
//! slots are skipped by bitmap, so time may leap.
//!
//! Idle timeouts re-arm lazily: nobody touches the timer when a packet is seen; when it expires,
//! the caller looks at the entry's last use and answers with the next deadline.
//!
//! Invariants: a timer never fires before its deadline, and in the first [`Timers::advance`] whose
//! tick has reached it, so less than a tick late; an id is armed once at most; a filed timer's tick
//! lies ahead of `elapsed`, all others wait in `due`.
//! Cost: arm and cancel O(1), one hash lookup; a timer moves at most once per level; 37 to 42 bytes
//! per timer.
//! Checked by: the model test below, against a sorted map.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = 64_usize.div_ceil(DIGIT as usize);
const NONE: u32 = u32::MAX;
/// The list of timers that fire at the next advance, as a level.
const DUE: u8 = u8::MAX;

#[derive(Debug, Clone, Copy)]
struct Timer {
    id: u64,
    tick: u64,
    next: u32,
    prev: u32,
    level: u8,
    slot: u8,
}

#[derive(Debug)]
struct Level {
    occupied: u64,
    heads: [u32; SLOTS],
}

/// Timers by id.
#[derive(Debug)]
pub struct Timers {
    shift: u32,
    /// The tick up to which all has been fired or stands in `due`.
    elapsed: u64,
    levels: Box<[Level]>,
    due: u32,
    timers: Vec<Timer>,
    free: u32,
    by_id: HashTable<u32>,
    state: FixedState,
}

impl Timers {
    /// A wheel whose ticks are 2^`tick_shift` nanoseconds long (20 is about a millisecond; 40 is
    /// the most), and whose time is `now_ns`.
    pub fn new(tick_shift: u32, now_ns: u64) -> Timers {
        let shift = tick_shift.min(40);
        let level = || Level { occupied: 0, heads: [NONE; SLOTS] };
        Timers {
            shift,
            elapsed: now_ns >> shift,
            levels: (0..LEVELS).map(|_| level()).collect(),
            due: NONE,
            timers: Vec::new(),
            free: NONE,
            by_id: HashTable::new(),
            state: FixedState::with_seed(0),
        }
    }

    /// Number of armed timers.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Arms the timer `id` for `deadline_ns`, or moves it there if it is armed. A deadline that is
    /// past fires at the next advance.
    pub fn arm(&mut self, id: u64, deadline_ns: u64) {
        let tick = self.tick_of(deadline_ns);
        if let Some(at) = self.find(id) {
            self.unlink(at);
            self.timers[at as usize].tick = tick;
            self.file(at);
            return;
        }
        let timer = Timer { id, tick, next: NONE, prev: NONE, level: DUE, slot: 0 };
        let at = if self.free == NONE {
            self.timers.push(timer);
            (self.timers.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.timers[at as usize].next;
            self.timers[at as usize] = timer;
            at
        };
        let (timers, state) = (&self.timers, &self.state);
        let hash = state.hash_one(id);
        self.by_id.insert_unique(hash, at, |&t| state.hash_one(timers[t as usize].id));
        self.file(at);
    }

    /// Disarms a timer; false if it was not armed.
    pub fn cancel(&mut self, id: u64) -> bool {
        let Some(at) = self.find(id) else { return false };
        self.unlink(at);
        self.discard(at);
        true
    }

    /// Fires every timer whose deadline's tick has come by `now_ns`, in no particular order. The
    /// function answers with the next deadline, and the timer stays armed, or with `None`. A next
    /// deadline that is past already fires at the next advance, not in this one. A `now_ns` before
    /// an earlier one fires only what is due.
    pub fn advance(&mut self, now_ns: u64, expired: &mut dyn FnMut(u64) -> Option<u64>) {
        let target = (now_ns >> self.shift).max(self.elapsed);
        while let Some((level, slot, start)) = self.earliest()
            && start <= target
        {
            self.elapsed = start;
            let place = &mut self.levels[level];
            let mut at = std::mem::replace(&mut place.heads[slot], NONE);
            place.occupied &= !(1 << slot);
            while at != NONE {
                let next = self.timers[at as usize].next;
                self.file(at);
                at = next;
            }
        }
        self.elapsed = target;
        let mut at = std::mem::replace(&mut self.due, NONE);
        while at != NONE {
            let Timer { id, next, .. } = self.timers[at as usize];
            match expired(id) {
                Some(deadline_ns) => {
                    self.timers[at as usize].tick = self.tick_of(deadline_ns);
                    self.file(at);
                }
                None => self.discard(at),
            }
            at = next;
        }
    }

    /// A time before which no advance fires anything, and at which the next call is not late; it
    /// may fire nothing even so. None if nothing is armed.
    pub fn next_ns(&self) -> Option<u64> {
        if self.due != NONE {
            return Some(self.elapsed << self.shift);
        }
        self.earliest().map(|(_, _, start)| start << self.shift)
    }

    /// The first tick that is not before the deadline.
    fn tick_of(&self, deadline_ns: u64) -> u64 {
        let tick = deadline_ns >> self.shift;
        let exact = tick << self.shift == deadline_ns;
        // A deadline within the last tick of time itself fires in it.
        (tick + u64::from(!exact)).min(u64::MAX >> self.shift)
    }

    /// The slot that begins first: level, slot and the tick it begins at.
    fn earliest(&self) -> Option<(usize, usize, u64)> {
        self.levels.iter().enumerate().find_map(|(n, level)| {
            if level.occupied == 0 {
                return None;
            }
            let slot = level.occupied.trailing_zeros();
            let low = DIGIT * n as u32;
            let above = u64::MAX.checked_shl(low + DIGIT).unwrap_or(0);
            Some((n, slot as usize, self.elapsed & above | u64::from(slot) << low))
        })
    }

    /// Links a timer that is on no list where its tick puts it.
    fn file(&mut self, at: u32) {
        let tick = self.timers[at as usize].tick;
        let (level, slot) = if tick <= self.elapsed {
            (DUE, 0)
        } else {
            let level = (tick ^ self.elapsed).ilog2() / DIGIT;
            (level as u8, (tick >> (level * DIGIT)) as u8 % SLOTS as u8)
        };
        let head = self.head(level, slot);
        let next = std::mem::replace(head, at);
        if level != DUE {
            self.levels[level as usize].occupied |= 1 << slot;
        }
        if next != NONE {
            self.timers[next as usize].prev = at;
        }
        let timer = &mut self.timers[at as usize];
        (timer.next, timer.prev, timer.level, timer.slot) = (next, NONE, level, slot);
    }

    fn unlink(&mut self, at: u32) {
        let Timer { next, prev, level, slot, .. } = self.timers[at as usize];
        if next != NONE {
            self.timers[next as usize].prev = prev;
        }
        if prev != NONE {
            self.timers[prev as usize].next = next;
            return;
        }
        *self.head(level, slot) = next;
        if next == NONE && level != DUE {
            self.levels[level as usize].occupied &= !(1 << slot);
        }
    }

    fn head(&mut self, level: u8, slot: u8) -> &mut u32 {
        match level {
            DUE => &mut self.due,
            level => &mut self.levels[level as usize].heads[slot as usize],
        }
    }

    /// Forgets a timer that is on no list.
    fn discard(&mut self, at: u32) {
        let hash = self.state.hash_one(self.timers[at as usize].id);
        if let Ok(entry) = self.by_id.find_entry(hash, |&t| t == at) {
            entry.remove();
        }
        self.timers[at as usize].next = self.free;
        self.free = at;
    }

    fn find(&self, id: u64) -> Option<u32> {
        let hash = self.state.hash_one(id);
        self.by_id.find(hash, |&t| self.timers[t as usize].id == id).copied()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A small generator (SplitMix64).
    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        pub(crate) fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }

        pub(crate) fn below(&mut self, n: u64) -> u64 {
            self.next() % n
        }
    }

    #[test]
    fn agrees_with_a_map_of_deadlines() {
        for (shift, start) in [(0, 0), (0, u64::MAX / 2), (10, 5000), (20, 1 << 60), (99, 0)] {
            let mut random = Random(shift as u64 + 5);
            let mut timers = Timers::new(shift, start);
            let unit = 1u64 << shift.min(40);
            let mut twin = BTreeMap::<u64, u64>::new();
            let mut now = start;
            for step in 0..30_000u64 {
                let far = 1u64 << random.below(22);
                let deadline =
                    (now + random.below(far * unit)).saturating_sub(random.below(3) * unit);
                let id = random.below(200) * 0x1_0000_0001;
                match random.below(8) {
                    0..4 => {
                        timers.arm(id, deadline);
                        twin.insert(id, deadline);
                    }
                    4 => assert_eq!(timers.cancel(id), twin.remove(&id).is_some()),
                    _ => {
                        if step % 9 != 0 {
                            let leap = unit << random.below(12);
                            now += random.below(1 + leap);
                        }
                        let (fresh, mut fired) = (random.below(2) == 0, Vec::new());
                        // Less than a tick late: due once the tick after the deadline has begun.
                        let due = |d: u64| d.div_ceil(unit) <= now / unit;
                        let mut want: Vec<u64> =
                            twin.iter().filter(|t| due(*t.1)).map(|t| *t.0).collect();
                        if let Some(next) = timers.next_ns() {
                            assert!(want.is_empty() || next <= now);
                        }
                        timers.advance(now, &mut |id| {
                            fired.push(id);
                            let again = (fresh && id % 2 == 0).then_some(deadline);
                            match again {
                                Some(deadline) => twin.insert(id, deadline),
                                None => twin.remove(&id),
                            };
                            again
                        });
                        want.sort_unstable();
                        fired.sort_unstable();
                        assert_eq!(fired, want, "shift {shift} step {step}");
                    }
                }
                assert_eq!(timers.len(), twin.len());
            }
            timers.advance(u64::MAX, &mut |id| {
                twin.remove(&id);
                None
            });
            assert!(timers.is_empty() && twin.is_empty() && timers.next_ns().is_none());
        }
    }

    #[test]
    fn an_idle_timeout_is_rearmed_from_the_last_use() {
        let second = 1_000_000_000u64;
        let mut timers = Timers::new(20, 0);
        timers.arm(1, 10 * second);
        let (last_used, mut fired_at) = (7 * second, None);
        for now in (0..30).map(|s| s * second) {
            timers.advance(now, &mut |_| {
                let idle_at = last_used + 10 * second;
                (idle_at > now).then_some(idle_at).or_else(|| {
                    fired_at = Some(now / second);
                    None
                })
            });
        }
        assert_eq!(fired_at, Some(18), "at 17 s, seen by the first call a tick later");
    }

    #[test]
    fn a_deadline_already_past_fires_once_per_advance() {
        let mut timers = Timers::new(0, 100);
        timers.arm(1, 5);
        let mut count = 0;
        for _ in 0..3 {
            timers.advance(100, &mut |_| {
                count += 1;
                Some(0)
            });
        }
        assert_eq!(count, 3);
        timers.advance(7, &mut |_| None);
        assert!(timers.is_empty());
        timers.arm(2, u64::MAX);
        timers.advance(u64::MAX - 1, &mut |_| panic!("too early"));
        timers.advance(u64::MAX, &mut |_| None);
        assert!(timers.is_empty());
    }

    #[test]
    fn a_million_timers_take_bounded_memory_and_all_fire() {
        let mut random = Random(4);
        let mut timers = Timers::new(20, 0);
        (0..1_000_000).for_each(|id| timers.arm(id, random.below(600_000_000_000)));
        (0..1_000_000).step_by(2).for_each(|id| assert!(timers.cancel(id)));
        let mut fired = 0;
        for second in 0..=601 {
            timers.advance(second * 1_000_000_000, &mut |id| {
                assert_eq!(id % 2, 1);
                fired += 1;
                None
            });
        }
        assert_eq!(fired, 500_000);
        let bytes = timers.timers.capacity() * size_of::<Timer>() + timers.by_id.allocation_size();
        assert!(bytes < 48_000_000, "{bytes}");
    }
}
