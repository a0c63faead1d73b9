//! Where cases come from.

use super::case::{Case, Incoming, Step};
use super::effects::without_memory;
use super::p4::Programs;
use ir::testing::{self, Rng, Shaped};
use ir::{Pipeline, Program, Update};
use std::sync::Arc;
use testkit::lookups::Lookups;

/// A kind of random programs, updates and packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As people write them (`ir::testing::shaped`).
    Shaped,
    /// Tables of all kinds of keys over few values (`testkit::lookups`).
    Lookups,
    /// The whole language (`ir::testing::program`).
    Any,
    /// The project's P4 programs.
    P4,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 4] = [Kind::Shaped, Kind::Lookups, Kind::Any, Kind::P4];

    /// After so many cases the kinds come again.
    pub(crate) const ROUND: u64 = 8;

    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Shaped => "shaped",
            Kind::Lookups => "lookups",
            Kind::Any => "any",
            Kind::P4 => "p4",
        }
    }

    /// Which kind the case of this number is, when all take part: mostly shaped ones.
    pub(crate) fn of(number: u64) -> Kind {
        match number % Kind::ROUND {
            5 => Kind::P4,
            6 => Kind::Lookups,
            7 => Kind::Any,
            _ => Kind::Shaped,
        }
    }
}

/// Programs, updates and packets of one kind and seed.
pub(crate) enum Source {
    Shaped(Shaped),
    Lookups(Lookups),
    Any(u64, Rng),
    P4(Programs),
}

impl Source {
    pub(crate) fn new(kind: Kind, seed: u64) -> Source {
        match kind {
            Kind::Shaped => Source::Shaped(testing::shaped(seed)),
            Kind::Lookups => Source::Lookups(Lookups::new(seed)),
            Kind::Any => Source::Any(seed, Rng::new(seed ^ 0xabcd)),
            Kind::P4 => Source::P4(Programs::new(seed)),
        }
    }

    pub(crate) fn rng(&mut self) -> &mut Rng {
        match self {
            Source::Shaped(s) => s.rng(),
            Source::Lookups(l) => l.rng(),
            Source::Any(_, rng) => rng,
            Source::P4(p) => p.rng(),
        }
    }

    pub(crate) fn program(&mut self) -> Arc<Program> {
        match self {
            Source::Shaped(s) => s.program(),
            Source::Lookups(l) => l.program(),
            Source::Any(seed, _) => Arc::new(testing::program(*seed)),
            Source::P4(p) => p.program(),
        }
    }

    /// An update that the pipeline may refuse.
    pub(crate) fn update(&mut self, p: &Pipeline) -> Update {
        let update = match self {
            Source::Shaped(s) => s.update(p),
            Source::Lookups(l) => l.update(p),
            Source::Any(_, rng) => testing::update(p, rng),
            Source::P4(programs) => programs.update(p),
        };
        match update {
            Update::SetMeter(id, meter) => Update::SetMeter(id, without_memory(&meter)),
            other => other,
        }
    }

    pub(crate) fn packet(&mut self) -> Incoming {
        let mut bytes = Vec::with_capacity(128);
        let in_port = match self {
            Source::Shaped(s) => s.packet(&mut bytes),
            Source::Lookups(l) => {
                bytes = l.packet();
                l.rng().below(5) as u32
            }
            Source::Any(_, rng) => {
                bytes = testing::packet(rng);
                rng.below(5) as u32
            }
            Source::P4(p) => {
                let (port, packet) = p.packet();
                bytes = packet;
                port
            }
        };
        Incoming { in_port, bytes }
    }

    /// Updates that the draft takes, one after the other; now and then with one that it refuses.
    fn transaction(&mut self, draft: &mut Pipeline, count: usize) -> Vec<Update> {
        let mut updates = Vec::with_capacity(count);
        for _ in 0..count {
            let update = self.update(draft);
            if draft.transact(std::slice::from_ref(&update)).is_ok() {
                updates.push(update);
            }
        }
        updates
    }

    /// A case of at least so many packets.
    pub(crate) fn case(&mut self, packets: usize) -> Case {
        self.slow_case(packets, 1)
    }

    /// The same with changes so many times as seldom.
    pub(crate) fn slow_case(&mut self, packets: usize, slower: usize) -> Case {
        let program = self.program();
        let Ok(mut draft) = Pipeline::new(program.clone()) else {
            unreachable!("random programs obey the verifier")
        };
        let count = self.rng().pick(&[10, 40, 90, 150]);
        let mut steps = vec![Step::Transact(self.transaction(&mut draft, count)), Step::Publish];
        let mut left = packets;
        // Some cases change at every burst, some seldom, so that what is compiled later serves too.
        let pace = slower.saturating_mul(self.rng().pick(&[3, 8, 20])).clamp(1, 1 << 20);
        while left > 0 {
            if self.rng().one_in(pace) {
                if self.rng().one_in(12) {
                    // Refused as a whole: its last update is there already.
                    let mut twin = draft.clone();
                    let mut updates = self.transaction(&mut twin, 2);
                    updates.extend(updates.last().cloned());
                    if draft.clone().transact(&updates).is_err() {
                        steps.push(Step::Transact(updates));
                    }
                }
                for _ in 0..self.rng().pick(&[1, 1, 1, 2]) {
                    let count = self.rng().pick(&[1, 1, 2, 3, 12]);
                    steps.push(Step::Transact(self.transaction(&mut draft, count)));
                }
                if !self.rng().one_in(6) {
                    steps.push(Step::Publish);
                }
            }
            match self.rng().below(3 * pace) {
                0 => steps.push(Step::Settle),
                1 => steps.push(Step::Work),
                2 => steps.push(Step::Finish),
                3 => steps.extend([Step::Work, Step::Finish]),
                _ => {}
            }
            let count = self.rng().pick(&[1, 2, 3, 8, 17, 31, 32, 32]);
            let late = self.rng().one_in(6);
            let packets: Vec<Incoming> = (0..count).map(|_| self.packet()).collect();
            left = left.saturating_sub(count);
            steps.push(Step::Burst { late, packets });
        }
        Case { program, steps }
    }
}
