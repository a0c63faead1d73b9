//! The tracker, called with packets together as compiled code calls it, and one at a time as the interpreter does:
//! in the same order, both say the same and make the same of the packets.

use datapath::compiled::{JitEngine, Options};
use datapath::counts::Counts;
use datapath::engine::{Forward, Scratch};
use datapath::externs::State;
use datapath::ports::PortTable;
use datapath::services::connections::{ARGS, NAME, NAT_ARGS, NAT_NAME, RESULTS, flags, kind};
use datapath::services::{Burst, Call, Services};
use interp::{Collect, Input, Start};
use ir::Bits;
use ir::program::{Param, Service};
use jit::Handed;
use port::adapter::{Adapter, ENTRIES};
use port::marks::{Flow, Mark};
use port::prng::Prng;
use port::{Csum, Pool, Port, memory};
use service::conntrack::{Config, Role, Tuple};
use service::craft::Frame;
use state::counters::{CounterArena, WorkerCounters};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wire::tcp::Flags as Tcp;

fn declared(edits: bool) -> Service {
    let params = |list: &[(&str, u32)]| {
        list.iter().map(|(n, w)| Param { name: (*n).to_string(), width: *w }).collect()
    };
    let mut args = ARGS.to_vec();
    if edits {
        args.extend(NAT_ARGS);
    }
    let name = if edits { NAT_NAME } else { NAME }.to_string();
    Service { name, args: params(&args), results: params(&RESULTS), edits }
}

fn tracked() -> Services {
    let mut services = Services::default();
    services.track(Config { translated_max: 50, ..Config::new(200, 3) });
    services
}

/// A packet of one of a few connections, one way or the other, or of none.
fn frame(random: &mut Prng) -> Vec<u8> {
    let v6 = random.below(4) == 0;
    let address = |n: u64| match v6 {
        false => IpAddr::from([10, 0, 0, n as u8]),
        true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n as u16]),
    };
    let a = (address(random.below(3)), 1000 + random.below(3) as u16);
    let b = (address(7), 80);
    let out = (address(9), 1000 + random.below(3) as u16);
    let (from, to) = match random.below(4) {
        0 | 1 => (a, b),
        2 => (b, a),
        _ => (b, out),
    };
    match random.below(4) {
        0 => vec![0; 40],
        1 => {
            let flags = [Tcp::SYN, Tcp::SYN | Tcp::ACK, Tcp::ACK][random.below(3) as usize];
            Frame::tcp(from, to, flags, (1, 2), 0).bytes()
        }
        _ => Frame::udp(from, to, 20).bytes(),
    }
}

/// What an action might say, and what an earlier call might have said.
fn values(random: &mut Prng, edits: bool) -> Vec<u128> {
    let asked = [0, flags::COMMIT, flags::COMMIT | flags::FORCE][random.below(3) as usize];
    let state = [0, 0, 0x61, 0xa1][random.below(4) as usize];
    let set = random.below(2) as u128;
    let label = (set * 5) << 100;
    let zone = random.below(2) as u128;
    let mut values = vec![zone, asked.into(), set * 7, set * 0xff, label, label, state, zone];
    if edits {
        let first = u128::from(u32::from(Ipv4Addr::new(10, 0, 0, 9)));
        values.extend(match random.below(3) {
            0 => [u128::from(kind::EXISTING), 0, 0, 0, 0],
            1 => [u128::from(kind::SOURCE), first, first, 1000, 1001],
            // Addresses that are no range.
            _ => [u128::from(kind::SOURCE), first, first - 1, 0, 0],
        });
    }
    values
}

#[test]
fn together_and_alone_are_told_the_same() {
    let mut random = Prng::new(11);
    let (together, alone) = (tracked(), tracked());
    let (mut passed, mut dropped, mut edited) = (0, 0, 0);
    for round in 0..400u64 {
        // Nothing expires meanwhile: how far that is done between packets is no part of what they are told.
        let now_ns = round * 1_000_000;
        let service = declared(random.below(2) == 0);
        let calls: Vec<(Vec<u8>, Vec<Bits>)> = (0..1 + random.below(40))
            .map(|_| {
                let values = values(&mut random, service.edits);
                let widths = service.args.iter().map(|a| a.width);
                let args = values.iter().zip(widths).map(|(v, w)| Bits::from_u128(*v, w));
                (frame(&mut random), args.collect())
            })
            .collect();
        let csums: Vec<Csum> = calls
            .iter()
            .map(|_| if random.below(2) == 0 { Csum::None } else { Csum::Valid })
            .collect();
        let mut frames: Vec<Vec<u8>> = calls.iter().map(|(frame, _)| frame.clone()).collect();
        let words: Vec<Vec<u64>> = calls
            .iter()
            .map(|(_, args)| args.iter().flat_map(|arg| arg.limbs().to_vec()).collect())
            .collect();
        let all: usize = service.results.iter().map(|r| r.width.div_ceil(64) as usize).sum();
        let mut results = vec![vec![0u64; all]; calls.len()];
        let mut handed: Vec<Handed<'_>> = Vec::new();
        for (packet, ((bytes, args), results)) in
            frames.iter_mut().zip(&words).zip(&mut results).enumerate()
        {
            handed.push(Handed { packet, bytes, args, results, passes: true, left: false });
        }
        let burst = Burst { service: &service, csums: &csums, marks: &[], now_ns, leaves: false };
        together.burst(burst, &mut handed);
        let passes: Vec<bool> = handed.iter().map(|handed| handed.passes).collect();
        drop(handed);
        for (at, (frame, args)) in calls.iter().enumerate() {
            let mut packet = frame.clone();
            let mut right: Vec<Bits> =
                service.results.iter().map(|r| Bits::zero(r.width)).collect();
            let (service, csum) = (&service, csums[at]);
            let call =
                Call { service, args, packet: &mut packet, csum, now_ns, look: false, news: None };
            let passed_alone = alone.call(call, &mut right);
            assert_eq!((passes[at], &frames[at]), (passed_alone, &packet), "round {round}, {at}");
            let right: Vec<u64> = right.iter().flat_map(|r| r.limbs().to_vec()).collect();
            if passed_alone {
                assert_eq!(results[at], right, "round {round}, {at}");
            }
            passed += u32::from(passed_alone);
            dropped += u32::from(!passed_alone);
            edited += u32::from(packet != *frame);
        }
    }
    let counters = |services: &Services| services.connections().map(|c| c.counters());
    assert_eq!(counters(&together), counters(&alone));
    assert!(passed > 1000 && dropped > 100 && edited > 100, "{passed} {dropped} {edited}");
}

/// An adapter's table of 1,024 flows, some of them with the mark of another connection or of one that is gone: packets leave where they
/// leave without it.
#[test]
fn an_adapter_that_marks_flows_changes_nothing_but_the_search() {
    let (mut with, mut without) = (Switch::new(60), Switch::new(60));
    let (port, far) = memory::port("hints", memory::Config::default()).unwrap();
    let mut adapter = Adapter::new(Box::new(port), ENTRIES);
    let (marks, mut rx) = (adapter.marks().unwrap(), adapter.rx_queue(0).unwrap());
    let (mut random, mut pool) = (Prng::new(9), Pool::new());
    let mut flows: Vec<Flow> = Vec::new();
    for round in 0..600u64 {
        // Some connections end on the way.
        let now_ns = round * 1_000_000_000;
        let mut frames: Vec<Vec<u8>> = (0..32).map(|_| frame(&mut random)).collect();
        frames.iter().for_each(|frame| assert!(far.inject_bytes(frame)));
        let mut burst = port::Burst::new();
        assert_eq!(rx.rx(&mut burst, &mut pool).unwrap(), frames.len());
        let mut same = frames.clone();
        let right = without.burst(&mut same, now_ns);
        let seen = burst.marks().map(<[Mark]>::to_vec).unwrap_or_default();
        assert_eq!(with.burst_marked(&mut frames, &seen, now_ns), right, "round {round}");
        assert_eq!(frames, same);
        burst.recycle(&mut pool);
        let tracker = with.services.connections().unwrap();
        for flow in frames.iter().filter_map(|frame| Flow::of(frame)) {
            let bits = |address: IpAddr| match address {
                IpAddr::V4(address) => u128::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits(),
            };
            let tuple = Tuple {
                src: bits(flow.src),
                dst: bits(flow.dst),
                src_port: flow.src_port,
                dst_port: flow.dst_port,
                zone: 5,
                protocol: flow.protocol,
                v6: flow.src.is_ipv6(),
                role: Role::Any,
            };
            flows.push(flow);
            let other = flows[random.below(flows.len() as u64) as usize];
            let flow = if random.below(8) == 0 { other } else { flow };
            if let Some(mark) = tracker.hint(&tuple) {
                marks.set(flow, mark).unwrap();
            }
        }
    }
    let counters = |s: &Switch| s.services.connections().map(|c| c.counters()).unwrap();
    let (mut with, without) = (counters(&with), counters(&without));
    assert!(with.hints_used > 3000 && with.hints_stale > 300, "{with:?}");
    (with.hints_used, with.hints_stale) = (0, 0);
    assert_eq!(with, without);
}

/// Packets that belong to a connection leave by port 2, others by port 1; all connections are kept.
const FIREWALL: &str = "\
use std
service ct(zone: 16, flags: 8, mark: 32, mark_mask: 32, label: 128, label_mask: 128, state: 8, tracked_zone: 16) \
-> (state: 32, mark: 32, label: 128, zone: 16, nw_src: 32, nw_dst: 32, ipv6_src: 128, ipv6_dst: 128, \
nw_proto: 8, tp_src: 16, tp_dst: 16)
meta ct_state: 32
action look { service ct(5, 1, 0, 0, 0, 0, 0, 0) -> ct_state; output ct_state[1:1] == 1 ? 2 : 1 }
table t { key eth.type exact; default look; capacity 16 }
block start { apply t }
block done { end }
";

struct Switch {
    forward: Arc<dyn Forward>,
    _engine: JitEngine,
    counters: WorkerCounters,
    scratch: Scratch,
    services: Services,
    ports: PortTable,
    random: Prng,
}

impl Switch {
    fn new(connections: usize) -> Switch {
        Switch::of(FIREWALL, connections)
    }

    fn of(text: &str, connections: usize) -> Switch {
        let pipeline = ir::text::pipeline(text).unwrap();
        let arena = Arc::new(CounterArena::new(1 << 10));
        let program = pipeline.program().clone();
        let made = JitEngine::new(program, 1, arena.clone(), Options::default());
        let (engine, forward) = made.unwrap();
        let mut services = Services::default();
        services.track(Config::new(connections, 3));
        Switch {
            forward,
            _engine: engine,
            counters: arena.worker(),
            scratch: Scratch::default(),
            services,
            ports: PortTable::default(),
            random: Prng::new(1),
        }
    }

    /// Where packets go that compiled code takes; `None` for those that it leaves.
    fn burst(&mut self, frames: &mut [Vec<u8>], now_ns: u64) -> Vec<Option<u32>> {
        self.burst_marked(frames, &[], now_ns)
    }

    /// The same, of packets of which their port has said something.
    fn burst_marked(
        &mut self,
        frames: &mut [Vec<u8>],
        marks: &[Mark],
        now_ns: u64,
    ) -> Vec<Option<u32>> {
        let mut packets: Vec<abi::Packet<'_>> = frames
            .iter_mut()
            .map(|frame| {
                let len = frame.len();
                abi::Packet::new(frame, 0, len, 1)
            })
            .collect();
        let mut serving = self.services.serve(&[], now_ns).marked(marks);
        let mut random = Prng::new(0);
        let answers = (&mut serving as &mut _, &mut random as &mut _);
        let (state, live) = (self.forward.state(), self.ports.live());
        let mut counts = Counts::new(0, state, &self.counters, answers, live, now_ns);
        self.forward.burst(&mut self.scratch, &mut packets, &mut counts, now_ns);
        let gone = |p: &abi::Packet<'_>| p.outputs().first().map(|o| o.port);
        packets.iter().map(|p| (p.status != abi::status::BAIL).then(|| gone(p)).flatten()).collect()
    }

    /// Where a packet goes by the interpreter.
    fn alone(&mut self, bytes: &[u8], now_ns: u64) -> Option<u32> {
        self.sent_alone(bytes, now_ns).map(|(port, _)| port)
    }

    /// The same, and what goes there.
    fn sent_alone(&mut self, bytes: &[u8], now_ns: u64) -> Option<(u32, Vec<u8>)> {
        let mut state = State {
            worker: 0,
            forward: &*self.forward,
            counters: &self.counters,
            ports: &self.ports,
            random: &mut self.random,
            services: &self.services,
            received: bytes,
            csum: Csum::None,
            now_ns,
            late: None,
        };
        let input = Input { bytes, in_port: 1, now_ns, start: Start::Pipeline };
        let mut sink = Collect::default();
        self.forward.run(&mut self.scratch, input, &mut state, &mut sink);
        sink.outputs.first().map(|o| (o.port, o.bytes.to_vec()))
    }
}

#[test]
fn compiled_code_takes_packets_through_the_tracker() {
    let (mut compiled, mut interpreted) = (Switch::new(500), Switch::new(500));
    let mut random = Prng::new(5);
    let mut est = 0;
    for round in 0..500u64 {
        let mut frames: Vec<Vec<u8>> = (0..32).map(|_| frame(&mut random)).collect();
        let now_ns = round * 1_000_000;
        let right: Vec<Option<u32>> =
            frames.iter().map(|frame| interpreted.alone(frame, now_ns)).collect();
        // One call on each way: a burst is the same as its packets in order.
        assert_eq!(compiled.burst(&mut frames, now_ns), right, "round {round}");
        est += right.iter().filter(|port| **port == Some(2)).count();
    }
    assert!(est > 1000, "{est}");
    let counters = |s: &Switch| s.services.connections().map(|c| c.counters());
    assert_eq!(counters(&compiled), counters(&interpreted));
}

/// A firewall of two calls: the first looks, and the second keeps what is new. Port 1 is for what is new, 2 for what is known, 3 for
/// what makes no sense, 4 for what has a mark, which the second call gives.
const TWO_CALLS: &str = "\
use std
service ct(zone: 16, flags: 8, mark: 32, mark_mask: 32, label: 128, label_mask: 128, state: 8, tracked_zone: 16) \
-> (state: 32, mark: 32, label: 128, zone: 16, nw_src: 32, nw_dst: 32, ipv6_src: 128, ipv6_dst: 128, \
nw_proto: 8, tp_src: 16, tp_dst: 16)
meta ct_state: 32
meta ct_mark: 32
action look {
  service ct(5, 0, 0, 0, 0, 0, 0, 0) -> ct_state, ct_mark
  if ct_state[0:0] == 1 {
    service ct(5, 1, 9, 255, 0, 0, 0, 0) -> ct_state
    output ct_mark == 0 ? 1 : 4
  } else { output ct_state[4:4] == 1 ? 3 : 2 }
}
table t { key eth.type exact; default look; capacity 16 }
block start { apply t }
block done { end }
";

/// What a request keeps by its second call is there for its answer, its repetition and its later fragments, also where they come
/// in one burst: they are left, and come alone.
#[test]
fn what_a_packet_keeps_is_seen_by_those_behind_it_in_the_burst() {
    let (mut compiled, mut interpreted) =
        (Switch::of(TWO_CALLS, 4000), Switch::of(TWO_CALLS, 4000));
    let mut random = Prng::new(8);
    let (mut sums, mut left) = ([0; 5], 0);
    for round in 0..300u64 {
        let end = |n: u64| (IpAddr::from([10, 0, (round % 250) as u8, n as u8]), 7);
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for ident in 0..12 {
            let (from, to) = (end(random.below(4)), end(10 + random.below(2)));
            let udp = |from, to| Frame::udp(from, to, 40);
            match random.below(4) {
                0 => frames.extend([udp(from, to).bytes(), udp(to, from).bytes()]),
                1 => frames.push(udp(from, to).error(to.0, 3, 1, 28).bytes()),
                2 => {
                    let whole = udp(from, to);
                    let body = whole.bytes()[34..].to_vec();
                    for (at, more) in [(0, true), (16, true), (32, false)] {
                        let mut part = whole.clone();
                        part.body = body[at..body.len().min(at + 16)].to_vec();
                        part.fragment = (ident + 1, (at / 8) as u16 | u16::from(more) << 13);
                        frames.push(part.bytes());
                    }
                }
                _ => frames.push(udp(from, to).bytes()),
            }
        }
        let now_ns = round * 60_000_000_000;
        let right: Vec<Option<u32>> =
            frames.iter().map(|frame| interpreted.alone(frame, now_ns)).collect();
        let mut told = Vec::new();
        for part in frames.chunks(32) {
            let mut same = part.to_vec();
            let first = compiled.burst(&mut same, now_ns);
            assert_eq!(same, part, "round {round}: nothing was written");
            let second = first.into_iter().zip(part).map(|(port, frame)| {
                left += u32::from(port.is_none());
                port.or_else(|| compiled.alone(frame, now_ns))
            });
            told.extend(second);
        }
        assert_eq!(told, right, "round {round}");
        right.iter().flatten().for_each(|port| sums[*port as usize] += 1);
    }
    assert!(sums[1] > 500 && sums[2] > 300 && sums[4] > 300, "{sums:?}");
    assert!(left > 1000, "{left}");
    let kept = |s: &Switch| s.services.connections().map(|c| c.counters().connections_opened);
    assert_eq!(kept(&compiled), kept(&interpreted));
}

/// Two stages, each of which changes what the next one's parser looks at, or does not.
const STAGES: &str = "\
use std
service looks(stage: 8) -> (said: 8)
meta stage: 8
meta said: 8
action step {
  if stage == 0 {
    CHANGE; ipv4.ttl = ipv4.ttl - 1
    service looks(stage) -> said
    stage = stage + 1
    recirculate stage
  } else { ipv4.ttl = ipv4.ttl - 1; output valid(udp) ? 3 : 2 }
}
table t { key stage exact; default step; capacity 16 }
block start { apply t hit done miss done }
block done { end }
";

/// As [`STAGES`], but what changes a packet stands behind the goto that leads to the service's table.
const GOTO: &str = "\
use std
service looks(stage: 8) -> (said: 8)
meta stage: 8
meta said: 8
action step { if stage == 0 && std.in_port != 7 { goto call }; if stage == 0 { CHANGE }; ipv4.ttl = ipv4.ttl - 1 }
action hand { service looks(stage) -> said; stage = stage + 1; recirculate stage }
table t { key stage exact; default step; capacity 16 }
table u { key stage exact; default hand; capacity 16 }
block start { apply t hit done miss done }
block call { apply u hit done miss done }
block done { output valid(udp) ? 3 : 2; end }
";

#[test]
fn a_packet_that_was_changed_goes_on_in_code_behind_a_service() {
    let change = "ipv4.proto = ipv4.proto == 6 ? 17 : 6";
    let all = [
        (STAGES, "eth.src = eth.dst"),
        (STAGES, change),
        (GOTO, "eth.src = eth.dst"),
        (GOTO, change),
    ];
    for (text, change) in all {
        let text = text.replace("CHANGE", change);
        let (mut compiled, mut interpreted) = (Switch::of(&text, 5), Switch::of(&text, 5));
        let mut random = Prng::new(6);
        let (mut ports, mut turned) = ([0; 4], 0);
        for round in 0..50 {
            let mut frames: Vec<Vec<u8>> = (0..32).map(|_| frame(&mut random)).collect();
            let right: Vec<_> =
                frames.iter().map(|frame| interpreted.sent_alone(frame, round)).collect();
            let v4: Vec<bool> = frames.iter().map(|f| f[12..14] == [8, 0]).collect();
            let before = frames.clone();
            let gone = compiled.burst(&mut frames, round);
            for (at, right) in right.into_iter().enumerate() {
                // Code takes all of them, so also those that are another protocol's now.
                let made = gone[at].map(|port| (port, frames[at].clone()));
                assert_eq!(made, right, "{change}: {:02x?}", before[at]);
                let Some((port, bytes)) = right else { continue };
                ports[port as usize] += 1;
                if v4[at] {
                    assert_eq!(bytes[22], before[at][22] - 2);
                    turned += u32::from(bytes[23] != before[at][23]);
                }
            }
        }
        assert!(ports[2] > 100 && ports[3] > 100, "{change}: {ports:?}");
        assert_eq!(turned > 100, change.contains("proto"));
    }
}

/// `cargo test -p datapath --test services -- --ignored --nocapture`
#[test]
#[ignore = "prints what a packet costs"]
fn price() {
    for connections in [1u32, 1000, 1_000_000] {
        let mut switch = Switch::new(connections as usize + 10);
        let end = |n: u32| {
            (IpAddr::from([10, (n >> 14) as u8, (n >> 6) as u8, 1]), (n & 63) as u16 + 1000)
        };
        let server = (IpAddr::from([192, 168, 0, 1]), 80);
        let frames = |n: u32| {
            let at = n.wrapping_mul(0x9e37_79b1) % connections;
            [Frame::udp(end(at), server, 18).bytes(), Frame::udp(server, end(at), 18).bytes()]
        };
        let mut bursts: Vec<Vec<Vec<u8>>> = Vec::new();
        let count = connections.clamp(1 << 15, 1 << 20);
        for first in (0..count).step_by(16) {
            bursts.push((first..first + 16).flat_map(frames).collect());
        }
        for at in 0..connections {
            let mut both =
                [Frame::udp(end(at), server, 18).bytes(), Frame::udp(server, end(at), 18).bytes()];
            switch.burst(&mut both, 0);
        }
        let packets = 32 * bursts.len() as u64;
        let mut times = Vec::new();
        for round in 1..=5u64 {
            let began = std::time::Instant::now();
            for burst in &mut bursts {
                let gone = switch.burst(burst, round * 1_000_000);
                assert!(gone.iter().all(|port| *port == Some(2)));
            }
            times.push(began.elapsed().as_nanos() as u64 / packets);
        }
        times.sort_unstable();
        let began = std::time::Instant::now();
        let some = &bursts[..bursts.len().min(2000)];
        for frame in some.iter().flatten() {
            assert_eq!(switch.alone(frame, 6_000_000), Some(2));
        }
        let alone = began.elapsed().as_nanos() as u64 / (32 * some.len() as u64);
        println!("{connections} connections: compiled {} ns, interpreted {alone} ns", times[2]);
    }
}
