//! The memory that a socket shares with the kernel, in chunks of [`CHUNK_BYTES`].
//!
//! A [`Chunk`] is a token: who holds it may access that chunk; it is made when the kernel (or, at
//! the start, nobody) gives the chunk to us, and spent when we give it to the kernel.
//!
//! Invariant: for each chunk there is at most one token, and none while the kernel has it.
#![allow(unsafe_code)]

use std::io;

use crate::sys::Mapping;

/// Bytes of a chunk: one page.
pub(crate) const CHUNK_BYTES: usize = 4096;

/// The right to access one chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    index: u32,
}

/// The memory.
pub(crate) struct Umem {
    memory: Mapping,
    chunks: u32,
}

impl Umem {
    /// Memory of so many chunks, and the tokens for them all.
    pub(crate) fn new(chunks: u32) -> io::Result<(Umem, Vec<Chunk>)> {
        let memory = Mapping::anonymous(chunks as usize * CHUNK_BYTES)?;
        let tokens = (0..chunks).map(|index| Chunk { index }).collect();
        Ok((Umem { memory, chunks }, tokens))
    }

    /// The mapping, to be registered.
    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// Takes back a chunk that the kernel has handed over by naming an address in it; `None` if the
    /// address is outside. The kernel names a chunk only when it has done with it, once.
    pub(crate) fn reclaim(&self, address: u64) -> Option<Chunk> {
        let index = u32::try_from(address / CHUNK_BYTES as u64).ok()?;
        (index < self.chunks).then_some(Chunk { index })
    }

    /// The bytes of a frame that the kernel has put at `address`, which lies in `chunk`; `None` if
    /// they do not lie within it.
    pub(crate) fn bytes(&self, chunk: &Chunk, address: u64, len: u32) -> Option<&[u8]> {
        let within = usize::try_from(address.checked_sub(chunk.address())?).ok()?;
        let len = len as usize;
        if within.checked_add(len)? > CHUNK_BYTES {
            return None;
        }
        let at = chunk.index as usize * CHUNK_BYTES + within;
        // SAFETY: the range lies within one chunk of the mapping, as just checked; the token says
        // that neither the kernel nor anyone else writes to it while `chunk` is borrowed.
        Some(unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().add(at), len) })
    }

    /// Copies `data` to the start of `chunk`; false if it does not fit.
    pub(crate) fn fill(&self, chunk: &mut Chunk, data: &[u8]) -> bool {
        if data.len() > CHUNK_BYTES {
            return false;
        }
        let at = chunk.index as usize * CHUNK_BYTES;
        // SAFETY: the range lies within one chunk of the mapping; the exclusively borrowed token
        // says that nobody else accesses it, so `data` cannot overlap it.
        unsafe {
            let start = self.memory.start().as_ptr().add(at);
            std::ptr::copy_nonoverlapping(data.as_ptr(), start, data.len());
        }
        true
    }
}

impl Chunk {
    /// Its address as the kernel names it: the offset in the memory.
    pub(crate) fn address(&self) -> u64 {
        u64::from(self.index) * CHUNK_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_chunks() {
        let (umem, mut chunks) = Umem::new(2).unwrap();
        assert!(umem.fill(&mut chunks[1], &[7; CHUNK_BYTES]));
        assert!(!umem.fill(&mut chunks[1], &[7; CHUNK_BYTES + 1]));
        assert_eq!(umem.bytes(&chunks[0], 10, 4), Some([0; 4].as_slice()));
        assert_eq!(umem.bytes(&chunks[1], 4096 + 4092, 4), Some([7; 4].as_slice()));
        assert_eq!(umem.bytes(&chunks[1], 4096 + 4093, 4), None);
        assert_eq!(umem.bytes(&chunks[1], 0, 4), None);
        assert_eq!(umem.bytes(&chunks[1], u64::MAX, u32::MAX), None);
        assert_eq!(umem.reclaim(8191).unwrap().address(), 4096);
        assert!(umem.reclaim(8192).is_none() && umem.reclaim(u64::MAX).is_none());
    }
}
