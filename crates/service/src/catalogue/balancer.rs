//! A balancer's settings: its backends, where they are, and how they are checked.

use super::{Error, Given};
use crate::balance::check::{Ask, Check};
use crate::balance::settings::{clashing, hosts, members, unknown_places};
use crate::balance::{AllDown, Backends};
use std::time::Duration;

/// The longest time between checks.
const INTERVAL_MAX: Duration = Duration::from_secs(86_400);

pub(super) fn backends(given: &Given<'_>, is_checked: bool) -> Result<Backends, Error> {
    let text = given.text("backends")?;
    let members = members(given.kind.name, text)?;
    let places = hosts(given.kind.name, given.text("hosts")?)?;
    unknown_places(&members, &places, is_checked)?;
    let all_down = given.one_of("all_down", "keep or refuse", |word| match word {
        "keep" => Some(AllDown::Keep),
        "refuse" => Some(AllDown::Refuse),
        _ => None,
    })?;
    let backends = Backends::new(Vec::new()).map_err(|clash| clashing(text, &clash))?;
    let backends = backends.with_all_down(all_down);
    backends.set_with_hosts(members, places).map_err(|clash| clashing(text, &clash))?;
    Ok(backends)
}

/// How they are checked, if they are.
pub(super) fn check(given: &Given<'_>) -> Result<Option<Check>, Error> {
    let of_http = || -> Result<Ask, Error> {
        let status = |text: &str| text.parse().ok().filter(|n| (100..=999).contains(n));
        let expect = given.one_of("check_expect", "N or FIRST-LAST, from 100 to 999", |word| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((status(first)?, status(last)?)).filter(|(first, last)| first <= last)
        })?;
        let line = |key: &'static str, wanted: &str| {
            given.one_of(key, wanted, |word| {
                let plain = word.bytes().all(|c| (0x21..0x7f).contains(&c));
                plain.then(|| word.to_owned())
            })
        };
        let path = line("check_path", "a path without blanks")?;
        if !path.starts_with('/') {
            return Err(given.wrong("check_path", &path, "a path that begins with /"));
        }
        let host = line("check_host", "a name without blanks")?;
        Ok(Ask::Http { path, host, expect })
    };
    let word = given.text("check")?;
    let ask = match word {
        "none" => None,
        "tcp" => Some(Ask::Tcp),
        "http" => Some(of_http()?),
        "icmp" => Some(Ask::Icmp),
        _ => return Err(given.wrong("check", word, "none, tcp, http or icmp")),
    };
    let interval = duration(given, "check_interval")?;
    let timeout = duration(given, "check_timeout")?;
    if timeout > interval {
        let why = "check_timeout= is longer than check_interval=".to_owned();
        return Err(Error::Together { kind: given.kind.name, why });
    }
    let source = given.one_of("check_source", "an address", |word| match word {
        "" => Some(None),
        word => word.parse().ok().map(Some),
    })?;
    let device = given.one_of("check_device", "an interface", |word| {
        // IFNAMSIZ, less the octet that ends it.
        (word.len() <= 15).then(|| word.to_owned())
    })?;
    let port = given.number("check_port", 1..=65_535)? as u16;
    let rise = given.number("check_rise", 1..=1000)? as u32;
    let fall = given.number("check_fall", 1..=1000)? as u32;
    Ok(ask.map(|ask| Check { ask, port, interval, timeout, rise, fall, source, device }))
}

/// `500ms`, `2s`, `1m`; a number alone is seconds.
fn duration(given: &Given<'_>, key: &'static str) -> Result<Duration, Error> {
    given.one_of(key, "a time from 10ms to 86400s: 500ms, 2s, 1m", |word| {
        let at = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (digits, unit) = word.split_at(at);
        let factor_ms = match unit {
            "ms" => 1,
            "s" | "" => 1000,
            "m" => 60_000,
            _ => return None,
        };
        let ms = digits.parse::<u64>().ok()?.checked_mul(factor_ms)?;
        let time = Duration::from_millis(ms);
        (Duration::from_millis(10)..=INTERVAL_MAX).contains(&time).then_some(time)
    })
}
