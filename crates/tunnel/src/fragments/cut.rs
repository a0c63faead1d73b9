//! IPv4 packets cut into fragments (RFC 791 §3.2), for ways that do not cut them: the kernel's sockets refuse what is longer
//! than the MTU.

use std::ops::ControlFlow;

use wire::checksum;

const HEADER: usize = 20;

/// Gives a packet to `each`, in fragments of at most `mtu` octets if it is longer. None of them is given, and false comes back, if
/// that cannot be: it is no IPv4 packet without options, has DF, or the MTU has no room for 8 octets.
pub fn cut<B>(
    packet: &[u8],
    mtu: usize,
    mut each: impl FnMut(&[u8]) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, NotCut> {
    if packet.len() <= mtu {
        return Ok(each(packet));
    }
    let Some((header, payload)) = packet.split_first_chunk::<HEADER>() else { return Err(NotCut) };
    let bits = u16::from_be_bytes([header[6], header[7]]);
    let room = mtu.saturating_sub(HEADER) / 8 * 8;
    if header[0] != 0x45 || bits & 0x4000 != 0 || room == 0 {
        return Err(NotCut);
    }
    let mut fragment = Vec::with_capacity(HEADER + room);
    let parts = payload.len().div_ceil(room);
    for (index, part) in payload.chunks(room).enumerate() {
        let more = bits & 0x2000 != 0 || index + 1 < parts;
        let at = (bits & 0x1fff) + (index * room / 8) as u16;
        fragment.clear();
        fragment.extend_from_slice(header);
        fragment[2..4].copy_from_slice(&((HEADER + part.len()) as u16).to_be_bytes());
        fragment[6..8].copy_from_slice(&(at | (u16::from(more) << 13)).to_be_bytes());
        fragment[10..12].fill(0);
        let sum = checksum::checksum(&fragment);
        fragment[10..12].copy_from_slice(&sum.to_be_bytes());
        fragment.extend_from_slice(part);
        if let ControlFlow::Break(why) = each(&fragment) {
            return Ok(ControlFlow::Break(why));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A packet that cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCut;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::fragments::tests::packet;
    use crate::fragments::{Fragment, Fragments};

    fn pieces(packet: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, NotCut> {
        let mut all = Vec::new();
        let done = cut(packet, mtu, |piece| {
            all.push(piece.to_vec());
            ControlFlow::<()>::Continue(())
        })?;
        assert!(done.is_continue());
        Ok(all)
    }

    #[test]
    fn what_is_cut_comes_back_whole() {
        for (len, mtu, count) in [(1480, 1500, 1), (1481, 1500, 2), (3000, 1500, 3), (100, 28, 13)]
        {
            let whole = packet(false, 3, len);
            let all = pieces(&whole, mtu).expect("it is cut");
            assert_eq!(all.len(), count);
            assert!(all.iter().all(|piece| piece.len() <= mtu));
            let (mut fragments, mut got) = (Fragments::default(), None);
            for piece in &all {
                match Fragment::read(piece) {
                    Some(fragment) => {
                        let mut lost = |reason| panic!("{reason}");
                        got = fragments.add(&fragment, Instant::now(), &mut lost);
                    }
                    None => got = Some(piece.clone()),
                }
            }
            assert_eq!(got, Some(whole));
        }
    }

    #[test]
    fn what_must_not_be_cut_is_not() {
        let mut whole = packet(false, 3, 3000);
        assert_eq!(pieces(&whole, 27), Err(NotCut));
        whole[6] = 0x40;
        assert_eq!(pieces(&whole, 1500), Err(NotCut));
        assert_eq!(pieces(&packet(true, 3, 3000), 1500), Err(NotCut));
        assert_eq!(pieces(&[0x45; 12], 8), Err(NotCut));
        // A fragment is cut further.
        let mut part = packet(false, 3, 64);
        part[6..8].copy_from_slice(&[0x20, 2]);
        let all = pieces(&part, 60).expect("it is cut");
        let at: Vec<[u8; 2]> = all.iter().map(|piece| [piece[6], piece[7]]).collect();
        assert_eq!(at, [[0x20, 2], [0x20, 7]]);
        // Whoever stops is heard.
        let mut given = 0;
        let stops = cut(&packet(false, 3, 3000), 1500, |_| {
            given += 1;
            ControlFlow::Break(5)
        });
        assert_eq!((stops, given), (Ok(ControlFlow::Break(5)), 1));
    }
}
