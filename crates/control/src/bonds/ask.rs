//! `bond/*` and `lacp/*` of `ovs-appctl`, in Open vSwitch's words.

use super::state::Running;
use crate::bridges::Bridges;
use bond::SLOTS;
use bond::bond::Command;
use bond::settings::address;
use of_pipeline::vlans::bonds::slot_of_source;

/// The answer to a command of a family, `bond` or `lacp`.
pub fn ask(bridges: &Bridges, family: &str, words: &[&str]) -> Result<String, String> {
    match (family, words) {
        ("bond", ["list"]) => {
            let lines = texts(bridges, |one, _| one.bond.is_bonded().then(|| one.bond.line()));
            Ok(bond::show::LIST.to_owned()
                + &lines.into_iter().map(|(_, line)| line).collect::<String>())
        }
        ("bond", ["show", of @ ..]) => {
            let show = |one: &Running, now| one.bond.is_bonded().then(|| one.bond.show(now));
            one_or_all(bridges, of, "no such bond", show)
        }
        ("lacp", ["show", of @ ..]) => {
            one_or_all(bridges, of, "no such lacp object", |one, _| one.bond.show_lacp())
        }
        ("lacp", ["show-stats", of @ ..]) => {
            one_or_all(bridges, of, "no such lacp object", |one, _| one.bond.show_lacp_stats())
        }
        ("bond", ["migrate", bond, hash, member]) => {
            command(bridges, bond, Command::Migrate { hash, member })
        }
        ("bond", ["set-active-member", bond, member]) => {
            command(bridges, bond, Command::SetActive(member))
        }
        ("bond", ["enable-member", bond, member]) => {
            command(bridges, bond, Command::Enable(member))
        }
        ("bond", ["disable-member", bond, member]) => {
            command(bridges, bond, Command::Disable(member))
        }
        ("bond", ["hash", mac, rest @ ..]) => hash(mac, rest),
        _ => Err(format!("{family}: there is no such command")),
    }
}

fn hash(mac: &str, rest: &[&str]) -> Result<String, String> {
    let vlan = match rest.first() {
        Some(vlan) => vlan.parse().map_err(|_| "invalid vlan".to_owned())?,
        None => 0,
    };
    let basis = match rest.get(1) {
        Some(basis) => basis.parse().map_err(|_| "invalid basis".to_owned())?,
        None => 0,
    };
    let mac = address(mac).ok_or_else(|| "invalid mac".to_owned())?;
    Ok(slot_of_source(mac, vlan, basis, SLOTS).to_string())
}

/// What is said of each bond that something is said of, by its name.
fn texts(
    bridges: &Bridges,
    text: impl Fn(&Running, u64) -> Option<String>,
) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for bridge in bridges.all() {
        let now_ms = bridge.switch().now_ns() / 1_000_000;
        let state = bridge.bonds.state();
        let one = |one: &Running| Some((one.bond.name.clone(), text(one, now_ms)?));
        texts.extend(state.all.iter().filter_map(one));
    }
    texts.sort();
    texts
}

fn one_or_all(
    bridges: &Bridges,
    of: &[&str],
    missing: &str,
    text: impl Fn(&Running, u64) -> Option<String>,
) -> Result<String, String> {
    let mut texts = texts(bridges, text);
    if let Some(name) = of.first() {
        texts.retain(|(of, _)| of == name);
        if texts.is_empty() {
            return Err(missing.to_owned());
        }
    }
    Ok(texts.into_iter().map(|(_, text)| text).collect())
}

fn command(bridges: &Bridges, bond: &str, command: Command<'_>) -> Result<String, String> {
    let all = bridges.all();
    let has = |bridge: &&std::sync::Arc<crate::bridges::Bridge>| {
        bridge.bonds.state().all.iter().any(|one| one.bond.name == bond)
    };
    let bridge = all.iter().find(has).ok_or_else(|| "no such bond".to_owned())?;
    bridge.bonds.command(bond, command)
}
