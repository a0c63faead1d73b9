//! The network that tunnels run over: the kernel's links, addresses, routes and neighbours, and sockets for IP packets.
//!
//! In: what the kernel tells by netlink (`rtnetlink(7)`), and IP packets. Out: for a destination the device, the source address,
//! the gateway and its MAC address ([`Underlay::resolve`]); IP packets of tunnels by the kernel ([`kernel`]).
//!
//! | module | holds |
//! |---|---|
//! | [`state`] | what the kernel has told, as plain values |
//! | `message` | netlink messages read as changes of that state |
//! | `netlink` | sockets: questions, and news |
//! | `follow` | the thread `underlay`, which keeps the state up to date |
//! | `lookup` | rules, routes and sources, as the kernel chooses them |
//! | [`show`] | lists in the form of `ovs-appctl ovs/route/show` and `tnl/neigh/show` |
//! | [`kernel`] | raw and packet sockets |
//! | `sys` | system calls that `rustix` does not have |
//!
//! Holds true:
//! - An [`Underlay`] belongs to the network namespace of the thread that started it.
//! - [`Underlay::version`] changes after an answer of [`Underlay::resolve`] may have changed. Read the version first, then resolve.
//! - A lost message (`ENOBUFS`) has everything read anew. Counted in [`Counts`].
//! - Under the lock of the state no other lock is taken.
//!
//! What the kernel does and this crate does not: routes with a type of service or a source prefix, and rules that select by type
//! of service, user, protocol or ports. They are skipped, logged once, and counted ([`Counts::ignored`]). Devices of a VRF are
//! reached by its table alone, as without `SO_BINDTODEVICE`. A path's MTU that the kernel has learned from routers is not known.
//!
//! Checked by: tests of each module, `tests/namespaces.rs` and `tests/sockets.rs` against the kernel itself, the fuzz target
//! `underlay`.

mod follow;
#[doc(hidden)]
pub mod fuzz;
pub mod kernel;
mod lookup;
mod message;
mod netlink;
pub mod show;
pub mod state;
mod sys;
mod underlay;

pub use lookup::{Next, Unreachable};
pub use underlay::{Counts, Settings, Underlay};
