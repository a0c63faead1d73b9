//! `millrace conntrack`: the connections that a running switch knows, those of OpenFlow's `ct` and of services: listed,
//! counted, forgotten, exported and imported.

use crate::cli::{Chosen, ConntrackCommand, ConntrackOptions, CountBy};
use crate::show::show;
use control::client::{To, ask, follow, text};
use control::failure::Failure;
use control::image;
use control::output::say;
use control::verbs::conntrack::{By, Conntrack};
use control::verbs::conntrack_export::ConntrackExport;
use control::verbs::conntrack_import::ConntrackImport;
use serde_json::json;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections listed at most, unless told otherwise.
const LISTED: usize = 1000;
/// The same of `--watch`, where the terminal's height is not asked for.
const WATCHED: usize = 40;
/// Between two views of `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);

/// `millrace conntrack`.
pub(crate) fn conntrack(options: ConntrackOptions) -> Result<(), Failure> {
    let ConntrackOptions { command, chosen, json, to } = options;
    let to = to.whom();
    let watch = chosen.watch;
    let (question, says_more) = question(chosen);
    let alone = |name: &str| match says_more || watch {
        true => Err(Failure::Usage(format!("conntrack {name} is about all connections of ct"))),
        false => Ok(()),
    };
    match command {
        Some(ConntrackCommand::Export { file }) => {
            alone("export")?;
            export(to, &file, json)
        }
        Some(ConntrackCommand::Import { file }) => {
            alone("import")?;
            import(to, &file, json)
        }
        Some(ConntrackCommand::Flush) if watch || question.count_by.is_some() => {
            Err(Failure::usage("conntrack flush forgets: it takes --zone and --service"))
        }
        Some(ConntrackCommand::Flush) => {
            let question = Conntrack { flush: true, limit: 0, ..question };
            show::<Conntrack>(ask(to, &question)?, json)
        }
        None | Some(ConntrackCommand::Show) if watch => again(to, &question, json),
        None | Some(ConntrackCommand::Show) => show::<Conntrack>(ask(to, &question)?, json),
    }
}

/// The question, and whether it chooses at all.
fn question(chosen: Chosen) -> (Conntrack, bool) {
    let Chosen { zone, state, proto, src, dst, port, mark, service, limit, after, count_by, watch } =
        chosen;
    let count_by = count_by.map(|by| match by {
        CountBy::Zone => By::Zone,
        CountBy::State => By::State,
        CountBy::Proto => By::Proto,
        CountBy::Service => By::Service,
        CountBy::Backend => By::Backend,
    });
    let words = [&state, &proto, &src, &dst, &mark, &service, &after];
    let says_more = words.iter().any(|word| word.is_some())
        || zone.is_some()
        || port.is_some()
        || limit.is_some()
        || count_by.is_some();
    let limit = limit.unwrap_or(if watch { WATCHED } else { LISTED });
    let question = Conntrack {
        flush: false,
        zone,
        limit,
        state,
        protocol: proto,
        src,
        dst,
        port,
        mark,
        service,
        count_by,
        after,
    };
    (question, says_more)
}

/// The same again and again, until nobody reads it.
fn again(to: To<'_>, question: &Conntrack, json: bool) -> Result<(), Failure> {
    loop {
        let answer = ask(to, question)?;
        let text = if json { answer.to_string() } else { text::<Conntrack>(answer)? };
        let clear = !json && std::io::stdout().is_terminal();
        let begin = if clear { "\x1b[H\x1b[2J" } else { "" };
        say(format_args!("{begin}{}\n", text.trim_end_matches('\n')));
        std::thread::sleep(INTERVAL);
    }
}

/// `millrace conntrack export`.
fn export(to: To<'_>, path: &Path, json: bool) -> Result<(), Failure> {
    let mut from = follow(to, &ConntrackExport {})?;
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 18]);
    let mut said = Instant::now();
    loop {
        let n = from.read(&mut part).map_err(|e| Failure::Bad(format!("from the switch: {e}")))?;
        if n == 0 {
            break;
        }
        bytes.extend_from_slice(&part[..n]);
        if said.elapsed() > Duration::from_secs(1) {
            eprintln!("millrace: {} MiB read from the switch", bytes.len() >> 20);
            said = Instant::now();
        }
    }
    let (connections, size) = (image::save(path, &bytes)?, bytes.len());
    match json {
        true => println!("{}", json!({"exported": connections, "bytes": size})),
        false => println!("{connections} connections exported, {size} bytes"),
    }
    Ok(())
}

/// `millrace conntrack import`.
fn import(to: To<'_>, path: &Path, json: bool) -> Result<(), Failure> {
    let path =
        std::path::absolute(path).map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))?;
    show::<ConntrackImport>(ask(to, &ConntrackImport { path })?, json)
}
