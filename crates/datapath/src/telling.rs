//! What compiled code has told the control side of a packet: sent, as far as a limit lets it.
//!
//! Checked by: `tests/copies.rs`, and `tests/differential`, which compares every message.

use crate::sink::Collector;
use abi::Outcome;
use interp::{Packet, Punt, Sink};
use ir::{Bits, DigestId};
use jit::{Scratch, Told, What};

/// Sends what a packet of the last burst of code has told. Nothing is copied of what the limit holds back.
pub(crate) fn tell(
    code: &Scratch,
    packet: usize,
    outcome: &Outcome,
    place: (&[u8], usize, usize),
    collector: &mut Collector<'_>,
) {
    for told in code.told(packet, outcome) {
        let admitted = match told.what {
            What::Punt { .. } => collector.admits_punt(),
            What::Digest(_) => collector.admits_digest(),
        };
        if admitted {
            tell_one(&told, outcome, place, &mut Admitted(collector));
        }
    }
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
        self.0.send_digest(digest, args);
    }
}

/// Tells a sink a message of a packet of the last burst of code. The packet lies in this buffer, came in so far behind
/// its start and so long, and code has written its changes.
pub fn tell_one(
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
    sink.punt(Punt { reason, table, entry, args: &told.args(), packet });
}
