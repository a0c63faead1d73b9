//! Bonds in the program: which packets of a bond's members are let in, and what sends to a bond.
//!
//! ```text
//! normal -> normal_in -> bond_in -> normal_src -> (bond_moved, of slb's unknown sources) -> normal_dst ..
//! ```
//!
//! A bond is one place under NORMAL: `of.bundle` is the port that a packet came in by or, of a member's, the bond's
//! number, by which stations are learnt and floods leave the bond out. That number is also the group of what the bond
//! sends: buckets are slots, each an output by one member. A member that fails, a slot that moves and a mode that changes
//! are other buckets, so they are data; the program is another one when the first bond comes or the last one goes, when
//! ports begin or cease to speak LACP, and when the first or last bond balances by source.
//!
//! Checked by: `of-pipeline`'s `tests/bonds.rs`, which compares both engines with Open vSwitch's rules.

use super::config::Bonding;
use crate::headers::Headers;
use ir::builder::Builder;
use ir::{
    ActionCall, ActionId, BinaryOp, Bits, DropReason, Expr, FieldRef, Key, KeyMatch, MatchKind, Op,
    Pattern, Table, TableId, Terminator,
};
use std::sync::Arc;

/// The EtherType of LACP and other slow protocols (IEEE 802.3 §57A).
pub const SLOW_PROTOCOLS: u16 = 0x8809;

/// Ids of what is there for bonds. Bodies are there in programs that have bonds; tables, too.
#[derive(Clone, Debug)]
pub struct BondIds {
    /// How members let packets in: (ingress port, group address).
    pub admit: Option<TableId>,
    /// Where stations are known that a bond's own packets could come back from: (VLAN, source). Only in programs with
    /// bonds that balance by source.
    pub moved: Option<TableId>,
    refuse: ActionId,
    enter: ActionId,
    enter_slb: ActionId,
    reflected: ActionId,
    learn_slb: ActionId,
    to: ActionId,
    flood: ActionId,
    down: ActionId,
}

/// Which packets a member lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// None.
    None,
    /// All.
    All,
    /// All but those whose source is known to be elsewhere, which are the bond's own come back.
    Unmoved,
}

fn when(condition: Expr, then: Vec<Op>) -> Op {
    Op::If { condition, then, or_else: Vec::new() }
}

fn set(meta: ir::MetaId, value: Expr) -> Op {
    Op::Assign(FieldRef::Meta(meta), value)
}

/// An ARP packet by which a station says where it is.
pub(crate) fn is_gratuitous(h: &Headers) -> Expr {
    let arp = Expr::meta(h.ether_type).eq(Expr::int(0x0806, 16));
    let all = Expr::Field(h.eth_dst).eq(Expr::int(0xffff_ffff_ffff, 48));
    let op = |op| Expr::Field(h.arp_op).eq(Expr::int(op, 16));
    let own = Expr::Field(h.arp_spa).eq(Expr::Field(h.arp_tpa));
    arp.and(all).and(op(2).or(op(1).and(own)))
}

/// A packet of an unknown source is learnt there.
pub(crate) fn learns(h: &Headers) -> Option<Expr> {
    let slb = h.bonds.as_ref().is_some_and(|bonds| bonds.by_source);
    slb.then(|| Expr::meta(h.slb).not().or(is_gratuitous(h)))
}

/// It is one of LACP's frames, of a port that speaks it; none if no port does.
pub(crate) fn is_slow(h: &Headers) -> Option<Expr> {
    let ports = &h.bonds.as_ref()?.lacp;
    let is = |port: &u32| h.in_port().eq(Expr::int((*port).into(), 32));
    let speaks = ports.iter().map(is).reduce(Expr::or)?;
    let slow = Expr::meta(h.ether_type).eq(Expr::int(SLOW_PROTOCOLS.into(), 16));
    Some(slow.and(speaks))
}

/// What goes before admission; `learn` makes the digest of a gratuitous ARP.
pub(crate) fn before(h: &Headers) -> Vec<Op> {
    vec![set(h.bundle, h.in_port()), set(h.slb, Expr::bool(false))]
}

/// A station that says at a port where it is holds that place against its own words come back.
pub(crate) fn lock(h: &Headers, learn: Op) -> Op {
    when(is_gratuitous(h).and(Expr::meta(h.bundle).eq(h.in_port())), vec![learn])
}

/// Whether a packet's source is looked at as that of one that came back.
pub(crate) fn suspicious(h: &Headers) -> Expr {
    Expr::meta(h.slb).and(is_gratuitous(h).not())
}

impl BondIds {
    /// Declares the actions. Where the program has no bonds they do nothing, and are there for their ids.
    pub(crate) fn declare(b: &mut Builder, h: &Headers, learn: Op) -> BondIds {
        let bonds = h.bonds.is_some();
        let mut action = |name: &str, params: &[(&str, u32)], body: Vec<Op>| {
            b.action(name, params, if bonds { body } else { Vec::new() })
        };
        let param = Expr::Param;
        let send = |group: Expr| {
            vec![Op::If {
                condition: group.clone().ne(Expr::meta(h.bundle)),
                then: vec![Op::Group { group }],
                or_else: vec![set(h.suppressed, Expr::bool(true))],
            }]
        };
        let enter = || set(h.bundle, param(0));
        let class = Expr::meta(h.flood_class).eq(param(1));
        BondIds {
            admit: None,
            moved: None,
            refuse: action("bond_refuse", &[], vec![Op::Drop(DropReason::BondMember)]),
            enter: action("bond_enter", &[("bond", 32)], vec![enter()]),
            enter_slb: action(
                "bond_enter_slb",
                &[("bond", 32)],
                vec![enter(), set(h.slb, Expr::bool(true))],
            ),
            reflected: action("bond_reflected", &[], vec![Op::Drop(DropReason::BondReflected)]),
            learn_slb: action("bond_learn", &[], vec![learn]),
            to: action("to_bond", &[("bond", 32)], send(param(0))),
            flood: action(
                "flood_bond",
                &[("bond", 32), ("class", 32)],
                vec![when(class, send(param(0)))],
            ),
            down: action("bond_down", &[], vec![Op::Drop(DropReason::BondDown)]),
        }
    }

    /// Declares the tables that the program has.
    pub(crate) fn declare_tables(&mut self, b: &mut Builder, h: &Headers, known: ActionId) {
        let Some(bonds) = &h.bonds else { return };
        let key =
            |name: &str, expr: Expr, kind, width| Key { name: name.into(), expr, kind, width };
        let mut table = |name: &str, key: Vec<Key>, actions: Vec<ActionId>, default: ActionId| {
            b.table(Table {
                name: name.to_string(),
                key: Arc::from(key),
                actions: Some(actions.into_iter().chain([default]).collect()),
                default: ActionCall::new(default),
                default_const: true,
                capacity: 1 << 20,
                counters: false,
            })
        };
        let by_port = vec![
            key("in_port", h.in_port(), MatchKind::Exact, 32),
            key("group", Expr::Field(h.eth_dst).slice(40, 40), MatchKind::Exact, 1),
        ];
        let actions = vec![self.refuse, self.enter, self.enter_slb];
        self.admit = Some(table("bond_in", by_port, actions, known));
        if bonds.by_source {
            let by_source = vec![
                key("vlan", Expr::Field(h.vlan_vid), MatchKind::Exact, 12),
                key("eth_src", Expr::Field(h.eth_src), MatchKind::Exact, 48),
            ];
            self.moved = Some(table("bond_moved", by_source, vec![self.reflected], self.learn_slb));
        }
    }

    /// What sends to a bond, for tables of stations.
    pub(crate) fn station_action(&self) -> ActionId {
        self.to
    }

    /// What a member of the bond of this number does with packets that come in.
    pub fn admits(&self, bundle: u32, how: Admission) -> ActionCall {
        let bond = bits(bundle, 32);
        match how {
            Admission::None => ActionCall::new(self.refuse),
            Admission::All => ActionCall::with(self.enter, [bond]),
            Admission::Unmoved => ActionCall::with(self.enter_slb, [bond]),
        }
    }

    /// What drops a packet whose source is elsewhere.
    pub fn reflected(&self) -> ActionCall {
        ActionCall::new(self.reflected)
    }

    /// What sends a packet to the bond of a known station.
    pub fn station(&self, bundle: u32) -> ActionCall {
        ActionCall::with(self.to, [bits(bundle, 32)])
    }

    /// The action of a flood's bucket.
    pub fn bucket(&self, bundle: u32, class: u32) -> ActionCall {
        ActionCall::with(self.flood, [bits(bundle, 32), bits(class, 32)])
    }

    /// What drops a packet of a slot without a member.
    pub(super) fn down(&self) -> ActionCall {
        ActionCall::new(self.down)
    }
}

/// Patterns of the table of admission.
pub fn admit_matches(port: u32, group: bool) -> Box<[KeyMatch]> {
    let exact = |key, value| KeyMatch { key, pattern: Pattern::Exact(value) };
    [exact(0, bits(port, 32)), exact(1, bits(group.into(), 1))].into()
}

/// Patterns of the table of moved stations.
pub fn moved_matches(vlan: u16, mac: u64) -> Box<[KeyMatch]> {
    let exact = |key, value| KeyMatch { key, pattern: Pattern::Exact(value) };
    [exact(0, bits(vlan.into(), 12)), exact(1, Bits::from_u128(mac.into(), 48))].into()
}

fn bits(value: u32, width: u32) -> Bits {
    Bits::from_u128(value.into(), width)
}

/// By what a bond's slots are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BondHash {
    /// The source and VLAN, so that each station is at one member: `hash_of_source` says which slot.
    Source {
        /// Another number, another order.
        basis: u32,
    },
    /// Addresses and ports of layers 2 to 4, both directions alike.
    Layers {
        /// See above.
        basis: u32,
    },
}

/// Inputs of the hash, for a group of slots.
pub fn hash_inputs(h: &Headers, hash: BondHash) -> Arc<[Expr]> {
    let number = |basis: u32| Expr::int(basis.into(), 32);
    let vlan = Expr::Cast(Box::new(Expr::Field(h.vlan_vid)), 16);
    match hash {
        BondHash::Source { basis } => [Expr::Field(h.eth_src), vlan, number(basis)].into(),
        BondHash::Layers { basis } => {
            let both = |(src, dst)| Expr::binary(BinaryOp::Xor, Expr::Field(src), Expr::Field(dst));
            let pairs = [
                (h.eth_src, h.eth_dst),
                (h.ipv4_src, h.ipv4_dst),
                (h.ipv6_src, h.ipv6_dst),
                (h.tcp_src, h.tcp_dst),
                (h.sctp_src, h.sctp_dst),
            ];
            let others = [Expr::meta(h.ether_type), Expr::meta(h.ip_proto), vlan, number(basis)];
            pairs.into_iter().map(both).chain(others).collect()
        }
    }
}

/// The slot of a source, of so many.
pub fn slot_of_source(mac: [u8; 6], vlan: u16, basis: u32, slots: usize) -> usize {
    let mut bytes = mac.to_vec();
    bytes.extend(vlan.to_be_bytes());
    bytes.extend(basis.to_be_bytes());
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |r, _| r >> 1 ^ (0x82f6_3b78 * (r & 1)))
    };
    let crc = !bytes.iter().fold(u32::MAX, step);
    crc as usize % slots.max(1)
}

/// The blocks of bonds in NORMAL.
pub(crate) struct BondBlocks {
    pub(crate) first: ir::BlockId,
    lock: Option<ir::BlockId>,
    moved: Option<(ir::BlockId, ir::BlockId)>,
}

impl BondBlocks {
    /// Those that come before the source is looked up.
    pub(crate) fn before_source(b: &mut Builder, name: &str, bonds: &Bonding) -> BondBlocks {
        let mut more = |what: &str| b.block(&format!("{name}_{what}"));
        let first = more("bond");
        let lock = bonds.by_source.then(|| more("locked"));
        BondBlocks { first, lock, moved: None }
    }

    /// And those behind it.
    pub(crate) fn behind_source(mut self, b: &mut Builder, name: &str) -> BondBlocks {
        let mut more = |what: &str| b.block(&format!("{name}_{what}"));
        self.moved = self.lock.map(|_| (more("whence"), more("moved")));
        self
    }

    /// Goes on to `src`; returns where unknown sources go on instead of `dst`.
    pub(crate) fn fill(
        &self,
        b: &mut Builder,
        h: &Headers,
        ids: &BondIds,
        learn: Op,
        (src, dst): (ir::BlockId, ir::BlockId),
    ) -> ir::BlockId {
        let apply =
            |table, next| Terminator::Apply { table, hit: next, miss: next, by_action: Vec::new() };
        if let Some(table) = ids.admit {
            b.set_block(self.first, before(h), apply(table, self.lock.unwrap_or(src)));
        }
        if let Some(block) = self.lock {
            b.set_block(block, vec![lock(h, learn)], Terminator::Jump(src));
        }
        match (self.moved, ids.moved) {
            (Some((whence, moved)), Some(table)) => {
                let end = Terminator::If { condition: suspicious(h), then: moved, or_else: dst };
                b.set_block(whence, Vec::new(), end);
                b.set_block(moved, Vec::new(), apply(table, dst));
                whence
            }
            _ => dst,
        }
    }
}
