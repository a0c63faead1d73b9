//! The copies on the disk: the last good version, what runs, and what was refused.
//!
//! | file | holds |
//! |---|---|
//! | `good.json` | the last version that was applied, and confirmed |
//! | `current.toml` | the configuration of this member that its process was started with or has applied since |
//! | `refused.json`, `refused.toml` | the version that was refused last with the reason, and this member's part of it |
//!
//! Files may hold keys: the folder is its owner's alone. Each is replaced as a whole.

use super::plain::Plain;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions, rename};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A version that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) number: u64,
    pub(crate) digest: String,
    pub(crate) error: String,
}

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Cache(PathBuf);

impl Cache {
    /// The folder, made if it is not there.
    pub(crate) fn open(folder: &Path) -> Result<Cache, String> {
        let failed = |error: std::io::Error| format!("cache={}: {error}", folder.display());
        let folder = std::path::absolute(folder).map_err(failed)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let cache = Cache(folder.clone());
        // A folder that cannot be written is told of now, and not when the server is away.
        cache.write("probe", b"").map_err(failed)?;
        std::fs::remove_file(folder.join("probe")).map_err(failed)?;
        Ok(cache)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The file of a version that is tried.
    pub(crate) fn tried(&self, number: u64) -> PathBuf {
        self.path(&format!("version-{number}.toml"))
    }

    fn write(&self, name: &str, octets: &[u8]) -> std::io::Result<()> {
        let new = self.path(&format!(".{name}.{}", std::process::id()));
        let mut file: File =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(octets)?;
        file.sync_all()?;
        rename(&new, self.path(name))
    }

    pub(crate) fn put(&self, name: &str, octets: &[u8]) -> Result<(), String> {
        self.write(name, octets).map_err(|error| format!("{}: {error}", self.path(name).display()))
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&std::fs::read(self.path(name)).ok()?).ok()
    }

    /// The last good version, if there is one that is whole.
    pub(crate) fn good(&self) -> Option<Plain> {
        let good: Plain = self.get("good.json")?;
        good.check().ok().map(|()| good)
    }

    pub(crate) fn keep_good(&self, good: &Plain) -> Result<(), String> {
        self.put("good.json", &serde_json::to_vec(good).unwrap_or_default())
    }

    pub(crate) fn refused(&self) -> Option<Refused> {
        self.get("refused.json")
    }

    pub(crate) fn keep_refused(&self, refused: &Refused) -> Result<(), String> {
        self.put("refused.json", &serde_json::to_vec(refused).unwrap_or_default())
    }

    /// A file that was tried is what runs, or was refused.
    pub(crate) fn came_to(&self, number: u64, name: &str) {
        if let Err(error) = rename(self.tried(number), self.path(name)) {
            tracing::warn!(%error, name, "a copy of the configuration is not kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn copies_are_their_owners_alone_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a/b");
        let cache = Cache::open(&at).unwrap();
        assert_eq!(cache.good(), None);
        let good = Plain::new(3, String::new(), String::new(), "workers = 1\n".to_owned());
        cache.keep_good(&good).unwrap();
        assert_eq!(cache.good(), Some(good));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&at), mode(&at.join("good.json"))), (0o700, 0o600));
        let text = std::fs::read_to_string(at.join("good.json")).unwrap();
        std::fs::write(at.join("good.json"), text.replace("workers = 1", "workers = 2")).unwrap();
        assert_eq!(cache.good(), None, "a copy that was changed is none");
        assert!(
            Cache::open(Path::new("/proc/none")).unwrap_err().starts_with("cache=/proc/none: ")
        );
    }
}
