//! `millrace save`.

use super::To;
use clap::Args;
use std::path::PathBuf;

/// `millrace save`.
#[derive(Args, Debug)]
pub(crate) struct SaveOptions {
    /// Where millrace.toml, flows.txt, groups.txt and meters.txt come; a folder that is not there is made
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Replace files of these names
    #[arg(long)]
    pub(crate) force: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}
