//! The columns that are followed.
//!
//! Those that are written back are followed, too, so that a report sends only what differs.

use ovsdb::Config;

/// Tables and their columns.
const FOLLOWED: &[(&str, &[&str])] = &[
    (
        "Open_vSwitch",
        &[
            "bridges", "next_cfg", "cur_cfg", "other_config", "external_ids", "ovs_version", "db_version",
            "iface_types", "datapath_types", "statistics", "dpdk_initialized", "dpdk_version", "ssl", "datapaths",
        ],
    ),
    (
        "Bridge",
        &[
            "name", "ports", "controller", "fail_mode", "protocols", "datapath_type", "other_config", "flow_tables",
            "flood_vlans", "mcast_snooping_enable", "stp_enable", "rstp_enable", "mirrors", "netflow", "sflow",
            "ipfix", "auto_attach", "datapath_id", "datapath_version", "status", "rstp_status",
        ],
    ),
    (
        "Port",
        &[
            "name", "interfaces", "tag", "trunks", "vlan_mode", "cvlans", "qos", "bond_mode", "lacp",
            "bond_updelay", "bond_downdelay", "bond_fake_iface", "bond_active_slave", "mac", "protected",
            "other_config", "status", "statistics",
        ],
    ),
    (
        "Interface",
        &[
            "name", "type", "options", "other_config", "ofport", "ofport_request", "mtu_request", "mac",
            "ingress_policing_rate", "ingress_policing_burst", "ingress_policing_kpkts_rate",
            "ingress_policing_kpkts_burst", "bfd", "cfm_mpid", "lldp", "error", "admin_state", "link_state",
            "link_resets", "link_speed", "duplex", "mtu", "mac_in_use", "ifindex", "statistics", "status",
        ],
    ),
    (
        "Controller",
        &[
            "target", "type", "connection_mode", "max_backoff", "inactivity_probe", "controller_rate_limit",
            "controller_burst_limit", "controller_queue_size", "enable_async_messages", "local_ip", "local_netmask",
            "local_gateway", "other_config", "is_connected", "role", "status",
        ],
    ),
    ("Flow_Table", &["name", "flow_limit", "overflow_policy", "groups", "prefixes"]),
    ("QoS", &["type", "queues", "other_config"]),
    ("Queue", &["dscp", "other_config"]),
    (
        "Mirror",
        &[
            "name", "select_all", "select_src_port", "select_dst_port", "select_vlan", "output_port",
            "output_vlan", "snaplen", "statistics",
        ],
    ),
    ("SSL", &["private_key", "certificate", "ca_cert", "bootstrap_ca_cert"]),
    ("Datapath", &["datapath_version", "ct_zones", "capabilities"]),
    ("CT_Zone", &["timeout_policy"]),
    ("CT_Timeout_Policy", &["timeouts"]),
];

/// A client's configuration that follows them all.
pub fn follow(config: Config) -> Config {
    FOLLOWED
        .iter()
        .fold(config, |config, (table, columns)| config.follow(table, columns.iter().copied()))
}
