//! The command: reads arguments and configuration, puts the crates together, reports.
//!
//! In: command lines. Out: a running switch, or an answer about one. Exit status 0
//! good, 1 the thing asked about is bad, 2 usage. What a program may read goes to standard output
//! (`--json`: one object), everything else to standard error.
//!
//! | module | command |
//! |---|---|
//! | [`demo`] | `demo`: the main job on embedded defaults |
//! | [`run`] | `run`: the switch |
//! | [`query`] | `trace`, `stats`, `explain`: looks into a running switch by its control socket |
//! | [`capture`] | `capture`: frames of a running switch, with what became of them |
//! | [`filetest`] | `test`: runs filetests |
//! | [`bench`] | `bench`: what a pipeline costs a packet |
//! | [`doctor`] | `doctor`: what this machine lacks |
//! | [`dump`] | files of flow entries, groups and meters, and what `ovs-ofctl` dumps of them |
//! | [`gauge`](mod@gauge) | `gauge`: characterises any OpenFlow switch |
//! | [`p4`], [`stf`] | `p4`: looks into P4-16 programs; `stf`: runs p4c's packet tests on one |
//!
//! [`room`] tells how much of the machine a switch may use, [`start`] what is to be said of it, and
//! [`logging`] says it. [`p4_host`] is a P4 program on a switch, with its control by name.
//! [`config`] merges the file with the options; [`ctl`] is the control socket, both ends.

/// As the standard library's, but whoever reads may stop reading: `millrace conntrack | head`.
macro_rules! print {
    ($($text:tt)*) => {
        crate::say(format_args!($($text)*))
    };
}

/// Likewise.
macro_rules! println {
    ($($text:tt)*) => {
        crate::say(format_args!("{}\n", format_args!($($text)*)))
    };
}

mod bench;
mod bounds;
mod capture;
mod cli;
mod config;
mod conntrack;
mod ctl;
mod demo;
mod doctor;
mod dump;
mod filetest;
#[doc(hidden)]
pub mod fuzz;
mod gauge;
mod guard;
mod image;
mod logging;
mod model;
mod p4;
mod p4_host;
mod ports;
mod query;
mod queue;
mod room;
mod run;
mod services;
mod signals;
mod sockets;
mod start;
mod stf;
mod takeover;

use clap::{CommandFactory, Parser};
use std::io::Write;
use std::process::ExitCode;

/// Why a command failed: what to print, and the exit status.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The thing asked about is bad: 1.
    Bad(String),
    /// The command was used wrongly: 2.
    Usage(String),
    /// With an exit status of its own, which the command documents.
    Status(u8, String),
}

impl Failure {
    /// The thing asked about is bad.
    pub(crate) fn bad(error: impl std::fmt::Display) -> Failure {
        Failure::Bad(error.to_string())
    }

    /// What to print.
    pub(crate) fn text(self) -> String {
        match self {
            Failure::Bad(text) | Failure::Usage(text) | Failure::Status(_, text) => text,
        }
    }

    /// The command was used wrongly.
    pub(crate) fn usage(error: impl std::fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }
}

/// What the shell says of a process that SIGPIPE has ended.
const PIPE_BROKE: i32 = 128 + 13;

/// Writes to standard output. A reader that has gone away ends the process, as it ends others.
fn say(text: std::fmt::Arguments<'_>) {
    written(std::io::stdout().lock().write_fmt(text));
}

/// The same, of what need not be text.
pub(crate) fn say_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()));
}

fn written(outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            eprintln!("millrace: cannot write to standard output: {error}");
        }
        std::process::exit(PIPE_BROKE);
    }
}

/// The command: what the process does with its arguments, and its exit status.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    logging::start(&cli.log, cli.verbose);
    let result = match cli.command {
        cli::Command::Demo(options) => demo::run(options),
        cli::Command::Run(options) => run::run(*options),
        cli::Command::Trace(options) => query::trace(options),
        cli::Command::Stats(options) => query::stats(options),
        cli::Command::Queue(options) => queue::queue(options),
        cli::Command::Conntrack(options) => conntrack::conntrack(options),
        cli::Command::Service(options) => services::service(options),
        cli::Command::Explain(options) => query::explain(options),
        cli::Command::Dump(options) => query::dump(options),
        cli::Command::Capture(options) => capture::run(options),
        cli::Command::Test(options) => filetest::run(options),
        cli::Command::Doctor(options) => doctor::run(options),
        cli::Command::Bench(options) => bench::run(options.command),
        cli::Command::P4(options) => p4::run(options.command),
        cli::Command::Stf(options) => stf::run(options),
        cli::Command::Gauge(options) => gauge::run(options.command),
        cli::Command::Completions { shell } => {
            // Into memory first: it panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut cli::Cli::command(), "millrace", &mut script);
            say_bytes(&script);
            Ok(())
        }
    };
    let status = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Bad(text)) => {
            logging::say(&format!("millrace: {text}"));
            ExitCode::from(1)
        }
        Err(Failure::Status(status, text)) => {
            eprintln!("millrace: {text}");
            ExitCode::from(status)
        }
        Err(Failure::Usage(text)) => {
            logging::say(&format!("millrace: {text}"));
            ExitCode::from(2)
        }
    };
    logging::flush();
    status
}
