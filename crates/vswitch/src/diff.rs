//! From what the switch has to what the database asks for: steps in the order in which they are done.
//!
//! What goes, goes before anything comes, so that a name or number can pass from one to the other. Mirrors and controllers
//! come last: a controller that connects sees the ports.
//!
//! Holds true: after all steps were done, there are none (tested by random changes).

use crate::actual::{Actual, ActualBridge};
use crate::desired::bridge::{Bridge, BridgeSettings};
use crate::desired::controller::ControllerSettings;
use crate::desired::datapath::{Policies, ZoneLimits};
use crate::desired::interface::{Interface, InterfaceSettings};
use crate::desired::mirror::MirrorSettings;
use crate::desired::port::{PortSettings, Vlan};
use crate::desired::{Desired, port::Port};
use std::collections::{BTreeMap, BTreeSet};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Timeouts of connections by zone.
    Timeouts(Policies),
    /// Limits on connections by zone.
    ZoneLimits(ZoneLimits),
    /// Mirrors and controllers of a bridge change; first, if some of them go.
    Mirrors(String, Vec<MirrorSettings>),
    /// An interface goes.
    RemoveInterface(String, String),
    /// A port goes.
    RemovePort(String, String),
    /// A bridge goes.
    RemoveBridge(String),
    /// A bridge comes.
    AddBridge(BridgeSettings),
    /// A bridge changes.
    SetBridge(BridgeSettings),
    /// A port will be so when its interface comes.
    PreparePort(String, PortSettings),
    /// An interface comes.
    AddInterface(String, Opening),
    /// An interface changes.
    SetInterface(String, InterfaceSettings),
    /// A port changes.
    SetPort(String, PortSettings),
    /// A bridge's controllers.
    Controllers(String, Vec<ControllerSettings>),
}

impl Step {
    /// Interfaces come or go.
    pub(crate) fn moves_interfaces(&self) -> bool {
        matches!(self, Step::AddInterface(..) | Step::RemoveInterface(..) | Step::RemoveBridge(_))
    }
}

/// An interface that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// What the switch is told.
    pub settings: InterfaceSettings,
    /// The number that it must have.
    pub fixed: Option<u32>,
    /// The number that it asks for.
    pub request: Option<u32>,
    /// The number that it had.
    pub last: Option<u32>,
}

/// A bridge that the switch is to have, and what it has.
struct Pair<'a> {
    bridge: &'a Bridge,
    has: Option<&'a ActualBridge>,
    /// Ports that are not refused.
    ports: BTreeMap<&'a str, &'a Port>,
    /// Their interfaces that are not.
    interfaces: BTreeMap<&'a str, &'a Interface>,
    /// Interfaces that go, some to come again.
    gone: BTreeSet<String>,
}

impl<'a> Pair<'a> {
    fn new(bridge: &'a Bridge, actual: &'a Actual) -> Pair<'a> {
        let ports: BTreeMap<&str, &Port> = bridge
            .ports
            .iter()
            .filter(|(_, port)| port.notes.refused().is_none())
            .map(|(name, port)| (name.as_str(), &**port))
            .collect();
        let interfaces = ports
            .values()
            .flat_map(|port| &port.interfaces)
            .filter(|(_, interface)| interface.notes.refused().is_none())
            .map(|(name, interface)| (name.as_str(), interface))
            .collect();
        let has = actual.bridges.get(&bridge.settings.name);
        Pair { bridge, has, ports, interfaces, gone: BTreeSet::new() }
    }
}

/// The steps.
pub fn steps(desired: &Desired, actual: &Actual) -> Vec<Step> {
    let mut steps = Vec::new();
    // First: a bridge that comes has them.
    let timeouts = desired.timeouts();
    if timeouts != actual.timeouts {
        steps.push(Step::Timeouts(timeouts));
    }
    let limits = desired.zone_limits();
    if limits != actual.zone_limits {
        steps.push(Step::ZoneLimits(limits));
    }
    let wanted = |bridge: &&Bridge| bridge.notes.refused().is_none();
    let mut pairs: Vec<Pair<'_>> =
        desired.bridges.values().filter(wanted).map(|one| Pair::new(one, actual)).collect();
    pairs.iter_mut().for_each(|pair| going(pair, &mut steps));
    for name in actual.bridges.keys() {
        if desired.bridges.get(name).filter(wanted).is_none() {
            steps.push(Step::RemoveBridge(name.clone()));
        }
    }
    for Pair { bridge, has, .. } in &pairs {
        match has {
            None => steps.push(Step::AddBridge(bridge.settings.clone())),
            Some(has) if has.settings != bridge.settings => {
                steps.push(Step::SetBridge(bridge.settings.clone()));
            }
            Some(_) => {}
        }
    }
    pairs.iter().for_each(|pair| coming(pair, &mut steps));
    for Pair { bridge, has, .. } in &pairs {
        let name = &bridge.settings.name;
        let mirrors: Vec<_> = bridge.mirrors.iter().map(|one| one.settings.clone()).collect();
        if has.map_or(&[][..], |has| &has.mirrors) != mirrors {
            steps.push(Step::Mirrors(name.clone(), mirrors));
        }
        let controllers: Vec<_> =
            bridge.controllers.iter().map(|one| one.settings.clone()).collect();
        if has.map_or(&[][..], |has| &has.controllers) != controllers {
            steps.push(Step::Controllers(name.clone(), controllers));
        }
    }
    steps
}

/// What a bridge has and is not to have.
fn going(pair: &mut Pair<'_>, steps: &mut Vec<Step>) {
    let Some(has) = pair.has else { return };
    let name = &pair.bridge.settings.name;
    // Mirrors that go or change may name ports that go.
    let stays = |old: &&MirrorSettings| pair.bridge.mirrors.iter().any(|new| new.settings == **old);
    let kept: Vec<MirrorSettings> = has.mirrors.iter().filter(stays).cloned().collect();
    if kept != has.mirrors {
        steps.push(Step::Mirrors(name.clone(), kept));
    }
    for (own, now) in &has.interfaces {
        let stays = pair.interfaces.get(own.as_str()).is_some_and(|wanted| {
            let moves = wanted.fixed(name).is_none()
                && wanted.request.is_some_and(|request| request != now.number)
                && wanted.request != now.request;
            !moves && !wanted.settings.must_reopen(&now.settings)
        });
        if !stays {
            steps.push(Step::RemoveInterface(name.clone(), own.clone()));
            pair.gone.insert(own.clone());
        }
    }
    for port in has.ports.keys().filter(|port| !pair.ports.contains_key(port.as_str())) {
        steps.push(Step::RemovePort(name.clone(), port.clone()));
    }
}

/// What a bridge is to have and has not.
fn coming(pair: &Pair<'_>, steps: &mut Vec<Step>) {
    let name = &pair.bridge.settings.name;
    let mut openings = Vec::new();
    let mut changes = Vec::new();
    for (own, interface) in &pair.interfaces {
        let now = pair.has.and_then(|has| has.interfaces.get(*own));
        match now.filter(|_| !pair.gone.contains(*own)) {
            None => openings.push(Opening {
                settings: interface.settings.clone(),
                fixed: interface.fixed(name),
                request: interface.request,
                last: interface.last,
            }),
            Some(now) if now.settings != interface.settings => {
                changes.push(Step::SetInterface(name.clone(), interface.settings.clone()));
            }
            Some(_) => {}
        }
    }
    let opened = |port: &&&Port| {
        let settings = &port.settings;
        let asks =
            settings.vlan != Vlan::default() || settings.protected || settings.bond.is_some();
        asks && openings.iter().any(|one| port.interfaces.contains_key(&one.settings.name))
    };
    let prepared = pair.ports.values().filter(opened);
    steps.extend(prepared.map(|port| Step::PreparePort(name.clone(), port.settings.clone())));
    // Who asks for a number comes before those who had one, and these before those who take any.
    openings.sort_by_key(|one| (one.fixed.is_none(), one.request.is_none(), one.last.is_none()));
    steps.extend(openings.into_iter().map(|opening| Step::AddInterface(name.clone(), opening)));
    steps.append(&mut changes);
    for (own, port) in &pair.ports {
        let now = pair.has.and_then(|has| has.ports.get(*own));
        let reopens = port.interfaces.keys().any(|name| pair.gone.contains(name));
        if reopens || now != Some(&port.settings) {
            steps.push(Step::SetPort(name.clone(), port.settings.clone()));
        }
    }
}
