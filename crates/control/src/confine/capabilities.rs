//! Capabilities that the ports' kinds need, and a few that options do.

use crate::config::Config;
use caps::{CapSet, Capability, CapsHashSet};

/// Ports below this one are for who may bind them.
const PRIVILEGED: u16 = 1024;

/// What this configuration needs.
pub(super) fn wanted(config: &Config) -> CapsHashSet {
    let mut all: CapsHashSet = config
        .attachments()
        .flat_map(|attached| attached.kind().capabilities)
        .filter_map(|name| name.parse().ok())
        .collect();
    let metrics = config.metrics.iter().map(|metrics| metrics.address.port());
    let page = config.page.iter().map(|page| page.address.port());
    let listeners = config.channels().flat_map(|channel| &channel.listeners);
    let ports = metrics.chain(page).chain(listeners.filter_map(of_channel::Listen::port));
    let mut ports = ports.chain(config.p4_runtime.iter().map(|at| at.address.port()));
    if ports.any(|port| port != 0 && port < PRIVILEGED) {
        all.insert(Capability::CAP_NET_BIND_SERVICE);
    }
    // Where the kernel has no sockets for pings, raw ones are asked.
    if config.services.iter().any(|text| text.split_whitespace().any(|word| word == "check=icmp")) {
        all.insert(Capability::CAP_NET_RAW);
    }
    if config.ctl_groups != crate::doors::Groups::default() {
        all.insert(Capability::CAP_CHOWN);
    }
    all
}

/// Keeps those of them that the process has; in words, which.
pub(super) fn keep(wanted: &CapsHashSet) -> Result<String, String> {
    let failed = |e: caps::errors::CapsError| e.to_string();
    let has = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let kept: CapsHashSet = has.iter().copied().filter(|one| wanted.contains(one)).collect();
    // Without the right to, the bounding set stays: nothing can be gained of it without new privileges.
    if has.contains(&Capability::CAP_SETPCAP) {
        for one in caps::read(None, CapSet::Bounding).map_err(failed)? {
            if !kept.contains(&one) {
                caps::drop(None, CapSet::Bounding, one).map_err(failed)?;
            }
        }
    }
    caps::clear(None, CapSet::Ambient).map_err(failed)?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed)?;
    caps::set(None, CapSet::Inheritable, &kept).map_err(failed)?;
    // What takes over needs them, too.
    caps::set(None, CapSet::Ambient, &kept).map_err(failed)?;
    let mut names: Vec<String> = kept.iter().map(Capability::to_string).collect();
    names.sort();
    Ok(if names.is_empty() { "none".to_owned() } else { names.join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Options;
    use crate::port_kinds::KINDS;

    fn of(ports: &[&str], more: impl FnOnce(&mut Options)) -> Vec<String> {
        let ports = ports.iter().map(|&port| port.to_owned()).collect();
        let mut options = Options { ports, ..Options::default() };
        more(&mut options);
        let mut names: Vec<_> =
            wanted(&Config::new(options).unwrap()).iter().map(Capability::to_string).collect();
        names.sort();
        names
    }

    #[test]
    fn ports_and_addresses_say_what_is_needed() {
        assert!(of(&["memory:a", "pcap:rx=a"], |_| ()).is_empty());
        assert_eq!(of(&["memory:a", "tap:t"], |_| ()), ["CAP_NET_ADMIN"]);
        assert_eq!(of(&["af_packet:p"], |_| ()), ["CAP_NET_ADMIN", "CAP_NET_RAW"]);
        let low = |options: &mut Options| options.listeners = vec!["ptcp:653:127.0.0.1".into()];
        assert_eq!(of(&["memory:a"], low), ["CAP_NET_BIND_SERVICE"]);
        let pings =
            |options: &mut Options| options.services = vec!["lb balancer check=icmp".into()];
        assert_eq!(of(&["memory:a"], pings), ["CAP_NET_RAW"]);
        let group = |options: &mut Options| options.ctl_readers = Some("0".into());
        assert_eq!(of(&["memory:a"], group), ["CAP_CHOWN"]);
    }

    #[test]
    fn kinds_name_capabilities_as_the_system_does() {
        for kind in KINDS.iter() {
            for name in kind.capabilities {
                assert!(name.parse::<Capability>().is_ok(), "{kind:?}: {name}");
            }
        }
    }
}
