//! A command, and what commands work on.

use crate::reconcile::Watch;
use crate::switch::Switch;
use crate::vlog::Levels;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// An answer, or why there is none.
pub type Answer = Result<String, String>;

/// What commands work on.
pub struct Context {
    /// The switch.
    pub switch: Arc<dyn Switch>,
    /// How far the configuration has come.
    pub watch: Watch,
    /// Levels of the log.
    pub levels: Arc<Levels>,
    /// Opens the log's file anew, or closes it.
    pub log_file: Box<dyn Fn(LogFile) -> Answer + Send + Sync>,
    /// Ends the process.
    pub exit: Box<dyn Fn() + Send + Sync>,
    /// What `version` says.
    pub version: String,
    /// What was asked.
    pub counts: Counts,
}

/// What is done with the log's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFile {
    /// Opened anew, as after it was moved away.
    Reopen,
    /// Closed.
    Close,
}

/// Requests.
#[derive(Debug, Default)]
pub struct Counts {
    /// All.
    pub received: AtomicU64,
    /// Of commands that are not there.
    pub missing: AtomicU64,
    /// Connections closed as there were too many.
    pub refused: AtomicU64,
}

/// A command.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Its arguments, for people.
    pub usage: &'static str,
    /// So many arguments at least.
    pub min: usize,
    /// And at most.
    pub max: usize,
    /// What it does.
    pub run: fn(&Context, &[String]) -> Answer,
}

/// The bridges that are there.
pub(super) fn bridges(context: &Context) -> Vec<String> {
    context.switch.bridges()
}

/// A bridge that must be there.
pub(super) fn known<'a>(context: &Context, name: &'a str) -> Result<&'a str, String> {
    match bridges(context).iter().any(|bridge| bridge == name) {
        true => Ok(name),
        false => Err("no such bridge".to_owned()),
    }
}
