//! Who ran packets, and why it was not the code for bursts.
//!
//! Packets are counted by what ran them ([`Ran`]) and, if that was not the code for bursts, by the reason: the text
//! of the bail-out, or one of this module's own. A worker counts in cells of its own, so there are neither locks nor
//! shared lines in the packet path. It knows reasons by number; a control core gives the numbers out, when code is made.
//!
//! Holds true: there are at most [`REASONS_MAX`] reasons, however many programs come and go. When there is room for few
//! more, a new one goes by its kind alone (`a group` in place of `table 3: a group`), and at last by [`Reason::OTHER`].
//! Cost: an addition a burst, two for each packet that is left. Memory: 16 bytes for each reason and worker.
//! Checked by: the tests here, `tests/compiled.rs`.

use abi::counters::bump;
use crossbeam_utils::CachePadded;
use hashbrown::HashMap;
use jit::whole::Full;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Reasons that are counted apart, at most.
pub const REASONS_MAX: usize = 640;
/// Of those, so many may name a place in a program.
const PLACES_MAX: usize = 512;

/// What ran a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ran {
    /// Code that runs bursts.
    Code,
    /// Code that runs one packet at a time.
    Whole,
    /// The interpreter.
    #[default]
    Interpreter,
}

impl Ran {
    /// All there are.
    pub const ALL: [Ran; 3] = [Ran::Code, Ran::Whole, Ran::Interpreter];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Ran::Code => "code",
            Ran::Whole => "whole",
            Ran::Interpreter => "interpreter",
        }
    }
}

/// The number of a reason not to be run by the code for bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(u16);

impl Reason {
    /// There are too many others.
    pub const OTHER: Reason = Reason(0);
    /// The engine makes no code.
    pub const ENGINE: Reason = Reason(1);
    /// The version was published before there was code for it.
    pub const NO_CODE: Reason = Reason(2);
    /// The control side has sent it.
    pub const INJECTED: Reason = Reason(3);

    const OWN: [&str; 4] = [
        "another reason",
        "the engine is the interpreter",
        "there is no code for this version yet",
        "a packet of the control side's",
    ];
}

/// Counters of packets by what ran them, and why.
#[derive(Debug)]
pub struct Tally {
    reasons: Mutex<Reasons>,
    workers: Box<[CachePadded<Cells>]>,
    /// It was said that there was no room.
    told: AtomicBool,
}

#[derive(Debug)]
struct Reasons {
    texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, Reason>,
}

/// One worker's share.
#[derive(Debug)]
struct Cells {
    /// Packets that were given to the code for bursts, or would have been.
    given: AtomicU64,
    /// Of those, packets that it has left.
    left: AtomicU64,
    /// By reason.
    whole: Box<[AtomicU64]>,
    interpreter: Box<[AtomicU64]>,
    plans_full: AtomicU64,
    facts_full: AtomicU64,
}

/// Packets by what ran them, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// By the code for bursts.
    pub code: u64,
    /// By the code for one packet.
    pub whole: Left,
    /// By the interpreter.
    pub interpreter: Left,
    /// What the code for one packet had no room for.
    pub full: Full,
}

/// Packets that the code for bursts has not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// In all.
    pub packets: u64,
    /// By reason, the most first.
    pub reasons: Vec<(Arc<str>, u64)>,
}

impl Counted {
    /// Those of one engine, with reasons if there are any.
    pub fn of(&self, ran: Ran) -> (u64, &[(Arc<str>, u64)]) {
        match ran {
            Ran::Code => (self.code, &[]),
            Ran::Whole => (self.whole.packets, &self.whole.reasons),
            Ran::Interpreter => (self.interpreter.packets, &self.interpreter.reasons),
        }
    }

    /// Packets of all engines.
    pub fn packets(&self) -> u64 {
        self.code + self.whole.packets + self.interpreter.packets
    }
}

impl Tally {
    /// Zero, for so many workers.
    pub fn new(workers: usize) -> Tally {
        let zeros = || (0..REASONS_MAX).map(|_| AtomicU64::new(0)).collect();
        let cells = || Cells {
            given: AtomicU64::new(0),
            left: AtomicU64::new(0),
            whole: zeros(),
            interpreter: zeros(),
            plans_full: AtomicU64::new(0),
            facts_full: AtomicU64::new(0),
        };
        let texts: Vec<Arc<str>> = Reason::OWN.iter().map(|text| (*text).into()).collect();
        let numbers = texts.iter().cloned().zip((0..).map(Reason)).collect();
        Tally {
            reasons: Mutex::new(Reasons { texts, numbers }),
            workers: (0..workers).map(|_| CachePadded::new(cells())).collect(),
            told: AtomicBool::new(false),
        }
    }

    /// The number of a reason. For the control side: it takes a lock.
    pub fn reason(&self, text: &str) -> Reason {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.find(text)
    }

    /// So many packets are given to the code for bursts. The worker alone calls it, as what follows.
    #[inline]
    pub fn count_given(&self, worker: usize, packets: usize) {
        bump(&self.workers[worker].given, packets as u64);
    }

    /// The code for bursts leaves a packet that it was given.
    #[inline]
    pub fn count_fallback(&self, worker: usize) {
        bump(&self.workers[worker].left, 1);
    }

    /// A packet was run that the code for bursts was not given, or has left.
    #[inline]
    pub fn count(&self, worker: usize, ran: Ran, reason: Reason) {
        let cells = &self.workers[worker];
        match ran {
            Ran::Code => bump(&cells.given, 1),
            Ran::Whole => bump(&cells.whole[usize::from(reason.0)], 1),
            Ran::Interpreter => bump(&cells.interpreter[usize::from(reason.0)], 1),
        }
    }

    /// The code for one packet had no room for something, if there was something. The first time it is said, by the worker.
    #[inline]
    pub fn count_full(&self, worker: usize, full: Full) {
        if full != Full::NO {
            self.add_full(worker, full);
        }
    }

    #[cold]
    fn add_full(&self, worker: usize, full: Full) {
        let cells = &self.workers[worker];
        bump(&cells.plans_full, full.plans);
        bump(&cells.facts_full, full.facts);
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                worker,
                "no room for more plans of lookups: tables are looked up whole, which is slower (millrace_paths_full_total)"
            );
        }
    }

    /// All workers' counters, summed.
    pub fn counted(&self) -> Counted {
        let get = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let sum = |of: &dyn Fn(&Cells) -> u64| self.workers.iter().map(|cells| of(cells)).sum();
        let texts = self.reasons.lock().unwrap_or_else(PoisonError::into_inner).texts.clone();
        let left = |of: &dyn Fn(&Cells) -> &[AtomicU64]| {
            let counts = texts.iter().enumerate();
            let counts = counts.map(|(at, text)| (text.clone(), sum(&|cells| get(&of(cells)[at]))));
            let mut reasons: Vec<(Arc<str>, u64)> = counts.filter(|(_, n)| *n > 0).collect();
            reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            Left { packets: reasons.iter().map(|(_, n)| n).sum(), reasons }
        };
        // What is left is read first: it was given before.
        let left_in_all: u64 = sum(&|cells| get(&cells.left));
        let given: u64 = sum(&|cells| get(&cells.given));
        Counted {
            code: given.saturating_sub(left_in_all),
            whole: left(&|cells| &cells.whole),
            interpreter: left(&|cells| &cells.interpreter),
            full: Full {
                plans: sum(&|cells| get(&cells.plans_full)),
                facts: sum(&|cells| get(&cells.facts_full)),
            },
        }
    }
}

impl Reasons {
    fn find(&mut self, text: &str) -> Reason {
        if let Some(reason) = self.numbers.get(text) {
            return *reason;
        }
        if self.texts.len() >= PLACES_MAX {
            match text.rsplit_once(": ") {
                Some((_, kind)) => return self.find(kind),
                None if self.texts.len() >= REASONS_MAX => return Reason::OTHER,
                None => {}
            }
        }
        let reason = Reason(self.texts.len() as u16);
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.numbers.insert(text, reason);
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_counted_by_reason_and_not_as_code() {
        let tally = Tally::new(2);
        let (group, meter) = (tally.reason("table 0: a group"), tally.reason("a meter"));
        assert_eq!(tally.reason("a meter"), meter);
        assert_ne!(group, meter);
        for worker in 0..2 {
            tally.count_given(worker, 32);
            for reason in [group, group, meter] {
                tally.count_fallback(worker);
                tally.count(worker, Ran::Interpreter, reason);
            }
            tally.count_fallback(worker);
            tally.count(worker, Ran::Whole, group);
            tally.count(worker, Ran::Interpreter, Reason::INJECTED);
        }
        let counted = tally.counted();
        assert_eq!(counted.code, 2 * 28);
        assert_eq!(
            counted.whole,
            Left { packets: 2, reasons: vec![("table 0: a group".into(), 2)] }
        );
        let reasons: Vec<(&str, u64)> =
            counted.interpreter.reasons.iter().map(|(text, n)| (&**text, *n)).collect();
        let injected = "a packet of the control side's";
        assert_eq!(reasons, [("table 0: a group", 4), ("a meter", 2), (injected, 2)]);
        assert_eq!((counted.interpreter.packets, counted.packets()), (8, 2 * 33));
    }

    #[test]
    fn what_there_was_no_room_for_is_summed_and_said_once() {
        let tally = Tally::new(2);
        tally.count_full(0, Full::NO);
        assert!(!tally.told.load(Ordering::Relaxed));
        for worker in [0, 1, 1] {
            tally.count_full(worker, Full { plans: 2, facts: 5 });
        }
        assert!(tally.told.load(Ordering::Relaxed));
        assert_eq!(tally.counted().full, Full { plans: 6, facts: 15 });
    }

    #[test]
    fn reasons_are_bounded_and_lose_their_place_first() {
        let tally = Tally::new(1);
        for table in 0..2 * REASONS_MAX {
            tally.reason(&format!("table {table}: a group"));
        }
        let kind = tally.reason("a group");
        assert_ne!(kind, Reason::OTHER);
        assert_eq!(tally.reason("table 9999: a group"), kind);
        assert_ne!(tally.reason("table 1: a group"), kind);
        let late: Vec<Reason> =
            (0..REASONS_MAX).map(|n| tally.reason(&format!("reason {n}"))).collect();
        assert_eq!(late.last(), Some(&Reason::OTHER));
        tally.count(0, Ran::Interpreter, late[0]);
        tally.count(0, Ran::Interpreter, late[REASONS_MAX - 1]);
        let counted = tally.counted().interpreter;
        assert_eq!(counted.reasons, [("another reason".into(), 1), ("reason 0".into(), 1)]);
    }
}
