//! `run --take-over`: a new process goes on where a running one is, for an upgrade.
//!
//! Both talk over the running one's control socket. The new one asks, a line each, and is answered in parts (a length
//! of 4 octets, then that much; 0 ends the answer):
//!
//! | line | answer |
//! |---|---|
//! | `bridges` | JSON: all bridges, with the services of each ([`told`]) |
//! | `entries` | OpenFlow 1.5 messages: its features, then meters, groups and flow entries as messages that add them |
//! | `program` | a P4 program and what clients have written, as a record of a [`journal`] |
//! | `connections` | an [image](service::conntrack::image) of the tracker |
//! | `changes` | an image of what has changed since |
//! | `stop` | the same, once packets have stopped, and what ports only one process may have are free |
//! | `services` | behind `stop`: what services keep ([`services`]) |
//! | `state` | behind `stop`: registers, counters and counts of meters of a P4 program, as a record |
//! | `sockets` | behind `stop`: what ports receive by, to go on with ([`sockets`]) |
//! | `finish` | what ports, entries, groups, meters and queues have counted ([`counted`]), once its control socket is free, too; without `stop` before it, what that answers |
//!
//! Behind a line's word stands the bridge that is meant (`entries br1`), but for `bridges`, `stop` and `finish`, which are of all.
//! The image behind `stop` is the first bridge's. Without a bridge the only one is meant. Bridges stop together: nothing new comes
//! in, then what is on its way between them goes on until nothing waits.
//!
//! Packets go on meanwhile in the running one, up to `stop`. Controllers are let go at the start, so that nothing is
//! programmed that the new one would not know of; they find the new one, whose sockets are open by then. The new one
//! does all that may fail before it says `finish`: what can be told without the running one before it asks at all, its
//! listeners before `stop`, the rest behind it. If it goes away before `finish`, the running one takes back what it has let
//! go, and goes on.
//!
//! The running one's answer to the request itself is `{"take_over": 6}`. With 5 it hands over no counters. With 4 it hands over one bridge of OpenFlow's tables. With 3 it knows no `services`. With 2 it knows no `sockets`: what comes between its
//! last frame and the new one's first is lost. With less it knows no `stop`: then there is no way back once `finish` is
//! said, which the new one says in its place.
//!
//! Not handed over: what meters have saved up, lookups of tables, and kept packets.
//!
//! Checked by: the fuzz target `take_over` ([`fuzz`](crate::fuzz)), also as a test; millrace's `tests/take_over.rs`
//! and `tests/take_over_bridges.rs`, with processes; `lab/take_over`, `lab/take_over_bridges`.
//!
//! | module | is |
//! |---|---|
//! | [`wire`] | parts of an answer |
//! | [`handover`] | how far the running process has come |
//! | [`own`] | the running process: what it hands over |
//! | [`running`] | the running process, as the new one sees it |
//! | [`services`] | what services keep |
//! | [`counted`] | counters of ports, queues, entries, groups and meters |
//! | [`told`] | what the running process says of its bridges |
//! | [`others`] | bridges beside the first, as the new one takes them |
//! | [`sockets`] | sockets that are handed over, with what waits in them |

pub(crate) mod counted;
pub(crate) mod handover;
pub(crate) mod others;
pub mod own;
pub mod running;
pub(crate) mod services;
pub(crate) mod sockets;
pub(crate) mod told;
pub(crate) mod wire;
