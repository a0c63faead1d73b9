//! From a tree to something that names keys and parameters by number, types checked.

use super::judge::{Number, Part, Truth};
use super::parse::{self, Expr};
use super::text::{Wrong, wrong};
use crate::canonical;
use ir::Bits;

/// What a name of a restriction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An exact key.
    Exact,
    /// A ternary key.
    Ternary,
    /// A key that is matched whole or not at all.
    Optional,
    /// A longest prefix.
    Lpm,
    /// A range.
    Range,
    /// An action's parameter.
    Param,
    /// A key or a parameter that the client writes as strings.
    Strings,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Exact => "exact",
            Kind::Ternary => "ternary",
            Kind::Optional => "optional",
            Kind::Lpm => "lpm",
            Kind::Range => "range",
            Kind::Param => "a parameter",
            Kind::Strings => "strings",
        }
    }
}

/// A key or a parameter that a restriction may name.
#[derive(Clone, Debug)]
pub struct Name {
    /// Its name.
    pub name: String,
    /// Its bits.
    pub width: u32,
    /// What it is.
    pub kind: Kind,
}

/// What a side of a comparison is.
enum Side {
    Truth(Truth),
    Number(Number),
    /// A number that takes the other side's width: negative, bytes, text.
    Literal(bool, Vec<u8>, String),
    Bits(Part, u32),
    /// A key with its mask: its number.
    Whole(usize),
}

struct Binder<'a> {
    names: &'a [Name],
    priority: bool,
    text: &'a str,
}

/// A condition.
pub(super) fn truth(e: &Expr, names: &[Name], priority: bool, text: &str) -> Result<Truth, Wrong> {
    Binder { names, priority, text }.truth(e)
}

impl Binder<'_> {
    fn no<T>(&self, at: usize, what: impl Into<String>) -> Result<T, Wrong> {
        Err(wrong(self.text, at, what))
    }

    fn truth(&self, e: &Expr) -> Result<Truth, Wrong> {
        use parse::Kind as K;
        let both = |a: &Expr, b: &Expr| -> Result<_, Wrong> {
            Ok((Box::new(self.truth(a)?), Box::new(self.truth(b)?)))
        };
        Ok(match &e.kind {
            K::Truth(truth) => Truth::Is(*truth),
            K::Not(a) => Truth::Not(Box::new(self.truth(a)?)),
            K::And(a, b) => {
                let (a, b) = both(a, b)?;
                Truth::And(a, b)
            }
            K::Or(a, b) => {
                let (a, b) = both(a, b)?;
                Truth::Or(a, b)
            }
            K::Implies(a, b) => {
                let (a, b) = both(a, b)?;
                Truth::Or(Box::new(Truth::Not(a)), b)
            }
            K::Compare(op, a, b) => self.compared(op, a, b)?,
            K::Number(..) | K::Attribute(_) => {
                return self.no(e.at, "a condition is needed here, not a number");
            }
            K::Name(..) => {
                self.side(e)?;
                return self.no(e.at, "a condition is needed here, not bits");
            }
        })
    }

    fn side(&self, e: &Expr) -> Result<Side, Wrong> {
        use parse::Kind as K;
        Ok(match &e.kind {
            K::Number(negative, bytes, told) => {
                Side::Literal(*negative, bytes.clone(), told.clone())
            }
            K::Attribute(name) if name == "priority" && self.priority => {
                Side::Number(Number::Priority)
            }
            K::Attribute(name) => {
                let what = match self.priority {
                    true => format!("entries have no attribute `{name}`; there is ::priority"),
                    false => "actions have no attributes".to_owned(),
                };
                return self.no(e.at, what);
            }
            K::Name(name, field) => self.named(e.at, name, field.as_deref())?,
            _ => Side::Truth(self.truth(e)?),
        })
    }

    fn named(&self, at: usize, name: &str, field: Option<&str>) -> Result<Side, Wrong> {
        let Some(i) = self.names.iter().position(|n| n.name == name) else {
            let known: Vec<&str> = self.names.iter().take(16).map(|n| n.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let what = format!("there is no key or parameter `{name}`; there are {known}");
            return self.no(at, what);
        };
        let Name { kind, width, .. } = self.names[i];
        Ok(match (kind, field) {
            (Kind::Strings, _) => {
                let what = format!(
                    "the type of `{name}` is translated to strings, which are not compared"
                );
                return self.no(at, what);
            }
            (Kind::Param, None) => Side::Bits(Part::Arg(i), width),
            (Kind::Exact, None | Some("value")) => Side::Bits(Part::Value(i, width), width),
            (Kind::Ternary | Kind::Optional | Kind::Lpm | Kind::Range, None) => Side::Whole(i),
            (Kind::Ternary | Kind::Optional | Kind::Lpm, Some("value")) => {
                Side::Bits(Part::Value(i, width), width)
            }
            (Kind::Ternary | Kind::Optional, Some("mask")) => {
                Side::Bits(Part::Mask(i, width), width)
            }
            (Kind::Lpm, Some("prefix_length")) => Side::Number(Number::PrefixLength(i, width)),
            (Kind::Range, Some("low")) => Side::Bits(Part::Low(i, width), width),
            (Kind::Range, Some("high")) => Side::Bits(Part::High(i, width), width),
            (_, Some(field)) => {
                let what = format!("`{name}` is {} and has no `{field}`", kind.word());
                return self.no(at, what);
            }
        })
    }

    fn compared(&self, op: &'static str, a: &Expr, b: &Expr) -> Result<Truth, Wrong> {
        let (left, right) = (self.side(a)?, self.side(b)?);
        let equal = matches!(op, "==" | "!=");
        let negated = |t: Truth| if op == "!=" { Truth::Not(Box::new(t)) } else { t };
        Ok(match (left, right) {
            (Side::Truth(x), Side::Truth(y)) if equal => {
                negated(Truth::Same(Box::new(x), Box::new(y)))
            }
            (Side::Truth(_), Side::Truth(_)) => {
                return self.no(a.at, "conditions are only equal or not");
            }
            // The bit of a truth.
            (Side::Bits(x, 1), Side::Truth(Truth::Is(y)))
            | (Side::Truth(Truth::Is(y)), Side::Bits(x, 1))
                if equal =>
            {
                negated(Truth::Bits("==", x, Part::Const(Bits::from_bool(y))))
            }
            (Side::Bits(x, w), Side::Bits(y, v)) if w == v => Truth::Bits(op, x, y),
            (Side::Bits(_, w), Side::Bits(_, v)) => {
                return self.no(a.at, format!("{w} bits and {v} bits are not compared"));
            }
            (Side::Bits(x, w), Side::Literal(n, bytes, told)) => {
                Truth::Bits(op, x, Part::Const(self.fitting(b.at, n, &bytes, &told, w)?))
            }
            (Side::Literal(n, bytes, told), Side::Bits(y, w)) => {
                Truth::Bits(op, Part::Const(self.fitting(a.at, n, &bytes, &told, w)?), y)
            }
            (Side::Number(x), Side::Number(y)) => Truth::Numbers(op, x, y),
            (Side::Number(x), Side::Literal(n, bytes, _)) => {
                Truth::Numbers(op, x, self.whole_number(b.at, n, &bytes)?)
            }
            (Side::Literal(n, bytes, _), Side::Number(y)) => {
                Truth::Numbers(op, self.whole_number(a.at, n, &bytes)?, y)
            }
            (Side::Literal(n, x, _), Side::Literal(m, y, _)) => {
                Truth::Numbers(op, self.whole_number(a.at, n, &x)?, self.whole_number(b.at, m, &y)?)
            }
            (Side::Whole(i), _) | (_, Side::Whole(i)) if !equal => {
                let kind = self.names[i].kind.word();
                let what = match self.names[i].kind {
                    Kind::Range => {
                        "a range is only equal or not; name its ::low or ::high".to_owned()
                    }
                    Kind::Lpm => {
                        "an lpm key is only equal or not; name its ::value or ::prefix_length"
                            .to_owned()
                    }
                    Kind::Optional => {
                        "an optional key is only equal or not; name its ::value or ::mask"
                            .to_owned()
                    }
                    _ => format!("a {kind} key is only equal or not; name its ::value or ::mask"),
                };
                return self.no(a.at, what);
            }
            (Side::Whole(i), Side::Literal(n, bytes, told)) => {
                let width = self.names[i].width;
                negated(self.is_whole(i, Part::Const(self.fitting(b.at, n, &bytes, &told, width)?)))
            }
            (Side::Literal(n, bytes, told), Side::Whole(i)) => {
                let width = self.names[i].width;
                negated(self.is_whole(i, Part::Const(self.fitting(a.at, n, &bytes, &told, width)?)))
            }
            (Side::Whole(i), Side::Bits(y, w)) | (Side::Bits(y, w), Side::Whole(i))
                if w == self.names[i].width =>
            {
                negated(self.is_whole(i, y))
            }
            (Side::Whole(i), Side::Whole(j))
                if self.names[i].kind == self.names[j].kind
                    && self.names[i].width == self.names[j].width =>
            {
                let (w, kind) = (self.names[i].width, self.names[i].kind);
                let same = |x, y| Box::new(Truth::Bits("==", x, y));
                negated(match kind {
                    Kind::Range => Truth::And(
                        same(Part::Low(i, w), Part::Low(j, w)),
                        same(Part::High(i, w), Part::High(j, w)),
                    ),
                    _ => Truth::And(
                        same(Part::Value(i, w), Part::Value(j, w)),
                        same(Part::Mask(i, w), Part::Mask(j, w)),
                    ),
                })
            }
            (Side::Number(_), Side::Bits(..)) | (Side::Bits(..), Side::Number(_)) => {
                return self.no(a.at, "a number and bits are not compared");
            }
            _ => return self.no(a.at, "these two are not compared"),
        })
    }

    /// A key matches exactly this.
    fn is_whole(&self, i: usize, value: Part) -> Truth {
        let (w, kind) = (self.names[i].width, self.names[i].kind);
        let same = |x, y| Box::new(Truth::Bits("==", x, y));
        match kind {
            Kind::Range => {
                Truth::And(same(Part::Low(i, w), value.clone()), same(Part::High(i, w), value))
            }
            _ => Truth::And(
                same(Part::Value(i, w), value),
                same(Part::Mask(i, w), Part::Const(Bits::ones(w))),
            ),
        }
    }

    /// A number in so many bits; a negative one is its complement.
    fn fitting(
        &self,
        at: usize,
        negative: bool,
        bytes: &[u8],
        told: &str,
        width: u32,
    ) -> Result<Bits, Wrong> {
        let zero = [0];
        let bytes = if bytes.is_empty() { &zero[..] } else { bytes };
        match canonical::read(bytes, width) {
            Ok(value) if negative => Ok(Bits::zero(width).sub(&value)),
            Ok(value) => Ok(value),
            Err(canonical::Misfit::Wide { has, width }) => {
                self.no(at, format!("{told} needs {has} bits; the other side has {width}"))
            }
            Err(e) => self.no(at, e.to_string()),
        }
    }

    fn whole_number(&self, at: usize, negative: bool, bytes: &[u8]) -> Result<Number, Wrong> {
        if bytes.len() > 15 {
            return self.no(at, "the number has more than 120 bits");
        }
        let n = bytes.iter().fold(0i128, |n, b| n << 8 | i128::from(*b));
        Ok(Number::Is(if negative { -n } else { n }))
    }
}
