//! gRPC: a socket, TLS, and the service of a [`Device`].
//!
//! All connections run on one thread; requests that touch the switch run on threads for blocking work, so that none
//! waits for another's compilation. Bounded: connections, a request's bytes, what waits for a stream.

use crate::code::fault;
use crate::device::Device;
use crate::proto::v1;
use crate::proto::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use crate::streams::Told;
use rustls::ServerConfig;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Server as Grpc;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status, Streaming};

/// Bytes of a request, at most.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Connections at once, at most.
const CONNECTIONS_MAX: usize = 256;
/// A TLS handshake takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Entities in one message of a read.
const ENTITIES: usize = 1024;
/// The switch is looked at so often.
const PATIENCE: Duration = Duration::from_millis(100);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket.
    #[error("cannot listen for P4Runtime at {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Threads.
    #[error("the P4Runtime server does not start: {0}")]
    Start(io::Error),
}

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    device: Arc<Device>,
    stop: Option<oneshot::Sender<()>>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A connection.
enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection and its place among them.
struct Io {
    wire: Wire,
    _place: OwnedSemaphorePermit,
}

impl Connected for Io {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

macro_rules! on_wire {
    ($self:ident, $wire:ident => $call:expr) => {
        match &mut $self.get_mut().wire {
            Wire::Plain(s) => {
                let $wire = Pin::new(s);
                $call
            }
            Wire::Tls(s) => {
                let $wire = Pin::new(&mut **s);
                $call
            }
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_wire!(self, wire => wire.poll_read(cx, buf))
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_wire!(self, wire => wire.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_wire!(self, wire => wire.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_wire!(self, wire => wire.poll_shutdown(cx))
    }
}

/// Accepts connections and hands them on, with TLS if there is any.
async fn accept(
    listener: tokio::net::TcpListener,
    tls: Option<TlsAcceptor>,
    to: mpsc::Sender<io::Result<Io>>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a P4Runtime connection is not accepted");
                tokio::time::sleep(PATIENCE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "{CONNECTIONS_MAX} P4Runtime connections are open, the most");
            continue;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "answers of P4Runtime may be delayed");
        }
        let (tls, to) = (tls.clone(), to.clone());
        tokio::spawn(async move {
            let wire = match tls {
                None => Wire::Plain(stream),
                Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => Wire::Tls(Box::new(stream)),
                    Ok(Err(error)) => {
                        tracing::warn!(%peer, %error, "a P4Runtime connection has no TLS");
                        return;
                    }
                    Err(_) => {
                        tracing::warn!(%peer, "a TLS handshake takes too long");
                        return;
                    }
                },
            };
            // Without a receiver the server has stopped.
            let _ = to.send(Ok(Io { wire, _place: place })).await;
        });
    }
}

impl Server {
    /// Listens at an address, with TLS if it is given, and serves a device.
    pub fn start(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        device: Arc<Device>,
    ) -> Result<Server, ServerError> {
        let listen = |source| ServerError::Listen { address, source };
        let socket = TcpListener::bind(address).map_err(listen)?;
        socket.set_nonblocking(true).map_err(listen)?;
        let address = socket.local_addr().map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .thread_name("p4runtime-call")
            .max_blocking_threads(16)
            .build()
            .map_err(ServerError::Start)?;
        let (stop, stopped) = oneshot::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let tls = tls.map(|config| {
            let mut config = ServerConfig::clone(&config);
            config.alpn_protocols = vec![b"h2".to_vec()];
            TlsAcceptor::from(Arc::new(config))
        });
        let served = device.clone();
        let serving = move || {
            runtime.block_on(async move {
                let listener = match tokio::net::TcpListener::from_std(socket) {
                    Ok(listener) => listener,
                    Err(error) => {
                        tracing::error!(%error, "the P4Runtime server does not start");
                        return;
                    }
                };
                let (to, connections) = mpsc::channel(16);
                let accepting = tokio::spawn(accept(listener, tls, to));
                let service = P4RuntimeServer::new(Service(served))
                    .max_decoding_message_size(REQUEST_BYTES_MAX);
                let serve = Grpc::builder()
                    .http2_keepalive_interval(Some(Duration::from_secs(30)))
                    .serve_with_incoming(service, ReceiverStream::new(connections));
                tokio::select! {
                    done = serve => {
                        if let Err(error) = done {
                            tracing::error!(%error, "the P4Runtime server has ended");
                        }
                    }
                    _ = stopped => {}
                }
                accepting.abort();
            });
            runtime.shutdown_timeout(Duration::from_secs(2));
        };
        let thread = std::thread::Builder::new().name("p4runtime".into());
        let mut threads = vec![thread.spawn(serving).map_err(ServerError::Start)?];
        let (told, over) = (device.clone(), ended.clone());
        let messages = move || {
            while !over.load(Ordering::Relaxed) {
                told.take_messages(PATIENCE);
            }
        };
        let thread = std::thread::Builder::new().name("p4-messages".into());
        threads.push(thread.spawn(messages).map_err(ServerError::Start)?);
        let (told, over) = (device.clone(), ended.clone());
        let packets = move || {
            while !over.load(Ordering::Relaxed) {
                told.take_packets(PATIENCE);
            }
        };
        let thread = std::thread::Builder::new().name("p4-packets".into());
        threads.push(thread.spawn(packets).map_err(ServerError::Start)?);
        Ok(Server { address, device, stop: Some(stop), ended, threads })
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
        if let Some(stop) = self.stop.take() {
            // If it has ended by itself, nobody listens.
            let _ = stop.send(());
        }
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
        done.map_err(|error| {
            fault!(Internal, "the request has failed within the switch: {error}").status()
        })
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    async fn write(
        &self,
        request: Request<v1::WriteRequest>,
    ) -> Result<Response<v1::WriteResponse>, Status> {
        let request = request.into_inner();
        let done = self.blocking(move |device| device.write(&request)).await?;
        done.map(Response::new).map_err(|status| *status)
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
