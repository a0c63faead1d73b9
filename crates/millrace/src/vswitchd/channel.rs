//! Controllers of the database: what the channel is told of them, and what is seen of them.

use control::bridges::Bridge;
use of_channel::{Config, FailMode, Listen, Own, Phase, Rate, Target, TlsFiles};
use openflow::{Role, Version, VersionSet};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use vswitch::desired::bridge::BridgeSettings;
use vswitch::desired::controller::ControllerSettings;
use vswitch::switch::ControllerView;

/// Open vSwitch connects and probes no more often, whatever is asked for.
const BACKOFF_MIN_MS: u64 = 1000;
const PROBE_MIN_MS: u64 = 5000;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What one controller is told by.
fn own(one: &ControllerSettings) -> Own {
    let bound = |number: u64| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
    Own {
        backoff_max: one.backoff_max_ms.map(|ms| Duration::from_millis(ms.max(BACKOFF_MIN_MS))),
        probe: one.probe_ms.map(|ms| match ms {
            // Never.
            0 => Duration::from_secs(u64::from(u32::MAX)),
            ms => Duration::from_millis(ms.max(PROBE_MIN_MS)),
        }),
        packet_in_rate: one
            .rate
            .map(|(per_second, burst)| Rate { per_second: bound(per_second), burst: bound(burst) }),
    }
}

/// What a bridge's channel is told, and controllers that cannot be.
pub(super) fn config(
    channel: &mut Config,
    settings: &BridgeSettings,
    controllers: &[ControllerSettings],
    run: &Path,
) -> Vec<String> {
    if !settings.protocols.is_empty() {
        let named = settings.protocols.iter().filter_map(|name| Version::from_name(name));
        channel.protocols = VersionSet::of(&named.collect::<Vec<_>>());
    }
    channel.fail_mode = if settings.secure { FailMode::Secure } else { FailMode::Standalone };
    channel.listeners.push(Listen::Unix(run.join(format!("{}.mgmt", settings.name))));
    channel.snoop = Some(run.join(format!("{}.snoop", settings.name)));
    channel.tls = settings.keys.as_ref().map(|keys| TlsFiles {
        private_key: keys.private_key.clone(),
        certificate: keys.certificate.clone(),
        ca_cert: Some(keys.authority.clone()),
        bootstrap: keys.bootstrap,
        crl: None,
    });
    let mut refused = Vec::new();
    for one in controllers {
        if one.is_tls() && channel.tls.is_none() {
            refused.push(format!("{}: it needs keys (ovs-vsctl set-ssl)", one.target));
            continue;
        }
        if let Ok(listen) = one.target.parse::<Listen>() {
            channel.own.insert(listen.to_string(), own(one));
            channel.listeners.push(listen);
            continue;
        }
        match one.target.parse::<Target>() {
            Ok(target) => {
                channel.own.insert(target.to_string(), own(one));
                channel.controllers.push(target);
            }
            Err(error) => refused.push(text(error)),
        }
    }
    refused
}

/// A bridge's controllers as they are, by target.
pub(super) fn views(
    bridge: &Bridge,
    told: &[ControllerSettings],
) -> BTreeMap<String, ControllerView> {
    let states = bridge.controller_states();
    let contacts = bridge.openflow().map(|openflow| openflow.contacts()).unwrap_or_default();
    let now = Instant::now();
    let view = |one: &ControllerSettings| {
        let target = one.target.parse::<Target>().ok().map(|one| one.to_string());
        let state = states.iter().find(|state| Some(&state.target) == target.as_ref());
        let connected = state.is_some_and(|state| state.connected);
        let role = state.and_then(|state| state.role).map(|role| match role {
            Role::Master => "master",
            Role::Slave => "slave",
            Role::Equal | Role::NoChange => "other",
        });
        let mut status = BTreeMap::new();
        // Of those who come to us Open vSwitch tells nothing.
        if let Some(target) = target {
            let contact = contacts.get(&target).cloned().unwrap_or_default();
            let phase = if connected { Phase::Active } else { contact.phase };
            status.insert("state", phase.word().to_owned());
            if let Some(error) = contact.last_error {
                status.insert("last_error", error);
            }
            let mut since = |key, at: Option<Instant>| {
                if let Some(at) = at {
                    let seconds = now.saturating_duration_since(at).as_secs();
                    status.insert(key, seconds.to_string());
                }
            };
            since("sec_since_connect", contact.connected);
            since("sec_since_disconnect", contact.disconnected);
        }
        (one.target.clone(), ControllerView { connected, role, status })
    };
    told.iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(target: &str) -> ControllerSettings {
        ControllerSettings { target: target.to_owned(), ..ControllerSettings::default() }
    }

    #[test]
    fn each_controller_is_told_its_own_settings() {
        let mut channel = Config::default();
        let all = [
            ControllerSettings { probe_ms: Some(0), ..controller("tcp:10.0.0.1") },
            ControllerSettings {
                backoff_max_ms: Some(60_000),
                rate: Some((100, 25)),
                ..controller("tcp:10.0.0.2:6633")
            },
            ControllerSettings { rate: Some((7, 0)), ..controller("ptcp:6640") },
        ];
        let refused = config(&mut channel, &BridgeSettings::default(), &all, Path::new("/run"));
        assert_eq!(refused, Vec::<String>::new());
        let own = |name: &str| channel.own[name];
        assert!(own("tcp:10.0.0.1:6653").probe.unwrap() > Duration::from_secs(1 << 31));
        let second = own("tcp:10.0.0.2:6633");
        assert_eq!(second.backoff_max, Some(Duration::from_secs(60)));
        assert_eq!(second.packet_in_rate, Some(Rate { per_second: 100, burst: 25 }));
        assert_eq!(own("ptcp:6640").packet_in_rate, Some(Rate { per_second: 7, burst: 1 }));
        assert_eq!((channel.controllers.len(), channel.listeners.len()), (2, 2));
    }

    #[test]
    fn tls_without_keys_is_refused_and_the_others_are_not() {
        let mut channel = Config::default();
        let all = [controller("ssl:10.0.0.1"), controller("tcp:10.0.0.2"), controller("what")];
        let refused = config(&mut channel, &BridgeSettings::default(), &all, Path::new("/run"));
        assert_eq!(refused.len(), 2);
        assert!(refused[0].contains("ovs-vsctl set-ssl"), "{refused:?}");
        assert_eq!(channel.controllers.len(), 1);
    }
}
