//! `dpctl/*`: the connection tracker, and what there is of a datapath.

use super::command::{Answer, Command, Context, bridges};
use super::dpif;
use std::fmt::Write as _;

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "dpctl/dump-dps", usage: "", min: 0, max: 0, run: dump_dps },
    Command { name: "dpctl/show", usage: "[-s] [dp...]", min: 0, max: usize::MAX, run: show },
    Command {
        name: "dpctl/dump-flows",
        usage: "[-m] [--names] [dp]",
        min: 0,
        max: usize::MAX,
        run: |_, _| Ok(dpif::NO_CACHE.to_owned()),
    },
    Command {
        name: "dpctl/dump-conntrack",
        usage: "[-m] [-s] [dp] [zone=N]",
        min: 0,
        max: 4,
        run: dump,
    },
    Command {
        name: "dpctl/flush-conntrack",
        usage: "[dp] [zone=N] [mark=X[/M]] [labels=Y[/N]] [ct-orig-tuple [ct-reply-tuple]]",
        min: 0,
        max: 6,
        run: flush,
    },
    Command {
        name: "dpctl/ct-stats-show",
        usage: "[dp] [zone=N]",
        min: 0,
        max: 3,
        run: statistics,
    },
    Command { name: "dpctl/ct-get-nconns", usage: "[dp]", min: 0, max: 1, run: count },
    Command { name: "dpctl/ct-get-maxconns", usage: "[dp]", min: 0, max: 1, run: most },
    Command {
        name: "dpctl/ct-get-limits",
        usage: "[dp] [zone=N1[,N2]...]",
        min: 0,
        max: 2,
        run: limits,
    },
    Command {
        name: "dpctl/ct-set-limits",
        usage: "[dp] [default=L] [zone=N,limit=L]...",
        min: 1,
        max: usize::MAX,
        run: set_limits,
    },
    Command {
        name: "dpctl/ct-del-limits",
        usage: "[dp] [default] [zone=N1[,N2]...]",
        min: 1,
        max: 3,
        run: clear_limits,
    },
];

/// What the words say: a zone, and what is left.
struct Words<'a> {
    zone: Option<u16>,
    rest: Vec<&'a str>,
}

/// A datapath's name says nothing: there is one. Options say how much is shown, which is everything.
fn words(words: &[String]) -> Result<Words<'_>, String> {
    let mut found = Words { zone: None, rest: Vec::new() };
    for word in words {
        match word.split_once('=') {
            Some(("zone", zone)) => {
                found.zone = Some(zone.parse().map_err(|_| format!("invalid zone {zone}"))?);
            }
            _ if word == "-m" || word == "-s" || word.contains('@') => {}
            _ => found.rest.push(word),
        }
    }
    Ok(found)
}

/// Words, none left over.
fn only_zone(all: &[String]) -> Result<Option<u16>, String> {
    let Words { zone, rest } = words(all)?;
    match rest.first() {
        None => Ok(zone),
        Some(other) => Err(format!("{other}: zone=N or the datapath's name was expected")),
    }
}

fn dump_dps(context: &Context, _: &[String]) -> Answer {
    let any = !bridges(context).is_empty();
    Ok(if any { "netdev@millrace\n".to_owned() } else { String::new() })
}

fn show(context: &Context, _: &[String]) -> Answer {
    let mut out = "netdev@millrace:\n".to_owned();
    // Writing to a string does not fail.
    let _ = writeln!(out, "  lookups: hit:0 missed:{} lost:0", context.switch.looked_up());
    out += "  flows: 0\n";
    for bridge in bridges(context) {
        for port in context.switch.ports(&bridge).into_iter().filter(|port| !port.kind_is_patch) {
            let kind = match port.kind.as_str() {
                "system" => String::new(),
                "internal" => " (tap)".to_owned(),
                kind => format!(" ({kind})"),
            };
            let _ = writeln!(out, "  port {}: {}{kind}", port.below, port.name);
        }
    }
    Ok(out)
}

fn dump(context: &Context, all: &[String]) -> Answer {
    let lines = context.switch.connections().lines(only_zone(all)?);
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

fn flush(context: &Context, all: &[String]) -> Answer {
    // A datapath's name has an `@` and is no condition.
    let named = usize::from(all.first().is_some_and(|word| word.contains('@')));
    let words: Vec<&str> = all[named..].iter().map(String::as_str).collect();
    context.switch.connections().flush(&words)?;
    Ok(String::new())
}

fn statistics(context: &Context, all: &[String]) -> Answer {
    let by_protocol = context.switch.connections().by_protocol(only_zone(all)?);
    let total: u64 = by_protocol.values().sum();
    let mut out = format!("Connections Stats:\n    Total: {total}\n");
    for (protocol, count) in by_protocol {
        let _ = writeln!(out, "    {protocol}: {count}");
    }
    Ok(out)
}

fn count(context: &Context, _: &[String]) -> Answer {
    let total: u64 = context.switch.connections().by_protocol(None).values().sum();
    Ok(format!("{total}\n"))
}

fn most(context: &Context, _: &[String]) -> Answer {
    Ok(format!("{}\n", context.switch.connections().most()))
}

fn zones(text: &str) -> Result<Vec<u16>, String> {
    let zone = |zone: &str| zone.parse().map_err(|_| format!("invalid zone {zone}"));
    text.split(',').map(zone).collect()
}

fn limits(context: &Context, all: &[String]) -> Answer {
    let found = context.switch.connections().limits()?;
    let mut wanted = None;
    for word in all.iter().filter(|word| !word.contains('@')) {
        match word.strip_prefix("zone=") {
            Some(list) => wanted = Some(zones(list)?),
            None => return Err(format!("{word}: zone=N was expected")),
        }
    }
    let mut out = format!("default limit={}\n", found.default);
    let own = |zone: u16| found.zones.iter().find(|(of, ..)| *of == zone);
    let shown = match wanted {
        None => found.zones.clone(),
        // One without a limit of its own has the default.
        Some(wanted) => {
            let by_protocol = |zone| context.switch.connections().by_protocol(Some(zone));
            let of = |zone: u16| (zone, found.default, by_protocol(zone).values().sum());
            wanted.into_iter().map(|zone| own(zone).copied().unwrap_or_else(|| of(zone))).collect()
        }
    };
    for (zone, limit, count) in shown {
        // Writing to a string does not fail.
        let _ = writeln!(out, "zone={zone},limit={limit},count={count}");
    }
    Ok(out)
}

fn set_limits(context: &Context, all: &[String]) -> Answer {
    let (mut default, mut of_zones) = (None, Vec::new());
    for word in all.iter().filter(|word| !word.contains('@')) {
        let wrong = || format!("{word}: default=L or zone=N,limit=L was expected");
        if let Some(limit) = word.strip_prefix("default=") {
            default = Some(limit.parse().map_err(|_| wrong())?);
            continue;
        }
        let (zone, limit) = word
            .strip_prefix("zone=")
            .and_then(|rest| rest.split_once(",limit="))
            .ok_or_else(wrong)?;
        of_zones.push((zone.parse().map_err(|_| wrong())?, limit.parse().map_err(|_| wrong())?));
    }
    context.switch.connections().set_limits(default, &of_zones)?;
    Ok(String::new())
}

fn clear_limits(context: &Context, all: &[String]) -> Answer {
    let (mut default, mut of_zones) = (false, Vec::new());
    for word in all.iter().filter(|word| !word.contains('@')) {
        match word.strip_prefix("zone=") {
            Some(list) => of_zones.extend(zones(list)?),
            None if word == "default" => default = true,
            None => return Err(format!("{word}: default or zone=N1[,N2]... was expected")),
        }
    }
    context.switch.connections().clear_limits(default, &of_zones)?;
    Ok(String::new())
}
