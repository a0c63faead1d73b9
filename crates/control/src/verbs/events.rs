//! `events`: what has happened lately, and what happens: changes and who made them, links, controllers, warnings.

use super::capture::is_gone;
use crate::logging::events::{EVENTS, Event};
use crate::protocol::{Reply, line};
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How often it is looked whether the reader has gone.
const TICK: Duration = Duration::from_millis(200);
/// Events that are told, unless the question says otherwise.
pub const LIMIT: usize = 50;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// Those that follow come as a stream, a line each.
    pub follow: bool,
    /// Those with a number above this.
    pub after: u64,
    /// So many at most of those that there are, the last ones.
    pub limit: usize,
    /// Those that have this text in their message, a field or their target.
    pub text: String,
}

impl Default for Events {
    fn default() -> Events {
        Events { follow: false, after: 0, limit: LIMIT, text: String::new() }
    }
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Events, oldest first.
    pub events: Vec<Event>,
}

impl Verb for Events {
    const NAME: &'static str = "events";
    const ABOUT: &'static str = "What has happened: changes, links, controllers, warnings";
    type Answer = Answer;

    fn answer(self, _: &At<'_>) -> Result<Reply<Answer>, String> {
        let seen = EVENTS.last();
        let mut events = EVENTS.since(self.after);
        events.retain(|event| event.number <= seen && self.chooses(event));
        events.drain(..events.len().saturating_sub(self.limit));
        let answer = Answer { events };
        if !self.follow {
            return Ok(Reply::Answer(answer));
        }
        Ok(Reply::Stream(answer, Box::new(move |client| self.stream(client, seen))))
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        answer.events.iter().for_each(|event| {
            out += &shown(event);
            out.push('\n');
        });
        out
    }
}

impl Events {
    fn chooses(&self, event: &Event) -> bool {
        let has = |text: &String| text.contains(&self.text);
        self.text.is_empty()
            || has(&event.message)
            || has(&event.target)
            || event.fields.values().any(has)
    }

    /// Writes events as they come, until the reader has gone.
    fn stream(&self, mut client: &UnixStream, mut seen: u64) -> std::io::Result<()> {
        while !is_gone(client) {
            EVENTS.wait(seen, TICK);
            for event in EVENTS.since(seen) {
                let missed = event.number - seen - 1;
                if missed > 0 {
                    client.write_all(&line(&Event::missed(missed))?)?;
                }
                seen = event.number;
                if self.chooses(&event) {
                    client.write_all(&line(&event)?)?;
                }
            }
        }
        Ok(())
    }
}

/// An event as a line for people.
pub fn shown(event: &Event) -> String {
    let mut out = format!("{} {:<5} {}", event.time, event.level, event.message);
    for (name, value) in &event.fields {
        // Writing to a string does not fail.
        let _ = match value.contains([' ', '"']) {
            true => write!(out, " {name}={value:?}"),
            false => write!(out, " {name}={value}"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::bed::bridges;
    use std::io::{BufRead, BufReader};
    use switch::EngineKind;

    #[test]
    fn events_are_told_and_followed() {
        let bridges = bridges(1, EngineKind::default());
        crate::logging::start(&crate::logging::LogFormat::Logfmt, 0);
        tracing::warn!(peer = "of events", "an-event-of-this-test");
        let question =
            |follow| Events { follow, text: "an-event-of-this".to_owned(), ..Events::default() };
        let at = At::of(&bridges, None, false, None);
        let Reply::Answer(answer) = question(false).answer(&at).unwrap() else {
            panic!("a stream")
        };
        assert_eq!(answer.events.len(), 1);
        let text = Events::text(&answer);
        assert!(text.ends_with(" warn  an-event-of-this-test peer=\"of events\"\n"), "{text}");
        let none = Events { text: "no such event anywhere".to_owned(), ..Events::default() };
        let Reply::Answer(answer) = none.answer(&at).unwrap() else { panic!("a stream") };
        assert!(answer.events.is_empty());
        let Reply::Stream(answer, write) = question(true).answer(&at).unwrap() else {
            panic!("no stream")
        };
        assert_eq!(answer.events.len(), 1);
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || write(&theirs));
            tracing::info!("another one");
            tracing::info!(n = 2, "an-event-of-this-test, again");
            let mut line = String::new();
            let mut lines = BufReader::new(&ours);
            lines.read_line(&mut line).unwrap();
            let event: Event = serde_json::from_str(&line).unwrap();
            assert_eq!(
                (&*event.message, &*event.fields["n"]),
                ("an-event-of-this-test, again", "2")
            );
            ours.shutdown(std::net::Shutdown::Both).unwrap();
        });
        bridges.stop();
    }
}
