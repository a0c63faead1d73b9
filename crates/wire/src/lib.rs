//! Header bytes: checked views, parsed values, checksums.
//!
//! In: any bytes at all. Out: a view or a value, or an [`Error`] that says what was wrong and what
//! would be right. Every protocol is one module of the same shape:
//!
//! - `Packet<T>` is a checked view over `T: AsRef<[u8]>` (and `AsMut<[u8]>` for the setters).
//!   `Packet::new_checked` verifies every length on which an accessor depends; accessors read in
//!   place and allocate nothing.
//! - `Repr` is the header as a value: `Repr::parse` reads it from a view, `buffer_len` says how
//!   many octets it takes, `emit` writes it. Reserved bits are written as zero. A checksum that
//!   also covers the payload is written as zero by `emit` and filled in by the view's
//!   `fill_checksum`, once the payload is in place.
//!
//! Across protocols: [`checksum`] and [`crc32c`] compute, [`layers`] finds where the layers of a
//! frame begin, [`offload`] finishes or prepares checksums left to hardware, and [`summary`] and
//! [`tree`] print a frame for people.
//!
//! Invariants: no input panics; every loop over outside bytes consumes at least one octet a turn;
//! no `unsafe`, no sockets, no clocks, no knowledge of pipelines or of OpenFlow. A view whose
//! length fields were changed by its own setters stays safe (accessors clamp to the buffer), but
//! only [`check`](ethernet::Packet::check) can say whether it still makes sense.
//! Cost: a check reads the fixed header once; accessors are loads and shifts.
//! Checked by: unit tests beside each module, `fuzz::fuzz_all` (under random bytes in
//! the tests, under libFuzzer in `fuzz/`).

mod addr;
mod bytes;
mod error;
mod numbers;

pub mod arp;
pub mod checksum;
pub mod crc32c;
pub mod ethernet;
pub mod geneve;
pub mod gre;
pub mod gtpu;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod layers;
pub mod mpls;
pub mod ndp;
pub mod offload;
pub mod pbb;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

mod dissect;
mod show;

#[doc(hidden)]
pub mod fuzz;

#[cfg(test)]
mod testing;

pub use addr::{MacAddr, ParseMacError};
pub use error::Error;
pub use numbers::{EtherType, IpProtocol};
pub use offload::{PartialChecksum, complete_partial_checksum, pseudo_header_partial};
pub use show::{summary, tree};
