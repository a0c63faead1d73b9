//! MPLS label stack entries (RFC 3032 §2.1; the traffic class as RFC 5462 renames it).
//!
//! A view is one entry and what follows it; [`Stack`] walks to the bottom of the stack. The stack
//! does not say what it carries; [`guess_payload`] reads it from the first nibble, as RFC 4928
//! lets routers do.

use crate::bytes::{bits, fields, fits, flags, need, room, span, view};
use crate::{Error, EtherType};

const WHAT: &str = "mpls label stack entry";

/// Octets of an entry.
pub const ENTRY_LEN: usize = 4;

/// IPv4 explicit null (RFC 3032 §2.1).
pub const LABEL_IPV4_NULL: u32 = 0;
/// Router alert.
pub const LABEL_ROUTER_ALERT: u32 = 1;
/// IPv6 explicit null.
pub const LABEL_IPV6_NULL: u32 = 2;
/// Implicit null, which is signalled and never sent.
pub const LABEL_IMPLICIT_NULL: u32 = 3;

view! {
    /// A view of a label stack entry and what follows it.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, ENTRY_LEN)
}

bits! {
    Packet {
        /// Label, 20 bits.
        label, set_label: u32 @ 0, 12, 0x000f_ffff;
        /// Traffic class, 0 to 7.
        tc, set_tc: u8 @ 2, 1, 0x07;
    }
}

flags! {
    Packet {
        /// Whether this is the bottom of the stack.
        bottom, set_bottom @ 2, 0x01;
    }
}

fields! {
    Packet {
        /// Time to live.
        ttl, set_ttl: u8 @ 3;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// What follows the entry: the next one, or the payload after the bottom.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), ENTRY_LEN, usize::MAX)
    }
}

/// A label stack entry as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Label, below 2²⁰.
    pub label: u32,
    /// Traffic class, 0 to 7.
    pub tc: u8,
    /// Whether this is the bottom of the stack.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl Repr {
    /// Reads the entry.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        Ok(Repr {
            label: packet.label(),
            tc: packet.tc(),
            bottom: packet.bottom(),
            ttl: packet.ttl(),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        ENTRY_LEN
    }

    /// Writes the entry to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when `label` or `tc` is.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        fits(WHAT, "label", self.label.into(), 0x000f_ffff)?;
        fits(WHAT, "tc", self.tc.into(), 7)?;
        let mut packet = Packet { buffer: room(WHAT, out, ENTRY_LEN)? };
        packet.set_label(self.label);
        packet.set_tc(self.tc);
        packet.set_bottom(self.bottom);
        packet.set_ttl(self.ttl);
        Ok(())
    }
}

/// A walk over a label stack, from the top; ends after the bottom, or after an error.
#[derive(Debug, Clone, Copy)]
pub struct Stack<'a> {
    rest: &'a [u8],
    done: bool,
}

impl<'a> Stack<'a> {
    /// Begins at the top of the stack in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Stack { rest: bytes, done: false }
    }

    /// What has not been walked over; the payload, after the last entry.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl Iterator for Stack<'_> {
    type Item = Result<Repr, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let entry = Packet::new_checked(self.rest).and_then(|packet| Repr::parse(&packet));
        match entry {
            Ok(entry) => {
                self.rest = &self.rest[ENTRY_LEN..];
                self.done = entry.bottom;
            }
            Err(_) => self.done = true,
        }
        Some(entry)
    }
}

/// What lies under the bottom of a stack, by its first nibble: IPv4, IPv6, or not known (RFC 4928
/// §3; other values begin a control word or an Ethernet frame without one).
pub fn guess_payload(payload: &[u8]) -> Option<EtherType> {
    match payload.first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    #[test]
    fn round_trip() {
        for repr in [
            Repr { label: 0xfffff, tc: 7, bottom: true, ttl: 255 },
            Repr { label: 16, tc: 0, bottom: false, ttl: 64 },
        ] {
            let mut out = [0xff; 4];
            repr.emit(&mut out).unwrap();
            assert_eq!(Repr::parse(&Packet::new_checked(&out[..]).unwrap()), Ok(repr));
            truncations(&out, 4, |bytes| Packet::new_checked(bytes.to_vec()));
        }
        let wide = Repr { label: 1 << 20, tc: 0, bottom: true, ttl: 0 };
        assert!(matches!(wide.emit(&mut [0; 4]), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn label_keeps_what_is_beside_it() {
        let mut packet = Packet::new_checked([0xff_u8; 4]).unwrap();
        packet.set_label(0);
        assert_eq!(packet.as_bytes(), &[0, 0, 0x0f, 0xff]);
        packet.set_tc(0);
        assert_eq!(packet.as_bytes(), &[0, 0, 0x01, 0xff]);
    }

    #[test]
    fn walks_to_the_bottom() {
        let bytes = [0, 1, 0, 64, 0, 2, 0x01, 63, 0x45, 0];
        let mut stack = Stack::new(&bytes);
        assert_eq!(stack.next().unwrap().unwrap().label, 16);
        assert_eq!(stack.next().unwrap().unwrap().label, 32);
        assert!(stack.next().is_none());
        assert_eq!(guess_payload(stack.rest()), Some(EtherType::IPV4));
        assert_eq!(guess_payload(&[]), None);
        // A stack without a bottom ends with the bytes, in an error.
        let endless = [0_u8; 4001];
        let walked: Vec<_> = Stack::new(&endless).collect();
        assert_eq!(walked.len(), 1001);
        assert!(walked[1000].is_err());
    }
}
