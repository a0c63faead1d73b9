//! What `millrace bench` and `millrace-bench` take.

use clap::{Args, Subcommand};
use control::engine::EngineName;
use std::path::PathBuf;

/// `millrace bench`.
#[derive(Args, Debug)]
pub struct BenchOptions {
    /// What to do
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// Benches.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Replay traces from memory through a pipeline, ports left out
    Pipeline(Box<BenchPipelineOptions>),
    /// Write a use case's flow entries and traffic to files
    UseCase(BenchUseCaseOptions),
    /// Time every action, instruction, group, meter and extern beside plain output, and say what runs its packets
    Constructs(BenchConstructsOptions),
    /// Time P4 programs with their packet tests, each beside as many plain tables as its packets go through
    Samples(BenchSamplesOptions),
    /// Time a controller's changes, one new flow after another, beside traffic
    Reactive(BenchReactiveOptions),
    /// Flood the gateway with unknown users, of whom a controller hears, beside known ones
    Flood(BenchFloodOptions),
    /// Look headers up among rules in ClassBench's form, by one lookup structure or another
    Classify(Box<BenchClassifyOptions>),
    /// Measure what lookups and edits cost on this machine, for plans and predictions
    Calibrate(BenchCalibrateOptions),
    /// Time writes and reads of P4Runtime, in turns with a server that only decodes and answers
    P4runtime(BenchP4RuntimeOptions),
    /// Time bridges in a row, joined by patch ports
    Patch(BenchPatchOptions),
    /// Time packets into a tunnel and out of it, beside two bridges with a patch port
    Tunnels(BenchTunnelsOptions),
    /// Forward between AF_XDP ports on veth, in turns with a bare AF_XDP forwarding loop; needs root
    Xdp(BenchXdpOptions),
}

/// `millrace bench constructs`.
#[derive(Args, Debug)]
pub struct BenchConstructsOptions {
    /// Only of one language
    #[arg(long, value_enum)]
    pub language: Option<crate::Language>,
    /// Only those whose name has this in it
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Length of each run
    #[arg(long, value_name = "S", default_value_t = 0.02)]
    pub seconds: f64,
    /// Runs; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// Time nothing; fail if the interpreter has run a packet
    #[arg(long)]
    pub check: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench samples`.
#[derive(Args, Debug)]
pub struct BenchSamplesOptions {
    /// P4 programs, or folders of them; packets and entries come from FILE.stf or FILE.txt beside FILE.p4, or are drawn
    #[arg(value_name = "FILE.p4|FOLDER", required = true)]
    pub programs: Vec<PathBuf>,
    /// Only those whose path has this in it
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Length of each run
    #[arg(long, value_name = "S", default_value_t = 0.02)]
    pub seconds: f64,
    /// Runs; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// How many times the plain tables' time a program may take
    #[arg(long, value_name = "RATIO", default_value_t = 3.0)]
    pub most: f64,
    /// Fail if a program takes more, or the interpreter has run a packet
    #[arg(long)]
    pub check: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench p4runtime`.
#[derive(Args, Debug)]
pub struct BenchP4RuntimeOptions {
    /// Entries that are written and read
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub entries: u32,
    /// Runs; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// Fail if a bound is not held
    #[arg(long)]
    pub check: bool,
    /// Instead, replace the program so often under traffic and writes, and fail if anything is lost
    #[arg(long, value_name = "N", conflicts_with = "check")]
    pub swaps: Option<u32>,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench patch`.
#[derive(Args, Debug)]
pub struct BenchPatchOptions {
    /// Flows that take turns
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub flows: u32,
    /// Runs; figures are medians
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub runs: usize,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench tunnels`.
#[derive(Args, Debug)]
pub struct BenchTunnelsOptions {
    /// Flows that take turns
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub flows: u32,
    /// Only tunnels whose name has this in it
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Run one way alone, and time nothing: for a profiler
    #[arg(long, value_enum)]
    pub way: Option<crate::Way>,
    /// Octets of a frame before it goes into a tunnel
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub octets: usize,
    /// Runs; figures are medians
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub runs: usize,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench reactive`.
#[derive(Args, Debug)]
pub struct BenchReactiveOptions {
    /// New flows a second, each a flow-mod, a barrier and a packet-out
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub rate: u64,
    /// The newest flows stay, so many; older ones are deleted as new ones come [default: all stay]
    #[arg(long, value_name = "N")]
    pub keep: Option<u32>,
    /// Flows of the traffic beside, each with an entry
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub flows: u32,
    /// Frames a second of that traffic; 0 for as many as are taken
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub pps: u64,
    /// What runs packets
    #[arg(long, value_enum)]
    pub engine: Option<EngineName>,
    /// Length of each run
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub seconds: f64,
    /// Runs with changes, and as many without
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

impl BenchReactiveOptions {
    /// Frames a second of the traffic beside; none for as many as are taken.
    pub fn traffic(&self) -> Option<u64> {
        (self.pps > 0).then_some(self.pps)
    }
}

/// `millrace bench flood`.
#[derive(Args, Debug)]
pub struct BenchFloodOptions {
    /// The gateway: customers, users of each, routes
    #[arg(value_name = "CxU,R", default_value = "10x20,10000")]
    pub gateway: String,
    /// Flows of known users
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub active_flows: usize,
    /// Frames a second of known users
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub pps: u64,
    /// Copies for the controller a second, at most
    #[arg(long, value_name = "N", default_value_t = datapath::punt::RATE_DEFAULT)]
    pub punt_rate: u64,
    /// Length of each run
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub seconds: f64,
    /// Runs with the flood, and as many without
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// Fail if known users lose more than 5 % or a packet was interpreted
    #[arg(long)]
    pub check: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench xdp`.
#[derive(Args, Debug)]
pub struct BenchXdpOptions {
    /// Frames that circulate
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub frames: usize,
    /// Bytes of a frame
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub len: usize,
    /// Length of each run
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub seconds: f64,
    /// Runs; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench pipeline`.
#[derive(Args, Debug)]
pub struct BenchPipelineOptions {
    /// Flow entries, in ovs-ofctl's syntax
    #[arg(long, value_name = "FILE", conflicts_with_all = ["use_case", "p4"])]
    pub flows: Option<PathBuf>,
    /// Groups that the flow entries name, in ovs-ofctl's syntax
    #[arg(long = "groups", value_name = "FILE", requires = "flows")]
    pub groups: Vec<PathBuf>,
    /// Meters that the flow entries name, in ovs-ofctl's syntax
    #[arg(long = "meters", value_name = "FILE", requires = "flows")]
    pub meters: Vec<PathBuf>,
    /// A built-in use case: l2:N, l3:N, lb:N, gateway:CxU,R, firewall:N, softflow:a|b|c|d:N
    #[arg(long, value_name = "NAME[:PARAMETERS]", conflicts_with = "p4")]
    pub use_case: Option<String>,
    /// A service for entries to name in softflow(NAME,ARG): "NAME KIND [KEY=VALUE...]"
    #[arg(long = "service", value_name = "SERVICE")]
    pub services: Vec<String>,
    /// Leave a rewrite of the program out: unroll, narrow, ...
    #[arg(long, value_name = "PASS")]
    pub without: Vec<String>,
    /// A P4 program
    #[arg(long, value_name = "FILE")]
    pub p4: Option<PathBuf>,
    /// Entries of the P4 program
    #[arg(long, value_name = "FILE", requires = "p4")]
    pub entries: Option<PathBuf>,
    /// A capture to replay, and the port that its frames come in by [default: 1]
    #[arg(long, value_name = "[PORT=]FILE")]
    pub trace: Vec<String>,
    /// Flows that the use case's traffic is made of
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub active_flows: usize,
    /// Ports that the switch has, for entries that flood
    #[arg(long, value_name = "N")]
    pub ports: Option<u32>,
    /// The engine
    #[arg(long, value_enum, default_value_t = EngineName::Jit)]
    pub engine: EngineName,
    /// Length of each run
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub seconds: f64,
    /// Runs; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: usize,
    /// Time the entries without second passes behind services, as they are, and with second passes in full, so many turns
    #[arg(long, conflicts_with_all = ["limit", "attack", "updates", "check", "edits"])]
    pub stages: bool,
    /// Run the use case's hand-written loop, too, in turns with the engine
    #[arg(long)]
    pub limit: bool,
    /// Send hostile traffic, too, in turns with the use case's
    #[arg(long, value_enum, value_name = "NAME")]
    pub attack: Option<crate::Attack>,
    /// Change the gateway's routes so often a second, in turns with leaving them alone
    #[arg(long, value_name = "RATE")]
    pub updates: Option<u64>,
    /// Look at so many frames of the gateway while it is changed: each must show one version
    #[arg(long, value_name = "FRAMES")]
    pub check: Option<u64>,
    /// Change an entry of the smallest table while frames flow, and tell how soon it is live
    #[arg(long)]
    pub edits: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench classify`.
#[derive(Args, Debug)]
pub struct BenchClassifyOptions {
    /// Rules in ClassBench's form, the first that matches wins; FILE.xz is unpacked by xz
    #[arg(long, value_name = "FILE")]
    pub rules: PathBuf,
    /// Headers to look up: five decimals a line, and maybe the rule's index [default: drawn from the rules]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The structure: auto, tuple_merge, tuple_merge_offline, tuple_space, partition_sort, linear, ...
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub algorithm: String,
    /// Time updates, too: half of the rules loaded, then 500,000 inserts and as many removals
    #[arg(long)]
    pub updates: bool,
    /// Look up beside a writer on another core that applies so many updates a second, in turns with none
    #[arg(long, value_name = "RATE")]
    pub beside: Option<u64>,
    /// Compare so many lookups with tuple space search, an update after each burst
    #[arg(long, value_name = "LOOKUPS")]
    pub soak: Option<u64>,
    /// Headers to draw, if there is no trace
    #[arg(long, value_name = "N", default_value_t = crate::classify::HEADERS, conflicts_with = "trace")]
    pub headers: usize,
    /// Bench so many rules made afresh, in the likeness of the file's
    #[arg(long, value_name = "RULES")]
    pub fresh: Option<usize>,
    /// What random choices begin from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Runs; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// Write the rules to a file, as lines
    #[arg(long, value_name = "FILE")]
    pub write_rules: Option<PathBuf>,
    /// Write the headers to a file, and the rules that they meet
    #[arg(long, value_name = "FILE")]
    pub write_trace: Option<PathBuf>,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench calibrate`.
#[derive(Args, Debug)]
pub struct BenchCalibrateOptions {
    /// Where to keep the prices [default: the user's cache folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// `millrace bench use-case`.
#[derive(Args, Debug)]
pub struct BenchUseCaseOptions {
    /// Which: l2:N, l3:N, lb:N, gateway:CxU,R, firewall:N; or ovn, which is timed
    #[arg(value_name = "NAME[:PARAMETERS]")]
    pub name: String,
    /// Where to: flows.txt, and captures for each port
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Flows that the traffic is made of [default: 1000; of ovn 10000]
    #[arg(long, value_name = "N")]
    pub active_flows: Option<usize>,
    /// What an OVN chassis's switch was programmed with: a folder of flows-NAME*, groups-NAME*, meters-NAME*
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// The chassis's name in those
    #[arg(long, value_name = "NAME", default_value = "c1")]
    pub chassis: String,
    /// Or single files: flow entries
    #[arg(long = "flows", value_name = "FILE")]
    pub flows: Vec<PathBuf>,
    /// Groups
    #[arg(long = "groups", value_name = "FILE")]
    pub groups: Vec<PathBuf>,
    /// Meters
    #[arg(long = "meters", value_name = "FILE")]
    pub meters: Vec<PathBuf>,
    /// Length of each run of ovn
    #[arg(long, value_name = "S", default_value_t = 0.1)]
    pub seconds: f64,
    /// Runs of ovn; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: usize,
    /// Fail if the interpreter has run a packet of ovn
    #[arg(long)]
    pub check: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// A command line of `millrace-bench`, its name first.
#[cfg(test)]
pub(crate) fn parsed<'a>(words: impl Iterator<Item = &'a &'a str>) -> BenchOptions {
    use clap::{Args as _, FromArgMatches as _};
    let command = BenchOptions::augment_args(clap::Command::new("millrace-bench"));
    let read = command.try_get_matches_from(words.copied());
    read.and_then(|read| BenchOptions::from_arg_matches(&read)).unwrap()
}
