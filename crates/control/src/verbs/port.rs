//! `port`: ports of a bridge, shown, added, removed, put up and down, and given other numbers while packets pass.

use super::bridge::number;
use crate::bridges::{Bridge, PortConfig, PortState, Vlan};
use crate::port_kinds;
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use switch::ports::NUMBER_LOCAL;

/// The question: what to do, in this order, or nothing; then the ports are told.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    /// Remove those of these names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Add these: `[NAME[:NUMBER]=]SPEC`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// Give these, by name, these VLANs: `vlan=10`, `trunk=10,20`; `trunk` for all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vlan: BTreeMap<String, String>,
    /// Give these, by name, other numbers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub number: BTreeMap<String, u32>,
    /// Put these of its ports up, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub up: Vec<String>,
    /// Put these down: nothing is received and nothing is sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<String>,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The ports of the bridge that was named, or of all.
    pub ports: Vec<One>,
}

/// Of one port.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its bridge.
    pub bridge: String,
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its specification, without name and number.
    pub spec: String,
    /// Its VLANs under NORMAL; empty for a trunk of all.
    pub vlan: String,
    /// Frames can go out.
    pub up: bool,
    /// Its interface is there.
    pub present: bool,
    /// Its address.
    pub mac: String,
    /// Its MTU.
    pub mtu: u32,
    /// Its speed in kb/s; 0 where nobody knows.
    pub speed_kbps: u32,
    /// Frames that came in.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that went out.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

impl Verb for Ports {
    const NAME: &'static str = "port";
    const ABOUT: &'static str =
        "Ports of a bridge, shown, added, removed, renumbered, put up and down";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridges = at.bridges()?;
        // All is read before anything is done.
        let specs = self.add.iter().map(|text| {
            let spec = port_kinds::parse(text).map_err(|e| format!("port {text:?}: {e}"))?;
            Ok(PortConfig::of_spec(&spec))
        });
        let mut specs = specs.collect::<Result<Vec<_>, String>>()?;
        let vlans = self.vlan.iter().map(|(name, text)| {
            let vlan = text.parse::<Vlan>().map_err(|e| format!("port {name}: {e}"))?;
            Ok((name, vlan))
        });
        let mut vlans = vlans.collect::<Result<BTreeMap<_, _>, String>>()?;
        // Those of a port that is added hold from its first packet on.
        for spec in &mut specs {
            spec.vlan = vlans.remove(&spec.name).unwrap_or_default();
        }
        let changes = self.change().is_some();
        if changes {
            let bridge = at.bridge()?;
            let bridge = bridge.name();
            for name in &self.remove {
                bridges.remove_port(bridge, name).map_err(|e| e.to_string())?;
            }
            for spec in specs {
                bridges.add_port(bridge, spec).map_err(|e| e.to_string())?;
            }
            for (name, vlan) in vlans {
                bridges.set_vlan(bridge, name, vlan).map_err(|e| e.to_string())?;
            }
            for (name, number) in &self.number {
                bridges.renumber(bridge, name, Some(*number)).map_err(|e| e.to_string())?;
            }
            let links = self.up.iter().map(|name| (name, false));
            for (name, down) in links.chain(self.down.iter().map(|name| (name, true))) {
                bridges.set_down(bridge, name, down).map_err(|e| e.to_string())?;
            }
        }
        let ports = match at.named() {
            Some(bridge) => of(bridge),
            None => bridges.all().iter().flat_map(of).collect(),
        };
        Ok(Reply::Answer(Answer { ports }))
    }

    fn change(&self) -> Option<Change> {
        let links = self.up.iter().map(|name| format!("{name} up"));
        let links: Vec<String> =
            links.chain(self.down.iter().map(|name| format!("{name} down"))).collect();
        let same = self.number.is_empty() && self.vlan.is_empty() && links.is_empty();
        let how = match (self.add.is_empty(), self.remove.is_empty(), same) {
            (false, ..) => "add",
            (_, false, _) => "delete",
            (.., false) => "modify",
            _ => return None,
        };
        let numbers = self.number.iter().map(|(name, number)| format!("{name}:{number}"));
        let vlans = self.vlan.iter().map(|(name, vlan)| format!("{name},{vlan}"));
        let named = self.remove.iter().chain(&self.add).cloned();
        let words: Vec<String> = named.chain(vlans).chain(numbers).chain(links).collect();
        Some(Change { kind: "port", how, text: words.join(" ") })
    }

    fn names_files(&self) -> bool {
        !self.add.is_empty()
    }

    fn text(answer: &Answer) -> String {
        print(answer)
    }
}

fn of(bridge: &std::sync::Arc<Bridge>) -> Vec<One> {
    bridge.ports().into_iter().map(|port| One::of(bridge.name(), port)).collect()
}

impl One {
    fn of(bridge: &str, port: PortState) -> One {
        let PortState { config, view, counters, .. } = port;
        let mac: Vec<String> = view.info.mac.iter().map(|byte| format!("{byte:02x}")).collect();
        One {
            bridge: bridge.to_owned(),
            number: view.number,
            spec: config.attachment.to_string(),
            vlan: match config.vlan == Vlan::default() {
                true => String::new(),
                false => config.vlan.to_string(),
            },
            name: config.name,
            up: view.is_up(),
            present: view.link.present,
            mac: mac.join(":"),
            mtu: view.info.mtu,
            speed_kbps: view.info.curr_speed_kbps,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            drops: counters.drops.iter().map(|(word, n)| ((*word).to_owned(), *n)).collect(),
        }
    }
}

fn print(answer: &Answer) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{:<16} {:>5} {:<16} {:<5} {:<18} {:>6} {:>12} {:>12}  spec",
        "bridge", "port", "name", "link", "address", "mtu", "rx packets", "tx packets"
    );
    for port in &answer.ports {
        let link = match (port.present, port.up) {
            (false, _) => "gone",
            (true, true) => "up",
            (true, false) => "down",
        };
        let vlan = if port.vlan.is_empty() { String::new() } else { format!("  {}", port.vlan) };
        let _ = writeln!(
            out,
            "{:<16} {:>5} {:<16} {:<5} {:<18} {:>6} {:>12} {:>12}  {}{vlan}",
            port.bridge,
            number(port.number),
            port.name,
            link,
            port.mac,
            port.mtu,
            port.rx_packets,
            port.tx_packets,
            port.spec
        );
    }
    out
}

/// A number as people write it.
pub fn number_of(text: &str) -> Result<u32, String> {
    match text {
        "LOCAL" | "local" => Ok(NUMBER_LOCAL),
        _ => text.parse().map_err(|_| format!("{text:?}: a port number or LOCAL was expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_put_down_and_up_again() {
        use crate::bridges::BridgeConfig;
        use crate::bridges::bed::{LONG, ask, bridges, flow, frame, memory};
        let bridges = bridges(1, switch::EngineKind::default());
        bridges.add(BridgeConfig::named("br0")).unwrap();
        let far = [memory(&bridges, "br0", "link-a"), memory(&bridges, "br0", "link-b")];
        flow(&bridges, "br0", "in_port=1,actions=output:2");
        let names = || vec!["link-b".to_owned()];
        let told = ask(&bridges, Ports { down: names(), ..Ports::default() }).unwrap();
        assert_eq!(told.ports.iter().map(|port| port.up).collect::<Vec<_>>(), [true, false]);
        assert!(far[0].inject_bytes(&frame(1, 0, 1)));
        let lost = || {
            bridges
                .bridge("br0")
                .unwrap()
                .ports()
                .iter()
                .any(|port| !port.counters.drops.is_empty())
        };
        crate::bridges::bed::until("the frame is dropped", lost);
        let told = ask(&bridges, Ports { up: names(), ..Ports::default() }).unwrap();
        assert!(told.ports.iter().all(|port| port.up));
        assert!(far[0].inject_bytes(&frame(1, 0, 2)));
        far[1].take_within(LONG).expect("a frame comes through");
        let refused = ask(&bridges, Ports { up: vec!["none".into()], ..Ports::default() });
        assert!(refused.unwrap_err().contains("none"));
        let change = Ports { up: names(), ..Ports::default() }.change().unwrap();
        assert_eq!((change.how, &*change.text), ("modify", "link-b up"));
        bridges.stop();
    }

    #[test]
    fn ports_are_shown_in_a_line_each() {
        let port = One {
            bridge: "br0".into(),
            number: NUMBER_LOCAL,
            name: "br0".into(),
            spec: "internal:br0".into(),
            present: true,
            up: true,
            mtu: 1500,
            ..One::default()
        };
        let text = print(&Answer { ports: vec![port] });
        let line: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(line[..4], ["br0", "LOCAL", "br0", "up"]);
        assert_eq!(line.last(), Some(&"internal:br0"));
        assert_eq!((number_of("7"), number_of("LOCAL")), (Ok(7), Ok(NUMBER_LOCAL)));
        assert!(number_of("x").unwrap_err().contains("LOCAL"));
    }
}
