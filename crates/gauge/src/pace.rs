//! How far a session has come, and what is left of it.
//!
//! What a module takes is known from earlier sessions of the default settings ([`TAKES`]). What the modules of this session have
//! taken so far, against that, says what the rest takes.
//!
//! Checked by: the tests below.

use std::time::Instant;

/// What modules take with default settings, in seconds: a session on loopback, with one run of each kind undisturbed.
const TAKES: &[(&str, f64)] = &[
    ("echo", 3.0),
    ("forwarding", 13.0),
    ("loss", 9.0),
    ("throughput", 40.0),
    ("actions", 40.0),
    ("described", 0.1),
    ("insertion", 5.0),
    ("modification", 5.0),
    ("deletion", 5.0),
    ("priority", 10.0),
    ("occupancy", 15.0),
    ("order", 3.0),
    ("barrier", 5.0),
    ("update_rate", 10.0),
    ("polling", 6.0),
    ("echo_loaded", 8.0),
    ("packet_in", 4.0),
    ("packet_out", 4.0),
    ("packet_in_rate", 20.0),
    ("packet_out_rate", 20.0),
    ("statistics", 8.0),
    ("port_statistics", 5.0),
    ("meter", 10.0),
    ("failover", 8.0),
    ("flows", 12.0),
    ("masks", 12.0),
    ("connections", 15.0),
    ("restart", 0.1),
];
/// A module that is not known takes so long.
const UNKNOWN: f64 = 10.0;

/// How far a session has come.
pub(crate) struct Pace<'a> {
    names: Vec<&'a str>,
    repetitions: u32,
    begun: usize,
    since: Instant,
}

impl<'a> Pace<'a> {
    /// These modules come, each so often, from now on.
    pub(crate) fn new(names: Vec<&'a str>, repetitions: u32) -> Pace<'a> {
        Pace { names, repetitions, begun: 0, since: Instant::now() }
    }

    /// The next module begins: a line about it.
    pub(crate) fn begin(&mut self) -> String {
        let elapsed = self.since.elapsed().as_secs_f64();
        let line = self.line(elapsed);
        self.begun += 1;
        line
    }

    fn line(&self, elapsed_s: f64) -> String {
        let all = self.names.len() * self.repetitions as usize;
        let name = self.names.get(self.begun % self.names.len().max(1)).copied().unwrap_or("");
        let sum = |range: std::ops::Range<usize>| -> f64 {
            range.map(|at| takes(self.names[at % self.names.len()])).sum()
        };
        let (done, left) = (sum(0..self.begun), sum(self.begun..all));
        let rest = if done > 0.0 { left * elapsed_s / done } else { left };
        format!("{} of {all}: {name}, about {} left", self.begun + 1, told(rest))
    }
}

fn takes(module: &str) -> f64 {
    TAKES.iter().find(|(name, _)| *name == module).map_or(UNKNOWN, |(_, seconds)| *seconds)
}

/// A time as people say it.
fn told(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::MODULES;

    #[test]
    fn every_module_has_a_time() {
        let names: Vec<&str> = TAKES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, MODULES.iter().map(|module| module.name).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_done_says_what_the_rest_takes() {
        let mut pace = Pace::new(vec!["echo", "loss", "mine"], 2);
        assert_eq!(pace.line(0.0), "1 of 6: echo, about 44 s left");
        pace.begun = 1;
        // It took ten times as long as is known.
        assert_eq!(pace.line(30.0), "2 of 6: loss, about 7 min left");
        pace.begun = 5;
        assert_eq!(pace.line(34.0), "6 of 6: mine, about 10 s left");
    }
}
