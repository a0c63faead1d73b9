//! A process with several bridges, or with a P4 program, is taken over with all that it has; and goes on if that fails.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::running::{PATIENCE, Running};

/// A folder with a switch's configuration and control socket.
struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new(configuration: &str) -> Bed {
        let bed = Bed { dir: tempfile::tempdir().unwrap() };
        let dir = bed.dir.path().display().to_string();
        bed.write("switch.toml", &configuration.replace('@', &dir));
        bed
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn start(&self, more: &[&str]) -> Running {
        let (file, ctl) = (self.file("switch.toml"), self.file("ctl"));
        let words = ["run", "--engine", "interp", &file, "--ctl", &ctl];
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        Running::start(command.args(words).args(more), "millrace: ready")
    }

    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(words).arg("--ctl").arg(self.file("ctl"));
        command.stdin(Stdio::null()).output().expect("it was built for this test")
    }

    fn said(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn told(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.said(&[words, &["--json"]].concat())).expect("one object")
    }

    /// Each bridge's entries, without what counts and ages.
    fn entries(&self, bridge: &str) -> Vec<String> {
        let told = self.told(&["flows", "--bridge", bridge]);
        let one = |flow: &Value| {
            format!("{} {} {} {}", flow["table"], flow["priority"], flow["cookie"], flow["actions"])
        };
        let mut all: Vec<String> = told["flows"].as_array().unwrap().iter().map(one).collect();
        all.sort();
        all
    }

    /// Adds an entry, as the page does.
    fn flow(&self, bridge: &str, line: &str) {
        let mut stream = UnixStream::connect(self.file("ctl")).unwrap();
        let asked = serde_json::json!({"command": "flow", "bridge": bridge, "line": line});
        stream.write_all(format!("{asked}\n").as_bytes()).unwrap();
        let mut told = String::new();
        BufReader::new(stream).read_line(&mut told).unwrap();
        assert!(told.contains("\"total\""), "{told}");
    }

    /// Speaks as a new process does, through these steps, and goes away.
    fn leave_after(&self, steps: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = loop {
            let mut stream = UnixStream::connect(self.file("ctl")).unwrap();
            stream.write_all(b"{\"command\":\"take_over\"}\n").unwrap();
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            if line.contains("\"take_over\":6") {
                break stream;
            }
            assert!(line.contains("already") && Instant::now() < deadline, "{line}");
            std::thread::sleep(Duration::from_millis(10));
        };
        for step in steps {
            stream.get_mut().write_all(format!("{step}\n").as_bytes()).unwrap();
            loop {
                let mut len = [0; 4];
                stream.read_exact(&mut len).unwrap();
                match u32::from_le_bytes(len) as usize {
                    0 => break,
                    len => stream.read_exact(&mut vec![0; len]).unwrap(),
                }
            }
        }
    }
}

const BRIDGES: &str = "port = [\"a=memory:@a\", \"x=patch:y\"]\nflows = [\"@/flows\"]\n\
     [[bridge]]\nname = \"br1\"\nport = [\"b=memory:@b\", \"y=patch:x\"]\nlisten = [\"punix:@/of1\"]\n";

fn bridges() -> Bed {
    let bed = Bed::new(BRIDGES);
    bed.write("flows", "cookie=0x10,in_port=1,actions=output:2\nin_port=2,actions=output:1\n");
    bed
}

fn program_second(bed: &Bed) {
    bed.said(&["service", "add", "late", "counter", "--bridge", "br1"]);
    for flow in [
        "cookie=0x77,in_port=2,actions=output:1",
        "cookie=0x78,priority=9,in_port=7,actions=softflow(late,1)",
    ] {
        bed.flow("br1", flow);
    }
}

/// A packet of the first bridge goes through the cable to the second's port.
fn forwards(bed: &Bed) {
    let traced = bed.told(&["trace", "in_port=1,tcp"]);
    assert_eq!(traced["outputs"][0]["port"], 2, "{traced}");
    let traced = bed.told(&["trace", "in_port=2,tcp", "--bridge", "br1"]);
    assert_eq!(traced["outputs"][0]["port"], 1, "{traced}");
}

#[test]
fn every_bridge_goes_on_with_its_entries_and_services() {
    let bed = bridges();
    let old = bed.start(&[]);
    program_second(&bed);
    let before = ["br0", "br1"].map(|bridge| bed.entries(bridge));
    assert!(before[0].len() == 2 && before[1].len() == 2, "{before:?}");
    let new = bed.start(&["--take-over", &bed.file("ctl")]);
    assert_eq!(old.ended(), Some(0));
    assert_eq!(["br0", "br1"].map(|bridge| bed.entries(bridge)), before);
    forwards(&bed);
    let services = bed.said(&["service", "show", "--bridge", "br1"]);
    assert!(services.contains("late"), "{services}");
    assert!(UnixStream::connect(bed.file("of1")).is_ok());
    // And so does the next one.
    let third = bed.start(&["--take-over", &bed.file("ctl")]);
    assert_eq!(new.ended(), Some(0));
    assert_eq!(["br0", "br1"].map(|bridge| bed.entries(bridge)), before);
    drop(third);
}

#[test]
fn one_that_goes_away_at_any_step_leaves_all_bridges_as_they_were() {
    let bed = bridges();
    let old = bed.start(&[]);
    program_second(&bed);
    let before = ["br0", "br1"].map(|bridge| bed.entries(bridge));
    let steps = [
        "bridges",
        "entries br0",
        "entries br1",
        "connections br0",
        "connections br1",
        "changes br1",
        "stop",
        "services br0",
        "changes br1",
        "services br1",
    ];
    for count in 0..=steps.len() {
        bed.leave_after(&steps[..count]);
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(bed.file("of1")).is_err() {
            assert!(Instant::now() < deadline, "after {count} steps controllers cannot come");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(["br0", "br1"].map(|bridge| bed.entries(bridge)), before, "after {count} steps");
        forwards(&bed);
    }
    drop(old);
}

/// A process of a version that knows of one bridge would lose the others.
#[test]
fn one_that_does_not_name_bridges_takes_over_none_of_several() {
    let bed = bridges();
    let _old = bed.start(&[]);
    program_second(&bed);
    let mut stream = UnixStream::connect(bed.file("ctl")).unwrap();
    stream.write_all(b"{\"command\":\"take_over\"}\n").unwrap();
    let mut stream = BufReader::new(stream);
    let (mut line, mut rest) = (String::new(), Vec::new());
    stream.read_line(&mut line).unwrap();
    stream.get_mut().write_all(b"entries\n").unwrap();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "it is told nothing behind {line}");
    forwards(&bed);
}

/// What packets have counted at a bridge's group 3 and meter 4.
fn counted_by(bed: &Bed, bridge: &str) -> (Value, Value) {
    let groups = bed.told(&["groups", "--bridge", bridge]);
    let meters = bed.told(&["meters", "--bridge", bridge]);
    (groups["groups"][0].clone(), meters["meters"][0].clone())
}

#[test]
fn groups_and_meters_of_all_bridges_go_on_counting() {
    let bed = Bed::new(
        "port = [\"x=patch:y\"]\ngroup = [\"group_id=3,type=all,bucket=output:1\"]\n\
         meter = [\"meter=4,pktps,bands=type=drop,rate=1,burst_size=1\"]\n\
         flow = [\"in_port=2,actions=meter:4,group:3\"]\n\
         [[bridge]]\nname = \"br1\"\nport = [\"b=memory:@b\", \"y=patch:x\"]\n\
         group = [\"group_id=3,type=all,bucket=output:1\"]\nflow = [\"actions=group:3\"]\n",
    );
    capture(&bed, &[1, 2, 3]);
    let old = bed.start(&["--port", &format!("pcap:rx={}", bed.file("in.pcap"))]);
    let deadline = Instant::now() + PATIENCE;
    let arrived = |bed: &Bed| {
        let ((_, meter), (group, _)) = (counted_by(bed, "br0"), counted_by(bed, "br1"));
        (meter["packets"].as_u64(), group["packets"].as_u64())
    };
    while arrived(&bed) != (Some(3), Some(1)) {
        assert!(Instant::now() < deadline, "{:?}", arrived(&bed));
        std::thread::sleep(Duration::from_millis(10));
    }
    let strip = |(mut group, mut meter): (Value, Value)| {
        for of in [&mut group, &mut meter].into_iter().filter_map(Value::as_object_mut) {
            of.remove("age_seconds");
        }
        (group, meter)
    };
    let all = |bed: &Bed| ["br0", "br1"].map(|bridge| strip(counted_by(bed, bridge)));
    let before = all(&bed);
    let new = bed.start(&["--take-over", &bed.file("ctl")]);
    assert_eq!(old.ended(), Some(0));
    assert_eq!(all(&bed), before);
    drop(new);
}

/// What a process has counted of its port `b` and its only entry, and the entry's age.
fn counted(bed: &Bed) -> ((u64, u64, u64, Value), u64) {
    let flow = &bed.told(&["flows"])["flows"][0];
    let ports = bed.told(&["port"]);
    let b = ports["ports"].as_array().unwrap().iter().find(|port| port["name"] == "b").unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let tx = number(&b["tx_packets"]);
    let counts = (number(&flow["packets"]), number(&flow["bytes"]), tx, b["drops"].clone());
    (counts, number(&flow["age_seconds"]))
}

#[test]
fn counters_of_ports_and_entries_go_on_and_entries_keep_their_age() {
    let bed = Bed::new("port = [\"a=memory:@a\", \"b=memory:@b\"]\nflows = [\"@/flows\"]\n");
    bed.write("flows", "priority=5,actions=output:2\n");
    capture(&bed, &[1, 2, 3]);
    let old = bed.start(&["--port", &format!("pcap:rx={}", bed.file("in.pcap"))]);
    let deadline = Instant::now() + PATIENCE;
    while counted(&bed).0.0 < 3 {
        assert!(Instant::now() < deadline, "{:?}", counted(&bed));
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(2100));
    let (before, age) = counted(&bed);
    assert!(before.0 == 3 && before.1 == 180 && age >= 2, "{before:?} {age}");
    assert!(before.2 == 3 || before.3 != serde_json::json!({}), "{before:?}");
    let new = bed.start(&["--take-over", &bed.file("ctl")]);
    assert_eq!(old.ended(), Some(0));
    let (after, now) = counted(&bed);
    assert!(after == before && now >= age, "{before:?} {after:?} {age} {now}");
    // What was carried over is carried on.
    let third = bed.start(&["--take-over", &bed.file("ctl")]);
    assert_eq!(new.ended(), Some(0));
    let (after, now) = counted(&bed);
    assert!(after == before && now >= age, "{before:?} {after:?} {age} {now}");
    drop(third);
}

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<48> dst; bit<48> src; bit<16> kind; bit<8> a; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) used;
    counter(16, CounterType.packets) seen;
    register<bit<33>>(8) kept;
    action go(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    table ports { key = { h.h.a: exact; } actions = { go; drop; } default_action = drop(); counters = used; }
    apply { ports.apply(); seen.count((bit<32>)h.h.a); kept.write(3, 33w5); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

/// A capture file of frames to 02:00:00:00:00:0n with these octets behind the type.
fn capture(bed: &Bed, octets: &[u8]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for octet in octets {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5, *octet];
        frame.resize(60, 0);
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(bed.file("in.pcap"), file).unwrap();
}

fn p4(bed: &Bed, lines: &[&str]) -> String {
    bed.write("lines", &lines.join("\n"));
    let output = bed.ask(&["p4", "do", "--file", &bed.file("lines")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const ASKED: [&str; 6] = [
    "table_num_entries ports",
    "table_dump ports",
    "counter_read seen 7",
    "counter_read seen 8",
    "counter_read used 0",
    "register_read kept 3",
];

#[test]
fn a_p4_program_goes_on_with_its_entries_registers_and_counters() {
    let bed = Bed::new(
        "p4 = \"@/program.p4\"\nentries = \"@/entries\"\nport = [\"a=memory:@a\", \"b=memory:@b\"]\n",
    );
    bed.write("program.p4", PROGRAM);
    bed.write("entries", "table_add ports go 7 => 2\n");
    capture(&bed, &[7, 7, 8]);
    let old = bed.start(&["--port", &format!("pcap:rx={}", bed.file("in.pcap"))]);
    p4(&bed, &["register_write kept 5 77"]);
    let asked: Vec<&str> = ASKED.iter().copied().chain(["register_read kept 5"]).collect();
    let deadline = Instant::now() + PATIENCE;
    while !p4(&bed, &["counter_read seen 8"]).contains(": 1 packets") {
        assert!(Instant::now() < deadline, "{}", p4(&bed, &["counter_read seen 8"]));
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = p4(&bed, &asked);
    assert!(before.contains("0x4d") && before.contains(": 2 packets"), "{before}");
    let new = bed.start(&["--take-over", &bed.file("ctl")]);
    assert_eq!(old.ended(), Some(0));
    assert_eq!(p4(&bed, &asked), before);
    // A program that is loaded while it runs is the one that goes on.
    bed.write(
        "next.p4",
        &PROGRAM
            .replace("33w5", "33w6")
            .replace("seen;", "seen; counter(2, CounterType.packets) more;"),
    );
    bed.said(&["p4", "load", &bed.file("next.p4")]);
    p4(&bed, &["table_add ports drop 9 =>"]);
    let before = p4(&bed, &asked);
    let third = bed.start(&["--take-over", &bed.file("ctl")]);
    assert_eq!(new.ended(), Some(0));
    assert_eq!(p4(&bed, &asked), before);
    p4(&bed, &["counter_read more 1"]);
    // One that goes away leaves it as it was.
    for count in 0..5 {
        bed.leave_after(
            &["bridges", "program br0", "stop", "services br0", "state br0"][..count + 1],
        );
        assert_eq!(p4(&bed, &asked), before, "after {count} steps");
    }
    // Another kind of switch takes nothing over.
    let words = ["run", "--take-over", &bed.file("ctl"), "--port", "memory:z"];
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("runs a P4 program"), "{told}");
    assert_eq!(p4(&bed, &asked), before);
    drop(third);
}

#[test]
fn another_program_at_the_start_takes_nothing_over() {
    let bed = Bed::new("p4 = \"@/program.p4\"\nport = [\"a=memory:@a\"]\n");
    bed.write("program.p4", PROGRAM);
    let old = bed.start(&[]);
    p4(&bed, &["table_add ports go 7 => 2"]);
    bed.write("program.p4", &format!("{PROGRAM}// another\n"));
    let (file, ctl) = (bed.file("switch.toml"), bed.file("ctl"));
    let words = ["run", &file, "--ctl", &ctl, "--take-over", &ctl];
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && told.contains("replace it with `millrace p4 load`"),
        "{told}"
    );
    assert!(p4(&bed, &["table_num_entries ports"]).contains('1'));
    drop(old);
}

#[test]
fn lines_of_entries_of_a_p4_program_change_while_it_runs() {
    let words = "p4 = \"@/program.p4\"\nport = [\"a=memory:@a\", \"b=memory:@b\"]\n";
    let bed = Bed::new(&format!(
        "{words}entry = [\"table_add ports go 7 => 2\", \"table_add ports drop 9 =>\"]\n"
    ));
    bed.write("program.p4", PROGRAM);
    let running = bed.start(&[]);
    p4(&bed, &["table_add ports go 1 => 1"]);
    let has = || {
        let told = p4(&bed, &["table_dump ports"]);
        let lines = told.lines().filter(|line| line.starts_with("table_add"));
        let mut all: Vec<String> =
            lines.map(|line| line.split("  #").next().unwrap().to_owned()).collect();
        all.sort();
        all
    };
    let before = has();
    assert_eq!(before.len(), 3, "{before:?}");
    let dir = bed.file("");
    let write = |entry: &str| {
        let text = format!("{words}entry = [{entry}]\n").replace('@', dir.trim_end_matches('/'));
        bed.write("switch.toml", &text);
    };
    write("\"table_add ports go 7 => 3\", \"table_add ports go 8 => 4\"");
    let plan = bed.said(&["config", "plan", &bed.file("switch.toml")]);
    for line in [
        "- entry of br0: table_add ports go 7 => 2",
        "- entry of br0: table_add ports drop 9 =>",
        "+ entry of br0: table_add ports go 7 => 3",
        "+ entry of br0: table_add ports go 8 => 4",
    ] {
        assert!(plan.lines().any(|told| told == line), "{line}: {plan}");
    }
    bed.said(&["config", "apply", &bed.file("switch.toml")]);
    let after = has();
    assert!(after.len() == 3 && after.iter().any(|line| line.ends_with("go 7 => 3")), "{after:?}");
    bed.said(&["config", "rollback"]);
    assert_eq!(has(), before);
    // One that is refused changes nothing, and says which it is.
    write("\"table_add ports go 7 => 3\", \"table_add ports sned 8 => 4\"");
    let output = bed.ask(&["config", "apply", &bed.file("switch.toml")]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("no action `sned`"), "{told}");
    assert_eq!(has(), before);
    // So do lines of other kinds.
    write(
        "\"table_add ports go 7 => 2\", \"table_set_default ports go 3\", \"mc_node_create 5 2\", \
         \"mc_mgrp_create 1\", \"mc_node_associate 1 0\", \"register_write kept 2 9\"",
    );
    bed.said(&["config", "apply", &bed.file("switch.toml")]);
    let told = p4(&bed, &["table_dump ports", "register_read kept 2"]);
    assert!(told.contains("table_set_default I.ports I.go 3") && told.contains("= 0x9"), "{told}");
    assert!(!told.contains("I.drop 9"), "{told}");
    // Packets have written a cell since: it is not the line's any more.
    p4(&bed, &["register_write kept 2 10"]);
    bed.said(&["config", "rollback"]);
    assert_eq!(has(), before);
    let told = p4(&bed, &["table_dump ports", "register_read kept 2", "mc_mgrp_create 1"]);
    assert!(told.contains("table_set_default I.ports I.drop") && told.contains("= 0xa"), "{told}");
    // What means something in its order alone needs a restart, and the plan says why.
    write(
        "\"table_add ports go 7 => 2\", \"table_add ports drop 9 =>\", \"table_set_timeout ports 0 500\"",
    );
    let plan = bed.said(&["config", "plan", &bed.file("switch.toml")]);
    let why = "! entry \"table_set_timeout ports 0 500\" of br0 (it names an entry by its handle";
    assert!(plan.contains(why) && plan.contains("changes with a restart"), "{plan}");
    let output = bed.ask(&["config", "apply", &bed.file("switch.toml")]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("nothing was applied"), "{told}");
    drop(running);
}
