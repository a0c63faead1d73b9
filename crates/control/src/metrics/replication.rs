//! The group that the process is a member of; nothing where it is of none.

use super::source::Source;
use crate::group::Stripes;
use metrics::{Family, Text};
use replication::{Role, View};

const ACTIVE: Family =
    Family::gauge("millrace_replication_active", "1 if this member of its group forwards, else 0");
const EPOCH: Family =
    Family::gauge("millrace_replication_epoch", "The highest epoch that it knows");
const PROTECTED: Family = Family::gauge(
    "millrace_replication_protected",
    "1 if a standby would go on with all connections; of a standby, 1 if it has all connections",
);
const ENGINE: Family =
    Family::gauge("millrace_replication_engine_up", "1 if the engine of the group is there");
const LAG: Family = Family::gauge(
    "millrace_replication_lag_seconds",
    "Between the last message's being sent and its being taken, by the two clocks",
);
const BEHIND: Family = Family::gauge(
    "millrace_replication_peer_behind",
    "Messages that another member has not applied yet, of an active one",
);
const ALIVE: Family =
    Family::gauge("millrace_replication_peer_up", "1 if another member of the group lives");
const RECORDS: Family =
    Family::counter("millrace_replication_records", "Records of connections, told or applied");
const MESSAGES: Family = Family::counter(
    "millrace_replication_messages",
    "Messages of the stream, by what became of them",
);
const BYTES: Family =
    Family::counter("millrace_replication_bytes", "Octets of the stream, by direction");
const LEFT: Family = Family::counter(
    "millrace_replication_left_out",
    "Records that were not applied, by why; changes for which there was no room",
);
const FENCED: Family = Family::counter(
    "millrace_replication_fenced_packets",
    "Packets without a connection, dropped while another member may have opened it",
);
const STRIPES: Family = Family::gauge(
    "millrace_replication_stripes",
    "Stripes of outside ports, of 64: what this member may use, has claimed of the pool, and what is free in the pool",
);
const CLAIMS: Family = Family::counter(
    "millrace_replication_claims",
    "Claims of stripes of the pool, by what became of them",
);
const FAULTS: Family = Family::counter(
    "millrace_replication_engine_faults",
    "How often the engine could not be reached, or refused something",
);
const NOTIFIED: Family = Family::counter(
    "millrace_replication_notify_runs",
    "Runs of the program that is told of roles, by what became of them",
);
const CHANGES: Family = Family::counter(
    "millrace_replication_role_changes",
    "Promotions and demotions of this member, by reason",
);

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let Some(group) = source.bridges.replication() else { return };
    let shown = group.shown();
    let counts = &shown.counts;
    let of = [("group", &*shown.group), ("member", &*shown.member)];
    let shared = |share: &str| !share.is_empty();
    // A family for each: a share is a label more, where there are some.
    let put = |text: &mut Text, family: &Family, value: &dyn Fn(&View) -> u64| {
        let mut family = text.family(family);
        for view in &shown.views {
            let labels = [of[0], of[1], ("share", &*view.share)];
            family.put(&labels[..2 + usize::from(shared(&view.share))], value(view));
        }
    };
    let active = |view: &View| view.role == Role::Active;
    put(text, &ACTIVE, &|view| u64::from(active(view)));
    put(text, &EPOCH, &|view| view.epoch);
    put(text, &PROTECTED, &|view| u64::from(view.protected));
    let engine = shown.views.iter().all(|view| view.store.connected);
    text.family(&ENGINE).put(&of, u64::from(engine));
    text.family(&LAG).put(&of, counts.lag_ns as f64 / 1e9);
    let mut family = text.family(&ALIVE);
    for peer in shown.views.iter().take(1).flat_map(|view| &view.peers) {
        family.put(&[of[0], of[1], ("peer", &peer.name)], u64::from(peer.alive));
    }
    let mut family = text.family(&BEHIND);
    for view in shown.views.iter().filter(|view| active(view)) {
        for peer in view.peers.iter().filter(|peer| peer.alive) {
            let applied = peer.last.as_ref().map_or(0, |last| last.seq);
            let labels = [of[0], of[1], ("peer", &*peer.name), ("share", &*view.share)];
            let labels = &labels[..3 + usize::from(shared(&view.share))];
            family.put(labels, view.seq.saturating_sub(applied));
        }
    }
    let sum = |of: fn(&View) -> u64| shown.views.iter().map(of).sum();
    let mut by = |family: &Family, label: &'static str, all: &[(&'static str, u64)]| {
        let mut family = text.family(family);
        for (word, n) in all {
            family.put(&[of[0], of[1], (label, *word)], *n);
        }
    };
    by(&RECORDS, "direction", &[("told", counts.told), ("applied", counts.applied)]);
    by(
        &MESSAGES,
        "outcome",
        &[
            ("sent", counts.sent),
            ("unsent", counts.unsent),
            ("taken", counts.messages),
            ("damaged", counts.damaged),
            ("missing", sum(|view| view.gaps)),
            ("stale", sum(|view| view.stale)),
            ("other_share", counts.other_share),
        ],
    );
    by(&BYTES, "direction", &[("sent", counts.sent_octets), ("taken", counts.octets)]);
    by(
        &LEFT,
        "reason",
        &[
            ("unknown_tracker", counts.unknown),
            ("no_record", counts.refused),
            ("no_room", counts.no_room),
            ("log_full", counts.full),
        ],
    );
    text.family(&FENCED).put(&of, counts.fenced);
    text.family(&FAULTS).put(&of, counts.faults);
    if shown.stripes.iter().any(Option::is_some) {
        let mut family = text.family(&STRIPES);
        for (view, stripes) in shown.views.iter().zip(&shown.stripes) {
            let Some(Stripes { usable, claimed, free }) = *stripes else { continue };
            for (state, n) in [("usable", usable), ("claimed", claimed), ("free", free)] {
                let labels = [of[0], of[1], ("state", state), ("share", &*view.share)];
                family.put(&labels[..3 + usize::from(shared(&view.share))], u64::from(n));
            }
        }
        let mut family = text.family(&CLAIMS);
        let asked = [("asked", counts.claims), ("refused", counts.claims_refused)];
        for (outcome, n) in asked {
            family.put(&[of[0], of[1], ("outcome", outcome)], n);
        }
    }
    if let Some((ran, failed)) = counts.notified {
        let mut family = text.family(&NOTIFIED);
        family.put(&[of[0], of[1], ("outcome", "done")], ran - failed);
        family.put(&[of[0], of[1], ("outcome", "failed")], failed);
    }
    let mut family = text.family(&CHANGES);
    for (to, all) in [("active", &counts.promotions), ("standby", &counts.demotions)] {
        for (reason, n) in all {
            family.put(&[of[0], of[1], ("to", to), ("reason", reason)], *n);
        }
    }
}
