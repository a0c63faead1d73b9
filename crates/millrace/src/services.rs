//! `millrace service`: the services that flows name in `softflow(NAME,ARG)`, added to and taken from a running
//! switch, set while they run, and shown.
//!
//! The switch's side of the question ([`answer`]) and of `--service` ([`add`]) is here, too.

use crate::cli::{ServiceCommand, ServiceOptions};
use crate::ctl::{Request, ask};
use control::failure::Failure;
use control::program::services::add;
use openflow::ElementName;
use serde_json::{Value, json};
use service::catalogue;
use service::element::Writes;
use std::fmt::Write as _;
use switch::Switch;

/// `millrace service`.
pub(crate) fn service(options: ServiceOptions) -> Result<(), Failure> {
    let request = match options.command {
        Some(ServiceCommand::Kinds) => {
            print!("{}", kinds());
            return Ok(());
        }
        None | Some(ServiceCommand::Show) => {
            Request::Service { add: None, set: None, remove: None }
        }
        Some(ServiceCommand::Add { name, kind, settings }) => {
            let settings = absolute(&kind, settings)?;
            if let Some(warning) = in_the_open(&name, &kind, &settings) {
                eprintln!("millrace: {warning}");
            }
            let add = Some([vec![name, kind], settings].concat());
            Request::Service { add, set: None, remove: None }
        }
        Some(ServiceCommand::Set { name, settings }) => {
            let set = Some([vec![name], settings].concat());
            Request::Service { add: None, set, remove: None }
        }
        Some(ServiceCommand::Remove { name }) => {
            Request::Service { add: None, set: None, remove: Some(name) }
        }
    };
    let value = ask(options.ctl.as_deref(), &request)?;
    crate::query::show(&value, options.json, print)
}

/// The switch reads files from where it runs: paths are made such as mean the same there.
fn absolute(kind: &str, settings: Vec<String>) -> Result<Vec<String>, Failure> {
    let make = |word: String| match word.split_once('=') {
        Some((key, path)) if catalogue::is_file(kind, key) && !path.is_empty() => {
            let path = std::path::absolute(path)
                .map_err(|error| Failure::Bad(format!("{word}: {error}")))?;
            Ok(format!("{key}={}", path.display()))
        }
        _ => Ok(word),
    };
    settings.into_iter().map(make).collect()
}

/// What to say of a service whose secret is given in the open.
fn in_the_open(name: &str, kind: &str, words: &[String]) -> Option<String> {
    let settings = catalogue::parse(words.iter().map(String::as_str)).ok()?;
    let key = catalogue::open_secret(kind, &settings)?;
    Some(format!(
        "service {name}: {key}= is given in the open, where lists of processes show it; {key}-file=PATH keeps it \
         in a file"
    ))
}

/// Adds the services of `--service`, each a line. That one gives a secret in the open is said once.
pub(crate) fn add_given(switch: &Switch, lines: &[String]) -> Result<(), Failure> {
    let mut warned = false;
    for line in lines {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        add(switch, &words).map_err(|e| {
            Failure::Bad(format!("--service {:?}: {e}", catalogue::without_secrets(line)))
        })?;
        if let [name, kind, settings @ ..] = &words[..]
            && !warned
            && let Some(warning) = in_the_open(name, kind, settings)
        {
            warned = true;
            tracing::warn!("{warning}");
        }
    }
    Ok(())
}

/// The switch's answer.
pub(crate) fn answer(
    switch: &Switch,
    new: Option<&[String]>,
    set: Option<&[String]>,
    gone: Option<&str>,
) -> Result<Value, String> {
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
    let services: Vec<Value> = elements
        .list()
        .iter()
        .map(|element| {
            let number = ElementName::new(&element.name).map_or(0, |name| name.number());
            let counters = element.counters();
            let counters: serde_json::Map<String, Value> =
                counters.into_iter().map(|(name, n)| (name, json!(n))).collect();
            let settings: Vec<String> =
                element.settings().iter().map(|(key, value)| format!("{key}={value}")).collect();
            json!({
                "name": element.name, "kind": element.kind, "group": element.group,
                "settings": settings,
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
    let _ = writeln!(
        out,
        "All kinds have group=: services of one group share their state, and agree in all settings but those \
         that are marked as their own."
    );
    for kind in catalogue::kinds() {
        let _ = writeln!(out, "{}: {}; writes {}", kind.name, kind.about, writes(kind.writes));
        for setting in kind.settings {
            let own = if setting.own { " (own)" } else { "" };
            let _ = match setting.default {
                Some(default) => {
                    writeln!(out, "  {}={own} {} [default: {default}]", setting.name, setting.about)
                }
                None => writeln!(out, "  {}={own} {} (required)", setting.name, setting.about),
            };
            if setting.secret {
                let _ =
                    writeln!(out, "  {0}-file= a file that holds {0}=, in its place", setting.name);
            }
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
        let group = service["group"].as_str().map(|group| format!(" group={group}"));
        let group = group.unwrap_or_default();
        let _ = writeln!(
            out,
            "{}: {}{group}{settings}; sf_action={:#x}, writes {}",
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
            control::program::tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None)
                .unwrap();
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
        assert_eq!(left["services"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn keys_are_not_shown_and_health_is_set() {
        let switch =
            control::program::tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None)
                .unwrap();
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
        assert!(set("lb key=1").unwrap_err().contains("backends= and health= can"));
        assert!(set("aes left=drop").unwrap_err().contains("cannot be set while it runs"));
    }

    #[test]
    fn paths_of_files_are_the_callers_and_others_stay() {
        let words = ["module=a/b.wat", "arguments=a/b.wat", "fuel=1k"].map(str::to_string).to_vec();
        let here = std::env::current_dir().unwrap();
        let made = absolute("wasm", words.clone()).unwrap();
        assert_eq!(made[0], format!("module={}/a/b.wat", here.display()));
        assert_eq!(made[1..], words[1..]);
        assert_eq!(absolute("nothing", words.clone()).unwrap(), words);
    }
}
