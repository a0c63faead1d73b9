//! Probes: the frames that a measurement sends, and knows again.
//!
//! A probe is an Ethernet frame with an IPv4 UDP packet of the addresses that RFC 2544 (C.2.2) sets
//! aside for tests, 198.18.0.0/15. The destination address is that of the *flow*, so that a rule can
//! match one flow. The payload holds a mark, the stream (one measurement run), the sequence number
//! and the time at which the probe was due; it fits the shortest Ethernet frame to the byte. The
//! UDP checksum is 0, none (RFC 768), so that a probe is rewritten by two stores.
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

const MARK: [u8; 4] = *b"mrg1";
const MARK_LEN: usize = 4 + 2 + 4 + 8;
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
    bytes[PAYLOAD..PAYLOAD + 4].copy_from_slice(&MARK);
    rewrite(&mut bytes, flow, probe);
    bytes
}

/// Makes another probe of the frame of one, of the same length.
pub fn rewrite(bytes: &mut [u8], flow: u32, probe: Probe) {
    bytes[30..34].copy_from_slice(&address(flow).to_be_bytes());
    bytes[34..36].copy_from_slice(&source_port(flow).to_be_bytes());
    checksum(&mut bytes[14..34]);
    write(&mut bytes[PAYLOAD + 4..PAYLOAD + MARK_LEN], probe);
}

/// Makes another probe of the same flow of the frame of one.
#[inline]
pub fn renumber(bytes: &mut [u8], probe: Probe) {
    write(&mut bytes[PAYLOAD + 4..PAYLOAD + MARK_LEN], probe);
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

fn write(bytes: &mut [u8], probe: Probe) {
    bytes[..2].copy_from_slice(&probe.stream.to_be_bytes());
    bytes[2..6].copy_from_slice(&probe.seq.to_be_bytes());
    bytes[6..14].copy_from_slice(&probe.due.to_be_bytes());
}

/// Writes a probe over the last 18 bytes of any frame of at least [`LEN_MIN`]; a shorter one is left
/// alone. [`uncheck`] the frame before, once.
pub fn stamp(bytes: &mut [u8], probe: Probe) {
    let Some(at) = bytes.len().checked_sub(MARK_LEN).filter(|_| bytes.len() >= LEN_MIN) else {
        return;
    };
    bytes[at..at + 4].copy_from_slice(&MARK);
    write(&mut bytes[at + 4..], probe);
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

/// Reads a probe; none if the frame is none of ours.
pub fn parse(bytes: &[u8]) -> Option<Probe> {
    if bytes.len() < LEN_MIN - 4 {
        return None;
    }
    let end = bytes.len() - MARK_LEN;
    MOVED.into_iter().chain([end]).find_map(|at| {
        let payload = bytes.get(at..at + MARK_LEN)?;
        let (stream, rest) = payload.strip_prefix(&MARK)?.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let due = rest.first_chunk()?;
        Some(Probe {
            stream: u16::from_be_bytes(*stream),
            seq: u32::from_be_bytes(*seq),
            due: u64::from_be_bytes(*due),
        })
    })
}

/// Any captured frame: what is read as a probe can be written again. A fuzz target's body.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    if let Some(found) = parse(data) {
        assert_eq!(parse(&frame(data.len(), found.seq, found)), Some(found));
    }
    let (mut any, probe) = (data.to_vec(), Probe { stream: 1, seq: 2, due: 3 });
    uncheck(&mut any);
    stamp(&mut any, probe);
    // It may hold an older mark where a probe would have it.
    assert!(parse(&any).is_some());
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::prng::Prng;

    const PROBE: Probe = Probe { stream: 7, seq: 0x0102_0304, due: u64::MAX - 5 };

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
        for at in [42, 45] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(parse(&other), None);
        }
    }
}
