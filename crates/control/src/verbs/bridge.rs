//! `bridge`: bridges of the process, shown, added, changed and removed.

use crate::bridges::{BridgeConfig, BridgeStatus};
use crate::config;
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use of_channel::{FailMode, Listen, Target};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::PathBuf;

/// The question: what to do, in this order, or nothing; then all bridges are told.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bridge {
    /// Add this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<New>,
    /// Give the one of this name what is said here; what is not said stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<New>,
    /// Remove the one of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
}

/// A bridge to be added, or what is to change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct New {
    /// Its name.
    pub name: String,
    /// Its datapath id, up to 16 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datapath_id: Option<String>,
    /// Controllers to connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Option<Vec<String>>,
    /// Where to listen for controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<Vec<String>>,
    /// Where to show all messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snoop: Option<PathBuf>,
    /// `secure` or `standalone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_mode: Option<String>,
    /// OpenFlow versions, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocols: Option<String>,
    /// How NORMAL learns and floods, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normal: Option<String>,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// All bridges, in the order in which they were made.
    pub bridges: Vec<One>,
}

/// Of one bridge.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its name.
    pub name: String,
    /// Its datapath id in hexadecimal digits; empty where a P4 program forwards.
    pub datapath_id: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Where it listens for controllers.
    pub listening: Vec<String>,
    /// Its controllers.
    pub controllers: Vec<Controller>,
    /// Flow entries.
    pub flows: usize,
    /// Stations that NORMAL knows.
    pub stations: usize,
}

/// A port's number and name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
}

/// A controller.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Controller {
    /// Where it is.
    pub target: String,
    /// It is connected.
    pub connected: bool,
    /// Its role; empty if it is not connected.
    pub role: String,
}

impl Verb for Bridge {
    const NAME: &'static str = "bridge";
    const ABOUT: &'static str = "Bridges of the process, shown, added, changed and removed";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridges = at.bridges()?;
        if let Some(new) = &self.add {
            let config = new.over(BridgeConfig::named(&new.name))?;
            bridges.add(config).map_err(|e| e.to_string())?;
        }
        if let Some(new) = &self.set {
            let held = bridges.bridge(&new.name).map_err(|e| e.to_string())?.config();
            bridges.reconfigure(&new.name, new.over(held)?).map_err(|e| e.to_string())?;
        }
        if let Some(name) = &self.remove {
            bridges.remove(name).map_err(|e| e.to_string())?;
        }
        let bridges = bridges.list().into_iter().map(One::from).collect();
        Ok(Reply::Answer(Answer { bridges }))
    }

    fn change(&self) -> Option<Change> {
        let (how, text) = match (&self.add, &self.set, &self.remove) {
            (Some(new), ..) => ("add", &new.name),
            (_, Some(new), _) => ("modify", &new.name),
            (.., Some(name)) => ("delete", name),
            _ => return None,
        };
        Some(Change { kind: "bridge", how, text: text.clone() })
    }

    /// Listeners may be sockets in the file system.
    fn names_files(&self) -> bool {
        self.add.is_some() || self.set.is_some()
    }

    fn text(answer: &Answer) -> String {
        print(answer)
    }
}

impl New {
    /// What it says, over what was there.
    pub(crate) fn over(&self, mut config: BridgeConfig) -> Result<BridgeConfig, String> {
        let failed = |e: crate::failure::Failure| e.text();
        if let Some(id) = &self.datapath_id {
            config.datapath_id = Some(config::datapath_id(id).map_err(failed)?);
        }
        if let Some(controllers) = &self.controllers {
            let all = controllers.iter().map(|text| text.parse::<Target>());
            config.channel.controllers =
                all.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        }
        if let Some(listen) = &self.listen {
            let all = listen.iter().map(|text| text.parse::<Listen>());
            config.channel.listeners = all.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        }
        if let Some(snoop) = &self.snoop {
            config.channel.snoop = Some(snoop.clone());
        }
        match self.fail_mode.as_deref() {
            None => {}
            Some("secure") => config.channel.fail_mode = FailMode::Secure,
            Some("standalone") => config.channel.fail_mode = FailMode::Standalone,
            Some(other) => {
                return Err(format!("fail mode {other:?}: secure or standalone was expected"));
            }
        }
        if let Some(words) = &self.normal {
            config.learning =
                words.parse().map_err(|e: crate::bridges::LearningError| e.to_string())?;
        }
        if let Some(list) = &self.protocols {
            config.channel.protocols = config::protocols(list).map_err(failed)?;
        }
        Ok(config)
    }
}

impl From<BridgeStatus> for One {
    fn from(status: BridgeStatus) -> One {
        let controllers = status.controllers.into_iter().map(|one| Controller {
            target: one.target,
            connected: one.connected,
            role: one.role.map_or_else(String::new, |role| format!("{role:?}").to_lowercase()),
        });
        One {
            name: status.name,
            datapath_id: status.datapath_id.map_or_else(String::new, |id| format!("{id:016x}")),
            ports: status.ports.into_iter().map(|(number, name)| Port { number, name }).collect(),
            listening: status.listening.iter().map(ToString::to_string).collect(),
            controllers: controllers.collect(),
            flows: status.flows,
            stations: status.stations,
        }
    }
}

fn print(answer: &Answer) -> String {
    if answer.bridges.is_empty() {
        return "there is no bridge; `millrace bridge add NAME` makes one\n".to_owned();
    }
    let mut out = String::new();
    // Writing to a string does not fail.
    for bridge in &answer.bridges {
        let _ = writeln!(
            out,
            "bridge {}, datapath {}, {} flows, {} stations",
            bridge.name,
            if bridge.datapath_id.is_empty() { "of a P4 program" } else { &bridge.datapath_id },
            bridge.flows,
            bridge.stations
        );
        for port in &bridge.ports {
            let _ = writeln!(out, "  port {:>5} {}", number(port.number), port.name);
        }
        for listen in &bridge.listening {
            let _ = writeln!(out, "  listens at {listen}");
        }
        for controller in &bridge.controllers {
            let state = match controller.connected {
                true => format!("connected, {}", controller.role),
                false => "not connected".to_owned(),
            };
            let _ = writeln!(out, "  controller {} {state}", controller.target);
        }
    }
    out
}

/// A port's number as people write it.
pub(super) fn number(number: u32) -> String {
    match number {
        switch::ports::NUMBER_LOCAL => "LOCAL".to_owned(),
        number => number.to_string(),
    }
}
