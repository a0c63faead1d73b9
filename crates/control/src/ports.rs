//! A switch's ports as they are asked for: checked before anything is opened, opened, and added under numbers that
//! are known beforehand.
//!
//! A process that takes another one's place opens what two may have at a time before the other lets go
//! ([`Opening::Early`]); the rest comes at the end ([`Opening::All`]). The one that lets go closes what only one may
//! have ([`let_go`]), and can have it back ([`take_back`]).

use crate::bridges::config::PortConfig;
use crate::config::{Config, RxRate, RxWorker};
use crate::confine;
use crate::failure::Failure;
use crate::normal::vlan::Vlan;
use crate::takeover::sockets::Socket;
use crate::tunnels;
use datapath::queues::{Change, Of, PortRef, QueuesConfig, Setting};
use port::Port;
use port::inherited::Inherited;
use port::kind::{Attachment, Environment, TakeOver};
use port::spec::Spec;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use switch::Switch;
use switch::ports::{NUMBER_LOCAL, NUMBER_MAX};

/// So long the one that had a port may need to close it.
const BACK_MAX: Duration = Duration::from_secs(60);
const BACK_PAUSE: Duration = Duration::from_millis(50);

/// A port, its number settled.
#[derive(Clone, Debug)]
struct Planned {
    spec: Spec,
    number: u32,
    rate: Option<u64>,
    vlan: Vlan,
    /// Receive queues and their workers.
    places: Vec<(usize, usize)>,
}

/// Ports in the order of their specifications.
#[derive(Clone)]
pub(crate) struct Ports {
    all: Vec<Planned>,
    queues: Vec<Setting>,
    /// What kinds of ports find there.
    environment: Environment,
}

/// Which ports are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Those that another process may have at the same time.
    Early,
    /// All.
    All,
}

/// Ports that are open and not yet a switch's, by their places.
#[derive(Default)]
pub(crate) struct Opened(BTreeMap<usize, Box<dyn Port>>);

impl Opened {
    /// Ports that another process had on the same interfaces receive by the sockets that it had. Says how many.
    pub(crate) fn receive_by(&mut self, ports: &Ports, sockets: Vec<Socket>) -> usize {
        let mut taken = 0;
        for Socket { number, interface, socket } in sockets {
            let is = |planned: &Planned| {
                planned.number == number
                    && planned.spec.attachment.interface() == Some(interface.as_str())
            };
            let at = ports.all.iter().position(is);
            let Some(at) = at else { continue };
            match (self.0.get_mut(&at), ports.environment.get::<Inherited>()) {
                (Some(port), _) => taken += usize::from(port.receive_by(socket)),
                // It is opened with it.
                (None, Some(inherited)) => {
                    inherited.put(&interface, socket);
                    taken += 1;
                }
                (None, None) => {}
            }
        }
        taken
    }
}

impl Ports {
    /// Checks what does not need a port: names, numbers, queues, and what is said of ports by name or number.
    pub(crate) fn plan(config: &Config) -> Result<Ports, Failure> {
        let mut all: Vec<Planned> = Vec::new();
        for spec in &config.ports {
            let name = spec.name();
            let failed = |why: String| Failure::Usage(format!("port {name}: {why}"));
            let free = || (1..=NUMBER_MAX).find(|n| all.iter().all(|port| port.number != *n));
            let number = spec.number.or_else(free).unwrap_or(1);
            // OpenFlow has no port 0, and P4 has.
            let least = u32::from(config.p4.is_none() && config.p4_runtime.is_none());
            if number != NUMBER_LOCAL && !(least..=NUMBER_MAX).contains(&number) {
                return Err(failed(format!(
                    "port number {number:#x} is reserved; ordinary ports are {least} to {NUMBER_MAX:#x}"
                )));
            }
            if all.iter().any(|port| port.number == number) {
                return Err(failed(format!(
                    "port number {number} is in use; choose another or leave it out"
                )));
            }
            if all.iter().any(|port| port.spec.name() == name) {
                return Err(failed(format!(
                    "port name {name} is in use; give the port another: NAME=SPEC"
                )));
            }
            if let Some(path) = spec.attachment.writes()
                && let Some(other) =
                    all.iter().find(|port| port.spec.attachment.writes() == Some(path))
                && !is_device(path)
            {
                return Err(failed(format!(
                    "port {} writes to {} already",
                    other.spec.name(),
                    path.display()
                )));
            }
            let vlan = Vlan::default();
            all.push(Planned { spec: spec.clone(), number, rate: None, vlan, places: Vec::new() });
        }
        for (port, vlan) in &config.vlans {
            let planned = named(&mut all, port).ok_or_else(|| {
                Failure::Usage(format!("--vlan {port}: no --port has this name or number"))
            })?;
            if planned.vlan != Vlan::default() {
                return Err(Failure::Usage(format!("--vlan {port}: it has VLANs already")));
            }
            planned.vlan = vlan.clone();
        }
        for mirror in &config.mirrors {
            if let Some(port) =
                mirror.ports().find(|name| all.iter().all(|port| port.spec.name() != **name))
            {
                let name = &mirror.name;
                return Err(Failure::Usage(format!(
                    "--mirror {name}: no --port has the name {port}"
                )));
            }
        }
        for RxWorker { port, queue, worker } in &config.rx_workers {
            let planned = named(&mut all, port).ok_or_else(|| {
                Failure::usage(format!(
                    "--rx-worker {port}: no --port has this name or number; give its name, or the number that \
                     NAME:NUMBER=SPEC gives it"
                ))
            })?;
            if *worker >= config.workers {
                return Err(Failure::usage(format!(
                    "--rx-worker {port}: there is no worker {worker}; there are {}, counted from 0",
                    config.workers
                )));
            }
            planned.places.push((*queue, *worker));
        }
        for RxRate { port, per_second } in &config.rx_rates {
            let planned = named(&mut all, port);
            let planned = planned.filter(|planned| planned.rate.is_none()).ok_or_else(|| {
                Failure::usage(format!(
                    "--rx-rate names a port twice, or one that --port does not: {port}; give its name, or the \
                     number that NAME:NUMBER=SPEC gives it"
                ))
            })?;
            planned.rate = Some(*per_second);
        }
        let mut queues: BTreeMap<u32, QueuesConfig> = BTreeMap::new();
        let mut set = Vec::new();
        for Setting { port, of } in &config.queues {
            let planned = all.iter().find(|planned| match port {
                PortRef::Number(number) => planned.number == *number,
                PortRef::Name(name) => planned.is_named(name),
            });
            let planned = planned.ok_or_else(|| {
                let shown = match port {
                    PortRef::Number(number) => number.to_string(),
                    PortRef::Name(name) => format!("{name:?}"),
                };
                Failure::Usage(format!("--queue: there is no port {shown}"))
            })?;
            queues.entry(planned.number).or_default().set(of.clone()).map_err(|e| {
                Failure::Usage(format!("--queue: port {}: {e}", planned.spec.name()))
            })?;
            set.push(Setting { port: PortRef::Number(planned.number), of: of.clone() });
        }
        let environment = tunnels::meeting(config.environment(), config.workers);
        Ok(Ports { all, queues: set, environment })
    }

    /// The ports of a bridge beside the first. Those that ask for no number have the least that nobody asks for.
    pub(crate) fn of_bridge(ports: &[PortConfig], environment: Environment) -> Ports {
        let mut taken: Vec<u32> = ports.iter().filter_map(|port| port.number).collect();
        let mut all = Vec::new();
        for port in ports {
            let free = || (1..=NUMBER_MAX).find(|n| !taken.contains(n));
            let number = port.number.or_else(free).unwrap_or(1);
            taken.push(number);
            all.push(Planned::of(port, number));
        }
        Ports { all, queues: Vec::new(), environment }
    }

    /// What kinds of ports find there, with the panel at which patch ports meet.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The ports, as bridges keep them.
    pub(crate) fn configs(&self) -> Vec<PortConfig> {
        let config = |planned: &Planned| PortConfig {
            number: Some(planned.number),
            rx_rate: planned.rate,
            vlan: planned.vlan.clone(),
            places: planned.places.clone(),
            ..PortConfig::of_spec(&planned.spec)
        };
        self.all.iter().map(config).collect()
    }

    /// Names with numbers.
    pub(crate) fn names(&self) -> Vec<(String, u32)> {
        self.all.iter().map(|port| (port.spec.name().to_owned(), port.number)).collect()
    }

    /// Opens ports that are not open yet.
    pub(crate) fn open(&self, which: Opening, opened: &mut Opened) -> Result<(), Failure> {
        for (at, planned) in self.all.iter().enumerate() {
            if opened.0.contains_key(&at) {
                continue;
            }
            let spec = &planned.spec;
            if which == Opening::Early && spec.attachment.take_over() != TakeOver::Shared {
                let failed = |e| Failure::Bad(format!("port {}: {e}", spec.name()));
                spec.attachment.check(spec.name()).map_err(failed)?;
                continue;
            }
            opened.0.insert(at, planned.open(&self.environment)?);
        }
        Ok(())
    }

    /// Adds all ports, opened by now or already, and their queues; number and name of each.
    pub(crate) fn add(&self, switch: &Switch, opened: Opened) -> Result<Vec<String>, Failure> {
        let mut opened = opened;
        self.open(Opening::All, &mut opened)?;
        if let Some(inherited) = self.environment.get::<Inherited>() {
            inherited.close();
        }
        let mut described = Vec::new();
        for (planned, port) in self.all.iter().zip(opened.0.into_values()) {
            for warning in &port.info().warnings {
                tracing::warn!(port = %planned.spec.name(), "{warning}");
            }
            let name = planned.spec.name().to_owned();
            planned.add(switch, port)?;
            described.push(format!("{}={name}", planned.number));
        }
        let failed = |e: switch::PortError| Failure::Bad(format!("--queue: {e}"));
        switch.set_queues(&self.queues).map_err(failed)?;
        Ok(described)
    }
}

/// Closes those of a running switch's ports that only one process may have; what they were is what [`take_back`] needs.
pub(crate) fn let_go(switch: &Switch, ports: &[PortConfig]) -> Result<Vec<LetGo>, String> {
    let views = switch.ports();
    let mut gone = Vec::new();
    let mut descriptors: BTreeMap<u32, (String, OwnedFd)> = switch
        .receiving_sockets()
        .into_iter()
        .map(|(number, interface, descriptor)| (number, (interface, descriptor)))
        .collect();
    let exclusive = |port: &&PortConfig| port.attachment.take_over() == TakeOver::Exclusive;
    for port in ports.iter().filter(exclusive) {
        let Some(view) = views.iter().find(|view| Some(view.number) == port.number) else {
            continue;
        };
        let queues = switch.queues(view.number).map(|queues| queues.config().clone());
        let descriptor = descriptors.remove(&view.number);
        let planned = Planned::of(port, view.number);
        gone.push(LetGo { planned, config: view.config, queues, descriptor });
    }
    let numbers: Vec<u32> = gone.iter().map(|port| port.planned.number).collect();
    // Also if there are none: what workers had in hand has left when this returns.
    switch.remove_ports(&numbers).map_err(|e| e.to_string())?;
    Ok(gone)
}

/// Opens again what was let go. The process that had it may not have closed it yet: that is waited for.
pub(crate) fn take_back(environment: &Environment, switch: &Switch, gone: Vec<LetGo>) {
    let until = Instant::now() + BACK_MAX;
    for LetGo { planned, config, queues, descriptor } in gone {
        let name = planned.spec.name();
        if let (Some((interface, fd)), Some(inherited)) =
            (descriptor, environment.get::<Inherited>())
        {
            inherited.put(&interface, fd);
        }
        let again = loop {
            let opened = planned.open(environment).and_then(|port| planned.add(switch, port));
            match opened {
                Err(error) if Instant::now() < until => {
                    tracing::debug!(port = name, ?error, "not back yet");
                    std::thread::sleep(BACK_PAUSE);
                }
                outcome => break outcome,
            }
        };
        let settings = queues.map(|queues| settings(planned.number, queues));
        let restored = again.map_err(|e| e.text()).and_then(|()| {
            switch.configure_port(planned.number, config).map_err(|e| e.to_string())?;
            switch.set_queues(&settings.unwrap_or_default()).map_err(|e| e.to_string())
        });
        match restored {
            Ok(()) => tracing::info!(port = name, number = planned.number, "the port is back"),
            Err(error) => tracing::error!(port = name, error, "the port is not back"),
        }
    }
}

/// A port that was closed for another process.
pub(crate) struct LetGo {
    planned: Planned,
    config: switch::PortConfig,
    queues: Option<QueuesConfig>,
    /// Its interface and what it was open by, which keep it there.
    descriptor: Option<(String, OwnedFd)>,
}

impl LetGo {
    /// What another process can go on with.
    pub(crate) fn socket(&self) -> Option<Socket> {
        let (interface, descriptor) = self.descriptor.as_ref()?;
        let socket = descriptor.try_clone().ok()?;
        Some(Socket { number: self.planned.number, interface: interface.clone(), socket })
    }
}

/// A port's queues as settings.
fn settings(number: u32, queues: QueuesConfig) -> Vec<Setting> {
    let port = || PortRef::Number(number);
    let own = queues.max_bps.map(|max_bps| {
        let (max_bps, burst_bytes) = (Some(Some(max_bps)), Some(queues.burst_bytes));
        let of = Of::Port(Change { max_bps, burst_bytes, ..Change::default() });
        Setting { port: port(), of }
    });
    let each = queues
        .queues
        .into_iter()
        .map(|queue| Setting { port: port(), of: Of::Queue(queue.id, queue.into()) });
    own.into_iter().chain(each).collect()
}

impl Planned {
    fn of(port: &PortConfig, number: u32) -> Planned {
        let (given_name, attachment) = (Some(port.name.clone()), port.attachment.clone());
        Planned {
            spec: Spec { given_name, number: Some(number), attachment },
            number,
            rate: port.rx_rate,
            vlan: port.vlan.clone(),
            places: port.places.clone(),
        }
    }

    fn is_named(&self, name: &str) -> bool {
        self.spec.name() == name
    }

    fn open(&self, environment: &Environment) -> Result<Box<dyn Port>, Failure> {
        let name = self.spec.name();
        let port = open(&*self.spec.attachment, name, self.rate, environment);
        port.map_err(|e| Failure::Bad(format!("port {name}: {e}")))
    }

    fn add(&self, switch: &Switch, port: Box<dyn Port>) -> Result<(), Failure> {
        let name = self.spec.name();
        let places = places(&*self.spec.attachment, &*port, &self.places);
        let added = switch.add_port_as(name, Some(self.number), port, &places);
        added.map(|_| ()).map_err(|e| Failure::Bad(format!("port {name}: {e}")))
    }
}

/// Opens a port of this name. So many packets a second are taken of it at most, if that is said.
pub(crate) fn open(
    attachment: &dyn Attachment,
    name: &str,
    rx_rate: Option<u64>,
    environment: &Environment,
) -> Result<Box<dyn Port>, port::Error> {
    confine::may_open(attachment.kind())
        .map_err(|what| port::Error::Unsupported { name: name.to_owned(), what })?;
    let port = attachment.open(name, environment)?;
    Ok(match rx_rate {
        Some(per_second) => Box::new(port::pace::Paced::new(port, per_second)),
        None => port,
    })
}

/// Which worker serves which queue of a port: these, where it is not a worker's own.
pub(crate) fn places(
    attachment: &dyn Attachment,
    port: &dyn Port,
    given: &[(usize, usize)],
) -> Vec<(usize, usize)> {
    match attachment.kind().queue_per_worker {
        true => (0..port.info().rx_queues).map(|n| (n, n)).collect(),
        false => given.to_vec(),
    }
}

/// It exists and is no file: several may write to it.
fn is_device(path: &std::path::Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| !about.is_file())
}

fn named<'a>(all: &'a mut [Planned], port: &str) -> Option<&'a mut Planned> {
    let number = port.parse().ok();
    all.iter_mut().find(|planned| planned.is_named(port) || number == Some(planned.number))
}
