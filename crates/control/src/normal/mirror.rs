//! A mirror: which packets of a bridge are copied, and where to.

use super::words;
use of_pipeline::lower::normal::config::VlanSet;
use of_pipeline::vlans::{MirrorConfig, MirrorTarget, NormalRefusal};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Which packets of a bridge are copied, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Its name, once in the bridge.
    pub name: String,
    /// Every packet is.
    pub all: bool,
    /// Packets that come in by these ports are.
    pub sources: BTreeSet<String>,
    /// Packets that leave by these are.
    pub destinations: BTreeSet<String>,
    /// Only those of these VLANs; all if empty.
    pub vlans: BTreeSet<u16>,
    /// Where copies go.
    pub to: To,
    /// Bytes of a copy, at most.
    pub length_max: Option<u32>,
}

/// Where a mirror's copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// To this port.
    Port(String),
    /// To the ports of this VLAN.
    Vlan(u16),
}

/// A mirror that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// What was written.
    #[error("{0}")]
    Word(String),
    /// There is one of the name.
    #[error("there is a mirror {0:?} already")]
    Exists(String),
    /// There is none.
    #[error("there is no mirror {0:?}")]
    NoMirror(String),
    /// A port that is named.
    #[error("mirror {mirror}: there is no port {port:?}")]
    NoPort {
        /// The mirror.
        mirror: String,
        /// The port.
        port: String,
    },
    /// It copies what it sends.
    #[error("mirror {mirror}: port {port} cannot be selected, since copies go there")]
    Circle {
        /// The mirror.
        mirror: String,
        /// The port.
        port: String,
    },
    /// The bridge has no mirrors.
    #[error("the bridge runs a P4 program, which knows no mirrors")]
    NoNormal,
    /// The bridge refused it.
    #[error("{0}")]
    Refused(#[from] NormalRefusal),
}

impl Mirror {
    /// By numbers. A port that is not there is none of those that are selected; without the port for copies there is no
    /// mirror.
    pub fn of_ports(&self, number: impl Fn(&str) -> Option<u32>) -> Option<MirrorConfig> {
        let ports = |names: &BTreeSet<String>| {
            (!self.all).then(|| names.iter().filter_map(|name| number(name)).collect())
        };
        Some(MirrorConfig {
            sources: ports(&self.sources),
            destinations: ports(&self.destinations),
            vlans: (!self.vlans.is_empty())
                .then(|| self.vlans.iter().copied().collect::<VlanSet>()),
            to: match &self.to {
                To::Port(name) => MirrorTarget::Port(number(name)?),
                To::Vlan(vlan) => MirrorTarget::Vlan(*vlan),
            },
            length_max: self.length_max,
        })
    }

    /// The ports that it names.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &String> {
        let to = match &self.to {
            To::Port(name) => Some(name),
            To::Vlan(_) => None,
        };
        self.sources.iter().chain(&self.destinations).chain(to)
    }

    /// What is selected is not where copies go.
    pub(crate) fn check(&self) -> Result<(), MirrorError> {
        if let To::Port(to) = &self.to
            && (self.sources.contains(to) || self.destinations.contains(to))
        {
            let (mirror, port) = (self.name.clone(), to.clone());
            return Err(MirrorError::Circle { mirror, port });
        }
        Ok(())
    }
}

impl FromStr for Mirror {
    type Err = MirrorError;

    /// Reads `NAME,all,to=PORT`, `NAME,src=p1,p2,dst=p3,vlans=10,20-29,to-vlan=99,length=64`.
    fn from_str(text: &str) -> Result<Mirror, MirrorError> {
        let form = "NAME,all|src=PORT,..|dst=PORT,..[,vlans=N,..],to=PORT|to-vlan=N[,length=BYTES]";
        let failed = |why: String| MirrorError::Word(format!("mirror {text:?}: {why}"));
        let (name, rest) = text.split_once(',').unwrap_or((text, ""));
        if name.is_empty() || name.contains('=') || rest.is_empty() {
            return Err(failed(format!("{form} was expected")));
        }
        let mut mirror = Mirror {
            name: name.to_owned(),
            all: false,
            sources: BTreeSet::new(),
            destinations: BTreeSet::new(),
            vlans: BTreeSet::new(),
            to: To::Vlan(0),
            length_max: None,
        };
        let mut to = None;
        for (key, values) in words::split(rest, &["all"]) {
            let values = values.unwrap_or_default();
            let names = || values.iter().map(|name| (*name).to_owned());
            let single = || match values[..] {
                [value] => Ok(value),
                _ => Err(failed(format!("{key}: one value was expected"))),
            };
            let twice = || failed("copies go to one place: to=PORT or to-vlan=N".to_owned());
            match key {
                "all" if values.is_empty() => mirror.all = true,
                "src" => mirror.sources.extend(names()),
                "dst" => mirror.destinations.extend(names()),
                "vlans" => mirror.vlans.extend(words::vlans(&values).map_err(failed)?),
                "to" | "to-vlan" if to.is_some() => return Err(twice()),
                "to" => to = Some(To::Port(single()?.to_owned())),
                "to-vlan" => to = Some(To::Vlan(words::vlan(single()?).map_err(failed)?)),
                "length" => {
                    let length =
                        single()?.parse().ok().filter(|length| (14..=65535).contains(length));
                    let wrong = || failed("length= is 14 to 65535 bytes".to_owned());
                    mirror.length_max = Some(length.ok_or_else(wrong)?);
                }
                _ => return Err(failed(format!("{key:?} is not known; {form} was expected"))),
            }
        }
        mirror.to = to.ok_or_else(|| failed("to=PORT or to-vlan=N is missing".to_owned()))?;
        let ports = !mirror.sources.is_empty() || !mirror.destinations.is_empty();
        if mirror.all == ports {
            return Err(failed(
                "all, or ports by src= and dst=, but not both, were expected".to_owned(),
            ));
        }
        mirror.check()?;
        Ok(mirror)
    }
}

impl fmt::Display for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.all {
            f.write_str(",all")?;
        }
        let names = |names: &BTreeSet<String>| {
            names.iter().map(String::as_str).collect::<Vec<_>>().join(",")
        };
        for (key, ports) in [("src", &self.sources), ("dst", &self.destinations)] {
            if !ports.is_empty() {
                write!(f, ",{key}={}", names(ports))?;
            }
        }
        if !self.vlans.is_empty() {
            write!(f, ",vlans={}", words::show(&self.vlans))?;
        }
        match &self.to {
            To::Port(port) => write!(f, ",to={port}")?,
            To::Vlan(vlan) => write!(f, ",to-vlan={vlan}")?,
        }
        match self.length_max {
            Some(length) => write!(f, ",length={length}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_read_and_shown() {
        for text in [
            "m,all,to=p9",
            "m,src=p1,p2,dst=p3,to=p9",
            "m,dst=p3,vlans=10,20-29,to-vlan=99,length=64",
        ] {
            assert_eq!(text.parse::<Mirror>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let refused = |text: &str| text.parse::<Mirror>().unwrap_err().to_string();
        assert!(refused("m").contains("NAME,all|src=PORT"));
        assert!(refused("m,all").contains("to=PORT or to-vlan=N is missing"));
        assert!(refused("m,to=p1").contains("all, or ports by src= and dst="));
        assert!(refused("m,all,src=p1,to=p2").contains("but not both"));
        assert!(refused("m,all,to=p1,to-vlan=2").contains("one place"));
        assert!(refused("m,src=p1,to=p1").contains("port p1 cannot be selected"));
        assert!(refused("m,all,to=p1,length=2").contains("14 to 65535"));
        assert!(refused("m,all,to=p1,color=2").contains("\"color\" is not known"));
    }
}
