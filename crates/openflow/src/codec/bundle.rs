//! Bundle messages (1.4.1 §7.3.9; 1.5.1 §7.3.9, §7.3.5.20), in 1.3 as the ONF's extension 230.

use super::property;
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::bundle::{BundleAdd, BundleControl, BundleControlType, BundleFlags, BundleId};
use crate::error::ErrorCode;
use crate::multipart::{BundleFeatures, BundleFeaturesRequest, BundleTimes};

/// The ONF's experimenter type of [`BundleControl`] in 1.3.
pub(super) const ONF_CONTROL: u32 = 2300;
/// The ONF's experimenter type of [`BundleAdd`] in 1.3.
pub(super) const ONF_ADD: u32 = 2301;

/// The type of properties that say a time.
const PROPERTY_TIME: u16 = 1;

fn time(r: &mut Reader<'_>) -> Result<(u64, u32)> {
    let time = (r.u64()?, r.u32()?);
    r.skip(4)?;
    Ok(time)
}

fn put_time(buf: &mut Vec<u8>, (sec, nsec): (u64, u32)) {
    buf.put_u64(sec);
    buf.put_u32(nsec);
    buf.pad(4);
}

pub(super) fn decode_control(r: &mut Reader<'_>) -> Result<BundleControl> {
    let bundle_id = BundleId(r.u32()?);
    let number = r.u16()?;
    let Some(control) = BundleControlType::ALL.get(usize::from(number)).copied() else {
        let code = ErrorCode::BfcBadType;
        return Err(r.bad_value(code, "bundle control type", number, "0 to 7"));
    };
    let flags = BundleFlags::from_bits_retain(r.u16()?);
    let mut at = None;
    while let Some((number, mut property)) = property::next(r, "bundle property")? {
        match number {
            PROPERTY_TIME => {
                property.skip(4)?;
                at = Some(time(&mut property)?);
            }
            property::EXPERIMENTER => return Err(property::experimenter(&mut property)?),
            _ => return Err(property::unknown(&property, "bundle property", number)),
        }
        property.finish()?;
    }
    Ok(BundleControl { bundle_id, control, flags, time: at })
}

pub(super) fn encode_control(buf: &mut Vec<u8>, m: &BundleControl) {
    buf.put_u32(m.bundle_id.0);
    buf.put_u16(m.control as u16);
    buf.put_u16(m.flags.bits());
    if let Some(at) = m.time {
        let start = property::begin(buf, PROPERTY_TIME);
        buf.pad(4);
        put_time(buf, at);
        property::end(buf, start);
    }
}

/// Reads a message that is added. Properties behind it are not known, and are left out.
pub(super) fn decode_add(r: &mut Reader<'_>) -> Result<BundleAdd> {
    let bundle_id = BundleId(r.u32()?);
    r.skip(2)?;
    let flags = BundleFlags::from_bits_retain(r.u16()?);
    let ahead = r.named("message in a bundle", ErrorCode::BfcMsgBadLen);
    let length = usize::from(ahead.peek_u16(2)?);
    if length < super::HEADER_LEN {
        return Err(ahead.bad_length(length, "8 or more"));
    }
    let mut message = r.sub(length, "message in a bundle", ErrorCode::BfcMsgBadLen)?;
    r.rest();
    Ok(BundleAdd { bundle_id, flags, message: message.rest().to_vec() })
}

pub(super) fn encode_add(buf: &mut Vec<u8>, m: &BundleAdd) {
    buf.put_u32(m.bundle_id.0);
    buf.pad(2);
    buf.put_u16(m.flags.bits());
    buf.extend_from_slice(&m.message);
}

pub(super) fn decode_features_request(r: &mut Reader<'_>) -> Result<BundleFeaturesRequest> {
    let flags = r.u32()?;
    r.skip(4)?;
    Ok(BundleFeaturesRequest { flags, times: times(r)? })
}

/// The times among properties, of which the others only inform.
fn times(r: &mut Reader<'_>) -> Result<Option<BundleTimes>> {
    let mut found = None;
    while let Some((number, mut property)) = property::next(r, "bundle features property")? {
        if number == PROPERTY_TIME {
            property.skip(4)?;
            let (accuracy, future) = (time(&mut property)?, time(&mut property)?);
            let (past, now) = (time(&mut property)?, time(&mut property)?);
            found = Some(BundleTimes { accuracy, future, past, now });
            property.finish()?;
        }
    }
    Ok(found)
}

fn put_times(buf: &mut Vec<u8>, times: Option<BundleTimes>) {
    let Some(BundleTimes { accuracy, future, past, now }) = times else { return };
    let start = property::begin(buf, PROPERTY_TIME);
    buf.pad(4);
    [accuracy, future, past, now].into_iter().for_each(|t| put_time(buf, t));
    property::end(buf, start);
}

pub(super) fn encode_features_request(buf: &mut Vec<u8>, m: &BundleFeaturesRequest) {
    buf.put_u32(m.flags);
    buf.pad(4);
    put_times(buf, m.times);
}

pub(super) fn decode_features(r: &mut Reader<'_>) -> Result<BundleFeatures> {
    let capabilities = BundleFlags::from_bits_retain(r.u16()?);
    r.skip(6)?;
    Ok(BundleFeatures { capabilities, times: times(r)? })
}

pub(super) fn encode_features(buf: &mut Vec<u8>, m: &BundleFeatures) {
    buf.put_u16(m.capabilities.bits());
    buf.pad(6);
    put_times(buf, m.times);
}
