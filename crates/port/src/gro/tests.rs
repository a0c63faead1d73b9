//! Streams cut into segments, joined, and cut again.

use super::*;
use crate::gso;
use crate::prng::Prng;

/// In front of the Ethernet header.
const FRONT: usize = 5;

/// A connection: what its segments have in common, and where it is.
#[derive(Clone)]
struct Stream {
    is_ipv6: bool,
    tags: usize,
    port: u16,
    seq: u32,
    id: u16,
}

impl Stream {
    fn new(is_ipv6: bool, tags: usize, port: u16) -> Stream {
        Stream { is_ipv6, tags, port, seq: 0xffff_f000, id: 0xfffd }
    }

    fn next(&mut self, payload: &[u8], flags: u8) -> Frame {
        let mut data = vec![9; FRONT];
        data.extend([2; 12]);
        (0..self.tags).for_each(|_| data.extend([0x81, 0, 0, 5]));
        let tcp_len = 32 + payload.len();
        if self.is_ipv6 {
            data.extend([0x86, 0xdd, 0x60, 0, 0, 7]);
            data.extend((tcp_len as u16).to_be_bytes());
            data.extend([6, 64]);
            data.extend([0xfd; 32]);
        } else {
            data.extend([0x08, 0, 0x45, 0]);
            data.extend((20 + tcp_len as u16).to_be_bytes());
            data.extend(self.id.to_be_bytes());
            data.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        data.extend(self.port.to_be_bytes());
        data.extend([0, 80]);
        data.extend(self.seq.to_be_bytes());
        data.extend([0, 0, 0, 9, 0x80, flags, 1, 1, 0, 0, 0, 0]);
        data.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        data.extend(payload);
        self.seq = self.seq.wrapping_add(payload.len() as u32);
        self.id = self.id.wrapping_add(1);
        finished(Frame::copy_of(&data))
    }
}

/// With right checksums.
fn finished(mut frame: Frame) -> Frame {
    wire::offload::fill_checksums(&mut frame.data_mut()[FRONT..]).unwrap();
    frame
}

fn add_all(frames: &[Frame]) -> Vec<Frame> {
    let (mut gro, mut pool, mut out) = (Gro::default(), Pool::new(), Vec::new());
    for frame in frames {
        gro.add(frame.clone(), FRONT, &mut pool, |frame| out.push(frame));
        assert!(gro.held.len() <= FLOWS_MAX);
    }
    gro.flush(|frame| out.push(frame));
    out
}

/// Cuts what has been joined.
fn cut(frames: &[Frame]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for frame in frames {
        if frame.offload.gso.is_none() {
            out.push(frame.data().to_vec());
            continue;
        }
        let mut inner = frame.clone();
        let front = inner.data()[..FRONT].to_vec();
        inner.pull_front(FRONT);
        gso::complete(&inner, &mut Pool::new(), |part| {
            out.push([&front, part.data()].concat());
        })
        .unwrap();
    }
    out
}

fn octets(frames: &[Frame]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| frame.data().to_vec()).collect()
}

#[test]
fn what_follows_becomes_one_frame_that_is_cut_into_the_same_octets() {
    for is_ipv6 in [false, true] {
        for tags in [0, 1, 2] {
            let mut stream = Stream::new(is_ipv6, tags, 7);
            let mut sent: Vec<Frame> = (0..20u8).map(|n| stream.next(&[n; 1001], ACK)).collect();
            sent.push(stream.next(&[99; 500], ACK | PSH));
            let got = add_all(&sent);
            assert_eq!(got.len(), 1);
            let start = (FRONT + 14 + 4 * tags + if is_ipv6 { 40 } else { 20 }) as u16;
            assert_eq!(got[0].offload.csum, Csum::Partial { start, offset: 16 });
            assert_eq!(cut(&got), octets(&sent));
        }
    }
}

#[test]
fn no_packet_becomes_longer_than_ip_allows() {
    for is_ipv6 in [false, true] {
        let mut stream = Stream::new(is_ipv6, 1, 7);
        let sent: Vec<Frame> = (0..200u8).map(|n| stream.next(&[n; 1400], ACK)).collect();
        let got = add_all(&sent);
        assert_eq!(got.len(), 200usize.div_ceil(65_535 / 1400));
        assert!(got.iter().all(|frame| frame.len() <= FRONT + 18 + PACKET_MAX));
        assert_eq!(cut(&got), octets(&sent));
    }
}

#[test]
fn what_differs_does_not_join() {
    // Octets of the second frame that are changed, and whether its sums are made right.
    let (l3, l4) = (FRONT + 14, FRONT + 34);
    let cases: [(&str, usize, u8, bool); 16] = [
        ("in front", 2, 1, true),
        ("address", FRONT + 3, 1, true),
        ("TOS", l3 + 1, 4, true),
        ("identification", l3 + 5, 1, true),
        ("DF", l3 + 6, 0x40, true),
        ("TTL", l3 + 8, 1, true),
        ("IP address", l3 + 15, 1, true),
        ("port", l4 + 1, 1, true),
        ("sequence", l4 + 7, 1, true),
        ("acknowledgement", l4 + 11, 1, true),
        ("reserved bits", l4 + 12, 2, true),
        ("ECE", l4 + 13, ECE, true),
        ("window", l4 + 15, 1, true),
        ("timestamp", l4 + 27, 1, true),
        ("payload, and so the sum", l4 + 40, 1, false),
        ("header sum", l3 + 10, 1, false),
    ];
    for (what, at, change, right) in cases {
        let mut stream = Stream::new(false, 0, 7);
        let mut sent = vec![stream.next(&[1; 100], ACK), stream.next(&[2; 100], ACK)];
        sent[1].data_mut()[at] ^= change;
        if right {
            sent[1] = finished(sent[1].clone());
        }
        let got = add_all(&sent);
        assert_eq!(octets(&got), octets(&sent), "{what}");
        assert!(got.iter().all(|frame| frame.offload == Offload::NONE), "{what}");
        // It is no better as the first one.
        if !right {
            sent.swap(0, 1);
            let mut stream = Stream::new(false, 0, 7);
            let first = stream.next(&[1; 100], ACK);
            let mut wrong = first.clone();
            wrong.data_mut()[at] ^= change;
            let sent = [wrong, stream.next(&[2; 100], ACK)];
            assert_eq!(octets(&add_all(&sent)), octets(&sent), "{what}");
        }
    }
    // The same without a change.
    let mut stream = Stream::new(false, 0, 7);
    let sent = [stream.next(&[1; 100], ACK), stream.next(&[2; 100], ACK)];
    assert_eq!(add_all(&sent).len(), 1);
}

#[test]
fn flags_sizes_and_debts_end_a_frame() {
    let next = |flags, len| {
        let mut stream = Stream::new(true, 0, 7);
        let mut sent = vec![stream.next(&[1; 100], ACK), stream.next(&vec![2; len], flags)];
        sent.push(stream.next(&[3; 100], ACK));
        let got = add_all(&sent);
        assert_eq!(cut(&got), octets(&sent));
        got.len()
    };
    assert_eq!(next(ACK, 100), 1);
    assert_eq!(next(ACK | PSH, 100), 2);
    assert_eq!(next(ACK, 99), 2);
    assert_eq!(next(ACK, 101), 2, "the longer one is the first of the next frame");
    assert_eq!(next(ACK, 0), 3, "no payload");
    for flags in [0, ACK | 1, ACK | 2, ACK | 4, ACK | 0x20, ACK | 0x80] {
        assert_eq!(next(flags, 100), 3, "{flags:#x}");
    }
    let mut stream = Stream::new(false, 0, 7);
    let mut sent = [stream.next(&[1; 100], ACK), stream.next(&[2; 100], ACK)];
    sent[1].offload.csum = Csum::Partial { start: (FRONT + 34) as u16, offset: 16 };
    assert_eq!(add_all(&sent).len(), 2);
    sent[1].offload = Offload::NONE;
    sent[1].extend(&[0; 3]);
    assert_eq!(octets(&add_all(&sent)), octets(&sent), "padding");
}

#[test]
fn other_frames_pass_and_those_of_one_connection_keep_their_order() {
    let mut stream = Stream::new(false, 0, 7);
    let mut arp = vec![0; FRONT + 42];
    arp[FRONT + 12..FRONT + 14].copy_from_slice(&[8, 6]);
    let mut fragment = stream.clone().next(&[9; 100], ACK);
    fragment.data_mut()[FRONT + 20] = 0x20;
    let sent = [
        stream.next(&[1; 100], ACK),
        Frame::copy_of(&arp),
        stream.next(&[2; 100], ACK),
        fragment,
        stream.next(&[3; 100], ACK),
    ];
    let got = octets(&add_all(&sent));
    assert_eq!(got[0], arp);
    assert_eq!(got.len(), 4);
    assert_eq!(got[2], sent[3].data(), "behind what came before it");
    // More connections than are held.
    let mut sent = Vec::new();
    for round in 0..2 {
        for port in 0..=FLOWS_MAX as u16 {
            let mut stream = Stream::new(false, 0, port);
            stream.seq = 100 * round;
            sent.push(stream.next(&[1; 100], ACK));
        }
    }
    assert_eq!(octets(&add_all(&sent)), octets(&sent));
    // Any octets at all.
    for len in 0..80 {
        let sent = [Frame::copy_of(&stream.clone().next(&[1; 10], ACK).data()[..len])];
        let mut gro = Gro::default();
        let mut out = Vec::new();
        gro.add(sent[0].clone(), FRONT.min(len), &mut Pool::new(), |frame| out.push(frame));
        gro.flush(|frame| out.push(frame));
        assert_eq!(octets(&out), octets(&sent));
    }
}

/// Random streams side by side: each comes out as it went in, once it is cut again.
#[test]
fn random_streams_keep_their_octets_and_order() {
    let mut random = Prng::new(11);
    let mut joined = 0;
    for _ in 0..200 {
        let mut streams: Vec<Stream> = (0..1 + random.below(12) as u16)
            .map(|port| Stream::new(random.below(2) == 0, random.below(3) as usize, port))
            .collect();
        let mut sent = Vec::new();
        for _ in 0..random.below(64) {
            let at = random.below(streams.len() as u64) as usize;
            for _ in 0..random.below(5) {
                let len = if random.below(6) == 0 { random.below(1400) } else { 1400 };
                let flags =
                    [ACK, ACK, ACK, ACK | PSH, ACK | 1, ACK | ECE][random.below(6) as usize];
                let payload: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                let mut frame = streams[at].next(&payload, flags);
                if random.below(10) == 0 {
                    let n = random.below(frame.len() as u64) as usize;
                    frame.data_mut()[n] ^= 1 << random.below(8);
                }
                sent.push(frame);
            }
        }
        let got = add_all(&sent);
        joined += sent.len() - got.len();
        let mut by_stream = (octets(&sent), cut(&got));
        let connection = |octets: &Vec<u8>| match look(&Frame::copy_of(octets), FRONT) {
            Look::Segment(s) => [&octets[s.addresses()], &octets[s.l4..s.l4 + 4]].concat(),
            Look::Unclear => vec![0],
            Look::Other => vec![1],
        };
        // Stable, so that the order within each is seen.
        by_stream.0.sort_by_key(connection);
        by_stream.1.sort_by_key(connection);
        assert!(by_stream.0 == by_stream.1);
    }
    assert!(joined > 500, "{joined}");
}
