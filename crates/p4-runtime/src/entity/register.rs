//! Registers (P4Runtime §9.10).

use super::shared::{Effect, Reading, Writing, index, only_modify, unknown};
use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::schema::Register;
use ir::Bits;
use p4::commands::Plane as _;
use v1::entity::Entity as E;
use v1::p4_data::Data;
use v1::update::Type;

fn value(of: &Register, data: Option<&v1::P4Data>) -> Result<Bits, Fault> {
    match data.and_then(|d| d.data.as_ref()) {
        Some(Data::Bitstring(bytes)) if !of.is_bool => of
            .sdn
            .read(bytes, of.width)
            .map_err(|e| Fault::new(e.code(), format!("register `{}`: the value {e}", of.name))),
        Some(Data::Bool(truth)) if of.is_bool => Ok(Bits::from_bool(*truth).cast(of.width)),
        Some(_) => Err(fault!(
            InvalidArgument,
            "register `{}`: its cells are {}",
            of.name,
            if of.is_bool { "bool" } else { "bitstrings" }
        )),
        None => Err(fault!(InvalidArgument, "register `{}`: no data", of.name)),
    }
}

pub(super) fn write(w: &mut Writing<'_>, kind: Type, e: &v1::RegisterEntry) -> Result<(), Fault> {
    let of = w.schema.registers.get(&e.register_id);
    let of = of.ok_or_else(|| unknown("register", e.register_id))?;
    w.allowed(e.register_id, format_args!("register `{}`", of.name))?;
    only_modify(kind, "a register")?;
    let at = index(e.index.as_ref(), of.size, &of.name)?;
    let value = value(of, e.data.as_ref())?;
    w.effects.push(match at {
        Some(at) => Effect::Register(of.register, at, value),
        None => Effect::Registers(of.register, of.size, value),
    });
    Ok(())
}

pub(super) fn read(r: &mut Reading<'_>, e: &v1::RegisterEntry) -> Result<(), Fault> {
    let schema = r.schema;
    for (id, of) in r.chosen(&schema.registers, e.register_id, "register")? {
        let at = index(e.index.as_ref(), of.size, &of.name)?;
        for at in at.map_or(0..of.size, |at| at..at + 1) {
            let cell = r.plane.register(of.register, at).ok().flatten();
            let cell = cell.ok_or_else(|| {
                fault!(Internal, "register `{}`: the cell {at} cannot be read", of.name)
            })?;
            let data = match of.is_bool {
                true => Data::Bool(!cell.is_zero()),
                false => Data::Bitstring(of.sdn.write(&cell)),
            };
            r.tell(E::RegisterEntry(v1::RegisterEntry {
                register_id: id,
                index: Some(v1::Index { index: at.into() }),
                data: Some(v1::P4Data { data: Some(data) }),
            }));
        }
    }
    Ok(())
}
