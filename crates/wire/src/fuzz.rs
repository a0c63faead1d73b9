//! The body of the fuzz target `wire`: every view, value and walk of the crate on any bytes.
//!
//! Nothing may panic, and what holds of all input is asserted: a value that was parsed can be
//! written, and reads back as itself; layers lie within the frame and in order; what was filled
//! verifies. The unit tests run the same on random bytes and on damaged frames, so that a stable
//! toolchain suffices to check it.

use std::fmt::Debug;
use std::hint::black_box;

use crate::checksum::{Pseudo, Sum};
use crate::layers::{Fragment, Layers};
use crate::*;

/// Runs everything on `data`.
///
/// # Panics
/// When the crate is wrong.
pub fn fuzz_all(data: &[u8]) {
    views(data);
    setters(data);
    frame(data);
}

/// Parses, writes, reads again, compares.
macro_rules! round_trip {
    ($module:ident, $view:expr) => {
        round_trip!($module, $view, 0)
    };
    ($module:ident, $view:expr, $payload:expr) => {
        if let Ok(repr) = $module::Repr::parse(&$view) {
            let payload: usize = $payload;
            let mut out = vec![0; repr.buffer_len() + payload];
            same(stringify!($module), &repr, repr.emit(&mut out), || {
                $module::Packet::new_checked(&out[..]).and_then(|view| $module::Repr::parse(&view))
            });
        }
    };
}

fn same<R: Debug + PartialEq>(
    name: &str,
    repr: &R,
    emitted: Result<(), Error>,
    again: impl FnOnce() -> Result<R, Error>,
) {
    assert_eq!(emitted, Ok(()), "{name}: {repr:?} was read and cannot be written");
    assert_eq!(again().as_ref(), Ok(repr), "{name} does not read back");
}

/// Looks at values so that no access is optimised away.
macro_rules! look {
    ($view:ident: $($accessor:ident)*) => { $( black_box($view.$accessor()); )* };
}

fn views(data: &[u8]) {
    link_views(data);
    network_views(data);
    transport_views(data);
    tunnel_views(data);
}

fn link_views(data: &[u8]) {
    if let Ok(v) = ethernet::Packet::new_checked(data) {
        look!(v: dst src ethertype payload as_bytes);
        if !v.ethertype().is_length() {
            round_trip!(ethernet, v);
        }
    }
    if let Ok(v) = vlan::Packet::new_checked(data) {
        look!(v: tci pcp dei vid ethertype payload);
        round_trip!(vlan, v);
    }
    for tpid in [EtherType::VLAN, EtherType::SVLAN] {
        let mut tags = vlan::Tags::new(tpid, data);
        assert!(tags.by_ref().count() <= data.len() / 4 + 1);
        black_box((tags.ethertype(), tags.rest()));
    }
    if let Ok(v) = pbb::Packet::new_checked(data) {
        look!(v: pcp dei uca isid customer_dst customer_src payload);
        round_trip!(pbb, v, ethernet::HEADER_LEN);
    }
    if let Ok(v) = mpls::Packet::new_checked(data) {
        look!(v: label tc bottom ttl payload);
        round_trip!(mpls, v);
    }
    let mut stack = mpls::Stack::new(data);
    assert!(stack.by_ref().count() <= data.len() / 4 + 1);
    black_box(mpls::guess_payload(stack.rest()));
    if let Ok(v) = arp::Packet::new_checked(data) {
        look!(v: hardware_type protocol_type hardware_len protocol_len operation sender_hardware
            sender_protocol target_hardware target_protocol is_ethernet_ipv4);
        round_trip!(arp, v);
    }
}

fn network_views(data: &[u8]) {
    let _ = ipv4::Packet::new_header_checked(data).map(|v| ipv4_view(&v));
    if let Ok(v) = ipv4::Packet::new_checked(data) {
        ipv4_view(&v);
        round_trip!(ipv4, v, v.payload().len());
        // With its checksum mended, any header is read.
        let mut mended = ipv4::Packet::new_checked(data.to_vec()).expect("checked above");
        mended.fill_checksum();
        assert!(mended.verify_checksum());
        let len = mended.payload().len();
        assert!(ipv4::Repr::parse(&mended).is_ok());
        round_trip!(ipv4, mended, len);
    }
    let _ = ipv6::Packet::new_header_checked(data).map(|v| ipv6_view(&v));
    if let Ok(v) = ipv6::Packet::new_checked(data) {
        ipv6_view(&v);
        if v.payload_len() != 0 {
            round_trip!(ipv6, v, v.payload().len());
        }
    }
    if let Some((first, rest)) = data.split_first() {
        extensions(ipv6::ext::Chain::new(IpProtocol(*first), rest), rest.len());
    }
}

fn ipv4_view(v: &ipv4::Packet<&[u8]>) {
    look!(v: version ihl tos dscp ecn total_len ident dont_fragment more_fragments ttl protocol
        fragment_offset_words fragment_offset is_fragment checksum src dst final_dst header_len
        options_bytes payload verify_checksum);
    assert!(v.options().count() <= 40);
}

fn ipv6_view(v: &ipv6::Packet<&[u8]>) {
    look!(v: version traffic_class dscp ecn flow_label payload_len next_header hop_limit src dst
        header_len payload final_dst);
    extensions(v.extensions(), v.payload().len());
}

fn extensions(chain: ipv6::ext::Chain<'_>, len: usize) {
    let mut at = 0;
    for header in chain {
        let Ok(header) = header else { break };
        assert_eq!(header.offset, at);
        at += header.bytes.len();
        look!(header: fragment routing_type segments_left last_segment);
        assert!(header.options().count() <= header.bytes.len());
        if let Some(fragment) = header.fragment() {
            let mut out = [0; 8];
            fragment.emit(header.next, &mut out).expect("its offset was in the header");
            let again = ipv6::ext::Chain::new(header.kind, &out).next();
            assert_eq!(again.and_then(Result::ok).and_then(|h| h.fragment()), Some(fragment));
        }
    }
    assert!(at <= len);
    let seen = ipv6::ext::Seen::of(chain);
    match chain.end() {
        Ok(end) => assert!(end.offset == at && !seen.broken),
        Err(_) => assert!(seen.broken),
    }
}

fn transport_views(data: &[u8]) {
    let pseudos = [
        Pseudo::from((std::net::Ipv4Addr::LOCALHOST, std::net::Ipv4Addr::LOCALHOST)),
        Pseudo::from((std::net::Ipv6Addr::LOCALHOST, std::net::Ipv6Addr::LOCALHOST)),
    ];
    if let Ok(v) = tcp::Packet::new_checked(data) {
        look!(v: src_port dst_port seq ack data_offset flags_bits flags window urgent checksum
            header_len options_bytes payload);
        assert!(v.options().count() <= 40);
        round_trip!(tcp, v);
    }
    let _ = udp::Packet::new_header_checked(data).map(|v| black_box(v.payload().len()));
    if let Ok(v) = udp::Packet::new_checked(data) {
        look!(v: src_port dst_port len checksum is_empty payload);
        round_trip!(udp, v, v.payload().len());
    }
    if let Ok(v) = sctp::Packet::new_checked(data) {
        look!(v: src_port dst_port tag checksum payload verify_checksum);
        for chunk in v.chunks().flatten() {
            black_box(chunk.name());
        }
        round_trip!(sctp, v);
    }
    if let Ok(v) = icmpv4::Packet::new_checked(data) {
        look!(v: kind code checksum rest ident sequence payload is_error verify_checksum);
        round_trip!(icmpv4, v);
    }
    if let Ok(v) = icmpv6::Packet::new_checked(data) {
        look!(v: kind code checksum rest ident sequence payload is_error is_ndp);
        round_trip!(icmpv6, v);
    }
    if let Ok(v) = ndp::Packet::new_checked(data) {
        look!(v: kind code target redirect_dst router solicited overrides source_link target_link);
        assert!(v.options().all(|option| option.is_ok()));
        round_trip!(ndp, v);
    }
    // What is filled verifies.
    for pseudo in &pseudos {
        if let Ok(mut v) = tcp::Packet::new_checked(data.to_vec()) {
            v.fill_checksum(pseudo);
            assert!(v.verify_checksum(pseudo));
        }
        if let Ok(mut v) = udp::Packet::new_checked(data.to_vec()) {
            v.fill_checksum(pseudo);
            assert!(v.checksum() != 0 && v.verify_checksum(pseudo));
        }
        if let Ok(mut v) = icmpv6::Packet::new_checked(data.to_vec()) {
            v.fill_checksum(pseudo);
            assert!(v.verify_checksum(pseudo));
        }
    }
    if let Ok(mut v) = sctp::Packet::new_checked(data.to_vec()) {
        v.fill_checksum();
        assert!(v.verify_checksum());
    }
    if let Ok(mut v) = icmpv4::Packet::new_checked(data.to_vec()) {
        v.fill_checksum();
        assert!(v.verify_checksum());
    }
    // A sum does not depend on how its bytes are cut.
    let at = data.first().map_or(0, |octet| usize::from(*octet)).min(data.len());
    let mut sum = Sum::new();
    sum.add_bytes(&data[..at]);
    sum.add_bytes(&data[at..]);
    assert_eq!(sum.finish(), checksum::checksum(data));
}

fn tunnel_views(data: &[u8]) {
    if let Ok(v) = vxlan::Packet::new_checked(data) {
        look!(v: flags has_vni vni payload);
        round_trip!(vxlan, v);
    }
    if let Ok(v) = geneve::Packet::new_checked(data) {
        look!(v: version options_words vni control critical protocol header_len payload);
        assert!(v.options().count() <= 63);
        round_trip!(geneve, v);
    }
    if let Ok(v) = gre::Packet::new_checked(data) {
        look!(v: has_checksum has_key has_sequence protocol header_len checksum key sequence payload
            verify_checksum);
        round_trip!(gre, v);
        let mut filled = gre::Packet::new_checked(data.to_vec()).expect("checked above");
        filled.fill_checksum();
        assert!(filled.verify_checksum());
    }
    if let Ok(v) = gtpu::Packet::new_checked(data) {
        look!(v: kind len teid sequence npdu is_empty header_len payload);
        round_trip!(gtpu, v, v.payload().len());
    }
}

/// Setters on fields that decide lengths, after which accessors must clamp.
fn setters(data: &[u8]) {
    let octet = data.last().copied().unwrap_or(0);
    let word = u16::from(octet) << 8 | u16::from(octet);
    if let Ok(mut v) = ethernet::Packet::new_checked(data.to_vec()) {
        v.set_ethertype(EtherType(word));
        look!(v: payload);
        v.payload_mut().fill(octet);
    }
    if let Ok(mut v) = arp::Packet::new_checked(data.to_vec()) {
        v.set_hardware_len(octet);
        v.set_protocol_len(!octet);
        look!(v: sender_hardware sender_protocol target_hardware target_protocol);
    }
    if let Ok(mut v) = ipv4::Packet::new_checked(data.to_vec()) {
        v.set_ihl(octet);
        v.set_total_len(word);
        v.fill_checksum();
        look!(v: options_bytes payload final_dst verify_checksum);
        v.payload_mut().fill(octet);
        black_box(v.options().count());
    }
    if let Ok(mut v) = ipv6::Packet::new_checked(data.to_vec()) {
        v.set_next_header(IpProtocol(octet & 0x3f));
        v.set_payload_len(word);
        look!(v: payload final_dst);
        v.payload_mut().fill(octet);
    }
    if let Ok(mut v) = tcp::Packet::new_checked(data.to_vec()) {
        v.set_data_offset(octet);
        look!(v: options_bytes payload);
        black_box(v.options().count());
    }
    if let Ok(mut v) = udp::Packet::new_checked(data.to_vec()) {
        v.set_len(word);
        look!(v: payload);
        v.payload_mut().fill(octet);
    }
    if let Ok(mut v) = ndp::Packet::new_checked(data.to_vec()) {
        black_box(v.set_source_link(MacAddr::BROADCAST));
        black_box(v.set_target_link(MacAddr::BROADCAST));
        v.set_kind(octet);
        look!(v: source_link target_link);
    }
    if let Ok(mut v) = geneve::Packet::new_checked(data.to_vec()) {
        v.set_options_words(octet);
        look!(v: payload);
        black_box(v.options().count());
    }
    if let Ok(mut v) = gre::Packet::new_checked(data.to_vec()) {
        v.set_has_checksum(true);
        v.set_has_key(true);
        v.set_has_sequence(true);
        v.set_key(7);
        v.fill_checksum();
        look!(v: checksum key sequence payload);
    }
    if let Ok(mut v) = gtpu::Packet::new_checked(data.to_vec()) {
        v.set_has_extensions(true);
        v.set_len(word);
        look!(v: header_len payload);
    }
}

/// What takes whole frames.
fn frame(data: &[u8]) {
    for layers in [Layers::of(data), Layers::of_ip(data)] {
        assert!(layers.l3_end <= data.len());
        let marks = [layers.l3, layers.l4, layers.checksum_at];
        let marks: Vec<usize> = marks.into_iter().flatten().collect();
        assert!(marks.is_sorted() && marks.iter().all(|at| *at <= layers.l3_end), "{layers:?}");
        if let (Some(l3), Some(l4)) = (layers.l3, layers.l4) {
            assert!(l4 >= l3 + ipv4::HEADER_LEN);
        }
        assert!(layers.checksum_at.is_none_or(|at| at + 2 <= layers.l3_end));
        black_box(layers.checksum_kind());
    }
    let line = summary(data);
    assert!(!line.contains('\n') && line.ends_with(&format!("len {}", data.len())));
    black_box(tree(data));

    let mut partial = data.to_vec();
    if let Ok(place) = pseudo_header_partial(&mut partial) {
        let layers = Layers::of(data);
        assert_eq!(layers.fragment, Fragment::Whole);
        let (start, offset) = (usize::from(place.start), usize::from(place.offset));
        assert_eq!(layers.checksum_at, Some(start + offset));
        partial.truncate(layers.l3_end);
        complete_partial_checksum(&mut partial, start, offset).expect("the field is in the frame");
        // Of the network header, only the transport checksum was written.
        let verified = offload::verify_checksums(&partial);
        let ip = matches!(verified, Err(Error::Checksum { what: "ipv4 header", .. }));
        assert!(ip || verified == Ok(()), "{verified:?}");
    }
    let mut filled = data.to_vec();
    if offload::fill_checksums(&mut filled).is_ok() {
        assert_eq!(offload::verify_checksums(&filled), Ok(()));
    }
    let _ = offload::verify_checksums(data);
    if let [a, b, rest @ ..] = data {
        let mut rest = rest.to_vec();
        let _ = complete_partial_checksum(&mut rest, usize::from(*a), usize::from(*b));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(mac) = text.parse::<MacAddr>()
    {
        assert_eq!(mac.to_string().parse(), Ok(mac));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rng, frames};

    #[test]
    fn random_bytes() {
        let mut rng = Rng::new(0x7769_7265);
        for _ in 0..100_000 {
            let len = rng.below(120);
            let mut data = rng.bytes(len);
            // Let the views' first checks pass more often than chance would.
            if let Some(first) = data.first_mut() {
                let lead = [0x45, 0x4f, 0x60, 0x30, 0x36, 0x20, 0xb0, 135, 134, 137];
                let pick = rng.below(2 * lead.len());
                *first = lead.get(pick).copied().unwrap_or(*first);
            }
            fuzz_all(&data);
        }
    }

    #[test]
    fn damaged_frames() {
        let frames = frames();
        let mut rng = Rng::new(0x0066_7261_6d65);
        for _ in 0..30_000 {
            let mut frame = frames[rng.below(frames.len())].1.clone();
            // A whole frame, or one of the layers within it.
            frame.drain(..[0, 0, 14, 34][rng.below(4)].min(frame.len()));
            for _ in 0..rng.below(4) {
                if frame.is_empty() {
                    break;
                }
                let at = rng.below(frame.len());
                match rng.below(4) {
                    0 => frame[at] = rng.next_u64() as u8,
                    1 => frame[at] ^= 1 << rng.below(8),
                    2 => frame.truncate(at),
                    _ => frame.insert(at, [0, 1, 43, 44, 60, 0xff][rng.below(6)]),
                }
            }
            fuzz_all(&frame);
        }
    }

    #[test]
    fn every_length_of_one_octet() {
        for octet in [0x00, 0x01, 0x45, 0x60, 0x81, 0x88, 0xff] {
            for len in 0..400 {
                fuzz_all(&vec![octet; len]);
            }
        }
    }
}
