//! What `millrace replication` is told.

use super::to::To;
use clap::{Args, Subcommand};

/// `millrace replication`.
#[derive(Args, Debug)]
pub(crate) struct ReplicationOptions {
    /// What to do; without it, show
    #[command(subcommand)]
    pub(crate) command: Option<ReplicationCommand>,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// What to do with a group.
#[derive(Subcommand, Debug, Clone, Copy)]
pub(crate) enum ReplicationCommand {
    /// Show who is active, who lives, and whether connections are protected
    Show,
    /// Make this member active, whoever else is: that one becomes a standby when it hears of it
    Promote,
    /// Make this member a standby until it is promoted, whether another can go on or not
    Demote,
    /// Hand over to a standby that has all connections, without losing one
    Drain,
}
