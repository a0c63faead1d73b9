//! ioctls of TUN/TAP (`linux/if_tun.h`) and of ethtool (`linux/ethtool.h`).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Longest interface name, in bytes, without the terminating zero.
pub(crate) const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// A TAP device, not a TUN device.
pub(crate) const IFF_TAP: u16 = 0x0002;
/// No packet information before frames.
pub(crate) const IFF_NO_PI: u16 = 0x1000;
/// A virtio-net header before frames.
pub(crate) const IFF_VNET_HDR: u16 = 0x4000;
/// Several descriptors may attach.
pub(crate) const IFF_MULTI_QUEUE: u16 = 0x0100;

/// Offload that the reader of a TAP takes: partial checksums.
pub(crate) const TUN_F_CSUM: c_uint = 0x01;
/// TSO over IPv4.
pub(crate) const TUN_F_TSO4: c_uint = 0x02;
/// TSO over IPv6.
pub(crate) const TUN_F_TSO6: c_uint = 0x04;
/// TSO with ECN.
pub(crate) const TUN_F_TSO_ECN: c_uint = 0x08;
/// UDP segmentation over IPv4.
pub(crate) const TUN_F_USO4: c_uint = 0x20;
/// UDP segmentation over IPv6.
pub(crate) const TUN_F_USO6: c_uint = 0x40;

const TUNSETIFF: c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: c_ulong = 0x4004_54d0;
const TUNGETIFF: c_ulong = 0x8004_54d2;
const TUNSETVNETHDRSZ: c_ulong = 0x4004_54d8;
const TUNGETDEVNETNS: c_ulong = 0x54e3;
const SIOCOUTQ: c_ulong = 0x5411;
const SIOCETHTOOL: c_ulong = 0x8946;
const ETHTOOL_GSET: u32 = 1;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const SIOCSHWTSTAMP: c_ulong = 0x89b0;
const SIOCGHWTSTAMP: c_ulong = 0x89b1;
/// An interface that can stamp every frame that arrives (`HWTSTAMP_FILTER_ALL`).
const FILTER_ALL: i32 = 1;
/// It stamps what arrives, and tells the times of its own clock (`SOF_TIMESTAMPING_RX_HARDWARE`, `_RAW_HARDWARE`).
const STAMPS_ARRIVALS: u32 = 1 << 2 | 1 << 6;

/// `struct ifreq`: a name and a union of 24 bytes.
#[repr(C, align(8))]
struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    union: [u8; 24],
}

impl IfReq {
    fn new(name: &str) -> io::Result<IfReq> {
        let mut req = IfReq { name: [0; libc::IFNAMSIZ], union: [0; 24] };
        if name.len() > NAME_MAX || name.bytes().any(|b| b == 0) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        req.name[..name.len()].copy_from_slice(name.as_bytes());
        Ok(req)
    }

    fn name(&self) -> String {
        let len = self.name.iter().position(|&b| b == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }
}

/// Calls an ioctl whose argument is a pointer.
///
/// # Safety
/// `arg` must be valid for what `request` reads and writes.
unsafe fn ioctl(fd: BorrowedFd<'_>, request: c_ulong, arg: *mut c_void) -> io::Result<c_int> {
    // SAFETY: the descriptor is open as long as it is borrowed; the caller vouches for `arg`.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request as _, arg) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Attaches a descriptor of `/dev/net/tun` to the interface `name`, made if it does not exist.
pub(crate) fn tun_attach(fd: BorrowedFd<'_>, name: &str, flags: u16) -> io::Result<()> {
    let mut req = IfReq::new(name)?;
    req.union[..2].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`.
    unsafe { ioctl(fd, TUNSETIFF, (&raw mut req).cast()) }.map(drop)
}

/// The name of the interface that a descriptor is attached to; `EBADFD` when it is gone.
pub(crate) fn tun_name(fd: BorrowedFd<'_>) -> io::Result<String> {
    let mut req = IfReq::new("")?;
    // SAFETY: TUNGETIFF writes one `struct ifreq`.
    unsafe { ioctl(fd, TUNGETIFF, (&raw mut req).cast()) }?;
    Ok(req.name())
}

/// Bytes that a socket has given the kernel and that are not sent yet, with what the kernel needs beside them.
pub(crate) fn waiting(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: SIOCOUTQ writes one `int`.
    unsafe { ioctl(fd, SIOCOUTQ, (&raw mut bytes).cast()) }?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Says which offloads the reader of the TAP takes (`TUN_F_*`).
pub(crate) fn tun_set_offload(fd: BorrowedFd<'_>, flags: c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    unsafe { ioctl(fd, TUNSETOFFLOAD, flags as usize as *mut c_void) }.map(drop)
}

/// Sets the length of the virtio-net header.
pub(crate) fn tun_set_vnet_len(fd: BorrowedFd<'_>, len: c_int) -> io::Result<()> {
    let mut len = len;
    // SAFETY: TUNSETVNETHDRSZ reads one `int`.
    unsafe { ioctl(fd, TUNSETVNETHDRSZ, (&raw mut len).cast()) }.map(drop)
}

/// The network namespace that the TAP's interface is in.
pub(crate) fn tun_namespace(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: TUNGETDEVNETNS takes no argument.
    let namespace = unsafe { ioctl(fd, TUNGETDEVNETNS, std::ptr::null_mut()) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(namespace) })
}

/// What an ethtool request reads and writes, of at most so many bytes.
#[repr(C, align(8))]
struct Ethtool([u8; 64]);

impl Ethtool {
    /// Makes a request about an interface. `fd` is any socket of the interface's namespace.
    fn ask(fd: BorrowedFd<'_>, name: &str, request: u32) -> io::Result<Ethtool> {
        let mut command = Ethtool([0; 64]);
        command.0[..4].copy_from_slice(&request.to_ne_bytes());
        let mut req = IfReq::new(name)?;
        let pointer = (&raw mut command).expose_provenance();
        req.union[..size_of::<usize>()].copy_from_slice(&pointer.to_ne_bytes());
        // SAFETY: SIOCETHTOOL reads one `struct ifreq`, whose union points at a command buffer longer
        // than the structures that the requests of this file read and write (44 bytes at most); both
        // outlive the call.
        unsafe { ioctl(fd, SIOCETHTOOL, (&raw mut req).cast()) }?;
        Ok(command)
    }

    fn word(&self, at: usize) -> u32 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| self.0[at + i]);
        u32::from_ne_bytes([a, b, c, d])
    }
}

/// The speed that an interface reports, in kb/s; `None` where it does not know.
///
/// `fd` is any socket of the interface's namespace.
pub(crate) fn speed_kbps(fd: BorrowedFd<'_>, name: &str) -> Option<u32> {
    // `struct ethtool_cmd`, 44 bytes: `cmd` at 0, `speed` at 12, `speed_hi` at 28.
    let command = Ethtool::ask(fd, name, ETHTOOL_GSET).ok()?;
    let half = |at: usize| u32::from(u16::from_ne_bytes([command.0[at], command.0[at + 1]]));
    match half(28) << 16 | half(12) {
        0 | 0xffff | u32::MAX => None,
        mbps => Some(mbps.saturating_mul(1000)),
    }
}

/// Whether an interface that is up has carrier now; `None` where it does not say.
///
/// `fd` is any socket of the interface's namespace.
pub(crate) fn carrier(fd: BorrowedFd<'_>, name: &str) -> Option<bool> {
    // `struct ethtool_value`, 8 bytes: `data` at 4.
    Some(Ethtool::ask(fd, name, ETHTOOL_GLINK).ok()?.word(4) != 0)
}

/// What an interface's hardware can say of when frames arrived (`ethtool -T`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HardwareStamps {
    /// The number of its clock: `/dev/ptpN`.
    pub(crate) clock: u32,
}

/// Whether an interface can stamp every frame that arrives, by a clock that can be read; `None` where it cannot or
/// does not say.
///
/// `fd` is any socket of the interface's namespace.
pub(crate) fn hardware_stamps(fd: BorrowedFd<'_>, name: &str) -> Option<HardwareStamps> {
    // `struct ethtool_ts_info`, 44 bytes: `so_timestamping` at 4, `phc_index` at 8, `rx_filters` at 28.
    let info = Ethtool::ask(fd, name, ETHTOOL_GET_TS_INFO).ok()?;
    able(info.word(4), info.word(8), info.word(28))
}

fn able(stamping: u32, clock: u32, filters: u32) -> Option<HardwareStamps> {
    let able = stamping & STAMPS_ARRIVALS == STAMPS_ARRIVALS && filters & 1 << FILTER_ALL != 0;
    // A clock that is none has the number -1.
    (able && clock <= i32::MAX as u32).then_some(HardwareStamps { clock })
}

/// How an interface stamps: `struct hwtstamp_config`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StampConfig {
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

impl StampConfig {
    /// The same, but every frame that arrives is stamped.
    pub(crate) fn with_arrivals(self) -> StampConfig {
        StampConfig { rx_filter: FILTER_ALL, ..self }
    }
}

/// How an interface stamps now.
///
/// `fd` is any socket of the interface's namespace.
pub(crate) fn stamp_config(fd: BorrowedFd<'_>, name: &str) -> io::Result<StampConfig> {
    let mut config = StampConfig::default();
    stamp_request(fd, name, SIOCGHWTSTAMP, &mut config)?;
    Ok(config)
}

/// Has an interface stamp like this; needs `CAP_NET_ADMIN`.
///
/// `fd` is any socket of the interface's namespace.
pub(crate) fn set_stamp_config(
    fd: BorrowedFd<'_>,
    name: &str,
    config: StampConfig,
) -> io::Result<()> {
    let mut config = config;
    stamp_request(fd, name, SIOCSHWTSTAMP, &mut config)
}

fn stamp_request(
    fd: BorrowedFd<'_>,
    name: &str,
    request: c_ulong,
    config: &mut StampConfig,
) -> io::Result<()> {
    let mut req = IfReq::new(name)?;
    let pointer = std::ptr::from_mut(config).expose_provenance();
    req.union[..size_of::<usize>()].copy_from_slice(&pointer.to_ne_bytes());
    // SAFETY: both requests read one `struct ifreq`, whose union points at one `struct hwtstamp_config` that they read
    // and write; both outlive the call.
    unsafe { ioctl(fd, request, (&raw mut req).cast()) }.map(drop)
}

/// Reads the clock behind a descriptor of `/dev/ptpN`, in nanoseconds (`clock_gettime` of a dynamic clock).
pub(crate) fn read_clock(clock: BorrowedFd<'_>) -> io::Result<u64> {
    // As the kernel's `FD_TO_CLOCKID` makes a clock's number of a descriptor.
    let id = !libc::clockid_t::from(clock.as_raw_fd()) << 3 | 3;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`; the descriptor is open as long as it is borrowed.
    match unsafe { libc::clock_gettime(id, &raw mut now) } {
        0 => Ok((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How many queues an interface receives by; `None` where it does not say.
///
/// `fd` is any socket of the interface's namespace.
pub(crate) fn rx_queues(fd: BorrowedFd<'_>, name: &str) -> Option<u32> {
    // `struct ethtool_channels`, 36 bytes: `rx_count` at 20, `combined_count` at 32.
    let command = Ethtool::ask(fd, name, ETHTOOL_GCHANNELS).ok()?;
    Some(command.word(20).saturating_add(command.word(32))).filter(|queues| *queues > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_that_stamps_all_that_arrives_is_known() {
        let clock = |n| Some(HardwareStamps { clock: n });
        assert_eq!(able(0x5f, 2, 0b11), clock(2));
        // Software only; only PTP's frames; no clock.
        assert_eq!(able(0x18, 2, 0b11), None);
        assert_eq!(able(0x5f, 2, 0b1_0000_0000_0001), None);
        assert_eq!(able(0x5f, u32::MAX, 0b11), None);
    }
}
