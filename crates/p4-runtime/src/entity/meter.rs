//! Meters by index and of entries: two rates, three colours (P4Runtime §9.3). Rates are a second's, in bytes or packets as
//! the meter counts.

use super::{Reading, Writing, index, only_modify, table, unknown};
use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::schema::Table;
use ir::{Band, EntryId, Meter, MeterId, Update};
use p4::control::{Control, meter_of};
use v1::entity::Entity as E;
use v1::update::Type;

/// Yellow and red.
const YELLOW: u8 = 1;
const RED: u8 = 2;

/// A meter's bands. The switch counts bits where a client counts bytes.
pub(super) fn of_config(
    config: &v1::MeterConfig,
    packets: bool,
    name: &str,
) -> Result<Meter, Fault> {
    let unit = if packets { 1 } else { 8 };
    let number = |what: &str, n: i64| {
        let n = u64::try_from(n).ok().and_then(|n| n.checked_mul(unit));
        n.ok_or_else(|| fault!(InvalidArgument, "meter of `{name}`: {what} is out of range"))
    };
    if config.eburst != 0 {
        return Err(fault!(
            InvalidArgument,
            "meter of `{name}`: eburst is for meters of one rate; this one has two"
        ));
    }
    let (cir, cburst) = (number("cir", config.cir)?, number("cburst", config.cburst)?);
    let (pir, pburst) = (number("pir", config.pir)?, number("pburst", config.pburst)?);
    if cir > pir {
        return Err(fault!(
            InvalidArgument,
            "meter of `{name}`: cir {} is above pir {}",
            config.cir,
            config.pir
        ));
    }
    let band = |rate, burst, color| Band { rate, burst, color, level: 0 };
    // Of equal rates the one named first is asked first: the peak.
    Ok(Meter { packets, bands: vec![band(pir, pburst, RED), band(cir, cburst, YELLOW)] })
}

/// A meter's rates as a client reads them. One that was set as text may have one rate alone.
fn told(meter: &Meter, packets: bool) -> v1::MeterConfig {
    let unit = if packets { 1 } else { 8 };
    let number = |n: u64| i64::try_from(n / unit).unwrap_or(i64::MAX);
    let band = |color: u8| meter.bands.iter().find(|b| b.color == color);
    let (low, high) = (band(YELLOW), band(RED));
    let of = |band: Option<&Band>| band.map_or((0, 0), |b| (number(b.rate), number(b.burst)));
    let (cir, cburst) = of(low.or(high));
    let (pir, pburst) = of(high.or(low));
    v1::MeterConfig { cir, cburst, pir, pburst, eburst: 0 }
}

fn set(
    control: &mut Control,
    meter: MeterId,
    config: Option<&v1::MeterConfig>,
    packets: bool,
    name: &str,
) -> Result<Vec<Update>, Fault> {
    Ok(match config {
        Some(config) => control.set_meter(meter, of_config(config, packets, name)?)?,
        None if control.pipeline.meter(meter).is_some() => control.remove_meter(meter)?,
        None => Vec::new(),
    })
}

/// Sets the meter of an entry; without rates it is green.
pub(super) fn set_direct(
    control: &mut Control,
    t: &Table,
    entry: EntryId,
    config: Option<&v1::MeterConfig>,
) -> Result<Vec<Update>, Fault> {
    let packets = t.meter.is_some_and(|(_, packets)| packets);
    set(control, meter_of(entry), config, packets, &t.name)
}

/// The rates of an entry's meter.
pub(super) fn told_direct(
    control: &Control,
    entry: EntryId,
    packets: bool,
) -> Option<v1::MeterConfig> {
    control.pipeline.meter(meter_of(entry)).map(|m| told(m, packets))
}

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
        let updates = set(w.control, meter, e.config.as_ref(), array.packets, &array.name)?;
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
            let config = meter.map(|m| told(m, array.packets));
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
