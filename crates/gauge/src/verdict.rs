//! What a module's runs come to: a word, and a sentence for who reads nothing else.
//!
//! In: a module's report, with its runs and what broke it; thresholds that are broken. Out: a [`Word`] and its sentence. The
//! sentence of a module in which nothing was found tells its main figure ([`KEYS`]), over the runs that were not disturbed.
//!
//! Checked by: the tests below; every module has a key, and each key is a figure of its module.

use crate::figures::short;
use crate::report::ModuleReport;
use crate::run::Run;
use serde::{Deserialize, Serialize};

/// What a module's runs come to, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It was not asked.
    #[default]
    NotAsked,
    /// Nothing was found.
    Good,
    /// The switch did something wrong, or a threshold is broken.
    Wanting,
    /// Some runs stayed disturbed; in the others nothing was found.
    Disturbed,
    /// It broke off.
    Broken,
}

impl Word {
    /// As tables have it.
    pub fn text(self) -> &'static str {
        match self {
            Word::NotAsked => "not asked",
            Word::Good => "good",
            Word::Wanting => "WANTING",
            Word::Disturbed => "DISTURBED",
            Word::Broken => "BROKEN",
        }
    }
}

/// The main figure of each module, by the name that thresholds use, and how it is told.
pub(crate) const KEYS: &[(&str, &str, &str)] = &[
    ("echo", "latency_p50_us", "an echo request takes {} us"),
    ("forwarding", "latency_p50_us", "a frame takes {} us"),
    ("loss", "lost", "{} frames are lost in the long run"),
    ("throughput", "no_loss_pps", "{} frames a second pass without loss"),
    ("actions", "added_p50_us", "a change of a packet adds {} us"),
    ("described", "latency_p50_us", "a frame takes {} us"),
    ("insertion", "data_us", "a batch is active after {} us"),
    ("modification", "data_us", "a batch is active after {} us"),
    ("deletion", "data_us", "a batch is gone after {} us"),
    ("priority", "data_us", "a batch is active after {} us"),
    ("occupancy", "data_us", "a batch is active after {} us"),
    ("order", "disordered", "{} rules become active out of order"),
    ("barrier", "late", "{} rules become active after their barrier's reply"),
    ("update_rate", "updates_per_second", "{} rules are changed a second"),
    ("polling", "lost", "{} frames are lost beside polls"),
    ("echo_loaded", "latency_p50_us", "an echo request takes {} us beside traffic"),
    ("packet_in", "latency_p50_us", "a packet takes {} us to the controller"),
    ("packet_out", "latency_p50_us", "a packet takes {} us from the controller"),
    ("packet_in_rate", "no_loss_pps", "{} packets a second reach the controller"),
    ("packet_out_rate", "no_loss_pps", "{} packets a second come from the controller"),
    ("statistics", "fresh_us", "counters are right after {} us"),
    ("port_statistics", "fresh_us", "counters are right after {} us"),
    ("meter", "error_share", "a meter is off by a share of {}"),
    ("failover", "outage_us", "traffic is lost for {} us"),
    ("flows", "latency_p50_us", "a frame takes {} us, whatever flows are active"),
    ("masks", "latency_p50_us", "a frame takes {} us, whatever masks there are"),
    ("connections", "connections_per_second", "{} connections a second pass"),
    ("restart", "outage_ms", "traffic is lost for {} ms"),
];

/// What a module comes to. `broken`: thresholds of it that are broken.
pub(crate) fn of(module: &ModuleReport, broken: &[&str]) -> (Word, String) {
    let runs = &module.runs;
    let findings: Vec<_> = runs.iter().flat_map(|run| &run.findings).collect();
    let disturbed: Vec<_> = runs.iter().filter(|run| !run.disturbed.is_empty()).collect();
    if let Some(first) = findings.first() {
        let more = match findings.len() {
            1 => String::new(),
            n => format!("; {} more findings", n - 1),
        };
        return (Word::Wanting, format!("{}: {}{more}", first.what, first.text));
    }
    if let Some(why) = &module.broke {
        return (Word::Broken, format!("broken off: {why}"));
    }
    if let Some(first) = broken.first() {
        return (Word::Wanting, format!("threshold: {first}"));
    }
    if runs.is_empty() {
        let why = module.skipped.as_deref().unwrap_or("it has no runs");
        return (Word::NotAsked, why.to_owned());
    }
    let key = key(&module.module, runs);
    if let Some(first) = disturbed.first() {
        let why = first.disturbed.first().map_or("", String::as_str);
        let rest = key.map(|key| format!("; in the others {key}")).unwrap_or_default();
        let text = format!("{} of {} runs say nothing: {why}{rest}", disturbed.len(), runs.len());
        return (Word::Disturbed, text);
    }
    let count = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
    let key = key.unwrap_or_else(|| "nothing was found".to_owned());
    (Word::Good, format!("{key} ({count})"))
}

/// The main figure over runs that were not disturbed.
fn key(module: &str, runs: &[Run]) -> Option<String> {
    let (_, figure, form) = KEYS.iter().find(|(name, ..)| *name == module)?;
    let valid = runs.iter().filter(|run| run.disturbed.is_empty());
    let values: Vec<f64> = valid.filter_map(|run| run.value(figure)).collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let range = match short(least) == short(most) {
        true => short(least),
        false => format!("{} to {}", short(least), short(most)),
    };
    Some(form.replace("{}", &range))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::MODULES;
    use crate::report::Threshold;
    use crate::run::Finding;

    #[test]
    fn every_module_has_a_key_that_is_a_figure_of_it() {
        let names: Vec<&str> = KEYS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, MODULES.iter().map(|module| module.name).collect::<Vec<_>>());
        for (module, figure, form) in KEYS {
            let bound = format!("{module}.{figure}=1");
            assert!(bound.parse::<Threshold>().is_ok(), "{bound}");
            assert!(form.contains("{}"), "{form}");
        }
    }

    fn run(lost: f64) -> Run {
        Run { figures: vec![("lost", lost)], attempts: 1, ..Run::default() }
    }

    fn says(change: impl FnOnce(&mut ModuleReport), broken: &[&str]) -> String {
        let mut module = ModuleReport::named("loss".to_owned());
        module.runs = vec![run(0.0), run(2.0)];
        change(&mut module);
        let (word, text) = of(&module, broken);
        format!("{}: {text}", word.text())
    }

    #[test]
    fn what_accuses_goes_before_what_is_uncertain() {
        let good = "good: 0 to 2 frames are lost in the long run (2 runs)";
        assert_eq!(says(|_| {}, &[]), good);
        let wrong = |what| Finding { what, text: "3 of 10".to_owned() };
        let found = |m: &mut ModuleReport| {
            m.runs[0].findings = vec![wrong("frames_lost"), wrong("frames_doubled")];
            m.runs[1].disturbed = vec!["late".to_owned()];
            m.broke = Some("closed".to_owned());
        };
        assert_eq!(says(found, &["x"]), "WANTING: frames_lost: 3 of 10; 1 more findings");
        let broke = |m: &mut ModuleReport| m.broke = Some("closed".to_owned());
        assert_eq!(says(broke, &["x"]), "BROKEN: broken off: closed");
        assert_eq!(says(|_| {}, &["loss.lost is 2"]), "WANTING: threshold: loss.lost is 2");
        let disturbed = |m: &mut ModuleReport| m.runs[0].disturbed = vec!["late".to_owned()];
        let expected = "DISTURBED: 1 of 2 runs say nothing: late; in the others 2 frames are lost in the long run";
        assert_eq!(says(disturbed, &[]), expected);
        let skipped = |m: &mut ModuleReport| {
            m.runs.clear();
            m.skipped = Some("no groups".to_owned());
        };
        assert_eq!(says(skipped, &[]), "not asked: no groups");
    }
}
