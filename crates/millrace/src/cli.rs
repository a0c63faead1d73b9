//! The command line.

mod config;
mod conntrack;
mod events;
mod flows;
mod observe;
mod replication;
mod save;
mod service;
mod to;
mod top;
mod upgrade;

pub(crate) use config::{ConfigCommand, ConfigOptions};
pub(crate) use conntrack::{Chosen, ConntrackCommand, ConntrackOptions, CountBy};
pub(crate) use events::EventsOptions;
pub(crate) use flows::{FlowOrder, FlowsOptions, GroupsOptions, MetersOptions};
pub(crate) use observe::ObserveOptions;
pub(crate) use replication::{ReplicationCommand, ReplicationOptions, UpgradeOrder};
pub(crate) use save::SaveOptions;
pub(crate) use service::{ServiceCommand, ServiceOptions};
pub(crate) use to::To;
pub(crate) use top::TopOptions;
pub(crate) use upgrade::UpgradeOptions;

use clap::{Args, Parser, Subcommand, ValueEnum};
use control::engine::EngineName;
use control::logging::LogFormat;
use control::port_kinds;
use control::program::p4_file::P4Source;
use std::path::PathBuf;

/// A software switch that compiles what its controller programs.
#[derive(Parser, Debug)]
#[command(name = "millrace", version, about, propagate_version = true)]
pub(crate) struct Cli {
    /// Log format on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Logfmt)]
    pub(crate) log: LogFormat,
    /// Log more; twice, much more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show a switch at work: in-process hosts and traffic, no privilege, no network
    Demo(DemoOptions),
    /// Run the switch, in the foreground
    Run(Box<control::config::Options>),
    /// Run the switch in place of ovs-vswitchd, configured by Open vSwitch's database
    Vswitchd(crate::vswitchd::VswitchdOptions),
    /// Show what happens to a packet, step by step
    Trace(TraceOptions),
    /// Show counters of a running switch
    Stats(QueryOptions),
    /// Show how each table is looked up, and why
    Explain(ExplainOptions),
    /// Print a stage of the compiled pipeline
    Dump(DumpOptions),
    /// Show frames of a running switch, with what became of them
    Capture(CaptureOptions),
    /// Show verdicts of frames as they come in, sampled, chosen by a match, a reason, or all
    Observe(ObserveOptions),
    /// Show what a running switch does, live: ports, flow entries, tables, drops, workers, connections
    Top(TopOptions),
    /// Show or change the egress queues of a running switch's ports
    Queue(QueueOptions),
    /// Show, add, change or remove bridges of a running process
    Bridge(BridgeOptions),
    /// Show, add, remove or renumber ports of a running switch
    Port(PortOptions),
    /// Show, add or remove the mirrors of a running process's bridges
    Mirror(MirrorOptions),
    /// Show, add or remove the bonds of a running process's bridges
    Bond(BondOptions),
    /// Check a configuration file, apply it to a running switch, take it back
    Config(ConfigOptions),
    /// Show the group whose members go on for each other, and who of it forwards
    Replication(ReplicationOptions),
    /// Write what runs as files that start it again
    Save(SaveOptions),
    /// Replace the binary of a running switch without losing a connection
    Upgrade(UpgradeOptions),
    /// Show what has happened: changes and who made them, links, controllers, warnings
    Events(EventsOptions),
    /// Show flow entries with their counters and rates
    Flows(FlowsOptions),
    /// Show groups with their buckets and counters
    Groups(GroupsOptions),
    /// Show meters with their bands and counters
    Meters(MetersOptions),
    /// Show or forget the addresses that NORMAL has learnt
    Stations(StationsOptions),
    /// Show, forget, export or import the connections that a running switch knows
    Conntrack(ConntrackOptions),
    /// Add, remove or show the services that flows of a running switch name
    Service(ServiceOptions),
    /// Run filetests (.mill)
    Test(TestOptions),
    /// Say what this machine lacks for each kind of port, and the command that mends it
    Doctor(DoctorOptions),
    /// Measure what a pipeline costs a packet
    Bench(bench::options::BenchOptions),
    /// Look into P4-16 programs
    P4(P4Options),
    /// Run p4c's packet tests (.stf) on a P4 program
    Stf(StfOptions),
    /// Measure an OpenFlow switch, of whatever make, through its control channel and data ports
    Gauge(GaugeOptions),
    /// Do what a program of bmv2's or p4c's does, as a link with its name to this binary would: p4c-bm2-ss, p4c,
    /// simple_switch_grpc, simple_switch_CLI
    #[command(disable_help_flag = true)]
    StandIn {
        /// Which program
        name: String,
        /// Its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Write the manual pages, one for each command
    Man {
        /// The folder; it is made if it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print a shell's completions
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

impl Source {
    /// As it is asked.
    pub(crate) fn whom(&self) -> control::client::To<'_> {
        control::client::To { ctl: self.ctl.as_deref(), bridge: self.bridge.as_deref() }
    }
}

/// `millrace capture`.
#[derive(Args, Debug)]
pub(crate) struct CaptureOptions {
    /// Frames that come in by this port, or go out by it
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u32>,
    /// Which of them
    #[arg(long, value_enum, default_value_t = CaptureDirection::Both)]
    pub(crate) direction: CaptureDirection,
    /// Frames that are looked up in this table, as they came in, with what they hit
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// Frames that are dropped, or of which a copy is, as they came in, with the entries that they hit
    #[arg(long, conflicts_with = "direction")]
    pub(crate) dropped: bool,
    /// Of those of the table, the ones that hit an entry with this cookie, decimal or 0x hexadecimal
    #[arg(long, value_name = "COOKIE", requires = "table", value_parser = number)]
    pub(crate) entry: Option<u64>,
    /// Write pcapng here; without it, pcapng goes to standard output, or lines to a terminal
    #[arg(long, value_name = "FILE")]
    pub(crate) pcapng: Option<PathBuf>,
    /// Write lines to standard output, a terminal or not: when, port, frame, and what became of it
    #[arg(long, conflicts_with = "pcapng")]
    pub(crate) text: bool,
    /// Stop after so many frames
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Bytes kept of each frame
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    pub(crate) snap_len: usize,
    #[command(flatten)]
    pub(crate) to: To,
}

/// `millrace queue`.
#[derive(Args, Debug)]
pub(crate) struct QueueOptions {
    /// What to do; without it, show
    #[command(subcommand)]
    pub(crate) command: Option<QueueCommand>,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// What to do with queues.
#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// Show all queues with what they sent and dropped
    Show,
    /// Set queues, or ports' rates, as `run --queue` does; all of them or none
    Set {
        /// PORT[:ID],OPTION=VALUE...: min, max, priority, weight, burst, limit
        #[arg(required = true, value_name = "SETTING")]
        settings: Vec<String>,
    },
    /// Take all queues of a port away, and its rate
    Clear {
        /// By name or number
        #[arg(required = true, value_name = "PORT")]
        ports: Vec<String>,
    },
}

/// `millrace bridge`.
#[derive(Args, Debug)]
pub(crate) struct BridgeOptions {
    /// What to do; without it, show
    #[command(subcommand)]
    pub(crate) command: Option<BridgeCommand>,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Control socket of the running process
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) ctl: Option<PathBuf>,
}

/// What to do with bridges.
#[derive(Subcommand, Debug)]
pub(crate) enum BridgeCommand {
    /// Show all bridges with their ports and controllers
    Show,
    /// Add a bridge without ports
    Add(NewBridge),
    /// Change what is said here of a bridge; its entries and ports stay
    Set(NewBridge),
    /// Remove a bridge, and close its ports
    Remove {
        /// Its name
        name: String,
    },
}

/// A bridge to be added, or what is to change.
#[derive(Args, Debug)]
pub(crate) struct NewBridge {
    /// Its name
    pub(crate) name: String,
    /// Datapath id, up to 16 hexadecimal digits [default: made of the name]
    #[arg(long, value_name = "HEX")]
    pub(crate) datapath_id: Option<String>,
    /// A controller to connect to: tcp:HOST[:PORT], tls:HOST[:PORT]
    #[arg(long = "controller", value_name = "TARGET")]
    pub(crate) controllers: Vec<String>,
    /// Where to listen for controllers: ptcp:[PORT][:ADDR], pssl:[PORT][:ADDR], punix:PATH
    #[arg(long = "listen", value_name = "TARGET")]
    pub(crate) listeners: Vec<String>,
    /// Where to show all OpenFlow messages to `ovs-ofctl snoop`
    #[arg(long, value_name = "PATH")]
    pub(crate) snoop: Option<PathBuf>,
    /// What happens while no controller is connected: secure, standalone
    #[arg(long, value_name = "MODE")]
    pub(crate) fail_mode: Option<String>,
    /// OpenFlow versions to speak, separated by commas
    #[arg(long, value_name = "LIST")]
    pub(crate) protocols: Option<String>,
    /// How NORMAL learns and floods: flood-vlans=N,N, mac-table-size=N, mac-aging-time=SECONDS, vlan-limit=N, forward-bpdu
    #[arg(long, value_name = "WORD...")]
    pub(crate) normal: Option<String>,
}

/// `millrace port`.
#[derive(Args, Debug)]
pub(crate) struct PortOptions {
    /// What to do; without it, show
    #[command(subcommand)]
    pub(crate) command: Option<PortCommand>,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// What to do with ports.
#[derive(Subcommand, Debug)]
pub(crate) enum PortCommand {
    /// Show the ports of the bridge that is named, or of all
    Show,
    /// Add ports, while packets pass
    Add {
        /// As for `run --port`
        #[arg(
            required = true,
            value_name = "[NAME[:NUMBER]=]SPEC",
            long_help = port_kinds::help("As for `run --port`")
        )]
        ports: Vec<String>,
        /// VLANs of all of them under NORMAL: vlan=N, trunk=N,N, with mode=, cvlans=, tag-type=, priority-tags=, protected
        #[arg(long, value_name = "WORDS")]
        vlan: Option<String>,
    },
    /// Set a port's VLANs under NORMAL
    Vlan {
        /// By name
        port: String,
        /// vlan=N, trunk=N,N, with mode=, cvlans=, tag-type=, priority-tags=, protected; trunk for all VLANs
        words: String,
    },
    /// Remove ports
    Remove {
        /// By name
        #[arg(required = true, value_name = "PORT")]
        ports: Vec<String>,
    },
    /// Put ports up
    Up {
        /// By name
        #[arg(required = true, value_name = "PORT")]
        ports: Vec<String>,
    },
    /// Put ports down: nothing is received and nothing is sent
    Down {
        /// By name
        #[arg(required = true, value_name = "PORT")]
        ports: Vec<String>,
    },
    /// Give a port another number
    Number {
        /// By name
        port: String,
        /// The number, or LOCAL
        number: String,
    },
}

/// `millrace mirror`.
#[derive(Args, Debug)]
pub(crate) struct MirrorOptions {
    /// What to do; without it, show
    #[command(subcommand)]
    pub(crate) command: Option<MirrorCommand>,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// What to do with mirrors.
#[derive(Subcommand, Debug)]
pub(crate) enum MirrorCommand {
    /// Show the mirrors of the bridge that is named, or of all, and what they have copied
    Show,
    /// Add mirrors, while packets pass
    Add {
        /// NAME,all or NAME,src=PORT,dst=PORT, with vlans=, length=, and to=PORT or to-vlan=N
        #[arg(required = true, value_name = "NAME,WORD...")]
        mirrors: Vec<String>,
    },
    /// Remove mirrors
    Remove {
        /// By name
        #[arg(required = true, value_name = "MIRROR")]
        mirrors: Vec<String>,
    },
}

/// `millrace bond`.
#[derive(Args, Debug)]
pub(crate) struct BondOptions {
    /// What to do; without it, show
    #[command(subcommand)]
    pub(crate) command: Option<BondCommand>,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// What to do with bonds.
#[derive(Subcommand, Debug)]
pub(crate) enum BondCommand {
    /// Show the bonds of the bridge that is named, or of all, with their active members
    Show,
    /// Add bonds, while packets pass
    Add {
        /// NAME,members=PORT,PORT, with mode=, lacp=, updelay=, downdelay=, and keys of bond- and lacp-
        #[arg(required = true, value_name = "NAME,WORD...")]
        bonds: Vec<String>,
    },
    /// Remove bonds; their ports are ports as any other then
    Remove {
        /// By name
        #[arg(required = true, value_name = "BOND")]
        bonds: Vec<String>,
    },
}

/// `millrace stations`.
#[derive(Args, Debug)]
pub(crate) struct StationsOptions {
    /// Forget them first
    #[arg(long)]
    pub(crate) flush: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// Which way frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CaptureDirection {
    /// Those that come in, before anything was done with them
    In,
    /// Those that go out, as they are handed to the port
    Out,
    /// All
    Both,
}

/// A number, decimal or hexadecimal.
fn number(text: &str) -> Result<u64, std::num::ParseIntError> {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16))
}

/// `millrace demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoOptions {
    /// Which one
    #[arg(value_enum, default_value_t = DemoName::Gateway)]
    pub(crate) name: DemoName,
    /// Stop after so many seconds; without it, run until q or Ctrl-C
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Print figures once a second in place of the live view
    #[arg(long)]
    pub(crate) headless: bool,
    /// One JSON object with the totals at the end, on standard output (implies --headless)
    #[arg(long)]
    pub(crate) json: bool,
    /// Make network namespaces and let real hosts ping through the switch (needs root)
    #[arg(long)]
    pub(crate) namespaces: bool,
    /// Print the flow entries, in ovs-ofctl's syntax, and end
    #[arg(long)]
    pub(crate) print_flows: bool,
}

/// Demonstrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoName {
    /// An access gateway: 10 customers of 20 users, 10,000 routes
    Gateway,
    /// A firewall
    Firewall,
    /// A learning switch
    Learning,
}

impl DemoName {
    /// As it is written on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            DemoName::Gateway => "gateway",
            DemoName::Firewall => "firewall",
            DemoName::Learning => "learning",
        }
    }
}

/// `millrace stats`.
#[derive(Args, Debug)]
pub(crate) struct QueryOptions {
    #[command(flatten)]
    pub(crate) to: To,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to look into: a running switch, or files.
#[derive(Args, Debug)]
pub(crate) struct Source {
    /// Control socket of the running switch
    #[arg(long, value_name = "PATH", conflicts_with_all = ["flows", "groups", "meters", "p4"])]
    pub(crate) ctl: Option<PathBuf>,
    /// Which of its bridges [default: the first one]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["flows", "groups", "meters", "p4"])]
    pub(crate) bridge: Option<String>,
    /// Look into these flow entries in place of a running switch
    #[arg(long = "flows", value_name = "FILE", conflicts_with = "p4")]
    pub(crate) flows: Vec<PathBuf>,
    /// With these groups
    #[arg(long = "groups", value_name = "FILE", conflicts_with = "p4")]
    pub(crate) groups: Vec<PathBuf>,
    /// And these meters
    #[arg(long = "meters", value_name = "FILE", conflicts_with = "p4")]
    pub(crate) meters: Vec<PathBuf>,
    /// Look into this P4 program in place of a running switch
    #[arg(long, value_name = "FILE.p4")]
    pub(crate) p4: Option<PathBuf>,
    /// With these entries, in the manner of simple_switch_CLI
    #[arg(long, value_name = "FILE", requires = "p4")]
    pub(crate) entries: Option<PathBuf>,
}

/// `millrace explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainOptions {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Only this table
    #[arg(value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace dump`.
#[derive(Args, Debug)]
pub(crate) struct DumpOptions {
    /// Which one
    #[arg(long, value_enum, default_value_t = Stage::Plan)]
    pub(crate) stage: Stage,
    #[command(flatten)]
    pub(crate) source: Source,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `--stage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// The pipeline as the controller wrote it
    Ir,
    /// Rewritten for what its tables hold
    Opt,
    /// How tables are looked up, and where packets leave the code
    Plan,
    /// The code generator's input
    Clif,
    /// Machine code
    Asm,
}

impl Stage {
    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Stage::Ir => "ir",
            Stage::Opt => "opt",
            Stage::Plan => "plan",
            Stage::Clif => "clif",
            Stage::Asm => "asm",
        }
    }
}

/// `millrace trace`.
#[derive(Args, Debug)]
pub(crate) struct TraceOptions {
    /// The packet: hexadecimal bytes, or ovs-ofctl's match syntax (in_port=1,tcp,nw_dst=10.0.0.1)
    pub(crate) packet: String,
    /// The port it comes in by, if the packet does not say
    #[arg(long, value_name = "N")]
    pub(crate) in_port: Option<u32>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace test`.
#[derive(Args, Debug)]
pub(crate) struct TestOptions {
    /// Files, or folders of them
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Rewrite the expectations to what happened (as BLESS=1 in the environment)
    #[arg(long)]
    pub(crate) bless: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorOptions {
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace p4`.
#[derive(Args, Debug)]
pub(crate) struct P4Options {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: P4Command,
}

/// What can be done with P4 programs.
#[derive(Subcommand, Debug)]
pub(crate) enum P4Command {
    /// Say what is wrong with a program, and what would be right
    Check(P4CheckOptions),
    /// Compile a program and print it in the pipeline language
    Build(P4BuildOptions),
    /// Compile a program and print its P4Info: what a P4Runtime client needs to know of it
    Info(P4InfoOptions),
    /// Tables, entries, groups, registers of a running switch by name, in the manner of simple_switch_CLI
    Do(P4DoOptions),
    /// The commands of `p4 do` at a prompt, with help and completion; without a terminal, line by line
    Shell(P4ShellOptions),
    /// Put another program into a running switch; entries of tables that are the same come along
    Load(P4LoadOptions),
}

/// `millrace p4 info`.
#[derive(Args, Debug)]
pub(crate) struct P4InfoOptions {
    #[command(flatten)]
    pub(crate) source: P4Source,
    /// Write it to this file
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Protocol buffer bytes in place of text
    #[arg(long)]
    pub(crate) binary: bool,
}

/// `millrace p4 do`.
#[derive(Args, Debug)]
pub(crate) struct P4DoOptions {
    /// The command, as in: show_tables; table_dump routes; table_add routes route 10.0.0.0/8 => 2
    #[arg(required_unless_present = "file", allow_hyphen_values = true, trailing_var_arg = true)]
    pub(crate) words: Vec<String>,
    /// Commands from a file, a line each, or a runtime.json of the tutorials; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "words")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) to: To,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace p4 shell`.
#[derive(Args, Debug)]
pub(crate) struct P4ShellOptions {
    #[command(flatten)]
    pub(crate) to: To,
    /// Where lines are kept for the next time, or none [default: millrace/p4_history in the user's state folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
}

/// `millrace p4 load`.
#[derive(Args, Debug)]
pub(crate) struct P4LoadOptions {
    #[command(flatten)]
    pub(crate) source: P4Source,
    #[command(flatten)]
    pub(crate) to: To,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace p4 check`.
#[derive(Args, Debug)]
pub(crate) struct P4CheckOptions {
    #[command(flatten)]
    pub(crate) source: P4Source,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace p4 build`.
#[derive(Args, Debug)]
pub(crate) struct P4BuildOptions {
    #[command(flatten)]
    pub(crate) source: P4Source,
    /// Write to this file in place of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `millrace stf`.
#[derive(Args, Debug)]
pub(crate) struct StfOptions {
    #[command(flatten)]
    pub(crate) source: P4Source,
    /// Packet tests
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Only on this engine [default: on all]
    #[arg(long, value_enum)]
    pub(crate) engine: Option<EngineName>,
    /// Bytes that check_counter compares count each packet's frame check sequence, as hardware's do
    #[arg(long)]
    pub(crate) check_sequence: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace gauge`.
#[derive(Args, Debug)]
pub(crate) struct GaugeOptions {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: GaugeCommand,
}

/// What can be done about a switch.
#[derive(Subcommand, Debug)]
pub(crate) enum GaugeCommand {
    /// Measure a switch; this removes all its flow entries. Exit status: 0 good; 1 found wanting: a finding, or a broken
    /// bound; 2 wrong usage; 3 the switch failed: not reached, channel closed, no answer; 4 undecided: a run or the
    /// calibration stayed disturbed, or a port or file of ours failed; 5 interrupted. In all but 2 the report is written
    Run(Box<GaugeRunOptions>),
    /// Draw reports as one page of plots and tables; several are laid over each other
    Page(GaugePageOptions),
    /// Lay reports of two sides next to each other. A difference is claimed only where three repetitions a side show it
    /// (`gauge run --repeat`, or several reports). Exit status: 0 nothing differs, 1 something does, 4 nothing could be judged
    Compare(GaugeCompareOptions),
    /// Measure the instrument only: what it costs, and whether it keeps up with a rate
    Calibrate(GaugeCalibrateOptions),
    /// List the modules
    Modules,
}

/// `millrace gauge page`.
#[derive(Args, Debug)]
pub(crate) struct GaugePageOptions {
    /// Reports that `gauge run --out` has written
    #[arg(required = true, value_name = "REPORT")]
    pub(crate) reports: Vec<PathBuf>,
    /// Where the page goes
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// `millrace gauge compare`.
#[derive(Args, Debug)]
pub(crate) struct GaugeCompareOptions {
    /// Two reports that `gauge run --out` has written; with --against, all those of one side
    #[arg(required = true, value_name = "REPORT")]
    pub(crate) reports: Vec<PathBuf>,
    /// The reports that they are compared with, where a side has several
    #[arg(long, value_name = "REPORT", num_args = 1..)]
    pub(crate) against: Vec<PathBuf>,
    /// Draw all as one page, too
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// `millrace gauge calibrate`.
#[derive(Args, Debug)]
pub(crate) struct GaugeCalibrateOptions {
    /// A port that is joined to the other one so given; without them a cable in this process serves
    #[arg(long, value_name = "SPEC")]
    pub(crate) loopback: Vec<String>,
    /// Probes a second
    #[arg(long, value_name = "N", default_value_t = 5000.0)]
    pub(crate) rate: f64,
    /// Probes
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) probes: u32,
    /// Arguments for DPDK itself, as one word; used where a port is of the kind dpdk
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) eal: Option<String>,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `millrace gauge run`.
#[derive(Args, Debug)]
pub(crate) struct GaugeRunOptions {
    /// The switch, as its controller reaches it: tcp:HOST[:PORT] or tls:HOST[:PORT], or ptcp:[PORT][:ADDR] or
    /// pssl:[PORT][:ADDR] to wait for it
    #[arg(long, value_name = "TARGET")]
    pub(crate) switch: String,
    /// Our private key for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) private_key: Option<PathBuf>,
    /// Our certificate for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The certificate of who signs the switch's, in PEM
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// A module of your own, a script in Lua (see docs/gauge.md); repeatable. With scripts and without --module only
    /// they are run
    #[arg(long = "script", value_name = "FILE")]
    pub(crate) scripts: Vec<PathBuf>,
    /// A port of this machine that is wired to the switch, twice: where probes go in, then where they
    /// come out; NUMBER is the switch's port at the other end [default: 1, then 2]
    #[arg(long = "port", value_name = "[NAME[:NUMBER]=]SPEC", required = true)]
    pub(crate) ports: Vec<String>,
    /// A port that is joined to the other one so given, to calibrate by; without them a cable in this
    /// process serves, which leaves out what real ports cost
    #[arg(long, value_name = "SPEC")]
    pub(crate) loopback: Vec<String>,
    /// Capture only frames that this passes, in tcpdump's language (pcap-filter(7)); the others are as if they had not
    /// come out
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,
    /// Write the captured frames to a pcap file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Arguments for DPDK itself, as one word; used where a port is of the kind dpdk
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) eal: Option<String>,
    /// Run this module only; repeatable [default: all, see `millrace gauge modules`]
    #[arg(long = "module", value_name = "NAME")]
    pub(crate) modules: Vec<String>,
    /// OpenFlow versions to offer, separated by commas
    #[arg(
        long,
        value_name = "LIST",
        default_value = "OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15"
    )]
    pub(crate) protocols: String,
    /// Probes a second
    #[arg(long, value_name = "N", default_value_t = 5000.0)]
    pub(crate) rate: f64,
    /// Probes of a run
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) probes: u32,
    /// How they follow each other: constant, poisson, burst:N
    #[arg(long, value_name = "KIND", default_value = "constant")]
    pub(crate) arrivals: String,
    /// Lengths of frames with their check sequence, in bytes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64,512,1518")]
    pub(crate) sizes: Vec<usize>,
    /// How many rules are added at once
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,10,100")]
    pub(crate) batches: Vec<u32>,
    /// How often each batch is added to look at barriers
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) rounds: u32,
    /// More rates at which frames are forwarded, beside --rate
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) more_rates: Vec<f64>,
    /// Probes of the long run that looks for rare losses
    #[arg(long, value_name = "N", default_value_t = 120_000)]
    pub(crate) loss_probes: u32,
    /// How many of them a second
    #[arg(long, value_name = "N", default_value_t = 20_000.0)]
    pub(crate) loss_rate: f64,
    /// The highest rate that searches try, in frames a second
    #[arg(long, value_name = "N", default_value_t = 200_000.0)]
    pub(crate) max_rate: f64,
    /// The share of loss that the second search bears
    #[arg(long, value_name = "SHARE", default_value_t = 0.005)]
    pub(crate) loss_goal: f64,
    /// How long each trial of a search takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub(crate) trial_ms: u32,
    /// How many rules are in the table before others are added
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "10,1000,10000")]
    pub(crate) occupancies: Vec<u32>,
    /// Active flows, to find the limits of flow caches
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,100,10000,1000000")]
    pub(crate) active_flows: Vec<u32>,
    /// Masks that the traffic takes in a wildcard cache
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4,16,64")]
    pub(crate) masks: Vec<u32>,
    /// Traffic to be forwarded: FIELD=VALUE or FIELD=LOW-HIGH, separated by commas (see docs/gauge.md);
    /// repeatable
    #[arg(long = "flow", value_name = "DESCRIPTION")]
    pub(crate) flows: Vec<String>,
    /// Frames to be forwarded, from a capture file; repeatable
    #[arg(long = "trace", value_name = "FILE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Times between the frames of a trace: original, faster:F for a F-th of them, or rate for --rate
    #[arg(long, value_name = "KIND", default_value = "original")]
    pub(crate) gaps: String,
    /// A shell command that restarts the switch, for the module restart
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart: Option<String>,
    /// The switch's process on this machine, to tell its processor load
    #[arg(long, value_name = "PID")]
    pub(crate) switch_pid: Option<u32>,
    /// How often all modules are asked, one round after the other; three or more let `gauge compare` claim differences
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u32,
    /// How often a disturbed run is tried
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) attempts: u32,
    /// Draw the report as one page, too
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the verdict as JUnit XML, too
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// What random choices begin from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// A bound on a figure, as in forwarding.latency_p99_us=500; exit status 1 if it is broken; repeatable
    #[arg(long, value_name = "MODULE.FIGURE=MAX")]
    pub(crate) at_most: Vec<String>,
    /// Write the report to a file, as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// One JSON object on standard output, in place of the table
    #[arg(long)]
    pub(crate) json: bool,
}
