//! Qualifiers of a primitive: the protocol, the side, the kind of what follows.

use super::test::{Number, Operation, Test, is, load};

/// Where the rest of the expression looks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Link {
    /// Behind so many bytes of tags.
    Ethernet(u32),
    /// Behind the label that begins at this byte.
    Label(u32),
}

impl Link {
    /// Where the network header begins.
    pub(super) fn network(self) -> u32 {
        match self {
            Link::Ethernet(tags) => 14 + tags,
            Link::Label(at) => at + 4,
        }
    }

    /// What a frame of this EtherType has; behind a label, an IP version at its bottom.
    pub(super) fn ether_type(self, wanted: u32) -> Test {
        match self {
            Link::Ethernet(tags) => is(load(Number::Is(12 + tags), 2), wanted),
            Link::Label(at) => {
                let bit = load(Number::Is(at + 2), 1).with(Operation::And, Number::Is(1));
                let nibble = load(Number::Is(at + 4), 1).with(Operation::And, Number::Is(0xf0));
                let version = match wanted {
                    0x0800 => 0x40,
                    0x86dd => 0x60,
                    // Labels tell no other.
                    _ => return is(Number::Is(0), 1),
                };
                is(bit, 1).and(is(nibble, version))
            }
        }
    }
}

/// Which addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    Source,
    Destination,
    Either,
    Both,
}

impl Side {
    pub(super) fn test(self, source: Test, destination: Test) -> Test {
        match self {
            Side::Source => source,
            Side::Destination => destination,
            Side::Either => source.or(destination),
            Side::Both => source.and(destination),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Qualifiers {
    pub(super) protocol: Option<String>,
    pub(super) side: Side,
    pub(super) kind: &'static str,
}

/// What a part of the text turned out to be.
pub(super) enum Any {
    Test(Test),
    /// And what a frame must be for it to be there.
    Number(Number, Option<Test>),
}

pub(super) fn both(a: Option<Test>, b: Option<Test>) -> Option<Test> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.and(b)),
        (a, b) => a.or(b),
    }
}

impl Any {
    pub(super) fn test(self, at: usize) -> Result<Test, String> {
        match self {
            Any::Test(test) => Ok(test),
            Any::Number(..) => {
                Err(format!("at {at}: a number is no condition; compare it, as in len > 100"))
            }
        }
    }

    pub(super) fn number(self, at: usize) -> Result<(Number, Option<Test>), String> {
        match self {
            Any::Number(number, asked) => Ok((number, asked)),
            Any::Test(_) => Err(format!("at {at}: a number was expected, not a condition")),
        }
    }
}
