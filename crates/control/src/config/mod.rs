//! The configuration of `run`: a TOML file whose keys are the options' names, and the options
//! themselves, which add to its lists and override its values.

mod collector;
pub mod diff;
pub(crate) mod group;
mod paths;
mod receive;
mod remote;
mod section;
mod service;
mod setup;
mod tls;
mod words;
pub(crate) mod written;

pub(crate) use collector::Endpoint;
pub use collector::{OtlpAt, otlp_at};
pub(crate) use receive::{RxRate, RxWorker};
pub(crate) use remote::{GnmiAt, P4Runtime};
pub use remote::{MetricsAt, metrics_at, page_at};
use section::BridgeSection;
pub use tls::tls_files;
pub use words::FailModeName;
pub(crate) use words::{datapath_id, protocols};

use crate::bonds::Bond;
use crate::bridges::config::{BridgeConfig, DEFAULT_NAME, Defaults};
use crate::config::diff::BridgeSetup;
use crate::doors::Groups;
use crate::engine::EngineName;
use crate::failure::Failure;
use crate::normal::learning::Learning;
use crate::normal::mirror::Mirror;
use crate::normal::vlan::{Vlan, of_named_port};
use crate::persist::place::Place;
use crate::program::entries::Entries;
use crate::program::tables::{self, Tracking};
use crate::{bounds, model, port_kinds, socket};
use ::service::catalogue;
use clap::Args;
use datapath::compiled;
use datapath::queues::Setting;
use of_channel::connection::Timing;
use of_channel::{FailMode, Listen, Rate, Target};
use of_pipeline::Synchronised;
use openflow::{Version, VersionSet};
use port::inherited::Inherited;
use port::kind::Environment;
use port::spec::Spec;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use switch::EngineKind;

/// `millrace run`.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Configuration file; options add to it and override it
    pub config: Option<PathBuf>,
    /// Take the configuration from a fleet's store, follow it, and say there what became of it:
    /// nats://HOST[:PORT]/GROUP [member=NAME] [cache=DIR] [ca=FILE] [certificate=FILE] [key=FILE] [credentials=FILE]
    #[arg(long = "config", value_name = "PLACE", conflicts_with = "config")]
    pub fleet: Option<String>,
    /// What was taken from there.
    #[arg(skip)]
    pub begun: Option<Arc<crate::fleet::Begun>>,
    /// A port; numbers count from 1 in order
    #[arg(
        long = "port",
        value_name = "[NAME[:NUMBER]=]SPEC",
        long_help = port_kinds::help("A port; numbers count from 1 in order")
    )]
    pub ports: Vec<String>,
    /// A controller to connect to: tcp:HOST[:PORT], tls:HOST[:PORT]
    #[arg(long = "controller", value_name = "TARGET")]
    pub controllers: Vec<String>,
    /// Where to listen for controllers: ptcp:[PORT][:ADDR], pssl:[PORT][:ADDR], punix:PATH
    #[arg(long = "listen", value_name = "TARGET")]
    pub listeners: Vec<String>,
    /// Packet-ins a second for each controller, at most [default: no limit but --punt-rate]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::CONTROLLER_RATE.parse(text))]
    pub controller_rate: Option<u64>,
    /// Packet-ins at once for each controller [default: a quarter of --controller-rate]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::CONTROLLER_BURST.parse(text))]
    pub controller_burst: Option<u64>,
    /// The switch's private key for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,
    /// The switch's certificate for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// The certificate of who signs controllers' certificates; with it every controller must show one
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub ca_cert: Option<PathBuf>,
    /// Certificates that are revoked: lists (CRL) of the authorities of --ca-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "ca_cert")]
    pub crl: Option<PathBuf>,
    /// Where to show all OpenFlow messages to `ovs-ofctl snoop`
    #[arg(long, value_name = "PATH")]
    pub snoop: Option<PathBuf>,
    /// Datapath id, up to 16 hexadecimal digits; made from the first port's address otherwise
    #[arg(long, value_name = "HEX")]
    pub datapath_id: Option<String>,
    /// What happens while no controller is connected
    #[arg(long, value_enum)]
    pub fail_mode: Option<FailModeName>,
    /// OpenFlow versions to speak, separated by commas: OpenFlow10,OpenFlow13
    #[arg(long, value_name = "LIST")]
    pub protocols: Option<String>,
    /// Flow entries to start with, in ovs-ofctl's syntax
    #[arg(long = "flows", value_name = "FILE")]
    pub flows: Vec<PathBuf>,
    /// Groups to start with, in ovs-ofctl's syntax
    #[arg(long = "groups", value_name = "FILE")]
    pub groups: Vec<PathBuf>,
    /// Meters to start with, in ovs-ofctl's syntax
    #[arg(long = "meters", value_name = "FILE")]
    pub meters: Vec<PathBuf>,
    /// A flow entry, in ovs-ofctl's syntax: it comes and goes with the configuration
    #[arg(long = "flow", value_name = "FLOW")]
    pub flow_lines: Vec<String>,
    /// A group, likewise
    #[arg(long = "group", value_name = "GROUP")]
    pub group_lines: Vec<String>,
    /// A meter, likewise
    #[arg(long = "meter", value_name = "METER")]
    pub meter_lines: Vec<String>,
    /// A flow table that shows the entries of another one with sources and destinations exchanged, as in
    /// 0=1,goto_table:1
    #[arg(long = "synchronise", value_name = "TABLE=SOURCE[,INSTRUCTIONS]")]
    pub synchronised: Vec<String>,
    /// Forward by this P4-16 program in place of OpenFlow's tables
    #[arg(long, value_name = "FILE.p4")]
    pub p4: Option<PathBuf>,
    /// Entries of the P4 program to start with, in the manner of simple_switch_CLI
    #[arg(long, value_name = "FILE")]
    pub entries: Option<PathBuf>,
    /// A line of such a file: an entry of the P4 program to start with, behind those of --entries
    #[arg(long = "entry", value_name = "LINE")]
    pub p4_lines: Vec<String>,
    /// Serve P4Runtime (gRPC) there; without --p4 a client pushes the program, and every frame is dropped until then
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub p4runtime: Option<String>,
    /// The port by which packets pass between the P4 program and P4Runtime's clients [default: 510]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::CPU_PORT.parse(text))]
    pub cpu_port: Option<u64>,
    /// P4Runtime's id of this switch; 0 is meant for it, too [default: 1]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::DEVICE_ID.parse(text))]
    pub device_id: Option<u64>,
    /// Serve gNMI there, as --p4runtime does at its address: the ports as OpenConfig interfaces; off: nowhere
    #[arg(long, value_name = "ADDR[:PORT]|off")]
    pub gnmi: Option<String>,
    /// Serve counters for Prometheus there, at /metrics [default port: 9476]
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub metrics: Option<String>,
    /// Serve packets and bytes of the N entries that are hit most, of each bridge [default: 0]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::METRICS_ENTRIES.parse(text))]
    pub metrics_entries: Option<u64>,
    /// Send logs, and spans of slow changes, to a collector of OpenTelemetry there [default port: 4318]
    #[arg(long, value_name = "http://HOST[:PORT]")]
    pub otlp: Option<String>,
    /// Changes that take so many milliseconds are slow [default: 100]
    #[arg(long, value_name = "MS", value_parser = |text: &str| bounds::OTLP_SLOW_MS.parse(text))]
    pub otlp_slow: Option<u64>,
    /// Serve a web page there that shows the switch [default port: 9480]
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub http: Option<String>,
    /// A file with the token that changes by the page want, and beyond loopback all questions
    #[arg(long, value_name = "FILE")]
    pub http_token: Option<PathBuf>,
    /// A folder of gauge's reports, for the page
    #[arg(long, value_name = "DIR")]
    pub http_reports: Option<PathBuf>,
    /// Worker threads [default: 1]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::WORKERS.parse(text))]
    pub workers: Option<u64>,
    /// Processors for the workers, in order: 1,2,4-7
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Which worker (from 0) serves a port's receive queue (from 0); the others are spread
    #[arg(long = "rx-worker", value_name = "PORT[:QUEUE]=WORKER")]
    pub rx_workers: Vec<String>,
    /// So many packets a second are taken of a port at most; what comes faster waits in its driver, and is lost there
    #[arg(long = "rx-rate", value_name = "PORT=RATE")]
    pub rx_rates: Vec<String>,
    /// A port's VLANs under NORMAL: PORT,vlan=N or PORT,trunk=N,N, with mode=, cvlans=, tag-type=, priority-tags=, protected
    #[arg(long = "vlan", value_name = "PORT,WORD...")]
    pub vlans: Vec<String>,
    /// A mirror: NAME,all or NAME,src=PORT,dst=PORT, with vlans=, length=, and to=PORT or to-vlan=N
    #[arg(long = "mirror", value_name = "NAME,WORD...")]
    pub mirrors: Vec<String>,
    /// How NORMAL learns and floods: flood-vlans=N,N, mac-table-size=N, mac-aging-time=SECONDS, vlan-limit=N, forward-bpdu
    #[arg(long, value_name = "WORD...")]
    pub normal: Option<String>,
    /// Several ports as one: NAME,members=PORT,PORT, with mode=, lacp=, updelay=, downdelay=, and keys of bond- and lacp-
    #[arg(long = "bond", value_name = "NAME,WORD...")]
    pub bonds: Vec<String>,
    /// An egress queue, or the port's rate: PORT[:ID],min=RATE,max=RATE,priority=N,weight=N
    #[arg(long = "queue", value_name = "SETTING")]
    pub queues: Vec<String>,
    /// Connections that `ct` keeps at most [default: 262144]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::CONNECTIONS.parse(text))]
    pub connections: Option<u64>,
    /// Counts packets and octets of each connection, by direction; 32 octets of memory for each
    #[arg(long)]
    pub ct_accounting: bool,
    /// Connections outlive the process: read from this file at the start, if it is there, and written to it every
    /// --state-interval and at the end
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// How often --state is written, in seconds; 0: only at the end [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| bounds::STATE_INTERVAL.parse(text))]
    pub state_interval: Option<u64>,
    /// What controllers program outlives the process, also one that is killed: it is kept in this folder, and put back at
    /// the start in place of --flows, --groups, --meters and --entries
    #[arg(long, value_name = "DIR")]
    pub persist: Option<PathBuf>,
    /// When the files of --persist are on the disk, for a loss of power: always before an answer, never on demand, or
    /// within so many seconds [default: 1]
    #[arg(long, value_name = "always|SECONDS|never")]
    pub persist_sync: Option<String>,
    /// A thread that does not move for so long ends the process with status 70, in seconds; 0: none is watched
    /// [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| bounds::WATCHDOG.parse(text))]
    pub watchdog: Option<u64>,
    /// Goes on where the running switch behind this control socket is, and ends it: the entries of all its bridges (in place
    /// of --flows, --groups, --meters and --entries), connections and P4 program, while packets go on until ports change hands
    #[arg(long, value_name = "PATH")]
    pub take_over: Option<PathBuf>,
    /// A service for flows to name in softflow(NAME,ARG): "NAME KIND [KEY=VALUE...]"
    #[arg(long = "service", value_name = "SERVICE")]
    pub services: Vec<String>,
    /// Workers never sleep: a core each, for the least delay after a silence
    #[arg(long)]
    pub poll: bool,
    /// Arguments for DPDK itself, as one word; used where a port is of the kind dpdk
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub eal: Option<String>,
    /// Frames that DPDK ports have room for, all together [default: 65535]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::MBUFS.parse(text))]
    pub mbufs: Option<u64>,
    /// The engine [default: jit]
    #[arg(long, value_enum)]
    pub engine: Option<EngineName>,
    /// Runs one forwarded packet in N by the interpreter, too, and counts differences
    #[arg(long, value_name = "1/N")]
    pub validate: Option<String>,
    /// Never splits a flow table into several that fit faster templates
    #[arg(long)]
    pub no_decompose: bool,
    /// Looks every table up by this template, where it fits (for tests): direct_code, hash, lpm,
    /// range, scan, tuple_space, decomposed, linear
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub template: Option<String>,
    /// The name of the bridge that these options describe [default: br0]; a configuration file may have more, in
    /// sections [[bridge]]
    #[arg(long, value_name = "NAME")]
    pub bridge_name: Option<String>,
    /// Control socket, for trace, stats, explain and dump
    #[arg(long, value_name = "PATH")]
    pub ctl: Option<PathBuf>,
    /// Flow entries in all tables together, at most [default: what half of the free memory holds]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::FLOWS_MAX.parse(text))]
    pub flows_max: Option<u64>,
    /// Keep every change that controllers and commands make in this file, which is added to
    #[arg(long, value_name = "FILE")]
    pub log_changes: Option<PathBuf>,
    /// A group, by name or number, whose members may ask at the control socket beside its owner
    #[arg(long, value_name = "GROUP")]
    pub ctl_group: Option<String>,
    /// A group whose members may change bridges, ports, entries and connections, and see frames, by a socket of their own
    #[arg(long, value_name = "GROUP")]
    pub ctl_operators: Option<String>,
    /// A group whose members may look at the switch, by a socket of their own
    #[arg(long, value_name = "GROUP")]
    pub ctl_readers: Option<String>,
    /// Gives up, at the start, capabilities, files and system calls that nothing here needs
    #[arg(long)]
    pub confine: bool,
    /// Be a member of a group whose members go on for each other: group=NAME member=NAME server=nats://HOST listen=ADDR:PORT
    /// peer=NAME@ADDR:PORT [address=PORT,IP,MAC] ...
    #[arg(long, value_name = "SETTINGS", conflicts_with = "take_over")]
    pub replication: Option<String>,
    /// A folder whose files a confined switch may read and write, beside those of the files that are named here
    #[arg(long = "confine-path", value_name = "DIR")]
    pub confine_paths: Vec<PathBuf>,
    /// Packets per second to controllers, at most; ports share it fairly
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::PUNT_RATE.parse(text))]
    pub punt_rate: Option<u64>,
    /// Auxiliary connections to each controller, beside the main one [default: 0]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounds::AUXILIARY.parse(text))]
    pub auxiliary: Option<u64>,
    /// Longest pause between attempts to connect, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| bounds::MAX_BACKOFF.parse(text))]
    pub max_backoff: Option<u64>,
    /// A controller silent for so long is probed, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| bounds::INACTIVITY_PROBE.parse(text))]
    pub inactivity_probe: Option<u64>,
}

/// A configuration file.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default)]
    port: Vec<String>,
    #[serde(default)]
    controller: Vec<String>,
    #[serde(default)]
    listen: Vec<String>,
    controller_rate: Option<i64>,
    controller_burst: Option<i64>,
    private_key: Option<PathBuf>,
    certificate: Option<PathBuf>,
    ca_cert: Option<PathBuf>,
    crl: Option<PathBuf>,
    snoop: Option<PathBuf>,
    datapath_id: Option<String>,
    fail_mode: Option<FailModeName>,
    protocols: Option<String>,
    #[serde(default)]
    flows: Vec<PathBuf>,
    #[serde(default)]
    groups: Vec<PathBuf>,
    #[serde(default)]
    meters: Vec<PathBuf>,
    #[serde(default)]
    flow: Vec<String>,
    #[serde(default)]
    group: Vec<String>,
    #[serde(default)]
    meter: Vec<String>,
    #[serde(default)]
    synchronise: Vec<String>,
    p4: Option<PathBuf>,
    entries: Option<PathBuf>,
    #[serde(default)]
    entry: Vec<String>,
    p4runtime: Option<String>,
    cpu_port: Option<i64>,
    device_id: Option<i64>,
    gnmi: Option<String>,
    metrics: Option<String>,
    metrics_entries: Option<i64>,
    otlp: Option<String>,
    otlp_slow: Option<i64>,
    http: Option<String>,
    http_token: Option<PathBuf>,
    http_reports: Option<PathBuf>,
    workers: Option<i64>,
    cpus: Option<String>,
    #[serde(default)]
    rx_worker: Vec<String>,
    #[serde(default)]
    rx_rate: Vec<String>,
    #[serde(default)]
    queue: Vec<String>,
    #[serde(default)]
    vlan: Vec<String>,
    #[serde(default)]
    mirror: Vec<String>,
    normal: Option<String>,
    #[serde(default)]
    bond: Vec<String>,
    connections: Option<i64>,
    ct_accounting: Option<bool>,
    state: Option<PathBuf>,
    state_interval: Option<i64>,
    persist: Option<PathBuf>,
    persist_sync: Option<String>,
    watchdog: Option<i64>,
    #[serde(default, deserialize_with = "service::lines")]
    service: Vec<String>,
    poll: Option<bool>,
    eal: Option<String>,
    mbufs: Option<i64>,
    engine: Option<EngineName>,
    no_decompose: Option<bool>,
    validate: Option<String>,
    template: Option<String>,
    ctl: Option<PathBuf>,
    flows_max: Option<i64>,
    log_changes: Option<PathBuf>,
    ctl_group: Option<String>,
    ctl_operators: Option<String>,
    ctl_readers: Option<String>,
    replication: Option<String>,
    confine: Option<bool>,
    #[serde(default)]
    confine_path: Vec<PathBuf>,
    punt_rate: Option<i64>,
    auxiliary: Option<i64>,
    max_backoff: Option<i64>,
    inactivity_probe: Option<i64>,
    bridge_name: Option<String>,
    #[serde(default)]
    bridge: Vec<BridgeSection>,
}

/// Threads say that they live once a second: a shorter bound would accuse who is well.
const WATCHDOG_MIN: u64 = 5;
/// Seconds between attempts to connect, at most, unless the configuration says otherwise.
const BACKOFF: u64 = 8;
/// Seconds of silence until a controller is probed, likewise.
const PROBE: u64 = 5;

/// So many seconds; none if 0.
fn some_seconds(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Everything `run` needs to know, checked.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file with what options added, and with what they overrode.
    pub(crate) given: File,
    /// Ports in order.
    pub(crate) ports: Vec<Spec>,
    /// The controller channel.
    pub(crate) channel: of_channel::Config,
    /// The datapath id, if given.
    pub(crate) datapath_id: Option<u64>,
    /// Files with flow entries.
    pub(crate) flows: Vec<PathBuf>,
    /// Files with groups.
    pub(crate) groups: Vec<PathBuf>,
    /// Files with meters.
    pub(crate) meters: Vec<PathBuf>,
    /// Entries, groups and meters that come and go with the configuration.
    pub(crate) inline: Entries,
    /// Tables that reflect others.
    pub(crate) synchronised: Vec<Synchronised>,
    /// The P4 program that forwards in place of OpenFlow's tables.
    pub(crate) p4: Option<PathBuf>,
    /// The P4 program's entries.
    pub(crate) entries: Option<PathBuf>,
    /// More of them, a line each.
    pub(crate) p4_lines: Vec<String>,
    /// Where P4Runtime is served.
    pub(crate) p4_runtime: Option<P4Runtime>,
    /// Where gNMI is served.
    pub(crate) gnmi: GnmiAt,
    /// Where metrics are served.
    pub(crate) metrics: Option<MetricsAt>,
    /// Where logs and spans are sent.
    pub(crate) otlp: Option<OtlpAt>,
    /// Where the page is served.
    pub(crate) page: Option<crate::page::PageAt>,
    /// Worker threads.
    pub(crate) workers: usize,
    /// Their processors.
    pub(crate) cpus: Vec<usize>,
    /// Receive queues that were given a worker.
    pub(crate) rx_workers: Vec<RxWorker>,
    /// Ports of which so many packets a second are taken at most.
    pub(crate) rx_rates: Vec<RxRate>,
    /// Egress queues and ports' rates.
    pub(crate) queues: Vec<Setting>,
    /// VLANs of ports, by name.
    pub(crate) vlans: Vec<(String, Vlan)>,
    /// Mirrors of the first bridge.
    pub(crate) mirrors: Vec<Mirror>,
    /// How the first bridge learns and floods.
    pub(crate) learning: Learning,
    /// Its bonds.
    pub(crate) bonds: Vec<Bond>,
    /// The connection tracker.
    pub(crate) tracking: Tracking,
    /// Where connections wait for the next process.
    pub(crate) state: Option<PathBuf>,
    /// The control socket of a running switch whose place this one takes.
    pub(crate) take_over: Option<PathBuf>,
    /// Services: `NAME KIND [KEY=VALUE...]`.
    pub(crate) services: Vec<String>,
    /// Workers never sleep.
    pub(crate) poll: bool,
    /// How DPDK's devices are opened.
    pub(crate) dpdk: port_dpdk::Options,
    /// The control socket.
    pub(crate) ctl: Option<PathBuf>,
    /// Flow entries, at most; none for what memory allows.
    pub(crate) flows_max: Option<u32>,
    /// Where every change is kept.
    pub(crate) log_changes: Option<PathBuf>,
    /// The groups that may ask there.
    pub(crate) ctl_groups: Groups,
    /// The group whose members go on for each other.
    pub(crate) replication: Option<group::Settings>,
    /// The fleet whose configuration it is.
    pub(crate) fleet: Option<Arc<crate::fleet::Begun>>,
    /// The process gives up what nothing here needs.
    pub(crate) confine: bool,
    /// Folders that it may read and write all the same.
    pub(crate) confine_paths: Vec<PathBuf>,
    /// How often connections are written.
    pub(crate) state_interval: Option<Duration>,
    pub(crate) persist: Option<Place>,
    /// How long a thread may stand still.
    pub(crate) watchdog: Option<Duration>,
    /// Packets per second to controllers, at most.
    pub(crate) punt_rate: u64,
    pub(crate) engine: EngineKind,
    pub(crate) validate: Option<u32>,
    /// The first bridge's name.
    pub(crate) bridge_name: String,
    /// Bridges beside it, with their ports.
    pub(crate) bridges: Vec<BridgeSetup>,
}

impl Config {
    /// What kinds of ports find there.
    pub(crate) fn environment(&self) -> Environment {
        Environment::default().with(self.dpdk.clone()).with(Inherited::default())
    }

    /// What bridges have in common.
    pub(crate) fn defaults(&self) -> Defaults {
        Defaults {
            engine: self.engine.clone(),
            punt_rate: self.punt_rate,
            validate: self.validate,
            tracking: self.tracking,
            flows_max: self.flows_max,
            persist: self.persist.clone(),
            environment: self.environment(),
            watchdog: self.watchdog,
        }
    }

    /// The first bridge.
    pub(crate) fn bridge(&self) -> BridgeConfig {
        BridgeConfig {
            datapath_id: self.datapath_id,
            channel: self.channel.clone(),
            mirrors: self.mirrors.clone(),
            learning: self.learning.clone(),
            bonds: self.bonds.clone(),
            ..BridgeConfig::named(&self.bridge_name)
        }
    }

    /// From the options, and the file that they name.
    pub(crate) fn new(options: Options) -> Result<Config, Failure> {
        let file = match &options.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        Config::of(file, options)
    }

    /// From the options and a file that was read.
    pub(crate) fn of(file: File, options: Options) -> Result<Config, Failure> {
        let whole = file.clone().with(&options);
        let both = |mut a: Vec<String>, b: Vec<String>| {
            a.extend(b);
            a
        };
        let paths = |mut a: Vec<PathBuf>, b: Vec<PathBuf>| {
            a.extend(b);
            a
        };
        let p4_runtime = remote::p4_runtime(&options, &file)?;
        let gnmi = remote::gnmi(&options, &file)?;
        let metrics = remote::metrics(&options, &file)?;
        let otlp = remote::otlp(&options, &file)?;
        let page = page_at(
            options.http.as_deref().or(file.http.as_deref()),
            options.http_token.as_deref().or(file.http_token.as_deref()),
            options.http_reports.or(file.http_reports),
        )?;
        let (p4, entries) = (options.p4.or(file.p4), options.entries.or(file.entries));
        let p4_lines = both(file.entry, options.p4_lines);
        if (entries.is_some() || !p4_lines.is_empty()) && p4.is_none() {
            return Err(Failure::usage(
                "--entries and --entry are of a P4 program: name it with --p4",
            ));
        }
        let inline = Entries {
            meters: both(file.meter, options.meter_lines),
            groups: both(file.group, options.group_lines),
            flows: both(file.flow, options.flow_lines),
            p4: Vec::new(),
        };
        let given = |name, option: bool, file: bool| (option || file).then_some(name);
        let openflow = [
            given("--flows", !options.flows.is_empty(), !file.flows.is_empty()),
            given("--groups", !options.groups.is_empty(), !file.groups.is_empty()),
            given("--meters", !options.meters.is_empty(), !file.meters.is_empty()),
            given("--flow, --group or --meter", !inline.is_empty(), false),
            given("--synchronise", !options.synchronised.is_empty(), !file.synchronise.is_empty()),
            given("--controller", !options.controllers.is_empty(), !file.controller.is_empty()),
            given("--listen", !options.listeners.is_empty(), !file.listen.is_empty()),
            given("--snoop", options.snoop.is_some(), file.snoop.is_some()),
            given("--normal", options.normal.is_some(), file.normal.is_some()),
            given("--fail-mode", options.fail_mode.is_some(), file.fail_mode.is_some()),
        ];
        let runs_p4 = match (&p4, &p4_runtime) {
            (Some(_), _) => Some("--p4"),
            (None, Some(_)) => Some("--p4runtime"),
            (None, None) => None,
        };
        if let (Some(by), Some(name)) = (runs_p4, openflow.into_iter().flatten().next()) {
            return Err(Failure::Usage(format!(
                "{name} is for OpenFlow's tables, which {by} takes the place of; fill the program's tables with --entries or `millrace p4 do`"
            )));
        }
        let ports = both(file.port, options.ports)
            .iter()
            .map(|s| port_kinds::parse(s).map_err(|e| Failure::Usage(format!("port {s:?}: {e}"))))
            .collect::<Result<_, _>>()?;
        let controllers = both(file.controller, options.controllers)
            .iter()
            .map(|s| s.parse::<Target>().map_err(Failure::usage))
            .collect::<Result<_, _>>()?;
        let listeners = both(file.listen, options.listeners)
            .iter()
            .map(|s| s.parse::<Listen>().map_err(Failure::usage))
            .collect::<Result<_, _>>()?;
        let synchronised = both(file.synchronise, options.synchronised)
            .iter()
            .map(|s| {
                s.parse::<Synchronised>().map_err(|e| Failure::Usage(format!("--synchronise: {e}")))
            })
            .collect::<Result<_, _>>()?;
        let burst =
            bounds::CONTROLLER_BURST.pick(options.controller_burst, file.controller_burst)?;
        let rate = bounds::CONTROLLER_RATE.pick(options.controller_rate, file.controller_rate)?;
        let packet_in_rate = match (rate, burst) {
            (None, Some(_)) => {
                return Err(Failure::usage("--controller-burst needs --controller-rate"));
            }
            (Some(rate), burst) => {
                let burst = burst.unwrap_or(rate.div_ceil(4));
                // Both fit: their bounds say so.
                Some(Rate { per_second: rate as u32, burst: burst as u32 })
            }
            (None, None) => None,
        };
        let tls = tls_files(
            options.private_key.or(file.private_key),
            options.certificate.or(file.certificate),
            options.ca_cert.or(file.ca_cert),
            options.crl.or(file.crl),
        )?;
        if let Some(page) = &page {
            page.check(tls.as_ref().is_some_and(|tls| tls.ca_cert.is_some()))?;
        }
        let fail_mode = options.fail_mode.or(file.fail_mode);
        let fail_mode = fail_mode.map_or(FailMode::Secure, FailMode::from);
        let protocols = match options.protocols.or(file.protocols) {
            Some(list) => protocols(&list)?,
            None => VersionSet::of(&Version::ALL),
        };
        let workers = bounds::WORKERS.pick(options.workers, file.workers)?.unwrap_or(1) as usize;
        let rx_workers = both(file.rx_worker, options.rx_workers);
        let rx_workers =
            rx_workers.iter().map(|s| RxWorker::parse(s)).collect::<Result<Vec<_>, _>>()?;
        let rx_rates = both(file.rx_rate, options.rx_rates);
        let rx_rates = rx_rates.iter().map(|s| RxRate::parse(s)).collect::<Result<Vec<_>, _>>()?;
        let queues = both(file.queue, options.queues);
        let queues = queues.iter().map(|s| queue(s)).collect::<Result<_, _>>()?;
        let vlans = both(file.vlan, options.vlans);
        let vlans = vlans.iter().map(|s| of_named_port(s)).collect::<Result<_, _>>();
        let vlans = vlans.map_err(Failure::Usage)?;
        let mirrors = both(file.mirror, options.mirrors);
        let mirrors = mirrors.iter().map(|s| s.parse::<Mirror>().map_err(Failure::usage));
        let mirrors = mirrors.collect::<Result<_, _>>()?;
        let learning = options.normal.or(file.normal).map(|text| text.parse::<Learning>());
        let learning = learning.transpose().map_err(Failure::usage)?.unwrap_or_default();
        let bonds = both(file.bond, options.bonds);
        let bonds = bonds.iter().map(|s| s.parse::<Bond>().map_err(Failure::usage));
        let bonds = bonds.collect::<Result<_, _>>()?;
        let connections = bounds::CONNECTIONS.pick(options.connections, file.connections)?;
        let tracking = Tracking {
            connections: connections.map_or(tables::CONNECTIONS, |n| n as usize),
            accounting: options.ct_accounting || file.ct_accounting.unwrap_or(false),
        };
        let state = options.state.or(file.state);
        if runs_p4.is_some() && state.is_some() {
            return Err(Failure::usage(
                "--state keeps connections, which a switch that runs a P4 program does not track",
            ));
        }
        let state_interval =
            bounds::STATE_INTERVAL.pick(options.state_interval, file.state_interval)?;
        if state_interval.is_some() && state.is_none() {
            return Err(Failure::usage(
                "--state-interval says how often --state is written: give both",
            ));
        }
        let persist_sync = options.persist_sync.or(file.persist_sync);
        let persist = Place::new(options.persist.or(file.persist), persist_sync.as_deref())?;
        let watchdog = bounds::WATCHDOG.pick(options.watchdog, file.watchdog)?;
        if watchdog.is_some_and(|seconds| (1..WATCHDOG_MIN).contains(&seconds)) {
            return Err(Failure::Usage(format!(
                "--watchdog: 0 or a number from {WATCHDOG_MIN} to {} was expected",
                bounds::WATCHDOG.max
            )));
        }
        let take_over = options.take_over;
        crate::program::services::refuse_open_secrets(&options.services)?;
        let services = both(file.service, options.services);
        let eal = options.eal.or(file.eal).unwrap_or_default();
        let mbufs = bounds::MBUFS.pick(options.mbufs, file.mbufs)?;
        let mbufs = mbufs.map_or(port_dpdk::MBUFS, |n| n as u32);
        let dpdk = port_dpdk::Options {
            workers,
            rx_queues: None,
            eal: port_dpdk::eal::split(&eal).map_err(Failure::Usage)?,
            mbufs,
        };
        let template = options.template.or(file.template);
        let template = template.map(|name| name.parse().map_err(Failure::usage)).transpose()?;
        let engine = match options.engine.or(file.engine) {
            Some(EngineName::Jit) | None => EngineKind::Jit(compiled::Options {
                decompose: !(options.no_decompose || file.no_decompose.unwrap_or(false)),
                template,
                model: model::load(),
                ..compiled::Options::default()
            }),
            Some(EngineName::Interp) => EngineKind::Interp,
        };
        let flows_max = bounds::FLOWS_MAX.pick(options.flows_max, file.flows_max)?;
        let auxiliary = bounds::AUXILIARY.pick(options.auxiliary, file.auxiliary)?;
        let backoff = bounds::MAX_BACKOFF.pick(options.max_backoff, file.max_backoff)?;
        let probe =
            bounds::INACTIVITY_PROBE.pick(options.inactivity_probe, file.inactivity_probe)?;
        let group = |option: &str, name: Option<String>| {
            let number = name.map(|name| socket::group(&name)).transpose();
            number.map_err(|e| Failure::Usage(format!("{option}: {e}")))
        };
        let ctl_groups = Groups {
            admin: group("--ctl-group", options.ctl_group.or(file.ctl_group))?,
            operate: group("--ctl-operators", options.ctl_operators.or(file.ctl_operators))?,
            read: group("--ctl-readers", options.ctl_readers.or(file.ctl_readers))?,
        };
        let channel = of_channel::Config {
            controllers,
            listeners,
            snoop: options.snoop.or(file.snoop),
            protocols,
            fail_mode,
            auxiliary: auxiliary.unwrap_or(0) as u8,
            backoff_max: Duration::from_secs(backoff.unwrap_or(BACKOFF)),
            timing: Timing { probe: Duration::from_secs(probe.unwrap_or(PROBE)) },
            tls,
            packet_in_rate,
            ..of_channel::Config::default()
        };
        let bridges = file.bridge.into_iter().map(|section| section.read(&channel));
        let bridges = bridges.collect::<Result<Vec<_>, _>>()?;
        let bridge_name = options.bridge_name.or(file.bridge_name);
        let replication =
            group::read(options.replication.or(file.replication), take_over.as_deref())?;
        let confine = options.confine || file.confine.unwrap_or(false);
        let confine_paths = paths(file.confine_path, options.confine_paths);
        group::may_notify(replication.as_ref(), confine, &confine_paths)?;
        Ok(Config {
            given: whole,
            ports,
            channel,
            bridge_name: bridge_name.unwrap_or_else(|| DEFAULT_NAME.to_owned()),
            bridges,
            datapath_id: options
                .datapath_id
                .or(file.datapath_id)
                .map(|s| datapath_id(&s))
                .transpose()?,
            flows: paths(file.flows, options.flows),
            groups: paths(file.groups, options.groups),
            meters: paths(file.meters, options.meters),
            inline,
            synchronised,
            p4,
            entries,
            p4_lines,
            p4_runtime,
            gnmi,
            metrics,
            otlp,
            page,
            workers,
            cpus: options.cpus.or(file.cpus).map_or(Ok(Vec::new()), |s| cpus(&s))?,
            rx_workers,
            rx_rates,
            queues,
            vlans,
            mirrors,
            learning,
            bonds,
            tracking,
            state,
            services,
            poll: options.poll || file.poll.unwrap_or(false),
            dpdk,
            ctl: options.ctl.or(file.ctl),
            flows_max: flows_max.map(|n| n as u32),
            log_changes: options.log_changes.or(file.log_changes),
            ctl_groups,
            replication,
            take_over,
            fleet: options.begun,
            confine,
            confine_paths,
            persist,
            state_interval: some_seconds(state_interval.unwrap_or(60)),
            watchdog: some_seconds(watchdog.unwrap_or(60)),
            punt_rate: bounds::PUNT_RATE
                .pick(options.punt_rate, file.punt_rate)?
                .unwrap_or(100_000),
            engine,
            validate: validate(options.validate.or(file.validate))?,
        })
    }
}

fn queue(text: &str) -> Result<Setting, Failure> {
    Setting::parse(text).map_err(|e| Failure::Usage(format!("--queue {text}: {e}")))
}

fn read(path: &Path) -> Result<File, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Bad(format!("cannot read {}: {e}", path.display())))?;
    parse(&text).map_err(|e| Failure::Bad(format!("{}{e}", path.display())))
}

/// What a file says. The error tells the place and not the line, which may hold a key.
pub(crate) fn parse(text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|e| {
        let before = &text[..e.span().map_or(0, |span| text.floor_char_boundary(span.start))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        format!(":{line}:{column}: {}", catalogue::without_secrets(e.message()))
    })
}

/// `1,2,4-7`
fn cpus(list: &str) -> Result<Vec<usize>, Failure> {
    let most = rustix::thread::CpuSet::MAX_CPU - 1;
    let bad = || {
        Failure::Usage(format!(
            "--cpus {list}: numbers from 0 to {most} and ranges were expected, each processor once, such as 1,2,4-7"
        ))
    };
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (lo, hi) = part.split_once('-').unwrap_or((part, part));
        let number = |s: &str| {
            let s = s.trim();
            let digits = !s.is_empty() && s.bytes().all(|c| c.is_ascii_digit());
            s.parse::<usize>().ok().filter(|n| digits && *n <= most).ok_or_else(bad)
        };
        let (lo, hi) = (number(lo)?, number(hi)?);
        if hi < lo || cpus.iter().any(|cpu| (lo..=hi).contains(cpu)) {
            return Err(bad());
        }
        cpus.extend(lo..=hi);
    }
    Ok(cpus)
}

/// Processors that this process may not run on are refused.
pub(crate) fn check_cpus(cpus: &[usize]) -> Result<(), Failure> {
    if cpus.is_empty() {
        return Ok(());
    }
    let may = rustix::thread::sched_getaffinity(None).map_err(Failure::bad)?;
    match cpus.iter().find(|cpu| !may.is_set(**cpu)) {
        None => Ok(()),
        Some(cpu) => {
            let all = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| may.is_set(*cpu));
            let all: Vec<String> = all.map(|cpu| cpu.to_string()).collect();
            Err(Failure::Usage(format!(
                "--cpus: there is no processor {cpu} that this process may run on; there are {}",
                all.join(",")
            )))
        }
    }
}

/// `1/N`, or `N` alone.
fn validate(text: Option<String>) -> Result<Option<u32>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let every = text.strip_prefix("1/").unwrap_or(&text).parse::<u32>().ok().filter(|n| *n > 0);
    let wrong =
        || Failure::usage(format!("--validate {text}: write 1/N, N from 1 on, as in 1/1000"));
    every.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(failure: Failure) -> String {
        match failure {
            Failure::Bad(text) | Failure::Usage(text) | Failure::Status(_, text) => text,
        }
    }

    #[test]
    fn options_add_to_the_file_and_override_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.toml");
        std::fs::write(
            &path,
            "port = [\"memory:a\"]\ndatapath-id = \"1\"\nworkers = 2\ncpus = \"0,2-3\"\n",
        )
        .unwrap();
        let options = Options {
            config: Some(path),
            ports: vec!["b:7=memory:b".into()],
            datapath_id: Some("00:00:00:00:00:00:00:ff".into()),
            ..Options::default()
        };
        let config = Config::new(options).unwrap();
        assert_eq!(config.ports.len(), 2);
        assert_eq!(config.ports[1].number, Some(7));
        assert_eq!(config.datapath_id, Some(255));
        assert_eq!((config.workers, config.cpus), (2, vec![0, 2, 3]));
    }

    #[test]
    fn errors_say_what_was_expected() {
        assert_eq!(
            text(datapath_id("xyz").unwrap_err()),
            "--datapath-id xyz: up to 16 hexadecimal digits were expected"
        );
        assert_eq!(
            text(protocols("OpenFlow9").unwrap_err()),
            "--protocols: OpenFlow9 is not one of OpenFlow10, OpenFlow13, OpenFlow14, OpenFlow15"
        );
        assert!(text(cpus("3-1").unwrap_err()).contains("1,2,4-7"));
        let synchronised = vec!["0:1".into()];
        assert_eq!(
            text(Config::new(Options { synchronised, ..Options::default() }).unwrap_err()),
            "--synchronise: synchronised table 0:1: write TABLE=SOURCE[,INSTRUCTIONS], as in 0=1,goto_table:1"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.toml");
        std::fs::write(&path, "prot = []\n").unwrap();
        let error =
            text(Config::new(Options { config: Some(path), ..Options::default() }).unwrap_err());
        assert!(error.contains("unknown field `prot`"), "{error}");
    }
}
