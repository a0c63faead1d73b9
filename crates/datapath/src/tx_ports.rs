//! A worker's transmit queues, by port number.
//!
//! They lie in one vector; a table leads from small port numbers, which nearly all are, to a place in
//! it, and a map from the others. Those that hold something to be flushed are on a list, so that a
//! flush asks no other.
//!
//! Frames that are still their driver's are dealt by place ([`TxPorts::deal`]) into a batch for each queue. While a
//! worker has more to do than it can, a batch may wait for more ([`KEPT_ROUNDS`]), as to hand over few frames costs
//! almost what many cost. Whatever else is to be sent goes behind it: the worker hands all batches over before.
//!
//! Cost: to find one, a load; to flush, one call for each queue in use since the last time, and, while batches hold
//! something, a look at each of them.

use crate::ports::PortShared;
use crate::queues::Shaper;
use crate::sink::ETHERNET_MIN;
use abi::Dealt;
use abi::deal::{NOWHERE, PORTS_NEAR, Places, SINK};
use hashbrown::HashMap;
use port::{Batch, BorrowedBurst, TxQueue};
use std::sync::Arc;

/// Port numbers below this are looked up in a table.
const NEAR: usize = PORTS_NEAR;
/// No place: there is no such port.
const NONE: u16 = u16::MAX;
/// Frames are dealt to places below this.
const DEALT_MAX: u8 = SINK;

/// A batch of so many frames is handed over at the end of its round.
const BATCH_ENOUGH: usize = 32;
/// A smaller one waits at most until so many times something was to be flushed, once behind each burst.
const KEPT_ROUNDS: u8 = 8;

/// One transmit queue.
pub(crate) struct TxPort {
    /// Flags and counters of its port.
    pub(crate) shared: Arc<PortShared>,
    /// The queue.
    pub(crate) queue: Box<dyn TxQueue>,
    /// What goes before it where the port has egress queues.
    pub(crate) shaper: Option<Box<Shaper>>,
    /// On the list of those to be flushed: its queue has been given something since it was.
    dirty: bool,
    /// How often its batch has waited.
    waited: u8,
}

/// All of a worker's.
pub(crate) struct TxPorts {
    lines: Vec<TxPort>,
    near: Box<[u16; NEAR]>,
    far: HashMap<u32, u16>,
    /// Of near ports those to which frames may be dealt: whose frames need not wait in egress queues.
    plain: Box<Places>,
    /// What was dealt, by place; where there is no line, there is no room.
    dealt: Box<[Batch; NEAR]>,
    /// Some batch may hold something.
    holds: bool,
    /// The places of those in use, then room: as many as there are, and one.
    dirty: Vec<u16>,
    dirty_len: usize,
}

impl Default for TxPorts {
    fn default() -> TxPorts {
        TxPorts {
            lines: Vec::new(),
            near: Box::new([NONE; NEAR]),
            far: HashMap::new(),
            plain: Box::new([NOWHERE; NEAR + 1]),
            dealt: Box::new([const { Batch::none() }; NEAR]),
            holds: false,
            dirty: vec![NONE],
            dirty_len: 0,
        }
    }
}

impl TxPorts {
    /// Adds a port's queue, in place of one that the port may have. What is queued should have been
    /// flushed before.
    pub(crate) fn insert(&mut self, shared: Arc<PortShared>, queue: Box<dyn TxQueue>) {
        self.remove(shared.number);
        self.lines.push(TxPort { shared, queue, shaper: None, dirty: false, waited: 0 });
        self.arrange();
    }

    /// Takes a port's queue out. No frame should wait there.
    pub(crate) fn remove(&mut self, number: u32) -> Option<TxPort> {
        let at = self.lines.iter().position(|line| line.shared.number == number);
        let line = at.map(|at| self.lines.remove(at));
        self.arrange();
        line
    }

    /// All of them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TxPort> {
        self.lines.iter_mut()
    }

    /// Marks those where frames wait as in use.
    pub(crate) fn touch_waiting(&mut self) {
        for (at, line) in (0..NONE).zip(&mut self.lines) {
            let waits = line.shaper.as_ref().is_some_and(|shaper| shaper.len() > 0);
            if waits && !line.dirty {
                line.dirty = true;
                self.dirty[self.dirty_len] = at;
                self.dirty_len += 1;
            }
        }
    }

    /// To be called when lines have come or gone, or have got or lost a shaper, and no batch holds anything.
    pub(crate) fn arrange(&mut self) {
        self.near.fill(NONE);
        self.plain.fill(NOWHERE);
        debug_assert!(self.dealt.iter().all(Batch::is_empty));
        self.far.clear();
        self.dirty.clear();
        // A worker has descriptors for far fewer ports than that.
        for (at, line) in (0..NONE).zip(&mut self.lines) {
            if line.dirty {
                self.dirty.push(at);
            }
            match self.near.get_mut(line.shared.number as usize) {
                Some(place) => {
                    *place = at;
                    if line.shaper.is_none() && at < DEALT_MAX.into() {
                        self.plain[line.shared.number as usize] = at as u8;
                    }
                }
                None => {
                    self.far.insert(line.shared.number, at);
                }
            }
        }
        let used = self.lines.len().min(DEALT_MAX.into());
        for batch in self.dealt[..used].iter_mut().filter(|batch| !batch.has_room()) {
            *batch = Batch::new();
        }
        self.dirty_len = self.dirty.len();
        self.dirty.resize(self.lines.len() + 1, NONE);
    }

    /// The queue of a port, about to be used: it will be flushed.
    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut TxPort> {
        let at = match self.near.get(number as usize) {
            Some(at) => *at,
            None => *self.far.get(&number)?,
        };
        let line = self.lines.get_mut(usize::from(at))?;
        // Without a branch: which port is new in a burst, nobody can guess.
        self.dirty[self.dirty_len] = at;
        self.dirty_len += usize::from(!line.dirty);
        line.dirty = true;
        Some(line)
    }

    /// Deals a burst's frames to the queues of the ports that they go to, in order, until one is met that goes to none
    /// or several of those, or has no outcome; those that are dropped go back to their driver, and `dropped` hears why, and how many.
    /// Returns how many were dealt or dropped.
    #[cold]
    pub(crate) fn deal(
        &mut self,
        borrowed: &mut BorrowedBurst,
        dropped: &mut dyn FnMut(u32, u64),
    ) -> usize {
        self.holds = true;
        let (plain, used) = (&*self.plain, self.lines.len().min(DEALT_MAX.into()));
        let place = |port: u32| plain.get(port as usize).copied().unwrap_or(NOWHERE);
        borrowed.deal((&mut self.dealt, used), ETHERNET_MIN as u16, place, dropped)
    }

    /// Where frames may be dealt to, by port.
    #[inline]
    pub(crate) fn places(&self) -> &Places {
        &self.plain
    }

    /// Code has dealt all of so many frames.
    pub(crate) fn is_dealt(&self, n: usize, dealt: &Dealt) -> bool {
        dealt.is_complete(n, self.lines.len().min(DEALT_MAX.into()) as u8)
    }

    /// Deals all of a burst's frames as code has said. False, with nothing done, if it has not said so of all of them,
    /// or if a batch has not room for them.
    // On its own, so that a few registers hold all that its loop needs.
    #[inline(never)]
    pub(crate) fn deal_as(
        &mut self,
        borrowed: &mut BorrowedBurst,
        dealt: &Dealt,
        dropped: &mut dyn FnMut(u32, u64),
    ) -> bool {
        self.holds = true;
        let used = self.lines.len().min(DEALT_MAX.into());
        borrowed.deal_as((&mut self.dealt, used), dealt, dropped)
    }

    /// Some batch may hold something.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// Hands every batch that holds something to `give`, which is to take it all, with the queue that it was dealt to.
    /// With `keep`, those that may grow stay for some rounds.
    #[inline]
    pub(crate) fn give(&mut self, keep: bool, mut give: impl FnMut(&mut TxPort, &mut Batch)) {
        self.holds = false;
        for (at, (line, batch)) in (0..).zip(self.lines.iter_mut().zip(&mut *self.dealt)) {
            let len = batch.len();
            if len == 0 {
                continue;
            }
            if keep && !line.dirty && len < BATCH_ENOUGH && line.waited < KEPT_ROUNDS {
                line.waited += 1;
                self.holds = true;
                continue;
            }
            line.waited = 0;
            self.dirty[self.dirty_len] = at;
            self.dirty_len += usize::from(!line.dirty);
            line.dirty = true;
            give(line, batch);
        }
    }

    /// Hands every queue that was used to `f`, once.
    pub(crate) fn flush(&mut self, mut f: impl FnMut(&mut TxPort)) {
        for at in &self.dirty[..std::mem::take(&mut self.dirty_len)] {
            let line = &mut self.lines[usize::from(*at)];
            line.dirty = false;
            f(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::PortFlags;
    use port::{Port, memory};

    fn line(number: u32) -> (Arc<PortShared>, Box<dyn TxQueue>) {
        let (mut port, _) = memory::port("lines", memory::Config::default()).unwrap();
        let shared = PortShared::new(number, "p", PortFlags::UP, 1);
        (Arc::new(shared), port.tx_queue().unwrap())
    }

    #[test]
    fn lines_are_found_and_flushed_as_in_a_map() {
        let numbers = [1, 2, 255, 256, 70_000, 0xffff_fffe];
        let mut random = port::prng::Prng::new(3);
        let (mut lines, mut model) = (TxPorts::default(), std::collections::BTreeMap::new());
        for _ in 0..2000 {
            let number = numbers[random.below(6) as usize];
            match random.below(6) {
                0 => {
                    let (shared, queue) = line(number);
                    lines.insert(shared, queue);
                    model.insert(number, false);
                }
                1 => {
                    lines.remove(number);
                    model.remove(&number);
                }
                2 => {
                    let mut flushed = Vec::new();
                    lines.flush(|line| flushed.push(line.shared.number));
                    flushed.sort_unstable();
                    let used: Vec<u32> = model.iter().filter(|m| *m.1).map(|m| *m.0).collect();
                    assert_eq!(flushed, used);
                    model.values_mut().for_each(|used| *used = false);
                }
                _ => {
                    let found = lines.get(number).map(|line| line.shared.number);
                    assert_eq!(found, model.contains_key(&number).then_some(number));
                    model.entry(number).and_modify(|used| *used = true);
                }
            }
        }
    }
}
