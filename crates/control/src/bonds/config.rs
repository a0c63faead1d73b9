//! A bond as people write it.

use bond::lacp::LinkConfig;
use bond::{LacpMode, Mode, Settings, SettingsError};
use of_pipeline::vlans::NormalRefusal;
use of_pipeline::vlans::bonds::BONDS_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Several ports of a bridge as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bond {
    /// Its name, once in the bridge.
    pub name: String,
    /// Names of its ports. Those that are not there yet are members when they come.
    pub members: BTreeSet<String>,
    /// How it behaves.
    pub settings: Settings,
    /// What LACP says of members, by name; a link's number 0 stands for the port's.
    pub links: BTreeMap<String, LinkConfig>,
}

/// A bond that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BondError {
    /// What was written.
    #[error("{0}")]
    Word(String),
    /// A setting.
    #[error("bond {bond}: {error}")]
    Setting {
        /// The bond.
        bond: String,
        /// What is wrong.
        error: SettingsError,
    },
    /// There is one of the name.
    #[error("there is a bond {0:?} already")]
    Exists(String),
    /// There is none.
    #[error("there is no bond {0:?}")]
    NoBond(String),
    /// A port of two bonds.
    #[error("bond {bond}: port {port} is a member of bond {other}")]
    Taken {
        /// The bond.
        bond: String,
        /// The port.
        port: String,
        /// The other one.
        other: String,
    },
    /// There are too many.
    #[error("{0} bonds: a bridge has at most {BONDS_MAX}")]
    TooMany(usize),
    /// The bridge has none.
    #[error("the bridge runs a P4 program, which knows no bonds")]
    NoNormal,
    /// The bridge refused it.
    #[error("{0}")]
    Refused(#[from] NormalRefusal),
}

const FORM: &str = "NAME,members=PORT,PORT..[,mode=active-backup|balance-slb|balance-tcp][,lacp=off|active|passive]\
                    [,updelay=MS][,downdelay=MS][,bond-KEY=VALUE][,lacp-KEY=VALUE]\
                    [,all-members-active=true]";

/// All of a bridge fit together.
pub(crate) fn check(bonds: &[Bond]) -> Result<(), BondError> {
    if bonds.len() > BONDS_MAX {
        return Err(BondError::TooMany(bonds.len()));
    }
    for (at, bond) in bonds.iter().enumerate() {
        for other in &bonds[..at] {
            if other.name == bond.name {
                return Err(BondError::Exists(bond.name.clone()));
            }
            if let Some(port) = bond.members.intersection(&other.members).next() {
                let (bond, port) = (bond.name.clone(), port.clone());
                return Err(BondError::Taken { bond, port, other: other.name.clone() });
            }
        }
    }
    Ok(())
}

impl FromStr for Bond {
    type Err = BondError;

    /// Reads `b0,members=p1,p2,mode=balance-slb,lacp=active,updelay=100,lacp-time=fast`.
    fn from_str(text: &str) -> Result<Bond, BondError> {
        let failed = |why: String| BondError::Word(format!("bond {text:?}: {why}"));
        let (name, rest) = text.split_once(',').unwrap_or((text, ""));
        if name.is_empty() || name.contains('=') || rest.is_empty() {
            return Err(failed(format!("{FORM} was expected")));
        }
        let wrong = |error| BondError::Setting { bond: name.to_owned(), error };
        let mut settings = Settings::default();
        let (mut members, mut options) = (BTreeSet::new(), BTreeMap::new());
        let mut listing = false;
        for word in rest.split(',') {
            let Some((key, value)) = word.split_once('=') else {
                if !listing || word.is_empty() {
                    return Err(failed(format!("{word:?} is not known; {FORM} was expected")));
                }
                members.insert(word.to_owned());
                continue;
            };
            listing = key == "members";
            let ms = || {
                let number = value.parse::<u64>().ok().filter(|ms| *ms < 1 << 31);
                number.ok_or_else(|| failed(format!("{key}= is a number of milliseconds")))
            };
            match key {
                "members" => drop(members.insert(value.to_owned())),
                "mode" => settings.mode = Mode::from_word(value).map_err(wrong)?,
                "lacp" => settings.lacp = LacpMode::from_word(value).map_err(wrong)?,
                "updelay" => settings.up_delay_ms = ms()?,
                "downdelay" => settings.down_delay_ms = ms()?,
                _ => drop(options.insert(key.to_owned(), value.to_owned())),
            }
        }
        let settings = settings.with_options(&options).map_err(wrong)?;
        members.remove("");
        if members.is_empty() {
            return Err(failed("members=PORT,PORT.. is missing".to_owned()));
        }
        Ok(Bond { name: name.to_owned(), members, settings, links: BTreeMap::new() })
    }
}

impl fmt::Display for Bond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { mode, lacp, up_delay_ms, down_delay_ms, .. } = &self.settings;
        let members: Vec<&str> = self.members.iter().map(String::as_str).collect();
        write!(f, "{},members={},mode={}", self.name, members.join(","), mode.word())?;
        write!(f, ",lacp={}", lacp.word())?;
        for (key, ms) in [("updelay", up_delay_ms), ("downdelay", down_delay_ms)] {
            if *ms > 0 {
                write!(f, ",{key}={ms}")?;
            }
        }
        self.settings.options().iter().try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bonds_are_read_and_shown() {
        for text in [
            "b0,members=p1,p2,mode=active-backup,lacp=off",
            "b0,members=p1,p2,mode=balance-tcp,lacp=active,updelay=100,downdelay=50,lacp-time=fast",
            "b0,members=p1,mode=balance-slb,lacp=off,all-members-active=true,bond-hash-basis=7,bond-rebalance-interval=0",
            "b0,members=p1,mode=active-backup,lacp=passive,bond-primary=p1,lacp-fallback-ab=true,\
             lacp-system-id=02:00:00:00:00:01,lacp-system-priority=5",
        ] {
            assert_eq!(text.parse::<Bond>().unwrap().to_string(), text);
        }
        let short: Bond = "b0,members=p2,p1".parse().unwrap();
        assert_eq!(short.settings, Settings::default());
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let refused = |text: &str| text.parse::<Bond>().unwrap_err().to_string();
        assert!(refused("b0").contains("members=PORT"));
        assert!(refused("b0,mode=balance-slb").contains("members=PORT,PORT.. is missing"));
        assert!(refused("b0,members=p1,mode=x").contains("known are active-backup"));
        assert!(refused("b0,members=p1,updelay=soon").contains("milliseconds"));
        assert!(refused("b0,members=p1,colour=red").contains("colour is not known"));
        assert!(refused("b0,p1,p2").contains("\"p1\" is not known"));
        let bond = |text: &str| text.parse::<Bond>().unwrap();
        let twice = [bond("a,members=p1,p2"), bond("b,members=p2,p3")];
        let taken = check(&twice).unwrap_err().to_string();
        assert_eq!(taken, "bond b: port p2 is a member of bond a");
        let same = [bond("a,members=p1"), bond("a,members=p3")];
        assert_eq!(check(&same), Err(BondError::Exists("a".to_owned())));
    }
}
