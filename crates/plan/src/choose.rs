//! Picks the template of a table: the one of least predicted cost among those that fit.
//!
//! Every template answers: it declines, with a reason; or it fits, and has a price. The answers are a
//! value and print as
//!
//! ```text
//! acl (ternary, 812 entries, 9 masks)
//!   direct_code  declined: 812 entries
//!   hash         declined: 9 distinct masks
//!   lpm          declined: ternary in 4 fields
//!   scan         declined: 460 entries of rare masks; 252 at most
//!   decomposed   passed over: 41.7 ns a packet
//!   tuple_merge  chosen: 9 masks, about 4 probes, 25.8 ns a packet
//! ```
//!
//! Prices are those of a lookup with the way to it and back, so that a table in the instruction
//! stream, to which there is no way, can be compared with the others.
//!
//! Cost: by the table's summary alone, except that a decomposition is tried on the rules themselves;
//! only on tables of few enough entries, and only where it could pay.
//! Checked by: the unit tests below, which hold the reports to the letter.

use std::fmt;

use classify::choose::is_few_masks;
use classify::decomposed::{Decomposed, TreeError};
use classify::{Kind, Layout, Rule, TableShape};

use crate::cost::{
    Cost, LookupShape, Model, Template, approximate_bytes, lpm_touches, merged_probes, range_steps,
    scan_steps,
};
use crate::decompose::{
    self, Column, Flows, Goal, Limits, Place, Tree, decompose, decompose_first,
};

/// What is known of a table.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Its name in reports.
    pub name: &'a str,
    /// Its rules, summed up ([`classify::Table::shape`]).
    pub shape: &'a TableShape,
    /// Names and widths of the layout's fields; may be shorter or empty.
    pub columns: &'a [Column],
    /// Makes its rules, should they be asked for.
    pub rules: Option<&'a dyn Fn() -> Vec<Rule>>,
    /// Why its actions cannot be part of compiled code, if they cannot.
    pub not_compiled: Option<&'a str>,
    /// Probes of the general structure, if known; else one per mask.
    pub probes: Option<usize>,
    /// Bytes of the structure that serves, if known.
    pub memory_bytes: Option<u64>,
}

impl<'a> Facts<'a> {
    /// What a summary says.
    pub fn new(name: &'a str, shape: &'a TableShape) -> Facts<'a> {
        Facts {
            name,
            shape,
            columns: &[],
            rules: None,
            not_compiled: None,
            probes: None,
            memory_bytes: None,
        }
    }
}

/// What may be chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Take this template, or refuse.
    pub force: Option<Template>,
    /// Entries of a table in the instruction stream, at most; the model may ask for fewer.
    pub direct_code_max: usize,
    /// Whether tables may be decomposed.
    pub decompose: bool,
    /// Entries of a table that is decomposed, at most.
    pub decompose_entries_max: usize,
    /// How many times cheaper than the best single template a decomposition must be.
    pub decompose_gain_min: f64,
    /// When parts of a decomposed table are simple enough.
    pub goal: Goal,
    /// Bounds of a decomposition.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            force: None,
            direct_code_max: 16,
            decompose: true,
            decompose_entries_max: 4096,
            decompose_gain_min: 1.25,
            goal: Goal::default(),
            limits: Limits::default(),
        }
    }
}

/// Entries in the instruction stream that are always allowed, as the paper found.
const DIRECT_CODE_MIN: usize = 4;
/// Entries in the instruction stream if it is asked for.
const DIRECT_CODE_FORCED_MAX: usize = 1024;

/// Steps that a search in ranges takes longer where a hash leads to the ranges.
const RANGE_PROBE_STEPS: f64 = 3.0;

/// What became of one template.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It cannot serve the table.
    Declined(String),
    /// It could, but another is cheaper, or was asked for.
    Passed(Cost),
    /// It could and is cheaper, but by less than [`Options::decompose_gain_min`].
    Close(Cost),
    /// It serves; how.
    Chosen(String, Cost),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Declined(reason) => write!(f, "declined: {reason}"),
            Verdict::Passed(cost) => write!(f, "passed over: {:.1} ns a packet", cost.ns),
            Verdict::Close(cost) => {
                write!(f, "passed over: {:.1} ns a packet, too little gained", cost.ns)
            }
            Verdict::Chosen(how, cost) => write!(f, "chosen: {how}, {:.1} ns a packet", cost.ns),
        }
    }
}

/// A table in several, ready to be built.
#[derive(Debug, Clone, PartialEq)]
pub struct Decomposition {
    /// The tables.
    pub tree: Tree,
    /// Where the columns of the tree lie in a packed key.
    pub places: Vec<Place>,
}

impl Decomposition {
    /// The structure that serves it. `rules` are those that the plan was made from.
    pub fn structure(&self, layout: Layout, rules: &[Rule]) -> Result<Decomposed, TreeError> {
        Decomposed::new(layout, rules, &self.tree.packed(&self.places))
    }
}

/// A template chosen, with the reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct TablePlan {
    /// What serves the table.
    pub template: Template,
    /// All that was considered, in the order of reports.
    pub verdicts: Vec<(Template, Verdict)>,
    /// The report.
    pub text: String,
    /// What a lookup will cost, with the way to it and back, if entries are equally likely.
    pub predicted: Cost,
    /// Its steps, as [`crate::cost::Stage::steps`] has them.
    pub steps: f64,
    /// The tables, where the template is [`Template::Decomposed`].
    pub decomposition: Option<Decomposition>,
}

impl fmt::Display for TablePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A template was asked for that cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table {table}: {template} is asked for, but declined: {reason}")]
pub struct Refused {
    /// Which table.
    pub table: String,
    /// Which template.
    pub template: Template,
    /// Why it cannot.
    pub reason: String,
}

/// A template that fits.
struct Offer {
    template: Template,
    how: String,
    steps: f64,
    cost: Cost,
}

/// Chooses among the templates for a table.
pub fn choose_table(
    facts: &Facts<'_>,
    model: &Model,
    options: &Options,
) -> Result<TablePlan, Refused> {
    let mut answers: Vec<Result<Offer, (Template, String)>> = Vec::new();
    answers.push(direct_code(facts, model, options));
    answers.extend(
        [Kind::Hash, Kind::Lpm, Kind::Range, Kind::Scan]
            .into_iter()
            .filter_map(|kind| special(facts, model, kind)),
    );
    let general = general(facts, model, options);
    let asked = options.force == Some(Template::Decomposed);
    let least = answers.iter().flatten().fold(general.cost.ns, |ns, offer| ns.min(offer.cost.ns));
    let least = if asked { f64::INFINITY } else { least };
    let mut decomposition = None;
    answers.push(match split(facts, model, options, least) {
        Ok((offer, found)) => {
            decomposition = Some(found);
            Ok(offer)
        }
        Err(reason) => Err((Template::Decomposed, reason)),
    });
    answers.push(Ok(general));

    let offers = || answers.iter().flatten();
    let chosen = match options.force {
        Some(asked) => offers().find(|offer| offer.template == asked),
        None => offers().min_by(|a, b| {
            let weighed = |offer: &Offer| match offer.template {
                Template::Decomposed => offer.cost.ns * options.decompose_gain_min,
                _ => offer.cost.ns,
            };
            weighed(a).total_cmp(&weighed(b))
        }),
    };
    let Some(&Offer { template, steps, cost, .. }) = chosen else {
        let template = options.force.unwrap_or(Template::TupleMerge);
        let reason = answers.iter().find_map(|answer| match answer {
            Err((declined, reason)) if *declined == template => Some(reason.clone()),
            _ => None,
        });
        let reason = reason.unwrap_or_else(|| "there is no such structure".into());
        return Err(Refused { table: facts.name.into(), template, reason });
    };
    let verdict = |answer| match answer {
        Err((template, reason)) => (template, Verdict::Declined(reason)),
        Ok(Offer { template: this, how, cost, .. }) if this == template => {
            (this, Verdict::Chosen(how, cost))
        }
        Ok(offer) if options.force.is_none() && offer.cost.ns < cost.ns => {
            (offer.template, Verdict::Close(offer.cost))
        }
        Ok(offer) => (offer.template, Verdict::Passed(offer.cost)),
    };
    let verdicts: Vec<(Template, Verdict)> = answers.into_iter().map(verdict).collect();
    Ok(TablePlan {
        template,
        text: report(facts, &verdicts),
        verdicts,
        predicted: cost,
        steps,
        decomposition: decomposition.filter(|_| template == Template::Decomposed),
    })
}

fn report(facts: &Facts<'_>, verdicts: &[(Template, Verdict)]) -> String {
    let shape = facts.shape;
    let mut text = format!(
        "{} ({}, {}, {})",
        facts.name,
        shape.word(),
        counted(shape.entries, "entry", "entries"),
        counted(shape.masks.len(), "mask", "masks")
    );
    for (template, verdict) in verdicts {
        text.push_str(&format!("\n  {template:<12} {verdict}"));
    }
    text
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn key_words(facts: &Facts<'_>) -> u32 {
    facts.shape.layout.key_len().div_ceil(8).max(1) as u32
}

fn bytes(facts: &Facts<'_>) -> u64 {
    let guess = || approximate_bytes(facts.shape.entries, facts.shape.layout.key_len());
    facts.memory_bytes.unwrap_or_else(guess)
}

fn columns(facts: &Facts<'_>) -> usize {
    facts.shape.layout.fields().len()
}

/// Columns that a chain of compares looks at, if every entry is as likely: half of the entries; of
/// each the first column, and the others half of the time.
fn direct_code_steps(entries: usize, columns: usize) -> f64 {
    (entries as f64 + 1.0) / 2.0 * (1.0 + columns.saturating_sub(1) as f64 / 2.0)
}

/// Entries up to which the instruction stream is cheaper than a hash, within the given bound.
pub fn direct_code_max(model: &Model, options: &Options, columns: usize, key_words: u32) -> usize {
    let hash = model.lookup(Template::Hash, 1.0, key_words, 0).ns;
    let pays = |&n: &usize| {
        let steps = direct_code_steps(n, columns);
        model.lookup(Template::DirectCode, steps, key_words, 0).ns <= hash
    };
    let most = options.direct_code_max;
    (0..=most).take_while(pays).last().unwrap_or(0).max(DIRECT_CODE_MIN.min(most))
}

type Answer = Result<Offer, (Template, String)>;

fn direct_code(facts: &Facts<'_>, model: &Model, options: &Options) -> Answer {
    let template = Template::DirectCode;
    let entries = facts.shape.entries;
    if let Some(why) = facts.not_compiled {
        return Err((template, why.into()));
    }
    let max = match options.force {
        Some(Template::DirectCode) => DIRECT_CODE_FORCED_MAX,
        _ => direct_code_max(model, options, columns(facts), key_words(facts)),
    };
    if entries > max {
        return Err((template, counted(entries, "entry", "entries")));
    }
    let steps = direct_code_steps(entries, columns(facts));
    let cost = model.lookup(template, steps, key_words(facts), 0);
    Ok(Offer { template, how: counted(entries, "entry", "entries"), steps, cost })
}

/// One of the special structures; none if there is no such structure.
fn special(facts: &Facts<'_>, model: &Model, kind: Kind) -> Option<Answer> {
    let shape = facts.shape;
    let template = Template::ALL.into_iter().find(|t| t.kind() == Some(kind))?;
    let choice = classify::choose(shape, Some(kind));
    let (_, verdict) = choice.verdicts.iter().find(|(considered, _)| *considered == kind)?;
    if let classify::Verdict::Declined(reason) = verdict {
        return Some(Err((template, reason.to_string())));
    }
    let masks = counted(shape.masks.len(), "mask", "masks");
    let (steps, how) = match kind {
        Kind::Lpm => {
            let field = choice.field.unwrap_or(0);
            let len = shape.layout.fields().get(field).map_or(4, |field| field.len);
            let name = facts.columns.get(field).map(|c| format!(" in {}", c.name));
            (lpm_touches(len), format!("prefixes{}, {masks}", name.unwrap_or_default()))
        }
        Kind::Range => {
            let probe = if columns(facts) > 1 { RANGE_PROBE_STEPS } else { 0.0 };
            let steps = range_steps(shape.entries);
            (probe + steps, format!("at most {steps:.0} steps"))
        }
        Kind::Scan => {
            let (compared, probes) = classify::scan::steps(shape);
            let how = format!(
                "{} compared, {}",
                counted(compared, "entry", "entries"),
                counted(probes, "probe", "probes")
            );
            (scan_steps(compared, probes), how)
        }
        _ if shape.masks.len() > 1 => (1.0, "one mask and a catch-all, one probe".into()),
        _ => (1.0, "one mask, one probe".into()),
    };
    let cost = model.lookup(template, steps, key_words(facts), bytes(facts));
    Some(Ok(Offer { template, how, steps, cost }))
}

/// The general structure, or the plain one in its place, for few masks or where that is asked for.
fn general(facts: &Facts<'_>, model: &Model, options: &Options) -> Offer {
    let masks = facts.shape.masks.len();
    let (template, probes) = match options.force {
        Some(Template::TupleSpace) => (Template::TupleSpace, masks),
        None if is_few_masks(facts.shape) => (Template::TupleSpace, masks),
        _ => (Template::TupleMerge, facts.probes.unwrap_or_else(|| merged_probes(masks))),
    };
    let steps = mean_probes(facts.shape) * probes as f64 / masks.max(1) as f64;
    let how = format!(
        "{}, about {}",
        counted(masks, "mask", "masks"),
        counted(probes, "probe", "probes")
    );
    let cost = model.lookup(template, steps, key_words(facts), bytes(facts));
    Offer { template, how, steps, cost }
}

/// Probes of a search that ends when no mask left has an entry of higher priority, in the mean over
/// the entries; those of a mask are taken to lie in the middle of its priorities.
fn mean_probes(shape: &TableShape) -> f64 {
    let mut best: Vec<u32> = shape.masks.iter().map(|mask| mask.priority_max).collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    let probes = shape.masks.iter().map(|mask| {
        let middle = mask.priority_min + (mask.priority_max - mask.priority_min) / 2;
        best.partition_point(|&most| most >= middle) as f64 * mask.entries as f64
    });
    probes.sum::<f64>() / shape.entries.max(1) as f64
}

/// A decomposition, if one can be had and could cost less than the others.
fn split(
    facts: &Facts<'_>,
    model: &Model,
    options: &Options,
    least_ns: f64,
) -> Result<(Offer, Decomposition), String> {
    let shape = facts.shape;
    if !options.decompose && options.force != Some(Template::Decomposed) {
        return Err("switched off".into());
    }
    if columns(facts) < 2 {
        return Err(decompose::Declined::OneColumn.to_string());
    }
    let way = model.lookup(Template::Decomposed, 0.0, key_words(facts), 0);
    let row = LookupShape { entries: 1, masks: 1, key_bytes: 1, ..LookupShape::default() };
    let two_tables = way.ns + 2.0 * model.node(&row, 1.0).1;
    if two_tables >= least_ns {
        return Err("no two tables cost less".into());
    }
    if shape.entries > options.decompose_entries_max {
        let entries = counted(shape.entries, "entry", "entries");
        return Err(format!("{entries}, at most {}", options.decompose_entries_max));
    }
    let rules = facts.rules.ok_or("the entries were not given")?();
    let declined = |reason: decompose::Declined| reason.to_string();
    let (flows, places) =
        Flows::of_rules(&shape.layout, facts.columns, &rules).map_err(declined)?;
    let tree = cheapest(&flows, model, options).map_err(declined)?;
    let steps = tree.mean_depth();
    let far =
        Cost { ns: tree.ns, near_ns: tree.ns, far_ns: tree.ns.max(steps * model.atoms.hash.far()) };
    let first: Vec<&str> =
        tree.nodes[0].columns.iter().map(|&c| tree.columns[c].name.as_str()).collect();
    let how = format!(
        "{}, at most {} on a way, {} first",
        counted(tree.nodes.len(), "table", "tables"),
        tree.depth(),
        first.join(" and ")
    );
    let offer = Offer { template: Template::Decomposed, how, steps, cost: way + far };
    Ok((offer, Decomposition { tree, places }))
}

/// Rows of a table up to which every column is tried as the first.
const EVERY_COLUMN_ROWS_MAX: usize = 256;

/// The decomposition by least diversity, or a cheaper one that begins with another column.
fn cheapest(flows: &Flows, model: &Model, options: &Options) -> Result<Tree, decompose::Declined> {
    let first = decompose(flows, options.goal, &options.limits, model);
    if options.goal == Goal::OneColumn || flows.rows.len() > EVERY_COLUMN_ROWS_MAX {
        return first;
    }
    let others = (0..flows.columns.len()).filter_map(|column| {
        decompose_first(flows, Some(column), options.goal, &options.limits, model).ok()
    });
    others.fold(first, |best, tree| match best {
        Ok(best) if best.ns <= tree.ns => Ok(best),
        // One hash serves already, whatever the order.
        Err(decompose::Declined::Simple) => best,
        _ => Ok(tree),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(id: u32, priority: u32, value: &[u8], mask: &[u8]) -> Rule {
        Rule::new(id, priority, u64::from(id), value, mask).with_action(id)
    }

    fn named(names: &[&str]) -> Vec<Column> {
        names.iter().map(|&name| Column { name: name.into(), bits: 0 }).collect()
    }

    fn plan(
        layout: &[usize],
        names: &[&str],
        rules: &[Rule],
        options: &Options,
    ) -> Result<TablePlan, Refused> {
        let shape = TableShape::of(Layout::new(layout).unwrap(), rules);
        let columns = named(names);
        let give = || rules.to_vec();
        let mut facts = Facts::new("acl", &shape);
        facts.columns = &columns;
        facts.rules = Some(&give);
        choose_table(&facts, &Model::builtin(), options)
    }

    fn text(layout: &[usize], names: &[&str], rules: &[Rule]) -> String {
        plan(layout, names, rules, &Options::default()).unwrap().text
    }

    /// Ports to one address each, then addresses in whole, then nothing: a decomposition pays.
    fn firewall(n: u32) -> Vec<Rule> {
        let mut rules = Vec::new();
        for id in 0..n {
            let port = (id % 4) as u8;
            let mask = match port {
                0 => [0xff, 0xff, 0, 0, 0],
                1 => [0xff, 0xff, 0, 0xff, 0],
                2 => [0xff, 0xff, 0xff, 0, 0],
                _ => [0xff, 0, 0, 0, 0xff],
            };
            let value = [port, (id / 4) as u8, 1, 2, (id / 4) as u8];
            rules.push(rule(id, n - id, &value, &mask));
        }
        rules.push(rule(n, 0, &[0; 5], &[0; 5]));
        rules
    }

    #[test]
    fn reports_are_as_they_are_read() {
        let few = [rule(1, 1, &[1, 2], &[0xff, 0x55]), rule(2, 1, &[1, 2], &[0x0f, 0x33])];
        assert_eq!(
            text(&[1, 1], &["a", "b"], &few),
            "acl (ternary, 2 entries, 2 masks)\n  \
               direct_code  chosen: 2 entries, 1.8 ns a packet\n  \
               hash         declined: 2 distinct masks\n  \
               lpm          declined: ternary in 2 fields\n  \
               range        declined: ternary in 1 field\n  \
               scan         passed over: 3.8 ns a packet\n  \
               decomposed   declined: no two tables cost less\n  \
               tuple_space  passed over: 11.8 ns a packet"
        );
        let macs: Vec<Rule> =
            (0..200u32).map(|id| rule(id, 1, &[0, 0, 0, 0, 0, id as u8], &[0xff; 6])).collect();
        assert_eq!(
            text(&[6], &["eth_dst"], &macs),
            "acl (exact, 200 entries, 1 mask)\n  \
               direct_code  declined: 200 entries\n  \
               hash         chosen: one mask, one probe, 5.3 ns a packet\n  \
               lpm          passed over: 6.3 ns a packet\n  \
               range        passed over: 15.3 ns a packet\n  \
               scan         passed over: 5.8 ns a packet\n  \
               decomposed   declined: one column\n  \
               tuple_space  passed over: 7.8 ns a packet"
        );
        let routes: Vec<Rule> = (1..=30u32)
            .map(|len| {
                let mask = (u32::MAX << (32 - len)).to_be_bytes();
                rule(len, len, &[10, 1, 2, 3], &mask)
            })
            .collect();
        assert_eq!(
            text(&[4], &["ip_dst"], &routes),
            "acl (lpm, 30 entries, 30 masks)\n  \
               direct_code  declined: 30 entries\n  \
               hash         declined: 30 distinct masks\n  \
               lpm          chosen: prefixes in ip_dst, 30 masks, 5.3 ns a packet\n  \
               range        passed over: 10.8 ns a packet\n  \
               scan         passed over: 5.8 ns a packet\n  \
               decomposed   declined: one column\n  \
               tuple_merge  passed over: 21.9 ns a packet"
        );
        assert_eq!(
            text(&[1, 1, 1, 1, 1], &["in_port", "a", "b", "c", "d"], &firewall(160)),
            "acl (ternary, 161 entries, 5 masks)\n  \
               direct_code  declined: 161 entries\n  \
               hash         declined: 5 distinct masks\n  \
               lpm          declined: prefixes in 4 fields\n  \
               range        declined: masks differ outside the range field\n  \
               scan         chosen: 0 entries compared, 4 probes, 13.9 ns a packet\n  \
               decomposed   passed over: 12.1 ns a packet, too little gained\n  \
               tuple_merge  passed over: 19.8 ns a packet"
        );
    }

    #[test]
    fn options_bind() {
        let layout = [1, 1, 1, 1, 1];
        let rules = firewall(160);
        let with = |options: Options| plan(&layout, &["in_port"], &rules, &options);
        let off = with(Options { decompose: false, ..Options::default() }).unwrap();
        assert_eq!((off.template, off.decomposition), (Template::Scan, None));
        assert!(off.text.contains("decomposed   declined: switched off"));
        let much = with(Options { decompose_gain_min: 100.0, ..Options::default() }).unwrap();
        assert_eq!((much.template, &much.decomposition), (Template::Scan, &None));
        let little = with(Options { decompose_gain_min: 1.0, ..Options::default() }).unwrap();
        assert_eq!(little.template, Template::Decomposed);
        assert!(little.text.contains(
            "decomposed   chosen: 5 tables, at most 2 on a way, in_port first, 12.1 ns a packet"
        ));
        assert!(much.text.contains("passed over: 12.1 ns a packet, too little gained"));
        let small = with(Options { decompose_entries_max: 100, ..Options::default() }).unwrap();
        assert!(small.text.contains("decomposed   declined: 161 entries, at most 100"));
        let force = |template| with(Options { force: Some(template), ..Options::default() });
        assert_eq!(
            force(Template::Hash).unwrap_err().to_string(),
            "table acl: hash is asked for, but declined: 5 distinct masks"
        );
        assert_eq!(force(Template::TupleSpace).unwrap().template, Template::TupleSpace);
        // Asked for, the instruction stream takes more entries.
        let direct = force(Template::DirectCode).unwrap();
        assert!(direct.text.contains("direct_code  chosen: 161 entries"));
        let tree = force(Template::Decomposed).unwrap().decomposition.unwrap();
        let layout = Layout::new(&layout).unwrap();
        let structure = tree.structure(layout.clone(), &rules).unwrap();
        for n in 0..=255u8 {
            let key = [n % 5, n / 5, n % 3, 2, n / 4];
            let best = rules.iter().filter(|r| r.matches(&key)).min_by(|a, b| a.precedence(b));
            let hit = classify::Structure::lookup(&structure, &key);
            assert_eq!(hit, best.map_or(classify::Hit::MISS, Rule::hit));
        }
        // Actions that no code can be made of.
        let shape = TableShape::of(layout, &rules[..2]);
        let mut facts = Facts::new("t", &shape);
        facts.not_compiled = Some("meter in action 3");
        let plan = choose_table(&facts, &Model::builtin(), &Options::default()).unwrap();
        assert!(plan.text.contains("direct_code  declined: meter in action 3"));
        assert_ne!(plan.template, Template::DirectCode);
    }

    #[test]
    fn the_empty_table_and_the_table_without_a_key_cost_next_to_nothing() {
        for (layout, rules) in [(vec![4], vec![]), (vec![], vec![rule(1, 1, &[], &[])])] {
            let plan = plan(&layout, &[], &rules, &Options::default()).unwrap();
            assert_eq!(plan.template, Template::DirectCode);
            assert!(plan.predicted.ns < 2.0);
        }
    }

    #[test]
    fn the_instruction_stream_ends_where_a_hash_is_cheaper() {
        let (model, options) = (Model::builtin(), Options::default());
        let max = |columns| direct_code_max(&model, &options, columns, 1);
        assert_eq!((max(1), max(4)), (15, 5));
        assert!((0..40).all(|columns| (4..=16).contains(&max(columns))));
        let none = Options { direct_code_max: 0, ..options.clone() };
        assert_eq!(direct_code_max(&model, &none, 1, 1), 0);
        let mut fast = model.clone();
        fast.atoms.direct_code_entry = 0.0;
        assert_eq!(direct_code_max(&fast, &options, 3, 1), 16);
    }
}
