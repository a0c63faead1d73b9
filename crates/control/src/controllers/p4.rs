//! A P4 program's control, by name and by P4Runtime.

use super::gnmi;
use super::kind::Kind;
use crate::config::{Config, P4Runtime};
use crate::controller::{Begun, Controller, Switches};
use crate::failure::Failure;
use crate::persist::kept::{Kept, Opened, Owner};
use crate::program::host::{self, Host};
use crate::program::p4_entries;
use crate::program::p4_file::{self, Loadable, P4Source};
use crate::start;
use crate::sync::lock;
use crate::takeover::running::Running;
use ::gnmi::Gnmi;
use ::p4::commands::{Place, place};
use grpc::Services;
use p4_runtime::config::EMPTY;
use p4_runtime::device::{Device, KeptPipeline, Options};
use p4_runtime::server::{Bound, Server};
use port::memory::Handle;
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use switch::{Switch, Workers};

pub(super) const KIND: Kind = Kind { begin, join: Kind::joins_nobody };

/// The CPU port's name.
const CPU: &str = "cpu";
/// What a frame at the CPU port may have behind its addresses, at most.
const CPU_MTU: u32 = 9000;

/// A P4 program that runs.
pub struct P4 {
    host: Arc<Mutex<Host>>,
    switch: Switch,
    /// What P4Runtime has of it.
    device: Result<Arc<Device>, String>,
    /// Lines keep to what the device has: P4Runtime is served, or changes are kept.
    guards: bool,
    /// None once the switch stops, while another takes its place, or without P4Runtime.
    server: Mutex<Option<Server>>,
    serving: Option<Serving>,
    kept: Option<Kept>,
}

/// How P4Runtime is served.
struct Serving {
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    device: Arc<Device>,
    /// Beside it.
    gnmi: Option<Gnmi>,
}

impl Serving {
    fn services(&self) -> Services {
        self.gnmi.iter().fold(Services::default(), |all, gnmi| all.with(gnmi.service()))
    }

    fn start(&self, bound: Option<Bound>) -> Result<Server, Failure> {
        let (tls, device, services) = (self.tls.clone(), self.device.clone(), self.services());
        match bound {
            Some(bound) => Server::start_bound(bound, tls, device, services),
            None => Server::start(self.address, tls, device, services),
        }
        .map_err(Failure::bad)
    }
}

impl p4_entries::Program for P4 {
    fn place(&self, line: &str) -> Result<Place, String> {
        let mut host = self.host();
        let (control, plane) = host.parts();
        place(control, plane, line)
    }

    fn run(&self, lines: &[String]) -> Result<(), (Option<usize>, String)> {
        match self.commands(&lines.join("\n")).wrong.into_iter().next() {
            Some(wrong) => Err((wrong.line.checked_sub(1), wrong.text)),
            None => Ok(()),
        }
    }
}

impl P4 {
    /// The program.
    pub fn host(&self) -> MutexGuard<'_, Host> {
        lock(&self.host)
    }

    /// The same, if nobody changes it right now.
    pub(crate) fn host_if_free(&self) -> Option<MutexGuard<'_, Host>> {
        match self.host.try_lock() {
            Ok(host) => Some(host),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Does lines of `millrace p4 do`.
    pub fn commands(&self, text: &str) -> host::Done {
        match &self.device {
            Ok(device) if self.guards => device.commands(text),
            _ => self.host().commands(text),
        }
    }

    /// Puts the program of a file in place of the one that runs.
    pub(crate) fn load(&self, source: &P4Source) -> Result<host::Loaded, String> {
        // It is compiled before anybody has to wait.
        let workers = self.host().workers();
        let (Loadable { lowered, info, config }, ms) = host::compile(source, workers)?;
        match &self.device {
            Ok(device) => device.load((lowered, ms), (&info, config)),
            Err(_) => self.host().load((lowered, ms)),
        }
    }

    /// What another process goes on with; why none can, if none can.
    pub(crate) fn device(&self) -> Result<&Arc<Device>, String> {
        let refused = |why: &String| format!("the P4 program is not handed over: {why}");
        self.device.as_ref().map_err(refused)
    }

    /// Lets go of P4Runtime's clients until [`resume`](Self::resume).
    pub(crate) fn pause(&self) {
        let server = lock(&self.server).take();
        drop(server);
    }

    /// Clients may come again.
    pub(crate) fn resume(&self) -> Result<(), Failure> {
        if let Some(serving) = &self.serving {
            let server = serving.start(None)?;
            *lock(&self.server) = Some(server);
        }
        Ok(())
    }
}

impl Controller for P4 {
    fn kept(&self) -> Option<Kept> {
        self.kept.clone()
    }

    fn listening(&self) -> Vec<String> {
        lock(&self.server).iter().map(|s| format!("p4runtime:{}", s.address())).collect()
    }

    fn connected(&self) -> Vec<String> {
        let streams = lock(&self.server).as_ref().map_or(0, |s| s.device().connected());
        vec!["P4Runtime".to_owned(); streams]
    }

    fn advise(&self) {
        if lock(&self.server).is_none() && start::entries(&self.switch) == 0 {
            tracing::warn!(
                "the program's tables have no entries: give some with --entries or `millrace p4 do`"
            );
        }
    }

    fn stop(&self) {
        self.pause();
    }
}

fn begin<'a>(
    config: &'a Config,
    workers: &Workers,
) -> Result<Option<Box<dyn Begun + 'a>>, Failure> {
    let (lowered, started_with) = match (&config.p4, &config.p4_runtime) {
        (None, None) => return Ok(None),
        (Some(path), _) => {
            let source = p4_file::source(path);
            let (lowered, info, text) = p4_file::compile_with_info(&source)?;
            (lowered, Some((info, text)))
        }
        // Until somebody pushes a program every frame is dropped.
        (None, Some(_)) => (p4_file::compile_text(Path::new("empty.p4"), EMPTY)?, None),
    };
    // What another process has is opened once that one has let go of it.
    let opened = match (&config.persist, &config.take_over) {
        (Some(place), None) => Some(Opened::open(place, &config.bridge_name, Owner::P4)?),
        _ => None,
    };
    if let (Some(opened), Some(path), Some((_, text))) = (&opened, &config.p4, &started_with) {
        opened.check_program(path, text)?;
    }
    let host = host::start_on(lowered, workers, |program| switch::Config {
        program,
        workers: config.workers,
        cpus: config.cpus.clone(),
        punt_rate: config.punt_rate,
        engine: config.engine.clone(),
        validate: config.validate,
    })?;
    let switch = host.switch().clone();
    let host = Arc::new(Mutex::new(host));
    Ok(Some(Box::new(Program { switch, host, config, started_with, opened, taken: None })))
}

/// A switch of a P4 program that has begun.
struct Program<'a> {
    switch: Switch,
    host: Arc<Mutex<Host>>,
    config: &'a Config,
    /// The program's P4Info and text, for clients of P4Runtime.
    started_with: Option<(Vec<u8>, String)>,
    /// What was kept.
    opened: Option<Opened>,
    /// What goes on that was taken from a running switch; clients wait to be accepted.
    taken: Option<(Arc<Device>, Option<Bound>)>,
}

/// A CPU port of a switch, and its far end.
fn cpu_port(p4_runtime: &P4Runtime, switch: &Switch) -> Result<Handle, Failure> {
    let (memory, far) = port::memory::port(
        CPU,
        port::memory::Config {
            mtu: CPU_MTU,
            // What comes out is complete: checksums filled in, segments apart.
            carries_offload: false,
            // Packets of controllers may be of any header, or none.
            shortest: 1,
            ..port::memory::Config::default()
        },
    )
    .map_err(Failure::bad)?;
    switch
        .add_port(Some(p4_runtime.cpu_port), Box::new(memory))
        .map_err(|e| Failure::Bad(format!("--cpu-port {}: {e}", p4_runtime.cpu_port)))?;
    Ok(far)
}

impl Program<'_> {
    /// What P4Runtime has of the program, with a CPU port of its own where it is served. Within, why the program's own P4Info
    /// does not fit it, where nobody needs that it does.
    fn device(&mut self) -> Result<Result<Arc<Device>, String>, Failure> {
        let (p4_runtime, host) = (&self.config.p4_runtime, self.host.clone());
        let cpu = p4_runtime.as_ref().map(|p4| cpu_port(p4, &self.switch)).transpose()?;
        let device_id = p4_runtime.as_ref().map_or(1, |p4_runtime| p4_runtime.device_id);
        let device = Device::new(Options { device_id }, host, cpu);
        if let Some((info, text)) = &self.started_with
            && let Err(fault) = device.started_with(info, text)
        {
            return match self.guards() {
                true => Err(Failure::Bad(fault.text)),
                false => Ok(Err(fault.text)),
            };
        }
        Ok(Ok(Arc::new(device)))
    }

    fn guards(&self) -> bool {
        self.config.p4_runtime.is_some() || self.config.persist.is_some()
    }
}

impl Begun for Program<'_> {
    fn switch(&self) -> &Switch {
        &self.switch
    }

    fn check(&self, _: &[(String, u32)]) -> Result<(), Failure> {
        Ok(())
    }

    fn take(&mut self, running: &mut Running<UnixStream>) -> Result<(), Failure> {
        let image = running.program()?;
        let failed = |why: &str| Failure::Bad(format!("--take-over: the running program: {why}"));
        if let (Some(path), Some((_, text))) = (&self.config.p4, &self.started_with) {
            let other = KeptPipeline::of(&image).map_err(|e| failed(&e.text))?;
            match other.filter(|running| running.config.p4_device_config != text.as_bytes()) {
                Some(other) if other.started => {
                    return Err(failed(&format!(
                        "it is another one than {} is now; replace it with `millrace p4 load`, and then take over",
                        path.display()
                    )));
                }
                Some(_) => tracing::warn!(
                    file = %path.display(),
                    "the program of the file is not used: the running one was pushed or loaded since its start"
                ),
                None => {}
            }
        }
        let device = self.device()?.map_err(|why| failed(&why))?;
        let told = device.take(&image).map_err(|e| failed(&e.text))?;
        tracing::info!(
            pipeline = told.pipeline,
            entities = told.entities,
            "a P4 program is taken over"
        );
        let address = self.config.p4_runtime.as_ref().map(|p4_runtime| p4_runtime.address);
        let bound = address.map(Server::bind).transpose().map_err(Failure::bad)?;
        self.taken = Some((device, bound));
        Ok(())
    }

    fn take_last(&mut self, running: &mut Running<UnixStream>) -> Result<(), Failure> {
        let Some((device, _)) = &self.taken else { return Ok(()) };
        let state = running.state()?;
        let done = device.take_state(&state);
        done.map_err(|e| {
            Failure::Bad(format!("--take-over: what packets have written: {}", e.text))
        })
    }

    fn start(self: Box<Self>, switches: &Switches) -> Result<Arc<dyn Controller>, Failure> {
        let mut this = *self;
        let config = this.config;
        let (mut bound, mut kept) = (None, None);
        let device = match this.taken.take() {
            Some((device, waiting)) => {
                bound = waiting;
                if let Some(place) = &config.persist {
                    let opened = Opened::open_after(place, &config.bridge_name, Owner::P4)?;
                    kept = Some(opened.begin_p4(&device)?);
                }
                Ok(device)
            }
            None => {
                let mut opened = this.opened.take();
                let is_kept = opened.as_ref().is_some_and(|opened| !opened.is_fresh());
                if let Some(path) = config.entries.as_ref().filter(|_| !is_kept) {
                    host::read(&mut lock(&this.host), path)?;
                }
                if !config.p4_lines.is_empty() && !is_kept {
                    let lines = config.p4_lines.join("\n");
                    host::tell(&mut lock(&this.host), Path::new("--entry"), &lines)?;
                }
                let device = this.device()?;
                if let (Ok(device), Some(mut opened)) = (&device, opened.take()) {
                    if is_kept {
                        opened.put_back_p4(device)?;
                    }
                    kept = Some(opened.begin_p4(device)?);
                }
                device
            }
        };
        let guards = this.guards();
        let Program { switch, host, .. } = this;
        let serving = match (&config.p4_runtime, &device) {
            (Some(p4_runtime), Ok(device)) => Some(Serving {
                address: p4_runtime.address,
                tls: start::tls(config, p4_runtime.address)?,
                device: device.clone(),
                // Where P4Runtime is, gNMI is, too.
                gnmi: gnmi::beside(config, &switch, switches)?,
            }),
            _ => {
                host::log_messages(&host)?;
                None
            }
        };
        let server = serving.as_ref().map(|serving| serving.start(bound.take())).transpose()?;
        let server = Mutex::new(server);
        Ok(Arc::new(P4 { host, switch, device, guards, server, serving, kept }))
    }
}
