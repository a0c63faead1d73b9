//! What can be wrong with bytes, and with values to be written as bytes.
//!
//! Every variant names the thing (`what`) and says what would be right; no variant allocates, so
//! that refusing a bad packet costs no more than accepting a good one.

/// Why bytes could not be read as a header, or a value could not be written as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the thing does.
    #[error("{what} is truncated: {have} octets where at least {need} are needed")]
    Truncated {
        /// The header, option or payload that was being read.
        what: &'static str,
        /// Octets needed, counted from where the thing begins.
        need: usize,
        /// Octets there.
        have: usize,
    },
    /// A field holds a value with which the rest cannot be understood.
    #[error("{what} has {field} {value}; expected {want}")]
    Field {
        /// The header or option that holds the field.
        what: &'static str,
        /// The field, in its specification's words.
        field: &'static str,
        /// The value found.
        value: u64,
        /// The values that would be right.
        want: &'static str,
    },
    /// The bytes contradict the format in another way.
    #[error("{what} is malformed: {why}")]
    Malformed {
        /// The header, option or frame that was being read.
        what: &'static str,
        /// What is wrong, and what would be right.
        why: &'static str,
    },
    /// A stored checksum is not the one the bytes have.
    #[error("{what} checksum is {found:#06x}; the bytes sum to {expected:#06x}")]
    Checksum {
        /// The header whose checksum it is.
        what: &'static str,
        /// The checksum stored.
        found: u32,
        /// The checksum computed.
        expected: u32,
    },
    /// A value to be written does not fit its field.
    #[error("{what} cannot hold {field} {value}; at most {max}")]
    TooLarge {
        /// The header to be written.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// The value given.
        value: u64,
        /// The largest value the field holds.
        max: u64,
    },
    /// The buffer given to `emit` is too short.
    #[error("{what} needs {need} octets; the buffer has {have}")]
    NoRoom {
        /// The header to be written.
        what: &'static str,
        /// Octets it takes.
        need: usize,
        /// Octets in the buffer.
        have: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_say_what_was_wrong_and_what_would_be_right() {
        let golden = [
            (
                Error::Truncated { what: "ipv4 header", need: 20, have: 7 },
                "ipv4 header is truncated: 7 octets where at least 20 are needed",
            ),
            (
                Error::Field { what: "ipv4 header", field: "version", value: 6, want: "4" },
                "ipv4 header has version 6; expected 4",
            ),
            (
                Error::Malformed { what: "arp", why: "not Ethernet and IPv4" },
                "arp is malformed: not Ethernet and IPv4",
            ),
            (
                Error::Checksum { what: "udp", found: 1, expected: 0xbeef },
                "udp checksum is 0x0001; the bytes sum to 0xbeef",
            ),
            (
                Error::TooLarge { what: "vlan tag", field: "vid", value: 4096, max: 4095 },
                "vlan tag cannot hold vid 4096; at most 4095",
            ),
            (
                Error::NoRoom { what: "udp header", need: 8, have: 0 },
                "udp header needs 8 octets; the buffer has 0",
            ),
        ];
        for (error, text) in golden {
            assert_eq!(error.to_string(), text);
        }
    }
}
