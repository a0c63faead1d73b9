//! What refusals say, word for word.

use crate::refusal::Refusal;
use crate::refusal::Refusal::*;
use openflow::{ErrorCode, FieldId, MacAddr, MatchError, PortNo};

#[test]
fn texts() {
    let port = PortNo(9);
    let texts: &[(Refusal, &str)] = &[
        (
            TableFull { table: 3, capacity: 4096 },
            "table 3 is full: 4096 of 4096 entries; delete some (OFPFMFC_TABLE_FULL)",
        ),
        (
            Goto { from: 3, to: 2, tables: 254 },
            "goto table 2 from table 3: the target must be a later table, below 254 (OFPBIC_BAD_TABLE_ID)",
        ),
        (
            FlowTable { table: 255, tables: 254 },
            "there is no table 255 for a flow entry; tables are 0 to 253, and 255 in a delete only (OFPFMFC_BAD_TABLE_ID)",
        ),
        (
            Overlap { table: 0, priority: 5 },
            "table 0 has an entry of priority 5 that overlaps this one; use another priority or leave CHECK_OVERLAP out (OFPFMFC_OVERLAP)",
        ),
        (
            OutPort { port: PortNo::TABLE, max: 65279 },
            "output to port TABLE: ports are 1 to 65279 and the reserved ones that take output; TABLE only in a packet-out (OFPBAC_BAD_OUT_PORT)",
        ),
        (OutGroup { group: 4 }, "group 4 does not exist; add it first (OFPBAC_BAD_OUT_GROUP)"),
        (
            Inconsistent {
                action: "set_field of ipv4_src".to_owned(),
                needs: FieldId::Ipv4Src.info().prerequisites[0],
            },
            "set_field of ipv4_src needs eth_type=0x0800 in the match or by an earlier action (OFPBAC_MATCH_INCONSISTENT)",
        ),
        (
            SetArgument { field: FieldId::VlanVid, value: 5 },
            "set-field cannot make vlan_vid 0x5: it has 13 bits, of which 0x1000 is set (OFPBAC_BAD_SET_ARGUMENT)",
        ),
        (
            SetArgument { field: FieldId::IpDscp, value: 64 },
            "set-field cannot make ip_dscp 0x40: it has 6 bits (OFPBAC_BAD_SET_ARGUMENT)",
        ),
        (
            EtherType { action: "push_vlan", ether_type: 0x800, right: "0x8100 or 0x88a8" },
            "push_vlan with EtherType 0x0800: 0x8100 or 0x88a8 is right (OFPBAC_BAD_ARGUMENT)",
        ),
        (
            ChainedGroup { group: 1, by: 2 },
            "group 2 leads to group 1; change it first, or delete all (OFPGMFC_CHAINED_GROUP)",
        ),
        (
            MeterNumber { meter: 0xffff_fffe },
            "0xfffffffe is no number of a meter; 1 to 0xffff0000 are (OFPMMFC_INVALID_METER)",
        ),
        (
            HwAddr { port, given: MacAddr([0; 6]), right: MacAddr([1; 6]) },
            "port 9 has address 01:01:01:01:01:01, not 00:00:00:00:00:00 (OFPPMFC_BAD_HW_ADDR)",
        ),
        (
            BufferUnknown { buffer: 16 },
            "buffer 0x10 is not known: this switch keeps no packets; send the packet itself (OFPBRC_BUFFER_UNKNOWN)",
        ),
        (
            Match(MatchError::Duplicate { field: FieldId::EthType }),
            "field eth_type is there twice; once is right (OFPBMC_DUP_FIELD)",
        ),
    ];
    for (refusal, text) in texts {
        assert_eq!(refusal.to_string(), *text);
    }
}

#[test]
fn texts_name_the_code() {
    let port = PortNo(1);
    let all = [
        MultipartMore,
        InPort { port },
        BadPacket { bytes: 3 },
        StatsPort { port },
        RequestTable { table: 9, tables: 8 },
        Cookie,
        InstructionTwice { name: "meter" },
        InstructionExperimenter { experimenter: 1 },
        UnknownMeter { meter: 1 },
        Queue { queue: 1 },
        SetType { field: FieldId::InPort },
        SetMask { field: FieldId::EthDst },
        NoSuchHeader { action: "pop_vlan", needs: "a VLAN tag" },
        Argument { action: "set_vlan_pcp", value: 9, right: "0 to 7" },
        ActionExperimenter { experimenter: 1 },
        NotInSet { action: "enqueue" },
        TooMany { actions: 2, max: 1 },
        GroupExists { group: 1 },
        GroupNumber { group: 1 },
        Indirect { group: 1, buckets: 2 },
        NoWeight { group: 1 },
        Weight { group: 1, weight: 2 },
        Unwatched { group: 1 },
        WatchUnsupported { group: 1 },
        BadWatch { group: 1, watch: "port 0".to_owned() },
        OutOfGroups { max: 1 },
        OutOfBuckets { group: 1, buckets: 2, max: 1 },
        GroupLoop { group: 1 },
        GroupDepth { group: 1, max: 8 },
        UnknownGroup { group: 1 },
        MeterExists { meter: 1 },
        MeterFlags,
        BandRate { meter: 1 },
        BandKind { experimenter: 1 },
        OutOfBands { meter: 1, bands: 2, max: 1 },
        OutOfMeters { max: 1 },
        NoPort { port },
        PortConfig { port, bits: 1 },
        Advertise { port },
        PortRefused { port, reason: "busy".to_owned() },
        QueuePort { port },
        NoQueue { port, queue: 1 },
        NoTable { table: 9, tables: 8 },
        TableConfig { bits: 4 },
        FeaturesTable { table: 9, tables: 8 },
        FeaturesCommand { command: 4 },
        FeaturesFlags { table: 1, flags: 4, right: "3" },
        FeaturesCapabilities { table: 1, bits: 1 },
        FeaturesSize { table: 1, entries: 0, least: 1, most: 9 },
        FeaturesProperty { table: 1, property: "match", what: "in_port".to_owned() },
        FeaturesTwice { table: 1, property: "match" },
        FeaturesStay { table: 0, why: "packets begin there" },
        Stage { from: 1, to: 2 },
        EgressSet { action: "output" },
        Fragments,
        Experimenter { experimenter: 1 },
        NotARequest { name: "OFPT_HELLO" },
    ];
    for refusal in all {
        let text = refusal.to_string();
        assert!(text.contains(refusal.code().name()), "{text}: {}", refusal.code());
    }
    // 1.0 has names of its own for these two.
    assert_eq!(EmergencyFull { max: 1 }.code(), ErrorCode::FmfcTableFull);
    assert_eq!(EmergencyTimeout.code(), ErrorCode::FmfcBadTimeout);
}
