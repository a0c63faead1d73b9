//! Controller connections: negotiation, roles, asynchronous messages, barriers.
//!
//! In: bytes from controllers, events from the [`Agent`](of_pipeline::Agent). Out: bytes to them.
//! Connections are made to controllers (`tcp:`, `tls:`) and accepted from them (`ptcp:`, `pssl:`,
//! `punix:`), several
//! at once; all see the same switch. What a message does to the pipeline is the agent's business;
//! here live the messages about the connection itself: hello, echo, roles, asynchronous
//! configuration, barriers.
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | `tcp:HOST[:PORT]`, `ptcp:[PORT][:ADDR]`, `punix:PATH` and others, read and printed |
//! | [`channel`] | the threads: connecting with backoff, accepting, stopping |
//! | [`tls`], [`keys`], `fresh` | keys and certificates: as used, as named, read anew when they change |
//! | `listener` | sockets to listen on |
//! | [`unix`] | UNIX sockets and their files |
//! | `shared` | what connections share: who is there, fail modes, spreading events, snooping |
//! | [`connection`] | one connection: bytes to messages, answers, probes |
//! | `request` | what to do with a message |
//! | `bundles` | messages that are done together or not at all |
//! | `changes` | what requests change, in the words of the log |
//! | `monitors` | flow monitors, and what they are told |
//! | `status` | what controllers are told of each other |
//! | [`contact`] | what has become of attempts to reach each controller |
//! | `bootstrap` | an authority that is believed once |
//! | `trouble` | controllers that are not reached, said now and then |
//! | `places` | how many may connect, in all and of each source |
//! | [`rate`] | limits of packet-ins |
//! | `queue` | what waits for one connection, bounded |
//! | `output` | bytes on their way to the peer |
//! | [`roles`] | who is master; which asynchronous messages each connection wants |
//!
//! Invariants: a barrier is answered after every worker forwards by all that came before it on its
//! connection, and after the asynchronous messages that this caused; every request is answered, if
//! only by an error; a peer that does not read costs bounded memory ([`connection`] says how much);
//! a connection that breaks in the middle of a message changes nothing but that connection.
//! Checked by: `tests/`, against a controller that speaks through [`openflow`]'s codec, and against
//! `ovs-ofctl` where that is installed.

mod bootstrap;
mod bundles;
mod changes;
pub mod channel;
pub mod config;
pub mod connection;
pub mod contact;
mod fresh;
pub mod keys;
mod listener;
mod monitors;
mod output;
mod places;
mod queue;
pub mod rate;
mod request;
pub mod roles;
mod shared;
mod status;
pub mod target;
pub mod tls;
mod trouble;
pub mod unix;
mod verifier;

pub use channel::{Bound, Channel};
pub use config::{ChannelError, Config, FailMode, Own};
pub use contact::{Contact, Phase};
pub use keys::{TlsError, TlsFiles};
pub use rate::Rate;
pub use target::{Listen, Target, TargetError};
