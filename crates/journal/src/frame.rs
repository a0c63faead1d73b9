//! Frames: length, checksum, sequence number, payload.
//!
//! ```text
//! u32 length of the payload | u32 CRC32C of length, number and payload | u64 sequence number | payload
//! ```
//!
//! Numbers are little-endian. A reader takes frames as long as each is whole, its checksum is right and its number is the one
//! that follows; the rest is cut off.

/// Bytes before a payload.
pub const HEAD: usize = 16;

/// The table of CRC32C (Castagnoli), for eight bytes at a time.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The CRC32C of these bytes behind those that `crc` is of; 0 is of none.
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    let mut crc = !crc;
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let low = u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]) ^ crc;
        let low = low.to_le_bytes();
        crc = TABLES[7][usize::from(low[0])]
            ^ TABLES[6][usize::from(low[1])]
            ^ TABLES[5][usize::from(low[2])]
            ^ TABLES[4][usize::from(low[3])]
            ^ TABLES[3][usize::from(eight[4])]
            ^ TABLES[2][usize::from(eight[5])]
            ^ TABLES[1][usize::from(eight[6])]
            ^ TABLES[0][usize::from(eight[7])];
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

/// Appends a frame. A payload of 4 GiB or more is none.
#[must_use]
pub fn push(out: &mut Vec<u8>, sequence: u64, payload: &[u8]) -> bool {
    let Ok(length) = u32::try_from(payload.len()) else { return false };
    let (length, sequence) = (length.to_le_bytes(), sequence.to_le_bytes());
    let crc = crc32c(crc32c(crc32c(0, &length), &sequence), payload);
    out.reserve(HEAD + payload.len());
    out.extend_from_slice(&length);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&sequence);
    out.extend_from_slice(payload);
    true
}

/// The frames of a file, as far as they are right.
pub struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
    next: u64,
}

impl<'a> Frames<'a> {
    /// The first one has this number.
    pub fn new(bytes: &'a [u8], first: u64) -> Frames<'a> {
        Frames { bytes, at: 0, next: first }
    }

    /// From here on numbers begin with this one.
    pub fn renumber(&mut self, next: u64) {
        self.next = next;
    }

    /// The number that the next frame has.
    pub fn sequence(&self) -> u64 {
        self.next
    }

    /// Bytes of the frames that were read.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Bytes behind them.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let length: [u8; 4] = number(rest, 0)?;
        let crc = u32::from_le_bytes(number(rest, 4)?);
        let sequence: [u8; 8] = number(rest, 8)?;
        let end = HEAD.checked_add(u32::from_le_bytes(length) as usize)?;
        let payload = rest.get(HEAD..end)?;
        let right = crc32c(crc32c(crc32c(0, &length), &sequence), payload) == crc;
        if !right || u64::from_le_bytes(sequence) != self.next {
            return None;
        }
        self.at += end;
        self.next = self.next.wrapping_add(1);
        Some(payload)
    }
}
