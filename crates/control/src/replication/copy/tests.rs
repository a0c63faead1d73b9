//! Two processes' bridges, and what one tells the other; gates; trackers that come and go.

use super::*;
use crate::bridges::BridgeConfig;
use crate::bridges::bed::{bridges, engines, flow, memory, until};
use crate::program::services::add;
use port::memory::Handle;
use std::time::Duration;
use switch::EngineKind;

const CLIENT: [u8; 4] = [10, 0, 1, 2];
const SERVER: [u8; 4] = [10, 0, 2, 2];
/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(1000);

/// A process of its own, with a gateway whose flow entries track all and let out what begins inside.
struct Gateway {
    bridges: Bridges,
    lan: Handle,
    wan: Handle,
}

fn gateway(name: &str, workers: usize, engine: EngineKind) -> Gateway {
    let bridges = bridges(workers, engine);
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let [lan, wan] = ["lan", "wan"].map(|port| memory(&bridges, "br0", &format!("{name}-{port}")));
    for text in [
        "priority=10,ip,actions=ct(table=1,nat)",
        "table=1,priority=20,ct_state=+trk+inv,actions=drop",
        "table=1,priority=10,in_port=1,ip,ct_state=+trk+new,actions=ct(commit,nat(src=10.0.2.100)),output:2",
        "table=1,priority=10,in_port=1,ip,ct_state=+trk+est,actions=output:2",
        "table=1,priority=10,in_port=2,ip,ct_state=+trk+est,actions=output:1",
    ] {
        flow(&bridges, "br0", text);
    }
    Gateway { bridges, lan, wan }
}

fn datagram(from: [u8; 4], sport: u16, to: [u8; 4], dport: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    let mut ip = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(from);
    ip.extend(to);
    let sum = !wire::checksum::sum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    for word in [sport, dport, 12, 0, 7, 7] {
        frame.extend(word.to_be_bytes());
    }
    frame
}

/// Source address and port of a frame.
fn source(frame: &[u8]) -> ([u8; 4], u16) {
    let port = u16::from_be_bytes([frame[34], frame[35]]);
    (frame[26..30].try_into().unwrap(), port)
}

/// Sends a frame into a port and waits for what comes out of the other.
fn through(into: &Handle, out: &Handle, frame: &[u8]) -> Vec<u8> {
    while out.take().is_some() {}
    assert!(into.inject_bytes(frame));
    out.take_within(Duration::from_secs(10)).expect("a frame comes out").data().to_vec()
}

#[test]
fn what_one_translates_the_other_goes_on_with() {
    for (n, engine) in engines().into_iter().enumerate() {
        let a = gateway(&format!("copy{n}a"), 1, engine.clone());
        let b = gateway(&format!("copy{n}b"), 2, engine);
        let (mut here, mut there) =
            (Copy::standby(&a.bridges, None), Copy::standby(&b.bridges, None));
        assert_eq!(here.digest(), there.digest());
        // A standby passes nothing, and says so.
        a.lan.inject_bytes(&datagram(CLIENT, 1000, SERVER, 53));
        let dropped = || {
            let counters = a.bridges.first().unwrap().switch().port_counters();
            let drops = counters.iter().flat_map(|(_, counters, _)| &counters.drops);
            drops.filter(|(reason, _)| *reason == "standby").map(|(_, n)| n).sum::<u64>()
        };
        until("it is dropped", || dropped() == 1);
        here.go_on(Stripes(0x5555_5555_5555_5555), LONG);
        let mut outside = Vec::new();
        for n in 0..20 {
            let sent = through(&a.lan, &a.wan, &datagram(CLIENT, 1000 + n, SERVER, 53));
            let (address, port) = source(&sent);
            assert_eq!((address, port % 2), ([10, 0, 2, 100], 0), "of its own stripes");
            if n == 0 {
                assert_eq!(here.changes().0.len(), 0, "nobody has answered");
            }
            let back = through(&a.wan, &a.lan, &datagram(SERVER, 53, address, port));
            assert_eq!(source(&back), (SERVER, 53));
            outside.push(port);
        }
        let (messages, full) = here.changes();
        assert!(!full);
        for parts in &messages {
            assert!(there.apply(parts));
        }
        assert_eq!((here.told, there.applied), (20, 20));
        // The same again, all at once, as one that joins gets it; and what is for others.
        let mut telling = here.telling(1);
        there.begin_sync();
        while let Some(parts) = here.tell(&mut telling) {
            there.apply(&parts);
        }
        there.sweep();
        assert!(there.apply(&[Part { tracker: "br9/ct".to_owned(), records: vec![1] }]));
        assert_eq!(there.unknown, 1);
        assert!(!there.apply(&[Part { tracker: "br0/ct".to_owned(), records: vec![9] }]));
        assert_eq!(there.refused, 1);
        // The first one stops, and the other goes on: translations are as they were, new ones of other stripes.
        here.stand_still();
        there.go_on(Stripes(!0x5555_5555_5555_5555), LONG);
        for (n, port) in (0..).zip(&outside) {
            let back = through(&b.wan, &b.lan, &datagram(SERVER, 53, [10, 0, 2, 100], *port));
            assert_eq!(&back[30..34], CLIENT);
            let sent = through(&b.lan, &b.wan, &datagram(CLIENT, 1000 + n, SERVER, 53));
            assert_eq!(source(&sent), ([10, 0, 2, 100], *port));
        }
        let sent = through(&b.lan, &b.wan, &datagram(CLIENT, 5000, SERVER, 53));
        assert_eq!(source(&sent).1 % 2, 1, "of its own stripes");
        a.bridges.stop();
        b.bridges.stop();
    }
}

/// A member that stood still: what it knows passes, what it does not know is dropped until it may open connections again.
#[test]
fn nothing_is_opened_behind_the_lease() {
    for (n, engine) in engines().into_iter().enumerate() {
        let a = gateway(&format!("lease{n}"), 1, engine);
        let mut here = Copy::standby(&a.bridges, None);
        here.go_on(Stripes::ALL, LONG);
        let open = |own: u16| {
            let sent = through(&a.lan, &a.wan, &datagram(CLIENT, own, SERVER, 53));
            let (address, port) = source(&sent);
            through(&a.wan, &a.lan, &datagram(SERVER, 53, address, port));
            port
        };
        let port = open(1000);
        here.open_for(Duration::ZERO);
        assert!(a.lan.inject_bytes(&datagram(CLIENT, 2000, SERVER, 53)));
        until("it is dropped", || here.fenced() == 1);
        assert!(a.wan.inject_bytes(&datagram(SERVER, 53, [10, 0, 2, 100], port ^ 1)));
        until("nor is anything known of an answer", || here.fenced() == 2);
        // Nothing of it has come out, and what is known goes on as it was.
        let sent = through(&a.lan, &a.wan, &datagram(CLIENT, 1000, SERVER, 53));
        assert_eq!(source(&sent), ([10, 0, 2, 100], port));
        here.open_for(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(40));
        assert!(a.lan.inject_bytes(&datagram(CLIENT, 2000, SERVER, 53)));
        until("the lease ends by itself", || here.fenced() == 3);
        here.open_for(LONG);
        open(2000);
        assert_eq!((here.fenced(), here.changes().0.len()), (3, 1));
        // A standby may not say that it opens anything.
        here.stand_still();
        here.open_for(LONG);
        here.gate(false);
        assert!(a.lan.inject_bytes(&datagram(CLIENT, 3000, SERVER, 53)));
        until("a standby opens nothing", || here.fenced() == 4);
        a.bridges.stop();
    }
}

/// A process with two shares, each of a translator of its own.
fn shared(name: &str, engine: EngineKind) -> Gateway {
    let bridges = bridges(1, engine);
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let [lan, wan] = ["lan", "wan"].map(|port| memory(&bridges, "br0", &format!("{name}-{port}")));
    for n in 1..=2 {
        for direction in ["out", "in"] {
            let words = format!(
                "{direction}{n} nat direction={direction} addresses=10.0.2.10{n} group=home{n}"
            );
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            add(bridges.first().unwrap().switch(), &words).unwrap();
        }
        for text in [
            format!("priority=10,ip,in_port=1,nw_src=10.0.1.{n},actions=softflow(out{n})"),
            format!("priority=10,ip,in_port=2,nw_dst=10.0.2.10{n},actions=softflow(in{n})"),
            format!("priority=20,sf_stage=1,sf_action=out{n},sf_metadata=1,actions=output:2"),
            format!("priority=20,sf_stage=1,sf_action=in{n},sf_metadata=1,actions=output:1"),
        ] {
            flow(&bridges, "br0", &text);
        }
    }
    Gateway { bridges, lan, wan }
}

#[test]
fn shares_go_on_one_by_one() {
    for (n, engine) in engines().into_iter().enumerate() {
        let [a, b] = ["a", "b"].map(|name| shared(&format!("share{n}{name}"), engine.clone()));
        let scope = |name: &str| Some(vec![name.to_owned()]);
        let [mut a1, a2] = ["home1", "home2"].map(|name| Copy::standby(&a.bridges, scope(name)));
        let [mut b1, mut b2] =
            ["home1", "home2"].map(|name| Copy::standby(&b.bridges, scope(name)));
        assert_eq!(a1.digest(), b1.digest());
        assert_ne!(a1.digest(), a2.digest());
        assert_eq!(Copy::standby(&a.bridges, scope("home9")).missing(), ["home9"]);
        // Share one here, share two there.
        let (even, odd) = (Stripes(0x5555_5555_5555_5555), Stripes(!0x5555_5555_5555_5555));
        a1.go_on(even, LONG);
        b2.go_on(odd, LONG);
        let one = datagram([10, 0, 1, 1], 1000, SERVER, 53);
        let two = datagram([10, 0, 1, 2], 1000, SERVER, 53);
        let (address, port) = source(&through(&a.lan, &a.wan, &one));
        assert_eq!((address, port % 2), ([10, 0, 2, 101], 0));
        // Share two is nothing to a, nor share one to b; what comes first in a burst says nothing of what comes behind it.
        let stood_by = |gateway: &Gateway, name: &str| {
            let bridge = gateway.bridges.first().unwrap();
            let list = bridge.switch().services().elements().unwrap().list();
            let named = list.iter().find(|named| named.name == name).unwrap();
            named.counters().iter().find(|(name, _)| name == "standby").map_or(0, |(_, n)| *n)
        };
        a.lan.inject_bytes(&two);
        b.lan.inject_bytes(&one);
        until("both are dropped", || stood_by(&a, "out2") == 1 && stood_by(&b, "out1") == 1);
        through(&b.lan, &b.wan, &two);
        // What comes back is told, and share one moves.
        through(&a.wan, &a.lan, &datagram(SERVER, 53, address, port));
        for parts in a1.changes().0 {
            assert!(b1.apply(&parts));
        }
        assert_eq!((a1.told, b1.applied, b2.applied), (1, 1, 0));
        a1.stop_packets();
        a.lan.inject_bytes(&one);
        until("it stands by", || stood_by(&a, "out1") == 1);
        a1.stand_still();
        b1.go_on(odd, LONG);
        let back = through(&b.wan, &b.lan, &datagram(SERVER, 53, address, port));
        assert_eq!(&back[30..34], [10, 0, 1, 1]);
        assert_eq!(source(&through(&b.lan, &b.wan, &one)), (address, port));
        for gateway in [a, b] {
            gateway.bridges.stop();
        }
    }
}

/// A process with a balancer of three backends, behind ports 2 to 4.
fn balanced(name: &str) -> (Bridges, Handle, [Handle; 3]) {
    let bridges = bridges(1, EngineKind::Interp);
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let [lan, x, y, z] =
        ["lan", "x", "y", "z"].map(|port| memory(&bridges, "br0", &format!("{name}-{port}")));
    let words = ["lb", "balancer", "backends=x,y,z"].map(str::to_owned);
    add(bridges.first().unwrap().switch(), &words).unwrap();
    flow(&bridges, "br0", "priority=10,ip,in_port=1,actions=softflow(lb)");
    for n in 1..=3 {
        let to = n + 1;
        let text =
            format!("priority=20,sf_stage=1,sf_action=lb,sf_metadata={n},actions=output:{to}");
        flow(&bridges, "br0", &text);
    }
    (bridges, lan, [x, y, z])
}

/// Which of them a flow comes out of.
fn went(lan: &Handle, out: &[Handle; 3], port: u16) -> usize {
    lan.inject_bytes(&datagram(CLIENT, port, SERVER, 53));
    let mut at = None;
    until("it comes out", || {
        at = out.iter().position(|handle| handle.take().is_some());
        at.is_some()
    });
    at.unwrap()
}

#[test]
fn flows_of_a_balancer_stay_where_they_are() {
    let (a, a_lan, a_out) = balanced("balanced-a");
    let (b, b_lan, b_out) = balanced("balanced-b");
    let (mut here, mut there) = (Copy::standby(&a, None), Copy::standby(&b, None));
    here.go_on(Stripes::ALL, LONG);
    let mut hand = |here: &mut Copy| {
        // Flows come a slice at a time.
        for _ in 0..64 {
            for parts in here.changes().0 {
                assert!(there.apply(&parts));
            }
        }
        (there.applied, there.unknown, there.digest())
    };
    let before: Vec<usize> = (0..90).map(|n| went(&a_lan, &a_out, n)).collect();
    assert_eq!(hand(&mut here), (0, 0, here.digest()), "the table says it all");
    let of_y = before.iter().filter(|at| **at == 1).count() as u64;
    assert!(of_y > 9);
    // One drains: its flows stay, and are told. What is drained is no other configuration.
    let digest = here.digest();
    let bridge = a.first().unwrap();
    let named = bridge.switch().services().elements().unwrap().owners().remove(0);
    named.spread().unwrap().backends().drain("y", None).unwrap();
    assert_eq!(here.digest(), digest);
    assert_eq!(hand(&mut here), (of_y, 0, digest));
    let later: Vec<usize> = (100..130).map(|n| went(&a_lan, &a_out, n)).collect();
    assert!(later.iter().all(|at| *at != 1));
    // One that joins later has the same.
    let (c, c_lan, c_out) = balanced("balanced-c");
    let mut joins = Copy::standby(&c, None);
    let mut telling = here.telling(1);
    joins.begin_sync();
    while let Some(parts) = here.tell(&mut telling) {
        assert!(joins.apply(&parts));
    }
    joins.sweep();
    assert_eq!(joins.applied, of_y);
    here.stand_still();
    for (copy, lan, out) in [(&mut there, &b_lan, &b_out), (&mut joins, &c_lan, &c_out)] {
        copy.go_on(Stripes::ALL, LONG);
        assert_eq!((0..90).map(|n| went(lan, out, n)).collect::<Vec<_>>(), before);
        assert_eq!((100..130).map(|n| went(lan, out, n)).collect::<Vec<_>>(), later);
    }
    let broken = Part { tracker: "flows:br0/service:lb".to_owned(), records: vec![9] };
    assert!(!there.apply(&[broken]));
    [a, b, c].iter().for_each(Bridges::stop);
}

#[test]
fn trackers_of_services_that_come_are_followed() {
    let a = gateway("copy-services", 1, EngineKind::Interp);
    let mut copy = Copy::standby(&a.bridges, None);
    let before = copy.digest();
    let words = ["home", "nat", "addresses=192.0.2.1", "direction=out"].map(str::to_owned);
    add(a.bridges.first().unwrap().switch(), &words).unwrap();
    assert_ne!(copy.digest(), before, "another configuration");
    copy.look();
    let names: Vec<_> = copy.all.keys().map(String::as_str).collect();
    assert_eq!(names, ["br0/ct", "br0/service:home"]);
    let followed = |copy: &Copy| {
        copy.all.values().all(|one| one.tracked.with(|t| t.is_followed()) == Some(true))
    };
    assert!(!followed(&copy));
    copy.go_on(Stripes::ALL, LONG);
    assert!(followed(&copy));
    a.bridges.stop();
}
