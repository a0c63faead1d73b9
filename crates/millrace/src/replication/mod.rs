//! `millrace replication`: the group whose members go on for each other, shown; and who of it forwards.

mod upgrade;

use crate::cli::{ReplicationCommand, ReplicationOptions, To};
use crate::show::show;
use control::client::ask;
use control::failure::Failure;
use control::verbs::replication::{Act, Replication};
use std::time::{Duration, Instant};

/// `millrace replication`.
pub(crate) fn replication(options: ReplicationOptions) -> Result<(), Failure> {
    let (action, share) = match options.command {
        None | Some(ReplicationCommand::Show) => (None, None),
        Some(ReplicationCommand::Promote { share }) => (Some(Act::Promote), share),
        Some(ReplicationCommand::Demote { share }) => (Some(Act::Demote), share),
        Some(ReplicationCommand::Drain { share }) => (Some(Act::Drain), share),
        Some(ReplicationCommand::Rebalance) => (Some(Act::Rebalance), None),
        Some(ReplicationCommand::Forget { member }) => {
            let forget =
                Replication { action: Some(Act::Forget), share: None, member: Some(member) };
            return show::<Replication>(ask(options.to.whom(), &forget)?, options.json);
        }
        Some(ReplicationCommand::Wait { within }) => {
            return wait(&options.to, within, options.json);
        }
        Some(ReplicationCommand::Upgrade(order)) => {
            return upgrade::upgrade(&order, options.to.ctl.as_deref());
        }
    };
    let value = ask(options.to.whom(), &Replication { action, share, member: None })?;
    show::<Replication>(value, options.json)
}

/// Asks again and again, until the group is protected.
fn wait(to: &To, within: Duration, json: bool) -> Result<(), Failure> {
    let end = Instant::now() + within;
    let mut said = Instant::now();
    loop {
        // A process that starts does not answer yet.
        let asked = ask(to.whom(), &Replication::default());
        if let Ok(value) = &asked
            && value.get("protected").and_then(serde_json::Value::as_bool) == Some(true)
        {
            return show::<Replication>(asked?, json);
        }
        if Instant::now() >= end {
            asked.and_then(|value| show::<Replication>(value, json))?;
            return Err(Failure::Bad(format!(
                "the group was not protected within {} s: what it lacks is shown above",
                within.as_secs()
            )));
        }
        if said.elapsed() >= Duration::from_secs(2) {
            said = Instant::now();
            let left = end.saturating_duration_since(said).as_secs();
            eprintln!("millrace: no standby has all connections yet; {left} s left");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
