//! `run --take-over`: a new process goes on where a running one is, for an upgrade.
//!
//! Both talk over the running one's control socket. The new one asks, a line each, and is answered in parts (a length
//! of 4 octets, then that much; 0 ends the answer):
//!
//! | line | answer |
//! |---|---|
//! | `entries` | OpenFlow 1.5 messages: its features, then meters, groups and flow entries as messages that add them |
//! | `connections` | an [image](service::conntrack::image) of the tracker |
//! | `changes` | an image of what has changed since |
//! | `stop` | the same, once packets have stopped, and what ports only one process may have are free |
//! | `sockets` | behind `stop`: what ports receive by, to go on with ([`crate::sockets`]) |
//! | `finish` | nothing, once its control socket is free, too; without `stop` before it, what that answers |
//!
//! Packets go on meanwhile in the running one, up to `stop`. Controllers are let go at the start, so that nothing is
//! programmed that the new one would not know of; they find the new one, whose sockets are open by then. The new one
//! does all that may fail before it says `finish`: what can be told without the running one before it asks at all, its
//! listeners before `stop`, the rest behind it. If it goes away before `finish`, the running one takes back what it has let
//! go, and goes on.
//!
//! The running one's answer to the request itself is `{"take_over": 3}`. With 2 it knows no `sockets`: what comes between its
//! last frame and the new one's first is lost. With less it knows no `stop`: then there is no way back once `finish` is
//! said, which the new one says in its place.
//!
//! Not handed over: counters, kept packets, and the state of services that `softflow` calls.
//!
//! Checked by: the tests below, also as the fuzz target `take_over` ([`crate::fuzz`]); `tests/take_over.rs`, with
//! processes; `lab/take_over`.

use crate::ctl::{self, Reply, Request};
use crate::ports::{LetGo, Ports};
use crate::run::{OpenFlow, lock};
use crate::sockets::{self, Socket};
use crate::{Failure, image};
use of_pipeline::Agent;
use openflow::codec;
use openflow::{
    BucketId, FlowMod, FlowModCommand, FlowModFlags, FlowStats, FlowStatsRequest, GroupId,
    GroupMod, GroupModCommand, GroupType, Message, MeterId, MeterMod, MeterModCommand,
    MultipartReply, MultipartReplyBody, MultipartRequest, MultipartRequestBody, PortNo, Version,
    Xid,
};
use service::conntrack::image::Image;
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use switch::Switch;

/// The version whose messages say all that entries are.
const VERSION: Version = Version::V15;
/// A new process that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(60);
/// One that says nothing for so long while packets have stopped is given up.
const STOPPED_MAX: Duration = Duration::from_secs(30);
/// The running process may think so long.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Octets of an answer, at most: an image of 10⁷ connections takes a tenth of it.
const OCTETS_MAX: usize = 16 << 30;
/// Pauses between attempts to open sockets that the new process has not closed yet.
const BACK_PAUSE: Duration = Duration::from_millis(100);
/// Each waits for the other so long at the end, at most.
const PARTING: Duration = Duration::from_secs(30);
/// Rounds of changes while packets still come, at most.
const ROUNDS_MAX: usize = 8;
/// So few changes are left to the time when packets have stopped.
const FEW: usize = 2000;
/// Octets of one part, at most.
const PART_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody has asked.
    Own,
    /// Somebody is taking over.
    Asked,
    /// Packets stop here; the process is to free its control socket and end.
    Ending,
    /// It has freed it.
    Freed,
    /// The new one was told, or is gone.
    Told,
}

/// The running process's part.
pub(crate) struct Handover {
    phase: Mutex<Phase>,
    changed: Condvar,
    /// Ends the process's wait.
    wake: UnixStream,
    ports: Ports,
}

impl Handover {
    /// Nobody has asked yet. What is written to `wake` ends the process's wait.
    pub(crate) fn new(wake: UnixStream, ports: Ports) -> Handover {
        Handover { phase: Mutex::new(Phase::Own), changed: Condvar::new(), wake, ports }
    }

    fn enter(&self, phase: Phase) {
        *lock(&self.phase) = phase;
        self.changed.notify_all();
    }

    fn wait_for(&self, wanted: Phase) {
        let waits = |phase: &mut Phase| *phase != wanted;
        // A poisoned lock is taken all the same: the phase is set in one step.
        drop(self.changed.wait_timeout_while(lock(&self.phase), PARTING, waits));
    }

    /// The process ends because another has taken over.
    pub(crate) fn is_ending(&self) -> bool {
        *lock(&self.phase) == Phase::Ending
    }

    /// The control socket is free: waits until the new process was told.
    pub(crate) fn freed(&self) {
        // Whoever was told meanwhile waits for nothing more.
        let mut phase = lock(&self.phase);
        if *phase == Phase::Ending {
            *phase = Phase::Freed;
        }
        drop(phase);
        self.changed.notify_all();
        self.wait_for(Phase::Told);
    }
}

/// The running switch's answer.
pub(crate) fn stream(
    switch: &Switch,
    side: &Arc<OpenFlow>,
    handover: &Arc<Handover>,
) -> Result<Reply, String> {
    {
        let mut phase = lock(&handover.phase);
        if *phase != Phase::Own {
            return Err("another process is taking over already".to_owned());
        }
        *phase = Phase::Asked;
    }
    let (switch, side, handover) = (switch.clone(), side.clone(), handover.clone());
    let steps = serde_json::json!({"take_over": STEPS});
    Ok(Reply::Stream(
        steps,
        Box::new(move |client| {
            tracing::info!("another process is taking over");
            drop(lock(&side.channel).take());
            let (switch, side, handover) = (&switch, &*side, &*handover);
            let mut own = Own { switch, side, handover, client, gone: None };
            let timeouts = client.set_read_timeout(Some(SILENCE));
            let timeouts = timeouts.and_then(|()| client.set_write_timeout(Some(SILENCE)));
            let done = timeouts
                .and_then(|()| converse(BufReader::new(client.take(1 << 20)), client, &mut own));
            if let Some(connections) = switch.services().connections() {
                connections.unwatch();
            }
            match &done {
                Ok(true) => handover.enter(Phase::Told),
                // It can no longer go on: it was told that it is no more needed.
                Err(_) if *lock(&handover.phase) != Phase::Asked => handover.enter(Phase::Told),
                Ok(false) | Err(_) => own.go_on(),
            }
            done.map(|_| ())
        }),
    ))
}

/// What this process is able to do as the running one: see the head of this module.
const STEPS: u64 = 3;
/// What one must be able to do to stop before it ends, and to hand its sockets over.
const STOPS: u64 = 2;
const HANDS_SOCKETS: u64 = 3;

/// What the running process does for the new one.
pub(crate) trait Gives {
    /// Its entries, as messages.
    fn entries(&mut self, out: &mut dyn Write) -> std::io::Result<()>;
    /// All its connections, whose changes are kept in mind from now on.
    fn connections(&mut self, out: &mut dyn Write) -> std::io::Result<()>;
    /// What has changed since.
    fn changes(&mut self, out: &mut dyn Write) -> std::io::Result<()>;
    /// Packets stop.
    fn stop(&mut self) -> std::io::Result<()>;
    /// Answers, by itself, with what ports receive by.
    fn sockets(&mut self) -> std::io::Result<()> {
        Err(Error::other("sockets go by a Unix socket"))
    }
    /// It ends.
    fn finish(&mut self) -> std::io::Result<()>;
}

/// Answers until the end; false if the new process went away before.
pub(crate) fn converse(
    mut lines: impl BufRead,
    mut to: impl Write,
    gives: &mut dyn Gives,
) -> std::io::Result<bool> {
    let (mut line, mut stopped) = (String::new(), false);
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let mut out = Parts::new(&mut to);
        let step = line.trim();
        if step == "sockets" && stopped {
            gives.sockets()?;
            continue;
        }
        match step {
            "entries" => gives.entries(&mut out)?,
            "connections" => gives.connections(&mut out)?,
            "changes" => gives.changes(&mut out)?,
            "stop" | "finish" => {
                if !std::mem::replace(&mut stopped, true) {
                    gives.stop()?;
                    gives.changes(&mut out)?;
                } else if step == "stop" {
                    gives.changes(&mut out)?;
                }
                if step == "finish" {
                    gives.finish()?;
                    out.end()?;
                    return Ok(true);
                }
            }
            other => return Err(Error::other(format!("{other:?} is nothing to ask for"))),
        }
        out.end()?;
    }
}

/// This process, as the running one.
struct Own<'a> {
    switch: &'a Switch,
    side: &'a OpenFlow,
    handover: &'a Handover,
    client: &'a UnixStream,
    /// Packets have stopped, and these ports are closed.
    gone: Option<Vec<LetGo>>,
}

impl Own<'_> {
    fn tracked(&self) -> std::io::Result<&datapath::services::Connections> {
        let none = || Error::other("this switch tracks no connections");
        self.switch.services().connections().map(|connections| &**connections).ok_or_else(none)
    }

    /// Takes everything back.
    fn go_on(self) {
        tracing::warn!("the process that was taking over has gone; going on");
        if let Some(gone) = self.gone {
            self.switch.set_receiving(true);
            self.handover.ports.take_back(self.switch, gone);
        }
        // The sockets of the other one may not be closed yet.
        let mut said = false;
        while let Err(error) = self.side.start(self.switch) {
            if !std::mem::replace(&mut said, true) {
                let error = error.text();
                tracing::error!(error, "controllers cannot come yet; it is tried again and again");
            }
            std::thread::sleep(BACK_PAUSE);
        }
        self.handover.enter(Phase::Own);
    }
}

impl Gives for Own<'_> {
    fn entries(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        entries(&mut lock(&self.side.agent), out)
    }

    fn connections(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        self.tracked()?.export_watched(&|| self.switch.now_ns(), image::clock(), out).map(|_| ())
    }

    fn changes(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        self.tracked()?.export_changes(&|| self.switch.now_ns(), image::clock(), out).map(|_| ())
    }

    fn stop(&mut self) -> std::io::Result<()> {
        self.client.set_read_timeout(Some(STOPPED_MAX))?;
        self.client.set_write_timeout(Some(STOPPED_MAX))?;
        self.switch.set_receiving(false);
        self.gone = Some(Vec::new());
        self.gone = Some(self.handover.ports.let_go(self.switch).map_err(Error::other)?);
        Ok(())
    }

    fn sockets(&mut self) -> std::io::Result<()> {
        let all = self.switch.receiving_sockets().into_iter();
        let all = all.map(|(number, interface, socket)| Socket { number, interface, socket });
        sockets::send(self.client, &all.collect::<Vec<_>>())
    }

    fn finish(&mut self) -> std::io::Result<()> {
        // There is no way back.
        self.handover.enter(Phase::Ending);
        (&self.handover.wake).write_all(b"x")?;
        self.handover.wait_for(Phase::Freed);
        Ok(())
    }
}

/// Writes an answer in parts.
struct Parts<W> {
    to: W,
    part: Vec<u8>,
}

impl<W: Write> Parts<W> {
    fn new(to: W) -> Parts<W> {
        Parts { to, part: Vec::new() }
    }

    fn send(&mut self) -> std::io::Result<()> {
        self.to.write_all(&(self.part.len() as u32).to_le_bytes())?;
        self.to.write_all(&self.part)?;
        self.part.clear();
        Ok(())
    }

    /// What is left, and that it was all.
    fn end(mut self) -> std::io::Result<()> {
        self.flush()?;
        self.send()
    }
}

impl<W: Write> Write for Parts<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = PART_MAX - self.part.len();
        let some = &bytes[..bytes.len().min(room)];
        self.part.extend_from_slice(some);
        if self.part.len() == PART_MAX {
            self.send()?;
        }
        Ok(some.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.part.is_empty() { Ok(()) } else { self.send() }
    }
}

/// What the switch holds, as messages that add it elsewhere.
fn entries(agent: &mut Agent, out: &mut dyn Write) -> std::io::Result<()> {
    let mut ask = |message: Message| {
        let mut replies = Vec::new();
        let done = agent.handle_into(VERSION, message, &mut |reply| replies.push(reply));
        done.map_err(|e| Error::other(e.to_string())).map(|()| replies)
    };
    let multipart = |body| Message::MultipartRequest(MultipartRequest { more: false, body });
    let mut messages = ask(Message::FeaturesRequest)?;
    let bodies = [
        MultipartRequestBody::MeterConfig(MeterId::ALL),
        MultipartRequestBody::GroupDesc(GroupId::ALL),
        MultipartRequestBody::Flow(FlowStatsRequest::all()),
    ];
    for body in bodies {
        for reply in ask(multipart(body))? {
            if let Message::MultipartReply(MultipartReply { body, .. }) = reply {
                added(body, &mut messages);
            }
        }
    }
    // What a synchronised table reflects comes with its source.
    messages.retain(|message| match message {
        Message::FlowMod(flow) => {
            !agent.is_reflection(flow.table_id.0, flow.priority, &flow.matching)
        }
        _ => true,
    });
    let mut bytes = Vec::new();
    for message in &messages {
        bytes.clear();
        codec::encode_into(&mut bytes, VERSION, Xid(0), message)
            .map_err(|e| Error::other(e.to_string()))?;
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// What was told of meters, groups or flow entries, as messages that add them.
fn added(told: MultipartReplyBody, messages: &mut Vec<Message>) {
    match told {
        MultipartReplyBody::MeterConfig(meters) => {
            messages.extend(meters.into_iter().map(|meter| {
                Message::MeterMod(MeterMod {
                    command: MeterModCommand::Add,
                    flags: meter.flags,
                    meter_id: meter.meter_id,
                    bands: meter.bands,
                })
            }));
        }
        MultipartReplyBody::GroupDesc(groups) => {
            let group = |command, group_type, group_id, selection, buckets| {
                let inserts = command == GroupModCommand::InsertBucket;
                let command_bucket = if inserts { BucketId::LAST } else { BucketId::ALL };
                Message::GroupMod(GroupMod {
                    command,
                    group_type,
                    group_id,
                    command_bucket,
                    selection,
                    buckets,
                })
            };
            // Groups may lead to each other: all are there before any leads anywhere.
            for desc in &groups {
                let id = desc.group_id;
                messages.push(group(GroupModCommand::Add, GroupType::All, id, None, Vec::new()));
            }
            for desc in groups {
                let (kind, id, selection) = (desc.group_type, desc.group_id, desc.selection);
                // Buckets that are all without weight can only be inserted.
                let weightless = kind == GroupType::Select
                    && !desc.buckets.is_empty()
                    && desc.buckets.iter().all(|bucket| bucket.weight == 0);
                let (now, then) = match weightless {
                    true => (Vec::new(), desc.buckets),
                    false => (desc.buckets, Vec::new()),
                };
                messages.push(group(GroupModCommand::Modify, kind, id, selection, now));
                if weightless {
                    messages.push(group(GroupModCommand::InsertBucket, kind, id, None, then));
                }
            }
        }
        MultipartReplyBody::Flow(flows) => {
            messages.extend(flows.into_iter().map(|flow| Message::FlowMod(flow_mod(flow))));
        }
        _ => {}
    }
}

fn flow_mod(flow: FlowStats) -> FlowMod {
    // What is left of the time that it had.
    let left = u32::from(flow.hard_timeout).saturating_sub(flow.age.sec).max(1);
    let keeps =
        FlowModFlags::SEND_FLOW_REM | FlowModFlags::NO_PKT_COUNTS | FlowModFlags::NO_BYT_COUNTS;
    FlowMod {
        dialect: VERSION,
        cookie: flow.cookie,
        table_id: flow.table_id,
        command: FlowModCommand::Add,
        idle_timeout: flow.idle_timeout,
        hard_timeout: if flow.hard_timeout == 0 { 0 } else { left as u16 },
        priority: flow.priority,
        out_port: PortNo::ANY,
        out_group: GroupId::ANY,
        flags: flow.flags & keeps,
        importance: flow.importance,
        ..FlowMod::add(flow.matching, flow.instructions)
    }
}

/// The running process, as the new one sees it.
pub(crate) struct Running<S> {
    stream: BufReader<S>,
    /// What it is able to do: see [`STEPS`].
    steps: u64,
    began: Instant,
}

fn lost(error: Error) -> Failure {
    Failure::Bad(format!("--take-over: the running switch has gone, its log may say why: {error}"))
}

impl Running<UnixStream> {
    /// Asks the switch behind this control socket to hand over.
    pub(crate) fn begin(path: &Path) -> Result<Running<UnixStream>, Failure> {
        let (answer, stream) = ctl::talk(Some(path), &Request::TakeOver)?;
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
            let message = message.map_err(|e| nonsense(&e))?;
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
        let stops = self.steps >= STOPS;
        let changes = self.image(switch, if stops { "stop" } else { "finish" })?;
        Ok(Paused { since, before: since - self.began, changes })
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
