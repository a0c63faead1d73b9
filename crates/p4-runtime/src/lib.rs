//! P4Runtime: a P4 program's control plane over gRPC.
//!
//! In: requests of clients ([`server`]), a program on a switch ([`host`]). Out: updates of that program in force on every
//! worker when a write is answered; entities, packets, digests and notifications to clients. Ids are those of the P4Info
//! that the client pushed, bound to the program by names.
//!
//! | module | holds |
//! |---|---|
//! | [`host`] | a P4 program on a switch, which text commands and this server share |
//! | [`device`] | what each request does; the order of checks; locks |
//! | [`arbitration`] | who may write: streams, roles, election ids |
//! | [`schema`] | a client's P4Info, bound to the program |
//! | [`config`] | forms of a program that a client may push |
//! | [`entity`] | what can be written and read, a file each |
//! | [`keeping`] | what outlives the process, as keys and values |
//! | [`packet`], [`digests`], [`streams`] | packet I/O, digests, what waits for a stream |
//! | `reference` | what entries refer to, and who refers to it |
//! | [`restriction`] | what entries have to keep to, as the program's annotations say |
//! | [`role`] | what a role may do, as its config says |
//! | [`translation`] | types that the client has other values of |
//! | [`canonical`], [`code`] | byte strings; canonical codes and errors of a batch |
//! | [`server`] | sockets, TLS, gRPC |
//! | [`proto`] | the messages |
//! | `wire` | writes as they come, looked through in place |
//!
//! Invariants: a write is answered when every worker forwards by it; what is refused changes nothing; a client that does
//! not read its stream loses its own notifications and holds up nobody.
//! Checked by: the tests of each module; `tests/model.rs`, three clients against a plain model; `tests/descriptors.rs`.

pub mod arbitration;
pub mod canonical;
pub mod code;
pub mod config;
pub mod device;
pub mod digests;
pub mod entity;
#[doc(hidden)]
pub mod fuzz;
pub mod host;
pub mod keeping;
pub mod packet;
pub mod proto;
mod reference;
pub mod restriction;
pub mod role;
pub mod schema;
pub mod server;
pub mod streams;
pub mod translation;
mod wire;
