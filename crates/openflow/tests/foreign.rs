//! Messages that other implementations wrote: `MILLRACE_VECTORS` names a folder with one message in
//! each file, below folders named `of13`, `of14`, `of15` (os-ken's `tests/packet_data` is one).
//! Each must be read, and what is read must be written and read again without change. Without the
//! variable the test says so and passes.

use openflow::testing::check_stable;
use openflow::{ErrorCode, Version, decode};
use std::path::{Path, PathBuf};

/// Files that are refused, and are to be: the code, the reason, and words of their names. Found by hand.
const REFUSED: &[(ErrorCode, &str, &[&str])] = &[
    (
        ErrorCode::BacBadSetArgument,
        "sets a VLAN id without OFPVID_PRESENT (1.3.5 §7.2.3.7)",
        &["4-12-", "4-2-", "5-12-", "5-2-"],
    ),
    (
        ErrorCode::BmcBadValue,
        "matches a VLAN id without OFPVID_PRESENT (1.3.5 §7.2.3.7)",
        &["4-59-", "4-60-", "4-63-", "5-57-", "5-58-"],
    ),
    (
        ErrorCode::BpcBadExperimenter,
        "has properties of an experimenter, 0x65",
        &["5-23-", "5-41-", "5-42-", "5-62-", "5-68-", "5-69-"],
    ),
    (
        ErrorCode::BpcBadExperimenter,
        "has properties of an experimenter, 0x65",
        &["P15-get_async", "P15-set_async", "P15-table_desc", "P15-table_status"],
    ),
    (ErrorCode::BpcBadType, "has properties of optical ports", &["5-22-", "P15-port_mod"]),
    (
        ErrorCode::BmcBadField,
        "matches a tunnel's addresses or ct_state, which are not there",
        &[
            "P13-flow_mod",
            "P13-flow_removed",
            "P15-flow_mod",
            "action_learn",
            "action_resubmit.",
            "action_ct_clear",
            "action_ct_exec",
            "action_conjunction.",
        ],
    ),
    (
        ErrorCode::BacBadExpType,
        "has an action that is not there",
        &["action_controller2", "action_ct_nat", "fintimeout", "output_trunc", "action_sample"],
    ),
    (ErrorCode::BacBadArgument, "its connection's zone has 28 bits", &["action_ct."]),
    (ErrorCode::BicBadLen, "its instruction's length is wrong", &["P15-flow_desc_reply"]),
    (ErrorCode::BrcBadLen, "its own length is wrong", &["P15-meter_features_reply"]),
    (
        ErrorCode::BpcBadValue,
        "its packet types are headers of another field",
        &["P15-table_features"],
    ),
    // Types that later versions took away, or that are optional and left out.
    (ErrorCode::BrcBadType, "queue configuration left with 1.4", &["queue_get_config"]),
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
    let (mut read, mut same, mut refused, mut wrong) = (0, 0, 0, Vec::new());
    for (folder, version) in folders {
        for file in files(&Path::new(&root).join(folder)) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::read(&file).expect("it can be read");
            let listed = |code: ErrorCode| {
                let named = |names: &[&str]| names.iter().any(|part| name.contains(part));
                REFUSED.iter().any(|(c, _, names)| code == *c && named(names))
            };
            match decode(version, &bytes) {
                Err(error) if listed(error.code) => refused += 1,
                Ok((xid, message)) => {
                    read += 1;
                    check_stable(version, &bytes);
                    same += usize::from(openflow::encode(version, xid, &message) == Ok(bytes));
                }
                Err(error) => wrong.push(format!("{version} {name}: {error}")),
            }
        }
    }
    eprintln!("{read} read, {same} of them byte for byte as they were; {refused} rightly refused");
    assert!(wrong.is_empty(), "{} not read:\n{}", wrong.len(), wrong.join("\n"));
    assert!(read > 0, "no message below {root}");
}
