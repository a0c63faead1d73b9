//! Sockets that say when this process has ended: other members keep a connection open, and the kernel closes it then.
//!
//! They are a thread's of [its own](super::own_files): of a process that is killed it ends at once, whatever else there is to
//! free. Nothing is ever said over them.

use super::own_files;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections of others that are kept, at most.
const KEPT: usize = 64;
/// The thread is woken by a connection, which its own host answers in so long.
const WAKES: Duration = Duration::from_secs(1);

/// The thread, as long as this process is a member.
pub(super) struct Witness {
    ends: Arc<AtomicBool>,
    at: Vec<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Listens at these addresses.
    ///
    /// # Errors
    /// At which it cannot, and why.
    pub(super) fn start(at: &[SocketAddr]) -> Result<Witness, String> {
        let ends = Arc::new(AtomicBool::new(false));
        let (to, bound) = sync_channel(1);
        let (ended, addresses) = (ends.clone(), at.to_vec());
        let thread = own_files::spawn("witness", move |own| {
            // As the member's thread: it is to end before those that have much to end.
            let _ = rustix::process::setpriority_process(None, -15);
            if let Err(error) = own {
                tracing::info!(%error, "sockets of this member close late when it is killed");
            }
            let listeners = addresses.iter().map(bind).collect::<Result<Vec<_>, _>>();
            match listeners {
                Ok(listeners) => {
                    let _ = to.send(Ok(()));
                    keep(&listeners, &ended);
                }
                Err(error) => drop(to.send(Err(error))),
            }
        });
        let thread = thread.map_err(|error| format!("there is no thread: {error}"))?;
        let none = || Err("its thread has ended".to_owned());
        bound.recv().unwrap_or_else(|_| none())?;
        Ok(Witness { ends, at: at.to_vec(), thread: Some(thread) })
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        let woken = self.at.iter().any(|at| TcpStream::connect_timeout(at, WAKES).is_ok());
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn bind(at: &SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(at).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| format!("--replication listen={at}: {error}"))
}

/// Keeps what others open, until they close it.
fn keep(listeners: &[TcpListener], ends: &AtomicBool) {
    let mut kept: Vec<TcpStream> = Vec::new();
    while !ends.load(Relaxed) {
        let room = kept.len() < KEPT;
        let mut fds: Vec<PollFd<'_>> = kept.iter().map(|one| fd(one)).collect();
        if room {
            fds.extend(listeners.iter().map(|one| fd(one)));
        }
        // Without room it looks now and then whether it is to end: nobody can wake it.
        let timeout = (!room).then_some(WAKES).and_then(|span| span.try_into().ok());
        if poll(&mut fds, timeout.as_ref()).is_err() {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (theirs, ours) = ready.split_at(kept.len());
        let mut theirs = theirs.iter();
        let mut new = Vec::new();
        for listener in listeners.iter().zip(ours).filter(|(_, ready)| **ready).map(|(one, _)| one)
        {
            if let Ok((stream, _)) = listener.accept() {
                new.push(stream);
            }
        }
        kept.retain_mut(|stream| !theirs.next().is_some_and(|ready| *ready) || is_open(stream));
        kept.extend(new.into_iter().filter(|stream| stream.set_nonblocking(true).is_ok()));
    }
}

fn fd(of: &impl AsFd) -> PollFd<'_> {
    PollFd::new(of, PollFlags::IN)
}

fn is_open(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(n) => n > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[test]
    fn connections_stay_until_it_ends_and_are_no_other_threads() {
        let at = [free(), free()];
        let witness = Witness::start(&at).unwrap();
        let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mut open: Vec<TcpStream> =
            (0..6).map(|n| TcpStream::connect(at[n % 2]).unwrap()).collect();
        // Those of who connects are in this table; what the thread has accepted is in its own.
        std::thread::sleep(Duration::from_millis(100));
        let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(after < before + 12, "{before} {after}");
        for stream in &mut open {
            stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let error = stream.read(&mut [0; 1]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
        // One that closes makes room; others stay.
        drop(open.pop());
        drop(witness);
        for stream in &mut open {
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "it has closed");
        }
        assert!(TcpStream::connect(at[0]).is_err(), "and listens no more");
    }

    #[test]
    fn an_address_that_is_taken_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = [taken.local_addr().unwrap()];
        let error = Witness::start(&at).err().unwrap();
        assert!(error.starts_with("--replication listen=127.0.0.1:"), "{error}");
    }
}
