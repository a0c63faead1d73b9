//! The running process, as the new one sees it.

use super::services;
use super::sockets::{self, Socket};
use super::wire::{
    HANDS_BRIDGES, HANDS_COUNTERS, HANDS_SERVICES, HANDS_SOCKETS, One, PART_MAX, STOPS, Told,
    VERSION, in_its_dialect,
};
use crate::dial::talk;
use crate::failure::Failure;
use journal::record::{Map, map_of};
use of_pipeline::Agent;
use openflow::Message;
use openflow::codec;
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
    /// Its bridges; one without a name, if it hands over no other.
    bridges: Vec<One>,
    /// The one that is asked for, by its place.
    at: usize,
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
        let mut running = Running::of(stream, steps);
        running.learn()?;
        Ok(running)
    }

    /// Behind [`stop`](Self::stop): what its ports receive by, in which frames wait.
    pub(crate) fn sockets(&mut self) -> Result<Vec<Socket>, Failure> {
        if self.steps < HANDS_SOCKETS {
            return Ok(Vec::new());
        }
        let asked = self.asked("sockets");
        let stream = self.stream.get_mut();
        stream.write_all(asked.as_bytes()).and_then(|()| sockets::receive(&*stream)).map_err(lost)
    }
}

impl<S: Read + Write> Running<S> {
    pub(crate) fn of(stream: BufReader<S>, steps: u64) -> Running<S> {
        let bridges = vec![One::default()];
        Running { stream, steps, began: Instant::now(), bridges, at: 0 }
    }

    /// Asks which bridges there are.
    pub(crate) fn learn(&mut self) -> Result<(), Failure> {
        if self.steps < HANDS_BRIDGES {
            return Ok(());
        }
        let bytes = self.ask_process("bridges")?;
        let told: Result<Told, _> = serde_json::from_slice(&bytes);
        let told = told
            .map_err(|e| Failure::Bad(format!("--take-over: the running switch's bridges: {e}")))?;
        if told.bridges.is_empty() {
            return Err(Failure::bad("--take-over: the running switch has no bridge"));
        }
        self.bridges = told.bridges;
        Ok(())
    }

    /// Its bridges beside the first.
    pub(crate) fn others(&self) -> impl Iterator<Item = &One> {
        self.bridges.iter().skip(1)
    }

    /// From here on it is asked for what the bridge of a name has; for that of the first one without a name.
    pub(crate) fn of_bridge(&mut self, name: Option<&str>) -> &One {
        let is = |one: &One| name.is_some_and(|name| one.name == name);
        self.at = self.bridges.iter().position(is).unwrap_or(0);
        &self.bridges[self.at]
    }

    /// A line that asks for something of the bridge.
    fn asked(&self, what: &str) -> String {
        match &*self.bridges[self.at].name {
            "" => format!("{what}\n"),
            name => format!("{what} {name}\n"),
        }
    }

    /// Services of the bridge that `switch` does not have: those that were added while it ran.
    pub(crate) fn add_services(&self, switch: &Switch) -> Result<(), Failure> {
        let one = &self.bridges[self.at];
        one.unsaid.iter().for_each(|what| tracing::warn!("not taken over: {what}"));
        for line in &one.services {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let here = switch.services().elements().map(|all| all.list()).unwrap_or_default();
            if here.iter().any(|named| words.first() == Some(&named.name)) {
                continue;
            }
            crate::program::services::add(switch, &words).map_err(|why| {
                let name = words.first().map_or("", String::as_str);
                Failure::Bad(format!("--take-over: service {name} of the running switch: {why}"))
            })?;
        }
        Ok(())
    }

    /// The P4 program of the bridge, with what clients have written.
    pub(crate) fn program(&mut self) -> Result<Map, Failure> {
        if !self.bridges[self.at].p4 {
            return Err(Failure::bad(
                "--take-over: the running switch has OpenFlow's tables, and this one is to run a P4 program",
            ));
        }
        self.map("program")
    }

    /// Behind [`stop`](Self::stop): what packets have written to the program's registers and counters.
    pub(crate) fn state(&mut self) -> Result<Map, Failure> {
        self.map("state")
    }

    fn map(&mut self, what: &str) -> Result<Map, Failure> {
        let bytes = self.ask(what)?;
        map_of(&bytes).ok_or_else(|| {
            Failure::Bad(format!("--take-over: the running switch's {what} cannot be read"))
        })
    }

    fn ask(&mut self, what: &str) -> Result<Vec<u8>, Failure> {
        let asked = self.asked(what);
        self.answer(&asked).map_err(lost)
    }

    /// The same, of what all bridges do together.
    fn ask_process(&mut self, what: &str) -> Result<Vec<u8>, Failure> {
        self.answer(&format!("{what}\n")).map_err(lost)
    }

    fn answer(&mut self, line: &str) -> std::io::Result<Vec<u8>> {
        self.stream.get_mut().write_all(line.as_bytes())?;
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
        if self.bridges[self.at].p4 {
            return Err(Failure::bad(
                "--take-over: the running switch runs a P4 program, and this one is to have OpenFlow's tables",
            ));
        }
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

    /// Packets stop there. From now on its ports are free. `switch` is the first bridge's, if connections go over to it.
    pub(crate) fn stop(&mut self, switch: Option<&Switch>) -> Result<Paused, Failure> {
        let since = Instant::now();
        let bytes = self.ask_process(if self.steps >= STOPS { "stop" } else { "finish" })?;
        let changes = switch.map(|switch| take_image(switch, "stop", bytes)).transpose()?;
        Ok(Paused { since, before: since - self.began, changes: changes.unwrap_or(0) })
    }

    /// Behind [`stop`](Self::stop): what has changed of the connections of a bridge that is not the first.
    pub(crate) fn changes(&mut self, switch: &Switch) -> Result<usize, Failure> {
        self.image(switch, "changes")
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

    /// Waits until it has let go of all that it had; what its ports and entries had counted.
    pub(crate) fn ended(mut self) -> Vec<u8> {
        if self.steps < STOPS {
            return Vec::new();
        }
        match self.parts() {
            Ok(bytes) if self.steps >= HANDS_COUNTERS => bytes,
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "the process that was taken over has not said that it ends");
                Vec::new()
            }
        }
    }

    fn image(&mut self, switch: &Switch, what: &str) -> Result<usize, Failure> {
        let bytes = self.ask(what)?;
        take_image(switch, what, bytes)
    }
}

/// Takes connections over.
fn take_image(switch: &Switch, what: &str, bytes: Vec<u8>) -> Result<usize, Failure> {
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
        tracing::warn!(no_room = told.no_room, "connections without room: --connections is less");
    }
    tracing::info!(what, connections = told.connections, gone = image.gone(), "taken over");
    Ok(count)
}

/// Messages one behind another.
pub(super) struct Messages<'a>(pub(super) &'a [u8]);

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
