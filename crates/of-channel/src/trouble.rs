//! A controller that is not reached: said at once, then ever more rarely, and when it is over.
//!
//! Time is an argument. What is said again is said after [`FIRST`], and then after ten times as long
//! as before, up to [`MOST`]; another cause than before is said at once, if that is not too soon.

use std::time::{Duration, Instant};

/// After the first warning the next comes after so long.
const FIRST: Duration = Duration::from_secs(5);
/// The longest time between two warnings.
const MOST: Duration = Duration::from_secs(600);
/// Another cause is said so soon at most.
const CAUSE: Duration = Duration::from_secs(1);

/// A controller that is not reached.
#[derive(Debug)]
pub(crate) struct Trouble {
    since: Instant,
    attempts: u64,
    cause: String,
    said: Instant,
    pause: Duration,
}

/// What is to be said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Attempts so far.
    pub(crate) attempts: u64,
    /// Seconds since the first of them.
    pub(crate) seconds: u64,
}

impl Trouble {
    /// An attempt failed; says whether that is to be said.
    pub(crate) fn failed(trouble: &mut Option<Trouble>, cause: &str, now: Instant) -> Option<Said> {
        let Some(known) = trouble else {
            let cause = cause.to_owned();
            *trouble = Some(Trouble { since: now, attempts: 1, cause, said: now, pause: FIRST });
            return Some(Said { attempts: 1, seconds: 0 });
        };
        known.attempts += 1;
        let passed = now.saturating_duration_since(known.said);
        let another = known.cause != cause && passed >= CAUSE;
        if passed < known.pause && !another {
            return None;
        }
        if !another {
            known.pause = known.pause.saturating_mul(10).min(MOST);
        }
        cause.clone_into(&mut known.cause);
        known.said = now;
        Some(known.so_far(now))
    }

    /// What there is to say of it so far.
    pub(crate) fn so_far(&self, now: Instant) -> Said {
        let seconds = now.saturating_duration_since(self.since).as_secs();
        Said { attempts: self.attempts, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn said_at_once_and_then_more_rarely_and_when_it_is_over() {
        let (start, mut trouble) = (Instant::now(), None);
        let mut said = Vec::new();
        for second in 0..4000 {
            let now = start + Duration::from_secs(second);
            if Trouble::failed(&mut trouble, "refused", now).is_some() {
                said.push(second);
            }
        }
        assert_eq!(said, [0, 5, 55, 555, 1155, 1755, 2355, 2955, 3555]);
        let now = start + Duration::from_secs(4000);
        let so_far = trouble.take().map(|trouble| trouble.so_far(now));
        assert_eq!(so_far, Some(Said { attempts: 4000, seconds: 4000 }));
        assert!(Trouble::failed(&mut trouble, "refused", now).is_some(), "it begins anew");
    }

    #[test]
    fn another_cause_is_said_soon_but_not_all_the_time() {
        let (start, mut trouble) = (Instant::now(), None);
        let mut said = 0;
        for step in 0..300u64 {
            let cause = ["refused", "no such host"][step as usize % 2];
            let now = start + Duration::from_millis(step * 10);
            said += u32::from(Trouble::failed(&mut trouble, cause, now).is_some());
        }
        assert_eq!(said, 3);
    }

    #[test]
    fn a_clock_that_goes_back_says_nothing() {
        let (start, mut trouble) = (Instant::now(), None);
        let later = start + Duration::from_secs(60);
        assert!(Trouble::failed(&mut trouble, "refused", later).is_some());
        assert!(Trouble::failed(&mut trouble, "refused", start).is_none());
        assert_eq!(trouble.unwrap().so_far(start).seconds, 0);
    }
}
