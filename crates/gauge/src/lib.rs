//! What does a switch really do? Drives the control channel and the data ports of any OpenFlow
//! switch together, and reports what it measured beside its own error.
//!
//! In: how to reach the switch ([`Peer`]), two [`DataPort`]s that are wired to it, [`Settings`] and
//! the names of [`MODULES`]. Out: a [`Report`], as a table or for a program to read. The idea, and
//! most of the questions asked, are those of OFLOPS (Rotsos et al., 2012) and OFLOPS-SUME (2018).
//!
//! | module | holds |
//! |---|---|
//! | [`control`] | the controller's end of the channel, messages stamped as they come |
//! | [`traffic`], [`interrupt`] | data ports; probes sent on schedule and captured; an end from outside |
//! | [`arrivals`], [`probe`], [`clock`] | when probes are due, what they look like, by which clock |
//! | [`expect`] | what a rule makes of a frame, and how what came out differs |
//! | [`latency`] | histograms; percentiles with confidence |
//! | [`describe`] | traffic by ranges of header fields, and from capture files |
//! | [`filter`], [`record`] | which frames are captured; a file of those that were |
//! | [`calibrate`] | what the instrument itself costs, by loop-back |
//! | [`module`] | the questions: one file for each |
//! | [`lua`], [`metrics`], [`snmp`] | questions of the user's own; the management channels that they can ask |
//! | [`bench`], [`settings`] | one switch on the bench: preparing it, repeating what was disturbed; what can be chosen |
//! | [`judge`], [`run`] | what a capture says; what a run is |
//! | [`session`] | calibration, the modules in their order, the end |
//! | [`report`], [`verdict`] | results, thresholds, the table; what a module comes to |
//! | [`advice`] | what a calibration says of this machine |
//! | [`stored`] | a report read back from its file |
//! | [`page`], [`plot`] | reports as a page of plots and tables |
//! | [`compare`], [`junit`] | two reports side by side; one for whoever guards a release |
//!
//! Holds true:
//! - Latency counts from when something was due, never from when a slow sender got to it.
//! - A run that was disturbed (slots missed, frames lost on our side) is repeated, and marked invalid
//!   if it stays so; no figure is averaged over such runs, and no accusation rests on lost captures.
//! - A finding says what a switch did, not what we failed to see: it needs probes *sent after* the
//!   event in question.
//!
//! Checked by: `tests/`, against millrace's own switch as it is (not accused) and behind a shim that
//! answers barriers early, drops, and miscounts (each found by its module).

pub mod advice;
pub mod arrivals;
pub mod bench;
pub mod calibrate;
pub mod clock;
pub mod compare;
pub mod control;
pub mod describe;
pub mod error;
pub mod expect;
mod figures;
pub mod filter;
pub mod interrupt;
pub mod judge;
pub mod junit;
pub mod latency;
pub mod lua;
pub mod metrics;
pub mod module;
mod pace;
pub mod page;
pub mod plot;
pub mod probe;
pub mod record;
pub mod report;
pub mod run;
pub mod session;
pub mod settings;
pub mod snmp;
pub mod stored;
mod stream;
pub mod traffic;
pub mod verdict;

pub use arrivals::Arrivals;
pub use bench::Bench;
pub use control::{Control, Peer};
pub use error::Error;
pub use filter::Filter;
pub use interrupt::Interrupt;
pub use module::{MODULES, Module};
pub use record::Recording;
pub use report::{Report, Threshold};
pub use run::Run;
pub use session::gauge;
pub use settings::Settings;
pub use stored::Stored;
pub use traffic::DataPort;
