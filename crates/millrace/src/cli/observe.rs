//! What `millrace observe` is told.

use super::to::To;
use clap::Args;
use std::num::NonZeroU32;

/// `millrace observe`.
#[derive(Args, Debug)]
pub(crate) struct ObserveOptions {
    /// Those that a match takes, as flow entries have it: tcp,tp_dst=80 or in_port=1,arp
    #[arg(value_name = "MATCH")]
    pub(crate) filter: Vec<String>,
    /// Those alone that are dropped, or of which a copy is
    #[arg(long)]
    pub(crate) dropped: bool,
    /// Those alone that are dropped for this reason, as `millrace stats` calls it
    #[arg(long, value_name = "REASON")]
    pub(crate) reason: Option<String>,
    /// So many frames a second each worker looks at; below that it sees every one
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::new(control::verbs::observe::RATE).unwrap_or(NonZeroU32::MIN))]
    pub(crate) rate: NonZeroU32,
    /// Stop behind so many frames
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Show octets of each, too
    #[arg(long)]
    pub(crate) hex: bool,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}
