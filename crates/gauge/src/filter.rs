//! Capture filters in the language of tcpdump (pcap-filter(7)): `udp and dst port 9`, `vlan 5 and ip`,
//! `ip[8] < 5`, `not net 198.18.0.0/15`.
//!
//! A text becomes a tree of comparisons of numbers that are loaded from a frame ([`Filter::parse`]); a frame is
//! judged by walking it ([`Filter::passes`]), without allocation. As in the machine that tcpdump compiles for, a load
//! beyond the end of the frame fails the frame, whatever `not` or `or` stands around it.
//!
//! Known: `host`, `net`, `port`, `portrange`, `proto` with `src` and `dst` and the protocols below; `ether`, `ip`,
//! `ip6`, `arp`, `rarp`, `tcp`, `udp`, `sctp`, `icmp`, `icmp6`; `broadcast`, `multicast`; `vlan`, `mpls`, behind which
//! the rest of the expression looks, as tcpdump's does; `less`, `greater`; comparisons of numbers, `len` and
//! `PROTO[OFFSET:SIZE]` by the operators of C, all of which bind more than
//! comparisons; `%` and `^` take the number in front of them, and all that follows up to a comparison, as tcpdump's do. `and` and `or` bind alike, from left to right, as there. Names of hosts and services are not looked up.
//!
//! Checked by: the tests below, against tcpdump itself where it is there, frame by frame.

mod qualifiers;
mod test;
mod words;

use qualifiers::{Any, Link, Qualifiers, Side, both};
use test::{Number, Operation, Relation, Test, is, load};
use words::{CONSTANTS, OVER_ETHERNET, OVER_IP, Token, WITH_PORTS, listed, mac, number, tokens};

use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest text, in bytes: so deep can a tree be.
const TEXT_MAX: usize = 2000;
/// How deep parentheses and brackets may be nested.
const DEPTH_MAX: usize = 100;

/// A filter.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    test: Option<Test>,
}

impl Filter {
    /// Reads an expression; an empty one passes all.
    pub fn parse(text: &str) -> Result<Filter, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("the filter is longer than {TEXT_MAX} bytes"));
        }
        let tokens = tokens(text)?;
        if tokens.is_empty() {
            return Ok(Filter { text: String::new(), test: None });
        }
        let mut parser = Parser { tokens, next: 0, link: Link::Ethernet(0), last: None, depth: 0 };
        let test = parser.any(0)?;
        if let Some(token) = parser.tokens.get(parser.next) {
            return Err(format!("at {}: {:?} cannot follow here", token.at, token.text));
        }
        let test = test.test(text.len())?;
        Ok(Filter { text: text.trim().to_string(), test: Some(test) })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a frame passes.
    pub fn passes(&self, frame: &[u8]) -> bool {
        self.test.as_ref().is_none_or(|test| test.of(frame) == Some(true))
    }
}
struct Parser {
    tokens: Vec<Token>,
    next: usize,
    link: Link,
    last: Option<Qualifiers>,
    depth: usize,
}

/// How strongly `not` binds: more than `and`, less than comparisons.
const NOT: u8 = 2;

impl Parser {
    fn peek(&self) -> &str {
        self.ahead(0)
    }

    fn ahead(&self, by: usize) -> &str {
        self.tokens.get(self.next + by).map_or("", |token| &token.text)
    }

    fn at(&self) -> usize {
        let end = || self.tokens.last().map_or(0, |token| token.at + token.text.len());
        self.tokens.get(self.next).map_or_else(end, |token| token.at)
    }

    fn take(&mut self) -> Option<String> {
        let token = self.tokens.get(self.next)?.text.clone();
        self.next += 1;
        Some(token)
    }

    fn taken(&mut self, text: &str) -> bool {
        let is = self.peek() == text;
        self.next += usize::from(is);
        is
    }

    fn want(&mut self, text: &str) -> Result<(), String> {
        let at = self.at();
        match self.taken(text) {
            true => Ok(()),
            false => Err(format!("at {at}: {text:?} is missing")),
        }
    }

    /// An expression whose operators bind more than `least`.
    fn any(&mut self, least: u8) -> Result<Any, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("at {}: nested more than {DEPTH_MAX} deep", self.at()));
        }
        let mut left = self.primary(least)?;
        loop {
            let at = self.at();
            let sign = self.peek().to_string();
            let binds = match sign.as_str() {
                "and" | "&&" | "or" | "||" => 1,
                "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" => 3,
                "|" => 4,
                "&" => 5,
                "<<" | ">>" => 6,
                "+" | "-" => 7,
                "*" | "/" => 8,
                // As tcpdump has them, and unlike C.
                "%" | "^" => 9,
                _ => break,
            };
            if binds <= least {
                break;
            }
            self.next += 1;
            // What follows those is theirs, up to a comparison.
            let right = self.any(if binds == 9 { 3 } else { binds })?;
            left = match sign.as_str() {
                "and" | "&&" => Any::Test(left.test(at)?.and(right.test(at)?)),
                "or" | "||" => Any::Test(left.test(at)?.or(right.test(at)?)),
                _ => {
                    let ((a, asked), (b, more)) = (left.number(at)?, right.number(at)?);
                    let asked = both(asked, more);
                    let relation = match sign.as_str() {
                        "=" | "==" => Some(Relation::Equal),
                        "!=" => Some(Relation::Unequal),
                        "<" => Some(Relation::Less),
                        "<=" => Some(Relation::LessOrEqual),
                        ">" => Some(Relation::Greater),
                        ">=" => Some(Relation::GreaterOrEqual),
                        _ => None,
                    };
                    match relation {
                        Some(relation) => {
                            let test = Test::Is(relation, a, b);
                            Any::Test(match asked {
                                Some(asked) => asked.and(test),
                                None => test,
                            })
                        }
                        None => Any::Number(operation(&sign, at, a, b)?, asked),
                    }
                }
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// What operators stand between; `least`: those in front of it bind so strongly.
    fn primary(&mut self, least: u8) -> Result<Any, String> {
        let at = self.at();
        let word = self.peek().to_string();
        match word.as_str() {
            "" => Err(format!("at {at}: the filter ends where a condition is missing")),
            "not" | "!" => {
                self.next += 1;
                let at = self.at();
                Ok(Any::Test(Test::Not(Box::new(self.any(NOT)?.test(at)?))))
            }
            "(" => {
                self.next += 1;
                let inner = self.any(0)?;
                self.want(")")?;
                Ok(inner)
            }
            "-" => {
                self.next += 1;
                let (value, asked) = self.any(8)?.number(at)?;
                Ok(Any::Number(Number::Is(0).with(Operation::Subtract, value), asked))
            }
            "len" | "length" => {
                self.next += 1;
                Ok(Any::Number(Number::Len, None))
            }
            "less" | "greater" => {
                self.next += 1;
                let relation = match word.as_str() {
                    "less" => Relation::LessOrEqual,
                    _ => Relation::GreaterOrEqual,
                };
                let bound = self.literal("a length")?;
                Ok(Any::Test(Test::Is(relation, Number::Len, Number::Is(bound))))
            }
            "vlan" => {
                self.next += 1;
                self.vlan().map(Any::Test)
            }
            "mpls" => {
                self.next += 1;
                self.mpls().map(Any::Test)
            }
            _ if self.ahead(1) == "[" => {
                let (number, asked) = self.indexed(&word, at)?;
                Ok(Any::Number(number, asked))
            }
            _ => {
                let value = number(&word).or_else(|| {
                    // `proto` alone is a qualifier.
                    listed(&CONSTANTS, &word).filter(|_| word != "proto" && word != "vers")
                });
                match value {
                    // A number by itself belongs to the word before: `port 80 or 443`.
                    Some(_) if least <= NOT && self.is_identifier(&word) => {
                        self.primitive().map(Any::Test)
                    }
                    Some(value) => {
                        self.next += 1;
                        Ok(Any::Number(Number::Is(value), None))
                    }
                    None => self.primitive().map(Any::Test),
                }
            }
        }
    }

    fn is_identifier(&self, word: &str) -> bool {
        let ends = matches!(self.ahead(1), "" | ")" | "and" | "or" | "&&" | "||");
        self.last.is_some() && ends && number(word).is_some()
    }

    fn literal(&mut self, what: &str) -> Result<u32, String> {
        let at = self.at();
        let word = self.take().unwrap_or_default();
        number(&word).ok_or_else(|| format!("at {at}: {word:?}: expected {what}, a number"))
    }

    fn optional(&mut self) -> Option<u32> {
        let value = number(self.peek())?;
        self.next += 1;
        Some(value)
    }

    fn vlan(&mut self) -> Result<Test, String> {
        let Link::Ethernet(tags) = self.link else {
            return Err(format!("at {}: no VLAN tag lies behind an MPLS label", self.at()));
        };
        let kind = || load(Number::Is(12 + tags), 2);
        let mut test = is(kind(), 0x8100).or(is(kind(), 0x88a8)).or(is(kind(), 0x9100));
        if let Some(id) = self.optional() {
            let tag = load(Number::Is(14 + tags), 2).with(Operation::And, Number::Is(0xfff));
            test = test.and(is(tag, id));
        }
        self.link = Link::Ethernet(tags + 4);
        Ok(test)
    }

    fn mpls(&mut self) -> Result<Test, String> {
        let (mut test, at) = match self.link {
            Link::Ethernet(tags) => (is(load(Number::Is(12 + tags), 2), 0x8847), 14 + tags),
            // There is another label behind one that is not the last.
            Link::Label(at) => {
                let bit = load(Number::Is(at + 2), 1).with(Operation::And, Number::Is(1));
                (is(bit, 0), at + 4)
            }
        };
        if let Some(label) = self.optional() {
            let found = load(Number::Is(at), 4).with(Operation::Right, Number::Is(12));
            test = test.and(is(found, label));
        }
        self.link = Link::Label(at);
        Ok(test)
    }

    /// Where the transport header begins, in an IPv4 packet.
    fn transport(&self) -> Number {
        let network = self.link.network();
        let words = load(Number::Is(network), 1).with(Operation::And, Number::Is(0xf));
        words.with(Operation::Multiply, Number::Is(4)).plus(network)
    }

    /// An IPv4 packet of this protocol.
    fn over_ip4(&self, protocol: u32) -> Test {
        let network = self.link.network();
        self.link.ether_type(0x0800).and(is(load(Number::Is(network + 9), 1), protocol))
    }

    /// An IPv6 packet of this protocol, perhaps behind a fragment header.
    fn over_ip6(&self, protocol: u32) -> Test {
        let network = self.link.network();
        let next = || load(Number::Is(network + 6), 1);
        let behind = is(next(), 44).and(is(load(Number::Is(network + 40), 1), protocol));
        self.link.ether_type(0x86dd).and(is(next(), protocol).or(behind))
    }

    /// It has a transport header: it is no later fragment.
    fn is_first(&self) -> Test {
        let offset = load(Number::Is(self.link.network() + 6), 2);
        is(offset.with(Operation::And, Number::Is(0x1fff)), 0)
    }

    /// `PROTO[OFFSET]` or `PROTO[OFFSET:SIZE]`, which also asks for the protocol.
    fn indexed(&mut self, word: &str, at: usize) -> Result<(Number, Option<Test>), String> {
        self.next += 2;
        let network = Number::Is(self.link.network());
        let over = |protocol| self.over_ip4(protocol).and(self.is_first());
        let (asked, base) = match word {
            "ether" => (None, Number::Is(0)),
            "ip" | "ip6" | "arp" | "rarp" => {
                let wanted = listed(&OVER_ETHERNET, word).unwrap_or(0);
                (Some(self.link.ether_type(wanted)), network)
            }
            "icmp6" => {
                let next = load(network.clone().plus(6), 1);
                let test = self.link.ether_type(0x86dd).and(is(next, 58));
                (Some(test), network.plus(40))
            }
            _ => match listed(&OVER_IP, word) {
                Some(protocol) => (Some(over(protocol)), self.transport()),
                None => return Err(format!("at {at}: nothing can be read out of {word:?}")),
            },
        };
        let (index, more) = self.any(0)?.number(at)?;
        let size = match self.taken(":") {
            true => self.literal("1, 2 or 4")?,
            false => 1,
        };
        if !matches!(size, 1 | 2 | 4) {
            return Err(format!("at {at}: a number has 1, 2 or 4 bytes, not {size}"));
        }
        self.want("]")?;
        let place = match (base, index) {
            (base, Number::Is(index)) => base.plus(index),
            (Number::Is(0), index) => index,
            (base, index) => base.with(Operation::Add, index),
        };
        Ok((load(place, size), both(more, asked)))
    }

    /// `[PROTO] [src|dst] [host|net|port|portrange|proto] IDENTIFIER`, or a protocol alone.
    fn primitive(&mut self) -> Result<Test, String> {
        let at = self.at();
        let mut protocol = None;
        let word = self.peek().to_string();
        let known = |list| listed(list, &word).is_some();
        if word == "ether" || known(&OVER_ETHERNET) || known(&OVER_IP) {
            self.next += 1;
            protocol = Some(word);
        }
        let side = self.side()?;
        let kind = ["host", "net", "portrange", "port", "proto", "broadcast", "multicast"];
        let kind = kind.into_iter().find(|kind| self.taken(kind));
        if let Some(kind @ ("broadcast" | "multicast")) = kind {
            return self.to_many(protocol.as_deref(), kind, at);
        }
        let follows = !matches!(self.peek(), "" | ")" | "and" | "or" | "&&" | "||");
        let qualifiers = match (protocol, side, kind) {
            (Some(protocol), None, None) if !follows => return self.of_protocol(&protocol, at),
            (None, None, None) => self.last.clone().unwrap_or(Qualifiers {
                protocol: None,
                side: Side::Either,
                kind: "host",
            }),
            (protocol, side, kind) => {
                let (side, kind) = (side.unwrap_or(Side::Either), kind.unwrap_or("host"));
                Qualifiers { protocol, side, kind }
            }
        };
        self.last = Some(qualifiers.clone());
        match qualifiers.kind {
            "host" => self.host(&qualifiers),
            "net" => self.net(&qualifiers),
            "proto" => self.proto(&qualifiers),
            _ => self.port(&qualifiers),
        }
    }

    fn side(&mut self) -> Result<Option<Side>, String> {
        let (first, other) = match self.peek() {
            "src" => (Side::Source, "dst"),
            "dst" => (Side::Destination, "src"),
            _ => return Ok(None),
        };
        self.next += 1;
        if self.ahead(1) == other {
            let side = match self.peek() {
                "or" | "||" => Side::Either,
                "and" | "&&" => Side::Both,
                _ => return Ok(Some(first)),
            };
            // `src or dst host ...`: not `src host ... or dst host ...`, whose identifier comes first.
            self.next += 2;
            return Ok(Some(side));
        }
        Ok(Some(first))
    }

    fn to_many(&self, protocol: Option<&str>, kind: &str, at: usize) -> Result<Test, String> {
        let network = self.link.network();
        match (protocol, kind) {
            (None | Some("ether"), "broadcast") => {
                Ok(is(load(Number::Is(0), 4), u32::MAX).and(is(load(Number::Is(4), 2), 0xffff)))
            }
            (None | Some("ether"), _) => {
                Ok(is(load(Number::Is(0), 1).with(Operation::And, Number::Is(1)), 1))
            }
            (Some("ip"), "multicast") => {
                let first = load(Number::Is(network + 16), 1);
                let many = Test::Is(Relation::GreaterOrEqual, first, Number::Is(224));
                Ok(self.link.ether_type(0x0800).and(many))
            }
            (Some("ip6"), "multicast") => {
                let first = load(Number::Is(network + 24), 1);
                Ok(self.link.ether_type(0x86dd).and(is(first, 0xff)))
            }
            (Some("ip"), _) => Err(format!(
                "at {at}: which addresses are broadcast depends on a net mask; name the address"
            )),
            (Some(other), _) => Err(format!("at {at}: {other} has no {kind}")),
        }
    }

    fn of_protocol(&self, word: &str, at: usize) -> Result<Test, String> {
        if let Some(wanted) = listed(&OVER_ETHERNET, word) {
            return Ok(self.link.ether_type(wanted));
        }
        match (word, listed(&OVER_IP, word)) {
            ("icmp" | "igmp", Some(protocol)) => Ok(self.over_ip4(protocol)),
            ("icmp6", Some(protocol)) => Ok(self.over_ip6(protocol)),
            (_, Some(protocol)) => Ok(self.over_ip6(protocol).or(self.over_ip4(protocol))),
            _ => Err(format!("at {at}: {word} is no condition by itself")),
        }
    }

    /// An address of 4 bytes under a mask, in the protocols that have some.
    fn address4(&self, q: &Qualifiers, value: u32, mask: u32, at: usize) -> Result<Test, String> {
        let network = self.link.network();
        let one = |ether_type, source, destination| {
            let found = |offset| match mask {
                u32::MAX => is(load(Number::Is(network + offset), 4), value),
                _ => {
                    let all = load(Number::Is(network + offset), 4);
                    is(all.with(Operation::And, Number::Is(mask)), value)
                }
            };
            let side = q.side.test(found(source), found(destination));
            self.link.ether_type(ether_type).and(side)
        };
        let (ip, arp, rarp) = (one(0x0800, 12, 16), one(0x0806, 14, 24), one(0x8035, 14, 24));
        match q.protocol.as_deref() {
            None => Ok(ip.or(arp).or(rarp)),
            Some("ip") => Ok(ip),
            Some("arp") => Ok(arp),
            Some("rarp") => Ok(rarp),
            Some(other) => Err(format!("at {at}: {other} has no IPv4 address")),
        }
    }

    fn address6(&self, q: &Qualifiers, value: u128, mask: u128, at: usize) -> Result<Test, String> {
        let network = self.link.network();
        if !matches!(q.protocol.as_deref(), None | Some("ip6")) {
            let other = q.protocol.as_deref().unwrap_or_default();
            return Err(format!("at {at}: {other} has no IPv6 address"));
        }
        let found = |offset: u32| {
            let part = |all: u128, i: u32| (all >> (96 - 32 * i)) as u32;
            // What the mask leaves out need not be there.
            let words = (0..4).filter(|i| part(mask, *i) != 0).map(|i| {
                let at = Number::Is(network + offset + 4 * i);
                is(load(at, 4).with(Operation::And, Number::Is(part(mask, i))), part(value, i))
            });
            words.reduce(Test::and).unwrap_or(is(Number::Is(0), 0))
        };
        Ok(self.link.ether_type(0x86dd).and(q.side.test(found(8), found(24))))
    }

    fn host(&mut self, q: &Qualifiers) -> Result<Test, String> {
        let at = self.at();
        let word = self.take().unwrap_or_default();
        if q.protocol.as_deref() == Some("ether") {
            let address = mac(&word).ok_or_else(|| {
                format!("at {at}: {word:?}: expected an address such as 02:00:00:00:00:01")
            })?;
            let found = |offset: u32| {
                let high = is(load(Number::Is(offset), 4), (address >> 16) as u32);
                high.and(is(load(Number::Is(offset + 4), 2), (address & 0xffff) as u32))
            };
            return Ok(q.side.test(found(6), found(0)));
        }
        if let Ok(address) = word.parse::<Ipv4Addr>() {
            return self.address4(q, address.into(), u32::MAX, at);
        }
        if let Ok(address) = word.parse::<Ipv6Addr>() {
            return self.address6(q, address.into(), u128::MAX, at);
        }
        Err(format!(
            "at {at}: {word:?} is neither a word of pcap-filter(7) nor an address; names are not looked up"
        ))
    }

    fn net(&mut self, q: &Qualifiers) -> Result<Test, String> {
        let at = self.at();
        let word = self.take().unwrap_or_default();
        let bits = match self.taken("/") {
            true => Some(self.literal("a prefix length")?),
            false => None,
        };
        if let Ok(address) = word.parse::<Ipv6Addr>() {
            let bits = bits.unwrap_or(128);
            let value = u128::from(address);
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(bits)).unwrap_or(0);
            if bits > 128 || value & !mask != 0 {
                return Err(format!("at {at}: {word}/{bits} is no prefix: bits beyond it are set"));
            }
            return self.address6(q, value, mask, at);
        }
        // `net 10.1` is 10.1.0.0/16.
        let parts: Vec<u32> = word
            .split('.')
            .map(|p| p.parse::<u8>().map(u32::from))
            .collect::<Result<_, _>>()
            .map_err(|_| format!("at {at}: {word:?}: expected a network such as 198.18.0.0/15"))?;
        if parts.len() > 4 {
            return Err(format!("at {at}: {word:?}: expected a network such as 198.18.0.0/15"));
        }
        let value = (0..4).fold(0, |all, i| all << 8 | parts.get(i).copied().unwrap_or(0));
        let mask = if self.taken("mask") {
            let at = self.at();
            let mask = self.take().unwrap_or_default();
            let parsed: Result<Ipv4Addr, _> = mask.parse();
            parsed.map(u32::from).map_err(|_| format!("at {at}: {mask:?} is no net mask"))?
        } else {
            let bits = bits.unwrap_or(8 * parts.len() as u32);
            if bits > 32 {
                return Err(format!("at {at}: an IPv4 prefix has at most 32 bits, not {bits}"));
            }
            u32::MAX.checked_shl(32 - bits).unwrap_or(0)
        };
        if value & !mask != 0 {
            return Err(format!("at {at}: {word} has bits beyond its prefix"));
        }
        self.address4(q, value, mask, at)
    }

    fn proto(&mut self, q: &Qualifiers) -> Result<Test, String> {
        let at = self.at();
        let word = self.take().unwrap_or_default();
        let value = |list| {
            number(&word)
                .or(listed(list, &word))
                .ok_or_else(|| format!("at {at}: {word:?} is no protocol that is known here"))
        };
        match q.protocol.as_deref() {
            Some("ether") => {
                let wanted = value(&OVER_ETHERNET)?;
                if wanted < 0x600 {
                    return Err(format!("at {at}: {wanted} is a length; EtherTypes begin at 1536"));
                }
                Ok(self.link.ether_type(wanted))
            }
            Some("ip") => Ok(self.over_ip4(value(&OVER_IP)?)),
            Some("ip6") => Ok(self.over_ip6(value(&OVER_IP)?)),
            None => {
                let protocol = value(&OVER_IP)?;
                Ok(self.over_ip4(protocol).or(self.over_ip6(protocol)))
            }
            Some(other) => Err(format!("at {at}: {other} has no protocols above it here")),
        }
    }

    fn port(&mut self, q: &Qualifiers) -> Result<Test, String> {
        let at = self.at();
        let protocols = match q.protocol.as_deref() {
            None => WITH_PORTS.to_vec(),
            Some(word) => match listed(&OVER_IP, word).filter(|p| WITH_PORTS.contains(p)) {
                Some(protocol) => vec![protocol],
                None => return Err(format!("at {at}: {word} has no ports")),
            },
        };
        let word = self.take().unwrap_or_default();
        let range = match q.kind {
            "portrange" => word.split_once('-').map(|(a, b)| (number(a), number(b))),
            _ => Some((number(&word), number(&word))),
        };
        let (low, high) = match range {
            Some((Some(low), Some(high))) if low <= high && high <= 0xffff => (low, high),
            _ => {
                let form = if q.kind == "port" { "0 to 65535" } else { "LOW-HIGH" };
                return Err(format!("at {at}: {word:?}: expected {form}; names are not looked up"));
            }
        };
        let within = |at: Number| {
            let port = load(at, 2);
            if low == high {
                return is(port, low);
            }
            let above = Test::Is(Relation::GreaterOrEqual, port.clone(), Number::Is(low));
            above.and(Test::Is(Relation::LessOrEqual, port, Number::Is(high)))
        };
        let network = self.link.network();
        let any_of = |at: u32| {
            let tests = protocols.iter().map(|p| is(load(Number::Is(at), 1), *p));
            tests.reduce(Test::or).unwrap_or(is(Number::Is(0), 1))
        };
        let behind = |at: Number| q.side.test(within(at.clone()), within(at.plus(2)));
        let ip6 = self.link.ether_type(0x86dd).and(any_of(network + 6));
        let ip4 = self.link.ether_type(0x0800).and(any_of(network + 9)).and(self.is_first());
        Ok(ip6.and(behind(Number::Is(network + 40))).or(ip4.and(behind(self.transport()))))
    }
}

fn operation(sign: &str, at: usize, a: Number, b: Number) -> Result<Number, String> {
    let operation = match sign {
        "+" => Operation::Add,
        "-" => Operation::Subtract,
        "*" => Operation::Multiply,
        "/" => Operation::Divide,
        "%" => Operation::Rest,
        "&" => Operation::And,
        "|" => Operation::Or,
        "^" => Operation::Xor,
        "<<" => Operation::Left,
        _ => Operation::Right,
    };
    if matches!((operation, &b), (Operation::Divide | Operation::Rest, Number::Is(0))) {
        return Err(format!("at {at}: division by zero"));
    }
    Ok(a.with(operation, b))
}

/// Any text and any frame: a fuzz target's body.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let (text, frame) = data.split_at(data.len() / 2);
    if let Ok(filter) = Filter::parse(&String::from_utf8_lossy(text)) {
        filter.passes(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{self, Probe};
    use port::pcap::{Reader, Writer};
    use port::prng::Prng;
    use std::process::Command;

    fn probe() -> Vec<u8> {
        probe::frame(60, 0, Probe { stream: 1, seq: 2, due: 3 })
    }

    fn passes(text: &str, frame: &[u8]) -> bool {
        Filter::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).passes(frame)
    }

    #[test]
    fn probes_are_told_by_what_they_are() {
        let plain = probe();
        let tagged = [&plain[..12], &[0x81, 0, 0x20, 5], &plain[12..]].concat();
        for text in [
            "",
            "udp and dst port 9",
            "ip src 198.19.255.254 and dst net 198.18.0.0/16",
            "ether dst 02:00:00:00:fe:02",
            "len == 60 and not tcp",
            "udp[4:2] - 8 = len - 42",
            "(udp or tcp) and (port 80 or 9)",
            "ip[8] > 63 && (ip[0] & 0xf) * 4 == 20",
        ] {
            assert!(passes(text, &plain), "{text}");
        }
        for text in ["vlan", "tcp", "port 80 or 81", "ip6", "less 59", "udp src port 9", "arp"] {
            assert!(!passes(text, &plain), "{text}");
        }
        for text in ["vlan 5 and udp dst port 9", "vlan and ip", "not ip", "ether[12:2] = 0x8100"] {
            assert!(passes(text, &tagged), "{text}");
        }
        assert!(!passes("vlan 6", &tagged));
        assert!(!passes("udp", &tagged));
    }

    #[test]
    fn a_load_beyond_the_end_fails_the_frame() {
        assert!(!passes("not ether[100] = 0", &probe()));
        assert!(!passes("ether[100] = 0 or ip", &probe()));
        assert!(!passes("len / (len - 60) = 1 or ip", &probe()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, error) in [
            ("udp and", "at 7: the filter ends where a condition is missing"),
            ("host example.org", "at 5: \"example.org\" is neither a word of"),
            ("port http", "at 5: \"http\": expected 0 to 65535"),
            ("len + 3", "at 7: a number is no condition; compare it, as in len > 100"),
            ("(udp", "at 4: \")\" is missing"),
            ("udp)", "at 3: \")\" cannot follow here"),
            ("len / 0 > 1", "at 4: division by zero"),
            ("net 10.1.2.3/8", "at 4: 10.1.2.3 has bits beyond its prefix"),
            ("tcp net 10", "at 8: tcp has no IPv4 address"),
            ("ether", "at 0: ether is no condition by itself"),
            ("ip[2:3] = 1", "at 0: a number has 1, 2 or 4 bytes, not 3"),
            ("udp ; ip", "at 4: ';' means nothing in a filter"),
            ("portrange 5", "at 10: \"5\": expected LOW-HIGH"),
        ] {
            let found = Filter::parse(text).map(|f| f.text).unwrap_err();
            assert!(found.starts_with(error), "{text}: {found}");
        }
        assert!(Filter::parse(&"(".repeat(1000)).unwrap_err().contains("nested more than"));
        assert!(Filter::parse(&"x".repeat(5000)).unwrap_err().contains("longer than"));
    }

    #[test]
    fn any_text_and_frame_can_be_read() {
        let words = [
            "ip", "udp", "not", "and", "or", "(", ")", "[", "]", ":", "port", "net", "/", "8",
            "src", "vlan", "mpls", "len", "<", "1.2.3.4", "::1", "-", "0x10", "ether", "host", "&",
        ];
        let mut prng = Prng::new(5);
        for _ in 0..20_000 {
            let count = prng.below(12);
            let text: Vec<&str> =
                (0..count).map(|_| words[prng.below(words.len() as u64) as usize]).collect();
            if let Ok(filter) = Filter::parse(&text.join(" ")) {
                filter.passes(&probe()[..prng.below(60) as usize]);
            }
        }
    }

    /// Frames of many kinds, some cut short.
    fn frames(prng: &mut Prng) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for _ in 0..1500 {
            let mut frame = probe();
            frame.resize(60 + prng.below(80) as usize, 7);
            let ether_type: u16 =
                [0x0800, 0x0806, 0x86dd, 0x8035, 0x8847, 0x88cc][prng.below(6) as usize];
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
            match ether_type {
                0x0800 => {
                    frame[14] = [0x45, 0x46, 0x47][prng.below(3) as usize];
                    frame[20] = prng.below(2) as u8 * 0x20;
                    frame[21] = prng.below(3) as u8 / 2;
                    frame[23] = [1, 6, 17, 132, 58][prng.below(5) as usize];
                    frame[34..38].copy_from_slice(&[
                        0,
                        prng.below(12) as u8,
                        0,
                        prng.below(12) as u8,
                    ]);
                    frame[26..34].copy_from_slice(&[
                        10,
                        1,
                        2,
                        prng.below(4) as u8,
                        198,
                        18,
                        0,
                        prng.below(4) as u8,
                    ]);
                }
                0x0806 | 0x8035 => {
                    frame[28..32].copy_from_slice(&[10, 1, 2, prng.below(4) as u8]);
                    frame[38..42].copy_from_slice(&[198, 18, 0, prng.below(4) as u8]);
                }
                0x86dd => {
                    frame[14..54].fill(0);
                    frame[20] = [6, 17, 44, 58, 0][prng.below(5) as usize];
                    frame[22..24].copy_from_slice(&[0x20, 1]);
                    frame[38] = prng.below(2) as u8 * 0xff;
                    frame[53] = 1 + prng.below(3) as u8;
                    frame[54..58].copy_from_slice(&[
                        0,
                        prng.below(12) as u8,
                        0,
                        prng.below(12) as u8,
                    ]);
                }
                0x8847 => {
                    frame[14..18].copy_from_slice(&[0, 0, 0x50 + prng.below(2) as u8, 64]);
                    frame[18] = [0x45, 0x60, 0][prng.below(3) as usize];
                    frame[27] = 17;
                }
                _ => {}
            }
            frame[0] = [2, 0xff, 3][prng.below(3) as usize];
            if frame[0] == 0xff {
                frame[..6].fill(0xff);
            }
            if prng.below(3) == 0 {
                let tag = [0x81, 0, 0, prng.below(8) as u8];
                frame.splice(12..12, tag);
            }
            if prng.below(8) == 0 {
                frame.truncate(14 + prng.below(40) as usize);
            }
            all.push(frame);
        }
        all
    }

    #[test]
    fn tcpdump_passes_the_same_frames() {
        let frames = frames(&mut Prng::new(3));
        let folder = std::env::temp_dir().join(format!("gauge-filter-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("frames.pcap");
        let mut writer = Writer::new(std::fs::File::create(&file).unwrap()).unwrap();
        for (i, frame) in frames.iter().enumerate() {
            writer.write(i as u64 * 1_000_000_000, frame).unwrap();
        }
        writer.into_inner().unwrap();
        let mut compared = 0;
        for text in [
            "ip",
            "ip6",
            "arp",
            "rarp",
            "tcp",
            "udp",
            "sctp",
            "icmp",
            "icmp6",
            "not udp",
            "udp port 9",
            "tcp src port 3 or 4",
            "port 5",
            "portrange 2-6",
            "udp dst portrange 1-4",
            "src or dst port 7",
            "src and dst port 7",
            "host 10.1.2.1",
            "src host 10.1.2.1",
            "ip host 198.18.0.2",
            "arp dst host 198.18.0.2",
            "net 10.1",
            "dst net 198.18.0.0/15",
            "net 198.18.0.0 mask 255.254.0.0",
            "ip6 host 2001::",
            "host ff00::1",
            "dst net ff00::/8",
            "ip proto 17",
            "ip6 proto 6",
            "proto 6",
            "ether proto 0x88cc",
            "ether proto \\arp",
            "ether host 02:00:00:00:fe:02",
            "ether src 02:00:00:00:fe:01",
            "broadcast",
            "ether multicast",
            "ip multicast",
            "ip6 multicast",
            "less 70",
            "greater 100",
            "vlan",
            "vlan 3",
            "vlan and udp",
            "vlan 5 and udp port 9",
            "ip or vlan 2 or udp",
            "not vlan and udp",
            "mpls",
            "mpls 1281",
            "mpls and ip",
            "mpls and udp",
            "len > 100",
            "ip[8] < 5 or ip[0] & 0xf != 5",
            "udp[2:2] = 9",
            "tcp[13] & 2 != 0",
            "ether[0] & 1 = 1",
            "ip[2:2] + 14 = len",
            "not ip[6:2] & 0x1fff = 0",
            "tcp and not port 3 and (len < 90 or vlan)",
            "icmp[0] = 0",
            "ip6[6] = 17",
            "not host 10.1.2.1 and 10.1.2.2",
            "len - 4 > 60",
            "(len & 3) << 2 = 4",
            "len | 3 & 1 = 1",
            "len & 7 | 1 = 3",
            "len % 7 + 1 = 4",
            "len + 3 % 2 = 61",
            "len ^ 3 ^ 2 | 4 = 59",
            "len * 3 ^ 2 = 60",
            "len >> 3 & 3 = 1",
            "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
            "arp[6:2] = 0",
        ] {
            let out = Command::new("tcpdump").arg("-r").arg(&file).args(["-w", "-", text]).output();
            let Ok(out) = out else {
                println!("skipped: there is no tcpdump here");
                break;
            };
            let told = String::from_utf8_lossy(&out.stderr).to_string();
            assert!(out.status.success(), "{text}: tcpdump: {told}");
            let mut reader = Reader::new(&out.stdout[..]).unwrap();
            let mut theirs = Vec::new();
            while let Some(record) = reader.next_record().unwrap() {
                theirs.push((record.ns / 1_000_000_000) as usize);
            }
            let filter = Filter::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let ours: Vec<usize> =
                (0..frames.len()).filter(|i| filter.passes(&frames[*i])).collect();
            let odd = ours
                .iter()
                .find(|i| !theirs.contains(i))
                .or(theirs.iter().find(|i| !ours.contains(i)));
            assert_eq!(
                odd.map(|i| &frames[*i]),
                None,
                "{text}: {} to {}",
                ours.len(),
                theirs.len()
            );
            compared += 1;
        }
        println!("{compared} filters compared");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
