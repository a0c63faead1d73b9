//! Sessions of a bridge's ports, and the thread that runs them.
//!
//! Frames come by a bounded channel, each with its time, so that a thread that was late does not take a living peer for
//! dead. The thread wakes for frames and when a session has something to do.

use super::BfdError;
use crate::sync::lock;
use bfd::packet::SOURCE_PORT_MIN;
use bfd::{Config, Identity, Received, Session, State};
use of_pipeline::Agent;
use openflow::{Action, FieldId, Match, Message, PacketOut, PortNo, Version};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use switch::Switch;
use tunnel::hub::{Hub, Watch, Watched};

/// Frames that wait for the thread, at most.
const FRAMES_MAX: usize = 1024;
/// How often a session that goes by a port's traffic is told of it.
const COUNT_MS: u64 = 500;
/// The thread sleeps so long if no session has anything to do.
const IDLE: Duration = Duration::from_secs(60);
/// Frames that a session sends at once, at most: an answer and a poll of its own.
const AT_ONCE: usize = 4;
/// Geneve's bit of control packets, in `tun_flags`.
const OAM: u128 = 1;

/// What comes to the thread.
enum Event {
    /// A frame for a session.
    Frame { session: u64, bytes: Vec<u8>, key: u64, at_ms: u64 },
    /// Something has changed.
    Look,
}

/// A session and its port.
struct Running {
    /// Tells it from others of the same port.
    id: u64,
    number: u32,
    session: Session,
    hub: Hub,
    /// Frames that the tunnel has taken out for it.
    frames: u64,
    counted_ms: u64,
    /// The state that was said last.
    said: State,
    /// The port is held, as the session does not forward.
    held: bool,
    /// What failed last, so that it is said once.
    failed: Option<String>,
}

/// Sessions by port.
#[derive(Default)]
struct All {
    ports: BTreeMap<String, Running>,
}

/// The sessions of a bridge.
pub(crate) struct Sessions {
    began: Instant,
    all: Arc<Mutex<All>>,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    stop: Arc<AtomicBool>,
    wake: SyncSender<Event>,
    handle: JoinHandle<()>,
}

/// What sessions of a bridge work with.
pub(crate) struct Around<'a> {
    /// The bridge's name.
    pub(crate) bridge: &'a str,
    /// Its switch.
    pub(crate) switch: &'a Switch,
    /// Who sends frames.
    pub(crate) agent: &'a Arc<Mutex<Agent>>,
    /// Where its tunnel ports are.
    pub(crate) hub: &'a Hub,
}

struct Runner {
    bridge: String,
    began: Instant,
    all: Arc<Mutex<All>>,
    switch: Switch,
    agent: Arc<Mutex<Agent>>,
    stop: Arc<AtomicBool>,
}

/// A frame that is to be sent.
struct Sending {
    port: String,
    number: u32,
    oam: bool,
    bytes: Vec<u8>,
}

fn now_ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// What tells a new session from all others of this process, and by chance from those of other hosts.
fn identity(mac: [u8; 6]) -> (u64, Identity) {
    static FIRST: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let random = || RandomState::new().hash_one(0u8);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // None of them is 0, and none is another's before 2^32 have been.
    let discriminator = (FIRST.get_or_init(random).wrapping_add(count) % u64::from(u32::MAX)) + 1;
    let ports = u64::from(u16::MAX - SOURCE_PORT_MIN) + 1;
    let identity = Identity {
        mac,
        discriminator: discriminator as u32,
        source_port: SOURCE_PORT_MIN + (count % ports) as u16,
        seed: random(),
    };
    (count, identity)
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions { began: Instant::now(), all: Arc::default(), thread: Mutex::default() }
    }
}

impl Sessions {
    /// A port has a session of these settings from now on, or none. One that is there goes on where it stands.
    pub(crate) fn set(
        &self,
        around: &Around<'_>,
        (port, number): (&str, u32),
        config: Option<Config>,
    ) -> Result<(), BfdError> {
        let Some(config) = config else {
            self.remove(around.switch, port);
            return Ok(());
        };
        let view = around.switch.port(number).filter(|view| view.info.described);
        let view = view.ok_or(BfdError::NoTunnel)?;
        let wake = self.start(around)?;
        let now_ms = now_ms(self.began);
        let mut all = lock(&self.all);
        let mut one = match all.ports.remove(port) {
            Some(mut one) => {
                one.session.set_config(config.clone(), now_ms);
                one
            }
            None => {
                let (id, identity) = identity(view.info.mac);
                let session = Session::new(config.clone(), identity, now_ms);
                Running {
                    id,
                    number,
                    session,
                    hub: around.hub.clone(),
                    frames: 0,
                    counted_ms: 0,
                    said: State::Down,
                    held: false,
                    failed: None,
                }
            }
        };
        if !around.hub.set_watch(port, Some(self.watch(one.id, config, wake.clone()))) {
            one.let_go(port, around.switch);
            return Err(BfdError::NoTunnel);
        }
        one.hold(around.switch);
        all.ports.insert(port.to_owned(), one);
        drop(all);
        let _ = wake.try_send(Event::Look);
        Ok(())
    }

    /// Takes the frames of a session out of its tunnel.
    fn watch(&self, session: u64, config: Config, wake: SyncSender<Event>) -> Watch {
        let began = self.began;
        Watch::new(move |frame, key| {
            if !config.takes(frame, key) {
                return Watched::Other;
            }
            let at_ms = now_ms(began);
            let message = Event::Frame { session, bytes: frame.to_vec(), key, at_ms };
            match wake.try_send(message) {
                Ok(()) => Watched::Taken,
                Err(_) => Watched::Lost,
            }
        })
    }

    /// The port has no session any more, if it had one.
    pub(crate) fn remove(&self, switch: &Switch, port: &str) {
        if let Some(mut one) = lock(&self.all).ports.remove(port) {
            one.let_go(port, switch);
        }
    }

    /// The port has another number.
    pub(crate) fn renumber(&self, port: &str, number: u32) {
        if let Some(one) = lock(&self.all).ports.get_mut(port) {
            one.number = number;
        }
    }

    /// The thread is there; how to wake it.
    fn start(&self, around: &Around<'_>) -> Result<SyncSender<Event>, BfdError> {
        let mut thread = lock(&self.thread);
        if let Some(thread) = &*thread {
            return Ok(thread.wake.clone());
        }
        let (wake, messages) = sync_channel(FRAMES_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let runner = Runner {
            bridge: around.bridge.to_owned(),
            began: self.began,
            all: self.all.clone(),
            switch: around.switch.clone(),
            agent: around.agent.clone(),
            stop: stop.clone(),
        };
        let name = std::thread::Builder::new().name("bfd".to_owned());
        let handle = name.spawn(move || runner.run(&messages));
        let handle = handle.map_err(|error| BfdError::NoThread(error.to_string()))?;
        *thread = Some(Thread { stop, wake: wake.clone(), handle });
        Ok(wake)
    }

    /// All sessions have gone, and the thread has ended.
    pub(crate) fn stop(&self, switch: &Switch) {
        for (port, mut one) in std::mem::take(&mut lock(&self.all).ports) {
            one.let_go(&port, switch);
        }
        let thread = lock(&self.thread).take();
        if let Some(Thread { stop, wake, handle }) = thread {
            stop.store(true, Ordering::Relaxed);
            // If there is no room the thread is awake.
            let _ = wake.try_send(Event::Look);
            if handle.join().is_err() {
                tracing::error!("the thread of BFD has panicked");
            }
        }
    }

    /// What the database shows of a port's session; none if it has none.
    pub(crate) fn status(&self, port: &str) -> Option<BTreeMap<String, String>> {
        lock(&self.all).ports.get(port).map(|one| one.session.status())
    }

    /// What people are shown of all sessions, by port.
    pub(super) fn show(&self) -> BTreeMap<String, String> {
        let now_ms = now_ms(self.began);
        let all = lock(&self.all);
        all.ports.iter().map(|(port, one)| (port.clone(), one.session.show(now_ms))).collect()
    }

    /// Says that a port forwards or does not, whatever its session finds, or has it decide again; without a port of all.
    /// Says whether there is such a session.
    pub(super) fn force(&self, switch: &Switch, port: Option<&str>, forced: Option<bool>) -> bool {
        let now_ms = now_ms(self.began);
        let mut found = false;
        for (name, one) in &mut lock(&self.all).ports {
            if port.is_none_or(|port| port == name) {
                found = true;
                one.session.force_forwarding(forced, now_ms);
                one.hold(switch);
            }
        }
        found
    }
}

impl Running {
    /// The port is live if the session forwards.
    fn hold(&mut self, switch: &Switch) {
        let hold = !self.session.forwards();
        if hold != self.held {
            self.held = hold;
            // One that goes at this very moment needs nothing.
            let _ = switch.hold_port(self.number, hold);
        }
    }

    fn goes_by_traffic(&self) -> bool {
        let config = self.session.config();
        config.forwarding_if_rx || config.decay_min_rx_ms > 0
    }

    /// The port is as without a session.
    fn let_go(&mut self, port: &str, switch: &Switch) {
        self.hub.set_watch(port, None);
        if std::mem::take(&mut self.held) {
            let _ = switch.hold_port(self.number, false);
        }
    }

    /// Something failed. It is counted, and said once.
    fn fails(&mut self, bridge: &str, port: &str, why: String) {
        if self.failed.as_ref() != Some(&why) {
            tracing::warn!(bridge, port, "BFD: {why}");
            self.failed = Some(why);
        }
    }
}

impl Runner {
    fn run(self, messages: &Receiver<Event>) {
        let mut wait = Duration::ZERO;
        while !self.stop.load(Ordering::Relaxed) {
            let first = match messages.recv_timeout(wait) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let more = messages.try_iter().take(FRAMES_MAX);
            wait = self.step(first.into_iter().chain(more));
        }
    }

    /// One round; how long to wait for the next.
    fn step(&self, messages: impl Iterator<Item = Event>) -> Duration {
        let sends = {
            let mut all = lock(&self.all);
            messages.for_each(|message| self.take(&mut all, message));
            self.count(&mut all);
            let now_ms = now_ms(self.began);
            let mut sends = Vec::new();
            for (port, one) in &mut all.ports {
                let (oam, number) = (one.session.config().oam, one.number);
                let frames = std::iter::from_fn(|| one.session.due(now_ms)).take(AT_ONCE);
                sends.extend(frames.map(|bytes| Sending {
                    port: port.clone(),
                    number,
                    oam,
                    bytes,
                }));
                self.tell(port, one);
            }
            sends
        };
        self.send(sends);
        // It took a while to send.
        let now_ms = now_ms(self.began);
        let all = lock(&self.all);
        let next = |one: &Running| {
            let counts = one.goes_by_traffic().then_some(one.counted_ms + COUNT_MS);
            one.session.next_wake(now_ms).min(counts.unwrap_or(u64::MAX))
        };
        let next = all.ports.values().map(next).min();
        let wait = next.map(|at| Duration::from_millis(at.saturating_sub(now_ms)));
        wait.unwrap_or(IDLE).min(IDLE)
    }

    fn take(&self, all: &mut All, message: Event) {
        let Event::Frame { session, bytes, key, at_ms } = message else { return };
        let found = all.ports.iter_mut().find(|(_, one)| one.id == session);
        // A session that has gone needs nothing.
        let Some((port, one)) = found else { return };
        one.frames += 1;
        match one.session.receive(&bytes, key, at_ms) {
            Received::Taken => {}
            // Its settings have just changed.
            Received::Other => self.switch.tally("bfd_frames_unwanted", 1),
            Received::Refused(why) => {
                self.switch.tally("bfd_frames_refused", 1);
                one.fails(&self.bridge, port, format!("a packet was refused: {why}"));
            }
        }
    }

    /// Sessions that go by what their ports receive are told.
    fn count(&self, all: &mut All) {
        let now_ms = now_ms(self.began);
        let due = |one: &Running| one.goes_by_traffic() && now_ms >= one.counted_ms + COUNT_MS;
        if !all.ports.values().any(due) {
            return;
        }
        let counters = self.switch.port_counters();
        let received: BTreeMap<u32, u64> =
            counters.iter().map(|(view, counters, _)| (view.number, counters.rx_packets)).collect();
        for one in all.ports.values_mut().filter(|one| due(one)) {
            one.counted_ms = now_ms;
            let frames = received.get(&one.number).copied().unwrap_or(0) + one.frames;
            one.session.traffic(frames, now_ms);
        }
    }

    /// What a session has become is said, and the port is live or not.
    fn tell(&self, port: &str, one: &mut Running) {
        let state = one.session.state();
        if one.said != state {
            one.said = state;
            if state == State::Up {
                one.failed = None;
            }
            let why = one.session.status().remove("diagnostic").unwrap_or_default();
            tracing::info!(bridge = self.bridge, port, "BFD is {}: {why}", state.word());
        }
        one.hold(&self.switch);
    }

    fn send(&self, sends: Vec<Sending>) {
        for Sending { port, number, oam, bytes } in sends {
            let mut actions = Vec::new();
            if oam {
                actions.push(Action::set_field(FieldId::TunFlags, OAM));
            }
            actions.push(Action::output(PortNo(number)));
            let request = PacketOut {
                buffer_id: None,
                in_port: PortNo::CONTROLLER,
                pipeline: Match::new(),
                actions,
                data: bytes,
            };
            let sent = lock(&self.agent).handle(Version::V15, Message::PacketOut(request));
            if let Err(why) = sent {
                self.switch.tally("bfd_frames_unsent", 1);
                if let Some(one) = lock(&self.all).ports.get_mut(&port) {
                    one.fails(&self.bridge, &port, format!("a packet was not sent: {why}"));
                }
            }
        }
    }
}
