//! `millrace man DIR`: the manual pages, made of what `--help` is made of. For who packages it.

use crate::cli::Cli;
use clap::CommandFactory as _;
use control::failure::Failure;
use std::path::Path;

/// Writes a page for each command into the folder, which is made if it is not there.
pub(crate) fn man(folder: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Bad(format!("{}: {e}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder).map_err(failed)
}
