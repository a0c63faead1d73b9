//! What can be written and read: a file each, with its rules, both ways.
//!
//! [`write`] and [`read`] tell which file an entity is for. Writing does not touch the switch: it changes what the
//! program's control has, and leaves updates and effects for whoever began ([`Writing`]).

mod counter;
mod digest;
mod digest_config;
mod meter;
pub(crate) mod plain;
mod profile;
pub(crate) mod referring;
mod register;
mod replication;
mod shared;
pub(crate) mod table;
mod units;
mod value_set;
mod values;

use crate::code::{Fault, fault};
use crate::proto::v1;
use shared::kind;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::update::Type;

pub use digest_config::Config as DigestConfig;
pub use shared::{Effect, Reading, Writing};

/// Does one update.
pub fn write(w: &mut Writing<'_>, update: &v1::Update) -> Result<(), Fault> {
    let kind = kind(update)?;
    let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
    let Some(entity) = entity else {
        return Err(fault!(InvalidArgument, "the update has no entity"));
    };
    let schema = w.schema;
    let allowed = match entity {
        E::TableEntry(e) => schema.allows(w.role, e.table_id) && w.rights.allow(e.table_id),
        E::ActionProfileMember(e) => {
            schema.allows(w.role, e.action_profile_id) && w.rights.allow(e.action_profile_id)
        }
        _ => true,
    };
    let mut change = None;
    if let (Some((refs, index)), true) = (&w.references, allowed) {
        change = referring::change(refs, schema, w.control, kind, entity);
        change.iter().try_for_each(|change| index.check(refs, change))?;
    }
    write_one(w, kind, entity)?;
    if let (Some((refs, index)), Some(change)) = (&mut w.references, change) {
        referring::done(refs, index, schema, w.control, entity, change);
    }
    Ok(())
}

fn write_one(w: &mut Writing<'_>, kind: Type, entity: &E) -> Result<(), Fault> {
    match entity {
        E::ExternEntry(e) => Err(extern_entry(e)),
        E::TableEntry(e) => table::write(w, kind, e),
        E::ActionProfileMember(e) => profile::write_member(w, kind, e),
        E::ActionProfileGroup(e) => profile::write_group(w, kind, e),
        E::MeterEntry(e) => meter::write(w, kind, e),
        E::DirectMeterEntry(e) => meter::write_direct(w, kind, e),
        E::CounterEntry(e) => counter::write(w, kind, e),
        E::DirectCounterEntry(e) => counter::write_direct(w, kind, e),
        E::PacketReplicationEngineEntry(e) => match &e.r#type {
            Some(Pre::MulticastGroupEntry(e)) => replication::write_group(w, kind, e),
            Some(Pre::CloneSessionEntry(e)) => replication::write_session(w, kind, e),
            None => Err(fault!(InvalidArgument, "the packet replication entry is empty")),
        },
        E::ValueSetEntry(e) => value_set::write(w, kind, e),
        E::RegisterEntry(e) => register::write(w, kind, e),
        E::DigestEntry(e) => digest::write(w, kind, e),
    }
}

/// A meter goes on from the counts of another process's, which has the same rates.
pub fn carry_meter(w: &mut Writing<'_>, told: &v1::Entity) -> Result<(), Fault> {
    match &told.entity {
        Some(E::MeterEntry(e)) => meter::carry(w, e),
        Some(E::DirectMeterEntry(e)) => meter::carry_direct(w, e),
        _ => Err(fault!(Internal, "what is told is no meter")),
    }
}

/// Adds what an entity asks for.
pub fn read(r: &mut Reading<'_>, asked: &v1::Entity) -> Result<(), Fault> {
    let Some(entity) = &asked.entity else {
        return Err(fault!(InvalidArgument, "an entity of the request is empty"));
    };
    match entity {
        E::ExternEntry(e) => Err(extern_entry(e)),
        E::TableEntry(e) => table::read(r, e),
        E::ActionProfileMember(e) => profile::read_members(r, e),
        E::ActionProfileGroup(e) => profile::read_groups(r, e),
        E::MeterEntry(e) => meter::read(r, e),
        E::DirectMeterEntry(e) => meter::read_direct(r, e),
        E::CounterEntry(e) => counter::read(r, e),
        E::DirectCounterEntry(e) => counter::read_direct(r, e),
        E::PacketReplicationEngineEntry(e) => match &e.r#type {
            Some(Pre::MulticastGroupEntry(e)) => replication::read_groups(r, e),
            Some(Pre::CloneSessionEntry(e)) => replication::read_sessions(r, e),
            None => Err(fault!(
                InvalidArgument,
                "say which: multicast_group_entry or clone_session_entry, with id 0 for all"
            )),
        },
        E::ValueSetEntry(e) => value_set::read(r, e),
        E::RegisterEntry(e) => register::read(r, e),
        E::DigestEntry(e) => digest::read(r, e),
    }
}

fn extern_entry(e: &v1::ExternEntry) -> Fault {
    fault!(
        Unimplemented,
        "extern entries are not known here (extern_type_id {}, extern_id {}): v1model has none",
        e.extern_type_id,
        e.extern_id
    )
}
