//! Groups of a whole program: which buckets run, on copies of the packet.

use super::super::code::WRITES_MAX;
use super::super::groups::Draw;
use super::super::hash;
use super::super::layout::at;
use super::super::state::Copy;
use super::{End, LIVENESS_STEPS_MAX, Run};
use interp::limits::{COPIES_MAX, GROUP_DEPTH_MAX};
use ir::{Bucket, DropReason, Group, GroupId, GroupKind, PortIs};
use smallvec::SmallVec;

impl<'a> Run<'a> {
    pub(super) fn group(&mut self, copy: &mut Copy, id: GroupId) {
        match self.view.group(id) {
            None => self.lose(DropReason::GroupUnknown),
            Some(_) if copy.group_depth == GROUP_DEPTH_MAX => self.lose(DropReason::GroupLoop),
            Some(group) => self.group_found(copy, id, group),
        }
    }

    fn group_found(&mut self, copy: &mut Copy, id: GroupId, group: &'a Group) {
        self.externs.count(group.counter, copy.length);
        let chosen = match group.kind {
            GroupKind::All => {
                for (at, bucket) in group.buckets.iter().enumerate() {
                    self.bucket(copy, (id, at as u32), bucket);
                }
                if group.buckets.is_empty() {
                    self.lose(DropReason::GroupDead);
                }
                return;
            }
            GroupKind::Indirect => group.buckets.first().map(|b| (0, b)),
            GroupKind::FastFailover => group.buckets.iter().enumerate().find(|(_, b)| self.live(b)),
            GroupKind::Select => {
                let hash = self.group_hash(copy, group);
                let live = group.buckets.iter().enumerate();
                let live = live.filter(|(_, b)| b.weight > 0 && self.live(b));
                live.min_by_key(|(at, b)| Draw::new(hash, *at, b.weight))
            }
            GroupKind::Slots => {
                let hash = self.group_hash(copy, group) as usize;
                let slot = hash.checked_rem(group.buckets.len());
                slot.map(|at| (at, &group.buckets[at]))
            }
        };
        match chosen {
            Some((at, bucket)) => self.bucket(copy, (id, at as u32), bucket),
            None => self.lose(DropReason::GroupDead),
        }
    }

    fn group_hash(&mut self, copy: &mut Copy, group: &Group) -> u32 {
        if let Some(entry) = self.code.group_hash(group) {
            return self.enter(copy, entry, std::ptr::null()) as u32;
        }
        let mut bytes = std::mem::take(&mut self.buffers.emitted);
        self.env(copy, &[]).concat(&group.hash, &mut bytes, true);
        let hash = hash::crc32c(&[&bytes]);
        self.buffers.emitted = bytes;
        hash
    }

    fn bucket(&mut self, copy: &mut Copy, place: (GroupId, u32), bucket: &'a Bucket) {
        let action = self.code.actions.get(bucket.action.action);
        let args = &bucket.action.args;
        if let Some(action) = action
            && let Some(writes) = &action.writes
            && self.copies < COPIES_MAX
        {
            // A copy would be as the packet is.
            self.copies += 1;
            self.externs.count(bucket.counter, copy.length);
            let missed = copy.words[at::MISSED];
            let outer = (copy.bucket.replace(place), copy.outside);
            copy.outside = self.callers.len();
            let written = || writes.iter().cloned().flatten();
            let kept: SmallVec<[u64; WRITES_MAX]> = written().map(|at| copy.words[at]).collect();
            if let Some(End::Drop(reason)) = self.action(copy, action, args) {
                self.lose(reason);
            }
            written().zip(kept).for_each(|(at, word)| copy.words[at] = word);
            copy.words[at::MISSED] = missed;
            (copy.bucket, copy.outside) = outer;
            return;
        }
        let made = self.copy(copy, |run, copy| {
            copy.group_depth += 1;
            copy.bucket = Some(place);
            run.externs.count(bucket.counter, copy.length);
            let end = action.and_then(|action| run.action(copy, action, args));
            end.unwrap_or(End::Exit)
        });
        if !made {
            self.lose(DropReason::GroupLoop);
        }
    }

    fn live(&self, bucket: &Bucket) -> bool {
        self.live_within(bucket, 0, &mut LIVENESS_STEPS_MAX.clone())
    }

    fn live_within(&self, bucket: &Bucket, depth: u32, steps: &mut u32) -> bool {
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        let mut group_live = |id| {
            let group = self.view.group(id).filter(|_| depth < GROUP_DEPTH_MAX);
            group.is_some_and(|g| g.buckets.iter().any(|b| self.live_within(b, depth + 1, steps)))
        };
        match (bucket.watch_port, bucket.watch_group) {
            (None, None) => true,
            (Some(port), _) if self.externs.port_is(PortIs::Live, port) => true,
            (_, Some(id)) => group_live(id),
            (Some(_), None) => false,
        }
    }
}
