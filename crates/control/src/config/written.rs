//! A configuration that runs, as a file that says it again.
//!
//! In: what the process was started with ([`File`] with its options), and bridges and ports as they are now. Out: TOML for
//! `run`. What is written is read again and compared: what differs is told ([`Written::left_out`]).

use super::diff::{BridgeSetup, Setup, diff};
use super::{BridgeSection, Config, DEFAULT_NAME, FailModeName, File, Options, parse};
use crate::bridges::config::PortConfig;
use crate::normal::learning::Learning;
use crate::normal::vlan::Vlan;
use crate::ports::Ports;
use datapath::queues::QueuesConfig;
use of_channel::FailMode;
use openflow::{Version, VersionSet};
use port::spec::Spec;
use std::fmt::Write as _;
use std::path::PathBuf;

/// A file for `run`.
pub(crate) struct Written {
    /// The file, without those of entries.
    pub(crate) text: String,
    /// What it cannot say, a line each.
    pub(crate) left_out: Vec<String>,
}

/// What is not of bridges and ports, and changes while a process runs.
#[derive(Default)]
pub(crate) struct Changing {
    /// Queues of the first bridge: [`queues`].
    pub(crate) queues: Vec<String>,
    /// Services: `NAME KIND [KEY=VALUE...]`.
    pub(crate) services: Vec<String>,
}

impl File {
    /// The same with what options add, and with what they override.
    pub(super) fn with(mut self, options: &Options) -> File {
        fn over<T>(place: &mut Option<T>, given: Option<T>) {
            *place = given.or(place.take());
        }
        // Bounds keep them below.
        let number = |given: Option<u64>| given.and_then(|n| i64::try_from(n).ok());
        let flag = |given: bool| given.then_some(true);
        // In full, so that an option that is added is written.
        let Options {
            config: _,
            fleet: _,
            begun: _,
            ports,
            controllers,
            listeners,
            controller_rate,
            controller_burst,
            private_key,
            certificate,
            ca_cert,
            crl,
            snoop,
            datapath_id,
            fail_mode,
            protocols,
            flows,
            groups,
            meters,
            flow_lines,
            group_lines,
            meter_lines,
            synchronised,
            p4,
            entries,
            p4_lines,
            p4runtime,
            cpu_port,
            device_id,
            gnmi,
            metrics,
            metrics_entries,
            otlp,
            otlp_slow,
            http,
            http_token,
            http_reports,
            workers,
            cpus,
            rx_workers,
            rx_rates,
            vlans,
            mirrors,
            normal,
            bonds,
            queues,
            connections,
            ct_accounting,
            state,
            state_interval,
            persist,
            persist_sync,
            watchdog,
            take_over: _,
            services,
            poll,
            eal,
            mbufs,
            engine,
            validate,
            no_decompose,
            template,
            bridge_name,
            ctl,
            flows_max,
            log_changes,
            ctl_group,
            ctl_operators,
            ctl_readers,
            replication,
            confine,
            confine_paths,
            punt_rate,
            auxiliary,
            max_backoff,
            inactivity_probe,
        } = options.clone();
        for (place, given) in [
            (&mut self.port, ports),
            (&mut self.controller, controllers),
            (&mut self.listen, listeners),
            (&mut self.synchronise, synchronised),
            (&mut self.rx_worker, rx_workers),
            (&mut self.rx_rate, rx_rates),
            (&mut self.vlan, vlans),
            (&mut self.mirror, mirrors),
            (&mut self.bond, bonds),
            (&mut self.queue, queues),
            (&mut self.service, services),
            (&mut self.flow, flow_lines),
            (&mut self.group, group_lines),
            (&mut self.meter, meter_lines),
            (&mut self.entry, p4_lines),
        ] {
            place.extend(given);
        }
        self.flows.extend(flows);
        self.confine_path.extend(confine_paths);
        self.groups.extend(groups);
        self.meters.extend(meters);
        for (place, given) in [
            (&mut self.private_key, private_key),
            (&mut self.certificate, certificate),
            (&mut self.ca_cert, ca_cert),
            (&mut self.crl, crl),
            (&mut self.snoop, snoop),
            (&mut self.p4, p4),
            (&mut self.entries, entries),
            (&mut self.state, state),
            (&mut self.persist, persist),
            (&mut self.ctl, ctl),
            (&mut self.log_changes, log_changes),
            (&mut self.http_token, http_token),
            (&mut self.http_reports, http_reports),
        ] {
            over(place, given);
        }
        for (place, given) in [
            (&mut self.datapath_id, datapath_id),
            (&mut self.protocols, protocols),
            (&mut self.p4runtime, p4runtime),
            (&mut self.gnmi, gnmi),
            (&mut self.metrics, metrics),
            (&mut self.otlp, otlp),
            (&mut self.http, http),
            (&mut self.cpus, cpus),
            (&mut self.normal, normal),
            (&mut self.persist_sync, persist_sync),
            (&mut self.eal, eal),
            (&mut self.validate, validate),
            (&mut self.template, template),
            (&mut self.bridge_name, bridge_name),
            (&mut self.ctl_group, ctl_group),
            (&mut self.ctl_operators, ctl_operators),
            (&mut self.ctl_readers, ctl_readers),
            (&mut self.replication, replication),
        ] {
            over(place, given);
        }
        for (place, given) in [
            (&mut self.controller_rate, controller_rate),
            (&mut self.controller_burst, controller_burst),
            (&mut self.cpu_port, cpu_port),
            (&mut self.device_id, device_id),
            (&mut self.metrics_entries, metrics_entries),
            (&mut self.otlp_slow, otlp_slow),
            (&mut self.workers, workers),
            (&mut self.connections, connections),
            (&mut self.state_interval, state_interval),
            (&mut self.watchdog, watchdog),
            (&mut self.mbufs, mbufs),
            (&mut self.flows_max, flows_max),
            (&mut self.punt_rate, punt_rate),
            (&mut self.auxiliary, auxiliary),
            (&mut self.max_backoff, max_backoff),
            (&mut self.inactivity_probe, inactivity_probe),
        ] {
            over(place, number(given));
        }
        over(&mut self.fail_mode, fail_mode);
        over(&mut self.engine, engine);
        over(&mut self.poll, flag(poll));
        over(&mut self.confine, flag(confine));
        over(&mut self.ct_accounting, flag(ct_accounting));
        over(&mut self.no_decompose, flag(no_decompose));
        self
    }

    /// The services that were asked for.
    pub(crate) fn services(&self) -> &[String] {
        &self.service
    }

    /// A file that makes these bridges, and has this process's settings.
    pub(crate) fn written(
        &self,
        bridges: &[BridgeSetup],
        changing: Changing,
    ) -> Result<Written, String> {
        let mut bridges = bridges.to_vec();
        for setup in &mut bridges {
            let channel = &mut setup.bridge.channel;
            let tls = channel.tls.iter_mut().flat_map(|tls| {
                [&mut tls.private_key, &mut tls.certificate]
                    .into_iter()
                    .chain(&mut tls.ca_cert)
                    .chain(&mut tls.crl)
            });
            tls.chain(&mut channel.snoop).for_each(absolute);
        }
        let mut file = self.clone();
        (file.flows, file.groups, file.meters) = (Vec::new(), Vec::new(), Vec::new());
        let paths =
            [&mut file.p4, &mut file.entries, &mut file.state, &mut file.persist, &mut file.ctl];
        paths.into_iter().chain([&mut file.log_changes]).flatten().for_each(absolute);
        (file.queue, file.service) = (changing.queues, changing.services);
        let (first, others) = bridges.split_first().ok_or("there is no bridge to be written")?;
        file.first(first);
        file.bridge = others.iter().map(section).collect();
        let text = text(&file)?;
        let unread = |why: String| format!("what runs cannot be said in a file: {why}");
        let read = Config::of(parse(&text).map_err(unread)?, Options::default())
            .and_then(|config| config.setup(&Ports::plan(&config)?))
            .map_err(|failure| unread(failure.text()))?;
        let has = Setup { process: read.process.clone(), bridges };
        let left_out = diff(&read, &has).iter().map(ToString::to_string).collect();
        Ok(Written { text, left_out })
    }

    fn first(&mut self, first: &BridgeSetup) {
        let BridgeSetup { bridge, ports, .. } = first;
        let said = section(first);
        self.bridge_name = (bridge.name != DEFAULT_NAME).then_some(said.name);
        (self.port, self.vlan, self.mirror, self.bond) =
            (said.port, said.vlan, said.mirror, said.bond);
        (self.normal, self.controller, self.listen) = (said.normal, said.controller, said.listen);
        (self.snoop, self.datapath_id) = (said.snoop, said.datapath_id);
        (self.flow, self.group, self.meter) = (said.flow, said.group, said.meter);
        let channel = &bridge.channel;
        self.fail_mode = said.fail_mode.filter(|_| channel.fail_mode != FailMode::Secure);
        self.protocols =
            said.protocols.filter(|_| channel.protocols != VersionSet::of(&Version::ALL));
        self.rx_rate = ports
            .iter()
            .filter_map(|port| Some(format!("{}={}", port.name, port.rx_rate?)))
            .collect();
        self.rx_worker = ports
            .iter()
            .flat_map(|port| {
                port.places.iter().map(|(queue, worker)| format!("{}:{queue}={worker}", port.name))
            })
            .collect();
        let rate = channel.packet_in_rate;
        self.controller_rate = rate.map(|rate| rate.per_second.into());
        self.controller_burst = rate.map(|rate| rate.burst.into());
        let tls = channel.tls.clone();
        self.ca_cert = tls.as_ref().and_then(|tls| tls.ca_cert.clone());
        self.crl = tls.as_ref().and_then(|tls| tls.crl.clone());
        self.private_key = tls.as_ref().map(|tls| tls.private_key.clone());
        self.certificate = tls.map(|tls| tls.certificate);
        // What is as it is without being said stays unsaid.
        let unless =
            |value: u64, default: u64| i64::try_from(value).ok().filter(|_| value != default);
        self.auxiliary = unless(channel.auxiliary.into(), 0);
        self.max_backoff = unless(channel.backoff_max.as_secs(), super::BACKOFF);
        self.inactivity_probe = unless(channel.timing.probe.as_secs(), super::PROBE);
    }
}

fn absolute(path: &mut PathBuf) {
    // It fails for an empty path and without a working directory: then as it was given.
    if let Ok(whole) = std::path::absolute(&*path) {
        *path = whole;
    }
}

fn specification(port: &PortConfig) -> String {
    let (given_name, attachment) = (Some(port.name.clone()), port.attachment.clone());
    Spec { given_name, number: port.number, attachment }.to_string()
}

fn section(setup: &BridgeSetup) -> BridgeSection {
    let BridgeSetup { bridge, ports, entries } = setup;
    let channel = &bridge.channel;
    let tagged = ports.iter().filter(|port| port.vlan != Vlan::default());
    let versions = Version::ALL.iter().filter(|v| channel.protocols.contains_wire(v.wire()));
    let versions: Vec<_> = versions.map(|version| version.name()).collect();
    BridgeSection {
        name: bridge.name.clone(),
        port: ports.iter().map(specification).collect(),
        vlan: tagged.map(|port| format!("{},{}", port.name, port.vlan)).collect(),
        mirror: bridge.mirrors.iter().map(ToString::to_string).collect(),
        normal: (bridge.learning != Learning::default()).then(|| bridge.learning.to_string()),
        bond: bridge.bonds.iter().map(ToString::to_string).collect(),
        controller: channel.controllers.iter().map(ToString::to_string).collect(),
        listen: channel.listeners.iter().map(ToString::to_string).collect(),
        snoop: channel.snoop.clone(),
        datapath_id: bridge.datapath_id.map(|id| format!("{id:016x}")),
        fail_mode: Some(match channel.fail_mode {
            FailMode::Secure => FailModeName::Secure,
            FailMode::Standalone => FailModeName::Standalone,
        }),
        protocols: Some(versions.join(",")),
        flow: entries.flows.clone(),
        group: entries.groups.clone(),
        meter: entries.meters.clone(),
    }
}

/// As TOML, without lists that are empty.
fn text(file: &File) -> Result<String, String> {
    let mut table = toml::Table::try_from(file).map_err(|error| error.to_string())?;
    fn thin(table: &mut toml::Table) {
        table.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        let sections = table.get_mut("bridge").and_then(toml::Value::as_array_mut);
        sections.into_iter().flatten().filter_map(toml::Value::as_table_mut).for_each(thin);
    }
    thin(&mut table);
    toml::to_string(&table).map_err(|error| error.to_string())
}

/// A port's queues as settings of `--queue`.
pub(crate) fn queues(port: u32, config: &QueuesConfig) -> Vec<String> {
    let mut all = Vec::new();
    let options = |pairs: &[(&str, Option<u64>)]| {
        let mut out = String::new();
        for (key, value) in pairs {
            if let Some(value) = value {
                // Writing to a string does not fail.
                let _ = write!(out, ",{key}={value}");
            }
        }
        out
    };
    let own = options(&[("max", config.max_bps), ("burst", config.burst_bytes)]);
    if !own.is_empty() {
        all.push(format!("{port}{own}"));
    }
    for queue in &config.queues {
        let said = options(&[
            ("min", queue.min_bps),
            ("max", queue.max_bps),
            ("priority", Some(queue.priority.into())),
            ("weight", Some(queue.weight.into())),
            ("burst", queue.burst_bytes),
            ("limit", Some(queue.limit as u64)),
        ]);
        all.push(format!("{port}:{}{said}", queue.id));
    }
    all
}
