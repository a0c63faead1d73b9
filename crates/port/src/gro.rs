//! Joins TCP segments that follow one another into one GSO frame (what Linux calls GRO).
//!
//! For ports that take whole frames out of something else, as tunnel ports do: a frame of 64 KiB costs a pipeline no more
//! than a segment. [`Gro::add`] takes frames in the order of arrival and gives those that are done; [`Gro::flush`], at the
//! end of a burst, gives the rest.
//!
//! A segment joins only where [`gso`](crate::gso) would cut the joined frame into the same octets again. So all that is in
//! front of the payload is equal, the window and the options of TCP included. Only the sequence, the IPv4 identification,
//! the lengths, the checksums and PSH differ, as they do between segments of one frame. This is narrower than Linux,
//! which lets the window differ. IPv4 with options, IPv6 with extension headers and fragments do not join.
//! Both checksums are verified first. A segment whose sum is wrong stays as it came.
//!
//! Invariants: frames of one connection leave in the order of arrival. A frame to which nothing was joined leaves as it
//! came. No more than [`FLOWS_MAX`] frames are held, and none is longer than IP allows.
//! Cost: for TCP a look at the headers, and a comparison with each frame that is held; for what joins, its checksum and a
//! copy of its payload. Memory is taken at the first join only.
//! Checked by: the tests below, which cut joined frames again.

use crate::frame::BIG_LEN_MAX;
use crate::{Csum, Frame, Gso, GsoKind, Offload, Pool};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use wire::IpProtocol;
use wire::checksum::{self, Pseudo};

/// Connections that frames are held of, at most.
pub const FLOWS_MAX: usize = 8;
/// Octets of an IP packet, at most.
const PACKET_MAX: usize = 65_535;

const TCP: u8 = 6;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;

/// Frames of one queue that others may join.
#[derive(Default)]
pub struct Gro {
    /// In the order of arrival.
    held: Vec<Held>,
}

/// A frame that others may join.
struct Held {
    frame: Frame,
    first: Segment,
    /// Payload of each segment.
    size: usize,
    count: usize,
    next_seq: u32,
    next_id: u16,
    /// The last segment had PSH.
    pushed: bool,
}

/// Where the parts of a TCP segment lie, from the frame's first octet.
#[derive(Clone, Copy)]
struct Segment {
    l3: usize,
    l4: usize,
    payload: usize,
    is_ipv6: bool,
    seq: u32,
    id: u16,
    flags: u8,
    /// Others of its connection may join it, or it them.
    joins: bool,
}

/// What a frame is.
enum Look {
    /// No TCP: its order among TCP is of no matter.
    Other,
    /// TCP whose connection is not to be seen.
    Unclear,
    Segment(Segment),
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Looks at the Ethernet frame that begins at `start`. Two VLAN tags are seen through.
fn look(frame: &Frame, start: usize) -> Look {
    let data = frame.data();
    let mut at = start + 12;
    for _ in 0..2 {
        match u16_at(data, at) {
            Some(0x8100 | 0x88a8) => at += 4,
            _ => break,
        }
    }
    let l3 = at + 2;
    let is_ipv6 = match u16_at(data, at) {
        Some(0x0800) => false,
        Some(0x86dd) => true,
        _ => return Look::Other,
    };
    let min = if is_ipv6 { 40 } else { 20 };
    let Some(ip) = data.get(l3..l3 + min) else { return Look::Other };
    if is_ipv6 {
        match ip[6] {
            TCP if ip[0] >> 4 == 6 => {}
            // Extension headers may hide it.
            0 | 43 | 44 | 51 | 60 => return Look::Unclear,
            _ => return Look::Other,
        }
    } else if ip[9] != TCP {
        return Look::Other;
    } else if ip[0] != 0x45 || ip[6] & 0x3f != 0 || ip[7] != 0 {
        return Look::Unclear;
    }
    let l4 = l3 + min;
    segment(frame, (l3, l4), is_ipv6).map_or(Look::Unclear, Look::Segment)
}

fn segment(frame: &Frame, (l3, l4): (usize, usize), is_ipv6: bool) -> Option<Segment> {
    let data = frame.data();
    let tcp = data.get(l4..l4 + 20)?;
    let payload = l4 + usize::from(tcp[12] >> 4) * 4;
    let end = match is_ipv6 {
        true => l4 + usize::from(u16_at(data, l3 + 4)?),
        false => l3 + usize::from(u16_at(data, l3 + 2)?),
    };
    let is_whole = payload >= l4 + 20 && end > payload && end == data.len();
    let is_common = tcp[13] & ACK != 0 && tcp[13] & !(ACK | PSH | ECE) == 0;
    let owes = frame.offload.gso.is_some() || matches!(frame.offload.csum, Csum::Partial { .. });
    Some(Segment {
        l3,
        l4,
        payload,
        is_ipv6,
        seq: u32_at(data, l4 + 4)?,
        id: if is_ipv6 { 0 } else { u16_at(data, l3 + 4)? },
        flags: tcp[13],
        joins: is_whole && is_common && !owes,
    })
}

impl Segment {
    /// Addresses and ports.
    fn addresses(&self) -> Range<usize> {
        if self.is_ipv6 { self.l3 + 8..self.l3 + 40 } else { self.l3 + 12..self.l3 + 20 }
    }

    fn pseudo(&self, data: &[u8]) -> Pseudo {
        let addresses = &data[self.addresses()];
        if let Some((source, rest)) = addresses.split_first_chunk::<16>()
            && let Some(destination) = rest.first_chunk::<16>()
        {
            return Pseudo::from((Ipv6Addr::from(*source), Ipv6Addr::from(*destination)));
        }
        let quad = |at: usize| {
            let b = &addresses[at..at + 4];
            Ipv4Addr::new(b[0], b[1], b[2], b[3])
        };
        Pseudo::from((quad(0), quad(4)))
    }

    /// Both checksums are right.
    fn is_right(&self, data: &[u8]) -> bool {
        let header = self.is_ipv6 || checksum::sum(&data[self.l3..self.l4]) == 0xffff;
        header && self.pseudo(data).sum_over(IpProtocol::TCP, &data[self.l4..]) == 0xffff
    }

    /// Whether both are of one connection.
    fn is_of(&self, data: &[u8], other: &Segment, others: &[u8]) -> bool {
        self.is_ipv6 == other.is_ipv6
            && data[self.addresses()] == others[other.addresses()]
            && data[self.l4..self.l4 + 4] == others[other.l4..other.l4 + 4]
    }

    /// Whether all in front of the payload is equal that is so between segments of one frame.
    fn is_alike(&self, data: &[u8], other: &Segment, others: &[u8]) -> bool {
        let (l3, l4) = (self.l3, self.l4);
        if (l3, l4, self.payload) != (other.l3, other.l4, other.payload) {
            return false;
        }
        let same = |range: Range<usize>| data[range.clone()] == others[range];
        // TOS, DF and TTL; or traffic class, flow label and hop limit.
        let network = match self.is_ipv6 {
            true => same(l3..l3 + 4) && same(l3 + 6..l3 + 8),
            false => same(l3..l3 + 2) && same(l3 + 6..l3 + 10),
        };
        // ACK number, header length; window; urgent pointer and options.
        let transport = same(l4 + 8..l4 + 13) && same(l4 + 14..l4 + 16);
        let flags = (self.flags ^ other.flags) & !PSH == 0;
        network && transport && flags && same(l4 + 18..self.payload) && same(0..l3)
    }
}

impl Gro {
    /// Takes a frame whose Ethernet header begins `start` octets into it. What is in front of that is to be equal, too.
    /// `emit` gets what is done.
    pub fn add(
        &mut self,
        frame: Frame,
        start: usize,
        pool: &mut Pool,
        mut emit: impl FnMut(Frame),
    ) {
        let segment = match look(&frame, start) {
            Look::Other => return emit(frame),
            Look::Unclear => {
                self.flush(&mut emit);
                return emit(frame);
            }
            Look::Segment(segment) => segment,
        };
        let data = frame.data();
        let same = |held: &Held| held.first.is_of(held.frame.data(), &segment, data);
        if let Some(at) = self.held.iter().position(same) {
            let held = &mut self.held[at];
            if held.takes(&segment, &frame) {
                held.join(&segment, &frame, pool);
                pool.give(frame);
                if held.is_closed() {
                    emit(self.held.remove(at).done());
                }
                return;
            }
            emit(self.held.remove(at).done());
        }
        if !segment.joins || segment.flags & PSH != 0 {
            return emit(frame);
        }
        if self.held.len() == FLOWS_MAX {
            emit(self.held.remove(0).done());
        }
        self.held.push(Held::new(frame, segment));
    }

    /// Gives all that is held.
    pub fn flush(&mut self, emit: impl FnMut(Frame)) {
        self.held.drain(..).map(Held::done).for_each(emit);
    }
}

impl Held {
    fn new(frame: Frame, first: Segment) -> Held {
        let size = frame.len() - first.payload;
        let (next_seq, next_id) = (first.seq.wrapping_add(size as u32), first.id.wrapping_add(1));
        Held { frame, first, size, count: 1, next_seq, next_id, pushed: false }
    }

    /// Whether this is the segment that comes next.
    fn takes(&self, next: &Segment, frame: &Frame) -> bool {
        let (data, first) = (frame.data(), self.frame.data());
        let payload = data.len() - next.payload.min(data.len());
        next.joins
            && next.seq == self.next_seq
            && (next.is_ipv6 || next.id == self.next_id)
            && payload <= self.size
            && first.len() + payload - self.first.l3 <= PACKET_MAX
            && first.len() + payload <= BIG_LEN_MAX
            && self.first.is_alike(first, next, data)
            && next.is_right(data)
            && (self.count > 1 || self.first.is_right(first))
    }

    fn join(&mut self, next: &Segment, frame: &Frame, pool: &mut Pool) {
        let payload = &frame.data()[next.payload..];
        if self.frame.tailroom() < payload.len() {
            let mut large = pool.take(BIG_LEN_MAX);
            large.replace(self.frame.data());
            large.copy_metadata(&self.frame);
            pool.give(std::mem::replace(&mut self.frame, large));
        }
        self.frame.extend(payload);
        self.count += 1;
        self.next_seq = self.next_seq.wrapping_add(payload.len() as u32);
        self.next_id = self.next_id.wrapping_add(1);
        // A short one is the last.
        self.pushed = next.flags & PSH != 0 || payload.len() < self.size;
        if next.flags & PSH != 0 {
            self.frame.data_mut()[self.first.l4 + 13] |= PSH;
        }
    }

    /// Nothing may follow.
    fn is_closed(&self) -> bool {
        self.pushed
    }

    /// The frame, with what it owes.
    fn done(self) -> Frame {
        let Held { mut frame, first, size, count, .. } = self;
        if count == 1 {
            return frame;
        }
        let Segment { l3, l4, is_ipv6, payload, .. } = first;
        let pseudo = first.pseudo(frame.data());
        let len = frame.len();
        let data = frame.data_mut();
        let put = |data: &mut [u8], at: usize, value: usize| {
            data[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
        };
        if is_ipv6 {
            put(data, l3 + 4, len - l4);
        } else {
            put(data, l3 + 2, len - l3);
            put(data, l3 + 10, 0);
            let sum = checksum::checksum(&data[l3..l4]);
            put(data, l3 + 10, sum.into());
        }
        let bare = pseudo.sum(IpProtocol::TCP, (len - l4) as u32).fold();
        put(data, l4 + 16, bare.into());
        let kind = if is_ipv6 { GsoKind::TcpV6 } else { GsoKind::TcpV4 };
        // Headers and a payload of one frame fit.
        let gso = Gso { kind, size: size as u16, hdr_len: payload as u16, ecn: false };
        let csum = Csum::Partial { start: l4 as u16, offset: 16 };
        frame.offload = Offload { csum, gso: Some(gso) };
        frame
    }
}

#[cfg(test)]
mod tests;
