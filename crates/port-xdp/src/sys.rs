//! Declarations and system calls: `bpf(2)`, and sockets of `AF_XDP` (`linux/if_xdp.h`).
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_PROG_LOAD: c_int = 5;
const BPF_PROG_TEST_RUN: c_int = 10;
const BPF_LINK_CREATE: c_int = 28;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_DEVMAP: u32 = 14;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Calls `bpf(2)` with attributes of which the kernel reads as many bytes as are given; the rest
/// count as zero.
///
/// # Safety
/// Addresses within `attributes` must be valid for what `command` does with them.
unsafe fn bpf<const N: usize>(command: c_int, attributes: &mut [u64; N]) -> io::Result<c_int> {
    let len = size_of::<[u64; N]>();
    // SAFETY: pointer and length are those of `attributes`; the caller vouches for the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as c_int) }
}

/// Two 32-bit fields that follow each other.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// A map of sockets by queue.
pub(crate) fn create_xsk_map(entries: u32) -> io::Result<OwnedFd> {
    create_map(BPF_MAP_TYPE_XSKMAP, 4, entries, 0)
}

/// A map of one interface, by its index.
pub(crate) fn create_device_map() -> io::Result<OwnedFd> {
    create_map(BPF_MAP_TYPE_DEVMAP, 4, 1, 0)
}

/// A map of one value that can be mapped into our memory ([`Mapping::of_map`]).
pub(crate) fn create_shared_array(value_bytes: u32) -> io::Result<OwnedFd> {
    create_map(BPF_MAP_TYPE_ARRAY, value_bytes, 1, BPF_F_MMAPABLE)
}

/// A map with keys of four bytes.
fn create_map(kind: u32, value_bytes: u32, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    // map_type, key_size; value_size, max_entries; map_flags.
    let mut attributes = [pair(kind, 4), pair(value_bytes, entries), pair(flags, 0)];
    // SAFETY: no addresses.
    let fd = unsafe { bpf(BPF_MAP_CREATE, &mut attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Puts a socket into a map.
pub(crate) fn set_xsk_map(map: BorrowedFd<'_>, queue: u32, xsk: BorrowedFd<'_>) -> io::Result<()> {
    set_map_u32(map, queue, xsk.as_raw_fd() as u32)
}

/// Sets an entry of a map whose values are of four bytes: of all but [`create_shared_array`]'s.
pub(crate) fn set_map_u32(map: BorrowedFd<'_>, key: u32, value: u32) -> io::Result<()> {
    let mut attributes = [
        pair(map.as_raw_fd() as u32, 0),
        (&raw const key).expose_provenance() as u64,
        (&raw const value).expose_provenance() as u64,
        0,
    ];
    // SAFETY: the map's keys and values are four bytes each, and `key` and `value` outlive the call.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Has an XDP program handle `frames` new frames of `len` bytes, in batches, which go where it says (Linux 5.18).
pub(crate) fn run_live(
    program: BorrowedFd<'_>,
    len: u32,
    frames: u32,
    batch: u32,
) -> io::Result<()> {
    // What the frames hold at first; the program writes over it.
    const BLANK: [u8; 4096] = [0; 4096];
    let mut attributes = [
        // prog_fd, retval; data_size_in, data_size_out; data_in; data_out
        pair(program.as_raw_fd() as u32, 0),
        pair(len.min(BLANK.len() as u32), 0),
        BLANK.as_ptr().expose_provenance() as u64,
        0,
        // repeat, duration; ctx_size_in, ctx_size_out; ctx_in; ctx_out
        pair(frames, 0),
        0,
        0,
        0,
        // flags, cpu; batch_size
        pair(BPF_F_TEST_XDP_LIVE_FRAMES, 0),
        pair(batch, 0),
    ];
    // SAFETY: the one address is that of at least as many bytes as are said, which the kernel only reads.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) }.map(drop)
}

/// Loads an XDP program; the error carries the verifier's complaint.
pub(crate) fn load_program(code: &[u64]) -> io::Result<OwnedFd> {
    const LICENSE: &CStr = c"Apache-2.0";
    let mut log = vec![0u8; 16 * 1024];
    let mut attributes = [
        pair(BPF_PROG_TYPE_XDP, code.len() as u32),
        code.as_ptr().expose_provenance() as u64,
        LICENSE.as_ptr().expose_provenance() as u64,
        pair(1, log.len() as u32),
        log.as_mut_ptr().expose_provenance() as u64,
        0,
        0,
        0,
        // prog_ifindex, expected_attach_type
        pair(0, BPF_XDP),
    ];
    // SAFETY: instructions, licence and log buffer are as long as the attributes say, and outlive
    // the call.
    match unsafe { bpf(BPF_PROG_LOAD, &mut attributes) } {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        Err(error) => {
            let len = log.iter().position(|&b| b == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..len]);
            match log.trim() {
                "" => Err(error),
                log => Err(io::Error::new(error.kind(), format!("{error}; the verifier: {log}"))),
            }
        }
    }
}

/// Attaches a program to an interface for as long as the returned link is open.
pub(crate) fn attach(program: BorrowedFd<'_>, ifindex: u32, native: bool) -> io::Result<OwnedFd> {
    let mode = if native { XDP_FLAGS_DRV_MODE } else { XDP_FLAGS_SKB_MODE };
    // prog_fd, target_ifindex; attach_type, flags.
    let mut attributes = [pair(program.as_raw_fd() as u32, ifindex), pair(BPF_XDP, mode)];
    // SAFETY: no addresses.
    let fd = unsafe { bpf(BPF_LINK_CREATE, &mut attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The address of one word of a ring, and of its entries, in the mapping.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingOffset {
    pub(crate) producer: u64,
    pub(crate) consumer: u64,
    pub(crate) entries: u64,
    pub(crate) flags: u64,
}

/// `struct xdp_mmap_offsets`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingOffsets {
    pub(crate) rx: RingOffset,
    pub(crate) tx: RingOffset,
    pub(crate) fill: RingOffset,
    pub(crate) completion: RingOffset,
}

/// `struct xdp_umem_reg`.
#[repr(C)]
struct UmemReg {
    address: u64,
    len: u64,
    chunk_size: u32,
    headroom: u32,
    flags: u32,
    tx_metadata_len: u32,
}

/// `struct xdp_statistics`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    /// Dropped for other reasons than the next ones.
    pub(crate) rx_dropped: u64,
    pub(crate) rx_invalid: u64,
    pub(crate) tx_invalid: u64,
    /// Dropped because the receive ring was full.
    pub(crate) rx_ring_full: u64,
    pub(crate) fill_ring_empty: u64,
    pub(crate) tx_ring_empty: u64,
}

/// Which of a socket's rings, as the offset to map it at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RingKind {
    Rx,
    Tx,
    Fill,
    Completion,
}

impl RingKind {
    fn offset(self) -> libc::off_t {
        match self {
            RingKind::Rx => 0,
            RingKind::Tx => 0x8000_0000,
            RingKind::Fill => 0x1_0000_0000,
            RingKind::Completion => 0x1_8000_0000,
        }
    }

    fn option(self) -> c_int {
        match self {
            RingKind::Rx => libc::XDP_RX_RING,
            RingKind::Tx => libc::XDP_TX_RING,
            RingKind::Fill => libc::XDP_UMEM_FILL_RING,
            RingKind::Completion => libc::XDP_UMEM_COMPLETION_RING,
        }
    }
}

/// Memory mapped from the kernel, zeroed or shared; unmapped when dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory, valid on every thread until it is dropped. Who may access
// which part of it when is for `umem` and `ring` to keep.
unsafe impl Send for Mapping {}
// SAFETY: as above; the mapping itself offers no access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Fresh zeroed memory, aligned to pages.
    pub(crate) fn anonymous(len: usize) -> io::Result<Mapping> {
        Mapping::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// The same, in large pages where the kernel has them to spare.
    pub(crate) fn frames(len: usize) -> io::Result<Mapping> {
        let mapping = Mapping::anonymous(len)?;
        // SAFETY: a mapping of ours; the advice changes nothing about its content, and may be declined.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    /// A ring of a socket, `len` bytes long.
    pub(crate) fn ring(xsk: BorrowedFd<'_>, ring: RingKind, len: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Mapping::map(len, flags, xsk.as_raw_fd(), ring.offset())
    }

    /// The value of a map of [`create_shared_array`]'s, `len` bytes long.
    pub(crate) fn of_map(map: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        Mapping::map(len, libc::MAP_SHARED, map.as_raw_fd(), 0)
    }

    fn map(len: usize, flags: c_int, fd: c_int, offset: libc::off_t) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so nothing that exists is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Mapping { start, len })
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of a mapping that nobody else unmaps.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// An AF_XDP socket, bound to nothing.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    match unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made this descriptor for us.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Gives a socket its memory, of chunks of `chunk_size` bytes. The mapping must outlive the
/// socket's use of it; the kernel pins the pages, so even a breach only detaches our view.
pub(crate) fn register_umem(
    xsk: BorrowedFd<'_>,
    memory: &Mapping,
    chunk_size: u32,
) -> io::Result<()> {
    let registration = UmemReg {
        address: memory.start().as_ptr().expose_provenance() as u64,
        len: memory.len() as u64,
        chunk_size,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(xsk, libc::XDP_UMEM_REG, &registration)
}

/// Sets the number of entries of a ring, a power of two.
pub(crate) fn set_ring_size(xsk: BorrowedFd<'_>, ring: RingKind, entries: u32) -> io::Result<()> {
    set_option(xsk, ring.option(), &(entries as c_int))
}

/// Where in their mappings the rings' parts lie.
pub(crate) fn ring_offsets(xsk: BorrowedFd<'_>) -> io::Result<RingOffsets> {
    get_option(xsk, libc::XDP_MMAP_OFFSETS)
}

/// The socket's counters.
pub(crate) fn statistics(xsk: BorrowedFd<'_>) -> io::Result<Statistics> {
    get_option(xsk, libc::XDP_STATISTICS)
}

/// Whether the kernel copies the frames of a bound socket, as it does wherever the driver cannot receive
/// into its memory and send from it.
pub(crate) fn is_copied(xsk: BorrowedFd<'_>) -> io::Result<bool> {
    let options: u32 = get_option(xsk, libc::XDP_OPTIONS)?;
    Ok(options & libc::XDP_OPTIONS_ZEROCOPY == 0)
}

/// Has one call send up to so many frames where the kernel copies them, in place of 32 (Linux 6.17; an older
/// one takes more calls).
pub(crate) fn set_tx_budget(xsk: BorrowedFd<'_>, frames: u32) {
    /// `XDP_MAX_TX_SKB_BUDGET` of `linux/if_xdp.h`.
    const MAX_TX_SKB_BUDGET: c_int = 9;
    if let Err(error) = set_option(xsk, MAX_TX_SKB_BUDGET, &(frames as c_int)) {
        tracing::debug!(%error, "the kernel sends 32 frames a call");
    }
}

/// Binds a socket to a queue of an interface; without copying where the driver can, unless
/// `copies`.
pub(crate) fn bind(xsk: BorrowedFd<'_>, ifindex: u32, queue: u32, copies: bool) -> io::Result<()> {
    let copy = if copies { libc::XDP_COPY } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copy,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `address`.
    check(unsafe { libc::bind(xsk.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Has calls on a socket run the driver's receive loop for so many microseconds, and its interrupt
/// wait meanwhile (`SO_PREFER_BUSY_POLL`, Linux 5.11).
pub(crate) fn set_busy_poll(xsk: BorrowedFd<'_>, us: u32) -> io::Result<()> {
    /// Frames that such a call takes, at most: a ring's worth of bursts would hold others up.
    const BUDGET: c_int = 64;
    for (name, value) in [
        (libc::SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL, us as c_int),
        (libc::SO_BUSY_POLL_BUDGET, BUDGET),
    ] {
        set_option_at(xsk, libc::SOL_SOCKET, name, &value)?;
    }
    Ok(())
}

/// Wakes the kernel up to send what is in the transmit ring.
pub(crate) fn kick_tx(xsk: BorrowedFd<'_>) -> io::Result<()> {
    let (none, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
    // SAFETY: no data and no address.
    let sent = unsafe { libc::sendto(xsk.as_raw_fd(), none, 0, flags, std::ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Wakes the kernel up to take chunks from the fill ring.
pub(crate) fn kick_rx(xsk: BorrowedFd<'_>) {
    let (none, flags) = (std::ptr::null_mut(), libc::MSG_DONTWAIT);
    // SAFETY: no data. What it returns is of no interest: a driver that could not be woken now asks
    // again by its flag.
    unsafe { libc::recv(xsk.as_raw_fd(), none, 0, flags) };
}

fn set_option<T>(xsk: BorrowedFd<'_>, name: c_int, value: &T) -> io::Result<()> {
    set_option_at(xsk, libc::SOL_XDP, name, value)
}

fn set_option_at<T>(xsk: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let value: *const T = value;
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `value`, a plain C value.
    check(unsafe { libc::setsockopt(xsk.as_raw_fd(), level, name, value.cast(), len) })
}

/// Reads an option; `T` is one of this file's structures of integers, of which a kernel may fill
/// less than all.
fn get_option<T: Default>(xsk: BorrowedFd<'_>, name: c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `value`; any bytes are a valid structure of integers.
    check(unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(xsk.as_raw_fd(), libc::SOL_XDP, name, value, &raw mut len)
    })?;
    Ok(value)
}

fn check(result: c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
