//! A map of bytes to bytes that outlives its process: a snapshot, and a log of what changed since.
//!
//! In: [`Record`]s, each one transaction: keys that are put and keys that are removed. Out: files in a folder, and after a
//! restart the map as it was ([`Restored`]). What keys and values mean is the caller's business.
//!
//! | file in the folder | holds |
//! |---|---|
//! | `lock` | nothing; one process at a time has it locked |
//! | `snap-N` | the whole map when log N began |
//! | `log-N` | the records since, until log N+1 began |
//! | `cut` | the last log whose end could not be read, for who looks into it |
//! | `*.new` | a file that is not whole yet; nobody reads it |
//!
//! All files are frames ([`frame`]): length, CRC32C, sequence number, payload. The first frame says what the file is and
//! who wrote it. A snapshot ends with a frame that says so, and gets its name once it is whole.
//!
//! | module | is |
//! |---|---|
//! | [`frame`] | frames of bytes |
//! | [`record`] | transactions and snapshots as bytes |
//! | [`restore`] | a folder to a map |
//! | [`writer`] | the journal of a running process |
//! | `source` | who knows the whole map |
//! | `error` | why a folder cannot be used |
//! | `background` | its thread: syncs, compacts, mends |
//!
//! Invariants: a record is in the map whole or not at all; records come back in the order of [`Journal::append`], without
//! gaps; what [`Journal::flush`] has returned for, a killed process does not lose. Against loss of power, [`Sync`] says when files
//! are on the disk.
//! Bounded: when a log is longer than [`writer::LOG_MIN`] and twice its snapshot, the two become a new snapshot in the
//! background. They are read from the disk for that; nobody waits.
//! If the disk fails, appended records are dropped and counted. Once a second the whole map is asked for
//! again ([`Source`]) and written as a new snapshot, until that works.
//! Checked by: `tests`, which cut and change a log at every byte; the fuzz target `journal`; `lab/persist`, with a switch.

mod background;
mod error;
pub mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod record;
pub mod restore;
mod source;
#[cfg(test)]
mod tests;
pub mod writer;

pub use error::Error;
pub use record::Record;
pub use restore::{Cut, Restored};
pub use source::Source;
pub use writer::{Journal, Status, Sync};
