//! The kind `af_packet`.

use super::AfPacket;
use crate::doctor::{CAP_NET_ADMIN, CAP_NET_RAW, Finding, Machine};
use crate::error::Error;
use crate::kind::{Attached, Attachment, Database, Environment, Kind, TakeOver};
use crate::port::Port;
use crate::spec::words::interface;
use rustix::net::{AddressFamily, SocketType};
use std::fmt;

/// `af_packet:IF`
pub static KIND: Kind = Kind {
    form: "af_packet:IF",
    about: "an interface, by packet sockets",
    use_for: "anything; keeps checksum and segmentation offloads",
    diagnose: Some(diagnose),
    database: &[Database {
        word: "system",
        attach: |name, _| Attached::new(Existing(name.to_owned())),
    }],
    capabilities: &["CAP_NET_ADMIN", "CAP_NET_RAW"],
    ..Kind::plain("af_packet", |text, at| Ok(Attached::new(Existing(interface(text, at)?))))
};

/// An interface that is there.
struct Existing(String);

impl fmt::Display for Existing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "af_packet:{}", self.0)
    }
}

impl Attachment for Existing {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn default_name(&self) -> &str {
        &self.0
    }

    fn open(&self, _: &str, _: &Environment) -> Result<Box<dyn Port>, Error> {
        Ok(Box::new(AfPacket::open(&self.0)?))
    }

    fn take_over(&self) -> TakeOver {
        TakeOver::Shared
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.0)
    }
}

/// Opens a socket.
fn diagnose(machine: &Machine) -> Finding {
    match rustix::net::socket(AddressFamily::PACKET, SocketType::RAW, None) {
        Ok(_) => match machine.missing(&[CAP_NET_ADMIN]) {
            None => Finding::good("opened a socket"),
            Some((missing, mend)) => {
                Finding::bad(format!("{missing} is missing, for promiscuous mode"), Some(mend))
            }
        },
        Err(rustix::io::Errno::AFNOSUPPORT) => {
            let mend = Some("sudo modprobe af_packet".to_string());
            Finding::bad("the kernel has no AF_PACKET (CONFIG_PACKET)", mend)
        }
        Err(error) => match machine.missing(&[CAP_NET_RAW, CAP_NET_ADMIN]) {
            Some((missing, mend)) => Finding::bad(format!("missing: {missing}"), Some(mend)),
            None => Finding::bad(format!("opening a socket failed: {error}"), None),
        },
    }
}
