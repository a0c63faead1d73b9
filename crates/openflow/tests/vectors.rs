//! Messages that an independent encoder (os-ken) wrote, against the same messages in the neutral
//! form: each must decode to it, and it must encode to the same bytes.
//!
//! `vectors/make.py` wrote `vectors/messages.txt`.

use openflow::action::SetField;
use openflow::*;
use smallvec::smallvec;
use std::collections::HashMap;

const XID: Xid = Xid(0x1234);

fn vectors() -> HashMap<(&'static str, Version), Vec<u8>> {
    include_str!("vectors/messages.txt")
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let mut next = || words.next().expect("three words in each line");
            let name = next();
            let version = Version::from_wire(next().parse().unwrap()).unwrap();
            let hex = next();
            let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            ((name, version), (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

fn set(field: FieldId, value: u128) -> Action {
    Action::SetField(SetField { field, value, mask: None })
}

fn multipart(body: MultipartRequestBody) -> Message {
    Message::MultipartRequest(MultipartRequest { more: false, body })
}

fn messages_13() -> Vec<(&'static str, Message)> {
    let actions = vec![
        Action::PushVlan(0x8100),
        set(FieldId::VlanVid, 0x1064),
        set(FieldId::EthDst, 0x0200_0000_0007),
        set(FieldId::Ipv6Dst, 0x2001_0db8_0000_0000_0000_0000_0000_0001),
        set(FieldId::PbbIsid, 0x12_3456),
        Action::PushMpls(0x8847),
        Action::PopMpls(0x0800),
        Action::PushPbb(0x88e7),
        Action::PopPbb,
        Action::PopVlan,
        Action::SetMplsTtl(9),
        Action::DecMplsTtl,
        Action::SetNwTtl(8),
        Action::DecNwTtl,
        Action::CopyTtlOut,
        Action::CopyTtlIn,
        Action::SetQueue(QueueId(5)),
        Action::Group(GroupId(6)),
        Action::Output { port: PortNo(2), max_len: 100 },
    ];
    let flow_mod = FlowMod {
        dialect: Version::V13,
        cookie: 1,
        cookie_mask: 2,
        table_id: TableId(3),
        command: FlowModCommand::ModifyStrict,
        idle_timeout: 4,
        hard_timeout: 5,
        priority: 6,
        buffer_id: None,
        out_port: PortNo(7),
        out_group: GroupId(8),
        flags: FlowModFlags::SEND_FLOW_REM | FlowModFlags::NO_PKT_COUNTS,
        importance: 0,
        extended: false,
        uncounted: Default::default(),
        new_cookie: None,
        matching: Match::new()
            .with(FieldId::InPort, 1)
            .with(FieldId::EthType, 0x0800)
            .with(FieldId::IpProto, 6)
            .with_masked(FieldId::Ipv4Src, 0x0a01_0000, 0xffff_0000)
            .with(FieldId::TcpDst, 80),
        instructions: smallvec![
            Instruction::Meter(MeterId(3)),
            Instruction::ApplyActions(actions),
            Instruction::ClearActions,
            Instruction::WriteActions(vec![Action::output(PortNo::CONTROLLER)]),
            Instruction::WriteMetadata { value: 0x11, mask: 0xff },
            Instruction::GotoTable(TableId(7)),
        ],
    };
    let wide = Match::new()
        .with(FieldId::InPort, 1)
        .with(FieldId::InPhyPort, 2)
        .with_masked(FieldId::Metadata, 3, 0xff)
        .with_masked(FieldId::EthDst, 0x0200_0000_0000, 0xff00_0000_0000)
        .with(FieldId::EthSrc, 0x0200_0000_0001)
        .with(FieldId::EthType, 0x86dd)
        .with_masked(FieldId::VlanVid, 0x1000, 0x1000)
        .with(FieldId::VlanPcp, 5)
        .with(FieldId::IpDscp, 10)
        .with(FieldId::IpEcn, 1)
        .with(FieldId::IpProto, 58)
        .with(FieldId::Ipv6Src, 0x2001_0db8_0000_0000_0000_0000_0000_0001)
        .with_masked(FieldId::Ipv6Dst, 0x2001_0db8 << 96, 0xffff_ffff << 96)
        .with_masked(FieldId::Ipv6Flabel, 0x60, 0xf0)
        .with(FieldId::Icmpv6Type, 135)
        .with(FieldId::Icmpv6Code, 0)
        .with(FieldId::Ipv6NdTarget, 0xfe80 << 112 | 1)
        .with(FieldId::Ipv6NdSll, 0x0200_0000_0002)
        .with_masked(FieldId::TunnelId, 0x3000, 0xff00)
        .with_masked(FieldId::Ipv6Exthdr, 0x40, 0x1f0);
    let bucket = |id, watch_port, watch_group, action| Bucket {
        id: BucketId(id),
        weight: 0,
        watch_port,
        watch_group,
        actions: vec![action],
    };
    let group_mod = GroupMod {
        command: GroupModCommand::Add,
        group_type: GroupType::FastFailover,
        group_id: GroupId(9),
        command_bucket: BucketId::ALL,
        selection: None,
        buckets: vec![
            bucket(0, PortNo(1), GroupId::ANY, Action::Output { port: PortNo(1), max_len: 0 }),
            bucket(1, PortNo::ANY, GroupId(4), Action::Group(GroupId(4))),
        ],
    };
    let meter_mod = MeterMod {
        command: MeterModCommand::Add,
        flags: MeterFlags::PKTPS | MeterFlags::STATS,
        meter_id: MeterId(5),
        bands: vec![
            Band { rate: 1000, burst_size: 10, kind: BandKind::Drop },
            Band { rate: 500, burst_size: 5, kind: BandKind::DscpRemark { prec_level: 1 } },
        ],
    };
    let features = TableFeatures {
        command: 0,
        features: 0,
        table_id: TableId(1),
        name: "acl".into(),
        metadata_match: 1,
        metadata_write: 2,
        config: 0,
        max_entries: 100,
        properties: vec![
            TableProperty::Instructions { miss: false, types: vec![InstructionType::GotoTable] },
            TableProperty::NextTables { miss: true, tables: (2..7).map(TableId).collect() },
            TableProperty::WriteActions {
                miss: false,
                types: vec![ActionType::Output, ActionType::SetField],
            },
            // os-ken leaves the payload length out of a listed header.
            TableProperty::Match(vec![OxmHeader(0x8000_0700)]),
        ],
    };
    vec![
        ("flow_mod", Message::FlowMod(flow_mod)),
        (
            "wide_match",
            multipart(MultipartRequestBody::Flow(FlowStatsRequest {
                matching: wide,
                ..FlowStatsRequest::all()
            })),
        ),
        ("group_mod", Message::GroupMod(group_mod)),
        ("meter_mod", Message::MeterMod(meter_mod)),
        (
            "packet_out",
            Message::PacketOut(PacketOut {
                buffer_id: None,
                in_port: PortNo::CONTROLLER,
                pipeline: Match::new(),
                actions: vec![Action::Output { port: PortNo::FLOOD, max_len: 0 }],
                data: vec![1, 2, 3],
            }),
        ),
        (
            "port_mod",
            Message::PortMod(PortMod {
                port_no: PortNo(3),
                hw_addr: MacAddr([2, 0, 0, 0, 0, 3]),
                config: PortConfig::PORT_DOWN,
                mask: PortConfig::PORT_DOWN | PortConfig::NO_FWD,
                advertise: PortFeatures::AUTONEG,
            }),
        ),
        (
            "table_mod",
            Message::TableMod(TableMod {
                table_id: TableId(1),
                config: 3,
                eviction: None,
                vacancy: None,
            }),
        ),
        (
            "set_config",
            Message::SetConfig(SwitchConfig {
                fragments: FragmentHandling::Reassemble,
                miss_send_len: 200,
            }),
        ),
        (
            "role_request",
            Message::RoleRequest(RoleMessage {
                role: Role::Master,
                short_id: RoleMessage::NO_ID,
                generation_id: 0x1122_3344_5566_7788,
            }),
        ),
        (
            "set_async",
            Message::SetAsync(AsyncChange::all(
                Version::V13,
                &AsyncConfig::default()
                    .with(AsyncKind::PacketIn, [1, 2])
                    .with(AsyncKind::PortStatus, [3, 4])
                    .with(AsyncKind::FlowRemoved, [5, 6]),
            )),
        ),
        (
            "queue_get_config",
            Message::QueueGetConfigRequest(QueueConfigRequest { port_no: PortNo(4) }),
        ),
        ("barrier", Message::BarrierRequest),
        ("echo", Message::EchoRequest(b"abc".to_vec())),
        ("hello", Message::Hello(Hello { versions: None })),
        (
            "error",
            Message::Error(ErrorMessage {
                kind: ErrorKind::Code(ErrorCode::BmcDupField),
                data: vec![b'x'; 64],
            }),
        ),
        (
            "experimenter",
            Message::Experimenter(Experimenter {
                experimenter: 0x2320,
                exp_type: Some(10),
                data: b"data".to_vec(),
            }),
        ),
        ("port_stats", multipart(MultipartRequestBody::PortStats(PortNo::ANY))),
        (
            "queue_stats",
            multipart(MultipartRequestBody::Queue(QueueStatsRequest {
                port_no: PortNo(1),
                queue_id: QueueId::ALL,
            })),
        ),
        ("group_stats", multipart(MultipartRequestBody::Group(GroupId::ALL))),
        ("meter_config", multipart(MultipartRequestBody::MeterConfig(MeterId::ALL))),
        ("table_features", multipart(MultipartRequestBody::TableFeatures(vec![features]))),
    ]
}

fn messages_10() -> Vec<(&'static str, Message)> {
    let matching = Match::new()
        .with(FieldId::InPort, 1)
        .with(FieldId::EthSrc, 0x0200_0000_0001)
        .with(FieldId::VlanVid, 0x1064)
        .with(FieldId::VlanPcp, 3)
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::IpDscp, 8)
        .with(FieldId::IpProto, 17)
        .with_masked(FieldId::Ipv4Src, 0x0a01_0000, 0xffff_0000)
        .with_masked(FieldId::Ipv4Dst, 0x0a02_0300, 0xffff_ff00)
        .with(FieldId::UdpDst, 53);
    let actions = vec![
        Action::SetVlanVid(200),
        Action::SetVlanPcp(5),
        Action::PopVlan,
        set(FieldId::EthSrc, 0x0200_0000_0005),
        set(FieldId::EthDst, 0x0200_0000_0006),
        Action::SetNwSrc(0x0a00_0001),
        Action::SetNwDst(0x0a00_0002),
        Action::SetNwTos(40),
        Action::SetTpSrc(1),
        Action::SetTpDst(2),
        Action::Enqueue { port: PortNo(3), queue: QueueId(4) },
        Action::Output { port: PortNo::CONTROLLER, max_len: 128 },
    ];
    let flow_mod = FlowMod {
        dialect: Version::V10,
        cookie: 1,
        cookie_mask: 0,
        table_id: TableId::ALL,
        command: FlowModCommand::Add,
        idle_timeout: 2,
        hard_timeout: 3,
        priority: 4,
        buffer_id: Some(BufferId(5)),
        out_port: PortNo::ANY,
        out_group: GroupId::ANY,
        flags: FlowModFlags::CHECK_OVERLAP,
        importance: 0,
        extended: false,
        uncounted: Default::default(),
        new_cookie: None,
        matching: matching.clone(),
        instructions: smallvec![Instruction::ApplyActions(actions)],
    };
    vec![
        ("flow_mod", Message::FlowMod(flow_mod)),
        (
            "packet_out",
            Message::PacketOut(PacketOut {
                buffer_id: None,
                in_port: PortNo::ANY,
                pipeline: Match::new(),
                actions: vec![Action::Output { port: PortNo(2), max_len: 0 }],
                data: vec![1, 2],
            }),
        ),
        (
            "flow_stats",
            multipart(MultipartRequestBody::Flow(FlowStatsRequest {
                matching,
                ..FlowStatsRequest::all()
            })),
        ),
        ("port_stats", multipart(MultipartRequestBody::PortStats(PortNo::ANY))),
        (
            "queue_stats",
            multipart(MultipartRequestBody::Queue(QueueStatsRequest {
                port_no: PortNo::ANY,
                queue_id: QueueId::ALL,
            })),
        ),
        (
            "port_mod",
            Message::PortMod(PortMod {
                port_no: PortNo(3),
                hw_addr: MacAddr([2, 0, 0, 0, 0, 3]),
                config: PortConfig::NO_FLOOD,
                mask: PortConfig::NO_FLOOD,
                advertise: PortFeatures::AUTONEG,
            }),
        ),
        (
            "vendor",
            Message::Experimenter(Experimenter {
                experimenter: 0x2320,
                exp_type: None,
                data: b"data".to_vec(),
            }),
        ),
        ("barrier", Message::BarrierRequest),
        (
            "queue_get_config",
            Message::QueueGetConfigRequest(QueueConfigRequest { port_no: PortNo(4) }),
        ),
    ]
}

#[test]
fn both_ways_byte_for_byte() {
    let mut vectors = vectors();
    let all = [(Version::V13, messages_13()), (Version::V10, messages_10())];
    for (version, messages) in all {
        for (name, message) in messages {
            let bytes = vectors.remove(&(name, version)).expect("a vector of that name");
            let decoded = decode(version, &bytes);
            assert_eq!(decoded, Ok((XID, message.clone())), "{version} {name}");
            let encoded = encode(version, XID, &message).expect("it can be said");
            assert_eq!(encoded, bytes, "{version} {name}");
        }
    }
    assert!(vectors.is_empty(), "unused: {:?}", vectors.keys());
}
