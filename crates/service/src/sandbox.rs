//! Services in a sandbox: the memory that a burst is handed over in to a module that nobody trusts, and what
//! of its answer is taken.
//!
//! This is the layout alone, and the checks of what comes back; it runs nothing. `wasm` (with the feature of that
//! name) runs WebAssembly modules by it. `docs/services/sandbox.md` tells authors of modules the same in their words.
//!
//! # The layout, version 1
//!
//! All numbers are little endian. A buffer of [`Layout::octets`] octets begins with [`BURST`] descriptors of
//! [`DESCRIPTOR`] octets, one for each packet of the burst:
//!
//! | at | octets | is | |
//! |---|---|---|---|
//! | 0 | 4 | where the frame begins, from the buffer's beginning | in |
//! | 4 | 4 | the frame's length | in |
//! | 8 | 4 | octets of it that are there, from its beginning on | in |
//! | 12 | 4 | where the network header begins in the frame | in |
//! | 16 | 4 | where the transport header begins | in |
//! | 20 | 4 | where the IP packet ends | in |
//! | 24 | 4 | where the payload of TCP or UDP begins | in |
//! | 28 | 4 | where it ends; both 0 if there is none | in |
//! | 32 | 8 | `sf_metadata` | in, out |
//! | 40 | 4 | `sf_argument` | in |
//! | 44 | 4 | `sf_action` | in |
//! | 48 | 4 | a fragment's identification | in |
//! | 52 | 1 | network protocol: 4, 6, or 0 for neither, and then the places above are 0 | in |
//! | 53 | 1 | transport protocol | in |
//! | 54 | 1 | 0 a whole datagram, 1 its first fragment, 2 a later one | in |
//! | 55 | 1 | transport checksum: 0 unknown, 1 known to be right, 2 left to hardware | in |
//! | 56 | 1 | `sf_stage` | in |
//! | 57 | 1 | `sf_coalesce`, 0 or 1; 0 at first | out |
//! | 58 | 1 | 1 to drop the packet; 0 at first | out |
//! | 59 | 1 | 1 if the frame's octets were changed; 0 at first | out |
//! | 60 | 4 | the role of the element that the packet came to | in |
//!
//! # What is taken of an answer
//!
//! Nothing that the module wrote into a place marked `in` is read again: offsets are the switch's own. Of a
//! frame that is marked as changed, the octets are taken that the element was [declared](Writes) to write:
//!
//! | declared | taken |
//! |---|---|
//! | [`Writes::Payload`] | the payload's; the checksum follows |
//! | [`Writes::Ends`] | IP addresses, and ports of TCP, UDP, UDP-Lite and SCTP; checksums follow |
//! | [`Writes::Anything`] | all that was there; checksums are the module's business |
//! | [`Writes::Nothing`] | none |
//!
//! A number where 0 or 1 was to be, a change of what must not be changed, and one that cannot be made right (ports of an
//! SCTP fragment) costs the packet: [`Answer`] says so, and the caller counts.
//!
//! Invariants: no octet of a frame changes but those that are declared, and checksums over them; nothing here
//! panics on what a module wrote. Checked by: the tests below, `fuzz::sandbox`.

#[cfg(feature = "wasm")]
pub mod wasm;

use crate::conntrack::{Role, Tuple};
use crate::element::{Fate, Passing, Writes};
use crate::nat;
use crate::packet::{Checksum, Fragment, Network, Packet};
use std::ops::Range;
use wire::IpProtocol;
use wire::checksum::{self, Delta};

/// The version of the layout.
pub const VERSION: i32 = 1;
/// Packets that are handed over together.
pub const BURST: usize = 32;
/// Octets of a descriptor.
pub const DESCRIPTOR: usize = 64;

/// Where the packets of a burst lie in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    frame_octets: usize,
}

impl Layout {
    /// A buffer for so many octets of each frame, rounded up to whole lines of 64; 64 MiB at most.
    pub fn new(frame_octets: usize) -> Layout {
        Layout { frame_octets: frame_octets.clamp(1, 1 << 21).next_multiple_of(64) }
    }

    /// The buffer's size.
    pub fn octets(self) -> usize {
        BURST * (DESCRIPTOR + self.frame_octets)
    }

    /// Where the descriptor of packet `n` lies.
    fn descriptor(n: usize) -> Range<usize> {
        n * DESCRIPTOR..(n + 1) * DESCRIPTOR
    }

    /// Where so many octets of the frame of packet `n` lie.
    fn frame(self, n: usize, octets: usize) -> Range<usize> {
        let from = BURST * DESCRIPTOR + n * self.frame_octets;
        from..from + octets
    }

    /// Writes packet `n` of a burst into the buffer, for an element with this role.
    ///
    /// # Panics
    /// If `n` is not below [`BURST`], or the buffer is shorter than [`octets`](Self::octets).
    pub fn write(self, n: usize, role: u32, passing: &Passing<'_>, buffer: &mut [u8]) {
        let Passing { packet, metadata, .. } = passing;
        let (at, len) = (&packet.at, packet.frame.len());
        let there = len.min(self.frame_octets);
        let frame = self.frame(n, there);
        let known = at.network != Network::Other;
        let payload = packet.payload().unwrap_or(0..0);
        let (fragment, ident) = match at.fragment {
            Fragment::Whole => (0, 0),
            Fragment::First { ident } => (1, ident),
            Fragment::Later { ident } => (2, ident),
        };
        let place = |place: u32| if known { place } else { 0 };
        let words = [
            frame.start as u32,
            len as u32,
            there as u32,
            place(at.l3),
            place(at.l4),
            place(at.end),
            payload.start as u32,
            payload.end as u32,
        ];
        let descriptor = &mut buffer[Layout::descriptor(n)];
        let (head, rest) = descriptor.split_at_mut(32);
        for (to, word) in head.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        rest[..8].copy_from_slice(&metadata.register.to_le_bytes());
        rest[8..12].copy_from_slice(&metadata.argument.to_le_bytes());
        rest[12..16].copy_from_slice(&metadata.action.to_le_bytes());
        rest[16..20].copy_from_slice(&ident.to_le_bytes());
        let network = match at.network {
            Network::Other => 0,
            Network::V4 => 4,
            Network::V6 => 6,
        };
        let checksum = match packet.checksum {
            Checksum::Unknown => 0,
            Checksum::Good => 1,
            Checksum::Partial => 2,
        };
        let protocol = if known { at.protocol.0 } else { 0 };
        let octets = [network, protocol, fragment, checksum, metadata.stage, 0, 0, 0];
        rest[20..28].copy_from_slice(&octets);
        rest[28..].copy_from_slice(&role.to_le_bytes());
        buffer[frame].copy_from_slice(&packet.frame[..there]);
    }

    /// Takes the answer for packet `n`, as far as it may be taken. Unless it is [`Answer::Taken`], the packet is
    /// to be dropped, and as it was.
    ///
    /// # Panics
    /// As [`write`](Self::write).
    pub fn read(
        self,
        n: usize,
        writes: Writes,
        buffer: &[u8],
        passing: &mut Passing<'_>,
    ) -> Answer {
        let descriptor = &buffer[Layout::descriptor(n)];
        let said = &descriptor[57..60];
        if said.iter().any(|octet| *octet > 1) {
            return Answer::Wrong;
        }
        let [coalesce, drop, edited] = [said[0] == 1, said[1] == 1, said[2] == 1];
        if edited && !drop {
            let there = passing.packet.frame.len().min(self.frame_octets);
            match take(writes, &buffer[self.frame(n, there)], &mut passing.packet) {
                Answer::Taken => {}
                other => return other,
            }
        }
        if let Some(register) = descriptor[32..].first_chunk() {
            passing.metadata.register = u64::from_le_bytes(*register);
        }
        passing.metadata.coalesce = coalesce;
        passing.fate = if drop { Fate::Drop } else { Fate::Continue };
        Answer::Taken
    }
}

/// What became of a module's answer for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The packet has it.
    Taken,
    /// It says what cannot be said.
    Wrong,
    /// The change cannot be made with checksums right.
    Impossible,
}

/// Takes what may be taken of a changed frame, of which this is the part that was handed over.
fn take(writes: Writes, new: &[u8], packet: &mut Packet<'_>) -> Answer {
    match writes {
        Writes::Nothing => Answer::Wrong,
        Writes::Payload => take_payload(new, packet),
        Writes::Ends => take_ends(new, packet),
        Writes::Anything => {
            packet.frame[..new.len()].copy_from_slice(new);
            Answer::Taken
        }
    }
}

fn take_payload(new: &[u8], packet: &mut Packet<'_>) -> Answer {
    let Some(payload) = packet.payload() else { return Answer::Wrong };
    let payload = payload.start..payload.end.min(new.len());
    let Some(new) = new.get(payload.clone()) else { return Answer::Wrong };
    let udp = packet.at.protocol == IpProtocol::UDP;
    let field = packet.at.l4 as usize + if udp { 6 } else { 16 };
    let Some(old) = packet.frame.get(payload.clone()) else { return Answer::Wrong };
    // What begins behind a header begins at an even distance from it, so its sum is a part of the whole.
    let (before, after) = (checksum::sum(old), checksum::sum(new));
    packet.frame[payload].copy_from_slice(new);
    let unused = udp && packet.frame[field..field + 2] == [0, 0];
    if packet.checksum != Checksum::Partial && !unused {
        let old = u16::from_be_bytes([packet.frame[field], packet.frame[field + 1]]);
        let mut delta = Delta::new();
        delta.u16(before, after);
        let new = if udp { delta.apply_udp(old) } else { delta.apply(old) };
        packet.frame[field..field + 2].copy_from_slice(&new.to_be_bytes());
    }
    Answer::Taken
}

fn take_ends(new: &[u8], packet: &mut Packet<'_>) -> Answer {
    let (Some(from), Some(to)) = (ends(packet.frame, packet), ends(new, packet)) else {
        return Answer::Wrong;
    };
    match nat::rewrite(packet, &from, &to) {
        Ok(()) => Answer::Taken,
        Err(_) => Answer::Impossible,
    }
}

/// Addresses and ports of a packet, where it has them, read from `frame`.
fn ends(frame: &[u8], packet: &Packet<'_>) -> Option<Tuple> {
    let at = &packet.at;
    let l3 = at.l3 as usize;
    let [src, dst] = match at.network {
        Network::V4 => {
            let [src, dst] = frame.get(l3 + 12..l3 + 20)?.as_chunks::<4>().0 else { return None };
            [src, dst].map(|octets| u128::from(u32::from_be_bytes(*octets)))
        }
        Network::V6 => {
            let [src, dst] = frame.get(l3 + 8..l3 + 40)?.as_chunks::<16>().0 else { return None };
            [src, dst].map(|octets| u128::from_be_bytes(*octets))
        }
        Network::Other => return None,
    };
    let bare = Tuple {
        src,
        dst,
        src_port: 0,
        dst_port: 0,
        zone: 0,
        protocol: at.protocol,
        v6: at.network == Network::V6,
        role: Role::Any,
    };
    if !bare.has_ports() || matches!(at.fragment, Fragment::Later { .. }) {
        return Some(bare);
    }
    let l4 = at.l4 as usize;
    let [src, dst] = frame.get(l4..l4 + 4)?.as_chunks::<2>().0 else { return None };
    let [src_port, dst_port] = [src, dst].map(|octets| u16::from_be_bytes(*octets));
    Some(Tuple { src_port, dst_port, ..bare })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::craft::{Frame, checksums_are_right};
    use crate::packet::Packet;
    use std::net::IpAddr;
    use wire::tcp::Flags;

    const A: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1000);
    const B: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 80);

    /// Writes a frame, lets `module` change frame and descriptor, and takes the answer.
    fn answer(
        frame: &mut [u8],
        checksum: Checksum,
        writes: Writes,
        module: impl FnOnce(&mut [u8], &mut [u8]),
    ) -> (Answer, Passing<'_>) {
        let layout = Layout::new(128);
        let mut buffer = vec![0xee; layout.octets()];
        let mut passing = Passing::new(Packet { checksum, ..Packet::of(frame) });
        passing.metadata.register = 5;
        layout.write(3, 9, &passing, &mut buffer);
        let there = passing.packet.frame.len().min(128);
        let (descriptors, frames) = buffer.split_at_mut(BURST * DESCRIPTOR);
        module(&mut descriptors[192..256], &mut frames[3 * 128..3 * 128 + there]);
        let said = layout.read(3, writes, &buffer, &mut passing);
        (said, passing)
    }

    #[test]
    fn descriptors_say_where_things_lie() {
        let mut frame = Frame::tcp(A, B, Flags::ACK, (1, 1), 200).bytes();
        let len = frame.len() as u32;
        answer(&mut frame, Checksum::Good, Writes::Nothing, |descriptor, there| {
            let words: Vec<u32> =
                descriptor.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
            assert_eq!(words[..8], [2048 + 3 * 128, len, 128, 14, 34, len, 54, len]);
            assert_eq!(words[8..13], [5, 0, 0, 0, 0]);
            assert_eq!(descriptor[52..], [4, 6, 0, 1, 0, 0, 0, 0, 9, 0, 0, 0]);
            assert_eq!(there[34..36], 1000_u16.to_be_bytes());
        });
        answer(&mut [9; 20], Checksum::Unknown, Writes::Nothing, |descriptor, _| {
            assert_eq!(descriptor[12..32], [0; 20]);
            assert_eq!(descriptor[52..56], [0; 4]);
        });
    }

    #[test]
    fn metadata_and_fate_are_taken_and_nonsense_is_not() {
        let mut frame = Frame::udp(A, B, 20).bytes();
        let (said, passing) = answer(&mut frame, Checksum::Good, Writes::Nothing, |d, frame| {
            d[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
            (d[57], d[58]) = (1, 1);
            // Not marked as changed.
            frame.fill(0);
        });
        let metadata = passing.metadata;
        assert_eq!((said, passing.fate, metadata.register), (Answer::Taken, Fate::Drop, u64::MAX));
        assert!(metadata.coalesce);
        assert_eq!(frame, Frame::udp(A, B, 20).bytes());
        for place in 57..60 {
            let (said, passing) =
                answer(&mut frame, Checksum::Good, Writes::Anything, |d, frame| {
                    d[32] = 77;
                    d[place] = 2;
                    frame.fill(0);
                });
            assert_eq!((said, passing.metadata.register), (Answer::Wrong, 5));
            assert_eq!(frame, Frame::udp(A, B, 20).bytes());
        }
        let (said, _) = answer(&mut frame, Checksum::Good, Writes::Nothing, |d, _| d[59] = 1);
        assert_eq!(said, Answer::Wrong);
    }

    #[test]
    fn of_a_payload_service_only_the_payload_is_taken() {
        for (checksum, broken) in [
            (Checksum::Unknown, false),
            (Checksum::Good, false),
            (Checksum::Unknown, true),
            (Checksum::Partial, false),
        ] {
            for len in [1, 2, 19, 20, 300] {
                for udp in [true, false] {
                    let mut frame = match udp {
                        true => Frame::udp(A, B, len).bytes(),
                        false => Frame::tcp(A, B, Flags::ACK, (1, 1), len).bytes(),
                    };
                    let field = if udp { 40 } else { 50 };
                    frame[field] ^= u8::from(broken);
                    let before = frame.clone();
                    let (said, _) = answer(&mut frame, checksum, Writes::Payload, |d, frame| {
                        frame.fill(0x5a);
                        d[59] = 1;
                    });
                    assert_eq!(said, Answer::Taken);
                    let payload = if udp { 42 } else { 54 };
                    let to = (payload + len).min(128);
                    assert!(frame[payload..to].iter().all(|octet| *octet == 0x5a));
                    assert_eq!(frame[..field], before[..field]);
                    assert_eq!(frame[field + 2..payload], before[field + 2..payload]);
                    assert_eq!(frame[to..], before[to..]);
                    match checksum {
                        Checksum::Partial => assert_eq!(frame[field], before[field]),
                        _ => assert_eq!(checksums_are_right(&frame), !broken, "{udp} {len}"),
                    }
                }
            }
        }
    }

    #[test]
    fn of_a_translating_service_only_the_ends_are_taken() {
        for frame in [
            Frame::udp(A, B, 30).bytes(),
            Frame::tcp(A, B, Flags::ACK, (1, 1), 30).bytes(),
            Frame::new(A.0, B.0, IpProtocol(89), vec![1; 30]).bytes(),
        ] {
            let mut after = frame.clone();
            let (said, _) = answer(&mut after, Checksum::Good, Writes::Ends, |d, frame| {
                frame.fill(9);
                d[59] = 1;
            });
            assert_eq!(said, Answer::Taken);
            assert_eq!(after[26..34], [9; 8]);
            assert!(checksums_are_right(&after));
            let ports = frame[23] != 89;
            assert_eq!(after[34..38] == [9; 4], ports);
            let rest = |frame: &[u8]| (frame[..24].to_vec(), frame[54..].to_vec());
            assert_eq!(rest(&after), rest(&frame));
        }
        let mut other = vec![7; 60];
        let (said, _) = answer(&mut other, Checksum::Good, Writes::Ends, |d, _| d[59] = 1);
        assert_eq!(said, Answer::Wrong, "no IP packet has no ends");
        let mut sctp = Frame::new(A.0, B.0, IpProtocol::SCTP, vec![0; 40]);
        sctp.fragment = (7, 0x2000);
        let (mut sctp, before) = (sctp.bytes(), sctp.bytes());
        let (said, _) = answer(&mut sctp, Checksum::Good, Writes::Ends, |d, frame| {
            frame[34] ^= 1;
            d[59] = 1;
        });
        assert_eq!((said, sctp), (Answer::Impossible, before));
    }

    #[test]
    fn with_anything_all_that_was_there_is_taken() {
        let mut frame = vec![1; 200];
        let (said, _) = answer(&mut frame, Checksum::Good, Writes::Anything, |d, frame| {
            frame.fill(2);
            d[59] = 1;
        });
        assert_eq!(said, Answer::Taken);
        assert!(frame[..128] == [2; 128] && frame[128..] == [1; 72]);
    }
}
