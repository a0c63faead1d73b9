//! Modules of one's own, in Lua, without recompiling: the life cycle of OFLOPS as functions of a script.
//!
//! A script (Lua 5.4) sets `name` and `about` and defines what it needs of
//!
//! | function | is called | gives |
//! |---|---|---|
//! | `init(t)` | first | |
//! | `traffic(t)` | then | a table: `rate`, `probes`, `flows`, `size`, `random`, or `description`; none: no traffic |
//! | `filter(t)` | then | a table: `capture = true` for each probe that comes back, or an expression of tcpdump's for all frames that it passes; `messages = {"packet_in", ...}` |
//! | `start(t)` | when probes begin to flow | |
//! | `timer(t, id)` | when a time of `t:after` is over | |
//! | `message(t, m)` | for a message that the filter lets through | |
//! | `capture(t, p)` | for a probe, or frame, that came back | |
//! | `metrics(t, m)` | for the answer to `t:scrape` | |
//! | `snmp(t, v)` | for the answer to `t:snmp` | |
//! | `destroy(t)` | when all is over | |
//!
//! `t` is the measurement: `docs/gauge.md` lists what it can. Everything runs in one thread, in the order in which
//! it happened; a script needs no locks. Messages are sent when the function that asked for them has returned.
//!
//! Holds true: a script cannot reach files, processes or the network but through `t`; one that does not return
//! within [`PATIENCE`] or takes more than [`MEMORY_MAX`] is stopped with an error, which it cannot catch; but for one that
//! has a pattern backtrack without end, which is one instruction. What it has us keep is bounded, too. Captures that came faster than
//! the script took them are counted, and the run is marked invalid.
//!
//! Checked by: the tests below and of `tests/`, which run the examples.

mod ask;
mod fuzz;
mod limits;
mod machine;
mod measurement;
mod script;

#[doc(hidden)]
pub use fuzz::fuzz;
pub use limits::{MEMORY_MAX, PATIENCE};
pub use script::Script;
