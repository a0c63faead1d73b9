//! A connection as octets: what images and the log of changes have in common.
//!
//! The format is that of [`image`](super)'s head. Checked by: the tests of `image` and of [`follow`](super::super::follow).

use crate::conntrack::record::{Flags, Notes, Progress, Record, Rest, Side};
use crate::conntrack::time::TICK_SHIFT;
use crate::conntrack::tuple::{Role, Tuple};
use crate::conntrack::{Account, sctp, tcp};
use wire::IpProtocol;

pub(in crate::conntrack) const VERSION: u32 = 3;
/// What is written where connections are not counted.
pub(in crate::conntrack) const VERSION_UNCOUNTED: u32 = 2;
/// The oldest version that is read.
pub(in crate::conntrack) const VERSION_MIN: u32 = 1;

/// What became of an image's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restored {
    /// The tracker goes on with these.
    pub connections: u64,
    /// Their time was over.
    pub expired: u64,
    /// Their addresses and ports are those of a connection that the tracker has.
    pub known: u64,
    /// Connections of an image, untouched, that made way for one of the first.
    pub replaced: u64,
    /// Of followed ones, those that were there, untouched, and are as they are told now.
    pub renewed: u64,
    /// There was no room, by one of the tracker's limits.
    pub no_room: u64,
    /// Of the first, those whose block of ports is another's by now: they keep their ports, unbound.
    pub unbound: u64,
}

/// Nanoseconds until a tick begins.
pub(in crate::conntrack) fn until(tick: u32, now_ns: u64) -> u64 {
    (u64::from(tick) << TICK_SHIFT).saturating_sub(now_ns)
}

/// A connection's bits.
pub(in crate::conntrack) mod bit {
    pub(in crate::conntrack) const V6: u16 = 1;
    pub(in crate::conntrack) const QUERY: u16 = 2;
    pub(in crate::conntrack) const REPLIED: u16 = 4;
    pub(in crate::conntrack) const ASSURED: u16 = 8;
    pub(in crate::conntrack) const TRANSLATED: u16 = 16;
    pub(in crate::conntrack) const LABELLED: u16 = 32;
    pub(in crate::conntrack) const BOUND: u16 = 64;
    pub(in crate::conntrack) const COUNTED: u16 = 128;
    /// TCP's windows are left out.
    pub(in crate::conntrack) const LOOSE: u16 = 256;
    pub(in crate::conntrack) const ALL: u16 = 511;
}

/// A connection, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::conntrack) struct Entry {
    pub(in crate::conntrack) original: Tuple,
    pub(in crate::conntrack) reply: Tuple,
    pub(in crate::conntrack) replied: bool,
    pub(in crate::conntrack) assured: bool,
    pub(in crate::conntrack) state: u8,
    pub(in crate::conntrack) mark: u32,
    pub(in crate::conntrack) label: u128,
    pub(in crate::conntrack) left_ns: u64,
    /// Of UDP, nanoseconds until it is a stream.
    pub(in crate::conntrack) stream_ns: u64,
    pub(in crate::conntrack) progress: Progress,
    pub(in crate::conntrack) notes: Notes,
    pub(in crate::conntrack) bound: Option<u16>,
    pub(in crate::conntrack) account: Option<Account>,
    /// TCP's windows are left out: they are not checked where it goes on.
    pub(in crate::conntrack) loose: bool,
}

/// Addresses and ports.
fn write_tuple(tuple: &Tuple, out: &mut Vec<u8>) {
    for address in [tuple.src, tuple.dst] {
        match tuple.v6 {
            true => out.extend(address.to_le_bytes()),
            false => out.extend((address as u32).to_le_bytes()),
        }
    }
    out.extend(tuple.src_port.to_le_bytes());
    out.extend(tuple.dst_port.to_le_bytes());
}

/// Addresses and ports of a tuple that is otherwise like this one.
fn read_tuple(bytes: &mut &[u8], like: Tuple) -> Result<Tuple, &'static str> {
    let mut address = || match like.v6 {
        true => take(bytes).map(u128::from_le_bytes),
        false => take(bytes).map(|word| u32::from_le_bytes(word).into()),
    };
    let (src, dst) = (address()?, address()?);
    let src_port = u16::from_le_bytes(take(bytes)?);
    let dst_port = u16::from_le_bytes(take(bytes)?);
    Ok(Tuple { src, dst, src_port, dst_port, ..like })
}

/// A tuple without addresses and ports, by its bits.
fn blank(bits: u16, protocol: IpProtocol, zone: u16) -> Result<Tuple, &'static str> {
    let (v6, query) = (bits & bit::V6 != 0, bits & bit::QUERY != 0);
    if query && !matches!(protocol, IpProtocol::ICMP | IpProtocol::ICMPV6) {
        return Err("a query of a protocol that has none");
    }
    let role = if query { Role::Request } else { Role::Any };
    Ok(Tuple { src: 0, dst: 0, src_port: 0, dst_port: 0, zone, protocol, v6, role })
}

/// A connection that is gone, by its opener's tuple.
pub(in crate::conntrack) fn write_gone(tuple: &Tuple, out: &mut Vec<u8>) {
    let bits = if tuple.v6 { bit::V6 } else { 0 } | if tuple.is_query() { bit::QUERY } else { 0 };
    out.extend([bits as u8, tuple.protocol.0]);
    out.extend(tuple.zone.to_le_bytes());
    write_tuple(tuple, out);
}

pub(in crate::conntrack) fn read_gone(bytes: &mut &[u8]) -> Result<Tuple, &'static str> {
    let [bits, protocol] = take(bytes)?;
    let bits = u16::from(bits);
    if bits & !(bit::V6 | bit::QUERY) != 0 {
        return Err("a connection that is gone has a bit that means nothing");
    }
    let zone = u16::from_le_bytes(take(bytes)?);
    let like = blank(bits, IpProtocol(protocol), zone)?;
    read_tuple(bytes, like)
}

pub(in crate::conntrack) fn has_progress(protocol: IpProtocol) -> bool {
    matches!(protocol, IpProtocol::TCP | IpProtocol::SCTP)
}

pub(in crate::conntrack) fn has_stream(protocol: IpProtocol) -> bool {
    matches!(protocol, IpProtocol::UDP | IpProtocol::UDP_LITE)
}

impl Entry {
    pub(in crate::conntrack) fn write(&self, out: &mut Vec<u8>) {
        let Entry { original, reply, progress, notes, .. } = self;
        let translated = *reply != original.inverted();
        let bits = [
            (original.v6, bit::V6),
            (original.is_query(), bit::QUERY),
            (self.replied, bit::REPLIED),
            (self.assured, bit::ASSURED),
            (translated, bit::TRANSLATED),
            (self.label != 0, bit::LABELLED),
            (self.bound.is_some(), bit::BOUND),
            (self.account.is_some(), bit::COUNTED),
            (self.is_loose(), bit::LOOSE),
        ];
        let bits = bits.iter().filter(|(set, _)| *set).fold(0, |sum, (_, bit)| sum | bit);
        out.extend(bits.to_le_bytes());
        out.extend([original.protocol.0, self.state]);
        out.extend(original.zone.to_le_bytes());
        out.extend(self.mark.to_le_bytes());
        out.extend(self.left_ns.to_le_bytes());
        write_tuple(original, out);
        if translated {
            write_tuple(reply, out);
        }
        if self.label != 0 {
            out.extend(self.label.to_le_bytes());
        }
        if let Some(pool) = self.bound {
            out.extend(pool.to_le_bytes());
        }
        if self.is_loose() {
            out.extend(progress.said.map(|said| said & tcp::OFFERS));
            out.extend(progress.scales);
        } else if has_progress(original.protocol) {
            for side in &progress.sides {
                for word in [side.end, side.max_end, side.max_window, side.max_ack] {
                    out.extend(word.to_le_bytes());
                }
            }
            out.extend({ notes.last_ack }.to_le_bytes());
            out.extend({ notes.last_end }.to_le_bytes());
            out.extend(progress.last_window.to_le_bytes());
            out.extend(progress.last_len.to_le_bytes());
            out.extend(progress.said);
            out.extend(progress.scales);
            out.extend([progress.repeats, progress.last, notes.noted, notes.noted_scale]);
        } else if has_stream(original.protocol) {
            out.extend(self.stream_ns.to_le_bytes());
        }
        if let Some(Account { packets, octets }) = self.account {
            packets.iter().chain(&octets).for_each(|n| out.extend(n.to_le_bytes()));
        }
    }

    /// The connection at the front of `bytes`.
    pub(in crate::conntrack) fn read(bytes: &mut &[u8]) -> Result<Entry, &'static str> {
        let bits = u16::from_le_bytes(take(bytes)?);
        if bits & !bit::ALL != 0 {
            return Err("a connection has a bit that means nothing");
        }
        let [protocol, state] = take(bytes)?;
        let protocol = IpProtocol(protocol);
        let known = match protocol {
            IpProtocol::TCP => tcp::State::from_number(state) as u8,
            IpProtocol::SCTP => sctp::State::from_number(state) as u8,
            _ => 0,
        };
        if known != state {
            return Err("a state that its protocol does not have");
        }
        let zone = u16::from_le_bytes(take(bytes)?);
        let mark = u32::from_le_bytes(take(bytes)?);
        let left_ns = u64::from_le_bytes(take(bytes)?);
        let original = read_tuple(bytes, blank(bits, protocol, zone)?)?;
        let mut reply = original.inverted();
        if bits & bit::TRANSLATED != 0 {
            reply = read_tuple(bytes, reply)?;
            if reply == original.inverted() {
                return Err("a connection is translated to what it was");
            }
        }
        let mut label = 0;
        if bits & bit::LABELLED != 0 {
            label = u128::from_le_bytes(take(bytes)?);
        }
        let mut bound = None;
        if bits & bit::BOUND != 0 {
            bound = Some(u16::from_le_bytes(take(bytes)?));
        }
        let (mut progress, mut notes, mut stream_ns) = (Progress::NEW, Notes::NEW, 0);
        let loose = bits & bit::LOOSE != 0;
        if loose && protocol != IpProtocol::TCP {
            return Err("windows are left out of a protocol that has none");
        }
        if loose {
            progress.said = take(bytes)?.map(|said: u8| said & tcp::OFFERS | tcp::UNCHECKED);
            progress.scales = take(bytes)?;
            if progress.scales.iter().any(|scale| *scale > 14) {
                return Err("a window scale above 14");
            }
        } else if has_progress(protocol) {
            for side in &mut progress.sides {
                let mut word = || take(bytes).map(u32::from_le_bytes);
                let (end, max_end) = (word()?, word()?);
                *side = Side { end, max_end, max_window: word()?, max_ack: word()? };
            }
            notes.last_ack = u32::from_le_bytes(take(bytes)?);
            notes.last_end = u32::from_le_bytes(take(bytes)?);
            progress.last_window = u16::from_le_bytes(take(bytes)?);
            progress.last_len = u16::from_le_bytes(take(bytes)?);
            progress.said = take(bytes)?;
            progress.scales = take(bytes)?;
            [progress.repeats, progress.last, notes.noted, notes.noted_scale] = take(bytes)?;
            if progress.scales.iter().chain([&notes.noted_scale]).any(|scale| *scale > 14) {
                return Err("a window scale above 14");
            }
        } else if has_stream(protocol) {
            stream_ns = u64::from_le_bytes(take(bytes)?);
        }
        let mut account = None;
        if bits & bit::COUNTED != 0 {
            let mut word = || take(bytes).map(u64::from_le_bytes);
            account = Some(Account { packets: [word()?, word()?], octets: [word()?, word()?] });
        }
        let (replied, assured) = (bits & bit::REPLIED != 0, bits & bit::ASSURED != 0);
        let entry = Entry {
            original,
            reply,
            replied,
            assured,
            state,
            mark,
            label,
            left_ns,
            stream_ns,
            progress,
            notes,
            bound,
            account,
            loose,
        };
        Ok(entry)
    }

    fn is_loose(&self) -> bool {
        self.loose && self.original.protocol == IpProtocol::TCP
    }

    /// Its record; deadline and links are not set.
    pub(in crate::conntrack) fn record(&self) -> (Record, Rest) {
        let (mut record, mut rest) = Record::new(&self.original, &self.reply);
        record.set_state(self.state);
        (rest.mark, rest.notes) = (self.mark, self.notes);
        record.progress = self.progress.with(record.flags());
        let flags = record.flags_mut();
        flags.set(Flags::REPLIED.when(self.replied));
        flags.set(Flags::ASSURED.when(self.assured));
        flags.set(Flags::MARKED.when(self.mark != 0 || self.label != 0));
        (record, rest)
    }
}

/// The octets at the front.
pub(in crate::conntrack) fn take<const N: usize>(
    bytes: &mut &[u8],
) -> Result<[u8; N], &'static str> {
    let (front, rest) = bytes.split_first_chunk().ok_or("it is cut short")?;
    *bytes = rest;
    Ok(*front)
}
