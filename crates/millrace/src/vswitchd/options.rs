//! The command line, as `ovs-vswitchd` takes it.

use super::{MODULES, PROGRAM};
use clap::Args;
use control::config::{MetricsAt, OtlpAt, metrics_at, otlp_at, page_at, tls_files};
use control::failure::Failure;
use control::page::PageAt;
use control::persist::place::Place;
use of_channel::TlsFiles;
use ovsdb::Remote;
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use vswitch::process::Paths;
use vswitch::vlog::{Destination, Level, Levels};

/// `millrace vswitchd`.
#[derive(Args, Debug, Default)]
pub(crate) struct VswitchdOptions {
    /// The database: unix:FILE, tcp:HOST[:PORT] [default: unix:db.sock in the run directory]
    #[arg(value_name = "DATABASE")]
    database: Option<String>,
    /// Write the process's number to a file [default: ovs-vswitchd.pid in the run directory]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pidfile: Option<Option<PathBuf>>,
    /// Replace a pid file even if its process runs
    #[arg(long)]
    overwrite_pidfile: bool,
    /// Go on in the background once the switch is what the database says
    #[arg(long)]
    detach: bool,
    /// Start the switch again when it crashes
    #[arg(long)]
    monitor: bool,
    /// Log to a file in place of standard error [default: ovs-vswitchd.log in the log directory]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    log_file: Option<Option<PathBuf>>,
    /// The socket of ovs-appctl, or none [default: ovs-vswitchd.PID.ctl in the run directory]
    #[arg(long, value_name = "SOCKET")]
    unixctl: Option<PathBuf>,
    /// Keep the working directory when in the background
    #[arg(long)]
    no_chdir: bool,
    /// Keep all memory from being swapped out
    #[arg(long)]
    mlockall: bool,
    /// Levels of the log: -vDESTINATION:LEVEL, as in -vfile:dbg
    #[arg(long, value_name = "SPEC")]
    vlog: Vec<String>,
    /// Taken and without effect: nothing is confined
    #[arg(long, hide = true)]
    no_self_confinement: bool,
    /// Taken and without effect: there is no datapath in the kernel to leave out
    #[arg(long, hide = true)]
    disable_system: bool,
    /// Worker threads, which all bridges share
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: u16,
    /// Control socket, for trace, stats, explain and dump
    #[arg(long, value_name = "PATH")]
    ctl: Option<PathBuf>,
    /// Keep what controllers program in a folder, over a restart and a kill
    #[arg(long, value_name = "DIR")]
    persist: Option<PathBuf>,
    /// When the files of --persist are on the disk, for a loss of power: always before an answer, never on demand, or
    /// within so many seconds [default: 1]
    #[arg(long, value_name = "always|never|SECONDS")]
    persist_sync: Option<String>,
    /// Serve counters for Prometheus there, at /metrics [default port: 9476]
    #[arg(long, value_name = "ADDR[:PORT]")]
    metrics: Option<String>,
    /// Serve packets and bytes of the N entries that are hit most, of each bridge [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    metrics_entries: Option<u64>,
    /// Send logs, and spans of slow changes, to a collector of OpenTelemetry there [default port: 4318]
    #[arg(long, value_name = "http://HOST[:PORT]")]
    otlp: Option<String>,
    /// Serve a web page there that shows the switch [default port: 9480]
    #[arg(long, value_name = "ADDR[:PORT]")]
    http: Option<String>,
    /// A file with the token that changes by the page want, and beyond loopback all questions
    #[arg(long, value_name = "FILE")]
    http_token: Option<PathBuf>,
    /// The private key (PEM) for TLS of --metrics and --http
    #[arg(short = 'p', long, value_name = "FILE")]
    private_key: Option<PathBuf>,
    /// Its certificate (PEM)
    #[arg(short, long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// The authority's (PEM) that signs certificates which clients of --metrics and --http must show
    #[arg(short = 'C', long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
}

/// The options, with what is by default filled in.
pub(super) struct Told {
    pub(super) database: Remote,
    pub(super) paths: Paths,
    pub(super) pid_file: Option<PathBuf>,
    pub(super) overwrite_pid_file: bool,
    pub(super) detach: bool,
    pub(super) monitor: bool,
    pub(super) unixctl: Option<PathBuf>,
    pub(super) no_chdir: bool,
    pub(super) mlockall: bool,
    pub(super) workers: usize,
    pub(super) ctl: Option<PathBuf>,
    pub(super) persist: Option<Place>,
    pub(super) metrics: Option<MetricsAt>,
    pub(super) otlp: Option<OtlpAt>,
    pub(super) tls: Option<TlsFiles>,
    pub(super) page: Option<PageAt>,
    pub(super) levels: std::sync::Arc<Levels>,
    pub(super) log_path: Option<PathBuf>,
}

impl VswitchdOptions {
    /// Where the log goes, if not to standard error.
    fn log_path(&self) -> Option<PathBuf> {
        let paths = Paths::of_environment();
        self.log_file.clone().map(|file| file.unwrap_or_else(|| paths.log_file(PROGRAM)))
    }

    /// How much more is logged than usual: everything where a specification says `dbg` of where the log goes.
    pub(crate) fn verbose(&self) -> u8 {
        let to = if self.log_file.is_some() { Destination::File } else { Destination::Console };
        let levels = self.levels().unwrap_or_else(|_| Levels::new(MODULES));
        u8::from(MODULES.iter().any(|module| levels.of(module, to) == Level::Dbg))
    }

    /// Levels as they are given.
    pub(super) fn levels(&self) -> Result<Levels, Failure> {
        let levels = Levels::new(MODULES);
        for specification in &self.vlog {
            let wrong = |error| Failure::Usage(format!("-v{specification}: {error}"));
            levels.set(specification).map_err(wrong)?;
        }
        Ok(levels)
    }

    pub(super) fn told(self) -> Result<Told, Failure> {
        let paths = Paths::of_environment();
        let (levels, log_path) = (self.levels()?, self.log_path());
        let database = match &self.database {
            Some(text) => {
                text.parse().map_err(|error| Failure::Usage(format!("DATABASE {error}")))?
            }
            None => Remote::Unix(paths.database()),
        };
        if matches!(database, Remote::Tls { .. }) {
            let text =
                "DATABASE ssl: keys are not taken here: have ovsdb-server listen at unix: or tcp:";
            return Err(Failure::Usage(text.to_owned()));
        }
        let unixctl = match self.unixctl {
            Some(path) if path.as_os_str() == "none" => None,
            Some(path) => Some(paths.in_run(&path)),
            None => Some(paths.control_socket(PROGRAM, std::process::id())),
        };
        let pid_file = self.pidfile.map(|file| match file {
            Some(file) => paths.in_run(&file),
            None => paths.pid_file(PROGRAM),
        });
        let page = page_at(self.http.as_deref(), self.http_token.as_deref(), None)?;
        let tls = tls_files(self.private_key, self.certificate, self.ca_cert, None)?;
        if let Some(page) = &page {
            page.check(tls.as_ref().is_some_and(|tls| tls.ca_cert.is_some()))?;
        }
        let metrics = metrics_at(self.metrics.as_deref(), self.metrics_entries)?;
        if tls.is_some() && metrics.is_none() && page.is_none() {
            return Err(Failure::usage(
                "--private-key and --certificate are of --metrics and --http: give one of these, too",
            ));
        }
        Ok(Told {
            database,
            pid_file,
            overwrite_pid_file: self.overwrite_pidfile,
            detach: self.detach,
            monitor: self.monitor,
            unixctl,
            no_chdir: self.no_chdir,
            mlockall: self.mlockall,
            workers: usize::from(self.workers.max(1)),
            ctl: self.ctl,
            persist: place(self.persist, self.persist_sync.as_deref())?,
            metrics,
            otlp: otlp_at(self.otlp.as_deref(), None)?,
            tls,
            page,
            levels: std::sync::Arc::new(levels),
            log_path,
            paths,
        })
    }
}

/// Where entries are kept, also once the process has left its working directory.
fn place(folder: Option<PathBuf>, sync: Option<&str>) -> Result<Option<Place>, Failure> {
    let whole = |folder: PathBuf| {
        std::path::absolute(&folder)
            .map_err(|e| Failure::Bad(format!("--persist {}: {e}", folder.display())))
    };
    Place::new(folder.map(whole).transpose()?, sync)
}

/// The command line in words of this program's: called by Open vSwitch's name it is `vswitchd`, whose `-vSPEC` is
/// `--vlog=SPEC`.
pub(crate) fn words(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().map(|word| Path::new(word).file_name().unwrap_or_default().to_owned());
    if name.is_some_and(|name| name == PROGRAM) {
        words.insert(1, "vswitchd".into());
    }
    if words.get(1).is_none_or(|word| word != "vswitchd") {
        return words;
    }
    let of_log = |word: OsString| {
        let text = word.to_str()?;
        let specification = match text.strip_prefix("--verbose") {
            Some(rest) => rest.trim_start_matches('='),
            None => text.strip_prefix("-v")?,
        };
        Some(OsString::from(format!("--vlog={specification}")))
    };
    words.into_iter().map(|word| of_log(word.clone()).unwrap_or(word)).collect()
}

/// `--version`, asked of `vswitchd`.
pub(crate) fn asks_version(words: &[OsString]) -> bool {
    let is_version = |word: &OsString| word == "--version" || word == "-V";
    words.get(1).is_some_and(|word| word == "vswitchd") && words.iter().any(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Vec<String> {
        let all = words(line.split(' ').map(OsString::from).collect());
        all.into_iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn by_open_vswitchs_name_the_command_is_vswitchd() {
        let wanted = ["/usr/sbin/ovs-vswitchd", "vswitchd", "unix:x", "--vlog=file:dbg", "--vlog="];
        assert_eq!(said("/usr/sbin/ovs-vswitchd unix:x -vfile:dbg --verbose"), wanted);
        assert_eq!(said("millrace run -v"), ["millrace", "run", "-v"]);
        let version = words(["ovs-vswitchd", "--version"].map(OsString::from).to_vec());
        assert!(asks_version(&version));
        assert!(!asks_version(&[OsString::from("millrace"), OsString::from("--version")]));
    }
}
