//! Lines to a file or to standard error, written by a thread of their own.
//!
//! Whoever has a line puts it into a ring and goes on: a reader that has stopped reading (a stalled
//! journal, a paused terminal, a full pipe) costs lines, and never holds up who logs. What finds no
//! room is counted, and said in a line of its own once lines are written again.
//!
//! Invariants: lines come out whole and in their order; at most [`LINES_MAX`] lines and [`BYTES_MAX`]
//! bytes wait.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lines that wait, at most.
const LINES_MAX: usize = 8192;
/// Bytes that wait, at most.
const BYTES_MAX: usize = 8 << 20;
/// The thread looks for what is to be said besides so often.
const TICK: Duration = Duration::from_secs(1);

/// Where lines go.
pub(super) trait Sink: Send {
    /// Writes one or more whole lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;
    /// No more lines wait: what is buffered may be written out.
    fn rest(&mut self) {}
    /// So many lines were lost since that was last said.
    fn lost(&self, lines: u64) -> Vec<u8>;
    /// What else is to be said now.
    fn tick(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// What puts lines in. Clones share the ring.
#[derive(Clone)]
pub(super) struct Lines {
    sender: SyncSender<Vec<u8>>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    bytes: AtomicUsize,
    lost: AtomicU64,
    /// Lost since the start.
    lost_in_all: AtomicU64,
    /// Lines put in and not written yet.
    pending: Mutex<usize>,
    written: Condvar,
}

impl State {
    fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
        self.lost_in_all.fetch_add(1, Relaxed);
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, usize> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// Starts the thread.
    pub(super) fn start(name: &str, sink: Box<dyn Sink>) -> io::Result<Lines> {
        let (sender, receiver) = sync_channel(LINES_MAX);
        let state = Arc::<State>::default();
        let lines = Lines { sender, state: state.clone() };
        std::thread::Builder::new()
            .name(name.to_string())
            .spawn(move || write_all(&receiver, &state, sink))?;
        Ok(lines)
    }

    /// Puts whole lines in, or counts them as lost. Never waits.
    pub(super) fn put(&self, lines: &[u8]) {
        let size = lines.len();
        // Relaxed: the count bounds memory and guards nothing.
        if self.state.bytes.fetch_add(size, Relaxed) + size > BYTES_MAX {
            self.state.bytes.fetch_sub(size, Relaxed);
            return self.state.lose();
        }
        *self.state.pending() += 1;
        match self.sender.try_send(lines.to_vec()) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                *self.state.pending() -= 1;
                self.state.bytes.fetch_sub(size, Relaxed);
                self.state.lose();
            }
        }
    }

    /// Waits until all lines are written, at most so long.
    pub(super) fn flush(&self, most: Duration) -> bool {
        let pending = self.state.pending();
        let waited = self.state.written.wait_timeout_while(pending, most, |pending| *pending > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }

    /// Lines lost since the start.
    pub(super) fn lost(&self) -> u64 {
        self.state.lost_in_all.load(Relaxed)
    }
}

fn write_all(receiver: &Receiver<Vec<u8>>, state: &State, mut sink: Box<dyn Sink>) {
    loop {
        let item = match receiver.try_recv() {
            Ok(item) => Ok(item),
            Err(_) => {
                sink.rest();
                receiver.recv_timeout(TICK)
            }
        };
        match item {
            Ok(line) => {
                state.bytes.fetch_sub(line.len(), Relaxed);
                if sink.write(&line).is_err() {
                    state.lose();
                }
                tell_lost(state, &mut *sink);
                let mut pending = state.pending();
                *pending -= 1;
                if *pending == 0 {
                    drop(pending);
                    sink.rest();
                    state.written.notify_all();
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let more = sink.tick();
                if !more.is_empty() && sink.write(&more).is_err() {
                    state.lose();
                }
                tell_lost(state, &mut *sink);
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn tell_lost(state: &State, sink: &mut dyn Sink) {
    let lost = state.lost.swap(0, Relaxed);
    if lost > 0 {
        let line = sink.lost(lost);
        if sink.write(&line).is_err() {
            // They are told of when something can be written.
            state.lost.fetch_add(lost, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Writes when it is let.
    struct Gate {
        open: mpsc::Receiver<()>,
        out: Arc<Mutex<Vec<u8>>>,
        passed: bool,
        entered: mpsc::Sender<()>,
    }

    impl Sink for Gate {
        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            if !self.passed {
                self.entered.send(()).unwrap();
                self.open.recv().unwrap();
                self.passed = true;
            }
            self.out.lock().unwrap().extend_from_slice(lines);
            Ok(())
        }

        fn lost(&self, lines: u64) -> Vec<u8> {
            format!("{lines} lost\n").into_bytes()
        }
    }

    #[test]
    fn who_logs_goes_on_while_nobody_reads_and_what_was_lost_is_said() {
        let (open, gate) = mpsc::channel();
        let (entered, inside) = mpsc::channel();
        let out = Arc::<Mutex<Vec<u8>>>::default();
        let sink = Gate { open: gate, out: out.clone(), passed: false, entered };
        let lines = Lines::start("test", Box::new(sink)).unwrap();
        lines.put(b"first\n");
        // The thread stands in its write from here on.
        inside.recv().unwrap();
        let extra = 500;
        for n in 0..LINES_MAX + extra {
            lines.put(format!("{n}\n").as_bytes());
        }
        assert!(!lines.flush(Duration::from_millis(1)), "nobody reads");
        assert_eq!(lines.lost(), extra as u64);
        open.send(()).unwrap();
        assert!(lines.flush(Duration::from_secs(60)));
        let text = String::from_utf8(out.lock().unwrap().clone()).unwrap();
        let all: Vec<&str> = text.lines().collect();
        assert_eq!(all[..4], ["first", "500 lost", "0", "1"]);
        assert_eq!(all.len(), 2 + LINES_MAX);
    }

    #[test]
    fn bytes_are_bounded() {
        let (open, gate) = mpsc::channel();
        let (entered, inside) = mpsc::channel();
        let out = Arc::<Mutex<Vec<u8>>>::default();
        let sink = Gate { open: gate, out, passed: false, entered };
        let lines = Lines::start("test", Box::new(sink)).unwrap();
        lines.put(b"first\n");
        inside.recv().unwrap();
        let long = vec![b'x'; 1 << 20];
        (0..20).for_each(|_| lines.put(&long));
        assert_eq!(lines.lost(), 12);
        open.send(()).unwrap();
        assert!(lines.flush(Duration::from_secs(60)));
        lines.put(&long);
        assert!(lines.flush(Duration::from_secs(60)));
        assert_eq!(lines.lost(), 12, "there is room again");
    }

    #[test]
    fn many_threads_may_log() {
        struct Count(Arc<Mutex<usize>>);
        impl Sink for Count {
            fn write(&mut self, lines: &[u8]) -> io::Result<()> {
                assert_eq!(lines.last(), Some(&b'\n'));
                *self.0.lock().unwrap() += 1;
                Ok(())
            }

            fn lost(&self, _: u64) -> Vec<u8> {
                b"lost\n".to_vec()
            }
        }
        let count = Arc::<Mutex<usize>>::default();
        let lines = Lines::start("test", Box::new(Count(count.clone()))).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| lines.put(b"line\n")));
            }
        });
        assert!(lines.flush(Duration::from_secs(60)));
        assert!(*count.lock().unwrap() + lines.lost() as usize >= 4000);
    }
}
