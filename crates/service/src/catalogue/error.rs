//! Why settings were refused.

/// Why there is no element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such kind.
    #[error("there is no kind of service {kind:?}; there are {known}")]
    Kind {
        /// What was asked for.
        kind: String,
        /// All kinds.
        known: String,
    },
    /// The kind has no such setting.
    #[error("{kind} has no setting {key:?}; it has {allowed}")]
    Key {
        /// The kind.
        kind: &'static str,
        /// The key.
        key: String,
        /// What it has.
        allowed: String,
    },
    /// A value that means nothing.
    #[error("{kind}: {key}={value} is not {wanted}")]
    Value {
        /// The kind.
        kind: &'static str,
        /// The key.
        key: &'static str,
        /// What was given; of a secret, its length.
        value: String,
        /// What would be right.
        wanted: String,
    },
    /// A setting without a default is not there.
    #[error("{kind} needs {key}=: {about}{or}")]
    Missing {
        /// The kind.
        kind: &'static str,
        /// The key.
        key: &'static str,
        /// What it means.
        about: &'static str,
        /// The other way to give it, if there is one.
        or: String,
    },
    /// A key is there twice.
    #[error("{key}= is given twice")]
    Twice {
        /// The key.
        key: String,
    },
    /// A word that sets nothing.
    #[error("{word:?} is not KEY=VALUE, with a key of letters, digits, '_' and '-'")]
    Word {
        /// The word.
        word: String,
    },
    /// Each setting is right, but not with the others.
    #[error("{kind}: {why}")]
    Together {
        /// The kind.
        kind: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The kind is known, and this build does not have it.
    #[error(
        "this build has no services of the kind {kind}; one that is made with `cargo build --release \
             --features {feature}` has"
    )]
    Build {
        /// The kind.
        kind: &'static str,
        /// The feature that has it.
        feature: &'static str,
    },
    /// A file that should hold a secret does not.
    #[error("{kind}: {key}={path}: {why}")]
    File {
        /// The kind.
        kind: &'static str,
        /// The key, `-file` included.
        key: String,
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// It cannot be set while the element is there.
    #[error("{kind}: {key:?} cannot be set while it runs; {allowed}")]
    Running {
        /// The kind.
        kind: &'static str,
        /// The key.
        key: String,
        /// What can.
        allowed: &'static str,
    },
}

/// `a, b and c`.
pub(crate) fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.collect();
    match all.split_last() {
        None => "none".to_string(),
        Some((last, [])) => last.to_string(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}
