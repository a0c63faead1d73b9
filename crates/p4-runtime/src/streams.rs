//! What waits for each stream: bounded, and nobody waits for who does not read.
//!
//! A notification that finds a stream's queue nearly full is lost and counted, for that stream alone. Answers about
//! arbitration find room that notifications leave; a stream that has none even for them is closed.

use crate::arbitration::StreamId;
use crate::proto::v1;
use std::collections::HashMap;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::Status;
use v1::stream_message_response::Update;

/// Messages that wait for a stream, at most.
const WAITING_MAX: usize = 1024;
/// Of these, so many are for answers.
const RESERVED: usize = 64;

/// What a stream is told.
pub type Told = Result<v1::StreamMessageResponse, Status>;

/// All streams.
#[derive(Debug, Default)]
pub struct Streams {
    open: HashMap<StreamId, Sender<Told>>,
    next: StreamId,
    lost: u64,
}

impl Streams {
    /// A new stream, and what it is told.
    pub fn open(&mut self) -> (StreamId, Receiver<Told>) {
        let (sender, receiver) = channel(WAITING_MAX);
        self.next += 1;
        self.open.insert(self.next, sender);
        (self.next, receiver)
    }

    /// A stream has gone.
    pub fn close(&mut self, stream: StreamId) {
        self.open.remove(&stream);
    }

    /// All have.
    pub fn close_all(&mut self) {
        self.open.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Notifications that streams have lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Answers a stream. It is closed if it has no room.
    pub fn answer(&mut self, stream: StreamId, update: Update) {
        let Some(sender) = self.open.get(&stream) else { return };
        if sender.try_send(Ok(v1::StreamMessageResponse { update: Some(update) })).is_err() {
            tracing::warn!(stream, "a stream that does not read its answers is closed");
            self.open.remove(&stream);
        }
    }

    //= p4runtime-1.5.0 §16: notifications may be lost where a client does not read them; they hold up nothing.
    /// Notifies a stream; says whether there was room.
    pub fn notify(&mut self, stream: StreamId, update: Update) -> bool {
        let Some(sender) = self.open.get(&stream) else { return false };
        let message = Ok(v1::StreamMessageResponse { update: Some(update) });
        let told = sender.capacity() > RESERVED && sender.try_send(message).is_ok();
        if !told {
            self.lost += 1;
        }
        told
    }

    /// Ends a stream with a status.
    pub fn end(&mut self, stream: StreamId, status: Status) {
        if let Some(sender) = self.open.remove(&stream)
            && sender.try_send(Err(status)).is_err()
        {
            tracing::warn!(stream, "a stream that does not read is closed without a status");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_read_loses_its_own() {
        let mut streams = Streams::default();
        let (slow, mut slow_told) = streams.open();
        let (quick, mut quick_told) = streams.open();
        let packet = || Update::Packet(v1::PacketIn::default());
        let arbitration = || Update::Arbitration(v1::MasterArbitrationUpdate::default());
        for _ in 0..2000 {
            streams.notify(slow, packet());
            assert!(streams.notify(quick, packet()));
            assert!(quick_told.try_recv().is_ok());
        }
        assert_eq!(streams.lost(), 2000 - (WAITING_MAX - RESERVED) as u64);
        // There is room for answers, for so many.
        for _ in 0..RESERVED {
            streams.answer(slow, arbitration());
        }
        assert_eq!(streams.len(), 2);
        streams.answer(slow, arbitration());
        assert_eq!(streams.len(), 1);
        let mut told = 0;
        while slow_told.try_recv().is_ok() {
            told += 1;
        }
        assert_eq!(told, WAITING_MAX);
        streams.end(quick, Status::aborted("x"));
        assert!(quick_told.try_recv().unwrap().is_err());
    }
}
