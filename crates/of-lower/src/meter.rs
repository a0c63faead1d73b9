//! Meters (1.3.5 §5.7, §7.3.4.4): rates in bits or packets, bands as colours.

use openflow::{BandKind, MeterFlags, MeterMod};

/// The colour of a band that marks.
const YELLOW: u8 = 1;
/// The colour of a band that drops.
const RED: u8 = 2;

/// A meter as the switch runs it. Bands of experimenters, which the rules refuse, are left out.
pub fn lower_meter(request: &MeterMod) -> ir::Meter {
    let packets = request.flags.contains(MeterFlags::PKTPS);
    let unit = if packets { 1 } else { 1000 };
    let mut bands = Vec::with_capacity(request.bands.len());
    for band in &request.bands {
        let (color, level) = match &band.kind {
            BandKind::Drop => (RED, 0),
            BandKind::DscpRemark { prec_level } => (YELLOW, *prec_level),
            BandKind::Experimenter { .. } => continue,
        };
        //= openflow-1.3.5 §7.3.4.4: burst sizes count only with OFPMF_BURST.
        let burst = if request.flags.contains(MeterFlags::BURST) { band.burst_size } else { 0 };
        let (rate, burst) = (unit * u64::from(band.rate), unit * u64::from(burst));
        bands.push(ir::Band { rate, burst, color, level });
    }
    ir::Meter { packets, bands }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{Band, MeterId, MeterModCommand};

    fn add(flags: MeterFlags, bands: Vec<Band>) -> MeterMod {
        MeterMod { command: MeterModCommand::Add, flags, meter_id: MeterId(1), bands }
    }

    fn band(rate: u32, burst_size: u32, kind: BandKind) -> Band {
        Band { rate, burst_size, kind }
    }

    #[test]
    fn bursts_count_only_when_asked_for() {
        let bands = || vec![band(10, 5, BandKind::Drop)];
        let lowered = lower_meter(&add(MeterFlags::KBPS, bands()));
        assert_eq!((lowered.packets, lowered.bands[0].burst), (false, 0));
        assert_eq!(lowered.bands[0].rate, 10_000);
        let lowered = lower_meter(&add(MeterFlags::PKTPS | MeterFlags::BURST, bands()));
        assert_eq!((lowered.packets, lowered.bands[0].burst), (true, 5));
        assert!(!lower_meter(&add(MeterFlags::empty(), bands())).packets);
    }

    #[test]
    fn bands_become_colours() {
        let remark = BandKind::DscpRemark { prec_level: 1 };
        let meter = lower_meter(&add(
            MeterFlags::KBPS,
            vec![band(1, 0, remark), band(2, 0, BandKind::Drop)],
        ));
        let colors: Vec<_> = meter.bands.iter().map(|b| (b.color, b.level)).collect();
        assert_eq!(colors, [(YELLOW, 1), (RED, 0)]);
    }
}
