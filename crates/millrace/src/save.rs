//! `millrace save`: what a switch is, written as files that start it again.
//!
//! Files are written beside their places, synced, and renamed when all are whole; `millrace.toml`, which names the others,
//! comes last. Only their owner can read them: settings of services may be keys.

use crate::cli::SaveOptions;
use control::client::ask;
use control::failure::Failure;
use control::output::say;
use control::verbs::save::{Answer, Save};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The configuration's name.
const CONFIGURATION: &str = "millrace.toml";

/// `millrace save`.
pub(crate) fn save(options: SaveOptions) -> Result<(), Failure> {
    let SaveOptions { folder, force, json, to } = options;
    let shown =
        |path: &Path, error: io::Error| Failure::Bad(format!("{}: {error}", path.display()));
    let folder = std::path::absolute(&folder).map_err(|error| shown(&folder, error))?;
    let answer = serde_json::from_value(ask(to.whom(), &Save {})?);
    let answer: Answer =
        answer.map_err(|error| Failure::Bad(format!("the switch's answer: {error}")))?;
    let files = files(&folder, &answer)?;
    let there = files.iter().find(|(path, _)| path.symlink_metadata().is_ok());
    if let (false, Some((path, _))) = (force, there) {
        let path = path.display();
        return Err(Failure::Bad(format!("{path} is there already; --force replaces it")));
    }
    fs::create_dir_all(&folder).map_err(|error| shown(&folder, error))?;
    let new = |path: &Path| path.with_added_extension(format!("{}.new", std::process::id()));
    let write = || -> Result<(), Failure> {
        for (path, text) in &files {
            let new = new(path);
            write(&new, text).map_err(|error| shown(&new, error))?;
        }
        for (path, _) in &files {
            fs::rename(new(path), path).map_err(|error| shown(path, error))?;
        }
        File::open(&folder).and_then(|it| it.sync_all()).map_err(|error| shown(&folder, error))
    };
    write().inspect_err(|_| {
        // Those that are not there any more have their names.
        files.iter().for_each(|(path, _)| drop(fs::remove_file(new(path))));
    })?;
    tell(&folder, &files, &answer, json);
    Ok(())
}

/// The files, in the order in which they come.
fn files(folder: &Path, answer: &Answer) -> Result<Vec<(PathBuf, String)>, Failure> {
    let mut files = Vec::new();
    let mut configuration = String::from(
        "# Written by `millrace save`. To start the same switch: `millrace run` with this file.\n",
    );
    for (key, lines) in
        [("flows", &answer.flows), ("groups", &answer.groups), ("meters", &answer.meters)]
    {
        let path = folder.join(format!("{key}.txt"));
        let name = path.to_str().ok_or_else(|| {
            Failure::Bad(format!("{}: a configuration cannot name it: not UTF-8", path.display()))
        })?;
        // Strings of JSON are strings of TOML.
        configuration += &format!("{key} = [{}]\n", serde_json::Value::from(name));
        files.push((path, lines.iter().map(|line| format!("{line}\n")).collect()));
    }
    configuration += &answer.configuration;
    files.push((folder.join(CONFIGURATION), configuration));
    Ok(files)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn tell(folder: &Path, files: &[(PathBuf, String)], answer: &Answer, json: bool) {
    if json {
        let files: Vec<_> = files.iter().map(|(path, _)| path.display().to_string()).collect();
        let told = serde_json::json!({
            "bridge": answer.bridge,
            "files": files,
            "flows": answer.flows.len(),
            "groups": answer.groups.len(),
            "meters": answer.meters.len(),
            "left_out": answer.left_out,
        });
        return say(format_args!("{told}\n"));
    }
    let configuration = folder.join(CONFIGURATION);
    let text = <Save as control::verb::Verb>::text(answer);
    say(format_args!("{}: {text}", configuration.display()));
}
