//! The process: where its files lie, its pid file, detaching, and being watched.
//!
//! Open vSwitch's daemons fork. A process of several threads must not, and needs no `unsafe` if it starts itself anew
//! instead: with `--detach` the command starts its own program again, told by the environment what it is, and waits for a line on
//! the other's standard output. The line comes when the switch is what the database says; then the command ends with
//! status 0. What the other says of errors passes through the command, so that a detached process holds nothing of a
//! terminal open. With `--monitor` the one in between starts the switch again when a signal has ended it.
//!
//! Holds true: a pid file names the process that has the lock on it (fcntl(2), as ovs-appctl(8) looks for it), so two
//! switches never share one.

mod paths;
mod pidfile;
mod start;

pub use paths::Paths;
pub use pidfile::PidFile;
pub use start::{Ready, Started, begin};
