//! The server that is measured: a P4 program on a switch of one worker, served on loopback.

use super::requests::Requests;
use control::failure::Failure;
use p4::limits::Limits;
use p4_runtime::config::compile;
use p4_runtime::device::{Device, Options};
use p4_runtime::host::Host;
use p4_runtime::server::Server;
use prost::Message as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use switch::{EngineKind, Switch};

/// What it forwards by.
pub(super) const PROGRAM: &str = include_str!("program.p4");

/// The server that is measured, and its switch.
pub(super) struct Subject {
    pub(super) server: Server,
    pub(super) switch: Switch,
    pub(super) requests: Requests,
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.switch.stop();
    }
}

/// An address that is free.
pub(super) fn any() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Starts it.
pub(super) fn start() -> Result<Subject, Failure> {
    let bad = |fault: p4_runtime::code::Fault| Failure::Bad(fault.text);
    let built = compile(PROGRAM, Limits::default()).map_err(bad)?;
    let requests = Requests::of(&built.info)?;
    let config = |program| switch::Config {
        program,
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine: EngineKind::default(),
        validate: None,
    };
    let host = Host::begin(built.lowered, config, Switch::start).map_err(Failure::bad)?;
    let switch = host.switch().clone();
    let device = Device::new(Options { device_id: 1 }, Arc::new(Mutex::new(host)), None);
    device.started_with(&built.info.encode_to_vec(), PROGRAM).map_err(bad)?;
    let server = Server::start(any(), None, Arc::new(device), grpc::Services::default());
    Ok(Subject { server: server.map_err(Failure::bad)?, switch, requests })
}
