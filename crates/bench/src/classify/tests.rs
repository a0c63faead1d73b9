//! The bench on small sets: what it prints, and what it refuses.

use super::*;
use crate::options::{BenchCommand, parsed};

fn options(arguments: &[&str]) -> BenchClassifyOptions {
    let words = ["millrace-bench", "classify"].iter().chain(arguments);
    let BenchCommand::Classify(options) = parsed(words).command else { panic!("not of lookups") };
    *options
}

/// A file of rules in a folder of its own.
fn file(lines: impl Iterator<Item = String>) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    write(&path, lines).unwrap();
    (folder, path)
}

fn some_rules() -> impl Iterator<Item = String> {
    (0..300u32).map(|n| {
        let (a, b) = (n % 5, n % 13);
        format!(
            "@10.{a}.{b}.0/{} 20.{b}.{a}.0/{} 0 : 65535 {n} : {n} 0x06/0xFF",
            n % 33,
            n * 7 % 33
        )
    })
}

#[test]
fn every_structure_finds_what_linear_search_finds() {
    let (_folder, path) = file(some_rules());
    let path = path.to_str().unwrap();
    for algorithm in ["auto", "tuple_merge", "tuple_merge_offline", "tuple_space", "partition_sort"]
        .into_iter()
        .chain(["linear", "table", "cuts"])
    {
        let options = options(&[
            "--rules",
            path,
            "--headers",
            "3000",
            "--runs",
            "1",
            "--algorithm",
            algorithm,
            "--fresh",
            "200",
        ]);
        let rules = rules(&options).unwrap();
        let trace = trace(&options, &rules).unwrap();
        let new = subject::named(algorithm).unwrap();
        let (value, mismatches) = measure(&options, &rules, &trace, new).unwrap();
        assert_eq!((mismatches, &value["checked"]), (0, &json!(3000)), "{value}");
        assert!(value["update_us"].is_null() && text(&value).starts_with(algorithm));
    }
}

#[test]
fn a_wrong_answer_is_seen() {
    let (folder, path) = file(some_rules());
    let path = path.to_str().unwrap();
    let trace_path = folder.path().join("trace");
    let to = trace_path.to_str().unwrap();
    let all = ["--rules", path, "--headers", "500", "--runs", "1"];
    let options_of = |more: &[&str]| options(&[&all[..], more].concat());
    run(&options_of(&["--write-trace", to])).unwrap();
    let from = options(&["--rules", path, "--trace", to, "--runs", "1"]);
    run(&from).unwrap();
    // A trace that says otherwise of one header.
    let text = std::fs::read_to_string(&trace_path).unwrap();
    let (line, rest) = text.split_once('\n').unwrap();
    let (header, _) = line.rsplit_once('\t').unwrap();
    std::fs::write(&trace_path, format!("{header}\t299\n{rest}")).unwrap();
    assert!(matches!(run(&from), Err(Failure::Bad(why)) if why.contains("linear search")));
    // A structure that has lost a rule.
    let rules = rules(&from).unwrap();
    let trace = trace(&options_of(&[]), &rules).unwrap();
    let new = subject::named("tuple_merge").unwrap();
    let subject = new(&rules[1..].iter().collect::<Vec<_>>()).unwrap();
    let (checked, wrong) = judge(&*subject, &rules, &vec![true; rules.len()], &trace);
    assert!(checked == 500 && wrong > 0, "{checked} {wrong}");
}

#[test]
fn rules_come_and_go_while_headers_are_looked_up() {
    let (_folder, path) = file(some_rules());
    let path = path.to_str().unwrap();
    let all = ["--rules", path, "--headers", "2000", "--runs", "1", "--beside", "20000"];
    for algorithm in ["auto", "cuts", "tuple_merge"] {
        let more = ["--soak", "50000", "--algorithm", algorithm];
        let options = options(&[&all[..], &more].concat());
        let rules = rules(&options).unwrap();
        let trace = trace(&options, &rules).unwrap();
        let new = subject::named(algorithm).unwrap();
        let (value, mismatches) = measure(&options, &rules, &trace, new).unwrap();
        assert_eq!(mismatches, 0, "{value}");
        assert!(value["beside"]["checked"].as_u64() > Some(0), "{value}");
        assert!(value["soak"]["lookups"].as_u64() >= Some(50_000), "{value}");
    }
}

#[test]
fn updates_keep_to_the_protocol() {
    let mut draw = Draw::new(1);
    let plan = Plan::new(1000, &mut draw);
    assert_eq!((plan.loaded.len(), plan.updates.len()), (500, 2 * UPDATES));
    let mut present = vec![false; 1000];
    plan.loaded.iter().for_each(|&at| present[at as usize] = true);
    for (inserts, at) in plan.updates {
        assert_eq!(std::mem::replace(&mut present[at as usize], inserts), !inserts);
    }
    assert_eq!(present, plan.present);
}

#[test]
fn what_cannot_be_done_is_refused_in_words() {
    let (_folder, path) = file(["nothing".to_string()].into_iter());
    let path = path.to_str().unwrap();
    let refused = |arguments: &[&str]| match run(&options(arguments)) {
        Err(Failure::Bad(why) | Failure::Usage(why) | Failure::Status(_, why)) => why,
        Ok(()) => panic!("{arguments:?} went well"),
    };
    assert!(refused(&["--rules", path]).contains("rules: line 1: it must begin with @"));
    assert!(refused(&["--rules", "/no/such/file"]).contains("cannot read /no/such/file"));
    let (_folder, path) = file(some_rules());
    let path = path.to_str().unwrap();
    assert!(refused(&["--rules", path, "--runs", "0"]).contains("--runs must be at least 1"));
    let why = refused(&["--rules", path, "--algorithm", "magic"]);
    assert!(why.starts_with("unknown algorithm \"magic\"; there are auto, tuple_merge"), "{why}");
    let why = refused(&["--rules", path, "--algorithm", "lpm", "--headers", "10"]);
    assert!(why.contains("lpm cannot hold these rules"), "{why}");
}
