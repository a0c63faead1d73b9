//! Packets of connections that announce others ([`alg`](super::alg)): what they say is translated, what they announce expected.

use super::Tracker;
use super::alg;
use super::alg::Alg;
use super::record::Flags;
use super::request::{Nat, Request};
use super::state::{Direction, Drop};
use super::time::deadline_after;
use super::tuple::Tuple;
use crate::packet::{Checksum, Network, Packet};
use std::ops::Range;
use wire::IpProtocol;

/// Source ports tried for a connection that was announced.
const ALG_PORTS: u16 = 64;

impl Tracker {
    /// A new connection has the helper that the action names, if it is of its protocol and there is room.
    pub(super) fn control(&mut self, at: u32, request: &Request) {
        let Some(alg) = request.alg else { return };
        let record = &mut self.records[at as usize];
        if IpProtocol(record.protocol) != alg.protocol() {
            return;
        }
        if self.helpers.controls.len() >= alg::CONTROLS_MAX {
            self.counters.alg_refused += 1;
            return;
        }
        record.flags_mut().set(Flags::CONTROL);
        self.helpers.controls.insert(at, alg::Control::new(alg));
    }

    /// A connection that was announced has come.
    pub(super) fn relate(&mut self, at: u32, tuple: &Tuple, expected: &alg::Expected) {
        self.counters.alg_related += 1;
        self.helpers.came(tuple, at, expected.parent);
        let flags = self.records[at as usize].flags_mut();
        flags.set(Flags::RELATED);
        if expected.mark != 0 || expected.label != 0 {
            flags.set(Flags::MARKED);
            self.rests[at as usize].mark = expected.mark;
            self.set_label(at, (expected.label, !0));
        }
    }

    /// What the answers of an announced connection look like, if it is translated: as its control connection is.
    pub(super) fn bind_expected(
        &self,
        expected: &alg::Expected,
        tuple: &Tuple,
    ) -> Result<Option<Tuple>, Drop> {
        let (src, src_port) = expected.end;
        let reply = Tuple { src, src_port, dst: expected.peer, ..tuple.inverted() };
        if reply == tuple.inverted() {
            return Ok(None);
        }
        let ports = (0..ALG_PORTS).map(|n| match tuple.src_port.wrapping_add(n) {
            port @ 0..1024 if n > 0 => port + 1024,
            port => port,
        });
        let mut replies = ports.map(|dst_port| Tuple { dst_port, ..reply });
        let free = replies.find(|reply| self.holder(reply).is_none());
        free.map(Some).ok_or(Drop::NatExhausted)
    }

    /// A packet of a control connection may get another length.
    pub(super) fn may_grow(&self, request: &Request, packet: &Packet<'_>) -> bool {
        let tcp = packet.at.protocol == IpProtocol::TCP;
        tcp && request.nat != Nat::None && packet.payload().is_some_and(|place| !place.is_empty())
    }

    /// Takes what acknowledgments of moved segments are too high by off them; the octets before that, if it did.
    pub(super) fn unshift(
        &mut self,
        packet: &mut Packet<'_>,
        at: u32,
        direction: Direction,
    ) -> Option<Vec<u8>> {
        let control = self.helpers.controls.get(&at)?;
        let shift = control.shifts[1 - direction as usize];
        if shift.is_none() || control.alg != Alg::Ftp {
            return None;
        }
        let before = packet.frame.to_vec();
        let (l4, end) = (packet.at.l4 as usize, packet.at.end as usize);
        let segment = packet.frame.get_mut(l4..end)?;
        let header = usize::from(*segment.get(12)? >> 4) * 4;
        let mut back = |at: usize| {
            if let Some(place) = segment.get_mut(at..at + 4).and_then(|p| p.first_chunk_mut::<4>())
            {
                let ack = u32::from_be_bytes(*place);
                *place = ack.wrapping_sub(shift.of_ack(ack)).to_be_bytes();
            }
        };
        back(8);
        // Blocks of selective acknowledgments (RFC 2018 §3).
        let mut option = 20;
        while option + 1 < header {
            let (kind, len) = match before.get(l4 + option..l4 + option + 2) {
                Some([1, _]) => (1, 1),
                Some([kind, len]) => (*kind, usize::from(*len)),
                _ => break,
            };
            if kind == 0 || len == 0 || option + len > header {
                break;
            }
            if kind == 5 {
                (option + 2..option + len).step_by(4).for_each(&mut back);
            }
            option += len;
        }
        Tracker::mend(packet);
        Some(before)
    }

    /// Checksums of a packet whose octets were changed anyhow.
    pub(super) fn mend(packet: &mut Packet<'_>) {
        if packet.checksum != Checksum::Partial {
            let _ = wire::offload::fill_checksums(packet.frame);
        }
    }

    /// What a packet of a control connection announces is expected from here on. The text that takes an announcement's place, and where,
    /// if the connection is translated.
    pub(super) fn announced(
        &mut self,
        now: u32,
        request: &Request,
        packet: &Packet<'_>,
        at: u32,
        direction: Direction,
    ) -> Result<Option<(Range<usize>, String)>, alg::Partial> {
        let Some(control) = self.helpers.controls.get(&at) else { return Ok(None) };
        let alg = control.alg;
        let Some(place) = packet.payload() else { return Ok(None) };
        let payload = &packet.frame[place.clone()];
        let (original, reply) = self.tuples(at);
        let (from, to) = match direction {
            Direction::Original => (original, reply.inverted()),
            Direction::Reply => (reply, original.inverted()),
        };
        let said = (self.rests[at as usize].mark, self.label_of(at));
        let time = (now, now.saturating_add(deadline_after(alg::EXPECTED_SECONDS)));
        let announced = match alg {
            Alg::Tftp if direction == Direction::Original && alg::is_request(payload) => {
                let ports = (from.src_port, to.src_port);
                let ends = (&from, &to);
                let told = self.helpers.expect(
                    at,
                    ends,
                    original,
                    said,
                    IpProtocol::UDP,
                    ports,
                    false,
                    time,
                );
                self.counters.alg_announced += u64::from(told.is_some());
                self.counters.alg_refused += u64::from(told.is_none());
                return Ok(None);
            }
            Alg::Tftp => return Ok(None),
            Alg::Ftp if payload.is_empty() => return Ok(None),
            Alg::Ftp => {
                let l4 = packet.at.l4 as usize;
                let seq = packet.frame.get(l4 + 4..l4 + 8).and_then(|seq| seq.first_chunk());
                let Some(seq) = seq.map(|seq| u32::from_be_bytes(*seq)) else { return Ok(None) };
                self.helpers.read(at, direction, seq, payload)
            }
        };
        let announced = announced.inspect_err(|_| self.counters.alg_partial += 1)?;
        let Some(announced) = announced else { return Ok(None) };
        // Nobody announces another's address, nor one of the other family.
        if announced.address.is_some_and(|address| address != from.src) {
            self.counters.alg_refused += 1;
            return Ok(None);
        }
        let translates = request.nat != Nat::None && from != to;
        // Where what it says is not translated, nobody can come to another address than it names.
        let to = if translates { to } else { from };
        let (ports, ends) = ((announced.port, announced.port), (&from, &to));
        let tcp = IpProtocol::TCP;
        let told = self.helpers.expect(at, ends, original, said, tcp, ports, translates, time);
        let Some(port) = told else {
            self.counters.alg_refused += 1;
            return Ok(None);
        };
        self.counters.alg_announced += 1;
        if !translates || (to.src, port) == (from.src, announced.port) {
            return Ok(None);
        }
        let text = announced.text((to.src, to.v6), port);
        let announced = announced.place.start + place.start..announced.place.end + place.start;
        Ok(Some((announced, text)))
    }

    /// What a control connection's packet becomes behind its translation: its sequence number, and what it announces.
    pub(super) fn shift(
        &mut self,
        request: &Request,
        packet: &mut Packet<'_>,
        at: u32,
        direction: Direction,
        announced: Option<(Range<usize>, String)>,
        before: Option<Vec<u8>>,
    ) {
        if request.nat == Nat::None {
            // Nothing is written for who only looks.
            if let Some(before) = before {
                packet.frame.copy_from_slice(&before);
            }
            return;
        }
        let Some(control) = self.helpers.controls.get_mut(&at) else { return };
        let shift = &mut control.shifts[direction as usize];
        let l4 = packet.at.l4 as usize;
        let Some(place) =
            packet.frame.get_mut(l4 + 4..l4 + 8).and_then(|p| p.first_chunk_mut::<4>())
        else {
            return;
        };
        if control.alg != Alg::Ftp {
            return;
        }
        let seq = u32::from_be_bytes(*place);
        if !shift.is_none() {
            *place = seq.wrapping_add(shift.of(seq)).to_be_bytes();
        }
        let Some((old, text)) = announced else {
            if !shift.is_none() {
                Tracker::mend(packet);
            }
            return;
        };
        let by = text.len() as i32 - old.len() as i32;
        shift.lengthen(seq, by);
        if by == 0 {
            packet.frame[old].copy_from_slice(text.as_bytes());
            Tracker::mend(packet);
            return;
        }
        let (l3, end) = (packet.at.l3 as usize, packet.at.end as usize);
        let mut bytes = packet.frame[..old.start].to_vec();
        bytes.extend(text.as_bytes());
        bytes.extend(&packet.frame[old.end..end]);
        let length = match packet.at.network {
            Network::V4 => (l3 + 2, bytes.len() - l3),
            _ => (l3 + 4, bytes.len() - l3 - 40),
        };
        let Ok(len) = u16::try_from(length.1) else { return };
        bytes[length.0..length.0 + 2].copy_from_slice(&len.to_be_bytes());
        let _ = match packet.checksum {
            Checksum::Partial => wire::offload::pseudo_header_partial(&mut bytes).map(drop),
            _ => wire::offload::fill_checksums(&mut bytes).map(drop),
        };
        if packet.checksum == Checksum::Partial && packet.at.network == Network::V4 {
            // The header's own checksum is not left to anybody.
            if let Ok(mut header) = wire::ipv4::Packet::new_header_checked(&mut bytes[l3..]) {
                header.fill_checksum();
            }
        }
        self.rewritten = Some(bytes);
    }
}
