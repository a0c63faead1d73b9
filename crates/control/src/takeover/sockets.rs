//! Sockets that a process that is taken over hands to the new one, with the frames that wait in them
//! ([`takeover`](super)): so nothing is lost of what comes between the last frame of the one and the first of the other.
//!
//! In the answer, a part of text: the network namespace's number, then a line for each socket, the port's number and its
//! interface. The sockets come with its first octets (`SCM_RIGHTS`, unix(7)).
//!
//! Checked by: the test below; `lab/take_over`.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{Error, IoSlice, IoSliceMut, Read, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

/// Sockets that one message can carry, less some.
const SOCKETS_MAX: usize = 250;
/// Octets of the text, at most.
const TEXT_MAX: usize = 64 << 10;

/// What a port receives by.
#[derive(Debug)]
pub(crate) struct Socket {
    /// The port.
    pub(crate) number: u32,
    /// What the socket is bound to, by name.
    pub(crate) interface: String,
    pub(crate) socket: OwnedFd,
}

/// Interfaces of the same name in another namespace are others.
fn namespace() -> Result<u64> {
    Ok(std::fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// Writes an answer with these sockets; the first of them, if there are very many.
pub(crate) fn send(mut stream: &UnixStream, sockets: &[Socket]) -> Result<()> {
    let sockets = &sockets[..sockets.len().min(SOCKETS_MAX)];
    let mut text = format!("{}\n", namespace()?);
    for Socket { number, interface, .. } in sockets {
        text.push_str(&format!("{number} {interface}\n"));
    }
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(text.bytes());
    bytes.extend([0; 4]);
    let fds: Vec<_> = sockets.iter().map(|socket| socket.socket.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Error::other("there is no room for the sockets"));
    }
    let sent = sendmsg(stream, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL)?;
    stream.write_all(&bytes[sent..])
}

/// Reads such an answer. None of a port in another network namespace.
pub(crate) fn receive(mut stream: &UnixStream) -> Result<Vec<Socket>> {
    let mut head = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut head)];
    let got = recvmsg(stream, parts, &mut beside, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut fds = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(sockets) = message {
            fds.extend(sockets);
        }
    }
    if got == 0 {
        return Err(Error::other("it has gone"));
    }
    stream.read_exact(&mut head[got..])?;
    let len = u32::from_le_bytes(head) as usize;
    if len > TEXT_MAX {
        return Err(Error::other("the text is longer than such texts are"));
    }
    let mut text = vec![0; len];
    stream.read_exact(&mut text)?;
    stream.read_exact(&mut head)?;
    let text = String::from_utf8(text).map_err(Error::other)?;
    let mut lines = text.lines();
    if lines.next().and_then(|line| line.parse().ok()) != Some(namespace()?) {
        return Ok(Vec::new());
    }
    let socket = |(line, socket): (&str, OwnedFd)| {
        let (number, interface) = line.split_once(' ')?;
        Some(Socket { number: number.parse().ok()?, interface: interface.to_string(), socket })
    };
    Ok(lines.zip(fds).filter_map(socket).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_come_with_what_waits_in_them() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut far, near) = UnixStream::pair().unwrap();
        far.write_all(b"waits").unwrap();
        let socket = |number, interface: &str, socket: &UnixStream| Socket {
            number,
            interface: interface.to_string(),
            socket: socket.as_fd().try_clone_to_owned().unwrap(),
        };
        send(&there, &[socket(7, "eth0", &near), socket(9, "eth 1", &near)]).unwrap();
        drop(near);
        let got = receive(&here).unwrap();
        let names: Vec<_> = got.iter().map(|s| (s.number, s.interface.as_str())).collect();
        assert_eq!(names, [(7, "eth0"), (9, "eth 1")]);
        let mut waiting = [0; 5];
        UnixStream::from(got.into_iter().next().unwrap().socket).read_exact(&mut waiting).unwrap();
        assert_eq!(&waiting, b"waits");
        // Nothing of the answer is left, and an answer may have none.
        send(&there, &[]).unwrap();
        assert!(receive(&here).unwrap().is_empty());
        drop(there);
        assert!(receive(&here).is_err());
    }
}
