//! NORMAL where ports have VLANs or are bonded, and mirrors (behaviour: Open vSwitch's `ovs-vswitchd.conf.db(5)`, tables Port and
//! Mirror).
//!
//! In: [`config::PortVlans`] and [`config::Mirror`]s. Out: a program with blocks for them ([`blocks`]), and what its
//! tables and groups hold ([`ids::VlanIds`]). A program without them has neither blocks nor tables: where no port has
//! VLANs they cost nothing.
//!
//! ```text
//! in -> mirror_src -> t0 ..                                   (mirrors)
//! normal -> normal_in -> normal_src -> normal_dst -> normal_flood (miss)
//! ```
//!
//! `normal_in` gives the packet the tags that it would have on a trunk, so VLANs of stations are those of its tag. What
//! sends it to a port, as a station's entry or a bucket of a flood, takes them off again as that port wants. What is
//! flooded where is data: a class for each set of ports that some VLAN is flooded to, a group for one or more classes.
//!
//! Holds true: a packet goes on behind NORMAL as it was before. Checked by `of-pipeline`'s tests, which compare both
//! engines, and by `conformance/vlans`, which asks Open vSwitch.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | VLAN modes and mirrors as they are told |
//! | [`edits`] | what a port does to tags |
//! | [`mirror`] | copies for mirrors |
//! | [`bond`] | several ports as one |
//! | `protected` | ports that exchange no packets |
//! | [`port_set`] | sets of ports |
//! | [`ids`], `declare` | tables and actions |
//! | [`blocks`] | the blocks of NORMAL |

pub mod blocks;
pub mod bond;
pub mod config;
mod declare;
pub mod edits;
pub mod ids;
pub(crate) mod mirror;
pub mod port_set;
pub(crate) mod protected;
