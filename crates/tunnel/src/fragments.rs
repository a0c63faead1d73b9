//! Outer packets that come in fragments, put together (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! Fragments that overlap, or contradict one another in length or ECN, lose their packet (RFC 8200 §4.5, RFC 3168 §5.3). One that
//! comes twice with the same octets counts once. A packet that is not whole after [`TIME`] is lost.
//!
//! Memory is bounded: [`PACKETS_MAX`] packets of 64 KiB at most. Beyond that the oldest one makes room. Time is an argument;
//! packets whose time is over are looked for when a fragment comes.
//!
//! Taken: IPv4 without options, and IPv6 with the fragment header right behind its own. The header is that of the first
//! fragment.
//! Checked by: packets that are cut at random, in the tests; the fuzz target `tunnel`.

pub mod cut;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::time::{Duration, Instant};

use wire::checksum;

use crate::refused::Refused;

/// How long a packet waits for its fragments.
pub const TIME: Duration = Duration::from_secs(30);
/// Packets that wait at once.
pub const PACKETS_MAX: usize = 64;
/// Pieces of a packet without a neighbour, at most.
const PIECES_MAX: usize = 64;
/// Octets behind the IP header, at most.
const PAYLOAD_MAX: usize = 65_535;
/// The protocol number of IPv6's fragment header.
const FRAGMENT: u8 = 44;

/// What fragments of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    source: IpAddr,
    to: IpAddr,
    protocol: u8,
    id: u32,
}

/// A packet that is a fragment.
#[derive(Clone, Debug)]
pub struct Fragment<'a> {
    name: Name,
    /// The IP header, without a fragment header.
    header: &'a [u8],
    ecn: u8,
    /// Where its octets belong.
    at: usize,
    more: bool,
    payload: &'a [u8],
    wrong: Option<Refused>,
}

impl<'a> Fragment<'a> {
    /// Reads an IP packet. None if it is no fragment.
    #[inline]
    pub fn read(packet: &'a [u8]) -> Option<Fragment<'a>> {
        match packet.first()? >> 4 {
            4 if u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff != 0 => {
                Fragment::v4(packet)
            }
            6 if *packet.get(6)? == FRAGMENT => Fragment::v6(packet),
            _ => None,
        }
    }

    fn v4(packet: &'a [u8]) -> Option<Fragment<'a>> {
        let header = packet.first_chunk::<20>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let [.., a, b, c, d, e, f, g, h] = *header;
        let name = Name {
            source: Ipv4Addr::new(a, b, c, d).into(),
            to: Ipv4Addr::new(e, f, g, h).into(),
            protocol: header[9],
            id: word(4).into(),
        };
        let end = usize::from(word(2));
        let payload = packet.get(20..end);
        let wrong = match payload {
            _ if header[0] & 15 != 5 => Some(Refused::IpOptions),
            None => Some(Refused::IpLength),
            Some(_) if checksum::sum(header) != 0xffff => Some(Refused::IpChecksum),
            Some(_) => None,
        };
        Some(Fragment {
            name,
            header,
            ecn: header[1] & 3,
            at: usize::from(word(6) & 0x1fff) * 8,
            more: word(6) & 0x2000 != 0,
            payload: payload.unwrap_or(&[]),
            wrong,
        })
    }

    fn v6(packet: &'a [u8]) -> Option<Fragment<'a>> {
        let (header, rest) = packet.split_first_chunk::<40>()?;
        let own = rest.first_chunk::<8>()?;
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&header[at..at + 16]);
            IpAddr::from(Ipv6Addr::from(octets))
        };
        let bits = u16::from_be_bytes([own[2], own[3]]);
        let end = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let payload = rest.get(8..end);
        Some(Fragment {
            name: Name {
                source: address(8),
                to: address(24),
                protocol: own[0],
                id: u32::from_be_bytes([own[4], own[5], own[6], own[7]]),
            },
            header,
            ecn: header[1] >> 4 & 3,
            at: usize::from(bits & 0xfff8),
            more: bits & 1 != 0,
            payload: payload.unwrap_or(&[]),
            wrong: payload.is_none().then_some(Refused::IpLength),
        })
    }

    /// Where the packet goes.
    pub fn to(&self) -> IpAddr {
        self.name.to
    }

    /// The protocol of what is cut.
    pub fn protocol(&self) -> u8 {
        self.name.protocol
    }

    /// The UDP port that it goes to, if this is a first fragment of UDP.
    pub fn udp_port(&self) -> Option<u16> {
        match self.payload {
            [_, _, high, low, ..] if self.at == 0 => Some(u16::from_be_bytes([*high, *low])),
            _ => None,
        }
    }
}

/// A packet that waits for fragments.
#[derive(Debug)]
struct Waiting {
    name: Name,
    until: Instant,
    /// That of the first fragment; empty before it has come.
    header: Vec<u8>,
    /// Which ECN code points have come, a bit for each.
    ecn: u8,
    payload: Vec<u8>,
    /// What of it has come: in order, without touching one another.
    pieces: Vec<Range<usize>>,
    /// Its length, once the last fragment has come.
    len: Option<usize>,
}

/// Why a fragment, or its whole packet, is not taken.
enum Wrong {
    Fragment,
    Packet,
}

impl Waiting {
    fn new(name: Name, until: Instant) -> Waiting {
        let (header, payload, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Waiting { name, until, header, ecn: 0, payload, pieces, len: None }
    }

    fn add(&mut self, fragment: &Fragment<'_>) -> Result<(), Wrong> {
        let Fragment { at, payload, more, .. } = *fragment;
        let end = at + payload.len();
        // All but the last one have a multiple of 8 octets.
        if payload.is_empty() || end > PAYLOAD_MAX || more && !payload.len().is_multiple_of(8) {
            return Err(Wrong::Fragment);
        }
        let last = self.pieces.last().map_or(0, |piece| piece.end);
        let fits = match (self.len, more) {
            (None, true) => true,
            (None, false) => last <= end,
            (Some(len), true) => end < len,
            (Some(len), false) => end == len,
        };
        if !fits {
            return Err(Wrong::Packet);
        }
        // The first piece that does not end before this one begins.
        let place = self.pieces.partition_point(|piece| piece.end < at);
        let touched = self.pieces[place..].iter().take_while(|piece| piece.start <= end).count();
        let near = &self.pieces[place..place + touched];
        if near.iter().any(|piece| piece.start < end && at < piece.end) {
            let is_there = near.iter().any(|piece| piece.start <= at && end <= piece.end);
            return match is_there && self.payload[at..end] == *payload {
                true => Ok(()),
                false => Err(Wrong::Packet),
            };
        }
        let joined = near.first().map_or(at, |piece| piece.start.min(at))
            ..near.last().map_or(end, |piece| piece.end.max(end));
        self.pieces.splice(place..place + touched, [joined]);
        if self.pieces.len() > PIECES_MAX {
            return Err(Wrong::Packet);
        }
        if self.payload.len() < end {
            self.payload.resize(end, 0);
        }
        self.payload[at..end].copy_from_slice(payload);
        self.ecn |= 1 << fragment.ecn;
        if at == 0 {
            self.header = fragment.header.to_vec();
        }
        if !more {
            self.len = Some(end);
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        matches!((&self.pieces[..], self.len), ([all], Some(len)) if *all == (0..len))
    }

    /// The packet, if its fragments agree.
    fn packet(mut self) -> Option<Vec<u8>> {
        const CE: u8 = 3;
        let (congestion, incapable) = (self.ecn >> CE & 1 == 1, self.ecn & 1 == 1);
        if congestion && incapable {
            return None;
        }
        let mark = if congestion { CE } else { 0 };
        let len = self.payload.len();
        let mut packet = std::mem::take(&mut self.header);
        if packet.len() == 20 {
            let total = u16::try_from(len + 20).ok()?;
            packet[1] |= mark;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            packet[6..8].fill(0);
            packet[10..12].fill(0);
            let sum = checksum::checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            packet[1] |= mark << 4;
            packet[4..6].copy_from_slice(&u16::try_from(len).ok()?.to_be_bytes());
            packet[6] = self.name.protocol;
        }
        packet.append(&mut self.payload);
        Some(packet)
    }
}

/// Packets that wait for fragments.
#[derive(Debug, Default)]
pub struct Fragments {
    /// The oldest one first.
    waiting: Vec<Waiting>,
}

impl Fragments {
    /// Whether others of its packet have come and wait.
    pub fn know(&self, fragment: &Fragment<'_>) -> bool {
        self.waiting.iter().any(|waiting| waiting.name == fragment.name)
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// None waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a fragment. Gives its packet, if that is whole now. What is lost is told, one by one.
    pub fn add(
        &mut self,
        fragment: &Fragment<'_>,
        now: Instant,
        lost: &mut dyn FnMut(Refused),
    ) -> Option<Vec<u8>> {
        let late = self.waiting.iter().take_while(|waiting| waiting.until <= now).count();
        self.waiting.drain(..late).for_each(|_| lost(Refused::FragmentsLate));
        if let Some(reason) = fragment.wrong {
            lost(reason);
            return None;
        }
        let at = match self.waiting.iter().position(|waiting| waiting.name == fragment.name) {
            Some(at) => at,
            None => {
                if self.waiting.len() == PACKETS_MAX {
                    self.waiting.remove(0);
                    lost(Refused::FragmentsLate);
                }
                self.waiting.push(Waiting::new(fragment.name, now + TIME));
                self.waiting.len() - 1
            }
        };
        let done = self.waiting[at].add(fragment);
        if matches!(done, Err(Wrong::Packet)) || self.waiting[at].pieces.is_empty() {
            self.waiting.remove(at);
        }
        if done.is_err() {
            lost(Refused::FragmentsWrong);
            return None;
        }
        if !self.waiting[at].is_whole() {
            return None;
        }
        let packet = self.waiting.remove(at).packet();
        if packet.is_none() {
            lost(Refused::FragmentsWrong);
        }
        packet
    }
}

#[cfg(test)]
pub(crate) mod tests;
