//! Checksum fields, and what each covers.
//!
//! All but SCTP's are adjusted by what changed (RFC 1624), so a checksum that came in wrong leaves
//! as wrong as it was, and inputs that no action can change need not be listed. TCP's and UDP's are
//! listed once for each version of IP, since a pipeline often changes one of them only. A packet has
//! one of them at most: the parser takes one, and no action adds or removes one.
//!
//! Layer 4 covers the protocol number of the pseudo-header (IPv6: the last next header):
//! `set_field:ip_proto` adjusts the checksum of the header that was parsed. Behind a routing header
//! with segments left, the pseudo-header has the final destination (RFC 8200 §8.1), not the one in
//! the IPv6 header.

use super::headers::Headers;
use ir::builder::Builder;
use ir::{Checksum, ChecksumAlgorithm, ChecksumMode, Expr, FieldRef};

/// Declares all checksums.
pub(super) fn declare(b: &mut Builder, h: &Headers) {
    let f = |field: FieldRef| Expr::Field(field);
    let incremental = |field: FieldRef, inputs: Vec<Expr>, zero_is_none: bool| Checksum {
        field,
        algorithm: ChecksumAlgorithm::Csum16,
        mode: ChecksumMode::Incremental,
        inputs,
        payload: false,
        condition: None,
        zero_is_none,
    };
    let ipv4 = [h.ipv4_version, h.ipv4_ihl, h.ipv4_dscp, h.ipv4_ecn, h.ipv4_ttl, h.ipv4_proto]
        .into_iter()
        .chain([h.ipv4_src, h.ipv4_dst])
        .map(f)
        .collect();
    b.checksum(incremental(h.ipv4_csum, ipv4, false));

    let ipv6_dst = Expr::Mux(
        Box::new(Expr::meta(h.routed)),
        Box::new(Expr::int(0, 128)),
        Box::new(f(h.ipv6_dst)),
    );
    let last_next = Expr::Mux(
        Box::new(Expr::Valid(h.ipv6_ext_0)),
        Box::new(f(h.ipv6_ext_last_next)),
        Box::new(f(h.ipv6_next)),
    );
    let pseudo4 = [f(h.ipv4_src), f(h.ipv4_dst), f(h.ipv4_proto).cast(16)];
    let pseudo6 = [f(h.ipv6_src), ipv6_dst, last_next.cast(16)];
    let tcp = (h.tcp_csum, [f(h.tcp_src), f(h.tcp_dst)], false);
    let udp = (h.udp_csum, [f(h.udp_src), f(h.udp_dst)], true);
    // Of fragments whose fields are not shown, the addresses alone may change.
    let first = [(h.first_tcp_csum, false), (h.first_udp_csum, true)];
    let of = |(field, ports, none): (_, [Expr; 2], _)| (field, ports.to_vec(), none);
    let all = [tcp, udp].map(of).into_iter();
    for (field, ports, zero_is_none) in all.chain(first.map(|(f, none)| (f, Vec::new(), none))) {
        for (version, pseudo) in [(h.ipv4, &pseudo4), (h.ipv6, &pseudo6)] {
            let inputs = pseudo.iter().chain(&ports).cloned().collect();
            let condition = Some(Expr::Valid(version));
            b.checksum(Checksum { condition, ..incremental(field, inputs, zero_is_none) });
        }
    }
    b.checksum(incremental(h.icmp_csum, vec![f(h.icmp_type), f(h.icmp_code)], false));
    let icmpv6 = [h.icmpv6_type, h.icmpv6_code, h.nd_target, h.nd_sll_addr, h.nd_tll_addr].map(f);
    b.checksum(incremental(h.first_icmpv6_csum, pseudo6.to_vec(), false));
    let inputs = pseudo6.into_iter().chain(icmpv6).collect();
    b.checksum(incremental(h.icmpv6_csum, inputs, false));

    // A fragment's payload is only part of what the CRC covers.
    let whole = Expr::Mux(
        Box::new(Expr::Valid(h.ipv4)),
        Box::new(f(h.ipv4_frag).eq(Expr::int(0, 14))),
        Box::new(Expr::meta(h.fragment).eq(Expr::int(0, 2))),
    );
    let header = vec![f(h.sctp_src), f(h.sctp_dst), f(h.sctp_vtag), Expr::int(0, 32)];
    let crc = |inputs: Vec<Expr>, payload: bool, condition: Expr| Checksum {
        field: h.sctp_csum,
        algorithm: ChecksumAlgorithm::Crc32c,
        mode: ChecksumMode::IfChanged,
        inputs,
        payload,
        condition: Some(condition.and(whole.clone())),
        zero_is_none: false,
    };
    // Of a short packet, the payload is padding.
    let mut long = Expr::Valid(h.sctp);
    for (short, chunks) in h.sctp_short.into_iter().zip(h.sctp_short_data) {
        let inputs = header.iter().cloned().chain([f(chunks)]).collect();
        b.checksum(crc(inputs, false, Expr::Valid(short)));
        long = long.and(Expr::Valid(short).not());
    }
    b.checksum(crc(header, true, long));
}
