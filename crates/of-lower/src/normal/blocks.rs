//! The blocks of NORMAL, for the packet itself or a copy of it.

use super::bond::BondBlocks;
use super::config::Extras;
use super::edits;
use super::ids::VlanIds;
use crate::headers::Headers;
use ir::builder::Builder;
use ir::{BlockId, Copy, Expr, Op, TableId, Terminator};

/// The blocks of NORMAL.
pub(crate) struct NormalBlocks {
    /// Where it begins.
    pub(crate) first: BlockId,
    /// Behind the choice of the way, where there is one.
    own: BlockId,
    /// Beside a set that is still to be executed, on a copy.
    copied: Option<BlockId>,
    comes: Option<BlockId>,
    /// Where VLANs that are flooded part from the others.
    learns: Option<BlockId>,
    bond: Option<BondBlocks>,
    src: BlockId,
    dst: BlockId,
    flood: Option<BlockId>,
}

/// The tables of stations.
pub(crate) struct StationTables {
    pub(crate) src: TableId,
    pub(crate) dst: TableId,
    /// Says that a station has told where it is.
    pub(crate) learn_arp: Op,
}

/// Where the packet itself goes on behind NORMAL.
#[derive(Clone, Copy)]
pub(crate) struct Behind {
    /// The action set is there.
    pub(crate) set: BlockId,
    /// It was empty.
    pub(crate) end: BlockId,
    /// NORMAL for copies.
    pub(crate) copy: BlockId,
}

impl NormalBlocks {
    /// `tail`: it is for the packet itself, which must go on as it was.
    pub(crate) fn reserve(
        b: &mut Builder,
        h: &Headers,
        name: &str,
        extras: &Extras,
        tail: bool,
    ) -> NormalBlocks {
        let vlans = extras.has_vlans();
        let first = b.block(name);
        let mut more = |what: &str| b.block(&format!("{name}_{what}"));
        let copied = (vlans && tail).then(|| more("copied"));
        let own = if copied.is_some() { more("own") } else { first };
        let comes = vlans.then(|| more("in"));
        // Control only comes to later blocks.
        let bonds = h.bonds.as_deref();
        let front = bonds.map(|bonds| BondBlocks::before_source(b, name, bonds));
        let mut more = |what: &str| b.block(&format!("{name}_{what}"));
        let learns = (!h.flood_vlans.is_empty()).then(|| more("learns"));
        let src = more("src");
        let bond = front.map(|front| front.behind_source(b, name));
        let mut more = |what: &str| b.block(&format!("{name}_{what}"));
        let dst = more("dst");
        let flood = vlans.then(|| more("flood"));
        NormalBlocks { first, own, copied, comes, learns, bond, src, dst, flood }
    }

    /// For a copy, which goes on in a block.
    pub(crate) fn fill(
        &self,
        b: &mut Builder,
        h: &Headers,
        tables: &StationTables,
        vlans: &VlanIds,
        next: BlockId,
    ) {
        let apply =
            |table, hit, miss| Terminator::Apply { table, hit, miss, by_action: Vec::new() };
        let group = Expr::int(0x0180_c200_0000 >> 4, 44);
        let link_local = Expr::Field(h.eth_dst).slice(47, 4).eq(group);
        // Bonds admit a packet before anything is learnt of it; where a VLAN is flooded, nothing is.
        let learns = self.learns.unwrap_or(self.src);
        let source = self.bond.as_ref().map_or(learns, |bond| bond.first);
        let then = self.comes.unwrap_or(source);
        let end = match h.forwards_bpdu {
            true => Terminator::Jump(then),
            false => Terminator::If { condition: link_local, then: next, or_else: then },
        };
        b.set_block(self.own, Vec::new(), end);
        if let (Some(comes), Some(table)) = (self.comes, vlans.normal_in) {
            b.set_block(comes, vec![edits::note_priority(h)], apply(table, source, source));
        }
        if let (Some(learns), Some(flood)) = (self.learns, self.flood) {
            let condition = h.flood_vlans.has(&Expr::Field(h.vlan_vid));
            let end = Terminator::If { condition, then: flood, or_else: self.src };
            b.set_block(learns, Vec::new(), end);
        }
        let unknown = self.bond.as_ref().map_or(self.dst, |bond| {
            bond.fill(b, h, &vlans.bonds, tables.learn_arp.clone(), (learns, self.dst))
        });
        b.set_block(self.src, Vec::new(), apply(tables.src, self.dst, unknown));
        let miss = self.flood.unwrap_or(next);
        b.set_block(self.dst, Vec::new(), apply(tables.dst, next, miss));
        if let (Some(flood), Some(table)) = (self.flood, vlans.normal_flood) {
            b.set_block(flood, Vec::new(), apply(table, next, next));
        }
    }

    /// For the packet itself. Where its tags may change and an action set is still to be executed, a copy does it.
    pub(crate) fn fill_tail(
        &self,
        b: &mut Builder,
        h: &Headers,
        tables: &StationTables,
        vlans: &VlanIds,
        behind: Behind,
    ) {
        let Some(copied) = self.copied else {
            return self.fill(b, h, tables, vlans, behind.set);
        };
        let empty = Expr::meta(h.slots.present).eq(Expr::int(0, 64));
        let end = Terminator::If { condition: empty, then: self.own, or_else: copied };
        b.set_block(self.first, Vec::new(), end);
        let clone = Op::Clone { block: behind.copy, copy: Copy::Current };
        b.set_block(copied, vec![clone], Terminator::Jump(behind.set));
        self.fill(b, h, tables, vlans, behind.end);
    }
}
