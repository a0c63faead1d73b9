//! The tables and actions of NORMAL's VLANs and of mirrors, which are the same in every program.

use super::config::{Extras, Incoming, PortVlans, Reach};
use super::edits::{self, In, Out};
use super::mirror;
use crate::headers::Headers;
use crate::ops;
use ir::builder::Builder;
use ir::{
    ActionCall, ActionId, Bits, DropReason, Expr, FieldRef, Key, KeyMatch, MatchKind, Op, Pattern,
    Table, TableId,
};
use std::sync::Arc;

/// Ids of what is there for VLANs and mirrors. Bodies are there in programs that have them; tables, too.
#[derive(Clone, Debug)]
pub struct VlanIds {
    /// How a packet comes in: (ingress port, VLAN of its tag), under a mask.
    pub normal_in: Option<TableId>,
    /// Where it is flooded to: (VLAN, inner VLAN), under masks.
    pub normal_flood: Option<TableId>,
    /// Who mirrors it as it comes in: the columns of `normal_in`.
    pub mirror_src: Option<TableId>,
    not_allowed: ActionId,
    mirror_port: ActionId,
    comes: [ActionId; 3],
    /// To a known port, by [`Out`] and priority tags.
    to: [[ActionId; 3]; 4],
    flood_plain: ActionId,
    flood_by: [[ActionId; 3]; 4],
    flood: ActionId,
    copy_plain: ActionId,
    copy_by: [[ActionId; 3]; 4],
    mirrors: [ActionId; 4],
    known: ActionId,
    output: ActionId,
}

const KINDS: [In; 3] = [In::Access, In::Native, In::Tunnel];
const TAGS: [&str; 3] = ["", "_priority", "_tagged"];

fn set(meta: ir::MetaId, value: Expr) -> Op {
    Op::Assign(FieldRef::Meta(meta), value)
}

/// A copy of the packet to a port, with the tags that it leaves with.
fn leave(h: &Headers, to: Expr, tags: Vec<Op>) -> Vec<Op> {
    let mut ops = if h.egress.is_none() { mirror::leaving(h, &to) } else { Vec::new() };
    ops.extend(tags);
    ops.push(ops::send_unmirrored(to, h));
    ops
}

impl VlanIds {
    /// Declares the actions. Where the program has no VLANs they do nothing, and are there for their ids.
    pub(crate) fn declare(
        b: &mut Builder,
        h: &Headers,
        extras: &Extras,
        known: ActionId,
        output: ActionId,
    ) -> VlanIds {
        let vlans = extras.tags().is_some();
        let mut action = |name: &str, params: &[(&str, u32)], body: &dyn Fn() -> Vec<Op>| {
            let body = if vlans { body() } else { Vec::new() };
            b.action(name, params, body)
        };
        let drop = |reason| move || vec![Op::Drop(reason)];
        let not_allowed = action("vlan_not_allowed", &[], &drop(DropReason::VlanNotAllowed));
        let mirror_port = action("from_mirror_port", &[], &drop(DropReason::MirrorPort));
        let param = Expr::Param;
        let comes = KINDS.map(|kind| {
            let name = format!("comes_{kind:?}").to_lowercase();
            let body = || edits::incoming(h, kind, param(0), param(1));
            action(&name, &[("vlan", 12), ("type", 16)], &body)
        });
        let ways = |prefix: &str, f: &mut dyn FnMut(&str, Out, usize) -> ActionId| {
            Out::ALL.map(|out| {
                [0, 1, 2].map(|tags| {
                    let name = format!("{prefix}_{out:?}{}", TAGS[tags]).to_lowercase();
                    f(&name, out, tags)
                })
            })
        };
        let suppressed = || vec![set(h.suppressed, Expr::bool(true))];
        let to = ways("to", &mut |name, out, tags| {
            action(name, &[("port", 32), ("vlan", 12)], &|| {
                vec![Op::If {
                    condition: param(0).ne(h.in_port()),
                    then: leave(h, param(0), edits::outgoing(h, out, Out::TAGS[tags], &param(1))),
                    or_else: suppressed(),
                }]
            })
        });
        // Of the classes that share a group, a packet is of one.
        let bucket = |tags: Vec<Op>| {
            let sent = vec![Op::If {
                condition: param(0).ne(h.in_port()),
                then: leave(h, param(0), tags),
                or_else: suppressed(),
            }];
            vec![ops::when(Expr::meta(h.flood_class).eq(param(1)), sent)]
        };
        let params = [("port", 32), ("class", 32), ("vlan", 12)];
        let flood_plain = action("flood_plain", &params, &|| bucket(Vec::new()));
        let flood_by = ways("flood", &mut |name, out, tags| {
            action(name, &params, &|| bucket(edits::outgoing(h, out, Out::TAGS[tags], &param(2))))
        });
        // A mirror's copies are not mirrored, and go back by their ingress port, too.
        let copied = |mut tags: Vec<Op>| {
            tags.push(Op::Output { port: param(0) });
            tags
        };
        let params = [("port", 32), ("vlan", 12)];
        let copy_plain = action("copy_plain", &params, &|| copied(Vec::new()));
        let copy_by = ways("copy", &mut |name, out, tags| {
            action(name, &params, &|| copied(edits::outgoing(h, out, Out::TAGS[tags], &param(1))))
        });
        let names: Vec<String> = (0..extras.mirrors.len()).map(|i| format!("reach{i}")).collect();
        let mut params = vec![("group", 32), ("class", 32)];
        params.extend(names.iter().map(|name| (name.as_str(), 32)));
        let flood = action("flood_vlan", &params, &|| {
            let mut ops = mirror::flooded_by_normal(h, 2);
            ops.push(set(h.flood_class, param(1)));
            ops.push(Op::Group { group: param(0) });
            ops
        });
        let params = [("mirrors", 32), ("seen", 32), ("vlan", 12), ("type", 16)];
        let mirrors = [None, Some(In::Access), Some(In::Native), Some(In::Tunnel)].map(|kind| {
            let name = kind.map_or("plain".to_owned(), |kind| format!("{kind:?}")).to_lowercase();
            action(&format!("mirror_{name}"), &params, &|| {
                let edits = kind.map(|kind| edits::incoming(h, kind, param(2), param(3)));
                mirror::coming(h, &param(0), param(1), &edits.unwrap_or_default())
            })
        });
        VlanIds {
            normal_in: None,
            normal_flood: None,
            mirror_src: None,
            not_allowed,
            mirror_port,
            comes,
            to,
            flood_plain,
            flood_by,
            flood,
            copy_plain,
            copy_by,
            mirrors,
            known,
            output,
        }
    }

    /// Declares the tables that the program has, behind all others.
    pub(crate) fn declare_tables(&mut self, b: &mut Builder, h: &Headers, extras: &Extras) {
        let key =
            |name: &str, expr: Expr, kind, width| Key { name: name.into(), expr, kind, width };
        let vid = || Expr::Field(h.vlan_vid);
        let inner = Expr::Field(Headers::nth(h.vlan_vid, 1));
        // Where one tag is looked at, that and a tunnel's are.
        let inner = match h.vlan_tags {
            1 => {
                let none = Box::new(Expr::int(0, 12));
                Expr::Mux(Box::new(Expr::meta(h.tag_pushed)), Box::new(inner), none)
            }
            _ => inner,
        };
        let by_port = vec![
            key("in_port", h.in_port(), MatchKind::Exact, 32),
            key("vlan", vid(), MatchKind::Ternary, 12),
        ];
        let by_vlan = vec![
            key("vlan", vid(), MatchKind::Ternary, 12),
            key("inner", inner, MatchKind::Ternary, 12),
        ];
        let mut table = |name: &str, key: &[Key], mut actions: Vec<ActionId>, known: ActionId| {
            actions.push(known);
            b.table(Table {
                name: name.to_string(),
                key: Arc::from(key.to_vec()),
                actions: Some(actions),
                default: ActionCall::new(known),
                default_const: true,
                capacity: 1 << 20,
                counters: false,
            })
        };
        if extras.tags().is_some() {
            let mut actions = vec![self.not_allowed, self.mirror_port];
            actions.extend(self.comes);
            self.normal_in = Some(table("normal_in", &by_port, actions, self.known));
            self.normal_flood = Some(table("normal_flood", &by_vlan, vec![self.flood], self.known));
        }
        if !extras.mirrors.is_empty() {
            self.mirror_src =
                Some(table("mirror_src", &by_port, self.mirrors.to_vec(), self.known));
        }
    }

    /// What a table of known stations may do.
    pub(crate) fn station_actions(&self) -> impl Iterator<Item = ActionId> {
        self.to.into_iter().flatten()
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

    /// What floods packets: the group, their class in it, and for each mirror the ports that it selects.
    pub fn flood(&self, group: ir::GroupId, class: u32, reach: &[Reach]) -> ActionCall {
        let mut args = vec![bits(group.0, 32), bits(class, 32)];
        args.extend(reach.iter().map(|reach| bits(reach.number(), 32)));
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
fn masked(key: u16, (value, mask): super::config::Block) -> Option<KeyMatch> {
    let pattern = Pattern::Masked(bits(value.into(), 12), bits(mask.into(), 12));
    (mask != 0).then_some(KeyMatch { key, pattern })
}

/// Patterns of `normal_in` and `mirror_src`.
pub fn in_matches(port: u32, vlans: super::config::Block) -> Box<[KeyMatch]> {
    let port = KeyMatch { key: 0, pattern: Pattern::Exact(bits(port, 32)) };
    [port].into_iter().chain(masked(1, vlans)).collect()
}

/// Patterns of `normal_flood`.
pub fn flood_matches(vlan: super::config::Block, inner: super::config::Block) -> Box<[KeyMatch]> {
    masked(0, vlan).into_iter().chain(masked(1, inner)).collect()
}
