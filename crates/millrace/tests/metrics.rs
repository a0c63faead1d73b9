//! What a running switch serves for Prometheus, of a process with packets: counters of P4 programs, addresses of translation,
//! entries that are hit most.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::running::{PATIENCE, Running};

/// A switch that receives these frames at its first port.
struct Bed {
    dir: tempfile::TempDir,
    running: Running,
}

impl Bed {
    fn start(frames: &[Vec<u8>], files: &[(&str, &str)], words: &[&str]) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        let mut capture = std::fs::File::create(file("in")).unwrap();
        let mut writer = port::pcap::Writer::new(&mut capture).unwrap();
        frames.iter().for_each(|frame| writer.write(0, frame).unwrap());
        writer.flush().unwrap();
        for (name, text) in files {
            std::fs::write(file(name), text).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.current_dir(&dir).args(["run", "--metrics", "127.0.0.1:0", "--ctl", &file("ctl")]);
        command.args(["--port", &format!("a=pcap:rx={}", file("in")), "--port", "b=memory:b"]);
        let running = Running::start(command.args(words), "millrace: ready");
        Bed { dir, running }
    }

    fn page(&self) -> String {
        let at = self.running.said.split("metrics:").nth(1).expect("it says where");
        let mut stream = TcpStream::connect(at.split(',').next().unwrap().trim()).unwrap();
        let head = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(head).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Waits for these samples.
    fn has(&self, samples: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let page = self.page();
            let lacks = samples.iter().find(|sample| !page.lines().any(|line| line == **sample));
            let Some(lacks) = lacks else { return };
            let told: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(
                Instant::now() < deadline,
                "no {lacks} in {told:#?} of {}",
                self.dir.path().display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

const PROGRAM: &str = "#include <core.p4>
#include <v1model.p4>
header e_t { bit<8> first; }
struct H { e_t e; }
struct M { }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
    state start { b.extract(h.e); transition accept; }
}
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    counter(8, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    table t {
        key = { h.e.first: exact; }
        actions = { NoAction; }
        counters = hits;
        default_action = NoAction();
    }
    apply { seen.count(2); t.apply(); s.egress_spec = 2; }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

#[test]
fn counters_of_a_p4_program_have_its_names() {
    let frames = [2, 2, 4].map(|first| [vec![first], vec![0; 59]].concat());
    let entries = "table_add t NoAction 2 =>\ntable_add t NoAction 6 =>\n";
    let files = [("x.p4", PROGRAM), ("entries", entries)];
    let bed = Bed::start(&frames, &files, &["--p4", "x.p4", "--entries", "entries"]);
    bed.has(&[
        r#"millrace_p4_counter_packets_total{bridge="br0",counter="I.seen",index="2"} 3"#,
        r#"millrace_p4_counter_bytes_total{bridge="br0",counter="I.seen",index="2"} 180"#,
        r#"millrace_p4_direct_counter_packets_total{bridge="br0",counter="I.hits",entry="0"} 2"#,
        r#"millrace_p4_direct_counter_bytes_total{bridge="br0",counter="I.hits",entry="0"} 120"#,
        r#"millrace_p4_counter_cells_left_out{bridge="br0",counter="I.seen"} 0"#,
    ]);
    let page = bed.page();
    assert!(!page.contains(r#"index="1""#), "a cell that has counted nothing has no series");
    assert!(!page.contains(r#"entry="1""#), "nor has such an entry");
}

#[test]
fn outside_addresses_tell_what_is_taken() {
    let frame = |host: u8, port| {
        let (from, to) = (([10, 0, 0, host].into(), port), ([198, 51, 100, 2].into(), 53));
        service::craft::Frame::udp(from, to, 4).bytes()
    };
    let frames = [frame(1, 1000), frame(1, 1000), frame(1, 2000), frame(2, 1000)];
    let flows = "table=0,udp,actions=ct(commit,zone=1,nat(src=192.0.2.1:5000-5009),table=1)\n\
                 table=1,priority=7,udp,actions=output:2\n";
    let words = ["--flows", "flows", "--metrics-entries", "2"];
    let bed = Bed::start(&frames, &[("flows", flows)], &words);
    bed.has(&[
        r#"millrace_nat_sockets{bridge="br0",service="ct",address="192.0.2.1"} 3"#,
        r#"millrace_nat_ports{bridge="br0",service="ct",address="192.0.2.1"} 10"#,
        r#"millrace_nat_exhausted_total{bridge="br0",service="ct"} 0"#,
        r#"millrace_nat_addresses_left_out{bridge="br0",service="ct"} 0"#,
        r#"millrace_entry_packets_total{bridge="br0",table="1",priority="7",cookie="0x0",match="udp"} 4"#,
    ]);
}

/// Files for TLS that tests of channels have, too.
fn pem(name: &str) -> String {
    format!("{}/../of-channel/tests/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn vswitchd_serves_metrics_by_tls() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let vswitchd = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(name, dir.path());
        }
        // No database answers there: counters are served all the same.
        let database = format!("unix:{}", file("db.sock"));
        command.args(["vswitchd", &database, "--ctl", &file("ctl")]).args(words);
        command
    };
    let (key, certificate) = (pem("switch-privkey"), pem("switch-cert"));
    let keys = ["--private-key", &key, "--certificate", &certificate];
    for (words, why) in [
        (&keys[..], "are of --metrics and --http"),
        (&["--metrics", "127.0.0.1:0", "--private-key", &key], "TLS needs both"),
        (&["--metrics-entries", "5"], "is of --metrics"),
        (&["--http", "0.0.0.0", keys[0], keys[1], keys[2], keys[3]], "give --http-token FILE"),
    ] {
        let output = vswitchd(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{words:?}: {said}");
    }
    let authority = pem("ca");
    let words = [&keys[..], &["--metrics", "127.0.0.1:0", "--ca-cert", &authority]].concat();
    let running = Running::start(&mut vswitchd(&words), "millrace: ready");
    let at = running.said.split("metrics:").nth(1).unwrap().split(',').next().unwrap();
    let mut stream = TcpStream::connect(at.trim()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // It may close the connection in any way.
    let _ = stream.read_to_end(&mut answer);
    // An alert of TLS, and no page.
    assert!(answer.first().is_none_or(|first| *first == 0x15), "{answer:?}");
}
