//! `millrace bench` as a command of its own.

use bench::options::BenchOptions;
use clap::Parser;
use control::failure::Failure;
use std::process::ExitCode;

/// Measure what a pipeline costs a packet.
#[derive(Parser)]
#[command(name = "millrace-bench", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    options: BenchOptions,
}

fn main() -> ExitCode {
    let (status, text) = match bench::run(Cli::parse().options.command) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Bad(text)) => (1, text),
        Err(Failure::Usage(text)) => (2, text),
        Err(Failure::Status(status, text)) => (status, text),
    };
    eprintln!("millrace-bench: {text}");
    ExitCode::from(status)
}
