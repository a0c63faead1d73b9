//! IPv6 extension headers (RFC 8200 §4), in any order.
//!
//! [`Chain`] walks them: each [`Header`] says what it is, where it lies and what follows it.
//! [`Chain::end`] runs the walk out and answers what the payload is and where it begins.
//!
//! The walk goes over hop-by-hop and destination options, routing, fragment, authentication,
//! mobility, HIP and Shim6 headers. It ends at anything else: an upper-layer protocol, ESP (whose
//! next header is encrypted), no-next-header, and after the fragment header of any but the first
//! fragment, since what follows that is the middle of something. Order and repetition are the
//! sender's affair (§4.1: a receiver must accept any), and [`Seen`] reports them.
//!
//! Invariant: every header takes at least 8 octets, so a walk is bounded by the packet.

use std::net::Ipv6Addr;

use crate::bytes::{Field, need, room};
use crate::{Error, IpProtocol};

/// Padding of one octet (RFC 8200 §4.2).
pub const OPTION_PAD1: u8 = 0x00;
/// Padding of two octets and more (RFC 8200 §4.2).
pub const OPTION_PADN: u8 = 0x01;
/// Router alert (RFC 2711).
pub const OPTION_ROUTER_ALERT: u8 = 0x05;
/// Jumbo payload (RFC 2675).
pub const OPTION_JUMBO: u8 = 0xc2;

/// One extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// What it is.
    pub kind: IpProtocol,
    /// Where it begins, in octets from the chain's beginning.
    pub offset: usize,
    /// What follows it.
    pub next: IpProtocol,
    /// Its octets, next-header field first.
    pub bytes: &'a [u8],
}

impl<'a> Header<'a> {
    /// The options of a hop-by-hop or destination options header; none of other kinds.
    pub fn options(&self) -> Options<'a> {
        let rest = match self.kind {
            IpProtocol::HOP_BY_HOP | IpProtocol::DEST_OPTIONS => self.bytes.get(2..),
            _ => None,
        };
        Options { rest: rest.unwrap_or_default() }
    }

    /// The fields of a fragment header; none of other kinds.
    pub fn fragment(&self) -> Option<Fragment> {
        if self.kind != IpProtocol::FRAGMENT {
            return None;
        }
        let word = u16::get(self.bytes, 2);
        Some(Fragment {
            offset: word & 0xfff8,
            more: word & 1 != 0,
            ident: u32::get(self.bytes, 4),
        })
    }

    /// The routing type of a routing header (RFC 8200 §4.4); 0 of other kinds.
    pub fn routing_type(&self) -> u8 {
        if self.kind == IpProtocol::ROUTING { u8::get(self.bytes, 2) } else { 0 }
    }

    /// Route segments that a routing header has left (RFC 8200 §4.4); 0 of other kinds.
    pub fn segments_left(&self) -> u8 {
        if self.kind == IpProtocol::ROUTING { u8::get(self.bytes, 3) } else { 0 }
    }

    /// The final destination in a routing header: the last address of types 0 (RFC 5095 retires
    /// it) and 2 (RFC 6275 §6.4), the first of a segment list (type 4, RFC 8754 §2).
    pub fn last_segment(&self) -> Option<Ipv6Addr> {
        if self.kind != IpProtocol::ROUTING {
            return None;
        }
        let addresses = self.bytes.get(8..)?.as_chunks::<16>().0;
        match self.routing_type() {
            0 | 2 => addresses.last(),
            4 => addresses.first(),
            _ => None,
        }
        .map(|octets| Ipv6Addr::from(*octets))
    }
}

/// The fields of a fragment header (RFC 8200 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Offset in octets, a multiple of 8, at most 65528.
    pub offset: u16,
    /// Whether more fragments follow.
    pub more: bool,
    /// Identification.
    pub ident: u32,
}

impl Fragment {
    /// Octets of a fragment header.
    pub const LEN: usize = 8;

    /// Whether the header is there for form's sake and the packet is whole (RFC 6946).
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Writes a fragment header, followed by `next`, to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::Malformed`] when the offset is no
    /// multiple of 8.
    pub fn emit(&self, next: IpProtocol, out: &mut [u8]) -> Result<(), Error> {
        let what = "ipv6 fragment header";
        if !self.offset.is_multiple_of(8) {
            return Err(Error::Malformed { what, why: "its offset is no multiple of 8 octets" });
        }
        let out = room(what, out, Self::LEN)?;
        next.put(out, 0);
        (self.offset | u16::from(self.more)).put(out, 2);
        self.ident.put(out, 4);
        Ok(())
    }
}

/// An option of hop-by-hop or destination options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opt<'a> {
    /// Option type; its two highest bits say what to do if it is unknown (RFC 8200 §4.2).
    pub kind: u8,
    /// Data, without type and length.
    pub data: &'a [u8],
}

/// A walk over the options of a header (RFC 8200 §4.2), padding included; ends after an error.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        let &kind = rest.first()?;
        if kind == OPTION_PAD1 {
            self.rest = &rest[1..];
            return Some(Ok(Opt { kind, data: &[] }));
        }
        let what = "ipv6 option";
        let check = need(what, rest, 2).and_then(|()| need(what, rest, 2 + usize::from(rest[1])));
        Some(check.map(|()| {
            let (option, after) = rest.split_at(2 + usize::from(rest[1]));
            self.rest = after;
            Opt { kind, data: &option[2..] }
        }))
    }
}

/// What a chain ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The protocol of the payload; in a later fragment, of what is fragmented.
    pub protocol: IpProtocol,
    /// Where the payload begins, in octets from the chain's beginning.
    pub offset: usize,
    /// The fragment header's fields, if there is one.
    pub fragment: Option<Fragment>,
}

/// A walk over extension headers; yields an error at most once, as its last item.
#[derive(Debug, Clone, Copy)]
pub struct Chain<'a> {
    bytes: &'a [u8],
    offset: usize,
    next: IpProtocol,
    fragment: Option<Fragment>,
    failed: Option<Error>,
}

impl<'a> Chain<'a> {
    /// Begins at `bytes`, what follows the fixed header, announced by its next-header `first`.
    pub fn new(first: IpProtocol, bytes: &'a [u8]) -> Self {
        Chain { bytes, offset: 0, next: first, fragment: None, failed: None }
    }

    /// Walks to the end of the chain.
    ///
    /// # Errors
    /// [`Error::Truncated`] when a header does not fit the bytes.
    pub fn end(mut self) -> Result<End, Error> {
        self.by_ref().for_each(drop);
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.here()),
        }
    }

    /// What has not been walked over: its protocol, and where it begins.
    pub fn here(&self) -> End {
        End { protocol: self.next, offset: self.offset, fragment: self.fragment }
    }

    fn step(&self) -> Result<Header<'a>, Error> {
        let rest = &self.bytes[self.offset..];
        let what = match self.next {
            IpProtocol::HOP_BY_HOP => "ipv6 hop-by-hop options",
            IpProtocol::ROUTING => "ipv6 routing header",
            IpProtocol::FRAGMENT => "ipv6 fragment header",
            IpProtocol::AUTH => "authentication header",
            IpProtocol::DEST_OPTIONS => "ipv6 destination options",
            _ => "ipv6 extension header",
        };
        need(what, rest, 8)?;
        let len = match self.next {
            IpProtocol::FRAGMENT => Fragment::LEN,
            // In words of 4 octets less 2 (RFC 4302 §2.2); at least the fixed part's 12 octets.
            IpProtocol::AUTH => (usize::from(rest[1]) + 2).max(3) * 4,
            // In words of 8 octets less 1.
            _ => (usize::from(rest[1]) + 1) * 8,
        };
        need(what, rest, len)?;
        Ok(Header {
            kind: self.next,
            offset: self.offset,
            next: IpProtocol(rest[0]),
            bytes: &rest[..len],
        })
    }
}

impl<'a> Iterator for Chain<'a> {
    type Item = Result<Header<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let later = self.fragment.is_some_and(|fragment| fragment.offset != 0);
        if self.failed.is_some() || later || !self.next.is_ipv6_extension() {
            return None;
        }
        let step = self.step();
        match step {
            Ok(header) => {
                self.next = header.next;
                self.offset += header.bytes.len();
                self.fragment = header.fragment().or(self.fragment);
            }
            Err(error) => self.failed = Some(error),
        }
        Some(step)
    }
}

/// Which extension headers a packet has, and whether their order is the recommended one (RFC 8200
/// §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// No-next-header ends the chain.
    pub no_next: bool,
    /// ESP ends the chain.
    pub esp: bool,
    /// An authentication header.
    pub auth: bool,
    /// Destination options, one or two.
    pub dest_options: bool,
    /// A fragment header.
    pub fragment: bool,
    /// A routing header.
    pub routing: bool,
    /// Hop-by-hop options.
    pub hop_by_hop: bool,
    /// A header comes more often than recommended: twice, or thrice for destination options.
    pub repeated: bool,
    /// A header comes before one that should precede it.
    pub out_of_order: bool,
    /// The chain breaks off in a header that does not fit the packet.
    pub broken: bool,
}

impl Seen {
    /// Walks over `chain`.
    pub fn of(chain: Chain<'_>) -> Self {
        let mut seen = Seen::default();
        let mut rank = 0;
        let mut dest_options = 0;
        let mut chain = chain;
        for header in chain.by_ref() {
            let Ok(header) = header else {
                seen.broken = true;
                return seen;
            };
            seen.note(header.kind, header.next, &mut dest_options, &mut rank);
        }
        let last = chain.here().protocol;
        if matches!(last, IpProtocol::ESP | IpProtocol::NO_NEXT) {
            seen.note(last, last, &mut dest_options, &mut rank);
        }
        seen
    }

    fn note(&mut self, kind: IpProtocol, next: IpProtocol, dest_options: &mut u8, rank: &mut u8) {
        let (place, flag) = match kind {
            IpProtocol::HOP_BY_HOP => (1, &mut self.hop_by_hop),
            // Destination options come before a routing header, or last of all.
            IpProtocol::DEST_OPTIONS => {
                *dest_options = dest_options.saturating_add(1);
                self.repeated |= *dest_options > 2;
                self.dest_options = true;
                let place = if next == IpProtocol::ROUTING { 2 } else { 7 };
                self.out_of_order |= place < *rank;
                *rank = place.max(*rank);
                return;
            }
            IpProtocol::ROUTING => (3, &mut self.routing),
            IpProtocol::FRAGMENT => (4, &mut self.fragment),
            IpProtocol::AUTH => (5, &mut self.auth),
            IpProtocol::ESP => (6, &mut self.esp),
            IpProtocol::NO_NEXT => (8, &mut self.no_next),
            _ => return,
        };
        self.repeated |= *flag;
        *flag = true;
        self.out_of_order |= place < *rank;
        *rank = place.max(*rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    /// A header of `kind` with `words` extra words of 8 octets, followed by `next`.
    fn header(kind: IpProtocol, next: IpProtocol, words: u8) -> Vec<u8> {
        let len = match kind {
            IpProtocol::FRAGMENT => 8,
            _ => 8 + usize::from(words) * 8,
        };
        let mut bytes = vec![0; len];
        bytes[0] = next.0;
        bytes[1] = match kind {
            IpProtocol::AUTH => 2 * words,
            IpProtocol::FRAGMENT => 0,
            _ => words,
        };
        bytes
    }

    fn chain_of(kinds: &[IpProtocol], upper: IpProtocol) -> (IpProtocol, Vec<u8>) {
        let mut bytes = Vec::new();
        for (i, kind) in kinds.iter().enumerate() {
            let next = kinds.get(i + 1).copied().unwrap_or(upper);
            bytes.extend(header(*kind, next, 1 + (i % 3) as u8));
        }
        (kinds.first().copied().unwrap_or(upper), bytes)
    }

    const KINDS: [IpProtocol; 8] = [
        IpProtocol::HOP_BY_HOP,
        IpProtocol::ROUTING,
        IpProtocol::FRAGMENT,
        IpProtocol::AUTH,
        IpProtocol::DEST_OPTIONS,
        IpProtocol::MOBILITY,
        IpProtocol::HIP,
        IpProtocol::SHIM6,
    ];

    #[test]
    fn any_order_reaches_the_upper_layer() {
        let mut rng = Rng::new(7);
        for _ in 0..2000 {
            let kinds: Vec<_> = (0..rng.below(10)).map(|_| KINDS[rng.below(8)]).collect();
            let (first, bytes) = chain_of(&kinds, IpProtocol::TCP);
            let walked: Vec<_> =
                Chain::new(first, &bytes).map(|header| header.unwrap().kind).collect();
            assert_eq!(walked, kinds);
            let end = Chain::new(first, &bytes).end().unwrap();
            assert_eq!((end.protocol, end.offset), (IpProtocol::TCP, bytes.len()));
            for cut in 0..bytes.len() {
                assert!(matches!(
                    Chain::new(first, &bytes[..cut]).end(),
                    Err(Error::Truncated { .. })
                ));
            }
        }
    }

    #[test]
    fn a_later_fragment_ends_the_walk() {
        let mut bytes = vec![0; 8];
        let fragment = Fragment { offset: 1448, more: true, ident: 0xdead_beef };
        fragment.emit(IpProtocol::DEST_OPTIONS, &mut bytes).unwrap();
        bytes.extend([0xff; 4]);
        let end = Chain::new(IpProtocol::FRAGMENT, &bytes).end().unwrap();
        assert_eq!(end.fragment, Some(fragment));
        assert_eq!((end.protocol, end.offset), (IpProtocol::DEST_OPTIONS, 8));
        assert!(Fragment { offset: 0, more: false, ident: 1 }.is_atomic());
        assert!(Fragment { offset: 3, ..fragment }.emit(IpProtocol::TCP, &mut bytes).is_err());
        assert!(fragment.emit(IpProtocol::TCP, &mut bytes[..7]).is_err());
    }

    #[test]
    fn options_walk() {
        let bytes = [58, 1, 5, 2, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0];
        let header = Chain::new(IpProtocol::HOP_BY_HOP, &bytes).next().unwrap().unwrap();
        let options: Vec<_> = header.options().map(Result::unwrap).collect();
        assert_eq!(options[0], Opt { kind: OPTION_ROUTER_ALERT, data: &[0, 0] });
        assert_eq!(options[2], Opt { kind: OPTION_PADN, data: &[0, 0, 0] });
        let bad = [58, 0, 5, 200, 0, 0, 0, 0];
        let header = Chain::new(IpProtocol::HOP_BY_HOP, &bad).next().unwrap().unwrap();
        let walked: Vec<_> = header.options().collect();
        assert_eq!(walked, [Err(Error::Truncated { what: "ipv6 option", need: 202, have: 6 })]);
    }

    #[test]
    fn routing_headers_name_the_last_stop() {
        let mut bytes = vec![6, 4, 0, 2, 0, 0, 0, 0];
        bytes.extend([1; 16]);
        bytes.extend([2; 16]);
        for (kind, last) in [(0, Some([2; 16])), (4, Some([1; 16])), (3, None)] {
            bytes[2] = kind;
            let header = Chain::new(IpProtocol::ROUTING, &bytes).next().unwrap().unwrap();
            assert_eq!(header.last_segment(), last.map(Ipv6Addr::from));
            assert_eq!((header.routing_type(), header.segments_left()), (kind, 2));
        }
    }

    #[test]
    fn order_and_repetition() {
        use IpProtocol as P;
        let seen = |kinds: &[P], upper| {
            let (first, bytes) = chain_of(kinds, upper);
            Seen::of(Chain::new(first, &bytes))
        };
        let good =
            [P::HOP_BY_HOP, P::DEST_OPTIONS, P::ROUTING, P::FRAGMENT, P::AUTH, P::DEST_OPTIONS];
        let all = seen(&good, P::TCP);
        assert!(!all.repeated && !all.out_of_order && !all.broken);
        assert!(all.hop_by_hop && all.dest_options && all.routing && all.fragment && all.auth);
        assert!(seen(&[P::FRAGMENT, P::ROUTING], P::TCP).out_of_order);
        assert!(seen(&[P::ROUTING, P::HOP_BY_HOP], P::TCP).out_of_order);
        assert!(seen(&[P::ROUTING, P::ROUTING], P::TCP).repeated);
        assert!(seen(&[P::DEST_OPTIONS; 3], P::TCP).repeated);
        assert!(!seen(&[P::DEST_OPTIONS; 2], P::TCP).repeated);
        assert!(seen(&[P::AUTH], P::ESP).esp && seen(&[], P::NO_NEXT).no_next);
        assert!(Seen::of(Chain::new(P::ROUTING, &[0; 7])).broken);
        assert_eq!(seen(&[], P::UDP), Seen::default());
    }
}
