//! Packets of tunnels by the kernel's own sockets, which are opened when the first tunnel port is.

use super::kernel::network;
use crate::sync::lock;
use rustix::event::epoll;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tunnel::underlay::Sockets;
use underlay::Underlay;
use underlay::kernel::{Outgoing, Received, Receiver, Sender};

/// The sockets.
pub(super) struct KernelSockets {
    underlay: Arc<OnceLock<Option<Underlay>>>,
    /// Readable while packets wait in either socket.
    ready: OwnedFd,
    open: Mutex<Option<Open>>,
    /// A packet of many segments was dropped, which was logged.
    told: AtomicBool,
}

struct Open {
    sender: Sender,
    receiver: Receiver,
    /// A packet whose checksum is completed.
    scratch: Vec<u8>,
}

impl KernelSockets {
    pub(super) fn new(underlay: Arc<OnceLock<Option<Underlay>>>) -> io::Result<KernelSockets> {
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (open, told) = (Mutex::default(), AtomicBool::new(false));
        Ok(KernelSockets { underlay, ready, open, told })
    }

    fn opened(&self) -> io::Result<Open> {
        let network = network(&self.underlay);
        let network = network.ok_or_else(|| io::Error::other("the kernel tells no routes"))?;
        let (sender, receiver) = (Sender::open()?, Receiver::open(network)?);
        for fd in receiver.fds() {
            let (data, flags) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
            epoll::add(&self.ready, fd, data, flags)?;
        }
        Ok(Open { sender, receiver, scratch: Vec::new() })
    }

    /// A packet as it is on a wire; none for one that stands for many.
    fn whole<'a>(&self, received: &Received<'a>, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        if received.offload.gso.is_some() {
            if !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "a packet of a tunnel that stands for many segments was dropped; switch them off \
                     at its sender: ethtool -K DEVICE gro off gso off tso off"
                );
            }
            return None;
        }
        let Some((start, offset)) = received.offload.checksum else { return Some(received.packet) };
        scratch.clear();
        scratch.extend_from_slice(received.packet);
        let (start, offset) = (usize::from(start), usize::from(offset));
        wire::offload::complete_partial_checksum(scratch, start, offset).ok()?;
        Some(scratch)
    }
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

    fn receive(&self, each: &mut dyn FnMut(&[u8])) -> usize {
        let mut held = lock(&self.open);
        let Some(Open { receiver, scratch, .. }) = &mut *held else { return 0 };
        receiver.receive(|received| {
            if let Some(packet) = self.whole(&received, scratch) {
                each(packet);
            }
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
