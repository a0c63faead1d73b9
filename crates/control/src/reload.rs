//! Another configuration for a process that runs: planned, applied as a whole, taken back.
//!
//! In: the options that the process was started with, and a file that is another or has changed. Out: the changes from what
//! the process is to what the file says ([`diff`](crate::config::diff)), made one after the other while packets pass.
//!
//! - What only a restart changes is told, and then nothing is applied.
//! - A change that fails has all that were made before it undone.
//! - With a time to confirm, all is undone unless somebody confirms in time: an operator who has cut himself off gets
//!   his connection back.
//! - Ports and bridges that the file does not have go, whoever added them. Entries stay that the file does not have itself: those
//!   of files are put in place at the start, others are their controllers'. A file of entries, or a program, that has changed
//!   since is told. Entries in the file itself come and go with their lines ([`entries`](crate::program::entries)).
//! - A port without a number in the file keeps the one that it has.
//!
//! One configuration is applied at a time. Checked by: the tests below; `lab/reload`.

use crate::bridges::Bridges;
use crate::config::diff::{BridgeParts, Change, PortParts, Setup, diff};
use crate::config::{Config, File, Options, check_cpus};
use crate::controllers;
use crate::failure::Failure;
use crate::logging::now;
use crate::ports::Ports;
use crate::program::entries::Entries;
use crate::sync::lock;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use switch::Workers;

/// So many configurations are remembered.
const HISTORY: usize = 100;
/// A confirmation is waited for so long at most.
pub const CONFIRM_MAX: Duration = Duration::from_secs(86_400);

/// What was done with a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Applied {
    /// Its number, from 1.
    pub number: u64,
    /// When, in UTC.
    pub time: String,
    /// The file.
    pub file: String,
    /// What was changed, a line each: `+ port p3 of br0`.
    pub changes: Vec<String>,
    /// What was not done: files that have changed, and that are read at the start alone.
    pub ignored: Vec<String>,
    /// `applied`, `confirmed`, `waits for confirmation`, `rolled back`, `not confirmed: rolled back`, or why it failed.
    pub outcome: String,
}

/// What would be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// The file.
    pub file: String,
    /// What would be changed, a line each.
    pub changes: Vec<String>,
    /// Settings that only a restart changes.
    pub restart: Vec<String>,
    /// What would not be done: files that have changed, and that are read at the start alone.
    pub ignored: Vec<String>,
}

#[derive(Default)]
struct State {
    history: VecDeque<Applied>,
    /// What the process was before the last configuration that can be taken back, and its number.
    before: Option<(u64, Setup)>,
    /// The configuration that waits for a confirmation.
    waits: Option<u64>,
    last: u64,
}

/// The configurations of a process.
pub(crate) struct Reload {
    options: Options,
    /// What the process was started with: its options, and the file as it was then.
    given: File,
    /// What the process has from its start on.
    process: BTreeMap<&'static str, String>,
    /// Files that are read at the start, as they were then.
    read: BTreeMap<PathBuf, Option<Version>>,
    bridges: Bridges,
    /// Where the configuration comes from, if not from files that are named here.
    fleet: Option<String>,
    state: Mutex<State>,
    decided: Condvar,
}

/// Looks at a configuration as a whole, its files of entries and its program among them, and opens no port.
pub fn check(options: Options) -> Result<(), Failure> {
    let config = Config::new(options)?;
    check_cpus(&config.cpus)?;
    let ports = Ports::plan(&config)?;
    config.setup(&ports)?;
    config.channel.check().map_err(Failure::bad)?;
    let workers = Workers::start(1, &[]).map_err(Failure::bad)?;
    let begun = controllers::begin(&config, &workers)?;
    let checked = begun.check(&ports.names());
    begun.switch().stop();
    checked
}

impl Reload {
    /// For a process that was started with these options and became this.
    pub(crate) fn new(
        options: Options,
        config: &Config,
        setup: &Setup,
        bridges: Bridges,
    ) -> Reload {
        let entries = [&config.flows, &config.groups, &config.meters].into_iter().flatten();
        let files = entries.chain(&config.p4).chain(&config.entries);
        let fleet = options.begun.as_ref().map(|begun| begun.place.shown());
        Reload {
            fleet,
            options,
            given: config.given.clone(),
            process: setup.process.clone(),
            read: files.map(|file| (file.clone(), version(file))).collect(),
            bridges,
            state: Mutex::default(),
            decided: Condvar::new(),
        }
    }

    /// What the process was started with.
    pub(crate) fn given(&self) -> &File {
        &self.given
    }

    /// The configuration is a fleet's: nobody changes it here.
    pub(crate) fn of_a_fleet(&self) -> Result<(), String> {
        match &self.fleet {
            None => Ok(()),
            Some(at) => Err(format!(
                "the configuration of this process comes from a fleet's store: add --to {at}"
            )),
        }
    }

    /// A configuration waits for confirmation.
    pub(crate) fn waits(&self) -> bool {
        lock(&self.state).waits.is_some()
    }

    /// Files that hold something else than at the start, a line each.
    fn ignored(&self) -> Vec<String> {
        let changed = self.read.iter().filter(|(file, then)| {
            // A pipe has no versions.
            then.is_some() && version(file) != **then
        });
        let line = |(file, _): (&PathBuf, _)| {
            format!("{} has changed; it is read at the start alone", file.display())
        };
        changed.map(line).collect()
    }

    /// The file that is meant, if none is named the one that the process was started with.
    fn file(&self, named: Option<&Path>) -> Result<PathBuf, String> {
        let file = named.or(self.options.config.as_deref()).map(Path::to_owned);
        file.ok_or_else(|| {
            "the process was started without a configuration file: name one".to_owned()
        })
    }

    /// What a file asks for.
    fn wanted(&self, file: &Path) -> Result<Setup, String> {
        let options = Options { config: Some(file.to_owned()), ..self.options.clone() };
        let read = || -> Result<Setup, Failure> {
            let config = Config::new(options)?;
            let mut setup = config.setup(&Ports::plan(&config)?)?;
            let free = |name: &str| {
                config.ports.iter().any(|spec| spec.name() == name && spec.number.is_none())
            };
            for port in setup.bridges.first_mut().into_iter().flat_map(|first| &mut first.ports) {
                port.number = port.number.filter(|_| !free(&port.name));
            }
            Ok(setup)
        };
        read().map_err(Failure::text)
    }

    /// What the process is.
    fn has(&self) -> Setup {
        Setup { process: self.process.clone(), bridges: self.bridges.setup() }
    }

    /// Settings and lines that only a restart changes.
    fn restarts(&self, changes: &[Change]) -> Vec<String> {
        let settings = |change: &Change| match change {
            Change::Restart(setting) => vec![(*setting).to_owned()],
            Change::SetEntries { bridge: name, entries } => {
                let bridge = self.bridges.bridge(name).ok();
                let fixed = bridge.map(|bridge| bridge.fixed_entries(entries));
                let line = |(line, why)| format!("entry {line:?} of {name} ({why})");
                fixed.into_iter().flatten().map(line).collect()
            }
            _ => Vec::new(),
        };
        changes.iter().flat_map(settings).collect()
    }

    /// What applying a file would do.
    pub(crate) fn plan(&self, file: Option<&Path>) -> Result<Plan, String> {
        let file = self.file(file)?;
        let (has, wanted) = (self.has(), self.wanted(&file)?);
        let changes = diff(&has, &wanted);
        Ok(Plan {
            file: file.display().to_string(),
            restart: self.restarts(&changes),
            changes: lines(&changes, &has),
            ignored: self.ignored(),
        })
    }

    /// Makes the process what a file says. `within` bounds the time until somebody confirms it.
    pub(crate) fn apply(
        self: &Arc<Self>,
        file: Option<&Path>,
        within: Option<Duration>,
    ) -> Result<Applied, String> {
        let file = self.file(file)?;
        let mut state = lock(&self.state);
        if let Some(number) = state.waits {
            return Err(format!(
                "configuration {number} waits for confirmation: `millrace config confirm`, or `rollback`, first"
            ));
        }
        let (has, wanted) = (self.has(), self.wanted(&file)?);
        let changes = diff(&has, &wanted);
        let restart = self.restarts(&changes);
        if !restart.is_empty() {
            return Err(format!(
                "nothing was applied: {} change with a restart; `millrace run --take-over` makes one without loss",
                restart.join(", ")
            ));
        }
        state.last += 1;
        let mut applied = Applied {
            number: state.last,
            time: now(),
            file: file.display().to_string(),
            changes: lines(&changes, &has),
            ignored: self.ignored(),
            outcome: "applied".to_owned(),
        };
        applied.ignored.iter().for_each(|line| tracing::warn!("configuration: {line}"));
        if let Err(why) = self.make(changes) {
            let undone = match self.become_again(&has) {
                Ok(()) => "all that was changed before is undone".to_owned(),
                Err(why) => format!("undoing it failed, too: {why}"),
            };
            let outcome = format!("{why}; {undone}");
            tracing::error!(
                file = applied.file,
                number = applied.number,
                "configuration not applied: {outcome}"
            );
            outcome.clone_into(&mut applied.outcome);
            state.keep(applied);
            return Err(outcome);
        }
        tracing::info!(
            file = applied.file,
            number = applied.number,
            changes = applied.changes.len(),
            "configuration applied"
        );
        state.before = Some((applied.number, has));
        if let Some(within) = within {
            "waits for confirmation".clone_into(&mut applied.outcome);
            state.waits = Some(applied.number);
            let (own, number) = (self.clone(), applied.number);
            let thread = std::thread::Builder::new().name("config-confirm".to_owned());
            if let Err(error) = thread.spawn(move || own.wait(number, Instant::now() + within)) {
                state.keep(applied);
                let undone = self.roll_back(&mut state, "not confirmed: rolled back");
                return Err(format!("nobody could wait for the confirmation: {error}; {undone:?}"));
            }
        }
        state.keep(applied.clone());
        Ok(applied)
    }

    /// What was applied last stays.
    pub(crate) fn confirm(&self) -> Result<Applied, String> {
        let mut state = lock(&self.state);
        let number = state.waits.take().ok_or("no configuration waits for confirmation")?;
        self.decided.notify_all();
        Ok(state.came_to(number, "confirmed"))
    }

    /// Undoes what was applied last.
    pub(crate) fn rollback(&self) -> Result<Applied, String> {
        let mut state = lock(&self.state);
        self.roll_back(&mut state, "rolled back")
    }

    /// The configurations that were applied, the oldest first.
    pub(crate) fn history(&self) -> Vec<Applied> {
        lock(&self.state).history.iter().cloned().collect()
    }

    fn roll_back(&self, state: &mut State, outcome: &str) -> Result<Applied, String> {
        let (number, before) = state.before.take().ok_or("there is nothing to roll back")?;
        state.waits = None;
        self.decided.notify_all();
        match self.become_again(&before) {
            Ok(()) => {
                tracing::info!(number, "configuration {outcome}");
                Ok(state.came_to(number, outcome))
            }
            Err(why) => {
                tracing::error!(number, "configuration not rolled back: {why}");
                state.came_to(number, &format!("rolling back failed: {why}"));
                Err(why)
            }
        }
    }

    /// Waits until somebody decides. Then, or in the end, all is as it is to stay.
    fn wait(&self, number: u64, until: Instant) {
        let mut state = lock(&self.state);
        loop {
            if state.waits != Some(number) {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.decided.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        tracing::warn!(number, "nobody has confirmed the configuration in time");
        // What went wrong is in the log and in the history.
        let _ = self.roll_back(&mut state, "not confirmed: rolled back");
    }

    fn make(&self, changes: Vec<Change>) -> Result<(), String> {
        for change in changes {
            let line = change.to_string();
            self.bridges.apply(change).map_err(|error| format!("{line}: {error}"))?;
        }
        Ok(())
    }

    /// Goes back to what the process was. What cannot be made does not keep the rest from being made.
    fn become_again(&self, before: &Setup) -> Result<(), String> {
        let failed: Vec<String> = diff(&self.has(), before)
            .into_iter()
            .filter_map(|change| self.make(vec![change]).err())
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}

impl State {
    fn keep(&mut self, applied: Applied) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(applied);
    }

    fn came_to(&mut self, number: u64, outcome: &str) -> Applied {
        let Some(applied) = self.history.iter_mut().find(|one| one.number == number) else {
            return Applied { number, outcome: outcome.to_owned(), ..Applied::default() };
        };
        outcome.clone_into(&mut applied.outcome);
        applied.clone()
    }
}

/// Which version of a file it is: its inode, its length, and when it was written.
type Version = (u64, u64, SystemTime);

/// The version of a file that is there. It is not read: of a pipe nothing would be left.
fn version(file: &Path) -> Option<Version> {
    let meta = std::fs::metadata(file).ok().filter(|meta| meta.is_file())?;
    Some((meta.ino(), meta.len(), meta.modified().ok()?))
}

/// Changes as lines of a diff, without values: these may be keys.
fn lines(changes: &[Change], has: &Setup) -> Vec<String> {
    let line = |change: &Change| {
        vec![match change {
            Change::Restart(_) => return Vec::new(),
            Change::SetEntries { bridge, entries } => {
                let none = Entries::default();
                let had = has.bridge(bridge).map_or(&none, |had| &had.entries);
                let say = |sign: &'static str, all: Vec<(&'static str, String)>| {
                    all.into_iter()
                        .map(move |(kind, line)| format!("{sign} {kind} of {bridge}: {line}"))
                };
                let goes = say("-", had.beyond(entries));
                return goes.chain(say("+", entries.beyond(had))).collect();
            }
            Change::RemovePort { bridge, port } => format!("- port {port} of {bridge}"),
            Change::AddPort { bridge, port } => format!("+ port {} of {bridge}", port.name),
            Change::RemoveBridge(bridge) => format!("- bridge {bridge}"),
            Change::AddBridge(bridge) => format!("+ bridge {}", bridge.name),
            Change::ChangeBridge(bridge) => {
                let had = has.bridge(&bridge.name).map(|had| &had.bridge);
                let parts = had.map(|had| BridgeParts::between(had, bridge)).unwrap_or_default();
                let words = [
                    (parts.datapath_id, "datapath id"),
                    (parts.channel, "controllers"),
                    (parts.normal && !parts.learning, "mirrors or bonds"),
                    (parts.learning, "NORMAL"),
                    (parts.tables, "tables"),
                ];
                format!("~ bridge {}: {}", bridge.name, named(&words))
            }
            Change::ChangePort { bridge, port } => {
                let ports = has.bridge(bridge).map(|had| &had.ports);
                let had = ports.and_then(|all| all.iter().find(|one| one.name == port.name));
                let parts = had.map(|had| PortParts::between(had, port)).unwrap_or_default();
                let words = [(parts.number, "number"), (parts.vlan, "VLANs")];
                format!("~ port {} of {bridge}: {}", port.name, named(&words))
            }
        }]
    };
    changes.iter().flat_map(line).collect()
}

fn named(words: &[(bool, &str)]) -> String {
    let said: Vec<&str> = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::bed::{bridges, until};
    use crate::config::diff::BridgeSetup;
    use port::memory;
    use std::fs;
    use switch::EngineKind;

    struct Bed {
        reload: Arc<Reload>,
        file: PathBuf,
        _folder: tempfile::TempDir,
        _far: Vec<memory::Handle>,
    }

    /// A process that was started with a file of this text.
    fn started(name: &str, text: &str) -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("switch.toml");
        let far = ["a", "b", "c"].map(|port| memory::attach(&format!("{name}-{port}")).unwrap());
        write(&file, name, text);
        let options = Options { config: Some(file.clone()), ..Options::default() };
        let setup = Setup::read(options.clone()).unwrap();
        let config = Config::new(options.clone()).unwrap();
        let bridges = bridges(1, EngineKind::default());
        for BridgeSetup { bridge, ports, entries } in setup.bridges.clone() {
            let own = bridge.name.clone();
            bridges.add(bridge).unwrap();
            for port in ports {
                bridges.add_port(&own, port).unwrap();
            }
            bridges.set_entries(&own, &entries, true).unwrap();
        }
        let reload = Arc::new(Reload::new(options, &config, &setup, bridges));
        Bed { reload, file, _folder: folder, _far: far.into() }
    }

    /// `@` stands for the test's name, as the ends of ports in memory have names of the process.
    fn write(file: &Path, name: &str, text: &str) {
        fs::write(file, text.replace('@', name)).unwrap();
    }

    fn ports(bed: &Bed) -> Vec<(String, u32)> {
        let bridge = bed.reload.bridges.bridge("br0").unwrap();
        bridge.ports().into_iter().map(|port| (port.config.name, port.view.number)).collect()
    }

    const TWO: &str = "port = [\"p1=memory:@-a\", \"p2=memory:@-b\"]\n";

    #[test]
    fn a_file_that_says_what_runs_changes_nothing() {
        let bed = started("reload-same", TWO);
        assert_eq!(bed.reload.plan(None).unwrap().changes, Vec::<String>::new());
        assert_eq!(bed.reload.plan(None).unwrap().restart, Vec::<String>::new());
        let applied = bed.reload.apply(None, None).unwrap();
        assert_eq!((applied.number, applied.changes.len(), &*applied.outcome), (1, 0, "applied"));
        bed.reload.bridges.stop();
    }

    #[test]
    fn a_configuration_is_planned_applied_and_taken_back() {
        let name = "reload-apply";
        let bed = started(name, TWO);
        let text = "port = [\"p2=memory:@-b\", \"p3=memory:@-c\"]\nvlan = [\"p2,vlan=10\"]\n";
        write(&bed.file, name, text);
        let plan = bed.reload.plan(None).unwrap();
        let expected = ["- port p1 of br0", "~ port p2 of br0: VLANs", "+ port p3 of br0"];
        assert_eq!(plan.changes, expected);
        assert_eq!(
            ports(&bed),
            [("p1".to_owned(), 1), ("p2".to_owned(), 2)],
            "a plan does nothing"
        );
        let applied = bed.reload.apply(None, None).unwrap();
        assert_eq!(applied.changes, expected);
        // Who has no number in the file keeps the one that it has.
        assert_eq!(ports(&bed), [("p3".to_owned(), 1), ("p2".to_owned(), 2)]);
        assert!(bed.reload.plan(None).unwrap().changes.is_empty());
        assert_eq!(bed.reload.rollback().unwrap().outcome, "rolled back");
        assert_eq!(ports(&bed), [("p1".to_owned(), 1), ("p2".to_owned(), 2)]);
        assert_eq!(bed.reload.rollback().unwrap_err(), "there is nothing to roll back");
        assert_eq!(bed.reload.history().len(), 1);
        assert_eq!(bed.reload.history()[0].outcome, "rolled back");
        bed.reload.bridges.stop();
    }

    #[test]
    fn a_change_that_fails_has_the_others_undone() {
        let name = "reload-fails";
        let bed = started(name, TWO);
        write(&bed.file, name, "port = [\"p2=memory:@-b\", \"p4=af_packet:no-such-device\"]\n");
        let why = bed.reload.apply(None, None).unwrap_err();
        assert!(why.starts_with("bridge br0: port p4 comes: "), "{why}");
        assert!(why.ends_with("; all that was changed before is undone"), "{why}");
        assert_eq!(ports(&bed), [("p1".to_owned(), 1), ("p2".to_owned(), 2)]);
        assert_eq!(bed.reload.history()[0].outcome, why);
        bed.reload.bridges.stop();
    }

    #[test]
    fn a_file_of_entries_that_has_changed_is_told() {
        let flows = tempfile::NamedTempFile::new().unwrap();
        fs::write(flows.path(), "actions=NORMAL\n").unwrap();
        let text = format!("{TWO}flows = [{:?}]\n", flows.path());
        let bed = started("reload-flows", &text);
        assert!(bed.reload.plan(None).unwrap().ignored.is_empty());
        fs::write(flows.path(), "actions=drop # longer\n").unwrap();
        let told = format!("{} has changed; it is read at the start alone", flows.path().display());
        assert_eq!(bed.reload.plan(None).unwrap().ignored, [&*told]);
        assert_eq!(bed.reload.apply(None, None).unwrap().ignored, [told]);
        bed.reload.bridges.stop();
    }

    #[test]
    fn a_pipe_of_entries_is_left_to_who_loads_them() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();
        // Whoever opened it here would wait for a writer.
        assert_eq!(version(&pipe), None);
        let bed = started("reload-pipe", &format!("{TWO}flows = [{pipe:?}]\n"));
        assert!(bed.reload.plan(None).unwrap().ignored.is_empty());
        bed.reload.bridges.stop();
    }

    #[test]
    fn what_nobody_confirms_is_taken_back() {
        let name = "reload-confirm";
        let bed = started(name, TWO);
        write(&bed.file, name, "port = [\"p1=memory:@-a\"]\n");
        let applied = bed.reload.apply(None, Some(Duration::from_millis(50))).unwrap();
        assert_eq!(applied.outcome, "waits for confirmation");
        until("it is taken back", || ports(&bed).len() == 2);
        until("it is told", || bed.reload.history()[0].outcome == "not confirmed: rolled back");
        assert!(bed.reload.confirm().is_err());
        // And what somebody confirms stays.
        let applied = bed.reload.apply(None, Some(Duration::from_secs(60))).unwrap();
        let busy = bed.reload.apply(None, None).unwrap_err();
        assert!(busy.starts_with("configuration 2 waits for confirmation"), "{busy}");
        assert_eq!(bed.reload.confirm().unwrap().outcome, "confirmed");
        assert_eq!((applied.number, ports(&bed).len()), (2, 1));
        bed.reload.bridges.stop();
    }

    /// Cookies and what they do, of one bridge.
    fn entries(bed: &Bed) -> Vec<String> {
        let bridge = bed.reload.bridges.bridge("br0").unwrap();
        let openflow = bridge.openflow().unwrap();
        let agent = openflow.agent();
        let flows = agent.flows().iter(0);
        let mut all: Vec<String> =
            flows.map(|(_, flow)| format!("{:#x} {:?}", flow.cookie, flow.instructions)).collect();
        all.sort();
        all
    }

    #[test]
    fn entries_of_the_file_itself_are_planned_by_line_and_taken_back() {
        let name = "reload-entries";
        let with = |lines: &str| format!("{TWO}flow = [{lines}]\n");
        let bed = started(name, &with("\"cookie=1,priority=1,actions=output:p2\""));
        let others = "cookie=9,priority=9,actions=drop";
        crate::bridges::bed::flow(&bed.reload.bridges, "br0", others);
        let before = entries(&bed);
        assert_eq!(before.len(), 2, "{before:?}");
        assert!(bed.reload.plan(None).unwrap().changes.is_empty());
        // One goes, one comes, and one takes the place of a controller's.
        let lines =
            "\"cookie=2,priority=2,actions=output:p1\", \"cookie=3,priority=9,actions=output:1\"";
        write(&bed.file, name, &with(lines));
        let plan = bed.reload.plan(None).unwrap();
        let expected = [
            "- flow of br0: cookie=1,priority=1,actions=output:p2",
            "+ flow of br0: cookie=2,priority=2,actions=output:p1",
            "+ flow of br0: cookie=3,priority=9,actions=output:1",
        ];
        assert_eq!(
            (&plan.changes[..], entries(&bed)),
            (&expected.map(str::to_owned)[..], before.clone())
        );
        let applied = bed.reload.apply(None, Some(Duration::from_secs(3))).unwrap();
        assert_eq!(applied.changes, expected);
        let now = entries(&bed);
        assert!(
            now.len() == 2 && now[0].starts_with("0x2 ") && now[1].starts_with("0x3 "),
            "{now:?}"
        );
        until("it is taken back", || {
            bed.reload.history()[0].outcome == "not confirmed: rolled back"
        });
        assert_eq!(entries(&bed), before, "and so is what a controller had");
        // A line that is refused has all others undone.
        write(&bed.file, name, &with("\"cookie=4,actions=output:1\", \"actions=group:77\""));
        let why = bed.reload.apply(None, None).unwrap_err();
        assert!(why.contains("flow \"actions=group:77\": "), "{why}");
        assert_eq!(entries(&bed), before);
        write(&bed.file, name, &with("\"actions=outptu:1\""));
        assert!(bed.reload.plan(None).unwrap_err().contains("outptu"));
        // What is confirmed stays, and is what the next one is compared with.
        write(&bed.file, name, TWO);
        bed.reload.apply(None, Some(Duration::from_secs(60))).unwrap();
        bed.reload.confirm().unwrap();
        assert_eq!(entries(&bed).len(), 1);
        assert!(bed.reload.plan(None).unwrap().changes.is_empty());
        bed.reload.bridges.stop();
    }

    #[test]
    fn what_needs_a_restart_and_what_is_wrong_is_told_and_nothing_done() {
        let name = "reload-restart";
        let bed = started(name, TWO);
        write(&bed.file, name, "port = [\"p1=memory:@-a\"]\nworkers = 2\n");
        let plan = bed.reload.plan(None).unwrap();
        assert_eq!((plan.restart, plan.changes.len()), (vec!["--workers".to_owned()], 1));
        let why = bed.reload.apply(None, None).unwrap_err();
        assert!(why.starts_with("nothing was applied: --workers change with a restart"), "{why}");
        write(&bed.file, name, "prot = []\n");
        let why = bed.reload.apply(None, None).unwrap_err();
        assert!(why.contains("switch.toml:1:1: unknown field `prot`"), "{why}");
        let gone = bed.reload.plan(Some(Path::new("/nonexistent.toml"))).unwrap_err();
        assert!(gone.contains("/nonexistent.toml"), "{gone}");
        assert_eq!(ports(&bed).len(), 2);
        bed.reload.bridges.stop();
    }
}
