//! The pool: stripes of outside ports that are nobody's until a member claims them in the store.
//!
//! Half of all stripes are divided among the members for good; the others are a pool, of which a member that runs short of ports claims some, by
//! compare and set. A claim has no end: it outlives its member's process, and the engine's. So what a dead member has not claimed is there for
//! those who live, and nothing rests on clocks: a member that was stopped for an hour finds its claims as they were.
//!
//! One key of each share holds all claims: `MEMBER BITS` with a comma between two, bits in hexadecimal.
//!
//! Invariants: no stripe is claimed by two; only what the store has confirmed is given out; who claims knows all connections of the share,
//! and an earlier self's claims are used by one who knows them again.
//!
//! Checked by: the simulation, with members that use what they have only asked for.

use crate::bytes::is_name;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Who has claimed what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims(BTreeMap<String, u64>);

impl Claims {
    /// As they are stored.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        for (member, bits) in &self.0 {
            let comma = if out.is_empty() { "" } else { "," };
            let _ = write!(out, "{comma}{member} {bits:x}");
        }
        out
    }

    /// Of what is stored; none if that is nothing that a member has written, or a stripe is there twice.
    pub fn decode(value: &[u8]) -> Option<Claims> {
        let text = std::str::from_utf8(value).ok()?;
        let (mut claims, mut all) = (BTreeMap::new(), 0);
        for claim in text.split(',').filter(|_| !text.is_empty()) {
            let (member, bits) = claim.split_once(' ')?;
            let bits = u64::from_str_radix(bits, 16).ok()?;
            if !is_name(member)
                || all & bits != 0
                || claims.insert(member.to_owned(), bits).is_some()
            {
                return None;
            }
            all |= bits;
        }
        Some(Claims(claims))
    }

    /// What a member has.
    pub fn of(&self, member: &str) -> u64 {
        self.0.get(member).copied().unwrap_or(0)
    }

    /// What anybody has.
    pub fn all(&self) -> u64 {
        self.0.values().fold(0, |all, bits| all | bits)
    }
}

/// The pool of a share, as a member knows it.
#[derive(Debug)]
pub struct Pool {
    name: String,
    /// Stripes that are in it.
    bits: u64,
    /// What the store holds, with its revision.
    known: Option<(u64, Claims)>,
    /// A write is under way.
    writes: bool,
}

impl Pool {
    /// Of this member, with these stripes: nothing is known of it yet.
    pub fn new(name: &str, bits: u64) -> Pool {
        Pool { name: name.to_owned(), bits, known: None, writes: false }
    }

    /// What the store holds; nothing, if nobody has written.
    pub fn stored(&mut self, revision: u64, claims: Option<Claims>) {
        if self.known.as_ref().is_none_or(|(known, _)| *known <= revision) {
            self.known = Some((revision, claims.unwrap_or_default()));
            self.writes = false;
        }
    }

    /// A write was refused or has failed: the store is read again, and [`stored`](Self::stored) told. Whether there was one.
    pub fn not_written(&mut self) -> bool {
        std::mem::take(&mut self.writes)
    }

    /// Stripes that this member may give ports of. It gives none while it does not know all connections.
    pub fn mine(&self, knows: bool) -> u64 {
        let claimed = self.known.as_ref().map_or(0, |(_, claims)| claims.of(&self.name));
        if knows { claimed & self.bits } else { 0 }
    }

    /// Stripes that nobody has, as far as is known.
    pub fn free(&self) -> u64 {
        self.known.as_ref().map_or(0, |(_, claims)| self.bits & !claims.all())
    }

    /// What is to be written, over which revision, so that a member that is gone has nothing any more; nothing if it has nothing.
    ///
    /// Its process has ended: one that still gives out ports would go on until it hears of this.
    pub fn forget(&mut self, member: &str) -> Option<(u64, Claims)> {
        let (revision, claims) = self.known.as_ref().filter(|_| !self.writes)?;
        let mut claims = claims.clone();
        claims.0.remove(member)?;
        self.writes = true;
        Some((*revision, claims))
    }

    /// What is to be written, over which revision, so that this member has so many stripes more; nothing if there are none, or the
    /// store has not answered yet. The member knows all connections.
    pub fn claim(&mut self, count: u32) -> Option<(u64, Claims)> {
        let (mut free, mut more) = (self.free(), 0);
        for _ in 0..count {
            more |= free & free.wrapping_neg();
            free &= free.wrapping_sub(1);
        }
        let (revision, claims) = self.known.as_ref().filter(|_| more != 0 && !self.writes)?;
        let mut claims = claims.clone();
        *claims.0.entry(self.name.clone()).or_default() |= more;
        self.writes = true;
        Some((*revision, claims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_come_back_and_none_is_two_members() {
        for text in ["", "a 1", "a ff00,gw-2 f"] {
            let claims = Claims::decode(text.as_bytes()).unwrap();
            assert_eq!(claims.encode(), text);
        }
        for wrong in ["a", "a x", "a 1,", "a 1,a 2", "a 3,b 2", "a.b 1", "a 1ffffffffffffffff"] {
            assert_eq!(Claims::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn what_the_store_has_confirmed_is_used_by_who_knows_all() {
        let mut a = Pool::new("a", 0xff00);
        assert_eq!(a.claim(1), None, "the store has said nothing");
        a.stored(0, None);
        let (revision, claims) = a.claim(2).unwrap();
        assert_eq!((revision, claims.encode().as_str()), (0, "a 300"));
        assert_eq!((a.mine(true), a.claim(1)), (0, None), "it is not confirmed");
        // Somebody else was faster.
        assert!(a.not_written());
        assert!(!a.not_written(), "no write is under way");
        a.stored(1, Claims::decode(b"b 100"));
        let (revision, claims) = a.claim(2).unwrap();
        assert_eq!((revision, claims.encode().as_str()), (1, "a 600,b 100"));
        a.stored(2, Some(claims));
        a.stored(1, None);
        assert_eq!((a.mine(true), a.mine(false), a.free()), (0x600, 0, 0xf800));
        let (_, claims) = a.claim(9).unwrap();
        assert_eq!(claims.all(), 0xff00);
        a.stored(3, Some(claims));
        assert_eq!(a.claim(1), None, "nothing is left");
        // One that is gone leaves what it had.
        assert_eq!(a.forget("c"), None);
        let (revision, claims) = a.forget("b").unwrap();
        assert_eq!((revision, claims.encode().as_str()), (3, "a fe00"));
        assert_eq!(a.forget("a"), None, "one write after the other");
        a.stored(4, Some(claims));
        assert_eq!(a.free(), 0x100);
    }
}
