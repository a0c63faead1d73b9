//! Hands over requests of ARP and neighbour solicitations. One for an address that a service owns becomes its answer in its
//! place, which is to go back by the port that it came by.

/// Name of the service, which may write the packet.
pub const NAME: &str = "answers";
/// Results: whether it is an answer now.
pub const RESULTS: [(&str, u32); 1] = [("answered", 1)];
