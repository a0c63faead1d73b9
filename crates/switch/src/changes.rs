//! What clients change, told: one line each while they are few, a sum by peer while they are many.
//!
//! Of each kind of change [`LINES`] a second are logged as they are. Those beyond are summed up by
//! peer and kind, and told when the peer has paused, or every [`SUM_NS`]: "12000 flow_mods in the last
//! 3 s (11000 adds, 1000 deletes)". Whoever asks for it ([`Changes::keep`]) is given every one.
//!
//! Cost of a change beyond the rate: a lock, and a count in a map. Memory: a sum for each peer and kind
//! that has changed something in the last seconds, [`SUMS_MAX`] at most.
//! Checked by: tests below.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The log's target of these lines; they have a rate of their own.
pub const TARGET: &str = "switch::changes";
/// Changes of a kind that are logged as they are, a second.
pub const LINES: u32 = 10;
const SECOND_NS: u64 = 1_000_000_000;
/// A sum of changes that go on is told so often.
pub const SUM_NS: u64 = 10 * SECOND_NS;
/// Sums at the same time, at most; a peer beyond is summed up with others.
const SUMS_MAX: usize = 4096;

/// A change.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Who asked for it.
    pub peer: &'a str,
    /// What was changed, as in `flow_mod`.
    pub kind: &'static str,
    /// How, as in `add`.
    pub verb: &'static str,
    /// All of it.
    pub text: &'a str,
}

/// Takes every change.
pub type Keep = Box<dyn Fn(Change<'_>) + Send + Sync>;

/// The second that a kind of change is in, and how many lines it had.
#[derive(Default)]
struct Second {
    began_ns: u64,
    lines: u32,
}

struct Sum {
    began_ns: u64,
    last_ns: u64,
    count: u64,
    verbs: BTreeMap<&'static str, u64>,
}

#[derive(Default)]
struct State {
    seconds: HashMap<&'static str, Second>,
    sums: BTreeMap<(String, &'static str), Sum>,
}

/// What clients have changed.
#[derive(Default)]
pub struct Changes {
    state: Mutex<State>,
    keep: OnceLock<Keep>,
}

impl Changes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this is given every change. Once for a switch; later ones are ignored.
    pub fn keep(&self, keep: Keep) {
        let _ = self.keep.set(keep);
    }

    /// Whether the text of a change of this kind would be used now.
    pub fn wants_text(&self, kind: &'static str, now_ns: u64) -> bool {
        self.keep.get().is_some()
            || self.state().seconds.get(kind).is_none_or(|second| {
                now_ns.saturating_sub(second.began_ns) >= SECOND_NS || second.lines < LINES
            })
    }

    /// A change was made. `text` tells all of it, where [`wants_text`](Self::wants_text) said so.
    pub fn note(
        &self,
        peer: &str,
        kind: &'static str,
        verb: &'static str,
        text: Option<&str>,
        now_ns: u64,
    ) {
        if let (Some(keep), Some(text)) = (self.keep.get(), text) {
            keep(Change { peer, kind, verb, text });
        }
        if self.counted(peer, kind, verb, text.is_some(), now_ns) {
            let text = text.unwrap_or("");
            tracing::info!(target: TARGET, peer, change = text, "{kind} {verb}");
        }
    }

    /// Whether it is to be said as it is; otherwise it is summed up.
    fn counted(
        &self,
        peer: &str,
        kind: &'static str,
        verb: &'static str,
        has_text: bool,
        now_ns: u64,
    ) -> bool {
        let mut state = self.state();
        let second = state.seconds.entry(kind).or_default();
        if now_ns.saturating_sub(second.began_ns) >= SECOND_NS {
            *second = Second { began_ns: now_ns, lines: 0 };
        }
        if has_text && second.lines < LINES {
            second.lines += 1;
            return true;
        }
        let full = state.sums.len() >= SUMS_MAX;
        let mut key = (peer.to_owned(), kind);
        if full && !state.sums.contains_key(&key) {
            key.0 = "others".to_owned();
        }
        let fresh = || Sum { began_ns: now_ns, last_ns: now_ns, count: 0, verbs: BTreeMap::new() };
        let sum = state.sums.entry(key).or_insert_with(fresh);
        sum.last_ns = now_ns;
        sum.count += 1;
        *sum.verbs.entry(verb).or_default() += 1;
        false
    }

    /// Tells the sums that are due.
    pub fn tick(&self, now_ns: u64) {
        for (peer, text) in self.due(now_ns) {
            tracing::info!(target: TARGET, peer, "{text}");
        }
    }

    fn due(&self, now_ns: u64) -> Vec<(String, String)> {
        let mut state = self.state();
        let since = |ns: u64| now_ns.saturating_sub(ns);
        let due = |sum: &Sum| since(sum.last_ns) >= SECOND_NS || since(sum.began_ns) >= SUM_NS;
        let keys: Vec<_> =
            state.sums.iter().filter(|(_, sum)| due(sum)).map(|(key, _)| key.clone()).collect();
        let mut told = Vec::new();
        for key in keys {
            let Some(sum) = state.sums.remove(&key) else { continue };
            let seconds = since(sum.began_ns).div_ceil(SECOND_NS).max(1);
            told.push((key.0, summary(key.1, &sum, seconds)));
        }
        told
    }
}

fn plural(word: &str, n: u64) -> String {
    match (n, word.strip_suffix('y')) {
        (1, _) => word.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        _ => format!("{word}s"),
    }
}

fn summary(kind: &str, sum: &Sum, seconds: u64) -> String {
    let count = sum.count;
    let mut text = format!("{count} {} in the last {seconds} s", plural(kind, count));
    for (i, (verb, n)) in sum.verbs.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{n} {}", if i == 0 { " (" } else { ", " }, plural(verb, *n));
    }
    text + ")"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const S: u64 = SECOND_NS;

    #[test]
    fn few_are_told_as_they_are_and_many_are_summed_up_by_peer() {
        let changes = Changes::default();
        let note = |peer, verb, ns| changes.counted(peer, "flow_mod", verb, true, ns);
        let said = (0..1000).filter(|_| note("tcp:a", "add", S)).count();
        assert_eq!(said, LINES as usize);
        (0..10).for_each(|_| assert!(!note("tcp:a", "delete", S + S / 2)));
        assert!(!note("tcp:b", "modify", S + S / 2));
        assert!(changes.counted("tcp:b", "group_mod", "add", true, S), "another kind");
        assert!(changes.due(S + S).is_empty(), "they may go on");
        let told = changes.due(4 * S);
        let of = |peer: &str, text: &str| (peer.to_owned(), text.to_owned());
        assert_eq!(
            told,
            [
                of("tcp:a", "1000 flow_mods in the last 3 s (990 adds, 10 deletes)"),
                of("tcp:b", "1 flow_mod in the last 3 s (1 modify)"),
            ]
        );
        assert!(changes.due(100 * S).is_empty());
        assert!(note("tcp:a", "add", 100 * S), "a new second");
    }

    #[test]
    fn what_goes_on_is_told_now_and_then() {
        let changes = Changes::default();
        let (mut lines, mut sums) = (0, Vec::new());
        for step in 1..3000u64 {
            let ns = step * S / 100;
            lines += u32::from(changes.counted("p", "meter_mod", "modify", true, ns));
            sums.extend(changes.due(ns));
        }
        assert_eq!(lines, 30 * LINES);
        assert!((2..=3).contains(&sums.len()), "{sums:?}");
        assert!(sums[0].1.ends_with(" modifies)"), "{sums:?}");
    }

    #[test]
    fn who_keeps_them_is_given_all() {
        let changes = Changes::default();
        let kept = Arc::<Mutex<Vec<String>>>::default();
        assert!(changes.wants_text("flow_mod", S));
        (0..LINES).for_each(|_| changes.note("p", "flow_mod", "add", Some("x"), S));
        assert!(!changes.wants_text("flow_mod", S) && changes.wants_text("flow_mod", 2 * S));
        let to = kept.clone();
        changes.keep(Box::new(move |change| {
            to.lock().unwrap().push(format!("{} {} {}", change.peer, change.verb, change.text));
        }));
        assert!(changes.wants_text("flow_mod", S));
        (0..50).for_each(|n| changes.note("p", "flow_mod", "add", Some(&n.to_string()), S));
        let kept = kept.lock().unwrap();
        assert_eq!((kept.len(), &*kept[49]), (50, "p add 49"));
    }

    #[test]
    fn peers_are_bounded() {
        let changes = Changes::default();
        for n in 0..3 * SUMS_MAX {
            changes.counted(&format!("tcp:{n}"), "flow_mod", "add", false, S);
        }
        assert!(changes.state().sums.len() <= SUMS_MAX + 1);
        let all = changes.due(9 * S);
        let others = all.iter().find(|(peer, _)| peer == "others").unwrap();
        assert_eq!(others.1, "8192 flow_mods in the last 8 s (8192 adds)");
    }
}
