//! Signs of life: which thread of a switch stands still, and where.
//!
//! A worker is asked to answer a command that does nothing; it costs packets nothing. Other threads count their
//! rounds ([`Pulse`]), one a second at least. [`Switch::watch`] looks at all of them [`LOOKS`] times within its bound:
//! who has not moved for as many looks stands still. Looks count, not the clock: a process that was stopped and
//! continued, or a machine that slept, has lost a look, no more.
//!
//! Where a thread stands is what the kernel tells of it (`/proc/self/task/N/syscall`, `wchan`).
//!
//! Checked by: the tests below, with looks that they make themselves; `tests/watch.rs`, with a port that blocks.

use crate::signs::Sign;
pub use crate::signs::{LONG, Pulse, Still, place};
use crate::switch::Switch;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Looks within the bound.
pub const LOOKS: u32 = 5;

/// What was seen of each thread, and how many looks ago it moved.
#[derive(Default)]
struct Seen(HashMap<(String, i32), (u64, u32)>);

impl Seen {
    /// One look; who stands still, if somebody does.
    fn look(&mut self, signs: &[Sign]) -> Option<Still> {
        let mut still = None;
        let mut seen = HashMap::with_capacity(signs.len());
        for sign in signs {
            let key = (sign.name.clone(), sign.tid);
            let looks = match self.0.get(&key) {
                Some((moved, looks)) if *moved == sign.moved && !sign.idle => looks + 1,
                _ => 0,
            };
            if looks >= LOOKS * sign.patience {
                still.get_or_insert_with(|| sign.still());
            }
            seen.insert(key, (sign.moved, looks));
        }
        // Threads that have ended are forgotten.
        self.0 = seen;
        still
    }
}

impl Switch {
    /// A sign of life for a thread of the switch's clients, which is watched from now on until the sign is dropped.
    pub fn pulse(&self, name: &str) -> Pulse {
        let (pulse, weak) = Pulse::new(name, 1);
        self.inner.add_pulse(weak);
        pulse
    }

    /// Watches all threads, until the switch stops: tells the first one that has not moved for so long, and ends.
    pub fn watch(
        &self,
        bound: Duration,
        tell: impl FnOnce(Still) + Send + 'static,
    ) -> std::io::Result<()> {
        let (weak, signals) = (Arc::downgrade(&self.inner), self.inner.signals.clone());
        let watching = move || {
            let mut seen = Seen::default();
            while !signals.is_stopping() {
                std::thread::sleep(bound / LOOKS);
                let Some(inner) = weak.upgrade() else { return };
                if let Some(still) = seen.look(&inner.signs()) {
                    if !signals.is_stopping() {
                        tell(still);
                    }
                    return;
                }
                // Whoever has answered is asked again.
                inner.ask_workers();
            }
        };
        std::thread::Builder::new().name("watchdog".into()).spawn(watching).map(|_| ())
    }

    /// Workers that have not yet done what they were told, and where they are: for who waits for them in vain.
    pub fn busy_workers(&self) -> Vec<Still> {
        self.inner.worker_signs().filter(|sign| !sign.idle).map(|sign| sign.still()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(name: &str, moved: u64, idle: bool, patience: u32) -> Sign {
        Sign { name: name.into(), tid: 0, moved, idle, patience }
    }

    #[test]
    fn who_has_not_moved_for_all_looks_stands_still() {
        let mut seen = Seen::default();
        for moved in 0..20 {
            // The second one has nothing to do.
            assert_eq!(seen.look(&[sign("a", moved, false, 1), sign("b", 7, true, 1)]), None);
        }
        for _ in 0..LOOKS - 1 {
            assert_eq!(seen.look(&[sign("a", 19, false, 1)]), None);
        }
        let still = seen.look(&[sign("a", 19, false, 1)]).unwrap();
        assert_eq!(still.thread, "a");
    }

    #[test]
    fn one_move_is_enough_to_be_given_the_whole_bound_again() {
        let mut seen = Seen::default();
        for round in 0..10 {
            for _ in 0..LOOKS {
                assert_eq!(seen.look(&[sign("a", round, false, 1)]), None);
            }
        }
    }

    #[test]
    fn long_work_is_given_more_bounds_and_the_dead_are_forgotten() {
        let mut seen = Seen::default();
        for _ in 0..LOOKS * LONG {
            assert_eq!(seen.look(&[sign("compile", 1, false, LONG)]), None);
        }
        assert_eq!(seen.look(&[]), None);
        assert_eq!(seen.look(&[sign("compile", 1, false, LONG)]), None, "another of the same name");
        for _ in 0..LOOKS * LONG - 1 {
            assert_eq!(seen.look(&[sign("compile", 1, false, LONG)]), None);
        }
        assert!(seen.look(&[sign("compile", 1, false, LONG)]).is_some());
    }
}
