//! gRPC: the service of a switch's interfaces.

use crate::fault::{Fault, extensions, fault};
use crate::get::get;
use crate::interface::{Source, Switches};
use crate::proto::g_nmi_server::{GNmi, GNmiServer};
use crate::proto::{
    CapabilityRequest, CapabilityResponse, GetRequest, GetResponse, SetRequest, SetResponse,
    SubscribeRequest, SubscribeResponse,
};
use crate::schema::{Module, VERSION};
use crate::set::set;
use crate::subscribe::{self, Events, Requests, Said, WAITING_MAX};
use crate::value::Written;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use switch::Switch;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Bytes of a request, at most.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Streams of subscriptions at once, at most.
pub const STREAMS_MAX: usize = 256;

/// What all requests share.
struct Shared {
    source: Arc<Source>,
    events: Events,
    streams: Arc<Semaphore>,
    /// It was told that credentials are not looked at.
    told: AtomicBool,
}

/// The service of a switch's ports as interfaces.
#[derive(Clone)]
pub struct Gnmi(Arc<Shared>);

/// What tonic serves.
pub type Service = GNmiServer<Gnmi>;

impl Gnmi {
    /// Serves the ports of these switches, but for those of `home` that are `hidden`. What is told of clients is counted
    /// by `home`.
    pub fn new(home: Switch, hidden: Vec<u32>, switches: Switches) -> std::io::Result<Gnmi> {
        let source = Arc::new(Source::new(home, hidden, switches));
        let events = Events::start(source.clone())?;
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        Ok(Gnmi(Arc::new(Shared { source, events, streams, told: AtomicBool::new(false) })))
    }

    /// As a service of gRPC.
    pub fn service(&self) -> Service {
        GNmiServer::new(self.clone()).max_decoding_message_size(REQUEST_BYTES_MAX)
    }

    /// How many streams of subscriptions there are.
    pub fn streams(&self) -> usize {
        STREAMS_MAX - self.0.streams.available_permits()
    }

    /// Says once that names and passwords are not looked at.
    fn look_at<T>(&self, request: &Request<T>) {
        let name = request.metadata().get("username");
        if name.is_some_and(|name| !name.is_empty()) {
            self.0.source.home().tally("gnmi_credentials_ignored", 1);
            if !self.0.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "gNMI clients send a name and a password, which are not looked at: \
                     clients are known by their certificates"
                );
            }
        }
    }

    /// Runs what reads or changes the switch.
    async fn blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Source) -> Result<T, Fault> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let source = self.0.source.clone();
        let done = tokio::task::spawn_blocking(move || f(&source)).await;
        let failed = |error| fault!(Internal, "the request has failed within the switch: {error}");
        done.map_err(|error| failed(error).status())?
            .map(Response::new)
            .map_err(|fault| fault.status())
    }

    /// A stream of subscriptions: what is asked, and what is told.
    pub fn subscribe(
        &self,
        requests: impl Requests + 'static,
    ) -> Result<mpsc::Receiver<Said>, Fault> {
        let Ok(place) = self.0.streams.clone().try_acquire_owned() else {
            return Err(fault!(ResourceExhausted, "there are {STREAMS_MAX} streams, the most"));
        };
        let (to, told) = mpsc::channel(WAITING_MAX);
        let shared = self.0.clone();
        tokio::spawn(async move {
            subscribe::serve(shared.source.clone(), &shared.events, requests, to).await;
            drop(place);
        });
        Ok(told)
    }
}

/// What there is.
pub fn capabilities(request: &CapabilityRequest) -> Result<CapabilityResponse, Fault> {
    extensions(&request.extension)?;
    Ok(CapabilityResponse {
        supported_models: Module::ALL.map(Module::data).to_vec(),
        supported_encodings: Written::ALL.map(|encoding| encoding as i32).to_vec(),
        g_nmi_version: VERSION.to_owned(),
        extension: Vec::new(),
    })
}

#[tonic::async_trait]
impl GNmi for Gnmi {
    async fn capabilities(
        &self,
        request: Request<CapabilityRequest>,
    ) -> Result<Response<CapabilityResponse>, Status> {
        self.look_at(&request);
        let done = capabilities(&request.into_inner());
        done.map(Response::new).map_err(|fault| fault.status())
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        self.look_at(&request);
        let request = request.into_inner();
        self.blocking(move |source| get(&request, &source.fresh())).await
    }

    async fn set(&self, request: Request<SetRequest>) -> Result<Response<SetResponse>, Status> {
        self.look_at(&request);
        let request = request.into_inner();
        self.blocking(move |source| set(&request, source)).await
    }

    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<SubscribeResponse, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        self.look_at(&request);
        let told = Gnmi::subscribe(self, request.into_inner()).map_err(|fault| fault.status())?;
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }
}
