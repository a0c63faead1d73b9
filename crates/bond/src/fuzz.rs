//! The body of the fuzz target `lacp`, which a unit test runs too. Hidden: only tests and the fuzz target call it.

use crate::bond::{Bond, MemberConfig, Sends};
use crate::lacp::pdu::{Slow, read};
use crate::lacp::{Info, LinkConfig, Pdu};
use crate::settings::{Lacp, Mode, Settings};
use std::collections::BTreeMap;

const MEMBERS: [&str; 3] = ["a", "b", "c"];
/// Steps of one input, at most.
const STEPS_MAX: usize = 400;

/// Bytes that choose.
struct Chooser<'a>(&'a [u8]);

impl<'a> Chooser<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Few systems and keys, so that links are often of one partner.
    fn info(&mut self) -> Info {
        let mut next = || u16::from(self.byte().unwrap_or(0));
        let mut system = [2, 0, 0, 0, 0, 0];
        system[5] = (next() % 3) as u8;
        let (system_priority, key, port_priority) = (next() % 2, next() % 2, next() % 2);
        Info { system_priority, system, key, port_priority, port: next() % 4, state: next() as u8 }
    }
}

/// What comes from the other side of a bond's links: any bytes are read or counted as bad; the actor never talks without
/// end, its frames say what is read of them, and packets leave by members alone.
pub fn lacp(data: &[u8]) {
    let mut chooser = Chooser(data);
    let first = chooser.byte().unwrap_or(0);
    let settings = Settings {
        mode: [Mode::ActiveBackup, Mode::BalanceSlb, Mode::BalanceTcp][usize::from(first % 3)],
        lacp: if first & 4 == 0 { Lacp::Active } else { Lacp::Passive },
        fallback_ab: first & 8 != 0,
        fast: first & 16 != 0,
        ..Settings::default()
    };
    let mut now_ms = 0;
    let mut bond = Bond::new("bond", settings, [2, 0, 0, 0, 0, 0], now_ms);
    let member = |at: usize| {
        let port = at as u32 + 1;
        let link = LinkConfig { port: port as u16, priority: 0, key: 0 };
        (MEMBERS[at].to_owned(), MemberConfig { port, mac: [2, 0, 0, 0, 1, at as u8], link })
    };
    let all = |count: usize| (0..count).map(member).collect::<BTreeMap<_, _>>();
    bond.set_members(all(3), now_ms);
    let (mut received, mut members) = (0, 3);
    for _ in 0..STEPS_MAX {
        let Some(step) = chooser.byte() else { break };
        let at = usize::from(step >> 4) % members;
        let port = at as u32 + 1;
        match step % 6 {
            0 => now_ms += u64::from(chooser.byte().unwrap_or(0)) * 100,
            1 => bond.set_carrier(MEMBERS[at], step & 8 != 0, now_ms),
            2 => {
                let length = usize::from(chooser.byte().unwrap_or(0));
                let bytes = chooser.take(length);
                if let Slow::Lacp(pdu) = read(bytes) {
                    assert_eq!(read(&pdu.frame([2, 0, 0, 0, 2, 0])), Slow::Lacp(pdu));
                }
                bond.receive(port, bytes, now_ms);
                received += 1;
            }
            3 | 4 => {
                let pdu = Pdu { actor: chooser.info(), partner: chooser.info() };
                let mut frame = pdu.frame([2, 0, 0, 0, 2, 0]);
                if step % 6 == 4 {
                    let place = usize::from(chooser.byte().unwrap_or(0)) % frame.len();
                    frame[place] ^= chooser.byte().unwrap_or(0);
                }
                bond.receive(port, &frame, now_ms);
                received += 1;
            }
            _ => {
                members = 1 + usize::from(step >> 4) % 3;
                bond.set_members(all(members), now_ms);
                // Counts of those that went are gone, too.
                received = counted(&bond).0;
            }
        }
        judge(&mut bond, now_ms, members);
        let (all, parts) = counted(&bond);
        assert_eq!(all, received, "every frame is counted");
        assert!(parts <= all, "a frame is bad, or a marker, or neither");
    }
}

fn judge(bond: &mut Bond, now_ms: u64, members: usize) {
    let frames = bond.run(now_ms);
    assert!(frames.len() <= members, "one frame of a member at a time");
    for frame in &frames {
        assert!(matches!(read(&frame.bytes), Slow::Lacp(_)), "what is sent can be read");
    }
    assert!(bond.run(now_ms).is_empty(), "nothing is left to say at the same time");
    let is_member = |port: &u32| (1..=members as u32).contains(port);
    let used: Vec<u32> = match bond.sends() {
        Sends::One(port) => port.into_iter().collect(),
        Sends::Source(slots) | Sends::Layers(slots) => slots.iter().flatten().copied().collect(),
    };
    assert!(used.iter().all(is_member), "{used:?}: packets leave by members");
    assert!(bond.admits().keys().all(is_member));
}

/// Frames that came, and those of them that were bad or markers.
fn counted(bond: &Bond) -> (u64, u64) {
    let links = bond.machine.as_ref().into_iter().flat_map(|machine| machine.links().values());
    links.fold((0, 0), |(all, parts), link| {
        (all + link.counts.received, parts + link.counts.bad + link.counts.markers)
    })
}

#[cfg(test)]
mod tests {
    /// SplitMix64.
    fn bytes(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn nothing_that_a_partner_sends_is_fatal() {
        for seed in 0..2000 {
            super::lacp(&bytes(seed, 50 + seed as usize % 1000));
        }
    }
}
