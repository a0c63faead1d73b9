//! `millrace service`: the services that flows name in `softflow(NAME,ARG)`, added to and taken from a running
//! switch, set while they run, and shown.

use crate::cli::{ServiceCommand, ServiceOptions};
use crate::show::show;
use control::client::ask;
use control::failure::Failure;
use control::program::services::refuse_open_secret;
use control::verbs::backends::Backends;
use control::verbs::service::{Service, writes};
use service::catalogue;
use std::fmt::Write as _;

/// `millrace service`.
pub(crate) fn service(options: ServiceOptions) -> Result<(), Failure> {
    let backends =
        |question: Backends| show::<Backends>(ask(options.to.whom(), &question)?, options.json);
    let question = match options.command {
        Some(ServiceCommand::Backends { name }) => {
            return backends(Backends { service: name, ..Backends::default() });
        }
        Some(ServiceCommand::Drain { name, backend, deadline }) => {
            let deadline_ms =
                deadline.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            let (service, drain) = (Some(name), Some(backend));
            return backends(Backends { service, drain, deadline_ms, undrain: None });
        }
        Some(ServiceCommand::Undrain { name, backend }) => {
            let (service, undrain) = (Some(name), Some(backend));
            return backends(Backends { service, undrain, ..Backends::default() });
        }
        Some(ServiceCommand::Kinds) => {
            print!("{}", kinds());
            return Ok(());
        }
        None | Some(ServiceCommand::Show) => Service::default(),
        Some(ServiceCommand::Add { name, kind, settings }) => {
            let settings = absolute(&kind, settings)?;
            refuse_open_secret(&name, &kind, &settings)?;
            let add = Some([vec![name, kind], settings].concat());
            Service { add, ..Service::default() }
        }
        Some(ServiceCommand::Set { name, settings }) => {
            let set = Some([vec![name], settings].concat());
            Service { set, ..Service::default() }
        }
        Some(ServiceCommand::Remove { name }) => {
            Service { remove: Some(name), ..Service::default() }
        }
    };
    let value = ask(options.to.whom(), &question)?;
    show::<Service>(value, options.json)
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

#[cfg(test)]
mod tests {
    use super::*;

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
