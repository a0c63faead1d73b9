//! One connection: bytes to messages, answers, probes.
//!
//! A task reads what is there, cuts it into messages and handles them in order; answers gather in
//! one buffer that is written as the peer takes it. While that buffer holds [`WRITE_HIGH`] bytes or
//! more nothing is handled and nothing is read, so a peer that asks without reading holds itself up.
//! Asynchronous messages come by a queue: packet-ins that do not fit are dropped and counted, and
//! so many other messages that they do not fit end the connection, because a controller that missed
//! them would be wrong about the switch. So a peer costs at most [`WRITE_HIGH`], what was read at
//! once, the queue, and the one message that made the buffer overflow, as long answers are made while
//! the peer takes them ([`Listing`]). (Before a barrier's reply all
//! that waits moves to the buffer, so that the reply is the last.)
//!
//! Requests are handled for [`SLICE`] at most before other connections have their turn, and events
//! are told in between, so a peer that never pauses delays neither. Connections that all have more to
//! do share that time, down to [`SLICE_MIN`] each, so that a hundred of them do not keep a newcomer
//! waiting for the sum of their slices. A barrier waits for the workers in its connection's own slices:
//! others are served while it does, and barriers of many connections wait for the same version.
//!
//! A peer must say hello within twice [`Timing::probe`]. One that is silent is probed with an echo
//! request then, and given up if it stays silent; while it is held up, taking bytes counts as a sign
//! of life, and being asked for more is none. Bytes after a header that cannot be one (a length below 8) are no messages: the
//! connection ends, as it does at any fault before hello.
//!
//! An auxiliary connection has the role and the settings of its main connection, and ends with it.
//! It carries requests, their answers, and packet-ins; what else the switch tells goes by the main one.

use crate::bundles::{Budget, Bundles};
pub use crate::config::Timing;
use crate::output::Output;
use crate::queue::{Queued, Receiver, Told};
use crate::roles::ConnectionId;
use crate::shared::{Origin, Place, Shared};
use crate::trouble::Said;
use of_pipeline::listing::Listing;
use openflow::codec::{self, EncodeError, Frame, Header, MESSAGE_LEN_MAX, encode_packet_in2};
use openflow::{
    ErrorCode, ErrorKind, ErrorMessage, Hello, Message, TableFeatures, Version, VersionSet, Xid,
};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Bytes to write at which nothing more is read.
pub const WRITE_HIGH: usize = 1 << 20;
/// Bytes read at once, about.
const READ_CHUNK: usize = 64 << 10;
/// How long requests of one connection are handled before others have their turn.
const SLICE: Duration = Duration::from_millis(4);
/// The least of it, however many connections are busy.
const SLICE_MIN: Duration = Duration::from_micros(200);
/// Messages between looks at the clock.
const SLICE_STEP: usize = 16;
/// A peer that asks one by one (`ovs-ofctl add-flows` waits for a barrier after each flow-mod) is
/// polled for so long after each answer: going to sleep and being woken costs each time more than the
/// request itself.
const SPIN: Duration = Duration::from_micros(60);
/// It is taken to ask one by one after so many requests, each this soon after the one before.
const SPIN_AFTER: u32 = 16;
const SPIN_GAP: Duration = Duration::from_micros(500);
/// How long a peer that is being left may take to read the last bytes.
const FAREWELL: Duration = Duration::from_secs(1);
/// The same when the switch stops.
const FAREWELL_STOPPING: Duration = Duration::from_millis(100);
/// Longer probe intervals are taken as this: it is forever, and sums do not overflow.
const PROBE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// The peer closed it.
    #[error("closed by the peer")]
    Peer,
    /// The system reported an error.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// No common version.
    #[error("no common version: {0}")]
    Version(String),
    /// Bytes that cannot be cut into messages, or something else in place of a hello.
    #[error("not OpenFlow: {0}")]
    Framing(String),
    /// No hello came in time.
    #[error("no hello came")]
    NoHello,
    /// Nothing came for too long.
    #[error("no answer to an echo request")]
    Silent,
    /// It did not take its messages.
    #[error("it does not take its flow-removed and port-status messages")]
    Backlog,
    /// The switch is stopping.
    #[error("the switch is stopping")]
    Stopping,
}

/// One connection.
pub(crate) struct Connection<S> {
    pub(crate) id: ConnectionId,
    /// The main connection: itself, unless it is an auxiliary one.
    pub(crate) main: ConnectionId,
    pub(crate) origin: Origin,
    pub(crate) peer: String,
    pub(crate) shared: Arc<Shared>,
    /// Requests were handled that a barrier must wait for.
    pub(crate) unsettled: bool,
    /// Steps that the switch can do for a barrier before it is asked (see `Switch::advance`).
    pub(crate) ahead: u8,
    /// Requests were handled that may have caused asynchronous messages.
    pub(crate) ungathered: bool,
    pub(crate) bundles: Bundles,
    /// A barrier that is not answered yet; nothing after it is handled.
    pub(crate) barrier: Option<(Xid, Option<switch::Barrier>)>,
    /// A long reply under way, its request's number and first bytes; nothing after it is handled.
    pub(crate) listing: Option<(Xid, Listing, Box<[u8]>)>,
    /// Tables of a table-features request whose last message has not come.
    pub(crate) tables: Option<(Xid, Vec<TableFeatures>)>,
    /// 1.0's flow-mods name tables (`NXT_FLOW_MOD_TABLE_ID`).
    pub(crate) table_ids: bool,
    /// Packet-ins go out in Nicira's format 2.
    pub(crate) packet_in2: bool,
    /// Attempts to reach the peer that failed before this connection.
    pub(crate) before: Option<Said>,
    /// It has more requests than its last turn had time for.
    busy: Option<Place>,
    /// How long the peer may be silent.
    probe: Duration,
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    queue: Receiver,
    stop: watch::Receiver<bool>,
    version: Option<Version>,
    /// The newest of ours: hello and errors before we agree are written in it.
    hello_version: Version,
    input: Vec<u8>,
    /// Bytes of `input` that are handled.
    handled: usize,
    output: Output,
    xid: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// A connection whose hello is about to be sent.
    pub(crate) fn new(
        id: ConnectionId,
        origin: Origin,
        peer: String,
        stream: S,
        (shared, place): (Arc<Shared>, &str),
        queue: Receiver,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let hello_version = shared.config.protocols.newest().unwrap_or(Version::V13);
        let (reader, writer) = tokio::io::split(stream);
        let budget = Budget::new(shared.bundled.clone(), shared.config.bundles_bytes_max);
        let bundles = Bundles::new(budget);
        let probe = shared.config.probe(place);
        let main = if let Origin::Auxiliary { main, .. } = origin { main } else { id };
        Connection {
            id,
            main,
            origin,
            peer,
            shared,
            unsettled: false,
            ahead: 0,
            ungathered: false,
            barrier: None,
            listing: None,
            before: None,
            busy: None,
            probe,
            bundles,
            tables: None,
            table_ids: false,
            packet_in2: false,
            reader,
            writer,
            queue,
            stop,
            version: None,
            hello_version,
            input: Vec::new(),
            handled: 0,
            output: Output::default(),
            xid: 0,
        }
    }

    /// Serves the connection until it ends; says why, and which version was agreed on.
    pub(crate) async fn serve(mut self) -> (Closed, Option<Version>) {
        let closed = self.rounds().await;
        self.farewell(&closed).await;
        (closed, self.version)
    }

    async fn rounds(&mut self) -> Closed {
        let probe = self.probe.min(PROBE_MAX);
        let mut heard = Instant::now();
        // When the echo request was sent that no answer came to yet.
        let mut probed: Option<Instant> = None;
        let mut ended = false;
        let mut rhythm = Rhythm::default();
        let xid = self.next_xid();
        self.push(xid, &Message::Hello(Hello { versions: Some(self.shared.config.protocols) }));
        loop {
            if self.queue.is_overrun() {
                return Closed::Backlog;
            }
            if *self.stop.borrow() {
                return Closed::Stopping;
            }
            let more = match self.handle_some() {
                Ok(more) => more,
                Err(closed) => return closed,
            };
            self.take_queued();
            self.resume_monitors();
            // Answers leave before more is read: a peer that asks one by one waits for them.
            if let Err(error) = self.write_some() {
                return error.into();
            }
            if ended && !more {
                return Closed::Peer;
            }
            // While such a peer thinks, what its barrier will wait for is done.
            if self.ahead > 0 && !more && rhythm.is_one_by_one() {
                self.ahead -= 1;
                self.shared.switch.advance();
            }
            // What is not handled yet was heard, and what may be waiting behind it cannot be read.
            // Who does not take its answers is not heard by that.
            let takes = self.output.pending() < WRITE_HIGH;
            if more && takes && self.version.is_some() {
                heard = Instant::now();
                probed = None;
            }
            let due = self.commit_due();
            let pending = self.output.pending();
            let held_up = pending >= WRITE_HIGH;
            let reads = !held_up && !more && !ended;
            // A snooper sees echo requests of others and so answers none.
            let probes = self.origin != Origin::Snooper || self.version.is_none();
            // Time that requests took here is no silence of the peer's.
            let until = match probed {
                Some(probed) => probed + probe,
                None if self.version.is_none() => heard + probe * 2,
                None => heard + probe,
            };
            if reads {
                self.input.drain(..self.handled);
                self.handled = 0;
                self.input.reserve(READ_CHUNK);
            }
            tokio::select! {
                biased;
                // An error means that the channel itself is gone.
                changed = self.stop.changed() => if changed.is_err() {
                    return Closed::Stopping;
                },
                read = self.reader.read_buf(&mut self.input), if reads => match read {
                    Ok(0) => ended = true,
                    Ok(_) => {
                        rhythm.heard(Instant::now());
                        // Before a hello only the hello counts.
                        if self.version.is_some() {
                            heard = Instant::now();
                            probed = None;
                        }
                    }
                    Err(error) => return error.into(),
                },
                wrote = write(&mut self.writer, self.output.front()), if pending > 0 => match wrote {
                    Ok(n) => {
                        self.output.wrote(n);
                        if held_up {
                            heard = Instant::now();
                            probed = None;
                        }
                    }
                    Err(error) => return error.into(),
                },
                queued = self.queue.next(), if !held_up => match queued {
                    Some(queued) => self.take(queued),
                    None => return Closed::Stopping,
                },
                () = sleep_until(until), if probes => {
                    if self.version.is_none() {
                        return Closed::NoHello;
                    }
                    if probed.is_some() {
                        return Closed::Silent;
                    }
                    probed = Some(Instant::now());
                    let xid = self.next_xid();
                    self.push(xid, &Message::EchoRequest(Vec::new()));
                }
                // The next round commits what is due.
                () = sleep_until(due.unwrap_or(until)), if due.is_some() => {}
                // Others have their turn, and sockets are asked again.
                () = tokio::task::yield_now(), if (more && !held_up) || (reads && rhythm.spins()) => {}
            }
        }
    }

    /// Tells the peer the rest, if it still listens.
    async fn farewell(&mut self, closed: &Closed) {
        let refused = matches!(closed, Closed::Version(_) | Closed::Framing(_));
        let time = match closed {
            Closed::Io(_) | Closed::Silent | Closed::NoHello | Closed::Backlog => return,
            Closed::Stopping => FAREWELL_STOPPING,
            Closed::Peer | Closed::Version(_) | Closed::Framing(_) => FAREWELL,
        };
        self.shared.settle_kept();
        let Connection { reader, writer, output, stop, .. } = self;
        let tell = async {
            while output.pending() > 0 {
                let n = write(writer, output.front()).await?;
                output.wrote(n);
            }
            writer.shutdown().await?;
            // Closing while there are bytes to read would reset the connection, and with it lose
            // the error message that says why.
            let mut rest = [0; 4096];
            while refused && reader.read(&mut rest).await? > 0 {}
            std::io::Result::Ok(())
        };
        let stopping = async {
            if time == FAREWELL {
                let _ = stop.wait_for(|stop| *stop).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        // Whatever comes of it, the connection ends.
        tokio::select! {
            _ = tokio::time::timeout(time, tell) => {}
            () = stopping => {}
        }
    }

    /// The version agreed on; before that, the newest of ours.
    pub(crate) fn version(&self) -> Version {
        self.version.unwrap_or(self.hello_version)
    }

    fn next_xid(&mut self) -> Xid {
        self.xid = self.xid.wrapping_add(1);
        Xid(self.xid)
    }

    /// Handles whole messages of the input for a while. True if some are left.
    fn handle_some(&mut self) -> Result<bool, Closed> {
        // Its own place is of its last turn.
        self.busy = None;
        let others = u32::try_from(self.shared.busy()).unwrap_or(u32::MAX);
        let slice = (SLICE / others.saturating_add(1)).max(SLICE_MIN);
        let input = std::mem::take(&mut self.input);
        let result = self.handle_until(&input, Instant::now() + slice);
        self.input = input;
        if matches!(result, Ok(true)) {
            self.busy = Some(self.shared.wait_busily());
        }
        if std::mem::take(&mut self.ungathered) {
            self.shared.gather();
        }
        result
    }

    fn handle_until(&mut self, input: &[u8], until: Instant) -> Result<bool, Closed> {
        if !self.pass_barrier(until) || !self.pass_listing(until) {
            return Ok(true);
        }
        // Where others wait, a slow request ends the turn at once.
        let step = if self.shared.busy() > 0 { 1 } else { SLICE_STEP };
        for count in 1usize.. {
            let rest = &input[self.handled..];
            match codec::frame(rest) {
                // Not even a hello has begun: waiting for the rest of it is pointless.
                Frame::Incomplete { .. } if self.version.is_none() && is_no_hello(rest) => {
                    self.hello(rest)?;
                }
                Frame::Incomplete { .. } => break,
                _ if self.output.pending() >= WRITE_HIGH => return Ok(true),
                Frame::Message { length } => {
                    self.handled += length;
                    self.message(&rest[..length])?;
                }
                Frame::Bad { header } => {
                    let length = header.length;
                    let text = format!("a message of {length} bytes; the header alone has 8");
                    self.refuse(rest, ErrorCode::BrcBadLen, &text);
                    return Err(Closed::Framing(text));
                }
            }
            if !self.pass_barrier(until)
                || !self.pass_listing(until)
                || count.is_multiple_of(step) && Instant::now() >= until
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn message(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        self.shared.snoop(self.id, bytes);
        let Some(version) = self.version else { return self.hello(bytes) };
        match codec::decode_as(version, self.table_ids, bytes) {
            Ok((xid, message)) => self.request(version, xid, message, bytes),
            //= openflow-1.3.5 §7.4.4: what only a switch sends is wrong by its type, whatever its
            // body holds.
            Err(error)
                if error.code != ErrorCode::BrcBadVersion && only_switches_send(version, bytes) =>
            {
                self.refuse(bytes, ErrorCode::BrcBadType, &error.to_string());
            }
            Err(error) => self.refuse(bytes, error.code, &error.to_string()),
        }
        Ok(())
    }

    /// The first message: agrees on a version.
    fn hello(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        let ours = self.shared.config.protocols;
        let number = Header::parse(bytes).map_or(0, |h| h.version);
        // What is no hello is refused by the rules of its own version, where that is known.
        let read_as = Version::from_wire(number).unwrap_or(self.hello_version);
        let hello = match codec::decode(read_as, bytes) {
            Ok((_, Message::Hello(hello))) => hello,
            //= openflow-1.3.5 §6.3.1: the first message is a hello, or an error about ours.
            Ok((_, Message::Error(error))) => {
                let text = match error.kind {
                    ErrorKind::Code(ErrorCode::HfcIncompatible) => {
                        String::from_utf8_lossy(&error.data).into_owned()
                    }
                    kind => kind.to_string(),
                };
                return Err(Closed::Version(format!("the peer says: {text}")));
            }
            Ok((_, other)) => {
                let text = format!("{} before a hello", other.type_name());
                self.refuse(bytes, ErrorCode::BrcBadType, &text);
                return Err(Closed::Framing(text));
            }
            Err(error) => {
                self.refuse(bytes, error.code, &error.to_string());
                return Err(Closed::Framing(error.to_string()));
            }
        };
        if let Some(version) = VersionSet::negotiate(ours, number, hello.versions) {
            //= openflow-1.3.5 §6.3.5: an auxiliary connection speaks the main one's version.
            if self.main != self.id && self.shared.agreed(self.main) != Some(version) {
                let text = "an auxiliary connection speaks the version of the main one";
                let error = Message::Error(ErrorMessage::incompatible(text));
                self.push_as(version, xid_of(bytes), &error);
                return Err(Closed::Version(text.to_owned()));
            }
            match self.before.take() {
                None => tracing::info!(peer = %self.peer, %version, "connected"),
                Some(Said { attempts, seconds }) => tracing::info!(
                    peer = %self.peer, %version, failed_attempts = attempts, seconds, "connected again"
                ),
            }
            self.version = Some(version);
            self.shared.joined(self.id, version);
            // What becomes of misses may have changed.
            self.unsettled = true;
            return Ok(());
        }
        let names: Vec<_> =
            Version::ALL.iter().filter(|v| ours.contains(**v)).map(|v| v.name()).collect();
        let text = format!("this switch speaks {}", names.join(", "));
        let error = Message::Error(ErrorMessage::incompatible(&text));
        // In the peer's version, if we can: it may read no other.
        let version = Version::from_wire(number).unwrap_or(self.hello_version);
        self.push_as(version, xid_of(bytes), &error);
        let theirs = match hello.versions {
            Some(bitmap) => format!("version {number:#04x}, bitmap {:#x}", bitmap.0),
            None => format!("version {number:#04x}"),
        };
        Err(Closed::Version(format!("the peer offers {theirs}; {text}")))
    }

    /// The peer does not take what there is.
    pub(crate) fn output_is_high(&self) -> bool {
        self.output.pending() >= WRITE_HIGH
    }

    /// Tells all that waits now, which the queue bounds, so that what comes next comes after it.
    pub(crate) fn flush_queued(&mut self) {
        for _ in 0..self.queue.len() {
            if let Some(queued) = self.queue.try_next() {
                self.take(queued);
            }
        }
    }

    /// After a pause of flow monitors, once the peer has taken what waited.
    fn resume_monitors(&mut self) {
        if let Some(version) = self.version
            && self.output.pending() < WRITE_HIGH
            && self.queue.resumes()
        {
            for message in self.shared.resume(self.main, version) {
                self.push(Xid(0), &message);
            }
        }
    }

    /// Tells what waits, as far as the peer keeps up.
    fn take_queued(&mut self) {
        while self.output.pending() < WRITE_HIGH
            && let Some(queued) = self.queue.try_next()
        {
            self.take(queued);
        }
    }

    fn take(&mut self, queued: Queued) {
        match queued {
            Queued::Raw(bytes) => self.output.append(&bytes),
            Queued::Told(told) => {
                // The role may have changed since it was queued.
                let wanted = self.shared.roles().is_wanted(self.main, told.kind);
                if wanted {
                    self.tell(&told);
                }
            }
        }
    }

    /// Sends an asynchronous message. A packet that does not fit is cut.
    fn tell(&mut self, told: &Told) {
        let version = self.version.unwrap_or(self.hello_version);
        match (self.try_push(version, Xid(0), &told.message), &told.message) {
            (Ok(()), _) => {}
            (Err(EncodeError::TooLong { length }), Message::PacketIn(whole)) => {
                let mut part = whole.clone();
                part.data.truncate(part.data.len().saturating_sub(length - MESSAGE_LEN_MAX));
                self.push(Xid(0), &Message::PacketIn(part));
            }
            (Err(error), message) => self.cannot_say(message, &error),
        }
    }

    /// Answers a request, whose bytes serve to refuse it if the answer cannot be said.
    pub(crate) fn reply(&mut self, xid: Xid, message: &Message, request: &[u8]) {
        let version = self.version.unwrap_or(self.hello_version);
        if let Err(error) = self.try_push(version, xid, message) {
            let text = format!("{} cannot be sent: {error}", message.type_name());
            self.refuse(request, ErrorCode::BrcEperm, &text);
        }
    }

    /// Answers a request with an error.
    pub(crate) fn refuse(&mut self, request: &[u8], code: ErrorCode, text: &str) {
        self.shared.switch.tally("requests_refused", 1);
        tracing::info!(peer = %self.peer, %code, text, "refused");
        self.push(xid_of(request), &Message::Error(ErrorMessage::refuse(code, request)));
    }

    pub(crate) fn push(&mut self, xid: Xid, message: &Message) {
        self.push_as(self.version.unwrap_or(self.hello_version), xid, message);
    }

    fn push_as(&mut self, version: Version, xid: Xid, message: &Message) {
        if let Err(error) = self.try_push(version, xid, message) {
            self.cannot_say(message, &error);
        }
    }

    fn cannot_say(&self, message: &Message, error: &EncodeError) {
        tracing::warn!(peer = %self.peer, kind = message.type_name(), %error, "not sent");
    }

    fn try_push(
        &mut self,
        version: Version,
        xid: Xid,
        message: &Message,
    ) -> Result<(), EncodeError> {
        let bytes = match message {
            Message::PacketIn(packet) if self.packet_in2 => {
                self.output.encode_by(|buf| encode_packet_in2(buf, version, xid, packet))?
            }
            _ => self.output.encode(version, xid, message)?,
        };
        self.shared.snoop(self.id, bytes);
        Ok(())
    }

    /// Writes what the socket takes without waiting.
    fn write_some(&mut self) -> std::io::Result<()> {
        // Nobody needs to be woken: the next round waits for the socket if something is left.
        let mut context = Context::from_waker(Waker::noop());
        if self.output.pending() > 0 {
            self.shared.settle_kept();
        }
        while self.output.pending() > 0 {
            match Pin::new(&mut self.writer).poll_write(&mut context, self.output.front()) {
                Poll::Ready(written) => self.output.wrote(some(written?)?),
                Poll::Pending => break,
            }
        }
        Ok(())
    }
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> std::io::Result<usize> {
    some(stream.write(bytes).await?)
}

/// A socket that takes nothing, and says so without waiting, never will.
fn some(n: usize) -> std::io::Result<usize> {
    if n == 0 { Err(std::io::ErrorKind::WriteZero.into()) } else { Ok(n) }
}

/// Whether the peer asks one by one.
#[derive(Default)]
struct Rhythm {
    last: Option<Instant>,
    soon: u32,
}

impl Rhythm {
    /// Bytes came.
    fn heard(&mut self, now: Instant) {
        let soon = self.last.is_some_and(|last| now - last < SPIN_GAP);
        self.soon = if soon { self.soon.saturating_add(1) } else { 0 };
        self.last = Some(now);
    }

    fn is_one_by_one(&self) -> bool {
        self.soon >= SPIN_AFTER
    }

    /// The next request is so near that sleeping does not pay.
    fn spins(&self) -> bool {
        self.is_one_by_one() && self.last.is_some_and(|last| last.elapsed() < SPIN)
    }
}

/// A message type that no controller sends (1.3.5 §7.1, 1.0.2 §5.1).
fn only_switches_send(version: Version, bytes: &[u8]) -> bool {
    let number = Header::parse(bytes).map(|h| h.message_type);
    let replies: &[u8] = match version {
        Version::V10 => &[17, 19, 21],
        Version::V13 => &[19, 21, 23, 25, 27],
        Version::V14 | Version::V15 => &[19, 21, 25, 27, 30, 31, 32],
    };
    number.is_some_and(|n| matches!(n, 6 | 8 | 10 | 11 | 12) || replies.contains(&n))
}

/// The header is there, and is neither that of a hello nor of an error.
fn is_no_hello(bytes: &[u8]) -> bool {
    Header::parse(bytes).is_some_and(|h| !matches!(h.message_type, Header::HELLO | Header::ERROR))
}

fn xid_of(bytes: &[u8]) -> Xid {
    Header::parse(bytes).map_or(Xid(0), |h| h.xid)
}
