//! The body of the fuzz target `underlay`, which a unit test runs too. Hidden: only tests and the fuzz target call it.

use std::net::IpAddr;

use crate::follow::{Doubts, apply};
use crate::message::{next_message, read};
use crate::state::State;

/// A datagram of netlink: any bytes are read or refused, and what the state has after them answers every question.
pub fn underlay(data: &[u8]) {
    let mut datagram = data;
    let mut state = State::default();
    let mut doubts = Doubts::default();
    while let Some(Ok(message)) = next_message(&mut datagram) {
        if let Ok(change) = read(&message) {
            if let crate::message::Change::Rule(rule) = change {
                state.rules[usize::from(rule.v6)].push(rule);
            } else {
                apply(&mut state, change, &mut doubts);
            }
        }
    }
    state.rules.iter_mut().for_each(|rules| rules.sort_by_key(|rule| rule.priority));
    let asked: [IpAddr; 4] =
        [[10, 0, 0, 1].into(), [224, 0, 0, 1].into(), IpAddr::V6(1.into()), [0xfe80; 8].into()];
    let routes: Vec<IpAddr> = state.routes().map(|route| route.to.address).take(8).collect();
    for to in asked.into_iter().chain(routes) {
        let _ = state.resolve(to, None, 1);
        let _ = state.is_local(to);
    }
}

#[cfg(test)]
mod tests {
    /// SplitMix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Messages of a kind that is read, with attributes of any kind and length.
    #[test]
    fn no_message_is_fatal() {
        for seed in 0..20_000 {
            let mut random = seed;
            let mut bytes = Vec::new();
            for _ in 0..1 + next(&mut random) % 4 {
                let mut body = vec![0; [8, 12, 16][next(&mut random) as usize % 3]];
                body.iter_mut().for_each(|byte| *byte = next(&mut random) as u8);
                body[0] = [0, 2, 10][next(&mut random) as usize % 3];
                for _ in 0..next(&mut random) % 6 {
                    let value = [0, 1, 4, 6, 8, 16, 24][next(&mut random) as usize % 7];
                    let wrong = u16::from(next(&mut random).is_multiple_of(20));
                    body.extend((value as u16 + 4 + wrong).to_ne_bytes());
                    body.extend((1 + next(&mut random) as u16 % 26).to_ne_bytes());
                    body.extend((0..value).map(|_| next(&mut random) as u8));
                }
                let kind = 16 + next(&mut random) as u16 % 20;
                bytes.extend((16 + body.len() as u32).to_ne_bytes());
                bytes.extend(kind.to_ne_bytes());
                bytes.extend([0; 10]);
                bytes.extend(body);
            }
            bytes.truncate(bytes.len() - (next(&mut random) % 8 / 7 * 3) as usize);
            super::underlay(&bytes);
        }
    }
}
