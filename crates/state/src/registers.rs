//! Arrays of cells of 1 to 2048 bits that packets read and write.
//!
//! Cells of up to 64 bits are atomics; wider ones are words under a lock, many locks to an array
//! so that workers seldom meet. Reads, writes and updates are atomic per cell at either width.
//! Values are words, least significant first; bits beyond the width are cut off.
//!
//! Invariants: no stored value has a bit beyond the width.
//! Cost: up to 64 bits, one atomic; wider, an uncontended lock and a copy.
//! Checked by: tests below, against a vector of words, and with threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Widest cell in bits.
pub const WIDTH_MAX: u32 = 2048;
/// Most words of one cell.
pub const WORDS_MAX: usize = WIDTH_MAX as usize / 64;
/// Locks of a wide array.
const SHARDS: usize = 64;

/// What is wrong with an array or an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// No such width.
    #[error("a register of {0} bits; 1 to {WIDTH_MAX} are possible")]
    Width(u32),
    /// No such cell.
    #[error("cell {index} of a register array of {cells}; the last is {last}", last = (*cells as i64) - 1)]
    Index {
        /// The cell asked for.
        index: usize,
        /// Cells there are.
        cells: usize,
    },
    /// The buffer is not as long as a cell.
    #[error("{got} words for a cell of {want}; give exactly {want}")]
    Words {
        /// Words given.
        got: usize,
        /// Words of a cell.
        want: usize,
    },
}

/// An array of registers.
#[derive(Debug)]
pub struct Registers {
    width: u32,
    cells: usize,
    storage: Storage,
}

#[derive(Debug)]
enum Storage {
    Narrow(Box<[AtomicU64]>),
    /// Cell `i` is the `i / SHARDS`-th of shard `i % SHARDS`.
    Wide(Box<[Mutex<Box<[u64]>>]>),
}

impl Registers {
    /// An array of zeros: `cells` cells of `width` bits.
    pub fn new(cells: usize, width: u32) -> Result<Registers, RegisterError> {
        if width == 0 || width > WIDTH_MAX {
            return Err(RegisterError::Width(width));
        }
        let storage = if width <= 64 {
            Storage::Narrow((0..cells).map(|_| AtomicU64::new(0)).collect())
        } else {
            let words = width.div_ceil(64) as usize * cells.div_ceil(SHARDS);
            Storage::Wide((0..SHARDS).map(|_| Mutex::new(vec![0; words].into())).collect())
        };
        Ok(Registers { width, cells, storage })
    }

    /// Bits of a cell.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Words of a cell.
    pub fn words(&self) -> usize {
        self.width.div_ceil(64) as usize
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.cells
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells == 0
    }

    /// Reads a cell into exactly [`Registers::words`] words.
    pub fn read(&self, index: usize, out: &mut [u64]) -> Result<(), RegisterError> {
        self.check(index, out.len())?;
        match &self.storage {
            Storage::Narrow(cells) => out[0] = cells[index].load(Relaxed),
            Storage::Wide(_) => self.wide(index, |cell| out.copy_from_slice(cell)),
        }
        Ok(())
    }

    /// Writes a cell from exactly [`Registers::words`] words.
    pub fn write(&self, index: usize, value: &[u64]) -> Result<(), RegisterError> {
        self.check(index, value.len())?;
        match &self.storage {
            Storage::Narrow(cells) => cells[index].store(value[0] & self.top_mask(), Relaxed),
            Storage::Wide(_) => self.wide(index, |cell| cell.copy_from_slice(value)),
        }
        Ok(())
    }

    /// Changes a cell by a function of its value, as one step. The function may run more than
    /// once, and must not use registers itself.
    pub fn update(
        &self,
        index: usize,
        mut change: impl FnMut(&mut [u64]),
    ) -> Result<(), RegisterError> {
        self.check(index, self.words())?;
        match &self.storage {
            Storage::Narrow(cells) => {
                let step = |old| {
                    let mut value = [old];
                    change(&mut value);
                    Some(value[0] & self.top_mask())
                };
                // The step never declines, so this never fails.
                let _ = cells[index].fetch_update(Relaxed, Relaxed, step);
            }
            Storage::Wide(_) => self.wide(index, |cell| change(cell)),
        }
        Ok(())
    }

    /// Sets every cell to zero, cell by cell.
    pub fn clear(&self) {
        match &self.storage {
            Storage::Narrow(cells) => cells.iter().for_each(|cell| cell.store(0, Relaxed)),
            Storage::Wide(shards) => shards.iter().for_each(|shard| lock(shard).fill(0)),
        }
    }

    fn check(&self, index: usize, got: usize) -> Result<(), RegisterError> {
        if index >= self.cells {
            return Err(RegisterError::Index { index, cells: self.cells });
        }
        let want = self.words();
        if got != want { Err(RegisterError::Words { got, want }) } else { Ok(()) }
    }

    /// The bits of a cell's last word that exist.
    fn top_mask(&self) -> u64 {
        u64::MAX >> ((64 - self.width % 64) % 64)
    }

    /// Runs on a wide cell under its lock, then cuts it to the width.
    fn wide(&self, index: usize, run: impl FnOnce(&mut [u64])) {
        let Storage::Wide(shards) = &self.storage else { return };
        let words = self.words();
        let mut shard = lock(&shards[index % SHARDS]);
        let cell = &mut shard[index / SHARDS * words..][..words];
        run(cell);
        cell[words - 1] &= self.top_mask();
    }
}

/// Any words are a value, so a panic under the lock breaks nothing.
fn lock(shard: &Mutex<Box<[u64]>>) -> MutexGuard<'_, Box<[u64]>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::tests::Random;

    #[test]
    fn agrees_with_a_vector_at_every_kind_of_width() {
        let mut random = Random(3);
        for width in [1, 7, 8, 63, 64, 65, 127, 128, 129, 2047, 2048] {
            let cells = 150;
            let registers = Registers::new(cells, width).unwrap();
            let words = registers.words();
            let cut = |value: &mut Vec<u64>| {
                for bit in width as usize..words * 64 {
                    value[bit / 64] &= !(1 << (bit % 64));
                }
            };
            let mut twin = vec![vec![0u64; words]; cells];
            for _ in 0..2000 {
                let at = random.below(cells as u64) as usize;
                let mut value: Vec<u64> = (0..words).map(|_| random.next()).collect();
                if random.below(2) == 0 {
                    registers.write(at, &value).unwrap();
                    cut(&mut value);
                    twin[at] = value;
                } else {
                    let mix = |cell: &mut [u64]| {
                        cell.iter_mut().zip(&value).for_each(|(c, v)| *c = c.wrapping_add(*v));
                    };
                    registers.update(at, mix).unwrap();
                    mix(&mut twin[at]);
                    cut(&mut twin[at]);
                }
                let (at, mut out) = (random.below(cells as u64) as usize, vec![9; words]);
                registers.read(at, &mut out).unwrap();
                assert_eq!(out, twin[at], "width {width}");
            }
            registers.clear();
            registers.read(0, &mut vec![1; words]).unwrap();
            assert!((0..cells).all(|at| {
                let mut out = vec![1; words];
                registers.read(at, &mut out).unwrap();
                out.iter().all(|&w| w == 0)
            }));
        }
    }

    #[test]
    fn updates_of_many_threads_are_all_counted() {
        for width in [32, 96] {
            let registers = Registers::new(3, width).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        (0..10_000).for_each(|_| registers.update(1, |c| c[0] += 1).unwrap());
                    });
                }
            });
            let mut out = vec![0; registers.words()];
            registers.read(1, &mut out).unwrap();
            assert_eq!(out[0], 40_000);
        }
    }

    #[test]
    fn wrong_accesses_are_refused_in_words() {
        let registers = Registers::new(4, 65).unwrap();
        let text = |e: RegisterError| e.to_string();
        assert_eq!(
            text(registers.write(4, &[0, 0]).unwrap_err()),
            "cell 4 of a register array of 4; the last is 3"
        );
        assert_eq!(
            text(registers.read(0, &mut [0]).unwrap_err()),
            "1 words for a cell of 2; give exactly 2"
        );
        assert_eq!(
            text(Registers::new(1, 0).unwrap_err()),
            "a register of 0 bits; 1 to 2048 are possible"
        );
        assert!(Registers::new(1, 2049).is_err());
        assert!(Registers::new(0, 1).unwrap().update(0, |_| {}).is_err());
    }
}
