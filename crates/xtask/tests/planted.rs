//! A small tree that is in order, and a violation of each rule planted in it: no rule can be one that never fails.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use xtask::report::Finding;
use xtask::{check, shrink, tree::Tree};

/// A tree that breaks no rule.
const ORDERLY: &[(&str, &str)] = &[
    ("Cargo.lock", ""),
    (
        "ARCHITECTURE.md",
        "# House\n\n## Code map\n\n| crate | is |\n|---|---|\n| `low` | values |\n| `high` | the command |\n\
         | `xtask` | chores |\n\nBeside them: `docs/` and `docs/guide.md`. See `low::table`.\n\n\
         ## Unsafe code\n\n- `low::raw`: reads bytes.\n\n\
         ## Threads\n\n| thread | does |\n|---|---|\n| `log` | writes |\n| `worker-N` | packets |\n",
    ),
    ("README.md", "# Read\n\n[guide](docs/guide.md)\n\n| a | b |\n|---|---|\n| short | cell |\n"),
    ("docs/guide.md", "# Guide\n"),
    ("crates/low/Cargo.toml", "[package]\nname = \"low\"\n"),
    ("crates/low/src/lib.rs", "//! Values.\npub mod raw;\npub mod table;\n"),
    (
        "crates/low/src/raw.rs",
        "//! Bytes.\npub fn first(of: &[u8]) -> u8 {\n    // SAFETY: the caller has checked the length.\n    \
         let byte = unsafe { *of.as_ptr() };\n    byte\n}\npub type Call = unsafe extern \"C\" fn(u8);\n",
    ),
    (
        "crates/low/src/table.rs",
        "//! Tables.\nuse crate::raw::first;\npub fn get() -> u8 { first(&[1]) }\n",
    ),
    (
        "crates/high/Cargo.toml",
        "[package]\nname = \"high\"\n\n[dependencies]\nlow.workspace = true\n",
    ),
    (
        "crates/high/src/main.rs",
        "//! The command.\nfn main() {\n    start(\"log\", 1);\n    for index in 0..2 {\n        \
         let name = format!(\"worker-{index}\");\n        std::thread::Builder::new().name(name);\n    }\n}\n\
         fn start(name: &str, n: u8) {\n    std::thread::Builder::new().name(name.to_string());\n}\n",
    ),
    ("crates/xtask/Cargo.toml", "[package]\nname = \"xtask\"\n"),
    ("crates/xtask/src/lib.rs", "//! Chores.\n"),
    (
        "crates/xtask/order.toml",
        "layers = [\n    [\"low\"],\n    [\"high\"],\n    [\"xtask\"],\n]\n[only]\nxtask = []\n",
    ),
];

/// The orderly tree with these files put over it; an empty text takes a file away.
fn planted(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in ORDERLY.iter().chain(files) {
        let place = folder.path().join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, text).unwrap();
        if text.starts_with("#!") {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        if text.is_empty() && *path != "Cargo.lock" {
            std::fs::remove_file(place).unwrap();
        }
    }
    folder
}

fn findings(folder: &Path) -> Vec<Finding> {
    check::run(&Tree::load(folder).unwrap(), &[]).unwrap().findings
}

/// Plants `files` and demands this one finding, by its place and words of it.
#[track_caller]
fn finds(files: &[(&str, &str)], place: &str, words: &str) {
    let folder = planted(files);
    let found = findings(folder.path());
    let texts: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert_eq!(found.len(), 1, "{texts:#?}");
    assert!(texts[0].starts_with(&format!("{place}: ")), "{place}: {texts:#?}");
    assert!(texts[0].contains(words), "{words}: {texts:#?}");
    assert!(!found[0].mend.is_empty());
}

/// The text of an orderly file with `from` replaced.
fn edited(path: &str, from: &str, to: &str) -> String {
    let (_, text) = ORDERLY.iter().find(|(p, _)| *p == path).unwrap();
    assert!(text.contains(from), "{from} is not in {path}");
    text.replace(from, to)
}

#[test]
fn the_orderly_tree_is_in_order() {
    let folder = planted(&[]);
    assert_eq!(findings(folder.path()), []);
}

#[test]
fn a_crate_that_depends_upwards() {
    let low = "[package]\nname = \"low\"\n[dependencies]\nxtask.workspace = true\n";
    let map = edited("ARCHITECTURE.md", "| `low` | values |\n", "");
    let map = map.replace("| `xtask` | chores |\n", "| `xtask` | chores |\n| `low` | values |\n");
    let map = map.replace("| `high` | the command |\n", "");
    let map = map.replace("| `low` | values |\n", "| `low` | values |\n| `high` | the command |\n");
    let files = [("crates/low/Cargo.toml", low), ("ARCHITECTURE.md", &map)];
    finds(
        &files,
        "crates/low/Cargo.toml:4",
        "low depends on xtask; it may use crates of lower layers",
    );
}

#[test]
fn a_crate_that_breaks_its_promise() {
    let xtask = "[package]\nname = \"xtask\"\n[build-dependencies]\nlow = { path = \"../low\" }\n";
    finds(
        &[("crates/xtask/Cargo.toml", xtask)],
        "crates/xtask/Cargo.toml:4",
        "it uses none of our crates",
    );
}

#[test]
fn a_dependency_of_one_target_counts() {
    let xtask =
        "[package]\nname = \"xtask\"\n[target.'cfg(unix)'.dependencies]\nlow.workspace = true\n";
    finds(
        &[("crates/xtask/Cargo.toml", xtask)],
        "crates/xtask/Cargo.toml:4",
        "xtask depends on low",
    );
}

#[test]
fn a_test_that_uses_more_than_the_table_says() {
    let low = "[package]\nname = \"low\"\n[dev-dependencies]\nhigh.workspace = true\n";
    finds(&[("crates/low/Cargo.toml", low)], "crates/low/Cargo.toml:4", "low depends on high");
    let order = edited("crates/xtask/order.toml", "[only]", "[tests]\nlow = [\"high\"]\n[only]");
    let folder = planted(&[("crates/low/Cargo.toml", low), ("crates/xtask/order.toml", &order)]);
    assert_eq!(findings(folder.path()), []);
    let stale = "[tests] lists high for low, whose tests do not use it";
    finds(&[("crates/xtask/order.toml", &order)], "crates/xtask/order.toml:7", stale);
}

#[test]
fn a_crate_in_no_layer_and_a_layer_without_its_crate() {
    let order = edited("crates/xtask/order.toml", "    [\"high\"],\n", "");
    finds(
        &[("crates/xtask/order.toml", &order)],
        "crates/high/Cargo.toml:1",
        "high is in no layer",
    );
    let order = edited("crates/xtask/order.toml", "[\"high\"]", "[\"high\", \"gone\"]");
    finds(
        &[("crates/xtask/order.toml", &order)],
        "crates/xtask/order.toml:3",
        "there is no crate gone",
    );
}

/// Three files in a circle; `front` passes a name on and takes no part.
const CIRCLE: &[(&str, &str)] = &[
    ("crates/low/src/lib.rs", "pub mod raw;\npub mod table;\nmod a;\nmod b;\nmod c;\nmod front;\n"),
    ("crates/low/src/front.rs", "pub use crate::c::C;\n"),
    ("crates/low/src/a.rs", "// One.\nuse crate::b::{self, B};\npub struct A(B);\n"),
    ("crates/low/src/b.rs", "pub struct B(super::front::C);\n"),
    ("crates/low/src/c.rs", "use super::a::A as Other;\npub struct C(Box<Other>);\n"),
];

#[test]
fn a_circle_of_three_files() {
    let words = "a circle of 3 files in low that crates/xtask/baseline/circles.txt does not list; one way round: \
                 crates/low/src/c.rs:1 -> crates/low/src/a.rs:2 -> crates/low/src/b.rs:1";
    finds(CIRCLE, "crates/low/src/c.rs:1", words);
}

#[test]
fn no_circle_where_two_files_or_tests_close_it() {
    let mut files = CIRCLE.to_vec();
    files[3].1 = "pub struct B;\nuse super::a;\n#[cfg(test)]\nmod tests { use crate::c::C; }\n// use crate::c\n";
    assert_eq!(findings(planted(&files).path()), []);
}

#[test]
fn a_baseline_of_circles_only_shrinks() {
    let folder = planted(CIRCLE);
    let tree = |folder: &TempDir| Tree::load(folder.path()).unwrap();
    // What is new does not get into it by itself.
    shrink::rewrite(&tree(&folder), false).unwrap();
    assert_eq!(findings(folder.path()).len(), 1);
    shrink::rewrite(&tree(&folder), true).unwrap();
    assert_eq!(findings(folder.path()), []);
    // The circle goes, and the list must follow.
    std::fs::write(folder.path().join("crates/low/src/c.rs"), "pub struct C;\n").unwrap();
    let stale = findings(folder.path());
    assert_eq!(stale.len(), 1, "{stale:?}");
    assert!(
        stale[0]
            .to_string()
            .starts_with("crates/xtask/baseline/circles.txt:4: a circle of 3 files in low is gone")
    );
    shrink::rewrite(&tree(&folder), false).unwrap();
    assert_eq!(findings(folder.path()), []);
    // It must not come back, and none may grow.
    std::fs::write(folder.path().join("crates/low/src/c.rs"), "use crate::a::A;\npub struct C;\n")
        .unwrap();
    assert!(findings(folder.path())[0].wrong.contains("does not list"));
}

#[test]
fn a_circle_that_has_lost_a_file_or_won_one() {
    let list = |files: &[&str]| {
        let files: Vec<String> =
            files.iter().map(|f| format!("    crates/low/src/{f}.rs\n")).collect();
        format!("low: {} files\n{}", files.len(), files.concat())
    };
    let wide = list(&["a", "b", "c", "raw"]);
    let mut files = CIRCLE.to_vec();
    files.push(("crates/xtask/baseline/circles.txt", &wide));
    finds(
        &files,
        "crates/xtask/baseline/circles.txt",
        "has fewer files than are listed; cargo xtask baseline",
    );
    let narrow = list(&["a", "b"]);
    files.last_mut().unwrap().1 = &narrow;
    finds(&files, "crates/low/src/c.rs:1", "; new in it: crates/low/src/c.rs; move");
}

#[test]
fn unsafe_code_where_it_may_not_be() {
    let table = "//! Tables.\nfn f() {\n    // SAFETY: it does nothing.\n    unsafe {}\n}\n";
    finds(
        &[("crates/low/src/table.rs", table)],
        "crates/low/src/table.rs:4",
        "that ARCHITECTURE.md does not list",
    );
    let table = "//! Tables; unsafe { }.\nconst T: &str = \"unsafe {}\"; // unsafe {}\n";
    assert_eq!(findings(planted(&[("crates/low/src/table.rs", table)]).path()), []);
}

#[test]
fn an_unsafe_block_without_its_reason() {
    let raw = edited("crates/low/src/raw.rs", "// SAFETY: the caller has", "// Somebody has");
    finds(
        &[("crates/low/src/raw.rs", &raw)],
        "crates/low/src/raw.rs:4",
        "without a SAFETY comment",
    );
    let raw = "// SAFETY: of another.\nfn f() { unsafe {} }\nunsafe impl Send for X {}\n";
    let folder = planted(&[("crates/low/src/raw.rs", raw), ("crates/low/src/table.rs", "")]);
    std::fs::write(folder.path().join("crates/low/src/lib.rs"), "mod raw;\nstruct table;\n")
        .unwrap();
    let lines: Vec<usize> = findings(folder.path()).iter().map(|f| f.line).collect();
    assert_eq!(lines, [3], "the comment right above the line of the first counts");
}

#[test]
fn a_listed_module_without_unsafe_code() {
    let document = edited("ARCHITECTURE.md", "`low::raw`:", "`low::raw`, `low::table`:");
    finds(&[("ARCHITECTURE.md", &document)], "ARCHITECTURE.md:15", "low::table has no unsafe code");
}

#[test]
fn a_thread_that_is_not_listed_and_one_that_is_not_there() {
    let document = edited("ARCHITECTURE.md", "| `log` | writes |\n", "");
    finds(
        &[("ARCHITECTURE.md", &document)],
        "crates/high/src/main.rs:10",
        "the thread log is not listed",
    );
    let document = edited("ARCHITECTURE.md", "| `log` |", "| `ghost` | haunts |\n| `log` |");
    finds(&[("ARCHITECTURE.md", &document)], "ARCHITECTURE.md:21", "no code names a thread ghost");
    let main = edited("crates/high/src/main.rs", "start(\"log\", 1)", "start(x, 1)");
    let folder = planted(&[("crates/high/src/main.rs", &main)]);
    let found = findings(folder.path());
    assert!(found[0].wrong.contains("cannot be read") && found[0].line == 10, "{found:?}");
}

#[test]
fn a_code_map_that_lacks_something_or_has_too_much() {
    let document = edited("ARCHITECTURE.md", "| `xtask` | chores |\n", "");
    finds(&[("ARCHITECTURE.md", &document)], "ARCHITECTURE.md:4", "lacks the crate xtask");
    let document = edited("ARCHITECTURE.md", "| `xtask` |", "| `gone` | x |\n| `xtask` |");
    finds(&[("ARCHITECTURE.md", &document)], "ARCHITECTURE.md:9", "there is no crate gone");
    let document = edited("ARCHITECTURE.md", "`docs/` and", "`docs/`, `lab/` and");
    finds(&[("ARCHITECTURE.md", &document)], "ARCHITECTURE.md:11", "lab/ is not in the tree");
    finds(&[("lab/run", "#!/bin/sh\n")], "ARCHITECTURE.md:4", "lacks the folder lab/");
    let document = edited("ARCHITECTURE.md", "`low::table`", "`low::tables`");
    finds(
        &[("ARCHITECTURE.md", &document)],
        "ARCHITECTURE.md:11",
        "nothing under crates/low/src is called tables",
    );
    let document = edited(
        "ARCHITECTURE.md",
        "| `low` | values |\n| `high` | the command |\n",
        "| `high` | x |\n| `low` | y |\n",
    );
    finds(
        &[("ARCHITECTURE.md", &document)],
        "ARCHITECTURE.md:7",
        "high uses low, which stands below it",
    );
}

#[test]
fn a_script_of_the_lab_that_nothing_runs() {
    let map = edited("ARCHITECTURE.md", "`docs/` and", "`lab/`, `docs/` and");
    let with = |run: &str, script: (&'static str, &'static str), place: &str, words: &str| {
        finds(&[("ARCHITECTURE.md", &map), ("lab/run", run), script], place, words);
    };
    let (ping, none) = (("lab/ping", "#!/bin/sh\n"), ("lab/lib.sh", "# sourced\n"));
    let not_run = "no list of lab/run has ping, so nothing runs it";
    with("#!/bin/bash\nbeside=()\n", ping, "lab/ping:1", not_run);
    with("#!/bin/bash\n# beside=(ping)\n", ping, "lab/ping:1", not_run);
    let gone = "beside has pong, and neither lab/pong nor lab/pong/run is an executable file";
    with("#!/bin/bash\nbeside=(pong)\n", none, "lab/run:2", gone);
    let twice = "ping stands in helpers and in beside";
    with("#!/bin/bash\nbeside=(ping\n)\nhelpers=(ping)\n", ping, "lab/run:4", twice);
    // A folder is a script if it has one named `run`; others in it are its own.
    let fabric = ("lab/fabric/run", "#!/bin/sh\n");
    let not_run = "no list of lab/run has fabric, so nothing runs it";
    with("#!/bin/bash\nbeside=()\n", fabric, "lab/fabric/run:1", not_run);
    // In order: over two lines, a list of lists, and a folder.
    let run = "#!/bin/bash\nbeside=(\n    ping fabric)\nall=(\"${beside[@]}\")\n";
    let own = ("lab/fabric/start", "#!/bin/sh\n");
    let folder = planted(&[("ARCHITECTURE.md", &map), ("lab/run", run), ping, none, fabric, own]);
    assert_eq!(findings(folder.path()), []);
}

#[test]
fn a_word_of_a_document_that_is_not_there() {
    let table = |said: &str| format!("//! Tables, {said}.\nuse crate::raw::first;\n");
    let plant = |said: &str, words: &str| {
        finds(&[("crates/low/src/table.rs", &table(said))], "crates/low/src/table.rs:1", words);
    };
    plant(concat!("see DES", "IGN 5.7"), concat!("a section of DES", "IGN"));
    plant(concat!("by contr", "act 8.1"), concat!("a section of contr", "act"));
    plant(concat!("see docs/absent", ".md"), "is not in the tree; say here what it says");
    plant(concat!("see iss", "ue 12"), "an issue");
    let guide = concat!("# Guide\n\n[away](absent/fi", "le)\n");
    finds(&[("docs/guide.md", guide)], "docs/guide.md:3", "a link to absent/file");
    let guide = "# Guide\n\nRun `cat crates/low/src/gone.rs`, `docs/*.md`, `crates/low/src`.\n";
    finds(
        &[("docs/guide.md", guide)],
        "docs/guide.md:3",
        "crates/low/src/gone.rs is not in the tree",
    );
    let table = table("as ARCHITECTURE 3 and docs/guide.md say");
    assert_eq!(findings(planted(&[("crates/low/src/table.rs", &table)]).path()), []);
}

#[test]
fn a_file_that_is_too_long() {
    let lines = |n: usize| "// x\n".repeat(n);
    let path = "crates/low/src/table.rs";
    finds(&[(path, &lines(1001))], "crates/low/src/table.rs:1001", "1001 lines, at most 1000");
    assert_eq!(findings(planted(&[(path, &lines(1000))]).path()), []);
    let data = format!("//! Table of data: primes.\n{}", lines(1001));
    assert_eq!(findings(planted(&[(path, &data)]).path()), []);
    // Listed: not one line more, and no longer listed than need be.
    let list = ("crates/xtask/baseline/long_files.txt", "# x\n  1200 crates/low/src/table.rs\n");
    assert_eq!(findings(planted(&[(path, &lines(1200)), list]).path()), []);
    finds(
        &[(path, &lines(1201)), list],
        "crates/low/src/table.rs:1001",
        "1201 lines, at most 1200",
    );
    finds(&[list], "crates/xtask/baseline/long_files.txt:2", "at most 1000 lines now, or is gone");
}

#[test]
fn a_table_cell_that_is_too_wide() {
    let table = |n: usize| {
        format!("# Guide\n\n| a | {} |\n```\n| {} |\n```\n", "x".repeat(n), "y".repeat(300))
    };
    finds(
        &[("docs/guide.md", &table(201))],
        "docs/guide.md:3",
        "1 table cells above 200 characters, at most 0; one has 201",
    );
    assert_eq!(findings(planted(&[("docs/guide.md", &table(200))]).path()), []);
    let list = ("crates/xtask/baseline/wide_cells.txt", "     1 docs/guide.md\n");
    assert_eq!(findings(planted(&[("docs/guide.md", &table(201)), list]).path()), []);
    finds(
        &[list],
        "crates/xtask/baseline/wide_cells.txt:1",
        "has 0 cells above 200 characters, not 1",
    );
}

#[test]
fn a_baseline_that_nobody_can_read() {
    for (path, text) in
        [("long_files.txt", "x y\n"), ("wide_cells.txt", "12\n"), ("circles.txt", "    a.rs\n")]
    {
        let path = format!("crates/xtask/baseline/{path}");
        let folder = planted(&[(&path, text)]);
        let error = check::run(&Tree::load(folder.path()).unwrap(), &[]).unwrap_err();
        assert!(error.starts_with(&format!("{path}:1: ")), "{error}");
    }
}

#[test]
fn a_path_of_one_machine_or_a_registry() {
    let table = |said: &str| format!("//! Tables.\n// {said}\nuse crate::raw::first;\n");
    let plant = |said: &str, words: &str| {
        finds(&[("crates/low/src/table.rs", &table(said))], "crates/low/src/table.rs:2", words);
    };
    plant(concat!("in /ho", "me/jo/millrace"), "is a folder of one machine");
    plant(concat!("`/wo", "rk/main`"), "is a folder of one machine");
    plant(concat!("from https://static.crates", ".io/x"), "is a package registry");
    for said in [
        concat!("docs/ho", "me/x"),
        concat!("$PREFIX/ro", "ot/x"),
        "/etc/hosts, /proc/self, /tmp/x",
    ] {
        assert_eq!(
            findings(planted(&[("crates/low/src/table.rs", &table(said))]).path()),
            [],
            "{said}"
        );
    }
    let lock = concat!("source = \"registry+https://github.com/rust-lang/crates", ".io-index\"\n");
    assert_eq!(findings(planted(&[("Cargo.lock", lock)]).path()), []);
    finds(
        &[("Cargo.lock", "x\nsource = \"registry+https://mirror\"\n")],
        "Cargo.lock:2",
        "from elsewhere",
    );
}

#[test]
fn a_subject_that_is_too_long() {
    let folder = planted(&[]);
    let git = |args: &[&str]| {
        let name = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"];
        let mut command = Command::new("git");
        command.arg("-C").arg(folder.path()).args(name).args(args);
        // A hook's environment would name another checkout.
        command.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE").env_remove("GIT_WORK_TREE");
        command.output().is_ok_and(|out| out.status.success())
    };
    let notes = || check::run(&Tree::load(folder.path()).unwrap(), &["commits"]).unwrap().notes;
    assert_eq!(notes().len(), 1, "without a checkout it says that it is skipped");
    if !git(&["init", "-q"]) {
        eprintln!("skipped: no git");
        return;
    }
    assert!(git(&["add", "."]) && git(&["commit", "-q", "-m", &"x".repeat(90)]));
    assert!(notes()[0].contains("skipped"), "nothing is pushed");
    assert!(git(&["update-ref", "refs/remotes/origin/main", "HEAD"]));
    let commit = |len| assert!(git(&["commit", "-q", "--allow-empty", "-m", &"y".repeat(len)]));
    commit(72);
    assert_eq!(findings(folder.path()), []);
    commit(73);
    let found = findings(folder.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].wrong.contains("73 characters, at most 72: yyy"), "{found:?}");
}

#[test]
fn git_says_which_files_there_are() {
    let folder = planted(&[(".gitignore", "/out\n"), ("out/x.rs", "unsafe {}\n")]);
    assert!(Tree::load(folder.path()).unwrap().has("out/x.rs"));
    let init = Command::new("git").arg("-C").arg(folder.path()).args(["init", "-q"]).output();
    if init.is_ok_and(|out| out.status.success()) {
        let tree = Tree::load(folder.path()).unwrap();
        assert!(!tree.has("out/x.rs") && tree.has("crates/low/src"));
    }
}

#[test]
fn a_rule_that_does_not_exist() {
    let folder = planted(&[]);
    let error = check::run(&Tree::load(folder.path()).unwrap(), &["tidy"]).unwrap_err();
    assert!(error.starts_with("no rule tidy; there are order, circles, unsafe"), "{error}");
}
