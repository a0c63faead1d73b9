//! `millrace replication`: the group whose members go on for each other, shown; and who of it forwards.

use crate::cli::{ReplicationCommand, ReplicationOptions};
use crate::show::show;
use control::client::ask;
use control::failure::Failure;
use control::verbs::replication::{Act, Replication};

/// `millrace replication`.
pub(crate) fn replication(options: ReplicationOptions) -> Result<(), Failure> {
    let action = match options.command {
        None | Some(ReplicationCommand::Show) => None,
        Some(ReplicationCommand::Promote) => Some(Act::Promote),
        Some(ReplicationCommand::Demote) => Some(Act::Demote),
        Some(ReplicationCommand::Drain) => Some(Act::Drain),
    };
    let value = ask(options.to.whom(), &Replication { action })?;
    show::<Replication>(value, options.json)
}
