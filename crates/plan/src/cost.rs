//! What a packet costs: prices of single steps, and their sum over a pipeline.
//!
//! As in ESWITCH, section 4.4: compiled code is a handful of templates, so its cost is a sum of
//! *atoms*, some fixed, some by how far away the data lies. What is fixed is a number of nanoseconds;
//! what touches memory is a [`Curve`]: nanoseconds by the bytes that such touches are spread over, as
//! measured ([`crate::calibrate`]). All are prices in a burst, where misses of neighbours overlap.
//!
//! Which data is near? Of a structure only what the traffic uses counts: at most a few cache lines
//! per active entry. And what is small is hot: each line of a small set is touched more often than
//! one of a large set, so it stays. A set is therefore priced by the bytes of all sets no larger than
//! itself, and its own.
//!
//! A prediction also says what it would be if all were in the first cache, and if nothing were: the
//! bounds between which the truth lies while the atoms hold.
//!
//! Checked by: unit tests of the arithmetic, below; measured against predicted, by the benches.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Ways to look a table up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// Compares in the instruction stream.
    DirectCode,
    /// One hash under one mask.
    Hash,
    /// Longest prefix.
    Lpm,
    /// Search in sorted ranges.
    Range,
    /// Every rule or mask on all keys of a burst at once.
    Scan,
    /// Several tables in place of one.
    Decomposed,
    /// One hash for all masks, close ones merged; takes everything.
    TupleMerge,
    /// One hash per mask; takes everything; for few masks, and where it is asked for.
    TupleSpace,
}

impl Template {
    /// All, in the order of reports.
    pub const ALL: [Template; 8] = [
        Template::DirectCode,
        Template::Hash,
        Template::Lpm,
        Template::Range,
        Template::Scan,
        Template::Decomposed,
        Template::TupleMerge,
        Template::TupleSpace,
    ];

    /// The name in reports and options.
    pub fn name(self) -> &'static str {
        match self {
            Template::DirectCode => "direct_code",
            Template::Hash => "hash",
            Template::Lpm => "lpm",
            Template::Range => "range",
            Template::Scan => "scan",
            Template::Decomposed => "decomposed",
            Template::TupleMerge => "tuple_merge",
            Template::TupleSpace => "tuple_space",
        }
    }

    /// The structure that serves it; none where generated code does.
    pub fn kind(self) -> Option<classify::Kind> {
        match self {
            Template::DirectCode => None,
            Template::Hash => Some(classify::Kind::Hash),
            Template::Lpm => Some(classify::Kind::Lpm),
            Template::Range => Some(classify::Kind::Range),
            Template::Scan => Some(classify::Kind::Scan),
            Template::Decomposed => Some(classify::Kind::Decomposed),
            Template::TupleMerge => Some(classify::Kind::TupleMerge),
            Template::TupleSpace => Some(classify::Kind::TupleSpace),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Template {
    type Err = UnknownTemplate;

    fn from_str(name: &str) -> Result<Template, UnknownTemplate> {
        Template::ALL.into_iter().find(|t| t.name() == name).ok_or(UnknownTemplate(name.into()))
    }
}

/// A name that is no template's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown template {0:?}; there are direct_code, hash, lpm, range, scan, decomposed, tuple_merge \
     and tuple_space"
)]
pub struct UnknownTemplate(pub String);

/// Nanoseconds by the bytes that accesses are spread over.
///
/// Between two points the price grows with the logarithm of the bytes; beyond the ends it stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Curve {
    points: Vec<(u64, f64)>,
}

impl Curve {
    /// Through these points of bytes and nanoseconds, in any order.
    pub fn new(mut points: Vec<(u64, f64)>) -> Curve {
        points.sort_by_key(|&(bytes, _)| bytes);
        Curve { points }
    }

    /// The price at so many bytes.
    pub fn at(&self, bytes: u64) -> f64 {
        let after = self.points.partition_point(|&(at, _)| at < bytes);
        let (Some(&(low, below)), Some(&(high, above))) =
            (self.points.get(after.wrapping_sub(1)), self.points.get(after))
        else {
            let end = if after == 0 { self.points.first() } else { self.points.last() };
            return end.map_or(0.0, |&(_, ns)| ns);
        };
        let log = |bytes: u64| (bytes.max(1) as f64).log2();
        let span = log(high) - log(low);
        let part = if span > 0.0 { (log(bytes) - log(low)) / span } else { 1.0 };
        below + part * (above - below)
    }

    /// The price where everything is in the first cache.
    pub fn near(&self) -> f64 {
        self.at(0)
    }

    /// The price where nothing is in a cache.
    pub fn far(&self) -> f64 {
        self.at(u64::MAX)
    }

    /// The points, ascending.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.points
    }

    /// The same curve at another speed.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Curve {
        Curve { points: self.points.iter().map(|&(bytes, ns)| (bytes, ns * by)).collect() }
    }
}

/// Prices, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Atoms {
    /// A packet, before anything is done: its place in the burst, its first line, its verdict.
    pub packet: f64,
    /// Parsing one header.
    pub parse_layer: f64,
    /// Gathering one word (8 bytes) of a key into a node's key buffer.
    pub gather_word: f64,
    /// Waiting at a table: live state stored and loaded, the packet noted, its hit dispatched.
    pub node: f64,
    /// A table in the instruction stream, without entries.
    pub direct_code: f64,
    /// Each entry of it that is compared.
    pub direct_code_entry: f64,
    /// A probe of a hash under one mask, of a key of one word.
    pub hash: Curve,
    /// Each further word of a key, hashed and compared.
    pub key_word: f64,
    /// What every walk for the longest prefix costs.
    pub lpm: f64,
    /// Each place that such a walk touches.
    pub lpm_touch: Curve,
    /// Each step of a search in sorted ranges.
    pub range_step: Curve,
    /// What every scan costs.
    pub scan: f64,
    /// Each step of it, as [`scan_steps`] counts them.
    pub scan_step: Curve,
    /// What every search in merged tuples costs.
    pub merge: f64,
    /// Each probe of it.
    pub merge_probe: Curve,
    /// What every search in tuples costs.
    pub tuple_space: f64,
    /// Each probe of it.
    pub tuple_probe: Curve,
    /// A step from one table of a decomposition to the next.
    pub tree_step: f64,
    /// Going to one such table with the keys of a burst that wait there, however many.
    pub tree_visit: f64,
    /// Each row of a decomposition's table that is a chain of compares.
    pub tree_row: f64,
    /// Loading one line at random: an action record.
    pub record: Curve,
    /// Adding to an entry's counters.
    pub counter: Curve,
    /// Storing one field into the frame.
    pub store: f64,
    /// Adjusting one checksum.
    pub checksum: f64,
    /// Inserting one header.
    pub push: f64,
    /// Removing one header.
    pub pop: f64,
    /// Sending one copy.
    pub output: f64,
}

/// Prices on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The meaning of the figures; see [`Model::VERSION`].
    pub version: u32,
    /// The processor they were taken on; empty if none.
    pub cpu: String,
    /// Its frequency, for cycles.
    pub ghz: f64,
    /// Bytes of its data caches, first to third level, for words in reports.
    pub caches: [u64; 3],
    /// The prices.
    pub atoms: Atoms,
}

/// A predicted price in nanoseconds per packet.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// The likely one.
    pub ns: f64,
    /// If all data were in the first cache.
    pub near_ns: f64,
    /// If none were in a cache.
    pub far_ns: f64,
}

impl Cost {
    fn flat(ns: f64) -> Cost {
        Cost { ns, near_ns: ns, far_ns: ns }
    }

    fn touch(curve: &Curve, bytes: u64) -> Cost {
        Cost { ns: curve.at(bytes), near_ns: curve.near(), far_ns: curve.far() }
    }

    fn times(self, n: f64) -> Cost {
        Cost { ns: self.ns * n, near_ns: self.near_ns * n, far_ns: self.far_ns * n }
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            ns: self.ns + other.ns,
            near_ns: self.near_ns + other.near_ns,
            far_ns: self.far_ns + other.far_ns,
        }
    }
}

/// What a lookup structure holds, as far as its price depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LookupShape {
    /// Entries, one that takes everything left out.
    pub entries: usize,
    /// Their distinct masks.
    pub masks: usize,
    /// Entries that compare ranges.
    pub ranged: usize,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Whether it is one column of prefixes, longer ones first.
    pub prefix: bool,
    /// Whether it is one column of up to 64 bits, of prefixes and ranges.
    pub convex: bool,
}

impl LookupShape {
    /// Words of a key.
    pub fn words(&self) -> usize {
        self.key_bytes.div_ceil(8).max(1)
    }
}

/// What the actions of a table do to a packet, in the mean of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ActionShape {
    /// Fields stored.
    pub stores: f64,
    /// Checksums adjusted.
    pub checksums: f64,
    /// Headers inserted.
    pub pushes: f64,
    /// Headers removed.
    pub pops: f64,
    /// Copies sent.
    pub outputs: f64,
}

/// A table as packets meet it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name in reports.
    pub name: String,
    /// Visits per packet.
    pub visits: f64,
    /// How it is looked up.
    pub template: Template,
    /// Its entries.
    pub entries: u64,
    /// Entries that the traffic hits; at most the flows, at most `entries`.
    pub active: u64,
    /// Words of its key.
    pub key_words: u32,
    /// Bytes of its structure.
    pub bytes: u64,
    /// Steps of a lookup in the mean: compares of `direct_code`, touches of `lpm`, steps of `range` and
    /// `scan`, probes of `tuple_merge` and
    /// `tuple_space`, tables of `decomposed`; 1 for `hash`.
    pub steps: f64,
    /// Bytes of its action records.
    pub record_bytes: u64,
    /// Whether its entries' counters are kept.
    pub counters: bool,
    /// What its actions do.
    pub action: ActionShape,
}

/// A pipeline as packets meet it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pipeline {
    /// Headers parsed per packet.
    pub parse_layers: f64,
    /// Bytes that frames are spread over: what they touch of buffers before one is used again.
    pub frame_bytes: u64,
    /// The tables.
    pub stages: Vec<Stage>,
}

/// What a packet will cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Nanoseconds, the likely figure.
    pub ns_per_packet: f64,
    /// If all data were in the first cache.
    pub near_ns: f64,
    /// If none were in a cache.
    pub far_ns: f64,
    /// Cycles, the likely figure.
    pub cycles: f64,
    /// What it is made of: a step, and its nanoseconds.
    pub lines: Vec<(String, f64)>,
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(5);
        for (name, ns) in &self.lines {
            writeln!(f, "{name:<width$} {ns:>7.1} ns")?;
        }
        write!(
            f,
            "{:<width$} {:>7.1} ns, {:.0} cycles; {:.1} ns all in L1, {:.1} ns all in memory",
            "total", self.ns_per_packet, self.cycles, self.near_ns, self.far_ns
        )
    }
}

/// What comparing the ranges of an entry takes, in rows of a chain of compares.
const RANGE_ROWS: f64 = 5.0;
/// What each probe of a search in tuples takes besides where a key comes alone, in visits.
const PROBE_VISIT: f64 = 0.25;
/// Packets in a burst.
const BURST: f64 = 32.0;
const LINE: u64 = 64;
/// Lines of a structure that one active entry keeps in use.
const LINES_PER_ENTRY: u64 = 2;
/// Bytes of an entry's counters.
const COUNTER_BYTES: u64 = 16;

impl Model {
    /// Changes when the figures change their meaning; others are ignored.
    pub const VERSION: u32 = 2;

    /// Plausible figures for a server of today, until it is measured.
    pub fn builtin() -> Model {
        // At 16 KB, 512 KB, 16 MB and 256 MB: the middle of each level of the hierarchy.
        let curve = |near: f64, second: f64, third: f64, memory: f64| {
            let kb = 1024;
            Curve::new(vec![
                (16 * kb, near),
                (512 * kb, second),
                (16 * 1024 * kb, third),
                (256 * 1024 * kb, memory),
            ])
        };
        Model {
            version: Model::VERSION,
            cpu: String::new(),
            ghz: 3.0,
            caches: [32 << 10, 1 << 20, 32 << 20],
            atoms: Atoms {
                packet: 3.0,
                parse_layer: 0.8,
                gather_word: 0.3,
                node: 1.5,
                direct_code: 0.5,
                direct_code_entry: 0.6,
                hash: curve(3.5, 4.5, 8.0, 18.0),
                key_word: 0.7,
                lpm: 1.5,
                lpm_touch: curve(1.0, 1.4, 4.0, 10.0),
                range_step: curve(1.5, 1.8, 3.0, 8.0),
                scan: 1.3,
                scan_step: curve(2.7, 3.3, 6.0, 15.0),
                merge: 2.0,
                merge_probe: curve(5.0, 6.5, 12.0, 28.0),
                tuple_space: 2.0,
                tuple_probe: curve(4.0, 5.0, 9.0, 20.0),
                tree_step: 1.5,
                tree_visit: 20.0,
                tree_row: 0.3,
                record: curve(0.4, 0.6, 1.5, 5.0),
                counter: curve(0.6, 0.9, 2.0, 6.0),
                store: 0.4,
                checksum: 0.7,
                push: 2.0,
                pop: 2.0,
                output: 1.0,
            },
        }
    }

    /// The model in a file, if there is one and it was measured on this machine.
    pub fn load(path: &Path) -> Option<Model> {
        let model: Model = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let here = model.version == Model::VERSION && model.cpu == cpu_name();
        (here && model.is_sound()).then_some(model)
    }

    /// Writes the model into a file, whole or not at all.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        let part = path.with_extension(format!("{}.part", std::process::id()));
        std::fs::write(&part, text)?;
        std::fs::rename(&part, path).inspect_err(|_| drop(std::fs::remove_file(&part)))
    }

    /// Whether every price is a number that can be summed.
    pub(crate) fn is_sound(&self) -> bool {
        let a = &self.atoms;
        let flat = [
            self.ghz,
            a.packet,
            a.parse_layer,
            a.gather_word,
            a.node,
            a.direct_code,
            a.direct_code_entry,
            a.key_word,
            a.lpm,
            a.scan,
            a.merge,
            a.tuple_space,
            a.tree_step,
            a.tree_visit,
            a.tree_row,
            a.store,
            a.checksum,
            a.push,
            a.pop,
            a.output,
        ];
        let curves = [
            &a.hash,
            &a.lpm_touch,
            &a.range_step,
            &a.scan_step,
            &a.merge_probe,
            &a.tuple_probe,
            &a.record,
            &a.counter,
        ];
        let price = |ns: f64| (0.0..1e6).contains(&ns);
        flat.iter().all(|&ns| price(ns))
            && curves.iter().all(|curve| {
                !curve.points.is_empty()
                    && curve.points.iter().all(|&(_, ns)| price(ns))
                    && curve.points.is_sorted_by_key(|&(bytes, _)| bytes)
            })
    }

    /// The price of one lookup, with what it takes to come to the table and to leave it.
    pub fn lookup(&self, template: Template, steps: f64, key_words: u32, bytes: u64) -> Cost {
        let a = &self.atoms;
        if template == Template::DirectCode {
            return Cost::flat(a.direct_code + a.direct_code_entry * steps);
        }
        let words = f64::from(key_words.max(1));
        let wait = Cost::flat(a.node + a.gather_word * words);
        let further = Cost::flat(a.key_word * (words - 1.0));
        wait + match template {
            Template::DirectCode => Cost::default(),
            Template::Hash => Cost::touch(&a.hash, bytes) + further,
            Template::Lpm => Cost::flat(a.lpm) + Cost::touch(&a.lpm_touch, bytes).times(steps),
            Template::Range => Cost::touch(&a.range_step, bytes).times(steps) + further,
            Template::Scan => Cost::flat(a.scan) + Cost::touch(&a.scan_step, bytes).times(steps),
            Template::Decomposed => {
                (Cost::flat(a.tree_step) + Cost::touch(&a.hash, bytes)).times(steps)
            }
            Template::TupleMerge => {
                Cost::flat(a.merge) + Cost::touch(&a.merge_probe, bytes).times(steps)
            }
            Template::TupleSpace => {
                Cost::flat(a.tuple_space)
                    + (Cost::touch(&a.tuple_probe, bytes) + further).times(steps)
            }
        }
    }

    /// The cheapest way to look up one table of a decomposition to which this share of the packets
    /// comes, and its price, step included.
    pub fn node(&self, shape: &LookupShape, share: f64) -> (Template, f64) {
        let a = &self.atoms;
        let bytes = approximate_bytes(shape.entries, shape.key_bytes);
        let words = shape.words() as f64;
        let further = a.key_word * (words - 1.0);
        // Entries with ranges share masks, and are then compared one by one.
        let compared = shape.ranged as f64 / shape.masks.max(1) as f64;
        // Entries are ranked, so that a search ends half-way.
        let probes = (merged_probes(shape.masks) as f64 + 1.0) / 2.0;
        let together = (BURST * share).max(1.0);
        let visit = a.tree_visit / together;
        // Where few keys come together, the misses of a probe do not overlap either.
        let alone = PROBE_VISIT * visit;
        let probe = a.merge_probe.at(bytes) + alone + RANGE_ROWS * a.tree_row * compared;
        let mut best = (Template::TupleMerge, a.merge + probe * probes);
        let mut offer = |template, ns| {
            if ns < best.1 {
                best = (template, ns);
            }
        };
        if shape.masks <= 1 && shape.ranged == 0 {
            offer(Template::Hash, a.hash.at(bytes) + further);
        }
        if shape.prefix && shape.ranged == 0 {
            let touches = lpm_touches(shape.key_bytes);
            offer(Template::Lpm, a.lpm + a.lpm_touch.at(bytes) * touches);
        }
        if shape.convex {
            offer(Template::Range, a.range_step.at(bytes) * range_steps(shape.entries));
        }
        if shape.masks > 1 && shape.ranged == 0 {
            // Entries spread evenly over the masks.
            let each = shape.entries.div_ceil(shape.masks);
            let few = each <= classify::scan::COMPARED_PER_MASK_MAX;
            let (compared, probes) = if few { (shape.entries, 0) } else { (0, shape.masks) };
            if shape.entries <= classify::scan::ENTRIES_MAX
                && compared <= classify::scan::COMPARED_MAX
                && probes <= classify::scan::PROBES_MAX
            {
                let steps = scan_steps(compared, probes);
                offer(Template::Scan, a.scan + a.scan_step.at(bytes) * steps);
            }
        }
        if shape.entries <= SCAN_ROWS_MAX && shape.ranged == 0 {
            offer(Template::DirectCode, a.tree_row * (shape.entries as f64) * words);
        }
        (best.0, best.1 + a.tree_step + visit)
    }

    /// What a packet will cost.
    pub fn predict(&self, pipeline: &Pipeline) -> Prediction {
        let a = &self.atoms;
        let sets = working_sets(pipeline);
        // All that is no larger than a set competes with it for the caches, and wins.
        let near = |own: u64| sets.iter().filter(|&&set| set <= own).sum::<u64>().max(own);
        let mut total = Cost::default();
        let mut lines = Vec::new();
        let mut add = |name: String, cost: Cost| {
            total = total + cost;
            if cost.ns > 0.0 {
                lines.push((name, cost.ns));
            }
        };
        let frame = Cost::touch(&a.record, near(pipeline.frame_bytes));
        let spread = if pipeline.frame_bytes > 0 { frame.ns - frame.near_ns } else { 0.0 };
        let packet = Cost { ns: a.packet + NOT_HIDDEN * spread, ..Cost::flat(a.packet) };
        add("packet in and out".into(), packet);
        let unlearnt = pipeline.frame_bytes > LEARNT_BYTES;
        add(
            format!("parse {} headers", number(pipeline.parse_layers)),
            Cost::flat(a.parse_layer * pipeline.parse_layers),
        );
        for stage in &pipeline.stages {
            let Stage { name, visits, template, .. } = stage;
            let own = structure_set(stage);
            let lookup = self.lookup(*template, stage.steps, stage.key_words, near(own));
            let place = if own == 0 { "" } else { self.level(near(own)) };
            add(format!("{name}: {template}{place}"), lookup.times(*visits));
            if unlearnt && matches!(template, Template::DirectCode | Template::Scan) {
                // Where all entries are as likely, all but one of them are not the one guessed.
                let others = 1.0 - 1.0 / stage.entries.min(stage.active).max(1) as f64;
                let wrong = Cost::flat(MISPREDICTED_CYCLES / self.ghz.max(0.1) * others);
                add(format!("{name}: branches guessed wrong"), wrong.times(*visits));
            }
            if *template != Template::DirectCode {
                let bytes = near(record_set(stage));
                add(format!("{name}: action record"), Cost::touch(&a.record, bytes).times(*visits));
            }
            if stage.counters {
                let bytes = near(counter_set(stage));
                let place = self.level(bytes);
                add(
                    format!("{name}: counter{place}"),
                    Cost::touch(&a.counter, bytes).times(*visits),
                );
            }
            let act = &stage.action;
            let ns = a.store * act.stores
                + a.checksum * act.checksums
                + a.push * act.pushes
                + a.pop * act.pops
                + a.output * act.outputs;
            add(format!("{name}: action"), Cost::flat(ns).times(*visits));
        }
        // Frames are asked for while those before them are worked on: work hides how long they take,
        // but for the little that it cannot, and only as much as there is.
        let stream = if pipeline.frame_bytes > 0 { FRAME_LINES * frame.ns } else { 0.0 };
        if spread > 0.0 && stream > total.ns {
            lines.push(("waiting for frames".into(), stream - total.ns));
            total.ns = stream;
        }
        Prediction {
            ns_per_packet: total.ns,
            near_ns: total.near_ns,
            far_ns: total.far_ns,
            cycles: total.ns * self.ghz,
            lines,
        }
    }

    /// Where a set of so many bytes lies, in words.
    fn level(&self, bytes: u64) -> &'static str {
        match self.caches.iter().position(|&cache| bytes <= cache) {
            Some(0) => " (L1)",
            Some(1) => " (L2)",
            Some(2) => " (L3)",
            _ => " (memory)",
        }
    }
}

/// Share of the time that a frame takes to come near which no other work hides.
const NOT_HIDDEN: f64 = 0.35;
/// Lines that come with a frame from afar: its bytes, and its share of what describes frames.
const FRAME_LINES: f64 = 1.6;
/// What a branch costs that was guessed wrong.
const MISPREDICTED_CYCLES: f64 = 18.0;
/// Traffic that repeats after so many bytes of buffers is learnt by heart by branch predictors.
const LEARNT_BYTES: u64 = 4 << 20;

/// Rows up to which a table of a decomposition is a chain of compares.
const SCAN_ROWS_MAX: usize = 16;

/// Places that a walk for the longest prefix touches, in the mean.
pub(crate) fn lpm_touches(key_bytes: usize) -> f64 {
    match key_bytes {
        0..=2 => 1.0,
        3..=4 => 2.0,
        n => 2.0 + (n - 4) as f64 / 2.0,
    }
}

/// Steps of a search by halves among the pieces of so many ranges.
pub(crate) fn range_steps(entries: usize) -> f64 {
    ((2 * entries + 1) as f64).log2().ceil()
}

/// Steps of a scan that compares so many entries and probes so many masks: a probe is one, and a
/// compare of eight entries a quarter.
pub fn scan_steps(compared: usize, probes: usize) -> f64 {
    probes as f64 + compared.div_ceil(8) as f64 / 4.0
}

/// Tuples that so many masks are likely to merge into: about as many as the root of their number, as
/// ClassBench's sets of a thousand rules and more do.
pub(crate) fn merged_probes(masks: usize) -> usize {
    let root = (masks as f64).sqrt().ceil() as usize;
    masks.min(root + 1)
}

/// Bytes of a hash of so many entries.
pub(crate) fn approximate_bytes(entries: usize, key_bytes: usize) -> u64 {
    entries as u64 * (24 + 8 * key_bytes.div_ceil(8) as u64)
}

/// Bytes that accesses to each of a pipeline's structures are spread over.
fn working_sets(pipeline: &Pipeline) -> Vec<u64> {
    let of = |stage: &Stage| [structure_set(stage), record_set(stage), counter_set(stage)];
    pipeline.stages.iter().flat_map(of).chain([pipeline.frame_bytes]).collect()
}

fn structure_set(stage: &Stage) -> u64 {
    if stage.template == Template::DirectCode {
        return 0;
    }
    touched_bytes(stage.bytes, stage.active, stage.steps)
}

/// Bytes of a structure that so many entries in use keep warm, if a lookup takes so many steps.
pub(crate) fn touched_bytes(bytes: u64, active: u64, steps: f64) -> u64 {
    let steps = steps.clamp(1.0, 64.0).ceil() as u64;
    bytes.min(active.saturating_mul(LINES_PER_ENTRY * LINE).saturating_mul(steps))
}

fn record_set(stage: &Stage) -> u64 {
    if stage.template == Template::DirectCode {
        return 0;
    }
    stage.record_bytes.min(stage.active.saturating_mul(LINE))
}

fn counter_set(stage: &Stage) -> u64 {
    if !stage.counters {
        return 0;
    }
    let all = stage.entries.saturating_mul(COUNTER_BYTES);
    all.min(stage.active.saturating_mul(LINE))
}

fn number(n: f64) -> String {
    if n.fract() == 0.0 { format!("{n:.0}") } else { format!("{n:.1}") }
}

/// The processor's name, as far as the system tells.
pub(crate) fn cpu_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = |key: &str| {
        let line = info.lines().find(|line| line.split(':').next().map(str::trim) == Some(key))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    // Arm processors have numbers for a name.
    let model = named("model name").or_else(|| named("CPU part")).unwrap_or_default();
    let stepping = ["cpu family", "model", "CPU implementer"].into_iter().filter_map(named);
    stepping.fold(model, |name, part| format!("{name} {part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_bend_at_their_points() {
        let curve = Curve::new(vec![(1 << 20, 8.0), (1 << 10, 2.0), (1 << 14, 4.0)]);
        let at = |bytes| curve.at(bytes);
        assert_eq!((at(0), at(1), at(1024), at(u64::MAX)), (2.0, 2.0, 2.0, 8.0));
        assert_eq!((at(1 << 12), at(1 << 14), at(1 << 17)), (3.0, 4.0, 6.0));
        assert_eq!((curve.near(), curve.far()), (2.0, 8.0));
        assert_eq!(curve.scaled(0.5).at(1 << 17), 3.0);
        assert_eq!(Curve::new(vec![]).at(5), 0.0);
    }

    #[test]
    fn templates_are_read_back_by_name() {
        for template in Template::ALL {
            assert_eq!(template.name().parse(), Ok(template));
            assert_eq!(template.kind().map_or("direct_code", |k| k.name()), template.name());
        }
        let unknown = "linked_list".parse::<Template>().unwrap_err();
        assert!(
            unknown.to_string().starts_with("unknown template \"linked_list\"; there are direct")
        );
    }

    fn stage(name: &str, template: Template, entries: u64) -> Stage {
        Stage {
            name: name.into(),
            visits: 1.0,
            template,
            entries,
            active: entries,
            key_words: 1,
            bytes: entries * 40,
            steps: 1.0,
            record_bytes: 16,
            counters: true,
            action: ActionShape { outputs: 1.0, ..ActionShape::default() },
        }
    }

    #[test]
    fn a_prediction_is_the_sum_of_its_lines() {
        let pipeline = Pipeline {
            parse_layers: 2.0,
            frame_bytes: 0,
            stages: vec![
                Stage { steps: 2.0, ..stage("ports", Template::DirectCode, 2) },
                Stage { visits: 0.5, ..stage("mac", Template::Hash, 1000) },
            ],
        };
        let model = Model::builtin();
        let told = model.predict(&pipeline);
        assert_eq!(
            told.to_string(),
            "packet in and out       3.0 ns\n\
             parse 2 headers         1.6 ns\n\
             ports: direct_code      1.7 ns\n\
             ports: counter (L1)     0.6 ns\n\
             ports: action           1.0 ns\n\
             mac: hash (L2)          2.8 ns\n\
             mac: action record      0.2 ns\n\
             mac: counter (L1)       0.3 ns\n\
             mac: action             0.5 ns\n\
             total                  11.7 ns, 35 cycles; 11.5 ns all in L1, 29.2 ns all in memory"
        );
        let sum: f64 = told.lines.iter().map(|(_, ns)| ns).sum();
        assert!((sum - told.ns_per_packet).abs() < 1e-9);
        assert!(told.near_ns <= told.ns_per_packet && told.ns_per_packet <= told.far_ns);
    }

    #[test]
    fn what_is_small_stays_near() {
        let model = Model::builtin();
        let of = |flows: u64| {
            let mut large = stage("large", Template::Hash, 1 << 20);
            large.active = flows;
            let small = stage("small", Template::Hash, 100);
            model.predict(&Pipeline { stages: vec![small, large], ..Pipeline::default() })
        };
        let line = |p: &Prediction, at: usize| p.lines[at].clone();
        // The small table costs the same whatever the large one does.
        assert_eq!(line(&of(10), 1).0, "small: hash (L1)");
        assert!((line(&of(1 << 20), 1).1 - line(&of(1000), 1).1).abs() < 0.2);
        assert_eq!(line(&of(1 << 20), 5).0, "large: hash (memory)");
        assert!(of(1 << 20).ns_per_packet > of(1000).ns_per_packet + 5.0);
        assert!(of(1 << 30).ns_per_packet >= of(1 << 20).ns_per_packet);
    }

    #[test]
    fn a_model_comes_back_from_its_file() {
        let dir = std::env::temp_dir().join(format!("millrace-plan-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("model.json");
        assert_eq!(Model::load(&path), None);
        let mut model = Model { cpu: cpu_name(), ..Model::builtin() };
        model.save(&path).unwrap();
        assert_eq!(Model::load(&path), Some(model.clone()));
        // Another machine's, another meaning, figures that are none.
        let refused = |model: &Model| {
            model.save(&path).unwrap();
            assert_eq!(Model::load(&path), None);
        };
        refused(&Model { cpu: "another".into(), ..model.clone() });
        refused(&Model { version: 0, ..model.clone() });
        refused(&Model { ghz: -1.0, ..model.clone() });
        model.atoms.hash = Curve { points: vec![] };
        refused(&model);
        std::fs::write(&path, b"{\"version\":1").unwrap();
        assert_eq!(Model::load(&path), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
