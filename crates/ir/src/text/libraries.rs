//! Libraries that a text may `use`: declarations in the text form, carried in the program.

/// Every library's name.
pub(super) const NAMES: [&str; 1] = ["std"];

/// The text of a library.
pub(super) fn find(name: &str) -> Option<&'static str> {
    (name == "std").then_some(include_str!("../../lib/std.mill"))
}
