//! Traces: frames in one block of memory, in the order in which they are replayed.
//!
//! Every frame starts on a cache line. A trace is made of capture files (those of several ports are
//! interleaved, frame by frame) or of a use case's flows, each of which then lies in it once, or, if
//! there are few, in random order until the trace has [`FRAMES_MIN`] frames, so that no predictor
//! learns it by heart.

use super::cache::{large_pages, prefetch_second};
use super::cases::case::Case;
use super::frame::{LEN, LINE};
use control::failure::Failure;
use port::pcap::Reader;
use port::prng::Prng;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A trace of a use case has so many frames at least.
pub(crate) const FRAMES_MIN: usize = 16_384;
/// Bytes of all frames of a trace, at most.
const BYTES_MAX: usize = 4 << 30;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; LINE]);

/// Where a frame lies, and where it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    line: u32,
    len: u32,
    in_port: u32,
}

/// Frames to replay.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    lines: Vec<Line>,
    slots: Vec<Slot>,
    len_max: usize,
}

impl Trace {
    /// Adds a frame.
    pub(crate) fn push(&mut self, in_port: u32, bytes: &[u8]) {
        let slot = Slot { line: self.lines.len() as u32, len: bytes.len() as u32, in_port };
        for chunk in bytes.chunks(LINE) {
            let mut line = Line([0; LINE]);
            line.0[..chunk.len()].copy_from_slice(chunk);
            self.lines.push(line);
        }
        self.slots.push(slot);
        self.len_max = self.len_max.max(bytes.len());
    }

    /// How many frames.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory that the frames take.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * LINE
    }

    /// The longest frame's bytes.
    pub(crate) fn len_max(&self) -> usize {
        self.len_max
    }

    /// Ports that frames come in by, ascending.
    pub(crate) fn in_ports(&self) -> Vec<u32> {
        let mut ports: Vec<u32> = self.slots.iter().map(|s| s.in_port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Port, length, and first cache line of frame `n`.
    #[inline]
    pub(crate) fn head(&self, n: usize) -> (u32, usize, &[u8; LINE]) {
        const EMPTY: &[u8; LINE] = &[0; LINE];
        let slot = self.slots[n];
        let line = self.lines.get(slot.line as usize).map_or(EMPTY, |line| &line.0);
        (slot.in_port, slot.len as usize, line)
    }

    /// Frames from `n` on come next: they are fetched as near as a port would have put them.
    #[inline]
    pub(crate) fn announce(&self, n: usize, count: usize) {
        let Some(slots) = self.slots.get(n..) else { return };
        for slot in slots.iter().take(count) {
            prefetch_second(&self.lines, slot.line as usize);
        }
    }

    /// Copies frame `n` to the start of a buffer, which has room for it.
    pub(crate) fn copy(&self, n: usize, out: &mut [u8]) {
        let slot = self.slots[n];
        let lines = &self.lines[slot.line as usize..];
        let len = slot.len as usize;
        for (to, from) in out[..len].chunks_mut(LINE).zip(lines) {
            to.copy_from_slice(&from.0[..to.len()]);
        }
    }

    /// Port and bytes of frame `n`.
    pub(crate) fn frame(&self, n: usize) -> (u32, Vec<u8>) {
        let mut bytes = vec![0; self.slots[n].len as usize];
        self.copy(n, &mut bytes);
        (self.slots[n].in_port, bytes)
    }

    /// Of a use case's first `flows` flows, each changed by `change`.
    pub(crate) fn of_case(
        case: &dyn Case,
        flows: usize,
        mut change: impl FnMut(&mut super::frame::Flow),
    ) -> Trace {
        let mut random = Prng::new(0x7472_6163);
        let mut trace = Trace::default();
        let mut order: Vec<u32> = (0..flows as u32).collect();
        if flows < FRAMES_MIN {
            order = (0..FRAMES_MIN).map(|_| random.below(flows as u64) as u32).collect();
        } else {
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        trace.lines.reserve_exact(order.len());
        trace.slots.reserve_exact(order.len());
        large_pages(&mut trace.lines);
        large_pages(&mut trace.slots);
        for n in order {
            let mut flow = case.flow(n.into());
            change(&mut flow);
            trace.push(flow.in_port, &flow.bytes());
        }
        debug_assert_eq!(trace.len_max, LEN);
        trace
    }

    /// Of capture files, each with the port that its frames come in by; 1 where none is said.
    pub(crate) fn of_files(specs: &[String]) -> Result<Trace, Failure> {
        let mut readers = Vec::new();
        for spec in specs {
            let (port, path) = port_and_path(spec)?;
            let bad = |e: &dyn std::fmt::Display| Failure::Bad(format!("trace {path:?}: {e}"));
            let file = File::open(path).map_err(|e| bad(&e))?;
            let reader = Reader::new(BufReader::new(file)).map_err(|e| bad(&e))?;
            readers.push((port, path, Some(reader)));
        }
        let mut trace = Trace::default();
        while readers.iter().any(|(_, _, reader)| reader.is_some()) {
            for (port, path, slot) in &mut readers {
                let Some(reader) = slot else { continue };
                match reader.next_record() {
                    Ok(Some(record)) => trace.push(*port, record.data),
                    Ok(None) => *slot = None,
                    Err(e) => return Err(Failure::Bad(format!("trace {path:?}: {e}"))),
                }
                if trace.lines.len() > BYTES_MAX / LINE {
                    return Err(Failure::Bad(format!(
                        "the traces are too long: at most {BYTES_MAX} bytes are replayed"
                    )));
                }
            }
        }
        if trace.len() == 0 {
            return Err(Failure::bad("the traces have no frames"));
        }
        Ok(trace)
    }
}

/// `[PORT=]FILE`.
fn port_and_path(spec: &str) -> Result<(u32, &Path), Failure> {
    match spec.split_once('=') {
        Some((port, path)) if port.bytes().all(|b| b.is_ascii_digit()) => {
            let port = port.parse().ok().filter(|p| (1..=0xffff_ff00).contains(p));
            let port = port.ok_or_else(|| {
                Failure::usage(format!("trace {spec:?}: the port must be 1 to {}", 0xffff_ff00u32))
            })?;
            Ok((port, Path::new(path)))
        }
        _ => Ok((1, Path::new(spec))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_put_in() {
        let mut trace = Trace::default();
        let frames: Vec<Vec<u8>> = [0usize, 1, 60, 64, 65, 1500]
            .iter()
            .map(|len| (0..*len).map(|i| i as u8).collect())
            .collect();
        for (port, bytes) in (1..).zip(&frames) {
            trace.push(port, bytes);
        }
        for (n, bytes) in frames.iter().enumerate() {
            assert_eq!(trace.frame(n), (n as u32 + 1, bytes.clone()));
            let (port, len, head) = trace.head(n);
            assert_eq!((port, len), (n as u32 + 1, bytes.len()));
            let first = bytes.len().min(LINE);
            assert_eq!(head[..first], bytes[..first]);
        }
        assert_eq!((trace.len_max(), trace.in_ports()), (1500, vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn a_port_stands_before_the_file() {
        assert_eq!(port_and_path("a.pcap").unwrap(), (1, Path::new("a.pcap")));
        assert_eq!(port_and_path("7=a=b.pcap").unwrap(), (7, Path::new("a=b.pcap")));
        assert_eq!(port_and_path("x=b.pcap").unwrap(), (1, Path::new("x=b.pcap")));
        assert!(port_and_path("0=a").is_err() && port_and_path("99999999999=a").is_err());
    }

    #[test]
    fn captures_of_several_ports_are_interleaved() {
        let folder = tempfile::tempdir().unwrap();
        let mut specs = Vec::new();
        for (port, frames) in [(1u32, 3u8), (5, 1)] {
            let path = folder.path().join(format!("{port}.pcap"));
            let mut writer = port::pcap::Writer::new(File::create(&path).unwrap()).unwrap();
            (0..frames).for_each(|n| writer.write(0, &[n; 60]).unwrap());
            writer.flush().unwrap();
            specs.push(format!("{port}={}", path.display()));
        }
        let trace = Trace::of_files(&specs).unwrap();
        let ports: Vec<u32> = (0..trace.len()).map(|n| trace.frame(n).0).collect();
        assert_eq!(ports, [1, 5, 1, 1]);
        assert!(Trace::of_files(&["/nowhere/x.pcap".to_string()]).is_err());
    }
}
