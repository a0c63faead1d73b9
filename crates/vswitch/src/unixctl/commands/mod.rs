//! What can be asked, a file for each family.

mod bfd;
mod bond;
mod bridge;
mod command;
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
mod tunnel;
mod version;
mod vlog;

pub use command::{Answer, Command, Context, Counts, LogFile};

use std::sync::atomic::Ordering;

/// All that are there, by name.
pub fn all() -> Vec<&'static Command> {
    let families: [&[Command]; 16] = [
        bfd::COMMANDS,
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
        tunnel::COMMANDS,
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
