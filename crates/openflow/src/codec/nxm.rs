//! NXM's numbers and names of fields, and bits of them as its actions write them (ovs-fields(7)).

use super::reader::{DecodeError, Reader, Result};
use crate::action::{SetField, Subfield};
use crate::error::ErrorCode;
use crate::field::{
    FieldId, NXM_CLASS_NX, NXM_CLASS_OF, OXM_CLASS_BASIC, OXM_CLASS_EXPERIMENTER, OxmHeader,
};
use crate::ids::PortNo;

/// Fields whose NXM number differs from OXM's: class, number, bytes of the value.
const NXM: [(FieldId, u16, u8, u8); 35] = {
    use FieldId::*;
    const OF: u16 = NXM_CLASS_OF;
    const NX: u16 = NXM_CLASS_NX;
    [
        (InPort, OF, 0, 2),
        (EthDst, OF, 1, 6),
        (EthSrc, OF, 2, 6),
        (EthType, OF, 3, 2),
        (IpProto, OF, 6, 1),
        (Ipv4Src, OF, 7, 4),
        (Ipv4Dst, OF, 8, 4),
        (TcpSrc, OF, 9, 2),
        (TcpDst, OF, 10, 2),
        (UdpSrc, OF, 11, 2),
        (UdpDst, OF, 12, 2),
        (Icmpv4Type, OF, 13, 1),
        (Icmpv4Code, OF, 14, 1),
        (ArpOp, OF, 15, 2),
        (ArpSpa, OF, 16, 4),
        (ArpTpa, OF, 17, 4),
        (TunnelId, NX, 16, 8),
        (ArpSha, NX, 17, 6),
        (ArpTha, NX, 18, 6),
        (Ipv6Src, NX, 19, 16),
        (Ipv6Dst, NX, 20, 16),
        (Icmpv6Type, NX, 21, 1),
        (Icmpv6Code, NX, 22, 1),
        (Ipv6NdTarget, NX, 23, 16),
        (Ipv6NdSll, NX, 24, 6),
        (Ipv6NdTll, NX, 25, 6),
        (IpFrag, NX, 26, 1),
        (Ipv6Flabel, NX, 27, 4),
        (IpEcn, NX, 28, 1),
        (NwTtl, NX, 29, 1),
        (TcpFlags, NX, 34, 2),
        // OXM's numbers, which NXM has none for.
        (Metadata, 0x8000, 2, 8),
        (MplsLabel, 0x8000, 34, 4),
        (MplsTc, 0x8000, 35, 1),
        (MplsBos, 0x8000, 36, 1),
    ]
};

/// NXM's names of fields that OpenFlow names otherwise, and how many bits there are.
pub(super) const NAMES: [(&str, FieldId, u16); 34] = {
    use FieldId::*;
    [
        ("NXM_OF_IN_PORT", InPort, 16),
        ("NXM_OF_ETH_DST", EthDst, 48),
        ("NXM_OF_ETH_SRC", EthSrc, 48),
        ("NXM_OF_ETH_TYPE", EthType, 16),
        ("NXM_OF_VLAN_TCI", VlanTci, 16),
        ("NXM_OF_IP_PROTO", IpProto, 8),
        ("NXM_OF_IP_SRC", Ipv4Src, 32),
        ("NXM_OF_IP_DST", Ipv4Dst, 32),
        ("NXM_OF_TCP_SRC", TcpSrc, 16),
        ("NXM_OF_TCP_DST", TcpDst, 16),
        ("NXM_OF_UDP_SRC", UdpSrc, 16),
        ("NXM_OF_UDP_DST", UdpDst, 16),
        ("NXM_OF_ICMP_TYPE", Icmpv4Type, 8),
        ("NXM_OF_ICMP_CODE", Icmpv4Code, 8),
        ("NXM_OF_ARP_OP", ArpOp, 16),
        ("NXM_OF_ARP_SPA", ArpSpa, 32),
        ("NXM_OF_ARP_TPA", ArpTpa, 32),
        ("NXM_NX_TUN_ID", TunnelId, 64),
        ("NXM_NX_ARP_SHA", ArpSha, 48),
        ("NXM_NX_ARP_THA", ArpTha, 48),
        ("NXM_NX_IPV6_SRC", Ipv6Src, 128),
        ("NXM_NX_IPV6_DST", Ipv6Dst, 128),
        ("NXM_NX_ICMPV6_TYPE", Icmpv6Type, 8),
        ("NXM_NX_ICMPV6_CODE", Icmpv6Code, 8),
        ("NXM_NX_ND_TARGET", Ipv6NdTarget, 128),
        ("NXM_NX_ND_SLL", Ipv6NdSll, 48),
        ("NXM_NX_ND_TLL", Ipv6NdTll, 48),
        ("NXM_NX_IP_FRAG", IpFrag, 2),
        ("NXM_NX_IPV6_LABEL", Ipv6Flabel, 20),
        ("NXM_NX_IP_ECN", IpEcn, 2),
        ("NXM_NX_IP_TTL", NwTtl, 8),
        ("NXM_NX_TCP_FLAGS", TcpFlags, 12),
        ("OXM_OF_METADATA", Metadata, 64),
        ("OXM_OF_MPLS_LABEL", MplsLabel, 20),
    ]
};

/// The field that NXM calls so, and how many bits it has.
pub(crate) fn nxm_field(name: &str) -> Option<(FieldId, u16)> {
    NAMES
        .iter()
        .find(|(known, ..)| known.eq_ignore_ascii_case(name))
        .map(|(_, id, bits)| (*id, *bits))
}

/// What NXM, or OpenFlow, calls a field; where in that its bits begin; how many bits there are.
pub(crate) fn nxm_name(id: FieldId) -> (&'static str, u16, u16) {
    match id {
        FieldId::VlanVid => return ("NXM_OF_VLAN_TCI", 0, 16),
        FieldId::VlanPcp => return ("NXM_OF_VLAN_TCI", 13, 16),
        _ => {}
    }
    match NAMES.iter().find(|(_, known, _)| *known == id) {
        Some((name, _, bits)) => (name, 0, *bits),
        None => (id.info().name, 0, id.info().bits as u16),
    }
}

/// A header's field and the bytes of its value, if it is one whole field.
pub(crate) fn field_of(header: OxmHeader) -> Option<(FieldId, usize)> {
    let key = (header.class(), header.number());
    NXM.iter()
        .find(|(_, class, number, _)| (*class, *number) == key)
        .map(|(id, _, _, bytes)| (*id, usize::from(*bytes)))
        .or_else(|| header.field().map(|id| (id, value_bytes(id, header, id.info().bytes.into()))))
}

/// Bytes of a field's value under a header: `usual`, but for a Geneve option, which has as many as the header says, up to that.
pub(crate) fn value_bytes(id: FieldId, header: OxmHeader, usual: usize) -> usize {
    match id.tun_metadata() {
        Some(_) => (header.length() >> u32::from(header.has_mask())).clamp(1, usual),
        None => usual,
    }
}

/// What is right for a header's length.
pub(crate) fn length_rule(id: FieldId) -> &'static str {
    match id.tun_metadata() {
        Some(_) => "1 to 16 octets, doubled with a mask",
        None => "the field's length, doubled with a mask",
    }
}

/// The mask of a value that has so many bytes and no mask of its own.
pub(crate) fn whole(id: FieldId, bytes: usize) -> u128 {
    match id.tun_metadata() {
        Some(_) => u128::MAX >> (128 - 8 * bytes),
        None => id.all_bits(),
    }
}

/// A field's header and the bytes of its value: those of a Geneve option are as few words of 4 octets as its bits fit in. It
/// is without a mask if those words' bits are all in the mask.
pub(crate) fn fitted(
    id: FieldId,
    (value, mask): (u128, Option<u128>),
    (header, bytes): (OxmHeader, usize),
) -> (OxmHeader, usize, Option<u128>) {
    if id.tun_metadata().is_none() {
        return (header, bytes, mask);
    }
    let top = 128 - (value | mask.unwrap_or(0)).leading_zeros() as usize;
    let bytes = top.div_ceil(32).max(1) * 4;
    let mask = mask.filter(|mask| *mask != whole(id, bytes));
    let OxmHeader(bits) = header;
    let length = (bytes << u32::from(mask.is_some())) as u32;
    (OxmHeader(bits & !0x1ff | u32::from(mask.is_some()) << 8 | length), bytes, mask)
}

/// The header that NXM has for a field.
pub(crate) fn header_of(id: FieldId, mask: bool) -> (OxmHeader, usize) {
    match NXM.iter().find(|(field, ..)| *field == id) {
        Some((_, class, number, bytes)) => {
            let length = u32::from(*bytes) << u32::from(mask);
            let bits = u32::from(*class) << 16 | u32::from(*number) << 9 | u32::from(mask) << 8;
            (OxmHeader(bits | length), usize::from(*bytes))
        }
        None => (OxmHeader::of(id, mask), usize::from(id.info().bytes)),
    }
}

/// Bits of a field by its NXM header.
pub(crate) fn bits_of(
    r: &mut Reader<'_>,
    header: OxmHeader,
    offset: u16,
    count: u16,
) -> Result<Subfield> {
    match field_of(header).filter(|_| !header.has_mask()) {
        Some((field, _)) => bits_of_field(r, field, offset, count),
        None => Err(unknown_field(r, ErrorCode::BacBadArgument, header)),
    }
}

/// Bits of a field; those of several fields that lie in one of them are that one's.
pub(super) fn bits_of_field(
    r: &Reader<'_>,
    field: FieldId,
    offset: u16,
    count: u16,
) -> Result<Subfield> {
    if count == 0 || u32::from(offset) + u32::from(count) > field.info().bits {
        let right = "1 or more bits, within the field";
        let last = u32::from(offset) + u32::from(count.max(1)) - 1;
        return Err(r.bad_field(ErrorCode::BacBadArgument, "the last bit", field, last, right));
    }
    Ok(Subfield { field, offset }.narrowed(count))
}

/// What a set-field does with a value that has so many bytes on the wire.
pub(crate) fn set_field(field: FieldId, bytes: usize, value: u128, mask: Option<u128>) -> SetField {
    // Nicira's ingress ports have 16 bits.
    if field == FieldId::InPort && bytes == 2 && mask.is_none() {
        let value = PortNo::from_v10(value as u16).0.into();
        return SetField { field, value, mask };
    }
    SetField { field, value, mask }.narrowed()
}

/// The error of a header that is no field's, or not one in the version.
pub(crate) fn unknown_field(r: &Reader<'_>, code: ErrorCode, header: OxmHeader) -> DecodeError {
    let fault =
        super::reader::DecodeFault::UnknownField { field: name_of(header), header: header.0 };
    r.error(code, fault)
}

/// What Open vSwitch calls a field of this header, whether it is known here or not.
fn name_of(header: OxmHeader) -> &'static str {
    if let Some((field, _)) = field_of(header) {
        return field.info().ofctl[0];
    }
    match (header.class(), header.number()) {
        (NXM_CLASS_NX, 30) => "cookie",
        (NXM_CLASS_NX, 35) => "dp_hash",
        (NXM_CLASS_NX, 36) => "recirc_id",
        (NXM_CLASS_NX, _) => "a field of Open vSwitch's",
        (NXM_CLASS_OF, _) => "a field of OpenFlow 1.0's",
        (OXM_CLASS_BASIC, _) => "a field of OpenFlow's",
        (OXM_CLASS_EXPERIMENTER, 0) => "an experimenter's field such as dp_hash",
        (OXM_CLASS_EXPERIMENTER, _) => "an experimenter's field",
        (0x0004, _) => "a field of a network service header (nsh)",
        _ => "a field of an unknown class",
    }
}

/// The header and offset that NXM has for bits of a field.
pub(crate) fn header_of_bits(of: Subfield, count: u16) -> (u32, u16) {
    match of.field {
        FieldId::VlanVid => (0x0000_0802, of.offset),
        FieldId::VlanPcp => (0x0000_0802, of.offset + 13),
        // NXM's ports have 16 bits.
        FieldId::InPort if of.offset + count > 16 => (OxmHeader::of(of.field, false).0, of.offset),
        field => (header_of(field, false).0.0, of.offset),
    }
}

/// Where one run of bits begins, and how many there are, in one word.
pub(crate) fn place(r: &mut Reader<'_>) -> Result<(u16, u16)> {
    let place = r.u16()?;
    Ok((place >> 6, (place & 0x3f) + 1))
}

/// Checks that actions may write a field.
pub(crate) fn settable(r: &Reader<'_>, field: FieldId) -> Result<()> {
    // What `ct(exec(...))` sets is of the connection; elsewhere the agent refuses it.
    if field.info().settable || field.is_of_connection() {
        return Ok(());
    }
    let (code, right) = (ErrorCode::BacBadSetType, "a field that actions may write");
    Err(r.bad_field(code, "the number", field, field.info().number, right))
}
