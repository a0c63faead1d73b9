//! Open vSwitch's `delete_field`: the packet has an option of a tunnel's header no more.

use super::row::{FieldUse, Row, foreign, head};
use crate::action::Action;
use crate::codec::nxm::{field_of, header_of, unknown_field};
use crate::codec::oxm;
use crate::codec::reader::Reader;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::field::FieldId;
use crate::syntax::matches;
use crate::version::Version;

pub(super) static DELETE_FIELD: Row = Row {
    name: "delete_field",
    words: &[("delete_field", Version::V10)],
    nicira: &[50],
    parse: Some(|word, _| {
        let arg = word.arg()?;
        let Some(field) = FieldId::from_name(arg.text) else {
            return Err(matches::unknown_field(arg));
        };
        match field.tun_metadata() {
            Some(_) => Ok(Action::DeleteField(field)),
            None => Err(arg.expected("`tun_metadata0` to `tun_metadata63`")),
        }
    }),
    print: Some(|out, action, _| {
        let Action::DeleteField(field) = action else { foreign(action) };
        write!(out, "delete_field:{}", field.info().ofctl[0])
    }),
    decode: Some(|_, r, _| decode(r).map(Action::DeleteField)),
    encode: Some(|buf, action, _| {
        let Action::DeleteField(field) = action else { foreign(action) };
        head(buf, 50);
        buf.pad(6);
        buf.put_u32(header_of(*field, false).0.0);
        Ok(())
    }),
    fields: |action, see| {
        let Action::DeleteField(field) = action else { foreign(action) };
        see(FieldUse::Writes, *field);
    },
    arbitrary: Some(|rng, _| Action::DeleteField(FieldId::tun_metadata_of(rng.u8() % 64))),
    ..Row::EXTENSION
};

fn decode(r: &mut Reader<'_>) -> super::row::Decoded<FieldId> {
    r.skip(6)?;
    let header = oxm::header(r)?;
    let Some((field, _)) = field_of(header) else {
        return Err(unknown_field(r, ErrorCode::BacBadSetType, header));
    };
    r.rest();
    match field.tun_metadata() {
        Some(_) => Ok(field),
        None => {
            let (code, right) = (ErrorCode::BacBadSetType, "an option of a tunnel's header");
            Err(r.bad_field(code, "delete_field's header", field, header.0, right))
        }
    }
}
