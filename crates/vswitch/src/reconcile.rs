//! The thread that makes the switch what the database asks for, and tells the database what it is.
//!
//! A round: the database's last state becomes settings ([`crate::desired`]), settings become steps ([`crate::diff`]), steps
//! are done ([`crate::apply`]), the switch settles, and what differs is written back ([`crate::report`]). A round begins
//! when the database has changed, and every [`LOOK`] to see whether links have. A look takes a part of the ports in a round
//! ([`crate::look`]), so that no change of the database waits for a look at thousands.
//!
//! Holds true: `cur_cfg` is written after packets are forwarded by the configuration that it names; while another process
//! has the database's lock nothing is changed; what was refused is tried again with every look; a lost connection changes
//! nothing in the switch.

use crate::actual::{Actual, Refusals};
use crate::apply::apply;
use crate::desired::Desired;
use crate::desired::bridge::Bridge;
use crate::desired::port::Port;
use crate::diff::{Step, steps};
use crate::look::Look;
use crate::report::{Report, Views, machine};
use crate::switch::Switch;
use ovsdb::{Client, Database, State};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The lock that one `ovs-vswitchd` on a database holds.
pub const LOCK: &str = "ovs_vswitchd";
/// How often links are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// A look may take this part of the time.
const LOOK_SHARE: u32 = 10;
/// An answer to a transaction is waited for so long. The next round writes what this one has not.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What is known from outside.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Rounds that changed something.
    pub reconfigured: u64,
    /// Steps that were done.
    pub steps: u64,
    /// What is refused now.
    pub refused: usize,
    /// What is asked for and not done now.
    pub unsupported: usize,
    /// Rows that are followed.
    pub rows: usize,
    /// A configuration of the database has been reached.
    pub ready: bool,
    /// Another process has the lock.
    pub waits_for_lock: bool,
    /// Transactions that were not done.
    pub transactions_failed: u64,
}

#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
    stop: std::sync::atomic::AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        // Figures only: whoever panicked with them left them whole.
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The thread, from outside.
pub struct Reconciler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Where progress can be looked up.
#[derive(Clone, Default)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// How far it has come.
    pub fn progress(&self) -> Progress {
        self.0.lock().clone()
    }
}

impl Reconciler {
    /// Starts it. `rundir` is where pid files lie.
    pub fn start(
        client: Client,
        switch: Arc<dyn Switch>,
        rundir: PathBuf,
    ) -> std::io::Result<Reconciler> {
        let shared: Arc<Shared> = Arc::default();
        let mut round = Round {
            client,
            switch,
            rundir,
            shared: shared.clone(),
            desired: Desired::default(),
            actual: Actual::default(),
            refusals: Refusals::default(),
            views: Views::default(),
            seen: None,
            look: Look::default(),
            counted: None,
            counts: false,
            changed: BTreeSet::new(),
            said: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("vswitch".to_owned()).spawn(move || {
            let mut generation = 0;
            while !round.shared.stop.load(std::sync::atomic::Ordering::Relaxed) {
                let pause = if round.look.goes_on() { Duration::ZERO } else { LOOK };
                let state = round.client.wait(generation, pause);
                generation = state.generation;
                round.go(&state);
            }
        })?;
        Ok(Reconciler { shared, thread: Some(thread) })
    }

    /// How far it has come.
    pub fn watch(&self) -> Watch {
        Watch(self.shared.clone())
    }

    /// Waits until a configuration of the database has been reached. Says whether one has.
    pub fn wait_ready(&self, most: Duration) -> bool {
        let guard = self.shared.lock();
        let done = self.shared.changed.wait_timeout_while(guard, most, |progress| !progress.ready);
        done.unwrap_or_else(|poisoned| poisoned.into_inner()).0.ready
    }
}

impl Drop for Reconciler {
    fn drop(&mut self) {
        self.shared.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that follows the database's configuration has panicked");
        }
    }
}

struct Round {
    client: Client,
    switch: Arc<dyn Switch>,
    rundir: PathBuf,
    shared: Arc<Shared>,
    desired: Desired,
    actual: Actual,
    refusals: Refusals,
    views: Views,
    /// The state of the database that `desired` is from.
    seen: Option<Arc<Database>>,
    look: Look,
    /// When statistics were last written.
    counted: Option<Instant>,
    /// The look that goes on is one with statistics.
    counts: bool,
    /// Ports of which something may have changed that is not reported yet.
    changed: BTreeSet<String>,
    /// What was said of refusals and notes.
    said: Vec<String>,
}

impl Round {
    fn go(&mut self, state: &State) {
        let Some(database) = state.database.clone().filter(|_| state.connected) else { return };
        if self.shared.lock().waits_for_lock == state.locked {
            self.shared.lock().waits_for_lock = !state.locked;
            if !state.locked {
                tracing::warn!(lock = LOCK, "another process has the lock: it is waited for");
            }
        }
        if !state.locked {
            return;
        }
        let is_new = !self.seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &database));
        let mut configured = false;
        if is_new {
            let switch = self.switch.clone();
            let lacks = |feature: &_| switch.lacks(feature);
            let before = self.seen.as_ref().map(|seen| (&**seen, &self.desired));
            let desired = Desired::after(&database, &lacks, before);
            configured = desired != self.desired;
            self.changed.extend(changed(&self.desired, &desired));
            self.desired = desired;
            self.seen = Some(database.clone());
        }
        if self.desired.root.is_none() {
            // `ovs-vsctl init` has not been called yet.
            return;
        }
        let begins = !is_new && self.look.is_due(LOOK, LOOK_SHARE);
        if configured || (begins && !self.refusals.is_empty()) {
            self.configure();
        }
        if is_new {
            // Who waits for `cur_cfg` does not wait for a look. That goes on in the next round.
            self.report(&database, None);
            return;
        }
        let began = Instant::now();
        if begins {
            self.begin_look();
        }
        if begins || self.look.goes_on() {
            if self.look_on() {
                self.configure();
            }
            self.report(&database, Some(begins));
            self.look.took(began.elapsed());
        }
    }

    /// Makes the switch what is asked for.
    fn configure(&mut self) {
        let waits = self.desired.root.as_ref().is_some_and(|root| root.flow_restore_wait);
        let mut steps = steps(&self.desired, &self.actual);
        if waits {
            // Controllers come when entries have been restored.
            steps.retain(|step| !matches!(step, Step::Controllers(..)));
        }
        let count = steps.len() as u64;
        let touched = touched(&steps);
        if steps.iter().any(Step::moves_interfaces) {
            // A patch port says whether its other end is there.
            let is_patch = |port: &&Arc<Port>| {
                port.interfaces.values().any(|one| one.settings.kind == "patch")
            };
            let ports = self.desired.bridges.values().flat_map(|bridge| bridge.ports.values());
            self.changed.extend(ports.filter(is_patch).map(|port| port.settings.name.clone()));
        }
        let any = !steps.is_empty();
        self.refusals = apply(&*self.switch, &mut self.actual, steps);
        self.switch.set_forwarding(!waits);
        if any {
            self.switch.settle();
        }
        for (bridge, interface) in touched {
            self.see(&bridge, interface.as_deref());
            self.changed.extend(interface.and_then(|name| self.port_of(&bridge, &name)));
        }
        self.changed.extend(self.refusals.ports.keys().cloned());
        let notes: Vec<String> = self.desired.notes().collect();
        let mut progress = self.shared.lock();
        progress.reconfigured += u64::from(any);
        progress.steps += count;
        progress.refused = self.refusals.bridges.len()
            + self.refusals.ports.len()
            + self.refusals.interfaces.len();
        progress.unsupported = notes.len();
        drop(progress);
        self.say(notes);
    }

    /// The port that has an interface, most often one of the same name.
    fn port_of(&self, bridge: &str, interface: &str) -> Option<String> {
        let ports = &self.desired.bridges.get(bridge)?.ports;
        let has = |name: &&String| ports[*name].interfaces.contains_key(interface);
        let same = ports.get_key_value(interface).map(|(name, _)| name).filter(has);
        same.or_else(|| ports.keys().find(has)).cloned()
    }

    /// Each refusal and note is said once, and again if it went meanwhile.
    fn say(&mut self, mut lines: Vec<String>) {
        let refusals = &self.refusals;
        let of = |what: &str, name: &String, why: &String| format!("{what} {name}: {why}");
        lines.extend(refusals.bridges.iter().map(|(name, why)| of("bridge", name, why)));
        lines.extend(refusals.ports.iter().map(|(name, why)| of("port", name, why)));
        lines.extend(refusals.interfaces.iter().map(|(name, why)| of("interface", name, why)));
        for line in lines.iter().filter(|line| !self.said.contains(line)) {
            tracing::warn!("not done: {line}");
        }
        self.said = lines;
    }

    fn see(&mut self, bridge: &str, interface: Option<&str>) {
        match interface {
            None => match self.switch.bridge(bridge) {
                Some(view) => drop(self.views.bridges.insert(bridge.to_owned(), view)),
                None => {
                    self.views.bridges.remove(bridge);
                    self.views.controllers.remove(bridge);
                }
            },
            Some(name) => match self.switch.interface(bridge, name) {
                Some(view) => drop(self.views.interfaces.insert(name.to_owned(), view)),
                None => drop(self.views.interfaces.remove(name)),
            },
        }
    }

    /// Looks at bridges and controllers. Their ports come part by part.
    fn begin_look(&mut self) {
        let every = self.desired.root.as_ref().map(|root| root.statistics_every);
        self.counts =
            every.is_some_and(|every| self.counted.is_none_or(|at| at.elapsed() >= every));
        if self.counts {
            self.counted = Some(Instant::now());
        }
        let mut views = Views::default();
        for (name, bridge) in &self.actual.bridges {
            let Some(view) = self.switch.bridge(name) else { continue };
            views.bridges.insert(name.clone(), view);
            views.controllers.insert(name.clone(), self.switch.controllers(name));
            let bonds = bridge.ports.values().filter(|port| port.bond.is_some());
            for port in bonds.filter(|port| port.interfaces.len() > 1) {
                if let Some(mac) = self.switch.bond_active(name, &port.name) {
                    views.bonds.insert(port.name.clone(), mac);
                }
            }
        }
        views.interfaces = std::mem::take(&mut self.views.interfaces);
        let open = |name: &String| {
            self.actual.bridges.values().any(|bridge| bridge.interfaces.contains_key(name))
        };
        views.interfaces.retain(|name, _| open(name));
        self.views = views;
        let ports = |(bridge, one): (&String, &Bridge)| {
            let bridge = bridge.clone();
            one.ports.keys().map(|port| (bridge.clone(), port.clone())).collect::<Vec<_>>()
        };
        self.look.begin(self.desired.bridges.iter().flat_map(ports));
    }

    /// Looks at the next ports. Says whether something is not there any more, and must be asked for anew.
    fn look_on(&mut self) -> bool {
        let mut lost = Vec::new();
        for (bridge, port) in self.look.next_part() {
            let Some(has) = self.actual.bridges.get(&bridge) else { continue };
            let asked = self.desired.bridges.get(&bridge).and_then(|one| one.ports.get(&port));
            let open = asked.into_iter().flat_map(|port| port.interfaces.keys());
            for name in open.filter(|name| has.interfaces.contains_key(*name)) {
                let view = self.switch.interface(&bridge, name);
                if view.as_ref().is_some_and(|view| !view.present) {
                    lost.push(Step::RemoveInterface(bridge.clone(), name.clone()));
                }
                match view {
                    Some(view) => drop(self.views.interfaces.insert(name.clone(), view)),
                    None => drop(self.views.interfaces.remove(name)),
                }
            }
            self.changed.insert(port);
        }
        let any = !lost.is_empty();
        if any {
            let refused = apply(&*self.switch, &mut self.actual, lost);
            self.refusals.interfaces.extend(refused.interfaces);
        }
        any
    }

    /// What differs, of ports only those that have changed or were looked at. `look`: it is part of a look, and the first.
    fn report(&mut self, database: &Database, look: Option<bool>) {
        let Some(root) = &self.desired.root else { return };
        let statistics = self.counts && look.is_some();
        let wants_machine = root.machine_statistics && self.counts && look == Some(true);
        let types = self.switch.interface_types();
        let capabilities = self.switch.capabilities();
        let report = Report {
            database,
            desired: &self.desired,
            actual: &self.actual,
            refusals: &self.refusals,
            views: &self.views,
            interface_types: &types,
            capabilities: &capabilities,
            only: Some(&self.changed),
            statistics,
            machine: wants_machine.then(|| machine::figures(&self.rundir)),
        };
        if let Some(transaction) = report.transaction(Some(LOCK)) {
            let sent = self.client.transact(transaction);
            if let Err(error) = sent.and_then(|pending| pending.wait(ANSWER_MAX)) {
                tracing::warn!(%error, "what the switch is was not written to the database; it is written again");
                self.shared.lock().transactions_failed += 1;
                // The next look writes statistics, too.
                self.counted = None;
                return;
            }
        }
        self.changed.clear();
        let mut progress = self.shared.lock();
        progress.rows = database.len();
        if !std::mem::replace(&mut progress.ready, true) {
            self.shared.changed.notify_all();
        }
    }
}

/// Ports that are asked for otherwise than before, by name.
fn changed(before: &Desired, now: &Desired) -> Vec<String> {
    let mut names = Vec::new();
    for (bridge, one) in &now.bridges {
        let old = before.bridges.get(bridge);
        // What refuses a bridge is told at its interfaces.
        let whole = old.is_none_or(|old| old.notes.refused() != one.notes.refused());
        for (name, port) in &one.ports {
            let same = old.and_then(|old| old.ports.get(name)).is_some_and(|old| old == port);
            if whole || !same {
                names.push(name.clone());
            }
        }
    }
    names
}

/// Bridges and interfaces that steps are about.
fn touched(steps: &[Step]) -> Vec<(String, Option<String>)> {
    let of = |step: &Step| match step {
        Step::AddBridge(bridge) | Step::SetBridge(bridge) => Some((bridge.name.clone(), None)),
        Step::RemoveBridge(bridge) => Some((bridge.clone(), None)),
        Step::RemoveInterface(bridge, name) => Some((bridge.clone(), Some(name.clone()))),
        Step::AddInterface(bridge, opening) => {
            Some((bridge.clone(), Some(opening.settings.name.clone())))
        }
        Step::SetInterface(bridge, settings) => Some((bridge.clone(), Some(settings.name.clone()))),
        Step::Timeouts(..)
        | Step::ZoneLimits(..)
        | Step::Mirrors(..)
        | Step::RemovePort(..)
        | Step::PreparePort(..)
        | Step::SetPort(..)
        | Step::Controllers(..) => None,
    };
    steps.iter().filter_map(of).collect()
}
