//! The control channel: this process as the switch's controller.
//!
//! A thread reads, stamps each message when it has arrived whole, answers the switch's echo requests
//! and hands the rest over; the measuring thread sends, and stamps before it writes. So a latency
//! taken here is never too short.
//!
//! Holds true: what waits is bounded ([`INBOX_MAX`] messages; beyond that we stop reading), a write
//! that nobody reads ends after [`PATIENCE`].

use crate::clock;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::probe::{self, Probe};
use crate::run::Finding;
use crate::stream::Stream;
use of_channel::{Listen, Target, TlsFiles};
use openflow::codec::{self, Frame, Header};
use openflow::{
    Action, BucketId, ErrorMessage, Features, FlowMod, FlowModCommand, FragmentHandling, GroupId,
    GroupMod, GroupModCommand, GroupType, Hello, Match, Message, MeterFlags, MeterId, MeterMod,
    MeterModCommand, MultipartReplyBody, MultipartRequest, MultipartRequestBody, PacketIn,
    PacketOut, PortNo, PortState, SwitchConfig, SwitchDesc, TableId, Version, VersionSet, Xid,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest that we wait for any answer.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Messages that may wait for the measuring thread.
pub const INBOX_MAX: usize = 1 << 16;
/// How long what is still on its way is waited for after a run.
const SETTLED: Duration = Duration::from_secs(2);
/// How soon an interrupt is noticed.
const INTERRUPTED: Duration = Duration::from_millis(50);

/// How the switch is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// We connect: `tcp:HOST[:PORT]`, `tls:HOST[:PORT]`.
    Dial(Target, Option<TlsFiles>),
    /// It connects: `ptcp:[PORT][:ADDR]`, `pssl:[PORT][:ADDR]`.
    Accept(Listen, Option<TlsFiles>),
}

impl Peer {
    /// One that listens on this machine's loopback.
    pub fn loopback(port: u16) -> Peer {
        let text = format!("tcp:127.0.0.1:{port}");
        Peer::Dial(text.parse().expect("an address and a number"), None)
    }

    /// Whether keys and certificates are needed.
    pub fn is_tls(&self) -> bool {
        match self {
            Peer::Dial(target, _) => target.tls,
            Peer::Accept(listen, _) => matches!(listen, Listen::Tls { .. }),
        }
    }

    /// The same, by these keys and certificates.
    pub fn with_tls(self, files: TlsFiles) -> Peer {
        match self {
            Peer::Dial(target, _) => Peer::Dial(target, Some(files)),
            Peer::Accept(listen, _) => Peer::Accept(listen, Some(files)),
        }
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        const FORMS: &str =
            "tcp:HOST[:PORT], tls:HOST[:PORT], ptcp:[PORT][:ADDR] or pssl:[PORT][:ADDR]";
        let words = |e: of_channel::TargetError| e.to_string();
        match text.split(':').next() {
            Some("ptcp" | "pssl" | "ptls") => {
                text.parse().map(|listen| Peer::Accept(listen, None)).map_err(words)
            }
            Some("tcp" | "tls" | "ssl") => {
                text.parse().map(|target| Peer::Dial(target, None)).map_err(words)
            }
            _ => Err(format!("{text}: expected {FORMS}")),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Dial(target, _) => target.fmt(f),
            Peer::Accept(listen, _) => listen.fmt(f),
        }
    }
}

/// A message from the switch.
#[derive(Clone, Debug)]
pub struct Received {
    /// When it had arrived whole, by [`clock`].
    pub at: u64,
    /// Its transaction.
    pub xid: Xid,
    /// What it says.
    pub message: Message,
}

/// The channel, open and negotiated.
pub struct Control {
    peer: Peer,
    offered: Vec<Version>,
    version: Version,
    writer: Arc<Mutex<Stream>>,
    inbox: Receiver<Result<Received, String>>,
    reader: Option<JoinHandle<()>>,
    next_xid: u32,
    features: Features,
    description: SwitchDesc,
    errors: Vec<(Xid, ErrorMessage)>,
    packet_ins: Vec<(u64, PacketIn)>,
    interrupt: Interrupt,
    /// What became of the latest requests, by the low bits of their transactions.
    asked: Vec<Asked>,
    doubled: BTreeMap<&'static str, u64>,
    unasked: BTreeMap<&'static str, u64>,
    link_changes: Vec<String>,
    /// Groups and meters that we added and have not removed.
    groups: BTreeSet<u32>,
    meters: BTreeSet<u32>,
}

/// A request, and what has come of it.
#[derive(Clone, Copy, Default)]
struct Asked {
    xid: u32,
    answered: bool,
    /// Of the last part of an answer in several: a part that comes twice is none of them.
    part: u64,
}

/// Requests of which it is remembered whether they were answered.
const ASKED_MAX: usize = 1 << 16;
/// Changes of the switch's links that are remembered.
const CHANGES_MAX: usize = 20;

/// What a reply is called, if it is the answer to one request of ours.
fn reply_kind(message: &Message) -> Option<&'static str> {
    Some(match message {
        Message::EchoReply(_) => "echo replies",
        Message::BarrierReply => "barrier replies",
        Message::MultipartReply(_) => "statistics replies",
        Message::FeaturesReply(_) => "features replies",
        Message::GetConfigReply(_) => "configuration replies",
        Message::RoleReply(_) => "role replies",
        Message::QueueGetConfigReply(_) => "queue replies",
        Message::GetAsyncReply(_) => "asynchronous configuration replies",
        _ => return None,
    })
}

fn is_request(message: &Message) -> bool {
    matches!(
        message,
        Message::EchoRequest(_)
            | Message::BarrierRequest
            | Message::MultipartRequest(_)
            | Message::FeaturesRequest
            | Message::GetConfigRequest
            | Message::RoleRequest(_)
            | Message::QueueGetConfigRequest(_)
            | Message::GetAsyncRequest
    )
}

impl Control {
    /// Connects, or waits for the switch to do so, and shakes hands in the newest version of
    /// `versions` that both speak.
    pub fn open(peer: &Peer, versions: &[Version]) -> Result<Control, Error> {
        let io = |action| {
            let peer = peer.to_string();
            move |source| Error::Connect { peer, action, source }
        };
        let (socket, tls) = match peer {
            Peer::Dial(target, tls) => {
                let socket = TcpStream::connect((target.host.as_str(), target.port));
                (socket.map_err(io("connecting"))?, tls)
            }
            Peer::Accept(Listen::Tcp { address, port } | Listen::Tls { address, port }, tls) => {
                let listener = TcpListener::bind((*address, *port)).map_err(io("listening"))?;
                (accept(&listener).map_err(io("waiting for the switch to connect"))?, tls)
            }
            Peer::Accept(Listen::Unix(_), _) => {
                let source = std::io::Error::from(ErrorKind::Unsupported);
                return Err(io("listening on anything but ptcp: and pssl:")(source));
            }
        };
        socket.set_nodelay(true).map_err(io("setting it up"))?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(io("setting it up"))?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(io("setting it up"))?;
        let mut stream = match (peer, tls) {
            (peer, _) if !peer.is_tls() => Stream::plain(socket),
            (Peer::Dial(target, _), Some(files)) => {
                Stream::client(socket, files, &target.host).map_err(io("the TLS handshake"))?
            }
            (Peer::Accept(..), Some(files)) => {
                Stream::server(socket, files).map_err(io("the TLS handshake"))?
            }
            (_, None) => {
                let text = "no private key and certificate were given";
                return Err(io("TLS")(std::io::Error::other(text)));
            }
        };
        let ours = VersionSet::of(versions);
        let no_version = || Error::Version {
            peer: peer.to_string(),
            ours: versions.iter().map(|v| v.name()).collect::<Vec<_>>().join(","),
        };
        let newest = ours.newest().ok_or_else(no_version)?;
        let hello = Message::Hello(Hello { versions: Some(ours) });
        stream.write_all(&codec::encode(newest, Xid(1), &hello)?).map_err(io("saying hello"))?;
        let mut input = Vec::new();
        let first =
            read_message(&mut stream, &mut input, None).map_err(io("waiting for its hello"))?;
        let version = match (Header::parse(&first), codec::decode(newest, &first)) {
            (Some(header), Ok((_, Message::Hello(hello)))) => {
                VersionSet::negotiate(ours, header.version, hello.versions)
                    .ok_or_else(no_version)?
            }
            (_, Ok((_, Message::Error(_)))) => return Err(no_version()),
            _ => {
                let reason = Some("its first message is no hello".to_string());
                return Err(Error::Closed { reason });
            }
        };
        // Silence is allowed from here on.
        stream.socket().set_read_timeout(None).map_err(io("setting it up"))?;
        let (outbox, inbox) = mpsc::sync_channel(INBOX_MAX);
        let writer = Arc::new(Mutex::new(stream.clone()));
        let echo = writer.clone();
        let reader = std::thread::Builder::new()
            .name("gauge-control".into())
            .spawn(move || read_all(stream, input, version, &echo, &outbox))
            .map_err(io("starting its thread"))?;
        let mut control = Control {
            peer: peer.clone(),
            offered: versions.to_vec(),
            version,
            writer,
            inbox,
            reader: Some(reader),
            next_xid: 16,
            features: Features {
                datapath_id: 0,
                n_buffers: 0,
                n_tables: 0,
                auxiliary_id: 0,
                capabilities: Default::default(),
                actions: 0,
                ports: Vec::new(),
            },
            description: SwitchDesc::default(),
            errors: Vec::new(),
            packet_ins: Vec::new(),
            interrupt: Interrupt::default(),
            asked: vec![Asked::default(); ASKED_MAX],
            doubled: BTreeMap::new(),
            unasked: BTreeMap::new(),
            link_changes: Vec::new(),
            groups: BTreeSet::new(),
            meters: BTreeSet::new(),
        };
        match control.ask("the features request", &Message::FeaturesRequest)?.message {
            Message::FeaturesReply(features) => control.features = features,
            other => return Err(unexpected(&other)),
        }
        if let Some(MultipartReplyBody::Desc(desc)) =
            control.multipart("the description request", MultipartRequestBody::Desc)?.pop()
        {
            control.description = *desc;
        }
        // Whole packets to the controller, not their first bytes.
        let fragments = FragmentHandling::Normal;
        let miss_send_len = SwitchConfig::NO_BUFFER;
        control.send(&Message::SetConfig(SwitchConfig { fragments, miss_send_len }))?;
        Ok(control)
    }

    /// Closes the channel and opens it again, after the switch was restarted. If that fails, this
    /// one stays, closed.
    pub fn reopen(&mut self) -> Result<(), Error> {
        // A switch may serve one at a time.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).shutdown();
        let mut fresh = Control::open(&self.peer.clone(), &self.offered.clone())?;
        fresh.interrupt = self.interrupt.clone();
        fresh.groups = std::mem::take(&mut self.groups);
        fresh.meters = std::mem::take(&mut self.meters);
        *self = fresh;
        Ok(())
    }

    /// Whoever waits for an answer stops waiting when this is raised.
    pub fn interrupt_by(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    /// Takes what has come until now: a barrier is asked for and its reply waited for, for a while. That there is none is no
    /// error here; that the channel has ended is.
    pub fn settle(&mut self) -> Result<(), Error> {
        let (_, xid) = self.send(&Message::BarrierRequest)?;
        let until = Instant::now() + SETTLED;
        while Instant::now() < until {
            match self.next(until.saturating_duration_since(Instant::now()))? {
                Some(received) if received.xid != xid => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Replies that came twice, and those that nobody asked for, since the last call.
    pub fn take_doubled(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (what, kinds, did) in [
            ("replies_doubled", std::mem::take(&mut self.doubled), "came a second time"),
            ("replies_unasked", std::mem::take(&mut self.unasked), "answer nothing that was asked"),
        ] {
            let each = kinds.iter().map(|(kind, n)| format!("{n} {kind}"));
            let each = each.collect::<Vec<_>>().join(", ");
            if !kinds.is_empty() {
                findings.push(Finding { what, text: format!("{each} {did}") });
            }
        }
        findings
    }

    /// What the switch has said of its links since the last call.
    pub fn take_link_changes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.link_changes)
    }

    /// Leaves the switch without anything of ours: no flow entries, and none of our groups and meters. It goes on even if
    /// we were interrupted.
    pub fn leave(&mut self) -> Result<(), Error> {
        self.interrupt = Interrupt::default();
        let mut messages = vec![Message::FlowMod(delete_all())];
        for id in std::mem::take(&mut self.groups) {
            messages.push(Message::GroupMod(GroupMod {
                command: GroupModCommand::Delete,
                group_type: GroupType::All,
                group_id: GroupId(id),
                command_bucket: BucketId::ALL,
                selection: None,
                buckets: Vec::new(),
            }));
        }
        for id in std::mem::take(&mut self.meters) {
            messages.push(Message::MeterMod(MeterMod {
                command: MeterModCommand::Delete,
                flags: MeterFlags::empty(),
                meter_id: MeterId(id),
                bands: Vec::new(),
            }));
        }
        self.send_all(&messages)?;
        self.barrier("removing what is ours")?;
        Ok(())
    }

    /// Takes note of what we ask for and add.
    fn note_sent(&mut self, message: &Message, xid: u32) {
        if is_request(message) {
            self.asked[xid as usize % ASKED_MAX] = Asked { xid, answered: false, part: 0 };
        }
        match message {
            Message::GroupMod(group) => match group.command {
                GroupModCommand::Delete => drop(self.groups.remove(&group.group_id.0)),
                _ => drop(self.groups.insert(group.group_id.0)),
            },
            Message::MeterMod(meter) => match meter.command {
                MeterModCommand::Delete => drop(self.meters.remove(&meter.meter_id.0)),
                _ => drop(self.meters.insert(meter.meter_id.0)),
            },
            _ => {}
        }
    }

    /// Whether a reply is the first to its request; others are counted.
    fn is_first(&mut self, received: &Received) -> bool {
        let Some(kind) = reply_kind(&received.message) else { return true };
        let slot = &mut self.asked[received.xid.0 as usize % ASKED_MAX];
        if slot.xid != received.xid.0 || received.xid.0 < 16 {
            // Of a request that is long forgotten nothing is said.
            if received.xid.0 > self.next_xid || received.xid.0 < 16 {
                *self.unasked.entry(kind).or_default() += 1;
            }
            return true;
        }
        let mut part = DefaultHasher::new();
        let (mut more, mut again) = (false, slot.answered);
        if let Message::MultipartReply(reply) = &received.message {
            more = reply.more;
            format!("{:?}", reply.body).hash(&mut part);
            let part = part.finish() | 1;
            again |= slot.part == part;
            slot.part = part;
        }
        slot.answered |= !more;
        if again {
            *self.doubled.entry(kind).or_default() += 1;
        }
        !again
    }

    /// The version spoken.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What the switch said of itself at the start.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Who made it.
    pub fn description(&self) -> &SwitchDesc {
        &self.description
    }

    /// Sends messages in one write. The time just before it, and the last one's transaction.
    pub fn send_all(&mut self, messages: &[Message]) -> Result<(u64, Xid), Error> {
        let mut bytes = Vec::with_capacity(128 * messages.len());
        for message in messages {
            self.next_xid = self.next_xid.wrapping_add(1).max(16);
            codec::encode_into(&mut bytes, self.version, Xid(self.next_xid), message)?;
            self.note_sent(message, self.next_xid);
        }
        let mut stream = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let at = clock::now();
        stream.write_all(&bytes).map_err(|e| Error::Closed { reason: Some(e.to_string()) })?;
        Ok((at, Xid(self.next_xid)))
    }

    /// Sends one message.
    pub fn send(&mut self, message: &Message) -> Result<(u64, Xid), Error> {
        self.send_all(std::slice::from_ref(message))
    }

    /// The next message, or none within `wait`. Errors and packet-ins are kept aside for
    /// [`take_errors`](Self::take_errors) and [`take_packet_ins`](Self::take_packet_ins), too.
    ///
    /// A reply that comes twice is counted and passed over.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Received>, Error> {
        let until = Instant::now() + wait;
        loop {
            if self.interrupt.is_raised() {
                return Err(Error::Interrupted);
            }
            let left = until.saturating_duration_since(Instant::now());
            let received = match self.inbox.recv_timeout(left.min(INTERRUPTED)) {
                Ok(Ok(received)) => received,
                Ok(Err(reason)) => return Err(Error::Closed { reason: Some(reason) }),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => return Ok(None),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Closed { reason: None }),
            };
            if !self.is_first(&received) {
                continue;
            }
            match &received.message {
                Message::Error(error) => self.errors.push((received.xid, error.clone())),
                Message::PacketIn(packet) if self.packet_ins.len() < INBOX_MAX => {
                    self.packet_ins.push((received.at, packet.clone()));
                }
                Message::PortStatus(status) if self.link_changes.len() < CHANGES_MAX => {
                    let down = status.desc.state.contains(PortState::LINK_DOWN);
                    let (number, word) = (status.desc.port_no, if down { "down" } else { "up" });
                    let text =
                        format!("the switch said that the link of its port {number} is {word}");
                    self.link_changes.push(text);
                }
                _ => {}
            }
            return Ok(Some(received));
        }
    }

    /// Waits for the answer to a transaction.
    pub fn answer(&mut self, what: &'static str, xid: Xid) -> Result<Received, Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = || Error::Timeout { what, seconds: PATIENCE.as_secs() };
            if left.is_zero() {
                return Err(timeout());
            }
            match self.next(left)?.ok_or_else(timeout)? {
                received if received.xid != xid => {}
                Received { message: Message::Error(error), .. } => {
                    self.errors.retain(|(x, _)| *x != xid);
                    return Err(Error::Refused { what, error: Box::new(error) });
                }
                // Ours to the switch and the switch's own transactions may bear the same number.
                Received { message: Message::PacketIn(_) | Message::PortStatus(_), .. } => {}
                received => return Ok(received),
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, what: &'static str, message: &Message) -> Result<Received, Error> {
        let (_, xid) = self.send(message)?;
        self.answer(what, xid)
    }

    /// Waits for a barrier; when its reply came. Any error since the last barrier is one of `what`.
    pub fn barrier(&mut self, what: &'static str) -> Result<u64, Error> {
        let received = self.ask("a barrier", &Message::BarrierRequest)?;
        match self.errors.pop() {
            Some((_, error)) => {
                self.errors.clear();
                Err(Error::Refused { what, error: Box::new(error) })
            }
            None => Ok(received.at),
        }
    }

    /// Asks for statistics or descriptions; all parts of the answer.
    pub fn multipart(
        &mut self,
        what: &'static str,
        body: MultipartRequestBody,
    ) -> Result<Vec<MultipartReplyBody>, Error> {
        let (_, xid) =
            self.send(&Message::MultipartRequest(MultipartRequest { more: false, body }))?;
        let mut parts = Vec::new();
        loop {
            match self.answer(what, xid)?.message {
                Message::MultipartReply(reply) => {
                    parts.push(reply.body);
                    if !reply.more {
                        return Ok(parts);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Removes every flow entry, and lets the switch drop what no entry forwards: without an entry
    /// for that, OpenFlow 1.0 would send it all to us (1.0.0 §3.4).
    pub fn clear(&mut self) -> Result<(), Error> {
        let all = delete_all();
        let drop = FlowMod { priority: 0, ..FlowMod::add(Match::new(), Default::default()) };
        self.send_all(&[Message::FlowMod(all), Message::FlowMod(drop)])?;
        self.barrier("removing all flow entries and adding one that drops")?;
        self.packet_ins.clear();
        Ok(())
    }

    /// Errors that came, but for those that another call has returned.
    pub fn take_errors(&mut self) -> Vec<(Xid, ErrorMessage)> {
        std::mem::take(&mut self.errors)
    }

    /// Packet-ins that came, with the times at which they did; at most [`INBOX_MAX`] are kept.
    pub fn take_packet_ins(&mut self) -> Vec<(u64, PacketIn)> {
        std::mem::take(&mut self.packet_ins)
    }
}

fn delete_all() -> FlowMod {
    FlowMod {
        command: FlowModCommand::Delete,
        table_id: TableId::ALL,
        ..FlowMod::add(Match::new(), Default::default())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let stream = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        stream.shutdown();
        drop(stream);
        // The reader may wait for room in the inbox.
        while self.inbox.try_recv().is_ok() {}
        if let Some(reader) = self.reader.take() {
            while !reader.is_finished() {
                let _ = self.inbox.recv_timeout(Duration::from_millis(1));
            }
            let _ = reader.join();
        }
    }
}

fn unexpected(message: &Message) -> Error {
    Error::Closed { reason: Some(format!("it answered by {}", message.type_name())) }
}

/// Waits for one connection, for as long as we wait for any answer.
fn accept(listener: &TcpListener) -> std::io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(e) => return Err(e),
        }
    }
}

/// Reads one message, of a version if one was agreed on; what follows it stays in `input`.
pub(crate) fn read_message(
    stream: &mut impl Read,
    input: &mut Vec<u8>,
    version: Option<Version>,
) -> std::io::Result<Vec<u8>> {
    let mut chunk = [0; 1 << 16];
    loop {
        // What is no message may seem to be a long one, for whose end one would wait.
        if let (Some(version), Some(header)) = (version, Header::parse(input))
            && header.version != version.wire()
        {
            let first = &input[..openflow::codec::HEADER_LEN];
            let text =
                format!("what it sent is no message of {version}: it begins with {first:02x?}");
            return Err(std::io::Error::new(ErrorKind::InvalidData, text));
        }
        match codec::frame(input) {
            Frame::Message { length } => return Ok(input.drain(..length).collect()),
            Frame::Bad { .. } => {
                let text = "a message is said to be shorter than its header";
                return Err(std::io::Error::new(ErrorKind::InvalidData, text));
            }
            Frame::Incomplete { .. } => match stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => input.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            },
        }
    }
}

/// The reading thread: until the channel ends or nobody listens.
fn read_all(
    mut stream: Stream,
    mut input: Vec<u8>,
    version: Version,
    writer: &Mutex<Stream>,
    outbox: &SyncSender<Result<Received, String>>,
) {
    loop {
        let bytes = match read_message(&mut stream, &mut input, Some(version)) {
            Ok(bytes) => bytes,
            Err(e) => {
                let _ = outbox.send(Err(e.to_string()));
                return;
            }
        };
        let at = clock::now();
        let sent = match codec::decode(version, &bytes) {
            Ok((xid, Message::EchoRequest(data))) => {
                // An echo is never longer than what it answers, so it can be encoded.
                if let Ok(bytes) = codec::encode(version, xid, &Message::EchoReply(data)) {
                    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                    // A channel that broke is noticed by the next read.
                    let _ = writer.write_all(&bytes);
                }
                continue;
            }
            Ok((xid, message)) => outbox.send(Ok(Received { at, xid, message })),
            Err(e) => outbox.send(Err(format!("it sent a message that cannot be read: {e}"))),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// A packet-out of a shortest probe by one of the switch's ports.
pub fn packet_out(version: Version, port: u32, probe: Probe) -> Message {
    // 1.0 has no controller among the ports that a packet-out can come from (1.0.0 §5.3.6).
    let in_port = if version == Version::V10 { PortNo::ANY } else { PortNo::CONTROLLER };
    Message::PacketOut(PacketOut {
        buffer_id: None,
        in_port,
        pipeline: Match::new(),
        actions: vec![Action::output(PortNo(port))],
        data: probe::frame(probe::LEN_MIN, 0, probe),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers() {
        for text in ["tcp:10.0.0.1:6653", "tls:h:1", "ptcp:6633", "ptcp:6633:127.0.0.1"] {
            assert_eq!(text.parse::<Peer>().unwrap().to_string(), text);
        }
        for text in ["", "udp:1", "punix:/x", "tcp:", "10.0.0.1"] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
    }

    /// A peer that says these bytes and ends.
    fn against(bytes: &'static [u8]) -> Error {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(bytes).unwrap();
            let mut hello = [0; 8];
            stream.read_exact(&mut hello).unwrap();
        });
        let error = Control::open(&Peer::loopback(port), &[Version::V10, Version::V13]).err();
        peer.join().unwrap();
        error.expect("it is no switch")
    }

    #[test]
    fn refuses_peers_that_are_no_switch() {
        assert!(matches!(
            against(b"HTTP/1.1 400 Bad"),
            Error::Connect { .. } | Error::Closed { .. }
        ));
        assert!(matches!(against(&[4, 0, 0, 7, 0, 0, 0, 0]), Error::Connect { .. }));
        assert!(matches!(against(&[]), Error::Connect { .. }));
        // A bitmap of 1.2 alone.
        let hello = &[3, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 8];
        assert!(matches!(against(hello), Error::Version { .. }));
    }
}
