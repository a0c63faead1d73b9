//! The thread that runs a bridge's bonds.
//!
//! It wakes for frames of LACP and ten times a second: links are looked at so often. A member that has failed is so for
//! NORMAL within that and the time that the switch takes to see it.

use super::config::Bond;
use super::state::{Running, State};
use crate::sync::lock;
use bond::Transmit;
use bond::bond::Command;
use ir::{Action, Bits, Expr, Op, Param};
use of_pipeline::Agent;
use of_pipeline::vlans::bonds::{BondConfig, SLOTS, slot_of_source};
use openflow::PortNo;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use switch::{Injection, Switch};

/// Links are looked at so often.
const LOOK: Duration = Duration::from_millis(100);
/// Slots are counted so often, so that they can be shown.
const COUNT_MS: u64 = 1000;
/// Frames of LACP that wait for the thread, at most.
const FRAMES_MAX: usize = 256;

/// A frame of LACP: the port that it came in by, and its bytes.
type Frame = (u32, Vec<u8>);

/// A bridge's bonds.
#[derive(Default)]
pub(crate) struct Bonds {
    state: Arc<Mutex<State>>,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    stop: Arc<AtomicBool>,
    wake: SyncSender<Frame>,
    handle: JoinHandle<()>,
}

/// A bond as it is seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Where LACP stands.
    pub(crate) lacp: &'static str,
    /// The active member.
    pub(crate) active: Option<String>,
    /// Members that are enabled.
    pub(crate) enabled: Vec<String>,
}

/// What the thread works on.
struct Runner {
    bridge: String,
    state: Arc<Mutex<State>>,
    switch: Switch,
    agent: Arc<Mutex<Agent>>,
    stop: Arc<AtomicBool>,
    send: Arc<Action>,
    teach: Arc<Action>,
    /// What NORMAL refused last, so that it is said once.
    refused: Option<String>,
    /// Ports that are held, as LACP does not allow their use.
    held: BTreeSet<u32>,
}

fn action(name: &str, op: Op) -> Arc<Action> {
    let params = vec![Param { name: "to".to_owned(), width: 32 }];
    Arc::new(Action { name: name.to_owned(), params, body: vec![op] })
}

fn now_ms(switch: &Switch) -> u64 {
    switch.now_ns() / 1_000_000
}

/// Has a bond see the links of its members.
fn links(one: &mut Running, switch: &Switch, now_ms: u64) {
    for (name, port) in &one.ports {
        let up = switch.port(*port).is_some_and(|view| view.is_up());
        one.bond.set_carrier(name, up, now_ms);
    }
}

impl Bonds {
    /// Has bonds follow what is wanted of them and the ports that are there; `tell` has NORMAL know of them, and if that
    /// is refused all is as before.
    pub(crate) fn follow<E>(
        &self,
        wanted: &[Bond],
        switch: &Switch,
        ports: &BTreeMap<String, u32>,
        system: [u8; 6],
        tell: impl FnOnce(Vec<BondConfig>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = lock(&self.state);
        if wanted.is_empty() && state.all.is_empty() {
            return tell(Vec::new());
        }
        let mac = |number: u32| switch.port(number).map_or([0; 6], |view| view.info.mac);
        let ports = ports.iter().map(|(name, port)| (name.clone(), (*port, mac(*port)))).collect();
        let before = state.clone();
        let now_ms = now_ms(switch);
        state.follow(wanted, &ports, system, now_ms);
        // What is up is used when this returns.
        let mut frames = Vec::new();
        for one in &mut state.all {
            links(one, switch, now_ms);
            frames.extend(one.bond.run(now_ms));
        }
        state.frames.extend(frames);
        state.frames.truncate(FRAMES_MAX);
        let bonds = state.wanted();
        match tell(bonds.clone()) {
            Ok(()) => {
                state.told = bonds;
                Ok(())
            }
            Err(error) => {
                *state = before;
                Err(error)
            }
        }
    }

    /// The thread is there if there are bonds.
    pub(crate) fn start(&self, bridge: &str, switch: &Switch, agent: &Arc<Mutex<Agent>>) {
        let mut thread = lock(&self.thread);
        let none = lock(&self.state).all.is_empty();
        if none || thread.is_some() {
            return;
        }
        let (wake, frames) = sync_channel(FRAMES_MAX);
        let (sender, counts) = (wake.clone(), switch.clone());
        lock(agent).set_protocol_frames(Box::new(move |port, bytes| {
            if sender.try_send((port, bytes.to_vec())).is_err() {
                counts.tally("lacp_frames_lost", 1);
            }
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let to = || Expr::Param(0);
        let runner = Runner {
            bridge: bridge.to_owned(),
            state: self.state.clone(),
            switch: switch.clone(),
            agent: agent.clone(),
            stop: stop.clone(),
            send: action("lacp", Op::Output { port: to() }),
            teach: action("bond_learning", Op::Group { group: to() }),
            refused: None,
            held: BTreeSet::new(),
        };
        let started =
            std::thread::Builder::new().name("bonds".to_owned()).spawn(move || runner.run(&frames));
        match started {
            Ok(handle) => *thread = Some(Thread { stop, wake, handle }),
            Err(error) => tracing::error!(bridge, %error, "bonds are not run: there is no thread"),
        }
    }

    /// The thread has ended.
    pub(crate) fn stop(&self) {
        let thread = lock(&self.thread).take();
        if let Some(Thread { stop, wake, handle }) = thread {
            stop.store(true, Ordering::Relaxed);
            let _ = wake.try_send((0, Vec::new()));
            if handle.join().is_err() {
                tracing::error!("the thread of bonds has panicked");
            }
        }
    }

    /// The bonds, to be looked at.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A bond as it is; none if there is no such bond.
    pub(crate) fn seen(&self, name: &str) -> Option<Seen> {
        let state = lock(&self.state);
        let one = &state.all.iter().find(|one| one.bond.name == name)?.bond;
        let enabled = one.enabled().map(str::to_owned).collect();
        let active = one.active().map(str::to_owned);
        Some(Seen { lacp: one.lacp_status().word(), active, enabled })
    }

    /// The address of a bond's active member; none if there is no such bond.
    pub(crate) fn active_mac(&self, name: &str) -> Option<[u8; 6]> {
        let state = lock(&self.state);
        let found = state.all.iter().find(|one| one.bond.name == name);
        found.map(|one| one.bond.active_mac())
    }

    /// Whether frames of a port's partner come; none without LACP.
    pub(crate) fn lacp_current(&self, port: &str) -> Option<bool> {
        lock(&self.state).all.iter().find_map(|one| one.bond.lacp_current(port))
    }

    /// Does what is asked of a bond, and has the thread see to it at once.
    pub(super) fn command(&self, name: &str, command: Command<'_>) -> Result<String, String> {
        let answer = {
            let mut state = lock(&self.state);
            let found = state.all.iter_mut().find(|one| one.bond.name == name);
            let one = found.ok_or_else(|| "no such bond".to_owned())?;
            let basis = one.bond.settings().basis;
            one.bond.command(command, |mac| slot_of_source(mac, 0, basis, SLOTS))?
        };
        if let Some(thread) = &*lock(&self.thread) {
            let _ = thread.wake.try_send((0, Vec::new()));
        }
        Ok(answer)
    }
}

impl Runner {
    fn run(mut self, frames: &Receiver<Frame>) {
        let mut wait = Duration::ZERO;
        while !self.stop.load(Ordering::Relaxed) {
            let mut came = Vec::new();
            match frames.recv_timeout(wait) {
                Ok(frame) => came.push(frame),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            came.extend(frames.try_iter().take(FRAMES_MAX));
            wait = self.step(&came);
        }
    }

    /// One round; how long to wait for the next.
    fn step(&mut self, frames: &[Frame]) -> Duration {
        let now_ms = now_ms(&self.switch);
        let state = self.state.clone();
        let mut state = lock(&state);
        let mut sends = std::mem::take(&mut state.frames);
        let mut teaches = Vec::new();
        let mut due_ms = u64::MAX;
        for one in &mut state.all {
            for (port, bytes) in frames {
                one.bond.receive(*port, bytes, now_ms);
            }
            links(one, &self.switch, now_ms);
            self.balance(one, now_ms);
            sends.extend(one.bond.run(now_ms));
            for line in one.bond.take_said() {
                tracing::info!(bridge = self.bridge, "bond {}: {line}", one.bond.name);
            }
            if one.bond.take_learning() {
                let ports = one.ports.values().copied().collect::<Vec<_>>();
                teaches.push((one.config().bundle(), ports));
            }
            due_ms = due_ms.min(one.bond.due_ms().unwrap_or(u64::MAX));
        }
        self.hold(&state.all);
        let wanted = state.wanted();
        if wanted != state.told {
            let told = lock(&self.agent).set_bonds(wanted.clone());
            match told {
                Ok(()) => {
                    self.switch.advance();
                    (state.told, self.refused) = (wanted, None);
                }
                Err(error) => {
                    let error = error.to_string();
                    if self.refused.as_ref() != Some(&error) {
                        tracing::error!(
                            bridge = self.bridge,
                            error,
                            "NORMAL does not follow bonds"
                        );
                    }
                    self.refused = Some(error);
                }
            }
        }
        drop(state);
        for Transmit { port, bytes } in sends {
            self.inject(&self.send, port, bytes);
        }
        for (bundle, ports) in teaches {
            self.teach(bundle, &ports);
        }
        // Frames were sent meanwhile, so this is asked again.
        let soon = Duration::from_millis(due_ms.saturating_sub(now_ms).max(1));
        soon.min(LOOK)
    }

    /// Members that LACP does not allow are no live ports; those that have left a bond are as their links say.
    fn hold(&mut self, all: &[Running]) {
        let waiting = |one: &Running| {
            let waits = one.ports.iter().filter(|(name, _)| one.bond.waits_for_lacp(name));
            waits.map(|(_, port)| *port).collect::<Vec<_>>()
        };
        let held: BTreeSet<u32> = all.iter().flat_map(waiting).collect();
        let changes = |port: &&u32| {
            self.switch.port(**port).is_some_and(|view| view.held != held.contains(*port))
        };
        for port in held.union(&self.held).filter(changes) {
            // One that goes at this very moment needs nothing.
            let _ = self.switch.hold_port(*port, held.contains(port));
        }
        self.held = held;
    }

    /// Counts slots, and moves some.
    fn balance(&self, one: &mut Running, now_ms: u64) {
        if one.bond.balances() && now_ms >= one.counted_ms + COUNT_MS {
            one.counted_ms = now_ms;
            if let Some(bytes) = lock(&self.agent).bond_slot_bytes(one.place) {
                one.bond.count(&bytes);
            }
        }
        let moved = one.bond.rebalance(now_ms);
        if moved > 0 {
            tracing::info!(bridge = self.bridge, moved, "bond {}: slots move", one.bond.name);
        }
    }

    fn inject(&self, action: &Arc<Action>, to: u32, bytes: Vec<u8>) {
        self.switch.inject(Injection {
            in_port: PortNo::CONTROLLER.0,
            bytes,
            action: action.clone(),
            args: vec![Bits::from_u128(to.into(), 32)],
        });
    }

    /// Switches behind the bond learn by which member the stations of this side are now.
    fn teach(&self, bundle: u32, members: &[u32]) {
        let stations: Vec<(u16, u64)> = lock(&self.agent)
            .stations()
            .iter()
            .filter(|(_, _, port)| !members.contains(port))
            .map(|(vlan, mac, _)| (vlan, mac))
            .collect();
        for (vlan, mac) in stations {
            self.inject(&self.teach, bundle, learning_packet(vlan, mac));
        }
    }
}

/// A request of RARP, as Open vSwitch sends it, of which nobody but switches makes anything.
fn learning_packet(vlan: u16, mac: u64) -> Vec<u8> {
    let [_, _, mac @ ..] = mac.to_be_bytes();
    let mut bytes = vec![0xff; 6];
    bytes.extend(mac);
    if vlan != 0 {
        bytes.extend([0x81, 0]);
        bytes.extend(vlan.to_be_bytes());
    }
    bytes.extend([0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]);
    for _ in 0..2 {
        bytes.extend(mac);
        bytes.extend([0; 4]);
    }
    bytes.resize(64, 0);
    bytes
}
