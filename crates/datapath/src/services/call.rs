//! What a service is to the pipeline: calls, one at a time or for packets of a burst, and their answers.

use super::waiting::{WaitNews, WaitTicket, WaitingPacket};
use interp::externs::with_values;
use ir::{Bits, DropReason, program};
use jit::Handed;
use port::{Csum, Mark};
use service::packet::{Checksum, Hint};

/// A packet that is handed to a service.
#[derive(Debug)]
pub struct Call<'a> {
    /// What the program declares.
    pub service: &'a program::Service,
    /// Values of its arguments; of their widths.
    pub args: &'a [Bits],
    /// The packet's octets. Only a service that [edits](program::Service::edits) may change them, and how many they are.
    pub packet: &'a mut Vec<u8>,
    /// What is known of its transport checksum.
    pub csum: Csum,
    /// The time, of the switch's clock.
    pub now_ns: u64,
    /// Somebody wants to know what would happen: nothing is to be remembered.
    pub look: bool,
    /// Where it says what waits and what goes on, if there is somebody who keeps packets.
    pub news: Option<&'a mut WaitNews>,
}

/// The same with arguments in words, one behind the other, least significant first.
#[derive(Debug)]
pub struct WordsCall<'a> {
    /// What the program declares.
    pub service: &'a program::Service,
    /// Words of its arguments.
    pub args: &'a [u64],
    /// As in [`Call`].
    pub packet: &'a mut Vec<u8>,
    /// As in [`Call`].
    pub csum: Csum,
    /// As in [`Call`].
    pub now_ns: u64,
    /// As in [`Call`].
    pub news: Option<&'a mut WaitNews>,
}

/// Packets that are handed to a service together, beside the packets.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// What the program declares.
    pub service: &'a program::Service,
    /// What is known of the transport checksums of the burst's packets, by their numbers.
    pub csums: &'a [Csum],
    /// What ports report of them, by their numbers; may be wrong, and is checked by who uses it.
    pub marks: &'a [Mark],
    /// The time, of the switch's clock.
    pub now_ns: u64,
    /// Packets may be [left](Handed::left).
    pub leaves: bool,
}

impl Burst<'_> {
    /// What is known of a packet's transport checksum.
    pub fn csum(&self, packet: &Handed<'_>) -> Csum {
        self.csums.get(packet.packet).copied().unwrap_or(Csum::None)
    }

    /// What its port reports of a packet.
    pub fn hint(&self, packet: &Handed<'_>) -> Hint {
        let mark = self.marks.get(packet.packet).copied().unwrap_or_default();
        Hint { mark: mark.value, generation: mark.generation }
    }
}

/// Takes packets one at a time: values in place of words.
pub fn one_by_one(
    service: &program::Service,
    packets: &mut [Handed<'_>],
    mut call: impl FnMut(usize, &[Bits], &mut [u8], &mut [Bits]) -> bool,
) {
    for handed in packets {
        let (packet, bytes) = (handed.packet, &mut *handed.bytes);
        handed.passes = with_values(service, handed.args, handed.results, |args, results| {
            call(packet, args, bytes, results)
        });
    }
}

/// A service, as the pipeline sees it.
pub trait Service: Send + Sync {
    /// Takes packets of a burst, in the order in which they came in.
    fn burst(&self, burst: Burst<'_>, packets: &mut [Handed<'_>]) {
        one_by_one(burst.service, packets, |at, args, packet, results| {
            let csum = burst.csums.get(at).copied().unwrap_or(Csum::None);
            let (service, now_ns) = (burst.service, burst.now_ns);
            let mut whole = packet.to_vec();
            let packet_of =
                Call { service, args, packet: &mut whole, csum, now_ns, look: false, news: None };
            let passes = self.call(packet_of, results);
            // Code has room for as many octets as there were.
            if service.edits && whole.len() == packet.len() {
                packet.copy_from_slice(&whole);
            }
            passes
        });
    }

    /// Takes a packet. `results` are zero, of the declared widths. False drops it.
    fn call(&self, call: Call<'_>, results: &mut [Bits]) -> bool;

    /// The same; `results` are zero, and as many as the words of the declared widths.
    fn call_words(&self, call: WordsCall<'_>, results: &mut [u64]) -> bool {
        let WordsCall { service, args, packet, csum, now_ns, news } = call;
        with_values(service, args, results, |args, results| {
            let call = Call { service, args, packet, csum, now_ns, look: false, news };
            self.call(call, results)
        })
    }

    /// Does what is due by now and is not done with packets, in slices, so that no call waits for long.
    /// Called a few times in a second, by no worker.
    fn tend(&self, now_ns: u64);

    /// Takes a frame of which it has said that it waits; gives it back if it goes on already.
    fn keep(&self, _waits: WaitTicket, kept: WaitingPacket) -> Option<WaitingPacket> {
        kept.drop(DropReason::FragmentLost);
        None
    }

    /// Frames that wait are dropped: the switch ends.
    fn give_up(&self, _reason: DropReason) {}
}

/// Writes a number into a result of whatever width it was declared with.
pub(crate) fn answer(results: &mut [Bits], at: usize, value: impl Into<u128>) {
    if let Some(result) = results.get_mut(at) {
        *result = Bits::from_u128(value.into(), result.width());
    }
}

/// What is known of a packet's transport checksum, as an element takes it.
pub(crate) fn checksum(csum: Csum) -> Checksum {
    match csum {
        Csum::None => Checksum::Unknown,
        Csum::Valid => Checksum::Good,
        Csum::Partial { .. } => Checksum::Partial,
    }
}
