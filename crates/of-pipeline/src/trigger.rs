//! Stat-triggers: telling when statistics of an entry reach thresholds (1.5.1 §7.2.5).
//!
//! A threshold is reached when the statistic is at it or beyond; what is told holds the statistics of that
//! moment. With `PERIODIC` all multiples are thresholds; several that are passed between two looks are
//! told once. With `ONLY_FIRST` the threshold that is reached first is the only one; with both flags, what
//! is told puts off every statistic's next threshold by the first's distance from where it is now.
//! Statistics that fall back (reset counts) begin anew. An entry that is given a trigger when it is beyond
//! a threshold is told of at once.
//!
//! Counters are looked at every [`LOOK_NS`]; looking costs at most a twentieth of the agent's time,
//! however many entries have triggers. Packets cost nothing.
//! Checked by: a model test against a plain reading of these sentences; over a switch in `tests/triggers`.

use crate::counts::counts;
use crate::flow::{Flow, FlowKey};
use crate::observer::Observer;
use crate::refusal::Refusal;
use openflow::{Age, FlowCounts, FlowModFlags, Instruction, StatTrigger, StatTriggerFlags};
use std::collections::{BTreeSet, HashMap};
use switch::{CounterValue, Switch};

/// How often counters are looked at, at most.
const LOOK_NS: u64 = 50_000_000;

/// Looks take no more than one part in so many of the time.
const LOOK_SHARE: u64 = 20;

/// The reason of statistics that a trigger sent.
const TRIGGERED: u8 = 1;

/// The statistics that have thresholds: duration and idle time in nanoseconds, packets, bytes.
type Stats = [u64; 4];

/// Where an entry's triggers stand.
#[derive(Clone, Debug)]
struct Watch {
    /// When its entry was made: an id may be used again.
    created_ns: u64,
    trigger: StatTrigger,
    /// What each statistic has to reach next; none if it does not count any more.
    next: [Option<u64>; 4],
    last: Stats,
}

fn nanoseconds(age: Age) -> u64 {
    u64::from(age.sec) * 1_000_000_000 + u64::from(age.nsec)
}

fn thresholds(trigger: &StatTrigger) -> [Option<u64>; 4] {
    let to = &trigger.thresholds;
    [to.duration.map(nanoseconds), to.idle.map(nanoseconds), to.packets, to.bytes]
}

/// The place of the idle time, which falls whenever a packet comes.
const IDLE: usize = 1;

impl Watch {
    fn new(created_ns: u64, trigger: StatTrigger) -> Watch {
        Watch { created_ns, trigger, next: thresholds(&trigger), last: [0; 4] }
    }

    /// Whether a threshold is reached that was not before.
    fn look(&mut self, now: Stats) -> bool {
        let first = thresholds(&self.trigger);
        let periodic = self.trigger.flags.contains(StatTriggerFlags::PERIODIC);
        let only_first = self.trigger.flags.contains(StatTriggerFlags::ONLY_FIRST);
        let over = self.next == [None; 4] && only_first && !periodic;
        let counts_fell = now[2] < self.last[2] || now[3] < self.last[3];
        for i in 0..4 {
            let fell = if i == IDLE { now[i] < self.last[i] } else { i > IDLE && counts_fell };
            // One that is over stays so, but for counts that were reset.
            if fell && (!over || counts_fell) {
                self.next[i] = first[i];
            }
        }
        self.last = now;
        let reached = |i: usize| self.next[i].is_some_and(|next| now[i] >= next);
        let reached = [reached(0), reached(1), reached(2), reached(3)];
        if !reached.contains(&true) {
            return false;
        }
        for i in 0..4 {
            let step = first[i].unwrap_or(0);
            self.next[i] = match (periodic, only_first) {
                // From here on, all thresholds lie as far ahead as they did at first.
                (true, true) => first[i].map(|step| now[i].saturating_add(step.max(1))),
                (false, true) => None,
                (true, false) if reached[i] && step > 0 => {
                    (now[i] / step).checked_add(1).and_then(|n| n.checked_mul(step))
                }
                (_, false) if reached[i] => None,
                (_, false) => self.next[i],
            };
        }
        true
    }
}

/// The entries that have a trigger.
#[derive(Debug, Default)]
pub(crate) struct Triggered(BTreeSet<FlowKey>);

impl Triggered {
    /// They.
    pub(crate) fn keys(&self) -> &BTreeSet<FlowKey> {
        &self.0
    }
}

impl Observer for Triggered {
    fn came(&mut self, key: FlowKey, flow: &Flow) {
        if of(&flow.instructions).is_some() {
            self.0.insert(key);
        }
    }

    fn went(&mut self, key: FlowKey, _: &Flow) {
        if !self.0.is_empty() {
            self.0.remove(&key);
        }
    }
}

/// Where the triggers of all entries stand.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    watches: HashMap<FlowKey, Watch>,
    /// When to look again.
    due_ns: u64,
}

/// The trigger among instructions.
pub(crate) fn of(instructions: &[Instruction]) -> Option<StatTrigger> {
    instructions.iter().find_map(|i| match i {
        Instruction::StatTrigger(trigger) => Some(**trigger),
        _ => None,
    })
}

fn statistics(flow: &Flow, count: &CounterValue, now_ns: u64) -> Stats {
    let used_ns = count.last_used_ns.unwrap_or(0).max(flow.created_ns);
    let since = |then: u64| now_ns.saturating_sub(then);
    // What an entry does not count is 0.
    let zero_unless = |flag, n| if flow.flags.contains(flag) { 0 } else { n };
    [
        since(flow.created_ns),
        since(used_ns),
        zero_unless(FlowModFlags::NO_PKT_COUNTS, count.packets),
        zero_unless(FlowModFlags::NO_BYT_COUNTS, count.bytes),
    ]
}

/// Whether an entry counts what a trigger is about.
pub(crate) fn check(trigger: &StatTrigger, flags: FlowModFlags) -> Result<(), Refusal> {
    let to = &trigger.thresholds;
    let uncounted = (to.packets.is_some() && flags.contains(FlowModFlags::NO_PKT_COUNTS))
        || (to.bytes.is_some() && flags.contains(FlowModFlags::NO_BYT_COUNTS));
    if uncounted { Err(Refusal::TriggerUncounted) } else { Ok(()) }
}

impl Triggers {
    //= openflow-1.5.1 §7.2.5: an event tells of an entry whose statistics reach a threshold.
    /// Looks at the counters of these entries, if it is time; the statistics of those that have reached a threshold.
    /// `flow` is an entry.
    pub(crate) fn look<'f>(
        &mut self,
        entries: &BTreeSet<FlowKey>,
        flow: impl Fn(FlowKey) -> Option<&'f Flow>,
        switch: &Switch,
    ) -> Vec<FlowCounts> {
        let mut reached = Vec::new();
        if entries.is_empty() && self.watches.is_empty() {
            return reached;
        }
        let now_ns = switch.now_ns();
        if now_ns < self.due_ns {
            return reached;
        }
        let watches = &mut self.watches;
        watches.retain(|key, _| entries.contains(key));
        for key in entries {
            let Some((flow, trigger)) = flow(*key).and_then(|f| Some((f, of(&f.instructions)?)))
            else {
                continue;
            };
            let fresh = || Watch::new(flow.created_ns, trigger);
            let watch = watches.entry(*key).or_insert_with(fresh);
            if (watch.created_ns, watch.trigger) != (flow.created_ns, trigger) {
                *watch = fresh();
            }
            let count = switch.counter(key.id);
            if watch.look(statistics(flow, &count, now_ns)) {
                reached.push(counts(*key, flow, count, now_ns, TRIGGERED));
            }
        }
        let done_ns = switch.now_ns();
        let wait_ns = LOOK_NS.max((done_ns - now_ns).saturating_mul(LOOK_SHARE));
        self.due_ns = done_ns.saturating_add(wait_ns);
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::EntryStats;

    fn watch(flags: StatTriggerFlags, packets: Option<u64>, bytes: Option<u64>) -> Watch {
        let thresholds = EntryStats { packets, bytes, ..EntryStats::default() };
        Watch::new(0, StatTrigger { flags, thresholds })
    }

    /// The numbers of packets, of 1 and on, at which it tells; a packet has 10 bytes.
    fn told_at(mut watch: Watch, packets: impl IntoIterator<Item = u64>) -> Vec<u64> {
        packets.into_iter().filter(|n| watch.look([0, 0, *n, *n * 10])).collect()
    }

    const NONE: StatTriggerFlags = StatTriggerFlags::empty();
    const PERIODIC: StatTriggerFlags = StatTriggerFlags::PERIODIC;
    const FIRST: StatTriggerFlags = StatTriggerFlags::ONLY_FIRST;

    #[test]
    fn each_threshold_is_told_once() {
        assert_eq!(told_at(watch(NONE, Some(5), Some(70)), 1..50), [5, 7]);
        assert_eq!(told_at(watch(NONE, Some(5), Some(70)), [3, 9, 20]), [9], "both at once");
        assert_eq!(told_at(watch(NONE, None, None), 1..50), [0u64; 0]);
    }

    #[test]
    fn the_first_threshold_may_be_the_only_one() {
        assert_eq!(told_at(watch(FIRST, Some(5), Some(70)), 1..50), [5]);
        assert_eq!(told_at(watch(FIRST, Some(9), Some(70)), 1..50), [7]);
    }

    #[test]
    fn multiples_are_thresholds() {
        assert_eq!(told_at(watch(PERIODIC, Some(5), None), 1..20), [5, 10, 15]);
        assert_eq!(told_at(watch(PERIODIC, Some(5), Some(70)), 1..20), [5, 7, 10, 14, 15]);
        // Several at once are told once, and the next is the next multiple.
        assert_eq!(told_at(watch(PERIODIC, Some(5), None), [4, 17, 19, 20]), [17, 20]);
        assert_eq!(told_at(watch(PERIODIC | FIRST, Some(5), Some(30)), 1..14), [3, 6, 9, 12]);
        // A period of nothing is reached once.
        assert_eq!(told_at(watch(PERIODIC, Some(0), None), 0..9), [0]);
        assert_eq!(told_at(watch(PERIODIC, Some(u64::MAX), None), [1, u64::MAX / 10]), [0u64; 0]);
    }

    #[test]
    fn what_begins_anew_is_told_anew() {
        for flags in [NONE, FIRST] {
            assert_eq!(told_at(watch(flags, Some(5), None), [4, 6, 8, 2, 4, 5, 6]), [6, 5]);
        }
        let thresholds =
            EntryStats { idle: Some(Age { sec: 1, nsec: 0 }), ..EntryStats::default() };
        let mut idle = Watch::new(0, StatTrigger { flags: NONE, thresholds });
        let second = 1_000_000_000;
        let told = [second - 1, second, 2 * second, 5, second + 1, second + 2];
        let told = told.map(|idle_ns| idle.look([0, idle_ns, 1, 1]));
        assert_eq!(told, [false, true, false, false, true, false]);
    }

    /// Against the plainest reading: a threshold is told if one lies in what was passed since.
    #[test]
    fn random_steps_agree_with_a_plain_reading() {
        let mut rng = openflow::testing::Rng::new(3);
        for _ in 0..200 {
            let step = 1 + u64::from(rng.u32() % 20);
            let mut periodic = watch(PERIODIC, Some(step), None);
            let mut once = watch(NONE, Some(step), None);
            let mut before = 0;
            for _ in 0..100 {
                let now = before + u64::from(rng.u32() % 8);
                assert_eq!(periodic.look([0, 0, now, 0]), now / step > before / step);
                assert_eq!(once.look([0, 0, now, 0]), before < step && now >= step);
                before = now;
            }
        }
    }
}
