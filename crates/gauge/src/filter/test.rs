//! What an expression comes to: a test of a frame, over numbers that are loaded from it.

#[derive(Clone, Debug)]
pub(super) enum Test {
    Not(Box<Test>),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Is(Relation, Number, Number),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug)]
pub(super) enum Number {
    Is(u32),
    /// The frame's length.
    Len,
    /// So many bytes at a place, in network order.
    Load(Box<Number>, u32),
    Of(Operation, Box<Number>, Box<Number>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Rest,
    And,
    Or,
    Xor,
    Left,
    Right,
}

impl Test {
    /// None: a load was beyond the end.
    pub(super) fn of(&self, frame: &[u8]) -> Option<bool> {
        Some(match self {
            Test::Not(test) => !test.of(frame)?,
            Test::And(a, b) => a.of(frame)? && b.of(frame)?,
            Test::Or(a, b) => a.of(frame)? || b.of(frame)?,
            Test::Is(relation, a, b) => {
                let (a, b) = (a.of(frame)?, b.of(frame)?);
                match relation {
                    Relation::Equal => a == b,
                    Relation::Unequal => a != b,
                    Relation::Less => a < b,
                    Relation::LessOrEqual => a <= b,
                    Relation::Greater => a > b,
                    Relation::GreaterOrEqual => a >= b,
                }
            }
        })
    }

    pub(super) fn and(self, other: Test) -> Test {
        Test::And(Box::new(self), Box::new(other))
    }

    pub(super) fn or(self, other: Test) -> Test {
        Test::Or(Box::new(self), Box::new(other))
    }
}

impl Number {
    pub(super) fn of(&self, frame: &[u8]) -> Option<u32> {
        match self {
            Number::Is(value) => Some(*value),
            Number::Len => u32::try_from(frame.len()).ok(),
            Number::Load(at, size) => {
                let at = at.of(frame)? as usize;
                let bytes = frame.get(at..at.checked_add(*size as usize)?)?;
                Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
            }
            Number::Of(operation, a, b) => {
                let (a, b) = (a.of(frame)?, b.of(frame)?);
                match operation {
                    Operation::Add => Some(a.wrapping_add(b)),
                    Operation::Subtract => Some(a.wrapping_sub(b)),
                    Operation::Multiply => Some(a.wrapping_mul(b)),
                    Operation::Divide => a.checked_div(b),
                    Operation::Rest => a.checked_rem(b),
                    Operation::And => Some(a & b),
                    Operation::Or => Some(a | b),
                    Operation::Xor => Some(a ^ b),
                    Operation::Left => Some(a.checked_shl(b).unwrap_or(0)),
                    Operation::Right => Some(a.checked_shr(b).unwrap_or(0)),
                }
            }
        }
    }

    pub(super) fn with(self, operation: Operation, other: Number) -> Number {
        Number::Of(operation, Box::new(self), Box::new(other))
    }

    pub(super) fn plus(self, more: u32) -> Number {
        match self {
            Number::Is(value) => Number::Is(value.wrapping_add(more)),
            _ if more == 0 => self,
            other => other.with(Operation::Add, Number::Is(more)),
        }
    }
}

/// So many bytes at an offset.
pub(super) fn load(at: Number, size: u32) -> Number {
    Number::Load(Box::new(at), size)
}

pub(super) fn is(a: Number, value: u32) -> Test {
    Test::Is(Relation::Equal, a, Number::Is(value))
}
