//! Commands for registers, counters, meters and value sets.

use super::{Session, int, named};
use crate::control::value::{show, value};
use crate::control::{meter_of, nearest};
use crate::lower::names::{TableName, find};
use ir::program::Select;
use ir::{Band, Bits, EntryId, Meter, MeterId};

/// Rates of a microsecond and bursts, as the switch wants them: of a second, and in bits. The
/// two-rate three-colour marker of RFC 2698, colour-blind: the first rate is the committed
/// one, above which packets are yellow, the second the peak, above which they are red.
pub(super) fn rates(words: &[&str], packets: bool) -> Result<Meter, String> {
    let mut bands = Vec::new();
    for (word, color) in words.iter().zip(1u8..) {
        let parsed = word.split_once(':').and_then(|(rate, burst)| {
            let rate: f64 = rate.parse().ok().filter(|r: &f64| r.is_finite() && *r >= 0.0)?;
            Some((rate, burst.parse::<u64>().ok()?))
        });
        let Some((rate, burst)) = parsed else {
            return Err(format!("`{word}`: write RATE:BURST, as in 0.125:10000"));
        };
        // Conversions of floats saturate.
        let (rate, burst) = match packets {
            true => ((rate * 1e6).round() as u64, burst),
            false => ((rate * 8e6).round() as u64, burst.saturating_mul(8)),
        };
        bands.push(Band { rate, burst, color, level: 0 });
    }
    if let [low, high] = bands.as_slice()
        && low.rate > high.rate
    {
        return Err(
            "the first rate, which marks yellow, is at most the second, which marks red".into()
        );
    }
    // Of equal rates the one named first is asked first: the peak.
    bands.reverse();
    Ok(Meter { packets, bands })
}

/// Rates as [`rates`] reads them, a blank before each.
pub(super) fn rates_text(meter: &Meter) -> String {
    let text = |band: &Band| match meter.packets {
        true => format!(" {}:{}", band.rate as f64 / 1e6, band.burst),
        false => format!(" {}:{}", band.rate as f64 / 8e6, band.burst / 8),
    };
    meter.bands.iter().rev().map(text).collect()
}

/// A member of a value set.
pub(super) fn member(text: &str, width: u32) -> Result<Select, String> {
    Ok(match text.split_once("&&&") {
        Some((v, m)) => {
            let (v, m) = (value(v, width)?, value(m, width)?);
            Select::Masked(v.and(&m), m)
        }
        None => Select::Masked(value(text, width)?, Bits::ones(width)),
    })
}

/// A member of a value set as [`member`] reads it.
pub(super) fn member_text(member: &Select) -> String {
    match member {
        Select::Masked(v, m) if m.is_ones() => show(v),
        Select::Masked(v, m) => format!("{}&&&{}", show(v), show(m)),
        Select::Range(a, b) => format!("{}->{}", show(a), show(b)),
        Select::Any | Select::ValueSet(_) => "*".to_string(),
    }
}

impl Session<'_> {
    pub(super) fn register(&mut self, word: &str, rest: &[&str]) -> Result<(), String> {
        let (name, id, width) =
            named(&self.control.names.registers, |r| &r.0, "register", rest[0])?.clone();
        let size = self.control.pipeline.program().registers[id.index()].size;
        let inside = |text: &str| -> Result<u32, String> {
            let index = int(text, "the index")?;
            match index < size {
                true => Ok(index),
                false => Err(format!("the register `{name}` has {size} cells: 0 to {}", size - 1)),
            }
        };
        self.flush()?;
        match (word, rest.get(1)) {
            ("register_write", Some(index)) => {
                let index = inside(index)?;
                let v = value(rest[2], width)?;
                self.plane.set_register(id, index, &v)
            }
            ("register_read", Some(index)) => {
                let index = inside(index)?;
                let v = self.plane.register(id, index)?.ok_or("the register has no such cell")?;
                self.tell(format!("{name}[{index}] = {}", show(&v)))
            }
            ("register_read", None) => {
                let mut all = Vec::new();
                for index in 0..size {
                    let v =
                        self.plane.register(id, index)?.ok_or("the register has no such cell")?;
                    all.push(show(&v));
                }
                self.tell(format!("{name} = {}", all.join(", ")))
            }
            _ => (0..size).try_for_each(|i| self.plane.set_register(id, i, &Bits::zero(width))),
        }
    }

    pub(super) fn counter(&mut self, word: &str, rest: &[&str]) -> Result<(), String> {
        let direct = self.control.names.tables.iter().filter_map(|t| {
            let name = t.counter.clone()?;
            Some((name, t.clone()))
        });
        let direct: Vec<(String, TableName)> = direct.collect();
        self.flush()?;
        let array = find(&self.control.names.counters, |c| &c.0, rest[0]).cloned();
        if let (None, Some((name, t))) = (&array, find(&direct, |d| &d.0, rest[0])) {
            if word == "counter_reset" {
                let entries: Vec<EntryId> = self.control.handles(t.id).map(|h| h.1).collect();
                return entries.into_iter().try_for_each(|e| self.plane.reset_entry(e));
            }
            let handle = int(rest[1], "the handle")?;
            let (_, entry) = self.control.entry(&t.name, handle)?;
            let (packets, bytes) = self.plane.entry(entry)?;
            return self.tell(format!("{name}[{handle}]: {packets} packets, {bytes} bytes"));
        }
        let Some((name, id)) = array else {
            let mut known = self.control.names.counters.clone();
            known.extend(direct.into_iter().map(|d| (d.0, 0)));
            return named(&known, |c| &c.0, "counter", rest[0]).map(|_| ());
        };
        let size = self.control.pipeline.program().counters[id as usize].size;
        if word == "counter_reset" {
            return self.plane.reset_counter(id, size);
        }
        let index = int(rest[1], "the index")?;
        match self.plane.counter(id, index)? {
            Some((packets, bytes)) => {
                self.tell(format!("{name}[{index}]: {packets} packets, {bytes} bytes"))
            }
            None => Err(format!("the counter `{name}` has {size} cells: 0 to {}", size - 1)),
        }
    }

    pub(super) fn meter(&mut self, word: &str, rest: &[&str]) -> Result<(), String> {
        // The meter's name, whether it counts packets, and its cells by index.
        let direct = self.control.names.tables.iter().filter(|t| t.meter.is_some());
        let direct: Vec<(String, TableName)> =
            direct.filter_map(|t| Some((t.meter.as_ref()?.name.clone(), t.clone()))).collect();
        let array = find(&self.control.names.meters, |m| &m.name, rest[0]).cloned();
        let of_entries = find(&direct, |d| &d.0, rest[0]).cloned();
        let (name, packets, cells) = match (array, of_entries) {
            (Some(m), _) => {
                let cells = (0..m.size).map(|i| (i, MeterId(m.first + i))).collect::<Vec<_>>();
                (m.name, m.packets, cells)
            }
            (None, Some((name, t))) => {
                let packets = t.meter.as_ref().is_some_and(|m| m.packets);
                let cells = self.control.handles(t.id).map(|(h, e)| (h, meter_of(e)));
                (name, packets, cells.collect())
            }
            (None, None) => {
                let arrays = self.control.names.meters.iter().map(|m| m.name.as_str());
                let known = arrays.chain(direct.iter().map(|d| d.0.as_str()));
                return Err(format!("there is no meter `{}`{}", rest[0], nearest(rest[0], known)));
            }
        };
        let cell = |text: &str| -> Result<(u32, MeterId), String> {
            let index = int(text, "the index")?;
            cells.iter().find(|c| c.0 == index).copied().ok_or_else(|| {
                match direct.iter().any(|d| d.0 == name) {
                    true => format!("the table of `{name}` has no entry with the handle {index}"),
                    false => format!(
                        "the meter `{name}` has {} cells: 0 to {}",
                        cells.len(),
                        cells.len() - 1
                    ),
                }
            })
        };
        match word {
            "meter_set_rates" => {
                let (_, id) = cell(rest[1])?;
                let updates = self.control.set_meter(id, rates(&rest[2..], packets)?)?;
                self.take(updates)
            }
            "meter_reset_rates" => {
                let (_, id) = cell(rest[1])?;
                if self.control.pipeline.meter(id).is_some() {
                    let updates = self.control.remove_meter(id)?;
                    self.take(updates)?;
                }
                Ok(())
            }
            "meter_array_set_rates" => {
                let config = rates(&rest[1..], packets)?;
                for (_, id) in cells {
                    let updates = self.control.set_meter(id, config.clone())?;
                    self.take(updates)?;
                }
                Ok(())
            }
            _ => {
                let (index, id) = cell(rest[1])?;
                let text = match self.control.pipeline.meter(id) {
                    None => "no rates: everything is green".to_string(),
                    Some(config) => {
                        let unit =
                            if packets { ("packets/s", "packets") } else { ("bit/s", "bits") };
                        let bands: Vec<String> = config
                            .bands
                            .iter()
                            .rev()
                            .map(|b| format!("{} {}, burst {} {}", b.rate, unit.0, b.burst, unit.1))
                            .collect();
                        bands.join("; ")
                    }
                };
                self.tell(format!("{name}[{index}]: {text}"))
            }
        }
    }

    pub(super) fn value_set(&mut self, word: &str, rest: &[&str]) -> Result<(), String> {
        let (name, id, widths) =
            named(&self.control.names.value_sets, |v| &v.0, "value set", rest[0])?.clone();
        let width = widths.iter().sum();
        let mut members = self.control.pipeline.value_set(id).to_vec();
        let member = |text: &str| member(text, width);
        match word {
            "pvs_add" => {
                let new = member(rest[1])?;
                if members.contains(&new) {
                    return Err(format!("`{}` is in `{name}` already", rest[1]));
                }
                members.push(new);
            }
            "pvs_remove" => {
                let old = member(rest[1])?;
                let at = members.iter().position(|m| *m == old);
                members.remove(at.ok_or_else(|| format!("`{}` is not in `{name}`", rest[1]))?);
            }
            "pvs_clear" => members.clear(),
            _ => {
                let all: Vec<String> = members.iter().map(member_text).collect();
                return self.tell(format!("{name}: {}", all.join(", ")));
            }
        }
        let updates = self.control.set_value_set(id, members)?;
        self.take(updates)
    }
}
