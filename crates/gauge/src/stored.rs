//! A report as it lies in a file: what pages, comparisons and JUnit output are made from, whether the
//! measurement has just ended or was years ago.
//!
//! Unknown fields are passed over, so a reader of one version reads what a later one of the same
//! [`SCHEMA`] has added; another schema is refused.
//!
//! Checked by: the tests below and of [`page`](crate::page), [`compare`](crate::compare).

use crate::latency::Summary;
use crate::report::{Ended, SCHEMA};
use crate::run::{Floor, WIRE};
use crate::verdict::Word;
use serde::Deserialize;

/// [`report::Report`](crate::report::Report), read back.
#[derive(Clone, Debug, Deserialize)]
pub struct Stored {
    /// [`SCHEMA`].
    pub schema: String,
    /// millrace's version.
    pub version: String,
    /// When it began.
    #[serde(default)]
    pub taken_at: String,
    /// The command that took it.
    #[serde(default)]
    pub command: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// What was measured.
    pub switch: Switch,
    /// By what settings.
    pub settings: Settings,
    /// What the instrument itself costs.
    pub calibration: Calibration,
    /// What that says of the machine.
    #[serde(default)]
    pub advice: Vec<String>,
    /// What each module found.
    pub modules: Vec<Module>,
    /// Thresholds that are broken.
    pub broken_thresholds: Vec<String>,
    /// How the session ended.
    #[serde(default)]
    pub ended: Ended,
    /// The verdict.
    pub good: bool,
}

/// Where it ran.
#[derive(Clone, Debug, Deserialize)]
pub struct Machine {
    /// Its processor.
    pub cpu: String,
    /// How many.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
}

/// What was measured.
#[derive(Clone, Debug, Deserialize)]
pub struct Switch {
    /// How it was reached.
    pub peer: String,
    /// The version spoken.
    pub openflow: String,
    /// Its datapath id.
    pub datapath_id: String,
    /// What it says of itself.
    pub manufacturer: String,
    /// Likewise.
    pub hardware: String,
    /// Likewise.
    pub software: String,
    /// Our ports and what they are wired to.
    pub ports: Vec<String>,
}

impl Switch {
    /// What it says of itself, in one line; its address if it says nothing.
    pub fn name(&self) -> String {
        let words = [&self.manufacturer, &self.hardware, &self.software];
        let words: Vec<&str> = words.into_iter().flat_map(|w| w.split_whitespace()).collect();
        if words.is_empty() { self.peer.clone() } else { words.join(" ") }
    }
}

/// Those settings that a reader wants to see.
#[derive(Clone, Debug, Deserialize)]
pub struct Settings {
    /// What all random choices began from.
    pub seed: u64,
    /// Probes a second.
    pub rate_pps: f64,
    /// How they followed each other.
    pub arrivals: String,
    /// Probes of a run.
    pub probes: u32,
}

/// The floor.
#[derive(Clone, Debug, Deserialize)]
pub struct Calibration {
    /// What the data path was looped back over.
    pub data_over: String,
    /// From due to captured.
    pub data: Summary,
    /// What the wire took of it, by the kernel's stamps.
    #[serde(default)]
    pub data_wire: Option<Summary>,
    /// From an echo request's being due to its reply.
    pub control: Summary,
    /// What disturbed it.
    #[serde(default)]
    pub disturbed: Vec<String>,
}

/// What a module found.
#[derive(Clone, Debug, Deserialize)]
pub struct Module {
    /// Its name.
    pub module: String,
    /// What it comes to; unknown of a report of an earlier version.
    #[serde(default)]
    pub verdict: Option<Word>,
    /// The same in a sentence.
    #[serde(default)]
    pub says: String,
    /// Why it was not asked, if it was not.
    #[serde(default)]
    pub skipped: Option<String>,
    /// What broke it, if anything did.
    #[serde(default)]
    pub broke: Option<String>,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// Its parameters, for people.
    pub label: String,
    /// What it has in common with other runs of its line in a plot.
    #[serde(default)]
    pub group: String,
    /// How often it was tried.
    pub attempts: u32,
    /// What disturbed it.
    pub disturbed: Vec<String>,
    /// Single figures.
    pub figures: Vec<(String, f64)>,
    /// Latencies.
    pub latencies: Vec<(String, Summary)>,
    /// What was seen in the course of it.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Which floor the latencies stand on.
    pub floor: Floor,
    /// What the switch did wrong.
    pub findings: Vec<Finding>,
    /// What a reader should know besides.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Which repetition of the module it is of, from 0.
    #[serde(default)]
    pub repetition: u32,
}

/// Points in their order.
#[derive(Clone, Debug, Deserialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// What the first numbers are, with their unit.
    pub x: String,
    /// What the second numbers are, with their unit.
    pub y: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// Something that a switch did wrong.
#[derive(Clone, Debug, Deserialize)]
pub struct Finding {
    /// A stable word.
    pub what: String,
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

    /// A single figure.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }
}

impl Run {
    /// A figure, or a percentile in microseconds by the name that thresholds use.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figure(name).or_else(|| {
            self.latencies.iter().find_map(|(latency, summary)| {
                let rest = name.strip_prefix(latency.as_str())?.strip_prefix('_')?;
                let ns = match rest.strip_suffix("_us")? {
                    "min" => summary.min_ns,
                    "max" => summary.max_ns,
                    rest => summary.percentile(rest.strip_prefix('p')?.parse().ok()?)?,
                };
                Some(ns as f64 / 1000.0)
            })
        })
    }
}

impl Stored {
    /// Reads a report.
    pub fn parse(json: &str) -> Result<Stored, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(json)
            .map_err(|e| format!("this is no report of millrace gauge: {e}"))?;
        if head.schema != SCHEMA {
            let schema = head.schema;
            return Err(format!(
                "the report is of the form {schema}; this millrace reads {SCHEMA}"
            ));
        }
        serde_json::from_str(json).map_err(|e| format!("the report is damaged: {e}"))
    }

    /// The floor that a latency of a run stands on.
    pub fn floor(&self, run: &Run, latency: &str) -> &Summary {
        match (run.floor, &self.calibration.data_wire) {
            (Floor::Data, Some(wire)) if latency == WIRE => wire,
            (Floor::Data, _) => &self.calibration.data,
            (Floor::Control, _) => &self.calibration.control,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::calibrate::Calibration;
    use crate::latency::Latency;
    use crate::report::{self, ModuleReport, Report, SwitchUnderTest};
    use crate::{Run, Settings};

    /// Latencies of so many microseconds and more.
    pub(crate) fn summary(from_us: u64) -> Summary {
        let mut latency = Latency::default();
        (0..2000).for_each(|i| latency.record((from_us + i % 40) * 1000));
        latency.summary()
    }

    /// What a small session finds, on a switch that takes `from_us` and more.
    pub(crate) fn session(software: &str, from_us: u64) -> Report {
        let forwarding = |bytes: f64, add: u64| Run {
            label: format!("{bytes} bytes, 5000 a second"),
            attempts: 1,
            figures: vec![("bytes", bytes), ("lost", 0.0)],
            latencies: vec![("latency", summary(from_us + add))],
            ..Run::default()
        };
        let insertion = |rules: f64| Run {
            label: format!("{rules} rules"),
            attempts: 1,
            figures: vec![
                ("rules", rules),
                ("control_us", 90.0 * rules),
                ("data_us", 120.0 * rules),
            ],
            series: vec![crate::run::Series {
                name: "active",
                x: "time since the first flow-mod (us)",
                y: "rules active",
                points: (1..=9).map(|i| (f64::from(i) * 10.0, f64::from(i))).collect(),
            }],
            ..Run::default()
        };
        let mut wrong = forwarding(1518.0, 9);
        wrong
            .findings
            .push(crate::run::Finding { what: "frames_lost", text: "3 of <10> & more".into() });
        Report {
            schema: SCHEMA,
            revision: report::REVISION,
            version: "0.0.0",
            taken_at: "2026-11-29T02:30:25Z".into(),
            command: vec!["millrace".into(), "gauge".into(), "--at-most <1>".into()],
            machine: report::Machine::default(),
            switch: SwitchUnderTest { software: software.into(), ..Default::default() },
            settings: Settings::default(),
            calibration: Calibration {
                data_over: "a cable".into(),
                data: summary(3),
                data_lost: 0,
                data_late: 0,
                data_sent_pps: 5000.0,
                data_captured_pps: 5000.0,
                data_latest_ns: 0,
                data_wire: None,
                data_stamps: "process",
                data_sends: None,
                control: summary(5),
                attempts: 1,
                disturbed: Vec::new(),
            },
            advice: vec!["quiet & good".into()],
            modules: vec![
                ModuleReport {
                    module: "forwarding".into(),
                    runs: vec![forwarding(64.0, 0), wrong],
                    ..ModuleReport::default()
                },
                ModuleReport {
                    module: "insertion".into(),
                    runs: vec![insertion(1.0), insertion(10.0)],
                    ..ModuleReport::default()
                },
            ],
            broken_thresholds: vec!["forwarding.lost is 3 > 0".into()],
            ended: Ended::default(),
            good: false,
        }
    }

    /// As it comes back from a file.
    pub(crate) fn stored(software: &str, from_us: u64) -> Stored {
        Stored::parse(&serde_json::to_string(&session(software, from_us)).unwrap()).unwrap()
    }

    #[test]
    fn what_was_written_is_read() {
        let stored = stored("x", 20);
        assert_eq!((stored.schema.as_str(), stored.modules.len()), (SCHEMA, 2));
        assert_eq!(stored.modules[0].runs[0].latencies[0].1, summary(20));
        assert_eq!(stored.modules[1].runs[1].figure("control_us"), Some(900.0));
        assert_eq!(stored.modules[1].runs[0].series[0].points.len(), 9);
        assert_eq!(stored.settings.arrivals, "constant");
    }

    #[test]
    fn other_files_are_refused() {
        let error = |text: &str| Stored::parse(text).unwrap_err();
        assert!(error("nonsense").starts_with("this is no report"));
        assert!(error("{}").starts_with("this is no report"));
        assert!(
            error(r#"{"schema": "millrace-gauge/2"}"#).contains("is of the form millrace-gauge/2")
        );
        assert!(
            error(&format!("{{\"schema\": \"{SCHEMA}\"}}")).starts_with("the report is damaged")
        );
    }
}
