//! A version that stands for itself: its number, its text, its digest.
//!
//! Invariants: numbers count from 1. The digest is of number and text, so that no two versions have one.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The longest text: with its envelope, and the text before it, it fits into a message of a server with default limits.
pub(crate) const TEXT_MAX: usize = 400 << 10;
/// A version that stands for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plain {
    /// From 1.
    pub(crate) number: u64,
    /// When it was written, in UTC.
    pub(crate) time: String,
    /// By whom: `user@host`.
    pub(crate) by: String,
    /// The configuration.
    pub(crate) text: String,
    /// Of number and text.
    pub(crate) digest: String,
}

impl Plain {
    pub(crate) fn new(number: u64, time: String, by: String, text: String) -> Plain {
        let digest = digest(number, &text);
        Plain { number, time, by, text, digest }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.number == 0 {
            return Err("a version has no number".to_owned());
        }
        if self.text.len() > TEXT_MAX {
            return Err(format!("version {} is longer than {TEXT_MAX} octets", self.number));
        }
        match self.digest == digest(self.number, &self.text) {
            true => Ok(()),
            false => Err(format!("version {} is not what its digest says", self.number)),
        }
    }
}

/// Of number and text: 128 bits in hexadecimal.
fn digest(number: u64, text: &str) -> String {
    let sum = ring::digest::digest(&ring::digest::SHA256, format!("{number}\n{text}").as_bytes());
    let mut out = String::new();
    for octet in &sum.as_ref()[..16] {
        // Writing to a string does not fail.
        let _ = write!(out, "{octet:02x}");
    }
    out
}
