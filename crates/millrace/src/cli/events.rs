//! What `millrace events` is told.

use super::to::To;
use clap::Args;

/// `millrace events`.
#[derive(Args, Debug)]
pub(crate) struct EventsOptions {
    /// Those that have this text in their message, a field or the part of the program that tells them
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Go on with those that follow
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// So many of the last ones
    #[arg(long, short = 'n', value_name = "N", default_value_t = control::verbs::events::LIMIT)]
    pub(crate) limit: usize,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}
