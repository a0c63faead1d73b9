//! Units from pipelines, tables that are scanned, and the comparison with the interpreter.

#![allow(dead_code)] // each test uses its own part

use abi::{BURST_MAX, Cells, Counters, Hit, Packet, TableCell, status};
use interp::sink::Punted;
use interp::{Collect, Color, Externs, Input, Machine, Start};
use ir::{
    ActionCall, ActionId, Bits, CounterId, EntryId, MeterId, Pipeline, PortIs, RegisterId, TableId,
    Terminator, Verdict,
};
use jit::{
    Cache, Compiled, DirectEntry, Handed, NodeSpec, Options, Repeatable, Scratch, Services, State,
    Tables, Unit, What, compile,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Random tests take one of so many parts of their seeds: `MILLRACE_PART`, for machines that are emulated.
pub fn parts() -> u64 {
    std::env::var("MILLRACE_PART").ok().and_then(|n| n.parse().ok()).unwrap_or(1).max(1)
}

/// The first part of these seeds.
pub fn part(seeds: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let count = (seeds.end - seeds.start).div_ceil(parts());
    seeds.start..seeds.start + count
}

/// A way to compile: its name, the passes, and which tables (by number of entries) become code.
pub type Way<'a> = (&'a str, opt::Options, &'a dyn Fn(usize) -> bool);

/// A unit of a pipeline. `direct` says which tables (by number of entries) become code.
pub fn unit(pipeline: &Pipeline, options: &opt::Options, direct: &dyn Fn(usize) -> bool) -> Unit {
    let contents = opt::contents(pipeline);
    let optimised = opt::optimise(pipeline.program(), &contents, options);
    let tables = pipeline.program().tables.len();
    let mut nodes = Vec::new();
    for (b, block) in optimised.program.blocks.iter().enumerate() {
        let Terminator::Apply { table: applied, .. } = &block.end else { continue };
        let Some(live) = &optimised.tables[applied.index()] else { continue };
        let table = opt::unroll::original_table(*applied, tables);
        let own = |call: &ActionCall| copied(call, *applied, tables);
        let words = |id: &ActionId| {
            let params = optimised.actions.get(id).map_or(&[][..], |a| &a.params[..]);
            params.iter().map(|p| p.width.div_ceil(64)).sum::<u32>() + 1
        };
        let entries = pipeline.entries(table);
        let is_direct = direct(entries.len());
        let direct = is_direct.then(|| {
            let entry = |e: &Arc<ir::Entry>| DirectEntry {
                entry: e.id,
                matches: e.matches.clone(),
                call: own(&e.action),
            };
            entries.iter().map(entry).collect()
        });
        nodes.push(NodeSpec {
            block: ir::BlockId(b as u32),
            table,
            applied: *applied,
            columns: live.columns.clone(),
            actions: live.actions.clone(),
            record_words: live.actions.iter().map(words).max().unwrap_or(1),
            direct,
            default: own(entries.default()),
            leader: None,
        });
    }
    jit::pair_twins(&optimised.program, &mut nodes);
    let groups = groups(pipeline);
    Unit {
        program: Arc::new(optimised),
        nodes,
        value_sets: contents.value_sets,
        buckets: groups.actions(),
        hashes: groups.hashes(),
    }
}

/// What the copy of a table that is applied does for a call of the pipeline's.
fn copied(call: &ActionCall, applied: TableId, tables: usize) -> ActionCall {
    let action = opt::unroll::copied_action(call.action, applied, tables);
    ActionCall { action, args: call.args.clone() }
}

/// The groups of a pipeline, as code reads them.
pub fn groups(pipeline: &Pipeline) -> jit::Groups {
    let mut groups = jit::Groups::default();
    pipeline.groups().for_each(|(id, group)| groups.set(id, Some(group)));
    groups
}

/// Ports that are down.
pub const DEAD_PORTS: [u32; 2] = [1, 3];
/// Ports whose frames begin with a descriptor.
pub const TUNNEL_PORTS: [u32; 2] = [2, 3];

fn live() -> abi::Live {
    let live = abi::Live::all_but(DEAD_PORTS);
    TUNNEL_PORTS.into_iter().for_each(|port| live.set_tunnel(port, true));
    live
}

/// Reads every entry for every lookup.
pub struct Scan<'a> {
    unit: &'a Unit,
    pipeline: &'a Pipeline,
    records: Vec<Vec<u64>>,
    calls: Vec<Vec<ActionCall>>,
    groups: jit::Groups,
    live: abi::Live,
}

impl<'a> Scan<'a> {
    pub fn new(unit: &'a Unit, pipeline: &'a Pipeline) -> Scan<'a> {
        let mut scan = Scan {
            unit,
            pipeline,
            records: Vec::new(),
            calls: Vec::new(),
            groups: groups(pipeline),
            live: live(),
        };
        for node in &unit.nodes {
            let entries = pipeline.entries(node.table);
            let mut calls = vec![entries.default().clone()];
            for entry in entries.iter() {
                if !calls.contains(&entry.action) {
                    calls.push(entry.action.clone());
                }
            }
            let mut records = Vec::new();
            for call in &calls {
                let start = records.len();
                let tables = pipeline.program().tables.len();
                let own = copied(call, node.applied, tables);
                let variant = node.actions.iter().position(|a| *a == own.action);
                records.push(variant.map_or(0, |v| v as u64 + 1));
                if variant.is_some() {
                    call.args.iter().for_each(|arg| {
                        let words = arg.width().div_ceil(64) as usize;
                        records.extend((0..words).map(|i| arg.limbs().get(i).copied().unwrap_or(0)))
                    });
                }
                records.resize(start + node.record_words as usize, 0);
            }
            scan.records.push(records);
            scan.calls.push(calls);
        }
        scan
    }
}

impl Tables for Scan<'_> {
    fn lookup(&self, node: usize, keys: &[u8], stride: usize, hits: &mut [Hit]) -> bool {
        let spec = &self.unit.nodes[node];
        let fields = &self.pipeline.program().tables[spec.table.index()].key;
        for (key, hit) in keys.chunks(stride).zip(hits) {
            let mut values = vec![None; fields.len()];
            let mut at = 0;
            for column in &spec.columns {
                let width = fields[*column as usize].width;
                let bytes = width.div_ceil(8) as usize;
                values[*column as usize] = Some(Bits::from_be_bytes(&key[at..at + bytes], width));
                let above = Bits::from_be_bytes(&key[at..at + bytes], 8 * bytes as u32);
                assert_eq!(
                    above,
                    values[*column as usize].as_ref().unwrap().cast(8 * bytes as u32)
                );
                at += bytes;
            }
            assert!(key[at..].iter().all(|b| *b == 0), "padding is zero");
            let matches = |e: &&Arc<ir::Entry>| {
                e.matches.iter().all(|m| {
                    let value = values[m.key as usize].as_ref();
                    value.is_some_and(|value| m.pattern.matches(value))
                })
            };
            let found = self.pipeline.entries(spec.table).iter().find(matches);
            let call = found.map_or(self.pipeline.entries(spec.table).default(), |e| &e.action);
            hit.entry = found.map_or(Hit::MISS_ENTRY, |e| e.id.0);
            hit.action = self.calls[node].iter().position(|c| c == call).unwrap() as u32;
        }
        true
    }

    fn records(&self, node: usize) -> &[u64] {
        &self.records[node]
    }

    fn groups(&self) -> abi::Groups<'_> {
        self.groups.view(&self.live)
    }
}

/// Counters in plain maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub tables: BTreeMap<TableId, (u64, u64)>,
    /// Of groups and buckets, too.
    pub entries: BTreeMap<u32, (u64, u64)>,
}

/// Counters that code writes.
pub struct Native {
    pub cells: Cells,
    pub tables: Vec<TableCell>,
}

impl Native {
    /// For all tables, and all entries' ids.
    pub fn new(unit: &Unit, pipeline: &Pipeline) -> Native {
        let cells = Cells::new(1 << 20);
        let tables: Vec<TableCell> =
            unit.program.program.tables.iter().map(|_| TableCell::default()).collect();
        for table in 0..tables.len() as u32 {
            for entry in pipeline.entries(TableId(table)).iter() {
                assert!(entry.id.0 < 1 << 20);
                cells.grow(entry.id.0);
            }
        }
        // Groups and buckets.
        cells.grow(1 << 10);
        Native { cells, tables }
    }

    pub fn counters(&self) -> Counters<'_> {
        Counters { cells: &self.cells, tables: &self.tables }
    }

    /// What was counted, and zero everywhere again.
    pub fn take(&self, pipeline: &Pipeline) -> Counted {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        let mut counted = Counted::default();
        for (id, cell) in (0..).map(TableId).zip(&self.tables) {
            let both = (take(&cell.lookups), take(&cell.matches));
            if both != (0, 0) {
                counted.tables.insert(id, both);
            }
        }
        let entries = |id| pipeline.entries(id).iter().map(|entry| entry.id.0).collect::<Vec<_>>();
        let tables = (0..self.tables.len() as u32).map(TableId);
        let mut ids: Vec<u32> = tables.flat_map(entries).collect();
        for (_, group) in pipeline.groups() {
            let buckets = group.buckets.iter().map(|bucket| bucket.counter.0);
            ids.extend(buckets.chain([group.counter.0]));
        }
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let Some(cell) = self.cells.cell(id) else { continue };
            let both = (take(&cell.packets), take(&cell.bytes));
            if both != (0, 0) {
                counted.entries.insert(id, both);
            }
        }
        counted
    }
}

/// State that outlives packets, the same on both sides: what a packet is answered tells the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Packets and bytes, by array and cell.
    arrays: BTreeMap<(u32, u32), (u64, u64)>,
    registers: BTreeMap<(u32, u32), Bits>,
    /// How often each meter was asked, and how often a number was drawn.
    asked: BTreeMap<u32, u64>,
    drawn: u64,
}

impl Kept {
    fn count(&mut self, program: &ir::Program, array: u32, index: u32, bytes: u32) {
        if index < program.counters[array as usize].size {
            let count = self.arrays.entry((array, index)).or_default();
            count.0 += 1;
            count.1 += u64::from(bytes);
        }
    }

    /// The colours take turns.
    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        let asked = self.asked.entry(meter.0).or_default();
        *asked += 1;
        Color { color: (*asked % 3) as u8, level: (*asked * 7 + u64::from(bytes)) as u8 }
    }

    fn read(&self, program: &ir::Program, register: RegisterId, index: u32) -> Option<Bits> {
        let declared = &program.registers[register.index()];
        let none = || Bits::zero(declared.width);
        (index < declared.size)
            .then(|| self.registers.get(&(register.0, index)).cloned().unwrap_or_else(none))
    }

    fn write(&mut self, program: &ir::Program, register: RegisterId, index: u32, value: Bits) {
        let declared = &program.registers[register.index()];
        assert_eq!(value.width(), declared.width);
        if index < declared.size {
            self.registers.insert((register.0, index), value);
        }
    }

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        assert_eq!(lo.width(), hi.width());
        self.drawn += 1;
        let span = hi.sub_sat(lo).low_u128();
        let above =
            u128::from(ir::testing::Rng::new(self.drawn).next_u64()) % span.saturating_add(1);
        lo.add(&Bits::from_u128(above, lo.width()))
    }
}

/// Services without state, and state.
pub struct Imitated<'a> {
    pub program: &'a ir::Program,
    pub kept: &'a mut Kept,
    /// Packets whose messages are held back, a bit each.
    pub held: u64,
}

impl State for Imitated<'_> {
    fn count(&mut self, array: u32, index: u32, bytes: u32) {
        self.kept.count(self.program, array, index, bytes);
    }
    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        self.kept.meter(meter, bytes)
    }
    fn read_register(&mut self, register: RegisterId, index: u32, value: &mut [u64]) {
        assert!(value.iter().all(|word| *word == 0));
        if let Some(read) = self.kept.read(self.program, register, index) {
            value.copy_from_slice(read.limbs());
        }
    }
    fn write_register(&mut self, register: RegisterId, index: u32, value: &[u64]) {
        let width = self.program.registers[register.index()].width;
        let bits = Bits::from_words(value, width);
        assert_eq!(bits.limbs(), value, "nothing above the width");
        self.kept.write(self.program, register, index, bits);
    }
    fn random(&mut self, _: usize, lo: &Bits, hi: &Bits) -> Bits {
        self.kept.random(lo, hi)
    }
    fn holds_back(&mut self, packet: usize, _: bool) -> bool {
        self.held >> packet & 1 == 1
    }
    fn is_repeat(&mut self, message: &Repeatable<'_>) -> bool {
        if self.program.digests[message.digest.index()].name != AGAIN {
            return false;
        }
        let ([48, subject], [32, _]) = (message.about, message.rest) else { panic!("{message:?}") };
        subject & 1 == 1
    }
}

impl Services for Imitated<'_> {
    fn call(&mut self, service: ir::ServiceId, packets: &mut [Handed<'_>]) {
        let service = &self.program.services[service.index()];
        assert!(packets.is_sorted_by_key(|p| p.packet), "in the order in which they came");
        for packet in packets {
            let mut words = packet.args;
            let mut arg = |width: u32| {
                let arg = Bits::from_words(words, width);
                words = &words[arg.limbs().len()..];
                arg
            };
            let args: Vec<Bits> = service.args.iter().map(|a| arg(a.width)).collect();
            let mut results: Vec<Bits> =
                service.results.iter().map(|r| Bits::zero(r.width)).collect();
            packet.passes = interp::externs::imitate(service, &args, packet.bytes, &mut results);
            let mut at = 0;
            for result in &results {
                let words = result.limbs();
                packet.results[at..at + words.len()].copy_from_slice(words);
                at += words.len();
            }
        }
    }
}

/// A digest of this name has a subject of 48 bits and a number of 32, and is a repeat if the subject is odd.
pub const AGAIN: &str = "again";

/// The interpreter's outside.
pub struct Oracle<'a> {
    pub program: &'a ir::Program,
    pub counted: &'a mut Counted,
    pub kept: &'a mut Kept,
}

impl Externs for Oracle<'_> {
    fn service(
        &mut self,
        service: &ir::program::Service,
        args: &[Bits],
        packet: &mut Vec<u8>,
        results: &mut [Bits],
    ) -> bool {
        interp::externs::imitate(service, args, packet, results)
    }
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        match what {
            PortIs::Live => !DEAD_PORTS.contains(&port),
            PortIs::Tunnel => TUNNEL_PORTS.contains(&port),
        }
    }
    fn count_table(&mut self, table: TableId, hit: bool) {
        let count = self.counted.tables.entry(table).or_default();
        count.0 += 1;
        count.1 += u64::from(hit);
    }
    fn count_entry(&mut self, _: TableId, entry: EntryId, bytes: u32) {
        let count = self.counted.entries.entry(entry.0).or_default();
        count.0 += 1;
        count.1 += u64::from(bytes);
    }
    fn count(&mut self, id: CounterId, bytes: u32) {
        let count = self.counted.entries.entry(id.0).or_default();
        count.0 += 1;
        count.1 += u64::from(bytes);
    }
    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32) {
        self.kept.count(self.program, array, index, bytes);
    }
    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        self.kept.meter(meter, bytes)
    }
    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits> {
        self.kept.read(self.program, register, index)
    }
    fn register_write(&mut self, register: RegisterId, index: u32, value: Bits) {
        self.kept.write(self.program, register, index, value);
    }
    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        self.kept.random(lo, hi)
    }
}

/// What has been run natively, and why the rest was not.
#[derive(Debug, Default)]
pub struct Tally {
    pub native: u64,
    pub forwarded: u64,
    pub changed: u64,
    /// Outputs of packets that changed behind them.
    pub laid: u64,
    /// Punts and digests.
    pub told: u64,
    /// Packets with more outputs than lie in their line.
    pub many: u64,
    pub bailed: u64,
    pub reasons: BTreeMap<String, u64>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.native += other.native;
        self.forwarded += other.forwarded;
        self.changed += other.changed;
        self.laid += other.laid;
        self.told += other.told;
        self.many += other.many;
        self.bailed += other.bailed;
        for (reason, n) in other.reasons {
            *self.reasons.entry(reason).or_default() += n;
        }
    }

    pub fn share(&self) -> f64 {
        self.native as f64 / (self.native + self.bailed).max(1) as f64
    }

    pub fn print(&self, what: &str) {
        println!(
            "{what}: {} native ({} forwarded, {} of them changed; {} copies that differ; {} with many \
             outputs), {} bailed out: {:.1} % native",
            self.native,
            self.forwarded,
            self.changed,
            self.laid,
            self.many,
            self.bailed,
            100.0 * self.share()
        );
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        for (reason, n) in reasons.into_iter().take(25) {
            println!("  {n:6}  {reason}");
        }
    }
}

pub const HEADROOM: usize = 96;
const GUARD: usize = 32;

/// Runs packets both ways.
pub struct Both<'a> {
    pub pipeline: &'a Pipeline,
    pub unit: &'a Unit,
    pub code: Compiled,
    scan: Scan<'a>,
    scratch: Scratch,
    machine: Machine,
    native: Native,
    /// State as code has left it, and as is right.
    kept: [Kept; 2],
    /// Packets of each burst whose messages are held back, a bit each.
    pub held: u64,
}

impl<'a> Both<'a> {
    pub fn new(pipeline: &'a Pipeline, unit: &'a Unit, cache: &mut Cache) -> Both<'a> {
        // Some programs as if they would become too long otherwise.
        let one_version = pipeline.program().blocks.len() % 4 == 1;
        let options = Options { unbounded: true, one_version, ..Options::default() };
        Both::with(pipeline, unit, cache, &options)
    }

    pub fn with(
        pipeline: &'a Pipeline,
        unit: &'a Unit,
        cache: &mut Cache,
        options: &Options,
    ) -> Both<'a> {
        let code = compile(unit, cache, options).expect("it compiles");
        let scan = Scan::new(unit, pipeline);
        let (scratch, machine) = (Scratch::new(), Machine::new());
        let native = Native::new(unit, pipeline);
        let (kept, held) = (Default::default(), 0);
        Both { pipeline, unit, code, scan, scratch, machine, native, kept, held }
    }

    /// Runs a burst and compares every packet that did not bail out.
    pub fn burst(&mut self, frames: &[(u32, Vec<u8>)], now_ns: u64, tally: &mut Tally, what: &str) {
        assert!(frames.len() <= BURST_MAX);
        let mut buffers: Vec<Vec<u8>> = frames
            .iter()
            .map(|(_, bytes)| [&[0xa5; HEADROOM], &bytes[..], &[0x5a; GUARD]].concat())
            .collect();
        let mut packets: Vec<Packet<'_>> = buffers
            .iter_mut()
            .zip(frames)
            .map(|(buffer, (port, bytes))| Packet::new(buffer, HEADROOM, bytes.len(), *port))
            .collect();
        let counters = self.native.counters();
        let program = self.pipeline.program();
        let [kept, right] = &mut self.kept;
        let mut services = Imitated { program, kept, held: self.held };
        let (scan, scratch) = (&self.scan, &mut self.scratch);
        self.code.run(scan, counters, &mut services, scratch, &mut packets, now_ns);
        let counted = self.native.take(self.pipeline);
        let done: Vec<abi::Outcome> = packets.iter().map(|p| **p).collect();
        drop(packets);

        let mut expected = Counted::default();
        let (mut lookups, mut bailed) = (0, false);
        for (at, ((done, buffer), (port, bytes))) in
            done.iter().zip(&buffers).zip(frames).enumerate()
        {
            let context = || {
                format!(
                    "{what}: packet {bytes:02x?} from port {port}\n{}",
                    ir::text::print_pipeline(self.pipeline)
                )
            };
            let guard = &buffer[HEADROOM + bytes.len()..];
            assert!(guard.iter().all(|b| *b == 0x5a), "past the end: {}", context());
            if done.status == status::BAIL {
                assert_eq!(&buffer[HEADROOM..HEADROOM + bytes.len()], bytes, "{}", context());
                let reason = &self.code.bails()[done.reason as usize];
                // The site matters little here.
                let reason = reason.rsplit(": ").next().unwrap_or(reason);
                *tally.reasons.entry(reason.to_owned()).or_default() += 1;
                tally.bailed += 1;
                lookups += u64::from(done.lookups % abi::COUNTED);
                bailed = true;
                // What it does to state, it does before the packets behind it.
                let input = Input { bytes, in_port: *port, now_ns, start: Start::Pipeline };
                let counted = &mut Counted::default();
                let mut outside = Oracle { program, counted, kept: right };
                let sink = &mut Collect::default();
                self.machine.run(self.pipeline, input, &mut outside, sink, None);
                continue;
            }
            tally.native += 1;
            let mut sink = Collect::default();
            let before = expected.tables.values().map(|(n, _)| n).sum::<u64>();
            let input = Input { bytes, in_port: *port, now_ns, start: Start::Pipeline };
            let mut outside = Oracle { program, counted: &mut expected, kept: right };
            let verdict = self.machine.run(self.pipeline, input, &mut outside, &mut sink, None);
            let after = expected.tables.values().map(|(n, _)| n).sum::<u64>();
            lookups += after - before;
            let held = self.held >> at & 1 == 1;
            match (self.scratch.verdict(at, done), verdict) {
                // What was told alone, and is held back, is nothing.
                (Some(Verdict::Drop(_)), Verdict::Punt(_)) if held => {}
                (code, right) => assert_eq!(code, Some(right), "{}", context()),
            }
            if held {
                sink.punts.clear();
                sink.digests.clear();
            }
            let start = (HEADROOM as i32 + done.shift) as usize;
            let out = &buffer[start..HEADROOM + bytes.len()];
            let (mut punts, mut digests) = (Vec::new(), Vec::new());
            for told in self.scratch.told(at, done) {
                let args = told.args().to_vec();
                match told.what {
                    What::Punt { reason, table, entry, headers } => {
                        let received = &buffer[HEADROOM..HEADROOM + bytes.len()];
                        let bytes = headers.map_or(out.to_vec(), |h| h.to_vec(received));
                        punts.push(Punted { reason, table, entry, args, bytes });
                    }
                    What::Digest(digest) => digests.push((digest, args)),
                }
            }
            assert_eq!(punts, sink.punts, "{}", context());
            sink.digests.retain(|(digest, args)| {
                let again = program.digests[digest.index()].name == AGAIN;
                !again || args[0].low_u64() & 1 == 0
            });
            assert_eq!(digests, sink.digests, "{}", context());
            tally.told += (punts.len() + digests.len()) as u64;
            let copies: Vec<jit::Copy<'_>> = self.scratch.copies(at, done).collect();
            assert_eq!(copies.len(), sink.outputs.len(), "{}", context());
            for (native, output) in copies.iter().zip(&sink.outputs) {
                assert_eq!(
                    (native.output.port, native.output.queue),
                    (output.port, output.queue),
                    "{}",
                    context()
                );
                let (is, changed) = match native.headers {
                    None => (out.to_vec(), done.changed != 0),
                    Some(headers) => {
                        let is = headers.to_vec(&buffer[HEADROOM..HEADROOM + bytes.len()]);
                        let changed = headers.changed || is.len() == headers.cut;
                        (is, changed)
                    }
                };
                assert_eq!(is, output.bytes, "{}", context());
                if !changed {
                    assert_eq!(is, bytes[..], "{}", context());
                }
                tally.laid += u64::from(native.headers.is_some());
            }
            tally.many += u64::from(copies.len() > abi::OUTPUTS_MAX);
            if verdict == Verdict::Forward {
                tally.forwarded += 1;
                tally.changed += u64::from(done.changed);
            }
        }
        let total = counted.tables.values().map(|(n, _)| n).sum::<u64>();
        assert_eq!(total, lookups, "{what}: lookups counted");
        match bailed {
            false => {
                assert_eq!(counted, expected, "{what}: counters");
                assert_eq!(kept, right, "{what}: state");
            }
            // Whoever runs them would have done the rest.
            true => kept.clone_from(right),
        }
    }
}
