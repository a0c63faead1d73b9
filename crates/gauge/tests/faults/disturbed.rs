//! Disturbed runs accuse nobody.

use crate::lab::Lab;
use crate::path::Bend;
use crate::path::Change;
use crate::path::sum;
use crate::shim::Counter;
use crate::shim::Lies;
use crate::shim::is_new_rule;
use gauge::module;
use gauge::module::Module;
use gauge::report::How;
use openflow::Version;
use std::time::Duration;

#[test]
fn probes_of_others_accuse_nobody() {
    let mut lab = Lab::new(Version::V13, Lies { bends: Some(Bend::Strangers), ..Lies::default() });
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    (settings.sizes, settings.attempts) = (vec![64], 2);
    for module in
        [&module::forwarding::MODULE, &module::statistics::MODULE, &module::counters::MODULE]
    {
        for run in lab.ask(module) {
            assert_eq!(run.findings, [], "{}", module.name);
            assert_eq!(run.attempts, 2);
            let told = run.disturbed.join(" ");
            assert!(told.contains("probes of another run came out"), "{told}");
        }
    }
}

/// Another host sends into the port that we send into, and the switch counts that, rightly.
#[test]
fn traffic_of_others_accuses_nobody() {
    let lies = Lies { bends: Some(Bend::Neighbours), ..Lies::default() };
    let mut lab = Lab::new(Version::V13, lies);
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    (settings.sizes, settings.attempts) = (vec![64], 2);
    for module in
        [&module::forwarding::MODULE, &module::statistics::MODULE, &module::counters::MODULE]
    {
        for run in lab.ask(module) {
            assert_eq!(run.findings, [], "{}", module.name);
            let told = run.disturbed.join(" ");
            assert!(told.contains("frames came out that are no probes"), "{told}");
        }
    }
}

#[test]
fn a_disturbed_run_accuses_nobody() {
    let mut lab = Lab::new(Version::V13, Lies { loses: Some(50), ..Lies::default() });
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    // No probe leaves so early that none is late.
    (settings.late_share_max, settings.attempts, settings.sizes) = (-1.0, 2, vec![64]);
    for module in [&module::forwarding::MODULE, &module::loss::MODULE, &module::load::POLLING] {
        for run in lab.ask(module) {
            assert_eq!((run.findings.len(), run.attempts), (0, 2), "{} {run:?}", module.name);
            assert!(!run.disturbed.is_empty());
            let kept = |note: &String| note.starts_with("not believed: frames_lost");
            // What `loss` would find it does not even look at then.
            assert!(
                module.name == "loss" || run.notes.iter().any(kept),
                "{} {:?}",
                module.name,
                run.notes
            );
        }
    }
}

/// What a run that stays disturbed would have found is kept as a remark, whatever it is.
#[test]
fn no_kind_of_fault_is_claimed_of_a_disturbed_run() {
    let lies = Lies::default();
    // Late probes say nothing against counters and barriers; others' frames do.
    let bends = Some(Bend::Strangers);
    let wrong = Some((Counter::FlowPackets, 1));
    let port = Some((Counter::PortTx, 1));
    let late = Some(Duration::from_millis(60));
    let changed: Change = |f| (f[22] = 61, sum(f)).1;
    let cases: [(Lies, &Module, &str); 7] = [
        (
            Lies { bends: Some(Bend::Twice(20)), ..lies },
            &module::forwarding::MODULE,
            "frames_doubled",
        ),
        (
            Lies { bends: Some(Bend::Each(changed)), ..lies },
            &module::forwarding::MODULE,
            "frames_changed",
        ),
        (Lies { bends: Some(Bend::Hub), ..lies }, &module::cliffs::FLOWS, "frames_returned"),
        (Lies { miscounts: wrong, bends, ..lies }, &module::statistics::MODULE, "flow_count_wrong"),
        (Lies { miscounts: port, bends, ..lies }, &module::counters::MODULE, "port_count_wrong"),
        (Lies { early_barrier: late, bends, ..lies }, &module::barrier::MODULE, "barrier_early"),
        (
            Lies { forgets: Some((is_new_rule, 10)), ..lies },
            &module::updates::INSERTION,
            "rule_inactive",
        ),
    ];
    for (lies, module, what) in cases {
        let mut lab = Lab::new(Version::V13, lies);
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.late_share_max, settings.attempts, settings.sizes) = (-1.0, 1, vec![64]);
        settings.batches = vec![20];
        for run in lab.ask(module) {
            assert_eq!(run.findings, [], "{}", module.name);
            assert!(!run.disturbed.is_empty(), "{} {run:?}", module.name);
            // Some do not even look then.
            let told = run.notes.iter().all(|n| !n.starts_with("not believed") || n.contains(what));
            assert!(told, "{} {:?}", module.name, run.notes);
        }
    }
}

/// Who reads JUnit's form or the exit status is told the same.
#[test]
fn a_disturbed_session_is_undecided() {
    let lies = Lies { loses: Some(50), ..Lies::default() };
    let (report, _) = Lab::session(Version::V13, lies, &["forwarding", "loss"], |s| {
        (s.late_share_max, s.attempts, s.sizes) = (-1.0, 1, vec![64]);
    });
    assert_eq!((report.ended.how, report.verdict().status()), (How::Complete, 4), "{report}");
    let told = report.to_string();
    assert!(
        told.contains("INVALID after 1 attempts: ") && told.contains("missed their slot"),
        "{told}"
    );
    let stored = gauge::Stored::parse(&serde_json::to_string(&report).unwrap()).unwrap();
    let junit = gauge::junit::junit(&stored);
    assert!(junit.contains("<error message=\"disturbed\">"), "{junit}");
    assert!(!junit.contains("<failure"), "{junit}");
}
