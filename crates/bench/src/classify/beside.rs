//! Lookups while rules come and go: beside a writer on another core, and step by step against a judge.
//!
//! Beside a writer there are two replicas, as in the datapath. The writer edits the one that no reader holds,
//! swaps, and brings the other up to date when the reader has let go of it; the reader looks for a new one
//! between bursts. Half of the rules stay, the others come and go, so a reader's answer must be at least
//! as good as the best of those that stay, at most as good as the best of all, and match.

use super::subject::{New, Subject};
use super::{BURST, Trace, median};
use classify::classbench::{Draw, KEY_LEN, STRIDE};
use classify::{Hit, Rule};
use control::failure::Failure;
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Between two swaps: as the switch publishes.
const SWAP: Duration = switch::PUBLISH_INTERVAL;
/// Length of a run.
const RUN: Duration = Duration::from_millis(500);
/// Of so many bursts beside the writer one is judged.
const JUDGED: usize = 16;

/// What readers hold.
type Held = Arc<Box<dyn Subject>>;

/// The replica of now, and how often it has changed.
struct Published {
    replica: Mutex<Held>,
    version: AtomicU64,
}

/// A reader's rate without a writer and beside one that applies so many updates a second; and how many answers
/// were wrong.
pub(super) fn beside(
    new: New,
    rules: &[Rule],
    trace: &Trace,
    rate: u64,
    runs: usize,
    draw: &mut Draw,
) -> Result<(Value, usize), Failure> {
    let mut order: Vec<u32> = (0..rules.len() as u32).collect();
    draw.shuffle(&mut order);
    let (stay, go) = order.split_at(rules.len() / 2);
    if stay.is_empty() || go.is_empty() {
        return Err(Failure::usage("--beside needs at least two rules"));
    }
    let of = |ids: &[u32]| ids.iter().map(|&at| &rules[at as usize]).collect::<Vec<_>>();
    let make = |ids: &[u32]| new(&of(ids)).map_err(Failure::Bad);
    // The bounds of every answer.
    let (mut least, mut most) = (vec![Hit::MISS; trace.len()], vec![Hit::MISS; trace.len()]);
    super::bursts(&*make(stay)?, trace, &mut least);
    super::bursts(&*make(&order)?, trace, &mut most);
    let priority = |hit: &Hit| match hit.is_hit() {
        true => i64::from(rules[hit.entry as usize].priority),
        false => -1,
    };
    let published =
        Published { replica: Mutex::new(Arc::new(make(&order)?)), version: AtomicU64::new(0) };
    let mut other: Held = Arc::new(make(&order)?);
    let mut plan = Comings { there: go.to_vec(), away: Vec::new(), draw: draw.clone() };
    let (mut alone, mut loaded, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    let (mut judged, mut wrong, mut at) = (0, 0, 0);
    let mut hits = [Hit::MISS; BURST];
    // One run of the reader.
    let mut read = |judge: bool| {
        let (mut version, mut held) = (u64::MAX, None::<Held>);
        let (mut lookups, began) = (0usize, Instant::now());
        let mut elsewhere = Duration::ZERO;
        let mut bursts = 0;
        while bursts % 64 != 0 || began.elapsed() < RUN + elsewhere {
            let now = published.version.load(Ordering::Acquire);
            if now != version {
                // Let go of the old one first: the writer may be waiting for it.
                drop(held.take());
                version = now;
                held = published.replica.lock().ok().map(|replica| replica.clone());
            }
            let Some(subject) = &held else { break };
            let from = at % trace.len();
            let count = BURST.min(trace.len() - from);
            let keys = &trace.keys[from * STRIDE..][..count * STRIDE];
            subject.lookup_burst(keys, STRIDE, black_box(&mut hits[..count]));
            lookups += count;
            at = from + count;
            bursts += 1;
            if judge && bursts % JUDGED == 0 {
                let began = Instant::now();
                for (n, (key, hit)) in keys.chunks(STRIDE).zip(&hits).enumerate() {
                    let got = priority(hit);
                    let within =
                        priority(&least[from + n]) <= got && got <= priority(&most[from + n]);
                    let matches =
                        !hit.is_hit() || rules[hit.entry as usize].matches(&key[..KEY_LEN]);
                    wrong += usize::from(!within || !matches);
                }
                judged += count;
                elsewhere += began.elapsed();
            }
        }
        (began.elapsed() - elsewhere).as_nanos() as f64 / lookups.max(1) as f64
    };
    for _ in 0..runs {
        alone.push(read(true));
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let writer =
                scope.spawn(|| write(&published, &mut other, rules, &mut plan, rate, &stop));
            let ns = read(true);
            stop.store(true, Ordering::Release);
            // A writer that panics has broken an invariant: the bench ends with it.
            let rate = writer.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
            (ns, rate)
        });
        loaded.push(result.0);
        rates.push(result.1);
    }
    let (alone, loaded) = (median(alone), median(loaded));
    let value = json!({
        "asked_per_second": rate,
        "per_second": median(rates),
        "ns_per_lookup_alone": alone,
        "ns_per_lookup": loaded,
        "relative_rate": alone / loaded,
        "checked": judged,
        "mismatches": wrong,
    });
    Ok((value, wrong))
}

/// Rules that come and go.
struct Comings {
    there: Vec<u32>,
    away: Vec<u32>,
    draw: Draw,
}

impl Comings {
    /// The next: whether it comes, and which.
    fn next(&mut self) -> (bool, u32) {
        let comes = self.there.is_empty() || !self.away.is_empty() && self.draw.below(2) == 0;
        let (from, to) = match comes {
            true => (&mut self.away, &mut self.there),
            false => (&mut self.there, &mut self.away),
        };
        let at = from.swap_remove(self.draw.below(from.len()));
        to.push(at);
        (comes, at)
    }
}

/// The writer, until it is told to stop; updates a second.
fn write(
    published: &Published,
    other: &mut Held,
    rules: &[Rule],
    plan: &mut Comings,
    rate: u64,
    stop: &AtomicBool,
) -> f64 {
    let began = Instant::now();
    let mut done = 0u64;
    while !stop.load(Ordering::Acquire) {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        let log: Vec<(bool, u32)> = (done..due).map(|_| plan.next()).collect();
        done = done.max(due);
        apply(other, rules, &log);
        if let Ok(mut replica) = published.replica.lock() {
            std::mem::swap(&mut *replica, other);
        }
        published.version.fetch_add(1, Ordering::Release);
        // The other replica follows when the reader has gone on to this one.
        apply(other, rules, &log);
        std::thread::sleep(SWAP.saturating_sub(Duration::from_micros(100)));
    }
    done as f64 / began.elapsed().as_secs_f64()
}

/// Applies updates to a replica once nobody else holds it.
fn apply(replica: &mut Held, rules: &[Rule], log: &[(bool, u32)]) {
    let subject = loop {
        match Arc::get_mut(replica) {
            Some(subject) => break subject,
            None => std::thread::yield_now(),
        }
    };
    for &(comes, at) in log {
        let rule = &rules[at as usize];
        match comes {
            true => subject.insert(rule),
            false => subject.remove(rule.id),
        };
    }
}

/// Looks keys up in a structure and in another, plain one, an update after each burst: how many lookups, how many
/// of them differ. Every tenth is told.
pub(super) fn soak(
    new: New,
    judge: New,
    rules: &[Rule],
    trace: &Trace,
    lookups: u64,
    draw: &mut Draw,
) -> Result<(Value, usize), Failure> {
    let all: Vec<&Rule> = rules.iter().collect();
    let half = &all[..all.len().div_ceil(2)];
    let mut subject = new(half).map_err(Failure::Bad)?;
    let mut judge = judge(half).map_err(Failure::Bad)?;
    let (there, away) = (0..rules.len() as u32).partition(|&at| (at as usize) < half.len());
    let mut plan = Comings { there, away, draw: draw.clone() };
    let (mut done, mut wrong, mut updates, mut at) = (0u64, 0usize, 0u64, 0);
    let mut told = 0;
    while done < lookups {
        let from = at % trace.len();
        let count = BURST.min(trace.len() - from);
        at = from + count;
        let keys = &trace.keys[from * STRIDE..][..count * STRIDE];
        let (mut got, mut wanted) = ([Hit::MISS; BURST], [Hit::MISS; BURST]);
        subject.lookup_burst(keys, STRIDE, &mut got[..count]);
        judge.lookup_burst(keys, STRIDE, &mut wanted[..count]);
        wrong += got.iter().zip(&wanted).filter(|(got, wanted)| got != wanted).count();
        done += count as u64;
        let (comes, at) = plan.next();
        let rule = &rules[at as usize];
        for subject in [&mut subject, &mut judge] {
            let held = if comes { subject.insert(rule) } else { subject.remove(rule.id) };
            wrong += usize::from(!held);
        }
        updates += 1;
        if done * 10 / lookups > told {
            told = done * 10 / lookups;
            eprintln!("soak: {done} lookups, {updates} updates, {wrong} mismatches");
        }
    }
    Ok((json!({ "lookups": done, "updates": updates, "mismatches": wrong }), wrong))
}
