//! Faults in what becomes of frames.

use crate::lab::Lab;
use crate::lab::rounds;
use crate::path::Bend;
use crate::path::Change;
use crate::path::sum;
use crate::shim::Lies;
use gauge::module;
use openflow::Version;

#[test]
fn losses_are_found_and_not_taken_for_early_barriers() {
    for _ in 0..rounds() {
        let mut lab = Lab::new(Version::V13, Lies { loses: Some(200), ..Lies::default() });
        let findings = lab.findings(&module::forwarding::MODULE);
        assert_eq!(findings, ["frames_lost", "frames_lost"]);
        assert_eq!(lab.findings(&module::barrier::MODULE), [""; 0]);
        assert_eq!(lab.findings(&module::statistics::MODULE), [""; 0]);
    }
}

#[test]
fn one_loss_in_ten_thousand_is_found() {
    for _ in 0..rounds() {
        let mut lab = Lab::new(Version::V13, Lies { loses: Some(10_000), ..Lies::default() });
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.loss_probes, settings.loss_pps) = (100_000, 40_000.0);
        assert_eq!(lab.findings(&module::loss::MODULE), ["frames_lost"]);
        assert_eq!(lab.findings(&module::updates::ORDER), [""; 0]);
    }
}

#[test]
fn frames_that_came_out_changed_are_found_and_the_field_is_named() {
    let changes: [(Change, &str, &str); 6] = [
        (|f| (f[22] = 61, sum(f)).1, "frames_changed", "ip_ttl"),
        (|f| (f[26..30].fill(6), sum(f)).1, "frames_changed", "ip_src"),
        (|f| f[5] ^= 0x55, "frames_changed", "eth_dst"),
        (
            |f| f.get_mut(200..216).into_iter().for_each(|b| b.fill(0xff)),
            "frames_changed",
            "payload",
        ),
        (|f| f.truncate(200), "frames_changed", "length"),
        // The frames that look for the wires are short.
        (
            |f| {
                if f.len() > 60 {
                    f[42..60].fill(0xee)
                }
            },
            "frames_unreadable",
            "mark",
        ),
    ];
    for (change, what, field) in changes {
        let bends = Some(Bend::Each(change));
        let mut lab = Lab::new(Version::V13, Lies { bends, ..Lies::default() });
        lab.bench.as_mut().unwrap().settings.sizes = vec![512];
        lab.bench.as_mut().unwrap().settings.probes = 1000;
        let run = lab.ask(&module::forwarding::MODULE).remove(0);
        let [found] = &run.findings[..] else { panic!("{field}: {:?}", run.findings) };
        assert_eq!(found.what, what, "{field}: {found:?}");
        let named = found.text.contains(field) || field == "mark";
        assert!(named && found.text.starts_with("1000 of 1000"), "{field}: {found:?}");
        assert_eq!(run.value("lost"), Some(0.0), "{field}");
    }
}

#[test]
fn an_action_that_is_not_done_is_found() {
    // UDP's destination is as it was before, whatever the rule says.
    let bends = Some(Bend::Each(|f| f[36..38].copy_from_slice(&9u16.to_be_bytes())));
    let mut lab = Lab::new(Version::V13, Lies { bends, ..Lies::default() });
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    (settings.sizes, settings.probes) = (vec![128], 800);
    for run in lab.ask(&module::actions::MODULE) {
        let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
        let expected: &[&str] = match run.label.split(',').next().unwrap() {
            "set UDP destination" => &["action_not_done"],
            // What follows a tag or a label lies elsewhere.
            "push VLAN" | "push MPLS" => &["frames_changed"],
            _ => &[],
        };
        assert_eq!(found, expected, "{}: {:?}", run.label, run.findings);
    }
}

#[test]
fn flipped_bits_are_found_and_not_taken_for_other_faults() {
    let mut lab = Lab::new(Version::V13, Lies { bends: Some(Bend::Bits), ..Lies::default() });
    lab.bench.as_mut().unwrap().settings.sizes = vec![64];
    for module in [&module::forwarding::MODULE, &module::loss::MODULE] {
        let run = lab.ask(module).remove(0);
        let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
        assert_eq!(found, ["frames_corrupted"], "{:?}", run.findings);
        for figure in ["lost", "doubled", "reordered"] {
            assert_eq!(run.value(figure), Some(0.0), "{figure}");
        }
    }
}

#[test]
fn doubled_frames_and_those_that_come_back_are_found() {
    for (bend, what) in [(Bend::Twice(100), "frames_doubled"), (Bend::Hub, "frames_returned")] {
        let mut lab = Lab::new(Version::V13, Lies { bends: Some(bend), ..Lies::default() });
        lab.bench.as_mut().unwrap().settings.sizes = vec![64];
        for module in [&module::forwarding::MODULE, &module::cliffs::FLOWS, &module::load::POLLING]
        {
            for run in lab.ask(module) {
                let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
                assert_eq!(found, [what], "{} {:?}", module.name, run.findings);
            }
        }
    }
}
