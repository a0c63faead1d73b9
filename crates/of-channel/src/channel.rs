//! The thread: connecting with backoff, listening, fail modes, spreading events.
//!
//! One thread runs all connections (each is mostly idle); another waits for the switch and hands
//! what the agent makes of it to every connection. The agent is behind a lock that is held for one
//! message at a time.
//!
//! When no configured controller is connected, fail-secure leaves the tables as they are, and
//! fail-standalone lets the switch learn like an ordinary bridge until one is back
//! (1.3.5 §6.3.2).

use crate::connection::{Connection, QUEUE_MAX, Queued, Timing};
use crate::roles::{ConnectionId, Roles};
use crate::target::{Listen, Target};
use of_pipeline::{Agent, Event};
use openflow::{Version, VersionSet};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use switch::Switch;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{mpsc, watch};

/// What waits for all connections together is bounded by this many messages each.
pub const BACKLOG_MAX: usize = QUEUE_MAX;
/// The switch is looked after at least so often: timeouts, learning, ports.
const TICK: Duration = Duration::from_millis(50);
/// A connection attempt is given up after so long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the switch does while no controller is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Forwards by the tables as they are.
    #[default]
    Secure,
    /// Also learns and forwards as an ordinary bridge what no entry of table 0 matches.
    Standalone,
}

/// What the channel does.
#[derive(Clone, Debug)]
pub struct Config {
    /// Controllers to connect to.
    pub controllers: Vec<Target>,
    /// Where to listen for controllers.
    pub listeners: Vec<Listen>,
    /// Where to listen for those who only want to see all messages (`ovs-ofctl snoop`).
    pub snoop: Option<PathBuf>,
    /// Versions to offer.
    pub protocols: VersionSet,
    /// What happens without controllers.
    pub fail_mode: FailMode,
    /// Longest pause between attempts to connect.
    pub backoff_max: Duration,
    /// Probes.
    pub timing: Timing,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            controllers: Vec::new(),
            listeners: Vec::new(),
            snoop: None,
            protocols: VersionSet::of(&Version::ALL),
            fail_mode: FailMode::Secure,
            backoff_max: Duration::from_secs(8),
            timing: Timing { probe: Duration::from_secs(5) },
        }
    }
}

/// Why the channel could not start.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A listener could not be opened.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, std::io::Error),
    /// The thread could not start.
    #[error("cannot start the control channel: {0}")]
    System(std::io::Error),
}

struct Member {
    sender: mpsc::Sender<Queued>,
    overrun: Arc<AtomicBool>,
    version: Option<Version>,
    snooper: bool,
    configured: bool,
}

/// What connections share.
pub(crate) struct Shared {
    pub(crate) switch: Switch,
    agent: Arc<Mutex<Agent>>,
    pub(crate) config: Config,
    roles: Mutex<Roles>,
    members: Mutex<HashMap<ConnectionId, Member>>,
    snoopers: AtomicU64,
    next_id: AtomicU64,
    dropped: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // See `switch`: what is guarded changes in single steps.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    pub(crate) fn agent(&self) -> MutexGuard<'_, Agent> {
        lock(&self.agent)
    }

    pub(crate) fn roles(&self) -> MutexGuard<'_, Roles> {
        lock(&self.roles)
    }

    /// A connection has agreed on a version.
    pub(crate) fn joined(&self, id: ConnectionId, version: Version) {
        self.roles().join(id);
        if let Some(member) = lock(&self.members).get_mut(&id) {
            member.version = Some(version);
        }
        self.members_changed();
    }

    fn members_changed(&self) {
        let (connected, v10) = {
            let members = lock(&self.members);
            let up = |m: &&Member| m.version.is_some();
            let connected = members.values().filter(up).any(|m| m.configured);
            (connected, members.values().any(|m| m.version == Some(Version::V10)))
        };
        let mut agent = self.agent();
        agent.set_miss_to_controller(v10);
        if self.config.fail_mode == FailMode::Standalone {
            agent.set_standalone(!connected);
        }
    }

    /// Shows a message to snoopers.
    pub(crate) fn snoop(&self, from: ConnectionId, bytes: &[u8]) {
        if self.snoopers.load(Ordering::Relaxed) == 0 {
            return;
        }
        let raw: Arc<[u8]> = bytes.into();
        for (id, member) in lock(&self.members).iter() {
            if member.snooper && *id != from {
                // A snooper that does not keep up misses messages.
                let _ = member.sender.try_send(Queued::Raw(raw.clone()));
            }
        }
    }

    /// Hands an event to every connection.
    fn spread(&self, event: Event) {
        let event = Arc::new(event);
        for member in lock(&self.members).values().filter(|m| !m.snooper && m.version.is_some()) {
            if member.sender.try_send(Queued::Event(event.clone())).is_err() {
                if matches!(*event, Event::PacketIn(_)) {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                } else {
                    member.overrun.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    async fn serve(
        self: &Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: String,
        configured: bool,
        snooper: bool,
    ) {
        let id = ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let overrun = Arc::new(AtomicBool::new(false));
        let member = Member { sender, overrun: overrun.clone(), version: None, snooper, configured };
        lock(&self.members).insert(id, member);
        self.snoopers.fetch_add(u64::from(snooper), Ordering::Relaxed);
        let connection = Connection::new(id, peer.clone(), stream, self.clone(), queue, overrun);
        let closed = connection.serve().await;
        self.snoopers.fetch_sub(u64::from(snooper), Ordering::Relaxed);
        lock(&self.members).remove(&id);
        self.roles().leave(id);
        self.members_changed();
        tracing::info!(%peer, reason = %closed, "disconnected");
    }

    /// Connects to a controller over and over.
    async fn pursue(self: Arc<Self>, target: Target) {
        let first = Duration::from_millis(250).min(self.config.backoff_max);
        let mut pause = first;
        loop {
            let attempt = TcpStream::connect((target.host.as_str(), target.port));
            match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
                Ok(Ok(stream)) => {
                    // Latency over throughput: answers are small. Refused only by odd sockets.
                    let _ = stream.set_nodelay(true);
                    let started = tokio::time::Instant::now();
                    self.serve(stream, target.to_string(), true, false).await;
                    if started.elapsed() > Duration::from_secs(1) {
                        pause = first;
                    }
                }
                Ok(Err(error)) => tracing::debug!(%target, %error, "cannot connect"),
                Err(_) => tracing::debug!(%target, "cannot connect: timed out"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(self.config.backoff_max);
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The controller channel of a switch.
pub struct Channel {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    listening: Vec<Listen>,
    unix_paths: Vec<PathBuf>,
}

impl Channel {
    /// Opens the listeners, then serves them and the controllers in the background.
    pub fn start(switch: Switch, agent: Arc<Mutex<Agent>>, config: Config) -> Result<Channel, ChannelError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ChannelError::System)?;
        let mut listeners = Vec::new();
        let mut listening = Vec::new();
        let mut unix_paths = Vec::new();
        runtime.block_on(async {
            for listen in &config.listeners {
                let (listener, actual) = open(listen).await.map_err(|e| ChannelError::Listen(listen.to_string(), e))?;
                if let Listen::Unix(path) = &actual {
                    unix_paths.push(path.clone());
                }
                listening.push(actual);
                listeners.push((listener, false));
            }
            if let Some(path) = &config.snoop {
                let listen = Listen::Unix(path.clone());
                let (listener, _) = open(&listen).await.map_err(|e| ChannelError::Listen(listen.to_string(), e))?;
                unix_paths.push(path.clone());
                listeners.push((listener, true));
            }
            Ok(())
        })?;
        let shared = Arc::new(Shared {
            switch,
            agent,
            config,
            roles: Mutex::default(),
            members: Mutex::default(),
            snoopers: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
            dropped: AtomicU64::new(0),
        });
        shared.members_changed();
        let (stop, stopped) = watch::channel(false);
        let mut threads = Vec::new();
        let serving = shared.clone();
        let mut until = stopped.clone();
        threads.push(spawn("openflow", move || {
            runtime.block_on(async move {
                for (listener, snooper) in listeners {
                    tokio::spawn(accept(serving.clone(), listener, snooper));
                }
                for target in serving.config.controllers.clone() {
                    tokio::spawn(serving.clone().pursue(target));
                }
                // An error means that the channel itself is gone: stop, too.
                let _ = until.wait_for(|stop| *stop).await;
            });
        })?);
        let events = shared.clone();
        threads.push(spawn("of-events", move || {
            while !*stopped.borrow() {
                events.switch.wait(TICK);
                let made = events.agent().poll();
                made.into_iter().for_each(|event| events.spread(event));
            }
        })?);
        Ok(Channel { shared, stop, threads, listening, unix_paths })
    }

    /// Where it listens: as configured, a free port filled in.
    pub fn listening(&self) -> &[Listen] {
        &self.listening
    }

    /// Packet-ins that were dropped because a controller did not take them.
    pub fn packet_ins_dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Versions of the connections now.
    pub fn connected(&self) -> Vec<Version> {
        lock(&self.shared.members).values().filter_map(|m| m.version).collect()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // Nobody waits any more only if the threads have ended.
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("the control channel panicked");
            }
        }
        for path in &self.unix_paths {
            // Gone already is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>, ChannelError> {
    std::thread::Builder::new().name(name.to_string()).spawn(run).map_err(ChannelError::System)
}

async fn open(listen: &Listen) -> std::io::Result<(Listener, Listen)> {
    match listen {
        Listen::Tcp { address, port } => {
            let listener = TcpListener::bind((*address, *port)).await?;
            let port = listener.local_addr()?.port();
            Ok((Listener::Tcp(listener), Listen::Tcp { address: *address, port }))
        }
        Listen::Unix(path) => {
            // A socket that nobody answers on is what a switch left that was killed.
            if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
                std::fs::remove_file(path)?;
            }
            Ok((Listener::Unix(UnixListener::bind(path)?), listen.clone()))
        }
    }
}

async fn accept(shared: Arc<Shared>, listener: Listener, snooper: bool) {
    loop {
        let accepted = match &listener {
            Listener::Tcp(l) => l.accept().await.map(|(stream, peer)| {
                // Latency over throughput: answers are small. Refused only by odd sockets.
                let _ = stream.set_nodelay(true);
                let shared = shared.clone();
                let peer = format!("tcp:{peer}");
                tokio::spawn(async move { shared.serve(stream, peer, false, snooper).await });
            }),
            Listener::Unix(l) => l.accept().await.map(|(stream, _)| {
                let shared = shared.clone();
                tokio::spawn(async move { shared.serve(stream, "unix".to_string(), false, snooper).await });
            }),
        };
        if let Err(error) = accepted {
            // Out of descriptors, most likely: let others finish.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
