//! Executable memory.
//!
//! The functions of one compilation share one mapping, which is filled while it is writable, then
//! made executable and never written again: no page is ever both. Every [`Entry`] keeps its mapping
//! alive; the last one to go unmaps it.
//!
//! Cost: whole pages per mapping, three system calls; two more on Arm.
//! Checked by: `tests/value.rs`, which looks at the mapping's permissions and at [`live_bytes`].

#![allow(unsafe_code)]

use crate::isa::Machine;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::thread::{MembarrierCommand, membarrier};
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest page there is; where pages are larger, the kernel rounds up.
const PAGE: usize = 4096;

/// Bytes mapped and not yet unmapped, of all compilations.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// How much executable memory is mapped, in bytes.
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Why code could not be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The operating system gave no memory.
    #[error("cannot map {bytes} bytes for code: {error}")]
    Map {
        /// How much was asked for.
        bytes: usize,
        /// What it said.
        error: Errno,
    },
    /// The operating system would not make it executable.
    #[error("cannot make code executable: {error}")]
    Protect {
        /// What it said.
        error: Errno,
    },
}

/// A mapping that holds code.
struct Mapping {
    address: NonNull<c_void>,
    len: usize,
}

// SAFETY: the mapping is plain memory, written only before it is shared; its address means the same
// in every thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; after publication it is only read and executed.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory that can be written.
    fn new(bytes: usize) -> Result<Mapping, Error> {
        let len = bytes.max(1).next_multiple_of(PAGE);
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping, placed by the kernel, overlaps nothing that exists.
        let address = unsafe { mmap_anonymous(ptr::null_mut(), len, prot, flags) }
            .map_err(|error| Error::Map { bytes: len, error })?;
        // The kernel maps nothing at 0 unasked.
        let address =
            NonNull::new(address).ok_or(Error::Map { bytes: len, error: Errno::NOMEM })?;
        LIVE.fetch_add(len, Ordering::Relaxed);
        Ok(Mapping { address, len })
    }

    /// Ends writing.
    fn protect(&self) -> Result<(), Error> {
        let flags = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: the range is exactly this mapping; no reference into it exists.
        unsafe { mprotect(self.address.as_ptr(), self.len, flags) }
            .map_err(|error| Error::Protect { error })?;
        synchronise(self.address.as_ptr().cast(), self.len);
        if cfg!(target_arch = "aarch64") {
            // Other processors may have fetched ahead what was mapped at this address before. Linux
            // before 4.16 cannot interrupt them; there, they forget it at the next context switch.
            let _ = membarrier(MembarrierCommand::RegisterPrivateExpeditedSyncCore)
                .and_then(|()| membarrier(MembarrierCommand::PrivateExpeditedSyncCore));
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping, and this was its last user. It cannot fail for
        // a range that was mapped; if it did, the memory would only stay.
        if unsafe { munmap(self.address.as_ptr(), self.len) }.is_ok() {
            LIVE.fetch_sub(self.len, Ordering::Relaxed);
        }
    }
}

/// A function's machine code, ready to run on any thread.
#[derive(Clone)]
pub struct Entry {
    mapping: Arc<Mapping>,
    start: usize,
    len: usize,
}

impl Entry {
    /// The entry point. It is valid as long as this entry or a clone of it lives; the caller knows
    /// its signature.
    pub fn address(&self) -> *const u8 {
        self.mapping.address.as_ptr().cast::<u8>().wrapping_add(self.start).cast_const()
    }

    /// The code.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start..start + len` was checked against the mapping when code was copied there;
        // the memory is readable, initialised and not written again, and outlives the borrow.
        unsafe { std::slice::from_raw_parts(self.address(), self.len) }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({:p}, {} bytes)", self.address(), self.len)
    }
}

/// Publishes one function.
pub fn publish(machine: &Machine) -> Result<Entry, Error> {
    let mut entries = publish_many(std::slice::from_ref(machine))?;
    entries.pop().ok_or(Error::Map { bytes: 0, error: Errno::INVAL })
}

/// Publishes the functions of one compilation in one mapping; entries are in the same order. No
/// functions, no mapping.
pub fn publish_many(machines: &[Machine]) -> Result<Vec<Entry>, Error> {
    if machines.is_empty() {
        return Ok(Vec::new());
    }
    let mut end = 0;
    let starts: Vec<usize> = machines
        .iter()
        .map(|machine| {
            // A mapping starts on a page, the greatest alignment there can be.
            let start = usize::next_multiple_of(end, (machine.align as usize).max(1));
            end = start + machine.bytes.len();
            start
        })
        .collect();
    let mapping = Mapping::new(end)?;
    for (machine, start) in machines.iter().zip(&starts) {
        let to = mapping.address.as_ptr().cast::<u8>().wrapping_add(*start);
        // SAFETY: `start + bytes.len() <= end <= mapping.len`, the mapping is writable, new, and
        // referred to by nothing else.
        unsafe { ptr::copy_nonoverlapping(machine.bytes.as_ptr(), to, machine.bytes.len()) };
    }
    mapping.protect()?;
    let mapping = Arc::new(mapping);
    let entries = machines.iter().zip(starts).map(|(machine, start)| Entry {
        mapping: mapping.clone(),
        start,
        len: machine.bytes.len(),
    });
    Ok(entries.collect())
}

/// Makes instruction fetch see what was written. On x86 it always does.
#[cfg(not(target_arch = "aarch64"))]
fn synchronise(_: *const u8, _: usize) {}

/// Makes instruction fetch see what was written: cleans the data cache to the point of unification
/// and invalidates the instruction cache, line by line.
#[cfg(target_arch = "aarch64")]
fn synchronise(start: *const u8, len: usize) {
    use std::arch::asm;
    let ctr: usize;
    // SAFETY: reads a register that Linux lets user space read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    let (data, instruction) = (4usize << (ctr >> 16 & 15), 4usize << (ctr & 15));
    let (first, end) = (start as usize, start as usize + len);
    for line in (first & !(data - 1)..end).step_by(data) {
        // SAFETY: cleans a cache line of a mapping of ours; memory does not change.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: barriers.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    for line in (first & !(instruction - 1)..end).step_by(instruction) {
        // SAFETY: invalidates a line of the instruction cache, which refills from memory.
        unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: barriers.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}
