//! Why an image cannot be read.

use super::entry::{VERSION, VERSION_MIN};

/// Why an image cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not begin as one.
    #[error("this is no image of connections: it does not begin with \"millconn\"")]
    Magic,
    /// Made by another version.
    #[error("the image is of version {0}; this program reads versions {VERSION_MIN} to {VERSION}")]
    Version(u32),
    /// It ends too early.
    #[error("the image is cut short: it ends at octet {0}, before its end is told")]
    Short(usize),
    /// The checksum of the header is wrong.
    #[error("the image is damaged: the header's checksum is wrong")]
    Header,
    /// The checksum of a chunk is wrong.
    #[error("the image is damaged: the checksum of chunk {number} at octet {at} is wrong")]
    Checksum {
        /// Which chunk, counted.
        number: u32,
        /// Where it begins.
        at: usize,
    },
    /// A chunk makes no sense where it is.
    #[error("chunk {number} at octet {at}: {what}")]
    Chunk {
        /// Which chunk, counted.
        number: u32,
        /// Where it begins.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A pool or connection makes no sense.
    #[error("octet {at}: {what}")]
    Entry {
        /// Where it begins.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It does not hold what it says.
    #[error("the image says it has {said} connections, and has {has}")]
    Count {
        /// Its word.
        said: u64,
        /// What was found.
        has: u64,
    },
    /// Something follows the end.
    #[error("the image goes on behind its end, at octet {0}")]
    Trailing(usize),
}
