//! Writes pcapng: several interfaces, nanoseconds, a comment with each packet.
//!
//! Blocks are those of the IETF draft *PCAPNG*, in native byte order: a section header, an interface
//! description for each interface (§4.2), enhanced packets (§4.3), interface statistics (§4.6). What
//! is written is handed on at once by [`NgWriter::flush`], so that a reader at the other end of a pipe
//! sees packets as they come.
//!
//! Checked by: `tests`, which read back what was written.

use std::io::{self, Write};

use super::format::{LINKTYPE_ETHERNET, RECORD_MAX};

/// Which way a frame went, of the interface that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came in.
    In,
    /// It went out.
    Out,
}

/// A frame to be written.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Nanoseconds since the Unix epoch.
    pub ns: u64,
    /// The bytes kept.
    pub data: &'a [u8],
    /// How many there were.
    pub len: usize,
    /// Which way it went.
    pub direction: Direction,
    /// What there is to say of it; nothing if empty.
    pub comment: &'a str,
}

/// A pcapng file being written.
pub struct NgWriter<W: Write> {
    sink: io::BufWriter<W>,
    block: Vec<u8>,
    interfaces: u32,
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const ENHANCED: u32 = 6;
/// Options: a comment; an interface's name and resolution; a packet's flags; frames that an interface
/// lost.
const OPT_COMMENT: u16 = 1;
const OPT_NAME: u16 = 2;
const OPT_FLAGS: u16 = 2;
const OPT_LOST: u16 = 5;
const OPT_RESOLUTION: u16 = 9;
const OPT_APPLICATION: u16 = 4;
/// A comment is cut after so many bytes.
const TEXT_MAX: usize = 1024;

impl<W: Write> NgWriter<W> {
    /// Starts a file; `application` is who writes it.
    pub fn new(sink: W, application: &str) -> io::Result<NgWriter<W>> {
        let sink = io::BufWriter::with_capacity(64 * 1024, sink);
        let mut writer = NgWriter { sink, block: Vec::new(), interfaces: 0 };
        writer.begin(SECTION);
        writer.word(0x1a2b_3c4d);
        // Version 1.0, and a length that is not known.
        writer.half(1);
        writer.half(0);
        writer.word(u32::MAX);
        writer.word(u32::MAX);
        writer.option(OPT_APPLICATION, cut(application).as_bytes());
        writer.end_of_options();
        writer.write_block()?;
        Ok(writer)
    }

    /// Describes one more interface; its number is what its packets are written with.
    pub fn interface(&mut self, name: &str) -> io::Result<u32> {
        self.begin(INTERFACE);
        self.half(LINKTYPE_ETHERNET as u16);
        self.half(0);
        self.word(RECORD_MAX as u32);
        self.option(OPT_NAME, cut(name).as_bytes());
        self.option(OPT_RESOLUTION, &[9]);
        self.end_of_options();
        self.write_block()?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Adds a frame of an interface. More than [`RECORD_MAX`] bytes are cut.
    pub fn packet(&mut self, interface: u32, packet: Packet<'_>) -> io::Result<()> {
        let data = &packet.data[..packet.data.len().min(RECORD_MAX)];
        self.begin(ENHANCED);
        self.word(interface);
        self.word((packet.ns >> 32) as u32);
        self.word(packet.ns as u32);
        self.word(data.len() as u32);
        self.word(u32::try_from(packet.len.max(data.len())).unwrap_or(u32::MAX));
        self.bytes(data);
        let flags = match packet.direction {
            Direction::In => 1u32,
            Direction::Out => 2,
        };
        self.option(OPT_FLAGS, &flags.to_ne_bytes());
        if !packet.comment.is_empty() {
            self.option(OPT_COMMENT, cut(packet.comment).as_bytes());
        }
        self.end_of_options();
        self.write_block()
    }

    /// Says that so many of an interface's frames were not written, up to this time in nanoseconds
    /// since the Unix epoch.
    pub fn lost(&mut self, interface: u32, ns: u64, frames: u64) -> io::Result<()> {
        self.begin(STATISTICS);
        self.word(interface);
        self.word((ns >> 32) as u32);
        self.word(ns as u32);
        self.option(OPT_LOST, &frames.to_ne_bytes());
        self.end_of_options();
        self.write_block()
    }

    /// Hands everything written on.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.word(kind);
        // The length stands here in the end.
        self.word(0);
    }

    fn word(&mut self, word: u32) {
        self.block.extend_from_slice(&word.to_ne_bytes());
    }

    fn half(&mut self, half: u16) {
        self.block.extend_from_slice(&half.to_ne_bytes());
    }

    /// Bytes, filled up to whole words.
    fn bytes(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.half(code);
        self.half(value.len() as u16);
        self.bytes(value);
    }

    fn end_of_options(&mut self) {
        self.word(0);
    }

    fn write_block(&mut self) -> io::Result<()> {
        let len = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&len.to_ne_bytes());
        self.word(len);
        self.sink.write_all(&self.block)
    }
}

/// As much of a text as is kept.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap::Reader;

    #[test]
    fn what_is_written_is_read_back() {
        let mut file = Vec::new();
        let mut writer = NgWriter::new(&mut file, "millrace").unwrap();
        let first = writer.interface("eth0").unwrap();
        let long = "ä".repeat(TEXT_MAX);
        let mut expected = Vec::new();
        for (n, comment) in ["", "dropped: table_miss", &long].into_iter().enumerate() {
            // A second interface may be described between packets.
            let interface = if n == 1 { writer.interface("tap3").unwrap() } else { first };
            let data = vec![n as u8; 60 + n];
            let ns = 1_700_000_000_123_456_789 + n as u64;
            let direction = if n == 2 { Direction::Out } else { Direction::In };
            let packet = Packet { ns, data: &data, len: 2000, direction, comment };
            writer.packet(interface, packet).unwrap();
            expected.push((ns, data));
        }
        writer.lost(first, 1_700_000_000_123_456_799, 7).unwrap();
        writer.flush().unwrap();
        drop(writer);
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut read = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            read.push((record.ns, record.data.to_vec()));
        }
        assert_eq!(read, expected);
        let text = String::from_utf8_lossy(&file);
        assert!(text.contains("dropped: table_miss") && text.contains("tap3"));
    }
}
