//! Checks of a balancer's backends: what is asked of them, and what follows from the answers.
//!
//! In: answers, each with its time. Out: whether a backend lives. Nothing here opens a socket: who asks is the control side.
//!
//! The first answer decides alone. From then on [`Check::fall`] failures in a row take a backend out, and [`Check::rise`]
//! successes in a row take it in again.
//!
//! Checked by: the tests below, and those of [`backends`](super::backends).

use std::time::Duration;

/// How a backend is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A TCP connection is opened and closed.
    Tcp,
    /// `GET` of a path by HTTP/1.1; the status decides.
    Http {
        /// What is asked for.
        path: String,
        /// `Host`; the backend's address and port if it is empty.
        host: String,
        /// Statuses that are good, from and to.
        expect: (u16, u16),
    },
    /// An echo request.
    Icmp,
}

impl Ask {
    /// Its word in settings.
    pub fn word(&self) -> &'static str {
        match self {
            Ask::Tcp => "tcp",
            Ask::Http { .. } => "http",
            Ask::Icmp => "icmp",
        }
    }
}

/// A check of backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// How.
    pub ask: Ask,
    /// At this port, of TCP and HTTP.
    pub port: u16,
    /// From the begin of one to the begin of the next.
    pub interval: Duration,
    /// An answer that takes longer is none.
    pub timeout: Duration,
    /// Successes in a row that take a backend in.
    pub rise: u32,
    /// Failures in a row that take it out.
    pub fall: u32,
    /// From this address; where it is not said, the kernel chooses.
    pub source: Option<std::net::IpAddr>,
    /// By this interface; where it is empty, the kernel's routes decide.
    pub device: String,
}

/// What is known of a backend by checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// It takes part.
    pub alive: bool,
    /// Since this time.
    pub since_ns: u64,
    /// Answers, good ones or not.
    pub checks: u64,
    /// Those that were not good.
    pub failures: u64,
    /// How long the last good one took.
    pub latency_ns: Option<u64>,
    /// Why the last one that was not good was not.
    pub error: Option<String>,
    /// Answers in a row that say otherwise than `alive`.
    pub(super) otherwise: u32,
    /// The next question is due.
    pub(super) next_ns: u64,
    /// The answer to the last one has not come.
    pub(super) is_asked: bool,
}

impl Found {
    /// Nothing yet: it takes part.
    pub(super) fn new(now_ns: u64) -> Found {
        Found {
            alive: true,
            since_ns: now_ns,
            checks: 0,
            failures: 0,
            latency_ns: None,
            error: None,
            otherwise: 0,
            next_ns: now_ns,
            is_asked: false,
        }
    }

    /// What another process has found: alive and since when, answers and those that were not good, latency and error.
    pub fn known(
        (alive, since_ns): (bool, u64),
        (checks, failures): (u64, u64),
        (latency_ns, error): (Option<u64>, Option<String>),
        now_ns: u64,
    ) -> Found {
        Found { alive, since_ns, checks, failures, latency_ns, error, ..Found::new(now_ns) }
    }

    /// Takes an answer: how long it took, or why it is not good. True if `alive` has changed.
    pub(super) fn take(&mut self, check: &Check, now_ns: u64, answer: Result<u64, String>) -> bool {
        let is_first = self.checks == 0;
        self.is_asked = false;
        self.checks += 1;
        let good = answer.is_ok();
        match answer {
            Ok(latency_ns) => self.latency_ns = Some(latency_ns),
            Err(why) => {
                self.failures += 1;
                self.error = Some(why);
            }
        }
        if good == self.alive {
            self.otherwise = 0;
            return false;
        }
        self.otherwise += 1;
        let needed = if good { check.rise } else { check.fall };
        if self.otherwise < needed && !is_first {
            return false;
        }
        (self.alive, self.since_ns, self.otherwise) = (good, now_ns, 0);
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::balance) fn check(rise: u32, fall: u32) -> Check {
        Check {
            ask: Ask::Tcp,
            port: 80,
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            rise,
            fall,
            source: None,
            device: String::new(),
        }
    }

    /// After each of these answers: whether it lives.
    fn lives(rise: u32, fall: u32, answers: &str) -> String {
        let mut found = Found::new(0);
        let check = check(rise, fall);
        let mut out = String::new();
        for (now, answer) in (1..).zip(answers.chars()) {
            let answer = if answer == '+' { Ok(5) } else { Err("refused".to_owned()) };
            let before = found.alive;
            let changed = found.take(&check, now, answer);
            assert_eq!(changed, before != found.alive);
            assert_eq!(changed, found.since_ns == now);
            out.push(if found.alive { '+' } else { '-' });
        }
        out
    }

    #[test]
    fn the_first_answer_decides_alone_and_then_so_many_in_a_row() {
        assert_eq!(lives(2, 3, "+--+---+-++--"), "++++++----+++");
        assert_eq!(lives(2, 3, "-+++---"), "--++++-");
        assert_eq!(lives(1, 1, "+-+-"), "+-+-");
    }

    #[test]
    fn what_was_last_is_told() {
        let mut found = Found::new(7);
        assert_eq!((found.since_ns, found.alive), (7, true));
        found.take(&check(2, 2), 8, Err("refused".to_owned()));
        found.take(&check(2, 2), 9, Ok(1234));
        assert_eq!((found.checks, found.failures, found.latency_ns), (2, 1, Some(1234)));
        assert_eq!(
            (found.error.as_deref(), found.alive, found.since_ns),
            (Some("refused"), false, 8)
        );
    }
}
