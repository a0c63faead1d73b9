//! `capture`: frames as they come and go, with what became of each: a stream until either side closes.
//!
//! It is pcapng with a comment on each frame, so that what was dropped says why, or lines for a person.

use super::entry;
use crate::protocol::Reply;
use crate::role::Role;
use crate::verb::{At, Verb};
use ir::{EntryId, TableId};
use port::pcap::NgWriter;
use port::pcap::ng::{Direction, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime};
use switch::{CaptureFilter, CaptureRecord, Captured, Switch, Way};

/// Written frames are handed on, and entries looked for, after so long at the latest.
const TICK: Duration = Duration::from_millis(50);

/// The question: which frames, and how they are to be told.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Capture {
    /// Of this port only.
    pub port: Option<u32>,
    /// Those that come in.
    pub ingress: bool,
    /// Those that go out.
    pub egress: bool,
    /// Those that hit entries of this table, by number or name.
    pub table: Option<String>,
    /// Only entries with this cookie.
    pub cookie: Option<u64>,
    /// Those that are dropped.
    #[serde(default)]
    pub dropped: bool,
    /// Bytes kept of each.
    pub snap_len: usize,
    /// So many frames.
    pub count: Option<u64>,
    /// Lines for a person in place of pcapng.
    pub text: bool,
}

impl Verb for Capture {
    const NAME: &'static str = "capture";
    const ABOUT: &'static str = "Frames as they come and go: a stream";
    type Answer = ();

    fn answer(self, at: &At<'_>) -> Result<Reply<()>, String> {
        stream(at.switch()?, self)
    }

    /// Frames are told.
    fn role(&self) -> Role {
        Role::Operate
    }

    fn text((): &()) -> String {
        String::new()
    }
}

/// The switch's answer: a capture that goes on until its reader is gone.
fn stream(switch: &Switch, request: Capture) -> Result<Reply<()>, String> {
    let table = request.table.as_ref().map(|name| table(switch, name)).transpose()?;
    if let Some(port) = request.port
        && !switch.ports().iter().any(|p| p.number == port)
    {
        let known: Vec<String> = switch.ports().iter().map(|p| p.number.to_string()).collect();
        return Err(format!("there is no port {port}; there are {}", known.join(", ")));
    }
    let filter = CaptureFilter {
        ingress: request.ingress && table.is_none() && !request.dropped,
        egress: request.egress && table.is_none() && !request.dropped,
        port: request.port,
        table,
        any_entry: request.cookie.is_none(),
        dropped: request.dropped,
        hits: request.dropped || table.is_some(),
        rate: None,
        snap_len: request.snap_len,
    };
    let switch = switch.clone();
    Ok(Reply::Stream(
        (),
        Box::new(move |client| {
            let captured = switch.capture(filter);
            let looked_for = table.filter(|_| request.cookie.is_some());
            let mut entries = Entries { table: looked_for, cookie: request.cookie, version: None };
            entries.look(&switch, &captured);
            let mut sink: Box<dyn Frames> = match request.text {
                true => Box::new(Lines { out: BufWriter::new(client), names: BTreeMap::new() }),
                false => Box::new(Pcapng {
                    writer: NgWriter::new(client, "millrace")?,
                    interfaces: BTreeMap::new(),
                }),
            };
            sink.flush()?;
            let mut left = request.count.unwrap_or(u64::MAX);
            let mut flushed = Instant::now();
            while left > 0 {
                if let Some(record) = captured.next(TICK) {
                    sink.frame(&switch, &record)?;
                    left -= 1;
                }
                if flushed.elapsed() >= TICK || left == 0 {
                    sink.flush()?;
                    flushed = Instant::now();
                    entries.look(&switch, &captured);
                    if is_gone(client) {
                        return Ok(());
                    }
                }
            }
            sink.end(&switch, captured.missed())
        }),
    ))
}

/// The client has closed: it has nothing more to say, so there is nothing else to read.
pub(super) fn is_gone(client: &UnixStream) -> bool {
    let mut fds = [PollFd::new(client, PollFlags::IN | PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// The table of that number, as OpenFlow counts them, or of that name.
fn table(switch: &Switch, name: &str) -> Result<TableId, String> {
    switch.with_pipeline(|pipeline| {
        let tables = &pipeline.program().tables;
        let by_name = |name: &str| tables.iter().position(|t| t.name == name);
        let at = by_name(name).or_else(|| by_name(&format!("t{name}")));
        let Some(at) = at else {
            return Err(format!("there is no table {name}; `millrace explain` names those in use"));
        };
        if !tables[at].counters {
            return Err(format!("table {name} does not count its entries' hits"));
        }
        Ok(TableId(at as u32))
    })
}

/// The entries that are meant, as the pipeline changes.
struct Entries {
    table: Option<TableId>,
    cookie: Option<u64>,
    version: Option<u64>,
}

impl Entries {
    fn look(&mut self, switch: &Switch, captured: &Captured) {
        let Some(table) = self.table else { return };
        let version = switch.version();
        if self.version == Some(version) {
            return;
        }
        let meant = |cookie: u64| self.cookie.is_none_or(|only| only == cookie);
        let entries: Vec<EntryId> = switch.with_pipeline(|pipeline| {
            pipeline.entries(table).iter().filter(|e| meant(e.cookie)).map(|e| e.id).collect()
        });
        captured.set_entries(entries);
        self.version = Some(version);
    }
}

/// Where frames go.
trait Frames {
    fn frame(&mut self, switch: &Switch, record: &CaptureRecord) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
    /// So many frames are not among those written.
    fn end(&mut self, switch: &Switch, missed: u64) -> io::Result<()>;
}

/// Nanoseconds since the Unix epoch of a time of the switch's clock.
pub(super) fn wall_ns(switch: &Switch, ns: u64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).saturating_sub(switch.now_ns().saturating_sub(ns))
}

/// The name of a port.
pub(super) fn name(switch: &Switch, port: u32) -> String {
    let ports = switch.ports();
    let known = ports.iter().find(|p| p.number == port);
    known.map_or_else(|| format!("port{port}"), |p| p.info.name.clone())
}

/// What became of a frame, and the entries that it hit.
fn comment(switch: &Switch, record: &CaptureRecord) -> String {
    let mut parts = vec![record.comment()];
    for (table, entry) in &record.hits {
        let name = switch.with_pipeline(|pipeline| {
            pipeline.program().tables.get(table.index()).map(|t| t.name.clone())
        });
        let Some(name) = name else { continue };
        let hit = entry.and_then(|entry| entry::line(switch, *table, entry));
        parts.push(format!("{name}: {}", hit.as_deref().unwrap_or("miss")));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

struct Pcapng<'a> {
    writer: NgWriter<&'a UnixStream>,
    /// By port.
    interfaces: BTreeMap<u32, u32>,
}

impl Frames for Pcapng<'_> {
    fn frame(&mut self, switch: &Switch, record: &CaptureRecord) -> io::Result<()> {
        let interface = match self.interfaces.get(&record.port) {
            Some(interface) => *interface,
            None => {
                let interface = self.writer.interface(&name(switch, record.port))?;
                self.interfaces.insert(record.port, interface);
                interface
            }
        };
        let packet = Packet {
            ns: wall_ns(switch, record.ns),
            data: &record.bytes,
            len: record.len,
            direction: match record.way {
                Way::In => Direction::In,
                Way::Out => Direction::Out,
            },
            comment: &comment(switch, record),
        };
        self.writer.packet(interface, packet)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    fn end(&mut self, switch: &Switch, missed: u64) -> io::Result<()> {
        if let (Some(interface), true) = (self.interfaces.values().next(), missed > 0) {
            self.writer.lost(*interface, wall_ns(switch, switch.now_ns()), missed)?;
        }
        self.writer.flush()
    }
}

struct Lines<'a> {
    out: BufWriter<&'a UnixStream>,
    names: BTreeMap<u32, String>,
}

impl Frames for Lines<'_> {
    fn frame(&mut self, switch: &Switch, record: &CaptureRecord) -> io::Result<()> {
        let port = self.names.entry(record.port).or_insert_with(|| name(switch, record.port));
        let ns = wall_ns(switch, record.ns);
        let seconds = ns / 1_000_000_000 % 86_400;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let way = match record.way {
            Way::In => "in ",
            Way::Out => "out",
        };
        writeln!(
            self.out,
            "{hour:02}:{minute:02}:{second:02}.{:06} {port} {way} {} [{}]",
            ns % 1_000_000_000 / 1000,
            wire::summary(&record.bytes),
            comment(switch, record),
        )
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self, _: &Switch, missed: u64) -> io::Result<()> {
        match missed {
            0 => {}
            missed => writeln!(self.out, "{missed} more could not be kept")?,
        }
        self.out.flush()
    }
}
