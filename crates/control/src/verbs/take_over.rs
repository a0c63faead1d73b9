//! `take_over`: another process takes this one's place. What both say then, [`takeover`](crate::takeover) tells.

use crate::protocol::Reply;
use crate::role::Role;
use crate::takeover::handover::Handover;
use crate::takeover::{own, told};
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct TakeOver {}

impl Verb for TakeOver {
    const NAME: &'static str = "take_over";
    const ABOUT: &'static str = "Another process takes this one's place: a conversation";
    type Answer = own::Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<own::Answer>, String> {
        let handover = may_hand_over(at)?;
        own::stream(at.bridges()?, handover, given(at))
    }

    /// This process ends.
    fn role(&self) -> Role {
        Role::Admin
    }

    fn text(_: &own::Answer) -> String {
        String::new()
    }
}

/// The services that this process was started with.
fn given<'a>(at: &At<'a>) -> &'a [String] {
    at.reload.map_or(&[], |reload| reload.given().services())
}

/// What hands over, unless this process cannot.
pub(crate) fn may_hand_over<'a>(at: &At<'a>) -> Result<&'a Arc<Handover>, String> {
    let Some(handover) = at.handover else {
        return Err("a process that a database configures hands nothing over: restart it, and the database's part comes back; \
                    entries do, too, with --persist"
            .to_owned());
    };
    told::tell(at.bridges()?, given(at))?;
    Ok(handover)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::bed::{ask, bridges};
    use switch::EngineKind;

    /// What `run_empty` serves has nothing that hands over.
    #[test]
    fn a_process_that_a_database_configures_says_what_comes_back() {
        let bridges = bridges(1, EngineKind::Interp);
        let refused = ask(&bridges, TakeOver {}).unwrap_err();
        assert!(refused.contains("restart it") && refused.contains("--persist"), "{refused}");
        bridges.stop();
    }
}
