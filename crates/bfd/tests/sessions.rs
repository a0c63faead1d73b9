//! Two sessions against each other, under a clock that the test turns.

use std::collections::VecDeque;

use bfd::packet::{flags, read};
use bfd::{Config, Identity, Packet, Received, Refused, Session, State};

/// Two sessions and the ways between them.
struct Pair {
    now_ms: u64,
    sessions: [Session; 2],
    /// What is under way to each: when it comes, and the frame.
    ways: [VecDeque<(u64, Vec<u8>)>; 2],
    delay_ms: u64,
    /// Of 100 frames, those that are lost on the way to each.
    loss: [u64; 2],
    random: u64,
    sent: [Vec<(u64, Packet)>; 2],
}

fn identity(which: u8, discriminator: u32) -> Identity {
    let seed = u64::from(discriminator);
    Identity {
        mac: [2, 0, 0, 0, 0, which],
        discriminator,
        source_port: 49152 + u16::from(which),
        seed,
    }
}

impl Pair {
    fn new(a: Config, b: Config) -> Pair {
        let sessions = [Session::new(a, identity(1, 11), 0), Session::new(b, identity(2, 22), 0)];
        Pair {
            now_ms: 0,
            sessions,
            ways: Default::default(),
            delay_ms: 5,
            loss: [0; 2],
            random: 1,
            sent: Default::default(),
        }
    }

    fn chance(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % 100
    }

    /// Goes on for a time, from event to event.
    fn run(&mut self, for_ms: u64) {
        let end = self.now_ms + for_ms;
        loop {
            for at in 0..2 {
                while self.ways[at].front().is_some_and(|(when, _)| *when <= self.now_ms) {
                    let (_, frame) = self.ways[at].pop_front().expect("a frame");
                    assert_eq!(self.sessions[at].receive(&frame, 0, self.now_ms), Received::Taken);
                }
                while let Some(frame) = self.sessions[at].due(self.now_ms) {
                    let (_, packet) = read(&frame).expect("a control packet");
                    self.sent[at].push((self.now_ms, packet.expect("a good one")));
                    let other = 1 - at;
                    if self.chance() >= self.loss[other] {
                        self.ways[other].push_back((self.now_ms + self.delay_ms, frame));
                    }
                }
            }
            let wakes = self.sessions.iter().map(|it| it.next_wake(self.now_ms));
            let comes = self.ways.iter().filter_map(|way| way.front().map(|(when, _)| *when));
            let next = wakes.chain(comes).min().expect("a time");
            assert!(next > self.now_ms, "time goes on");
            if next > end {
                self.now_ms = end;
                return;
            }
            self.now_ms = next;
        }
    }

    fn states(&self) -> [State; 2] {
        [self.sessions[0].state(), self.sessions[1].state()]
    }

    fn forwards(&self) -> [bool; 2] {
        [self.sessions[0].forwards(), self.sessions[1].forwards()]
    }

    fn status(&self, which: usize, key: &str) -> String {
        self.sessions[which].status()[key].clone()
    }

    /// Times between packets that were sent since, polls and answers left out.
    fn gaps(&self, which: usize, since: u64) -> Vec<u64> {
        let times: Vec<u64> = self.sent[which]
            .iter()
            .filter(|(at, packet)| *at >= since && packet.flags == 0)
            .map(|(at, _)| *at)
            .collect();
        times.windows(2).map(|two| two[1] - two[0]).collect()
    }
}

const UP: [State; 2] = [State::Up; 2];

#[test]
fn both_come_up_and_send_by_what_the_other_takes() {
    let b = Config { min_rx_ms: 300, min_tx_ms: 200, ..Config::default() };
    let mut pair = Pair::new(Config::default(), b);
    pair.run(3000);
    assert_eq!((pair.states(), pair.forwards()), (UP, [true; 2]));
    assert_eq!(pair.status(0, "flap_count"), "1");
    let since = pair.now_ms;
    pair.run(60_000);
    let (a, b) = (pair.gaps(0, since), pair.gaps(1, since));
    assert!(a.iter().all(|gap| (225..=300).contains(gap)), "{a:?}");
    assert!(b.iter().all(|gap| (750..=1000).contains(gap)), "{b:?}");
    let spread = |gaps: &[u64]| gaps.iter().max().expect("gaps") - gaps.iter().min().expect("gaps");
    assert!(spread(&a) > 50 && spread(&b) > 150, "the intervals are not all the same");
}

#[test]
fn with_a_multiplier_of_one_a_tenth_is_left_for_the_way() {
    let config = Config { mult: 1, min_rx_ms: 1000, ..Config::default() };
    let mut pair = Pair::new(config.clone(), config);
    pair.run(5000);
    let since = pair.now_ms;
    pair.run(100_000);
    assert_eq!(pair.states(), UP);
    let gaps = pair.gaps(0, since);
    assert!(gaps.iter().all(|gap| (750..=900).contains(gap)), "{gaps:?}");
    assert_eq!(pair.status(0, "flap_count"), "1");
}

#[test]
fn a_cut_is_found_after_the_detection_time_and_not_sooner() {
    let fast = Config { min_rx_ms: 100, ..Config::default() };
    let mut pair = Pair::new(fast.clone(), fast);
    pair.run(5000);
    assert_eq!(pair.states(), UP);
    // To the second alone: the first learns of it from the second.
    pair.loss = [0, 100];
    pair.run(200);
    assert_eq!(pair.states(), UP);
    pair.run(150);
    assert_eq!(pair.states(), [State::Down; 2]);
    assert_eq!(pair.status(1, "diagnostic"), "Control Detection Time Expired");
    assert_eq!(pair.status(0, "diagnostic"), "Neighbor Signaled Session Down");
    assert_eq!(pair.status(0, "remote_diagnostic"), "Control Detection Time Expired");
    assert_eq!(pair.forwards(), [false; 2]);
    let since = pair.now_ms + 1000;
    pair.run(30_000);
    assert!(pair.states().iter().all(|state| *state < State::Up));
    let gaps = pair.gaps(1, since);
    assert!(
        gaps.iter().all(|gap| *gap >= 750),
        "a side that is down sends once a second: {gaps:?}"
    );
    pair.loss = [0; 2];
    pair.run(4000);
    assert_eq!((pair.states(), pair.forwards()), (UP, [true; 2]));
    assert_eq!(pair.status(1, "flap_count"), "3");
    assert_eq!(pair.status(1, "diagnostic"), "No Diagnostic");
}

#[test]
fn a_third_of_the_packets_may_be_lost() {
    let config = Config { mult: 12, min_rx_ms: 100, ..Config::default() };
    let mut pair = Pair::new(config.clone(), config);
    pair.loss = [33; 2];
    pair.delay_ms = 40;
    pair.run(600_000);
    assert_eq!(pair.states(), UP);
    assert_eq!([pair.status(0, "flap_count"), pair.status(1, "flap_count")], ["1", "1"]);
    // Nearly all, and then none: whatever happened, they find each other again.
    pair.loss = [97; 2];
    pair.run(600_000);
    assert_ne!(pair.status(0, "flap_count"), "1");
    pair.loss = [0; 2];
    pair.run(5000);
    assert_eq!(pair.states(), UP);
}

#[test]
fn a_restarted_side_is_found_again() {
    let mut pair = Pair::new(Config::default(), Config::default());
    pair.run(5000);
    for discriminator in 100..120 {
        pair.sessions[1] = Session::new(Config::default(), identity(2, discriminator), pair.now_ms);
        // What was under way to the old one names a session that is no more.
        pair.ways[1].clear();
        pair.run(5000);
        assert_eq!(pair.states(), UP, "{discriminator}");
    }
    // Once up, once up again after each restart.
    assert_eq!(pair.status(0, "flap_count"), "41");
}

#[test]
fn packets_of_others_are_refused_by_their_reasons() {
    let mut pair = Pair::new(Config::default(), Config::default());
    pair.run(5000);
    let now = pair.now_ms;
    let mut other = Session::new(Config::default(), identity(3, 33), now);
    let plain = other.due(now).expect("a frame");
    let mut named = plain.clone();
    named[53] = 77;
    let mut routed = plain.clone();
    (routed[22], routed[24]) = (254, routed[24] + 1);
    let session = &mut pair.sessions[0];
    assert_eq!(session.receive(&named, 0, now), Received::Refused(Refused::Session));
    assert_eq!(session.receive(&routed, 0, now), Received::Refused(Refused::Ttl));
    assert_eq!(
        session.receive(&plain[..50], 0, now).clone(),
        Received::Refused(Refused::Malformed(bfd::packet::Malformed::Length))
    );
    assert_eq!(session.receive(&plain[..30], 0, now), Received::Other);
    assert_eq!((session.state(), session.counts().refused.len()), (State::Up, 3));
    let texts: Vec<String> = session.counts().refused.keys().map(ToString::to_string).collect();
    assert_eq!(texts, ["its lengths do not fit", "its TTL is not 255", "it names another session"]);
}

#[test]
fn frames_are_a_sessions_by_address_and_key() {
    let session = |config| Session::new(config, identity(1, 11), 0);
    let frame = session(Config::default()).due(0).expect("a frame");
    let takes = |config: Config, key| session(config).receive(&frame, key, 0) == Received::Taken;
    let base = Config::default;
    assert!(takes(base(), 0) && takes(base(), 5));
    assert!(takes(Config { check_tnl_key: true, ..base() }, 0));
    assert!(!takes(Config { check_tnl_key: true, ..base() }, 5));
    assert!(takes(Config { remote_dst_mac: Some([0, 0x23, 0x20, 0, 0, 1]), ..base() }, 0));
    assert!(!takes(Config { remote_dst_mac: Some([2; 6]), ..base() }, 0));
    assert!(!takes(Config { src_ip: [10, 0, 0, 1].into(), ..base() }, 0), "to another address");
    let to = Config {
        dst_ip: [10, 0, 0, 1].into(),
        local_dst_mac: [4; 6],
        local_src_mac: Some([6; 6]),
        ..base()
    };
    let frame = session(to).due(0).expect("a frame");
    assert_eq!(
        (&frame[..6], &frame[6..12], &frame[30..34]),
        (&[4; 6][..], &[6; 6][..], &[10, 0, 0, 1][..])
    );
    let here = Config { src_ip: [10, 0, 0, 1].into(), ..base() };
    assert_eq!(session(here).receive(&frame, 0, 0), Received::Taken);
    assert_eq!(session(base()).receive(&frame, 0, 0), Received::Other);
}

#[test]
fn changed_intervals_count_once_a_poll_is_answered() {
    let base = || Config { mult: 10, ..Config::default() };
    let mut pair =
        Pair::new(Config { min_rx_ms: 100, ..base() }, Config { min_rx_ms: 100, ..base() });
    pair.run(5000);
    let changed = pair.now_ms;
    // No answer comes: the old interval is used on.
    pair.loss = [100, 100];
    pair.sessions[0].set_config(Config { min_tx_ms: 1000, min_rx_ms: 100, ..base() }, changed);
    pair.run(200);
    let polls: Vec<_> = pair.sent[0].iter().filter(|(at, _)| *at >= changed).collect();
    assert!(
        polls.len() >= 2
            && polls
                .iter()
                .all(|(_, packet)| packet.flags == flags::POLL && packet.min_tx_us == 1_000_000),
        "{polls:?}"
    );
    pair.loss = [0; 2];
    pair.run(3000);
    assert_eq!(pair.states(), UP, "nothing was lost by the change");
    let since = pair.now_ms;
    pair.run(20_000);
    let gaps = pair.gaps(0, since);
    assert!(gaps.iter().all(|gap| (750..=1000).contains(gap)), "{gaps:?}");
    assert_eq!([pair.status(0, "flap_count"), pair.status(1, "flap_count")], ["1", "1"]);
    // And back, with both at once.
    let now = pair.now_ms;
    for session in &mut pair.sessions {
        session.set_config(Config { min_tx_ms: 50, min_rx_ms: 60, ..base() }, now);
    }
    pair.run(2000);
    let since = pair.now_ms;
    pair.run(5000);
    for which in 0..2 {
        let gaps = pair.gaps(which, since);
        assert!(gaps.iter().all(|gap| (45..=60).contains(gap)), "{gaps:?}");
        assert_eq!(pair.status(which, "flap_count"), "1");
    }
}

#[test]
fn a_path_that_is_down_beyond_stops_forwarding_on_the_other_side() {
    let mut pair = Pair::new(Config::default(), Config::default());
    pair.run(5000);
    let now = pair.now_ms;
    pair.sessions[0].set_config(Config { cpath_down: true, ..Config::default() }, now);
    pair.run(20);
    assert_eq!((pair.states(), pair.forwards()), (UP, [true, false]));
    assert_eq!(pair.status(0, "diagnostic"), "Concatenated Path Down");
    let now = pair.now_ms;
    pair.sessions[0].set_config(Config::default(), now);
    pair.run(20);
    assert_eq!((pair.forwards(), pair.status(1, "flap_count")), ([true; 2], "3".to_owned()));
    let now = pair.now_ms;
    pair.sessions[1].force_forwarding(Some(false), now);
    assert_eq!(pair.forwards(), [true, false]);
    pair.sessions[1].force_forwarding(None, now);
    assert_eq!(pair.forwards(), [true; 2]);
}

#[test]
fn an_idle_interface_asks_for_fewer_packets() {
    let a = Config { min_rx_ms: 200, decay_min_rx_ms: 2000, ..Config::default() };
    let mut pair = Pair::new(a, Config { min_tx_ms: 100, ..Config::default() });
    let mut data = 0;
    let tell = |pair: &mut Pair, data: u64| {
        let all = pair.sessions[0].counts().received + data;
        let now = pair.now_ms;
        pair.sessions[0].traffic(all, now);
    };
    for _ in 0..20 {
        data += 10;
        pair.run(500);
        tell(&mut pair, data);
    }
    let busy = pair.gaps(1, 5000);
    assert!(busy.iter().all(|gap| *gap <= 200), "{busy:?}");
    for _ in 0..20 {
        pair.run(500);
        tell(&mut pair, data);
    }
    let since = pair.now_ms;
    for _ in 0..20 {
        pair.run(500);
        tell(&mut pair, data);
    }
    let idle = pair.gaps(1, since);
    assert!(!idle.is_empty() && idle.iter().all(|gap| *gap >= 1500), "{idle:?}");
    data += 1;
    tell(&mut pair, data);
    pair.run(2000);
    let since = pair.now_ms;
    pair.run(1000);
    let busy = pair.gaps(1, since);
    assert!(busy.iter().all(|gap| *gap <= 200), "{busy:?}");
    assert_eq!(pair.status(0, "flap_count"), "1");
}

#[test]
fn other_frames_keep_the_interface_forwarding() {
    let a = Config { min_rx_ms: 100, forwarding_if_rx: true, ..Config::default() };
    let mut pair = Pair::new(a.clone(), Config::default());
    pair.run(5000);
    pair.loss = [100, 0];
    let mut frames = 1000;
    for _ in 0..16 {
        frames += 1;
        let now = pair.now_ms;
        pair.sessions[0].traffic(frames, now);
        pair.run(500);
        assert!(pair.sessions[0].forwards(), "at {}", pair.now_ms);
    }
    assert_ne!(pair.states()[0], State::Up);
    // At least one control packet in 100 intervals is needed.
    for _ in 0..8 {
        frames += 1;
        let now = pair.now_ms;
        pair.sessions[0].traffic(frames, now);
        pair.run(500);
    }
    assert!(!pair.sessions[0].forwards());
    assert_eq!(pair.status(0, "flap_count"), "2");
    pair.loss = [0; 2];
    pair.run(5000);
    assert_eq!(pair.forwards(), [true; 2]);
}

#[test]
fn a_side_that_takes_none_is_sent_answers_alone() {
    let mut session = Session::new(Config::default(), identity(1, 11), 0);
    let mut other = Session::new(Config::default(), identity(2, 22), 0);
    let down = other.due(0).expect("a frame");
    session.receive(&down, 0, 0);
    other.receive(&session.due(0).expect("a frame"), 0, 0);
    let mut up = other.due(0).expect("a frame");
    // RequiredMinRxInterval.
    up[58..62].fill(0);
    session.receive(&up, 0, 0);
    assert_eq!(session.state(), State::Up);
    assert!(session.due(0).is_some(), "the new state is said");
    for now in 1..1000 {
        assert_eq!(session.due(now), None);
    }
    up[43] |= flags::POLL;
    session.receive(&up, 0, 1000);
    let answer = session.due(1000).expect("an answer");
    assert_eq!(
        read(&answer).and_then(|(_, packet)| packet.ok()).expect("a packet").flags,
        flags::FINAL
    );
    assert_eq!(session.due(1001), None);
}
