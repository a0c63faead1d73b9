//! Where Open vSwitch's files lie: `OVS_RUNDIR` and `OVS_LOGDIR`, else where Debian has them.

use std::env;
use std::path::{Path, PathBuf};

/// Folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Sockets and pid files.
    pub run: PathBuf,
    /// Logs.
    pub log: PathBuf,
}

impl Paths {
    /// As the environment says.
    pub fn of_environment() -> Paths {
        let or = |name: &str, default: &str| {
            env::var_os(name)
                .filter(|path| !path.is_empty())
                .map_or_else(|| PathBuf::from(default), PathBuf::from)
        };
        Paths {
            run: or("OVS_RUNDIR", "/var/run/openvswitch"),
            log: or("OVS_LOGDIR", "/var/log/openvswitch"),
        }
    }

    /// A file's path: within the folder of sockets unless it has one of its own.
    pub fn in_run(&self, file: &Path) -> PathBuf {
        self.run.join(file)
    }

    /// The pid file of a program.
    pub fn pid_file(&self, program: &str) -> PathBuf {
        self.run.join(format!("{program}.pid"))
    }

    /// Where `ovs-appctl -t PROGRAM` looks for a process.
    pub fn control_socket(&self, program: &str, pid: u32) -> PathBuf {
        self.run.join(format!("{program}.{pid}.ctl"))
    }

    /// The log file of a program.
    pub fn log_file(&self, program: &str) -> PathBuf {
        self.log.join(format!("{program}.log"))
    }

    /// The database's socket.
    pub fn database(&self) -> PathBuf {
        self.run.join("db.sock")
    }
}
