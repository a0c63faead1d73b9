//! `millrace vswitchd`: the switch in place of `ovs-vswitchd`, configured by Open vSwitch's database.
//!
//! | file | is |
//! |---|---|
//! | `options` | the command line, as `ovs-vswitchd` takes it |
//! | `below` | [`vswitch::switch::Switch`] upon the bridges of this process |
//! | `interface` | what is seen of an interface: link, counters, driver |
//! | `connections` | the connection tracker |
//! | `normal` | VLANs, learning, flow tables and mirrors |
//! | `channel` | controllers |
//! | `flows`, `trace` | entries, and what would happen to a packet |
//! | `qos` | egress queues and ingress policing |

mod below;
mod channel;
mod connections;
mod flows;
mod interface;
mod normal;
mod options;
mod qos;
mod trace;

pub(crate) use options::{VswitchdOptions, asks_version, words};

use below::Below;
use control::bridges::{Bridges, Defaults};
use control::failure::Failure;
use control::server::{Empty, run_empty};
use options::Told;
use port::kind::Environment;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vswitch::desired::columns;
use vswitch::process::{PidFile, Started, begin};
use vswitch::reconcile::{LOCK, Reconciler};
use vswitch::unixctl::commands::{Counts, LogFile};
use vswitch::unixctl::{Context, Server};

/// The name by which Open vSwitch's tools and scripts look for the process.
pub(crate) const PROGRAM: &str = "ovs-vswitchd";
/// The database's first configuration is waited for so long before the process says that it is ready: none may be there.
const READY_MAX: Duration = Duration::from_secs(10);
/// Packets per second to controllers, at most, of each bridge.
const PUNT_RATE: u64 = 100_000;
/// Parts of the program that can be told apart in the log.
const MODULES: &[&str] = &[
    "control",
    "datapath",
    "jit",
    "millrace",
    "of_channel",
    "of_pipeline",
    "ovsdb",
    "port",
    "switch",
    "vswitch",
];

/// What `version` says: its first line ends with the version of Open vSwitch whose tools are spoken to, which its scripts
/// compare.
pub(crate) fn version() -> String {
    let own = env!("CARGO_PKG_VERSION");
    format!("millrace {own} (in place of {PROGRAM} of Open vSwitch) {}", vswitch::OVS_VERSION)
}

/// What is let go of when the switch stops, in this order.
struct Running {
    _unixctl: Option<Server>,
    _reconciler: Reconciler,
    _pid_file: Option<PidFile>,
}

/// Runs it.
pub(crate) fn run(options: VswitchdOptions) -> Result<(), Failure> {
    let told = options.told()?;
    let ready = match begin(told.detach, told.monitor).map_err(Failure::bad)? {
        Started::Done(0) => return Ok(()),
        Started::Done(status) => {
            return Err(Failure::Status(status, "the switch has not started".to_owned()));
        }
        Started::Switch(ready) => ready,
    };
    told.levels.fix("levels of the log are given at the start: -vSPEC, or RUST_LOG");
    if let Some(path) = &told.log_path {
        let wrong = |error| Failure::Bad(format!("--log-file {}: {error}", path.display()));
        control::logging::to_file(Some(path)).map_err(wrong)?;
    }
    if !told.no_chdir && told.detach {
        std::env::set_current_dir("/").map_err(Failure::bad)?;
    }
    if told.mlockall {
        use rustix::mm::{MlockAllFlags, mlockall};
        if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
            tracing::warn!(%error, "--mlockall: memory is not locked");
        }
    }
    // Scripts look for the process by this name.
    if let Err(error) = std::fs::write("/proc/self/comm", PROGRAM) {
        tracing::warn!(%error, "the process keeps its name; ovs-ctl looks for {PROGRAM}");
    }
    let empty = Empty {
        workers: told.workers,
        cpus: Vec::new(),
        poll: false,
        defaults: Defaults {
            engine: switch::EngineKind::default(),
            punt_rate: PUNT_RATE,
            validate: None,
            tracking: control::program::tables::Tracking::default(),
            flows_max: None,
            persist: told.persist.clone(),
            environment: Environment::default(),
            watchdog: Some(Duration::from_secs(60)),
        },
        ctl: told.ctl.clone(),
        ctl_groups: control::doors::Groups::default(),
        metrics: told.metrics,
        otlp: told.otlp.clone(),
        tls: told.tls.clone(),
        page: told.page.clone(),
    };
    run_empty(empty, |bridges| {
        let running = start(&told, bridges)?;
        // Before a database has said anything there may be nothing to be ready for.
        if !running._reconciler.wait_ready(READY_MAX) {
            tracing::warn!(database = %told.database, "the database has not said yet what the switch is to be");
        }
        ready.tell().map_err(Failure::bad)?;
        Ok(running)
    })
}

/// `vlog/reopen` and `vlog/close`.
fn log_file(path: Option<PathBuf>) -> Box<dyn Fn(LogFile) -> Result<String, String> + Send + Sync> {
    Box::new(move |what| {
        let Some(path) = &path else {
            return Err("the log goes to standard error; --log-file sends it to a file".to_owned());
        };
        let path = (what == LogFile::Reopen).then_some(path.as_path());
        control::logging::to_file(path).map_err(|error| error.to_string())?;
        Ok(String::new())
    })
}

fn start(told: &Told, bridges: &Bridges) -> Result<Running, Failure> {
    let pid_file = match &told.pid_file {
        Some(path) => Some(PidFile::create(path, told.overwrite_pid_file).map_err(Failure::bad)?),
        None => None,
    };
    let mut config = ovsdb::Config::new(told.database.clone(), "Open_vSwitch");
    config.lock = Some(LOCK.to_owned());
    let client = ovsdb::Client::start(columns::follow(config)).map_err(Failure::bad)?;
    let below: Arc<dyn vswitch::switch::Switch> =
        Arc::new(Below::new(bridges.clone(), told.paths.run.clone()));
    let reconciler =
        Reconciler::start(client, below.clone(), told.paths.run.clone()).map_err(Failure::bad)?;
    let unixctl =
        match &told.unixctl {
            None => None,
            Some(path) => {
                let context = Context {
                    switch: below,
                    watch: reconciler.watch(),
                    levels: told.levels.clone(),
                    log_file: log_file(told.log_path.clone()),
                    exit: Box::new(|| {
                        // As SIGTERM would: in order, and in time.
                        if let Err(error) = rustix::process::kill_process(
                            rustix::process::getpid(),
                            rustix::process::Signal::TERM,
                        ) {
                            tracing::error!(%error, "exit: the process cannot be told to end");
                        }
                    }),
                    version: version(),
                    counts: Counts::default(),
                };
                Some(Server::start(path, context).map_err(|error| {
                    Failure::Bad(format!("--unixctl {}: {error}", path.display()))
                })?)
            }
        };
    Ok(Running { _unixctl: unixctl, _reconciler: reconciler, _pid_file: pid_file })
}
