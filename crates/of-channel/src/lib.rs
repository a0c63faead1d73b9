//! Controller connections: negotiation, roles, asynchronous messages, barriers.
//!
//! In: bytes from controllers, events from the [`Agent`](of_pipeline::Agent). Out: bytes to them.
//! Connections are made to controllers (`tcp:`) and accepted from them (`ptcp:`, `punix:`), several
//! at once; all see the same switch. What a message does to the pipeline is the agent's business;
//! here live the messages about the connection itself: hello, echo, roles, asynchronous
//! configuration, barriers.
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | `tcp:HOST[:PORT]`, `ptcp:[PORT][:ADDR]`, `punix:PATH`, read and printed |
//! | [`channel`] | the thread: connecting with backoff, listening, fail modes, spreading events |
//! | [`connection`] | one connection: bytes to messages, dispatch, answers, probes |
//! | [`roles`] | who is master; which asynchronous messages each connection wants |
//!
//! Invariants: a barrier is answered after every worker forwards by all that came before it on its
//! connection; an unanswered peer costs bounded memory ([`channel::BACKLOG_MAX`]); a connection that
//! breaks in the middle of a message changes nothing but that connection.

pub mod channel;
pub mod connection;
pub mod roles;
pub mod target;

pub use channel::{Channel, ChannelError, Config, FailMode};
pub use target::{Listen, Target, TargetError};
