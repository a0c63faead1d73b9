//! What tunnel ports ask of the network that carries their packets.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use port::Offload;

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The number of the device that it leaves by.
    pub device: u32,
    /// Its source address.
    pub source: IpAddr,
    /// The device's hardware address.
    pub local_mac: [u8; 6],
    /// The next hop.
    pub gateway: IpAddr,
    /// The next hop's hardware address, once it is known.
    pub neighbour: Option<[u8; 6]>,
    /// Octets of an IP packet, at most.
    pub mtu: u32,
}

/// The kernel's routes, addresses and neighbours. All calls may come from the packet path.
pub trait Underlay: Send + Sync {
    /// Changes whenever an answer of the others may. An atomic load.
    fn version(&self) -> u64;

    /// Where a packet goes next; None: nowhere.
    fn resolve(&self, to: IpAddr, from: Option<IpAddr>, mark: u32) -> Option<Next>;

    /// Has the kernel find out a neighbour's hardware address. Limited in rate, never blocks.
    fn ask(&self, device: u32, gateway: IpAddr);

    /// Whether this host has the address.
    fn is_local(&self, address: IpAddr) -> bool;

    /// The number of the device of a name.
    fn index_of(&self, name: &str) -> Option<u32>;

    /// The kernel's own sockets, for packets that leave and come by devices that are no ports here.
    fn sockets(&self) -> Option<Arc<dyn Sockets>> {
        None
    }
}

/// Packets by the kernel: it routes them and finds neighbours. It takes none that is longer than the MTU.
pub trait Sockets: Send + Sync {
    /// Sends an IP packet, routed by this mark if it is not 0. Never blocks.
    fn send(&self, packet: &[u8], mark: u32) -> io::Result<()>;

    /// What is to come in from now on: packets for this host to these UDP ports, and GRE.
    fn listen(&self, udp_ports: &[u16], gre: bool) -> io::Result<()>;

    /// Gives IP packets that have come in, a burst of them at most, each with what it owes as an Ethernet frame: places are 14
    /// octets further on than in the packet. Says how many. Never blocks.
    fn receive(&self, each: &mut dyn FnMut(&[u8], Offload)) -> usize;

    /// Readable while packets wait.
    fn fd(&self) -> BorrowedFd<'_>;
}
