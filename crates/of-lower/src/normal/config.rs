//! What NORMAL and mirrors are told of ports: VLAN modes, and what is copied where.

use super::port_set::PortSet;
use crate::headers::VLAN_PARSED;
use contract::tunnel::OptionMap;
use ir::BinaryOp;
use ir::Expr;
use std::sync::Arc;

/// VLAN ids, 12 bits each.
const VLANS: usize = 4096;

/// A set of VLAN ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; VLANS / 64]>);

impl Default for VlanSet {
    fn default() -> VlanSet {
        VlanSet(Box::new([0; VLANS / 64]))
    }
}

impl VlanSet {
    /// All ids.
    pub fn all() -> VlanSet {
        VlanSet(Box::new([u64::MAX; VLANS / 64]))
    }

    /// The id is a member.
    pub fn contains(&self, vlan: u16) -> bool {
        self.0.get(usize::from(vlan) / 64).is_some_and(|word| word >> (vlan % 64) & 1 == 1)
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The id becomes a member, or none any more. Ids of more than 12 bits are none.
    pub fn set(&mut self, vlan: u16, member: bool) {
        if let Some(word) = self.0.get_mut(usize::from(vlan) / 64) {
            *word = *word & !(1 << (vlan % 64)) | u64::from(member) << (vlan % 64);
        }
    }

    /// All members in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0..VLANS as u16).filter(|vlan| self.contains(*vlan))
    }
}

impl FromIterator<u16> for VlanSet {
    fn from_iter<I: IntoIterator<Item = u16>>(vlans: I) -> VlanSet {
        let mut set = VlanSet::default();
        vlans.into_iter().for_each(|vlan| set.set(vlan, true));
        set
    }
}

/// VLAN ids that have the same highest bits: value and mask.
pub type Block = (u16, u16);

/// Blocks of all ids of which `value` says the same, but those of the value that most have; that one comes last, with
/// the block of all. The blocks before are disjoint.
pub fn cover<T: Clone + PartialEq>(value: impl Fn(u16) -> T) -> Vec<(Block, T)> {
    let mut values: Vec<(T, usize)> = Vec::new();
    let all: Vec<usize> = (0..VLANS as u16)
        .map(|vlan| {
            let of = value(vlan);
            let at = values.iter().position(|(other, _)| *other == of).unwrap_or_else(|| {
                values.push((of, 0));
                values.len() - 1
            });
            values[at].1 += 1;
            at
        })
        .collect();
    let most = (0..values.len()).max_by_key(|at| values[*at].1).unwrap_or(0);
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at < VLANS {
        // The largest block that begins here and has one value.
        let mut len = 1;
        while at & len == 0
            && at + 2 * len <= VLANS
            && all[at..at + 2 * len].iter().all(|v| *v == all[at])
        {
            len *= 2;
        }
        if all[at] != most {
            let mask = (VLANS - len) as u16;
            blocks.push(((at as u16, mask), values[all[at]].0.clone()));
        }
        at += len;
    }
    blocks.push(((0, 0), values[most].0.clone()));
    blocks
}

impl VlanSet {
    /// Whether a value of 12 bits is a member.
    pub(crate) fn has(&self, vid: &Expr) -> Expr {
        let blocks = cover(|vlan| self.contains(vlan));
        let (last, others) = blocks.split_last().map_or((false, &[][..]), |((_, of), o)| (*of, o));
        let is = |((value, mask), _): &(Block, bool)| {
            let masked = Expr::binary(BinaryOp::And, vid.clone(), Expr::int((*mask).into(), 12));
            masked.eq(Expr::int((*value).into(), 12))
        };
        let any = others.iter().map(is).reduce(Expr::or);
        match (any, last) {
            (None, last) => Expr::bool(last),
            (Some(any), false) => any,
            (Some(any), true) => any.not(),
        }
    }
}

/// How packets come and go by a port under NORMAL (Open vSwitch's `vlan_mode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VlanMode {
    /// As they are: in the VLAN of their tag, without one in VLAN 0.
    Trunk,
    /// All in one VLAN, without a tag.
    Access(u16),
    /// A trunk where packets without a tag are in this VLAN; they go out tagged.
    NativeTagged(u16),
    /// The same; they go out without a tag.
    NativeUntagged(u16),
    /// All in one VLAN, whose tag is put before those that they have.
    Tunnel {
        /// The VLAN.
        vlan: u16,
        /// The tag's type.
        tag_type: TagType,
    },
}

/// The type of the tag that a tunnel puts in front (`other_config:qinq-ethtype`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagType {
    /// Of a service tag.
    #[default]
    Service,
    /// Of a customer's.
    Customer,
}

impl TagType {
    /// As it stands in packets.
    pub fn ether_type(self) -> u16 {
        match self {
            TagType::Service => 0x88a8,
            TagType::Customer => 0x8100,
        }
    }
}

/// How packets go out that have a priority and no VLAN (`other_config:priority-tags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityTags {
    /// Without a tag.
    #[default]
    Never,
    /// With one if the priority is not 0.
    IfNonZero,
    /// The same, and a tag that came with neither stays.
    Always,
}

/// A port's VLANs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortVlans {
    /// How packets come and go.
    pub mode: VlanMode,
    /// VLANs that may, in a tunnel the inner ones; none for all.
    pub vlans: Option<VlanSet>,
    /// What becomes of a priority without a VLAN.
    pub priority_tags: PriorityTags,
}

/// What is done to a packet that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Nothing.
    Pass,
    /// It has this tag and no other.
    Access(u16),
    /// Its outermost tag has this VLAN, if need be one is pushed.
    Native(u16),
    /// A tag is pushed: VLAN, type.
    Tunnel(u16, u16),
}

impl PortVlans {
    /// An access port.
    pub fn access(vlan: u16) -> PortVlans {
        PortVlans { mode: VlanMode::Access(vlan), vlans: None, priority_tags: PriorityTags::Never }
    }

    /// A trunk of these VLANs.
    pub fn trunk(vlans: impl IntoIterator<Item = u16>) -> PortVlans {
        let vlans = Some(vlans.into_iter().collect());
        PortVlans { mode: VlanMode::Trunk, vlans, priority_tags: PriorityTags::Never }
    }

    /// A VLAN may pass a trunk; a native VLAN always may, and VLAN 0 never beside it.
    fn trunks(&self, vlan: u16) -> bool {
        match self.mode {
            VlanMode::NativeTagged(native) | VlanMode::NativeUntagged(native) if native != 0 => {
                vlan == native || vlan != 0 && self.listed(vlan)
            }
            _ => self.listed(vlan),
        }
    }

    fn listed(&self, vlan: u16) -> bool {
        self.vlans.as_ref().is_none_or(|vlans| vlans.contains(vlan))
    }

    /// What is done to a packet that comes in with this VLAN (0 without a tag); none if it may not.
    pub fn incoming(&self, vid: u16) -> Option<Incoming> {
        match self.mode {
            VlanMode::Access(vlan) => (vid == 0).then_some(Incoming::Access(vlan)),
            VlanMode::NativeTagged(vlan) | VlanMode::NativeUntagged(vlan) if vid == 0 => {
                Some(Incoming::Native(vlan))
            }
            VlanMode::Tunnel { vlan, tag_type } => {
                self.listed(vid).then_some(Incoming::Tunnel(vlan, tag_type.ether_type()))
            }
            _ => self.trunks(vid).then_some(Incoming::Pass),
        }
    }

    /// Packets of this VLAN, and of this inner one, are flooded to the port.
    pub fn includes(&self, vlan: u16, inner: u16) -> bool {
        match self.mode {
            VlanMode::Access(own) => vlan == own && inner == 0,
            VlanMode::Tunnel { vlan: own, .. } => vlan == own && self.listed(inner),
            _ => self.trunks(vlan),
        }
    }

    /// Whether packets of a VLAN are flooded here may depend on the inner one.
    pub fn looks_inside(&self, vlan: u16) -> bool {
        match self.mode {
            VlanMode::Access(own) => vlan == own,
            VlanMode::Tunnel { vlan: own, .. } => vlan == own && self.vlans.is_some(),
            _ => false,
        }
    }
}

impl Incoming {
    /// The VLAN of a packet that came with this one.
    pub fn vlan(self, vid: u16) -> u16 {
        match self {
            Incoming::Pass => vid,
            Incoming::Access(vlan) | Incoming::Native(vlan) | Incoming::Tunnel(vlan, _) => vlan,
        }
    }
}

/// Mirrors of a program, at most.
pub const MIRRORS_MAX: usize = 32;

/// Some of the ports that a copy may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// None is selected by the mirror.
    #[default]
    None,
    /// Only this one is.
    Only(u32),
    /// Several are.
    Several,
}

impl Reach {
    /// Of the ports that are selected.
    pub fn of(mut selected: impl Iterator<Item = u32>) -> Reach {
        match (selected.next(), selected.next()) {
            (None, _) => Reach::None,
            (Some(port), None) => Reach::Only(port),
            _ => Reach::Several,
        }
    }

    /// As an argument of 32 bits: a number that is no port's for none and several.
    pub(crate) fn number(self) -> u32 {
        match self {
            Reach::None => 0,
            Reach::Only(port) => port,
            Reach::Several => u32::MAX,
        }
    }
}

/// Some of the ports that a flood goes to: for packets of other ports, and for those of protected ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaches {
    /// For packets of ports that are not protected.
    pub open: Reach,
    /// For those of protected ports.
    pub protected: Reach,
}

impl Reaches {
    /// Of the ports that are selected; `protected` says of each whether it is.
    pub fn of(
        selected: impl Iterator<Item = u32> + Clone,
        protected: impl Fn(u32) -> bool,
    ) -> Reaches {
        let others = selected.clone().filter(|port| !protected(*port));
        Reaches { open: Reach::of(selected), protected: Reach::of(others) }
    }
}

/// Where a mirror's copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorTo {
    /// To a port, as its VLANs say.
    Port(u32, Option<PortVlans>),
    /// To all ports of a VLAN: the buckets of the mirror's group.
    Vlan(u16),
}

/// A mirror as the program has it. What is selected as it comes in is said by entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Packets that leave by these ports are selected; none for all ports.
    pub destinations: Option<Vec<u32>>,
    /// Only those of these VLANs are; none for all.
    pub vlans: Option<VlanSet>,
    /// Where copies go.
    pub to: MirrorTo,
    /// Bytes of a copy, at most.
    pub length_max: Option<u32>,
    /// The mirrors whose copies go to the same place, a bit each, itself included.
    pub same: u32,
    /// Which ports of FLOOD are selected, and of ALL.
    pub flood: Reaches,
    /// See `flood`.
    pub all: Reaches,
}

/// Bonds of a program, at most.
pub const BONDS_MAX: usize = 64;

/// What a program has for bonds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bonding {
    /// Ports whose frames of LACP are for the switch itself.
    pub lacp: Vec<u32>,
    /// Some bond balances by source, so its own packets may come back by another member.
    pub by_source: bool,
}

/// What a program has beyond its tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The first egress table.
    pub first_egress: Option<u8>,
    /// VLAN tags that the parser takes, one or more; what is behind them is payload. None for
    /// [`VLAN_PARSED`](crate::headers::VLAN_PARSED).
    pub vlan_limit: Option<u8>,
    /// NORMAL follows the VLAN modes of ports.
    pub vlans: bool,
    /// Mirrors, [`MIRRORS_MAX`] at most.
    pub mirrors: Arc<[Mirror]>,
    /// Ports that exchange no packets.
    pub protected: PortSet,
    /// VLANs in which NORMAL neither learns nor asks where stations are.
    pub flood_vlans: VlanSet,
    /// NORMAL forwards frames to addresses that are reserved for bridges.
    pub forwards_bpdu: bool,
    /// Bonds, if there are any.
    pub bonds: Option<Arc<Bonding>>,
    /// There may be tunnel ports, whose descriptors are laid out by this map.
    pub tunnels: Option<Arc<OptionMap>>,
    /// Services own addresses that are answered for.
    pub answers: bool,
}

impl Extras {
    /// NORMAL asks for the port's VLANs; it does beside mirrors, too, whose ports are theirs alone.
    pub fn has_vlans(&self) -> bool {
        self.vlans
            || !self.mirrors.is_empty()
            || !self.flood_vlans.is_empty()
            || self.bonds.is_some()
    }

    /// VLAN tags that the parser takes.
    pub(crate) fn vlan_parsed(&self) -> u32 {
        self.vlan_limit.map_or(VLAN_PARSED, |limit| u32::from(limit).clamp(1, VLAN_PARSED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_say_of_each_id_what_was_said() {
        let sets: [Vec<u16>; 5] = [
            vec![],
            vec![10, 20],
            (1..2000).collect(),
            (0..4096).filter(|v| v % 3 == 0).collect(),
            (0..4095).collect(),
        ];
        for set in sets {
            let set: VlanSet = set.into_iter().collect();
            let blocks = cover(|vlan| set.contains(vlan));
            for vlan in 0..4096 {
                let of = blocks.iter().find(|((value, mask), _)| vlan & mask == *value).unwrap().1;
                assert_eq!(of, set.contains(vlan), "{vlan}");
            }
        }
        assert_eq!(cover(|_| 1), [((0, 0), 1)]);
        assert_eq!(cover(|v| v == 10).len(), 2);
        assert!(cover(|v| (1..2000).contains(&v)).len() < 20);
    }

    #[test]
    fn a_native_vlan_may_always_pass_and_vlan_0_never_beside_it() {
        let set = |vlans: &[u16]| Some(vlans.iter().copied().collect());
        let port = |mode, vlans| PortVlans { mode, vlans, priority_tags: PriorityTags::Never };
        let native = port(VlanMode::NativeUntagged(10), set(&[0, 20]));
        assert_eq!(native.incoming(0), Some(Incoming::Native(10)));
        assert_eq!(native.incoming(10), Some(Incoming::Pass));
        assert_eq!(native.incoming(30), None);
        assert!(native.includes(10, 0) && native.includes(20, 7) && !native.includes(0, 0));
        let access = PortVlans::access(10);
        assert_eq!((access.incoming(0), access.incoming(10)), (Some(Incoming::Access(10)), None));
        assert!(access.includes(10, 0) && !access.includes(10, 20) && !access.includes(0, 0));
        let tunnel = port(VlanMode::Tunnel { vlan: 100, tag_type: TagType::Service }, set(&[5]));
        assert_eq!(
            (tunnel.incoming(5), tunnel.incoming(6)),
            (Some(Incoming::Tunnel(100, 0x88a8)), None)
        );
        assert!(tunnel.includes(100, 5) && !tunnel.includes(100, 6));
        assert_eq!(PortVlans::trunk([10]).incoming(0), None);
    }

    #[test]
    fn packets_of_protected_ports_reach_the_others() {
        let set: PortSet = [2, 3].into_iter().collect();
        let reaches = Reaches::of([1, 2, 3].into_iter(), |port| set.contains(port));
        assert_eq!(reaches, Reaches { open: Reach::Several, protected: Reach::Only(1) });
        let reaches = Reaches::of([2].into_iter(), |port| set.contains(port));
        assert_eq!(reaches, Reaches { open: Reach::Only(2), protected: Reach::None });
    }
}
