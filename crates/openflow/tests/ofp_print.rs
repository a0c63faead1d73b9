//! `ovs-ofctl ofp-print` and `ofp-parse` as foreign readers of what we encode.
//!
//! Known messages must print as known text; random messages must be read without complaint but those
//! of `REFUSED_ON_PURPOSE`, which are about values and not about the form. Where
//! `ovs-ofctl` is not installed, the tests say so and pass.

use openflow::testing::{Rng, arbitrary};
use openflow::*;
use smallvec::smallvec;
use std::process::Command;

/// Runs `ovs-ofctl` with these arguments; none if it is not installed.
fn ofctl(args: &[&str]) -> Option<String> {
    match Command::new("ovs-ofctl").args(args).output() {
        Ok(output) => Some(
            String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr),
        ),
        Err(_) => {
            eprintln!("skipped: ovs-ofctl not installed");
            None
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Checks that the message prints with all of these texts.
fn prints(version: Version, message: &Message, texts: &[&str]) {
    let bytes = encode(version, Xid(0x12), message).expect("it can be said");
    let Some(printed) = ofctl(&["ofp-print", &hex(&bytes)]) else { return };
    for text in texts {
        assert!(printed.contains(text), "{text:?} is not in:\n{printed}");
    }
    assert!(!printed.contains("***"), "{printed}");
}

fn ip(fields: &[(FieldId, u128)]) -> Match {
    fields.iter().fold(Match::new().with(FieldId::EthType, 0x0800), |m, (id, v)| m.with(*id, *v))
}

fn flow(instructions: Instructions) -> FlowStats {
    FlowStats {
        table_id: TableId(3),
        age: Age { sec: 12, nsec: 345_000_000 },
        priority: 100,
        idle_timeout: 10,
        hard_timeout: 20,
        flags: FlowModFlags::empty(),
        importance: 0,
        cookie: 0x1234,
        packet_count: 7,
        byte_count: 700,
        uncounted: Default::default(),
        matching: ip(&[(FieldId::InPort, 1), (FieldId::IpProto, 6), (FieldId::TcpDst, 80)])
            .with_masked(FieldId::Ipv4Src, 0x0a00_0000, 0xff00_0000),
        instructions,
    }
}

fn reply(body: MultipartReplyBody) -> Message {
    Message::MultipartReply(MultipartReply { more: false, body })
}

fn port(version: Version) -> PortDesc {
    PortDesc {
        port_no: PortNo(1),
        hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
        name: "eth1".into(),
        config: PortConfig::PORT_DOWN,
        state: PortState::LINK_DOWN,
        curr: PortFeatures::GB10_FD | PortFeatures::COPPER,
        advertised: PortFeatures::empty(),
        supported: PortFeatures::AUTONEG,
        peer: PortFeatures::empty(),
        curr_speed: if version == Version::V10 { 0 } else { 10_000_000 },
        max_speed: 0,
    }
}

#[test]
fn flow_statistics() {
    let actions = vec![Action::output(PortNo(2)), Action::output(PortNo::CONTROLLER)];
    let texts =
        ["duration=12.345s", "table=3", "n_packets=7", "n_bytes=700", "priority=100", "tcp"];
    let body = |instructions| reply(MultipartReplyBody::Flow(vec![flow(instructions)]));
    for version in Version::ALL {
        let message = body(smallvec![Instruction::ApplyActions(actions.clone())]);
        prints(version, &message, &texts);
        prints(
            version,
            &message,
            &[
                "cookie=0x1234",
                "idle_timeout=10, hard_timeout=20",
                "in_port=1,nw_src=10.0.0.0/8,tp_dst=80 actions=output:2,CONTROLLER:65535",
            ],
        );
        prints(version, &body(smallvec![]), &["actions=drop"]);
    }
    let instructions: Instructions = smallvec![
        Instruction::Meter(MeterId(5)),
        Instruction::ApplyActions(vec![
            Action::PushVlan(0x8100),
            Action::set_field(FieldId::VlanVid, 0x1064),
            Action::DecNwTtl,
            Action::Group(GroupId(9)),
            Action::SetQueue(QueueId(4)),
        ]),
        Instruction::ClearActions,
        Instruction::WriteActions(vec![Action::PopMpls(0x0800)]),
        Instruction::WriteMetadata { value: 1, mask: 0xff },
        Instruction::GotoTable(TableId(4)),
    ];
    let mut entry = flow(instructions);
    entry.flags = FlowModFlags::SEND_FLOW_REM | FlowModFlags::NO_BYT_COUNTS;
    prints(
        Version::V13,
        &reply(MultipartReplyBody::Flow(vec![entry])),
        &[
            "send_flow_rem no_byte_counts",
            "meter:5,push_vlan:0x8100,set_field:4196->vlan_vid,dec_ttl,group:9,set_queue:4,\
             clear_actions,write_actions(pop_mpls:0x0800),write_metadata:0x1/0xff,goto_table:4",
        ],
    );
    let old = [
        Action::SetVlanVid(100),
        Action::SetVlanPcp(3),
        Action::PopVlan,
        Action::set_field(FieldId::EthSrc, 0x0200_0000_0001),
        Action::SetNwSrc(0x0a00_0001),
        Action::SetNwTos(32),
        Action::SetTpDst(53),
        Action::Enqueue { port: PortNo(2), queue: QueueId(1) },
    ];
    prints(
        Version::V10,
        &body(smallvec![Instruction::ApplyActions(old.to_vec())]),
        &["actions=mod_vlan_vid:100,mod_vlan_pcp:3,strip_vlan,mod_dl_src:02:00:00:00:00:01,\
           mod_nw_src:10.0.0.1,mod_nw_tos:32,mod_tp_dst:53,enqueue:2:1"],
    );
}

#[test]
fn matches() {
    let entry = |matching| {
        let mut entry = flow(smallvec![]);
        entry.matching = matching;
        reply(MultipartReplyBody::Flow(vec![entry]))
    };
    let arp = Match::new().with(FieldId::EthType, 0x0806).with(FieldId::ArpOp, 2).with_masked(
        FieldId::ArpTpa,
        0x0a00_0000,
        0xffff_0000,
    );
    let tagged = Match::new().with(FieldId::VlanVid, 0x1064).with(FieldId::VlanPcp, 3);
    for version in Version::ALL {
        prints(version, &entry(arp.clone()), &["arp,arp_tpa=10.0.0.0/16,arp_op=2 actions"]);
        prints(version, &entry(tagged.clone()), &["dl_vlan=100,dl_vlan_pcp=3 actions"]);
        let untagged = Match::new().with(FieldId::VlanVid, 0);
        prints(version, &entry(untagged), &["vlan_tci=0x0000"]);
        prints(version, &entry(ip(&[(FieldId::IpDscp, 8)])), &["ip,nw_tos=32 actions"]);
        let icmp = ip(&[(FieldId::IpProto, 1), (FieldId::Icmpv4Type, 8)]);
        prints(version, &entry(icmp), &["icmp,icmp_type=8 actions"]);
    }
    let v13 = |m: Match, text: &str| prints(Version::V13, &entry(m), &[text]);
    let v6 = || Match::new().with(FieldId::EthType, 0x86dd);
    let nd = v6()
        .with(FieldId::IpProto, 58)
        .with(FieldId::Icmpv6Type, 135)
        .with(FieldId::Ipv6NdTarget, 1)
        .with(FieldId::Ipv6NdSll, 0x0200_0000_0001);
    v13(nd, "icmp6,icmp_type=135,nd_target=::1,nd_sll=02:00:00:00:00:01 actions");
    v13(v6().with_masked(FieldId::Ipv6Flabel, 0x60, 0xf0), "ipv6_label=0x00060/0x000f0");
    v13(
        Match::new().with_masked(FieldId::VlanVid, 0x1000, 0x1000),
        "vlan_tci=0x1000/0x1000 actions",
    );
    v13(
        Match::new()
            .with(FieldId::Metadata, 5)
            .with(FieldId::TunnelId, 6)
            .with(FieldId::EthType, 0x8847)
            .with(FieldId::MplsLabel, 7)
            .with(FieldId::MplsTc, 1)
            .with(FieldId::MplsBos, 1),
        "mpls,tun_id=0x6,metadata=0x5,mpls_label=7,mpls_tc=1,mpls_bos=1 actions",
    );
}

#[test]
fn ports_and_features() {
    for version in Version::ALL {
        let desc = reply(MultipartReplyBody::PortDesc(vec![port(version)]));
        let texts = ["1(eth1): addr:02:00:00:00:00:01", "PORT_DOWN", "LINK_DOWN", "10GB-FD COPPER"];
        prints(version, &desc, &texts);
        prints(version, &desc, &["supported:  AUTO_NEG", "speed: 10000 Mbps now"]);
        let features = Features {
            datapath_id: 0x1_0203_0405_0607,
            n_buffers: 256,
            n_tables: 64,
            auxiliary_id: 0,
            capabilities: Capabilities::FLOW_STATS | Capabilities::QUEUE_STATS,
            actions: 0xfff,
            ports: if version == Version::V10 { vec![port(version)] } else { vec![] },
        };
        let texts =
            ["dpid:0001020304050607", "n_tables:64, n_buffers:256", "FLOW_STATS QUEUE_STATS"];
        prints(version, &Message::FeaturesReply(features), &texts);
        let status = PortStatus { reason: PortReason::Modify, desc: port(version) };
        prints(version, &Message::PortStatus(status), &["MOD: 1(eth1)"]);
        let config = SwitchConfig { fragments: FragmentHandling::Drop, miss_send_len: 99 };
        prints(version, &Message::GetConfigReply(config), &["frags=drop miss_send_len=99"]);
    }
}

#[test]
fn statistics() {
    let stats = PortStats {
        port_no: PortNo::LOCAL,
        rx_packets: 1,
        tx_packets: 2,
        rx_bytes: 3,
        tx_bytes: 4,
        rx_dropped: 5,
        tx_dropped: 6,
        rx_errors: 7,
        tx_errors: 8,
        rx_frame_err: 9,
        rx_over_err: u64::MAX,
        rx_crc_err: 11,
        collisions: 12,
        age: Age { sec: 1, nsec: 500_000_000 },
    };
    let desc = SwitchDesc {
        manufacturer: "maker".into(),
        hardware: "software".into(),
        software: "1.0".into(),
        serial: "none".into(),
        datapath: "edge".into(),
    };
    for version in Version::ALL {
        prints(
            version,
            &reply(MultipartReplyBody::PortStats(vec![stats])),
            &[
                "LOCAL: rx pkts=1, bytes=3, drop=5, errs=7, frame=9, over=?, crc=11",
                "tx pkts=2, bytes=4, drop=6, errs=8, coll=12",
            ],
        );
        prints(
            version,
            &reply(MultipartReplyBody::Desc(Box::new(desc.clone()))),
            &["Manufacturer: maker", "Software: 1.0", "DP Description: edge"],
        );
        let sums = AggregateStats { packet_count: 1, byte_count: 2, flow_count: 3 };
        prints(
            version,
            &reply(MultipartReplyBody::Aggregate(sums)),
            &["packet_count=1 byte_count=2 flow_count=3"],
        );
        let queue = QueueStats {
            port_no: PortNo(1),
            queue_id: QueueId(2),
            tx_bytes: 3,
            tx_packets: 4,
            tx_errors: 5,
            age: PortStats::NO_AGE,
        };
        prints(
            version,
            &reply(MultipartReplyBody::Queue(vec![queue])),
            &["port 1 queue 2: bytes=3, pkts=4, errors=5"],
        );
        let table = TableStats {
            table_id: TableId(0),
            active_count: 11,
            lookup_count: 22,
            matched_count: 33,
            name: "first".into(),
            wildcards: 0x3f_ffff,
            max_entries: 1000,
        };
        prints(
            version,
            &reply(MultipartReplyBody::Table(vec![table])),
            &["active=11, lookup=22, matched=33"],
        );
    }
    prints(Version::V13, &reply(MultipartReplyBody::PortStats(vec![stats])), &["duration=1.500s"]);
}

#[test]
fn groups_and_meters() {
    let bucket = Bucket {
        id: BucketId(0),
        weight: 3,
        watch_port: PortNo::ANY,
        watch_group: GroupId::ANY,
        actions: vec![Action::output(PortNo(2))],
    };
    let v13 = |body, texts: &[&str]| prints(Version::V13, &reply(body), texts);
    let desc = GroupDesc {
        group_type: GroupType::Select,
        group_id: GroupId(7),
        selection: None,
        buckets: vec![bucket],
    };
    v13(
        MultipartReplyBody::GroupDesc(vec![desc]),
        &["group_id=7,type=select", "weight:3,actions=output:2"],
    );
    let stats = GroupStats {
        group_id: GroupId(7),
        ref_count: 2,
        packet_count: 3,
        byte_count: 4,
        age: Age { sec: 5, nsec: 0 },
        buckets: vec![BucketStats { packet_count: 3, byte_count: 4 }],
    };
    v13(
        MultipartReplyBody::Group(vec![stats]),
        &[
            "group_id=7,duration=5s,ref_count=2,packet_count=3,byte_count=4",
            "bucket0:packet_count=3,byte_count=4",
        ],
    );
    let features = GroupFeatures {
        types: 0b1111,
        capabilities: GroupCapabilities::SELECT_WEIGHT | GroupCapabilities::CHAINING,
        max_groups: [10, 20, 30, 40],
        actions: [1 << 0 | 1 << 25; 4],
    };
    v13(
        MultipartReplyBody::GroupFeatures(features),
        &["Types:  0xf", "Capabilities:  0x5", "max_groups=0x14", "actions: output set_field"],
    );
    let bands = vec![
        Band { rate: 100, burst_size: 10, kind: BandKind::Drop },
        Band { rate: 200, burst_size: 0, kind: BandKind::DscpRemark { prec_level: 1 } },
    ];
    let config =
        MeterConfig { flags: MeterFlags::KBPS | MeterFlags::BURST, meter_id: MeterId(8), bands };
    v13(
        MultipartReplyBody::MeterConfig(vec![config]),
        &["meter=8 kbps burst bands=", "type=drop rate=100 burst_size=10", "prec_level=1"],
    );
    let stats = MeterStats {
        meter_id: MeterId(8),
        flow_count: 1,
        packet_in_count: 2,
        byte_in_count: 3,
        age: Age { sec: 4, nsec: 0 },
        bands: vec![BandStats { packet_count: 5, byte_count: 6 }],
    };
    v13(
        MultipartReplyBody::Meter(vec![stats]),
        &["meter:8 flow_count:1 packet_in_count:2 byte_in_count:3 duration:4s", "packet_count:5"],
    );
    let features = MeterFeatures {
        features: 0,
        max_meter: 1000,
        band_types: 0b110,
        capabilities: 0xf,
        max_bands: 8,
        max_color: 2,
    };
    v13(
        MultipartReplyBody::MeterFeatures(features),
        &["max_meter:1000 max_bands:8 max_color:2", "drop dscp_remark", "kbps pktps burst stats"],
    );
}

#[test]
fn table_features() {
    let fields = |masked| {
        vec![OxmHeader::of(FieldId::EthDst, masked), OxmHeader::of(FieldId::InPort, false)]
    };
    let types = vec![ActionType::Output, ActionType::Group];
    let mut properties =
        vec![TableProperty::Match(fields(true)), TableProperty::Wildcards(fields(false))];
    for miss in [false, true] {
        properties.extend([
            TableProperty::Instructions {
                miss,
                types: vec![InstructionType::GotoTable, InstructionType::ApplyActions],
            },
            TableProperty::NextTables { miss, tables: vec![TableId(1), TableId(2)] },
            TableProperty::WriteActions { miss, types: types.clone() },
            TableProperty::ApplyActions { miss, types: types.clone() },
            TableProperty::WriteSetField { miss, fields: fields(false) },
            TableProperty::ApplySetField { miss, fields: fields(false) },
        ]);
    }
    let table = TableFeatures {
        command: 0,
        features: 0,
        table_id: TableId(0),
        name: "first".into(),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        config: 0,
        max_entries: 1000,
        properties,
    };
    prints(
        Version::V13,
        &reply(MultipartReplyBody::TableFeatures(vec![table])),
        &[
            "table 0 (\"first\")",
            "metadata: match=0xffffffffffffffff write=0xffffffffffffffff",
            "max_entries=1000",
            "next tables: 1-2",
            "instructions: apply_actions goto_table",
            "actions: output group",
            "arbitrary mask: eth_dst",
            "supported on Set-Field: in_port_oxm eth_dst",
        ],
    );
}

#[test]
fn packets_removals_and_the_rest() {
    for version in Version::ALL {
        let packet = PacketIn {
            buffer_id: None,
            total_len: 60,
            reason: PacketInReason::Action,
            table_id: TableId(0),
            cookie: if version == Version::V10 { PacketIn::NO_COOKIE } else { 5 },
            matching: Match::new().with(FieldId::InPort, 3),
            data: vec![0; 60],
            userdata: Vec::new(),
            continuation: Vec::new(),
        };
        prints(
            version,
            &Message::PacketIn(packet),
            &["total_len=60", "in_port=3 (via action) data_len=60 (unbuffered)"],
        );
        let removed = FlowRemoved {
            cookie: 9,
            priority: 100,
            reason: FlowRemovedReason::IdleTimeout,
            table_id: TableId(0),
            age: Age { sec: 1, nsec: 0 },
            idle_timeout: 10,
            hard_timeout: 0,
            packet_count: 3,
            byte_count: 180,
            uncounted: Default::default(),
            matching: ip(&[]),
        };
        prints(
            version,
            &Message::FlowRemoved(removed),
            &["reason=idle", "cookie:0x9 duration1s idle10", "pkts3 bytes180", "priority=100,ip"],
        );
        prints(version, &Message::BarrierReply, &["OFPT_BARRIER_REPLY"]);
        prints(version, &Message::EchoReply(vec![1, 2, 3]), &["3 bytes of payload"]);
        let hello = Hello { versions: Some(VersionSet::of(&Version::ALL)) };
        prints(version, &Message::Hello(hello), &["version bitmap: 0x01, 0x04"]);
        let queues = QueueConfigReply {
            port_no: PortNo(1),
            queues: vec![QueueConfig {
                queue_id: QueueId(2),
                port_no: PortNo(1),
                properties: vec![QueueProperty::MinRate(500)],
            }],
        };
        if version >= Version::V14 {
            continue;
        }
        prints(
            version,
            &Message::QueueGetConfigReply(queues),
            &["OFPT_QUEUE_GET_CONFIG_REPLY", "port=1", "queue 2: min_rate:50.0%"],
        );
    }
    let role = RoleMessage { role: Role::Slave, short_id: 0, generation_id: 77 };
    prints(Version::V13, &Message::RoleReply(role), &["role=secondary generation_id=77"]);
    prints(
        Version::V13,
        &Message::GetAsyncReply(AsyncConfig::DEFAULT),
        &["PACKET_IN: no_match action", "FLOW_REMOVED: idle hard delete group_delete"],
    );
}

#[test]
fn errors_have_their_names() {
    for version in Version::ALL {
        for &code in ErrorCode::ALL {
            if code.exact_wire(version).is_none() {
                continue;
            }
            let request = encode(version, Xid(0x12), &Message::BarrierRequest).unwrap();
            let answer = Message::Error(ErrorMessage::refuse(code, &request));
            let bytes = encode(version, Xid(0x12), &answer).unwrap();
            let Some(printed) = ofctl(&["ofp-print", &hex(&bytes)]) else { return };
            // Open vSwitch renamed one, and keeps one name for what 1.0 calls otherwise.
            let name = match code {
                ErrorCode::BrcBadMultipart => "OFPBRC_BAD_STAT",
                ErrorCode::BrcIsSlave => "OFPBRC_IS_SECONDARY",
                ErrorCode::FmfcBadTimeout if version == Version::V10 => "OFPFMFC_BAD_EMERG_TIMEOUT",
                ErrorCode::BrcBadExperimenter => "OFPBRC_BAD_VENDOR",
                ErrorCode::BrcBadExpType => "OFPBRC_BAD_SUBTYPE",
                ErrorCode::BacBadExperimenter => "OFPBAC_BAD_VENDOR",
                ErrorCode::BacBadExpType => "OFPBAC_BAD_VENDOR_TYPE",
                // 1.4's names for the same pairs.
                ErrorCode::TffcBadType => "OFPBPC_BAD_TYPE",
                ErrorCode::TffcBadLen => "OFPBPC_BAD_LEN",
                ErrorCode::TffcBadArgument => "OFPBPC_BAD_VALUE",
                code => code.name(),
            };
            assert!(printed.contains(name), "{version} {code}: {printed}");
        }
    }
}

/// Complaints about random values that are no fault of the encoding: experimenters and emergency
/// entries that Open vSwitch has not, lengths that do not fit the data, ports that are not there.
const REFUSED_ON_PURPOSE: &[&str] = &[
    "BAD_VENDOR",
    "BAD_EXPERIMENTER",
    "BAD_EMERG_TIMEOUT",
    // A conjunction beside other actions.
    "BAD_CONJUNCTION",
    "unknown flags 0x0001",
    "total_len != data_len",
    "truncated to",
    "OFPQOFC_BAD_PORT",
    "OFPBAC_BAD_OUT_PORT",
    "OFPBRC_BAD_PORT",
    "OFPGMFC_BAD_WATCH",
    "OFPGMFC_INVALID_GROUP",
    // PBB, extension headers, in_phy_port, ports beyond 16 bits in matches, set_field of dl_type.
    "OFPBAC_BAD_TYPE",
    "OFPBAC_BAD_SET_TYPE",
    "OFPBAC_BAD_SET_LEN",
    "OFPBAC_BAD_SET_ARGUMENT",
    "OFPBMC_BAD_FIELD",
    "OFPBMC_BAD_VALUE",
    // Neighbour discovery with a code other than 0.
    "OFPBMC_BAD_PREREQ",
    // What a flow or a table's features must hold beyond their form.
    "OFPFMFC_BAD_TABLE_ID",
    "OFPBIC_BAD_TABLE_ID",
    "OFPBAC_MATCH_INCONSISTENT",
    "OFPTFFC_BAD_FEATURES",
    // Masks of fields that take none in table features, configuration bits that are not known.
    "OFPBMC_BAD_MASK",
    "eviction=***error***",
    // Masks of 1.5 that Open vSwitch has not, places of buckets, commands and flags of no meaning, a
    // packet type beside an Ethernet type.
    "OFPACFC_UNSUPPORTED",
    "OFPGMFC_BAD_BUCKET",
    "OFPGMFC_WATCH_UNSUPPORTED",
    "OFPTFFC_BAD_COMMAND",
    "OFPMOFC_BAD_FLAGS",
    "OFPBMC_DUP_FIELD",
];

/// Whether Open vSwitch has no reader for it: experimenters' messages and bands, replies
/// about no table at all, stat-triggers, and what is told of controllers and by two multipart types of 1.5.
fn has_no_reader(message: &Message) -> bool {
    let foreign = |bands: &[Band]| {
        bands.iter().any(|band| matches!(band.kind, BandKind::Experimenter { .. }))
    };
    let triggers = |instructions: &[Instruction]| {
        instructions.iter().any(|i| matches!(i, Instruction::StatTrigger(_)))
    };
    match message {
        Message::Experimenter(_) | Message::ControllerStatus(_) => true,
        Message::FlowMod(request) => triggers(&request.instructions),
        Message::MultipartRequest(request) => matches!(
            request.body,
            MultipartRequestBody::FlowCounts(_)
                | MultipartRequestBody::BundleFeatures(_)
                | MultipartRequestBody::ControllerStatus
        ),
        Message::MeterMod(meter) => foreign(&meter.bands),
        Message::RequestForward(forward) => match &forward.request {
            ForwardedRequest::Meter(meter) => foreign(&meter.bands),
            ForwardedRequest::Group(_) => false,
        },
        Message::MultipartReply(reply) => match &reply.body {
            MultipartReplyBody::MeterConfig(meters) => meters.iter().any(|m| foreign(&m.bands)),
            MultipartReplyBody::TableFeatures(tables) => tables.is_empty(),
            MultipartReplyBody::TableDesc(tables) => tables.is_empty(),
            MultipartReplyBody::Flow(flows) => flows.iter().any(|f| triggers(&f.instructions)),
            MultipartReplyBody::FlowMonitor(updates) => updates.iter().any(|u| match u {
                FlowUpdate::Full(full) => triggers(&full.instructions),
                _ => false,
            }),
            MultipartReplyBody::FlowCounts(_)
            | MultipartReplyBody::BundleFeatures(_)
            | MultipartReplyBody::ControllerStatus(_) => true,
            MultipartReplyBody::MeterFeatures(features) => features.features != 0,
            _ => false,
        },
        _ => false,
    }
}

/// Nicira's packet-ins of properties, which carry what the action says.
#[test]
fn packet_ins_of_format_2() {
    for version in Version::ALL {
        let packet = PacketIn {
            buffer_id: None,
            total_len: 60,
            reason: PacketInReason::Action,
            table_id: TableId(7),
            cookie: 5,
            matching: Match::new().with(FieldId::InPort, 3).with(FieldId::Metadata, 0x77),
            data: vec![0; 60],
            userdata: vec![1, 2, 0xff],
            continuation: vec![7; 9],
        };
        let mut file = Vec::new();
        openflow::codec::encode_packet_in2(&mut file, version, Xid(1), &packet).unwrap();
        let name = format!("openflow-in2-{}-{version}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, &file).unwrap();
        let printed = ofctl(&["ofp-parse", path.to_str().unwrap()]);
        std::fs::remove_file(&path).unwrap();
        let Some(printed) = printed else { return };
        for part in [
            "NXT_PACKET_IN2",
            "table_id=7 cookie=0x5 total_len=60 metadata=0x77,in_port=3 (via action) data_len=60",
            "userdata=01.02.ff",
        ] {
            assert!(printed.contains(part), "{version}: {part:?} is not in {printed}");
        }
        // Readers take the continuation apart before they print the packet, though nothing in it is for them.
        assert!(!printed.contains("decode error"), "{version}: {printed}");
        // Too long for any message: nothing is left in the buffer.
        let long = PacketIn { data: vec![0; 70_000], ..packet };
        let before = file.len();
        let done = openflow::codec::encode_packet_in2(&mut file, version, Xid(1), &long);
        assert!(done.is_err() && file.len() == before);
    }
}

#[test]
fn random_messages_are_read() {
    for version in Version::ALL {
        let mut rng = Rng::new(42);
        let (mut file, mut all) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            let mut message = arbitrary::message(&mut rng, version);
            if let Message::Error(error) = &mut message {
                // It must be known and hold a request.
                error.kind = ErrorKind::Code(ErrorCode::BrcBadType);
                error.data = encode(version, Xid(1), &Message::BarrierRequest).unwrap();
            }
            if !has_no_reader(&message) {
                encode_into(&mut file, version, Xid(1), &message).unwrap();
                all.push(message);
            }
        }
        let path = std::env::temp_dir().join(format!("openflow-{}-{version}", std::process::id()));
        std::fs::write(&path, &file).unwrap();
        let printed = ofctl(&["ofp-parse", path.to_str().unwrap()]);
        std::fs::remove_file(&path).unwrap();
        let Some(printed) = printed else { return };
        let complains = |printed: &str| -> Vec<String> {
            // An experimenter's bytes are shown as they are, which may be asterisks.
            let is_dump = |l: &str| {
                let head = l.as_bytes().split_first_chunk::<8>();
                head.is_some_and(|(at, rest)| {
                    at.iter().all(u8::is_ascii_hexdigit) && rest.starts_with(b"  ")
                })
            };
            let wrong = |l: &&str| {
                l.contains("***")
                    && !is_dump(l)
                    && !REFUSED_ON_PURPOSE.iter().any(|r| l.contains(r))
            };
            printed.lines().filter(wrong).map(str::to_owned).collect()
        };
        let complaints = complains(&printed);
        if complaints.is_empty() {
            continue;
        }
        // Which message it is about shows one by one.
        let first = all.iter().find(|message| {
            let bytes = encode(version, Xid(1), message).unwrap();
            ofctl(&["ofp-print", &hex(&bytes)]).is_some_and(|p| !complains(&p).is_empty())
        });
        panic!("{} complaints: {}\n{first:?}", complaints.len(), complaints.join("\n"));
    }
}
