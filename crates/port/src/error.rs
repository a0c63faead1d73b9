//! What can go wrong when a port is opened or commanded, and how a receive queue ends.

use std::io;

/// Why a port could not be opened or commanded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{name}: {action} failed: {source}")]
    Io {
        /// The port or file.
        name: String,
        /// What was being done, as a noun phrase.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The user lacks a privilege.
    #[error("{name}: {action} needs {needs}; run as root, or give millrace that with setcap(8)")]
    Privilege {
        /// The port.
        name: String,
        /// What was being done.
        action: &'static str,
        /// The capability.
        needs: &'static str,
    },
    /// No such interface.
    #[error("{name}: there is no such interface; `ip link` lists those there are")]
    NoInterface {
        /// The interface's name.
        name: String,
    },
    /// The kernel would not take it as an interface's name.
    #[error("{name:?} cannot be an interface name: 1 to 15 bytes, no '/', ':' nor white space")]
    BadInterfaceName {
        /// The name given.
        name: String,
    },
    /// The interface is not an Ethernet device.
    #[error("{name}: not an Ethernet interface (ARPHRD type {arphrd}, wanted 1)")]
    NotEthernet {
        /// The interface's name.
        name: String,
        /// Its type, as in `if_arp.h`.
        arphrd: u16,
    },
    /// A queue was asked for that the port does not have.
    #[error("{name}: no receive queue {queue}; it has {queues}, counted from 0")]
    NoQueue {
        /// The port.
        name: String,
        /// The queue asked for.
        queue: usize,
        /// How many there are.
        queues: usize,
    },
    /// The queue or port has been opened already.
    #[error("{name}: {what} is open already; it can be opened once")]
    Busy {
        /// The port.
        name: String,
        /// Which part of it.
        what: &'static str,
    },
    /// A capture file is malformed.
    #[error("{name}: {source}")]
    Pcap {
        /// The file.
        name: String,
        /// What is wrong with it, and where.
        source: crate::pcap::PcapError,
    },
    /// This machine or kernel cannot do it.
    #[error("{name}: {what}")]
    Unsupported {
        /// The port.
        name: String,
        /// What cannot be done, and what would.
        what: String,
    },
}

impl Error {
    /// Wraps a failed system call; `EPERM` and `EACCES` become [`Error::Privilege`] where `needs`
    /// names the capability.
    pub fn io(
        name: &str,
        action: &'static str,
        needs: &'static str,
        source: impl Into<io::Error>,
    ) -> Error {
        let source = source.into();
        let name = name.to_owned();
        if source.kind() == io::ErrorKind::PermissionDenied && !needs.is_empty() {
            return Error::Privilege { name, action, needs };
        }
        Error::Io { name, action, source }
    }
}

/// Why a receive queue gave nothing and will not at once.
#[derive(Debug, thiserror::Error)]
pub enum RxError {
    /// There will never be another frame: the end of a capture file, or the far end is gone.
    #[error("no more frames will come")]
    Ended,
    /// The interface is down; frames may come when it is up again.
    #[error("the interface is down")]
    Down,
    /// The interface does not exist; frames may come when it is there again.
    #[error("the interface does not exist")]
    Gone,
    /// The input is malformed from here on.
    #[error(transparent)]
    Pcap(#[from] crate::pcap::PcapError),
    /// The system failed.
    #[error("receiving failed: {0}")]
    Io(#[from] io::Error),
}
