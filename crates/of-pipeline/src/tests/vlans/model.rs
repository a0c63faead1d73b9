//! What NORMAL and mirrors do to a packet's tags, told again without a program: the behaviour of Open vSwitch's
//! `xlate_normal` and `mirror_packet`, in a few lines.

use crate::vlans::{MirrorTarget, NormalConfig};
use of_lower::normal::config::{PortVlans, PriorityTags, VlanMode};
use std::collections::BTreeMap;

/// A tag: type, VLAN, priority.
pub(super) type Tag = (u16, u16, u8);

/// A frame's addresses and tags; behind them comes the same for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tagged {
    pub(super) dst: [u8; 6],
    pub(super) src: [u8; 6],
    pub(super) tags: Vec<Tag>,
}

impl Tagged {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.dst, self.src].concat();
        for (tpid, vid, pcp) in &self.tags {
            bytes.extend(tpid.to_be_bytes());
            bytes.extend((vid | u16::from(*pcp) << 13).to_be_bytes());
        }
        bytes.extend(0x88b5_u16.to_be_bytes());
        bytes.extend([7; 60]);
        bytes
    }
}

/// The VLAN of a list of tags.
fn vid(tags: &[Tag]) -> u16 {
    tags.first().map_or(0, |tag| tag.1)
}

fn allowed(port: Option<&PortVlans>, vid: u16) -> bool {
    port.is_none_or(|port| port.incoming(vid).is_some())
}

/// The tags of the packet in its VLAN, and how many of them are looked at.
fn comes(port: Option<&PortVlans>, tags: &[Tag], limit: u8) -> (Vec<Tag>, usize) {
    let mut tags = tags.to_vec();
    let limit = usize::from(limit);
    let mut looked = limit.min(tags.len());
    let Some(port) = port else { return (tags, looked) };
    let first = tags.first().copied().unwrap_or((0x8100, 0, 0));
    match port.mode {
        VlanMode::Access(vlan) => {
            tags.splice(..looked, [(first.0, vlan, first.2)]);
            looked = limit.min(tags.len());
            if limit == 1 {
                looked = 1;
            }
        }
        VlanMode::NativeTagged(vlan) | VlanMode::NativeUntagged(vlan) if first.1 == 0 => {
            let one = tags.len().min(1);
            tags.splice(..one, [(first.0, vlan, first.2)]);
            looked = looked.max(1);
        }
        VlanMode::Tunnel { vlan, tag_type } => {
            tags.insert(0, (tag_type.ether_type(), vlan, 0));
            looked = 2.min(looked + 1);
        }
        _ => {}
    }
    (tags, looked)
}

/// The tags that it leaves with.
fn leaves(port: Option<&PortVlans>, (tags, mut looked): (&[Tag], usize), pcp: u8) -> Vec<Tag> {
    let mut tags = tags.to_vec();
    let Some(port) = port else { return tags };
    match port.mode {
        VlanMode::Access(_) => {
            tags.drain(..looked);
            looked = 0;
        }
        VlanMode::NativeUntagged(vlan) if vid(&tags) != vlan || tags.is_empty() => {}
        VlanMode::NativeUntagged(_) | VlanMode::Tunnel { .. } if !tags.is_empty() => {
            tags.remove(0);
            looked = looked.saturating_sub(1);
        }
        _ => {}
    }
    if port.priority_tags != PriorityTags::Never {
        match tags.first_mut() {
            Some(tag) if looked > 0 => tag.2 = pcp,
            _ if pcp != 0 => {
                tags.insert(0, (0x8100, 0, pcp));
                looked += 1;
            }
            _ => {}
        }
    }
    if port.priority_tags != PriorityTags::Always
        && looked > 0
        && tags.first().is_some_and(|tag| (tag.1, tag.2) == (0, 0))
    {
        tags.remove(0);
    }
    tags
}

/// All that is sent of a frame that comes in, by port; `known` is where its destination is.
pub(super) fn normal(
    config: &NormalConfig,
    ports: u32,
    in_port: u32,
    frame: &Tagged,
    known: impl Fn(u16) -> Option<u32>,
) -> BTreeMap<u32, Vec<Tagged>> {
    let mut out: BTreeMap<u32, Vec<Tagged>> = BTreeMap::new();
    let limit = config.vlan_limit.map_or(2, |limit| limit.min(2));
    let of = |port: u32| config.ports.get(&port);
    let priority = |tags: &[Tag]| tags.first().map_or(0, |tag| tag.2);
    let withheld =
        |port: u32| config.protected.contains(&in_port) && config.protected.contains(&port);
    let mut send = |port: u32, tags: &[Tag], looked: usize, pcp: u8| {
        if withheld(port) {
            return;
        }
        let tags = leaves(of(port), (tags, looked), pcp);
        out.entry(port).or_default().push(Tagged { tags, ..frame.clone() });
    };
    if !allowed(of(in_port), vid(&frame.tags)) {
        return out;
    }
    let (tags, looked) = comes(of(in_port), &frame.tags, limit);
    let inner = match limit {
        1 if looked < 2 => 0,
        _ => tags.get(1).map_or(0, |tag| tag.1),
    };
    let includes = |port: u32, vlan: u16| of(port).is_none_or(|of| of.includes(vlan, inner));
    let mut mirrored: Vec<MirrorTarget> = Vec::new();
    let mut sent = Vec::new();
    let reserved = frame.dst[..5] == [1, 0x80, 0xc2, 0, 0] && frame.dst[5] < 16;
    if !config.is_mirrors(in_port) && (!reserved || config.forwards_bpdu) {
        match known(vid(&tags)).filter(|_| !config.flood_vlans.contains(vid(&tags))) {
            Some(port) => sent.extend((port != in_port && !withheld(port)).then_some(port)),
            None => sent.extend((1..=ports).filter(|port| {
                *port != in_port
                    && includes(*port, vid(&tags))
                    && !config.is_mirrors(*port)
                    && !withheld(*port)
            })),
        }
    }
    for mirror in &config.mirrors {
        let own = |port: u32| mirror.to == MirrorTarget::Port(port);
        let source = !config.is_mirrors(in_port)
            && mirror.sources.as_ref().is_none_or(|ports| ports.contains(&in_port));
        let leaves = sent.iter().any(|port| {
            !own(*port) && mirror.destinations.as_ref().is_none_or(|ports| ports.contains(port))
        });
        let vlan = mirror.vlans.as_ref().is_none_or(|vlans| vlans.contains(vid(&tags)));
        if !(source || leaves) || !vlan || mirrored.contains(&mirror.to) {
            continue;
        }
        mirrored.push(mirror.to);
        let pcp = if source { priority(&frame.tags) } else { priority(&tags) };
        match mirror.to {
            MirrorTarget::Port(port) => send(port, &tags, looked, pcp),
            MirrorTarget::Vlan(vlan) if vid(&tags) != vlan && !reserved => {
                let mut tags = tags.clone();
                match tags.first_mut() {
                    Some(tag) => tag.1 = vlan,
                    None => tags.push((0x8100, vlan, 0)),
                }
                let member = |port: &u32| {
                    !config.is_mirrors(*port) && of(*port).is_none_or(|of| of.includes(vlan, 0))
                };
                (1..=ports).filter(member).for_each(|port| send(port, &tags, looked.max(1), pcp));
            }
            MirrorTarget::Vlan(_) => {}
        }
    }
    sent.into_iter().for_each(|port| send(port, &tags, looked, priority(&frame.tags)));
    out
}
