//! The program: one pipeline for every OpenFlow version.
//!
//! ```text
//! t0 .. t253 -> (normal_tail ..) -> action_set -> as_execute -> end
//! normal ..  -> done                                          (copies only)
//! ```
//!
//! Block *n* applies table *n*; a goto instruction is a goto to its block, and without one control
//! goes on to the action set. NORMAL is there twice, over the same tables: for a copy of the packet,
//! and as the way of the packet itself when nothing but the action set comes after it, which saves
//! the copy.
//!
//! With egress tables (1.5.1 §5.1) an output makes a copy with an action set of that output alone, and
//! has the first egress table's block process it; in the end the set's output is done straight away
//! ([`ops`]).
//!
//! NORMAL (1.3.5 §4.5) is a learning switch for each VLAN: an unknown (vlan, source, port) sends a
//! digest; a known (vlan, destination) goes to its port, all else is flooded. Frames to
//! 01-80-c2-00-00-0x are not forwarded (IEEE 802.1D §7.12.6). Who serves the digest inserts an
//! entry into both tables and removes them by the idle timeout of the first. Where ports have VLANs, and
//! where there are mirrors, the program has more blocks ([`super::normal`]).

use super::action_set;
use super::answers;
use super::checksums;
use super::fields;
use super::headers::Headers;
use super::layout::{LEARN_VALUES, Layout};
use super::normal::blocks::{Behind, NormalBlocks, StationTables};
use super::normal::bond;
use super::normal::config::Extras;
use super::normal::ids::VlanIds;
use super::normal::protected::drop_withheld;
use super::ops;
use super::parser;
use contract::{answers as asked, ct as tracker, learn_admits as admission, softflow as elements};
use ir::builder::Builder;
use ir::{
    ActionCall, ActionId, BinaryOp, DropReason, Expr, FieldRef, Key, MatchKind, Op, Program,
    PuntReason, Table, TableId, Terminator,
};
use openflow::PortNo;
use std::sync::Arc;

/// What the program depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramConfig {
    /// How many flow tables, 1 to 255.
    pub tables: u8,
    /// Most entries of each flow table.
    pub table_capacity: u32,
    /// Most stations that NORMAL remembers.
    pub normal_capacity: u32,
}

impl Default for ProgramConfig {
    fn default() -> ProgramConfig {
        ProgramConfig { tables: 254, table_capacity: 1 << 20, normal_capacity: 1 << 20 }
    }
}

/// The program, and the ids of its parts. All tables are ingress tables.
pub fn program(config: &ProgramConfig) -> (Program, Layout) {
    program_with(config, None)
}

/// The program with egress tables from `first_egress` on, if it is said. The ids are the same in all of
/// them, so entries, groups and arguments of one are those of another; bodies of actions are not.
pub fn program_with(config: &ProgramConfig, first_egress: Option<u8>) -> (Program, Layout) {
    program_of(config, &Extras { first_egress, ..Extras::default() })
}

/// The program with all that it may have beside tables. What was said of ids above holds.
pub fn program_of(config: &ProgramConfig, extras: &Extras) -> (Program, Layout) {
    let b = &mut Builder::new();
    let h = Headers::declare(b, extras);
    let slots = h.slots.clone();
    let (drop_fragments, shown_fragments) = parser::declare(b, &h);
    checksums::declare(b, &h);
    let tables = u32::from(config.tables.max(1));

    let learn = b.digest("learn", &[("vlan", 12), ("mac", 48), ("port", 32), ("arp", 1)]);
    let values: Vec<String> = (0..LEARN_VALUES).map(|i| format!("v{i}")).collect();
    let mut columns = vec![("learn", 32)];
    columns.extend(values.iter().map(|name| (name.as_str(), 128)));
    let learn_entries =
        std::array::from_fn(|count| b.digest(&format!("learn_entry{count}"), &columns[..=count]));
    let learn_admits = b.service(admission::NAME, &columns, &admission::RESULTS, false);
    let fin_timeout = b.digest("fin_timeout", &[("table", 8), ("entry", 32)]);
    let ct = b.service(tracker::NAME, &tracker::ARGS, &tracker::RESULTS, false);
    let nat_args: Vec<(&str, u32)> = tracker::ARGS.into_iter().chain(tracker::NAT_ARGS).collect();
    let ct_nat = b.service(tracker::NAT_NAME, &nat_args, &tracker::RESULTS, true);
    let (args, results) = (&elements::ARGS, &elements::RESULTS);
    let softflow = b.service(elements::NAME, args, results, false);
    let softflow_edit = b.service(elements::EDIT_NAME, args, results, true);
    let asked = b.service(asked::NAME, &[], &asked::RESULTS, true);
    let miss = b.action("miss", &[], vec![Op::Drop(DropReason::TableMiss)]);
    let miss_to_controller = b.action(
        "miss_to_controller",
        &[("max_len", 16)],
        vec![ops::punt(&h, PuntReason::TableMiss, Expr::Param(0)), Op::Drop(DropReason::TableMiss)],
    );
    let output = b.action("output", &[("port", 32)], vec![ops::output(Expr::Param(0), &h)]);
    let known = b.action("known", &[], Vec::new());
    let flood = b.action("flood", &[], ops::output_flood(&h));
    // A group address is no station's, and the controller (a packet-out) is no port.
    let vlan = || Expr::Field(h.vlan_vid);
    let in_port = || h.in_port();
    let station = Expr::Field(h.eth_src).slice(40, 40).eq(Expr::int(0, 1));
    let ordinary = Expr::binary(BinaryOp::Lt, in_port(), Expr::int(PortNo::MAX.0.into(), 32))
        .or(in_port().eq(Expr::int(PortNo::LOCAL.0.into(), 32)));
    let digest = |arp| Op::Digest {
        digest: learn,
        args: vec![vlan(), Expr::Field(h.eth_src), h.bundle(), arp],
        once: None,
    };
    let arp = match h.bonds.as_ref().is_some_and(|bonds| bonds.by_source) {
        true => bond::is_gratuitous(&h),
        false => Expr::bool(false),
    };
    let any_source = station.clone().and(ordinary.clone());
    let learn_any = ops::when(any_source.clone(), vec![digest(Expr::bool(false))]);
    let learn_arp = ops::when(any_source.clone(), vec![digest(Expr::bool(true))]);
    let learns = bond::learns(&h).into_iter().fold(any_source, Expr::and);
    let learn_source = b.action("learn", &[], vec![ops::when(learns, vec![digest(arp)])]);

    let mut vlan_ids = VlanIds::declare(b, &h, extras, (known, output), learn_any);
    let vlans = extras.has_vlans();
    let key = fields::key(&h);
    for n in 0..tables {
        b.table(Table {
            name: format!("t{n}"),
            key: key.clone(),
            actions: None,
            default: ActionCall::new(miss),
            default_const: false,
            capacity: config.table_capacity,
            counters: true,
        });
    }
    let exact = |name: &str, expr: Expr, width: u32| Key {
        name: name.to_string(),
        expr,
        kind: MatchKind::Exact,
        width,
    };
    let mut normal_table = |name: &str, key: Vec<Key>, hits: Vec<ActionId>, miss: ActionId| {
        b.table(Table {
            name: name.to_string(),
            key: Arc::from(key),
            actions: Some(hits.into_iter().chain([miss]).collect()),
            default: ActionCall::new(miss),
            default_const: true,
            capacity: config.normal_capacity,
            counters: true,
        })
    };
    let src_key = vec![
        exact("vlan", vlan(), 12),
        exact("eth_src", Expr::Field(h.eth_src), 48),
        exact("in_port", h.bundle(), 32),
    ];
    let normal_src = normal_table("normal_src", src_key, vec![known], learn_source);
    let dst_key = vec![exact("vlan", vlan(), 12), exact("eth_dst", Expr::Field(h.eth_dst), 48)];
    // Where ports have VLANs, a table of its own says where to.
    let (mut sends, mut unknown) = (vec![output], flood);
    if vlans {
        sends.extend(vlan_ids.station_actions());
        unknown = known;
    }
    let normal_dst = normal_table("normal_dst", dst_key, sends, unknown);
    let stations = StationTables { src: normal_src, dst: normal_dst, learn_arp };

    let first_conjunctive = TableId(normal_dst.0 + 1);
    for n in 0..tables {
        b.table(Table {
            name: format!("t{n}_conjunctive"),
            key: key.clone(),
            actions: None,
            default: ActionCall::new(miss),
            default_const: true,
            capacity: config.table_capacity,
            counters: true,
        });
    }
    vlan_ids.declare_tables(b, &h, extras);
    let first = (h.first_block > 0).then(|| (b.block("in"), b.block("mirror_src")));
    for n in 0..tables {
        b.block(&format!("t{n}"));
        b.block(&format!("t{n}_conjunctive"));
    }
    let tail = NormalBlocks::reserve(b, &h, "normal_tail", extras, true);
    let action_set = b.block("action_set");
    let execute = b.block("as_execute");
    let end = b.block("end");
    let copy = NormalBlocks::reserve(b, &h, "normal", extras, false);
    let done = b.block("done");
    let nowhere = b.block("nowhere");

    for n in 0..tables {
        // Only the first table sees frames that just came in.
        let mut ops = Vec::new();
        if n == 0 {
            ops.extend(comes_in(&h));
            if extras.answers {
                ops.extend(answers::ops(&h, asked));
            }
        }
        let apply = |table| Terminator::Apply {
            table,
            hit: action_set,
            miss: action_set,
            by_action: Vec::new(),
        };
        b.set_block(h.table_block(n as u8), ops, apply(TableId(n)));
        let conjunctive = TableId(first_conjunctive.0 + n);
        b.set_block(h.conjunctive_block(n as u8), Vec::new(), apply(conjunctive));
    }
    if let (Some((first, mirrors)), Some(table)) = (first, vlan_ids.mirror_src) {
        // A packet comes in once, whatever tables it is resubmitted to.
        let (condition, then) = (Expr::meta(h.entered), h.table_block(0));
        let end = Terminator::If { condition, then, or_else: mirrors };
        b.set_block(first, comes_in(&h), end);
        let entered = Op::Assign(FieldRef::Meta(h.entered), Expr::bool(true));
        let end = Terminator::Apply { table, hit: then, miss: then, by_action: Vec::new() };
        b.set_block(mirrors, vec![entered], end);
    }
    let behind = Behind { set: action_set, end, copy: copy.first };
    tail.fill_tail(b, &h, &stations, &vlan_ids, behind);
    let empty = Expr::meta(slots.present).eq(Expr::int(0, 64));
    b.set_block(
        action_set,
        Vec::new(),
        Terminator::If { condition: empty, then: end, or_else: execute },
    );
    let withheld = drop_withheld(&h);
    let mut ops = action_set::execute(&h, &slots, copy.first);
    ops.extend(withheld.clone());
    b.set_block(execute, ops, Terminator::Exit);
    let suppressed = Op::If {
        condition: Expr::meta(h.suppressed),
        then: vec![Op::Drop(DropReason::OutputToIngress)],
        or_else: Vec::new(),
    };
    let nothing_sent: Vec<Op> = withheld.into_iter().chain([suppressed]).collect();
    b.set_block(end, nothing_sent.clone(), Terminator::Exit);
    copy.fill(b, &h, &stations, &vlan_ids, done);
    b.set_block(done, nothing_sent, Terminator::Exit);
    b.set_block(nowhere, Vec::new(), Terminator::Exit);

    let mut program = std::mem::take(b).finish();
    // A header that is cut short is payload.
    program.reject_continues = true;
    program.preface = h.tunnels.as_ref().map(|tunnels| tunnels.preface());
    let layout = Layout {
        tables,
        normal_tail: tail.first,
        normal: copy.first,
        action_set,
        normal_src,
        normal_dst,
        first_conjunctive,
        learn,
        learn_entries,
        learn_admits,
        fin_timeout,
        ct,
        ct_nat,
        softflow: [softflow, softflow_edit],
        nowhere,
        drop_fragments,
        shown_fragments,
        miss,
        miss_to_controller,
        output,
        known,
        vlans: vlan_ids,
        first_action: ActionId(program.actions.len() as u32),
        headers: h,
        slots,
    };
    (program, layout)
}

/// What is done to a frame before anything else.
fn comes_in(h: &Headers) -> Vec<Op> {
    let slow = bond::is_slow(h).map(|slow| {
        let punt = ops::punt(h, PuntReason::Control, Expr::int(0xffff, 16));
        ops::when(slow, vec![punt, Op::Exit])
    });
    [refuse(h)].into_iter().chain(slow).collect()
}

/// Drops what has no Ethernet header, and fragments that are not wanted.
fn refuse(h: &Headers) -> Op {
    let short = vec![Op::Drop(DropReason::FrameTooShort)];
    let or_else = match crate::tunnel::is_of_other_map(h) {
        None => short,
        Some(condition) => {
            let then = vec![Op::Drop(DropReason::TunnelMap)];
            vec![Op::If { condition, then, or_else: short }]
        }
    };
    Op::If {
        condition: Expr::meta(h.ok),
        then: Vec::new(),
        or_else: vec![Op::If {
            condition: Expr::Valid(h.eth),
            then: vec![Op::Drop(DropReason::Fragment)],
            or_else,
        }],
    }
}
