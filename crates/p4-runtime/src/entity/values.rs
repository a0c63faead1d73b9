//! Match fields and arguments: bytes of a client to values of the program (P4Runtime §9.1).
//!
//! Bytes come borrowed, from a message or from where they lie in a request ([`wire`](crate::wire)).

use crate::code::{Fault, fault};
use crate::restriction::Given;
use crate::schema::{Action, Field, Table};
use crate::wire::Match;
use ir::program::MatchKind;
use ir::{Bits, KeyMatch, Pattern};
use p4::control::normal;

fn field_fault(t: &Table, f: &Field, what: impl std::fmt::Display) -> Fault {
    fault!(InvalidArgument, "table `{}`, key `{}`: {what}", t.name, f.name)
}

/// A value of a field.
fn value(t: &Table, f: &Field, bytes: &[u8], what: &str) -> Result<Bits, Fault> {
    f.sdn.read(bytes, f.width).map_err(|e| {
        Fault::new(e.code(), format!("table `{}`, key `{}`: the {what} {e}", t.name, f.name))
    })
}

fn pattern(t: &Table, f: &Field, m: Match<'_>) -> Result<Pattern, Fault> {
    let wrong = |given: &str| {
        field_fault(t, f, format!("it is {}, and the match is {given}", f.kind.word()))
    };
    let pattern = match (m, f.kind) {
        (Match::Empty, _) => return Err(field_fault(t, f, "the match is empty")),
        (Match::Other, _) => return Err(wrong("of another kind")),
        (Match::Exact(v), MatchKind::Exact) => Pattern::Exact(value(t, f, v, "value")?),
        (Match::Exact(_), _) => return Err(wrong("exact")),
        (Match::Optional(v), MatchKind::Optional) => Pattern::Exact(value(t, f, v, "value")?),
        (Match::Optional(_), _) => return Err(wrong("optional")),
        (Match::Ternary(v, mask), MatchKind::Ternary) => {
            let v = value(t, f, v, "value")?;
            let mask = value(t, f, mask, "mask")?;
            //= p4runtime-1.5.0 §9.1: a field that matches all is left out, and masked bits are zero.
            if mask.is_zero() {
                return Err(field_fault(
                    t,
                    f,
                    "the mask is zero; leave the field out to match all",
                ));
            }
            if v.and(&mask) != v {
                return Err(field_fault(t, f, "the value has bits that the mask leaves out"));
            }
            Pattern::Masked(v, mask)
        }
        (Match::Ternary(..), _) => return Err(wrong("ternary")),
        (Match::Lpm(v, given), MatchKind::Lpm) => {
            let v = value(t, f, v, "value")?;
            let len = u32::try_from(given).ok().filter(|len| *len <= f.width);
            let len = len.ok_or_else(|| {
                field_fault(t, f, format!("prefix length {given}; it has {} bits", f.width))
            })?;
            if len == 0 {
                let what = "the prefix length is zero; leave the field out to match all";
                return Err(field_fault(t, f, what));
            }
            if v.and(&Bits::prefix_mask(len, f.width)) != v {
                return Err(field_fault(t, f, "the value has bits below its prefix"));
            }
            Pattern::Prefix(v, len)
        }
        (Match::Lpm(..), _) => return Err(wrong("lpm")),
        (Match::Range(low, high), MatchKind::Range) => {
            let low = value(t, f, low, "low end")?;
            let high = value(t, f, high, "high end")?;
            if low.compare(&high).is_gt() {
                return Err(field_fault(t, f, "the range's low end is above its high end"));
            }
            if low.is_zero() && high.is_ones() {
                let what = "the range is all values; leave the field out to match all";
                return Err(field_fault(t, f, what));
            }
            Pattern::Range(low, high)
        }
        (Match::Range(..), _) => return Err(wrong("range")),
    };
    Ok(normal(pattern, f.kind))
}

/// The key of an entry as the program has it, of match fields by id.
pub(super) fn key<'m>(
    t: &Table,
    given: impl ExactSizeIterator<Item = (u32, Match<'m>)>,
    priority: i32,
) -> Result<Box<[KeyMatch]>, Fault> {
    let mut matches: Vec<KeyMatch> = Vec::with_capacity(given.len());
    for (id, m) in given {
        let Some(f) = t.fields.iter().find(|f| f.id == id) else {
            return Err(fault!(
                InvalidArgument,
                "table `{}`: no key field has the id {}; there are {}",
                t.name,
                id,
                list(t.fields.iter().map(|f| format!("{} ({})", f.id, f.name)))
            ));
        };
        if matches.iter().any(|other| other.key == f.key) {
            return Err(field_fault(t, f, "it is given twice"));
        }
        matches.push(KeyMatch { key: f.key, pattern: pattern(t, f, m)? });
    }
    matches.sort_by_key(|m| m.key);
    let given = |f: &&Field| !matches.iter().any(|m| m.key == f.key);
    if let Some(f) = t.fields.iter().filter(|f| f.kind == MatchKind::Exact).find(given) {
        return Err(field_fault(t, f, "it is exact and needs a value"));
    }
    match (t.prioritised, priority) {
        (true, p) if p <= 0 => Err(fault!(
            InvalidArgument,
            "table `{}`: priority {p}; its keys need a priority above 0",
            t.name
        )),
        (false, p) if p != 0 => Err(fault!(
            InvalidArgument,
            "table `{}`: priority {p}; its keys have no priority: 0 is right",
            t.name
        )),
        _ => Ok(matches.into()),
    }
}

pub(super) fn list(all: impl Iterator<Item = String>) -> String {
    let mut out = String::new();
    for (i, one) in all.enumerate() {
        if i == 16 {
            out.push_str(", ...");
            break;
        }
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(&one);
    }
    if out.is_empty() { "none".to_owned() } else { out }
}

/// Parameters whose values are kept without an allocation while they come.
const PARAMS_FEW: usize = 8;

/// Values for an action's parameters, in the program's order, of those given by the parameter's id.
pub(super) fn args<'g, A: FromIterator<Bits> + AsRef<[Bits]>>(
    at: std::fmt::Arguments<'_>,
    action: &Action,
    given: impl Iterator<Item = (u32, &'g [u8])>,
) -> Result<A, Fault> {
    let n = action.params.len();
    let (mut few, mut many) = ([const { None }; PARAMS_FEW], Vec::new());
    let values: &mut [Option<Bits>] = match few.get_mut(..n) {
        Some(few) => few,
        None => {
            many.resize(n, None);
            &mut many
        }
    };
    for (id, bytes) in given {
        let Some(n) = action.params.iter().position(|q| q.id == id) else {
            return Err(fault!(
                InvalidArgument,
                "{at}, action `{}`: no parameter has the id {id}; there are {}",
                action.name,
                list(action.params.iter().map(|p| format!("{} ({})", p.id, p.name)))
            ));
        };
        let param = &action.params[n];
        let named = || format!("{at}, action `{}`, parameter `{}`", action.name, param.name);
        if values[n].is_some() {
            return Err(fault!(InvalidArgument, "{}: it is given twice", named()));
        }
        let value = param.sdn.read(bytes, param.width);
        let value =
            value.map_err(|e| Fault::new(e.code(), format!("{}: the value {e}", named())))?;
        values[n] = Some(value);
    }
    let missing = values.iter().position(Option::is_none);
    if let Some(n) = missing {
        return Err(fault!(
            InvalidArgument,
            "{at}, action `{}`: the parameter `{}` has no value",
            action.name,
            action.params[n].name
        ));
    }
    let values: A = values.iter_mut().filter_map(Option::take).collect();
    if let Some(r) = &action.restriction {
        let call = Given { patterns: Vec::new(), args: values.as_ref(), priority: 0 };
        if let Some(clause) = r.violated(&call) {
            return Err(fault!(
                InvalidArgument,
                "{at}, action `{}`: its arguments violate @action_restriction: {clause}",
                action.name
            ));
        }
    }
    Ok(values)
}
