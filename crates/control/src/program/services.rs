//! Services of a switch, as options and the control socket name them: `NAME KIND [KEY=VALUE...]`.

use crate::failure::Failure;
use datapath::services::Elements;
use datapath::services::elements::New;
use openflow::ElementName;
use service::catalogue;
use std::hash::{BuildHasher, Hasher, RandomState};
use switch::Switch;

/// Adds a service to a switch: its name, its kind, and words `KEY=VALUE`.
pub fn add(switch: &Switch, words: &[String]) -> Result<(), String> {
    let Some(elements) = switch.services().elements() else {
        return Err("this switch has no services: it runs a P4 program".to_owned());
    };
    let seed = RandomState::new().build_hasher().finish();
    add_to(elements, words, (switch.now_ns(), seed))
}

/// What to say of a service whose secret is given in the open.
pub fn in_the_open(name: &str, kind: &str, words: &[String]) -> Option<String> {
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

/// Adds services, each a line, at time 0, with the same secret always: for benches, which compare.
pub fn add_all(elements: &Elements, lines: &[String]) -> Result<(), String> {
    lines.iter().try_for_each(|line| {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        let failed = |e| format!("service {:?}: {e}", catalogue::without_secrets(line));
        add_to(elements, &words, (0, 1)).map_err(failed)
    })
}

fn add_to(elements: &Elements, words: &[String], start: (u64, u64)) -> Result<(), String> {
    let [name, kind, settings @ ..] = words else {
        return Err("a service is NAME KIND [KEY=VALUE...]".to_owned());
    };
    let name = ElementName::new(name)
        .map_err(|e| format!("{:?}: {e}", catalogue::without_secrets(name)))?;
    let settings =
        catalogue::parse(settings.iter().map(String::as_str)).map_err(|e| e.to_string())?;
    let settings = catalogue::with_files(kind, settings).map_err(|e| e.to_string())?;
    let (groups, settings): (Vec<_>, Vec<_>) =
        settings.into_iter().partition(|(key, _)| key == GROUP);
    let group = groups.first().map(|(_, group)| group.as_str());
    if group == Some("") {
        return Err("group= needs a name".to_owned());
    }
    let element = catalogue::element(kind, &settings).map_err(|e| e.to_string())?;
    let (number, name) = (name.number(), name.as_str());
    elements
        .add(New { number, name, kind, settings, group, element }, start)
        .map_err(|e| e.to_string())
}

/// The setting that all kinds have: elements with the same one share their state.
const GROUP: &str = "group";
