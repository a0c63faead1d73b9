//! Subscribe: lists that are told once, by polls, or as a stream.
//!
//! Each stream is a task of its own with a queue of [`WAITING_MAX`] notifications. What it tells at first, and at a poll,
//! waits for the client; what it tells later does not, and is lost if there is no room ([`track`]).
//! A thread hears of the ports of all switches ([`hearing`]) and hands what it hears to all streams; one that hears too
//! late looks at the ports instead.

mod hearing;
pub mod plan;
pub mod track;

use crate::fault::{Fault, fault};
use crate::interface::{Interface, Source};
use crate::proto::subscribe_response::Response;
use crate::proto::subscription_list::Mode;
use crate::proto::{Notification, SubscribeRequest, SubscribeResponse, subscribe_request};
use hearing::Hearing;
use plan::Plan;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;
use track::{Room, Tracks};

/// Notifications that wait for a client, at most.
pub const WAITING_MAX: usize = 1024;
/// Events that wait for a stream, at most.
const EVENTS_MAX: usize = 1024;
/// A stream at which nothing is due looks again after so long.
const IDLE: Duration = Duration::from_secs(60);
/// The end, and switches that have come or gone, are looked for so often.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a client is told.
pub type Said = Result<SubscribeResponse, Status>;

/// Something has happened to an interface.
#[derive(Clone, Debug)]
struct Event {
    interface: Arc<Interface>,
    gone: bool,
    at_ns: i64,
}

/// Hears of ports, and tells streams.
pub struct Events {
    sender: broadcast::Sender<Event>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Events {
    /// Hears of the ports of a source.
    pub fn start(source: Arc<Source>) -> std::io::Result<Events> {
        let (sender, _) = broadcast::channel(EVENTS_MAX);
        let (to, ended) = (sender.clone(), Arc::new(AtomicBool::new(false)));
        let over = ended.clone();
        let mut hearing = Hearing::new(source);
        let thread = std::thread::Builder::new().name("gnmi-ports".into());
        let thread = thread.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                hearing.round(PATIENCE, &mut |event| {
                    // Without streams nobody hears it.
                    let _ = to.send(event);
                });
            }
        })?;
        Ok(Events { sender, ended, thread: Some(thread) })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that hears of ports for gNMI has panicked");
        }
    }
}

/// A queue as room.
struct Queue(mpsc::Sender<Said>);

impl Room for Queue {
    fn offer(&mut self, response: SubscribeResponse) -> bool {
        self.0.try_send(Ok(response)).is_ok()
    }
}

/// How a stream has ended.
enum End {
    /// All is told, or the client has gone.
    Over,
    /// It is refused.
    Refused(Fault),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> End {
        End::Refused(fault)
    }
}

/// Serves a stream until it ends.
pub async fn serve(
    source: Arc<Source>,
    events: &Events,
    mut requests: impl Requests,
    to: mpsc::Sender<Said>,
) {
    let hears = events.sender.subscribe();
    let stream = Served { source, to };
    if let Err(End::Refused(fault)) = stream.run(&mut requests, hears).await {
        // One that has gone needs no reason.
        let _ = stream.to.send(Err(fault.status())).await;
    }
}

/// What a client says.
pub trait Requests: Stream<Item = Result<SubscribeRequest, Status>> + Send + Unpin {}

impl<S: Stream<Item = Result<SubscribeRequest, Status>> + Send + Unpin> Requests for S {}

struct Served {
    source: Arc<Source>,
    to: mpsc::Sender<Said>,
}

/// Why a stream goes on.
enum Woken {
    Event(Event),
    Time,
}

impl Served {
    async fn run(
        &self,
        requests: &mut impl Requests,
        hears: broadcast::Receiver<Event>,
    ) -> Result<(), End> {
        let Some(Ok(request)) = requests.next().await else { return Err(End::Over) };
        let plan = plan::first(&request)?;
        self.note(&plan);
        match plan.mode {
            Mode::Once => self.once(&plan, plan.updates_only).await,
            Mode::Poll => self.polls(&plan, requests).await,
            Mode::Stream => self.stream(plan, requests, hears).await,
        }
    }

    /// What is not done as it was asked is counted, and logged.
    fn note(&self, plan: &Plan) {
        let switch = self.source.home();
        if plan.raised > 0 {
            switch.tally("gnmi_interval_raised", plan.raised);
            tracing::info!("a gNMI interval is raised to {:?}, the shortest", plan::INTERVAL_MIN);
        }
        if plan.marked {
            switch.tally("gnmi_qos_ignored", 1);
            tracing::info!("gNMI: packets are not marked as a subscription's `qos` asks");
        }
    }

    async fn say(&self, response: Response) -> Result<(), End> {
        let said = SubscribeResponse { response: Some(response), ..SubscribeResponse::default() };
        self.to.send(Ok(said)).await.map_err(|_| End::Over)
    }

    async fn update(&self, notification: Notification) -> Result<(), End> {
        self.say(Response::Update(notification)).await
    }

    /// Runs what reads the switch.
    async fn blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Source) -> T + Send + 'static,
    ) -> Result<T, End> {
        let source = self.source.clone();
        let done = tokio::task::spawn_blocking(move || f(&source)).await;
        done.map_err(|error| {
            End::Refused(fault!(Internal, "the stream has failed within the switch: {error}"))
        })
    }

    /// All that there is, and that this is all.
    async fn once(&self, plan: &Plan, updates_only: bool) -> Result<(), End> {
        if !updates_only {
            let tracks = Tracks::new(plan, Instant::now());
            let snapshot = self.blocking(Source::fresh).await?;
            for notification in tracks.once(&snapshot) {
                self.update(notification).await?;
            }
        }
        self.say(Response::SyncResponse(true)).await
    }

    async fn polls(&self, plan: &Plan, requests: &mut impl Requests) -> Result<(), End> {
        self.once(plan, plan.updates_only).await?;
        loop {
            let Some(Ok(request)) = requests.next().await else { return Err(End::Over) };
            match request.request {
                Some(subscribe_request::Request::Poll(_)) => self.once(plan, false).await?,
                _ => return Err(End::Refused(again(&request))),
            }
        }
    }

    async fn stream(
        &self,
        plan: Plan,
        requests: &mut impl Requests,
        mut hears: broadcast::Receiver<Event>,
    ) -> Result<(), End> {
        let updates_only = plan.updates_only;
        let begin = move |source: &Source| {
            let mut tracks = Tracks::new(&plan, Instant::now());
            let all = tracks.begin(&source.fresh());
            all.map(|all| (tracks, all))
        };
        let (mut tracks, all) = self.blocking(begin).await??;
        if !updates_only {
            for notification in all {
                self.update(notification).await?;
            }
        }
        self.say(Response::SyncResponse(true)).await?;
        let (mut listens, mut lost) = (true, 0);
        loop {
            let due = tracks.due().unwrap_or_else(|| Instant::now() + IDLE);
            let woken = tokio::select! {
                event = hears.recv() => match event {
                    Ok(event) => Woken::Event(event),
                    // What was missed is found among the ports.
                    Err(RecvError::Lagged(_)) => Woken::Time,
                    Err(RecvError::Closed) => return Err(End::Over),
                },
                () = tokio::time::sleep_until(due.into()) => Woken::Time,
                said = requests.next(), if listens => match said {
                    Some(Ok(request)) => return Err(End::Refused(again(&request))),
                    Some(Err(_)) => return Err(End::Over),
                    // A client that has said all still listens.
                    None => {
                        listens = false;
                        continue;
                    }
                },
                () = self.to.closed() => return Err(End::Over),
            };
            let mut queue = Queue(self.to.clone());
            let step = move |source: &Source| {
                let done = match woken {
                    Woken::Event(event) => {
                        tracks.event(&event.interface, event.gone, event.at_ns, &mut queue)
                    }
                    Woken::Time => {
                        let now = Instant::now();
                        match tracks.counts(now) {
                            true => tracks.tell(now, &source.recent(), &mut queue),
                            false => tracks.tell(now, &source.states(), &mut queue),
                        }
                    }
                };
                done.map(|()| tracks)
            };
            tracks = self.blocking(step).await??;
            if tracks.lost() > lost {
                if lost == 0 {
                    tracing::warn!("a gNMI client does not read its stream, and loses values");
                }
                self.source.home().tally("gnmi_stream_lost", tracks.lost() - lost);
                lost = tracks.lost();
            }
        }
    }
}

/// What a second message of a stream comes to.
fn again(request: &SubscribeRequest) -> Fault {
    match request.request {
        Some(subscribe_request::Request::Subscribe(_)) => {
            fault!(InvalidArgument, "subscribe: the stream has a subscription; open another stream")
        }
        Some(subscribe_request::Request::Poll(_)) => {
            fault!(InvalidArgument, "poll: the subscription's mode is not POLL")
        }
        Some(subscribe_request::Request::Aliases(_)) => {
            fault!(Unimplemented, "aliases: gNMI has them no more")
        }
        None => fault!(InvalidArgument, "the message says nothing"),
    }
}
