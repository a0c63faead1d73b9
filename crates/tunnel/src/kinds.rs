//! The kinds `geneve`, `vxlan`, `gre` and `erspan`.

use std::collections::BTreeMap;
use std::fmt;

use port::kind::{Attached, Attachment, Database, Environment, Kind, OffWire, TakeOver};
use port::spec::SpecError;
use port::{Error, Port};

use crate::config::{self, Config, ConfigError, Given};
use crate::hub::Hub;

const OFF_WIRE: OffWire =
    OffWire { why: "a tunnel port needs a switch that has an underlay", instead: None };
const USE_FOR: &str = "joining bridges of several machines over an IP network";

/// What all kinds know.
const REMOTE: (&str, &str) =
    ("remote_ip=ADDRESS|flow", "the other end; `flow`: flow entries set it");
const LOCAL: (&str, &str) = ("local_ip=ADDRESS|flow", "this end; else as routes say");
const KEY: (&str, &str) = ("key=N|flow", "VNI, key or session, in both directions");
const IN_KEY: (&str, &str) = ("in_key=N|flow", "that of what comes in");
const OUT_KEY: (&str, &str) = ("out_key=N|flow", "that of what goes out");
const TOS: (&str, &str) = ("tos=N|inherit", "the outer TOS; `inherit`: that of the inner packet");
const TTL: (&str, &str) = ("ttl=N|inherit", "the outer TTL, else 64");
const DF: (&str, &str) = ("df_default=false", "outer packets may be fragmented");
const REASSEMBLE: (&str, &str) =
    ("reassemble=true", "outer packets that come in fragments are put together, not refused");
const MARK: (&str, &str) =
    ("egress_pkt_mark=N", "the mark by which the kernel routes outer packets");
const CSUM: (&str, &str) =
    ("csum=true", "outer packets have a checksum; UDP over IPv6 always has one");
const PORT: (&str, &str) = ("dst_port=N", "the UDP port");

/// Kinds share most options, which are told once.
const LIKE: (&str, &str) = ("OPTION=VALUE", "any of those of `geneve`");
const LIKE_BUT_PORT: (&str, &str) = ("OPTION=VALUE", "any of those of `geneve` but `dst_port`");
const LIKE_BUT_CSUM: (&str, &str) =
    ("OPTION=VALUE", "any of those of `geneve` but `dst_port` and `csum`");

/// `geneve:remote_ip=...`
pub static GENEVE: Kind = Kind {
    form: "geneve:OPTION=VALUE[,...]",
    options: &[REMOTE, LOCAL, KEY, IN_KEY, OUT_KEY, PORT, CSUM, TOS, TTL, DF, REASSEMBLE, MARK],
    about: "a Geneve tunnel",
    use_for: USE_FOR,
    must_be_named: Some("NAME=geneve:remote_ip=ADDRESS"),
    off_wire: Some(OFF_WIRE),
    database: &[Database {
        word: "geneve",
        attach: |_, options| asked(config::Kind::Geneve, options),
    }],
    capabilities: &["CAP_NET_ADMIN", "CAP_NET_RAW"],
    ..Kind::plain("geneve", |text, at| specified(config::Kind::Geneve, text, at))
};

/// `vxlan:remote_ip=...`
pub static VXLAN: Kind = Kind {
    form: "vxlan:OPTION=VALUE[,...]",
    options: &[LIKE, ("exts=gbp", "packets may have a group policy")],
    about: "a VXLAN tunnel",
    use_for: USE_FOR,
    must_be_named: Some("NAME=vxlan:remote_ip=ADDRESS"),
    off_wire: Some(OFF_WIRE),
    database: &[Database {
        word: "vxlan",
        attach: |_, options| asked(config::Kind::Vxlan, options),
    }],
    capabilities: &["CAP_NET_ADMIN", "CAP_NET_RAW"],
    ..Kind::plain("vxlan", |text, at| specified(config::Kind::Vxlan, text, at))
};

/// `gre:remote_ip=...`
pub static GRE: Kind = Kind {
    form: "gre:OPTION=VALUE[,...]",
    options: &[LIKE_BUT_PORT, ("seq=true", "packets have sequence numbers")],
    about: "a GRE tunnel for Ethernet frames",
    use_for: USE_FOR,
    must_be_named: Some("NAME=gre:remote_ip=ADDRESS"),
    off_wire: Some(OFF_WIRE),
    database: &[
        Database { word: "gre", attach: |_, options| asked(config::Kind::Gre, options) },
        Database { word: "ip6gre", attach: |_, options| asked_ipv6(config::Kind::Gre, options) },
    ],
    capabilities: &["CAP_NET_ADMIN", "CAP_NET_RAW"],
    ..Kind::plain("gre", |text, at| specified(config::Kind::Gre, text, at))
};

/// `erspan:remote_ip=...`
pub static ERSPAN: Kind = Kind {
    form: "erspan:OPTION=VALUE[,...]",
    options: &[
        LIKE_BUT_CSUM,
        ("erspan_ver=1|2|flow", "type II or III"),
        ("erspan_idx=HEX|flow", "the index of type II"),
        ("erspan_dir=0|1|flow", "the direction of type III"),
        ("erspan_hwid=HEX|flow", "the engine of type III"),
    ],
    about: "an ERSPAN tunnel, types II and III",
    use_for: "mirrored frames, for an analyser elsewhere",
    must_be_named: Some("NAME=erspan:remote_ip=ADDRESS,erspan_ver=1"),
    off_wire: Some(OFF_WIRE),
    database: &[
        Database { word: "erspan", attach: |_, options| asked(config::Kind::Erspan, options) },
        Database {
            word: "ip6erspan",
            attach: |_, options| asked_ipv6(config::Kind::Erspan, options),
        },
    ],
    capabilities: &["CAP_NET_ADMIN", "CAP_NET_RAW"],
    ..Kind::plain("erspan", |text, at| specified(config::Kind::Erspan, text, at))
};

/// All of them.
pub static KINDS: [&Kind; 4] = [&GENEVE, &VXLAN, &GRE, &ERSPAN];

fn kind_of(kind: config::Kind) -> &'static Kind {
    match kind {
        config::Kind::Geneve => &GENEVE,
        config::Kind::Vxlan => &VXLAN,
        config::Kind::Gre => &GRE,
        config::Kind::Erspan => &ERSPAN,
    }
}

/// A specification's part behind the colon, which starts at `at`.
fn specified(kind: config::Kind, text: &str, at: usize) -> Result<Attached, SpecError> {
    match Config::parse(kind, text) {
        Ok(config) => Ok(Attached::new(Ends { kind, config: Ok(config), options: String::new() })),
        Err(error) => {
            let place = error.option().and_then(|option| text.rfind(option)).unwrap_or(0);
            Err(SpecError::Refused { at: at + place, why: error.to_string() })
        }
    }
}

/// As the database asks for it. What is wrong is said when it is opened.
fn asked(kind: config::Kind, options: &BTreeMap<String, String>) -> Attached {
    let config = Config::from_options(kind, options);
    let words: Vec<String> =
        options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Attached::new(Ends { kind, config, options: words.join(",") })
}

fn asked_ipv6(kind: config::Kind, options: &BTreeMap<String, String>) -> Attached {
    let config = Config::from_options(kind, options).and_then(|config| match config.remote {
        Given::Fixed(remote) if remote.is_ipv4() => {
            Err(ConfigError::Together("ip6gre and ip6erspan want an IPv6 remote_ip"))
        }
        _ => Ok(config),
    });
    let words: Vec<String> =
        options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Attached::new(Ends { kind, config, options: words.join(",") })
}

/// A tunnel of these options.
struct Ends {
    kind: config::Kind,
    config: Result<Config, ConfigError>,
    /// As they were given, if they are wrong.
    options: String,
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.config {
            Ok(config) => write!(f, "{}:{config}", self.kind),
            Err(_) => write!(f, "{}:{}", self.kind, self.options),
        }
    }
}

impl Attachment for Ends {
    fn kind(&self) -> &'static Kind {
        kind_of(self.kind)
    }

    fn default_name(&self) -> &str {
        self.kind.word()
    }

    /// Opens it at the hub of the environment.
    fn open(&self, name: &str, environment: &Environment) -> Result<Box<dyn Port>, Error> {
        let refused = |what: String| Error::Unsupported { name: name.to_owned(), what };
        let config = self.config.clone().map_err(|error| refused(error.to_string()))?;
        match environment.get::<Hub>() {
            Some(hub) => hub.open(name, config),
            None => Err(refused("tunnel ports want a switch that has an underlay".to_owned())),
        }
    }

    fn check(&self, _: &str) -> Result<(), String> {
        self.config.as_ref().map(|_| ()).map_err(ConfigError::to_string)
    }

    /// The kernel gives packets to both processes, and a UDP port to one.
    fn take_over(&self) -> TakeOver {
        TakeOver::Anew
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::kind::Kinds;
    use port::spec::Spec;

    fn parse(text: &str) -> Result<Spec, SpecError> {
        Spec::parse(text, Kinds(&KINDS))
    }

    #[test]
    fn specifications_are_written_as_they_are_read() {
        for text in [
            "vx=vxlan:remote_ip=1.2.3.4,key=5",
            "g:7=geneve:remote_ip=flow,local_ip=2001:db8::1,key=flow,csum=true",
            "e=erspan:remote_ip=2001:db8::1,erspan_ver=2",
        ] {
            let spec = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(spec.to_string(), text);
            assert_eq!(spec.attachment.check("x"), Ok(()));
        }
        let unnamed = parse("gre:remote_ip=1.2.3.4").unwrap_err().to_string();
        assert_eq!(
            unnamed,
            "the gre port's own name is missing; wanted NAME=gre:remote_ip=ADDRESS"
        );
        let error = parse("a=gre:remote_ip=1.2.3.4,seq=2").unwrap_err();
        assert_eq!(
            (error.at(), error.to_string().as_str()),
            (24, "option seq=2 is none of: true, false")
        );
    }

    #[test]
    fn the_database_asks_by_its_words_and_hears_what_is_wrong() {
        let kinds = Kinds(&KINDS);
        assert_eq!(
            kinds.database_words(),
            ["erspan", "geneve", "gre", "ip6erspan", "ip6gre", "vxlan"]
        );
        let options = |text: &str| config::options(text).unwrap();
        let attach =
            |word, text: &str| (kinds.of_database(word).unwrap().attach)("t", &options(text));
        let good = attach("geneve", "key=flow,remote_ip=1.2.3.4,csum=true");
        assert_eq!(good.to_string(), "geneve:remote_ip=1.2.3.4,key=flow,csum=true");
        let bad = attach("geneve", "key=flow,remote_ip=1.2.3.4,ipsec=1");
        assert!(
            bad.check("t")
                .unwrap_err()
                .starts_with("option \"ipsec\" is not known to geneve ports")
        );
        let error = bad.open("t", &Environment::default()).err().unwrap().to_string();
        assert!(error.starts_with("t: option \"ipsec\" is not known"), "{error}");
        let error = good.open("t", &Environment::default()).err().unwrap().to_string();
        assert_eq!(error, "t: tunnel ports want a switch that has an underlay");
        let six = attach("ip6gre", "remote_ip=1.2.3.4").check("t").unwrap_err();
        assert_eq!(six, "ip6gre and ip6erspan want an IPv6 remote_ip");
        assert_eq!(attach("ip6gre", "remote_ip=::1").check("t"), Ok(()));
    }
}
