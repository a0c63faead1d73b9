//! Connections to be forgotten (`NXT_CT_FLUSH`): the protocol, then properties; a tuple is a property of properties.

use super::property;
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::message::{CtFlush, CtTuple};
use std::net::{IpAddr, Ipv6Addr};

/// `NXT_CT_FLUSH`.
pub(super) const FLUSH: u32 = 32;

/// `enum nx_ct_flush_tlv_type`.
mod outer {
    pub(super) const ORIGINAL: u16 = 0;
    pub(super) const REPLY: u16 = 1;
    pub(super) const ZONE: u16 = 2;
    pub(super) const MARK: u16 = 3;
    pub(super) const MARK_MASK: u16 = 4;
    pub(super) const LABELS: u16 = 5;
    pub(super) const LABELS_MASK: u16 = 6;
}

/// `enum nx_ct_flush_tuple_tlv_type`.
mod inner {
    pub(super) const SRC: u16 = 0;
    pub(super) const DST: u16 = 1;
    pub(super) const SRC_PORT: u16 = 2;
    pub(super) const DST_PORT: u16 = 3;
    pub(super) const ICMP_ID: u16 = 4;
    pub(super) const ICMP_TYPE: u16 = 5;
    pub(super) const ICMP_CODE: u16 = 6;
}

const WHAT: &str = "NXT_CT_FLUSH property";
const TUPLE: &str = "NXT_CT_FLUSH tuple's property";

pub(super) fn decode(r: &mut Reader<'_>) -> Result<CtFlush> {
    let protocol = r.u8()?;
    if r.array::<7>()? != [0; 7] {
        let (code, what) = (ErrorCode::NxbrcMustBeZero, "NXT_CT_FLUSH padding");
        return Err(r.bad_value(code, what, 1_u8, "zeros"));
    }
    let mut flush = CtFlush { protocol, ..CtFlush::default() };
    let (mut mark, mut mark_mask, mut labels, mut labels_mask) = (None, None, None, None);
    while let Some((number, mut property)) = property::next(r, WHAT)? {
        match number {
            outer::ORIGINAL => flush.original = decode_tuple(property)?,
            outer::REPLY => flush.reply = decode_tuple(property)?,
            outer::ZONE => flush.zone = Some(property.u16()?),
            outer::MARK => mark = Some(exact(&mut property, 4)? as u32),
            outer::MARK_MASK => mark_mask = Some(exact(&mut property, 4)? as u32),
            outer::LABELS => labels = Some(exact(&mut property, 16)?),
            outer::LABELS_MASK => labels_mask = Some(exact(&mut property, 16)?),
            _ => return Err(property::unknown(&property, WHAT, number)),
        }
    }
    // A value without a mask is compared whole; a mask without a value asks for zeros.
    flush.mark = masked(mark, mark_mask, u32::MAX);
    flush.labels = masked(labels, labels_mask, u128::MAX);
    let addresses = [&flush.original, &flush.reply].map(|tuple| [tuple.src, tuple.dst]);
    let mut all = addresses.iter().flatten().flatten();
    let first = all.next();
    if first.is_some_and(|first| all.any(|other| other.is_ipv4() != first.is_ipv4())) {
        let right = "addresses of one IP version";
        return Err(r.bad_value(ErrorCode::BpcBadValue, "NXT_CT_FLUSH tuples", 0_u8, right));
    }
    Ok(flush)
}

fn masked<T: Default>(value: Option<T>, mask: Option<T>, ones: T) -> (T, T) {
    match (value, mask) {
        (Some(value), None) => (value, ones),
        (value, mask) => (value.unwrap_or_default(), mask.unwrap_or_default()),
    }
}

/// A number of `n` octets, of which the property has no more.
fn exact(property: &mut Reader<'_>, n: usize) -> Result<u128> {
    match property.left() {
        left if left == n => property.number(n),
        left => Err(property.bad_length(left, "that of its value")),
    }
}

fn decode_tuple(mut list: Reader<'_>) -> Result<CtTuple> {
    list.skip(4)?;
    let mut tuple = CtTuple::default();
    while let Some((number, mut property)) = property::next(&mut list, TUPLE)? {
        match number {
            inner::SRC => tuple.src = address(&mut property)?,
            inner::DST => tuple.dst = address(&mut property)?,
            inner::SRC_PORT => tuple.src_port = property.u16()?,
            inner::DST_PORT => tuple.dst_port = property.u16()?,
            inner::ICMP_ID => tuple.icmp_id = property.u16()?,
            inner::ICMP_TYPE => tuple.icmp_type = property.u8()?,
            inner::ICMP_CODE => tuple.icmp_code = property.u8()?,
            _ => return Err(property::unknown(&property, TUPLE, number)),
        }
    }
    Ok(tuple)
}

/// IPv4's are written as IPv6's that stand for them.
fn address(property: &mut Reader<'_>) -> Result<Option<IpAddr>> {
    let address = Ipv6Addr::from(property.array::<16>()?);
    Ok(match address.to_ipv4_mapped() {
        Some(v4) => Some(v4.into()),
        None => (!address.is_unspecified()).then_some(address.into()),
    })
}

pub(super) fn encode(buf: &mut Vec<u8>, flush: &CtFlush) {
    buf.put_u8(flush.protocol);
    buf.pad(7);
    encode_tuple(buf, outer::ORIGINAL, &flush.original);
    encode_tuple(buf, outer::REPLY, &flush.reply);
    if let Some(zone) = flush.zone {
        put_u16(buf, outer::ZONE, zone);
    }
    if flush.mark != (0, 0) {
        put(buf, outer::MARK, &flush.mark.0.to_be_bytes());
        put(buf, outer::MARK_MASK, &flush.mark.1.to_be_bytes());
    }
    if flush.labels != (0, 0) {
        put(buf, outer::LABELS, &flush.labels.0.to_be_bytes());
        put(buf, outer::LABELS_MASK, &flush.labels.1.to_be_bytes());
    }
}

fn encode_tuple(buf: &mut Vec<u8>, number: u16, tuple: &CtTuple) {
    if *tuple == CtTuple::default() {
        return;
    }
    let start = property::begin(buf, number);
    buf.pad(4);
    for (number, address) in [(inner::SRC, tuple.src), (inner::DST, tuple.dst)] {
        match address {
            Some(IpAddr::V4(v4)) => put(buf, number, &v4.to_ipv6_mapped().octets()),
            Some(IpAddr::V6(v6)) => put(buf, number, &v6.octets()),
            None => {}
        }
    }
    let numbers = [
        (inner::SRC_PORT, tuple.src_port),
        (inner::DST_PORT, tuple.dst_port),
        (inner::ICMP_ID, tuple.icmp_id),
    ];
    numbers.iter().filter(|(_, n)| *n != 0).for_each(|(number, n)| put_u16(buf, *number, *n));
    let small = [(inner::ICMP_TYPE, tuple.icmp_type), (inner::ICMP_CODE, tuple.icmp_code)];
    small.iter().filter(|(_, n)| *n != 0).for_each(|(number, n)| put(buf, *number, &[*n]));
    property::end(buf, start);
}

fn put(buf: &mut Vec<u8>, number: u16, value: &[u8]) {
    let start = property::begin(buf, number);
    buf.extend_from_slice(value);
    property::end(buf, start);
}

/// With two octets more, as 16-bit properties of the standard have them.
fn put_u16(buf: &mut Vec<u8>, number: u16, value: u16) {
    let [high, low] = value.to_be_bytes();
    put(buf, number, &[high, low, 0, 0]);
}
