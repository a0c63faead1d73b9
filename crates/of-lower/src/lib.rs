//! OpenFlow as an IR program: one static program for all versions, and entries, groups and meters written in it.
//!
//! In: matches, instructions, buckets and meters of [`openflow`] that the rules have taken (`of-pipeline`). Out: a
//! program, and what its tables, groups and meters hold.
//!
//! [`program()`] declares the headers, the parser, tables that all look at the same key (one column
//! for each match field), the action set and NORMAL; it depends only on a [`ProgramConfig`]. What
//! controllers then add are entries: a [`openflow::Match`] becomes patterns
//! ([`matching::lower_match`]), instructions and action lists become a [`Call`]: a shape (what is
//! done, in which order) and arguments (the values). Equal shapes are one action of the pipeline;
//! the [`Interner`] keeps count of who uses it.
//!
//! Invariants: nothing here depends on the state of a switch; equal input gives equal output;
//! nothing OpenFlow-specific is asked of engines. A list that the specification forbids (unknown
//! group, bad port, missing prerequisite) is for the rules to refuse; what cannot be said in the IR
//! at all is a [`LowerError`].
//! Cost: a lookup of a match or list is linear in its length; an action's body is built once for
//! each shape.
//! Checked by: tests that run the program on real packets with the interpreter and compare bytes.
//!
//! | module | holds |
//! |---|---|
//! | [`headers`], [`parser`] | header types, metadata, the parser graph |
//! | [`checksums`] | which checksums cover what |
//! | [`fields`] | match fields: how to read and write each |
//! | [`filter`] | frames that a match takes, without a switch |
//! | [`ops`] | what one OpenFlow action does to a packet |
//! | [`slots`], [`action_set`] | the action set: its metadata, and its execution |
//! | `answers` | ARP and ND for addresses of services |
//! | [`tags`] | VLAN tags |
//! | [`places`] | which lists may hold an action |
//! | [`step`] | steps of a shape, and the action they make |
//! | [`actions`] | instruction and action lists to calls |
//! | [`rest`] | what a packet that waits goes on with |
//! | [`conjunctive`] | which table holds an entry that takes part in conjunctions |
//! | [`meter`] | meters |
//! | [`intern`] | shapes to action ids, with reference counts |
//! | [`matching`] | matches to patterns and back |
//! | [`tunnel`] | descriptors of tunnel ports' frames |
//! | [`normal`] | NORMAL with VLANs of ports, mirrors |
//! | [`mod@program`], [`layout`] | the program and the ids of its parts |

pub mod action_set;
pub mod actions;
mod answers;
pub mod checksums;
pub mod conjunctive;
pub mod fields;
pub mod filter;
pub mod headers;
pub mod intern;
pub mod layout;
pub mod matching;
pub mod meter;
pub mod normal;
pub mod ops;
pub mod parser;
pub mod places;
pub mod program;
pub mod rest;
pub mod slots;
pub mod step;
pub mod tags;
pub mod tunnel;

pub use action_set::as_bucket;
pub use actions::{
    Call, Context, Elements, LowerError, lower_actions, lower_bucket, lower_conjunctive,
    lower_instructions, lower_packet_out, lower_resumed, needs_entry, no_elements, until_exit,
};
pub use intern::Interner;
pub use layout::{Layout, PuntArgs, Waits};
pub use matching::{lower_match, raise_match};
pub use meter::lower_meter;
pub use program::{ProgramConfig, program, program_of, program_with};
pub use step::{Shape, Step};

#[cfg(test)]
mod tests;
