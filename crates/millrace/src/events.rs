//! `millrace events`: what has happened in a running switch, and what happens.

use crate::cli::EventsOptions;
use control::client::{ask, follow_answered};
use control::failure::Failure;
use control::logging::events::Event;
use control::output::say;
use control::verbs::events::{Answer, Events, shown};
use serde_json::Value;
use std::io::BufRead as _;

/// `millrace events`.
pub(crate) fn events(options: EventsOptions) -> Result<(), Failure> {
    let question = Events {
        follow: options.follow,
        after: 0,
        limit: options.limit,
        text: options.text.unwrap_or_default(),
    };
    let to = options.to.whom();
    if !options.follow {
        return tell(ask(to, &question)?, options.json);
    }
    let (answer, lines) = follow_answered(to, &question)?;
    tell(answer, options.json)?;
    for line in lines.lines() {
        // The switch has stopped.
        let Ok(line) = line else { return Ok(()) };
        let event: Event = serde_json::from_str(&line).map_err(|e| nonsense(&e))?;
        match options.json {
            true => say(format_args!("{line}\n")),
            false => say(format_args!("{}\n", shown(&event))),
        }
    }
    Ok(())
}

/// One line an event, in either form: what follows a stream reads both alike.
fn tell(answer: Value, json: bool) -> Result<(), Failure> {
    let answer: Answer = serde_json::from_value(answer).map_err(|e| nonsense(&e))?;
    for event in &answer.events {
        match json {
            true => {
                say(format_args!("{}\n", serde_json::to_string(event).map_err(|e| nonsense(&e))?))
            }
            false => say(format_args!("{}\n", shown(event))),
        }
    }
    Ok(())
}

fn nonsense(error: &serde_json::Error) -> Failure {
    Failure::Bad(format!("the switch's answer: {error}"))
}
