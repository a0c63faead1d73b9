//! Measures the prices of [`crate::cost`] on this machine, with the structures themselves.
//!
//! Every figure is taken in bursts, as packets are served, and from the better of many short runs,
//! since what disturbs a run only ever makes it slower. Keys are drawn at random from all entries, so that
//! a structure of so many bytes is touched all over. Structures are built up to some tens of
//! megabytes; beyond, a lookup is taken to grow as a plain load from so much memory does.
//!
//! What only generated code has (parsing, gathering keys, compares in the instruction stream, edits
//! of a frame) is not measured here: those are the built-in figures, at this machine's frequency. So
//! that they can be replaced by measured ones, [`crate::cost::Atoms`] is plain data.
//!
//! Cost: a few seconds, and up to 256 MB for as long.
//! Checked by: a quick run in the tests below, whose figures must be prices; they cannot be checked
//! for being right but by measuring pipelines.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use classify::decomposed::{Decomposed, Target, Tree, TreeNode, TreeRow};
use classify::hash::Hash;
use classify::scan::{ENTRIES_MAX, Scan};
use classify::tuple_merge::TupleMerge;
use classify::tuple_space::TupleSpace;
use classify::{Hit, Kind, Layout, Rule, Structure, Table};

use crate::cost::{Atoms, Curve, Model, cpu_name, lpm_touches, range_steps, touched_bytes};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Rounds through all keys.
    pub runs: u32,
    /// Entries of the largest structures.
    pub entries_max: u32,
    /// Bytes of the largest plain memory.
    pub bytes_max: u64,
}

impl Effort {
    /// A few seconds.
    pub const FULL: Effort = Effort { runs: 5, entries_max: 1 << 20, bytes_max: 256 << 20 };
    /// A fraction of a second; knows nothing of large structures.
    pub const QUICK: Effort = Effort { runs: 2, entries_max: 1 << 12, bytes_max: 1 << 20 };
}

/// Packets in a burst.
const BURST: usize = 32;
/// Operations that are timed together.
const PART: usize = 2048;
/// Lookups of one run, at least.
const LOOKUPS_MIN: usize = 1 << 15;
/// Keys of one run, at most.
const KEYS_MAX: usize = 1 << 18;

/// Measures this machine. `progress` is told what is being measured.
pub fn calibrate(progress: &mut dyn FnMut(&str)) -> Model {
    calibrate_with(Effort::FULL, progress)
}

/// As [`calibrate`], with more or less effort.
pub fn calibrate_with(effort: Effort, progress: &mut dyn FnMut(&str)) -> Model {
    let bench = Bench { effort, random: 0x9e37_79b9_7f4a_7c15 };
    bench.model(progress)
}

/// The processor's clock at this moment, in GHz: what some ten microseconds of dependent additions took.
/// Machines whose clock follows their neighbours' load are told apart from what the load costs.
pub fn clock_ghz() -> f64 {
    let rounds = 1u64 << 12;
    let began = Instant::now();
    black_box((0..rounds).fold(black_box(88172645463325252u64), |n, _| step(n)));
    let ns = began.elapsed().as_nanos().max(1) as f64;
    CHAIN * rounds as f64 / ns
}

/// Cycles of a [`step`]: six operations of one each, none of which can begin before the last.
const CHAIN: f64 = 6.0;

/// Generated code is not run here. Its prices were fitted to what `bench pipeline` measured at this
/// frequency (one AMD EPYC; layer 2, layer 3, balancer, gateway and firewall at 1K and 1M flows), and are
/// scaled by the frequency found.
const CODE_GHZ: f64 = 3.7;

struct Bench {
    effort: Effort,
    random: u64,
}

impl Bench {
    fn model(mut self, progress: &mut dyn FnMut(&str)) -> Model {
        progress("frequency");
        let ghz = self.ghz();
        let builtin = Model::builtin();
        let speed = CODE_GHZ / ghz;
        let caches = caches(builtin.caches);
        progress("memory");
        let record = self.loads();
        let counter = self.adds();
        progress("hash");
        let hash = self.hash(&record);
        let key_word = self.key_word();
        progress("lpm");
        let (lpm, lpm_touch) = self.lpm(&record);
        progress("range");
        let range_step = self.range();
        progress("scan");
        let (scan, scan_step) = self.scan(&record);
        progress("tuple_space");
        let a = &builtin.atoms;
        let plain = (a.tuple_space, a.tuple_probe.clone());
        let (tuple_space, tuple_probe) =
            self.tuples(&record, plain, |layout| Box::new(TupleSpace::new(layout)));
        progress("tuple_merge");
        let merged = (a.merge, a.merge_probe.clone());
        let (merge, merge_probe) =
            self.tuples(&record, merged, |layout| Box::new(TupleMerge::new(layout)));
        progress("decomposed");
        let (tree_step, tree_visit, tree_row) = self.tree();
        let atoms = Atoms {
            packet: 4.5 * speed,
            parse_layer: 0.25 * speed,
            gather_word: 0.4 * speed,
            node: 3.0 * speed,
            direct_code: 0.6 * speed,
            direct_code_entry: 0.2 * speed,
            hash,
            key_word,
            lpm,
            lpm_touch,
            range_step,
            scan,
            scan_step,
            merge,
            merge_probe,
            tuple_space,
            tuple_probe,
            tree_step,
            tree_visit,
            tree_row,
            record,
            counter,
            store: 0.4 * speed,
            checksum: 1.5 * speed,
            push: 6.0 * speed,
            pop: 6.0 * speed,
            output: 0.7 * speed,
        };
        Model { version: Model::VERSION, cpu: cpu_name(), ghz, caches, atoms }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random = step(self.random);
        self.random % n.max(1)
    }

    /// Nanoseconds per operation. `run` does some of `count` operations that are alike: each part is
    /// timed alone, and the answer is that of the better parts, of which some are always undisturbed.
    fn price(&self, count: usize, mut run: impl FnMut(Range<usize>)) -> f64 {
        let mut times = Vec::new();
        // The first round warms the caches.
        for round in 0..=self.effort.runs.max(1) {
            for from in (0..count).step_by(PART) {
                let part = from..count.min(from + PART);
                let length = part.len() as f64;
                let began = Instant::now();
                run(part);
                let ns = began.elapsed().as_nanos() as f64;
                if round > 0 {
                    times.push(ns / length);
                }
            }
        }
        times.sort_unstable_by(f64::total_cmp);
        times.get(times.len() / 4).copied().unwrap_or_default()
    }

    /// From a chain of steps.
    fn ghz(&self) -> f64 {
        let ns = self.price(1 << 18, |part| {
            let end = part.fold(black_box(88172645463325252u64), |n, _| step(n));
            black_box(end);
        });
        if ns > 0.0 { (CHAIN / ns).clamp(0.1, 20.0) } else { Model::builtin().ghz }
    }

    /// Sizes of plain memory to measure at.
    fn sizes(&self) -> Vec<u64> {
        let most = self.effort.bytes_max.min(available_bytes() / 4).max(16 << 10);
        (0..).map(|n| (16 << 10) << (2 * n)).take_while(|&bytes| bytes <= most).collect()
    }

    /// Words of memory and, in bursts, where to touch it.
    fn memory(&mut self, bytes: u64) -> (Vec<u64>, Vec<u32>) {
        let words = (bytes / 8) as usize;
        let count = words.clamp(LOOKUPS_MIN, KEYS_MAX) & !(BURST - 1);
        let places = (0..count).map(|_| self.below(words as u64) as u32).collect();
        (vec![1; words], places)
    }

    /// Loads at random places, a burst at a time.
    fn loads(&mut self) -> Curve {
        let points = self.sizes().into_iter().map(|bytes| {
            let (memory, places) = self.memory(bytes);
            let ns = self.price(places.len(), |part| {
                let mut sum = 0u64;
                for burst in places[part].chunks(BURST) {
                    sum = burst.iter().fold(sum, |sum, &at| sum.wrapping_add(memory[at as usize]));
                }
                black_box(sum);
            });
            (bytes, ns)
        });
        rising(points.collect())
    }

    /// Additions to two neighbouring words at random places: packets and bytes.
    fn adds(&mut self) -> Curve {
        let points = self.sizes().into_iter().map(|bytes| {
            let (mut memory, places) = self.memory(bytes);
            let ns = self.price(places.len(), |part| {
                for &at in &places[part] {
                    let at = at as usize & !1;
                    if let Some([packets, length]) = memory.get_mut(at..at + 2) {
                        *packets = packets.wrapping_add(1);
                        *length = length.wrapping_add(64);
                    }
                }
                black_box(&mut memory);
            });
            (bytes, ns)
        });
        rising(points.collect())
    }

    /// Nanoseconds per lookup of random keys of the given rules, and bytes that they touch.
    fn lookups(&mut self, subject: &dyn Structure, values: &[u64], steps: f64) -> (u64, f64) {
        let layout = subject.layout();
        let (len, stride) = (layout.key_len(), layout.stride());
        let count = values.len().clamp(LOOKUPS_MIN, KEYS_MAX);
        let mut keys = vec![0u8; count * stride];
        for key in keys.chunks_mut(stride) {
            let value = values[self.below(values.len() as u64) as usize].to_be_bytes();
            let part = len.min(8);
            key[..part].copy_from_slice(&value[..part]);
        }
        let mut hits = [Hit::MISS; BURST];
        let ns = self.price(count, |part| {
            for burst in keys[part.start * stride..part.end * stride].chunks(BURST * stride) {
                let hits = &mut hits[..burst.len() / stride];
                subject.lookup_burst(burst, stride, hits);
                black_box(&hits);
            }
        });
        let active = values.len() as u64;
        (touched_bytes(subject.memory_bytes() as u64, active, steps), ns)
    }

    fn entries(&self) -> impl Iterator<Item = u32> + use<> {
        let most = self.effort.entries_max;
        (0..).map(|n| 128u32 << (3 * n)).take_while(move |&n| n < most).chain([most])
    }

    fn hash(&mut self, memory: &Curve) -> Curve {
        let mut points = Vec::new();
        for count in self.entries() {
            let Ok(layout) = Layout::new(&[8]) else { continue };
            let mut subject = Hash::new(layout);
            let values: Vec<u64> = (0..count).map(|_| self.below(u64::MAX)).collect();
            insert(&mut subject, &values, |_| u64::MAX);
            points.push(self.lookups(&subject, &values, 1.0));
        }
        extended(points, memory, 1.0)
    }

    /// What a second and third word add.
    fn key_word(&mut self) -> f64 {
        let values: Vec<u64> = (0..256).map(|n| n << 32).collect();
        let [short, long] = [8, 24].map(|len| {
            let Ok(layout) = Layout::new(&[len]) else { return 0.0 };
            let mut subject = Hash::new(layout);
            for (id, &value) in (0..).zip(&values) {
                let mut key = vec![0; len];
                key[..8].copy_from_slice(&value.to_be_bytes());
                // Values differ, so no id or key comes twice.
                let _ = subject.insert(&Rule::new(id, 1, 0, &key, &vec![0xff; len]));
            }
            self.lookups(&subject, &values, 1.0).1
        });
        ((long - short) / 2.0).max(0.0)
    }

    fn lpm(&mut self, memory: &Curve) -> (f64, Curve) {
        let mut points = Vec::new();
        for count in self.entries() {
            let count = count.min(1 << 17);
            let mut table = match Layout::new(&[4]) {
                Ok(layout) => Table::with_layout(layout),
                Err(_) => continue,
            };
            let values: Vec<u64> = (0..count).map(|_| self.below(u64::MAX)).collect();
            for (id, &value) in (0..).zip(&values) {
                let len = match id % 10 {
                    0..6 => 24,
                    6..9 => 16 + id % 8,
                    _ => 8 + id % 25,
                };
                let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0).to_be_bytes();
                let rule = Rule::new(id, len, 0, &value.to_be_bytes()[..4], &mask);
                // Refused only if malformed.
                let _ = table.insert(&rule);
            }
            if let Ok(table) = table.rebuilt(Kind::Lpm) {
                points.push(self.lookups(&Served(table), &values, lpm_touches(4)));
            }
            if count == 1 << 17 {
                break;
            }
        }
        // A part is for the walk itself; the rest are touches.
        let near = points.iter().map(|&(_, ns)| ns).fold(f64::INFINITY, f64::min);
        let walk = if near.is_finite() { 0.4 * near } else { 0.0 };
        let touch = points.iter().map(|&(bytes, ns)| (bytes, (ns - walk) / lpm_touches(4)));
        (walk, extended(touch.collect(), memory, 1.0))
    }

    fn range(&mut self) -> Curve {
        let mut points = Vec::new();
        for count in self.entries().filter(|&count| count <= 1 << 14) {
            let mut table = match Layout::new(&[8]) {
                Ok(layout) => Table::with_kind(layout, None),
                Err(_) => continue,
            };
            let width = u64::MAX / u64::from(count);
            let mut values = Vec::new();
            for id in 0..count {
                let lo = u64::from(id) * width;
                let mut rule = Rule::new(id, 1, 0, &[0; 8], &[0; 8]);
                let (lo128, hi) = (u128::from(lo) + 1, u128::from(lo) + u128::from(width / 2));
                rule.ranges = Box::new([classify::Range { offset: 0, len: 8, lo: lo128, hi }]);
                let _ = table.insert(&rule);
                values.push(lo + width / 3);
            }
            let steps = range_steps(count as usize);
            if let Ok(table) = table.rebuilt(Kind::Range) {
                let (bytes, ns) = self.lookups(&Served(table), &values, steps);
                points.push((bytes, ns / steps));
            }
        }
        if points.is_empty() { Model::builtin().atoms.range_step } else { rising(points) }
    }

    /// The common part and each step's, from few and from many masks.
    fn scan(&mut self, memory: &Curve) -> (f64, Curve) {
        let mut points = Vec::new();
        let mut common = f64::INFINITY;
        for count in self.entries().map(|count| count.min(ENTRIES_MAX as u32)) {
            let values: Vec<u64> = (0..count).map(|_| self.below(u64::MAX)).collect();
            let taken = [1u32, 5].map(|masks| {
                let Ok(layout) = Layout::new(&[8]) else { return (0, 0.0) };
                let mut subject = Scan::new(layout);
                insert(&mut subject, &values, |id| !(1 << (id % masks)));
                self.lookups(&subject, &values, f64::from(masks))
            });
            let [(_, few_ns), (bytes, many_ns)] = taken;
            let probe = ((many_ns - few_ns) / 4.0).max(0.05);
            common = common.min((few_ns - probe).max(0.0));
            points.push((bytes, probe));
            if count as usize == ENTRIES_MAX {
                break;
            }
        }
        if points.is_empty() {
            let a = Model::builtin().atoms;
            return (a.scan, a.scan_step);
        }
        (common, extended(points, memory, 1.0))
    }

    /// The common part and each probe's, from few and from many masks.
    fn tuples(
        &mut self,
        memory: &Curve,
        unknown: (f64, Curve),
        new: impl Fn(Layout) -> Box<dyn Structure>,
    ) -> (f64, Curve) {
        let mut points = Vec::new();
        let mut common = f64::INFINITY;
        for count in self.entries() {
            let count = count.min(1 << 17);
            let values: Vec<u64> = (0..count).map(|_| self.below(u64::MAX)).collect();
            let taken = [4u32, 16].map(|masks| {
                let Ok(layout) = Layout::new(&[8]) else { return (0, 0.0, 0.0) };
                let mut subject = new(layout);
                // Masks of which none is a part of another.
                insert(&mut *subject, &values, |id| !(1 << (id % masks)));
                let probes = subject.explain().probes_max as f64;
                let (bytes, ns) = self.lookups(&*subject, &values, probes);
                (bytes, ns, probes)
            });
            let [(_, few_ns, few), (bytes, many_ns, many)] = taken;
            if many > few {
                let probe = ((many_ns - few_ns) / (many - few)).max(0.05);
                common = common.min((few_ns - few * probe).max(0.0));
                points.push((bytes, probe));
            }
            if count == 1 << 17 {
                break;
            }
        }
        if points.is_empty() {
            return unknown;
        }
        (common, extended(points, memory, 1.0))
    }

    /// A step to the next table, a visit of a table, and a row of a chain of compares.
    fn tree(&mut self) -> (f64, f64, f64) {
        let mut chain = |nodes: u32, rows: u32| -> f64 {
            let Ok(layout) = Layout::new(&[8]) else { return 0.0 };
            let rule = Rule::new(1, 1, 0, &[0; 8], &[0; 8]);
            let node = |at: u32| {
                let last = at + 1 == nodes;
                let next = if last { Target::Rule(1) } else { Target::Node(at + 1) };
                let rows = (0..rows).map(|n| row(&u64::from(n).to_be_bytes(), Target::Miss));
                let fields = layout.fields().into();
                TreeNode { fields, rows: rows.collect(), otherwise: next }
            };
            let tree = Tree { nodes: (0..nodes).map(node).collect() };
            let Ok(subject) = Decomposed::new(layout.clone(), &[rule], &tree) else { return 0.0 };
            self.lookups(&subject, &[77, 1 << 40, 1 << 50], 1.0).1
        };
        let compare = ((chain(1, 8) - chain(1, 2)) / 6.0).max(0.02);
        let step = ((chain(5, 1) - chain(1, 1)) / 4.0 - compare).max(0.1);
        let (few, many) = (self.fan(1), self.fan(FAN));
        // Of a burst, all wait at one table, or as many as there are tables share it.
        let visits = f64::from(FAN - 1) / BURST as f64;
        (step, ((many - few) / visits).max(0.0), compare)
    }

    /// A table that leads to so many others, each a hash of a few entries.
    fn fan(&mut self, tables: u32) -> f64 {
        let Ok(layout) = Layout::new(&[4, 4]) else { return 0.0 };
        let rule = Rule::new(1, 1, 0, &[0; 8], &[0; 8]);
        let [first, second] = [layout.fields()[0], layout.fields()[1]];
        let leads = |n: u32| row(&n.to_be_bytes(), Target::Node(1 + n % tables));
        let mut nodes = vec![TreeNode {
            fields: [first].into(),
            rows: (0..FAN).map(leads).collect(),
            otherwise: Target::Miss,
        }];
        nodes.extend((0..tables).map(|_| TreeNode {
            fields: [second].into(),
            rows: (0..64u32).map(|n| row(&n.to_be_bytes(), Target::Rule(1))).collect(),
            otherwise: Target::Miss,
        }));
        let values: Vec<u64> =
            (0..256u64).map(|n| ((n % u64::from(FAN)) << 32) | (n / u64::from(FAN))).collect();
        match Decomposed::new(layout, &[rule], &Tree { nodes }) {
            Ok(subject) => self.lookups(&subject, &values, 2.0).1,
            Err(_) => 0.0,
        }
    }
}

/// Tables that one table leads to, to measure what a visit costs.
const FAN: u32 = 16;

fn row(value: &[u8], target: Target) -> TreeRow {
    let mask = vec![0xff; value.len()].into();
    TreeRow { rank: 0, value: value.into(), mask, ranges: [].into(), target }
}

/// One step of a generator of numbers, six operations long.
#[inline]
fn step(mut n: u64) -> u64 {
    n ^= n << 13;
    n ^= n >> 7;
    n ^ n << 17
}

fn insert(subject: &mut dyn Structure, values: &[u64], mask: impl Fn(u32) -> u64) {
    for (id, &value) in (0..).zip(values) {
        let rule = Rule::new(id, 1, 0, &value.to_be_bytes(), &mask(id).to_be_bytes());
        // Sound, and of an id of its own; what a structure declines is not measured.
        let _ = subject.insert(&rule);
    }
}

/// A table in the place of a structure, to be measured as one.
#[derive(Debug)]
struct Served(Table);

impl Structure for Served {
    fn kind(&self) -> Kind {
        self.0.kind()
    }
    fn layout(&self) -> &Layout {
        self.0.layout()
    }
    fn insert(&mut self, rule: &Rule) -> Result<(), classify::InsertError> {
        self.0.insert(rule).map(drop)
    }
    fn remove(&mut self, id: u32) -> Option<Rule> {
        self.0.remove(id)
    }
    fn set_action(&mut self, id: u32, action: u32) -> bool {
        self.0.set_action(id, action)
    }
    fn lookup(&self, key: &[u8]) -> Hit {
        self.0.lookup(key)
    }
    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        self.0.lookup_burst(keys, stride, hits);
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        self.0.iter()
    }
    fn explain(&self) -> classify::Explain {
        self.0.explain()
    }
}

/// A curve that never falls: what falls was disturbed.
fn rising(mut points: Vec<(u64, f64)>) -> Curve {
    points.sort_by_key(|&(bytes, _)| bytes);
    points.dedup_by_key(|&mut (bytes, _)| bytes);
    // From the far end, since a disturbance makes slower: no point is above those after it.
    let mut least = f64::INFINITY;
    for (_, ns) in points.iter_mut().rev() {
        least = least.min(ns.max(0.01));
        *ns = least;
    }
    Curve::new(points)
}

/// A curve to as far as memory was measured; each lookup there takes so many loads more.
fn extended(points: Vec<(u64, f64)>, memory: &Curve, loads: f64) -> Curve {
    let mut points = rising(points).points().to_vec();
    let last = points.last().copied();
    if let (Some((from, ns)), Some(&(to, far))) = (last, memory.points().last())
        && to > from
    {
        points.push((to, ns + loads * (far - memory.at(from)).max(0.0)));
    }
    Curve::new(points)
}

/// Bytes of memory that may be used, as far as the system tells.
fn available_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.map_or(u64::MAX, |kb: u64| kb.saturating_mul(1024))
}

/// Bytes of the data caches, as far as the system tells.
fn caches(unknown: [u64; 3]) -> [u64; 3] {
    let mut caches = unknown;
    for index in 0..8 {
        let read = |name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
            std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
        };
        let level = read("level").and_then(|level| level.parse::<usize>().ok());
        let (Some(level @ 1..=3), Some(size), Some(kind)) = (level, read("size"), read("type"))
        else {
            continue;
        };
        let kilobytes = size.strip_suffix('K').and_then(|kb| kb.parse::<u64>().ok());
        if let (Some(kb), true) = (kilobytes, kind != "Instruction") {
            caches[level - 1] = kb * 1024;
        }
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Template;

    #[test]
    fn a_quick_run_gives_prices() {
        let mut told = Vec::new();
        let model = calibrate_with(Effort::QUICK, &mut |what| told.push(what.to_string()));
        assert_eq!(
            told,
            [
                "frequency",
                "memory",
                "hash",
                "lpm",
                "range",
                "scan",
                "tuple_space",
                "tuple_merge",
                "decomposed"
            ]
        );
        assert!(model.is_sound(), "{model:#?}");
        assert_eq!((model.version, model.cpu.clone()), (Model::VERSION, cpu_name()));
        let a = &model.atoms;
        for curve in [
            &a.hash,
            &a.lpm_touch,
            &a.range_step,
            &a.scan_step,
            &a.merge_probe,
            &a.tuple_probe,
            &a.record,
            &a.counter,
        ] {
            assert!(curve.points().len() > 1 && curve.near() > 0.0, "{curve:?}");
            assert!(curve.near() <= curve.far(), "{curve:?}");
        }
        // Sixteen probes cost more than one, and both more than nothing.
        let ns = |template, steps| model.lookup(template, steps, 1, 1 << 16).ns;
        assert!(ns(Template::TupleSpace, 16.0) > ns(Template::Hash, 1.0));
    }

    #[test]
    fn disturbed_points_are_lowered() {
        let curve = rising(vec![(4, 9.0), (1, 2.0), (2, 5.0), (3, 3.0), (3, 7.0)]);
        assert_eq!(curve.points(), [(1, 2.0), (2, 3.0), (3, 3.0), (4, 9.0)]);
        let memory = Curve::new(vec![(1, 1.0), (4, 2.0), (16, 5.0)]);
        assert_eq!(extended(curve.points().to_vec(), &memory, 2.0).at(16), 15.0);
    }
}
