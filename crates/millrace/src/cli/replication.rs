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
    /// Another member is gone for good: free what it has claimed of a pool of ports (`stripes=pool`)
    Forget {
        /// Its name
        member: String,
    },
    /// Wait until a standby has all connections, as between two upgrades: exit status 0 if one has
    Wait {
        /// At most so long
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
        within: Duration,
    },
    /// Upgrade the members one after the other without losing a connection: drain, run a command there, wait until the group is protected
    Upgrade(UpgradeOrder),
}

/// `millrace replication upgrade`.
#[derive(Args, Debug, Clone)]
pub(crate) struct UpgradeOrder {
    /// Members, and the host of each if it has another name; standbys come first
    #[arg(required = true, value_name = "MEMBER[=HOST]", value_parser = member)]
    pub(crate) members: Vec<(String, String)>,
    /// What upgrades and restarts one member: a line of shell there, in which {member} is its name
    #[arg(long, value_name = "COMMAND")]
    pub(crate) by: String,
    /// How a line of shell is run at {host}: the line is the last argument
    #[arg(long, value_name = "COMMAND", default_value = "ssh {host}")]
    pub(crate) via: String,
    /// The millrace that asks a member, at its host; `--ctl` is a path there too, and may have {member} in it
    #[arg(long, value_name = "PROGRAM", default_value = "millrace")]
    pub(crate) program: String,
    /// Each wait takes at most so long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub(crate) within: Duration,
    /// Look at the members, and say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A member, and its host.
fn member(text: &str) -> Result<(String, String), String> {
    let (name, host) = text.split_once('=').unwrap_or((text, text));
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_".contains(&c))
    };
    match is_name(name) && !host.is_empty() && !host.starts_with('-') {
        true => Ok((name.to_owned(), host.to_owned())),
        false => Err("MEMBER or MEMBER=HOST was expected".to_owned()),
    }
}
