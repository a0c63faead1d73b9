//! How NORMAL learns and floods in a bridge: `flood-vlans=10,20`, `mac-table-size=2048`, `mac-aging-time=60`,
//! `forward-bpdu`. And `vlan-limit=1`: how many VLAN tags are parsed.

use super::words;
use of_pipeline::lower::headers::VLAN_PARSED;
use of_pipeline::vlans::StationConfig;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// How NORMAL learns and floods in a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// VLANs in which no address is learnt, and all is flooded.
    pub flood_vlans: BTreeSet<u16>,
    /// Addresses, and how long they are kept.
    pub stations: StationConfig,
    /// Frames to addresses that are reserved for bridges are forwarded, too.
    pub forwards_bpdu: bool,
    /// VLAN tags of a frame that are parsed, 1 to [`VLAN_PARSED`], which is taken where it is not said. What is behind
    /// them is payload to NORMAL and to entries.
    pub vlan_limit: Option<u8>,
}

/// Words that say nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("normal {text:?}: {why}")]
pub struct LearningError {
    text: String,
    why: String,
}

impl FromStr for Learning {
    type Err = LearningError;

    fn from_str(text: &str) -> Result<Learning, LearningError> {
        let failed = |why: String| LearningError { text: text.to_owned(), why };
        let mut learning = Learning::default();
        let mut seen = BTreeSet::new();
        for (key, values) in words::split(text, &["forward-bpdu"]) {
            if !seen.insert(key) {
                return Err(failed(format!("{key} was given already")));
            }
            let number = |least: u64, most: u64| {
                let value = match values.as_deref() {
                    Some([value]) => value.parse().ok(),
                    _ => None,
                };
                value
                    .filter(|value| (least..=most).contains(value))
                    .ok_or_else(|| failed(format!("{key}= is a number from {least} to {most}")))
            };
            match key {
                "flood-vlans" => {
                    let list = words::vlans(values.as_deref().unwrap_or_default());
                    learning.flood_vlans = list.map_err(failed)?;
                }
                "mac-table-size" => {
                    learning.stations.max = Some(number(1, u64::from(u32::MAX))? as u32);
                }
                "mac-aging-time" => {
                    learning.stations.age_s = number(1, u64::from(u16::MAX))? as u16;
                }
                "vlan-limit" => {
                    learning.vlan_limit = Some(number(1, u64::from(VLAN_PARSED))? as u8);
                }
                "forward-bpdu" if values.is_none() => learning.forwards_bpdu = true,
                _ => {
                    let known = "flood-vlans=N,N, mac-table-size=N, mac-aging-time=SECONDS, vlan-limit=N and forward-bpdu are";
                    return Err(failed(format!("{key:?} is not known; {known}")));
                }
            }
        }
        Ok(learning)
    }
}

impl fmt::Display for Learning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = StationConfig::default();
        let mut words = Vec::new();
        if !self.flood_vlans.is_empty() {
            words.push(format!("flood-vlans={}", words::show(&self.flood_vlans)));
        }
        words.extend(self.stations.max.map(|max| format!("mac-table-size={max}")));
        if self.stations.age_s != default.age_s {
            words.push(format!("mac-aging-time={}", self.stations.age_s));
        }
        words.extend(self.vlan_limit.map(|limit| format!("vlan-limit={limit}")));
        if self.forwards_bpdu {
            words.push("forward-bpdu".to_owned());
        }
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_shown() {
        for text in [
            "flood-vlans=10,20-29,mac-table-size=12,mac-aging-time=60,vlan-limit=2,forward-bpdu",
            "forward-bpdu",
        ] {
            assert_eq!(text.parse::<Learning>().unwrap().to_string(), text);
        }
        let learning: Learning = "forward-bpdu,flood-vlans=7".parse().unwrap();
        assert_eq!(learning.flood_vlans, [7].into());
        assert_eq!(Learning::default().to_string(), "");
    }

    #[test]
    fn other_words_are_refused_with_what_is_known() {
        let refused = |text: &str| text.parse::<Learning>().unwrap_err().to_string();
        assert!(refused("flood").contains("\"flood\" is not known; flood-vlans=N,N"));
        assert!(refused("mac-table-size=0").contains("a number from 1 to 4294967295"));
        assert!(refused("mac-aging-time=70000").contains("a number from 1 to 65535"));
        assert!(refused("vlan-limit=5").contains("a number from 1 to 4"));
        assert!(refused("forward-bpdu,forward-bpdu").contains("was given already"));
        assert!(refused("flood-vlans=4096").contains("0 to 4095"));
    }
}
