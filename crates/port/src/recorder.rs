//! A port that records what passes through another port, both ways, into one capture file.
//!
//! Frames received are recorded as they came in, frames sent as they were handed over: one that
//! owes offloads stands in the file with a placeholder for its checksum, and one that stands for
//! many segments as one long record.
//!
//! Cost: a copy and a lock a frame. A file that cannot be written stops recording, never traffic;
//! [`Recorder::error`] tells.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::around::Around;
use crate::pcap::Writer;
use crate::{
    Burst, DropReason, Drops, Error, Frame, Pool, Port, RxError, RxQueue, TxQueue, TxReport,
};

/// A port around another.
pub struct Recorder {
    inner: Box<dyn Port>,
    tape: Tape,
}

#[derive(Clone)]
struct Tape(Arc<Mutex<State>>);

struct State {
    writer: Option<Writer<File>>,
    error: Option<io::Error>,
}

impl Recorder {
    /// Records what passes through `inner` into `file`, which is made anew.
    pub fn new(inner: Box<dyn Port>, file: &Path) -> Result<Recorder, Error> {
        let name = file.display().to_string();
        let writer = File::create(file).and_then(Writer::new);
        let writer = writer.map_err(|e| Error::io(&name, "creating the file", "", e))?;
        let state = State { writer: Some(writer), error: None };
        Ok(Recorder { inner, tape: Tape(Arc::new(Mutex::new(state))) })
    }

    /// Why recording stopped, if it did; told once.
    pub fn error(&self) -> Option<io::Error> {
        self.tape.lock().error.take()
    }
}

impl Tape {
    /// The state is whole whatever a holder did: a record is either written or not.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, ns: u64, data: &[u8]) {
        self.lock().attempt(|writer| writer.write(ns, data));
    }

    fn flush(&self) {
        self.lock().attempt(Writer::flush);
    }
}

impl State {
    fn attempt(&mut self, act: impl FnOnce(&mut Writer<File>) -> io::Result<()>) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = act(writer)
        {
            tracing::warn!(%error, "recording stopped");
            self.writer = None;
            self.error = Some(error);
        }
    }
}

impl Around for Recorder {
    fn inner(&self) -> &dyn Port {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Port {
        &mut *self.inner
    }

    fn around_rx(&mut self, inner: Box<dyn RxQueue>) -> Box<dyn RxQueue> {
        Box::new(Rx { inner, tape: self.tape.clone() })
    }

    fn around_tx(&mut self, inner: Box<dyn TxQueue>) -> Box<dyn TxQueue> {
        Box::new(Tx { inner, tape: self.tape.clone() })
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    tape: Tape,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let added = self.inner.rx(burst, pool)?;
        if added > 0 {
            for frame in burst.frames().iter().skip(burst.len() - added) {
                let ns = if frame.rx_ns != 0 { frame.rx_ns } else { crate::now_ns() };
                self.tape.write(ns, frame.data());
            }
            self.tape.flush();
        }
        Ok(added)
    }

    fn local(&self) -> Option<bool> {
        self.inner.local()
    }

    fn done(&mut self) {
        self.inner.done();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn drops(&self) -> Drops {
        self.inner.drops()
    }
}

struct Tx {
    inner: Box<dyn TxQueue>,
    tape: Tape,
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.inner.tx(frame)?;
        self.tape.write(crate::now_ns(), frame.data());
        Ok(())
    }

    fn flush(&mut self) -> TxReport {
        self.tape.flush();
        self.inner.flush()
    }

    fn stamp_departures(&mut self, on: bool) -> bool {
        self.inner.stamp_departures(on)
    }

    fn departures(&mut self, sink: &mut dyn FnMut(u64, u64)) {
        self.inner.departures(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;
    use crate::pcap::Reader;

    #[test]
    fn records_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tape.pcap");
        let (port, far) = memory::port("m", memory::Config::default()).unwrap();
        let mut recorder = Recorder::new(Box::new(port), &path).unwrap();
        let (mut rx, mut tx) = (recorder.rx_queue(0).unwrap(), recorder.tx_queue().unwrap());
        let (mut burst, mut pool) = (Burst::new(), Pool::new());
        burst.push(Frame::copy_of(&[9; 60])).unwrap();
        far.inject_bytes(&[1; 60]);
        rx.rx(&mut burst, &mut pool).unwrap();
        tx.tx(&burst.frames()[1]).unwrap();
        assert!(tx.tx(&Frame::copy_of(&[3; 9])).is_err());
        tx.tx_owned(Frame::copy_of(&[2; 61]), &mut pool).unwrap();
        assert_eq!(tx.flush().sent, 2);
        let file = std::fs::read(&path).unwrap();
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let mut firsts = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            firsts.push(record.data[0]);
        }
        assert_eq!(firsts, [1, 1, 2]);
        assert!(recorder.error().is_none());
    }
}
