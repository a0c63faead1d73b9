//! Two bridges with two cables between them, which are bonds at both ends: a member that goes and comes, LACP, what is told.

use super::{Bond, ask};
use crate::bridges::bed::{LONG, bridges, engines, flow, memory, patch, until};
use crate::bridges::{BridgeConfig, Bridges};
use port::memory::Handle;
use std::time::{Duration, Instant};
use switch::EngineKind;

struct Bed {
    bridges: Bridges,
    far: [Handle; 2],
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.bridges.stop();
    }
}

/// Bridges br0 and br1, whose ports a0 and b0 lead to a1 and b1. `bond` is what both bonds are.
fn bed(name: &str, engine: EngineKind, bond: &str) -> Bed {
    let bridges = bridges(1, engine);
    let far = [0, 1].map(|n| {
        let bridge = format!("br{n}");
        let bond: Bond = format!("bond{n},members=a{n},b{n},{bond}").parse().unwrap();
        let config = BridgeConfig { bonds: vec![bond], ..BridgeConfig::named(&bridge) };
        bridges.add(config).unwrap();
        let far = memory(&bridges, &bridge, &format!("bonds-{name}-{n}"));
        flow(&bridges, &bridge, "actions=NORMAL");
        far
    });
    ["a0", "b0", "a1", "b1"].iter().for_each(|name| cable(&bridges, name));
    Bed { bridges, far }
}

/// Plugs one end of a cable in: `a0` is that of `a1`.
fn cable(bridges: &Bridges, name: &str) {
    let n = name.ends_with('1') as u8;
    let peer = format!("{}{}", &name[..1], 1 - n);
    patch(bridges, &format!("br{n}"), name, &peer);
}

impl Bed {
    fn ask(&self, family: &str, words: &[&str]) -> String {
        ask(&self.bridges, family, words).unwrap()
    }

    /// Frames come through in both directions, each once.
    fn passes(&self, n: u8) {
        let frame = |from: u8| {
            let mut bytes = vec![2, 0, 0, 0, 0, 1 - from, 2, 0, 0, 0, 0, from, 0x88, 0xb5, n];
            bytes.resize(60, 0);
            bytes
        };
        for from in [0, 1] {
            let to = &self.far[1 - usize::from(from)];
            // What was sent before the bonds had settled is late.
            let end = Instant::now() + LONG;
            loop {
                assert!(self.far[usize::from(from)].inject_bytes(&frame(from)));
                let got = to.take_within(Duration::from_millis(200));
                if got.is_some_and(|got| got.data()[..15] == frame(from)[..15]) {
                    break;
                }
                assert!(Instant::now() < end, "frame {n} of br{from} is lost: {}", self.told());
            }
            let back = self.far[usize::from(from)].take();
            assert!(back.is_none_or(|got| got.data()[6..12] != frame(from)[6..12]), "it came back");
        }
    }

    /// What there is to say about a frame that is lost.
    fn told(&self) -> String {
        let mut text = self.ask("bond", &["show"]);
        for bridge in ["br0", "br1"] {
            let switch = self.bridges.bridge(bridge).unwrap();
            let counted =
                switch.switch().port_counters().into_iter().map(|(p, c, _)| (p.info.name, c));
            text += &format!("{bridge}: {:?}\n", counted.collect::<Vec<_>>());
        }
        text
    }

    fn shows(&self, what: &str, words: &[&str], of: &str) {
        until(&format!("{words:?} shows {of:?}"), || self.ask(what, words).contains(of));
    }
}

#[test]
fn a_bond_of_two_cables_is_no_loop_and_outlives_one_of_them() {
    for (round, engine) in engines().into_iter().enumerate() {
        for mode in ["active-backup", "balance-slb"] {
            let bed = bed(&format!("{mode}-{round}"), engine.clone(), &format!("mode={mode}"));
            // Each end chooses for itself, and a backup lets nothing in: both are told the same cable.
            for (bond, member) in [("bond0", "a0"), ("bond1", "a1")] {
                bed.shows("bond", &["show", bond], &format!("member {member}: enabled"));
                bed.ask("bond", &["set-active-member", bond, member]);
            }
            bed.shows("bond", &["show", "bond0"], "member b0: enabled");
            bed.passes(1);
            for cut in ["a0", "b1"] {
                let bridge = if cut == "a0" { "br0" } else { "br1" };
                bed.bridges.remove_port(bridge, cut).unwrap();
                bed.passes(2);
                cable(&bed.bridges, cut);
                bed.shows("bond", &["show"], &format!("member {cut}: enabled"));
                bed.passes(3);
            }
            let active = bed.bridges.bridge("br0").unwrap().bond_active("bond0");
            assert!(active.is_some());
            assert!(!bed.ask("bond", &["set-active-member", "bond0", "a0"]).is_empty());
            bed.shows("bond", &["show", "bond0"], "member a0: enabled\n  active member");
            bed.passes(4);
        }
    }
}

#[test]
fn lacp_is_spoken_between_two_bridges() {
    let words = "mode=balance-tcp,lacp=active,lacp-time=fast";
    let bed = bed("lacp", EngineKind::default(), words);
    for bond in ["bond0", "bond1"] {
        bed.shows("bond", &["show", bond], "lacp_status: negotiated");
        for member in ["a", "b"] {
            let member = format!("member: {member}{}: current attached", &bond[4..]);
            bed.shows("lacp", &["show", bond], &member);
        }
    }
    bed.passes(1);
    let found = bed.bridges.bridge("br0").unwrap();
    assert_eq!(found.lacp_current("a0"), Some(true));
    assert_eq!(found.lacp_current("bonds-lacp-0"), None);
    let is_live = |port: &str| found.port(port).unwrap().view.is_live();
    let becomes = |port: &str, wanted: bool| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while is_live(port) != wanted {
            assert!(std::time::Instant::now() < until, "{port} does not become live: {wanted}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    becomes("a0", true);
    bed.bridges.remove_port("br1", "a1").unwrap();
    bed.shows("bond", &["show", "bond0"], "member a0: disabled");
    becomes("a0", false);
    becomes("b0", true);
    bed.passes(2);
    assert!(bed.ask("lacp", &["show-stats", "bond0"]).contains("RX Bad PDUs: 0"));
    // Without a partner nothing passes.
    bed.bridges.set_bonds("br1", Vec::new()).unwrap();
    bed.shows("bond", &["show", "bond0"], "lacp_status: configured");
    becomes("b0", false);
    assert!(found.port("b0").unwrap().view.is_up(), "frames of LACP pass all the same");
    bed.bridges.set_bonds("br0", Vec::new()).unwrap();
    becomes("b0", true);
}

#[test]
fn what_is_asked_is_answered_in_open_vswitchs_words() {
    let bed = bed("words", EngineKind::default(), "mode=balance-slb");
    let list = bed.ask("bond", &["list"]);
    assert_eq!(
        list,
        "bond\ttype\trecircID\tmembers\nbond0\tbalance-slb\t0\ta0, b0\nbond1\tbalance-slb\t0\ta1, b1\n"
    );
    let refused = |family: &str, words: &[&str]| ask(&bed.bridges, family, words).unwrap_err();
    assert_eq!(refused("bond", &["show", "nope"]), "no such bond");
    assert_eq!(refused("lacp", &["show", "bond0"]), "no such lacp object");
    assert_eq!(refused("bond", &["migrate", "nope", "1", "a0"]), "no such bond");
    assert_eq!(refused("bond", &["hash", "x"]), "invalid mac");
    assert_eq!(refused("bond", &["hash", "00:00:00:00:00:01", "x"]), "invalid vlan");
    bed.shows("bond", &["show", "bond0"], "member a0: enabled");
    let slot = bed.ask("bond", &["hash", "02:00:00:00:00:00"]);
    assert_eq!(bed.ask("bond", &["migrate", "bond0", &slot, "a0"]), "migrated");
    assert_eq!(bed.ask("lacp", &["show"]), "");
    // Its members are ports as any other once it is gone.
    let bonds = |text: &str| vec![text.parse::<Bond>().unwrap()];
    bed.bridges.remove_port("br0", "b0").unwrap();
    bed.bridges.set_bonds("br0", Vec::new()).unwrap();
    assert!(!bed.ask("bond", &["list"]).contains("bond0"));
    bed.passes(1);
    let other =
        bed.bridges.set_bonds("br0", [bonds("x,members=a0"), bonds("y,members=a0")].concat());
    let told = other.unwrap_err().to_string();
    assert_eq!(told, "bridge br0: bond y: port a0 is a member of bond x");
}
