//! The version that a process starts with: the last one in the store that stands, or the last good one on the disk.
//!
//! This runs before the process has a second thread, as it decides what the process may give up ([`confine`](crate::confine)).
//!
//! - A version that the store has and that can be read here is taken, unless it was refused before.
//! - One that cannot is refused, and the last good one is taken.
//! - Where the store is away, the last good one is taken at once.
//! - Without any the process waits, and says so once.

use super::Place;
use super::begun::Begun;
use super::cache::{Cache, Refused};
use super::plain::Plain;
use super::store::{self, Store};
use super::version::of_member;
use crate::config::Options;
use crate::config::diff::Setup;
use crate::failure::Failure;
use crate::logging::say;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The store is waited for so long, where there is a copy.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two attempts to read it, where there is none.
const AGAIN: Duration = Duration::from_secs(1);

/// What the store says.
enum Told {
    Version(Plain),
    /// It holds none that stands.
    None(String),
    Away(String),
}

/// Takes the configuration from where `--config` says: writes it to a file, which the options name from then on. To be called before any
/// thread is started.
///
/// # Errors
/// What is wrong with the option, or with the folder of copies.
pub fn prepare(options: &mut Options) -> Result<(), Failure> {
    let Some(text) = &options.fleet else { return Ok(()) };
    let wrong = |error: String| Failure::Usage(format!("--config: {error}"));
    let place = Place::parse(text).map_err(wrong)?;
    // What is wrong with a file of TLS does not mend itself.
    crate::nats::check(&place.server).map_err(wrong)?;
    let cache =
        Cache::open(&place.cache).map_err(|error| Failure::Bad(format!("--config: {error}")))?;
    let mut said = false;
    loop {
        let told = ask(&place).map_err(Failure::bad)?;
        if let Some((running, refused)) = choose(options, &place, &cache, &told)? {
            let known = cache.good().is_some_and(|good| good == running);
            write(&place, &cache, &running).map_err(Failure::Bad)?;
            options.config = Some(cache.path("current.toml"));
            let ready = AtomicBool::new(false);
            options.begun = Some(Arc::new(Begun { place, cache, running, refused, known, ready }));
            return Ok(());
        }
        if !std::mem::replace(&mut said, true) {
            let why = match told {
                Told::Version(version) => format!("version {} was refused", version.number),
                Told::None(why) | Told::Away(why) => why,
            };
            say(&format!(
                "millrace: waits for a configuration: {why}, and there is no copy in {}; \
                 `millrace config apply FILE --to {}` gives one",
                place.cache.display(),
                place.shown()
            ));
        }
        std::thread::sleep(AGAIN);
    }
}

/// A process that was started with a version has not become ready: the next one takes another.
pub fn not_started(begun: &Begun, why: &str) {
    if begun.known || begun.ready.load(Ordering::Relaxed) {
        return;
    }
    let Plain { number, digest, .. } = &begun.running;
    let refused = Refused { number: *number, digest: digest.clone(), error: why.to_owned() };
    let kept = begun.cache.keep_refused(&refused);
    let then = match (kept, begun.cache.good()) {
        (Ok(()), Some(good)) => format!("the next start takes version {}", good.number),
        (Ok(()), None) => "the next start waits for another".to_owned(),
        (Err(error), _) => error,
    };
    say(&format!("millrace: version {number} of the configuration is refused; {then}"));
}

/// Asks the store, once.
fn ask(place: &Place) -> std::io::Result<Told> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(async {
        let asked = async {
            let client = store::connected(place).await?;
            let head = Store::open(&client, &place.group).await?.head().await?;
            Ok::<_, String>(head)
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(Some(head))) => match head.version.map(|version| version.stands().cloned()) {
                Ok(Some(plain)) => Told::Version(plain),
                Ok(None) => Told::None("the first version waits for its confirmation".to_owned()),
                Err(why) => Told::None(why),
            },
            Ok(Ok(None)) => Told::None(format!("{} has none", place.shown())),
            Ok(Err(error)) => Told::Away(error),
            Err(_) => Told::Away(format!("{} does not answer", place.shown())),
        }
    });
    // A name that is looked up has a thread of its own: it is over now.
    runtime.shutdown_timeout(PATIENCE);
    Ok(told)
}

/// The version that is taken, and the one that is not; none if there is none that can be.
fn choose(
    options: &Options,
    place: &Place,
    cache: &Cache,
    told: &Told,
) -> Result<Option<(Plain, Option<Refused>)>, Failure> {
    let good = cache.good();
    let (refused, why) = match told {
        Told::Version(version) => {
            let before = cache.refused().filter(|one| one.digest == version.digest);
            let refused = match before {
                Some(refused) => Some(refused),
                None => fits(options, place, cache, version).err().map(|error| {
                    let (number, digest) = (version.number, version.digest.clone());
                    Refused { number, digest, error }
                }),
            };
            let Some(refused) = refused else { return Ok(Some((version.clone(), None))) };
            cache.keep_refused(&refused).map_err(Failure::Bad)?;
            let why = format!("version {} is refused: {}", refused.number, refused.error);
            (Some(refused), why)
        }
        Told::None(why) | Told::Away(why) => (None, why.clone()),
    };
    let Some(good) = good else { return Ok(None) };
    // Whoever is told of a refusal has the same one in the log when the process runs.
    say(&format!("millrace: {why}; starts with its copy of version {}", good.number));
    Ok(Some((good, refused)))
}

/// Whether a version is a configuration of this member, as far as that can be known without opening anything.
fn fits(options: &Options, place: &Place, cache: &Cache, version: &Plain) -> Result<(), String> {
    let (text, _) = of_member(&version.text, &place.member)?;
    let tried: PathBuf = cache.tried(version.number);
    cache.put(&format!("version-{}.toml", version.number), text.as_bytes())?;
    let options = Options { config: Some(tried.clone()), ..options.clone() };
    match Setup::read(options) {
        Ok(_) => std::fs::remove_file(tried).map_err(|error| error.to_string()),
        Err(failure) => {
            cache.came_to(version.number, "refused.toml");
            Err(failure.text())
        }
    }
}

/// This member's part of a version, as the file that the process reads.
fn write(place: &Place, cache: &Cache, version: &Plain) -> Result<(), String> {
    let (text, _) = of_member(&version.text, &place.member)?;
    cache.put("current.toml", text.as_bytes())
}
