//! What a program declares for tunnel ports, and how options are read and written.

use contract::tunnel::{self as descriptor, OptionMap};
use ir::builder::Builder;
use ir::program::intrinsic;
use ir::{BinaryOp, Expr, FieldRef, HeaderId, MetaId, Op, Preface};
use openflow::FieldId;
use std::sync::Arc;

/// Fields of a descriptor that are match fields.
pub(super) const FIELDS: [(&str, FieldId); 12] = {
    use FieldId::*;
    [
        ("flags", TunFlags),
        ("gbp_id", TunGbpId),
        ("gbp_flags", TunGbpFlags),
        ("erspan_ver", TunErspanVer),
        ("erspan_dir", TunErspanDir),
        ("erspan_hwid", TunErspanHwid),
        ("erspan_idx", TunErspanIdx),
        ("src", TunSrc),
        ("dst", TunDst),
        ("id", TunnelId),
        ("ipv6_src", TunIpv6Src),
        ("ipv6_dst", TunIpv6Dst),
    ]
};

/// An option that has a field: its number, its metadata, its data in both headers.
#[derive(Clone, Debug)]
pub(super) struct OptionField {
    pub(super) index: u8,
    pub(super) meta: MetaId,
    pub(super) at: [FieldRef; 2],
    pub(super) bits: u32,
}

/// What a program has for tunnel ports.
#[derive(Clone, Debug)]
pub struct TunnelHeaders {
    /// As packets come in, and as they leave.
    pub(super) headers: [HeaderId; 2],
    pub(super) map: Arc<OptionMap>,
    pub(super) options: Vec<OptionField>,
    /// The map's number in both headers.
    pub(super) number: [FieldRef; 2],
    /// Which options there are, in both headers, and the metadata for it.
    pub(super) present_at: [FieldRef; 2],
    pub(super) present: MetaId,
    /// Fields in both headers, in the order of [`FIELDS`].
    pub(super) fields: [[FieldRef; 2]; FIELDS.len()],
    /// The descriptor was read: a packet that is parsed again has none any more.
    pub(super) taken: MetaId,
    /// The port of an output is a tunnel port.
    pub(super) to: MetaId,
}

impl TunnelHeaders {
    /// Declares headers and metadata. `tun_out` is emitted in front of all others.
    pub(crate) fn declare(b: &mut Builder, map: &Arc<OptionMap>) -> TunnelHeaders {
        let name = |index: u8| format!("metadata{index}");
        let options: Vec<(String, u32)> =
            map.options().iter().map(|o| (name(o.index), 8 * u32::from(o.len))).collect();
        let fixed = descriptor::FIELDS.into_iter().chain([descriptor::PRESENT]);
        let options = options.iter().map(|(name, bits)| (name.as_str(), *bits));
        let all: Vec<(&str, u32)> = fixed.chain(options).collect();
        let ty = b.header_type("tunnel", &all);
        let headers = [b.header("tun_in", ty), b.header("tun_out", ty)];
        b.emit(headers[1]);
        let at = |b: &Builder, name: &str| headers.map(|h| FieldRef::Header(h, b.field(h, name)));
        let mut fields = [[FieldRef::Meta(intrinsic::IN_PORT); 2]; FIELDS.len()];
        for (place, (name, _)) in fields.iter_mut().zip(FIELDS) {
            *place = at(b, name);
        }
        let options = map.options().iter().map(|option| OptionField {
            index: option.index,
            meta: b.meta(&format!("of.tun_metadata{}", option.index), 128),
            at: at(b, &name(option.index)),
            bits: 8 * u32::from(option.len),
        });
        TunnelHeaders {
            headers,
            map: map.clone(),
            options: options.collect(),
            number: at(b, "map"),
            present_at: at(b, descriptor::PRESENT.0),
            present: b.meta("of.tun_present", 64),
            fields,
            taken: b.meta("of.tun_taken", 1),
            to: b.meta("of.tun_to", 1),
        }
    }

    fn option(&self, id: FieldId) -> Option<&OptionField> {
        let index = id.tun_metadata()?;
        self.options.iter().find(|option| option.index == index)
    }

    /// The value of an option's field.
    pub(crate) fn read(&self, id: FieldId) -> Option<Expr> {
        self.option(id).map(|option| Expr::meta(option.meta))
    }

    /// Writes an option's field; the packet has the option from there on.
    pub(crate) fn write(&self, id: FieldId, value: Expr) -> Vec<Op> {
        let Some(option) = self.option(id) else { return Vec::new() };
        let value = value.cast(option.bits).cast(128);
        let bit = Expr::int(1 << option.index, 64);
        let present = Expr::binary(BinaryOp::Or, Expr::meta(self.present), bit);
        let set = |meta, value| Op::Assign(FieldRef::Meta(meta), value);
        vec![set(option.meta, value), set(self.present, present)]
    }

    /// The packet has an option no more.
    pub(crate) fn delete(&self, id: FieldId) -> Vec<Op> {
        let Some(option) = self.option(id) else { return Vec::new() };
        let others = Expr::int(u128::from(!(1u64 << option.index)), 64);
        let present = Expr::binary(BinaryOp::And, Expr::meta(self.present), others);
        let set = |meta, value| Op::Assign(FieldRef::Meta(meta), value);
        vec![set(option.meta, Expr::int(0, 128)), set(self.present, present)]
    }

    /// The options that have fields, by index, the lowest one first.
    pub(crate) fn mapped(&self) -> impl Iterator<Item = u8> {
        let all = self.options.iter().fold(0u64, |all, option| all | 1 << option.index);
        (0..64).filter(move |index| all >> index & 1 == 1)
    }

    /// A descriptor is no part of a packet's length.
    pub(crate) fn preface(&self) -> Preface {
        let ports = (descriptor::IN_PORT >> 16) as u16;
        Preface { ports, bytes: self.map.descriptor_len() as u16 }
    }

    /// What a descriptor makes a packet longer by, in octets.
    pub(super) fn descriptor_len(&self) -> Expr {
        Expr::int(self.map.descriptor_len() as u128, 32)
    }
}
