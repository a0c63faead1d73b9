//! What a choice of structure is made from: counts and masks, no values.

use crate::rule::{Layout, Rule, spans_of};
use crate::rules::Rules;

/// The rules of one mask, summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskShape {
    /// The (normalised) mask.
    pub mask: Box<[u8]>,
    /// Rules that have it.
    pub entries: usize,
    /// Those of them whose ranges must be compared.
    pub ranged: usize,
    /// Their lowest priority.
    pub priority_min: u32,
    /// Their highest priority.
    pub priority_max: u32,
}

/// A table's rules, summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableShape {
    /// How keys are laid out.
    pub layout: Layout,
    /// Number of rules.
    pub entries: usize,
    /// Rules whose ranges are not prefixes and must be compared.
    pub ranged: usize,
    /// The distinct spans of bytes that they compare, as offset and length, ascending.
    pub ranges: Vec<(usize, usize)>,
    /// One summary per distinct mask.
    pub masks: Vec<MaskShape>,
}

/// How masks lie on the fields of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// All masks agree on this field.
    Fixed,
    /// They differ, and each is a prefix.
    Prefix,
    /// They differ, and one at least is no prefix.
    Ternary,
}

impl TableShape {
    /// Sums up rules as a table with this layout would hold them. Rules that the layout refuses
    /// are left out.
    pub fn of<'a>(layout: Layout, rules: impl IntoIterator<Item = &'a Rule>) -> TableShape {
        Self::of_iter(layout, rules.into_iter().cloned())
    }

    /// As [`TableShape::of`], from rules that nobody keeps.
    pub(crate) fn of_iter(layout: Layout, rules: impl IntoIterator<Item = Rule>) -> TableShape {
        let (ranges, masks) = (Vec::new(), Vec::new());
        let mut shape = TableShape { layout, entries: 0, ranged: 0, ranges, masks };
        let mut places = hashbrown::HashMap::<Box<[u8]>, usize>::new();
        for rule in rules {
            if rule.checked(&shape.layout).is_err() {
                continue;
            }
            let rule = rule.normalised();
            shape.entries += 1;
            let ranged = usize::from(!rule.ranges.is_empty());
            shape.ranged += ranged;
            shape.ranges.extend(spans_of(&rule.ranges));
            let at = *places.entry(rule.mask.clone()).or_insert(shape.masks.len());
            if at == shape.masks.len() {
                shape.masks.push(MaskShape {
                    mask: rule.mask,
                    entries: 0,
                    ranged: 0,
                    priority_min: rule.priority,
                    priority_max: rule.priority,
                });
            }
            let sum = &mut shape.masks[at];
            sum.entries += 1;
            sum.ranged += ranged;
            sum.priority_min = sum.priority_min.min(rule.priority);
            sum.priority_max = sum.priority_max.max(rule.priority);
        }
        shape.ranges.sort_unstable();
        shape.ranges.dedup();
        shape
    }

    pub(crate) fn of_rules(rules: &Rules) -> TableShape {
        let masks = rules.groups().filter_map(|(_, group)| {
            let (priority_min, priority_max) = group.priorities()?;
            let (mask, entries, ranged) = (group.mask().into(), group.len(), group.ranged());
            Some(MaskShape { mask, entries, ranged, priority_min, priority_max })
        });
        TableShape {
            masks: masks.collect(),
            layout: rules.layout().clone(),
            entries: rules.len(),
            ranged: rules.ranged(),
            ranges: rules.store().rows.range_spans(),
        }
    }

    /// How the masks lie on each field.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.layout.fields().iter().map(|f| self.span(f.offset..f.offset + f.len)).collect()
    }

    fn span(&self, bytes: std::ops::Range<usize>) -> Span {
        let mut parts = self.masks.iter().map(|m| &m.mask[bytes.clone()]);
        let Some(first) = parts.next() else { return Span::Fixed };
        let (mut fixed, mut prefix) = (true, prefix_len(first).is_some());
        for part in parts {
            fixed &= part == first;
            prefix &= prefix_len(part).is_some();
        }
        match (fixed, prefix) {
            (true, _) => Span::Fixed,
            (false, true) => Span::Prefix,
            (false, false) => Span::Ternary,
        }
    }

    /// What kind of match the table makes, in a word.
    pub fn word(&self) -> &'static str {
        let spans = self.spans();
        if self.ranged > 0 {
            "range"
        } else if self.masks.iter().all(|m| m.mask.iter().all(|&b| b == 0xff)) {
            "exact"
        } else if !spans.contains(&Span::Ternary)
            && spans.iter().filter(|&&s| s == Span::Prefix).count() == 1
        {
            "lpm"
        } else {
            "ternary"
        }
    }
}

/// The length in bits of a mask that is a prefix.
pub(crate) fn prefix_len(mask: &[u8]) -> Option<u32> {
    let full = mask.iter().take_while(|&&b| b == 0xff).count();
    let Some((&edge, rest)) = mask[full..].split_first() else { return Some(full as u32 * 8) };
    let ones = edge.leading_ones();
    let prefix = ones == edge.count_ones() && rest.iter().all(|&b| b == 0);
    prefix.then_some(full as u32 * 8 + ones)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_told_from_other_masks() {
        assert_eq!(prefix_len(&[]), Some(0));
        assert_eq!(prefix_len(&[0, 0]), Some(0));
        assert_eq!(prefix_len(&[0xff, 0xff]), Some(16));
        assert_eq!(prefix_len(&[0xff, 0xe0]), Some(11));
        assert_eq!(prefix_len(&[0xff, 0xe1]), None);
        assert_eq!(prefix_len(&[0xf0, 0x80]), None);
        assert_eq!(prefix_len(&[0, 0x80]), None);
    }

    #[test]
    fn shapes_name_what_they_match() {
        let of = |rules: &[Rule]| TableShape::of(Layout::new(&[2, 1]).unwrap(), rules);
        let rule = |id, mask: &[u8]| Rule::new(id, id, 0, &[0; 3], mask);
        assert_eq!(of(&[]).word(), "exact");
        assert_eq!(of(&[rule(1, &[0xff; 3])]).word(), "exact");
        assert_eq!(of(&[rule(1, &[0xff; 3]), rule(2, &[0xff, 0, 0xff])]).word(), "lpm");
        assert_eq!(of(&[rule(1, &[0xff; 3]), rule(2, &[0xff, 0, 0])]).word(), "ternary");
        assert_eq!(of(&[rule(1, &[0xff]), rule(2, &[0, 1, 0])]).entries, 1);
        assert_eq!(of(&[rule(1, &[0x0f; 3])]).masks.len(), 1);
    }
}
