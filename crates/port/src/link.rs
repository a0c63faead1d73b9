//! Linux interfaces by name, over rtnetlink (`rtnetlink(7)`): what they are, what changes, up and
//! down.
//!
//! Two sockets: one asks and gets its answer, one listens to the link group so that a control
//! thread can sleep on it. A watcher that has found an interface hears of that one alone, so that a change of one of
//! a thousand interfaces wakes the port of one. Both belong to the network namespace they were opened in
//! ([`Watcher::open_in`] takes another).
//!
//! Cost: a query is one request and one answer of about 2 KB.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use crate::{Error, KernelStats, LinkState};

/// Type of an Ethernet interface in `if_arp.h`.
const ARPHRD_ETHER: u16 = 1;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;
const RTMGRP_LINK: u32 = 1;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_STATS64: u16 = 23;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const ENODEV: i32 = 19;

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 4;

/// An interface, as the kernel describes it now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number; another one after it was deleted and made anew.
    pub index: u32,
    /// Its type, as in `if_arp.h`.
    pub arphrd: u16,
    /// Hardware address; zeros if it has none of six bytes.
    pub mac: [u8; 6],
    /// Payload bytes of a frame.
    pub mtu: u32,
    /// What makes it, for one that is not hardware: `veth`, `bridge`, `tun`, ...; else empty.
    pub kind: String,
    /// Up, and with carrier.
    pub state: LinkState,
    /// Its counters since it was made.
    pub stats: KernelStats,
}

/// Counters that go on counting when their interface is made anew and starts from zero again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Of interfaces that are gone.
    past: KernelStats,
    /// Of the present one, when we first saw it.
    base: KernelStats,
    /// Of the present one, when we last saw it.
    seen: KernelStats,
}

impl Totals {
    /// Starts from zero at an interface that has counted before.
    pub fn starting_at(base: KernelStats) -> Totals {
        Totals { past: KernelStats::default(), base, seen: base }
    }

    /// Takes note of the present interface's counters.
    pub fn see(&mut self, stats: KernelStats) {
        self.seen = stats;
    }

    /// A new interface has taken the old one's place.
    pub fn restart(&mut self) {
        *self = Totals { past: self.total(), ..Totals::default() };
    }

    /// What has been counted since the start.
    pub fn total(&self) -> KernelStats {
        let sum = |of: fn(&KernelStats) -> u64| {
            of(&self.past) + of(&self.seen).saturating_sub(of(&self.base))
        };
        KernelStats {
            rx_dropped: sum(|s| s.rx_dropped),
            rx_errors: sum(|s| s.rx_errors),
            rx_frame_errors: sum(|s| s.rx_frame_errors),
            rx_over_errors: sum(|s| s.rx_over_errors),
            rx_crc_errors: sum(|s| s.rx_crc_errors),
            tx_dropped: sum(|s| s.tx_dropped),
            tx_errors: sum(|s| s.tx_errors),
            collisions: sum(|s| s.collisions),
        }
    }
}

/// Finds an Ethernet interface, brings it up, and gives the watcher that asked: how a port on an
/// interface begins. `needs` are the privileges to name where one is missing.
pub fn bring_up(name: &str, needs: &'static str) -> Result<(Watcher, Link), Error> {
    let failed = |action, e: io::Error| Error::io(name, action, needs, e);
    let mut watcher = Watcher::open().map_err(|e| failed("opening a netlink socket", e))?;
    let found = watcher.query(name).map_err(|e| failed("asking for the interface", e))?;
    let link = found.ok_or_else(|| Error::NoInterface { name: name.to_owned() })?;
    if link.arphrd != ARPHRD_ETHER {
        return Err(Error::NotEthernet { name: name.to_owned(), arphrd: link.arphrd });
    }
    if !link.state.admin_up {
        let up = watcher.set_up(link.index, true);
        up.map_err(|e| failed("bringing the interface up", e))?;
    }
    Ok((watcher, link))
}

/// What an interface is to be; what is not said stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkRequest {
    /// The largest frame behind the Ethernet header.
    pub mtu: Option<u32>,
    /// Its address.
    pub mac: Option<[u8; 6]>,
}

/// Asks and listens about one namespace's interfaces.
pub struct Watcher {
    asking: OwnedFd,
    listening: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
    /// The interface that it listens to; all, if none.
    follows: Option<u32>,
}

impl Watcher {
    /// In the namespace of the calling thread.
    pub fn open() -> io::Result<Watcher> {
        let route = |flags| {
            socket_with(AddressFamily::NETLINK, SocketType::RAW, flags | SocketFlags::CLOEXEC, None)
        };
        let asking = route(SocketFlags::empty())?;
        bind(&asking, &SocketAddrNetlink::new(0, 0))?;
        let listening = route(SocketFlags::NONBLOCK)?;
        bind(&listening, &SocketAddrNetlink::new(0, RTMGRP_LINK))?;
        Ok(Watcher { asking, listening, sequence: 0, buffer: vec![0; 32 * 1024], follows: None })
    }

    /// In another namespace: a thread goes there, opens the sockets, and ends.
    pub fn open_in(namespace: OwnedFd) -> io::Result<Watcher> {
        let thread = std::thread::Builder::new().spawn(move || {
            rustix::thread::move_into_link_name_space(
                namespace.as_fd(),
                Some(rustix::thread::LinkNameSpaceType::Network),
            )?;
            Watcher::open()
        })?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the helper thread panicked")))
    }

    /// Readable when the interface that [`query`](Self::query) has found last has changed or gone; if it found none, when
    /// some interface of the namespace has changed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listening.as_fd()
    }

    /// Forgets pending events; says whether there were any. Which ones does not matter: who wants
    /// to know the state asks for it, so an overrun is only one more event.
    pub fn drain(&mut self) -> bool {
        let mut any = false;
        loop {
            match recv(&self.listening, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok(_) | Err(rustix::io::Errno::NOBUFS) => any = true,
                Err(_) => return any,
            }
        }
    }

    /// The interface of that name; `None` if there is none. Events are from now on those of this interface.
    pub fn query(&mut self, name: &str) -> io::Result<Option<Link>> {
        let found = self.ask_link(name)?;
        let index = found.as_ref().map(|link| link.index);
        if index == self.follows {
            return Ok(found);
        }
        crate::sys::filter::set_link(self.listening.as_fd(), index)?;
        self.follows = index;
        // What happened before the events were those of this one is seen now.
        let again = self.ask_link(name)?;
        if again.as_ref().map(|link| link.index) != index {
            // It goes and comes at this very moment: every event is a reason to ask anew.
            crate::sys::filter::set_link(self.listening.as_fd(), None)?;
            self.follows = None;
        }
        Ok(again)
    }

    fn ask_link(&mut self, name: &str) -> io::Result<Option<Link>> {
        let mut request = Request::new(RTM_GETLINK, 0);
        let mut c_name = name.as_bytes().to_vec();
        c_name.push(0);
        request.attribute(IFLA_IFNAME, &c_name);
        match self.ask(request) {
            Ok(answer) => parse_link(&answer)
                .map(Some)
                .ok_or_else(|| io::Error::other("netlink: malformed description of a link")),
            Err(error) if error.raw_os_error() == Some(ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Brings an interface up or down.
    pub fn set_up(&mut self, index: u32, up: bool) -> io::Result<()> {
        let mut request = Request::new(RTM_NEWLINK, NLM_F_ACK);
        request.put(16 + 4, &index.to_ne_bytes());
        request.put(16 + 8, &if up { IFF_UP } else { 0 }.to_ne_bytes());
        request.put(16 + 12, &IFF_UP.to_ne_bytes());
        self.ask(request).map(drop)
    }

    /// Sets the largest frame behind the Ethernet header, and the address, as far as they are said.
    pub fn set(&mut self, index: u32, wanted: LinkRequest) -> io::Result<()> {
        if let Some(mtu) = wanted.mtu {
            self.set_attribute(index, IFLA_MTU, &mtu.to_ne_bytes())?;
        }
        match wanted.mac {
            Some(mac) => self.set_attribute(index, IFLA_ADDRESS, &mac),
            None => Ok(()),
        }
    }

    fn set_attribute(&mut self, index: u32, kind: u16, value: &[u8]) -> io::Result<()> {
        let mut request = Request::new(RTM_NEWLINK, NLM_F_ACK);
        request.put(16 + 4, &index.to_ne_bytes());
        request.attribute(kind, value);
        self.ask(request).map(drop)
    }

    /// Sends a request and returns the payload of its answer.
    fn ask(&mut self, request: Request) -> io::Result<Vec<u8>> {
        self.sequence = self.sequence.wrapping_add(1);
        request.ask(self.asking.as_fd(), self.sequence, &mut self.buffer)
    }
}

/// Asks whether an interface of the namespace that it was opened in takes XDP frames from others, as a redirect hands
/// them over (generic netlink's family `netdev`, Linux 6.3).
pub struct XdpFeatures {
    asking: OwnedFd,
    family: u16,
    sequence: u32,
}

impl XdpFeatures {
    /// In the namespace of the calling thread.
    pub fn open() -> io::Result<XdpFeatures> {
        let protocol = Some(rustix::net::netlink::GENERIC);
        let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
        let asking = socket_with(AddressFamily::NETLINK, kind, flags, protocol)?;
        bind(&asking, &SocketAddrNetlink::new(0, 0))?;
        let mut request = Request::generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
        request.attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let answer = request.ask(asking.as_fd(), 1, &mut [0; 8192])?;
        let family = generic_attribute(&answer, CTRL_ATTR_FAMILY_ID).and_then(|id| u16_at(id, 0));
        let family = family.ok_or_else(|| io::Error::other("netlink: malformed family"))?;
        Ok(XdpFeatures { asking, family, sequence: 1 })
    }

    /// Whether the interface of this number takes them now.
    pub fn takes_frames(&mut self, ifindex: u32) -> io::Result<bool> {
        let mut request = Request::generic(self.family, NETDEV_CMD_DEV_GET);
        request.attribute(NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes());
        self.sequence = self.sequence.wrapping_add(1);
        let answer = request.ask(self.asking.as_fd(), self.sequence, &mut [0; 8192])?;
        let features = generic_attribute(&answer, NETDEV_A_DEV_XDP_FEATURES);
        let features = features.and_then(|bytes| bytes.first_chunk().copied());
        let features = features.ok_or_else(|| io::Error::other("netlink: malformed features"))?;
        Ok(u64::from_ne_bytes(features) & NETDEV_XDP_ACT_NDO_XMIT != 0)
    }
}

/// The value of an attribute of a generic message.
fn generic_attribute(payload: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = payload.get(4..)?;
    loop {
        let len = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..len)?;
        // The two highest bits say how it is to be read.
        if u16_at(rest, 2)? & 0x3fff == wanted {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

impl Request {
    /// Sends it by a socket and returns the payload of its answer (empty for an acknowledgement).
    fn ask(
        mut self,
        socket: BorrowedFd<'_>,
        sequence: u32,
        buffer: &mut [u8],
    ) -> io::Result<Vec<u8>> {
        let len = self.bytes.len() as u32;
        self.put(0, &len.to_ne_bytes());
        self.put(8, &sequence.to_ne_bytes());
        send(socket, &self.bytes, SendFlags::empty())?;
        loop {
            let (_, len) = recv(socket, &mut *buffer, RecvFlags::empty())?;
            let mut rest = &buffer[..len.min(buffer.len())];
            while let Some((kind, answered, payload, after)) = next_message(rest) {
                rest = after;
                if answered != sequence {
                    continue;
                }
                if kind != NLMSG_ERROR {
                    return Ok(payload.to_vec());
                }
                return match u32_at(payload, 0).map(|code| code as i32) {
                    Some(0) => Ok(Vec::new()),
                    Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
                    None => Err(io::Error::other("netlink: truncated error")),
                };
            }
        }
    }
}

/// The speed that an interface of the watcher's namespace reports, in kb/s; `None` where it does
/// not know.
pub fn speed_kbps(watcher: &Watcher, name: &str) -> Option<u32> {
    crate::sys::ioctl::speed_kbps(watcher.asking.as_fd(), name)
}

/// Whether an interface of the watcher's namespace, if it is up, has carrier now: one short system call.
/// The events of [`Watcher::fd`] may tell of a lost carrier up to a second late, as the kernel tells so
/// at most once a second. `None` where the interface does not say.
pub fn carrier(watcher: &Watcher, name: &str) -> Option<bool> {
    crate::sys::ioctl::carrier(watcher.asking.as_fd(), name)
}

/// How many queues an interface of the watcher's namespace receives by; 1 where it does not say.
pub fn rx_queues(watcher: &Watcher, name: &str) -> u32 {
    crate::sys::ioctl::rx_queues(watcher.asking.as_fd(), name).unwrap_or(1)
}

/// A request: `nlmsghdr` (16 bytes), `ifinfomsg` (16 bytes) or `genlmsghdr` (4 bytes), attributes.
struct Request {
    bytes: Vec<u8>,
}

impl Request {
    fn new(kind: u16, flags: u16) -> Request {
        let mut request = Request { bytes: vec![0; 32] };
        request.put(4, &kind.to_ne_bytes());
        request.put(6, &(flags | NLM_F_REQUEST).to_ne_bytes());
        request
    }

    /// One of generic netlink.
    fn generic(family: u16, command: u8) -> Request {
        let mut request = Request { bytes: vec![0; 20] };
        request.put(4, &family.to_ne_bytes());
        request.put(6, &NLM_F_REQUEST.to_ne_bytes());
        request.put(16, &[command, 1]);
        request
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn attribute(&mut self, kind: u16, payload: &[u8]) {
        self.bytes.extend((4 + payload.len() as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(payload);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The first message: type, sequence number, payload, and what follows it.
fn next_message(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let len = u32_at(bytes, 0)? as usize;
    let payload = bytes.get(16..len)?;
    let after = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some((u16_at(bytes, 4)?, u32_at(bytes, 8)?, payload, after))
}

fn parse_link(payload: &[u8]) -> Option<Link> {
    let flags = u32_at(payload, 8)?;
    let mut link = Link {
        arphrd: u16_at(payload, 2)?,
        index: u32_at(payload, 4)?,
        state: LinkState {
            present: true,
            admin_up: flags & IFF_UP != 0,
            carrier: flags & IFF_LOWER_UP != 0,
        },
        ..Link::default()
    };
    let mut rest = payload.get(16..)?;
    while let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let len = usize::from(len);
        let value = rest.get(4..len)?;
        match kind {
            IFLA_ADDRESS => link.mac = value.try_into().unwrap_or_default(),
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            IFLA_LINKINFO => link.kind = parse_kind(value).unwrap_or_default(),
            IFLA_STATS64 => link.stats = parse_stats(value),
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(link)
}

/// The kind among the attributes nested in `IFLA_LINKINFO`.
fn parse_kind(mut rest: &[u8]) -> Option<String> {
    loop {
        let len = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..len)?;
        if u16_at(rest, 2)? == IFLA_INFO_KIND {
            let text = value.split(|&b| b == 0).next()?;
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

/// `struct rtnl_link_stats64`: 64-bit counters.
fn parse_stats(value: &[u8]) -> KernelStats {
    let counter = |index: usize| {
        let bytes = value.get(index * 8..index * 8 + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    };
    KernelStats {
        rx_errors: counter(4),
        tx_errors: counter(5),
        rx_dropped: counter(6),
        tx_dropped: counter(7),
        collisions: counter(9),
        rx_over_errors: counter(11),
        rx_crc_errors: counter(12),
        rx_frame_errors: counter(13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_loopback() {
        let mut watcher = Watcher::open().unwrap();
        let lo = watcher.query("lo").unwrap().expect("a loopback interface");
        assert_eq!((lo.index, lo.arphrd, lo.mac), (1, 772, [0; 6]));
        assert_eq!(carrier(&watcher, "lo"), Some(lo.state.carrier));
        assert_eq!(carrier(&watcher, "mrp-nothing"), None);
        assert_eq!(watcher.query("mrp-nothing").unwrap(), None);
        assert!(watcher.query("a name that is much too long for an interface").is_err());
    }

    #[test]
    fn hears_of_the_interface_that_was_found_alone() {
        let mut watcher = Watcher::open().unwrap();
        assert_eq!(watcher.follows, None);
        watcher.query("lo").unwrap().expect("a loopback interface");
        assert_eq!(watcher.follows, Some(1));
        watcher.query("lo").unwrap().expect("the same one");
        assert_eq!(watcher.query("mrp-nothing").unwrap(), None);
        assert_eq!(watcher.follows, None, "one that is not there may come by any event");
    }

    #[test]
    fn knows_that_the_loopback_takes_no_xdp_frames() {
        // Kernels before 6.3 do not say.
        let Ok(mut features) = XdpFeatures::open() else { return };
        assert!(!features.takes_frames(1).unwrap());
        let error = features.takes_frames(u32::MAX >> 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(ENODEV));
    }

    #[test]
    fn finds_generic_attributes() {
        let message = [1, 1, 0, 0, 5, 0, 9, 0, 7, 0, 0, 0, 8, 0, 3, 0x40, 1, 2, 3, 4];
        assert_eq!(generic_attribute(&message, 3), Some(&[1, 2, 3, 4][..]));
        assert_eq!(generic_attribute(&message, 9), Some(&[7][..]));
        for (len, wanted) in [(20, 4), (19, 3), (9, 3), (3, 9), (0, 9)] {
            assert_eq!(generic_attribute(&message[..len], wanted), None);
        }
        assert_eq!(generic_attribute(&[0; 12], 5), None);
    }

    #[test]
    fn totals_survive_a_new_interface() {
        let stats = |rx_errors| KernelStats { rx_errors, ..KernelStats::default() };
        let mut totals = Totals::starting_at(stats(10));
        totals.see(stats(15));
        assert_eq!(totals.total(), stats(5));
        totals.restart();
        assert_eq!(totals.total(), stats(5));
        totals.see(stats(3));
        assert_eq!(totals.total(), stats(8));
    }

    #[test]
    fn refuses_damaged_answers() {
        assert_eq!(parse_link(&[0; 15]), None);
        let mut payload = vec![0; 16];
        payload.extend([40, 0, 4, 0, 0, 0]);
        assert_eq!(parse_link(&payload), None);
        assert!(next_message(&[200, 0, 0, 0, 0, 0, 0, 0]).is_none());
    }
}
