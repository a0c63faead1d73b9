//! Outputs: to a port, to one that a field names, and of a part of the packet.

use super::row::{ALL, FieldUse, Parsed, Parsing, Row, foreign, head};
use crate::action::{Action, ActionType};
use crate::codec::nxm::{bits_of, header_of_bits, place};
use crate::codec::oxm;
use crate::codec::reader::{Reader, Result};
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::extension::Bits;
use crate::ids::PortNo;
use crate::syntax::context::Context;
use crate::syntax::error::{Fault, nearest};
use crate::syntax::piece::{Piece, Word, Words};
use crate::syntax::subfield::{bits, print_subfield};
use crate::testing::parts;
use crate::version::Version;

pub(super) static OUTPUT: Row = Row {
    name: "output",
    action_type: ActionType::Output,
    words: &[
        ("output", Version::V10),
        ("in_port", Version::V10),
        ("normal", Version::V10),
        ("flood", Version::V10),
        ("all", Version::V10),
        ("local", Version::V10),
        ("table", Version::V10),
    ],
    versions: ALL,
    parse: Some(parse),
    print: Some(|out, action, _| {
        let Action::Output { port, max_len } = action else { foreign(action) };
        match *port {
            PortNo::CONTROLLER => write!(out, "CONTROLLER:{max_len}"),
            PortNo::ANY => out.write_str("output:NONE"),
            port => match port.reserved_name() {
                Some(name) => out.write_str(name),
                None => write!(out, "output:{port}"),
            },
        }
    }),
    arbitrary: Some(|rng, making| Action::Output {
        port: parts::port(rng, making.version),
        max_len: rng.u16(),
    }),
    ..Row::EXTENSION
};

/// To the port that bits of a field name.
pub(super) static OUTPUT_FIELD: Row = Row {
    name: "output to a field",
    nicira: &[15],
    parse: Some(parse),
    print: Some(|out, action, _| {
        let Action::OutputField { from, .. } = action else { foreign(action) };
        out.write_str("output:")?;
        print_subfield(out, from.of, from.count)
    }),
    decode: Some(|_, r, _| {
        let (offset, count) = place(r)?;
        let header = oxm::header(r)?;
        let of = bits_of(r, header, offset, count)?;
        let max_len = r.u16()?;
        r.skip(6)?;
        Ok(Action::OutputField { from: Bits { of, count }, max_len })
    }),
    encode: Some(|buf, action, _| {
        let Action::OutputField { from: Bits { of, count }, max_len } = action else {
            foreign(action)
        };
        head(buf, 15);
        let (header, offset) = header_of_bits(*of, *count);
        buf.put_u16(offset << 6 | (count - 1));
        buf.put_u32(header);
        buf.put_u16(*max_len);
        buf.pad(6);
        Ok(())
    }),
    fields: |action, see| {
        let Action::OutputField { from, .. } = action else { foreign(action) };
        see(FieldUse::Reads, from.of.field);
    },
    arbitrary: Some(|rng, _| Action::OutputField {
        from: parts::bits(rng, false),
        max_len: Action::NO_BUFFER,
    }),
    ..Row::EXTENSION
};

/// Of so many bytes at most.
pub(super) static OUTPUT_TRUNCATED: Row = Row {
    name: "a truncating output",
    nicira: &[39],
    parse: Some(parse),
    print: Some(|out, action, _| {
        let Action::OutputTruncated { port, max_len } = action else { foreign(action) };
        write!(out, "output(port={port},max_len={max_len})")
    }),
    decode: Some(|_, r, _| {
        let port = PortNo::from_v10(r.u16()?);
        let max_len = r.u32()?;
        truncates(r, port, max_len)?;
        Ok(Action::OutputTruncated { port, max_len })
    }),
    encode: Some(|buf, action, _| {
        let Action::OutputTruncated { port, max_len } = action else { foreign(action) };
        head(buf, 39);
        buf.put_u16(port.to_v10().unwrap_or(0xffff));
        buf.put_u32(*max_len);
        Ok(())
    }),
    arbitrary: Some(|rng, _| Action::OutputTruncated {
        port: rng.choose(&[PortNo(1), PortNo(0xfeff), PortNo::IN_PORT, PortNo::LOCAL]),
        max_len: Action::TRUNCATED_MIN + rng.u32() % 100_000,
    }),
    ..Row::EXTENSION
};

/// Whether an output can be cut so.
fn truncates(r: &Reader<'_>, port: PortNo, max_len: u32) -> Result<()> {
    if !port.takes_truncated() {
        let right = "an ordinary port, IN_PORT or LOCAL";
        return Err(r.bad_value(ErrorCode::BacBadOutPort, "output's port", port.0, right));
    }
    if max_len < Action::TRUNCATED_MIN {
        let right = "14, an Ethernet header, or more";
        return Err(r.bad_value(ErrorCode::BacBadArgument, "output's max_len", max_len, right));
    }
    Ok(())
}

fn parse(word: &Word<'_>, parsing: &Parsing<'_>) -> Parsed {
    let port = match parsing.name {
        "in_port" => PortNo::IN_PORT,
        "normal" => PortNo::NORMAL,
        "flood" => PortNo::FLOOD,
        "all" => PortNo::ALL,
        "local" => PortNo::LOCAL,
        "table" => PortNo::TABLE,
        _ => return output(word, parsing.cx),
    };
    word.bare()?;
    Ok(Action::output(port))
}

fn output(word: &Word<'_>, cx: &Context<'_>) -> Parsed {
    let arg = word.arg()?;
    // To what a field says.
    if arg.text.contains('[') {
        return Ok(Action::OutputField { from: bits(arg)?, max_len: Action::NO_BUFFER });
    }
    if arg.text.contains('=') {
        return truncated(word, arg, cx);
    }
    let port = arg.port(cx).map(Action::output);
    // A whole field, by its name alone.
    match port.is_err() && !arg.text.starts_with(|c: char| c.is_ascii_digit()) {
        true => match bits(arg) {
            Ok(from) => Ok(Action::OutputField { from, max_len: Action::NO_BUFFER }),
            Err(_) => port,
        },
        false => port,
    }
}

/// `output(port=PORT,max_len=BYTES)`.
fn truncated(word: &Word<'_>, arg: Piece<'_>, cx: &Context<'_>) -> Parsed {
    let (mut port, mut max_len) = (None, None);
    let mut words = Words::of(arg);
    while let Some(option) = words.next()? {
        match option.key.text {
            "port" => {
                let to = option.arg()?;
                port = Some(to.port(cx)?);
                if !port.is_some_and(PortNo::takes_truncated) {
                    return Err(to.expected("an ordinary port, IN_PORT or LOCAL"));
                }
            }
            "max_len" => {
                let bytes = option.arg()?;
                max_len = Some(bytes.u32()?);
                if max_len < Some(Action::TRUNCATED_MIN) {
                    return Err(bytes.expected("14 bytes, an Ethernet header, or more"));
                }
            }
            name => {
                let nearest = nearest(name, ["port", "max_len"]);
                let fault = Fault::Unknown { what: "option of `output`", nearest };
                return Err(option.key.error(fault));
            }
        }
    }
    match (port, max_len) {
        (Some(port), Some(max_len)) => Ok(Action::OutputTruncated { port, max_len }),
        _ => Err(word.key.expected("`output(port=PORT,max_len=BYTES)`")),
    }
}
