//! What the IR means: a program run on a packet, one obvious step at a time.
//!
//! In: a [`View`] (a program and what controllers put into it), a packet, [`Externs`] (counters,
//! meters, registers, liveness, chance). Out: copies to a [`Sink`], a [`Verdict`](ir::Verdict), and
//! on request a [`Trace`] of every step. It is the oracle of every other engine and shares no code
//! with them; it also forwards, so it wastes nothing on its way.
//!
//! | module | holds |
//! |---|---|
//! | `machine` | passes, blocks, tables; the bounds of a run |
//! | `parse`, `deparse`, `checksum` | from bytes to headers and back |
//! | `ops`, `group`, `eval`, `hash` | operations, groups, expressions, hash functions |
//! | `layout`, `store`, `context`, `source` | where values live; a copy of the packet; bit strings |
//! | [`externs`], [`sink`], `view` | the three sides that a run talks to |
//! | `meters` | meters that measure, for offline runs |
//! | [`trace`], `show` | what happened, as text |
//! | [`filetest`] | test files (`.mill`) run on the interpreter |
//!
//! Invariants: any bytes give a verdict; a run ends ([`limits`]); the payload is never copied unless
//! a header of a fraction of bytes moves it; a packet that nothing changed leaves as the very bytes
//! that came in.

mod checksum;
mod context;
mod deparse;
mod eval;
pub mod externs;
pub mod filetest;
mod group;
mod hash;
mod layout;
mod machine;
mod meters;
mod ops;
mod parse;
mod show;
pub mod sink;
mod source;
mod store;
pub mod trace;
mod view;

pub use externs::{Color, Externs, Lookup, MemoryExterns, NullExterns};
pub use machine::{Input, Machine, Parsed, Start};
pub use sink::{Caller, Collect, Packet, Punt, Sink};
pub use trace::Trace;
pub use view::{Args, Found, KeyFields, View};

/// Bounds of one received frame's run; beyond them a copy is dropped.
pub mod limits {
    pub use crate::machine::{
        CLONE_DEPTH_MAX, COPIES_MAX, GROUP_DEPTH_MAX, PASSES_MAX, REPARSES_MAX,
    };
}
