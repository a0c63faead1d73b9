//! `cargo xtask COMMAND`.

use std::process::ExitCode;
use xtask::tree::Tree;
use xtask::{check, dist, package, sbom, shrink};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check [RULE...]        hold the tree to its rules; with names, to these alone
  rules                  list the rules
  baseline [--grow]      shrink the baselines to what still breaks a rule; --grow adds what is new, too
  sbom [--features LIST] print the bill of materials of `millrace` (CycloneDX 1.5, JSON)
  dist [--target TRIPLE] [--features LIST]
                         build the stripped release binary, and its bill of materials into target/dist; for
                         x86_64-unknown-linux-musl (static) and aarch64-unknown-linux-gnu, too
  dist --all             all three without features, and packages of them
  package deb|oci|tar [OPTION VALUE...]
                         package a binary: --binary FILE [target/dist/millrace], --tool FILE (one that runs here), --arch
                         amd64|arm64, --version VERSION, --out DIR [target/dist]; oci and tar want a static one
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the command found all in order.
fn run(args: &[&str]) -> Result<bool, String> {
    match args {
        ["check", rules @ ..] => {
            let tree = Tree::load(&root()?)?;
            let report = check::run(&tree, rules)?;
            for note in &report.notes {
                println!("{note}");
            }
            for finding in &report.findings {
                println!("{finding}");
            }
            match report.findings.len() {
                0 => println!("{} files: in order", tree.files().count()),
                n => println!("{n} to mend"),
            }
            Ok(report.findings.is_empty())
        }
        ["rules"] => {
            for rule in check::RULES {
                println!("{:<12} {}", rule.name, rule.is);
            }
            Ok(true)
        }
        ["baseline"] | ["baseline", "--grow"] => {
            let grow = args.len() == 2;
            for line in shrink::rewrite(&Tree::load(&root()?)?, grow)? {
                println!("{line}");
            }
            Ok(true)
        }
        ["sbom"] => sbom::print(&root()?, None).map(|()| true),
        ["sbom", "--features", list] => sbom::print(&root()?, Some(list)).map(|()| true),
        ["dist", options @ ..] => {
            let asked = dist::Asked::read(options)?;
            dist::make(&root()?, &asked).map(|()| true)
        }
        ["package", kind, options @ ..] => {
            let wanted = package::Wanted::read(&root()?, options)?;
            package::make(kind, &wanted).map(|_| true)
        }
        _ => Err(format!("no such command\n{USAGE}")),
    }
}

/// The root of the tree: the nearest folder upwards that holds a workspace.
fn root() -> Result<std::path::PathBuf, String> {
    let here = std::env::current_dir().map_err(|e| format!("the current folder: {e}"))?;
    here.ancestors()
        .find(|folder| {
            folder.join("Cargo.lock").exists() && folder.join("ARCHITECTURE.md").exists()
        })
        .map(std::path::Path::to_path_buf)
        .ok_or_else(|| format!("no workspace in {} or above it", here.display()))
}
