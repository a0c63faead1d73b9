//! What runs packets, and why; tables; how long changes take.

use super::source::Source;
use crate::bridges::Bridge;
use metrics::histogram::{Counts, Histogram};
use metrics::{Family, Text};
use std::sync::Arc;
use switch::{Ran, Timings};

const PACKETS: Family = Family::counter(
    "millrace_engine_packets",
    "Packets by what ran them: code for bursts, code for one packet (whole), the interpreter",
);
const REASONS: Family = Family::counter(
    "millrace_engine_left_packets",
    "Packets that the code for bursts left to another engine, by reason",
);
const FULL: Family = Family::counter(
    "millrace_paths_full",
    "Plans of lookups, and facts they go by, for which the code for one packet had no room",
);
const VERSION: Family =
    Family::gauge("millrace_pipeline_version", "Changes of the pipeline that are in force");
const CHECKED: Family = Family::counter(
    "millrace_validation_packets",
    "Packets that the interpreter ran, too, by --validate",
);
const MISMATCHES: Family = Family::counter(
    "millrace_validation_mismatches",
    "Packets that the interpreter forwards otherwise: a fault of the switch",
);
const ENTRIES: Family = Family::gauge("millrace_table_entries", "Entries of a table");
const LOOKUPS: Family =
    Family::counter("millrace_table_lookups", "Packets that were looked up in a table");
const MATCHES: Family =
    Family::counter("millrace_table_matches", "Packets that hit an entry of a table");
const TRANSACTION: Family = Family::histogram(
    "millrace_transaction_seconds",
    "Changes of the pipeline: from the updates of a request to a new version",
);
const PUBLICATION: Family = Family::histogram(
    "millrace_publication_seconds",
    "Publications of versions to workers, with the code that no packet may do without",
);
const BACKGROUND: Family = Family::histogram(
    "millrace_background_work_seconds",
    "Work beside packets and changes: better code, rearranged tables",
);
const BARRIER: Family = Family::histogram(
    "millrace_barrier_seconds",
    "Barriers: until all workers forward by what came before",
);

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let ran: Vec<_> = source.all.iter().map(|one| (one.name(), one.switch().ran())).collect();
    let mut family = text.family(&PACKETS);
    for (bridge, counted) in &ran {
        for engine in Ran::ALL {
            let (packets, _) = counted.of(engine);
            family.put(&[("bridge", bridge), ("engine", engine.name())], packets);
        }
    }
    let mut family = text.family(&REASONS);
    for (bridge, counted) in &ran {
        for engine in [Ran::Whole, Ran::Interpreter] {
            for (reason, n) in counted.of(engine).1 {
                family
                    .put(&[("bridge", bridge), ("engine", engine.name()), ("reason", reason)], *n);
            }
        }
    }
    let mut family = text.family(&FULL);
    for (bridge, counted) in &ran {
        family.put(&[("bridge", bridge), ("what", "plans")], counted.full.plans);
        family.put(&[("bridge", bridge), ("what", "facts")], counted.full.facts);
    }
    let mut each = |family: &Family, value: &dyn Fn(&Arc<Bridge>) -> u64| {
        let mut family = text.family(family);
        source.all.iter().for_each(|one| family.put(&[("bridge", one.name())], value(one)));
    };
    each(&VERSION, &|bridge| bridge.switch().version());
    each(&CHECKED, &|bridge| bridge.switch().validation().checked);
    each(&MISMATCHES, &|bridge| bridge.switch().validation().mismatches);
    tables(source, text);
    let mut took = |family: &Family, of: fn(&Timings) -> &Histogram| {
        let mut family = text.family(family);
        for bridge in &source.all {
            let counts: Counts = of(bridge.switch().timings()).counts();
            family.put_histogram(&[("bridge", bridge.name())], &counts);
        }
    };
    took(&TRANSACTION, |timings| &timings.transactions);
    took(&PUBLICATION, |timings| &timings.publications);
    took(&BACKGROUND, |timings| &timings.background);
    took(&BARRIER, |timings| &timings.barriers);
}

/// Tables that are in use.
fn tables(source: &Source<'_>, text: &mut Text) {
    let mut all = Vec::new();
    for bridge in &source.all {
        let names: Vec<String> = bridge.switch().with_pipeline(|pipeline| {
            pipeline.program().tables.iter().map(|table| table.name.clone()).collect()
        });
        for (name, id) in names.into_iter().zip(0..) {
            let stats = bridge.switch().table_stats(ir::TableId(id));
            if stats.entries > 0 || stats.lookups > 0 {
                all.push((bridge.name(), name, stats));
            }
        }
    }
    let mut each = |family: &Family, value: &dyn Fn(&switch::TableStats) -> u64| {
        let mut family = text.family(family);
        for (bridge, table, stats) in &all {
            family.put(&[("bridge", bridge), ("table", table)], value(stats));
        }
    };
    each(&ENTRIES, &|stats| stats.entries as u64);
    each(&LOOKUPS, &|stats| stats.lookups);
    each(&MATCHES, &|stats| stats.matches);
}
