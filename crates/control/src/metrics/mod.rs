//! Counters of all bridges for Prometheus, at `/metrics`.
//!
//! In: the bridges of the process. Out: a page in Prometheus' format or in OpenMetrics, made anew for each request. Each part
//! of the switch has a file: its families, and how their samples are read. No sample costs a packet anything: all is read
//! from counters that are there in any case.
//!
//! | file | tells |
//! |---|---|
//! | `process` | the program, its processor time, memory and descriptors |
//! | `ports`, `queues` | frames by port, drops by reason, egress queues |
//! | `workers` | how busy each worker is |
//! | `engine` | packets by what runs them, tables, how long changes take |
//! | `openflow` | flow entries, groups, meters, controllers |
//! | `entries` | the entries that are hit most, by option |
//! | `p4` | counters of P4 programs by name |
//! | `outside` | outside addresses and ports of translation |
//! | `persist` | what is kept over a restart |
//! | `connections` | the connection tracker |
//! | `backends` | backends of balancers, connections of services |
//! | `replication` | the group that the process is a member of |
//! | `fleet` | the configuration that comes from a store |
//! | `events` | what the control side counts, lines of the log that were lost |
//!
//! Bounded: `source::SERIES_MOST` groups, meters, cells of counters and outside addresses of a bridge have series of their own.
//! Checked by: the tests here; `lab/metrics`, with a real Prometheus and promtool.

mod backends;
mod connections;
mod engine;
mod entries;
mod events;
mod fleet;
mod openflow;
mod outside;
mod p4;
mod persist;
mod ports;
mod process;
mod queues;
mod replication;
mod source;
#[cfg(test)]
mod tests;
mod workers;

use crate::bridges::Bridges;
use crate::config::MetricsAt;
use crate::failure::Failure;
use grpc::{Asked, Bind, Server, Services, Shown};
use metrics::{Format, Text};
use rustls::ServerConfig;
use source::Source;
use std::net::SocketAddr;
use std::sync::Arc;

/// The parts of the page, in their order.
const PARTS: &[fn(&Source<'_>, &mut Text)] = &[
    process::tell,
    workers::tell,
    ports::tell,
    queues::tell,
    engine::tell,
    openflow::tell,
    entries::tell,
    p4::tell,
    connections::tell,
    outside::tell,
    backends::tell,
    persist::tell,
    replication::tell,
    fleet::tell,
    events::tell,
];

/// The page.
fn page(bridges: &Bridges, format: Format, entries: usize) -> String {
    let source = Source { bridges, all: bridges.all(), entries };
    let mut text = Text::new(format);
    PARTS.iter().for_each(|tell| tell(&source, &mut text));
    text.finish()
}

/// Serves the page at an address, if there is one. `tls` says whether with TLS.
pub(crate) fn serve(
    at: Option<MetricsAt>,
    bridges: &Bridges,
    bind: Bind,
    tls: impl FnOnce(SocketAddr) -> Result<Option<Arc<ServerConfig>>, Failure>,
) -> Result<Option<Server>, Failure> {
    let Some(MetricsAt { address, entries }) = at else { return Ok(None) };
    let bridges = bridges.clone();
    let show = move |asked: &Asked| {
        let format = Format::of(asked.accept.as_deref());
        Shown::new(format.content_type(), page(&bridges, format, entries))
    };
    let services = Services::default().with_page("/metrics", Arc::new(show));
    let server = Server::start(address, "metrics", bind, tls(address)?, services);
    server.map(Some).map_err(Failure::bad)
}
