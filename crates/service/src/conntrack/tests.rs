//! The tracker as a whole: against a list of connections, and hostile cases one by one.

use super::lists::Queue;
use super::record::{Notes, Progress};
use super::time::{deadline_after, deadline_of, ticks};
use super::*;
use crate::craft::Frame;
use crate::packet::Checksum;
use std::net::IpAddr;
use wire::tcp::Flags as Tcp;

mod alg;
mod apart;
mod closed;
mod fence;

const SECOND: u64 = 1_000_000_000;

fn v4(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn v6(n: u16) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n])
}

/// One packet through the tracker.
fn one(tracker: &mut Tracker, now_ns: u64, request: &Request, frame: &Frame) -> Outcome {
    let mut bytes = frame.bytes();
    let mut outcome = [Outcome::default()];
    tracker.process(now_ns, request, &mut [Packet::of(&mut bytes)], &mut outcome);
    outcome[0]
}

fn commit() -> Request {
    Request { commit: true, ..Request::default() }
}

fn names(outcome: Outcome) -> String {
    outcome.state.to_string()
}

const QUEUE_KINDS: [Queue; lists::QUEUES] = [
    Queue::SynSent,
    Queue::SynReceived,
    Queue::PickedUp,
    Queue::Sctp,
    Queue::Udp,
    Queue::Icmp,
    Queue::Other,
    Queue::TimeWait,
    Queue::Closed,
];

/// The plainest tracker: a list, read from its beginning. It judges TCP by the same rules, which
/// `lab/conntrack` checks, and leaves all else out: no index, no lists, no wheel.
#[derive(Default)]
struct Plain {
    connections: Vec<PlainConnection>,
    /// Counts placements in queues, so that the oldest is known.
    placed: u64,
}

struct PlainConnection {
    original: Tuple,
    deadline: u32,
    replied: bool,
    assured: bool,
    state: u8,
    progress: Progress,
    notes: Notes,
    mark: u32,
    label: u128,
    queue: Option<Queue>,
    placed: u64,
}

impl Plain {
    /// Takes back what the tracker would: of a queue, only what nothing older stands before.
    fn reclaim(&mut self, now: u32) {
        self.connections.retain(|c| c.deadline > now || c.queue.is_some());
        loop {
            let heads = QUEUE_KINDS.into_iter().filter_map(|queue| self.head(queue));
            let Some(at) = heads.into_iter().find(|at| self.connections[*at].deadline <= now)
            else {
                return;
            };
            self.connections.remove(at);
        }
    }

    /// The oldest of a queue.
    fn head(&self, queue: Queue) -> Option<usize> {
        (0..self.connections.len())
            .filter(|at| self.connections[*at].queue == Some(queue))
            .min_by_key(|at| self.connections[*at].placed)
    }

    fn packet(
        &mut self,
        config: &Config,
        now_ns: u64,
        request: &Request,
        packet: &Packet<'_>,
    ) -> Outcome {
        let now = ticks(now_ns);
        let invalid = Outcome { state: CtState::INVALID | CtState::TRACKED, ..Outcome::default() };
        let tuple = match parse::subject(packet, request.zone, true) {
            Subject::Flow { tuple, .. } => tuple,
            Subject::Error { tuple } => {
                self.connections.retain(|c| c.deadline > now || c.way(&tuple).is_none());
                let found = self.connections.iter().find_map(|c| c.way(&tuple).map(|way| (c, way)));
                let Some((connection, way)) = found else { return invalid };
                let mut state = CtState::RELATED | CtState::TRACKED;
                if way == Direction::Reply {
                    state |= CtState::REPLY;
                }
                let PlainConnection { mark, label, .. } = *connection;
                return Outcome { state, mark, label, ..Outcome::default() };
            }
            Subject::Untracked => return Outcome::default(),
            _ => return invalid,
        };
        self.connections.retain(|c| c.deadline > now || c.way(&tuple).is_none());
        let forced = request.force && request.commit;
        self.connections.retain(|c| !(forced && c.way(&tuple) == Some(Direction::Reply)));
        if let Some(at) = self.connections.iter().position(|c| c.way(&tuple).is_some()) {
            let connection = &mut self.connections[at];
            let direction = connection.way(&tuple).unwrap();
            let mut timeout = None;
            let mut forget = false;
            let mut judged = true;
            if tuple.protocol == IpProtocol::TCP {
                let Some(segment) = tcp::Segment::parse(parse::payload(packet)) else {
                    return invalid;
                };
                let known = tcp::Known { replied: connection.replied, assured: connection.assured };
                let state = tcp::State::from_number(connection.state);
                let arrival = tcp::Arrival { state, direction, segment: &segment, known };
                let (progress, notes) = (&mut connection.progress, &mut connection.notes);
                let decision =
                    tcp::segment(progress, notes, arrival, config.tcp_rules(&config.timeouts));
                match decision {
                    tcp::Decision::Accept { state, timeout: t, assured } => {
                        (connection.state, timeout) = (state as u8, t);
                        connection.assured |= assured;
                    }
                    tcp::Decision::Ignore => judged = false,
                    tcp::Decision::Forget => forget = true,
                    tcp::Decision::Reopen => {
                        self.connections.remove(at);
                        return self.open(config, now_ns, request, packet, tuple);
                    }
                    tcp::Decision::Invalid { shorten } => {
                        if shorten && connection.deadline - now > deadline_after(300) {
                            connection.refresh(now_ns, 300, &mut self.placed);
                        }
                        return invalid;
                    }
                }
            } else if tuple.protocol == IpProtocol::UDP {
                let stream = connection.replied && now > connection.notes.last_end;
                connection.assured |= stream;
                timeout =
                    Some(if stream { config.timeouts.udp_stream } else { config.timeouts.udp });
            } else {
                timeout = Some(if tuple.is_query() { 30 } else { config.timeouts.other });
            }
            if let Some(timeout) = timeout.filter(|_| judged) {
                connection.refresh(now_ns, timeout, &mut self.placed);
            }
            if request.commit {
                connection.exec(request);
            }
            let mut state = CtState::TRACKED;
            match direction {
                Direction::Reply => state |= CtState::ESTABLISHED | CtState::REPLY,
                Direction::Original if connection.replied => state |= CtState::ESTABLISHED,
                Direction::Original => state |= CtState::NEW,
            }
            connection.replied |= direction == Direction::Reply;
            let (mark, label) = (connection.mark, connection.label);
            connection.requeue(&mut self.placed);
            if forget {
                self.connections.remove(at);
            }
            return Outcome { state, mark, label, ..Outcome::default() };
        }
        self.open(config, now_ns, request, packet, tuple)
    }

    fn open(
        &mut self,
        config: &Config,
        now_ns: u64,
        request: &Request,
        packet: &Packet<'_>,
        original: Tuple,
    ) -> Outcome {
        let invalid = Outcome { state: CtState::INVALID | CtState::TRACKED, ..Outcome::default() };
        if original.role == Role::Reply {
            return invalid;
        }
        let mut connection = PlainConnection {
            original,
            deadline: 0,
            replied: false,
            assured: false,
            state: 0,
            progress: Progress::NEW,
            notes: Notes::NEW,
            mark: 0,
            label: 0,
            queue: None,
            placed: 0,
        };
        let mut seconds = match original.protocol {
            IpProtocol::UDP => config.timeouts.udp,
            _ if original.is_query() => config.timeouts.icmp,
            _ => config.timeouts.other,
        };
        connection.notes.last_end = ticks(now_ns) + deadline_after(2);
        if original.protocol == IpProtocol::TCP {
            connection.notes.last_end = 0;
            let Some(segment) = tcp::Segment::parse(parse::payload(packet)) else { return invalid };
            if !tcp::open(&mut connection.progress, &segment, &config.tcp) {
                return invalid;
            }
            let known = tcp::Known { replied: false, assured: false };
            let (state, direction) = (tcp::State::None, Direction::Original);
            let first = tcp::Arrival { state, direction, segment: &segment, known };
            let (progress, notes) = (&mut connection.progress, &mut connection.notes);
            let decision = tcp::segment(progress, notes, first, config.tcp_rules(&config.timeouts));
            let tcp::Decision::Accept { state, timeout, .. } = decision else { return invalid };
            connection.state = state as u8;
            seconds = timeout.unwrap();
        }
        let state = CtState::NEW | CtState::TRACKED;
        if !request.commit {
            return Outcome { state, ..Outcome::default() };
        }
        let is_half_open = |c: &&PlainConnection| c.queue.is_some_and(Queue::is_half_open);
        let mut evicts =
            self.connections.iter().filter(is_half_open).count() >= config.half_open_max;
        if !evicts && self.connections.len() >= config.connections_max {
            match self.head(Queue::Closed).or_else(|| self.head(Queue::TimeWait)) {
                Some(closed) => drop(self.connections.remove(closed)),
                None => evicts = true,
            }
        }
        if evicts {
            let len = |q| self.connections.iter().filter(|c| c.queue == Some(q)).count();
            // The tracker takes the last of the longest; so does this.
            let open = QUEUE_KINDS.into_iter().filter(|queue| queue.is_half_open());
            let longest = open.max_by_key(|q| len(*q)).unwrap();
            let oldest = self.head(longest);
            let Some(oldest) = oldest else {
                return Outcome { state, drop: Some(Drop::TableFull), ..Outcome::default() };
            };
            self.connections.remove(oldest);
        }
        connection.deadline = deadline_of(now_ns, seconds);
        connection.exec(request);
        connection.requeue(&mut self.placed);
        let (mark, label) = (connection.mark, connection.label);
        self.connections.push(connection);
        Outcome { state, mark, label, ..Outcome::default() }
    }
}

impl PlainConnection {
    fn way(&self, tuple: &Tuple) -> Option<Direction> {
        if *tuple == self.original {
            return Some(Direction::Original);
        }
        (*tuple == self.original.inverted()).then_some(Direction::Reply)
    }

    fn exec(&mut self, request: &Request) {
        if let Some((value, mask)) = request.mark {
            self.mark = self.mark & !mask | value & mask;
        }
        if let Some((value, mask)) = request.label {
            self.label = self.label & !mask | value & mask;
        }
    }

    fn kind(&self) -> Option<Queue> {
        match self.original.protocol {
            IpProtocol::TCP => match tcp::State::from_number(self.state) {
                tcp::State::SynReceived => Some(Queue::SynReceived),
                state if state.is_handshake() => Some(Queue::SynSent),
                _ if !self.replied => Some(Queue::PickedUp),
                tcp::State::TimeWait => Some(Queue::TimeWait),
                tcp::State::Closed => Some(Queue::Closed),
                _ => None,
            },
            _ if self.replied => None,
            IpProtocol::UDP => Some(Queue::Udp),
            _ if self.original.is_query() => Some(Queue::Icmp),
            _ => Some(Queue::Other),
        }
    }

    fn requeue(&mut self, placed: &mut u64) {
        let kind = self.kind();
        if kind != self.queue || self.placed == 0 {
            (self.queue, self.placed) = (kind, *placed + 1);
            *placed += 1;
        }
    }

    fn refresh(&mut self, now_ns: u64, seconds: u32, placed: &mut u64) {
        let deadline = deadline_of(now_ns, seconds);
        if self.queue.is_some() {
            let kind = self.kind();
            if deadline < self.deadline || deadline - self.deadline > deadline_after(1) {
                (self.deadline, self.queue, self.placed) = (deadline, kind, *placed + 1);
                *placed += 1;
            }
            return;
        }
        self.deadline = deadline;
    }
}

/// Random packets of few ends, at random times, in random zones, kept or not: the tracker says what the
/// list says, and holds what it holds.
#[test]
fn agrees_with_a_list_of_connections() {
    for seed in 0..6_u64 {
        let mut config = Config::new(if seed % 2 == 0 { 1000 } else { 12 }, seed);
        config.half_open_max = if seed % 3 == 0 { 8 } else { 1000 };
        let (mut tracker, mut plain) = (Tracker::new(config.clone(), 0), Plain::default());
        let mut random = Random(seed + 100);
        let mut now_ns = 0;
        for step in 0..6000 {
            if random.below(3) == 0 {
                let span = SECOND << random.below(8);
                now_ns += random.below(span);
            }
            let is_v6 = random.below(3) == 0;
            let end = |n: u64| if is_v6 { v6(n as u16) } else { v4(n as u8) };
            let (mut src, mut dst) = ((end(1), 1000 + random.below(3) as u16), (end(2), 80));
            if random.below(2) == 0 {
                (src, dst) = (dst, src);
            }
            let flags = [Tcp::SYN, Tcp::SYN | Tcp::ACK, Tcp::ACK, Tcp::FIN | Tcp::ACK, Tcp::RST];
            let frame = match random.below(12) {
                0..6 => {
                    let numbers = (random.below(3) as u32 * 500, random.below(3) as u32 * 500);
                    let flags = flags[random.below(5) as usize];
                    Frame::tcp(src, dst, flags, numbers, random.below(2) as usize * 100)
                }
                6..9 => Frame::udp(src, dst, 4),
                9 => {
                    let kinds = if is_v6 { [128, 129] } else { [8, 0] };
                    let kind = kinds[random.below(2) as usize];
                    Frame::icmp(src.0, dst.0, kind, 0, (random.below(2) as u32) << 16, b"")
                }
                10 => Frame::new(src.0, dst.0, IpProtocol::GRE, vec![0; 8]),
                _ => Frame::udp(src, dst, 4).error(dst.0, if is_v6 { 1 } else { 3 }, 1, 100),
            };
            let request = Request {
                zone: random.below(2) as u16,
                commit: random.below(4) != 0,
                force: random.below(16) == 0,
                mark: (random.below(4) == 0).then(|| (random.next() as u32, 0xffff)),
                label: (random.below(4) == 0).then(|| (u128::from(random.next()) << 60, !1)),
                ..Request::default()
            };
            let mut bytes = frame.bytes();
            let packet = Packet::of(&mut bytes);
            // The tracker may already have taken an expired one's memory back; a list must, too, for
            // both to be as full.
            while tracker.expire(now_ns, 100) {}
            plain.reclaim(ticks(now_ns));
            let want = plain.packet(&config, now_ns, &request, &packet);
            let mut got = one(&mut tracker, now_ns, &request, &frame);
            let told = got.original.take();
            assert_eq!(told.is_some(), got.drop.is_none() && got.state.0 & !0x30 != 0);
            assert_eq!(got, want, "seed {seed}, step {step}: {frame:?} {request:?}");
            if step % 50 == 0 {
                let mut held: Vec<_> = tracker
                    .connections(now_ns)
                    .map(|c| (format!("{:?}", c.original), c.mark, c.label, c.replied, c.assured))
                    .collect();
                let mut want: Vec<_> = plain
                    .connections
                    .iter()
                    .filter(|c| c.deadline > ticks(now_ns))
                    .map(|c| (format!("{:?}", c.original), c.mark, c.label, c.replied, c.assured))
                    .collect();
                held.sort();
                want.sort();
                assert_eq!(held, want, "seed {seed}, step {step}");
                let queued = |c: &&PlainConnection| c.queue.is_some_and(Queue::is_half_open);
                let queued = plain.connections.iter().filter(queued).count();
                assert_eq!(tracker.half_open(), queued);
            }
        }
        let counters = *tracker.counters();
        let packets: u64 = counters.all().take(8).map(|(_, n)| n).sum();
        assert_eq!(packets, 6000);
        assert!(counters.established > 100 && counters.related > 10 && counters.invalid > 100);
        assert!(seed % 3 != 0 || counters.half_open_evicted > 50, "{counters:?}");
        assert!(seed % 2 == 0 || counters.table_full + counters.half_open_evicted > 0);
        while tracker.expire(u64::MAX >> 1, 1000) {}
        assert!(tracker.is_empty());
    }
}

/// A burst is judged as its packets would be one by one, also when a connection comes, answers, goes
/// and comes again within it.
#[test]
fn a_burst_is_as_good_as_its_packets() {
    let mut random = Random(3);
    let (mut whole, mut single) =
        (Tracker::new(Config::new(50, 1), 0), Tracker::new(Config::new(50, 1), 0));
    for round in 0..300 {
        let now_ns = round * SECOND / 4;
        let mut frames: Vec<Vec<u8>> = (0..random.below(100))
            .map(|_| {
                let (mut src, mut dst) = ((v4(1), random.below(20) as u16), (v4(2), 80));
                if random.below(2) == 0 {
                    (src, dst) = (dst, src);
                }
                let flags = [Tcp::SYN, Tcp::SYN | Tcp::ACK, Tcp::ACK, Tcp::RST];
                let flags = flags[random.below(4) as usize];
                Frame::tcp(src, dst, flags, (0, 1), 0).bytes()
            })
            .collect();
        let mut want = vec![Outcome::default(); frames.len()];
        for (frame, outcome) in frames.iter_mut().zip(&mut want) {
            let mut outcomes = [Outcome::default()];
            single.process(now_ns, &commit(), &mut [Packet::of(frame)], &mut outcomes);
            *outcome = outcomes[0];
        }
        let mut got = vec![Outcome::default(); frames.len()];
        let mut packets: Vec<Packet<'_>> = frames.iter_mut().map(|f| Packet::of(f)).collect();
        whole.process(now_ns, &commit(), &mut packets, &mut got);
        assert_eq!(got, want);
    }
    assert_eq!(whole.counters().established, single.counters().established);
    assert!(whole.counters().connections_closed > 100);
}

/// Conversations over TCP and UDP, mostly in order, with losses, repetitions, segments from elsewhere, closed windows, ends and new
/// beginnings: one tracker takes them the short way where it can, the other never (its action sets a label to what it is).
/// Both tell and keep the same.
#[test]
fn the_short_way_is_as_good_as_the_long_one() {
    let mut random = Random(5);
    let config = || Config { half_open_max: 40, ..Config::new(50, 9) };
    let mut trackers = [Tracker::new(config(), 0), Tracker::new(config(), 0)];
    let long = Request { label: Some((0, 0)), ..commit() };
    // Of each conversation, what each side sends next and has seen of the other.
    let mut sides = [[(0_u32, 0_u32); 2]; 30];
    let mut now_ns = 0;
    // Connections whose last segment was where it needs no place, each of both ways; seen between bursts.
    let mut spared = [0; 2];
    for round in 0..6000 {
        now_ns += [1, SECOND / 10, 3 * SECOND, 200 * SECOND][random.below(4) as usize]
            * random.below(2)
            / (1 + round % 7);
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for _ in 0..=random.below(40) {
            let n = random.below(30) as usize;
            // Of some, only one side is seen.
            let me = if (18..22).contains(&n) { 0 } else { random.below(2) as usize };
            let ends = [(v4(1), 1000 + n as u16), (v4(2), 80)];
            let (from, to) = (ends[me], ends[1 - me]);
            if n >= 24 {
                frames.push(Frame::udp(from, to, 3).bytes());
                continue;
            }
            let (mut seq, mut ack) = (sides[n][me].0, sides[n][me].1);
            let mut len = [0, 0, 1, 3][random.below(4) as usize];
            let mut flags = Tcp::ACK;
            let mut window = 1000;
            match random.below(60) {
                0 => (flags, seq, len) = (Tcp::SYN, random.next() as u32, 0),
                1 => flags = Tcp::SYN | Tcp::ACK,
                2 => flags = Tcp::FIN | Tcp::ACK,
                3 => (flags, len) = (Tcp::RST, 0),
                4 => seq = seq.wrapping_add(random.below(3000) as u32),
                5 => seq = seq.wrapping_sub(random.below(3000) as u32),
                6 => seq = random.next() as u32,
                7 => ack = random.next() as u32,
                8 => ack = ack.wrapping_add(random.below(5) as u32),
                9 => ack = ack.wrapping_sub(random.below(100_000) as u32),
                10 => window = 0,
                11 => flags = Tcp::ACK | Tcp::PSH | Tcp::URG,
                12 => flags = Tcp(0),
                _ => {}
            }
            let options: &[u8] = match random.below(4) {
                0 => &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
                1 if random.below(8) == 0 => &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9],
                _ => &[],
            };
            frames.push(Frame::tcp_with(from, to, flags, (seq, ack), window, options, len).bytes());
            let takes = u32::from(flags.contains(Tcp::SYN)) + u32::from(flags.contains(Tcp::FIN));
            let end = seq.wrapping_add(len as u32 + takes);
            if random.below(10) != 0 {
                sides[n][me].0 = end;
                sides[n][1 - me].1 = end;
            }
        }
        let [short, long] = [commit(), long].map(|request| {
            let tracker = &mut trackers[usize::from(request.label.is_some())];
            let mut frames = frames.clone();
            let mut outcomes = vec![Outcome::default(); frames.len()];
            let mut packets: Vec<Packet<'_>> = frames.iter_mut().map(|f| Packet::of(f)).collect();
            tracker.process(now_ns, &request, &mut packets, &mut outcomes);
            let progress: Vec<_> = (0..tracker.records.len())
                .map(|at| {
                    let (record, rest) = (&tracker.records[at], &tracker.rests[at]);
                    let progress = record.progress.with(Flags::default());
                    record.flags().has(Flags::LIVE).then(|| (progress, record.notes(rest)))
                })
                .collect();
            (outcomes, progress, tracker.connections(now_ns).collect::<Vec<_>>())
        });
        assert_eq!(short, long, "round {round}");
        for (flag, spared) in [Flags::AT_EDGE, Flags::UNNOTED].into_iter().zip(&mut spared) {
            *spared += trackers[0].records.iter().filter(|record| record.flags().has(flag)).count();
        }
    }
    let [short, long] = trackers;
    assert_eq!(short.counters, long.counters);
    assert!(spared.iter().all(|n| *n > 1000), "{spared:?}");
    let counters = short.counters;
    assert!(counters.established > 20_000 && counters.invalid > 1000, "{counters:?}");
    assert!(counters.connections_closed > 100 && counters.new > 1000, "{counters:?}");
}

/// Hints that are right, of connections that are gone, of other connections, of other trackers, and of nothing: in the same bursts
/// of the same packets as without hints, every packet is told the same, translated the same, and all ends the same.
#[test]
fn hints_change_no_verdict_whatever_they_say() {
    let mut random = Random(77);
    let mut config = Config::new(60, 5);
    (config.translated_max, config.half_open_max) = (60, 30);
    let mut trackers = [Tracker::new(config.clone(), 0), Tracker::new(config, 0)];
    let pools = trackers.each_mut().map(|tracker| {
        let ports = nat::Ports::Range(1, 40);
        tracker.add_pool(nat::Pool::new(v4(200), v4(200), ports).unwrap())
    });
    let (mut now_ns, mut known) = (0, Vec::<Hint>::new());
    for _ in 0..4000 {
        now_ns += random.below(3 * SECOND);
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for _ in 0..=random.below(40) {
            let host = |n: u64| if n & 8 != 0 { v6(n as u16) } else { v4(n as u8) };
            let kind = random.below(2) * 8;
            let (a, b) = (host(kind + random.below(4)), host(kind + random.below(4)));
            let (p, q) = (random.below(3) as u16, random.below(3) as u16);
            let outside = kind == 0 && random.below(4) == 0;
            let to = if outside { (v4(200), random.below(40) as u16) } else { (b, q) };
            frames.push(match random.below(6) {
                0 | 1 => Frame::udp((a, p), to, 3).bytes(),
                2 | 3 => {
                    let flags =
                        [Tcp::SYN, Tcp::ACK, Tcp::SYN | Tcp::ACK, Tcp::FIN | Tcp::ACK, Tcp::RST];
                    let flags = flags[random.below(5) as usize];
                    Frame::tcp((a, p), to, flags, (random.below(3) as u32, 1), 0).bytes()
                }
                4 if kind == 0 => Frame::icmp(a, b, 8 * p as u8, 0, 5, b"x").bytes(),
                _ if kind == 0 => Frame::udp((a, p), (b, q), 3).error(b, 3, 1, 40).bytes(),
                _ => Frame::udp((a, p), (b, q), 3).bytes(),
            });
        }
        let nat = random.below(3);
        let mut told = Vec::new();
        for (which, tracker) in trackers.iter_mut().enumerate() {
            let rule = nat::Rule { source: Some(pools[which]), destination: None };
            let request = Request {
                commit: true,
                nat: [Nat::None, Nat::Existing, Nat::New(rule)][nat as usize],
                ..Request::default()
            };
            let mut frames = frames.clone();
            let mut outcomes = vec![Outcome::default(); frames.len()];
            let mut packets: Vec<Packet<'_>> = frames.iter_mut().map(|f| Packet::of(f)).collect();
            for packet in packets.iter_mut().filter(|_| which == 1) {
                packet.checksum = Checksum::Unknown;
                let generation = tracker.generation;
                let right = parse::subject(packet, 0, false).tuple().and_then(|t| tracker.hint(t));
                known.extend(right);
                let old = known.get(random.below(1 + known.len() as u64) as usize).copied();
                packet.hint = match random.below(7) {
                    0..3 => right.unwrap_or_default(),
                    3 => old.unwrap_or_default(),
                    4 => Hint { mark: random.below(80) as u32, generation },
                    5 => Hint { mark: random.next() as u32, generation },
                    _ => Hint { mark: random.below(60) as u32, generation: random.next() as u32 },
                };
            }
            tracker.process(now_ns, &request, &mut packets, &mut outcomes);
            told.push((outcomes, frames, tracker.len()));
        }
        assert_eq!(told[0], told[1]);
    }
    let [without, with] = trackers;
    let (used, stale) = (with.counters.hints_used, with.counters.hints_stale);
    assert!(used > 5000 && stale > 5000, "{used} {stale}");
    let mut all = with.counters;
    (all.hints_used, all.hints_stale) = (0, 0);
    assert_eq!(all, without.counters);
    assert!(with.connections(now_ns).eq(without.connections(now_ns)));
}

fn handshake(tracker: &mut Tracker, now_ns: u64, port: u16) {
    let (a, b) = ((v4(1), port), (v4(2), 80));
    for (frame, want) in [
        (Frame::tcp(a, b, Tcp::SYN, (100, 0), 0), "+new+trk"),
        (Frame::tcp(b, a, Tcp::SYN | Tcp::ACK, (500, 101), 0), "+est+rpl+trk"),
        (Frame::tcp(a, b, Tcp::ACK, (101, 501), 0), "+est+trk"),
    ] {
        assert_eq!(names(one(tracker, now_ns, &commit(), &frame)), want);
    }
}

/// What `lab/conntrack` showed: a reset from anywhere is believed as the answer to a SYN, which its own side has not sent.
#[test]
fn a_reset_does_not_answer_its_own_sides_syn() {
    let (a, b) = ((v4(1), 1000), (v4(2), 80));
    let opened = [
        Frame::tcp(a, b, Tcp::SYN, (100_000, 0), 0),
        Frame::tcp(b, a, Tcp::SYN | Tcp::ACK, (500_000, 100_001), 0),
        Frame::tcp(a, b, Tcp::ACK, (100_001, 500_001), 0),
        Frame::tcp(a, b, Tcp::SYN, (400_000, 0), 0),
    ];
    // From both sides.
    let both =
        [Frame::tcp(a, b, Tcp::SYN, (100_000, 0), 0), Frame::tcp(b, a, Tcp::SYN, (500_000, 0), 0)];
    let far = Tcp::RST | Tcp::ACK;
    let cases = [
        (&opened[..], Frame::tcp(a, b, far, (10_000, 400_001), 0), tcp::State::Established),
        (&opened[..], Frame::tcp(b, a, far, (410_000, 400_001), 0), tcp::State::Closed),
        (&both[..], Frame::tcp(b, a, Tcp::RST, (410_000, 0), 0), tcp::State::SynSent2),
        (&both[..], Frame::tcp(a, b, Tcp::RST, (10_000, 0), 0), tcp::State::Closed),
    ];
    for (frames, reset, state) in cases {
        let mut tracker = Tracker::new(Config::new(16, 1), 0);
        for frame in frames.iter().chain([&reset]) {
            let said = one(&mut tracker, 0, &commit(), frame).state;
            assert!(!said.contains(CtState::INVALID), "{said}");
        }
        assert_eq!(tracker.connections(0).next().unwrap().tcp, Some(state));
    }
}

/// What `lab/nat` showed: the answer to a heartbeat, seen first, says which tag its sender uses, and nothing of the other's.
#[test]
fn the_answer_to_a_heartbeat_opens_an_association_with_its_own_tag() {
    let sctp = |from: u8, tag: u32, kind: u8, flags: u8, value: &[u8]| {
        let (ports, to) = if from == 1 { ([1000, 2905], 2) } else { ([2905, 1000], 1) };
        let mut body: Vec<u8> = ports.iter().flat_map(|port: &u16| port.to_be_bytes()).collect();
        body.extend(tag.to_be_bytes());
        body.extend([0, 0, 0, 0, kind, flags, 0, 4 + value.len() as u8]);
        body.extend(value);
        Frame::new(v4(from), v4(to), IpProtocol::SCTP, body)
    };
    let (heartbeat_ack, init_ack, abort) = (5, 2, 6);
    let begun = |more: &[u8]| {
        let mut tracker = Tracker::new(Config::new(10, 5), 0);
        let mut first = sctp(1, 7, heartbeat_ack, 0, &[0, 1, 0, 4]);
        first.body.extend(more);
        assert_eq!(names(one(&mut tracker, 0, &commit(), &first)), "+new+trk");
        tracker
    };
    let mut value = [0; 16];
    value[3] = 9;
    for (next, want) in [
        (sctp(1, 7, init_ack, 0, &value), "+new+trk"),
        (sctp(2, 9, heartbeat_ack, 0, &[0, 1, 0, 4]), "+est+rpl+trk"),
        // The T bit says that it is the other's tag, which nobody has told.
        (sctp(1, 7, abort, 1, &[]), "+inv+trk"),
        (sctp(1, 7, abort, 0, &[]), "+new+trk"),
    ] {
        for shutdown in [&[][..], &[7, 0, 0, 8, 0, 0, 0, 0]] {
            let outcome = one(&mut begun(shutdown), 0, &commit(), &next);
            assert_eq!(names(outcome), want, "{next:?} {shutdown:?}");
        }
    }
}

#[test]
fn a_syn_flood_costs_established_connections_nothing() {
    let mut config = Config::new(2000, 5);
    config.half_open_max = 500;
    let mut tracker = Tracker::new(config, 0);
    (0..1000).for_each(|port| handshake(&mut tracker, 0, port));
    let memory = tracker.memory();
    for n in 0..50_000_u32 {
        let forged = IpAddr::from([11, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        let syn = Frame::tcp((forged, 1), (v4(2), 80), Tcp::SYN, (n, 0), 0);
        let outcome = one(&mut tracker, u64::from(n) * 1000, &commit(), &syn);
        assert_eq!((names(outcome).as_str(), outcome.drop), ("+new+trk", None));
        assert!(tracker.half_open() <= 500);
    }
    assert_eq!((tracker.len(), tracker.memory()), (1500, memory));
    assert_eq!(tracker.counters().half_open_evicted, 49_500);
    for port in 0..1000 {
        let data = Frame::tcp((v4(1), port), (v4(2), 80), Tcp::ACK, (101, 501), 10);
        assert_eq!(names(one(&mut tracker, SECOND, &commit(), &data)), "+est+trk");
    }
}

#[test]
fn a_zone_has_no_more_connections_than_it_may() {
    let mut tracker = Tracker::new(Config::new(100, 5), 0);
    (0..3).for_each(|port| handshake(&mut tracker, 0, port));
    tracker.set_zone_limits(ZoneLimits { default: 3, zones: [(9, 1)].into() });
    let syn = |port| Frame::tcp((v4(1), port), (v4(2), 80), Tcp::SYN, (0, 0), 0);
    assert_eq!(one(&mut tracker, 0, &commit(), &syn(50)).drop, Some(Drop::TableFull));
    assert_eq!(tracker.counters().zone_full, 1);
    let other = Request { zone: 9, ..commit() };
    assert_eq!(one(&mut tracker, 0, &other, &syn(50)).drop, None);
    assert_eq!(one(&mut tracker, 0, &other, &syn(51)).drop, Some(Drop::TableFull));
    // Of the connections that are there nothing is dropped, and what is flushed makes room.
    let data = Frame::tcp((v4(1), 0), (v4(2), 80), Tcp::ACK, (101, 501), 10);
    assert_eq!(names(one(&mut tracker, 0, &commit(), &data)), "+est+trk");
    tracker.flush(Some(9));
    assert_eq!(one(&mut tracker, 0, &other, &syn(51)).drop, None);
    tracker.set_zone_limits(ZoneLimits::default());
    assert_eq!(one(&mut tracker, 0, &other, &syn(52)).drop, None);
}

#[test]
fn a_zone_has_timeouts_of_its_own() {
    let mut tracker = Tracker::new(Config::new(100, 5), 0);
    let own = |udp, established| {
        let usual = Timeouts::default();
        let tcp = tcp::Timeouts { established, ..usual.tcp };
        Timeouts { udp, tcp, ..usual }
    };
    let zoned = Request { zone: 9, ..commit() };
    let datagram = Frame::udp((v4(1), 7), (v4(2), 53), 10);
    let live = |tracker: &Tracker, at: u64, zone: u16| {
        tracker.connections(at).filter(|connection| connection.original.zone == zone).count()
    };
    tracker.set_zone_timeouts([(9, own(7, 100))].into());
    // In a queue the one with less time comes first: behind another it would be found to be over with that.
    for request in [&zoned, &commit()] {
        assert_eq!(one(&mut tracker, 0, request, &datagram).drop, None);
    }
    assert_eq!((live(&tracker, 6 * SECOND, 9), live(&tracker, 6 * SECOND, 0)), (1, 1));
    assert_eq!((live(&tracker, 8 * SECOND, 9), live(&tracker, 8 * SECOND, 0)), (0, 1));
    // It is found to be over by who looks for such, too.
    while tracker.expire(8 * SECOND, 100) {}
    assert_eq!(tracker.len(), 1);
    // TCP: from the next packet on, by both ways of judging one.
    let (a, b) = ((v4(1), 1000), (v4(2), 80));
    let begun = [
        Frame::tcp(a, b, Tcp::SYN, (100, 0), 0),
        Frame::tcp(b, a, Tcp::SYN | Tcp::ACK, (500, 101), 0),
        Frame::tcp(a, b, Tcp::ACK, (101, 501), 0),
    ];
    for frame in &begun {
        assert_eq!(one(&mut tracker, 0, &zoned, frame).drop, None);
    }
    assert_eq!((live(&tracker, 99 * SECOND, 9), live(&tracker, 101 * SECOND, 9)), (1, 0));
    tracker.set_zone_timeouts([(9, own(7, 50))].into());
    assert_eq!(live(&tracker, 99 * SECOND, 9), 1);
    let bare = Frame::tcp(b, a, Tcp::ACK, (501, 101), 0);
    assert_eq!(names(one(&mut tracker, SECOND, &zoned, &bare)), "+est+rpl+trk");
    assert_eq!((live(&tracker, 50 * SECOND, 9), live(&tracker, 52 * SECOND, 9)), (1, 0));
    tracker.set_zone_timeouts(ZoneTimeouts::new());
    assert_eq!(names(one(&mut tracker, 2 * SECOND, &zoned, &bare)), "+est+rpl+trk");
    assert_eq!(live(&tracker, 1000 * SECOND, 9), 1);
}

#[test]
fn answered_connections_make_room_for_nobody() {
    let mut tracker = Tracker::new(Config::new(10, 5), 0);
    (0..10).for_each(|port| handshake(&mut tracker, 0, port));
    let syn = Frame::tcp((v4(1), 99), (v4(2), 80), Tcp::SYN, (0, 0), 0);
    let outcome = one(&mut tracker, 0, &commit(), &syn);
    assert_eq!(outcome.drop, Some(Drop::TableFull));
    assert_eq!((tracker.counters().table_full, tracker.counters().refused), (1, 1));
    // Without commit it is new, and nothing is kept.
    assert_eq!(one(&mut tracker, 0, &Request::default(), &syn).drop, None);
    assert_eq!(tracker.len(), 10);
}

#[test]
fn resets_and_data_out_of_the_window_are_refused() {
    let mut tracker = Tracker::new(Config::new(10, 5), 0);
    handshake(&mut tracker, 0, 1);
    let (a, b) = ((v4(1), 1), (v4(2), 80));
    for (frame, want) in [
        // Blind resets (RFC 5961 §3): before what was acknowledged, and far beyond.
        (Frame::tcp(b, a, Tcp::RST, (7, 0), 0), "+inv+trk"),
        (Frame::tcp(b, a, Tcp::RST, (500_000_000, 0), 0), "+inv+trk"),
        // In the window, but not exact: it passes, and the connection stays.
        (Frame::tcp(b, a, Tcp::RST, (700, 0), 0), "+est+rpl+trk"),
        (Frame::tcp(a, b, Tcp::ACK, (101, 501), 100), "+est+trk"),
        // An acknowledgment of what was never sent.
        (Frame::tcp(a, b, Tcp::ACK, (201, 100_000), 100), "+inv+trk"),
        // Data far beyond the window.
        (Frame::tcp(a, b, Tcp::ACK, (900_000, 501), 100), "+inv+trk"),
        // Flags that nobody sends, and headers cut short.
        (Frame::tcp(a, b, Tcp::SYN | Tcp::FIN, (201, 501), 0), "+inv+trk"),
        (Frame::tcp(a, b, Tcp(0), (201, 501), 0), "+inv+trk"),
        (Frame::new(v4(1), v4(2), IpProtocol::TCP, vec![0, 1, 0, 80, 0, 0]), "+inv+trk"),
        // The exact reset.
        (Frame::tcp(b, a, Tcp::RST, (501, 0), 0), "+est+rpl+trk"),
    ] {
        assert_eq!(names(one(&mut tracker, 0, &commit(), &frame)), want, "{frame:?}");
    }
    let connection = tracker.connections(0).next().unwrap();
    assert_eq!((connection.tcp, connection.timeout), (Some(tcp::State::Closed), 10));
}

#[test]
fn a_wrong_checksum_is_malformed_unless_the_port_vouches_for_it() {
    let mut tracker = Tracker::new(Config::new(10, 5), 0);
    let mut bytes = Frame::udp((v4(1), 1), (v4(2), 2), 4).bytes();
    *bytes.last_mut().unwrap() ^= 1;
    let mut outcomes = [Outcome::default()];
    for (checksum, want) in [
        (Checksum::Unknown, "+inv+trk"),
        (Checksum::Good, "+new+trk"),
        (Checksum::Partial, "+new+trk"),
    ] {
        let packet = Packet { checksum, ..Packet::of(&mut bytes) };
        tracker.process(0, &commit(), &mut [packet], &mut outcomes);
        assert_eq!(names(outcomes[0]), want);
    }
    assert_eq!(tracker.counters().malformed, 1);
}

#[test]
fn an_error_is_related_only_for_who_sent_what_it_quotes() {
    let mut tracker = Tracker::new(Config::new(10, 5), 0);
    let query = Frame::udp((v4(1), 1), (v4(2), 2), 4);
    let unreachable = query.error(v4(9), 3, 1, 28);
    assert_eq!(names(one(&mut tracker, 0, &commit(), &unreachable)), "+inv+trk");
    one(&mut tracker, 0, &Request { mark: Some((7, !0)), ..commit() }, &query);
    let outcome = one(&mut tracker, 0, &Request::default(), &unreachable);
    assert_eq!((names(outcome).as_str(), outcome.mark), ("+rel+rpl+trk", 7));
    let mut stray = unreachable.clone();
    stray.dst = v4(3);
    assert_eq!(names(one(&mut tracker, 0, &commit(), &stray)), "+inv+trk");
    let short = query.error(v4(9), 3, 1, 22);
    assert_eq!(names(one(&mut tracker, 0, &commit(), &short)), "+inv+trk");
}

#[test]
fn later_fragments_belong_to_their_first() {
    let mut tracker = Tracker::new(Config::new(10, 5), 0);
    let frames = |ident: u16| {
        let mut first = Frame::udp((v4(1), 1), (v4(2), 2), 24);
        let mut later = Frame::new(v4(1), v4(2), IpProtocol::UDP, vec![0; 16]);
        (first.fragment, later.fragment) = ((ident, 0x2000), (ident, 4));
        (first, later)
    };
    let (first, later) = frames(1);
    assert_eq!(names(one(&mut tracker, 0, &commit(), &later)), "+inv+trk");
    assert_eq!(tracker.counters().fragment_orphan, 1);
    assert_eq!(names(one(&mut tracker, 0, &commit(), &first)), "+new+trk");
    assert_eq!(names(one(&mut tracker, 0, &commit(), &later)), "+new+trk");
    let answer = Frame::udp((v4(2), 2), (v4(1), 1), 0);
    assert_eq!(names(one(&mut tracker, 0, &commit(), &answer)), "+est+rpl+trk");
    assert_eq!(names(one(&mut tracker, 0, &commit(), &later)), "+est+trk");
    // Another datagram, another zone, and after its time.
    assert_eq!(names(one(&mut tracker, 0, &commit(), &frames(2).1)), "+inv+trk");
    let elsewhere = Request { zone: 3, ..commit() };
    assert_eq!(names(one(&mut tracker, 0, &elsewhere, &later)), "+inv+trk");
    assert_eq!(names(one(&mut tracker, 31 * SECOND, &commit(), &later)), "+inv+trk");
}

#[test]
fn two_hosts_that_ping_each_other_are_two_connections() {
    let mut tracker = Tracker::new(Config::new(10, 5), 0);
    for ident in [1_u32, 0x0800] {
        let ping = |from, to, kind| Frame::icmp(from, to, kind, 0, ident << 16, b"data");
        for (frame, want) in [
            (ping(v4(1), v4(2), 0), "+inv+trk"),
            (ping(v4(1), v4(2), 8), "+new+trk"),
            (ping(v4(2), v4(1), 8), "+new+trk"),
            (ping(v4(1), v4(2), 0), "+est+rpl+trk"),
            (ping(v4(2), v4(1), 0), "+est+rpl+trk"),
            (ping(v4(1), v4(2), 8), "+est+trk"),
        ] {
            assert_eq!(names(one(&mut tracker, 0, &commit(), &frame)), want, "{frame:?}");
        }
    }
    assert_eq!(tracker.len(), 4);
}

/// 100,000 connections whose time is over at once: no call looks at more than it was told to, all of
/// them are gone for packets at once, and all memory comes back.
#[test]
fn a_hundred_thousand_expire_in_small_steps() {
    let mut tracker = Tracker::new(Config::new(100_000, 5), 0);
    let query = |n: u32| {
        let src = IpAddr::from([10, 1, (n >> 8) as u8, n as u8]);
        (
            Frame::udp((src, (n >> 16) as u16), (v4(2), 53), 0),
            Frame::udp((v4(2), 53), (src, (n >> 16) as u16), 0),
        )
    };
    let mut request = commit();
    request.zone = 1;
    for n in 0..100_000 {
        let (there, back) = query(n);
        one(&mut tracker, 0, &request, &there);
        one(&mut tracker, 0, &request, &back);
    }
    assert_eq!((tracker.len(), tracker.half_open()), (100_000, 0));
    let late = 31 * SECOND;
    assert_eq!(names(one(&mut tracker, late, &request, &query(5).1)), "+new+trk");
    let mut calls = 0;
    while tracker.expire(late, 64) {
        calls += 1;
        assert!(calls < 2 * 100_000 / 64, "each record is looked at twice at most");
    }
    assert_eq!(tracker.len(), 1);
    assert_eq!(tracker.counters().connections_expired, 100_000);
}

#[test]
fn a_connection_takes_128_octets() {
    for connections in [1_000_000, 10_000_000] {
        let mut config = Config::new(connections, 1);
        config.fragmented_max = 1024;
        let memory = Tracker::new(config, 0).memory();
        assert!(memory.total() / connections < 128, "{memory:?}");
    }
}

#[test]
fn force_turns_a_connection_round() {
    let mut tracker = Tracker::new(Config::new(10, 5), 0);
    one(&mut tracker, 0, &commit(), &Frame::udp((v4(1), 1), (v4(2), 2), 0));
    let back = Frame::udp((v4(2), 2), (v4(1), 1), 0);
    let force = Request { force: true, ..commit() };
    assert_eq!(names(one(&mut tracker, 0, &force, &back)), "+new+trk");
    assert_eq!(names(one(&mut tracker, 0, &commit(), &back)), "+new+trk");
    assert_eq!(tracker.len(), 1);
    tracker.flush(Some(1));
    assert_eq!(tracker.len(), 1);
    tracker.flush(Some(0));
    assert!(tracker.is_empty());
}
