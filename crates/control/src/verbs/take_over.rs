//! `take_over`: another process takes this one's place. What both say then, [`takeover`](crate::takeover) tells.

use crate::controllers::openflow::OpenFlow;
use crate::protocol::Reply;
use crate::takeover::own;
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct TakeOver {}

impl Verb for TakeOver {
    const NAME: &'static str = "take_over";
    const ABOUT: &'static str = "Another process takes this one's place: a conversation";
    type Answer = own::Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<own::Answer>, String> {
        let (Some(openflow), Some(handover)) = (at.controllers()?.find::<OpenFlow>(), at.handover)
        else {
            return Err("a switch that runs a P4 program hands nothing over".to_owned());
        };
        if at.bridges()?.all().len() > 1 {
            return Err("a process with several bridges hands nothing over".to_owned());
        }
        own::stream(at.switch()?, &openflow, handover)
    }

    fn text(_: &own::Answer) -> String {
        String::new()
    }
}
