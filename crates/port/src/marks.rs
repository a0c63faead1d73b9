//! Classification marks: what a port's hardware reports of a frame, and who programs the hardware.
//!
//! An adapter with a table of flows can put a number on each frame of a flow. A [`Mark`] is that number with the
//! *generation* of the table that it came from, so that whoever reads it knows whose numbers they are. A mark
//! is a hint and no more: the table is changed while frames are under way, adapters make mistakes, and a port that wraps another
//! may move frames. Whoever uses one checks what it names against the frame.
//!
//! Marks lie beside a burst's frames ([`Burst::mark`]), and a burst without any costs nothing. Who programs the table asks
//! the port for its [`Marks`].
//!
//! [`Adapter`](crate::adapter::Adapter) does in software what such hardware does.
//!
//! Checked by: the tests below and those of `adapter`; `service`'s, which feeds a tracker right, stale and hostile marks;
//! `datapath/tests/services.rs`.

use std::net::IpAddr;

use wire::layers::{Fragment, Layers, Network};
use wire::{IpProtocol, ipv4, ipv6};

/// What a port reports of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The number.
    pub value: u32,
    /// Whose numbers these are; 0: nothing was reported.
    pub generation: u32,
}

impl Mark {
    /// Nothing was reported.
    pub const NONE: Mark = Mark { value: 0, generation: 0 };
}

/// Frames that get a mark: whole packets of TCP or UDP with these ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// TCP or UDP.
    pub protocol: IpProtocol,
}

impl Flow {
    /// The flow that a frame is of, if it is of one.
    pub fn of(frame: &[u8]) -> Option<Flow> {
        let layers = Layers::of(frame);
        let (l3, l4, protocol) = (layers.l3?, layers.l4?, layers.protocol?);
        let has_ports = matches!(protocol, IpProtocol::TCP | IpProtocol::UDP);
        if !has_ports || layers.fragment != Fragment::Whole || layers.stopped.is_some() {
            return None;
        }
        let header = frame.get(l3..)?;
        let (src, dst) = match layers.network {
            Network::Ipv4 => {
                let packet = ipv4::Packet::new_header_checked(header).ok()?;
                (IpAddr::from(packet.src()), IpAddr::from(packet.dst()))
            }
            Network::Ipv6 => {
                let packet = ipv6::Packet::new_header_checked(header).ok()?;
                (IpAddr::from(packet.src()), IpAddr::from(packet.dst()))
            }
            _ => return None,
        };
        let ports: &[u8; 4] = frame.get(l4..layers.l3_end)?.first_chunk()?;
        let [src_port, dst_port] =
            [[ports[0], ports[1]], [ports[2], ports[3]]].map(u16::from_be_bytes);
        Some(Flow { src, dst, src_port, dst_port, protocol })
    }
}

/// Why a mark was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    /// The table is full.
    #[error("the adapter's table of {0} flows is full")]
    Full(usize),
    /// The adapter does not do it.
    #[error("the adapter marks no such flow: {0}")]
    Refused(String),
    /// There is no such mark.
    #[error("a mark needs a generation that is not 0")]
    Generation,
}

/// The table of a port's hardware.
pub trait Marks: Send + Sync {
    /// Has frames of a flow marked from some time soon on. All marks of a table are of one generation: with the first of another,
    /// those that were there are gone.
    ///
    /// # Errors
    /// As [`MarkError`] says; no other flow's mark was changed.
    fn set(&self, flow: Flow, mark: Mark) -> Result<(), MarkError>;

    /// Has frames of a flow marked no more, from some time soon on; false if they were not.
    fn clear(&self, flow: &Flow) -> bool;

    /// Flows that have a mark.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet over IPv4 from this source port.
    fn udp(port: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 53, 0, 8, 0, 0]);
        frame
    }

    fn flow(port: u16) -> Flow {
        Flow::of(&udp(port)).unwrap()
    }

    #[test]
    fn flows_are_read_from_whole_packets_alone() {
        let want = Flow {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            src_port: 7,
            dst_port: 53,
            protocol: IpProtocol::UDP,
        };
        assert_eq!(flow(7), want);
        for (at, octet) in [(20, 0x20), (21, 1), (23, 1), (12, 9), (14, 0x44)] {
            let mut frame = udp(7);
            frame[at] = octet;
            assert_eq!(Flow::of(&frame), None, "{at}");
        }
        (0..38).for_each(|len| assert_eq!(Flow::of(&udp(7)[..len]), None, "{len}"));
    }
}
