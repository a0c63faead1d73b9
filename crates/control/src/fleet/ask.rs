//! What operators ask of the store: versions written, confirmed, taken back, and what members say of them.

use super::Place;
use super::ack::{Ack, Outcome};
use super::plain::Plain;
use super::store::{self, Head, NotWritten, Said, Store};
use super::version::{Version, Waits, changes, check};
use crate::failure::Failure;
use crate::logging::now;
use serde::Serialize;
use std::fmt::Write as _;
use std::future::Future;
use std::time::{Duration, Instant};

/// A server that does not answer for so long is away.
const PATIENCE: Duration = Duration::from_secs(10);
/// A member that has said nothing for so long is not waited for.
const SILENT: Duration = Duration::from_secs(30);
/// How often members are asked.
const AGAIN: Duration = Duration::from_millis(200);

/// A member, as it is told.
#[derive(Debug, Clone, Serialize)]
pub struct Told {
    /// Its name.
    pub member: String,
    /// The version that it has said something of.
    pub version: u64,
    /// What has become of that.
    pub outcome: Outcome,
    /// Why it was not applied.
    pub error: String,
    /// The version that it is.
    pub running: u64,
    /// The digest of that.
    pub digest: String,
    /// Since when it is so, in UTC.
    pub since: String,
    /// The version of its program.
    pub program: String,
    /// Seconds since it has said something.
    pub silent_s: u64,
}

impl Told {
    fn of(said: Said) -> Told {
        let Ack { number, outcome, error, running, digest, since, program } = said.ack;
        let silent_s = said.age.as_secs();
        let member = said.member;
        Told { member, version: number, outcome, error, running, digest, since, program, silent_s }
    }

    fn is_silent(&self) -> bool {
        self.silent_s >= SILENT.as_secs()
    }

    fn line(&self) -> String {
        let Told { member, version, outcome, running, digest, since, .. } = self;
        let error = if self.error.is_empty() { String::new() } else { format!(": {}", self.error) };
        let runs = match running == version {
            true => String::new(),
            false => format!("; runs version {running}"),
        };
        let silent = match self.is_silent() {
            true => format!(", SILENT for {} s", self.silent_s),
            false => String::new(),
        };
        let digest = digest.get(..8).unwrap_or(digest);
        format!(
            "{member}: version {version} {}{error}{runs}, digest {digest}, since {since}{silent}",
            outcome.word()
        )
    }
}

/// What the store holds, and what members say of it.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The version that was written last.
    pub version: u64,
    /// The version that stands: another one, if the last was not confirmed.
    pub stands: Option<u64>,
    /// Its digest.
    pub digest: String,
    /// Seconds that are left to confirm the last one.
    pub confirm_within_s: Option<u64>,
    /// Who has written it, and when.
    pub by: String,
    /// Likewise.
    pub time: String,
    /// The members.
    pub members: Vec<Told>,
}

impl Status {
    /// All members are what the store says.
    pub fn is_whole(&self) -> bool {
        !self.members.is_empty()
            && self.members.iter().all(|member| {
                Some(member.running) == self.stands && !member.is_silent()
                    || member.outcome == Outcome::Waits && member.version == self.version
            })
    }

    /// For people.
    pub fn text(&self) -> String {
        let waits = match (self.confirm_within_s, self.stands) {
            (Some(left), _) => format!(", waits for confirmation: {left} s left"),
            (None, stands) if stands != Some(self.version) => ", was not confirmed".to_owned(),
            _ => String::new(),
        };
        let digest = self.digest.get(..8).unwrap_or(&self.digest);
        let mut out = format!(
            "version {}, digest {digest}, by {} at {}{waits}\n",
            self.version, self.by, self.time
        );
        for member in &self.members {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{}", member.line());
        }
        if self.members.is_empty() {
            out.push_str("no member has said anything yet\n");
        }
        out
    }
}

/// A version that is remembered.
#[derive(Debug, Clone, Serialize)]
pub struct Remembered {
    /// Its number.
    pub version: u64,
    /// When it was written, in UTC.
    pub time: String,
    /// By whom.
    pub by: String,
    /// Its digest.
    pub digest: String,
    /// Whether it stands, or stood.
    pub confirmed: bool,
    /// Its lines.
    pub lines: usize,
}

/// How members are waited for.
pub struct Waiting<'a> {
    /// So long.
    pub span: Duration,
    /// Told what members say as it comes, and how much time is left.
    pub tell: &'a mut dyn FnMut(Heard<'_>),
}

/// What is heard while members are waited for.
pub enum Heard<'a> {
    /// A line of a member.
    Line(&'a str),
    /// Who has not said anything yet, and the seconds that are left.
    Left(&'a [String], u64),
}

/// Runs what is asked, to its end.
fn run<T>(asked: impl Future<Output = Result<T, String>>) -> Result<T, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::bad)?;
    let outcome = runtime.block_on(asked);
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome.map_err(Failure::Bad)
}

async fn within<T>(asked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let away = |_| "the server does not answer".to_owned();
    tokio::time::timeout(PATIENCE, asked).await.map_err(away)?
}

async fn open(place: &Place) -> Result<Store, String> {
    within(async {
        let client = store::connected(place).await?;
        Store::open(&client, &place.group).await
    })
    .await
}

/// The last version; none if there is none yet.
async fn head(store: &Store) -> Result<Option<(Head, Version)>, String> {
    let Some(head) = within(store.head()).await? else { return Ok(None) };
    let version = head.version.clone().map_err(|why| {
        format!("what the store holds is no version: {why}; `nats kv` can write an earlier one")
    })?;
    Ok(Some((head, version)))
}

async fn some_head(place: &Place, store: &Store) -> Result<(Head, Version), String> {
    let none = || format!("{} holds no configuration yet", place.shown());
    head(store).await?.ok_or_else(none)
}

async fn status_of(store: &Store, head: &Head, version: &Version) -> Result<Status, String> {
    let said = within(store.said()).await?;
    Ok(Status {
        version: version.version.number,
        stands: version.stands().map(|stands| stands.number),
        digest: version.version.digest.clone(),
        confirm_within_s: head.waits().map(|left| left.as_secs()),
        by: version.version.by.clone(),
        time: version.version.time.clone(),
        members: said.into_iter().map(Told::of).collect(),
    })
}

fn who() -> String {
    let user = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER"));
    let user = user.unwrap_or_else(|_| format!("uid{}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{user}@{host}")
}

/// Writes the next version: what it is made of comes from the last one.
async fn next(
    place: &Place,
    store: &Store,
    text: impl Fn(Option<&Version>) -> Result<String, String>,
    confirm: Option<u64>,
    over_waiting: bool,
) -> Result<Version, String> {
    let last = head(store).await?;
    if let Some((head, version)) = &last
        && head.waits().is_some()
        && !over_waiting
    {
        return Err(format!(
            "version {} waits for confirmation: `millrace config confirm --to {}`, or `rollback`, first",
            version.version.number,
            place.shown()
        ));
    }
    let version = last.as_ref().map(|(_, version)| version);
    let text = text(version)?;
    let before = version.and_then(Version::stands).cloned();
    let waits = confirm.map(|seconds| Waits { seconds, before });
    let number = version.map_or(1, |version| version.version.number + 1);
    let new = Version { version: Plain::new(number, now(), who(), text), waits };
    let revision = last.as_ref().map_or(0, |(head, _)| head.revision);
    written(place, within_written(store, &new, revision).await)?;
    Ok(new)
}

async fn within_written(store: &Store, version: &Version, revision: u64) -> Result<(), NotWritten> {
    let away = |_| NotWritten::Failed("the server does not answer".to_owned());
    tokio::time::timeout(PATIENCE, store.write(version, revision)).await.map_err(away)?
}

fn written(place: &Place, outcome: Result<(), NotWritten>) -> Result<(), String> {
    outcome.map_err(|error| match error {
        NotWritten::Raced => format!(
            "somebody else has written a version at the same time: look at `millrace config show --to {}`, and try again",
            place.shown()
        ),
        NotWritten::Failed(error) => format!("{}: {error}", place.shown()),
    })
}

/// Waits until all members have said what became of a version.
async fn acknowledged(
    store: &Store,
    version: &Version,
    waiting: Waiting<'_>,
) -> Result<Status, String> {
    let number = version.version.number;
    let until = Instant::now() + waiting.span;
    let (mut told, mut said_left) = (Vec::new(), None);
    loop {
        let (head, now) = match head(store).await? {
            Some(found) => found,
            None => return Err("the store has lost the version".to_owned()),
        };
        if now.version != version.version {
            return Err(format!(
                "version {} has come in the place of {number}",
                now.version.number
            ));
        }
        let status = status_of(store, &head, &now).await?;
        let mut missing = Vec::new();
        for member in &status.members {
            // What was applied and waits is not yet what was confirmed.
            let done = member.version == number
                && (member.outcome != Outcome::Waits || version.waits.is_some());
            if done && !told.contains(&member.member) {
                (waiting.tell)(Heard::Line(&member.line()));
                told.push(member.member.clone());
            } else if !done && !member.is_silent() {
                missing.push(member.member.clone());
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        // Members that have never said anything may be about to.
        let nobody = status.members.is_empty();
        if missing.is_empty() && !nobody || left.is_zero() {
            for member in status.members.iter().filter(|member| !told.contains(&member.member)) {
                (waiting.tell)(Heard::Line(&format!("NOT: {}", member.line())));
            }
            return Ok(status);
        }
        let seconds = left.as_secs() + 1;
        if said_left != Some(seconds) {
            said_left = Some(seconds);
            (waiting.tell)(Heard::Left(&missing, seconds));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Writes a version, and waits for what members say of it. `confirm` undoes it unless it is confirmed in so many seconds.
pub fn apply(
    place: &Place,
    text: &str,
    confirm: Option<u64>,
    waiting: Waiting<'_>,
) -> Result<Status, Failure> {
    check(text).map_err(Failure::Bad)?;
    if confirm.is_some_and(|seconds| !(1..=crate::reload::CONFIRM_MAX.as_secs()).contains(&seconds))
    {
        return Err(Failure::usage(format!(
            "a confirmation is waited for 1 to {} seconds",
            crate::reload::CONFIRM_MAX.as_secs()
        )));
    }
    run(async {
        let store = open(place).await?;
        let version = next(place, &store, |_| Ok(text.to_owned()), confirm, false).await?;
        acknowledged(&store, &version, waiting).await
    })
}

/// The last version stays.
pub fn confirm(place: &Place, waiting: Waiting<'_>) -> Result<Status, Failure> {
    run(async {
        let store = open(place).await?;
        let (head, mut version) = some_head(place, &store).await?;
        let number = version.version.number;
        if version.waits.is_none() {
            return Err(format!("version {number} does not wait for confirmation"));
        }
        if head.waits().is_none() {
            return Err(format!("version {number} was not confirmed in time: apply it anew"));
        }
        version.waits = None;
        written(place, within_written(&store, &version, head.revision).await)?;
        acknowledged(&store, &version, waiting).await
    })
}

/// The text of the version before is written as the next one.
pub fn rollback(place: &Place, waiting: Waiting<'_>) -> Result<Status, Failure> {
    run(async {
        let store = open(place).await?;
        let (_, version) = some_head(place, &store).await?;
        let none = || "there is no version before it that is remembered".to_owned();
        let text = match &version.waits {
            Some(waits) => waits.before.as_ref().ok_or_else(none)?.text.clone(),
            None => {
                let all = within(store.history()).await?;
                let stood = all.iter().rev().filter_map(|head| head.version.as_ref().ok());
                let mut stood = stood.filter(|one| one.waits.is_none());
                let before = stood.find(|one| one.version.number < version.version.number);
                before.ok_or_else(none)?.version.text.clone()
            }
        };
        let version = next(place, &store, |_| Ok(text.clone()), None, true).await?;
        acknowledged(&store, &version, waiting).await
    })
}

/// What the store holds, and what members say of it.
pub fn status(place: &Place) -> Result<Status, Failure> {
    run(async {
        let store = open(place).await?;
        let (head, version) = some_head(place, &store).await?;
        status_of(&store, &head, &version).await
    })
}

/// All versions that are remembered, the oldest first.
pub fn history(place: &Place) -> Result<Vec<Remembered>, Failure> {
    run(async {
        let store = open(place).await?;
        let mut all: Vec<Remembered> = Vec::new();
        for version in
            within(store.history()).await?.into_iter().filter_map(|head| head.version.ok())
        {
            let confirmed = version.waits.is_none();
            let Plain { number, time, by, digest, text } = version.version;
            // A version that was confirmed was written twice.
            all.retain(|one| one.version != number);
            let lines = text.lines().count();
            all.push(Remembered { version: number, time, by, digest, confirmed, lines });
        }
        Ok(all)
    })
}

/// The text of a version: of the one that stands, if none is named.
pub fn show(place: &Place, number: Option<u64>) -> Result<String, Failure> {
    run(async {
        let store = open(place).await?;
        let Some(number) = number else {
            let (_, version) = some_head(place, &store).await?;
            let none = || "the first version waits for its confirmation".to_owned();
            return Ok(version.stands().ok_or_else(none)?.text.clone());
        };
        let all = within(store.history()).await?;
        let mut all = all.into_iter().filter_map(|head| head.version.ok());
        let found = all.find(|version| version.version.number == number);
        found.map(|version| version.version.text).ok_or_else(|| {
            format!(
                "version {number} is not remembered: `millrace config history` lists those that are"
            )
        })
    })
}

/// The lines by which a file differs from the version that stands.
pub fn plan(place: &Place, text: &str) -> Result<Vec<String>, Failure> {
    check(text).map_err(Failure::Bad)?;
    run(async {
        let store = open(place).await?;
        let head = head(&store).await?;
        let stands = head.as_ref().and_then(|(_, version)| version.stands());
        Ok(changes(stands.map_or("", |stands| &stands.text), text))
    })
}

/// A member is no more.
pub fn forget(place: &Place, member: &str) -> Result<(), Failure> {
    run(async {
        let store = open(place).await?;
        let said = within(store.said()).await?;
        if !said.iter().any(|said| said.member == member) {
            return Err(format!("there is no member {member}"));
        }
        within(store.forget(member)).await
    })
}
