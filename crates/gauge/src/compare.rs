//! Two reports side by side, with what a difference means.
//!
//! Runs are matched by module and label. A percentile differs only if its confidence intervals do not
//! overlap and the two are further apart than the greater of both floors' spreads; all else is `same`.
//! Runs that were disturbed in either report are not compared, and said to be so.
//!
//! Checked by: the tests below.

use crate::latency::Percentile;
use crate::stored::{Run, Stored};
use std::fmt;

/// A comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    names: [String; 2],
    rows: Vec<Row>,
    /// What one has and the other lacks, and what cannot be compared.
    remarks: Vec<String>,
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
    /// Its values.
    pub values: [f64; 2],
    /// Whether they differ by more than noise; of single figures, whether they differ.
    pub differs: bool,
}

/// Lays two reports side by side.
pub fn compare(names: [&str; 2], a: &Stored, b: &Stored) -> Comparison {
    let (mut rows, mut remarks) = (Vec::new(), Vec::new());
    let lacks = |remarks: &mut Vec<String>, name: &str, what: String| {
        remarks.push(format!("only {name} has {what}"));
    };
    for module in &a.modules {
        let Some(other) = b.modules.iter().find(|m| m.module == module.module) else {
            lacks(&mut remarks, names[0], module.module.clone());
            continue;
        };
        for run in &module.runs {
            let place = format!("{}, {}", module.module, run.label);
            match other.runs.iter().find(|r| r.label == run.label) {
                Some(there) if !run.disturbed.is_empty() || !there.disturbed.is_empty() => {
                    remarks.push(format!("{place}: disturbed, not compared"));
                }
                Some(there) => pair(&module.module, (a, run), (b, there), &mut rows),
                None => lacks(&mut remarks, names[0], place),
            }
        }
        for run in other.runs.iter().filter(|r| module.runs.iter().all(|own| own.label != r.label))
        {
            lacks(&mut remarks, names[1], format!("{}, {}", module.module, run.label));
        }
    }
    for module in b.modules.iter().filter(|m| a.modules.iter().all(|own| own.module != m.module)) {
        lacks(&mut remarks, names[1], module.module.clone());
    }
    Comparison { names: names.map(str::to_owned), rows, remarks }
}

fn pair(module: &str, a: (&Stored, &Run), b: (&Stored, &Run), rows: &mut Vec<Row>) {
    let row = |figure: String, values: [f64; 2], differs: bool| Row {
        module: module.to_owned(),
        run: a.1.label.clone(),
        figure,
        values,
        differs,
    };
    for (name, value) in &a.1.figures {
        if let Some(other) = b.1.figure(name) {
            rows.push(row(name.clone(), [*value, other], *value != other));
        }
    }
    for (name, summary) in &a.1.latencies {
        let spread = a.0.floor(a.1, name).spread_ns().max(b.0.floor(b.1, name).spread_ns());
        let Some((_, other)) = b.1.latencies.iter().find(|(n, _)| n == name) else { continue };
        for p in &summary.percentiles {
            let Some(q) = other.percentiles.iter().find(|q| q.percent == p.percent) else {
                continue;
            };
            let differs = !overlap(p, q) && p.ns.abs_diff(q.ns) > spread;
            let values = [p.ns as f64 / 1000.0, q.ns as f64 / 1000.0];
            rows.push(row(format!("{name} p{} (us)", p.percent), values, differs));
        }
    }
}

/// Whether two confidence intervals have something in common.
fn overlap(p: &Percentile, q: &Percentile) -> bool {
    let below = |high: Option<u64>, low: u64| high.is_some_and(|high| high < low);
    !below(p.high_ns, q.low_ns) && !below(q.high_ns, p.low_ns)
}

impl Comparison {
    /// All that both have.
    pub fn rows(&self) -> &[Row] {
        &self.rows
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
            let verdict = match row.differs {
                false => "same".to_owned(),
                true if x == 0.0 => "differs".to_owned(),
                true => format!("{:.2}", y / x),
            };
            let number = |v: f64| {
                if v.fract() == 0.0 { format!("{v}") } else { format!("{v:.1}") }
            };
            let (x, y) = (number(x), number(y));
            writeln!(
                f,
                "{place:<run$}  {:<figure$}  {x:>column$}  {y:>column$}  {verdict}",
                row.figure
            )?;
        }
        for remark in &self.remarks {
            writeln!(f, "{remark}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::stored;

    #[test]
    fn only_what_is_more_than_noise_differs() {
        let same = compare(["a", "b"], &stored("one", 200), &stored("two", 200));
        assert!(same.rows().iter().all(|row| !row.differs));
        // One microsecond more lies within the floor's spread of 40.
        let near = compare(["a", "b"], &stored("one", 200), &stored("two", 201));
        assert!(near.rows().iter().all(|row| !row.differs));
        let far = compare(["a", "b"], &stored("one", 200), &stored("two", 400));
        let latency = |row: &&Row| row.figure == "latency p50 (us)";
        let row = far.rows().iter().find(latency).unwrap();
        assert!(row.differs && (row.values[1] / row.values[0] - 1.9).abs() < 0.1, "{row:?}");
        assert!(far.rows().iter().filter(|r| r.figure == "control_us").all(|r| !r.differs));
        assert!(far.to_string().contains("forwarding, 64 bytes, 5000 a second"));
    }

    #[test]
    fn what_one_lacks_is_said() {
        let (a, mut b) = (stored("one", 20), stored("two", 20));
        b.modules[0].runs[0].label = "65 bytes".into();
        b.modules[0].runs[1].disturbed.push("noise".into());
        b.modules[1].module = "barrier".into();
        let text = compare(["a", "b"], &a, &b).to_string();
        for remark in [
            "only a has forwarding, 64 bytes, 5000 a second",
            "only b has forwarding, 65 bytes",
            "forwarding, 1518 bytes, 5000 a second: disturbed, not compared",
            "only a has insertion",
            "only b has barrier",
        ] {
            assert!(text.contains(remark), "{remark}: {text}");
        }
    }
}
