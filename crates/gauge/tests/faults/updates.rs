//! Faults in how rules take effect.

use crate::lab::Lab;
use crate::lab::rounds;
use crate::shim::Lies;
use crate::shim::Which;
use crate::shim::is_new_rule;
use crate::shim::is_removal;
use gauge::module;
use gauge::module::Module;
use openflow::Version;
use std::time::Duration;

#[test]
fn early_barriers_are_found() {
    let lies = Lies { early_barrier: Some(Duration::from_millis(60)), ..Lies::default() };
    let mut lab = Lab::new(Version::V13, lies);
    let mut runs = Vec::new();
    for _ in 0..rounds() {
        runs.extend(lab.ask(&module::barrier::MODULE));
    }
    for run in &runs {
        assert_eq!(run.findings.len(), 1, "{run:?}");
        assert_eq!(run.findings[0].what, "barrier_early");
        let late_us = run.value("late_us").unwrap();
        assert!((20_000.0..2_000_000.0).contains(&late_us), "{late_us}");
    }
    // The other module shows it as a gap between the two planes.
    for run in lab.ask(&module::updates::INSERTION) {
        let gap = run.value("data_us").unwrap() - run.value("control_us").unwrap();
        assert!(gap > 20_000.0, "{}: {gap}", run.label);
    }
}

#[test]
fn rules_out_of_their_order_are_found() {
    let reorders = Some(Duration::from_millis(60));
    let mut lab = Lab::new(Version::V13, Lies { reorders, ..Lies::default() });
    for _ in 0..rounds() {
        let runs = lab.ask(&module::updates::ORDER);
        assert_eq!(runs[0].findings.len(), 1, "{:?}", runs[0].figures);
        assert_eq!(runs[0].findings[0].what, "rules_reordered");
        // Of ten pairs; on a busy machine the shim may see them in several batches.
        assert!((1.0..=10.0).contains(&runs[0].value("disordered").unwrap()));
    }
    // When the barrier is answered all rules are there.
    assert_eq!(lab.findings(&module::barrier::MODULE), [""; 0]);
    // It may reorder what no barrier parts; that is shown, not blamed.
    let runs = lab.ask(&module::updates::INSERTION);
    assert!(runs[1].value("overtaken").unwrap() > 0.0);
    assert_eq!(runs[1].findings, []);
}

#[test]
fn removals_that_never_come_are_not_late_ones() {
    let forgets: Option<(Which, u32)> = Some((is_removal, 10));
    let mut lab = Lab::new(Version::V13, Lies { forgets, ..Lies::default() });
    lab.bench.as_mut().unwrap().settings.batches = vec![20];
    for run in lab.ask(&module::updates::DELETION) {
        let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
        assert_eq!(found, ["rule_undead"], "{:?}", run.findings);
    }
    assert_eq!(lab.findings(&module::barrier::MODULE), [""; 0]);
}

/// Other shares of them, another version, other modules.
#[test]
fn rules_that_never_come_are_named_as_such_however_many() {
    use module::updates;
    let cases: [(Version, u32, &Module); 6] = [
        (Version::V13, 1, &module::barrier::MODULE),
        (Version::V13, 1, &updates::INSERTION),
        (Version::V13, 20, &module::barrier::MODULE),
        (Version::V10, 10, &module::barrier::MODULE),
        (Version::V10, 10, &updates::INSERTION),
        (Version::V15, 10, &updates::ORDER),
    ];
    for (version, n, module) in cases {
        let forgets: Option<(Which, u32)> = Some((is_new_rule, n));
        let mut lab = Lab::new(version, Lies { forgets, ..Lies::default() });
        lab.bench.as_mut().unwrap().settings.batches = vec![20];
        for run in lab.ask(module) {
            let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
            assert_eq!(
                found,
                ["rule_inactive"],
                "{version} {n} {} {:?}",
                module.name,
                run.findings
            );
        }
    }
}

#[test]
fn rules_that_never_come_are_not_late() {
    let forgets: Option<(Which, u32)> = Some((is_new_rule, 10));
    let mut lab = Lab::new(Version::V13, Lies { forgets, ..Lies::default() });
    lab.bench.as_mut().unwrap().settings.batches = vec![20];
    use module::updates;
    for module in
        [&updates::INSERTION, &module::barrier::MODULE, &updates::ORDER, &updates::MODIFICATION]
    {
        for run in lab.ask(module) {
            let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
            assert_eq!(found, ["rule_inactive"], "{} {:?}", module.name, run.findings);
        }
    }
}
