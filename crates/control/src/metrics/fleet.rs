//! The fleet whose configuration the process has; nothing where it has none's.

use super::source::Source;
use metrics::{Family, Text};

const RUNNING: Family =
    Family::gauge("millrace_fleet_version", "The version of the fleet's configuration that runs");
const OFFERED: Family =
    Family::gauge("millrace_fleet_offered_version", "The version that the store has offered last");
const UP: Family =
    Family::gauge("millrace_fleet_store_up", "1 if the fleet's store is there, else 0");
const VERSIONS: Family = Family::counter(
    "millrace_fleet_versions",
    "Versions of the fleet's configuration, by what became of them here",
);

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let Some(fleet) = source.bridges.fleet() else { return };
    let shown = fleet.shown();
    let of = [("group", &*shown.group)];
    text.family(&RUNNING).put(&of, shown.ack.running);
    text.family(&OFFERED).put(&of, shown.offered);
    text.family(&UP).put(&of, u64::from(shown.connected));
    let mut family = text.family(&VERSIONS);
    for (outcome, n) in [
        ("applied", shown.applied),
        ("refused", shown.refused),
        ("not_confirmed", shown.lapsed),
        ("damaged", shown.damaged),
    ] {
        family.put(&[of[0], ("outcome", outcome)], n);
    }
}
