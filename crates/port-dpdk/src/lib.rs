//! DPDK ports: any device that DPDK drives, by its devargs.
//!
//! In come a device's devargs (`net_pcap0,rx_pcap=a.pcap`, `0000:01:00.0`, ...), out a
//! [`port::Port`] ([`open`]). Built in layers: `shim.c` turns DPDK's inline functions and set-up into
//! plain calls, `sys` declares them and is the only `unsafe`, [`eal`] decides how DPDK is started,
//! `gate` keeps DPDK's interrupt thread and workers apart for drivers that do not, `device` is the port.
//!
//! Without the feature `dpdk` the crate has no C in it and needs no library: [`open`] then says how
//! to get a build that can.
//!
//! # Nothing is copied
//! The pipeline borrows a received mbuf: by its address alone ([`port::BorrowedBurst`]) where there is
//! nothing to say of the frame but where it lies, else as the frame's buffer ([`port::Frame::borrowed`]).
//! Its 128 bytes of headroom are where headers grow. A frame that leaves by a DPDK port in the buffer that it
//! came in is that mbuf again. Copied are: frames of several mbufs (a pipeline wants one piece),
//! frames from ports of another kind, and the extra copies of a frame that goes to several ports.
//!
//! # One pool
//! All devices share one pool of mbufs, since frames go from one to another, and one is borrowed as long
//! as a frame lives. Worker threads are made known to DPDK so that each has its own cache of it.
//!
//! Invariants: a device is stopped and closed when its port and the last of its queues are gone. A
//! receive or transmit queue of a device is used by one thread at a time; where a device has fewer
//! transmit queues than there are workers, they share one under a lock. Nobody is in a queue of a memif
//! while DPDK's interrupt thread runs.
//! Checked by: `tests/devices.rs` (net_ring, net_null, net_pcap, net_memif), `lab/dpdk_*`.

mod database;
#[cfg(feature = "dpdk")]
mod device;
pub mod eal;
#[cfg(feature = "dpdk")]
mod gate;
mod kind;
#[cfg(feature = "dpdk")]
mod sys;

pub use kind::KIND;

use port::{Error, Port};

/// What a device is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Workers: one transmit queue for each, and receive queues as long as the device has them.
    pub workers: usize,
    /// Receive queues; as many as there are workers if not said.
    pub rx_queues: Option<usize>,
    /// Arguments for DPDK itself, as `--eal` gives them; used by the first device that is opened.
    pub eal: Vec<String>,
    /// Buffers of the pool; used by the first device that is opened.
    pub mbufs: u32,
}

/// Buffers of the pool if nobody says another number: 2.4 KB each.
pub const MBUFS: u32 = 65_535;

impl Default for Options {
    fn default() -> Options {
        Options { workers: 1, rx_queues: None, eal: Vec::new(), mbufs: MBUFS }
    }
}

/// Whether this build has DPDK.
pub const BUILT_IN: bool = cfg!(feature = "dpdk");

/// Opens the device of these devargs as the port `name`. The first call starts DPDK.
#[cfg(feature = "dpdk")]
pub fn open(name: &str, devargs: &str, options: &Options) -> Result<Box<dyn Port>, Error> {
    Ok(Box::new(device::Dpdk::open(name, devargs, options)?))
}

/// Buffers of the pool that nobody has now; 0 before the first device was opened.
#[cfg(feature = "dpdk")]
pub fn idle_buffers() -> u32 {
    sys::pool_free()
}

/// Says that this build has no DPDK.
#[cfg(not(feature = "dpdk"))]
pub fn open(name: &str, _devargs: &str, _options: &Options) -> Result<Box<dyn Port>, Error> {
    Err(Error::Unsupported {
        name: name.to_owned(),
        what: "this build has no DPDK; with libdpdk-dev 22.11 or newer, \
               `cargo build --release --features dpdk` makes one that has"
            .to_owned(),
    })
}

#[cfg(all(test, not(feature = "dpdk")))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_says_how_to_get_one_with() {
        let error = open("p", "net_null0", &Options::default()).err().unwrap().to_string();
        assert!(error.contains("--features dpdk"), "{error}");
    }
}
