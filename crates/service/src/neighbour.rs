//! ARP requests and neighbour solicitations for addresses that services own, turned into their answers.
//!
//! In: any frames; the tables choose which. Out: a request for an owned address as its answer, in its place, and 1 in
//! `sf_metadata`: it is to go back by the port that it came by. All else stays as it is, with 0. VLAN tags stay.
//!
//! Who claims an owned address as its own (ARP with sender and target alike) is not answered; who asks whether it is
//! free is (RFC 5227 §2.1.1, RFC 4862 §5.4.3), and hears that it is not.
//!
//! An advertisement has the place of its solicitation: it tells its link-layer address where that had its sender's. One without
//! that option is answered without it, as RFC 4861 §4.4 allows for solicitations by unicast; one that asks whether an address is
//! free needs no more.
//!
//! Checked by: the tests below; `of_pipeline`'s `softflow`, by both engines; `lab/walk_services`, with Linux's hosts.

use crate::element::{Element, Fate, Instance, Passing, Writes};
use crate::packet::{Checksum, Network, Packet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::IpProtocol;

/// Addresses that are answered for, from and to.
pub type Range = (IpAddr, IpAddr);

/// What became of a request for an owned address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A request of ARP is its reply now.
    Arp,
    /// A solicitation is its advertisement now.
    Nd,
    /// It makes no sense, and is as it was.
    Malformed,
}

/// Makes a request for an address that somebody owns its answer. `owner` is asked for the address of the link layer that has
/// it. None for all other packets, which stay as they are.
pub fn answer(
    packet: &mut Packet<'_>,
    owner: &mut dyn FnMut(IpAddr) -> Option<[u8; 6]>,
) -> Option<Answer> {
    match packet.at.network {
        Network::Other => arp(packet.frame, owner),
        Network::V4 => None,
        Network::V6 => solicitation(packet, owner),
    }
}

/// See the [module](self). Reads no argument, drops nothing. Counts answers (`arp_answered`, `nd_answered`), and requests for
/// owned addresses that cannot be answered, since they make no sense (`malformed`).
#[derive(Debug, Clone)]
pub struct Neighbour {
    owned: Vec<Range>,
    mac: [u8; 6],
}

impl Neighbour {
    /// Answers for these addresses with this one of the link layer.
    pub fn new(owned: Vec<Range>, mac: [u8; 6]) -> Neighbour {
        Neighbour { owned, mac }
    }
}

impl Element for Neighbour {
    fn name(&self) -> &'static str {
        "neighbour"
    }

    fn writes(&self) -> Writes {
        Writes::Anything
    }

    fn instance(&self, _worker: usize, _now_ns: u64, _seed: u64) -> Box<dyn Instance> {
        Box::new(Answering { of: self.clone(), arp: 0, nd: 0, malformed: 0 })
    }
}

struct Answering {
    of: Neighbour,
    arp: u64,
    nd: u64,
    malformed: u64,
}

impl Instance for Answering {
    fn ingress(&mut self, _now_ns: u64, burst: &mut [Passing<'_>]) {
        for passing in burst.iter_mut().filter(|passing| passing.fate == Fate::Continue) {
            let Neighbour { owned, mac } = &self.of;
            let mut owner = |address: IpAddr| {
                let has = |(first, last): &Range| {
                    first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address)
                };
                owned.iter().any(has).then_some(*mac)
            };
            let answer = answer(&mut passing.packet, &mut owner);
            match answer {
                Some(Answer::Arp) => self.arp += 1,
                Some(Answer::Nd) => self.nd += 1,
                Some(Answer::Malformed) => self.malformed += 1,
                None => {}
            }
            let answered = matches!(answer, Some(Answer::Arp | Answer::Nd));
            passing.metadata.register = answered.into();
            passing.metadata.coalesce = !answered;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("arp_answered", self.arp), ("nd_answered", self.nd), ("malformed", self.malformed)]
    }
}

/// Behind the Ethernet header and its tags: the type, and where what it announces begins.
fn payload(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = 12;
    loop {
        let kind = u16::from_be_bytes(*frame.get(at..at + 2)?.first_chunk()?);
        if ![0x8100, 0x88a8, 0x9100].contains(&kind) {
            return Some((kind, at + 2));
        }
        at += 4;
    }
}

/// The addresses of the link layer: the answer goes to who has asked.
fn turn(frame: &mut [u8], to: [u8; 6], mac: [u8; 6]) {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&mac);
}

/// A request of ARP for an owned address (RFC 826).
fn arp(frame: &mut [u8], owner: &mut dyn FnMut(IpAddr) -> Option<[u8; 6]>) -> Option<Answer> {
    let (kind, at) = payload(frame)?;
    if kind != 0x0806 {
        return None;
    }
    let packet: &mut [u8; 28] = frame.get_mut(at..)?.first_chunk_mut()?;
    // Ethernet, IPv4, their lengths, a request.
    if packet[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
        return None;
    }
    let sender_mac: [u8; 6] = *packet[8..].first_chunk()?;
    let (sender, target): ([u8; 4], [u8; 4]) =
        (*packet[14..].first_chunk()?, *packet[24..].first_chunk()?);
    if sender == target {
        return None;
    }
    let mac = owner(Ipv4Addr::from(target).into())?;
    packet[7] = 2;
    packet[8..14].copy_from_slice(&mac);
    packet[14..18].copy_from_slice(&target);
    packet[18..24].copy_from_slice(&sender_mac);
    packet[24..28].copy_from_slice(&sender);
    let to = *frame[6..].first_chunk()?;
    turn(frame, to, mac);
    Some(Answer::Arp)
}

/// A neighbour solicitation for an owned address (RFC 4861 §4.3).
fn solicitation(
    packet: &mut Packet<'_>,
    owner: &mut dyn FnMut(IpAddr) -> Option<[u8; 6]>,
) -> Option<Answer> {
    let (l3, l4, end) = (packet.at.l3 as usize, packet.at.l4 as usize, packet.at.end as usize);
    // No extension header lies between.
    if packet.at.protocol != IpProtocol::ICMPV6 || l4 != l3 + 40 {
        return None;
    }
    let header = packet.frame.get(l3..l4)?;
    let message = packet.frame.get(l4..end)?;
    if *message.first()? != 135 {
        return None;
    }
    let target: [u8; 16] = *message.get(8..24)?.first_chunk()?;
    let mac = owner(Ipv6Addr::from(target).into())?;
    let source: [u8; 16] = *header.get(8..24)?.first_chunk()?;
    let asks_whether_free = source == [0; 16];
    let whole = match packet.checksum {
        Checksum::Unknown => checksum(header, message) == 0,
        Checksum::Good | Checksum::Partial => true,
    };
    // RFC 4861 §7.1.1.
    let Some(option) = link_option(message.get(24..)?) else { return Some(Answer::Malformed) };
    if header[7] != 255 || message[1] != 0 || !whole || asks_whether_free && option.is_some() {
        return Some(Answer::Malformed);
    }
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets();
    let sender_mac: [u8; 6] = *packet.frame.get(6..12)?.first_chunk()?;
    let (to, to_mac) = match asks_whether_free {
        true => (all_nodes, [0x33, 0x33, 0, 0, 0, 1]),
        false => (source, sender_mac),
    };
    let (head, rest) = packet.frame.split_at_mut_checked(l4)?;
    let message = rest.get_mut(..end - l4)?;
    head[l3 + 8..l3 + 24].copy_from_slice(&target);
    head[l3 + 24..l3 + 40].copy_from_slice(&to);
    message[0] = 136;
    // Solicited, unless nobody is to be told in particular; in place of what was known.
    message[4..8].copy_from_slice(&[if asks_whether_free { 0x20 } else { 0x60 }, 0, 0, 0]);
    if let Some(at) = option {
        message[24 + at] = 2;
        message[24 + at + 2..24 + at + 8].copy_from_slice(&mac);
    }
    message[2..4].copy_from_slice(&[0, 0]);
    let addresses = pseudo(&head[l3..], message.len());
    let sum = match packet.checksum {
        // Whoever sends it adds the rest.
        Checksum::Partial => addresses,
        Checksum::Unknown | Checksum::Good => !add(addresses, wire::checksum::sum(message)),
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    turn(packet.frame, to_mac, mac);
    Some(Answer::Nd)
}

fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// Where the source's link-layer address of Ethernet lies among options, if it is there; none if they make no sense.
fn link_option(options: &[u8]) -> Option<Option<usize>> {
    let (mut at, mut found) = (0, None);
    while at < options.len() {
        let [kind, units] = *options.get(at..at + 2)?.first_chunk()?;
        let len = usize::from(units) * 8;
        if len == 0 || at + len > options.len() {
            return None;
        }
        if kind == 1 && len == 8 && found.is_none() {
            found = Some(at);
        }
        at += len;
    }
    Some(found)
}

/// The sum of the pseudo-header of so long a message of ICMPv6 behind this IPv6 header.
fn pseudo(header: &[u8], len: usize) -> u16 {
    let mut pseudo = [0; 40];
    pseudo[..32].copy_from_slice(&header[8..40]);
    pseudo[32..36].copy_from_slice(&(len as u32).to_be_bytes());
    pseudo[39] = 58;
    wire::checksum::sum(&pseudo)
}

/// The checksum of such a message; 0 if it is right in it.
fn checksum(header: &[u8], message: &[u8]) -> u16 {
    !add(pseudo(header, message.len()), wire::checksum::sum(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn service() -> Box<dyn Instance> {
        let range = |first: &str, last: &str| (first.parse().unwrap(), last.parse().unwrap());
        let owned = vec![range("10.0.0.9", "10.0.0.11"), range("fd00::9", "fd00::9")];
        Neighbour::new(owned, MAC).instance(0, 0, 1)
    }

    fn ask(instance: &mut dyn Instance, frame: &mut [u8], checksum: Checksum) -> u64 {
        let packet = Packet { checksum, ..Packet::of(frame) };
        let mut burst = [Passing::new(packet)];
        instance.ingress(0, &mut burst);
        assert_eq!(burst[0].fate, Fate::Continue);
        burst[0].metadata.register
    }

    fn arp(tags: &[u8], op: u8, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
        let ethernet = [&[0xff; 6][..], &ASKER, tags, &[8, 6]].concat();
        let head = [0, 1, 8, 0, 6, 4, 0, op];
        [&ethernet[..], &head, &ASKER, &sender, &[0; 6], &target].concat()
    }

    #[test]
    fn a_request_for_an_owned_address_becomes_its_answer_in_its_vlan() {
        for tags in [&[][..], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7]] {
            let mut service = service();
            let mut frame = arp(tags, 1, [10, 0, 0, 1], [10, 0, 0, 10]);
            assert_eq!(ask(&mut *service, &mut frame, Checksum::Unknown), 1);
            let ethernet = [&ASKER[..], &MAC, tags, &[8, 6]].concat();
            let head = [0, 1, 8, 0, 6, 4, 0, 2];
            let expected = [&ethernet[..], &head, &MAC, &[10, 0, 0, 10], &ASKER, &[10, 0, 0, 1]];
            assert_eq!(frame, expected.concat());
            assert_eq!(service.counters()[0], ("arp_answered", 1));
        }
    }

    #[test]
    fn other_frames_stay_as_they_are() {
        let mut service = service();
        let mut v6 = arp(&[], 1, [10, 0, 0, 1], [10, 0, 0, 10]);
        v6[14 + 2] = 0x86;
        for frame in [
            arp(&[], 1, [10, 0, 0, 1], [10, 0, 0, 12]),
            arp(&[], 2, [10, 0, 0, 1], [10, 0, 0, 10]),
            // It claims the address.
            arp(&[], 1, [10, 0, 0, 10], [10, 0, 0, 10]),
            arp(&[], 1, [10, 0, 0, 1], [10, 0, 0, 10])[..41].to_vec(),
            v6,
            vec![0x81; 15],
            Vec::new(),
        ] {
            let mut after = frame.clone();
            assert_eq!(ask(&mut *service, &mut after, Checksum::Unknown), 0);
            assert_eq!(after, frame);
        }
        // Who asks whether it is free hears that it is not.
        let mut probe = arp(&[], 1, [0; 4], [10, 0, 0, 9]);
        assert_eq!(ask(&mut *service, &mut probe, Checksum::Unknown), 1);
    }

    const SOLICITED: &str = "ff02::1:ff00:9";

    /// A solicitation for this address, with these options.
    fn solicitation(source: &str, target: &str, options: &[u8]) -> Vec<u8> {
        let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &octets(target), options].concat();
        let mut header = vec![0x60, 0, 0, 0, 0, message.len() as u8, 58, 255];
        header.extend(octets(source));
        header.extend(octets(SOLICITED));
        let sum = checksum(&header, &message).to_be_bytes();
        let ethernet = [&[0x33, 0x33, 0xff, 0, 0, 9][..], &ASKER, &[0x86, 0xdd]].concat();
        let mut frame = [ethernet, header, message].concat();
        frame[14 + 40 + 2..14 + 40 + 4].copy_from_slice(&sum);
        frame
    }

    const LINK: [u8; 8] = [1, 1, 2, 0, 0, 0, 0, 1];

    #[test]
    fn a_solicitation_becomes_its_advertisement() {
        let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
        for (options, at) in
            [(LINK.to_vec(), Some(0)), ([nonce, LINK].concat(), Some(8)), (vec![], None)]
        {
            let mut service = service();
            let mut frame = solicitation("fd00::1", "fd00::9", &options);
            assert_eq!(ask(&mut *service, &mut frame, Checksum::Unknown), 1);
            assert_eq!((&frame[..6], &frame[6..12]), (&ASKER[..], &MAC[..]));
            let (header, message) = frame[14..].split_at(40);
            let address = |at: usize| Ipv6Addr::from(*header[at..].first_chunk::<16>().unwrap());
            assert_eq!(
                (address(8).to_string(), address(24).to_string()),
                ("fd00::9".into(), "fd00::1".into())
            );
            assert_eq!((message[0], message[4]), (136, 0x60));
            assert_eq!(checksum(header, message), 0);
            if let Some(at) = at {
                assert_eq!(message[24 + at..24 + at + 8], [2, 1, 2, 0, 0, 0, 0, 9]);
            }
            assert_eq!(service.counters()[1], ("nd_answered", 1));
        }
    }

    #[test]
    fn who_asks_whether_an_address_is_free_is_answered_for_all_to_hear() {
        let mut service = service();
        let mut frame = solicitation("::", "fd00::9", &[]);
        assert_eq!(ask(&mut *service, &mut frame, Checksum::Unknown), 1);
        assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(frame[14 + 24..14 + 40], Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets());
        assert_eq!(frame[14 + 40 + 4], 0x20, "nobody has asked in particular");
        assert_eq!(checksum(&frame[14..54], &frame[54..]), 0);
    }

    #[test]
    fn a_sum_that_hardware_completes_is_that_of_the_new_addresses() {
        let mut service = service();
        let mut frame = solicitation("fd00::1", "fd00::9", &LINK);
        assert_eq!(ask(&mut *service, &mut frame, Checksum::Partial), 1);
        // As hardware does it: the sum of the message, with what its field has.
        let completed = !wire::checksum::sum(&frame[54..]);
        frame[56..58].copy_from_slice(&completed.to_be_bytes());
        assert_eq!(checksum(&frame[14..54], &frame[54..]), 0);
    }

    #[test]
    fn what_makes_no_sense_is_counted_and_stays() {
        let good = solicitation("fd00::1", "fd00::9", &LINK);
        let change = |at: usize, to: u8| {
            let mut frame = good.clone();
            frame[at] = to;
            frame
        };
        let mut service = service();
        let wrong = [
            // Its hop limit, a code, its checksum, an option without a length or with too much.
            change(14 + 7, 254),
            change(54 + 1, 1),
            change(54 + 2, good[56] ^ 1),
            change(54 + 25, 0),
            change(54 + 25, 9),
            solicitation("::", "fd00::9", &LINK),
        ];
        for frame in &wrong {
            let mut after = frame.clone();
            assert_eq!(ask(&mut *service, &mut after, Checksum::Unknown), 0);
            assert_eq!(after, *frame);
        }
        assert_eq!(service.counters()[2], ("malformed", wrong.len() as u64));
        let mut other = solicitation("fd00::1", "fd00::8", &LINK);
        assert_eq!(ask(&mut *service, &mut other, Checksum::Unknown), 0);
        let mut echo = change(54, 128);
        assert_eq!(ask(&mut *service, &mut echo, Checksum::Unknown), 0);
        assert_eq!(service.counters()[2].1, wrong.len() as u64);
    }
}
