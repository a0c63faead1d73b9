//! What a port writes a capture to: a file, or something that a reader takes from (a pipe, a terminal).
//!
//! A frame counts as sent once all of its record is with the operating system. A record that was written in part
//! is taken out of a file again, so that the file always ends with a whole one; of a pipe, the rest of it goes
//! first as soon as something can be written, and its frame counts as lost. A file that has no room is tried again
//! with each burst.
//!
//! Whoever reads a pipe may be slow: a worker waits for it for [`STALL_MAX`]. A reader that has taken nothing for
//! so long has stopped; nobody waits for it again before it takes something.
//!
//! Cost: a system call a burst. Checked by: the tests below.

use super::writer;
use crate::{DropReason, Error};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

/// A worker waits so long, once, for a reader that takes nothing.
const STALL_MAX: Duration = Duration::from_secs(1);

/// Where records go.
pub(super) trait Sink: Write {
    /// Makes it end after so many bytes again; false if it cannot, as with a pipe.
    fn cut(&mut self, len: u64) -> io::Result<bool>;
    /// Waits until something can be written, at most so long; says whether it can.
    fn wait(&mut self, at_most: Duration) -> bool;
}

/// An open file, pipe or device.
pub(super) struct Target {
    file: File,
    is_file: bool,
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Target {
    fn cut(&mut self, len: u64) -> io::Result<bool> {
        if !self.is_file {
            return Ok(false);
        }
        self.file.set_len(len)?;
        self.file.seek(SeekFrom::Start(len))?;
        Ok(true)
    }

    fn wait(&mut self, at_most: Duration) -> bool {
        let timeout = Timespec::try_from(at_most).ok();
        let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
        // An interrupted wait is a short one.
        poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

/// Makes the file anew, or opens the pipe or device.
pub(super) fn open(path: &Path) -> Result<Output<Target>, Error> {
    let shown = path.display().to_string();
    let failed = |action, e| Error::io(&shown, action, "", e);
    if std::fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo()) {
        tracing::info!(file = %shown, "opening a pipe waits for who reads it");
    }
    let file = File::create(path).map_err(|e| failed("creating the file", e))?;
    let is_file = file.metadata().map_err(|e| failed("asking for the file", e))?.is_file();
    if !is_file {
        // A worker must not wait in a write for as long as somebody who has stopped to read likes.
        let set = || {
            let flags = rustix::fs::fcntl_getfl(&file)?;
            rustix::fs::fcntl_setfl(&file, flags | OFlags::NONBLOCK)
        };
        set().map_err(|e: rustix::io::Errno| failed("setting the file's flags", e.into()))?;
    }
    Ok(Output::new(shown, Target { file, is_file }))
}

/// A capture that is written.
pub(super) struct Output<S> {
    name: String,
    sink: S,
    /// The file's header is written.
    begun: bool,
    /// Bytes of header and whole records in the file.
    whole: u64,
    /// Something of a record lies behind them.
    torn: bool,
    /// The rest of what was written to a pipe in part.
    owed: Vec<u8>,
    bytes: Vec<u8>,
    /// Where each frame's record ends in `bytes`.
    ends: Vec<usize>,
    /// The reader has stopped.
    stalled: bool,
    /// Frames lost since the last one that was written.
    lost: u64,
}

/// What became of a burst: so many frames were written, and the rest was lost for this reason.
pub(super) type Written = (usize, DropReason);

impl<S: Sink> Output<S> {
    fn new(name: String, sink: S) -> Output<S> {
        Output {
            name,
            sink,
            begun: false,
            whole: 0,
            torn: false,
            owed: Vec::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
            stalled: false,
            lost: 0,
        }
    }

    /// Writes the file's header, which otherwise comes with the first frames.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.write(std::iter::empty()).1
    }

    /// Writes frames with their times: so many were, and the rest was lost for this reason.
    pub(super) fn add<'a>(&mut self, frames: impl Iterator<Item = (u64, &'a [u8])>) -> Written {
        let (written, outcome) = self.write(frames);
        let lost = (self.ends.len() - written) as u64;
        let Err(error) = outcome else {
            if self.lost > 0 {
                tracing::info!(file = %self.name, lost = self.lost, "the capture is written again");
                self.lost = 0;
            }
            return (written, DropReason::TxIo);
        };
        let full = error.kind() == io::ErrorKind::WouldBlock;
        let reason = if full { DropReason::TxRingFull } else { DropReason::TxIo };
        if self.lost == 0 && lost > 0 {
            let error = if full { "its reader has stopped".to_owned() } else { error.to_string() };
            let reason = reason.name();
            tracing::warn!(file = %self.name, %error, reason, "the capture cannot be written: frames are lost");
        }
        self.lost += lost;
        (written, reason)
    }

    /// Writes what is owed, the header if it is not there, and frames; how many frames are written as a whole, and
    /// why no more.
    fn write<'a>(
        &mut self,
        frames: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> (usize, io::Result<()>) {
        self.bytes.clear();
        self.ends.clear();
        self.bytes.append(&mut self.owed);
        let owed = self.bytes.len();
        if !self.begun {
            self.bytes.extend(writer::header());
        }
        let first = self.bytes.len();
        for (ns, data) in frames {
            writer::record(&mut self.bytes, ns, data);
            self.ends.push(self.bytes.len());
        }
        let outcome = self.mend().and_then(|()| self.hand_on());
        let (done, error) = match outcome {
            Ok(()) => (self.bytes.len(), Ok(())),
            Err((done, error)) => (done, Err(error)),
        };
        let written = self.ends.iter().take_while(|end| **end <= done).count();
        // The last thing that is whole, and where the one ends that is not.
        let (last, next) = if written > 0 {
            (self.ends[written - 1], self.ends.get(written).copied())
        } else if done >= first {
            (first, self.ends.first().copied())
        } else if done >= owed {
            (owed, Some(first))
        } else {
            (0, Some(owed))
        };
        self.begun |= last >= first;
        self.whole += last as u64;
        self.torn |= done > last;
        if error.is_err() && (self.torn || last < owed) {
            match self.sink.cut(self.whole) {
                Ok(true) => self.torn = false,
                Ok(false) => {
                    // Nothing is between the parts of a record.
                    let rest = done..next.unwrap_or(done);
                    self.owed.extend_from_slice(&self.bytes[rest]);
                    self.begun |= done > owed;
                    self.torn = false;
                }
                // Before anything else is written, it is tried again.
                Err(_) => {}
            }
        }
        (written, error)
    }

    /// Takes out what lies behind the last whole record.
    fn mend(&mut self) -> Result<(), (usize, io::Error)> {
        if self.torn {
            self.sink.cut(self.whole).map_err(|error| (0, error))?;
            self.torn = false;
        }
        Ok(())
    }

    /// Hands the bytes on; if not all, says how many, and why.
    fn hand_on(&mut self) -> Result<(), (usize, io::Error)> {
        let mut done = 0;
        while done < self.bytes.len() {
            match self.sink.write(&self.bytes[done..]) {
                Ok(0) => return Err((done, io::ErrorKind::WriteZero.into())),
                Ok(n) => {
                    done += n;
                    self.stalled = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.stalled || !self.sink.wait(STALL_MAX) {
                        self.stalled = true;
                        return Err((done, error));
                    }
                }
                Err(error) => return Err((done, error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::*;
    use crate::prng::Prng;

    /// A file or pipe with so much room.
    struct Small {
        bytes: Vec<u8>,
        room: usize,
        is_file: bool,
        error: io::ErrorKind,
        waits: usize,
        cut_fails: bool,
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room);
            if n == 0 && !bytes.is_empty() {
                return Err(self.error.into());
            }
            self.bytes.extend_from_slice(&bytes[..n]);
            self.room -= n;
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for Small {
        fn cut(&mut self, len: u64) -> io::Result<bool> {
            if self.cut_fails {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if self.is_file {
                self.room += self.bytes.len() - len as usize;
                self.bytes.truncate(len as usize);
            }
            Ok(self.is_file)
        }
        fn wait(&mut self, _: Duration) -> bool {
            self.waits += 1;
            false
        }
    }

    fn small(room: usize, is_file: bool, error: io::ErrorKind) -> Output<Small> {
        let sink = Small { bytes: Vec::new(), room, is_file, error, waits: 0, cut_fails: false };
        Output::new("f".into(), sink)
    }

    fn add(output: &mut Output<Small>, frames: &[Vec<u8>]) -> Written {
        output.add(frames.iter().map(|frame| (1, frame.as_slice())))
    }

    fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut reader = Reader::new(bytes).unwrap();
        let mut frames = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            frames.push(record.data.to_vec());
        }
        frames
    }

    #[test]
    fn a_file_without_room_ends_with_a_whole_record_wherever_it_is_full() {
        let all: Vec<Vec<u8>> = (0..4u8).map(|n| vec![n; 60]).collect();
        for room in 0..24 + 4 * 76 + 5 {
            let mut output = small(room, true, io::ErrorKind::StorageFull);
            let fit = room.saturating_sub(24) / 76;
            assert_eq!(add(&mut output, &all), (fit.min(4), DropReason::TxIo), "{room}");
            if room >= 24 {
                assert_eq!(frames(&output.sink.bytes), all[..fit.min(4)], "{room}");
            } else {
                assert!(output.sink.bytes.is_empty(), "{room}");
            }
            // Room comes, and what is written then follows what was whole.
            output.sink.room = 1000;
            assert_eq!(add(&mut output, &all[..1]).0, 1);
            let kept = all[..fit.min(4)].iter().chain(&all[..1]);
            assert_eq!(frames(&output.sink.bytes), kept.cloned().collect::<Vec<_>>(), "{room}");
        }
    }

    #[test]
    fn what_cannot_be_taken_out_at_once_is_taken_out_before_anything_is_written() {
        let frame = vec![vec![7; 60]];
        let mut output = small(24 + 30, true, io::ErrorKind::StorageFull);
        output.sink.cut_fails = true;
        assert_eq!(add(&mut output, &frame).0, 0);
        output.sink.room = 1000;
        assert_eq!(add(&mut output, &frame).0, 0, "it is torn still");
        output.sink.cut_fails = false;
        assert_eq!(add(&mut output, &frame).0, 1);
        assert_eq!(frames(&output.sink.bytes), frame);
    }

    #[test]
    fn a_pipe_s_reader_sees_whole_records_and_is_waited_for_once() {
        let all: Vec<Vec<u8>> = (0..3u8).map(|n| vec![n; 60]).collect();
        for room in 0..24 + 3 * 76 {
            let mut output = small(room, false, io::ErrorKind::WouldBlock);
            let (first, reason) = add(&mut output, &all);
            assert_eq!((reason, output.sink.waits), (DropReason::TxRingFull, 1), "{room}");
            assert_eq!(add(&mut output, &all), (0, DropReason::TxRingFull));
            assert_eq!(output.sink.waits, 1, "not again, as it has stopped");
            output.sink.room = usize::MAX;
            let last = [vec![9; 60]];
            assert_eq!(add(&mut output, &last).0, 1, "{room}");
            // One that was begun is there, too.
            let seen = frames(&output.sink.bytes);
            let whole = seen.len() - 1;
            assert!(whole == first || whole == first + 1, "{room}: {first} {whole}");
            assert_eq!(seen[..whole], all[..whole]);
            assert_eq!(seen[whole..], last);
        }
    }

    #[test]
    fn trickles_of_room_never_break_a_stream() {
        for seed in 0..200 {
            let mut random = Prng::new(seed);
            let mut output = small(0, seed % 2 == 0, io::ErrorKind::WouldBlock);
            let mut sent = 0;
            for n in 0..40 {
                output.sink.room = random.below(200) as usize;
                let burst: Vec<Vec<u8>> = (0..random.below(4)).map(|_| vec![n; 20]).collect();
                sent += add(&mut output, &burst).0;
            }
            output.sink.room = usize::MAX;
            assert_eq!(add(&mut output, &[]).0, 0);
            let seen = frames(&output.sink.bytes).len();
            assert!(seen >= sent && (seen == sent || seed % 2 == 1), "{seed}: {seen} {sent}");
        }
    }

    #[test]
    fn a_device_without_room_takes_no_frame() {
        let mut output = open(Path::new("/dev/full")).unwrap();
        assert!(output.begin().is_err());
        let frame = [0; 60];
        let burst = || std::iter::repeat_n((1, &frame[..]), 5);
        assert_eq!(output.add(burst()), (0, DropReason::TxIo));
        assert_eq!((output.add(burst()), output.lost), ((0, DropReason::TxIo), 10));
        let mut output = open(Path::new("/dev/null")).unwrap();
        assert_eq!(output.add(burst()).0, 5);
    }
}
