//! Which connections are wanted.

use super::row::{PROTOCOLS, state};
use service::conntrack::{Connection, Tuple};
use std::net::IpAddr;

/// What connections have to agree with; what is not said chooses nothing.
#[derive(Debug, Default)]
pub(super) struct Filter {
    zone: Option<u16>,
    state: Option<String>,
    protocol: Option<u8>,
    src: Option<Prefix>,
    dst: Option<Prefix>,
    port: Option<u16>,
    mark: Option<(u32, u32)>,
}

/// An address and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    bits: u128,
    v6: bool,
    len: u32,
}

/// A filter as it is asked for.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) zone: Option<u16>,
    pub(super) state: Option<&'a str>,
    pub(super) protocol: Option<&'a str>,
    pub(super) src: Option<&'a str>,
    pub(super) dst: Option<&'a str>,
    pub(super) port: Option<u16>,
    pub(super) mark: Option<&'a str>,
}

/// States that are no protocol's own.
const FLAGS: [&str; 4] = ["replied", "unreplied", "assured", "half_open"];
/// Those of TCP and SCTP.
const STATES: [&str; 16] = [
    "syn_sent",
    "syn_received",
    "established",
    "fin_wait",
    "close_wait",
    "last_ack",
    "time_wait",
    "closed",
    "syn_sent2",
    "cookie_wait",
    "cookie_echoed",
    "shutdown_sent",
    "shutdown_received",
    "shutdown_ack_sent",
    "heartbeat_sent",
    "none",
];

impl Filter {
    /// Reads what is asked for.
    pub(super) fn read(said: Said<'_>) -> Result<Filter, String> {
        Ok(Filter {
            zone: said.zone,
            state: said.state.map(state_word).transpose()?,
            protocol: said.protocol.map(protocol).transpose()?,
            src: said.src.map(prefix).transpose()?,
            dst: said.dst.map(prefix).transpose()?,
            port: said.port,
            mark: said.mark.map(mark).transpose()?,
        })
    }

    /// Whether a connection is one of them.
    pub(super) fn takes(&self, c: &Connection) -> bool {
        let Connection { original, mark, .. } = c;
        let port = |port: u16| {
            original.message().is_none() && [original.src_port, original.dst_port].contains(&port)
        };
        self.zone.is_none_or(|zone| zone == original.zone)
            && self.protocol.is_none_or(|protocol| protocol == original.protocol.0)
            && self.src.is_none_or(|prefix| prefix.has(original, original.src))
            && self.dst.is_none_or(|prefix| prefix.has(original, original.dst))
            && self.port.is_none_or(port)
            && self.mark.is_none_or(|(value, mask)| mark & mask == value & mask)
            && self.state.as_deref().is_none_or(|wanted| is_in(c, wanted))
    }
}

impl Prefix {
    fn has(&self, of: &Tuple, bits: u128) -> bool {
        let width = if self.v6 { 128 } else { 32 };
        let differ = bits ^ self.bits;
        of.v6 == self.v6 && differ.checked_shr(width - self.len).unwrap_or(0) == 0
    }
}

fn is_in(c: &Connection, wanted: &str) -> bool {
    match wanted {
        "replied" => c.replied,
        "unreplied" | "half_open" => !c.replied,
        "assured" => c.assured,
        wanted => state(c).is_some_and(|state| plain(&state) == plain(wanted)),
    }
}

/// A state's word without what writers differ in.
fn plain(word: &str) -> String {
    word.chars().filter(|c| !"_-".contains(*c)).map(|c| c.to_ascii_lowercase()).collect()
}

fn state_word(word: &str) -> Result<String, String> {
    let known = STATES.iter().chain(&FLAGS).find(|state| plain(state) == plain(word));
    known.map(|state| (*state).to_owned()).ok_or_else(|| {
        format!("state {word:?}: there are {}, {}", STATES.join(", "), FLAGS.join(", "))
    })
}

fn protocol(word: &str) -> Result<u8, String> {
    let named = PROTOCOLS.iter().find(|(_, name)| *name == word).map(|(number, _)| *number);
    let names = || PROTOCOLS.map(|(_, name)| name).join(", ");
    named
        .or_else(|| word.parse().ok())
        .ok_or_else(|| format!("protocol {word:?}: a number from 0 to 255, or {}", names()))
}

fn prefix(word: &str) -> Result<Prefix, String> {
    let wrong = || format!("address {word:?}: ADDRESS or ADDRESS/BITS");
    let (address, len) = word.split_once('/').map_or((word, None), |(a, len)| (a, Some(len)));
    let (bits, v6, width) = match address.parse().map_err(|_| wrong())? {
        IpAddr::V4(address) => (u128::from(address.to_bits()), false, 32),
        IpAddr::V6(address) => (address.to_bits(), true, 128),
    };
    let len = len.map_or(Some(width), |len| len.parse().ok().filter(|len| *len <= width));
    Ok(Prefix { bits, v6, len: len.ok_or_else(wrong)? })
}

fn mark(word: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let (value, mask) = word.split_once('/').map_or((word, None), |(v, mask)| (v, Some(mask)));
    let mask = mask.map_or(Some(u32::MAX), number);
    number(value).zip(mask).ok_or_else(|| format!("mark {word:?}: VALUE or VALUE/MASK"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use service::conntrack::{Role, sctp, tcp};

    fn connection(src: &str, dst: &str, ports: (u16, u16), protocol: u8) -> Connection {
        let bits = |text: &str| match text.parse().unwrap() {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let original = Tuple {
            src: bits(src),
            dst: bits(dst),
            src_port: ports.0,
            dst_port: ports.1,
            zone: 7,
            protocol: wire::IpProtocol(protocol),
            v6: src.contains(':'),
            role: Role::Any,
        };
        let (tcp, sctp, account) = (None, None, None);
        let (mark, label, replied, assured, timeout) = (0x12, 0, true, false, 60);
        let reply = original.inverted();
        Connection { original, reply, mark, label, tcp, sctp, replied, assured, timeout, account }
    }

    #[test]
    fn each_word_chooses_and_all_must_agree() {
        let mut c = connection("10.0.0.1", "192.0.2.9", (1000, 80), 6);
        c.tcp = Some(tcp::State::SynSent);
        let takes = |said: Said<'_>| Filter::read(said).unwrap().takes(&c);
        let none = Said::default();
        assert!(takes(none));
        let yes = [
            Said { zone: Some(7), ..none },
            Said { protocol: Some("tcp"), ..none },
            Said { protocol: Some("6"), ..none },
            Said { src: Some("10.0.0.0/8"), dst: Some("192.0.2.9"), ..none },
            Said { src: Some("0.0.0.0/0"), ..none },
            Said { port: Some(80), ..none },
            Said { port: Some(1000), ..none },
            Said { mark: Some("0x12"), ..none },
            Said { mark: Some("2/0xf"), ..none },
            Said { state: Some("SYN_SENT"), ..none },
            Said { state: Some("replied"), ..none },
        ];
        yes.iter().for_each(|said| assert!(takes(*said), "{said:?}"));
        let no = [
            Said { zone: Some(0), ..none },
            Said { protocol: Some("udp"), ..none },
            Said { src: Some("10.0.0.1"), dst: Some("192.0.2.8/32"), ..none },
            Said { src: Some("::/0"), ..none },
            Said { port: Some(81), ..none },
            Said { mark: Some("3/0xf"), ..none },
            Said { state: Some("established"), ..none },
            Said { state: Some("unreplied"), ..none },
            Said { state: Some("assured"), ..none },
        ];
        no.iter().for_each(|said| assert!(!takes(*said), "{said:?}"));
        let v6 = connection("fd00::1", "fd00::2", (1, 2), 17);
        let all = Filter::read(Said { src: Some("fd00::/16"), ..none }).unwrap();
        assert!(all.takes(&v6));
        assert!(!Filter::read(Said { src: Some("fe00::/16"), ..none }).unwrap().takes(&v6));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_would_be_right() {
        let none = Said::default();
        for (said, why) in [
            (Said { state: Some("open"), ..none }, "there are syn_sent,"),
            (Said { protocol: Some("tpc"), ..none }, "or icmp, tcp, udp"),
            (Said { src: Some("10.0.0.1/33"), ..none }, "ADDRESS or ADDRESS/BITS"),
            (Said { dst: Some("web1"), ..none }, "ADDRESS or ADDRESS/BITS"),
            (Said { mark: Some("1/x"), ..none }, "VALUE or VALUE/MASK"),
        ] {
            let error = Filter::read(said).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    /// The list of states is that of the trackers.
    #[test]
    fn every_state_of_a_protocol_can_be_asked_for() {
        let tcp = (0..=u8::MAX).map(|n| format!("{:?}", tcp::State::from_number(n)));
        let sctp = (0..=u8::MAX).map(|n| format!("{:?}", sctp::State::from_number(n)));
        let all: std::collections::BTreeSet<String> = tcp.chain(sctp).collect();
        for state in &all {
            assert!(state_word(state).is_ok(), "{state}");
        }
        for known in STATES {
            assert!(all.iter().any(|state| plain(state) == plain(known)), "{known} is nobody's");
        }
    }
}
