//! For tests: a P4 program of two octets a packet, as a host or a device, on a switch without ports.

use crate::program::{host, p4_file};
use p4_runtime::device::{Device, Options};
use p4_runtime::host::Host;
use std::sync::{Arc, Mutex};
use switch::{EngineKind, Switch};

/// A program of packets of the fields `h.h.a` and `h.h.b`, whose ingress is this.
pub(crate) fn text(ingress: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; }}
struct headers {{ h_t h; }}
struct metadata {{ }}
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control V(inout headers h, inout metadata m) {{ apply {{ }} }}
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {{
{ingress}
}}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) {{ apply {{ }} }}
control U(inout headers h, inout metadata m) {{ apply {{ }} }}
control D(packet_out p, in headers h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"
    )
}

/// The program on a switch, with its P4Info and its text.
fn started(text: &str) -> (Host, Vec<u8>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("program.p4");
    std::fs::write(&file, text).unwrap();
    let (lowered, info, text) = p4_file::compile_with_info(&p4_file::source(&file)).unwrap();
    let config = |program| switch::Config {
        program,
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine: EngineKind::Interp,
        validate: None,
    };
    (host::of(lowered, config).unwrap(), info, text)
}

pub(crate) fn host(text: &str) -> Host {
    started(text).0
}

/// What P4Runtime has of the program.
pub(crate) fn device(text: &str) -> (Arc<Device>, Switch) {
    let (host, info, text) = started(text);
    let switch = host.switch().clone();
    let device = Device::new(Options { device_id: 1 }, Arc::new(Mutex::new(host)), None);
    device.started_with(&info, &text).map_err(|e| e.text).unwrap();
    (Arc::new(device), switch)
}
