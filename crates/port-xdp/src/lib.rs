//! AF_XDP ports: frames straight from an interface's driver, past the kernel's network stack.
//!
//! In comes a specification ([`Settings`]), out a [`port::Port`] ([`open`]). Built in layers,
//! each a page: `program` assembles the XDP program (no compiler needed on the user's machine),
//! `sys` holds the declarations and system calls, `umem` the memory, `ring` the four rings,
//! `socket` ties them together, `live` sends bursts past the rings, [`xdp`] is the port, [`bare`] what a port is measured against.
//!
//! # Modes
//! *Native*: the program runs in the driver (of hardware, or of veth). *Generic*: it runs in the
//! kernel's general receive path, for every driver. Native is tried first unless a mode was asked
//! for.
//!
//! # Nothing is copied
//! All sockets of the process share memory (`umem`). The pipeline borrows a frame in the chunk that it
//! was received into; leaving by another AF_XDP port, the chunk is what that port sends. (Drivers without
//! support for AF_XDP, veth's among them, copy on the kernel's side of the rings, once in and once out.)
//!
//! # What becomes of a host's default offloads behind veth (Linux 6.18, measured)
//!
//! | | native | generic |
//! |---|---|---|
//! | unfinished checksums (`tx-checksum-ip-generic`) | delivered unfinished, unmarked | the same |
//! | TSO, GSO | switched off at the peer by the kernel while the program is attached | up to a chunk: delivered whole, without their segment size; longer: dropped by the kernel |
//!
//! Unfinished checksums are recognised in TCP and UDP ([`port::gso::find_debt`]) and marked, so the
//! port on the way out completes or carries them, and nobody needs to do anything. SCTP's cannot be
//! recognised. Segmentation is what gets lost: native mode only costs throughput, in generic
//! mode TCP comes to a standstill; the port says so at start, with the remedy (`ethtool -K PEER tso
//! off gso off` in the peer's namespace).
//!
//! Invariants: dropping the port takes the program off the interface, as does the end of the
//! process, however it ends. A chunk of memory has one owner at a time, us or the kernel, and a
//! token (`umem::Chunk`) stands for our turn.
//! `unsafe` lives in `sys`, `umem`, `ring` and `live`.

pub mod bare;
mod kind;
mod live;
mod program;
mod ring;
mod settings;
mod socket;
mod sys;
mod umem;
pub mod xdp;

pub use kind::KIND;
pub use settings::{Mode, SendBy, Settings};
pub use xdp::Xdp;

/// Chunks of memory that nobody uses, and all that there are. Of those in use, up to 512 may be idle in the
/// list of a thread that receives or sends; it gives them back when it ends.
pub fn chunks() -> (usize, usize) {
    umem::census()
}

/// Opens the AF_XDP port of a specification. Needs `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`.
pub fn open(spec: &Settings) -> Result<Box<dyn port::Port>, port::Error> {
    Ok(Box::new(Xdp::open(spec)?))
}
