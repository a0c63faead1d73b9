//! One session's state machine (RFC 5880 §6; behaviour: Open vSwitch's `lib/bfd.c`).
//!
//! A session is *down* until it hears the other side, *init* until the other side hears it, then *up*. Packets go by the longer of
//! what this side sends and what the other side takes, less a quarter at random, and at least a second apart while it is not up.
//! The other side is taken for dead after `mult` of its intervals without a packet.
//!
//! Holds true: while it is up, changed intervals count only once the other side has answered a poll (§6.8.3); a packet that would
//! say something new about the state is sent at once (§6.8.7).
//!
//! Cost: none between packets. Time is in milliseconds from any start.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::packet::{Around, Diagnostic, Malformed, Packet, State, TTL, flags, read};

/// Time between packets of a session that is not up, at least (§6.8.3).
const SLOW_MS: u64 = 1000;
/// Time without other frames after which the interval decays, at least; the same for `forwarding_if_rx`.
const TRAFFIC_MIN_MS: u64 = 2000;
/// With `forwarding_if_rx`, a control packet must come in so many of the intervals that this side takes.
const CONTROL_INTERVALS: u64 = 100;

/// What tells a session from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The interface's address.
    pub mac: [u8; 6],
    /// A number that no other session of this host has; not 0. Random, so that a restarted session has another one.
    pub discriminator: u32,
    /// UDP's source port: from [`SOURCE_PORT_MIN`](crate::packet::SOURCE_PORT_MIN) on, another one for each session.
    pub source_port: u16,
    /// Where its random numbers begin. Sessions with different ones do not send in step.
    pub seed: u64,
}

/// What the other side has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) state: State,
    pub(crate) diagnostic: Diagnostic,
    pub(crate) discriminator: u32,
    pub(crate) flags: u8,
    pub(crate) min_tx_ms: u64,
    pub(crate) min_rx_ms: u64,
    pub(crate) mult: u8,
}

impl Remote {
    /// Nothing yet.
    fn unheard(mult: u8) -> Remote {
        Remote {
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            discriminator: 0,
            flags: 0,
            min_tx_ms: 0,
            min_rx_ms: 1,
            mult,
        }
    }
}

/// Intervals that this side sends and takes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Intervals {
    min_tx_ms: u64,
    min_rx_ms: u64,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is no control packet for this session: it goes on.
    Other,
    /// It was taken.
    Taken,
    /// It was one, and could not be used.
    Refused(Refused),
}

/// Why a control packet could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refused {
    /// It says nothing that can be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A router has passed it on.
    #[error("its TTL is not 255")]
    Ttl,
    /// It names a session that is not this one.
    #[error("it names another session")]
    Session,
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets taken.
    pub received: u64,
    /// Packets refused, by their reason.
    pub refused: BTreeMap<Refused, u64>,
}

/// The frames of an interface, which `decay_min_rx` and `forwarding_if_rx` go by.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    /// Frames that the interface has received, control packets among them, as it was last told.
    frames: u64,
    /// Until when they say that the interface forwards.
    lives_until_ms: u64,
    /// Until when control packets say so.
    control_until_ms: u64,
    /// Frames and control packets when this period of decay began, and when it ends.
    base: (u64, u64),
    period_ends_ms: u64,
    /// Nothing but control packets came in the last period.
    decayed: bool,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) config: Config,
    identity: Identity,
    random: u64,
    pub(crate) state: State,
    pub(crate) diagnostic: Diagnostic,
    pub(crate) remote: Remote,
    used: Intervals,
    /// Intervals that the other side is told of, and has not answered yet.
    poll: Option<Intervals>,
    answer: bool,
    pub(crate) next_tx_ms: Option<u64>,
    pub(crate) last_tx_ms: Option<u64>,
    pub(crate) detect_ms: Option<u64>,
    forwarding: bool,
    forced: Option<bool>,
    flaps: u64,
    traffic: Traffic,
    counts: Counts,
}

impl Session {
    /// A session that begins down. It sends its first packet at once.
    pub fn new(config: Config, identity: Identity, now_ms: u64) -> Session {
        let used = wanted(&config, false);
        let diagnostic = if config.cpath_down { Diagnostic::PATH_DOWN } else { Diagnostic::NONE };
        let mut session = Session {
            remote: Remote::unheard(config.mult),
            config,
            identity: Identity { discriminator: identity.discriminator.max(1), ..identity },
            random: identity.seed,
            state: State::Down,
            diagnostic,
            used,
            poll: None,
            answer: false,
            next_tx_ms: Some(now_ms),
            last_tx_ms: None,
            detect_ms: None,
            forwarding: false,
            forced: None,
            flaps: 0,
            traffic: Traffic::default(),
            counts: Counts::default(),
        };
        session.begin_period(now_ms);
        session
    }

    /// Its number.
    pub fn discriminator(&self) -> u32 {
        self.identity.discriminator
    }

    /// What is asked of it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Asks something else of it. It goes on where it stands.
    pub fn set_config(&mut self, config: Config, now_ms: u64) {
        if config == self.config {
            return;
        }
        let before = std::mem::replace(&mut self.config, config);
        let decays = |it: &Config| (it.decay_min_rx_ms, it.min_rx_ms);
        if decays(&before) != decays(&self.config) {
            self.traffic.decayed = false;
            self.begin_period(now_ms);
        }
        let own = [Diagnostic::NONE, Diagnostic::PATH_DOWN].contains(&self.diagnostic);
        let said = before.cpath_down != self.config.cpath_down;
        if said && (own || self.config.cpath_down) {
            let down = self.config.cpath_down;
            self.diagnostic = if down { Diagnostic::PATH_DOWN } else { Diagnostic::NONE };
        }
        if said || before.mult != self.config.mult {
            self.begin_poll(now_ms);
            self.next_tx_ms = Some(now_ms);
        }
        self.negotiate(now_ms);
    }

    /// The interface has another address now.
    pub fn set_mac(&mut self, mac: [u8; 6]) {
        self.identity.mac = mac;
    }

    /// Says that the interface forwards, or does not, whatever the session finds; `None` has the session decide again.
    pub fn force_forwarding(&mut self, forced: Option<bool>, now_ms: u64) {
        self.forced = forced;
        self.judge(now_ms);
    }

    /// A frame came by the interface, with this tunnel key (0 if there is none).
    pub fn receive(&mut self, frame: &[u8], tunnel_key: u64, now_ms: u64) -> Received {
        let Some((around, packet)) = read(frame) else { return Received::Other };
        if !self.config.is_for_this(&around, tunnel_key) {
            return Received::Other;
        }
        self.expire(now_ms);
        match self.check(&around, packet) {
            Ok(packet) => {
                self.counts.received += 1;
                self.take(&packet, now_ms);
                Received::Taken
            }
            Err(reason) => {
                *self.counts.refused.entry(reason).or_default() += 1;
                Received::Refused(reason)
            }
        }
    }

    fn check(&self, around: &Around, packet: Result<Packet, Malformed>) -> Result<Packet, Refused> {
        if around.ttl != TTL {
            return Err(Refused::Ttl);
        }
        let packet = packet?;
        if packet.yours != 0 && packet.yours != self.identity.discriminator {
            return Err(Refused::Session);
        }
        Ok(packet)
    }

    /// §6.8.6, from where the session is found.
    fn take(&mut self, packet: &Packet, now_ms: u64) {
        self.remote = Remote {
            state: packet.state,
            diagnostic: packet.diagnostic,
            discriminator: packet.mine,
            flags: packet.flags,
            min_tx_ms: u64::from(packet.min_tx_us).div_ceil(1000),
            min_rx_ms: u64::from(packet.min_rx_us).div_ceil(1000),
            mult: packet.mult,
        };
        if packet.flags & flags::FINAL != 0
            && let Some(polled) = self.poll.take()
        {
            self.used = polled;
        }
        match (self.state, packet.state) {
            (State::AdminDown, _) => {}
            (State::Down, State::Down) => self.enter(State::Init, self.diagnostic, now_ms),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                self.enter(State::Up, self.diagnostic, now_ms);
            }
            (State::Up, State::Down) | (State::Init | State::Up, State::AdminDown) => {
                self.enter(State::Down, Diagnostic::REMOTE_DOWN, now_ms);
            }
            (State::Down, State::Up | State::AdminDown) => {}
            (State::Init, State::Down) | (State::Up, State::Init | State::Up) => {}
        }
        if packet.flags & flags::POLL != 0 {
            self.answer = true;
        }
        let control = CONTROL_INTERVALS * u64::from(self.config.min_rx_ms);
        self.traffic.control_until_ms = now_ms + control;
        self.detect_ms = (self.state > State::Down).then(|| now_ms + self.detection_ms());
        self.negotiate(now_ms);
        self.schedule(now_ms);
        self.judge(now_ms);
    }

    /// Goes to a state; what it says of itself is sent at once.
    fn enter(&mut self, state: State, diagnostic: Diagnostic, now_ms: u64) {
        let path_down = self.config.cpath_down;
        self.diagnostic = match state {
            // What was wrong is no more.
            State::Up if path_down => Diagnostic::PATH_DOWN,
            State::Up => Diagnostic::NONE,
            _ => diagnostic,
        };
        self.state = state;
        self.next_tx_ms = Some(now_ms);
        if state <= State::Down {
            self.poll = None;
            self.detect_ms = None;
            self.traffic.decayed = false;
        }
        self.begin_period(now_ms);
    }

    /// Milliseconds without a packet after which the other side is taken for dead (§6.8.4).
    fn detection_ms(&self) -> u64 {
        self.rx_interval_ms() * u64::from(self.remote.mult)
    }

    /// Time between packets of the other side.
    pub(crate) fn rx_interval_ms(&self) -> u64 {
        self.used.min_rx_ms.max(self.remote.min_tx_ms)
    }

    /// Time between packets of this side, before a quarter is taken off at random.
    pub(crate) fn tx_interval_ms(&self) -> u64 {
        self.own_tx_ms(self.used).max(self.remote.min_rx_ms)
    }

    fn own_tx_ms(&self, intervals: Intervals) -> u64 {
        match self.state {
            State::Up => intervals.min_tx_ms,
            _ => intervals.min_tx_ms.max(SLOW_MS),
        }
    }

    /// What packets say of this side's intervals: how often it sends, and takes.
    pub(crate) fn said_ms(&self) -> (u64, u64) {
        let said = self.poll.unwrap_or(self.used);
        (self.own_tx_ms(said), said.min_rx_ms)
    }

    /// Flags of the next packet.
    pub(crate) fn flags(&self) -> u8 {
        match (self.answer, self.poll) {
            (true, _) => flags::FINAL,
            (false, Some(_)) => flags::POLL,
            (false, None) => 0,
        }
    }

    /// Has other intervals used: at once while nobody goes by them, else by a poll.
    fn negotiate(&mut self, now_ms: u64) {
        let wanted = wanted(&self.config, self.traffic.decayed);
        if self.state <= State::Down {
            self.used = wanted;
            return;
        }
        if self.poll.unwrap_or(self.used) == wanted {
            return;
        }
        self.poll = Some(wanted);
        self.next_tx_ms = Some(now_ms);
    }

    /// Has the other side answer, so that what changed is surely heard.
    fn begin_poll(&mut self, now_ms: u64) {
        if self.state > State::Down && self.poll.is_none() {
            self.poll = Some(wanted(&self.config, self.traffic.decayed));
            self.next_tx_ms = Some(now_ms);
        }
    }

    /// Puts the next packet an interval behind the last one, unless one is due now.
    fn schedule(&mut self, now_ms: u64) {
        if self.next_tx_ms.is_some_and(|at| at <= now_ms) {
            return;
        }
        // A side that takes none is sent none but polls and answers (§6.8.7).
        self.next_tx_ms = match self.last_tx_ms {
            _ if self.remote.min_rx_ms == 0 && self.poll.is_none() => None,
            last => Some(last.unwrap_or(now_ms) + self.jittered_ms()),
        };
    }

    /// An interval less up to a quarter; if one lost packet counts, at least a tenth less (§6.8.7).
    fn jittered_ms(&mut self) -> u64 {
        let interval = self.tx_interval_ms();
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let least = if self.config.mult == 1 { 10 } else { 0 };
        let percent = least + ((z >> 32) % (26 - least));
        interval - interval * percent / 100
    }

    /// How many frames the interface has received since any start, control packets among them. Those who run a session with
    /// `decay_min_rx` or `forwarding_if_rx` say so now and then, twice a second for example.
    pub fn traffic(&mut self, frames: u64, now_ms: u64) {
        if frames != self.traffic.frames {
            let lives = self.detection_ms().max(TRAFFIC_MIN_MS);
            self.traffic.lives_until_ms = now_ms + lives;
        }
        if frames < self.traffic.frames {
            // The interface counts anew.
            self.traffic.base.0 = 0;
        }
        self.traffic.frames = frames;
        let all = frames.saturating_sub(self.traffic.base.0);
        let control = self.counts.received.saturating_sub(self.traffic.base.1);
        if self.traffic.decayed && all > control {
            self.traffic.decayed = false;
            self.begin_period(now_ms);
            self.negotiate(now_ms);
        }
        self.judge(now_ms);
    }

    /// A period begins, at whose end is looked whether other frames came than control packets.
    fn begin_period(&mut self, now_ms: u64) {
        let decay = u64::from(self.config.decay_min_rx_ms);
        self.traffic.base = (self.traffic.frames, self.counts.received);
        self.traffic.period_ends_ms = now_ms + decay.max(TRAFFIC_MIN_MS);
    }

    fn decays(&self) -> bool {
        self.config.decay_min_rx_ms > self.config.min_rx_ms && self.state == State::Up
    }

    fn decay(&mut self, now_ms: u64) {
        if !self.decays() || now_ms < self.traffic.period_ends_ms {
            return;
        }
        let (frames, control) = self.traffic.base;
        let all = self.traffic.frames.saturating_sub(frames);
        self.traffic.decayed = all <= self.counts.received.saturating_sub(control);
        self.begin_period(now_ms);
        self.negotiate(now_ms);
    }

    fn expire(&mut self, now_ms: u64) {
        if self.state > State::Down && self.detect_ms.is_some_and(|at| at <= now_ms) {
            self.remote = Remote::unheard(self.remote.mult);
            self.enter(State::Down, Diagnostic::EXPIRED, now_ms);
            self.negotiate(now_ms);
        }
        self.judge(now_ms);
    }

    /// Decides whether the interface forwards, and counts when that changes.
    fn judge(&mut self, now_ms: u64) {
        let traffic = &self.traffic;
        let by_traffic = self.config.forwarding_if_rx
            && now_ms < traffic.lives_until_ms
            && now_ms < traffic.control_until_ms;
        let refuses = [Diagnostic::PATH_DOWN, Diagnostic::REVERSE_PATH_DOWN];
        let found =
            (self.state == State::Up || by_traffic) && !refuses.contains(&self.remote.diagnostic);
        let forwarding = self.forced.unwrap_or(found);
        self.flaps += u64::from(forwarding != self.forwarding);
        self.forwarding = forwarding;
    }

    /// Does what is due, and gives the frame that is to be sent.
    pub fn due(&mut self, now_ms: u64) -> Option<Vec<u8>> {
        self.expire(now_ms);
        self.decay(now_ms);
        if !self.answer && self.next_tx_ms.is_none_or(|at| at > now_ms) {
            return None;
        }
        let (tx, rx) = self.said_ms();
        let us = |ms: u64| u32::try_from(ms * 1000).unwrap_or(u32::MAX);
        let packet = Packet {
            diagnostic: self.diagnostic,
            state: self.state,
            flags: self.flags(),
            mult: self.config.mult,
            mine: self.identity.discriminator,
            yours: self.remote.discriminator,
            min_tx_us: us(tx),
            min_rx_us: us(rx),
            min_echo_us: 0,
        };
        let around = Around {
            dst_mac: self.config.local_dst_mac,
            src_mac: self.config.local_src_mac.unwrap_or(self.identity.mac),
            src_ip: self.config.src_ip,
            dst_ip: self.config.dst_ip,
            src_port: self.identity.source_port,
            ttl: TTL,
        };
        let was_answer = std::mem::take(&mut self.answer);
        self.counts.sent += 1;
        self.last_tx_ms = Some(now_ms);
        self.next_tx_ms = None;
        if was_answer && self.poll.is_some() {
            // A poll of this side's own has waited for the answer (§6.5: never both in one packet).
            self.next_tx_ms = Some(now_ms);
        } else {
            self.schedule(now_ms);
        }
        Some(packet.frame(&around))
    }

    /// When [`Session::due`] has something to do, at the latest. At once if that is not later than now.
    pub fn next_wake(&self, now_ms: u64) -> u64 {
        let traffic = &self.traffic;
        let by_traffic = self.config.forwarding_if_rx && self.forwarding;
        let times = [
            self.answer.then_some(now_ms),
            self.next_tx_ms,
            self.detect_ms.filter(|_| self.state > State::Down),
            self.decays().then_some(traffic.period_ends_ms),
            by_traffic
                .then(|| traffic.lives_until_ms.min(traffic.control_until_ms))
                .filter(|at| *at > now_ms),
        ];
        times.into_iter().flatten().min().unwrap_or(now_ms + SLOW_MS)
    }

    /// Whether the interface may be used to forward.
    pub fn forwards(&self) -> bool {
        self.forwarding
    }

    /// Where the session stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// What is counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The column `bfd_status` of an interface.
    pub fn status(&self) -> BTreeMap<String, String> {
        let flaps = self.flaps.to_string();
        let pairs = [
            ("diagnostic", self.diagnostic.words()),
            ("flap_count", flaps.as_str()),
            ("forwarding", if self.forwarding { "true" } else { "false" }),
            ("remote_diagnostic", self.remote.diagnostic.words()),
            ("remote_state", self.remote.state.word()),
            ("state", self.state.word()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }
}

fn wanted(config: &Config, decayed: bool) -> Intervals {
    let min_rx = if decayed { config.decay_min_rx_ms } else { config.min_rx_ms };
    Intervals { min_tx_ms: config.min_tx_ms.into(), min_rx_ms: min_rx.into() }
}
