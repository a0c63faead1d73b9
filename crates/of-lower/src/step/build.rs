//! What steps that take more than a line do: operations, with parameters in the order of the arguments.

use super::super::fields;
use super::super::layout::{LEARN_VALUES, Layout};
use super::super::ops;
use super::super::slots::Kind;
use ir::{BinaryOp, DigestId, Expr, FieldRef, Guise, Op, Param, PuntReason, TableId};
use openflow::{Bits, BundleAlgorithm, FieldId, HashAlgorithm, HashFields, PortNo, Subfield};

/// What a `ct` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CtStep {
    /// Bits of the service's argument `flags`.
    pub flags: u8,
    /// What says the zone.
    pub zone: Option<Bits>,
    /// Where a copy goes on.
    pub table: Option<u8>,
    /// The service's argument `kind`, with translation.
    pub nat: Option<u8>,
    /// What [`Step::CtSet`] and [`Step::CtCopy`] said is set.
    pub exec: bool,
    /// Nothing follows, so that the packet itself goes on in the table if its action set is empty, and no table has led
    /// there that goes on; the table comes later than the entry's own (true), or any does.
    pub last: Option<bool>,
}

impl CtStep {
    /// What it adds to the step's word.
    pub(super) fn word(self) -> String {
        let mut out = self.flags.to_string();
        if let Some(Bits { of, count }) = self.zone {
            out += &format!("_zone_{}_{}_{count}", of.field, of.offset);
        }
        if let Some(kind) = self.nat {
            out += &format!("_nat_{kind}");
        }
        if self.exec {
            out += "_exec";
        }
        if let Some(table) = self.table {
            out += &format!("_table_{table}");
        }
        out + match self.last {
            None => "",
            Some(true) => "_later",
            Some(false) => "_last",
        }
    }
}

/// The product, of so many bits.
fn times(a: Expr, b: Expr, width: u32) -> Expr {
    Expr::binary(BinaryOp::Mul, a.cast(width), b.cast(width))
}

/// Collects operations and parameters.
pub(super) struct Build<'a> {
    pub(super) layout: &'a Layout,
    pub(super) params: Vec<Param>,
    pub(super) body: Vec<Op>,
    /// What the next learn takes.
    learned: Vec<Expr>,
    /// The bodies around the clone that is open.
    outer: Vec<Vec<Op>>,
    /// The meter within which the next step is done.
    within: Option<Expr>,
    /// The steps are a bucket's.
    bucket: bool,
    /// How many tables were called.
    sites: u16,
}

impl<'a> Build<'a> {
    /// Nothing yet.
    pub(super) fn new(layout: &'a Layout) -> Build<'a> {
        Build {
            layout,
            params: Vec::new(),
            body: Vec::new(),
            learned: Vec::new(),
            outer: Vec::new(),
            within: None,
            bucket: false,
            sites: 0,
        }
    }

    /// Adds a step's operations; within a meter's rate, if the step before it said so.
    pub(super) fn add(&mut self, step: impl FnOnce(&mut Self) -> Vec<Op>) {
        let meter = self.within.take();
        let ops = step(self);
        match meter {
            Some(meter) => self.body.extend(ops::within(&self.layout.headers, meter, ops)),
            None => self.body.extend(ops),
        }
    }

    /// A parameter of this name, or of this name and a number.
    pub(super) fn param(&mut self, name: &str, width: u32) -> Expr {
        let taken = |n: &str| self.params.iter().any(|p| p.name == n);
        let name = if taken(name) {
            (2..).map(|i| format!("{name}_{i}")).find(|n| !taken(n)).unwrap_or_default()
        } else {
            name.to_string()
        };
        self.params.push(Param { name, width });
        Expr::Param(self.params.len() as u32 - 1)
    }

    /// The digest of a `learn`, how many of its values say which entry it is about, and all of them: the number of the `learn`
    /// and the packet's, of which so many are for the entry's match.
    fn learned(&mut self, which: u32, about: u8) -> (DigestId, u8, Vec<Expr>) {
        let mut args = vec![Expr::int(which.into(), 32)];
        args.append(&mut self.learned);
        (self.layout.learn_entries[args.len() - 1], 1 + about, args)
    }

    /// The port by which a lookup sees the packet: it reads it by what actions made of it.
    fn other_port(&mut self) -> Expr {
        let changed = Expr::meta(self.layout.headers.in_port_changed);
        Expr::binary(BinaryOp::Xor, self.param("in_port", 32), changed)
    }

    /// Runs the entries of a table that see the packet otherwise.
    fn resubmit_as(&mut self, table: u8, in_port: Expr, columns: Vec<(u32, Expr)>) -> Vec<Op> {
        let layout = self.layout;
        self.sites += 1;
        let tables = vec![TableId(table.into()), layout.conjunctive_table(table)];
        let lookup = Guise { in_port, columns, tables };
        let (block, copy) = (layout.headers.table_block(table), !self.outer.is_empty());
        let sites = self.sites;
        ops::resubmit(&layout.headers, block, Some(lookup), layout.action_set, copy, sites)
    }

    pub(super) fn begin_bucket(&mut self) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        self.bucket = true;
        let exit = Op::Assign(FieldRef::Meta(h.exit), Expr::bool(false));
        vec![layout.slots.clear(), exit]
    }

    pub(super) fn end_bucket(&self) -> Vec<Op> {
        let layout = self.layout;
        let (block, until) = (layout.action_set, layout.headers.table_block(0));
        vec![Op::Call { block, until, guise: None, site: 0 }]
    }

    pub(super) fn set_field(&mut self, id: FieldId) -> Vec<Op> {
        let h = &self.layout.headers;
        let value = self.param(&id.to_string(), id.info().bits);
        fields::write(h, id, value)
    }

    pub(super) fn set_field_masked(&mut self, id: FieldId) -> Vec<Op> {
        let h = &self.layout.headers;
        let value = self.param(&id.to_string(), id.info().bits);
        let mask = self.param(&format!("{id}_mask"), id.info().bits);
        fields::write_masked(h, id, value, mask)
    }

    pub(super) fn write_field(&mut self, id: FieldId) -> Vec<Op> {
        let layout = self.layout;
        let slot = layout.slots.fields[id as usize];
        let value = self.param(&format!("as_{id}"), id.info().bits);
        slot.map(|slot| Op::Assign(FieldRef::Meta(slot), value)).into_iter().collect()
    }

    pub(super) fn metadata_masked(&mut self) -> Vec<Op> {
        let h = &self.layout.headers;
        let value = self.param("metadata", 64);
        let mask = self.param("metadata_mask", 64);
        let merged = fields::merge(Expr::meta(h.metadata), value, mask);
        vec![Op::Assign(FieldRef::Meta(h.metadata), merged)]
    }

    pub(super) fn set_within(&mut self) -> Vec<Op> {
        self.within = Some(self.param("within", 32));
        Vec::new()
    }

    pub(super) fn controller_of(&mut self, reason: PuntReason) -> Vec<Op> {
        let h = &self.layout.headers;
        let max_len = self.param("max_len", 16);
        vec![ops::punt_all(h, reason, max_len, self.param("id", 16))]
    }

    pub(super) fn controller_with(&mut self, reason: PuntReason) -> Vec<Op> {
        let h = &self.layout.headers;
        let max_len = self.param("max_len", 16);
        let (id, which) = (self.param("id", 16), self.param("userdata", 16));
        vec![ops::punt_with(h, reason, max_len, id, which)]
    }

    pub(super) fn controller_waits(&mut self, reason: PuntReason) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        let max_len = self.param("max_len", 16);
        let (id, which) = (self.param("id", 16), self.param("userdata", 16));
        let mut told = ops::punt_with(h, reason, max_len, id, which);
        if let Op::Punt { args, .. } = &mut told {
            args.extend(layout.waits());
        }
        vec![told]
    }

    pub(super) fn stack_value(&mut self) -> Vec<Op> {
        let h = &self.layout.headers;
        let value = self.param("value", 128);
        ops::stack_push(h, value)
    }

    pub(super) fn dec_nw_ttl_to(&mut self, count: u16) -> Vec<Op> {
        let h = &self.layout.headers;
        let ids = (0..count).map(|_| self.param("id", 16)).collect();
        ops::dec_nw_ttl_to(h, ids)
    }

    pub(super) fn output_field(&mut self, Bits { of, count }: Bits) -> Vec<Op> {
        let h = &self.layout.headers;
        let max_len = self.param("max_len", 16);
        let to = fields::read_bits(h, of, count).cast(32);
        let named = Op::Assign(FieldRef::Meta(h.member), ops::wide_port(to));
        let output = ops::output_named(h, Expr::meta(h.member), max_len, self.normal());
        vec![named, output]
    }

    pub(super) fn output_truncated(&mut self) -> Vec<Op> {
        let h = &self.layout.headers;
        let (to, bytes) = (self.param("port", 32), self.param("bytes", 32));
        vec![ops::truncated(h, to.clone(), bytes, vec![ops::output(to, h)])]
    }

    pub(super) fn stack_push(&self, Bits { of, count }: Bits) -> Vec<Op> {
        let h = &self.layout.headers;
        ops::stack_push(h, fields::read_bits(h, of, count))
    }

    pub(super) fn stack_pop(&self, Bits { of, count }: Bits) -> Vec<Op> {
        let h = &self.layout.headers;
        let top = Expr::meta(h.stack[0]);
        ops::stack_pop(h, fields::write_bits(h, of, count, top))
    }

    pub(super) fn check_pkt_larger(&mut self, to: Subfield) -> Vec<Op> {
        let h = &self.layout.headers;
        let length = Expr::meta(ir::program::intrinsic::PACKET_LENGTH);
        let larger = Expr::binary(BinaryOp::Gt, length, self.param("bytes", 32));
        fields::write_bits(h, to, 1, larger)
    }

    pub(super) fn delete_field(&self, field: FieldId) -> Vec<Op> {
        let tunnels = self.layout.headers.tunnels.as_ref();
        tunnels.map_or_else(Vec::new, |tunnels| tunnels.delete(field))
    }

    pub(super) fn multipath(
        &mut self,
        hashed: HashFields,
        algorithm: HashAlgorithm,
        Bits { of, count }: Bits,
    ) -> Vec<Op> {
        let h = &self.layout.headers;
        let basis = self.param("basis", 16);
        let hash = ops::multipath_hash(h, hashed, basis);
        let links = self.param("links", 32);
        let link = match algorithm {
            // The links share the range of 32 bits in order.
            HashAlgorithm::Threshold => times(hash, links, 64).slice(63, 32),
            // hash % links: the fraction of hash * (2^64 / links), times links (Lemire,
            // Kaser, Kurz, *Faster remainder by direct computation*, 2019).
            _ => {
                let inverse = self.param("inverse", 64);
                let fraction = times(hash, inverse, 64);
                times(fraction, links, 128).slice(95, 64)
            }
        };
        fields::write_bits(h, of, count, link)
    }

    pub(super) fn multipath_weight(
        &mut self,
        hashed: HashFields,
        links: u8,
        Bits { of, count }: Bits,
    ) -> Vec<Op> {
        let h = &self.layout.headers;
        let hash = ops::multipath_hash(h, hashed, self.param("basis", 16));
        let mut all = ops::choose_link(h, links, hash);
        all.extend(fields::write_bits(h, of, count, Expr::meta(h.member)));
        all
    }

    pub(super) fn multipath_drawn(
        &mut self,
        hashed: HashFields,
        Bits { of, count }: Bits,
    ) -> Vec<Op> {
        let h = &self.layout.headers;
        let hash = ops::multipath_hash(h, hashed, self.param("basis", 16));
        let (links, modulo) = (self.param("links", 32), self.param("modulo", 32));
        let mut all = ops::draw_link(h, links, modulo, hash);
        all.extend(fields::write_bits(h, of, count, Expr::meta(h.member)));
        all
    }

    pub(super) fn learn_from(&mut self, Bits { of, count }: Bits) -> Vec<Op> {
        let h = &self.layout.headers;
        self.learned.push(fields::read_bits(h, of, count).cast(128));
        Vec::new()
    }

    pub(super) fn learn(&mut self, which: u32, about: u8) -> Vec<Op> {
        let (digest, once, args) = self.learned(which, about);
        vec![Op::Digest { digest, args, once: Some(once) }]
    }

    pub(super) fn learn_told(&mut self, which: u32, to: Subfield) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        let (digest, _, args) = self.learned(which, 0);
        let (service, results) = (layout.learn_admits, vec![h.learnt]);
        let mut asked = args.clone();
        asked.resize(1 + LEARN_VALUES, Expr::int(0, 128));
        let asked = Op::Service { service, args: asked, results };
        // It is told each time: whoever was asked waits for it.
        let mut all = vec![asked, Op::Digest { digest, args, once: None }];
        all.extend(fields::write_bits(h, to, 1, Expr::meta(h.learnt)));
        all
    }

    pub(super) fn fin_timeout(&mut self, table: u8) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        let args = vec![Expr::int(table.into(), 8), self.param("entry", 32)];
        let told = Op::Digest { digest: layout.fin_timeout, args, once: None };
        vec![ops::when(ops::ends_connection(h), vec![told])]
    }

    pub(super) fn bundle(
        &mut self,
        hashed: HashFields,
        algorithm: BundleAlgorithm,
        members: u16,
        to: Option<Bits>,
    ) -> Vec<Op> {
        let h = &self.layout.headers;
        let basis = self.param("basis", 16);
        let hash = match algorithm {
            BundleAlgorithm::ActiveBackup => None,
            BundleAlgorithm::HighestRandomWeight => Some(ops::multipath_hash(h, hashed, basis)),
        };
        let ports = (0..members).map(|_| self.param("member", 32)).collect();
        let mut all = ops::choose_member(h, ports, hash);
        let chosen = Expr::meta(h.member);
        match to {
            Some(Bits { of, count }) => {
                all.extend(fields::write_bits(h, of, count, ops::short_port(chosen)));
            }
            None => {
                let known = chosen.clone().ne(Expr::int(PortNo::ANY.0.into(), 32));
                let output = ops::output_named(h, chosen, Expr::int(0, 16), self.normal());
                all.push(ops::when(known, vec![output]));
            }
        }
        all
    }

    pub(super) fn begin_clone(&mut self) -> Vec<Op> {
        self.outer.push(std::mem::take(&mut self.body));
        Vec::new()
    }

    pub(super) fn end_clone(&mut self) -> Vec<Op> {
        let outer = self.outer.pop().unwrap_or_default();
        let body = std::mem::replace(&mut self.body, outer);
        vec![Op::OnCopy { body }]
    }

    pub(super) fn resubmit(&mut self, table: u8) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        let copy = !self.outer.is_empty();
        self.sites += 1;
        ops::resubmit(
            h,
            layout.headers.table_block(table),
            None,
            layout.action_set,
            copy,
            self.sites,
        )
    }

    pub(super) fn resubmit_port(&mut self, table: u8) -> Vec<Op> {
        let in_port = self.other_port();
        self.resubmit_as(table, in_port, Vec::new())
    }

    pub(super) fn resubmit_ct(&mut self, table: u8) -> Vec<Op> {
        let h = &self.layout.headers;
        let in_port = Expr::meta(ir::program::intrinsic::IN_PORT);
        let body = self.resubmit_as(table, in_port, fields::original_tuple(h));
        vec![ops::if_tracked(h, body)]
    }

    pub(super) fn resubmit_ct_port(&mut self, table: u8) -> Vec<Op> {
        let h = &self.layout.headers;
        let in_port = self.other_port();
        let body = self.resubmit_as(table, in_port, fields::original_tuple(h));
        vec![ops::if_tracked(h, body)]
    }

    pub(super) fn ct_exec(&self) -> Vec<Op> {
        let h = &self.layout.headers;
        let widths = [32, 32, 128, 128];
        let clear = |(meta, width)| Op::Assign(FieldRef::Meta(meta), Expr::int(0, width));
        h.ct_exec.into_iter().zip(widths).map(clear).collect()
    }

    pub(super) fn ct_set(&mut self, id: FieldId) -> Vec<Op> {
        let h = &self.layout.headers;
        let bits = id.info().bits;
        let value = self.param(&id.to_string(), bits);
        let mask = self.param(&format!("{id}_mask"), bits);
        ops::ct_set(h, id, value, mask)
    }

    pub(super) fn ct_copy(&self, bits: u16, from: Subfield, to: Subfield) -> Vec<Op> {
        let h = &self.layout.headers;
        let width = to.field.info().bits;
        let at = Expr::int(to.offset.into(), 8);
        let taken = fields::read_bits(h, from, bits).cast(width);
        let value = Expr::binary(BinaryOp::Shl, taken, at);
        let mask = (u128::MAX >> (128 - u32::from(bits))) << to.offset;
        ops::ct_set(h, to.field, value, Expr::int(mask, width))
    }

    pub(super) fn softflow(&mut self, element: u32, edits: bool) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        let element = Expr::int(element.into(), 32);
        let argument = self.param("argument", 32);
        ops::softflow(h, layout.softflow[usize::from(edits)], edits, element, argument)
    }

    pub(super) fn pause(&self) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        vec![
            layout.slots.clear(),
            Op::Assign(FieldRef::Meta(h.exit), Expr::bool(true)),
            Op::Goto(layout.action_set),
        ]
    }

    pub(super) fn exit(&self) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        vec![Op::Assign(FieldRef::Meta(h.exit), Expr::bool(true)), Op::Goto(layout.action_set)]
    }

    pub(super) fn conjunctive(&mut self, table: u8) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        vec![
            Op::Assign(FieldRef::Meta(h.conj_id), self.param("id", 32)),
            Op::Goto(layout.headers.conjunctive_block(table)),
        ]
    }

    /// A copy to NORMAL. What a bucket does must not clone to a block that may use groups.
    pub(super) fn normal(&self) -> Op {
        match self.bucket {
            true => ops::call_on_copy(self.layout.normal, self.layout.nowhere),
            false => ops::run_copy(self.layout.normal),
        }
    }

    pub(super) fn ct(&mut self, ct: CtStep) -> Vec<Op> {
        let layout = self.layout;
        let h = &layout.headers;
        let zone = match ct.zone {
            None => self.param("zone", 16),
            Some(Bits { of, count }) => fields::read_bits(h, of, count).cast(16),
        };
        let mut args = vec![zone, Expr::int(ct.flags.into(), 8)];
        let set = |at: usize, width| match ct.exec {
            true => Expr::meta(h.ct_exec[at]),
            false => Expr::int(0, width),
        };
        args.extend([set(0, 32), set(1, 32), set(2, 128), set(3, 128)]);
        args.extend([Expr::meta(h.ct[0]).slice(7, 0), Expr::meta(h.ct[3])]);
        let service = match ct.nat {
            None => layout.ct,
            Some(kind) => {
                args.push(Expr::int(kind.into(), 8));
                match kind & 3 {
                    0 => args.extend([0, 0].map(|v| Expr::int(v, 128))),
                    _ => {
                        args.push(self.param("first", 128));
                        args.push(self.param("last", 128));
                    }
                }
                match kind & 3 {
                    0 => args.extend([0, 0].map(|v| Expr::int(v, 16))),
                    _ => {
                        args.push(self.param("first_port", 16));
                        args.push(self.param("last_port", 16));
                    }
                }
                layout.ct_nat
            }
        };
        // What is translated is parsed again.
        let call = |results: Vec<ir::MetaId>| {
            let mut ops = ops::reparse(h);
            ops.pop();
            if ct.nat.is_none() {
                ops.clear();
            }
            ops.push(Op::Service { service, args: args.clone(), results });
            ops
        };
        let Some(table) = ct.table else { return call(Vec::new()) };
        let block = layout.headers.table_block(table);
        let there = Op::Call { block, until: layout.nowhere, guise: None, site: 0 };
        let mut body = call(h.ct.to_vec());
        body.push(there.clone());
        let copied = Op::OnCopy { body };
        let Some(later) = ct.last else { return vec![copied] };
        let mut itself = call(h.ct.to_vec());
        match later {
            true => itself.push(Op::Goto(block)),
            false => itself.extend([there, Op::Exit]),
        }
        // The packet itself has its action set, and what led to the table, before it.
        let empty = Expr::meta(layout.slots.present).eq(Expr::int(0, 64));
        let empty = empty.and(Expr::meta(h.called).eq(Expr::int(0, 8)));
        vec![Op::If { condition: empty, then: itself, or_else: vec![copied] }]
    }

    pub(super) fn assign_all(&mut self, name: &str, width: u32, places: &[FieldRef]) -> Vec<Op> {
        let value = self.param(name, width);
        places.iter().map(|place| Op::Assign(*place, value.clone())).collect()
    }

    pub(super) fn write(&mut self, kind: Kind) -> Vec<Op> {
        let s = &self.layout.slots;
        let slots: &[_] = match kind {
            Kind::PopMpls => &[("as_pop_mpls", 16, s.pop_mpls)],
            Kind::PushMpls => &[("as_push_mpls", 16, s.push_mpls)],
            Kind::PushPbb => &[("as_push_pbb", 16, s.push_pbb)],
            Kind::PushVlan => &[("as_push_vlan", 16, s.push_vlan)],
            Kind::SetMplsTtl => &[("as_mpls_ttl", 8, s.mpls_ttl)],
            Kind::SetNwTtl => &[("as_nw_ttl", 8, s.nw_ttl)],
            Kind::SetQueue => &[("as_queue", 32, s.queue)],
            Kind::Group => &[("as_group", 32, s.group)],
            Kind::Output => &[("as_port", 32, s.output), ("as_max_len", 16, s.max_len)],
            Kind::CopyTtlIn
            | Kind::PopVlan
            | Kind::PopPbb
            | Kind::CopyTtlOut
            | Kind::DecMplsTtl
            | Kind::DecNwTtl => &[],
        };
        slots
            .iter()
            .map(|(name, width, slot)| Op::Assign(FieldRef::Meta(*slot), self.param(name, *width)))
            .collect()
    }
}
