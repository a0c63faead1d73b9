//! Meters by index and of entries: two rates, three colours (P4Runtime §9.3). Rates are a second's, in bytes or packets as
//! the meter counts.

use super::shared::{Effect, Reading, Writing, index, only_modify, unknown};
use super::table;
use super::units::{self, rates, set_direct, set_meter};
use crate::code::{Fault, fault};
use crate::proto::v1;
use ir::MeterId;
use v1::entity::Entity as E;
use v1::update::Type;

pub(super) fn write(w: &mut Writing<'_>, kind: Type, e: &v1::MeterEntry) -> Result<(), Fault> {
    let array = w.schema.meters.get(&e.meter_id);
    let array = array.ok_or_else(|| unknown("meter", e.meter_id))?;
    w.allowed(e.meter_id, format_args!("meter `{}`", array.name))?;
    only_modify(kind, "a meter")?;
    if e.counter_data.is_some() && e.config.is_none() {
        return Err(units::without_rates(&array.name));
    }
    let at = index(e.index.as_ref(), array.size, &array.name)?;
    for at in at.map_or(0..array.size, |at| at..at + 1) {
        let meter = MeterId(array.first + at);
        let updates = set_meter(w.control, meter, e.config.as_ref(), array.packets, &array.name)?;
        w.take(updates);
        w.effects.push(Effect::MeterFresh(meter));
        if let Some(data) = &e.counter_data {
            units::set_counts(w, meter, data, &array.name)?;
        }
    }
    Ok(())
}

pub(super) fn write_direct(
    w: &mut Writing<'_>,
    kind: Type,
    e: &v1::DirectMeterEntry,
) -> Result<(), Fault> {
    let Some(of) = &e.table_entry else {
        return Err(fault!(InvalidArgument, "the direct meter entry has no table entry"));
    };
    let (t, owner) = table::named(w.schema, w.control, of)?;
    w.allowed(t.id, format_args!("table `{}`", t.name))?;
    if t.meter.is_none() {
        return Err(fault!(InvalidArgument, "table `{}` has no direct meter", t.name));
    }
    only_modify(kind, "a direct meter")?;
    if e.counter_data.is_some() && e.config.is_none() {
        return Err(units::without_rates(&t.name));
    }
    let meter = owner.meter(t);
    let updates = set_direct(w.control, t, meter, e.config.as_ref())?;
    w.take(updates);
    w.effects.push(Effect::MeterFresh(meter));
    match &e.counter_data {
        Some(data) => units::set_counts(w, meter, data, &t.name),
        None => Ok(()),
    }
}

/// Sets counts, and leaves rates as they are.
pub(super) fn carry(w: &mut Writing<'_>, e: &v1::MeterEntry) -> Result<(), Fault> {
    let array = w.schema.meters.get(&e.meter_id);
    let array = array.ok_or_else(|| unknown("meter", e.meter_id))?;
    let at = index(e.index.as_ref(), array.size, &array.name)?;
    let (Some(at), Some(data)) = (at, &e.counter_data) else { return Ok(()) };
    units::set_counts(w, MeterId(array.first + at), data, &array.name)
}

/// The same of an entry's meter, or a default's.
pub(super) fn carry_direct(w: &mut Writing<'_>, e: &v1::DirectMeterEntry) -> Result<(), Fault> {
    let (Some(of), Some(data)) = (&e.table_entry, &e.counter_data) else { return Ok(()) };
    let (t, owner) = table::named(w.schema, w.control, of)?;
    units::set_counts(w, owner.meter(t), data, &t.name)
}

pub(super) fn read(r: &mut Reading<'_>, e: &v1::MeterEntry) -> Result<(), Fault> {
    let schema = r.schema;
    for (id, array) in r.chosen(&schema.meters, e.meter_id, "meter")? {
        let at = index(e.index.as_ref(), array.size, &array.name)?;
        for at in at.map_or(0..array.size, |at| at..at + 1) {
            let id_of = MeterId(array.first + at);
            let config = r.control.pipeline.meter(id_of).map(|m| rates(m, array.packets));
            let index = Some(v1::Index { index: at.into() });
            let counter_data = e.counter_data.and_then(|_| units::counts(r, id_of));
            r.tell(E::MeterEntry(v1::MeterEntry { meter_id: id, index, config, counter_data }));
        }
    }
    Ok(())
}

pub(super) fn read_direct(r: &mut Reading<'_>, e: &v1::DirectMeterEntry) -> Result<(), Fault> {
    let of = e.table_entry.clone().unwrap_or_default();
    if of.table_id != 0 {
        let t = table::table_of(r.schema, of.table_id)?;
        if t.meter.is_none() {
            return Err(fault!(InvalidArgument, "table `{}` has no direct meter", t.name));
        }
    }
    let asked = v1::TableEntry {
        meter_config: Some(v1::MeterConfig::default()),
        meter_counter_data: e.counter_data,
        ..of
    };
    let from = r.out.len();
    table::read(r, &asked)?;
    let schema = r.schema;
    let entries = r.out.split_off(from);
    for entity in entries {
        let Some(E::TableEntry(mut entry)) = entity.entity else { continue };
        if schema.tables.get(&entry.table_id).is_none_or(|t| t.meter.is_none()) {
            continue;
        }
        let config = entry.meter_config.take();
        let counter_data = entry.meter_counter_data.take();
        let table_entry = Some(v1::TableEntry { action: None, ..entry });
        r.tell(E::DirectMeterEntry(v1::DirectMeterEntry { table_entry, config, counter_data }));
    }
    Ok(())
}
