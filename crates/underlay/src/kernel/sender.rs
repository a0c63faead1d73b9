//! Sends whole IP packets by the kernel's routes (`raw(7)`: `IPPROTO_RAW`, which has the header included).
//!
//! The kernel fills in the IPv4 header's checksum, and its identification if that is 0. It fragments nothing: what is longer than
//! the path's MTU is refused (`EMSGSIZE`).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::sys::{self, BURST, Out};

/// Octets that the kernel keeps of what its devices have not sent yet.
const SEND_BUFFER: usize = 4 << 20;

/// A packet to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The whole IP packet. Its destination is read from it.
    pub packet: &'a [u8],
    /// Its mark (`SO_MARK`), which takes `CAP_NET_ADMIN`; 0 for none.
    pub mark: u32,
    /// The device, which only link-local and multicast destinations of IPv6 need.
    pub device: u32,
}

/// What a sender has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Packets that the kernel took.
    pub sent: u64,
    /// Packets that are no IP packets.
    pub malformed: u64,
    /// Packets that the kernel refused, by the number of the error (`errno(3)`).
    pub refused: BTreeMap<i32, u64>,
}

/// Sends by the network namespace that it was opened in. Each worker has its own.
pub struct Sender {
    v4: OwnedFd,
    /// None where the kernel has no IPv6.
    v6: Option<OwnedFd>,
    counts: SenderCounts,
}

impl Sender {
    /// In the namespace of the calling thread. Takes `CAP_NET_RAW`.
    pub fn open() -> io::Result<Sender> {
        let v4 = open(AddressFamily::INET)?;
        let v6 = match open(AddressFamily::INET6) {
            Ok(socket) => Some(socket),
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            Err(error) => return Err(error),
        };
        Ok(Sender { v4, v6, counts: SenderCounts::default() })
    }

    /// Sends packets in their order; how many the kernel took. Never waits; what is refused is counted.
    pub fn send<'a>(&mut self, packets: impl IntoIterator<Item = Outgoing<'a>>) -> usize {
        let mut sent = 0;
        let mut burst: Vec<Out<'a>> = Vec::with_capacity(BURST);
        for outgoing in packets {
            let Some(to) = destination(outgoing.packet) else {
                self.counts.malformed += 1;
                continue;
            };
            let Outgoing { packet, mark, device } = outgoing;
            let turns = burst.last().is_some_and(|last| last.to.is_ipv6() != to.is_ipv6());
            if turns || burst.len() == BURST {
                sent += self.flush(&mut burst);
            }
            burst.push(Out { packet, to, mark, device });
        }
        sent + self.flush(&mut burst)
    }

    /// Sends packets of one family.
    fn flush(&mut self, burst: &mut Vec<Out<'_>>) -> usize {
        let (mut rest, mut sent) = (burst.as_slice(), 0);
        while let Some(first) = rest.first() {
            let socket = if first.to.is_ipv6() { self.v6.as_ref() } else { Some(&self.v4) };
            let done = match socket {
                Some(socket) => sys::send(socket.as_fd(), rest),
                None => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
            };
            match done {
                Ok(count) if count > 0 => {
                    sent += count;
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // The first one was refused: the others may be taken.
                refused => {
                    let code = refused.err().and_then(|error| error.raw_os_error());
                    *self.counts.refused.entry(code.unwrap_or(0)).or_default() += 1;
                    rest = &rest[1..];
                }
            }
        }
        burst.clear();
        self.counts.sent += sent as u64;
        sent
    }

    /// What was counted since it was opened.
    pub fn counts(&self) -> &SenderCounts {
        &self.counts
    }
}

fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let raw =
        std::num::NonZeroU32::new(libc::IPPROTO_RAW as u32).map(rustix::net::Protocol::from_raw);
    let socket = socket_with(family, SocketType::RAW, flags, raw)?;
    if set_socket_send_buffer_size_force(&socket, SEND_BUFFER).is_err() {
        set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
    }
    Ok(socket)
}

/// Where an IP packet goes; none if it is not whole.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    let len = |at: usize| {
        packet.get(at..at + 2).map(|two| usize::from(two[0]) << 8 | usize::from(two[1]))
    };
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 && len(2)? == packet.len() => {
            packet.get(16..20)?.first_chunk().map(|to: &[u8; 4]| IpAddr::V4(Ipv4Addr::from(*to)))
        }
        6 if packet.len() >= 40 && len(4)? + 40 == packet.len() => {
            packet.get(24..40)?.first_chunk().map(|to: &[u8; 16]| IpAddr::V6(Ipv6Addr::from(*to)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_of_whole_packets_alone() {
        let mut v4 = [0; 24];
        (v4[0], v4[3]) = (0x45, 24);
        v4[16..20].copy_from_slice(&[10, 0, 0, 9]);
        assert_eq!(destination(&v4), Some([10, 0, 0, 9].into()));
        let mut v6 = [0; 44];
        (v6[0], v6[5], v6[39]) = (0x60, 4, 1);
        assert_eq!(destination(&v6), Some(IpAddr::V6(1.into())));
        (0..24).for_each(|len| assert_eq!(destination(&v4[..len]), None));
        (0..44).for_each(|len| assert_eq!(destination(&v6[..len]), None));
        v4[0] = 0x55;
        assert_eq!(destination(&v4), None);
    }
}
