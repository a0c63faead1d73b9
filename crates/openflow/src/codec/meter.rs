//! Meter-mod, and meters in multipart messages. 1.0 has none.

use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::ids::{Age, MeterId};
use crate::meter::{
    Band, BandKind, BandStats, MeterConfig, MeterFeatures, MeterFlags, MeterMod, MeterModCommand,
    MeterStats,
};
use crate::version::Version;

const BAND_EXPERIMENTER: u16 = 0xffff;

pub(super) fn decode_mod(r: &mut Reader<'_>) -> Result<MeterMod> {
    let number = r.u16()?;
    let command = match number {
        0 => MeterModCommand::Add,
        1 => MeterModCommand::Modify,
        2 => MeterModCommand::Delete,
        _ => {
            let code = ErrorCode::MmfcBadCommand;
            return Err(r.bad_value(code, "meter-mod command", number, "0 to 2"));
        }
    };
    let flags = decode_flags(r)?;
    let meter_id = MeterId(r.u32()?);
    let bands = decode_bands(r)?;
    Ok(MeterMod { command, flags, meter_id, bands })
}

fn decode_flags(r: &mut Reader<'_>) -> Result<MeterFlags> {
    let bits = r.u16()?;
    match MeterFlags::from_bits(bits) {
        Some(flags) if !flags.contains(MeterFlags::KBPS | MeterFlags::PKTPS) => Ok(flags),
        _ => Err(r.bad_value(
            ErrorCode::MmfcBadFlags,
            "meter flags",
            bits,
            "bits 0 to 3, not both of 0 (kbps) and 1 (pktps),",
        )),
    }
}

fn decode_bands(list: &mut Reader<'_>) -> Result<Vec<Band>> {
    let mut bands = Vec::new();
    while !list.is_empty() {
        let mut r = list.element(2, 12, "meter band", ErrorCode::BrcBadLen)?;
        let number = r.u16()?;
        r.skip(2)?;
        let rate = r.u32()?;
        let burst_size = r.u32()?;
        let kind = match number {
            1 => {
                r.skip(4)?;
                BandKind::Drop
            }
            2 => {
                let prec_level = r.u8()?;
                r.skip(3)?;
                BandKind::DscpRemark { prec_level }
            }
            BAND_EXPERIMENTER => {
                let experimenter = r.u32()?;
                BandKind::Experimenter { experimenter, data: r.rest().to_vec() }
            }
            _ => {
                return Err(r.bad_value(
                    ErrorCode::MmfcBadBand,
                    "meter band type",
                    number,
                    "1, 2 or 0xffff",
                ));
            }
        };
        r.finish()?;
        bands.push(Band { rate, burst_size, kind });
    }
    Ok(bands)
}

fn encode_bands(buf: &mut Vec<u8>, bands: &[Band]) {
    for band in bands {
        let start = buf.len();
        buf.put_u16(match band.kind {
            BandKind::Drop => 1,
            BandKind::DscpRemark { .. } => 2,
            BandKind::Experimenter { .. } => BAND_EXPERIMENTER,
        });
        buf.put_u16(0);
        buf.put_u32(band.rate);
        buf.put_u32(band.burst_size);
        match &band.kind {
            BandKind::Drop => buf.pad(4),
            BandKind::DscpRemark { prec_level } => {
                buf.put_u8(*prec_level);
                buf.pad(3);
            }
            BandKind::Experimenter { experimenter, data } => {
                buf.put_u32(*experimenter);
                buf.extend_from_slice(data);
            }
        }
        buf.patch_length(start + 2, start);
    }
}

pub(super) fn encode_mod(buf: &mut Vec<u8>, m: &MeterMod) {
    buf.put_u16(match m.command {
        MeterModCommand::Add => 0,
        MeterModCommand::Modify => 1,
        MeterModCommand::Delete => 2,
    });
    buf.put_u16(m.flags.bits());
    buf.put_u32(m.meter_id.0);
    encode_bands(buf, &m.bands);
}

pub(super) fn decode_config(list: &mut Reader<'_>) -> Result<MeterConfig> {
    let mut r = list.element(0, 8, "meter configuration", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let flags = decode_flags(&mut r)?;
    let meter_id = MeterId(r.u32()?);
    let bands = decode_bands(&mut r)?;
    Ok(MeterConfig { flags, meter_id, bands })
}

pub(super) fn encode_config(buf: &mut Vec<u8>, m: &MeterConfig) {
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u16(m.flags.bits());
    buf.put_u32(m.meter_id.0);
    encode_bands(buf, &m.bands);
    buf.patch_length(start, start);
}

pub(super) fn decode_stats(list: &mut Reader<'_>) -> Result<MeterStats> {
    let mut r = list.element(4, 40, "meter statistics", ErrorCode::BrcBadLen)?;
    let meter_id = MeterId(r.u32()?);
    r.skip(8)?;
    let flow_count = r.u32()?;
    let packet_in_count = r.u64()?;
    let byte_in_count = r.u64()?;
    let age = Age { sec: r.u32()?, nsec: r.u32()? };
    let mut bands = Vec::with_capacity(r.left() / 16);
    while !r.is_empty() {
        bands.push(BandStats { packet_count: r.u64()?, byte_count: r.u64()? });
    }
    Ok(MeterStats { meter_id, flow_count, packet_in_count, byte_in_count, age, bands })
}

pub(super) fn encode_stats(buf: &mut Vec<u8>, m: &MeterStats) {
    let start = buf.len();
    buf.put_u32(m.meter_id.0);
    buf.put_u16(0);
    buf.pad(6);
    buf.put_u32(m.flow_count);
    buf.put_u64(m.packet_in_count);
    buf.put_u64(m.byte_in_count);
    buf.put_age(m.age);
    for band in &m.bands {
        buf.put_u64(band.packet_count);
        buf.put_u64(band.byte_count);
    }
    buf.patch_length(start + 4, start);
}

pub(super) fn decode_features(version: Version, r: &mut Reader<'_>) -> Result<MeterFeatures> {
    let mut features = MeterFeatures {
        max_meter: r.u32()?,
        band_types: r.u32()?,
        capabilities: r.u32()?,
        max_bands: r.u8()?,
        max_color: r.u8()?,
        features: 0,
    };
    r.skip(2)?;
    // Open vSwitch and `ovs-ofctl` leave these out.
    if version >= Version::V15 && !r.is_empty() {
        features.features = r.u32()?;
        r.skip(4)?;
    }
    Ok(features)
}

pub(super) fn encode_features(buf: &mut Vec<u8>, version: Version, m: &MeterFeatures) {
    buf.put_u32(m.max_meter);
    buf.put_u32(m.band_types);
    buf.put_u32(m.capabilities);
    buf.put_u8(m.max_bands);
    buf.put_u8(m.max_color);
    buf.pad(2);
    //= openflow-1.5.1 §7.3.5.14: flags follow; they are left out where there are none, as
    //= `ovs-ofctl` takes the reply without them only.
    if version >= Version::V15 && m.features != 0 {
        buf.put_u32(m.features);
        buf.pad(4);
    }
}
