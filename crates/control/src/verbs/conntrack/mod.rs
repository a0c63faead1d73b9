//! `conntrack`: the connections that the switch knows, told or forgotten: those of OpenFlow's `ct`, of every service that keeps
//! connections, and the flows of balancers.
//!
//! | file | is |
//! |---|---|
//! | `filter` | which are wanted |
//! | `trackers` | who keeps them, and how they are walked |
//! | `row` | a connection as it is told |

mod filter;
mod row;
mod trackers;

use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use filter::{Filter, Said};
use serde::{Deserialize, Serialize};
use service::conntrack::Selection;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use switch::Switch;
use trackers::Tracker;

pub use row::{One, Side};

/// The question.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Conntrack {
    /// They are forgotten.
    pub flush: bool,
    /// Those of this zone.
    pub zone: Option<u16>,
    /// So many are told, at most.
    pub limit: usize,
    /// In this state: of TCP and SCTP, or `replied`, `unreplied`, `assured`, `half_open`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Of this protocol, by name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The opener is of this address or prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// The opener's packets go there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<String>,
    /// From this port, or to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// `ct_mark`: `VALUE` or `VALUE/MASK`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// Those of this tracker alone: `ct`, or a service by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// They are counted by this, and not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_by: Option<By>,
    /// From where an earlier answer has ended: its `next`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What connections are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Their zone.
    Zone,
    /// Their state.
    State,
    /// Their protocol.
    Proto,
    /// The tracker that knows them.
    Service,
    /// The backend that a balancer has given them.
    Backend,
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// They were forgotten.
    Flushed {
        /// So many.
        flushed: u64,
    },
    /// They are told.
    Known(Known),
}

/// What the switch knows.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Connections of all trackers.
    pub held: u64,
    /// Those of them that are half open.
    pub half_open: u64,
    /// Bytes that they take.
    pub memory_bytes: u64,
    /// What has happened in the tracker of `ct`.
    pub counters: BTreeMap<String, u64>,
    /// Who keeps connections. A balancer's flows are not among `held`.
    pub trackers: Vec<Held>,
    /// Some of them.
    pub connections: Vec<One>,
    /// How many there are of each, if they are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<Counted>,
    /// There may be more: what to say as `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Who keeps connections.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Held {
    /// `ct`, or a service's name.
    pub name: String,
    /// `ct`, or a service's kind.
    pub kind: String,
    /// Connections.
    pub held: u64,
    /// Those of them that are half open.
    pub half_open: u64,
    /// Bytes that they take.
    pub memory_bytes: u64,
}

/// Connections that have something in common.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counted {
    /// What.
    pub of: String,
    /// How many.
    pub connections: u64,
    /// Their packets, both ways, of those that are counted.
    pub packets: u64,
    /// Their octets, likewise.
    pub octets: u64,
}

impl Verb for Conntrack {
    const NAME: &'static str = "conntrack";
    const ABOUT: &'static str = "Connections of ct and of services: told, counted or forgotten";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let switch = at.switch()?;
        let trackers = self.trackers(switch)?;
        if self.flush {
            return self.flush(&trackers).map(|flushed| Reply::Answer(Answer::Flushed { flushed }));
        }
        let filter = Filter::read(self.said())?;
        let mut known = sizes(switch, &trackers);
        match self.count_by {
            Some(by) => known.counted = count(switch, &trackers, &filter, by),
            None => self.list(switch, &trackers, &filter, &mut known)?,
        }
        Ok(Reply::Answer(Answer::Known(known)))
    }

    fn change(&self) -> Option<Change> {
        let zone = self.zone.map_or_else(|| "all zones".to_owned(), |zone| format!("zone {zone}"));
        let of = self.service.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
        let text = zone + &of;
        self.flush.then_some(Change { kind: "conntrack", how: "delete", text })
    }

    fn text(answer: &Answer) -> String {
        match answer {
            Answer::Flushed { flushed } => format!("{flushed} connections forgotten\n"),
            Answer::Known(known) => print(known),
        }
    }
}

impl Conntrack {
    /// The trackers that are asked.
    fn trackers(&self, switch: &Switch) -> Result<Vec<Tracker>, String> {
        let mut all = Tracker::all(switch);
        if all.is_empty() {
            return Err("this switch tracks no connections: it runs a P4 program".to_owned());
        }
        if let Some(name) = &self.service {
            let names: Vec<String> = all.iter().map(|one| one.name().to_owned()).collect();
            all.retain(|one| one.name() == name);
            if all.is_empty() {
                return Err(format!(
                    "nothing named {name} keeps connections; there are {}",
                    names.join(", ")
                ));
            }
        }
        Ok(all)
    }

    fn said(&self) -> Said<'_> {
        Said {
            zone: self.zone,
            state: self.state.as_deref(),
            protocol: self.protocol.as_deref(),
            src: self.src.as_deref(),
            dst: self.dst.as_deref(),
            port: self.port,
            mark: self.mark.as_deref(),
        }
    }

    /// Forgets those of a zone, or all: of `ct` alone, unless a service is named.
    fn flush(&self, trackers: &[Tracker]) -> Result<u64, String> {
        let Said { zone: _, state, protocol, src, dst, port, mark } = self.said();
        if [state, protocol, src, dst, mark].iter().any(Option::is_some) || port.is_some() {
            return Err(
                "flush takes zone and service; ovs-ofctl ct-flush chooses by addresses".to_owned()
            );
        }
        let of_ct = |one: &&Tracker| self.service.is_some() || matches!(one, Tracker::Ct(_));
        let chosen = Selection::zone(self.zone);
        let balancer =
            trackers.iter().find(|one| one.kind() == "balancer" && self.service.is_some());
        if let Some(balancer) = balancer {
            return Err(format!(
                "{} is a balancer: `millrace service drain` moves its flows",
                balancer.name()
            ));
        }
        Ok(trackers.iter().filter(of_ct).map(|one| one.forget(&chosen) as u64).sum())
    }

    /// Those that are wanted, up to the limit.
    fn list(
        &self,
        switch: &Switch,
        trackers: &[Tracker],
        filter: &Filter,
        known: &mut Known,
    ) -> Result<(), String> {
        let begin = match &self.after {
            None => Place::default(),
            Some(text) => Place::read(text, trackers)?,
        };
        if self.limit == 0 {
            return Ok(());
        }
        for (nth, tracker) in trackers.iter().enumerate().skip(begin.tracker) {
            let backends = tracker.backends();
            let (mut from, mut skip) = match nth == begin.tracker {
                true => (begin.from, begin.skip),
                false => (0, 0),
            };
            loop {
                let (mut seen, mut told, mut more) = (0, skip, false);
                let next = tracker.slice(switch, from, &mut |connection, backend| {
                    if !filter.takes(&connection) {
                        return;
                    }
                    seen += 1;
                    if seen <= skip {
                        return;
                    }
                    if known.connections.len() == self.limit {
                        more = true;
                        return;
                    }
                    let backend = backend.map(|n| backend_name(&backends, n));
                    known.connections.push(One::of(tracker.name(), &connection, backend));
                    told = seen;
                });
                if more {
                    known.next = Some(format!("{}:{from}:{told}", tracker.name()));
                    return Ok(());
                }
                let Some(next) = next else { break };
                (from, skip) = (next, 0);
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

fn backend_name(names: &std::collections::HashMap<u16, String>, number: u16) -> String {
    names.get(&number).cloned().unwrap_or_else(|| number.to_string())
}

/// Where a list goes on: in a tracker, at a place, behind so many that are wanted.
#[derive(Debug, Default)]
struct Place {
    tracker: usize,
    from: usize,
    skip: usize,
}

impl Place {
    fn read(text: &str, trackers: &[Tracker]) -> Result<Place, String> {
        let mut parts = text.rsplitn(3, ':');
        let mut number = || parts.next().and_then(|part| part.parse().ok());
        let (skip, from): (Option<usize>, Option<usize>) = (number(), number());
        let tracker =
            parts.next().and_then(|name| trackers.iter().position(|one| one.name() == name));
        let place = || Some(Place { tracker: tracker?, from: from?, skip: skip? });
        place().ok_or_else(|| format!("after {text:?}: it is no `next` of an answer about these"))
    }
}

fn sizes(switch: &Switch, trackers: &[Tracker]) -> Known {
    let held = |one: &Tracker| {
        let (held, half_open, memory) = one.size();
        Held {
            name: one.name().to_owned(),
            kind: one.kind().to_owned(),
            held: held as u64,
            half_open: half_open as u64,
            memory_bytes: memory as u64,
        }
    };
    let trackers: Vec<Held> = trackers.iter().map(held).collect();
    let sum = |of: fn(&Held) -> u64| trackers.iter().map(of).sum::<u64>();
    let ct = trackers.iter().any(|one| one.name == trackers::CT);
    let counters = switch.services().connections().filter(|_| ct);
    let counters = counters.map(|connections| connections.counters());
    let counters = counters.iter().flat_map(|all| all.all().collect::<Vec<_>>());
    Known {
        held: sum(|one| one.held),
        half_open: sum(|one| one.half_open),
        memory_bytes: sum(|one| one.memory_bytes),
        counters: counters.map(|(name, n)| (name.to_string(), n)).collect(),
        trackers,
        ..Known::default()
    }
}

/// How many there are of each, the most first.
fn count(switch: &Switch, trackers: &[Tracker], filter: &Filter, by: By) -> Vec<Counted> {
    let mut counted: BTreeMap<String, Counted> = BTreeMap::new();
    for tracker in trackers {
        let backends = tracker.backends();
        let mut from = Some(0);
        while let Some(place) = from {
            from = tracker.slice(switch, place, &mut |connection, backend| {
                if !filter.takes(&connection) {
                    return;
                }
                let of = match by {
                    By::Zone => connection.original.zone.to_string(),
                    By::Proto => row::protocol(connection.original.protocol.0),
                    By::Service => tracker.name().to_owned(),
                    By::Backend => match backend {
                        Some(number) => {
                            format!("{}/{}", tracker.name(), backend_name(&backends, number))
                        }
                        None => "none".to_owned(),
                    },
                    By::State => row::state(&connection).unwrap_or_else(|| {
                        let replied = if connection.replied { "replied" } else { "unreplied" };
                        backend.map_or(replied, |_| "flow").to_owned()
                    }),
                };
                let one = counted.entry(of.clone()).or_insert(Counted { of, ..Counted::default() });
                let account = connection.account.unwrap_or_default();
                one.connections += 1;
                one.packets += account.packets.iter().sum::<u64>();
                one.octets += account.octets.iter().sum::<u64>();
            });
            std::thread::yield_now();
        }
    }
    let mut all: Vec<Counted> = counted.into_values().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.connections));
    all
}

fn print(known: &Known) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{} connections, {} of them half open, {} bytes",
        known.held, known.half_open, known.memory_bytes
    );
    for (name, n) in known.counters.iter().filter(|(_, n)| **n != 0) {
        let _ = writeln!(out, "  {name}={n}");
    }
    for Held { name, kind, held, .. } in
        known.trackers.iter().filter(|one| one.name != trackers::CT)
    {
        let _ = match kind.as_str() {
            "balancer" => writeln!(out, "service {name}: {kind}"),
            _ => writeln!(out, "service {name}: {kind}, {held} connections"),
        };
    }
    for Counted { of, connections, packets, octets } in &known.counted {
        let sums = match (packets, octets) {
            (0, 0) => String::new(),
            _ => format!(" packets={packets} octets={octets}"),
        };
        let _ = writeln!(out, "{connections:>9} {of}{sums}");
    }
    for connection in &known.connections {
        let _ = writeln!(out, "{}", connection.line());
    }
    if let Some(next) = &known.next {
        let _ = writeln!(out, "more: --after {next}");
    }
    out
}

#[cfg(test)]
mod tests;
