//! The end of a process that has found a fault of its own: a thread that stands still, or one that has panicked. It says
//! so in one line and ends with [`BROKEN`], so that a supervisor starts it anew; a switch without one of its threads
//! would seem to live, and forward nothing.
//!
//! Nothing here waits for long, neither for a lock nor for who reads standard error.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;
use switch::{Still, Switch};

/// The exit status of a switch that has found a fault of its own.
pub(crate) const BROKEN: i32 = 70;

/// Who reads standard error is waited for so long.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Says why, and ends the process: no destructor is run, since what hangs may be in its way.
pub(crate) fn end(why: &str) -> ! {
    say(&format!("millrace: {why}; the process ends with status {BROKEN}\n"));
    signal_hook::low_level::exit(BROKEN)
}

/// Writes to standard error as far as its reader takes it.
fn say(text: &str) {
    let error = std::io::stderr();
    let mut fds = [PollFd::new(&error, PollFlags::OUT)];
    if poll(&mut fds, Some(&PATIENCE)).is_ok_and(|ready| ready > 0) {
        // Nobody is left to tell that it failed.
        let _ = rustix::io::write(&error, text.as_bytes());
    }
}

/// From now on a panic in any thread ends the process.
pub(crate) fn panics_end_the_process() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let place = panic.location().map_or_else(String::new, |at| format!(" at {at}"));
        let text = panic.payload_as_str().unwrap_or("no text").replace('\n', " ");
        end(&format!("thread {} panicked{place}: {text}", thread.name().unwrap_or("?")))
    }));
}

/// From now on a thread of this switch that does not move for so long ends the process.
pub(crate) fn watch(switch: &Switch, bound: Duration) -> std::io::Result<()> {
    switch.watch(bound, move |still| end(&stands_still(&still, bound)))
}

fn stands_still(still: &Still, bound: Duration) -> String {
    format!("{still} has stood still for {} seconds (--watchdog)", bound.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Set for the process that a test starts to see it end.
    const ROLE: &str = "MILLRACE_GUARD_TEST";

    /// Runs the test of this name in a process of its own, in a role; its status, and what it said.
    fn child(test: &str, role: &str) -> (Option<i32>, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn role() -> Option<String> {
        std::env::var(ROLE).ok()
    }

    #[test]
    fn a_panic_in_any_thread_is_one_line_and_the_end() {
        if role().is_some() {
            panics_end_the_process();
            let thread = std::thread::Builder::new().name("worker-7".into());
            // What it panics with is told; it does not come back.
            let _ = thread.spawn(|| panic!("two\nlines")).unwrap().join();
            unreachable!("the process has ended");
        }
        let (status, said) =
            child("guard::tests::a_panic_in_any_thread_is_one_line_and_the_end", "panic");
        assert_eq!(status, Some(BROKEN), "{said}");
        let lines: Vec<_> = said.lines().filter(|line| line.starts_with("millrace: ")).collect();
        let [line] = lines[..] else { panic!("{said}") };
        assert!(line.starts_with("millrace: thread worker-7 panicked at "), "{line}");
        assert!(line.ends_with(": two lines; the process ends with status 70"), "{line}");
    }

    #[test]
    fn a_thread_that_stands_still_is_named_and_the_end() {
        if role().is_some() {
            let kind = switch::EngineKind::Interp;
            let switch = crate::program::tables::start(1, Vec::new(), 1000, kind, None).unwrap();
            let pulse = switch.pulse("ctl");
            pulse.here();
            watch(&switch, Duration::from_secs(1)).unwrap();
            // Longer than any test may take.
            std::thread::sleep(Duration::from_secs(600));
            unreachable!("the process has ended");
        }
        let (status, said) =
            child("guard::tests::a_thread_that_stands_still_is_named_and_the_end", "still");
        assert_eq!(status, Some(BROKEN), "{said}");
        assert!(said.contains("millrace: ctl ("), "{said}");
        let end = ") has stood still for 1 seconds (--watchdog); the process ends with status 70\n";
        assert!(said.contains(end), "{said}");
    }

    #[test]
    fn a_reader_of_standard_error_that_has_stopped_is_in_nobody_s_way() {
        if role().is_some() {
            panics_end_the_process();
            panic!("nobody reads this");
        }
        let test = "guard::tests::a_reader_of_standard_error_that_has_stopped_is_in_nobody_s_way";
        let (_reader, mut writer) = std::io::pipe().unwrap();
        let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
        rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        while std::io::Write::write(&mut writer, &[b'x'; 4096]).is_ok() {}
        rustix::fs::fcntl_setfl(&writer, flags).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, "full");
        let status = command.stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(BROKEN));
    }
}
