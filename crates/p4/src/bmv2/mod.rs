//! The JSON that p4c writes for bmv2, read as a program.
//!
//! In: the JSON's text, and [`Hints`] with what it leaves out. Out: the text of a P4-16 program for v1model, and for each of
//! its lines the node of the JSON that it comes from; or a refusal that names the node. The program's text goes the way of
//! all programs: the checker and the back end that are there take it.
//!
//! | module | holds |
//! |---|---|
//! | [`node`] | a place in the JSON, typed access, refusals |
//! | [`text`] | lines of the program and their nodes; names that P4 takes |
//! | [`headers`] | header types, instances, stacks, unions, metadata |
//! | [`expr`] | expressions: integers without a width become values with one |
//! | [`graph`] | jumps and next tables become branches that nest |
//! | [`primitive`], [`parser`], [`pipeline`] | actions, parser states, tables and their order |
//! | [`program`] | the whole |
//!
//! bmv2 calculates with integers of any size and cuts what it stores. Here each value has the width that holds it exactly,
//! and an operation whose result is cut is done in the width that is kept.
//!
//! Names that the program has of itself end in two underscores, so that parameters of actions may have any other.
//!
//! Invariants: any text ends in a program or a refusal, within bounded memory. What is not known is refused.
//! Checked by: `tests/bmv2.rs`, which runs the same packets through a program's text and its JSON; the fuzz target `p4_json`.

mod expr;
mod graph;
mod headers;
mod node;
mod parser;
mod pipeline;
mod primitive;
mod program;
mod text;

pub use node::Refused;
pub use program::{Compiled, Hints, KeyHint, TableHints, Translated, compile, translate};

/// The body of the fuzz target `p4_json`: any text is compiled or refused.
///
/// # Panics
/// If a refusal names no node, or says nothing.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    crate::with_stack(|| {
        let limits = crate::limits::Limits::running(1);
        if let Err(e) = compile(&text, &Hints::default(), limits) {
            assert!(!e.node.is_empty() && !e.text.is_empty());
        }
    });
}
