//! Values of digests, gathered into lists (P4Runtime §9.11): not twice until a list is acknowledged, or time has passed.
//!
//! Bounded: a list has [`LIST_MAX`] values at most, and [`TOLD_MAX`] values are remembered; beyond that a value may be told
//! twice.

use crate::entity::DigestConfig;
use crate::proto::v1;
use crate::schema::{Digest, Shape};
use ir::Bits;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Values in a list, at most.
pub const LIST_MAX: usize = 1024;
/// Values that were told and not acknowledged, at most.
const TOLD_MAX: usize = 65_536;

/// A value, for comparison.
type Key = (u32, Vec<Bits>);

#[derive(Debug, Default)]
struct Pending {
    values: Vec<Vec<Bits>>,
    since_ns: u64,
}

/// Lists on their way.
#[derive(Debug, Default)]
pub struct Lists {
    pending: BTreeMap<u32, Pending>,
    /// Values that were told or wait, and their list.
    told: HashMap<Key, u64>,
    /// Lists that were told, in order: number, when, values.
    lists: VecDeque<(u64, u64, Vec<Key>)>,
    next: u64,
}

/// A value as P4 data.
fn data(shape: &Shape, values: &mut impl Iterator<Item = Bits>) -> v1::P4Data {
    use v1::p4_data::Data;
    let data = match shape {
        Shape::Bits(sdn) => Data::Bitstring(values.next().map_or(vec![0], |v| sdn.write(&v))),
        Shape::Bool => Data::Bool(values.next().is_some_and(|v| !v.is_zero())),
        Shape::Struct(all) | Shape::Tuple(all) => {
            let members = all.iter().map(|s| data(s, values)).collect();
            let like = v1::P4StructLike { members };
            match shape {
                Shape::Struct(_) => Data::Struct(like),
                _ => Data::Tuple(like),
            }
        }
    };
    v1::P4Data { data: Some(data) }
}

impl Lists {
    /// A packet has sent a value. A list, if it is full by that.
    pub fn add(
        &mut self,
        digest: &Digest,
        config: &DigestConfig,
        values: Vec<Bits>,
        now_ns: u64,
    ) -> Option<v1::DigestList> {
        let key = (digest.id, values);
        if config.ack_timeout_ns > 0 && self.told.contains_key(&key) {
            return None;
        }
        let pending = self.pending.entry(digest.id).or_default();
        if pending.values.is_empty() {
            pending.since_ns = now_ns;
        }
        pending.values.push(key.1.clone());
        let full = match config.max_list_size {
            0 => LIST_MAX,
            n => (n as usize).min(LIST_MAX),
        };
        let full = pending.values.len() >= full || config.max_timeout_ns == 0;
        if config.ack_timeout_ns > 0 && self.told.len() < TOLD_MAX {
            self.told.insert(key, self.next + 1);
        }
        if full { self.list(digest, config, now_ns) } else { None }
    }

    fn list(
        &mut self,
        digest: &Digest,
        config: &DigestConfig,
        now_ns: u64,
    ) -> Option<v1::DigestList> {
        let pending = self.pending.remove(&digest.id).filter(|p| !p.values.is_empty())?;
        self.next += 1;
        if config.ack_timeout_ns > 0 {
            let keys: Vec<Key> = pending.values.iter().map(|v| (digest.id, v.clone())).collect();
            for key in &keys {
                if let Some(list) = self.told.get_mut(key) {
                    *list = self.next;
                }
            }
            self.lists.push_back((self.next, now_ns + config.ack_timeout_ns, keys));
        }
        let values = pending.values.into_iter();
        let data = values.map(|values| data(&digest.shape, &mut values.into_iter())).collect();
        let timestamp = i64::try_from(now_ns).unwrap_or(i64::MAX);
        Some(v1::DigestList { digest_id: digest.id, list_id: self.next, data, timestamp })
    }

    /// Lists that have waited as long as they may. Values whose list was not acknowledged in time may be told again.
    pub fn due<'d>(
        &mut self,
        digests: impl Fn(u32) -> Option<(&'d Digest, DigestConfig)>,
        now_ns: u64,
    ) -> Vec<v1::DigestList> {
        let mut late = Vec::new();
        self.lists.retain(|(list, until, _)| {
            let stays = *until > now_ns;
            if !stays {
                late.push(*list);
            }
            stays
        });
        if !late.is_empty() {
            self.told.retain(|_, list| !late.contains(list));
        }
        let mut out = Vec::new();
        let ids: Vec<u32> = self.pending.keys().copied().collect();
        for id in ids {
            let Some((digest, config)) = digests(id) else {
                self.pending.remove(&id);
                continue;
            };
            let since = self.pending.get(&id).map_or(now_ns, |p| p.since_ns);
            if now_ns >= since.saturating_add(config.max_timeout_ns) {
                out.extend(self.list(digest, &config, now_ns));
            }
        }
        out
    }

    /// A list has arrived: its values may be told again.
    pub fn acknowledge(&mut self, digest: u32, list: u64) {
        let at = self.lists.iter().position(|(n, _, keys)| {
            *n == list && keys.first().is_none_or(|(id, _)| *id == digest)
        });
        let Some((_, _, keys)) = at.and_then(|at| self.lists.remove(at)) else { return };
        for key in keys {
            if self.told.get(&key) == Some(&list) {
                self.told.remove(&key);
            }
        }
    }

    /// Another program: nothing waits.
    pub fn clear(&mut self) {
        *self = Lists { next: self.next, ..Lists::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> Digest {
        let shape = Shape::Struct(vec![Shape::Bits(Default::default()), Shape::Bool]);
        Digest { id: 5, name: "learn_t".to_owned(), digest: ir::DigestId(0), shape }
    }

    fn value(n: u128) -> Vec<Bits> {
        vec![Bits::from_u128(n, 48), Bits::from_u128(1, 1)]
    }

    fn config(list: u32, wait: u64, ack: u64) -> DigestConfig {
        DigestConfig { max_timeout_ns: wait, max_list_size: list, ack_timeout_ns: ack }
    }

    #[test]
    fn lists_are_full_or_due() {
        let (mut lists, d) = (Lists::default(), digest());
        let c = config(3, 1000, 0);
        assert_eq!(lists.add(&d, &c, value(1), 0), None);
        assert_eq!(lists.add(&d, &c, value(1), 1), None);
        let list = lists.add(&d, &c, value(2), 2).unwrap();
        assert_eq!((list.digest_id, list.list_id, list.data.len()), (5, 1, 3));
        lists.add(&d, &c, value(3), 10);
        assert_eq!(lists.due(|_| Some((&d, c)), 1009), []);
        let list = &lists.due(|_| Some((&d, c)), 1010)[0];
        assert_eq!((list.list_id, list.data.len()), (2, 1));
        // With no time to wait each value is a list.
        assert!(lists.add(&d, &config(0, 0, 0), value(4), 0).is_some());
    }

    #[test]
    fn values_wait_for_their_acknowledgement() {
        let (mut lists, d) = (Lists::default(), digest());
        let c = config(1, 1000, 500);
        let list = lists.add(&d, &c, value(1), 0).unwrap();
        assert_eq!(lists.add(&d, &c, value(1), 1), None);
        lists.acknowledge(6, list.list_id);
        assert_eq!(lists.add(&d, &c, value(1), 2), None, "another digest's");
        lists.acknowledge(5, list.list_id);
        assert!(lists.add(&d, &c, value(1), 3).is_some());
        // Not acknowledged in time.
        assert_eq!(lists.add(&d, &c, value(1), 4), None);
        lists.due(|_| Some((&d, c)), 503);
        assert!(lists.add(&d, &c, value(1), 504).is_some());
    }

    #[test]
    fn values_have_their_types() {
        use v1::p4_data::Data;
        let told = data(&digest().shape, &mut value(0x0102).into_iter());
        let Some(Data::Struct(s)) = told.data else { panic!("a struct was expected") };
        assert_eq!(s.members[0].data, Some(Data::Bitstring(vec![1, 2])));
        assert_eq!(s.members[1].data, Some(Data::Bool(true)));
    }
}
