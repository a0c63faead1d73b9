//! Packet and byte counters: each worker writes its own cells, readers sum over workers.
//!
//! A counter id names one cell in every worker's storage. Cells never move or go, so a worker counts
//! while control adds some. Ids are allocated by control, which sees to their cells before anyone
//! learns the id.
//! A cell is never zeroed by another than its worker: allocation and reset record what the sum was
//! (the *base*), and readers subtract it.
//!
//! Invariants: a cell has one writer, so plain loads and stores suffice (the
//! handle is `Send` but not `Sync`); every worker has a cell for every id ever allocated.
//! Cost: count, one cache line; read, one line per worker; memory 32 bytes per counter and worker.
//! A read beside traffic may catch the bytes of the last few packets before the packets, never the
//! other way round, and never goes backwards.
//! Checked by: the model test below, and one with writers running.

use abi::Cells;
use abi::counters::CHUNK;
use std::cell::Cell as NotSync;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a counter has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValue {
    /// Packets since allocation or the last reset.
    pub packets: u64,
    /// Bytes since then.
    pub bytes: u64,
    /// When a packet was last counted since allocation (a reset does not forget it), in
    /// nanoseconds of the workers' clock; none if there was none.
    pub last_used_ns: Option<u64>,
}

/// No id is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {ids_max} counters are in use; free some or create the arena larger")]
pub struct CountersFull {
    /// Ids the arena was created for.
    pub ids_max: u32,
}

/// What is subtracted from an id's sums.
#[derive(Debug, Clone, Copy, Default)]
struct Base {
    live: bool,
    packets: u64,
    bytes: u64,
    /// Packets at allocation: more than these, and the last-used times are this user's.
    allocated_packets: u64,
}

#[derive(Debug)]
struct Control {
    workers: Vec<Arc<Cells>>,
    bases: Vec<Base>,
    free: Vec<u32>,
}

/// All counters of a switch.
#[derive(Debug)]
pub struct CounterArena {
    ids_max: u32,
    control: Mutex<Control>,
}

/// A worker's hand on its own cells. Dropping it keeps what it counted.
#[derive(Debug)]
pub struct WorkerCounters {
    cells: Arc<Cells>,
    /// One thread at a time.
    _one_writer: PhantomData<NotSync<()>>,
}

impl WorkerCounters {
    /// Counts packets and their bytes, seen at `now_ns`. An id that was never allocated is
    /// ignored.
    #[inline]
    pub fn add(&self, id: u32, packets: u64, bytes: u64, now_ns: u64) {
        self.cells.add(id, packets, bytes, now_ns);
    }

    /// The cells themselves, for code that counts.
    #[inline]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }
}

impl CounterArena {
    /// An arena of at most `ids_max` counters. Memory follows the ids in use, not the maximum; of
    /// addresses, a worker takes 32 bytes for each id that there may be.
    pub fn new(ids_max: u32) -> CounterArena {
        let control = Control { workers: Vec::new(), bases: Vec::new(), free: Vec::new() };
        CounterArena { ids_max, control: Mutex::new(control) }
    }

    /// A writer for one more worker. It takes over the cells of a worker that is gone, if any.
    pub fn worker(&self) -> WorkerCounters {
        let mut control = self.control();
        // `get_mut` also makes the stores of the worker that is gone visible to its successor.
        let idle = control
            .workers
            .iter_mut()
            .find_map(|cells| Arc::get_mut(cells).is_some().then(|| Arc::clone(cells)));
        let cells = idle.unwrap_or_else(|| {
            let cells = Arc::new(Cells::new(self.ids_max));
            (0..control.bases.len()).step_by(CHUNK).for_each(|id| cells.grow(id as u32));
            // As far as there are ids, so that it is known whether cells are near each other.
            if let Some(last) = control.bases.len().checked_sub(1) {
                cells.grow(last as u32);
            }
            control.workers.push(Arc::clone(&cells));
            cells
        });
        WorkerCounters { cells, _one_writer: PhantomData }
    }

    /// A counter at zero.
    pub fn allocate(&self) -> Result<u32, CountersFull> {
        let control = &mut *self.control();
        let id = match control.free.pop() {
            Some(id) => id,
            None if control.bases.len() < self.ids_max as usize => {
                let id = control.bases.len() as u32;
                control.workers.iter().for_each(|cells| cells.grow(id));
                control.bases.push(Base::default());
                id
            }
            None => return Err(CountersFull { ids_max: self.ids_max }),
        };
        let (packets, bytes, _) = sum(&control.workers, id);
        control.bases[id as usize] =
            Base { live: true, packets, bytes, allocated_packets: packets };
        Ok(id)
    }

    /// Gives an id back, for the next [`CounterArena::allocate`] to hand out. To be called when no
    /// worker can count on it any more (all have passed the version that dropped it): later counts
    /// would fall to the next user. False if the id is not in use.
    pub fn free(&self, id: u32) -> bool {
        let control = &mut *self.control();
        let Some(base) = control.bases.get_mut(id as usize).filter(|base| base.live) else {
            return false;
        };
        base.live = false;
        control.free.push(id);
        true
    }

    /// Sets a counter to zero as readers see it; false if the id is not in use.
    pub fn reset(&self, id: u32) -> bool {
        let control = &mut *self.control();
        let (packets, bytes, _) = sum(&control.workers, id);
        let Some(base) = control.bases.get_mut(id as usize).filter(|base| base.live) else {
            return false;
        };
        (base.packets, base.bytes) = (packets, bytes);
        true
    }

    /// Goes on from what another arena has counted: so much more is read from now on; false if the id is not in use. When a
    /// packet was last counted is not told.
    pub fn carry(&self, id: u32, packets: u64, bytes: u64) -> bool {
        let control = &mut *self.control();
        let Some(base) = control.bases.get_mut(id as usize).filter(|base| base.live) else {
            return false;
        };
        base.packets = base.packets.wrapping_sub(packets);
        base.bytes = base.bytes.wrapping_sub(bytes);
        true
    }

    /// One counter's value; none if the id is not in use.
    pub fn read(&self, id: u32) -> Option<CounterValue> {
        self.reader().read(id)
    }

    /// Reads many under one lock, which keeps out other control and no worker.
    pub fn reader(&self) -> Reader<'_> {
        Reader { control: self.control() }
    }

    /// Counters in use.
    pub fn len(&self) -> usize {
        let control = self.control();
        control.bases.len() - control.free.len()
    }

    /// Whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held by cells and bases.
    pub fn memory_bytes(&self) -> usize {
        let control = self.control();
        // What is beyond is never touched.
        let cells = control.bases.len() * size_of::<abi::Cell>();
        control.workers.len() * cells
            + control.bases.capacity() * size_of::<Base>()
            + control.free.capacity() * 4
    }

    /// Nothing leaves `Control` half changed, so a reader's panic need not stop the switch.
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads counters; see [`CounterArena::reader`].
#[derive(Debug)]
pub struct Reader<'a> {
    control: MutexGuard<'a, Control>,
}

impl Reader<'_> {
    /// One counter's value; none if the id is not in use.
    pub fn read(&self, id: u32) -> Option<CounterValue> {
        let base = self.control.bases.get(id as usize).filter(|base| base.live)?;
        let (packets, bytes, last) = sum(&self.control.workers, id);
        Some(CounterValue {
            packets: packets.wrapping_sub(base.packets),
            bytes: bytes.wrapping_sub(base.bytes),
            last_used_ns: (packets != base.allocated_packets).then_some(last),
        })
    }
}

/// Packets, bytes and the latest use over all workers.
fn sum(workers: &[Arc<Cells>], id: u32) -> (u64, u64, u64) {
    workers.iter().filter_map(|cells| cells.cell(id)).fold((0, 0, 0), |(p, b, t), cell| {
        (
            u64::wrapping_add(p, cell.packets.load(Acquire)),
            u64::wrapping_add(b, cell.bytes.load(Relaxed)),
            t.max(cell.last_used_ns.load(Relaxed)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::tests::Random;
    use std::collections::BTreeMap;

    /// Cells that do not stay in the nearest cache are asked for ahead of their use, also by workers that come
    /// when the counters are there.
    #[test]
    fn what_another_has_counted_goes_on() {
        let arena = CounterArena::new(4);
        let (worker, id) = (arena.worker(), arena.allocate().unwrap());
        worker.add(id, 2, 200, 7);
        assert!(arena.carry(id, 10, 1000) && !arena.carry(id + 1, 1, 1));
        worker.add(id, 1, 100, 9);
        let read = arena.read(id).unwrap();
        assert_eq!((read.packets, read.bytes, read.last_used_ns), (13, 1300, Some(9)));
        // Nothing was counted here: nobody knows when the last one came.
        let other = arena.allocate().unwrap();
        arena.carry(other, 1, 60);
        assert_eq!(arena.read(other).unwrap().last_used_ns, None);
        // Whoever has the id next begins at nothing.
        arena.free(id);
        let again = arena.allocate().unwrap();
        assert_eq!((again, arena.read(again).unwrap().packets), (id, 0));
    }

    #[test]
    fn a_worker_that_comes_late_knows_that_cells_are_far() {
        let arena = CounterArena::new(9000);
        let early = arena.worker();
        assert!(!early.cells().is_far());
        (0..1000).for_each(|_| assert!(arena.allocate().is_ok()));
        let late = arena.worker();
        assert!(early.cells().is_far() && late.cells().is_far());
    }

    #[test]
    fn agrees_with_plain_numbers_through_reuse_and_reset() {
        let mut random = Random(1);
        let arena = CounterArena::new(9000);
        let mut workers = vec![arena.worker()];
        let mut twin = BTreeMap::<u32, CounterValue>::new();
        for now in 1..60_000u64 {
            let pick = random.below(twin.len().max(1) as u64) as usize;
            let some = twin.keys().nth(pick).copied();
            match (random.below(40), some) {
                (0..10, _) => match arena.allocate() {
                    Ok(id) => assert_eq!(twin.insert(id, CounterValue::default()), None),
                    Err(full) => assert_eq!(twin.len(), full.ids_max as usize),
                },
                (10..12, Some(id)) => {
                    assert!(arena.free(id) && !arena.free(id));
                    twin.remove(&id);
                }
                (12, Some(id)) => {
                    assert!(arena.reset(id));
                    let value = twin.get_mut(&id).unwrap();
                    (value.packets, value.bytes) = (0, 0);
                }
                (13, _) if workers.len() < 4 => workers.push(arena.worker()),
                (14, _) if workers.len() > 1 => drop(workers.swap_remove(0)),
                (_, Some(id)) => {
                    let bytes = random.below(9000);
                    workers[random.below(workers.len() as u64) as usize].add(id, 1, bytes, now);
                    let value = twin.get_mut(&id).unwrap();
                    value.packets += 1;
                    value.bytes += bytes;
                    value.last_used_ns = Some(now);
                }
                _ => {}
            }
            if let Some(id) = some {
                assert_eq!(arena.read(id), twin.get(&id).copied());
            }
        }
        assert!(twin.len() > 4096, "{}", twin.len());
        assert_eq!(arena.len(), twin.len());
        assert!(arena.control().workers.len() <= 4);
        let reader = arena.reader();
        assert!(twin.iter().all(|(&id, &value)| reader.read(id) == Some(value)));
    }

    #[test]
    fn a_full_arena_says_so_and_strange_ids_do_nothing() {
        let arena = CounterArena::new(2);
        let worker = arena.worker();
        assert_eq!((arena.allocate(), arena.allocate()), (Ok(0), Ok(1)));
        assert_eq!(
            arena.allocate().unwrap_err().to_string(),
            "all 2 counters are in use; free some or create the arena larger"
        );
        worker.add(u32::MAX, 1, 1, 1);
        assert_eq!(arena.read(u32::MAX), None);
        assert!(!arena.reset(7) && !arena.free(7));
        worker.add(0, u64::MAX, u64::MAX, 5);
        worker.add(0, 2, 3, 6);
        let wrapped = CounterValue { packets: 1, bytes: 2, last_used_ns: Some(6) };
        assert_eq!(arena.read(0), Some(wrapped));
        assert!(CounterArena::new(0).allocate().is_err());
    }

    #[test]
    fn readers_and_growth_beside_writers_lose_nothing() {
        let arena = CounterArena::new(40_000);
        let id = arena.allocate().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let worker = arena.worker();
                scope.spawn(move || (1..=50_000).for_each(|now| worker.add(id, 1, 64, now)));
            }
            let mut last = 0;
            for _ in 0..20_000 {
                arena.allocate().unwrap();
                let value = arena.read(id).unwrap();
                assert!(value.packets >= last);
                last = value.packets;
            }
        });
        let value = arena.read(id).unwrap();
        assert_eq!((value.packets, value.bytes), (150_000, 150_000 * 64));
        assert_eq!(value.last_used_ns, Some(50_000));
    }
}
