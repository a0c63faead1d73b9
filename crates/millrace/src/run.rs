//! `millrace run`: the switch, in the foreground, until a signal ends it ([`signals`](crate::signals)).

use crate::cli::RunOptions;
use crate::config::{Config, check_cpus};
use crate::ctl::{Place, Server};
use crate::image::State;
use crate::p4_host::Host;
use crate::ports::{Opened, Opening, Ports};
use crate::signals::Signals;
use crate::takeover::{Handover, Paused, Running};
use crate::{Failure, capture, ctl, guard, image, logging, query, room, start, takeover};
use datapath::services::Services;
use of_channel::{Bound, Channel};
use of_pipeline::{Agent, AgentConfig, Synchronised, lower};
use openflow::syntax::{self, Context};
use openflow::{Message, PortNo};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use switch::{EngineKind, Switch};

/// `millrace run`.
pub(crate) fn run(options: RunOptions) -> Result<(), Failure> {
    let config = Config::new(options)?;
    room::raise_descriptors();
    guard::panics_end_the_process();
    let signals =
        Signals::take().map_err(|e| Failure::Bad(format!("cannot wait for signals: {e}")))?;
    // All that can be wrong is looked at before anything is taken from anybody.
    check_cpus(&config.cpus)?;
    let ports = Ports::plan(&config)?;
    let place = Place {
        path: config.ctl.clone().unwrap_or_else(ctl::default_path),
        group: config.ctl_group,
    };
    if config.ctl.is_some() {
        let ours = config.take_over.as_deref().and_then(of_channel::unix::identity);
        place.check(ours).map_err(|e| no_control_socket(&place, &e))?;
    }
    config.channel.check().map_err(Failure::bad)?;
    let mut state = match &config.state {
        Some(path) => Some(State::open(path, config.take_over.is_none())?),
        None => None,
    };
    let (switch, host) = start_switch(&config)?;
    signals.of(&switch);
    if let Some(bound) = config.watchdog {
        guard::watch(&switch, bound).map_err(Failure::bad)?;
    }
    crate::services::add_given(&switch, &config.services)?;
    switch.set_polling(config.poll);
    // What comes before the files' entries are in place waits.
    switch.set_receiving(false);
    if let Some(path) = &config.log_changes {
        logging::keep_changes(&switch, path)
            .map_err(|e| Failure::Bad(format!("--log-changes {}: {e}", path.display())))?;
    }
    let wake = signals.waker().map_err(Failure::bad)?;
    let handover = Arc::new(Handover::new(wake, ports.clone()));
    let flows_max = config.flows_max.unwrap_or_else(room::flows);
    let begun = Begun { switch: &switch, config: &config, ports: &ports, place: &place, flows_max };
    let Ready { control, server, described } = match &config.take_over {
        Some(path) => begun.take_over(path, &handover)?,
        None => begun.start(host, &handover)?,
    };
    if let Some(state) = &mut state {
        state.begin(&switch)?;
    }
    switch.set_receiving(true);
    let mut listeners: Vec<String> = match &control {
        Side::OpenFlow(side) => lock(&side.channel)
            .iter()
            .flat_map(Channel::listening)
            .map(ToString::to_string)
            .collect(),
        Side::P4(_) => Vec::new(),
    };
    listeners.extend(server.iter().map(|s| format!("ctl:{}", s.path().display())));
    let writing = match (&state, config.state_interval) {
        (Some(state), Some(interval)) => Some(state.write_every(&switch, interval)?),
        _ => None,
    };
    logging::say(&format!(
        "millrace: ready ports {} listening {}",
        words(&described),
        words(&listeners)
    ));
    say_of(&switch, &control, &config);
    signals.wait();
    tracing::info!("stopping");
    drop(server);
    // Whoever has taken over writes the file from now on.
    drop(writing);
    let handed_over = handover.is_ending();
    if handed_over {
        handover.freed();
    }
    // Controllers first: who still talks to the switch must find it running.
    if let Side::OpenFlow(side) = &control {
        drop(lock(&side.channel).take());
    }
    switch.stop();
    signals.ended();
    match &state {
        Some(state) if !handed_over => state.end(&switch),
        _ => Ok(()),
    }
}

/// The switch with its program, and the P4 program's host.
fn start_switch(config: &Config) -> Result<(Switch, Option<Host>), Failure> {
    let engine = config.engine.clone();
    let (workers, cpus) = (config.workers, config.cpus.clone());
    let (punt_rate, validate) = (config.punt_rate, config.validate);
    let Some(path) = &config.p4 else {
        let connections = config.connections;
        let switch = start_with(workers, cpus, punt_rate, engine, validate, connections)?;
        return Ok((switch, None));
    };
    let host = Host::start(path, |program| switch::Config {
        program,
        workers,
        cpus,
        punt_rate,
        engine,
        validate,
    })?;
    Ok((host.switch().clone(), Some(host)))
}

/// A switch that has begun, and what it is still to have.
struct Begun<'a> {
    switch: &'a Switch,
    config: &'a Config,
    ports: &'a Ports,
    place: &'a Place,
    flows_max: u32,
}

/// What a switch has when it is ready.
struct Ready {
    control: Side,
    server: Option<Server>,
    /// Number and name of each port.
    described: Vec<String>,
}

impl Begun<'_> {
    /// As the only one.
    fn start(&self, host: Option<Host>, handover: &Arc<Handover>) -> Result<Ready, Failure> {
        let described = self.ports.add(self.switch, Opened::default())?;
        let control = match host {
            Some(mut host) => {
                if let Some(path) = &self.config.entries {
                    host.read(path)?;
                }
                let host = Arc::new(Mutex::new(host));
                crate::p4_host::log_messages(&host)?;
                Side::P4(host)
            }
            None => {
                let config = self.config;
                let agent = self.agent(config.datapath_id)?;
                let agent = Arc::new(Mutex::new(agent));
                let names = names(self.switch);
                load(&agent, &names, &config.flows, &config.groups, &config.meters)?;
                let side = OpenFlow::new(agent, self.channel());
                side.start(self.switch)?;
                Side::OpenFlow(side)
            }
        };
        let server = match self.place.open() {
            Ok(socket) => Some(self.serve(socket, &control, handover)?),
            Err(error) if self.config.ctl.is_none() => {
                tracing::warn!(path = %self.place.path.display(), %error, "no control socket");
                None
            }
            Err(error) => return Err(no_control_socket(self.place, &error)),
        };
        self.switch.sync();
        Ok(Ready { control, server, described })
    }

    /// In the place of the switch behind this control socket. If something fails, that one goes on.
    fn take_over(&self, path: &Path, handover: &Arc<Handover>) -> Result<Ready, Failure> {
        self.check_files()?;
        let mut opened = Opened::default();
        self.ports.open(Opening::Early, &mut opened)?;
        let mut running = Running::begin(path)?;
        match self.taken(path, &mut running, opened, handover) {
            Ok((mut ready, paused)) => {
                self.switch.set_receiving(true);
                paused.over();
                running.ended();
                // Nobody can go back any more: what fails now is told, and the switch runs. The other one
                // has removed its own socket by now, and cannot take ours for it.
                if let Some(Err(error)) = ready.server.as_mut().map(Server::settle) {
                    let path = self.place.path.display();
                    tracing::error!(%path, %error, "the control socket has not come to its place");
                }
                Ok(ready)
            }
            Err(failure) => {
                // What the running one takes back must be free before it learns that we have gone.
                let numbers: Vec<u32> =
                    self.switch.ports().iter().map(|port| port.number).collect();
                if let Err(error) = self.switch.remove_ports(&numbers) {
                    tracing::warn!(%error, "ports are not closed");
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
        mut opened: Opened,
        handover: &Arc<Handover>,
    ) -> Result<(Ready, Paused), Failure> {
        let (switch, config) = (self.switch, self.config);
        let id = |id| Some(config.datapath_id.unwrap_or(id));
        let mut agent = running.agent(|old| self.agent(id(old)))?;
        // From here on controllers wait to be accepted.
        let bound = Bound::open(self.channel()).map_err(Failure::bad)?;
        let has_place = of_channel::unix::identity(path).is_some()
            && of_channel::unix::identity(&self.place.path) == of_channel::unix::identity(path);
        let socket = match has_place {
            true => self.place.open_beside(),
            false => self.place.open(),
        };
        let socket = match socket {
            Ok(socket) => Some(socket),
            Err(error) if config.ctl.is_none() => {
                tracing::warn!(path = %self.place.path.display(), %error, "no control socket");
                None
            }
            Err(error) => return Err(no_control_socket(self.place, &error)),
        };
        switch.sync();
        running.connections(switch)?;
        let paused = running.stop(switch)?;
        let sockets = opened.receive_by(self.ports, running.sockets()?);
        tracing::debug!(sockets, "received by from here on");
        let described = self.ports.add(switch, opened)?;
        // The first packet may have to be flooded to them.
        agent.follow_ports();
        let side = OpenFlow::new(Arc::new(Mutex::new(agent)), self.channel());
        side.start_bound(switch, bound)?;
        let control = Side::OpenFlow(side);
        let server = socket.map(|socket| self.serve(socket, &control, handover)).transpose()?;
        switch.sync();
        running.finish()?;
        Ok((Ready { control, server, described }, paused))
    }

    /// The files' entries are not used where those of the running switch are, and must be right all the same.
    fn check_files(&self) -> Result<(), Failure> {
        let Config { flows, groups, meters, .. } = self.config;
        if flows.is_empty() && groups.is_empty() && meters.is_empty() {
            return Ok(());
        }
        let switch = start(1, Vec::new(), 1000, EngineKind::Interp, None)?;
        let agent = limited_agent(&switch, Some(1), &self.config.synchronised, self.flows_max)?;
        load(&Mutex::new(agent), &self.ports.names(), flows, groups, meters)?;
        switch.stop();
        tracing::info!(
            "--flows, --groups and --meters are right, and not used: entries come from the running switch"
        );
        Ok(())
    }

    /// An agent without entries.
    fn agent(&self, datapath_id: Option<u64>) -> Result<Agent, Failure> {
        limited_agent(self.switch, datapath_id, &self.config.synchronised, self.flows_max)
    }

    /// The way to controllers, within what there is room for.
    fn channel(&self) -> of_channel::Config {
        let mut config = self.config.channel.clone();
        let controllers = config.controllers.len() as u64 * (1 + u64::from(config.auxiliary));
        let ports = self.config.ports.len() as u64;
        config.connections_max = room::connections(config.connections_max, controllers, ports);
        config.bundles_bytes_max = room::bundles(self.flows_max);
        config
    }

    fn serve(
        &self,
        socket: ctl::Socket,
        side: &Side,
        handover: &Arc<Handover>,
    ) -> Result<Server, Failure> {
        let pulse = self.switch.pulse("ctl");
        let served = socket.serve(Some(pulse), answers(self.switch, side, handover));
        served.map_err(|e| no_control_socket(self.place, &e))
    }
}

fn no_control_socket(place: &Place, error: &std::io::Error) -> Failure {
    Failure::Bad(format!("control socket {}: {error}", place.path.display()))
}

/// Who programs the switch.
#[derive(Clone)]
enum Side {
    /// Controllers.
    OpenFlow(Arc<OpenFlow>),
    /// A P4 program's control.
    P4(Arc<Mutex<Host>>),
}

/// The OpenFlow agent and the way to controllers.
pub(crate) struct OpenFlow {
    pub(crate) agent: Arc<Mutex<Agent>>,
    /// None once the switch stops, or another takes its place.
    pub(crate) channel: Mutex<Option<Channel>>,
    config: of_channel::Config,
}

impl OpenFlow {
    fn new(agent: Arc<Mutex<Agent>>, config: of_channel::Config) -> Arc<OpenFlow> {
        Arc::new(OpenFlow { agent, channel: Mutex::new(None), config })
    }

    /// Controllers may come.
    pub(crate) fn start(&self, switch: &Switch) -> Result<(), Failure> {
        self.start_bound(switch, Bound::open(self.config.clone()).map_err(Failure::bad)?)
    }

    /// Those who have come may begin.
    fn start_bound(&self, switch: &Switch, bound: Bound) -> Result<(), Failure> {
        let channel = bound.start(switch.clone(), self.agent.clone());
        *lock(&self.channel) = Some(channel.map_err(Failure::bad)?);
        Ok(())
    }
}

/// Says what a user should know of a switch that is ready.
fn say_of(switch: &Switch, control: &Side, config: &Config) {
    match control {
        Side::OpenFlow(side) => {
            let entries = lock(&side.agent).flows().total().0;
            let channel = &config.channel;
            let by = start::Programmers {
                controllers: channel.controllers.len(),
                listeners: &channel.listeners,
                fail_mode: channel.fail_mode,
            };
            if let Some(text) = start::unprogrammed(entries, &by) {
                tracing::warn!("{text}");
            }
            start::warn_of_open(&channel.listeners);
        }
        Side::P4(_) if start::entries(switch) == 0 => {
            tracing::warn!(
                "the program's tables have no entries: give some with --entries or `millrace p4 do`"
            );
        }
        Side::P4(_) => {}
    }
}

fn words(list: &[String]) -> String {
    if list.is_empty() { "none".to_string() } else { list.join(",") }
}

/// A poisoned lock is taken all the same: what the command's locks guard changes in single steps, so
/// it is whole even if a thread of ours panicked over it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A running switch with OpenFlow's program and no ports.
pub(crate) fn start(
    workers: usize,
    cpus: Vec<usize>,
    punt_rate: u64,
    engine: EngineKind,
    validate: Option<u32>,
) -> Result<Switch, Failure> {
    start_with(workers, cpus, punt_rate, engine, validate, crate::conntrack::CONNECTIONS)
}

/// The same, of so many connections.
fn start_with(
    workers: usize,
    cpus: Vec<usize>,
    punt_rate: u64,
    engine: EngineKind,
    validate: Option<u32>,
    connections: usize,
) -> Result<Switch, Failure> {
    let (program, _) = lower::program(&lower::ProgramConfig::default());
    let program = Arc::new(program);
    let config = switch::Config { program, workers, cpus, punt_rate, engine, validate };
    let mut services = Services::default();
    services.track(crate::conntrack::config(connections));
    services.soft();
    Switch::start_with(config, services).map_err(Failure::bad)
}

/// The OpenFlow agent of a switch. Without a datapath id, one is made from the first port's address.
pub(crate) fn agent(switch: &Switch, datapath_id: Option<u64>) -> Result<Agent, Failure> {
    limited_agent(switch, datapath_id, &[], room::FLOWS_MOST)
}

/// The same, with tables that reflect others, and so many entries at most.
fn limited_agent(
    switch: &Switch,
    datapath_id: Option<u64>,
    synchronised: &[Synchronised],
    flows_max: u32,
) -> Result<Agent, Failure> {
    let from_port = || {
        let ports = switch.ports();
        let mac = ports.first().map_or([0, 0, 0, 0, 0, 1], |p| p.info.mac);
        mac.iter().fold(0, |id, byte| id << 8 | u64::from(*byte))
    };
    let datapath_id = datapath_id.unwrap_or_else(from_port);
    let synchronised = synchronised.to_vec();
    let config = AgentConfig { datapath_id, synchronised, flows_max, ..AgentConfig::default() };
    Agent::new(switch.clone(), config).map_err(Failure::bad)
}

/// A switch without ports that holds these files' entries, for looking into them.
pub(crate) fn offline(
    flows: &[PathBuf],
    groups: &[PathBuf],
    meters: &[PathBuf],
) -> Result<Switch, Failure> {
    let switch = start(1, Vec::new(), 1000, EngineKind::default(), None)?;
    let agent = Arc::new(Mutex::new(agent(&switch, Some(1))?));
    load(&agent, &[], flows, groups, meters)?;
    Ok(switch)
}

/// Names and numbers of a switch's ports.
fn names(switch: &Switch) -> Vec<(String, u32)> {
    switch.ports().into_iter().map(|p| (p.info.name, p.number)).collect()
}

/// Puts the files' meters, groups and flow entries into the switch, in this order, so that entries
/// find what they refer to.
pub(crate) fn load(
    agent: &Mutex<Agent>,
    ports: &[(String, u32)],
    flows: &[PathBuf],
    groups: &[PathBuf],
    meters: &[PathBuf],
) -> Result<(), Failure> {
    let resolve = |name: &str| ports.iter().find(|(n, _)| n == name).map(|(_, n)| PortNo(*n));
    let mut agent = lock(agent);
    for (what, paths) in [(Told::Meter, meters), (Told::Group, groups), (Told::Flow, flows)] {
        for path in paths {
            each_line(path, |line| tell(&mut agent, what, line, &resolve))?;
        }
    }
    Ok(())
}

/// What a line in `ovs-ofctl`'s syntax is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A meter to add.
    Meter,
    /// A group to add.
    Group,
    /// A flow entry to add.
    Flow,
}

/// Has an agent take a line, in the version that has all its words.
pub(crate) fn tell(
    agent: &mut Agent,
    what: Told,
    line: &str,
    ports: &dyn Fn(&str) -> Option<PortNo>,
) -> Result<(), String> {
    let read = |version| {
        let context = Context { version, ports };
        Ok(match what {
            Told::Meter => Message::MeterMod(syntax::parse_meter(line, &context)?),
            Told::Group => Message::GroupMod(syntax::parse_group(line, &context)?),
            Told::Flow => Message::FlowMod(syntax::parse_flow(line, &context)?),
        })
    };
    let (version, message) = syntax::in_a_version(read).map_err(|e| e.to_string())?;
    agent.handle(version, message).map(|_| ()).map_err(|e| e.to_string())
}

/// Calls `f` on every line of a file that is neither empty nor a comment, nor the head of a dump.
pub(crate) fn each_line(
    path: &Path,
    mut f: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Bad(format!("cannot read {}: {e}", path.display())))?;
    for (number, line) in crate::dump::lines(&text) {
        f(&line).map_err(|e| Failure::Bad(format!("{}:{number}: {e}", path.display())))?;
    }
    Ok(())
}

/// What the control socket answers.
fn answers(
    switch: &Switch,
    side: &Side,
    handover: &Arc<Handover>,
) -> impl Fn(ctl::Request) -> Result<ctl::Reply, String> + Send + Sync + 'static {
    let (switch, side, handover) = (switch.clone(), side.clone(), handover.clone());
    let of = side.clone();
    let controllers = move || {
        let Side::OpenFlow(side) = &of else { return "none".into() };
        let channel = lock(&side.channel);
        let connected = channel.as_ref().map_or_else(Vec::new, Channel::connected);
        let versions: Vec<&str> = connected.iter().map(|v| v.name()).collect();
        serde_json::Value::String(if versions.is_empty() {
            "none".into()
        } else {
            versions.join(", ")
        })
    };
    let noting = switch.clone();
    let answered = move |request| match (request, &side) {
        (ctl::Request::Capture(request), _) => capture::stream(&switch, request),
        (ctl::Request::ConntrackExport, _) => image::stream(&switch),
        (ctl::Request::TakeOver, Side::OpenFlow(side)) => {
            takeover::stream(&switch, side, &handover)
        }
        (ctl::Request::P4Do { text }, Side::P4(host)) => {
            Ok(ctl::Reply::Value(lock(host).commands(&text)))
        }
        (ctl::Request::P4Load { source }, Side::P4(host)) => {
            // The program is compiled before anybody has to wait.
            let workers = lock(host).workers();
            let lowered = Host::compile(&source, workers)?;
            lock(host).load(lowered).map(ctl::Reply::Value)
        }
        (request, _) => query::answer(&switch, &controllers, request).map(ctl::Reply::Value),
    };
    move |request| {
        let change = query::change(&request);
        let answered = answered(request);
        if let (Ok(_), Some((kind, verb, text))) = (&answered, change) {
            noting.note_change("ctl", kind, verb, || text);
        }
        answered
    }
}

/// A descriptor that is readable once SIGINT or SIGTERM came.
pub(crate) struct EndSignals(UnixStream);

/// From now on SIGINT and SIGTERM are what [`came`] tells, in place of ending the process.
pub(crate) fn signals() -> std::io::Result<EndSignals> {
    let (read, write) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(EndSignals(read))
}

/// Waits for SIGINT or SIGTERM, at most so long; says whether one came.
pub(crate) fn came(signals: &EndSignals, timeout: std::time::Duration) -> bool {
    use std::os::fd::AsFd;
    port::wait_readable(signals.0.as_fd(), timeout)
}
