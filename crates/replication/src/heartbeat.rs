//! Heartbeats: that a member lives, and what it is in each share.
//!
//! A datagram of UDP, least significant octets first: `mrhb`; the version, 2; what is true of the member (1: it stops); how many
//! shares follow (1); 0; a number that is another one each time the member starts (8); its group's name and its own (1 + n each). Then for
//! each share: its name (1 + n, empty where the group has none); what is true of it (1: 1 active, 2 synchronised, 4 it knows all); the member's
//! priority there (1); the epoch, the number of the last message sent or applied, the digest of the configuration, the
//! heartbeat's number (8 each). At the end CRC-32C of all before (4).
//!
//! A member with many shares sends several datagrams, each of which says all of some of them.
//!
//! Nothing in it is secret and nothing proves who sent it: members talk in a network of their own, or one that they trust
//! (`docs/replication.md`, "Limits of trust").

use crate::bytes::{checked, put_short, seal, take, take_label, take_name, take_u64};

const MAGIC: [u8; 4] = *b"mrhb";
const VERSION: u8 = 2;
/// Octets of a datagram, at most: no path cuts it.
pub const DATAGRAM_MAX: usize = 1200;

/// What a member says of itself, in one share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its group.
    pub group: String,
    /// Its name.
    pub from: String,
    /// The share; empty where the group has none.
    pub share: String,
    /// The highest epoch that it knows; of an active one, its own.
    pub epoch: u64,
    /// Whether it forwards.
    pub active: bool,
    /// Of a standby, whether it has all connections.
    pub synced: bool,
    /// It ends, of its own will.
    pub ends: bool,
    /// It has all connections that there are: others learn from it what they have given out before they started.
    pub knows: bool,
    /// Who of several standbys comes first: the highest.
    pub priority: u8,
    /// The number of the last message that it has sent, or applied.
    pub seq: u64,
    /// The digest of its configuration.
    pub digest: u64,
    /// Another one each time it starts.
    pub incarnation: u64,
    /// How many it has sent before: paths differ, and one may bring what another has brought long ago.
    pub number: u64,
}

impl Heartbeat {
    /// Octets before the first share.
    fn begin(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(DATAGRAM_MAX);
        out.extend(MAGIC);
        out.extend([VERSION, u8::from(self.ends), 0, 0]);
        out.extend(self.incarnation.to_le_bytes());
        put_short(&mut out, self.group.as_bytes());
        put_short(&mut out, self.from.as_bytes());
        out
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_short(out, self.share.as_bytes());
        let flags = [self.active, self.synced, self.knows];
        let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag));
        out.extend([flags, self.priority]);
        for word in [self.epoch, self.seq, self.digest, self.number] {
            out.extend(word.to_le_bytes());
        }
    }

    /// Octets that it takes behind the datagram's begin.
    fn len(&self) -> usize {
        1 + self.share.len() + 2 + 4 * 8
    }

    /// What one member says of its shares, as few datagrams as it takes.
    pub fn pack(beats: &[Heartbeat]) -> Vec<Vec<u8>> {
        const SUM: usize = 4;
        const COUNT_AT: usize = 6;
        let mut datagrams: Vec<Vec<u8>> = Vec::new();
        let mut ends = false;
        for beat in beats {
            let fits = |out: &Vec<u8>| {
                out.len() + beat.len() + SUM <= DATAGRAM_MAX && out[COUNT_AT] < u8::MAX
            };
            if ends != beat.ends || !datagrams.last().is_some_and(fits) {
                datagrams.push(beat.begin());
                ends = beat.ends;
            }
            if let Some(out) = datagrams.last_mut() {
                beat.put(out);
                out[COUNT_AT] += 1;
            }
        }
        datagrams.iter_mut().for_each(seal);
        datagrams
    }

    /// What a datagram says; nothing if it is none.
    pub fn unpack(bytes: &[u8]) -> Option<Vec<Heartbeat>> {
        let rest = &mut checked(bytes)?;
        let [magic @ .., version, flags, count, _] = take::<8>(rest)?;
        if magic != MAGIC || version != VERSION || flags > 1 || bytes.len() > DATAGRAM_MAX {
            return None;
        }
        let incarnation = take_u64(rest)?;
        let (group, from) = (take_name(rest)?, take_name(rest)?);
        let mut beats = Vec::with_capacity(count.into());
        for _ in 0..count {
            let share = take_label(rest)?;
            let [its, priority] = take(rest)?;
            if its > 7 {
                return None;
            }
            let mut word = || take_u64(rest);
            let (epoch, seq, digest, number) = (word()?, word()?, word()?, word()?);
            let has = |bit: u8| its & bit != 0;
            let (active, synced, knows) = (has(1), has(2), has(4));
            let (group, from, ends) = (group.clone(), from.clone(), flags == 1);
            beats.push(Heartbeat {
                group,
                from,
                share,
                epoch,
                active,
                synced,
                ends,
                knows,
                priority,
                seq,
                digest,
                incarnation,
                number,
            });
        }
        rest.is_empty().then_some(beats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(flags: u8, share: &str) -> Heartbeat {
        Heartbeat {
            group: "g".repeat(64),
            from: "a".to_owned(),
            share: share.to_owned(),
            epoch: 1 << 60,
            active: flags & 1 != 0,
            synced: flags & 2 != 0,
            ends: flags & 4 != 0,
            knows: flags & 8 != 0,
            priority: 255,
            seq: 5,
            digest: 6,
            incarnation: 7,
            number: 8,
        }
    }

    #[test]
    fn comes_back_and_damage_is_found() {
        for (flags, share) in (0..16).zip(["", "s1"].into_iter().cycle()) {
            let beats = [beat(flags, share), beat(flags & 4, "x")];
            let [bytes] = &Heartbeat::pack(&beats)[..] else { panic!("it takes one datagram") };
            assert_eq!(Heartbeat::unpack(bytes).unwrap(), beats);
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 16;
                assert_eq!(Heartbeat::unpack(&damaged), None, "{at}");
                assert_eq!(Heartbeat::unpack(&bytes[..at]), None, "{at}");
            }
        }
    }

    #[test]
    fn many_shares_take_several_datagrams() {
        let beats: Vec<Heartbeat> = (0..=255).map(|n| beat(n % 4, &format!("{n:0>64}"))).collect();
        let datagrams = Heartbeat::pack(&beats);
        assert!(datagrams.iter().all(|bytes| bytes.len() <= DATAGRAM_MAX));
        let back: Vec<Heartbeat> =
            datagrams.iter().flat_map(|bytes| Heartbeat::unpack(bytes).unwrap()).collect();
        assert_eq!(back, beats);
        assert!(datagrams.len() <= 30, "{}", datagrams.len());
    }
}
