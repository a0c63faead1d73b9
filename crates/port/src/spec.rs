//! Port specifications as users write them: `[NAME[:NUMBER]=]SPEC`.
//!
//! | SPEC | port |
//! |---|---|
//! | `tap:IF` | [`tap`](crate::tap) |
//! | `af_packet:IF` | [`af_packet`](crate::af_packet) |
//! | `af_xdp:IF[,queue=N][,mode=native\|generic][,busy-poll=USEC]` | the crate `port-xdp` |
//! | `pcap:[rx=FILE][,tx=FILE][,loop]` | [`pcap`](crate::pcap), at least one of the files |
//! | `memory:NAME` | [`memory`] |
//! | `patch:PEER` | [`patch`](crate::patch), opened at a panel; the port has a name |
//! | `internal:IF` | [`tap`](crate::tap), which is shown as internal |
//! | `dpdk:DEVARGS` | a build with DPDK |
//!
//! A specification that begins with a kind and a colon has no name, unless digits and `=` follow:
//! `pcap:rx=a` is a file, `pcap:3=tap:t0` is port 3, called `pcap`. File names cannot contain
//! commas; DEVARGS are passed on as they are.
//!
//! Errors name the word and, for an unknown one, the nearest known one; positions are for programs. The texts are golden.

use std::fmt;
use std::path::PathBuf;

use crate::af_packet::AfPacket;
use crate::pcap::Pcap;
use crate::tap::Tap;
use crate::{Error, Port, memory};

/// One port as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name given, if one was.
    pub given_name: Option<String>,
    /// The number given, if one was; at least 1.
    pub number: Option<u32>,
    /// What to open.
    pub kind: Kind,
}

/// What to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A TAP interface, by name.
    Tap(String),
    /// An existing interface, by name, over AF_PACKET.
    AfPacket(String),
    /// An existing interface over AF_XDP.
    AfXdp(Xdp),
    /// Capture files.
    Pcap {
        /// To receive from.
        rx: Option<PathBuf>,
        /// To write to.
        tx: Option<PathBuf>,
        /// Whether to start again at the end.
        repeat: bool,
    },
    /// Rings in this process, by name.
    Memory(String),
    /// A patch port to the port of this name.
    Patch(String),
    /// A TAP interface by which this machine is reached through the switch, by name.
    Internal(String),
    /// A DPDK device, by its devargs.
    Dpdk(String),
}

/// An AF_XDP port as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xdp {
    /// The interface's name.
    pub interface: String,
    /// The interface's queue; all that it receives by, if not said.
    pub queue: Option<u32>,
    /// Where the XDP program runs; native with generic as its fallback if not said.
    pub mode: XdpMode,
    /// For so many microseconds a call into the kernel runs the driver's receive loop itself,
    /// instead of waiting for its interrupt; if not said, it does not.
    pub busy_poll_us: Option<u32>,
    /// How bursts of frames leave; by the ring if not said, but for who opens the port to generate traffic.
    pub send: XdpSend,
}

/// Where the XDP program of an AF_XDP port runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// Native, or generic where the driver cannot.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's general receive path.
    Generic,
}

/// How bursts of frames leave an AF_XDP port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpSend {
    /// As whoever opens the port prefers.
    #[default]
    Auto,
    /// By the socket's transmit ring.
    Ring,
    /// As XDP frames that the kernel makes itself, wherever the interface takes such.
    Live,
}

/// Why a specification was refused. Positions are bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such kind of port, option or mode.
    #[error("unknown {what} {word:?}{}; known: {known}", nearest_hint(.nearest))]
    Unknown {
        /// Where the word starts.
        at: usize,
        /// What it should have been.
        what: &'static str,
        /// The word.
        word: String,
        /// The known word nearest to it.
        nearest: Option<&'static str>,
        /// All known words.
        known: String,
    },
    /// Something is missing.
    #[error("{what} is missing; wanted {wanted}")]
    Missing {
        /// Where it should have been.
        at: usize,
        /// What it is.
        what: &'static str,
        /// The form it should have.
        wanted: &'static str,
    },
    /// A number is none, or out of range.
    #[error("{what} {word:?} is not a number from {min} to {max}")]
    Number {
        /// Where it starts.
        at: usize,
        /// What it should have been.
        what: &'static str,
        /// The word.
        word: String,
        /// The least number allowed.
        min: u32,
        /// The greatest.
        max: u32,
    },
    /// An option was given twice.
    #[error("{word:?} was given already")]
    Twice {
        /// Where it stands the second time.
        at: usize,
        /// The option.
        word: String,
    },
    /// An option takes a value or does not.
    #[error("{word:?} {}", if *.takes_value { "wants a value: NAME=VALUE" } else { "takes no value" })]
    Value {
        /// Where the option stands.
        at: usize,
        /// The option.
        word: String,
        /// Whether it takes one.
        takes_value: bool,
    },
    /// Not an interface's name.
    #[error("{word:?} cannot be an interface name: 1 to 15 bytes, no '/', ':' nor white space")]
    Interface {
        /// Where it starts.
        at: usize,
        /// What was given.
        word: String,
    },
}

impl SpecError {
    /// Where in the specification it is, in bytes.
    pub fn at(&self) -> usize {
        match self {
            SpecError::Unknown { at, .. }
            | SpecError::Missing { at, .. }
            | SpecError::Number { at, .. }
            | SpecError::Twice { at, .. }
            | SpecError::Value { at, .. }
            | SpecError::Interface { at, .. } => *at,
        }
    }
}

const KINDS: &[&str] =
    &["tap", "af_packet", "af_xdp", "pcap", "memory", "dpdk", "patch", "internal"];

fn nearest_hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |word| format!(", did you mean {word:?}?"))
}

impl Spec {
    /// Reads a specification.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let (given_name, number, at) = match split_name(text) {
            None => (None, None, 0),
            Some(prefix) => {
                let (name, number) = parse_name(prefix)?;
                (Some(name), number, prefix.len() + 1)
            }
        };
        let kind = Kind::parse(&text[at..], at)?;
        if given_name.is_none() && matches!(kind, Kind::Patch(_)) {
            let wanted = "NAME=patch:PEER";
            return Err(SpecError::Missing { at: 0, what: "the patch port's own name", wanted });
        }
        Ok(Spec { given_name, number, kind })
    }

    /// The port's name: the one given, else that of the interface, ring or kind.
    pub fn name(&self) -> &str {
        if let Some(name) = &self.given_name {
            return name;
        }
        match &self.kind {
            Kind::Tap(name) | Kind::AfPacket(name) | Kind::Memory(name) | Kind::Internal(name) => {
                name
            }
            Kind::Patch(_) => "patch",
            Kind::AfXdp(xdp) => &xdp.interface,
            Kind::Dpdk(devargs) => devargs.split(',').next().unwrap_or(devargs),
            Kind::Pcap { .. } => "pcap",
        }
    }

    /// Opens the port. Kinds of other crates are opened by them, and refused here.
    pub fn open(&self) -> Result<Box<dyn Port>, Error> {
        self.kind.open(self.name())
    }
}

/// The part before `=`, if it is a name and not the start of an option.
fn split_name(text: &str) -> Option<&str> {
    let (prefix, _) = text.split_once('=')?;
    let Some((first, rest)) = prefix.split_once(':') else { return Some(prefix) };
    let is_number = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    (is_number || !KINDS.contains(&first)).then_some(prefix)
}

fn parse_name(prefix: &str) -> Result<(String, Option<u32>), SpecError> {
    let (name, number) = match prefix.split_once(':') {
        None => (prefix, None),
        Some((name, word)) => {
            (name, Some(parse_number(word, name.len() + 1, "port number", 1, u32::MAX)?))
        }
    };
    if name.is_empty() {
        let wanted = "NAME=SPEC or NAME:NUMBER=SPEC";
        return Err(SpecError::Missing { at: 0, what: "the port's name", wanted });
    }
    Ok((name.to_owned(), number))
}

fn parse_number(
    word: &str,
    at: usize,
    what: &'static str,
    min: u32,
    max: u32,
) -> Result<u32, SpecError> {
    let number = if word.starts_with('+') { None } else { word.parse().ok() };
    number.filter(|n| (min..=max).contains(n)).ok_or_else(|| SpecError::Number {
        at,
        what,
        word: word.to_owned(),
        min,
        max,
    })
}

impl Kind {
    /// Opens a port of this name. AF_XDP and DPDK are opened by their own crates, patch ports at a panel, and refused here.
    pub fn open(&self, name: &str) -> Result<Box<dyn Port>, Error> {
        let elsewhere =
            |what: &str| Err(Error::Unsupported { name: name.to_owned(), what: what.to_owned() });
        match self {
            Kind::Tap(interface) => Ok(Box::new(Tap::open(interface)?)),
            Kind::Internal(interface) => Ok(Box::new(Tap::open_internal(interface)?)),
            Kind::AfPacket(interface) => Ok(Box::new(AfPacket::open(interface)?)),
            Kind::Memory(name) => Ok(Box::new(memory::open(name)?)),
            Kind::Pcap { rx, tx, repeat } => {
                Ok(Box::new(Pcap::open(name, rx.as_deref(), tx.as_deref(), *repeat)?))
            }
            Kind::AfXdp(_) => elsewhere("af_xdp ports are opened by the crate port-xdp"),
            Kind::Dpdk(_) => elsewhere("dpdk ports are opened by the crate port-dpdk"),
            Kind::Patch(_) => elsewhere("patch ports are opened at a panel that switches share"),
        }
    }

    /// Reads the part behind the name, which starts at `at`.
    fn parse(text: &str, at: usize) -> Result<Kind, SpecError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let after = at + kind.len() + 1;
        let missing = |what, wanted| Err(SpecError::Missing { at: after, what, wanted });
        match kind {
            "tap" => interface(rest, after).map(Kind::Tap),
            "af_packet" => interface(rest, after).map(Kind::AfPacket),
            "af_xdp" => parse_xdp(rest, after).map(Kind::AfXdp),
            "pcap" => parse_pcap(rest, after),
            "memory" if rest.is_empty() => missing("the ring's name", "memory:NAME"),
            "memory" => Ok(Kind::Memory(rest.to_owned())),
            "internal" => interface(rest, after).map(Kind::Internal),
            "patch" if rest.is_empty() => missing("the other port's name", "NAME=patch:PEER"),
            "patch" => Ok(Kind::Patch(rest.to_owned())),
            "dpdk" if rest.is_empty() => missing("the device", "dpdk:DEVARGS"),
            "dpdk" => Ok(Kind::Dpdk(rest.to_owned())),
            "" => Err(SpecError::Missing { at, what: "the kind of port", wanted: "KIND:..." }),
            _ => Err(unknown(at, "kind of port", kind, KINDS)),
        }
    }
}

fn unknown(at: usize, what: &'static str, word: &str, known: &[&'static str]) -> SpecError {
    let nearest = nearest(word, known);
    SpecError::Unknown { at, what, word: word.to_owned(), nearest, known: known.join(", ") }
}

fn interface(word: &str, at: usize) -> Result<String, SpecError> {
    if word.is_empty() {
        let wanted = "KIND:INTERFACE";
        return Err(SpecError::Missing { at, what: "the interface", wanted });
    }
    match crate::check_interface_name(word) {
        Ok(()) => Ok(word.to_owned()),
        Err(_) => Err(SpecError::Interface { at, word: word.to_owned() }),
    }
}

/// The comma-separated words of a text, each with its position.
fn words(text: &str, at: usize) -> impl Iterator<Item = (usize, &str)> {
    text.split(',').scan(at, |next, word| {
        let at = *next;
        *next += word.len() + 1;
        Some((at, word))
    })
}

fn parse_xdp(text: &str, at: usize) -> Result<Xdp, SpecError> {
    let mut words = words(text, at);
    let (at, name) = words.next().unwrap_or((at, ""));
    let interface = interface(name, at)?;
    let (mut queue, mut mode, mut busy_poll_us, mut send) = (None, None, None, None);
    for (at, word) in words {
        let (option, value) = split_option(word);
        let place = at + option.len() + 1;
        let twice = match (option, value) {
            ("queue", Some(value)) => {
                queue.replace(parse_number(value, place, "queue", 0, 65_535)?).is_some()
            }
            ("mode", Some("native")) => mode.replace(XdpMode::Native).is_some(),
            ("mode", Some("generic")) => mode.replace(XdpMode::Generic).is_some(),
            ("mode", Some(value)) => {
                return Err(unknown(place, "mode", value, &["native", "generic"]));
            }
            ("busy-poll", Some(value)) => {
                let us = parse_number(value, place, "busy-poll", 1, 1_000_000)?;
                busy_poll_us.replace(us).is_some()
            }
            ("send", Some("ring")) => send.replace(XdpSend::Ring).is_some(),
            ("send", Some("live")) => send.replace(XdpSend::Live).is_some(),
            ("send", Some(value)) => {
                return Err(unknown(place, "way to send", value, &["ring", "live"]));
            }
            ("queue" | "mode" | "busy-poll" | "send", None) => {
                return Err(SpecError::Value { at, word: option.to_owned(), takes_value: true });
            }
            _ => {
                let known = ["queue", "mode", "busy-poll", "send"];
                return Err(unknown(at, "option of af_xdp", option, &known));
            }
        };
        if twice {
            return Err(SpecError::Twice { at, word: option.to_owned() });
        }
    }
    let (mode, send) = (mode.unwrap_or_default(), send.unwrap_or_default());
    Ok(Xdp { interface, queue, mode, busy_poll_us, send })
}

fn parse_pcap(text: &str, start: usize) -> Result<Kind, SpecError> {
    let (mut rx, mut tx, mut repeat) = (None, None, None);
    for (at, word) in words(text, start) {
        let (option, value) = split_option(word);
        let twice = match (option, value) {
            ("rx" | "tx", Some("")) => {
                let (at, what) = (at + option.len() + 1, "the file's name");
                return Err(SpecError::Missing { at, what, wanted: "rx=FILE or tx=FILE" });
            }
            ("rx", Some(file)) => rx.replace(PathBuf::from(file)).is_some(),
            ("tx", Some(file)) => tx.replace(PathBuf::from(file)).is_some(),
            ("loop", None) => repeat.replace(true).is_some(),
            ("rx" | "tx" | "loop", _) => {
                let takes_value = option != "loop";
                return Err(SpecError::Value { at, word: option.to_owned(), takes_value });
            }
            ("", None) if text.is_empty() => false,
            _ => return Err(unknown(at, "option of pcap", option, &["rx", "tx", "loop"])),
        };
        if twice {
            return Err(SpecError::Twice { at, word: option.to_owned() });
        }
    }
    if rx.is_none() && tx.is_none() {
        let wanted = "pcap:rx=FILE[,tx=FILE][,loop]";
        return Err(SpecError::Missing { at: start, what: "the file", wanted });
    }
    Ok(Kind::Pcap { rx, tx, repeat: repeat.unwrap_or(false) })
}

fn split_option(word: &str) -> (&str, Option<&str>) {
    word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)))
}

/// The known word at the least edit distance, if it is near enough to be meant.
fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let near = known.iter().map(|&candidate| (distance(word, candidate), candidate)).min()?;
    (near.0 <= near.1.len().div_ceil(2)).then_some(near.1)
}

/// Insertions, deletions and substitutions of bytes between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(byte != other);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

impl std::str::FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        Spec::parse(text)
    }
}

/// As it is parsed.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.given_name {
            f.write_str(name)?;
            if let Some(number) = self.number {
                write!(f, ":{number}")?;
            }
            f.write_str("=")?;
        }
        match &self.kind {
            Kind::Tap(name) => write!(f, "tap:{name}"),
            Kind::AfPacket(name) => write!(f, "af_packet:{name}"),
            Kind::Memory(name) => write!(f, "memory:{name}"),
            Kind::Patch(peer) => write!(f, "patch:{peer}"),
            Kind::Internal(name) => write!(f, "internal:{name}"),
            Kind::Dpdk(devargs) => write!(f, "dpdk:{devargs}"),
            Kind::AfXdp(xdp) => {
                write!(f, "af_xdp:{}", xdp.interface)?;
                if let Some(queue) = xdp.queue {
                    write!(f, ",queue={queue}")?;
                }
                match xdp.mode {
                    XdpMode::Auto => Ok(()),
                    XdpMode::Native => f.write_str(",mode=native"),
                    XdpMode::Generic => f.write_str(",mode=generic"),
                }?;
                xdp.busy_poll_us.map_or(Ok(()), |us| write!(f, ",busy-poll={us}"))?;
                match xdp.send {
                    XdpSend::Auto => Ok(()),
                    XdpSend::Ring => f.write_str(",send=ring"),
                    XdpSend::Live => f.write_str(",send=live"),
                }
            }
            Kind::Pcap { rx, tx, repeat } => {
                let rx = rx.iter().map(|file| format!("rx={}", file.display()));
                let tx = tx.iter().map(|file| format!("tx={}", file.display()));
                let repeat = repeat.then(|| "loop".to_owned());
                let options: Vec<String> = rx.chain(tx).chain(repeat).collect();
                write!(f, "pcap:{}", options.join(","))
            }
        }
    }
}

/// Body of the fuzz target `port_spec`: any text is a specification that is written and read again the same, or refused
/// with a place in it.
pub fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Spec::parse(text) {
        Ok(spec) => {
            assert!(spec.number.is_none_or(|number| number > 0));
            assert_eq!(Spec::parse(&spec.to_string()).as_ref(), Ok(&spec), "{text:?}");
        }
        Err(error) => assert!(error.at() <= text.len() + 1, "{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(kind: Kind) -> Spec {
        Spec { given_name: None, number: None, kind }
    }

    #[test]
    fn reads_every_kind() {
        let xdp = |queue, mode| {
            let (interface, busy_poll_us) = ("eth0".into(), None);
            Kind::AfXdp(Xdp { interface, queue, mode, busy_poll_us, send: XdpSend::Auto })
        };
        let busy = Xdp {
            interface: "eth0".into(),
            queue: None,
            mode: XdpMode::Auto,
            busy_poll_us: Some(20),
            send: XdpSend::Live,
        };
        let pcap = |rx: Option<&str>, tx: Option<&str>, repeat| Kind::Pcap {
            rx: rx.map(PathBuf::from),
            tx: tx.map(PathBuf::from),
            repeat,
        };
        for (text, kind) in [
            ("tap:t0", Kind::Tap("t0".into())),
            ("af_packet:veth-a", Kind::AfPacket("veth-a".into())),
            ("af_xdp:eth0", xdp(None, XdpMode::Auto)),
            ("af_xdp:eth0,busy-poll=20,send=live", Kind::AfXdp(busy)),
            ("af_xdp:eth0,mode=generic,queue=3", xdp(Some(3), XdpMode::Generic)),
            ("af_xdp:eth0,mode=native", xdp(None, XdpMode::Native)),
            ("pcap:rx=a.pcap", pcap(Some("a.pcap"), None, false)),
            ("pcap:rx=a=b,tx=/c/d.pcap,loop", pcap(Some("a=b"), Some("/c/d.pcap"), true)),
            ("memory:left", Kind::Memory("left".into())),
            ("internal:br0", Kind::Internal("br0".into())),
            (
                "dpdk:net_pcap0,rx_pcap=a.pcap,infinite_rx=1",
                Kind::Dpdk("net_pcap0,rx_pcap=a.pcap,infinite_rx=1".into()),
            ),
        ] {
            let spec = Spec::parse(text).unwrap();
            assert_eq!(spec, plain(kind));
            assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
        }
    }

    #[test]
    fn reads_names_and_numbers() {
        for (text, name, number, shown) in [
            ("lan=tap:t0", Some("lan"), None, "lan"),
            ("lan:7=pcap:rx=f", Some("lan"), Some(7), "lan"),
            ("pcap:3=tap:t0", Some("pcap"), Some(3), "pcap"),
            ("tap=memory:m", Some("tap"), None, "tap"),
            ("a:2=patch:b", Some("a"), Some(2), "a"),
            ("pcap:rx=f", None, None, "pcap"),
            ("dpdk:net_tap0,iface=x", None, None, "net_tap0"),
        ] {
            let spec = Spec::parse(text).unwrap();
            assert_eq!(
                (spec.given_name.as_deref(), spec.number, spec.name()),
                (name, number, shown)
            );
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, wanted) in [
            (
                "tapp:t0",
                "unknown kind of port \"tapp\", did you mean \"tap\"?; known: tap, af_packet, \
                 af_xdp, pcap, memory, dpdk, patch, internal",
            ),
            (
                "a:1=xyzzyx:t0",
                "unknown kind of port \"xyzzyx\"; known: tap, af_packet, af_xdp, pcap, memory, \
                 dpdk, patch, internal",
            ),
            ("", "the kind of port is missing; wanted KIND:..."),
            ("tap", "the interface is missing; wanted KIND:INTERFACE"),
            ("=tap:t0", "the port's name is missing; wanted NAME=SPEC or NAME:NUMBER=SPEC"),
            ("a:0=tap:t", "port number \"0\" is not a number from 1 to 4294967295"),
            ("a:x=tap:t", "port number \"x\" is not a number from 1 to 4294967295"),
            (
                "tap:much-too-long-a-name",
                "\"much-too-long-a-name\" cannot be an interface name: 1 to 15 bytes, no '/', \
                 ':' nor white space",
            ),
            ("af_xdp:e,queue=-1", "queue \"-1\" is not a number from 0 to 65535"),
            ("af_xdp:e,queue", "\"queue\" wants a value: NAME=VALUE"),
            (
                "af_xdp:e,mode=nativ",
                "unknown mode \"nativ\", did you mean \"native\"?; known: native, generic",
            ),
            (
                "af_xdp:e,send=wire",
                "unknown way to send \"wire\", did you mean \"live\"?; known: ring, live",
            ),
            ("af_xdp:e,queue=1,queue=1", "\"queue\" was given already"),
            ("pcap:", "the file is missing; wanted pcap:rx=FILE[,tx=FILE][,loop]"),
            ("pcap:loop", "the file is missing; wanted pcap:rx=FILE[,tx=FILE][,loop]"),
            ("pcap:rx=", "the file's name is missing; wanted rx=FILE or tx=FILE"),
            ("pcap:rx=a,loop=1", "\"loop\" takes no value"),
            (
                "pcap:rx=a,lop",
                "unknown option of pcap \"lop\", did you mean \"loop\"?; known: rx, tx, loop",
            ),
            ("memory:", "the ring's name is missing; wanted memory:NAME"),
            ("a=patch:", "the other port's name is missing; wanted NAME=patch:PEER"),
            ("patch:b", "the patch port's own name is missing; wanted NAME=patch:PEER"),
        ] {
            assert_eq!(Spec::parse(text).unwrap_err().to_string(), wanted);
        }
    }

    #[test]
    fn opens_what_needs_no_privilege() {
        let spec = Spec::parse("m=memory:spec-test").unwrap();
        assert_eq!(spec.open().unwrap().info().kind, "memory");
        let error = Spec::parse("af_xdp:eth0").unwrap().open().err().unwrap();
        assert_eq!(error.to_string(), "eth0: af_xdp ports are opened by the crate port-xdp");
    }

    #[test]
    fn survives_any_text() {
        let mut random = crate::prng::Prng::new(9);
        let pieces = ["tap", "pcap", "af_xdp", ":", "=", ",", "rx", "queue", "1", "é", "loop", " "];
        for _ in 0..20_000 {
            let text: String =
                (0..random.below(9)).map(|_| pieces[random.below(12) as usize]).collect();
            if let Ok(spec) = Spec::parse(&text) {
                assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
            }
        }
    }

    #[test]
    fn any_text_reads_back_or_is_refused() {
        let seeds = [
            "lan:7=af_xdp:eth0,queue=3,mode=native,busy-poll=20,send=live",
            "a=pcap:rx=f,tx=g=h,loop",
            "pcap:3=tap:t0",
            "memory:3=4",
            "a=patch:b",
            "x=memory:3=4",
            "dpdk:net_pcap0,rx_pcap=a.pcap",
        ];
        seeds.iter().for_each(|seed| fuzz(seed.as_bytes()));
        let letters = b":=,07+amepx-\xc3\xa9 \0\n";
        for seed in 0..20_000 {
            let mut random = crate::prng::Prng::new(seed);
            let mut bytes = seeds[random.below(seeds.len() as u64) as usize].as_bytes().to_vec();
            for _ in 0..random.below(5) {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                let letter = letters[random.below(letters.len() as u64) as usize];
                match (random.below(3), at < bytes.len()) {
                    (0, true) => drop(bytes.remove(at)),
                    (1, true) => bytes[at] = letter,
                    _ => bytes.insert(at, letter),
                }
            }
            fuzz(&bytes);
        }
    }
}
