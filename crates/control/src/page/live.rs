//! The sampler, and who watches.
//!
//! One thread reads the counters once a second and writes the sample once, whoever watches. Each viewer has a queue of
//! [`QUEUE_MAX`] samples; a viewer that is too slow loses samples, and is told how many. One that has taken nothing for
//! [`STALLED_MAX`] samples is let go of. Who comes later is told what happened in the last [`KEPT_MAX`] seconds.

use super::sample::{Point, Sampler};
use crate::bridges::Bridges;
use crate::sync::lock;
use bytes::Bytes;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Viewers at once, at most.
pub(super) const VIEWERS_MAX: usize = 16;
/// Samples that wait for a viewer, at most.
const QUEUE_MAX: usize = 4;
/// Samples that a viewer loses one after the other before it is let go of.
const STALLED_MAX: u32 = 30;
/// Points that are kept.
const KEPT_MAX: usize = 600;
/// Between two samples.
const EVERY: Duration = Duration::from_secs(1);

struct Viewer {
    to: mpsc::Sender<Bytes>,
    /// Samples lost since it was last told.
    lost: u64,
    stalled: u32,
}

#[derive(Default)]
struct Viewers {
    all: Vec<Viewer>,
    kept: VecDeque<Point>,
    /// Samples lost by any of them, ever.
    lost: u64,
}

/// An event of a stream.
fn event(name: &str, value: &impl Serialize) -> Bytes {
    let value = serde_json::to_string(value).unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {value}\n\n"))
}

impl Viewers {
    fn add(&mut self) -> Option<mpsc::Receiver<Bytes>> {
        self.all.retain(|viewer| !viewer.to.is_closed());
        if self.all.len() >= VIEWERS_MAX {
            return None;
        }
        let (to, stream) = mpsc::channel(QUEUE_MAX);
        // There is room: nothing was sent yet.
        let _ = to.try_send(event("history", &self.kept));
        self.all.push(Viewer { to, lost: 0, stalled: 0 });
        Some(stream)
    }

    fn tell(&mut self, sample: &Bytes) {
        let lost_all = &mut self.lost;
        self.all.retain_mut(|viewer| {
            if viewer.lost > 0 && viewer.to.try_send(event("lost", &viewer.lost)).is_ok() {
                viewer.lost = 0;
            }
            match viewer.to.try_send(sample.clone()) {
                Ok(()) => viewer.stalled = 0,
                Err(TrySendError::Closed(_)) => return false,
                Err(TrySendError::Full(_)) => {
                    viewer.lost += 1;
                    viewer.stalled += 1;
                    *lost_all += 1;
                }
            }
            viewer.stalled < STALLED_MAX
        });
    }

    fn keep(&mut self, point: Point) {
        self.kept.push_back(point);
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
    }
}

/// The sampler, until it is dropped.
pub(super) struct Live {
    viewers: Arc<Mutex<Viewers>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    pub(super) fn start(bridges: Bridges) -> std::io::Result<Live> {
        let viewers = Arc::new(Mutex::new(Viewers::default()));
        let (stop, stopped) = channel();
        let told = viewers.clone();
        let sampling = move || {
            let mut sampler = Sampler::default();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(EVERY) {
                let (sample, point) = sampler.take(&bridges);
                let mut viewers = lock(&told);
                if !viewers.all.is_empty() {
                    viewers.tell(&event("sample", &sample));
                }
                viewers.keep(point);
            }
        };
        let thread = std::thread::Builder::new().name("page".into()).spawn(sampling)?;
        Ok(Live { viewers, stop: Some(stop), thread: Some(thread) })
    }

    /// A stream of what comes, unless there are too many.
    pub(super) fn watch(&self) -> Option<mpsc::Receiver<Bytes>> {
        lock(&self.viewers).add()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the page's sampler has panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(stream: &mut mpsc::Receiver<Bytes>) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(bytes) = stream.try_recv() {
            all.push(String::from_utf8(bytes.to_vec()).unwrap());
        }
        all
    }

    #[test]
    fn a_slow_viewer_loses_samples_and_is_told_how_many() {
        let mut viewers = Viewers::default();
        let mut slow = viewers.add().unwrap();
        let mut quick = viewers.add().unwrap();
        let mut came = 0;
        for n in 0..10 {
            viewers.tell(&event("sample", &n));
            came += taken(&mut quick).iter().filter(|text| text.contains("sample")).count();
        }
        assert_eq!((came, viewers.lost), (10, 7));
        let held = taken(&mut slow);
        assert_eq!(held.len(), QUEUE_MAX);
        assert_eq!(held[0], "event: history\ndata: []\n\n");
        assert_eq!(held[3], "event: sample\ndata: 2\n\n");
        viewers.tell(&event("sample", &10));
        assert_eq!(taken(&mut slow), ["event: lost\ndata: 7\n\n", "event: sample\ndata: 10\n\n"]);
    }

    #[test]
    fn viewers_are_bounded_and_those_that_stand_still_let_go() {
        let mut viewers = Viewers::default();
        let mut streams: Vec<_> = (0..VIEWERS_MAX).map(|_| viewers.add().unwrap()).collect();
        assert!(viewers.add().is_none());
        drop(streams.pop());
        assert!(viewers.add().is_some());
        for n in 0..STALLED_MAX as usize + QUEUE_MAX {
            viewers.tell(&event("sample", &n));
        }
        assert!(viewers.all.is_empty());
        // What is kept is bounded, too.
        for _ in 0..KEPT_MAX + 5 {
            viewers.keep(Point::default());
        }
        assert_eq!(viewers.kept.len(), KEPT_MAX);
    }
}
