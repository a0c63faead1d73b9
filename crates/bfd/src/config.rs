//! What is asked of a session: the column `bfd` of an interface.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::packet::{Around, read};

/// Milliseconds that a packet can say, at most: it counts microseconds in 32 bits.
pub const INTERVAL_MAX_MS: u32 = u32::MAX / 1000;

/// What is asked of a session. The defaults are Open vSwitch's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The shortest interval between packets that it takes, in milliseconds.
    pub min_rx_ms: u32,
    /// The shortest interval between packets that it sends.
    pub min_tx_ms: u32,
    /// What it takes instead while the interface receives nothing else; 0 for the same.
    pub decay_min_rx_ms: u32,
    /// Whatever the interface receives says that it forwards.
    pub forwarding_if_rx: bool,
    /// Tells the other side that there is no way on beyond this system.
    pub cpath_down: bool,
    /// Takes packets with a tunnel key of 0 alone.
    pub check_tnl_key: bool,
    /// Source of its frames; the interface's address if none.
    pub local_src_mac: Option<[u8; 6]>,
    /// Destination of its frames.
    pub local_dst_mac: [u8; 6],
    /// Destination that received frames must have; any if none.
    pub remote_dst_mac: Option<[u8; 6]>,
    /// Source of its packets.
    pub src_ip: Ipv4Addr,
    /// Destination of its packets.
    pub dst_ip: Ipv4Addr,
    /// In tunnels that can say so, its packets are control packets.
    pub oam: bool,
    /// Packets in a row that are lost before the other side is taken for dead.
    pub mult: u8,
}

/// Where packets come from, unless something else is said.
pub const SRC_IP: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// Where packets go to, unless something else is said.
pub const DST_IP: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 0);

impl Default for Config {
    fn default() -> Config {
        Config {
            min_rx_ms: 1000,
            min_tx_ms: 100,
            decay_min_rx_ms: 0,
            forwarding_if_rx: false,
            cpath_down: false,
            check_tnl_key: false,
            local_src_mac: None,
            local_dst_mac: [0x00, 0x23, 0x20, 0x00, 0x00, 0x01],
            remote_dst_mac: None,
            src_ip: SRC_IP,
            dst_ip: DST_IP,
            oam: false,
            mult: 3,
        }
    }
}

/// What is asked for and cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Something that is not known.
    #[error("{0} is not known; known are {KEYS}")]
    Key(String),
    /// Neither true nor false.
    #[error("{key}={value}: true or false was expected")]
    Boolean {
        /// Of what.
        key: String,
        /// What was written.
        value: String,
    },
    /// A number.
    #[error("{key}={value}: {low} to {high} was expected")]
    Number {
        /// Of what.
        key: String,
        /// What was written.
        value: String,
        /// The least.
        low: u32,
        /// The greatest.
        high: u32,
    },
    /// A MAC address.
    #[error("{key}={value}: an address, as 02:00:00:00:00:01, was expected")]
    Mac {
        /// Of what.
        key: String,
        /// What was written.
        value: String,
    },
    /// An IP address.
    #[error("{key}={value}: an IPv4 address, as 169.254.1.1, was expected")]
    Ip {
        /// Of what.
        key: String,
        /// What was written.
        value: String,
    },
    /// It would ask for more when there is less.
    #[error("decay_min_rx={decay_ms}: 0, or at least min_rx ({min_rx_ms}), was expected")]
    Decay {
        /// What was written.
        decay_ms: u32,
        /// What it is compared with.
        min_rx_ms: u32,
    },
}

const KEYS: &str = "bfd_dst_ip, bfd_local_dst_mac, bfd_local_src_mac, bfd_remote_dst_mac, bfd_src_ip, check_tnl_key, cpath_down, \
                    decay_min_rx, enable, forwarding_if_rx, min_rx, min_tx, mult, oam";

fn boolean(key: &str, value: &str) -> Result<bool, ConfigError> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(ConfigError::Boolean { key: key.to_owned(), value: value.to_owned() }),
    }
}

fn number(key: &str, value: &str, low: u32, high: u32) -> Result<u32, ConfigError> {
    let read = value.parse().ok().filter(|number| (low..=high).contains(number));
    let (key, value) = (key.to_owned(), value.to_owned());
    read.ok_or(ConfigError::Number { key, value, low, high })
}

fn mac(key: &str, value: &str) -> Result<[u8; 6], ConfigError> {
    let mut mac = [0; 6];
    let mut parts = value.split(':');
    let read = mac.iter_mut().all(|octet| {
        let part =
            parts.next().filter(|part| matches!(part.len(), 1 | 2) && !part.starts_with('+'));
        let read = part.and_then(|part| u8::from_str_radix(part, 16).ok());
        *octet = read.unwrap_or(0);
        read.is_some()
    });
    let wrong = || ConfigError::Mac { key: key.to_owned(), value: value.to_owned() };
    (read && parts.next().is_none()).then_some(mac).ok_or_else(wrong)
}

fn ip(key: &str, value: &str) -> Result<Ipv4Addr, ConfigError> {
    let wrong = |_| ConfigError::Ip { key: key.to_owned(), value: value.to_owned() };
    value.parse().map_err(wrong)
}

impl Config {
    /// Reads the column. `None` if no session is asked for.
    pub fn read(column: &BTreeMap<String, String>) -> Result<Option<Config>, ConfigError> {
        let (mut config, mut enable) = (Config::default(), false);
        for (key, value) in column {
            let interval = |low| number(key, value, low, INTERVAL_MAX_MS);
            match key.as_str() {
                "enable" => enable = boolean(key, value)?,
                "min_rx" => config.min_rx_ms = interval(1)?,
                "min_tx" => config.min_tx_ms = interval(1)?,
                "decay_min_rx" => config.decay_min_rx_ms = interval(0)?,
                "forwarding_if_rx" => config.forwarding_if_rx = boolean(key, value)?,
                "cpath_down" => config.cpath_down = boolean(key, value)?,
                "check_tnl_key" => config.check_tnl_key = boolean(key, value)?,
                "bfd_local_src_mac" => config.local_src_mac = Some(mac(key, value)?),
                "bfd_local_dst_mac" => config.local_dst_mac = mac(key, value)?,
                "bfd_remote_dst_mac" => config.remote_dst_mac = Some(mac(key, value)?),
                "bfd_src_ip" => config.src_ip = ip(key, value)?,
                "bfd_dst_ip" => config.dst_ip = ip(key, value)?,
                "oam" => config.oam = boolean(key, value)?,
                "mult" => config.mult = number(key, value, 1, 255)? as u8,
                _ => return Err(ConfigError::Key(key.clone())),
            }
        }
        let (decay_ms, min_rx_ms) = (config.decay_min_rx_ms, config.min_rx_ms);
        if decay_ms != 0 && decay_ms < min_rx_ms {
            return Err(ConfigError::Decay { decay_ms, min_rx_ms });
        }
        Ok(enable.then_some(config))
    }

    /// Whether a frame with this tunnel key (0 if there is none) is for a session of these settings. One that is wrong
    /// may be.
    pub fn takes(&self, frame: &[u8], tunnel_key: u64) -> bool {
        read(frame).is_some_and(|(around, _)| self.is_for_this(&around, tunnel_key))
    }

    pub(crate) fn is_for_this(&self, around: &Around, tunnel_key: u64) -> bool {
        // Both sides have the same two addresses unless they are told others.
        let by_default = self.src_ip == SRC_IP && around.dst_ip == DST_IP;
        (around.dst_ip == self.src_ip || by_default)
            && self.remote_dst_mac.is_none_or(|mac| mac == around.dst_mac)
            && (!self.check_tnl_key || tunnel_key == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Config>, String> {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        let column = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Config::read(&column).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_is_read() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("enable=false min_rx=5"), Ok(None));
        assert_eq!(read("enable=true"), Ok(Some(Config::default())));
        let all = "enable=true min_rx=300 min_tx=200 decay_min_rx=3000 forwarding_if_rx=true cpath_down=true check_tnl_key=true \
                   bfd_local_src_mac=02:00:00:00:00:01 bfd_local_dst_mac=02:00:00:00:00:02 bfd_remote_dst_mac=02:00:00:00:00:03 \
                   bfd_src_ip=10.0.0.1 bfd_dst_ip=10.0.0.2 oam=true mult=255";
        let wanted = Config {
            min_rx_ms: 300,
            min_tx_ms: 200,
            decay_min_rx_ms: 3000,
            forwarding_if_rx: true,
            cpath_down: true,
            check_tnl_key: true,
            local_src_mac: Some([2, 0, 0, 0, 0, 1]),
            local_dst_mac: [2, 0, 0, 0, 0, 2],
            remote_dst_mac: Some([2, 0, 0, 0, 0, 3]),
            src_ip: Ipv4Addr::new(10, 0, 0, 1),
            dst_ip: Ipv4Addr::new(10, 0, 0, 2),
            oam: true,
            mult: 255,
        };
        assert_eq!(read(all), Ok(Some(wanted)));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        for (text, wanted) in [
            ("enable=yes", "enable=yes: true or false was expected"),
            ("min_rx=0", "min_rx=0: 1 to 4294967 was expected"),
            ("min_tx=4294968", "min_tx=4294968: 1 to 4294967 was expected"),
            ("mult=256", "mult=256: 1 to 255 was expected"),
            ("mult=0", "mult=0: 1 to 255 was expected"),
            ("oam=1", "oam=1: true or false was expected"),
            ("bfd_src_ip=::1", "bfd_src_ip=::1: an IPv4 address, as 169.254.1.1, was expected"),
            (
                "bfd_local_src_mac=2:0:0:0:0",
                "bfd_local_src_mac=2:0:0:0:0: an address, as 02:00:00:00:00:01, was expected",
            ),
            (
                "bfd_local_dst_mac=02:00:00:00:00:+1",
                "bfd_local_dst_mac=02:00:00:00:00:+1: an address, as 02:00:00:00:00:01, was expected",
            ),
            ("decay_min_rx=999", "decay_min_rx=999: 0, or at least min_rx (1000), was expected"),
        ] {
            assert_eq!(read(text), Err(wanted.to_owned()), "{text}");
        }
        let unknown = read("minrx=5").unwrap_err();
        assert!(unknown.starts_with("minrx is not known; known are bfd_dst_ip, "), "{unknown}");
    }
}
