//! What holds of an entry.

use ir::{Bits, Pattern};
use std::cmp::Ordering;

/// An entry or a call, by the numbers of the names that a restriction was bound with.
#[derive(Clone, Debug)]
pub struct Given<'a> {
    /// What each key is matched with, if with anything.
    pub patterns: Vec<Option<Pattern>>,
    /// An action's arguments.
    pub args: &'a [Bits],
    /// The entry's priority.
    pub priority: i32,
}

/// Clauses, all of which have to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// Text and meaning.
    clauses: Vec<(String, Truth)>,
}

/// Bits of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Const(Bits),
    /// A key's value; the key's bits.
    Value(usize, u32),
    Mask(usize, u32),
    Low(usize, u32),
    High(usize, u32),
    Arg(usize),
}

/// A number of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Is(i128),
    Priority,
    /// A key's prefix length; the key's bits.
    PrefixLength(usize, u32),
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Is(bool),
    Not(Box<Truth>),
    And(Box<Truth>, Box<Truth>),
    Or(Box<Truth>, Box<Truth>),
    Same(Box<Truth>, Box<Truth>),
    Bits(&'static str, Part, Part),
    Numbers(&'static str, Number, Number),
}

fn holds(op: &str, order: Ordering) -> bool {
    match op {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }
}

impl Given<'_> {
    fn pattern(&self, i: usize) -> Option<&Pattern> {
        self.patterns.get(i)?.as_ref()
    }

    fn bits(&self, of: &Part) -> Bits {
        match of {
            Part::Const(bits) => bits.clone(),
            Part::Arg(i) => self.args.get(*i).cloned().unwrap_or_else(|| Bits::zero(1)),
            Part::Value(i, width) => match self.pattern(*i) {
                Some(Pattern::Exact(v) | Pattern::Masked(v, _) | Pattern::Prefix(v, _)) => {
                    v.clone()
                }
                _ => Bits::zero(*width),
            },
            Part::Mask(i, width) => match self.pattern(*i) {
                Some(Pattern::Exact(_)) => Bits::ones(*width),
                Some(Pattern::Masked(_, mask)) => mask.clone(),
                Some(Pattern::Prefix(_, len)) => Bits::prefix_mask(*len, *width),
                _ => Bits::zero(*width),
            },
            Part::Low(i, width) => match self.pattern(*i) {
                Some(Pattern::Range(low, _) | Pattern::Exact(low)) => low.clone(),
                _ => Bits::zero(*width),
            },
            Part::High(i, width) => match self.pattern(*i) {
                Some(Pattern::Range(_, high) | Pattern::Exact(high)) => high.clone(),
                _ => Bits::ones(*width),
            },
        }
    }

    fn number(&self, of: &Number) -> i128 {
        match of {
            Number::Is(n) => *n,
            Number::Priority => self.priority.into(),
            Number::PrefixLength(i, width) => match self.pattern(*i) {
                Some(Pattern::Prefix(_, len)) => (*len).into(),
                Some(Pattern::Exact(_)) => (*width).into(),
                _ => 0,
            },
        }
    }

    fn holds(&self, truth: &Truth) -> bool {
        match truth {
            Truth::Is(truth) => *truth,
            Truth::Not(a) => !self.holds(a),
            Truth::And(a, b) => self.holds(a) && self.holds(b),
            Truth::Or(a, b) => self.holds(a) || self.holds(b),
            Truth::Same(a, b) => self.holds(a) == self.holds(b),
            Truth::Bits(op, a, b) => holds(op, self.bits(a).compare(&self.bits(b))),
            Truth::Numbers(op, a, b) => holds(op, self.number(a).cmp(&self.number(b))),
        }
    }
}

impl Restriction {
    pub(super) fn new(clauses: Vec<(String, Truth)>) -> Restriction {
        Restriction { clauses }
    }

    /// The first clause that does not hold.
    pub fn violated(&self, given: &Given<'_>) -> Option<&str> {
        let clause = self.clauses.iter().find(|(_, truth)| !given.holds(truth));
        clause.map(|(text, _)| text.as_str())
    }
}
