//! A `Port`'s bonding: `bond_mode`, `lacp`, delays, and keys of `other_config` of it and its interfaces.
//!
//! What is written wrongly is as if it were not written, as Open vSwitch has it, and noted.

use super::interface::Interface;
use super::notes::Notes;
use super::reader::Reader;
use crate::feature::Feature;
use bond::lacp::LinkConfig;
use bond::{LacpMode, Mode, Settings};
use ovsdb::{Datum, Row};
use std::collections::BTreeMap;

/// How interfaces are bonded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BondSettings {
    /// What the bond is asked for.
    pub settings: Settings,
    /// What LACP says of interfaces, by name; a number of 0 stands for the port's.
    pub links: BTreeMap<String, LinkConfig>,
}

impl BondSettings {
    /// None for a port that is no bond. A bond that the switch lacks refuses the port: its interfaces would be a loop.
    pub(crate) fn of(
        reader: &Reader<'_>,
        row: &Row,
        interfaces: &BTreeMap<String, Interface>,
        notes: &mut Notes,
    ) -> Option<BondSettings> {
        let lacp = row.text("lacp").unwrap_or("off");
        if interfaces.len() < 2 && lacp == "off" {
            return None;
        }
        let able = (interfaces.len() < 2 || reader.can(notes, Feature::Bond))
            && (lacp == "off" || reader.can(notes, Feature::Lacp));
        if !able {
            notes.refuse_for_last();
            return None;
        }
        let ms = |column| row.integer(column).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        let mut settings = Settings {
            up_delay_ms: ms("bond_updelay"),
            down_delay_ms: ms("bond_downdelay"),
            system_priority: if interfaces.len() < 2 { u16::MAX } else { u16::MAX - 1 },
            ..Settings::default()
        };
        match Mode::from_word(row.text("bond_mode").unwrap_or("active-backup")) {
            Ok(mode) => settings.mode = mode,
            Err(error) => notes.add(error.to_string()),
        }
        match LacpMode::from_word(lacp) {
            Ok(lacp) => settings.lacp = lacp,
            Err(error) => notes.add(error.to_string()),
        }
        for (key, value) in bonding_keys(row) {
            let with = settings.clone().with_options(&BTreeMap::from([(key, value)]));
            match with {
                Ok(with) => settings = with,
                Err(error) => notes.add(error.to_string()),
            }
        }
        if settings.primary.is_some() && settings.mode.balances() {
            notes.add("bond-primary: only bonds of mode active-backup have one");
            settings.primary = None;
        }
        if row.key("other_config", "lb-output-action") == Some("true") {
            notes.add("lb-output-action: not done");
        }
        if settings.mode == Mode::BalanceTcp && settings.lacp == LacpMode::Off {
            notes.add(
                "balance-tcp needs lacp=active or passive: without a partner no packet passes",
            );
        }
        let links = interfaces.iter().map(|(name, one)| (name.clone(), link(one, notes)));
        let links = links.collect();
        Some(BondSettings { settings, links })
    }
}

fn bonding_keys(row: &Row) -> Vec<(String, String)> {
    let Some(Datum::Map(map)) = row.get("other_config") else { return Vec::new() };
    map.iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .filter(|(key, _)| {
            key.starts_with("bond-") || key.starts_with("lacp-") || key == "all-members-active"
        })
        .collect()
}

fn link(interface: &Interface, notes: &mut Notes) -> LinkConfig {
    let mut number = |key: &str, default: u16| match interface.settings.others.get(key) {
        None => default,
        Some(text) => match text.parse::<u16>().ok().filter(|number| *number > 0) {
            Some(number) => number,
            None => {
                notes.add(format!(
                    "{}: {key}={text}: 1 to 65535 was expected",
                    interface.settings.name
                ));
                default
            }
        },
    };
    LinkConfig {
        port: number("lacp-port-id", 0),
        priority: number("lacp-port-priority", 65535),
        key: number("lacp-aggregation-key", 0),
    }
}
