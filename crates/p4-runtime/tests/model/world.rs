//! The plain model: what a device holds, in maps, and what each update makes of it.
//!
//! It shares no code with the server but the messages. What it holds is what is read back.

use super::common::{Bed, action, exact};
use p4_runtime::proto::v1;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use v1::entity::Entity as E;
use v1::field_match::FieldMatchType as F;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::table_action::Type as A;
use v1::update::Type;

/// Canonical codes.
pub(crate) const OK: i32 = 0;
pub(crate) const INVALID: i32 = 3;
pub(crate) const MISSING: i32 = 5;
pub(crate) const EXISTS: i32 = 6;
pub(crate) const DENIED: i32 = 7;
pub(crate) const FULL: i32 = 8;
pub(crate) const PRECONDITION: i32 = 9;
pub(crate) const ABORTED: i32 = 10;
pub(crate) const RANGE: i32 = 11;
pub(crate) const UNKNOWN: i32 = 12;

/// What the program declares.
pub(crate) const MEMBERS_MAX: usize = 6;
pub(crate) const GROUP_MAX: i32 = 4;
pub(crate) const COUNTERS: i64 = 4;
pub(crate) const METERS: i64 = 2;
pub(crate) const REGISTERS: i64 = 3;
pub(crate) const SEEN_MAX: usize = 4;

/// Ids of the P4Info.
#[derive(Clone)]
pub(crate) struct Ids {
    pub(crate) exactly: u32,
    pub(crate) longest: u32,
    pub(crate) many: u32,
    pub(crate) slow: u32,
    pub(crate) spread: u32,
    pub(crate) fixed: u32,
    pub(crate) extra: u32,
    pub(crate) go: u32,
    pub(crate) drop: u32,
    pub(crate) paced: u32,
    pub(crate) hops: u32,
    pub(crate) hits: u32,
    pub(crate) rate: u32,
    pub(crate) last: u32,
    pub(crate) seen: u32,
    pub(crate) learn: u32,
}

impl Ids {
    pub(crate) fn of(bed: &Bed, extra: u32) -> Ids {
        Ids {
            exactly: bed.id("I.exactly"),
            longest: bed.id("I.longest"),
            many: bed.id("I.many"),
            slow: bed.id("I.slow"),
            spread: bed.id("I.spread"),
            fixed: bed.id("I.fixed"),
            extra,
            go: bed.id("I.go"),
            drop: bed.id("I.drop"),
            paced: bed.id("I.paced"),
            hops: bed.id("I.hops"),
            hits: bed.id("I.hits"),
            rate: bed.id("I.rate"),
            last: bed.id("I.last"),
            seen: bed.id("P.seen"),
            learn: bed.id("learn_t"),
        }
    }
}

/// What a key is found by: table, match, priority.
pub(crate) type Key = (u32, Vec<u8>, i32);

/// All that is in a device, as it is read.
#[derive(Clone, Default, Debug, PartialEq)]
pub(crate) struct World {
    /// The program has the table `extra`.
    pub(crate) has_extra: bool,
    /// With direct counter and meter, where the table has them.
    pub(crate) entries: BTreeMap<Key, v1::TableEntry>,
    /// Actions of defaults that were set, by table.
    pub(crate) defaults: BTreeMap<u32, v1::TableAction>,
    pub(crate) members: BTreeMap<u32, v1::Action>,
    pub(crate) groups: BTreeMap<u32, v1::ActionProfileGroup>,
    pub(crate) counters: BTreeMap<i64, v1::CounterData>,
    /// Rates, and counts by colour.
    pub(crate) meters: BTreeMap<i64, (v1::MeterConfig, v1::MeterCounterData)>,
    pub(crate) registers: BTreeMap<i64, Vec<u8>>,
    pub(crate) multicast: BTreeMap<u32, v1::MulticastGroupEntry>,
    pub(crate) sessions: BTreeMap<u32, v1::CloneSessionEntry>,
    pub(crate) seen: Vec<v1::ValueSetMember>,
    pub(crate) digests: BTreeMap<u32, v1::digest_entry::Config>,
}

impl World {
    /// What a program begins with.
    pub(crate) fn new(ids: &Ids, has_extra: bool) -> World {
        let mut world = World { has_extra, ..World::default() };
        for n in [1, 2] {
            let e = v1::TableEntry {
                table_id: ids.fixed,
                r#match: vec![exact(1, &[n])],
                action: Some(action(ids.go, Some(&[n]))),
                is_const: true,
                ..v1::TableEntry::default()
            };
            world.entries.insert(World::key(&e), e);
        }
        world
    }
}

type Done = Result<(), i32>;

/// Counts by colour as they are read.
fn colours(data: Option<v1::MeterCounterData>) -> v1::MeterCounterData {
    let given = data.unwrap_or_default();
    let of = |data: Option<v1::CounterData>| Some(data.unwrap_or_default());
    let (green, yellow, red) = (of(given.green), of(given.yellow), of(given.red));
    v1::MeterCounterData { green, yellow, red }
}

fn need(good: bool, code: i32) -> Done {
    if good { Ok(()) } else { Err(code) }
}

/// Bits of a number as bytes.
fn bits(bytes: &[u8]) -> u64 {
    let n = bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    u64::from(64 - n.leading_zeros())
}

impl World {
    pub(crate) fn key(e: &v1::TableEntry) -> Key {
        let whole = v1::TableEntry { r#match: e.r#match.clone(), ..v1::TableEntry::default() };
        (e.table_id, whole.encode_to_vec(), e.priority)
    }

    /// Another program has taken over the state: meters count anew.
    pub(crate) fn reconciled(&mut self) {
        for (_, counts) in self.meters.values_mut() {
            *counts = colours(None);
        }
        for e in self.entries.values_mut() {
            e.meter_counter_data = e.meter_counter_data.map(|_| colours(None));
        }
    }

    /// Does an update: the code that it is answered with. What is refused changes nothing.
    pub(crate) fn update(&mut self, ids: &Ids, kind: Type, entity: &E) -> i32 {
        let done = match entity {
            E::TableEntry(e) if e.is_default_action => self.default_action(ids, kind, e),
            E::TableEntry(e) => self.entry(ids, kind, e),
            E::ActionProfileMember(e) => self.member(ids, kind, e),
            E::ActionProfileGroup(e) => self.group(ids, kind, e),
            E::CounterEntry(e) => self.counter(kind, e),
            E::DirectCounterEntry(e) => self.direct_counter(ids, kind, e),
            E::MeterEntry(e) => self.meter(kind, e),
            E::DirectMeterEntry(e) => self.direct_meter(ids, kind, e),
            E::RegisterEntry(e) => self.register(kind, e),
            E::ValueSetEntry(e) => self.value_set(kind, e),
            E::DigestEntry(e) => self.digest(kind, e),
            E::PacketReplicationEngineEntry(e) => match &e.r#type {
                Some(Pre::MulticastGroupEntry(e)) => self.multicast(kind, e),
                Some(Pre::CloneSessionEntry(e)) => self.session(kind, e),
                None => Err(INVALID),
            },
            E::ExternEntry(_) => Err(UNKNOWN),
        };
        done.map_or_else(|code| code, |()| OK)
    }

    fn table(&self, ids: &Ids, table: u32) -> Done {
        let all = [ids.exactly, ids.longest, ids.many, ids.slow, ids.spread, ids.fixed];
        need(all.contains(&table) || (self.has_extra && table == ids.extra), MISSING)
    }

    /// The key is one that the table may have.
    fn may_be(ids: &Ids, e: &v1::TableEntry) -> Done {
        for m in &e.r#match {
            match m.field_match_type.as_ref().unwrap() {
                // Widths: `b` has 16 bits, `c` and `d` 8; `a` is never drawn too wide.
                F::Exact(m) if e.table_id == ids.exactly || e.table_id == ids.extra => {
                    need(bits(&m.value) <= 32, RANGE)?;
                }
                F::Exact(m) => need(bits(&m.value) <= 8, RANGE)?,
                F::Optional(m) => need(bits(&m.value) <= 8, RANGE)?,
                F::Range(m) => need(m.low <= m.high, INVALID)?,
                _ => {}
            }
        }
        match e.table_id == ids.many {
            true => need(e.priority > 0, INVALID),
            false => need(e.priority == 0, INVALID),
        }
    }

    fn action(ids: &Ids, allowed: &[u32], a: &v1::Action) -> Done {
        need([ids.go, ids.drop, ids.paced].contains(&a.action_id), INVALID)?;
        need(allowed.contains(&a.action_id), INVALID)?;
        let wanted = usize::from(a.action_id != ids.drop);
        a.params.iter().try_for_each(|p| need(bits(&p.value) <= 9, RANGE))?;
        need(a.params.len() == wanted, INVALID)
    }

    /// What a table's entries, or its default, may do.
    fn does(&self, ids: &Ids, table: u32, a: &v1::TableAction, default: bool) -> Done {
        let call = |a: &v1::Action| match table {
            t if t == ids.longest && a.action_id == ids.drop && !default => Err(DENIED),
            t if t == ids.slow => Self::action(ids, &[ids.paced, ids.drop], a),
            t if t == ids.extra => Self::action(ids, &[ids.go], a),
            _ => Self::action(ids, &[ids.go, ids.drop], a),
        };
        let indirect = table == ids.spread;
        match a.r#type.as_ref().unwrap() {
            A::Action(a) => {
                need(!indirect || default, INVALID)?;
                call(a)
            }
            A::ActionProfileMemberId(m) => {
                need(indirect, INVALID)?;
                need(self.members.contains_key(m), MISSING)
            }
            A::ActionProfileGroupId(g) => {
                need(indirect, INVALID)?;
                need(self.groups.contains_key(g), MISSING)
            }
            A::ActionProfileActionSet(set) => {
                need(indirect, INVALID)?;
                need(set.action_selection_mode < 3, INVALID)?;
                need(!set.action_profile_actions.is_empty(), INVALID)?;
                set.action_profile_actions.iter().try_for_each(|a| {
                    call(a.action.as_ref().unwrap())?;
                    need(a.weight > 0, INVALID)
                })?;
                let weights = set.action_profile_actions.iter().map(|a| a.weight).sum();
                let members = set.action_profile_actions.len() as i32;
                let size = if set.size_semantics == 2 { members } else { weights };
                need(size <= GROUP_MAX, FULL)
            }
        }
    }

    fn entry(&mut self, ids: &Ids, kind: Type, e: &v1::TableEntry) -> Done {
        self.table(ids, e.table_id)?;
        need(e.table_id != ids.fixed, DENIED)?;
        Self::may_be(ids, e)?;
        let key = Self::key(e);
        if kind == Type::Delete {
            return self.entries.remove(&key).map(drop).ok_or(MISSING);
        }
        need(e.counter_data.is_none() || e.table_id == ids.exactly, INVALID)?;
        need(e.meter_config.is_none() || e.table_id == ids.slow, INVALID)?;
        need(e.meter_config.is_none_or(|c| c.cir <= c.pir), INVALID)?;
        need(e.meter_config.is_some() || e.meter_counter_data.is_none(), INVALID)?;
        need(e.idle_timeout_ns == 0 || e.table_id == ids.exactly, INVALID)?;
        let was = self.entries.get(&key);
        match kind {
            Type::Modify => need(was.is_some(), MISSING)?,
            _ => need(was.is_none(), EXISTS)?,
        }
        let action = e.action.as_ref().ok_or(INVALID)?;
        self.does(ids, e.table_id, action, false)?;
        let mut new = e.clone();
        new.meter_counter_data = e.meter_config.map(|_| colours(e.meter_counter_data));
        if e.table_id == ids.exactly && new.counter_data.is_none() {
            // Nothing is said of it: it goes on.
            let before = was.and_then(|e| e.counter_data);
            new.counter_data = Some(before.unwrap_or_default());
        }
        self.entries.insert(key, new);
        Ok(())
    }

    fn default_action(&mut self, ids: &Ids, kind: Type, e: &v1::TableEntry) -> Done {
        self.table(ids, e.table_id)?;
        need(kind == Type::Modify, INVALID)?;
        need(e.r#match.is_empty() && e.priority == 0, INVALID)?;
        match &e.action {
            None => drop(self.defaults.remove(&e.table_id)),
            Some(action) => {
                self.does(ids, e.table_id, action, true)?;
                self.defaults.insert(e.table_id, action.clone());
            }
        }
        Ok(())
    }

    /// What entries and defaults refer to.
    fn used(&self) -> BTreeSet<(bool, u32)> {
        let entries = self.entries.values().filter_map(|e| e.action.as_ref());
        let all = entries.chain(self.defaults.values());
        let refers = |a: &v1::TableAction| match a.r#type {
            Some(A::ActionProfileMemberId(m)) => Some((true, m)),
            Some(A::ActionProfileGroupId(g)) => Some((false, g)),
            _ => None,
        };
        all.filter_map(refers).collect()
    }

    fn member(&mut self, ids: &Ids, kind: Type, e: &v1::ActionProfileMember) -> Done {
        need(e.action_profile_id == ids.hops, MISSING)?;
        let there = self.members.contains_key(&e.member_id);
        if kind == Type::Delete {
            need(there, MISSING)?;
            let grouped =
                self.groups.values().any(|g| g.members.iter().any(|m| m.member_id == e.member_id));
            need(!grouped && !self.used().contains(&(true, e.member_id)), PRECONDITION)?;
            self.members.remove(&e.member_id);
            return Ok(());
        }
        let action = e.action.as_ref().ok_or(INVALID)?;
        Self::action(ids, &[ids.go, ids.drop], action)?;
        match kind {
            Type::Modify => need(there, MISSING)?,
            _ => {
                need(!there, EXISTS)?;
                need(self.members.len() < MEMBERS_MAX, FULL)?;
            }
        }
        self.members.insert(e.member_id, action.clone());
        Ok(())
    }

    fn group(&mut self, ids: &Ids, kind: Type, e: &v1::ActionProfileGroup) -> Done {
        need(e.action_profile_id == ids.hops, MISSING)?;
        let was = self.groups.get(&e.group_id);
        if kind == Type::Delete {
            need(was.is_some(), MISSING)?;
            need(!self.used().contains(&(false, e.group_id)), PRECONDITION)?;
            self.groups.remove(&e.group_id);
            return Ok(());
        }
        need(e.max_size >= 0, INVALID)?;
        need(e.members.iter().all(|m| m.weight > 0), INVALID)?;
        let single: BTreeSet<u32> = e.members.iter().map(|m| m.member_id).collect();
        need(single.len() == e.members.len(), INVALID)?;
        let mut max_size = e.max_size;
        if kind == Type::Modify {
            let was = was.ok_or(MISSING)?;
            need(max_size == 0 || max_size == was.max_size, INVALID)?;
            max_size = was.max_size;
        }
        need(single.iter().all(|m| self.members.contains_key(m)), MISSING)?;
        need(max_size <= GROUP_MAX, INVALID)?;
        let places: i32 = e.members.iter().map(|m| m.weight).sum();
        need(places <= if max_size == 0 { GROUP_MAX } else { max_size }, FULL)?;
        need(kind == Type::Modify || was.is_none(), EXISTS)?;
        let mut new = v1::ActionProfileGroup { max_size, ..e.clone() };
        new.members.sort_by_key(|m| m.member_id);
        self.groups.insert(e.group_id, new);
        Ok(())
    }

    /// The cells that an index means.
    fn cells(index: Option<&v1::Index>, size: i64) -> Result<Vec<i64>, i32> {
        match index {
            None => Ok((0..size).collect()),
            Some(i) if i.index < 0 => Err(INVALID),
            Some(i) if i.index >= size => Err(RANGE),
            Some(i) => Ok(vec![i.index]),
        }
    }

    fn counter(&mut self, kind: Type, e: &v1::CounterEntry) -> Done {
        need(kind == Type::Modify, INVALID)?;
        let cells = Self::cells(e.index.as_ref(), COUNTERS)?;
        let data = e.data.ok_or(INVALID)?;
        self.counters.extend(cells.into_iter().map(|at| (at, data)));
        Ok(())
    }

    fn meter(&mut self, kind: Type, e: &v1::MeterEntry) -> Done {
        need(kind == Type::Modify, INVALID)?;
        need(e.config.is_some() || e.counter_data.is_none(), INVALID)?;
        for at in Self::cells(e.index.as_ref(), METERS)? {
            match e.config {
                None => drop(self.meters.remove(&at)),
                Some(config) => {
                    need(config.cir <= config.pir, INVALID)?;
                    self.meters.insert(at, (config, colours(e.counter_data)));
                }
            }
        }
        Ok(())
    }

    fn register(&mut self, kind: Type, e: &v1::RegisterEntry) -> Done {
        need(kind == Type::Modify, INVALID)?;
        let cells = Self::cells(e.index.as_ref(), REGISTERS)?;
        let Some(v1::p4_data::Data::Bitstring(bytes)) =
            e.data.as_ref().and_then(|d| d.data.as_ref())
        else {
            return Err(INVALID);
        };
        need(bits(bytes) <= 24, RANGE)?;
        self.registers.extend(cells.into_iter().map(|at| (at, bytes.clone())));
        Ok(())
    }

    /// The entry that another entity names.
    fn named(&self, ids: &Ids, e: Option<&v1::TableEntry>) -> Result<Key, i32> {
        let e = e.ok_or(INVALID)?;
        self.table(ids, e.table_id)?;
        Self::may_be(ids, e)?;
        let key = Self::key(e);
        need(self.entries.contains_key(&key), MISSING)?;
        Ok(key)
    }

    fn direct_counter(&mut self, ids: &Ids, kind: Type, e: &v1::DirectCounterEntry) -> Done {
        let key = self.named(ids, e.table_entry.as_ref())?;
        need(key.0 == ids.exactly, INVALID)?;
        need(kind == Type::Modify, INVALID)?;
        let data = e.data.ok_or(INVALID)?;
        self.entries.get_mut(&key).unwrap().counter_data = Some(data);
        Ok(())
    }

    fn direct_meter(&mut self, ids: &Ids, kind: Type, e: &v1::DirectMeterEntry) -> Done {
        let key = self.named(ids, e.table_entry.as_ref())?;
        need(key.0 == ids.slow, INVALID)?;
        need(kind == Type::Modify, INVALID)?;
        need(e.config.is_some() || e.counter_data.is_none(), INVALID)?;
        need(e.config.is_none_or(|c| c.cir <= c.pir), INVALID)?;
        let entry = self.entries.get_mut(&key).unwrap();
        entry.meter_config = e.config;
        entry.meter_counter_data = e.config.map(|_| colours(e.counter_data));
        Ok(())
    }

    fn value_set(&mut self, kind: Type, e: &v1::ValueSetEntry) -> Done {
        need(kind == Type::Modify, INVALID)?;
        need(e.members.len() <= SEEN_MAX, FULL)?;
        let single: BTreeSet<Vec<u8>> = e.members.iter().map(|m| m.encode_to_vec()).collect();
        need(single.len() == e.members.len(), INVALID)?;
        self.seen = e.members.clone();
        Ok(())
    }

    fn digest(&mut self, kind: Type, e: &v1::DigestEntry) -> Done {
        let there = self.digests.contains_key(&e.digest_id);
        match kind {
            Type::Insert => need(!there, EXISTS)?,
            _ => need(there, MISSING)?,
        }
        if kind == Type::Delete {
            self.digests.remove(&e.digest_id);
            return Ok(());
        }
        let config = e.config.ok_or(INVALID)?;
        need(config.max_list_size >= 0, INVALID)?;
        self.digests.insert(e.digest_id, config);
        Ok(())
    }

    fn replicas(all: &[v1::Replica]) -> Done {
        let mut seen = BTreeSet::new();
        for r in all {
            let Some(v1::replica::PortKind::Port(port)) = &r.port_kind else { return Err(INVALID) };
            need(bits(port) <= 9, RANGE)?;
            need(seen.insert((port.clone(), r.instance)), INVALID)?;
        }
        Ok(())
    }

    fn multicast(&mut self, kind: Type, e: &v1::MulticastGroupEntry) -> Done {
        let there = self.multicast.contains_key(&e.multicast_group_id);
        if kind == Type::Delete {
            return self.multicast.remove(&e.multicast_group_id).map(drop).ok_or(MISSING);
        }
        Self::replicas(&e.replicas)?;
        match kind {
            Type::Modify => need(there, MISSING)?,
            _ => {
                need((1..=0xffff).contains(&e.multicast_group_id), INVALID)?;
                need(!there, EXISTS)?;
            }
        }
        self.multicast.insert(e.multicast_group_id, e.clone());
        Ok(())
    }

    fn session(&mut self, kind: Type, e: &v1::CloneSessionEntry) -> Done {
        let there = self.sessions.contains_key(&e.session_id);
        if kind == Type::Delete {
            return self.sessions.remove(&e.session_id).map(drop).ok_or(MISSING);
        }
        need(e.packet_length_bytes >= 0, INVALID)?;
        Self::replicas(&e.replicas)?;
        need(!e.replicas.is_empty(), INVALID)?;
        match kind {
            Type::Modify => need(there, MISSING)?,
            _ => need(!there, EXISTS)?,
        }
        need((1..0x8000).contains(&e.session_id), RANGE)?;
        self.sessions.insert(e.session_id, e.clone());
        Ok(())
    }
}
