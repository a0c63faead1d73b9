//! The running process, as the new one sees it.

use super::services;
use super::sockets::{self, Socket};
use super::wire::{HANDS_SERVICES, HANDS_SOCKETS, PART_MAX, STOPS, VERSION};
use crate::dial::talk;
use crate::failure::Failure;
use of_pipeline::Agent;
use openflow::codec;
use openflow::{Action, Instruction, Message, Version};
use serde_json::Value;
use service::conntrack::image::Image;
use std::io::{BufReader, Error, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use switch::Switch;

/// The running process may think so long.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Octets of an answer, at most: an image of 10⁷ connections takes a tenth of it.
const OCTETS_MAX: usize = 16 << 30;
/// Rounds of changes while packets still come, at most.
const ROUNDS_MAX: usize = 8;
/// So few changes are left to the time when packets have stopped.
const FEW: usize = 2000;

/// The running process, as the new one sees it.
pub struct Running<S> {
    stream: BufReader<S>,
    /// What it is able to do: see the head of [`takeover`](super).
    steps: u64,
    began: Instant,
}

fn lost(error: Error) -> Failure {
    Failure::Bad(format!("--take-over: the running switch has gone, its log may say why: {error}"))
}

impl Running<UnixStream> {
    /// Asks the switch behind this control socket to hand over.
    pub(crate) fn begin(path: &Path) -> Result<Running<UnixStream>, Failure> {
        let (answer, stream) = talk(Some(path), None, "take_over", Value::Null)?;
        let steps = answer["take_over"].as_u64().unwrap_or(0);
        let timeouts = stream.get_ref().set_read_timeout(Some(ANSWER_MAX));
        timeouts.map_err(lost)?;
        Ok(Running::of(stream, steps))
    }

    /// Behind [`stop`](Self::stop): what its ports receive by, in which frames wait.
    pub(crate) fn sockets(&mut self) -> Result<Vec<Socket>, Failure> {
        if self.steps < HANDS_SOCKETS {
            return Ok(Vec::new());
        }
        let stream = self.stream.get_mut();
        stream.write_all(b"sockets\n").and_then(|()| sockets::receive(&*stream)).map_err(lost)
    }
}

impl<S: Read + Write> Running<S> {
    pub(crate) fn of(stream: BufReader<S>, steps: u64) -> Running<S> {
        Running { stream, steps, began: Instant::now() }
    }

    fn ask(&mut self, what: &str) -> Result<Vec<u8>, Failure> {
        self.answer(what).map_err(lost)
    }

    fn answer(&mut self, what: &str) -> std::io::Result<Vec<u8>> {
        self.stream.get_mut().write_all(format!("{what}\n").as_bytes())?;
        self.parts()
    }

    fn parts(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let mut len = [0; 4];
            self.stream.read_exact(&mut len)?;
            let len = u32::from_le_bytes(len) as usize;
            if len == 0 {
                return Ok(all);
            }
            if len > PART_MAX {
                return Err(Error::other("a part is longer than parts are"));
            }
            let at = all.len();
            if at + len > OCTETS_MAX {
                return Err(Error::other("an answer is longer than answers are"));
            }
            all.resize(at + len, 0);
            self.stream.read_exact(&mut all[at..])?;
        }
    }

    /// An agent of the same datapath id with the same meters, groups and flow entries.
    pub(crate) fn agent(
        &mut self,
        make: impl FnOnce(u64) -> Result<Agent, Failure>,
    ) -> Result<Agent, Failure> {
        let bytes = self.ask("entries")?;
        let nonsense = |e: &dyn std::fmt::Display| {
            Failure::Bad(format!("--take-over: the running switch's entries: {e}"))
        };
        let mut messages = Messages(&bytes);
        let first = messages.next().transpose().map_err(|e| nonsense(&e))?;
        let Some(Message::FeaturesReply(features)) = first else {
            return Err(nonsense(&"they do not begin with its features"));
        };
        let mut agent = make(features.datapath_id)?;
        let mut count = 0;
        for message in messages {
            let message = in_its_dialect(message.map_err(|e| nonsense(&e))?);
            agent.handle(VERSION, message).map_err(|e| nonsense(&e))?;
            count += 1;
        }
        tracing::info!(messages = count, "entries taken over");
        Ok(agent)
    }

    /// Its connections, with changes while there are many.
    pub(crate) fn connections(&mut self, switch: &Switch) -> Result<(), Failure> {
        let mut last = self.image(switch, "connections")?;
        for _ in 0..ROUNDS_MAX {
            let changes = self.image(switch, "changes")?;
            if changes <= FEW || changes > last / 2 {
                break;
            }
            last = changes;
        }
        Ok(())
    }

    /// Packets stop there: what has changed by then. From now on its ports are free.
    pub(crate) fn stop(&mut self, switch: &Switch) -> Result<Paused, Failure> {
        let since = Instant::now();
        let changes = self.image(switch, if self.steps >= STOPS { "stop" } else { "finish" })?;
        Ok(Paused { since, before: since - self.began, changes })
    }

    /// Behind [`stop`](Self::stop): what its services keep, which those of this switch go on with.
    pub(crate) fn services(&mut self, switch: &Switch) -> Result<(), Failure> {
        if self.steps < HANDS_SERVICES {
            return Ok(());
        }
        let bytes = self.ask("services")?;
        let bad =
            |e| Failure::Bad(format!("--take-over: what the running switch's services keep: {e}"));
        services::take(switch, &bytes).map_err(bad)
    }

    /// Says that it is no more needed. There is no way back.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        if self.steps >= STOPS {
            self.stream.get_mut().write_all(b"finish\n").map_err(lost)?;
        }
        Ok(())
    }

    /// Waits until it has let go of all that it had.
    pub(crate) fn ended(mut self) {
        if self.steps >= STOPS
            && let Err(error) = self.parts()
        {
            tracing::warn!(%error, "the process that was taken over has not said that it ends");
        }
    }

    fn image(&mut self, switch: &Switch, what: &str) -> Result<usize, Failure> {
        let bytes = self.ask(what)?;
        let bad = |e: &dyn std::fmt::Display| Failure::Bad(format!("--take-over: {what}: {e}"));
        let mut image = Image::read(bytes).map_err(|e| bad(&e))?;
        if what != "connections" {
            image.supersede();
        }
        let count = image.len() + image.gone();
        let connections = switch.services().connections();
        let connections = connections.ok_or_else(|| bad(&"this switch tracks none"))?;
        let told = connections.import(&mut image, &|| switch.now_ns());
        if told.no_room > 0 {
            tracing::warn!(
                no_room = told.no_room,
                "connections without room: --connections is less"
            );
        }
        tracing::info!(what, connections = told.connections, gone = image.gone(), "taken over");
        Ok(count)
    }
}

/// Messages one behind another.
struct Messages<'a>(&'a [u8]);

/// An entry with an action of 1.0's is one of 1.0's: it may take away a tag that is not there.
pub(crate) fn in_its_dialect(mut message: Message) -> Message {
    if let Message::FlowMod(flow) = &mut message
        && let [Instruction::ApplyActions(actions)] = &flow.instructions[..]
        && actions.iter().any(|action| action.is_of_v10() || *action == Action::PopVlan)
    {
        flow.dialect = Version::V10;
    }
    message
}

impl Iterator for Messages<'_> {
    type Item = Result<Message, String>;

    fn next(&mut self) -> Option<Result<Message, String>> {
        let bytes = self.0;
        if bytes.is_empty() {
            return None;
        }
        let len =
            bytes.get(2..4).map_or(0, |len| usize::from(u16::from_be_bytes([len[0], len[1]])));
        let (Some(message), 8..) = (bytes.get(..len), len) else {
            self.0 = &[];
            return Some(Err("a message is cut short".to_owned()));
        };
        self.0 = &bytes[len..];
        Some(codec::decode(VERSION, message).map(|(_, m)| m).map_err(|e| e.to_string()))
    }
}

/// Packets have stopped in the process that ran before.
pub(crate) struct Paused {
    since: Instant,
    before: Duration,
    changes: usize,
}

impl Paused {
    /// Packets go on.
    pub(crate) fn over(&self) {
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        tracing::info!(
            pause_ms = ms(self.since.elapsed()),
            changes = self.changes,
            before_ms = ms(self.before),
            "taken over"
        );
    }
}
