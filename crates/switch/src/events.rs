//! What has happened to ports: a queue for the client that programs the switch, and one for each follower.
//!
//! Nobody waits for who does not read. The client's queue loses its oldest events, a follower's queue its newest ones,
//! which are counted: a follower that has [lost](PortFollower::lost) some looks at the ports themselves.

use crate::slot::PortEvent;
use crossbeam_channel::{Receiver, Select, Sender, TrySendError, bounded};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Events that wait for the client.
const EVENTS_MAX: usize = 65_536;
/// Events that wait for a follower.
const FOLLOWED_MAX: usize = 4096;

/// Both kinds of queues.
pub(crate) struct PortEvents {
    queue: (Sender<PortEvent>, Receiver<PortEvent>),
    followers: Mutex<Vec<(Sender<PortEvent>, Arc<AtomicU64>)>>,
}

/// Hears of every port from when it began to follow.
pub struct PortFollower {
    events: Receiver<PortEvent>,
    lost: Arc<AtomicU64>,
}

impl PortFollower {
    /// The next event, waiting for it at most so long.
    pub fn next(&self, timeout: Duration) -> Option<PortEvent> {
        self.events.recv_timeout(timeout).ok()
    }

    /// The next event that one of these hears, and which one, waiting for it at most so long.
    pub fn next_of(followers: &[&PortFollower], timeout: Duration) -> Option<(usize, PortEvent)> {
        let mut select = Select::new();
        for follower in followers {
            select.recv(&follower.events);
        }
        let ready = select.select_timeout(timeout).ok()?;
        let at = ready.index();
        ready.recv(&followers[at].events).ok().map(|event| (at, event))
    }

    /// How many events it has lost so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl PortEvents {
    pub(crate) fn new() -> PortEvents {
        PortEvents { queue: bounded(EVENTS_MAX), followers: Mutex::default() }
    }

    /// To be called with the slots locked, so that events come in the order of what they tell.
    pub(crate) fn push(&self, event: PortEvent) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|(follower, lost)| match follower.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        });
        drop(followers);
        let mut event = Some(event);
        while let Some(waiting) = event.take() {
            match self.queue.0.try_send(waiting) {
                // The receiver lives as long as we do.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(waiting)) => {
                    event = Some(waiting);
                    if let Ok(lost) = self.queue.1.try_recv() {
                        tracing::warn!(
                            ?lost,
                            "nobody takes port events; the oldest one is dropped"
                        );
                    }
                }
            }
        }
    }

    /// The queue of who programs the switch.
    pub(crate) fn queue(&self) -> &Receiver<PortEvent> {
        &self.queue.1
    }

    pub(crate) fn follow(&self) -> PortFollower {
        let (sender, events) = bounded(FOLLOWED_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.push((sender, lost.clone()));
        PortFollower { events, lost }
    }
}
