//! Words of an expression, and names that it may use for numbers.

use std::net::Ipv6Addr;

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) text: String,
}

/// Signs, the longer ones first.
pub(super) const SIGNS: [&str; 24] = [
    "&&", "||", "<<", ">>", "<=", ">=", "==", "!=", "(", ")", "[", "]", ":", "/", "<", ">", "=",
    "!", "+", "*", "%", "&", "|", "^",
];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut list = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() || c == '\\' {
            at += c.len_utf8();
            continue;
        }
        let rest = &text[at..];
        let run = |allowed: fn(char) -> bool| {
            rest.find(|c: char| !allowed(c)).map_or(rest, |end| &rest[..end])
        };
        let address = run(|c| c.is_ascii_hexdigit() || c == ':' || c == '.');
        let word = run(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        let taken = if mac(address).is_some() || address.parse::<Ipv6Addr>().is_ok() {
            address
        } else if c.is_ascii_alphanumeric() {
            word.trim_end_matches(['-', '_'])
        } else if c == '-' {
            "-"
        } else {
            *SIGNS.iter().find(|sign| rest.starts_with(**sign)).ok_or_else(|| {
                format!("at {at}: {c:?} means nothing in a filter (see pcap-filter(7))")
            })?
        };
        list.push(Token { at, text: taken.to_string() });
        at += taken.len();
    }
    Ok(list)
}

/// Six groups of one or two hexadecimal digits.
pub(super) fn mac(text: &str) -> Option<u64> {
    let mut groups = 0;
    let mut value = 0;
    for group in text.split(':') {
        let byte = u64::from_str_radix(group, 16).ok().filter(|_| group.len() <= 2)?;
        (groups, value) = (groups + 1, value << 8 | byte);
    }
    (groups == 6).then_some(value)
}

pub(super) fn number(text: &str) -> Option<u32> {
    if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        return u32::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        Some(digits) => u32::from_str_radix(digits, 8).ok(),
        None => text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?,
    }
}

/// What stands for a number.
pub(super) const CONSTANTS: [(&str, u32); 28] = [
    ("proto", 9),
    ("vers", 0),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("tcpflags", 13),
    ("tcp-fin", 1),
    ("tcp-syn", 2),
    ("tcp-rst", 4),
    ("tcp-push", 8),
    ("tcp-ack", 16),
    ("tcp-urg", 32),
    ("tcp-ece", 64),
    ("tcp-cwr", 128),
];

/// Protocols over IP, by their words.
pub(super) const OVER_IP: [(&str, u32); 6] =
    [("tcp", 6), ("udp", 17), ("sctp", 132), ("icmp", 1), ("icmp6", 58), ("igmp", 2)];

/// Those that have ports.
pub(super) const WITH_PORTS: [u32; 3] = [132, 6, 17];

/// Protocols over Ethernet, by their words.
pub(super) const OVER_ETHERNET: [(&str, u32); 4] =
    [("ip", 0x0800), ("ip6", 0x86dd), ("arp", 0x0806), ("rarp", 0x8035)];

pub(super) fn listed(list: &[(&str, u32)], word: &str) -> Option<u32> {
    list.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}
