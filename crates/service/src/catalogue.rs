//! Elements by name: from a *kind* and settings, as a command line or a configuration file writes them, to an
//! [`Element`].
//!
//! In: a kind's name and words `KEY=VALUE` ([`parse`]). Out: an element ([`element`]), or an [`Error`] that
//! says what was wrong and what would be right. [`kinds`] is what there is, for help texts.
//!
//! A setting that is a secret can come from a file: `key-file=PATH` in place of `key=VALUE` ([`with_files`]), so that it
//! is in no list of arguments.
//!
//! Invariants: each setting has a default or must be given; a key is given once; no secret is in an
//! error's text ([`without_secrets`] takes it out of what was given). Checked by: the tests below, which make an element of
//! each kind.

mod answers;
mod balancer;
mod error;
#[cfg(test)]
mod tests;

use crate::balance::{Eight, Spread};
use crate::conntrack;
use crate::element::{Element, Writes};
use crate::nat::Ports;
use crate::neighbour::Neighbour;
use crate::simple::{Counter, Firewall, MemoryWalker, Noop, PayloadMatch, RateLimiter, Translator};
use crate::transcode::{Direction, Key, Mode, Transcoder};
pub(crate) use error::names;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use answers::Answered;
pub use error::Error;

/// A kind of element.
#[derive(Debug)]
pub struct Kind {
    /// What [`element`] knows it by.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// What can be set.
    pub settings: &'static [Setting],
    /// What its elements may write.
    pub writes: Writes,
}

/// Something of a kind that can be set.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The key.
    pub name: &'static str,
    /// The value if it is not given; none if it must be.
    pub default: Option<&'static str>,
    /// What it means.
    pub about: &'static str,
    /// Whether its value is a secret, which is not to be shown.
    pub secret: bool,
    /// Whether its value is the path of a file that the switch reads.
    pub file: bool,
    /// Whether elements of one group may differ in it.
    pub own: bool,
}

const fn setting(
    name: &'static str,
    default: Option<&'static str>,
    about: &'static str,
) -> Setting {
    Setting { name, default, about, secret: false, file: false, own: false }
}

const fn secret(name: &'static str, default: Option<&'static str>, about: &'static str) -> Setting {
    Setting { secret: true, ..setting(name, default, about) }
}

const fn own(name: &'static str, default: Option<&'static str>, about: &'static str) -> Setting {
    Setting { own: true, ..setting(name, default, about) }
}

const fn file(name: &'static str, about: &'static str) -> Setting {
    Setting { file: true, ..setting(name, None, about) }
}

const SECONDS: &str =
    "seconds without a packet after which a connection in this state is forgotten";

const ACCOUNTING: Setting = setting(
    "accounting",
    Some("no"),
    "whether packets and octets of each connection are counted; 32 octets of memory for each",
);

static KINDS: &[Kind] = &[
    Kind {
        name: "noop",
        about: "does nothing: what a call costs",
        settings: &[],
        writes: Writes::Nothing,
    },
    Kind {
        name: "counter",
        about: "counts packets and octets",
        settings: &[],
        writes: Writes::Nothing,
    },
    Kind {
        name: "memory_walker",
        about: "reads as many octets of a block, in random lines of 64, as sf_argument says",
        settings: &[setting("bytes", Some("64M"), "size of the block, up to 4G")],
        writes: Writes::Nothing,
    },
    Kind {
        name: "rate_limiter",
        about: "drops what goes beyond a rate, frames counted without their checksum",
        settings: &[
            setting("rate", None, "octets a second"),
            setting("burst", Some("64k"), "octets at once; no frame longer than that passes"),
        ],
        writes: Writes::Nothing,
    },
    Kind {
        name: "payload_match",
        about: "looks for patterns in payloads; sf_metadata is the first one's number from 1, or 0",
        settings: &[
            setting("patterns", None, "separated by commas: text, or octets as 0x and hex digits"),
            setting("drop", Some("no"), "whether a packet with a match is dropped"),
        ],
        writes: Writes::Nothing,
    },
    Kind {
        name: "conntrack",
        about: "SoftFlow's firewall: with sf_argument 1 a packet may open a connection; \
                sf_metadata is 1 if it may pass",
        settings: &[
            setting("connections", Some("65536"), "connections at most, of each instance"),
            setting("half_open", Some("half"), "of them, so many that nobody has answered"),
            setting("fragmented", Some("4096"), "datagrams in fragments at a time"),
            setting("check_checksums", Some("yes"), "whether transport checksums are checked"),
            ACCOUNTING,
            setting("tcp_pick_up", Some("yes"), "whether TCP is taken up in its middle"),
            setting("tcp_liberal", Some("no"), "whether TCP's windows go unchecked"),
            setting("tcp_repeats", Some("3"), "repetitions after which tcp_repeating counts"),
            setting("tcp_syn_sent", Some("120"), SECONDS),
            setting("tcp_syn_received", Some("60"), SECONDS),
            setting("tcp_established", Some("432000"), SECONDS),
            setting("tcp_fin_wait", Some("120"), SECONDS),
            setting("tcp_close_wait", Some("60"), SECONDS),
            setting("tcp_last_ack", Some("30"), SECONDS),
            setting("tcp_time_wait", Some("120"), SECONDS),
            setting("tcp_closed", Some("10"), SECONDS),
            setting("tcp_repeating", Some("300"), "at most so, while a segment is repeated"),
            setting("tcp_unacknowledged", Some("300"), "at most so, while data is unacknowledged"),
            setting("sctp_closed", Some("10"), SECONDS),
            setting("sctp_transient", Some("3"), SECONDS),
            setting("sctp_established", Some("210"), SECONDS),
            setting("sctp_heartbeat", Some("30"), SECONDS),
            setting("udp", Some("30"), "seconds of UDP that was not answered"),
            setting("udp_stream", Some("120"), "seconds of UDP both ways"),
            setting("icmp", Some("30"), "seconds of ICMP's requests"),
            setting("other", Some("600"), "seconds of other protocols"),
            setting("fragment", Some("30"), "seconds from a datagram's first fragment on"),
        ],
        writes: Writes::Nothing,
    },
    Kind {
        name: "nat",
        about: "translates sources, as a router at home does: one element of a group for packets out, one for \
                their answers; sf_metadata is 1 for packets that it knows, and 0 for others, which stay as they are",
        settings: &[
            own("direction", None, "out: packets open connections; in: only answers are known"),
            setting(
                "addresses",
                None,
                "what sources become: ADDRESS or FIRST-LAST, both IPv4 or both IPv6",
            ),
            setting("ports", Some("1024-65535"), "FIRST-LAST; of an ICMP request, its identifier"),
            setting("connections", Some("65536"), "connections at most"),
            setting("check_checksums", Some("yes"), "whether transport checksums are checked"),
            ACCOUNTING,
            own(
                "answer",
                Some(""),
                "ARP and neighbour solicitations are answered for its addresses with this MAC address, or for \
                 ADDRESS@MAC,...; before table 0",
            ),
        ],
        writes: Writes::Ends,
    },
    Kind {
        name: "balancer8",
        about: "SoftFlow's balancer: a new flow goes to the least loaded of eight buckets; \
                sf_metadata is the bucket, 0 to 7, and lookups are repeated (sf_coalesce 0)",
        settings: &[
            setting("half_life_ms", Some("100"), "time in which half of a load is forgotten"),
            setting("flows", Some("65536"), "flows remembered, about, by each instance"),
            setting("idle", Some("300"), "seconds without a packet after which one is forgotten"),
        ],
        writes: Writes::Nothing,
    },
    Kind {
        name: "balancer",
        about: "Maglev: a flow goes to a backend by its hash and stays there; sf_metadata is the \
                backend's number, or 0 for none; a backend keeps its number while others come and go",
        settings: &[
            setting(
                "backends",
                None,
                "separated by commas: NAME, NAME:WEIGHT or NAME:WEIGHT:up|draining|down; NAME@NUMBER says its number",
            ),
            setting("flows", Some("65536"), "flows remembered, about, by each instance; 0: none"),
            setting("idle", Some("300"), "seconds without a packet after which one is forgotten"),
            secret("key", Some("0"), "a number, secret if clients may be hostile; same on all"),
            setting(
                "hosts",
                Some(""),
                "where backends are: NAME=ADDRESS,...; a name that is an address needs none",
            ),
            setting("check", Some("none"), "how backends are checked: none, tcp, http or icmp"),
            setting("check_port", Some("80"), "the port of tcp and http"),
            setting("check_path", Some("/"), "what http gets"),
            setting("check_host", Some(""), "http's Host; without it, address and port"),
            setting("check_expect", Some("200-399"), "http's good statuses: N or FIRST-LAST"),
            setting("check_interval", Some("2s"), "between checks of a backend: 500ms, 2s"),
            setting("check_timeout", Some("1s"), "an answer that takes longer is none"),
            setting("check_rise", Some("2"), "successes in a row that take a backend in"),
            setting(
                "check_fall",
                Some("3"),
                "failures in a row that take it out; the first check decides alone",
            ),
            setting(
                "check_source",
                Some(""),
                "the address that checks come from; without it, the kernel chooses",
            ),
            setting(
                "check_device",
                Some(""),
                "the interface that checks leave by; without it, routes decide",
            ),
            setting(
                "all_down",
                Some("keep"),
                "when checks take all out: keep uses all as if unchecked, refuse none",
            ),
            own(
                "answer",
                Some(""),
                "ADDRESS@MAC,...: ARP and neighbour solicitations are answered for these addresses, before table 0",
            ),
        ],
        writes: Writes::Nothing,
    },
    Kind {
        name: "neighbour",
        about: "turns ARP requests and neighbour solicitations for addresses into their answers; sf_metadata is 1 for \
                an answer, which is to go back by the port that it came by",
        settings: &[
            setting("addresses", None, "separated by commas: ADDRESS or FIRST-LAST, IPv4 or IPv6"),
            setting(
                "mac",
                None,
                "the address of the link layer that answers tell: 02:00:00:00:00:09",
            ),
        ],
        writes: Writes::Anything,
    },
    Kind {
        name: "transcoder",
        about: "AES on the payloads of TCP and UDP; sf_metadata is 1 for packets that it has \
                encrypted or decrypted, 0 for those left as they were",
        settings: &[
            setting("mode", Some("cbc"), "cbc, or gcm: the sender leaves 28 octets of room"),
            setting("direction", None, "encrypt or decrypt"),
            secret("key", None, "32 hex digits for AES-128, 64 for AES-256"),
            setting("left", Some("pass"), "what is left as it was: pass or drop it"),
        ],
        writes: Writes::Payload,
    },
    Kind {
        name: "wasm",
        about: "a WebAssembly module, with bounds of time and memory; what it reads and writes is its own",
        settings: &[
            file("module", "a file with the module, binary or text"),
            setting("writes", Some("nothing"), "what it may: nothing, payload, ends or anything"),
            setting("memory", Some("1M"), "octets of memory at most, of each instance, up to 256M"),
            setting(
                "fuel",
                Some("10k"),
                "for each packet of a burst; an instruction costs about 1",
            ),
            setting("start_fuel", Some("10M"), "until an instance is ready, also after a trap"),
            setting("octets", Some("2048"), "of each frame that it is handed, up to 64k"),
            setting("arguments", Some(""), "what its setup is told"),
            own(
                "role",
                Some("0"),
                "a number that packets come with, to tell a group's elements apart",
            ),
        ],
        writes: Writes::Anything,
    },
];

/// A kind by its name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// What there is.
pub fn kinds() -> &'static [Kind] {
    KINDS
}

/// What a secret's key ends in where its value is a file's path.
const FILE: &str = "-file";
/// Octets of a file that holds a secret, at most.
const FILE_MAX: u64 = 4096;

/// A key under which a kind of element takes a secret from a file: the secret's own key.
fn secret_of(kind: &Kind, key: &str) -> Option<&'static str> {
    let own = key.strip_suffix(FILE)?;
    kind.settings.iter().find(|s| s.secret && s.name == own).map(|s| s.name)
}

/// Whether a kind's setting is the path of a file that the switch reads.
pub fn is_file(kind: &str, key: &str) -> bool {
    let kind = self::kind(kind);
    kind.is_some_and(|kind| {
        secret_of(kind, key).is_some() || kind.settings.iter().any(|s| s.name == key && s.file)
    })
}

/// A secret that is given in the open, where lists of processes show it: its key.
pub fn open_secret(kind: &str, settings: &[(String, String)]) -> Option<&'static str> {
    let secret =
        kind_settings(kind).find(|s| s.secret && settings.iter().any(|(k, _)| k == s.name));
    secret.map(|s| s.name)
}

fn kind_settings(kind: &str) -> impl Iterator<Item = &'static Setting> {
    self::kind(kind).into_iter().flat_map(|kind| kind.settings)
}

/// Settings with the secrets that files hold in their places. The files' paths stay, to be shown.
///
/// # Errors
/// [`Error::File`], and [`Error::Together`] if a secret is given both ways.
pub fn with_files(
    kind: &str,
    settings: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, Error> {
    let Some(kind) = self::kind(kind) else { return Ok(settings) };
    let mut all = settings;
    for at in 0..all.len() {
        let (key, path) = all[at].clone();
        let Some(own) = secret_of(kind, &key) else { continue };
        if all.iter().any(|(other, _)| other == own) {
            let why = format!("{own}= and {key}= are two ways to say the same; give one");
            return Err(Error::Together { kind: kind.name, why });
        }
        let secret =
            read_secret(&path).map_err(|why| Error::File { kind: kind.name, key, path, why })?;
        all.push((own.to_string(), secret));
    }
    Ok(all)
}

/// A file's only line.
fn read_secret(path: &str) -> Result<String, String> {
    use std::io::Read;
    // A pipe or device could keep whoever reads it.
    let about = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if !about.is_file() {
        return Err("it is no file".to_string());
    }
    let mut octets = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    file.take(FILE_MAX + 1).read_to_end(&mut octets).map_err(|e| e.to_string())?;
    let text = String::from_utf8(octets).ok().filter(|text| text.len() as u64 <= FILE_MAX);
    let text = text.ok_or("it holds no text of at most 4096 octets")?;
    let text = text.trim();
    match text.is_empty() || text.contains(['\n', '\r']) {
        true => Err("it holds not one line".to_string()),
        false => Ok(text.to_string()),
    }
}

/// What somebody gave, to be told in an error: values that may be secrets are left out, as are those under keys that no
/// kind has, which may be secrets whose keys are mistyped.
pub fn without_secrets(text: &str) -> String {
    let known = |key: &str| {
        let all = KINDS.iter().flat_map(|kind| kind.settings);
        let plain = all.clone().any(|s| s.name == key && !s.secret);
        let secret = all.clone().any(|s| s.name == key && s.secret);
        let file = KINDS.iter().any(|kind| secret_of(kind, key).is_some());
        (plain && !secret) || file || key == "group"
    };
    let show = |word: &str| {
        let end = word.find('=').unwrap_or(word.len());
        let (key, value) = word.split_at(end);
        let bare = key.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        if value.len() > 1 && !known(bare) {
            return format!("{}=...", hidden(key));
        }
        match value.is_empty() {
            true => hidden(word),
            false => word.to_string(),
        }
    };
    text.split(' ').map(show).collect::<Vec<_>>().join(" ")
}

/// A word without what looks like a key: eight hex digits in a row, or more.
fn hidden(word: &str) -> String {
    let (mut out, mut run) = (String::new(), String::new());
    let end = |run: &mut String, out: &mut String| {
        let digits = run.len() >= 8 && run.bytes().any(|c| c.is_ascii_digit());
        out.push_str(if digits { "..." } else { run });
        run.clear();
    };
    for c in word.chars() {
        if c.is_ascii_hexdigit() {
            run.push(c);
            continue;
        }
        end(&mut run, &mut out);
        out.push(c);
    }
    end(&mut run, &mut out);
    out
}

impl Kind {
    /// Settings as they may be shown: without secrets; of those from files, the files.
    pub fn shown(&self, settings: &[(String, String)]) -> Vec<(String, String)> {
        let secret = |key: &str| self.settings.iter().any(|s| s.name == key && s.secret);
        let from_file =
            |key: &str| settings.iter().any(|(other, _)| secret_of(self, other) == Some(key));
        let settings = settings.iter().filter(|(key, _)| !(secret(key) && from_file(key)));
        let show = |(key, value): &(String, String)| match secret(key) {
            true => (key.clone(), "...".to_string()),
            false => (key.clone(), value.clone()),
        };
        settings.map(show).collect()
    }

    /// Where settings of two elements of one group differ that must not.
    pub fn differ(
        &self,
        one: &[(String, String)],
        other: &[(String, String)],
    ) -> Option<&'static str> {
        let value = |settings: &[(String, String)], setting: &Setting| {
            let given = settings.iter().find(|(key, _)| key == setting.name);
            given.map(|(_, value)| value.clone()).or(setting.default.map(str::to_string))
        };
        let shared = self.settings.iter().filter(|setting| !setting.own);
        shared.filter(|s| value(one, s) != value(other, s)).map(|s| s.name).next()
    }
}

/// Settings from words `KEY=VALUE`; a value may hold any characters, a further `=` included.
///
/// # Errors
/// [`Error::Word`] and [`Error::Twice`].
pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Vec<(String, String)>, Error> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for word in words {
        let is_key = |key: &str| {
            !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-".contains(&c))
        };
        let Some((key, value)) = word.split_once('=').filter(|(key, _)| is_key(key)) else {
            return Err(Error::Word { word: without_secrets(word) });
        };
        if settings.iter().any(|(k, _)| k == key) {
            return Err(Error::Twice { key: key.to_string() });
        }
        settings.push((key.to_string(), value.to_string()));
    }
    Ok(settings)
}

/// An element of this kind, with these settings.
///
/// # Errors
/// As [`Error`] says.
pub fn element(kind: &str, settings: &[(String, String)]) -> Result<Box<dyn Element>, Error> {
    let Some(kind) = self::kind(kind) else {
        let known = names(KINDS.iter().map(|k| k.name));
        return Err(Error::Kind { kind: without_secrets(kind), known });
    };
    Given::new(kind, settings)?;
    let from_file = |(key, _): &&(String, String)| secret_of(kind, key).is_some();
    let given_alone = settings.iter().filter(from_file).all(|(key, _)| {
        // Read already by whoever has called `with_files`.
        settings.iter().any(|(other, _)| secret_of(kind, key) == Some(other))
    });
    let read;
    let settings = if given_alone {
        settings
    } else {
        read = with_files(kind.name, settings.to_vec())?;
        &read
    };
    let given = Given { kind, settings };
    answered(&given)?;
    Ok(match kind.name {
        "noop" => Box::new(Noop),
        "counter" => Box::new(Counter::default()),
        "memory_walker" => {
            let bytes = given.size("bytes", 8..=4 << 30)?;
            Box::new(MemoryWalker::new(usize::try_from(bytes).unwrap_or(usize::MAX)))
        }
        "rate_limiter" => Box::new(RateLimiter {
            octets_per_second: given.size("rate", 1..=1 << 50)?,
            burst_octets: given.size("burst", 1..=1 << 50)?,
        }),
        "payload_match" => Box::new(payload_match(&given)?),
        "conntrack" => Box::new(Firewall::new(firewall(&given)?)),
        "nat" => Box::new(translator(&given)?),
        "balancer8" => Box::new(Eight {
            half_life_ns: given.number("half_life_ms", 1..=86_400_000)? * 1_000_000,
            flows_max: given.count("flows", FLOWS)?,
            idle_timeout_s: given.seconds("idle")?,
        }),
        "balancer" => {
            let check = balancer::check(&given)?;
            let backends = balancer::backends(&given, check.is_some())?;
            let (flows, idle) = (given.count("flows", FLOWS)?, given.seconds("idle")?);
            let key = given.number("key", 0..=u64::MAX)?;
            let spread = Spread::new(Arc::new(backends), flows, idle, key);
            Box::new(spread.checked_by(check))
        }
        "neighbour" => Box::new(neighbour(&given)?),
        "transcoder" => Box::new(transcoder(&given)?),
        "wasm" => wasm(&given)?,
        // The test that makes one of each kind keeps the two lists the same.
        other => unreachable!("the list of kinds has {other}, which nothing makes"),
    })
}

/// Addresses that a service of this kind with these settings has the switch answer for; none of kinds that own none.
///
/// # Errors
/// [`Error::Value`] for what is no list of addresses.
pub fn answers(kind: &str, settings: &[(String, String)]) -> Result<Vec<Answered>, Error> {
    self::kind(kind).map_or(Ok(Vec::new()), |kind| answered(&Given { kind, settings }))
}

fn answered(given: &Given<'_>) -> Result<Vec<Answered>, Error> {
    let has = |key: &str| given.kind.settings.iter().any(|s| s.name == key);
    if !has(answers::KEY) {
        return Ok(Vec::new());
    }
    let own = has("addresses").then(|| given.text("addresses")).transpose()?;
    answers::read(given.kind.name, given.text(answers::KEY)?, own)
}

/// Flows that a balancer may remember: 1.6 GB at most.
const FLOWS: RangeInclusive<u64> = 0..=100_000_000;

/// The other way to give a secret.
fn or_file(kind: &str, key: &str) -> String {
    match kind_settings(kind).any(|s| s.name == key && s.secret) {
        true => format!("; or {key}{FILE}=PATH of a file that holds it"),
        false => String::new(),
    }
}

/// A kind's settings, those given and defaults.
struct Given<'a> {
    kind: &'static Kind,
    settings: &'a [(String, String)],
}

impl<'a> Given<'a> {
    fn new(kind: &'static Kind, settings: &'a [(String, String)]) -> Result<Given<'a>, Error> {
        for (n, (key, _)) in settings.iter().enumerate() {
            if !kind.settings.iter().any(|s| s.name == key) && secret_of(kind, key).is_none() {
                let allowed = names(kind.settings.iter().map(|s| s.name));
                return Err(Error::Key { kind: kind.name, key: hidden(key), allowed });
            }
            if settings[..n].iter().any(|(k, _)| k == key) {
                return Err(Error::Twice { key: key.clone() });
            }
        }
        Ok(Given { kind, settings })
    }

    /// A value, as it is given or by default.
    fn text(&self, key: &'static str) -> Result<&'a str, Error> {
        if let Some((_, value)) = self.settings.iter().find(|(k, _)| k == key) {
            return Ok(value);
        }
        let setting = self.setting(key);
        let (kind, about) = (self.kind.name, setting.about);
        setting.default.ok_or_else(|| Error::Missing { kind, key, about, or: or_file(kind, key) })
    }

    fn setting(&self, key: &'static str) -> &'static Setting {
        let setting = self.kind.settings.iter().find(|s| s.name == key);
        setting.unwrap_or_else(|| panic!("{} lists no {key}", self.kind.name))
    }

    fn wrong(&self, key: &'static str, value: &str, wanted: impl Into<String>) -> Error {
        let wanted = wanted.into();
        let value = if self.setting(key).secret {
            format!("({} characters, not shown)", value.chars().count())
        } else {
            value.to_string()
        };
        Error::Value { kind: self.kind.name, key, value, wanted }
    }

    fn number(&self, key: &'static str, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let text = self.text(key)?;
        let digits = text.bytes().all(|c| c.is_ascii_digit());
        let number = text.parse().ok().filter(|n| digits && range.contains(n));
        let wanted = || format!("a number from {} to {}", range.start(), range.end());
        number.ok_or_else(|| self.wrong(key, text, wanted()))
    }

    fn count(&self, key: &'static str, range: RangeInclusive<u64>) -> Result<usize, Error> {
        Ok(usize::try_from(self.number(key, range)?).unwrap_or(usize::MAX))
    }

    fn seconds(&self, key: &'static str) -> Result<u32, Error> {
        Ok(self.number(key, 1..=100_000_000)? as u32)
    }

    /// A number with k, M or G for thousands, millions, and so on.
    fn size(&self, key: &'static str, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let text = self.text(key)?;
        let (digits, factor) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
            Some(b'M') => (&text[..text.len() - 1], 1_000_000),
            Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
            _ => (text, 1),
        };
        let number =
            digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|c| c.is_ascii_digit()));
        let number = number.and_then(|n| n.checked_mul(factor)).filter(|n| range.contains(n));
        let (from, to) = (range.start(), range.end());
        number.ok_or_else(|| {
            let wanted = format!("a number from {from} to {to}, perhaps with k, M or G behind it");
            self.wrong(key, text, wanted)
        })
    }

    fn yes(&self, key: &'static str) -> Result<bool, Error> {
        self.one_of(key, "yes or no", |word| match word {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        })
    }

    fn one_of<T>(
        &self,
        key: &'static str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let text = self.text(key)?;
        read(text).ok_or_else(|| self.wrong(key, text, wanted))
    }
}

/// Octets from hex digits, two for each.
fn hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |c: u8| (c as char).to_digit(16);
    let octet = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    digits.as_bytes().chunks(2).map(octet).collect()
}

fn payload_match(given: &Given<'_>) -> Result<PayloadMatch, Error> {
    let text = given.text("patterns")?;
    let mut patterns = Vec::new();
    for pattern in text.split(',') {
        let octets = match pattern.strip_prefix("0x") {
            Some(digits) => hex(digits),
            None => Some(pattern.as_bytes().to_vec()),
        };
        let Some(octets) = octets.filter(|octets| !octets.is_empty()) else {
            let wanted = "patterns separated by commas, each text or 0x and an even number of hex \
                          digits, none empty (a comma is 0x2c)";
            return Err(given.wrong("patterns", text, wanted));
        };
        patterns.push(octets);
    }
    let patterns: Vec<&[u8]> = patterns.iter().map(Vec::as_slice).collect();
    let matching = PayloadMatch::new(&patterns).map_err(|error| Error::Together {
        kind: given.kind.name,
        why: format!("no automaton for these patterns: {error}"),
    })?;
    Ok(if given.yes("drop")? { matching.dropping() } else { matching })
}

fn firewall(given: &Given<'_>) -> Result<conntrack::Config, Error> {
    let connections = given.count("connections", 1..=100_000_000)?;
    // Instances have seeds of their own.
    let mut config = conntrack::Config::new(connections, 0);
    if given.text("half_open")? != "half" {
        let range = 1..=connections as u64;
        config.half_open_max = given.count("half_open", range).map_err(|error| match error {
            Error::Value { kind, key, value, wanted } => {
                Error::Value { kind, key, value, wanted: format!("`half`, or {wanted}") }
            }
            other => other,
        })?;
    }
    config.fragmented_max = given.count("fragmented", 1..=1_000_000)?;
    config.check_checksums = given.yes("check_checksums")?;
    config.accounting = given.yes("accounting")?;
    config.tcp.pick_up = given.yes("tcp_pick_up")?;
    config.tcp.liberal = given.yes("tcp_liberal")?;
    config.tcp.repeats_max = given.number("tcp_repeats", 1..=255)? as u8;
    let timeouts = &mut config.timeouts;
    for (key, timeout) in [
        ("tcp_syn_sent", &mut timeouts.tcp.syn_sent),
        ("tcp_syn_received", &mut timeouts.tcp.syn_received),
        ("tcp_established", &mut timeouts.tcp.established),
        ("tcp_fin_wait", &mut timeouts.tcp.fin_wait),
        ("tcp_close_wait", &mut timeouts.tcp.close_wait),
        ("tcp_last_ack", &mut timeouts.tcp.last_ack),
        ("tcp_time_wait", &mut timeouts.tcp.time_wait),
        ("tcp_closed", &mut timeouts.tcp.closed),
        ("tcp_repeating", &mut timeouts.tcp.repeating),
        ("tcp_unacknowledged", &mut timeouts.tcp.unacknowledged),
        ("sctp_closed", &mut timeouts.sctp.closed),
        ("sctp_transient", &mut timeouts.sctp.transient),
        ("sctp_established", &mut timeouts.sctp.established),
        ("sctp_heartbeat", &mut timeouts.sctp.heartbeat),
        ("udp", &mut timeouts.udp),
        ("udp_stream", &mut timeouts.udp_stream),
        ("icmp", &mut timeouts.icmp),
        ("other", &mut timeouts.other),
        ("fragment", &mut timeouts.fragment),
    ] {
        *timeout = given.seconds(key)?;
    }
    Ok(config)
}

fn translator(given: &Given<'_>) -> Result<Translator, Error> {
    let out = given.one_of("direction", "out or in", |word| match word {
        "out" => Some(true),
        "in" => Some(false),
        _ => None,
    })?;
    let text = given.text("addresses")?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Ok(first), Ok(last)) = (first.parse::<IpAddr>(), last.parse::<IpAddr>()) else {
        return Err(given.wrong("addresses", text, "ADDRESS or FIRST-LAST"));
    };
    let ports = given.one_of("ports", "FIRST-LAST, from 1 to 65535", |word| {
        let (first, last) = word.split_once('-')?;
        let port = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
        Some(Ports::Range(port(first)?, port(last)?))
    })?;
    let connections = given.count("connections", 1..=100_000_000)?;
    // Instances have seeds of their own.
    let mut config = conntrack::Config::new(connections, 0);
    config.translated_max = connections;
    config.check_checksums = given.yes("check_checksums")?;
    config.accounting = given.yes("accounting")?;
    Translator::new(config, first, last, ports, out).map_err(|error| Error::Together {
        kind: given.kind.name,
        why: format!("addresses={text}: {error}"),
    })
}

fn neighbour(given: &Given<'_>) -> Result<Neighbour, Error> {
    let owned =
        given.one_of("addresses", "ADDRESS or FIRST-LAST, separated by commas", |text| {
            text.split(',').map(answers::range).collect::<Option<Vec<_>>>()
        })?;
    let wanted = "six octets of hex digits, 02:00:00:00:00:09, of one station";
    let mac = given.one_of("mac", wanted, answers::mac)?;
    Ok(Neighbour::new(owned, mac))
}

fn transcoder(given: &Given<'_>) -> Result<Transcoder, Error> {
    let mode = given.one_of("mode", "cbc or gcm", |word| match word {
        "cbc" => Some(Mode::Cbc),
        "gcm" => Some(Mode::Gcm),
        _ => None,
    })?;
    let direction = given.one_of("direction", "encrypt or decrypt", |word| match word {
        "encrypt" => Some(Direction::Encrypt),
        "decrypt" => Some(Direction::Decrypt),
        _ => None,
    })?;
    let drops = given.one_of("left", "pass or drop", |word| match word {
        "pass" => Some(false),
        "drop" => Some(true),
        _ => None,
    })?;
    let text = given.text("key")?;
    let octets = hex(text).unwrap_or_default();
    let key = if let Ok(key) = octets.as_slice().try_into() {
        Key::Aes128(key)
    } else if let Ok(key) = octets.as_slice().try_into() {
        Key::Aes256(key)
    } else {
        return Err(given.wrong("key", text, "32 hex digits for AES-128, or 64 for AES-256"));
    };
    let transcoder = Transcoder::new(mode, &key, direction);
    Ok(if drops { transcoder.dropping() } else { transcoder })
}

#[cfg(not(feature = "wasm"))]
fn wasm(given: &Given<'_>) -> Result<Box<dyn Element>, Error> {
    Err(Error::Build { kind: given.kind.name, feature: "wasm" })
}

#[cfg(feature = "wasm")]
fn wasm(given: &Given<'_>) -> Result<Box<dyn Element>, Error> {
    use crate::sandbox::wasm::{MODULE_MAX, Settings, Wasm};
    use std::io::Read;
    let path = given.text("module")?;
    let mut octets = Vec::new();
    std::fs::File::open(path)
        // One more than it may have, so that too many are noticed.
        .and_then(|file| file.take(MODULE_MAX + 1).read_to_end(&mut octets))
        .map_err(|error| {
            given.wrong("module", path, format!("a file that can be read: {error}"))
        })?;
    let writes =
        given.one_of("writes", "nothing, payload, ends or anything", |word| match word {
            "nothing" => Some(Writes::Nothing),
            "payload" => Some(Writes::Payload),
            "ends" => Some(Writes::Ends),
            "anything" => Some(Writes::Anything),
            _ => None,
        })?;
    let size = |key, range| {
        given.size(key, range).map(|octets| usize::try_from(octets).unwrap_or(usize::MAX))
    };
    let settings = Settings {
        writes,
        memory_max: size("memory", 65_536..=256_000_000)?,
        fuel: given.size("fuel", 100..=1_000_000_000)?,
        start_fuel: given.size("start_fuel", 100..=10_000_000_000)?,
        frame_octets: size("octets", 64..=65_536)?,
        arguments: given.text("arguments")?.to_string(),
        role: given.number("role", 0..=u64::from(u32::MAX))? as u32,
    };
    let made = Wasm::new(&octets, settings);
    Ok(Box::new(
        made.map_err(|why| Error::Together {
            kind: given.kind.name,
            why: format!("{path}: {why}"),
        })?,
    ))
}
