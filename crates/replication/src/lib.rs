//! Members of a group that go on for each other: who is active, what the others know of its connections, when one takes its place.
//!
//! In: heartbeats, messages of the group's stream, what its store says, that a member's socket has closed, and the time. Out:
//! [`Action`]s for whoever runs a [`Member`]: what to send, what to apply, when to forward and when to stop. No sockets,
//! threads or clocks; `control::replication` has those, with NATS as the engine.
//!
//! # The group
//!
//! One member is *active* and forwards; the others are *standbys*, which forward nothing and open nothing. An *epoch* is a number
//! that grows with each promotion and is in all that members say. Who hears of a higher one than his own is a standby from
//! then on. Three ways lead from member to member, and none rests on another:
//!
//! - **Heartbeats**, small UDP datagrams by one or more paths, each way each 10 ms. Three in a row that are missing on all paths mean that a
//!   member is dead. So does a closed socket: when a process ends, its kernel says so at once.
//! - **The stream**, by the engine: what becomes of connections ([`message`]), numbered. Records are whole states, so the same again does no harm.
//!   A gap makes a standby ask for all of them anew, and until it has them it is not *synchronised*: the group shows "unprotected".
//! - **The store**, by the engine: who is active, in which epoch, by compare and set. Promotion comes first and the store second, so that
//!   a store that is away keeps nobody from forwarding. Who loses the comparison is a standby again.
//!
//! # Why a false alarm harms nobody
//!
//! Two members that are active at once translate what exists alike: bindings never change, and each gives out ports of its own
//! stripes alone (`service::nat::Stripes`). The one of the lower epoch learns of the other by any of the three ways.
//!
//! The claim: *no connection older than L is lost, where L is the time of a batch, the engine and applying it.*
//!
//! # Shares
//!
//! A group may be divided into [shares](shares), each with an active member, an epoch and a stream of its own: so all members forward, each for
//! some shares. Each share prefers the members in an order of its own ([`placement`]); when a member that comes earlier has all connections,
//! the one that is active hands the share over to it, one share at a time.
//!
//! | module | holds |
//! |---|---|
//! | [`message`] | messages of the stream, as octets |
//! | [`heartbeat`] | heartbeats, as octets |
//! | [`member`] | the state machine |
//! | [`receiver`] | what a standby knows of the stream |
//! | [`placement`] | who is to have which share |
//! | [`pool`] | stripes of ports that are claimed in the store |
//! | [`shares`] | the state machines of all shares |
//! | [`store`] | what is kept in the engine's store |
//!
//! Checked by: `tests/simulation`, members, shares, store and stream under a virtual clock, with loss, delay, reordering, pauses,
//! partitions and crashes, and faults that are planted and found; the fuzz target `replication`.

mod bytes;
#[doc(hidden)]
pub mod fuzz;
pub mod heartbeat;
pub mod member;
pub mod message;
pub mod placement;
pub mod pool;
pub mod receiver;
pub mod shares;
pub mod store;

pub use heartbeat::Heartbeat;
pub use member::{Action, Config, Member, PeerView, Reason, Role, View};
pub use message::{Body, Message};
pub use receiver::Sync;
pub use shares::Shares;
pub use store::{Owner, Store};
