//! `controller`: sends the packet to controllers, with Nicira's options or as a plain output.

use super::absent::absent;
use super::row::{Decoded, Parsed, Row, foreign, head};
use super::text::dotted;
use crate::action::Action;
use crate::codec::property;
use crate::codec::reader::Reader;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::extension::ToController;
use crate::ids::{MeterId, PortNo};
use crate::packet::PacketInReason;
use crate::syntax::error::{Fault, nearest};
use crate::syntax::piece::{Word, Words};
use crate::version::Version;

/// What a `controller` action may give as its reason.
const REASONS: [(&str, PacketInReason); 6] = [
    ("no_match", PacketInReason::NoMatch),
    ("action", PacketInReason::Action),
    ("invalid_ttl", PacketInReason::InvalidTtl),
    ("action_set", PacketInReason::ActionSet),
    ("group", PacketInReason::Group),
    ("packet_out", PacketInReason::PacketOut),
];

pub(super) static CONTROLLER: Row = Row {
    name: "controller with options",
    words: &[("controller", Version::V10)],
    nicira: &[20, 37],
    parse: Some(|word, _| parse(word)),
    print: Some(|out, action, _| {
        let Action::Controller(to) = action else { foreign(action) };
        write!(out, "controller({})", options(to).join(","))
    }),
    decode: Some(|subtype, r, _| {
        if subtype == 37 {
            return decode(r);
        }
        let max_len = r.u16()?;
        let (id, number) = (r.u16()?, r.u8()?);
        r.skip(1)?;
        let reason = reason(r, number)?;
        let (userdata, meter, pause) = (Vec::new(), None, false);
        Ok(to_controller(ToController { max_len, reason, id, userdata, meter, pause }))
    }),
    encode: Some(|buf, action, _| {
        let Action::Controller(to) = action else { foreign(action) };
        put(buf, to);
        Ok(())
    }),
    arbitrary: Some(|rng, _| {
        Action::Controller(ToController {
            max_len: rng.u16(),
            reason: rng.choose(&PacketInReason::ALL),
            id: 1 + rng.u16() % 1000,
            userdata: if rng.one_in(2) { rng.bytes(20) } else { Vec::new() },
            meter: rng.one_in(3).then(|| MeterId(1 + rng.u32() % 100)),
            pause: rng.one_in(3),
        })
    }),
    ..Row::EXTENSION
};

/// The reason that a `controller` action gives.
fn reason(r: &Reader<'_>, number: u8) -> Decoded<PacketInReason> {
    PacketInReason::ALL.get(usize::from(number)).copied().ok_or_else(|| {
        r.bad_value(ErrorCode::BacBadArgument, "controller's reason", number, "0 to 5")
    })
}

/// A `controller` action: a plain output where it asks for nothing else.
fn to_controller(to: ToController) -> Action {
    if to.is_output() {
        Action::Output { port: PortNo::CONTROLLER, max_len: to.max_len }
    } else {
        Action::Controller(to)
    }
}

/// `controller` with properties.
fn decode(r: &mut Reader<'_>) -> Decoded {
    r.skip(6)?;
    let (mut max_len, mut id, mut why) = (u16::MAX, 0, PacketInReason::Action);
    let (mut userdata, mut meter, mut pause) = (Vec::new(), None, false);
    while r.left() >= 4 {
        let start = r.left();
        let mut ahead = *r;
        let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
        let padded = length.next_multiple_of(8).min(start);
        let mut p = r.sub(padded, "controller's property", ErrorCode::BacBadLen)?;
        if length < 4 || length > padded {
            return Err(p.bad_length(length, "4 or more, and no more than is there,"));
        }
        p.skip(4)?;
        match kind {
            0 => max_len = p.u16()?,
            1 => id = p.u16()?,
            2 => {
                let number = p.u8()?;
                why = reason(&p, number)?;
            }
            3 => userdata = p.take(length - 4)?.to_vec(),
            4 => pause = true,
            // Number 0 says that there is none.
            5 => meter = Some(MeterId(p.u32()?)).filter(|meter| meter.0 != 0),
            _ => return Err(absent(r, 37)),
        }
        p.rest();
    }
    r.rest();
    Ok(to_controller(ToController { max_len, reason: why, id, userdata, meter, pause }))
}

/// Writes it, with properties where the short form has no place.
fn put(buf: &mut Vec<u8>, to: &ToController) {
    let ToController { max_len, reason, id, userdata, meter, pause } = to;
    let reason = reason.wire(Version::V15);
    if userdata.is_empty() && meter.is_none() && !pause {
        head(buf, 20);
        buf.put_u16(*max_len);
        buf.put_u16(*id);
        buf.put_u8(reason);
        buf.pad(1);
        return;
    }
    head(buf, 37);
    buf.pad(6);
    let numbers: [(u16, &[u8]); 3] =
        [(0, &max_len.to_be_bytes()), (1, &id.to_be_bytes()), (2, &[reason])];
    for (number, value) in numbers {
        let at = property::begin(buf, number);
        buf.extend_from_slice(value);
        // Small numbers are padded to four bytes, which count.
        buf.pad(4 - value.len());
        property::end(buf, at);
    }
    if !userdata.is_empty() {
        let at = property::begin(buf, 3);
        buf.extend_from_slice(userdata);
        property::end(buf, at);
    }
    if *pause {
        let at = property::begin(buf, 4);
        property::end(buf, at);
    }
    if let Some(meter) = meter {
        let at = property::begin(buf, 5);
        buf.put_u32(meter.0);
        property::end(buf, at);
    }
}

/// `controller`, `controller:N`, `controller(max_len=N)`.
fn parse(word: &Word<'_>) -> Parsed {
    let mut max_len = Action::NO_BUFFER;
    let (mut why, mut id, mut userdata) = (PacketInReason::Action, 0, Vec::new());
    let (mut meter, mut pause) = (None, false);
    match word.value {
        Some(options) if word.parenthesised() => {
            let mut words = Words::of(options);
            while let Some(option) = words.next()? {
                match option.key.text {
                    "max_len" => max_len = option.arg()?.u16()?,
                    "id" => id = option.arg()?.u16()?,
                    "reason" => {
                        let known = REASONS.iter().find(|(name, _)| option.value_is(name));
                        match known {
                            Some((_, reason)) => why = *reason,
                            None => {
                                let names: Vec<_> = REASONS.iter().map(|(name, _)| *name).collect();
                                return Err(option.arg()?.expected(names.join(", ")));
                            }
                        }
                    }
                    "userdata" => userdata = dotted(option.arg()?)?,
                    "meter_id" => {
                        meter = Some(MeterId(option.arg()?.u32()?)).filter(|meter| meter.0 != 0);
                    }
                    "pause" => {
                        option.bare()?;
                        pause = true;
                    }
                    name => {
                        let known = ["max_len", "reason", "id", "userdata", "meter_id", "pause"];
                        let nearest = nearest(name, known);
                        let fault = Fault::Unknown { what: "option of `controller`", nearest };
                        return Err(option.key.error(fault));
                    }
                }
            }
        }
        Some(_) => max_len = word.arg()?.u16()?,
        None => {}
    }
    let to = ToController { max_len, reason: why, id, userdata, meter, pause };
    match to.is_output() {
        true => Ok(Action::Output { port: PortNo::CONTROLLER, max_len }),
        false => Ok(Action::Controller(to)),
    }
}

/// What is printed in the parentheses.
fn options(to: &ToController) -> Vec<String> {
    let ToController { max_len, reason, id, userdata, meter, pause } = to;
    let mut parts = Vec::new();
    if *reason != PacketInReason::Action {
        let name = REASONS.iter().find(|(_, r)| r == reason).map_or("action", |(n, _)| n);
        parts.push(format!("reason={name}"));
    }
    if *max_len != Action::NO_BUFFER {
        parts.push(format!("max_len={max_len}"));
    }
    if *id != 0 {
        parts.push(format!("id={id}"));
    }
    if !userdata.is_empty() {
        let bytes: Vec<_> = userdata.iter().map(|byte| format!("{byte:02x}")).collect();
        parts.push(format!("userdata={}", bytes.join(".")));
    }
    if let Some(meter) = meter {
        parts.push(format!("meter_id={}", meter.0));
    }
    if *pause {
        parts.push("pause".to_owned());
    }
    parts
}
