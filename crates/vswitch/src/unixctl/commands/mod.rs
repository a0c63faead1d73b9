//! What can be asked, a file for each family.

mod bond;
mod bridge;
mod coverage;
mod dpctl;
mod dpif;
mod exit;
mod fdb;
mod lacp;
mod list;
mod memory;
mod missing;
mod ofproto;
mod qos;
#[cfg(test)]
mod tests;
mod version;
mod vlog;

use crate::reconcile::Watch;
use crate::switch::Switch;
use crate::vlog::Levels;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// All that are there, by name.
pub fn all() -> Vec<&'static Command> {
    let families: [&[Command]; 14] = [
        bond::COMMANDS,
        bridge::COMMANDS,
        coverage::COMMANDS,
        dpctl::COMMANDS,
        dpif::COMMANDS,
        exit::COMMANDS,
        fdb::COMMANDS,
        lacp::COMMANDS,
        list::COMMANDS,
        memory::COMMANDS,
        ofproto::COMMANDS,
        qos::COMMANDS,
        version::COMMANDS,
        vlog::COMMANDS,
    ];
    let mut all: Vec<&Command> = families.into_iter().flatten().collect();
    all.sort_by_key(|command| command.name);
    all
}

/// The answer to a command, in the words of Open vSwitch where it is none.
pub fn answer(context: &Context, name: &str, words: &[String]) -> Answer {
    let Some(command) = all().into_iter().find(|command| command.name == name) else {
        context.counts.missing.fetch_add(1, Ordering::Relaxed);
        return Err(match missing::why(name) {
            Some(why) => format!("{name}: {why}"),
            None => format!(
                "\"{name}\" is not a valid command (use \"list-commands\" to see a list of valid commands)"
            ),
        });
    };
    if words.len() < command.min {
        return Err(format!("\"{name}\" command requires at least {} arguments", command.min));
    }
    if words.len() > command.max {
        return Err(format!("\"{name}\" command takes at most {} arguments", command.max));
    }
    (command.run)(context, words)
}

/// The bridges that are there.
fn bridges(context: &Context) -> Vec<String> {
    context.switch.bridges()
}

/// A bridge that must be there.
fn known<'a>(context: &Context, name: &'a str) -> Result<&'a str, String> {
    match bridges(context).iter().any(|bridge| bridge == name) {
        true => Ok(name),
        false => Err("no such bridge".to_owned()),
    }
}
