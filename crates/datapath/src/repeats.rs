//! Digests that say again what was said a moment ago, and are left out ([`ir::Op::Digest`], `once`).
//!
//! In: each such digest as compiled code comes to it, and as it is sent. Out: whether it is a repeat.
//!
//! A `learn` says of every packet what entry there should be. Open vSwitch runs it for the packets that its flow cache misses,
//! and again as it revalidates. Here each lane remembers what it has sent in the last [`KEPT_NS`], in [`SLOTS`] places. Two
//! hashes stand for a message: of what it is about, and of the rest. They have keys of chance, so nobody can look for two
//! messages that collide.
//!
//! A lane forgets what it sent
//! - once it sends something else about the same, so that the last message is always the one that holds;
//! - when the control side says so ([`Forgotten`]): the entry that a message made has gone or has changed.
//!
//! Cost: two hashes and one or two cache lines for a repeat. Memory: 512 KiB a lane, from its first such message on.
//! Checked by: the tests below, `jit`'s `tests/state.rs`, and `of-pipeline`'s tests of `learn`.

use hashbrown::DefaultHashBuilder;
use jit::Repeatable;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a message stands for its repeats, in nanoseconds. The shortest idle timeout is a second; half of it is left for
/// an entry that is added anew at most every half second.
pub const KEPT_NS: u64 = 250_000_000;
/// Messages that a lane remembers, at most.
pub const SLOTS: usize = 16384;
/// Places by which the control side makes lanes forget.
const PLACES: usize = 4096;

/// A number for what messages are about: many share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u16);

/// How often lanes were to forget, by place. Workers and control side share it.
#[derive(Debug)]
pub struct Forgotten {
    times: Box<[AtomicU32]>,
    /// With keys of chance.
    hasher: DefaultHashBuilder,
}

impl Default for Forgotten {
    fn default() -> Forgotten {
        let times = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        Forgotten { times, hasher: DefaultHashBuilder::default() }
    }
}

impl Forgotten {
    /// What was sent about the subjects of this place is void: the next message of each is sent.
    pub fn forget(&self, place: Place) {
        // What the worker sends next comes behind whatever led here, and the control side takes that up in order.
        self.times[usize::from(place.0)].fetch_add(1, Ordering::Relaxed);
    }

    /// All that was sent is void.
    pub fn forget_all(&self) {
        for times in &self.times {
            times.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn times(&self, place: Place) -> u32 {
        self.times[usize::from(place.0)].load(Ordering::Relaxed)
    }

    /// The hash of what a message is about.
    #[inline]
    fn about(&self, message: &Repeatable<'_>) -> u64 {
        self.hasher.hash_one((message.digest.0, message.about))
    }

    #[inline]
    fn rest(&self, message: &Repeatable<'_>) -> u64 {
        self.hasher.hash_one(message.rest)
    }

    /// A message that is about to be sent.
    pub fn noted(&self, message: &Repeatable<'_>) -> Noted {
        let (about, rest) = (self.about(message), self.rest(message));
        let place = place(about);
        Noted { about, rest, place, times: self.times(place) }
    }
}

/// A message that was sent, or is about to be.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    about: u64,
    rest: u64,
    /// By what the control side makes lanes forget it.
    pub place: Place,
    /// As it was before the message was sent.
    times: u32,
}

/// Its slot comes from the low bits.
fn place(about: u64) -> Place {
    Place((about >> 48) as u16 % PLACES as u16)
}

/// A message that was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    about: u64,
    rest: u64,
    /// Until when it stands for its repeats; 0 if there is none.
    until_ns: u64,
    times: u32,
}

/// What a lane has sent a moment ago.
#[derive(Debug)]
pub struct Repeats {
    /// Empty until something is sent.
    slots: Box<[Slot]>,
    forgotten: Arc<Forgotten>,
}

impl Repeats {
    /// Nothing was sent; the control side says so what is void.
    pub fn new(forgotten: Arc<Forgotten>) -> Repeats {
        Repeats { slots: Box::default(), forgotten }
    }

    /// A message that code has come to was sent a moment ago. If the last one about the same was another, it stands for no
    /// repeats any more.
    #[inline]
    pub fn is_repeat(&mut self, message: &Repeatable<'_>, now_ns: u64) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let about = self.forgotten.about(message);
        for slot in pair(&mut self.slots, about) {
            if slot.about == about && slot.until_ns > 0 {
                let same = now_ns < slot.until_ns
                    && slot.times == self.forgotten.times(place(about))
                    && slot.rest == self.forgotten.rest(message);
                if !same {
                    slot.until_ns = 0;
                }
                return same;
            }
        }
        false
    }

    /// What a message is to be sent with.
    pub fn noted(&self, message: &Repeatable<'_>) -> Noted {
        self.forgotten.noted(message)
    }

    /// A message was sent.
    pub fn sent(&mut self, noted: &Noted, now_ns: u64) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); SLOTS].into();
        }
        let Noted { about, rest, times, .. } = *noted;
        let [first, second] = pair(&mut self.slots, about);
        // The same again, or the older one.
        let old = match (first.about == about, second.about == about) {
            (true, _) => first,
            (_, true) => second,
            _ if first.until_ns <= second.until_ns => first,
            _ => second,
        };
        *old = Slot { about, rest, until_ns: now_ns.saturating_add(KEPT_NS), times };
    }
}

/// The two slots that a message may be in; there are [`SLOTS`].
#[inline]
fn pair(slots: &mut [Slot], about: u64) -> &mut [Slot; 2] {
    let (pairs, _) = slots.as_chunks_mut::<2>();
    let n = pairs.len();
    &mut pairs[about as usize % n]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::DigestId;
    use std::collections::HashMap;

    fn message<'a>(about: &'a [u64], rest: &'a [u64]) -> Repeatable<'a> {
        Repeatable { digest: DigestId(1), about, rest }
    }

    fn say(repeats: &mut Repeats, message: &Repeatable<'_>, now_ns: u64) -> Option<Place> {
        if repeats.is_repeat(message, now_ns) {
            return None;
        }
        let noted = repeats.noted(message);
        repeats.sent(&noted, now_ns);
        Some(noted.place)
    }

    #[test]
    fn a_repeat_is_left_out_until_it_is_old_or_another_message_or_the_control_side_says_otherwise()
    {
        let forgotten = Arc::new(Forgotten::default());
        let mut repeats = Repeats::new(forgotten.clone());
        let (one, two) = (message(&[48, 7], &[32, 1]), message(&[48, 7], &[32, 2]));
        let place = say(&mut repeats, &one, 5).expect("it is new");
        assert_eq!(say(&mut repeats, &one, 6), None);
        assert_eq!(say(&mut repeats, &one, 5 + KEPT_NS - 1), None);
        assert_eq!(say(&mut repeats, &one, 5 + KEPT_NS), Some(place));
        // There and back: both are sent.
        assert_eq!(say(&mut repeats, &two, 5 + KEPT_NS), Some(place));
        assert_eq!(say(&mut repeats, &one, 5 + KEPT_NS), Some(place));
        assert_eq!(say(&mut repeats, &one, 6 + KEPT_NS), None);
        // The same values of another digest are another subject.
        let other = Repeatable { digest: DigestId(2), ..one };
        assert!(say(&mut repeats, &other, 6 + KEPT_NS).is_some());
        assert_eq!(say(&mut repeats, &one, 6 + KEPT_NS), None);
        forgotten.forget(place);
        assert_eq!(say(&mut repeats, &one, 6 + KEPT_NS), Some(place));
        assert_eq!(say(&mut repeats, &one, 6 + KEPT_NS), None);
        forgotten.forget_all();
        assert_eq!(say(&mut repeats, &one, 6 + KEPT_NS), Some(place));
    }

    /// Code comes to a message before those in front of it were sent: it is a repeat only of the last one about the same.
    #[test]
    fn what_is_not_sent_yet_already_counts() {
        let mut repeats = Repeats::new(Arc::default());
        let (one, two) = (message(&[48, 7], &[32, 1]), message(&[48, 7], &[32, 2]));
        say(&mut repeats, &one, 5);
        assert!(!repeats.is_repeat(&two, 6));
        assert!(!repeats.is_repeat(&one, 6), "the last one said something else");
    }

    #[test]
    fn a_change_while_a_message_is_under_way_is_not_missed() {
        let forgotten = Arc::new(Forgotten::default());
        let mut repeats = Repeats::new(forgotten.clone());
        let one = message(&[48, 7], &[32, 1]);
        let noted = repeats.noted(&one);
        forgotten.forget(noted.place);
        repeats.sent(&noted, 5);
        assert!(!repeats.is_repeat(&one, 6));
    }

    /// Against a plain list: no message is left out that the list does not know as the last one about its subject.
    #[test]
    fn what_is_left_out_was_the_last_word() {
        let forgotten = Arc::new(Forgotten::default());
        let mut repeats = Repeats::new(forgotten.clone());
        let mut last: HashMap<u64, (u64, u64)> = HashMap::new();
        let mut rng = ir::testing::Rng::new(3);
        let (mut out, mut sent) = (0, 0);
        for now_ns in (1..400_000u64).map(|i| i * 10_000) {
            let (about, rest) = (rng.below(40_000) as u64, rng.below(2) as u64);
            let (about, rest) = if rng.one_in(2) { (about % 100, 0) } else { (about, rest) };
            let (words, said) = ([48, about], [32, rest]);
            let one = message(&words, &said);
            if rng.one_in(1000) {
                let place = repeats.noted(&one).place;
                forgotten.forget(place);
                last.remove(&about);
            }
            match say(&mut repeats, &one, now_ns) {
                None => {
                    let (was, then_ns) = last.get(&about).copied().expect("it was sent");
                    assert_eq!((was, now_ns - then_ns < KEPT_NS), (rest, true));
                    out += 1;
                }
                Some(_) => {
                    last.insert(about, (rest, now_ns));
                    sent += 1;
                }
            }
        }
        assert!(out > 100_000 && sent > 100_000, "{out} {sent}");
    }
}
