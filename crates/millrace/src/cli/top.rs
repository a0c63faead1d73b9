//! What `millrace top` is told.

use super::to::To;
use clap::{Args, ValueEnum};
use std::num::NonZeroU32;

/// `millrace top`.
#[derive(Args, Debug)]
pub(crate) struct TopOptions {
    /// The page to begin with
    #[arg(value_enum, default_value_t)]
    pub(crate) page: TopPage,
    /// Seconds between two readings
    #[arg(long, short, value_name = "SECONDS", default_value = "1")]
    pub(crate) interval: NonZeroU32,
    /// Print the page so many times as text, without keys, for scripts
    #[arg(long, short, value_name = "TIMES")]
    pub(crate) batch: Option<NonZeroU32>,
    #[command(flatten)]
    pub(crate) to: To,
}

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopPage {
    /// Rates of each port, and its drops
    #[default]
    Ports,
    /// Flow entries, those with most packets a second first
    Flows,
    /// Lookups and hits of each table, and how it is looked up
    Tables,
    /// Drops by port and reason
    Drops,
    /// What workers spend their time on
    Workers,
    /// Connections of OpenFlow's ct
    Connections,
}
