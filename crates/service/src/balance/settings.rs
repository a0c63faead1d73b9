//! Backends as settings have them: `backends=`, `health=` and `hosts=`.

use super::{Backends, Clash, Health, Member, NUMBERS_MAX};
use crate::catalogue::{Error, names};
use std::collections::HashMap;
use std::net::IpAddr;

/// Backends of a balancer: with more, shares of Maglev's table become coarse.
const BACKENDS_MAX: usize = 1000;

fn health(word: &str) -> Option<Health> {
    match word {
        "up" => Some(Health::Up),
        "draining" => Some(Health::Draining),
        "down" => Some(Health::Down),
        _ => None,
    }
}

/// Two backends of a list would have one number.
pub(crate) fn clashing(list: &str, clash: &Clash) -> Error {
    let Clash { number, of } = clash;
    let wanted = format!("a list in which each number is one backend's: {number} is {of}'s");
    Error::Value { kind: "balancer", key: "backends", value: list.to_string(), wanted }
}

/// `NAME[@NUMBER][:WEIGHT[:HEALTH]],...`
pub(crate) fn members(kind: &'static str, text: &str) -> Result<Vec<Member>, Error> {
    let wrong = |wanted: String| {
        Err(Error::Value { kind, key: "backends", value: text.to_string(), wanted })
    };
    let mut members: Vec<Member> = Vec::new();
    for word in text.split(',') {
        let mut parts = word.split(':');
        let name = parts.next().unwrap_or_default();
        let (name, number) = match name.rsplit_once('@') {
            Some((name, number)) => {
                let digits = number.bytes().all(|c| c.is_ascii_digit());
                let read = number.parse().ok().filter(|n| digits && (1..=NUMBERS_MAX).contains(n));
                let Some(number) = read else {
                    return wrong(format!(
                        "a list of backends at {word:?}: the number behind @ is from 1 to {NUMBERS_MAX}"
                    ));
                };
                (name, Some(number))
            }
            None => (name, None),
        };
        let weight = parts.next().map_or(Some(1), |weight| {
            weight.parse().ok().filter(|n| (0..=65_535).contains(n) && !weight.starts_with('+'))
        });
        let (Some(weight), Some(health), None, false) =
            (weight, parts.next().map_or(Some(Health::Up), health), parts.next(), name.is_empty())
        else {
            let form = "NAME, NAME:WEIGHT or NAME:WEIGHT:up|draining|down, separated by commas, \
                        each weight from 0 to 65535";
            return wrong(format!("a list of backends at {word:?}: {form}"));
        };
        if members.iter().any(|m| m.name == name) {
            return wrong(format!("a list in which each name is there once: {name:?} is not"));
        }
        members.push(Member { name: name.to_string(), weight, health, number });
    }
    if members.len() > BACKENDS_MAX {
        return wrong(format!("a list of {BACKENDS_MAX} backends at most"));
    }
    Ok(members)
}

/// `NAME=ADDRESS,...`
pub(crate) fn hosts(kind: &'static str, text: &str) -> Result<HashMap<String, IpAddr>, Error> {
    let mut all = HashMap::new();
    for word in text.split(',').filter(|_| !text.is_empty()) {
        let place = word.split_once('=');
        let place = place.and_then(|(name, host)| Some((name, host.parse().ok()?)));
        let known = place.is_some_and(|(name, _)| all.contains_key(name));
        let (Some((name, host)), false) = (place, known) else {
            let wanted = format!("NAME=ADDRESS, separated by commas, each name once, at {word:?}");
            return Err(Error::Value { kind, key: "hosts", value: text.to_owned(), wanted });
        };
        all.insert(name.to_owned(), host);
    }
    Ok(all)
}

/// Refuses backends of which a check would not know where they are, and places of nobody.
pub(crate) fn unknown_places(
    members: &[Member],
    hosts: &HashMap<String, IpAddr>,
    is_checked: bool,
) -> Result<(), Error> {
    let kind = "balancer";
    let is_known = |name: &str| hosts.contains_key(name) || name.parse::<IpAddr>().is_ok();
    if let Some(lost) = members.iter().find(|member| is_checked && !is_known(&member.name)) {
        let why = format!(
            "check= needs the address of {0}: hosts={0}=ADDRESS, or a name that is an address",
            lost.name
        );
        return Err(Error::Together { kind, why });
    }
    match hosts.keys().find(|name| !members.iter().any(|member| member.name == **name)) {
        None => Ok(()),
        Some(name) => {
            let why = format!("hosts= names {name}, and backends= does not");
            Err(Error::Together { kind, why })
        }
    }
}

/// `backends=`, `hosts=` and `health=NAME:HEALTH,...` of a balancer that runs: all of it, or, with an error, nothing.
pub(crate) fn set_backends(
    backends: &Backends,
    is_checked: bool,
    settings: &[(String, String)],
) -> Result<(), Error> {
    let kind = "balancer";
    let mut list = backends.list();
    let mut places = backends.hosts();
    let says_hosts = settings.iter().any(|(key, _)| key == "hosts");
    for (key, value) in settings {
        match key.as_str() {
            "backends" => list = members(kind, value)?,
            "hosts" => places = hosts(kind, value)?,
            "health" => {
                for word in value.split(',') {
                    let (name, state) = word.split_once(':').unwrap_or((word, ""));
                    let found = list.iter_mut().find(|member| member.name == name);
                    let (Some(member), Some(health)) = (found, health(state)) else {
                        let wanted = format!(
                            "NAME:up|draining|down, separated by commas, at {word:?}; the backends are {}",
                            names(list.iter().map(|m| m.name.as_str()))
                        );
                        return Err(Error::Value {
                            kind,
                            key: "health",
                            value: value.clone(),
                            wanted,
                        });
                    };
                    member.health = health;
                }
            }
            _ => {
                let allowed = "backends=, hosts= and health= can";
                return Err(Error::Running { kind, key: key.clone(), allowed });
            }
        }
    }
    let said = settings.iter().find(|(key, _)| key == "backends");
    if !says_hosts {
        places.retain(|name, _| list.iter().any(|member| member.name == *name));
    }
    unknown_places(&list, &places, is_checked)?;
    backends
        .set_with_hosts(list, places)
        .map_err(|clash| clashing(said.map_or("", |(_, list)| list), &clash))
}
