//! A look at all ports, part by part: links, counters, and whether what a port stands on is still there.
//!
//! In: the ports that the database asks for. Out: parts of them, one for each round of [`crate::reconcile`]. A change of
//! the database is done between two parts. So who makes one waits for a part at most, also beside thousands of ports.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Ports of a part. The database's server writes them in one transaction, and does nothing else meanwhile.
pub(crate) const PART: usize = 64;

/// Bridge and port.
pub(crate) type Port = (String, String);

/// How far a look has come.
#[derive(Debug, Default)]
pub(crate) struct Look {
    rest: VecDeque<Port>,
    /// What its parts have taken.
    took: Duration,
    /// When the last one was over.
    ended: Option<Instant>,
}

impl Look {
    /// There are ports that it has not come to.
    pub(crate) fn goes_on(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Another one is to begin: `pause` after the last one, and later if looks would take more than one part in `share` of
    /// the time.
    pub(crate) fn is_due(&self, pause: Duration, share: u32) -> bool {
        let pause = pause.max(self.took * share);
        !self.goes_on() && self.ended.is_none_or(|at| at.elapsed() >= pause)
    }

    /// Begins one at these ports.
    pub(crate) fn begin(&mut self, ports: impl IntoIterator<Item = Port>) {
        self.rest = ports.into_iter().collect();
        self.took = Duration::ZERO;
    }

    /// The next part. Some of its ports may have gone since the look began.
    pub(crate) fn next_part(&mut self) -> Vec<Port> {
        let part = self.rest.len().min(PART);
        self.rest.drain(..part).collect()
    }

    /// A part took so long.
    pub(crate) fn took(&mut self, time: Duration) {
        self.took += time;
        if !self.goes_on() {
            self.ended = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn each_port_is_in_one_part() {
        let mut look = Look::default();
        assert!(look.is_due(Duration::MAX, 10), "there was none");
        let ports = |bridge| (0..PART).map(move |port| (format!("br{bridge}"), format!("p{port}")));
        look.begin((0..2).flat_map(ports));
        let mut all = Vec::new();
        while look.goes_on() {
            assert!(!look.is_due(Duration::ZERO, 0), "one goes on");
            let part = look.next_part();
            assert!(part.len() <= PART);
            all.extend(part);
            look.took(Duration::from_secs(1));
        }
        assert_eq!(all.len(), 2 * PART);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2 * PART);
        assert!(look.is_due(Duration::ZERO, 0), "the pause is over");
        assert!(!look.is_due(Duration::ZERO, 10), "two seconds of looking want twenty of pause");
    }

    #[test]
    fn a_look_at_nothing_ends_at_once() {
        let mut look = Look::default();
        look.begin([]);
        look.took(Duration::ZERO);
        assert!(!look.goes_on());
        assert!(!look.is_due(Duration::from_secs(60), 10));
    }
}
