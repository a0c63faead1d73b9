//! Open vSwitch's `check_pkt_larger`: one bit, whether the packet has more bytes.

use super::row::{FieldUse, Row, foreign, head};
use crate::action::Action;
use crate::codec::nxm::{bits_of, header_of_bits};
use crate::codec::oxm;
use crate::codec::writer::Put;
use crate::extension::Bits;
use crate::field::OxmHeader;
use crate::syntax::subfield::{print_subfield, settable_bits};
use crate::testing::parts;
use crate::version::Version;

pub(super) static CHECK_PKT_LARGER: Row = Row {
    name: "check_pkt_larger",
    words: &[("check_pkt_larger", Version::V10)],
    nicira: &[49],
    // `check_pkt_larger(BYTES)->FIELD[BIT]`.
    parse: Some(|word, _| {
        let arg = word.arg()?;
        let Some((bytes, to)) = arg.split_once("->") else {
            return Err(arg.expected("`check_pkt_larger(BYTES)->FIELD[BIT]`"));
        };
        let bytes = bytes.strip(&['(', ')']);
        let Bits { of: to, count: 1 } = settable_bits(to)? else {
            return Err(to.expected("one bit"));
        };
        Ok(Action::CheckPktLarger { bytes: bytes.u16()?, to })
    }),
    print: Some(|out, action, _| {
        let Action::CheckPktLarger { bytes, to } = action else { foreign(action) };
        write!(out, "check_pkt_larger({bytes})->")?;
        print_subfield(out, *to, 1)
    }),
    decode: Some(|_, r, _| {
        let (bytes, offset) = (r.u16()?, r.u16()?);
        let header = oxm::header(r)?;
        let to = bits_of(r, header, offset, 1)?;
        r.rest();
        Ok(Action::CheckPktLarger { bytes, to })
    }),
    encode: Some(|buf, action, _| {
        let Action::CheckPktLarger { bytes, to } = action else { foreign(action) };
        head(buf, 49);
        let (header, offset) = header_of_bits(*to, 1);
        buf.put_u16(*bytes);
        buf.put_u16(offset);
        oxm::put_header(buf, OxmHeader(header));
        Ok(())
    }),
    fields: |action, see| {
        let Action::CheckPktLarger { to, .. } = action else { foreign(action) };
        see(FieldUse::Writes, to.field);
    },
    arbitrary: Some(|rng, _| Action::CheckPktLarger {
        bytes: rng.u16(),
        to: parts::bits(rng, true).of.narrowed(1),
    }),
    ..Row::EXTENSION
};
