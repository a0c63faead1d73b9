//! `--persist` and `--persist-sync`.

use crate::failure::Failure;
use journal::Sync;
use std::path::PathBuf;
use std::time::Duration;

/// Seconds until a change is on the disk, at most, unless told otherwise.
const SYNC_SECONDS: u64 = 1;
/// The most that may be asked for.
const SYNC_SECONDS_MAX: u64 = 3600;

/// Where what was programmed is kept, and when it is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder of all bridges.
    pub folder: PathBuf,
    /// When files are synced.
    pub sync: Sync,
}

impl Place {
    /// From the options.
    pub fn new(folder: Option<PathBuf>, sync: Option<&str>) -> Result<Option<Place>, Failure> {
        let both = "--persist-sync says when the files of --persist are synced: give both";
        match (folder, sync) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Failure::usage(both)),
            (Some(folder), sync) => Ok(Some(Place { folder, sync: read(sync)? })),
        }
    }

    /// The folder of a bridge.
    pub(crate) fn of_bridge(&self, name: &str) -> PathBuf {
        self.folder.join(format!("bridge-{name}"))
    }
}

fn read(text: Option<&str>) -> Result<Sync, Failure> {
    let seconds = match text {
        Some("always") => return Ok(Sync::Always),
        Some("never") => return Ok(Sync::Never),
        None => SYNC_SECONDS,
        Some(text) => {
            let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
            let number = text.parse().ok();
            let number = number.filter(|n| digits && (1..=SYNC_SECONDS_MAX).contains(n));
            number.ok_or_else(|| {
                Failure::Usage(format!(
                    "--persist-sync {text}: always, never, or seconds from 1 to {SYNC_SECONDS_MAX} were expected"
                ))
            })?
        }
    };
    Ok(Sync::Within(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_seconds_are_read() {
        let place = |sync| Place::new(Some("/d".into()), sync).map(|place| place.unwrap().sync);
        assert_eq!(place(None).unwrap(), Sync::Within(Duration::from_secs(1)));
        assert_eq!(place(Some("always")).unwrap(), Sync::Always);
        assert_eq!(place(Some("never")).unwrap(), Sync::Never);
        assert_eq!(place(Some("30")).unwrap(), Sync::Within(Duration::from_secs(30)));
        for bad in ["", "0", "3601", "+1", "often"] {
            let text = place(Some(bad)).unwrap_err().text();
            assert_eq!(
                text,
                format!(
                    "--persist-sync {bad}: always, never, or seconds from 1 to 3600 were expected"
                )
            );
        }
        assert!(Place::new(None, Some("1")).is_err());
        assert_eq!(Place::new(None, None).unwrap(), None);
    }
}
