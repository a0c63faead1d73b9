//! Connections are opened only where a fence says so.

use crate::conntrack::image::tests::{end, pass};
use crate::conntrack::{Config, Drop, Request, Tracker};
use crate::craft::Frame;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use wire::tcp::Flags as Tcp;

#[test]
fn nothing_is_opened_behind_a_fence_and_what_is_known_passes() {
    let (open, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let (may, count) = (open.clone(), asked.clone());
    let mut tracker = Tracker::new(Config::new(16, 1), 0);
    tracker.set_fence(Some(Arc::new(move || {
        count.fetch_add(1, Relaxed);
        may.load(Relaxed)
    })));
    let commit = Request { commit: true, ..Request::default() };
    let known = Frame::udp(end(1, false, 7), end(9, false, 53), 4);
    let other = Frame::udp(end(2, false, 7), end(9, false, 53), 4);
    let middle = Frame::tcp(end(3, false, 7), end(9, false, 80), Tcp::ACK, (5000, 9000), 0);
    assert_eq!(pass(&mut tracker, 0, &known, &commit).0.drop, None);
    open.store(false, Relaxed);
    assert_eq!(pass(&mut tracker, 0, &known, &commit).0.drop, None);
    assert_eq!(asked.load(Relaxed), 1, "who is known asks nothing");
    for request in [commit, Request::default()] {
        for frame in [&other, &middle] {
            assert_eq!(pass(&mut tracker, 0, frame, &request).0.drop, Some(Drop::Fenced));
        }
    }
    assert_eq!((tracker.len(), tracker.counters().fenced), (1, 4));
    open.store(true, Relaxed);
    assert_eq!(pass(&mut tracker, 0, &other, &commit).0.drop, None);
    open.store(false, Relaxed);
    tracker.set_fence(None);
    assert_eq!(pass(&mut tracker, 0, &middle, &commit).0.drop, None);
    assert_eq!(tracker.len(), 3);
}
