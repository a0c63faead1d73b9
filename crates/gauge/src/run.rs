//! One run of a module: its figures and latencies, and what it found.

use crate::latency::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A name that a script has made up, to stand where ours do. Each is kept once, as long as the process lives;
/// beyond [`NAMES_MAX`] all are one.
pub fn intern(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    if names.len() >= NAMES_MAX {
        return "too_many_names";
    }
    let kept: &'static str = Box::leak(name.to_string().into_boxed_str());
    names.insert(kept);
    kept
}

/// Names that scripts can make up.
pub const NAMES_MAX: usize = 10_000;

/// One run: one set of parameters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// The parameters, for people.
    pub label: String,
    /// What it has in common with the other runs that one line joins in a plot; may be empty.
    pub group: String,
    /// How often it was tried until it was undisturbed, or given up.
    pub attempts: u32,
    /// What disturbed it; its latencies mean nothing if there is anything.
    pub disturbed: Vec<String>,
    /// Single figures.
    pub figures: Vec<(&'static str, f64)>,
    /// Latencies.
    pub latencies: Vec<(&'static str, Summary)>,
    /// What was seen in the course of it.
    pub series: Vec<Series>,
    /// Which floor the latencies stand on.
    pub floor: Floor,
    /// What the switch did wrong.
    pub findings: Vec<Finding>,
    /// What a reader should know besides; accuses nobody.
    pub notes: Vec<String>,
    /// Which repetition of the module it is of, from 0.
    pub repetition: u32,
}

/// Points in their order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// What the first numbers are, with their unit.
    pub x: &'static str,
    /// What the second numbers are, with their unit.
    pub y: &'static str,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// The name of a latency by the kernel's stamps of both ends, which stands on a floor of its own.
pub const WIRE: &str = "wire";

/// A loop of the calibration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Floor {
    /// Data port to data port.
    #[default]
    Data,
    /// The control channel and back.
    Control,
}

/// Something that a switch did wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable word.
    pub what: &'static str,
    /// A sentence.
    pub text: String,
}

impl Run {
    /// Its label, with the repetition that it is of, but for the first.
    pub fn name(&self) -> String {
        match self.repetition {
            0 => self.label.clone(),
            n => format!("{} (repetition {})", self.label, n + 1),
        }
    }

    /// A figure or percentile by the name that thresholds use; none if this run has none.
    pub fn value(&self, name: &str) -> Option<f64> {
        if let Some((_, value)) = self.figures.iter().find(|(n, _)| *n == name) {
            return Some(*value);
        }
        self.latencies.iter().find_map(|(latency, summary)| {
            let rest = name.strip_prefix(latency)?.strip_prefix('_')?.strip_suffix("_us")?;
            let ns = match rest {
                "max" => summary.max_ns,
                "min" => summary.min_ns,
                _ => summary.percentile(percent(rest)?)?,
            };
            Some(ns as f64 / 1000.0)
        })
    }
}

/// `p50`, `p99`, `p99.9`, ...
pub(crate) fn percent(word: &str) -> Option<f64> {
    let number: f64 = word.strip_prefix('p')?.parse().ok()?;
    crate::latency::PERCENTILES.contains(&number).then_some(number)
}
