//! `millrace bench p4runtime --swaps N`: programs replaced by RECONCILE_AND_COMMIT under traffic and writes.
//!
//! Frames come in by one port at a fixed rate, and a table of hosts sends each to another. A client writes one entry after
//! another at a fixed rate; a second connection pushes programs in turn, one with a table more and one without. At the end
//! each frame has to have come through, and each entry that was taken has to be there.

use super::client::{Client, framed};
use super::subject::{PROGRAM, Subject, start};
use crate::load::{Served, load};
use crate::measure::median;
use crate::options::BenchP4RuntimeOptions;
use crate::trace::Trace;
use crate::wired::wire;
use control::failure::Failure;
use p4::limits::Limits;
use p4_runtime::config::compile;
use p4_runtime::proto::v1;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use v1::set_forwarding_pipeline_config_request::Action;
use v1::update::Type;

/// Frames a second.
const PPS: u64 = 100_000;
/// Writes a second.
const WRITES: f64 = 1000.0;
/// Between the end of a swap and the next one.
const PAUSE: Duration = Duration::from_millis(200);
/// All frames have come through by then, or are lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// Hosts that frames go to; those behind them are written meanwhile.
const HOSTS: usize = 256;
/// Where frames go.
const OUT: u32 = 2;

/// A frame to a host.
fn frame(address: u32) -> [u8; 60] {
    let mut frame = [0u8; 60];
    (frame[5], frame[11]) = (2, 1);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[17] = 46;
    (frame[22], frame[23]) = (64, 17);
    frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
    frame[30..34].copy_from_slice(&address.to_be_bytes());
    frame
}

/// The program, and the same with a table more.
fn pushes() -> Result<[tonic::codegen::Bytes; 2], Failure> {
    let more = PROGRAM
        .replace("    apply {", "    table more { key = { h.ipv4.protocol: exact; } actions = { drop; } }\n    apply {\n        more.apply();");
    let push = |text: &str| {
        let built = compile(text, Limits::default()).map_err(|e| Failure::Bad(e.text))?;
        let config = v1::ForwardingPipelineConfig {
            p4info: Some(built.info),
            p4_device_config: text.as_bytes().to_vec(),
            cookie: None,
        };
        Ok::<_, Failure>(framed(&v1::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(v1::Uint128 { high: 0, low: 1 }),
            action: Action::ReconcileAndCommit as i32,
            config: Some(config),
            ..v1::SetForwardingPipelineConfigRequest::default()
        }))
    };
    // The one with it comes first: the program runs already.
    Ok([push(&more)?, push(PROGRAM)?])
}

/// What a writer has done.
struct Written {
    entries: usize,
    seconds: f64,
    /// The longest wait for an answer, in seconds.
    longest: f64,
}

/// Writes until told to stop.
fn write(client: &Client, subject: &Subject, stop: &AtomicBool) -> Result<Written, Failure> {
    let (began, mut written, mut longest) = (Instant::now(), 0, 0f64);
    while !stop.load(Ordering::Relaxed) {
        if (written as f64) < began.elapsed().as_secs_f64() * WRITES {
            let n = HOSTS + written;
            let request = framed(&subject.requests.entries(Type::Insert, n..n + 1));
            let asked = Instant::now();
            client.write(&request)?;
            longest = longest.max(asked.elapsed().as_secs_f64());
            written += 1;
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    Ok(Written { entries: written, seconds: began.elapsed().as_secs_f64(), longest })
}

pub(super) fn run(options: &BenchP4RuntimeOptions, swaps: u32) -> Result<(), Failure> {
    let subject = start()?;
    let mut trace = Trace::default();
    for n in 0..HOSTS {
        trace.push(1, &frame(super::requests::address(n)));
    }
    let (feeds, _) = wire(&subject.switch, OUT, &trace, &[])?;
    let mut client = Client::connect(subject.server.address())?;
    client.arbitrate()?;
    client.write(&framed(&subject.requests.to_port(0..HOSTS, OUT)))?;
    let pusher = Client::connect(subject.server.address())?;
    let pushes = pushes()?;
    let stop = AtomicBool::new(false);
    let sent_before = feeds[1].sent();
    let mut took = Vec::new();
    let (served, written) = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| load(&feeds[0], &(0..HOSTS), Some(PPS), &stop));
        let writer = scope.spawn(|| write(&client, &subject, &stop));
        let pushed = (0..swaps).try_for_each(|n| {
            std::thread::sleep(PAUSE);
            let asked = Instant::now();
            pusher.push(&pushes[n as usize % 2])?;
            took.push(asked.elapsed().as_secs_f64());
            Ok::<_, Failure>(())
        });
        std::thread::sleep(PAUSE);
        stop.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::bad("a thread of the bench panicked");
        let served = traffic.join().map_err(panicked);
        let written = writer.join().map_err(panicked)?;
        pushed?;
        Ok::<(Served, Written), Failure>((served?, written?))
    })?;
    let until = Instant::now() + PATIENCE;
    let sent = || feeds[1].sent() - sent_before;
    while sent() < served.due && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let lost = served.due.saturating_sub(sent());
    let Written { entries: writes, seconds, longest } = written;
    // A writer that waits for answers may be slower than it is to be.
    let rate = writes as f64 / seconds;
    let held = client.read(&subject.requests.all_entries())?;
    let there = subject.requests.how_many(&held, HOSTS..HOSTS + writes);
    let lost_writes = writes - there;
    let swap = median(took);
    if options.json {
        let all = json!({
            "swaps": swaps, "swap_s": swap, "frames": served.due, "frames_lost": lost, "writes": writes,
            "writes_lost": lost_writes, "writes_per_s": rate, "longest_write_s": longest,
        });
        println!("{all}");
    } else {
        println!("{swaps} swaps, {:.1} ms each, the program's compilation with it", swap * 1e3);
        println!("{} frames at {PPS}/s, {lost} lost", served.due);
        println!(
            "{writes} writes at {rate:.0}/s of {WRITES}/s, {lost_writes} lost; the longest took {:.1} ms",
            longest * 1e3
        );
    }
    match lost == 0 && lost_writes == 0 {
        true => Ok(()),
        false => Err(Failure::Bad(format!("{lost} frames and {lost_writes} writes are lost"))),
    }
}
