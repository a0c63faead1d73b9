//! Tables: keys, actions, entries, and where they are applied.

use crate::ast::Direction;
use crate::hir::{self, Callee, Const, ExprKind, annotated, annotation_text};
use crate::lower::names::{
    ActionName, DefaultCounter, DirectMeter, GroupAction, KeyName, Selector, TableName,
    default_meter_of,
};
use crate::lower::operand::V;
use crate::lower::step::Step;
use crate::lower::{Lower, ObjectKind, Refused, Result, TableSite, expr::calls, join};
use crate::source::Span;
use crate::types::*;
use ir::program::{Key, MatchKind, Table};
use ir::{
    ActionId as IrAction, BinaryOp, Bits, Entry, EntryId, Expr, FieldRef, HashAlgorithm, KeyMatch,
    Op, Pattern,
};
use num_traits::ToPrimitive;

/// Entries of a table that says nothing of it.
const SIZE: u32 = 1024;

impl Lower<'_> {
    /// Looks a table up; `call` is its application.
    pub(in crate::lower) fn apply_table(
        &mut self,
        call: &hir::Expr,
        hit: Vec<Step>,
        miss: Vec<Step>,
        by_action: Vec<(Vec<ActionId>, Vec<Step>)>,
        span: Span,
    ) -> Result<()> {
        let ExprKind::Call(c) = &call.kind else { return Err(Refused) };
        let Callee::Table(t) = &c.callee else { return Err(Refused) };
        let site = self.table_site(*t)?;
        // Keys that are computed by calls, and those in front of them, are computed now.
        let hir_table = self.p.tables[t.index()].clone();
        for (i, k) in hir_table.keys.iter().enumerate() {
            if hir_table.keys[i..].iter().any(|k| calls(&k.expr))
                && let Some(home) = self.v1.key_homes.get(&(site, i)).cloned()
            {
                let v = self.expr(&k.expr)?;
                self.assign(&home, &v, span)?;
            }
        }
        let s = self.tables[site].clone();
        let mut by_action: Vec<(Vec<IrAction>, Vec<Step>)> = by_action
            .into_iter()
            .map(|(actions, steps)| {
                let own = s.actions.iter().filter(|(a, _)| actions.contains(a)).map(|(_, i)| *i);
                let own: Vec<IrAction> = own.collect();
                // A default that is counted is another action, and the same for the program.
                let counted = s.counted.iter().filter(|(a, _)| own.contains(a));
                let ids = own.iter().copied().chain(counted.map(|(_, c)| *c)).collect();
                (ids, steps)
            })
            .collect();
        let Some((selector, chosen)) = s.selector else {
            self.out.push(Step::Apply { table: s.id, hit, miss, by_action });
            return Ok(());
        };
        let members = selector.members;
        let mut groups: Vec<IrAction> = selector.actions().collect();
        let counted = s.counted.iter().filter(|(a, _)| groups.contains(a)).map(|(_, c)| *c);
        let counted: Vec<IrAction> = counted.collect();
        groups.extend(counted);
        // The member's action follows, of which an empty group has none.
        let member = |by_action| Step::Apply {
            table: members,
            hit: Vec::new(),
            miss: Vec::new(),
            by_action,
        };
        if hit.is_empty() && miss.is_empty() {
            let of_group = member(by_action.clone());
            by_action.push((groups, vec![of_group]));
        } else if by_action.is_empty() {
            // A group may be the default's as well as an entry's: the table says whether it was hit.
            self.op(Op::Assign(chosen, Expr::bool(false)));
            let behind = |rest: Vec<Step>| {
                let of_group = Step::If(Expr::Field(chosen), vec![member(Vec::new())], Vec::new());
                std::iter::once(of_group).chain(rest).collect()
            };
            let (hit, miss) = (behind(hit), behind(miss));
            self.out.push(Step::Apply { table: s.id, hit, miss, by_action });
            return Ok(());
        } else {
            // What else the actions lead to, the members' lead to as well; hit or miss is the same then.
            let lists = by_action.iter().map(|(_, s)| crate::lower::tree::weight(s)).sum::<u64>();
            self.spend(
                crate::lower::tree::weight(&hit) + crate::lower::tree::weight(&miss) + lists,
                span,
            )?;
            let (hit, miss) = (hit.clone(), miss.clone());
            let table = members;
            let member = Step::Apply { table, hit, miss, by_action: by_action.clone() };
            by_action.push((groups, vec![member]));
        }
        self.out.push(Step::Apply { table: s.id, hit, miss, by_action });
        Ok(())
    }

    pub(super) fn table_site(&mut self, t: TableId) -> Result<usize> {
        let key = (self.frame.path.clone(), t);
        if let Some(site) = self.v1.table_sites.get(&key) {
            return Ok(*site);
        }
        let table = self.p.tables[t.index()].clone();
        let own = annotation_text(&table.annotations, "name");
        let full = match own {
            Some(text) if text.starts_with('.') => text[1..].to_string(),
            Some(text) => join(&self.frame.path, text),
            None => join(&self.frame.path, &table.name),
        };
        let site = self.tables.len();
        let mut keys: Vec<Key> = Vec::new();
        let mut key_names = Vec::new();
        let mut columns = Vec::new();
        let mut selects: Vec<Expr> = Vec::new();
        let computed = |i: usize| table.keys[i..].iter().any(|k| calls(&k.expr));
        for (i, k) in table.keys.iter().enumerate() {
            let kind = match self.p.match_kinds.get(k.kind as usize).map(|n| &**n) {
                Some("exact") => MatchKind::Exact,
                Some("lpm") => MatchKind::Lpm,
                Some("ternary") => MatchKind::Ternary,
                Some("range") => MatchKind::Range,
                Some("optional") => MatchKind::Optional,
                Some("selector") => {
                    let v = if computed(i) {
                        let home = self.alloc(k.expr.ty, "tmp.key", k.expr.span)?;
                        self.v1.key_homes.insert((site, i), home.clone());
                        home
                    } else {
                        self.expr(&k.expr)?
                    };
                    selects.extend(self.flatten(&v, k.expr.span)?.into_iter().map(|(e, _)| e));
                    continue;
                }
                other => {
                    let text =
                        format!("the match kind `{}` is not supported", other.unwrap_or("?"));
                    return self.refuse(k.expr.span, text);
                }
            };
            let (expr, width) = if computed(i) {
                let home = self.alloc(k.expr.ty, "tmp.key", k.expr.span)?;
                self.v1.key_homes.insert((site, i), home.clone());
                self.read(&home, k.expr.span)?
            } else {
                self.scalar(&k.expr)?
            };
            if width == 0 {
                continue;
            }
            let name = annotation_text(&k.annotations, "name").unwrap_or(&k.text).to_string();
            let mut unique = name.clone();
            while keys.iter().any(|k| k.name == unique) {
                unique.push('_');
            }
            keys.push(Key { name: unique, expr, kind, width });
            key_names.push(KeyName { name, width, kind, source: i });
            columns.push(i);
        }
        let mut actions: Vec<(ActionId, IrAction)> = Vec::new();
        let mut names = Vec::new();
        for a in &table.actions {
            let (id, name) = self.table_action(a, t, &full)?;
            actions.push((a.action, id));
            names.push(ActionName {
                default_only: annotated(&a.annotations, "defaultonly"),
                group_only: annotated(&a.annotations, "groupaction"),
                ..name
            });
        }
        let mut default = match &table.default {
            Some(call) => self.action_call(call, &actions)?,
            None => ir::ActionCall::new(self.no_action()),
        };
        let size = match &table.size {
            Some(e) => self.scalar_constant(e)?,
            None => SIZE,
        };
        // One's own entries must fit.
        let capacity = if size == 0 { SIZE } else { size }.max(table.entries.len() as u32);
        let timeouts = match table.properties.iter().find(|p| &*p.name == "support_timeout") {
            None => false,
            Some(p) => match p.value.value {
                Some(Const::Bool(b)) => b,
                _ => return self.refuse(p.value.span, "`support_timeout` is true or false"),
            },
        };
        let counter = self.table_object(&table, "counters")?;
        let counter = counter.map(|o| self.objects[o].path.clone());
        let meter = self.table_object(&table, "meters")?;
        // An action that reads another meter than the table's finds green.
        for (name, (_, id)) in names.iter_mut().zip(&actions) {
            let asked = self.v1.metered.get(id).copied();
            name.asks_own = asked.is_some() && asked == meter;
        }
        let meter = meter.and_then(|o| match self.objects[o].kind {
            ObjectKind::DirectMeter(packets) => {
                Some(DirectMeter { name: self.objects[o].path.clone(), packets })
            }
            _ => None,
        });
        let profile = match self.table_object(&table, "implementation")? {
            Some(o) => match self.objects[o].kind {
                ObjectKind::Profile(n, hash) => Some((n, hash)),
                _ => None,
            },
            None => None,
        };
        let mut allowed: Vec<IrAction> = actions.iter().map(|(_, i)| *i).collect();
        allowed.sort();
        allowed.dedup();
        let selector = match profile {
            Some((_, Some(hash))) => {
                let groups = names.iter().filter(|a| a.group_only).map(|a| a.id).collect();
                Some(self.selector(&full, hash, selects, &allowed, groups)?)
            }
            _ => None,
        };
        if let (None, Some(a)) = (&selector, names.iter().find(|a| a.group_only)) {
            let text = format!(
                "`{}` is @groupaction, and the table has no action selector whose groups could have it",
                a.name
            );
            return self.refuse(table.span, text);
        }
        if selector.is_some() && meter.is_some() {
            return self.refuse(
                table.span,
                "a table with an action selector and a direct meter is not supported",
            );
        }
        allowed.extend(selector.iter().flat_map(|(s, _)| s.actions()));
        if let Some(name) = names.iter().find(|a| a.id == default.action && a.asks_own)
            && name.metered
        {
            let next = ir::TableId(self.b.program().tables.len() as u32);
            default.args.pop();
            default.args.push(Bits::from_u128(default_meter_of(next).0.into(), 32));
        }
        let default_counter = match counter {
            Some(_) => Some(self.default_counter(&full, &mut allowed, default.action)),
            None => None,
        };
        let counted = default_counter.as_ref().map_or_else(Vec::new, |c| c.actions.clone());
        if let Some((_, of_default)) = counted.iter().find(|(own, _)| *own == default.action) {
            default.action = *of_default;
        }
        let unique = self.unique(&full);
        let id = self.b.table(Table {
            name: unique,
            key: keys.clone().into(),
            actions: Some(allowed),
            default,
            default_const: table.default_const,
            capacity,
            // When a packet last matched is kept with the count of packets.
            counters: counter.is_some() || timeouts,
        });
        self.names.tables.push(TableName {
            name: full,
            id,
            source: Some(t),
            size,
            keys: key_names,
            actions: names,
            counter,
            default_counter,
            meter,
            profile: profile.map(|(n, _)| n),
            keyless: table.keys.is_empty(),
            selector: selector.as_ref().map(|(s, _)| s.clone()),
            entries_const: table.entries_const && !table.entries.is_empty(),
            timeouts,
        });
        if let Some((n, _)) = profile {
            self.names.profiles[n].tables.push(id);
        }
        self.tables.push(TableSite { id, actions, selector, counted });
        self.v1.table_sites.insert(key, site);
        self.frame.tables.insert(t, site);
        self.table_entries(site, &table, &keys, &columns)?;
        Ok(site)
    }

    /// What counts a table's default action: a cell, and for each action one that counts before it does the same.
    fn default_counter(
        &mut self,
        table: &str,
        allowed: &mut Vec<IrAction>,
        default: IrAction,
    ) -> DefaultCounter {
        let name = self.unique(&format!("v1.default.{table}"));
        let array = self.b.counter(&name, 1);
        if !allowed.contains(&default) {
            allowed.push(default);
        }
        let mut actions = Vec::new();
        for own in allowed.clone() {
            let of = self.b.program().actions[own.index()].clone();
            let params: Vec<(&str, u32)> =
                of.params.iter().map(|p| (p.name.as_str(), p.width)).collect();
            let count = Op::Count { counter: array, index: Expr::int(0, 32) };
            let body = std::iter::once(count).chain(of.body.iter().cloned()).collect();
            let name = self.unique(&format!("v1.default.{table}.{}", of.name));
            let counted = self.b.action(&name, &params, body);
            actions.push((own, counted));
        }
        allowed.extend(actions.iter().map(|(_, counted)| *counted));
        DefaultCounter { array, actions }
    }

    /// The object that a property of a table names.
    pub(super) fn table_object(
        &mut self,
        table: &hir::Table,
        property: &str,
    ) -> Result<Option<usize>> {
        let found = table.properties.iter().find(|p| &*p.name == property);
        let Some(found) = found else { return Ok(None) };
        // What is made in place is called as its `@name` says, outside of the control.
        let name = match annotation_text(&found.annotations, "name") {
            Some(name) => format!(".{}", name.trim_start_matches('.')),
            None => format!("{}_{property}", table.name),
        };
        match self.static_value(&found.value, &name)? {
            V::O(o) => Ok(Some(o)),
            _ => Ok(None),
        }
    }

    /// What leads from an entry with a group to one of the group's members: actions that keep the
    /// group and a place in it, which the packet's hash falls on or chance, and a table of places. Each of `groups` may come
    /// before that.
    pub(super) fn selector(
        &mut self,
        table: &str,
        algorithm: HashAlgorithm,
        inputs: Vec<Expr>,
        allowed: &[IrAction],
        groups: Vec<IrAction>,
    ) -> Result<(Selector, FieldRef)> {
        let (group, _) = self.temp("group", 32);
        let (place, _) = self.temp("place", 16);
        let (chosen, _) = self.temp("chosen", 1);
        let width = match algorithm {
            HashAlgorithm::Crc16 | HashAlgorithm::Csum16 | HashAlgorithm::Xor16 => 16,
            HashAlgorithm::Crc32 | HashAlgorithm::Crc32c => 32,
            HashAlgorithm::Crc(crc) => crc.width,
            HashAlgorithm::Identity => 64,
        };
        let steps = self.steps(|l| {
            l.op(Op::Assign(group, Expr::Param(0)));
            l.op(Op::Assign(chosen, Expr::bool(true)));
            if inputs.is_empty() {
                // Without keys to choose by, all packets get the group's first member.
                l.op(Op::Assign(place, Expr::int(0, 16)));
                return Ok(());
            }
            let hash = Expr::Hash { algorithm, width, inputs };
            let size = crate::lower::fold::cast(Expr::Param(1), 16, width, false);
            let (_, rest) = l.divide(hash, size, width);
            l.op(Op::Assign(place, crate::lower::fold::cast(rest, width, 16, false)));
            Ok(())
        })?;
        let by_hash = self.ops(steps)?;
        let last = crate::lower::fold::binary(BinaryOp::Sub, Expr::Param(1), Expr::int(1, 16));
        let at_random = vec![
            Op::Assign(group, Expr::Param(0)),
            Op::Assign(chosen, Expr::bool(true)),
            Op::Random { field: place, lo: Expr::int(0, 16), hi: last },
        ];
        let of_group = [("group", 32), ("size", 16)];
        let made = |l: &mut Self, word: &str, params: &[(&str, u32)], body: Vec<Op>| {
            let name = l.unique(&format!("v1.{word}.{table}"));
            l.b.action(&name, params, body)
        };
        let action = made(self, "group", &of_group, by_hash.clone());
        let random = made(self, "random", &of_group, at_random.clone());
        let mut before = Vec::new();
        for of in groups {
            let own = self.b.program().actions[of.index()].clone();
            let mut first = own.body.clone();
            let behind = &mut |e: &mut Expr| {
                if let Expr::Param(n) = e {
                    *n += of_group.len() as u32;
                }
            };
            first.iter_mut().for_each(|op| op.exprs_mut(behind));
            let own = own.params.iter().map(|p| (p.name.as_str(), p.width));
            let params: Vec<(&str, u32)> = of_group.into_iter().chain(own).collect();
            let both = |l: &mut Self, word: &str, then: &[Op]| {
                let body = first.iter().chain(then).cloned().collect();
                made(l, word, &params, body)
            };
            let action = both(self, "group", &by_hash);
            let random = both(self, "random", &at_random);
            before.push(GroupAction { of, action, random });
        }
        let mut members = allowed.to_vec();
        let nothing = self.no_action();
        if !members.contains(&nothing) {
            members.push(nothing);
        }
        let key = |name: &str, field, width| Key {
            name: name.into(),
            expr: Expr::Field(field),
            kind: MatchKind::Exact,
            width,
        };
        let name = self.unique(&format!("v1.members.{table}"));
        let members = self.b.table(Table {
            name,
            key: vec![key("group", group, 32), key("place", place, 16)].into(),
            actions: Some(members),
            default: ir::ActionCall::new(nothing),
            default_const: true,
            capacity: 1 << 20,
            counters: false,
        });
        Ok((Selector { action, random, before, members }, chosen))
    }

    pub(super) fn scalar_constant(&mut self, e: &hir::Expr) -> Result<u32> {
        let v = self.expr(e)?;
        Ok(match v {
            V::C(Const::Int(n)) => n.to_u32().unwrap_or(u32::MAX),
            V::E(Expr::Const(b), _) => {
                b.to_u128().and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX)
            }
            _ => 1024,
        })
    }

    pub(in crate::lower) fn no_action(&mut self) -> IrAction {
        if let Some(id) = self.v1.no_action {
            return id;
        }
        let name = self.unique("NoAction");
        let id = self.b.action(&name, &[], Vec::new());
        self.v1.no_action = Some(id);
        id
    }

    /// Where an action is, and its full name.
    pub(super) fn action_name(&self, id: ActionId) -> (String, String) {
        let action = &self.p.actions[id.index()];
        let mut bodies = self.p.applicables.iter().filter_map(|c| c.body.as_ref());
        let local = bodies.any(|b| b.actions.contains(&id));
        let path = if local { self.frame.path.clone() } else { String::new() };
        let full = match annotation_text(&action.annotations, "name") {
            Some(text) if text.starts_with('.') => text[1..].to_string(),
            Some(text) => join(&path, text),
            None => join(&path, &action.name),
        };
        (path, full)
    }

    /// An action as a table runs it.
    pub(super) fn table_action(
        &mut self,
        a: &hir::ActionCall,
        t: TableId,
        table: &str,
    ) -> Result<(IrAction, ActionName)> {
        let action = self.p.actions[a.action.index()].clone();
        let bound = action.params.iter().any(|p| p.direction != Direction::None);
        let (path, full) = self.action_name(a.action);
        let mut params: Vec<(String, u32)> = Vec::new();
        let mut values: Vec<(VarId, V)> = Vec::new();
        for p in action.params.iter().filter(|p| p.direction == Direction::None) {
            let v = self.param_value(p.ty, &p.name, &mut params, p.span)?;
            values.push((p.var, v));
        }
        let key =
            (path.clone(), a.action, if bound { Some((self.frame.path.clone(), t)) } else { None });
        let name = ActionName {
            name: full.clone(),
            id: IrAction(0),
            source: Some(a.action),
            params: params.clone(),
            default_only: false,
            group_only: false,
            metered: false,
            asks_own: false,
        };
        if let Some(id) = self.v1.actions.get(&key) {
            let metered = self.v1.metered.contains_key(id);
            return Ok((*id, ActionName { id: *id, metered, ..name }));
        }
        if action.params.is_empty() && action.body.is_empty() && &*action.name == "NoAction" {
            let id = self.no_action();
            self.v1.actions.insert(key, id);
            return Ok((id, ActionName { id, ..name }));
        }
        let old_params =
            std::mem::replace(&mut self.v1.params, params.iter().map(|p| p.1).collect());
        let old_asked = self.v1.asked.take();
        let old = (self.in_action, self.on_return.take(), self.on_exit);
        self.in_action = true;
        let label = self.label();
        self.on_return = Some((label, None));
        self.on_exit = Some(label);
        let mut frame = self.frame.clone();
        frame.vars.extend(values);
        let steps = self.steps(|l| {
            let mut back = Vec::new();
            for i in a.written() {
                let (Some(p), Some(Some(e))) = (action.params.get(i), a.args.get(i)) else {
                    continue;
                };
                if p.direction == Direction::None {
                    continue;
                }
                let v = l.expr(e)?;
                let v = l.cast_value(v, e.ty, p.ty, p.span)?;
                let v = if p.direction == Direction::In { v } else { l.freeze(v) };
                let home = l.alloc(p.ty, &format!("{full}.{}", p.name), p.span)?;
                if p.direction == Direction::Out {
                    l.clear(&home);
                } else {
                    l.assign(&home, &v, p.span)?;
                }
                if p.direction != Direction::In {
                    back.push((v, home.clone(), p.span));
                }
                frame.vars.insert(p.var, home);
            }
            let inner = l.framed(frame, |l| l.steps(|l| l.stmts(&action.body)))?;
            l.out.push(Step::Scope(label, inner));
            for (place, home, span) in back {
                l.assign(&place, &home, span)?;
            }
            Ok(())
        });
        let ops = match steps {
            Ok(steps) => self.ops(steps),
            Err(e) => Err(e),
        };
        (self.in_action, self.on_return, self.on_exit) = old;
        self.v1.params = old_params;
        let asked = std::mem::replace(&mut self.v1.asked, old_asked);
        let ops = ops?;
        let unique = self.unique(&if bound { format!("{full}.{table}") } else { full });
        let mut list: Vec<(&str, u32)> = params.iter().map(|(n, w)| (n.as_str(), *w)).collect();
        if asked.is_some() {
            list.push(("v1.meter", 32));
        }
        let id = self.b.action(&unique, &list, ops);
        self.v1.actions.insert(key, id);
        if let Some(meter) = asked {
            self.v1.metered.insert(id, meter);
        }
        Ok((id, ActionName { id, metered: asked.is_some(), ..name }))
    }

    /// A parameter from the control plane: one for each bit string in it.
    pub(super) fn param_value(
        &mut self,
        ty: TyId,
        name: &str,
        params: &mut Vec<(String, u32)>,
        span: Span,
    ) -> Result<V> {
        let ty = self.ty(ty);
        match self.p.ty(ty).clone() {
            Ty::Struct(s, args) if !self.is_header(ty) => {
                let types = self.p.field_types(s, &args);
                let fields = self.p.structs[s.index()].fields.clone();
                let mut items = Vec::new();
                for (f, t) in fields.iter().zip(types) {
                    items.push(self.param_value(t, &format!("{name}_{}", f.name), params, span)?);
                }
                Ok(V::S(items.into(), ty))
            }
            Ty::Tuple(types) => {
                let mut items = Vec::new();
                for (i, t) in types.iter().enumerate() {
                    items.push(self.param_value(*t, &format!("{name}_{i}"), params, span)?);
                }
                Ok(V::S(items.into(), ty))
            }
            _ => match self.width(ty) {
                Some(0) => Ok(V::E(Expr::Const(Bits::zero(0)), 0)),
                Some(w) => {
                    params.push((name.to_string(), w));
                    Ok(V::E(Expr::Param(params.len() as u32 - 1), w))
                }
                None => self.refuse(span, "an action's parameter of this type is not supported"),
            },
        }
    }

    /// A default action or an entry's, with its arguments.
    pub(super) fn action_call(
        &mut self,
        call: &hir::ActionCall,
        actions: &[(ActionId, IrAction)],
    ) -> Result<ir::ActionCall> {
        let Some((_, id)) = actions.iter().find(|(a, _)| *a == call.action) else {
            return self.refuse(call.span, "the table does not list this action");
        };
        let params = self.p.actions[call.action.index()].params.clone();
        let mut args = Vec::new();
        for (p, a) in params.iter().zip(&call.args) {
            if p.direction != Direction::None {
                continue;
            }
            let Some(e) = a else { return self.refuse(call.span, "an argument is missing") };
            let v = self.expr(e)?;
            let v = self.cast_value(v, e.ty, p.ty, e.span)?;
            for (x, _) in self.flatten(&v, e.span)? {
                match x {
                    Expr::Const(b) => args.push(b),
                    _ => return self.refuse(e.span, "this argument is not known at compile time"),
                }
            }
        }
        // The meter's number is the entry's, who is put in later, or the default's.
        if self.v1.metered.contains_key(id) {
            args.push(Bits::ones(32));
        }
        Ok(ir::ActionCall::with(*id, args))
    }

    pub(super) fn table_entries(
        &mut self,
        site: usize,
        table: &hir::Table,
        keys: &[Key],
        columns: &[usize],
    ) -> Result<()> {
        let (id, actions) = (self.tables[site].id, self.tables[site].actions.clone());
        let prioritised = keys
            .iter()
            .any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional));
        let n = table.entries.len() as i64;
        let delta = i64::from(table.priority_delta);
        let up = table.largest_priority_wins;
        let mut last: Option<i64> = None;
        for (place, e) in table.entries.iter().enumerate() {
            let mut matches = Vec::new();
            for (position, column) in columns.iter().enumerate() {
                let key = &keys[position];
                if let Some(pattern) = self.pattern(&e.keys[*column], key)? {
                    matches.push(KeyMatch { key: position as u16, pattern });
                }
            }
            let priority = match (&e.priority, last) {
                (Some(p), _) => p.to_i64().unwrap_or(i64::from(i32::MAX)),
                (None, None) => {
                    if up {
                        (n - 1) * delta + 1
                    } else {
                        1
                    }
                }
                (None, Some(l)) => {
                    if up {
                        l - delta
                    } else {
                        l + delta
                    }
                }
            };
            last = Some(priority);
            // p4c's own annotation: the smallest number wins, and an entry without it has its place.
            let wins = match table.entries.iter().any(|e| e.annotated_priority.is_some()) {
                true => -i64::from(e.annotated_priority.unwrap_or(place as u32 + 1)),
                false if up => priority,
                false => -priority,
            };
            let action = self.action_call(&e.action, &actions)?;
            let entry = Entry {
                id: EntryId(self.entries.len() as u32 + 1),
                priority: if prioritised {
                    wins.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
                } else {
                    0
                },
                matches: matches.into(),
                action,
                cookie: 0,
                idle_timeout_ns: 0,
                hard_timeout_ns: 0,
            };
            self.entries.push((id, entry));
        }
        Ok(())
    }

    pub(super) fn constant_bits(&mut self, e: &hir::Expr, width: u32) -> Result<Bits> {
        let v = self.expr(e)?;
        let v = match v {
            V::C(Const::Int(n)) => return Ok(crate::lower::fold::bits(&n, width)),
            v => v,
        };
        match self.read(&v, e.span)?.0 {
            Expr::Const(b) => Ok(b.cast(width)),
            _ => self.refuse(e.span, "this is not known at compile time"),
        }
    }

    pub(super) fn pattern(&mut self, set: &hir::Expr, key: &Key) -> Result<Option<Pattern>> {
        let w = key.width;
        Ok(match &set.kind {
            ExprKind::Any => None,
            ExprKind::SetTuple(items) if items.len() == 1 => return self.pattern(&items[0], key),
            ExprKind::Mask(a, b) => {
                let (a, m) = (self.constant_bits(a, w)?, self.constant_bits(b, w)?);
                let a = a.and(&m);
                match key.kind {
                    MatchKind::Lpm => {
                        let len = m.prefix_len().unwrap_or(w);
                        if len == 0 { None } else { Some(Pattern::Prefix(a, len)) }
                    }
                    _ if m.is_zero() => None,
                    _ => Some(Pattern::Masked(a, m)),
                }
            }
            ExprKind::Range(a, b) => {
                Some(Pattern::Range(self.constant_bits(a, w)?, self.constant_bits(b, w)?))
            }
            _ => Some(Pattern::Exact(self.constant_bits(set, w)?)),
        })
    }
}
