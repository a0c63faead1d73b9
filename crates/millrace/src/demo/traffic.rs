//! Streams of frames whose outcome is known, played as fast as the switch takes them.
//!
//! A frame that comes out names its stream, and must be, at that port, exactly the frame that the
//! stream promises. At the end, each stream must have got out what it was to get out: no more, and
//! nothing missing.
//!
//! Frames that must come out are in flight at most [`WINDOW`] at a time, so that no ring between
//! switch and hosts can overflow: a frame that is missing was lost by the switch.

use super::frames::stream_of;
use super::scene::Tally;
use super::stage::RING_FRAMES;
use port::Frame;
use port::memory::Handle;
use port::prng::Prng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Frames on their way out, at most.
const WINDOW: u64 = RING_FRAMES as u64 / 2;
/// Frames given and taken in turn.
const BATCH: usize = 128;
/// Pause when there is neither anything to give nor to take.
const PAUSE: Duration = Duration::from_micros(30);
/// A frame that has not come out after so long of silence is missing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Frames that are all the same.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Index of the port where they enter.
    pub(super) port: usize,
    /// The frame, which ends in the stream's number: its index among the streams.
    pub(super) frame: Vec<u8>,
    /// Index of the port where they must leave, and as what; `None`: they must not.
    pub(super) out: Option<(usize, Vec<u8>)>,
}

/// Plays streams in random order until `stop`, then waits for what is still on its way.
pub(super) fn play(streams: &[Stream], ends: &[Handle], stop: &AtomicBool, tally: &Tally) {
    let mut random = Prng::new(1);
    let mut player = Player { streams, tally, pending: vec![0; streams.len()], in_flight: 0 };
    let mut progress = Instant::now();
    loop {
        let stopping = stop.load(Relaxed);
        let given = if stopping { 0 } else { player.give(ends, &mut random) };
        let taken: usize = (0..ends.len()).map(|port| player.take(ends, port)).sum();
        if given + taken > 0 {
            progress = Instant::now();
        } else if player.in_flight > 0 && progress.elapsed() > PATIENCE {
            player.missing();
        } else if stopping
            && player.in_flight == 0
            && progress.elapsed() > Duration::from_millis(50)
        {
            return;
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}

struct Player<'a> {
    streams: &'a [Stream],
    tally: &'a Tally,
    /// Frames of each stream that must still come out.
    pending: Vec<u32>,
    in_flight: u64,
}

impl Player<'_> {
    /// Gives the switch frames of random streams while it has room; returns how many.
    fn give(&mut self, ends: &[Handle], random: &mut Prng) -> usize {
        for given in 0..BATCH {
            let index = random.below(self.streams.len() as u64) as usize;
            let stream = &self.streams[index];
            let room = self.in_flight < WINDOW;
            if !room || ends[stream.port].inject(Frame::copy_of(&stream.frame)).is_err() {
                return given;
            }
            self.tally.sent.fetch_add(1, Relaxed);
            if stream.out.is_some() {
                self.pending[index] += 1;
                self.in_flight += 1;
            }
        }
        BATCH
    }

    /// Takes what came out at a port, and checks it.
    fn take(&mut self, ends: &[Handle], port: usize) -> usize {
        let mut frames = Vec::with_capacity(BATCH);
        ends[port].take_into(BATCH, |frame| frames.push(frame));
        self.tally.received.fetch_add(frames.len() as u64, Relaxed);
        for frame in &frames {
            match self.check(port, frame.data()) {
                Ok(()) => drop(self.tally.verified.fetch_add(1, Relaxed)),
                Err(text) => self.tally.error(|| text),
            }
        }
        frames.len()
    }

    fn check(&mut self, port: usize, frame: &[u8]) -> Result<(), String> {
        let shown = || format!("out of port {}: {}", port + 1, wire::summary(frame));
        let index = stream_of(frame).map_or(usize::MAX, |n| n as usize);
        let Some(stream) = self.streams.get(index) else {
            return Err(format!("{}, which nobody sent", shown()));
        };
        let Some((right_port, right)) = &stream.out else {
            return Err(format!("{}, which must not pass", shown()));
        };
        // However wrong it is, it is no longer under way.
        if self.pending[index] == 0 {
            return Err(format!("{}, which was sent fewer times", shown()));
        }
        self.pending[index] -= 1;
        self.in_flight -= 1;
        if *right_port != port {
            return Err(format!("{}, not out of port {}", shown(), right_port + 1));
        }
        if right != frame {
            return Err(format!("{}; right would be {}", shown(), wire::summary(right)));
        }
        Ok(())
    }

    /// Gives up on what has not come out.
    fn missing(&mut self) {
        for (stream, pending) in self.streams.iter().zip(&mut self.pending) {
            for _ in 0..std::mem::take(pending) {
                self.tally.error(|| format!("never came out: {}", wire::summary(&stream.frame)));
            }
        }
        self.in_flight = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player<'a>(streams: &'a [Stream], tally: &'a Tally) -> Player<'a> {
        Player { streams, tally, pending: vec![1; streams.len()], in_flight: streams.len() as u64 }
    }

    #[test]
    fn every_kind_of_wrong_is_told() {
        let frame = |n: u32| [&[0; 60][..], &n.to_be_bytes()].concat();
        let streams = [
            Stream { port: 0, frame: frame(0), out: Some((1, frame(0))) },
            Stream { port: 0, frame: frame(1), out: None },
        ];
        let tally = Tally::default();
        let check = |port, bytes: &[u8]| player(&streams, &tally).check(port, bytes);
        assert_eq!(check(1, &frame(0)), Ok(()));
        assert!(check(0, &frame(0)).unwrap_err().ends_with("not out of port 2"));
        assert!(check(1, &frame(1)).unwrap_err().ends_with("which must not pass"));
        assert!(check(1, &frame(2)).unwrap_err().ends_with("which nobody sent"));
        assert!(check(1, b"ab").unwrap_err().ends_with("which nobody sent"));
        let mut changed = frame(0);
        changed[3] = 1;
        assert!(check(1, &changed).unwrap_err().contains("right would be"));
        let mut twice = player(&streams, &tally);
        assert_eq!(twice.check(1, &frame(0)), Ok(()));
        assert!(twice.check(1, &frame(0)).unwrap_err().ends_with("which was sent fewer times"));
        twice.pending[0] = 3;
        twice.missing();
        assert_eq!(tally.errors.load(Relaxed), 4);
        assert!(lock_first(&tally).starts_with("never came out"));
    }

    fn lock_first(tally: &Tally) -> String {
        super::super::lock(&tally.first_error).clone().unwrap()
    }
}
