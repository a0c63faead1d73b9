//! What becomes of frames on their way from the switch.

use port::memory;
use port::prng::Prng;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

/// What is done to a frame.
pub(crate) type Change = fn(&mut Vec<u8>);

/// What becomes of a frame on its way from the switch.
#[derive(Clone, Copy)]
pub(crate) enum Bend {
    /// This is done to each.
    Each(Change),
    /// One bit of one in a hundred is flipped.
    Bits,
    /// One in so many comes twice.
    Twice(u32),
    /// Each comes back by the input port, too.
    Hub,
    /// With each of ours, one of another process's comes, by the same path.
    Strangers,
    /// With each of ours, a frame that is no probe goes into the switch, by the same port and to the same rule.
    Neighbours,
    /// So many a second come through, evenly, out of a queue of so many; what does not fit is lost.
    Slow { per_second: u32, room: usize },
    /// A cable is pulled once so many frames have come, and is back a while later.
    Pulled(Cable, u32),
}

/// Whose link goes when the cable is pulled: the far end does not see it, as behind a media converter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cable {
    OurInput,
    OurOutput,
    SwitchOutput,
}

/// How late a slow path's frame may be without the next ones being late, too.
const LATE_MAX: Duration = Duration::from_millis(1);

/// Carries frames between our ports and the switch's, and bends those that come out. The wires: in, then out, each our
/// port's far end, then the switch's.
pub(crate) fn path(wires: &[(memory::Handle, memory::Handle)], bend: Bend, over: &AtomicBool) {
    let [(our_in, its_in), (our_out, its_out)] = wires else { panic!("two wires") };
    let (mut count, mut random) = (0u32, Prng::new(7));
    let mut pulled: Option<(&memory::Handle, Instant)> = None;
    let (mut queue, mut due) = (VecDeque::new(), Instant::now());
    while !over.load(Ordering::Relaxed) {
        let mut busy = false;
        for (from, to) in [(our_out, its_out), (its_in, our_in)] {
            busy |= from.take_into(64, |frame| drop(to.inject(frame))) > 0;
        }
        busy |= our_in.take_into(64, |frame| {
            let mut other = frame.data().to_vec();
            if matches!(bend, Bend::Neighbours) && gauge::probe::parse(&other).is_some() {
                // Another station's; its payload stands behind Ethernet, IPv4 and UDP.
                other[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x77]);
                other[42..].fill(0);
                its_in.inject_bytes(&other);
            }
            drop(its_in.inject(frame));
        }) > 0;
        busy |= its_out.take_into(64, |frame| {
            count += 1;
            let mut bytes = frame.data().to_vec();
            let is_ours = gauge::probe::parse(&bytes).is_some();
            match bend {
                Bend::Each(change) if is_ours => change(&mut bytes),
                Bend::Bits if is_ours && random.below(100) == 0 => {
                    let bit = random.below(bytes.len() as u64 * 8) as usize;
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                Bend::Twice(n) if count % n == 0 => drop(our_out.inject_bytes(&bytes)),
                Bend::Hub => drop(our_in.inject_bytes(&bytes)),
                Bend::Pulled(cable, at) if count == at => {
                    let end = match cable {
                        Cable::OurInput => our_in,
                        Cable::OurOutput => our_out,
                        Cable::SwitchOutput => its_out,
                    };
                    end.set_carrier(false);
                    pulled = Some((end, Instant::now()));
                }
                Bend::Strangers => {
                    if let Some(probe) = gauge::probe::parse(&bytes) {
                        let mut other = bytes.clone();
                        gauge::probe::estrange(&mut other, probe);
                        our_out.inject_bytes(&other);
                    }
                }
                _ => {}
            }
            match bend {
                Bend::Slow { room, .. } if queue.len() >= room => {}
                Bend::Slow { .. } => queue.push_back(bytes),
                _ => drop(our_out.inject_bytes(&bytes)),
            }
        }) > 0;
        if let Bend::Slow { per_second, .. } = bend {
            // Time without a frame, or without this thread, is not made up for.
            let now = Instant::now();
            if due <= now
                && let Some(frame) = queue.pop_front()
            {
                our_out.inject_bytes(&frame);
                due = due.max(now - LATE_MAX) + Duration::from_secs(1) / per_second;
            }
        }
        if let Some((end, since)) = pulled
            && since.elapsed() > Duration::from_millis(400)
        {
            end.set_carrier(true);
            pulled = None;
        }
        if !busy {
            // What comes by either end wakes it soon enough.
            port::wait_readable(its_out.fd(), Duration::from_micros(100));
        }
    }
}

/// The checksum of an IPv4 header behind an untagged Ethernet header.
pub(crate) fn sum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
}
