//! SoftFlow's action (USENIX ATC 2016, §3): hands the packet to a service that the switch runs.
//!
//! In flows it is `softflow(NAME,ARG)`. The service consumes the packet, as a virtual machine would: what it
//! lets go on comes to table 0 anew, with `sf_stage` one higher, `sf_action` the service's number, and all
//! other pipeline fields as a packet has them that just came in.
//!
//! In requests it may be an experimenter's action (any version):
//!
//! | bytes | hold |
//! |---|---|
//! | 0..8 | type 0xffff, length, experimenter [`SOFTFLOW`] |
//! | 8..10 | subtype 1 |
//! | 10..12 | the name's length in bytes, 1 to [`NAME_MAX`] |
//! | 12..16 | the argument |
//! | 16.. | the name, and zeros up to a multiple of 8 |
//!
//! `ovs-ofctl` and other clients refuse a whole reply for one action that they do not know. So what this crate writes is
//! Nicira's `note`, whose octets are the action as flows have it, `softflow(NAME,ARG)`, and zeros. Such a note is
//! this action in requests, too: what a client dumped, it can add again.
//!
//! The fields `sf_*` are OXMs of the class [`OXM_CLASS_SOFTFLOW`](crate::field::OXM_CLASS_SOFTFLOW). Where flow entries are
//! listed, they are told in notes, too.

use std::fmt;

/// The experimenter of the action. Nobody has assigned it.
pub const SOFTFLOW: u32 = 0xff00_7366;
/// Bytes of a service's name, at most.
pub const NAME_MAX: usize = 32;

/// A service's name: 1 to [`NAME_MAX`] letters, digits, `_`, `-` and `.`, and a letter first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementName(Box<str>);

/// What a name looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a service's name has 1 to {NAME_MAX} letters, digits, `_`, `-` and `.`, and a letter first"
)]
pub struct NameError;

impl ElementName {
    /// A name, if it is one.
    ///
    /// # Errors
    /// If it is not.
    pub fn new(name: &str) -> Result<ElementName, NameError> {
        let fine = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
        let first = name.starts_with(|c: char| c.is_ascii_alphabetic());
        match first && name.len() <= NAME_MAX && name.bytes().all(fine) {
            true => Ok(ElementName(name.into())),
            false => Err(NameError),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number that `sf_action` has behind this service: the name's bytes by 32-bit FNV-1a, so that
    /// everybody can tell it without asking the switch. Never 0.
    pub fn number(&self) -> u32 {
        let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        self.0.bytes().fold(0x811c_9dc5, step).max(1)
    }
}

impl fmt::Display for ElementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The action: which service, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Softflow {
    /// The service.
    pub name: ElementName,
    /// `sf_argument`.
    pub argument: u32,
}

/// As flows have it.
impl fmt::Display for Softflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "softflow({},{})", self.name, self.argument)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_numbers() {
        for bad in ["", "1st", "a b", "a,b", "é", "_x", &"x".repeat(33)] {
            assert_eq!(ElementName::new(bad), Err(NameError), "{bad}");
        }
        let name = ElementName::new("conntrack").unwrap();
        assert_eq!(name.number(), ElementName::new("conntrack").unwrap().number());
        // FNV-1a's published value of "a".
        assert_eq!(ElementName::new("a").unwrap().number(), 0xe40c_292c);
    }
}
