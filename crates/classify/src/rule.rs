//! Rules and the layout of the keys they match.
//!
//! A rule is arbitrary: any mask bits, any number of range comparisons. [`Rule::checked`] is the
//! gate through which every rule enters a structure; behind it lengths and ranges are sound.
//!
//! Checked by: unit tests below; the meaning of a match is [`Rule::matches`], byte by byte, which
//! only `linear` uses.

use std::cmp::Ordering;
use std::fmt;

/// Widest range key, in bytes.
pub const RANGE_LEN_MAX: usize = 16;

/// One field of a key: where it lies, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    /// First byte.
    pub offset: usize,
    /// Length in bytes.
    pub len: usize,
}

/// How a table's keys are laid out, and the seed of its hashes.
///
/// Fields only inform the choice of structure (which bytes form one prefix) and its explanation;
/// matching itself sees bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    fields: Box<[Field]>,
    key_len: usize,
    seed: u64,
}

/// A layout that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The key would be longer than offsets can say.
    #[error("the key is {0} bytes long; at most {max} are supported", max = Layout::KEY_LEN_MAX)]
    TooLong(usize),
}

impl Layout {
    /// Longest key, in bytes.
    pub const KEY_LEN_MAX: usize = 1 << 20;

    /// Fields of the given lengths in bytes, one behind the other. No fields at all is a table
    /// without a key, whose rules all match.
    pub fn new(field_lens: &[usize]) -> Result<Layout, LayoutError> {
        let mut fields = Vec::with_capacity(field_lens.len());
        let mut offset = 0usize;
        for &len in field_lens {
            fields.push(Field { offset, len });
            offset = offset.saturating_add(len);
        }
        if offset > Self::KEY_LEN_MAX {
            return Err(LayoutError::TooLong(offset));
        }
        Ok(Layout { fields: fields.into(), key_len: offset, seed: 0 })
    }

    /// One field that is the whole key; what to say when nothing is known of the fields.
    pub fn opaque(key_len: usize) -> Result<Layout, LayoutError> {
        Self::new(&[key_len])
    }

    /// The same layout with another hash seed. Give a random one where those who add entries are
    /// not trusted; answers do not depend on it.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Layout {
        self.seed = seed;
        self
    }

    /// Length of a key in bytes.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// Bytes from one key to the next in a burst: the key's length rounded up to 8, at least 8.
    pub fn stride(&self) -> usize {
        self.key_len.next_multiple_of(8).max(8)
    }

    /// The fields, in order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The hash seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// A range that a rule demands of some bytes of the key, read as one big-endian number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte of the field in the key.
    pub offset: u32,
    /// Length of the field in bytes, 1 to [`RANGE_LEN_MAX`].
    pub len: u8,
    /// Lowest value that matches.
    pub lo: u128,
    /// Highest value that matches.
    pub hi: u128,
}

impl Range {
    /// Whether the key's bytes are within the range.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        let at = self.offset as usize;
        let value = be(&key[at..at + self.len as usize]);
        self.lo <= value && value <= self.hi
    }

    /// The largest value of a field this long.
    fn top(&self) -> u128 {
        u128::MAX >> (128 - 8 * u32::from(self.len))
    }
}

/// Up to 16 bytes as a big-endian number.
#[inline]
fn be(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |n, &b| n << 8 | u128::from(b))
}

/// What to match, and with what precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The caller's entry slot; unique in a table; what lookups return.
    pub id: u32,
    /// The higher wins.
    pub priority: u32,
    /// Among equal priorities the lower wins: the order of insertion, kept by the caller so that
    /// replicas and rebuilt tables agree.
    pub seq: u64,
    /// What the masked key must equal. Bits that the mask leaves out are ignored.
    pub value: Box<[u8]>,
    /// Which bits matter.
    pub mask: Box<[u8]>,
    /// Comparisons that must hold besides.
    pub ranges: Box<[Range]>,
    /// The caller's payload, returned by lookups; [`Structure::set_action`] changes it.
    ///
    /// [`Structure::set_action`]: crate::Structure::set_action
    pub action: u32,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The id is the one that says that nothing matched.
    #[error("the rule's id is {}, which means a miss; choose another", crate::Hit::MISS_ENTRY)]
    ReservedId,
    /// Value or mask is not as long as the table's key.
    #[error("the rule's {what} is {len} bytes long; this table's keys have {key_len}")]
    Length {
        /// `value` or `mask`.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The table's.
        key_len: usize,
    },
    /// A range key of no bytes or of more than [`RANGE_LEN_MAX`].
    #[error("a range compares {0} bytes; 1 to {RANGE_LEN_MAX} can be compared")]
    RangeLen(usize),
    /// A range key that leaves the key.
    #[error("a range compares bytes {offset} to {end}; this table's keys have {key_len}")]
    RangeOutside {
        /// First byte.
        offset: usize,
        /// One past the last.
        end: usize,
        /// The table's key length.
        key_len: usize,
    },
    /// The low end lies above the high end.
    #[error("the range {lo} to {hi} is empty; its low end must not exceed its high end")]
    RangeEmpty {
        /// Low end.
        lo: u128,
        /// High end.
        hi: u128,
    },
    /// The high end does not fit the field.
    #[error("the range ends at {hi}, but {len} bytes hold at most {top}")]
    RangeTooHigh {
        /// High end.
        hi: u128,
        /// Bytes compared.
        len: usize,
        /// Their largest value.
        top: u128,
    },
}

impl Rule {
    /// A rule without ranges, of action 0.
    pub fn new(id: u32, priority: u32, seq: u64, value: &[u8], mask: &[u8]) -> Rule {
        let (value, mask, ranges) = (value.into(), mask.into(), Box::new([]));
        Rule { id, priority, seq, value, mask, ranges, action: 0 }
    }

    /// The same rule with another action.
    #[must_use]
    pub fn with_action(mut self, action: u32) -> Rule {
        self.action = action;
        self
    }

    /// What a lookup that it wins returns.
    pub fn hit(&self) -> crate::Hit {
        crate::Hit { entry: self.id, action: self.action }
    }

    /// Whether the rule is sound for a table.
    pub fn checked(&self, layout: &Layout) -> Result<(), RuleError> {
        if self.id == crate::Hit::MISS_ENTRY {
            return Err(RuleError::ReservedId);
        }
        let key_len = layout.key_len();
        for (what, len) in [("value", self.value.len()), ("mask", self.mask.len())] {
            if len != key_len {
                return Err(RuleError::Length { what, len, key_len });
            }
        }
        for range in &self.ranges {
            let len = range.len as usize;
            if len == 0 || len > RANGE_LEN_MAX {
                return Err(RuleError::RangeLen(len));
            }
            let offset = range.offset as usize;
            if offset + len > key_len {
                return Err(RuleError::RangeOutside { offset, end: offset + len, key_len });
            }
            if range.lo > range.hi {
                return Err(RuleError::RangeEmpty { lo: range.lo, hi: range.hi });
            }
            if range.hi > range.top() {
                return Err(RuleError::RangeTooHigh { hi: range.hi, len, top: range.top() });
            }
        }
        Ok(())
    }

    /// Whether the rule matches a key; the definition, one byte at a time.
    pub fn matches(&self, key: &[u8]) -> bool {
        key.len() == self.value.len()
            && (0..key.len()).all(|i| (key[i] ^ self.value[i]) & self.mask[i] == 0)
            && self.ranges.iter().all(|range| range.contains(key))
    }

    /// `Less` if this rule wins against the other: higher priority, then lower `seq`, then lower
    /// id.
    pub fn precedence(&self, other: &Rule) -> Ordering {
        (other.priority, self.seq, self.id).cmp(&(self.priority, other.seq, other.id))
    }

    /// An equivalent rule whose ignored value bits are zero, and whose ranges lend to the mask the
    /// leading bits that both their ends share. A range that this settles is dropped: one over the
    /// whole field demands nothing, and a power-of-two block is a prefix.
    ///
    /// A range at odds with the mask over its own bytes matches nothing; it stays as it is.
    #[must_use]
    pub fn normalised(&self) -> Rule {
        let mut rule = self.clone();
        for (v, m) in rule.value.iter_mut().zip(&rule.mask) {
            *v &= m;
        }
        let mut kept = Vec::new();
        for range in &self.ranges {
            let span = range.offset as usize..range.offset as usize + range.len as usize;
            let differing = range.lo ^ range.hi;
            let below = if differing == 0 { 0 } else { u128::MAX >> differing.leading_zeros() };
            let shared = range.top() & !below;
            let (value, mask) = (be(&rule.value[span.clone()]), be(&rule.mask[span.clone()]));
            if (value ^ range.lo) & mask & shared != 0 {
                kept.push(*range);
                continue;
            }
            let (value, mask) = (value | range.lo & shared, mask | shared);
            let from = RANGE_LEN_MAX - range.len as usize;
            rule.value[span.clone()].copy_from_slice(&value.to_be_bytes()[from..]);
            rule.mask[span].copy_from_slice(&mask.to_be_bytes()[from..]);
            if range.lo & below != 0 || range.hi & below != below {
                kept.push(*range);
            }
        }
        rule.ranges = kept.into();
        rule
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { id, action, priority, seq, .. } = self;
        write!(f, "id {id} action {action} priority {priority} seq {seq} ")?;
        self.value.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        write!(f, "/")?;
        self.mask.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        for r in &self.ranges {
            write!(f, " [{}+{}]={}..{}", r.offset, r.len, r.lo, r.hi)?;
        }
        Ok(())
    }
}

/// The distinct spans of ranges, as offset and length, ascending.
pub(crate) fn spans_of<'a>(ranges: impl IntoIterator<Item = &'a Range>) -> Vec<(usize, usize)> {
    let spans = ranges.into_iter().map(|r| (r.offset as usize, usize::from(r.len)));
    spans.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranged(lo: u128, hi: u128) -> Rule {
        let mut rule = Rule::new(1, 1, 1, &[0xaa, 0, 0], &[0xf0, 0, 0]);
        rule.ranges = Box::new([Range { offset: 1, len: 2, lo, hi }]);
        rule
    }

    #[test]
    fn a_range_lends_its_shared_bits_to_the_mask() {
        let r = ranged(0, 0xffff).normalised();
        assert_eq!((&*r.mask, r.ranges.len()), (&[0xf0, 0, 0][..], 0));
        let r = ranged(80, 80).normalised();
        assert_eq!((&*r.mask, &*r.value), (&[0xf0, 0xff, 0xff][..], &[0xa0, 0, 80][..]));
        assert!(r.ranges.is_empty());
        let r = ranged(0, 1023).normalised();
        assert_eq!((&*r.mask, r.ranges.len()), (&[0xf0, 0xfc, 0][..], 0));
        let r = ranged(1024, 65535).normalised();
        assert_eq!((&*r.mask, r.ranges.len()), (&[0xf0, 0, 0][..], 1));
        let r = ranged(0x1200, 0x1234).normalised();
        assert_eq!((&*r.mask, r.ranges.len()), (&[0xf0, 0xff, 0xc0][..], 1));
    }

    #[test]
    fn normalising_keeps_the_meaning_even_of_contradictions() {
        let mut rule = ranged(0x1200, 0x12ff);
        rule.value[1] = 0x80;
        rule.mask[1] = 0x80;
        let normal = rule.normalised();
        for hi in 0..=255u8 {
            for lo in [0, 1, 0x12, 255] {
                let key = [0xab, hi, lo];
                assert_eq!(rule.matches(&key), normal.matches(&key));
                assert_eq!(
                    ranged(0x11fe, 0x1301).matches(&key),
                    ranged(0x11fe, 0x1301).normalised().matches(&key)
                );
            }
        }
    }

    #[test]
    fn unsound_rules_are_refused_in_words() {
        let layout = Layout::new(&[1, 2]).unwrap();
        let text = |r: &Rule| r.checked(&layout).unwrap_err().to_string();
        assert_eq!(
            text(&Rule::new(1, 1, 1, &[0; 2], &[0; 3])),
            "the rule's value is 2 bytes long; this table's keys have 3"
        );
        assert_eq!(
            text(&ranged(3, 2)),
            "the range 3 to 2 is empty; its low end must not exceed its high end"
        );
        assert_eq!(
            text(&ranged(3, 65536)),
            "the range ends at 65536, but 2 bytes hold at most 65535"
        );
        let mut rule = ranged(0, 1);
        rule.ranges[0].offset = u32::MAX;
        assert!(matches!(rule.checked(&layout), Err(RuleError::RangeOutside { .. })));
        rule.ranges[0].len = 17;
        assert_eq!(rule.checked(&layout), Err(RuleError::RangeLen(17)));
        rule.ranges[0] = Range { offset: 0, len: 0, lo: 0, hi: 0 };
        assert_eq!(rule.checked(&layout), Err(RuleError::RangeLen(0)));
        assert!(Layout::new(&[usize::MAX, 2]).is_err());
        assert_eq!(
            text(&Rule::new(u32::MAX, 1, 1, &[0; 3], &[0; 3])),
            "the rule's id is 4294967295, which means a miss; choose another"
        );
    }
}
