use super::*;
use crate::actual::{Actual, Refusals};
use crate::desired::Desired;
use crate::switch::Feature;
use crate::testing::{database, rows};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

#[test]
fn a_report_has_what_differs_and_nothing_else() {
    let all = [
        (
            "Open_vSwitch",
            1,
            json!({"bridges": rows(&[2]), "next_cfg": 3, "dpdk_version": "none",
            "datapath_types": ["set", ["netdev", "system"]], "ovs_version": "9.9"}),
        ),
        ("Bridge", 2, json!({"name": "br0", "ports": rows(&[3]), "stp_enable": true})),
        ("Port", 3, json!({"name": "p1", "interfaces": rows(&[4]), "tag": 4})),
        ("Interface", 4, json!({"name": "p1"})),
    ];
    let database = database(&all);
    let lacks = |feature: &Feature| (*feature == Feature::Vlan).then(|| "not there".to_owned());
    let desired = Desired::of(&database, &lacks);
    let (actual, refusals) = (Actual::default(), Refusals::default());
    let (views, capabilities) = (Views::default(), BTreeMap::new());
    let report = Report {
        database: &database,
        desired: &desired,
        actual: &actual,
        refusals: &refusals,
        views: &views,
        interface_types: &[],
        capabilities: &capabilities,
        only: None,
        statistics: true,
        machine: None,
    };
    let operations = report.transaction(None).expect("something differs").to_json();
    let row = |table: &str| {
        operations.iter().find(|op| op["table"] == table).map_or(Json::Null, |op| op["row"].clone())
    };
    assert_eq!(row("Open_vSwitch"), json!({"cur_cfg": 3}));
    let interface = row("Interface");
    assert_eq!(interface, json!({"ofport": -1, "error": "VLAN modes: not there"}));
    let status = row("Bridge")["status"][1][0][1].as_str().map(str::to_owned);
    assert!(status.expect("a status").contains("stp_enable"));
    assert_eq!(row("Port"), json!({"status": ["map", [["unsupported", "VLAN modes: not there"]]]}));
    assert_eq!(
        operations.last().expect("operations")["table"],
        "Open_vSwitch",
        "the promise is last"
    );
}
