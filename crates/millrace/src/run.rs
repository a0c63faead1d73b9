//! `millrace run`: the switch, in the foreground, until SIGINT or SIGTERM.

use crate::cli::RunOptions;
use crate::config::{Config, RxRate};
use crate::p4_host::Host;
use crate::takeover::{Handover, Running};
use crate::{Failure, capture, ctl, image, logging, query, room, start, takeover};
use datapath::services::Services;
use of_channel::Channel;
use of_pipeline::{Agent, AgentConfig, Synchronised, lower};
use openflow::syntax::{self, Context};
use openflow::{Message, PortNo};
use port::Port;
use port::spec::{Kind, Spec};
use rustix::event::{PollFd, PollFlags};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use switch::{EngineKind, Switch};

/// `millrace run`.
pub(crate) fn run(options: RunOptions) -> Result<(), Failure> {
    let config = Config::new(options)?;
    room::raise_descriptors();
    let signals = signals().map_err(|e| Failure::Bad(format!("cannot wait for signals: {e}")))?;
    let engine = config.engine.clone();
    let host = match &config.p4 {
        Some(path) => Some(Host::start(path, |program| switch::Config {
            program,
            workers: config.workers,
            cpus: config.cpus.clone(),
            punt_rate: config.punt_rate,
            engine: engine.clone(),
            validate: config.validate,
        })?),
        None => None,
    };
    let switch = match &host {
        Some(host) => host.switch().clone(),
        None => {
            let (workers, cpus) = (config.workers, config.cpus.clone());
            let (rate, validate) = (config.punt_rate, config.validate);
            start_with(workers, cpus, rate, engine, validate, config.connections)?
        }
    };
    for line in &config.services {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        crate::services::add(&switch, &words)
            .map_err(|e| Failure::Bad(format!("--service {line:?}: {e}")))?;
    }
    switch.set_polling(config.poll);
    // What comes before the files' entries are in place waits.
    switch.set_receiving(false);
    if let Some(path) = &config.log_changes {
        logging::keep_changes(&switch, path)
            .map_err(|e| Failure::Bad(format!("--log-changes {}: {e}", path.display())))?;
    }
    let flows_max = config.flows_max.unwrap_or_else(room::flows);
    let (mut taken, mut paused) = (None, None);
    if let Some(path) = &config.take_over {
        let mut running = Running::begin(path)?;
        let id = |id| Some(config.datapath_id.unwrap_or(id));
        let synchronised = &config.synchronised;
        taken =
            Some(running.agent(|old| limited_agent(&switch, id(old), synchronised, flows_max))?);
        switch.sync();
        running.connections(&switch)?;
        paused = Some(running.finish(&switch)?);
    }
    let described = add_ports(&switch, &config)?;
    switch.set_queues(&config.queues).map_err(|e| Failure::Bad(format!("--queue: {e}")))?;
    if let Some(paused) = &paused {
        switch.set_receiving(true);
        paused.over();
    }
    let control = match host {
        Some(mut host) => {
            if let Some(path) = &config.entries {
                host.read(path)?;
            }
            let host = Arc::new(Mutex::new(host));
            crate::p4_host::log_messages(&host)?;
            Side::P4(host)
        }
        None => Side::OpenFlow(openflow(&switch, &config, taken, flows_max)?),
    };
    let wake = signals.waker().map_err(Failure::bad)?;
    let handover = Arc::new(Handover::new(wake));
    let server = control_socket(&switch, &control, &handover, config.ctl.as_deref())?;
    switch.sync();
    let restored = match &config.state {
        Some(path) if paused.is_none() => image::begin(&switch, path)?,
        _ => false,
    };
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
    logging::say(&format!(
        "millrace: ready ports {} listening {}",
        words(&described),
        words(&listeners)
    ));
    say_of(&switch, &control, &config);
    if restored && let Some(path) = &config.state {
        image::used(path);
    }
    wait(&signals);
    tracing::info!("stopping");
    drop(server);
    let handed_over = handover.is_ending();
    if handed_over {
        handover.freed();
    }
    // Controllers first: who still talks to the switch must find it running.
    if let Side::OpenFlow(side) = &control {
        drop(lock(&side.channel).take());
    }
    switch.stop();
    match &config.state {
        Some(path) if !handed_over => image::end(&switch, path),
        _ => Ok(()),
    }
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
    /// Controllers may come.
    pub(crate) fn start(&self, switch: &Switch) -> Result<(), Failure> {
        let channel = Channel::start(switch.clone(), self.agent.clone(), self.config.clone());
        *lock(&self.channel) = Some(channel.map_err(Failure::bad)?);
        Ok(())
    }
}

/// The agent, what the files put into it unless it was taken over, and the way to controllers.
fn openflow(
    switch: &Switch,
    config: &Config,
    taken: Option<Agent>,
    flows_max: u32,
) -> Result<Arc<OpenFlow>, Failure> {
    let agent = match taken {
        Some(agent) => Arc::new(Mutex::new(agent)),
        None => {
            let agent = limited_agent(switch, config.datapath_id, &config.synchronised, flows_max)?;
            let agent = Arc::new(Mutex::new(agent));
            load(&agent, switch, &config.flows, &config.groups, &config.meters)?;
            agent
        }
    };
    let mut config = config.channel.clone();
    let controllers = config.controllers.len() as u64 * (1 + u64::from(config.auxiliary));
    let ports = switch.ports().len() as u64;
    config.connections_max = room::connections(config.connections_max, controllers, ports);
    config.bundles_bytes_max = room::bundles(flows_max);
    let side = Arc::new(OpenFlow { agent, channel: Mutex::new(None), config });
    side.start(switch)?;
    Ok(side)
}

/// Opens the ports; number and name of each.
fn add_ports(switch: &Switch, config: &Config) -> Result<Vec<String>, Failure> {
    let mut described = Vec::new();
    let (mut placed, mut paced) = (0, 0);
    for spec in &config.ports {
        let mut port = open(spec, &config.dpdk)
            .map_err(|e| Failure::Bad(format!("port {}: {e}", spec.name())))?;
        for warning in &port.info().warnings {
            tracing::warn!(port = %port.info().name, "{warning}");
        }
        let name = spec.name().to_owned();
        let of = |port: &str| port == name || spec.number.is_some_and(|n| port == n.to_string());
        if let Some(RxRate { per_second, .. }) = config.rx_rates.iter().find(|r| of(&r.port)) {
            port = Box::new(port::pace::Paced::new(port, *per_second));
            paced += 1;
        }
        let here = config.rx_workers.iter().filter(|r| of(&r.port));
        let places: Vec<_> = here.map(|r| (r.queue, r.worker)).collect();
        placed += places.len();
        let number = switch
            .add_port_as(&name, spec.number, port, &places)
            .map_err(|e| Failure::Bad(format!("port {}: {e}", spec.name())))?;
        described.push(format!("{number}={name}"));
    }
    if placed < config.rx_workers.len() {
        return Err(Failure::usage(
            "--rx-worker names a port that --port does not: give its name, or the number that \
             NAME:NUMBER=SPEC gives it",
        ));
    }
    if paced < config.rx_rates.len() {
        return Err(Failure::usage(
            "--rx-rate names a port twice, or one that --port does not: give its name, or the number that \
             NAME:NUMBER=SPEC gives it",
        ));
    }
    Ok(described)
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
    load(&agent, &switch, flows, groups, meters)?;
    Ok(switch)
}

fn open(spec: &Spec, dpdk: &port_dpdk::Options) -> Result<Box<dyn Port>, port::Error> {
    match &spec.kind {
        Kind::AfXdp(xdp) => port_xdp::open(xdp),
        Kind::Dpdk(devargs) => port_dpdk::open(spec.name(), devargs, dpdk),
        _ => spec.open(),
    }
}

/// Puts the files' meters, groups and flow entries into the switch, in this order, so that entries
/// find what they refer to.
pub(crate) fn load(
    agent: &Mutex<Agent>,
    switch: &Switch,
    flows: &[PathBuf],
    groups: &[PathBuf],
    meters: &[PathBuf],
) -> Result<(), Failure> {
    let ports: Vec<(String, u32)> =
        switch.ports().into_iter().map(|p| (p.info.name, p.number)).collect();
    let resolve = |name: &str| ports.iter().find(|(n, _)| n == name).map(|(_, n)| PortNo(*n));
    let context = |version| Context { version, ports: &resolve };
    let text = |error: syntax::SyntaxError| error.to_string();
    let mut agent = lock(agent);
    let mut handle =
        |version, message| agent.handle(version, message).map(|_| ()).map_err(|e| e.to_string());
    for path in meters {
        each_line(path, |line| {
            let read = |version| syntax::parse_meter(line, &context(version));
            let (version, meter) = syntax::in_a_version(read).map_err(text)?;
            handle(version, Message::MeterMod(meter))
        })?;
    }
    for path in groups {
        each_line(path, |line| {
            let read = |version| syntax::parse_group(line, &context(version));
            let (version, group) = syntax::in_a_version(read).map_err(text)?;
            handle(version, Message::GroupMod(group))
        })?;
    }
    for path in flows {
        each_line(path, |line| {
            let read = |version| syntax::parse_flow(line, &context(version));
            let (version, flow) = syntax::in_a_version(read).map_err(text)?;
            handle(version, Message::FlowMod(flow))
        })?;
    }
    Ok(())
}

/// Calls `f` on every line of a file that is neither empty nor a comment.
fn each_line(path: &Path, mut f: impl FnMut(&str) -> Result<(), String>) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Bad(format!("cannot read {}: {e}", path.display())))?;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            f(line).map_err(|e| Failure::Bad(format!("{}:{number}: {e}", path.display())))?;
        }
    }
    Ok(())
}

/// The control socket: where told, or at the default place unless another switch has it.
fn control_socket(
    switch: &Switch,
    side: &Side,
    handover: &Arc<Handover>,
    path: Option<&Path>,
) -> Result<Option<ctl::Server>, Failure> {
    let place = path.map_or_else(ctl::default_path, Path::to_path_buf);
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
    let answer = move |request| {
        let change = query::change(&request);
        let answered = answered(request);
        if let (Ok(_), Some((kind, verb, text))) = (&answered, change) {
            noting.note_change("ctl", kind, verb, || text);
        }
        answered
    };
    match ctl::Server::start(&place, answer) {
        Ok(server) => Ok(Some(server)),
        Err(error) if path.is_none() => {
            tracing::warn!(path = %place.display(), %error, "no control socket");
            Ok(None)
        }
        Err(error) => Err(Failure::Bad(format!("control socket {}: {error}", place.display()))),
    }
}

/// A descriptor that is readable once SIGINT or SIGTERM came.
pub(crate) struct Signals(UnixStream, UnixStream);

impl Signals {
    /// What is written there ends [`wait`], too.
    pub(crate) fn waker(&self) -> std::io::Result<UnixStream> {
        self.1.try_clone()
    }
}

/// From now on SIGINT and SIGTERM end [`wait`], in place of the process.
pub(crate) fn signals() -> std::io::Result<Signals> {
    let (read, write) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(Signals(read, write))
}

/// Waits for SIGINT or SIGTERM.
pub(crate) fn wait(signals: &Signals) {
    let mut fds = [PollFd::new(&signals.0, PollFlags::IN)];
    while let Err(rustix::io::Errno::INTR) = rustix::event::poll(&mut fds, None) {}
}

/// Waits for SIGINT or SIGTERM, at most so long; says whether one came.
pub(crate) fn came(signals: &Signals, timeout: std::time::Duration) -> bool {
    use std::os::fd::AsFd;
    port::wait_readable(signals.0.as_fd(), timeout)
}
