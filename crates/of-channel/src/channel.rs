//! The threads: connecting with backoff, accepting, stopping.
//!
//! One thread runs all connections (each is mostly idle); another waits for the switch and hands
//! what the agent makes of it to every connection that wants it. The agent is behind a lock that is
//! held for one message at a time.
//!
//! When no configured controller is connected, fail-secure leaves the tables as they are, and
//! fail-standalone lets the switch learn like an ordinary bridge until one is back
//! (1.3.5 §6.3.2). Controllers that connected to us do not count there: any `ovs-ofctl` is one.
//!
//! Dropping the [`Channel`] ends all of it within a second: connections say what they have to say,
//! for [`STOP_MAX`] at most.

use crate::config::{ChannelError, Config};
use crate::connection::{Closed, Connection};
use crate::contact::Contact;
use crate::listener::Listener;
use crate::places::{Seat, Source};
use crate::queue::queue;
use crate::roles::ConnectionId;
use crate::shared::{Origin, Shared};
use crate::target::{Listen, Target};
use crate::tls::{Tls, server_name, trouble};
use crate::trouble::{Said, Trouble};
use of_pipeline::Agent;
use openflow::{ControllerStatus, Version};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use switch::Switch;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

/// The switch is looked after at least so often: timeouts, learning, ports.
const TICK: Duration = Duration::from_millis(50);
/// The thread of all connections says so often that it lives.
const BEAT: Duration = Duration::from_millis(500);
/// A connection attempt is given up after so long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The first pause between attempts to connect.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// A connection that lasted so long was a good one: the next attempt comes soon.
const GOOD_AFTER: Duration = Duration::from_secs(1);
/// Pause after an error in accepting: out of descriptors, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long connections may take to end when the channel does.
pub const STOP_MAX: Duration = Duration::from_millis(500);

/// The controller channel of a switch. Ends when dropped; the switch must not have stopped before.
pub struct Channel {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    listening: Vec<Listen>,
}

/// A channel whose sockets are open: whoever connects waits until it is started.
pub struct Bound {
    runtime: tokio::runtime::Runtime,
    tls: Option<Arc<Tls>>,
    listeners: Vec<(Listener, Origin, String)>,
    listening: Vec<Listen>,
    config: Config,
}

impl Bound {
    /// Opens the listeners.
    pub fn open(config: Config) -> Result<Bound, ChannelError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ChannelError::System)?;
        let tls = config.tls()?.map(Arc::new);
        if let (Some(Tls { own_is_authority: true, .. }), Some(files)) =
            (tls.as_deref(), &config.tls)
        {
            tracing::warn!(
                certificate = %files.certificate.display(),
                "this is the certificate of an authority (CA:TRUE); some peers, other switches of this kind among them, \
                 refuse it as one's own: have the authority sign one for the switch"
            );
        }
        let snoop = config.snoop.clone().map(Listen::Unix);
        let mut listeners = Vec::new();
        let mut listening = Vec::new();
        for (listen, origin) in (config.listeners.iter().map(|l| (l, Origin::Accepted)))
            .chain(snoop.iter().map(|l| (l, Origin::Snooper)))
        {
            let (listener, actual) = runtime
                .block_on(Listener::open(listen))
                .map_err(|e| ChannelError::Listen(listen.to_string(), e))?;
            if origin == Origin::Accepted {
                listening.push(actual);
            }
            listeners.push((listener, origin, listen.to_string()));
        }
        Ok(Bound { runtime, tls, listeners, listening, config })
    }

    /// Serves the listeners and the controllers in the background.
    pub fn start(self, switch: Switch, agent: Arc<Mutex<Agent>>) -> Result<Channel, ChannelError> {
        let Bound { runtime, tls, listeners, listening, config } = self;
        let shared = Arc::new(Shared::new(switch, agent, config));
        let (stop, stopped) = watch::channel(false);
        let mut threads = Vec::new();
        let (serving, until) = (shared.clone(), stopped.clone());
        threads.push(spawn("openflow", move || {
            let pulse = serving.switch.pulse("openflow");
            pulse.here();
            runtime.block_on(async {
                let lives = async {
                    loop {
                        pulse.beat();
                        tokio::time::sleep(BEAT).await;
                    }
                };
                tokio::select! {
                    () = serve_all(serving, listeners, tls, until) => {}
                    () = lives => {}
                }
            });
            // Not by dropping it: that would wait for a name server that does not answer.
            runtime.shutdown_background();
        })?);
        let events = shared.clone();
        threads.push(spawn("of-events", move || {
            let pulse = events.switch.pulse("of-events");
            pulse.here();
            // An error means that the channel itself is gone.
            while !*stopped.borrow() && stopped.has_changed().is_ok() {
                pulse.beat();
                events.switch.wait(TICK);
                events.gather();
            }
        })?);
        Ok(Channel { shared, stop, threads, listening })
    }
}

impl Channel {
    /// Opens the listeners, then serves them and the controllers in the background.
    pub fn start(
        switch: Switch,
        agent: Arc<Mutex<Agent>>,
        config: Config,
    ) -> Result<Channel, ChannelError> {
        Bound::open(config)?.start(switch, agent)
    }

    /// Where it listens for controllers: as configured, a free port filled in.
    pub fn listening(&self) -> &[Listen] {
        &self.listening
    }

    /// Packet-ins that were dropped because a controller did not take them.
    pub fn packet_ins_dropped(&self) -> u64 {
        self.shared.packet_ins_dropped()
    }

    /// Every controller as it is now: first those of the configuration, in its order, then those that have connected to us.
    pub fn controllers(&self) -> Vec<ControllerStatus> {
        self.shared.controllers()
    }

    /// What has become of attempts to reach each controller of the configuration, by target.
    pub fn contacts(&self) -> BTreeMap<String, Contact> {
        self.shared.contacts.all()
    }

    /// Versions of the controllers that are connected now.
    pub fn connected(&self) -> Vec<Version> {
        self.shared.versions()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // Nobody waits for it any more only if the threads have ended.
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("the control channel panicked");
            }
        }
    }
}

fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<std::thread::JoinHandle<()>, ChannelError> {
    std::thread::Builder::new().name(name.to_string()).spawn(run).map_err(ChannelError::System)
}

async fn serve_all(
    shared: Arc<Shared>,
    listeners: Vec<(Listener, Origin, String)>,
    tls: Option<Arc<Tls>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut accepting = tokio::task::JoinSet::new();
    for (listener, origin, place) in listeners {
        let to = (origin, place);
        accepting.spawn(accept(shared.clone(), listener, to, tls.clone(), stop.clone()));
    }
    for target in shared.config.controllers.clone() {
        tokio::spawn(pursue(shared.clone(), target, tls.clone(), stop.clone()));
    }
    // An error means that the channel itself is gone: stop, too.
    let _ = stop.wait_for(|stop| *stop).await;
    accepting.shutdown().await;
    let give_up = Instant::now() + STOP_MAX;
    while shared.connections() > 0 && Instant::now() < give_up {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Connects to a controller over and over.
async fn pursue(
    shared: Arc<Shared>,
    target: Target,
    tls: Option<Arc<Tls>>,
    stop: watch::Receiver<bool>,
) {
    let tls = tls.filter(|_| target.tls);
    let mut target = Reach { shared: shared.clone(), target, tls, trouble: None };
    let mut backoff = Backoff::new(shared.config.backoff(&target.target.to_string()));
    while !*stop.borrow() {
        let (told, main) = watch::channel(None);
        let (end, ended) = watch::channel(false);
        for id in 1..=shared.config.auxiliary {
            tokio::spawn(attend(target.clone(), id, main.clone(), ended.clone()));
        }
        let good = target.once(Origin::Configured, stop.clone(), Some(&told)).await;
        //= openflow-1.3.5 §6.3.5: with the main connection its auxiliary ones end.
        // Nobody listens if there are none.
        let _ = end.send(true);
        if good {
            backoff.reset();
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

/// Keeps up an auxiliary connection from when the main one has shaken hands until that ends.
async fn attend(
    mut target: Reach,
    id: u8,
    mut main: watch::Receiver<Option<ConnectionId>>,
    ended: watch::Receiver<bool>,
) {
    // An error means that there is no main connection.
    let main = match main.wait_for(Option::is_some).await {
        Ok(main) => *main,
        Err(_) => return,
    };
    let Some(main) = main else { return };
    let mut backoff = Backoff::new(target.shared.config.backoff(&target.target.to_string()));
    while !*ended.borrow() {
        if target.shared.agreed(main).is_none() {
            tokio::time::sleep(TICK).await;
            continue;
        }
        if target.once(Origin::Auxiliary { main, id }, ended.clone(), None).await {
            backoff.reset();
        }
        let mut until = ended.clone();
        let end = async { drop(until.wait_for(|end| *end).await) };
        // Whichever comes first, the loop looks.
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            () = end => {}
        }
    }
}

/// A controller, and how to reach it.
struct Reach {
    shared: Arc<Shared>,
    target: Target,
    tls: Option<Arc<Tls>>,
    trouble: Option<Trouble>,
}

impl Clone for Reach {
    /// For another connection, whose troubles are its own.
    fn clone(&self) -> Reach {
        let Reach { shared, target, tls, .. } = self;
        let (shared, target, tls) = (shared.clone(), target.clone(), tls.clone());
        Reach { shared, target, tls, trouble: None }
    }
}

impl Reach {
    /// Connects, and serves the connection until it ends; `told` learns its name. Whether it was a
    /// good one.
    async fn once(
        &mut self,
        origin: Origin,
        until: watch::Receiver<bool>,
        told: Option<&watch::Sender<Option<ConnectionId>>>,
    ) -> bool {
        let Reach { shared, target, tls, .. } = self.clone();
        let connector = tls.as_ref().and_then(|tls| Some(tls.connector.as_ref()?.now()));
        let (place, configured) = (target.to_string(), origin == Origin::Configured);
        if configured {
            shared.contacts.change(&place, Contact::tries);
        }
        let attempt = TcpStream::connect((target.host.as_str(), target.port));
        let stream = match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.failed(origin, &error.to_string()),
            Err(_) => return self.failed(origin, &timed_out()),
        };
        without_delay(&stream);
        let peer = match origin {
            Origin::Auxiliary { id, .. } => format!("{target} (auxiliary {id})"),
            _ => target.to_string(),
        };
        let before = self.trouble.as_ref().map(|t| t.so_far(std::time::Instant::now()));
        let served = match connector {
            None => serve(&shared, stream, (peer, &place), origin, until, (told, before)).await,
            Some(connector) => {
                let shakes = connector.connect(server_name(&target.host), stream);
                match tokio::time::timeout(CONNECT_TIMEOUT, shakes).await {
                    Ok(Ok(stream)) => {
                        let who = (peer, place.as_str());
                        serve(&shared, stream, who, origin, until, (told, before)).await
                    }
                    Ok(Err(error)) => {
                        return self.failed(origin, &format!("TLS: {}", trouble(&error)));
                    }
                    Err(_) => return self.failed(origin, &format!("TLS: {}", timed_out())),
                }
            }
        };
        match served {
            Served::Good => {
                self.reached();
                true
            }
            Served::Short => {
                self.reached();
                false
            }
            Served::Never(closed) => self.failed(origin, &format!("connected, but {closed}")),
        }
    }

    /// An attempt failed, which is said unless it was a short while ago.
    fn failed(&mut self, origin: Origin, cause: &str) -> bool {
        self.shared.switch.tally("controller_attempts_failed", 1);
        let now = std::time::Instant::now();
        if origin == Origin::Configured {
            self.shared.contacts.change(&self.target.to_string(), |one| one.ended(cause, now));
        }
        if let Some(said) = Trouble::failed(&mut self.trouble, cause, std::time::Instant::now()) {
            tracing::warn!(
                controller = %self.target,
                error = cause,
                attempts = said.attempts,
                seconds = said.seconds,
                "the controller is not reached",
            );
        }
        false
    }

    /// It was there, if there was trouble before.
    fn reached(&mut self) {
        // Its connection was said when it came.
        self.trouble = None;
    }
}

fn timed_out() -> String {
    format!("no answer in {} s", CONNECT_TIMEOUT.as_secs())
}

/// What became of a connection.
enum Served {
    /// It agreed on a version, and lasted.
    Good,
    /// It agreed on a version.
    Short,
    /// It never was one, for this reason.
    Never(Closed),
}

/// Serves a connection until it ends. `told` learns its name; `before` tells of attempts that failed.
async fn serve(
    shared: &Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    (peer, place): (String, &str),
    origin: Origin,
    stop: watch::Receiver<bool>,
    (told, before): (Option<&watch::Sender<Option<ConnectionId>>>, Option<Said>),
) -> Served {
    let (sender, receiver) = queue();
    let id = shared.arrived(origin, peer.clone(), place, sender);
    if let Some(told) = told {
        told.send_replace(Some(id));
    }
    let mut connection =
        Connection::new(id, origin, peer.clone(), stream, (shared.clone(), place), receiver, stop);
    connection.before = before;
    let started = Instant::now();
    let (closed, version) = connection.serve().await;
    shared.left(id);
    if origin == Origin::Configured && version.is_some() {
        let why = match &closed {
            // As Open vSwitch says it.
            Closed::Peer => "End of file".to_owned(),
            closed => closed.to_string(),
        };
        shared.contacts.change(place, |one| one.ended(&why, std::time::Instant::now()));
    }
    tracing::info!(%peer, reason = %closed, "disconnected");
    match version {
        None => Served::Never(closed),
        Some(_) if started.elapsed() >= GOOD_AFTER => Served::Good,
        Some(_) => Served::Short,
    }
}

/// Accepts connections until stopped.
async fn accept(
    shared: Arc<Shared>,
    listener: Listener,
    (origin, place): (Origin, String),
    tls: Option<Arc<Tls>>,
    stop: watch::Receiver<bool>,
) {
    let mut failing = false;
    loop {
        let accepted = match &listener {
            Listener::Tcp(l) => l.accept().await.map(|(stream, peer)| {
                without_delay(&stream);
                let source = peer.ip().into();
                let who = (format!("tcp:{peer}"), place.clone(), source);
                admit(&shared, stream, who, origin, &stop);
            }),
            Listener::Tls(l) => l.accept().await.map(|(stream, peer)| {
                without_delay(&stream);
                if let Some(tls) = &tls {
                    let source = peer.ip().into();
                    let who = (format!("pssl:{peer}"), place.clone(), source);
                    admit_tls(&shared, tls, stream, who, &stop);
                }
            }),
            Listener::Unix { listener: l, .. } => l.accept().await.map(|(stream, _)| {
                let peer = ("unix".to_string(), place.clone(), Source::Unix);
                admit(&shared, stream, peer, origin, &stop);
            }),
        };
        match accepted {
            Ok(()) => failing = false,
            Err(error) => {
                // Said once for a run of them.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "cannot accept connections");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A place for one more that connects, or a line that says why there is none.
fn seat(shared: &Shared, peer: &str, source: Source) -> Option<Seat> {
    match shared.places.take(source) {
        Ok(seat) => Some(seat),
        Err(full) => {
            shared.switch.tally("connections_refused", 1);
            tracing::warn!(%peer, "closed at once: {full}");
            None
        }
    }
}

fn admit(
    shared: &Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (peer, place, source): (String, String, Source),
    origin: Origin,
    stop: &watch::Receiver<bool>,
) {
    let Some(seat) = seat(shared, &peer, source) else { return };
    let (shared, stop) = (shared.clone(), stop.clone());
    tokio::spawn(async move {
        serve(&shared, stream, (peer, &place), origin, stop, (None, None)).await;
        drop(seat);
    });
}

/// As [`admit`], once TLS is agreed on. Those who shake hands have a place as others do.
fn admit_tls(
    shared: &Arc<Shared>,
    tls: &Arc<Tls>,
    stream: TcpStream,
    (peer, place, source): (String, String, Source),
    stop: &watch::Receiver<bool>,
) {
    let Some(seat) = seat(shared, &peer, source) else { return };
    let (shared, stop, acceptor) = (shared.clone(), stop.clone(), tls.acceptor.clone());
    tokio::spawn(async move {
        let shakes = tokio::time::timeout(CONNECT_TIMEOUT, acceptor.accept(stream)).await;
        match shakes {
            Ok(Ok(stream)) => {
                let who = (peer, place.as_str());
                serve(&shared, stream, who, Origin::Accepted, stop, (None, None)).await;
            }
            Ok(Err(error)) => tracing::warn!(%peer, error = trouble(&error), "no TLS"),
            Err(_) => tracing::warn!(%peer, "no TLS: timed out"),
        }
        drop(seat);
    });
}

/// Latency over throughput: answers are small, and large ones are written in large pieces.
fn without_delay(stream: &TcpStream) {
    // Refused only by sockets that are broken, which shows soon enough.
    let _ = stream.set_nodelay(true);
}

/// Pauses between attempts: doubled each time up to a most.
struct Backoff {
    first: Duration,
    most: Duration,
    pause: Duration,
}

impl Backoff {
    fn new(most: Duration) -> Backoff {
        let first = BACKOFF_MIN.min(most);
        Backoff { first, most, pause: first }
    }

    fn next(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = pause.saturating_mul(2).min(self.most);
        pause
    }

    fn reset(&mut self) {
        self.pause = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most_and_begin_anew() {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        let ms: Vec<_> = (0..5).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(ms, [250, 500, 1000, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.next().as_millis(), 250);
        let mut short = Backoff::new(Duration::from_millis(10));
        assert_eq!((short.next(), short.next()), (short.most, short.most));
        let mut long = Backoff::new(Duration::MAX);
        (0..100).for_each(|_| {
            long.next();
        });
        assert_eq!(long.next(), Duration::MAX);
    }
}
