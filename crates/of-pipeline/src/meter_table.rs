//! Meters: the store, and meter-mods (1.3.5 §5.7, §6.6, §7.3.4.4).
//!
//! A meter is kept as its controller wrote it: what is told back is what was sent, a burst size of 0
//! included, which leaves the choice to the switch. Deleting one takes along the flow entries that
//! use it, in one transaction.

use crate::agent::Agent;
use crate::refusal::Refusal;
use crate::transaction::Transaction;
use ir::Update;
use of_lower::lower_meter;
use openflow::{Band, BandKind, FlowRemovedReason, MeterFlags, MeterId, MeterMod, MeterModCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bands of one meter, at most.
pub const BANDS_MAX: usize = 255;

/// One meter.
#[derive(Clone, Debug)]
pub struct MeterEntry {
    /// How it counts.
    pub flags: MeterFlags,
    /// Its bands, in the order of the message.
    pub bands: Vec<Band>,
    /// When it was added, in nanoseconds of the switch's clock.
    pub created_ns: u64,
    /// What it had been asked about when it was last modified: the switch counts from there.
    pub before: Asked,
}

/// What a meter was asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// All meters of a switch.
#[derive(Debug, Default)]
pub struct MeterTable {
    meters: BTreeMap<u32, MeterEntry>,
    /// What meters were since a bundle began, to be undone if nothing comes of it.
    journal: Option<Vec<(u32, Option<MeterEntry>)>>,
}

impl MeterTable {
    /// From here on changes can be undone.
    pub(crate) fn begin(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// What changed stays.
    pub(crate) fn keep(&mut self) {
        self.journal = None;
    }

    /// All is as it was when it began.
    pub(crate) fn undo(&mut self) {
        for (meter, entry) in self.journal.take().into_iter().flatten().rev() {
            self.put(meter, entry);
        }
    }

    /// The meter is this from now on.
    fn put(&mut self, meter: u32, entry: Option<MeterEntry>) {
        let old = match entry {
            Some(entry) => self.meters.insert(meter, entry),
            None => self.meters.remove(&meter),
        };
        if let Some(journal) = &mut self.journal {
            journal.push((meter, old));
        }
    }

    /// The meter is there.
    pub fn contains(&self, meter: u32) -> bool {
        self.meters.contains_key(&meter)
    }

    /// The meter.
    pub fn get(&self, meter: u32) -> Option<&MeterEntry> {
        self.meters.get(&meter)
    }

    /// All meters by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &MeterEntry)> {
        self.meters.iter().map(|(id, m)| (*id, m))
    }

    /// All meters by number, from one on.
    pub(crate) fn iter_from(&self, from: u32) -> impl Iterator<Item = (u32, &MeterEntry)> {
        self.meters.range(from..).map(|(id, m)| (*id, m))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.meters.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.meters.is_empty()
    }
}

/// What a meter may consist of.
fn check(request: &MeterMod) -> Result<(), Refusal> {
    let MeterId(meter) = request.meter_id;
    //= openflow-1.3.5 §7.3.4.4: rates are in kilobits unless packets are asked for, never both.
    if request.flags.contains(MeterFlags::KBPS | MeterFlags::PKTPS) {
        return Err(Refusal::MeterFlags);
    }
    if request.bands.len() > BANDS_MAX {
        let bands = request.bands.len();
        return Err(Refusal::OutOfBands { meter, bands, max: BANDS_MAX });
    }
    for band in &request.bands {
        if band.rate == 0 {
            return Err(Refusal::BandRate { meter });
        }
        if let BandKind::Experimenter { experimenter, .. } = &band.kind {
            return Err(Refusal::BandKind { experimenter: *experimenter });
        }
    }
    Ok(())
}

impl Agent {
    /// Executes a meter-mod.
    pub(crate) fn meter_mod(&mut self, request: MeterMod) -> Result<(), Refusal> {
        let MeterId(meter) = request.meter_id;
        if request.command == MeterModCommand::Delete {
            return self.delete_meters(request.meter_id);
        }
        //= openflow-1.3.5 §7.3.4.4: meters number from 1 to OFPM_MAX; the virtual ones (slow path,
        //= controller) are optional, and not here.
        if meter == 0 || request.meter_id > MeterId::MAX {
            return Err(Refusal::MeterNumber { meter });
        }
        let old = self.meters.get(meter);
        match (request.command, old) {
            (MeterModCommand::Add, Some(_)) => return Err(Refusal::MeterExists { meter }),
            (MeterModCommand::Modify, None) => return Err(Refusal::UnknownMeter { meter }),
            (MeterModCommand::Add, None)
                if self.meters.len() >= self.config.meters_max as usize =>
            {
                return Err(Refusal::OutOfMeters { max: self.config.meters_max });
            }
            _ => {}
        }
        let created_ns = old.map_or_else(|| self.switch.now_ns(), |old| old.created_ns);
        check(&request)?;
        let lowered = lower_meter(&request);
        //= openflow-1.3.5 §6.6: a modify replaces flags and bands; what counts the meter goes on,
        //= what counts its bands begins anew.
        // The switch begins a meter anew. What workers ask the old one until they know the new one
        // is counted nowhere.
        let before = old.map(|old| {
            let counted = self.switch.meter_stats(ir::MeterId(meter));
            let counted = counted.map(|c| c.input).unwrap_or_default();
            Asked {
                packets: old.before.packets + counted.packets,
                bytes: old.before.bytes + counted.bytes,
            }
        });
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        tx.push(Update::SetMeter(ir::MeterId(meter), Arc::new(lowered)));
        tx.commit()?.retire(&self.switch);
        let entry = MeterEntry {
            flags: request.flags,
            bands: request.bands,
            created_ns,
            before: before.unwrap_or_default(),
        };
        self.meters.put(meter, Some(entry));
        Ok(())
    }

    //= openflow-1.3.5 §6.6: deleting a meter that is not there is no error; flow entries that use a
    //= deleted meter are removed with it; OFPM_ALL deletes all meters.
    fn delete_meters(&mut self, id: MeterId) -> Result<(), Refusal> {
        let gone: Vec<u32> = if id == MeterId::ALL {
            self.meters.iter().map(|(id, _)| id).collect()
        } else if self.meters.contains(id.0) {
            vec![id.0]
        } else {
            Vec::new()
        };
        if gone.is_empty() {
            return Ok(());
        }
        let users: BTreeSet<_> =
            gone.iter().flat_map(|meter| self.flows.users_of_meter(*meter)).collect();
        let users = self.with_reflections(users.into_iter().collect());
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        let keys = users.iter().copied();
        crate::removed::take_out(&mut tx, &mut self.conjunctions, &self.layout, &self.flows, keys)?;
        gone.iter().for_each(|meter| tx.push(Update::RemoveMeter(ir::MeterId(*meter))));
        let spent = tx.commit()?;
        gone.iter().for_each(|meter| self.meters.put(*meter, None));
        self.forget_flows(
            users.into_iter().map(|key| (key, FlowRemovedReason::MeterDelete)),
            spent,
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::ErrorCode;

    fn add(flags: MeterFlags, bands: Vec<Band>) -> MeterMod {
        MeterMod { command: MeterModCommand::Add, flags, meter_id: MeterId(1), bands }
    }

    fn band(rate: u32, burst_size: u32, kind: BandKind) -> Band {
        Band { rate, burst_size, kind }
    }

    #[test]
    fn wrong_meters_have_the_codes_of_the_specification() {
        let code = |m: MeterMod| check(&m).unwrap_err().code();
        let drop = |rate| band(rate, 0, BandKind::Drop);
        let both = MeterFlags::KBPS | MeterFlags::PKTPS;
        assert_eq!(code(add(both, vec![])), ErrorCode::MmfcBadFlags);
        assert_eq!(code(add(MeterFlags::KBPS, vec![drop(0)])), ErrorCode::MmfcBadRate);
        assert_eq!(code(add(MeterFlags::KBPS, vec![drop(1); 256])), ErrorCode::MmfcOutOfBands);
        let kind = BandKind::Experimenter { experimenter: 7, data: vec![] };
        assert_eq!(code(add(MeterFlags::KBPS, vec![band(1, 0, kind)])), ErrorCode::MmfcBadBand);
    }
}
