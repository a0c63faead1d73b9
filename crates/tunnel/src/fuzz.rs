//! The body of the fuzz target `tunnel`, which a unit test runs too. Hidden: only tests and the fuzz target call it.
//!
//! Options of ports: what is read is written and read again the same. Packets: any octets are refused, left alone, or taken;
//! of what is taken, the inner frame is sent again by a port whose values are those of the flow, and read as the same. Inner
//! frames are joined with others that follow them, and cut again into the same octets.

use std::time::Instant;

use contract::tunnel::OptionMap;
use port::{Frame, Pool, gro::Gro, gso};
use wire::IpProtocol;
use wire::layers::Layers;

use crate::config::{Config, Kind};
use crate::fragments::{Fragment, Fragments, PACKETS_MAX};
use crate::headers::{HEADERS_MAX, Outgoing, Packet, Path};
use crate::inner::decapsulate;
use crate::parse::{Received, concerns};
use crate::table::Table;

/// Ports of every kind that take all packets, and the map of their options.
fn ports() -> (Table<Outgoing>, OptionMap) {
    let mut table = Table::default();
    for kind in Kind::ALL {
        let own = match kind {
            Kind::Vxlan => ",exts=gbp",
            Kind::Erspan => ",erspan_ver=flow,erspan_idx=flow,erspan_dir=flow,erspan_hwid=flow",
            Kind::Geneve => "",
            Kind::Gre => ",csum=true",
        };
        let text = format!("remote_ip=flow,local_ip=flow,key=flow{own}");
        let config = Config::parse(kind, &text).expect("options of a port");
        table.add(&config, Outgoing::new(config.clone())).expect("one of each kind");
    }
    let options = [(0, 0xffff, 0x80, 4), (5, 0x102, 1, 16), (63, 0x103, 2, 8)];
    (table, OptionMap::new(7, &options).expect("a map"))
}

/// Runs everything on `data`.
///
/// # Panics
/// When the crate is wrong.
pub fn tunnel(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    if let Some(kind) = Kind::ALL.get(usize::from(first & 7)) {
        if let Ok(text) = std::str::from_utf8(rest)
            && let Ok(config) = Config::parse(*kind, text)
        {
            assert_eq!(Config::parse(*kind, &config.to_string()), Ok(config), "{text:?}");
        }
    } else if first & 7 == 7 {
        fragments(rest);
    } else {
        packet(rest, first & 8 != 0);
    }
}

/// Packets one behind the other, each with its length in front, as fragments. What becomes whole is a packet that says its
/// own length.
fn fragments(mut data: &[u8]) {
    let (mut all, now) = (Fragments::default(), Instant::now());
    while let Some((len, rest)) = data.split_first() {
        let (packet, behind) = rest.split_at(rest.len().min(usize::from(*len)));
        data = behind;
        let Some(fragment) = Fragment::read(packet) else { continue };
        let whole = all.add(&fragment, now, &mut |_| {});
        assert!(all.len() <= PACKETS_MAX);
        if let Some(whole) = whole {
            assert!(whole[0] >> 4 != 4 || Fragment::read(&whole).is_none());
            let said = match whole[0] >> 4 {
                4 => usize::from(u16::from_be_bytes([whole[2], whole[3]])),
                _ => 40 + usize::from(u16::from_be_bytes([whole[4], whole[5]])),
            };
            assert_eq!(said, whole.len());
            self::packet(&whole, false);
        }
    }
}

/// Takes a packet, and sends what it carries.
pub(crate) fn packet(packet: &[u8], valid: bool) -> bool {
    let (table, map) = ports();
    let read = Received::read(packet, &table, valid);
    assert!(read == Ok(None) || concerns(packet, &table).is_some(), "{read:?}");
    let Ok(Some(received)) = read else { return false };
    assert_eq!(concerns(packet, &table), Some(received.local));
    let mut frame = vec![0; map.descriptor_len()];
    let Ok(len) = received.describe(packet, &map, &mut frame) else { return false };
    assert_eq!(len, frame.len());
    let out = table.find(&received).expect("all packets are taken");
    assert_eq!(received.suits(out.config()), Ok(()));
    let mut inner = packet[received.inner.clone()].to_vec();
    let before = inner.clone();
    if decapsulate(u8::MAX, &mut inner).is_ok() {
        assert_eq!(inner.len(), before.len());
    }
    frame.extend(&before);
    joined(&before);
    // Back to where it came from: its destination is its source.
    let sent = Packet::read(&frame, &map).expect("what was described");
    let stamp = 7;
    let path = Path {
        remote: received.local,
        source: received.remote,
        local_mac: [2; 6],
        next_mac: [4; 6],
        stamp,
    };
    let mut room = [0; HEADERS_MAX];
    let Ok(headers) = out.write(&sent, &path, &mut room) else { return false };
    let mut again = room[14..headers].to_vec();
    again.extend(&before);
    let second = Received::read(&again, &table, false).expect("what we sent is right");
    let second = second.expect("it is for a tunnel");
    assert_eq!(again[second.inner.clone()], before);
    assert_eq!(
        (second.id, second.gbp),
        (received.id, sent.fields.gbp_id != 0 || sent.fields.gbp_flags != 0)
    );
    let mut described = vec![0; map.descriptor_len()];
    second.describe(&again, &map, &mut described).expect("options that were mapped");
    // TOS and TTL are the port's.
    frame.truncate(len);
    frame[4..6].copy_from_slice(&described[4..6]);
    assert_eq!(described, frame);
    true
}

/// The frame that comes behind this one of a TCP connection, with right checksums.
fn following(frame: &[u8]) -> Option<Vec<u8>> {
    let layers = Layers::of(frame);
    let (l3, l4) = (layers.l3?, layers.l4?);
    let mut next = frame.to_vec();
    if layers.protocol? != IpProtocol::TCP || next.len() < l4 + 20 {
        return None;
    }
    let payload = next.len().checked_sub(l4 + usize::from(next[l4 + 12] >> 4) * 4)?;
    let seq = u32::from_be_bytes(*next[l4 + 4..].first_chunk()?).wrapping_add(payload as u32);
    next[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
    if next[l3] >> 4 == 4 {
        let id = u16::from_be_bytes([next[l3 + 4], next[l3 + 5]]).wrapping_add(1);
        next[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
    }
    wire::offload::fill_checksums(&mut next).ok()?;
    // Zero has two forms.
    if next[l4 + 16..l4 + 18] == [0; 2] {
        next[l4 + 16..l4 + 18].fill(0xff);
    }
    Some(next)
}

/// Joins a frame with those that follow it; says whether some were joined.
fn joined(first: &[u8]) -> bool {
    let mut all = vec![first.to_vec()];
    while all.len() < 4
        && let Some(next) = following(&all[all.len() - 1])
    {
        all.push(next);
    }
    let (mut gro, mut pool, mut out) = (Gro::default(), Pool::new(), Vec::new());
    for frame in &all {
        gro.add(Frame::copy_of(frame), 0, &mut pool, |frame| out.push(frame));
    }
    gro.flush(|frame| out.push(frame));
    let is_joined = out.len() < all.len();
    let mut cut = Vec::new();
    for frame in &out {
        gso::complete(frame, &mut pool, |part| cut.push(part.data().to_vec()))
            .expect("a frame that was joined");
    }
    assert_eq!(cut, all);
    is_joined
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_follows_is_joined() {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 43, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 1, 0, 0, 0, 0, 7, 8, 9]);
        assert!(super::joined(&frame));
        frame[14] = 0x46;
        assert!(!super::joined(&frame));
        assert!(!super::joined(&frame[..30]));
    }
}
