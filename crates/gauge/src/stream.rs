//! The bytes of the control channel: TCP, or TLS over it.
//!
//! One thread reads and others write. Over TLS both need the one state of the connection, so whoever reads
//! waits for the socket without it, and holds it only while it deciphers what has come; a latency taken over TLS
//! contains that work, which the calibration (over TCP) does not.
//!
//! Holds true: a write that nobody reads ends after the socket's time, TLS or not.

use of_channel::TlsFiles;
use port::wait_readable;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A stream that can be cloned; the clones are one stream.
#[derive(Clone)]
pub(crate) struct Stream {
    socket: Arc<TcpStream>,
    tls: Option<Arc<Mutex<Connection>>>,
}

impl Stream {
    /// Plain TCP.
    pub(crate) fn plain(socket: TcpStream) -> Stream {
        Stream { socket: Arc::new(socket), tls: None }
    }

    /// As the one who connected to `host`.
    pub(crate) fn client(socket: TcpStream, files: &TlsFiles, host: &str) -> io::Result<Stream> {
        let name = ServerName::try_from(host.to_string())
            .unwrap_or(ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into()));
        let config = files.client().map_err(io::Error::other)?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Stream::shaken(socket, connection.into())
    }

    /// As the one whom the switch connected to.
    pub(crate) fn server(socket: TcpStream, files: &TlsFiles) -> io::Result<Stream> {
        let config = files.server().map_err(io::Error::other)?;
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        Stream::shaken(socket, connection.into())
    }

    fn shaken(socket: TcpStream, mut connection: Connection) -> io::Result<Stream> {
        while connection.is_handshaking() {
            connection.complete_io(&mut &socket)?;
        }
        let tls = Some(Arc::new(Mutex::new(connection)));
        Ok(Stream { socket: Arc::new(socket), tls })
    }

    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Ends it, for all clones.
    pub(crate) fn shutdown(&self) {
        // It may be closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Deciphered bytes; waits for some.
    fn read_tls(&self, tls: &Mutex<Connection>, buffer: &mut [u8]) -> io::Result<usize> {
        let until = self.socket.read_timeout()?.map(|wait| Instant::now() + wait);
        loop {
            let ready = |connection: &mut Connection, buffer: &mut [u8]| match connection
                .reader()
                .read(buffer)
            {
                Err(e) if e.kind() == ErrorKind::WouldBlock => None,
                done => Some(done),
            };
            if let Some(done) =
                ready(&mut tls.lock().unwrap_or_else(PoisonError::into_inner), buffer)
            {
                return done;
            }
            if !wait_readable(self.socket.as_fd(), Duration::from_secs(1)) {
                match until.is_some_and(|until| Instant::now() >= until) {
                    true => return Err(ErrorKind::TimedOut.into()),
                    false => continue,
                }
            }
            let mut connection = tls.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody else reads, so what made it readable is still there.
            if connection.read_tls(&mut &*self.socket)? == 0 {
                return Ok(0);
            }
            connection.process_new_packets().map_err(io::Error::other)?;
            while connection.wants_write() {
                connection.write_tls(&mut &*self.socket)?;
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => self.read_tls(tls, buffer),
            None => (&*self.socket).read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return (&*self.socket).write(bytes) };
        let mut connection = tls.lock().unwrap_or_else(PoisonError::into_inner);
        // A part, so that what is enciphered at once has a bound.
        let taken = connection.writer().write(&bytes[..bytes.len().min(1 << 16)])?;
        while connection.wants_write() {
            connection.write_tls(&mut &*self.socket)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
