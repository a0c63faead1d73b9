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
//! Invariant: who waits holds descriptors of its own, so a port may go meanwhile.
//! Cost: one system call a wait, and two for each port that has a descriptor.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::OwnedFd;
use std::time::Duration;

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

    /// Waits until one of `events` is readable, or it is rung, or at most so long: then it says false.
    pub(crate) fn wait(&self, events: &[OwnedFd], timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).ok();
        let all = std::iter::once(&self.fd).chain(events);
        let mut fds: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        // An interrupted wait is a short one.
        let woken = poll(&mut fds, timeout.as_ref()) != Ok(0);
        // It has nothing to read if it was not rung.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        woken
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
        let events = [quiet, event];
        bell.wait(&events, LONG);
        bell.wait(&events, LONG);
        assert!(start.elapsed() < LONG);
    }
}
