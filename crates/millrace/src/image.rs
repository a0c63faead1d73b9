//! Connections that outlive a switch: `millrace conntrack export`, `import`, and `run --state`.
//!
//! The file is an [image](service::conntrack::image). It is written beside its name and renamed when it is on
//! the disk, so that under its name there is a whole one or none. It tells who talks to whom: only its owner may
//! read it.
//!
//! `run --state` uses a file once: when the switch is ready, it is removed, and a new one is written when the
//! switch stops on SIGINT or SIGTERM. A switch that was killed leaves none, and the next one begins without
//! connections: an old image would hold windows that the ends have long left behind. A file that cannot be read as
//! an image stops the start, so that nobody loses connections unawares.
//!
//! The time since the image was taken, by the system's clock, is taken off what each connection has left.

use crate::Failure;
use crate::ctl::{Reply, Request, ask, follow};
use datapath::services::Connections;
use serde_json::{Value, json};
use service::conntrack::image::{Image, Restored};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use switch::Switch;

/// Largest image that is read: 10⁷ connections take a tenth of it.
const IMAGE_MAX: u64 = 16 << 30;

/// Seconds since 1970.
pub(crate) fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn connections(switch: &Switch) -> Result<&Connections, String> {
    let none = || "this switch tracks no connections: it runs a P4 program".to_owned();
    switch.services().connections().map(|connections| &**connections).ok_or_else(none)
}

/// Writes a file so that under its name there is all of it or what was there before.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<u64>,
) -> Result<u64, String> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let written = (|| {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let told = write(&mut out)?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&beside, path)?;
        // The name is on the disk when its folder is.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(told)
    })();
    if written.is_err() {
        // Perhaps it was not even made.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

/// Reads an image; says how many seconds ago it was taken, which it knows from then on.
fn read(path: &Path) -> Result<(Image, u64), String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(|e| told(&e))?;
    let about = file.metadata().map_err(|e| told(&e))?;
    if !about.is_file() || about.len() > IMAGE_MAX {
        return Err(told(&"not a file of at most 16 GiB"));
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    file.read_to_end(&mut bytes).map_err(|e| told(&e))?;
    let mut image = Image::read(bytes).map_err(|e| told(&e))?;
    let age = clock().saturating_sub(image.taken_at());
    image.age(age.saturating_mul(1_000_000_000));
    Ok((image, age))
}

fn restored(told: &Restored, age: u64) -> Value {
    json!({
        "imported": told.connections, "expired": told.expired, "known": told.known,
        "replaced": told.replaced, "no_room": told.no_room, "unbound": told.unbound, "age_seconds": age,
    })
}

/// The switch's answer to an import.
pub(crate) fn answer(switch: &Switch, path: &Path) -> Result<Value, String> {
    let connections = connections(switch)?;
    let (mut image, age) = read(path)?;
    let told = connections.import(&mut image, &|| switch.now_ns());
    Ok(restored(&told, age))
}

/// The switch's answer to an export.
pub(crate) fn stream(switch: &Switch) -> Result<Reply, String> {
    connections(switch)?;
    let switch = switch.clone();
    Ok(Reply::Stream(Box::new(move |client| {
        let connections = connections(&switch).map_err(std::io::Error::other)?;
        let mut out = BufWriter::with_capacity(1 << 18, client);
        connections.export(&|| switch.now_ns(), clock(), &mut out)?;
        out.flush()
    })))
}

/// `millrace conntrack export`.
pub(crate) fn export(ctl: Option<&Path>, path: &Path, json: bool) -> Result<(), Failure> {
    let mut from = follow(ctl, &Request::ConntrackExport)?;
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 18]);
    let mut said = Instant::now();
    loop {
        let n = from.read(&mut part).map_err(|e| Failure::Bad(format!("from the switch: {e}")))?;
        if n == 0 {
            break;
        }
        bytes.extend_from_slice(&part[..n]);
        if said.elapsed() > Duration::from_secs(1) {
            eprintln!("millrace: {} MiB read from the switch", bytes.len() >> 20);
            said = Instant::now();
        }
    }
    // Read here, so that what the switch broke off does not take a good file's place.
    let image = Image::read(bytes.clone())
        .map_err(|e| Failure::Bad(format!("from the switch, whose log may say why: {e}")))?;
    replace(path, |out| out.write_all(&bytes).map(|()| 0)).map_err(Failure::Bad)?;
    let value = json!({"exported": image.len(), "bytes": bytes.len()});
    crate::query::show(&value, json, |value| {
        format!("{} connections exported, {} bytes\n", value["exported"], value["bytes"])
    })
}

/// `millrace conntrack import`.
pub(crate) fn import(ctl: Option<&Path>, path: &Path, json: bool) -> Result<(), Failure> {
    let absolute =
        std::path::absolute(path).map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))?;
    let value = ask(ctl, &Request::ConntrackImport { path: absolute })?;
    crate::query::show(&value, json, print)
}

fn print(value: &Value) -> String {
    let mut out = format!("{} connections imported", value["imported"]);
    let rest = [
        ("expired", "whose time was over"),
        ("known", "that the switch had"),
        ("replaced", "replaced by newer ones"),
        ("no_room", "without room"),
        ("unbound", "imported without their block of ports"),
    ];
    for (name, what) in rest {
        if value[name].as_u64() != Some(0) {
            out.push_str(&format!(", {} {what}", value[name]));
        }
    }
    out.push_str(&format!("; taken {} seconds ago\n", value["age_seconds"]));
    out
}

/// Takes over what an earlier switch has left; false if there is nothing.
pub(crate) fn begin(switch: &Switch, path: &Path) -> Result<bool, Failure> {
    if !path.exists() {
        return Ok(false);
    }
    let told = answer(switch, path).map_err(|e| {
        Failure::Bad(format!("--state {e}; move it away to start without its connections"))
    })?;
    tracing::info!(path = %path.display(), "{}", print(&told).trim_end());
    Ok(true)
}

/// The switch runs: what it has taken over is not taken over again.
pub(crate) fn used(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "the connections' file cannot be removed");
    }
}

/// Leaves the connections of a switch that has stopped.
pub(crate) fn end(switch: &Switch, path: &Path) -> Result<(), Failure> {
    let connections = connections(switch).map_err(Failure::Bad)?;
    let written = replace(path, |out| connections.export(&|| switch.now_ns(), clock(), out));
    let count = written.map_err(|e| Failure::Bad(format!("--state: {e}")))?;
    tracing::info!(path = %path.display(), connections = count, "connections written");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(replace(&path, |out| out.write_all(b"one").map(|()| 3)), Ok(3));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let broken = replace(&path, |out| {
            out.write_all(b"two")?;
            Err(std::io::Error::other("no more"))
        });
        assert_eq!(broken, Err(format!("cannot write {}: no more", path.display())));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_became_of_an_image_is_told_in_a_line() {
        let told = Restored { connections: 3, known: 1, ..Restored::default() };
        let line = "3 connections imported, 1 that the switch had; taken 9 seconds ago\n";
        assert_eq!(print(&restored(&told, 9)), line);
    }
}
