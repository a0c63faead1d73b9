//! Bridges on memory ports: made and removed, patched together, ports that come and go while packets pass.

use super::bed::{LONG, bridges, engines, flow, frame, memory, number, patch, port, until};
use super::*;
use crate::config::diff::{BridgeSetup, Change, Setup, diff};
use std::time::{Duration, Instant};
use switch::EngineKind;
use switch::ports::NUMBER_LOCAL;

fn live(bridges: &Bridges, bridge: &str, port: &str) -> bool {
    bridges.bridge(bridge).unwrap().port(port).unwrap().view.is_live()
}

#[test]
fn packets_pass_through_two_bridges_and_their_patch_ports_by_either_engine() {
    for (round, engine) in engines().into_iter().enumerate() {
        for workers in [1, 2] {
            let bridges = bridges(workers, engine.clone());
            let name = |what: &str| format!("patched-{round}-{workers}-{what}");
            let mut far = Vec::new();
            for (bridge, own, peer) in [("br0", "to1", "to0"), ("br1", "to0", "to1")] {
                bridges.add(BridgeConfig::named(bridge)).unwrap();
                far.push(memory(&bridges, bridge, &name(bridge)));
                patch(&bridges, bridge, own, peer);
                flow(&bridges, bridge, "actions=NORMAL");
            }
            until("the patch ports are up", || {
                live(&bridges, "br0", "to1") && live(&bridges, "br1", "to0")
            });
            for n in 0..500 {
                let (from, to) = (usize::from(n % 2), usize::from(1 - n % 2));
                assert!(far[from].inject_bytes(&frame(to as u8, from as u8, n)));
                let got = far[to].take_within(LONG).expect("a frame comes through");
                assert_eq!(number(got.data()), n);
                assert!(far[from].take().is_none(), "and none comes back");
            }
            let stations = bridges.bridge("br0").unwrap().stations();
            assert_eq!(stations.len(), 2, "{stations:?}");
            assert_eq!(bridges.bridge("br0").unwrap().flush_stations(), 2);
            assert!(bridges.bridge("br0").unwrap().stations().is_empty());
            // Both bridges have counted all of them.
            for (bridge, own) in [("br0", "to1"), ("br1", "to0")] {
                let counters = bridges.bridge(bridge).unwrap().port(own).unwrap().counters;
                assert_eq!((counters.rx_packets, counters.tx_packets), (250, 250));
                assert!(counters.drops.is_empty(), "{:?}", counters.drops);
            }
            bridges.stop();
        }
    }
}

/// As where a process hands over: nothing new comes in, and what is on its way between bridges still leaves.
#[test]
fn bridges_that_stop_together_leave_no_frame_between_them() {
    let bridges = bridges(1, EngineKind::default());
    let mut far = Vec::new();
    for (bridge, own, peer) in [("br0", "to1", "to0"), ("br1", "to0", "to1")] {
        bridges.add(BridgeConfig::named(bridge)).unwrap();
        far.push(memory(&bridges, bridge, &format!("between-{bridge}")));
        patch(&bridges, bridge, own, peer);
        flow(&bridges, bridge, "in_port=1,actions=output:2");
        flow(&bridges, bridge, "in_port=2,actions=output:1");
    }
    until("the patch ports are up", || {
        live(&bridges, "br0", "to1") && live(&bridges, "br1", "to0")
    });
    let switches = ["br0", "br1"].map(|name| bridges.bridge(name).unwrap().switch().clone());
    switches[1].set_receiving(false);
    for n in 0..200 {
        assert!(far[0].inject_bytes(&frame(1, 0, n)));
    }
    until("frames wait at the cable", || switches[1].waits_inside());
    let sent = || bridges.bridge("br0").unwrap().port("to1").unwrap().counters.tx_packets;
    until("all are sent", || sent() == 200);
    assert!(far[1].take().is_none(), "the second bridge receives nothing");
    switches.iter().for_each(Switch::receive_inside);
    for n in 0..200 {
        assert_eq!(number(far[1].take_within(LONG).expect("it leaves").data()), n);
    }
    until("none waits", || !switches.iter().any(Switch::waits_inside));
    // What comes now waits at the port.
    assert!(far[0].inject_bytes(&frame(1, 0, 300)));
    assert!(far[1].take_within(Duration::from_millis(100)).is_none());
    switches.iter().for_each(|switch| switch.set_receiving(true));
    assert_eq!(number(far[1].take_within(LONG).expect("it was not lost").data()), 300);
    bridges.stop();
}

#[test]
fn what_was_behind_a_port_that_goes_is_forgotten_by_all_bridges() {
    let bridges = bridges(1, EngineKind::default());
    let mut far = Vec::new();
    for (bridge, own, peer) in [("br0", "to1", "to0"), ("br1", "to0", "to1")] {
        bridges.add(BridgeConfig::named(bridge)).unwrap();
        far.push(memory(&bridges, bridge, &format!("elsewhere-{bridge}")));
        patch(&bridges, bridge, own, peer);
        flow(&bridges, bridge, "actions=NORMAL");
    }
    until("the patch ports are up", || {
        live(&bridges, "br0", "to1") && live(&bridges, "br1", "to0")
    });
    let known = |bridge: &str| bridges.bridge(bridge).unwrap().stations().len();
    for (from, to) in [(0, 1), (1, 0)] {
        assert!(far[from].inject_bytes(&frame(to as u8, from as u8, 1)));
        far[to].take_within(LONG).expect("a frame comes through");
    }
    until("both know both", || known("br0") == 2 && known("br1") == 2);
    bridges.remove_port("br0", "elsewhere-br0").unwrap();
    until("one is left", || known("br0") == 1 && known("br1") == 1);
    let left = bridges.bridge("br1").unwrap().stations()[0].port;
    assert_eq!(left, 1, "the other bridge's own");
    bridges.remove("br1").unwrap();
    assert_eq!(known("br0"), 0, "a bridge goes with all its ports");
    bridges.stop();
}

#[test]
fn of_many_ports_each_is_looked_at_and_told_by_itself() {
    let bridges = bridges(1, EngineKind::default());
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let far: Vec<_> = (0..150).map(|n| memory(&bridges, "br0", &format!("many-{n}"))).collect();
    until("all are up", || (0..150).all(|n| live(&bridges, "br0", &format!("many-{n}"))));
    for n in [149, 0, 77] {
        far[n].set_carrier(false);
        until("it is seen", || !live(&bridges, "br0", &format!("many-{n}")));
    }
    let found = bridges.bridge("br0").unwrap();
    let one = found.port("many-5").unwrap();
    assert_eq!((one.config.number, one.view.number), (Some(6), 6));
    assert_eq!(found.ports().len(), 150);
    assert!(found.port("many-150").is_err());
    bridges.stop();
}

#[test]
fn a_circle_of_bridges_ends_and_is_counted() {
    for engine in engines() {
        let bridges = bridges(1, engine);
        bridges.add(BridgeConfig::named("br0")).unwrap();
        bridges.add(BridgeConfig::named("br1")).unwrap();
        let far = memory(&bridges, "br0", "circle");
        let to1 = patch(&bridges, "br0", "c01", "c10");
        let back = patch(&bridges, "br0", "d01", "d10");
        let to0 = patch(&bridges, "br1", "c10", "c01");
        let home = patch(&bridges, "br1", "d10", "d01");
        flow(&bridges, "br0", &format!("in_port=1 actions=output:{to1}"));
        flow(&bridges, "br0", &format!("in_port={back} actions=output:{to1}"));
        flow(&bridges, "br1", &format!("in_port={to0} actions=output:{home}"));
        until("all patch ports are up", || {
            ["c01", "d01"].iter().all(|port| live(&bridges, "br0", port))
                && ["c10", "d10"].iter().all(|port| live(&bridges, "br1", port))
        });
        for n in 0..10 {
            assert!(far.inject_bytes(&frame(2, 1, n)));
        }
        let drops = || {
            let all = bridges.all();
            let counters = all.iter().flat_map(|bridge| bridge.ports()).map(|port| port.counters);
            counters
                .flat_map(|counters| counters.drops)
                .filter(|(word, _)| *word == "patch_loop")
                .map(|(_, n)| n)
                .sum::<u64>()
        };
        until("all of them are dropped", || drops() == 10);
        bridges.stop();
    }
}

#[test]
fn ports_come_and_go_and_change_numbers_and_others_lose_nothing() {
    let bridges = bridges(1, EngineKind::default());
    bridges.add(BridgeConfig::named("br0")).unwrap();
    bridges.add(BridgeConfig::named("br1")).unwrap();
    let (from, to) = (memory(&bridges, "br0", "steady-in"), memory(&bridges, "br0", "steady-out"));
    flow(&bridges, "br0", "in_port=1 actions=output:2");
    let done = std::sync::atomic::AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let (mut sent, mut got) = (0u64, 0u64);
            while !done.load(std::sync::atomic::Ordering::Relaxed) || got < sent {
                if !done.load(std::sync::atomic::Ordering::Relaxed) && sent - got < 512 {
                    sent += u64::from(from.inject_bytes(&frame(2, 1, sent as u16)));
                }
                to.take_into(64, |frame| {
                    assert_eq!(number(frame.data()), got as u16, "in order, and none is missing");
                    got += 1;
                });
            }
            sent
        });
        let begun = Instant::now();
        let mut changes = 0;
        while changes < 50 || begun.elapsed() < Duration::from_secs(1) {
            let name = format!("passing-{changes}");
            let bridge = ["br0", "br1"][changes % 2];
            let port = port(&name, &format!("memory:{name}"));
            let number = bridges.add_port(bridge, port).unwrap();
            assert_eq!(bridges.renumber(bridge, &name, Some(number + 100)).unwrap(), number + 100);
            bridges.add(BridgeConfig::named("br2")).unwrap();
            patch(&bridges, "br2", "p2", "p0");
            patch(&bridges, "br0", "p0", "p2");
            bridges.remove("br2").unwrap();
            bridges.remove_port("br0", "p0").unwrap();
            bridges.remove_port(bridge, &name).unwrap();
            changes += 1;
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        traffic.join().unwrap()
    });
    println!("{sent} frames beside the changes");
    assert!(sent > 1000);
    let port = bridges.bridge("br0").unwrap().port("steady-in").unwrap();
    assert!(port.counters.drops.is_empty(), "{:?}", port.counters.drops);
    bridges.stop();
}

#[test]
fn a_port_with_another_number_goes_on_with_its_queues() {
    let bridges = bridges(1, EngineKind::Interp);
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let (a, b) = (memory(&bridges, "br0", "number-a"), memory(&bridges, "br0", "number-b"));
    flow(&bridges, "br0", "in_port=7 actions=output:2");
    flow(&bridges, "br0", "in_port=2 actions=output:7");
    assert_eq!(bridges.renumber("br0", "number-a", Some(7)).unwrap(), 7);
    assert!(a.inject_bytes(&frame(2, 1, 1)));
    assert!(b.take_within(LONG).is_some());
    assert!(b.inject_bytes(&frame(1, 2, 2)));
    assert!(a.take_within(LONG).is_some());
    let ports = bridges.bridge("br0").unwrap().ports();
    let told: Vec<_> = ports.iter().map(|p| (p.view.number, p.config.name.as_str())).collect();
    assert_eq!(told, [(2, "number-b"), (7, "number-a")]);
    assert_eq!(ports[1].counters.rx_packets, 1, "it counts anew");
    // The least number that nobody has; the bridge's own.
    assert_eq!(bridges.renumber("br0", "number-a", None).unwrap(), 1);
    assert_eq!(bridges.renumber("br0", "number-b", Some(NUMBER_LOCAL)).unwrap(), NUMBER_LOCAL);
    bridges.stop();
}

#[test]
fn what_is_wrong_is_told_precisely_and_changes_nothing() {
    let bridges = bridges(1, EngineKind::Interp);
    let named = BridgeConfig::named;
    assert!(matches!(bridges.add(named("a/b")), Err(Error::BridgeName { .. })));
    bridges.add(named("br0")).unwrap();
    assert!(matches!(bridges.add(named("br0")), Err(Error::BridgeExists { .. })));
    assert!(matches!(bridges.remove("br7"), Err(Error::NoBridge { .. })));
    bridges.add(named("br1")).unwrap();
    let _far = memory(&bridges, "br0", "wrong-a");
    let again = bridges.add_port("br1", port("wrong-a", "memory:other"));
    assert!(matches!(again, Err(Error::PortExists { bridge, .. }) if bridge == "br0"));
    let at = |number, name: &str| PortConfig {
        number: Some(number),
        ..port(name, &format!("memory:{name}"))
    };
    let in_use = bridges.add_port("br0", at(1, "wrong-b"));
    assert!(matches!(in_use, Err(Error::NumberInUse { number: 1, by }) if by == "wrong-a"));
    let reserved = bridges.add_port("br0", at(0xffff_fff8, "wrong-b"));
    assert!(matches!(reserved, Err(Error::NumberReserved { .. })));
    let none = bridges.add_port("br0", port("wrong-b", "af_packet:no-such-if"));
    assert!(matches!(none, Err(Error::Port { error: port::Error::NoInterface { .. }, .. })));
    let own = bridges.add_port("br0", port("p", "patch:p"));
    assert!(matches!(own, Err(Error::Port { error: port::Error::Unsupported { .. }, .. })));
    assert!(matches!(bridges.remove_port("br1", "wrong-a"), Err(Error::NoPort { .. })));
    assert!(matches!(bridges.renumber("br0", "none", Some(3)), Err(Error::NoPort { .. })));
    let renamed = bridges.reconfigure("br0", named("br9"));
    assert!(matches!(renamed, Err(Error::Renamed { .. })));
    assert_eq!(bridges.bridge("br0").unwrap().ports().len(), 1);
    assert_eq!(bridges.list().len(), 2);
    bridges.stop();
}

#[test]
fn a_bridge_is_reconfigured_and_keeps_its_entries() {
    let dir = tempfile::tempdir().unwrap();
    let bridges = bridges(1, EngineKind::Interp);
    bridges.add(BridgeConfig::named("br0")).unwrap();
    flow(&bridges, "br0", "actions=NORMAL");
    let before = bridges.list()[0].datapath_id.unwrap();
    assert_eq!(before >> 48, 0);
    let mut config = bridges.bridge("br0").unwrap().config();
    config.datapath_id = Some(0x1234);
    let path = dir.path().join("br0.mgmt");
    config.channel.listeners = vec![of_channel::Listen::Unix(path.clone())];
    config.channel.controllers = vec!["tcp:127.0.0.1:1".parse().unwrap()];
    bridges.reconfigure("br0", config.clone()).unwrap();
    let status = &bridges.list()[0];
    assert_eq!((status.datapath_id, status.flows), (Some(0x1234), 1));
    assert_eq!(status.listening, config.channel.listeners);
    let controller = &status.controllers[0];
    assert_eq!((controller.target.as_str(), controller.configured), ("tcp:127.0.0.1:1", true));
    assert_eq!((controller.connected, controller.role), (false, None));
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    // Where it cannot listen, all stays as it is.
    let mut wrong = config.clone();
    wrong.channel.listeners = vec![of_channel::Listen::Unix(dir.path().join("no/folder"))];
    assert!(matches!(bridges.reconfigure("br0", wrong), Err(Error::Channel { .. })));
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    bridges.remove("br0").unwrap();
    assert!(bridges.list().is_empty() && !path.exists());
    bridges.stop();
}

/// A hundred bridges with forty ports each, on one worker.
#[test]
#[ignore = "takes a while; run with --ignored"]
fn a_hundred_bridges_and_four_thousand_ports() {
    let bridges = bridges(1, EngineKind::default());
    crate::room::raise_descriptors();
    let begun = Instant::now();
    for bridge in 0..100 {
        bridges.add(BridgeConfig::named(&format!("br{bridge}"))).unwrap();
        flow(&bridges, &format!("br{bridge}"), "actions=NORMAL");
    }
    let made = begun.elapsed();
    let mut far = Vec::new();
    let mut slowest = Duration::ZERO;
    for bridge in 0..100 {
        for port in 0..40 {
            let one = Instant::now();
            far.push(memory(&bridges, &format!("br{bridge}"), &format!("many-{bridge}-{port}")));
            slowest = slowest.max(one.elapsed());
        }
    }
    let all = begun.elapsed();
    println!("100 bridges in {made:?}, 4000 ports in {:?}, slowest {slowest:?}", all - made);
    for bridge in 0..100usize {
        assert!(far[bridge * 40].inject_bytes(&frame(9, 1, bridge as u16)));
    }
    for (at, far) in far.iter().enumerate().filter(|(at, _)| at % 40 != 0) {
        let got = far.take_within(LONG).expect("it is flooded to the bridge's other ports");
        assert_eq!(usize::from(number(got.data())), at / 40);
        assert!(far.take().is_none());
    }
    bridges.stop();
}

/// Bridges, numbers and ports pass from one configuration to the next by what differs, and the switches have them then.
#[test]
fn a_configuration_is_applied_by_what_differs() {
    let bridges = bridges(1, EngineKind::Interp);
    let bridge = |name: &str, tags: u8, ports: &[&str]| BridgeSetup {
        bridge: BridgeConfig {
            learning: Learning { vlan_limit: Some(tags), ..Learning::default() },
            ..BridgeConfig::named(name)
        },
        ports: ports
            .iter()
            .map(|text| PortConfig::of_spec(&crate::port_kinds::parse(text).unwrap()))
            .collect(),
        entries: crate::program::entries::Entries::default(),
    };
    for wanted in [
        vec![bridge("br0", 2, &["a:1=patch:b", "b:2=patch:a", "c=patch:x"])],
        // Numbers change places, one goes, one comes.
        vec![bridge("br0", 2, &["a:2=patch:b", "b:1=patch:a", "d:3=patch:y"])],
        // A port passes to another bridge, a number from one that takes any.
        vec![bridge("br0", 1, &["a=patch:b", "e:2=patch:z"]), bridge("br1", 2, &["b:7=patch:a"])],
        vec![bridge("br1", 2, &["a:7=patch:b", "b=patch:a"])],
        vec![],
    ] {
        let setup = |bridges| Setup { bridges, ..Setup::default() };
        let wanted = setup(wanted);
        wanted.check().unwrap();
        for change in diff(&setup(bridges.setup()), &wanted) {
            bridges.apply(change).unwrap();
        }
        assert_eq!(diff(&setup(bridges.setup()), &wanted), []);
        for BridgeSetup { bridge, ports, .. } in &wanted.bridges {
            let has = bridges.bridge(&bridge.name).unwrap().ports();
            assert_eq!(has.len(), ports.len());
            for port in ports {
                let found = has.iter().find(|has| has.config.name == port.name).unwrap();
                assert!(port.number.is_none_or(|number| number == found.view.number));
            }
        }
    }
    let restart = bridges.apply(Change::Restart("--workers")).unwrap_err();
    assert!(restart.to_string().starts_with("--workers changes with a restart"));
    bridges.stop();
}
