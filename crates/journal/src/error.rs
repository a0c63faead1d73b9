//! Why a folder cannot be used.

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system reported an error.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: String,
        /// What it reported.
        error: std::io::Error,
    },
    /// Another process uses it.
    #[error("{path} is in use by another process; stop it, or choose another folder")]
    InUse {
        /// The folder.
        path: String,
    },
    /// It belongs to something else.
    #[error(
        "{path} was written for {wrote}, and this is {ours}; choose another folder, or move this one away to begin anew"
    )]
    Other {
        /// The folder.
        path: String,
        /// For what it was written.
        wrote: String,
        /// What wants to use it.
        ours: String,
    },
    /// There are files, and no snapshot among them is whole.
    #[error("{path} has no snapshot that can be read ({why}); move the folder away to begin anew")]
    Damaged {
        /// The folder.
        path: String,
        /// What is wrong with the newest snapshot.
        why: String,
    },
}
