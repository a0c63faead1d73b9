//! How long changes take, counted since the start.

use metrics::Histogram;

/// Durations of what a switch does on its control side.
#[derive(Debug, Default)]
pub struct Timings {
    /// Transactions: from a request's updates to a new version of the pipeline.
    pub transactions: Histogram,
    /// Publications: from a version of the pipeline to one that workers may take up. Code that no packet may do without is
    /// made here.
    pub publications: Histogram,
    /// Work beside packets and changes: better code, rearranged tables.
    pub background: Histogram,
    /// Barriers: from when one is made until all workers forward by what came before it.
    pub barriers: Histogram,
}
