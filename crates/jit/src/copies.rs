//! Where code sends a packet, told output by output.
//!
//! Copies that are as the packet is in the end need nothing; those that were sent before it changed have their headers in
//! memory of the burst. They come in the order in which they were sent, so those that differ come first.

use crate::scratch::Scratch;
use abi::{Laid, OUTPUTS_MAX, Outcome, Output, status};

/// A copy that goes to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy<'a> {
    /// The port, and its queue.
    pub output: Output,
    /// What it is; if nothing, the packet as code has left it.
    pub headers: Option<Headers<'a>>,
}

/// A copy of a packet as it was before it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// Where, in the packet as it came in, the others begin.
    pub payload: usize,
    /// The packet as it came in, where a service might have changed it since.
    pub received: Option<&'a [u8]>,
    /// It may differ from what came in.
    pub changed: bool,
    /// Bytes that it has at most.
    pub cut: usize,
    /// Which of the packet's it is: several outputs may have the same.
    pub number: usize,
}

impl Headers<'_> {
    /// All of it; `packet` is what came in, to which code may have written headers since.
    pub fn to_vec(&self, packet: &[u8]) -> Vec<u8> {
        let rest = self.received.unwrap_or(packet).get(self.payload..).unwrap_or_default();
        let mut all = [self.bytes, rest].concat();
        all.truncate(self.cut);
        all
    }
}

impl Scratch {
    /// The copies of a packet of the last burst, in order.
    pub fn copies<'a>(
        &'a self,
        packet: usize,
        outcome: &'a Outcome,
    ) -> impl Iterator<Item = Copy<'a>> {
        let noted = match outcome.status {
            status::COPIES | status::TOLD => self.noted.get(packet),
            _ => None,
        };
        let (outputs, laid) = match (outcome.status, noted) {
            (status::COPIES | status::TOLD, Some(noted)) => {
                (outcome.outputs_len.into(), &noted.laid[..usize::from(outcome.laid)])
            }
            (status::FORWARD | status::TOLD, _) => (outcome.outputs().len(), &[][..]),
            _ => (0, &[][..]),
        };
        let mut of = 0;
        (0..outputs).map(move |number| {
            while laid.get(of).is_some_and(|laid: &Laid| laid.outputs as usize <= number) {
                of += 1;
            }
            let output = match number.checked_sub(OUTPUTS_MAX) {
                None => outcome.outputs[number],
                Some(number) => noted.map(|noted| noted.more[number]).unwrap_or_default(),
            };
            Copy { output, headers: laid.get(of).map(|laid| self.laid(packet, of, laid)) }
        })
    }

    /// The headers of a packet's only copy, if what came in has the rest of it, and all of that.
    #[inline]
    pub fn only_copy(&self, packet: &abi::Packet<'_>, at: usize) -> Option<Headers<'_>> {
        let outcome: &Outcome = packet;
        if (outcome.status, outcome.outputs_len, outcome.laid) != (status::COPIES, 1, 1) {
            return None;
        }
        let laid = self.noted.get(at)?.laid.first()?;
        if laid.outputs == 0 {
            // They were laid for messages.
            return None;
        }
        let headers = self.laid(at, 0, laid);
        let rest = (packet.len() as usize).checked_sub(headers.payload)?;
        let whole = headers.received.is_none() && headers.bytes.len() + rest <= headers.cut;
        whole.then_some(headers)
    }

    fn laid(&self, packet: usize, number: usize, laid: &Laid) -> Headers<'_> {
        Headers {
            bytes: &self.images[laid.at as usize..][..laid.len as usize],
            payload: laid.payload as usize,
            received: self.before(packet, number),
            changed: laid.changed != 0,
            cut: laid.cut as usize,
            number,
        }
    }

    /// The headers of a packet's copy of this number, if so many were laid; of all of it, whatever is cut of outputs.
    pub(crate) fn headers(
        &self,
        packet: usize,
        outcome: &Outcome,
        number: usize,
    ) -> Option<Headers<'_>> {
        let noted = self.noted.get(packet)?;
        let laid = noted.laid[..usize::from(outcome.laid)].get(number)?;
        Some(Headers { cut: usize::MAX, ..self.laid(packet, number, laid) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::Noted;

    #[test]
    fn copies_come_in_order_each_with_its_own_headers() {
        let mut scratch = Scratch::new();
        let mut noted = Noted::NONE;
        let laid = |outputs, at, len, cut| Laid { outputs, cut, at, len, payload: 2, changed: 1 };
        noted.laid[..2].copy_from_slice(&[laid(1, 0, 3, u32::MAX), laid(4, 8, 2, 4)]);
        noted.more[..2].copy_from_slice(&[3, 4].map(|port| Output { port, queue: 7 }));
        (scratch.noted, scratch.images) = (vec![Noted::NONE, noted], (0..16).collect());
        let mut outcome = Outcome { status: status::COPIES, ..Outcome::PENDING };
        (outcome.outputs_len, outcome.laid) = (5, 2);
        outcome.outputs = [0, 1, 2].map(|port| Output { port, queue: 0 });
        let copies: Vec<Copy<'_>> = scratch.copies(1, &outcome).collect();
        assert!(copies.iter().map(|copy| copy.output.port).eq(0..5));
        assert!(copies.iter().map(|copy| copy.output.queue).eq([0, 0, 0, 7, 7]));
        let whole =
            |copy: &Copy<'_>| copy.headers.map(|headers| headers.to_vec(&[0, 0, 50, 51, 52]));
        let cut = Some(vec![8, 9, 50, 51]);
        let expected =
            [Some(vec![0, 1, 2, 50, 51, 52]), cut.clone(), cut.clone(), cut.clone(), None];
        assert_eq!(copies.iter().map(whole).collect::<Vec<_>>(), expected);
        // As long as it is nothing but forwarded, nothing beside it counts.
        (outcome.status, outcome.outputs_len) = (status::FORWARD, 2);
        let plain = scratch.copies(1, &outcome).map(|copy| (copy.output.port, copy.headers));
        assert_eq!(plain.collect::<Vec<_>>(), [(0, None), (1, None)]);
        for status in [status::DROP, status::BAIL] {
            outcome.status = status;
            assert_eq!(scratch.copies(1, &outcome).count(), 0);
        }
    }
}
