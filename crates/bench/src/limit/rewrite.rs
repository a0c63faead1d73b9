//! Rewriting in place: time to live, addresses, checksums (RFC 1624).

use super::{Room, be16, put};

/// One's complement: `check` after the 16-bit words that sum up to `old` have become `new`.
#[inline(always)]
fn adjust(check: u16, old: u32, new: u32) -> u16 {
    // Equation 3: ~(~check + ~old + new), with ~old as 0xffff less each of at most two words.
    let sum = u32::from(!check) + (0x1_fffe - old) + new;
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Both halves of an address.
#[inline(always)]
fn halves(address: u32) -> u32 {
    (address >> 16) + (address & 0xffff)
}

/// One less time to live, for a header at `ip`; false if it would be zero.
#[inline(always)]
pub(super) fn dec_ttl(room: &mut Room, ip: usize) -> bool {
    let ttl = room.0[(ip + 8) & 127];
    if ttl <= 1 {
        return false;
    }
    room.0[(ip + 8) & 127] = ttl - 1;
    // The word falls by 0x100, so the checksum grows by that, and 0xffff is written as 0.
    let check = u32::from(be16(room, ip + 10)) + 0x100;
    let check = check + u32::from(check >= 0xffff);
    put(room, ip + 10, (check as u16).to_be_bytes());
    true
}

/// An address of the header at `ip` has become another: both checksums follow.
#[inline(always)]
pub(super) fn address(room: &mut Room, ip: usize, at: usize, old: u32, new: u32) {
    put(room, at, new.to_be_bytes());
    let (from, to) = (halves(old), halves(new));
    let check = adjust(be16(room, ip + 10), from, to);
    put(room, ip + 10, check.to_be_bytes());
    let (udp, tcp) = (room.0[(ip + 9) & 127] == 17, room.0[(ip + 9) & 127] == 6);
    if udp | tcp {
        let at = ip + 20 + if tcp { 16 } else { 6 };
        let old = be16(room, at);
        let mut check = adjust(old, from, to);
        // UDP without a checksum stays without; one that comes out as 0 is written as 0xffff.
        check = if udp & (check == 0) { 0xffff } else { check };
        check = if udp & (old == 0) { 0 } else { check };
        put(room, at, check.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Flow, Transport};
    use crate::limit::{FRONT, ROOM};
    use port::prng::Prng;

    /// What is rewritten is what would have been written anew, every checksum included.
    #[test]
    fn checksums_follow() {
        let mut random = Prng::new(7);
        for n in 0..300_000u32 {
            let r = random.next_u64();
            let flow = Flow {
                in_port: 1,
                dst_mac: 1,
                src_mac: 2,
                vlan: None,
                src: r as u32,
                dst: (r >> 32) as u32,
                ttl: 2 + (n % 254) as u8,
                transport: [Transport::Tcp, Transport::Udp, Transport::Icmp][n as usize % 3],
                src_port: random.next_u64() as u16,
                dst_port: 80,
            };
            let bytes = flow.bytes();
            let mut room = Room([0; ROOM]);
            room.0[FRONT..FRONT + bytes.len()].copy_from_slice(&bytes);
            let (ip, src) = (FRONT + 14, random.next_u64() as u32);
            assert!(dec_ttl(&mut room, ip));
            address(&mut room, ip, ip + 12, flow.src, src);
            let anew = Flow { src, ttl: flow.ttl - 1, ..flow }.bytes();
            assert_eq!(room.0[FRONT..FRONT + bytes.len()], anew, "{flow:?}");
        }
    }

    #[test]
    fn the_last_hop_is_refused() {
        for ttl in [0, 1] {
            let mut room = Room([0; ROOM]);
            room.0[FRONT + 14 + 8] = ttl;
            assert!(!dec_ttl(&mut room, FRONT + 14));
        }
    }
}
