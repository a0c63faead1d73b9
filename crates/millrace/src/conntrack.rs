//! `millrace conntrack`: the connections that a running switch knows (OpenFlow's `ct`), shown, forgotten, exported and
//! imported.

use crate::cli::{ConntrackCommand, ConntrackOptions};
use crate::show::show;
use control::client::{To, ask, follow};
use control::failure::Failure;
use control::image;
use control::verbs::conntrack::Conntrack;
use control::verbs::conntrack_export::ConntrackExport;
use control::verbs::conntrack_import::ConntrackImport;
use serde_json::json;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections listed at most, unless told otherwise.
const LISTED: usize = 1000;

/// `millrace conntrack`.
pub(crate) fn conntrack(options: ConntrackOptions) -> Result<(), Failure> {
    let to = options.to.whom();
    let question = match options.command {
        Some(ConntrackCommand::Export { file }) => return export(to, &file, options.json),
        Some(ConntrackCommand::Import { file }) => return import(to, &file, options.json),
        None => Conntrack { flush: false, zone: None, limit: LISTED },
        Some(ConntrackCommand::Show { zone, limit }) => {
            Conntrack { flush: false, zone, limit: limit.unwrap_or(LISTED) }
        }
        Some(ConntrackCommand::Flush { zone }) => Conntrack { flush: true, zone, limit: 0 },
    };
    show::<Conntrack>(ask(to, &question)?, options.json)
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
