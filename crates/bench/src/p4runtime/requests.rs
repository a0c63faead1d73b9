//! What is written: host entries, members and groups, by the ids of the program's P4Info.

use super::{GROUPS, MEMBERS};
use control::failure::Failure;
use p4_runtime::canonical::write_number;
use p4_runtime::proto::{info, v1};
use std::ops::Range;
use v1::entity::Entity as E;
use v1::field_match::{Exact, FieldMatchType};
use v1::table_action::Type as A;
use v1::update::Type;

/// The first host's address.
const FIRST: u32 = 0x0a00_0001;
/// Members of a group.
const EACH: usize = 4;

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

    fn host(&self, n: usize) -> v1::TableEntry {
        let value = write_number(u64::from(FIRST) + n as u64);
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
            let Some(E::TableEntry(e)) = &entity.entity else {
                return Err(Failure::bad("something that is no entry was read"));
            };
            let Some(FieldMatchType::Exact(key)) =
                e.r#match.first().and_then(|m| m.field_match_type.as_ref())
            else {
                return Err(Failure::bad("an entry without its key was read"));
            };
            let address = key.value.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
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
