//! A P4 program's control, by name and by P4Runtime.

use super::gnmi;
use super::kind::Kind;
use crate::config::{Config, P4Runtime};
use crate::controller::{Begun, Controller, Switches};
use crate::failure::Failure;
use crate::persist::kept::{Kept, Opened, Owner};
use crate::program::host::{self, Host};
use crate::program::p4_file;
use crate::start;
use crate::sync::lock;
use crate::takeover::running::Running;
use p4_runtime::config::EMPTY;
use p4_runtime::device::{Device, Options};
use p4_runtime::server::Server;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
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
    /// What P4Runtime has of it, where that is served or changes are kept.
    device: Option<Arc<Device>>,
    /// None once the switch stops, or without P4Runtime.
    server: Mutex<Option<Server>>,
    kept: Option<Kept>,
}

impl P4 {
    /// The program.
    pub fn host(&self) -> MutexGuard<'_, Host> {
        lock(&self.host)
    }

    /// Does lines of `millrace p4 do`.
    pub fn commands(&self, text: &str) -> host::Done {
        match &self.device {
            Some(device) => device.commands(text),
            None => self.host().commands(text),
        }
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
        let server = lock(&self.server).take();
        drop(server);
    }
}

fn begin<'a>(
    config: &'a Config,
    workers: &Workers,
) -> Result<Option<Box<dyn Begun + 'a>>, Failure> {
    let (lowered, started_with) = match (&config.p4, &config.p4_runtime) {
        (None, None) => return Ok(None),
        (Some(path), None) if config.persist.is_none() => {
            (p4_file::compile(&p4_file::source(path))?, None)
        }
        (Some(path), _) => {
            let source = p4_file::source(path);
            let (lowered, info, text) = p4_file::compile_with_info(&source)?;
            (lowered, Some((info, text)))
        }
        // Until somebody pushes a program every frame is dropped.
        (None, Some(_)) => (p4_file::compile_text(Path::new("empty.p4"), EMPTY)?, None),
    };
    let opened = match &config.persist {
        Some(place) => Some(Opened::open(place, &config.bridge_name, Owner::P4)?),
        None => None,
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
    Ok(Some(Box::new(Program { host, config, started_with, opened })))
}

/// A switch of a P4 program that has begun.
struct Program<'a> {
    host: Host,
    config: &'a Config,
    /// The program's P4Info and text, for clients of P4Runtime.
    started_with: Option<(Vec<u8>, String)>,
    /// What was kept.
    opened: Option<Opened>,
}

/// What P4Runtime has of the program, with a CPU port of its own.
fn device(p4_runtime: &P4Runtime, host: &Arc<Mutex<Host>>) -> Result<Device, Failure> {
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
    let switch = lock(host).switch().clone();
    switch
        .add_port(Some(p4_runtime.cpu_port), Box::new(memory))
        .map_err(|e| Failure::Bad(format!("--cpu-port {}: {e}", p4_runtime.cpu_port)))?;
    let options = Options { device_id: p4_runtime.device_id };
    Ok(Device::new(options, host.clone(), Some(far)))
}

/// The server at its address.
fn serve(
    p4_runtime: &P4Runtime,
    config: &Config,
    device: Arc<Device>,
    switch: &Switch,
    switches: &Switches,
) -> Result<Server, Failure> {
    let tls = start::tls(config, p4_runtime.address)?;
    // Where P4Runtime is, gNMI is, too.
    let services = gnmi::beside(config, switch, switches)?;
    Server::start(p4_runtime.address, tls, device, services).map_err(Failure::bad)
}

impl Begun for Program<'_> {
    fn switch(&self) -> &Switch {
        self.host.switch()
    }

    fn check(&self, _: &[(String, u32)]) -> Result<(), Failure> {
        Ok(())
    }

    fn take(&mut self, _: &mut Running<UnixStream>) -> Result<(), Failure> {
        Err(Failure::usage("a switch that runs a P4 program takes nothing over"))
    }

    fn start(self: Box<Self>, switches: &Switches) -> Result<Arc<dyn Controller>, Failure> {
        let Program { mut host, config, started_with, mut opened } = *self;
        let is_kept = opened.as_ref().is_some_and(|opened| !opened.is_fresh());
        if let Some(path) = config.entries.as_ref().filter(|_| !is_kept) {
            host::read(&mut host, path)?;
        }
        let switch = host.switch().clone();
        let host = Arc::new(Mutex::new(host));
        let device = match (&config.p4_runtime, &opened) {
            (Some(p4_runtime), _) => Some(device(p4_runtime, &host)?),
            (None, Some(_)) => Some(Device::new(Options { device_id: 1 }, host.clone(), None)),
            (None, None) => None,
        };
        let device = device.map(Arc::new);
        if let (Some(device), Some((info, text))) = (&device, started_with) {
            device.started_with(&info, &text).map_err(|e| Failure::Bad(e.text))?;
        }
        let mut kept = None;
        if let (Some(device), Some(mut opened)) = (&device, opened.take()) {
            if is_kept {
                opened.put_back_p4(device)?;
            }
            kept = Some(opened.begin_p4(device)?);
        }
        let server = match (&config.p4_runtime, &device) {
            (Some(p4_runtime), Some(device)) => {
                Some(serve(p4_runtime, config, device.clone(), &switch, switches)?)
            }
            _ => {
                host::log_messages(&host)?;
                None
            }
        };
        Ok(Arc::new(P4 { host, switch, device, server: Mutex::new(server), kept }))
    }
}
