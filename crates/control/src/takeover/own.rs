//! The running process: what it hands over, and how it takes all back.

use super::handover::{Handover, Phase};
use super::services;
use super::sockets::{self, Socket};
use super::wire::{Parts, STEPS, VERSION};
use crate::controllers::openflow::OpenFlow;
use crate::image;
use crate::ports::LetGo;
use crate::protocol::Reply;
use crate::sync::lock;
use of_pipeline::Agent;
use openflow::codec;
use openflow::{
    BucketId, FlowMod, FlowModCommand, FlowModFlags, FlowStats, FlowStatsRequest, GroupId,
    GroupMod, GroupModCommand, GroupType, Message, MeterId, MeterMod, MeterModCommand,
    MultipartReply, MultipartReplyBody, MultipartRequest, MultipartRequestBody, PortNo, Xid,
};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use switch::Switch;

/// A new process that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(60);
/// One that says nothing for so long while packets have stopped is given up.
const STOPPED_MAX: Duration = Duration::from_secs(30);
/// Pauses between attempts to open sockets that the new process has not closed yet.
const BACK_PAUSE: Duration = Duration::from_millis(100);

/// The answer, before the conversation.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// What this process is able to do: see the head of [`takeover`](super).
    pub take_over: u64,
}

/// The running switch's answer.
pub(crate) fn stream(
    switch: &Switch,
    side: &Arc<OpenFlow>,
    handover: &Arc<Handover>,
) -> Result<Reply<Answer>, String> {
    handover.ask()?;
    let (switch, side, handover) = (switch.clone(), side.clone(), handover.clone());
    Ok(Reply::Stream(
        Answer { take_over: STEPS },
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
                Err(_) if !handover.is_asked() => handover.enter(Phase::Told),
                Ok(false) | Err(_) => own.go_on(),
            }
            done.map(|_| ())
        }),
    ))
}

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
    /// What its services keep.
    fn services(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Err(Error::other("this process has no services"))
    }
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
            "services" if stopped => gives.services(&mut out)?,
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
            self.handover.ports().take_back(self.switch, gone);
            if let Some(kept) = self.side.kept() {
                kept.reopen();
            }
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
        self.gone = Some(self.handover.ports().let_go(self.switch).map_err(Error::other)?);
        if let Some(kept) = self.side.kept() {
            kept.close();
        }
        Ok(())
    }

    fn services(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        services::give(self.switch, image::clock(), out)
    }

    fn sockets(&mut self) -> std::io::Result<()> {
        let all = self.switch.receiving_sockets().into_iter();
        let all = all.map(|(number, interface, socket)| Socket { number, interface, socket });
        let all = all.chain(self.gone.iter().flatten().filter_map(LetGo::socket));
        sockets::send(self.client, &all.collect::<Vec<_>>())
    }

    fn finish(&mut self) -> std::io::Result<()> {
        // There is no way back.
        self.handover.ending();
        self.handover.end()?;
        self.handover.wait_for(Phase::Freed);
        Ok(())
    }
}

/// What the switch holds, as messages that add it elsewhere.
fn entries(agent: &mut Agent, out: &mut dyn Write) -> std::io::Result<()> {
    let mut ask =
        |message: Message| agent.handle(VERSION, message).map_err(|e| Error::other(e.to_string()));
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
    for message in &mut messages {
        bytes.clear();
        // The version has not all of 1.0's actions.
        openflow::keep_v10(message);
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
