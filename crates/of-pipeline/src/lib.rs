//! OpenFlow's pipeline: the rules of flow tables, groups and meters. [`of_lower`] makes IR of what they hold.
//!
//! In: messages of a controller, decoded ([`openflow::Message`]), and what the switch reports
//! (punts, digests, expired entries, port events). Out: answers or coded refusals, updates to the
//! [`switch::Switch`], and [`Event`]s for controllers. One [`Agent`] serves all connections of a
//! switch; which connection may ask for what is the channel's business.
//!
//! | module | holds |
//! |---|---|
//! | [`agent`] | the façade: dispatch of requests |
//! | [`flow_table`], `flow_mod` | flow entries: the store; add, modify, delete |
//! | [`validate`] | instructions and actions: what a table may be asked to do |
//! | [`group_table`], [`meter_table`] | groups and meters |
//! | [`ports`] | port descriptions and configuration; the groups of ALL and FLOOD |
//! | [`normal`] | learning for NORMAL |
//! | `punt`, `packet_out` | packets to and from controllers |
//! | `learning` | entries that `learn` makes of packets |
//! | [`monitor`] | who watches flow entries |
//! | `removed` | entries that go: expiry, flow-removed |
//! | `stats`, `features` | multipart replies |
//! | `table_config`, `table_features` | what controllers set of tables |
//! | [`emergency`] | 1.0's entries for when no controller is there |
//! | [`config`] | the switch's configuration: fragments, `miss_send_len`, misses, fail-standalone |
//! | [`synchronised`] | tables that reflect others |
//! | `transaction` | one request's updates, all or none |
//! | [`refusal`], [`event`] | coded errors; asynchronous messages |
//! | `fuzz`, `bed` | the bodies of fuzz targets, and the switch that they and the tests run on; for tests and under the feature `fuzz` |
//!
//! Invariants: a refused request changes nothing; every request is one transaction of the switch,
//! cascades included; what the store says is in the pipeline, is.

mod admission;
pub mod agent;
#[cfg(any(test, feature = "fuzz"))]
mod bed;
pub mod bundle;
pub mod config;
mod conjunction;
pub mod emergency;
pub mod event;
mod features;
mod flow_mod;
pub mod flow_table;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod group_table;
mod learning;
pub mod listing;
pub mod meter_table;
pub mod monitor;
pub mod normal;
mod packet_out;
pub mod ports;
mod punt;
pub mod refusal;
mod removed;
mod stats;
pub mod synchronised;
mod table_config;
mod table_features;
mod transaction;
mod trigger;
pub mod validate;
mod waiting;

pub use agent::{Agent, AgentConfig, AgentError};
pub use bundle::BundleFault;
pub use event::Event;
pub use learning::Learning;
pub use of_lower as lower;
pub use refusal::Refusal;
pub use synchronised::Synchronised;

#[cfg(test)]
mod tests;
