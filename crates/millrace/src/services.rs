//! `millrace service`: the services that flows name in `softflow(NAME,ARG)`, added to and taken from a running
//! switch, and shown.
//!
//! The switch's side of the question ([`answer`]) and of `--service` ([`add`]) is here, too.

use crate::Failure;
use crate::cli::{ServiceCommand, ServiceOptions};
use crate::ctl::{Request, ask};
use datapath::services::Elements;
use openflow::ElementName;
use serde_json::{Value, json};
use service::catalogue;
use service::element::Writes;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use switch::Switch;

/// `millrace service`.
pub(crate) fn service(options: ServiceOptions) -> Result<(), Failure> {
    let request = match options.command {
        Some(ServiceCommand::Kinds) => {
            print!("{}", kinds());
            return Ok(());
        }
        None | Some(ServiceCommand::Show) => Request::Service { add: None, remove: None },
        Some(ServiceCommand::Add { name, kind, settings }) => {
            let words = [vec![name, kind], settings].concat();
            Request::Service { add: Some(words), remove: None }
        }
        Some(ServiceCommand::Remove { name }) => Request::Service { add: None, remove: Some(name) },
    };
    let value = ask(options.ctl.as_deref(), &request)?;
    crate::query::show(&value, options.json, print)
}

/// Adds a service to a switch: its name, its kind, and words `KEY=VALUE`.
pub(crate) fn add(switch: &Switch, words: &[String]) -> Result<(), String> {
    let Some(elements) = switch.services().elements() else {
        return Err("this switch has no services: it runs a P4 program".to_owned());
    };
    let seed = RandomState::new().build_hasher().finish();
    add_to(elements, words, (switch.now_ns(), seed))
}

/// Adds services, each a line, at time 0, with the same secret always: for benches, which compare.
pub(crate) fn add_all(elements: &Elements, lines: &[String]) -> Result<(), String> {
    lines.iter().try_for_each(|line| {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        add_to(elements, &words, (0, 1)).map_err(|e| format!("service {line:?}: {e}"))
    })
}

fn add_to(elements: &Elements, words: &[String], start: (u64, u64)) -> Result<(), String> {
    let [name, kind, settings @ ..] = words else {
        return Err("a service is NAME KIND [KEY=VALUE...]".to_owned());
    };
    let name = ElementName::new(name).map_err(|e| format!("{name:?}: {e}"))?;
    let settings =
        catalogue::parse(settings.iter().map(String::as_str)).map_err(|e| e.to_string())?;
    let element = catalogue::element(kind, &settings).map_err(|e| e.to_string())?;
    let what = (name.as_str(), kind.as_str());
    elements.add(name.number(), what, shown(settings), &*element, start).map_err(|e| e.to_string())
}

/// Settings as they may be shown: no keys.
fn shown(mut settings: Vec<(String, String)>) -> Vec<(String, String)> {
    let secret = |key: &str| key.contains("key") || key.contains("secret");
    settings.iter_mut().filter(|(key, _)| secret(key)).for_each(|(_, v)| *v = "...".to_string());
    settings
}

/// The switch's answer.
pub(crate) fn answer(
    switch: &Switch,
    new: Option<&[String]>,
    gone: Option<&str>,
) -> Result<Value, String> {
    if let Some(words) = new {
        add(switch, words)?;
    }
    let Some(elements) = switch.services().elements() else {
        return Err("this switch has no services: it runs a P4 program".to_owned());
    };
    if let Some(name) = gone {
        let number = ElementName::new(name).map_err(|e| format!("{name:?}: {e}"))?.number();
        let there = elements.get(number).is_some_and(|e| e.name == name);
        if !(there && elements.remove(number)) {
            return Err(format!("there is no service {name}; `millrace service show` lists them"));
        }
    }
    let services: Vec<Value> = elements
        .list()
        .iter()
        .map(|element| {
            let number = ElementName::new(&element.name).map_or(0, |name| name.number());
            let counters = element.counters();
            let counters: serde_json::Map<String, Value> =
                counters.into_iter().map(|(name, n)| (name.to_string(), json!(n))).collect();
            let settings: Vec<String> =
                element.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
            json!({
                "name": element.name, "kind": element.kind, "settings": settings,
                "sf_action": number, "writes": writes(element.writes()), "counters": counters,
            })
        })
        .collect();
    Ok(json!({"services": services, "for_nobody": elements.for_nobody()}))
}

fn writes(writes: Writes) -> &'static str {
    match writes {
        Writes::Nothing => "nothing",
        Writes::Payload => "payload",
        Writes::Ends => "addresses and ports",
        Writes::Anything => "anything",
    }
}

/// What there is to add.
fn kinds() -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    for kind in catalogue::kinds() {
        let _ = writeln!(out, "{}: {}; writes {}", kind.name, kind.about, writes(kind.writes));
        for setting in kind.settings {
            let _ = match setting.default {
                Some(default) => {
                    writeln!(out, "  {}= {} [default: {default}]", setting.name, setting.about)
                }
                None => writeln!(out, "  {}= {} (required)", setting.name, setting.about),
            };
        }
    }
    out
}

fn print(value: &Value) -> String {
    let mut out = String::new();
    let text = |v: &Value| v.as_str().unwrap_or("?").to_string();
    for service in value["services"].as_array().into_iter().flatten() {
        let settings = service["settings"].as_array().into_iter().flatten();
        let settings: String = settings.map(|s| format!(" {}", text(s))).collect();
        let _ = writeln!(
            out,
            "{}: {}{settings}; sf_action={:#x}, writes {}",
            text(&service["name"]),
            text(&service["kind"]),
            service["sf_action"].as_u64().unwrap_or(0),
            text(&service["writes"]),
        );
        for (name, n) in service["counters"].as_object().into_iter().flatten() {
            let _ = writeln!(out, "  {name}={n}");
        }
    }
    if value["services"].as_array().is_none_or(Vec::is_empty) {
        let _ = writeln!(out, "no services; `millrace service kinds` lists what there is to add");
    }
    if value["for_nobody"].as_u64() != Some(0) {
        let _ = writeln!(
            out,
            "{} packets came for services that are not there, and were dropped",
            value["for_nobody"]
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn services_come_and_go_and_are_shown() {
        let switch =
            crate::run::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
        assert!(print(&answer(&switch, None, None).unwrap()).starts_with("no services"));
        add(&switch, &words("limit rate_limiter rate=1M burst=2k")).unwrap();
        let shown = print(&answer(&switch, Some(&words("count counter")), None).unwrap());
        let first = "count: counter; sf_action=0x";
        assert!(shown.starts_with(first) && shown.contains("\n  packets=0\n"), "{shown}");
        assert!(shown.contains("limit: rate_limiter rate=1M burst=2k; "), "{shown}");
        for (line, why) in [
            ("limit", "NAME KIND"),
            ("1x counter", "letter first"),
            ("x nothing", "there are noop"),
            ("limit counter", "already"),
            ("x counter a=1", "no setting"),
        ] {
            let refused = add(&switch, &words(line)).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
        assert!(answer(&switch, None, Some("x")).unwrap_err().contains("no service x"));
        let left = answer(&switch, None, Some("limit")).unwrap();
        assert_eq!(left["services"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn keys_are_not_shown() {
        let settings = vec![("key".to_string(), "00".to_string())];
        assert_eq!(shown(settings), [("key".to_string(), "...".to_string())]);
    }
}
