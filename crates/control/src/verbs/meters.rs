//! `meters`: meters with their bands and counters.

use super::flows::LIMIT;
use crate::protocol::Reply;
use crate::sync::lock;
use crate::verb::{At, Verb};
use openflow::syntax::print_meter;
use openflow::{MeterConfig, MeterId};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Meters {
    /// This one alone.
    pub meter: Option<u32>,
    /// So many at most.
    pub limit: usize,
}

impl Default for Meters {
    fn default() -> Meters {
        Meters { meter: None, limit: LIMIT }
    }
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Meters that there are.
    pub total: usize,
    /// Those that are told, by number.
    pub meters: Vec<One>,
}

/// A meter.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its number.
    pub meter: u32,
    /// What it is, in `ovs-ofctl`'s words.
    pub is: String,
    /// Packets that came to it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds since it was added.
    pub age_seconds: u32,
    /// Flow entries that use it.
    pub users: u32,
    /// Packets that each band took, to drop or remark them.
    pub bands: Vec<u64>,
}

impl Verb for Meters {
    const NAME: &'static str = "meters";
    const ABOUT: &'static str = "Meters with their bands and counters";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridge = at.bridge()?;
        let openflow = bridge.openflow().ok_or("a P4 program has no meters of OpenFlow")?;
        let agent = lock(&openflow.agent);
        if let Some(meter) = self.meter.filter(|meter| !agent.meters().contains(*meter)) {
            return Err(format!("there is no meter {meter}"));
        }
        let chosen =
            agent.meters().iter().filter(|(id, _)| self.meter.is_none_or(|one| one == *id));
        let one = |(id, entry): (u32, &of_pipeline::meter_table::MeterEntry)| {
            let stats = agent.meter_stats(id);
            let config = MeterConfig {
                flags: entry.flags,
                meter_id: MeterId(id),
                bands: entry.bands.clone(),
            };
            One {
                meter: id,
                is: print_meter(&config),
                packets: stats.packet_in_count,
                bytes: stats.byte_in_count,
                age_seconds: stats.age.sec,
                users: stats.flow_count,
                bands: stats.bands.iter().map(|band| band.packet_count).collect(),
            }
        };
        let meters = chosen.take(self.limit).map(one).collect();
        Ok(Reply::Answer(Answer { total: agent.meters().len(), meters }))
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{:>12} {:>14} {:>6} {:>16}  is",
            "packets", "bytes", "users", "taken by bands"
        );
        for one in &answer.meters {
            let bands: Vec<String> = one.bands.iter().map(u64::to_string).collect();
            let (bands, is) = (bands.join(" "), &one.is);
            let _ = writeln!(
                out,
                "{:>12} {:>14} {:>6} {bands:>16}  {is}",
                one.packets, one.bytes, one.users
            );
        }
        if answer.meters.len() < answer.total {
            let _ = writeln!(out, "{} of {} meters", answer.meters.len(), answer.total);
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
    fn meters_are_told_with_what_their_bands_took() {
        let bridges = bridges(1, EngineKind::default());
        bridges.add(BridgeConfig::named("br0")).unwrap();
        let (one, two) = (memory(&bridges, "br0", "meters-a"), memory(&bridges, "br0", "meters-b"));
        let first = bridges.first();
        let agent = first.as_ref().unwrap().openflow().unwrap();
        for line in [
            "meter=7,pktps,burst,bands=type=drop,rate=1,burst_size=1",
            "meter=9,kbps,bands=type=drop,rate=5",
        ] {
            tell(&mut lock(&agent.agent), Told::Meter, line, &|_| None).unwrap();
        }
        flow(&bridges, "br0", "dl_dst=02:00:00:00:00:01,actions=meter:7,output:2");
        flow(&bridges, "br0", "priority=1,actions=output:2");
        for (to, n) in [(1, 0), (1, 1), (1, 2), (2, 3)] {
            assert!(one.inject_bytes(&frame(to, 0, n)));
        }
        // The first of the meter's has passed, and the one that goes by none.
        two.take_within(LONG).expect("a frame comes through");
        two.take_within(LONG).expect("a frame comes through");
        let ask = |meter, limit| ask(&bridges, Meters { meter, limit });
        let all = ask(None, 1).unwrap();
        assert_eq!((all.total, all.meters.len()), (2, 1));
        let seven = &all.meters[0];
        assert_eq!((seven.meter, seven.packets, seven.users, &*seven.bands), (7, 3, 1, &[2][..]));
        assert!(seven.is.starts_with("meter=7 ") && seven.is.contains("rate=1"), "{}", seven.is);
        assert!(Meters::text(&all).ends_with("1 of 2 meters\n"));
        assert_eq!(ask(Some(9), 9).unwrap().meters[0].meter, 9);
        assert_eq!(ask(Some(8), 9).unwrap_err(), "there is no meter 8");
        bridges.stop();
    }
}
