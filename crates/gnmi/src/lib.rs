//! gNMI: a switch's ports as OpenConfig interfaces, over gRPC.
//!
//! In: requests of clients ([`server`]), a switch. Out: what its ports are and count, as answers and as streams; ports put
//! up and down. The paths that there are stand in [`schema`], a row for each leaf.
//!
//! | module | holds |
//! |---|---|
//! | [`schema`] | leaves, nodes above them, models, types of data |
//! | [`interface`] | ports at one moment |
//! | [`path`] | paths of requests, resolved; paths of answers |
//! | [`value`], [`tree`] | values in each encoding, nodes as updates |
//! | [`get`](mod@get), [`set`](mod@set), [`subscribe`] | what each request does |
//! | [`fault`] | codes and sentences of refusals |
//! | [`server`] | gRPC |
//! | [`proto`] | the messages |
//!
//! Invariants: what is refused changes nothing; a client that does not read its stream loses its own values, learns how
//! many, and holds up nobody.
//! Bounded: streams, subscriptions of a list, leaves of a stream, paths of a request, leaves of an answer, its bytes.
//! Checked by: the tests of each module; `tests/streams.rs`, streams of a running switch; `tests/descriptors.rs`; the fuzz
//! target `gnmi`.

pub mod fault;
#[doc(hidden)]
pub mod fuzz;
pub mod get;
pub mod interface;
pub mod path;
pub mod proto;
pub mod schema;
pub mod server;
pub mod set;
pub mod subscribe;
pub mod tree;
pub mod value;

pub use server::Gnmi;
