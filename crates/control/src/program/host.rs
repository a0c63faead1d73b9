//! A P4 program on a switch: its control by name, and another program in its place.
//!
//! [`Host`] keeps the program's [`Control`] and hands what that has taken to the switch. Ids of entries
//! are the switch's counters, so that direct counters count. A new program is compiled by whoever asks
//! for it, with nothing locked; [`Host::load`] then hands program, entries, groups and the rest to the
//! switch as one transaction: every packet is treated by one program or the other.

use super::p4_file::{self, P4Source};
use crate::failure::Failure;
use crate::sync::lock;
use ::p4::commands::{self, Counted, Plane, Wrong};
use ::p4::control::Control;
use ::p4::lower::Lowered;
use datapath::services::Services;
use ir::{Bits, EntryId, RegisterId, TableId, Update};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use switch::{EngineKind, StartError, Switch, Workers};

/// Packets and digests for the control plane are waited for so long at a time.
const PATIENCE: Duration = Duration::from_millis(250);

/// A program and its switch.
pub struct Host {
    control: Control,
    plane: SwitchPlane,
    workers: usize,
}

/// What lines of commands have done.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// The version of the pipeline that has it all.
    pub version: u64,
    /// What the commands say.
    pub told: Vec<String>,
    /// Lines that went wrong.
    pub wrong: Vec<WrongLine>,
}

/// A line that went wrong.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrongLine {
    /// Its number, from 1.
    pub line: usize,
    /// Why.
    pub text: String,
}

/// Another program is in place.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Loaded {
    /// The version of the pipeline that has it.
    pub version: u64,
    /// Milliseconds that compiling took.
    pub compile_ms: f64,
    /// Milliseconds until all workers forwarded by it.
    pub swap_ms: f64,
    /// Tables that came along.
    pub tables: usize,
    /// Entries that came along.
    pub entries: usize,
    /// What was left behind.
    pub left: Vec<String>,
}

/// The switch as what forwards by the program.
struct SwitchPlane {
    switch: Switch,
    /// What cells of counter arrays had counted when they were set to zero.
    bases: HashMap<(u32, u32), Counted>,
}

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
    let mut host = Host::start(program, small)?;
    if let Some(path) = entries {
        host.read(path)?;
    }
    Ok(host.plane.switch)
}

impl Host {
    /// A running switch with this program, without ports.
    pub fn start(
        program: &Path,
        config: impl FnOnce(Arc<ir::Program>) -> switch::Config,
    ) -> Result<Host, Failure> {
        Host::of(p4_file::compile(&p4_file::source(program))?, config)
    }

    /// The same, on workers that others may share.
    pub fn start_on(
        program: &Path,
        workers: &Workers,
        config: impl FnOnce(Arc<ir::Program>) -> switch::Config,
    ) -> Result<Host, Failure> {
        let lowered = p4_file::compile(&p4_file::source(program))?;
        Host::begin(lowered, config, |config| {
            Switch::start_on(workers, config, Services::default())
        })
    }

    /// A running switch with a program that was compiled.
    pub fn of(
        lowered: Lowered,
        config: impl FnOnce(Arc<ir::Program>) -> switch::Config,
    ) -> Result<Host, Failure> {
        Host::begin(lowered, config, Switch::start)
    }

    fn begin(
        lowered: Lowered,
        config: impl FnOnce(Arc<ir::Program>) -> switch::Config,
        start: impl FnOnce(switch::Config) -> Result<Switch, StartError>,
    ) -> Result<Host, Failure> {
        let config = config(Arc::new(lowered.program.clone()));
        let workers = config.workers;
        let switch = start(config).map_err(Failure::bad)?;
        let from = switch.clone();
        let ids = move || from.allocate_counter().map_err(|e| e.to_string());
        let control = Control::with_ids(lowered, Box::new(ids)).map_err(Failure::Bad)?;
        switch.transact(&control.pipeline.contents()).map_err(|(_, e)| Failure::bad(e))?;
        let plane = SwitchPlane { switch, bases: HashMap::new() };
        Ok(Host { control, plane, workers })
    }

    /// How many workers its switch has.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Its switch.
    pub fn switch(&self) -> &Switch {
        &self.plane.switch
    }

    /// Does the lines of a file of entries; all of them must be right.
    pub fn read(&mut self, path: &Path) -> Result<(), Failure> {
        let text = p4_file::read(path)?;
        self.tell(path, &text)
    }

    /// Does the lines of a text by this name; all of them must be right.
    pub fn tell(&mut self, name: &Path, text: &str) -> Result<(), Failure> {
        let (_, wrong) = self.run(text);
        p4_file::refuse(name, &wrong)
    }

    fn run(&mut self, text: &str) -> (Vec<String>, Vec<Wrong>) {
        let done = commands::run(text, &mut self.control, &mut self.plane);
        self.retire();
        done
    }

    /// Tells of the lines that changed something.
    fn note_writes(&self, text: &str, wrong: &[Wrong]) {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            let Some(verb) = line.split_whitespace().next().and_then(written) else { continue };
            if wrong.iter().all(|w| w.line != number) {
                self.plane.switch.note_change("ctl", "p4_write", verb, || line.to_owned());
            }
        }
    }

    fn retire(&mut self) {
        for id in std::mem::take(&mut self.control.retired) {
            self.plane.switch.retire_counter(id);
        }
    }

    /// Does lines of `millrace p4 do`; what they did is in force when this returns.
    pub fn commands(&mut self, text: &str) -> Done {
        let (told, wrong) = self.run(text);
        self.note_writes(text, &wrong);
        let version = self.plane.switch.sync();
        let wrong = wrong.into_iter().map(|w| WrongLine { line: w.line, text: w.text }).collect();
        Done { version, told, wrong }
    }

    /// Compiles a program for [`load`](Self::load) in a switch of so many workers, within the bounds of
    /// what may be compiled beside forwarding; and how long that took in milliseconds.
    pub fn compile(source: &P4Source, workers: usize) -> Result<(Lowered, f64), String> {
        let started = Instant::now();
        let limits = ::p4::limits::Limits::running(workers);
        let (lowered, told) = p4_file::compile_told(source, limits).map_err(|e| match e {
            Failure::Bad(text) | Failure::Usage(text) | Failure::Status(_, text) => text,
        })?;
        let lowered = lowered.ok_or_else(|| {
            format!(
                "{} was not compiled; the switch goes on as it was\n{told}",
                source.file.display()
            )
        })?;
        Ok((lowered, millis(started)))
    }

    /// Puts a program in place of the one that runs; every worker forwards by it when this returns.
    pub fn load(&mut self, (lowered, compile_ms): (Lowered, f64)) -> Result<Loaded, String> {
        let started = Instant::now();
        let before = self.control.pipeline.program().clone();
        let (updates, carried) = self.control.swap(lowered)?;
        self.plane.update(&updates)?;
        let version = self.plane.switch.sync();
        // Arrays that are the same in both programs go on counting, under other numbers.
        let arrays = &self.control.pipeline.program().counters;
        let moved = |(array, cell): (u32, u32)| {
            let old = before.counters.get(array as usize)?;
            Some((arrays.iter().position(|new| new == old)? as u32, cell))
        };
        let bases = std::mem::take(&mut self.plane.bases);
        self.plane.bases =
            bases.into_iter().filter_map(|(at, base)| Some((moved(at)?, base))).collect();
        self.retire();
        Ok(Loaded {
            version,
            compile_ms,
            swap_ms: millis(started),
            tables: carried.tables,
            entries: carried.entries,
            left: carried.left,
        })
    }

    /// Entries that no packet has matched for as long as their timeouts say: table and handle of each. They
    /// stay, and are told of again after as long.
    fn idle(&mut self) -> Vec<(String, u32)> {
        let mut told = Vec::new();
        for expired in self.plane.switch.expired() {
            let Some((table, handle, again)) = self.control.idle(expired.table, expired.entry)
            else {
                continue;
            };
            told.push((table.to_string(), handle));
            if let Err(error) = self.plane.update(&[again]) {
                tracing::warn!(%error, "an idle entry is not told of again");
            }
        }
        told
    }
}

/// Takes digests, packets and idle entries for the control plane and logs them, until the host is gone.
pub fn log_messages(host: &Arc<Mutex<Host>>) -> Result<(), Failure> {
    let (switch, weak) = (lock(host).plane.switch.clone(), Arc::downgrade(host));
    let taking = move || {
        let mut looked = Instant::now();
        loop {
            if let Some(message) = switch.next_message(PATIENCE) {
                log(&switch, &message);
            }
            let Some(host) = weak.upgrade() else { return };
            if looked.elapsed() >= PATIENCE {
                looked = Instant::now();
                for (table, handle) in lock(&host).idle() {
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

fn log(switch: &Switch, message: &switch::Message) {
    match message {
        switch::Message::Digest { digest, args } => {
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

/// How a command changes something, if it does.
fn written(command: &str) -> Option<&'static str> {
    let command = command.strip_prefix("table_indirect").unwrap_or(command);
    let has = |part: &str| command.contains(part);
    // By their names: those that show something change nothing.
    Some(match () {
        () if command.starts_with('#') => return None,
        () if has("_dump") || has("_read") || has("_info") || has("_num") || has("_get") => {
            return None;
        }
        () if command.starts_with("show") || command.starts_with("help") => return None,
        () if has("_add") || has("_create") || has("_associate") => "add",
        () if has("_delete") || has("_clear") || has("_destroy") || has("_dissociate") => "delete",
        () if has("_remove") => "delete",
        () if has("_modify") || has("_set") || has("_update") || has("_write") || has("_reset") => {
            "modify"
        }
        () => return None,
    })
}

/// Milliseconds since then, to a microsecond.
fn millis(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}

impl Plane for SwitchPlane {
    fn update(&mut self, updates: &[Update]) -> Result<(), String> {
        self.switch.transact(updates).map(|_| ()).map_err(|(_, e)| e.to_string())
    }

    fn register(&mut self, register: RegisterId, index: u32) -> Result<Option<Bits>, String> {
        Ok(self.switch.register(register, index))
    }

    fn set_register(&mut self, register: RegisterId, index: u32, to: &Bits) -> Result<(), String> {
        self.switch.set_register(register, index, to);
        Ok(())
    }

    fn counter(&mut self, array: u32, index: u32) -> Result<Option<Counted>, String> {
        let (p, b) = self.bases.get(&(array, index)).copied().unwrap_or_default();
        let now = self.switch.array_counter(array, index);
        Ok(now.map(|(packets, bytes)| (packets.wrapping_sub(p), bytes.wrapping_sub(b))))
    }

    fn reset_counter(&mut self, array: u32, size: u32) -> Result<(), String> {
        for index in 0..size {
            if let Some(now) = self.switch.array_counter(array, index) {
                self.bases.insert((array, index), now);
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: EntryId) -> Result<Counted, String> {
        let value = self.switch.counter(entry.0);
        Ok((value.packets, value.bytes))
    }

    fn reset_entry(&mut self, entry: EntryId) -> Result<(), String> {
        self.switch.reset_counter(entry.0);
        Ok(())
    }

    fn table(&mut self, table: TableId) -> Result<(u64, u64), String> {
        let stats = self.switch.table_stats(table);
        Ok((stats.lookups, stats.matches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(program: &str) -> Host {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Host::start(&root.join(program), small).unwrap()
    }

    /// What is told of idle entries until there are so many, or for two seconds.
    fn told(host: &mut Host, count: usize) -> Vec<(String, u32)> {
        let (mut told, since) = (Vec::new(), Instant::now());
        while told.len() < count && since.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(5));
            told.extend(host.idle());
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
        host.plane.switch.stop();
    }
}
