//! Sockets to listen on. Of UNIX sockets and their files, [`unix`] tells more.

use crate::config::CONNECTIONS_MAX;
use crate::target::Listen;
use crate::unix::{self, SocketFile};
use rustix::fs::Mode;
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket, UnixListener};

/// Connections that may wait to be accepted: as many as there may be. Where fewer fit, a crowd that
/// connects again and again keeps others out for as long as they are ready to try.
const BACKLOG: u32 = CONNECTIONS_MAX as u32;

/// A socket that listens.
pub(crate) enum Listener {
    /// `ptcp:`
    Tcp(TcpListener),
    /// `pssl:`
    Tls(TcpListener),
    /// `punix:`
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Held for what happens when it is dropped.
        _file: SocketFile,
    },
}

impl Listener {
    /// Listens; also tells where, a free port filled in. Within a runtime.
    pub(crate) async fn open(listen: &Listen) -> io::Result<(Listener, Listen)> {
        match listen {
            Listen::Tcp { address, port } => {
                let listener = bind_tcp((*address, *port).into())?;
                let port = listener.local_addr()?.port();
                Ok((Listener::Tcp(listener), Listen::Tcp { address: *address, port }))
            }
            Listen::Tls { address, port } => {
                let listener = bind_tcp((*address, *port).into())?;
                let port = listener.local_addr()?.port();
                Ok((Listener::Tls(listener), Listen::Tls { address: *address, port }))
            }
            Listen::Unix(path) => {
                unix::clear(path)?;
                let (listener, file) = unix::bind(path, Mode::RWXU, BACKLOG)?;
                let listener = UnixListener::from_std(listener)?;
                Ok((Listener::Unix { listener, _file: file }, listen.clone()))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port that connections of an earlier run still linger at can be had at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn open(path: &Path) -> io::Result<(Listener, Listen)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Listener::open(&Listen::Unix(path.to_path_buf())))
    }

    #[test]
    fn sockets_are_private_replaced_when_stale_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        // What a killed process leaves.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (first, _) = open(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "mode {mode:o}");
        let error = open(&path).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "one that lives stays");
        drop(first);
        assert!(!path.exists());
        let (second, _) = open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another's").unwrap();
        drop(second);
        assert!(path.exists(), "what took its place stays");
    }

    #[test]
    fn files_that_are_no_sockets_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        std::fs::write(&path, "data").unwrap();
        let error = open(&path).err().unwrap();
        assert!(error.to_string().contains("no socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
    }
}
