use super::kept::{Kept, Opened, Owner};
use super::place::Place;
use crate::program::{host, p4_file};
use journal::{Journal, Sync};
use p4_runtime::device::{Device, Options};
use p4_runtime::keeping::Image;
use std::path::Path;
use std::sync::{Arc, Mutex};
use switch::EngineKind;

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    meter(4, MeterType.bytes) cells;
    action go(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    table ports { key = { h.h.a: exact; } actions = { go; drop; } default_action = drop(); }
    apply { ports.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

/// A program whose entries are kept in a folder, with what was there put back.
struct Bed {
    device: Arc<Device>,
    switch: switch::Switch,
    kept: Kept,
}

fn place(folder: &Path) -> Place {
    Place { folder: folder.to_owned(), sync: Sync::Never }
}

fn device(text: &str) -> (Arc<Device>, switch::Switch) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("program.p4");
    std::fs::write(&file, text).unwrap();
    let source = p4_file::source(&file);
    let (lowered, info, text) = p4_file::compile_with_info(&source).unwrap();
    let config = |program| switch::Config {
        program,
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine: EngineKind::Interp,
        validate: None,
    };
    let host = host::of(lowered, config).unwrap();
    let switch = host.switch().clone();
    let device = Device::new(Options { device_id: 1 }, Arc::new(Mutex::new(host)), None);
    device.started_with(&info, &text).map_err(|e| e.text).unwrap();
    (Arc::new(device), switch)
}

fn start(folder: &Path) -> Bed {
    let (device, switch) = device(PROGRAM);
    let mut opened = Opened::open(&place(folder), "br0", Owner::P4).unwrap();
    if !opened.is_fresh() {
        opened.check_program(Path::new("program.p4"), PROGRAM).unwrap();
        opened.put_back_p4(&device).unwrap();
    }
    let kept = opened.begin_p4(&device).unwrap();
    Bed { device, switch, kept }
}

impl Bed {
    fn tell(&self, lines: &str) {
        assert_eq!(self.device.commands(lines).wrong, []);
    }

    fn state(&self) -> Image {
        self.device.image(&|| {})
    }

    /// As a killed process leaves it: what was told is in the folder, and the lock is free.
    fn kill(self) -> Image {
        let state = self.state();
        self.switch.stop();
        self.kept.close();
        state
    }
}

#[test]
fn a_program_comes_back_with_its_entries() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    bed.tell("table_add ports go 1 => 7\ntable_add ports go 2 => 8");
    bed.tell("table_set_default ports go 3\nmeter_set_rates cells 2 0.001:50 0.002:60");
    bed.tell("table_delete ports 1");
    assert_eq!(bed.kept.status().records, 3);
    let before = bed.kill();
    let bed = start(dir.path());
    assert_eq!(bed.state(), before);
    // And once more, from the snapshot alone.
    assert_eq!(bed.kill(), before);
    let bed = start(dir.path());
    assert_eq!(bed.state(), before);
    bed.kill();
}

#[test]
fn a_folder_is_one_program_s() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    bed.tell("table_add ports go 1 => 7");
    bed.kill();
    let open = |owner| Opened::open(&place(dir.path()), "br0", owner);
    let other = PROGRAM.replace("bit<8> b;", "bit<16> b;");
    let text = open(Owner::P4).unwrap().check_program(Path::new("other.p4"), &other);
    let text = text.unwrap_err().text();
    assert!(text.contains("has the entries of another program than other.p4 is now"), "{text}");
    let Err(failure) = open(Owner::OpenFlow) else { panic!("OpenFlow takes it") };
    assert!(failure.text().contains("was written for a P4 program, and this is OpenFlow"));
}

/// A log that ends anywhere is what was there after some request.
#[test]
fn a_log_that_is_cut_anywhere_is_a_state_that_there_was() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    let mut states = vec![bed.state()];
    for n in 1..=6 {
        // Two entries, one of which goes with the next request: no state has half of a request.
        let lines = format!("table_add ports go {n} => 7\ntable_add ports go {} => 7", 100 + n);
        let gone =
            if n > 1 { format!("\ntable_delete ports {}", 2 * (n - 1) - 1) } else { String::new() };
        bed.tell(&(lines + &gone));
        states.push(bed.state());
    }
    bed.kill();
    let folder = place(dir.path()).of_bridge("br0");
    let log = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path());
    let log = log.into_iter().find(|p| p.to_string_lossy().contains("log-")).unwrap();
    let bytes = std::fs::read(&log).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for length in 0..=bytes.len() {
        let copy = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()) {
            std::fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
        }
        std::fs::write(copy.path().join(log.file_name().unwrap()), &bytes[..length]).unwrap();
        let (_, restored) = Journal::open(copy.path(), "a P4 program", Sync::Never).unwrap();
        let at = states.iter().position(|state| *state == restored.map);
        seen.insert(at.unwrap_or_else(|| panic!("cut at {length}: no state that there was")));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), (0..states.len()).collect::<Vec<_>>());
    // Some of them through a device.
    for state in states.iter().step_by(3) {
        let (device, switch) = device(PROGRAM);
        device.put_back(state).map_err(|e| e.text).unwrap();
        assert_eq!(device.image(&|| {}), *state);
        switch.stop();
    }
}
