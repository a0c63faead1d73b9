//! Checksum fields, and what each covers.
//!
//! All but SCTP's are adjusted by what changed (RFC 1624), so a checksum that came in wrong leaves
//! as wrong as it was, and inputs that no action can change need not be listed. A field of a header
//! that the packet lacks reads as zero before and after, so IPv4's and IPv6's addresses are listed
//! together.
//!
//! Layer 4 covers the protocol number of the pseudo-header (IPv6: the last next header):
//! `set_field:ip_proto` adjusts the checksum of the header that was parsed. Behind a routing header with segments left, the
//! pseudo-header has the final destination (RFC 8200 §8.1), not the one in the IPv6 header.

use super::headers::Headers;
use ir::builder::Builder;
use ir::{BinaryOp, Checksum, ChecksumAlgorithm, ChecksumMode, Expr, FieldRef};

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
    let proto = Expr::binary(BinaryOp::Or, f(h.ipv4_proto), last_next);
    let pseudo = [f(h.ipv4_src), f(h.ipv4_dst), f(h.ipv6_src), ipv6_dst, proto.cast(16)];
    let with_pseudo = |more: Vec<Expr>| pseudo.iter().cloned().chain(more).collect();
    b.checksum(incremental(h.tcp_csum, with_pseudo(vec![f(h.tcp_src), f(h.tcp_dst)]), false));
    b.checksum(incremental(h.udp_csum, with_pseudo(vec![f(h.udp_src), f(h.udp_dst)]), true));
    b.checksum(incremental(h.icmp_csum, vec![f(h.icmp_type), f(h.icmp_code)], false));
    let icmpv6 = vec![
        f(h.icmpv6_type),
        f(h.icmpv6_code),
        f(h.nd_target),
        f(h.nd_sll_addr),
        f(h.nd_tll_addr),
    ];
    b.checksum(incremental(h.icmpv6_csum, with_pseudo(icmpv6), false));

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
