//! Groups as generated code reads them, and which ports are live.
//!
//! A group is one run of words, its [`chunk`]: what it is, then its buckets with their arguments, then the ports that
//! buckets watch. Chunks are found by number among [`GroupSlot`]s, a hash table that is never full. Whoever holds the
//! groups makes chunks anew when a group changes; code that runs meanwhile runs by another replica.
//!
//! [`Live`] is the exception: one bit for each port, which the control side sets and clears while code reads it, so a
//! bucket is left as soon as its port is down.
//!
//! [`LOGS`] and [`crcs`] are constants that code cannot hold itself.
//! Checked by: the tests below; `jit`'s `tests/differential.rs`.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a group's chunk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct GroupSlot {
    /// The group's number.
    pub group: u64,
    /// The chunk's address; 0 if there is no group here.
    pub chunk: u64,
}

/// A group's number is multiplied by this, and the high half of the product tells where to look first.
pub const GROUP_HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first place to look for a group, before it is masked.
pub fn group_hash(group: u32) -> u64 {
    u64::from(group).wrapping_mul(GROUP_HASH) >> 32
}

/// Offsets in bytes within a chunk; all of these fields have 32 bits.
pub mod chunk {
    /// What is done with the buckets, of [`super::kind`].
    pub const KIND: i32 = 0;
    /// How many buckets there are.
    pub const BUCKETS: i32 = 4;
    /// The group's counter.
    pub const COUNTER: i32 = 8;
    /// Bytes from one bucket to the next.
    pub const STRIDE: i32 = 12;
    /// How the hash chooses one of the buckets, of [`super::draws`].
    pub const DRAWS: i32 = 16;
    /// The first bucket.
    pub const FIRST: i32 = 24;
}

/// Offsets in bytes within a bucket; all of these fields have 32 bits.
pub mod bucket {
    /// One more than the place of its action among those that buckets may run.
    pub const VARIANT: i32 = 0;
    /// Its counter.
    pub const COUNTER: i32 = 4;
    /// Its weight.
    pub const WEIGHT: i32 = 8;
    /// One more than its place in the group, by which it draws packets.
    pub const PLACE: i32 = 12;
    /// Where in the chunk the numbers of ports begin that it watches, and how many they are; it is live while one of
    /// them is, or if there are none.
    pub const WATCHED: i32 = 16;
    /// How many ports it watches.
    pub const WATCHES: i32 = 20;
    /// Its arguments, in words.
    pub const ARGS: i32 = 24;
}

/// What is done with a group's buckets.
pub mod kind {
    /// All run.
    pub const ALL: u32 = 0;
    /// The first live one runs.
    pub const FAST_FAILOVER: u32 = 1;
    /// One runs by a hash; this and the place of the hash's inputs among those that groups may have.
    pub const SELECT: u32 = 2;
    /// Code leaves it.
    pub const LEFT: u32 = u32::MAX;
}

/// How a hash chooses a bucket.
pub mod draws {
    /// Each draws; weights are equal.
    pub const EQUALLY: u32 = 0;
    /// Each draws by its weight.
    pub const BY_WEIGHT: u32 = 1;
    /// It is the place of one, modulo their number.
    pub const SLOTS: u32 = 2;
}

/// Ports have numbers below this, but for the last ([`NO_PORT`]), or code does not know whether they are live.
pub const LIVE_PORTS: usize = 1 << 16;

/// In place of a port: it never is live.
pub const NO_PORT: u32 = LIVE_PORTS as u32 - 1;

/// Which ports are live, and behind these bits, which are tunnel ports.
#[derive(Debug)]
pub struct Live {
    words: Box<[AtomicU64]>,
}

impl Default for Live {
    fn default() -> Live {
        Live { words: (0..2 * LIVE_PORTS / 64).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Live {
    /// All ports are live but these.
    pub fn all_but(dead: impl IntoIterator<Item = u32>) -> Live {
        let live = Live::default();
        live.words[..LIVE_PORTS / 64]
            .iter()
            .for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        live.words[NO_PORT as usize / 64].fetch_and(!(1 << (NO_PORT % 64)), Ordering::Relaxed);
        dead.into_iter().for_each(|port| live.set(port, false));
        live
    }

    /// The port is live, or not, from now on. Ports from [`NO_PORT`] on are not known.
    pub fn set(&self, port: u32, live: bool) {
        self.write(port, 0, live);
    }

    /// The port is a tunnel port, or not, from now on. Ports from [`NO_PORT`] on are none.
    pub fn set_tunnel(&self, port: u32, tunnel: bool) {
        self.write(port, LIVE_PORTS / 64, tunnel);
    }

    fn write(&self, port: u32, from: usize, holds: bool) {
        if port >= NO_PORT {
            return;
        }
        let Some(word) = self.words.get(from + port as usize / 64) else { return };
        let bit = 1 << (port % 64);
        match holds {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// The port is live, as far as is known.
    pub fn is_live(&self, port: u32) -> bool {
        let word = self.words[..LIVE_PORTS / 64].get(port as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (port % 64) & 1 == 1)
    }

    /// For generated code.
    pub fn as_ptr(&self) -> *const AtomicU64 {
        self.words.as_ptr()
    }
}

/// Groups, as generated code reaches them.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    slots: &'a [GroupSlot],
    live: &'a Live,
}

static NO_SLOTS: [GroupSlot; 1] = [GroupSlot { group: 0, chunk: 0 }];
static NONE_LIVE: LazyLock<Live> = LazyLock::new(Live::default);

impl<'a> Groups<'a> {
    /// There are none, and no live port.
    pub fn none() -> Groups<'static> {
        Groups { slots: &NO_SLOTS, live: &NONE_LIVE }
    }

    /// These. Slots are a power of two in number, and one of them is empty.
    pub fn new(slots: &'a [GroupSlot], live: &'a Live) -> Groups<'a> {
        let slots = if slots.is_empty() { &NO_SLOTS } else { slots };
        assert!(slots.len().is_power_of_two(), "slots are a power of two in number");
        Groups { slots, live }
    }

    /// The slots.
    pub fn slots(&self) -> &'a [GroupSlot] {
        self.slots
    }

    /// Which ports are live.
    pub fn live(&self) -> &'a Live {
        self.live
    }
}

/// Bytes that a group's hash may be over.
pub const HASHED_MAX: usize = 128;

/// What a byte changes in a CRC-32C, by how many bytes come behind it.
static CRCS: LazyLock<Box<[[u32; 256]]>> = LazyLock::new(|| {
    const REFLECTED: u32 = 0x82f6_3b78;
    let mut all = vec![[0u32; 256]; HASHED_MAX].into_boxed_slice();
    for (byte, entry) in (0u32..).zip(&mut all[0]) {
        let step = |r: u32, _| if r & 1 == 1 { r >> 1 ^ REFLECTED } else { r >> 1 };
        *entry = (0..8).fold(byte, step);
    }
    for behind in 1..HASHED_MAX {
        for byte in 0..256 {
            let before = all[behind - 1][byte];
            all[behind][byte] = before >> 8 ^ all[0][(before & 0xff) as usize];
        }
    }
    all
});

/// What a byte changes in a CRC-32C, by how many bytes come behind it: the CRC of a message is that of as many zeros
/// ([`crc_of_zeros`]), XORed with what each of its bytes changes.
pub fn crcs() -> &'static [[u32; 256]] {
    &CRCS
}

/// The CRC-32C of so many bytes of zeros.
pub fn crc_of_zeros(bytes: usize) -> u32 {
    let of = &crcs()[0];
    !(0..bytes).fold(u32::MAX, |r, _| r >> 8 ^ of[(r & 0xff) as usize])
}

/// Binary places of [`LOGS`].
pub const LOG_PLACES: u32 = 24;
/// Places among [`LOGS`] between two powers of two, as a power of two.
pub const LOG_BITS: u32 = 8;

/// `log2(1 + i / 256)`, rounded down.
pub static LOGS: [u32; (1 << LOG_BITS) + 1] = logs();

const fn logs() -> [u32; (1 << LOG_BITS) + 1] {
    let mut all = [0; (1 << LOG_BITS) + 1];
    let mut i = 0;
    while i < 1 << LOG_BITS {
        // Between 1 and 2 with 63 binary places: each square gives one more place of the logarithm.
        let mut scaled = ((1u64 << LOG_BITS) + i) << (63 - LOG_BITS);
        let (mut log, mut place) = (0u32, 0);
        while place < LOG_PLACES {
            let square = (scaled as u128 * scaled as u128) >> 63;
            let over = (square >> 64) as u32;
            log = log << 1 | over;
            scaled = (square >> over) as u64;
            place += 1;
        }
        all[i as usize] = log;
        i += 1;
    }
    all[1 << LOG_BITS] = 1 << LOG_PLACES;
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crc_is_what_its_bytes_change() {
        for message in [&b"123456789"[..], b"", &[0; 32], &[0xff; HASHED_MAX]] {
            let behind = (0..message.len()).rev();
            let parts = message.iter().zip(behind).map(|(byte, n)| crcs()[n][usize::from(*byte)]);
            let crc = parts.fold(crc_of_zeros(message.len()), |crc, part| crc ^ part);
            let of = &crcs()[0];
            let step = |r: u32, byte: &u8| r >> 8 ^ of[usize::from(r as u8 ^ byte)];
            assert_eq!(crc, !message.iter().fold(u32::MAX, step));
        }
        assert_eq!(crc_of_zeros(32), 0x8a91_36aa);
        let check = b"123456789".iter().rev().enumerate();
        let check = check.fold(crc_of_zeros(9), |crc, (n, b)| crc ^ crcs()[n][usize::from(*b)]);
        assert_eq!(check, 0xe306_9283);
    }

    #[test]
    fn logs_are_logarithms() {
        for (i, log) in LOGS.iter().enumerate() {
            let exact = (1.0 + i as f64 / 256.0).log2() * f64::from(1 << LOG_PLACES);
            assert!((f64::from(*log) - exact).abs() <= 1.0, "{i}: {log}, {exact}");
        }
    }

    #[test]
    fn live_ports_are_bits() {
        let live = Live::default();
        for port in [0, 63, 64, 65_534] {
            assert!(!live.is_live(port));
            live.set(port, true);
            assert!(live.is_live(port) && !live.is_live(port ^ 1));
            live.set(port, false);
            assert!(!live.is_live(port));
        }
        let live = Live::all_but([7]);
        assert!(live.is_live(0) && live.is_live(NO_PORT - 1) && !live.is_live(7));
        for port in [NO_PORT, u32::MAX] {
            live.set(port, true);
            assert!(!live.is_live(port));
        }
    }
}
