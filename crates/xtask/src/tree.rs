//! The files of the tree, read once.
//!
//! In a checkout these are the files that git has or would add; elsewhere all files but build outputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that hold outputs, where there is no git to say so.
pub(crate) const OUTPUTS: [&str; 5] = ["target", "corpus", "artifacts", "__pycache__", ".git"];

/// A tree of files.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// Path from the root, with `/`, to the text, or `None` for what is no text.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the tree whose root this is.
    pub fn load(root: &Path) -> Result<Tree, String> {
        let paths = match git_files(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        let mut files = BTreeMap::new();
        for path in paths {
            // What git lists and nobody has is deleted, or a folder.
            if let Ok(bytes) = std::fs::read(root.join(&path)) {
                files.insert(path, String::from_utf8(bytes).ok().filter(|t| !t.contains('\0')));
            }
        }
        Ok(Tree { root: root.to_path_buf(), files })
    }

    /// Where it lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All paths, in order.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// All files of text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// All Rust files.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// One file's text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether a file may be executed.
    pub fn is_executable(&self, path: &str) -> bool {
        use std::os::unix::fs::PermissionsExt as _;
        let of = std::fs::metadata(self.root.join(path));
        of.is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0)
    }

    /// Whether there is such a file, or a folder with files in it.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains_key(path) || {
            let folder = format!("{path}/");
            self.files.range(folder.clone()..).next().is_some_and(|(p, _)| p.starts_with(&folder))
        }
    }

    /// The crates of the workspace by name, with their folders.
    pub fn crates(&self) -> Result<BTreeMap<String, Crate>, String> {
        let mut crates = BTreeMap::new();
        for (path, text) in self.texts() {
            let Some(folder) = path.strip_suffix("/Cargo.toml") else { continue };
            if !folder.starts_with("crates/") || folder.matches('/').count() != 1 {
                continue;
            }
            let manifest: toml::Table = text.parse().map_err(|e| format!("{path}: {e}"))?;
            let name = manifest.get("package").and_then(|p| p.get("name")).and_then(|n| n.as_str());
            let name = name.ok_or_else(|| format!("{path}: no package.name"))?.to_string();
            crates.insert(name, Crate { folder: folder.to_string(), manifest });
        }
        Ok(crates)
    }
}

/// A crate of the workspace.
#[derive(Debug)]
pub struct Crate {
    /// Its folder, from the root.
    pub folder: String,
    /// Its `Cargo.toml`.
    pub manifest: toml::Table,
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let out = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    let list = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| list.split_terminator('\0').map(String::from).collect())
}

fn walk(root: &Path, folder: &str, out: &mut Vec<String>) -> Result<(), String> {
    let of = |e: std::io::Error| format!("{folder}: {e}");
    for entry in std::fs::read_dir(root.join(folder)).map_err(of)? {
        let entry = entry.map_err(of)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type().map_err(of)?;
        if kind.is_dir() && !OUTPUTS.contains(&name.as_str()) {
            walk(root, &path, out)?;
        } else if kind.is_file() {
            out.push(path);
        }
    }
    Ok(())
}
