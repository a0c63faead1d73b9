//! gRPC services and pages at an address.
//!
//! In: an address, TLS's settings, [`Services`] by their names. Out: a [`Server`] that answers requests until it is
//! dropped. Nothing here knows what a service does.
//!
//! | module | holds |
//! |---|---|
//! | [`server`] | the socket, its thread, the end |
//! | [`services`] | which service answers a request |
//! | [`pages`] | what is read with HTTP/1.1: a path, a text |
//! | [`site`] | what browsers read: all paths, bodies, streams |
//! | [`wire`] | connections, with TLS or without |
//!
//! All connections run on one thread. Requests that may wait run on threads for blocking work
//! (`tokio::task::spawn_blocking`), so that none waits for another's compilation.
//! Bounded: connections, the time of a handshake, blocking threads. A service bounds its messages.

pub mod pages;
pub mod server;
pub mod services;
pub mod site;
pub mod wire;

pub use pages::{Asked, Page, Shown};
pub use server::{Bind, Bound, Server, ServerError};
pub use services::Services;
pub use site::Site;
