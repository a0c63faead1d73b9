//! Features, configuration, description, roles, asynchronous configuration.

use super::port;
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::switch::{
    AsyncConfig, Capabilities, Features, FragmentHandling, Role, RoleMessage, SwitchConfig,
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
const TEXT_LEN: usize = 256;
const SERIAL_LEN: usize = 32;

fn capabilities_from_wire(version: Version, bits: u32) -> Capabilities {
    let all = Capabilities::from_bits_truncate(bits);
    match version {
        Version::V10 => {
            let mut c = all & COMMON;
            c.set(Capabilities::STP, bits & STP_V10 != 0);
            c.set(Capabilities::ARP_MATCH_IP, bits & ARP_MATCH_IP_V10 != 0);
            c
        }
        Version::V13 => all & CAPABILITIES_V13,
    }
}

fn capabilities_to_wire(version: Version, c: Capabilities) -> u32 {
    match version {
        Version::V10 => {
            let stp = if c.contains(Capabilities::STP) { STP_V10 } else { 0 };
            let arp = if c.contains(Capabilities::ARP_MATCH_IP) { ARP_MATCH_IP_V10 } else { 0 };
            (c & COMMON).bits() | stp | arp
        }
        Version::V13 => (c & CAPABILITIES_V13).bits(),
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
        Version::V13 => actions = 0,
    }
    Ok(Features { datapath_id, n_buffers, n_tables, auxiliary_id, capabilities, actions, ports })
}

pub(super) fn encode_features(buf: &mut Vec<u8>, version: Version, m: &Features) {
    buf.put_u64(m.datapath_id);
    buf.put_u32(m.n_buffers);
    buf.put_u8(m.n_tables);
    match version {
        Version::V10 => buf.pad(1),
        Version::V13 => buf.put_u8(m.auxiliary_id),
    }
    buf.pad(2);
    buf.put_u32(capabilities_to_wire(version, m.capabilities));
    match version {
        Version::V10 => {
            buf.put_u32(m.actions);
            m.ports.iter().for_each(|p| port::encode_desc(buf, version, p));
        }
        Version::V13 => buf.pad(4),
    }
}

pub(super) fn decode_config(r: &mut Reader<'_>) -> Result<SwitchConfig> {
    let flags = r.u16()?;
    let fragments = match flags {
        0 => FragmentHandling::Normal,
        1 => FragmentHandling::Drop,
        2 => FragmentHandling::Reassemble,
        _ => {
            let code = ErrorCode::ScfcBadFlags;
            return Err(r.bad_value(code, "configuration flags", flags, "0 to 2"));
        }
    };
    Ok(SwitchConfig { fragments, miss_send_len: r.u16()? })
}

pub(super) fn encode_config(buf: &mut Vec<u8>, m: &SwitchConfig) {
    buf.put_u16(match m.fragments {
        FragmentHandling::Normal => 0,
        FragmentHandling::Drop => 1,
        FragmentHandling::Reassemble => 2,
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

pub(super) fn decode_role(r: &mut Reader<'_>) -> Result<RoleMessage> {
    let number = r.u32()?;
    let role = match number {
        0 => Role::NoChange,
        1 => Role::Equal,
        2 => Role::Master,
        3 => Role::Slave,
        _ => return Err(r.bad_value(ErrorCode::RrfcBadRole, "role", number, "0 to 3")),
    };
    r.skip(4)?;
    Ok(RoleMessage { role, generation_id: r.u64()? })
}

pub(super) fn encode_role(buf: &mut Vec<u8>, m: &RoleMessage) {
    buf.put_u32(match m.role {
        Role::NoChange => 0,
        Role::Equal => 1,
        Role::Master => 2,
        Role::Slave => 3,
    });
    buf.pad(4);
    buf.put_u64(m.generation_id);
}

pub(super) fn decode_async(r: &mut Reader<'_>) -> Result<AsyncConfig> {
    let mut pair = || Ok([r.u32()?, r.u32()?]);
    Ok(AsyncConfig { packet_in: pair()?, port_status: pair()?, flow_removed: pair()? })
}

pub(super) fn encode_async(buf: &mut Vec<u8>, m: &AsyncConfig) {
    for mask in [m.packet_in, m.port_status, m.flow_removed].as_flattened() {
        buf.put_u32(*mask);
    }
}
