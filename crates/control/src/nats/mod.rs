//! Clients of NATS: how a server is reached, by TLS and credentials. What goes over it is the group's stream and store
//! ([`replication`](crate::replication)), or a fleet's configuration ([`fleet`](crate::fleet)).
//!
//! They are behind the feature `replication-nats`. A build without it refuses groups and fleets where they are asked for.

#[cfg(feature = "replication-nats")]
mod client;

#[cfg(feature = "replication-nats")]
pub(crate) use client::{AGAIN, fault, options};

use crate::config::group::Server;

/// What a build without a client says.
pub(crate) const ABSENT: &str =
    "this millrace has no client of NATS: it was built without the feature replication-nats";

/// Whether a server can be reached as it is configured: this build has a client, and files of TLS and credentials can be read.
///
/// # Errors
/// What is wrong, without a secret.
#[cfg(feature = "replication-nats")]
pub(crate) fn check(server: &Server) -> Result<(), String> {
    options(server).map(drop)
}

/// The same of a build without a client.
#[cfg(not(feature = "replication-nats"))]
pub(crate) fn check(_: &Server) -> Result<(), String> {
    Err(ABSENT.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A build without a client says so; it is asked by `cargo test -p control --no-default-features`.
    #[test]
    fn only_a_build_with_a_client_reaches_a_server() {
        let checked = check(&Server::default());
        match cfg!(feature = "replication-nats") {
            true => assert_eq!(checked, Ok(())),
            false => assert!(checked.unwrap_err().contains("without the feature replication-nats")),
        }
    }
}
