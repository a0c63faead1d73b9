//! `--otlp`: logs, and spans of slow changes, for a collector of OpenTelemetry, by OTLP over HTTP with JSON (OTLP 1.x).
//!
//! | module | does |
//! |---|---|
//! | [`encode`] | log records and spans as OTLP's JSON |
//! | [`http`] | one request to the collector |
//! | [`slow`] | spans that wait to be sent |
//!
//! In: the last events of the process, which [`logging::events`](crate::logging::events) keeps in any case, and what switches
//! tell of slow work. Out: requests of a thread of its own; nobody waits for it. A collector that does not answer is asked again
//! after 1 s, then 2 s, up to 30 s. Meanwhile [`KEPT`](crate::logging::events::KEPT) events and [`slow::KEPT`] spans wait; older ones are counted as
//! dropped. A batch that the collector refuses is dropped, too. The log says once that it does not answer, and once that it
//! does again.
//!
//! Checked by: the tests here, against a small receiver.

mod encode;
mod http;
mod slow;
#[cfg(test)]
mod tests;

use crate::bridges::Bridges;
use crate::config::{Endpoint, OtlpAt};
use crate::failure::Failure;
use crate::logging::events::{EVENTS, Events};
use encode::Resource;
use http::Answer;
use slow::Spans;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So many records or spans go in one request.
const BATCH: usize = 512;
/// How long records wait for others.
const GATHER: Duration = Duration::from_millis(500);
/// Waits between tries.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The last request is waited for so long.
const LAST: Duration = Duration::from_secs(2);
/// A wait is looked after so often, whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// What an exporter has done.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Records and spans that a collector has taken.
    pub(crate) sent: [AtomicU64; 2],
    /// Those that are lost: none asked for them in time, or the collector refused them.
    pub(crate) dropped: [AtomicU64; 2],
    /// Requests without a good answer.
    pub(crate) failed: AtomicU64,
}

/// Names of what is sent, in the order of [`Counts`].
pub(crate) const SIGNALS: [&str; 2] = ["logs", "spans"];
const LOGS: usize = 0;
const SPANS: usize = 1;

/// Those of this process, for metrics; it has one exporter at most.
pub(crate) static COUNTS: Counts = Counts {
    sent: [const { AtomicU64::new(0) }; 2],
    dropped: [const { AtomicU64::new(0) }; 2],
    failed: AtomicU64::new(0),
};
static RUNS: AtomicBool = AtomicBool::new(false);

/// The counters, if this process has an exporter.
pub(crate) fn counts() -> Option<&'static Counts> {
    // Relaxed: it guards nothing.
    RUNS.load(Ordering::Relaxed).then_some(&COUNTS)
}

/// An exporter that runs; dropped, it sends what it has, once, and stops.
#[derive(Debug)]
pub(crate) struct Exporter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts one, if it is asked for.
    pub(crate) fn start(
        at: Option<&OtlpAt>,
        bridges: &Bridges,
    ) -> Result<Option<Exporter>, Failure> {
        let Some(at) = at else { return Ok(None) };
        RUNS.store(true, Ordering::Relaxed);
        let bridges = bridges.clone();
        let watch = move |spans: &Arc<Spans>, from| {
            for bridge in bridges.all() {
                spans.watch(bridge.name(), bridge.switch(), from);
            }
        };
        Exporter::begin(at, &EVENTS, &COUNTS, (GATHER, RETRY.0), watch).map(Some)
    }

    fn begin(
        at: &OtlpAt,
        events: &'static Events,
        counts: &'static Counts,
        (gather, retry): (Duration, Duration),
        watch: impl Fn(&Arc<Spans>, Duration) + Send + 'static,
    ) -> Result<Exporter, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let spans = Arc::new(Spans::default());
        let slow_from = at.slow_from;
        let mut sender = Sender {
            endpoint: at.endpoint.clone(),
            resource: Resource::of_this_process(),
            stop: stop.clone(),
            events,
            counts,
            next: 0,
            spans: spans.clone(),
            gather,
            first_wait: retry,
            wait: retry,
            silent: false,
        };
        watch(&spans, slow_from);
        let run = move || {
            while !sender.is_ending() {
                sender.events.wait(sender.next, sender.gather);
                // More may come with it, and bridges may have.
                sender.pause(sender.gather);
                watch(&spans, slow_from);
                sender.send_all();
            }
            sender.send_all();
        };
        let thread = std::thread::Builder::new().name("otlp".to_owned()).spawn(run);
        let thread = thread.map_err(|e| Failure::Bad(format!("--otlp: no thread: {e}")))?;
        Ok(Exporter { stop, thread: Some(thread) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let end = Instant::now() + LAST;
        // A collector that does not answer holds up nobody's end.
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Sender {
    endpoint: Endpoint,
    resource: Resource,
    stop: Arc<AtomicBool>,
    events: &'static Events,
    counts: &'static Counts,
    /// The number of the last event that was sent or given up.
    next: u64,
    spans: Arc<Spans>,
    /// How long records wait for others.
    gather: Duration,
    /// The wait behind the first failure, and behind the next one.
    first_wait: Duration,
    wait: Duration,
    /// The log has said that the collector does not answer.
    silent: bool,
}

impl Sender {
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits, but no longer than the exporter runs.
    fn pause(&self, most: Duration) {
        let end = Instant::now() + most;
        while !self.is_ending() && Instant::now() < end {
            std::thread::sleep(LOOK.min(most));
        }
    }

    /// Sends all that there is.
    fn send_all(&mut self) {
        loop {
            let events = self.events.since(self.next);
            let Some(first) = events.first() else { break };
            // Numbers that are missing were pushed out by newer ones.
            let missed = first.number.saturating_sub(self.next + 1);
            self.counts.dropped[LOGS].fetch_add(missed, Ordering::Relaxed);
            self.next += missed;
            let batch = &events[..events.len().min(BATCH)];
            let body = encode::logs(&self.resource, batch);
            if !self.send("/v1/logs", LOGS, batch.len(), &body) {
                // Spans would find nobody either.
                return;
            }
            self.next = batch.last().map_or(self.next, |last| last.number);
        }
        loop {
            let (batch, missed) = self.spans.take(BATCH);
            self.counts.dropped[SPANS].fetch_add(missed, Ordering::Relaxed);
            if batch.is_empty() {
                break;
            }
            let body = encode::spans(&self.resource, &batch);
            if !self.send("/v1/traces", SPANS, batch.len(), &body) {
                self.spans.give_back(batch);
                break;
            }
        }
    }

    /// Whether the batch is done with.
    fn send(&mut self, path: &str, signal: usize, n: usize, body: &str) -> bool {
        let answer = http::post(&self.endpoint, path, body);
        let (sent, dropped) = (&self.counts.sent[signal], &self.counts.dropped[signal]);
        let n = n as u64;
        match answer {
            Answer::Taken { rejected } => {
                let rejected = rejected.min(n);
                sent.fetch_add(n - rejected, Ordering::Relaxed);
                dropped.fetch_add(rejected, Ordering::Relaxed);
                self.wait = self.first_wait;
                if std::mem::take(&mut self.silent) {
                    tracing::info!(endpoint = %self.endpoint, "the OTLP collector answers again");
                }
                true
            }
            Answer::Refused(why) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                dropped.fetch_add(n, Ordering::Relaxed);
                self.complain(&why);
                true
            }
            Answer::Later { why, after } => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                self.complain(&why);
                let wait = after.unwrap_or(self.wait).min(RETRY.1);
                self.wait = (self.wait * 2).min(RETRY.1);
                self.pause(wait);
                false
            }
        }
    }

    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.silent, true) {
            tracing::warn!(
                endpoint = %self.endpoint, why,
                "the OTLP collector takes nothing; logs and spans wait, and the oldest are dropped"
            );
        }
    }
}
