//! Shapes: what an action does, without the values.
//!
//! A [`Step`] is one thing to do; values that may differ from entry to entry are parameters, taken
//! in order, and what changes the course of the packet (goto targets, EtherTypes of pushed headers)
//! is part of the step. Two lists with equal steps share one [`ir::Action`], so a table of many
//! entries has few actions.

use super::fields;
use super::layout::{LEARN_VALUES, Layout};
use super::ops;
use super::slots::{Kind, field_bit};
use ir::{
    Action, BinaryOp, BlockId, DigestId, DropReason, Expr, FieldRef, Guise, Op, Param, PuntReason,
    TableId,
};
use openflow::{Bits, BundleAlgorithm, FieldId, HashAlgorithm, HashFields, PortNo, Subfield};
use smallvec::SmallVec;
use std::fmt::Write;

/// A list of steps.
pub type Shape = SmallVec<[Step; 4]>;

/// One step. Parameters are named with their widths in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To an ordinary port but the ingress port: port 32.
    Output,
    /// Back out of the ingress port.
    InPort,
    /// To all ports but the ingress port.
    All,
    /// To all flooding ports but the ingress port.
    Flood,
    /// A copy to NORMAL.
    Normal,
    /// The steps of a bucket that is more than an action set: it begins without an action set of its own.
    Bucket,
    /// What tables wrote that the bucket led to is done.
    BucketEnd,
    /// A copy to NORMAL, of a bucket.
    BucketNormal,
    /// A bucket without actions: it says drop.
    BucketDrop,
    /// The packet itself to NORMAL, and then to the action set.
    NormalTail,
    /// A copy to the first table.
    Table,
    /// A copy to the controller: max_len 16.
    Controller(PuntReason),
    /// To a group: group 32.
    Group,
    /// Queue for later outputs: queue 32.
    SetQueue,
    /// Notes the queue of outputs so far.
    KeepQueue,
    /// Later outputs have the queue that was noted.
    RestoreQueue,
    /// See [`ops`] for this and the following.
    CopyTtlOut,
    /// Copies the TTL inwards.
    CopyTtlIn,
    /// ttl 8.
    SetMplsTtl,
    /// Decrements the MPLS TTL.
    DecMplsTtl,
    /// ttl 8.
    SetNwTtl,
    /// Decrements the IP TTL.
    DecNwTtl,
    /// With this TPID.
    PushVlan(u16),
    /// Pops the outermost tag.
    PopVlan,
    /// With this EtherType.
    PushMpls(u16),
    /// Leaving this EtherType.
    PopMpls(u16),
    /// With this EtherType.
    PushPbb(u16),
    /// Unwraps the customer's frame.
    PopPbb,
    /// Sets a field: value, of its width.
    SetField(FieldId),
    /// Sets bits of a field: value and mask, of its width.
    SetFieldMasked(FieldId),
    /// Copies so many bits of a field into another.
    Copy(u16, Subfield, Subfield),
    /// Pushes a tag if there is none, as 1.0's VLAN actions do.
    EnsureVlan,
    /// Sets the IPv4 source: value 32.
    SetNwSrc,
    /// Sets the IPv4 destination: value 32.
    SetNwDst,
    /// Sets the code point of an IP packet: value 6.
    SetNwTos,
    /// Sets TCP's, UDP's or SCTP's source port: value 16.
    SetTpSrc,
    /// Sets TCP's, UDP's or SCTP's destination port: value 16.
    SetTpDst,
    /// Asks a meter, obeys it: meter 32.
    Meter,
    /// Empties the action set.
    Clear,
    /// Puts an action into the set: its argument, if the kind has one (an output two: port 32,
    /// max_len 16). [`Step::Mark`] follows in the end.
    Write(Kind),
    /// Puts a set-field into the set: value, of its width.
    WriteField(FieldId),
    /// Marks slots of the action set as used.
    Mark(u64),
    /// Sets the metadata: value 64.
    Metadata,
    /// Sets bits of the metadata: value 64, mask 64.
    MetadataMasked,
    /// The next step is done within a meter's rate only: id 32.
    Within,
    /// To the controllers of an id: max_len 16, id 16.
    ControllerOf(PuntReason),
    /// The same with bytes of the list's: max_len 16, id 16, which of its actions with bytes 16.
    ControllerWith(PuntReason),
    /// The same of a packet that waits.
    ControllerWaits(PuntReason),
    /// The packet is the control side's own: its number 32.
    Injected,
    /// Puts a number on the stack: value 128.
    StackValue,
    /// Decrements the IP TTL; so many ids are told of what expires: ids 16.
    DecNwTtlTo(u16),
    /// To the port that bits of a field name: max_len 16.
    OutputField(Bits),
    /// To an ordinary port but the ingress port, cut: port 32, bytes 32.
    OutputTruncated,
    /// Back out of the ingress port, cut: bytes 32.
    InPortTruncated,
    /// Puts bits of a field on the stack.
    StackPush(Bits),
    /// Takes bits of a field from the stack.
    StackPop(Bits),
    /// One bit, whether the packet came with more bytes: bytes 32.
    CheckPktLarger(Subfield),
    /// A link's number by a hash: basis 16, links 32, and for a remainder 2^64 by the links, 64.
    Multipath(HashFields, HashAlgorithm, Bits),
    /// The same by the highest random weight of so many links: basis 16.
    MultipathWeight(HashFields, u8, Bits),
    /// The same by numbers that are drawn: basis 16, links 32, modulo 32.
    MultipathDrawn(HashFields, Bits),
    /// A value of the packet for the [`Step::Learn`] that follows.
    LearnFrom(Bits),
    /// Tells of a packet that an entry is to be learned from: by which `learn`, and how many of the values say which entry it
    /// is.
    Learn(u32, u8),
    /// The same; one bit, whether it is or will be there, or a limit forbids it.
    LearnTold(u32, Subfield),
    /// Tells of a TCP FIN or RST that the entry saw, which is of this table: its id 32.
    FinTimeout(u8),
    /// So many members, of which a live one is chosen and output to, or its number taken: basis 16, and
    /// their ports 32.
    Bundle(HashFields, BundleAlgorithm, u16, Option<Bits>),
    /// What follows, up to [`Step::CloneEnd`], is done on a copy.
    Clone,
    /// See [`Step::Clone`].
    CloneEnd,
    /// Runs the entries of a table, and goes on here.
    Resubmit(u8),
    /// The same as if the packet came by another port: port 32.
    ResubmitPort(u8),
    /// Runs the entries of a table as if the packet were its connection's first one, and goes on here.
    ResubmitCt(u8),
    /// The same as if it came by another port: port 32.
    ResubmitCtPort(u8),
    /// Nothing is set in the connection that the next [`Step::Ct`] keeps.
    CtExec,
    /// Bits of the connection's mark or label: value and mask, of its width.
    CtSet(FieldId),
    /// So many bits of a field into the connection's mark or label.
    CtCopy(u16, Subfield, Subfield),
    /// Hands the packet to the connection tracker: zone 16, if no field says it; of a new translation, the
    /// first and the last address, 128, and the first and the last port, 16.
    Ct(CtStep),
    /// The packet is as if it had not been tracked.
    CtClear,
    /// Hands the packet to a service and back to the first table: argument 32. The service's number is part of
    /// the step, so that behind it `sf_action` is known.
    Softflow {
        /// Its number.
        element: u32,
        /// It may write the packet.
        edits: bool,
    },
    /// The packet waits for the controller: its way ends here, that of every table that resubmitted it
    /// included, and nothing of its action set is done.
    Pause,
    /// The action set is done, and the packet's way ends, that of every table that resubmitted it
    /// included.
    Exit,
    /// The action set is done, and the packet's way ends.
    ActionSet,
    /// Goes on in a later table.
    Goto(u8),
    /// Goes on among the entries of a conjunctive flow of this table: id 32.
    Conjunctive(u8),
    /// The conjunctive flow is found: later tables know nothing of it.
    Found,
}

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

/// The product, of so many bits.
fn times(a: Expr, b: Expr, width: u32) -> Expr {
    Expr::binary(BinaryOp::Mul, a.cast(width), b.cast(width))
}

/// Collects operations and parameters.
struct Build<'a> {
    layout: &'a Layout,
    params: Vec<Param>,
    body: Vec<Op>,
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

impl Build<'_> {
    fn param(&mut self, name: &str, width: u32) -> Expr {
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

    fn add(&mut self, step: Step) {
        let layout = self.layout;
        let h = &layout.headers;
        let ops: Vec<Op> = match step {
            Step::Output => vec![ops::output(self.param("port", 32), h)],
            Step::InPort => ops::output_in_port(h),
            Step::All => ops::output_all(h),
            Step::Flood => ops::output_flood(h),
            Step::Normal => vec![ops::run_copy(layout.normal)],
            Step::Bucket => {
                self.bucket = true;
                let exit = Op::Assign(FieldRef::Meta(h.exit), Expr::bool(false));
                vec![layout.slots.clear(), exit]
            }
            Step::BucketEnd => {
                let (block, until) = (layout.action_set, layout.headers.table_block(0));
                vec![Op::Call { block, until, guise: None, site: 0 }]
            }
            Step::BucketNormal => vec![ops::call_on_copy(layout.normal, layout.nowhere)],
            Step::BucketDrop => vec![Op::Drop(DropReason::Action)],
            Step::NormalTail => vec![Op::Goto(layout.normal_tail)],
            Step::Table => vec![ops::run_copy(BlockId(0))],
            Step::Controller(reason) => {
                vec![ops::punt(h, reason, self.param("max_len", 16))]
            }
            Step::Group => ops::group(self.param("group", 32)),
            Step::SetQueue => ops::set_queue(self.param("queue", 32)),
            Step::KeepQueue => ops::keep_queue(h),
            Step::RestoreQueue => ops::set_queue(Expr::meta(h.kept_queue)),
            Step::CopyTtlOut => ops::copy_ttl_out(h),
            Step::CopyTtlIn => ops::copy_ttl_in(h),
            Step::SetMplsTtl => ops::set_mpls_ttl(h, self.param("mpls_ttl", 8)),
            Step::DecMplsTtl => ops::dec_mpls_ttl(h),
            Step::SetNwTtl => ops::set_nw_ttl(h, self.param("nw_ttl", 8)),
            Step::DecNwTtl => ops::dec_nw_ttl(h),
            Step::PushVlan(tpid) => ops::push_vlan(h, Expr::int(tpid.into(), 16)),
            Step::PopVlan => ops::pop_vlan(h),
            Step::PushMpls(t) => ops::push_mpls(h, Expr::int(t.into(), 16)),
            Step::PopMpls(t) => ops::pop_mpls(h, Expr::int(t.into(), 16)),
            Step::PushPbb(t) => ops::push_pbb(h, Expr::int(t.into(), 16)),
            Step::PopPbb => ops::pop_pbb(h),
            Step::SetField(id) => {
                let value = self.param(&id.to_string(), id.info().bits);
                fields::write(h, id, value)
            }
            Step::SetFieldMasked(id) => {
                let value = self.param(&id.to_string(), id.info().bits);
                let mask = self.param(&format!("{id}_mask"), id.info().bits);
                fields::write_masked(h, id, value, mask)
            }
            Step::Copy(bits, from, to) => fields::copy(h, bits, from, to),
            Step::Within => {
                self.within = Some(self.param("within", 32));
                return;
            }
            Step::ControllerOf(reason) => {
                let max_len = self.param("max_len", 16);
                vec![ops::punt_to(h, reason, max_len, self.param("id", 16))]
            }
            Step::ControllerWith(reason) => {
                let max_len = self.param("max_len", 16);
                let (id, which) = (self.param("id", 16), self.param("userdata", 16));
                vec![ops::punt_with(h, reason, max_len, id, which)]
            }
            Step::ControllerWaits(reason) => {
                let max_len = self.param("max_len", 16);
                let (id, which) = (self.param("id", 16), self.param("userdata", 16));
                let mut told = ops::punt_with(h, reason, max_len, id, which);
                if let Op::Punt { args, .. } = &mut told {
                    args.extend(layout.waits());
                }
                vec![told]
            }
            Step::Injected => self.assign_all("injection", 32, &[FieldRef::Meta(h.injection)]),
            Step::StackValue => {
                let value = self.param("value", 128);
                ops::stack_push(h, value)
            }
            Step::DecNwTtlTo(count) => {
                let ids = (0..count).map(|_| self.param("id", 16)).collect();
                ops::dec_nw_ttl_to(h, ids)
            }
            Step::OutputField(Bits { of, count }) => {
                let max_len = self.param("max_len", 16);
                let to = fields::read_bits(h, of, count).cast(32);
                let named = Op::Assign(FieldRef::Meta(h.member), ops::wide_port(to));
                let output = ops::output_named(h, Expr::meta(h.member), max_len, self.normal());
                vec![named, output]
            }
            Step::OutputTruncated => {
                let (to, bytes) = (self.param("port", 32), self.param("bytes", 32));
                vec![ops::truncated(bytes, vec![ops::output(to, h)])]
            }
            Step::InPortTruncated => {
                vec![ops::truncated(self.param("bytes", 32), ops::output_in_port(h))]
            }
            Step::StackPush(Bits { of, count }) => {
                ops::stack_push(h, fields::read_bits(h, of, count))
            }
            Step::StackPop(Bits { of, count }) => {
                let top = Expr::meta(h.stack[0]);
                ops::stack_pop(h, fields::write_bits(h, of, count, top))
            }
            Step::CheckPktLarger(to) => {
                let length = Expr::meta(ir::program::intrinsic::PACKET_LENGTH);
                let larger = Expr::binary(BinaryOp::Gt, length, self.param("bytes", 32));
                fields::write_bits(h, to, 1, larger)
            }
            Step::Multipath(hashed, algorithm, Bits { of, count }) => {
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
            Step::MultipathWeight(hashed, links, Bits { of, count }) => {
                let hash = ops::multipath_hash(h, hashed, self.param("basis", 16));
                let mut all = ops::choose_link(h, links, hash);
                all.extend(fields::write_bits(h, of, count, Expr::meta(h.member)));
                all
            }
            Step::MultipathDrawn(hashed, Bits { of, count }) => {
                let hash = ops::multipath_hash(h, hashed, self.param("basis", 16));
                let (links, modulo) = (self.param("links", 32), self.param("modulo", 32));
                let mut all = ops::draw_link(h, links, modulo, hash);
                all.extend(fields::write_bits(h, of, count, Expr::meta(h.member)));
                all
            }
            Step::Bundle(hashed, algorithm, members, to) => {
                let basis = self.param("basis", 16);
                let hash = match algorithm {
                    BundleAlgorithm::ActiveBackup => None,
                    BundleAlgorithm::HighestRandomWeight => {
                        Some(ops::multipath_hash(h, hashed, basis))
                    }
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
            Step::Clone => {
                self.outer.push(std::mem::take(&mut self.body));
                Vec::new()
            }
            Step::CloneEnd => {
                let outer = self.outer.pop().unwrap_or_default();
                let body = std::mem::replace(&mut self.body, outer);
                vec![Op::OnCopy { body }]
            }
            Step::Resubmit(table) => {
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
            Step::ResubmitPort(table) => {
                let in_port = self.other_port();
                self.resubmit_as(table, in_port, Vec::new())
            }
            Step::ResubmitCt(table) => {
                let in_port = Expr::meta(ir::program::intrinsic::IN_PORT);
                let body = self.resubmit_as(table, in_port, fields::original_tuple(h));
                vec![ops::if_tracked(h, body)]
            }
            Step::ResubmitCtPort(table) => {
                let in_port = self.other_port();
                let body = self.resubmit_as(table, in_port, fields::original_tuple(h));
                vec![ops::if_tracked(h, body)]
            }
            Step::CtExec => {
                let widths = [32, 32, 128, 128];
                let clear = |(meta, width)| Op::Assign(FieldRef::Meta(meta), Expr::int(0, width));
                h.ct_exec.into_iter().zip(widths).map(clear).collect()
            }
            Step::CtSet(id) => {
                let bits = id.info().bits;
                let value = self.param(&id.to_string(), bits);
                let mask = self.param(&format!("{id}_mask"), bits);
                ops::ct_set(h, id, value, mask)
            }
            Step::CtCopy(bits, from, to) => {
                let width = to.field.info().bits;
                let at = Expr::int(to.offset.into(), 8);
                let taken = fields::read_bits(h, from, bits).cast(width);
                let value = Expr::binary(BinaryOp::Shl, taken, at);
                let mask = (u128::MAX >> (128 - u32::from(bits))) << to.offset;
                ops::ct_set(h, to.field, value, Expr::int(mask, width))
            }
            Step::Ct(ct) => self.ct(ct),
            Step::CtClear => ops::ct_clear(h),
            Step::Softflow { element, edits } => {
                let element = Expr::int(element.into(), 32);
                let argument = self.param("argument", 32);
                ops::softflow(h, layout.softflow[usize::from(edits)], edits, element, argument)
            }
            Step::Pause => vec![
                layout.slots.clear(),
                Op::Assign(FieldRef::Meta(h.exit), Expr::bool(true)),
                Op::Goto(layout.action_set),
            ],
            Step::Exit => vec![
                Op::Assign(FieldRef::Meta(h.exit), Expr::bool(true)),
                Op::Goto(layout.action_set),
            ],
            Step::ActionSet => vec![Op::Goto(layout.action_set)],
            Step::LearnFrom(Bits { of, count }) => {
                self.learned.push(fields::read_bits(h, of, count).cast(128));
                Vec::new()
            }
            Step::Learn(which, about) => {
                let (digest, once, args) = self.learned(which, about);
                vec![Op::Digest { digest, args, once: Some(once) }]
            }
            Step::LearnTold(which, to) => {
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
            Step::FinTimeout(table) => {
                let args = vec![Expr::int(table.into(), 8), self.param("entry", 32)];
                let told = Op::Digest { digest: layout.fin_timeout, args, once: None };
                vec![ops::when(ops::ends_connection(h), vec![told])]
            }
            Step::EnsureVlan => vec![ops::ensure_vlan(h)],
            //= openflow-1.0.2 §5.2.4: nw_src and nw_dst are the IPv4 addresses; ARP's are matched as such, but not set.
            Step::SetNwSrc => self.assign_all("nw_src", 32, &[h.ipv4_src]),
            Step::SetNwDst => self.assign_all("nw_dst", 32, &[h.ipv4_dst]),
            Step::SetNwTos => self.assign_all("nw_tos", 6, &[h.ipv4_dscp, h.ipv6_dscp]),
            Step::SetTpSrc => self.assign_all("tp_src", 16, &[h.tcp_src, h.udp_src, h.sctp_src]),
            Step::SetTpDst => self.assign_all("tp_dst", 16, &[h.tcp_dst, h.udp_dst, h.sctp_dst]),
            Step::Meter => ops::meter(h, self.param("meter", 32)),
            Step::Clear => vec![layout.slots.clear()],
            Step::Write(kind) => self.write(kind),
            Step::WriteField(id) => {
                let slot = layout.slots.fields[id as usize];
                let value = self.param(&format!("as_{id}"), id.info().bits);
                slot.map(|slot| Op::Assign(FieldRef::Meta(slot), value)).into_iter().collect()
            }
            Step::Mark(bits) => vec![layout.slots.mark(bits)],
            Step::Metadata => self.assign_all("metadata", 64, &[FieldRef::Meta(h.metadata)]),
            Step::MetadataMasked => {
                let value = self.param("metadata", 64);
                let mask = self.param("metadata_mask", 64);
                let merged = fields::merge(Expr::meta(h.metadata), value, mask);
                vec![Op::Assign(FieldRef::Meta(h.metadata), merged)]
            }
            Step::Goto(table) => vec![Op::Goto(layout.headers.table_block(table))],
            Step::Found => vec![Op::Assign(FieldRef::Meta(h.conj_id), Expr::int(0, 32))],
            Step::Conjunctive(table) => vec![
                Op::Assign(FieldRef::Meta(h.conj_id), self.param("id", 32)),
                Op::Goto(layout.headers.conjunctive_block(table)),
            ],
        };
        match self.within.take() {
            Some(meter) => self.body.extend(ops::within(h, meter, ops)),
            None => self.body.extend(ops),
        }
    }

    /// A copy to NORMAL. What a bucket does must not clone to a block that may use groups.
    fn normal(&self) -> Op {
        match self.bucket {
            true => ops::call_on_copy(self.layout.normal, self.layout.nowhere),
            false => ops::run_copy(self.layout.normal),
        }
    }

    fn ct(&mut self, ct: CtStep) -> Vec<Op> {
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

    fn assign_all(&mut self, name: &str, width: u32, places: &[FieldRef]) -> Vec<Op> {
        let value = self.param(name, width);
        places.iter().map(|place| Op::Assign(*place, value.clone())).collect()
    }

    fn write(&mut self, kind: Kind) -> Vec<Op> {
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

/// A step's word in an action's name. Different steps have different words, none with a dot.
fn word(step: &Step, out: &mut String) {
    let _ = match step {
        Step::Output => write!(out, "output"),
        Step::InPort => write!(out, "in_port"),
        Step::All => write!(out, "all"),
        Step::Flood => write!(out, "flood"),
        Step::Normal => write!(out, "normal"),
        Step::Bucket => write!(out, "bucket"),
        Step::BucketEnd => write!(out, "end_bucket"),
        Step::BucketNormal => write!(out, "bucket_normal"),
        Step::BucketDrop => write!(out, "bucket_drop"),
        Step::NormalTail => write!(out, "then_normal"),
        Step::Table => write!(out, "table"),
        Step::Controller(reason) => match reason {
            PuntReason::Action => write!(out, "controller"),
            other => write!(out, "controller_{other}"),
        },
        Step::Group => write!(out, "group"),
        Step::SetQueue => write!(out, "set_queue"),
        Step::KeepQueue => write!(out, "keep_queue"),
        Step::RestoreQueue => write!(out, "restore_queue"),
        Step::CopyTtlOut => write!(out, "copy_ttl_out"),
        Step::CopyTtlIn => write!(out, "copy_ttl_in"),
        Step::SetMplsTtl => write!(out, "set_mpls_ttl"),
        Step::DecMplsTtl => write!(out, "dec_mpls_ttl"),
        Step::SetNwTtl => write!(out, "set_nw_ttl"),
        Step::DecNwTtl => write!(out, "dec_nw_ttl"),
        Step::PushVlan(t) => write!(out, "push_vlan_{t:04x}"),
        Step::PopVlan => write!(out, "pop_vlan"),
        Step::PushMpls(t) => write!(out, "push_mpls_{t:04x}"),
        Step::PopMpls(t) => write!(out, "pop_mpls_{t:04x}"),
        Step::PushPbb(t) => write!(out, "push_pbb_{t:04x}"),
        Step::PopPbb => write!(out, "pop_pbb"),
        Step::SetField(id) => write!(out, "set_{id}"),
        Step::SetFieldMasked(id) => write!(out, "set_{id}_masked"),
        Step::Copy(bits, from, to) => {
            write!(out, "copy_{bits}_{}_{}_{}_{}", from.field, from.offset, to.field, to.offset)
        }
        Step::EnsureVlan => write!(out, "ensure_vlan"),
        Step::SetNwSrc => write!(out, "set_nw_src"),
        Step::SetNwDst => write!(out, "set_nw_dst"),
        Step::SetNwTos => write!(out, "set_nw_tos"),
        Step::SetTpSrc => write!(out, "set_tp_src"),
        Step::SetTpDst => write!(out, "set_tp_dst"),
        Step::Meter => write!(out, "meter"),
        Step::Clear => write!(out, "clear"),
        Step::Write(kind) => match kind {
            Kind::CopyTtlIn => write!(out, "write_copy_ttl_in"),
            Kind::PopVlan => write!(out, "write_pop_vlan"),
            Kind::PopPbb => write!(out, "write_pop_pbb"),
            Kind::PopMpls => write!(out, "write_pop_mpls"),
            Kind::PushMpls => write!(out, "write_push_mpls"),
            Kind::PushPbb => write!(out, "write_push_pbb"),
            Kind::PushVlan => write!(out, "write_push_vlan"),
            Kind::CopyTtlOut => write!(out, "write_copy_ttl_out"),
            Kind::DecMplsTtl => write!(out, "write_dec_mpls_ttl"),
            Kind::DecNwTtl => write!(out, "write_dec_nw_ttl"),
            Kind::SetMplsTtl => write!(out, "write_set_mpls_ttl"),
            Kind::SetNwTtl => write!(out, "write_set_nw_ttl"),
            Kind::SetQueue => write!(out, "write_set_queue"),
            Kind::Group => write!(out, "write_group"),
            Kind::Output => write!(out, "write_output"),
        },
        Step::WriteField(id) => write!(out, "write_set_{id}"),
        // It follows from the writes in front of it.
        Step::Mark(_) => Ok(()),
        Step::Metadata => write!(out, "metadata"),
        Step::MetadataMasked => write!(out, "metadata_masked"),
        Step::Within => write!(out, "within"),
        Step::ControllerOf(reason) => write!(out, "controller_of_{reason}"),
        Step::ControllerWith(reason) => write!(out, "controller_with_{reason}"),
        Step::ControllerWaits(reason) => write!(out, "controller_waits_{reason}"),
        Step::Injected => write!(out, "injected"),
        Step::StackValue => write!(out, "push"),
        Step::DecNwTtlTo(count) => write!(out, "dec_nw_ttl_to_{count}"),
        Step::OutputField(b) => write!(out, "output_{}_{}_{}", b.of.field, b.of.offset, b.count),
        Step::OutputTruncated => write!(out, "output_truncated"),
        Step::InPortTruncated => write!(out, "in_port_truncated"),
        Step::StackPush(b) => write!(out, "push_{}_{}_{}", b.of.field, b.of.offset, b.count),
        Step::StackPop(b) => write!(out, "pop_{}_{}_{}", b.of.field, b.of.offset, b.count),
        Step::CheckPktLarger(to) => write!(out, "larger_{}_{}", to.field, to.offset),
        Step::Multipath(fields, algorithm, b) => {
            let Bits { of, count } = b;
            let name = format!("{fields:?}_{algorithm:?}").to_lowercase();
            write!(out, "multipath_{name}_{}_{}_{count}", of.field, of.offset)
        }
        Step::MultipathWeight(fields, links, Bits { of, count }) => {
            let name = format!("{fields:?}_hrw_{links}").to_lowercase();
            write!(out, "multipath_{name}_{}_{}_{count}", of.field, of.offset)
        }
        Step::MultipathDrawn(fields, Bits { of, count }) => {
            let name = format!("{fields:?}_iter_hash").to_lowercase();
            write!(out, "multipath_{name}_{}_{}_{count}", of.field, of.offset)
        }
        Step::LearnFrom(b) => write!(out, "from_{}_{}_{}", b.of.field, b.of.offset, b.count),
        Step::FinTimeout(table) => write!(out, "fin_timeout_{table}"),
        Step::LearnTold(which, to) => {
            write!(out, "learn_{which}_told_{}_{}", to.field, to.offset)
        }
        Step::Learn(which, about) => write!(out, "learn_{which}_{about}"),
        Step::Bundle(fields, algorithm, members, to) => {
            let name = format!("{fields:?}_{algorithm:?}").to_lowercase();
            let _ = write!(out, "bundle_{name}_{members}");
            match to {
                Some(Bits { of, count }) => write!(out, "_{}_{}_{count}", of.field, of.offset),
                None => Ok(()),
            }
        }
        Step::Clone => write!(out, "clone"),
        Step::CloneEnd => write!(out, "end_clone"),
        Step::Resubmit(table) => write!(out, "resubmit_{table}"),
        Step::ResubmitPort(table) => write!(out, "resubmit_port_{table}"),
        Step::ResubmitCt(table) => write!(out, "resubmit_ct_{table}"),
        Step::ResubmitCtPort(table) => write!(out, "resubmit_ct_port_{table}"),
        Step::CtExec => write!(out, "ct_exec"),
        Step::CtSet(id) => write!(out, "ct_set_{id}"),
        Step::CtCopy(bits, from, to) => {
            let (a, b) = (from.field, to.field);
            write!(out, "ct_copy_{bits}_{a}_{}_{b}_{}", from.offset, to.offset)
        }
        Step::Ct(ct) => {
            let _ = write!(out, "ct_{}", ct.flags);
            if let Some(Bits { of, count }) = ct.zone {
                let _ = write!(out, "_zone_{}_{}_{count}", of.field, of.offset);
            }
            if let Some(kind) = ct.nat {
                let _ = write!(out, "_nat_{kind}");
            }
            if ct.exec {
                let _ = write!(out, "_exec");
            }
            if let Some(table) = ct.table {
                let _ = write!(out, "_table_{table}");
            }
            match ct.last {
                None => Ok(()),
                Some(true) => write!(out, "_later"),
                Some(false) => write!(out, "_last"),
            }
        }
        Step::CtClear => write!(out, "ct_clear"),
        Step::Softflow { element, edits } => {
            write!(out, "softflow_{}{element:08x}", if *edits { "edit_" } else { "" })
        }
        Step::Pause => write!(out, "pause"),
        Step::Exit => write!(out, "exit"),
        Step::ActionSet => write!(out, "then_action_set"),
        Step::Goto(table) => write!(out, "goto_{table}"),
        Step::Found => write!(out, "found"),
        Step::Conjunctive(table) => write!(out, "conjunctive_{table}"),
    };
}

/// The name of a shape's action: its steps' words, joined by dots; `drop` for no step at all.
pub fn name(shape: &[Step]) -> String {
    let mut out = String::from("of");
    for step in shape {
        if !matches!(step, Step::Mark(_)) {
            out.push('.');
        }
        word(step, &mut out);
    }
    if shape.is_empty() { "of.drop".to_string() } else { out }
}

/// Nothing is done but that earlier tables' writes are forgotten: so `actions=drop` is written.
fn says_drop(shape: &[Step]) -> bool {
    shape.iter().all(|step| matches!(step, Step::Clear | Step::Found))
}

/// The action of a shape.
pub fn build(shape: &[Step], layout: &Layout) -> Action {
    let mut b = Build {
        layout,
        params: Vec::new(),
        body: Vec::new(),
        learned: Vec::new(),
        outer: Vec::new(),
        within: None,
        bucket: false,
        sites: 0,
    };
    shape.iter().for_each(|step| b.add(*step));
    if says_drop(shape) {
        b.body.push(ops::drop_unless_set(layout));
    }
    Action { name: name(shape), params: b.params, body: b.body }
}

/// The bit that a step's write leaves to [`Step::Mark`].
pub(super) fn write_bit(step: &Step) -> u64 {
    match step {
        Step::Write(kind) => kind.bit(),
        Step::WriteField(id) => field_bit(*id),
        _ => 0,
    }
}
