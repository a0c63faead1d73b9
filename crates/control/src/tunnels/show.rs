//! What is known of tunnels and the network below them, in the words of Open vSwitch (`ovs/route/show`, `tnl/neigh/show`,
//! `tnl/ports/show`), and what was refused.

use super::Kernel;
use port::kind::Environment;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use tunnel::hub::Hub;

/// The answer to a command of a family (`route`, `tnl`) by its words.
///
/// # Errors
/// A sentence: what is not known, or is not asked so.
pub fn answer(environment: &Environment, family: &str, words: &[&str]) -> Result<String, String> {
    let network = || {
        let kernel = environment.get::<Arc<Kernel>>().ok_or("this process has no tunnels")?;
        kernel.network().ok_or("the kernel tells no routes")
    };
    match (family, words) {
        ("route", ["show", ..]) => {
            let head = underlay::show::ROUTES_HEAD.to_owned();
            Ok(network()?.routes().iter().fold(head, |all, line| format!("{all}{line}\n")))
        }
        ("route", ["lookup", to, rest @ ..]) => {
            let mark = match rest.first() {
                None => 0,
                Some(word) => {
                    let number = word.strip_prefix("pkt_mark=").and_then(|mark| {
                        match mark.strip_prefix("0x") {
                            Some(digits) => u32::from_str_radix(digits, 16).ok(),
                            None => mark.parse().ok(),
                        }
                    });
                    number.ok_or_else(|| format!("{word} is no pkt_mark=N"))?
                }
            };
            let to: IpAddr =
                to.parse().map_err(|_| format!("{to} is no address like 10.0.0.1 or fd00::1"))?;
            let next = network()?.resolve(to, None, mark).map_err(|error| error.to_string())?;
            let mut text = format!("src {}\n", next.source);
            if next.gateway != to {
                let _ = writeln!(text, "gateway {}", next.gateway);
            }
            let device = network()?.look(|state| {
                let name = |link: &underlay::state::Link| link.name.clone();
                state.links().find(|link| link.index == next.device).map(name)
            });
            let _ = writeln!(text, "dev {}", device.unwrap_or_else(|| next.device.to_string()));
            Ok(text)
        }
        ("tnl", ["neigh", ..]) => {
            let head = underlay::show::NEIGHBOURS_HEAD.to_owned();
            Ok(network()?.neighbours().iter().fold(head, |all, line| format!("{all}{line}\n")))
        }
        ("tnl", ["ports", ..]) => {
            let hub = environment.get::<Hub>().ok_or("this process has no tunnels")?;
            let mut text = "Listening ports:\n".to_owned();
            let mut seen = Vec::new();
            for (_, config) in hub.ports() {
                let line = match config.kind.udp_port() {
                    Some(_) => {
                        format!("{}_sys_{} ({})", config.kind, config.dst_port, config.dst_port)
                    }
                    None => format!("{}_sys (0)", config.kind),
                };
                if !seen.contains(&line) {
                    let _ = writeln!(text, "{line}");
                    seen.push(line);
                }
            }
            Ok(text)
        }
        ("tnl", ["list"]) => {
            let hub = environment.get::<Hub>().ok_or("this process has no tunnels")?;
            let line = |(name, config): &(String, tunnel::Config)| {
                format!("{name} ({}: {config})\n", config.kind)
            };
            Ok(hub.ports().iter().map(line).collect())
        }
        ("tnl", ["refusals"]) => {
            let hub = environment.get::<Hub>().ok_or("this process has no tunnels")?;
            let line = |refusal: &tunnel::hub::Refusal| {
                let way = if refusal.sending { "sent" } else { "received" };
                let port = refusal.port.as_deref().unwrap_or("no port");
                format!("{port}: {} not {way}: {}\n", refusal.count, refusal.reason)
            };
            Ok(hub.refusals().iter().map(line).collect())
        }
        _ => Err(format!("{family} {}: there is no such question", words.join(" "))),
    }
}

/// Frames that tunnels have refused, by direction and reason, in all: `tunnel_rx_...` and `tunnel_tx_...`.
pub fn refused(environment: &Environment) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    let refusals = environment.get::<Hub>().map(Hub::refusals).unwrap_or_default();
    for refusal in refusals {
        let way = if refusal.sending { "tx" } else { "rx" };
        let name = format!("tunnel_{way}_{}", refusal.reason.name());
        *sums.entry(name).or_default() += refusal.count;
    }
    sums
}
