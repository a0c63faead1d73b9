//! One connection: bytes to messages, dispatch, answers, probes.
//!
//! A task reads what is there, cuts it into messages and handles them in order; answers gather in
//! one buffer that is written as the peer takes it. While that buffer is long nothing more is read,
//! so a peer that asks without reading holds itself up. Asynchronous messages come by a bounded
//! queue; packet-ins that do not fit are dropped and counted, other messages that do not fit end the
//! connection, because a controller that missed them would be wrong about the switch.
//!
//! An idle peer is probed with an echo request; one that does not answer is given up
//! ([`Timing::probe`]).

use crate::channel::Shared;
use crate::roles::{Asynchronous, ConnectionId};
use of_pipeline::Event;
use openflow::codec::{self, Frame, Header};
use openflow::{
    ErrorCode, ErrorMessage, Hello, Message, MultipartRequestBody, Role, Version, VersionSet, Xid,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Bytes to write above which nothing more is read.
const WRITE_HIGH: usize = 1 << 20;
/// Bytes read at once.
const READ_CHUNK: usize = 256 << 10;
/// Messages waiting for one connection, at most.
pub const QUEUE_MAX: usize = 16 << 10;

/// How long a peer may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// After so long an echo request is sent; after twice as long the connection is given up.
    pub probe: Duration,
}

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
    #[error("no common version: the peer speaks {0}")]
    Version(String),
    /// Bytes that cannot be cut into messages.
    #[error("not OpenFlow: {0}")]
    Framing(String),
    /// Nothing came for too long.
    #[error("no answer to an echo request")]
    Silent,
    /// It did not take its messages.
    #[error("{QUEUE_MAX} messages were waiting and it took none")]
    Backlog,
    /// The switch is stopping.
    #[error("the switch is stopping")]
    Stopping,
}

/// What the rest of the channel puts into a connection's queue.
#[derive(Clone, Debug)]
pub enum Queued {
    /// An event, for those who want it.
    Event(Arc<Event>),
    /// Bytes for a snooper.
    Raw(Arc<[u8]>),
}

/// One connection.
pub struct Connection<S> {
    id: ConnectionId,
    peer: String,
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Queued>,
    /// Set when a message that must not be lost did not fit the queue.
    overrun: Arc<std::sync::atomic::AtomicBool>,
    version: Option<Version>,
    /// A version of the peer's, before we agree: what errors are written in.
    hello_version: Version,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    next_xid: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// A connection whose hello is about to be sent.
    pub(crate) fn new(
        id: ConnectionId,
        peer: String,
        stream: S,
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Queued>,
        overrun: Arc<std::sync::atomic::AtomicBool>,
    ) -> Self {
        let hello_version = shared.config.protocols.newest().unwrap_or(Version::V13);
        let (reader, writer) = tokio::io::split(stream);
        Connection {
            id,
            peer,
            reader,
            writer,
            shared,
            queue,
            overrun,
            version: None,
            hello_version,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            next_xid: 1,
        }
    }

    /// Serves the connection until it ends.
    pub(crate) async fn serve(mut self) -> Closed {
        let ended = self.rounds().await;
        // Tell the peer why, if it still listens; it may not.
        let rest = self.output.split_off(self.written.min(self.output.len()));
        let _ = tokio::time::timeout(Duration::from_millis(100), self.writer.write_all(&rest)).await;
        let _ = self.writer.shutdown().await;
        ended
    }

    async fn rounds(&mut self) -> Closed {
        let hello = Message::Hello(Hello { versions: Some(self.shared.config.protocols) });
        let xid = self.xid();
        self.push_as(self.hello_version, xid, &hello);
        let probe = self.shared.config.timing.probe;
        let mut heard = Instant::now();
        let mut probed = false;
        let mut chunk = vec![0u8; READ_CHUNK];
        loop {
            if self.overrun.load(std::sync::atomic::Ordering::Relaxed) {
                return Closed::Backlog;
            }
            let pending = self.output.len() - self.written;
            let deadline = heard + if probed { probe * 2 } else { probe };
            tokio::select! {
                biased;
                read = self.reader.read(&mut chunk), if pending < WRITE_HIGH => match read {
                    Ok(0) => return Closed::Peer,
                    Ok(n) => {
                        heard = Instant::now();
                        probed = false;
                        self.input.extend_from_slice(&chunk[..n]);
                        if let Err(closed) = self.consume() {
                            return closed;
                        }
                        // Answers leave before more is read: a request-reply peer waits for them.
                        if let Err(closed) = self.write_some() {
                            return closed;
                        }
                    }
                    Err(error) => return error.into(),
                },
                ready = writable(&mut self.writer, &self.output[self.written..]), if pending > 0 => match ready {
                    Ok(n) => self.wrote(n),
                    Err(error) => return error.into(),
                },
                queued = self.queue.recv(), if pending < WRITE_HIGH => match queued {
                    Some(queued) => {
                        self.enqueue(queued);
                        while self.output.len() - self.written < WRITE_HIGH {
                            match self.queue.try_recv() {
                                Ok(queued) => self.enqueue(queued),
                                Err(_) => break,
                            }
                        }
                    }
                    None => return Closed::Stopping,
                },
                () = sleep_until(deadline) => {
                    if probed {
                        return Closed::Silent;
                    }
                    probed = true;
                    let xid = self.xid();
                    self.push(xid, &Message::EchoRequest(Vec::new()));
                }
            }
        }
    }

    fn xid(&mut self) -> Xid {
        self.next_xid = self.next_xid.wrapping_add(1);
        Xid(self.next_xid)
    }

    /// Handles every whole message in the input buffer.
    fn consume(&mut self) -> Result<(), Closed> {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        let result = loop {
            match codec::frame(&input[at..]) {
                Frame::Incomplete { .. } => break Ok(()),
                Frame::Message { length } => {
                    let message = &input[at..at + length];
                    at += length;
                    if let Err(closed) = self.message(message) {
                        break Err(closed);
                    }
                }
                Frame::Bad { header } => {
                    let text = format!("a message of {} bytes; the header alone has 8", header.length);
                    self.refuse(&input[at..], ErrorCode::BrcBadLen, &text);
                    break Err(Closed::Framing(text));
                }
            }
        };
        self.input = input;
        self.input.drain(..at);
        result
    }

    fn message(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        self.shared.snoop(self.id, bytes);
        let Some(version) = self.version else { return self.hello(bytes) };
        match codec::decode(version, bytes) {
            Ok((xid, message)) => self.dispatch(version, xid, message, bytes),
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "refused");
                self.refuse(bytes, error.code, &error.to_string());
            }
        }
        Ok(())
    }

    /// The first message: agrees on a version.
    fn hello(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        let ours = self.shared.config.protocols;
        let number = Header::parse(bytes).map_or(0, |h| h.version);
        let hello = match codec::decode(self.hello_version, bytes) {
            Ok((_, Message::Hello(hello))) => hello,
            //= openflow-1.3.5 §6.3.1: the first message is a hello, or an error about ours.
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
        match VersionSet::negotiate(ours, number, hello.versions) {
            Some(version) => {
                tracing::info!(peer = %self.peer, %version, "connected");
                self.version = Some(version);
                self.shared.joined(self.id, version);
                Ok(())
            }
            None => {
                let names: Vec<_> = Version::ALL.iter().filter(|v| ours.contains(**v)).map(|v| v.name()).collect();
                let text = format!("this switch speaks {}", names.join(", "));
                let error = ErrorMessage::incompatible(&text);
                let xid = xid_of(bytes);
                self.push_as(self.hello_version, xid, &Message::Error(error));
                Err(Closed::Version(format!("version {number:#04x}")))
            }
        }
    }

    fn dispatch(&mut self, version: Version, xid: Xid, message: Message, bytes: &[u8]) {
        match message {
            Message::Hello(_) | Message::EchoReply(_) => {}
            Message::EchoRequest(data) => self.push(xid, &Message::EchoReply(data)),
            Message::Error(error) => {
                tracing::warn!(peer = %self.peer, ?error, "the controller reports an error");
            }
            Message::BarrierRequest => {
                //= openflow-1.3.5 §A.3.8: all before the barrier is done before its reply.
                self.shared.switch.sync();
                self.push(xid, &Message::BarrierReply);
            }
            Message::RoleRequest(request) => {
                let answer = self.shared.roles().request(self.id, request);
                match answer {
                    Ok(reply) => self.push(xid, &Message::RoleReply(reply)),
                    Err(stale) => self.refuse(bytes, ErrorCode::RrfcStale, &stale.to_string()),
                }
            }
            Message::GetAsyncRequest => {
                let wants = self.shared.roles().wants(self.id);
                self.push(xid, &Message::GetAsyncReply(wants));
            }
            Message::SetAsync(wants) => self.shared.roles().set_wants(self.id, wants),
            message if self.is_slave() && changes_state(&message) => {
                //= openflow-1.3.5 §6.3.6: a slave has read-only access.
                let text = format!("{} from a slave controller", message.type_name());
                self.refuse(bytes, ErrorCode::BrcIsSlave, &text);
            }
            message => {
                let shared = self.shared.clone();
                let mut agent = shared.agent();
                let result = agent.handle_into(version, message, &mut |reply| self.push(xid, &reply));
                drop(agent);
                if let Err(refusal) = result {
                    self.refuse(bytes, refusal.code(), &refusal.to_string());
                }
            }
        }
    }

    fn is_slave(&self) -> bool {
        self.shared.roles().role(self.id) == Role::Slave
    }

    fn enqueue(&mut self, queued: Queued) {
        match queued {
            Queued::Raw(bytes) => self.output.extend_from_slice(&bytes),
            Queued::Event(event) => {
                let Some(version) = self.version else { return };
                let (kind, message) = match &*event {
                    Event::PacketIn(p) => (Asynchronous::PacketIn(p.reason), Message::PacketIn(p.clone())),
                    Event::FlowRemoved(r) => (Asynchronous::FlowRemoved(r.reason), Message::FlowRemoved(r.clone())),
                    Event::PortStatus(s) => (Asynchronous::PortStatus(s.reason), Message::PortStatus(s.clone())),
                };
                if self.shared.roles().is_wanted(self.id, kind) && event.is_for(version) {
                    self.push(Xid(0), &message);
                }
            }
        }
    }

    fn push(&mut self, xid: Xid, message: &Message) {
        self.push_as(self.version.unwrap_or(self.hello_version), xid, message);
    }

    fn push_as(&mut self, version: Version, xid: Xid, message: &Message) {
        let before = self.output.len();
        if let Err(error) = codec::encode_into(&mut self.output, version, xid, message) {
            tracing::warn!(peer = %self.peer, kind = message.type_name(), %error, "not sent");
            return;
        }
        self.shared.snoop(self.id, &self.output[before..]);
    }

    fn refuse(&mut self, request: &[u8], code: ErrorCode, text: &str) {
        tracing::debug!(peer = %self.peer, %code, text, "error sent");
        let xid = xid_of(request);
        self.push(xid, &Message::Error(ErrorMessage::refuse(code, request)));
    }

    /// Writes what the socket takes without waiting.
    fn write_some(&mut self) -> Result<(), Closed> {
        use std::pin::Pin;
        use std::task::{Context, Poll, Waker};
        let mut context = Context::from_waker(Waker::noop());
        while self.written < self.output.len() {
            let stream = Pin::new(&mut self.writer);
            match stream.poll_write(&mut context, &self.output[self.written..]) {
                Poll::Ready(Ok(n)) => self.wrote(n),
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn wrote(&mut self, n: usize) {
        self.written += n;
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
            if self.output.capacity() > 4 * WRITE_HIGH {
                self.output.shrink_to(WRITE_HIGH);
            }
        } else if self.written > WRITE_HIGH {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }
}

async fn writable<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> std::io::Result<usize> {
    let n = stream.write(bytes).await?;
    if n == 0 { Err(std::io::ErrorKind::WriteZero.into()) } else { Ok(n) }
}

fn xid_of(bytes: &[u8]) -> Xid {
    Header::parse(bytes).map_or(Xid(0), |h| h.xid)
}

/// Messages that a slave may not send (1.3.5 §6.3.6).
fn changes_state(message: &Message) -> bool {
    match message {
        Message::PacketOut(_)
        | Message::FlowMod(_)
        | Message::GroupMod(_)
        | Message::PortMod(_)
        | Message::MeterMod(_)
        | Message::TableMod(_) => true,
        Message::MultipartRequest(request) => {
            matches!(&request.body, MultipartRequestBody::TableFeatures(t) if !t.is_empty())
        }
        _ => false,
    }
}
