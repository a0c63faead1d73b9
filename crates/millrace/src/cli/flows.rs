//! What `millrace flows`, `groups` and `meters` are told.

use super::to::To;
use clap::{Args, ValueEnum};

/// `millrace flows`.
#[derive(Args, Debug)]
pub(crate) struct FlowsOptions {
    /// Those that this chooses, as ovs-ofctl dump-flows takes it: table=0,ip,nw_dst=10.0.0.0/8, cookie=1/-1, out_port=2
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// In this order; rate: those with most packets a second first, which takes a second
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: FlowOrder,
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = control::verbs::flows::LIMIT)]
    pub(crate) limit: usize,
    /// Show them again every second, with rates
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// An order of flow entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowOrder {
    /// By table, the highest priority first
    #[default]
    Table,
    /// Most packets first
    Packets,
    /// Most bytes first
    Bytes,
    /// Those that were hit last first
    Recent,
    /// Most packets a second first
    Rate,
}

/// `millrace groups`.
#[derive(Args, Debug)]
pub(crate) struct GroupsOptions {
    /// This one alone
    #[arg(value_name = "GROUP")]
    pub(crate) group: Option<u32>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// `millrace meters`.
#[derive(Args, Debug)]
pub(crate) struct MetersOptions {
    /// This one alone
    #[arg(value_name = "METER")]
    pub(crate) meter: Option<u32>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// How a list is shown.
#[derive(Args, Debug)]
pub(crate) struct Shown {
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = control::verbs::flows::LIMIT)]
    pub(crate) limit: usize,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}
