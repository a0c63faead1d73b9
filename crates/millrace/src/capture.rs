//! `millrace capture`: frames of a running switch as they come and go, with what became of each.
//!
//! What the switch sends is copied to a file, a pipe (`millrace capture --port 1 | tcpdump -r -`) or a terminal.

use crate::cli::{CaptureDirection, CaptureOptions};
use control::client::follow;
use control::failure::Failure;
use control::verbs::capture::Capture;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};

/// `millrace capture`.
pub(crate) fn run(options: CaptureOptions) -> Result<(), Failure> {
    let both = options.direction == CaptureDirection::Both;
    let piped = options.pcapng.is_none() && !options.text && !io::stdout().is_terminal();
    let text = options.pcapng.is_none() && !piped;
    if piped && options.dropped && io::stderr().is_terminal() {
        eprintln!("millrace: writing pcapng, whose comments tell the reasons; --text writes lines");
    }
    let question = Capture {
        port: options.port,
        ingress: both || options.direction == CaptureDirection::In,
        egress: both || options.direction == CaptureDirection::Out,
        table: options.table,
        cookie: options.entry,
        dropped: options.dropped,
        snap_len: options.snap_len,
        count: options.count,
        text,
    };
    let mut frames = follow(options.to.whom(), &question)?;
    let mut out: Box<dyn Write> = match &options.pcapng {
        Some(path) => {
            let file = File::create(path);
            Box::new(file.map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))?)
        }
        None => Box::new(io::stdout()),
    };
    let mut buffer = [0; 64 << 10];
    loop {
        let read = match frames.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            // The switch has stopped.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(e) => return Err(Failure::Bad(format!("the switch: {e}"))),
        };
        match out.write_all(&buffer[..read]).and_then(|()| out.flush()) {
            Ok(()) => {}
            // Whoever read it has seen enough.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(e) => return Err(Failure::Bad(format!("cannot write the capture: {e}"))),
        }
    }
}
