//! Shapes: what an action does, without the values.
//!
//! A [`Step`] is one thing to do; values that may differ from entry to entry are parameters, taken
//! in order, and what changes the course of the packet (goto targets, EtherTypes of pushed headers)
//! is part of the step. Two lists with equal steps share one [`ir::Action`], so a table of many
//! entries has few actions.
//!
//! A step joins by a line in `steps!`: what is part of it, its word in the action's name, and its operations. Those that
//! take more than a line are in the module below.

mod build;

pub use self::build::CtStep;

use self::build::Build;
use super::fields;
use super::layout::Layout;
use super::ops;
use super::slots::{Kind, field_bit};
use ir::{Action, BlockId, DropReason, Expr, FieldRef, Op, PuntReason};
use openflow::{Bits, BundleAlgorithm, FieldId, HashAlgorithm, HashFields, Subfield};
use smallvec::SmallVec;
use std::fmt::{Debug, Write};

/// A list of steps.
pub type Shape = SmallVec<[Step; 4]>;

/// `Step(parts) as ("word", arguments) => operations;`, where the operations see what is collected, the headers and the
/// layout by the names in front.
macro_rules! steps {
    ($b:ident, $h:ident, $layout:ident;
     $($(#[$meta:meta])* $step:ident $(($($part:ident: $ty:ty),*))?
       $({$($(#[$doc:meta])* $field:ident: $of:ty),*})? as ($($word:tt)*) => $ops:expr;)*) => {
        /// One step. Parameters are named with their widths in bits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Step {
            $($(#[$meta])* $step $(($($ty),*))? $({$($(#[$doc])* $field: $of),*})?,)*
        }

        /// A step's word in an action's name. Different steps have different words, none with a dot.
        #[allow(unused_variables)] // not every part is in the word
        fn word(step: Step, out: &mut String) {
            // Writing to a string always goes well.
            let _ = match step {
                $(Step::$step $(($($part),*))? $({$($field),*})? => write!(out, $($word)*),)*
            };
        }

        /// A step's operations.
        fn operations(step: Step, $b: &mut Build<'_>) -> Vec<Op> {
            let $layout = $b.layout;
            let $h = &$layout.headers;
            match step {
                $(Step::$step $(($($part),*))? $({$($field),*})? => $ops,)*
            }
        }
    };
}

steps! { b, h, layout;
    /// To an ordinary port but the ingress port: port 32.
    Output as ("output") => vec![ops::output(b.param("port", 32), h)];
    /// Back out of the ingress port.
    InPort as ("in_port") => ops::output_in_port(h);
    /// To all ports but the ingress port.
    All as ("all") => ops::output_all(h);
    /// To all flooding ports but the ingress port.
    Flood as ("flood") => ops::output_flood(h);
    /// A copy to NORMAL.
    Normal as ("normal") => vec![ops::run_copy(layout.normal)];
    /// The steps of a bucket that is more than an action set: it begins without an action set of its own.
    Bucket as ("bucket") => b.begin_bucket();
    /// What tables wrote that the bucket led to is done.
    BucketEnd as ("end_bucket") => b.end_bucket();
    /// A copy to NORMAL, of a bucket.
    BucketNormal as ("bucket_normal") => vec![ops::call_on_copy(layout.normal, layout.nowhere)];
    /// A bucket without actions: it says drop.
    BucketDrop as ("bucket_drop") => vec![Op::Drop(DropReason::Action)];
    /// The packet itself to NORMAL, and then to the action set.
    NormalTail as ("then_normal") => vec![Op::Goto(layout.normal_tail)];
    /// A copy to the first table.
    Table as ("table") => vec![ops::run_copy(BlockId(0))];
    /// A copy to the controller: max_len 16.
    Controller(reason: PuntReason) as ("controller{}", suffix(reason)) =>
        vec![ops::punt_for(h, reason, b.param("max_len", 16))];
    /// To a group: group 32.
    Group as ("group") => ops::group(b.param("group", 32));
    /// Queue for later outputs: queue 32.
    SetQueue as ("set_queue") => ops::set_queue(b.param("queue", 32));
    /// Notes the queue of outputs so far.
    KeepQueue as ("keep_queue") => ops::keep_queue(h);
    /// Later outputs have the queue that was noted.
    RestoreQueue as ("restore_queue") => ops::set_queue(Expr::meta(h.kept_queue));
    /// See [`ops`] for this and the following.
    CopyTtlOut as ("copy_ttl_out") => ops::copy_ttl_out(h);
    /// Copies the TTL inwards.
    CopyTtlIn as ("copy_ttl_in") => ops::copy_ttl_in(h);
    /// ttl 8.
    SetMplsTtl as ("set_mpls_ttl") => ops::set_mpls_ttl(h, b.param("mpls_ttl", 8));
    /// Decrements the MPLS TTL.
    DecMplsTtl as ("dec_mpls_ttl") => ops::dec_mpls_ttl(h);
    /// ttl 8.
    SetNwTtl as ("set_nw_ttl") => ops::set_nw_ttl(h, b.param("nw_ttl", 8));
    /// Decrements the IP TTL.
    DecNwTtl as ("dec_nw_ttl") => ops::dec_nw_ttl(h);
    /// With this TPID.
    PushVlan(tpid: u16) as ("push_vlan_{tpid:04x}") =>
        ops::push_vlan(h, Expr::int(tpid.into(), 16));
    /// Pops the outermost tag.
    PopVlan as ("pop_vlan") => ops::pop_vlan(h);
    /// With this EtherType.
    PushMpls(t: u16) as ("push_mpls_{t:04x}") => ops::push_mpls(h, Expr::int(t.into(), 16));
    /// Leaving this EtherType.
    PopMpls(t: u16) as ("pop_mpls_{t:04x}") => ops::pop_mpls(h, Expr::int(t.into(), 16));
    /// With this EtherType.
    PushPbb(t: u16) as ("push_pbb_{t:04x}") => ops::push_pbb(h, Expr::int(t.into(), 16));
    /// Unwraps the customer's frame.
    PopPbb as ("pop_pbb") => ops::pop_pbb(h);
    /// Sets a field: value, of its width.
    SetField(id: FieldId) as ("set_{id}") => b.set_field(id);
    /// Sets bits of a field: value and mask, of its width.
    SetFieldMasked(id: FieldId) as ("set_{id}_masked") => b.set_field_masked(id);
    /// Copies so many bits of a field into another.
    Copy(bits: u16, from: Subfield, to: Subfield)
        as ("copy_{bits}_{}_{}_{}_{}", from.field, from.offset, to.field, to.offset) =>
        fields::copy(h, bits, from, to);
    /// Pushes a tag if there is none, as 1.0's VLAN actions do.
    EnsureVlan as ("ensure_vlan") => vec![ops::ensure_vlan(h)];
    /// Sets the IPv4 source: value 32.
    //= openflow-1.0.2 §5.2.4: nw_src and nw_dst are the IPv4 addresses; ARP's are matched as such, but not set.
    SetNwSrc as ("set_nw_src") => b.assign_all("nw_src", 32, &[h.ipv4_src]);
    /// Sets the IPv4 destination: value 32.
    SetNwDst as ("set_nw_dst") => b.assign_all("nw_dst", 32, &[h.ipv4_dst]);
    /// Sets the code point of an IP packet: value 6.
    SetNwTos as ("set_nw_tos") => b.assign_all("nw_tos", 6, &[h.ipv4_dscp, h.ipv6_dscp]);
    /// Sets TCP's, UDP's or SCTP's source port: value 16.
    SetTpSrc as ("set_tp_src") => b.assign_all("tp_src", 16, &[h.tcp_src, h.udp_src, h.sctp_src]);
    /// Sets TCP's, UDP's or SCTP's destination port: value 16.
    SetTpDst as ("set_tp_dst") => b.assign_all("tp_dst", 16, &[h.tcp_dst, h.udp_dst, h.sctp_dst]);
    /// Asks a meter, obeys it: meter 32.
    Meter as ("meter") => ops::meter(h, b.param("meter", 32));
    /// Empties the action set.
    Clear as ("clear") => vec![layout.slots.clear()];
    /// Puts an action into the set: its argument, if the kind has one (an output two: port 32,
    /// max_len 16). [`Step::Mark`] follows in the end.
    Write(kind: Kind) as ("write_{}", kind.word()) => b.write(kind);
    /// Puts a set-field into the set: value, of its width.
    WriteField(id: FieldId) as ("write_set_{id}") => b.write_field(id);
    /// Marks slots of the action set as used.
    Mark(bits: u64) as ("") => vec![layout.slots.mark(bits)];
    /// Sets the metadata: value 64.
    Metadata as ("metadata") => b.assign_all("metadata", 64, &[FieldRef::Meta(h.metadata)]);
    /// Sets bits of the metadata: value 64, mask 64.
    MetadataMasked as ("metadata_masked") => b.metadata_masked();
    /// The next step is done within a meter's rate only: id 32.
    Within as ("within") => b.set_within();
    /// To the controllers of an id: max_len 16, id 16.
    ControllerOf(reason: PuntReason) as ("controller_of_{reason}") => b.controller_of(reason);
    /// The same with bytes of the list's: max_len 16, id 16, which of its actions with bytes 16.
    ControllerWith(reason: PuntReason) as ("controller_with_{reason}") => b.controller_with(reason);
    /// The same of a packet that waits.
    ControllerWaits(reason: PuntReason) as ("controller_waits_{reason}") =>
        b.controller_waits(reason);
    /// The packet is the control side's own: its number 32.
    Injected as ("injected") => b.assign_all("injection", 32, &[FieldRef::Meta(h.injection)]);
    /// Puts a number on the stack: value 128.
    StackValue as ("push") => b.stack_value();
    /// Decrements the IP TTL; so many ids are told of what expires: ids 16.
    DecNwTtlTo(count: u16) as ("dec_nw_ttl_to_{count}") => b.dec_nw_ttl_to(count);
    /// To the port that bits of a field name: max_len 16.
    OutputField(bits: Bits) as ("output_{}", place(bits)) => b.output_field(bits);
    /// To an ordinary port but the ingress port, cut: port 32, bytes 32.
    OutputTruncated as ("output_truncated") => b.output_truncated();
    /// Back out of the ingress port, cut: bytes 32.
    InPortTruncated as ("in_port_truncated") =>
        vec![ops::truncated(h, h.in_port(), b.param("bytes", 32), ops::output_in_port(h))];
    /// Puts bits of a field on the stack.
    StackPush(bits: Bits) as ("push_{}", place(bits)) => b.stack_push(bits);
    /// Takes bits of a field from the stack.
    StackPop(bits: Bits) as ("pop_{}", place(bits)) => b.stack_pop(bits);
    /// One bit, whether the packet came with more bytes: bytes 32.
    CheckPktLarger(to: Subfield) as ("larger_{}_{}", to.field, to.offset) => b.check_pkt_larger(to);
    /// The packet has a Geneve option no more.
    DeleteField(field: FieldId) as ("delete_{field}") => b.delete_field(field);
    /// A link's number by a hash: basis 16, links 32, and for a remainder 2^64 by the links, 64.
    Multipath(hashed: HashFields, algorithm: HashAlgorithm, bits: Bits)
        as ("multipath_{}_{}_{}", lower(hashed), lower(algorithm), place(bits)) =>
        b.multipath(hashed, algorithm, bits);
    /// The same by the highest random weight of so many links: basis 16.
    MultipathWeight(hashed: HashFields, links: u8, bits: Bits)
        as ("multipath_{}_hrw_{links}_{}", lower(hashed), place(bits)) =>
        b.multipath_weight(hashed, links, bits);
    /// The same by numbers that are drawn: basis 16, links 32, modulo 32.
    MultipathDrawn(hashed: HashFields, bits: Bits)
        as ("multipath_{}_iter_hash_{}", lower(hashed), place(bits)) =>
        b.multipath_drawn(hashed, bits);
    /// A value of the packet for the [`Step::Learn`] that follows.
    LearnFrom(bits: Bits) as ("from_{}", place(bits)) => b.learn_from(bits);
    /// Tells of a packet that an entry is to be learned from: by which `learn`, and how many of the values say which entry it
    /// is.
    Learn(which: u32, about: u8) as ("learn_{which}_{about}") => b.learn(which, about);
    /// The same; one bit, whether it is or will be there, or a limit forbids it.
    LearnTold(which: u32, to: Subfield) as ("learn_{which}_told_{}_{}", to.field, to.offset) =>
        b.learn_told(which, to);
    /// Tells of a TCP FIN or RST that the entry saw, which is of this table: its id 32.
    FinTimeout(table: u8) as ("fin_timeout_{table}") => b.fin_timeout(table);
    /// So many members, of which a live one is chosen and output to, or its number taken: basis 16, and
    /// their ports 32.
    Bundle(hashed: HashFields, algorithm: BundleAlgorithm, members: u16, to: Option<Bits>)
        as ("bundle_{}_{}_{members}{}", lower(hashed), lower(algorithm), into(to)) =>
        b.bundle(hashed, algorithm, members, to);
    /// What follows, up to [`Step::CloneEnd`], is done on a copy.
    Clone as ("clone") => b.begin_clone();
    /// See [`Step::Clone`].
    CloneEnd as ("end_clone") => b.end_clone();
    /// Runs the entries of a table, and goes on here.
    Resubmit(table: u8) as ("resubmit_{table}") => b.resubmit(table);
    /// The same as if the packet came by another port: port 32.
    ResubmitPort(table: u8) as ("resubmit_port_{table}") => b.resubmit_port(table);
    /// Runs the entries of a table as if the packet were its connection's first one, and goes on here.
    ResubmitCt(table: u8) as ("resubmit_ct_{table}") => b.resubmit_ct(table);
    /// The same as if it came by another port: port 32.
    ResubmitCtPort(table: u8) as ("resubmit_ct_port_{table}") => b.resubmit_ct_port(table);
    /// Nothing is set in the connection that the next [`Step::Ct`] keeps.
    CtExec as ("ct_exec") => b.ct_exec();
    /// Bits of the connection's mark or label: value and mask, of its width.
    CtSet(id: FieldId) as ("ct_set_{id}") => b.ct_set(id);
    /// So many bits of a field into the connection's mark or label.
    CtCopy(bits: u16, from: Subfield, to: Subfield)
        as ("ct_copy_{bits}_{}_{}_{}_{}", from.field, from.offset, to.field, to.offset) =>
        b.ct_copy(bits, from, to);
    /// Hands the packet to the connection tracker: zone 16, if no field says it; of a new translation, the
    /// first and the last address, 128, and the first and the last port, 16.
    Ct(ct: CtStep) as ("ct_{}", ct.word()) => b.ct(ct);
    /// The packet is as if it had not been tracked.
    CtClear as ("ct_clear") => ops::ct_clear(h);
    /// Hands the packet to a service and back to the first table: argument 32. The service's number is part of
    /// the step, so that behind it `sf_action` is known.
    Softflow {
        /// Its number.
        element: u32,
        /// It may write the packet.
        edits: bool
    } as ("softflow_{}{element:08x}", if edits { "edit_" } else { "" }) =>
        b.softflow(element, edits);
    /// The packet waits for the controller: its way ends here, that of every table that resubmitted it
    /// included, and nothing of its action set is done.
    Pause as ("pause") => b.pause();
    /// The action set is done, and the packet's way ends, that of every table that resubmitted it
    /// included.
    Exit as ("exit") => b.exit();
    /// The action set is done, and the packet's way ends.
    ActionSet as ("then_action_set") => vec![Op::Goto(layout.action_set)];
    /// Goes on in a later table.
    Goto(table: u8) as ("goto_{table}") => vec![Op::Goto(layout.headers.table_block(table))];
    /// Goes on among the entries of a conjunctive flow of this table: id 32.
    Conjunctive(table: u8) as ("conjunctive_{table}") => b.conjunctive(table);
    /// The conjunctive flow is found: later tables know nothing of it.
    Found as ("found") => vec![Op::Assign(FieldRef::Meta(h.conj_id), Expr::int(0, 32))];
}

/// What a word says of a reason; nothing of the usual one.
fn suffix(reason: PuntReason) -> String {
    match reason {
        PuntReason::Action => String::new(),
        other => format!("_{other}"),
    }
}

/// A name as a word has it.
fn lower(name: impl Debug) -> String {
    format!("{name:?}").to_lowercase()
}

/// Bits of a field as a word has them.
fn place(Bits { of, count }: Bits) -> String {
    format!("{}_{}_{count}", of.field, of.offset)
}

/// The same of bits that there may be.
fn into(bits: Option<Bits>) -> String {
    bits.map_or_else(String::new, |bits| format!("_{}", place(bits)))
}

/// The name of a shape's action: its steps' words, joined by dots; `drop` for no step at all.
pub fn name(shape: &[Step]) -> String {
    let mut out = String::from("of");
    for step in shape {
        if !matches!(step, Step::Mark(_)) {
            out.push('.');
        }
        word(*step, &mut out);
    }
    if shape.is_empty() { "of.drop".to_string() } else { out }
}

/// Nothing is done but that earlier tables' writes are forgotten: so `actions=drop` is written.
fn says_drop(shape: &[Step]) -> bool {
    shape.iter().all(|step| matches!(step, Step::Clear | Step::Found))
}

/// The action of a shape.
pub fn build(shape: &[Step], layout: &Layout) -> Action {
    let mut b = Build::new(layout);
    shape.iter().for_each(|step| b.add(|b| operations(*step, b)));
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
