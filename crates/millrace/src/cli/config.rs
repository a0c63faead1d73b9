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
    /// Show what was applied since the switch was started
    History,
}

fn seconds(text: &str) -> Result<u64, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    digits.parse().map_err(|_| "a number of seconds was expected, as in 60 or 60s".to_owned())
}
