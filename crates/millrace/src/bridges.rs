//! `millrace bridge`, `port`, `stations`: bridges and their ports, shown and changed while packets pass.

use crate::cli::{
    BondCommand, BondOptions, BridgeCommand, BridgeOptions, MirrorCommand, MirrorOptions,
    NewBridge, PortCommand, PortOptions, StationsOptions,
};
use crate::show::show;
use control::bridges::Vlan;
use control::client::ask;
use control::failure::Failure;
use control::port_kinds;
use control::verbs::bond::Bonds;
use control::verbs::bridge::{Bridge, New};
use control::verbs::mirror::Mirrors;
use control::verbs::port::{Ports, number_of};
use control::verbs::stations::Stations;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `millrace bridge`.
pub(crate) fn bridge(options: BridgeOptions) -> Result<(), Failure> {
    let question = match options.command {
        None | Some(BridgeCommand::Show) => Bridge::default(),
        Some(BridgeCommand::Add(new)) => Bridge { add: Some(new.question()?), ..Bridge::default() },
        Some(BridgeCommand::Set(new)) => Bridge { set: Some(new.question()?), ..Bridge::default() },
        Some(BridgeCommand::Remove { name }) => Bridge { remove: Some(name), ..Bridge::default() },
    };
    let value = ask(options.ctl.as_deref(), &question)?;
    show::<Bridge>(value, options.json)
}

impl NewBridge {
    fn question(self) -> Result<New, Failure> {
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        // The process makes files where it runs.
        let absolute = |path: PathBuf| {
            std::path::absolute(&path)
                .map_err(|error| Failure::Bad(format!("{}: {error}", path.display())))
        };
        Ok(New {
            name: self.name,
            datapath_id: self.datapath_id,
            controllers: some(self.controllers),
            listen: some(self.listeners),
            snoop: self.snoop.map(absolute).transpose()?,
            fail_mode: self.fail_mode,
            protocols: self.protocols,
            normal: self.normal,
        })
    }
}

/// `millrace port`.
pub(crate) fn port(options: PortOptions) -> Result<(), Failure> {
    let question = match options.command {
        None | Some(PortCommand::Show) => Ports::default(),
        Some(PortCommand::Add { ports, vlan }) => {
            let mut vlans = BTreeMap::new();
            // What is wrong with a specification by itself is told without a switch.
            for text in &ports {
                let spec = port_kinds::parse(text);
                let spec = spec.map_err(|e| Failure::Usage(format!("port {text:?}: {e}")))?;
                vlans.extend(vlan.iter().map(|vlan| (spec.name().to_owned(), vlan.clone())));
            }
            vlan.as_deref().map_or(Ok(()), check_vlan)?;
            Ports { add: ports, vlan: vlans, ..Ports::default() }
        }
        Some(PortCommand::Vlan { port, words }) => {
            check_vlan(&words)?;
            Ports { vlan: [(port, words)].into(), ..Ports::default() }
        }
        Some(PortCommand::Remove { ports }) => Ports { remove: ports, ..Ports::default() },
        Some(PortCommand::Up { ports }) => Ports { up: ports, ..Ports::default() },
        Some(PortCommand::Down { ports }) => Ports { down: ports, ..Ports::default() },
        Some(PortCommand::Number { port, number }) => {
            let number = number_of(&number).map_err(Failure::Usage)?;
            Ports { number: [(port, number)].into(), ..Ports::default() }
        }
    };
    show::<Ports>(ask(options.to.whom(), &question)?, options.json)
}

fn check_vlan(words: &str) -> Result<(), Failure> {
    words.parse::<Vlan>().map(drop).map_err(|e| Failure::Usage(format!("{words}: {e}")))
}

/// `millrace mirror`.
pub(crate) fn mirror(options: MirrorOptions) -> Result<(), Failure> {
    let question = match options.command {
        None | Some(MirrorCommand::Show) => Mirrors::default(),
        Some(MirrorCommand::Add { mirrors }) => Mirrors::adding(mirrors).map_err(Failure::Usage)?,
        Some(MirrorCommand::Remove { mirrors }) => Mirrors::removing(mirrors),
    };
    show::<Mirrors>(ask(options.to.whom(), &question)?, options.json)
}

/// `millrace bond`.
pub(crate) fn bond(options: BondOptions) -> Result<(), Failure> {
    let question = match options.command {
        None | Some(BondCommand::Show) => Bonds::default(),
        Some(BondCommand::Add { bonds }) => Bonds::adding(bonds).map_err(Failure::Usage)?,
        Some(BondCommand::Remove { bonds }) => Bonds::removing(bonds),
    };
    show::<Bonds>(ask(options.to.whom(), &question)?, options.json)
}

/// `millrace stations`.
pub(crate) fn stations(options: StationsOptions) -> Result<(), Failure> {
    let question = Stations { flush: options.flush };
    show::<Stations>(ask(options.to.whom(), &question)?, options.json)
}
