//! `millrace doctor`: what this machine lacks for each kind of port, and the command that mends it.
//!
//! In: nothing but the machine. Out: for each kind of port whether it works, as the kind itself finds out
//! ([`port::kind::Kind::diagnose`]); and for workers and the control socket.
//!
//! Exit status 0 says that the report could be made and that what needs no privilege works; a
//! privilege that is merely missing is part of the report and no failure. 1: a kind that
//! every user may have, or the control socket, does not work here.

use crate::cli::DoctorOptions;
use control::failure::Failure;
use control::port_kinds::KINDS;
use port::doctor::{Finding, Machine};
use serde_json::{Value, json};
use std::path::Path;

/// The control socket, as findings name it.
const CONTROL_SOCKET: &str = "control_socket";

/// `millrace doctor`.
pub(crate) fn run(options: DoctorOptions) -> Result<(), Failure> {
    let machine = Machine::read();
    let found =
        KINDS.iter().filter_map(|kind| Some((kind, kind.diagnose.map(|find| find(&machine))?)));
    let ports: Vec<_> = found.collect();
    let control = control_socket();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if options.json {
        let ports = ports.iter().map(|(kind, finding)| value(kind.word, finding));
        println!(
            "{}",
            json!({
                "ports": ports.collect::<Vec<_>>(),
                "workers": {"cores": cores, "usable": usable(cores)},
                "control_socket": value(CONTROL_SOCKET, &control),
            })
        );
    } else {
        ports.iter().for_each(|(kind, finding)| print!("{}", text(kind.word, finding)));
        println!("{:<15} {}", "workers", workers(cores));
        print!("{}", text("control socket", &control));
    }
    let needed = ports.iter().filter(|(kind, _)| kind.unprivileged);
    let needed = needed.map(|(kind, finding)| (kind.word, finding));
    let broken: Vec<_> = needed
        .chain([(CONTROL_SOCKET, &control)])
        .filter(|(_, finding)| !finding.works)
        .map(|(what, _)| what)
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::Bad(format!("not even this works here: {}", broken.join(", "))))
}

fn value(what: &str, found: &Finding) -> Value {
    json!({"kind": what, "works": found.works, "detail": found.detail, "mend": found.mend})
}

fn text(what: &str, found: &Finding) -> String {
    let state = if found.works { "works" } else { "does not work" };
    let mut out = format!("{what:<15} {state}: {}\n", found.detail);
    if let Some(mend) = &found.mend {
        out.push_str(&format!("{:<15} mend it with: {mend}\n", ""));
    }
    out
}

/// Cores that workers can have: one is left to the control side where there are two or more.
fn usable(cores: usize) -> usize {
    cores.saturating_sub(1).max(1)
}

fn workers(cores: usize) -> String {
    match cores {
        1 => "1 core: the worker and the control side take turns".to_string(),
        n => format!(
            "{n} cores: up to --workers {}, which leaves one to the control side",
            usable(n)
        ),
    }
}

fn control_socket() -> Finding {
    let path = control::client::default_path();
    let shown = path.display();
    if std::os::unix::net::UnixStream::connect(&path).is_ok() {
        let detail = format!("{shown}: a switch is running there; give another one --ctl PATH");
        return Finding::good(detail);
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        Ok(()) => Finding::good(shown.to_string()),
        Err(error) => {
            let mend = Some("millrace run --ctl /tmp/millrace.ctl".to_string());
            Finding::bad(format!("{shown}: its folder is not writable: {error}"), mend)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_well() {
        let bad = Finding::bad("cap_net_admin is missing", Some("sudo x".into()));
        let wanted = "tap             does not work: cap_net_admin is missing\n                mend it with: sudo x\n";
        assert_eq!(text("tap", &bad), wanted);
    }

    #[test]
    fn workers_leave_a_core_to_the_control_side() {
        assert_eq!([1, 2, 8].map(usable), [1, 1, 7]);
        assert!(workers(8).contains("--workers 7"));
    }
}
