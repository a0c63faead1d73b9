//! Random updates and reads. Most of them are good, and few keys make them meet.

use super::common::{action, batch, exact, lpm, ternary};
use super::reads::pre;
use super::world::{COUNTERS, Ids, METERS, REGISTERS, World};
use p4_runtime::canonical::write_number;
use p4_runtime::proto::v1;
use v1::entity::Entity as E;
use v1::field_match::FieldMatchType as F;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::table_action::Type as A;
use v1::update::Type;

/// Numbers without meaning, the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// One in so many.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Bytes of a number below `n`; now and then of one that is too large.
    fn number(&mut self, n: u64, too_large: u64) -> Vec<u8> {
        match self.one_in(60) {
            true => write_number(too_large),
            false => write_number(self.below(n)),
        }
    }

    /// Mostly what suits a thing that is there, or is not.
    fn fitting(&mut self, there: bool) -> Type {
        match there {
            _ if self.one_in(5) => self.kind(),
            true => self.of(&[Type::Modify, Type::Delete]),
            false => Type::Insert,
        }
    }

    fn kind(&mut self) -> Type {
        self.of(&[Type::Insert, Type::Insert, Type::Modify, Type::Delete])
    }

    /// Mostly what is right for what is always there.
    fn modify(&mut self) -> Type {
        if self.one_in(12) { self.kind() } else { Type::Modify }
    }

    fn call(&mut self, ids: &Ids) -> v1::Action {
        let id = self.of(&[ids.go, ids.go, ids.go, ids.drop, ids.paced]);
        let param = match id == ids.drop || self.one_in(40) {
            true => None,
            false => Some(self.number(512, 512)),
        };
        match action(id, param.as_deref()).r#type {
            Some(A::Action(action)) => action,
            _ => unreachable!("an action is an action"),
        }
    }

    fn does(&mut self, ids: &Ids, table: u32) -> v1::TableAction {
        let indirect = (table == ids.spread) != self.one_in(40);
        let does = match (indirect, self.below(3)) {
            (false, _) if table == ids.slow && !self.one_in(20) => {
                return action(ids.paced, Some(&self.number(512, 512)));
            }
            (false, _) => A::Action(self.call(ids)),
            (true, 0) => A::ActionProfileMemberId(1 + self.below(8) as u32),
            (true, 1) => A::ActionProfileGroupId(1 + self.below(4) as u32),
            (true, _) => {
                let n = if self.one_in(30) { 0 } else { 1 + self.below(5) };
                let action = |r: &mut Random| v1::ActionProfileAction {
                    action: Some(r.call(ids)),
                    weight: r.of(&[1, 1, 2, 3, 0]),
                    watch_kind: None,
                };
                A::ActionProfileActionSet(v1::ActionProfileActionSet {
                    action_profile_actions: (0..n).map(|_| action(self)).collect(),
                    action_selection_mode: self.of(&[0, 0, 1, 1, 2, 3]),
                    size_semantics: self.of(&[0, 1, 2, 2]),
                    group_action: None,
                })
            }
        };
        v1::TableAction { r#type: Some(does) }
    }

    /// The key of an entry, its priority with it.
    fn key(&mut self, ids: &Ids) -> v1::TableEntry {
        let all =
            [ids.exactly, ids.exactly, ids.longest, ids.many, ids.slow, ids.spread, ids.spread];
        let table_id = match self.below(40) {
            0 => ids.fixed,
            1 => 7,
            2 | 3 => ids.extra,
            _ => self.of(&all),
        };
        let mut e = v1::TableEntry { table_id, ..v1::TableEntry::default() };
        let value = |r: &mut Random| write_number(r.below(4));
        e.r#match = match table_id {
            t if t == ids.exactly => vec![exact(1, &value(self)), exact(2, &value(self))],
            t if t == ids.longest => {
                let len = 1 + self.below(3) as i32;
                let prefix = (self.below(4) << 30) as u32 & (u32::MAX << (32 - len));
                vec![lpm(1, &write_number(prefix.into()), len)]
            }
            t if t == ids.many => {
                let mut all = Vec::new();
                if !self.one_in(3) {
                    let mask = self.of(&[0xff00_0000u64, 0xffff_ffff, 0x0000_00f0]);
                    let value = self.of(&[0u64, 0x0a00_00a0, 0x1234_5678]) & mask;
                    all.push(ternary(1, &write_number(value), &write_number(mask)));
                }
                let of = |field_id, told| v1::FieldMatch { field_id, field_match_type: Some(told) };
                if self.one_in(2) {
                    let (low, high) = self.of(&[(1u8, 9u8), (3, 3), (0, 200), (9, 1)]);
                    let range = v1::field_match::Range { low: vec![low], high: vec![high] };
                    all.push(of(2, F::Range(range)));
                }
                if self.one_in(2) {
                    let value = self.number(2, 256);
                    all.push(of(3, F::Optional(v1::field_match::Optional { value })));
                }
                e.priority = if self.one_in(40) { 0 } else { 1 + self.below(2) as i32 };
                all
            }
            _ => vec![exact(1, &self.number(4, 256))],
        };
        if e.table_id != ids.many && self.one_in(60) {
            e.priority = 5;
        }
        e
    }

    /// The key of an entry that is there, mostly of this table; or any key.
    fn held(&mut self, ids: &Ids, world: &World, table: u32) -> v1::TableEntry {
        let held: Vec<&v1::TableEntry> =
            world.entries.values().filter(|e| e.table_id == table).collect();
        match held.is_empty() || self.one_in(5) {
            true => self.key(ids),
            false => {
                let e = self.of(&held);
                let (table_id, priority) = (e.table_id, e.priority);
                let r#match = e.r#match.clone();
                v1::TableEntry { table_id, r#match, priority, ..v1::TableEntry::default() }
            }
        }
    }

    fn counts(&mut self) -> v1::CounterData {
        let (byte_count, packet_count) = (self.below(1000) as i64, self.below(100) as i64);
        v1::CounterData { byte_count, packet_count }
    }

    fn rates(&mut self) -> v1::MeterConfig {
        let cir = self.below(10) as i64;
        let pir = if self.one_in(10) { 0 } else { cir + self.below(10) as i64 };
        v1::MeterConfig { cir, cburst: self.below(9) as i64, pir, pburst: 7, eburst: 0 }
    }

    /// Counts by colour, beside rates mostly.
    fn colours(&mut self, rates: bool) -> Option<v1::MeterCounterData> {
        (self.below(if rates { 2 } else { 30 }) == 0).then(|| v1::MeterCounterData {
            green: Some(self.counts()),
            yellow: self.one_in(2).then(|| self.counts()),
            red: Some(self.counts()),
        })
    }

    /// A cell, all cells, or none.
    fn index(&mut self, size: i64) -> Option<v1::Index> {
        match self.below(20) {
            0 => Some(v1::Index { index: size }),
            1 => Some(v1::Index { index: -1 }),
            2..6 => None,
            _ => Some(v1::Index { index: self.below(size as u64) as i64 }),
        }
    }

    fn replicas(&mut self) -> Vec<v1::Replica> {
        let n = self.below(4);
        let one = |r: &mut Random| v1::Replica {
            port_kind: Some(v1::replica::PortKind::Port(r.number(5, 512))),
            instance: r.below(3) as u32,
            backup_replicas: Vec::new(),
        };
        (0..n).map(|_| one(self)).collect()
    }

    #[allow(deprecated, reason = "old clients keep their word there")]
    fn entry(&mut self, ids: &Ids) -> v1::TableEntry {
        let mut e = self.key(ids);
        e.action = (!self.one_in(40)).then(|| self.does(ids, e.table_id));
        if self.one_in(3) {
            e.metadata = vec![1 + self.below(2) as u8];
        }
        if self.one_in(4) {
            e.controller_metadata = 1 + self.below(2);
        }
        if self.below(if e.table_id == ids.exactly { 3 } else { 40 }) == 0 {
            e.counter_data = Some(self.counts());
        }
        if self.below(if e.table_id == ids.slow { 2 } else { 40 }) == 0 {
            e.meter_config = Some(self.rates());
        }
        e.meter_counter_data = self.colours(e.meter_config.is_some());
        if self.below(if e.table_id == ids.exactly { 4 } else { 60 }) == 0 {
            e.idle_timeout_ns = 1_000_000_000_000;
        }
        e
    }

    /// An update.
    pub(crate) fn update(&mut self, ids: &Ids, world: &World) -> (Type, E) {
        let action_profile_id = if self.one_in(40) { 9 } else { ids.hops };
        match self.below(24) {
            0..9 => {
                let e = self.entry(ids);
                (self.fitting(world.entries.contains_key(&World::key(&e))), E::TableEntry(e))
            }
            9 => {
                let table_id = self.of(&[ids.longest, ids.many]);
                let action = (!self.one_in(3)).then(|| self.does(ids, table_id));
                let is_default_action = true;
                let e =
                    v1::TableEntry { table_id, action, is_default_action, ..Default::default() };
                (self.modify(), E::TableEntry(e))
            }
            10..13 => {
                let (member_id, action) = (1 + self.below(8) as u32, Some(self.call(ids)));
                let e = v1::ActionProfileMember { action_profile_id, member_id, action };
                (self.fitting(world.members.contains_key(&member_id)), E::ActionProfileMember(e))
            }
            13..15 => {
                let n = self.below(4);
                let member = |r: &mut Random| v1::action_profile_group::Member {
                    member_id: 1 + r.below(8) as u32,
                    weight: r.of(&[1, 1, 2, 3, 0]),
                    watch_kind: None,
                };
                let e = v1::ActionProfileGroup {
                    action_profile_id,
                    group_id: 1 + self.below(4) as u32,
                    members: (0..n).map(|_| member(self)).collect(),
                    max_size: self.of(&[0, 0, 4, 6, -1]),
                };
                (self.fitting(world.groups.contains_key(&e.group_id)), E::ActionProfileGroup(e))
            }
            15 => {
                let (index, data) = (self.index(COUNTERS), Some(self.counts()));
                let e = v1::CounterEntry { counter_id: ids.hits, index, data };
                (self.modify(), E::CounterEntry(e))
            }
            16 => {
                let (table_entry, data) =
                    (Some(self.held(ids, world, ids.exactly)), Some(self.counts()));
                let e = v1::DirectCounterEntry { table_entry, data };
                (self.modify(), E::DirectCounterEntry(e))
            }
            17 => {
                let index = self.index(METERS);
                let config = (!self.one_in(3)).then(|| self.rates());
                let counter_data = self.colours(config.is_some());
                let e = v1::MeterEntry { meter_id: ids.rate, index, config, counter_data };
                (self.modify(), E::MeterEntry(e))
            }
            18 => {
                let config = (!self.one_in(3)).then(|| self.rates());
                let table_entry = Some(self.held(ids, world, ids.slow));
                let counter_data = self.colours(config.is_some());
                let e = v1::DirectMeterEntry { table_entry, config, counter_data };
                (self.modify(), E::DirectMeterEntry(e))
            }
            19 => {
                let data = v1::p4_data::Data::Bitstring(self.number(1 << 24, 1 << 24));
                let data = Some(v1::P4Data { data: Some(data) });
                let e =
                    v1::RegisterEntry { register_id: ids.last, index: self.index(REGISTERS), data };
                (self.modify(), E::RegisterEntry(e))
            }
            20 => {
                let n = self.below(6);
                let member = |r: &mut Random| v1::ValueSetMember {
                    r#match: vec![exact(1, &write_number(r.below(9)))],
                };
                let members = (0..n).map(|_| member(self)).collect();
                let e = v1::ValueSetEntry { value_set_id: ids.seen, members };
                (self.modify(), E::ValueSetEntry(e))
            }
            21 => {
                let config = v1::digest_entry::Config {
                    max_timeout_ns: self.below(9) as i64,
                    max_list_size: self.of(&[0, 1, 7, -1]),
                    ack_timeout_ns: self.below(9) as i64,
                };
                let config = (!self.one_in(20)).then_some(config);
                let digest_id = ids.learn;
                (self.kind(), E::DigestEntry(v1::DigestEntry { digest_id, config }))
            }
            22 => {
                let e = v1::MulticastGroupEntry {
                    multicast_group_id: self.of(&[0, 1, 2, 3, 0xffff, 0x1_0000]),
                    replicas: self.replicas(),
                    metadata: vec![7; self.below(2) as usize],
                };
                (self.kind(), pre(Pre::MulticastGroupEntry(e)))
            }
            _ if self.one_in(10) => (self.kind(), E::ExternEntry(v1::ExternEntry::default())),
            _ => {
                let e = v1::CloneSessionEntry {
                    session_id: self.of(&[0, 1, 2, 3, 0x7fff, 0x8000]),
                    replicas: self.replicas(),
                    class_of_service: self.below(3) as u32,
                    packet_length_bytes: self.of(&[0, 0, 64, 9000, -1]),
                };
                (self.kind(), pre(Pre::CloneSessionEntry(e)))
            }
        }
    }

    /// A batch of some updates.
    pub(crate) fn batch(&mut self, ids: &Ids, world: &World) -> v1::WriteRequest {
        let n = 1 + self.below(5);
        let mut request = batch((0..n).map(|_| self.update(ids, world)).collect());
        request.atomicity = self.of(&[0, 0, 0, 1, 2]);
        request
    }

    /// Something to ask for that is not refused.
    #[allow(deprecated, reason = "old clients keep their word there")]
    pub(crate) fn asked(&mut self, ids: &Ids, world: &World) -> E {
        let tables = [0, ids.exactly, ids.longest, ids.many, ids.slow, ids.spread, ids.fixed];
        let mut of = v1::TableEntry { table_id: self.of(&tables), ..v1::TableEntry::default() };
        let (action_profile_id, any) = (self.of(&[0, ids.hops]), self.below(5) as u32);
        let cell = |r: &mut Random, size: i64| {
            let at = r.below(size as u64 + 1) as i64;
            (at < size).then_some(v1::Index { index: at })
        };
        match self.below(14) {
            0..4 => {
                match self.below(6) {
                    0 => of.priority = 1,
                    1 => of.metadata = vec![1],
                    2 => of.controller_metadata = 2,
                    3 => {
                        // One that is there, or may be.
                        let held: Vec<&v1::TableEntry> = world.entries.values().collect();
                        let held = self.of(&held);
                        let (r#match, priority) = (held.r#match.clone(), held.priority);
                        let table_id = held.table_id;
                        of = v1::TableEntry { table_id, r#match, priority, ..Default::default() };
                        if r#of.r#match.is_empty() {
                            // Without a match all are meant.
                            of.priority = 0;
                        }
                    }
                    _ => {}
                }
                of.counter_data = self.one_in(2).then(v1::CounterData::default);
                of.meter_config = self.one_in(2).then(v1::MeterConfig::default);
                of.meter_counter_data = self.one_in(2).then(v1::MeterCounterData::default);
                E::TableEntry(of)
            }
            4 => {
                let is_default_action = true;
                let set = world.defaults.contains_key(&ids.many) && self.one_in(2);
                let table_id = if set { ids.many } else { ids.longest };
                E::TableEntry(v1::TableEntry { table_id, is_default_action, ..Default::default() })
            }
            5 => {
                of.table_id = self.of(&[0, ids.exactly]);
                let table_entry = Some(of);
                E::DirectCounterEntry(v1::DirectCounterEntry { table_entry, data: None })
            }
            6 => {
                of.table_id = self.of(&[0, ids.slow]);
                let table_entry = Some(of);
                let counter_data = self.one_in(2).then(v1::MeterCounterData::default);
                E::DirectMeterEntry(v1::DirectMeterEntry {
                    table_entry,
                    config: None,
                    counter_data,
                })
            }
            7 => {
                let e = v1::ActionProfileMember { action_profile_id, member_id: any, action: None };
                E::ActionProfileMember(e)
            }
            8 => {
                let group_id = any;
                let e =
                    v1::ActionProfileGroup { action_profile_id, group_id, ..Default::default() };
                E::ActionProfileGroup(e)
            }
            9 => {
                let (counter_id, index) = (self.of(&[0, ids.hits]), cell(self, COUNTERS));
                E::CounterEntry(v1::CounterEntry { counter_id, index, data: None })
            }
            10 => {
                let (meter_id, index) = (self.of(&[0, ids.rate]), cell(self, METERS));
                let counter_data = self.one_in(2).then(v1::MeterCounterData::default);
                E::MeterEntry(v1::MeterEntry { meter_id, index, config: None, counter_data })
            }
            11 => {
                let (register_id, index) = (self.of(&[0, ids.last]), cell(self, REGISTERS));
                E::RegisterEntry(v1::RegisterEntry { register_id, index, data: None })
            }
            12 => match self.below(2) {
                0 => E::ValueSetEntry(v1::ValueSetEntry {
                    value_set_id: self.of(&[0, ids.seen]),
                    members: Vec::new(),
                }),
                _ => {
                    let digest_id = self.of(&[0, ids.learn]);
                    E::DigestEntry(v1::DigestEntry { digest_id, config: None })
                }
            },
            _ => pre(match self.below(2) {
                0 => {
                    let multicast_group_id = any;
                    let e = v1::MulticastGroupEntry { multicast_group_id, ..Default::default() };
                    Pre::MulticastGroupEntry(e)
                }
                _ => Pre::CloneSessionEntry(v1::CloneSessionEntry {
                    session_id: any,
                    ..Default::default()
                }),
            }),
        }
    }
}
