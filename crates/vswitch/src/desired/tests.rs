use super::*;
use crate::address::Mac;
use crate::desired::port::VlanMode;
use crate::testing::{database, map, rows};
use serde_json::{Value as Json, json};

fn all_there(_: &Feature) -> Option<String> {
    None
}

/// A bridge `br0` of one port `p1` with one interface of the same name.
fn with(bridge: Json, port: Json, interface: Json) -> Vec<(&'static str, u128, Json)> {
    let mut all = vec![
        ("Open_vSwitch", 1, json!({"bridges": rows(&[2]), "next_cfg": 3})),
        ("Bridge", 2, json!({"name": "br0", "ports": rows(&[3])})),
        ("Port", 3, json!({"name": "p1", "interfaces": rows(&[4])})),
        ("Interface", 4, json!({"name": "p1"})),
    ];
    for ((_, _, row), more) in all[1..].iter_mut().zip([bridge, port, interface]) {
        for (column, value) in more.as_object().expect("columns") {
            row[column] = value.clone();
        }
    }
    all
}

fn read(all: &[(&str, u128, Json)]) -> Bridge {
    Desired::of(&database(all), &all_there).bridges["br0"].clone()
}

#[test]
fn a_bridge_has_its_own_port_and_those_of_its_rows() {
    let bridge = read(&with(json!({}), json!({}), json!({"ofport_request": 7, "ofport": 5})));
    assert_eq!(bridge.ports.keys().collect::<Vec<_>>(), ["br0", "p1"]);
    let own = &bridge.ports["br0"].interfaces["br0"];
    assert_eq!((own.settings.kind.as_str(), own.fixed("br0")), ("internal", Some(65534)));
    let p1 = &bridge.ports["p1"].interfaces["p1"];
    assert_eq!((p1.request, p1.last, p1.settings.kind.as_str()), (Some(7), Some(5), "system"));
    assert_eq!(bridge.notes.line(), None);
}

#[test]
fn settings_of_a_bridge_are_read_within_their_bounds() {
    let config = map(&[
        ("datapath-id", "00000000000000aa"),
        ("hwaddr", "02:00:00:00:00:01"),
        ("mac-table-size", "100"),
        ("mac-aging-time", "5"),
        ("forward-bpdu", "true"),
    ]);
    let columns = json!({"other_config": config, "fail_mode": "secure", "protocols": ["set", ["OpenFlow12", "OpenFlow13"]]});
    let bridge = read(&with(columns, json!({}), json!({})));
    let settings = &bridge.settings;
    assert_eq!(settings.datapath_id, Some(0xaa));
    assert_eq!(settings.address, Some(Mac([2, 0, 0, 0, 0, 1])));
    assert_eq!((settings.stations_max, settings.station_age_s), (Some(100), Some(15)));
    assert!(settings.forwards_bpdu && settings.secure);
    assert_eq!(settings.protocols.iter().collect::<Vec<_>>(), ["OpenFlow13"]);
    assert_eq!(bridge.notes.line().as_deref(), Some("protocols: OpenFlow12 is not spoken"));
}

#[test]
fn room_for_addresses_has_bounds_that_are_told() {
    let of = |size: &str| {
        let columns = json!({"other_config": map(&[("mac-table-size", size)])});
        let bridge = read(&with(columns, json!({}), json!({})));
        (bridge.settings.stations_max, bridge.notes.line())
    };
    // Open vSwitch takes less than ten as ten, without a word.
    assert_eq!(of("1"), (Some(10), None));
    let (most, note) = of("2000000");
    assert_eq!(most, Some(bridge::STATIONS_MAX));
    assert_eq!(note.as_deref(), Some("mac-table-size 2000000: 1048576 addresses are the most"));
}

#[test]
fn one_tag_is_parsed_unless_the_limit_is_said() {
    let of = |limit: Option<&str>| {
        let mut all = with(json!({}), json!({}), json!({}));
        if let Some(limit) = limit {
            all[0].2["other_config"] = map(&[("vlan-limit", limit)]);
        }
        let bridge = read(&all);
        (bridge.settings.vlan_limit, bridge.notes.line())
    };
    assert_eq!((of(None), of(Some("0")), of(Some("2"))), ((1, None), (0, None), (2, None)));
    assert_eq!(of(Some("x")), (1, Some("vlan-limit is no number of tags".to_owned())));
}

#[test]
fn a_second_rate_of_a_policer_is_told_and_the_longest_copies_are_whole() {
    let length = |snaplen: u32| {
        let mut all = with(json!({"mirrors": rows(&[5])}), json!({}), json!({}));
        let mirror = json!({"name": "m", "select_all": true, "output_vlan": 7, "snaplen": snaplen});
        all.push(("Mirror", 5, mirror));
        read(&all).mirrors[0].settings.length_max
    };
    assert_eq!((length(100), length(65535)), (Some(100), None));
    let mut all = with(json!({}), json!({"qos": rows(&[9])}), json!({}));
    let rates = map(&[("cir", "1000"), ("cbs", "2000"), ("eir", "5")]);
    all.push(("QoS", 9, json!({"type": "egress-policer", "other_config": rates})));
    let port = read(&all).ports["p1"].clone();
    assert!(port.settings.qos.is_some());
    let note = port.notes.line().expect("a note");
    assert!(note.contains("eir is not done: there is one rate, cir"), "{note}");
}

#[test]
fn keys_are_those_of_bridges_with_controllers_by_tls() {
    let keys = json!({"private_key": "/k", "certificate": "/c", "ca_cert": "/a", "bootstrap_ca_cert": true});
    let with_controller = |target: &str, ssl: bool| {
        let mut all = with(json!({"controller": rows(&[5])}), json!({}), json!({}));
        all.push(("Controller", 5, json!({"target": target})));
        if ssl {
            all[0].2["ssl"] = rows(&[6]);
            all.push(("SSL", 6, keys.clone()));
        }
        read(&all)
    };
    let bridge = with_controller("ssl:10.0.0.1", true);
    let held = bridge.settings.keys.expect("keys");
    assert_eq!((held.authority.to_str(), held.bootstrap), (Some("/a"), true));
    assert_eq!(bridge.notes.line(), None);
    assert_eq!(with_controller("tcp:10.0.0.1", true).settings.keys, None);
    let lacking = with_controller("ssl:10.0.0.1", false);
    assert!(lacking.notes.line().expect("a note").contains("ovs-vsctl set-ssl"));
}

#[test]
fn what_is_wrong_or_never_done_is_noted() {
    let config =
        map(&[("datapath-id", "xyz"), ("hwaddr", "01:00:00:00:00:01"), ("mac-aging-time", "long")]);
    let columns = json!({"other_config": config, "stp_enable": true, "datapath_type": "odd"});
    let bridge = read(&with(columns, json!({"mac": "02:00:00:00:00:01"}), json!({"cfm_mpid": 1})));
    let notes = bridge.notes.line().expect("notes");
    for word in [
        "datapath-id xyz",
        "hwaddr 01:00",
        "mac-aging-time long",
        "stp_enable",
        "datapath_type odd",
    ] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
    assert!(bridge.notes.refused().expect("refused").contains("datapath_type"));
    let port = &bridge.ports["p1"];
    assert!(port.notes.line().expect("a note").contains("mac 02:00"));
    assert!(port.interfaces["p1"].notes.line().expect("a note").contains("cfm_mpid"));
}

#[test]
fn a_session_of_bfd_is_read_or_told() {
    let of = |pairs: &[(&str, &str)], lacks: bool| {
        let all = with(json!({}), json!({}), json!({"type": "internal", "bfd": map(pairs)}));
        let lacks = |feature: &Feature| {
            (lacks && *feature == Feature::Bfd("internal".to_owned()))
                .then(|| "not here".to_owned())
        };
        let bridge = Desired::of(&database(&all), &lacks).bridges["br0"].clone();
        let interface = bridge.ports["p1"].interfaces["p1"].clone();
        (interface.settings.bfd, interface.notes.line())
    };
    assert_eq!(of(&[], false), (None, None));
    assert_eq!(of(&[("enable", "false"), ("mult", "4")], true), (None, None));
    let asked = [("enable", "true"), ("mult", "4")];
    let session = bfd::Config { mult: 4, ..bfd::Config::default() };
    assert_eq!(of(&asked, false), (Some(session), None));
    assert_eq!(of(&asked, true), (None, Some("BFD: not here".to_owned())));
    let (none, note) = of(&[("enable", "true"), ("mult", "0")], false);
    assert_eq!((none, note.as_deref()), (None, Some("bfd: mult=0: 1 to 255 was expected")));
}

#[test]
fn a_port_without_a_mode_is_an_access_port_if_it_has_a_tag() {
    let vlan =
        |port: Json| read(&with(json!({}), port, json!({}))).ports["p1"].settings.vlan.clone();
    assert_eq!(vlan(json!({})), port::Vlan::default());
    let access = vlan(json!({"tag": 10, "trunks": ["set", [1, 2]]}));
    assert_eq!((access.mode, access.tag, access.trunks.len()), (VlanMode::Access, Some(10), 0));
    let trunk = vlan(json!({"trunks": ["set", [1, 2]]}));
    assert_eq!((trunk.mode, trunk.tag, trunk.trunks.len()), (VlanMode::Trunk, None, 2));
    let native = vlan(json!({"tag": 3, "trunks": 1, "vlan_mode": "native-untagged"}));
    assert_eq!((native.mode, native.trunks.len()), (VlanMode::NativeUntagged, 2));
    let tunnel = vlan(json!({"tag": 3, "cvlans": 1, "vlan_mode": "dot1q-tunnel"}));
    assert!(tunnel.mode == VlanMode::Tunnel && tunnel.service_tag && tunnel.customers.len() == 1);
}

#[test]
fn what_would_do_harm_without_a_feature_refuses_its_port() {
    let lacks = |_: &Feature| Some("not there".to_owned());
    let read = |all: &[(&str, u128, Json)]| {
        Desired::of(&database(all), &lacks).bridges["br0"].ports["p1"].clone()
    };
    let vlan = read(&with(json!({}), json!({"tag": 10}), json!({})));
    assert_eq!(vlan.notes.refused(), Some("VLAN modes: not there"));
    let mut bond = with(json!({}), json!({"interfaces": rows(&[4, 5])}), json!({}));
    bond.push(("Interface", 5, json!({"name": "p2"})));
    assert_eq!(read(&bond).notes.refused(), Some("bonds: not there"));
    let plain =
        read(&with(json!({}), json!({}), json!({"ingress_policing_rate": 5, "type": "odd"})));
    assert_eq!(plain.notes.refused(), None);
    let interface = &plain.interfaces["p1"];
    assert_eq!(interface.notes.refused(), Some("interface type odd: not there"));
    assert!(interface.notes.line().expect("notes").contains("ingress policing: not there"));
}

#[test]
fn a_patch_port_needs_a_peer_that_is_another() {
    let refused = |options: Json| {
        let all = with(json!({}), json!({}), json!({"type": "patch", "options": options}));
        let bridge = read(&all);
        bridge.ports["p1"].interfaces["p1"].notes.refused().map(str::to_owned)
    };
    assert!(refused(map(&[])).expect("refused").contains("needs options:peer"));
    assert!(refused(map(&[("peer", "p1")])).expect("refused").contains("its own peer"));
    assert_eq!(refused(map(&[("peer", "p2")])), None);
}

#[test]
fn mirrors_queues_controllers_and_tables_hang_at_their_rows() {
    let columns = json!({
        "mirrors": rows(&[5, 6]), "controller": rows(&[7]), "flow_tables": ["map", [[0, ["uuid", crate::testing::uuid(8).to_string()]]]],
    });
    let mut all = with(columns, json!({"qos": rows(&[9])}), json!({}));
    all.extend([
        ("Mirror", 5, json!({"name": "m", "select_all": true, "output_port": rows(&[3])})),
        ("Mirror", 6, json!({"name": "n", "select_src_port": rows(&[3])})),
        ("Controller", 7, json!({"target": "tcp:127.0.0.1", "controller_rate_limit": 1000})),
        ("Flow_Table", 8, json!({"flow_limit": 10, "overflow_policy": "evict"})),
        (
            "QoS",
            9,
            json!({"type": "linux-htb", "other_config": map(&[("max-rate", "1000000")]),
            "queues": ["map", [[1, ["uuid", crate::testing::uuid(10).to_string()]]]]}),
        ),
        ("Queue", 10, json!({"other_config": map(&[("min-rate", "5000"), ("priority", "x")])})),
    ]);
    let bridge = read(&all);
    assert_eq!(bridge.mirrors.len(), 1, "one has no output");
    assert_eq!(bridge.mirrors[0].settings.to_port.as_deref(), Some("p1"));
    assert!(bridge.notes.line().expect("a note").contains("mirror n: output_port or output_vlan"));
    assert_eq!(bridge.controllers[0].settings.rate, Some((1000, 250)));
    assert!(bridge.settings.tables[&0].evicts && bridge.settings.tables[&0].limit == Some(10));
    let port = &bridge.ports["p1"];
    let qos = port.settings.qos.as_ref().expect("queues");
    assert_eq!((qos.rate_max, qos.queues[&1].rate_min), (Some(1_000_000), Some(5000)));
    assert!(port.notes.line().expect("a note").contains("queue 1: priority x is no number"));
}

#[test]
fn a_flow_table_that_is_not_there_leaves_the_bridge_as_it_is() {
    let table = |id: u8, settings| {
        let row = json!(["uuid", crate::testing::uuid(8).to_string()]);
        let columns = json!({"flow_tables": ["map", [[0, row], [id, row]]]});
        let mut all = with(columns, json!({}), json!({}));
        all.push(("Flow_Table", 8, settings));
        let bridge = read(&all);
        (bridge.settings.tables.len(), bridge.notes.line(), bridge.notes.refused().is_some())
    };
    // OVN names all that the schema allows.
    assert_eq!(table(254, json!({})), (1, None, false));
    let (tables, line, refused) = table(254, json!({"flow_limit": 10}));
    assert!(line.is_some_and(|line| line.contains("no table 254; the last one is 253")));
    assert_eq!((tables, refused), (1, false));
    assert_eq!(table(253, json!({"flow_limit": 10})), (2, None, false));
}

#[test]
fn a_bond_has_what_its_keys_say_and_what_is_written_wrongly_is_told() {
    let keys = map(&[("lacp-time", "fast"), ("bond-rebalance-interval", "often"), ("x", "y")]);
    let columns = json!({
        "interfaces": rows(&[4, 5]), "bond_mode": "balance-tcp", "lacp": "active", "bond_updelay": 50,
        "other_config": keys,
    });
    let mut all = with(json!({}), columns, json!({}));
    all.push(("Interface", 5, json!({"name": "p2"})));
    let port = read(&all).ports["p1"].clone();
    let bond = port.settings.bond.as_ref().expect("a bond");
    assert_eq!((bond.settings.mode.word(), bond.settings.lacp.word()), ("balance-tcp", "active"));
    assert_eq!((bond.settings.up_delay_ms, bond.settings.rebalance_ms), (50, 10_000));
    assert!(bond.settings.fast && bond.links["p2"].priority == 65535);
    let line = port.notes.line().expect("a note");
    assert!(line.starts_with("bond-rebalance-interval=often: 0 to "), "{line}");
    let mut off = with(
        json!({}),
        json!({"interfaces": rows(&[4, 5]), "bond_mode": "balance-tcp"}),
        json!({}),
    );
    off.push(("Interface", 5, json!({"name": "p2"})));
    let line = read(&off).ports["p1"].notes.line().expect("a note");
    assert!(line.contains("balance-tcp needs lacp=active or passive"), "{line}");
}

#[test]
fn zones_have_the_timeouts_of_their_policies_and_one_that_is_not_there_is_told() {
    let uuid = |n: u128| json!(["uuid", crate::testing::uuid(n).to_string()]);
    let policy = |pairs: &[(&str, u32)]| json!({"timeouts": ["map", pairs]});
    let all = [
        (
            "Open_vSwitch",
            1,
            json!({"datapaths": ["map", [["netdev", uuid(2)], ["system", uuid(3)]]]}),
        ),
        ("Datapath", 2, json!({"ct_zones": ["map", [[7, uuid(4)], [8, uuid(5)]]]})),
        ("Datapath", 3, json!({"ct_zones": ["map", [[7, uuid(5)]]]})),
        ("CT_Zone", 4, json!({"timeout_policy": rows(&[6])})),
        ("CT_Zone", 5, json!({"timeout_policy": rows(&[7])})),
        ("CT_Timeout_Policy", 6, policy(&[("udp_single", 9), ("odd", 1)])),
        ("CT_Timeout_Policy", 7, policy(&[("tcp_established", 100)])),
    ];
    let lacks = |feature: &Feature| {
        (*feature == Feature::Timeout("odd".to_owned())).then(|| "not there".to_owned())
    };
    let desired = Desired::of(&crate::testing::database(&all), &lacks);
    let of = |pairs: &[(&str, u32)]| -> datapath::Policy {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
    };
    let wanted = [(7, of(&[("udp_single", 9)])), (8, of(&[("tcp_established", 100)]))];
    assert_eq!(desired.timeouts(), wanted.into());
    let notes: Vec<String> = desired.notes().collect();
    assert_eq!(notes[0], "datapath netdev: timeout odd: not there");
    assert!(notes[1].starts_with("datapath system: zone 7: datapath netdev gives it other"));
    assert_eq!(notes.len(), 2, "{notes:?}");
    let fake = crate::fake::Fake::default();
    let mut actual = crate::actual::Actual::default();
    let steps = crate::diff::steps(&desired, &actual);
    crate::apply::apply(&fake, &mut actual, steps);
    assert_eq!(fake.held().timeouts, desired.timeouts());
    assert!(crate::diff::steps(&desired, &actual).is_empty());
}

#[test]
fn zones_have_the_limits_of_the_first_datapath_that_says_one() {
    let uuid = |n: u128| json!(["uuid", crate::testing::uuid(n).to_string()]);
    let mut all = vec![
        (
            "Open_vSwitch",
            1,
            json!({"datapaths": ["map", [["netdev", uuid(2)], ["system", uuid(3)]]]}),
        ),
        (
            "Datapath",
            2,
            json!({"ct_zones": ["map", [[7, uuid(4)], [8, uuid(5)]]], "ct_zone_default_limit": 9}),
        ),
        ("Datapath", 3, json!({"ct_zones": ["map", [[7, uuid(6)], [9, uuid(6)]]]})),
        ("CT_Zone", 4, json!({"limit": 5})),
        ("CT_Zone", 5, json!({})),
        ("CT_Zone", 6, json!({"limit": 0})),
    ];
    let desired = Desired::of(&crate::testing::database(&all), &|_| None);
    let wanted = datapath::ZoneLimits { default: Some(9), zones: [(7, 5), (9, 0)].into() };
    assert_eq!(desired.zone_limits(), wanted);
    let notes: Vec<String> = desired.notes().collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("datapath system: limit of zone 7: datapath netdev says 5"));

    let fake = crate::fake::Fake::default();
    let mut actual = crate::actual::Actual::default();
    let steps = crate::diff::steps(&desired, &actual);
    crate::apply::apply(&fake, &mut actual, steps);
    assert_eq!(fake.held().zone_limits, wanted);
    assert!(crate::diff::steps(&desired, &actual).is_empty());
    // They go with their rows.
    all.truncate(1);
    let none = Desired::of(&crate::testing::database(&all), &|_| None);
    let steps = crate::diff::steps(&none, &actual);
    crate::apply::apply(&fake, &mut actual, steps);
    assert!(fake.held().zone_limits.is_empty());
}
