//! Tunnel ports: the descriptor that frames come with from there, and that they get on their way there ([`contract::tunnel`]).
//!
//! A program for tunnel ports has two headers of a descriptor's form. The parser reads `tun_in` of a packet that came in by such a
//! port, keeps what match fields have of it, and goes on behind it; it is never emitted. An output asks whether its port is a tunnel
//! port ([`ir::PortIs::Tunnel`]), and if so puts `tun_out` in front of that copy. So which ports are tunnel ports changes no
//! program; only the first of them does, and the map of Geneve options.
//!
//! Example: with option 0 in the map, `set_field:7->tun_id,set_field:1->tun_metadata0,output:5` sends, where port 5 is a tunnel port,
//! a descriptor with `id` 7, `present` 1 and the option's data 1, then the frame.

pub(crate) mod parts;

use crate::headers::Headers;
use contract::tunnel::{self as descriptor, OptionMap};
use ir::builder::Builder;
use ir::program::intrinsic;
use ir::{
    BinaryOp, Bits, Expr, FieldRef, MetaId, Op, ParserOp, ParserStateId, PortIs, Select,
    SelectCase, Transition,
};
use openflow::{FieldId, Match};
use parts::{FIELDS, OptionField, TunnelHeaders};

/// What a packet keeps where all other metadata becomes zero.
pub(crate) fn kept(h: &Headers) -> Vec<MetaId> {
    let Some(t) = &h.tunnels else { return Vec::new() };
    let fields = FIELDS.into_iter().filter_map(|(_, id)| h.meta_of(id));
    let options = t.options.iter().map(|option| option.meta);
    fields.chain(options).chain([t.present, t.taken]).collect()
}

/// The first state: a descriptor, if the packet came in by a tunnel port, and then `frame`, which is the first
/// state otherwise.
pub(crate) fn start(b: &mut Builder, h: &Headers, start: ParserStateId, frame: ParserStateId) {
    let Some(t) = &h.tunnels else { return };
    let exact =
        |value: u128, width| Select::Masked(Bits::from_u128(value, width), Bits::ones(width));
    let case = |patterns: Vec<Select>, next| SelectCase { patterns, next: Transition::State(next) };
    let tunnel = b.state("tunnel");
    let from = u128::from(descriptor::IN_PORT >> 16);
    let keys = vec![Expr::meta(intrinsic::IN_PORT).slice(31, 16), Expr::meta(t.taken)];
    let cases =
        vec![case(vec![exact(from, 16), exact(0, 1)], tunnel), case(vec![Select::Any; 2], frame)];
    b.set_state(start, Vec::new(), Transition::Select { keys, cases });

    let [header, _] = t.headers;
    let assign = |meta, value| ParserOp::Assign(FieldRef::Meta(meta), value);
    let mut ops = vec![
        ParserOp::Extract { header, varbit: None },
        assign(t.taken, Expr::bool(true)),
        assign(h.in_port_changed, Expr::int(descriptor::IN_PORT.into(), 32)),
        assign(t.present, Expr::Field(t.present_at[0])),
    ];
    for (at, (name, id)) in t.fields.iter().zip(FIELDS) {
        let value = resized(Expr::Field(at[0]), width(name), id.info().bits);
        ops.extend(h.meta_of(id).map(|meta| assign(meta, value)));
    }
    let of_option = |option: &OptionField| assign(option.meta, Expr::Field(option.at[0]).cast(128));
    ops.extend(t.options.iter().map(of_option));
    // What was laid out by another map is not read: the frame behind it begins elsewhere.
    let cases = vec![
        case(vec![exact(t.map.number.into(), 16)], frame),
        SelectCase { patterns: vec![Select::Any], next: Transition::Accept },
    ];
    b.set_state(tunnel, ops, Transition::Select { keys: vec![Expr::Field(t.number[0])], cases });
}

/// Whether the packet's descriptor is laid out by another map than this program's.
pub(crate) fn is_of_other_map(h: &Headers) -> Option<Expr> {
    let t = h.tunnels.as_ref()?;
    let own = Expr::int(t.map.number.into(), 16);
    let other = Expr::binary(BinaryOp::Ne, Expr::Field(t.number[0]), own);
    Some(Expr::binary(BinaryOp::And, Expr::Valid(t.headers[0]), other))
}

/// Sends the packet as it is to a port, with a descriptor in front of it if that is a tunnel port.
pub(crate) fn output(h: &Headers, to: Expr) -> Vec<Op> {
    let Some(t) = &h.tunnels else { return vec![Op::Output { port: to }] };
    let [_, header] = t.headers;
    let set = |at: FieldRef, value| Op::Assign(at, value);
    let mut then = vec![
        Op::SetValid(header),
        set(t.number[1], Expr::int(t.map.number.into(), 16)),
        set(t.present_at[1], Expr::meta(t.present)),
    ];
    for (at, (name, id)) in t.fields.iter().zip(FIELDS) {
        let value = |meta| resized(Expr::meta(meta), id.info().bits, width(name));
        then.extend(h.meta_of(id).map(|meta| set(at[1], value(meta))));
    }
    let of_option =
        |option: &OptionField| set(option.at[1], Expr::meta(option.meta).cast(option.bits));
    then.extend(t.options.iter().map(of_option));
    then.push(Op::Output { port: to.clone() });
    then.push(Op::SetInvalid(header));
    let or_else = vec![Op::Output { port: to.clone() }];
    vec![asks(t, to), Op::If { condition: Expr::meta(t.to), then, or_else }]
}

/// Bits of a descriptor's field, which are whole octets.
fn width(name: &str) -> u32 {
    let found = descriptor::FIELDS.iter().find(|(known, _)| *known == name);
    found.map_or(0, |(_, bits)| *bits)
}

fn resized(value: Expr, from: u32, to: u32) -> Expr {
    if from == to { value } else { value.cast(to) }
}

fn asks(t: &TunnelHeaders, port: Expr) -> Op {
    Op::PortIs { field: FieldRef::Meta(t.to), what: PortIs::Tunnel, port }
}

/// What is sent to a port from here on has so many bytes at most, those of a descriptor not counted.
pub(crate) fn truncate(h: &Headers, to: Expr, bytes: Expr) -> Vec<Op> {
    let Some(t) = &h.tunnels else { return vec![Op::Truncate { length: bytes }] };
    let more = Expr::Mux(
        Box::new(Expr::meta(t.to)),
        Box::new(t.descriptor_len()),
        Box::new(Expr::int(0, 32)),
    );
    let length = Expr::binary(BinaryOp::Add, bytes, more);
    vec![asks(t, to), Op::Truncate { length }]
}

/// The descriptor of a packet that comes in by a tunnel port with these fields: for tests and benches, which have no such port.
pub fn descriptor(map: &OptionMap, fields: &Match) -> Vec<u8> {
    let value = |id: FieldId| fields.get(id).map_or(0, |field| field.value);
    let mut bytes = Vec::with_capacity(map.descriptor_len());
    let mut put = |value: u128, bits: u32| {
        bytes.extend_from_slice(&value.to_be_bytes()[16 - bits as usize / 8..]);
    };
    for (name, bits) in descriptor::FIELDS {
        let known = FIELDS.iter().find(|(known, _)| *known == name);
        let number = if name == "map" { map.number.into() } else { 0 };
        put(known.map_or(number, |(_, id)| value(*id)), bits);
    }
    let has = |index: u8| fields.has(FieldId::tun_metadata_of(index));
    let present = map.options().iter().filter(|option| has(option.index));
    put(present.fold(0, |all, option| all | 1 << option.index), descriptor::PRESENT.1);
    for option in map.options() {
        put(value(FieldId::tun_metadata_of(option.index)), 8 * u32::from(option.len));
    }
    bytes
}
