//! Receives whole IP packets of tunnels that are for this host, from all devices.
//!
//! A packet socket for each family, with a [`filter`](super::filter). So that the kernel does not answer such packets by "port
//! unreachable", each UDP port has a socket that delivers nothing, and GRE a raw one. That also reserves the port: one that another
//! program or a device of the kernel has is refused.
//!
//! Packets may have incomplete checksums, or be longer than any MTU, where a sender of this host leaves that to the device or the
//! kernel has joined segments ([`Offload`]). Fragments come as they are.
//!
//! GRE has no ports to be taken: a GRE device of the kernel's gets the same packets.
//!
//! Not received: IPv6 packets with extension headers other than a fragment header right behind the IPv6 header.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_ipv6_v6only, set_socket_recv_buffer_size, set_socket_recv_buffer_size_force,
};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, socket_with};

use super::filter::{PORTS_MAX, nothing, wanted};
use crate::sys::{self, BURST, Packet, Room, VNET_LEN};
use crate::underlay::{Shared, Underlay};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
/// Octets that the kernel keeps of packets that are not read yet, for each family.
const RECEIVE_BUFFER: usize = 8 << 20;

/// How the segments of a packet were joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoKind {
    /// TCP in IPv4.
    TcpV4,
    /// TCP in IPv6.
    TcpV6,
    /// One UDP datagram, to be fragmented.
    UdpFragments,
    /// UDP datagrams of one length.
    UdpSegments,
}

/// What a device, or the kernel, was to do with a packet, or has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// A checksum is incomplete: where what it covers begins in the packet, and where it stands behind that.
    pub checksum: Option<(u16, u16)>,
    /// A device has found the checksums right.
    pub valid: bool,
    /// The packet is several in one: how, and octets of payload of each. In a tunnel it is the inner packet that is several.
    pub gso: Option<(GsoKind, u16)>,
    /// The segments carry ECN's CWR as it was in the first.
    pub ecn: bool,
}

impl Offload {
    /// Of a packet whose link's header has so many octets, from which the kernel counts.
    fn read(header: &[u8], link: usize) -> Option<Offload> {
        let [flags, gso, rest @ ..] = header.first_chunk::<VNET_LEN>()?;
        let half = |at: usize| u16::from_ne_bytes([rest[at], rest[at + 1]]);
        let kind = match gso & 0x7f {
            0 => None,
            1 => Some(GsoKind::TcpV4),
            3 => Some(GsoKind::UdpFragments),
            4 => Some(GsoKind::TcpV6),
            5 => Some(GsoKind::UdpSegments),
            _ => return None,
        };
        let checksum = match flags & 1 {
            0 => None,
            _ => Some((half(4).checked_sub(u16::try_from(link).ok()?)?, half(6))),
        };
        Some(Offload {
            checksum,
            valid: flags & 2 != 0,
            gso: kind.map(|kind| (kind, half(2))),
            ecn: gso & 0x80 != 0,
        })
    }
}

/// A packet that came in.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The whole IP packet.
    pub packet: &'a [u8],
    /// The device that it came in by.
    pub device: u32,
    /// How its checksums and segments stand.
    pub offload: Offload,
}

/// What a receiver has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounts {
    /// Packets that were given out.
    pub received: u64,
    /// Packets to an address that is not this host's: they are being routed.
    pub not_local: u64,
    /// Packets that are cut off, or say what cannot be read.
    pub malformed: u64,
    /// Packets that the kernel dropped, as they were not read soon enough.
    pub overruns: u64,
    /// Failures of the sockets, by the number of the error (`errno(3)`).
    pub failed: BTreeMap<i32, u64>,
}

/// Why a port or a protocol cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum Taken {
    /// Another socket has the port.
    #[error(
        "UDP port {port} is taken in this network namespace: by a program, or by a tunnel device of the kernel (`ip -d link`)"
    )]
    Port {
        /// The port.
        port: u16,
    },
    /// There are too many.
    #[error("UDP port {port} is one too many: a receiver has {PORTS_MAX} at most")]
    Many {
        /// The port.
        port: u16,
    },
    /// It is none.
    #[error("UDP port 0 is no port: 1 to 65535 was expected")]
    Zero,
    /// Its sockets would be in another namespace.
    #[error("the calling thread is in another network namespace than the receiver")]
    Namespace,
    /// The kernel refuses.
    #[error("{what}: {error}")]
    Refused {
        /// What was to be done.
        what: String,
        /// What the kernel says.
        error: io::Error,
    },
}

fn refused(what: String) -> impl FnOnce(io::Error) -> Taken {
    move |error| Taken::Refused { what, error }
}

/// One family's packet socket.
struct Family {
    socket: OwnedFd,
    v6: bool,
}

/// Receives in the network namespace that it was opened in.
pub struct Receiver {
    families: [Family; 2],
    ports: BTreeMap<u16, Vec<OwnedFd>>,
    gre: Vec<OwnedFd>,
    room: Room,
    shared: Arc<Shared>,
    namespace: Option<u64>,
    counts: ReceiverCounts,
}

/// Which network namespace the calling thread is in; none where `/proc` does not say.
fn namespace() -> Option<u64> {
    rustix::fs::stat("/proc/thread-self/ns/net").ok().map(|it| it.st_ino)
}

impl Receiver {
    /// In the namespace of the calling thread, which is the underlay's. Takes `CAP_NET_RAW`. Nothing comes in before a port is
    /// added.
    pub fn open(underlay: &Underlay) -> io::Result<Receiver> {
        let family = |protocol, v6| {
            let socket = open_packet()?;
            sys::set_filter(socket.as_fd(), &mut nothing())?;
            sys::set_headers(socket.as_fd())?;
            sys::bind_protocol(socket.as_fd(), protocol)?;
            io::Result::Ok(Family { socket, v6 })
        };
        Ok(Receiver {
            families: [family(ETH_P_IP, false)?, family(ETH_P_IPV6, true)?],
            ports: BTreeMap::new(),
            gre: Vec::new(),
            room: Room::new(),
            shared: underlay.shared.clone(),
            namespace: namespace(),
            counts: ReceiverCounts::default(),
        })
    }

    /// From now on receives packets to a UDP port. The calling thread is in the receiver's namespace, here and in
    /// [`Receiver::set_gre`].
    pub fn add_port(&mut self, port: u16) -> Result<(), Taken> {
        if port == 0 {
            return Err(Taken::Zero);
        }
        if self.ports.contains_key(&port) {
            return Ok(());
        }
        if self.ports.len() == PORTS_MAX {
            return Err(Taken::Many { port });
        }
        self.check_namespace()?;
        self.ports.insert(port, reserve(port)?);
        let set = self.set_filters().map_err(refused(format!("receiving UDP port {port}")));
        if set.is_err() {
            self.ports.remove(&port);
        }
        set
    }

    /// From now on receives no packets to a UDP port. Whether it did.
    pub fn remove_port(&mut self, port: u16) -> io::Result<bool> {
        let removed = self.ports.remove(&port).is_some();
        self.set_filters()?;
        Ok(removed)
    }

    /// From now on receives GRE, or not.
    pub fn set_gre(&mut self, on: bool) -> Result<(), Taken> {
        if on != self.gre.is_empty() {
            return Ok(());
        }
        self.check_namespace()?;
        self.gre = if on { reserve_gre()? } else { Vec::new() };
        self.set_filters().map_err(refused("receiving GRE".to_owned()))
    }

    fn check_namespace(&self) -> Result<(), Taken> {
        let here = self.namespace == namespace();
        here.then_some(()).ok_or(Taken::Namespace)
    }

    /// Ports that are received.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.ports.keys().copied()
    }

    fn set_filters(&self) -> io::Result<()> {
        let ports: Vec<u16> = self.ports.keys().copied().collect();
        for family in &self.families {
            let mut steps = wanted(family.v6, &ports, !self.gre.is_empty());
            sys::set_filter(family.socket.as_fd(), &mut steps)?;
        }
        Ok(())
    }

    /// Readable when packets have come: one for each family.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.families[0].socket.as_fd(), self.families[1].socket.as_fd()]
    }

    /// Takes what has come, 64 packets at most; how many were given out. Never waits.
    pub fn receive(&mut self, mut each: impl FnMut(Received<'_>)) -> usize {
        let before = self.counts.received;
        for at in 0..self.families.len() {
            let socket = self.families[at].socket.as_fd();
            match sys::receive(socket, &mut self.room) {
                Ok(count) => self.give(count, &mut each),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    code => *self.counts.failed.entry(code.unwrap_or(0)).or_default() += 1,
                },
            }
        }
        (self.counts.received - before) as usize
    }

    fn give(&mut self, count: usize, each: &mut impl FnMut(Received<'_>)) {
        // One look at the addresses for the whole burst.
        let mut local = [false; BURST];
        self.shared.look(|state| {
            for (at, local) in local.iter_mut().enumerate().take(count) {
                let to = destination(self.room.get(at).packet);
                *local = to.is_some_and(|to| state.is_local(to));
            }
        });
        for (at, local) in local.into_iter().enumerate().take(count) {
            let Packet { header, link, packet, device, is_whole } = self.room.get(at);
            match Offload::read(header, link).filter(|_| is_whole) {
                None => self.counts.malformed += 1,
                Some(_) if !local => self.counts.not_local += 1,
                Some(offload) => {
                    self.counts.received += 1;
                    each(Received { packet, device, offload });
                }
            }
        }
    }

    /// What was counted since it was opened.
    pub fn counts(&mut self) -> &ReceiverCounts {
        for family in &self.families {
            match sys::take_drops(family.socket.as_fd()) {
                Ok(drops) => self.counts.overruns += u64::from(drops),
                Err(error) => {
                    let code = error.raw_os_error().unwrap_or(0);
                    *self.counts.failed.entry(code).or_default() += 1;
                }
            }
        }
        &self.counts
    }
}

fn open_packet() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    if set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    }
    Ok(socket)
}

/// Sockets that have a port and deliver nothing.
fn reserve(port: u16) -> Result<Vec<OwnedFd>, Taken> {
    let failed = |error: io::Error| match error.raw_os_error() {
        Some(libc::EADDRINUSE) => Taken::Port { port },
        _ => refused(format!("reserving UDP port {port}"))(error),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = |family| -> io::Result<OwnedFd> {
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        sys::set_filter(socket.as_fd(), &mut nothing())?;
        Ok(socket)
    };
    let v4 = open(AddressFamily::INET).map_err(failed)?;
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
    bind(&v4, &any).map_err(|error| failed(error.into()))?;
    let mut sockets = vec![v4];
    let v6 = match open(AddressFamily::INET6) {
        Ok(socket) => socket,
        Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => return Ok(sockets),
        Err(error) => return Err(failed(error)),
    };
    set_ipv6_v6only(&v6, true).map_err(|error| failed(error.into()))?;
    match bind(&v6, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0)) {
        Ok(()) => sockets.push(v6),
        // IPv6 is switched off here.
        Err(Errno::ADDRNOTAVAIL) => {}
        Err(error) => return Err(failed(error.into())),
    }
    Ok(sockets)
}

/// Raw sockets by which the kernel takes GRE for wanted, and that deliver nothing.
fn reserve_gre() -> Result<Vec<OwnedFd>, Taken> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let gre = std::num::NonZeroU32::new(libc::IPPROTO_GRE as u32).map(Protocol::from_raw);
    let mut sockets = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let opened = socket_with(family, SocketType::RAW, flags, gre);
        let socket = match opened {
            Err(Errno::AFNOSUPPORT) => continue,
            opened => opened.map_err(|error| refused("receiving GRE".to_owned())(error.into()))?,
        };
        let set = sys::set_filter(socket.as_fd(), &mut nothing());
        set.map_err(refused("receiving GRE".to_owned()))?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => packet.get(16..20)?.first_chunk().map(|to: &[u8; 4]| IpAddr::V4(Ipv4Addr::from(*to))),
        6 => packet.get(24..40)?.first_chunk().map(|to: &[u8; 16]| IpAddr::V6(Ipv6Addr::from(*to))),
        _ => None,
    }
}
