//! An image from scratch: one layer with one file, as the OCI's image specification 1.1 has it, in an archive that
//! `podman load`, `docker load` and `skopeo copy oci-archive:` read. No daemon is asked.

use super::tools::{archive, epoch, is_static, run};
use super::tree::Staged;
use super::wanted::Wanted;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Makes it. The binary must be static: nothing else is in the image.
pub(super) fn make(wanted: &Wanted) -> Result<PathBuf, String> {
    is_static(wanted)?;
    let time = epoch(&wanted.root);
    let created =
        run(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d", &format!("@{time}")]))?;
    let created = String::from_utf8_lossy(&created).trim().to_owned();
    let files = Staged::new(&wanted.out, "layer")?;
    files.copy(&wanted.binary, "usr/bin/millrace", 0o755)?;
    // What a process expects to be there: a place for sockets, for state, for files of a moment.
    for folder in ["run", "var/lib/millrace", "etc/millrace", "tmp"] {
        files.folder(folder)?;
    }
    let image = Staged::new(&wanted.out, "oci")?;
    let blobs = image.folder("blobs/sha256")?;
    let layer = blobs.join("layer");
    archive(files.path(), &layer, &time, &[])?;
    let layer = settle(&layer)?;
    let config = json!({
        "created": created,
        "architecture": wanted.arch,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/millrace"],
            "Cmd": ["run", "/etc/millrace/millrace.toml"],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": "/etc/millrace",
            "Volumes": {"/var/lib/millrace": {}},
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "millrace",
                "org.opencontainers.image.version": wanted.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        "history": [{"created": created, "created_by": "cargo xtask package oci"}],
    });
    let config = blob(&blobs, &config)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.described(CONFIG),
        "layers": [layer.described(LAYER)],
    });
    let manifest = blob(&blobs, &manifest)?;
    let mut described = manifest.described(MANIFEST);
    described["platform"] = json!({"architecture": wanted.arch, "os": "linux"});
    described["annotations"] = json!({"org.opencontainers.image.ref.name": wanted.version});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    image.file("index.json", 0o644, index.to_string().as_bytes())?;
    image.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let made = wanted.out.join(format!("millrace-{}-{}.oci.tar", wanted.version, wanted.arch));
    archive(image.path(), &made, &time, &[])?;
    Ok(made)
}

/// Something in the image.
struct Blob {
    digest: String,
    size: u64,
}

impl Blob {
    fn described(&self, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": self.digest, "size": self.size})
    }
}

/// Gives a file the name that its sum says.
fn settle(file: &Path) -> Result<Blob, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    let told = run(Command::new("sha256sum").arg(file))?;
    let told = String::from_utf8_lossy(&told).into_owned();
    let sum = told.split_ascii_whitespace().next().unwrap_or_default();
    let size = std::fs::metadata(file).map_err(failed)?.len();
    std::fs::rename(file, file.with_file_name(sum)).map_err(failed)?;
    Ok(Blob { digest: format!("sha256:{sum}"), size })
}

fn blob(folder: &Path, value: &Value) -> Result<Blob, String> {
    let file = folder.join("blob");
    std::fs::write(&file, value.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
    settle(&file)
}
