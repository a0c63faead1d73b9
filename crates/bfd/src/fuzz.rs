//! The body of the fuzz target `bfd`, which a unit test runs too. Hidden: only tests and the fuzz target call it.

use crate::config::Config;
use crate::packet::{FRAME_LEN, read};
use crate::session::{Identity, Received, Session};

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
}

/// What comes from the other side: any bytes are read or counted as refused; a session never sends without end, what it sends
/// can be read, and it is up only while packets come.
pub fn bfd(data: &[u8]) {
    let mut chooser = Chooser(data);
    let first = chooser.byte().unwrap_or(0);
    let config = Config {
        min_rx_ms: 1 + u32::from(first & 3) * 400,
        min_tx_ms: 1 + u32::from(first >> 2 & 3) * 300,
        decay_min_rx_ms: if first & 16 == 0 { 0 } else { 3000 },
        forwarding_if_rx: first & 32 != 0,
        cpath_down: first & 64 != 0,
        mult: if first & 128 == 0 { 3 } else { 1 },
        ..Config::default()
    };
    let identity = |discriminator, seed| {
        let mac = [2, 0, 0, 0, 0, seed as u8];
        Identity { mac, discriminator, source_port: 49152, seed }
    };
    let mut now_ms = 0;
    let mut session = Session::new(config.clone(), identity(7, 1), now_ms);
    // An honest other side, whose frames are spoilt now and then.
    let mut other = Session::new(Config::default(), identity(9, 2), now_ms);
    let (mut seen, mut frames) = (0, 0);
    for _ in 0..STEPS_MAX {
        let Some(step) = chooser.byte() else { break };
        match step % 6 {
            0 => now_ms += u64::from(chooser.byte().unwrap_or(0)) * 10,
            1 => {
                let length = usize::from(chooser.byte().unwrap_or(0));
                seen +=
                    u64::from(session.receive(chooser.take(length), 0, now_ms) != Received::Other);
            }
            2 | 3 => {
                let Some(mut frame) = other.due(now_ms) else { continue };
                if step % 6 == 3 {
                    let place = usize::from(chooser.byte().unwrap_or(0)) % frame.len();
                    frame[place] ^= chooser.byte().unwrap_or(0);
                }
                frames += 1;
                seen += u64::from(session.receive(&frame, 0, now_ms) != Received::Other);
            }
            4 => {
                frames += u64::from(step >> 4);
                session.traffic(frames, now_ms);
            }
            _ => {
                let min_rx_ms = 1 + u32::from(chooser.byte().unwrap_or(0)) * 10;
                session.set_config(Config { min_rx_ms, ..config.clone() }, now_ms);
            }
        }
        judge(&mut session, &mut other, now_ms);
        let counts = session.counts();
        let refused: u64 = counts.refused.values().sum();
        assert_eq!(counts.received + refused, seen, "every packet is counted once");
    }
}

fn judge(session: &mut Session, other: &mut Session, now_ms: u64) {
    let mut sent = 0;
    while let Some(frame) = session.due(now_ms) {
        sent += 1;
        assert!(sent <= 3, "an answer, a poll, and what is due: not more at one time");
        assert_eq!(frame.len(), FRAME_LEN);
        assert!(read(&frame).is_some_and(|(_, packet)| packet.is_ok()), "what is sent can be read");
        other.receive(&frame, 0, now_ms);
    }
    assert!(session.next_wake(now_ms) > now_ms, "nothing is left to do at the same time");
    assert_eq!(session.status().len(), 6);
    assert!(session.show(now_ms).lines().count() == 23);
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
    fn nothing_that_the_other_side_sends_is_fatal() {
        for seed in 0..2000 {
            super::bfd(&bytes(seed, 50 + seed as usize % 1000));
        }
    }
}
