//! Netlink sockets: questions with their answers, and news.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_timeout,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use crate::message::{Message, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, next_message};

const RTM_NEWNEIGH: u16 = 28;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_CREATE: u16 = 0x400;
const NTF_USE: u8 = 1;
const NDA_DST: u16 = 1;

/// Links, neighbours, addresses, routes, rules, next hops: a bit for each group of `rtnetlink(7)`.
const GROUPS: u32 = 1 | 4 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 1 << (19 - 1) | 1 << (32 - 1);
/// The largest datagram of the kernel's answers.
const DATAGRAM_MAX: usize = 64 * 1024;
/// A dump that changes while it is read is read again, so many times.
const DUMPS_MAX: usize = 20;
/// The kernel answers at once; a socket that does not is broken.
const ANSWER_S: u64 = 10;

/// What is asked for as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dump {
    Links = 18,
    Addresses = 22,
    Routes = 26,
    Neighbours = 30,
    Rules = 34,
}

fn route_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?)
}

/// Asks the kernel.
pub(crate) struct Asker {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Asker {
    /// In the namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Asker> {
        let socket = route_socket(SocketFlags::empty())?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let limit = Some(Duration::from_secs(ANSWER_S));
        set_socket_timeout(&socket, Timeout::Recv, limit)?;
        Ok(Asker { socket, sequence: 0, buffer: vec![0; DATAGRAM_MAX] })
    }

    /// Reads all of a kind; each message is given to `each`. `start` is called before, and again if it has to begin anew.
    pub(crate) fn dump(
        &mut self,
        what: Dump,
        v6: Option<bool>,
        start: &mut dyn FnMut(),
        each: &mut dyn FnMut(&Message<'_>),
    ) -> io::Result<()> {
        for _ in 0..DUMPS_MAX {
            start();
            if self.dump_once(what, v6, each)? {
                return Ok(());
            }
        }
        Err(io::Error::other(format!(
            "{what:?} changed each of {DUMPS_MAX} times that they were read"
        )))
    }

    /// Whether nothing changed while it was read.
    fn dump_once(
        &mut self,
        what: Dump,
        v6: Option<bool>,
        each: &mut dyn FnMut(&Message<'_>),
    ) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        // The fixed part of each kind begins with the family. The longest has 16 octets.
        let mut body = [0; 16];
        body[0] = match v6 {
            None => 0,
            Some(false) => libc::AF_INET as u8,
            Some(true) => libc::AF_INET6 as u8,
        };
        let request = request(what as u16, NLM_F_DUMP, self.sequence, &body);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut whole = true;
        loop {
            let (_, len) = recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::TRUNC)?;
            let datagram = self.buffer.get(..len);
            let mut datagram =
                datagram.ok_or_else(|| io::Error::other("a datagram is too long"))?;
            while let Some(message) = next_message(&mut datagram) {
                let message = message.map_err(io::Error::other)?;
                if message.sequence != self.sequence {
                    continue;
                }
                whole &= message.flags & NLM_F_DUMP_INTR == 0;
                match message.kind {
                    NLMSG_DONE | NLMSG_ERROR => {
                        return code(&message).map_or(Ok(whole), Err);
                    }
                    _ => each(&message),
                }
            }
        }
    }

    /// Has the kernel resolve a neighbour, as if it had a packet for it.
    pub(crate) fn resolve(&mut self, device: u32, address: IpAddr) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = neighbour_request(device, address, self.sequence);
        send(&self.socket, &request, SendFlags::empty())?;
        loop {
            let (_, len) = recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::empty())?;
            let mut datagram = self.buffer.get(..len).unwrap_or_default();
            while let Some(message) = next_message(&mut datagram) {
                let message = message.map_err(io::Error::other)?;
                if message.sequence == self.sequence && message.kind == NLMSG_ERROR {
                    return code(&message).map_or(Ok(()), Err);
                }
            }
        }
    }
}

/// The error of a message that ends an answer; none if it says that all is well.
fn code(message: &Message<'_>) -> Option<io::Error> {
    let code = message.payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    (code != 0).then(|| io::Error::from_raw_os_error(code.wrapping_neg()))
}

fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + body.len());
    bytes.extend((16 + body.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

fn neighbour_request(device: u32, address: IpAddr, sequence: u32) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    };
    let mut body = vec![family, 0, 0, 0];
    body.extend(device.to_ne_bytes());
    // State none, the flag, no type.
    body.extend([0, 0, NTF_USE, 0]);
    body.extend((4 + octets.len() as u16).to_ne_bytes());
    body.extend(NDA_DST.to_ne_bytes());
    body.extend(octets);
    request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, sequence, &body)
}

/// Hears of changes.
pub(crate) struct News {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// What came.
pub(crate) enum Came<'a> {
    Datagram(&'a [u8]),
    /// Some messages were lost.
    Overrun,
    Nothing,
}

impl News {
    /// In the namespace of the calling thread.
    pub(crate) fn open(receive_buffer: usize) -> io::Result<News> {
        let socket = route_socket(SocketFlags::NONBLOCK)?;
        if set_socket_recv_buffer_size_force(&socket, receive_buffer).is_err() {
            set_socket_recv_buffer_size(&socket, receive_buffer)?;
        }
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(News { socket, buffer: vec![0; DATAGRAM_MAX] })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next datagram.
    pub(crate) fn next(&mut self) -> io::Result<Came<'_>> {
        match recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::TRUNC) {
            Ok((_, len)) => Ok(self.buffer.get(..len).map_or(Came::Overrun, Came::Datagram)),
            Err(Errno::NOBUFS) => Ok(Came::Overrun),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Came::Nothing),
            Err(error) => Err(error.into()),
        }
    }
}
