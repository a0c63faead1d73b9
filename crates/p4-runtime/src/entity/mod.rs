//! What can be written and read: a file each, with its rules, both ways.
//!
//! [`write`] and [`read`] tell which file an entity is for. Writing does not touch the switch: it changes what the
//! program's control has, and leaves updates and effects for whoever began ([`Writing`]).

mod counter;
mod digest;
mod meter;
mod profile;
mod register;
mod replication;
pub(crate) mod table;
mod value_set;

use crate::code::{Fault, fault};
use crate::host::SwitchPlane;
use crate::proto::v1;
use crate::schema::Schema;
use ir::{Bits, EntryId, RegisterId, Update};
use p4::control::Control;
use std::collections::BTreeMap;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::update::Type;

pub use digest::Config as DigestConfig;

/// Something that is done to the switch after the updates of a batch.
#[derive(Debug)]
pub enum Effect {
    /// A cell of a register.
    Register(RegisterId, u32, Bits),
    /// All cells of a register.
    Registers(RegisterId, u32, Bits),
    /// A cell of a counter array: packets and bytes.
    Counter(u32, u32, (u64, u64)),
    /// What an entry has counted.
    EntryCounter(EntryId, (u64, u64)),
}

impl Effect {
    /// Does it.
    pub fn happen(self, plane: &mut SwitchPlane) {
        use p4::commands::Plane as _;
        let done = match self {
            Effect::Register(register, index, value) => plane.set_register(register, index, &value),
            Effect::Registers(register, size, value) => {
                (0..size).try_for_each(|index| plane.set_register(register, index, &value))
            }
            Effect::Counter(array, index, to) => {
                plane.set_counter(array, index, to);
                Ok(())
            }
            Effect::EntryCounter(entry, to) => {
                plane.set_entry_counter(entry, to);
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::error!(%error, "a value is not written");
        }
    }
}

/// What is being written.
pub struct Writing<'a> {
    /// The client's view.
    pub schema: &'a Schema,
    /// The program.
    pub control: &'a mut Control,
    /// What digests are told of, by id.
    pub digests: &'a mut BTreeMap<u32, DigestConfig>,
    /// The client's role.
    pub role: &'a str,
    /// The switch's clock.
    pub now_ns: u64,
    /// For the switch.
    pub updates: Vec<Update>,
    /// After them.
    pub effects: Vec<Effect>,
}

/// What is being read.
pub struct Reading<'a> {
    /// The client's view.
    pub schema: &'a Schema,
    /// The program.
    pub control: &'a Control,
    /// What has counted.
    pub plane: &'a mut SwitchPlane,
    /// What digests are told of, by id.
    pub digests: &'a BTreeMap<u32, DigestConfig>,
    /// The client's role.
    pub role: &'a str,
    /// The switch's clock.
    pub now_ns: u64,
    /// What was found.
    pub out: Vec<v1::Entity>,
}

impl Writing<'_> {
    /// The role may write what has this id.
    fn allowed(&self, id: u32, what: &str) -> Result<(), Fault> {
        match self.schema.allows(self.role, id) {
            true => Ok(()),
            false => Err(fault!(
                PermissionDenied,
                "{what} is for the role \"{}\", not for \"{}\"",
                self.schema.roles.get(&id).map_or("", String::as_str),
                self.role
            )),
        }
    }

    fn take(&mut self, updates: Vec<Update>) {
        self.updates.extend(updates);
    }
}

impl Reading<'_> {
    fn tell(&mut self, entity: E) {
        self.out.push(v1::Entity { entity: Some(entity) });
    }

    fn allows(&self, id: u32) -> bool {
        self.schema.allows(self.role, id)
    }

    /// What of a list is asked for: one thing by its id, or all with 0. Those for other roles are left out.
    fn chosen<'s, T>(
        &self,
        all: &'s BTreeMap<u32, T>,
        id: u32,
        what: &str,
    ) -> Result<Vec<(u32, &'s T)>, Fault> {
        if id == 0 {
            return Ok(all
                .iter()
                .filter(|(id, _)| self.allows(**id))
                .map(|(i, t)| (*i, t))
                .collect());
        }
        match all.get(&id) {
            Some(one) if self.allows(id) => Ok(vec![(id, one)]),
            Some(_) => Ok(Vec::new()),
            None => Err(unknown(what, id)),
        }
    }
}

/// There is no such thing in the client's P4Info.
fn unknown(what: &str, id: u32) -> Fault {
    fault!(NotFound, "the P4Info has no {what} with the id {id} ({id:#010x})")
}

/// The kind of an update; unspecified is refused.
fn kind(update: &v1::Update) -> Result<Type, Fault> {
    match Type::try_from(update.r#type) {
        Ok(Type::Unspecified) => {
            Err(fault!(InvalidArgument, "the update has no type; INSERT, MODIFY and DELETE are"))
        }
        Ok(kind) => Ok(kind),
        Err(_) => Err(fault!(InvalidArgument, "{} is no type of an update", update.r#type)),
    }
}

/// Only MODIFY is for what is always there.
fn only_modify(kind: Type, what: &str) -> Result<(), Fault> {
    match kind {
        Type::Modify => Ok(()),
        _ => Err(fault!(InvalidArgument, "{what} is always there: only MODIFY is for it")),
    }
}

/// A cell's index: one, or all if none is given.
fn index(index: Option<&v1::Index>, size: u32, name: &str) -> Result<Option<u32>, Fault> {
    let Some(v1::Index { index }) = index else { return Ok(None) };
    match u32::try_from(*index) {
        Ok(at) if at < size => Ok(Some(at)),
        Ok(_) => Err(fault!(
            OutOfRange,
            "`{name}`: index {index}; it has {size} cells, 0 to {}",
            size.saturating_sub(1)
        )),
        Err(_) if *index < 0 => Err(fault!(InvalidArgument, "`{name}`: index {index} is negative")),
        Err(_) => Err(fault!(OutOfRange, "`{name}`: index {index}; it has {size} cells")),
    }
}

/// Does one update.
pub fn write(w: &mut Writing<'_>, update: &v1::Update) -> Result<(), Fault> {
    let kind = kind(update)?;
    let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
    let Some(entity) = entity else {
        return Err(fault!(InvalidArgument, "the update has no entity"));
    };
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
