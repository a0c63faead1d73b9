//! What `millrace replication` is told.

use super::service::time;
use super::to::To;
use clap::{Args, Subcommand};
use std::time::Duration;

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
#[derive(Subcommand, Debug, Clone)]
pub(crate) enum ReplicationCommand {
    /// Show who is active, who lives, and whether connections are protected
    Show,
    /// Make this member active, whoever else is: that one becomes a standby when it hears of it
    Promote {
        /// This share; without it, all
        share: Option<String>,
    },
    /// Make this member a standby until it is promoted, whether another can go on or not
    Demote {
        /// This share; without it, all
        share: Option<String>,
    },
    /// Hand over to a standby that has all connections, without losing one
    Drain {
        /// This share; without it, all
        share: Option<String>,
    },
    /// After `drain`: get back the shares that prefer this member
    Rebalance,
    /// Wait until a standby has all connections, as between two upgrades: exit status 0 if one has
    Wait {
        /// At most so long
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
        within: Duration,
    },
}
