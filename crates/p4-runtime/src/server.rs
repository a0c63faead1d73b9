//! gRPC: the service of a [`Device`], at an address.
//!
//! Requests that touch the switch run on threads for blocking work, so that none waits for another's compilation.
//! Bounded: a request's bytes, what waits for a stream; connections by [`grpc`].

mod write;

use crate::code::fault;
use crate::device::Device;
use crate::proto::v1;
use crate::proto::v1::p4_runtime_server::P4Runtime;
use crate::streams::Told;
pub use grpc::Bound;
use grpc::{Bind, Services};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};
use write::Front;

/// Bytes of a request, at most.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Entities in one message of a read.
const ENTITIES: usize = 1024;
/// In messages.
const WHAT: &str = "P4Runtime";
/// The switch is looked at so often.
const PATIENCE: Duration = Duration::from_millis(100);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket or its thread.
    #[error(transparent)]
    Grpc(#[from] grpc::ServerError),
    /// Other threads.
    #[error("the P4Runtime server does not start: {0}")]
    Start(io::Error),
}

/// A server that runs until it is dropped.
pub struct Server {
    grpc: Option<grpc::Server>,
    address: SocketAddr,
    device: Arc<Device>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens at an address, with TLS if it is given, and serves a device, and other services beside it.
    pub fn start(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        device: Arc<Device>,
        beside: Services,
    ) -> Result<Server, ServerError> {
        let services = beside.with(Front::new(device.clone()));
        let grpc = grpc::Server::start(address, WHAT, Bind::Now, tls, services)?;
        Server::of(grpc, device)
    }

    /// Listens at an address: clients wait until [`start_bound`](Self::start_bound).
    pub fn bind(address: SocketAddr) -> Result<Bound, ServerError> {
        Ok(Bound::open(address, WHAT)?)
    }

    /// As [`start`](Self::start), where clients may wait already.
    pub fn start_bound(
        bound: Bound,
        tls: Option<Arc<ServerConfig>>,
        device: Arc<Device>,
        beside: Services,
    ) -> Result<Server, ServerError> {
        let services = beside.with(Front::new(device.clone()));
        let grpc = grpc::Server::start_bound(bound, WHAT, tls, services)?;
        Server::of(grpc, device)
    }

    fn of(grpc: grpc::Server, device: Arc<Device>) -> Result<Server, ServerError> {
        let ended = Arc::new(AtomicBool::new(false));
        let (told, over) = (device.clone(), ended.clone());
        let messages = move || {
            while !over.load(Ordering::Relaxed) {
                told.take_messages(PATIENCE);
            }
        };
        let thread = std::thread::Builder::new().name("p4-messages".into());
        let mut threads = vec![thread.spawn(messages).map_err(ServerError::Start)?];
        let (told, over) = (device.clone(), ended.clone());
        let packets = move || {
            while !over.load(Ordering::Relaxed) {
                told.take_packets(PATIENCE);
            }
        };
        let thread = std::thread::Builder::new().name("p4-packets".into());
        threads.push(thread.spawn(packets).map_err(ServerError::Start)?);
        Ok(Server { address: grpc.address(), grpc: Some(grpc), device, ended, threads })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it serves.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.device.end();
        drop(self.grpc.take());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the P4Runtime server has panicked");
            }
        }
    }
}

/// The service of a device.
struct Service(Arc<Device>);

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    /// Runs what may wait for locks, workers or the compiler.
    async fn blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Device) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let device = self.0.clone();
        let done = tokio::task::spawn_blocking(move || f(&device)).await;
        done.map_err(|error| failed(&error))
    }
}

fn failed(why: &dyn std::fmt::Display) -> Status {
    fault!(Internal, "the request has failed within the switch: {why}").status()
}

#[tonic::async_trait]
impl P4Runtime for Service {
    async fn write(
        &self,
        request: Request<v1::WriteRequest>,
    ) -> Result<Response<v1::WriteResponse>, Status> {
        let request = request.into_inner();
        write::done(&self.0, move |device| device.write(&request)).await
    }

    type ReadStream = Streamed<v1::ReadResponse>;

    async fn read(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let done = self.blocking(move |device| device.read(&request)).await?;
        let mut entities = done.map_err(|fault| fault.status())?;
        // In pieces from the end, so that what has been sent is freed.
        let mut pieces = Vec::new();
        while entities.len() > ENTITIES {
            let rest = entities.split_off(entities.len() - ENTITIES);
            pieces.push(rest);
        }
        pieces.push(entities);
        pieces.reverse();
        let pieces = pieces.into_iter().map(|entities| Ok(v1::ReadResponse { entities }));
        Ok(Response::new(Box::pin(tokio_stream::iter(pieces))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<v1::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let done = self.blocking(move |device| device.set_pipeline(&request)).await?;
        done.map(Response::new).map_err(|fault| fault.status())
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<v1::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let done = self.blocking(move |device| device.pipeline(request)).await?;
        done.map(Response::new).map_err(|fault| fault.status())
    }

    type StreamChannelStream = Streamed<v1::StreamMessageResponse>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<v1::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let device = self.0.clone();
        let (stream, told) = device.open();
        let said = request.into_inner();
        tokio::spawn(listen(device, stream, said));
        let told: ReceiverStream<Told> = ReceiverStream::new(told);
        Ok(Response::new(Box::pin(told)))
    }

    async fn capabilities(
        &self,
        _: Request<v1::CapabilitiesRequest>,
    ) -> Result<Response<v1::CapabilitiesResponse>, Status> {
        Ok(Response::new(self.0.capabilities()))
    }
}

/// Takes what a stream says, in order, until it ends.
async fn listen(device: Arc<Device>, stream: u64, mut said: Streaming<v1::StreamMessageRequest>) {
    while let Some(message) = said.next().await {
        let Ok(message) = message else { break };
        let on = device.clone();
        let done = tokio::task::spawn_blocking(move || on.message(stream, message)).await;
        match done {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => {
                device.end_stream(stream, &fault);
                break;
            }
            Err(error) => {
                let fault = fault!(Internal, "the message has failed within the switch: {error}");
                device.end_stream(stream, &fault);
                break;
            }
        }
    }
    let left = tokio::task::spawn_blocking(move || device.close(stream)).await;
    if let Err(error) = left {
        tracing::error!(%error, "a stream that has ended is still known");
    }
}
