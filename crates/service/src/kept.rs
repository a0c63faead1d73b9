//! What services keep, as people see it.

use crate::conntrack::Connection;

/// A connection that an instance keeps, or a flow that it remembers.
#[derive(Debug, Clone)]
pub struct Kept {
    /// It.
    pub connection: Connection,
    /// The number of the backend that it was given.
    pub backend: Option<u16>,
}

/// What a backend was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Given {
    /// Its number, from 1.
    pub number: u16,
    /// Flows.
    pub flows: u64,
    /// Packets.
    pub packets: u64,
    /// Octets of them, of whole frames.
    pub octets: u64,
}
