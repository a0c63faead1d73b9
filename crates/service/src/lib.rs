//! Services on bursts of packets: what a pipeline calls and cannot express, since it needs state per
//! connection or looks at payloads (SoftFlow, USENIX ATC 2016).
//!
//! In: bursts of [`Packet`](packet::Packet)s, frames with the offsets that the pipeline has found, and
//! the time. Out: the packets, perhaps changed, and what the service says of each.
//!
//! | module | is |
//! |---|---|
//! | [`conntrack`] | connections: TCP, UDP, SCTP, ICMP and others, zones, marks, labels, limits |
//! | [`nat`] | translation of their addresses and ports, by pools |
//! | [`element`] | the interface: elements, instances, what a packet carries |
//! | [`simple`] | counter, no-op, memory walker, rate limiter, payload match, SoftFlow's firewall |
//! | [`neighbour`] | ARP and neighbour solicitations, answered |
//! | [`balance`] | load balancing: Maglev with weights, affinity, draining; eight buckets |
//! | [`transcode`] | AES on payloads: CBC with ciphertext stealing, GCM |
//! | [`sandbox`] | WebAssembly modules as elements: what they are handed, what of their answers is taken |
//! | [`catalogue`] | elements by kind and settings, as people write them |
//! | [`packet`] | what a service is handed |
//! | [`random`] | a small generator |
//!
//! Absences: no sockets, no threads, no clocks; nothing here knows OpenFlow or P4, or pipelines. Time
//! and randomness are arguments. No `unsafe` but in `pages`, which asks for large pages. Nothing panics on what a packet says.
//!
//! Invariants: memory is bounded by what a service was configured with; no call does work that grows
//! with what was held before it, unless its documentation says so.
//!
//! Checked by: model tests beside each module; `fuzz`; `lab/conntrack` against Linux. How fast:
//! `cargo run --release -p service --example figures`.

pub mod balance;
pub mod catalogue;
pub mod conntrack;
#[doc(hidden)]
pub mod craft;
pub mod element;
#[doc(hidden)]
pub mod fuzz;
mod hash;
mod kept;
pub mod nat;
pub mod neighbour;
pub mod packet;
mod pages;
pub mod random;
pub mod sandbox;
mod simd;
pub mod simple;
mod tracked;
pub mod transcode;
