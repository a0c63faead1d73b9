//! `millrace upgrade`.

use clap::Args;
use std::path::PathBuf;

/// `millrace upgrade`.
#[derive(Args, Debug)]
pub(crate) struct UpgradeOptions {
    /// The new binary [default: the file at the running one's path, which a package may have replaced]
    pub(crate) binary: Option<PathBuf>,
    /// Do nothing if the file is the one that runs
    #[arg(long)]
    pub(crate) if_changed: bool,
    /// If the file is the one that runs, apply the configuration file: what a service's reload does
    #[arg(long, conflicts_with = "binary")]
    pub(crate) or_reload: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Control socket of the running switch
    #[arg(long, value_name = "PATH")]
    pub(crate) ctl: Option<PathBuf>,
}
