//! Two tunnel ports of one bridge that are each other's ends: what one sends comes to the other by sockets of the test's.

use super::ask;
use crate::bridges::bed::{flow, frame, memory, port, until};
use crate::bridges::{BridgeConfig, Bridges, Defaults};
use port::kind::Environment;
use port::patch::Panel;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use switch::{EngineKind, Workers};
use tunnel::hub::Hub;
use tunnel::underlay::{Next, Sockets, Underlay};

/// A host without devices: what it sends to itself comes in, unless the way is cut.
struct Loop {
    packets: Mutex<VecDeque<Vec<u8>>>,
    cut: AtomicBool,
    ready: OwnedFd,
}

const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

impl Underlay for Net {
    fn version(&self) -> u64 {
        1
    }

    fn resolve(&self, to: IpAddr, _: Option<IpAddr>, _: u32) -> Option<Next> {
        let local_mac = [2; 6];
        let neighbour = Some([2; 6]);
        Some(Next { device: 9, source: HOST, local_mac, gateway: to, neighbour, mtu: 1500 })
    }

    fn ask(&self, _: u32, _: IpAddr) {}

    fn is_local(&self, address: IpAddr) -> bool {
        address == HOST
    }

    fn index_of(&self, _: &str) -> Option<u32> {
        None
    }

    fn sockets(&self) -> Option<Arc<dyn Sockets>> {
        Some(self.0.clone())
    }
}

struct Net(Arc<Loop>);

impl Sockets for Loop {
    fn send(&self, packet: &[u8], _: u32) -> io::Result<()> {
        if !self.cut.load(Ordering::Relaxed) {
            self.packets.lock().unwrap().push_back(packet.to_vec());
            rustix::io::write(&self.ready, &1u64.to_ne_bytes())?;
        }
        Ok(())
    }

    fn listen(&self, _: &[u16], _: bool) -> io::Result<()> {
        Ok(())
    }

    fn receive(&self, each: &mut dyn FnMut(&[u8], port::Offload)) -> usize {
        let _ = rustix::io::read(&self.ready, &mut [0; 8]);
        let packets = std::mem::take(&mut *self.packets.lock().unwrap());
        packets.iter().for_each(|packet| each(packet, port::Offload::NONE));
        packets.len()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

struct Bed {
    bridges: Bridges,
    way: Arc<Loop>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.bridges.stop();
    }
}

fn config(words: &str) -> bfd::Config {
    let text = format!("enable=true min_tx=200 min_rx=200 mult=5 {words}");
    let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
    let column: BTreeMap<String, String> =
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    bfd::Config::read(&column).unwrap().unwrap()
}

/// Bridge br0 with ports a and b, which are each other's ends.
fn bed() -> Bed {
    let ready = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
    let way = Arc::new(Loop { packets: Mutex::default(), cut: AtomicBool::new(false), ready });
    let panel = Panel::new(1);
    let hub = Hub::new(panel.hops(), Arc::new(Net(way.clone())));
    let environment = Environment::default().with(panel).with(hub);
    let workers = Workers::start(1, &[]).unwrap();
    let defaults = Defaults {
        engine: EngineKind::default(),
        punt_rate: 10_000,
        validate: None,
        tracking: crate::program::tables::Tracking::of(1024),
        flows_max: Some(1 << 16),
        persist: None,
        environment: Environment::default(),
        watchdog: None,
    };
    let bridges = Bridges::with_environment(workers, environment, defaults);
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let bed = Bed { bridges, way };
    bed.add("a", "out_key=1,in_key=2");
    bed.add("b", "out_key=2,in_key=1");
    bed
}

impl Bed {
    fn add(&self, name: &str, keys: &str) {
        let spec = port(name, &format!("geneve:remote_ip=10.0.0.1,{keys}"));
        self.bridges.add_port("br0", spec).unwrap();
    }

    fn set(&self, name: &str, words: &str) {
        self.bridges.set_bfd("br0", name, Some(config(words))).unwrap();
    }

    /// A key of what is told of a port's session.
    fn told(&self, name: &str, key: &str) -> Option<String> {
        self.bridges.bridge("br0").unwrap().bfd_status(name)?.remove(key)
    }

    fn becomes(&self, name: &str, key: &str, wanted: &str) {
        until(
            &format!("{name}: {key} becomes {wanted}: {:?}", ask(&self.bridges, &["show"])),
            || self.told(name, key).as_deref() == Some(wanted),
        );
    }

    fn live(&self, name: &str, wanted: bool) {
        let bridge = self.bridges.bridge("br0").unwrap();
        until(&format!("{name} becomes live: {wanted}"), || {
            bridge.port(name).unwrap().view.is_live() == wanted
        });
        assert!(bridge.port(name).unwrap().view.is_up(), "its link has nothing to do with it");
    }

    fn tally(&self, name: &str) -> u64 {
        let bridge = self.bridges.bridge("br0").unwrap();
        let tallies = bridge.switch().tallies();
        tallies.iter().filter(|(of, _)| *of == name).map(|(_, n)| n).sum()
    }
}

#[test]
fn two_ends_find_each_other_lose_each_other_and_come_back() {
    let bed = bed();
    bed.live("a", true);
    bed.set("a", "oam=true");
    bed.live("a", false);
    assert_eq!(bed.told("a", "state").as_deref(), Some("down"));
    assert_eq!(bed.told("b", "state"), None);
    bed.set("b", "");
    for port in ["a", "b"] {
        bed.becomes(port, "state", "up");
        bed.becomes(port, "remote_state", "up");
        bed.live(port, true);
    }
    // No packet of BFD reaches the tables, which would send it to where nobody asked for it.
    let taken = bed.bridges.bridge("br0").unwrap().port("a").unwrap().counters.rx_packets;
    assert_eq!((taken, bed.tally("bfd_frames_unsent"), bed.tally("bfd_frames_refused")), (0, 0, 0));
    bed.way.cut.store(true, Ordering::Relaxed);
    for port in ["a", "b"] {
        bed.becomes(port, "state", "down");
        bed.becomes(port, "diagnostic", "Control Detection Time Expired");
        bed.live(port, false);
    }
    bed.way.cut.store(false, Ordering::Relaxed);
    ["a", "b"].iter().for_each(|port| bed.becomes(port, "state", "up"));
    // What is asked of a session that is up changes without a flap.
    bed.set("b", "min_tx=300 mult=6");
    until("a is told of 6", || {
        ask(&bed.bridges, &["show", "a"]).unwrap().contains("Remote Detect Multiplier: 6")
    });
    assert_eq!(bed.told("a", "flap_count").as_deref(), Some("3"));
    // Without a session it is live by its link, and the other side sees that nobody answers.
    bed.bridges.set_bfd("br0", "b", None).unwrap();
    bed.live("b", true);
    assert_eq!(bed.told("b", "state"), None);
    bed.becomes("a", "state", "down");
    // Both a port that goes with its session and one that comes again have none.
    bed.bridges.remove_port("br0", "a").unwrap();
    bed.add("a", "out_key=1,in_key=2");
    assert_eq!(bed.told("a", "state"), None);
    bed.live("a", true);
}

#[test]
fn frames_of_others_go_on_to_the_tables() {
    let bed = bed();
    let far = memory(&bed.bridges, "br0", "bfd-others");
    flow(&bed.bridges, "br0", "in_port=3 actions=output:1");
    flow(&bed.bridges, "br0", "in_port=2 actions=output:3");
    // b takes what is for its own address alone.
    bed.set("b", "bfd_src_ip=10.9.9.1 bfd_dst_ip=10.9.9.2");
    let around = |dst_ip: [u8; 4]| bfd::packet::Around {
        dst_mac: [2; 6],
        src_mac: [4; 6],
        src_ip: [10, 9, 9, 2].into(),
        dst_ip: dst_ip.into(),
        src_port: 50_000,
        ttl: 255,
    };
    let packet = bfd::Packet { mult: 255, mine: 7, ..bfd::Packet::default() };
    let guests = packet.frame(&around([10, 1, 1, 1]));
    let plain = frame(1, 2, 3);
    for bytes in [&guests, &plain] {
        assert!(far.inject_bytes(bytes));
        let got = far.take_within(Duration::from_secs(30)).expect("it comes through");
        assert_eq!(&got.data()[..bytes.len()], &bytes[..]);
    }
    // This one is for b, and cannot be used.
    let wrong = bfd::Packet { mult: 0, ..packet };
    assert!(far.inject_bytes(&wrong.frame(&around([10, 9, 9, 1]))));
    until("a wrong packet is counted", || bed.tally("bfd_frames_refused") == 1);
    assert!(far.inject_bytes(&packet.frame(&around([10, 9, 9, 1]))));
    bed.becomes("b", "state", "init");
    assert!(far.take().is_none(), "neither came to the tables");
}

#[test]
fn what_is_asked_is_answered_in_open_vswitchs_words() {
    let bed = bed();
    memory(&bed.bridges, "br0", "bfd-words");
    let refused = bed.bridges.set_bfd("br0", "bfd-words", Some(config(""))).unwrap_err();
    assert_eq!(refused.to_string(), "port bfd-words: BFD: only tunnel ports have it");
    let ask = |words: &[&str]| ask(&bed.bridges, words);
    assert_eq!(ask(&["show"]).as_deref(), Ok(""));
    assert_eq!(ask(&["show", "a"]), Err("no such bfd object".to_owned()));
    assert_eq!(ask(&["set-forwarding", "true"]).as_deref(), Ok("OK"));
    assert_eq!(ask(&["set-forwarding", "a", "true"]), Err("no such BFD object".to_owned()));
    bed.set("a", "");
    let all = ask(&["show"]).unwrap();
    assert!(all.starts_with("---- a ----\n  Forwarding: false\n"), "{all}");
    assert!(ask(&["show", "a"]).unwrap().starts_with("  Forwarding: false\n"));
    assert_eq!(ask(&["set-forwarding", "a", "x"]), Err("unknown fault string".to_owned()));
    for (word, forwards) in [("true", true), ("FALSE", false), ("true", true), ("normal", false)] {
        assert_eq!(ask(&["set-forwarding", "a", word]).as_deref(), Ok("OK"));
        let wanted = if forwards { "true" } else { "false" };
        assert_eq!(bed.told("a", "forwarding").as_deref(), Some(wanted));
        bed.live("a", forwards);
    }
}

#[test]
fn a_session_goes_by_what_its_port_receives() {
    let bed = bed();
    let far = memory(&bed.bridges, "br0", "bfd-traffic");
    flow(&bed.bridges, "br0", "in_port=3 actions=output:1");
    bed.set("a", "");
    bed.set("b", "forwarding_if_rx=true decay_min_rx=500");
    bed.becomes("b", "state", "up");
    // Nothing but packets of BFD comes: b takes fewer of them, and says so.
    let says = |what: &str| {
        until(what, || crate::bfd::ask(&bed.bridges, &["show", "a"]).unwrap().contains(what));
    };
    says("Remote Minimum RX Interval: 500ms");
    until("other frames bring it back", || {
        assert!(far.inject_bytes(&frame(1, 2, 3)));
        crate::bfd::ask(&bed.bridges, &["show", "a"])
            .unwrap()
            .contains("Remote Minimum RX Interval: 200ms")
    });
}
