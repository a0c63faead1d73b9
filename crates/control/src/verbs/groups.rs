//! `groups`: groups with their buckets and counters.

use super::flows::LIMIT;
use crate::protocol::Reply;
use crate::sync::lock;
use crate::verb::{At, Verb};
use openflow::syntax::print_group;
use openflow::{GroupDesc, GroupId, Version};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Groups {
    /// This one alone.
    pub group: Option<u32>,
    /// So many at most.
    pub limit: usize,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups { group: None, limit: LIMIT }
    }
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Groups that there are.
    pub total: usize,
    /// Those that are told, by number.
    pub groups: Vec<One>,
}

/// A group.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its number.
    pub group: u32,
    /// What it is, in `ovs-ofctl`'s words, its buckets aside: `type=select`.
    pub kind: String,
    /// Packets that came to it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds since it was added.
    pub age_seconds: u32,
    /// Flow entries and groups that lead to it.
    pub users: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

/// A bucket.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bucket {
    /// What it is, in `ovs-ofctl`'s words.
    pub bucket: String,
    /// Packets that it was chosen for.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Verb for Groups {
    const NAME: &'static str = "groups";
    const ABOUT: &'static str = "Groups with their buckets and counters";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridge = at.bridge()?;
        let openflow = bridge.openflow().ok_or("a P4 program has no groups of OpenFlow")?;
        let agent = lock(&openflow.agent);
        let now_ns = bridge.switch().now_ns();
        if let Some(group) = self.group.filter(|group| !agent.groups().contains(*group)) {
            return Err(format!("there is no group {group}"));
        }
        let chosen =
            agent.groups().iter().filter(|(id, _)| self.group.is_none_or(|one| one == *id));
        let one = |(id, entry): (u32, &of_pipeline::group_table::GroupEntry)| {
            let stats = agent.group_stats(id, entry, now_ns);
            let desc = GroupDesc {
                group_type: entry.group_type,
                group_id: GroupId(id),
                selection: entry.selection.clone(),
                buckets: entry.buckets.clone(),
            };
            let text = print_group(&desc, Version::V15);
            let mut parts = text.split(",bucket=");
            let kind = parts.next().unwrap_or_default();
            let kind = kind.split_once(',').map_or("", |(_, kind)| kind).to_owned();
            let buckets = parts.zip(&stats.buckets).map(|(bucket, counted)| Bucket {
                bucket: bucket.to_owned(),
                packets: counted.packet_count,
                bytes: counted.byte_count,
            });
            One {
                group: id,
                kind,
                packets: stats.packet_count,
                bytes: stats.byte_count,
                age_seconds: stats.age.sec,
                users: stats.ref_count,
                buckets: buckets.collect(),
            }
        };
        let groups = chosen.take(self.limit).map(one).collect();
        Ok(Reply::Answer(Answer { total: agent.groups().len(), groups }))
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ =
            writeln!(out, "{:>10} {:>12} {:>14} {:>6}  is", "group", "packets", "bytes", "users");
        for one in &answer.groups {
            let (group, kind) = (one.group, &one.kind);
            let _ = writeln!(
                out,
                "{group:>10} {:>12} {:>14} {:>6}  {kind}",
                one.packets, one.bytes, one.users
            );
            for bucket in &one.buckets {
                let text = &bucket.bucket;
                let _ = writeln!(
                    out,
                    "{:>10} {:>12} {:>14} {:>6}  bucket={text}",
                    "", bucket.packets, bucket.bytes, ""
                );
            }
        }
        if answer.groups.len() < answer.total {
            let _ = writeln!(out, "{} of {} groups", answer.groups.len(), answer.total);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::BridgeConfig;
    use crate::bridges::bed::{LONG, ask, bridges, flow, frame, memory};
    use crate::program::tables::{Told, tell};
    use switch::EngineKind;

    #[test]
    fn buckets_are_told_with_what_they_carried() {
        let bridges = bridges(1, EngineKind::default());
        bridges.add(BridgeConfig::named("br0")).unwrap();
        let (one, two) = (memory(&bridges, "br0", "groups-a"), memory(&bridges, "br0", "groups-b"));
        let first = bridges.first();
        let agent = first.as_ref().unwrap().openflow().unwrap();
        for line in [
            "group_id=7,type=all,bucket=output:2,bucket=output:9",
            "group_id=9,type=indirect,bucket=output:2",
        ] {
            tell(&mut lock(&agent.agent), Told::Group, line, &|_| None).unwrap();
        }
        flow(&bridges, "br0", "actions=group:7");
        assert!(one.inject_bytes(&frame(1, 0, 0)));
        two.take_within(LONG).expect("a frame comes through");
        let ask = |group, limit| ask(&bridges, Groups { group, limit });
        let all = ask(None, 1).unwrap();
        assert_eq!((all.total, all.groups.len()), (2, 1));
        let seven = &all.groups[0];
        assert_eq!((seven.group, seven.packets, seven.bytes, seven.users), (7, 1, 60, 1));
        assert_eq!(seven.kind, "type=all");
        assert_eq!(seven.buckets.len(), 2);
        assert_eq!((seven.buckets[0].packets, seven.buckets[1].packets), (1, 1));
        assert!(
            seven.buckets[0].bucket.ends_with("actions=output:2"),
            "{}",
            seven.buckets[0].bucket
        );
        assert!(Groups::text(&all).ends_with("1 of 2 groups\n"));
        assert_eq!(ask(Some(9), 9).unwrap().groups[0].kind, "type=indirect");
        assert_eq!(ask(Some(8), 9).unwrap_err(), "there is no group 8");
        bridges.stop();
    }
}
