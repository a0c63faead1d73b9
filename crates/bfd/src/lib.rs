//! Bidirectional Forwarding Detection: whether the other end of a link or tunnel lives (RFC 5880, 5881; behaviour: Open
//! vSwitch's `lib/bfd.c`).
//!
//! In: the column `bfd` of a database's interface, frames, how many frames the interface has received, and the time. Out: frames
//! to be sent, the column `bfd_status`, what people are shown. No sockets, threads or clocks: whoever runs a [`Session`] calls
//! [`Session::due`] at the latest at [`Session::next_wake`].
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | what is asked for, as `ovs-vswitchd.conf.db(5)` writes it |
//! | [`packet`] | control packets, and the headers before them |
//! | [`session`] | the state machine |
//! | `show` | the text of `ovs-appctl bfd/show` |
//!
//! Not done, as in Open vSwitch: authentication, echo packets, demand mode. Packets with authentication are refused and counted.
//! A remote system that asks for demand mode is sent periodic packets all the same.
//!
//! Checked by: `tests/sessions.rs`, two sessions under a virtual clock with loss, delay and restarts; `tests/open_vswitch.rs`,
//! frames of ovs-vswitchd 3.1; the fuzz target `bfd`.

pub mod config;
#[doc(hidden)]
pub mod fuzz;
pub mod packet;
pub mod session;
mod show;

pub use config::{Config, ConfigError};
pub use packet::{Diagnostic, Packet, State};
pub use session::{Counts, Identity, Received, Refused, Session};
