//! Reports of two sides next to each other, with what a difference means.
//!
//! A side is what one or several reports say; a run of a side is all repetitions of one label. Frames that follow each other
//! are not independent, so how sure a figure is cannot be told from one run: it is told by its repetitions. A figure
//! `differs` only if each side has [`REPETITIONS_MIN`] of them at least, all of one side lie on one side of all of the other's, and
//! the gap is greater than the wider of both ranges. With equal switches that happens to one figure in a hundred with
//! three repetitions, and to far fewer with more. With fewer repetitions nothing is claimed.
//!
//! Runs that were disturbed count only where a side has too few others, and then nothing counts as a difference.
//! Findings are laid side by side by their words: how many of the repetitions had them.
//!
//! Checked by: the tests below.

use crate::latency::Summary;
use crate::stored::{Run, Stored};
use std::collections::BTreeSet;
use std::fmt;

/// Repetitions that each side must have before a difference is claimed.
pub const REPETITIONS_MIN: usize = 3;

/// A comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    names: [String; 2],
    rows: Vec<Row>,
    findings: Vec<Found>,
    /// What one has and the other lacks, and what cannot be compared.
    remarks: Vec<String>,
}

/// What is known of a figure of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The repetitions of both lie among each other, or not far enough apart.
    Same,
    /// They do not.
    Differs,
    /// There are too few repetitions.
    TooFew,
    /// There are too few undisturbed ones.
    Disturbed,
}

/// A figure of both.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The module.
    pub module: String,
    /// The run.
    pub run: String,
    /// The figure; percentiles are in microseconds.
    pub figure: String,
    /// The medians of its values.
    pub values: [f64; 2],
    /// How many repetitions of each side have it.
    pub repetitions: [usize; 2],
    /// What that means.
    pub verdict: Verdict,
}

/// A finding, and in how many repetitions of each side it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The module and the run.
    pub place: String,
    /// Its word.
    pub what: String,
    /// In so many.
    pub in_runs: [usize; 2],
    /// Of so many.
    pub of_runs: [usize; 2],
}

impl Found {
    /// Whether only one side has it.
    pub fn differs(&self) -> bool {
        self.in_runs.contains(&0)
    }
}

/// The repetitions of a run on one side.
type Side<'a> = Vec<&'a Run>;

fn runs<'a>(reports: &[&'a Stored], module: &str) -> Vec<&'a Run> {
    let modules = reports.iter().flat_map(|r| &r.modules).filter(|m| m.module == module);
    modules.flat_map(|m| &m.runs).collect()
}

/// Names in the order in which they first come.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}

/// Lays two sides next to each other; each may be several reports.
pub fn compare(names: [&str; 2], a: &[&Stored], b: &[&Stored]) -> Comparison {
    let (mut rows, mut findings, mut remarks) = (Vec::new(), Vec::new(), Vec::new());
    for (name, reports) in names.iter().zip([a, b]) {
        for report in reports.iter().filter(|r| !r.calibration.disturbed.is_empty()) {
            let why = report.calibration.disturbed.join("; ");
            remarks.push(format!("{name}: the calibration was disturbed: {why}"));
        }
        for report in reports.iter().filter(|r| !r.ended.why.is_empty()) {
            remarks.push(format!("{name}: cut short: {}", report.ended.why));
        }
    }
    let modules = a.iter().chain(b).flat_map(|r| &r.modules).map(|m| m.module.as_str());
    for module in in_order(modules) {
        let sides = [a, b].map(|side| {
            let there = side.iter().any(|r| r.modules.iter().any(|m| m.module == module));
            there.then(|| runs(side, module))
        });
        let [Some(x), Some(y)] = &sides else {
            let name = names[usize::from(sides[0].is_none())];
            remarks.push(format!("only {name} has {module}"));
            continue;
        };
        for label in in_order(x.iter().chain(y).map(|r| r.label.as_str())) {
            let of =
                |runs: &[&'_ Run]| -> usize { runs.iter().filter(|r| r.label == label).count() };
            let place = format!("{module}, {label}");
            if of(x) == 0 || of(y) == 0 {
                let name = names[usize::from(of(x) == 0)];
                remarks.push(format!("only {name} has {place}"));
            }
            let labelled = [x, y].map(|runs| {
                runs.iter().copied().filter(|r| r.label == label).collect::<Side<'_>>()
            });
            found(&place, &labelled, &mut findings);
            if of(x) > 0 && of(y) > 0 {
                pair(module, label, &labelled, &mut rows);
            }
        }
    }
    Comparison { names: names.map(str::to_owned), rows, findings, remarks }
}

fn found(place: &str, sides: &[Side<'_>; 2], findings: &mut Vec<Found>) {
    let words = sides.iter().flatten().flat_map(|r| &r.findings).map(|f| f.what.as_str());
    for what in in_order(words) {
        let has = |run: &&&Run| run.findings.iter().any(|f| f.what == what);
        findings.push(Found {
            place: place.to_owned(),
            what: what.to_owned(),
            in_runs: [0, 1].map(|i| sides[i].iter().filter(has).count()),
            of_runs: [0, 1].map(|i| sides[i].len()),
        });
    }
}

fn pair(module: &str, label: &str, sides: &[Side<'_>; 2], rows: &mut Vec<Row>) {
    let valid = [0, 1].map(|i| {
        let runs = sides[i].iter().copied().filter(|r| r.disturbed.is_empty());
        runs.collect::<Side<'_>>()
    });
    let disturbed = (0..2).any(|i| valid[i].len() < REPETITIONS_MIN.min(sides[i].len()));
    let sides = if disturbed { sides } else { &valid };
    let mut add = |figure: String, of: &dyn Fn(&Run) -> Option<f64>| {
        let mut values =
            [0, 1].map(|i| sides[i].iter().filter_map(|run| of(run)).collect::<Vec<f64>>());
        values.iter_mut().for_each(|v| v.sort_by(f64::total_cmp));
        if values.iter().any(Vec::is_empty) {
            return;
        }
        let verdict = if disturbed { Verdict::Disturbed } else { judge(&values) };
        rows.push(Row {
            module: module.to_owned(),
            run: label.to_owned(),
            figure,
            repetitions: [values[0].len(), values[1].len()],
            values: values.map(|v| v[v.len() / 2]),
            verdict,
        });
    };
    let all = || sides.iter().flatten();
    for name in in_order(all().flat_map(|r| &r.figures).map(|(name, _)| name.as_str())) {
        add(name.to_owned(), &|run| run.figure(name));
    }
    for name in in_order(all().flat_map(|r| &r.latencies).map(|(name, _)| name.as_str())) {
        for percent in crate::latency::PERCENTILES {
            let of = |summary: &Summary| Some(summary.percentile(percent)? as f64 / 1000.0);
            add(format!("{name} p{percent} (us)"), &|run| {
                run.latencies.iter().find(|(n, _)| n == name).and_then(|(_, s)| of(s))
            });
        }
    }
}

/// What the sorted values of two sides say.
fn judge([a, b]: &[Vec<f64>; 2]) -> Verdict {
    if a.len() < REPETITIONS_MIN || b.len() < REPETITIONS_MIN {
        return Verdict::TooFew;
    }
    let ends = |v: &Vec<f64>| (v[0], v[v.len() - 1]);
    let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
    let gap = (b_low - a_high).max(a_low - b_high);
    let range = (a_high - a_low).max(b_high - b_low);
    if gap > 0.0 && gap > range { Verdict::Differs } else { Verdict::Same }
}

impl Comparison {
    /// All that both have.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What was found on either side.
    pub fn findings(&self) -> &[Found] {
        &self.findings
    }

    /// 0: nothing differs; 1: a figure differs, or one side has a finding that the other lacks; 4: nothing could be judged.
    pub fn status(&self) -> u8 {
        let is = |verdict| self.rows.iter().filter(move |r| r.verdict == verdict).count();
        if is(Verdict::Differs) > 0 || self.findings.iter().any(Found::differs) {
            1
        } else if is(Verdict::Same) == 0 {
            4
        } else {
            0
        }
    }
}

/// The table.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.names;
        let wide = |it: &dyn Fn(&Row) -> usize, least: usize| {
            self.rows.iter().map(it).max().unwrap_or(0).max(least)
        };
        let run = wide(&|r| r.module.len() + 2 + r.run.len(), 3);
        let figure = wide(&|r| r.figure.len(), 6);
        let column = 12.max(a.chars().count()).max(b.chars().count());
        writeln!(
            f,
            "{:<run$}  {:<figure$}  {a:>column$}  {b:>column$}  {b} / {a}",
            "run", "figure"
        )?;
        for row in &self.rows {
            let place = format!("{}, {}", row.module, row.run);
            let [x, y] = row.values;
            let verdict = match row.verdict {
                Verdict::Same => "same".to_owned(),
                Verdict::TooFew => format!(
                    "no claim: {} and {} repetitions",
                    row.repetitions[0], row.repetitions[1]
                ),
                Verdict::Disturbed => "no claim: disturbed".to_owned(),
                Verdict::Differs if x == 0.0 => "differs".to_owned(),
                Verdict::Differs => format!("differs: {:.3}", y / x),
            };
            let (x, y) = (crate::figures::short(x), crate::figures::short(y));
            writeln!(
                f,
                "{place:<run$}  {:<figure$}  {x:>column$}  {y:>column$}  {verdict}",
                row.figure
            )?;
        }
        for found in &self.findings {
            let Found { place, what, in_runs: [x, y], of_runs: [m, n] } = found;
            let verdict = if found.differs() { "differs" } else { "in both" };
            writeln!(f, "{place}: {what} in {x} of {m} runs of {a}, {y} of {n} of {b}: {verdict}")?;
        }
        for remark in &self.remarks {
            writeln!(f, "{remark}")?;
        }
        let is = |verdict| self.rows.iter().filter(move |r| r.verdict == verdict).count();
        let findings = self.findings.iter().filter(|found| found.differs()).count();
        writeln!(
            f,
            "{} figures: {} differ, {} are the same, {} without a claim; {findings} findings on one side only",
            self.rows.len(),
            is(Verdict::Differs),
            is(Verdict::Same),
            is(Verdict::TooFew) + is(Verdict::Disturbed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::stored;

    fn side(from_us: &[u64]) -> Vec<Stored> {
        from_us.iter().map(|us| stored("one", *us)).collect()
    }

    fn compared(a: &[Stored], b: &[Stored]) -> Comparison {
        let (a, b): (Vec<&Stored>, Vec<&Stored>) = (a.iter().collect(), b.iter().collect());
        compare(["a", "b"], &a, &b)
    }

    fn differing(c: &Comparison) -> usize {
        c.rows().iter().filter(|r| r.verdict == Verdict::Differs).count()
    }

    #[test]
    fn only_what_repetitions_tell_apart_differs() {
        // Once each: whatever the difference, nobody knows.
        let once = compared(&side(&[200]), &side(&[400]));
        assert!(once.rows().iter().all(|r| r.verdict == Verdict::TooFew));
        assert_eq!(once.status(), 4);
        assert!(once.to_string().contains("no claim: 1 and 1 repetitions"));
        // Among each other, and next to each other by less than each side's range.
        for b in [[205, 195, 215], [225, 230, 245]] {
            let same = compared(&side(&[200, 210, 220]), &side(&b));
            assert_eq!((differing(&same), same.status()), (0, 0), "{same}");
        }
        let far = compared(&side(&[200, 210, 220]), &side(&[400, 410, 420]));
        let latency = |row: &&Row| row.figure == "latency p50 (us)";
        let row = far.rows().iter().find(latency).unwrap();
        assert!((row.values[1] / row.values[0] - 1.9).abs() < 0.1, "{row:?}");
        assert_eq!((row.verdict, far.status()), (Verdict::Differs, 1));
        assert!(
            far.rows()
                .iter()
                .filter(|r| r.figure == "control_us")
                .all(|r| r.verdict == Verdict::Same)
        );
        assert!(far.to_string().contains("forwarding, 64 bytes, 5000 a second"));
        // In one report, by its repetitions, as in several.
        let repeated = |from_us: [u64; 3]| {
            let mut all = stored("one", from_us[0]);
            for (i, us) in from_us.into_iter().enumerate().skip(1) {
                for (module, more) in all.modules.iter_mut().zip(stored("one", us).modules) {
                    module
                        .runs
                        .extend(more.runs.into_iter().map(|r| Run { repetition: i as u32, ..r }));
                }
            }
            all
        };
        let one = compared(&[repeated([200, 210, 220])], &[repeated([400, 410, 420])]);
        assert_eq!(differing(&one), differing(&far));
    }

    #[test]
    fn values_that_differ_to_the_digit_are_the_same() {
        let judged = |a: [f64; 3], b: [f64; 3]| judge(&[a.to_vec(), b.to_vec()]);
        assert_eq!(
            judged([205_749.2, 205_801.0, 205_900.3], [206_000.1, 206_010.0, 206_351.2]),
            Verdict::Same
        );
        assert_eq!(judged([0.0; 3], [0.0; 3]), Verdict::Same);
        assert_eq!(judged([0.0; 3], [3.0; 3]), Verdict::Differs);
        assert_eq!(judged([1.0, 2.0, 3.0], [6.0, 7.0, 8.0]), Verdict::Differs);
        assert_eq!(judged([6.0, 7.0, 8.0], [1.0, 2.0, 3.0]), Verdict::Differs);
        // Same distribution: few claims in many.
        let mut prng = port::prng::Prng::new(5);
        let mut three = || {
            let mut v: Vec<f64> =
                (0..3).map(|_| (0..8).map(|_| prng.below(1000) as f64).sum()).collect();
            v.sort_by(f64::total_cmp);
            v
        };
        let claims = (0..2000).filter(|_| judge(&[three(), three()]) == Verdict::Differs).count();
        assert!(claims < 100, "{claims} of 2000");
    }

    #[test]
    fn findings_are_compared() {
        let (a, mut b) = (side(&[200, 210, 220]), side(&[205, 195, 215]));
        let both = compared(&a, &b);
        assert_eq!((both.findings().len(), both.status()), (1, 0));
        assert!(both.to_string().contains("frames_lost in 3 of 3 runs of a, 3 of 3 of b: in both"));
        for report in &mut b {
            report.modules[0].runs[1].findings.clear();
        }
        let only = compared(&a, &b);
        assert!(only.findings()[0].differs() && only.status() == 1, "{only}");
        assert!(only.to_string().contains("1 findings on one side only"));
    }

    #[test]
    fn what_one_lacks_is_said() {
        let (a, mut b) = (stored("one", 20), stored("two", 20));
        b.modules[0].runs[0].label = "65 bytes".into();
        b.modules[0].runs[1].disturbed.push("noise".into());
        b.modules[1].module = "barrier".into();
        b.calibration.disturbed.push("3002 late".into());
        let text = compared(&[a], &[b]).to_string();
        for remark in [
            "only a has forwarding, 64 bytes, 5000 a second",
            "only b has forwarding, 65 bytes",
            "no claim: disturbed",
            "b: the calibration was disturbed: 3002 late",
            "only a has insertion",
            "only b has barrier",
        ] {
            assert!(text.contains(remark), "{remark}: {text}");
        }
    }
}
