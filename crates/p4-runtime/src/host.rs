//! A P4 program on a switch: its control by name, and another program in its place.
//!
//! [`Host`] keeps the program's [`Control`] and hands what that has taken to the switch. Ids of entries
//! are the switch's counters, so that direct counters count. A new program is compiled by whoever asks
//! for it, with nothing locked; [`Host::load`] then hands program, entries, groups and the rest to the
//! switch as one transaction: every packet is treated by one program or the other.

use ::p4::commands::{self, Counted, Plane, Wrong};
use ::p4::control::{Carried, Control, Refused};
use ::p4::lower::Lowered;
use ir::{Bits, EntryId, Meter, MeterId, RegisterId, TableId, Update};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use switch::{Config, StartError, Switch};

/// What a waiting frame of 1,500 bytes needs of the kernel's memory.
const WAITING_BYTES: u64 = 2304;

/// A program and its switch.
pub struct Host {
    control: Control,
    plane: SwitchPlane,
    workers: usize,
    /// How many programs there have been.
    generation: u64,
    /// How often text has changed it.
    edits: u64,
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The switch does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The program cannot be controlled.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The switch does not take it.
    #[error("{0}")]
    Update(ir::pipeline::UpdateError),
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
pub struct SwitchPlane {
    switch: Switch,
    /// What cells of counter arrays had counted when they were set, less what they were set to.
    bases: HashMap<(u32, u32), Counted>,
    /// The same of entries, by their counters.
    entry_bases: HashMap<u32, Counted>,
    /// The same of meters, by colour. A meter that gets rates counts anew.
    meter_bases: HashMap<MeterId, [Counted; COLOURS]>,
}

/// Green, yellow and red.
pub const COLOURS: usize = 3;

impl Host {
    /// A program that was compiled on a switch that `start` starts.
    pub fn begin(
        lowered: Lowered,
        config: impl FnOnce(Arc<ir::Program>) -> Config,
        start: impl FnOnce(Config) -> Result<Switch, StartError>,
    ) -> Result<Host, HostError> {
        let config = config(Arc::new(lowered.program.clone()));
        let workers = config.workers;
        let switch = start(config)?;
        let from = switch.clone();
        let ids = move || from.allocate_counter().map_err(|e| e.to_string());
        let control = Control::with_ids(lowered, Box::new(ids))?;
        let contents = control.pipeline.contents();
        switch.transact(&contents).map_err(|(_, e)| HostError::Update(e))?;
        let plane = SwitchPlane {
            switch,
            bases: HashMap::new(),
            entry_bases: HashMap::new(),
            meter_bases: HashMap::new(),
        };
        Ok(Host { control, plane, workers, generation: 0, edits: 0 })
    }

    /// How many workers its switch has.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Its switch.
    pub fn switch(&self) -> &Switch {
        &self.plane.switch
    }

    /// Changes with each program.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Changes with each text that is run.
    pub fn edits(&self) -> u64 {
        self.edits
    }

    /// The program's control.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The program's control, and what forwards by it. Updates that control has taken are handed to the plane by
    /// [`apply`](Self::apply).
    pub fn parts(&mut self) -> (&mut Control, &mut SwitchPlane) {
        (&mut self.control, &mut self.plane)
    }

    /// Hands what control has taken to the switch.
    pub fn apply(&mut self, updates: &[Update]) -> Result<(), String> {
        let done = if updates.is_empty() { Ok(()) } else { self.plane.update(updates) };
        self.retire();
        done
    }

    /// The same, and then what `f` does to the plane; only after it ids that have gone are used again.
    pub fn apply_and(
        &mut self,
        updates: &[Update],
        f: impl FnOnce(&mut SwitchPlane),
    ) -> Result<(), String> {
        let done = if updates.is_empty() { Ok(()) } else { self.plane.update(updates) };
        if done.is_ok() {
            f(&mut self.plane);
        }
        self.retire();
        done
    }

    /// Does lines of text; what they told, and which went wrong.
    pub fn run(&mut self, text: &str) -> (Vec<String>, Vec<Wrong>) {
        self.edits += 1;
        let done = commands::run(text, &mut self.control, &mut self.plane);
        self.retire();
        done
    }

    /// Tells of the lines that changed something.
    fn note_writes(&self, text: &str, wrong: &[Wrong]) {
        if commands::is_runtime(text) {
            let told = || format!("a runtime file, {} of it refused", wrong.len());
            self.plane.switch.note_change("ctl", "p4_write", "modify", told);
            return;
        }
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
            self.plane.entry_bases.remove(&id);
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

    /// Puts a program in place of the one that runs, with what fits it; every worker forwards by it when this returns.
    pub fn load(&mut self, (lowered, compile_ms): (Lowered, f64)) -> Result<Loaded, String> {
        let started = Instant::now();
        let before = self.control.pipeline.program().clone();
        let (updates, carried) = self.control.swap(lowered)?;
        let version = self.loaded(&before, &updates)?;
        let Carried { tables, entries, left } = carried;
        Ok(Loaded { version, compile_ms, swap_ms: millis(started), tables, entries, left })
    }

    /// Puts a program in place of the one that runs, if all that was put into that one fits it.
    pub fn reconcile(&mut self, lowered: Lowered) -> Result<u64, Refused> {
        let before = self.control.pipeline.program().clone();
        let updates = self.control.swap_whole(lowered)?;
        let done = self.loaded(&before, &updates);
        done.map_err(|e| Refused::new(::p4::control::Kind::Internal, e))
    }

    fn loaded(&mut self, before: &ir::Program, updates: &[Update]) -> Result<u64, String> {
        self.generation += 1;
        self.plane.update(updates)?;
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
        Ok(version)
    }

    /// Puts a program in place of the one that runs, with nothing of what that one had: entries, registers, counters. Every
    /// worker forwards by it when this returns.
    pub fn replace(&mut self, lowered: Lowered) -> Result<u64, String> {
        let before = self.control.pipeline.program().clone();
        let updates = self.control.replace(lowered)?;
        let version = self.loaded(&before, &updates)?;
        // Those that are the same in both programs have gone on.
        let program = self.control.pipeline.program().clone();
        for (n, register) in (0..).zip(&program.registers) {
            if before.registers.contains(register) {
                for index in 0..register.size {
                    let zero = Bits::zero(register.width);
                    self.plane.switch.set_register(RegisterId(n), index, &zero);
                }
            }
        }
        self.plane.bases.clear();
        for (n, array) in (0..).zip(&program.counters) {
            if before.counters.contains(array) {
                self.plane.reset_counter(n, array.size)?;
            }
        }
        Ok(version)
    }

    /// Entries that no packet has matched for as long as their timeouts say: table and entry of each. They
    /// stay, and are told of again after as long.
    pub fn idle(&mut self) -> Vec<(TableId, EntryId)> {
        let mut told = Vec::new();
        for expired in self.plane.switch.expired() {
            let (table, entry) = (expired.table, expired.entry);
            let Some((.., again)) = self.control.idle(table, entry) else { continue };
            told.push((table, entry));
            if let Err(error) = self.plane.update(&[again]) {
                tracing::warn!(%error, "an idle entry is not told of again");
            }
        }
        told
    }

    /// Tells a program that asks how many frames wait at each port.
    pub fn follow_queues(&mut self) {
        let Some(register) = self.control.names.queue_depth else { return };
        let width = self.control.pipeline.program().registers[register.index()].width;
        let most = (1 << width) - 1;
        for (port, bytes) in self.plane.switch.waiting() {
            let depth = bytes.div_ceil(WAITING_BYTES).min(most);
            let cell = Bits::from_u128(depth.into(), width);
            self.plane.switch.set_register(register, port, &cell);
        }
    }

    /// Looks which ports are down, for what follows them.
    pub fn follow_ports(&mut self) {
        let ports = self.plane.switch.ports();
        let down: HashSet<u32> = ports.iter().filter(|p| !p.is_live()).map(|p| p.number).collect();
        let done = self.control.set_down(down).map_err(String::from);
        if let Err(error) = done.and_then(|updates| self.apply(&updates)) {
            tracing::error!(%error, "groups and copies do not follow a port's link");
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
pub fn millis(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}

fn less((p, b): Counted, (base_p, base_b): Counted) -> Counted {
    (p.wrapping_sub(base_p), b.wrapping_sub(base_b))
}

impl SwitchPlane {
    /// Sets a cell of a counter array.
    pub fn set_counter(&mut self, array: u32, index: u32, to: Counted) {
        if let Some(now) = self.switch.array_counter(array, index) {
            self.bases.insert((array, index), less(now, to));
        }
    }

    /// Sets what an entry has counted.
    pub fn set_entry_counter(&mut self, entry: EntryId, to: Counted) {
        let now = self.switch.counter(entry.0);
        self.entry_bases.insert(entry.0, less((now.packets, now.bytes), to));
    }

    /// When a packet last matched an entry, in nanoseconds of the switch's clock.
    pub fn last_used_ns(&self, entry: EntryId) -> Option<u64> {
        self.switch.counter(entry.0).last_used_ns
    }

    /// What an entry has counted.
    pub fn entry_counter(&self, entry: EntryId) -> Counted {
        let now = self.switch.counter(entry.0);
        let base = self.entry_bases.get(&entry.0).copied().unwrap_or_default();
        less((now.packets, now.bytes), base)
    }

    /// What a meter has counted by colour since it got its rates.
    fn coloured(&self, id: MeterId, meter: &Meter) -> Option<[Counted; COLOURS]> {
        let stats = self.switch.meter_stats(id)?;
        let mut of = [(0, 0); COLOURS];
        of[0] = (stats.input.packets, stats.input.bytes);
        for (band, count) in meter.bands.iter().zip(&stats.bands) {
            let count = (count.packets, count.bytes);
            let colour = usize::from(band.color).min(COLOURS - 1);
            of[colour] = (of[colour].0 + count.0, of[colour].1 + count.1);
            of[0] = (of[0].0.saturating_sub(count.0), of[0].1.saturating_sub(count.1));
        }
        Some(of)
    }

    /// What a meter with these rates has counted by colour.
    pub fn meter_counts(&self, id: MeterId, meter: &Meter) -> Option<[Counted; COLOURS]> {
        let now = self.coloured(id, meter)?;
        let base = self.meter_bases.get(&id).copied().unwrap_or_default();
        Some([0, 1, 2].map(|colour| less(now[colour], base[colour])))
    }

    /// Sets what a meter with these rates has counted by colour.
    pub fn set_meter_counts(&mut self, id: MeterId, meter: &Meter, to: [Counted; COLOURS]) {
        if let Some(now) = self.coloured(id, meter) {
            self.meter_bases.insert(id, [0, 1, 2].map(|colour| less(now[colour], to[colour])));
        }
    }

    /// Forgets counts of a meter that were written.
    pub fn count_meter_anew(&mut self, id: MeterId) {
        self.meter_bases.remove(&id);
    }

    /// What a cell of a counter array has counted.
    pub fn array_counter(&self, array: u32, index: u32) -> Option<Counted> {
        let base = self.bases.get(&(array, index)).copied().unwrap_or_default();
        self.switch.array_counter(array, index).map(|now| less(now, base))
    }
}

impl Plane for SwitchPlane {
    fn update(&mut self, updates: &[Update]) -> Result<(), String> {
        if !self.meter_bases.is_empty() {
            for update in updates {
                match update {
                    Update::SetMeter(id, _) | Update::RemoveMeter(id) => {
                        self.meter_bases.remove(id);
                    }
                    Update::SetProgram(_) => self.meter_bases.clear(),
                    _ => {}
                }
            }
        }
        // The program's control has taken them.
        self.switch.follow(updates).map(|_| ()).map_err(|(_, e)| e.to_string())
    }

    fn register(&mut self, register: RegisterId, index: u32) -> Result<Option<Bits>, String> {
        Ok(self.switch.register(register, index))
    }

    fn set_register(&mut self, register: RegisterId, index: u32, to: &Bits) -> Result<(), String> {
        self.switch.set_register(register, index, to);
        Ok(())
    }

    fn counter(&mut self, array: u32, index: u32) -> Result<Option<Counted>, String> {
        Ok(self.array_counter(array, index))
    }

    fn reset_counter(&mut self, array: u32, size: u32) -> Result<(), String> {
        (0..size).for_each(|index| self.set_counter(array, index, (0, 0)));
        Ok(())
    }

    fn entry(&mut self, entry: EntryId) -> Result<Counted, String> {
        Ok(self.entry_counter(entry))
    }

    fn reset_entry(&mut self, entry: EntryId) -> Result<(), String> {
        self.entry_bases.remove(&entry.0);
        self.switch.reset_counter(entry.0);
        Ok(())
    }

    fn table(&mut self, table: TableId) -> Result<(u64, u64), String> {
        let stats = self.switch.table_stats(table);
        Ok((stats.lookups, stats.matches))
    }
}
