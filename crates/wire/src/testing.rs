//! What the unit tests share: a small seeded generator, and the hostile checks every view passes.

use std::fmt::Debug;

use crate::Error;

/// SplitMix64: small, seeded, good enough to draw test bytes with.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next_u64() as u8).collect()
    }
}

/// Every strict prefix of `valid` shorter than `need` is refused as truncated, and from `need` on
/// nothing panics; `valid` itself is accepted.
pub(crate) fn truncations<V: Debug>(
    valid: &[u8],
    need: usize,
    check: impl Fn(&[u8]) -> Result<V, Error>,
) {
    for len in 0..valid.len() {
        let result = check(&valid[..len]);
        if len < need {
            match result {
                Err(Error::Truncated { need, have, .. }) => {
                    assert!(have < need, "need {need} have {have}");
                }
                other => panic!("{len} octets of {}: {other:?}", valid.len()),
            }
        }
    }
    check(valid).expect("the whole packet is valid");
}

/// One frame of each kind, built by the values' `emit`, with its name.
pub(crate) fn frames() -> Vec<(&'static str, Vec<u8>)> {
    frames::all()
}

mod frames {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use crate::{EtherType as E, IpProtocol as P, MacAddr, offload, *};

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    /// `header` written by `emit`, then `payload`.
    macro_rules! put {
        ($repr:expr, $payload:expr) => {{
            let repr = $repr;
            let mut out = vec![0; repr.buffer_len()];
            repr.emit(&mut out).unwrap();
            out.extend_from_slice(&$payload);
            out
        }};
    }

    fn eth(ethertype: E, payload: Vec<u8>) -> Vec<u8> {
        put!(ethernet::Repr { dst: B, src: A, ethertype }, payload)
    }

    fn ip4(protocol: P, payload: Vec<u8>) -> Vec<u8> {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        put!(ipv4::Repr::new(src, dst, protocol, payload.len()), payload)
    }

    fn ip6(next: P, payload: Vec<u8>) -> Vec<u8> {
        let (src, dst): (Ipv6Addr, Ipv6Addr) =
            ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        put!(ipv6::Repr::new(src, dst, next, payload.len()), payload)
    }

    fn tcp() -> Vec<u8> {
        let repr = tcp::Repr {
            src_port: 1000,
            dst_port: 80,
            seq: 1,
            ack: 0,
            flags: tcp::Flags::SYN,
            window: 29200,
            urgent: 0,
            options: vec![2, 4, 5, 0xb4],
        };
        put!(repr, [1, 2, 3])
    }

    fn udp(dst_port: u16, payload: Vec<u8>) -> Vec<u8> {
        put!(udp::Repr { src_port: 4000, dst_port, payload_len: payload.len() }, payload)
    }

    fn filled(mut frame: Vec<u8>) -> Vec<u8> {
        offload::fill_checksums(&mut frame).unwrap();
        frame
    }

    pub(super) fn all() -> Vec<(&'static str, Vec<u8>)> {
        let tcp4 = || ip4(P::TCP, tcp());
        let tag = |vid, ethertype| vlan::Repr { pcp: 1, dei: false, vid, ethertype };
        let label = |label, bottom| mpls::Repr { label, tc: 0, bottom, ttl: 64 };
        let sctp = put!(sctp::Repr { src_port: 7, dst_port: 8, tag: 9 }, [11, 0, 0, 4]);
        let echo = put!(icmpv4::Repr::EchoRequest { ident: 1, sequence: 2 }, [5; 5]);
        let arp = put!(
            arp::Repr {
                operation: arp::Operation::Request,
                sender_mac: A,
                sender_ip: Ipv4Addr::new(10, 0, 0, 1),
                target_mac: MacAddr::ZERO,
                target_ip: Ipv4Addr::new(10, 0, 0, 2),
            },
            []
        );
        let solicitation = put!(
            ndp::Repr {
                message: ndp::Message::NeighborSolicitation {
                    target: "2001:db8::2".parse().unwrap()
                },
                options: vec![ndp::Opt::SourceLink(A)],
            },
            []
        );
        let qinq = put!(tag(100, E::VLAN), put!(tag(10, E::IPV4), tcp4()));
        let labels = put!(label(16, false), put!(label(17, true), tcp4()));
        let itag = pbb::Repr { pcp: 0, dei: false, uca: false, isid: 5000 };
        let inner = || filled(eth(E::IPV4, ip4(P::UDP, udp(53, vec![1, 2]))));
        let mut extensions = vec![P::DEST_OPTIONS.0, 0, 1, 4, 0, 0, 0, 0];
        extensions.extend([P::TCP.0, 0, 1, 4, 0, 0, 0, 0]);
        extensions.extend(tcp());
        let tcp6ext = put!(tag(10, E::IPV6), ip6(P::HOP_BY_HOP, extensions));
        let vxlan = put!(vxlan::Repr { vni: 42 }, inner());
        let geneve = put!(
            geneve::Repr {
                control: false,
                protocol: E::TRANSPARENT_ETHERNET,
                vni: 43,
                options: vec![geneve::Opt { class: 1, kind: 2, data: vec![0; 4] }],
            },
            inner()
        );
        let user = filled(eth(E::IPV4, tcp4()))[14..].to_vec();
        let gtpu = put!(
            gtpu::Repr {
                kind: gtpu::G_PDU,
                teid: 44,
                sequence: None,
                npdu: None,
                extensions: vec![gtpu::Extension { kind: 0x85, data: vec![0, 9] }],
                payload_len: user.len(),
            },
            user
        );
        let gre = put!(
            gre::Repr { protocol: E::IPV4, checksum: false, key: Some(45), sequence: None },
            user
        );
        let over_udp = |port, payload| {
            let mut frame = filled(eth(E::IPV4, ip4(P::UDP, udp(port, payload))));
            frame[40..42].fill(0);
            frame
        };
        vec![
            ("tcp4", filled(eth(E::IPV4, tcp4()))),
            ("udp4", filled(eth(E::IPV4, ip4(P::UDP, udp(53, vec![1, 2, 3, 4]))))),
            ("icmp4", filled(eth(E::IPV4, ip4(P::ICMP, echo)))),
            ("sctp4", filled(eth(E::IPV4, ip4(P::SCTP, sctp)))),
            ("qinq", filled(eth(E::SVLAN, qinq))),
            ("mpls", filled(eth(E::MPLS, labels))),
            ("pbb", filled(eth(E::PBB, put!(itag, eth(E::IPV4, tcp4()))))),
            ("tcp6ext", filled(eth(E::VLAN, tcp6ext))),
            ("udp6", filled(eth(E::IPV6, ip6(P::UDP, udp(53, vec![1, 2, 3]))))),
            ("ns", filled(eth(E::IPV6, ip6(P::ICMPV6, solicitation)))),
            ("arp", eth(E::ARP, arp)),
            ("vxlan", over_udp(udp::PORT_VXLAN, vxlan)),
            ("geneve", over_udp(udp::PORT_GENEVE, geneve)),
            ("gtpu", over_udp(udp::PORT_GTPU, gtpu)),
            ("gre", filled(eth(E::IPV4, ip4(P::GRE, gre)))),
        ]
    }
}
