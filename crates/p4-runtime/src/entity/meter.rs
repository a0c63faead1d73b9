//! Meters by index and of entries: two rates, three colours (P4Runtime §9.3). Rates are a second's, in bytes or packets as
//! the meter counts.

use super::shared::{Reading, Writing, index, only_modify, unknown};
use super::table;
use super::units::{rates, set_direct, set_meter};
use crate::code::{Fault, fault};
use crate::proto::v1;
use ir::MeterId;
use v1::entity::Entity as E;
use v1::update::Type;

pub(super) fn write(w: &mut Writing<'_>, kind: Type, e: &v1::MeterEntry) -> Result<(), Fault> {
    let array = w.schema.meters.get(&e.meter_id);
    let array = array.ok_or_else(|| unknown("meter", e.meter_id))?;
    w.allowed(e.meter_id, &format!("meter `{}`", array.name))?;
    only_modify(kind, "a meter")?;
    if e.counter_data.is_some() {
        return Err(no_counts(&array.name));
    }
    let at = index(e.index.as_ref(), array.size, &array.name)?;
    for at in at.map_or(0..array.size, |at| at..at + 1) {
        let meter = MeterId(array.first + at);
        let updates = set_meter(w.control, meter, e.config.as_ref(), array.packets, &array.name)?;
        w.take(updates);
    }
    Ok(())
}

fn no_counts(name: &str) -> Fault {
    fault!(Unimplemented, "meter `{name}`: the counts of its colours cannot be written")
}

pub(super) fn write_direct(
    w: &mut Writing<'_>,
    kind: Type,
    e: &v1::DirectMeterEntry,
) -> Result<(), Fault> {
    let Some(of) = &e.table_entry else {
        return Err(fault!(InvalidArgument, "the direct meter entry has no table entry"));
    };
    let (t, id) = table::named(w.schema, w.control, of)?;
    w.allowed(t.id, &format!("table `{}`", t.name))?;
    if t.meter.is_none() {
        return Err(fault!(InvalidArgument, "table `{}` has no direct meter", t.name));
    }
    only_modify(kind, "a direct meter")?;
    if e.counter_data.is_some() {
        return Err(no_counts(&t.name));
    }
    let updates = set_direct(w.control, t, id, e.config.as_ref())?;
    w.take(updates);
    Ok(())
}

pub(super) fn read(r: &mut Reading<'_>, e: &v1::MeterEntry) -> Result<(), Fault> {
    let schema = r.schema;
    for (id, array) in r.chosen(&schema.meters, e.meter_id, "meter")? {
        if e.counter_data.is_some() {
            return Err(unread(&array.name));
        }
        let at = index(e.index.as_ref(), array.size, &array.name)?;
        for at in at.map_or(0..array.size, |at| at..at + 1) {
            let meter = r.control.pipeline.meter(MeterId(array.first + at));
            let config = meter.map(|m| rates(m, array.packets));
            let index = Some(v1::Index { index: at.into() });
            let counter_data = None;
            r.tell(E::MeterEntry(v1::MeterEntry { meter_id: id, index, config, counter_data }));
        }
    }
    Ok(())
}

fn unread(name: &str) -> Fault {
    fault!(Unimplemented, "meter `{name}`: packets are not counted by colour")
}

pub(super) fn read_direct(r: &mut Reading<'_>, e: &v1::DirectMeterEntry) -> Result<(), Fault> {
    let of = e.table_entry.clone().unwrap_or_default();
    if of.table_id != 0 {
        let t = table::table_of(r.schema, of.table_id)?;
        if t.meter.is_none() {
            return Err(fault!(InvalidArgument, "table `{}` has no direct meter", t.name));
        }
    }
    if e.counter_data.is_some() {
        return Err(unread("the table"));
    }
    let asked = v1::TableEntry { meter_config: Some(v1::MeterConfig::default()), ..of };
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
        let table_entry = Some(v1::TableEntry { action: None, ..entry });
        let counter_data = None;
        r.tell(E::DirectMeterEntry(v1::DirectMeterEntry { table_entry, config, counter_data }));
    }
    Ok(())
}
