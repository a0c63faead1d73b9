//! The conformance ledger `conformance/openflow.md`; `BLESS=1 cargo test -p of-pipeline --test ledger` writes it anew.

use std::path::Path;
use testkit::ledger::Ledger;

#[test]
fn the_ledger_is_true() {
    let (standard, version) = ("openflow", "1.3.5");
    let ledger = Ledger { standard, version, document: "conformance/openflow.md" };
    ledger.check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
}
