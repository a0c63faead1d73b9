//! Messages of compiled code to the control side, punts and digests: sent, as far as the limit lets them.
//!
//! Checked by: `tests/copies.rs`, and `tests/differential`, which compares every message.

use crate::punt::PuntRing;
use crate::repeats::Repeats;
use crate::sink::Collector;
use abi::{OUTPUTS_MAX, Outcome, status};
use interp::{Packet, Punt, Sink};
use ir::{Bits, DigestId, DropReason};
use jit::{Scratch, Told, What};

/// Sends the messages of a packet of the last burst of code. Nothing is copied of what the limit holds back.
pub(crate) fn notify(
    code: &Scratch,
    packet: usize,
    outcome: &Outcome,
    place: (&[u8], usize, usize),
    collector: &mut Collector<'_>,
    repeats: &mut Repeats,
    now_ns: u64,
) {
    for told in code.told(packet, outcome) {
        match told.what {
            What::Punt { .. } if collector.admits_punt() => {
                notify_one(&told, outcome, place, &mut Admitted(collector));
            }
            What::Digest(digest) if collector.admits_digest() => {
                // What the control side forgets from here on, it may forget of this one.
                let noted = told.repeatable().map(|message| repeats.noted(&message));
                let place = noted.map(|noted| noted.place);
                if collector.send_digest(digest, &told.args(), place)
                    && let Some(noted) = noted
                {
                    repeats.sent(&noted, now_ns);
                }
            }
            _ => {}
        }
    }
}

/// Messages that the limit has held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    /// Copies, beside those of frames that are dropped for that.
    pub(crate) punts: u64,
    pub(crate) digests: u64,
}

/// Takes messages that the limit holds back from what code has made of a burst that came in by one port. What is left of it is
/// forwarded or dropped as any other. Of those behind one that still has a message to send, none is looked at.
pub(crate) fn hold_back(
    code: &Scratch,
    packets: &mut [abi::Packet<'_>],
    ring: &PuntRing,
    in_port: u32,
    now_ns: u64,
) -> HeldBack {
    let mut held = HeldBack::default();
    // All of the burst have one time.
    let mut refused = false;
    for (at, packet) in packets.iter_mut().enumerate() {
        let outcome = **packet;
        match outcome.status {
            status::TOLD if refused || ring.refuses(in_port, now_ns) => refused = true,
            status::TOLD | status::BAIL => break,
            _ => continue,
        }
        let mut punts = 0;
        for told in code.told(at, &outcome) {
            match told.what {
                What::Punt { .. } => punts += 1,
                What::Digest(_) => held.digests += 1,
            }
        }
        packet.status = match usize::from(outcome.outputs_len) {
            0 => status::DROP,
            1..=OUTPUTS_MAX if outcome.laid == 0 => status::FORWARD,
            _ => status::COPIES,
        };
        if packet.status == status::DROP && punts > 0 {
            // Counted where it is dropped.
            packet.reason = DropReason::PuntRateLimit as u32;
            punts -= 1;
        }
        held.punts += punts;
    }
    held
}

/// Sends what the limit has let pass.
struct Admitted<'a, 'c>(&'a mut Collector<'c>);

impl Sink for Admitted<'_, '_> {
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>) {
        self.0.output(port, queue, packet);
    }

    fn punt(&mut self, punt: Punt<'_>) {
        self.0.send_punt(&punt);
    }

    fn digest(&mut self, digest: DigestId, args: &[Bits]) {
        self.0.send_digest(digest, args, None);
    }
}

/// Gives a sink a message of a packet of the last burst of code. The packet lies in this buffer, came in so far behind
/// its start and so long, and code has written its changes.
pub fn notify_one(
    told: &Told<'_>,
    outcome: &Outcome,
    (buffer, start, len): (&[u8], usize, usize),
    sink: &mut dyn Sink,
) {
    let end = start + len;
    let (reason, table, entry, headers) = match told.what {
        What::Digest(digest) => return sink.digest(digest, &told.args()),
        What::Punt { reason, table, entry, headers } => (reason, table, entry, headers),
    };
    let packet = match headers {
        None => {
            let left = start.saturating_add_signed(outcome.shift as isize);
            let unchanged = outcome.changed == 0 && outcome.shift == 0;
            Packet { headers: &[], payload: &buffer[left..end], unchanged }
        }
        Some(headers) => {
            let received = headers.received.unwrap_or(&buffer[start..end]);
            let payload = received.get(headers.payload..).unwrap_or_default();
            Packet { headers: headers.bytes, payload, unchanged: !headers.changed }
        }
    };
    // Code leaves packets that buckets or what is called would punt.
    let (bucket, callers) = (None, &[][..]);
    sink.punt(Punt { reason, table, entry, bucket, callers, args: &told.args(), packet });
}
