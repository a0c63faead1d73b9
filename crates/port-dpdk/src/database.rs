//! Devices as Open vSwitch's database asks for them, by the type and options of an interface.
//!
//! | type | options | is |
//! |---|---|---|
//! | `dpdk` | `dpdk-devargs` | any device, by its devargs |
//! | `dpdkvhostuser` | | a vhost-user socket of the interface's name in the run directory, to which a guest connects |
//! | `dpdkvhostuserclient` | `vhost-server-path` | a vhost-user socket that a guest listens at |
//!
//! All take `n_rxq`. Options that say something else are refused when the port is opened, each by its name.

use crate::kind::KIND;
use crate::{Options, open};
use port::kind::{Attached, Attachment, Database, Environment, Kind, TakeOver};
use port::{Error, Port};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// What the database may ask for.
pub(crate) const ALL: &[Database] = &[
    Database { word: "dpdk", attach: |name, options| asked("dpdk", name, options) },
    Database {
        word: "dpdkvhostuser",
        attach: |name, options| asked("dpdkvhostuser", name, options),
    },
    Database {
        word: "dpdkvhostuserclient",
        attach: |name, options| asked("dpdkvhostuserclient", name, options),
    },
];

/// An interface's device, or why it has none.
struct Asked {
    name: String,
    devargs: Result<String, String>,
    rx_queues: Option<usize>,
}

/// Where Open vSwitch has its sockets.
fn run_directory() -> PathBuf {
    std::env::var_os("OVS_RUNDIR").map_or_else(|| "/var/run/openvswitch".into(), PathBuf::from)
}

fn asked(kind: &'static str, name: &str, options: &BTreeMap<String, String>) -> Attached {
    let (devargs, rx_queues) = match read(kind, name, options) {
        Ok((devargs, rx_queues)) => (Ok(devargs), rx_queues),
        Err(why) => (Err(why), None),
    };
    Attached::new(Asked { name: name.to_owned(), devargs, rx_queues })
}

/// Devargs, and receive queues if their number is said.
fn read(
    kind: &str,
    name: &str,
    options: &BTreeMap<String, String>,
) -> Result<(String, Option<usize>), String> {
    let own = match kind {
        "dpdk" => Some("dpdk-devargs"),
        "dpdkvhostuserclient" => Some("vhost-server-path"),
        _ => None,
    };
    let known = |key: &str| key == "n_rxq" || Some(key) == own;
    if let Some(key) = options.keys().find(|key| !known(key)) {
        let there: Vec<&str> = own.into_iter().chain(["n_rxq"]).collect();
        let there = there.join(" and ");
        return Err(format!("options:{key} of type {kind} is not built; there is {there}"));
    }
    let rx_queues = match options.get("n_rxq").map(|text| (text, text.parse::<usize>())) {
        None => None,
        Some((_, Ok(number))) if (1..=1024).contains(&number) => Some(number),
        Some((text, _)) => {
            return Err(format!("options:n_rxq {text:?} is no number from 1 to 1024"));
        }
    };
    let given = own.map(|key| {
        let value = options.get(key).filter(|value| !value.is_empty());
        value.cloned().ok_or_else(|| format!("type {kind} needs options:{key}"))
    });
    let socket = |path: String| match path.contains(',') {
        true => Err(format!("{path:?}: DPDK takes no comma in the path of a socket")),
        false => Ok(path),
    };
    let queues = rx_queues.map_or(String::new(), |number| format!(",queues={number}"));
    let devargs = match (kind, given.transpose()?) {
        ("dpdk", Some(devargs)) => devargs,
        (_, Some(path)) => {
            format!("net_vhost_{name},iface={},client=1{queues}", socket(path)?)
        }
        (_, None) => {
            let path = run_directory().join(name).to_string_lossy().into_owned();
            format!("net_vhost_{name},iface={}{queues}", socket(path)?)
        }
    };
    Ok((devargs, rx_queues))
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One that is refused is another with every other reason.
        let (Ok(text) | Err(text)) = &self.devargs;
        write!(f, "dpdk:{text}")
    }
}

impl Attachment for Asked {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn default_name(&self) -> &str {
        &self.name
    }

    fn open(&self, name: &str, environment: &Environment) -> Result<Box<dyn Port>, Error> {
        let devargs = self
            .devargs
            .as_ref()
            .map_err(|why| Error::Unsupported { name: name.to_owned(), what: why.clone() })?;
        let mut options = environment.get::<Options>().cloned().unwrap_or_default();
        options.rx_queues = self.rx_queues.or(options.rx_queues);
        open(name, devargs, &options)
    }

    fn take_over(&self) -> TakeOver {
        TakeOver::Exclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_for(kind: &str, options: &[(&str, &str)]) -> Attached {
        let found = ALL.iter().find(|one| one.word == kind).expect("a type");
        let options = options.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        (found.attach)("v0", &options.collect())
    }

    #[test]
    fn types_and_options_become_devargs() {
        let shown = |kind, options: &[(&str, &str)]| asked_for(kind, options).to_string();
        assert_eq!(shown("dpdk", &[("dpdk-devargs", "0000:01:00.0")]), "dpdk:0000:01:00.0");
        let directory = run_directory();
        let own = format!("dpdk:net_vhost_v0,iface={}/v0", directory.display());
        assert_eq!(shown("dpdkvhostuser", &[]), own);
        assert_eq!(
            shown("dpdkvhostuserclient", &[("vhost-server-path", "/tmp/s"), ("n_rxq", "2")]),
            "dpdk:net_vhost_v0,iface=/tmp/s,client=1,queues=2"
        );
    }

    #[test]
    fn what_is_missing_or_not_built_is_refused_by_name() {
        let refused = |kind, options: &[(&str, &str)]| {
            let opened = asked_for(kind, options).open("v0", &Environment::default());
            opened.map(drop).unwrap_err().to_string()
        };
        assert_eq!(refused("dpdk", &[]), "v0: type dpdk needs options:dpdk-devargs");
        assert_eq!(
            refused("dpdkvhostuserclient", &[("vhost-server-path", "")]),
            "v0: type dpdkvhostuserclient needs options:vhost-server-path"
        );
        assert_eq!(
            refused("dpdk", &[("dpdk-devargs", "net_null0"), ("n_rxq_desc", "512")]),
            "v0: options:n_rxq_desc of type dpdk is not built; there is dpdk-devargs and n_rxq"
        );
        assert!(refused("dpdkvhostuser", &[("n_rxq", "0")]).contains("from 1 to 1024"));
        let comma = refused("dpdkvhostuserclient", &[("vhost-server-path", "/a,b")]);
        assert!(comma.contains("no comma"), "{comma}");
    }
}
