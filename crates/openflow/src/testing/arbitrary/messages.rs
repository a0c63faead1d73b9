//! Messages of every kind.

use super::multipart::{controller_status, multipart_reply, multipart_request};
use super::{
    actions, async_change, async_config, band, buffer, config, error, eviction, experimenter,
    features, flow_mod, flow_removed, list, mac, meter_flags, packet_in, port, port_config,
    port_desc, port_features, queue_config_reply, role, table_desc, vacancy,
};
use crate::action::Instructions;
use crate::bundle::{BundleAdd, BundleControl, BundleControlType, BundleFlags, BundleId};
use crate::field::FieldId;
use crate::flow_match::Match;
use crate::ids::{MeterId, PortNo, TableId, Xid};
use crate::message::{CtFlush, CtTuple, ForwardedRequest, Hello, Message, Nicira, RequestForward};
use crate::meter::{MeterMod, MeterModCommand};
use crate::packet::PacketOut;
use crate::port::{PortMod, PortReason, PortStatus};
use crate::switch::{QueueConfigRequest, Role, RoleReason, RoleStatus};
use crate::table::{TableMod, TableReason, TableStatus, Vacancy};
use crate::testing::{Rng, groups};
use crate::version::{Version, VersionSet};
use std::net::IpAddr;

/// How many kinds of message [`message_of_kind`] makes in a version.
pub fn kinds(version: Version) -> usize {
    match version {
        Version::V10 => 26,
        Version::V13 => 33,
        Version::V14 => 36,
        Version::V15 => 37,
    }
}

/// A random message of a random kind.
pub fn message(rng: &mut Rng, version: Version) -> Message {
    let kind = rng.below(kinds(version));
    message_of_kind(rng, version, kind)
}

/// A random message of the kind'th message type of the version; from [`kinds`] on it is a
/// features request.
pub fn message_of_kind(rng: &mut Rng, version: Version, kind: usize) -> Message {
    match kind {
        // The last one of each version.
        _ if kind + 1 == kinds(version) => {
            Message::Nicira(Nicira::CtFlush(Box::new(ct_flush(rng))))
        }
        0 => Message::Hello(Hello { versions: (!rng.one_in(3)).then(|| VersionSet(rng.u32())) }),
        1 => Message::Error(error(rng, version)),
        2 => Message::EchoRequest(rng.bytes(40)),
        3 => Message::EchoReply(rng.bytes(40)),
        4 => Message::Experimenter(experimenter(rng, version)),
        6 => Message::FeaturesReply(features(rng, version)),
        7 => Message::GetConfigRequest,
        8 => Message::GetConfigReply(config(rng)),
        9 => Message::SetConfig(config(rng)),
        10 => Message::PacketIn(packet_in(rng, version)),
        11 => Message::FlowRemoved(flow_removed(rng, version)),
        12 => Message::PortStatus(PortStatus {
            reason: rng.choose(&[PortReason::Add, PortReason::Delete, PortReason::Modify]),
            desc: port_desc(rng, version),
        }),
        13 => Message::PacketOut(PacketOut {
            buffer_id: buffer(rng),
            in_port: match version {
                Version::V10 => PortNo(rng.u32() % 0xff00),
                _ => port(rng, version),
            },
            pipeline: match version {
                Version::V15 if rng.one_in(2) => {
                    Match::new().with(FieldId::Metadata, rng.u64().into())
                }
                _ => Match::new(),
            },
            actions: actions(rng, version),
            data: rng.bytes(100),
        }),
        14 => Message::FlowMod(flow_mod(rng, version)),
        15 => Message::PortMod(PortMod {
            port_no: port(rng, version),
            hw_addr: mac(rng),
            config: port_config(rng, version),
            mask: port_config(rng, version),
            advertise: port_features(rng, version),
        }),
        16 => Message::MultipartRequest(multipart_request(rng, version)),
        17 => Message::MultipartReply(multipart_reply(rng, version)),
        18 => Message::BarrierRequest,
        19 => Message::BarrierReply,
        20 | 21 if version >= Version::V14 => Message::BarrierRequest,
        20 => Message::QueueGetConfigRequest(QueueConfigRequest { port_no: port(rng, version) }),
        21 => Message::QueueGetConfigReply(queue_config_reply(rng, version)),
        22 if version == Version::V10 => Message::RoleRequest(role(rng, version)),
        23 if version == Version::V10 => Message::RoleReply(role(rng, version)),
        24 if version == Version::V10 => Message::GroupMod(groups::group_mod(rng, version)),
        22 => Message::GroupMod(groups::group_mod(rng, version)),
        23 => Message::TableMod(TableMod {
            table_id: TableId(rng.u8()),
            config: rng.u32(),
            eviction: eviction(rng, version),
            vacancy: vacancy(rng, version).map(|v| Vacancy { now: 0, ..v }),
        }),
        24 => Message::RoleRequest(role(rng, version)),
        25 => Message::RoleReply(role(rng, version)),
        26 => Message::GetAsyncRequest,
        27 => Message::GetAsyncReply(async_config(rng, version)),
        28 => Message::SetAsync(async_change(rng, version)),
        29 => Message::MeterMod(MeterMod {
            command: rng.choose(&[
                MeterModCommand::Add,
                MeterModCommand::Modify,
                MeterModCommand::Delete,
            ]),
            flags: meter_flags(rng),
            meter_id: MeterId(rng.u32()),
            bands: list(rng, band),
        }),
        30 => Message::BundleControl(BundleControl {
            bundle_id: BundleId(rng.u32()),
            control: rng.choose(&BundleControlType::ALL),
            flags: BundleFlags::from_bits_retain(rng.u16()),
            time: rng.one_in(4).then(|| (rng.u64(), rng.u32())),
        }),
        31 => Message::BundleAdd(BundleAdd {
            bundle_id: BundleId(rng.u32()),
            flags: BundleFlags::from_bits_retain(rng.u16()),
            message: crate::codec::encode(version, Xid(1), &flow_mod_message(rng, version))
                .unwrap_or_default(),
        }),
        32 => Message::RoleStatus(RoleStatus {
            role: rng.choose(&[Role::Equal, Role::Master, Role::Slave]),
            reason: rng.choose(&[
                RoleReason::MasterRequest,
                RoleReason::Config,
                RoleReason::Experimenter,
            ]),
            generation_id: rng.u64(),
        }),
        33 => Message::TableStatus(TableStatus {
            reason: rng.choose(&[TableReason::VacancyDown, TableReason::VacancyUp]),
            desc: table_desc(rng, version),
        }),
        35 => Message::ControllerStatus(controller_status(rng)),
        34 => Message::RequestForward(RequestForward {
            xid: Xid(rng.u32()),
            request: match (message_of_kind(rng, version, 22), message_of_kind(rng, version, 29)) {
                (Message::GroupMod(m), _) if rng.one_in(2) => ForwardedRequest::Group(m),
                (_, Message::MeterMod(m)) => ForwardedRequest::Meter(m),
                // The kinds are those of a group-mod and a meter-mod.
                _ => return Message::FeaturesRequest,
            },
        }),
        _ => Message::FeaturesRequest,
    }
}

pub(super) fn flow_mod_message(rng: &mut Rng, version: Version) -> Message {
    let mut m = flow_mod(rng, version);
    m.matching = Match::new();
    m.instructions = Instructions::new();
    Message::FlowMod(m)
}

fn ct_flush(rng: &mut Rng) -> CtFlush {
    let v6 = rng.one_in(2);
    let tuple = |rng: &mut Rng| {
        let address = |rng: &mut Rng| {
            let v4 = IpAddr::from(rng.u32().to_be_bytes());
            let address = if v6 { IpAddr::from((rng.u128() | 1 << 127).to_be_bytes()) } else { v4 };
            (!rng.one_in(3)).then_some(address)
        };
        let number = |rng: &mut Rng| if rng.one_in(2) { rng.u16() } else { 0 };
        CtTuple {
            src: address(rng),
            dst: address(rng),
            src_port: number(rng),
            dst_port: number(rng),
            icmp_id: number(rng),
            icmp_type: number(rng) as u8,
            icmp_code: number(rng) as u8,
        }
    };
    CtFlush {
        zone: rng.one_in(2).then(|| rng.u16()),
        protocol: rng.u8(),
        original: if rng.one_in(3) { CtTuple::default() } else { tuple(rng) },
        reply: if rng.one_in(3) { CtTuple::default() } else { tuple(rng) },
        mark: if rng.one_in(2) { (rng.u32(), rng.u32()) } else { (0, 0) },
        labels: if rng.one_in(2) { (rng.u128(), rng.u128()) } else { (0, 0) },
    }
}
