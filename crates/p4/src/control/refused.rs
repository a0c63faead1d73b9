//! Why something is refused: what kind of mistake it is, and a sentence about it.
//!
//! Kinds are those that protocols tell apart (P4Runtime's canonical codes); people read the sentence.

use ir::pipeline::UpdateError;

/// What kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It cannot be right, whatever there is.
    Invalid,
    /// What is named is not there.
    NotFound,
    /// What is to be made is there already.
    Exists,
    /// The program does not let the control plane do it.
    Denied,
    /// Something else has to be done first.
    Precondition,
    /// There is no room.
    Full,
    /// A number is outside what there is.
    OutOfRange,
    /// This switch cannot do it.
    Unsupported,
    /// A rule of ours is broken.
    Internal,
}

/// A refusal. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refused {
    /// What kind.
    pub kind: Kind,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl Refused {
    /// A refusal of a kind.
    pub fn new(kind: Kind, text: impl Into<String>) -> Refused {
        Refused { kind, text: text.into() }
    }
}

/// A refusal of a kind of [`Kind`], with a sentence as [`format!`] takes it.
macro_rules! no {
    ($kind:ident, $($text:tt)*) => {
        $crate::control::refused::Refused::new(
            $crate::control::refused::Kind::$kind,
            format!($($text)*),
        )
    };
}
pub(crate) use no;

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.text
    }
}

/// What is said of a text: it cannot be read.
impl From<String> for Refused {
    fn from(text: String) -> Refused {
        Refused::new(Kind::Invalid, text)
    }
}

impl From<UpdateError> for Refused {
    fn from(error: UpdateError) -> Refused {
        use UpdateError as E;
        let kind = match &error {
            E::TableFull { .. } | E::ValueSetFull { .. } => Kind::Full,
            E::EntryExists { .. } | E::Duplicate { .. } | E::ActionExists(_) => Kind::Exists,
            E::NoTable(..) | E::NoEntry { .. } | E::NoAction(_) => Kind::NotFound,
            E::NoValueSet(_) | E::NoGroup(_) | E::NoMeter(_) => Kind::NotFound,
            E::KeyChanged { .. } | E::Invalid(_) => Kind::Invalid,
            E::DefaultConst(_) => Kind::Denied,
            E::ActionInUse { .. } => Kind::Precondition,
        };
        Refused::new(kind, error.to_string())
    }
}
