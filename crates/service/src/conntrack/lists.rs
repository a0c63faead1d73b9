//! The lists that records are on: a hierarchical timing wheel for connections that were answered,
//! and one queue, oldest first, for each kind of connection that was not, and for those that are over.
//!
//! The wheel is Varghese and Lauck's (1987): a slot for each of the next 64 ticks, and above it five
//! levels whose slots are 64 times as long; a record is filed by the highest digit (base 64) in which
//! its deadline differs from now. A packet that moves a deadline on touches no list: when the slot
//! begins, the record is filed anew. Only a deadline that comes nearer is refiled at once, and only if it comes nearer than
//! `far`: a deadline beyond that is filed as if it were there, and looked at again then. An open TCP connection, whose deadline
//! is days ahead, minutes while data is under way, and days again when that is acknowledged, so stays on its list.
//!
//! Connections that nobody answered wait in queues, which give the oldest at once when half-open ones
//! are too many. A deadline is moved on only with the record's place, and most queues have one timeout,
//! so a queue's order is that of the deadlines. Where timeouts differ (SCTP's states, TCP taken up in
//! its middle and closing, zones with their own), a record whose time is over may wait for an older one before it: that
//! costs room among the half-open, no more, since packets look at the deadline itself.
//!
//! Connections that both ends have closed, or one has reset, wait in two more queues, since they make room first of all.
//!
//! Work is bounded: [`Lists::step`] looks at one record, and whoever calls it says how
//! often. A slot that has begun is worked off record by record before the next one begins.
//!
//! Invariants: a live record is on exactly one list, which its field names; a record in the wheel
//! lies in a slot that begins no later than its deadline, and no later than `far` ticks after it was filed; `elapsed` never passes a record that was
//! not looked at.
//! Checked by: the model test below, against a map of deadlines.

use super::record::{NONE, Record, Rest};

const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = 32_usize.div_ceil(DIGIT as usize);
/// Records whose slot has begun.
const DUE: u16 = (LEVELS * SLOTS) as u16;
/// Queues, by kind.
pub(crate) const QUEUES: usize = 9;
/// The first of them are for connections that were not answered.
pub(crate) const HALF_OPEN: usize = 7;

/// A queue of connections that were not answered, or are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Queue {
    /// TCP: a SYN was seen.
    SynSent,
    /// TCP: a SYN and its answer.
    SynReceived,
    /// TCP, taken up in its middle.
    PickedUp,
    /// SCTP before its cookie.
    Sctp,
    /// UDP and UDP-Lite.
    Udp,
    /// ICMP's requests.
    Icmp,
    /// Any other protocol.
    Other,
    /// TCP: both ends have closed it.
    TimeWait,
    /// TCP after a reset, and SCTP that is over.
    Closed,
}

impl Queue {
    /// Whether its connections were not answered.
    pub(crate) fn is_half_open(self) -> bool {
        (self as usize) < HALF_OPEN
    }
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
}

/// The lists.
#[derive(Debug)]
pub(crate) struct Lists {
    /// The tick up to which all has been looked at, is due, or lies in the slot that has begun.
    elapsed: u32,
    /// Ticks that a record is filed ahead at most.
    far: u32,
    /// The slot that has begun and still holds records, or `DUE`.
    begun: u16,
    ends: Box<[Ends]>,
    occupied: [u64; LEVELS],
    lens: [usize; QUEUES],
}

/// What a step has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record whose time is over; it is on no list.
    Expired(u32),
    /// Something was moved.
    Moved,
    /// Nothing more is due.
    Idle,
}

impl Lists {
    pub(crate) fn new(now: u32, far: u32) -> Lists {
        let ends = Ends { head: NONE, tail: NONE };
        Lists {
            elapsed: now,
            far,
            begun: DUE,
            ends: vec![ends; usize::from(DUE) + 1 + QUEUES].into_boxed_slice(),
            occupied: [0; LEVELS],
            lens: [0; QUEUES],
        }
    }

    /// Records in the queues of connections that were not answered.
    pub(crate) fn half_open(&self) -> usize {
        self.lens[..HALF_OPEN].iter().sum()
    }

    /// Whether a record is in a queue.
    pub(crate) fn is_queued(rest: &Rest) -> bool {
        rest.list > DUE
    }

    /// Whether a record is in this queue.
    pub(crate) fn is_in(rest: &Rest, queue: Queue) -> bool {
        rest.list == DUE + 1 + queue as u16
    }

    /// Appends a record that is on no list to a queue.
    pub(crate) fn enqueue(&mut self, rests: &mut [Rest], at: u32, queue: Queue) {
        self.lens[queue as usize] += 1;
        self.append(rests, at, DUE + 1 + queue as u16);
    }

    /// Whether a record in the wheel must be filed anew, whose deadline has become this one at tick `now`.
    #[inline(always)]
    pub(crate) fn is_nearer(&self, now: u32, before: u32, deadline: u32) -> bool {
        deadline < before && deadline < now.saturating_add(self.far)
    }

    /// Files a record that is on no list by its deadline.
    pub(crate) fn file(&mut self, records: &[Record], rests: &mut [Rest], at: u32) {
        let deadline = records[at as usize].deadline.min(self.elapsed.saturating_add(self.far));
        let list = if deadline <= self.elapsed {
            DUE
        } else {
            let level = (deadline ^ self.elapsed).ilog2() / DIGIT;
            let slot = (deadline >> (level * DIGIT)) as usize % SLOTS;
            self.occupied[level as usize] |= 1 << slot;
            (level as usize * SLOTS + slot) as u16
        };
        self.append(rests, at, list);
    }

    fn append(&mut self, rests: &mut [Rest], at: u32, list: u16) {
        let ends = &mut self.ends[usize::from(list)];
        let tail = std::mem::replace(&mut ends.tail, at);
        if tail == NONE {
            ends.head = at;
        } else {
            rests[tail as usize].next = at;
        }
        let rest = &mut rests[at as usize];
        (rest.next, rest.prev, rest.list) = (NONE, tail, list);
    }

    /// Takes a record off its list.
    pub(crate) fn unlink(&mut self, rests: &mut [Rest], at: u32) {
        let Rest { next, prev, list, .. } = rests[at as usize];
        let ends = &mut self.ends[usize::from(list)];
        if next == NONE {
            ends.tail = prev;
        } else {
            rests[next as usize].prev = prev;
        }
        if prev == NONE {
            ends.head = next;
        } else {
            rests[prev as usize].next = next;
        }
        if let Some(queue) = list.checked_sub(DUE + 1) {
            self.lens[usize::from(queue)] -= 1;
        } else if list != DUE && ends.head == NONE {
            if list == self.begun {
                // From now on this slot is the next of its number, which has not begun.
                self.begun = DUE;
            }
            let (level, slot) = (usize::from(list) / SLOTS, usize::from(list) % SLOTS);
            self.occupied[level] &= !(1 << slot);
        }
    }

    /// The oldest record of the longest queue of connections that were not answered.
    pub(crate) fn oldest(&self) -> Option<u32> {
        let queues = self.lens[..HALF_OPEN].iter().enumerate();
        let (queue, len) = queues.max_by_key(|(_, len)| **len)?;
        (*len > 0).then(|| self.head(queue)).flatten()
    }

    /// The oldest record of a connection that is over: reset before closed.
    pub(crate) fn oldest_closed(&self) -> Option<u32> {
        self.head(Queue::Closed as usize).or_else(|| self.head(Queue::TimeWait as usize))
    }

    /// The first of the oldest records of connections that are over for which `wanted` holds, of so many at most in each
    /// queue.
    pub(crate) fn closed(
        &self,
        rests: &[Rest],
        most: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        [Queue::Closed, Queue::TimeWait].into_iter().find_map(|queue| {
            let next = |at: &u32| {
                let next = rests[*at as usize].next;
                (next != NONE).then_some(next)
            };
            std::iter::successors(self.head(queue as usize), next).take(most).find(|at| wanted(*at))
        })
    }

    fn head(&self, queue: usize) -> Option<u32> {
        let head = self.ends[usize::from(DUE) + 1 + queue].head;
        (head != NONE).then_some(head)
    }

    /// Does one piece of the work that is due at tick `now`.
    pub(crate) fn step(&mut self, records: &[Record], rests: &mut [Rest], now: u32) -> Step {
        for queue in 0..QUEUES {
            let head = self.ends[usize::from(DUE) + 1 + queue].head;
            if head != NONE && records[head as usize].deadline <= now {
                self.unlink(rests, head);
                return Step::Expired(head);
            }
        }
        let mut list = DUE;
        if self.ends[usize::from(DUE)].head == NONE {
            list = self.begun;
        }
        if self.ends[usize::from(list)].head == NONE {
            match self.earliest() {
                Some((slot, start)) if start <= now => {
                    (self.begun, self.elapsed, list) = (slot, start, slot);
                }
                _ => {
                    self.elapsed = self.elapsed.max(now);
                    return Step::Idle;
                }
            }
        }
        let head = self.ends[usize::from(list)].head;
        self.unlink(rests, head);
        if records[head as usize].deadline <= now.max(self.elapsed) {
            return Step::Expired(head);
        }
        self.file(records, rests, head);
        Step::Moved
    }

    /// The slot that begins first, and the tick at which it does.
    fn earliest(&self) -> Option<(u16, u32)> {
        self.occupied.iter().enumerate().find_map(|(level, occupied)| {
            if *occupied == 0 {
                return None;
            }
            let slot = occupied.trailing_zeros();
            let low = DIGIT * level as u32;
            let above = u32::MAX.checked_shl(low + DIGIT).unwrap_or(0);
            let start = self.elapsed & above | slot << low;
            Some(((level * SLOTS) as u16 + slot as u16, start))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::tuple::{Role, Tuple};
    use crate::random::Random;
    use std::collections::BTreeMap;
    use wire::IpProtocol;

    fn records(n: usize) -> (Vec<Record>, Vec<Rest>) {
        let tuple = Tuple {
            src: 1,
            dst: 2,
            src_port: 3,
            dst_port: 4,
            zone: 0,
            protocol: IpProtocol::TCP,
            v6: false,
            role: Role::Any,
        };
        vec![Record::new(&tuple, &tuple.inverted()); n].into_iter().unzip()
    }

    /// Random deadlines, some moved on without a word and some refiled, in steps of any size: what
    /// expires is what is due, once the steps are not cut short.
    #[test]
    fn agrees_with_a_map_of_deadlines() {
        let starts = [0, 5, 63, 4095, u32::MAX - 2_000_000];
        for (start, far) in
            starts.into_iter().flat_map(|start| [7, 3000, u32::MAX].map(|far| (start, far)))
        {
            let mut random = Random(u64::from(start) + 1);
            let mut lists = Lists::new(start, far);
            let (mut records, mut rests) = records(300);
            let mut filed = BTreeMap::<u32, u32>::new();
            let mut now = start;
            for _ in 0..10_000 {
                let at = random.below(300) as u32;
                let span = 1 << random.below(20);
                let deadline = now.saturating_add(random.below(span) as u32);
                match (random.below(8), filed.get(&at).copied()) {
                    (0..3, None) => {
                        records[at as usize].deadline = deadline;
                        lists.file(&records, &mut rests, at);
                        filed.insert(at, deadline);
                    }
                    // A packet: later without a word, sooner by being filed anew.
                    (0..3, Some(before)) => {
                        records[at as usize].deadline = deadline;
                        if lists.is_nearer(now, before, deadline) {
                            lists.unlink(&mut rests, at);
                            lists.file(&records, &mut rests, at);
                        }
                        filed.insert(at, deadline);
                    }
                    (3, Some(_)) => {
                        lists.unlink(&mut rests, at);
                        filed.remove(&at);
                    }
                    _ => {
                        let span = 1 << random.below(16);
                        now = now.saturating_add(random.below(span) as u32);
                        let cut_short = random.below(3) == 0;
                        let mut budget = if cut_short { random.below(20) } else { u64::MAX };
                        while budget > 0 {
                            match lists.step(&records, &mut rests, now) {
                                Step::Expired(at) => {
                                    assert!(filed.remove(&at).unwrap() <= now, "too early");
                                }
                                Step::Moved => {}
                                Step::Idle => {
                                    let late = filed.values().find(|d| **d <= now);
                                    assert_eq!(late, None, "at {now}");
                                    break;
                                }
                            }
                            budget -= 1;
                        }
                    }
                }
            }
            assert!(now > start + 500_000);
            let mut left = 0;
            while let Step::Expired(_) | Step::Moved = lists.step(&records, &mut rests, u32::MAX) {
                left += 1;
            }
            assert!(left >= filed.len());
            assert!(lists.occupied.iter().all(|o| *o == 0));
            assert!(lists.ends.iter().all(|e| e.head == NONE && e.tail == NONE));
        }
    }

    #[test]
    fn queues_give_the_oldest_of_the_longest_and_expire_in_order() {
        let mut lists = Lists::new(0, u32::MAX);
        let (mut records, mut rests) = records(10);
        for at in 0..10 {
            records[at as usize].deadline = 100 + at;
            let queue = if at < 4 { Queue::Udp } else { Queue::SynSent };
            lists.enqueue(&mut rests, at, queue);
        }
        assert_eq!((lists.half_open(), lists.oldest()), (10, Some(4)));
        lists.unlink(&mut rests, 4);
        lists.unlink(&mut rests, 9);
        lists.unlink(&mut rests, 7);
        assert_eq!(lists.oldest(), Some(0));
        let mut expired = Vec::new();
        for now in [99, 102, 105, 200] {
            while let Step::Expired(at) = lists.step(&records, &mut rests, now) {
                expired.push((now, at));
            }
        }
        let want = [(102, 0), (102, 1), (102, 2), (105, 5), (105, 3), (200, 6), (200, 8)];
        let mut sorted = expired.clone();
        sorted.sort_unstable();
        let mut want = want.to_vec();
        want.sort_unstable();
        assert_eq!(sorted, want);
        assert_eq!((lists.half_open(), lists.oldest()), (0, None));
    }
}
