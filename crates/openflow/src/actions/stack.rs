//! Nicira's `push` and `pop`: bits onto the packet's stack, and from it.

use super::row::{Decoded, FieldUse, Row, foreign, head};
use crate::action::Action;
use crate::codec::nxm::{bits_of, header_of_bits};
use crate::codec::oxm;
use crate::codec::reader::Reader;
use crate::codec::writer::Put;
use crate::extension::Bits;
use crate::field::OxmHeader;
use crate::syntax::subfield::{bits, print_subfield, settable_bits};
use crate::testing::parts;
use crate::version::Version;

pub(super) static PUSH: Row = Row {
    name: "push",
    words: &[("push", Version::V10)],
    nicira: &[27],
    parse: Some(|word, _| bits(word.arg()?).map(Action::StackPush)),
    print: Some(|out, action, _| {
        let Action::StackPush(bits) = action else { foreign(action) };
        out.write_str("push:")?;
        print_subfield(out, bits.of, bits.count)
    }),
    decode: Some(|_, r, _| decode(r).map(Action::StackPush)),
    encode: Some(|buf, action, _| {
        let Action::StackPush(bits) = action else { foreign(action) };
        head(buf, 27);
        put(buf, *bits);
        Ok(())
    }),
    fields: |action, see| {
        let Action::StackPush(bits) = action else { foreign(action) };
        see(FieldUse::Reads, bits.of.field);
    },
    arbitrary: Some(|rng, _| Action::StackPush(parts::bits(rng, false))),
    ..Row::EXTENSION
};

pub(super) static POP: Row = Row {
    name: "pop",
    words: &[("pop", Version::V10)],
    nicira: &[28],
    parse: Some(|word, _| settable_bits(word.arg()?).map(Action::StackPop)),
    print: Some(|out, action, _| {
        let Action::StackPop(bits) = action else { foreign(action) };
        out.write_str("pop:")?;
        print_subfield(out, bits.of, bits.count)
    }),
    decode: Some(|_, r, _| decode(r).map(Action::StackPop)),
    encode: Some(|buf, action, _| {
        let Action::StackPop(bits) = action else { foreign(action) };
        head(buf, 28);
        put(buf, *bits);
        Ok(())
    }),
    fields: |action, see| {
        let Action::StackPop(bits) = action else { foreign(action) };
        see(FieldUse::Writes, bits.of.field);
    },
    arbitrary: Some(|rng, _| Action::StackPop(parts::bits(rng, true))),
    ..Row::EXTENSION
};

fn decode(r: &mut Reader<'_>) -> Decoded<Bits> {
    let offset = r.u16()?;
    let header = oxm::header(r)?;
    let count = r.u16()?;
    let of = bits_of(r, header, offset, count)?;
    r.rest();
    Ok(Bits { of, count })
}

fn put(buf: &mut Vec<u8>, Bits { of, count }: Bits) {
    let (header, offset) = header_of_bits(of, count);
    buf.put_u16(offset);
    oxm::put_header(buf, OxmHeader(header));
    buf.put_u16(count);
}
