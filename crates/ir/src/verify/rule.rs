//! The rules by name, and how a broken one is reported.

/// Deepest nesting of expressions and of `if`s.
pub const DEPTH_MAX: u32 = 64;

/// Longest chain of groups that refer to groups.
pub const GROUP_CHAIN_MAX: usize = 8;

macro_rules! rules {
    ($($rule:ident)*) => {
        /// A rule of the [list](super).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the list at the head of the module says what each means")]
        pub enum Rule { $($rule,)* }

        impl Rule {
            /// Every rule, in the order of the list.
            pub const ALL: &'static [Rule] = &[$(Rule::$rule,)*];
        }

        impl std::fmt::Display for Rule {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Rule::$rule => stringify!($rule),)* })
            }
        }
    };
}

rules! {
    N1 N2 N3 N4 W1 W2 W3 W4 W5 W6 W7 W8 W9 X1 X2 H1 H2 H3 H4 H5 H6 P1 P2 P3 P4 D1 C1 C2 C3
    A1 A2 A3 A4 T1 T2 T3 B1 B2 B3 L1 L2 E1 E2 E3 E4 E5 G1 G2 G3 G4 V1
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {text} (rule {rule})")]
pub struct Error {
    /// Which rule.
    pub rule: Rule,
    /// Where: the action, table, block, state or entry, and the operation in it.
    pub place: String,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl Error {
    pub(super) fn new(rule: Rule, text: impl Into<String>) -> Error {
        Error { rule, place: String::new(), text: text.into() }
    }

    /// The same, somewhere inside of `place`.
    pub(super) fn within(mut self, place: impl std::fmt::Display) -> Error {
        self.place = if self.place.is_empty() {
            place.to_string()
        } else {
            format!("{place}, {}", self.place)
        };
        self
    }
}

pub(super) type Result<T = ()> = std::result::Result<T, Error>;

/// `Err` of the rule and text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $rule:ident, $($text:tt)*) => {
        if !$condition {
            return Err($crate::verify::rule::Error::new($crate::verify::rule::Rule::$rule, format!($($text)*)));
        }
    };
}
pub(super) use ensure;
