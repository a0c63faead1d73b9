//! Random messages, each one that a version can say in full, so that encoding and decoding it gives
//! the same value.

mod messages;
mod monitor;
mod multipart;

pub use messages::{kinds, message, message_of_kind};

pub use super::parts::port;

use super::parts::list;
use super::rng::Rng;
use crate::action::{
    Action, Actions, ExperimenterInstruction, Instruction, Instructions, StatTrigger,
    StatTriggerFlags,
};
use crate::actions::ROWS;
use crate::actions::row::Making;
use crate::error::{ErrorCode, ErrorKind, ErrorMessage};
use crate::field::{FieldId, Prerequisite, VLAN_PRESENT};
use crate::flow::{
    EntryStats, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved, FlowRemovedReason, FlowStats,
    FlowStatsRequest,
};
use crate::flow_match::Match;
use crate::ids::{Age, BufferId, GroupId, MacAddr, MeterId, PortNo, QueueId, TableId};
use crate::message::Experimenter;
use crate::meter::{Band, BandKind, MeterFlags};
use crate::multipart::BundleTimes;
use crate::packet::{PacketIn, PacketInReason};
use crate::port::{
    PortConfig, PortDesc, PortFeatures, PortState, QueueConfig, QueueConfigReply, QueueProperty,
};
use crate::switch::{
    AsyncChange, AsyncConfig, Capabilities, Features, FragmentHandling, Role, RoleMessage,
    SwitchConfig,
};
use crate::table::{TableDesc, Vacancy};
use crate::version::Version;
use smallvec::smallvec;

fn text(rng: &mut Rng, max: usize) -> String {
    (0..rng.below(max + 1)).map(|_| rng.choose(b"abcxyz019-_ ") as char).collect()
}

fn mac(rng: &mut Rng) -> MacAddr {
    MacAddr::from_u64(rng.u64())
}

pub(super) fn age(rng: &mut Rng) -> Age {
    Age { sec: rng.u32(), nsec: rng.u32() % 1_000_000_000 }
}

fn buffer(rng: &mut Rng) -> Option<BufferId> {
    rng.one_in(2).then(|| BufferId(rng.u32() >> 1))
}

fn error(rng: &mut Rng, version: Version) -> ErrorMessage {
    let kind = match rng.below(8) {
        0 => ErrorKind::Unknown { error_type: 99, code: rng.u16() },
        1 if version >= Version::V13 => {
            ErrorKind::Experimenter { experimenter: rng.u32(), exp_type: rng.u16() }
        }
        _ => loop {
            let code = rng.choose(ErrorCode::ALL);
            if code.exact_wire(version).is_some() {
                break ErrorKind::Code(code);
            }
        },
    };
    ErrorMessage { kind, data: rng.bytes(80) }
}

fn experimenter(rng: &mut Rng, version: Version) -> Experimenter {
    Experimenter {
        experimenter: rng.u32(),
        exp_type: (version >= Version::V13).then(|| rng.u32()),
        data: rng.bytes(30),
    }
}

fn config(rng: &mut Rng) -> SwitchConfig {
    SwitchConfig {
        fragments: rng.choose(&[
            FragmentHandling::Normal,
            FragmentHandling::Drop,
            FragmentHandling::Reassemble,
            FragmentHandling::NxMatch,
        ]),
        miss_send_len: rng.u16(),
    }
}

fn features(rng: &mut Rng, version: Version) -> Features {
    let capabilities = Capabilities::from_bits_truncate(rng.u32());
    let newest = Capabilities::BUNDLES | Capabilities::FLOW_MONITORING;
    let new = Capabilities::GROUP_STATS | Capabilities::PORT_BLOCKED | newest;
    let capabilities = if version >= Version::V15 { capabilities } else { capabilities - newest };
    let old = Capabilities::STP | Capabilities::ARP_MATCH_IP;
    let v10 = version == Version::V10;
    Features {
        datapath_id: rng.u64(),
        n_buffers: rng.u32(),
        n_tables: rng.u8(),
        auxiliary_id: if v10 { 0 } else { rng.u8() },
        capabilities: capabilities.difference(if v10 { new } else { old }),
        actions: if v10 { rng.u32() } else { 0 },
        ports: if v10 { list(rng, |rng| port_desc(rng, version)) } else { Vec::new() },
    }
}

fn port_config(rng: &mut Rng, version: Version) -> PortConfig {
    let known = match version {
        Version::V10 => PortConfig::V10,
        _ => PortConfig::V13,
    };
    PortConfig::from_bits_truncate(rng.u32()) & known
}

fn port_features(rng: &mut Rng, version: Version) -> PortFeatures {
    let new =
        PortFeatures::GB40_FD | PortFeatures::GB100_FD | PortFeatures::TB1_FD | PortFeatures::OTHER;
    let features = PortFeatures::from_bits_truncate(rng.u32());
    if version == Version::V10 { features - new } else { features }
}

/// A random port.
pub fn port_desc(rng: &mut Rng, version: Version) -> PortDesc {
    let v10 = version == Version::V10;
    let old = PortState::STP_LEARN | PortState::STP_FORWARD;
    let new = PortState::BLOCKED | PortState::LIVE;
    let state = PortState::from_bits_truncate(rng.u32());
    PortDesc {
        port_no: port(rng, version),
        hw_addr: mac(rng),
        name: text(rng, 15),
        config: port_config(rng, version),
        state: state - if v10 { new } else { old },
        curr: port_features(rng, version),
        advertised: port_features(rng, version),
        supported: port_features(rng, version),
        peer: port_features(rng, version),
        curr_speed: if v10 { 0 } else { rng.u32() },
        max_speed: if v10 { 0 } else { rng.u32() },
    }
}

fn packet_in(rng: &mut Rng, version: Version) -> PacketIn {
    let v10 = version == Version::V10;
    let mut matching = Match::new().with(FieldId::InPort, port(rng, version).0.into());
    let reasons = PacketInReason::ALL;
    if !v10 && rng.one_in(2) {
        matching.set(FieldId::Metadata, rng.u64().into());
        matching.set(FieldId::TunnelId, rng.u64().into());
    }
    PacketIn {
        buffer_id: buffer(rng),
        total_len: rng.u16(),
        reason: rng.choose(match version {
            Version::V10 => &reasons[..2],
            Version::V13 => &reasons[..3],
            Version::V14 | Version::V15 => &reasons,
        }),
        table_id: TableId(if v10 { 0 } else { rng.u8() }),
        cookie: if v10 { PacketIn::NO_COOKIE } else { rng.u64() },
        matching,
        userdata: Vec::new(),
        continuation: Vec::new(),
        data: rng.bytes(100),
    }
}

/// A random match that the version can say, prerequisites included.
pub fn matching(rng: &mut Rng, version: Version) -> Match {
    match version {
        Version::V10 => matching_10(rng),
        _ => {
            let mut m = Match::new();
            for _ in 0..rng.below(5) {
                let id = rng.choose(FieldId::ALL);
                if id.info().since <= version && !id.is_composite() {
                    add_field(rng, &mut m, id);
                }
            }
            m
        }
    }
}

/// Adds a field with what it depends on, if the match leaves room for that.
fn add_field(rng: &mut Rng, m: &mut Match, id: FieldId) {
    if m.has(id) {
        return;
    }
    let mut with = m.clone();
    for needs in id.info().prerequisites {
        if with.fulfils(needs) {
            continue;
        }
        match *needs {
            Prerequisite::Present(id) => with.set(id, rng.u128()),
            Prerequisite::OneOf(id, values) if !with.has(id) => with.set(id, rng.choose(values)),
            Prerequisite::Connection if !with.has(FieldId::CtState) => {
                with.set_masked(FieldId::CtState, 0x22, 0x32);
            }
            Prerequisite::VlanTag if !with.has(FieldId::VlanVid) => {
                with.set_masked(FieldId::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
            }
            _ => return,
        }
    }
    let mask = if id.info().maskable && rng.one_in(2) { rng.u128() } else { u128::MAX };
    if id == FieldId::VlanVid {
        match rng.below(3) {
            0 => with.set(id, 0),
            1 => with.set_masked(id, VLAN_PRESENT, VLAN_PRESENT),
            _ => with.set_masked(id, rng.u128() | VLAN_PRESENT, mask | VLAN_PRESENT),
        }
    } else if id == FieldId::CtState {
        // Bits that may be together: it has none for others either.
        with.set_masked(id, rng.choose(&[0, 0x21, 0x22, 0x2a, 0x30]), mask);
    } else if id == FieldId::ActsetOutput {
        // A port that Open vSwitch has, too: it has no word for its complaint about others.
        with.set(id, port(rng, Version::V15).0.into());
    } else {
        with.set_masked(id, rng.u128(), mask);
    }
    *m = with;
}

fn matching_10(rng: &mut Rng) -> Match {
    let mut m = Match::new();
    if rng.one_in(2) {
        m.set(FieldId::InPort, port(rng, Version::V10).0.into());
    }
    for id in [FieldId::EthSrc, FieldId::EthDst] {
        if rng.one_in(3) {
            m.set(id, rng.u128());
        }
    }
    match rng.below(5) {
        0 => m.set(FieldId::VlanVid, 0),
        1 => m.set(FieldId::VlanVid, rng.u128() | VLAN_PRESENT),
        2 => {
            m.set(FieldId::VlanVid, rng.u128() | VLAN_PRESENT);
            m.set(FieldId::VlanPcp, rng.u128());
        }
        3 => {
            m.set_masked(FieldId::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
            m.set(FieldId::VlanPcp, rng.u128());
        }
        _ => {}
    }
    if rng.one_in(4) {
        return m;
    }
    let eth_type = rng.choose(&[0x0800, 0x0806, 0x8035, 0x86dd, 0x88cc, 0x05ff]);
    m.set(FieldId::EthType, eth_type);
    let addresses = match eth_type {
        0x0800 => &[FieldId::Ipv4Src, FieldId::Ipv4Dst][..],
        0x0806 | 0x8035 => &[FieldId::ArpSpa, FieldId::ArpTpa],
        _ => &[],
    };
    for id in addresses {
        m.set_masked(*id, rng.u128(), u128::from(u32::MAX) << rng.below(33));
    }
    if addresses.first() == Some(&FieldId::ArpSpa) && rng.one_in(2) {
        m.set(FieldId::ArpOp, rng.u8().into());
    }
    if !matches!(eth_type, 0x0800 | 0x86dd) {
        return m;
    }
    if rng.one_in(2) {
        m.set(FieldId::IpDscp, rng.u128());
    }
    let proto = rng.choose(&[1, 6, 17, 58, 132, 47]);
    m.set(FieldId::IpProto, proto);
    let ports = match (eth_type, proto) {
        (_, 6) => [FieldId::TcpSrc, FieldId::TcpDst],
        (_, 17) => [FieldId::UdpSrc, FieldId::UdpDst],
        (_, 132) => [FieldId::SctpSrc, FieldId::SctpDst],
        (0x0800, 1) => [FieldId::Icmpv4Type, FieldId::Icmpv4Code],
        (0x86dd, 58) => [FieldId::Icmpv6Type, FieldId::Icmpv6Code],
        _ => return m,
    };
    for id in ports {
        if rng.one_in(2) {
            m.set(id, rng.u128());
        }
    }
    m
}

/// Random actions of the version.
pub fn actions(rng: &mut Rng, version: Version) -> Actions {
    list(rng, |rng| action(rng, version))
}

fn action(rng: &mut Rng, version: Version) -> Action {
    action_at(rng, version, 0)
}

/// The same, inside of so many `clone`s.
fn action_at(rng: &mut Rng, version: Version, depth: usize) -> Action {
    let is_extension = rng.one_in(8) && depth < Action::CLONE_DEPTH_MAX;
    let making = Making { version, depth, action: action_at };
    loop {
        let row = rng.choose(ROWS);
        if row.versions.contains(&version) && row.is_extension() == is_extension {
            return row.arbitrary(rng, &making);
        }
    }
}

fn stat_trigger(rng: &mut Rng) -> StatTrigger {
    let age = |rng: &mut Rng| Age { sec: rng.u32(), nsec: rng.u32() % 1_000_000_000 };
    StatTrigger {
        flags: StatTriggerFlags::from_bits_truncate(rng.u32()),
        thresholds: EntryStats {
            duration: rng.one_in(2).then(|| age(rng)),
            idle: rng.one_in(2).then(|| age(rng)),
            flows: None,
            packets: rng.one_in(2).then(|| rng.u64()),
            bytes: rng.one_in(2).then(|| rng.u64()),
        },
    }
}

/// Random instructions of the version.
pub fn instructions(rng: &mut Rng, version: Version) -> Instructions {
    if version == Version::V10 {
        let actions = actions(rng, version);
        return if actions.is_empty() {
            smallvec![]
        } else {
            smallvec![Instruction::ApplyActions(actions)]
        };
    }
    let mut instructions = Instructions::new();
    for kind in 0..7 {
        if !rng.one_in(3) {
            continue;
        }
        instructions.push(match kind {
            0 if version >= Version::V15 => Instruction::StatTrigger(Box::new(stat_trigger(rng))),
            0 => Instruction::Meter(MeterId(rng.u32())),
            1 => Instruction::ApplyActions(actions(rng, version)),
            2 => Instruction::ClearActions,
            3 => Instruction::WriteActions(actions(rng, version)),
            4 => Instruction::WriteMetadata { value: rng.u64(), mask: rng.u64() },
            5 => Instruction::GotoTable(TableId(rng.u8())),
            _ => Instruction::Experimenter(Box::new(ExperimenterInstruction {
                experimenter: rng.u32(),
                data: vec![rng.u8(); 8 * rng.below(3)],
            })),
        });
    }
    instructions
}

fn flow_flags(rng: &mut Rng, version: Version) -> FlowModFlags {
    let flags = FlowModFlags::from_bits_truncate(rng.u16());
    match version {
        Version::V10 => {
            flags
                & (FlowModFlags::SEND_FLOW_REM | FlowModFlags::CHECK_OVERLAP | FlowModFlags::EMERG)
        }
        _ => flags - FlowModFlags::EMERG,
    }
}

/// A random flow-mod.
pub fn flow_mod(rng: &mut Rng, version: Version) -> FlowMod {
    let v10 = version == Version::V10;
    // NXM's flow-mod, whose match says more and filters by cookie.
    let extended = v10 && rng.one_in(3);
    let mut m = matching(rng, version);
    if extended {
        m.set_masked(FieldId::Reg7, rng.u128(), rng.u128() | 1);
        m.set_masked(FieldId::EthDst, rng.u128(), rng.u128() | 1);
    }
    let command = rng.choose(&[
        FlowModCommand::Add,
        FlowModCommand::Modify,
        FlowModCommand::ModifyStrict,
        FlowModCommand::Delete,
        FlowModCommand::DeleteStrict,
    ]);
    // The cookie of NXM is a filter or the entry's.
    let filters = if v10 { extended && command != FlowModCommand::Add } else { true };
    FlowMod {
        dialect: version,
        cookie: if extended && filters { 0 } else { rng.u64() },
        cookie_mask: if filters { rng.u64() | 1 } else { 0 },
        new_cookie: (extended && filters && rng.one_in(2)).then(|| rng.u64() >> 1),
        table_id: if v10 { TableId::ALL } else { TableId(rng.u8()) },
        command,
        idle_timeout: rng.u16(),
        hard_timeout: rng.u16(),
        // Without wildcards it is the highest in 1.0.
        priority: if v10 && !extended && m.len() > 10 { u16::MAX } else { rng.u16() },
        buffer_id: buffer(rng),
        out_port: port(rng, version),
        out_group: if v10 { GroupId::ANY } else { GroupId(rng.u32()) },
        flags: flow_flags(rng, version),
        importance: if version >= Version::V14 { rng.u16() } else { 0 },
        extended,
        uncounted: Default::default(),
        matching: m,
        instructions: instructions(rng, version),
    }
}

fn flow_removed(rng: &mut Rng, version: Version) -> FlowRemoved {
    let v10 = version == Version::V10;
    let reasons = [
        FlowRemovedReason::IdleTimeout,
        FlowRemovedReason::HardTimeout,
        FlowRemovedReason::Delete,
        FlowRemovedReason::GroupDelete,
        FlowRemovedReason::MeterDelete,
        FlowRemovedReason::Eviction,
    ];
    FlowRemoved {
        cookie: rng.u64(),
        priority: rng.u16(),
        reason: rng.choose(match version {
            Version::V10 => &reasons[..3],
            Version::V13 => &reasons[..4],
            Version::V14 | Version::V15 => &reasons,
        }),
        table_id: TableId(if v10 { 0 } else { rng.u8() }),
        age: age(rng),
        idle_timeout: rng.u16(),
        hard_timeout: if v10 { 0 } else { rng.u16() },
        packet_count: rng.u64(),
        byte_count: rng.u64(),
        uncounted: Default::default(),
        matching: matching(rng, version),
    }
}

/// A random flow entry's statistics.
pub fn flow_stats(rng: &mut Rng, version: Version) -> FlowStats {
    let v10 = version == Version::V10;
    FlowStats {
        table_id: TableId(rng.u8()),
        age: age(rng),
        priority: rng.u16(),
        idle_timeout: rng.u16(),
        hard_timeout: rng.u16(),
        flags: if v10 { FlowModFlags::empty() } else { flow_flags(rng, version) },
        importance: if version >= Version::V14 { rng.u16() } else { 0 },
        cookie: rng.u64(),
        packet_count: rng.u64(),
        byte_count: rng.u64(),
        uncounted: Default::default(),
        matching: matching(rng, version),
        instructions: instructions(rng, version),
    }
}

fn flow_stats_request(rng: &mut Rng, version: Version) -> FlowStatsRequest {
    let v10 = version == Version::V10;
    FlowStatsRequest {
        table_id: TableId(rng.u8()),
        out_port: port(rng, version),
        out_group: if v10 { GroupId::ANY } else { GroupId(rng.u32()) },
        cookie: if v10 { 0 } else { rng.u64() },
        cookie_mask: if v10 { 0 } else { rng.u64() },
        matching: matching(rng, version),
        extended: v10 && rng.one_in(2),
    }
}

fn meter_flags(rng: &mut Rng) -> MeterFlags {
    let unit = rng.choose(&[MeterFlags::KBPS, MeterFlags::PKTPS, MeterFlags::empty()]);
    unit | MeterFlags::from_bits_truncate(rng.u16()) & (MeterFlags::BURST | MeterFlags::STATS)
}

fn band(rng: &mut Rng) -> Band {
    Band {
        rate: rng.u32(),
        burst_size: rng.u32(),
        kind: match rng.below(3) {
            0 => BandKind::Drop,
            1 => BandKind::DscpRemark { prec_level: rng.u8() },
            _ => BandKind::Experimenter {
                experimenter: rng.u32(),
                data: vec![rng.u8(); 8 * rng.below(3)],
            },
        },
    }
}

fn role(rng: &mut Rng, version: Version) -> RoleMessage {
    if version == Version::V10 {
        let role = rng.choose(&[Role::Equal, Role::Master, Role::Slave]);
        return RoleMessage { role, short_id: RoleMessage::NO_ID, generation_id: 0 };
    }
    RoleMessage {
        short_id: if version >= Version::V15 { rng.u16() } else { RoleMessage::NO_ID },
        role: rng.choose(&[Role::NoChange, Role::Equal, Role::Master, Role::Slave]),
        generation_id: rng.u64(),
    }
}

fn async_config(rng: &mut Rng, version: Version) -> AsyncConfig {
    let mut config = AsyncConfig::default();
    let mut change = AsyncChange::all(version, &AsyncConfig { masks: [[rng.u32(), rng.u32()]; 8] });
    if version >= Version::V14 {
        change.masks.iter_mut().for_each(|(kind, _, mask)| *mask &= kind.reasons());
    }
    change.apply(&mut config);
    config
}

fn async_change(rng: &mut Rng, version: Version) -> AsyncChange {
    let mut change = AsyncChange::all(version, &async_config(rng, version));
    if version >= Version::V14 {
        change.masks.retain(|_| rng.one_in(2));
    }
    change
}

fn eviction(rng: &mut Rng, version: Version) -> Option<u32> {
    (version >= Version::V14 && rng.one_in(2)).then(|| rng.u32())
}

fn vacancy(rng: &mut Rng, version: Version) -> Option<Vacancy> {
    (version >= Version::V14 && rng.one_in(2)).then(|| {
        let down = rng.u8() % 101;
        Vacancy { down, up: down + rng.u8() % (101 - down), now: rng.u8() }
    })
}

fn table_desc(rng: &mut Rng, version: Version) -> TableDesc {
    TableDesc {
        table_id: TableId(rng.u8()),
        config: rng.u32(),
        eviction: eviction(rng, version),
        vacancy: vacancy(rng, version),
    }
}

fn queue_config(rng: &mut Rng, version: Version) -> QueueConfig {
    QueueConfig {
        queue_id: QueueId(rng.u32()),
        port_no: port(rng, version),
        properties: list(rng, |rng| match rng.below(3) {
            0 => QueueProperty::MinRate(rng.u16()),
            1 => QueueProperty::MaxRate(rng.u16()),
            _ => QueueProperty::Experimenter {
                experimenter: rng.u32(),
                data: vec![rng.u8(); 4 + 8 * rng.below(3)],
            },
        }),
    }
}

fn queue_config_reply(rng: &mut Rng, version: Version) -> QueueConfigReply {
    let v10 = version == Version::V10;
    QueueConfigReply {
        port_no: port(rng, version),
        queues: list(rng, |rng| QueueConfig {
            queue_id: QueueId(rng.u32()),
            port_no: if v10 { PortNo::ANY } else { port(rng, version) },
            properties: list(rng, |rng| match rng.below(if v10 { 1 } else { 3 }) {
                0 => QueueProperty::MinRate(rng.u16()),
                1 => QueueProperty::MaxRate(rng.u16()),
                _ => QueueProperty::Experimenter {
                    experimenter: rng.u32(),
                    data: vec![rng.u8(); 8 * rng.below(3)],
                },
            }),
        }),
    }
}

fn bundle_times(rng: &mut Rng) -> Option<BundleTimes> {
    let mut time = || (rng.u64(), rng.u32());
    let times = BundleTimes { accuracy: time(), future: time(), past: time(), now: time() };
    rng.one_in(2).then_some(times)
}
