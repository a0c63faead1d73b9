//! Connections, with TLS or without, and how many there may be.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// Connections at once, at most.
pub const CONNECTIONS_MAX: usize = 256;
/// A TLS handshake takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After a failure the next connection is accepted so much later.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection.
enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection and its place among them.
pub(crate) struct Io {
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
pub(crate) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    to: mpsc::Sender<io::Result<Io>>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a gRPC connection is not accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "{CONNECTIONS_MAX} gRPC connections are open, the most");
            continue;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "answers over gRPC may be delayed");
        }
        let (tls, to) = (tls.clone(), to.clone());
        tokio::spawn(async move {
            let wire = match tls {
                None => Wire::Plain(stream),
                Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => Wire::Tls(Box::new(stream)),
                    Ok(Err(error)) => {
                        tracing::warn!(%peer, %error, "a gRPC connection has no TLS");
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
