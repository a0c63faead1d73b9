//! AF_PACKET sockets (`packet(7)`): options, and frames in and out many at a time.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::offload::VNET_HDR_LEN;
use crate::{BURST_MAX, Frame};

const PACKET_ADD_MEMBERSHIP: c_int = 1;
const PACKET_STATISTICS: c_int = 6;
const PACKET_AUXDATA: c_int = 8;
const PACKET_VNET_HDR: c_int = 15;
const PACKET_TX_TIMESTAMP: c_int = 16;
const PACKET_IGNORE_OUTGOING: c_int = 23;
const PACKET_MR_PROMISC: u16 = 1;
const ETH_P_ALL: u16 = 0x0003;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// `struct packet_mreq`.
#[repr(C)]
struct Membership {
    ifindex: c_int,
    kind: u16,
    address_len: u16,
    address: [u8; 8],
}

/// `struct tpacket_auxdata`.
#[repr(C)]
#[derive(Clone, Copy)]
struct AuxData {
    status: u32,
    len: u32,
    snaplen: u32,
    mac: u16,
    net: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
}

/// `struct tpacket_stats`.
#[repr(C)]
#[derive(Default)]
struct Stats {
    packets: u32,
    drops: u32,
}

/// A raw packet socket, not yet bound, that never blocks and receives nothing.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    match unsafe { libc::socket(libc::AF_PACKET, kind, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made this descriptor for us.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Binds to an interface; again after it was deleted and made anew. `receives`: every protocol, or
/// none.
pub(crate) fn bind(fd: BorrowedFd<'_>, ifindex: u32, receives: bool) -> io::Result<()> {
    // SAFETY: a `sockaddr_ll` of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = if receives { ETH_P_ALL.to_be() } else { 0 };
    address.sll_ifindex = ifindex as c_int;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `address`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Puts a virtio-net header before every frame in both directions.
pub(crate) fn set_vnet_header(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1)
}

/// Delivers VLAN tags that the kernel has taken out of the frame, as auxiliary data.
pub(crate) fn set_auxdata(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_PACKET, PACKET_AUXDATA, &1)
}

/// Delivers when the kernel took each frame from its device, in nanoseconds of the wall clock
/// (`SO_TIMESTAMPNS`, `socket(7)`).
pub(crate) fn set_stamps(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
}

/// Delivers when each frame arrived by its device's own clock, where that has stamped it, and when the kernel took it
/// (`SO_TIMESTAMPING`, kernel documentation, networking/timestamping).
pub(crate) fn set_hardware_stamps(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        | libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &(flags as c_int))
}

/// Has the kernel tell by [`take_departures`] when it hands each frame that is sent from now on to its device, or no
/// more. Frames are counted from 0 anew each time that it begins.
pub(crate) fn set_departure_stamps(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        // Without the frame, which would else be shared with whoever receives it.
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let flags = if on { flags } else { 0 };
    set_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &(flags as c_int))
}

/// Does not deliver what leaves by the interface.
pub(crate) fn set_ignore_outgoing(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1)
}

/// Keeps the interface promiscuous while the socket lives.
pub(crate) fn set_promiscuous(fd: BorrowedFd<'_>, ifindex: u32) -> io::Result<()> {
    let request = Membership {
        ifindex: ifindex as c_int,
        kind: PACKET_MR_PROMISC,
        address_len: 0,
        address: [0; 8],
    };
    set_option(fd, libc::SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request)
}

/// Sets the socket's buffers, in bytes, beyond the system's limit where the privilege is there.
pub(crate) fn set_buffers(fd: BorrowedFd<'_>, receive: c_int, send: c_int) {
    for (force, plain, bytes) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send),
    ] {
        // A smaller buffer than wished for is no error: its overflows are counted.
        let _ = set_option(fd, libc::SOL_SOCKET, force, &bytes)
            .or_else(|_| set_option(fd, libc::SOL_SOCKET, plain, &bytes));
    }
}

/// Frames that found the socket's buffer full since the last call.
pub(crate) fn take_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut stats = Stats::default();
    let mut len = size_of::<Stats>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `stats`.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    })?;
    Ok(stats.drops)
}

pub(super) fn set_option<T>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let value: *const T = value;
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `value`, a plain C value.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.cast::<c_void>(), len) })
}

fn check(result: c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What came with a received frame.
#[derive(Clone, Copy, Default)]
pub(crate) struct Message {
    /// Bytes of the frame, header excluded.
    pub(crate) len: usize,
    /// It did not fit.
    pub(crate) truncated: bool,
    /// Its virtio-net header.
    pub(crate) vnet: [u8; VNET_HDR_LEN],
    /// The VLAN tag taken out of it: TPID and TCI.
    pub(crate) vlan: Option<(u16, u16)>,
    /// When the kernel took it from the device, after [`set_stamps`]: nanoseconds since the epoch.
    pub(crate) stamp_ns: Option<u64>,
    /// When it arrived by its device's clock, after [`set_hardware_stamps`].
    pub(crate) device_ns: Option<u64>,
}

/// Room for one message's control data, aligned: two `cmsghdr`s, [`AuxData`] and three `timespec`s.
type Control = [u64; 14];

/// Receives up to `rooms.len()` frames (at most [`BURST_MAX`]) without blocking: each fills its
/// room, then its piece of `overflow`. Fills `messages` and returns how many came.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    rooms: &mut [Frame],
    overflow: &mut [Vec<u8>],
    messages: &mut [Message; BURST_MAX],
) -> io::Result<usize> {
    let count = rooms.len().min(overflow.len()).min(BURST_MAX);
    let mut vnet = [[0u8; VNET_HDR_LEN]; BURST_MAX];
    let mut control = [Control::default(); BURST_MAX];
    // SAFETY: `iovec` and `mmsghdr` of zeros (null pointers, no lengths) are valid.
    let mut pieces: [[libc::iovec; 3]; BURST_MAX] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; BURST_MAX] = unsafe { zeroed() };
    for i in 0..count {
        pieces[i] =
            [piece(&mut vnet[i]), piece(rooms[i].room_mut()), piece(overflow[i].as_mut_slice())];
        let header = &mut headers[i].msg_hdr;
        header.msg_iov = pieces[i].as_mut_ptr();
        header.msg_iovlen = 3;
        header.msg_control = control[i].as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
    }
    // SAFETY: the first `count` headers point at buffers that are exclusively borrowed here, with
    // their lengths, and outlive the call.
    let received = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr(),
            count as _,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    let received = received as usize;
    for (i, header) in headers[..received].iter().enumerate() {
        let Told { vlan, stamp_ns, device_ns, .. } = control_data(&header.msg_hdr);
        messages[i] = Message {
            len: (header.msg_len as usize).saturating_sub(VNET_HDR_LEN),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            vnet: vnet[i],
            vlan,
            stamp_ns,
            device_ns,
        };
    }
    Ok(received)
}

fn piece(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// Takes what the kernel has told of departures: the number of each frame, modulo 2^32, and when it was, in nanoseconds
/// since the epoch. Never blocks.
pub(crate) fn take_departures(
    fd: BorrowedFd<'_>,
    sink: &mut dyn FnMut(u32, u64),
) -> io::Result<()> {
    loop {
        let mut control = [Control::default(); BURST_MAX];
        // SAFETY: `mmsghdr`s of zeros (null pointers, no lengths) are valid.
        let mut headers: [libc::mmsghdr; BURST_MAX] = unsafe { zeroed() };
        for (header, control) in headers.iter_mut().zip(&mut control) {
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the headers point at control buffers that are exclusively borrowed here, with their length, and
        // outlive the call.
        let got = unsafe {
            let (headers, none) = (headers.as_mut_ptr(), std::ptr::null_mut());
            libc::recvmmsg(fd.as_raw_fd(), headers, BURST_MAX as _, flags as _, none)
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            };
        }
        for header in &headers[..got as usize] {
            if let Told { stamp_ns: Some(at), departed: Some(number), .. } =
                control_data(&header.msg_hdr)
            {
                sink(number, at);
            }
        }
        if (got as usize) < BURST_MAX {
            return Ok(());
        }
    }
}

/// What a message's control data says.
#[derive(Default)]
struct Told {
    vlan: Option<(u16, u16)>,
    stamp_ns: Option<u64>,
    device_ns: Option<u64>,
    /// The number of the frame that departed.
    departed: Option<u32>,
}

/// Nanoseconds; `None` for a time that was not taken, which is all zeros.
fn nanoseconds(at: libc::timespec) -> Option<u64> {
    let (s, ns) = (u64::try_from(at.tv_sec).ok()?, u64::try_from(at.tv_nsec).ok()?);
    Some(s.saturating_mul(1_000_000_000).saturating_add(ns)).filter(|ns| *ns > 0)
}

/// The VLAN tag and the time stamps in a received message's control data.
fn control_data(header: &libc::msghdr) -> Told {
    let mut told = Told::default();
    // SAFETY: the kernel has filled the control buffer that `header` still points at, and has set
    // its length; the CMSG functions stay within it. The payloads are plain C values, read only
    // where the message is long enough for them.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(cmsg) = control.as_ref() {
            let holds = |size: usize| cmsg.cmsg_len >= libc::CMSG_LEN(size as u32) as _;
            match (cmsg.cmsg_level, cmsg.cmsg_type) {
                (libc::SOL_PACKET, PACKET_AUXDATA) if holds(size_of::<AuxData>()) => {
                    let aux: AuxData = libc::CMSG_DATA(control).cast::<AuxData>().read_unaligned();
                    let has_tag = aux.status & TP_STATUS_VLAN_VALID != 0;
                    let has_tpid = aux.status & TP_STATUS_VLAN_TPID_VALID != 0;
                    let tpid = if has_tpid { aux.vlan_tpid } else { 0x8100 };
                    told.vlan = has_tag.then_some((tpid, aux.vlan_tci));
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if holds(size_of::<libc::timespec>()) => {
                    let at: libc::timespec =
                        libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned();
                    told.stamp_ns = nanoseconds(at);
                }
                (libc::SOL_PACKET, PACKET_TX_TIMESTAMP)
                    if holds(size_of::<libc::sock_extended_err>()) =>
                {
                    let about = libc::CMSG_DATA(control).cast::<libc::sock_extended_err>();
                    let about: libc::sock_extended_err = about.read_unaligned();
                    let stamped = about.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING;
                    told.departed = stamped.then_some(about.ee_data);
                }
                // By the kernel, by nobody any more, by the device.
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING)
                    if holds(size_of::<[libc::timespec; 3]>()) =>
                {
                    let [kernel, _, device]: [libc::timespec; 3] =
                        libc::CMSG_DATA(control).cast::<[libc::timespec; 3]>().read_unaligned();
                    told.stamp_ns = nanoseconds(kernel);
                    told.device_ns = nanoseconds(device);
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    told
}

/// Sends frames, each behind its virtio-net header, without blocking; returns how many left. An
/// error is that of the first frame.
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    frames: &[Frame],
    vnet: &[[u8; VNET_HDR_LEN]],
) -> io::Result<usize> {
    let count = frames.len().min(vnet.len()).min(BURST_MAX);
    // SAFETY: `iovec` and `mmsghdr` of zeros (null pointers, no lengths) are valid.
    let mut pieces: [[libc::iovec; 2]; BURST_MAX] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; BURST_MAX] = unsafe { zeroed() };
    for i in 0..count {
        pieces[i] = [const_piece(&vnet[i]), const_piece(frames[i].data())];
        headers[i].msg_hdr.msg_iov = pieces[i].as_mut_ptr();
        headers[i].msg_hdr.msg_iovlen = 2;
    }
    // SAFETY: the first `count` headers point at buffers that are borrowed here, with their
    // lengths, and outlive the call; the kernel only reads them.
    let sent = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr(),
            count as _,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

fn const_piece(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}
