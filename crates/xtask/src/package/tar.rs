//! An archive for any distribution: a static binary, manual pages, completions, the licence. It is unpacked below `/usr/local`
//! or anywhere.

use super::documents;
use super::tools::{archive, epoch, is_static};
use super::tree::Staged;
use super::wanted::Wanted;
use std::path::PathBuf;

/// Makes it.
pub(super) fn make(wanted: &Wanted) -> Result<PathBuf, String> {
    is_static(wanted)?;
    let staged = Staged::new(&wanted.out, "tar")?;
    staged.copy(&wanted.binary, "bin/millrace", 0o755)?;
    documents::add(wanted, &staged, "share")?;
    for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
        staged.copy(&wanted.root.join(file), &format!("share/doc/millrace/{file}"), 0o644)?;
    }
    let made = wanted.out.join(format!("millrace-{}-{}.tar.xz", wanted.version, wanted.arch));
    archive(staged.path(), &made, &epoch(&wanted.root), &["--xz"])?;
    Ok(made)
}
