//! `save`: what runs, as files that start it again: flow entries, groups and meters in `ovs-ofctl`'s words, and a
//! configuration.
//!
//! A file of entries fills the first bridge that a configuration has; those of others are lines of the configuration itself. One
//! bridge alone is saved if it is named. What files cannot say is told.

use crate::bridges::Bridge;
use crate::config::written::{self, Changing};
use crate::program::again;
use crate::program::entries::Entries;
use crate::protocol::Reply;
use crate::role::Role;
use crate::sync::lock;
use crate::verb::{At, Verb};
use of_pipeline::Agent;
use openflow::syntax::{self, Context, SyntaxError};
use openflow::{
    Action, Bucket, BucketId, FlowMod, GroupId, GroupMod, GroupModCommand, MeterId, MeterMod,
    MeterModCommand, SwitchConfig, Version,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What stands for a setting that is not shown.
const SECRET: &str = "...";

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Save {}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The bridge whose entries these are.
    pub bridge: String,
    /// A configuration for `run`, without the files of entries.
    pub configuration: String,
    /// Flow entries, a line each.
    pub flows: Vec<String>,
    /// Groups, likewise, each behind those that it names.
    pub groups: Vec<String>,
    /// Meters, likewise.
    pub meters: Vec<String>,
    /// What none of this says, a line each.
    pub left_out: Vec<String>,
}

impl Verb for Save {
    const NAME: &'static str = "save";
    const ABOUT: &'static str = "What runs, as files that start it again";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridges = at.bridges()?;
        let bridge = at.bridge()?;
        let reload = at.reload.ok_or(
            "this process has no configuration file: a database says what it is, and outlives it",
        )?;
        let all = match at.named() {
            Some(named) => vec![named.clone()],
            None => bridges.all(),
        };
        let mut setup = bridges.setup();
        setup.retain(|one| all.iter().any(|bridge| bridge.name() == one.bridge.name));
        let mut left_out = Vec::new();
        for one in &all {
            let Some(openflow) = one.openflow() else { return Err(runs_p4(one)) };
            // It asks the agent, too.
            let id = one.status().datapath_id;
            let agent = lock(&openflow.agent);
            let another = one.name() != bridge.name();
            if another {
                left_out_of_another(one, &mut left_out);
            }
            left_out_of(one, &agent, &mut left_out);
            let held = another.then(|| Held::of(&agent));
            drop(agent);
            let setup = setup.iter_mut().find(|setup| setup.bridge.name == one.name());
            if let Some(setup) = setup {
                setup.bridge.datapath_id = setup.bridge.datapath_id.or(id);
                // Files of entries are the first bridge's.
                if let Some(held) = held {
                    setup.entries = held.lines()?;
                }
            }
        }
        let services = service_lines(&bridge, reload.given().services(), &mut left_out);
        let changing = Changing { queues: queues(&bridge, &mut left_out), services };
        let written = reload.given().written(&setup, changing)?;
        left_out.extend(written.left_out);
        let openflow = bridge.openflow().ok_or_else(|| runs_p4(&bridge))?;
        let held = Held::of(&lock(&openflow.agent));
        let Entries { meters, groups, flows, .. } = held.lines()?;
        Ok(Reply::Answer(Answer {
            bridge: bridge.name().to_owned(),
            configuration: written.text,
            flows,
            groups,
            meters,
            left_out,
        }))
    }

    /// Settings of services may be keys.
    fn role(&self) -> Role {
        Role::Admin
    }

    fn text(answer: &Answer) -> String {
        let (flows, groups) = (answer.flows.len(), answer.groups.len());
        let mut out = format!(
            "{flows} flow entries, {groups} groups and {} meters of bridge {}\n",
            answer.meters.len(),
            answer.bridge
        );
        for line in &answer.left_out {
            // Writing to a string does not fail.
            let _ = writeln!(out, "! {line}");
        }
        out
    }
}

fn runs_p4(bridge: &Bridge) -> String {
    format!(
        "bridge {:?} runs a P4 program, whose entries cannot be saved; `millrace p4 do table_dump TABLE` tells those of a \
         table",
        bridge.name()
    )
}

/// What a bridge holds. Text is made of it when others can have the agent again.
struct Held {
    flows: Vec<FlowMod>,
    groups: Vec<GroupMod>,
    meters: Vec<MeterMod>,
}

impl Held {
    fn of(agent: &Agent) -> Held {
        let flows = (0..=u8::MAX).flat_map(|table| agent.flows().iter(table));
        let flows = flows.filter(|(_, flow)| !flow.synchronised);
        let flows = flows.map(|(key, flow)| again::flow(key.table, flow)).collect();
        Held { flows, groups: groups(agent), meters: meters(agent) }
    }

    fn lines(mut self) -> Result<Entries, String> {
        self.flows.sort_by_key(|flow| (flow.table_id, Reverse(flow.priority)));
        let flows = self.flows.iter().map(|flow| syntax::print_flow_mod(flow, Version::V15));
        let groups = in_order(self.groups).into_iter();
        let groups = groups.map(|group| syntax::print_group_mod(&group, Version::V15));
        let meters = self.meters.iter().map(syntax::print_meter_mod);
        Ok(Entries {
            flows: readable(flows, |line, cx| syntax::parse_flow(line, cx).map(drop))?,
            groups: readable(groups, |line, cx| syntax::parse_group(line, cx).map(drop))?,
            meters: readable(meters, |line, cx| syntax::parse_meter(line, cx).map(drop))?,
            p4: Vec::new(),
        })
    }
}

/// What controllers have set beside entries, groups and meters.
fn left_out_of(bridge: &Bridge, agent: &Agent, out: &mut Vec<String>) {
    let ports = agent.configured_ports();
    let set = [
        (!ports.is_empty(), format!("port-mod of the ports {ports:?}")),
        (!agent.table_messages().is_empty(), "features and settings of tables".to_owned()),
        (agent.set_config() != SwitchConfig::DEFAULT, "set-config".to_owned()),
        (!agent.options().mappings.is_empty(), "the map of Geneve options".to_owned()),
    ];
    let set = set.into_iter().filter(|(is, _)| *is);
    out.extend(set.map(|(_, what)| format!("bridge {}: {what}", bridge.name())));
}

/// What a configuration says of the first bridge alone.
fn left_out_of_another(bridge: &Bridge, out: &mut Vec<String>) {
    let (name, switch) = (bridge.name(), bridge.switch());
    let queued = switch.ports().iter().any(|port| switch.queues(port.number).is_some());
    if queued {
        out.push(format!("bridge {name}: egress queues"));
    }
    if switch.services().elements().is_some_and(|elements| !elements.list().is_empty()) {
        out.push(format!("bridge {name}: services"));
    }
}

fn queues(bridge: &Bridge, left_out: &mut Vec<String>) -> Vec<String> {
    let switch = bridge.switch();
    let mut settings = Vec::new();
    for port in switch.ports() {
        let Some(queues) = switch.queues(port.number) else { continue };
        let config = queues.config();
        settings.extend(written::queues(port.number, config));
        if config.queues.iter().any(|queue| queue.dscp.is_some()) {
            left_out.push(format!("port {}: the DSCP of its queues", port.info.name));
        }
    }
    settings
}

/// Those that there are, as `--service` takes them. Settings that are not shown are those of the start.
pub(crate) fn service_lines(
    bridge: &Bridge,
    given: &[String],
    left_out: &mut Vec<String>,
) -> Vec<String> {
    let all = bridge.switch().services().elements().map(|elements| elements.list());
    let mut lines = Vec::new();
    for element in all.into_iter().flatten() {
        let (name, kind) = (&element.name, &element.kind);
        let settings = element.settings();
        let line = match settings.iter().any(|(_, value)| value == SECRET) {
            false => {
                let group = element.group.as_ref().map(|group| format!(" group={group}"));
                let settings = settings.iter().map(|(key, value)| format!(" {key}={value}"));
                Some([format!("{name} {kind}")].into_iter().chain(group).chain(settings).collect())
            }
            true => {
                let is = |line: &&String| {
                    let mut words = line.split_whitespace();
                    words.next() == Some(name) && words.next() == Some(kind)
                };
                given.iter().find(is).cloned()
            }
        };
        match line {
            Some(line) => lines.push(line),
            None => left_out.push(format!("service {name}: its key is known to nobody but it")),
        }
    }
    lines
}

fn groups(agent: &Agent) -> Vec<GroupMod> {
    let add = |(id, entry): (u32, &of_pipeline::group_table::GroupEntry)| GroupMod {
        command: GroupModCommand::Add,
        group_type: entry.group_type,
        group_id: GroupId(id),
        command_bucket: BucketId::ALL,
        selection: entry.selection.clone(),
        buckets: entry.buckets.clone(),
    };
    agent.groups().iter().map(add).collect()
}

fn meters(agent: &Agent) -> Vec<MeterMod> {
    let add = |(id, entry): (u32, &of_pipeline::meter_table::MeterEntry)| MeterMod {
        command: MeterModCommand::Add,
        flags: entry.flags,
        meter_id: MeterId(id),
        bands: entry.bands.clone(),
    };
    agent.meters().iter().map(add).collect()
}

/// Each behind those that it names: one that is not there yet is refused. No group leads to itself, but for one that watches
/// itself.
fn in_order(groups: Vec<GroupMod>) -> Vec<GroupMod> {
    fn named(bucket: &Bucket) -> impl Iterator<Item = u32> {
        let actions = Action::flat(&bucket.actions).filter_map(|action| match action {
            Action::Group(id) => Some(id.0),
            _ => None,
        });
        actions.chain(Some(bucket.watch_group.0))
    }
    let mut left: BTreeMap<u32, GroupMod> =
        groups.into_iter().map(|group| (group.group_id.0, group)).collect();
    let mut out = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let free: BTreeSet<u32> = left
            .iter()
            .filter(|(id, group)| {
                let waits = |other: u32| other != **id && left.contains_key(&other);
                !group.buckets.iter().flat_map(named).any(waits)
            })
            .map(|(id, _)| *id)
            .collect();
        // What is in no order comes as it is numbered.
        let all = free.is_empty();
        let (now, later) = left.into_iter().partition(|(id, _)| all || free.contains(id));
        out.extend(BTreeMap::into_values(now));
        left = later;
    }
    out
}

/// The lines, if each can be read again.
fn readable(
    lines: impl Iterator<Item = String>,
    read: impl Fn(&str, &Context<'_>) -> Result<(), SyntaxError>,
) -> Result<Vec<String>, String> {
    let check = |line: String| {
        let outcome = syntax::in_a_version(|version| read(&line, &Context::new(version)));
        outcome.map_err(|error| format!("{line}: it cannot be saved: {error}"))?;
        Ok(line)
    };
    lines.map(check).collect()
}
