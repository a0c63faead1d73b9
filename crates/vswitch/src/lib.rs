//! A switch that is configured by Open vSwitch's database, and asked by `ovs-appctl`.
//!
//! In: the database as `ovs-vsctl`, libvirt, Mininet or OVN write it, and a [`switch::Switch`]. Out: the switch as the
//! database asks for it, and the columns that tell what it is.
//!
//! | module | holds |
//! |---|---|
//! | [`desired`] | rows as settings, one file for each table, and what of them the switch lacks |
//! | [`actual`] | what the switch has, and what it refused |
//! | [`diff`], [`apply`](mod@apply) | from the one to the other, in steps |
//! | [`numbers`] | the numbers of interfaces |
//! | [`report`] | columns that are written back |
//! | [`reconcile`] | the thread that goes round |
//! | `look` | how it looks at thousands of ports, part by part |
//! | [`switch`] | what is asked of a switch |
//! | [`vlog`] | levels of the log |
//! | [`unixctl`] | the socket of `ovs-appctl`, and its commands |
//! | [`process`] | pid files, and a process that detaches and is watched |
//!
//! Invariants: what the database asks for and the switch cannot do stands in the row that asked; a reader of `cur_cfg`
//! finds packets forwarded by that configuration; whatever fails is tried again.
//! Checked by: unit tests; `tests/`, against a real `ovsdb-server`, `ovs-vsctl` and `ovs-appctl` with a switch that
//! remembers what it was told.

pub mod actual;
pub mod address;
pub mod apply;
pub mod desired;
pub mod diff;
#[doc(hidden)]
pub mod fake;
pub mod feature;
mod look;
pub mod numbers;
pub mod process;
pub mod reconcile;
pub mod report;
pub mod switch;
#[cfg(test)]
mod testing;
pub mod unixctl;
pub mod vlog;

/// The Open vSwitch whose database, tools and scripts are spoken to.
pub const OVS_VERSION: &str = report::root::OVS_VERSION;
