//! Which structure serves a table, and why not another.
//!
//! Special forms come first; each may decline with a reason, and one that fits may still be passed
//! over where another is cheaper. The general form never declines. The answer is a value:
//!
//! Ranges are spoken of only where there are some.
//!
//! ```text
//! acl (ternary, 812 entries, 9 masks)
//!   hash         declined: 9 distinct masks
//!   lpm          declined: ternary in 4 fields
//!   scan         declined: 460 entries of rare masks; 252 at most
//!   tuple_merge  chosen: 9 masks to merge
//! ```
//!
//! Checked by: the unit tests below, which hold these lines to the letter.

use std::fmt;

use crate::declined::Declined;
use crate::kind::Kind;
use crate::rule::Rule;
use crate::shape::TableShape;
use crate::{hash, lpm, range, scan};

/// What became of one structure in a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It cannot hold the table.
    Declined(Declined),
    /// It could, but another is cheaper, or was asked for.
    Passed(String),
    /// It serves the table; what that costs, in words.
    Chosen(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Declined(reason) => write!(f, "declined: {reason}"),
            Verdict::Passed(reason) => write!(f, "passed over: {reason}"),
            Verdict::Chosen(cost) => write!(f, "chosen: {cost}"),
        }
    }
}

/// A structure chosen, with the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What serves the table.
    pub kind: Kind,
    /// `ternary`, `lpm`, `exact` or `range`.
    pub word: &'static str,
    /// Entries when the choice was made.
    pub entries: usize,
    /// Distinct masks then.
    pub masks: usize,
    /// The index of the field with prefixes or ranges, where `kind` is [`Kind::Lpm`] or
    /// [`Kind::Range`].
    pub field: Option<usize>,
    /// Every structure considered, in order.
    pub verdicts: Vec<(Kind, Verdict)>,
}

impl Choice {
    /// Why this kind did not come to serve.
    pub(crate) fn declined(&self, kind: Kind) -> Declined {
        let mut reasons = self.verdicts.iter().filter(|(considered, _)| *considered == kind);
        match reasons.next() {
            Some((_, Verdict::Declined(reason))) => reason.clone(),
            _ => Declined::Planned,
        }
    }

    /// The report under the table's name.
    pub fn titled<'a>(&'a self, name: &'a str) -> impl fmt::Display + 'a {
        Titled { choice: self, name }
    }
}

struct Titled<'a> {
    choice: &'a Choice,
    name: &'a str,
}

impl fmt::Display for Titled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choice { word, entries, masks, verdicts, .. } = self.choice;
        write!(f, "{} ({word}, {entries} entries, {masks} masks)", self.name)?;
        verdicts.iter().try_for_each(|(kind, verdict)| write!(f, "\n  {kind:<12} {verdict}"))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.titled("table").fmt(f)
    }
}

/// Masks from which on a walk of the trie is cheaper than a probe per mask.
///
/// `benches/lookup.rs`: a walk costs what two probes do at 1K routes, and six at 100K.
const LPM_MASKS_MIN: usize = 4;

/// Masks up to which there is nothing to gain by merging them.
///
/// `benches/small.rs`: of three masks, tuple space search takes two thirds of the time of merged tuples;
/// of five, six fifths.
pub const TUPLE_SPACE_MASKS_MAX: usize = 3;

/// Whether there is nothing to gain by merging these masks: they are few, and so are the rules that collide but for
/// their ranges, which merged tuples part by what their ranges have in common.
pub fn is_few_masks(shape: &TableShape) -> bool {
    shape.masks.len() <= TUPLE_SPACE_MASKS_MAX && shape.ranged <= scan::RANGED_MAX
}

/// Chooses among the structures for a table, or takes the one that is `pinned` if it fits.
pub fn choose(shape: &TableShape, pinned: Option<Kind>) -> Choice {
    let masks = shape.masks.len();
    let mut verdicts: Vec<(Kind, Verdict)> = Vec::new();
    let mut chosen: Option<Kind> = None;
    let mut field = None;
    let pass = |kind: Kind, chosen: Option<Kind>| match (pinned, chosen) {
        (Some(pin), _) if pin != kind => Some(format!("{pin} is asked for")),
        (_, Some(taken)) => Some(format!("{taken} costs less")),
        _ => None,
    };

    if pinned == Some(Kind::Linear) {
        let cost = format!("asked for; at most {} compares", shape.entries);
        verdicts.push((Kind::Linear, Verdict::Chosen(cost)));
        chosen = Some(Kind::Linear);
    }
    let verdict = match (hash::fits(shape), pass(Kind::Hash, chosen)) {
        (Err(reason), _) => Verdict::Declined(reason),
        (Ok(()), Some(why)) => Verdict::Passed(why),
        (Ok(()), None) => {
            chosen = Some(Kind::Hash);
            let masks = if masks > 1 { "one mask and a catch-all" } else { "one mask" };
            Verdict::Chosen(format!("{masks}, one probe"))
        }
    };
    verdicts.push((Kind::Hash, verdict));
    let few = (pinned.is_none() && masks < LPM_MASKS_MIN)
        .then(|| format!("{masks} masks cost fewer probes than a walk"));
    let verdict = match (lpm::fits(shape), pass(Kind::Lpm, chosen).or(few)) {
        (Err(reason), _) => Verdict::Declined(reason),
        (Ok(_), Some(why)) => Verdict::Passed(why),
        (Ok(at), None) => {
            (chosen, field) = (Some(Kind::Lpm), Some(at));
            let lengths = if masks == 1 { "" } else { "s" };
            Verdict::Chosen(format!("one prefix field, {masks} mask{lengths}"))
        }
    };
    verdicts.push((Kind::Lpm, verdict));
    if shape.ranged > 0 || pinned == Some(Kind::Range) {
        let verdict = match (range::fits(shape), pass(Kind::Range, chosen)) {
            (Err(reason), _) => Verdict::Declined(reason),
            (Ok(_), Some(why)) => Verdict::Passed(why),
            (Ok(at), None) => {
                (chosen, field) = (Some(Kind::Range), Some(at));
                let compared = Declined::Ranges { entries: shape.ranged };
                Verdict::Chosen(format!("one range field, {compared}"))
            }
        };
        verdicts.push((Kind::Range, verdict));
    }
    let verdict = match (scan::fits(shape), pass(Kind::Scan, chosen)) {
        (Err(reason), _) => Verdict::Declined(reason),
        (Ok(()), Some(why)) => Verdict::Passed(why),
        (Ok(()), None) => {
            let (compared, probes) = scan::steps(shape);
            chosen = Some(Kind::Scan);
            let s = |n: usize| if n == 1 { "" } else { "s" };
            let (entries, lookups) = (if compared == 1 { "entry" } else { "entries" }, s(probes));
            Verdict::Chosen(format!("{compared} {entries} compared, {probes} probe{lookups}"))
        }
    };
    verdicts.push((Kind::Scan, verdict));
    let asked = pinned == Some(Kind::TupleSpace);
    if asked || pinned.is_none() && chosen.is_none() && is_few_masks(shape) {
        let probes = if masks == 1 { "probe" } else { "probes" };
        let asked = if asked { "asked for; " } else { "" };
        let cost = format!("{asked}{masks} masks, at most {masks} {probes}");
        verdicts.push((Kind::TupleSpace, Verdict::Chosen(cost)));
        chosen = Some(Kind::TupleSpace);
    }
    if let Some(kind @ (Kind::Cuts | Kind::BitVectors)) = pinned {
        verdicts.push((kind, Verdict::Chosen("asked for".into())));
        chosen = Some(kind);
    }
    let verdict = match chosen {
        Some(taken) => Verdict::Passed(format!("{taken} serves")),
        None => {
            Verdict::Chosen(format!("{masks} mask{} to merge", if masks == 1 { "" } else { "s" }))
        }
    };
    verdicts.push((Kind::TupleMerge, verdict));
    Choice {
        kind: chosen.unwrap_or(Kind::TupleMerge),
        word: shape.word(),
        entries: shape.entries,
        masks,
        field,
        verdicts,
    }
}

/// As [`choose`], from the rules themselves.
pub fn choose_for<'a>(
    layout: crate::Layout,
    rules: impl IntoIterator<Item = &'a Rule>,
    pinned: Option<Kind>,
) -> Choice {
    choose(&TableShape::of(layout, rules), pinned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    fn rule(id: u32, priority: u32, mask: &[u8]) -> Rule {
        Rule::new(id, priority, 0, &vec![0; mask.len()], mask)
    }

    fn report(layout: &[usize], rules: &[Rule], pinned: Option<Kind>) -> String {
        choose_for(Layout::new(layout).unwrap(), rules, pinned).titled("t").to_string()
    }

    #[test]
    fn a_choice_prints_its_reasons() {
        assert_eq!(
            report(&[1, 1], &[rule(1, 1, &[0xff, 0x55]), rule(2, 1, &[0x0f, 0x33])], None),
            "t (ternary, 2 entries, 2 masks)\n  \
             hash         declined: 2 distinct masks\n  \
             lpm          declined: ternary in 2 fields\n  \
             scan         chosen: 2 entries compared, 0 probes\n  \
             tuple_merge  passed over: scan serves"
        );
        let prefixes: Vec<Rule> =
            (0..=8).map(|n| rule(n, n, &[0xff, !(0xff_u16 >> n) as u8])).collect();
        assert_eq!(
            report(&[1, 1], &prefixes, None),
            "t (lpm, 9 entries, 9 masks)\n  \
             hash         declined: 9 distinct masks\n  \
             lpm          chosen: one prefix field, 9 masks\n  \
             scan         passed over: lpm costs less\n  \
             tuple_merge  passed over: lpm serves"
        );
        // A table-miss entry does not keep routes from being routes.
        let mut routes = prefixes.clone();
        routes.iter_mut().for_each(|r| r.priority += 1);
        routes.push(rule(99, 0, &[0, 0]));
        let report_of = |rules: &[Rule]| report(&[1, 1], rules, None);
        assert!(report_of(&routes).contains("lpm          chosen: one prefix field, 10 masks"));
        routes[9].priority = 1;
        assert!(report_of(&routes).contains("a catch-all of priority 1 is not below"));
        routes[9].priority = 4;
        assert!(report_of(&routes).contains(
            "lpm          declined: a catch-all of priority 4 is not below the lowest prefix's, 1"
        ));
        assert_eq!(
            report(&[1, 1], &prefixes[..2], None),
            "t (lpm, 2 entries, 2 masks)\n  \
             hash         declined: 2 distinct masks\n  \
             lpm          passed over: 2 masks cost fewer probes than a walk\n  \
             scan         chosen: 2 entries compared, 0 probes\n  \
             tuple_merge  passed over: scan serves"
        );
        assert_eq!(
            report(&[1], &[rule(1, 9, &[0xf0]), rule(2, 5, &[0xff])], Some(Kind::Lpm)),
            "t (lpm, 2 entries, 2 masks)\n  \
             hash         declined: 2 distinct masks\n  \
             lpm          declined: priorities do not grow with the prefix: /4 has 9, /8 has 5\n  \
             scan         passed over: lpm is asked for\n  \
             tuple_merge  chosen: 2 masks to merge"
        );
        assert_eq!(
            report(&[17], &[rule(1, 9, &[0xff; 17])], None),
            "t (exact, 1 entries, 1 masks)\n  \
             hash         chosen: one mask, one probe\n  \
             lpm          declined: no prefix field of at most 128 bits\n  \
             scan         passed over: hash costs less\n  \
             tuple_merge  passed over: hash serves"
        );
    }

    #[test]
    fn ranges_and_catch_alls_are_explained() {
        let ranged = |id: u32, priority: u32, offset: u32, mask: &[u8]| {
            let mut rule = rule(id, priority, mask);
            let range = crate::Range { offset, len: 1, lo: 3, hi: 200 };
            rule.ranges = Box::new([range]);
            rule
        };
        let mut rules = vec![ranged(1, 5, 1, &[0xff, 0]), rule(2, 7, &[0xff, 0xf0])];
        assert_eq!(
            report(&[1, 1], &rules, None),
            "t (range, 2 entries, 2 masks)\n  \
             hash         declined: 1 entry compares ranges\n  \
             lpm          declined: 1 entry compares ranges\n  \
             range        chosen: one range field, 1 entry compares ranges\n  \
             scan         passed over: range costs less\n  \
             tuple_merge  passed over: range serves"
        );
        let range_line = |layout: &[usize], rules: &[Rule], pinned| {
            let report = report(layout, rules, pinned);
            report.lines().find(|l| l.trim().starts_with("range ")).unwrap_or("none").to_string()
        };
        // A table-miss entry stands beside, if it ranks below.
        rules.push(rule(3, 0, &[0, 0]));
        assert!(range_line(&[1, 1], &rules, None).contains("chosen"));
        rules[2].priority = 5;
        assert_eq!(
            range_line(&[1, 1], &rules, None),
            "  range        declined: a catch-all of priority 5 is not below the lowest other, 5"
        );
        rules[2] = ranged(3, 9, 0, &[0, 0xff]);
        assert_eq!(
            range_line(&[1, 1], &rules, None),
            "  range        declined: ranges in 2 fields"
        );
        rules[2] = rule(3, 9, &[0x0f, 0xff]);
        assert_eq!(
            range_line(&[1, 1], &rules, None),
            "  range        declined: masks differ outside the range field"
        );
        rules[2] = rule(3, 9, &[0xff, 0x0f]);
        assert_eq!(
            range_line(&[1, 1], &rules, None),
            "  range        declined: ternary in 1 field"
        );
        assert_eq!(
            range_line(&[2], &rules, None),
            "  range        declined: ranges of bytes that are no field"
        );
        assert_eq!(
            range_line(&[9], &[rule(1, 1, &[0xff; 9])], Some(Kind::Range)),
            "  range        declined: no field of at most 64 bits"
        );
        assert_eq!(range_line(&[1, 1], &rules[1..], None), "none");

        let mut one = vec![rule(1, 5, &[0xff, 0xf0]), rule(2, 4, &[0, 0])];
        assert_eq!(
            report(&[1, 1], &one, None),
            "t (ternary, 2 entries, 2 masks)\n  \
             hash         chosen: one mask and a catch-all, one probe\n  \
             lpm          passed over: hash costs less\n  \
             scan         passed over: hash costs less\n  \
             tuple_merge  passed over: hash serves"
        );
        one[1].priority = 5;
        assert!(report(&[1, 1], &one, None).contains(
            "hash         declined: a catch-all of priority 5 is not below the lowest other, 5\n"
        ));
    }

    #[test]
    fn a_scan_is_bounded() {
        let line = |rules: &[Rule]| {
            let report = report(&[1, 2], rules, None);
            report.lines().find(|l| l.trim().starts_with("scan ")).unwrap_or("none").to_string()
        };
        let many = |masks: u32, each: u32| -> Vec<Rule> {
            let mask = |n: u32| [0x55, (n >> 4) as u8 | 0x80, (n << 4) as u8 | 5];
            (0..masks * each).map(|n| rule(n, 1, &mask(n % masks))).collect()
        };
        assert_eq!(line(&many(3, 50)), "  scan         chosen: 0 entries compared, 3 probes");
        assert_eq!(line(&many(15, 16)), "  scan         chosen: 240 entries compared, 0 probes");
        assert_eq!(
            line(&many(17, 15)),
            "  scan         declined: 255 entries of rare masks; 252 at most"
        );
        assert_eq!(
            line(&many(17, 17)),
            "  scan         declined: 17 masks of many entries; 16 at most"
        );
        assert_eq!(line(&many(2, 2049)), "  scan         declined: 4098 entries; 4096 at most");
        assert_eq!(line(&[]), "  scan         declined: no entries yet");
        // Rules that differ in their ranges alone would be compared one by one.
        let ranged = |count: u32| {
            let rule = |n: u32| {
                let range = crate::Range { offset: 1, len: 2, lo: 300 + u128::from(n), hi: 50_000 };
                Rule { ranges: [range].into(), ..rule(n, n, &[0xff, 0, 0]) }
            };
            let rules: Vec<Rule> = (0..count).map(rule).collect();
            report(&[1, 1, 1], &rules, None)
        };
        assert!(ranged(128).contains("scan         chosen: 0 entries compared, 1 probe"));
        assert!(ranged(129).contains(
            "scan         declined: 129 entries of masks of many compare ranges; 128 at most"
        ));
        assert!(ranged(129).ends_with("tuple_merge  chosen: 1 mask to merge"));
        // Of few masks, a table too large for that is not merged either.
        let large = |masks| report(&[1, 2], &many(masks, 5000 / masks), None);
        assert!(large(3).ends_with(
            "tuple_space  chosen: 3 masks, at most 3 probes\n  \
             tuple_merge  passed over: tuple_space serves"
        ));
        assert!(large(4).ends_with("tuple_merge  chosen: 4 masks to merge"));
    }

    #[test]
    fn what_is_asked_for_is_taken() {
        let two = [rule(1, 1, &[0xff, 0x55]), rule(2, 1, &[0x0f, 0x33])];
        let asked = |kind| report(&[1, 1], &two, Some(kind));
        assert!(asked(Kind::TupleSpace).ends_with(
            "scan         passed over: tuple_space is asked for\n  \
             tuple_space  chosen: asked for; 2 masks, at most 2 probes\n  \
             tuple_merge  passed over: tuple_space serves"
        ));
        assert!(asked(Kind::TupleMerge).ends_with(
            "scan         passed over: tuple_merge is asked for\n  \
             tuple_merge  chosen: 2 masks to merge"
        ));
        assert!(asked(Kind::Linear).contains("linear       chosen: asked for; at most 2 compares"));
    }

    #[test]
    fn kinds_are_read_back_by_name() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("tuple".parse::<Kind>().is_err());
    }
}
