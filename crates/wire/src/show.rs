//! Frames as text: [`summary`], one line, and [`tree`], everything.

use std::fmt::Write;

use crate::dissect::{LAYERS_MAX, dissect, hex};

/// One line about a frame, outermost header first, with the frame's length in octets at the end.
///
/// A header that cannot be read ends it with the reason in brackets.
///
/// ```
/// let frame = [
///     0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x81, 0x00, 0x00, 0x0a, 0x08, 0x06, 0, 1,
/// ];
/// assert_eq!(
///     wire::summary(&frame),
///     "eth 02:00:00:00:00:01>02:00:00:00:00:02 vlan 10 \
///      [arp packet is truncated: 2 octets where at least 8 are needed] len 20"
/// );
/// ```
pub fn summary(frame: &[u8]) -> String {
    let found = dissect(frame);
    let mut line = String::new();
    for layer in &found.layers {
        line.push_str(layer.name);
        line.push(' ');
        if !layer.brief.is_empty() {
            line.push_str(&layer.brief);
            line.push(' ');
        }
    }
    if found.layers.len() >= LAYERS_MAX {
        line.push_str("... ");
    }
    if let Some(error) = found.stopped {
        let _ = write!(line, "[{error}] ");
    }
    let _ = write!(line, "len {}", frame.len());
    line
}

/// Everything about a frame, a header to a paragraph: its name, the octets it takes, its fields.
///
/// Checksums are judged: right, wrong, or partial (the pseudo-header's sum alone; see
/// [`offload`](crate::offload)). Lines end with a newline.
pub fn tree(frame: &[u8]) -> String {
    let found = dissect(frame);
    let mut text = format!("frame {} octets\n", frame.len());
    for layer in &found.layers {
        let _ = writeln!(text, "  {} [{}..{}]", layer.name, layer.from, layer.to);
        for (name, value) in &layer.fields {
            let _ = writeln!(text, "    {name}: {value}");
        }
    }
    let (from, to) = found.data;
    if let Some(error) = found.stopped {
        let _ = writeln!(text, "  stopped at {from}: {error}");
    }
    if from < to {
        let _ = writeln!(text, "  data [{from}..{to}] {}", hex(&frame[from..to], 32));
    }
    if to < frame.len() {
        let padding = hex(&frame[to..], 32);
        let _ = writeln!(text, "  padding [{to}..{}] {padding}", frame.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::frames;

    #[test]
    fn summaries_are_golden() {
        let eth = "eth 02:00:00:00:00:01>02:00:00:00:00:02";
        let ip4 = "ipv4 10.0.0.1>10.0.0.2 ttl 64";
        let ip6 = "ipv6 2001:db8::1>2001:db8::2 hlim 64";
        let inner = format!("{eth} {ip4} udp 4000>53");
        for (name, frame) in frames() {
            let expected = match name {
                "tcp4" => format!("{ip4} tcp 1000>80 [S]"),
                "udp4" => format!("{ip4} udp 4000>53"),
                "icmp4" => format!("{ip4} icmp echo-request id 1 seq 2"),
                "sctp4" => format!("{ip4} sctp 7>8 [cookie-ack]"),
                "qinq" => format!("svlan 100 pcp 1 vlan 10 pcp 1 {ip4} tcp 1000>80 [S]"),
                "mpls" => format!("mpls 16 ttl 64 mpls 17 ttl 64 {ip4} tcp 1000>80 [S]"),
                "pbb" => format!("pbb isid 5000 {eth} {ip4} tcp 1000>80 [S]"),
                "tcp6ext" => {
                    format!("vlan 10 pcp 1 {ip6} hop-by-hop dest-options tcp 1000>80 [S]")
                }
                "udp6" => format!("{ip6} udp 4000>53"),
                "ns" => format!("{ip6} icmpv6 who-has 2001:db8::2"),
                "arp" => "arp who-has 10.0.0.2 tell 10.0.0.1".to_owned(),
                "vxlan" => format!("{ip4} udp 4000>4789 vxlan vni 42 {inner}"),
                "geneve" => format!("{ip4} udp 4000>6081 geneve vni 43 {inner}"),
                "gtpu" => {
                    let tunnel = format!("{ip4} udp 4000>2152 gtpu teid 0x2c type 255");
                    format!("{tunnel} {ip4} tcp 1000>80 [S]")
                }
                "gre" => format!("{ip4} gre ipv4 key 0x2d {ip4} tcp 1000>80 [S]"),
                other => panic!("{other} is new: say what it prints"),
            };
            assert_eq!(summary(&frame), format!("{eth} {expected} len {}", frame.len()));
        }
    }

    #[test]
    fn tree_is_golden() {
        let (_, mut frame) = frames().into_iter().find(|(name, _)| *name == "udp4").unwrap();
        frame.extend([0, 0]);
        let expected = "\
frame 48 octets
  eth [0..14]
    dst: 02:00:00:00:00:02
    src: 02:00:00:00:00:01
    type: ipv4
  ipv4 [14..34]
    src: 10.0.0.1
    dst: 10.0.0.2
    protocol: udp
    ttl: 64
    dscp: 0
    ecn: 0
    total_len: 32
    ident: 0x0000
    dont_fragment: true
    more_fragments: false
    fragment_offset: 0
    checksum: 0x26cb (right)
  udp [34..42]
    src_port: 4000
    dst_port: 53
    len: 12
    checksum: 0xd7f8 (right)
  data [42..46] 01020304
  padding [46..48] 0000
";
        assert_eq!(tree(&frame), expected);
        crate::pseudo_header_partial(&mut frame).unwrap();
        assert!(tree(&frame).contains("(partial)"));
        frame[40] ^= 1;
        assert!(tree(&frame).contains("(wrong)"));
    }

    #[test]
    fn every_truncation_prints() {
        for (_, frame) in frames() {
            for len in 0..frame.len() {
                assert!(summary(&frame[..len]).ends_with(&format!("len {len}")));
                assert!(tree(&frame[..len]).starts_with(&format!("frame {len} octets\n")));
            }
        }
    }

    #[test]
    fn endless_stacks_end() {
        let mut frame = vec![0; 4000];
        frame[12..14].copy_from_slice(&[0x88, 0x47]);
        assert!(summary(&frame).ends_with("... len 4000"));
    }

    #[test]
    fn fragments_and_unknown_protocols_are_named() {
        let (_, mut frame) = frames().into_iter().find(|(name, _)| *name == "udp4").unwrap();
        frame[20..22].copy_from_slice(&[0x20, 2]);
        assert!(summary(&frame).ends_with("ttl 64 frag 16+ udp len 46"), "{}", summary(&frame));
        frame[20..22].copy_from_slice(&[0, 0]);
        frame[23] = 89;
        assert!(summary(&frame).ends_with("ttl 64 ospf len 46"), "{}", summary(&frame));
    }
}
