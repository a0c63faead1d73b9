//! Packets of tunnels by the kernel's own sockets, which are opened when the first tunnel port is.

use super::kernel::network;
use crate::sync::lock;
use port::offload::{Csum, Gso, GsoKind, Offload};
use rustix::event::epoll;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};
use tunnel::underlay::Sockets;
use underlay::Underlay;
use underlay::kernel::{GsoKind as Joined, Outgoing, Receiver, Sender};

/// The sockets.
pub(super) struct KernelSockets {
    underlay: Arc<OnceLock<Option<Underlay>>>,
    /// Readable while packets wait in either socket.
    ready: OwnedFd,
    open: Mutex<Option<Open>>,
}

struct Open {
    sender: Sender,
    receiver: Receiver,
}

impl KernelSockets {
    pub(super) fn new(underlay: Arc<OnceLock<Option<Underlay>>>) -> io::Result<KernelSockets> {
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(KernelSockets { underlay, ready, open: Mutex::default() })
    }

    fn opened(&self) -> io::Result<Open> {
        let network = network(&self.underlay);
        let network = network.ok_or_else(|| io::Error::other("the kernel tells no routes"))?;
        let (sender, receiver) = (Sender::open()?, Receiver::open(network)?);
        for fd in receiver.fds() {
            let (data, flags) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
            epoll::add(&self.ready, fd, data, flags)?;
        }
        Ok(Open { sender, receiver })
    }
}

/// Octets of the Ethernet header that a packet gets in front.
const ETHERNET: u16 = 14;

/// What a packet owes as an Ethernet frame. In a tunnel it is the inner packet that stands for many segments.
fn owed(of: &underlay::kernel::Offload) -> Offload {
    let csum = match of.checksum {
        Some((start, offset)) => Csum::Partial { start: start.saturating_add(ETHERNET), offset },
        None if of.valid => Csum::Valid,
        None => Csum::None,
    };
    let gso = of.gso.map(|(kind, size)| {
        let kind = match kind {
            Joined::TcpV4 => GsoKind::TcpV4,
            Joined::TcpV6 => GsoKind::TcpV6,
            Joined::UdpFragments => GsoKind::UdpFragment,
            Joined::UdpSegments => GsoKind::UdpL4,
        };
        Gso { kind, size, hdr_len: 0, ecn: of.ecn }
    });
    Offload { csum, gso }
}

impl Sockets for KernelSockets {
    fn send(&self, packet: &[u8], mark: u32) -> io::Result<()> {
        let mut open = lock(&self.open);
        let Some(open) = &mut *open else { return Err(io::ErrorKind::NotConnected.into()) };
        match open.sender.send([Outgoing { packet, mark, device: 0 }]) {
            1 => Ok(()),
            _ => Err(io::Error::other("the kernel refused it")),
        }
    }

    fn listen(&self, udp_ports: &[u16], gre: bool) -> io::Result<()> {
        let mut held = lock(&self.open);
        if held.is_none() {
            if udp_ports.is_empty() && !gre {
                return Ok(());
            }
            *held = Some(self.opened()?);
        }
        let Some(open) = &mut *held else { return Ok(()) };
        let before: Vec<u16> = open.receiver.ports().collect();
        for port in before.iter().filter(|port| !udp_ports.contains(port)) {
            open.receiver.remove_port(*port)?;
        }
        for port in udp_ports.iter().filter(|port| !before.contains(port)) {
            open.receiver.add_port(*port).map_err(io::Error::other)?;
        }
        open.receiver.set_gre(gre).map_err(io::Error::other)
    }

    fn receive(&self, each: &mut dyn FnMut(&[u8], Offload)) -> usize {
        let mut held = lock(&self.open);
        let Some(Open { receiver, .. }) = &mut *held else { return 0 };
        receiver.receive(|received| each(received.packet, owed(&received.offload)))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux's VXLAN device gives 64 KB of inner TCP in one packet; it stays one.
    #[test]
    fn a_packet_of_many_segments_owes_what_it_owed() {
        let whole = underlay::kernel::Offload {
            checksum: Some((84, 16)),
            gso: Some((Joined::TcpV4, 1398)),
            ..Default::default()
        };
        let gso = Gso { kind: GsoKind::TcpV4, size: 1398, hdr_len: 0, ecn: false };
        let csum = Csum::Partial { start: 98, offset: 16 };
        assert_eq!(owed(&whole), Offload { csum, gso: Some(gso) });
        let valid = underlay::kernel::Offload { valid: true, ..Default::default() };
        assert_eq!(owed(&valid), Offload { csum: Csum::Valid, gso: None });
        assert_eq!(owed(&Default::default()), Offload::NONE);
    }
}
