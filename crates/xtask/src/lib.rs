//! The chores of this repository: `cargo xtask check`, `baseline`, `sbom`, `dist` and `package`.
//!
//! `check` reads the files of the tree as text and holds them to rules that no compiler knows: the order of crates,
//! circles of imports, where `unsafe` may stand, and that documents name what exists. It knows none of our crates.
//!
//! A rule that today's tree breaks has a baseline: a list of what is allowed to break it. A baseline only shrinks. `check`
//! fails when something new breaks the rule, and when a baseline lists what is mended.
//!
//! Checked by: `tests/planted.rs`, which plants a violation of each rule in a small tree.

pub mod baseline;
pub mod check;
pub mod dist;
pub mod document;
pub mod imports;
pub mod lex;
pub mod package;
pub mod report;
pub mod sbom;
pub mod shrink;
pub mod tree;
