//! Standard output, whose reader may stop reading: `millrace conntrack | head`.

use std::io::Write;

/// What the shell says of a process that SIGPIPE has ended.
const PIPE_BROKE: i32 = 128 + 13;

/// Writes to standard output. A reader that has gone away ends the process, as it ends others.
pub fn say(text: std::fmt::Arguments<'_>) {
    written(std::io::stdout().lock().write_fmt(text));
}

/// The same, of what need not be text.
pub fn say_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()));
}

fn written(outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            eprintln!("millrace: cannot write to standard output: {error}");
        }
        std::process::exit(PIPE_BROKE);
    }
}
