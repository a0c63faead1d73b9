//! Every use case, small: the engine and the hand-written loop forward as the interpreter does.

use super::*;
use crate::cases::tests::SMALL;
use crate::{Attack, frame};

/// SoftFlow's pipelines, which have no loop written by hand.
const SOFTFLOW: [&str; 4] = ["softflow:a", "softflow:b", "softflow:c", "softflow:d:3"];

fn contents(case: &dyn Case) -> Contents {
    Contents::load(0, case.services(), |entry| {
        case.entries(&mut |line| entry(&line).unwrap_or_else(|e| panic!("{line}: {e}")));
        Ok(())
    })
    .unwrap()
}

#[test]
fn hand_written_loops_forward_as_the_interpreter_does() {
    for name in SMALL {
        let case = cases::parse(name).unwrap();
        let contents = contents(&*case);
        let mut oracle = check::Oracle::new(&contents, 0, frame::LEN).unwrap();
        let mut limit = case.limit().unwrap();
        for (what, attack) in [
            ("none", None),
            ("flip", Some(Attack::Flip)),
            ("scan", Some(Attack::Scan)),
            ("spoof", Some(Attack::Spoof)),
        ] {
            let trace = match attack {
                Some(attack) => Trace::of_case(&*case, 1000, attack.changes()),
                None => Trace::of_case(&*case, 1000, |_| {}),
            };
            let checked = oracle.limit(&mut *limit, &trace);
            assert_eq!(checked.mismatches, 0, "{name}, {what}");
            assert!(checked.frames >= 16_384);
        }
    }
}

#[test]
fn traffic_is_what_it_says() {
    // Share of a use case's frames that are forwarded.
    for (name, share) in [("l2:10", 1.0), ("l3:1000", 1.0), ("lb:10", 0.5), ("gateway:2x3,50", 1.0)]
    {
        let case = cases::parse(name).unwrap();
        let trace = Trace::of_case(&*case, 1000, |_| {});
        let mut tally = Tally::new();
        let mut limit = case.limit().unwrap();
        let sample =
            measure::limit(&mut *limit, true, &trace, &mut 0, Duration::from_millis(5), &mut tally);
        let forwarded = tally.forward as f64 / sample.packets as f64;
        assert!((forwarded - share).abs() < 0.05, "{name}: {forwarded}");
    }
}

#[test]
fn an_engine_is_judged_and_its_counters_too() {
    for kind in [Kind::Interp, Kind::Jit] {
        for name in SMALL.iter().chain(&SOFTFLOW) {
            let case = cases::parse(name).unwrap();
            let contents = contents(&*case);
            let trace = Trace::of_case(&*case, 100, |_| {});
            let bed = Bed::new(kind, &contents, 0, 1).unwrap();
            let mut oracle = check::Oracle::new(&contents, 0, frame::LEN).unwrap();
            let checked = oracle.engine(&bed, &trace);
            assert_eq!(checked.mismatches, 0, "{kind:?}, {name}");
            if kind == Kind::Jit && SOFTFLOW.contains(name) {
                assert_eq!(checked.left, 0, "{name}: stages are compiled");
            }
        }
        // Entries other than the judge's are noticed.
        let (one, other) = (cases::parse("l2:10").unwrap(), cases::parse("l2:9").unwrap());
        let trace = Trace::of_case(&*one, 10, |_| {});
        let bed = Bed::new(kind, &contents(&*other), 0, 1).unwrap();
        let mut oracle = check::Oracle::new(&contents(&*one), 0, frame::LEN).unwrap();
        assert!(oracle.engine(&bed, &trace).mismatches > 0);
    }
}

#[test]
fn updates_are_never_mixed() {
    let case = cases::parse("gateway:4x5,500").unwrap();
    let gateway = case.gateway().unwrap();
    for kind in [Kind::Interp, Kind::Jit] {
        let mut bed = Bed::new(kind, &contents(&*case), 0, 1).unwrap();
        let result = update::check(&mut bed, gateway, 20_000, 10_000).unwrap();
        assert_eq!((result.mixed, &result.first), (0, &None), "{kind:?}");
        assert!(result.packets >= 20_000 && result.updated.updates > 0, "{result:?}");
    }
}

#[test]
fn explanations_name_a_template() {
    assert_eq!(template("acl (…)\n  hash  declined: x\n  lpm  chosen: y"), "lpm");
    assert_eq!(template("t\n  lpm  chosen: y\n  until chosen anew, hash serves: z"), "hash");
    assert_eq!(template("t\n  lpm chosen: y\n  direct_code serves: its entries"), "direct_code");
    assert_eq!(template(""), "");
}

#[test]
fn wrong_use_is_told() {
    let run = |words: &[&str]| {
        let words = ["millrace-bench", "pipeline"].iter().chain(words);
        crate::run(crate::options::parsed(words).command)
    };
    for words in [
        &["--use-case", "l5"][..],
        &["--use-case", "l2:10", "--trace", "x.pcap"],
        &["--flows", "x"],
        &["--use-case", "l2:10", "--seconds", "0"],
        &["--use-case", "l2:10", "--active-flows", "0"],
        &["--use-case", "l2:10", "--updates", "100"],
        &["--p4", "x.p4"],
        &[],
    ] {
        assert!(matches!(run(words), Err(Failure::Usage(_))), "{words:?}");
    }
}
