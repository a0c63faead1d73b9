//! Port flags and counters, shared by control side and workers.
//!
//! Flags are atomics that the control side sets and workers read; counters are per worker, written
//! by that worker alone and summed by readers.

use crate::policer::Policer;
use crate::queues::Queues;
use abi::Live;
use abi::counters::bump;
use crossbeam_utils::CachePadded;
use hashbrown::HashMap;
use ir::PortIs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What a worker must know of a port before it uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFlags(pub u32);

impl PortFlags {
    /// The link is up and nobody has taken the port down.
    pub const UP: u32 = 1;
    /// Frames received are dropped.
    pub const NO_RECEIVE: u32 = 2;
    /// Frames output are dropped.
    pub const NO_FORWARD: u32 = 4;
    /// Frames leave by egress queues.
    pub const QUEUES: u32 = 8;
    /// Frames received beyond a rate are dropped.
    pub const POLICED: u32 = 16;
    /// Frames pass, and groups and clients take the port as not live.
    pub const HELD: u32 = 32;
    /// Frames begin with a descriptor (`contract::tunnel`).
    pub const TUNNEL: u32 = 64;

    /// It is up, and nobody holds it.
    pub fn is_live(self) -> bool {
        self.has(PortFlags::UP) && !self.has(PortFlags::HELD)
    }

    /// All of these bits are set.
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// Received, sent, dropped: one worker's share for one port.
pub struct PortCell {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    /// Drops of the pipeline of frames that came in here, and of copies that were to leave here.
    dropped: [AtomicU64; ir::DropReason::COUNT],
    /// Drops by the port's receive queues.
    rx_dropped: [AtomicU64; port::DropReason::ALL.len()],
    /// Drops by the port's transmit queues.
    tx_dropped: [AtomicU64; port::DropReason::ALL.len()],
    punted: AtomicU64,
    digests_refused: AtomicU64,
}

impl Default for PortCell {
    fn default() -> Self {
        PortCell {
            rx_packets: AtomicU64::new(0),
            rx_bytes: AtomicU64::new(0),
            tx_packets: AtomicU64::new(0),
            tx_bytes: AtomicU64::new(0),
            dropped: [const { AtomicU64::new(0) }; ir::DropReason::COUNT],
            rx_dropped: [const { AtomicU64::new(0) }; port::DropReason::ALL.len()],
            tx_dropped: [const { AtomicU64::new(0) }; port::DropReason::ALL.len()],
            punted: AtomicU64::new(0),
            digests_refused: AtomicU64::new(0),
        }
    }
}

impl PortCell {
    /// Counts received frames.
    #[inline]
    pub fn count_rx(&self, packets: u64, bytes: u64) {
        bump(&self.rx_packets, packets);
        bump(&self.rx_bytes, bytes);
    }

    /// Counts sent frames.
    #[inline]
    pub fn count_tx(&self, packets: u64, bytes: u64) {
        bump(&self.tx_packets, packets);
        bump(&self.tx_bytes, bytes);
    }

    /// Counts a frame, or a copy, that the pipeline or the worker dropped.
    pub fn count_drop(&self, reason: ir::DropReason, n: u64) {
        bump(&self.dropped[reason as usize], n);
    }

    /// Counts frames that a transmit queue of the port dropped.
    pub fn count_tx_drop(&self, reason: port::DropReason, n: u64) {
        bump(&self.tx_dropped[reason as usize], n);
    }

    /// Counts the drops of a receive queue, which keeps its own running totals: what was added
    /// since `before`.
    pub fn set_rx_drops(&self, before: &port::Drops, now: &port::Drops) {
        for (reason, n) in now.iter() {
            let more = n.saturating_sub(before.get(reason));
            if more > 0 {
                bump(&self.rx_dropped[reason as usize], more);
            }
        }
    }

    /// Counts copies to the control side of a frame that came in here.
    pub fn count_punts(&self, n: u64) {
        bump(&self.punted, n);
    }

    /// Counts digests of frames that came in here which the control side's ring did not take. No
    /// drops: what became of those frames is counted elsewhere.
    pub fn count_digests_refused(&self, n: u64) {
        bump(&self.digests_refused, n);
    }
}

/// A port's counters, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Copies to the control side.
    pub punted: u64,
    /// Digests that did not reach the control side, as too many came.
    pub digests_refused: u64,
    /// Frames dropped, by reason's word.
    pub drops: Vec<(&'static str, u64)>,
    /// Of `drops`: those on the way in.
    pub rx_dropped: u64,
    /// Of `drops`: those on the way out.
    pub tx_dropped: u64,
}

impl PortCounters {
    /// The word of a drop's reason as [`drops`](PortCounters::drops) has it, if there is such a reason.
    pub fn drop_word(word: &str) -> Option<&'static str> {
        let of_pipelines = ir::DropReason::ALL.iter().map(|reason| reason.word());
        let of_ports = port::DropReason::ALL.iter().map(|reason| reason.name());
        of_pipelines.chain(of_ports).find(|known| *known == word)
    }

    /// Adds another port's.
    pub fn add(&mut self, other: &PortCounters) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.punted += other.punted;
        self.digests_refused += other.digests_refused;
        self.rx_dropped += other.rx_dropped;
        self.tx_dropped += other.tx_dropped;
        for (word, n) in &other.drops {
            match self.drops.iter_mut().find(|(w, _)| w == word) {
                Some((_, sum)) => *sum += n,
                None => self.drops.push((word, *n)),
            }
        }
    }
}

/// One port, as control side and workers share it.
pub struct PortShared {
    /// The port number.
    pub number: u32,
    /// Its name.
    pub name: String,
    flags: AtomicU32,
    /// Octets of the descriptor that its frames begin with; 0 if they do not.
    descriptor: AtomicU32,
    /// For the control side; workers are given theirs.
    queues: Mutex<Option<Arc<Queues>>>,
    policer: RwLock<Option<Arc<Policer>>>,
    cells: Box<[CachePadded<PortCell>]>,
    /// Where tables of ports that have this one keep whether it is live.
    live: Mutex<Vec<Arc<Live>>>,
    /// Drops of frames that no worker has at hand, by whichever thread.
    late: [AtomicU64; ir::DropReason::COUNT],
    /// What another process had counted of it.
    before: Mutex<PortCounters>,
}

impl PortShared {
    /// A port with zero counters, for so many workers.
    pub fn new(number: u32, name: &str, flags: u32, workers: usize) -> PortShared {
        PortShared {
            number,
            name: name.to_string(),
            flags: AtomicU32::new(flags),
            descriptor: AtomicU32::new(0),
            queues: Mutex::new(None),
            policer: RwLock::new(None),
            cells: (0..workers).map(|_| CachePadded::new(PortCell::default())).collect(),
            live: Mutex::default(),
            late: [const { AtomicU64::new(0) }; ir::DropReason::COUNT],
            before: Mutex::default(),
        }
    }

    /// The flags now.
    #[inline]
    pub fn flags(&self) -> PortFlags {
        PortFlags(self.flags.load(Ordering::Acquire))
    }

    /// Sets or clears flag bits; the control side alone calls it.
    pub fn set_flag(&self, bits: u32, on: bool) {
        if on {
            self.flags.fetch_or(bits, Ordering::Release);
        } else {
            self.flags.fetch_and(!bits, Ordering::Release);
        }
        if bits & (PortFlags::UP | PortFlags::HELD | PortFlags::TUNNEL) != 0 {
            let tables = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            tables.iter().for_each(|live| self.tell(live, true));
        }
    }

    /// Its frames begin with a descriptor of so many octets, or with none (0); the control side alone calls it.
    pub fn set_descriptor(&self, octets: u32) {
        self.descriptor.store(octets, Ordering::Relaxed);
        self.set_flag(PortFlags::TUNNEL, octets > 0);
    }

    /// Octets of the descriptor that its frames begin with.
    #[inline]
    pub fn descriptor(&self) -> u32 {
        self.descriptor.load(Ordering::Relaxed)
    }

    /// Octets of so many frames that have so many with their descriptors.
    #[inline]
    pub(crate) fn octets(&self, frames: usize, octets: usize) -> u64 {
        (octets as u64).saturating_sub(frames as u64 * u64::from(self.descriptor()))
    }

    /// What `std.in_port` is for packets of this port: its number, marked if they begin with a descriptor.
    #[inline]
    pub fn ingress(&self) -> u32 {
        match self.flags().has(PortFlags::TUNNEL) {
            true => self.number ^ contract::tunnel::IN_PORT,
            false => self.number,
        }
    }

    /// A table of ports has this one from now on, or has it no more.
    fn belongs(&self, table: &Arc<Live>, there: bool) {
        let mut tables = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|other| !Arc::ptr_eq(other, table));
        if there {
            tables.push(table.clone());
        }
        self.tell(table, there);
    }

    /// A table says of the port what holds of it.
    fn tell(&self, table: &Live, there: bool) {
        let flags = self.flags();
        table.set(self.number, there && flags.is_live());
        table.set_tunnel(self.number, there && flags.has(PortFlags::TUNNEL));
    }

    /// The egress queues, if there are any.
    pub fn queues(&self) -> Option<Arc<Queues>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the egress queues; the control side alone calls it, and tells the workers.
    pub fn set_queues(&self, queues: Option<Arc<Queues>>) {
        self.set_flag(PortFlags::QUEUES, queues.is_some());
        *self.queues.lock().unwrap_or_else(PoisonError::into_inner) = queues;
    }

    /// The policer of what is received, if there is one.
    pub fn policer(&self) -> Option<Arc<Policer>> {
        self.policer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets it; the control side alone calls it.
    pub fn set_policer(&self, policer: Option<Arc<Policer>>) {
        let any = policer.is_some();
        *self.policer.write().unwrap_or_else(PoisonError::into_inner) = policer;
        self.set_flag(PortFlags::POLICED, any);
    }

    /// The counters of one worker.
    #[inline]
    pub fn cell(&self, worker: usize) -> &PortCell {
        &self.cells[worker]
    }

    /// Counts a frame that came in here and was kept, and is dropped now; any thread may.
    pub fn count_late_drop(&self, reason: ir::DropReason) {
        self.late[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Packets that have come in, of all workers' counters.
    pub fn rx_packets(&self) -> u64 {
        self.cells.iter().map(|cell| cell.rx_packets.load(Ordering::Relaxed)).sum()
    }

    /// Goes on from what another process has counted of the port.
    pub fn carry(&self, counted: &PortCounters) {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).add(counted);
    }

    /// All workers' counters, summed, with what was [carried](PortShared::carry) over.
    pub fn counters(&self) -> PortCounters {
        let mut sum = PortCounters::default();
        let mut dropped = [0u64; ir::DropReason::COUNT];
        let mut rx_dropped = [0u64; port::DropReason::ALL.len()];
        let mut tx_dropped = rx_dropped;
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        for cell in &self.cells {
            sum.rx_packets += get(&cell.rx_packets);
            sum.rx_bytes += get(&cell.rx_bytes);
            sum.tx_packets += get(&cell.tx_packets);
            sum.tx_bytes += get(&cell.tx_bytes);
            sum.punted += get(&cell.punted);
            sum.digests_refused += get(&cell.digests_refused);
            cell.dropped.iter().zip(&mut dropped).for_each(|(c, d)| *d += get(c));
            cell.rx_dropped.iter().zip(&mut rx_dropped).for_each(|(c, d)| *d += get(c));
            cell.tx_dropped.iter().zip(&mut tx_dropped).for_each(|(c, d)| *d += get(c));
        }
        self.late.iter().zip(&mut dropped).for_each(|(c, d)| *d += get(c));
        for (reason, n) in ir::DropReason::ALL.iter().zip(dropped) {
            if n > 0 {
                sum.drops.push((reason.word(), n));
                if is_egress(*reason) {
                    sum.tx_dropped += n;
                } else if is_ingress(*reason) {
                    sum.rx_dropped += n;
                }
            }
        }
        for (reason, (rx, tx)) in
            port::DropReason::ALL.iter().zip(rx_dropped.iter().zip(tx_dropped))
        {
            if rx + tx > 0 {
                match sum.drops.iter_mut().find(|(word, _)| *word == reason.name()) {
                    Some((_, sum)) => *sum += rx + tx,
                    None => sum.drops.push((reason.name(), rx + tx)),
                }
                sum.rx_dropped += rx;
                sum.tx_dropped += tx;
            }
        }
        sum.add(&self.before.lock().unwrap_or_else(PoisonError::into_inner));
        sum
    }
}

/// Reasons for which a frame is dropped before the pipeline sees it.
fn is_ingress(reason: ir::DropReason) -> bool {
    matches!(
        reason,
        ir::DropReason::PortNoReceive | ir::DropReason::Policed | ir::DropReason::Standby
    )
}

/// Reasons that are counted at the port a copy was to leave by.
fn is_egress(reason: ir::DropReason) -> bool {
    use ir::DropReason::{FrameTooLong, PortDown, PortNoForward, TxError, TxRingFull};
    matches!(reason, PortDown | PortNoForward | TxRingFull | TxError | FrameTooLong)
}

/// The ports by number. Cloned and swapped whole when a port comes or goes.
#[derive(Clone, Default)]
pub struct PortTable {
    ports: HashMap<u32, Arc<PortShared>>,
    /// Which of them are live, for compiled code. Clones share it.
    live: Arc<Live>,
}

impl PortTable {
    /// The port with this number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Arc<PortShared>> {
        self.ports.get(&number)
    }

    /// Adds or replaces a port.
    pub fn insert(&mut self, port: Arc<PortShared>) {
        if let Some(before) = self.ports.insert(port.number, port.clone()) {
            before.belongs(&self.live, false);
        }
        port.belongs(&self.live, true);
    }

    /// Takes a port out.
    pub fn remove(&mut self, number: u32) -> Option<Arc<PortShared>> {
        let port = self.ports.remove(&number)?;
        port.belongs(&self.live, false);
        Some(port)
    }

    /// Which ports are live, as compiled code sees it.
    #[inline]
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// All ports by ascending number.
    pub fn sorted(&self) -> Vec<Arc<PortShared>> {
        let mut ports: Vec<_> = self.ports.values().cloned().collect();
        ports.sort_by_key(|p| p.number);
        ports
    }

    /// Whether something holds of a port, as code that knows it by [`Live`] sees it.
    #[inline]
    pub fn is(&self, what: PortIs, number: u32) -> bool {
        match what {
            PortIs::Live => self.is_live(number),
            PortIs::Tunnel => self.get(number).is_some_and(|p| p.flags().has(PortFlags::TUNNEL)),
        }
    }

    /// The port is there and live.
    #[inline]
    pub fn is_live(&self, number: u32) -> bool {
        self.get(number).is_some_and(|p| p.flags().is_live())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_workers_and_told_by_word() {
        let port = PortShared::new(3, "p3", PortFlags::UP, 3);
        for worker in 0..3 {
            let cell = port.cell(worker);
            cell.count_rx(2, 200);
            cell.count_tx(1, 60);
            cell.count_punts(4);
            cell.count_digests_refused(5);
            cell.count_drop(ir::DropReason::Action, 1);
            cell.count_drop(ir::DropReason::PortNoReceive, 1);
            cell.count_drop(ir::DropReason::PortDown, 1);
            cell.count_tx_drop(port::DropReason::TxRingFull, 1);
            cell.count_drop(ir::DropReason::TxRingFull, 1);
        }
        let mut before = port::Drops::default();
        before.add(port::DropReason::RxTruncated, 5);
        before.add(port::DropReason::InjectedLoss, 1);
        let mut now = before;
        now.add(port::DropReason::RxTruncated, 2);
        now.add(port::DropReason::InjectedLoss, 1);
        port.cell(1).set_rx_drops(&before, &now);
        let c = port.counters();
        assert_eq!((c.rx_packets, c.rx_bytes, c.tx_packets, c.tx_bytes), (6, 600, 3, 180));
        assert_eq!((c.punted, c.rx_dropped, c.tx_dropped), (12, 6, 9));
        assert_eq!(c.digests_refused, 15);
        let mut drops = c.drops;
        drops.sort_unstable();
        let expected = [
            ("action_drop", 3),
            ("injected_loss", 1),
            ("port_down", 3),
            ("port_no_recv", 3),
            ("rx_truncated", 2),
            ("tx_ring_full", 6),
        ];
        assert_eq!(drops, expected);
    }

    #[test]
    fn a_port_that_is_held_is_up_and_not_live() {
        let mut table = PortTable::default();
        let port = Arc::new(PortShared::new(5, "p5", PortFlags::UP, 1));
        table.insert(port.clone());
        port.set_flag(PortFlags::HELD, true);
        assert!(!table.is_live(5) && !table.live().is_live(5) && port.flags().has(PortFlags::UP));
        port.set_flag(PortFlags::UP, false);
        port.set_flag(PortFlags::HELD, false);
        assert!(!table.is_live(5) && !table.live().is_live(5));
        port.set_flag(PortFlags::UP, true);
        assert!(table.is_live(5) && table.live().is_live(5));
    }

    #[test]
    fn a_table_of_ports_knows_who_is_live() {
        let mut table = PortTable::default();
        for number in [5, 2, 9] {
            table.insert(Arc::new(PortShared::new(number, "p", PortFlags::UP, 1)));
        }
        let numbers = |t: &PortTable| t.sorted().iter().map(|p| p.number).collect::<Vec<_>>();
        assert_eq!(numbers(&table), [2, 5, 9]);
        assert!(table.is_live(5) && !table.is_live(1));
        table.get(5).unwrap().set_flag(PortFlags::UP, false);
        assert!(!table.is_live(5) && !table.live().is_live(5) && table.live().is_live(9));
        table.get(5).unwrap().set_flag(PortFlags::UP, true);
        assert!(table.live().is_live(5));
        let port = Arc::new(PortShared::new(9, "p", 0, 1));
        let (before, clone) = (table.get(9).unwrap().clone(), table.clone());
        table.insert(port.clone());
        before.set_flag(PortFlags::UP, true);
        assert!(!table.live().is_live(9), "the port that was replaced");
        port.set_flag(PortFlags::UP, true);
        assert!(clone.live().is_live(9), "clones share what is live");
        assert!(table.remove(5).is_some() && table.remove(5).is_none());
        assert!(!table.live().is_live(5));
        assert_eq!(numbers(&table), [2, 9]);
    }
}
