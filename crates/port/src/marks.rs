//! Classification marks: what a port's hardware has said of a frame, and who tells the hardware what to say.
//!
//! An adapter with a table of flows can put a number on each frame of a flow. A [`Mark`] is that number with the
//! *generation* of the table that it came from, so that whoever reads it knows whose numbers they are. A mark
//! is a hint and no more: the table is changed while frames are under way, adapters make mistakes, and a port that wraps another
//! may move frames. Whoever uses one checks what it names against the frame.
//!
//! Marks lie beside a burst's frames ([`Burst::mark`]), and a burst without any costs nothing. Who programs the table asks
//! the port for its [`Marks`].
//!
//! [`Adapter`] is a port around another that does in software what such hardware does: an exact match on addresses, ports and
//! protocol in a table of bounded size, 1,024 entries unless said otherwise. It is for tests and measurements.
//!
//! Checked by: the tests below; `service`'s, which feeds a tracker right, stale and hostile marks;
//! `datapath/tests/services.rs`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};

use wire::layers::{Fragment, Layers, Network};
use wire::{IpProtocol, ipv4, ipv6};

use crate::around::Around;
use crate::{Burst, Drops, Pool, Port, RxError, RxQueue};

/// What a port has said of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    /// What was said.
    pub value: u32,
    /// Whose numbers these are; 0: nothing was said.
    pub generation: u32,
}

impl Mark {
    /// Nothing was said.
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

/// Flows in the table of an [`Adapter`], unless said otherwise.
pub const ENTRIES: usize = 1024;

/// A port around another, with a table that marks flows.
pub struct Adapter {
    inner: Box<dyn Port>,
    table: Arc<Table>,
}

struct Table {
    entries_max: usize,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    generation: u32,
    flows: HashMap<Flow, u32>,
}

impl Adapter {
    /// A table of so many entries in front of `inner`.
    pub fn new(inner: Box<dyn Port>, entries_max: usize) -> Adapter {
        let table = Table { entries_max, state: RwLock::default() };
        Adapter { inner, table: Arc::new(table) }
    }
}

impl Marks for Table {
    fn set(&self, flow: Flow, mark: Mark) -> Result<(), MarkError> {
        if mark.generation == 0 {
            return Err(MarkError::Generation);
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.generation != mark.generation {
            *state = State { generation: mark.generation, ..State::default() };
        }
        if state.flows.len() >= self.entries_max && !state.flows.contains_key(&flow) {
            return Err(MarkError::Full(self.entries_max));
        }
        state.flows.insert(flow, mark.value);
        Ok(())
    }

    fn clear(&self, flow: &Flow) -> bool {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.flows.remove(flow).is_some()
    }

    fn len(&self) -> usize {
        self.state.read().unwrap_or_else(PoisonError::into_inner).flows.len()
    }
}

impl Around for Adapter {
    fn inner(&self) -> &dyn Port {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Port {
        &mut *self.inner
    }

    fn around_rx(&mut self, inner: Box<dyn RxQueue>) -> Box<dyn RxQueue> {
        Box::new(Rx { inner, table: self.table.clone() })
    }

    fn marks_through(&self) -> Option<Arc<dyn Marks>> {
        Some(self.table.clone())
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    table: Arc<Table>,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let added = self.inner.rx(burst, pool)?;
        let state = self.table.state.read().unwrap_or_else(PoisonError::into_inner);
        if added > 0 && !state.flows.is_empty() {
            for at in burst.len() - added..burst.len() {
                let flow = Flow::of(burst.frames()[at].data());
                if let Some(value) = flow.and_then(|flow| state.flows.get(&flow)) {
                    burst.mark(at, Mark { value: *value, generation: state.generation });
                }
            }
        }
        Ok(added)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn drops(&self) -> Drops {
        self.inner.drops()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

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

    #[test]
    fn frames_of_flows_in_the_table_are_marked() {
        let (port, far) = memory::port("m", memory::Config::default()).unwrap();
        let mut adapter = Adapter::new(Box::new(port), 2);
        let (mut rx, mut pool) = (adapter.rx_queue(0).unwrap(), Pool::new());
        let marks = adapter.marks().unwrap();
        let mut seen = |ports: &[u16]| {
            for port in ports {
                assert!(far.inject_bytes(&udp(*port)));
            }
            let mut burst = Burst::new();
            assert_eq!(rx.rx(&mut burst, &mut pool).unwrap(), ports.len());
            let seen: Option<Vec<_>> =
                burst.marks().map(|m| m.iter().map(|m| (m.value, m.generation)).collect());
            burst.recycle(&mut pool);
            assert_eq!(burst.marks(), None, "they end with their frames");
            seen
        };
        assert_eq!(seen(&[1, 2]), None);
        assert_eq!(marks.set(flow(1), Mark { value: 11, generation: 5 }), Ok(()));
        assert_eq!(marks.set(flow(2), Mark { value: 12, generation: 5 }), Ok(()));
        assert_eq!(marks.set(flow(3), Mark { value: 13, generation: 5 }), Err(MarkError::Full(2)));
        assert_eq!(marks.set(flow(2), Mark { value: 14, generation: 5 }), Ok(()));
        assert_eq!(seen(&[2, 3, 1, 2]), Some(vec![(14, 5), (0, 0), (11, 5), (14, 5)]));
        assert!(marks.clear(&flow(1)) && !marks.clear(&flow(1)));
        assert_eq!(seen(&[1]), None);
        assert_eq!(marks.set(flow(3), Mark { value: 13, generation: 6 }), Ok(()));
        assert_eq!((marks.len(), marks.is_empty()), (1, false));
        assert_eq!(seen(&[2, 3]), Some(vec![(0, 0), (13, 6)]));
        assert_eq!(marks.set(flow(3), Mark::NONE), Err(MarkError::Generation));
    }
}
