//! Counters by index and of entries (P4Runtime §9.3). Values may be written.

use super::shared::{Effect, Reading, Writing, index, only_modify, unknown};
use super::table;
use super::units::{counted, told};
use crate::code::{Fault, fault};
use crate::proto::v1;
use v1::entity::Entity as E;
use v1::update::Type;

pub(super) fn write(w: &mut Writing<'_>, kind: Type, e: &v1::CounterEntry) -> Result<(), Fault> {
    let array = w.schema.counters.get(&e.counter_id);
    let array = array.ok_or_else(|| unknown("counter", e.counter_id))?;
    w.allowed(e.counter_id, format_args!("counter `{}`", array.name))?;
    only_modify(kind, "a counter")?;
    let at = index(e.index.as_ref(), array.size, &array.name)?;
    let to = match &e.data {
        Some(data) => counted(data, &array.name)?,
        None => return Err(fault!(InvalidArgument, "counter `{}`: no data", array.name)),
    };
    let cells = at.map_or(0..array.size, |at| at..at + 1);
    w.effects.extend(cells.map(|at| Effect::Counter(array.first, at, to)));
    Ok(())
}

pub(super) fn write_direct(
    w: &mut Writing<'_>,
    kind: Type,
    e: &v1::DirectCounterEntry,
) -> Result<(), Fault> {
    let Some(of) = &e.table_entry else {
        return Err(fault!(InvalidArgument, "the direct counter entry has no table entry"));
    };
    let (t, owner) = table::named(w.schema, w.control, of)?;
    w.allowed(t.id, format_args!("table `{}`", t.name))?;
    if t.counter.is_none() {
        return Err(fault!(InvalidArgument, "table `{}` has no direct counter", t.name));
    }
    only_modify(kind, "a direct counter")?;
    let to = match &e.data {
        Some(data) => counted(data, &t.name)?,
        None => return Err(fault!(InvalidArgument, "table `{}`: the counter has no data", t.name)),
    };
    w.effects.extend(owner.count(t, to));
    Ok(())
}

pub(super) fn read(r: &mut Reading<'_>, e: &v1::CounterEntry) -> Result<(), Fault> {
    let schema = r.schema;
    for (id, array) in r.chosen(&schema.counters, e.counter_id, "counter")? {
        let at = index(e.index.as_ref(), array.size, &array.name)?;
        for at in at.map_or(0..array.size, |at| at..at + 1) {
            let data = r.plane.array_counter(array.first, at).map(told);
            let index = Some(v1::Index { index: at.into() });
            r.tell(E::CounterEntry(v1::CounterEntry { counter_id: id, index, data }));
        }
    }
    Ok(())
}

pub(super) fn read_direct(r: &mut Reading<'_>, e: &v1::DirectCounterEntry) -> Result<(), Fault> {
    let of = e.table_entry.clone().unwrap_or_default();
    if of.table_id != 0 {
        let t = table::table_of(r.schema, of.table_id)?;
        if t.counter.is_none() {
            return Err(fault!(InvalidArgument, "table `{}` has no direct counter", t.name));
        }
    }
    let asked = v1::TableEntry { counter_data: Some(v1::CounterData::default()), ..of };
    let from = r.out.len();
    table::read(r, &asked)?;
    let entries = r.out.split_off(from);
    for entity in entries {
        let Some(E::TableEntry(mut entry)) = entity.entity else { continue };
        let Some(data) = entry.counter_data.take() else { continue };
        let table_entry = Some(v1::TableEntry { action: None, ..entry });
        r.tell(E::DirectCounterEntry(v1::DirectCounterEntry { table_entry, data: Some(data) }));
    }
    Ok(())
}
