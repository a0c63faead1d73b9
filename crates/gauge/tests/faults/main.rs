//! Planted faults are found, each by its module; an honest switch is not accused.
//!
//! The switch is millrace's own, on memory ports. The shim stands between it and the controller, and
//! lies as it is told; frames are lost by `port`'s fault injector.

mod counters;
mod disturbed;
mod ends;
mod frames;
mod honest;
mod lab;
mod path;
mod replies;
mod scripts;
mod sessions;
mod shim;
mod throughput;
mod updates;
