//! What a configuration comes to as a whole: settings of the process, and bridges with their ports.

use super::diff::{BridgeSetup, Setup};
use super::{Config, Options};
use crate::failure::Failure;
use crate::ports::Ports;
use crate::program::entries::Entries;
use std::collections::BTreeMap;

impl Setup {
    /// Reads options and the file that they name, and checks all that can be known without opening anything.
    pub fn read(options: Options) -> Result<Setup, Failure> {
        let config = Config::new(options)?;
        config.setup(&Ports::plan(&config)?)
    }
}

impl Config {
    /// The same, with ports whose numbers are settled.
    pub(crate) fn setup(&self, ports: &Ports) -> Result<Setup, Failure> {
        let p4 = self.p4_lines.clone();
        let (bridge, entries) = (self.bridge(), Entries { p4, ..self.inline.clone() });
        let first = BridgeSetup { bridge, ports: ports.configs(), entries };
        let others = self.bridges.iter().cloned();
        let bridges = std::iter::once(first).chain(others).collect();
        let setup = Setup { process: self.process(), bridges };
        setup.check().map_err(Failure::bad)?;
        Ok(setup)
    }

    /// What the process has from its start on. Egress queues and services change at run time by verbs of their own.
    fn process(&self) -> BTreeMap<&'static str, String> {
        // In full, so that a setting that is added is told apart.
        let Config {
            // Said by the others.
            given: _,
            fleet: _,
            // Of bridges and ports.
            ports: _,
            channel: _,
            datapath_id: _,
            bridge_name: _,
            bridges: _,
            vlans: _,
            mirrors: _,
            learning: _,
            bonds: _,
            inline: _,
            p4_lines: _,
            rx_workers: _,
            rx_rates: _,
            flows,
            groups,
            meters,
            synchronised,
            p4,
            entries,
            p4_runtime,
            gnmi,
            metrics,
            otlp,
            page,
            workers,
            cpus,
            queues,
            tracking,
            state,
            take_over,
            services,
            poll,
            dpdk,
            ctl,
            flows_max,
            log_changes,
            ctl_groups,
            replication,
            confine,
            confine_paths,
            state_interval,
            persist,
            watchdog,
            punt_rate,
            engine,
            validate,
        } = self;
        BTreeMap::from([
            ("--flows", format!("{flows:?}")),
            ("--groups", format!("{groups:?}")),
            ("--meters", format!("{meters:?}")),
            ("--synchronise", format!("{synchronised:?}")),
            ("--p4", format!("{p4:?}")),
            ("--entries", format!("{entries:?}")),
            ("--p4runtime", format!("{p4_runtime:?}")),
            ("--gnmi", format!("{gnmi:?}")),
            ("--metrics", format!("{metrics:?}")),
            ("--otlp", format!("{otlp:?}")),
            ("--http", format!("{page:?}")),
            ("--workers", format!("{workers:?}")),
            ("--cpus", format!("{cpus:?}")),
            ("--queue", format!("{queues:?}")),
            ("--connections", format!("{:?}", tracking.connections)),
            ("--ct-accounting", format!("{:?}", tracking.accounting)),
            ("--state", format!("{state:?}")),
            ("--take-over", format!("{take_over:?}")),
            ("--service", format!("{services:?}")),
            ("--poll", format!("{poll:?}")),
            ("--eal", format!("{:?}", dpdk.eal)),
            ("--mbufs", format!("{:?}", dpdk.mbufs)),
            ("--ctl", format!("{ctl:?}")),
            ("--flows-max", format!("{flows_max:?}")),
            ("--log-changes", format!("{log_changes:?}")),
            ("--ctl-group, --ctl-operators or --ctl-readers", format!("{ctl_groups:?}")),
            ("--replication", format!("{replication:?}")),
            ("--confine", format!("{confine:?} {confine_paths:?}")),
            ("--state-interval", format!("{state_interval:?}")),
            ("--persist", format!("{persist:?}")),
            ("--watchdog", format!("{watchdog:?}")),
            ("--punt-rate", format!("{punt_rate:?}")),
            ("--engine", format!("{engine:?}")),
            ("--validate", format!("{validate:?}")),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::diff::{Change, diff};
    use super::*;

    fn setup(change: impl FnOnce(&mut Options)) -> Result<Setup, String> {
        let ports = vec!["p1=memory:setup-a".to_owned(), "p2=memory:setup-b".to_owned()];
        let mut options = Options { ports, ..Options::default() };
        change(&mut options);
        Setup::read(options).map_err(|failure| failure.text())
    }

    #[test]
    fn an_option_is_a_change_of_what_it_is_said_of() {
        let before = setup(|_| {}).unwrap();
        let changes = |change: fn(&mut Options)| {
            let changes = diff(&before, &setup(change).unwrap());
            changes.iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(changes(|_| {}), "");
        assert_eq!(changes(|o| o.workers = Some(2)), "--workers changes with a restart");
        assert_eq!(changes(|o| o.mbufs = Some(5000)), "--mbufs changes with a restart");
        assert_eq!(changes(|o| o.vlans = vec!["p1,vlan=10".into()]), "bridge br0: port p1 changes");
        assert_eq!(
            changes(|o| o.rx_rates = vec!["p2=100".into()]),
            "bridge br0: port p2 goes; bridge br0: port p2 comes"
        );
        assert_eq!(
            changes(|o| o.ports[1] = "p2:9=memory:setup-b".into()),
            "bridge br0: port p2 changes"
        );
        assert_eq!(changes(|o| o.datapath_id = Some("7".into())), "bridge br0 changes");
        assert_eq!(changes(|o| o.listeners = vec!["ptcp:1".into()]), "bridge br0 changes");
        assert_eq!(
            changes(|o| o.bridge_name = Some("br1".into())),
            "bridge br0 goes; bridge br1 comes; bridge br1: port p1 comes; bridge br1: port p2 comes"
        );
    }

    #[test]
    fn bridges_of_a_file_are_checked_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        let file = "[[bridge]]\nname = \"br1\"\nport = [\"p1=memory:setup-c\"]\n";
        std::fs::write(&path, file).unwrap();
        let error = setup(|o| o.config = Some(path)).unwrap_err();
        assert_eq!(error, "there is a port \"p1\" already, at bridge \"br0\"");
    }
}
