//! Heartbeats: that a member lives, and what it is.
//!
//! A datagram of UDP, least significant octets first: `mrhb`; the version, 1; what is true of it (1: 1 active, 2 synchronised, 4 it
//! stops, 8 it knows all); its priority (1); 0; its epoch, the number of the last message that it has sent or applied, the digest of its
//! configuration, another number each time it starts, this heartbeat's number since then (8 each); its group's name and its own (1 + n each); CRC-32C of all
//! before (4).
//!
//! Nothing in it is secret and nothing proves who sent it: members talk in a network of their own, or one that they trust
//! (`docs/replication.md`, "Limits of trust").

use crate::bytes::{checked, put_short, seal, take, take_name, take_u64};

const MAGIC: [u8; 4] = *b"mrhb";
const VERSION: u8 = 1;
/// Octets of a heartbeat, at most.
pub const HEARTBEAT_MAX: usize = 256;

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its group.
    pub group: String,
    /// Its name.
    pub from: String,
    /// The highest epoch that it knows; of an active one, its own.
    pub epoch: u64,
    /// Whether it forwards.
    pub active: bool,
    /// Of a standby, whether it has all connections.
    pub synced: bool,
    /// It ends, of its own will.
    pub ends: bool,
    /// It has had all connections that there are since it started, from one who had them.
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
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend(MAGIC);
        let flags = [self.active, self.synced, self.ends, self.knows];
        let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag));
        out.extend([VERSION, flags, self.priority, 0]);
        for word in [self.epoch, self.seq, self.digest, self.incarnation, self.number] {
            out.extend(word.to_le_bytes());
        }
        put_short(&mut out, self.group.as_bytes());
        put_short(&mut out, self.from.as_bytes());
        seal(&mut out);
        out
    }

    /// A heartbeat of these octets; none if they are none.
    pub fn decode(bytes: &[u8]) -> Option<Heartbeat> {
        let rest = &mut checked(bytes)?;
        let [magic @ .., version, flags, priority, _] = take::<8>(rest)?;
        if magic != MAGIC || version != VERSION || flags > 15 {
            return None;
        }
        let mut word = || take_u64(rest);
        let (epoch, seq, digest) = (word()?, word()?, word()?);
        let (incarnation, number) = (word()?, word()?);
        let (group, from) = (take_name(rest)?, take_name(rest)?);
        let has = |bit: u8| flags & bit != 0;
        let (active, synced, ends, knows) = (has(1), has(2), has(4), has(8));
        rest.is_empty().then_some(Heartbeat {
            group,
            from,
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_and_damage_is_found() {
        for flags in 0..16 {
            let beat = Heartbeat {
                group: "g".repeat(64),
                from: "a".to_owned(),
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
            };
            let bytes = beat.encode();
            assert!(bytes.len() <= HEARTBEAT_MAX);
            assert_eq!(Heartbeat::decode(&bytes), Some(beat));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 16;
                assert_eq!(Heartbeat::decode(&damaged), None, "{at}");
                assert_eq!(Heartbeat::decode(&bytes[..at]), None, "{at}");
            }
        }
    }
}
