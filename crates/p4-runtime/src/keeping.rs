//! What clients have written, as keys and values that outlive the process.
//!
//! | key | value |
//! |---|---|
//! | pipeline | who has set it, and its `ForwardingPipelineConfig` |
//! | string: its type, its number | the string |
//! | member, group, multicast group, clone session, value set, table entry, default action, meter's cell, digest | the entity, as a client reads it |
//!
//! Keys sort in the order in which they are put back. An entity's key is what tells it from others in P4Runtime: ids, and of
//! table entries match and priority. A change says what an entity is then, so it does not matter why it changed.
//!
//! Left out: counts of counters, meters and registers.

use crate::entity::{self, Reading};
use crate::proto::v1;
use prost::Message as _;
use std::collections::BTreeMap;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;

/// All that is kept at a moment.
pub type Image = BTreeMap<Box<[u8]>, Box<[u8]>>;
/// A key, and its value from now on, if it has one.
pub type Change = (Box<[u8]>, Option<Box<[u8]>>);

/// Who keeps what changes.
pub trait Keeper: Send {
    /// One transaction. It is called while nothing else changes, in the order of changes.
    fn keep(&mut self, changes: &[Change]);
}

const PIPELINE: u8 = 0x10;
const STRING: u8 = 0x20;
const MEMBER: u8 = 0x30;
const GROUP: u8 = 0x40;
const MULTICAST: u8 = 0x50;
const SESSION: u8 = 0x58;
const VALUE_SET: u8 = 0x60;
const ENTRY: u8 = 0x70;
const DEFAULT: u8 = 0x78;
const METER: u8 = 0x80;
const DIGEST: u8 = 0x90;

/// The key of the pipeline.
pub(crate) const PIPELINE_KEY: [u8; 1] = [PIPELINE];

fn numbered(kind: u8, numbers: &[u32]) -> Box<[u8]> {
    std::iter::once(kind).chain(numbers.iter().flat_map(|n| n.to_be_bytes())).collect()
}

/// The key of a string, by its type's name and bits and by its number.
pub(crate) fn string_key((name, width): (&str, u32), number: u128) -> Box<[u8]> {
    let mut key = vec![STRING];
    key.extend((name.len() as u32).to_be_bytes());
    key.extend(name.as_bytes());
    key.extend(width.to_be_bytes());
    key.extend(number.to_be_bytes());
    key.into()
}

/// Type and number of a string's key; none if it is none.
pub(crate) fn string_of(key: &[u8]) -> Option<((String, u32), u128)> {
    let (length, rest) = key.strip_prefix(&[STRING])?.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let (width, number) = rest.split_first_chunk::<4>()?;
    let number = u128::from_be_bytes(number.try_into().ok()?);
    Some(((String::from_utf8(name.to_vec()).ok()?, u32::from_be_bytes(*width)), number))
}

fn entry_key(e: &v1::TableEntry) -> Box<[u8]> {
    if e.is_default_action {
        return numbered(DEFAULT, &[e.table_id]);
    }
    let mut key = numbered(ENTRY, &[e.table_id, e.priority as u32]).into_vec();
    let only = v1::TableEntry { r#match: e.r#match.clone(), ..v1::TableEntry::default() };
    key.extend(only.encode_to_vec());
    key.into()
}

/// The key of an entity; none if it is not kept.
fn key_of(entity: &E) -> Option<Box<[u8]>> {
    Some(match entity {
        E::TableEntry(e) => entry_key(e),
        E::DirectMeterEntry(e) => entry_key(e.table_entry.as_ref()?),
        E::ActionProfileMember(e) => numbered(MEMBER, &[e.action_profile_id, e.member_id]),
        E::ActionProfileGroup(e) => numbered(GROUP, &[e.action_profile_id, e.group_id]),
        E::PacketReplicationEngineEntry(e) => match e.r#type.as_ref()? {
            Pre::MulticastGroupEntry(e) => numbered(MULTICAST, &[e.multicast_group_id]),
            Pre::CloneSessionEntry(e) => numbered(SESSION, &[e.session_id]),
        },
        E::ValueSetEntry(e) => numbered(VALUE_SET, &[e.value_set_id]),
        E::MeterEntry(e) => {
            let index = u32::try_from(e.index.as_ref()?.index).ok()?;
            numbered(METER, &[e.meter_id, index])
        }
        E::DigestEntry(e) => numbered(DIGEST, &[e.digest_id]),
        E::ExternEntry(_) | E::CounterEntry(_) | E::DirectCounterEntry(_) | E::RegisterEntry(_) => {
            return None;
        }
    })
}

/// An entity is always there: it is modified, and neither inserted nor deleted.
pub(crate) fn is_always_there(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(VALUE_SET | DEFAULT | METER)))
}

/// The key is an entity's.
pub(crate) fn is_entity(key: &[u8]) -> bool {
    key.first().is_some_and(|kind| (MEMBER..=DIGEST).contains(kind))
}

/// What of an entity there is to keep.
fn change(entity: v1::Entity) -> Option<Change> {
    let key = key_of(entity.entity.as_ref()?)?;
    // A meter without rates is as the program has it.
    let is_bare = matches!(&entity.entity, Some(E::MeterEntry(e)) if e.config.is_none());
    Some((key, (!is_bare).then(|| entity.encode_to_vec().into())))
}

fn asked(entity: E) -> v1::Entity {
    v1::Entity { entity: Some(entity) }
}

fn with_meter(e: v1::TableEntry) -> v1::TableEntry {
    v1::TableEntry { meter_config: Some(v1::MeterConfig::default()), ..e }
}

/// All entities that are kept.
pub(crate) fn entities(r: &mut Reading<'_>) -> Image {
    let default = v1::TableEntry { is_default_action: true, ..v1::TableEntry::default() };
    let replication =
        |of| E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(of) });
    let all = [
        E::ActionProfileMember(v1::ActionProfileMember::default()),
        E::ActionProfileGroup(v1::ActionProfileGroup::default()),
        replication(Pre::MulticastGroupEntry(v1::MulticastGroupEntry::default())),
        replication(Pre::CloneSessionEntry(v1::CloneSessionEntry::default())),
        E::ValueSetEntry(v1::ValueSetEntry::default()),
        E::TableEntry(with_meter(v1::TableEntry::default())),
        E::TableEntry(with_meter(default)),
        E::MeterEntry(v1::MeterEntry::default()),
        E::DigestEntry(v1::DigestEntry::default()),
    ];
    let mut image = Image::new();
    for of in all {
        let what = asked(of);
        if let Err(fault) = entity::read(r, &what) {
            tracing::error!(error = fault.text, "what clients have written is not read back");
        }
        let told = std::mem::take(&mut r.out).into_iter().filter_map(change);
        image.extend(told.filter_map(|(key, value)| Some((key, value?))));
    }
    image
}

/// What a written entity is now.
pub(crate) fn looked(r: &mut Reading<'_>, written: &E) -> Vec<Change> {
    let of_entry = match written {
        E::TableEntry(e) => Some(e),
        E::DirectMeterEntry(e) => e.table_entry.as_ref(),
        _ => None,
    };
    if let Some(e) = of_entry.filter(|e| !e.is_default_action) {
        // What it was written with besides is not asked for.
        let (table_id, r#match, priority) = (e.table_id, e.r#match.clone(), e.priority);
        let of = v1::TableEntry { table_id, r#match, priority, ..v1::TableEntry::default() };
        let Some((named, there)) = entity::table::named_entry(r, &with_meter(of)) else {
            return Vec::new();
        };
        let value = there.map(|e| asked(E::TableEntry(e)).encode_to_vec().into());
        return vec![(entry_key(&named), value)];
    }
    let wanted = match (written, of_entry) {
        (_, Some(e)) => {
            let is_default_action = true;
            let table_id = e.table_id;
            let of = v1::TableEntry { table_id, is_default_action, ..v1::TableEntry::default() };
            E::TableEntry(with_meter(of))
        }
        (E::MeterEntry(e), _) => {
            let (meter_id, index) = (e.meter_id, e.index);
            E::MeterEntry(v1::MeterEntry { meter_id, index, ..v1::MeterEntry::default() })
        }
        (other, _) => other.clone(),
    };
    let key = key_of(&wanted);
    // What is refused is not there.
    let read = entity::read(r, &asked(wanted));
    let told = std::mem::take(&mut r.out).into_iter().filter_map(change);
    // Ids of 0 may have asked for all.
    let mut told: Vec<Change> =
        told.filter(|(of, _)| key.as_ref().is_none_or(|key| key == of)).collect();
    if let (Some(key), true) = (key, told.is_empty() || read.is_err()) {
        told = vec![(key, None)];
    }
    told
}

/// An entity that was kept.
pub(crate) fn entity_of(value: &[u8]) -> Option<v1::Entity> {
    v1::Entity::decode(value).ok()
}

/// What makes one image of the other, which is that from then on.
pub(crate) fn difference(old: &mut Image, new: Image) -> Vec<Change> {
    let mut changes: Vec<Change> =
        old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), None)).collect();
    for (key, value) in &new {
        if old.get(key) != Some(value) {
            changes.push((key.clone(), Some(value.clone())));
        }
    }
    *old = new;
    changes
}

/// Leaves changes out that change nothing of an image.
pub(crate) fn retain(changes: &mut Vec<Change>, image: &Image) {
    changes.retain(|(key, value)| image.get(key) != value.as_ref());
}

/// Takes changes into an image.
pub(crate) fn absorb(image: &mut Image, changes: Vec<Change>) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(image.insert(key, value)),
            None => drop(image.remove(&key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_strings_are_read_back() {
        let key = string_key(("a/b", 9), 7);
        assert_eq!(string_of(&key), Some((("a/b".to_owned(), 9), 7)));
        for length in 0..key.len() {
            assert_eq!(string_of(&key[..length]), None);
        }
        assert!(!is_entity(&key) && !is_entity(&PIPELINE_KEY));
    }

    #[test]
    fn a_difference_makes_one_of_the_other() {
        let image = |all: &[(u8, u8)]| -> Image {
            all.iter().map(|(k, v)| (Box::from([*k]), Box::from([*v]))).collect()
        };
        let (mut old, new) = (image(&[(1, 1), (2, 2), (3, 3)]), image(&[(2, 2), (3, 4), (5, 5)]));
        let mut by_changes = old.clone();
        let mut changes = difference(&mut old, new.clone());
        assert_eq!((changes.len(), &old), (3, &new));
        absorb(&mut by_changes, changes.clone());
        assert_eq!(by_changes, new);
        retain(&mut changes, &by_changes);
        assert_eq!(changes, [], "it is that already");
    }
}
