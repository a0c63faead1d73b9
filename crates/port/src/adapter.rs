//! An emulated adapter: a port around another that marks the frames of flows.
//!
//! [`Adapter`] does in software what such hardware does: an exact match on addresses, ports and
//! protocol in a table of bounded size, 1,024 entries unless said otherwise. It is for tests and measurements.
//!
//! Checked by: the tests below.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};

use crate::around::Around;
use crate::marks::{Flow, Mark, MarkError, Marks};
use crate::{Burst, Drops, Pool, Port, RxError, RxQueue};

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

    fn local(&self) -> Option<bool> {
        self.inner.local()
    }

    fn done(&mut self) {
        self.inner.done();
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
