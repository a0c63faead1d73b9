//! System calls on raw and packet sockets: filters, options, many packets at a time (`packet(7)`, `raw(7)`, `socket(7)`).
//!
//! The only `unsafe` of this crate. What goes in and out is safe: borrowed descriptors, slices, plain values.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Packets of one call, at most.
pub(crate) const BURST: usize = 32;
/// Octets of a packet, at most.
pub(crate) const PACKET_MAX: usize = 65_575;
/// Octets of the header that says how a packet's checksums and segments stand (`virtio_net_hdr`).
pub(crate) const VNET_LEN: usize = 10;

const PACKET_STATISTICS: c_int = 6;
const PACKET_AUXDATA: c_int = 8;
const PACKET_VNET_HDR: c_int = 15;
/// Octets of `cmsghdr` and `tpacket_auxdata`, aligned, and where that says how many octets stand before the IP header.
const AUXDATA_SPACE: usize = 40;
const AUXDATA_NET: usize = 14;
/// Octets of `cmsghdr` and one mark, aligned.
const MARK_SPACE: usize = 24;

/// One instruction of a filter.
pub(crate) type Step = libc::sock_filter;

/// `struct tpacket_stats`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Statistics {
    packets: u32,
    drops: u32,
}

fn check(returned: c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set_option<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `value`, which the kernel only reads.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), len) })
}

/// Delivers only what the filter accepts. It takes the place of the one before at once; without one, it is the first.
pub(crate) fn set_filter(fd: BorrowedFd<'_>, steps: &mut [Step]) -> io::Result<()> {
    let len = u16::try_from(steps.len()).map_err(|_| io::Error::other("the filter is too long"))?;
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Puts [`VNET_LEN`] octets before every packet, and says where its IP header begins.
pub(crate) fn set_headers(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option::<c_int>(fd, libc::SOL_PACKET, PACKET_AUXDATA, &1)?;
    set_option::<c_int>(fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1)
}

/// Lets a packet socket receive a protocol (`ETH_P_*`) from all devices.
pub(crate) fn bind_protocol(fd: BorrowedFd<'_>, protocol: u16) -> io::Result<()> {
    // SAFETY: a `sockaddr_ll` of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `address`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Packets that the kernel dropped since the last call, as the socket's buffer was full.
pub(crate) fn take_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut statistics = Statistics::default();
    let mut len = size_of::<Statistics>() as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, PACKET_STATISTICS);
    let value = (&raw mut statistics).cast();
    // SAFETY: the kernel writes `len` octets at most, which is the size of `statistics`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value, &raw mut len) })?;
    Ok(statistics.drops)
}

/// Room for packets that come in.
pub(crate) struct Room {
    bytes: Box<[u8]>,
    slots: [Slot; BURST],
}

#[derive(Clone, Copy, Default)]
struct Slot {
    len: usize,
    /// Octets of the link's header.
    link: usize,
    device: u32,
    is_whole: bool,
}

const SLOT: usize = (VNET_LEN + LINK_MAX + PACKET_MAX).next_multiple_of(64);
/// Octets of a link's header, at most.
const LINK_MAX: usize = 64;

/// A packet of the last call.
pub(crate) struct Packet<'a> {
    /// `virtio_net_hdr`.
    pub(crate) header: &'a [u8],
    /// The link's header has so many octets.
    pub(crate) link: usize,
    /// From the IP header on.
    pub(crate) packet: &'a [u8],
    pub(crate) device: u32,
    /// It was not cut off.
    pub(crate) is_whole: bool,
}

impl Room {
    pub(crate) fn new() -> Room {
        Room { bytes: vec![0; BURST * SLOT].into(), slots: [Slot::default(); BURST] }
    }

    /// One packet of the last call.
    pub(crate) fn get(&self, at: usize) -> Packet<'_> {
        let Slot { len, link, device, is_whole } = self.slots[at];
        let bytes = &self.bytes[at * SLOT..at * SLOT + len];
        let (header, rest) = bytes.split_at(VNET_LEN.min(len));
        let packet = rest.get(link..).unwrap_or_default();
        Packet { header, link, packet, device, is_whole }
    }
}

/// Room for one control message.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control {
    bytes: [u8; AUXDATA_SPACE],
}

impl Control {
    const EMPTY: Control = Control { bytes: [0; AUXDATA_SPACE] };

    /// Octets of the link's header, if the kernel has said so.
    fn link(&self, len: usize) -> Option<usize> {
        let bytes = self.bytes.get(..len)?;
        let head = size_of::<libc::cmsghdr>();
        let word =
            |at: usize| bytes.get(at..at + 4)?.first_chunk().map(|it| c_int::from_ne_bytes(*it));
        if (word(head - 8)?, word(head - 4)?) != (libc::SOL_PACKET, PACKET_AUXDATA) {
            return None;
        }
        let net = bytes.get(head + AUXDATA_NET..)?.first_chunk()?;
        Some(usize::from(u16::from_ne_bytes(*net)))
    }
}

/// Receives packets; how many. Never waits.
pub(crate) fn receive(fd: BorrowedFd<'_>, room: &mut Room) -> io::Result<usize> {
    // SAFETY: all three are valid as zeros.
    let mut names: [libc::sockaddr_ll; BURST] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut parts: [libc::iovec; BURST] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; BURST] = unsafe { zeroed() };
    let mut controls = [Control::EMPTY; BURST];
    for (at, slot) in room.bytes.chunks_exact_mut(SLOT).enumerate() {
        parts[at] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        let header = &mut messages[at].msg_hdr;
        header.msg_name = (&raw mut names[at]).cast();
        header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        header.msg_iov = &raw mut parts[at];
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut controls[at]).cast();
        header.msg_controllen = AUXDATA_SPACE as _;
    }
    let none = std::ptr::null_mut();
    // SAFETY: every message points to its own name, part, slot and control, all of which outlive the call, with their sizes.
    let count = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            BURST as u32,
            libc::MSG_DONTWAIT as _,
            none,
        )
    };
    check(count)?;
    let count = count as usize;
    for at in 0..count {
        let len = (messages[at].msg_len as usize).min(SLOT);
        let header = &messages[at].msg_hdr;
        let link = controls[at].link(header.msg_controllen as usize);
        let is_whole = header.msg_flags & libc::MSG_TRUNC == 0 && link.is_some();
        let device = names[at].sll_ifindex as u32;
        room.slots[at] = Slot { len, link: link.unwrap_or(0), device, is_whole };
    }
    Ok(count)
}

/// A packet for the kernel to send.
#[derive(Clone, Copy)]
pub(crate) struct Out<'a> {
    pub(crate) packet: &'a [u8],
    pub(crate) to: IpAddr,
    pub(crate) mark: u32,
    /// The device of a link-local destination.
    pub(crate) device: u32,
}

/// A mark as a control message, aligned as one.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Mark {
    bytes: [u8; MARK_SPACE],
}

fn mark_message(mark: u32) -> Mark {
    let mut bytes = [0; MARK_SPACE];
    let header = size_of::<libc::cmsghdr>();
    let len = header + size_of::<u32>();
    // `cmsg_len`, `cmsg_level`, `cmsg_type`, the mark.
    bytes[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
    let mut put = |at: usize, value: c_int| {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    };
    put(header - 8, libc::SOL_SOCKET);
    put(header - 4, libc::SO_MARK);
    put(header, mark as c_int);
    Mark { bytes }
}

/// Sends packets, [`BURST`] at most; how many were sent before one was refused. Never waits.
pub(crate) fn send(fd: BorrowedFd<'_>, packets: &[Out<'_>]) -> io::Result<usize> {
    // SAFETY: all three are valid as zeros.
    let mut names: [libc::sockaddr_in6; BURST] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut parts: [libc::iovec; BURST] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; BURST] = unsafe { zeroed() };
    let mut marks = [Mark { bytes: [0; MARK_SPACE] }; BURST];
    let packets = &packets[..packets.len().min(BURST)];
    for (at, out) in packets.iter().enumerate() {
        let header = &mut messages[at].msg_hdr;
        header.msg_namelen = put_name(&mut names[at], out);
        header.msg_name = (&raw mut names[at]).cast();
        // The kernel only reads what is sent.
        let base = out.packet.as_ptr().cast_mut().cast();
        parts[at] = libc::iovec { iov_base: base, iov_len: out.packet.len() };
        header.msg_iov = &raw mut parts[at];
        header.msg_iovlen = 1;
        if out.mark != 0 {
            marks[at] = mark_message(out.mark);
            header.msg_control = (&raw mut marks[at]).cast();
            header.msg_controllen = MARK_SPACE as _;
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let count = packets.len() as u32;
    // SAFETY: each of the `count` messages points to its own name, part and mark, which outlive the call, with their sizes.
    let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), count, flags as _) };
    check(sent)?;
    Ok(sent as usize)
}

/// Writes a destination; its octets.
fn put_name(name: &mut libc::sockaddr_in6, out: &Out<'_>) -> libc::socklen_t {
    match out.to {
        IpAddr::V4(v4) => {
            // SAFETY: a `sockaddr_in` of zeros is valid.
            let mut address: libc::sockaddr_in = unsafe { zeroed() };
            address.sin_family = libc::AF_INET as u16;
            address.sin_addr.s_addr = u32::from_ne_bytes(v4.octets());
            // SAFETY: `sockaddr_in` is smaller than `sockaddr_in6`, of the same alignment, and both are plain bytes.
            unsafe { (&raw mut *name).cast::<libc::sockaddr_in>().write(address) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        IpAddr::V6(v6) => {
            name.sin6_family = libc::AF_INET6 as u16;
            name.sin6_addr.s6_addr = v6.octets();
            if v6.is_unicast_link_local() || v6.is_multicast() {
                name.sin6_scope_id = out.device;
            }
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}
