//! `millrace bench use-case ovn`: the flow tables of an OVN chassis, with traffic between its ports.
//!
//! In: what `ovs-ofctl` dumped of the chassis's switch (flows, groups, meters). Its hosts are found there: table 0 says
//! which logical port a port is, and the port security's entries say which addresses that has. Two hosts of different
//! logical switches talk by their router, whose address is tried out: the first with which a frame comes out at the other.
//!
//! Three kinds of traffic, each in a switch of its own behind ports in memory ([`wired`](super::wired)): one connection;
//! many; and a port scan, in which every frame would begin a connection. Connections shake hands first; what is timed is
//! data both ways.
//!
//! With `--out` all of it is written to files: entries, groups, meters, and captures by port of what is timed and, named
//! `begin1` to `begin3`, of the shaking of hands before it.
//!
//! Entries with what the switch does not know are left out and counted.
//!
//! Before anything is timed, a switch that interprets everything gets the same frames and must send the same bytes.

use super::constructs::since;
use super::frame::{Flow, Transport};
use super::measure::{Sample, median};
use super::trace::Trace;
use super::wired::Wired;
use crate::options::BenchUseCaseOptions;
use contract::tunnel::OptionMap;
use control::failure::Failure;
use control::program::tables::Told;
use openflow::{FieldId, Match, TlvMapping};
use port::prng::Prng;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use switch::{EngineKind, Ran};
use wire::MacAddr;

/// Frames of the scan, each with ports of its own: no more are sent.
const SCANNED: usize = 1 << 18;
/// Runs, at most: the scan's frames last for so many.
const RUNS_MAX: usize = 100;
/// Frames of data that are compared with what the interpreter sends, of each port.
const COMPARED: u64 = 2048;
/// Copies to the control side a second, as a switch has them by default.
const PUNT_RATE: u64 = datapath::punt::RATE_DEFAULT;
/// What the switch does not know yet is refused so.
const UNKNOWN: &str = "not supported yet";

/// What a chassis's switch is told.
struct Tables {
    lines: Vec<(Told, String)>,
    /// Entries that were left out, by why.
    without: BTreeMap<String, usize>,
    ports: u32,
    /// Geneve options that have fields.
    options: Vec<TlvMapping>,
    /// Ports whose packets come out of tunnels: entries ask for their keys.
    tunnels: Vec<u32>,
}

/// A virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host {
    port: u32,
    /// Its logical switch, and its port there.
    datapath: u64,
    logical: u64,
    mac: u64,
    ip: Ipv4Addr,
}

/// Who sends to whom, and to which hardware address.
#[derive(Clone, Copy, Debug)]
struct Pair {
    from: Host,
    to: Host,
    dst_mac: u64,
    back_mac: u64,
}

/// `millrace bench use-case ovn`.
pub(super) fn run(options: &BenchUseCaseOptions) -> Result<(), Failure> {
    let right = options.seconds > 0.0 && options.seconds <= 60.0;
    if !right || !(1..=RUNS_MAX).contains(&options.runs) {
        return Err(Failure::Usage(format!(
            "--seconds must be above 0 and at most 60, --runs 1 to {RUNS_MAX}"
        )));
    }
    let files = files(options)?;
    let tables = Tables::read(&files, mapped(options)?)?;
    let (pairs, remote) = pairs(&tables)?;
    let flows = match options.active_flows {
        Some(flows @ 1..=60_000) => flows,
        Some(_) => return Err(Failure::usage("--active-flows must be 1 to 60000")),
        None => 10_000,
    };
    let mut traffic = vec![
        ("one flow".to_owned(), Traffic::connections(&pairs[..1], 1)?),
        (format!("{flows} flows"), Traffic::connections(&pairs, flows)?),
        ("port scan".to_owned(), Traffic::scan(&pairs[0])?),
    ];
    if let Some((remote, tunnel)) = remote {
        let from = &pairs[0].from;
        traffic.push(("into a tunnel".to_owned(), Traffic::into_tunnel(from, remote, flows)?));
        let back = Traffic::out_of_tunnel(from, (remote, tunnel), &tables.map(), flows)?;
        traffic.push(("out of a tunnel".to_owned(), back));
    }
    if let Some(out) = &options.out {
        return write(out, &files, &traffic);
    }
    let rows: Result<Vec<Value>, Failure> =
        traffic.iter().map(|(name, traffic)| measure(name, traffic, &tables, options)).collect();
    let rows = rows?;
    let entries = tables.lines.iter().filter(|(what, _)| *what == Told::Flow).count();
    let value = json!({
        "use_case": "ovn", "entries": entries, "left_out": tables.without, "traffic": rows,
        "pairs": pairs.len(), "cpu": crate::measure::cpu(),
    });
    match options.json {
        true => println!("{value}"),
        false => print!("{}", text(&value)),
    }
    let interpreted = |row: &Value| row["interpreted"].as_f64().unwrap_or(0.0) > 0.0;
    if options.check && rows.iter().any(interpreted) {
        return Err(Failure::bad("packets were interpreted"));
    }
    Ok(())
}

/// The files of the chassis: those that are named, or those of a folder with its name in theirs.
fn files(options: &BenchUseCaseOptions) -> Result<Vec<(Told, PathBuf)>, Failure> {
    let named = [
        (Told::Meter, &options.meters),
        (Told::Group, &options.groups),
        (Told::Flow, &options.flows),
    ];
    let named =
        named.into_iter().flat_map(|(what, paths)| paths.iter().map(move |p| (what, p.clone())));
    let mut files: Vec<(Told, PathBuf)> = named.collect();
    if let Some(folder) = &options.from {
        let unread = |e| Failure::Bad(format!("cannot read {}: {e}", folder.display()));
        let mut there: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unread)? {
            there.push(entry.map_err(unread)?.file_name().to_string_lossy().into_owned());
        }
        there.sort();
        for (what, begins) in
            [(Told::Meter, "meters-"), (Told::Group, "groups-"), (Told::Flow, "flows-")]
        {
            let own = |name: &&String| {
                let rest = name.strip_prefix(begins).and_then(|n| n.strip_prefix(&options.chassis));
                rest.is_some_and(|rest| rest.starts_with(['-', '.']))
            };
            files.extend(there.iter().filter(own).map(|name| (what, folder.join(name))));
        }
    }
    if !files.iter().any(|(what, _)| *what == Told::Flow) {
        return Err(Failure::usage(
            "say what the chassis was programmed with: --from FOLDER, or --flows FILE with --groups and --meters",
        ));
    }
    Ok(files)
}

/// The map of Geneve options, as `ovs-ofctl dump-tlv-map` writes it, if the folder has that of the chassis.
fn mapped(options: &BenchUseCaseOptions) -> Result<Vec<TlvMapping>, Failure> {
    let Some(folder) = &options.from else { return Ok(Vec::new()) };
    let path = folder.join(format!("tlvmap-{}.txt", options.chassis));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::Bad(format!("cannot read {}: {error}", path.display()))),
    };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [class, kind, len, field] = words[..] else { return None };
        Some(TlvMapping {
            class: parse(class)? as u16,
            kind: parse(kind)? as u8,
            len: parse(len)? as u8,
            index: parse(field.strip_prefix("tun_metadata")?)? as u16,
        })
    };
    Ok(text.lines().filter_map(line).collect())
}

impl Tables {
    /// Reads the files, and tries out which of their lines the switch takes.
    fn read(files: &[(Told, PathBuf)], options: Vec<TlvMapping>) -> Result<Tables, Failure> {
        let (lines, without, tunnels) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut tables = Tables { lines, without, ports: 1, options, tunnels };
        let mut wired = Wired::openflow(EngineKind::Interp, PUNT_RATE, 0, &Trace::default())?;
        wired.map_options(tables.options.clone())?;
        for (what, path) in files {
            control::program::tables::each_line(path, |line| {
                match wired.tell(*what, line) {
                    Ok(()) => tables.lines.push((*what, line.to_owned())),
                    Err(why) if why.contains(UNKNOWN) => {
                        let why = why.rsplit_once(": `").map_or(why.as_str(), |(_, why)| why);
                        *tables.without.entry(why.replace('`', "")).or_default() += 1;
                    }
                    Err(why) => return Err(why),
                }
                if let Some(port) = number(line, "in_port=") {
                    let port = u32::try_from(port).unwrap_or(1);
                    tables.ports = tables.ports.max(port);
                    if line.contains("NXM_NX_TUN_ID") && !tables.tunnels.contains(&port) {
                        tables.tunnels.push(port);
                    }
                }
                Ok(())
            })?;
        }
        match tables.ports {
            1..=1024 => Ok(tables),
            n => Err(Failure::Bad(format!("a chassis of {n} ports is too large: at most 1024"))),
        }
    }

    /// A switch with them.
    fn wired(&self, engine: EngineKind, trace: &Trace) -> Result<Wired, Failure> {
        let mut wired = Wired::with_tunnels(engine, PUNT_RATE, self.ports, trace, &self.tunnels)?;
        wired.map_options(self.options.clone())?;
        wired.pump();
        for (what, line) in &self.lines {
            wired.tell(*what, line).map_err(|e| Failure::Bad(format!("{line}: {e}")))?;
        }
        wired.settle()?;
        Ok(wired)
    }

    /// By which descriptors are laid out.
    fn map(&self) -> OptionMap {
        let options: Vec<(u8, u16, u8, u8)> =
            self.options.iter().map(|o| (o.index as u8, o.class, o.kind, o.len)).collect();
        let number = u16::from(!options.is_empty());
        OptionMap::new(number, &options).unwrap_or_default()
    }

    /// Match and actions of each flow entry.
    fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let flows = self.lines.iter().filter(|(what, _)| *what == Told::Flow);
        flows.filter_map(|(_, line)| line.split_once("actions="))
    }

    /// Its virtual machines, by port.
    fn hosts(&self) -> Vec<Host> {
        let logical = |(matching, actions): (&str, &str)| {
            let port = u32::try_from(number(matching, "in_port=")?).ok()?;
            let set = |field: &str| {
                let (before, _) = actions.split_once(&format!("->{field},"))?;
                parse(before.rsplit_once("set_field:")?.1)
            };
            // Of table 0.
            let first = number(matching, "table=").is_none_or(|table| table == 0);
            first.then_some((port, set("metadata")?, set("reg14")?))
        };
        let places: Vec<(u32, u64, u64)> = self.entries().filter_map(logical).collect();
        let secured = |(matching, _): (&str, &str)| {
            let word = |key: &str| {
                let (_, rest) = matching.split_once(key)?;
                Some(rest.split([',', ' ']).next().unwrap_or(""))
            };
            let place = (number(matching, "metadata=")?, number(matching, "reg14=")?);
            let mac: MacAddr = word("dl_src=")?.parse().ok()?;
            let ip: Ipv4Addr = word("nw_src=")?.parse().ok()?;
            if ip.is_unspecified() {
                return None;
            }
            let (port, ..) =
                places.iter().find(|(_, datapath, port)| (*datapath, *port) == place)?;
            let mac = mac.0.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
            Some(Host { port: *port, datapath: place.0, logical: place.1, mac, ip })
        };
        let mut hosts: Vec<Host> = self.entries().filter_map(secured).collect();
        hosts.sort_by_key(|host| host.port);
        hosts.dedup_by_key(|host| host.port);
        hosts
    }
}

/// The number behind a key.
fn number(text: &str, key: &str) -> Option<u64> {
    let (before, rest) = text.split_once(key)?;
    if !(before.is_empty() || before.ends_with([',', ' '])) {
        return None;
    }
    parse(rest.split([',', ' ']).next()?)
}

fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Who can send to whom; and a station of another chassis that the first of them reaches: its address, and the tunnel.
#[allow(clippy::type_complexity)] // both are used at once
fn pairs(tables: &Tables) -> Result<(Vec<Pair>, Option<(u64, u32)>), Failure> {
    let hosts = tables.hosts();
    let wired = tables.wired(EngineKind::Interp, &Trace::default())?;
    let mut others: Vec<u64> = Vec::new();
    for (matching, _) in tables.entries() {
        let word =
            matching.split_once("dl_dst=").and_then(|(_, rest)| rest.split([',', ' ']).next());
        let mac: Option<MacAddr> = word.and_then(|word| word.parse().ok());
        others.extend(mac.map(|mac| mac.0.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))));
    }
    others.sort_unstable();
    others.dedup();
    // The address by which a frame comes out at the other's port.
    let by = |from: &Host, to: &Host| {
        let direct = (from.datapath == to.datapath).then_some(to.mac);
        direct.into_iter().chain(others.iter().copied()).find(|mac| {
            let frame = segment(from, to, *mac, (40_000, 5001), SYN);
            wired.switch().trace(from.port, &frame).outputs.iter().any(|(port, _)| *port == to.port)
        })
    };
    let mut pairs = Vec::new();
    for from in &hosts {
        for to in hosts.iter().filter(|to| to.port != from.port) {
            if let (Some(dst_mac), Some(back_mac)) = (by(from, to), by(to, from)) {
                pairs.push(Pair { from: *from, to: *to, dst_mac, back_mac });
            }
        }
    }
    if pairs.is_empty() {
        let found: Vec<String> =
            hosts.iter().map(|h| format!("{} at port {}", h.ip, h.port)).collect();
        return Err(Failure::Bad(format!(
            "no two hosts of the chassis can send to each other; found {}",
            if found.is_empty() { "none".to_owned() } else { found.join(", ") }
        )));
    }
    let first = pairs[0].from;
    let remote = others.into_iter().find_map(|mac| {
        let frame = segment(&first, &elsewhere(&first), mac, (40_000, 5001), SYN);
        let outputs = wired.switch().trace(first.port, &frame).outputs;
        let tunnel = outputs.iter().find(|(port, _)| tables.tunnels.contains(port))?;
        Some((mac, tunnel.0))
    });
    Ok((pairs, remote))
}

/// Somebody in the same network whom no table names.
fn elsewhere(of: &Host) -> Host {
    Host { ip: Ipv4Addr::from(of.ip.to_bits() & !0xff | 250), ..*of }
}

/// TCP's flags (RFC 9293 §3.1).
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A segment from one host to another.
fn segment(from: &Host, to: &Host, dst_mac: u64, ports: (u16, u16), flags: u8) -> Vec<u8> {
    let flow = Flow {
        in_port: from.port,
        dst_mac,
        src_mac: from.mac,
        vlan: None,
        src: from.ip.to_bits(),
        dst: to.ip.to_bits(),
        ttl: 64,
        transport: Transport::Tcp,
        src_port: ports.0,
        dst_port: ports.1,
    };
    let mut bytes = flow.bytes().to_vec();
    let was = u16::from_be_bytes([bytes[46], bytes[47]]);
    bytes[47] = flags;
    let now = u16::from_be_bytes([bytes[46], bytes[47]]);
    // RFC 1624, equation 3.
    let check = u16::from_be_bytes([bytes[50], bytes[51]]);
    let sum = u32::from(!check) + u32::from(!was) + u32::from(now);
    bytes[50..52].copy_from_slice(&(!super::frame::fold(sum)).to_be_bytes());
    bytes
}

/// Frames, and which of each port's come when.
struct Traffic {
    trace: Trace,
    /// Shakes of hands: by phase and port, a part of the port's frames.
    phases: Vec<BTreeMap<u32, Range<usize>>>,
    /// What is timed.
    data: BTreeMap<u32, Range<usize>>,
    /// The data's frames come once.
    once: bool,
}

impl Traffic {
    fn empty() -> Traffic {
        let (phases, data) = (Vec::new(), BTreeMap::new());
        Traffic { trace: Trace::default(), phases, data, once: false }
    }

    /// Adds frames, and says which those of each port are.
    fn add(&mut self, frames: Vec<(u32, Vec<u8>)>) -> BTreeMap<u32, Range<usize>> {
        let mut lengths: BTreeMap<u32, usize> = BTreeMap::new();
        for n in 0..self.trace.len() {
            *lengths.entry(self.trace.head(n).0).or_default() += 1;
        }
        let mut parts: BTreeMap<u32, Range<usize>> = BTreeMap::new();
        for (port, frame) in frames {
            let at = lengths.get(&port).copied().unwrap_or(0);
            parts.entry(port).or_insert(at..at).end += 1;
            self.trace.push(port, &frame);
        }
        parts
    }

    /// So many connections between these hosts.
    fn connections(pairs: &[Pair], flows: usize) -> Result<Traffic, Failure> {
        let mut traffic = Traffic::empty();
        let (mut syn, mut answer, mut last, mut data) = (vec![], vec![], vec![], vec![]);
        for n in 0..flows {
            let Pair { from, to, dst_mac, back_mac } = &pairs[n % pairs.len()];
            let ports = (1024 + (n / pairs.len()) as u16, 5001);
            let (there, back) = (
                |flags| (from.port, segment(from, to, *dst_mac, ports, flags)),
                |flags| (to.port, segment(to, from, *back_mac, (ports.1, ports.0), flags)),
            );
            syn.push(there(SYN));
            answer.push(back(SYN | ACK));
            last.push(there(ACK));
            data.push(there(ACK));
            data.push(back(ACK));
        }
        // In random order, and enough of them.
        let mut random = Prng::new(7);
        while data.len() < super::trace::FRAMES_MIN {
            let again = data[random.below(2 * flows as u64) as usize].clone();
            data.push(again);
        }
        for at in (1..data.len()).rev() {
            data.swap(at, random.below(at as u64 + 1) as usize);
        }
        for frames in [syn, answer, last] {
            let phase = traffic.add(frames);
            traffic.phases.push(phase);
        }
        traffic.data = traffic.add(data);
        Ok(traffic)
    }

    /// One host tries all ports of another.
    fn scan(pair: &Pair) -> Result<Traffic, Failure> {
        let mut traffic = Traffic::empty();
        let Pair { from, to, dst_mac, .. } = pair;
        let frames = (0..SCANNED).map(|n| {
            let ports = (40_000 + (n >> 16) as u16, n as u16);
            (from.port, segment(from, to, *dst_mac, ports, SYN))
        });
        traffic.data = traffic.add(frames.collect());
        traffic.once = true;
        Ok(traffic)
    }

    /// Connections are tried again and again, from a host to a station of another chassis.
    fn into_tunnel(from: &Host, remote: u64, flows: usize) -> Result<Traffic, Failure> {
        let to = elsewhere(from);
        let frame = |n: usize| segment(from, &to, remote, (1024 + n as u16, 5001), SYN);
        Traffic::again((0..flows).map(|n| (from.port, frame(n))).collect())
    }

    /// The same from there: frames as the tunnel port gives them.
    fn out_of_tunnel(
        to: &Host,
        (remote, tunnel): (u64, u32),
        map: &OptionMap,
        flows: usize,
    ) -> Result<Traffic, Failure> {
        let fields = Match::new()
            .with(FieldId::TunnelId, to.datapath.into())
            .with(FieldId::TunMetadata0, (1 << 16 | to.logical).into());
        let from = Host { mac: remote, port: tunnel, ..elsewhere(to) };
        let frame = |n: usize| {
            let mut bytes = of_lower::tunnel::descriptor(map, &fields);
            bytes.extend(segment(&from, to, to.mac, (1024 + n as u16, 5001), SYN));
            bytes
        };
        Traffic::again((0..flows).map(|n| (tunnel, frame(n))).collect())
    }

    /// These frames once, and then again in random order.
    fn again(frames: Vec<(u32, Vec<u8>)>) -> Result<Traffic, Failure> {
        let mut traffic = Traffic::empty();
        let mut random = Prng::new(7);
        let count = super::trace::FRAMES_MIN.max(frames.len());
        let data = (0..count).map(|_| frames[random.below(frames.len() as u64) as usize].clone());
        let data = data.collect();
        let phase = traffic.add(frames);
        traffic.phases.push(phase);
        traffic.data = traffic.add(data);
        Ok(traffic)
    }

    /// Writes a part of a port's frames to a file.
    fn capture(&self, port: u32, part: &Range<usize>, path: &Path) -> std::io::Result<()> {
        let mut writer = port::pcap::Writer::new(std::fs::File::create(path)?)?;
        let own = (0..self.trace.len()).filter(|n| self.trace.head(*n).0 == port);
        for (at, n) in own.skip(part.start).take(part.len()).enumerate() {
            writer.write(at as u64 * 1000, &self.trace.frame(n).1)?;
        }
        writer.flush()
    }

    /// Shakes hands.
    fn begin(&self, wired: &mut Wired) -> Result<(), Failure> {
        for phase in &self.phases {
            for (port, part) in phase {
                wired.run_part(*port, part.clone(), part.len() as u64, true)?;
            }
        }
        Ok(())
    }

    /// Has so many frames of data come in, spread over the ports.
    fn run(&self, wired: &mut Wired, frames: u64) -> Result<Sample, Failure> {
        let mut sample = Sample::default();
        let all: usize = self.data.values().map(Range::len).sum();
        for (port, part) in &self.data {
            let n = (frames * part.len() as u64).div_ceil(all.max(1) as u64);
            let (one, _) = wired.run_part(*port, part.clone(), n, false)?;
            sample.packets += one.packets;
            sample.seconds += one.seconds;
        }
        // What the control side is told is taken by nobody's time that is measured.
        wired.pump();
        Ok(sample)
    }
}

/// Both engines send the same, from the beginning.
fn compare(tables: &Tables, traffic: &Traffic) -> Result<(), Failure> {
    let mut sent = Vec::new();
    for engine in [EngineKind::default(), EngineKind::Interp] {
        let mut wired = tables.wired(engine, &traffic.trace)?;
        wired.record(true);
        traffic.begin(&mut wired)?;
        for (port, part) in &traffic.data {
            wired.run_part(*port, part.clone(), COMPARED.min(part.len() as u64), true)?;
        }
        wired.switch().sync();
        sent.push(wired.recorded());
    }
    for (port, (own, right)) in (1..).zip(sent[0].iter().zip(&sent[1])) {
        if own != right {
            return Err(Failure::Bad(format!(
                "port {port}: what is sent ({} frames) is not what the interpreter sends ({})",
                own.len(),
                right.len()
            )));
        }
    }
    Ok(())
}

fn measure(
    name: &str,
    traffic: &Traffic,
    tables: &Tables,
    options: &BenchUseCaseOptions,
) -> Result<Value, Failure> {
    compare(tables, traffic)?;
    let mut wired = tables.wired(EngineKind::default(), &traffic.trace)?;
    traffic.begin(&mut wired)?;
    let all: usize = traffic.data.values().map(Range::len).sum();
    let tried = traffic.run(&mut wired, 4096)?;
    let frames = (options.seconds * 1e9 / tried.ns().max(1.0)) as u64;
    let frames = match traffic.once {
        // Some are gone by now.
        true => frames.min((all as u64 - 4096) / (options.runs as u64 + 1)),
        false => frames,
    };
    let (before, sent) = (wired.switch().ran(), wired.sent().iter().sum::<u64>());
    let (mut samples, mut packets) = (Vec::new(), 0);
    for _ in 0..options.runs {
        let sample = traffic.run(&mut wired, frames.max(1024))?;
        packets += sample.packets;
        samples.push(sample.ns());
    }
    wired.switch().sync();
    let sent = wired.sent().iter().sum::<u64>() - sent;
    let ran = since(&wired.switch().ran(), &before);
    if ran.packets() != packets {
        let said = ran.packets();
        return Err(Failure::Bad(format!("of {packets} packets, {said} were run by something")));
    }
    let share = |engine: Ran| ran.of(engine).0 as f64 / packets.max(1) as f64;
    let why = |engine: Ran| -> BTreeMap<String, u64> {
        ran.of(engine).1.iter().map(|(text, n)| (text.to_string(), *n)).collect()
    };
    let ns = median(samples);
    Ok(json!({
        "name": name, "ns": ns, "pps": 1e9 / ns.max(1e-9), "packets": packets,
        "copies": sent as f64 / packets.max(1) as f64,
        "interpreted": share(Ran::Interpreter), "whole": share(Ran::Whole),
        "why_interpreted": why(Ran::Interpreter), "why_whole": why(Ran::Whole),
    }))
}

/// For people.
fn text(value: &Value) -> String {
    let mut out = String::new();
    let without: u64 =
        value["left_out"].as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{} flow entries, {without} left out; {} pairs of hosts",
        value["entries"], value["pairs"]
    );
    for (why, n) in value["left_out"].as_object().into_iter().flatten() {
        let _ = writeln!(out, "  left out {n}: {why}");
    }
    let _ = writeln!(out, "traffic             ns  million/s  copies  interpreted   whole");
    for row in value["traffic"].as_array().into_iter().flatten() {
        let n = |key: &str| row[key].as_f64().unwrap_or(0.0);
        let _ = writeln!(
            out,
            "{:<14} {:>7.1} {:>10.3} {:>7.2}  {:>9.1} %  {:>5.1} %",
            row["name"].as_str().unwrap_or(""),
            n("ns"),
            n("pps") / 1e6,
            n("copies"),
            100.0 * n("interpreted"),
            100.0 * n("whole")
        );
        let mut why: Vec<(&String, u64)> = row["why_interpreted"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(text, n)| (text, n.as_u64().unwrap_or(0)))
            .collect();
        why.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        for (text, n) in why.iter().take(3) {
            let _ = writeln!(out, "  {n}: {text}");
        }
    }
    out
}

/// The entries as they are, and captures of each kind of traffic, for other switches.
fn write(
    out: &Path,
    files: &[(Told, PathBuf)],
    traffic: &[(String, Traffic)],
) -> Result<(), Failure> {
    let at = |path: &Path, e: &dyn std::fmt::Display| {
        Failure::Bad(format!("cannot write {}: {e}", path.display()))
    };
    std::fs::create_dir_all(out).map_err(|e| at(out, &e))?;
    for (what, name) in
        [(Told::Meter, "meters.txt"), (Told::Group, "groups.txt"), (Told::Flow, "flows.txt")]
    {
        let mut text = String::new();
        for (_, path) in files.iter().filter(|(of, _)| *of == what) {
            control::program::tables::each_line(path, |line| {
                text.push_str(line);
                text.push('\n');
                Ok(())
            })?;
        }
        let path = out.join(name);
        std::fs::write(&path, text).map_err(|e| at(&path, &e))?;
    }
    for (name, traffic) in traffic {
        let begins = traffic.phases.iter().zip(1..).map(|(part, n)| (format!("-begin{n}"), part));
        for (what, parts) in begins.chain([(String::new(), &traffic.data)]) {
            for (port, part) in parts {
                let path = out.join(format!("{}{what}-port{port}.pcap", name.replace(' ', "-")));
                traffic.capture(*port, part, &path).map_err(|e| at(&path, &e))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two logical ports of one switch, by what OVN writes of them.
    const LINES: [&str; 6] = [
        "priority=100,in_port=3 actions=set_field:0xb->reg13,set_field:0x1->metadata,set_field:0x2->reg14,resubmit(,8)",
        "priority=100,in_port=4 actions=set_field:0xc->reg13,set_field:0x1->metadata,set_field:0x3->reg14,resubmit(,8)",
        "table=8, priority=50,metadata=0x1,dl_dst=00:00:00:00:01:01 actions=output:3",
        "table=8, priority=50,metadata=0x1,dl_dst=00:00:00:00:01:02 actions=output:4",
        "table=73, priority=90,ip,reg14=0x2,metadata=0x1,dl_src=00:00:00:00:01:01,nw_src=10.0.1.11 actions=drop",
        "table=73, priority=90,ip,reg14=0x3,metadata=0x1,dl_src=00:00:00:00:01:02,nw_src=10.0.1.12 actions=drop",
    ];

    fn tables() -> Tables {
        let lines = LINES.iter().map(|line| (Told::Flow, (*line).to_owned())).collect();
        let (options, tunnels) = (Vec::new(), Vec::new());
        Tables { lines, without: BTreeMap::new(), ports: 4, options, tunnels }
    }

    #[test]
    fn hosts_are_found_and_who_can_send_to_whom() {
        let hosts = tables().hosts();
        let found: Vec<(u32, u64, u64, String)> =
            hosts.iter().map(|h| (h.port, h.datapath, h.mac, h.ip.to_string())).collect();
        let expected =
            [(3, 1, 0x101, "10.0.1.11".to_owned()), (4, 1, 0x102, "10.0.1.12".to_owned())];
        assert_eq!(found, expected);
        let (pairs, _) = pairs(&tables()).unwrap();
        let ends: Vec<(u32, u32)> = pairs.iter().map(|p| (p.from.port, p.to.port)).collect();
        assert_eq!(ends, [(3, 4), (4, 3)]);
    }

    #[test]
    fn segments_have_right_checksums_whatever_their_flags() {
        let (pairs, _) = pairs(&tables()).unwrap();
        let Pair { from, to, dst_mac, .. } = &pairs[0];
        for flags in [SYN, ACK, SYN | ACK] {
            let bytes = segment(from, to, *dst_mac, (1, 2), flags);
            let ip = wire::ipv4::Packet::new_checked(&bytes[14..]).unwrap();
            let tcp = wire::tcp::Packet::new_checked(ip.payload()).unwrap();
            let pseudo = wire::checksum::Pseudo::V4 { src: ip.src(), dst: ip.dst() };
            assert!(tcp.verify_checksum(&pseudo), "{flags:#x}");
        }
    }

    #[test]
    fn traffic_shakes_hands_and_a_port_s_parts_follow_each_other() {
        let (pairs, _) = pairs(&tables()).unwrap();
        let traffic = Traffic::connections(&pairs, 10).unwrap();
        let of_3: Vec<Range<usize>> = traffic.phases.iter().map(|p| p[&3].clone()).collect();
        assert_eq!(of_3, [0..5, 5..10, 10..15]);
        assert_eq!(traffic.data[&3].start, 15);
        let lengths: usize = traffic.data.values().map(Range::len).sum();
        assert!(lengths >= super::super::trace::FRAMES_MIN);
    }
}
