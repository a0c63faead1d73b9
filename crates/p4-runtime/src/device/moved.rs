//! What another process goes on with that takes this one's place.
//!
//! The program and what clients have written are [kept](super::kept) in the same form by a journal. Beside them stand roles,
//! and, once packets have stopped, what packets have written:
//!
//! | key | value |
//! |---|---|
//! | role: its name | its highest election id and its config, as a `MasterArbitrationUpdate` |
//! | register: its name | width and size, then index and value of each cell that is not zero |
//! | counter array: its name | size, then index, packets and octets of each cell that has counted |
//! | direct counter: a number | a `DirectCounterEntry` |
//! | meter: a number | a `MeterEntry` or `DirectMeterEntry` that has counted |
//!
//! Numbers are big-endian. Left out: what meters have saved up, and lookups of tables.
//!
//! Invariants: what does not fit the program is refused before anything is set.
//! Checked by: millrace's `tests/take_over_bridges.rs`, with processes.

use super::kept::PutBack;
use super::{Device, change, lock, look};
use crate::code::{Fault, fault};
use crate::entity::{Effect, carry_meter};
use crate::keeping::{Image, entity_of};
use crate::proto::v1;
use ir::{Bits, RegisterId};
use p4::commands::Plane as _;
use prost::Message as _;
use v1::entity::Entity as E;
use v1::update::Type;

const ROLE: u8 = 0x18;
const REGISTER: u8 = 0xa0;
const COUNTER: u8 = 0xa8;
const DIRECT: u8 = 0xb0;
const METER: u8 = 0xb8;

fn named(kind: u8, name: &str) -> Box<[u8]> {
    std::iter::once(kind).chain(name.bytes()).collect()
}

/// A field of so many octets in front.
fn number<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*field)
}

/// A meter that packets have come to since it got its rates.
fn has_counted(meter: &v1::Entity) -> bool {
    let data = match &meter.entity {
        Some(E::MeterEntry(e)) => &e.counter_data,
        Some(E::DirectMeterEntry(e)) => &e.counter_data,
        _ => return false,
    };
    let none = v1::CounterData::default();
    data.as_ref().is_some_and(|data| {
        [&data.green, &data.yellow, &data.red].into_iter().flatten().any(|count| *count != none)
    })
}

/// What is set in the new process.
fn effects(program: &ir::Program, key: &[u8], mut value: &[u8]) -> Result<Vec<Effect>, Fault> {
    let wrong =
        |name: &str| fault!(Internal, "what packets have written to `{name}` cannot be read");
    let (kind, name) = key.split_first().ok_or_else(|| wrong(""))?;
    let name = std::str::from_utf8(name).map_err(|_| wrong(""))?;
    let other = || fault!(Internal, "`{name}` is not what it is in the running switch");
    let mut all = Vec::new();
    match *kind {
        REGISTER => {
            let at = program.registers.iter().position(|r| r.name == name).ok_or_else(other)?;
            let register = &program.registers[at];
            let shape = number::<4>(&mut value).zip(number::<4>(&mut value));
            let (width, size) = shape.ok_or_else(|| wrong(name))?;
            let shape = (u32::from_be_bytes(width), u32::from_be_bytes(size));
            if shape != (register.width, register.size) {
                return Err(other());
            }
            let octets = register.width.div_ceil(8) as usize;
            while let Some(index) = number::<4>(&mut value) {
                let split = value.split_at_checked(octets);
                let (cell, behind) = split.ok_or_else(|| wrong(name))?;
                value = behind;
                let cell = Bits::from_be_bytes(cell, register.width);
                let register = RegisterId(at as u32);
                all.push(Effect::Register(register, u32::from_be_bytes(index), cell));
            }
        }
        COUNTER => {
            let at = program.counters.iter().position(|c| c.name == name).ok_or_else(other)?;
            let size = number::<4>(&mut value).ok_or_else(|| wrong(name))?;
            if u32::from_be_bytes(size) != program.counters[at].size {
                return Err(other());
            }
            while let Some(index) = number::<4>(&mut value) {
                let counted = number::<8>(&mut value).zip(number::<8>(&mut value));
                let (packets, bytes) = counted.ok_or_else(|| wrong(name))?;
                let to = (u64::from_be_bytes(packets), u64::from_be_bytes(bytes));
                all.push(Effect::Counter(at as u32, u32::from_be_bytes(index), to));
            }
        }
        _ => return Err(wrong(name)),
    }
    match value.is_empty() {
        true => Ok(all),
        false => Err(wrong(name)),
    }
}

impl Device {
    /// The program, what clients have written, and roles.
    pub fn handed(&self) -> Result<Image, Fault> {
        let roles = look(&self.arbitration).roles();
        {
            let mut program = lock(&self.program);
            let host = lock(&self.host);
            if program.committed.is_some() {
                Self::bound(&mut program, &host)?;
            }
        }
        let mut image = self.image(&|| ());
        image.extend(roles.into_iter().map(|role| {
            let name = role.role.as_ref().map_or("", |role| &role.name);
            (named(ROLE, name), role.encode_to_vec().into())
        }));
        Ok(image)
    }

    /// Goes on with what another process has [`handed`](Self::handed) over.
    pub fn take(&self, image: &Image) -> Result<PutBack, Fault> {
        let told = self.put_back(image)?;
        let mut arbitration = change(&self.arbitration);
        for (_, value) in image.iter().filter(|(key, _)| key.first() == Some(&ROLE)) {
            let role = v1::MasterArbitrationUpdate::decode(&value[..]);
            arbitration.remember(&role.map_err(|e| fault!(Internal, "a role: {e}"))?)?;
        }
        Ok(told)
    }

    /// What packets have written, of a switch that has stopped.
    pub fn state(&self) -> Result<Image, Fault> {
        let has_program = lock(&self.program).committed.is_some();
        let told = |entities: Vec<E>| match has_program {
            true => self.read(&v1::ReadRequest {
                device_id: self.options.device_id,
                entities: entities
                    .into_iter()
                    .map(|entity| v1::Entity { entity: Some(entity) })
                    .collect(),
                ..v1::ReadRequest::default()
            }),
            false => Ok(Vec::new()),
        };
        let counter_data = Some(v1::MeterCounterData::default());
        let direct = told(vec![E::DirectCounterEntry(v1::DirectCounterEntry::default())])?;
        let mut meters = told(vec![
            E::MeterEntry(v1::MeterEntry { counter_data, ..v1::MeterEntry::default() }),
            E::DirectMeterEntry(v1::DirectMeterEntry {
                counter_data,
                ..v1::DirectMeterEntry::default()
            }),
            E::DirectMeterEntry(v1::DirectMeterEntry {
                table_entry: Some(v1::TableEntry {
                    is_default_action: true,
                    ..v1::TableEntry::default()
                }),
                counter_data,
                ..v1::DirectMeterEntry::default()
            }),
        ])?;
        meters.retain(has_counted);
        let mut image = Image::new();
        for (kind, entities) in [(DIRECT, direct), (METER, meters)] {
            for (n, entity) in (0u32..).zip(entities) {
                let key = std::iter::once(kind).chain(n.to_be_bytes()).collect();
                image.insert(key, entity.encode_to_vec().into());
            }
        }
        let mut host = lock(&self.host);
        let (control, plane) = host.parts();
        let program = control.pipeline.program().clone();
        for (n, register) in (0..).zip(&program.registers) {
            let mut value = register.width.to_be_bytes().to_vec();
            value.extend(register.size.to_be_bytes());
            let octets = register.width.div_ceil(8) as usize;
            for index in 0..register.size {
                let cell = plane.register(RegisterId(n), index).ok().flatten();
                if let Some(cell) = cell.filter(|cell| !cell.is_zero()) {
                    let bytes = cell.to_be_bytes();
                    value.extend(index.to_be_bytes());
                    value.resize(value.len() + octets.saturating_sub(bytes.len()), 0);
                    value.extend(&bytes[bytes.len().saturating_sub(octets)..]);
                }
            }
            image.insert(named(REGISTER, &register.name), value.into());
        }
        for (n, array) in (0..).zip(&program.counters) {
            let mut value = array.size.to_be_bytes().to_vec();
            for index in 0..array.size {
                let counted = plane.array_counter(n, index).unwrap_or_default();
                if counted != (0, 0) {
                    value.extend(index.to_be_bytes());
                    value.extend(counted.0.to_be_bytes());
                    value.extend(counted.1.to_be_bytes());
                }
            }
            image.insert(named(COUNTER, &array.name), value.into());
        }
        Ok(image)
    }

    /// Goes on with the [`state`](Self::state) of another process, whose program this device has.
    pub fn take_state(&self, image: &Image) -> Result<(), Fault> {
        let mut program = lock(&self.program);
        let mut host = lock(&self.host);
        let own = host.control().pipeline.program().clone();
        let (mut effects_of_all, mut counters, mut meters) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in image {
            if key.first() == Some(&DIRECT) {
                let wrong = || fault!(Internal, "a direct counter cannot be read");
                let entity = entity_of(value).ok_or_else(wrong)?;
                counters.push(v1::Update { r#type: Type::Modify as i32, entity: Some(entity) });
            } else if key.first() == Some(&METER) {
                let wrong = || fault!(Internal, "a meter cannot be read");
                meters.push(entity_of(value).ok_or_else(wrong)?);
            } else {
                effects_of_all.extend(effects(&own, key, value)?);
            }
        }
        if !counters.is_empty() {
            let rights = crate::role::Rights::default();
            let (_, of_entries) = super::kept::taken(&mut program, &mut host, &counters, &rights)?;
            effects_of_all.extend(of_entries);
        }
        if !meters.is_empty() {
            let rights = crate::role::Rights::default();
            let (_, of_meters) =
                super::kept::written(&mut program, &mut host, &rights, |writing| {
                    meters.iter().try_for_each(|meter| carry_meter(writing, meter))
                })?;
            effects_of_all.extend(of_meters);
        }
        let done = host.apply_and(&[], |plane| {
            effects_of_all.into_iter().for_each(|effect| effect.happen(plane));
        });
        done.map_err(|e| {
            fault!(Internal, "the switch does not take what packets have written: {e}")
        })
    }
}
