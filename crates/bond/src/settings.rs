//! What is asked of a bond.

use std::collections::BTreeMap;

/// How packets are dealt to members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All by one member.
    #[default]
    ActiveBackup,
    /// By source and VLAN; the other side knows of no bond.
    BalanceSlb,
    /// By addresses and ports; the other side speaks LACP.
    BalanceTcp,
}

/// Whether LACP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lacp {
    /// Not at all.
    #[default]
    Off,
    /// Whether the other side speaks or not.
    Active,
    /// When the other side does.
    Passive,
}

/// What is asked of a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How packets are dealt.
    pub mode: Mode,
    /// Whether LACP is spoken.
    pub lacp: Lacp,
    /// A link is used after it was up for so long, in milliseconds.
    pub up_delay_ms: u64,
    /// It is given up after it was down for so long.
    pub down_delay_ms: u64,
    /// Slots are moved so often; 0 for never.
    pub rebalance_ms: u64,
    /// What the hash begins with.
    pub basis: u32,
    /// The member that is used whenever it can be, of active-backup.
    pub primary: Option<String>,
    /// Without a partner that speaks LACP, one member is used.
    pub fallback_ab: bool,
    /// Of balance-slb: packets to many stations are let in by every member, not by the active one alone.
    pub all_members: bool,
    /// The partner is asked for a frame every second, not every 30.
    pub fast: bool,
    /// The system's id; none for the bridge's address.
    pub system_id: Option<[u8; 6]>,
    /// Its priority; less is better.
    pub system_priority: u16,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mode: Mode::default(),
            lacp: Lacp::default(),
            up_delay_ms: 0,
            down_delay_ms: 0,
            rebalance_ms: 10_000,
            basis: 0,
            primary: None,
            fallback_ab: false,
            all_members: false,
            fast: false,
            system_id: None,
            system_priority: 65534,
        }
    }
}

/// What is asked for and cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A word.
    #[error("{key}={value}: known are {known}")]
    Word {
        /// Of what.
        key: String,
        /// What was written.
        value: String,
        /// What can be.
        known: &'static str,
    },
    /// A number.
    #[error("{key}={value}: {low} to {high} was expected")]
    Number {
        /// Of what.
        key: String,
        /// What was written.
        value: String,
        /// The least.
        low: u64,
        /// The greatest.
        high: u64,
    },
    /// An address.
    #[error("{key}={value}: an address, as 02:00:00:00:00:01, was expected")]
    Address {
        /// Of what.
        key: String,
        /// What was written.
        value: String,
    },
    /// Something that is not known.
    #[error("{0} is not known; known are {KEYS}")]
    Key(String),
}

const KEYS: &str = "all-members-active, bond-hash-basis, bond-primary, bond-rebalance-interval, lacp-fallback-ab, lacp-system-id, \
                    lacp-system-priority, lacp-time";

fn boolean(key: &str, value: &str) -> Result<bool, SettingsError> {
    let wrong = || SettingsError::Word {
        key: key.to_owned(),
        value: value.to_owned(),
        known: "true, false",
    };
    value.parse().map_err(|_| wrong())
}

fn number(key: &str, value: &str, low: u64, high: u64) -> Result<u64, SettingsError> {
    let wrong =
        || SettingsError::Number { key: key.to_owned(), value: value.to_owned(), low, high };
    value.parse().ok().filter(|n| (low..=high).contains(n)).ok_or_else(wrong)
}

/// An address as text.
pub fn mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// An address as six bytes in hexadecimal.
pub fn address(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

impl Mode {
    /// As Open vSwitch writes it.
    pub fn word(self) -> &'static str {
        match self {
            Mode::ActiveBackup => "active-backup",
            Mode::BalanceSlb => "balance-slb",
            Mode::BalanceTcp => "balance-tcp",
        }
    }

    /// The mode of a word.
    pub fn from_word(word: &str) -> Result<Mode, SettingsError> {
        let all = [Mode::ActiveBackup, Mode::BalanceSlb, Mode::BalanceTcp];
        all.into_iter().find(|mode| mode.word() == word).ok_or_else(|| SettingsError::Word {
            key: "bond_mode".to_owned(),
            value: word.to_owned(),
            known: "active-backup, balance-slb, balance-tcp",
        })
    }

    /// It deals packets to several members.
    pub fn balances(self) -> bool {
        self != Mode::ActiveBackup
    }
}

impl Lacp {
    /// As Open vSwitch writes it.
    pub fn word(self) -> &'static str {
        match self {
            Lacp::Off => "off",
            Lacp::Active => "active",
            Lacp::Passive => "passive",
        }
    }

    /// That of a word.
    pub fn from_word(word: &str) -> Result<Lacp, SettingsError> {
        let all = [Lacp::Off, Lacp::Active, Lacp::Passive];
        all.into_iter().find(|lacp| lacp.word() == word).ok_or_else(|| SettingsError::Word {
            key: "lacp".to_owned(),
            value: word.to_owned(),
            known: "off, active, passive",
        })
    }
}

impl Settings {
    /// Keys of `other_config` for what is not as it would be without them.
    pub fn options(&self) -> BTreeMap<&'static str, String> {
        let default = Settings::default();
        let mut all = BTreeMap::new();
        if self.basis != default.basis {
            all.insert("bond-hash-basis", self.basis.to_string());
        }
        if let Some(primary) = &self.primary {
            all.insert("bond-primary", primary.clone());
        }
        if self.rebalance_ms != default.rebalance_ms {
            all.insert("bond-rebalance-interval", self.rebalance_ms.to_string());
        }
        if self.all_members {
            all.insert("all-members-active", "true".to_owned());
        }
        if self.fallback_ab {
            all.insert("lacp-fallback-ab", "true".to_owned());
        }
        if let Some(id) = self.system_id {
            all.insert("lacp-system-id", mac(id));
        }
        if self.system_priority != default.system_priority {
            all.insert("lacp-system-priority", self.system_priority.to_string());
        }
        if self.fast {
            all.insert("lacp-time", "fast".to_owned());
        }
        all
    }

    /// Takes keys of `other_config` that begin with `bond-` or `lacp-`, and `all-members-active`.
    pub fn with_options(
        mut self,
        options: &BTreeMap<String, String>,
    ) -> Result<Settings, SettingsError> {
        for (key, value) in options {
            match key.as_str() {
                "bond-hash-basis" => self.basis = number(key, value, 0, u32::MAX.into())? as u32,
                "bond-primary" => self.primary = (!value.is_empty()).then(|| value.clone()),
                // As Open vSwitch has it: less than a second is a second, but 0 is never.
                "bond-rebalance-interval" => {
                    let ms = number(key, value, 0, 1 << 31)?;
                    self.rebalance_ms = if ms == 0 { 0 } else { ms.max(1000) };
                }
                "all-members-active" => self.all_members = boolean(key, value)?,
                "lacp-fallback-ab" => self.fallback_ab = boolean(key, value)?,
                "lacp-system-id" => {
                    let (key, value) = (key.clone(), value.clone());
                    let id = address(&value).ok_or(SettingsError::Address { key, value })?;
                    self.system_id = Some(id);
                }
                "lacp-system-priority" => {
                    self.system_priority = number(key, value, 1, 65535)? as u16;
                }
                "lacp-time" => {
                    self.fast = match value.as_str() {
                        "fast" => true,
                        "slow" => false,
                        _ => {
                            let (key, value) = (key.clone(), value.clone());
                            return Err(SettingsError::Word { key, value, known: "fast, slow" });
                        }
                    }
                }
                _ => return Err(SettingsError::Key(key.clone())),
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, value: &str) -> Result<Settings, SettingsError> {
        Settings::default().with_options(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        assert_eq!(with("bond-rebalance-interval", "10").unwrap().rebalance_ms, 1000);
        assert_eq!(with("bond-rebalance-interval", "0").unwrap().rebalance_ms, 0);
        assert!(with("lacp-time", "fast").unwrap().fast);
        let id = with("lacp-system-id", "2:0:0:0:0:ff").unwrap().system_id;
        assert_eq!(id, Some([2, 0, 0, 0, 0, 255]));
        for (key, value, says) in [
            ("lacp-time", "soon", "known are fast, slow"),
            ("lacp-system-id", "02:00:00:00:00", "an address"),
            ("lacp-system-priority", "0", "1 to 65535"),
            ("lacp-fallback-ab", "1", "known are true, false"),
            ("all-members-active", "yes", "known are true, false"),
            ("bond-colour", "red", "is not known"),
        ] {
            let error = with(key, value).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(Mode::from_word("stack").is_err() && Lacp::from_word("on").is_err());
    }
}
