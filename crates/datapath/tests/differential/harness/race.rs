//! A case with its updates on a thread of their own.
//!
//! The control thread commits, applies and publishes while the worker forwards burst after burst by
//! whatever is current. Each burst must do exactly what the plain pipeline of the snapshot's version
//! does: a packet that met half of an update, or two versions, differs. The worker notes which version
//! each burst was run by, so that a mismatch becomes a case of one thread.

use super::case::{Case, Incoming, Step};
use super::run::{Buffers, Lane, Mismatch, Stats};
use super::{Subject, Tested};
use datapath::Forward;
use ir::{Pipeline, Update};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is current, and the pipelines of the versions that may still be met.
struct Shared {
    current: Mutex<Arc<dyn Forward>>,
    versions: Mutex<BTreeMap<u64, Arc<Pipeline>>>,
    ended: AtomicBool,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the case; an error comes with the case of one thread that tells what the worker met.
pub(crate) fn race(
    case: &Case,
    subject: &Subject,
    b: &mut Buffers,
) -> Result<Stats, Box<(Case, Mismatch)>> {
    let Ok(pipeline) = Pipeline::new(case.program.clone()) else { return Ok(Stats::default()) };
    let mut lane = Lane::new(&case.program);
    let (mut engine, forward) = (subject.make)(case.program.clone(), lane.arena().clone());
    let shared = Shared {
        current: Mutex::new(forward),
        versions: Mutex::new([(0, Arc::new(pipeline.clone()))].into()),
        ended: AtomicBool::new(false),
    };
    let bursts: Vec<&[Incoming]> = case
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Burst { packets, .. } => Some(&packets[..]),
            _ => None,
        })
        .collect();
    // By version: the transactions that led to it, and bursts that were run by it.
    let mut taken: Vec<Vec<Update>> = Vec::new();
    let mut met: Vec<(u64, usize)> = Vec::new();
    let mut control_ended = Ok(());
    let first = lock(&shared.current).clone();
    let result = std::thread::scope(|scope| {
        let control = scope.spawn(|| {
            let mut truth = pipeline;
            let mut taken = Vec::new();
            let publish = |engine: &mut Box<dyn Tested>, truth: &Pipeline| {
                lock(&shared.versions).insert(truth.version(), Arc::new(truth.clone()));
                let next = engine.publish(&|| ());
                *lock(&shared.current) = next;
            };
            let mut outcome = None;
            let mut published = 0;
            for step in &case.steps {
                if shared.ended.load(Ordering::Relaxed) {
                    break;
                }
                match step {
                    Step::Transact(updates) => {
                        if truth.transact(updates).is_ok() {
                            engine.apply(&truth, updates, 0);
                            taken.push(updates.clone());
                        }
                    }
                    Step::Publish => {
                        published = truth.version();
                        publish(&mut engine, &truth);
                    }
                    Step::Settle => {
                        if engine.settle() && published == truth.version() {
                            publish(&mut engine, &truth);
                        }
                    }
                    Step::Work if outcome.is_none() => outcome = engine.job().map(|job| job()),
                    Step::Work => {}
                    Step::Finish => {
                        if let Some(done) = outcome.take()
                            && engine.finish(done)
                            && published == truth.version()
                        {
                            publish(&mut engine, &truth);
                        }
                    }
                    Step::Burst { .. } => std::thread::yield_now(),
                }
            }
            taken
        });
        let worker = catch_unwind(AssertUnwindSafe(|| {
            work(&shared, first, &mut lane, b, &bursts, &mut met)
        }));
        shared.ended.store(true, Ordering::Relaxed);
        match control.join() {
            Ok(list) => taken = list,
            Err(_) => control_ended = Err("the control thread panicked".to_string()),
        }
        worker.unwrap_or_else(|_| {
            *b = Buffers::default();
            Err((None, "the worker panicked".to_string()))
        })
    });
    let result = result.and_then(|()| control_ended.map_err(|e| (None, e)));
    match result {
        Ok(()) => Ok(lane.stats(&*engine)),
        Err((packet, what)) => {
            let steps = told(&taken, &met, &bursts);
            let step = steps.len().saturating_sub(1);
            let case = Case { program: case.program.clone(), steps };
            Err(Box::new((case, Mismatch { step, packet, what, pipeline: None })))
        }
    }
}

fn work(
    shared: &Shared,
    first: Arc<dyn Forward>,
    lane: &mut Lane,
    b: &mut Buffers,
    bursts: &[&[Incoming]],
    met: &mut Vec<(u64, usize)>,
) -> Result<(), (Option<usize>, String)> {
    // The lane was made for the program of this one.
    let mut forward = first;
    let mut pipeline = at(shared, &*forward)?;
    for (number, packets) in bursts.iter().enumerate() {
        let next = lock(&shared.current).clone();
        if !Arc::ptr_eq(&next, &forward) {
            let version = at(shared, &*next)?;
            if !Arc::ptr_eq(version.program(), pipeline.program()) {
                let (old, new) = (pipeline.program(), version.program());
                lane.adopt(&*forward, old, new).map_err(|e| (None, e))?;
            }
            (forward, pipeline) = (next, version);
            lock(&shared.versions).retain(|v, _| *v >= pipeline.version());
        } else {
            drop(next);
        }
        met.push((forward.version(), number));
        lane.burst(b, &*forward, &pipeline, packets).map_err(|(i, e)| (Some(i), e))?;
    }
    lane.check_state(&*forward).and_then(|()| lane.check_counts()).map_err(|e| (None, e))
}

/// The pipeline of a snapshot's version.
fn at(shared: &Shared, forward: &dyn Forward) -> Result<Arc<Pipeline>, (Option<usize>, String)> {
    let found = lock(&shared.versions).get(&forward.version()).cloned();
    found.ok_or_else(|| (None, format!("version {} is none of the published", forward.version())))
}

/// What the worker met, as steps of one thread.
fn told(taken: &[Vec<Update>], met: &[(u64, usize)], bursts: &[&[Incoming]]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut version = 0;
    for (by, number) in met {
        while version < *by {
            match taken.get(version as usize) {
                Some(updates) => steps.push(Step::Transact(updates.clone())),
                None => break,
            }
            version += 1;
            if version == *by {
                steps.push(Step::Publish);
            }
        }
        steps.push(Step::Burst { late: false, packets: bursts[*number].to_vec() });
    }
    steps
}
