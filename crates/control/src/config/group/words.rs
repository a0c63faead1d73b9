//! Values of words: places, times, addresses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// An address that the active member has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// At this port of a bridge.
    pub(crate) port: String,
    pub(crate) ip: IpAddr,
    pub(crate) mac: [u8; 6],
    pub(crate) vlan: Option<u16>,
}

pub(super) fn sockets(text: &str) -> Option<Vec<SocketAddr>> {
    text.split(',').map(|one| one.parse().ok()).collect()
}

pub(super) fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    let ms = number.parse::<u32>().ok()?.checked_mul(unit)?;
    (1..=3_600_000).contains(&ms).then(|| Duration::from_millis(ms.into()))
}

pub(super) fn address(text: &str) -> Option<Address> {
    let mut words = text.split(',');
    let (port, ip, mac) = (words.next()?, words.next()?, words.next()?);
    let vlan = words.next().map(|vlan| vlan.parse().ok().filter(|vlan| (1..4095).contains(vlan)));
    if words.next().is_some() || vlan == Some(None) || port.is_empty() {
        return None;
    }
    let octets = mac.split(':').map(|octet| u8::from_str_radix(octet, 16).ok());
    let octets = octets.collect::<Option<Vec<u8>>>()?;
    Some(Address {
        port: port.to_owned(),
        ip: ip.parse().ok()?,
        mac: octets.try_into().ok()?,
        vlan: vlan.flatten(),
    })
}
