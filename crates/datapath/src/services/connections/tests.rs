//! Calls of the tracker, one at a time and in bursts.

use super::*;
use ir::program::Param;
use service::craft::{Frame, checksums_are_right};
use wire::tcp::Flags as Tcp;

fn declared(edits: bool) -> ir::program::Service {
    let params = |list: &[(&str, u32)]| {
        list.iter().map(|(n, w)| Param { name: (*n).to_string(), width: *w }).collect()
    };
    let mut args = ARGS.to_vec();
    if edits {
        args.extend(NAT_ARGS);
    }
    let name = if edits { NAT_NAME } else { NAME }.to_string();
    ir::program::Service { name, args: params(&args), results: params(&RESULTS), edits }
}

struct Bed {
    connections: Connections,
}

/// What a packet was answered: state, mark, opener's source, and the packet.
type Told = (bool, String, u128, u128, Vec<u8>);

impl Bed {
    fn new() -> Bed {
        let config = Config { translated_max: 100, ..Config::new(100, 1) };
        Bed { connections: Connections::new(config, 0) }
    }

    fn send(&self, frame: &[u8], values: &[u128], edits: bool) -> Told {
        self.ask(frame, values, edits, false)
    }

    fn ask(&self, frame: &[u8], values: &[u128], edits: bool, look: bool) -> Told {
        let service = declared(edits);
        let args: Vec<Bits> = service
            .args
            .iter()
            .enumerate()
            .map(|(i, a)| Bits::from_u128(values.get(i).copied().unwrap_or(0), a.width))
            .collect();
        let mut results: Vec<Bits> = service.results.iter().map(|r| Bits::zero(r.width)).collect();
        let mut packet = frame.to_vec();
        let call = Call {
            service: &service,
            args: &args,
            packet: &mut packet,
            csum: Csum::None,
            now_ns: 1,
            look,
            news: None,
        };
        let passes = self.connections.call(call, &mut results);
        let state = CtState(results[0].low_u32() as u8).to_string();
        (passes, state, results[1].low_u128(), results[4].low_u128(), packet)
    }
}

fn v4(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

#[test]
fn a_connection_is_new_then_established_and_has_its_mark() {
    let bed = Bed::new();
    let (a, b) = ((v4(1), 1000), (v4(2), 80));
    let syn = Frame::tcp(a, b, Tcp::SYN, (1, 0), 0).bytes();
    let answer = Frame::tcp(b, a, Tcp::SYN | Tcp::ACK, (7, 2), 0).bytes();
    assert_eq!(bed.send(&syn, &[5], false).1, "+new+trk", "not kept");
    assert_eq!(bed.send(&answer, &[5], false).1, "+inv+trk");
    let told = bed.send(&syn, &[5, flags::COMMIT.into(), 0xab, 0xff], false);
    assert_eq!((told.0, &*told.1, told.2, told.3), (true, "+new+trk", 0xab, 0x0a00_0001));
    let told = bed.send(&answer, &[5], false);
    assert_eq!((&*told.1, told.2, told.3), ("+est+rpl+trk", 0xab, 0x0a00_0001));
    assert_eq!(bed.send(&answer, &[6], false).1, "+inv+trk", "another zone");
    assert_eq!(bed.connections.list(1, 10, &|_| true).len(), 1);
    assert_eq!(bed.connections.flush(Some(6)), 0);
    assert_eq!(bed.connections.flush(Some(5)), 1);
    assert_eq!(bed.send(&[0; 60], &[5], false).1, "+inv+trk", "no IP");
}

/// What one switch has opened and translated, another goes on with, whose clock began elsewhere.
#[test]
fn an_image_takes_a_translated_connection_to_another_switch() {
    let bed = Bed::new();
    let (a, b, out) = ((v4(1), 1000), (v4(2), 80), (v4(9), 1000));
    let syn = Frame::tcp(a, b, Tcp::SYN, (1, 0), 0).bytes();
    let address = u128::from(u32::from(Ipv4Addr::new(10, 0, 0, 9)));
    let rule = |port: u128| {
        let mut values = vec![3, flags::COMMIT.into(), 0, 0, 0, 0, 0, 0];
        values.extend([kind::SOURCE.into(), address, address, port, port]);
        values
    };
    assert!(bed.send(&syn, &rule(1000), true).0);
    let mut bytes = Vec::new();
    assert_eq!(bed.connections.export(&|| 5, 77, &mut bytes).unwrap(), 1);
    let fresh = Bed::new();
    let mut image = Image::read(bytes).unwrap();
    assert_eq!(image.taken_at(), 77);
    assert_eq!(fresh.connections.import(&mut image, &|| 1).connections, 1);
    let answer = Frame::tcp(b, out, Tcp::SYN | Tcp::ACK, (7, 2), 0).bytes();
    let told = fresh.send(&answer, &[3], true);
    assert_eq!(told.1, "+est+rpl+trk+dnat");
    assert_eq!(told.4, Frame::tcp(b, a, Tcp::SYN | Tcp::ACK, (7, 2), 0).bytes());
    let stranger = Frame::tcp(b, (v4(9), 1001), Tcp::SYN | Tcp::ACK, (7, 2), 0).bytes();
    assert_eq!(fresh.send(&stranger, &[3], true).1, "+inv+trk");
    // The port is taken, and it is the only one.
    let other = Frame::tcp((v4(4), 1000), b, Tcp::SYN, (1, 0), 0).bytes();
    assert!(!fresh.send(&other, &rule(1000), true).0);
}

/// A trace sees the packet as it would leave, at this call and at a further one, and no connection is kept.
#[test]
fn a_look_shows_the_translation_and_keeps_no_connection() {
    let bed = Bed::new();
    let (a, b, out) = ((v4(1), 1000), (v4(2), 80), (v4(9), 1000));
    let syn = Frame::tcp(a, b, Tcp::SYN, (1, 0), 0).bytes();
    let address = u128::from(u32::from(Ipv4Addr::new(10, 0, 0, 9)));
    let rule = |state: u128| {
        let mut values = vec![3, flags::COMMIT.into(), 7, 0xff, 0, 0, state, 3];
        values.extend([kind::SOURCE.into(), address, address, 1000, 1000]);
        values
    };
    for _ in 0..2 {
        let told = bed.ask(&syn, &rule(0), true, true);
        assert_eq!((told.0, &*told.1, told.2), (true, "+new+trk+snat", 7));
        assert_eq!(told.4, Frame::tcp(out, b, Tcp::SYN, (1, 0), 0).bytes());
        assert!(checksums_are_right(&told.4));
        let again = bed.ask(&told.4, &rule(0x61), true, true);
        assert_eq!((again.0, &*again.1, &again.4), (true, "+new+trk+snat", &told.4));
        assert!(bed.connections.list(1, 10, &|_| true).is_empty());
    }
    assert_eq!(bed.send(&syn, &rule(0), true).4, Frame::tcp(out, b, Tcp::SYN, (1, 0), 0).bytes());
    let answer = Frame::tcp(b, out, Tcp::SYN | Tcp::ACK, (7, 2), 0).bytes();
    let told = bed.ask(&answer, &[3], true, true);
    assert_eq!((&*told.1, told.2), ("+est+rpl+trk+dnat", 7));
    assert_eq!(told.4, Frame::tcp(b, a, Tcp::SYN | Tcp::ACK, (7, 2), 0).bytes());
    // The only port is taken.
    let other = Frame::tcp((v4(4), 1000), b, Tcp::SYN, (1, 0), 0).bytes();
    assert!(!bed.ask(&other, &rule(0), true, true).0);
}

#[test]
fn a_source_is_translated_and_back_and_never_twice() {
    let bed = Bed::new();
    let (a, b, out) = ((v4(1), 1000), (v4(2), 80), (v4(9), 1000));
    let syn = Frame::tcp(a, b, Tcp::SYN, (1, 0), 0).bytes();
    let address = u128::from(u32::from(Ipv4Addr::new(10, 0, 0, 9)));
    let rule = |state: u128| {
        let mut values = vec![3, flags::COMMIT.into(), 0, 0, 0, 0, state, 3];
        values.extend([kind::SOURCE.into(), address, address, 0, 0]);
        values
    };
    let told = bed.send(&syn, &rule(0), true);
    assert_eq!((told.0, &*told.1), (true, "+new+trk+snat"));
    assert_eq!(told.4, Frame::tcp(out, b, Tcp::SYN, (1, 0), 0).bytes());
    assert!(checksums_are_right(&told.4));
    // Sent again, it is new to who may not open connections (Linux's `ovs_ct_nat`), and translated as before by who may.
    let again = bed.send(&syn, &[3], true);
    assert_eq!((&*again.1, &again.4), ("+new+trk", &syn));
    let again = bed.send(&syn, &rule(0), true);
    assert_eq!((&*again.1, &again.4), ("+new+trk+snat", &told.4));
    // What comes translated to a further action stays as it is.
    let twice = bed.send(&again.4, &rule(0x61), true);
    assert_eq!((&*twice.1, &twice.4), ("+new+trk+snat", &told.4));
    assert_eq!(bed.connections.list(1, 10, &|_| true).len(), 1);
    let answer = Frame::tcp(b, out, Tcp::SYN | Tcp::ACK, (7, 2), 0).bytes();
    let told = bed.send(&answer, &[3], true);
    assert_eq!(told.1, "+est+rpl+trk+dnat");
    assert_eq!(told.4, Frame::tcp(b, a, Tcp::SYN | Tcp::ACK, (7, 2), 0).bytes());
    // Without translation asked for, the packet stays as it is.
    assert_eq!(bed.send(&answer, &[3], false).4, answer);
    // Addresses of the other family: nothing is left.
    let mut other = rule(0);
    other[8] = (kind::SOURCE | kind::IPV6).into();
    let fresh = Frame::tcp((v4(1), 1001), b, Tcp::SYN, (1, 0), 0).bytes();
    assert!(!bed.send(&fresh, &other, true).0);
}

/// Bursts of two that open, use and close connections, translated and not, and packets that come again: a tracker to which two workers
/// have come says what one of a single worker does, octet by octet.
#[test]
fn workers_side_by_side_are_told_what_one_alone_is() {
    let config = || Config { translated_max: 300, ..Config::new(600, 1) };
    let [shared, single] = [0, 1].map(|_| Connections::new(config(), 0));
    while shared.inner.shared().is_none() {
        std::thread::scope(|scope| {
            scope.spawn(|| drop(shared.inner.shared()));
        });
    }
    let service = declared(true);
    let mut random = service::random::Random(4);
    let outside = u64::from(u32::from(Ipv4Addr::new(10, 0, 0, 9)));
    let (mut established, mut left) = (0, 0);
    for round in 0..400_u64 {
        let mut frames = Vec::new();
        let mut args = Vec::new();
        for _ in 0..48 {
            let (a, b) = ((v4(1), 1000 + random.below(40) as u16), (v4(2), 80));
            let others = [Tcp::SYN, Tcp::SYN | Tcp::ACK, Tcp::SYN | Tcp::ACK, Tcp::RST];
            let flags = others.get(random.below(24) as usize).copied().unwrap_or(Tcp::ACK);
            let takes = u32::from(flags.contains(Tcp::SYN));
            let translates = a.1.is_multiple_of(2);
            // A port for each, so that its answers are known.
            let seen = if translates { (v4(9), a.1) } else { a };
            let frame = match random.below(2) {
                0 => Frame::tcp(a, b, flags, (2 - takes, 8), 0),
                _ => Frame::tcp(b, seen, flags, (8 - takes, 2), 0),
            };
            frames.push(frame.bytes());
            let commit = if random.below(4) != 0 { u64::from(flags::COMMIT) } else { 0 };
            // Behind one that comes again, all of the burst is left.
            let again = round.is_multiple_of(8) && random.below(16) == 0;
            let said = if again { [CtState::SOURCE_NAT.0.into(), 3] } else { [0; 2] };
            let mut words = vec![3, commit, 0, 0, 0, 0, 0, 0, said[0], said[1]];
            words.extend(match translates {
                true => [kind::SOURCE.into(), outside, 0, outside, 0, a.1.into(), a.1.into()],
                false => [0; 7],
            });
            args.push(words);
        }
        let of = |connections: &Connections| {
            let mut frames = frames.clone();
            let mut results = vec![[0; 14]; frames.len()];
            let mut packets: Vec<Handed<'_>> = (0..)
                .zip(frames.iter_mut().zip(&args).zip(&mut results))
                .map(|(packet, ((bytes, args), results))| Handed {
                    packet,
                    bytes,
                    args,
                    results,
                    passes: true,
                    left: false,
                })
                .collect();
            let now_ns = 1 + round * 1_000_000;
            let burst = Burst { service: &service, csums: &[], marks: &[], now_ns, leaves: true };
            connections.burst(burst, &mut packets);
            let fates: Vec<_> = packets.iter().map(|p| (p.passes, p.left)).collect();
            (fates, results, frames)
        };
        let (got, want) = (of(&shared), of(&single));
        assert!(got == want, "round {round}");
        established += want.1.iter().filter(|words| words[0] == 0x22).count();
        left += want.0.iter().filter(|(_, left)| *left).count();
    }
    let [mut with, without] = [&shared, &single].map(Connections::counters);
    with.hints_used = without.hints_used;
    assert_eq!(with, without);
    assert!(established > 1000 && left > 0, "{established} {left}");
    let together = shared.inner.counted().established;
    assert!(together > 500, "{together} of {established}");
    let all = |connections: &Connections| {
        let mut all = connections.list(1, 1000, &|_| true);
        all.sort_by_key(|connection| format!("{:?}", connection.original));
        all
    };
    assert_eq!(all(&shared), all(&single));
}
