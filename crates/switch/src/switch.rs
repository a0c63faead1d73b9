//! The façade: transactions, barriers, counters, injection; and the threads behind it.
//!
//! Threads: one per worker (the packet path; several switches may share them, see [`Workers`]); `publish`, which makes gathered updates current;
//! `work-0` and `work-1`, which do the engine's long work, so that compiling waits for no table that is being
//! rearranged; `monitor`, which watches links. All end with the last [`Switch`] handle, or with [`Switch::stop`].
//!
//! Locks, always taken in this order: ports' slots, control, counters. None is held while waiting
//! for workers' bursts: publication needs that workers have left the snapshot before the last one, which
//! they do within a burst, and is put off until they have. (Only [`Switch::dump`] and [`Switch::explain`]
//! wait for that under `control`.)
//!
//! Checked by: `tests/`, whole switches on memory ports under load.

mod counts;

use crate::changes::Changes;
use crate::events::{PortEvents, PortFollower};
use crate::expiry::{Expired, Expiry};
use crate::signals::Signals;
use crate::signs::{Beats, LONG, Pulse, Sign};
use crate::slot::{PortEvent, Slot};
use crate::start::StartError;
use crate::timings::{Timings, Work};
use crate::traffic::Traffic;
use crate::wait::wait_until;
use crate::workers::Workers;
use datapath::capture::{self, Captured, Filter};
use datapath::compiled::{self, JitEngine};
use datapath::engine::{Engine, Scratch, TableExplanation};
use datapath::ports::{PortCounters, PortShared, PortTable};
use datapath::publish::Publisher;
use datapath::punt::{Message, PuntReceiver};
use datapath::repeats::Forgotten;
use datapath::replica::InterpEngine;
use datapath::services::Services;
use datapath::tally::Counted;
use datapath::worker::{Command, Handle, Injection, LaneConfig};
use hashbrown::{HashMap, HashSet};
use ir::pipeline::UpdateError;
use ir::{Pipeline, Program, Update};
use state::counters::CounterArena;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// Gathered updates are published at the latest after so long.
pub const PUBLISH_INTERVAL: Duration = Duration::from_millis(2);
/// Entries, groups, buckets, meters and bands that can count at the same time, in all.
const COUNTERS_MAX: u32 = 1 << 24;
/// Injected packets that wait for their worker; more make [`Switch::inject`] wait.
const INJECTED_MAX: u64 = 4096;
/// Name and number of the control side as a port of its own, which only counts.
const CONTROL: (u32, &str) = (0xffff_fffd, "control");
/// Links are asked for at least so often.
const LINK_INTERVAL: Duration = Duration::from_millis(250);
/// Services do what is due off the packet path so often.
const TEND_INTERVAL: Duration = Duration::from_millis(100);
/// So often the thread that watches links glances at them while a group watches ports.
const LINK_GLANCE: Duration = Duration::from_millis(5);
/// Links are asked for at most so often, however many events come.
const LINK_PAUSE: Duration = Duration::from_millis(5);

/// What a switch is made of.
pub struct Config {
    /// Its first program.
    pub program: Arc<Program>,
    /// Worker threads, at least 1.
    pub workers: usize,
    /// Processors to pin workers to, in order; fewer than workers leaves the rest unpinned.
    pub cpus: Vec<usize>,
    /// Punts per second, at most.
    pub punt_rate: u64,
    /// What gives the pipeline effect.
    pub engine: EngineKind,
    /// One packet in so many that compiled code has forwarded is run by the interpreter, too, on a
    /// control core; a difference is counted and told.
    pub validate: Option<u32>,
}

/// What validation has found.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// Packets checked.
    pub checked: u64,
    /// Packets that the interpreter forwards otherwise.
    pub mismatches: u64,
    /// The first of them: the version, the packet, and what either made of it.
    pub first: Option<String>,
}

/// What gives the pipeline effect.
#[derive(Clone, Debug)]
pub enum EngineKind {
    /// It is compiled to machine code.
    Jit(compiled::Options),
    /// It is interpreted.
    Interp,
}

impl Default for EngineKind {
    fn default() -> EngineKind {
        EngineKind::Jit(compiled::Options::default())
    }
}

/// Lookups and matches of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matches: u64,
    /// Entries now.
    pub entries: usize,
}

struct Control {
    pipeline: Pipeline,
    engine: Box<dyn Engine>,
    expiry: Expiry,
    /// Groups with a bucket that watches a port.
    watching: HashSet<ir::GroupId>,
    /// Updates were applied that are not published yet.
    pending: bool,
    /// Counters that nothing refers to any more from this version on.
    retired: Vec<(u64, u32)>,
    traffic: Traffic,
}

pub(crate) struct Inner {
    epoch: Instant,
    control: Mutex<Control>,
    slots: Mutex<Vec<Slot>>,
    /// Octets of the descriptors of tunnel ports' frames.
    pub(crate) descriptor: AtomicU32,
    /// See [`Switch::set_receiving`].
    pub(crate) receives: AtomicBool,
    /// See [`Switch::set_standby`].
    pub(crate) standby: AtomicBool,
    ports: Mutex<Arc<PortTable>>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) workers: Vec<Handle>,
    pub(crate) signals: Arc<Signals>,
    counters: Arc<CounterArena>,
    punts: PuntReceiver,
    /// Counts what the control side injected.
    injected: Arc<PortShared>,
    /// Counters of ports that are gone.
    departed: Mutex<PortCounters>,
    events: PortEvents,
    /// The threads of the workers.
    pub(crate) threads: Workers,
    /// They are this switch's own, and end with it.
    owns_threads: bool,
    validation: Mutex<Validation>,
    changes: Changes,
    pub(crate) timings: Timings,
    /// What the control side counts, by name.
    tallies: Mutex<BTreeMap<&'static str, u64>>,
    /// What programs call by name.
    pub(crate) services: Services,
    /// Signs of life of threads other than workers.
    pulses: Mutex<Vec<Weak<Beats>>>,
}

/// A poisoned lock means that a thread of ours panicked while it held the state: a broken invariant
/// of ours. What it guards is changed in single steps, so it is still the best there is to go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Inner {
    pub(crate) fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        lock(&self.slots)
    }

    pub(crate) fn add_pulse(&self, pulse: Weak<Beats>) {
        lock(&self.pulses).push(pulse);
    }

    /// Signs of life of all threads.
    pub(crate) fn signs(&self) -> Vec<Sign> {
        let mut signs: Vec<Sign> = self.worker_signs().collect();
        lock(&self.pulses).retain(|pulse| {
            let beats = pulse.upgrade();
            signs.extend(beats.iter().map(|beats| Sign::of(beats)));
            beats.is_some()
        });
        signs
    }

    pub(crate) fn worker_signs(&self) -> impl Iterator<Item = Sign> + '_ {
        let workers = self.workers.iter().zip(self.threads.tids()).enumerate();
        workers.map(|(index, (worker, tid))| Sign {
            name: format!("worker-{index}"),
            tid,
            moved: worker.obeyed(),
            idle: worker.waiting() == 0,
            patience: 1,
        })
    }

    /// Workers that have done what they were told are told something that only asks for an answer.
    pub(crate) fn ask_workers(&self) {
        for worker in self.workers.iter().filter(|worker| worker.waiting() == 0) {
            worker.send(Command::Answer);
        }
    }

    pub(crate) fn departed(&self) -> MutexGuard<'_, PortCounters> {
        lock(&self.departed)
    }

    pub(crate) fn port_table(&self) -> Arc<PortTable> {
        lock(&self.ports).clone()
    }

    pub(crate) fn change_ports(&self, change: impl FnOnce(&mut PortTable)) {
        let mut ports = lock(&self.ports);
        let mut table = PortTable::clone(&ports);
        change(&mut table);
        *ports = Arc::new(table);
        for worker in &self.workers {
            worker.send(Command::Ports(ports.clone()));
        }
    }

    /// To be called with the slots locked, so that events come in the order of what they tell.
    pub(crate) fn port_event(&self, event: PortEvent) {
        self.events.push(event);
    }

    /// Waits until the workers have obeyed all that they were told before the call.
    pub(crate) fn settle_workers(&self) {
        let marks: Vec<u64> = self.workers.iter().map(Handle::sent).collect();
        let obeyed = || self.workers.iter().zip(&marks).all(|(w, mark)| w.has_obeyed(*mark));
        wait_until(obeyed);
    }

    fn nudge(&self) {
        self.workers.iter().for_each(Handle::wake);
    }

    /// As [`publish`](Self::publish), unless that had to wait for a worker: then it says false, and
    /// somebody has to try again.
    fn try_publish(&self, control: &mut Control) -> bool {
        if control.pending && !control.engine.is_free() {
            return false;
        }
        self.publish(control);
        true
    }

    /// Tells the engine how much traffic there has been since the last time.
    fn note_traffic(&self, control: &mut Control) {
        if let Some(rate) = control.traffic.look(Instant::now(), || self.port_table()) {
            control.engine.note_traffic(rate);
        }
    }

    fn publish(&self, control: &mut Control) {
        if control.pending {
            self.note_traffic(control);
            let began = Instant::now();
            let forward = control.engine.publish(&|| self.nudge());
            self.publisher.publish(forward);
            self.timings.ended(Work::Publication, began);
            control.pending = false;
            if control.engine.wants_work() {
                self.signals.work.wake();
            }
        }
        self.free_retired(control);
    }

    /// Lets go of what only earlier versions needed; publishes what has become better.
    fn tidy(&self, control: &mut Control) {
        self.note_traffic(control);
        if !control.pending && control.engine.settle() && control.engine.is_free() {
            control.pending = true;
            self.publish(control);
        }
        if control.engine.wants_work() {
            self.signals.work.wake();
        }
        self.free_retired(control);
    }

    /// Does a piece of the engine's long work, with nothing locked meanwhile; false if there is none.
    fn work(&self) -> bool {
        let Some(job) = lock(&self.control).engine.job() else { return false };
        let began = Instant::now();
        let done = job();
        self.timings.ended(Work::Background, began);
        let mut control = lock(&self.control);
        if control.engine.finish(done) {
            control.pending = true;
            if !self.try_publish(&mut control) {
                self.signals.publish.wake();
            }
        }
        true
    }

    fn free_retired(&self, control: &mut Control) {
        if !control.retired.is_empty() {
            control.retired.retain(|(version, id)| {
                let free = self.publisher.adopted_by_all(*version);
                if free {
                    self.counters.free(*id);
                }
                !free
            });
        }
    }
}

/// A place in the order of what a switch is told: see [`Switch::barrier`].
#[derive(Clone, Debug)]
pub struct Barrier {
    /// All that was committed before it is in this version.
    version: u64,
    /// How many commands each worker had been told.
    told: Vec<u64>,
    began: Instant,
    /// It has been passed, and counted.
    passed: Arc<AtomicBool>,
}

/// A switch. Clones are handles of the same one.
#[derive(Clone)]
pub struct Switch {
    pub(crate) inner: Arc<Inner>,
}

impl Switch {
    /// Both are handles of one switch.
    pub fn is(&self, other: &Switch) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A running switch without ports, whose programs call no services.
    pub fn start(config: Config) -> Result<Switch, StartError> {
        Switch::start_with(config, Services::default())
    }

    /// A running switch without ports, on workers of its own.
    pub fn start_with(config: Config, services: Services) -> Result<Switch, StartError> {
        let threads = Workers::start(config.workers, &config.cpus)?;
        Switch::begin(config, services, threads, true)
    }

    /// A running switch without ports, on workers that others may share; they go on when it stops. Its clock is theirs.
    /// [`Config::workers`] and [`Config::cpus`] are not used.
    pub fn start_on(
        threads: &Workers,
        config: Config,
        services: Services,
    ) -> Result<Switch, StartError> {
        let config = Config { workers: threads.len(), ..config };
        Switch::begin(config, services, threads.clone(), false)
    }

    fn begin(
        config: Config,
        services: Services,
        threads: Workers,
        owns_threads: bool,
    ) -> Result<Switch, StartError> {
        let pipeline = Pipeline::new(config.program.clone())?;
        let counters = Arc::new(CounterArena::new(COUNTERS_MAX));
        let (program, workers, arena) = (config.program, config.workers, counters.clone());
        let (engine, first): (Box<dyn Engine>, _) = match config.engine {
            EngineKind::Jit(options) => {
                let (engine, first) = JitEngine::new(program, workers, arena, options)?;
                (Box::new(engine), first)
            }
            EngineKind::Interp => {
                let (engine, first) = InterpEngine::new(program, workers, arena);
                (Box::new(engine), first)
            }
        };
        let publisher = Arc::new(Publisher::new(first, config.workers));
        let (ring, punts) = datapath::punt::ring(config.punt_rate);
        let (number, name) = CONTROL;
        let injected = Arc::new(PortShared::new(number, name, 0, config.workers));
        let epoch = threads.epoch();
        let (sampler, samples) = match config.validate {
            Some(every) => {
                let (sampler, samples) = datapath::validate::ring(every);
                (Some(sampler), Some(samples))
            }
            None => (None, None),
        };
        let workers = threads.handles().enumerate().map(|(index, worker)| {
            worker.add(LaneConfig {
                publisher: publisher.clone(),
                ring: ring.clone(),
                counters: counters.worker(),
                control: injected.clone(),
                sampler: sampler.clone(),
                services: services.clone(),
                seed: 0x6d69_6c6c ^ index as u64,
            })
        });
        let workers = workers.collect();
        let inner = Arc::new(Inner {
            epoch,
            control: Mutex::new(Control {
                pipeline,
                engine,
                expiry: Expiry::default(),
                watching: HashSet::new(),
                pending: false,
                retired: Vec::new(),
                traffic: Traffic::new(epoch),
            }),
            descriptor: AtomicU32::new(0),
            receives: AtomicBool::new(true),
            standby: AtomicBool::new(false),
            slots: Mutex::new(Vec::new()),
            ports: Mutex::new(Arc::new(PortTable::default())),
            publisher,
            workers,
            signals: Arc::new(Signals::new()?),
            counters,
            punts,
            injected,
            departed: Mutex::default(),
            events: PortEvents::new(),
            threads,
            owns_threads,
            validation: Mutex::default(),
            changes: Changes::default(),
            timings: Timings::default(),
            tallies: Mutex::default(),
            services,
            pulses: Mutex::default(),
        });
        let switch = Switch { inner };
        switch.background("publish", |signals, with| {
            if !signals.publish.wait(LINK_INTERVAL) {
                // Tables that have become quiet may be looked up better.
                with(&Switch::look_after);
                return;
            }
            let mut tidied = Instant::now();
            loop {
                std::thread::sleep(PUBLISH_INTERVAL);
                let put_off = Cell::new(false);
                with(&|switch| {
                    let mut control = lock(&switch.inner.control);
                    put_off.set(!switch.inner.try_publish(&mut control));
                });
                if put_off.get() {
                    if signals.stopping.load(Ordering::Acquire) {
                        return;
                    }
                } else if !signals.publish.wait(PUBLISH_INTERVAL) {
                    break;
                }
                // Where updates never end, the tables that they change are thought over all the same.
                if tidied.elapsed() >= LINK_INTERVAL {
                    tidied = Instant::now();
                    with(&Switch::look_after);
                }
            }
            // All is quiet, and by now the workers have adopted what was published last.
            with(&Switch::look_after);
        })?;
        if let Some(samples) = samples {
            switch.background("validate", move |_, with| {
                let Ok(sample) = samples.recv_timeout(LINK_INTERVAL) else { return };
                let outcome = datapath::validate::check(&sample, &mut Scratch::default());
                drop(sample);
                with(&|switch| switch.note_validation(outcome.clone()));
            })?;
        }
        for name in ["work-0", "work-1"] {
            switch.background(name, |signals, with| {
                let more = Cell::new(signals.work.wait(LINK_INTERVAL));
                while more.take() {
                    with(&|switch| more.set(switch.inner.work()));
                }
            })?;
        }
        if !switch.inner.services.is_empty() {
            switch.background("services", |_, with| {
                with(&|switch| switch.inner.services.tend(switch.now_ns()));
                std::thread::sleep(TEND_INTERVAL);
            })?;
        }
        let asked = Cell::new((Instant::now(), 0));
        switch.background("monitor", move |signals, with| {
            let events = Cell::default();
            with(&|switch| events.set(switch.link_events()));
            let (events, (all_at, from)) = (events.take(), asked.get());
            let until = all_at + LINK_INTERVAL;
            loop {
                let glances = signals.watched.load(Ordering::Relaxed);
                let most = if glances { LINK_GLANCE } else { LINK_INTERVAL };
                let left = until.saturating_duration_since(Instant::now());
                let woken = signals.monitor.wait(&events, most.min(left));
                if !woken.ports.is_empty() {
                    with(&|switch| switch.check_links(&woken.ports));
                }
                if Instant::now() >= until {
                    with(&|switch| asked.set((Instant::now(), switch.check_links_in_turn(from))));
                }
                if woken.any() || Instant::now() >= until {
                    break;
                }
                with(&|switch| switch.check_links(&switch.carriers_changed()));
            }
            std::thread::sleep(LINK_PAUSE);
        })?;
        Ok(switch)
    }

    /// Runs `round` over and over on a thread, until the switch stops or its last handle is gone.
    /// The thread is no handle: it has one only while it does something with the switch, and none
    /// while it waits, as otherwise two such threads would keep each other's switch alive.
    fn background(
        &self,
        name: &str,
        round: impl Fn(&Signals, &dyn Fn(&dyn Fn(&Switch))) + Send + 'static,
    ) -> std::io::Result<()> {
        let (weak, signals) = (Arc::downgrade(&self.inner), self.inner.signals.clone());
        // What the engine does there may be to compile a large program.
        let patience = if name.starts_with("work") { LONG } else { 1 };
        let (pulse, beats) = Pulse::new(name, patience);
        self.inner.add_pulse(beats);
        std::thread::Builder::new().name(name.to_string()).spawn(move || {
            pulse.here();
            let with = |act: &dyn Fn(&Switch)| {
                pulse.beat();
                if let Some(inner) = weak.upgrade() {
                    act(&Switch { inner });
                }
            };
            while !signals.stopping.load(Ordering::Acquire) {
                pulse.beat();
                round(&signals, &with);
            }
        })?;
        Ok(())
    }

    /// How long changes take.
    pub fn timings(&self) -> &Timings {
        &self.inner.timings
    }

    /// What its programs call by name.
    pub fn services(&self) -> &Services {
        &self.inner.services
    }

    /// Nanoseconds since the switch's workers started: the clock of every time it tells.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.inner.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Does all of the updates or none; on an error, says which one was refused and why. They are
    /// in the pipeline when this returns, in force after [`sync`](Self::sync).
    pub fn transact(&self, updates: &[Update]) -> Result<u64, (usize, UpdateError)> {
        self.commit(updates, |pipeline| pipeline.transact(updates))
    }

    /// As [`transact`](Self::transact), for whoever keeps a pipeline with the same contents, which has taken these updates, and
    /// is the only one to change the switch: see [`Pipeline::follow`].
    pub fn follow(&self, updates: &[Update]) -> Result<u64, (usize, UpdateError)> {
        self.commit(updates, |pipeline| pipeline.follow(updates))
    }

    fn commit(
        &self,
        updates: &[Update],
        take: impl FnOnce(&mut Pipeline) -> Result<u64, (usize, UpdateError)>,
    ) -> Result<u64, (usize, UpdateError)> {
        let began = Instant::now();
        let mut control = lock(&self.inner.control);
        let control = &mut *control;
        let version = take(&mut control.pipeline)?;
        let now_ns = self.now_ns();
        control.engine.apply(&control.pipeline, updates, now_ns);
        // With another program, entries that come along are inserted once more.
        let mut came = HashMap::new();
        for update in updates {
            match update {
                Update::Insert(table, entry) => {
                    let since_ns = came.get(&entry.id).copied().unwrap_or(now_ns);
                    control.expiry.insert(*table, entry, since_ns);
                }
                Update::Modify(table, entry) => control.expiry.modify(*table, entry, now_ns),
                Update::Delete(_, entry) => control.expiry.remove(*entry),
                Update::Clear(table) => control.expiry.clear(*table),
                Update::SetProgram(_) => {
                    came = control.expiry.reset();
                    control.watching.clear();
                }
                Update::SetGroup(id, group) => {
                    if group.buckets.iter().any(|bucket| bucket.watch_port.is_some()) {
                        control.watching.insert(*id);
                    } else {
                        control.watching.remove(id);
                    }
                }
                Update::RemoveGroup(id) => drop(control.watching.remove(id)),
                _ => {}
            }
        }
        let watched = !control.watching.is_empty();
        // Relaxed: it guards nothing.
        if self.inner.signals.watched.swap(watched, Ordering::Relaxed) != watched {
            self.inner.signals.monitor.ring();
        }
        if !std::mem::replace(&mut control.pending, true) {
            self.inner.signals.publish.wake();
        }
        self.inner.timings.ended(Work::Transaction, began);
        Ok(version)
    }

    /// Returns when every worker forwards by all that was committed before the call, has taken note
    /// of all ports added and removed before it, and has sent all packets injected before it. On a
    /// switch that was stopped there is nobody to wait for.
    pub fn sync(&self) -> u64 {
        let barrier = self.barrier();
        wait_until(|| self.has_passed(&barrier));
        barrier.version
    }

    /// What [`sync`](Self::sync) would wait for, for callers who have other things to do meanwhile.
    pub fn barrier(&self) -> Barrier {
        let version = {
            let control = lock(&self.inner.control);
            match control.pending {
                true => control.pipeline.version(),
                false => self.inner.publisher.version(),
            }
        };
        let told = self.inner.workers.iter().map(Handle::sent).collect();
        Barrier { version, told, began: Instant::now(), passed: Arc::default() }
    }

    /// Whether a [`sync`](Self::sync) that began when the barrier was made would have returned. Waits
    /// for nobody; publishes what has gathered, so it is to be asked until it says yes.
    pub fn has_passed(&self, barrier: &Barrier) -> bool {
        let inner = &self.inner;
        if inner.publisher.version() < barrier.version {
            let mut control = lock(&inner.control);
            if !inner.try_publish(&mut control) {
                return false;
            }
        }
        let passed = inner.publisher.adopted_by_all(barrier.version)
            && inner.workers.iter().zip(&barrier.told).all(|(w, mark)| w.has_obeyed(*mark));
        // Relaxed: it guards nothing.
        if passed && !barrier.passed.swap(true, Ordering::Relaxed) {
            inner.timings.ended(Work::Barrier, barrier.began);
        }
        passed
    }

    /// Asks whether the barrier [has been passed](Self::has_passed) until it has or the time has come.
    pub fn await_passed(&self, barrier: &Barrier, until: Instant) -> bool {
        let passed = Cell::new(false);
        wait_until(|| {
            passed.set(self.has_passed(barrier));
            passed.get() || Instant::now() >= until
        });
        passed.get()
    }

    /// Does one step of what [`sync`](Self::sync) and the transaction after it would have to do:
    /// publishes what has gathered or, if nothing has, lets the engine catch up. For callers who have
    /// the time now and will not have it then; waits for nobody.
    pub fn advance(&self) {
        let mut control = lock(&self.inner.control);
        if control.pending {
            // The one who waits for it tries again.
            self.inner.try_publish(&mut control);
        } else {
            self.inner.tidy(&mut control);
        }
    }

    /// Workers forward by all that was committed, and the engine has nothing better in mind: it has made what code and
    /// arranged what tables it would. For callers who measure; [`advance`](Self::advance) hurries it on.
    pub fn is_settled(&self) -> bool {
        let control = lock(&self.inner.control);
        !control.pending && control.engine.is_settled()
    }

    /// The version that workers forward by, or are about to.
    pub fn version(&self) -> u64 {
        self.inner.publisher.version()
    }

    /// Looks at the pipeline as committed. Transactions wait meanwhile.
    pub fn with_pipeline<R>(&self, look: impl FnOnce(&Pipeline) -> R) -> R {
        look(&lock(&self.inner.control).pipeline)
    }

    /// The engine's name.
    pub fn engine(&self) -> &'static str {
        lock(&self.inner.control).engine.name()
    }

    fn note_validation(&self, outcome: Result<(), String>) {
        let mut validation = lock(&self.inner.validation);
        validation.checked += 1;
        if let Err(difference) = outcome {
            validation.mismatches += 1;
            tracing::error!(%difference, "compiled code and interpreter disagree");
            validation.first.get_or_insert(difference);
        }
    }

    /// What validation has found so far.
    pub fn validation(&self) -> Validation {
        lock(&self.inner.validation).clone()
    }

    /// A stage of the compiled pipeline as text: `ir`, and what the engine has (`opt`, `plan`,
    /// `clif`, `asm`).
    pub fn dump(&self, stage: &str) -> Result<String, String> {
        let mut control = lock(&self.inner.control);
        self.inner.publish(&mut control);
        match stage {
            "ir" => Ok(ir::text::print_pipeline(&control.pipeline)),
            _ => control.engine.dump(stage),
        }
    }

    /// How each table that has entries is looked up, and why.
    pub fn explain(&self) -> Vec<TableExplanation> {
        let mut control = lock(&self.inner.control);
        self.inner.publish(&mut control);
        control.engine.explain()
    }

    /// What the code for bursts leaves, one reason each, whether or not a packet has met it.
    pub fn leaves(&self) -> Vec<String> {
        let mut control = lock(&self.inner.control);
        self.inner.publish(&mut control);
        control.engine.leaves()
    }

    /// Packets by what has run them, and why it was not the code for bursts.
    pub fn ran(&self) -> Counted {
        self.inner.publisher.snapshot().tally().counted()
    }

    /// The snapshot that has all that was committed before.
    fn published(&self) -> Arc<dyn datapath::Forward> {
        self.inner.publish(&mut lock(&self.inner.control));
        self.inner.publisher.snapshot()
    }

    /// Entries whose time is up. Each is told once; the caller removes them.
    pub fn expired(&self) -> Vec<Expired> {
        let now_ns = self.now_ns();
        let mut control = lock(&self.inner.control);
        if control.expiry.next_ns().is_none_or(|due| due > now_ns) {
            return Vec::new();
        }
        let reader = self.inner.counters.reader();
        let last_used = |entry: ir::EntryId| reader.read(entry.0).and_then(|c| c.last_used_ns);
        control.expiry.advance(now_ns, |entry| last_used(entry).unwrap_or(0))
    }

    /// Hands a packet to a worker, with the action to run on it. It runs by a version that has all
    /// that was committed before the call; it has been sent when [`sync`](Self::sync) returns. Waits
    /// while too many packets wait already.
    pub fn inject(&self, injection: Injection) {
        {
            let control = &mut lock(&self.inner.control);
            control.pending |= control.engine.begins_with(&injection.action);
            self.inner.publish(control);
        }
        // Packets for one port in one order: always the same worker.
        let worker = &self.inner.workers[0];
        wait_until(|| worker.waiting() < INJECTED_MAX);
        if !worker.send(Command::Inject(injection)) {
            tracing::debug!("the switch has stopped; an injected packet is dropped");
        }
    }

    /// Copies of the frames that a filter wants, from now on, with what became of each, until what is
    /// returned is dropped. Entries meant by a filter's table are told to it.
    pub fn capture(&self, filter: Filter) -> Captured {
        let (tap, captured) = capture::tap(filter);
        for worker in &self.inner.workers {
            // A worker that has stopped forwards nothing that could be captured.
            worker.send(Command::Capture(tap.clone()));
        }
        captured
    }

    /// What became of the packets injected so far: received are those that a worker took, dropped
    /// and punted those that ended there. Those sent are counted at the ports they left by.
    pub fn injected(&self) -> PortCounters {
        self.inner.injected.counters()
    }

    /// Makes workers forget what they sent, so that they send repeats of it again.
    pub fn forgotten(&self) -> &Arc<Forgotten> {
        self.inner.punts.forgotten()
    }

    /// The next punted packet or digest, waiting for it at most so long.
    pub fn next_message(&self, timeout: Duration) -> Option<Message> {
        self.inner.punts.recv_timeout(timeout)
    }

    /// What needs to be done now and then, but not for any packet or update.
    fn look_after(&self) {
        self.inner.tidy(&mut lock(&self.inner.control));
        self.inner.changes.tick(self.now_ns());
    }

    /// What clients change, to be told.
    pub fn changes(&self) -> &Changes {
        &self.inner.changes
    }

    /// A client changed something; `text` tells all of it, and is asked only where it is used.
    pub fn note_change(
        &self,
        peer: &str,
        kind: &'static str,
        verb: &'static str,
        text: impl FnOnce() -> String,
    ) {
        let now_ns = self.now_ns();
        let text = self.inner.changes.wants_text(kind, now_ns).then(text);
        self.inner.changes.note(peer, kind, verb, text.as_deref(), now_ns);
    }

    /// Counts something that happened on the control side, under a name in snake case.
    pub fn tally(&self, name: &'static str, n: u64) {
        *lock(&self.inner.tallies).entry(name).or_default() += n;
    }

    /// What the control side has counted.
    pub fn tallies(&self) -> Vec<(&'static str, u64)> {
        lock(&self.inner.tallies).iter().map(|(name, n)| (*name, *n)).collect()
    }

    /// The next punted packet or digest, if one is there.
    pub fn try_message(&self) -> Option<Message> {
        self.inner.punts.try_recv()
    }

    /// Waits, at most so long, until a punted packet, a digest or a port event is there.
    pub fn wait(&self, timeout: Duration) {
        let mut select = crossbeam_channel::Select::new();
        select.recv(self.inner.events.queue());
        select.recv(self.inner.punts.bell());
        // Timed out is an answer, too.
        let _ = select.ready_timeout(timeout);
    }

    /// The next port event, waiting for it at most so long.
    pub fn next_port_event(&self, timeout: Duration) -> Option<PortEvent> {
        self.inner.events.queue().recv_timeout(timeout).ok()
    }

    /// Who hears of every port from now on, beside who takes [events](Self::next_port_event).
    pub fn follow_ports(&self) -> PortFollower {
        self.inner.events.follow()
    }

    /// The next port event, if one is there.
    pub fn try_port_event(&self) -> Option<PortEvent> {
        self.inner.events.queue().try_recv().ok()
    }

    /// Stops forwarding, after what workers have in hand, and waits for that; also for the end of the workers, unless others
    /// share them.
    pub fn stop(&self) {
        self.inner.signals.stop();
        for worker in &self.inner.workers {
            worker.send(Command::Stop);
        }
        match self.inner.owns_threads {
            true => self.inner.threads.stop(),
            false => self.inner.settle_workers(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.signals.stop();
        for worker in &self.workers {
            worker.send(Command::Stop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic;
    use datapath::Forward;
    use port::{Frame, memory};
    use testkit::station::{FIRST, call, frame, insert, program};

    /// An engine that keeps what it was told of the traffic.
    struct Told {
        engine: InterpEngine,
        rates: Arc<Mutex<Vec<u64>>>,
    }

    impl Engine for Told {
        fn name(&self) -> &'static str {
            self.engine.name()
        }

        fn apply(&mut self, pipeline: &Pipeline, updates: &[Update], now_ns: u64) {
            self.engine.apply(pipeline, updates, now_ns);
        }

        fn note_traffic(&mut self, per_second: u64) {
            lock(&self.rates).push(per_second);
        }

        fn publish(&mut self, nudge: &dyn Fn()) -> Arc<dyn Forward> {
            self.engine.publish(nudge)
        }

        fn explain(&self) -> Vec<TableExplanation> {
            self.engine.explain()
        }
    }

    /// Heavy traffic, a port that is removed amid it, a change of an entry right behind: whoever publishes that hears of all
    /// the traffic there was.
    #[test]
    fn a_port_that_goes_takes_nobody_s_traffic_along() {
        // The port that goes has received more, ever, than the other one since the last look; then less.
        for (before, of_one, of_other) in [(3000, 100, 900), (100, 400, 3000)] {
            let config = Config {
                program: program(),
                workers: 1,
                cpus: Vec::new(),
                punt_rate: 1000,
                engine: EngineKind::Interp,
                validate: None,
            };
            let switch = Switch::start(config).unwrap();
            let inner = &switch.inner;
            let far = [1, 2].map(|number| {
                let (port, far) = memory::port(&format!("p{number}"), Default::default()).unwrap();
                switch.add_port(Some(number), Box::new(port)).unwrap();
                far
            });
            let send = |port: usize, frames: u64| {
                let shared = inner.port_table().get(port as u32).unwrap().clone();
                let wanted = shared.rx_packets() + frames;
                (0..frames).for_each(|_| {
                    assert!(far[port - 1].inject(Frame::copy_of(&frame(5, 0))).is_ok());
                });
                wait_until(|| shared.rx_packets() == wanted);
            };
            send(1, before);
            let (engine, _) = InterpEngine::new(program(), 1, inner.counters.clone());
            let rates = Arc::default();
            std::thread::sleep(traffic::INTERVAL);
            let begun = Instant::now();
            // Taken out meanwhile, so that nobody else looks.
            let kept = {
                let mut control = lock(&inner.control);
                control.engine = Box::new(Told { engine, rates: Arc::clone(&rates) });
                inner.note_traffic(&mut control);
                let never = Traffic::new(begun + Duration::from_secs(3600));
                std::mem::replace(&mut control.traffic, never)
            };
            send(1, of_one);
            send(2, of_other);
            switch.remove_port(1).unwrap();
            std::thread::sleep(traffic::INTERVAL);
            let updates = [insert(FIRST, 1, 5, call("out", &[2]))];
            lock(&inner.control).traffic = kept;
            switch.transact(&updates).unwrap();
            switch.sync();
            let least = (of_one + of_other) as f64 / begun.elapsed().as_secs_f64();
            let rates = lock(&rates).clone();
            assert!(rates[1] as f64 >= least.floor(), "{rates:?}, {least}");
        }
    }
}
