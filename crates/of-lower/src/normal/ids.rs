//! The tables and actions of NORMAL's VLANs and of mirrors, which are the same in every program.

use super::bond::BondIds;
use super::config::{Block, Incoming, PortVlans, Reaches};
use super::edits::Out;
use ir::{ActionCall, ActionId, Bits, KeyMatch, Pattern, TableId};

/// Ids of what is there for VLANs and mirrors. Bodies are there in programs that have them; tables, too.
#[derive(Clone, Debug)]
pub struct VlanIds {
    /// How a packet comes in: (ingress port, VLAN of its tag), under a mask.
    pub normal_in: Option<TableId>,
    /// Where it is flooded to: (VLAN, inner VLAN), under masks.
    pub normal_flood: Option<TableId>,
    /// Who mirrors it as it comes in: the columns of `normal_in`.
    pub mirror_src: Option<TableId>,
    /// What is there for bonds.
    pub bonds: BondIds,
    pub(super) not_allowed: ActionId,
    pub(super) mirror_port: ActionId,
    pub(super) comes: [ActionId; 3],
    /// To a known port, by [`Out`] and priority tags.
    pub(super) to: [[ActionId; 3]; 4],
    pub(super) flood_plain: ActionId,
    pub(super) flood_by: [[ActionId; 3]; 4],
    pub(super) flood: ActionId,
    pub(super) copy_plain: ActionId,
    pub(super) copy_by: [[ActionId; 3]; 4],
    pub(super) mirrors: [ActionId; 4],
    pub(super) known: ActionId,
    pub(super) output: ActionId,
}

impl VlanIds {
    /// What a table of known stations may do.
    pub(crate) fn station_actions(&self) -> impl Iterator<Item = ActionId> {
        self.to.into_iter().flatten().chain([self.bonds.station_action()])
    }

    /// What is done to packets of a port that has VLANs.
    pub fn comes(&self, how: Option<Incoming>) -> ActionCall {
        let Some(how) = how else { return ActionCall::new(self.not_allowed) };
        match how.parts() {
            None => ActionCall::new(self.known),
            Some((kind, vlan, ether_type)) => {
                let args = [bits(vlan.into(), 12), bits(ether_type.into(), 16)];
                ActionCall::with(self.comes[kind as usize], args)
            }
        }
    }

    /// What is done to packets of a mirror's port.
    pub fn comes_from_mirror(&self) -> ActionCall {
        ActionCall::new(self.mirror_port)
    }

    /// What sends a packet to the port of a known station.
    pub fn station(&self, port: u32, vlans: Option<&PortVlans>) -> ActionCall {
        let Some(vlans) = vlans else {
            return ActionCall::with(self.output, [bits(port, 32)]);
        };
        let (out, own) = Out::of(vlans);
        let action = self.to[out as usize][vlans.priority_tags as usize];
        ActionCall::with(action, [bits(port, 32), bits(own.into(), 12)])
    }

    /// The action of a bond's slot: a packet leaves by a member, which has these VLANs, or by none.
    pub fn slot(&self, member: Option<u32>, vlans: Option<&PortVlans>) -> ActionCall {
        member.map_or_else(|| self.bonds.down(), |member| self.station(member, vlans))
    }

    /// The action of a bucket: a copy to a port, for packets of a class.
    pub fn bucket(&self, port: u32, class: u32, vlans: Option<&PortVlans>) -> ActionCall {
        let (action, own) = match vlans {
            None => (self.flood_plain, 0),
            Some(vlans) => {
                let (out, own) = Out::of(vlans);
                (self.flood_by[out as usize][vlans.priority_tags as usize], own)
            }
        };
        ActionCall::with(action, [bits(port, 32), bits(class, 32), bits(own.into(), 12)])
    }

    /// The action of a bucket: a mirror's copy to a port of its VLAN.
    pub fn copy(&self, port: u32, vlans: Option<&PortVlans>) -> ActionCall {
        let (action, own) = match vlans {
            None => (self.copy_plain, 0),
            Some(vlans) => {
                let (out, own) = Out::of(vlans);
                (self.copy_by[out as usize][vlans.priority_tags as usize], own)
            }
        };
        ActionCall::with(action, [bits(port, 32), bits(own.into(), 12)])
    }

    /// What floods packets: the group, their class in it, and for each mirror the ports that it selects; for those of
    /// protected ports they follow, if there are any (`protected`).
    pub fn flood(
        &self,
        group: ir::GroupId,
        class: u32,
        reach: &[Reaches],
        protected: bool,
    ) -> ActionCall {
        let mut args = vec![bits(group.0, 32), bits(class, 32)];
        args.extend(reach.iter().map(|reach| bits(reach.open.number(), 32)));
        if protected {
            args.extend(reach.iter().map(|reach| bits(reach.protected.number(), 32)));
        }
        ActionCall::with(self.flood, args)
    }

    /// What mirrors a packet that comes in: the mirrors that copy it, and those whose place has one then.
    pub fn mirrored(&self, how: Incoming, mirrors: u32, seen: u32) -> ActionCall {
        let (action, vlan, ether_type) = match how.parts() {
            None => (self.mirrors[0], 0, 0),
            Some((kind, vlan, ether_type)) => (self.mirrors[1 + kind as usize], vlan, ether_type),
        };
        let values = [(mirrors, 32), (seen, 32), (vlan.into(), 12), (ether_type.into(), 16)];
        ActionCall::with(action, values.map(|(value, width)| bits(value, width)))
    }
}

fn bits(value: u32, width: u32) -> Bits {
    Bits::from_u128(value.into(), width)
}

/// A pattern of 12 bits under a mask, for a column.
fn masked(key: u16, (value, mask): Block) -> Option<KeyMatch> {
    let pattern = Pattern::Masked(bits(value.into(), 12), bits(mask.into(), 12));
    (mask != 0).then_some(KeyMatch { key, pattern })
}

/// Patterns of `normal_in` and `mirror_src`.
pub fn in_matches(port: u32, vlans: Block) -> Box<[KeyMatch]> {
    let port = KeyMatch { key: 0, pattern: Pattern::Exact(bits(port, 32)) };
    [port].into_iter().chain(masked(1, vlans)).collect()
}

/// Patterns of `normal_flood`.
pub fn flood_matches(vlan: Block, inner: Block) -> Box<[KeyMatch]> {
    masked(0, vlan).into_iter().chain(masked(1, inner)).collect()
}
