//! Members and groups of action profiles (P4Runtime §9.2).

use super::shared::{Reading, Writing, unknown};
use super::{replication, table};
use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::schema::{Profile, Schema};
use crate::translation::Sdn;
use p4::control::profiles::{GroupOf, Member, Share};
use v1::action_profile_group::member::WatchKind as W;
use v1::entity::Entity as E;
use v1::update::Type;

fn profile_of(schema: &Schema, id: u32) -> Result<&Profile, Fault> {
    schema.profiles.get(&id).ok_or_else(|| unknown("action profile", id))
}

fn member(schema: &Schema, p: &Profile, e: &v1::ActionProfileMember) -> Result<Member, Fault> {
    let at = format!("action profile `{}`, member {}", p.name, e.member_id);
    let Some(given) = &e.action else {
        return Err(fault!(InvalidArgument, "{at}: the action is missing"));
    };
    let action = schema.actions.get(&given.action_id);
    let action = action.filter(|_| p.actions.contains_key(&given.action_id));
    let action = action.ok_or_else(|| {
        let name = |id: &u32| schema.actions.get(id).map_or("", |a| &a.name);
        let known: Vec<String> =
            p.actions.keys().take(16).map(|id| format!("{id} ({})", name(id))).collect();
        fault!(
            InvalidArgument,
            "{at}: its tables have no action with the id {}; there are {}",
            given.action_id,
            known.join(", ")
        )
    })?;
    Ok(Member {
        action: action.name.clone(),
        args: super::values::args(format_args!("{at}"), action, table::params(given))?,
    })
}

pub(super) fn write_member(
    w: &mut Writing<'_>,
    kind: Type,
    e: &v1::ActionProfileMember,
) -> Result<(), Fault> {
    let p = profile_of(w.schema, e.action_profile_id)?;
    w.allowed(p.id, format_args!("action profile `{}`", p.name))?;
    match kind {
        Type::Delete => w.control.member_delete(&p.name, e.member_id)?,
        Type::Modify => {
            let member = member(w.schema, p, e)?;
            let updates = w.control.member_set(&p.name, e.member_id, member)?;
            w.take(updates);
        }
        _ => {
            let member = member(w.schema, p, e)?;
            w.control.member_insert(&p.name, e.member_id, member)?;
        }
    }
    Ok(())
}

#[allow(deprecated, reason = "old clients watch by number")]
fn group(sdn: &Sdn, p: &Profile, e: &v1::ActionProfileGroup) -> Result<GroupOf, Fault> {
    let at = format!("action profile `{}`, group {}", p.name, e.group_id);
    let max_size = u32::try_from(e.max_size)
        .map_err(|_| fault!(InvalidArgument, "{at}: max_size {} is negative", e.max_size))?;
    let mut out = GroupOf { max_size, ..GroupOf::default() };
    for m in &e.members {
        let weight = u32::try_from(m.weight).ok().filter(|w| *w > 0).ok_or_else(|| {
            fault!(
                InvalidArgument,
                "{at}, member {}: weight {}; 1 or more is right",
                m.member_id,
                m.weight
            )
        })?;
        let watch_port = match &m.watch_kind {
            None => None,
            Some(W::WatchPort(bytes)) => Some(replication::port(sdn, bytes)?),
            Some(W::Watch(port)) => replication::watch(*port)?,
        };
        if out.members.insert(m.member_id, Share { weight, watch_port }).is_some() {
            return Err(fault!(InvalidArgument, "{at}: the member {} is there twice", m.member_id));
        }
    }
    Ok(out)
}

pub(super) fn write_group(
    w: &mut Writing<'_>,
    kind: Type,
    e: &v1::ActionProfileGroup,
) -> Result<(), Fault> {
    let p = profile_of(w.schema, e.action_profile_id)?;
    w.allowed(p.id, format_args!("action profile `{}`", p.name))?;
    if !p.selector {
        return Err(fault!(InvalidArgument, "`{}` has no selector, so it has no groups", p.name));
    }
    let updates = match kind {
        Type::Delete => w.control.group_drop(&p.name, e.group_id)?,
        Type::Modify => {
            let to = group(&w.schema.port, p, e)?;
            let was = w.control.groups_with_shares(&p.name)?.find(|(g, _)| *g == e.group_id);
            // A group's max_size is that of its INSERT; 0 says nothing about it.
            let fixed = was.map(|(_, g)| g.max_size);
            if let Some(fixed) = fixed
                && to.max_size != 0
                && to.max_size != fixed
            {
                return Err(fault!(
                    InvalidArgument,
                    "action profile `{}`, group {}: max_size is {fixed} since its INSERT, not {}",
                    p.name,
                    e.group_id,
                    to.max_size
                ));
            }
            let to = GroupOf { max_size: fixed.unwrap_or(to.max_size), ..to };
            w.control.group_set(&p.name, e.group_id, to)?
        }
        _ => {
            let to = group(&w.schema.port, p, e)?;
            w.control.group_insert(&p.name, e.group_id, to)?
        }
    };
    w.take(updates);
    Ok(())
}

pub(super) fn read_members(r: &mut Reading<'_>, e: &v1::ActionProfileMember) -> Result<(), Fault> {
    let schema = r.schema;
    for (id, p) in r.chosen(&schema.profiles, e.action_profile_id, "action profile")? {
        for (member_id, member) in r.control.members(&p.name)? {
            if e.member_id != 0 && e.member_id != member_id {
                continue;
            }
            let named = p.actions.keys().filter_map(|id| Some((*id, schema.actions.get(id)?)));
            let action = named.into_iter().find(|(_, a)| a.name == member.action);
            let action = action.map(|(id, a)| table::told_action(a, id, &member.args));
            r.tell(E::ActionProfileMember(v1::ActionProfileMember {
                action_profile_id: id,
                member_id,
                action,
            }));
        }
    }
    Ok(())
}

pub(super) fn read_groups(r: &mut Reading<'_>, e: &v1::ActionProfileGroup) -> Result<(), Fault> {
    let (schema, control) = (r.schema, r.control);
    for (id, p) in r.chosen(&schema.profiles, e.action_profile_id, "action profile")? {
        for (group_id, of) in control.groups_with_shares(&p.name)? {
            if e.group_id != 0 && e.group_id != group_id {
                continue;
            }
            let member = |(m, s): (&u32, &Share)| v1::action_profile_group::Member {
                member_id: *m,
                weight: i32::try_from(s.weight).unwrap_or(i32::MAX),
                watch_kind: s
                    .watch_port
                    .map(|port| W::WatchPort(replication::told_port(&schema.port, port))),
            };
            r.tell(E::ActionProfileGroup(v1::ActionProfileGroup {
                action_profile_id: id,
                group_id,
                members: of.members.iter().map(member).collect(),
                max_size: i32::try_from(of.max_size).unwrap_or(i32::MAX),
            }));
        }
    }
    Ok(())
}
