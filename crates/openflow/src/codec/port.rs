//! Ports and queues (1.4.1 §7.2.2, §7.3.5.6; 1.3.5 §7.2.1, §7.2.2, §7.3.4.3, §7.3.5.6, §7.4.3; 1.0.2 §5.2.1, §5.2.2).

use super::loss::{Encode, Loss};
use super::property;
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::ids::{Age, PortNo, QueueId};
use crate::port::{
    PortConfig, PortDesc, PortFeatures, PortMod, PortReason, PortState, PortStats, PortStatus,
    QueueConfig, QueueConfigReply, QueueProperty, QueueStats, QueueStatsRequest,
};
use crate::switch::QueueConfigRequest;
use crate::version::Version;

const NAME_LEN: usize = 16;
const PROPERTY_EXPERIMENTER: u16 = 0xffff;
const STATE_V10: PortState =
    PortState::LINK_DOWN.union(PortState::STP_LEARN).union(PortState::STP_FORWARD);
const STATE_V13: PortState = PortState::LINK_DOWN.union(PortState::BLOCKED).union(PortState::LIVE);
/// Speeds have the same bits in both versions; the media behind them lie 4 bits lower in 1.0.
const SPEEDS_V10: u32 = 0x7f;
const MEDIA: u32 = 0x1f << 11;

fn config_bits(version: Version) -> PortConfig {
    match version {
        Version::V10 => PortConfig::V10,
        _ => PortConfig::V13,
    }
}

fn state_bits(version: Version) -> PortState {
    match version {
        Version::V10 => STATE_V10,
        _ => STATE_V13,
    }
}

fn features_from_wire(version: Version, bits: u32) -> PortFeatures {
    PortFeatures::from_bits_truncate(match version {
        Version::V10 => bits & SPEEDS_V10 | bits << 4 & MEDIA,
        _ => bits,
    })
}

fn features_to_wire(version: Version, features: PortFeatures) -> u32 {
    let bits = features.bits();
    match version {
        Version::V10 => bits & SPEEDS_V10 | (bits & MEDIA) >> 4,
        _ => bits,
    }
}

/// Bytes of a port's description, in 1.4 and later with its one property.
pub(super) const fn desc_len(version: Version) -> usize {
    match version {
        Version::V10 => 48,
        Version::V13 => 64,
        Version::V14 | Version::V15 => 72,
    }
}

/// The type of properties about Ethernet.
const PROPERTY_ETHERNET: u16 = 0;

//= openflow-1.4.1 §7.2.2: a port's description holds properties; what is Ethernet's is one of them.
fn decode_desc_14(list: &mut Reader<'_>) -> Result<PortDesc> {
    let version = Version::V14;
    let number = PortNo(list.u32()?);
    // The length counts from the number on.
    let length = usize::from(list.u16()?);
    let Some(left) = length.checked_sub(6) else {
        return Err(list.bad_length(length, "40 or more"));
    };
    let mut r = list.sub(left, "port description", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let hw_addr = r.mac()?;
    r.skip(2)?;
    let name = r.text(NAME_LEN)?;
    let config = PortConfig::from_bits_truncate(r.u32()?) & config_bits(version);
    let state = PortState::from_bits_truncate(r.u32()?) & state_bits(version);
    let none = PortFeatures::empty();
    let mut desc = PortDesc {
        port_no: number,
        hw_addr,
        name,
        config,
        state,
        curr: none,
        advertised: none,
        supported: none,
        peer: none,
        curr_speed: 0,
        max_speed: 0,
    };
    while let Some((number, mut property)) = property::next(&mut r, "port property")? {
        if number != PROPERTY_ETHERNET {
            // What is not known only informs.
            continue;
        }
        property.skip(4)?;
        let mut features = || property.u32().map(|bits| features_from_wire(version, bits));
        (desc.curr, desc.advertised) = (features()?, features()?);
        (desc.supported, desc.peer) = (features()?, features()?);
        (desc.curr_speed, desc.max_speed) = (property.u32()?, property.u32()?);
        property.finish()?;
    }
    Ok(desc)
}

fn encode_desc_14(buf: &mut Vec<u8>, m: &PortDesc) {
    let version = Version::V14;
    let start = buf.len();
    buf.put_u32(m.port_no.0);
    buf.put_u16(0);
    buf.pad(2);
    buf.put_mac(m.hw_addr);
    buf.pad(2);
    buf.put_text(&m.name, NAME_LEN);
    buf.put_u32((m.config & config_bits(version)).bits());
    buf.put_u32((m.state & state_bits(version)).bits());
    let at = property::begin(buf, PROPERTY_ETHERNET);
    buf.pad(4);
    for features in [m.curr, m.advertised, m.supported, m.peer] {
        buf.put_u32(features_to_wire(version, features));
    }
    buf.put_u32(m.curr_speed);
    buf.put_u32(m.max_speed);
    property::end(buf, at);
    buf.patch_length(start + 4, start);
}

/// A port's number; 1.3 has it in 32 bits.
fn port_no(version: Version, r: &mut Reader<'_>) -> Result<PortNo> {
    match version {
        Version::V10 => r.u16().map(PortNo::from_v10),
        _ => r.u32().map(PortNo),
    }
}

/// A port's number and padding to 8 bytes; one that 1.0 cannot number is none.
fn put_port(buf: &mut Vec<u8>, version: Version, port: PortNo) {
    match version {
        Version::V10 => buf.put_u16(port.to_v10().unwrap_or(0xffff)),
        _ => buf.put_u32(port.0),
    }
}

pub(super) fn decode_desc(version: Version, list: &mut Reader<'_>) -> Result<PortDesc> {
    if version >= Version::V14 {
        return decode_desc_14(list);
    }
    let mut r = list.sub(desc_len(version), "port description", ErrorCode::BrcBadLen)?;
    let port_no = port_no(version, &mut r)?;
    if version >= Version::V13 {
        r.skip(4)?;
    }
    let hw_addr = r.mac()?;
    if version >= Version::V13 {
        r.skip(2)?;
    }
    let name = r.text(NAME_LEN)?;
    let config = PortConfig::from_bits_truncate(r.u32()?) & config_bits(version);
    let state = PortState::from_bits_truncate(r.u32()?) & state_bits(version);
    let mut features = || r.u32().map(|bits| features_from_wire(version, bits));
    let (curr, advertised, supported, peer) = (features()?, features()?, features()?, features()?);
    let (curr_speed, max_speed) = match version {
        Version::V10 => (0, 0),
        _ => (r.u32()?, r.u32()?),
    };
    Ok(PortDesc {
        port_no,
        hw_addr,
        name,
        config,
        state,
        curr,
        advertised,
        supported,
        peer,
        curr_speed,
        max_speed,
    })
}

pub(super) fn encode_desc(buf: &mut Vec<u8>, version: Version, m: &PortDesc) {
    if version >= Version::V14 {
        return encode_desc_14(buf, m);
    }
    put_port(buf, version, m.port_no);
    if version >= Version::V13 {
        buf.pad(4);
    }
    buf.put_mac(m.hw_addr);
    if version >= Version::V13 {
        buf.pad(2);
    }
    buf.put_text(&m.name, NAME_LEN);
    buf.put_u32((m.config & config_bits(version)).bits());
    buf.put_u32((m.state & state_bits(version)).bits());
    for features in [m.curr, m.advertised, m.supported, m.peer] {
        buf.put_u32(features_to_wire(version, features));
    }
    if version >= Version::V13 {
        buf.put_u32(m.curr_speed);
        buf.put_u32(m.max_speed);
    }
}

pub(super) fn decode_status(version: Version, r: &mut Reader<'_>) -> Result<PortStatus> {
    let number = r.u8()?;
    let reason = match number {
        0 => PortReason::Add,
        1 => PortReason::Delete,
        2 => PortReason::Modify,
        _ => {
            let code = ErrorCode::BrcBadType;
            return Err(r.bad_value(code, "port-status reason", number, "0 to 2"));
        }
    };
    r.skip(7)?;
    Ok(PortStatus { reason, desc: decode_desc(version, r)? })
}

pub(super) fn encode_status(buf: &mut Vec<u8>, version: Version, m: &PortStatus) {
    buf.put_u8(match m.reason {
        PortReason::Add => 0,
        PortReason::Delete => 1,
        PortReason::Modify => 2,
    });
    buf.pad(7);
    encode_desc(buf, version, &m.desc);
}

pub(super) fn decode_mod(version: Version, r: &mut Reader<'_>) -> Result<PortMod> {
    let port_no = port_no(version, r)?;
    if version >= Version::V13 {
        r.skip(4)?;
    }
    let hw_addr = r.mac()?;
    if version >= Version::V13 {
        r.skip(2)?;
    }
    let config = r.u32()?;
    let mask = r.u32()?;
    let known = config_bits(version);
    if mask & !known.bits() != 0 {
        return Err(r.bad_value(
            ErrorCode::PmfcBadConfig,
            "port-mod's mask",
            mask,
            "bits of OFPPC_*",
        ));
    }
    let mask = PortConfig::from_bits_truncate(mask);
    let config = PortConfig::from_bits_truncate(config) & known;
    let advertise = if version >= Version::V14 {
        decode_mod_properties(version, r)?
    } else {
        let advertise = features_from_wire(version, r.u32()?);
        r.skip(4)?;
        advertise
    };
    Ok(PortMod { port_no, hw_addr, config, mask, advertise })
}

fn decode_mod_properties(version: Version, r: &mut Reader<'_>) -> Result<PortFeatures> {
    let mut advertise = PortFeatures::empty();
    while let Some((number, mut property)) = property::next(r, "port property")? {
        match number {
            PROPERTY_ETHERNET => advertise = features_from_wire(version, property.u32()?),
            property::EXPERIMENTER => return Err(property::experimenter(&mut property)?),
            _ => return Err(property::unknown(&property, "port property", number)),
        }
        property.finish()?;
    }
    Ok(advertise)
}

pub(super) fn encode_mod(buf: &mut Vec<u8>, version: Version, m: &PortMod) -> Encode {
    match version {
        Version::V10 => buf.put_u16(Loss::Refuse.port(m.port_no)?),
        _ => {
            buf.put_u32(m.port_no.0);
            buf.pad(4);
        }
    }
    buf.put_mac(m.hw_addr);
    if version >= Version::V13 {
        buf.pad(2);
    }
    buf.put_u32((m.config & config_bits(version)).bits());
    buf.put_u32((m.mask & config_bits(version)).bits());
    if version >= Version::V14 {
        let at = property::begin(buf, PROPERTY_ETHERNET);
        buf.put_u32(features_to_wire(version, m.advertise));
        property::end(buf, at);
    } else {
        buf.put_u32(features_to_wire(version, m.advertise));
        buf.pad(4);
    }
    Ok(())
}

pub(super) fn decode_stats_request(version: Version, r: &mut Reader<'_>) -> Result<PortNo> {
    let port = port_no(version, r)?;
    r.skip(match version {
        Version::V10 => 6,
        _ => 4,
    })?;
    Ok(port)
}

pub(super) fn encode_stats_request(buf: &mut Vec<u8>, version: Version, port: PortNo) -> Encode {
    let start = buf.len();
    match version {
        Version::V10 => buf.put_u16(Loss::Refuse.port(port)?),
        _ => buf.put_u32(port.0),
    }
    buf.pad_to_8(start);
    Ok(())
}

/// Reads a port's counters of 1.4, those of Ethernet being a property (1.4.1 §7.3.5.6).
fn decode_stats_14(list: &mut Reader<'_>) -> Result<PortStats> {
    let mut r = list.element(0, 80, "port statistics", ErrorCode::BrcBadLen)?;
    r.skip(4)?;
    let port_no = PortNo(r.u32()?);
    let age = Age { sec: r.u32()?, nsec: r.u32()? };
    let mut stats = PortStats {
        port_no,
        rx_packets: r.u64()?,
        tx_packets: r.u64()?,
        rx_bytes: r.u64()?,
        tx_bytes: r.u64()?,
        rx_dropped: r.u64()?,
        tx_dropped: r.u64()?,
        rx_errors: r.u64()?,
        tx_errors: r.u64()?,
        rx_frame_err: u64::MAX,
        rx_over_err: u64::MAX,
        rx_crc_err: u64::MAX,
        collisions: u64::MAX,
        age,
    };
    while let Some((number, mut property)) = property::next(&mut r, "port statistics property")? {
        if number == PROPERTY_ETHERNET {
            property.skip(4)?;
            stats.rx_frame_err = property.u64()?;
            stats.rx_over_err = property.u64()?;
            stats.rx_crc_err = property.u64()?;
            stats.collisions = property.u64()?;
            property.finish()?;
        }
    }
    Ok(stats)
}

fn encode_stats_14(buf: &mut Vec<u8>, m: &PortStats) {
    let start = buf.len();
    buf.put_u16(0);
    buf.pad(2);
    buf.put_u32(m.port_no.0);
    buf.put_age(m.age);
    for counter in [
        m.rx_packets,
        m.tx_packets,
        m.rx_bytes,
        m.tx_bytes,
        m.rx_dropped,
        m.tx_dropped,
        m.rx_errors,
        m.tx_errors,
    ] {
        buf.put_u64(counter);
    }
    let at = property::begin(buf, PROPERTY_ETHERNET);
    buf.pad(4);
    for counter in [m.rx_frame_err, m.rx_over_err, m.rx_crc_err, m.collisions] {
        buf.put_u64(counter);
    }
    property::end(buf, at);
    buf.patch_length(start, start);
}

pub(super) fn decode_stats(version: Version, r: &mut Reader<'_>) -> Result<PortStats> {
    if version >= Version::V14 {
        return decode_stats_14(r);
    }
    let port_no = decode_stats_request(version, r)?;
    Ok(PortStats {
        port_no,
        rx_packets: r.u64()?,
        tx_packets: r.u64()?,
        rx_bytes: r.u64()?,
        tx_bytes: r.u64()?,
        rx_dropped: r.u64()?,
        tx_dropped: r.u64()?,
        rx_errors: r.u64()?,
        tx_errors: r.u64()?,
        rx_frame_err: r.u64()?,
        rx_over_err: r.u64()?,
        rx_crc_err: r.u64()?,
        collisions: r.u64()?,
        age: decode_age(version, r)?,
    })
}

fn decode_age(version: Version, r: &mut Reader<'_>) -> Result<Age> {
    match version {
        Version::V10 => Ok(PortStats::NO_AGE),
        _ => Ok(Age { sec: r.u32()?, nsec: r.u32()? }),
    }
}

pub(super) fn encode_stats(buf: &mut Vec<u8>, version: Version, m: &PortStats) {
    if version >= Version::V14 {
        return encode_stats_14(buf, m);
    }
    let start = buf.len();
    put_port(buf, version, m.port_no);
    buf.pad_to_8(start);
    for counter in [
        m.rx_packets,
        m.tx_packets,
        m.rx_bytes,
        m.tx_bytes,
        m.rx_dropped,
        m.tx_dropped,
        m.rx_errors,
        m.tx_errors,
        m.rx_frame_err,
        m.rx_over_err,
        m.rx_crc_err,
        m.collisions,
    ] {
        buf.put_u64(counter);
    }
    if version >= Version::V13 {
        buf.put_age(m.age);
    }
}

/// Reads a queue-statistics request; 1.0's "all ports" is `ALL` there, neutrally `ANY`.
pub(super) fn decode_queue_stats_request(
    version: Version,
    r: &mut Reader<'_>,
) -> Result<QueueStatsRequest> {
    let mut port = port_no(version, r)?;
    if version == Version::V10 {
        r.skip(2)?;
        if port == PortNo::ALL {
            port = PortNo::ANY;
        }
    }
    Ok(QueueStatsRequest { port_no: port, queue_id: QueueId(r.u32()?) })
}

pub(super) fn encode_queue_stats_request(
    buf: &mut Vec<u8>,
    version: Version,
    m: &QueueStatsRequest,
) -> Encode {
    match version {
        Version::V10 => {
            let port = if m.port_no == PortNo::ANY { PortNo::ALL } else { m.port_no };
            buf.put_u16(Loss::Refuse.port(port)?);
            buf.pad(2);
        }
        _ => buf.put_u32(m.port_no.0),
    }
    buf.put_u32(m.queue_id.0);
    Ok(())
}

pub(super) fn decode_queue_stats(version: Version, r: &mut Reader<'_>) -> Result<QueueStats> {
    if version >= Version::V14 {
        let mut r = r.element(0, 48, "queue statistics", ErrorCode::BrcBadLen)?;
        r.skip(8)?;
        let (port_no, queue_id) = (PortNo(r.u32()?), QueueId(r.u32()?));
        let (tx_bytes, tx_packets, tx_errors) = (r.u64()?, r.u64()?, r.u64()?);
        let age = decode_age(version, &mut r)?;
        return Ok(QueueStats { port_no, queue_id, tx_bytes, tx_packets, tx_errors, age });
    }
    let port_no = port_no(version, r)?;
    if version == Version::V10 {
        r.skip(2)?;
    }
    Ok(QueueStats {
        port_no,
        queue_id: QueueId(r.u32()?),
        tx_bytes: r.u64()?,
        tx_packets: r.u64()?,
        tx_errors: r.u64()?,
        age: decode_age(version, r)?,
    })
}

pub(super) fn encode_queue_stats(buf: &mut Vec<u8>, version: Version, m: &QueueStats) {
    if version >= Version::V14 {
        buf.put_u16(48);
        buf.pad(6);
    }
    put_port(buf, version, m.port_no);
    if version == Version::V10 {
        buf.pad(2);
    }
    buf.put_u32(m.queue_id.0);
    buf.put_u64(m.tx_bytes);
    buf.put_u64(m.tx_packets);
    buf.put_u64(m.tx_errors);
    if version >= Version::V13 {
        buf.put_age(m.age);
    }
}

pub(super) fn decode_queue_request(
    version: Version,
    r: &mut Reader<'_>,
) -> Result<QueueConfigRequest> {
    let port_no = port_no(version, r)?;
    r.skip(match version {
        Version::V10 => 2,
        _ => 4,
    })?;
    Ok(QueueConfigRequest { port_no })
}

pub(super) fn encode_queue_request(
    buf: &mut Vec<u8>,
    version: Version,
    m: &QueueConfigRequest,
) -> Encode {
    match version {
        Version::V10 => {
            buf.put_u16(Loss::Refuse.port(m.port_no)?);
            buf.pad(2);
        }
        _ => {
            buf.put_u32(m.port_no.0);
            buf.pad(4);
        }
    }
    Ok(())
}

pub(super) fn decode_queue_reply(version: Version, r: &mut Reader<'_>) -> Result<QueueConfigReply> {
    let port_no = decode_stats_request(version, r)?;
    let mut queues = Vec::new();
    while !r.is_empty() {
        queues.push(match version {
            Version::V10 => {
                let mut r = r.element(4, 8, "queue", ErrorCode::BrcBadLen)?;
                let queue_id = QueueId(r.u32()?);
                r.skip(4)?;
                let properties = decode_properties(version, &mut r)?;
                QueueConfig { queue_id, port_no: PortNo::ANY, properties }
            }
            _ => {
                let mut r = r.element(8, 16, "queue", ErrorCode::BrcBadLen)?;
                let queue_id = QueueId(r.u32()?);
                let port_no = PortNo(r.u32()?);
                r.skip(8)?;
                let properties = decode_properties(version, &mut r)?;
                QueueConfig { queue_id, port_no, properties }
            }
        });
    }
    Ok(QueueConfigReply { port_no, queues })
}

/// Reads a queue's description of 1.4 (1.4.1 §7.3.5.10).
pub(super) fn decode_queue_desc(list: &mut Reader<'_>) -> Result<QueueConfig> {
    let mut r = list.element(8, 16, "queue description", ErrorCode::BrcBadLen)?;
    let (port_no, queue_id) = (PortNo(r.u32()?), QueueId(r.u32()?));
    r.skip(8)?;
    let mut properties = Vec::new();
    while let Some((number, mut property)) = property::next(&mut r, "queue property")? {
        properties.push(match number {
            1 => QueueProperty::MinRate(property.u16()?),
            2 => QueueProperty::MaxRate(property.u16()?),
            PROPERTY_EXPERIMENTER => {
                let experimenter = property.u32()?;
                QueueProperty::Experimenter { experimenter, data: property.rest().to_vec() }
            }
            _ => continue,
        });
    }
    Ok(QueueConfig { queue_id, port_no, properties })
}

pub(super) fn encode_queue_desc(buf: &mut Vec<u8>, m: &QueueConfig) {
    let start = buf.len();
    buf.put_u32(m.port_no.0);
    buf.put_u32(m.queue_id.0);
    buf.put_u16(0);
    buf.pad(6);
    for p in &m.properties {
        let number = match p {
            QueueProperty::MinRate(_) => 1,
            QueueProperty::MaxRate(_) => 2,
            QueueProperty::Experimenter { .. } => PROPERTY_EXPERIMENTER,
        };
        let at = property::begin(buf, number);
        match p {
            QueueProperty::MinRate(rate) | QueueProperty::MaxRate(rate) => {
                buf.put_u16(*rate);
                buf.pad(2);
            }
            QueueProperty::Experimenter { experimenter, data } => {
                buf.put_u32(*experimenter);
                buf.extend_from_slice(data);
            }
        }
        property::end(buf, at);
    }
    buf.patch_length(start + 8, start);
}

fn decode_properties(version: Version, list: &mut Reader<'_>) -> Result<Vec<QueueProperty>> {
    let mut properties = Vec::new();
    while !list.is_empty() {
        let mut r = list.element(2, 8, "queue property", ErrorCode::BrcBadLen)?;
        let number = r.u16()?;
        r.skip(6)?;
        match number {
            // 1.0 has no other than this and 0, "none"; here it only informs.
            _ if version == Version::V10 && number != 1 => {}
            1 => properties.push(QueueProperty::MinRate(r.u16()?)),
            2 => properties.push(QueueProperty::MaxRate(r.u16()?)),
            PROPERTY_EXPERIMENTER => {
                let experimenter = r.u32()?;
                r.skip(4)?;
                let data = r.rest().to_vec();
                properties.push(QueueProperty::Experimenter { experimenter, data });
            }
            _ => {}
        }
    }
    Ok(properties)
}

pub(super) fn encode_queue_reply(buf: &mut Vec<u8>, version: Version, m: &QueueConfigReply) {
    let start = buf.len();
    put_port(buf, version, m.port_no);
    buf.pad_to_8(start);
    for queue in &m.queues {
        let start = buf.len();
        buf.put_u32(queue.queue_id.0);
        if version >= Version::V13 {
            buf.put_u32(queue.port_no.0);
        }
        let length_at = buf.len();
        buf.put_u16(0);
        buf.pad_to_8(start);
        for property in &queue.properties {
            encode_property(buf, version, property);
        }
        buf.patch_length(length_at, start);
    }
}

fn encode_property(buf: &mut Vec<u8>, version: Version, property: &QueueProperty) {
    let start = buf.len();
    let number = match property {
        QueueProperty::MinRate(_) => 1,
        // 1.0 has no other; left out.
        _ if version == Version::V10 => return,
        QueueProperty::MaxRate(_) => 2,
        QueueProperty::Experimenter { .. } => PROPERTY_EXPERIMENTER,
    };
    buf.put_u16(number);
    buf.put_u16(0);
    buf.pad(4);
    match property {
        QueueProperty::MinRate(rate) | QueueProperty::MaxRate(rate) => {
            buf.put_u16(*rate);
            buf.pad(6);
        }
        QueueProperty::Experimenter { experimenter, data } => {
            buf.put_u32(*experimenter);
            buf.pad(4);
            buf.extend_from_slice(data);
        }
    }
    buf.patch_length(start + 2, start);
}
