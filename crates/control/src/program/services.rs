//! Services of a switch, as options and the control socket name them: `NAME KIND [KEY=VALUE...]`.

use crate::failure::Failure;
use datapath::services::Elements;
use datapath::services::elements::{Named, New};
use openflow::ElementName;
use service::catalogue;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use switch::Switch;

/// Adds a service to a switch: its name, its kind, and words `KEY=VALUE`.
pub fn add(switch: &Switch, words: &[String]) -> Result<(), String> {
    let Some(elements) = switch.services().elements() else {
        return Err("this switch has no services: it runs a P4 program".to_owned());
    };
    let answers = words.iter().any(|word| word.starts_with("answer="));
    let declared = |pipeline: &ir::Pipeline| {
        pipeline
            .program()
            .services
            .iter()
            .any(|service| service.name == datapath::services::answers::NAME)
    };
    if answers && !switch.with_pipeline(declared) {
        return Err(
            "answer= is for bridges with OpenFlow's tables: a P4 program answers itself".to_owned()
        );
    }
    let seed = RandomState::new().build_hasher().finish();
    add_to(elements, words, (switch.now_ns(), seed))
}

/// The services of a switch by name; of those that share their state, the first.
pub(crate) fn owners(switch: &Switch) -> Vec<Arc<Named>> {
    switch.services().elements().map(|elements| elements.owners()).unwrap_or_default()
}

/// Refuses a service that an argument gives with a secret in the open: every user of the machine sees arguments.
///
/// # Errors
/// The setting, and where its value belongs.
pub fn refuse_open_secret(name: &str, kind: &str, words: &[String]) -> Result<(), Failure> {
    let settings = catalogue::parse(words.iter().map(String::as_str)).unwrap_or_default();
    match catalogue::open_secret(kind, &settings) {
        None => Ok(()),
        Some(key) => Err(Failure::Usage(format!(
            "service {name}: {key}= as an argument is visible to every user of this machine; write its value to a \
             file and give {key}-file=PATH"
        ))),
    }
}

/// Refuses such secrets in `--service`'s lines.
pub(crate) fn refuse_open_secrets(lines: &[String]) -> Result<(), Failure> {
    lines.iter().try_for_each(|line| {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        match &words[..] {
            [name, kind, settings @ ..] => refuse_open_secret(name, kind, settings),
            _ => Ok(()),
        }
    })
}

/// Adds the services of `--service` and of a configuration, each a line.
pub(crate) fn add_given(switch: &Switch, lines: &[String]) -> Result<(), Failure> {
    lines.iter().try_for_each(|line| {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        let failed =
            |e| Failure::Bad(format!("--service {:?}: {e}", catalogue::without_secrets(line)));
        add(switch, &words).map_err(failed)
    })
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
