//! VLAN tags: 802.1Q and, stacked, QinQ (802.1ad); IEEE Std 802.1Q-2018 §9.6.
//!
//! A view begins after the tag protocol identifier, that is, it is the payload of a header whose
//! type [`is_vlan`](EtherType::is_vlan): two octets of tag control information, then the type of
//! what follows. [`Tags`] walks a stack of them.

use crate::bytes::{bits, fields, fits, flags, need, room, span, view};
use crate::{Error, EtherType};

const WHAT: &str = "vlan tag";

/// Octets of a tag without its leading TPID and with the type that follows it.
pub const TAG_LEN: usize = 4;

view! {
    /// A view of a tag and what follows it, from the tag control information on.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, TAG_LEN)
}

fields! {
    Packet {
        /// The tag control information: PCP, DEI and VID together.
        tci, set_tci: u16 @ 0;
        /// Type of what follows the tag.
        ethertype, set_ethertype: EtherType @ 2;
    }
}

bits! {
    Packet {
        /// Priority code point, 0 to 7 (IEEE Std 802.1Q-2018 §6.9.3).
        pcp, set_pcp: u8 @ 0, 5, 0x07;
        /// VLAN identifier, 0 to 4095; 0 tags priority alone, 4095 is reserved.
        vid, set_vid: u16 @ 0, 0, 0x0fff;
    }
}

flags! {
    Packet {
        /// Drop eligible indicator; a C-tag's canonical format indicator before 2011.
        dei, set_dei @ 0, 0x10;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// What follows the tag.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), TAG_LEN, usize::MAX)
    }
}

/// A tag as a value, with the type of what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 0 to 4095.
    pub vid: u16,
    /// Type of what follows.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the tag.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        Ok(Repr {
            pcp: packet.pcp(),
            dei: packet.dei(),
            vid: packet.vid(),
            ethertype: packet.ethertype(),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag, from its control information on, to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when `pcp` or `vid` is.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        fits(WHAT, "pcp", self.pcp.into(), 7)?;
        fits(WHAT, "vid", self.vid.into(), 0x0fff)?;
        let mut packet = Packet { buffer: room(WHAT, out, TAG_LEN)? };
        packet.set_pcp(self.pcp);
        packet.set_dei(self.dei);
        packet.set_vid(self.vid);
        packet.set_ethertype(self.ethertype);
        Ok(())
    }
}

/// A walk over a stack of tags, from the outermost in.
///
/// Yields each tag with the TPID that announced it; ends at the first type that is no tag's, or
/// after an error. [`ethertype`](Tags::ethertype) and [`rest`](Tags::rest) say what comes next.
#[derive(Debug, Clone, Copy)]
pub struct Tags<'a> {
    ethertype: EtherType,
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Tags<'a> {
    /// Begins at `bytes`, announced by `ethertype`.
    pub fn new(ethertype: EtherType, bytes: &'a [u8]) -> Self {
        Tags { ethertype, rest: bytes, failed: false }
    }

    /// Type of what has not been walked over.
    pub fn ethertype(&self) -> EtherType {
        self.ethertype
    }

    /// What has not been walked over.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl Iterator for Tags<'_> {
    type Item = Result<(EtherType, Repr), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || !self.ethertype.is_vlan() {
            return None;
        }
        match Packet::new_checked(self.rest).and_then(|packet| Repr::parse(&packet)) {
            Ok(tag) => {
                let tpid = std::mem::replace(&mut self.ethertype, tag.ethertype);
                self.rest = &self.rest[TAG_LEN..];
                Some(Ok((tpid, tag)))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    #[test]
    fn round_trip() {
        for repr in [
            Repr { pcp: 7, dei: true, vid: 0xfff, ethertype: EtherType::IPV6 },
            Repr { pcp: 0, dei: false, vid: 0, ethertype: EtherType(0) },
            Repr { pcp: 5, dei: false, vid: 10, ethertype: EtherType::VLAN },
        ] {
            let mut out = [0xff; 4];
            repr.emit(&mut out).unwrap();
            let packet = Packet::new_checked(&out[..]).unwrap();
            assert_eq!(Repr::parse(&packet), Ok(repr));
            truncations(&out, 4, |bytes| Packet::new_checked(bytes.to_vec()));
        }
        let wide = Repr { pcp: 8, dei: false, vid: 1, ethertype: EtherType::IPV4 };
        assert!(matches!(wide.emit(&mut [0; 4]), Err(Error::TooLarge { field: "pcp", .. })));
        let wide = Repr { pcp: 0, vid: 0x1000, ..wide };
        assert!(matches!(wide.emit(&mut [0; 4]), Err(Error::TooLarge { field: "vid", .. })));
    }

    #[test]
    fn setters_keep_to_their_bits() {
        let mut packet = Packet::new_checked([0_u8; 4]).unwrap();
        packet.set_vid(0xffff);
        packet.set_pcp(0xff);
        assert_eq!(packet.tci(), 0xefff);
        packet.set_dei(true);
        packet.set_vid(0);
        assert_eq!(packet.tci(), 0xf000);
    }

    #[test]
    fn walks_a_stack() {
        let stack = [0x00, 0x0a, 0x81, 0x00, 0x20, 0x0b, 0x08, 0x00, 0x45];
        let mut tags = Tags::new(EtherType::SVLAN, &stack);
        let (tpid, outer) = tags.next().unwrap().unwrap();
        assert_eq!((tpid, outer.vid), (EtherType::SVLAN, 10));
        let (tpid, inner) = tags.next().unwrap().unwrap();
        assert_eq!((tpid, inner.vid, inner.pcp), (EtherType::VLAN, 11, 1));
        assert!(tags.next().is_none());
        assert_eq!((tags.ethertype(), tags.rest()), (EtherType::IPV4, &[0x45][..]));

        let mut cut = Tags::new(EtherType::SVLAN, &stack[..7]);
        assert!(cut.next().unwrap().is_ok());
        assert!(cut.next().unwrap().is_err());
        assert!(cut.next().is_none());
    }
}
