//! What goes wrong, and what people ask for.

use crate::judge::Left;
use crate::world::{BEGINS, Event, MS, TROUBLED, World};

/// A member that is asked to end hands over in so long.
const ENDS: u64 = 20 * MS;

impl World {
    /// What goes wrong, once in a while and until it is quiet.
    pub(crate) fn trouble(&mut self, n: usize) {
        let (now, count) = (self.now, self.nodes.len());
        if now < BEGINS {
            return;
        }
        if now > TROUBLED {
            if !std::mem::replace(&mut self.quiet, true) {
                self.paths = [vec![vec![true; count]; count], vec![vec![true; count]; count]];
                self.reached = vec![true; count];
                self.engine = true;
                for to in 0..count {
                    self.at(now + 40 * MS, Event::Engine(to, true));
                }
            }
            return;
        }
        let other = self.random.below(count as u64) as usize;
        let share = self.random.below(self.store.len() as u64) as usize;
        match self.random.below(4000) {
            0..4 => self.gone(n, false),
            // Stopped by a signal, or starved.
            4..8 => {
                let span = [5, 40, 300][self.random.below(3) as usize];
                self.nodes[n].paused_until = now + self.random.below(span * MS);
                self.nodes[n].paused_at = now;
                self.nodes[n].alone =
                    (0..self.store.len()).map(|share| self.active(share) == [n]).collect();
            }
            8..12 => {
                let path = self.random.below(2) as usize;
                let both = self.random.one_in(2);
                for p in 0..2 {
                    if p == path || both {
                        self.paths[p][n][other] = false;
                        self.paths[p][other][n] = self.random.one_in(4);
                    }
                }
            }
            12..24 => {
                for path in &mut self.paths {
                    (path[n][other], path[other][n]) = (true, true);
                }
            }
            24..26 => self.set_engine(None, false),
            26..36 => self.set_engine(None, true),
            36..38 => self.set_engine(Some(n), false),
            38..48 => self.set_engine(Some(n), true),
            48..50 => self.drain(n, Some(share)),
            // Somebody sets the clock.
            50..52 => self.nodes[n].ahead = self.random.next(),
            52..54 => self.drain(n, None),
            54..56 => {
                let members = self.nodes[n].members.all_mut().iter_mut();
                members.for_each(|member| member.set_drained(false));
            }
            56 => {
                let _ = self.member_mut(n, share).promote_by_command(now);
                self.asked = now;
            }
            57..59 => self.leave(n),
            // Who has ended leaves what it had claimed.
            59..63 if !self.nodes[other].up => {
                let pool = &mut self.nodes[n].held[share].pool;
                if let Some((revision, claims)) = pool.forget(&crate::world::name(other)) {
                    self.claim(n, share, revision, claims);
                }
            }
            _ => {}
        }
    }

    /// A share is handed over, or all that the member has, and it gets nothing back.
    fn drain(&mut self, n: usize, share: Option<usize>) {
        for at in (0..self.store.len()).filter(|at| share.is_none_or(|share| share == *at)) {
            self.member_mut(n, at).set_drained(true);
            self.hand_over(n, at);
        }
    }

    /// Somebody asks it to end, as at an upgrade: it hands over what it can.
    fn leave(&mut self, n: usize) {
        if self.nodes[n].ends.is_some() {
            return;
        }
        (0..self.store.len()).for_each(|share| self.hand_over(n, share));
        self.nodes[n].members.all_mut().iter_mut().for_each(replication::Member::end);
        self.act(n);
        self.nodes[n].ends = Some(self.now + ENDS);
    }

    /// Its process ends; it starts again.
    pub(crate) fn gone(&mut self, n: usize, asked: bool) {
        let now = self.now;
        for share in 0..self.store.len() {
            if self.is_active(n, share) {
                let alone = self.active(share).len() == 1;
                let left = Left::died(now, n, &self.nodes[n].held[share]);
                self.left[share] = alone.then_some(left);
            }
        }
        self.nodes[n].up = false;
        for to in (0..self.nodes.len()).filter(|to| *to != n) {
            // A host that goes says nothing; a process that goes has a kernel that does.
            if (asked || self.random.one_in(2)) && self.paths[0][n][to] {
                self.at(now + MS, Event::Closed(to, n));
            }
        }
        let down = 50 * MS + self.random.below(600 * MS);
        self.at(now + down, Event::Up(n));
    }

    fn set_engine(&mut self, of: Option<usize>, up: bool) {
        let now = self.now;
        match of {
            None => self.engine = up,
            Some(n) => self.reached[n] = up,
        }
        for n in 0..self.nodes.len() {
            let reached = self.engine && self.reached[n];
            if !reached {
                self.nodes[n].held.iter_mut().for_each(|held| held.lost_at = now);
            }
            let delay = self.random.below(30 * MS);
            self.at(now + delay, Event::Engine(n, reached));
        }
    }
}
