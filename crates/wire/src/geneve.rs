//! Geneve (RFC 8926 §3.4 and §3.5).

use crate::bytes::{Field, bits, fields, fits, flags, need, room, span, view};
use crate::{Error, EtherType};

const WHAT: &str = "geneve header";

/// Octets of a header without options.
pub const HEADER_LEN: usize = 8;
/// Most octets of options.
pub const OPTIONS_LEN_MAX: usize = 63 * 4;

view! {
    /// A view of a header, its options, and what follows them.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)?;
    let version = bytes[0] >> 6;
    if version != 0 {
        let value = version.into();
        return Err(Error::Field { what: WHAT, field: "version", value, want: "0" });
    }
    need("geneve header with options", bytes, HEADER_LEN + usize::from(bytes[0] & 0x3f) * 4)
}

bits! {
    Packet {
        /// Version; 0 in a checked packet.
        version, set_version: u8 @ 0, 6, 0x03;
        /// Octets of options, in words of 4.
        options_words, set_options_words: u8 @ 0, 0, 0x3f;
        /// Network identifier, 24 bits.
        vni, set_vni: u32 @ 4, 8, 0x00ff_ffff;
    }
}

flags! {
    Packet {
        /// Control packet (the O flag).
        control, set_control @ 1, 0x80;
        /// Some option is critical (the C flag).
        critical, set_critical @ 1, 0x40;
    }
}

fields! {
    Packet {
        /// Type of what is carried; [`EtherType::TRANSPARENT_ETHERNET`] for a frame.
        protocol, set_protocol: EtherType @ 2;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Octets of the header with its options.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + usize::from(self.options_words()) * 4
    }

    /// The options, one by one.
    pub fn options(&self) -> Options<'_> {
        Options { rest: span(self.as_bytes(), HEADER_LEN, self.header_len()) }
    }

    /// What is carried.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), self.header_len(), usize::MAX)
    }
}

/// An option (RFC 8926 §3.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opt<D = Vec<u8>> {
    /// Option class: whose types these are.
    pub class: u16,
    /// Option type; its highest bit says that it is critical.
    pub kind: u8,
    /// Data: a multiple of 4 octets, at most 124.
    pub data: D,
}

impl<D> Opt<D> {
    /// Whether an endpoint that does not know the option must drop the packet.
    pub fn is_critical(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// A walk over options; ends after an error.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<&'a [u8]>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        let what = "geneve option";
        let len = 4 + usize::from(u8::get(rest, 3) & 0x1f) * 4;
        Some(need(what, rest, len).map(|()| {
            let (option, after) = rest.split_at(len);
            self.rest = after;
            Opt { class: u16::get(option, 0), kind: option[2], data: &option[4..] }
        }))
    }
}

/// A header as a value. The C flag is not kept: it is set when an option is critical.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repr {
    /// Control packet.
    pub control: bool,
    /// Type of what is carried.
    pub protocol: EtherType,
    /// Network identifier, below 2²⁴.
    pub vni: u32,
    /// Options, in order.
    pub options: Vec<Opt>,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`], and of an option that does not fit.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        let options = packet.options().map(|option| {
            option.map(|o| Opt { class: o.class, kind: o.kind, data: o.data.to_vec() })
        });
        Ok(Repr {
            control: packet.control(),
            protocol: packet.protocol(),
            vni: packet.vni(),
            options: options.collect::<Result<_, _>>()?,
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.iter().map(|option| 4 + option.data.len()).sum::<usize>()
    }

    /// Writes the header to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when the identifier or the
    /// options are, [`Error::Malformed`] for option data that is no multiple of 4 octets.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        fits(WHAT, "vni", self.vni.into(), 0x00ff_ffff)?;
        let options_len = self.buffer_len() - HEADER_LEN;
        for option in &self.options {
            fits("geneve option", "length", option.data.len() as u64, 124)?;
            if !option.data.len().is_multiple_of(4) {
                let why = "its data is no multiple of 4 octets; pad it with zeros";
                return Err(Error::Malformed { what: "geneve option", why });
            }
        }
        fits(WHAT, "options of length", options_len as u64, OPTIONS_LEN_MAX as u64)?;
        let mut packet = Packet { buffer: room(WHAT, out, self.buffer_len())? };
        packet.set_options_words((options_len / 4) as u8);
        packet.set_control(self.control);
        packet.set_critical(self.options.iter().any(Opt::is_critical));
        packet.set_protocol(self.protocol);
        packet.set_vni(self.vni);
        let mut rest = &mut packet.as_bytes_mut()[HEADER_LEN..];
        for option in &self.options {
            option.class.put(rest, 0);
            rest[2] = option.kind;
            rest[3] = (option.data.len() / 4) as u8;
            rest[4..4 + option.data.len()].copy_from_slice(&option.data);
            rest = &mut rest[4 + option.data.len()..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    fn sample() -> Repr {
        Repr {
            control: true,
            protocol: EtherType::TRANSPARENT_ETHERNET,
            vni: 0x00ab_cdef,
            options: vec![
                Opt { class: 0x0102, kind: 0x80, data: vec![1, 2, 3, 4] },
                Opt { class: 0xffff, kind: 1, data: vec![] },
            ],
        }
    }

    #[test]
    fn round_trip() {
        for repr in [sample(), Repr { options: vec![], control: false, ..sample() }] {
            let mut out = vec![0xff; repr.buffer_len() + 2];
            repr.emit(&mut out).unwrap();
            let packet = Packet::new_checked(&out[..]).unwrap();
            assert_eq!(Repr::parse(&packet).unwrap(), repr);
            assert_eq!(packet.critical(), !repr.options.is_empty());
            assert_eq!(packet.payload(), &[0xff; 2]);
            truncations(&out, repr.buffer_len(), |bytes| Packet::new_checked(bytes.to_vec()));
        }
    }

    #[test]
    fn lies() {
        let mut out = vec![0; 20];
        sample().emit(&mut out).unwrap();
        out[11] = 0x1f; // The first option claims more than there is.
        let packet = Packet::new_checked(&out[..]).unwrap();
        assert!(matches!(Repr::parse(&packet), Err(Error::Truncated { need: 128, have: 12, .. })));
        out[0] |= 0x40;
        assert!(matches!(
            Packet::new_checked(&out[..]),
            Err(Error::Field { field: "version", .. })
        ));
        let mut big = sample();
        big.options[0].data = vec![0; 128];
        assert!(matches!(big.emit(&mut [0; 300]), Err(Error::TooLarge { .. })));
        big.options = vec![Opt { class: 0, kind: 0, data: vec![0; 124] }; 2];
        assert!(matches!(big.emit(&mut [0; 300]), Err(Error::TooLarge { .. })));
        big.options = vec![Opt { class: 0, kind: 0, data: vec![0; 3] }];
        assert!(matches!(big.emit(&mut [0; 300]), Err(Error::Malformed { .. })));
    }
}
