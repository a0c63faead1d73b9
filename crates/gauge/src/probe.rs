//! Probes: the frames that a measurement sends, and knows again.
//!
//! A probe is an Ethernet frame with an IPv4 UDP packet of the addresses that RFC 2544 (C.2.2) sets
//! aside for tests, 198.18.0.0/15. The destination address is that of the *flow*, so that a rule can
//! match one flow. The payload holds a mark, the stream (one measurement run), the sequence number
//! and the time at which the probe was due; it fits the shortest Ethernet frame to the byte. The
//! UDP checksum is 0, none (RFC 768), so that a probe is rewritten by two stores.
//!
//! Lengths here are without the frame check sequence: 60 bytes are RFC 2544's 64.

/// The shortest frame, in bytes, without the frame check sequence.
pub const LEN_MIN: usize = 60;
/// The longest, likewise.
pub const LEN_MAX: usize = 1514;
/// Flows that there are addresses for.
pub const FLOWS_MAX: u32 = 1 << 16;

const MARK: [u8; 4] = *b"mrg1";
const PAYLOAD: usize = 14 + 20 + 8;

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
    bytes[34..36].copy_from_slice(&49152u16.to_be_bytes());
    bytes[36..38].copy_from_slice(&9u16.to_be_bytes());
    bytes[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    bytes[PAYLOAD..PAYLOAD + 4].copy_from_slice(&MARK);
    rewrite(&mut bytes, flow, probe);
    bytes
}

/// Makes another probe of the frame of one, of the same length.
pub fn rewrite(bytes: &mut [u8], flow: u32, probe: Probe) {
    bytes[30..34].copy_from_slice(&address(flow).to_be_bytes());
    bytes[24..26].fill(0);
    let sum: u32 =
        bytes[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    // Ten words: their carries fit one fold and its own carry.
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes[46..48].copy_from_slice(&probe.stream.to_be_bytes());
    bytes[48..52].copy_from_slice(&probe.seq.to_be_bytes());
    bytes[52..60].copy_from_slice(&probe.due.to_be_bytes());
}

/// Reads a probe; none if the frame is none of ours.
pub fn parse(bytes: &[u8]) -> Option<Probe> {
    let payload = bytes.get(PAYLOAD..LEN_MIN)?;
    if bytes[12..14] != [0x08, 0x00] || bytes[14] != 0x45 || payload[..4] != MARK {
        return None;
    }
    let (stream, rest) = payload[4..].split_first_chunk()?;
    let (seq, rest) = rest.split_first_chunk()?;
    let due = rest.first_chunk()?;
    Some(Probe {
        stream: u16::from_be_bytes(*stream),
        seq: u32::from_be_bytes(*seq),
        due: u64::from_be_bytes(*due),
    })
}

/// Any captured frame: what is read as a probe can be written again. A fuzz target's body.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    if let Some(found) = parse(data) {
        assert_eq!(parse(&frame(data.len(), found.seq, found)), Some(found));
    }
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
    fn foreign_and_cut_frames_are_none_of_ours() {
        let bytes = frame(60, 0, PROBE);
        for len in 0..60 {
            assert_eq!(parse(&bytes[..len]), None);
        }
        for at in [12, 14, 42, 45] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(parse(&other), None);
        }
    }
}
