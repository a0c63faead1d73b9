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
//! | [`fleet`] | `config --to`: the configuration of a fleet in its store |
//! | [`filetest`] | `test`: runs filetests |
//! | [`doctor`] | `doctor`: what this machine lacks |
//! | [`gauge`](mod@gauge) | `gauge`: characterises any OpenFlow switch |
//! | [`stand_in`] | `p4c-bm2-ss`, `simple_switch_grpc` and others of bmv2's programs |
//! | [`p4_shell`] | `p4 shell`: the commands of `p4 do` at a prompt |
//! | [`p4`], [`stf`] | `p4`: looks into P4-16 programs; `stf`: runs p4c's packet tests on one |
//!
//! [`room`] tells how much of the machine a switch may use, [`start`] what is to be said of it, and
//! [`logging`] says it. [`config`] merges the file with the options; [`ctl`] is the control socket, both ends.

/// As the standard library's, but whoever reads may stop reading: `millrace conntrack | head`.
macro_rules! print {
    ($($text:tt)*) => {
        control::output::say(format_args!($($text)*))
    };
}

/// Likewise.
macro_rules! println {
    ($($text:tt)*) => {
        control::output::say(format_args!("{}\n", format_args!($($text)*)))
    };
}

// The allocator of static binaries.
use musl as _;

mod bridges;
mod capture;
mod cli;
mod config;
mod conntrack;
mod demo;
mod doctor;
mod events;
mod filetest;
mod fleet;
mod flows;
mod gauge;
mod look;
mod man;
mod observe;
mod p4;
mod p4_shell;
mod queue;
mod replication;
mod save;
mod services;
mod show;
mod stand_in;
mod stf;
mod top;
mod upgrade;
mod vswitchd;

use clap::{CommandFactory, Parser};
use control::failure::Failure;
use std::ffi::OsString;
use std::process::ExitCode;

/// The command: what the process does with its arguments, and its exit status.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(call) = bmv2::names::call(&words) {
        return stand_in::run(&call);
    }
    command(words)
}

/// What a call of `millrace` does.
fn command(words: Vec<OsString>) -> ExitCode {
    let words = vswitchd::words(words);
    if vswitchd::asks_version(&words) {
        println!("{}", vswitchd::version());
        return ExitCode::SUCCESS;
    }
    let mut cli = cli::Cli::parse_from(words);
    let verbose = match &cli.command {
        cli::Command::Vswitchd(options) => options.verbose().max(cli.verbose),
        _ => cli.verbose,
    };
    // Before there is a second thread.
    let confined = match &mut cli.command {
        cli::Command::Run(options) => {
            control::fleet::prepare(options).and_then(|()| control::confine::enter(options))
        }
        _ => Ok(()),
    };
    let begun = match &cli.command {
        cli::Command::Run(options) => options.begun.clone(),
        _ => None,
    };
    control::logging::start(&cli.log, verbose);
    let result = confined.and_then(|()| match cli.command {
        cli::Command::Demo(options) => demo::run(options),
        cli::Command::Run(options) => control::server::run(*options),
        cli::Command::Vswitchd(options) => vswitchd::run(options),
        cli::Command::Trace(options) => look::trace(options),
        cli::Command::Stats(options) => look::stats(options),
        cli::Command::Bridge(options) => bridges::bridge(options),
        cli::Command::Port(options) => bridges::port(options),
        cli::Command::Mirror(options) => bridges::mirror(options),
        cli::Command::Bond(options) => bridges::bond(options),
        cli::Command::Config(options) => config::config(options),
        cli::Command::Replication(options) => replication::replication(options),
        cli::Command::Save(options) => save::save(options),
        cli::Command::Upgrade(options) => upgrade::upgrade(options),
        cli::Command::Events(options) => events::events(options),
        cli::Command::Flows(options) => flows::flows(options),
        cli::Command::Groups(options) => flows::groups(options),
        cli::Command::Meters(options) => flows::meters(options),
        cli::Command::Stations(options) => bridges::stations(options),
        cli::Command::Queue(options) => queue::queue(options),
        cli::Command::Conntrack(options) => conntrack::conntrack(options),
        cli::Command::Service(options) => services::service(options),
        cli::Command::Explain(options) => look::explain(options),
        cli::Command::Dump(options) => look::dump(options),
        cli::Command::Capture(options) => capture::run(options),
        cli::Command::Observe(options) => observe::observe(options),
        cli::Command::Top(options) => top::top(options),
        cli::Command::Test(options) => filetest::run(options),
        cli::Command::Doctor(options) => doctor::run(options),
        cli::Command::Bench(options) => ::bench::run(options.command),
        cli::Command::P4(options) => p4::run(options.command),
        cli::Command::Stf(options) => stf::run(options),
        cli::Command::Gauge(options) => gauge::run(options.command),
        cli::Command::StandIn { name, words: _ } => Err(stand_in::unknown(&name)),
        cli::Command::Man { folder } => man::man(&folder),
        cli::Command::Completions { shell } => {
            // Into memory first: it panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut cli::Cli::command(), "millrace", &mut script);
            control::output::say_bytes(&script);
            Ok(())
        }
    });
    if let Err(Failure::Bad(text) | Failure::Status(_, text) | Failure::Usage(text)) = &result {
        control::upgrade::reason::tell(text);
        if let Some(begun) = &begun {
            control::fleet::not_started(begun, text);
        }
    }
    let status = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Bad(text)) => {
            control::logging::say(&format!("millrace: {text}"));
            ExitCode::from(1)
        }
        Err(Failure::Status(status, text)) => {
            eprintln!("millrace: {text}");
            ExitCode::from(status)
        }
        Err(Failure::Usage(text)) => {
            control::logging::say(&format!("millrace: {text}"));
            ExitCode::from(2)
        }
    };
    control::logging::flush();
    status
}
