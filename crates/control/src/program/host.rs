//! A P4 program on a switch, from files: [`Host`] is in `p4-runtime`, which shares it with its server.

pub use p4_runtime::host::{Done, Host, HostError, Loaded, WrongLine};

use super::p4_file::{self, Loadable, P4Source};
use crate::failure::Failure;
use crate::sync::lock;
use ::p4::lower::Lowered;
use datapath::services::Services;
use p4_runtime::host::millis;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use switch::{EngineKind, Switch, Workers};

/// Packets and digests for the control plane are waited for so long at a time.
const PATIENCE: Duration = Duration::from_millis(250);

/// A switch of one worker, which is not there for speed.
fn small(program: Arc<ir::Program>) -> switch::Config {
    switch::Config {
        program,
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine: EngineKind::default(),
        validate: None,
    }
}

/// A switch without ports with a program and its entries, for looking into it.
pub fn offline(program: &Path, entries: Option<&Path>) -> Result<Switch, Failure> {
    let mut host = start(program, small)?;
    if let Some(path) = entries {
        read(&mut host, path)?;
    }
    Ok(host.switch().clone())
}

/// A running switch with the program of a file, without ports.
pub fn start(
    program: &Path,
    config: impl FnOnce(Arc<ir::Program>) -> switch::Config,
) -> Result<Host, Failure> {
    of(p4_file::compile(&p4_file::source(program))?, config)
}

/// A running switch with a program that was compiled, on workers that others may share.
pub fn start_on(
    lowered: Lowered,
    workers: &Workers,
    config: impl FnOnce(Arc<ir::Program>) -> switch::Config,
) -> Result<Host, Failure> {
    let start = |config| Switch::start_on(workers, config, Services::default());
    Host::begin(lowered, config, start).map_err(Failure::bad)
}

/// A running switch with a program that was compiled.
pub fn of(
    lowered: Lowered,
    config: impl FnOnce(Arc<ir::Program>) -> switch::Config,
) -> Result<Host, Failure> {
    Host::begin(lowered, config, Switch::start).map_err(Failure::bad)
}

/// Does the lines of a file of entries; all of them must be right.
pub fn read(host: &mut Host, path: &Path) -> Result<(), Failure> {
    let text = p4_file::read(path)?;
    tell(host, path, &text)
}

/// Does the lines of a text by this name; all of them must be right.
pub fn tell(host: &mut Host, name: &Path, text: &str) -> Result<(), Failure> {
    let (_, wrong) = host.run(text);
    p4_file::refuse(name, &wrong)
}

/// Compiles a program for a switch of so many workers, within the bounds of what may be compiled beside forwarding; and how
/// long that took in milliseconds.
pub fn compile(source: &P4Source, workers: usize) -> Result<(Loadable, f64), String> {
    let started = Instant::now();
    let limits = ::p4::limits::Limits::running(workers);
    let (loadable, told) = p4_file::loadable(source, limits).map_err(Failure::text)?;
    let loadable = loadable.ok_or_else(|| {
        format!("{} was not compiled; the switch goes on as it was\n{told}", source.file.display())
    })?;
    Ok((loadable, millis(started)))
}

/// Takes digests, packets and idle entries for the control plane and logs them, until the host is gone.
pub fn log_messages(host: &Arc<Mutex<Host>>) -> Result<(), Failure> {
    let (switch, weak) = (lock(host).switch().clone(), Arc::downgrade(host));
    let taking = move || {
        let mut looked = Instant::now();
        loop {
            if let Some(message) = switch.next_message(PATIENCE) {
                log(&switch, &message);
            }
            let Some(host) = weak.upgrade() else { return };
            if looked.elapsed() >= PATIENCE {
                looked = Instant::now();
                lock(&host).follow_queues();
                for (table, handle) in idle(&mut lock(&host)) {
                    tracing::info!(
                        table,
                        handle,
                        "no packet has matched the entry for its timeout"
                    );
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("p4-messages".into());
    thread.spawn(taking).map(|_| ()).map_err(Failure::bad)
}

/// Entries that were idle, by their tables' names and their handles.
fn idle(host: &mut Host) -> Vec<(String, u32)> {
    let idle = host.idle();
    let control = host.control();
    let named = |(table, entry)| {
        let name = control.named(table)?.name.clone();
        Some((name, control.handle(table, entry)?))
    };
    idle.into_iter().filter_map(named).collect()
}

fn log(switch: &Switch, message: &switch::Message) {
    match message {
        switch::Message::Digest { digest, args, .. } => {
            let name = switch
                .with_pipeline(|p| p.program().digests.get(digest.index()).map(|d| d.name.clone()));
            let values: Vec<String> = args.iter().map(::p4::control::value::show).collect();
            tracing::info!(digest = name.unwrap_or_default(), values = values.join(","), "digest");
        }
        switch::Message::Punt(punt) => {
            let packet = wire::summary(&punt.bytes);
            tracing::info!(in_port = punt.in_port, reason = %punt.reason, %packet, "packet to the control plane");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(program: &str) -> Host {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        start(&root.join(program), small).unwrap()
    }

    /// What is told of idle entries until there are so many, or for two seconds.
    fn told(host: &mut Host, count: usize) -> Vec<(String, u32)> {
        let (mut told, since) = (Vec::new(), Instant::now());
        while told.len() < count && since.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(5));
            told.extend(idle(host));
        }
        told
    }

    #[test]
    fn idle_entries_are_told_of_and_stay() {
        let mut host = host("filetests/p4/everything.p4");
        let text = "table_add exactly go 1 2 => 3\ntable_add exactly go 1 3 => 3
                    table_set_timeout exactly 1 20";
        assert_eq!(host.commands(text).wrong, []);
        let one = ("I.exactly".to_string(), 1);
        assert_eq!(told(&mut host, 2), [one.clone(), one], "again and again");
        assert_eq!(host.commands("table_num_entries exactly").told, ["2"]);
        assert_eq!(host.commands("table_set_timeout exactly 1 0").wrong, []);
        host.idle();
        std::thread::sleep(Duration::from_millis(60));
        assert!(host.idle().is_empty());
        host.switch().stop();
    }
}
