//! Meter-mods (1.3.5 §6.6, §7.3.4.4).
//!
//! Deleting a meter takes along the flow entries that use it, in one transaction.

use crate::meter_table::{Asked, BANDS_MAX, MeterEntry};
use crate::refusal::Refusal;
use crate::stage::Batch;
use crate::transaction::Transaction;
use ir::Update;
use of_lower::lower_meter;
use openflow::{BandKind, FlowRemovedReason, MeterFlags, MeterId, MeterMod, MeterModCommand};
use std::collections::BTreeSet;
use std::sync::Arc;

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

impl Transaction<'_> {
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
        let old = self.stores.meters.get(meter);
        match (request.command, old) {
            (MeterModCommand::Add, Some(_)) => return Err(Refusal::MeterExists { meter }),
            (MeterModCommand::Modify, None) => return Err(Refusal::UnknownMeter { meter }),
            (MeterModCommand::Add, None)
                if self.stores.meters.len() >= self.env.config.meters_max as usize =>
            {
                return Err(Refusal::OutOfMeters { max: self.env.config.meters_max });
            }
            _ => {}
        }
        let since = |old: &MeterEntry| (old.created_ns, old.before_ns);
        let (created_ns, before_ns) = old.map_or_else(|| (self.env.switch.now_ns(), 0), since);
        check(&request)?;
        let lowered = lower_meter(&request);
        //= openflow-1.3.5 §6.6: a modify replaces flags and bands; what counts the meter goes on,
        //= what counts its bands begins anew.
        // The switch begins a meter anew. What workers ask the old one until they know the new one
        // is counted nowhere.
        let before = old.map(|old| {
            let counted = self.env.switch.meter_stats(ir::MeterId(meter));
            let counted = counted.map(|c| c.input).unwrap_or_default();
            Asked {
                packets: old.before.packets + counted.packets,
                bytes: old.before.bytes + counted.bytes,
            }
        });
        let mut tx = Batch::new(&self.env.switch, self.stage);
        tx.push(Update::SetMeter(ir::MeterId(meter), Arc::new(lowered)));
        tx.commit()?.retire(&self.env.switch);
        let entry = MeterEntry {
            flags: request.flags,
            bands: request.bands,
            created_ns,
            before_ns,
            before: before.unwrap_or_default(),
        };
        self.stores.meters.put(meter, Some(entry));
        Ok(())
    }

    //= openflow-1.3.5 §6.6: deleting a meter that is not there is no error; flow entries that use a
    //= deleted meter are removed with it; OFPM_ALL deletes all meters.
    fn delete_meters(&mut self, id: MeterId) -> Result<(), Refusal> {
        let gone: Vec<u32> = if id == MeterId::ALL {
            self.stores.meters.iter().map(|(id, _)| id).collect()
        } else if self.stores.meters.contains(id.0) {
            vec![id.0]
        } else {
            Vec::new()
        };
        if gone.is_empty() {
            return Ok(());
        }
        let users: BTreeSet<_> =
            gone.iter().flat_map(|meter| self.stores.flows.users_of_meter(*meter)).collect();
        let users = self.stores.with_reflections(users.into_iter().collect());
        let mut tx = Batch::new(&self.env.switch, self.stage);
        let keys = users.iter().copied();
        self.stores.take_out(&mut tx, &self.env.layout, keys)?;
        gone.iter().for_each(|meter| tx.push(Update::RemoveMeter(ir::MeterId(*meter))));
        let spent = tx.commit()?;
        gone.iter().for_each(|meter| self.stores.meters.put(*meter, None));
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
    use openflow::{Band, ErrorCode};

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
