//! Random messages, each one that a version can say in full, so that encoding and decoding it gives
//! the same value.

mod messages;
mod monitor;
mod multipart;

pub use messages::{kinds, message, message_of_kind};

use super::Rng;
use crate::action::{
    Action, Actions, CopyField, ExperimenterAction, ExperimenterInstruction, Instruction,
    Instructions, SetField, StatTrigger, StatTriggerFlags, Subfield,
};
use crate::error::{ErrorCode, ErrorKind, ErrorMessage};
use crate::extension::{
    Bits, BundleAlgorithm, Conjunction, Conntrack, FinTimeout, HashAlgorithm, HashFields, Learn,
    LearnSource, LearnSpec, LearnTarget, Multipath, Nat, NatRange, NatSide, PortBundle,
    ToController, Zone,
};
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
use crate::softflow::{ElementName, Softflow};
use crate::switch::{
    AsyncChange, AsyncConfig, Capabilities, Features, FragmentHandling, Role, RoleMessage,
    SwitchConfig,
};
use crate::table::{TableDesc, Vacancy};
use crate::version::Version;
use smallvec::smallvec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn list<T>(rng: &mut Rng, mut entry: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    (0..rng.below(4)).map(|_| entry(rng)).collect()
}

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

/// A port that the version can number, reserved ones included.
pub fn port(rng: &mut Rng, version: Version) -> PortNo {
    match (rng.below(4), version) {
        (0, _) => rng.choose(&PortNo::RESERVED).0,
        (1, v) if v >= Version::V13 => PortNo(1 + rng.u32() % 0xffff_feff),
        _ => PortNo(1 + rng.u32() % 0xfeff),
    }
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

/// Random bits of a field that actions may write, or of one that they may read.
fn bits(rng: &mut Rng, written: bool) -> Bits {
    use FieldId::*;
    let fields = [Reg0, EthDst, Ipv4Src, VlanTci, XXReg1, XReg5, Ipv6Dst, IpTos, InPort, Metadata];
    let field = rng.choose(if written { &fields[..8] } else { &fields });
    // Nicira's ingress ports have 16 bits, and one run at most 64.
    let width = if field == InPort { 16 } else { field.info().bits.min(64) as u16 };
    let offset = rng.u16() % width;
    let count = 1 + rng.u16() % (width - offset);
    Bits { of: Subfield { field, offset }.narrowed(count), count }
}

fn learn(rng: &mut Rng) -> Learn {
    let specs = list(rng, |rng| {
        let from = bits(rng, false);
        let to = loop {
            let to = bits(rng, true).of;
            // The bit that says that there is a tag is the whole tag's.
            let width = if to.field == FieldId::VlanVid { 12 } else { to.field.info().bits };
            if width >= u32::from(to.offset + from.count) {
                break to.narrowed(from.count);
            }
        };
        let taken = LearnSource::Field(from.of);
        let value = LearnSource::Value(rng.u128() >> (128 - from.count));
        let (from, bits) = (if rng.one_in(3) { value } else { taken }, from.count);
        match rng.below(3) {
            0 if from == taken => LearnSpec { bits, from, to: LearnTarget::Output },
            1 => LearnSpec { bits, from, to: LearnTarget::Load(to) },
            _ => LearnSpec { bits, from: taken, to: LearnTarget::Match(to) },
        }
    });
    Learn {
        idle_timeout: rng.u16(),
        hard_timeout: rng.u16(),
        priority: rng.u16(),
        cookie: rng.u64(),
        send_flow_rem: rng.one_in(2),
        delete_learned: rng.one_in(2),
        fin_idle_timeout: rng.u16(),
        fin_hard_timeout: rng.u16(),
        limit: if rng.one_in(2) { rng.u32() } else { 0 },
        result_dst: rng.one_in(3).then(|| bits(rng, true).of.narrowed(1)),
        table_id: TableId(rng.u8() % 255),
        specs,
    }
}

fn conntrack(rng: &mut Rng) -> Conntrack {
    let commit = rng.one_in(2);
    let zone = bits(rng, false);
    let side = rng.choose(&[NatSide::Source, NatSide::Destination]);
    let first = 1 + rng.u32() % 1000;
    let last = first + rng.u32() % 3;
    let [first, last] = match rng.one_in(2) {
        true => [first, last].map(|n| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | n))),
        false => {
            [first, last].map(|n| IpAddr::V6(Ipv6Addr::from(0xfd_u128 << 120 | u128::from(n))))
        }
    };
    let port = 1 + rng.u16() % 60_000;
    let ports = rng.one_in(2).then(|| (port, port + rng.u16() % 3));
    let range = NatRange { side, first, last, ports, flags: rng.choose(&[0, 4, 8, 16, 20]) };
    let mark = FieldId::CtMark;
    let exec = [
        Action::set_field(mark, u128::from(rng.u32())),
        Action::CopyField(CopyField {
            bits: 32,
            from: Subfield { field: FieldId::Reg3, offset: 0 },
            to: Subfield { field: FieldId::CtLabel, offset: 64 },
        }),
    ];
    Conntrack {
        commit,
        force: commit && rng.one_in(2),
        zone: match zone.count <= 16 && rng.one_in(2) {
            true => Zone::Field(zone),
            false => Zone::Number(rng.u16()),
        },
        table: rng.one_in(2).then(|| TableId(rng.u8() % 255)),
        nat: match rng.below(4) {
            0 => None,
            1 if commit => Some(Nat::New(range)),
            2 if commit => Some(Nat::Unranged { side: range.side, flags: range.flags }),
            _ => Some(Nat::Existing),
        },
        alg: rng.choose(&[0, 21, 69]),
        exec: if commit { exec[..rng.below(3)].to_vec() } else { Vec::new() },
    }
}

/// One of Open vSwitch's actions.
fn extension(rng: &mut Rng, version: Version, depth: usize) -> Action {
    match rng.below(19) {
        14 => Action::PopQueue,
        15 => Action::FinTimeout(FinTimeout { idle_timeout: rng.u16(), hard_timeout: rng.u16() }),
        16 => Action::OutputTruncated {
            port: rng.choose(&[PortNo(1), PortNo(0xfeff), PortNo::IN_PORT, PortNo::LOCAL]),
            max_len: Action::TRUNCATED_MIN + rng.u32() % 100_000,
        },
        17 => Action::Resubmit {
            in_port: rng.choose(&[PortNo(3), PortNo::IN_PORT]),
            table: TableId(rng.u8()),
            ct: rng.one_in(2),
        },
        18 => Action::DecNwTtlTo((0..rng.below(3)).map(|_| rng.u16()).collect()),
        13 => {
            let name = rng.choose(&["conntrack", "lb-1", "a.b_c"]);
            let name = ElementName::new(name).expect("a name");
            Action::Softflow(Box::new(Softflow { name, argument: rng.u32() }))
        }
        12 => Action::Exit,
        10 => Action::CtClear,
        11 => Action::Ct(Box::new(conntrack(rng))),
        7 => {
            let to = rng.one_in(2).then(|| Bits {
                of: Subfield { field: FieldId::Reg5, offset: rng.u16() % 16 },
                count: 16,
            });
            let count = 1 + rng.below(PortBundle::MEMBERS_MAX);
            Action::Bundle(Box::new(PortBundle {
                fields: rng.choose(&HashFields::ALL).0,
                basis: rng.u16(),
                algorithm: rng.choose(&BundleAlgorithm::ALL).0,
                members: (0..count).map(|_| PortNo(1 + rng.u32() % 0xfeff)).collect(),
                to,
            }))
        }
        8 => {
            let count = rng.below(4);
            Action::Clone((0..count).map(|_| action_at(rng, version, depth + 1)).collect())
        }
        0 => Action::Controller(ToController {
            max_len: rng.u16(),
            reason: rng.choose(&PacketInReason::ALL),
            id: 1 + rng.u16() % 1000,
            userdata: if rng.one_in(2) { rng.bytes(20) } else { Vec::new() },
            meter: rng.one_in(3).then(|| MeterId(1 + rng.u32() % 100)),
            pause: rng.one_in(3),
        }),
        1 => Action::OutputField { from: bits(rng, false), max_len: Action::NO_BUFFER },
        2 => Action::StackPush(bits(rng, false)),
        3 => Action::StackPop(bits(rng, true)),
        4 => Action::CheckPktLarger { bytes: rng.u16(), to: bits(rng, true).of.narrowed(1) },
        5 => {
            let to = bits(rng, true);
            let most = (1u32 << to.count.min(16)) - 1;
            Action::Multipath(Box::new(Multipath {
                fields: rng.choose(&HashFields::ALL).0,
                basis: rng.u16(),
                algorithm: rng.choose(&HashAlgorithm::ALL).0,
                max_link: (rng.u32() % (most + 1)) as u16,
                arg: rng.u32(),
                to,
            }))
        }
        6 => {
            let dimensions = 2 + (rng.u8() & 31);
            let dimension = rng.u8() % dimensions;
            Action::Conjunction(Conjunction { id: rng.u32(), dimension, dimensions })
        }
        _ => Action::Learn(Box::new(learn(rng))),
    }
}

fn action(rng: &mut Rng, version: Version) -> Action {
    action_at(rng, version, 0)
}

/// The same, inside of so many `clone`s.
fn action_at(rng: &mut Rng, version: Version, depth: usize) -> Action {
    if rng.one_in(8) && depth < Action::CLONE_DEPTH_MAX {
        return extension(rng, version, depth);
    }
    let kind = match version {
        // The last one is `group`.
        Version::V10 => [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 24][rng.below(14)],
        Version::V13 | Version::V14 => 13 + rng.below(17),
        Version::V15 => 13 + rng.below(20),
    };
    match kind {
        0 => Action::SetVlanVid(rng.u16() & 0xfff),
        1 => Action::SetVlanPcp(rng.u8() & 7),
        2 | 13 => Action::PopVlan,
        3 => Action::set_field(FieldId::EthSrc, rng.u128() >> 80),
        4 => Action::set_field(FieldId::EthDst, rng.u128() >> 80),
        5 => Action::SetNwSrc(rng.u32()),
        6 => Action::SetNwDst(rng.u32()),
        7 => Action::SetNwTos(rng.u8() & !3),
        8 => Action::SetTpSrc(rng.u16()),
        9 => Action::SetTpDst(rng.u16()),
        10 => Action::Enqueue { port: PortNo(1 + rng.u32() % 0xfeff), queue: QueueId(rng.u32()) },
        11 | 14 => Action::Experimenter(Box::new(ExperimenterAction {
            experimenter: rng.u32(),
            data: vec![rng.u8(); 8 * rng.below(3)],
        })),
        12 | 15 => Action::Output { port: port(rng, version), max_len: rng.u16() },
        16 => Action::CopyTtlOut,
        17 => Action::CopyTtlIn,
        18 => Action::SetMplsTtl(rng.u8()),
        19 => Action::DecMplsTtl,
        20 => Action::PushVlan(rng.choose(&[0x8100, 0x88a8])),
        21 => Action::PushMpls(rng.choose(&[0x8847, 0x8848])),
        22 => Action::PopMpls(rng.u16()),
        23 => Action::SetQueue(QueueId(rng.u32())),
        24 => Action::Group(GroupId(rng.u32())),
        25 => Action::SetNwTtl(rng.u8()),
        26 => Action::DecNwTtl,
        27 => Action::PushPbb(0x88e7),
        28 => Action::PopPbb,
        30 => Action::Meter(MeterId(rng.u32())),
        31 => Action::CopyField(CopyField {
            bits: 1 + rng.u16() % 16,
            from: Subfield { field: FieldId::EthSrc, offset: rng.u16() % 16 },
            to: Subfield { field: FieldId::Reg3, offset: rng.u16() % 16 },
        }),
        32 => {
            let mask = 1 + rng.u128() % 0xffff;
            let value = rng.u128() & mask;
            Action::SetField(SetField { field: FieldId::EthDst, value, mask: Some(mask) })
        }
        _ => loop {
            let field = rng.choose(FieldId::ALL);
            let of_many = field.registers().is_some() || field == FieldId::IpTos;
            if field.info().settable && field.info().since <= version && !of_many {
                let present = if field == FieldId::VlanVid { VLAN_PRESENT } else { 0 };
                break Action::set_field(field, rng.u128() & field.all_bits() | present);
            }
        },
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
