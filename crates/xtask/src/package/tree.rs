//! A folder that becomes an archive.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A folder of files with modes; it goes when this is dropped.
pub(super) struct Staged(PathBuf);

impl Staged {
    /// An empty one beside what is made of it.
    pub(super) fn new(out: &Path, name: &str) -> Result<Staged, String> {
        let folder = out.join(format!(".{name}.{}", std::process::id()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let staged = Staged(folder);
        staged.folder("")?;
        Ok(staged)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A folder in it.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::create_dir_all(&path).map_err(failed)?;
        // Whatever the umask says.
        let mut at = path.as_path();
        while at.starts_with(&self.0) {
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
            let Some(above) = at.parent() else { break };
            at = above;
        }
        Ok(path)
    }

    /// A file in it with these bytes.
    pub(super) fn file(&self, name: &str, mode: u32, bytes: &[u8]) -> Result<(), String> {
        let path = self.0.join(name);
        if let Some(above) = Path::new(name).parent() {
            self.folder(&above.to_string_lossy())?;
        }
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::write(&path, bytes).map_err(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(failed)
    }

    /// A copy of a file.
    pub(super) fn copy(&self, from: &Path, name: &str, mode: u32) -> Result<(), String> {
        let bytes = std::fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
        self.file(name, mode, &bytes)
    }

    /// Names of files in one of its folders, in order.
    pub(super) fn names(&self, folder: &str) -> Result<Vec<String>, String> {
        let path = self.0.join(folder);
        let entries = std::fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Octets of all files.
    pub(super) fn size(&self) -> u64 {
        fn of(path: &Path) -> u64 {
            let Ok(entries) = std::fs::read_dir(path) else { return 0 };
            let each = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
                Ok(found) if found.is_dir() => of(&entry.path()),
                Ok(found) => found.len(),
                Err(_) => 0,
            });
            each.sum()
        }
        of(&self.0)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // What is left is hidden, and made anew the next time.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
