//! Copies bits of a field to another: OpenFlow 1.5's `copy_field`, Nicira's `move` before.

use super::row::{FROM_15, FieldUse, Parsed, Row, foreign, head};
use crate::action::{Action, ActionType, CopyField, Subfield};
use crate::codec::nxm::{bits_of, header_of};
use crate::codec::oxm;
use crate::codec::writer::Put;
use crate::field::FieldId;
use crate::syntax::piece::Word;
use crate::syntax::subfield::{print_subfield, subfield};
use crate::version::Version;

pub(super) static COPY_FIELD: Row = Row {
    name: "copy_field",
    action_type: ActionType::CopyField,
    words: &[("move", Version::V10)],
    nicira: &[6],
    versions: FROM_15,
    parse: Some(|word, _| parse(word)),
    print: Some(|out, action, _| {
        let Action::CopyField(CopyField { bits, from, to }) = action else { foreign(action) };
        out.write_str("move:")?;
        print_subfield(out, *from, *bits)?;
        out.write_str("->")?;
        print_subfield(out, *to, *bits)
    }),
    decode: Some(|_, r, _| {
        let bits = r.u16()?;
        let (from_offset, to_offset) = (r.u16()?, r.u16()?);
        let (from, to) = (oxm::header(r)?, oxm::header(r)?);
        r.rest();
        let from = bits_of(r, from, from_offset, bits)?;
        let to = bits_of(r, to, to_offset, bits)?;
        Ok(Action::CopyField(CopyField { bits, from, to }))
    }),
    encode: Some(|buf, action, _| {
        let Action::CopyField(CopyField { bits, from, to }) = action else { foreign(action) };
        head(buf, 6);
        buf.put_u16(*bits);
        buf.put_u16(from.offset);
        buf.put_u16(to.offset);
        oxm::put_header(buf, header_of(from.field, false).0);
        oxm::put_header(buf, header_of(to.field, false).0);
        Ok(())
    }),
    fields: |action, see| {
        let Action::CopyField(copy) = action else { foreign(action) };
        see(FieldUse::Reads, copy.from.field);
        see(FieldUse::Writes, copy.to.field);
    },
    arbitrary: Some(|rng, _| {
        Action::CopyField(CopyField {
            bits: 1 + rng.u16() % 16,
            from: Subfield { field: FieldId::EthSrc, offset: rng.u16() % 16 },
            to: Subfield { field: FieldId::Reg3, offset: rng.u16() % 16 },
        })
    }),
    ..Row::EXTENSION
};

/// `move:SRC[a..b]->DST[c..d]`.
fn parse(word: &Word<'_>) -> Parsed {
    let arg = word.arg()?;
    let Some((from, to)) = arg.split_once("->") else {
        return Err(arg.expected("`move:SRC[BITS]->DST[BITS]`"));
    };
    let ((from, bits), (to, to_bits)) = (subfield(from)?, subfield(to)?);
    if bits != to_bits {
        return Err(arg.expected("as many bits on both sides"));
    }
    Ok(Action::CopyField(CopyField { bits, from, to }))
}
