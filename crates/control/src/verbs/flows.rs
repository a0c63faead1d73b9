//! `flows`: flow entries with their counters, those that a filter chooses, in an order.

use crate::bridges::Bridge;
use crate::protocol::Reply;
use crate::sync::lock;
use crate::verb::{At, Verb};
use of_pipeline::flow_table::{Filter, Flow, FlowKey};
use openflow::syntax::{self, Context};
use openflow::{FlowMod, PortNo, TableId, Version};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt::Write as _;
use switch::{CounterValue, Switch};

/// Entries that are told, unless the question says otherwise.
pub const LIMIT: usize = 1000;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flows {
    /// Which, as `ovs-ofctl dump-flows` takes it: `table=0,ip,nw_dst=10.0.0.0/8`. Without it all.
    pub filter: String,
    /// In which order.
    pub sort: Sort,
    /// So many at most.
    pub limit: usize,
}

impl Default for Flows {
    fn default() -> Flows {
        Flows { filter: String::new(), sort: Sort::default(), limit: LIMIT }
    }
}

/// In which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// By table, then the highest priority first.
    #[default]
    Table,
    /// Those with most packets first.
    Packets,
    /// Those with most bytes first.
    Bytes,
    /// Those that a packet hit last first; those that none ever hit last.
    Recent,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Entries that the filter chooses.
    pub chosen: usize,
    /// Entries of all tables.
    pub total: usize,
    /// The first of those that were chosen.
    pub flows: Vec<One>,
}

/// An entry.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its number, which no other one has while it is there.
    pub id: u32,
    /// Its table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Its cookie, in hexadecimal.
    pub cookie: String,
    /// Packets that hit it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds since it was added.
    pub age_seconds: u64,
    /// Seconds since the last packet; none if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u64>,
    /// It goes after so many seconds without a packet; 0 for never.
    pub idle_timeout: u16,
    /// It goes after so many seconds; 0 for never.
    pub hard_timeout: u16,
    /// What it matches, in `ovs-ofctl`'s words; empty for all packets.
    #[serde(rename = "match")]
    pub matching: String,
    /// What it does.
    pub actions: String,
}

impl Verb for Flows {
    const NAME: &'static str = "flows";
    const ABOUT: &'static str = "Flow entries with their counters";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridge = at.bridge()?;
        let Some(openflow) = bridge.openflow() else {
            return Err(format!(
                "bridge {:?} runs a P4 program; `millrace p4 do table_dump TABLE` tells its entries",
                bridge.name()
            ));
        };
        let ports = bridge.switch().ports();
        let named = |name: &str| {
            let port = ports.iter().find(|port| port.info.name == name)?;
            Some(PortNo(port.number))
        };
        let context = Context { version: Version::V15, ports: &named };
        let wanted = syntax::parse_filter(&self.filter, &context);
        let wanted: FlowMod = wanted.map_err(|error| format!("{}: {error}", self.filter))?;
        let filter = Filter {
            table: (wanted.table_id != TableId::ALL).then_some(wanted.table_id.0),
            matching: &wanted.matching,
            cookie: wanted.cookie,
            cookie_mask: wanted.cookie_mask,
            out_port: wanted.out_port,
            out_group: wanted.out_group,
        };
        let now_ns = bridge.switch().now_ns();
        let (mut chosen, total) = {
            let agent = lock(&openflow.agent);
            let chosen = collected(bridge.switch(), agent.flows().select(&filter));
            (chosen, agent.flows().total().0)
        };
        let count = chosen.len();
        ordered(&mut chosen, self.sort, self.limit);
        let flows = told(&chosen, |key| lock(&openflow.agent).flows().get(key).cloned(), now_ns);
        Ok(Reply::Answer(Answer { flows, chosen: count, total }))
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{:>5} {:>8} {:>12} {:>14} {:>7}  {:<40} actions",
            "table", "priority", "packets", "bytes", "idle", "match"
        );
        for one in &answer.flows {
            let idle = one.idle_seconds.map_or_else(|| "-".to_owned(), |s| format!("{s} s"));
            let matching = if one.matching.is_empty() { "*" } else { &one.matching };
            let _ = writeln!(
                out,
                "{:>5} {:>8} {:>12} {:>14} {idle:>7}  {matching:<40} {}",
                one.table, one.priority, one.packets, one.bytes, one.actions
            );
        }
        out.push_str(&answer.remark());
        out
    }
}

/// The entries of a bridge that packets have hit most, so many at most; none of a P4 program.
pub(crate) fn most_used(bridge: &Bridge, most: usize) -> Vec<One> {
    let Some(openflow) = bridge.openflow() else { return Vec::new() };
    let now_ns = bridge.switch().now_ns();
    let mut chosen = {
        let agent = lock(&openflow.agent);
        let tables = 0..u8::try_from(agent.flows().tables()).unwrap_or(u8::MAX);
        collected(bridge.switch(), tables.flat_map(|table| agent.flows().iter(table)))
    };
    ordered(&mut chosen, Sort::Packets, most);
    told(&chosen, |key| lock(&openflow.agent).flows().get(key).cloned(), now_ns)
}

/// What an entry is put in order by. It is taken while nothing changes; orders are made while entries do.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    key: FlowKey,
    priority: u16,
    created_ns: u64,
    counted: CounterValue,
}

fn collected<'a>(switch: &Switch, flows: impl Iterator<Item = (FlowKey, &'a Flow)>) -> Vec<Chosen> {
    let counters = switch.counters();
    let one = |(key, flow): (FlowKey, &Flow)| Chosen {
        key,
        priority: flow.priority,
        created_ns: flow.created_ns,
        counted: counters.read(key.id).unwrap_or_default(),
    };
    flows.map(one).collect()
}

/// The first ones in an order. Those that are alike come as they are in their tables, so that the same ones are told each time.
fn ordered(chosen: &mut Vec<Chosen>, sort: Sort, most: usize) {
    let rank = |one: &Chosen| {
        let by = match sort {
            Sort::Table => (u64::from(one.key.table), u64::from(u16::MAX - one.priority)),
            Sort::Packets => (u64::MAX - one.counted.packets, 0),
            Sort::Bytes => (u64::MAX - one.counted.bytes, 0),
            Sort::Recent => (one.counted.last_used_ns.map_or(u64::MAX, |ns| u64::MAX - 1 - ns), 0),
        };
        (by, one.key.table, Reverse(one.priority), one.key.id)
    };
    if chosen.len() > most {
        chosen.select_nth_unstable_by_key(most, rank);
        chosen.truncate(most);
    }
    chosen.sort_unstable_by_key(rank);
}

/// Those that are still there: each is looked up anew, and printed while nobody waits.
fn told(chosen: &[Chosen], find: impl Fn(FlowKey) -> Option<Flow>, now_ns: u64) -> Vec<One> {
    let one = |chosen: &Chosen| {
        let flow = find(chosen.key)?;
        // Another entry may have its number by now.
        let same = (flow.priority, flow.created_ns) == (chosen.priority, chosen.created_ns);
        same.then(|| one(chosen.key, &flow, &chosen.counted, now_ns))
    };
    chosen.iter().filter_map(one).collect()
}

impl Answer {
    /// What is not told, as a line; empty if all is.
    pub fn remark(&self) -> String {
        let (told, chosen, total) = (self.flows.len(), self.chosen, self.total);
        match (told < chosen, chosen < total) {
            (true, _) => format!("{told} of {chosen} entries; --limit N shows more\n"),
            (false, true) => format!("{chosen} of {total} entries\n"),
            (false, false) => String::new(),
        }
    }
}

fn one(key: FlowKey, flow: &Flow, counted: &CounterValue, now_ns: u64) -> One {
    let seconds = |since_ns: u64| now_ns.saturating_sub(since_ns) / 1_000_000_000;
    // The line of `dump-flows` has actions behind the match.
    let line = syntax::print_flow(&flow.stats(TableId(key.table)), Version::V15, false);
    let actions = line.split_once("actions=").map_or("", |(_, actions)| actions);
    One {
        id: key.id,
        table: key.table,
        priority: flow.priority,
        cookie: format!("{:#x}", flow.cookie),
        packets: counted.packets,
        bytes: counted.bytes,
        age_seconds: flow.age_ns(now_ns) / 1_000_000_000,
        idle_seconds: counted.last_used_ns.map(seconds),
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        matching: syntax::print_match(&flow.matching, Version::V15),
        actions: actions.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::BridgeConfig;
    use crate::bridges::bed::{LONG, ask, bridges, flow, frame, memory};
    use switch::EngineKind;

    fn cookies(answer: &Answer) -> Vec<&str> {
        answer.flows.iter().map(|one| one.cookie.as_str()).collect()
    }

    #[test]
    fn entries_are_chosen_and_ordered() {
        let bridges = bridges(1, EngineKind::default());
        bridges.add(BridgeConfig::named("br0")).unwrap();
        let (one, two) = (memory(&bridges, "br0", "flows-a"), memory(&bridges, "br0", "flows-b"));
        flow(&bridges, "br0", "cookie=1,priority=5,dl_dst=02:00:00:00:00:01,actions=output:2");
        flow(&bridges, "br0", "cookie=2,priority=9,dl_dst=02:00:00:00:00:02,actions=output:2");
        flow(&bridges, "br0", "cookie=3,table=1,ip,nw_dst=10.1.0.0/16,actions=drop");
        for (to, n) in [(1, 0), (2, 1), (2, 2)] {
            assert!(one.inject_bytes(&frame(to, 0, n)));
            two.take_within(LONG).expect("a frame comes through");
        }
        let all = ask(&bridges, Flows::default()).unwrap();
        assert_eq!(cookies(&all), ["0x2", "0x1", "0x3"]);
        assert_eq!((all.flows[0].packets, all.flows[0].bytes), (2, 120));
        assert_eq!(all.flows[0].matching, "dl_dst=02:00:00:00:00:02");
        assert_eq!(all.flows[0].actions, "output:2");
        assert!(all.flows[0].idle_seconds.is_some() && all.flows[2].idle_seconds.is_none());
        assert_eq!(all.remark(), "");
        let of =
            |filter: &str| ask(&bridges, Flows { filter: filter.to_owned(), ..Flows::default() });
        assert_eq!(cookies(&of("table=1").unwrap()), ["0x3"]);
        assert_eq!(cookies(&of("ip,nw_dst=10.1.0.0/16").unwrap()), ["0x3"]);
        assert_eq!(cookies(&of("cookie=2/-1").unwrap()), ["0x2"]);
        assert_eq!(cookies(&of("out_port=flows-b").unwrap()), ["0x2", "0x1"]);
        assert_eq!(of("table=1").unwrap().remark(), "1 of 3 entries\n");
        let sorted = |sort| ask(&bridges, Flows { sort, limit: 1, ..Flows::default() }).unwrap();
        for sort in [Sort::Packets, Sort::Bytes, Sort::Recent] {
            assert_eq!(cookies(&sorted(sort)), ["0x2"], "{sort:?}");
        }
        assert_eq!(sorted(Sort::Packets).remark(), "1 of 3 entries; --limit N shows more\n");
        let wrong = of("nw_dts=1.2.3.4").unwrap_err();
        assert!(wrong.starts_with("nw_dts=1.2.3.4: column 1: "), "{wrong}");
        bridges.stop();
    }

    /// Orders are made without the agent's lock: what goes or changes its number meanwhile is left.
    #[test]
    fn an_entry_that_goes_while_the_order_is_made_is_left() {
        let bridges = bridges(1, EngineKind::Interp);
        bridges.add(BridgeConfig::named("br0")).unwrap();
        for n in 1..=5 {
            flow(&bridges, "br0", &format!("cookie={n},priority={n},actions=drop"));
        }
        let bridge = bridges.bridge("br0").unwrap();
        let openflow = bridge.openflow().unwrap();
        let mut chosen = {
            let agent = openflow.agent();
            collected(bridge.switch(), agent.flows().iter(0))
        };
        ordered(&mut chosen, Sort::Table, 3);
        let priorities: Vec<u16> = chosen.iter().map(|one| one.priority).collect();
        assert_eq!(priorities, [5, 4, 3]);
        let find = |key| openflow.agent().flows().get(key).cloned();
        assert_eq!(told(&chosen, find, 0).len(), 3);
        let gone = |key: FlowKey| find(key).filter(|flow| flow.priority != 4);
        let others = |key: FlowKey| find(key).map(|flow| Flow { created_ns: 7, ..flow });
        let cookies: Vec<String> =
            told(&chosen, gone, 0).into_iter().map(|one| one.cookie).collect();
        assert_eq!(cookies, ["0x5", "0x3"]);
        assert!(told(&chosen, others, 0).is_empty());
        bridges.stop();
    }
}
