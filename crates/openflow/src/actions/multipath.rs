//! Nicira's `multipath`: chooses a link by a hash of the packet's fields.

use super::row::{Decoded, FieldUse, Parsed, Row, foreign, head};
use crate::action::Action;
use crate::codec::nxm::{bits_of, header_of_bits, place};
use crate::codec::oxm;
use crate::codec::reader::Reader;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::extension::{Bits, HashAlgorithm, HashFields, Multipath};
use crate::syntax::piece::{Piece, Word};
use crate::syntax::subfield::{print_subfield, settable_bits};
use crate::testing::parts;
use crate::version::Version;

pub(super) static MULTIPATH: Row = Row {
    name: "multipath",
    words: &[("multipath", Version::V10)],
    nicira: &[10],
    parse: Some(|word, _| parse(word)),
    print: Some(|out, action, _| {
        let Action::Multipath(m) = action else { foreign(action) };
        let fields = HashFields::ALL.iter().find(|(f, _)| *f == m.fields).map_or("", |f| f.1);
        let how = HashAlgorithm::ALL.iter().find(|(a, _)| *a == m.algorithm);
        let how = how.map_or("", |a| a.1);
        let links = u32::from(m.max_link) + 1;
        write!(out, "multipath({fields},{},{how},{links},{},", m.basis, m.arg)?;
        print_subfield(out, m.to.of, m.to.count)?;
        out.write_char(')')
    }),
    decode: Some(|_, r, _| Ok(Action::Multipath(Box::new(decode(r)?)))),
    encode: Some(|buf, action, _| {
        let Action::Multipath(m) = action else { foreign(action) };
        head(buf, 10);
        let number = |at: Option<usize>| at.unwrap_or(0) as u16;
        buf.put_u16(number(HashFields::ALL.iter().position(|(f, _)| *f == m.fields)));
        buf.put_u16(m.basis);
        buf.pad(2);
        buf.put_u16(number(HashAlgorithm::ALL.iter().position(|(a, _)| *a == m.algorithm)));
        buf.put_u16(m.max_link);
        buf.put_u32(m.arg);
        buf.pad(2);
        let (header, offset) = header_of_bits(m.to.of, m.to.count);
        buf.put_u16(offset << 6 | (m.to.count - 1));
        buf.put_u32(header);
        Ok(())
    }),
    fields: |action, see| {
        let Action::Multipath(m) = action else { foreign(action) };
        see(FieldUse::Writes, m.to.of.field);
    },
    arbitrary: Some(|rng, _| {
        let to = parts::bits(rng, true);
        let most = (1u32 << to.count.min(16)) - 1;
        Action::Multipath(Box::new(Multipath {
            fields: rng.choose(&HashFields::ALL).0,
            basis: rng.u16(),
            algorithm: rng.choose(&HashAlgorithm::ALL).0,
            max_link: (rng.u32() % (most + 1)) as u16,
            arg: rng.u32(),
            to,
        }))
    }),
    ..Row::EXTENSION
};

fn decode(r: &mut Reader<'_>) -> Decoded<Multipath> {
    let (fields, basis) = (r.u16()?, r.u16()?);
    r.skip(2)?;
    let (algorithm, max_link, arg) = (r.u16()?, r.u16()?, r.u32()?);
    r.skip(2)?;
    let (offset, count) = place(r)?;
    let header = oxm::header(r)?;
    let of = bits_of(r, header, offset, count)?;
    let bad =
        |r: &Reader<'_>, what, got, right| r.bad_value(ErrorCode::BacBadArgument, what, got, right);
    let known = HashFields::ALL.get(usize::from(fields));
    let (fields, _) = *known.ok_or_else(|| bad(r, "multipath's fields", fields, "0 to 6"))?;
    let known = HashAlgorithm::ALL.get(usize::from(algorithm));
    let (algorithm, _) = *known.ok_or_else(|| {
        bad(
            r,
            "multipath's algorithm",
            algorithm,
            "0 to 3: modulo_n, hash_threshold, hrw, iter_hash",
        )
    })?;
    if count < 16 && max_link >> count != 0 || !of.field.info().settable {
        return Err(bad(r, "multipath's links", max_link, "as many as a settable field can hold"));
    }
    Ok(Multipath { fields, basis, algorithm, max_link, arg, to: Bits { of, count } })
}

/// `multipath(FIELDS,BASIS,ALGORITHM,LINKS,ARG,FIELD[BITS])`.
fn parse(word: &Word<'_>) -> Parsed {
    let arg = word.arg()?;
    let wrong = || arg.expected("`multipath(FIELDS,BASIS,ALGORITHM,LINKS,ARG,FIELD[BITS])`");
    let mut rest = Some(arg);
    let mut next = || -> Parsed<Piece<'_>> {
        let piece = rest.take().ok_or_else(wrong)?;
        Ok(match piece.split_once(",") {
            Some((first, others)) => {
                rest = Some(others);
                first.trim()
            }
            None => piece.trim(),
        })
    };
    let (fields, basis, algorithm) = (next()?, next()?, next()?);
    let (links, value, to) = (next()?, next()?, next()?);
    let found = HashFields::ALL.iter().find(|(_, name)| fields.is(name));
    let (hashed, _) = *found.ok_or_else(|| fields.expected("fields that can be hashed"))?;
    let found = HashAlgorithm::ALL.iter().find(|(_, name)| algorithm.is(name));
    let (how, _) = *found.ok_or_else(|| algorithm.expected("`modulo_n` or `hash_threshold`"))?;
    let count = links.u32()?;
    let to = settable_bits(to)?;
    let most = (1u64 << to.count.min(16)).min(65_536);
    if count == 0 || u64::from(count) > most {
        return Err(links.expected(format!("1 to {most} links")));
    }
    Ok(Action::Multipath(Box::new(Multipath {
        fields: hashed,
        basis: basis.u16()?,
        algorithm: how,
        max_link: (count - 1) as u16,
        arg: value.u32()?,
        to,
    })))
}
