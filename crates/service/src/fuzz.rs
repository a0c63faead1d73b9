//! The body of the fuzz target `conntrack`, which the tests run on seeded random bytes.

use crate::conntrack::{Config, Nat, Outcome, Request, Tracker};
use crate::nat::{Pool, Ports, Rule};
use crate::packet::{Checksum, Packet};

/// Frames in a sequence through a small tracker with translation. The bytes: for each frame one that
/// says what is asked of the tracker, one for the time that has gone by, one for its length, and the
/// frame.
///
/// # Panics
/// If what holds of all input does not hold: each packet is counted once, what is held stays within
/// its limits and is all gone in the end.
pub fn conntrack(mut data: &[u8]) {
    let mut config = Config::new(16, 1);
    (config.translated_max, config.half_open_max, config.fragmented_max) = (8, 8, 8);
    let mut tracker = Tracker::new(config, 0);
    let outside =
        |ports| Pool::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), ports).expect("a range");
    let range = tracker.add_pool(outside(Ports::Range(1, 4)));
    let blocks = Ports::Blocks { first: 1, last: 8, size: 2, blocks_max: 2 };
    let blocks = tracker.add_pool(outside(blocks));
    let (mut now_ns, mut packets) = (0_u64, 0);
    while let [what, time, len, rest @ ..] = data {
        let (frame, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        data = rest;
        now_ns += u64::from(*time) << 28;
        let rule = match what >> 4 & 3 {
            0 => Rule { source: Some(range), destination: None },
            1 => Rule { source: Some(blocks), destination: None },
            2 => Rule { source: None, destination: Some(range) },
            _ => Rule { source: Some(blocks), destination: Some(range) },
        };
        let request = Request {
            zone: u16::from(what & 1),
            commit: what & 2 != 0,
            force: what & 4 != 0,
            nat: if what & 8 != 0 { Nat::New(rule) } else { Nat::Existing },
            mark: Some((7, 3)),
            label: (what & 64 != 0).then_some((1 << 100, !0)),
        };
        let mut frame = frame.to_vec();
        let checksum = if what & 128 != 0 { Checksum::Partial } else { Checksum::Good };
        let mut outcome = [Outcome::default()];
        let packet = Packet { checksum, ..Packet::of(&mut frame) };
        tracker.process(now_ns, &request, &mut [packet], &mut outcome);
        packets += 1;
        assert!(tracker.len() <= 16 && tracker.half_open() <= 8);
    }
    assert_eq!(tracker.counters().all().take(8).map(|(_, n)| n).sum::<u64>(), packets);
    assert_eq!(tracker.connections(now_ns).count().max(tracker.len()), tracker.len());
    while tracker.expire(u64::MAX, 64) {}
    assert!(tracker.is_empty());
    assert!(
        [range, blocks].iter().all(|id| {
            tracker.pool(*id).and_then(Pool::blocks).is_none_or(|(used, _)| used == 0)
        })
    );
}

#[cfg(test)]
mod tests {
    use crate::craft::Frame;
    use crate::random::Random;
    use wire::IpProtocol;
    use wire::tcp::Flags;

    #[test]
    fn seeded_random_bytes() {
        let mut random = Random(11);
        for _ in 0..1500 {
            let mut data = Vec::new();
            for _ in 0..random.below(24) {
                let end = |random: &mut Random| ([10, 0, 0, random.below(3) as u8].into(), 5);
                let (a, b) = (end(&mut random), end(&mut random));
                let frame = match random.below(5) {
                    0 => Frame::udp(a, b, 3),
                    1 => Frame::tcp(a, b, Flags(1 << random.below(6)), (1, 1), 0),
                    2 => Frame::udp(a, b, 3).error(b.0, 3, 1, 40),
                    3 => Frame::icmp(a.0, b.0, random.below(20) as u8, 0, 5 << 16, b""),
                    _ => Frame::new(
                        a.0,
                        b.0,
                        IpProtocol::SCTP,
                        vec![0, 5, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 4],
                    ),
                };
                let mut bytes = frame.bytes();
                if random.below(2) == 0 {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
                if random.below(8) == 0 {
                    bytes.truncate(random.below(bytes.len() as u64) as usize);
                }
                data.extend([random.next() as u8, random.below(30) as u8, bytes.len() as u8]);
                data.extend(bytes);
            }
            super::conntrack(&data);
        }
    }
}
