//! The fuzz target's body on seeded random bytes, and on packets of every kind with a few octets changed.

use crate::fuzz;

/// Numbers that look random (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

#[test]
fn damaged_packets_are_refused_or_read_as_they_are_sent() {
    let mut random = Random(1);
    let packets: Vec<Vec<u8>> = super::octets::incoming();
    let (mut taken, mut all) = (0, 0);
    for round in 0..20_000 {
        let mut packet = packets[random.below(packets.len())].clone();
        for _ in 0..random.below(4) {
            let at = random.below(packet.len());
            packet[at] = random.below(256) as u8;
        }
        packet.truncate(packet.len() - random.below(2) * random.below(packet.len()));
        if round % 3 > 0 && packet.len() > 20 && packet[0] == 0x45 {
            packet[10..12].fill(0);
            let sum = wire::checksum::checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        all += 1;
        taken += u32::from(fuzz::packet(&packet, round % 2 == 0));
    }
    assert!(taken > all / 10 && taken < all, "{taken} of {all}");
}

#[test]
fn damaged_fragments_are_put_together_or_lost() {
    let mut random = Random(3);
    let packets: Vec<Vec<u8>> = super::octets::incoming();
    for _ in 0..20_000 {
        let mut data = vec![7];
        let packet = &packets[random.below(packets.len())];
        let whole = packet.len() - 20;
        let mut at = 0;
        while at < whole && packet.len() < 220 {
            let end = (at + 8 * (1 + random.below(6))).min(whole);
            let mut part = packet[..20].to_vec();
            part[2..4].copy_from_slice(&(20 + end as u16 - at as u16).to_be_bytes());
            let bits = (at as u16 / 8) | (u16::from(end < whole) << 13);
            part[6..8].copy_from_slice(&bits.to_be_bytes());
            if random.below(8) == 0 {
                let at = random.below(20);
                part[at] = random.below(256) as u8;
            }
            part[10..12].fill(0);
            let sum = wire::checksum::checksum(&part[..20]);
            part[10..12].copy_from_slice(&sum.to_be_bytes());
            part.extend(&packet[20..][at..end]);
            data.push(part.len() as u8);
            data.extend(part);
            at = end;
        }
        fuzz::tunnel(&data);
    }
}

#[test]
fn any_bytes() {
    let mut random = Random(2);
    for _ in 0..20_000 {
        let data: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        fuzz::tunnel(&data);
    }
    let words = ["remote_ip=", "1.2.3.4", "flow", ",", "key=", "5", "tos=", "inherit", "=", "0x"];
    for _ in 0..20_000 {
        let mut data = vec![random.below(4) as u8];
        for _ in 0..random.below(12) {
            data.extend(words[random.below(words.len())].as_bytes());
        }
        fuzz::tunnel(&data);
    }
}
