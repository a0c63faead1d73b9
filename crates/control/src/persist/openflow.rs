//! OpenFlow's entries, groups, meters and settings as keys and values of a journal.
//!
//! | key | value |
//! |---|---|
//! | settings, options, tables | messages that set them |
//! | meter, group: its number | messages that make it; a group of that number is there before |
//! | port: its number | its name, and a message that configures it |
//! | flow: table and id | when it was added (ns since 1970), and a message that adds it |
//!
//! Messages are those of a take-over: of OpenFlow 1.5, or of another version that can say more ([`Writer::message_in`]). Keys sort in the order in which they are put back. An id is the one of the
//! process that wrote it: a start writes all anew.

use crate::program::again;
use crate::sync::lock;
use crate::takeover::wire::{VERSION, in_its_dialect};
use journal::record::Map;
use journal::{Journal, Record, Source};
use of_pipeline::Agent;
use of_pipeline::flow_table::{Flow, FlowKey};
use of_pipeline::keeping::{Changed, Keeper};
use openflow::codec::{self, EncodeError, Frame};
use openflow::{
    Instruction, Message, MeterModCommand, Nicira, PortNo, SwitchConfig, TlvTableCommand,
    TlvTableMod, Version, Xid,
};
use std::sync::{Mutex, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

const SETTINGS: u8 = 0x10;
const OPTIONS: u8 = 0x20;
const TABLES: u8 = 0x30;
const METER: u8 = 0x40;
const GROUP: u8 = 0x50;
const PORT: u8 = 0x60;
const FLOW: u8 = 0x70;

const SECOND_NS: u64 = 1_000_000_000;

/// Nanoseconds since 1970.
fn clock_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn numbered(kind: u8, number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [kind, a, b, c, d]
}

fn flow_key(key: FlowKey) -> [u8; 6] {
    let [a, b, c, d] = key.id.to_be_bytes();
    [FLOW, key.table, a, b, c, d]
}

/// Makes records of an agent's parts.
#[derive(Default)]
struct Writer {
    record: Record,
    value: Vec<u8>,
}

impl Writer {
    fn message(&mut self, mut message: Message) -> Result<(), EncodeError> {
        openflow::keep_v10(&mut message);
        codec::encode_into(&mut self.value, VERSION, Xid(0), &message)
    }

    /// The same in a version that says something as it was said: 1.4 has the meter instruction, 1.0 the flags of ports that
    /// do not flood. What this version cannot say is said in 1.5.
    fn message_in(&mut self, version: Version, message: Message) -> Result<(), EncodeError> {
        match codec::encode_into(&mut self.value, version, Xid(0), &message) {
            Ok(()) => Ok(()),
            Err(_) => self.message(message),
        }
    }

    /// The value under a key is what `fill` makes; none if it says so.
    fn put(&mut self, key: &[u8], fill: impl FnOnce(&mut Writer) -> Result<bool, EncodeError>) {
        self.value.clear();
        match fill(self) {
            Ok(true) => self.record.put(key, &self.value),
            Ok(false) => self.record.remove(key),
            Err(error) => {
                tracing::error!(key = ?key, %error, "what cannot be said in a message is not kept");
                self.record.remove(key);
            }
        }
    }

    fn settings(&mut self, agent: &Agent) {
        let config = agent.set_config();
        self.put(&[SETTINGS], |to| {
            to.message(Message::SetConfig(config))?;
            Ok(config != SwitchConfig::DEFAULT)
        });
    }

    fn options(&mut self, agent: &Agent) {
        let mappings = agent.options().mappings;
        self.put(&[OPTIONS], |to| {
            let some = !mappings.is_empty();
            let request = TlvTableMod { command: TlvTableCommand::Add, mappings };
            to.message(Message::Nicira(Nicira::TlvTableMod(request)))?;
            Ok(some)
        });
    }

    fn tables(&mut self, agent: &Agent) {
        let messages = agent.table_messages();
        self.put(&[TABLES], |to| {
            let some = !messages.is_empty();
            messages.into_iter().try_for_each(|message| to.message(message))?;
            Ok(some)
        });
    }

    fn meter(&mut self, agent: &Agent, number: u32) {
        let meter = agent.meters().get(number);
        self.put(&numbered(METER, number), |to| match meter {
            Some(meter) => {
                to.message(again::meter(MeterModCommand::Add, number, meter)).map(|()| true)
            }
            None => Ok(false),
        });
    }

    fn group(&mut self, agent: &Agent, number: u32) {
        let group = agent.groups().get(number);
        self.put(&numbered(GROUP, number), |to| match group {
            Some(group) => {
                again::group(number, group, &mut |message| to.message(message)).map(|()| true)
            }
            None => Ok(false),
        });
    }

    fn port(&mut self, agent: &Agent, number: u32) {
        let Some((message, name)) = agent.port_message(number) else { return };
        self.put(&numbered(PORT, number), |to| {
            to.value.push(name.len().min(255) as u8);
            to.value.extend_from_slice(&name.as_bytes()[..name.len().min(255)]);
            let some = !message.config.is_empty();
            to.message_in(Version::V10, Message::PortMod(message)).map(|()| some)
        });
    }

    /// `then` is when the switch's clock began, in nanoseconds since 1970.
    fn flow(&mut self, key: FlowKey, flow: Option<&Flow>, then: u64) {
        // What a synchronised table reflects comes with its source.
        let flow = flow.filter(|flow| !flow.synchronised);
        self.put(&flow_key(key), |to| {
            let Some(flow) = flow else { return Ok(false) };
            to.value.extend_from_slice(&then.wrapping_add(flow.created_ns).to_le_bytes());
            let metered = flow.instructions.iter().any(|i| matches!(i, Instruction::Meter(_)));
            let version = if metered { Version::V14 } else { VERSION };
            let message = Message::FlowMod(again::flow(key.table, flow));
            match version == VERSION {
                true => to.message(message)?,
                false => to.message_in(version, message)?,
            }
            Ok(true)
        });
    }
}

/// When the switch's clock began, in nanoseconds since 1970.
fn clock_began(agent: &Agent) -> u64 {
    clock_ns().wrapping_sub(agent.switch().now_ns())
}

/// Tells the journal what changes.
pub(super) struct Keeping {
    journal: Journal,
    writer: Writer,
}

impl Keeping {
    pub(super) fn new(journal: Journal) -> Keeping {
        Keeping { journal, writer: Writer::default() }
    }
}

impl Keeper for Keeping {
    fn keep(&mut self, agent: &Agent, changed: Changed) {
        let writer = &mut self.writer;
        writer.record.clear();
        let Changed { flows, groups, meters, ports, tables, settings, options } = changed;
        if settings {
            writer.settings(agent);
        }
        if options {
            writer.options(agent);
        }
        if tables {
            writer.tables(agent);
        }
        meters.into_iter().for_each(|meter| writer.meter(agent, meter));
        groups.into_iter().for_each(|group| writer.group(agent, group));
        ports.into_iter().for_each(|port| writer.port(agent, port));
        let then = if flows.is_empty() { 0 } else { clock_began(agent) };
        for key in flows {
            writer.flow(key, agent.flows().get(key), then);
        }
        self.journal.append(&writer.record);
    }
}

/// All that an agent has.
pub(super) fn whole(agent: &Agent) -> Record {
    let mut writer = Writer::default();
    if agent.set_config() != SwitchConfig::DEFAULT {
        writer.settings(agent);
    }
    if !agent.options().mappings.is_empty() {
        writer.options(agent);
    }
    if !agent.table_messages().is_empty() {
        writer.tables(agent);
    }
    agent.meters().iter().for_each(|(number, _)| writer.meter(agent, number));
    agent.groups().iter().for_each(|(number, _)| writer.group(agent, number));
    agent.configured_ports().into_iter().for_each(|port| writer.port(agent, port));
    let then = clock_began(agent);
    for table in 0..agent.flows().tables() as u8 {
        for (key, flow) in agent.flows().iter(table) {
            if !flow.synchronised {
                writer.flow(key, Some(flow), then);
            }
        }
    }
    writer.record
}

/// The agent, for a journal that needs all of it.
pub(super) struct Whole(pub(super) Weak<Mutex<Agent>>);

impl Source for Whole {
    fn whole(&self, begin: &dyn Fn()) -> Option<Record> {
        let agent = self.0.upgrade()?;
        let agent = lock(&agent);
        begin();
        Some(whole(&agent))
    }
}

/// What was put back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) flows: u64,
    pub(super) groups: u64,
    pub(super) meters: u64,
    /// Flow entries whose time ended while no switch ran.
    pub(super) timed_out: u64,
}

/// Puts all of it into an agent that has nothing yet.
pub(super) fn put_back(agent: &mut Agent, map: &Map) -> Result<Told, String> {
    let mut told = Told::default();
    // Groups may lead to each other: all are there before any leads anywhere.
    for (key, _) in map.iter().filter(|(key, _)| key.first() == Some(&GROUP)) {
        let number = number_of(key).ok_or_else(|| nonsense(key))?;
        let add = again::no_group(number);
        do_it(agent, add)?;
        told.groups += 1;
    }
    let now = clock_ns();
    for (key, value) in map {
        match key.first() {
            Some(&FLOW) => {
                let (created, message) =
                    value.split_first_chunk::<8>().ok_or_else(|| nonsense(key))?;
                let created = u64::from_le_bytes(*created);
                for message in messages(message) {
                    match in_time(in_its_dialect(message?), now.saturating_sub(created)) {
                        Some(message) => {
                            do_it(agent, message)?;
                            told.flows += 1;
                        }
                        None => told.timed_out += 1,
                    }
                }
            }
            Some(&PORT) => {
                let (length, rest) = value.split_first().ok_or_else(|| nonsense(key))?;
                let split = rest.split_at_checked(usize::from(*length));
                let (name, bytes) = split.ok_or_else(|| nonsense(key))?;
                for message in messages(bytes) {
                    port_back(agent, name, message?)?;
                }
            }
            Some(&(SETTINGS | OPTIONS | TABLES | METER | GROUP)) => {
                told.meters += u64::from(key.first() == Some(&METER));
                for message in messages(value) {
                    do_it(agent, message?)?;
                }
            }
            _ => return Err(nonsense(key)),
        }
    }
    Ok(told)
}

fn nonsense(key: &[u8]) -> String {
    format!("key {key:02x?} is none that this version writes; was it written by a later one?")
}

fn number_of(key: &[u8]) -> Option<u32> {
    key.get(1..)?.try_into().ok().map(u32::from_be_bytes)
}

fn do_it(agent: &mut Agent, message: Message) -> Result<(), String> {
    let what = match &message {
        Message::FlowMod(flow) => {
            format!("flow entry (table {}, priority {})", flow.table_id.0, flow.priority)
        }
        Message::GroupMod(group) => format!("group {}", group.group_id.0),
        Message::MeterMod(meter) => format!("meter {}", meter.meter_id.0),
        other => other.type_name().to_owned(),
    };
    let done = match message {
        Message::Nicira(Nicira::TlvTableMod(request)) => agent.change_options(&request),
        message => agent.handle(VERSION, message).map(|_| ()),
    };
    done.map_err(|refusal| {
        format!(
            "a {what} that was kept is refused now: {refusal}; start with what it needs, or move the folder away to \
             begin without what was kept"
        )
    })
}

/// A port that is there under the same number and name is configured as it was.
fn port_back(agent: &mut Agent, name: &[u8], message: Message) -> Result<(), String> {
    let Message::PortMod(mut request) = message else {
        return Err("a port's value is no port-mod".to_owned());
    };
    let PortNo(number) = request.port_no;
    let is = |view: &switch::PortView| {
        let own = view.info.name.as_bytes();
        own[..own.len().min(255)] == *name
    };
    match agent.switch().port(number).filter(is) {
        Some(view) => {
            request.hw_addr = openflow::MacAddr(view.info.mac);
            do_it(agent, Message::PortMod(request))
        }
        None => {
            let name = String::from_utf8_lossy(name);
            tracing::info!(port = number, %name, "a configured port is not there, or is another one now");
            Ok(())
        }
    }
}

/// A flow-mod with what is left of its time; none if its time is over.
fn in_time(mut message: Message, age_ns: u64) -> Option<Message> {
    if let Message::FlowMod(flow) = &mut message
        && flow.hard_timeout != 0
    {
        let left_ns = (u64::from(flow.hard_timeout) * SECOND_NS).checked_sub(age_ns)?;
        flow.hard_timeout = left_ns.div_ceil(SECOND_NS).max(1) as u16;
    }
    Some(message)
}

/// Messages one behind another.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Result<Message, String>> + '_ {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let Frame::Message { length } = codec::frame(bytes) else {
            bytes = &[];
            return Some(Err("a message that was kept is cut short".to_owned()));
        };
        let (message, rest) = bytes.split_at(length);
        bytes = rest;
        let version = message.first().and_then(|byte| Version::from_wire(*byte));
        Some(
            codec::decode(version.unwrap_or(VERSION), message)
                .map(|(_, m)| m)
                .map_err(|e| e.to_string()),
        )
    })
}
