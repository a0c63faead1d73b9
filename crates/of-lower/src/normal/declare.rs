//! The actions and tables of NORMAL's VLANs and of mirrors, declared.

use super::bond::BondIds;
use super::config::Extras;
use super::edits::{self, In, Out};
use super::ids::VlanIds;
use super::mirror;
use super::protected::unless_protected;
use crate::headers::Headers;
use crate::ops;
use crate::tunnel;
use ir::builder::Builder;
use ir::{ActionCall, ActionId, DropReason, Expr, FieldRef, Key, MatchKind, Op, Table};
use std::sync::Arc;

const KINDS: [In; 3] = [In::Access, In::Native, In::Tunnel];
const TAGS: [&str; 3] = ["", "_priority", "_tagged"];

fn set(meta: ir::MetaId, value: Expr) -> Op {
    Op::Assign(FieldRef::Meta(meta), value)
}

/// A copy of the packet to a port, with the tags that it leaves with.
fn leave(h: &Headers, to: Expr, tags: Vec<Op>) -> Vec<Op> {
    let direct = h.egress.is_none();
    let mut ops = if direct { mirror::leaving(h, &to) } else { Vec::new() };
    ops.extend(tags);
    ops.extend(ops::send_unmirrored(to.clone(), h));
    // With egress tables it is theirs to say where it goes.
    if direct { unless_protected(h, &to, ops) } else { ops }
}

impl VlanIds {
    /// Declares the actions. Where the program has no VLANs they do nothing, and are there for their ids.
    pub(crate) fn declare(
        b: &mut Builder,
        h: &Headers,
        extras: &Extras,
        (known, output): (ActionId, ActionId),
        learn: Op,
    ) -> VlanIds {
        let bonds = BondIds::declare(b, h, learn);
        let vlans = extras.has_vlans();
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
            tags.extend(tunnel::output(h, param(0)));
            unless_protected(h, &param(0), tags)
        };
        let params = [("port", 32), ("vlan", 12)];
        let copy_plain = action("copy_plain", &params, &|| copied(Vec::new()));
        let copy_by = ways("copy", &mut |name, out, tags| {
            action(name, &params, &|| copied(edits::outgoing(h, out, Out::TAGS[tags], &param(1))))
        });
        // For packets of protected ports other ports are reached.
        let each = if extras.protected.is_empty() { 1 } else { 2 };
        let names: Vec<String> =
            (0..each * extras.mirrors.len()).map(|i| format!("reach{i}")).collect();
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
            bonds,
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
        let by_port = vec![
            key("in_port", h.in_port(), MatchKind::Exact, 32),
            key("vlan", vid(), MatchKind::Ternary, 12),
        ];
        let by_vlan = vec![
            key("vlan", vid(), MatchKind::Ternary, 12),
            key("inner", inner, MatchKind::Ternary, 12),
        ];
        let table =
            |b: &mut Builder, name: &str, key: &[Key], mut actions: Vec<ActionId>, known| {
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
        if extras.has_vlans() {
            let mut actions = vec![self.not_allowed, self.mirror_port];
            actions.extend(self.comes);
            self.normal_in = Some(table(b, "normal_in", &by_port, actions, self.known));
            let flood = vec![self.flood];
            self.normal_flood = Some(table(b, "normal_flood", &by_vlan, flood, self.known));
        }
        let known = self.known;
        // Stations have entries there: its number does not depend on whether there are mirrors.
        self.bonds.declare_tables(b, h, known);
        if !extras.mirrors.is_empty() {
            self.mirror_src = Some(table(b, "mirror_src", &by_port, self.mirrors.to_vec(), known));
        }
    }
}
