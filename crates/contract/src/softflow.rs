//! How programs call SoftFlow's services (Jackson et al., USENIX ATC 2016, §3), whichever language they come from.
//!
//! A program declares one service, [`NAME`], or [`EDIT_NAME`] for elements that may write the packet, and says in
//! each call which element it means by the [`number`] of its name.

/// Name of the service whose elements only look at packets.
pub const NAME: &str = "softflow";
/// Name of the service whose elements may write them.
pub const EDIT_NAME: &str = "softflow_edit";

/// What both are told: names and widths. `argument` is `sf_argument` of this call; `action` and `stage` are those of
/// the call before.
pub const ARGS: [(&str, u32); 5] =
    [("element", 32), ("argument", 32), ("register", 64), ("action", 32), ("stage", 8)];
/// What both answer: `sf_metadata` and `sf_coalesce`.
pub const RESULTS: [(&str, u32); 2] = [("register", 64), ("coalesce", 1)];

/// Bytes of an element's name, at most.
pub const NAME_MAX: usize = 32;

/// A name has 1 to [`NAME_MAX`] letters, digits, `_`, `-` and `.`, and a letter first.
pub fn is_name(name: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic());
    first && name.len() <= NAME_MAX && name.bytes().all(fine)
}

/// The number that `sf_action` has behind an element of this name: its bytes by 32-bit FNV-1a. Never 0.
pub fn number(name: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, step).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_number() {
        // FNV-1a's published value of "a".
        assert_eq!(number("a"), 0xe40c_292c);
        assert!(is_name("fw-1.b_c") && !is_name("1fw") && !is_name("") && !is_name("a b"));
        assert!(!is_name(&"x".repeat(NAME_MAX + 1)));
    }
}
