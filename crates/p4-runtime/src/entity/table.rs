//! Entries of tables, and default actions (P4Runtime §9.1).

use super::shared::{Effect, Reading, Writing, unknown};
use super::values::{args, key, list};
use super::{replication, units};
use crate::canonical;
use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::reference::{self, References};
use crate::restriction::Given;
use crate::schema::{Action, Field, Schema, Table};
use crate::wire::Match;
use ir::program::MatchKind;
use ir::{ActionCall, Bits, Entry, EntryId, KeyMatch, MeterId, Pattern, TableId};
use p4::control::profiles::{Form, Member, Refers, Share};
use p4::control::{Control, Does, Note, default_meter_of, meter_of, normal};
use std::sync::Arc;
use v1::field_match::FieldMatchType as F;
use v1::table_action::Type as A;
use v1::update::Type;

/// The key and priority of an entry as the program has them.
fn key_of(t: &Table, e: &v1::TableEntry) -> Result<(Box<[KeyMatch]>, i32), Fault> {
    let given = e.r#match.iter().map(|m| (m.field_id, Match::from(m)));
    Ok((key(t, given, e.priority)?, e.priority))
}

/// Arguments of an action by the parameter's id.
pub(super) fn params(given: &v1::Action) -> impl Iterator<Item = (u32, &[u8])> {
    given.params.iter().map(|p| (p.param_id, &p.value[..]))
}

/// The table of an entry.
pub(crate) fn table_of(schema: &Schema, id: u32) -> Result<&Table, Fault> {
    schema.tables.get(&id).ok_or_else(|| unknown("table", id))
}

/// What the program has itself keeps to what tables and actions ask for, and refers to what is there.
pub(crate) fn own_keep_to<'e>(
    refs: &References,
    schema: &Schema,
    program: &ir::Program,
    entries: impl Iterator<Item = (TableId, &'e Entry)>,
) -> Result<(), Fault> {
    let tables = || schema.tables.values();
    let action_of = |t: &Table, call: &ActionCall| {
        let id = *schema.action_ids.get(&(t.table, call.action))?;
        Some((id, schema.actions.get(&id)?))
    };
    let args_keep_to = |t: &Table, call: &ActionCall, at: &str| {
        let Some((_, action)) = action_of(t, call) else { return Ok(()) };
        // Behind them there may be what the compiler has added.
        let args = &call.args[..action.params.len().min(call.args.len())];
        let Some(r) = &action.restriction else { return Ok(()) };
        match r.violated(&Given { patterns: Vec::new(), args, priority: 0 }) {
            None => Ok(()),
            Some(clause) => Err(fault!(
                InvalidArgument,
                "table `{}`, {at}: the arguments of `{}` violate @action_restriction: {clause}",
                t.name,
                action.name
            )),
        }
    };
    for t in tables() {
        args_keep_to(t, &program.tables[t.table.index()].default, "the program's default")?;
    }
    let mut own = Vec::new();
    for (table, entry) in entries {
        let Some(t) = tables().find(|t| t.table == table) else { continue };
        let n = own.iter().filter(|e: &&v1::TableEntry| e.table_id == t.id).count() + 1;
        let at = format!("the program's entry {n}");
        let kind = |m: &KeyMatch| t.fields.iter().find(|f| f.key == m.key).map(|f| f.kind);
        let matches: Vec<KeyMatch> = entry
            .matches
            .iter()
            .map(|m| KeyMatch {
                key: m.key,
                pattern: kind(m).map_or(m.pattern.clone(), |kind| normal(m.pattern.clone(), kind)),
            })
            .collect();
        keeps_to(t, &matches, entry.priority).map_err(|fault| Fault {
            text: fault.text.replace("the entry violates", &format!("{at} violates")),
            ..fault
        })?;
        args_keep_to(t, &entry.action, &at)?;
        let action = action_of(t, &entry.action).map(|(id, action)| {
            let action = told_action(action, id, &entry.action.args);
            v1::TableAction { r#type: Some(A::Action(action)) }
        });
        own.push(v1::TableEntry {
            table_id: t.id,
            r#match: told_key(t, &matches),
            action,
            ..v1::TableEntry::default()
        });
    }
    reference::own_refer(refs, schema, &own)
}

/// An entry keeps to what its table asks for.
fn keeps_to(t: &Table, matches: &[KeyMatch], priority: i32) -> Result<(), Fault> {
    let Some(r) = &t.restriction else { return Ok(()) };
    let pattern = |f: &Field| matches.iter().find(|m| m.key == f.key).map(|m| m.pattern.clone());
    let patterns = t.fields.iter().map(pattern).collect();
    match r.violated(&Given { patterns, args: &[], priority }) {
        None => Ok(()),
        Some(clause) => Err(fault!(
            InvalidArgument,
            "table `{}`: the entry violates @entry_restriction: {clause}",
            t.name
        )),
    }
}

/// An action of the client's as the table has it.
fn call(
    schema: &Schema,
    t: &Table,
    given: &v1::Action,
    default: bool,
) -> Result<ActionCall, Fault> {
    let name = |id: &u32| schema.actions.get(id).map_or(String::new(), |a| a.name.clone());
    let (Some(used), Some(action)) =
        (t.actions.get(&given.action_id), schema.actions.get(&given.action_id))
    else {
        return Err(fault!(
            InvalidArgument,
            "table `{}`: it has no action with the id {}{}; there are {}",
            t.name,
            given.action_id,
            match schema.actions.get(&given.action_id) {
                Some(a) => format!(" (`{}`)", a.name),
                None => String::new(),
            },
            list(t.actions.keys().map(|id| format!("{id} ({})", name(id))))
        ));
    };
    if used.of_groups {
        return Err(fault!(
            PermissionDenied,
            "table `{}`: `{}` is for groups only, as the group_action of an action set",
            t.name,
            action.name
        ));
    }
    if !default && !used.in_entries {
        return Err(fault!(
            PermissionDenied,
            "table `{}`: `{}` is for the default action only",
            t.name,
            action.name
        ));
    }
    if default && !used.as_default {
        return Err(fault!(
            PermissionDenied,
            "table `{}`: `{}` is for entries only, not the default action",
            t.name,
            action.name
        ));
    }
    let args = args(format_args!("table `{}`", t.name), action, params(given))?;
    Ok(ActionCall { action: used.action, args })
}

/// A member that an action set makes.
fn set_member(
    schema: &Schema,
    t: &Table,
    a: &v1::ActionProfileAction,
) -> Result<(Member, Share), Fault> {
    let given = a.action.as_ref().ok_or_else(|| {
        fault!(InvalidArgument, "table `{}`: an action of the set is missing", t.name)
    })?;
    let call = call(schema, t, given, false)?;
    let weight = u32::try_from(a.weight).ok().filter(|w| *w > 0).ok_or_else(|| {
        fault!(
            InvalidArgument,
            "table `{}`: an action of the set has weight {}; 1 or more is right",
            t.name,
            a.weight
        )
    })?;
    use v1::action_profile_action::WatchKind as W;
    #[allow(deprecated, reason = "old clients watch by number")]
    let watch_port = match &a.watch_kind {
        None => None,
        Some(W::WatchPort(bytes)) => Some(replication::port(&schema.port, bytes)?),
        Some(W::Watch(port)) => replication::watch(*port)?,
    };
    let action = schema.actions.get(&given.action_id).map(|a| a.name.clone());
    let member = Member { action: action.unwrap_or_default(), args: call.args.to_vec() };
    Ok((member, Share { weight, watch_port }))
}

/// The action that a set has before that of its members.
fn group_action(schema: &Schema, t: &Table, given: &v1::Action) -> Result<Member, Fault> {
    let used = t.actions.get(&given.action_id).filter(|a| a.of_groups);
    let (Some(_), Some(action)) = (used, schema.actions.get(&given.action_id)) else {
        let known = t.actions.iter().filter(|(_, a)| a.of_groups).map(|(id, _)| *id);
        let name = |id: u32| schema.actions.get(&id).map_or(String::new(), |a| a.name.clone());
        return Err(fault!(
            InvalidArgument,
            "table `{}`: group_action is no action of the table with @groupaction, by the id {}; there are {}",
            t.name,
            given.action_id,
            list(known.map(|id| format!("{id} ({})", name(id))))
        ));
    };
    let args = args(format_args!("table `{}`, group_action", t.name), action, params(given))?;
    Ok(Member { action: action.name.clone(), args })
}

/// A set's mode of selection is kept in so many bits, its semantics of size behind them.
const WORD_BITS: u32 = 8;
const WORD: u32 = (1 << WORD_BITS) - 1;

/// How an action set is written, to be read as it was.
fn form(t: &Table, set: &v1::ActionProfileActionSet) -> Result<Form, Fault> {
    use v1::action_profile_action_set::{ActionSelectionMode as M, SizeSemantics as S};
    let wrong = |what: &str, n: i32| {
        fault!(InvalidArgument, "table `{}`: {n} is no {what} of action sets", t.name)
    };
    let mode = M::try_from(set.action_selection_mode)
        .map_err(|_| wrong("mode of selection", set.action_selection_mode))?;
    let size = S::try_from(set.size_semantics)
        .map_err(|_| wrong("semantics of size", set.size_semantics))?;
    let word = mode as u32 | (size as u32) << WORD_BITS;
    Ok(Form { by_members: size == S::SumOfMembers, random: mode == M::Random, word })
}

/// What an entry is to do.
fn does(
    w: &mut Writing<'_>,
    t: &Table,
    action: &v1::TableAction,
    default: bool,
) -> Result<Does, Fault> {
    let lacks = |what: &str| {
        fault!(
            InvalidArgument,
            "table `{}` has no action profile, so its entries have actions, not {what}",
            t.name
        )
    };
    match (&action.r#type, t.profile) {
        (None, _) => Err(fault!(InvalidArgument, "table `{}`: the action is empty", t.name)),
        (Some(A::Action(a)), None) => Ok(Does::Action(call(w.schema, t, a, default)?)),
        // A default action may be one of its own: the program's is.
        (Some(A::Action(a)), Some(_)) if default => {
            Ok(Does::Action(call(w.schema, t, a, default)?))
        }
        (Some(A::Action(_)), Some(_)) => Err(fault!(
            InvalidArgument,
            "table `{}` has an action profile: its entries have a member, a group or an action set",
            t.name
        )),
        (Some(A::ActionProfileMemberId(_)), None) => Err(lacks("members")),
        (Some(A::ActionProfileMemberId(m)), Some(_)) => Ok(Does::Refers(Refers::Member(*m))),
        (Some(A::ActionProfileGroupId(_)), None) => Err(lacks("groups")),
        (Some(A::ActionProfileGroupId(g)), Some(_)) => Ok(Does::Refers(Refers::Group(*g))),
        (Some(A::ActionProfileActionSet(_)), None) => Err(lacks("action sets")),
        (Some(A::ActionProfileActionSet(set)), Some(_)) => {
            let form = form(t, set)?;
            if set.action_profile_actions.is_empty() {
                return Err(fault!(InvalidArgument, "table `{}`: the action set is empty", t.name));
            }
            let members = set.action_profile_actions.iter();
            let members = members.map(|a| set_member(w.schema, t, a));
            let members = members.collect::<Result<_, _>>()?;
            let before = set.group_action.as_ref().map(|a| group_action(w.schema, t, a));
            let (refers, updates) =
                w.control.own_group(t.table, members, before.transpose()?, form)?;
            w.take(updates);
            Ok(Does::Refers(refers))
        }
    }
}

/// What an entry refers to.
fn refers_of(does: &Does) -> Option<Refers> {
    match does {
        Does::Refers(refers) => Some(*refers),
        Does::Action(_) => None,
    }
}

/// An action set was made for an entry that is refused.
fn unmake(w: &mut Writing<'_>, t: &Table, refers: Option<Refers>) {
    let Some(refers @ Refers::Group(group)) = refers else { return };
    if !Control::is_own_group(refers) {
        return;
    }
    let name = t.profile.and_then(|id| w.schema.profiles.get(&id)).map(|p| p.name.clone());
    let Some(name) = name else { return };
    match w.control.own_group_gone(&name, group) {
        Ok(updates) => w.take(updates),
        Err(error) => tracing::error!(%error, "an action set is left behind"),
    }
}

pub(super) fn write(w: &mut Writing<'_>, kind: Type, e: &v1::TableEntry) -> Result<(), Fault> {
    let t = table_of(w.schema, e.table_id)?;
    w.allowed(t.id, format_args!("table `{}`", t.name))?;
    if e.is_default_action {
        return write_default(w, kind, t, e);
    }
    if t.is_const {
        return Err(fault!(
            PermissionDenied,
            "table `{}` has const entries, which only the program changes",
            t.name
        ));
    }
    if t.fields.is_empty() {
        return Err(fault!(
            InvalidArgument,
            "table `{}` has no key, so it has no entries; set its default action (is_default_action)",
            t.name
        ));
    }
    let (matches, priority) = key_of(t, e)?;
    if kind == Type::Delete {
        let id = find(w.control, t, &matches, priority)?.id;
        let updates = w.control.remove(t.table, id)?;
        w.take(updates);
        return Ok(());
    }
    keeps_to(t, &matches, priority)?;
    check_direct(t, e)?;
    let idle_ns = u64::try_from(e.idle_timeout_ns).map_err(|_| {
        fault!(InvalidArgument, "table `{}`: idle_timeout_ns {}", t.name, e.idle_timeout_ns)
    })?;
    if idle_ns > 0 && !t.timeouts {
        return Err(fault!(
            InvalidArgument,
            "table `{}`: its entries have no timeouts; the program lacks `support_timeout = true`",
            t.name
        ));
    }
    let found = w.control.entry_find(t.table, &matches, priority).map(|e| e.id);
    let id = match (kind, found) {
        (Type::Modify, None) => return Err(not_found(t)),
        (Type::Modify, Some(id)) => {
            let does = match &e.action {
                Some(action) => does(w, t, action, false)?,
                None => {
                    return Err(fault!(
                        InvalidArgument,
                        "table `{}`: the action is missing",
                        t.name
                    ));
                }
            };
            let refers = refers_of(&does);
            let done = w.control.entry_set(t.table, id, does, idle_ns);
            let updates = done.inspect_err(|_| unmake(w, t, refers))?;
            w.take(updates);
            id
        }
        (_, Some(_)) => {
            return Err(fault!(
                AlreadyExists,
                "table `{}` has an entry with this key{}; MODIFY changes it",
                t.name,
                if t.prioritised { " and priority" } else { "" }
            ));
        }
        (_, None) => {
            let action = e.action.as_ref().ok_or_else(|| {
                fault!(InvalidArgument, "table `{}`: the action is missing", t.name)
            })?;
            let does = does(w, t, action, false)?;
            let (refers, out) = (refers_of(&does), &mut w.updates);
            let done = w.control.entry_insert(t.table, matches, priority, does, idle_ns, out);
            done.inspect_err(|_| unmake(w, t, refers))?
        }
    };
    #[allow(deprecated, reason = "old clients keep their word there")]
    let number = e.controller_metadata;
    let since_ns = if t.timeouts { w.now_ns.max(1) } else { 0 };
    w.control.set_note(id, Note { metadata: e.metadata.clone(), number, since_ns });
    if let Some(data) = &e.counter_data {
        w.effects.push(Effect::EntryCounter(id, units::counted(data, &t.name)?));
    }
    if t.meter.is_some() && (kind == Type::Modify || e.meter_config.is_some()) {
        let updates = units::set_direct(w.control, t, meter_of(id), e.meter_config.as_ref())?;
        w.take(updates);
        w.effects.push(Effect::MeterFresh(meter_of(id)));
    }
    match &e.meter_counter_data {
        Some(data) => units::set_counts(w, meter_of(id), data, &t.name),
        None => Ok(()),
    }
}

/// Direct resources are given only where the table has them.
fn check_direct(t: &Table, e: &v1::TableEntry) -> Result<(), Fault> {
    if let Some(config) = &e.meter_config {
        match t.meter {
            None => {
                return Err(fault!(InvalidArgument, "table `{}` has no direct meter", t.name));
            }
            Some((_, packets)) => drop(units::of_config(config, packets, &t.name)?),
        }
    }
    if let Some(data) = &e.meter_counter_data {
        if e.meter_config.is_none() {
            return Err(units::without_rates(&t.name));
        }
        for colour in [&data.green, &data.yellow, &data.red].into_iter().flatten() {
            units::counted(colour, &t.name)?;
        }
    }
    match &e.counter_data {
        Some(_) if t.counter.is_none() => {
            Err(fault!(InvalidArgument, "table `{}` has no direct counter", t.name))
        }
        Some(data) => units::counted(data, &t.name).map(drop),
        None => Ok(()),
    }
}

fn not_found(t: &Table) -> Fault {
    fault!(
        NotFound,
        "table `{}` has no entry with this key{}",
        t.name,
        if t.prioritised { " and priority" } else { "" }
    )
}

fn find<'c>(
    control: &'c Control,
    t: &Table,
    matches: &[KeyMatch],
    priority: i32,
) -> Result<&'c Arc<Entry>, Fault> {
    control.entry_find(t.table, matches, priority).ok_or_else(|| not_found(t))
}

fn write_default(
    w: &mut Writing<'_>,
    kind: Type,
    t: &Table,
    e: &v1::TableEntry,
) -> Result<(), Fault> {
    if kind != Type::Modify {
        return Err(fault!(
            InvalidArgument,
            "table `{}`: the default action is always there: only MODIFY is for it",
            t.name
        ));
    }
    without_key(t, e)?;
    if t.const_default {
        return Err(fault!(PermissionDenied, "table `{}`: its default action is constant", t.name));
    }
    check_direct(t, e)?;
    let updates = match &e.action {
        None => w.control.default_reset(t.table)?,
        Some(action) => {
            let does = does(w, t, action, true)?;
            let refers = refers_of(&does);
            let done = w.control.default_set(t.table, does);
            done.inspect_err(|_| unmake(w, t, refers))?
        }
    };
    w.take(updates);
    units::write_default(w, t, e)
}

/// What has a direct counter and a direct meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// An entry.
    Entry(EntryId),
    /// The default action of a table.
    Default,
}

impl Owner {
    /// Its meter.
    pub(super) fn meter(self, t: &Table) -> MeterId {
        match self {
            Owner::Entry(id) => meter_of(id),
            Owner::Default => default_meter_of(t.table),
        }
    }

    /// What sets its counter.
    pub(super) fn count(self, t: &Table, to: (u64, u64)) -> Option<Effect> {
        match self {
            Owner::Entry(id) => Some(Effect::EntryCounter(id, to)),
            Owner::Default => t.default_counter.map(|array| Effect::Counter(array, 0, to)),
        }
    }
}

/// What another entity names: its table, and the entry or default.
pub(super) fn named<'s>(
    schema: &'s Schema,
    control: &Control,
    e: &v1::TableEntry,
) -> Result<(&'s Table, Owner), Fault> {
    let t = table_of(schema, e.table_id)?;
    if e.is_default_action {
        without_key(t, e)?;
        return Ok((t, Owner::Default));
    }
    let (matches, priority) = key_of(t, e)?;
    Ok((t, Owner::Entry(find(control, t, &matches, priority)?.id)))
}

fn without_key(t: &Table, e: &v1::TableEntry) -> Result<(), Fault> {
    match e.r#match.is_empty() && e.priority == 0 {
        true => Ok(()),
        false => Err(fault!(
            InvalidArgument,
            "table `{}`: the default action has neither match nor priority",
            t.name
        )),
    }
}

/// The match fields of an entry.
fn told_key(t: &Table, matches: &[KeyMatch]) -> Vec<v1::FieldMatch> {
    let told = |f: &Field| {
        let p = matches.iter().find(|m| m.key == f.key).map(|m| &m.pattern)?;
        let w = canonical::write;
        use v1::field_match as m;
        let told = match (f.kind, p) {
            (MatchKind::Exact, Pattern::Exact(v)) => F::Exact(m::Exact { value: f.sdn.write(v) }),
            (MatchKind::Optional, Pattern::Exact(v)) => {
                F::Optional(m::Optional { value: f.sdn.write(v) })
            }
            (MatchKind::Lpm, Pattern::Exact(v)) => {
                F::Lpm(m::Lpm { value: w(v), prefix_len: f.width as i32 })
            }
            (_, Pattern::Prefix(v, len)) if f.kind == MatchKind::Lpm => {
                F::Lpm(m::Lpm { value: w(v), prefix_len: *len as i32 })
            }
            (MatchKind::Range, Pattern::Range(a, b)) => {
                F::Range(m::Range { low: w(a), high: w(b) })
            }
            (MatchKind::Range, Pattern::Exact(v)) => F::Range(m::Range { low: w(v), high: w(v) }),
            (_, Pattern::Exact(v)) => {
                F::Ternary(m::Ternary { value: w(v), mask: w(&Bits::ones(f.width)) })
            }
            (_, Pattern::Masked(v, mask)) => F::Ternary(m::Ternary { value: w(v), mask: w(mask) }),
            (_, Pattern::Prefix(v, len)) => {
                let mask = Bits::prefix_mask(*len, f.width);
                F::Ternary(m::Ternary { value: w(v), mask: w(&mask) })
            }
            (_, Pattern::Range(a, b)) => F::Range(m::Range { low: w(a), high: w(b) }),
        };
        Some(v1::FieldMatch { field_id: f.id, field_match_type: Some(told) })
    };
    t.fields.iter().filter_map(told).collect()
}

/// An entry that is not there, as the client would read it: its key, and what it calls.
pub(crate) fn entry_of(
    schema: &Schema,
    t: &Table,
    matches: &[KeyMatch],
    call: Option<&ActionCall>,
) -> v1::TableEntry {
    let action = call.and_then(|call| {
        let id = *schema.action_ids.get(&(t.table, call.action))?;
        let action = told_action(schema.actions.get(&id)?, id, &call.args);
        Some(v1::TableAction { r#type: Some(A::Action(action)) })
    });
    let r#match = told_key(t, matches);
    v1::TableEntry { table_id: t.id, r#match, action, ..v1::TableEntry::default() }
}

/// An action as the client names it.
pub(crate) fn told_action(action: &Action, id: u32, args: &[Bits]) -> v1::Action {
    let params = action.params.iter().zip(args);
    let param = |(p, v): (&crate::schema::Param, &Bits)| v1::action::Param {
        param_id: p.id,
        value: p.sdn.write(v),
    };
    v1::Action { action_id: id, params: params.map(param).collect() }
}

/// What an entry or default does, as the client names it.
fn told_does(
    schema: &Schema,
    control: &Control,
    t: &Table,
    entry: Option<EntryId>,
    call: &ActionCall,
) -> Option<v1::TableAction> {
    let told = match control.refers(t.table, entry) {
        Some(_) if control.own_members(t.table, entry).is_some() => {
            let (members, group) = control.own_members(t.table, entry)?;
            let named = |member: &Member| {
                let all = schema.actions.iter();
                let mut own = all.filter(|(id, _)| t.actions.contains_key(*id));
                own.find(|(_, a)| a.name == member.action)
            };
            let told = |(member, share): (&Member, Share)| {
                let (id, action) = named(member)?;
                use v1::action_profile_action::WatchKind as W;
                let port = |p| W::WatchPort(replication::told_port(&schema.port, p));
                let watch = share.watch_port.map(port);
                Some(v1::ActionProfileAction {
                    action: Some(told_action(action, *id, &member.args)),
                    weight: share.weight as i32,
                    watch_kind: watch,
                })
            };
            A::ActionProfileActionSet(v1::ActionProfileActionSet {
                action_profile_actions: members.into_iter().filter_map(told).collect(),
                action_selection_mode: (group.form.word & WORD) as i32,
                size_semantics: (group.form.word >> WORD_BITS) as i32,
                group_action: group.before.as_ref().and_then(|before| {
                    let (id, action) = named(before)?;
                    Some(told_action(action, *id, &before.args))
                }),
            })
        }
        Some(Refers::Member(m)) => A::ActionProfileMemberId(m),
        Some(Refers::Group(g)) => A::ActionProfileGroupId(g),
        None => {
            let id = *schema.action_ids.get(&(t.table, call.action))?;
            A::Action(told_action(schema.actions.get(&id)?, id, &call.args))
        }
    };
    Some(v1::TableAction { r#type: Some(told) })
}

/// An entry as the client reads it, without what has to be asked for.
pub(crate) fn told(schema: &Schema, control: &Control, t: &Table, e: &Entry) -> v1::TableEntry {
    let note = control.note(e.id);
    #[allow(deprecated, reason = "old clients keep their word there")]
    v1::TableEntry {
        table_id: t.id,
        r#match: told_key(t, &e.matches),
        action: told_does(schema, control, t, Some(e.id), &e.action),
        priority: if t.prioritised { e.priority } else { 0 },
        controller_metadata: note.map_or(0, |n| n.number),
        metadata: note.map(|n| n.metadata.clone()).unwrap_or_default(),
        idle_timeout_ns: i64::try_from(e.idle_timeout_ns).unwrap_or(i64::MAX),
        is_const: t.is_const,
        ..v1::TableEntry::default()
    }
}

pub(super) fn read(r: &mut Reading<'_>, e: &v1::TableEntry) -> Result<(), Fault> {
    let schema = r.schema;
    let tables = r.chosen(&schema.tables, e.table_id, "table")?;
    if e.table_id == 0 && !e.r#match.is_empty() {
        return Err(fault!(InvalidArgument, "a match needs a table: table_id is 0"));
    }
    for (_, t) in tables {
        if e.is_default_action {
            read_default(r, t, e)?;
            continue;
        }
        if !e.r#match.is_empty() {
            let (matches, priority) = key_of(t, e)?;
            if let Some(entry) = r.control.entry_find(t.table, &matches, priority).cloned() {
                let told = told_in_full(r, t, &entry, e);
                r.tell(v1::entity::Entity::TableEntry(told));
            }
            continue;
        }
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        let wanted = |entry: &Entry| e.priority == 0 || entry.priority == e.priority;
        let held = r.control.handles(t.table);
        let table = r.control.pipeline.entries(t.table);
        entries.extend(held.filter_map(|(_, id)| table.get(id)).filter(|e| wanted(e)).cloned());
        r.out.reserve(entries.len());
        for entry in entries {
            #[allow(deprecated, reason = "old clients keep their word there")]
            let metadata = e.controller_metadata;
            let note = r.control.note(entry.id);
            if metadata != 0 && note.is_none_or(|n| n.number != metadata) {
                continue;
            }
            if !e.metadata.is_empty() && note.is_none_or(|n| n.metadata != e.metadata) {
                continue;
            }
            let told = told_in_full(r, t, &entry, e);
            r.tell(v1::entity::Entity::TableEntry(told));
        }
    }
    Ok(())
}

/// An entry with what the request asks for.
fn told_in_full(
    r: &Reading<'_>,
    t: &Table,
    entry: &Entry,
    asked: &v1::TableEntry,
) -> v1::TableEntry {
    let mut told = told(r.schema, r.control, t, entry);
    if asked.counter_data.is_some() && t.counter.is_some() {
        told.counter_data = Some(units::told(r.plane.entry_counter(entry.id)));
    }
    if let (true, Some((_, packets))) = (asked.meter_config.is_some(), t.meter) {
        told.meter_config = units::told_direct(r.control, meter_of(entry.id), packets);
    }
    if asked.meter_counter_data.is_some() && t.meter.is_some() {
        told.meter_counter_data = units::counts(r, meter_of(entry.id));
    }
    if asked.time_since_last_hit.is_some() && t.timeouts {
        let since = r.control.note(entry.id).map_or(0, |n| n.since_ns);
        let last = r.plane.last_used_ns(entry.id).unwrap_or(since).max(since);
        let elapsed_ns = i64::try_from(r.now_ns.saturating_sub(last)).unwrap_or(i64::MAX);
        told.time_since_last_hit = Some(v1::table_entry::IdleTimeout { elapsed_ns });
    }
    told
}

/// What tells an entry from others, as a client reads it, and the entry if it is there; none if there can be no such entry.
pub(crate) fn named_entry(
    r: &Reading<'_>,
    asked: &v1::TableEntry,
) -> Option<(v1::TableEntry, Option<v1::TableEntry>)> {
    let t = r.schema.tables.get(&asked.table_id)?;
    let (matches, priority) = key_of(t, asked).ok()?;
    let named = v1::TableEntry {
        table_id: t.id,
        r#match: told_key(t, &matches),
        priority: if t.prioritised { priority } else { 0 },
        ..v1::TableEntry::default()
    };
    let entry = r.control.entry_find(t.table, &matches, priority);
    Some((named, entry.map(|entry| told_in_full(r, t, entry, asked))))
}

/// The entry of this key, if there is one; none if there can be no such entry.
pub(crate) fn found(
    schema: &Schema,
    control: &Control,
    e: &v1::TableEntry,
) -> Option<Option<Arc<Entry>>> {
    let t = schema.tables.get(&e.table_id)?;
    let (matches, priority) = key_of(t, e).ok()?;
    Some(control.entry_find(t.table, &matches, priority).cloned())
}

/// A default action as the client reads it.
pub(crate) fn told_default(schema: &Schema, control: &Control, t: &Table) -> v1::TableEntry {
    let call = control.default_of(t.table);
    v1::TableEntry {
        table_id: t.id,
        action: told_does(schema, control, t, None, &call),
        is_default_action: true,
        is_const: t.const_default,
        ..v1::TableEntry::default()
    }
}

fn read_default(r: &mut Reading<'_>, t: &Table, e: &v1::TableEntry) -> Result<(), Fault> {
    without_key(t, e)?;
    let mut told = told_default(r.schema, r.control, t);
    units::tell_default(r, t, e, &mut told);
    r.tell(v1::entity::Entity::TableEntry(told));
    Ok(())
}
