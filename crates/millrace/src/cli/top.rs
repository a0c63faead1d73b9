//! What `millrace top` is told.

use super::to::To;
use crate::top::Page;
use clap::Args;
use std::num::NonZeroU32;

/// `millrace top`.
#[derive(Args, Debug)]
pub(crate) struct TopOptions {
    /// The page to begin with
    #[arg(value_enum, default_value_t)]
    pub(crate) page: Page,
    /// Seconds between two readings
    #[arg(long, short, value_name = "SECONDS", default_value = "1")]
    pub(crate) interval: NonZeroU32,
    /// Print the page so many times as text, without keys, for scripts
    #[arg(long, short, value_name = "TIMES")]
    pub(crate) batch: Option<NonZeroU32>,
    #[command(flatten)]
    pub(crate) to: To,
}
