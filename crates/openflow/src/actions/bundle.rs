//! Nicira's `bundle` and `bundle_load`: choose one of some ports that is live.

use super::row::{Decoded, FieldUse, Parsed, Row, foreign, head};
use crate::action::{Action, Subfield};
use crate::codec::nxm::{bits_of, header_of_bits, place};
use crate::codec::oxm;
use crate::codec::reader::Reader;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::extension::{Bits, BundleAlgorithm, HashFields, PortBundle};
use crate::field::FieldId;
use crate::ids::PortNo;
use crate::syntax::context::Context;
use crate::syntax::piece::{Piece, Word};
use crate::syntax::subfield::{print_subfield, settable_bits};
use crate::version::Version;

pub(super) static BUNDLE: Row = Row {
    name: "bundle",
    words: &[("bundle", Version::V10), ("bundle_load", Version::V10)],
    nicira: &[12, 13],
    parse: Some(|word, parsing| parse(word, parsing.cx)),
    print: Some(|out, action, _| {
        let Action::Bundle(m) = action else { foreign(action) };
        let fields = HashFields::ALL.iter().find(|(f, _)| *f == m.fields).map_or("", |f| f.1);
        let how = BundleAlgorithm::ALL.iter().find(|(a, _)| *a == m.algorithm);
        let how = how.map_or("", |a| a.1);
        let word = if m.to.is_some() { "bundle_load" } else { "bundle" };
        write!(out, "{word}({fields},{},{how},ofport,", m.basis)?;
        if let Some(to) = m.to {
            print_subfield(out, to.of, to.count)?;
            out.write_char(',')?;
        }
        out.write_str("members:")?;
        m.members
            .iter()
            .enumerate()
            .try_for_each(|(i, port)| write!(out, "{}{port}", if i == 0 { "" } else { "," }))?;
        out.write_char(')')
    }),
    decode: Some(|subtype, r, _| Ok(Action::Bundle(Box::new(decode(r, subtype == 13)?)))),
    encode: Some(|buf, action, _| {
        let Action::Bundle(m) = action else { foreign(action) };
        head(buf, if m.to.is_some() { 13 } else { 12 });
        put(buf, m);
        Ok(())
    }),
    fields: |action, see| {
        let Action::Bundle(m) = action else { foreign(action) };
        m.to.iter().for_each(|to| see(FieldUse::Writes, to.of.field));
    },
    arbitrary: Some(|rng, _| {
        let to = rng.one_in(2).then(|| Bits {
            of: Subfield { field: FieldId::Reg5, offset: rng.u16() % 16 },
            count: 16,
        });
        let count = 1 + rng.below(PortBundle::MEMBERS_MAX);
        Action::Bundle(Box::new(PortBundle {
            fields: rng.choose(&HashFields::ALL).0,
            basis: rng.u16(),
            algorithm: rng.choose(&BundleAlgorithm::ALL).0,
            members: (0..count).map(|_| PortNo(1 + rng.u32() % 0xfeff)).collect(),
            to,
        }))
    }),
    ..Row::EXTENSION
};

/// `NXM_OF_IN_PORT`, what members are named by: their ports' numbers.
const MEMBER_TYPE: u32 = 0x0000_0002;

/// `bundle` and, with a place for the port's number, `bundle_load`.
fn decode(r: &mut Reader<'_>, load: bool) -> Decoded<PortBundle> {
    let (algorithm, fields, basis) = (r.u16()?, r.u16()?, r.u16()?);
    let (kind, count) = (r.u32()?, usize::from(r.u16()?));
    let (offset, bits) = place(r)?;
    let header = r.u32()?;
    r.skip(4)?;
    let bad =
        |r: &Reader<'_>, what, got, right| r.bad_value(ErrorCode::BacBadArgument, what, got, right);
    let known = BundleAlgorithm::ALL.get(usize::from(algorithm));
    let (algorithm, _) = *known.ok_or_else(|| {
        bad(r, "bundle's algorithm", u32::from(algorithm), "active_backup (0) or hrw (1)")
    })?;
    let known = HashFields::ALL.get(usize::from(fields));
    let (fields, _) = *known.ok_or_else(|| bad(r, "bundle's fields", fields.into(), "0 to 6"))?;
    if kind != MEMBER_TYPE {
        return Err(bad(r, "bundle's type of members", kind, "0x2, ports"));
    }
    if !(1..=PortBundle::MEMBERS_MAX).contains(&count) {
        return Err(bad(r, "bundle's members", count as u32, "1 to 64"));
    }
    let to = if load {
        let of = bits_of(r, oxm::on_the_wire(header), offset, bits)?;
        if !of.field.info().settable || bits < 16 {
            return Err(bad(r, "bundle_load's place", header, "16 bits or more that can be set"));
        }
        Some(Bits { of, count: bits })
    } else if header != 0 || (offset, bits) != (0, 1) {
        return Err(bad(r, "bundle's place", header, "0, as nothing is loaded"));
    } else {
        None
    };
    if r.left() < 2 * count {
        let right = "as many members as it says";
        return Err(r.bad_value(ErrorCode::BacBadLen, "bundle's members", count as u32, right));
    }
    let members = (0..count).map(|_| r.u16().map(PortNo::from_v10)).collect::<Decoded<_>>()?;
    r.rest();
    Ok(PortBundle { fields, basis, algorithm, members, to })
}

fn put(buf: &mut Vec<u8>, m: &PortBundle) {
    let number = |at: Option<usize>| at.unwrap_or(0) as u16;
    buf.put_u16(number(BundleAlgorithm::ALL.iter().position(|(a, _)| *a == m.algorithm)));
    buf.put_u16(number(HashFields::ALL.iter().position(|(f, _)| *f == m.fields)));
    buf.put_u16(m.basis);
    buf.put_u32(MEMBER_TYPE);
    buf.put_u16(m.members.len() as u16);
    match m.to {
        Some(Bits { of, count }) => {
            let (header, offset) = header_of_bits(of, count);
            buf.put_u16(offset << 6 | (count - 1));
            buf.put_u32(header);
        }
        None => buf.pad(6),
    }
    buf.pad(4);
    m.members.iter().for_each(|port| buf.put_u16(port.to_v10().unwrap_or(0xffff)));
}

/// `bundle(FIELDS,BASIS,ALGORITHM,ofport,members:PORT...)`; `bundle_load` has `FIELD[BITS]` before the
/// members, which may also be called `slaves`.
fn parse(word: &Word<'_>, cx: &Context<'_>) -> Parsed {
    let arg = word.arg()?;
    let load = word.key.is("bundle_load");
    let (head, members) = match arg.split_once("members:") {
        Some(parts) => parts,
        None => arg.split_once("slaves:").ok_or_else(|| {
            arg.expected("`FIELDS,BASIS,ALGORITHM,ofport,members:PORT...` in parentheses")
        })?,
    };
    let head = head.list();
    let (&[fields, basis, algorithm, kind], to) = match (load, head.as_slice()) {
        (false, [a, b, c, d]) => (&[*a, *b, *c, *d], None),
        (true, [a, b, c, d, to]) => (&[*a, *b, *c, *d], Some(settable_bits(*to)?)),
        _ => {
            let to = if load { ",FIELD[BITS]" } else { "" };
            return Err(arg.expected(format!("FIELDS,BASIS,ALGORITHM,ofport{to},members:PORT...")));
        }
    };
    let found = HashFields::ALL.iter().find(|(_, name)| fields.is(name));
    let (hashed, _) = *found.ok_or_else(|| fields.expected("fields that can be hashed"))?;
    let found = BundleAlgorithm::ALL.iter().find(|(_, name)| algorithm.is(name));
    let (how, _) = *found.ok_or_else(|| algorithm.expected("`active_backup` or `hrw`"))?;
    if !kind.is("ofport") {
        return Err(kind.expected("`ofport`"));
    }
    if to.is_some_and(|to| to.count < 16) {
        return Err(arg.refused("a port's number has 16 bits"));
    }
    let ports = members.list();
    if !(1..=PortBundle::MEMBERS_MAX).contains(&ports.len()) {
        return Err(members.expected(format!("1 to {} members", PortBundle::MEMBERS_MAX)));
    }
    let member = |piece: &Piece<'_>| match piece.port(cx)? {
        port if port.to_v10().is_some() => Ok(port),
        _ => Err(piece.expected("a port of 16 bits")),
    };
    let members = ports.iter().map(member).collect::<Parsed<_>>()?;
    let basis = basis.u16()?;
    Ok(Action::Bundle(Box::new(PortBundle { fields: hashed, basis, algorithm: how, members, to })))
}
