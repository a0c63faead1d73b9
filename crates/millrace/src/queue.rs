//! `millrace queue`: egress queues of a running switch, shown and changed.

use crate::cli::{QueueCommand, QueueOptions};
use crate::show::show;
use control::client::ask;
use control::failure::Failure;
use control::verbs::queue::{Queue, setting};

/// `millrace queue`.
pub(crate) fn queue(options: QueueOptions) -> Result<(), Failure> {
    let (set, clear) = match options.command {
        None | Some(QueueCommand::Show) => (Vec::new(), Vec::new()),
        Some(QueueCommand::Set { settings }) => (settings, Vec::new()),
        Some(QueueCommand::Clear { ports }) => (Vec::new(), ports),
    };
    // What is wrong with a setting by itself is told without a switch.
    for text in &set {
        setting(text).map_err(Failure::Usage)?;
    }
    let value = ask(options.to.whom(), &Queue { set, clear })?;
    show::<Queue>(value, options.json)
}
