//! The pipeline language: what a switch does to a packet, said once, for every front end and engine.
//!
//! A [`Program`] declares header types and instances, metadata, a parser, actions, tables and a
//! graph of control blocks. A [`Pipeline`] is a program together with what controllers put into it:
//! entries, default actions, groups, meters, value sets. It changes by [`Update`]s in transactions
//! that happen whole or not at all. OpenFlow is one way to write it, P4-16 another; nothing here
//! knows of either, nor of sockets, threads, clocks or bytes on a wire beyond bit fields.
//!
//! In: a program, built in code ([`builder`]) or read from its text form ([`text`]); updates.
//! Out: a verified pipeline, for `interp` to give it meaning and for the compiler to specialise;
//! its text form, which reads back to the same pipeline.
//!
//! | module | holds |
//! |---|---|
//! | [`bits`] | values of any width and their arithmetic |
//! | [`program`] | the declarations: headers, parser, actions, tables, blocks |
//! | [`expr`], [`op`] | expressions and operations |
//! | [`pipeline`] | entries, groups, meters; updates and transactions |
//! | [`verdict`] | what becomes of a frame, and every reason to drop or punt |
//! | [`verify`] | the rules a program and its entries obey, as a list |
//! | [`text`] | printer and parser of the text form (`.mill`) |
//! | [`builder`] | programs written in Rust |
//! | [`testing`] | random programs, updates and packets |

pub mod bits;
pub mod builder;
mod call;
mod contents;
pub mod expr;
pub mod id;
mod id_map;
pub mod op;
mod order;
pub mod pipeline;
pub mod program;
pub mod testing;
pub mod text;
pub mod verdict;
pub mod verify;
mod visit;
mod width;

pub use bits::Bits;
pub use expr::{BinaryOp, Crc, Expr, FieldRef, HashAlgorithm, UnaryOp};
pub use id::{
    ActionId, BlockId, CounterId, DigestId, EntryId, FieldId, GroupId, HeaderId, HeaderTypeId,
    MetaId, MeterId, ParserStateId, RegisterId, ServiceId, StackId, TableId, UnionId, ValueSetId,
};
pub use id_map::IdMap;
pub use op::{Copy, Guise, Op, PortIs};
pub use pipeline::{
    ActionCall, Band, Bucket, Entry, Group, GroupKind, KeyMatch, Meter, Pattern, Pipeline, Update,
};
pub use program::{
    Action, Block, Checksum, ChecksumAlgorithm, ChecksumMode, Digest, Field, HeaderInstance,
    HeaderType, Key, MatchKind, MetaField, Param, ParserOp, ParserState, Preface, Program,
    Register, Select, SelectCase, Stack, Table, Terminator, Transition, Union, ValueSet,
};
pub use verdict::{DropReason, PuntReason, Verdict};
