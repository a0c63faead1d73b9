//! The group that the process is a member of; nothing where it is of none.

use super::source::Source;
use metrics::{Family, Text};
use replication::Role;

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
const CHANGES: Family = Family::counter(
    "millrace_replication_role_changes",
    "Promotions and demotions of this member, by reason",
);

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let Some(group) = source.bridges.replication() else { return };
    let shown = group.shown();
    let (view, counts) = (&shown.view, &shown.counts);
    let of = [("group", &*shown.group), ("member", &*shown.member)];
    let active = view.role == Role::Active;
    text.family(&ACTIVE).put(&of, u64::from(active));
    text.family(&EPOCH).put(&of, view.epoch);
    text.family(&PROTECTED).put(&of, u64::from(view.protected));
    text.family(&ENGINE).put(&of, u64::from(view.store.connected));
    text.family(&LAG).put(&of, counts.lag_ns as f64 / 1e9);
    let mut family = text.family(&ALIVE);
    for peer in &view.peers {
        family.put(&[of[0], of[1], ("peer", &peer.name)], u64::from(peer.alive));
    }
    let mut family = text.family(&BEHIND);
    for peer in view.peers.iter().filter(|peer| active && peer.alive) {
        let applied = peer.last.as_ref().map_or(0, |last| last.seq);
        family.put(&[of[0], of[1], ("peer", &peer.name)], view.seq.saturating_sub(applied));
    }
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
            ("missing", view.gaps),
            ("stale", view.stale),
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
    let mut family = text.family(&CHANGES);
    for (to, all) in [("active", &counts.promotions), ("standby", &counts.demotions)] {
        for (reason, n) in all {
            family.put(&[of[0], of[1], ("to", to), ("reason", reason)], *n);
        }
    }
}
