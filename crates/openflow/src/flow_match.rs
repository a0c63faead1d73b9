//! The match: which packets a flow entry is for.
//!
//! A sparse set of fields, the same for every version. Held sorted by [`FieldId`], at most one entry
//! per field, each value within its mask and its width, no mask of zero; so equal matches are equal
//! values. A bit set of the fields that are there makes a look-up one population count.
//! Cost: 48 bytes, and 48 for each field in one allocation, which has room to grow until
//! [`Match::shrink_to_fit`].

use crate::error::ErrorCode;
use crate::field::{FieldId, FieldSet, Prerequisite, VLAN_PRESENT};
use thiserror::Error;

/// One field of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatchField {
    /// Which.
    pub id: FieldId,
    /// Its value; 0 outside the mask.
    pub value: u128,
    /// The bits that count; all bits of the field for an exact match.
    pub mask: u128,
}

impl MatchField {
    /// A field that must equal `value`.
    pub fn exact(id: FieldId, value: u128) -> Result<MatchField, MatchError> {
        MatchField::masked(id, value, id.all_bits())
    }

    /// A field that must equal `value` under `mask`. Mask bits beyond the field's width count for
    /// nothing.
    pub fn masked(id: FieldId, value: u128, mask: u128) -> Result<MatchField, MatchError> {
        let all = id.all_bits();
        if value & !all != 0 {
            return Err(MatchError::BadValue { field: id, value });
        }
        let mask = mask & all;
        if value & !mask != 0 {
            return Err(MatchError::ValueOutsideMask { field: id, value, mask });
        }
        let field = MatchField { id, value, mask };
        field.check()?;
        Ok(field)
    }

    /// Whether all bits count.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.mask == self.id.all_bits()
    }

    /// Whether a packet's value of this field matches.
    #[inline]
    pub fn matches(&self, value: u128) -> bool {
        value & self.mask == self.value
    }

    /// Whether every value that `other` matches, this matches too.
    fn covers(&self, other: &MatchField) -> bool {
        self.mask & !other.mask == 0 && other.value & self.mask == self.value
    }

    fn check(&self) -> Result<(), MatchError> {
        let &MatchField { id, value, mask } = self;
        if !self.is_exact() && mask != 0 && !id.info().maskable {
            return Err(MatchError::NotMaskable { field: id, mask });
        }
        // 1.3.5 table 13: a VLAN id without the presence bit is none that a packet can have.
        if id == FieldId::VlanVid
            && mask & VLAN_PRESENT != 0
            && value & VLAN_PRESENT == 0
            && value != 0
        {
            return Err(MatchError::BadValue { field: id, value });
        }
        Ok(())
    }
}

/// What is wrong with a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MatchError {
    /// The field is there twice.
    #[error("field {field} is there twice; once is right")]
    Duplicate {
        /// Which.
        field: FieldId,
    },
    /// What the field depends on is not there before it.
    #[error("field {field} needs {needs} before it")]
    Prerequisite {
        /// Which.
        field: FieldId,
        /// What.
        needs: Prerequisite,
    },
    /// No packet can have this value.
    #[error("field {field} cannot be {value:#x}: {}", value_rule(*field))]
    BadValue {
        /// Which.
        field: FieldId,
        /// The value.
        value: u128,
    },
    /// The field takes no mask.
    #[error("field {field} takes no mask, yet has {mask:#x}")]
    NotMaskable {
        /// Which.
        field: FieldId,
        /// The mask.
        mask: u128,
    },
    /// A bit of the value is set where the mask's is not.
    #[error("field {field}: value {value:#x} has bits outside mask {mask:#x}")]
    ValueOutsideMask {
        /// Which.
        field: FieldId,
        /// The value.
        value: u128,
        /// The mask.
        mask: u128,
    },
}

fn value_rule(field: FieldId) -> String {
    if field == FieldId::VlanVid {
        "0 for no tag, or a VLAN id with bit 0x1000".to_owned()
    } else {
        format!("it has {} bits", field.info().bits)
    }
}

impl MatchError {
    /// The error to answer with.
    pub fn code(&self) -> ErrorCode {
        match self {
            MatchError::Duplicate { .. } => ErrorCode::BmcDupField,
            MatchError::Prerequisite { .. } => ErrorCode::BmcBadPrereq,
            MatchError::BadValue { .. } => ErrorCode::BmcBadValue,
            MatchError::NotMaskable { .. } => ErrorCode::BmcBadMask,
            MatchError::ValueOutsideMask { .. } => ErrorCode::BmcBadWildcards,
        }
    }
}

/// A set of fields with values; empty, it matches every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    /// Fields that are there.
    present: FieldSet,
    fields: Vec<MatchField>,
}

impl Match {
    /// The match of every packet.
    pub fn new() -> Match {
        Match::default()
    }

    /// Gives back the room that building it left.
    pub fn shrink_to_fit(&mut self) {
        self.fields.shrink_to_fit();
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether it matches every packet.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Where `id` is, or would be.
    #[inline]
    fn place(&self, id: FieldId) -> usize {
        self.present.rank(id)
    }

    /// Whether the field is there.
    #[inline]
    pub fn has(&self, id: FieldId) -> bool {
        self.present.has(id)
    }

    /// The field, if there.
    #[inline]
    pub fn get(&self, id: FieldId) -> Option<&MatchField> {
        if self.has(id) { self.fields.get(self.place(id)) } else { None }
    }

    /// The field's value, if there and exact.
    #[inline]
    pub fn exact(&self, id: FieldId) -> Option<u128> {
        self.get(id).filter(|f| f.is_exact()).map(|f| f.value)
    }

    /// The fields, in the order of [`FieldId`].
    pub fn iter(&self) -> std::slice::Iter<'_, MatchField> {
        self.fields.iter()
    }

    /// Sets the field to an exact value, of which the bits within the field's width count.
    pub fn set(&mut self, id: FieldId, value: u128) {
        self.set_masked(id, value, u128::MAX);
    }

    /// Sets the field to a value under a mask, of which the bits within the field's width count; a
    /// mask of 0 takes the field out.
    pub fn set_masked(&mut self, id: FieldId, value: u128, mask: u128) {
        let mask = mask & id.all_bits();
        let field = MatchField { id, value: value & mask, mask };
        let place = self.place(id);
        match (self.has(id), mask) {
            (true, 0) => {
                self.fields.remove(place);
                self.present.remove(id);
            }
            (false, 0) => {}
            (true, _) => self.fields[place] = field,
            (false, _) => {
                self.fields.insert(place, field);
                self.present.insert(id);
            }
        }
    }

    /// Takes the field out.
    pub fn remove(&mut self, id: FieldId) {
        self.set_masked(id, 0, 0);
    }

    /// Adds a field that must not be there yet.
    pub fn insert(&mut self, field: MatchField) -> Result<(), MatchError> {
        if self.has(field.id) {
            return Err(MatchError::Duplicate { field: field.id });
        }
        self.set_masked(field.id, field.value, field.mask);
        Ok(())
    }

    /// [`Match::set`], for building a match in one expression.
    #[must_use]
    pub fn with(mut self, id: FieldId, value: u128) -> Match {
        self.set(id, value);
        self
    }

    /// [`Match::set_masked`], for building a match in one expression.
    #[must_use]
    pub fn with_masked(mut self, id: FieldId, value: u128, mask: u128) -> Match {
        self.set_masked(id, value, mask);
        self
    }

    /// Checks masks, values and prerequisites (1.3.5 §7.2.3.3 to §7.2.3.6).
    pub fn check(&self) -> Result<(), MatchError> {
        self.fields.iter().try_for_each(|field| {
            field.check()?;
            self.check_prerequisites(field.id)
        })
    }

    /// Checks that what `id` depends on is there.
    pub fn check_prerequisites(&self, id: FieldId) -> Result<(), MatchError> {
        match id.info().prerequisites.iter().find(|needs| !self.fulfils(needs)) {
            Some(&needs) => Err(MatchError::Prerequisite { field: id, needs }),
            None => Ok(()),
        }
    }

    /// Whether the match says what is needed.
    pub fn fulfils(&self, needs: &Prerequisite) -> bool {
        match *needs {
            Prerequisite::Present(id) => self.has(id),
            Prerequisite::OneOf(id, values) => {
                self.exact(id).is_some_and(|value| values.contains(&value))
            }
            // A mask without the presence bit still asks for an id, which only a tag has.
            Prerequisite::Connection => self.get(FieldId::CtState).is_some_and(|f| {
                const OF_ONE: u128 = 0xcf;
                const TRACKED_VALID: (u128, u128) = (0x20, 0x30);
                f.value & OF_ONE != 0
                    || (f.value & TRACKED_VALID.1, f.mask & TRACKED_VALID.1)
                        == (TRACKED_VALID.0, TRACKED_VALID.1)
            }),
            Prerequisite::VlanTag => self.get(FieldId::VlanVid).is_some_and(|f| f.value != 0),
        }
    }

    /// Whether every packet that `other` matches, this matches too (a non-strict delete's rule).
    pub fn covers(&self, other: &Match) -> bool {
        self.present.is_within(&other.present)
            && self.fields.iter().all(|f| other.get(f.id).is_some_and(|o| f.covers(o)))
    }

    /// The match of the packets that go the other way: sources and destinations change places. None if it
    /// says nothing of either.
    pub fn transposed(&self) -> Option<Match> {
        let mut other = Match::new();
        for field in self {
            other.set_masked(field.id.twin().unwrap_or(field.id), field.value, field.mask);
        }
        self.iter().any(|field| field.id.twin().is_some()).then_some(other)
    }

    /// The match of the packets that match both, if there are any.
    pub fn intersection(&self, other: &Match) -> Option<Match> {
        let mut both = self.clone();
        for b in other {
            let (value, mask) = self.get(b.id).map_or((0, 0), |a| (a.value, a.mask));
            if (value ^ b.value) & mask & b.mask != 0 {
                return None;
            }
            both.set_masked(b.id, value | b.value, mask | b.mask);
        }
        Some(both)
    }

    /// Whether some packet could match both (a flow-mod's overlap check).
    pub fn overlaps(&self, other: &Match) -> bool {
        self.fields
            .iter()
            .filter_map(|f| Some((f, other.get(f.id)?)))
            .all(|(a, b)| (a.value ^ b.value) & a.mask & b.mask == 0)
    }
}

impl<'a> IntoIterator for &'a Match {
    type Item = &'a MatchField;
    type IntoIter = std::slice::Iter<'a, MatchField>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_sorted_unique_and_within_masks() {
        let mut m = Match::new();
        m.set(FieldId::TcpDst, 80);
        m.set_masked(FieldId::Ipv4Src, 0x0a01_02ff, 0xffff_ff00);
        m.set(FieldId::EthType, 0x1_0800);
        m.set(FieldId::IpProto, 6);
        m.set(FieldId::InPort, 1);
        let ids: Vec<_> = m.iter().map(|f| f.id).collect();
        assert!(ids.is_sorted());
        assert_eq!(m.get(FieldId::Ipv4Src).unwrap().value, 0x0a01_0200);
        assert_eq!(m.exact(FieldId::EthType), Some(0x0800));
        assert_eq!(m.exact(FieldId::Ipv4Src), None);
        assert_eq!(m.check(), Ok(()));
        m.set(FieldId::InPort, 2);
        assert_eq!(m.len(), 5);
        m.set_masked(FieldId::InPort, 2, 0);
        assert_eq!((m.len(), m.has(FieldId::InPort)), (4, false));
        m.remove(FieldId::Ipv6Exthdr);
        assert_eq!(m.exact(FieldId::TcpDst), Some(80));
    }

    #[test]
    fn errors_have_the_codes_of_the_specification() {
        let code = |e: MatchError| e.code();
        let m = Match::new().with(FieldId::TcpDst, 80).with(FieldId::EthType, 0x0800);
        assert_eq!(m.check().map_err(code), Err(ErrorCode::BmcBadPrereq));
        let m = Match::new().with(FieldId::InPhyPort, 1);
        assert_eq!(m.check().map_err(code), Err(ErrorCode::BmcBadPrereq));
        let e = MatchField::exact(FieldId::IpDscp, 64).map_err(code);
        assert_eq!(e, Err(ErrorCode::BmcBadValue));
        let e = MatchField::masked(FieldId::IpProto, 4, 4).map_err(code);
        assert_eq!(e, Err(ErrorCode::BmcBadMask));
        let e = MatchField::masked(FieldId::EthDst, 3, 1).map_err(code);
        assert_eq!(e, Err(ErrorCode::BmcBadWildcards));
        let mut m = Match::new();
        let field = MatchField::exact(FieldId::InPort, 1).unwrap();
        m.insert(field).unwrap();
        assert_eq!(m.insert(field).map_err(code), Err(ErrorCode::BmcDupField));
    }

    #[test]
    fn vlan_forms() {
        let vid = |v, m| MatchField::masked(FieldId::VlanVid, v, m);
        assert!(vid(0, 0x1fff).is_ok(), "no tag");
        assert!(vid(0x1064, 0x1fff).is_ok(), "this id");
        assert!(vid(0x1000, 0x1000).is_ok(), "any tag");
        assert!(vid(96, 240).is_ok(), "some bits of the id");
        assert_eq!(vid(100, 0x1fff).unwrap_err().code(), ErrorCode::BmcBadValue);
        let pcp = |m: Match| m.with(FieldId::VlanPcp, 3).check();
        assert!(pcp(Match::new().with(FieldId::VlanVid, 0x1000)).is_ok());
        assert!(pcp(Match::new().with_masked(FieldId::VlanVid, 0x1000, 0x1000)).is_ok());
        assert!(pcp(Match::new().with(FieldId::VlanVid, 0)).is_err());
        assert!(pcp(Match::new()).is_err());
    }

    #[test]
    fn transposing_changes_ends_and_nothing_else() {
        let fields = [
            (FieldId::InPort, 1, u128::MAX),
            (FieldId::EthType, 0x0800, u128::MAX),
            (FieldId::EthSrc, 1, 0xff),
            (FieldId::Ipv4Src, 0x0a00_0000, 0xff00_0000),
            (FieldId::Ipv4Dst, 0x0b00_0001, u128::MAX),
            (FieldId::IpProto, 6, u128::MAX),
            (FieldId::TcpDst, 80, u128::MAX),
        ];
        let of = |fields: &[(FieldId, u128, u128)]| {
            let mut m = Match::new();
            fields.iter().for_each(|(id, value, mask)| m.set_masked(*id, *value, *mask));
            m
        };
        let there = of(&fields);
        let mut back = fields;
        back[2].0 = FieldId::EthDst;
        (back[3].0, back[4].0) = (FieldId::Ipv4Dst, FieldId::Ipv4Src);
        back[6].0 = FieldId::TcpSrc;
        assert_eq!(there.transposed(), Some(of(&back)));
        assert_eq!(of(&back).transposed(), Some(there));
        assert_eq!(of(&fields[..2]).transposed(), None, "no end is named");
        for id in FieldId::ALL {
            if let Some(twin) = id.twin() {
                assert_eq!(twin.twin(), Some(*id));
                assert_eq!(twin.info().bits, id.info().bits);
                assert_eq!(twin.info().maskable, id.info().maskable);
                assert_eq!(twin.info().prerequisites, id.info().prerequisites);
            }
        }
    }

    #[test]
    fn covering_and_overlap() {
        let any = Match::new();
        let net = Match::new().with(FieldId::EthType, 0x0800).with_masked(
            FieldId::Ipv4Dst,
            0x0a00_0000,
            0xff00_0000,
        );
        let host = net.clone().with(FieldId::Ipv4Dst, 0x0a01_0203);
        let port = Match::new().with(FieldId::InPort, 1);
        assert!(any.covers(&net) && net.covers(&host) && net.covers(&net));
        assert!(!host.covers(&net) && !net.covers(&any) && !net.covers(&port));
        assert!(net.overlaps(&host) && net.overlaps(&port) && any.overlaps(&host));
        assert!(!host.overlaps(&net.clone().with(FieldId::Ipv4Dst, 1)));
    }
}
