//! `take_over`: another process takes this one's place. What both say then, [`takeover`](crate::takeover) tells.

use crate::controllers::openflow::OpenFlow;
use crate::protocol::Reply;
use crate::role::Role;
use crate::takeover::handover::Handover;
use crate::takeover::own;
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
        let (openflow, handover) = may_hand_over(at)?;
        own::stream(at.switch()?, &openflow, handover)
    }

    /// This process ends.
    fn role(&self) -> Role {
        Role::Admin
    }

    fn text(_: &own::Answer) -> String {
        String::new()
    }
}

/// What hands over, unless this process cannot.
pub(crate) fn may_hand_over<'a>(at: &At<'a>) -> Result<(Arc<OpenFlow>, &'a Arc<Handover>), String> {
    let Some(handover) = at.handover else {
        return Err("a process that a database configures hands nothing over: restart it, and it finds all there"
            .to_owned());
    };
    let openflow = at.controllers()?.find::<OpenFlow>();
    let openflow = openflow.ok_or(
        "a switch that runs a P4 program hands nothing over: replace it with `millrace p4 load`",
    )?;
    if at.bridges()?.all().len() > 1 {
        return Err("a process with several bridges hands nothing over".to_owned());
    }
    Ok((openflow, handover))
}
