//! What a tunnel port is: the options of Open vSwitch's `Interface.options`, as `--port` and the database give them.
//!
//! Example: `remote_ip=10.0.0.2,key=flow,csum=true`. Options that are not known are refused by name. What is read is written
//! the same, options that have their default left out. Numbers are decimal, or hexadecimal with `0x`; `erspan_idx`,
//! `erspan_dir` and `erspan_hwid` are hexadecimal, as in Open vSwitch.
//!
//! Checked by: the tests below; the fuzz target `tunnel`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// How frames are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// RFC 8926.
    Geneve,
    /// RFC 7348.
    Vxlan,
    /// RFC 2784 and 2890.
    Gre,
    /// Mirrored frames, types II and III.
    Erspan,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Geneve, Kind::Vxlan, Kind::Gre, Kind::Erspan];

    /// The word of a specification.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Geneve => "geneve",
            Kind::Vxlan => "vxlan",
            Kind::Gre => "gre",
            Kind::Erspan => "erspan",
        }
    }

    /// The UDP port, if it is carried by UDP.
    pub const fn udp_port(self) -> Option<u16> {
        match self {
            Kind::Geneve => Some(6081),
            Kind::Vxlan => Some(4789),
            Kind::Gre | Kind::Erspan => None,
        }
    }

    /// The greatest key.
    pub const fn key_max(self) -> u64 {
        match self {
            Kind::Geneve | Kind::Vxlan => 0xff_ffff,
            Kind::Gre => 0xffff_ffff,
            Kind::Erspan => 0x3ff,
        }
    }

    /// The options that it knows.
    pub fn options(self) -> impl Iterator<Item = &'static str> {
        const COMMON: [&str; 11] = [
            "remote_ip",
            "local_ip",
            "key",
            "in_key",
            "out_key",
            "tos",
            "ttl",
            "df_default",
            "reassemble",
            "egress_pkt_mark",
            "packet_type",
        ];
        let own: &[&str] = match self {
            Kind::Geneve => &["dst_port", "csum"],
            Kind::Vxlan => &["dst_port", "csum", "exts"],
            Kind::Gre => &["csum", "seq"],
            Kind::Erspan => &["erspan_ver", "erspan_idx", "erspan_dir", "erspan_hwid"],
        };
        COMMON.into_iter().chain(own.iter().copied())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A value of the port, or one that flow entries set and match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Given<T> {
    /// Of the port.
    Fixed(T),
    /// Of each packet.
    Flow,
}

/// A value of the port, or that of the inner packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inherit {
    /// Of the port.
    Fixed(u8),
    /// Of the inner packet, if it is IP; else the default.
    Inner,
}

/// What a tunnel port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How frames are carried.
    pub kind: Kind,
    /// The other end.
    pub remote: Given<IpAddr>,
    /// This end; None: any address, and the one that the route gives.
    pub local: Option<Given<IpAddr>>,
    /// Which key comes in; None: none, or 0.
    pub in_key: Option<Given<u64>>,
    /// Which key goes out; None: none, or 0.
    pub out_key: Option<Given<u64>>,
    /// UDP port; 0 for kinds without.
    pub dst_port: u16,
    /// Whether UDP over IPv4, or GRE, has a checksum. UDP over IPv6 always has one.
    pub csum: bool,
    /// GRE has sequence numbers.
    pub seq: bool,
    /// DSCP, as it stands in a TOS.
    pub tos: Inherit,
    /// TTL.
    pub ttl: Inherit,
    /// Outer IPv4 packets must not be fragmented.
    pub df_default: bool,
    /// Outer packets that come in fragments are put together; else they are refused.
    pub reassemble: bool,
    /// By which routes are chosen.
    pub egress_pkt_mark: u32,
    /// VXLAN's group policy.
    pub gbp: bool,
    /// ERSPAN's version, 1 (type II) or 2 (type III).
    pub erspan_ver: Given<u8>,
    /// Index of version 1.
    pub erspan_idx: Given<u32>,
    /// Direction of version 2.
    pub erspan_dir: Given<u8>,
    /// Engine of version 2.
    pub erspan_hwid: Given<u8>,
}

/// The TTL of a port that does not say.
pub const TTL: u8 = 64;

/// Why options are no tunnel port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No such option.
    #[error("option {option:?} is not known to {kind} ports; known: {known}")]
    Unknown {
        /// The option.
        option: String,
        /// Of this kind.
        kind: Kind,
        /// Those known.
        known: String,
    },
    /// An option is missing.
    #[error("option {option} is missing; wanted {wanted}")]
    Missing {
        /// The option.
        option: &'static str,
        /// What would be right.
        wanted: &'static str,
    },
    /// A value that it cannot have.
    #[error("option {option}={value} is none of: {wanted}")]
    Value {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// What would be right.
        wanted: String,
    },
    /// Options that do not go together.
    #[error("{0}")]
    Together(&'static str),
    /// No `NAME=VALUE`.
    #[error("{0:?} is no NAME=VALUE")]
    Form(String),
    /// Given twice.
    #[error("option {0:?} was given already")]
    Twice(String),
}

impl ConfigError {
    /// The option that is at fault, if it is one.
    pub fn option(&self) -> Option<&str> {
        match self {
            ConfigError::Unknown { option, .. } | ConfigError::Twice(option) => Some(option),
            ConfigError::Value { option, .. } => Some(option),
            ConfigError::Form(word) => Some(word),
            ConfigError::Missing { .. } | ConfigError::Together(_) => None,
        }
    }
}

/// A number, decimal or with `0x`.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    in_radix(digits, radix)
}

fn hexadecimal(text: &str) -> Option<u64> {
    in_radix(text.strip_prefix("0x").unwrap_or(text), 16)
}

fn in_radix(digits: &str, radix: u32) -> Option<u64> {
    let plain = digits.chars().all(|c| c.is_digit(radix));
    if plain { u64::from_str_radix(digits, radix).ok() } else { None }
}

/// The options of a port while they are read.
struct Reader<'a>(&'a BTreeMap<String, String>);

impl Reader<'_> {
    fn get(&self, option: &str) -> Option<&str> {
        self.0.get(option).map(|value| value.trim())
    }

    fn read<T>(
        &self,
        option: &'static str,
        wanted: impl FnOnce() -> String,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(option) else { return Ok(None) };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(ConfigError::Value { option, value: value.to_owned(), wanted: wanted() }),
        }
    }

    fn address(&self, option: &'static str) -> Result<Option<Given<IpAddr>>, ConfigError> {
        let wanted = || "a unicast IPv4 or IPv6 address, flow".to_owned();
        self.read(option, wanted, |value| match value {
            "flow" => Some(Given::Flow),
            _ => {
                let address: IpAddr = value.parse().ok()?;
                let unicast = !address.is_multicast() && !address.is_unspecified();
                unicast.then_some(Given::Fixed(address))
            }
        })
    }

    fn given(
        &self,
        option: &'static str,
        max: u64,
        read: fn(&str) -> Option<u64>,
    ) -> Result<Option<Given<u64>>, ConfigError> {
        let wanted = || match read("10") {
            Some(16) => format!("a hexadecimal number from 0 to {max:x}, flow"),
            _ => format!("a number from 0 to {max}, flow"),
        };
        self.read(option, wanted, |value| match value {
            "flow" => Some(Given::Flow),
            value => read(value).filter(|number| *number <= max).map(Given::Fixed),
        })
    }

    fn switch(&self, option: &'static str, default: bool) -> Result<bool, ConfigError> {
        let wanted = || "true, false".to_owned();
        let read = |value: &str| value.to_ascii_lowercase().parse().ok();
        Ok(self.read(option, wanted, read)?.unwrap_or(default))
    }

    fn inherit(
        &self,
        option: &'static str,
        wanted: &str,
        fits: fn(u64) -> bool,
    ) -> Result<Option<Inherit>, ConfigError> {
        self.read(
            option,
            || format!("{wanted}, inherit"),
            |value| match value {
                "inherit" => Some(Inherit::Inner),
                _ => number(value).filter(|n| fits(*n)).map(|n| Inherit::Fixed(n as u8)),
            },
        )
    }
}

impl Config {
    /// Reads options as the database has them.
    pub fn from_options(
        kind: Kind,
        options: &BTreeMap<String, String>,
    ) -> Result<Config, ConfigError> {
        let known: Vec<&str> = kind.options().collect();
        if let Some(option) = options.keys().find(|option| !known.contains(&option.as_str())) {
            let (option, known) = (option.clone(), known.join(", "));
            return Err(ConfigError::Unknown { option, kind, known });
        }
        let from = Reader(options);
        let remote = from.address("remote_ip")?;
        let wanted = "remote_ip=ADDRESS or remote_ip=flow";
        let remote = remote.ok_or(ConfigError::Missing { option: "remote_ip", wanted })?;
        let local = from.address("local_ip")?;
        match (remote, local) {
            (Given::Fixed(remote), Some(Given::Fixed(local)))
                if remote.is_ipv4() != local.is_ipv4() =>
            {
                let what = "remote_ip and local_ip are of different IP versions";
                return Err(ConfigError::Together(what));
            }
            (Given::Fixed(_), Some(Given::Flow)) => {
                return Err(ConfigError::Together("local_ip=flow wants remote_ip=flow"));
            }
            _ => {}
        }
        let key = from.given("key", kind.key_max(), number)?;
        let in_key = from.given("in_key", kind.key_max(), number)?.or(key);
        let out_key = from.given("out_key", kind.key_max(), number)?.or(key);
        let port = |value: &str| number(value).and_then(|n| u16::try_from(n).ok());
        let wanted = || "a number from 1 to 65535".to_owned();
        let dst_port = from.read("dst_port", wanted, |v| port(v).filter(|n| *n > 0))?;
        let mark = |value: &str| number(value).and_then(|n| u32::try_from(n).ok());
        let gbp = from.read("exts", || "gbp".to_owned(), |value| (value == "gbp").then_some(()))?;
        let wanted = || "legacy_l2 (ports carry Ethernet frames)".to_owned();
        from.read("packet_type", wanted, |value| (value == "legacy_l2").then_some(()))?;
        let wanted = || "1, 2, flow".to_owned();
        let version = from.read("erspan_ver", wanted, |value| match value {
            "flow" => Some(Given::Flow),
            "1" => Some(Given::Fixed(1)),
            "2" => Some(Given::Fixed(2)),
            _ => None,
        })?;
        if kind == Kind::Erspan && version.is_none() {
            let wanted = "erspan_ver=1, erspan_ver=2 or erspan_ver=flow";
            return Err(ConfigError::Missing { option: "erspan_ver", wanted });
        }
        let small = |option, max: u8| -> Result<Given<u8>, ConfigError> {
            Ok(match from.given(option, max.into(), hexadecimal)? {
                Some(Given::Flow) => Given::Flow,
                Some(Given::Fixed(value)) => Given::Fixed(value as u8),
                None => Given::Fixed(0),
            })
        };
        let dscp = "a number from 0 to 252 without ECN bits";
        Ok(Config {
            kind,
            remote,
            local,
            in_key,
            out_key,
            dst_port: dst_port.or(kind.udp_port()).unwrap_or(0),
            csum: from.switch("csum", false)?,
            seq: from.switch("seq", false)?,
            tos: from.inherit("tos", dscp, |n| n < 256 && n & 3 == 0)?.unwrap_or(Inherit::Fixed(0)),
            ttl: from
                .inherit("ttl", "a number from 1 to 255", |n| (1..256).contains(&n))?
                .unwrap_or(Inherit::Fixed(TTL)),
            df_default: from.switch("df_default", true)?,
            reassemble: from.switch("reassemble", false)?,
            egress_pkt_mark: from.read("egress_pkt_mark", wanted_mark, mark)?.unwrap_or(0),
            gbp: gbp.is_some(),
            erspan_ver: version.unwrap_or(Given::Fixed(1)),
            erspan_idx: match from.given("erspan_idx", 0xf_ffff, hexadecimal)? {
                Some(Given::Flow) => Given::Flow,
                Some(Given::Fixed(value)) => Given::Fixed(value as u32),
                None => Given::Fixed(0),
            },
            erspan_dir: small("erspan_dir", 1)?,
            erspan_hwid: small("erspan_hwid", 0x3f)?,
        })
    }

    /// Reads options as `--port` takes them: `NAME=VALUE`, commas between.
    pub fn parse(kind: Kind, text: &str) -> Result<Config, ConfigError> {
        Config::from_options(kind, &options(text)?)
    }

    /// The key that must come in. A port without one matches 0, and frames without one.
    pub fn matched_key(&self) -> Given<u64> {
        self.in_key.unwrap_or(Given::Fixed(0))
    }
}

fn wanted_mark() -> String {
    "a number from 0 to 4294967295".to_owned()
}

/// Splits `NAME=VALUE,NAME=VALUE`.
pub fn options(text: &str) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut options = BTreeMap::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let Some((name, value)) = word.split_once('=') else {
            return Err(ConfigError::Form(word.to_owned()));
        };
        if options.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(ConfigError::Twice(name.to_owned()));
        }
    }
    Ok(options)
}

/// As it is parsed, without options that have their default.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remote {
            Given::Fixed(address) => write!(f, "remote_ip={address}")?,
            Given::Flow => f.write_str("remote_ip=flow")?,
        }
        match self.local {
            Some(Given::Fixed(address)) => write!(f, ",local_ip={address}")?,
            Some(Given::Flow) => f.write_str(",local_ip=flow")?,
            None => {}
        }
        let key = |f: &mut fmt::Formatter<'_>, name: &str, key| match key {
            Some(Given::Fixed(key)) => write!(f, ",{name}={key}"),
            Some(Given::Flow) => write!(f, ",{name}=flow"),
            None => Ok(()),
        };
        if self.in_key == self.out_key {
            key(f, "key", self.in_key)?;
        } else {
            key(f, "in_key", self.in_key)?;
            key(f, "out_key", self.out_key)?;
        }
        if self.dst_port != self.kind.udp_port().unwrap_or(0) {
            write!(f, ",dst_port={}", self.dst_port)?;
        }
        for (on, word) in [(self.csum, "csum=true"), (self.seq, "seq=true"), (self.gbp, "exts=gbp")]
        {
            if on {
                write!(f, ",{word}")?;
            }
        }
        for (name, value, default) in [("tos", self.tos, 0), ("ttl", self.ttl, TTL)] {
            match value {
                Inherit::Inner => write!(f, ",{name}=inherit")?,
                Inherit::Fixed(value) if value != default => write!(f, ",{name}={value}")?,
                Inherit::Fixed(_) => {}
            }
        }
        if !self.df_default {
            f.write_str(",df_default=false")?;
        }
        if self.reassemble {
            f.write_str(",reassemble=true")?;
        }
        if self.egress_pkt_mark != 0 {
            write!(f, ",egress_pkt_mark={}", self.egress_pkt_mark)?;
        }
        if self.kind == Kind::Erspan {
            match self.erspan_ver {
                Given::Fixed(version) => write!(f, ",erspan_ver={version}")?,
                Given::Flow => f.write_str(",erspan_ver=flow")?,
            }
            match self.erspan_idx {
                Given::Fixed(0) => {}
                Given::Fixed(index) => write!(f, ",erspan_idx={index:x}")?,
                Given::Flow => f.write_str(",erspan_idx=flow")?,
            }
            for (name, value) in [("dir", self.erspan_dir), ("hwid", self.erspan_hwid)] {
                match value {
                    Given::Fixed(0) => {}
                    Given::Fixed(value) => write!(f, ",erspan_{name}={value:x}")?,
                    Given::Flow => write!(f, ",erspan_{name}=flow")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        for (kind, text) in [
            (Kind::Vxlan, "remote_ip=1.2.3.4,key=flow"),
            (Kind::Geneve, "remote_ip=2001:db8::1,local_ip=2001:db8::2,in_key=5,out_key=flow"),
            (Kind::Geneve, "remote_ip=flow,local_ip=flow,out_key=6,dst_port=99,csum=true"),
            (Kind::Vxlan, "remote_ip=1.2.3.4,exts=gbp,tos=inherit,ttl=inherit,df_default=false"),
            (Kind::Gre, "remote_ip=1.2.3.4,key=4294967295,csum=true,seq=true,tos=32,ttl=1"),
            (Kind::Gre, "remote_ip=1.2.3.4,egress_pkt_mark=7"),
            (Kind::Erspan, "remote_ip=1.2.3.4,key=1023,erspan_ver=1,erspan_idx=fffff"),
            (Kind::Erspan, "remote_ip=flow,erspan_ver=2,erspan_dir=1,erspan_hwid=3f"),
            (Kind::Erspan, "remote_ip=flow,erspan_ver=flow,erspan_idx=flow,erspan_dir=flow"),
        ] {
            let config = Config::parse(kind, text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(config.to_string(), text);
        }
        let defaults = "remote_ip=1.2.3.4,key=0x10,csum=false,df_default=true,packet_type=legacy_l2,ttl=64,tos=0";
        let config = Config::parse(Kind::Geneve, defaults).unwrap();
        assert_eq!(config.to_string(), "remote_ip=1.2.3.4,key=16");
        assert_eq!(config.dst_port, 6081);
        let keys = "remote_ip=1.2.3.4,key=5,in_key=6";
        assert_eq!(
            Config::parse(Kind::Gre, keys).unwrap().to_string(),
            "remote_ip=1.2.3.4,in_key=6,out_key=5"
        );
    }

    #[test]
    fn what_is_refused_is_named() {
        let refused = |kind, text: &str| Config::parse(kind, text).unwrap_err().to_string();
        let r = "remote_ip=1.2.3.4";
        for (kind, text, error) in [
            (
                Kind::Vxlan,
                "key=5".to_owned(),
                "option remote_ip is missing; wanted remote_ip=ADDRESS or remote_ip=flow",
            ),
            (
                Kind::Vxlan,
                "remote_ip=a".into(),
                "option remote_ip=a is none of: a unicast IPv4 or IPv6 address, flow",
            ),
            (
                Kind::Vxlan,
                "remote_ip=224.0.0.1".into(),
                "option remote_ip=224.0.0.1 is none of: a unicast IPv4 or IPv6 address, flow",
            ),
            (
                Kind::Vxlan,
                format!("{r},key=16777216"),
                "option key=16777216 is none of: a number from 0 to 16777215, flow",
            ),
            (
                Kind::Erspan,
                format!("{r},erspan_ver=3"),
                "option erspan_ver=3 is none of: 1, 2, flow",
            ),
            (
                Kind::Erspan,
                r.into(),
                "option erspan_ver is missing; wanted erspan_ver=1, erspan_ver=2 or erspan_ver=flow",
            ),
            (
                Kind::Erspan,
                format!("{r},erspan_ver=2,erspan_hwid=40"),
                "option erspan_hwid=40 is none of: a hexadecimal number from 0 to 3f, flow",
            ),
            (
                Kind::Geneve,
                format!("{r},packet_type=ptap"),
                "option packet_type=ptap is none of: legacy_l2 (ports carry Ethernet frames)",
            ),
            (
                Kind::Geneve,
                format!("{r},tos=3"),
                "option tos=3 is none of: a number from 0 to 252 without ECN bits, inherit",
            ),
            (Kind::Geneve, format!("{r},csum=maybe"), "option csum=maybe is none of: true, false"),
            (
                Kind::Geneve,
                format!("{r},local_ip=::1"),
                "remote_ip and local_ip are of different IP versions",
            ),
            (Kind::Geneve, format!("{r},local_ip=flow"), "local_ip=flow wants remote_ip=flow"),
            (Kind::Geneve, format!("{r},{r}"), "option \"remote_ip\" was given already"),
            (Kind::Geneve, format!("{r},csum"), "\"csum\" is no NAME=VALUE"),
        ] {
            assert_eq!(refused(kind, &text), error, "{text}");
        }
        let unknown = Config::parse(Kind::Gre, "remote_ip=1.2.3.4,dst_port=5").unwrap_err();
        assert_eq!(unknown.option(), Some("dst_port"));
        assert!(
            unknown
                .to_string()
                .starts_with("option \"dst_port\" is not known to gre ports; known: remote_ip,")
        );
    }
}
