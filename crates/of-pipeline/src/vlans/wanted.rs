//! What tables and groups hold for a configuration, and the ports that are there.

use super::bonds::{BondConfig, Hashes};
use super::{MirrorTarget, NormalConfig};
use crate::ports::Ports;
use ir::{ActionCall, Expr, GroupId, KeyMatch, TableId};
use of_lower::Layout;
use of_lower::layout::{bond_of_bundle, group_of_flood, group_of_mirror};
use of_lower::normal::config::{
    Block, Extras, Incoming, Mirror, MirrorTo, PortVlans, Reaches, cover,
};
use of_lower::normal::ids::{flood_matches, in_matches};
use of_lower::normal::port_set::PortSet;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) table: TableId,
    pub(super) matches: Box<[KeyMatch]>,
    pub(super) priority: i32,
    pub(super) action: ActionCall,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) buckets: Vec<ActionCall>,
    /// Not all of them run but one, by a hash; they are the slots of the bond at this place.
    pub(super) slots: Option<(u32, Arc<[Expr]>)>,
}

/// All of it.
pub(super) struct Wanted {
    pub(super) rows: Vec<Row>,
    pub(super) groups: BTreeMap<GroupId, Group>,
}

/// VLANs of a port, or of a bond, whose members have the same, if it is no trunk of all.
fn vlans(config: &NormalConfig, bundle: u32) -> Option<&PortVlans> {
    let port = config.bond(bundle).and_then(|bond| bond.members.keys().next().copied());
    config.ports.get(&port.unwrap_or(bundle))
}

/// The program's part of a configuration.
pub(super) fn extras(config: &NormalConfig, ports: &Ports, first_egress: Option<u8>) -> Extras {
    let same = |to: MirrorTarget| {
        let bits = config.mirrors.iter().enumerate();
        bits.filter(|(_, other)| other.to == to).fold(0, |all, (bit, _)| all | 1 << bit)
    };
    let protected: PortSet = config.protected.iter().copied().collect();
    let reaches = |ports: Vec<u32>| Reaches::of(ports.into_iter(), |port| protected.contains(port));
    let mirrors = config.mirrors.iter().map(|mirror| {
        let own = MirrorTarget::Port;
        let selected = |port: &u32| {
            mirror.to != own(*port)
                && mirror.destinations.as_ref().is_none_or(|ports| ports.contains(port))
        };
        Mirror {
            destinations: mirror
                .destinations
                .as_ref()
                .map(|ports| ports.iter().copied().filter(selected).collect()),
            vlans: mirror.vlans.clone(),
            to: match mirror.to {
                MirrorTarget::Port(port) => MirrorTo::Port(port, vlans(config, port).cloned()),
                MirrorTarget::Vlan(vlan) => MirrorTo::Vlan(vlan),
            },
            length_max: mirror.length_max,
            same: same(mirror.to),
            flood: reaches(ports.flooding().filter(selected).collect()),
            all: reaches(ports.numbers().filter(selected).collect()),
        }
    });
    let mirrors = mirrors.collect();
    Extras {
        first_egress,
        vlan_limit: config.vlan_limit,
        vlans: config.has_tables(),
        mirrors,
        protected,
        flood_vlans: config.flood_vlans.clone(),
        forwards_bpdu: config.forwards_bpdu,
        bonds: config.bonding(),
        tunnels: None,
        answers: false,
    }
}

impl Wanted {
    /// For the program that has this layout.
    pub(super) fn of(
        config: &NormalConfig,
        ports: &Ports,
        layout: &Layout,
        hashes: &mut Hashes,
    ) -> Wanted {
        let mut wanted = Wanted { rows: Vec::new(), groups: BTreeMap::new() };
        if !config.has_tables() {
            return wanted;
        }
        wanted.comes(config, ports, layout);
        wanted.mirrored(config, ports, layout);
        wanted.floods(config, ports, layout);
        wanted.bonds(config, layout, hashes);
        hashes.keep(&config.bonds);
        wanted
    }

    /// Bonds whose slots are counted, with how many there are.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, usize)> {
        let counted = |group: &Group| Some((group.slots.as_ref()?.0, group.buckets.len()));
        self.groups.values().filter_map(counted).collect::<Vec<_>>().into_iter()
    }

    /// Blocks of VLANs become rows; the last one, of all, gives way.
    fn blocks(&mut self, table: TableId, port: u32, blocks: Vec<(Block, Option<ActionCall>)>) {
        for (block, action) in blocks {
            let Some(action) = action else { continue };
            let (matches, priority) = (in_matches(port, block), i32::from(block.1 != 0));
            self.rows.push(Row { table, matches, priority, action });
        }
    }

    fn comes(&mut self, config: &NormalConfig, ports: &Ports, layout: &Layout) {
        let Some(table) = layout.vlans.normal_in else { return };
        // A port that is still to come is asked for its VLANs from its first packet on.
        let configured = config.ports.keys().copied();
        let all: BTreeSet<u32> = ports.numbers().chain(configured).collect();
        for port in all {
            let blocks = match vlans(config, port) {
                _ if config.is_mirrors(port) => {
                    vec![((0, 0), Some(layout.vlans.comes_from_mirror()))]
                }
                None => continue,
                Some(vlans) => {
                    let call = |how| Some(layout.vlans.comes(how));
                    let blocks = cover(|vid| vlans.incoming(vid)).into_iter();
                    blocks.map(|(block, how)| (block, call(how))).collect()
                }
            };
            self.blocks(table, port, blocks);
        }
    }

    fn mirrored(&mut self, config: &NormalConfig, ports: &Ports, layout: &Layout) {
        let Some(table) = layout.vlans.mirror_src else { return };
        for port in ports.numbers().filter(|port| !config.is_mirrors(*port)) {
            let vlans = vlans(config, port);
            let of = |vid: u16| {
                let how = match vlans {
                    None => Incoming::Pass,
                    Some(vlans) => vlans.incoming(vid)?,
                };
                let (mut copies, mut seen) = (0_u32, 0_u32);
                for (bit, mirror) in config.mirrors.iter().enumerate() {
                    let port = mirror.sources.as_ref().is_none_or(|ports| ports.contains(&port));
                    let vlan = mirror.vlans.as_ref();
                    let vlan = vlan.is_none_or(|vlans| vlans.contains(how.vlan(vid)));
                    if port && vlan && seen >> bit & 1 == 0 {
                        copies |= 1 << bit;
                        for (other, same) in config.mirrors.iter().enumerate() {
                            seen |= u32::from(same.to == mirror.to) << other;
                        }
                    }
                }
                (copies != 0).then_some((how, copies, seen))
            };
            let blocks = cover(of).into_iter().map(|((value, mask), what)| {
                let call = match what {
                    Some((how, copies, seen)) => Some(layout.vlans.mirrored(how, copies, seen)),
                    // Beside a block of all that is mirrored.
                    None => (mask != 0).then(|| ActionCall::new(layout.known)),
                };
                ((value, mask), call)
            });
            self.blocks(table, port, blocks.collect());
        }
    }

    fn floods(&mut self, config: &NormalConfig, ports: &Ports, layout: &Layout) {
        let Some(table) = layout.vlans.normal_flood else { return };
        let ours = |port: &u32| !config.is_mirrors(*port);
        let mut floods =
            Floods { config, layout, table, everywhere: Vec::new(), classes: HashMap::new() };
        // Of each VLAN the ports that are no trunks of all.
        let mut by_vlan: Vec<Vec<u32>> = vec![Vec::new(); 4096];
        let exists = |port| ports.contains(port);
        for port in config.bundles(ports.flooding().filter(ours), exists) {
            match vlans(config, port) {
                None => floods.everywhere.push(port),
                Some(vlans) => {
                    for vlan in 0..4096_u16 {
                        if vlans.includes(vlan, 0) || vlans.looks_inside(vlan) {
                            by_vlan[usize::from(vlan)].push(port);
                        }
                    }
                }
            }
        }
        // VLANs with the same ports are one block, unless who is reached depends on the inner one.
        let plain: Vec<Option<&Vec<u32>>> = (0_u16..4096)
            .map(|vlan| {
                let of = &by_vlan[usize::from(vlan)];
                let looks = of
                    .iter()
                    .any(|port| vlans(config, *port).is_some_and(|vlans| vlans.looks_inside(vlan)));
                (!looks).then_some(of)
            })
            .collect();
        for (block, of) in cover(|vlan| plain[usize::from(vlan)]) {
            if let Some(of) = of {
                floods.flood(self, block, (0, 0), of);
            }
        }
        for vlan in (0_u16..4096).filter(|vlan| plain[usize::from(*vlan)].is_none()) {
            let of = &by_vlan[usize::from(vlan)];
            let reached = |inner: u16| -> Vec<u32> {
                let reached = |port: &u32| {
                    vlans(config, *port).is_some_and(|vlans| vlans.includes(vlan, inner))
                };
                of.iter().copied().filter(reached).collect()
            };
            let lists = of.iter().filter_map(|port| vlans(config, *port));
            let lists =
                lists.into_iter().any(|vlans| vlans.looks_inside(vlan) && vlans.vlans.is_some());
            let blocks = match lists {
                true => cover(reached),
                // Only whether there is one is of interest.
                false => vec![((0, 0xfff), reached(0)), ((0, 0), reached(1))],
            };
            for (inner, of) in blocks {
                floods.flood(self, (vlan, 0xfff), inner, &of);
            }
        }
        for (number, mirror) in config.mirrors.iter().enumerate() {
            let MirrorTarget::Vlan(vlan) = mirror.to else { continue };
            let member =
                |port: &u32| vlans(config, *port).is_none_or(|vlans| vlans.includes(vlan, 0));
            let members = config.bundles(ports.numbers().filter(ours), exists);
            let members = members.into_iter().filter(member);
            let bucket = |port| match bond_of_bundle(port) {
                Some(_) => layout.vlans.bonds.station(port),
                None => layout.vlans.copy(port, vlans(config, port)),
            };
            let group = Group { buckets: members.map(bucket).collect(), slots: None };
            self.groups.insert(group_of_mirror(number), group);
        }
    }
}

/// Classes of packets by the ports that they are flooded to.
struct Floods<'a> {
    config: &'a NormalConfig,
    layout: &'a Layout,
    table: TableId,
    /// Ports that packets of all VLANs are flooded to.
    everywhere: Vec<u32>,
    /// By the other ports.
    classes: HashMap<Vec<u32>, u32>,
}

impl Floods<'_> {
    /// Packets of these VLANs are flooded to these ports, and to those that all packets are.
    fn flood(&mut self, wanted: &mut Wanted, vlan: Block, inner: Block, others: &[u32]) {
        let number = self.classes.len() as u32;
        let fresh = !self.classes.contains_key(others);
        let class = *self.classes.entry(others.to_vec()).or_insert(number);
        let group = group_of_flood(class);
        let members = || self.everywhere.iter().chain(others).copied();
        if fresh {
            let config = self.config;
            let bucket = |port| match bond_of_bundle(port) {
                Some(_) => self.layout.vlans.bonds.bucket(port, class),
                None => self.layout.vlans.bucket(port, class, vlans(config, port)),
            };
            let buckets = &mut wanted.groups.entry(group).or_default().buckets;
            buckets.extend(members().map(bucket));
        }
        let reach = self.config.mirrors.iter().map(|mirror| {
            let selected = |bundle: &u32| {
                let ports = self.config.ports_of(*bundle);
                let all = mirror.destinations.as_ref();
                // Nothing leaves by a bond that is down, so there is nothing to see.
                let leaves = self.config.bond(*bundle).is_none_or(BondConfig::is_up);
                leaves && all.is_none_or(|all| ports.iter().any(|port| all.contains(port)))
            };
            let protected = &self.layout.headers.protected;
            Reaches::of(members().filter(selected), |bundle| {
                self.config.ports_of(bundle).iter().any(|port| protected.contains(*port))
            })
        });
        let reach: Vec<Reaches> = reach.collect();
        wanted.rows.push(Row {
            table: self.table,
            matches: flood_matches(vlan, inner),
            priority: i32::from(vlan.1 != 0) + i32::from(inner.1 != 0),
            action: self.layout.vlans.flood(
                group,
                class,
                &reach,
                !self.config.protected.is_empty(),
            ),
        });
    }
}
