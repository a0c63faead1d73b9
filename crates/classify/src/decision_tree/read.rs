//! Fields of a key, read when they are asked for.

use crate::rule::Layout;

/// Pieces of a key, at most.
pub(super) const PIECES_MAX: usize = 32;

/// A key whose fields are somewhere else.
pub trait Fields {
    /// A field of at most eight octets, as a number.
    fn word(&mut self, field: usize) -> u64;

    /// A field's octets, right-aligned and big-endian: as many as the layout says.
    fn bytes(&mut self, field: usize, out: &mut [u8]);
}

/// Fields of a packed key.
impl Fields for (&Layout, &[u8]) {
    fn word(&mut self, field: usize) -> u64 {
        let field = &self.0.fields()[field];
        number(&self.1[field.offset..field.offset + field.len])
    }

    fn bytes(&mut self, field: usize, out: &mut [u8]) {
        let field = &self.0.fields()[field];
        out.copy_from_slice(&self.1[field.offset..field.offset + field.len]);
    }
}

/// Up to eight octets as a number.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// A piece of a key: up to eight octets of one field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) field: u8,
    /// Octets of the field.
    pub(super) field_len: u8,
    /// Where it begins in the field, and in the packed key.
    pub(super) within: u8,
    pub(super) offset: u32,
    pub(super) len: u8,
}

/// How a key is cut into pieces.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pub(super) list: Box<[Piece]>,
}

/// Longest field, in octets.
const FIELD_MAX: usize = 128;

impl Pieces {
    pub(super) fn of(layout: &Layout) -> Option<Pieces> {
        let mut list = Vec::new();
        for (number, field) in layout.fields().iter().enumerate() {
            if field.len > FIELD_MAX {
                return None;
            }
            for within in (0..field.len).step_by(8) {
                list.push(Piece {
                    field: u8::try_from(number).ok()?,
                    field_len: field.len as u8,
                    within: within as u8,
                    offset: u32::try_from(field.offset + within).ok()?,
                    len: (field.len - within).min(8) as u8,
                });
            }
        }
        (list.len() <= PIECES_MAX).then(|| Pieces { list: list.into() })
    }
}

/// What has been read of a key.
pub(super) struct Read<'a> {
    pieces: &'a Pieces,
    key: &'a mut dyn Fields,
    values: [u64; PIECES_MAX],
    /// By bit: the piece was read.
    have: u32,
}

impl<'a> Read<'a> {
    #[inline]
    pub(super) fn new(pieces: &'a Pieces, key: &'a mut dyn Fields) -> Read<'a> {
        Read { pieces, key, values: [0; PIECES_MAX], have: 0 }
    }

    #[inline]
    pub(super) fn piece(&mut self, piece: u8) -> u64 {
        if self.have >> piece & 1 == 0 {
            self.fetch(piece);
        }
        self.values[usize::from(piece) % PIECES_MAX]
    }

    fn fetch(&mut self, piece: u8) {
        let wanted = self.pieces.list[usize::from(piece)];
        if wanted.field_len <= 8 {
            self.values[usize::from(piece)] = self.key.word(usize::from(wanted.field));
            self.have |= 1 << piece;
            return;
        }
        let mut room = [0; FIELD_MAX];
        let bytes = &mut room[..usize::from(wanted.field_len)];
        self.key.bytes(usize::from(wanted.field), bytes);
        for (at, piece) in self.pieces.list.iter().enumerate() {
            if piece.field == wanted.field {
                let within = usize::from(piece.within);
                self.values[at] = number(&bytes[within..within + usize::from(piece.len)]);
                self.have |= 1 << at;
            }
        }
    }
}
