use super::kept::{Kept, Opened, Owner};
use super::place::Place;
use crate::bridges::p4_bed::{device, text};
use journal::{Journal, Sync};
use p4_runtime::device::Device;
use p4_runtime::keeping::Image;
use std::path::Path;
use std::sync::Arc;

const INGRESS: &str = "
    meter(4, MeterType.bytes) cells;
    action go(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    table ports { key = { h.h.a: exact; } actions = { go; drop; } default_action = drop(); }
    apply { ports.apply(); }";

/// A program whose entries are kept in a folder, with what was there put back.
struct Bed {
    device: Arc<Device>,
    switch: switch::Switch,
    kept: Kept,
}

fn place(folder: &Path) -> Place {
    Place { folder: folder.to_owned(), sync: Sync::Never }
}

fn start(folder: &Path) -> Bed {
    let (device, switch) = device(&text(INGRESS));
    let mut opened = Opened::open(&place(folder), "br0", Owner::P4).unwrap();
    if !opened.is_fresh() {
        opened.check_program(Path::new("program.p4"), &text(INGRESS)).unwrap();
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
    let other = text(INGRESS).replace("bit<8> b;", "bit<16> b;");
    let refused = open(Owner::P4).unwrap().check_program(Path::new("other.p4"), &other);
    let refused = refused.unwrap_err().text();
    assert!(
        refused.contains("has the entries of another program than other.p4 is now"),
        "{refused}"
    );
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
        let (device, switch) = device(&text(INGRESS));
        device.put_back(state).map_err(|e| e.text).unwrap();
        assert_eq!(device.image(&|| {}), *state);
        switch.stop();
    }
}
