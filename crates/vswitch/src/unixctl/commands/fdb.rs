//! `fdb/*`: the addresses that NORMAL has learnt.

use super::command::{Answer, Command, Context, known};
use crate::switch::{LOCAL, Mac};
use std::fmt::Write as _;

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "fdb/show", usage: "bridge", min: 1, max: 1, run: show },
    Command { name: "fdb/flush", usage: "[bridge]", min: 0, max: 1, run: flush },
    Command { name: "fdb/add", usage: "bridge port vlan mac", min: 4, max: 4, run: add },
    Command { name: "fdb/del", usage: "bridge vlan mac", min: 3, max: 3, run: del },
    Command { name: "fdb/stats-show", usage: "bridge", min: 1, max: 1, run: statistics },
];

fn show(context: &Context, words: &[String]) -> Answer {
    let mut out = " port  VLAN  MAC                Age\n".to_owned();
    // As Open vSwitch has it: who was not heard of for longest comes first.
    for station in context.switch.stations(known(context, &words[0])?)? {
        let port = match station.port {
            LOCAL => "LOCAL".to_owned(),
            port => port.to_string(),
        };
        let age = station.age_s.map_or_else(|| "static".to_owned(), |age| format!("{age:3}"));
        // Writing to a string does not fail.
        let _ = writeln!(out, "{port:>5}  {:4}  {}  {age}", station.vlan, station.mac);
    }
    Ok(out)
}

fn flush(context: &Context, words: &[String]) -> Answer {
    match words.first() {
        Some(bridge) => context.switch.flush_stations(Some(known(context, bridge)?))?,
        None => context.switch.flush_stations(None)?,
    }
    Ok("table successfully flushed".to_owned())
}

fn vlan(text: &str) -> Result<u16, String> {
    let vlan = text.parse().ok().filter(|vlan| *vlan < 4096);
    vlan.ok_or_else(|| format!("invalid vlan {text}: 0 to 4095 was expected"))
}

fn mac(text: &str) -> Result<Mac, String> {
    text.parse().map_err(|_| "bad MAC address".to_owned())
}

fn add(context: &Context, words: &[String]) -> Answer {
    let bridge = known(context, &words[0])?;
    let (port, vlan, mac) = (&words[1], vlan(&words[2])?, mac(&words[3])?);
    let before = context.switch.stations(bridge)?;
    let before = before.into_iter().find(|station| (station.vlan, station.mac) == (vlan, mac));
    context.switch.add_station(bridge, port, vlan, mac)?;
    let Some(before) = before else { return Ok(String::new()) };
    let ports = context.switch.ports(bridge);
    let same = ports.iter().any(|one| one.number == before.port && one.name == *port);
    let (kind, at) = match before.age_s {
        None if same => return Ok(String::new()),
        None => ("static", before.port),
        Some(_) => ("dynamic", before.port),
    };
    let at = if at == LOCAL { "LOCAL".to_owned() } else { at.to_string() };
    Ok(format!("Overriding already existing {kind} entry on {at}\n"))
}

fn del(context: &Context, words: &[String]) -> Answer {
    let bridge = known(context, &words[0])?;
    match context.switch.remove_station(bridge, vlan(&words[1])?, mac(&words[2])?)? {
        true => Ok(String::new()),
        false => Err("could not find static mac entry".to_owned()),
    }
}

fn statistics(context: &Context, words: &[String]) -> Answer {
    let bridge = known(context, &words[0])?;
    let view = context.switch.bridge(bridge).ok_or("no such bridge")?;
    let (now, most) = view.stations;
    let fixed = context.switch.stations(bridge)?;
    let fixed = fixed.iter().filter(|station| station.age_s.is_none()).count();
    Ok(format!(
        "Statistics for bridge \"{bridge}\":\n  \
         Current/maximum MAC entries in the table: {now}/{most}\n  \
         Current static MAC entries in the table : {fixed}\n"
    ))
}
