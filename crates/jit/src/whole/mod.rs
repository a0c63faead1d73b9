//! Whole programs as machine code, one packet at a time: whatever the IR can say.
//!
//! In: a program and its actions; then, for each packet, what the interpreter is given ([`interp::View`], externs, a
//! sink). Out: what the interpreter would say. The code of a burst ([`mod@crate::compile`]) is faster, and leaves
//! packets that come to what it does not do; these run here.
//!
//! Values lie in memory, at places that are constants of the code. Parser, blocks, actions, key fields and checksums
//! are functions; between them goes a driver in Rust, which follows passes, calls, clones and groups as the
//! interpreter does. What keeps state or makes copies code leaves to it, with the values worked out.
//!
//! | module | holds |
//! |---|---|
//! | `compiler`, [`code`] | from a program and its actions to functions; what is made |
//! | `layout`, `state` | where values lie; a copy of the packet |
//! | `function`, `ops`, `parser`, `sums`, `site` | code: expressions and fields; operations; the parser; checksums; where it calls Rust |
//! | `run`, `groups` | the driver, and what it does for code |
//! | `paths` | lookups by what is known of a packet beforehand |
//! | `emit`, `eval`, `hash`, `bits` | emission; expressions that are not code; hash functions; bit strings |
//!
//! Invariants: a packet of any bytes gives the verdict, copies and counts that the interpreter gives, in the same
//! order. Code calls nothing but the functions of `run::helper`, whose addresses are part of it; a panic in one of
//! them ends the process. Once buffers have grown, a packet costs no memory but what services, hashes of payloads
//! and values wider than 128 bits take.
//! Checked by: `tests/whole.rs`, with the random programs of the interpreter's tests; `datapath`'s differential tests.

mod bits;
mod code;
mod compiler;
mod emit;
mod eval;
mod function;
mod groups;
mod hash;
mod layout;
mod ops;
mod parser;
mod paths;
mod run;
mod site;
mod state;
mod sums;

pub use code::{Code, Parts};
pub use compiler::Compiler;
pub use paths::Full;
pub use run::Machine;
