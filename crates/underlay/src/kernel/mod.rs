//! Sockets for underlays that are the kernel's own: whole IP packets out and in.
//!
//! [`Sender`] hands packets to the kernel, which routes them, resolves neighbours, and passes them through its filters. [`Receiver`]
//! gets packets of tunnels that are for this host.
//!
//! A packet socket sees packets before the kernel's packet filter does, so rules of the chain `input` do not hold for them.

mod filter;
mod receiver;
mod sender;

pub use receiver::{GsoKind, Offload, Received, Receiver, ReceiverCounts, Taken};
pub use sender::{Outgoing, Sender, SenderCounts};
