//! Parsers: a graph of states, run until nothing changes.

use super::state::State;
use super::walker::Walker;
use crate::hir::{Body, Target, Transition};
use std::collections::BTreeSet;

impl Walker<'_> {
    /// A parser. At hand is then what is known where it accepts; the result is what is known where it rejects.
    pub(super) fn graph(&mut self, body: &Body) -> State {
        let Some(start) = body.states.iter().position(|s| &*s.name == "start") else {
            return State::default();
        };
        let mut before = vec![State::default(); body.states.len()];
        before[start] = self.state.take();
        let mut work = BTreeSet::from([start]);
        self.quiet += 1;
        while let Some(i) = work.pop_first() {
            self.state = before[i].clone();
            for target in self.parser_state(body, i) {
                let Target::State(next) = target else { continue };
                let known = before[next].clone();
                before[next].join(&self.state);
                if before[next] != known {
                    work.insert(next);
                }
            }
        }
        self.quiet -= 1;
        let (mut accepted, mut rejected) = (State::default(), State::default());
        for (i, known) in before.into_iter().enumerate().filter(|(_, s)| s.reached) {
            self.state = known;
            for target in self.parser_state(body, i) {
                match target {
                    Target::Accept => accepted.join(&self.state),
                    Target::Reject => rejected.join(&self.state),
                    Target::State(_) => {}
                }
            }
        }
        self.state = accepted;
        rejected
    }

    /// One state: where it goes.
    fn parser_state(&mut self, body: &Body, i: usize) -> Vec<Target> {
        let s = &body.states[i];
        self.stmts(&s.stmts);
        match &s.transition {
            Transition::To(target) => vec![*target],
            Transition::Select(keys, cases) => {
                keys.iter().for_each(|k| self.eval(k));
                cases.iter().flat_map(|(sets, _)| sets).for_each(|set| self.eval(set));
                cases.iter().map(|(_, target)| *target).collect()
            }
        }
    }
}
