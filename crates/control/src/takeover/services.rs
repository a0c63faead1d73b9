//! What services keep, handed over: connections, flows with their backends, counters; what is known of backends.
//!
//! In: the services of a switch that has stopped. Out: one line of JSON, which says what follows, then images one behind
//! another. A service's image goes to the service of the same name and kind in the new process; of a group, the first's.
//!
//! What people and checks have said of a backend goes to the backend of the same name, unless the new process's settings have it
//! draining or down: they are newer. A drain goes on with the time that it has left.
//!
//! Cost: one slice, since packets have stopped. 100,000 connections take some 10 MB.
//! Checked by: the tests below; millrace's `tests/take_over.rs`, with processes.

use crate::program::services::owners;
use datapath::services::elements::Named;
use serde::{Deserialize, Serialize};
use service::balance::Health;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use switch::Switch;

/// The line before the images.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    services: Vec<One>,
    /// What was answered for addresses of services, by their names.
    answered: BTreeMap<String, Vec<(String, u64)>>,
}

/// A service.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct One {
    name: String,
    kind: String,
    /// Octets of its image.
    len: usize,
    backends: Vec<Backend>,
}

/// What is known of a backend.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Backend {
    name: String,
    /// As people have it: `up`, `draining` or `down`.
    set: String,
    /// What is left of its drain.
    drain_ms: Option<u64>,
    /// What checks have found.
    found: Option<Found>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Found {
    alive: bool,
    since_ms: u64,
    checks: u64,
    failures: u64,
    latency_ns: Option<u64>,
    error: Option<String>,
}

fn elements(switch: &Switch) -> Vec<Arc<Named>> {
    switch.services().elements().map(|elements| elements.list()).unwrap_or_default()
}

/// Writes what the services of a switch keep, which has stopped.
pub(super) fn give(switch: &Switch, taken_at: u64, out: &mut dyn Write) -> std::io::Result<()> {
    let (mut head, mut images) = (Head::default(), Vec::new());
    let now_ns = switch.now_ns();
    for named in owners(switch) {
        let Some(image) = named.export(now_ns, taken_at) else { continue };
        head.services.push(One {
            name: named.name.clone(),
            kind: named.kind.clone(),
            len: image.len(),
            backends: backends(&named, now_ns),
        });
        images.push(image);
    }
    for named in elements(switch) {
        if let Some(answered) = named.answered() {
            let counts = answered.read().map(|(name, n)| (name.to_owned(), n));
            head.answered.insert(named.name.clone(), counts.into());
        }
    }
    let line = serde_json::to_string(&head).map_err(std::io::Error::other)?;
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    images.iter().try_for_each(|image| out.write_all(image))
}

fn backends(named: &Named, now_ns: u64) -> Vec<Backend> {
    let Some(spread) = named.spread() else { return Vec::new() };
    let ms = |ns: u64| ns / 1_000_000;
    let told = |status: service::balance::Status| Backend {
        set: match status.member.health {
            Health::Up => "up",
            Health::Draining => "draining",
            Health::Down => "down",
        }
        .to_owned(),
        name: status.member.name,
        drain_ms: status.drain_until_ns.map(|until| ms(until.saturating_sub(now_ns))),
        found: status.found.map(|found| Found {
            alive: found.alive,
            since_ms: ms(now_ns.saturating_sub(found.since_ns)),
            checks: found.checks,
            failures: found.failures,
            latency_ns: found.latency_ns,
            error: found.error,
        }),
    };
    spread.backends().status().into_iter().map(told).collect()
}

/// Goes on with what another process's services have kept. What does not fit is told, and left: packets wait.
pub(super) fn take(switch: &Switch, bytes: &[u8]) -> Result<(), String> {
    let end = bytes.iter().position(|octet| *octet == b'\n').ok_or("the first line has no end")?;
    let (line, mut rest) = (&bytes[..end], &bytes[end + 1..]);
    let head: Head = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let here = elements(switch);
    for named in &here {
        if let (Some(own), Some(counted)) = (named.answered(), head.answered.get(&named.name)) {
            own.add(counted);
        }
    }
    for One { name, kind, len, backends } in head.services {
        let Some((image, others)) = rest.split_at_checked(len) else {
            return Err(format!("the image of {name} is cut short"));
        };
        rest = others;
        let found = here.iter().find(|named| named.name == name && named.kind == kind);
        let Some(named) = found else {
            tracing::warn!(service = name, kind, "no such service here: what it kept is left");
            continue;
        };
        let now_ns = switch.now_ns();
        adopt(named, now_ns, backends);
        match named.import(now_ns, image.to_vec()) {
            Ok(kept) => tracing::info!(service = name, kept, "a service goes on"),
            Err(error) => tracing::warn!(service = name, error, "what the service kept is left"),
        }
    }
    Ok(())
}

/// Backends go on as they were.
fn adopt(named: &Named, now_ns: u64, before: Vec<Backend>) {
    let Some(spread) = named.spread() else { return };
    let here = spread.backends();
    let ns = |ms: u64| ms.saturating_mul(1_000_000);
    for Backend { name, set, drain_ms, found } in before {
        let list = here.list();
        let Some(member) = list.iter().find(|member| member.name == name) else { continue };
        match (member.health, &*set) {
            (Health::Up, "draining") => {
                let until = drain_ms.map(|ms| now_ns.saturating_add(ns(ms)));
                // It is there: it was found just now.
                let _ = here.drain(&name, until);
            }
            (Health::Up, "down") => {
                here.set_health(&name, Health::Down);
            }
            _ => {}
        }
        if let (Some(found), true) = (found, spread.check().is_some()) {
            let Found { alive, since_ms, checks, failures, latency_ns, error } = found;
            let since_ns = now_ns.saturating_sub(ns(since_ms));
            let found = service::balance::check::Found::known(
                (alive, since_ns),
                (checks, failures),
                (latency_ns, error),
                now_ns,
            );
            here.adopt_found(&name, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::services::add;
    use crate::program::tables;

    fn bed(backends: &str) -> Switch {
        let switch = tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let check = "hosts=a=127.0.0.1,b=127.0.0.2,c=127.0.0.3 check=tcp all_down=refuse";
        add(&switch, &words(&format!("lb balancer backends={backends} {check}"))).unwrap();
        add(&switch, &words("out nat direction=out addresses=192.0.2.1 group=home")).unwrap();
        add(&switch, &words("in nat direction=in addresses=192.0.2.1 group=home")).unwrap();
        add(&switch, &words("count counter")).unwrap();
        let answer = "answer=10.0.0.9@02:00:00:00:00:09";
        add(&switch, &words(&format!("web balancer backends=a {answer}"))).unwrap();
        switch
    }

    fn lb(switch: &Switch) -> Arc<Named> {
        owners(switch).into_iter().find(|named| named.name == "lb").unwrap()
    }

    fn handed(switch: &Switch) -> Vec<u8> {
        let mut out = Vec::new();
        give(switch, 0, &mut out).unwrap();
        out
    }

    #[test]
    fn drains_and_what_checks_have_found_go_over() {
        let old = bed("a,b,c");
        let (now, named) = (old.now_ns(), lb(&old));
        let spread = named.spread().unwrap();
        let check = spread.check().unwrap();
        spread.backends().drain("a", Some(now + 60_000_000_000)).unwrap();
        assert_eq!(spread.backends().due(check, now).len(), 3);
        spread.backends().told("b", check, now, Err("refused".to_owned()));
        spread.backends().told("c", check, now, Ok(5000));
        let new = bed("a,b,c:1:draining");
        take(&new, &handed(&old)).unwrap();
        let named = lb(&new);
        let status = named.spread().unwrap().backends().status();
        let takes: Vec<_> = status.iter().map(|one| one.takes).collect();
        assert_eq!(takes, [Health::Draining, Health::Down, Health::Draining]);
        let left = status[0].drain_until_ns.unwrap() - new.now_ns();
        assert!((50_000_000_000..=60_000_000_000).contains(&left), "{left}");
        let found = status[1].found.as_ref().unwrap();
        assert_eq!(
            (found.alive, found.error.as_deref(), found.failures),
            (false, Some("refused"), 1)
        );
        // It is asked at once, and one answer alone does not bring it back.
        assert_eq!(named.spread().unwrap().backends().due(check, new.now_ns()).len(), 3);
        named.spread().unwrap().backends().told("b", check, new.now_ns(), Ok(1));
        assert_eq!(named.spread().unwrap().backends().status()[1].takes, Health::Down);
    }

    #[test]
    fn answers_go_on_counting() {
        let (old, new) = (bed("a,b,c"), bed("a,b,c"));
        let count = |switch: &Switch| {
            let web = elements(switch).into_iter().find(|named| named.name == "web").unwrap();
            web.answered().unwrap().read()[0]
        };
        let web = elements(&old).into_iter().find(|named| named.name == "web").unwrap();
        web.answered().unwrap().add(&[("arp_answered".to_owned(), 7)]);
        take(&new, &handed(&old)).unwrap();
        assert_eq!(count(&new), ("arp_answered", 7));
    }

    #[test]
    fn what_is_cut_short_is_refused_and_what_is_not_there_is_left() {
        let old = bed("a,b,c");
        let all = handed(&old);
        let new = bed("a,b,c");
        assert_eq!(take(&new, &all), Ok(()));
        for at in [0, 5, all.len() - 1] {
            assert!(take(&new, &all[..at]).is_err(), "{at}");
        }
        let empty = tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
        assert_eq!(take(&empty, &all), Ok(()));
    }
}
