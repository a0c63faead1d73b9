//! Packets by what has run them, and why it was not the code for bursts: a part of several answers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use switch::{Counted, Ran};

/// By the name of what has run them.
pub type Packets = BTreeMap<String, Run>;

/// What one engine has run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// So many packets.
    pub packets: u64,
    /// Why it was not the code for bursts; none for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<BTreeMap<String, u64>>,
}

/// What was counted, as it is answered.
pub(crate) fn of(ran: &Counted) -> Packets {
    let engine = |engine: Ran| {
        let (packets, reasons) = ran.of(engine);
        let reasons = reasons.iter().map(|(text, n)| (text.to_string(), *n)).collect();
        let reasons = (engine != Ran::Code).then_some(reasons);
        (engine.name().to_owned(), Run { packets, reasons })
    };
    Ran::ALL.into_iter().map(engine).collect()
}

/// The same for people: how many, and a line for each reason, the most first.
pub(crate) fn print(out: &mut String, packets: &Packets) {
    let count = |engine: Ran| packets.get(engine.name()).map_or(0, |run| run.packets);
    let all: u64 = Ran::ALL.into_iter().map(count).sum();
    let share = |n: u64| 100.0 * n as f64 / all.max(1) as f64;
    let engines: Vec<String> = Ran::ALL
        .into_iter()
        .map(|engine| {
            format!("{} {} ({:.1} %)", engine.name(), count(engine), share(count(engine)))
        })
        .collect();
    let _ = writeln!(out, "packets run by: {}", engines.join(", "));
    for engine in [Ran::Interpreter, Ran::Whole] {
        let reasons = packets.get(engine.name()).and_then(|run| run.reasons.as_ref());
        let mut reasons: Vec<(&String, &u64)> = reasons.into_iter().flatten().collect();
        reasons.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        for (text, n) in reasons {
            let _ = writeln!(out, "  {}: {n}: {text}", engine.name());
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Packets that all engines have run.
    pub(in crate::verbs) fn some() -> Packets {
        let left = |n: u64, texts: &[(&str, u64)]| {
            let reasons = texts.iter().map(|(text, n)| ((*text).into(), *n)).collect();
            datapath::tally::Left { packets: n, reasons }
        };
        of(&Counted {
            code: 90,
            whole: left(6, &[("a clone", 6)]),
            interpreter: left(4, &[("table b: a group", 3), ("a meter", 1)]),
            ..Counted::default()
        })
    }

    #[test]
    fn packets_are_told_by_engine_and_reason_the_most_first() {
        let value = serde_json::to_value(some()).unwrap();
        assert_eq!(value["interpreter"]["reasons"]["a meter"], 1);
        assert_eq!(value["code"], json!({"packets": 90}));
        let mut out = String::new();
        print(&mut out, &some());
        let expected = "packets run by: code 90 (90.0 %), whole 6 (6.0 %), interpreter 4 (4.0 %)
  interpreter: 3: table b: a group
  interpreter: 1: a meter
  whole: 6: a clone
";
        assert_eq!(out, expected);
    }
}
