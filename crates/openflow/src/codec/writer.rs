//! Writing bytes in network order at the end of a vector.

use crate::ids::{Age, MacAddr};

/// What the encoders call on the message's bytes.
pub(crate) trait Put {
    fn put_u8(&mut self, v: u8);
    fn put_u16(&mut self, v: u16);
    fn put_u32(&mut self, v: u32);
    fn put_u64(&mut self, v: u64);
    fn put_mac(&mut self, v: MacAddr);
    fn put_age(&mut self, v: Age);
    /// `n` zero bytes.
    fn pad(&mut self, n: usize);
    /// Zero bytes until the length from `start` on is a multiple of 8.
    fn pad_to_8(&mut self, start: usize);
    /// The low `n` bytes of a number, `n` at most 16.
    fn put_number(&mut self, v: u128, n: usize);
    /// A text in `n` bytes: cut, at a character's end, to leave room for a NUL.
    fn put_text(&mut self, v: &str, n: usize);
    /// Writes the length from `start` to the end as 16 bits at `at`. A length beyond 16 bits means
    /// that the message is too long, which the caller checks once, at its end.
    fn patch_length(&mut self, at: usize, start: usize);
}

impl Put for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }

    #[inline]
    fn put_u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_be_bytes());
    }

    #[inline]
    fn put_u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_be_bytes());
    }

    #[inline]
    fn put_u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_be_bytes());
    }

    fn put_mac(&mut self, v: MacAddr) {
        self.extend_from_slice(&v.0);
    }

    fn put_age(&mut self, v: Age) {
        self.put_u32(v.sec);
        self.put_u32(v.nsec);
    }

    #[inline]
    fn pad(&mut self, n: usize) {
        self.resize(self.len() + n, 0);
    }

    fn pad_to_8(&mut self, start: usize) {
        let length = self.len() - start;
        self.pad(length.next_multiple_of(8) - length);
    }

    #[inline]
    fn put_number(&mut self, v: u128, n: usize) {
        self.extend_from_slice(&v.to_be_bytes()[16 - n..]);
    }

    fn put_text(&mut self, v: &str, n: usize) {
        let end = v.floor_char_boundary(n - 1);
        self.extend_from_slice(&v.as_bytes()[..end]);
        self.pad(n - end);
    }

    fn patch_length(&mut self, at: usize, start: usize) {
        let length = (self.len() - start) as u16;
        self[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }
}
