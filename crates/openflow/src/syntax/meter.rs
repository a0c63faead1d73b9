//! Meters: as `ovs-ofctl add-meter` takes them and `ovs-ofctl dump-meters` prints them.

use super::context::Context;
use super::error::{Fault, nearest};
use super::matches::text;
use super::piece::{Piece, Result, Words};
use crate::ids::MeterId;
use crate::meter::{Band, BandKind, MeterConfig, MeterFlags, MeterMod, MeterModCommand};
use crate::version::Version;
use std::fmt::{self, Write};

const COMMANDS: &[(&str, MeterModCommand)] = &[
    ("add", MeterModCommand::Add),
    ("modify", MeterModCommand::Modify),
    ("delete", MeterModCommand::Delete),
];

const FLAGS: &[(&str, MeterFlags)] = &[
    ("kbps", MeterFlags::KBPS),
    ("pktps", MeterFlags::PKTPS),
    ("burst", MeterFlags::BURST),
    ("stats", MeterFlags::STATS),
];

/// Meters with names.
const NAMED: &[(&str, MeterId)] =
    &[("all", MeterId::ALL), ("controller", MeterId::CONTROLLER), ("slowpath", MeterId::SLOWPATH)];

/// Reads a meter: perhaps a command (`add` if there is none), then `meter=`, the flags and `bands=`
/// with a `type=` for each band. A delete has only `meter`, a number or `all`, which is also what it
/// means without one.
///
/// # Errors
/// The first word that is wrong, or that the version cannot say.
pub fn parse_meter(text: &str, cx: &Context<'_>) -> Result<MeterMod> {
    let line = Piece::line(text);
    if cx.version == Version::V10 {
        let what = "thing as meters";
        return Err(line.error(Fault::NotIn { version: cx.version, what }));
    }
    let mut meter = MeterMod {
        command: MeterModCommand::Add,
        flags: MeterFlags::empty(),
        meter_id: MeterId::ALL,
        bands: Vec::new(),
    };
    let mut id = None;
    let mut words = Words::of(line);
    let mut first = true;
    while let Some(word) = words.next()? {
        if std::mem::replace(&mut first, false)
            && let Some((_, command)) = COMMANDS.iter().find(|(name, _)| word.whole.is(name))
        {
            meter.command = *command;
            continue;
        }
        let is_delete = meter.command == MeterModCommand::Delete;
        if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| word.key.is(name)) {
            word.bare()?;
            meter.flags |= *flag;
        } else if word.key.is("meter") {
            if id.is_some() {
                return Err(word.key.error(Fault::Twice));
            }
            let arg = word.arg()?;
            id = Some(match NAMED.iter().find(|(name, _)| arg.is(name)) {
                Some((_, MeterId::ALL)) if !is_delete => {
                    return Err(arg.refused("only a delete may name all meters"));
                }
                Some((_, id)) => *id,
                None => MeterId(arg.u32()?),
            });
        } else if word.key.is("bands") || word.key.is("band") {
            if word.value.is_none() || word.parenthesised() {
                return Err(word.key.expected("`bands=`"));
            }
            if is_delete {
                return Err(word.key.refused("a delete has no bands"));
            }
            meter.bands = bands(word.rest)?;
            break;
        } else {
            let known = ["meter", "bands", "kbps", "pktps", "burst", "stats"];
            let nearest = nearest(word.key.text, known);
            return Err(word.key.error(Fault::Unknown { what: "word of a meter", nearest }));
        }
    }
    let end = Piece { text: "", at: text.len() };
    meter.meter_id = match id {
        Some(id) => id,
        None if meter.command == MeterModCommand::Delete => MeterId::ALL,
        None => return Err(end.expected("`meter=`")),
    };
    let units = meter.flags & (MeterFlags::KBPS | MeterFlags::PKTPS);
    match (units.bits().count_ones(), meter.command) {
        (_, MeterModCommand::Delete) | (1, _) => {}
        (0, _) => return Err(end.expected("the meter's unit, `kbps` or `pktps`")),
        _ => return Err(line.refused("a meter counts either kbps or pktps")),
    }
    if meter.bands.is_empty() && meter.command != MeterModCommand::Delete {
        return Err(end.expected("`bands=`"));
    }
    Ok(meter)
}

/// A band while its words are read.
struct Reading<'a> {
    kind: Piece<'a>,
    rate: Option<u32>,
    burst_size: u32,
    prec_level: Option<u8>,
    experimenter: Option<u32>,
    data: Vec<u8>,
}

impl<'a> Reading<'a> {
    fn finish(self) -> Result<Band> {
        let kind = match self.kind.text.to_ascii_lowercase().as_str() {
            "drop" => BandKind::Drop,
            "dscp_remark" => match self.prec_level {
                Some(prec_level) => BandKind::DscpRemark { prec_level },
                None => return Err(self.kind.refused("the band needs `prec_level=`")),
            },
            "experimenter" => match self.experimenter {
                Some(experimenter) => BandKind::Experimenter { experimenter, data: self.data },
                None => return Err(self.kind.refused("the band needs `id=`")),
            },
            _ => return Err(self.kind.expected("a band type: drop, dscp_remark or experimenter")),
        };
        match self.rate {
            Some(rate) => Ok(Band { rate, burst_size: self.burst_size, kind }),
            None => Err(self.kind.refused("the band needs `rate=`")),
        }
    }
}

fn bands(piece: Piece<'_>) -> Result<Vec<Band>> {
    let mut bands = Vec::new();
    let mut reading: Option<Reading<'_>> = None;
    let mut words = Words::of(piece);
    while let Some(word) = words.next()? {
        if word.key.is("type") {
            bands.extend(reading.take().map(Reading::finish).transpose()?);
            reading = Some(Reading {
                kind: word.arg()?,
                rate: None,
                burst_size: 0,
                prec_level: None,
                experimenter: None,
                data: Vec::new(),
            });
            continue;
        }
        let Some(band) = &mut reading else {
            return Err(word.key.expected("`type=`, which begins a band"));
        };
        let experimenter = band.kind.is("experimenter");
        match word.key.text.to_ascii_lowercase().as_str() {
            "rate" => band.rate = Some(word.arg()?.u32()?),
            "burst_size" => band.burst_size = word.arg()?.u32()?,
            "prec_level" if band.kind.is("dscp_remark") => {
                band.prec_level = Some(word.arg()?.u8()?);
            }
            "prec_level" => return Err(word.key.refused("only a dscp_remark band has it")),
            "id" if experimenter => band.experimenter = Some(word.arg()?.u32()?),
            "data" if experimenter => band.data = word.arg()?.hex_bytes()?,
            name => {
                let known = ["type", "rate", "burst_size", "prec_level"];
                let nearest = nearest(name, known);
                return Err(word.key.error(Fault::Unknown { what: "word of a band", nearest }));
            }
        }
    }
    bands.extend(reading.take().map(Reading::finish).transpose()?);
    match bands.is_empty() {
        true => Err(piece.expected("`type=`, which begins a band")),
        false => Ok(bands),
    }
}

/// Prints a meter as `ovs-ofctl dump-meters` does, on one line; [`parse_meter`] reads it.
pub fn print_meter(meter: &MeterConfig) -> String {
    text(|out| print(out, meter.meter_id, meter.flags, &meter.bands))
}

/// Prints a meter-mod as [`parse_meter`] reads it, the command left out of an add.
pub fn print_meter_mod(meter: &MeterMod) -> String {
    text(|out| {
        let named = COMMANDS.iter().find(|(_, command)| *command == meter.command);
        if let (false, Some((name, _))) = (meter.command == MeterModCommand::Add, named) {
            write!(out, "{name} ")?;
        }
        let bands = if meter.command == MeterModCommand::Delete { &[][..] } else { &meter.bands };
        print(out, meter.meter_id, meter.flags, bands)
    })
}

fn print(out: &mut dyn Write, id: MeterId, flags: MeterFlags, bands: &[Band]) -> fmt::Result {
    match NAMED.iter().find(|(_, named)| *named == id) {
        Some((name, _)) => write!(out, "meter={name}")?,
        None => write!(out, "meter={id}")?,
    }
    for (name, _) in FLAGS.iter().filter(|(_, flag)| flags.contains(*flag)) {
        write!(out, " {name}")?;
    }
    if bands.is_empty() {
        return Ok(());
    }
    out.write_str(" bands=")?;
    for (i, band) in bands.iter().enumerate() {
        let name = match band.kind {
            BandKind::Drop => "drop",
            BandKind::DscpRemark { .. } => "dscp_remark",
            BandKind::Experimenter { .. } => "experimenter",
        };
        write!(out, "{}type={name} rate={}", if i == 0 { "" } else { " " }, band.rate)?;
        if flags.contains(MeterFlags::BURST) || band.burst_size != 0 {
            write!(out, " burst_size={}", band.burst_size)?;
        }
        match &band.kind {
            BandKind::Drop => {}
            BandKind::DscpRemark { prec_level } => write!(out, " prec_level={prec_level}")?,
            BandKind::Experimenter { experimenter, data } => {
                write!(out, " id={experimenter:#x}")?;
                if !data.is_empty() {
                    out.write_str(" data=")?;
                    data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
                }
            }
        }
    }
    Ok(())
}
