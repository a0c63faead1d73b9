//! Entries that a configuration has itself: meters, groups and flow entries, each a line as `ovs-ofctl` takes it.
//!
//! In: the lines that there were, and those that there are to be. Out: requests that make the one the other, done as a whole or
//! not at all (a [bundle](of_pipeline::bundle)). What controllers have added stays. Where a line adds what is there already, it
//! takes the other's place, and the other comes back when the line goes with the next configuration: so a configuration that is
//! rolled back leaves entries as they were.
//!
//! At a start lines add what is missing: what was kept, taken over or read from files stays as it is.
//!
//! Checked by: the tests below; `reload`'s.

use super::again;
use super::tables::Told;
use crate::takeover::wire::in_its_dialect;
use of_pipeline::Agent;
use openflow::syntax::{self, Context};
use openflow::{
    BucketId, FlowMod, FlowModCommand, GroupMod, GroupModCommand, Message, MeterMod,
    MeterModCommand, PortNo, TableId,
};
use std::collections::BTreeMap;

/// The lines of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Meters.
    pub meters: Vec<String>,
    /// Groups, each behind those that it names.
    pub groups: Vec<String>,
    /// Flow entries.
    pub flows: Vec<String>,
    /// What there is to be of the P4 program: lines as `millrace p4 do` takes them.
    pub p4: Vec<String>,
}

impl Entries {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        *self == Entries::default()
    }

    /// There are some of OpenFlow's tables.
    pub(crate) fn of_openflow(&self) -> bool {
        self.all().next().is_some()
    }

    /// Every line of OpenFlow's tables with its kind, in the order in which they are added.
    fn all(&self) -> impl Iterator<Item = (Told, &str)> {
        let kinds =
            [(Told::Meter, &self.meters), (Told::Group, &self.groups), (Told::Flow, &self.flows)];
        kinds
            .into_iter()
            .flat_map(|(kind, lines)| lines.iter().map(move |line| (kind, line.as_str())))
    }

    fn has(&self, wanted: (Told, &str)) -> bool {
        self.all().any(|one| one == wanted)
    }

    /// Those that the other does not have, a line each: kind and text.
    pub(crate) fn beyond(&self, other: &Entries) -> Vec<(&'static str, String)> {
        let mine = self.all().filter(|one| !other.has(*one));
        let of_p4 = self.p4.iter().filter(|line| !other.p4.contains(line));
        mine.map(|(kind, line)| (word(kind), line.to_owned()))
            .chain(of_p4.map(|line| ("entry", line.clone())))
            .collect()
    }

    /// Every line can be read, and none is there twice. Names of ports may be of any.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut seen: Vec<Key> = Vec::new();
        for (kind, line) in self.all() {
            let message = read(kind, line, &|_| Some(PortNo(1)))?;
            // Of entries that are alike but for a port's name the switch itself finds out.
            let key = Key::of(&message);
            if matches!(key, Key::Flow(..)) {
                continue;
            }
            if seen.contains(&key) {
                return Err(format!("{} {line:?}: its number is there twice", word(kind)));
            }
            seen.push(key);
        }
        Ok(())
    }
}

fn word(kind: Told) -> &'static str {
    match kind {
        Told::Meter => "meter",
        Told::Group => "group",
        Told::Flow => "flow",
    }
}

/// What a message adds, told from others.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Meter(u32),
    Group(u32),
    Flow(u8, u16, Box<openflow::Match>),
    None,
}

impl Key {
    fn of(message: &Message) -> Key {
        match message {
            Message::MeterMod(meter) => Key::Meter(meter.meter_id.0),
            Message::GroupMod(group) => Key::Group(group.group_id.0),
            Message::FlowMod(flow) => {
                // 1.0's adds mean the first table by all.
                let table = if flow.table_id == TableId::ALL { 0 } else { flow.table_id.0 };
                Key::Flow(table, flow.priority, Box::new(flow.matching.clone()))
            }
            _ => Key::None,
        }
    }

    /// Messages that make what is there under the key; none if nothing is.
    fn there(&self, agent: &Agent) -> Option<Vec<Message>> {
        match self {
            Key::Meter(id) => {
                let meter = agent.meters().get(*id)?;
                Some(vec![again::meter(MeterModCommand::Modify, *id, meter)])
            }
            Key::Group(id) => {
                let mut messages = Vec::new();
                let group = agent.groups().get(*id)?;
                // Nothing is encoded, so nothing is too long.
                let done = again::group(*id, group, &mut |message| {
                    messages.push(message);
                    Ok(())
                });
                done.ok().map(|()| messages)
            }
            Key::Flow(table, priority, matching) => {
                let key = agent.flows().find_strict(*table, *priority, matching)?;
                let flow = agent.flows().get(key)?;
                Some(vec![in_its_dialect(Message::FlowMod(again::flow(*table, flow)))])
            }
            Key::None => None,
        }
    }
}

/// A line, in the version that has all its words.
fn read(kind: Told, line: &str, ports: &dyn Fn(&str) -> Option<PortNo>) -> Result<Message, String> {
    let read = |version| {
        let context = Context { version, ports };
        Ok(match kind {
            Told::Meter => Message::MeterMod(syntax::parse_meter(line, &context)?),
            Told::Group => Message::GroupMod(syntax::parse_group(line, &context)?),
            Told::Flow => Message::FlowMod(syntax::parse_flow(line, &context)?),
        })
    };
    let message = syntax::in_a_version(read);
    let message = message.map_err(|e| format!("{} {line:?}: {e}", word(kind)))?.1;
    match &message {
        Message::FlowMod(FlowMod { command, .. }) if *command != FlowModCommand::Add => {
            Err(format!("flow {line:?}: a configuration has entries, and no commands"))
        }
        _ => Ok(message),
    }
}

/// Takes away what a line has added.
fn removes(message: &Message) -> Option<Message> {
    Some(match message {
        Message::MeterMod(meter) => Message::MeterMod(MeterMod {
            command: MeterModCommand::Delete,
            bands: Vec::new(),
            ..meter.clone()
        }),
        Message::GroupMod(group) => Message::GroupMod(GroupMod {
            command: GroupModCommand::Delete,
            command_bucket: BucketId::ALL,
            buckets: Vec::new(),
            ..group.clone()
        }),
        Message::FlowMod(flow) => Message::FlowMod(FlowMod {
            command: FlowModCommand::DeleteStrict,
            cookie_mask: 0,
            instructions: Default::default(),
            ..flow.clone()
        }),
        _ => return None,
    })
}

/// Makes what is there already what a line says.
fn modifies(message: Message) -> Message {
    match message {
        Message::MeterMod(meter) => {
            Message::MeterMod(MeterMod { command: MeterModCommand::Modify, ..meter })
        }
        Message::GroupMod(group) => {
            Message::GroupMod(GroupMod { command: GroupModCommand::Modify, ..group })
        }
        // An add takes the place of the same.
        other => other,
    }
}

/// The lines of a bridge that runs.
#[derive(Default)]
pub(crate) struct Inline {
    entries: Entries,
    /// What each line has added, as ports were called then.
    added: BTreeMap<(u8, String), Message>,
    /// What lines of the last configuration took the place of: messages that make it again.
    replaced: BTreeMap<(u8, String), Vec<Message>>,
}

fn place((kind, line): (Told, &str)) -> (u8, String) {
    (kind as u8, line.to_owned())
}

impl Inline {
    /// What there is.
    pub(crate) fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Makes the entries of an agent these, all of them or nothing. `missing`: what is there under a line's key stays.
    pub(crate) fn set(
        &mut self,
        agent: &mut Agent,
        ports: &dyn Fn(&str) -> Option<PortNo>,
        to: &Entries,
        missing: bool,
    ) -> Result<(), String> {
        let (mut requests, mut lines) = (Vec::new(), Vec::new());
        let (mut added, mut replaced) = (self.added.clone(), BTreeMap::new());
        let mut come: Vec<Key> = Vec::new();
        let gone: Vec<_> = self.entries.all().filter(|one| !to.has(*one)).collect();
        let leaves: Vec<Key> =
            gone.iter().filter_map(|one| self.added.get(&place(*one))).map(Key::of).collect();
        for one in to.all().filter(|one| !self.entries.has(*one)) {
            let message = read(one.0, one.1, ports)?;
            let key = Key::of(&message);
            let there = key.there(agent);
            added.insert(place(one), message.clone());
            come.push(key.clone());
            match there {
                Some(_) if missing => continue,
                Some(there) => {
                    requests.push(modifies(message));
                    // Another line of the configuration is no one else's entry.
                    if !leaves.contains(&key) {
                        replaced.insert(place(one), there);
                    }
                }
                None => requests.push(message),
            }
            lines.push(format!("{} {:?}", word(one.0), one.1));
        }
        // Flow entries first: a group takes those that lead to it along.
        for one in gone.iter().rev() {
            let Some(message) = added.remove(&place(*one)) else { continue };
            if come.contains(&Key::of(&message)) {
                continue;
            }
            // A controller may have taken it away.
            if Key::of(&message).there(agent).is_none() {
                continue;
            }
            let again = self.replaced.get(&place(*one)).cloned();
            for request in again.unwrap_or_else(|| removes(&message).into_iter().collect()) {
                requests.push(request);
                lines.push(format!("{} {:?}, which goes", word(one.0), one.1));
            }
        }
        let done = agent.bundle(openflow::Version::V15, requests);
        done.map_err(|fault| {
            let line = lines.get(fault.at).map_or("entries", String::as_str);
            format!("{line}: {}", fault.refusal)
        })?;
        (self.entries, self.added, self.replaced) = (to.clone(), added, replaced);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tables::{self, tell};
    use switch::EngineKind;

    fn agent() -> Agent {
        let switch = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None).unwrap();
        tables::agent(&switch, Some(1)).unwrap()
    }

    fn entries(meters: &[&str], groups: &[&str], flows: &[&str]) -> Entries {
        let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Entries { meters: own(meters), groups: own(groups), flows: own(flows), p4: Vec::new() }
    }

    /// All that there is, cookies in front.
    fn has(agent: &Agent) -> Vec<String> {
        let flows = (0..=u8::MAX).flat_map(|table| agent.flows().iter(table));
        let mut all: Vec<String> = flows
            .map(|(_, flow)| {
                format!("{:#x} {} {:?}", flow.cookie, flow.priority, flow.instructions)
            })
            .collect();
        all.extend(
            agent.groups().iter().map(|(id, group)| format!("group {id} {:?}", group.buckets)),
        );
        all.extend(
            agent.meters().iter().map(|(id, meter)| format!("meter {id} {:?}", meter.bands)),
        );
        all.sort();
        all
    }

    const NOBODY: &dyn Fn(&str) -> Option<PortNo> = &|name| (name == "p7").then_some(PortNo(7));

    #[test]
    fn lines_come_change_and_go_and_what_controllers_added_stays() {
        let (mut agent, mut inline) = (agent(), Inline::default());
        tell(&mut agent, Told::Flow, "cookie=9,priority=9,actions=drop", NOBODY).unwrap();
        let alone = has(&agent);
        let first = entries(
            &["meter=1,pktps,bands=type=drop,rate=10"],
            &["group_id=1,type=all,bucket=output:1"],
            &[
                "cookie=1,priority=1,actions=group:1",
                "cookie=2,priority=2,in_port=p7,actions=output:2",
            ],
        );
        inline.set(&mut agent, NOBODY, &first, false).unwrap();
        let with_first = has(&agent);
        assert_eq!(with_first.len(), 5, "{with_first:?}");
        let second = entries(
            &[],
            &["group_id=1,type=all,bucket=output:3"],
            &[
                "cookie=1,priority=1,actions=group:1",
                "cookie=3,priority=2,in_port=p7,actions=output:5",
            ],
        );
        inline.set(&mut agent, NOBODY, &second, false).unwrap();
        let told = has(&agent);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told.iter().any(|one| one.starts_with("0x3 2 ")), "{told:?}");
        assert!(!told.iter().any(|one| one.starts_with("0x2 ")), "{told:?}");
        inline.set(&mut agent, NOBODY, &first, false).unwrap();
        assert_eq!(has(&agent), with_first);
        // The port of a line may have gone since.
        inline.set(&mut agent, &|_| None, &Entries::default(), false).unwrap();
        assert_eq!(has(&agent), alone);
        agent.switch().stop();
    }

    #[test]
    fn what_a_line_takes_the_place_of_comes_back() {
        let (mut agent, mut inline) = (agent(), Inline::default());
        for (kind, line) in [
            (Told::Meter, "meter=1,pktps,bands=type=drop,rate=10"),
            (Told::Group, "group_id=1,type=select,bucket=weight:5,output:1"),
            (Told::Flow, "cookie=9,priority=1,actions=mod_nw_dst:10.0.0.1,output:1"),
        ] {
            tell(&mut agent, kind, line, NOBODY).unwrap();
        }
        let before = has(&agent);
        let lines = entries(
            &["meter=1,pktps,bands=type=drop,rate=20"],
            &["group_id=1,type=all,bucket=output:3"],
            &["cookie=1,priority=1,actions=output:2"],
        );
        inline.set(&mut agent, NOBODY, &lines, false).unwrap();
        assert_ne!(has(&agent), before);
        inline.set(&mut agent, NOBODY, &Entries::default(), false).unwrap();
        assert_eq!(has(&agent), before);
        // At a start it stays.
        inline.set(&mut agent, NOBODY, &lines, true).unwrap();
        assert_eq!(has(&agent), before);
        agent.switch().stop();
    }

    #[test]
    fn a_line_that_is_refused_leaves_all_as_it_was() {
        let (mut agent, mut inline) = (agent(), Inline::default());
        let good = entries(&[], &[], &["cookie=1,priority=1,actions=output:2"]);
        inline.set(&mut agent, NOBODY, &good, false).unwrap();
        let before = has(&agent);
        let bad =
            entries(&[], &[], &["cookie=2,priority=2,actions=drop", "priority=3,actions=group:9"]);
        let why = inline.set(&mut agent, NOBODY, &bad, false).unwrap_err();
        assert!(why.starts_with("flow \"priority=3,actions=group:9\": "), "{why}");
        assert_eq!((has(&agent), inline.entries()), (before, &good));
        let why = entries(&[], &[], &["actions=outptu:1"]).check().unwrap_err();
        assert!(why.starts_with("flow \"actions=outptu:1\": "), "{why}");
        let why = entries(&[], &[], &["delete priority=1"]).check().unwrap_err();
        assert!(why.contains("a configuration has entries, and no commands"), "{why}");
        let twice = ["group_id=1,type=all", "group_id=1,type=all,bucket=output:1"];
        let why = entries(&[], &twice, &[]).check().unwrap_err();
        assert!(why.contains("its number is there twice"), "{why}");
        agent.switch().stop();
    }
}
