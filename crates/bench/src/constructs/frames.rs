//! The frames of the constructs: a few flows of each kind, described as `millrace trace` takes packets.

use crate::trace::Trace;
use contract::tunnel::OptionMap;
use control::failure::Failure;
use openflow::{FieldId, Match};
use port::prng::Prng;

/// Flows of a kind.
pub(crate) const FLOWS: u64 = 64;
/// Frames of a trace: enough that no predictor learns their order by heart.
const FRAMES: usize = 4096;

/// A kind of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(usize);

/// Names, and a frame of flow `{n}`, `{nn}` of two digits, or `{x}` in hexadecimal.
const KINDS: [(&str, &str); 16] = [
    ("tcp", "tcp,nw_src=10.1.0.{n},nw_dst=10.2.0.{n},tp_src=10{nn},tp_dst=80,{eth}"),
    ("udp", "udp,nw_src=10.1.0.{n},nw_dst=10.2.0.{n},tp_src=10{nn},tp_dst=53,{eth}"),
    ("sctp", "sctp,nw_src=10.1.0.{n},nw_dst=10.2.0.{n},tp_src=10{nn},tp_dst=80,{eth}"),
    ("icmp", "icmp,nw_src=10.1.0.{n},nw_dst=10.2.0.{n},icmp_type=8,{eth}"),
    ("arp", "arp,arp_op=1,arp_spa=10.1.0.{n},arp_tpa=10.2.0.{n},{eth}"),
    (
        "tcp6",
        "tcp6,ipv6_src=2001:db8:1::{x},ipv6_dst=2001:db8:2::{x},tp_src=10{nn},tp_dst=80,{eth}",
    ),
    ("echo6", "icmp6,icmp_type=128,ipv6_src=2001:db8:1::{x},ipv6_dst=2001:db8:2::{x},{eth}"),
    (
        "ns",
        "icmp6,icmp_type=135,ipv6_src=2001:db8:1::{x},ipv6_dst=ff02::1,nd_target=2001:db8:2::{x},nd_sll=02:00:00:00:01:{x},{eth}",
    ),
    (
        "na",
        "icmp6,icmp_type=136,ipv6_src=2001:db8:1::{x},ipv6_dst=2001:db8:2::{x},nd_target=2001:db8:1::{x},nd_tll=02:00:00:00:01:{x},{eth}",
    ),
    ("vlan", "tcp,dl_vlan=101,nw_src=10.1.0.{n},nw_dst=10.2.0.{n},tp_src=10{nn},tp_dst=80,{eth}"),
    // Made of those above.
    ("mpls", ""),
    ("qinq", ""),
    ("pbb", ""),
    ("frag", ""),
    ("hosts", ""),
    ("tunnel", ""),
];

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Kind, String> {
        let at = KINDS.iter().position(|(name, _)| *name == word);
        at.map(Kind).ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            format!("there are no frames {word:?}: choose one of {}", names.join(", "))
        })
    }
}

impl Kind {
    /// A frame of this kind.
    fn frame(self, flow: u64) -> Result<Vec<u8>, Failure> {
        let (name, text) = KINDS[self.0];
        let of = |kind: &str| kind.parse::<Kind>().map_err(Failure::Bad)?.frame(flow);
        Ok(match name {
            "qinq" => {
                let mut frame = of("vlan")?;
                frame.splice(12..12, [0x88, 0xa8, 0, 7]);
                frame
            }
            // A customer's frame behind an I-TAG (IEEE 802.1ah §9.7).
            "pbb" => {
                let mut frame = of("tcp")?;
                let outer = [&[2, 0, 0, 0, 9, 1, 2, 0, 0, 0, 9, 2, 0x88, 0xe7, 0, 0, 0, 5][..]];
                frame.splice(0..0, outer.concat());
                frame
            }
            // As a tunnel port gives it: with a descriptor in front.
            "tunnel" => {
                let fields = Match::new()
                    .with(FieldId::TunnelId, 7)
                    .with(FieldId::TunSrc, 0x0a00_0001)
                    .with(FieldId::TunDst, 0x0a00_0002);
                let mut frame = of_lower::tunnel::descriptor(&OptionMap::default(), &fields);
                frame.extend(of("tcp")?);
                frame
            }
            // The label is the last one, IPv4 behind it.
            "mpls" => {
                let mut frame = of("tcp")?;
                frame[12..14].copy_from_slice(&[0x88, 0x47]);
                frame.splice(14..14, [0, 0, (flow as u8) << 4 | 1, 64]);
                frame
            }
            _ => {
                let ends =
                    format!("dl_src=02:00:00:00:01:{flow:02x},dl_dst=02:00:00:00:02:{flow:02x}");
                let text = text
                    .replace("{nn}", &format!("{flow:02}"))
                    .replace("{n}", &flow.to_string())
                    .replace("{x}", &format!("{flow:02x}"))
                    .replace("{eth}", &ends);
                let described = openflow::syntax::parse_packet(&text);
                described.map_err(|e| Failure::Bad(format!("frame {text:?}: {e}")))?.bytes
            }
        })
    }

    /// The two fragments of a datagram, the first one first.
    fn fragments(flow: u64, ident: u16) -> Result<[Vec<u8>; 2], Failure> {
        let whole = "udp".parse::<Kind>().map_err(Failure::Bad)?.frame(flow)?;
        let fragment = |more: bool, offset: u16, payload: &[u8]| {
            let mut frame = whole[..34].to_vec();
            frame[16..18].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
            frame[18..20].copy_from_slice(&ident.to_be_bytes());
            let word = (u16::from(more) << 13) | (offset / 8);
            frame[20..22].copy_from_slice(&word.to_be_bytes());
            frame[24..26].fill(0);
            let sum = !crate::frame::fold(crate::frame::sum(&frame[14..34]));
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame.extend_from_slice(payload);
            frame.resize(frame.len().max(60), 0);
            frame
        };
        let payload = &whole[34..];
        Ok([fragment(true, 0, &payload[..16]), fragment(false, 16, &payload[16..])])
    }

    /// Frames of this kind's flows, in random order.
    pub(crate) fn trace(self) -> Result<Trace, Failure> {
        let mut trace = Trace::default();
        match KINDS[self.0].0 {
            // Fragments of a datagram come one behind the other.
            "frag" => {
                for n in 0..FRAMES as u64 / 2 {
                    for frame in Kind::fragments(n % FLOWS, n as u16)? {
                        trace.push(1, &frame);
                    }
                }
            }
            // Those at port 2 answer those at port 1.
            "hosts" => {
                let tcp = "tcp".parse::<Kind>().map_err(Failure::Bad)?;
                let mut random = Prng::new(1);
                for n in 0..FRAMES as u64 {
                    let flow = if n < FLOWS { n } else { random.below(FLOWS) };
                    let frame = tcp.frame(flow)?;
                    trace.push(1, &frame);
                    let mut back = frame;
                    let (to, from) = back.split_at_mut(6);
                    to.swap_with_slice(&mut from[..6]);
                    trace.push(2, &back);
                }
            }
            _ => {
                let flows: Result<Vec<_>, Failure> = (0..FLOWS).map(|n| self.frame(n)).collect();
                let (flows, mut random) = (flows?, Prng::new(1));
                for n in 0..FRAMES as u64 {
                    let flow = if n < FLOWS { n } else { random.below(FLOWS) };
                    trace.push(1, &flows[flow as usize]);
                }
            }
        }
        Ok(trace)
    }
}
