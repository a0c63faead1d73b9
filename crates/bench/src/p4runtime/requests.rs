//! What is written: host entries, members and groups, by the ids of the program's P4Info.

use control::failure::Failure;
use p4_runtime::canonical::write_number;
use p4_runtime::proto::{info, v1};
use std::collections::HashMap;
use std::ops::Range;
use v1::entity::Entity as E;
use v1::field_match::{Exact, FieldMatchType};
use v1::table_action::Type as A;
use v1::update::Type;

/// Members, and groups of four of them.
pub(super) const MEMBERS: usize = 8000;
pub(super) const GROUPS: usize = 2000;
/// The first host's address.
const FIRST: u32 = 0x0a00_0001;
/// Members of a group.
const EACH: usize = 4;

/// The address of a host.
pub(super) fn address(n: usize) -> u32 {
    FIRST + n as u32
}

/// An entry with the bytes of its key.
fn keyed(entity: &v1::Entity) -> Option<(&[u8], &v1::TableEntry)> {
    let Some(E::TableEntry(e)) = &entity.entity else { return None };
    match e.r#match.first()?.field_match_type.as_ref()? {
        FieldMatchType::Exact(key) => Some((&key.value, e)),
        _ => None,
    }
}

/// Ids.
pub(super) struct Requests {
    hosts: u32,
    forward: u32,
    hops: u32,
}

impl Requests {
    pub(super) fn of(info: &info::P4Info) -> Result<Requests, Failure> {
        let tables = info.tables.iter().map(|t| &t.preamble);
        let actions = info.actions.iter().map(|a| &a.preamble);
        let profiles = info.action_profiles.iter().map(|p| &p.preamble);
        let all: Vec<&info::Preamble> = tables.chain(actions).chain(profiles).flatten().collect();
        let id = |name: &str| {
            let found = all.iter().find(|p| p.name == name).map(|p| p.id);
            found.ok_or_else(|| Failure::Bad(format!("the program has no {name}")))
        };
        Ok(Requests { hosts: id("I.hosts")?, forward: id("I.forward")?, hops: id("I.hops")? })
    }

    fn forward(&self, n: usize) -> v1::Action {
        let param =
            |param_id, value: u64| v1::action::Param { param_id, value: write_number(value) };
        let params = vec![param(1, 0x0200_0000_0000 + n as u64), param(2, n as u64 % 256)];
        v1::Action { action_id: self.forward, params }
    }

    /// Hosts that are reached by one port.
    pub(super) fn to_port(&self, which: Range<usize>, port: u32) -> v1::WriteRequest {
        let entry = |n: usize| {
            let mut action = self.forward(n);
            action.params[1].value = write_number(port.into());
            let action = Some(v1::TableAction { r#type: Some(A::Action(action)) });
            E::TableEntry(v1::TableEntry { action, ..self.host(n) })
        };
        Self::write(Type::Insert, which.map(entry))
    }

    /// How many of these hosts are among what was read, as they were written.
    pub(super) fn how_many(&self, told: &[v1::Entity], which: Range<usize>) -> usize {
        let held: HashMap<&[u8], &v1::TableEntry> = told.iter().filter_map(keyed).collect();
        let is = |n: &usize| {
            let host = self.host(*n);
            let entity = v1::Entity { entity: Some(E::TableEntry(host)) };
            keyed(&entity).is_some_and(|(key, host)| held.get(key) == Some(&host))
        };
        which.filter(is).count()
    }

    fn host(&self, n: usize) -> v1::TableEntry {
        let value = write_number(address(n).into());
        v1::TableEntry {
            table_id: self.hosts,
            r#match: vec![v1::FieldMatch {
                field_id: 1,
                field_match_type: Some(FieldMatchType::Exact(Exact { value })),
            }],
            action: Some(v1::TableAction { r#type: Some(A::Action(self.forward(n))) }),
            ..v1::TableEntry::default()
        }
    }

    fn write(kind: Type, all: impl Iterator<Item = E>) -> v1::WriteRequest {
        let update = |entity| v1::Update {
            r#type: kind as i32,
            entity: Some(v1::Entity { entity: Some(entity) }),
        };
        v1::WriteRequest {
            device_id: 1,
            election_id: Some(v1::Uint128 { high: 0, low: 1 }),
            updates: all.map(update).collect(),
            ..v1::WriteRequest::default()
        }
    }

    fn read(entity: E) -> v1::ReadRequest {
        let entities = vec![v1::Entity { entity: Some(entity) }];
        v1::ReadRequest { device_id: 1, entities, ..v1::ReadRequest::default() }
    }

    pub(super) fn entries(&self, kind: Type, which: Range<usize>) -> v1::WriteRequest {
        Self::write(kind, which.map(|n| E::TableEntry(self.host(n))))
    }

    pub(super) fn members(&self, kind: Type) -> v1::WriteRequest {
        let member = |n: usize| v1::ActionProfileMember {
            action_profile_id: self.hops,
            member_id: n as u32 + 1,
            action: Some(self.forward(n)),
        };
        Self::write(kind, (0..MEMBERS).map(|n| E::ActionProfileMember(member(n))))
    }

    pub(super) fn groups(&self, kind: Type) -> v1::WriteRequest {
        let member = |n: usize| v1::action_profile_group::Member {
            member_id: (n % MEMBERS) as u32 + 1,
            weight: 1,
            watch_kind: None,
        };
        let group = |n: usize| v1::ActionProfileGroup {
            action_profile_id: self.hops,
            group_id: n as u32 + 1,
            members: (n * EACH..(n + 1) * EACH).map(member).collect(),
            max_size: 0,
        };
        Self::write(kind, (0..GROUPS).map(|n| E::ActionProfileGroup(group(n))))
    }

    /// Asks for all entries of the hosts' table.
    pub(super) fn all_entries(&self) -> v1::ReadRequest {
        let asked = v1::TableEntry { table_id: self.hosts, ..v1::TableEntry::default() };
        Self::read(E::TableEntry(asked))
    }

    /// Asks for members, and for groups.
    pub(super) fn profile(&self) -> (v1::ReadRequest, v1::ReadRequest) {
        let action_profile_id = self.hops;
        let member =
            v1::ActionProfileMember { action_profile_id, ..v1::ActionProfileMember::default() };
        let group =
            v1::ActionProfileGroup { action_profile_id, ..v1::ActionProfileGroup::default() };
        (Self::read(E::ActionProfileMember(member)), Self::read(E::ActionProfileGroup(group)))
    }

    /// What was read is what was written.
    pub(super) fn are_all(&self, told: &[v1::Entity], entries: usize) -> Result<(), Failure> {
        let mut seen = vec![false; entries];
        for entity in told {
            let Some((key, e)) = keyed(entity) else {
                return Err(Failure::bad("something that is no entry was read"));
            };
            let address = key.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
            let n = address.wrapping_sub(FIRST.into()) as usize;
            match seen.get_mut(n) {
                Some(seen) if !*seen && *e == self.host(n) => *seen = true,
                _ => {
                    return Err(Failure::Bad(format!(
                        "an entry was read that was not written: {e:?}"
                    )));
                }
            }
        }
        match seen.iter().all(|seen| *seen) {
            true => Ok(()),
            false => Err(Failure::Bad(format!("{} of {entries} entries were read", told.len()))),
        }
    }
}
