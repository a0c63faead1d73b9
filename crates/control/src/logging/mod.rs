//! Logs to standard error: logfmt, or JSON by `--log json`; and changes to a file by `--log-changes`.
//!
//! No thread of the switch waits for who reads the log: a thread of its own writes it ([`writer`]),
//! and what it cannot keep up with is counted and said. One message that comes again and again is
//! said a few times a second, and then how many more there were ([`limit`]). The last events are kept for `millrace events`
//! ([`events`]).

pub mod events;
mod limit;
mod writer;

use clap::ValueEnum;
use limit::{Limits, Suppressed};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use writer::{Lines, Sink};

/// Log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// key=value
    Logfmt,
    /// One JSON object a line
    Json,
}

/// The last lines are waited for so long when the process ends.
const FLUSH_MAX: Duration = Duration::from_millis(500);

static LOG: OnceLock<Lines> = OnceLock::new();
static CHANGES: OnceLock<Lines> = OnceLock::new();
/// Where lines go in place of standard error.
static FILE: Mutex<Option<File>> = Mutex::new(None);

/// Starts logging; `RUST_LOG` overrides the level.
pub fn start(format: &LogFormat, verbose: u8) {
    let level = match verbose {
        0 => "info",
        1 => "debug",
        _ => "trace",
    };
    // What its events say is told once; it would tell each attempt.
    let library = if verbose == 0 { "off" } else { "warn" };
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("{level},async_nats={library}")));
    let json = matches!(format, LogFormat::Json);
    let limits = Arc::new(Limits::default());
    let epoch = Instant::now();
    let sink = StandardError { json, limits: limits.clone(), epoch };
    if let Ok(lines) = Lines::start("log", Box::new(sink)) {
        // Started once in a process.
        let _ = LOG.set(lines);
    }
    let registry = tracing_subscriber::registry()
        .with(filter)
        .with(Limit { limits, epoch })
        .with(events::Keep);
    // Tests of ours may have started it.
    let _ = if json {
        let layer = tracing_subscriber::fmt::layer().json().flatten_event(true);
        registry.with(layer.with_writer(ToRing)).try_init()
    } else {
        let layer = tracing_subscriber::fmt::layer().event_format(Logfmt);
        registry.with(layer.with_writer(ToRing)).try_init()
    };
}

/// From now on lines go to the end of this file in place of standard error; to standard error again without one.
pub fn to_file(path: Option<&Path>) -> io::Result<()> {
    let file = path.map(append).transpose()?;
    *crate::sync::lock(&FILE) = file;
    Ok(())
}

/// A line for whoever started the command, among those of the log.
pub fn say(line: &str) {
    let line = format!("{line}\n");
    match LOG.get() {
        Some(lines) => lines.put(line.as_bytes()),
        // Nothing to be done about a standard error that is closed.
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Waits, for a while, until what was logged is written.
pub fn flush() {
    for lines in [LOG.get(), CHANGES.get()].into_iter().flatten() {
        lines.flush(FLUSH_MAX);
    }
}

/// Lines of the log, and of the file of changes, that were lost as nobody took them.
pub(crate) fn lost() -> (u64, u64) {
    (LOG.get().map_or(0, Lines::lost), CHANGES.get().map_or(0, Lines::lost))
}

/// Keeps every change of a switch in a file, which is added to.
pub(crate) fn keep_changes(switch: &switch::Switch, path: &Path) -> io::Result<()> {
    let sink = ChangesFile::begin(path)?;
    let lines = Lines::start("log-changes", Box::new(sink))?;
    let lines = CHANGES.get_or_init(|| lines).clone();
    switch.changes().keep(Box::new(move |change| {
        let peer = value(change.peer);
        let text = format!("{:?}", change.text);
        let (kind, verb) = (change.kind, change.verb);
        lines.put(
            format!("time={} msg={kind} peer={peer} verb={verb} change={text}\n", now()).as_bytes(),
        );
    }));
    Ok(())
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// The time, as log lines tell it.
pub(crate) fn now() -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

struct StandardError {
    json: bool,
    limits: Arc<Limits>,
    epoch: Instant,
}

impl StandardError {
    fn line(&self, level: &str, target: &str, message: &str, count: (&str, u64)) -> String {
        let (word, n) = count;
        match self.json {
            true => {
                let mut line = serde_json::json!({
                    "timestamp": now(), "level": level.to_ascii_uppercase(), "message": message, "target": target,
                });
                line[word] = n.into();
                format!("{line}\n")
            }
            false => {
                let time = now();
                format!("time={time} level={level} target={target} msg={message:?} {word}={n}\n")
            }
        }
    }
}

impl Sink for StandardError {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match &mut *crate::sync::lock(&FILE) {
            Some(file) => file.write_all(lines),
            None => io::stderr().write_all(lines),
        }
    }

    fn lost(&self, lines: u64) -> Vec<u8> {
        let message = "lines of the log were lost: whoever reads it does not keep up";
        self.line("warn", module_path!(), message, ("lost", lines)).into_bytes()
    }

    fn tick(&mut self) -> Vec<u8> {
        let now_ns = since(self.epoch);
        let mut all = String::new();
        for Suppressed { level, target, message, count, seconds } in self.limits.report(now_ns) {
            let level = level.as_str().to_ascii_lowercase();
            let text = format!("{count} more suppressed in {seconds} s: {message}");
            all += &self.line(&level, target, &text, ("suppressed", count));
        }
        all.into_bytes()
    }
}

/// The file of changes. One that is moved away or removed, as to rotate it, is begun anew within
/// [`LOOK`] or so, and needs no signal for that.
struct ChangesFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Device and inode.
    identity: (u64, u64),
    looked: Instant,
}

/// The file's place is looked at so often.
const LOOK: Duration = Duration::from_secs(1);

impl ChangesFile {
    fn begin(path: &Path) -> io::Result<ChangesFile> {
        let file = append(path)?;
        let meta = file.metadata()?;
        let (path, identity) = (path.to_path_buf(), (meta.dev(), meta.ino()));
        Ok(ChangesFile { path, file: BufWriter::new(file), identity, looked: Instant::now() })
    }

    fn is_moved(&self) -> bool {
        std::fs::metadata(&self.path).map_or(true, |m| (m.dev(), m.ino()) != self.identity)
    }
}

impl Sink for ChangesFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)
    }

    fn rest(&mut self) {
        if let Err(error) = self.file.flush() {
            tracing::warn!(path = %self.path.display(), %error, "changes are not kept");
        }
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        if !self.is_moved() {
            return;
        }
        match ChangesFile::begin(&self.path) {
            Ok(anew) => *self = anew,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "the file of changes cannot be begun anew");
            }
        }
    }

    fn lost(&self, lines: u64) -> Vec<u8> {
        let text = "changes came faster than they could be written";
        format!("time={} msg={text:?} lost={lines}\n", now()).into_bytes()
    }
}

fn since(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Lets a message pass, or counts it.
struct Limit {
    limits: Arc<Limits>,
    epoch: Instant,
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.limits.admit(event.metadata(), since(self.epoch), || {
            let mut pairs = Pairs::default();
            event.record(&mut pairs);
            pairs.message
        })
    }
}

/// Writes into the log's ring.
#[derive(Clone, Copy)]
struct ToRing;

impl<'a> MakeWriter<'a> for ToRing {
    type Writer = ToRing;

    fn make_writer(&'a self) -> ToRing {
        ToRing
    }
}

impl io::Write for ToRing {
    /// Called once for each event, with all of its line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match LOG.get() {
            Some(lines) => lines.put(line),
            None => return io::stderr().write(line),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `time=... level=info msg="..." key=value ...`
struct Logfmt;

#[derive(Default)]
struct Pairs {
    message: String,
    others: String,
}

/// A value as logfmt writes it: quoted where that is needed.
fn value(value: &str) -> String {
    let plain = !value.is_empty()
        && value.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'=' | b'\\'));
    if plain { value.to_string() } else { format!("{value:?}") }
}

impl Pairs {
    fn add(&mut self, field: &Field, text: &str) {
        if field.name() == "message" {
            self.message = text.to_owned();
        } else {
            // Writing to a string does not fail.
            let _ = write!(self.others, " {}={}", field.name(), value(text));
        }
    }
}

impl Visit for Pairs {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let mut pairs = Pairs::default();
        event.record(&mut pairs);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let target = event.metadata().target();
        let (message, others) = (pairs.message, pairs.others);
        writeln!(writer, "time={} level={level} target={target} msg={message:?}{others}", now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_changes_is_added_to_and_begun_anew_when_it_is_moved() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("changes"), dir.path().join("changes.1"));
        std::fs::write(&path, "before\n").unwrap();
        let mut file = ChangesFile::begin(&path).unwrap();
        file.write(b"one\n").unwrap();
        file.rest();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\none\n");
        std::fs::rename(&path, &old).unwrap();
        file.looked = Instant::now().checked_sub(LOOK).unwrap();
        file.write(b"two\n").unwrap();
        file.rest();
        file.write(b"three\n").unwrap();
        file.rest();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "before\none\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
    }

    #[test]
    fn values_are_quoted_where_that_is_needed() {
        assert_eq!(value("tcp:127.0.0.1:6653"), "tcp:127.0.0.1:6653");
        assert_eq!(value(""), "\"\"");
        assert_eq!(value("a=b"), "\"a=b\"");
        assert_eq!(value("a b\n"), "\"a b\\n\"");
    }

    #[test]
    fn lines_of_the_log_itself_have_its_form() {
        let of = |json| StandardError { json, limits: Arc::default(), epoch: Instant::now() };
        let text = String::from_utf8(of(false).lost(3)).unwrap();
        assert!(text.starts_with("time=2") && text.ends_with(" lost=3\n"), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&of(true).lost(3)).unwrap();
        assert_eq!((&json["lost"], &json["level"]), (&3.into(), &"WARN".into()));
        assert!(of(false).tick().is_empty());
    }
}
