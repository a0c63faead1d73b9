//! Ports by number: adding, removing, link changes, egress queues, statistics.
//!
//! A port has a number, a name, a configuration that clients set ([`PortConfig`]) and a link state
//! that the world sets. A control thread asks every port for its link when one of them may have
//! news, and a few times per second in any case; changes reach clients as [`PortEvent`]s, and
//! workers as flags.

use crate::monitor::{LinkEvent, TURN};
pub use crate::slot::{NUMBER_LOCAL, NUMBER_MAX, PortConfig, PortError, PortEvent, PortView};
use crate::slot::{Slot, find};
use crate::switch::Switch;
use datapath::policer::{Policer, Policing};
use datapath::ports::{PortCounters, PortShared};
use datapath::queues::{PortRef, Queues, QueuesConfig, Setting};
use datapath::worker::{Command, Receiving};
use port::link::LinkRequest;
use port::{Port, RxQueue, TxQueue};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Switch {
    /// Adds a port, under this number or the least free one, and opens its queues, which are spread
    /// over the workers.
    pub fn add_port(&self, number: Option<u32>, port: Box<dyn Port>) -> Result<u32, PortError> {
        self.add_port_at(number, port, &[])
    }

    /// As [`add_port`](Self::add_port), with some receive queues, each given with its worker, not
    /// where they would come to by themselves.
    pub fn add_port_at(
        &self,
        number: Option<u32>,
        port: Box<dyn Port>,
        places: &[(usize, usize)],
    ) -> Result<u32, PortError> {
        let name = port.info().name.clone();
        self.add_port_as(&name, number, port, places)
    }

    /// As [`add_port_at`](Self::add_port_at), under a name of its own, which need not be that of what is behind
    /// it.
    pub fn add_port_as(
        &self,
        name: &str,
        number: Option<u32>,
        mut port: Box<dyn Port>,
        places: &[(usize, usize)],
    ) -> Result<u32, PortError> {
        let workers = self.inner.workers.len();
        let mut slots = self.inner.slots();
        let number = match number {
            Some(n @ NUMBER_LOCAL) => n,
            // Port 0 is for those who ask for it: OpenFlow has none.
            Some(n) if n > NUMBER_MAX => return Err(PortError::NumberReserved(n)),
            Some(n) => n,
            None => (1..=NUMBER_MAX)
                .find(|n| slots.iter().all(|s| s.number != *n))
                .ok_or(PortError::NumberReserved(NUMBER_MAX + 1))?,
        };
        if slots.iter().any(|s| s.number == number) {
            return Err(PortError::NumberInUse(number));
        }
        let name = name.to_owned();
        if slots.iter().any(|s| s.shared.name == name) {
            return Err(PortError::NameInUse(name));
        }
        let queues = port.info().rx_queues;
        for &(queue, worker) in places {
            if queue >= queues {
                return Err(port::Error::NoQueue { name, queue, queues }.into());
            }
            if worker >= workers {
                return Err(PortError::NoWorker { worker, workers });
            }
        }
        port.set_name(&name);
        let shared = Arc::new(PortShared::new(number, &name, 0, workers));
        let mut rx: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        for queue in 0..queues {
            // Spread single-queue ports over the workers, and a port's queues from there on.
            let given = places.iter().rfind(|(q, _)| *q == queue).map(|(_, worker)| *worker);
            let asked = port.worker_of(queue).or(given);
            if let Some(worker) = asked.filter(|worker| *worker >= workers) {
                return Err(PortError::NoWorker { worker, workers });
            }
            let worker = asked.unwrap_or((slots.len() + queue) % workers);
            rx[worker].push(port.rx_queue(queue)?);
        }
        let tx = (0..workers).map(|_| port.tx_queue()).collect::<Result<Vec<_>, _>>()?;
        let (link, now_ns) = (port.link(), self.now_ns());
        let mut slot = Slot {
            number,
            port,
            shared: shared.clone(),
            link,
            config: PortConfig::default(),
            since_ns: now_ns,
            // As it begins is no change.
            was_up: link.is_up(),
            changed_ns: now_ns,
            transitions: 0,
            held: false,
            descriptor: self.inner.descriptor.load(Ordering::Relaxed),
        };
        slot.set_flags(now_ns);
        let view = slot.view();
        slots.push(slot);
        slots.sort_by_key(|s| s.number);
        self.inner.change_ports(|table| table.insert(shared.clone()));
        for ((worker, rx), tx) in self.inner.workers.iter().zip(rx).zip(tx) {
            worker.send(Command::AddPort { shared: shared.clone(), rx, tx });
        }
        self.inner.port_event(PortEvent::Added(view));
        drop(slots);
        self.inner.signals.monitor.ring();
        Ok(number)
    }

    /// Frames of tunnel ports begin with a descriptor of so many octets, those of ports that are added later, too.
    pub fn set_descriptor(&self, octets: u32) {
        let mut slots = self.inner.slots();
        self.inner.descriptor.store(octets, Ordering::Relaxed);
        for slot in slots.iter_mut().filter(|slot| slot.port.info().described) {
            slot.descriptor = octets;
            slot.shared.set_descriptor(octets);
        }
    }

    /// Whether its workers poll without ever sleeping; by default they sleep when all is silent.
    pub fn set_polling(&self, polls: bool) {
        self.inner.threads.set_polling(polls);
    }

    /// Whether workers receive (which they do at first), or leave what comes in the ports: so that a
    /// switch can be given ports, and then entries, before a frame meets empty tables. Obeyed when
    /// this returns.
    pub fn set_receiving(&self, receives: bool) {
        self.inner.receives.store(receives, Ordering::Relaxed);
        self.tell_receiving();
    }

    /// Whether it is a standby.
    pub fn is_standby(&self) -> bool {
        self.inner.standby.load(Ordering::Relaxed)
    }

    /// It is a standby: what comes in is dropped, under [`DropReason::Standby`](ir::DropReason::Standby); or none any more.
    /// Obeyed when this returns.
    pub fn set_standby(&self, standby: bool) {
        self.inner.standby.store(standby, Ordering::Relaxed);
        self.tell_receiving();
    }

    /// The same of a bridge that may have come meanwhile: nothing is done where nothing changes.
    pub fn set_standby_if_new(&self, standby: bool) {
        if self.inner.standby.load(Ordering::Relaxed) != standby {
            self.set_standby(standby);
        }
    }

    fn tell_receiving(&self) {
        let receives = self.inner.receives.load(Ordering::Relaxed);
        self.receive(match (receives, self.inner.standby.load(Ordering::Relaxed)) {
            (false, _) => Receiving::Nothing,
            (true, true) => Receiving::Standby,
            (true, false) => Receiving::All,
        });
    }

    /// Nothing new comes in, and what switches of the same workers have sent each other goes on: so that switches can stop
    /// together without a frame left between them. Obeyed when this returns.
    pub fn receive_inside(&self) {
        self.receive(Receiving::Inside);
    }

    /// Frames wait that another switch of the same workers has sent.
    pub fn waits_inside(&self) -> bool {
        let (to, told) = crossbeam_channel::unbounded();
        for worker in &self.inner.workers {
            worker.send(Command::Waits(to.clone()));
        }
        drop(to);
        self.inner.settle_workers();
        told.try_iter().any(|waits| waits)
    }

    fn receive(&self, what: Receiving) {
        for worker in &self.inner.workers {
            worker.send(Command::Receive(what));
        }
        self.inner.settle_workers();
    }

    /// Number, interface and receiving socket of the ports that have one which another process can go on with.
    pub fn receiving_sockets(&self) -> Vec<(u32, String, OwnedFd)> {
        let slots = self.inner.slots();
        let socket = |slot: &Slot| {
            let interface = slot.port.info().name.clone();
            Some((slot.number, interface, slot.port.receiving()?))
        };
        slots.iter().filter_map(socket).collect()
    }

    /// Removes a port. Its queues are closed when this returns, so that it can be opened anew.
    pub fn remove_port(&self, number: u32) -> Result<(), PortError> {
        self.remove_ports(&[number])
    }

    /// Removes ports at once; none if one of them is unknown. To close a kernel's socket takes some milliseconds: they are
    /// all closed side by side, and no worker waits for that.
    pub fn remove_ports(&self, numbers: &[u32]) -> Result<(), PortError> {
        let mut slots = self.inner.slots();
        let unknown = numbers.iter().find(|number| slots.iter().all(|s| s.number != **number));
        if let Some(number) = unknown {
            return Err(PortError::Unknown(*number));
        }
        let gone: Vec<Slot> = slots.extract_if(.., |s| numbers.contains(&s.number)).collect();
        self.inner.change_ports(|table| {
            for slot in &gone {
                table.remove(slot.number);
            }
        });
        let (to, removed) = crossbeam_channel::unbounded();
        for slot in &gone {
            for worker in &self.inner.workers {
                worker.send(Command::RemovePort(slot.number, Some(to.clone())));
            }
            self.inner.port_event(PortEvent::Removed(slot.view()));
        }
        drop(slots);
        self.inner.settle_workers();
        for slot in &gone {
            self.inner.departed().add(&slot.shared.counters());
        }
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for queues in removed.try_iter() {
            rx.extend(queues.rx);
            tx.extend(queues.tx);
        }
        side_by_side(rx.into_iter().map(Dropped::Rx).chain(tx.into_iter().map(Dropped::Tx)));
        side_by_side(gone.into_iter().map(|slot| Dropped::Port(slot.port)));
        Ok(())
    }

    /// Gives a port another number. Its queues stay open, with what waits in them; what waits in its egress queues is
    /// dropped. Clients see one port go and another come, whose counters begin anew.
    pub fn renumber_port(&self, number: u32, to: u32) -> Result<(), PortError> {
        if to != NUMBER_LOCAL && !(1..=NUMBER_MAX).contains(&to) {
            return Err(PortError::NumberReserved(to));
        }
        let workers = &self.inner.workers;
        let mut slots = self.inner.slots();
        let at = slots.iter().position(|s| s.number == number);
        let at = at.ok_or(PortError::Unknown(number))?;
        if slots.iter().any(|s| s.number == to) {
            return Err(PortError::NumberInUse(to));
        }
        let slot = &mut slots[at];
        let before = slot.view();
        let shared = Arc::new(PortShared::new(to, &slot.shared.name, 0, workers.len()));
        let old = std::mem::replace(&mut slot.shared, shared.clone());
        (slot.number, slot.since_ns) = (to, self.now_ns());
        (slot.changed_ns, slot.transitions) = (slot.since_ns, 0);
        slot.set_flags(self.now_ns());
        let view = slot.view();
        slots.sort_by_key(|s| s.number);
        self.inner.change_ports(|table| {
            table.remove(number);
            table.insert(shared.clone());
        });
        for worker in workers {
            worker.send(Command::Renumber { number, shared: shared.clone() });
        }
        shared.set_policer(old.policer());
        if let Some(queues) = old.queues() {
            self.give_queues(to, &shared, queues.config().clone());
        }
        self.inner.port_event(PortEvent::Removed(before));
        self.inner.port_event(PortEvent::Added(view));
        drop(slots);
        self.inner.settle_workers();
        self.inner.departed().add(&old.counters());
        Ok(())
    }

    /// Configures a port.
    pub fn configure_port(&self, number: u32, config: PortConfig) -> Result<(), PortError> {
        let mut slots = self.inner.slots();
        let slot =
            slots.iter_mut().find(|s| s.number == number).ok_or(PortError::Unknown(number))?;
        if slot.config == config {
            return Ok(());
        }
        if slot.config.down != config.down {
            slot.port.set_admin(!config.down)?;
        }
        slot.config = config;
        slot.link = slot.port.link();
        slot.set_flags(self.now_ns());
        let view = slot.view();
        self.inner.port_event(PortEvent::Modified(view));
        Ok(())
    }

    /// Holds a port, or lets go of it: while it is held it is not live for groups and clients, and frames pass as before.
    pub fn hold_port(&self, number: u32, held: bool) -> Result<(), PortError> {
        let mut slots = self.inner.slots();
        let slot =
            slots.iter_mut().find(|s| s.number == number).ok_or(PortError::Unknown(number))?;
        if std::mem::replace(&mut slot.held, held) != held {
            slot.set_flags(self.now_ns());
            self.inner.port_event(PortEvent::Modified(slot.view()));
        }
        Ok(())
    }

    /// Sets a port's MTU and address, as far as they are said.
    pub fn set_link(&self, number: u32, wanted: LinkRequest) -> Result<(), PortError> {
        let mut slots = self.inner.slots();
        let slot =
            slots.iter_mut().find(|s| s.number == number).ok_or(PortError::Unknown(number))?;
        slot.port.set_link(wanted)?;
        slot.link = slot.port.link();
        slot.set_flags(self.now_ns());
        let view = slot.view();
        self.inner.port_event(PortEvent::Modified(view));
        Ok(())
    }

    /// Sets queues of ports, or ports' rates, each in place of what was set of the same queue. All
    /// or, if one is refused, none. Counters of a port's queues begin anew.
    pub fn set_queues(&self, settings: &[Setting]) -> Result<(), PortError> {
        let slots = self.inner.slots();
        let mut changed: BTreeMap<u32, (Arc<PortShared>, QueuesConfig)> = BTreeMap::new();
        for Setting { port, of } in settings {
            let slot = find(&slots, port)?;
            let (_, config) = changed.entry(slot.number).or_insert_with(|| {
                let held = slot.shared.queues();
                (slot.shared.clone(), held.map_or_else(Default::default, |q| q.config().clone()))
            });
            let name = || slot.shared.name.clone();
            config.set(of.clone()).map_err(|error| PortError::Queues { name: name(), error })?;
        }
        for (number, (shared, config)) in changed {
            self.give_queues(number, &shared, config);
        }
        Ok(())
    }

    /// Sets all queues of a port and its rate, in place of those that it has; counters begin anew.
    pub fn replace_queues(&self, number: u32, config: QueuesConfig) -> Result<(), PortError> {
        let slots = self.inner.slots();
        let slot = slots.iter().find(|s| s.number == number).ok_or(PortError::Unknown(number))?;
        self.give_queues(number, &slot.shared, config);
        Ok(())
    }

    /// Sets what a port may receive. What may come at once may come anew.
    pub fn set_policing(&self, number: u32, policing: Policing) -> Result<(), PortError> {
        let slots = self.inner.slots();
        let slot = slots.iter().find(|s| s.number == number).ok_or(PortError::Unknown(number))?;
        let now = slot.shared.policer().map(|policer| policer.config()).unwrap_or_default();
        if now != policing {
            let policer = (!policing.is_empty()).then(|| Arc::new(Policer::new(policing)));
            slot.shared.set_policer(policer);
        }
        Ok(())
    }

    /// Takes the queues of a port away, and its rate: what waits in them leaves at once.
    pub fn clear_queues(&self, number: u32) -> Result<(), PortError> {
        let slots = self.inner.slots();
        let slot = slots.iter().find(|s| s.number == number).ok_or(PortError::Unknown(number))?;
        self.give_queues(number, &slot.shared, QueuesConfig::default());
        Ok(())
    }

    fn give_queues(&self, number: u32, shared: &PortShared, config: QueuesConfig) {
        let workers = &self.inner.workers;
        let queues = (!config.is_empty())
            .then(|| Arc::new(Queues::new(config, workers.len(), self.now_ns())));
        shared.set_queues(queues.clone());
        for worker in workers {
            worker.send(Command::Queues { number, queues: queues.clone() });
        }
    }

    /// The number of a port.
    pub fn port_number(&self, port: &PortRef) -> Result<u32, PortError> {
        Ok(find(&self.inner.slots(), port)?.number)
    }

    /// A port's egress queues, if it has any.
    pub fn queues(&self, number: u32) -> Option<Arc<Queues>> {
        self.inner.slots().iter().find(|s| s.number == number)?.shared.queues()
    }

    /// All ports by ascending number.
    pub fn ports(&self) -> Vec<PortView> {
        self.inner.slots().iter().map(Slot::view).collect()
    }

    /// The port with this number.
    pub fn port(&self, number: u32) -> Option<PortView> {
        self.inner.slots().iter().find(|s| s.number == number).map(Slot::view)
    }

    /// Counters of all ports by ascending number: our own, and the kernel's where it counts.
    pub fn port_counters(&self) -> Vec<(PortView, PortCounters, port::KernelStats)> {
        let mut slots = self.inner.slots();
        slots.iter_mut().map(|s| (s.view(), s.shared.counters(), s.port.kernel_stats())).collect()
    }

    /// What waits to be sent at each port, in bytes as [`port::Port::tx_waiting`] counts.
    pub fn waiting(&self) -> Vec<(u32, u64)> {
        self.inner.slots().iter_mut().map(|s| (s.number, s.port.tx_waiting())).collect()
    }

    /// The port of this name goes on from what another process has counted of it; false if there is none.
    pub fn carry_port_counters(&self, name: &str, counted: &PortCounters) -> bool {
        let slots = self.inner.slots();
        let slot = slots.iter().find(|slot| slot.shared.name == name);
        slot.map(|slot| slot.shared.carry(counted)).is_some()
    }

    /// What the ports that were removed had counted, summed.
    pub fn departed(&self) -> PortCounters {
        self.inner.departed().clone()
    }

    /// The same of one port, without asking the others.
    pub fn counters_of_port(
        &self,
        number: u32,
    ) -> Option<(PortView, PortCounters, port::KernelStats)> {
        let mut slots = self.inner.slots();
        let slot = slots.iter_mut().find(|s| s.number == number)?;
        Some((slot.view(), slot.shared.counters(), slot.port.kernel_stats()))
    }

    /// The descriptors of the ports that can tell when their link may have changed.
    pub(crate) fn link_events(&self) -> Vec<LinkEvent> {
        let slots = self.inner.slots();
        // One that cannot be duplicated is missed for a round: its port is asked in turn all the same.
        let own =
            |slot: &Slot| Some((slot.number, slot.port.event_fd()?.try_clone_to_owned().ok()?));
        slots.iter().filter_map(own).collect()
    }

    /// Ports of which a glance tells that their carrier has come or gone.
    pub(crate) fn carriers_changed(&self) -> Vec<u32> {
        let differs = |slot: &&Slot| {
            slot.link.admin_up && slot.port.glance().is_some_and(|on| on != slot.link.carrier)
        };
        self.inner.slots().iter().filter(differs).map(|slot| slot.number).collect()
    }

    /// Asks these ports for their link, and tells clients and workers what changed.
    pub(crate) fn check_links(&self, numbers: &[u32]) {
        if numbers.is_empty() {
            return;
        }
        let mut slots = self.inner.slots();
        for slot in slots.iter_mut().filter(|slot| numbers.contains(&slot.number)) {
            self.check_link(slot);
        }
    }

    /// Asks some ports for their link, from the one of this number on. Says with which the next turn begins.
    pub(crate) fn check_links_in_turn(&self, from: u32) -> u32 {
        let mut slots = self.inner.slots();
        let first = slots.partition_point(|slot| slot.number < from);
        for slot in slots.iter_mut().skip(first).take(TURN) {
            self.check_link(slot);
        }
        slots.get(first + TURN).map_or(0, |slot| slot.number)
    }

    fn check_link(&self, slot: &mut Slot) {
        let link = slot.port.link();
        if link == slot.link {
            return;
        }
        slot.link = link;
        slot.set_flags(self.now_ns());
        tracing::info!(port = %slot.shared.name, number = slot.number, up = link.is_up(),
            present = link.present, "link changed");
        self.inner.port_event(PortEvent::Modified(slot.view()));
    }
}

/// What is closed when it is dropped.
#[expect(dead_code, reason = "they are dropped, no more")]
enum Dropped {
    Rx(Box<dyn RxQueue>),
    Tx(Box<dyn TxQueue>),
    Port(Box<dyn Port>),
}

/// Drops all, each on a thread of its own.
fn side_by_side(all: impl Iterator<Item = Dropped>) {
    std::thread::scope(|scope| {
        for one in all {
            // Where there can be no more threads, what was to be dropped there is dropped here.
            let thread = std::thread::Builder::new().name("close".to_owned());
            let _ = thread.spawn_scoped(scope, move || drop(one));
        }
    });
}
