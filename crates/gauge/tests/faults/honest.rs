//! An honest switch is not accused.

use crate::lab::Lab;
use crate::lab::rounds;
use crate::shim::Lies;
use gauge::Run;
use gauge::module::MODULES;
use gauge::module::Module;
use gauge::run::WIRE;
use openflow::Version;

/// Figures that need a switch of another process, or ports that the kernel stamps.
fn sometimes(figure: &str) -> bool {
    ["cpu_load", "added_wire_p50_us"].contains(&figure)
}

/// Asks an honest switch what these modules ask.
fn honest(version: Version, asked: impl Fn(&Module) -> bool) {
    for _ in 0..rounds() {
        let mut lab = Lab::new(version, Lies::default());
        for module in MODULES.iter().filter(|m| asked(m)) {
            let runs = match lab.try_ask(module) {
                Ok(runs) => runs,
                Err(e) => {
                    let may = match module.name {
                        "restart" => e.to_string().contains("--restart COMMAND"),
                        "meter" | "failover" => version == Version::V10,
                        _ => false,
                    };
                    assert!(may && e.is_of_one_module(), "{version} {}: {e}", module.name);
                    continue;
                }
            };
            assert!(!runs.is_empty());
            if module.name == "actions" {
                // The change that OFLOPS-SUME measures; version 1.0 has no MPLS.
                let has = |name: &str| runs.iter().any(|run| run.label.starts_with(name));
                assert!(has("set UDP destination") && has("set DSCP"), "{version}");
                assert!(version == Version::V10 || has("push MPLS"), "{version}");
            }
            for run in &runs {
                assert_eq!(run.findings, [], "{version} {}: {}", module.name, run.label);
                for figure in module.figures.iter().filter(|f| !sometimes(f)) {
                    assert!(run.value(figure).is_some(), "{version} {} {figure}", module.name);
                }
            }
            // Without load a run has no latency under load; only the kernel stamps both ends of a wire.
            for latency in module.latencies.iter().filter(|latency| **latency != WIRE) {
                let has = |run: &Run| {
                    run.latencies.iter().any(|(name, summary)| name == latency && summary.count > 0)
                };
                assert!(runs.iter().any(has), "{version} {} {latency}", module.name);
            }
        }
    }
}

const OF_UPDATES: [&str; 8] = [
    "insertion",
    "modification",
    "deletion",
    "priority",
    "occupancy",
    "order",
    "barrier",
    "update_rate",
];

#[test]
fn an_honest_switch_is_not_accused_of_its_updates() {
    honest(Version::V13, |m| OF_UPDATES.contains(&m.name));
}

#[test]
fn an_honest_switch_is_not_accused_of_the_rest() {
    honest(Version::V13, |m| !OF_UPDATES.contains(&m.name) && m.name != "actions");
}

#[test]
fn an_honest_switch_is_not_accused_of_its_actions() {
    honest(Version::V13, |m| m.name == "actions");
}

#[test]
fn an_honest_switch_is_not_accused_in_other_versions() {
    // What they say by other bytes is asked of them.
    const SMALL: [&str; 10] = [
        "echo",
        "forwarding",
        "insertion",
        "modification",
        "barrier",
        "packet_in",
        "packet_out",
        "port_statistics",
        "meter",
        "failover",
    ];
    honest(Version::V10, |m| SMALL.contains(&m.name) || m.name == "statistics");
    honest(Version::V14, |m| SMALL[..2].contains(&m.name) || m.name == "statistics");
    honest(Version::V15, |m| SMALL[6..].contains(&m.name) || m.name == "statistics");
}
