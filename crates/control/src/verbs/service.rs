//! `service`: the services that flows name in `softflow(NAME,ARG)`: one is added, one is set, one is taken away, then all
//! are told.

use crate::controllers::openflow::OpenFlow;
use crate::program::services::add;
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use openflow::ElementName;
use serde::{Deserialize, Serialize};
use service::catalogue;
use service::element::Writes;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use switch::Switch;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Service {
    /// Name, kind and settings of the one to add.
    pub add: Option<Vec<String>>,
    /// Name and settings of the one to set.
    pub set: Option<Vec<String>>,
    /// Name of the one to take away.
    pub remove: Option<String>,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// All that are there.
    pub services: Vec<One>,
    /// Packets that came for services that are not there.
    pub for_nobody: u64,
}

/// A service.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Those of one group share their state.
    pub group: Option<String>,
    /// `KEY=VALUE`, secrets left out.
    pub settings: Vec<String>,
    /// The number that flows call it by.
    pub sf_action: u64,
    /// What it changes of packets.
    pub writes: String,
    /// What it has counted.
    pub counters: BTreeMap<String, u64>,
}

impl Verb for Service {
    const NAME: &'static str = "service";
    const ABOUT: &'static str = "Services: added, set, taken away, shown";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let (add, set) = (self.add.as_deref(), self.set.as_deref());
        let told = answer(at.switch()?, add, set, self.remove.as_deref())?;
        if let Some(openflow) = at.controllers()?.find::<OpenFlow>()
            && let Err(why) = openflow.agent().follow_services()
        {
            // What was to be added is not answered for: it is not there.
            if let Some([name, ..]) = add {
                answer(at.switch()?, None, None, Some(name))?;
            }
            return Err(why.to_string());
        }
        Ok(Reply::Answer(told))
    }

    fn change(&self) -> Option<Change> {
        let (how, text) = match self {
            Service { add: Some(new), .. } => ("add", new.join(" ")),
            Service { set: Some(set), .. } => ("modify", set.join(" ")),
            Service { remove: Some(name), .. } => ("delete", name.clone()),
            _ => return None,
        };
        Some(Change { kind: "service", how, text })
    }

    fn names_files(&self) -> bool {
        let mut words = self.add.iter().chain(&self.set).flatten();
        words.any(|word| word.contains("-file") || word.contains("module"))
    }

    fn text(answer: &Answer) -> String {
        print(answer)
    }
}

fn answer(
    switch: &Switch,
    new: Option<&[String]>,
    set: Option<&[String]>,
    gone: Option<&str>,
) -> Result<Answer, String> {
    if let Some(words) = new {
        add(switch, words)?;
    }
    let Some(elements) = switch.services().elements() else {
        return Err("this switch has no services: it runs a P4 program".to_owned());
    };
    let find = |name: &str| {
        let number = ElementName::new(name)
            .map_err(|e| format!("{:?}: {e}", catalogue::without_secrets(name)))?
            .number();
        let there = elements.get(number).filter(|element| element.name == name);
        let none = || format!("there is no service {name}; `millrace service show` lists them");
        there.map(|element| (number, element)).ok_or_else(none)
    };
    if let Some([name, words @ ..]) = set {
        let settings =
            catalogue::parse(words.iter().map(String::as_str)).map_err(|e| e.to_string())?;
        find(name)?.1.set(&settings).map_err(|e| e.to_string())?;
    }
    if let Some(name) = gone {
        elements.remove(find(name)?.0);
    }
    let all = elements.list();
    let services = all.iter().map(|element| One {
        name: element.name.to_string(),
        kind: element.kind.to_string(),
        group: element.group.as_ref().map(ToString::to_string),
        settings: element.settings().iter().map(|(key, value)| format!("{key}={value}")).collect(),
        sf_action: ElementName::new(&element.name).map_or(0, |name| name.number().into()),
        writes: writes(element.writes()).to_owned(),
        counters: element.counters().into_iter().collect(),
    });
    Ok(Answer { services: services.collect(), for_nobody: elements.for_nobody() })
}

/// What a service changes of packets, in words.
pub fn writes(writes: Writes) -> &'static str {
    match writes {
        Writes::Nothing => "nothing",
        Writes::Payload => "payload",
        Writes::Ends => "addresses and ports",
        Writes::Anything => "anything",
    }
}

fn print(answer: &Answer) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    for service in &answer.services {
        let settings: String = service.settings.iter().map(|s| format!(" {s}")).collect();
        let group = service.group.as_ref().map(|group| format!(" group={group}"));
        let group = group.unwrap_or_default();
        let _ = writeln!(
            out,
            "{}: {}{group}{settings}; sf_action={:#x}, writes {}",
            service.name, service.kind, service.sf_action, service.writes,
        );
        for (name, n) in &service.counters {
            let _ = writeln!(out, "  {name}={n}");
        }
    }
    if answer.services.is_empty() {
        let _ = writeln!(out, "no services; `millrace service kinds` lists what there is to add");
    }
    if answer.for_nobody != 0 {
        let _ = writeln!(
            out,
            "{} packets came for services that are not there, and were dropped",
            answer.for_nobody
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tables;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn services_come_and_go_and_are_shown() {
        let switch = tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
        assert!(print(&answer(&switch, None, None, None).unwrap()).starts_with("no services"));
        add(&switch, &words("limit rate_limiter rate=1M burst=2k")).unwrap();
        let shown = print(&answer(&switch, Some(&words("count counter")), None, None).unwrap());
        let first = "count: counter; sf_action=0x";
        assert!(shown.starts_with(first) && shown.contains("\n  packets=0\n"), "{shown}");
        assert!(shown.contains("limit: rate_limiter rate=1M burst=2k; "), "{shown}");
        for (line, why) in [
            ("limit", "NAME KIND"),
            ("1x counter", "letter first"),
            ("x nothing", "there are noop"),
            ("limit counter", "already"),
            ("x counter a=1", "no setting"),
            ("x counter group=", "needs a name"),
            ("x counter group=a group=b", "given twice"),
        ] {
            let refused = add(&switch, &words(line)).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
        assert!(answer(&switch, None, None, Some("x")).unwrap_err().contains("no service x"));
        let left = answer(&switch, None, None, Some("limit")).unwrap();
        assert_eq!(left.services.len(), 1);
    }

    #[test]
    fn keys_are_not_shown_and_health_is_set() {
        let switch = tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
        let key = "000102030405060708090a0b0c0d0e0f";
        add(&switch, &words(&format!("aes transcoder direction=encrypt key={key}"))).unwrap();
        add(&switch, &words("lb balancer backends=a,b:2 key=987654321 group=web")).unwrap();
        let set =
            |line: &str| answer(&switch, None, Some(&words(line)), None).map(|value| print(&value));
        let shown = set("lb health=a:draining").unwrap();
        let want = "lb: balancer group=web backends=a@1:1:draining,b@2:2 key=...; ";
        assert!(shown.contains(want), "{shown}");
        assert!(shown.contains("aes: transcoder direction=encrypt key=...; "), "{shown}");
        assert!(!shown.contains(key) && !shown.contains("987654321"), "{shown}");
        assert!(set("x health=a:up").unwrap_err().contains("no service x"));
        assert!(set("lb key=1").unwrap_err().contains("backends=, hosts= and health= can"));
        assert!(set("aes left=drop").unwrap_err().contains("cannot be set while it runs"));
    }
}
