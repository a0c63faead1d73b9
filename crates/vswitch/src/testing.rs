//! For unit tests: a database without a server, of the columns that the tests need.

use ovsdb::database::{Followed, Form};
use ovsdb::{Database, Schema, Uuid};
use serde_json::{Map, Value as Json, json};

/// Tables, and columns with their types: `text`, `int`, `bool`, `map` and `rows`, `?` behind for none or one, `*` for any
/// number; `id:rows` is a map of numbers to rows, `text:rows` one of texts.
const COLUMNS: &[(&str, &str)] = &[
    (
        "Open_vSwitch",
        "bridges:rows next_cfg:int cur_cfg:int other_config:map iface_types:text* datapath_types:text* ssl:rows \
         ovs_version:text? statistics:map dpdk_initialized:bool dpdk_version:text? datapaths:text:rows",
    ),
    (
        "Bridge",
        "name:text ports:rows controller:rows fail_mode:text? protocols:text* datapath_type:text other_config:map \
         flow_tables:id:rows mcast_snooping_enable:bool stp_enable:bool mirrors:rows netflow:rows auto_attach:rows \
         datapath_id:text? datapath_version:text status:map",
    ),
    (
        "Port",
        "name:text interfaces:rows tag:int? trunks:int* vlan_mode:text? cvlans:int* qos:rows bond_mode:text? \
         lacp:text? bond_updelay:int other_config:map mac:text? protected:bool status:map",
    ),
    (
        "Interface",
        "name:text type:text options:map ofport_request:int? ofport:int? mtu_request:int? mac:text? \
         ingress_policing_rate:int cfm_mpid:int? bfd:map bfd_status:map error:text? link_state:text? mac_in_use:text? \
         statistics:imap",
    ),
    (
        "Controller",
        "target:text type:text? max_backoff:int? controller_rate_limit:int? is_connected:bool",
    ),
    ("Flow_Table", "name:text? flow_limit:int? overflow_policy:text? groups:text*"),
    ("Datapath", "ct_zones:id:rows ct_zone_default_limit:int? capabilities:map"),
    ("CT_Zone", "timeout_policy:rows limit:int?"),
    ("CT_Timeout_Policy", "timeouts:imap"),
    ("QoS", "type:text queues:id:rows other_config:map"),
    ("Queue", "dscp:int? other_config:map"),
    ("SSL", "private_key:text certificate:text ca_cert:text bootstrap_ca_cert:bool"),
    (
        "Mirror",
        "name:text select_all:bool select_src_port:rows output_port:rows output_vlan:int? snaplen:int?",
    ),
];

fn kind(word: &str) -> Json {
    let many = |key: &str| json!({"key": key, "min": 0, "max": "unlimited"});
    let base = |word: &str| match word.trim_end_matches(['?', '*']) {
        "text" => "string",
        "int" => "integer",
        "bool" => "boolean",
        other => panic!("{other} is no type"),
    };
    match word {
        "map" => json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"}),
        "imap" => json!({"key": "string", "value": "integer", "min": 0, "max": "unlimited"}),
        "rows" => many("uuid"),
        "text:rows" => json!({"key": "string", "value": "uuid", "min": 0, "max": "unlimited"}),
        "id:rows" => json!({"key": "integer", "value": "uuid", "min": 0, "max": "unlimited"}),
        _ if word.ends_with('*') => many(base(word)),
        _ if word.ends_with('?') => json!({"key": base(word), "min": 0, "max": 1}),
        _ => json!(base(word)),
    }
}

/// A row's name for a number.
pub(crate) fn uuid(number: u128) -> Uuid {
    Uuid(number)
}

/// References to rows of these numbers.
pub(crate) fn rows(numbers: &[u128]) -> Json {
    let one = |number: &u128| json!(["uuid", uuid(*number).to_string()]);
    json!(["set", numbers.iter().map(one).collect::<Vec<_>>()])
}

/// A map of texts.
pub(crate) fn map(pairs: &[(&str, &str)]) -> Json {
    json!(["map", pairs])
}

/// A database of these rows: table, number, columns.
pub(crate) fn database(all: &[(&str, u128, Json)]) -> Database {
    let (mut tables, mut followed) = (Map::new(), Followed::new());
    for (table, columns) in COLUMNS {
        let columns: Map<String, Json> = columns
            .split_ascii_whitespace()
            .map(|word| {
                let (name, word) = word.split_once(':').expect("a name and a type");
                (name.to_owned(), json!({"type": kind(word)}))
            })
            .collect();
        followed.insert((*table).to_owned(), columns.keys().cloned().collect());
        tables.insert((*table).to_owned(), json!({"columns": columns}));
    }
    let schema = json!({"name": "Open_vSwitch", "version": "8.3.1", "tables": tables});
    let schema = Schema::of_json(&schema).expect("a schema");
    let mut update = Map::new();
    for (table, number, columns) in all {
        let table = update.entry(*table).or_insert_with(|| json!({}));
        table[uuid(*number).to_string()] = json!({"new": columns});
    }
    let mut database = Database::default();
    database.apply(&schema, &followed, Form::Plain, &Json::Object(update)).expect("rows");
    database
}
