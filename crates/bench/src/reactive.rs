//! `millrace bench reactive`: how soon a controller's changes take effect, one new flow after another, beside traffic.
//!
//! For each new flow a controller sends a flow-mod, a barrier and a packet-out that the new entry forwards, so many flows
//! a second over one TCP connection. What is timed is the barrier's reply, from when the request was *due*: who comes late
//! has waited. The switch has one worker, and other flows' frames come in meanwhile. Runs with changes and runs without
//! take turns, so what the traffic loses by the changes is told.
//!
//! Each packet-out must have left by its flow's port when the run ends, else the bench ends with status 1.

use super::feed::Feed;
use super::frame::{Flow, Transport};
use super::load::{Served, load};
use super::measure::median;
use super::trace::Trace;
use super::wired;
use crate::options::BenchReactiveOptions;
use control::engine::EngineName;
use control::failure::Failure;
use control::program::tables::{self, Told};
use of_channel::connection::Timing;
use of_channel::{Channel, Config, Listen};
use of_pipeline::Agent;
use openflow::codec::{self, Frame};
use openflow::syntax::{self, Context};
use openflow::{
    Action, FlowMod, FlowModCommand, Hello, Match, Message, PacketOut, PortNo, TableId, Version,
    VersionSet, Xid,
};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use switch::{EngineKind, Switch};

/// What every answer must come within.
const PATIENCE: Duration = Duration::from_secs(20);
/// Ports: where traffic comes in, where it leaves, where new flows leave.
const IN: u32 = 1;
const OUT: u32 = 2;
const NEW: u32 = 3;
/// New flows are numbered from here on.
const FIRST_NEW: u32 = 1 << 20;
const VERSION: Version = Version::V13;
/// Changes of a run, at most.
const CHANGES_MAX: f64 = 4e6;

/// Flow `n`, as its frames show it. Flows differ in source address, port and the destination.
fn flow(n: u32) -> Flow {
    Flow {
        in_port: IN,
        dst_mac: 0x0200_0000_0002,
        src_mac: 0x0200_0000_0001,
        vlan: None,
        src: 0x0a00_0000 | n,
        dst: 0xc0a8_0000 | (n & 0xff),
        ttl: 64,
        transport: Transport::Tcp,
        src_port: 1024 + (n % 50_000) as u16,
        dst_port: 80,
    }
}

/// The entry that forwards flow `n`.
fn entry(n: u32, port: u32) -> String {
    let Flow { src, dst, src_port, dst_port, .. } = flow(n);
    let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
    format!(
        "priority=100,tcp,in_port={IN},nw_src={src},nw_dst={dst},tp_src={src_port},tp_dst={dst_port},\
         actions=output:{port}"
    )
}

/// A switch with a controller.
struct Bed {
    switch: Switch,
    feeds: Vec<Feed>,
    frames: usize,
    // Ends before the switch does.
    channel: Option<Channel>,
    to: TcpStream,
    xid: u32,
}

impl Bed {
    fn new(options: &BenchReactiveOptions) -> Result<Bed, Failure> {
        let mut trace = Trace::default();
        // A few rounds in a row, so that a slice has all of them.
        (0..options.flows.max(64)).for_each(|n| trace.push(IN, &flow(n % options.flows).bytes()));
        let engine = match options.engine {
            Some(EngineName::Interp) => EngineKind::Interp,
            Some(EngineName::Jit) | None => EngineKind::default(),
        };
        let switch = tables::start(1, Vec::new(), datapath::punt::RATE_DEFAULT, engine, None)?;
        let (feeds, _) = wired::wire(&switch, NEW, &trace, &[])?;
        let mut agent = Box::new(tables::agent(&switch, Some(1))?);
        let lines = (0..options.flows).map(|n| entry(n, OUT));
        for line in lines.chain(["priority=0,actions=CONTROLLER:128".to_owned()]) {
            tables::tell(&mut agent, Told::Flow, &line, &|_| None)
                .map_err(|e| Failure::Bad(format!("{line}: {e}")))?;
        }
        let agent: Arc<Mutex<Agent>> = Arc::new(Mutex::new(*agent));
        let config = Config {
            listeners: vec![Listen::Tcp { address: Ipv4Addr::LOCALHOST.into(), port: 0 }],
            timing: Timing { probe: Duration::from_secs(3600) },
            ..Config::default()
        };
        let channel = Channel::start(switch.clone(), agent, config).map_err(Failure::bad)?;
        let address: SocketAddr = match channel.listening().first() {
            Some(Listen::Tcp { address, port }) => (*address, *port).into(),
            other => return Err(Failure::Bad(format!("the switch listens on {other:?}"))),
        };
        let to = TcpStream::connect(address).map_err(Failure::bad)?;
        to.set_nodelay(true).map_err(Failure::bad)?;
        to.set_read_timeout(Some(PATIENCE)).map_err(Failure::bad)?;
        let frames = trace.len();
        let channel = Some(channel);
        let mut bed = Bed { switch, feeds, frames, channel, to, xid: 0 };
        let hello = Message::Hello(Hello { versions: Some(VersionSet::of(&[VERSION])) });
        bed.send(&[hello])?;
        bed.barrier()?;
        Ok(bed)
    }

    fn encode(&mut self, messages: &[Message]) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        for message in messages {
            self.xid += 1;
            codec::encode_into(&mut bytes, VERSION, Xid(self.xid), message)
                .map_err(Failure::bad)?;
        }
        Ok(bytes)
    }

    fn send(&mut self, messages: &[Message]) -> Result<(), Failure> {
        let bytes = self.encode(messages)?;
        self.to.write_all(&bytes).map_err(Failure::bad)
    }

    /// All that was sent before is done.
    fn barrier(&mut self) -> Result<(), Failure> {
        self.send(&[Message::BarrierRequest])?;
        replies(&self.to, 1, |_| {})
    }

    /// Takes the new flows away, and waits until the engine has come to rest.
    fn clear(&mut self) -> Result<(), Failure> {
        let delete = FlowMod {
            command: FlowModCommand::Delete,
            table_id: TableId::ALL,
            out_port: PortNo(NEW),
            ..FlowMod::add(Match::new(), Default::default())
        };
        self.send(&[Message::FlowMod(delete)])?;
        self.barrier()?;
        let until = Instant::now() + PATIENCE;
        while !self.switch.is_settled() {
            if Instant::now() > until {
                return Err(Failure::bad("the engine has not come to rest"));
            }
            self.switch.advance();
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// What a controller sends for the change `i` of a run.
    fn change(&mut self, i: u32, keep: Option<u32>) -> Result<Vec<u8>, Failure> {
        let context = Context::new(VERSION);
        let read = |n| syntax::parse_flow(&entry(n, NEW), &context).map_err(Failure::bad);
        let mut messages = Vec::new();
        if let Some(old) = keep.and_then(|keep| i.checked_sub(keep)) {
            let delete = FlowMod {
                command: FlowModCommand::DeleteStrict,
                instructions: Default::default(),
                ..read(FIRST_NEW + old)?
            };
            messages.push(Message::FlowMod(delete));
        }
        let n = FIRST_NEW + i;
        messages.push(Message::FlowMod(read(n)?));
        messages.push(Message::BarrierRequest);
        messages.push(Message::PacketOut(PacketOut {
            buffer_id: None,
            in_port: PortNo(IN),
            pipeline: Match::new(),
            actions: vec![Action::output(PortNo::TABLE)],
            data: flow(n).bytes().to_vec(),
        }));
        self.encode(&messages)
    }

    /// Traffic for so long, with so many changes a second beside it; the milliseconds that each barrier took.
    fn run(
        &mut self,
        options: &BenchReactiveOptions,
        rate: u64,
    ) -> Result<(Served, Vec<f64>), Failure> {
        let changes = (options.seconds * rate as f64) as u32;
        let requests: Result<Vec<Vec<u8>>, Failure> =
            (0..changes).map(|i| self.change(i, options.keep)).collect();
        let requests = requests?;
        let stop = AtomicBool::new(false);
        let (feed, part, pps) = (&self.feeds[IN as usize - 1], 0..self.frames, options.traffic());
        let began = Instant::now();
        let due = |i: usize| began + Duration::from_secs_f64(i as f64 / rate.max(1) as f64);
        let mut to = &self.to;
        std::thread::scope(|scope| {
            let traffic = scope.spawn(|| load(feed, &part, pps, &stop));
            let reading = scope.spawn(|| {
                let mut took = Vec::with_capacity(requests.len());
                replies(&self.to, requests.len(), |i| {
                    took.push(
                        (Instant::now().saturating_duration_since(due(i))).as_secs_f64() * 1e3,
                    );
                })?;
                Ok::<_, Failure>(took)
            });
            let sent = requests.iter().enumerate().try_for_each(|(i, bytes)| {
                std::thread::sleep(due(i).saturating_duration_since(Instant::now()));
                to.write_all(bytes).map_err(Failure::bad)
            });
            let took = reading.join();
            std::thread::sleep(
                Duration::from_secs_f64(options.seconds).saturating_sub(began.elapsed()),
            );
            stop.store(true, Ordering::Relaxed);
            let served =
                traffic.join().map_err(|_| Failure::bad("the traffic's thread panicked"))?;
            sent?;
            let took = took.map_err(|_| Failure::bad("the reading thread panicked"))??;
            Ok((served, took))
        })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.channel = None;
        self.switch.stop();
    }
}

/// Reads so many replies to barriers; `each` is called for every one as it comes.
fn replies(mut from: &TcpStream, count: usize, mut each: impl FnMut(usize)) -> Result<(), Failure> {
    let (mut bytes, mut seen) = (Vec::new(), 0);
    let mut chunk = [0; 1 << 16];
    while seen < count {
        let n = from.read(&mut chunk).map_err(|e| Failure::Bad(format!("no reply: {e}")))?;
        if n == 0 {
            return Err(Failure::bad("the switch closed the connection"));
        }
        bytes.extend_from_slice(&chunk[..n]);
        while let Frame::Message { length } = codec::frame(&bytes) {
            let message: Vec<u8> = bytes.drain(..length).collect();
            match codec::decode(VERSION, &message).map_err(Failure::bad)?.1 {
                Message::BarrierReply => {
                    each(seen);
                    seen += 1;
                }
                Message::Error(error) => {
                    return Err(Failure::Bad(format!("the switch refused a change: {error:?}")));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// `millrace bench reactive`.
pub(super) fn run(options: &BenchReactiveOptions) -> Result<(), Failure> {
    let right = options.seconds > 0.0
        && options.seconds * options.rate as f64 <= CHANGES_MAX
        && (1..=100).contains(&options.runs)
        && options.rate > 0
        && options.keep != Some(0)
        && (1..=FIRST_NEW).contains(&options.flows);
    if !right {
        return Err(Failure::usage(
            "--seconds, --rate and --keep must be above 0, at most 4 million changes a run; --runs 1 to 100, --flows 1 to 1048576",
        ));
    }
    let mut bed = Bed::new(options)?;
    bed.clear()?;
    let (mut quiet, mut changing, mut took, mut lost) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let before = bed.switch.ran();
    for _ in 0..options.runs {
        quiet.push(bed.run(options, 0)?.0);
        let sent = bed.feeds[NEW as usize - 1].sent();
        let (served, times) = bed.run(options, options.rate)?;
        bed.barrier()?;
        bed.switch.sync();
        let out = bed.feeds[NEW as usize - 1].sent() - sent;
        lost += times.len() as u64 - out.min(times.len() as u64);
        changing.push(served);
        took.extend(times);
        bed.clear()?;
    }
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() as f64 * share) as usize).min(took.len() - 1)];
    let ran = super::constructs::since(&bed.switch.ran(), &before);
    let value = json!({
        "changes": took.len(), "rate": options.rate, "keep": options.keep, "flows": options.flows,
        "pps": options.traffic(),
        "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "p999_ms": at(0.999), "most_ms": at(1.0),
        "packet_outs_lost": lost,
        "quiet": side(&quiet), "changing": side(&changing),
        "code": ran.code, "whole": ran.whole.packets, "interpreted": ran.interpreter.packets,
        "cpu": crate::measure::cpu(),
    });
    match options.json {
        true => println!("{value}"),
        false => print!("{}", text(&value)),
    }
    if lost > 0 {
        return Err(Failure::Bad(format!(
            "{lost} packet-outs were not forwarded by their flows' entries"
        )));
    }
    Ok(())
}

/// What became of the traffic in runs of a kind: medians, and the longest wait of them all.
fn side(runs: &[Served]) -> Value {
    let of = |figure: fn(&Served) -> f64| median(runs.iter().map(figure).collect());
    let behind = runs.iter().map(|run| run.behind as f64 / run.rate().max(1.0) * 1e3);
    json!({
        "rate": of(Served::rate), "served": of(Served::share),
        "ns": of(|run| run.spent * 1e9 / run.frames.max(1) as f64),
        "longest_wait_ms": behind.fold(0.0, f64::max),
    })
}

/// For people.
fn text(value: &Value) -> String {
    let mut out = format!(
        "{} new flows, {} a second, each with a barrier and a packet-out: {:.2} ms (p50), {:.2} (p90), {:.2} (p99), {:.2} \
         (p99.9), {:.2} (most)\n{} packet-outs lost\n",
        value["changes"],
        value["rate"],
        number(&value["p50_ms"]),
        number(&value["p90_ms"]),
        number(&value["p99_ms"]),
        number(&value["p999_ms"]),
        number(&value["most_ms"]),
        value["packet_outs_lost"],
    );
    for (name, key) in [("without changes", "quiet"), ("with changes", "changing")] {
        let side = &value[key];
        let line = format!(
            "traffic {name}: {:.3} million/s, {:.2} % of what came, {:.1} ns a packet, longest wait {:.2} ms\n",
            number(&side["rate"]) / 1e6,
            number(&side["served"]) * 100.0,
            number(&side["ns"]),
            number(&side["longest_wait_ms"]),
        );
        out.push_str(&line);
    }
    let ran = format!(
        "packets by code for bursts {}, for one packet {}, by the interpreter {}\n",
        value["code"], value["whole"], value["interpreted"]
    );
    out + &ran
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}
