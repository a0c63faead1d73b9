//! What the thread that watches links sleeps on: the ports' own events, and a bell of ours.
//!
//! A port whose kind can tell has a descriptor that is readable when its link may have changed
//! ([`Port::event_fd`](port::Port::event_fd)); it stays so until the port is asked for its link.
//! Others are asked a few times a second, which is how long a wait lasts at most. Linux tells of a lost
//! carrier at most once a second, so that the event may be that late: while a group watches ports, which
//! is when it matters, the thread also glances at them ([`Port::glance`](port::Port::glance)) every
//! few milliseconds. The bell is an
//! eventfd: it wakes the thread when a port was added, whose descriptor is not among those yet, and
//! when the switch stops.
//!
//! Ports whose descriptor is readable are asked, and no others: one port's change costs the same among a thousand. What
//! was missed is found since all are asked in turn, [`TURN`] of them every time that a wait has lasted its whole length.
//!
//! Invariant: who waits holds descriptors of its own, so a port may go meanwhile.
//! Cost: one system call a wait, and two for each port that has a descriptor.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Ports that are asked in turn, without an event.
pub(crate) const TURN: usize = 64;

/// A port's number, and its descriptor.
pub(crate) type LinkEvent = (u32, OwnedFd);

/// How a wait has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// The bell was rung.
    pub(crate) rung: bool,
    /// Ports that may have news.
    pub(crate) ports: Vec<u32>,
}

impl Woken {
    /// Something has ended it before its time.
    pub(crate) fn any(&self) -> bool {
        self.rung || !self.ports.is_empty()
    }
}

/// The bell.
pub(crate) struct Bell {
    fd: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> std::io::Result<Bell> {
        Ok(Bell { fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    /// Ends a wait, or the next one.
    pub(crate) fn ring(&self) {
        // It fails only when the count is full, and then it rings already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Waits until one of `events` is readable, or it is rung, or at most so long.
    pub(crate) fn wait(&self, events: &[LinkEvent], timeout: Duration) -> Woken {
        let timeout = Timespec::try_from(timeout).ok();
        let all = std::iter::once(&self.fd).chain(events.iter().map(|(_, fd)| fd));
        let mut fds: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        // An interrupted wait is a short one.
        let woken = matches!(poll(&mut fds, timeout.as_ref()), Ok(n) if n > 0);
        let is_ready = |fd: &PollFd<'_>| woken && !fd.revents().is_empty();
        let ready = fds[1..].iter().zip(events).filter(|(fd, _)| is_ready(fd));
        let ports = ready.map(|(_, (number, _))| *number).collect();
        let rung = is_ready(&fds[0]);
        // It has nothing to read if it was not rung.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        Woken { rung, ports }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_ring_ends_one_wait_whether_before_or_during_it() {
        let (bell, start) = (Bell::new().unwrap(), Instant::now());
        bell.ring();
        bell.ring();
        bell.wait(&[], LONG);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| bell.wait(&[], LONG));
            bell.ring();
            waiting.join().unwrap();
        });
        assert!(start.elapsed() < LONG);
        let start = Instant::now();
        bell.wait(&[], Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20), "what was heard rings no more");
    }

    #[test]
    fn an_event_ends_every_wait_until_it_is_read() {
        let bell = Bell::new().unwrap();
        let quiet = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let event = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        let start = Instant::now();
        let events = [(7, quiet), (9, event)];
        for _ in 0..2 {
            assert_eq!(bell.wait(&events, LONG), Woken { rung: false, ports: vec![9] });
        }
        bell.ring();
        assert_eq!(bell.wait(&events, LONG), Woken { rung: true, ports: vec![9] });
        assert!(start.elapsed() < LONG);
    }
}
