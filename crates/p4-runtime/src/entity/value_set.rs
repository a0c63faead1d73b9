//! Value sets of parsers (P4Runtime §9.8): MODIFY gives all members.

use super::shared::{Reading, Writing, only_modify, unknown};
use crate::canonical;
use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::schema::{Param, ValueSet};
use ir::Bits;
use ir::program::Select;
use v1::entity::Entity as E;
use v1::field_match::FieldMatchType as F;
use v1::update::Type;

/// A member's fields, one after the other.
fn member(of: &ValueSet, given: &v1::ValueSetMember) -> Result<Select, Fault> {
    let mut whole: Option<(Bits, Bits)> = None;
    for f in &of.fields {
        let m = given.r#match.iter().filter(|m| m.field_id == f.id);
        let all: Vec<&v1::FieldMatch> = m.collect();
        let wrong = |what: String| {
            fault!(
                InvalidArgument,
                "value set `{}`, field {} (`{}`): {what}",
                of.name,
                f.id,
                f.name
            )
        };
        let read = |bytes: &[u8]| f.sdn.read(bytes, f.width).map_err(|e| wrong(e.to_string()));
        let [one] = all.as_slice() else {
            return Err(wrong(format!("is given {} times, and has to be once", all.len())));
        };
        let (value, mask) = match &one.field_match_type {
            Some(F::Exact(m)) => (read(&m.value)?, Bits::ones(f.width)),
            Some(F::Ternary(_)) if f.sdn.translates() => {
                return Err(wrong("is of a translated type, and has to be exact".to_owned()));
            }
            Some(F::Ternary(m)) => {
                let (value, mask) = (read(&m.value)?, read(&m.mask)?);
                if value.and(&mask) != value {
                    return Err(wrong("has bits that its mask leaves out".to_owned()));
                }
                (value, mask)
            }
            _ => return Err(wrong("has to be exact or ternary".to_owned())),
        };
        whole = Some(match whole {
            None => (value, mask),
            Some((v, m)) => (v.concat(&value), m.concat(&mask)),
        });
    }
    if let Some(m) = given.r#match.iter().find(|m| of.fields.iter().all(|f| f.id != m.field_id)) {
        return Err(fault!(
            InvalidArgument,
            "value set `{}` has no field with the id {}",
            of.name,
            m.field_id
        ));
    }
    let none = || fault!(InvalidArgument, "value set `{}` has no fields", of.name);
    let (value, mask) = whole.ok_or_else(none)?;
    Ok(Select::Masked(value, mask))
}

pub(super) fn write(w: &mut Writing<'_>, kind: Type, e: &v1::ValueSetEntry) -> Result<(), Fault> {
    let of = w.schema.value_sets.get(&e.value_set_id);
    let of = of.ok_or_else(|| unknown("value set", e.value_set_id))?;
    w.allowed(e.value_set_id, format_args!("value set `{}`", of.name))?;
    only_modify(kind, "a value set")?;
    if e.members.len() > of.size as usize {
        return Err(fault!(
            ResourceExhausted,
            "value set `{}`: {} members; it holds {}",
            of.name,
            e.members.len(),
            of.size
        ));
    }
    let mut members = Vec::with_capacity(e.members.len());
    for given in &e.members {
        let new = member(of, given)?;
        if members.contains(&new) {
            return Err(fault!(
                InvalidArgument,
                "value set `{}`: a member is there twice",
                of.name
            ));
        }
        members.push(new);
    }
    let updates = w.control.set_value_set(of.set, members)?;
    w.take(updates);
    Ok(())
}

fn told(of: &ValueSet, select: &Select) -> Option<v1::ValueSetMember> {
    let Select::Masked(value, mask) = select else { return None };
    let mut high = value.width();
    let field = |f: &Param| {
        let low = high - f.width;
        let (v, m) = (value.slice(high - 1, low), mask.slice(high - 1, low));
        high = low;
        use v1::field_match as k;
        let value = f.sdn.write(&v);
        let told = match m.is_ones() {
            true => F::Exact(k::Exact { value }),
            false => F::Ternary(k::Ternary { value, mask: canonical::write(&m) }),
        };
        v1::FieldMatch { field_id: f.id, field_match_type: Some(told) }
    };
    Some(v1::ValueSetMember { r#match: of.fields.iter().map(field).collect() })
}

pub(super) fn read(r: &mut Reading<'_>, e: &v1::ValueSetEntry) -> Result<(), Fault> {
    let schema = r.schema;
    for (id, of) in r.chosen(&schema.value_sets, e.value_set_id, "value set")? {
        let members = r.control.pipeline.value_set(of.set).iter();
        let members = members.filter_map(|m| told(of, m)).collect();
        r.tell(E::ValueSetEntry(v1::ValueSetEntry { value_set_id: id, members }));
    }
    Ok(())
}
