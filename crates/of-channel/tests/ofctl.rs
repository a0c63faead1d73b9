//! `ovs-ofctl` as the client, where it is installed.

mod common;

use common::*;
use of_channel::{Config, Listen};
use openflow::Version;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn is_installed() -> bool {
    let found = Command::new("ovs-ofctl").arg("--version").output().is_ok();
    if !found {
        println!("skipped: ovs-ofctl is not installed");
    }
    found
}

fn ofctl(arguments: &[&str]) -> Output {
    let output = Command::new("ovs-ofctl").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    output
}

fn resident_kib() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4
}

fn bed_at(dir: &Path) -> (Bed, String) {
    let path = dir.join("m.sock");
    let listeners = vec![Listen::Unix(path.clone())];
    let snoop = Some(dir.join("snoop"));
    let bed = Bed::new(Config { listeners, snoop, ..listening() });
    (bed, format!("unix:{}", path.display()))
}

#[test]
fn a_hundred_thousand_flows() {
    if !is_installed() {
        return;
    }
    const FLOWS: usize = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let (bed, target) = bed_at(dir.path());
    let file = dir.path().join("flows");
    let mut text = Vec::new();
    for i in 0..FLOWS {
        let (a, b, c) = (i >> 16, i >> 8 & 255, i & 255);
        writeln!(text, "priority=100,ip,nw_dst=10.{a}.{b}.{c},actions=output:2").unwrap();
    }
    std::fs::write(&file, text).unwrap();
    let before = resident_kib();
    let started = Instant::now();
    ofctl(&["-O", "OpenFlow13", "add-flows", &target, file.to_str().unwrap()]);
    let added = started.elapsed();
    let grown = resident_kib().saturating_sub(before);
    assert_eq!(bed.flows(), FLOWS);
    let started = Instant::now();
    let dump = ofctl(&["-O", "OpenFlow13", "dump-flows", &target]);
    let dumped = started.elapsed();
    let text = String::from_utf8(dump.stdout).unwrap();
    assert_eq!(text.lines().filter(|l| l.contains("nw_dst=")).count(), FLOWS);
    println!("{FLOWS} flows: added in {added:?}, memory +{grown} KiB, dumped in {dumped:?}");
}

#[test]
fn snoop_shows_what_passes() {
    if !is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (bed, target) = bed_at(dir.path());
    let snoop = format!("unix:{}", dir.path().join("snoop").display());
    let mut child = Command::new("ovs-ofctl")
        .args(["-O", "OpenFlow13", "snoop", &snoop])
        // Where it puts a control socket of its own.
        .env("OVS_RUNDIR", dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (line, lines) = std::sync::mpsc::channel();
    // It prints to standard error, more than a pipe holds.
    let shown = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        shown.lines().map_while(Result::ok).for_each(|l| drop(line.send(l)));
    });
    let mut text = String::new();
    let mut heard = |line: &str, within: Duration| {
        while !text.contains(line)
            && let Ok(line) = lines.recv_timeout(within)
        {
            text.push_str(&line);
            text.push('\n');
        }
        text.contains(line)
    };
    // Nothing outside says when it has shaken hands.
    let deadline = Instant::now() + PATIENCE;
    loop {
        ofctl(&["-O", "OpenFlow13", "add-flow", &target, "in_port=1,actions=output:2"]);
        if heard("ADD in_port=1 actions=output:2", Duration::from_millis(200)) {
            break;
        }
        assert!(Instant::now() < deadline, "it snoops on nothing: {text}");
    }
    // A version that it does not read does not end it.
    ofctl(&["-O", "OpenFlow10", "dump-flows", &target]);
    ofctl(&["-O", "OpenFlow13", "del-flows", &target, "in_port=1"]);
    heard("DEL", PATIENCE);
    // A snooper is no controller, and the commands have gone.
    let deadline = Instant::now() + PATIENCE;
    while !bed.channel().connected().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(bed.channel().connected(), [] as [Version; 0]);
    // Ends it: the switch goes.
    drop(bed);
    child.wait().unwrap();
    assert!(text.contains("DEL"), "{text}");
}
