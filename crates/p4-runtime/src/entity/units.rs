//! Counts and rates as clients have them, and as the switch does.

use super::shared::{Effect, Reading, Writing};
use super::table::Owner;
use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::schema::Table;
use ir::{Band, Meter, MeterId, Update};
use p4::control::Control;

/// Packets and bytes.
pub(super) fn counted(data: &v1::CounterData, name: &str) -> Result<(u64, u64), Fault> {
    let number = |n: i64| {
        u64::try_from(n).map_err(|_| fault!(InvalidArgument, "`{name}`: a counter of {n}"))
    };
    Ok((number(data.packet_count)?, number(data.byte_count)?))
}

/// As a client reads it.
pub(super) fn told((packets, bytes): (u64, u64)) -> v1::CounterData {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    v1::CounterData { packet_count: number(packets), byte_count: number(bytes) }
}

/// Yellow and red.
const YELLOW: u8 = 1;
const RED: u8 = 2;

/// Sets what a meter has counted by colour. It has got its rates before.
pub(super) fn set_counts(
    w: &mut Writing<'_>,
    meter: MeterId,
    data: &v1::MeterCounterData,
    name: &str,
) -> Result<(), Fault> {
    let zero = v1::CounterData::default();
    let of = |data: &Option<v1::CounterData>| counted(data.as_ref().unwrap_or(&zero), name);
    let to = [of(&data.green)?, of(&data.yellow)?, of(&data.red)?];
    let rates = w.control.pipeline.meter(meter).cloned();
    let rates = rates.ok_or_else(|| without_rates(name))?;
    w.effects.push(Effect::MeterCounts(meter, rates, to));
    Ok(())
}

/// Counts of colours are of meters that have rates.
pub(super) fn without_rates(name: &str) -> Fault {
    fault!(
        InvalidArgument,
        "meter of `{name}`: without rates it counts no colours; give its config, too"
    )
}

/// What a meter has counted by colour; none of one without rates.
pub(super) fn counts(r: &Reading<'_>, meter: MeterId) -> Option<v1::MeterCounterData> {
    let rates = r.control.pipeline.meter(meter)?;
    let [green, yellow, red] = r.plane.meter_counts(meter, rates)?.map(told).map(Some);
    Some(v1::MeterCounterData { green, yellow, red })
}

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
pub(super) fn rates(meter: &Meter, packets: bool) -> v1::MeterConfig {
    let unit = if packets { 1 } else { 8 };
    let number = |n: u64| i64::try_from(n / unit).unwrap_or(i64::MAX);
    let band = |color: u8| meter.bands.iter().find(|b| b.color == color);
    let (low, high) = (band(YELLOW), band(RED));
    let of = |band: Option<&Band>| band.map_or((0, 0), |b| (number(b.rate), number(b.burst)));
    let (cir, cburst) = of(low.or(high));
    let (pir, pburst) = of(high.or(low));
    v1::MeterConfig { cir, cburst, pir, pburst, eburst: 0 }
}

/// Sets a meter; without rates it is green.
pub(super) fn set_meter(
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

/// Sets the meter of an entry or default; without rates it is green.
pub(super) fn set_direct(
    control: &mut Control,
    t: &Table,
    meter: MeterId,
    config: Option<&v1::MeterConfig>,
) -> Result<Vec<Update>, Fault> {
    let packets = t.meter.is_some_and(|(_, packets)| packets);
    set_meter(control, meter, config, packets, &t.name)
}

/// The rates of an entry's meter, or a default's.
pub(super) fn told_direct(
    control: &Control,
    meter: MeterId,
    packets: bool,
) -> Option<v1::MeterConfig> {
    control.pipeline.meter(meter).map(|m| rates(m, packets))
}

/// Sets the direct counter and meter of a default action. They were checked before.
pub(super) fn write_default(
    w: &mut Writing<'_>,
    t: &Table,
    e: &v1::TableEntry,
) -> Result<(), Fault> {
    if let Some(data) = &e.counter_data {
        w.effects.extend(Owner::Default.count(t, counted(data, &t.name)?));
    }
    let meter = Owner::Default.meter(t);
    if t.meter.is_some() {
        let updates = set_direct(w.control, t, meter, e.meter_config.as_ref())?;
        w.take(updates);
        w.effects.push(Effect::MeterFresh(meter));
    }
    match &e.meter_counter_data {
        Some(data) => set_counts(w, meter, data, &t.name),
        None => Ok(()),
    }
}

/// What a client asks for of a default action's direct counter and meter.
pub(super) fn tell_default(
    r: &Reading<'_>,
    t: &Table,
    asked: &v1::TableEntry,
    to: &mut v1::TableEntry,
) {
    if let (true, Some(array)) =
        (asked.counter_data.is_some() && t.counter.is_some(), t.default_counter)
    {
        to.counter_data = r.plane.array_counter(array, 0).map(told);
    }
    let Some((_, packets)) = t.meter else { return };
    let meter = Owner::Default.meter(t);
    if asked.meter_config.is_some() {
        to.meter_config = told_direct(r.control, meter, packets);
    }
    if asked.meter_counter_data.is_some() {
        to.meter_counter_data = counts(r, meter);
    }
}
