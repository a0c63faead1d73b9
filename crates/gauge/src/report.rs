//! What was measured: results, thresholds, and the table for people.
//!
//! A report is one value that serialises; its [`SCHEMA`] names the form and changes when that does
//! in a way that breaks a reader. Times in it are nanoseconds, rates are per second, unless a
//! figure's name ends in another unit.

use crate::calibrate::Calibration;
use crate::figures::{percentiles, short};
use crate::module::MODULES;
use crate::run::{Floor, Run, WIRE, percent};
use crate::settings::Settings;
use crate::verdict::{self, Word};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};
use std::str::FromStr;

/// The name and version of a report's form.
pub const SCHEMA: &str = "millrace-gauge/1";

/// What a later version has added to the form, counted; a reader of an earlier one passes over it.
pub const REVISION: u32 = 3;

/// A session: one switch, several modules.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`REVISION`].
    pub revision: u32,
    /// millrace's version.
    pub version: &'static str,
    /// When it began, in UTC: 2026-11-29T02:30:25Z.
    pub taken_at: String,
    /// The command that took it, word by word.
    pub command: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// What was measured.
    pub switch: SwitchUnderTest,
    /// By what settings, seed included.
    pub settings: Settings,
    /// What the instrument itself costs.
    pub calibration: Calibration,
    /// What that says of this machine, and what to do about it.
    pub advice: Vec<String>,
    /// What each module found, in the order in which they ran.
    pub modules: Vec<ModuleReport>,
    /// Thresholds that are broken, a sentence each.
    pub broken_thresholds: Vec<String>,
    /// How the session ended.
    pub ended: Ended,
    /// Whether nothing was found, no threshold is broken and no run is invalid.
    pub good: bool,
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// In a word.
    pub how: How,
    /// In a sentence; empty where all was asked.
    pub why: String,
    /// Why rules of ours may still be in the switch; none if they were removed.
    pub left_behind: Option<String>,
}

/// See [`Ended`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// All that was to be asked was asked.
    #[default]
    Complete,
    /// The switch could not be reached, closed the channel or stopped answering.
    SwitchFailed,
    /// A port or a file of ours failed, or the wires are not as we were told.
    NotMeasured,
    /// By a signal.
    Interrupted,
}

/// What a session comes to, and the exit status that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was found, no threshold is broken, no run was disturbed: 0.
    Good,
    /// Something was found, or a threshold is broken: 1.
    Wanting,
    /// The switch failed: 3.
    SwitchFailed,
    /// A run or the calibration stayed disturbed; nothing accuses the switch: 4.
    Disturbed,
    /// A signal ended it: 5.
    Interrupted,
    /// A port or file of ours failed, or the wires are not as we were told: 6.
    NotMeasured,
}

impl Verdict {
    /// In a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Good => "GOOD: nothing was found",
            Verdict::Wanting => "WANTING: the switch did something wrong, or a threshold is broken",
            Verdict::SwitchFailed => "FAILED: the switch was not reached, or stopped answering",
            Verdict::Disturbed => {
                "DISTURBED: some runs say nothing, since this machine or its ports were disturbed"
            }
            Verdict::Interrupted => "INTERRUPTED: what was measured until then stands",
            Verdict::NotMeasured => "NOT MEASURED: a port or file of ours failed",
        }
    }

    /// The exit status.
    pub fn status(self) -> u8 {
        match self {
            Verdict::Good => 0,
            Verdict::Wanting => 1,
            Verdict::SwitchFailed => 3,
            Verdict::Disturbed => 4,
            Verdict::Interrupted => 5,
            Verdict::NotMeasured => 6,
        }
    }
}

/// Where it ran.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// Its processor, as the kernel calls it.
    pub cpu: String,
    /// Processors that this process may use.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpu_info = read("/proc/cpuinfo");
        let cpu = cpu_info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
        Machine {
            cpu: cpu.map_or_else(String::new, |(_, name)| name.to_string()),
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SwitchUnderTest {
    /// How it was reached.
    pub peer: String,
    /// The version spoken.
    pub openflow: String,
    /// Its datapath id, in hexadecimal.
    pub datapath_id: String,
    /// What it says of itself (OFPMP_DESC).
    pub manufacturer: String,
    /// Likewise.
    pub hardware: String,
    /// Likewise.
    pub software: String,
    /// Our ports and what they are wired to.
    pub ports: Vec<String>,
}

/// What a module found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ModuleReport {
    /// Its name.
    pub module: String,
    /// What it comes to, in a word.
    pub verdict: Word,
    /// The same in a sentence.
    pub says: String,
    /// Why it was not asked, or could not be asked to its end.
    pub skipped: Option<String>,
    /// What broke it, where that was the switch's or our own failing.
    pub broke: Option<String>,
    /// Its runs.
    pub runs: Vec<Run>,
    /// Whether it was reached.
    #[serde(skip)]
    pub(crate) asked: bool,
}

impl ModuleReport {
    /// One that was not asked yet.
    pub(crate) fn named(module: String) -> ModuleReport {
        ModuleReport { module, ..ModuleReport::default() }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }
}

/// A bound on a figure: `MODULE.FIGURE=MAX`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    module: String,
    figure: String,
    max: f64,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        Threshold::parse(text, &[])
    }
}

impl Threshold {
    /// Reads a bound on a figure of a built-in module, or of a script that calls itself one of `scripts`. Which figures
    /// a script has is known only when it has run: one that it never told breaks the bound.
    pub fn parse(text: &str, scripts: &[&str]) -> Result<Threshold, String> {
        let form =
            || format!("{text:?}: expected MODULE.FIGURE=MAX, as in forwarding.latency_p99_us=500");
        let (name, max) = text.rsplit_once('=').ok_or_else(form)?;
        let (module, figure) = name.split_once('.').ok_or_else(form)?;
        let max = max.parse().map_err(|_| form())?;
        let Some(known) = MODULES.iter().find(|m| m.name == module) else {
            if scripts.contains(&module) && !figure.is_empty() {
                return Ok(Threshold { module: module.into(), figure: figure.into(), max });
            }
            let ours = MODULES.iter().map(|m| m.name);
            let names: Vec<&str> = ours.chain(scripts.iter().copied()).collect();
            return Err(format!("there is no module {module}; known: {}", names.join(", ")));
        };
        let is_latency = known.latencies.iter().any(|latency| {
            let rest = figure.strip_prefix(latency).and_then(|r| r.strip_prefix('_'));
            let word = rest.and_then(|r| r.strip_suffix("_us"));
            word.is_some_and(|w| w == "max" || w == "min" || percent(w).is_some())
        });
        if !is_latency && !known.figures.contains(&figure) {
            let latencies = known.latencies.iter().map(|l| format!("{l}_p50_us ({l}_max_us, ...)"));
            let figures = known.figures.iter().map(ToString::to_string);
            let all: Vec<String> = figures.chain(latencies).collect();
            return Err(format!("{module} has no figure {figure}; known: {}", all.join(", ")));
        }
        Ok(Threshold { module: module.into(), figure: figure.into(), max })
    }
}

impl Report {
    /// Judges: fills in the broken thresholds, and whether all is good.
    pub fn judge(&mut self, thresholds: &[Threshold]) {
        self.broken_thresholds = thresholds.iter().flat_map(|t| self.against(t)).collect();
        self.good = self.verdict() == Verdict::Good;
        for module in &mut self.modules {
            let of = format!("{}.", module.module);
            let broken = self.broken_thresholds.iter().map(String::as_str);
            let broken: Vec<&str> = broken.filter(|text| text.starts_with(&of)).collect();
            (module.verdict, module.says) = verdict::of(module, &broken);
        }
    }

    /// What it comes to.
    pub fn verdict(&self) -> Verdict {
        let runs = || self.modules.iter().flat_map(|m| &m.runs);
        let broke = self.modules.iter().any(|m| m.broke.is_some());
        let disturbed =
            !self.calibration.disturbed.is_empty() || runs().any(|r| !r.disturbed.is_empty());
        match self.ended.how {
            How::Interrupted => Verdict::Interrupted,
            How::SwitchFailed => Verdict::SwitchFailed,
            _ if runs().any(|r| !r.findings.is_empty()) => Verdict::Wanting,
            How::Complete if !self.broken_thresholds.is_empty() => Verdict::Wanting,
            How::NotMeasured => Verdict::NotMeasured,
            How::Complete if broke => Verdict::NotMeasured,
            How::Complete if disturbed => Verdict::Disturbed,
            How::Complete => Verdict::Good,
        }
    }

    fn against(&self, threshold: &Threshold) -> Vec<String> {
        let Threshold { module, figure, max } = threshold;
        let runs = self.modules.iter().filter(|m| m.module == *module).flat_map(|m| &m.runs);
        let valued: Vec<(&str, f64)> = runs
            .filter(|r| r.disturbed.is_empty())
            .filter_map(|r| Some((r.label.as_str(), r.value(figure)?)))
            .collect();
        if valued.is_empty() {
            return vec![format!(
                "{module}.{figure} was to be at most {max}, but no valid run has it"
            )];
        }
        let broken = valued.into_iter().filter(|(_, value)| value > max);
        broken
            .map(|(label, value)| {
                format!("{module}.{figure} is {value:.1} ({label}), more than {max}")
            })
            .collect()
    }
}

/// The table.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.switch;
        if !self.taken_at.is_empty() {
            let Machine { cpu, cpus, kernel } = &self.machine;
            let by = format!("millrace {}", self.version);
            writeln!(
                f,
                "taken {} on {cpu}, {cpus} processors, Linux {kernel}, by {by}",
                self.taken_at
            )?;
        }
        if !self.command.is_empty() {
            writeln!(f, "by    {}", self.command.join(" "))?;
        }
        let maker = format!("{} {} {}", s.manufacturer, s.hardware, s.software);
        let maker = maker.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(f, "switch {} at {}, {}: {maker}", s.datapath_id, s.peer, s.openflow)?;
        write!(f, "{}", self.calibration)?;
        for text in &self.advice {
            writeln!(f, "       {text}")?;
        }
        writeln!(f, "\nverdict {}", self.verdict().text())?;
        for ModuleReport { module, verdict, says, .. } in &self.modules {
            writeln!(f, "  {module:<16} {:<10} {says}", verdict.text())?;
        }
        for module in self.modules.iter().filter(|module| !module.runs.is_empty()) {
            writeln!(f, "\n{}\n  {}: {}", module.module, module.verdict.text(), module.says)?;
            if let Some(reason) = &module.broke {
                writeln!(f, "  BROKEN OFF: {reason}")?;
            }
            for run in &module.runs {
                self.run(f, run)?;
            }
        }
        writeln!(f)?;
        for broken in &self.broken_thresholds {
            writeln!(f, "threshold: {broken}")?;
        }
        let runs = || self.modules.iter().flat_map(|m| &m.runs);
        let findings = runs().map(|r| r.findings.len()).sum::<usize>();
        let invalid = runs().filter(|r| !r.disturbed.is_empty()).count();
        if self.ended.how != How::Complete {
            writeln!(f, "cut short: {}", self.ended.why)?;
        }
        if let Some(why) = &self.ended.left_behind {
            writeln!(f, "rules of ours may still be in the switch: {why}")?;
        }
        writeln!(f, "{} runs, {invalid} invalid, {findings} findings", runs().count())
    }
}

impl Report {
    fn run(&self, f: &mut fmt::Formatter<'_>, run: &Run) -> fmt::Result {
        let mut line = format!("  {:<24}", run.name());
        for (name, value) in &run.figures {
            let _ = write!(line, " {name} {}", short(*value));
        }
        writeln!(f, "{}", line.trim_end())?;
        for (name, summary) in &run.latencies {
            let floor = match (run.floor, &self.calibration.data_wire) {
                (Floor::Data, Some(wire)) if *name == WIRE => wire,
                (Floor::Data, _) => &self.calibration.data,
                (Floor::Control, _) => &self.calibration.control,
            };
            writeln!(f, "    {name:<22} {}", percentiles(summary, floor))?;
        }
        for reason in &run.disturbed {
            writeln!(f, "    INVALID after {} attempts: {reason}", run.attempts)?;
        }
        for finding in &run.findings {
            writeln!(f, "    FOUND {}: {}", finding.what, finding.text)?;
        }
        for note in &run.notes {
            writeln!(f, "    note: {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_name_what_there_is() {
        for good in
            ["forwarding.latency_p99_us=500", "forwarding.lost=0", "echo.latency_max_us=1e4"]
        {
            assert!(good.parse::<Threshold>().is_ok(), "{good}");
        }
        let error = |text: &str| text.parse::<Threshold>().unwrap_err();
        assert!(error("forwarding").contains("expected MODULE.FIGURE=MAX"));
        assert!(error("forwarding.lost=few").contains("expected MODULE.FIGURE=MAX"));
        assert!(error("speed.lost=0").starts_with("there is no module speed; known: echo"));
        assert!(
            error("forwarding.latency_p98_us=1")
                .contains("has no figure latency_p98_us; known: bytes, sent")
        );
    }

    #[test]
    fn a_figure_is_found_by_its_name() {
        let mut latency = crate::latency::Latency::default();
        (1..=1000).for_each(|i| latency.record(i * 1000));
        let run = Run {
            figures: vec![("lost", 3.0)],
            latencies: vec![("latency", latency.summary())],
            ..Run::default()
        };
        assert_eq!(run.value("lost"), Some(3.0));
        assert_eq!(run.value("latency_max_us").map(f64::round), Some(1000.0));
        assert!((499.0..502.0).contains(&run.value("latency_p50_us").unwrap()));
        assert_eq!(run.value("latency_min_us").map(f64::round), Some(1.0));
        assert!(Threshold::parse("mine.took_p99_us=5", &["mine"]).is_ok());
        assert!("mine.took_p99_us=5".parse::<Threshold>().unwrap_err().contains("no module mine"));
        // Too few samples for it.
        assert_eq!(run.value("latency_p99.99_us"), None);
        assert_eq!(run.value("latency"), None);
    }
}
