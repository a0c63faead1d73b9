//! A failing case made small: what can go while it still fails, goes.
//!
//! In this order, from much to little: what follows the mismatch; the history, if the contents at the
//! mismatch fail by themselves; steps; updates of a transaction, packets of a burst; bytes of packets;
//! operations, checksums and decisions of the program. Each try is a run of the case.

use super::case::{Case, Incoming, Step, contents};
use super::run::Mismatch;
use ir::{Pipeline, Program, Terminator};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a case fails with, if it does.
pub(crate) type Fails<'a> = dyn FnMut(&Case) -> Option<Box<Mismatch>> + 'a;

/// The smallest case found within the time, and how it fails.
pub(crate) fn shrink(
    case: &Case,
    mismatch: &Mismatch,
    limit: Duration,
    fails: &mut Fails<'_>,
) -> (Case, Mismatch) {
    let mut shrinker =
        Shrinker { best: case.clone(), how: mismatch.clone(), end: Instant::now() + limit, fails };
    shrinker.all();
    (shrinker.best, shrinker.how)
}

struct Shrinker<'a, 'f> {
    best: Case,
    how: Mismatch,
    end: Instant,
    fails: &'a mut Fails<'f>,
}

impl Shrinker<'_, '_> {
    /// Takes the case if it fails.
    fn accept(&mut self, case: Case) -> bool {
        if Instant::now() > self.end {
            return false;
        }
        match (self.fails)(&case) {
            // The same kind of failure: a panic on the way is another fault.
            Some(how) if how.kind() == self.how.kind() => {
                self.best = case;
                self.how = *how;
                true
            }
            _ => false,
        }
    }

    fn with_steps(&mut self, steps: Vec<Step>) -> bool {
        let program = self.best.program.clone();
        self.accept(Case { program, steps })
    }

    fn all(&mut self) {
        let mut steps = self.best.steps.clone();
        steps.truncate(self.how.step + 1);
        self.with_steps(steps);
        self.flatten();
        for _ in 0..3 {
            let before = size(&self.best);
            self.steps();
            self.packets();
            self.code();
            if size(&self.best) == before {
                break;
            }
        }
        self.gather();
    }

    /// The contents at the mismatch, and the burst that showed it; then one update a transaction,
    /// one packet a burst.
    fn flatten(&mut self) {
        let last = self.best.steps.get(self.how.step).cloned();
        if let (Some(pipeline), Some(Step::Burst { packets, .. })) = (&self.how.pipeline, last) {
            let program = pipeline.program().clone();
            let first = Step::Transact(contents(pipeline));
            let with = |packets: Vec<Incoming>| {
                let burst = Step::Burst { late: false, packets };
                let steps = vec![first.clone(), Step::Publish, burst];
                Case { program: program.clone(), steps }
            };
            let one = self.how.packet.and_then(|at| packets.get(at)).cloned();
            let tries = [one.map(|one| vec![one]), Some(packets)];
            for packets in tries.into_iter().flatten() {
                if self.accept(with(packets)) {
                    break;
                }
            }
        }
        let each = |of: &dyn Fn(&Step) -> Vec<Step>, steps: &[Step]| -> Vec<Step> {
            steps.iter().flat_map(of).collect()
        };
        let updates = |step: &Step| match step {
            Step::Transact(updates) => {
                updates.iter().map(|u| Step::Transact(vec![u.clone()])).collect()
            }
            other => vec![other.clone()],
        };
        let packets = |step: &Step| match step {
            Step::Burst { late, packets } => packets
                .iter()
                .map(|p| Step::Burst { late: *late, packets: vec![p.clone()] })
                .collect(),
            other => vec![other.clone()],
        };
        let steps = each(&packets, &self.best.steps);
        self.with_steps(steps);
        let steps = each(&updates, &self.best.steps);
        self.with_steps(steps);
        self.begin_late();
    }

    /// Begins at the last program that comes in between, as a file can only begin at one.
    fn begin_late(&mut self) {
        for at in (0..self.best.steps.len()).rev() {
            let Step::Transact(updates) = &self.best.steps[at] else { continue };
            let [ir::Update::SetProgram(program)] = &updates[..] else { continue };
            let (program, steps) = (program.clone(), self.best.steps[at + 1..].to_vec());
            if self.accept(Case { program, steps }) {
                return;
            }
        }
    }

    fn steps(&mut self) {
        let steps = self.best.steps.clone();
        thin(&steps, &mut |steps| self.with_steps(steps.to_vec()));
        for at in 0..self.best.steps.len() {
            let change = |step: Step, s: &mut Self| {
                let mut steps = s.best.steps.clone();
                steps[at] = step;
                s.with_steps(steps)
            };
            match self.best.steps[at].clone() {
                Step::Transact(list) => {
                    thin(&list, &mut |l| change(Step::Transact(l.to_vec()), self));
                }
                Step::Burst { late, packets } => {
                    let burst = |packets: &[Incoming]| {
                        let packets = packets.to_vec();
                        Step::Burst { late, packets }
                    };
                    thin(&packets, &mut |l| change(burst(l), self));
                }
                _ => {}
            }
        }
    }

    /// Fewer bytes, then more zeros.
    fn packets(&mut self) {
        for at in 0..self.best.steps.len() {
            let count = match &self.best.steps[at] {
                Step::Burst { packets, .. } => packets.len(),
                _ => 0,
            };
            for i in 0..count {
                self.packet(at, i);
            }
        }
    }

    fn packet(&mut self, at: usize, i: usize) {
        let bytes = |s: &Self| match &s.best.steps[at] {
            Step::Burst { packets, .. } => packets[i].bytes.clone(),
            _ => Vec::new(),
        };
        let set = |s: &mut Self, bytes: Vec<u8>| {
            let mut steps = s.best.steps.clone();
            if let Step::Burst { packets, .. } = &mut steps[at] {
                packets[i].bytes = bytes;
            }
            s.with_steps(steps)
        };
        let mut cut = bytes(self).len() / 2;
        while cut > 0 {
            let mut shorter = bytes(self);
            if cut > shorter.len() {
                break;
            }
            shorter.truncate(shorter.len() - cut);
            if !set(self, shorter) {
                cut /= 2;
            }
        }
        let mut run = bytes(self).len();
        while run > 0 {
            let mut from = 0;
            while from < bytes(self).len() {
                let mut zeroed = bytes(self);
                let to = (from + run).min(zeroed.len());
                if zeroed[from..to].iter().any(|b| *b != 0) {
                    zeroed[from..to].fill(0);
                    set(self, zeroed);
                }
                from += run;
            }
            run /= 2;
        }
    }

    /// Parts of the program that nothing needs. Ids stay, so that entries still mean the same.
    fn code(&mut self) {
        let edit = |s: &mut Self, change: &dyn Fn(&mut Program)| -> bool {
            let mut program = (*s.best.program).clone();
            change(&mut program);
            if program == *s.best.program || Pipeline::new(Arc::new(program.clone())).is_err() {
                return false;
            }
            let steps = s.best.steps.clone();
            s.accept(Case { program: Arc::new(program), steps })
        };
        edit(self, &|p| p.checksums.clear());
        for i in (0..self.best.program.checksums.len()).rev() {
            edit(self, &|p| drop(p.checksums.remove(i)));
        }
        for i in 0..self.best.program.blocks.len() {
            edit(self, &|p| p.blocks[i].ops.clear());
            for op in (0..self.best.program.blocks[i].ops.len()).rev() {
                edit(self, &|p| drop(p.blocks[i].ops.remove(op)));
            }
            edit(self, &|p| {
                let to = match p.blocks[i].end {
                    Terminator::Apply { hit, .. } => hit,
                    Terminator::If { then, .. } => then,
                    _ => return,
                };
                p.blocks[i].end = Terminator::Jump(to);
            });
            edit(self, &|p| {
                if let Terminator::Apply { by_action, .. } = &mut p.blocks[i].end {
                    by_action.clear();
                }
            });
            edit(self, &|p| p.blocks[i].end = Terminator::Exit);
        }
        for i in 0..self.best.program.actions.len() {
            let body = |p: &mut Program, f: &dyn Fn(&mut Vec<ir::Op>)| {
                f(&mut Arc::make_mut(&mut p.actions[i]).body);
            };
            edit(self, &|p| body(p, &|ops| ops.clear()));
            for op in (0..self.best.program.actions[i].body.len()).rev() {
                edit(self, &|p| body(p, &|ops| drop(ops.remove(op))));
            }
        }
    }

    /// What comes before the first publication as its contents, as a file begins.
    fn gather(&mut self) {
        let Ok(mut pipeline) = Pipeline::new(self.best.program.clone()) else { return };
        let before = |step: &&Step| matches!(step, Step::Transact(_));
        let count = self.best.steps.iter().take_while(before).count();
        for step in &self.best.steps[..count] {
            if let Step::Transact(updates) = step {
                let _ = pipeline.transact(updates);
            }
        }
        let program = pipeline.program().clone();
        let mut steps = vec![Step::Transact(contents(&pipeline))];
        steps.extend_from_slice(&self.best.steps[count..]);
        self.accept(Case { program, steps });
    }
}

fn size(case: &Case) -> usize {
    let of = |step: &Step| match step {
        Step::Transact(updates) => 1 + updates.len(),
        Step::Burst { packets, .. } => 1 + packets.iter().map(|p| 1 + p.bytes.len()).sum::<usize>(),
        _ => 1,
    };
    let ops = case.program.actions.iter().map(|a| a.body.len()).sum::<usize>()
        + case.program.blocks.iter().map(|b| b.ops.len()).sum::<usize>();
    ops + case.steps.iter().map(of).sum::<usize>()
}

/// Tries shorter lists, halves first, down to single elements; `keep` says whether one will do.
fn thin<T: Clone>(list: &[T], keep: &mut dyn FnMut(&[T]) -> bool) {
    let mut list = list.to_vec();
    let mut run = list.len().div_ceil(2);
    while run > 0 && !list.is_empty() {
        let mut at = list.len();
        while at > 0 {
            let from = at.saturating_sub(run);
            let shorter = [&list[..from], &list[at.min(list.len())..]].concat();
            if keep(&shorter) {
                list = shorter;
            }
            at = from;
        }
        run = if run == 1 { 0 } else { run.div_ceil(2) };
    }
}
