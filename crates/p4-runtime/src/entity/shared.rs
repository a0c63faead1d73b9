//! What the files of entities have in common: what is written, what is read, what is wrong with ids and indexes.

use super::digest_config::Config as DigestConfig;
use crate::code::{Fault, fault};
use crate::host::{COLOURS, SwitchPlane};
use crate::proto::v1;
use crate::reference::{Index, References};
use crate::role::Rights;
use crate::schema::Schema;
use ir::{Bits, EntryId, Meter, MeterId, RegisterId, Update};
use p4::control::Control;
use std::collections::BTreeMap;
use std::sync::Arc;
use v1::entity::Entity as E;
use v1::update::Type;

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
    /// A meter has got rates, or has none any more: counts that were written before are no more.
    MeterFresh(MeterId),
    /// What a meter with these rates has counted by colour.
    MeterCounts(MeterId, Arc<Meter>, [(u64, u64); COLOURS]),
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
            Effect::MeterFresh(id) => {
                plane.count_meter_anew(id);
                Ok(())
            }
            Effect::MeterCounts(id, meter, to) => {
                plane.set_meter_counts(id, &meter, to);
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
    /// Who refers to what, where the program has references.
    pub references: Option<(&'a References, &'a mut Index)>,
    /// The client's role.
    pub role: &'a str,
    /// What it may write.
    pub rights: &'a Rights,
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
    /// What it may read.
    pub rights: &'a Rights,
    /// The switch's clock.
    pub now_ns: u64,
    /// What was found.
    pub out: Vec<v1::Entity>,
}

impl Writing<'_> {
    /// The role may write what has this id.
    pub(super) fn allowed(&self, id: u32, what: std::fmt::Arguments<'_>) -> Result<(), Fault> {
        if !self.schema.allows(self.role, id) {
            return Err(fault!(
                PermissionDenied,
                "{what} is for the role \"{}\", not for \"{}\"",
                self.schema.roles.get(&id).map_or("", String::as_str),
                self.role
            ));
        }
        match self.rights.allow(id) {
            true => Ok(()),
            false => Err(fault!(
                PermissionDenied,
                "{what} is not for the role \"{}\", as its role.config or another role's says",
                self.role
            )),
        }
    }

    pub(super) fn take(&mut self, updates: Vec<Update>) {
        self.updates.extend(updates);
    }
}

impl Reading<'_> {
    pub(super) fn tell(&mut self, entity: E) {
        self.out.push(v1::Entity { entity: Some(entity) });
    }

    pub(super) fn allows(&self, id: u32) -> bool {
        self.schema.allows(self.role, id) && self.rights.allow(id)
    }

    /// What of a list is asked for: one thing by its id, or all with 0. Those for other roles are left out.
    pub(super) fn chosen<'s, T>(
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
pub(super) fn unknown(what: &str, id: u32) -> Fault {
    fault!(NotFound, "the P4Info has no {what} with the id {id} ({id:#010x})")
}

/// The kind of an update; unspecified is refused.
pub(super) fn kind(update: &v1::Update) -> Result<Type, Fault> {
    match Type::try_from(update.r#type) {
        Ok(Type::Unspecified) => {
            Err(fault!(InvalidArgument, "the update has no type; INSERT, MODIFY and DELETE are"))
        }
        Ok(kind) => Ok(kind),
        Err(_) => Err(fault!(InvalidArgument, "{} is no type of an update", update.r#type)),
    }
}

/// Only MODIFY is for what is always there.
pub(super) fn only_modify(kind: Type, what: &str) -> Result<(), Fault> {
    match kind {
        Type::Modify => Ok(()),
        _ => Err(fault!(InvalidArgument, "{what} is always there: only MODIFY is for it")),
    }
}

/// A cell's index: one, or all if none is given.
pub(super) fn index(
    index: Option<&v1::Index>,
    size: u32,
    name: &str,
) -> Result<Option<u32>, Fault> {
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
