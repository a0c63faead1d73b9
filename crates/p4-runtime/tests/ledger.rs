//! The conformance ledger `conformance/p4runtime.md`; `BLESS=1 cargo test -p p4-runtime --test ledger` writes it anew.

use std::path::Path;
use testkit::ledger::Ledger;

#[test]
fn the_ledger_is_true() {
    let (standard, version) = ("p4runtime", "1.5.0");
    let ledger = Ledger { standard, version, document: "conformance/p4runtime.md" };
    ledger.check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
}
