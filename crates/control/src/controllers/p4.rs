//! A P4 program's control, by name.

use super::kind::Kind;
use crate::config::Config;
use crate::controller::{Begun, Controller};
use crate::failure::Failure;
use crate::program::host::{self, Host};
use crate::start;
use crate::sync::lock;
use crate::takeover::running::Running;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use switch::{Switch, Workers};

pub(super) const KIND: Kind = Kind { begin, join: Kind::joins_nobody };

/// A P4 program that runs.
pub struct P4 {
    host: Arc<Mutex<Host>>,
    switch: Switch,
}

impl P4 {
    /// The program.
    pub fn host(&self) -> MutexGuard<'_, Host> {
        lock(&self.host)
    }
}

impl Controller for P4 {
    fn advise(&self) {
        if start::entries(&self.switch) == 0 {
            tracing::warn!(
                "the program's tables have no entries: give some with --entries or `millrace p4 do`"
            );
        }
    }
}

fn begin<'a>(
    config: &'a Config,
    workers: &Workers,
) -> Result<Option<Box<dyn Begun + 'a>>, Failure> {
    let Some(path) = &config.p4 else { return Ok(None) };
    let host = Host::start_on(path, workers, |program| switch::Config {
        program,
        workers: config.workers,
        cpus: config.cpus.clone(),
        punt_rate: config.punt_rate,
        engine: config.engine.clone(),
        validate: config.validate,
    })?;
    Ok(Some(Box::new(Program { host, entries: config.entries.as_deref() })))
}

/// A switch of a P4 program that has begun.
struct Program<'a> {
    host: Host,
    entries: Option<&'a Path>,
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

    fn start(self: Box<Self>) -> Result<Arc<dyn Controller>, Failure> {
        let Program { mut host, entries } = *self;
        if let Some(path) = entries {
            host.read(path)?;
        }
        let switch = host.switch().clone();
        let host = Arc::new(Mutex::new(host));
        host::log_messages(&host)?;
        Ok(Arc::new(P4 { host, switch }))
    }
}
