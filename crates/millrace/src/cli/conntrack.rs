//! What `millrace conntrack` is told.

use super::to::To;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `millrace conntrack`.
#[derive(Args, Debug)]
pub(crate) struct ConntrackOptions {
    /// What to do; without it, show
    #[command(subcommand)]
    pub(crate) command: Option<ConntrackCommand>,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// Which connections, and how many.
#[derive(Args, Debug, Default)]
pub(crate) struct Chosen {
    /// Of this zone
    #[arg(long, value_name = "ZONE", global = true)]
    pub(crate) zone: Option<u16>,
    /// In this state: TCP's and SCTP's (established, syn_sent, ...), or replied, unreplied, assured, half_open
    #[arg(long, value_name = "STATE", global = true)]
    pub(crate) state: Option<String>,
    /// Of this protocol, by name or number
    #[arg(long, value_name = "PROTOCOL", global = true)]
    pub(crate) proto: Option<String>,
    /// The opener's address, or a prefix of it
    #[arg(long, value_name = "ADDRESS[/BITS]", global = true)]
    pub(crate) src: Option<String>,
    /// Where the opener's packets go
    #[arg(long, value_name = "ADDRESS[/BITS]", global = true)]
    pub(crate) dst: Option<String>,
    /// From this port, or to it
    #[arg(long, value_name = "PORT", global = true)]
    pub(crate) port: Option<u16>,
    /// With this ct_mark
    #[arg(long, value_name = "VALUE[/MASK]", global = true)]
    pub(crate) mark: Option<String>,
    /// Of this tracker alone: ct, or a service by its name
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) service: Option<String>,
    /// So many at most [default: 1000]
    #[arg(long, value_name = "N", global = true)]
    pub(crate) limit: Option<usize>,
    /// From where an earlier list has ended
    #[arg(long, value_name = "PLACE", global = true)]
    pub(crate) after: Option<String>,
    /// Count them by this in place of listing them
    #[arg(long, value_enum, value_name = "WHAT", global = true)]
    pub(crate) count_by: Option<CountBy>,
    /// Show them again every second
    #[arg(long, short, global = true)]
    pub(crate) watch: bool,
}

/// What connections are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CountBy {
    /// Their zone
    Zone,
    /// Their state
    State,
    /// Their protocol
    Proto,
    /// The tracker that knows them
    Service,
    /// The backend that a balancer has given them
    Backend,
}

/// What to do with connections.
#[derive(Subcommand, Debug)]
pub(crate) enum ConntrackCommand {
    /// Show connections, and what has happened
    Show,
    /// Forget them: those of ct, or of --service; all, or those of --zone
    Flush,
    /// Write an image of all of ct's to a file, while packets go on
    Export {
        /// The file; one that is there is replaced
        file: PathBuf,
    },
    /// Take over the connections of an image, but for those that the switch knows
    Import {
        /// The file, which the switch must be able to read
        file: PathBuf,
    },
}
