//! Where the counts of compiled code go, and who answers what it asks: services and chance.

use crate::held::Held;
use crate::program_state::ProgramState;
use crate::repeats::Repeats;
use interp::Externs;
use ir::Bits;
use ir::program::Service;
use jit::Handed;
use port::prng::Prng;
use smallvec::SmallVec;
use state::counters::WorkerCounters;

/// Answers the calls of services that compiled code's packets come to.
pub trait Serve {
    /// Takes packets that have come to the same call, in the order in which they came in.
    fn serve(&mut self, service: &Service, packets: &mut [Handed<'_>]);
}

/// No services: nothing happens, the answers are zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServices;

impl Serve for NoServices {
    fn serve(&mut self, _: &Service, packets: &mut [Handed<'_>]) {
        packets.iter_mut().for_each(|handed| handed.results.fill(0));
    }
}

/// Random numbers for packets of a burst.
pub trait Chance {
    /// One between two, both included, for the packet of this number.
    fn between(&mut self, packet: usize, lo: &Bits, hi: &Bits) -> Bits;
}

impl Chance for Prng {
    fn between(&mut self, _: usize, lo: &Bits, hi: &Bits) -> Bits {
        random_between(self, lo, hi)
    }
}

/// Where the counts of compiled code go, and who answers its calls.
pub struct Counts<'a> {
    /// The worker's number.
    pub worker: usize,
    /// Counters of the program's tables.
    pub state: &'a ProgramState,
    /// Its share of the entries' counters.
    pub counters: &'a WorkerCounters,
    /// Who answers calls of services.
    pub services: &'a mut dyn Serve,
    /// Chance.
    pub random: &'a mut dyn Chance,
    /// In tests: who has counter arrays, meters and registers, and chance, in place of the snapshot and the program's state.
    pub outside: Option<&'a mut dyn Externs>,
    /// What was sent a moment ago; if nothing is given, every message is new.
    pub repeats: Option<&'a mut Repeats>,
    /// Holds messages back, if one is given and it is to.
    pub held: Option<&'a mut Held>,
    /// Which ports are live.
    pub live: &'a abi::Live,
    /// Where packets may be dealt to.
    pub ways: abi::Ways<'a>,
    /// The time.
    pub now_ns: u64,
}

impl<'a> Counts<'a> {
    /// Where the counts of this worker go, with who answers calls of services and who rolls the dice.
    #[inline]
    pub fn new(
        worker: usize,
        state: &'a ProgramState,
        counters: &'a WorkerCounters,
        (services, random): (&'a mut dyn Serve, &'a mut dyn Chance),
        live: &'a abi::Live,
        now_ns: u64,
    ) -> Counts<'a> {
        let (outside, repeats, held, ways) = (None, None, None, abi::Ways::none());
        Counts {
            worker,
            state,
            counters,
            services,
            random,
            outside,
            repeats,
            held,
            live,
            ways,
            now_ns,
        }
    }

    /// The same, where messages that repeat those sent a moment ago are left out, and those that are to be held back.
    #[inline]
    #[must_use]
    pub fn once(self, repeats: &'a mut Repeats, held: &'a mut Held) -> Counts<'a> {
        Counts { repeats: Some(repeats), held: Some(held), ..self }
    }

    /// The same, where code deals packets to the ports that they go to.
    #[inline]
    #[must_use]
    pub fn dealing(self, ways: abi::Ways<'a>) -> Counts<'a> {
        Counts { ways, ..self }
    }

    /// As generated code reaches them.
    #[inline]
    pub fn counters(&self) -> abi::Counters<'a> {
        abi::Counters { cells: self.counters.cells(), tables: self.state.tables(self.worker) }
    }
}

/// A random value between two others, both included; `lo` if there is none.
pub(crate) fn random_between(random: &mut Prng, lo: &Bits, hi: &Bits) -> Bits {
    if hi.compare(lo).is_lt() {
        return lo.clone();
    }
    let width = lo.width();
    let bytes: SmallVec<[u8; 16]> =
        (0..width.div_ceil(8)).map(|_| random.below(256) as u8).collect();
    let any = Bits::from_be_bytes(&bytes, width);
    match (lo.to_u128(), hi.to_u128()) {
        (Some(lo), Some(hi)) => {
            let (span, any) = (hi - lo, any.low_u128());
            // A division of 64 bits is much shorter.
            let n = span.checked_add(1).and_then(|n| u64::try_from(n).ok());
            if let (Ok(any), Some(n)) = (u64::try_from(any), n) {
                return Bits::from_u128(lo + u128::from(any % n), width);
            }
            let offset = if span == u128::MAX { any } else { any % (span + 1) };
            Bits::from_u128(lo + offset, width)
        }
        // Above 128 bits: the high bits decide, so clamping hardly ever happens.
        _ if any.compare(lo).is_lt() => lo.clone(),
        _ if any.compare(hi).is_gt() => hi.clone(),
        _ => any,
    }
}
