//! Stations under NORMAL: those that were learnt, and those that somebody has put at a port.

use super::bridge::Bridge;
use super::error::Error;
use crate::sync::lock;
use of_pipeline::normal::StationRefusal;
use std::time::Duration;

/// A station that NORMAL knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// The number of the port that it is behind.
    pub port: u32,
    /// Its VLAN, 0 for none.
    pub vlan: u16,
    /// Its address.
    pub mac: [u8; 6],
    /// Since its last packet; none of one that stays.
    pub age: Option<Duration>,
}

fn number(mac: [u8; 6]) -> u64 {
    mac.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

impl Bridge {
    /// The stations that NORMAL knows, first the one that was not heard of for longest; none of a P4 program.
    pub fn stations(&self) -> Vec<Station> {
        let Some(openflow) = self.openflow() else { return Vec::new() };
        let agent = lock(&openflow.agent);
        let now_ns = self.switch().now_ns();
        let seen = agent.stations().seen(self.switch()).map(|(vlan, mac, port, seen_ns)| {
            let [_, _, mac @ ..] = mac.to_be_bytes();
            let age = seen_ns.map(|seen| Duration::from_nanos(now_ns.saturating_sub(seen)));
            Station { port, vlan, mac, age }
        });
        seen.collect()
    }

    /// Forgets the stations that were learnt. Says how many there were.
    pub fn flush_stations(&self) -> usize {
        self.openflow().map_or(0, |openflow| lock(&openflow.agent).forget_stations())
    }

    /// Forgets these, but those that stay.
    pub(super) fn forget_stations(&self, gone: &[Station]) {
        let Some(openflow) = self.openflow() else { return };
        let places: Vec<(u16, u64)> = gone.iter().map(|one| (one.vlan, number(one.mac))).collect();
        lock(&openflow.agent).forget_these_stations(&places);
        self.switch().sync();
    }

    /// A station stays at a port, wherever it was known before, until it is removed or the port goes.
    pub fn add_station(&self, port: &str, vlan: u16, mac: [u8; 6]) -> Result<(), Error> {
        let number_of_port = self.number(port)?;
        let openflow = self.openflow().ok_or_else(|| self.no_stations())?;
        let done = lock(&openflow.agent).add_station(vlan, number(mac), number_of_port);
        done.map_err(|error| self.station_refused(error))?;
        self.switch().sync();
        Ok(())
    }

    /// Such a station is forgotten. Says whether there was one.
    pub fn remove_station(&self, vlan: u16, mac: [u8; 6]) -> Result<bool, Error> {
        let openflow = self.openflow().ok_or_else(|| self.no_stations())?;
        let there = lock(&openflow.agent).remove_station(vlan, number(mac));
        self.switch().sync();
        Ok(there)
    }

    fn no_stations(&self) -> Error {
        Error::NotOpenFlow { bridge: self.name().to_owned() }
    }

    fn station_refused(&self, error: StationRefusal) -> Error {
        Error::Station { bridge: self.name().to_owned(), error }
    }
}
