//! Features, configuration, description, roles, asynchronous configuration.

use super::reader::{Reader, Result};
use super::writer::Put;
use super::{port, property};
use crate::error::ErrorCode;
use crate::ids::NICIRA;
use crate::switch::{
    AsyncChange, AsyncConfig, AsyncKind, Capabilities, ControllerReason, ControllerStatus,
    Features, FragmentHandling, Role, RoleMessage, RoleReason, RoleStatus, SwitchConfig,
    SwitchDesc,
};
use crate::version::Version;

const STP_V10: u32 = 1 << 3;
const ARP_MATCH_IP_V10: u32 = 1 << 7;
/// Capabilities with the same bit in both versions.
const COMMON: Capabilities = Capabilities::FLOW_STATS
    .union(Capabilities::TABLE_STATS)
    .union(Capabilities::PORT_STATS)
    .union(Capabilities::IP_REASM)
    .union(Capabilities::QUEUE_STATS);
const CAPABILITIES_V13: Capabilities =
    COMMON.union(Capabilities::GROUP_STATS).union(Capabilities::PORT_BLOCKED);
const CAPABILITIES_V15: Capabilities =
    CAPABILITIES_V13.union(Capabilities::BUNDLES).union(Capabilities::FLOW_MONITORING);
const TEXT_LEN: usize = 256;
const SERIAL_LEN: usize = 32;
/// Bytes of a controller's status before its properties.
const CONTROLLER_STATUS_LEN: usize = 16;
/// The property that says where a controller is.
const CONTROLLER_URI: u16 = 0;
/// Bytes of it, at most.
const URI_LEN_MAX: usize = 1024;

fn capabilities_from_wire(version: Version, bits: u32) -> Capabilities {
    let all = Capabilities::from_bits_truncate(bits);
    match version {
        Version::V10 => {
            let mut c = all & COMMON;
            c.set(Capabilities::STP, bits & STP_V10 != 0);
            c.set(Capabilities::ARP_MATCH_IP, bits & ARP_MATCH_IP_V10 != 0);
            c
        }
        Version::V15 => all & CAPABILITIES_V15,
        _ => all & CAPABILITIES_V13,
    }
}

fn capabilities_to_wire(version: Version, c: Capabilities) -> u32 {
    match version {
        Version::V10 => {
            let stp = if c.contains(Capabilities::STP) { STP_V10 } else { 0 };
            let arp = if c.contains(Capabilities::ARP_MATCH_IP) { ARP_MATCH_IP_V10 } else { 0 };
            (c & COMMON).bits() | stp | arp
        }
        Version::V15 => (c & CAPABILITIES_V15).bits(),
        _ => (c & CAPABILITIES_V13).bits(),
    }
}

pub(super) fn decode_features(version: Version, r: &mut Reader<'_>) -> Result<Features> {
    let datapath_id = r.u64()?;
    let n_buffers = r.u32()?;
    let n_tables = r.u8()?;
    let mut auxiliary_id = r.u8()?;
    r.skip(2)?;
    let capabilities = capabilities_from_wire(version, r.u32()?);
    let mut actions = r.u32()?;
    let mut ports = Vec::new();
    match version {
        Version::V10 => {
            auxiliary_id = 0;
            ports.reserve(r.left() / port::desc_len(version));
            while !r.is_empty() {
                ports.push(port::decode_desc(version, r)?);
            }
        }
        _ => actions = 0,
    }
    Ok(Features { datapath_id, n_buffers, n_tables, auxiliary_id, capabilities, actions, ports })
}

pub(super) fn encode_features(buf: &mut Vec<u8>, version: Version, m: &Features) {
    buf.put_u64(m.datapath_id);
    buf.put_u32(m.n_buffers);
    buf.put_u8(m.n_tables);
    match version {
        Version::V10 => buf.pad(1),
        _ => buf.put_u8(m.auxiliary_id),
    }
    buf.pad(2);
    buf.put_u32(capabilities_to_wire(version, m.capabilities));
    match version {
        Version::V10 => {
            buf.put_u32(m.actions);
            m.ports.iter().for_each(|p| port::encode_desc(buf, version, p));
        }
        _ => buf.pad(4),
    }
}

pub(super) fn decode_config(r: &mut Reader<'_>) -> Result<SwitchConfig> {
    let flags = r.u16()?;
    let fragments = match flags {
        0 => FragmentHandling::Normal,
        1 => FragmentHandling::Drop,
        2 => FragmentHandling::Reassemble,
        3 => FragmentHandling::NxMatch,
        _ => {
            let code = ErrorCode::ScfcBadFlags;
            return Err(r.bad_value(code, "configuration flags", flags, "0 to 3"));
        }
    };
    Ok(SwitchConfig { fragments, miss_send_len: r.u16()? })
}

pub(super) fn encode_config(buf: &mut Vec<u8>, m: &SwitchConfig) {
    buf.put_u16(match m.fragments {
        FragmentHandling::Normal => 0,
        FragmentHandling::Drop => 1,
        FragmentHandling::Reassemble => 2,
        FragmentHandling::NxMatch => 3,
    });
    buf.put_u16(m.miss_send_len);
}

pub(super) fn decode_desc(r: &mut Reader<'_>) -> Result<SwitchDesc> {
    Ok(SwitchDesc {
        manufacturer: r.text(TEXT_LEN)?,
        hardware: r.text(TEXT_LEN)?,
        software: r.text(TEXT_LEN)?,
        serial: r.text(SERIAL_LEN)?,
        datapath: r.text(TEXT_LEN)?,
    })
}

pub(super) fn encode_desc(buf: &mut Vec<u8>, m: &SwitchDesc) {
    buf.put_text(&m.manufacturer, TEXT_LEN);
    buf.put_text(&m.hardware, TEXT_LEN);
    buf.put_text(&m.software, TEXT_LEN);
    buf.put_text(&m.serial, SERIAL_LEN);
    buf.put_text(&m.datapath, TEXT_LEN);
}

fn role_from_wire(r: &Reader<'_>, number: u32) -> Result<Role> {
    Ok(match number {
        0 => Role::NoChange,
        1 => Role::Equal,
        2 => Role::Master,
        3 => Role::Slave,
        _ => return Err(r.bad_value(ErrorCode::RrfcBadRole, "role", number, "0 to 3")),
    })
}

fn role_to_wire(role: Role) -> u32 {
    match role {
        Role::NoChange => 0,
        Role::Equal => 1,
        Role::Master => 2,
        Role::Slave => 3,
    }
}

pub(super) fn decode_role(version: Version, r: &mut Reader<'_>) -> Result<RoleMessage> {
    let number = r.u32()?;
    let role = role_from_wire(r, number)?;
    let mut short_id = RoleMessage::NO_ID;
    if version >= Version::V15 {
        short_id = r.u16()?;
        r.skip(2)?;
    } else {
        r.skip(4)?;
    }
    Ok(RoleMessage { role, short_id, generation_id: r.u64()? })
}

pub(super) fn encode_role(buf: &mut Vec<u8>, version: Version, m: &RoleMessage) {
    buf.put_u32(role_to_wire(m.role));
    buf.put_u16(if version >= Version::V15 { m.short_id } else { 0 });
    buf.pad(2);
    buf.put_u64(m.generation_id);
}

/// Reads Nicira's role, which 1.0 has: without a generation, and `other` for equal.
pub(super) fn decode_nx_role(r: &mut Reader<'_>) -> Result<RoleMessage> {
    let number = r.u32()?;
    let role = match number {
        0 => Role::Equal,
        1 => Role::Master,
        2 => Role::Slave,
        _ => return Err(r.bad_value(ErrorCode::RrfcBadRole, "Nicira's role", number, "0 to 2")),
    };
    Ok(RoleMessage { role, short_id: RoleMessage::NO_ID, generation_id: 0 })
}

/// Writes Nicira's role, by the number of its message.
pub(super) fn encode_nx_role(buf: &mut Vec<u8>, number: u32, m: &RoleMessage) {
    buf.put_u32(NICIRA);
    buf.put_u32(number);
    buf.put_u32(match m.role {
        Role::NoChange | Role::Equal => 0,
        Role::Master => 1,
        Role::Slave => 2,
    });
}

pub(super) fn decode_role_status(r: &mut Reader<'_>) -> Result<RoleStatus> {
    let number = r.u32()?;
    let role = role_from_wire(r, number)?;
    let number = r.u8()?;
    let reason = match number {
        0 => RoleReason::MasterRequest,
        1 => RoleReason::Config,
        2 => RoleReason::Experimenter,
        _ => {
            return Err(r.bad_value(ErrorCode::BrcBadType, "role-status reason", number, "0 to 2"));
        }
    };
    r.skip(3)?;
    let generation_id = r.u64()?;
    // Properties only inform, and none is known.
    r.rest();
    Ok(RoleStatus { role, reason, generation_id })
}

pub(super) fn encode_role_status(buf: &mut Vec<u8>, m: &RoleStatus) {
    buf.put_u32(role_to_wire(m.role));
    buf.put_u8(match m.reason {
        RoleReason::MasterRequest => 0,
        RoleReason::Config => 1,
        RoleReason::Experimenter => 2,
    });
    buf.pad(3);
    buf.put_u64(m.generation_id);
}

pub(super) fn decode_controller_status(r: &mut Reader<'_>) -> Result<ControllerStatus> {
    let mut status =
        r.element(0, CONTROLLER_STATUS_LEN, "controller status", ErrorCode::BrcBadLen)?;
    status.skip(2)?;
    let short_id = status.u16()?;
    let number = status.u32()?;
    let role = role_from_wire(&status, number)?;
    let number = status.u8()?;
    let Some(&reason) = ControllerReason::ALL.get(usize::from(number)) else {
        let (code, what) = (ErrorCode::BrcBadType, "controller-status reason");
        return Err(status.bad_value(code, what, number, "0 to 6"));
    };
    let up = match status.u8()? {
        0 => true,
        1 => false,
        n => {
            let (code, what) = (ErrorCode::BrcBadType, "controller's channel status");
            return Err(status.bad_value(code, what, n, "0 or 1"));
        }
    };
    status.skip(6)?;
    let mut uri = String::new();
    while let Some((number, mut property)) = property::next(&mut status, "controller property")? {
        // Properties only inform; experimenters' are passed over.
        let rest = property.rest();
        if number == CONTROLLER_URI {
            uri = String::from_utf8_lossy(rest).trim_end_matches('\0').to_owned();
        }
    }
    Ok(ControllerStatus { short_id, role, reason, up, uri })
}

pub(super) fn encode_controller_status(buf: &mut Vec<u8>, m: &ControllerStatus) {
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u16(m.short_id);
    buf.put_u32(role_to_wire(m.role));
    buf.put_u8(m.reason as u8);
    buf.put_u8(u8::from(!m.up));
    buf.pad(6);
    if !m.uri.is_empty() {
        let at = property::begin(buf, CONTROLLER_URI);
        let end = m.uri.floor_char_boundary(URI_LEN_MAX);
        buf.extend_from_slice(&m.uri.as_bytes()[..end]);
        property::end(buf, at);
    }
    buf.patch_length(start, start);
}

/// Reads what set-async changes: all masks up to 1.3, the properties that are there from 1.4 on.
pub(super) fn decode_async(version: Version, r: &mut Reader<'_>) -> Result<AsyncChange> {
    let mut change = AsyncChange::default();
    if version < Version::V14 {
        for kind in &AsyncKind::ALL[..AsyncKind::count(version)] {
            for slave in [false, true] {
                change.masks.push((*kind, slave, r.u32()?));
            }
        }
        return Ok(change);
    }
    while let Some((number, mut property)) = property::next(r, "asynchronous property")? {
        let kind = AsyncKind::ALL[..AsyncKind::count(version)].get(usize::from(number / 2));
        match (kind, number) {
            (Some(kind), _) => {
                let mask = property.u32()?;
                //= openflow-1.4.1 §7.3.10: a mask of reasons that there are not is OFPACFC_INVALID.
                if mask & !kind.reasons() != 0 {
                    let (code, right) = (ErrorCode::AcfcInvalid, "bits of reasons that there are");
                    return Err(property.bad_value(code, "asynchronous mask", mask, right));
                }
                change.masks.push((*kind, number % 2 == 0, mask));
            }
            (None, 0xfffe | 0xffff) => return Err(property::experimenter(&mut property)?),
            (None, _) => {
                return Err(property::unknown(&property, "asynchronous property", number));
            }
        }
        property.finish()?;
    }
    Ok(change)
}

pub(super) fn encode_async(buf: &mut Vec<u8>, version: Version, m: &AsyncChange) {
    if version < Version::V14 {
        let mut config = AsyncConfig::default();
        m.apply(&mut config);
        for masks in &config.masks[..AsyncKind::count(version)] {
            masks.iter().for_each(|mask| buf.put_u32(*mask));
        }
        return;
    }
    for (kind, slave, mask) in &m.masks {
        if *kind as usize >= AsyncKind::count(version) {
            continue;
        }
        let at = property::begin(buf, 2 * *kind as u16 + u16::from(!slave));
        buf.put_u32(*mask);
        property::end(buf, at);
    }
}

pub(super) fn decode_async_config(version: Version, r: &mut Reader<'_>) -> Result<AsyncConfig> {
    let mut config = AsyncConfig::default();
    decode_async(version, r)?.apply(&mut config);
    Ok(config)
}
