//! Metrics as text that Prometheus reads.
//!
//! In: families of metrics, samples of them with labels and values, histograms that other threads fill. Out: one text, in
//! Prometheus' format 0.0.4 or in OpenMetrics 1.0.
//!
//! | module | holds |
//! |---|---|
//! | [`family`] | what a family of metrics is: name, help, kind |
//! | [`format`](mod@format) | which of the two formats a client wants |
//! | [`text`] | families and samples, written down |
//! | [`histogram`] | durations, counted without a lock |
//!
//! Nothing here knows what is measured, and nothing allocates for a sample but the text itself.
//! Sources: Prometheus' exposition formats, OpenMetrics 1.0.0.
//! Checked by: unit tests; `lab/metrics`, with a real Prometheus and promtool.

pub mod family;
pub mod format;
pub mod histogram;
pub mod text;

pub use family::{Family, Kind};
pub use format::Format;
pub use histogram::Histogram;
pub use text::{Text, Value};
