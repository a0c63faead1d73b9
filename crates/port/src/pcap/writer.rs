//! Writes pcap files: nanoseconds, native byte order, Ethernet.

use std::io::{self, Write};

use super::format::{LINKTYPE_ETHERNET, RECORD_MAX};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

/// What a file begins with.
pub(super) fn header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_3c4du32.to_ne_bytes());
    header[4..6].copy_from_slice(&2u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4u16.to_ne_bytes());
    header[16..20].copy_from_slice(&(RECORD_MAX as u32).to_ne_bytes());
    header[20..24].copy_from_slice(&LINKTYPE_ETHERNET.to_ne_bytes());
    header
}

fn record_header(ns: u64, data: &[u8]) -> [u8; 16] {
    let words = [
        (ns / 1_000_000_000) as u32,
        (ns % 1_000_000_000) as u32,
        data.len().min(RECORD_MAX) as u32,
        u32::try_from(data.len()).unwrap_or(u32::MAX),
    ];
    let mut header = [0; 16];
    for (place, word) in header.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    header
}

/// Adds a frame's record, as [`Writer::write`] writes it.
pub(super) fn record(out: &mut Vec<u8>, ns: u64, data: &[u8]) {
    out.extend(record_header(ns, data));
    out.extend_from_slice(&data[..data.len().min(RECORD_MAX)]);
}

/// A pcap file being written. [`flush`](Writer::flush) hands everything to the operating system;
/// dropping does so too, but cannot report errors.
pub struct Writer<W: Write> {
    sink: Option<io::BufWriter<W>>,
}

impl<W: Write> Writer<W> {
    /// Starts a file with its header.
    pub fn new(sink: W) -> io::Result<Writer<W>> {
        let mut sink = io::BufWriter::with_capacity(BUFFER_BYTES, sink);
        sink.write_all(&header())?;
        Ok(Writer { sink: Some(sink) })
    }

    /// Adds a frame; `ns` is the time since the Unix epoch. A frame longer than [`RECORD_MAX`] is
    /// cut, and the record says so.
    pub fn write(&mut self, ns: u64, data: &[u8]) -> io::Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let kept = &data[..data.len().min(RECORD_MAX)];
        sink.write_all(&record_header(ns, data))?;
        sink.write_all(kept)
    }

    /// Hands everything written to the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), Write::flush)
    }

    /// Ends the file and returns what it was written to.
    pub fn into_inner(mut self) -> io::Result<W> {
        match self.sink.take() {
            Some(sink) => sink.into_inner().map_err(io::IntoInnerError::into_error),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
