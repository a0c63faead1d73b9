//! Capture files as ports: frames from a file, frames into a file.
//!
//! Reading understands pcap (microseconds and nanoseconds) and pcapng (several sections and
//! interfaces, any resolution), in either byte order, as a stream: [`reader`]. Writing is pcap with
//! nanoseconds: [`writer`]; or pcapng, with comments: [`ng`]. The formats are those of the IETF drafts *PCAP Capture File Format* and
//! *PCAPNG*.
//!
//! A port reads as fast as it is polled and does not honour the file's times, which frames carry in
//! `rx_ns`. With `loop` it starts again at the end, and never ends.
//!
//! What cannot be written is no sent frame: it is counted as lost, and said once (`output`).
//!
//! Invariants: malformed input gives an error that names the offset, never a panic, and never more
//! memory than the longest record allowed ([`RECORD_MAX`]); an error ends the queue.
//! Checked by: tests here and the fuzz target `pcap` ([`fuzz()`]).

mod error;
mod format;
mod kind;
pub mod ng;
mod output;
pub mod reader;
pub mod writer;

use std::fs::File;
use std::io::{BufReader, Seek};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use error::PcapError;
pub use format::{LINKTYPE_ETHERNET, RECORD_MAX};
pub use kind::KIND;
pub use ng::NgWriter;
pub use reader::{Reader, Record};
pub use writer::Writer;

use crate::{
    Burst, DropReason, Error, Frame, LinkState, Pool, Port, PortInfo, RxError, RxQueue, TxQueue,
    TxReport, gso,
};

/// The control side of a port made of capture files.
pub struct Pcap {
    info: PortInfo,
    admin_up: bool,
    rx: Option<(PathBuf, bool)>,
    rx_open: bool,
    tx: Option<Arc<Mutex<Written>>>,
}

type Written = output::Output<output::Target>;

impl Pcap {
    /// A port that receives from `rx`, again and again if `repeat`, and writes to `tx`, which is
    /// made anew. Without `rx` it never receives; without `tx` what is sent to it vanishes, counted
    /// as sent.
    pub fn open(
        name: &str,
        rx: Option<&Path>,
        tx: Option<&Path>,
        repeat: bool,
    ) -> Result<Pcap, Error> {
        if let Some(path) = rx {
            // A file that cannot be read is told at once, not at the first burst.
            open_reader(path)?;
        }
        if let (Some(rx), Some(tx)) = (rx, tx)
            && let (Ok(from), Ok(to)) = (std::fs::metadata(rx), std::fs::metadata(tx))
            && (from.dev(), from.ino()) == (to.dev(), to.ino())
        {
            let what = "it is read, and would be made anew to be written; give tx= another file";
            let name = tx.display().to_string();
            return Err(Error::Unsupported { name, what: what.to_owned() });
        }
        let mut warnings = Vec::new();
        let output = match tx {
            None => None,
            Some(path) => {
                let mut output = output::open(path)?;
                if let Err(error) = output.begin() {
                    warnings.push(format!(
                        "{} cannot be written: {error}; frames are lost (tx_io) until it can",
                        path.display()
                    ));
                }
                Some(Arc::new(Mutex::new(output)))
            }
        };
        let info = PortInfo {
            name: name.to_owned(),
            kind: "pcap",
            mac: crate::mac_of_name(name),
            mtu: 65_535,
            curr_speed_kbps: 0,
            carries_offload: false,
            described: false,
            rx_queues: 1,
            warnings,
        };
        let rx = rx.map(|path| (path.to_owned(), repeat));
        Ok(Pcap { info, admin_up: true, rx, rx_open: false, tx: output })
    }
}

fn open_reader(path: &Path) -> Result<Reader<BufReader<File>>, Error> {
    let name = path.display().to_string();
    // A pipe would let whoever opens and reads it wait for who writes.
    let about = std::fs::metadata(path).map_err(|e| Error::io(&name, "opening the file", "", e))?;
    if !about.is_file() {
        let what = "is no file: a capture is received from a file that can be read again";
        return Err(Error::Unsupported { name, what: what.to_owned() });
    }
    let file = File::open(path).map_err(|e| Error::io(&name, "opening the file", "", e))?;
    Reader::new(BufReader::with_capacity(256 * 1024, file))
        .map_err(|source| Error::Pcap { name, source })
}

impl Port for Pcap {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn link(&mut self) -> LinkState {
        LinkState { admin_up: self.admin_up, carrier: self.admin_up, present: true }
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        self.admin_up = up;
        Ok(())
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, self.rx_open)?;
        let source = match &self.rx {
            None => None,
            Some((path, repeat)) => Some((open_reader(path)?, *repeat)),
        };
        self.rx_open = true;
        Ok(Box::new(Rx { source, in_pass: 0 }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let output = self.tx.clone();
        let report = TxReport::default();
        Ok(Box::new(Tx { output, pending: Vec::new(), spare: Pool::default(), report }))
    }
}

struct Rx {
    source: Option<(Reader<BufReader<File>>, bool)>,
    /// Frames read since the file's start: an empty file is not repeated for ever.
    in_pass: u64,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let mut added = 0;
        while !burst.is_full() {
            let Some((reader, repeat)) = &mut self.source else {
                return if added > 0 { Ok(added) } else { Err(RxError::Ended) };
            };
            match reader.next_record() {
                Ok(Some(record)) => {
                    let mut frame = pool.copy_of(record.data);
                    frame.rx_ns = record.ns;
                    self.in_pass += 1;
                    // The loop runs only while there is room.
                    drop(burst.push(frame));
                    added += 1;
                }
                // A burst ends with the file, so that an error never follows frames.
                Ok(None) if added > 0 => return Ok(added),
                Ok(None) if *repeat && self.in_pass > 0 => {
                    self.in_pass = 0;
                    reader.rewind()?;
                }
                Ok(None) => self.source = None,
                // What came before the error is handed over first; the reader repeats its error.
                Err(_) if added > 0 => return Ok(added),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(added)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Tx {
    output: Option<Arc<Mutex<Written>>>,
    pending: Vec<(u64, Frame)>,
    spare: Pool,
    report: TxReport,
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let now = crate::now_ns();
        let pending = &mut self.pending;
        gso::complete(frame, &mut self.spare, |part| pending.push((now, part)))
    }

    fn flush(&mut self) -> TxReport {
        if self.pending.is_empty() {
            return std::mem::take(&mut self.report);
        }
        let (written, reason) = match &self.output {
            None => (self.pending.len(), DropReason::TxIo),
            Some(output) => {
                let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                output.add(self.pending.iter().map(|(ns, frame)| (*ns, frame.data())))
            }
        };
        self.report.drops.add(reason, (self.pending.len() - written) as u64);
        for (at, (_, frame)) in self.pending.drain(..).enumerate() {
            if at < written {
                self.report.count_sent(frame.len());
            }
            self.spare.give(frame);
        }
        std::mem::take(&mut self.report)
    }
}

impl<R: std::io::Read + Seek> Reader<R> {
    /// Starts again at the first record.
    pub fn rewind(&mut self) -> Result<(), PcapError> {
        self.restart(|source| source.rewind())
    }
}

/// Body of the fuzz target: any bytes give records or an error; what was read can be written and
/// read again.
pub fn fuzz(data: &[u8]) {
    let Ok(mut reader) = Reader::new(data) else { return };
    let mut writer = Writer::new(Vec::new()).expect("writing to memory");
    let mut records = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.data.len() <= RECORD_MAX);
        records.push((record.ns, record.data.to_vec()));
        writer.write(record.ns, record.data).expect("writing to memory");
    }
    let bytes = writer.into_inner().expect("writing to memory");
    let mut again = Reader::new(bytes.as_slice()).expect("what we wrote");
    for (ns, data) in &records {
        let record = again.next_record().expect("what we wrote").expect("as many records");
        assert_eq!(record.data, data);
        // pcap keeps seconds in 32 bits.
        if ns / 1_000_000_000 <= u64::from(u32::MAX) {
            assert_eq!(record.ns, *ns);
        }
    }
    assert!(again.next_record().expect("what we wrote").is_none());
}

#[cfg(test)]
mod tests;
