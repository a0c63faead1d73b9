//! A socket with services, on a thread of its own, until it is dropped.

use crate::services::Services;
use crate::site;
use crate::wire::accept;
use rustls::ServerConfig;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server as Grpc;

/// Requests that wait, at once, at most.
const BLOCKING: usize = 16;
/// How often it is looked whether an address is free.
const TRY: Duration = Duration::from_millis(100);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket.
    #[error("cannot listen for {what} at {address}: {source}")]
    Listen {
        /// What for.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Threads.
    #[error("the server of {what} does not start: {source}")]
    Start {
        /// What of.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// What to do about an address that somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// It is an error.
    Now,
    /// Wait until it is free: a process whose place is taken has it to its end.
    WhenFree,
}

/// An address at which clients may come, and wait until a server accepts them.
pub struct Bound {
    address: SocketAddr,
    socket: TcpListener,
}

impl Bound {
    /// Listens at an address. `what` names what for.
    pub fn open(address: SocketAddr, what: &'static str) -> Result<Bound, ServerError> {
        match listen(address) {
            Ok(socket) => Ok(Bound { address, socket }),
            Err(source) => Err(ServerError::Listen { what, address, source }),
        }
    }
}

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at an address, with TLS if it is given, and serves these. `what` names them in messages.
    pub fn start(
        address: SocketAddr,
        what: &'static str,
        bind: Bind,
        tls: Option<Arc<ServerConfig>>,
        services: Services,
    ) -> Result<Server, ServerError> {
        let socket = match listen(address) {
            Ok(socket) => Some(socket),
            Err(error) if bind == Bind::WhenFree && error.kind() == io::ErrorKind::AddrInUse => {
                tracing::info!(%address, "{what} is served when the address is free");
                None
            }
            Err(source) => return Err(ServerError::Listen { what, address, source }),
        };
        Server::serving(address, socket, what, tls, services)
    }

    /// The same, where clients wait to be accepted already.
    pub fn start_bound(
        bound: Bound,
        what: &'static str,
        tls: Option<Arc<ServerConfig>>,
        services: Services,
    ) -> Result<Server, ServerError> {
        let Bound { address, socket } = bound;
        Server::serving(address, Some(socket), what, tls, services)
    }

    fn serving(
        address: SocketAddr,
        socket: Option<TcpListener>,
        what: &'static str,
        tls: Option<Arc<ServerConfig>>,
        services: Services,
    ) -> Result<Server, ServerError> {
        let started = |source| ServerError::Start { what, source };
        let address = match &socket {
            Some(socket) => socket.local_addr().map_err(started)?,
            None => address,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .thread_name("grpc-call")
            .max_blocking_threads(BLOCKING)
            .build()
            .map_err(started)?;
        let (stop, stopped) = oneshot::channel();
        let tls = tls.map(|config| {
            let mut config = ServerConfig::clone(&config);
            config.alpn_protocols = match (services.site(), services.has_pages()) {
                (Some(_), _) => vec![b"http/1.1".to_vec()],
                (None, true) => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
                (None, false) => vec![b"h2".to_vec()],
            };
            TlsAcceptor::from(Arc::new(config))
        });
        let serving = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = serve(what, address, socket, tls, services) => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(2));
        };
        let thread = std::thread::Builder::new().name("grpc".into());
        let thread = thread.spawn(serving).map_err(started)?;
        Ok(Server { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // If it has ended by itself, nobody listens.
            let _ = stop.send(());
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(address = %self.address, "a gRPC server has panicked");
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Serves, from when the address is free.
async fn serve(
    what: &'static str,
    address: SocketAddr,
    mut socket: Option<TcpListener>,
    tls: Option<TlsAcceptor>,
    services: Services,
) {
    let socket = loop {
        if let Some(socket) = socket.take() {
            break socket;
        }
        tokio::time::sleep(TRY).await;
        match listen(address) {
            Ok(free) => {
                tracing::info!(%address, "{what} is served");
                socket = Some(free);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => {
                tracing::error!(%address, %error, "{what} is not served");
                return;
            }
        }
    };
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%address, %error, "{what} is not served");
            return;
        }
    };
    let (to, connections) = mpsc::channel(16);
    let accepting = tokio::spawn(accept(listener, tls, to));
    if let Some((site, limits)) = services.site() {
        site::serve(connections, site, limits).await;
        return;
    }
    let serve = Grpc::builder()
        .accept_http1(services.has_pages())
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .serve_with_incoming(services, ReceiverStream::new(connections));
    if let Err(error) = serve.await {
        tracing::error!(%address, %error, "{what} is served no more");
    }
    accepting.abort();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn start(address: SocketAddr, bind: Bind) -> Result<Server, ServerError> {
        Server::start(address, "nothing", bind, None, Services::default())
    }

    #[test]
    fn an_address_in_use_is_told_or_waited_for() {
        let first = start("127.0.0.1:0".parse().unwrap(), Bind::Now).unwrap();
        let address = first.address();
        let text = start(address, Bind::Now).err().unwrap().to_string();
        let begins = format!("cannot listen for nothing at {address}: ");
        assert!(text.starts_with(&begins), "{text}");
        let second = start(address, Bind::WhenFree).unwrap();
        drop(first);
        // It may have been taken by another process meanwhile, who then answers.
        while TcpStream::connect(address).is_err() {
            std::thread::sleep(TRY);
        }
        drop(second);
    }
}
