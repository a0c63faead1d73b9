//! `millrace bench flood`: the gateway's known users beside a flood of unknown ones, of whom a controller hears.
//!
//! The gateway is that of figure 8 in Molnár et al. ([`Gateway`]), with what it has in the paper and `bench pipeline`
//! leaves out: users that nobody has admitted go to the controller. Known users' frames come in by the port to the
//! Internet and by the one to the users, at a fixed rate; the flood comes in by a third, as fast as it is taken, so the one
//! worker is never idle. The copies are taken by a thread, as a control channel would take them.
//!
//! Told are the known users' rate with and without the flood, in turns; and, of a worker that has nothing else to do, what a
//! known user's frame takes beside an unknown one's.

use super::cases::Gateway;
use super::cases::case::{Case as _, anybody, draw};
use super::load::{Served, load};
use super::measure::median;
use super::trace::{FRAMES_MIN, Trace};
use super::wired::Wired;
use super::{cases::gateway, constructs::since};
use crate::options::BenchFloodOptions;
use control::failure::Failure;
use control::program::tables::Told;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use switch::{EngineKind, Ran};

/// The port that the flood comes in by.
const FLOOD: u32 = 3;
/// Frames of known users of each port.
const KNOWN: u64 = FRAMES_MIN as u64;
/// Frames of the flood: each of a source that no other has, as long as they last.
const UNKNOWN: u32 = 1 << 18;
/// Known users may lose so much of their rate.
const LOSS_MAX: f64 = 0.05;

/// The gateway's entries, and those that send unknown users to the controller.
fn entries(case: &Gateway) -> Vec<String> {
    let mut lines = Vec::new();
    case.entries(&mut |line| lines.push(line));
    for customer in 0..case.customers {
        let (vlan, table) = (Gateway::vlan(customer), Gateway::table(customer));
        lines.push(format!(
            "table=0,priority=100,in_port={FLOOD},dl_vlan={vlan},actions=pop_vlan,goto_table:{table}"
        ));
        lines.push(format!("table={table},priority=0,actions=CONTROLLER:128"));
    }
    lines
}

/// A switch with the gateway, and all traffic.
fn wired(case: &Gateway, options: &BenchFloodOptions) -> Result<Wired, Failure> {
    let mut trace = Trace::default();
    let mut random = draw(0x666c, 0);
    for n in 0..KNOWN * 2 {
        // Flows of an even number are users', those of an odd one the Internet's.
        let flow = random.below(options.active_flows as u64) & !1 | n & 1;
        let flow = case.flow(flow);
        trace.push(flow.in_port, &flow.bytes());
    }
    for n in 0..UNKNOWN {
        let customer = n % case.customers;
        // Behind all users that there are.
        let user = gateway::USERS_MAX + n;
        let flow = anybody(&mut random);
        let dst = 0x0800_0000 | (random.next_u64() as u32 >> 8);
        let mut flow = Gateway::upstream(customer, user, dst, flow);
        flow.in_port = FLOOD;
        trace.push(FLOOD, &flow.bytes());
    }
    let mut wired = Wired::openflow(EngineKind::default(), options.punt_rate, FLOOD, &trace)?;
    for line in entries(case) {
        wired.tell(Told::Flow, &line).map_err(|e| Failure::Bad(format!("{line}: {e}")))?;
    }
    wired.settle()?;
    Ok(wired)
}

/// Known users' frames for so long, with or without the flood: what became of either, and copies for the controller.
fn beside(
    wired: &mut Wired,
    options: &BenchFloodOptions,
    flooded: bool,
) -> Result<(Served, Served, u64), Failure> {
    let (stop, deaf) = (AtomicBool::new(false), AtomicBool::new(false));
    let switch = wired.switch().clone();
    let feeds = [gateway::ACCESS, gateway::INTERNET, FLOOD].map(|port| wired.feed(port));
    std::thread::scope(|scope| {
        let (stop, deaf) = (&stop, &deaf);
        let known = [feeds[0], feeds[1]].map(|feed| {
            let pps = Some(options.pps / 2);
            scope.spawn(move || load(feed, &(0..KNOWN as usize), pps, stop))
        });
        let flood = flooded
            .then(|| scope.spawn(move || load(feeds[2], &(0..UNKNOWN as usize), None, stop)));
        let copies = scope.spawn(move || {
            let mut copies = 0;
            while !deaf.load(Ordering::Relaxed) {
                while switch.try_message().is_some() {
                    copies += 1;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            copies
        });
        std::thread::sleep(Duration::from_secs_f64(options.seconds));
        stop.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::bad("a thread of the traffic panicked");
        let [up, down] = known.map(|thread| thread.join().map_err(panicked));
        let flood = flood.map_or(Ok(Served::default()), |thread| thread.join().map_err(panicked));
        deaf.store(true, Ordering::Relaxed);
        let copies = copies.join().map_err(panicked)?;
        let (up, down) = (up?, down?);
        let known = Served {
            frames: up.frames + down.frames,
            due: up.due + down.due,
            seconds: up.seconds.max(down.seconds),
            spent: up.spent + down.spent,
            behind: up.behind.max(down.behind),
        };
        Ok((known, flood?, copies))
    })
}

/// Nanoseconds that a frame of a port takes a worker that has nothing else to do.
fn alone(wired: &mut Wired, port: u32, options: &BenchFloodOptions) -> Result<f64, Failure> {
    let until = Instant::now() + Duration::from_secs_f64(options.seconds / 10.0);
    let mut ns = Vec::new();
    while ns.is_empty() || Instant::now() < until {
        ns.push(wired.run(port, KNOWN, false)?.0.ns());
        wired.pump();
    }
    Ok(median(ns))
}

/// `millrace bench flood`.
pub(super) fn run(options: &BenchFloodOptions) -> Result<(), Failure> {
    let Some(case) = Gateway::parse(&options.gateway) else {
        return Err(Failure::Usage(format!(
            "{:?} is no gateway: CUSTOMERSxUSERS,ROUTES",
            options.gateway
        )));
    };
    let right = options.seconds > 0.0
        && options.seconds <= 60.0
        && (1..=100).contains(&options.runs)
        && options.pps > 1
        && (2..=1 << 24).contains(&options.active_flows);
    if !right {
        return Err(Failure::usage(
            "--seconds must be above 0 and at most 60, --runs 1 to 100, --pps and --active-flows 2 at least",
        ));
    }
    let mut wired = wired(&case, options)?;
    let before = wired.switch().ran();
    let mut ns: [Vec<f64>; 3] = Default::default();
    let (mut quiet, mut known, mut flood, mut kept, mut copies) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.runs {
        for (port, ns) in [gateway::ACCESS, gateway::INTERNET, FLOOD].into_iter().zip(&mut ns) {
            ns.push(alone(&mut wired, port, options)?);
        }
        let without = beside(&mut wired, options, false)?.0;
        let (with, unknown, told) = beside(&mut wired, options, true)?;
        kept.push(with.rate() / without.rate());
        quiet.push(without.rate());
        known.push(with.rate());
        flood.push(unknown.rate());
        copies.push(told as f64 / unknown.seconds);
    }
    let ran = since(&wired.switch().ran(), &before);
    let kept = median(kept);
    let [up, down, unknown] = ns.map(median);
    let value = json!({
        "gateway": options.gateway, "pps": options.pps,
        "known_ns": (up + down) / 2.0, "unknown_ns": unknown,
        "known_quiet": median(quiet), "known_flooded": median(known), "kept": kept,
        "flood": median(flood), "copies": median(copies),
        "whole": ran.of(Ran::Whole).0, "interpreted": ran.of(Ran::Interpreter).0, "cpu": crate::measure::cpu(),
    });
    match options.json {
        true => println!("{value}"),
        false => print!("{}", text(&value)),
    }
    if options.check && kept < 1.0 - LOSS_MAX {
        return Err(Failure::Bad(format!("known users kept {:.1} % of their rate", kept * 100.0)));
    }
    if options.check && ran.of(Ran::Interpreter).0 > 0 {
        return Err(Failure::bad("packets were interpreted"));
    }
    Ok(())
}

/// For people.
fn text(value: &Value) -> String {
    let number = |key: &str| value[key].as_f64().unwrap_or(0.0);
    format!(
        "a frame of a known user takes {:.1} ns, of an unknown one {:.1}\n\
         known users: {:.3} million/s without the flood, {:.3} with it: {:.2} %\n\
         the flood beside: {:.3} million/s, {:.0} copies a second for the controller\n\
         packets by code for one packet {}, by the interpreter {}\n",
        number("known_ns"),
        number("unknown_ns"),
        number("known_quiet") / 1e6,
        number("known_flooded") / 1e6,
        number("kept") * 100.0,
        number("flood") / 1e6,
        number("copies"),
        value["whole"],
        value["interpreted"],
    )
}
