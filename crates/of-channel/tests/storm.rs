//! A fuzzer that knows the protocol: 64 controllers of all versions at once, each sending requests of
//! every kind, right and damaged, some of them reading nothing. The switch must not fall, must not
//! grow without bounds, must answer who asks properly, and must go on forwarding.
//!
//! Settings: `MILLRACE_STORM`, seconds of storm (2; an hour before a release).

mod common;

use common::*;
use openflow::codec::{self, Header};
use openflow::testing::Rng;
use openflow::testing::arbitrary;
use openflow::{Hello, Message, Version, VersionSet, Xid};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CONTROLLERS: u64 = 64;
/// What all of it may take beyond what was there before: 64 times what a peer may cost, and what the
/// entries, groups and bundles of the requests take.
const GROWTH_MAX: u64 = 1 << 30;

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// A request of some kind, damaged now and then: a length that is wrong is left to others, as it ends
/// the connection.
fn request(rng: &mut Rng, version: Version, out: &mut Vec<u8>) {
    let message = arbitrary::message(rng, version);
    let start = out.len();
    if codec::encode_into(out, version, Xid(rng.u32()), &message).is_err() {
        out.truncate(start);
        return;
    }
    if rng.one_in(3) && out.len() > start + 8 {
        for _ in 0..1 + rng.below(4) {
            let at = start + 8 + rng.below(out.len() - start - 8);
            out[at] ^= 1 << rng.below(8);
        }
    }
    if rng.one_in(20) {
        // The end is missing, and the header says so.
        let cut = rng.below(out.len() - start - 7);
        out.truncate(out.len() - cut);
        let length = (out.len() - start) as u16;
        out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    if rng.one_in(50) {
        // A type that may not be there.
        out[start + 1] = rng.u8();
    }
}

fn hello(version: Version) -> Vec<u8> {
    let versions = Some(VersionSet::of(&[version]));
    codec::encode(version, Xid(1), &Message::Hello(Hello { versions })).unwrap()
}

/// One controller, which connects again whenever it is thrown out.
fn controller(address: std::net::SocketAddr, seed: u64, stop: &AtomicBool, sent: &AtomicU64) {
    let mut rng = Rng::new(seed);
    let reads = !seed.is_multiple_of(4);
    while !stop.load(Ordering::Relaxed) {
        let version = rng.choose(&Version::ALL);
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut bytes = hello(version);
        let mut chunk = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..1 + rng.below(20) {
                request(&mut rng, version, &mut bytes);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            // Who does not read is held up, and writes what it can.
            let gone = match stream.write(&bytes) {
                Ok(n) => {
                    bytes.drain(..n);
                    bytes.len() > 1 << 20
                }
                Err(e) => !matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ),
            };
            if gone || bytes.len() > 1 << 20 {
                break;
            }
            if reads {
                while let Ok(n @ 1..) = stream.read(&mut chunk) {
                    if n < chunk.len() {
                        break;
                    }
                }
            }
            if rng.one_in(200) {
                break;
            }
        }
    }
}

/// Lets the controllers end whatever becomes of the test.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_storm_of_requests_from_64_controllers() {
    let seconds = std::env::var("MILLRACE_STORM").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let bed = Bed::new(listening());
    let address = bed.address();
    let before = resident();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut most = 0;
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for seed in 0..CONTROLLERS {
            let (stop, sent) = (&stop, &sent);
            scope.spawn(move || controller(address, seed, stop, sent));
        }
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut taken = 0u64;
        while Instant::now() < until {
            // The packet path takes what comes: a full queue is emptied, unless a port-mod took the
            // port down.
            for n in 0..200 {
                if bed.hosts[0].inject_bytes(&frame(n, 60)) {
                    taken += 1;
                    continue;
                }
                wait_for("packets are taken", || {
                    let port = bed.switch.port(1);
                    bed.hosts[0].inject_bytes(&frame(n, 60))
                        || port.is_none_or(|p| p.config != Default::default())
                });
            }
            while bed.hosts[1].take().is_some() {}
            most = most.max(resident());
            std::thread::sleep(Duration::from_millis(20));
        }
        // Somebody who asks properly is answered in the midst of it.
        let mut proper = Controller::silent(bed.connect(), Version::V13);
        proper.stream.write_all(&hello(Version::V13)).unwrap();
        let xid = proper.send(&Message::EchoRequest(vec![7; 100]));
        let all = proper.until(xid);
        assert!(matches!(all.last(), Some((_, Message::EchoReply(data))) if data.len() == 100));
        assert!(taken > 0);
    });
    let growth = most.saturating_sub(before);
    println!("{} requests, {} MiB more at most", sent.load(Ordering::Relaxed), growth >> 20);
    assert!(growth < GROWTH_MAX, "{} MiB", growth >> 20);
    assert!(Header::parse(&hello(Version::V13)).is_some());
    // And afterwards all is as ever.
    let mut c = bed.controller(Version::V13);
    c.barrier();
}
