//! OpenFlow's pipeline: the rules of flow tables, groups and meters. [`of_lower`] makes IR of what they hold.
//!
//! In: messages of a controller, decoded ([`openflow::Message`]), and what the switch reports
//! (punts, digests, expired entries, port events). Out: answers or coded refusals, updates to the
//! [`switch::Switch`], and [`Event`]s for controllers. One [`Agent`] serves all connections of a
//! switch; which connection may ask for what is the channel's business.
//!
//! | module | holds |
//! |---|---|
//! | [`agent`] | the façade: dispatch of requests, and what happens in the switch |
//! | `stores` | what controllers asked for: |
//! | [`flow_table`], [`group_table`], [`meter_table`], [`ports`], `table_config` | a store each |
//! | [`emergency`] | 1.0's entries for when no controller is there: a store of its own |
//! | `transaction` | requests applied to the stores: one, or those of a bundle |
//! | `flow_mod`, `group_mod`, `meter_mod`, `port_mod`, `packet_out` | what each kind of request does |
//! | `entries` | how flow entries come, change and go |
//! | `observers` | what follows entries that come and go: `users`, `orphans`, `admission`, `trigger`, `relearning` |
//! | `conjunction`, `reflection` | entries that stand beside others: choices, and those of synchronised tables |
//! | `stage` | updates of the switch, all or none |
//! | [`bundle`] | requests that happen together |
//! | [`validate`] | instructions and actions: what a table may be asked to do |
//! | [`normal`] | learning for NORMAL |
//! | [`vlans`] | VLANs of ports under NORMAL, mirrors |
//! | `punt`, `waiting`, `injections` | packets to controllers, and those that wait for one |
//! | `learning`, `learned` | entries that `learn` makes of packets |
//! | `carried` | counters and ages that come from another process |
//! | [`keeping`], `touched` | what outlives the process, and what of it has changed |
//! | [`monitor`] | who watches flow entries |
//! | `removed` | entries that go: expiry, flow-removed |
//! | `stats`, [`listing`], `features`, `counts`, `sizes` | multipart replies |
//! | `table_features` | what controllers set of tables |
//! | [`config`], [`synchronised`] | what the agent was configured with |
//! | `settings` | the switch's configuration: fragments, `miss_send_len`, misses, fail-standalone |
//! | [`refusal`], [`event`], `outbox` | coded errors; asynchronous messages |
//! | `fuzz`, `bed` | the bodies of fuzz targets, and the switch that they and the tests run on; for tests and under the feature `fuzz` |
//!
//! No module imports one that imports it. The stores know neither the agent nor requests.
//!
//! Invariants: a refused request changes nothing; every request is one transaction of the switch,
//! cascades included; what the store says is in the pipeline, is.

mod admission;
pub mod agent;
mod alike;
#[cfg(any(test, feature = "fuzz"))]
mod bed;
pub mod bundle;
mod carried;
pub mod config;
mod conjunction;
mod connections;
mod counts;
pub mod emergency;
mod entries;
mod env;
pub mod event;
mod features;
mod flow;
mod flow_mod;
pub mod flow_table;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod group_mod;
pub mod group_table;
mod injections;
pub mod keeping;
mod learned;
mod learning;
pub mod listing;
mod meter_mod;
pub mod meter_table;
pub mod monitor;
pub mod normal;
mod observer;
mod observers;
mod orphans;
mod outbox;
mod packet_out;
mod port_mod;
pub mod ports;
mod punt;
mod reflection;
pub mod refusal;
mod relearning;
mod removed;
mod settings;
mod sizes;
mod stage;
mod stats;
mod stores;
pub mod synchronised;
mod table_config;
mod table_features;
pub mod table_limits;
mod touched;
mod transaction;
mod trigger;
pub mod tunnels;
mod users;
pub mod validate;
pub mod vlans;
mod waiting;

pub use agent::{Agent, AgentError};
pub use alike::SharedInstructions;
pub use bundle::BundleFault;
pub use config::AgentConfig;
pub use event::Event;
pub use learned::Learning;
pub use of_lower as lower;
pub use refusal::Refusal;
pub use synchronised::Synchronised;

#[cfg(test)]
mod tests;
