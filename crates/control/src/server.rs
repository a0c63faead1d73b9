//! The server: a switch in the foreground, until a signal ends it ([`signals`](crate::signals)).

use crate::bridges::{Bridges, Defaults};
use crate::config::diff::{Change, Setup, diff};
use crate::config::{Config, MetricsAt, Options, OtlpAt, check_cpus};
use crate::controller::{Begun, Controllers};
use crate::dial::default_path;
use crate::doors::{self, Doors, Groups, Opened, Servers};
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::health::Health;
use crate::image::State;
use crate::normal::learning::Learning;
use crate::otlp::Exporter;
use crate::ports::{Opened as OpenedPorts, Opening, Ports};
use crate::program::services;
use crate::protocol::{Reply, Request};
use crate::reload::Reload;
use crate::replication::Replication;
use crate::role::Role;
use crate::signals::Signals;
use crate::takeover::handover::Handover;
use crate::takeover::running::{Paused, Running};
use crate::takeover::{counted, others};
use crate::verb::At;
use crate::{confine, controllers, guard, logging, metrics, page, room, start, supervisor, verbs};
use grpc::Bind;
use of_channel::TlsFiles;
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use switch::{Switch, Workers};

/// `millrace run`.
pub fn run(options: Options) -> Result<(), Failure> {
    let config = Config::new(options.clone())?;
    match confine::left() {
        Some(left) => tracing::info!(left, "confined"),
        None if config.confine => {
            return Err(Failure::usage("confine: the configuration is no regular file"));
        }
        None => {}
    }
    room::spare_address_space();
    room::raise_descriptors();
    guard::panics_end_the_process();
    let signals =
        Signals::take().map_err(|e| Failure::Bad(format!("cannot wait for signals: {e}")))?;
    // All that can be wrong is looked at before anything is taken from anybody.
    check_cpus(&config.cpus)?;
    let ports = Ports::plan(&config)?;
    let setup = config.setup(&ports)?;
    let doors = Doors::new(config.ctl.clone().unwrap_or_else(default_path), config.ctl_groups);
    if config.ctl.is_some() {
        let ours = |role| {
            let path = config.take_over.as_deref().map(|path| doors::path_for(path, role));
            path.and_then(|path| of_channel::unix::identity(&path))
        };
        doors.check(ours).map_err(|e| no_control_socket(&doors, &e))?;
    }
    config.channel.check().map_err(Failure::bad)?;
    let mut state = match &config.state {
        Some(path) => Some(State::open(path, config.take_over.is_none())?),
        None => None,
    };
    let workers = Workers::start(config.workers, &config.cpus).map_err(Failure::bad)?;
    let begun = controllers::begin(&config, &workers)?;
    let bridges =
        Bridges::with_environment(workers, ports.environment().clone(), config.defaults());
    // What is wrong with the address is told while another process still has the ports.
    let bind = if config.take_over.is_some() { Bind::WhenFree } else { Bind::Now };
    let tls = |address| start::tls_for_readers(&config, address);
    let metrics = metrics::serve(config.metrics, &bridges, bind, tls)?;
    let page =
        page::serve(config.page.as_ref(), &bridges, bind, answers(&bridges, None, None), || {
            start::tls_of(&config)
        })?;
    let exporter = Exporter::start(config.otlp.as_ref(), &bridges)?;
    let switch = begun.switch().clone();
    signals.of(&switch);
    if let Some(bound) = config.watchdog {
        guard::watch(&switch, bound).map_err(Failure::bad)?;
    }
    services::add_given(&switch, &config.services)?;
    switch.set_polling(config.poll);
    // What comes before the files' entries are in place waits.
    switch.set_receiving(false);
    if let Some(path) = &config.log_changes {
        logging::keep_changes(&switch, path)
            .map_err(|e| Failure::Bad(format!("--log-changes {}: {e}", path.display())))?;
    }
    let wake = signals.waker().map_err(Failure::bad)?;
    let handover = Arc::new(Handover::new(wake));
    let reload = Arc::new(Reload::new(options, &config, &setup, bridges.clone()));
    let starting = Starting {
        reload: &reload,
        switch: &switch,
        config: &config,
        ports: &ports,
        setup: &setup,
        bridges: &bridges,
        doors: &doors,
        handover: &handover,
    };
    let Ready { controllers, server, described } = match &config.take_over {
        Some(path) => starting.take_over(path, begun)?,
        None => starting.start(begun)?,
    };
    if let Some(state) = &mut state {
        state.begin(&switch)?;
    }
    let fleet = config.fleet.as_ref().map(|begun| (begun, Fleet::view(begun)));
    if let Some((_, view)) = &fleet {
        bridges.configured_by(view.clone());
    }
    if let Some(settings) = &config.replication {
        bridges.join(Replication::start(settings, &bridges)?);
    }
    switch.set_receiving(true);
    let mut listeners: Vec<String> = controllers.iter().flat_map(|one| one.listening()).collect();
    listeners.extend(metrics.iter().map(|s| format!("metrics:{}", s.address())));
    listeners.extend(page.iter().map(|s| format!("http:{}", s.address())));
    let paths = server.iter().flat_map(Servers::paths);
    listeners.extend(paths.map(|path| format!("ctl:{}", path.display())));
    let writing = match (&state, config.state_interval) {
        (Some(state), Some(interval)) => Some(state.write_every(&switch, interval)?),
        _ => None,
    };
    let health = Health::start(&bridges)?;
    let status = format!("ready ports {} listening {}", words(&described), words(&listeners));
    logging::say(&format!("millrace: {status}"));
    supervisor::ready(&status);
    controllers.iter().for_each(|one| one.advise());
    let fleet = match &fleet {
        Some((begun, view)) => Some(Fleet::start(begun, &reload, view)?),
        None => None,
    };
    signals.on_hangup(move || {
        supervisor::reloading();
        let applied = reload.apply(None, None);
        supervisor::reloaded(match &applied {
            Ok(_) => "the configuration was applied",
            Err(_) => "the configuration was not applied: the log says why",
        });
        if let Err(why) = applied {
            tracing::error!("SIGHUP: {why}");
        }
    });
    signals.wait();
    tracing::info!("stopping");
    if !handover.is_ending() {
        supervisor::stopping();
    }
    drop((fleet, server, metrics, page, health, exporter));
    if let Some(group) = bridges.replication() {
        group.stop();
    }
    // Whoever has taken over writes the file from now on.
    drop(writing);
    let handed_over = handover.is_ending();
    if handed_over {
        handover.freed();
    }
    // Controllers first: who still talks to a switch must find it running.
    bridges.stop();
    signals.ended();
    match &state {
        Some(state) if !handed_over => state.end(&switch),
        _ => Ok(()),
    }
}

/// A process without bridges, for who makes them later.
#[derive(Clone, Debug)]
pub struct Empty {
    /// Worker threads.
    pub workers: usize,
    /// Their processors.
    pub cpus: Vec<usize>,
    /// Workers never sleep.
    pub poll: bool,
    /// What bridges have in common.
    pub defaults: Defaults,
    /// The control socket; the usual place, if none is named.
    pub ctl: Option<PathBuf>,
    /// The groups that may ask there.
    pub ctl_groups: Groups,
    /// Where metrics are served, and which.
    pub metrics: Option<MetricsAt>,
    /// Where logs and spans are sent.
    pub otlp: Option<OtlpAt>,
    /// TLS of metrics and the page.
    pub tls: Option<TlsFiles>,
    /// Where the page is served.
    pub page: Option<page::PageAt>,
}

/// Runs a process whose bridges are made by `begin`, or by who was begun there, until a signal ends it. What `begin` returns
/// is dropped before the bridges stop.
pub fn run_empty<T>(
    empty: Empty,
    begin: impl FnOnce(&Bridges) -> Result<T, Failure>,
) -> Result<(), Failure> {
    room::raise_descriptors();
    guard::panics_end_the_process();
    let signals =
        Signals::take().map_err(|e| Failure::Bad(format!("cannot wait for signals: {e}")))?;
    check_cpus(&empty.cpus)?;
    let asked = empty.ctl.is_some();
    let doors = Doors::new(empty.ctl.unwrap_or_else(default_path), empty.ctl_groups);
    if asked {
        doors.check(|_| None).map_err(|e| no_control_socket(&doors, &e))?;
    }
    let workers = Workers::start(empty.workers, &empty.cpus).map_err(Failure::bad)?;
    workers.set_polling(empty.poll);
    let bridges = Bridges::new(workers, empty.defaults);
    let tls = || empty.tls.as_ref().map(TlsFiles::server).transpose().map_err(Failure::bad);
    let metrics = metrics::serve(empty.metrics, &bridges, Bind::Now, |address| {
        let tls = tls()?;
        if tls.is_none() {
            start::warn_of_readers(address);
        }
        Ok(tls)
    })?;
    let page =
        page::serve(empty.page.as_ref(), &bridges, Bind::Now, answers(&bridges, None, None), tls)?;
    let exporter = Exporter::start(empty.otlp.as_ref(), &bridges)?;
    let began = begin(&bridges)?;
    let served =
        doors.open(None).and_then(|opened| opened.serve(|_| None, answers(&bridges, None, None)));
    let server = match served {
        Ok(server) => Some(server),
        Err(error) if asked => return Err(no_control_socket(&doors, &error)),
        Err(error) => {
            tracing::warn!(path = %doors.path().display(), %error, "no control socket");
            None
        }
    };
    let mut listening: Vec<String> =
        metrics.iter().map(|server| format!("metrics:{}", server.address())).collect();
    listening.extend(page.iter().map(|page| format!("http:{}", page.address())));
    let paths = server.iter().flat_map(Servers::paths);
    listening.extend(paths.map(|path| format!("ctl:{}", path.display())));
    let health = Health::start(&bridges)?;
    let status = format!("ready listening {}", words(&listening));
    logging::say(&format!("millrace: {status}"));
    supervisor::ready(&status);
    signals.wait();
    tracing::info!("stopping");
    supervisor::stopping();
    drop((server, metrics, page, health, exporter));
    drop(began);
    bridges.stop();
    signals.ended();
    Ok(())
}

/// A switch that starts, and what it is still to have.
struct Starting<'a> {
    reload: &'a Arc<Reload>,
    switch: &'a Switch,
    config: &'a Config,
    ports: &'a Ports,
    setup: &'a Setup,
    bridges: &'a Bridges,
    doors: &'a Doors,
    handover: &'a Arc<Handover>,
}

/// What a switch has when it is ready.
struct Ready {
    controllers: Controllers,
    server: Option<Servers>,
    /// Number and name of each port.
    described: Vec<String>,
}

impl Starting<'_> {
    /// As the only one.
    fn start(&self, begun: Box<dyn Begun + '_>) -> Result<Ready, Failure> {
        // No packet passes before its port's VLANs are known.
        let config = self.config;
        let waits = !config.vlans.is_empty()
            || !config.mirrors.is_empty()
            || !config.bonds.is_empty()
            || config.learning != Learning::default();
        if waits {
            self.switch.set_receiving(false);
        }
        let described = self.ports.add(self.switch, OpenedPorts::default())?;
        let controllers = self.controlled(begun, || Ok(()))?;
        if waits {
            self.switch.set_receiving(true);
        }
        let server = match self.opened(self.doors.open(None))? {
            Some(opened) => Some(self.serve(opened)?),
            None => None,
        };
        self.switch.sync();
        Ok(Ready { controllers, server, described })
    }

    /// In the place of the switch behind this control socket. If something fails, that one goes on.
    fn take_over(&self, path: &Path, begun: Box<dyn Begun + '_>) -> Result<Ready, Failure> {
        // The files' entries are not used where those of the running switch are, and must be right all the same.
        begun.check(&self.ports.names())?;
        let config = self.config;
        if [&config.flows, &config.groups, &config.meters].iter().any(|files| !files.is_empty()) {
            tracing::info!(
                "--flows, --groups and --meters are right, and not used: entries come from the running switch"
            );
        }
        let mut opened = OpenedPorts::default();
        self.ports.open(Opening::Early, &mut opened)?;
        let mut running = Running::begin(path)?;
        let mut switches = vec![self.switch.clone()];
        match self.taken(path, &mut running, opened, begun, &mut switches) {
            Ok((mut ready, paused)) => {
                switches.iter().for_each(|switch| switch.set_receiving(true));
                paused.over();
                let counted = running.ended();
                let taken = counted::take(&counted, |name, take| {
                    // The only one of a process that hands over one has perhaps no name.
                    let bridge = self.bridges.bridge(name).ok().or_else(|| self.bridges.first());
                    let Some(bridge) = bridge else { return };
                    let openflow = bridge.openflow();
                    let mut agent = openflow.as_ref().map(|openflow| openflow.agent());
                    take(bridge.switch(), agent.as_deref_mut());
                });
                if let Err(error) = taken {
                    tracing::warn!(error, "counters begin anew");
                }
                // Nobody can go back any more: what fails now is told, and the switch runs. The other one
                // has removed its own socket by now, and cannot take ours for it.
                if let Some(Err(error)) = ready.server.as_mut().map(Servers::settle) {
                    let path = self.doors.path().display();
                    tracing::error!(%path, %error, "the control socket has not come to its place");
                }
                Ok(ready)
            }
            Err(failure) => {
                // What the running one takes back must be free before it learns that we have gone.
                for switch in &switches {
                    let numbers: Vec<u32> = switch.ports().iter().map(|port| port.number).collect();
                    if let Err(error) = switch.remove_ports(&numbers) {
                        tracing::warn!(%error, "ports are not closed");
                    }
                }
                drop(running);
                Err(failure)
            }
        }
    }

    /// Up to the word that the running one is no more needed.
    fn taken(
        &self,
        path: &Path,
        running: &mut Running<UnixStream>,
        mut opened: OpenedPorts,
        mut begun: Box<dyn Begun + '_>,
        switches: &mut Vec<Switch>,
    ) -> Result<(Ready, Paused), Failure> {
        let switch = self.switch;
        running.add_services(switch)?;
        // From here on controllers wait to be accepted.
        begun.take(running)?;
        let others = others::take(self.setup, self.bridges, running, switches)?;
        let doors = self.opened(self.doors.open(Some(path)))?;
        switch.sync();
        running.of_bridge(None);
        // A P4 program tracks none.
        let tracks = switch.services().connections().map(|_| switch);
        if let Some(switch) = tracks {
            running.connections(switch)?;
        }
        others.iter().try_for_each(|other| other.connections(running))?;
        running.of_bridge(None);
        let paused = running.stop(tracks)?;
        running.services(switch)?;
        begun.take_last(running)?;
        let sockets = opened.receive_by(self.ports, running.sockets()?);
        tracing::debug!(sockets, "received by from here on");
        let described = self.ports.add(switch, opened)?;
        let join = || others.into_iter().try_for_each(|other| other.join(running, self.bridges));
        let controllers = self.controlled(begun, join)?;
        let server = doors.map(|opened| self.serve(opened)).transpose()?;
        for switch in &*switches {
            switch.sync();
        }
        running.finish()?;
        Ok((Ready { controllers, server, described }, paused))
    }

    /// Those who program the switch go to work, which is the first bridge then; others join, and the rest is made.
    fn controlled(
        &self,
        begun: Box<dyn Begun + '_>,
        join: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Controllers, Failure> {
        let switches = self.bridges.switches();
        let first = begun.start(&switches)?;
        let controllers = controllers::join(self.config, self.switch, first, &switches)?;
        let first = self.config.bridge();
        let (switch, ports) = (self.switch.clone(), self.ports.configs());
        self.bridges.adopt(first, switch, controllers.clone(), ports).map_err(Failure::bad)?;
        join()?;
        // Settings of the process are what it has begun with: bridges are left.
        let setup = Setup { bridges: self.bridges.setup(), process: self.setup.process.clone() };
        for change in diff(&setup, self.setup) {
            let done = match change {
                Change::SetEntries { bridge, entries } => {
                    self.bridges.set_entries(&bridge, &entries, true)
                }
                change => self.bridges.apply(change),
            };
            done.map_err(Failure::bad)?;
        }
        Ok(controllers)
    }

    /// A control socket that was not asked for may be missing.
    fn opened(&self, doors: std::io::Result<Opened>) -> Result<Option<Opened>, Failure> {
        match doors {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if self.config.ctl.is_none() => {
                tracing::warn!(path = %self.doors.path().display(), %error, "no control socket");
                Ok(None)
            }
            Err(error) => Err(no_control_socket(self.doors, &error)),
        }
    }

    fn serve(&self, doors: Opened) -> Result<Servers, Failure> {
        let pulse = |name: &str| Some(self.switch.pulse(name));
        let answers = answers(self.bridges, Some(self.handover), Some(self.reload));
        self.handover.served_at(self.doors.path());
        doors.serve(pulse, answers).map_err(|e| no_control_socket(self.doors, &e))
    }
}

fn no_control_socket(doors: &Doors, error: &std::io::Error) -> Failure {
    Failure::Bad(format!("control socket {}: {error}", doors.path().display()))
}

fn words(list: &[String]) -> String {
    if list.is_empty() { "none".to_string() } else { list.join(",") }
}

/// What the control socket answers.
pub(crate) fn answers(
    bridges: &Bridges,
    handover: Option<&Arc<Handover>>,
    reload: Option<&Arc<Reload>>,
) -> impl Fn(Role, Request) -> Result<Reply<Value>, String> + Send + Sync + 'static {
    let (bridges, handover, reload) = (bridges.clone(), handover.cloned(), reload.cloned());
    move |role, request| {
        let named = request.bridge.as_deref();
        let bridge = match named {
            Some(name) => Some(bridges.bridge(name).map_err(|e| e.to_string())?),
            None => bridges.first(),
        };
        let mut at = At::of(&bridges, bridge.as_ref(), named.is_some(), handover.as_ref());
        at.reload = reload.as_ref();
        let answer = verbs::answer(&at, role, request);
        // What was changed is kept before it is told.
        bridges.flush_kept();
        answer
    }
}
