//! The word `answer=`: addresses that a service owns and the switch answers ARP and neighbour solicitations for.
//!
//! `answer=10.0.0.9@02:00:00:00:00:09,fd00::9@02:00:00:00:00:09` names them; `answer=02:00:00:00:00:09` takes those that the
//! kind's own settings name, as `addresses=` of a NAT does.

use super::error::Error;
use std::net::IpAddr;

/// Addresses with one address of the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The first.
    pub first: IpAddr,
    /// The last, of the same protocol.
    pub last: IpAddr,
    /// What answers tell.
    pub mac: [u8; 6],
}

impl Answered {
    /// An address that both have.
    pub fn shared(&self, other: &Answered) -> Option<IpAddr> {
        let first = self.first.max(other.first);
        let same = self.first.is_ipv4() == other.first.is_ipv4();
        (same && first <= self.last.min(other.last)).then_some(first)
    }
}

/// What a service of this kind has answered, by the word's value. `own` are the addresses that its settings name; none of a kind
/// whose settings name none.
///
/// # Errors
/// [`Error::Value`] for what is no list of addresses, [`Error::Together`] if one is there twice.
pub(super) fn read(
    kind: &'static str,
    text: &str,
    own: Option<&str>,
) -> Result<Vec<Answered>, Error> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if let (Some(mac), Some(own)) = (mac(text), own) {
        let range = range(own).into_iter();
        return Ok(range.map(|(first, last)| Answered { first, last, mac }).collect());
    }
    let one = |word: &str| {
        let (addresses, mac) = word.split_once('@')?;
        let ((first, last), mac) = (range(addresses)?, self::mac(mac)?);
        Some(Answered { first, last, mac })
    };
    let wanted = match own {
        Some(_) => {
            "a MAC address such as 02:00:00:00:00:09, or ADDRESS@MAC or FIRST-LAST@MAC, separated by commas"
        }
        None => "ADDRESS@MAC or FIRST-LAST@MAC, separated by commas: 10.0.0.9@02:00:00:00:00:09",
    };
    let all = text.split(',').map(one).collect::<Option<Vec<_>>>().ok_or_else(|| {
        let (value, wanted) = (text.to_owned(), wanted.to_owned());
        Error::Value { kind, key: KEY, value, wanted }
    })?;
    let twice = all
        .iter()
        .enumerate()
        .find_map(|(at, one)| all[..at].iter().find_map(|other| one.shared(other)));
    match twice {
        Some(address) => {
            Err(Error::Together { kind, why: format!("{KEY}= names {address} twice") })
        }
        None => Ok(all),
    }
}

/// The setting.
pub(super) const KEY: &str = "answer";

/// `ADDRESS` or `FIRST-LAST`, both of one protocol.
pub(super) fn range(word: &str) -> Option<(IpAddr, IpAddr)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let range: (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
    (range.0.is_ipv4() == range.1.is_ipv4() && range.0 <= range.1).then_some(range)
}

/// The address of one station: six octets of hex digits. A group's is nobody's.
pub(super) fn mac(text: &str) -> Option<[u8; 6]> {
    let octet = |word: &str| match word.len() {
        2 => u8::from_str_radix(word, 16).ok().filter(|_| !word.starts_with('+')),
        _ => None,
    };
    let octets: Vec<u8> = text.split(':').map(octet).collect::<Option<_>>()?;
    <[u8; 6]>::try_from(octets).ok().filter(|mac| mac[0] & 1 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, own: Option<&str>) -> Result<Vec<Answered>, String> {
        read("kind", text, own).map_err(|e| e.to_string())
    }

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn answered(first: &str, last: &str) -> Answered {
        Answered { first: first.parse().unwrap(), last: last.parse().unwrap(), mac: MAC }
    }

    #[test]
    fn addresses_are_those_of_the_service_or_named() {
        let nat = Some("192.0.2.1-192.0.2.8");
        let own = answered("192.0.2.1", "192.0.2.8");
        assert_eq!(of("02:00:00:00:00:09", nat), Ok(vec![own]));
        assert_eq!(of("", nat), Ok(vec![]));
        let named = "10.0.0.9@02:00:00:00:00:09,fd00::9-fd00::a@02:00:00:00:00:09";
        let both = vec![answered("10.0.0.9", "10.0.0.9"), answered("fd00::9", "fd00::a")];
        assert_eq!(of(named, None), Ok(both.clone()));
        assert_eq!(of(named, nat), Ok(both));
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_would_be_one() {
        let refused = |text: &str| of(text, None).unwrap_err();
        for text in [
            "02:00:00:00:00:09",
            "10.0.0.9",
            "10.0.0.9@03:00:00:00:00:09",
            "10.0.0.9@02:00:00:00:09",
            "10.0.0.9-fd00::1@02:00:00:00:00:09",
            "10.0.0.9-10.0.0.1@02:00:00:00:00:09",
            "10.0.0.9@02:00:00:00:00:09,",
        ] {
            assert!(refused(text).contains("is not ADDRESS@MAC"), "{text}: {}", refused(text));
        }
        let twice = "10.0.0.1-10.0.0.9@02:00:00:00:00:09,10.0.0.9@02:00:00:00:00:0a";
        assert!(refused(twice).contains("names 10.0.0.9 twice"));
        let nat = of("x", Some("192.0.2.1")).unwrap_err();
        assert!(nat.contains("a MAC address"), "{nat}");
    }

    #[test]
    fn an_address_of_both_is_found() {
        let (a, b) = (answered("10.0.0.1", "10.0.0.9"), answered("10.0.0.9", "10.0.0.20"));
        assert_eq!(a.shared(&b), Some([10, 0, 0, 9].into()));
        assert_eq!(a.shared(&answered("10.0.0.10", "10.0.0.20")), None);
        assert_eq!(a.shared(&answered("::", "ff::")), None);
    }
}
