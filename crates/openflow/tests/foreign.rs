//! Messages that other implementations wrote: `MILLRACE_VECTORS` names a folder with one message in
//! each file, below folders named `of13`, `of14`, `of15` (os-ken's `tests/packet_data` is one).
//! Each must be read, and what is read must be written and read again without change. Without the
//! variable the test says so and passes.

use openflow::testing::check_stable;
use openflow::{Version, decode};
use std::path::{Path, PathBuf};

/// Files that hold what the specification does not have, or what is not a message of the version:
/// found by hand, each with its reason.
const NOT_OURS: &[(&str, &str)] = &[
    ("queue_get_config", "types 22 and 23, which 1.4 took away"),
    ("controller_status", "type 35 and multipart 18: optional"),
    ("instruction_stat_trigger", "optional"),
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "packet"));
    all.sort();
    all
}

#[test]
fn are_read_and_written() {
    let Ok(root) = std::env::var("MILLRACE_VECTORS") else {
        eprintln!("skipped: MILLRACE_VECTORS names no folder of messages");
        return;
    };
    let folders = [("of13", Version::V13), ("of14", Version::V14), ("of15", Version::V15)];
    let (mut read, mut same, mut wrong) = (0, 0, Vec::new());
    for (folder, version) in folders {
        for file in files(&Path::new(&root).join(folder)) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::read(&file).expect("it can be read");
            if NOT_OURS.iter().any(|(part, _)| name.contains(part)) {
                continue;
            }
            match decode(version, &bytes) {
                Ok((xid, message)) => {
                    read += 1;
                    check_stable(version, &bytes);
                    same += usize::from(openflow::encode(version, xid, &message) == Ok(bytes));
                }
                Err(error) => wrong.push(format!("{version} {name}: {error}")),
            }
        }
    }
    eprintln!("{read} read, {same} of them written byte for byte as they were");
    assert!(wrong.is_empty(), "{} not read:\n{}", wrong.len(), wrong.join("\n"));
    assert!(read > 0, "no message below {root}");
}
