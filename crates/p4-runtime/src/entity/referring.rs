//! Writes of what refers to others, or is referred to ([`reference`](crate::reference)).

use super::table;
use crate::proto::v1;
use crate::reference::{Change, Had, Index, References};
use crate::schema::Schema;
use p4::control::Control;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::update::Type;

/// Who refers to what, of all that there is; `of` says which program, and how often others had changed it.
pub(crate) fn index(
    refs: &References,
    schema: &Schema,
    control: &Control,
    of: (u64, u64),
) -> Index {
    let mut index = Index::empty(of);
    for t in schema.tables.values().filter(|t| refs.concern(schema, t.id)) {
        for entry in control.pipeline.entries(t.table).iter() {
            index.add(refs.had(schema, &table::told(schema, control, t, entry)));
        }
        index.add(refs.had(schema, &table::told_default(schema, control, t)));
    }
    for (id, p) in &schema.profiles {
        for (member, _) in control.members(&p.name).unwrap_or_default() {
            index.add(of_member(refs, schema, control, *id, member));
        }
    }
    for (id, _) in control.multicast_groups() {
        index.add(refs.of_group(id));
    }
    index
}

/// What an update will change; none if it has nothing to do with references, or will be refused anyhow.
pub(super) fn change(
    refs: &References,
    schema: &Schema,
    control: &Control,
    kind: Type,
    entity: &E,
) -> Option<Change> {
    let deleted = kind == Type::Delete;
    match entity {
        E::TableEntry(e) if refs.concern(schema, e.table_id) => {
            let t = schema.tables.get(&e.table_id)?;
            let after = if deleted { Had::default() } else { refs.had(schema, e) };
            if e.is_default_action {
                let before = refs.had(schema, &table::told_default(schema, control, t));
                return Some(Change { before, after });
            }
            let found = table::found(schema, control, e)?;
            let before = found.map_or_else(Had::default, |entry| {
                refs.had(schema, &table::told(schema, control, t, &entry))
            });
            Some(Change { before, after })
        }
        E::ActionProfileMember(e) if refs.of_actions() => {
            let before = of_member(refs, schema, control, e.action_profile_id, e.member_id);
            let mut after = Had::default();
            if let (false, Some(action)) = (deleted, &e.action) {
                refs.of_action(schema, action, &mut after);
            }
            Some(Change { before, after })
        }
        E::PacketReplicationEngineEntry(e) if refs.to_groups() => {
            let Some(Pre::MulticastGroupEntry(group)) = &e.r#type else { return None };
            let id = group.multicast_group_id;
            let there = control.has_multicast_group(id);
            let before = if there { refs.of_group(id) } else { Had::default() };
            let after = if deleted { Had::default() } else { refs.of_group(id) };
            Some(Change { before, after })
        }
        _ => None,
    }
}

/// A change is done. What a default action is then, the program may say.
pub(super) fn done(
    refs: &References,
    index: &mut Index,
    schema: &Schema,
    control: &Control,
    entity: &E,
    change: Change,
) {
    let after = match entity {
        E::TableEntry(e) if e.is_default_action => schema
            .tables
            .get(&e.table_id)
            .map_or(Had::default(), |t| refs.had(schema, &table::told_default(schema, control, t))),
        _ => change.after,
    };
    index.done(Change { after, ..change });
}

/// What a member of a profile has.
pub(crate) fn of_member(
    refs: &References,
    schema: &Schema,
    control: &Control,
    profile: u32,
    member: u32,
) -> Had {
    let mut had = Had::default();
    let Some(p) = schema.profiles.get(&profile) else { return had };
    let Some(found) = control.member(&p.name, member) else { return had };
    let named = p.actions.keys().filter_map(|id| Some((*id, schema.actions.get(id)?)));
    if let Some((id, action)) = named.into_iter().find(|(_, a)| a.name == found.action) {
        let action = table::told_action(action, id, &found.args);
        refs.of_action(schema, &action, &mut had);
    }
    had
}
