//! `ovs-vsctl` against a reconciler: its every command does in the switch what it does with ovs-vswitchd, and returns when
//! that is done.

mod bed;

use bed::Bed;
use vswitch::fake::Fake;
use vswitch::switch::{Feature, LOCAL, Mac};

#[test]
fn add_br_returns_when_the_bridge_is_there() {
    let Some(bed) = Bed::new() else { return };
    bed.vsctl("add-br br0");
    {
        let held = bed.fake.held();
        assert_eq!(held.bridges["br0"].interfaces["br0"].0, LOCAL);
        assert!(held.settled > 0 && held.forwards);
        assert_eq!(held.calls, ["add bridge br0", "add interface br0 65534", "set port br0"]);
    }
    let get = |what: &str| bed.vsctl(&format!("get {what}"));
    assert_eq!(get("interface br0 ofport"), "65534");
    assert_eq!(get("bridge br0 datapath_id"), "\"0000000000000abc\"");
    assert_eq!(get("interface br0 link_state"), "up");
    assert_eq!(get("interface br0 mac_in_use"), "\"02:00:00:00:ff:fe\"");
    assert_eq!(get("interface br0 statistics:rx_packets"), "3");
    assert_eq!(get("Open_vSwitch . datapath_types"), "[netdev, system]");
    assert_eq!(get("Open_vSwitch . iface_types"), "[internal, patch, system, tap]");
    assert_eq!(get("Open_vSwitch . ovs_version"), "\"3.1.0\"");
    bed.vsctl("del-br br0");
    assert!(bed.fake.held().bridges.is_empty());
}

#[test]
fn ports_get_the_next_number_the_one_asked_for_or_the_one_before() {
    let Some(mut bed) = Bed::new() else { return };
    bed.vsctl("add-br br0 -- add-port br0 a -- set interface a ofport_request=9");
    bed.vsctl("add-port br0 b");
    bed.vsctl("add-port br0 c");
    bed.vsctl("del-port br0 b");
    bed.vsctl("add-port br0 d");
    let numbers = |bed: &Bed| bed.numbers("br0");
    let of = |all: &[(&str, u32)]| -> Vec<(String, u32)> {
        all.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    };
    let wanted = of(&[("a", 9), ("br0", LOCAL), ("c", 2), ("d", 3)]);
    assert_eq!(numbers(&bed), wanted);
    // A switch that starts anew gives the same ones.
    bed.stop_switch();
    bed.start_switch();
    assert_eq!(numbers(&bed), wanted);
    bed.vsctl("set interface c ofport_request=77");
    assert_eq!(bed.vsctl("get interface c ofport"), "77");
    // One that is taken is not given.
    bed.vsctl("add-port br0 e -- set interface e ofport_request=77");
    assert_ne!(bed.vsctl("get interface e ofport"), "77");
}

#[test]
fn an_interface_that_cannot_be_opened_says_why_and_is_tried_again() {
    let Some(bed) = Bed::new() else { return };
    let why = "could not open network device nope (No such device)";
    bed.fake.held().unopenable.insert("nope".to_owned(), why.to_owned());
    let said = bed.vsctl_says("add-br br0 -- add-port br0 nope");
    assert!(said.contains(&format!("Error detected while setting up 'nope': {why}")), "{said}");
    assert_eq!(bed.vsctl("get interface nope ofport"), "-1");
    bed.fake.held().unopenable.clear();
    bed.until("it is opened", |bed| bed.vsctl("get interface nope ofport") == "1");
    assert_eq!(bed.vsctl("get interface nope error"), "[]");
    // A device that goes is told, and comes back.
    bed.fake.held().vanished.insert("nope".to_owned());
    bed.fake.held().unopenable.insert("nope".to_owned(), why.to_owned());
    bed.until("it is gone", |bed| bed.vsctl("get interface nope ofport") == "-1");
    assert_eq!(bed.vsctl("get interface nope link_state"), "[]");
    bed.fake.held().vanished.clear();
    bed.fake.held().unopenable.clear();
    bed.until("it is back", |bed| bed.vsctl("get interface nope ofport") == "1");
}

#[test]
fn what_is_not_supported_stands_in_the_row_that_asked_for_it() {
    let fake = Fake::lacking([
        Feature::Mirror,
        Feature::Bond,
        Feature::Qos("linux-htb".to_owned()),
        Feature::Multicast,
        Feature::Export("sFlow"),
        Feature::Policing,
    ]);
    let Some(bed) = Bed::with(fake) else { return };
    bed.vsctl("add-br br0 -- set bridge br0 stp_enable=true mcast_snooping_enable=true");
    bed.vsctl("add-port br0 a -- set interface a ingress_policing_rate=1000");
    let status = bed.vsctl("get bridge br0 status:unsupported");
    for word in ["stp_enable", "multicast snooping: not there"] {
        assert!(status.contains(word), "{status}");
    }
    bed.vsctl(
        "set port a qos=@q -- --id=@q create qos type=linux-htb other-config:max-rate=1000000",
    );
    assert_eq!(bed.vsctl("get port a status:unsupported"), "\"QoS type linux-htb: not there\"");
    let error = bed.vsctl("get interface a error");
    assert!(error.contains("ingress policing: not there; QoS type linux-htb"), "{error}");
    assert_eq!(bed.vsctl("get interface a ofport"), "1", "packets pass all the same");
    bed.vsctl("-- --id=@p get port a -- --id=@m create mirror name=m select_all=true output_port=@p -- set bridge br0 mirrors=@m");
    assert!(
        bed.vsctl("get bridge br0 status:unsupported").contains("mirror m: mirrors: not there")
    );
    bed.vsctl("-- --id=@s create sflow targets=\"127.0.0.1\" -- set bridge br0 sflow=@s");
    assert!(bed.vsctl("get bridge br0 status:unsupported").contains("sFlow: not there"));
    // Interfaces of a bond that is not one would be a loop.
    let said = bed.vsctl_says("add-bond br0 bond0 x y");
    assert!(said.contains("bonds: not there"), "{said}");
    assert!(!bed.fake.held().bridges["br0"].interfaces.contains_key("x"));
    // It goes when nobody asks any more.
    bed.vsctl("set bridge br0 stp_enable=false mcast_snooping_enable=false -- clear bridge br0 mirrors sflow");
    assert_eq!(bed.vsctl("get bridge br0 status"), "{}");
    assert_eq!(bed.reconciler().watch().progress().unsupported, 3);
}

#[test]
fn an_interface_stays_open_where_a_setting_is_refused() {
    let Some(bed) = Bed::new() else { return };
    bed.fake.held().unsettable.insert("a".to_owned(), "a: no such MTU".to_owned());
    bed.vsctl("add-br br0");
    bed.vsctl_says("add-port br0 a -- set interface a mtu_request=90000");
    assert_eq!(bed.vsctl("get interface a ofport"), "1");
    assert_eq!(bed.vsctl("get interface a error"), "\"a: no such MTU\"");
    bed.fake.held().unsettable.clear();
    bed.until("it is set", |bed| bed.vsctl("get interface a error") == "[]");
    assert_eq!(bed.fake.held().bridges["br0"].interfaces["a"].1.mtu, Some(90000));
}

#[test]
fn settings_reach_the_switch() {
    let Some(bed) = Bed::new() else { return };
    bed.vsctl("add-br br0 -- add-port br0 a tag=10 -- add-bond br0 bond0 x y bond_mode=balance-slb lacp=active");
    bed.vsctl("set-fail-mode br0 secure -- set-controller br0 tcp:127.0.0.1:6653 ptcp:6654");
    bed.vsctl("set bridge br0 other-config:hwaddr=02:11:11:11:11:11 protocols=OpenFlow13");
    bed.vsctl(
        "set interface a mtu_request=1400 ingress_policing_rate=1000 ingress_policing_burst=100",
    );
    bed.vsctl("-- --id=@p get port a -- --id=@m create mirror name=m select_all=true output_port=@p -- set bridge br0 mirrors=@m");
    let held = bed.fake.held();
    let bridge = &held.bridges["br0"];
    assert!(bridge.settings.secure && bridge.settings.protocols.contains("OpenFlow13"));
    assert_eq!(bridge.settings.address, Some(Mac([2, 0x11, 0x11, 0x11, 0x11, 0x11])));
    assert_eq!(bridge.ports["a"].vlan.tag, Some(10));
    let bond = bridge.ports["bond0"].bond.as_ref().expect("a bond");
    assert_eq!((bond.settings.mode.word(), bond.settings.lacp.word()), ("balance-slb", "active"));
    assert_eq!(bridge.ports["bond0"].interfaces.iter().collect::<Vec<_>>(), ["x", "y"]);
    let targets: Vec<&str> = bridge.controllers.iter().map(|one| one.target.as_str()).collect();
    assert_eq!(targets, ["ptcp:6654", "tcp:127.0.0.1:6653"]);
    let (_, interface) = &bridge.interfaces["a"];
    assert_eq!((interface.mtu, interface.policing.kbps), (Some(1400), (1000, 100)));
    assert_eq!(bridge.mirrors[0].to_port.as_deref(), Some("a"));
    drop(held);
    bed.until("controllers are told", |bed| {
        bed.vsctl("--columns=is_connected,role find controller target=\"ptcp:6654\"")
            .contains("true")
    });
}

#[test]
fn next_cfg_is_reached_only_after_the_switch_has_settled() {
    let Some(bed) = Bed::new() else { return };
    for n in 0..20 {
        bed.vsctl(&format!("add-br b{n}"));
        assert!(bed.fake.held().bridges.contains_key(&format!("b{n}")));
        let settled = bed.fake.held().settled;
        assert!(settled > n, "{settled}");
    }
    assert_eq!(bed.vsctl("get Open_vSwitch . cur_cfg"), bed.vsctl("get Open_vSwitch . next_cfg"));
}

#[test]
fn entries_are_restored_before_packets_come_in() {
    let Some(mut bed) = Bed::new() else { return };
    bed.vsctl("add-br br0 -- set-controller br0 tcp:127.0.0.1:1");
    bed.stop_switch();
    bed.vsctl("--no-wait set Open_vSwitch . other_config:flow-restore-wait=true");
    bed.start_switch();
    let bridge = |bed: &Bed| bed.fake.held().bridges["br0"].clone();
    assert!(!bed.fake.held().forwards && bridge(&bed).controllers.is_empty());
    bed.vsctl("remove Open_vSwitch . other_config flow-restore-wait");
    assert!(bed.fake.held().forwards);
    assert_eq!(bridge(&bed).controllers.len(), 1);
}

#[test]
fn a_second_switch_waits_for_the_lock() {
    let Some(mut bed) = Bed::new() else { return };
    bed.vsctl("add-br br0");
    let remote = format!("unix:{}", bed.dir.path().join("db.sock").display());
    let mut config = ovsdb::Config::new(remote.parse().expect("a remote"), "Open_vSwitch");
    config.lock = Some(vswitch::reconcile::LOCK.to_owned());
    let client = ovsdb::Client::start(vswitch::desired::columns::follow(config)).expect("a thread");
    let second = std::sync::Arc::new(Fake::default());
    let dir = bed.dir.path().to_owned();
    let other =
        vswitch::reconcile::Reconciler::start(client, second.clone(), dir).expect("a thread");
    bed.until("it waits", |_| other.watch().progress().waits_for_lock);
    assert!(second.held().bridges.is_empty());
    bed.stop_switch();
    bed.until("it goes on", |_| second.held().bridges.contains_key("br0"));
}

#[test]
fn machine_statistics_come_when_asked_for() {
    let Some(bed) = Bed::new() else { return };
    assert_eq!(bed.vsctl("get Open_vSwitch . statistics"), "{}");
    bed.vsctl("set Open_vSwitch . other_config:enable-statistics=true");
    bed.until("they come", |bed| {
        bed.vsctl("get Open_vSwitch . statistics").contains("load_average")
    });
    bed.vsctl("remove Open_vSwitch . other_config enable-statistics");
    assert_eq!(bed.vsctl("get Open_vSwitch . statistics"), "{}");
}

#[test]
fn a_patch_port_says_whether_its_other_end_is_there() {
    let Some(bed) = Bed::new() else { return };
    bed.vsctl("add-br br0 -- add-br br1 -- set bridge br0 datapath_type=netdev");
    let patch = |bridge: &str, name: &str, peer: &str| {
        let port = format!("add-port {bridge} {name} -- set interface {name}");
        bed.vsctl(&format!("{port} type=patch options:peer={peer}"));
    };
    patch("br0", "pa", "pb");
    let error = |name: &str| bed.vsctl(&format!("get interface {name} error"));
    assert_eq!(error("pa"), "\"No usable peer 'pb' exists in 'netdev' datapath.\"");
    patch("br1", "pb", "pa");
    assert_eq!((error("pa"), error("pb")), ("[]".to_owned(), "[]".to_owned()));
    bed.vsctl("del-port pa");
    assert_eq!(error("pb"), "\"No usable peer 'pa' exists in 'system' datapath.\"");
}
