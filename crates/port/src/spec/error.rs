//! Why a specification was refused. The texts are golden.

/// Why a specification was refused. Positions are bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such kind of port, option or mode.
    #[error("unknown {what} {word:?}{}; known: {known}", nearest_hint(.nearest))]
    Unknown {
        /// Where the word starts.
        at: usize,
        /// What it should have been.
        what: &'static str,
        /// The word.
        word: String,
        /// The known word nearest to it.
        nearest: Option<&'static str>,
        /// All known words.
        known: String,
    },
    /// Something is missing.
    #[error("{what} is missing; wanted {wanted}")]
    Missing {
        /// Where it should have been.
        at: usize,
        /// What it is.
        what: &'static str,
        /// The form it should have.
        wanted: &'static str,
    },
    /// A port of this kind must be given a name.
    #[error("{what} is missing; wanted {wanted}")]
    Unnamed {
        /// Whose name it is.
        what: String,
        /// The form that gives one.
        wanted: &'static str,
    },
    /// A number is none, or out of range.
    #[error("{what} {word:?} is not a number from {min} to {max}")]
    Number {
        /// Where it starts.
        at: usize,
        /// What it should have been.
        what: &'static str,
        /// The word.
        word: String,
        /// The least number allowed.
        min: u32,
        /// The greatest.
        max: u32,
    },
    /// An option was given twice.
    #[error("{word:?} was given already")]
    Twice {
        /// Where it stands the second time.
        at: usize,
        /// The option.
        word: String,
    },
    /// An option takes a value or does not.
    #[error("{word:?} {}", if *.takes_value { "wants a value: NAME=VALUE" } else { "takes no value" })]
    Value {
        /// Where the option stands.
        at: usize,
        /// The option.
        word: String,
        /// Whether it takes one.
        takes_value: bool,
    },
    /// Not an interface's name.
    #[error("{word:?} cannot be an interface name: 1 to 15 bytes, no '/', ':' nor white space")]
    Interface {
        /// Where it starts.
        at: usize,
        /// What was given.
        word: String,
    },
    /// What the kind of port found wrong.
    #[error("{why}")]
    Refused {
        /// Where it stands.
        at: usize,
        /// What was wrong, and what would be right.
        why: String,
    },
}

impl SpecError {
    /// Where in the specification it is, in bytes.
    pub fn at(&self) -> usize {
        match self {
            SpecError::Unknown { at, .. }
            | SpecError::Missing { at, .. }
            | SpecError::Number { at, .. }
            | SpecError::Twice { at, .. }
            | SpecError::Value { at, .. }
            | SpecError::Interface { at, .. }
            | SpecError::Refused { at, .. } => *at,
            SpecError::Unnamed { .. } => 0,
        }
    }
}

fn nearest_hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |word| format!(", did you mean {word:?}?"))
}
