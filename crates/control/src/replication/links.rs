//! Heartbeats and sockets between members, beside the engine.
//!
//! By each path a UDP socket sends and receives heartbeats, and a TCP connection to each other member says when its process has ended:
//! the kernel closes it, or refuses it where nobody listens any more. The other end is that one's [witness](super::witness).

use super::witness::Witness;
use crate::config::group::{Peer, Settings};
use replication::Heartbeat;
use replication::heartbeat::DATAGRAM_MAX;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::sync::mpsc::Sender;

/// Between two attempts to reach a member.
const AGAIN: Duration = Duration::from_millis(100);
/// A member that does not answer for so long is not reached.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a link brings.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Heartbeats of one datagram.
    Beats(Vec<Heartbeat>),
    /// A member's process has ended.
    Closed(String),
}

/// The sockets that send.
pub(crate) struct Links {
    /// By path: the socket, and where the others are.
    paths: Vec<(Arc<UdpSocket>, Vec<SocketAddr>)>,
    _witness: Option<Witness>,
}

/// Sockets that are bound, before anything else is done.
pub(crate) struct Bound {
    sockets: Vec<std::net::UdpSocket>,
    witness: Witness,
}

/// Binds the sockets of all paths.
///
/// # Errors
/// Which cannot be bound, and why.
pub(crate) fn bind(settings: &Settings) -> Result<Bound, String> {
    let bind = |at: &SocketAddr| {
        let udp = std::net::UdpSocket::bind(at)?;
        udp.set_nonblocking(true)?;
        Ok(udp)
    };
    let sockets = settings.listen.iter().map(|at| {
        bind(at).map_err(|error: std::io::Error| format!("--replication listen={at}: {error}"))
    });
    let sockets = sockets.collect::<Result<_, _>>()?;
    Ok(Bound { sockets, witness: Witness::start(&settings.listen)? })
}

/// Begins to send and receive; in a runtime of tokio.
pub(crate) fn start(
    bound: Bound,
    settings: &Settings,
    to: &Sender<Heard>,
) -> std::io::Result<Links> {
    let mut paths = Vec::new();
    for (path, udp) in bound.sockets.into_iter().enumerate() {
        let udp = Arc::new(UdpSocket::from_std(udp)?);
        tokio::spawn(receive(udp.clone(), to.clone()));
        for Peer { name, at } in &settings.peers {
            tokio::spawn(watch(name.clone(), settings.listen[path], at[path], to.clone()));
        }
        paths.push((udp, settings.peers.iter().map(|peer| peer.at[path]).collect()));
    }
    Ok(Links { paths, _witness: Some(bound.witness) })
}

impl Links {
    /// Of a member in a test, which is heard by nobody.
    #[cfg(test)]
    pub(super) fn none() -> Links {
        Links { paths: Vec::new(), _witness: None }
    }

    /// Sends heartbeats by all paths. What a full socket or a link that is down loses is lost, as on the way.
    pub(crate) fn send(&self, beats: &[Heartbeat]) {
        for octets in Heartbeat::pack(beats) {
            for (socket, others) in &self.paths {
                for to in others {
                    let _ = socket.try_send_to(&octets, *to);
                }
            }
        }
    }
}

async fn receive(socket: Arc<UdpSocket>, to: Sender<Heard>) {
    let mut octets = [0; DATAGRAM_MAX];
    loop {
        match socket.recv_from(&mut octets).await {
            Ok((len, _)) => {
                if let Some(beats) = Heartbeat::unpack(&octets[..len])
                    && to.send(Heard::Beats(beats)).await.is_err()
                {
                    return;
                }
            }
            // Of one that was sent to nobody.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

async fn until_closed(mut stream: TcpStream) {
    let mut octets = [0; 64];
    while matches!(stream.read(&mut octets).await, Ok(n) if n > 0) {}
}

/// Says when a member's process has ended.
async fn watch(name: String, from: SocketAddr, at: SocketAddr, to: Sender<Heard>) {
    loop {
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let bound = socket.and_then(|socket| {
            socket.bind(SocketAddr::new(from.ip(), 0))?;
            Ok(socket)
        });
        let ended = match bound {
            Ok(socket) => match tokio::time::timeout(PATIENCE, socket.connect(at)).await {
                Ok(Ok(stream)) => {
                    until_closed(stream).await;
                    true
                }
                Ok(Err(error)) => error.kind() == ErrorKind::ConnectionRefused,
                Err(_) => false,
            },
            Err(_) => false,
        };
        if ended && to.send(Heard::Closed(name.clone())).await.is_err() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
