//! A client of OVSDB, the database that Open vSwitch is configured by (RFC 7047, ovsdb-server(7)).
//!
//! In: where the server is, and which columns of which tables to follow. Out: a replica of these columns that is always
//! one committed state of the database, and the results of transactions.
//!
//! ```no_run
//! use ovsdb::{Client, Config, Datum, Transaction};
//! use std::time::Duration;
//!
//! let config = Config::new("unix:/run/openvswitch/db.sock".parse()?, "Open_vSwitch")
//!     .follow("Open_vSwitch", ["bridges", "next_cfg"])
//!     .follow("Bridge", ["name", "ports"]);
//! let client = Client::start(config)?;
//! let state = client.wait(0, Duration::from_secs(5));
//! for (uuid, row) in state.database.iter().flat_map(|db| db.rows("Bridge")) {
//!     println!("{uuid} {:?}", row.text("name"));
//! }
//! let mut transaction = Transaction::new();
//! transaction.comment("hello");
//! client.transact(transaction)?.wait(Duration::from_secs(5))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`value`] | atoms, sets and maps, from and to JSON (RFC 7047 §5.1) |
//! | [`schema`] | tables, columns and their types (§3.2) |
//! | [`remote`] | `unix:PATH`, `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]` |
//! | [`message`] | a stream of bytes as JSON-RPC messages, within bounds (§4) |
//! | [`database`] | the replica, and how notifications change it (§4.1.6, ovsdb-server(7) §4.1.13 to 4.1.15) |
//! | [`transaction`] | operations, and what the server answers to them (§5.2) |
//! | `session` | one connection: its handshake, monitors, lock, probes |
//! | [`client`] | the thread that keeps a session up, and the handle to it |
//!
//! The session asks for `monitor_cond_since` (after a lost connection only what has changed is sent again), then for
//! `monitor_cond`, then for RFC 7047's `monitor`, whichever the server knows.
//!
//! Invariants: a reader sees whole transactions only; what a server sends costs bounded memory and never panics; a
//! transaction whose answer was lost is told as lost, never as done; a reader that does not read costs nothing, since
//! there is one state and no queue of changes.
//! Checked by: unit tests; `tests/server.rs` against a real `ovsdb-server`; `tests/old_servers.rs` against one that plays
//! older servers and breaks off; the fuzz target `ovsdb`.

pub mod client;
pub mod database;
#[doc(hidden)]
pub mod fuzz;
pub mod message;
pub mod remote;
pub mod schema;
mod session;
pub mod transaction;
pub mod value;

pub use client::{Client, Config, State};
pub use database::{Database, Row};
pub use remote::Remote;
pub use schema::Schema;
pub use transaction::{Outcome, Transaction, TransactionError};
pub use value::{Atom, Datum, Uuid};
