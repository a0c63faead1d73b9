//! Why a command, or the start of a switch, failed.

/// Why a command failed: what to print, and the exit status.
#[derive(Debug)]
pub enum Failure {
    /// The thing asked about is bad: 1.
    Bad(String),
    /// The command was used wrongly: 2.
    Usage(String),
    /// With an exit status of its own, which the command documents.
    Status(u8, String),
}

impl Failure {
    /// The thing asked about is bad.
    pub fn bad(error: impl std::fmt::Display) -> Failure {
        Failure::Bad(error.to_string())
    }

    /// What to print.
    pub fn text(self) -> String {
        match self {
            Failure::Bad(text) | Failure::Usage(text) | Failure::Status(_, text) => text,
        }
    }

    /// The command was used wrongly.
    pub fn usage(error: impl std::fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }
}
