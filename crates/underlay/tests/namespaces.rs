//! What is known of the network of a namespace, beside what its kernel says.

mod lab;

use std::net::IpAddr;

use lab::{Lab, must, sh, until};
use underlay::{Settings, Underlay, Unreachable};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// What `ip route get` says: device, gateway, source. `None` if it refuses.
fn kernel(lab: &Lab, to: &str, from: Option<&str>, mark: u32) -> Option<(String, IpAddr, IpAddr)> {
    let family = if to.contains(':') { "-6" } else { "-4" };
    let from_words = from.map_or(String::new(), |from| format!("from {from}"));
    let mark = if mark == 0 { String::new() } else { format!("mark {mark}") };
    let ns = lab.ns("a");
    let output = sh(&format!("ip -n {ns} {family} route get {to} {from_words} {mark}"));
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let behind = |word| words.iter().position(|it| *it == word).map(|at| words[at + 1]);
    let device = behind("dev").expect("a device").to_owned();
    let gateway = behind("via")
        .map_or(to, |via| if via == "inet6" { behind("inet6").expect("an address") } else { via });
    let source = from.or(behind("src")).expect("a source");
    Some((device, ip(gateway), ip(source)))
}

/// Asks both; how many answers there were, and that they are the same.
fn agree(lab: &Lab, underlay: &Underlay, what: &str) -> usize {
    let mut count = 0;
    let to = [
        "10.1.0.2",
        "10.1.0.1",
        "127.0.0.1",
        "127.9.9.9",
        "10.7.1.1",
        "10.7.2.1",
        "10.9.0.1",
        "10.10.0.5",
        "10.66.0.1",
        "10.67.0.1",
        "10.68.0.1",
        "10.69.0.1",
        "172.16.0.1",
        "172.16.5.5",
        "192.168.9.9",
        "8.8.8.8",
        "10.1.0.255",
        "255.255.255.255",
        "224.0.0.5",
        "203.0.113.1",
        "fd01::1",
        "fd01::2",
        "fd07::9",
        "fd08::1",
        "fd09::1",
        "fd0a::1",
        "2001:db8::1",
        "::1",
        "fe80::5",
    ];
    for to in to {
        for (from, mark) in [
            (None, 0),
            (None, 5),
            (None, 0x1005),
            (None, 7),
            (None, 0x8000),
            (Some("10.1.0.1"), 0),
            (Some("10.2.0.1"), 0),
            (Some("fd01::1"), 0),
            (Some("fd02::1"), 0),
        ] {
            if from.is_some_and(|from: &str| from.contains(':') != to.contains(':')) {
                continue;
            }
            let wanted = kernel(lab, to, from, mark);
            let found = underlay.resolve(ip(to), from.map(ip), mark);
            let found = found.map(|next| {
                let name = underlay.look(|state| state.name_of(next.device).map(str::to_owned));
                (name.expect("a device"), next.gateway, next.source)
            });
            assert_eq!(
                found.clone().ok(),
                wanted,
                "{what}: {to} from {from:?} mark {mark}: {found:?}"
            );
            count += 1;
        }
    }
    count
}

fn many_routes(lab: &Lab) {
    for line in [
        "link add v2 type veth peer name v3",
        "link set v2 up",
        "link set v3 up",
        "addr add 10.2.0.1/24 dev v2",
        "addr add 10.2.0.7/24 dev v2",
        "addr add 10.3.0.1/24 dev v2",
        "addr add fd02::1/64 dev v2 nodad",
        "route add default via 10.1.0.2",
        "route add 10.7.0.0/16 via 10.1.0.2",
        "route add 10.7.2.0/24 via 10.3.0.9",
        "route add 10.9.0.0/16 dev v2 metric 100",
        "route add 10.9.0.0/16 dev v0 metric 200",
        "route add blackhole 10.66.0.0/16",
        "route add unreachable 10.67.0.0/16",
        "route add prohibit 10.68.0.0/16",
        "route add throw 10.69.0.0/16",
        "route add 172.16.0.0/12 dev v2 src 10.3.0.1",
        "route add 192.168.0.0/16 via inet6 fd01::2 dev v0",
        "route add 203.0.113.0/24 dev v0 mtu 1300",
        "route add 8.0.0.0/8 via 10.2.0.9 table 77",
        "route add throw 10.7.0.0/16 table 77",
        "route add 10.0.0.0/8 via 10.2.0.8 table 78",
        "rule add fwmark 5 table 77",
        "rule add fwmark 0x1000/0xf000 table 78 suppress_prefixlength 8",
        "rule add from 10.2.0.1 to 10.10.0.0/16 table 78",
        "rule add fwmark 7/7 prohibit pref 30000",
        "rule add pref 50 to 10.9.0.0/16 goto 32766",
        "rule add pref 60 iif lo to 10.66.0.0/16 table 77",
        "rule add pref 70 not fwmark 0/0x8000 table 77",
        "rule add pref 80 to 10.69.0.0/16 nop",
        "-6 route add fd07::/32 via fd01::2",
        "-6 route add fd08::/32 dev v2 metric 10",
        "-6 route add fd08::/32 dev v0 metric 20",
        "-6 route add unreachable fd09::/32",
        "-6 route add fd0a::/32 via fd02::9 src fd01::1",
        "-6 route add 2001:db8::/32 via fd02::9 table 77",
        "-6 rule add fwmark 5 table 77",
        "-6 rule add from fd02::1 table 77",
    ] {
        lab.ip("a", line);
    }
}

#[test]
fn every_route_is_the_kernels() {
    let Some(lab) = Lab::new() else { return };
    many_routes(&lab);
    let underlay = lab.within("a", Underlay::start).expect("an underlay");
    let asked = agree(&lab, &underlay, "read");
    assert!(asked > 150, "{asked} answers were compared");
    let limited = underlay.resolve(ip("203.0.113.1"), None, 0).expect("a route");
    assert_eq!((limited.mtu, limited.local_mac), (1300, [2, 0, 0, 0, 0, 0x0a]));
    assert_eq!(underlay.resolve(ip("10.7.0.1"), None, 0).map(|next| next.mtu), Ok(1500));
    let refused = underlay.resolve(ip("10.67.0.1"), None, 0);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "a route or rule refuses packets to 10.67.0.1 (unreachable)"
    );
    let family = underlay.resolve(ip("10.7.0.1"), Some(ip("fd01::1")), 0);
    assert!(matches!(family, Err(Unreachable::Family { .. })), "{family:?}");
    for (to, mac) in
        [("224.0.0.5", [1, 0, 0x5e, 0, 0, 5]), ("10.1.0.255", [0xff; 6]), ("127.0.0.1", [0; 6])]
    {
        assert_eq!(
            underlay.resolve(ip(to), None, 0).expect("a route").neighbour,
            Some(mac),
            "{to}"
        );
    }
    assert!(underlay.is_local(ip("127.3.2.1")) && underlay.is_local(ip("fd02::1")));
    assert!(!underlay.is_local(ip("10.1.0.2")));
    assert_eq!(underlay.device_of(ip("10.3.0.1")), underlay.index_of("v2"));
    assert_eq!((underlay.device_of(ip("9.9.9.9")), underlay.index_of("v9")), (None, None));
    let counts = underlay.counts();
    assert_eq!((counts.malformed, counts.failures, counts.overruns), (0, 0, 0), "{counts:?}");
}

#[test]
fn every_change_is_followed() {
    let Some(lab) = Lab::new() else { return };
    let underlay = lab.within("a", Underlay::start).expect("an underlay");
    let to = ip("10.7.2.1");
    let mut before = underlay.version();
    let mut step = |line: &str, wanted: Option<&str>| {
        lab.ip("a", line);
        let gateway = || underlay.resolve(to, None, 0).ok().map(|next| next.gateway);
        until(line, || gateway() == wanted.map(ip) && underlay.version() != before);
        before = underlay.version();
    };
    step("route add default via 10.1.0.2", Some("10.1.0.2"));
    step("route add 10.7.0.0/16 via 10.1.0.3", Some("10.1.0.3"));
    step("route replace 10.7.0.0/16 via 10.1.0.4", Some("10.1.0.4"));
    step("route append 10.7.0.0/16 via 10.1.0.5", Some("10.1.0.4"));
    step("route del 10.7.0.0/16 via 10.1.0.4", Some("10.1.0.5"));
    step("route add 10.7.2.0/24 nexthop via 10.1.0.8", Some("10.1.0.8"));
    step("route del 10.7.2.0/24", Some("10.1.0.5"));
    step("nexthop add id 9 via 10.1.0.6 dev v0", Some("10.1.0.5"));
    step("route add 10.7.2.0/24 nhid 9", Some("10.1.0.6"));
    step("nexthop replace id 9 via 10.1.0.7 dev v0", Some("10.1.0.7"));
    step("nexthop del id 9", Some("10.1.0.5"));
    step("rule add to 10.7.0.0/16 blackhole", None);
    step("rule del to 10.7.0.0/16 blackhole", Some("10.1.0.5"));
    // The kernel says nothing of the routes that go with these.
    step("addr del 10.1.0.1/24 dev v0", None);
    step("addr add 10.1.0.1/24 dev v0", None);
    step("route add 10.7.0.0/16 via 10.1.0.9", Some("10.1.0.9"));
    step("link set v0 down", None);
    step("link set v0 up", None);
    step("route add 10.0.0.0/8 via 10.1.0.3", Some("10.1.0.3"));
    step("link del v0", None);
    assert_eq!((underlay.index_of("v0"), underlay.is_local(ip("10.1.0.1"))), (None, false));
    let counts = underlay.counts();
    assert_eq!((counts.malformed, counts.failures), (0, 0), "{counts:?}");
}

#[test]
fn hops_share_by_their_weights_and_dead_ones_get_nothing() {
    let Some(lab) = Lab::new() else { return };
    for line in [
        "link add v2 type veth peer name v3",
        "link set v2 up",
        "link set v3 up",
        "addr add 10.2.0.1/24 dev v2",
        "route add 10.7.0.0/16 nexthop via 10.1.0.2 weight 3 nexthop via 10.2.0.2 weight 1",
        "-6 route add fd07::/32 nexthop via fd01::2 nexthop via fd01::3",
    ] {
        lab.ip("a", line);
    }
    let underlay = lab.within("a", Underlay::start).expect("an underlay");
    let share = |gateway: &str| {
        let by = |n: u32| {
            let to = IpAddr::V4((0x0a07_0000 + n).into());
            underlay.resolve(to, None, 0).expect("a route").gateway == ip(gateway)
        };
        (0..1000).filter(|n| by(*n)).count()
    };
    let first = share("10.1.0.2");
    assert!((650..850).contains(&first), "{first} of 1000 by the hop of weight 3 of 4");
    assert_eq!(first + share("10.2.0.2"), 1000);
    let v6 = |n: u128| {
        let to = IpAddr::V6((ip_bits("fd07::") + n).into());
        underlay.resolve(to, None, 0).expect("a route").gateway == ip("fd01::2")
    };
    let first = (0..1000).filter(|n| v6(*n)).count();
    assert!((400..600).contains(&first), "{first} of 1000 by one of two hops");
    lab.ip("a", "link set v2 down");
    until("all by the living hop", || share("10.1.0.2") == 1000);
}

fn ip_bits(text: &str) -> u128 {
    match ip(text) {
        IpAddr::V6(v6) => v6.to_bits(),
        IpAddr::V4(_) => 0,
    }
}

#[test]
fn neighbours_are_resolved_when_asked_for() {
    let Some(lab) = Lab::new() else { return };
    let underlay = lab.within("a", Underlay::start).expect("an underlay");
    let device = underlay.index_of("v0").expect("the cable");
    for to in ["10.1.0.2", "fd01::2"] {
        let mac = || underlay.resolve(ip(to), None, 0).expect("a route").neighbour;
        assert_eq!(mac(), None, "{to}");
        let before = underlay.version();
        underlay.ask(device, ip(to));
        until(to, || mac() == Some([2, 0, 0, 0, 0, 0x0b]));
        assert_ne!(underlay.version(), before);
        underlay.ask(device, ip(to));
    }
    // A permanent one is not harmed by a question.
    lab.ip("a", "neigh replace 10.1.0.77 lladdr 02:00:00:00:00:77 dev v0 nud permanent");
    let mac = || underlay.resolve(ip("10.1.0.77"), None, 0).expect("a route").neighbour;
    until("the permanent one is there", || mac().is_some());
    underlay.ask(device, ip("10.1.0.77"));
    underlay.ask(9999, ip("10.1.0.2"));
    until("a refusal is counted", || underlay.counts().asks_refused == 1);
    assert_eq!(mac(), Some([2, 0, 0, 0, 0, 0x77]));
    lab.ip("a", "neigh del 10.1.0.77 dev v0");
    until("it is gone", || mac().is_none());
    let counts = underlay.counts();
    assert_eq!(counts.asks + counts.asks_limited, 6, "{counts:?}");
    let lines: Vec<String> = underlay.neighbours().iter().map(ToString::to_string).collect();
    assert!(
        lines.contains(
            &"10.1.0.2                                      02:00:00:00:00:0b   v0".to_owned()
        ),
        "{lines:#?}"
    );
    assert!(
        lines.contains(
            &"fd01::2                                       02:00:00:00:00:0b   v0".to_owned()
        ),
        "{lines:#?}"
    );
}

/// The same network, and the lines of Open vSwitch 3.1 about it.
#[test]
fn routes_are_shown_as_by_open_vswitch() {
    let Some(lab) = Lab::new() else { return };
    for line in [
        "route add default via 10.1.0.2",
        "route add 10.7.0.0/16 via 10.1.0.2",
        "-6 route add fd09::/32 via fd01::2",
        "route add 10.8.0.0/16 via 10.1.0.2 table 77",
        "rule add fwmark 5 table 77",
        "route add blackhole 10.66.0.0/16",
    ] {
        lab.ip("a", line);
    }
    let underlay = lab.within("a", Underlay::start).expect("an underlay");
    let lines: Vec<String> = underlay.routes().iter().map(ToString::to_string).collect();
    let lines: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| !line.contains("fe80")).collect();
    assert_eq!(
        lines,
        [
            "Cached: 10.1.0.1/32 dev v0 SRC 10.1.0.1 local",
            "Cached: 127.0.0.1/32 dev lo SRC 127.0.0.1 local",
            "Cached: ::1/128 dev lo SRC ::1 local",
            "Cached: fd01::1/128 dev v0 SRC fd01::1 local",
            "Cached: 10.1.0.0/24 dev v0 SRC 10.1.0.1",
            "Cached: 10.7.0.0/16 dev v0 GW 10.1.0.2 SRC 10.1.0.1",
            "Cached: 10.8.0.0/16 MARK 5 dev v0 GW 10.1.0.2 SRC 10.1.0.1",
            "Cached: 127.0.0.0/8 dev lo SRC 127.0.0.1 local",
            "Cached: 0.0.0.0/0 dev v0 GW 10.1.0.2 SRC 10.1.0.1",
            "Cached: fd01::/64 dev v0 SRC fd01::1",
            "Cached: fd09::/32 dev v0 GW fd01::2 SRC fd01::1",
        ]
    );
    let addresses: Vec<String> = underlay.addresses().iter().map(ToString::to_string).collect();
    assert!(addresses.contains(&"10.1.0.1/24 dev v0".to_owned()), "{addresses:?}");
}

#[test]
fn lost_news_have_everything_read_anew() {
    let Some(lab) = Lab::new() else { return };
    let settings = Settings { receive_buffer: 4096 };
    let underlay = lab.within("a", || Underlay::start_with(settings)).expect("an underlay");
    let routes = |from: u32, verb: &str| {
        let lines = (0..2000)
            .map(|n| format!("route {verb} 10.{}.{}.0/24 via 10.1.0.2\n", from + n / 250, n % 250));
        lines.collect::<String>()
    };
    // While somebody looks, the thread cannot apply what it hears.
    underlay.look(|_| lab.batch("a", &routes(100, "add")));
    until("news were lost", || underlay.counts().overruns > 0);
    let has = |to: &str| underlay.resolve(ip(to), None, 0).is_ok();
    until("the last route is known", || has("10.107.249.1") && has("10.100.0.1"));
    until("all are", || {
        underlay.look(|state| state.routes().filter(|route| route.to.len == 24).count()) == 2001
    });
    let (before, version) = (underlay.counts(), underlay.version());
    underlay.look(|_| lab.batch("a", &routes(100, "del")));
    until("news were lost again", || underlay.counts().overruns > before.overruns);
    until("none is left", || {
        underlay.look(|state| state.routes().filter(|route| route.to.len == 24).count()) == 1
    });
    assert!(underlay.version() > version && underlay.counts().rereads > before.rereads);
    assert_eq!(underlay.counts().failures, 0);
}

#[test]
fn what_cannot_be_judged_is_skipped_and_counted() {
    let Some(lab) = Lab::new() else { return };
    for line in [
        "route add 10.7.0.0/16 via 10.1.0.2",
        "route add 10.7.0.0/16 via 10.1.0.3 tos 0x10",
        "rule add ipproto udp dport 4789 blackhole",
        "rule add tos 0x10 blackhole",
        "rule add uidrange 0-9 blackhole",
        "rule add iif v0 blackhole",
        "rule add oif v0 blackhole",
    ] {
        lab.ip("a", line);
    }
    let underlay = lab.within("a", Underlay::start).expect("an underlay");
    assert_eq!(underlay.counts().ignored, 4);
    assert_eq!(
        underlay.resolve(ip("10.7.0.1"), None, 0).map(|next| next.gateway),
        Ok(ip("10.1.0.2"))
    );
}

#[test]
fn a_deleted_namespace_goes_with_the_underlay() {
    let Some(lab) = Lab::new() else { return };
    let underlay = lab.within("a", Underlay::start).expect("an underlay");
    must(&format!("ip netns del {}", lab.ns("a")));
    assert!(underlay.resolve(ip("10.1.0.2"), None, 0).is_ok(), "it lives while somebody is in it");
    lab.ip("b", "link show v1");
    drop(underlay);
    let gone = || !sh(&format!("ip -n {} link show v1", lab.ns("b"))).status.success();
    until("the other end of its cable is gone", gone);
}
