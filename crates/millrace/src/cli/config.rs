//! What `millrace config` is told.

use super::to::To;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `millrace config`.
#[derive(Args, Debug)]
pub(crate) struct ConfigOptions {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Ask a fleet's store in place of a running switch:
    /// nats://HOST[:PORT]/GROUP [ca=FILE] [certificate=FILE] [key=FILE] [credentials=FILE]
    #[arg(long = "to", value_name = "PLACE", global = true, conflicts_with_all = ["ctl", "bridge"])]
    pub(crate) fleet: Option<String>,
    /// Wait so many seconds for what the members of a fleet say [default: 30]
    #[arg(long, value_name = "SECONDS", global = true, value_parser = seconds)]
    pub(crate) wait: Option<u64>,
    #[command(flatten)]
    pub(crate) to: To,
}

/// What to do with a configuration.
#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// Look at a file, and at the files that it names, without a switch
    Check {
        /// The file
        file: PathBuf,
    },
    /// Show what `apply` would change in a running switch
    Plan {
        /// The file [default: the one that the switch was started with]
        file: Option<PathBuf>,
    },
    /// Make a running switch what a file says, while packets pass
    Apply {
        /// The file [default: the one that the switch was started with]
        file: Option<PathBuf>,
        /// Undo it unless `millrace config confirm` comes within so many seconds: 60, or 60s
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        confirm_within: Option<u64>,
    },
    /// Keep what was applied last
    Confirm,
    /// Undo what was applied last
    Rollback,
    /// Show what was applied since the switch was started, or the versions of a fleet
    History,
    /// Show the members of a fleet: which version each has, since when, and why not another
    Status,
    /// Print a version of a fleet's configuration
    Show {
        /// Its number [default: the one that stands]
        number: Option<u64>,
    },
    /// Forget a member of a fleet that is no more
    Forget {
        /// Its name
        member: String,
    },
}

fn seconds(text: &str) -> Result<u64, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    digits.parse().map_err(|_| "a number of seconds was expected, as in 60 or 60s".to_owned())
}
