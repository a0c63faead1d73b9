//! Ports whose frames pass by gRPC: `p4.bm.DataplaneInterface`, as test programs of bmv2 know it.
//!
//! In: numbers of ports and the memory ports of these names, an address. Out: a server. A frame of a client is received by the
//! port that it names; what the switch sends by any port goes to the client, one at a time. A frame that comes out has the id
//! of the request that it came in by, as long as the switch keeps its time of arrival: frames that it makes anew have id 0.
//!
//! Invariants: a port holds up nobody: what finds no client, or a client that does not read, is counted and told of once.
//! Bounded: frames that wait for the client, ids that are remembered.
//! Checked by: the tests here; `conformance/bmv2`, by bmv2's own tests.

mod ids;
mod ports;
mod proto;
mod service;

use crate::switch::ByGrpc;
use grpc::{Bind, Server, ServerError, Services};
use ports::Ports;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Why there is no data plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A memory port.
    #[error(transparent)]
    Port(#[from] port::Error),
    /// The socket.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The thread that takes what ports send.
    #[error("the data plane by gRPC does not start: {0}")]
    Thread(io::Error),
}

/// A server that runs until it is dropped. Ports are opened by their names after it has started.
pub struct Dataplane {
    server: Option<Server>,
    ports: Arc<Ports>,
    sending: Option<JoinHandle<()>>,
}

impl Dataplane {
    /// Serves these ports.
    pub fn start(by_grpc: &ByGrpc) -> Result<Dataplane, Error> {
        let ports = Arc::new(Ports::attach(&by_grpc.ports)?);
        let service = service::Dataplane::new(by_grpc.device_id, ports.clone());
        let services = Services::default()
            .with(proto::dataplane_interface_server::DataplaneInterfaceServer::new(service));
        let server =
            Server::start(by_grpc.address, "bmv2's data plane", Bind::Now, None, services)?;
        let taken = ports.clone();
        let thread = std::thread::Builder::new().name("bmv2-dataplane".into());
        let sending = thread.spawn(move || taken.send()).map_err(Error::Thread)?;
        Ok(Dataplane { server: Some(server), ports, sending: Some(sending) })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        self.server.as_ref().map(Server::address)
    }
}

impl Drop for Dataplane {
    fn drop(&mut self) {
        self.ports.end();
        drop(self.server.take());
        if self.sending.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the data plane by gRPC has panicked");
        }
    }
}
