//! Ports: where frames enter and leave the switch.
//!
//! In come port specifications ([`spec`]) of some [`kind`]; out come [`Port`]s, whose [`RxQueue`]s fill a [`Burst`]
//! with [`Frame`]s and whose [`TxQueue`]s put frames out. The control side ([`Port`]) stays with
//! the switch's control thread; queues go to workers, one transmit queue for each, so that no lock
//! is shared between workers.
//!
//! Kinds here: [`memory`] (rings in this process), [`patch`] (between switches on the same workers), [`pcap`] (files), [`tap`] and [`af_packet`]
//! (Linux interfaces). Wrappers that are ports themselves: [`recorder`], [`fault`], [`pace`], and an emulated adapter that
//! marks flows ([`adapter`]). AF_XDP lives
//! in the crate `port-xdp`, which depends on this one.
//!
//! Invariants:
//! - A frame carries its virtio-net offload ([`Offload`]) from port to port. A port that cannot
//!   carry it completes it in software ([`gso`]); no frame is lost because two ports differ.
//! - Every frame lost here is counted once, under one [`DropReason`].
//! - Memory is bounded: free lists ([`Pool`]), bursts and rings all have a fixed capacity.
//! - An interface that is deleted and made again under the same name keeps its port, its queues
//!   and their descriptors; [`Port::link`] notices both events.
//!
//! `unsafe` lives in `sys` alone: thin layers over system calls, a page each.

pub mod adapter;
pub mod af_packet;
mod around;
pub mod burst;
pub mod doctor;
pub mod drops;
pub mod error;
pub mod fault;
pub mod frame;
pub mod gro;
pub mod gso;
pub mod inherited;
mod intake;
pub mod kind;
pub mod link;
pub mod local;
pub mod marks;
pub mod memory;
pub mod offload;
pub mod pace;
pub mod patch;
pub mod pcap;
pub mod pool;
mod port;
pub mod prng;
pub mod recorder;
pub mod spec;
mod sys;
pub mod tap;
pub mod terminal;
mod util;

pub use burst::{BURST_MAX, Burst};
pub use drops::{DropReason, Drops, Losses, TxReport};
pub use error::{Error, RxError};
pub use frame::{BufferOwner, Frame, Mbuf, Reclaimed};
pub use marks::Mark;
pub use offload::{Csum, Gso, GsoKind, Offload};
pub use pool::Pool;
pub use port::{KernelStats, LinkState, Port, PortInfo, RxQueue, StampedBy, TxQueue};
pub use sys::borrowed::{BATCH_MAX, Batch, BorrowedBurst, PLACES, Sizes};
pub(crate) use util::mac_of_name;
pub use util::{check_interface_name, now_ns, wait_readable};
