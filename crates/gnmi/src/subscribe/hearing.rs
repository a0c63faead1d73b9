//! What happens to the ports of all switches, whichever there are.
//!
//! A switch that is new is followed before its ports are looked at, so that none is missed; what is told twice is no
//! change to a stream. Of one that has gone all that it had told is heard first, which is that its ports have gone.

use super::Event;
use crate::interface::{Part, Source, now_ns};
use std::sync::Arc;
use std::time::Duration;
use switch::{PortEvent, PortFollower};

/// Hears of ports.
pub(super) struct Hearing {
    source: Arc<Source>,
    followed: Vec<(Arc<Part>, PortFollower)>,
}

impl Hearing {
    /// Of a source, from now on.
    pub(super) fn new(source: Arc<Source>) -> Hearing {
        let mut hearing = Hearing { source, followed: Vec::new() };
        // What is there is told to each stream when it begins.
        hearing.look(&mut |_| {});
        hearing
    }

    /// Tells what happens next, waiting for it at most so long.
    pub(super) fn round(&mut self, patience: Duration, tell: &mut impl FnMut(Event)) {
        self.look(tell);
        let followers: Vec<&PortFollower> =
            self.followed.iter().map(|(_, follower)| follower).collect();
        if followers.is_empty() {
            return std::thread::sleep(patience);
        }
        if let Some((at, event)) = PortFollower::next_of(&followers, patience) {
            hear(&self.followed[at].0, &event, tell);
        }
    }

    /// Follows switches that are new, and leaves those that have gone.
    fn look(&mut self, tell: &mut impl FnMut(Event)) {
        let parts = self.source.parts();
        self.followed.retain(|(part, follower)| {
            let stays = parts.iter().any(|other| Arc::ptr_eq(part, other));
            while let Some(event) = (!stays).then(|| follower.next(Duration::ZERO)).flatten() {
                hear(part, &event, tell);
            }
            stays
        });
        for part in parts {
            if self.followed.iter().any(|(other, _)| Arc::ptr_eq(&part, other)) {
                continue;
            }
            let follower = part.switch().follow_ports();
            for interface in part.states() {
                tell(Event { interface: Arc::new(interface), gone: false, at_ns: now_ns() });
            }
            self.followed.push((part, follower));
        }
    }
}

fn hear(part: &Part, event: &PortEvent, tell: &mut impl FnMut(Event)) {
    let (view, gone) = match event {
        PortEvent::Added(view) | PortEvent::Modified(view) => (view, false),
        PortEvent::Removed(view) => (view, true),
    };
    if let Some(interface) = part.interface(view) {
        tell(Event { interface: Arc::new(interface), gone, at_ns: now_ns() });
    }
}
