//! Reads pcap and pcapng as a stream, record by record.

use std::io::{self, Read};

use super::error::PcapError;
use super::format::{LINKTYPE_ETHERNET, RECORD_MAX};

const PCAP_US: u32 = 0xa1b2_c3d4;
const PCAP_NS: u32 = 0xa1b2_3c4d;
const NG_SECTION: u32 = 0x0a0d_0d0a;
const NG_INTERFACE: u32 = 1;
const NG_SIMPLE: u32 = 3;
const NG_ENHANCED: u32 = 6;
const NG_BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// `if_tsresol` and `if_tsoffset`.
const OPT_RESOLUTION: u16 = 9;
const OPT_OFFSET: u16 = 14;
/// Interfaces a section may describe; more are a damaged file.
const INTERFACES_MAX: usize = 65_536;
/// The longest block: a packet, its options.
const BLOCK_MAX: usize = RECORD_MAX + 64 * 1024;

/// One captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When: nanoseconds since the Unix epoch; 0 where the file does not say.
    pub ns: u64,
    /// The bytes captured.
    pub data: &'a [u8],
}

/// A capture file being read.
pub struct Reader<R> {
    source: R,
    at: u64,
    buffer: Vec<u8>,
    format: Format,
    failed: Option<PcapError>,
}

enum Format {
    Pcap { swapped: bool, ns_per_unit: u64 },
    Ng { swapped: bool, interfaces: Vec<Interface> },
}

/// What a pcapng section said of an interface.
#[derive(Clone, Copy)]
struct Interface {
    /// Units of a second in a time: a power of ten or of two.
    resolution: Resolution,
    offset_s: i64,
    snap_len: u32,
}

#[derive(Clone, Copy)]
enum Resolution {
    Decimal(u32),
    Binary(u32),
}

impl<R: Read> Reader<R> {
    /// Reads the file's header.
    pub fn new(source: R) -> Result<Reader<R>, PcapError> {
        let format = Format::Pcap { swapped: false, ns_per_unit: 1 };
        let mut reader = Reader { source, at: 0, buffer: Vec::new(), format, failed: None };
        reader.read_header()?;
        Ok(reader)
    }

    /// The next frame; `None` at the end. After an error, the same error again.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, PcapError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let found = match self.format {
            Format::Pcap { swapped, ns_per_unit } => self.next_pcap(swapped, ns_per_unit),
            Format::Ng { .. } => self.next_ng(),
        };
        match found {
            Ok(Some((ns, range))) => Ok(Some(Record { ns, data: &self.buffer[range] })),
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    /// Starts again, after `rewind` has brought the source back to its start.
    pub(super) fn restart(
        &mut self,
        rewind: impl FnOnce(&mut R) -> io::Result<()>,
    ) -> Result<(), PcapError> {
        rewind(&mut self.source).map_err(|e| PcapError::Io { at: self.at, kind: e.kind() })?;
        self.at = 0;
        self.failed = None;
        self.read_header()
    }

    fn read_header(&mut self) -> Result<(), PcapError> {
        self.fill(4, "the file's header")?;
        let magic = word(&self.buffer, 0, false);
        if magic == NG_SECTION {
            return self.start_section(0);
        }
        let (swapped, ns_per_unit) = match (magic, magic.swap_bytes()) {
            (PCAP_US, _) => (false, 1000),
            (PCAP_NS, _) => (false, 1),
            (_, PCAP_US) => (true, 1000),
            (_, PCAP_NS) => (true, 1),
            _ => return Err(PcapError::Magic(magic)),
        };
        self.fill(20, "the file's header")?;
        // The upper bits tell of frame checksums at the end of records.
        let linktype = word(&self.buffer, 16, swapped) & 0x0fff_ffff;
        if linktype != LINKTYPE_ETHERNET {
            return Err(PcapError::LinkType { at: 20, linktype });
        }
        self.format = Format::Pcap { swapped, ns_per_unit };
        Ok(())
    }

    fn next_pcap(&mut self, swapped: bool, ns_per_unit: u64) -> Found {
        let at = self.at;
        if !self.fill_or_end(16, "a record's header")? {
            return Ok(None);
        }
        let field = |place| u64::from(word(&self.buffer, place, swapped));
        let ns = field(0) * 1_000_000_000 + field(4) * ns_per_unit;
        let len = field(8);
        if len > RECORD_MAX as u64 {
            let wanted = "at most 262144";
            return Err(PcapError::Length { at: at + 8, what: "a record", len, wanted });
        }
        self.fill(len as usize, "a record")?;
        Ok(Some((ns, 0..len as usize)))
    }

    /// Reads blocks until one holds a packet.
    fn next_ng(&mut self) -> Found {
        loop {
            let at = self.at;
            if !self.fill_or_end(4, "a block's header")? {
                return Ok(None);
            }
            if word(&self.buffer, 0, false) == NG_SECTION {
                self.start_section(at)?;
                continue;
            }
            let Format::Ng { swapped, interfaces } = &self.format else { return Ok(None) };
            let (swapped, described) = (*swapped, interfaces.len());
            let kind = word(&self.buffer, 0, swapped);
            self.fill(4, "a block's header")?;
            let len = word(&self.buffer, 0, swapped);
            self.read_block(at, len, 8, swapped)?;
            let body = self.buffer.len() - 4;
            match kind {
                NG_INTERFACE => self.describe(at, body, swapped)?,
                NG_ENHANCED => {
                    if body < 20 {
                        return Err(too_short(at, "a packet block", len, "at least 32"));
                    }
                    let interface = word(&self.buffer, 0, swapped);
                    let described_as = self.interface(at, interface, described)?;
                    let high = u64::from(word(&self.buffer, 4, swapped));
                    let units = high << 32 | u64::from(word(&self.buffer, 8, swapped));
                    let captured = word(&self.buffer, 12, swapped) as usize;
                    if captured > body - 20 || captured > RECORD_MAX {
                        let (what, wanted) = ("a captured packet", "what its block holds");
                        let (at, len) = (at + 20, captured as u64);
                        return Err(PcapError::Length { at, what, len, wanted });
                    }
                    return Ok(Some((described_as.ns(units), 20..20 + captured)));
                }
                NG_SIMPLE => {
                    if body < 4 {
                        return Err(too_short(at, "a packet block", len, "at least 16"));
                    }
                    let snap_len = match self.interface(at, 0, described)?.snap_len {
                        0 => usize::MAX,
                        limit => limit as usize,
                    };
                    let original = word(&self.buffer, 0, swapped) as usize;
                    let captured = original.min(snap_len).min(body - 4);
                    if captured > RECORD_MAX {
                        let (what, len) = ("a captured packet", captured as u64);
                        let wanted = "at most 262144";
                        return Err(PcapError::Length { at: at + 8, what, len, wanted });
                    }
                    return Ok(Some((0, 4..4 + captured)));
                }
                // Name resolution, statistics, custom blocks: nothing for us.
                _ => {}
            }
        }
    }

    /// Reads a section header whose type has just been read at `at`.
    fn start_section(&mut self, at: u64) -> Result<(), PcapError> {
        self.fill(8, "a section header")?;
        let swapped = match word(&self.buffer, 4, false) {
            NG_BYTE_ORDER => false,
            magic if magic.swap_bytes() == NG_BYTE_ORDER => true,
            magic => return Err(PcapError::ByteOrder { at, magic }),
        };
        let len = word(&self.buffer, 0, swapped);
        self.read_block(at, len, 12, swapped)?;
        self.format = Format::Ng { swapped, interfaces: Vec::new() };
        Ok(())
    }

    /// Reads the rest of a block of `len` bytes of which `done` are read: into the buffer, with the
    /// repeated length at its end.
    fn read_block(
        &mut self,
        at: u64,
        len: u32,
        done: usize,
        swapped: bool,
    ) -> Result<(), PcapError> {
        let total = len as usize;
        if total < done + 4 || !total.is_multiple_of(4) || total > BLOCK_MAX {
            return Err(too_short(at, "a block", len, "a multiple of 4, from 12 to 327680"));
        }
        self.fill(total - done, "a block")?;
        let repeated = word(&self.buffer, total - done - 4, swapped);
        if repeated != len {
            let at = at + u64::from(len) - 4;
            let wanted = "the same length as at its start";
            return Err(PcapError::Length { at, what: "a block", len: repeated.into(), wanted });
        }
        Ok(())
    }

    /// Adds the interface that the buffer describes in its first `body` bytes.
    fn describe(&mut self, at: u64, body: usize, swapped: bool) -> Result<(), PcapError> {
        if body < 8 {
            let len = body as u32 + 12;
            return Err(too_short(at, "an interface block", len, "at least 20"));
        }
        let linktype = u32::from(half(&self.buffer, 0, swapped));
        if linktype != LINKTYPE_ETHERNET {
            return Err(PcapError::LinkType { at: at + 8, linktype });
        }
        let mut interface = Interface {
            resolution: Resolution::Decimal(6),
            offset_s: 0,
            snap_len: word(&self.buffer, 4, swapped),
        };
        let mut place = 8;
        while place + 4 <= body {
            let kind = half(&self.buffer, place, swapped);
            let len = usize::from(half(&self.buffer, place + 2, swapped));
            let Some(value) = self.buffer[..body].get(place + 4..place + 4 + len) else {
                let (at, len) = (at + 8 + place as u64, len as u64);
                let wanted = "what its block holds";
                return Err(PcapError::Length { at, what: "an option", len, wanted });
            };
            match (kind, value) {
                (0, _) => break,
                (OPT_RESOLUTION, &[power]) if power & 0x80 != 0 => {
                    interface.resolution = Resolution::Binary(u32::from(power & 0x7f));
                }
                (OPT_RESOLUTION, &[power]) => {
                    interface.resolution = Resolution::Decimal(power.into());
                }
                (OPT_OFFSET, value) => {
                    if let Ok(bytes) = <[u8; 8]>::try_from(value) {
                        let native = i64::from_ne_bytes(bytes);
                        interface.offset_s = if swapped { native.swap_bytes() } else { native };
                    }
                }
                _ => {}
            }
            place += 4 + len.next_multiple_of(4);
        }
        let Format::Ng { interfaces, .. } = &mut self.format else { return Ok(()) };
        if interfaces.len() == INTERFACES_MAX {
            let (len, wanted) = (interfaces.len() as u64 + 1, "at most 65536 interfaces");
            return Err(PcapError::Length { at, what: "a section's list", len, wanted });
        }
        interfaces.push(interface);
        Ok(())
    }

    fn interface(&self, at: u64, number: u32, described: usize) -> Result<Interface, PcapError> {
        let missing = PcapError::Interface { at, interface: number, described };
        let Format::Ng { interfaces, .. } = &self.format else { return Err(missing) };
        interfaces.get(number as usize).copied().ok_or(missing)
    }

    /// Reads exactly `len` bytes into the buffer.
    fn fill(&mut self, len: usize, what: &'static str) -> Result<(), PcapError> {
        let at = self.at;
        if len == 0 {
            self.buffer.clear();
            return Ok(());
        }
        if self.fill_or_end(len, what)? { Ok(()) } else { Err(PcapError::Truncated { at, what }) }
    }

    /// As [`fill`](Reader::fill); `false` if the source ends before the first byte.
    fn fill_or_end(&mut self, len: usize, what: &'static str) -> Result<bool, PcapError> {
        let at = self.at;
        self.buffer.resize(len, 0);
        let mut filled = 0;
        while filled < len {
            match self.source.read(&mut self.buffer[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(PcapError::Truncated { at, what }),
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(PcapError::Io { at, kind: error.kind() }),
            }
        }
        self.at += len as u64;
        Ok(true)
    }
}

/// A packet: its time, and where in the buffer it lies.
type Found = Result<Option<(u64, std::ops::Range<usize>)>, PcapError>;

impl Interface {
    /// A time in nanoseconds; times beyond 64 bits are cut off at the limits.
    fn ns(&self, units: u64) -> u64 {
        let units = u128::from(units);
        let ns = match self.resolution {
            Resolution::Decimal(power) if power <= 9 => units * 10u128.pow(9 - power),
            Resolution::Decimal(power) => {
                10u128.checked_pow(power - 9).map_or(0, |divisor| units / divisor)
            }
            // At most 2^64 units times 10^9: below 2^94.
            Resolution::Binary(power) => (units * 1_000_000_000) >> power.min(127),
        };
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        let total = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(offset);
        u64::try_from(total.max(0)).unwrap_or(u64::MAX)
    }
}

fn too_short(at: u64, what: &'static str, len: u32, wanted: &'static str) -> PcapError {
    PcapError::Length { at, what, len: len.into(), wanted }
}

fn word(bytes: &[u8], at: usize, swapped: bool) -> u32 {
    let native = u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if swapped { native.swap_bytes() } else { native }
}

fn half(bytes: &[u8], at: usize, swapped: bool) -> u16 {
    let native = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    if swapped { native.swap_bytes() } else { native }
}
