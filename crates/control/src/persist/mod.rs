//! `run --persist DIR`: what controllers have programmed outlives the process, also one that is killed.
//!
//! Each bridge has a folder in DIR, `bridge-NAME`, with a [`journal`]. The bridge's pipeline says what has changed, as one record
//! for each request ([`of_pipeline::keeping`]); a record says what the parts are then, so it does not matter why they changed.
//! It is written before any answer leaves: the channel asks for that before it writes to a controller, the
//! control socket before it answers.
//!
//! Of a P4 program it is the device of P4Runtime that says what has changed ([`p4_runtime::keeping`]), also where no client
//! can reach it: lines of `p4 do` change the same entries.
//!
//! At the start the folder's entries are put back, before the first packet and the first controller; `--flows`, `--groups`,
//! `--meters` and `--entries` are read only if the folder is new. Then the whole is written as a new snapshot.
//!
//! With `--take-over` the running process closes its journal when packets stop, and the new one opens it. If the new one
//! goes away, the running one opens it again.
//!
//! | file | is |
//! |---|---|
//! | [`place`] | where, and when it is on the disk |
//! | [`kept`] | a bridge's journal |
//! | [`p4`] | a P4 program's pipeline and entries |
//! | [`openflow`] | OpenFlow's entries, groups, meters and settings as keys and values |
//! | `tests`, `p4_tests` | what comes back |
//!
//! Checked by: the tests here; `journal`'s; millrace's `tests/persist.rs`, with processes; `lab/persist`, with kills and full disks.

pub mod kept;
pub(crate) mod openflow;
pub(crate) mod p4;
#[cfg(test)]
mod p4_tests;
pub mod place;
#[cfg(test)]
mod tests;
