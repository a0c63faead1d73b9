//! The bodies of the fuzz targets `conntrack`, `follow`, `image`, `sandbox` and `transcode`, which the tests run on seeded random bytes.

use crate::conntrack::image::{Image, Writer};
use crate::conntrack::{Alg, Apart, Config, Drop, Nat, Outcome, Request, Tracker};
use crate::element::{Element, Fate, Passing, Writes};
use crate::nat::{Pool, Ports, Rule};
use crate::packet::{Checksum, Network, Packet};
use crate::sandbox::{Answer, DESCRIPTOR, Layout};
use crate::transcode::{Direction, GCM_ROOM, Key, Mode, Transcoder};

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
    (config.waiting_max, config.waiting_octets_max) = (4, 500);
    let mut tracker = Tracker::new(config, 0);
    let outside =
        |ports| Pool::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), ports).expect("a range");
    let range = tracker.add_pool(outside(Ports::Range(1, 4)));
    let blocks = Ports::Blocks { first: 1, last: 8, size: 2, blocks_max: 2 };
    let blocks = tracker.add_pool(outside(blocks));
    let (mut now_ns, mut packets, mut waiting) = (0_u64, 0, Vec::new());
    while let [what, time, len, rest @ ..] = data {
        let (frame, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        data = rest;
        now_ns += u64::from(*time) << 28;
        let rule = match what >> 4 & 3 {
            0 if time & 4 != 0 => Rule::default(),
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
            alg: [None, Some(Alg::Ftp), Some(Alg::Tftp), None][usize::from(time & 3)],
            apart: [Apart::Hold, Apart::Leave, Apart::Never][usize::from(time >> 3 & 3) % 3],
        };
        let mut frame = frame.to_vec();
        let checksum = if what & 128 != 0 { Checksum::Partial } else { Checksum::Good };
        let mut outcome = [Outcome::default()];
        let packet = Packet { checksum, ..Packet::of(&mut frame) };
        tracker.begin();
        tracker.process(now_ns, &request, &mut [packet], &mut outcome);
        if let Some(bytes) = tracker.take_rewritten() {
            let (old, new) = (frame.len(), bytes.len());
            assert!(request.nat != Nat::None && new.abs_diff(old) < 100, "{old} {new}");
        }
        // One that waits or is left is not counted yet; one that is lost is.
        match outcome[0].drop {
            Some(Drop::Apart) => assert_eq!(request.apart, Apart::Leave),
            Some(Drop::Waits(ticket)) => {
                assert_eq!(request.apart, Apart::Hold);
                waiting.push(ticket);
            }
            _ => packets += 1,
        }
        let ready = tracker.take_ready();
        let lost = tracker.take_lost();
        packets += lost.len() as u64;
        let told = ready.len() + lost.len();
        let before = waiting.len();
        waiting.retain(|ticket| !ready.contains(ticket) && !lost.contains(ticket));
        assert_eq!(before - waiting.len(), told, "each is told once");
        assert!(tracker.waiting() == waiting.len() && waiting.len() <= 4);
        assert!(tracker.len() <= 16 && tracker.half_open() <= 8);
    }
    assert_eq!(tracker.counters().all().take(8).map(|(_, n)| n).sum::<u64>(), packets);
    assert_eq!(tracker.connections(now_ns).count().max(tracker.len()), tracker.len());
    while tracker.expire(u64::MAX, 64) {}
    assert!(tracker.is_empty());
    tracker.give_up_waiting();
    assert_eq!(tracker.take_lost().len(), waiting.len());
    assert!(
        [range, blocks].iter().all(|id| {
            tracker.pool(*id).and_then(Pool::blocks).is_none_or(|(used, _)| used == 0)
        })
    );
}

/// Records of another tracker's changes, applied to a small copy that then goes on.
///
/// # Panics
/// If what holds of all input does not hold: what is held stays within its limits, and is all gone in the end.
pub fn follow(data: &[u8]) {
    let mut config = Config::new(16, 1);
    (config.translated_max, config.half_open_max) = (8, 8);
    let mut copy = Tracker::new(config, 0);
    let blocks = Ports::Blocks { first: 1, last: 8, size: 2, blocks_max: 2 };
    let pool = Pool::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), blocks).expect("a range");
    let pool = copy.add_pool(pool);
    copy.stand_still(0);
    copy.begin_sync();
    let mut records = data;
    while !records.is_empty() && copy.apply(0, &mut records, 3).is_ok() {
        assert!(copy.len() <= 16 && copy.half_open() <= 8);
    }
    let before = copy.len();
    assert_eq!(copy.end_sync(0, usize::MAX), None);
    assert_eq!(copy.len(), before, "all of it was told");
    copy.begin_sync();
    copy.end_sync(0, usize::MAX);
    assert!(copy.is_empty(), "nothing of it was told again");
    assert_eq!(copy.pool(pool).and_then(Pool::blocks).map(|(used, _)| used), Some(0));
    copy.go_on(1 << 40);
    let mut records = data;
    while !records.is_empty() && copy.apply(1 << 40, &mut records, 3).is_ok() {}
    while copy.expire(u64::MAX, 8) {}
    assert!(copy.is_empty());
}

/// What another balancer has told, of backends and of flows.
///
/// # Panics
/// If what is taken is not told the same again, or leaves a balancer that gives a flow to nobody.
pub fn follow_balancer(data: &[u8]) {
    use crate::balance::{Backends, Health, Member, Spread};
    use crate::element::Element as _;
    let member =
        |name: &str| Member { name: name.to_owned(), weight: 1, health: Health::Up, number: None };
    let there =
        || std::sync::Arc::new(Backends::new(vec![member("a"), member("b")]).expect("two names"));
    let (one, other) = (there(), there());
    if one.told_by_other(1 << 40, data).is_ok() {
        for piece in one.tell(1 << 40) {
            other.told_by_other(1 << 40, &piece).expect("what was told is read");
        }
        let takes = |backends: &Backends| {
            backends.status().into_iter().map(|one| one.takes).collect::<Vec<_>>()
        };
        assert_eq!(takes(&one), takes(&other));
    }
    let mut instance = Spread::new(one, 64, 60, 0).instance(0, 0, 1);
    let told = instance.told_flows(1 << 40, data);
    assert!(told.is_err() || told.is_ok_and(|taken| taken <= data.len() / 63));
}

/// An image of connections. The first byte: 0, and the rest is the image as it is; else the rest is chunks,
/// each behind one byte for its kind and one for its length, and an image with right checksums is made of them.
/// None if it is no image.
///
/// # Panics
/// If what holds of all input does not hold: what is read is restored within the tracker's limits, each
/// connection is counted once, what the tracker then has is written and read again, and all is gone in the end.
pub fn image(data: &[u8]) -> Option<()> {
    let (raw, mut data) = data.split_first()?;
    let mut bytes = data.to_vec();
    if *raw != 0 {
        bytes = b"millconn\x01\0\0\0".to_vec();
        bytes.extend([0; 16]);
        bytes.extend(wire::crc32c::crc32c(&bytes).to_le_bytes());
        let mut number = 0_u32;
        while let [kind, len, rest @ ..] = data {
            let (payload, rest) = rest.split_at(usize::from(*len).min(rest.len()));
            data = rest;
            let mut chunk = vec![*kind];
            chunk.extend(number.to_le_bytes());
            chunk.extend((payload.len() as u32).to_le_bytes());
            chunk.extend(payload);
            chunk.extend(wire::crc32c::crc32c(&chunk).to_le_bytes());
            bytes.extend(chunk);
            number += 1;
        }
    }
    let mut image = Image::read(bytes).ok()?;
    let mut config = Config::new(16, 1);
    (config.translated_max, config.half_open_max) = (8, 8);
    let mut tracker = Tracker::new(config, 0);
    let count = image.len() as u64;
    while image.restore(&mut tracker, 0, 3) {
        assert!(tracker.len() <= 16 && tracker.half_open() <= 8);
    }
    let told = image.restored();
    let each = told.connections + told.renewed + told.expired + told.known + told.no_room;
    assert_eq!(each, count);
    assert_eq!(tracker.len() as u64, told.connections - told.replaced);
    let (mut writer, mut again) = Writer::new(&tracker, 0);
    while writer.slice(&mut tracker, 0, 2) {
        again.extend(writer.frame());
    }
    again.extend(writer.frame());
    again.extend(writer.end());
    let again = Image::read(again).expect("what was written can be read");
    assert_eq!(again.len(), tracker.len());
    while tracker.expire(u64::MAX, 64) {}
    assert!(tracker.is_empty());
    assert!(tracker.pools.iter().all(|pool| pool.blocks().is_none_or(|(used, _)| used == 0)));
    Some(())
}

/// A burst of frames encrypted and decrypted. The bytes: one for mode and key, one for what is known of
/// checksums, then each frame behind one for its length.
///
/// # Panics
/// If what holds of all input does not hold: nothing but payload and checksum is written, and only in
/// packets said to be transcoded; decryption gives back what encryption was given.
pub fn transcode(data: &[u8]) {
    let [what, known, data @ ..] = data else { return };
    let mut data = data;
    let mode = if what & 1 == 0 { Mode::Cbc } else { Mode::Gcm };
    let key = if what & 2 == 0 { Key::Aes128([1; 16]) } else { Key::Aes256([2; 32]) };
    let checksum = [Checksum::Unknown, Checksum::Good, Checksum::Partial][usize::from(known % 3)];
    let mut frames: Vec<Vec<u8>> = Vec::new();
    while let [len, rest @ ..] = data {
        let (frame, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        frames.push(frame.to_vec());
        data = rest;
    }
    let before = frames.clone();
    let mut call = |direction| -> Vec<(u64, Fate)> {
        let mut instance = Transcoder::new(mode, &key, direction).instance(0, 0, 1);
        let mut burst: Vec<_> = frames
            .iter_mut()
            .map(|frame| Passing::new(Packet { checksum, ..Packet::of(frame) }))
            .collect();
        instance.ingress(0, &mut burst);
        let sums = instance.counters();
        let counted = sums.iter().filter(|(name, _)| *name != "octets").map(|(_, n)| n);
        assert_eq!(counted.sum::<u64>(), burst.len() as u64);
        burst.iter().map(|p| (p.metadata.register, p.fate)).collect()
    };
    let there = call(Direction::Encrypt);
    let back = call(Direction::Decrypt);
    assert_eq!(there, back);
    for (((mut after, mut before), (done, fate)), n) in
        frames.into_iter().zip(before).zip(back).zip(0..)
    {
        assert_eq!(fate, Fate::Continue, "frame {n}");
        if done == 1 {
            let packet = Packet::of(&mut before);
            let payload = packet.payload().expect("what was transcoded has a payload");
            let udp = packet.at.protocol == wire::IpProtocol::UDP;
            let field = packet.at.l4 as usize + if udp { 6 } else { 16 };
            let room = if mode == Mode::Gcm { GCM_ROOM } else { 0 };
            after[payload.end - room..payload.end].fill(0);
            before[payload.end - room..payload.end].fill(0);
            // Of two ways to write zero, the checksum may have taken the other; with room, it is another's.
            after[field..field + 2].fill(0);
            before[field..field + 2].fill(0);
        }
        assert_eq!(after, before, "frame {n}");
    }
}

/// What a module in a sandbox answers for one frame. The bytes: one for what it was declared to write and what is known
/// of the checksum, one for the frame's length, the frame, and what the module writes over descriptor and frame,
/// from the beginning on.
///
/// # Panics
/// If what holds of all input does not hold: no octet changes but those declared and checksums over them, and none
/// where the answer is not taken.
pub fn sandbox(data: &[u8]) {
    let [how, len, rest @ ..] = data else { return };
    let (frame, said) = rest.split_at(usize::from(*len).min(rest.len()));
    let layout = Layout::new(128);
    let writes =
        [Writes::Nothing, Writes::Payload, Writes::Ends, Writes::Anything][usize::from(how & 3)];
    let checksum =
        [Checksum::Unknown, Checksum::Good, Checksum::Partial][usize::from(how >> 2 & 3) % 3];
    let (mut after, mut buffer) = (frame.to_vec(), vec![0; layout.octets()]);
    let mut passing = Passing::new(Packet { checksum, ..Packet::of(&mut after) });
    layout.write(0, 0, &passing, &mut buffer);
    let (descriptor, new) = said.split_at(DESCRIPTOR.min(said.len()));
    buffer[..descriptor.len()].copy_from_slice(descriptor);
    let there = frame.len().min(128);
    let new = &new[..there.min(new.len())];
    let at = crate::sandbox::BURST * DESCRIPTOR;
    buffer[at..at + new.len()].copy_from_slice(new);
    let answer = layout.read(0, writes, &buffer, &mut passing);
    let (fate, places, payload) = (passing.fate, passing.packet.at, passing.packet.payload());
    let mut may = vec![false; frame.len()];
    let (l3, l4) = (places.l3 as usize, places.l4 as usize);
    match writes {
        _ if answer != Answer::Taken || fate == Fate::Drop => {}
        Writes::Nothing => {}
        Writes::Anything => may[..there].fill(true),
        Writes::Payload => {
            if let Some(payload) = payload {
                let field = l4 + if places.protocol.0 == 17 { 6 } else { 16 };
                may[field..field + 2].fill(true);
                may[payload].fill(true);
            }
        }
        Writes::Ends => {
            let (addresses, ports) = match places.network {
                Network::Other => (0..0, 0..0),
                Network::V4 => (l3 + 10..l3 + 20, l4..l4 + 4),
                Network::V6 => (l3 + 8..l3 + 40, l4..l4 + 4),
            };
            let field = match places.protocol.0 {
                6 => l4 + 16..l4 + 18,
                17 | 33 | 136 => l4 + 6..l4 + 8,
                1 | 58 => l4 + 2..l4 + 4,
                132 => l4 + 8..l4 + 12,
                _ => 0..0,
            };
            for range in [addresses, ports, field] {
                let end = range.end.min(may.len());
                may[range.start.min(end)..end].fill(true);
            }
        }
    }
    for (n, may) in may.iter().enumerate() {
        assert!(*may || after[n] == frame[n], "octet {n} changed, {writes:?} {answer:?}");
    }
}

#[cfg(test)]
mod tests {
    use crate::craft::Frame;
    use crate::random::Random;
    use wire::IpProtocol;
    use wire::tcp::Flags;

    /// A frame that was damaged on its way: so many bits, within its headers, and perhaps cut.
    fn damaged(frame: &Frame, bits: u64, random: &mut Random) -> Vec<u8> {
        let mut bytes = frame.bytes();
        for _ in 0..bits {
            let at = random.below(bytes.len().min(60) as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        if random.below(8) == 0 {
            bytes.truncate(random.below(bytes.len() as u64) as usize);
        }
        bytes
    }

    /// An end of IPv4, and one of IPv6.
    fn end(n: u8) -> (std::net::IpAddr, u16) {
        ([10, 0, 0, n].into(), 5)
    }
    fn end6(n: u128) -> (std::net::IpAddr, u16) {
        (std::net::Ipv6Addr::from(n).into(), 5)
    }

    #[test]
    fn sandbox_seeded_random_bytes() {
        let mut random = Random(14);
        for _ in 0..20_000 {
            let len = random.below(120) as usize;
            let mut frame = match random.below(5) {
                0 => Frame::udp(end(1), end(2), len),
                1 => Frame::tcp(end(1), end(2), Flags::ACK, (1, 1), len),
                2 => Frame::udp(end6(1), end6(2), len),
                3 => Frame::new(end(1).0, end(2).0, IpProtocol(1), vec![8; len]),
                _ => Frame::new(end(1).0, end(2).0, IpProtocol::SCTP, vec![8; len]),
            };
            if random.below(8) == 0 {
                frame.fragment = (1, [0x2000, 0x2005, 5][random.below(3) as usize]);
            }
            let bits = random.below(3);
            let bytes = damaged(&frame, bits, &mut random);
            let mut data = vec![random.next() as u8, bytes.len() as u8];
            data.extend(bytes);
            data.extend((0..32).map(|_| random.next() as u8));
            data.extend((32..64).map(|_| random.below(2 + random.0 % 2) as u8));
            data.extend((0..random.below(200)).map(|n| (random.0 >> (n % 8)) as u8));
            super::sandbox(&data);
        }
    }

    #[test]
    fn transcode_seeded_random_bytes() {
        let mut random = Random(12);
        for _ in 0..3000 {
            let mut data = vec![random.next() as u8, random.next() as u8];
            for _ in 0..random.below(40) {
                let len = random.below(150) as usize;
                let frame = match random.below(3) {
                    0 => Frame::udp(end(1), end(2), len),
                    1 => Frame::tcp(end(1), end(2), Flags::ACK, (1, 1), len),
                    _ => Frame::udp(end6(1), end6(2), len),
                };
                let bits = random.below(3);
                let bytes = damaged(&frame, bits, &mut random);
                data.push(bytes.len() as u8);
                data.extend(bytes);
            }
            super::transcode(&data);
        }
    }

    #[test]
    fn follow_seeded_random_bytes() {
        let mut random = Random(17);
        for _ in 0..20_000 {
            let mut data = Vec::new();
            for _ in 0..random.below(30) {
                let protocol = [6, 17, 1, 132, 47][random.below(5) as usize];
                let v6 = random.below(4) == 0;
                let mut bits = random.below(256) as u16 & !(64 | 128 | 1) | u16::from(v6);
                if protocol != 1 {
                    bits &= !2;
                }
                if protocol == 6 && random.below(8) != 0 {
                    bits |= 256;
                }
                let gone = random.below(4) == 0;
                let ends = if v6 { 36 } else { 12 };
                let mut body = match gone {
                    true => vec![2, bits as u8 & 3, protocol, 0, 0],
                    false => {
                        let [low, high] = bits.to_le_bytes();
                        let state = if protocol == 6 { random.below(11) as u8 } else { 0 };
                        let mut body = vec![1, low, high, protocol, state, 0, 0, 0, 0, 0, 0];
                        body.extend((random.below(1 << 40)).to_le_bytes());
                        body
                    }
                };
                let first = body.len();
                let parts = 1 + usize::from(!gone && bits & 16 != 0);
                body.resize(first + parts * ends, 0);
                // Few ends, and ports of the pool's.
                body[first] = random.below(3) as u8;
                body[first + ends - 2] = random.below(3) as u8;
                if parts == 2 {
                    let reply = first + ends;
                    body[reply + ends / 2 - 2..reply + ends / 2].copy_from_slice(&[2, 192]);
                    (body[reply], body[reply + ends - 2]) = (1, random.below(9) as u8);
                }
                if !gone {
                    let more = usize::from(bits & 32 != 0) * 16
                        + match protocol {
                            6 if bits & 256 != 0 => 4,
                            6 | 132 => 52,
                            17 => 8,
                            _ => 0,
                        };
                    body.resize(body.len() + more, 0);
                }
                data.extend(body);
            }
            if random.below(4) == 0 {
                let len = data.len() as u64;
                data.truncate(random.below(len + 1) as usize);
            }
            super::follow(&data);
        }
    }

    #[test]
    fn image_seeded_random_bytes() {
        let mut random = Random(13);
        let (mut damaged, mut whole) = (0, 0);
        for _ in 0..20_000 {
            let mut data = vec![u8::from(random.below(50) != 0)];
            let pool = random.below(2) == 0;
            if pool {
                let mut pool = [0; 41];
                // Addresses from 0 on, ports in few blocks.
                (pool[16], pool[33], pool[35]) = (1 + random.below(3) as u8, 1, 8);
                (pool[37], pool[39]) = (1 + random.below(4) as u8, random.below(3) as u8);
                data.extend([1, 41]);
                data.extend(pool);
            }
            let entries = random.below(30) as u8;
            for _ in 0..entries {
                let protocol = [6, 17, 1, 132, 47][random.below(5) as usize];
                let mut bits = random.below(128) as u8;
                if protocol != 1 {
                    bits &= !2;
                }
                if !pool || bits & 1 != 0 || bits & 16 == 0 {
                    bits &= !64;
                }
                let mut entry = vec![bits, 0, protocol, 0, 0, 0, 0, 0, 0, 0];
                if matches!(protocol, 6 | 132) {
                    entry[3] = random.below(5) as u8;
                }
                entry.extend((random.next() >> random.below(64)).to_le_bytes());
                let side = if bits & 1 != 0 { 36 } else { 12 };
                let len = if bits & 16 != 0 { 2 * side } else { side };
                entry.extend((0..len).map(|_| (random.below(3) * random.below(2)) as u8));
                if bits & 16 != 0 {
                    // The other side's destination differs from the source, so that a source is translated.
                    let at = entry.len() - side + (side - 4) / 2;
                    entry[at] = 3 * random.below(8).min(1) as u8;
                }
                if bits & 32 != 0 {
                    entry.extend([1; 16]);
                }
                if bits & 64 != 0 {
                    entry.extend([0, 0]);
                }
                let rest = match protocol {
                    6 | 132 => 52,
                    17 => 8,
                    _ => 0,
                };
                entry.extend((0..rest).map(|_| random.below(15) as u8));
                if random.below(200) == 0 {
                    let at = random.below(entry.len() as u64) as usize;
                    entry[at] ^= 1 << random.below(8);
                }
                data.extend([2, entry.len() as u8]);
                data.extend(entry);
            }
            data.extend([3, 8, entries, 0, 0, 0, 0, 0, 0, 0]);
            match super::image(&data) {
                Some(()) => whole += 1,
                None => damaged += 1,
            }
        }
        assert!(damaged > 300 && whole > 10_000, "{damaged} {whole}");
    }

    #[test]
    fn seeded_random_bytes() {
        let mut random = Random(11);
        for _ in 0..1500 {
            let mut data = Vec::new();
            for _ in 0..random.below(24) {
                let (a, b) = (end(random.below(3) as u8), end(random.below(3) as u8));
                let frame = match random.below(7) {
                    5 => {
                        let len = 8 * random.below(4) as usize;
                        let at = [0x2000, 0x2001, 0x2002, 2, 0x2003, 3][random.below(6) as usize];
                        let fragment = (random.below(3) as u16, at);
                        Frame { fragment, ..Frame::udp(a, b, len) }
                    }
                    6 => {
                        let mut frame = Frame::tcp(a, b, Flags::ACK, (1, 1), 0);
                        let says: [&[u8]; 6] = [
                            b"PORT 10,0,0,1,4,5\r\n",
                            b"EPRT |1|10.0.0.1|1029|\r\n",
                            b"227 (10,0,0,2,4,6)\r\n",
                            b"229 (|||1029|)\r\n",
                            b"PORT 10,",
                            b"\0\x01f",
                        ];
                        frame.body.extend(says[random.below(6) as usize]);
                        frame
                    }
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
                let bits = random.below(2);
                let bytes = damaged(&frame, bits, &mut random);
                data.extend([random.next() as u8, random.below(30) as u8, bytes.len() as u8]);
                data.extend(bytes);
            }
            super::conntrack(&data);
        }
    }
}
