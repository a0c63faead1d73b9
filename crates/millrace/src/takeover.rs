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
//! | `finish` | the same, once packets have stopped, and its sockets and what ports only one may have are free |
//!
//! Packets go on meanwhile in the running one, up to `finish`. Controllers are let go at the start, so that nothing is
//! programmed that the new one would not know of; they find the new one. If the new one goes away before `finish`,
//! the running one goes on, and takes controllers again.
//!
//! Not handed over: counters, kept packets, and the state of services that `softflow` calls.

use crate::ctl::{self, Reply, Request};
use crate::run::{OpenFlow, lock};
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
/// Each waits for the other so long at the end, at most.
const PARTING: Duration = Duration::from_secs(30);
/// Rounds of changes while packets still come, at most.
const ROUNDS_MAX: usize = 8;
/// So few changes are left to the time when packets have stopped.
const FEW: usize = 2000;
/// Octets of one part, at most.
const PART_MAX: usize = 1 << 20;

/// Kinds of ports that two processes may have at a time: those of the running one, of which nothing is taken any more, are
/// closed when packets go on in the new one. To close a packet socket, the kernel waits for all processors: 10 to 40 ms.
const OPEN_TWICE: [&str; 1] = ["af_packet"];

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
}

impl Handover {
    /// Nobody has asked yet. What is written to `wake` ends the process's wait.
    pub(crate) fn new(wake: UnixStream) -> Handover {
        Handover { phase: Mutex::new(Phase::Own), changed: Condvar::new(), wake }
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
    Ok(Reply::Stream(Box::new(move |client| {
        tracing::info!("another process is taking over");
        drop(lock(&side.channel).take());
        let done = give(&switch, &side, &handover, client);
        if let Some(connections) = switch.services().connections() {
            connections.unwatch();
        }
        match &done {
            Ok(true) => handover.enter(Phase::Told),
            // It can no longer go on: its ports are gone.
            Err(_) if *lock(&handover.phase) != Phase::Asked => handover.enter(Phase::Told),
            Ok(false) | Err(_) => {
                tracing::warn!("the process that was taking over has gone; going on");
                let started = side.start(&switch);
                handover.enter(Phase::Own);
                started.map_err(|e| Error::other(format!("controllers: {e:?}")))?;
            }
        }
        done.map(|_| ())
    })))
}

/// Answers until the end; false if the new process went away before.
fn give(
    switch: &Switch,
    side: &OpenFlow,
    handover: &Handover,
    client: &UnixStream,
) -> std::io::Result<bool> {
    client.set_read_timeout(Some(SILENCE))?;
    client.set_write_timeout(Some(SILENCE))?;
    let none = || Error::other("this switch tracks no connections");
    let connections = switch.services().connections().ok_or_else(none)?;
    let now_ns = || switch.now_ns();
    let mut lines = BufReader::new(client.take(1 << 20));
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let mut out = Parts::new(client);
        match line.trim() {
            "entries" => entries(&mut lock(&side.agent), &mut out)?,
            "connections" => {
                connections.export_watched(&now_ns, image::clock(), &mut out)?;
            }
            "changes" => {
                connections.export_changes(&now_ns, image::clock(), &mut out)?;
            }
            "finish" => {
                switch.set_receiving(false);
                // There is no way back.
                handover.enter(Phase::Ending);
                (&handover.wake).write_all(b"x")?;
                let ports = switch.ports();
                let alone = ports.iter().filter(|port| !OPEN_TWICE.contains(&port.info.kind));
                let alone: Vec<u32> = alone.map(|port| port.number).collect();
                // Also if there are none: what workers had in hand has left when this returns.
                switch.remove_ports(&alone).map_err(Error::other)?;
                connections.export_changes(&now_ns, image::clock(), &mut out)?;
                handover.wait_for(Phase::Freed);
                out.end()?;
                return Ok(true);
            }
            other => return Err(Error::other(format!("{other:?} is nothing to ask for"))),
        }
        out.end()?;
    }
}

/// Writes an answer in parts.
struct Parts<'a> {
    to: &'a UnixStream,
    part: Vec<u8>,
}

impl<'a> Parts<'a> {
    fn new(to: &'a UnixStream) -> Parts<'a> {
        Parts { to, part: Vec::with_capacity(PART_MAX) }
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

impl Write for Parts<'_> {
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
fn entries(agent: &mut Agent, out: &mut Parts<'_>) -> std::io::Result<()> {
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
pub(crate) struct Running {
    stream: BufReader<UnixStream>,
    began: Instant,
}

fn lost(error: Error) -> Failure {
    Failure::Bad(format!("--take-over: the running switch has gone, its log may say why: {error}"))
}

impl Running {
    /// Asks the switch behind this control socket to hand over.
    pub(crate) fn begin(path: &Path) -> Result<Running, Failure> {
        let stream = ctl::talk(Some(path), &Request::TakeOver)?;
        Ok(Running { stream, began: Instant::now() })
    }

    fn ask(&mut self, what: &str) -> Result<Vec<u8>, Failure> {
        self.answer(what).map_err(lost)
    }

    fn answer(&mut self, what: &str) -> std::io::Result<Vec<u8>> {
        self.stream.get_mut().write_all(format!("{what}\n").as_bytes())?;
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

    /// Packets stop there: what has changed by then. From now on ports and sockets are free.
    pub(crate) fn finish(mut self, switch: &Switch) -> Result<Paused, Failure> {
        let since = Instant::now();
        let changes = self.image(switch, "finish")?;
        Ok(Paused { since, before: since - self.began, changes })
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
