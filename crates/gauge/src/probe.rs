//! Probes: the frames that a measurement sends, and knows again.
//!
//! A probe is an Ethernet frame with an IPv4 UDP packet of the addresses that RFC 2544 (C.2.2) sets
//! aside for tests, 198.18.0.0/15. The destination address is that of the *flow*, so that a rule can
//! match one flow. The payload holds the process's number ([`nonce`]), the stream (one measurement run), the
//! sequence number, the time at which the probe was due, and a check over these (a CRC of 16 bits); it fits the
//! shortest Ethernet frame to the byte. The UDP checksum is 0, none (RFC 768).
//!
//! So a probe of another process, or of a capture that is played back, is told apart, and one whose bits were
//! flipped on its way is not taken for another probe: [`read`] says which it is, and undoes one flipped bit.
//!
//! A frame of any other kind, from a description or a capture file, becomes a probe by the same 18
//! bytes written over its end ([`stamp`]). A captured frame is searched for the mark where a switch that
//! pushed or popped a tag would have left it, so that packet modification can be measured.
//!
//! Lengths here are without the frame check sequence: 60 bytes are RFC 2544's 64.

/// The shortest frame, in bytes, without the frame check sequence.
pub const LEN_MIN: usize = 60;
/// The longest, likewise.
pub const LEN_MAX: usize = 1514;
/// Flows that there are addresses and ports for.
pub const FLOWS_MAX: u32 = 1 << 20;
/// Flows of which each has an address of its own; a rule by [`address`] tells no more apart.
pub const ADDRESSES_MAX: u32 = 1 << 16;

/// Nonce, stream, sequence number, due time, check.
const MARK_LEN: usize = 4 + 2 + 4 + 6 + 2;
/// What the check is over.
const CHECKED: usize = MARK_LEN - 2;
/// How probes of versions before began.
const OLD_MARK: [u8; 4] = *b"mrg1";
/// The bits of a due time that a probe has room for: three days.
const DUE_BITS: u32 = 48;
/// Where the payload of a probe of our own form begins.
pub(crate) const PAYLOAD: usize = 14 + 20 + 8;
/// Bytes that a switch may put before a payload or take away: a VLAN tag or an MPLS entry.
const MOVED: [usize; 4] = [PAYLOAD, PAYLOAD + 4, PAYLOAD + 8, PAYLOAD - 4];

/// What a probe says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The run that it belongs to.
    pub stream: u16,
    /// Its number in the run, from 0.
    pub seq: u32,
    /// When it was due to be sent, by [`clock`](crate::clock), in nanoseconds.
    pub due: u64,
}

/// The IPv4 destination address of a flow.
pub fn address(flow: u32) -> u32 {
    0xc612_0000 | (flow & 0xffff)
}

/// The UDP source port of a flow.
pub fn source_port(flow: u32) -> u16 {
    SOURCE_PORT + (flow >> 16 & 0xff) as u16
}

/// That of the first 65,536 flows.
pub const SOURCE_PORT: u16 = 49152;

/// Makes a probe's frame of `len` bytes, from [`LEN_MIN`] to [`LEN_MAX`], for this flow.
pub fn frame(len: usize, flow: u32, probe: Probe) -> Vec<u8> {
    let len = len.clamp(LEN_MIN, LEN_MAX);
    let mut bytes = vec![0; len];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0xfe, 2]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0xfe, 1]);
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    bytes[14] = 0x45;
    bytes[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    bytes[22] = 64;
    bytes[23] = 17;
    bytes[26..30].copy_from_slice(&[198, 19, 255, 254]);
    // The discard service (RFC 863) is who would get it.
    bytes[34..36].copy_from_slice(&SOURCE_PORT.to_be_bytes());
    bytes[36..38].copy_from_slice(&9u16.to_be_bytes());
    bytes[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    rewrite(&mut bytes, flow, probe);
    bytes
}

/// Makes another probe of the frame of one, of the same length.
pub fn rewrite(bytes: &mut [u8], flow: u32, probe: Probe) {
    bytes[30..34].copy_from_slice(&address(flow).to_be_bytes());
    bytes[34..36].copy_from_slice(&source_port(flow).to_be_bytes());
    checksum(&mut bytes[14..34]);
    write(&mut bytes[PAYLOAD..PAYLOAD + MARK_LEN], probe);
}

/// Makes another probe of the same flow of the frame of one.
#[inline]
pub fn renumber(bytes: &mut [u8], probe: Probe) {
    write(&mut bytes[PAYLOAD..PAYLOAD + MARK_LEN], probe);
}

/// Gives a frame of [`frame`]'s other IPv4 addresses.
pub fn readdress(bytes: &mut [u8], source: u32, destination: u32) {
    bytes[26..30].copy_from_slice(&source.to_be_bytes());
    bytes[30..34].copy_from_slice(&destination.to_be_bytes());
    checksum(&mut bytes[14..34]);
}

/// Sets the checksum of an IPv4 header without options.
pub(crate) fn checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum: u32 =
        header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    // Ten words: their carries fit one fold and its own carry.
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// What tells the probes of this process from all others: a number that it made up when it began.
pub fn nonce() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    static NONCE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *NONCE.get_or_init(|| {
        let mut hasher = std::hash::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.finish() as u32
    })
}

/// For each place and value of a byte, what it adds to the check (CRC-16, polynomial 0x1021): the check is linear, so
/// one flipped bit always changes it by the same.
const PARTS: [[u16; 256]; CHECKED] = {
    let mut parts = [[0; 256]; CHECKED];
    let mut value = 0;
    while value < 256 {
        let (mut crc, mut bit) = ((value as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        parts[CHECKED - 1][value] = crc;
        value += 1;
    }
    let mut at = CHECKED - 1;
    while at > 0 {
        let mut value = 0;
        while value < 256 {
            let after = parts[at][value];
            parts[at - 1][value] = after << 8 ^ parts[CHECKED - 1][(after >> 8) as usize];
            value += 1;
        }
        at -= 1;
    }
    parts
};

fn check(bytes: &[u8]) -> u16 {
    // Not 0, so that zeros are no probe.
    PARTS.iter().zip(bytes).fold(0x6d72, |sum, (part, byte)| sum ^ part[usize::from(*byte)])
}

fn write(bytes: &mut [u8], probe: Probe) {
    write_by(bytes, nonce(), probe);
}

fn write_by(bytes: &mut [u8], nonce: u32, probe: Probe) {
    bytes[..4].copy_from_slice(&nonce.to_be_bytes());
    bytes[4..6].copy_from_slice(&probe.stream.to_be_bytes());
    bytes[6..10].copy_from_slice(&probe.seq.to_be_bytes());
    bytes[10..16].copy_from_slice(&probe.due.to_be_bytes()[2..]);
    let check = check(&bytes[..CHECKED]);
    bytes[16..18].copy_from_slice(&check.to_be_bytes());
}

/// Makes a frame of [`frame`]'s one of another process; for tests.
#[doc(hidden)]
pub fn estrange(bytes: &mut [u8], probe: Probe) {
    write_by(&mut bytes[PAYLOAD..PAYLOAD + MARK_LEN], !nonce(), probe);
}

/// Writes a probe over the last 18 bytes of any frame of at least [`LEN_MIN`]; a shorter one is left
/// alone. [`uncheck`] the frame before, once.
pub fn stamp(bytes: &mut [u8], probe: Probe) {
    let Some(at) = bytes.len().checked_sub(MARK_LEN).filter(|_| bytes.len() >= LEN_MIN) else {
        return;
    };
    write(&mut bytes[at..], probe);
}

/// Makes a frame fit to be stamped: as long as the shortest one at least, and, if it is a UDP packet
/// over IPv4, without a checksum (RFC 768), as its payload will change. Others keep theirs, which will be
/// wrong; switches do not look.
pub fn uncheck(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().max(LEN_MIN), 0);
    let mut at = 12;
    while matches!(bytes.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8])) {
        at += 4;
    }
    let is_udp = bytes.get(at..at + 3) == Some(&[0x08, 0x00, 0x45][..])
        && bytes.get(at + 2 + 9) == Some(&17)
        // No later fragment: it has no UDP header.
        && bytes.get(at + 2 + 6..at + 2 + 8).is_some_and(|b| b[0] & 0x1f == 0 && b[1] == 0);
    if let Some(sum) = bytes.get_mut(at + 28..at + 30).filter(|_| is_udp) {
        sum.fill(0);
    }
}

/// What a captured frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A probe of this process.
    Ours(Probe),
    /// One whose mark had one bit flipped; undone.
    Damaged(Probe),
    /// A probe of another process: another gauge, or a capture that is played back.
    Others,
}

/// Reads a probe of this process; none if the frame is none, or damaged.
pub fn parse(bytes: &[u8]) -> Option<Probe> {
    match read(bytes) {
        Some(Reading::Ours(probe)) => Some(probe),
        _ => None,
    }
}

/// Reads a probe; none if the frame is none, or can no longer be read.
#[inline]
pub fn read(bytes: &[u8]) -> Option<Reading> {
    read_by(bytes, nonce())
}

fn read_by(bytes: &[u8], nonce: u32) -> Option<Reading> {
    if bytes.len() < LEN_MIN - 4 {
        return None;
    }
    let end = bytes.len() - MARK_LEN;
    let marks = || {
        let at = MOVED.into_iter().chain([end]);
        at.filter_map(|at| bytes.get(at..)?.first_chunk::<MARK_LEN>())
    };
    let ours = |mark: &[u8; MARK_LEN]| mark[..4] == nonce.to_be_bytes();
    let is_whole = |mark: &[u8; MARK_LEN]| syndrome(mark) == 0;
    if let Some(mark) = marks().find(|mark| ours(mark) && is_whole(mark)) {
        return Some(Reading::Ours(probe_of(mark)));
    }
    if let Some(mark) = marks().filter_map(mended).find(ours) {
        return Some(Reading::Damaged(probe_of(&mark)));
    }
    let others = |mark: &[u8; MARK_LEN]| is_whole(mark) || mark[..4] == OLD_MARK;
    marks().any(others).then_some(Reading::Others)
}

fn probe_of(mark: &[u8; MARK_LEN]) -> Probe {
    let number =
        |at: std::ops::Range<usize>| mark[at].iter().fold(0, |n, b| n << 8 | u64::from(*b));
    Probe { stream: number(4..6) as u16, seq: number(6..10) as u32, due: number(10..16) }
}

/// What the check should be, against what it is; 0 if nothing is wrong.
fn syndrome(mark: &[u8; MARK_LEN]) -> u16 {
    check(&mark[..CHECKED]) ^ u16::from_be_bytes([mark[16], mark[17]])
}

/// The mark as it was before one bit was flipped, if that explains it.
fn mended(mark: &[u8; MARK_LEN]) -> Option<[u8; MARK_LEN]> {
    let wrong = syndrome(mark);
    let bits = (0..MARK_LEN * 8).map(|bit| (bit / 8, 1u8 << (bit % 8)));
    let by = |(at, bit): (usize, u8)| match at {
        16 => u16::from(bit) << 8,
        17 => u16::from(bit),
        _ => PARTS[at][usize::from(bit)],
    };
    let (at, bit) = bits.clone().find(|place| wrong != 0 && by(*place) == wrong)?;
    let mut whole = *mark;
    whole[at] ^= bit;
    Some(whole)
}

/// A due time as a probe can say it.
pub fn due_told(due: u64) -> u64 {
    due & ((1 << DUE_BITS) - 1)
}

/// Any captured frame: what is read as a probe can be written again. A fuzz target's body.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    // A number that a fuzzer can find, and ours.
    if let Some(Reading::Ours(found) | Reading::Damaged(found)) = read_by(data, 0x0102_0304) {
        assert_eq!(found.due, due_told(found.due));
        assert_eq!(parse(&frame(data.len(), found.seq, found)), Some(found));
    }
    let _ = read(data);
    let (mut any, probe) = (data.to_vec(), Probe { stream: 1, seq: 2, due: 3 });
    uncheck(&mut any);
    stamp(&mut any, probe);
    assert!(matches!(read(&any), Some(Reading::Ours(_))));
    // One bit of the mark is undone, whichever it is.
    let bits = MARK_LEN * 8;
    let bit = data.first().map_or(0, |b| usize::from(*b) % bits);
    let at = any.len() - MARK_LEN + bit / 8;
    any[at] ^= 1 << (bit % 8);
    assert!(read(&any).is_some());
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::prng::Prng;

    const PROBE: Probe = Probe { stream: 7, seq: 0x0102_0304, due: (1 << 48) - 5 };

    #[test]
    fn says_what_was_written_at_every_length() {
        for len in [0, 60, 61, 128, 1514, 9000] {
            let bytes = frame(len, 70_000, PROBE);
            assert_eq!(bytes.len(), len.clamp(LEN_MIN, LEN_MAX));
            assert_eq!(parse(&bytes), Some(PROBE));
            // Summed with its checksum, a good header gives all ones.
            let sum: u32 =
                bytes[14..34].chunks(2).map(|p| u32::from(u16::from_be_bytes([p[0], p[1]]))).sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    }

    #[test]
    fn any_bytes_can_be_read() {
        let mut prng = Prng::new(1);
        for _ in 0..5000 {
            let mut bytes = frame(60 + prng.below(60) as usize, 0, PROBE);
            for _ in 0..prng.below(4) {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] = prng.next_u64() as u8;
            }
            bytes.truncate(prng.below(120) as usize);
            fuzz(&bytes);
        }
    }

    #[test]
    fn is_found_where_a_switch_leaves_it() {
        let plain = frame(60, 3, PROBE);
        let tagged = [&plain[..12], &[0x81, 0, 0, 5], &plain[12..]].concat();
        let twice = [&tagged[..12], &[0x88, 0xa8, 0, 6], &tagged[12..]].concat();
        for bytes in [tagged, twice] {
            assert_eq!(parse(&bytes), Some(PROBE));
        }
        // Any frame, of any length, with its end written over.
        for len in [0, 14, 59, 60, 77, 1514] {
            let mut bytes = vec![0xa5; len];
            uncheck(&mut bytes);
            stamp(&mut bytes, PROBE);
            assert_eq!((parse(&bytes), bytes.len()), (Some(PROBE), len.max(60)));
        }
        let mut udp = plain.clone();
        udp[40..42].fill(9);
        uncheck(&mut udp);
        assert_eq!(udp, plain);
        udp[23] = 6;
        udp[40] = 9;
        let tcp = udp.clone();
        uncheck(&mut udp);
        assert_eq!(udp, tcp);
    }

    #[test]
    fn foreign_and_cut_frames_are_none_of_ours() {
        let bytes = frame(60, 0, PROBE);
        for len in 0..60 {
            assert_eq!(parse(&bytes[..len]), None);
        }
        // One flipped bit of the mark is undone; two are not.
        for bit in 42 * 8..60 * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&other), Some(Reading::Damaged(PROBE)), "{bit}");
            assert_eq!(parse(&other), None);
            other[42 + (bit / 8 - 42 + 5) % 18] ^= 0x10;
            assert!(!matches!(read(&other), Some(Reading::Ours(_) | Reading::Damaged(_))), "{bit}");
        }
        assert_eq!(read(&[0; 60]), None);
    }

    #[test]
    fn probes_of_other_processes_are_told_apart() {
        let mut bytes = frame(60, 0, PROBE);
        estrange(&mut bytes, PROBE);
        assert_eq!((read(&bytes), parse(&bytes)), (Some(Reading::Others), None));
        bytes[42..46].copy_from_slice(&OLD_MARK);
        bytes[50] ^= 0xff;
        assert_eq!(read(&bytes), Some(Reading::Others));
    }
}
