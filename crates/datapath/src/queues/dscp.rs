//! The DSCP that a queue gives to IP packets (`Queue.dscp` of Open vSwitch's database).
//!
//! Behind at most two tags. What is no IP packet, or is cut off within its header, stays as it is. ECN stays. A checksum
//! of IPv4's header is updated, not computed anew: one that was wrong stays wrong.

use wire::checksum::update_u16;

const TAGS_MAX: usize = 2;

/// Gives a frame's IP packet a DSCP.
pub(super) fn mark(frame: &mut [u8], dscp: u8) {
    let mut at = 12;
    for _ in 0..TAGS_MAX {
        match word(frame, at) {
            Some(0x8100 | 0x88a8 | 0x9100) => at += 4,
            _ => break,
        }
    }
    let ip = at + 2;
    match (word(frame, at), word(frame, ip)) {
        (Some(0x0800), Some(old)) if old >> 12 == 4 => {
            let new = old & 0xff03 | u16::from(dscp) << 2;
            let Some(checksum) = word(frame, ip + 10) else { return };
            put(frame, ip, new);
            put(frame, ip + 10, update_u16(checksum, old, new));
        }
        (Some(0x86dd), Some(old)) if old >> 12 == 6 => {
            put(frame, ip, old & 0xf03f | u16::from(dscp) << 6);
        }
        _ => {}
    }
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with these tags and type, then these bytes.
    fn frame(tags: &[u16], kind: u16, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for tag in tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0, 7]);
        }
        bytes.extend(kind.to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    fn ipv4(tos: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, tos, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = wire::checksum::checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn ip_packets_are_marked_and_ecn_stays() {
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            let mut bytes = frame(tags, 0x0800, &ipv4(0b1010_1001));
            mark(&mut bytes, 46);
            assert_eq!(bytes, frame(tags, 0x0800, &ipv4(46 << 2 | 1)));
            let mut six = [0x60, 0x05, 0x12, 0x34].to_vec();
            six.resize(40, 0);
            let mut bytes = frame(tags, 0x86dd, &six);
            mark(&mut bytes, 46);
            let at = 14 + 4 * tags.len();
            // Class 46 << 2 with no ECN, and the flow label as it was.
            assert_eq!(bytes[at..at + 4], [0x6b, 0x85, 0x12, 0x34]);
        }
    }

    #[test]
    fn what_is_no_ip_packet_or_cut_off_stays_as_it_is() {
        let mut short = ipv4(0);
        short.truncate(11);
        let odd = [
            frame(&[], 0x0806, &ipv4(0)),
            frame(&[], 0x0800, &[0x65, 0, 0, 20]),
            frame(&[], 0x0800, &short),
            frame(&[0x8100, 0x8100, 0x8100], 0x0800, &ipv4(0)),
            vec![2; 13],
            Vec::new(),
        ];
        for bytes in odd {
            let mut marked = bytes.clone();
            mark(&mut marked, 63);
            assert_eq!(marked, bytes);
        }
    }
}
