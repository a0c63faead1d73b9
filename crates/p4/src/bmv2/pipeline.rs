//! Pipelines: actions, tables, and the order in which they are applied.

use super::expr::Exprs;
use super::graph::{Graph, Piece, Wrong};
use super::headers::Kind;
use super::node::{Node, Result};
use super::primitive::{Body, Objects, algorithm};
use super::program::Hints;
use super::text::{Writer, called, is_name, quoted};
use num_bigint::BigInt;
use num_traits::One as _;
use std::collections::{BTreeMap, HashMap, HashSet};

/// An action of the JSON.
pub(super) struct Action<'n> {
    node: Node<'n>,
    name: String,
    params: Vec<(String, u32)>,
}

impl Action<'_> {
    /// It is core.p4's.
    fn is_none(&self) -> bool {
        self.name == "NoAction"
            && self.params.is_empty()
            && self.node.list("primitives").is_ok_and(|p| p.is_empty())
    }
}

/// All actions by their ids.
pub(super) fn actions<'n>(root: &Node<'n>) -> Result<BTreeMap<u32, Action<'n>>> {
    let mut all = BTreeMap::new();
    for n in root.field("actions")?.items()? {
        let mut params: Vec<(String, u32)> = Vec::new();
        for p in n.list("runtime_data")? {
            let name = p.name()?;
            let width = p.field("bitwidth")?;
            if !is_name(name) || params.iter().any(|(own, _)| own == name) {
                return p.no(format!("`{name}` is no name of its own for a parameter"));
            }
            match width.number()? {
                bits @ 1..=2048 => params.push((name.to_owned(), bits)),
                _ => return width.no("a parameter has 1 to 2048 bits"),
            }
        }
        let (id, name) = (n.field("id")?.number()?, n.name()?.to_owned());
        if all.insert(id, Action { node: n.clone(), name, params }).is_some() {
            return n.no(format!("there are two actions with the id {id}"));
        }
    }
    Ok(all)
}

/// A node of a pipeline's graph.
enum Step<'n> {
    Table(Node<'n>),
    If(Node<'n>),
    /// An action called in place: its id.
    Call(Node<'n>, u32),
}

impl<'n> Step<'n> {
    fn node(&self) -> &Node<'n> {
        let (Step::Table(n) | Step::If(n) | Step::Call(n, _)) = self;
        n
    }
}

/// A table, as its application needs it.
#[derive(Default)]
struct Table {
    ident: String,
    /// Names of actions in the JSON, and here.
    actions: Vec<(String, String)>,
    /// It is a call of one action in place.
    call: Option<String>,
    hit: bool,
}

pub(super) struct Pipelines<'a, 'n> {
    pub(super) exprs: Exprs<'a>,
    pub(super) objects: &'a Objects,
    pub(super) hints: &'a Hints,
    pub(super) actions: &'a BTreeMap<u32, Action<'n>>,
}

/// What one control is made of.
struct Parts {
    /// Objects that stand in it.
    objects: Writer,
    actions: Writer,
    tables: Writer,
    /// Actions that are written: by id and direct meter.
    written: HashMap<(u32, String), String>,
}

impl<'n> Pipelines<'_, 'n> {
    /// Writes the control of one pipeline.
    pub(super) fn write(&self, control: &str, n: Option<&Node<'n>>, w: &mut Writer) -> Result<()> {
        let mut parts = Parts {
            objects: Writer::default(),
            actions: Writer::default(),
            tables: Writer::default(),
            written: HashMap::new(),
        };
        let mut apply = Writer::default();
        if let Some(n) = n {
            self.pipeline(n, control, &mut parts, &mut apply)?;
        }
        w.at(n.map_or("pipelines", |n| n.path()));
        w.line(format!(
            "control {control}(inout headers hdr__, inout metadata meta__, \
             inout standard_metadata_t std__) {{"
        ));
        w.append(parts.objects);
        w.append(parts.actions);
        w.append(parts.tables);
        w.at(n.map_or("pipelines", |n| n.path()));
        w.line("apply {");
        w.append(apply);
        w.line("}");
        w.line("}");
        Ok(())
    }

    fn pipeline(
        &self,
        n: &Node<'n>,
        control: &str,
        parts: &mut Parts,
        apply: &mut Writer,
    ) -> Result<()> {
        let profiles = self.profiles(n, control, parts)?;
        let mut steps: Vec<Step<'n>> = Vec::new();
        steps.extend(n.list("tables")?.into_iter().map(Step::Table));
        steps.extend(n.list("conditionals")?.into_iter().map(Step::If));
        for call in n.list("action_calls")? {
            let id = call.field("action_id")?.number()?;
            steps.push(Step::Call(call, id));
        }
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        for (i, s) in steps.iter().enumerate() {
            if by_name.insert(s.node().name()?, i).is_some() {
                return s.node().no("another node of the pipeline has this name");
            }
        }
        let goal = |n: Option<Node<'_>>| -> Result<Option<usize>> {
            let Some(n) = n else { return Ok(None) };
            let found = by_name.get(n.str()?).copied();
            let found = found.ok_or_else(|| n.refused("no node of the pipeline has this name"))?;
            Ok(Some(found))
        };
        let mut tables: HashMap<usize, Table> = HashMap::new();
        let mut graph = Graph::default();
        // For each node its successors: labels and goals.
        let mut labels: Vec<Vec<(String, Option<usize>)>> = Vec::new();
        for (i, s) in steps.iter().enumerate() {
            let own: Vec<(String, Option<usize>)> = match s {
                Step::Table(t) => {
                    let table = self.table(t, &format!("{control}_{i}"), &profiles, parts)?;
                    let own = self.successors(t, &table, &goal)?;
                    tables.insert(i, table);
                    own
                }
                Step::If(c) => vec![
                    (String::new(), goal(c.get("true_next"))?),
                    (String::new(), goal(c.get("false_next"))?),
                ],
                Step::Call(c, _) => vec![(String::new(), goal(c.get("next_node"))?)],
            };
            graph.next.push(own.iter().map(|(_, goal)| *goal).collect());
            labels.push(own);
        }
        let start = goal(n.get("init_table"))?;
        let pieces = graph.nested(start).map_err(|wrong| match wrong {
            Wrong::Loop(i) => steps[i].node().refused("a way leads from it back to it"),
            Wrong::Many => n.refused("the pipeline has too many tables and conditions"),
            Wrong::Tangled => n.refused("the order of the tables is too tangled"),
        })?;
        let mut apply_steps = Apply { of: self, steps: &steps, tables, labels, parts };
        apply_steps.pieces(&pieces, apply)
    }

    /// Where each of a table's actions leads to.
    fn successors(
        &self,
        n: &Node<'_>,
        table: &Table,
        goal: &dyn Fn(Option<Node<'_>>) -> Result<Option<usize>>,
    ) -> Result<Vec<(String, Option<usize>)>> {
        let base = goal(n.get("base_default_next"))?;
        let Some(next) = n.get("next_tables") else {
            return Ok(vec![(String::new(), base)]);
        };
        if table.call.is_some() {
            let only = table.actions.first().map_or("", |(name, _)| name.as_str());
            let key = ["__MISS__", only].into_iter().find(|k| next.value.get(k).is_some());
            return Ok(vec![match key {
                Some(key) => (String::new(), goal(next.get(key))?),
                None => (String::new(), base),
            }]);
        }
        if table.hit {
            let of = |key: &str| match next.value.get(key) {
                Some(_) => goal(next.get(key)),
                None => Ok(base),
            };
            return Ok(vec![
                ("hit".to_owned(), of("__HIT__")?),
                ("miss".to_owned(), of("__MISS__")?),
            ]);
        }
        let mut all = vec![("default".to_owned(), base)];
        for (name, ident) in &table.actions {
            let own = match next.value.get(name) {
                Some(_) => goal(next.get(name))?,
                None => base,
            };
            all.push((ident.clone(), own));
        }
        // A table that always runs one of its actions never leads to what follows none.
        let runs = n.get("default_entry").is_some();
        let differs = all[1..].iter().any(|(_, goal)| *goal != base);
        let alike = all.len() > 1 && all[1..].iter().all(|(_, goal)| *goal == all[1].1);
        if differs && alike && runs {
            return Ok(vec![(String::new(), all[1].1)]);
        }
        Ok(all)
    }

    /// Declares action profiles; what each is called here, and its selector's inputs.
    fn profiles(
        &self,
        n: &Node<'_>,
        control: &str,
        parts: &mut Parts,
    ) -> Result<HashMap<String, (String, Vec<String>)>> {
        let mut all = HashMap::new();
        for (i, p) in n.list("action_profiles")?.iter().enumerate() {
            let (name, size) = (p.name()?, p.field("max_size")?.number()?);
            let ident = format!("profile_{control}_{i}");
            let w = &mut parts.objects;
            w.at(p.path());
            let mut inputs = Vec::new();
            match p.get("selector") {
                None => w.line(format!("{} action_profile({size}) {ident};", called(name))),
                Some(selector) => {
                    let algorithm = algorithm(&selector.field("algo")?)?;
                    for input in selector.field("input")?.items()? {
                        let value = self.exprs.value(&input)?;
                        inputs.push(value.bits(value.width));
                    }
                    w.line(format!(
                        "{} action_selector(HashAlgorithm.{algorithm}, {size}, 32) {ident};",
                        called(name)
                    ));
                }
            }
            all.insert(name.to_owned(), (ident, inputs));
        }
        Ok(all)
    }

    /// An action as it is written here, with the direct meter that its table has.
    fn action(&self, n: &Node<'_>, id: u32, meter: &str, parts: &mut Parts) -> Result<String> {
        let Some(action) = self.actions.get(&id) else {
            return n.no(format!("no action has the id {id}"));
        };
        if action.is_none() && meter.is_empty() {
            return Ok("NoAction".to_owned());
        }
        let key = (id, meter.to_owned());
        if let Some(ident) = parts.written.get(&key) {
            return Ok(ident.clone());
        }
        let ident = match meter.is_empty() {
            true => format!("a_{id}"),
            false => format!("a_{id}_metered_{}", parts.written.len()),
        };
        let w = &mut parts.actions;
        w.at(action.node.path());
        let params: Vec<String> =
            action.params.iter().map(|(name, width)| format!("bit<{width}> {name}")).collect();
        w.line(format!("{} action {ident}({}) {{", called(&action.name), params.join(", ")));
        if let Some(meter) = self.objects.direct_meters.get(meter) {
            w.line(format!("{}.read({});", meter.ident, meter.target));
        }
        let exprs = Exprs { params: &action.params, ..self.exprs };
        Body { exprs, objects: self.objects }.action(&action.node, w)?;
        w.at(action.node.path());
        w.line("}");
        parts.written.insert(key, ident.clone());
        Ok(ident)
    }

    fn table(
        &self,
        n: &Node<'_>,
        suffix: &str,
        profiles: &HashMap<String, (String, Vec<String>)>,
        parts: &mut Parts,
    ) -> Result<Table> {
        let name = n.name()?;
        let hint = self.hints.tables.as_ref().map(|t| t.get(name));
        let ids = n.list("action_ids")?;
        let names = n.list("actions")?;
        let keys = n.list("key")?;
        let next = n.get("next_tables");
        let by_hit = next.as_ref().is_some_and(|next| {
            ["__HIT__", "__MISS__"].iter().any(|k| next.value.get(k).is_some())
        });
        let meter = n.get("direct_meters").map(|m| m.str()).transpose()?.unwrap_or("");
        if !meter.is_empty() && !self.objects.direct_meters.contains_key(meter) {
            return n.field("direct_meters")?.no(format!("there is no direct meter `{meter}`"));
        }
        let mut table = Table { ident: format!("t_{suffix}"), hit: by_hit, ..Table::default() };
        let mut listed: Vec<u32> = Vec::new();
        if ids.is_empty() {
            for own in &names {
                listed.push(self.only(own)?);
            }
        }
        for id in &ids {
            listed.push(id.number()?);
        }
        for id in &listed {
            let own = self.action(n, *id, meter, parts)?;
            table.actions.push((self.actions[id].name.clone(), own));
        }
        let default = match n.get("default_entry") {
            Some(d) => Some(self.default(&d, &listed, &table)?),
            None => None,
        };
        // What p4c makes of statements between tables: nothing that a control plane knows.
        let unknown = match hint {
            Some(known) => known.is_none(),
            None => !name.contains('.') && name.starts_with("tbl_"),
        };
        if let (true, true, Some((call, true))) = (unknown, keys.is_empty(), &default) {
            table.call = Some(call.clone());
            return Ok(table);
        }
        let hint = hint.flatten();
        self.table_lines(n, &table, &keys, default, hint, profiles, parts)?;
        Ok(table)
    }

    /// The only action of a name: JSON without `action_ids` tells no more.
    fn only(&self, n: &Node<'_>) -> Result<u32> {
        let name = n.str()?;
        let mut all = self.actions.iter().filter(|(_, a)| a.name == name);
        match (all.next(), all.next()) {
            (Some((id, _)), None) => Ok(*id),
            (None, _) => n.no(format!("there is no action `{name}`")),
            _ => n.no(format!("there are several actions `{name}`; `action_ids` says which")),
        }
    }

    /// The call of a default action, and whether it is constant.
    fn default(&self, n: &Node<'_>, listed: &[u32], table: &Table) -> Result<(String, bool)> {
        let id = n.field("action_id")?;
        let Some(at) = listed.iter().position(|own| Some(*own) == id.number().ok()) else {
            return id.no("the table has no action with this id");
        };
        let args = self.args(&n.list("action_data")?, listed[at], n)?;
        let fixed = n.flag("action_const")? && n.flag("action_entry_const")?;
        Ok((format!("{}({args})", table.actions[at].1), fixed))
    }

    fn args(&self, data: &[Node<'_>], id: u32, n: &Node<'_>) -> Result<String> {
        let Some(action) = self.actions.get(&id) else {
            return n.no(format!("no action has the id {id}"));
        };
        if data.len() != action.params.len() {
            return n.no(format!(
                "the action `{}` has {} parameters, not {}",
                action.name,
                action.params.len(),
                data.len()
            ));
        }
        let args = data.iter().zip(&action.params).map(|(d, (_, width))| constant(d, *width));
        Ok(args.collect::<Result<Vec<String>>>()?.join(", "))
    }

    #[allow(clippy::too_many_arguments, reason = "parts of one table")]
    fn table_lines(
        &self,
        n: &Node<'_>,
        table: &Table,
        keys: &[Node<'_>],
        default: Option<(String, bool)>,
        hint: Option<&super::program::TableHints>,
        profiles: &HashMap<String, (String, Vec<String>)>,
        parts: &mut Parts,
    ) -> Result<()> {
        let name = n.name()?;
        let mut lines = Vec::new();
        let mut kinds = Vec::new();
        for k in keys {
            let (line, kind) = self.key(k, hint)?;
            lines.push((k.path().to_owned(), line));
            kinds.push(kind);
        }
        let profile = match n.get("type").map(|t| t.str()).transpose()? {
            None | Some("simple") => None,
            Some("indirect" | "indirect_ws") => {
                let profile = n.field("action_profile")?;
                let found = profiles.get(profile.str()?);
                Some(found.ok_or_else(|| profile.refused("there is no such action profile"))?)
            }
            Some(other) => return n.field("type")?.no(format!("no table is `{other}`")),
        };
        if let Some((_, inputs)) = profile {
            let selectors = inputs.iter().map(|i| (n.path().to_owned(), format!("{i}: selector;")));
            lines.extend(selectors);
        }
        let counter = match self.objects.direct_counters.get(name) {
            Some((own, node)) => Some((called(own), node.clone())),
            None if n.flag("with_counters")? => {
                Some((called(&format!("{name}_counter")), n.path().to_owned()))
            }
            None => None,
        };
        if let Some((called, node)) = &counter {
            parts.objects.at(node);
            parts.objects.line(format!(
                "{called} direct_counter(CounterType.packets_and_bytes) counter_{};",
                table.ident
            ));
        }
        let meter = n.get("direct_meters").map(|m| m.str()).transpose()?;
        let meter = meter.and_then(|m| self.objects.direct_meters.get(m));
        if let Some(meter) = meter {
            parts.objects.at(&meter.node);
            parts.objects.line(&meter.line);
        }
        let entries = self.entries(n, table, &kinds, parts)?;
        let w = &mut parts.tables;
        w.at(n.path());
        w.line(format!("{} table {} {{", called(name), table.ident));
        if !lines.is_empty() {
            w.line("key = {");
            for (node, line) in lines {
                w.at(&node);
                w.line(line);
            }
            w.line("}");
        }
        w.at(n.path());
        w.line("actions = {");
        for (name, ident) in &table.actions {
            let scope = match hint {
                Some(h) if h.default_only.contains(name) => "@defaultonly ",
                Some(h) if h.table_only.contains(name) => "@tableonly ",
                Some(h) if h.group_only.contains(name) => "@groupaction ",
                _ => "",
            };
            w.line(format!("{scope}{ident};"));
        }
        w.line("}");
        if let Some((call, fixed)) = default {
            w.line(format!("{}default_action = {call};", if fixed { "const " } else { "" }));
        }
        if let Some(size) = n.get("max_size") {
            let size = size.number()?.max(1);
            w.line(format!("size = {size};"));
        }
        if n.flag("support_timeout")? {
            w.line("support_timeout = true;");
        }
        if counter.is_some() {
            w.line(format!("counters = counter_{};", table.ident));
        }
        if let Some(meter) = meter {
            w.line(format!("meters = {};", meter.ident));
        }
        if let Some((ident, _)) = profile {
            w.line(format!("implementation = {ident};"));
        }
        if !entries.is_empty() {
            w.line("const entries = {");
            for (node, line) in entries {
                w.at(&node);
                w.line(line);
            }
            w.line("}");
        }
        w.line("}");
        Ok(())
    }

    /// A line of a key, and the key for entries.
    fn key(
        &self,
        n: &Node<'_>,
        hint: Option<&super::program::TableHints>,
    ) -> Result<(String, Key)> {
        let kind = n.field("match_type")?;
        let target = n.field("target")?;
        let (mut text, mut width, truth) = match kind.str()? {
            "valid" => (format!("{}.isValid()", self.exprs.headers.header(&target)?.text), 1, true),
            _ => {
                let place = self.exprs.field(&target)?;
                match place.kind {
                    Kind::Valid => (place.text, 1, true),
                    Kind::Plain => (place.text, place.width, false),
                    Kind::Varbit => return target.no("a variable field cannot be looked up"),
                    Kind::Error => (self.exprs.place_value(&target)?, 32, false),
                }
            }
        };
        let name = match n.get("name") {
            Some(name) => name.str()?.to_owned(),
            None => match target.pair() {
                Ok((header, field)) => format!("{header}.{field}"),
                Err(_) => target.str()?.to_owned(),
            },
        };
        let told = hint.and_then(|h| h.keys.get(&name));
        let mut shift = 0;
        if let Some(mask) = n.get("mask") {
            let bits = mask.hex()?;
            let (low, ones) = (bits.trailing_zeros().unwrap_or(0), bits.bits());
            let run = u32::try_from(ones.saturating_sub(low)).unwrap_or(0);
            let whole = bits == (((BigInt::one() << run) - 1u32) << low);
            if bits.sign() == num_bigint::Sign::Minus || ones > u64::from(width) {
                return mask.no("the mask is wider than the field");
            }
            if whole && told.is_some_and(|t| t.width == run) && run < width {
                text = format!("{text}[{}:{low}]", ones - 1);
                (width, shift) = (run, u32::try_from(low).unwrap_or(0));
            } else {
                text = format!("({text} & {width}w{bits})");
            }
        }
        let kind = match (kind.str()?, told) {
            ("ternary", Some(told)) if told.optional => "optional",
            ("exact" | "valid", _) => "exact",
            ("lpm", _) => "lpm",
            ("ternary", _) => "ternary",
            ("range", _) => "range",
            (other, _) => return kind.no(format!("the match kind `{other}` is not known")),
        };
        let shown = match name.strip_suffix(".$valid$") {
            Some(header) => format!("{header}.isValid()"),
            None => name,
        };
        let line = format!("{text}: {kind} @name({});", quoted(&shown));
        Ok((line, Key { kind, width, truth, shift }))
    }

    /// Lines of the entries that the program has itself; the first one wins.
    fn entries(
        &self,
        n: &Node<'_>,
        table: &Table,
        keys: &[Key],
        parts: &mut Parts,
    ) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        let meter = n.get("direct_meters").map(|m| m.str()).transpose()?.unwrap_or("");
        let known: HashSet<&str> = table.actions.iter().map(|(_, ident)| ident.as_str()).collect();
        for e in n.list("entries")? {
            let fields = e.field("match_key")?.items()?;
            if fields.len() != keys.len() {
                return e.no(format!("the table has {} keys, not {}", keys.len(), fields.len()));
            }
            let cases: Vec<String> =
                fields.iter().zip(keys).map(|(f, k)| k.case(f)).collect::<Result<_>>()?;
            let call = e.field("action_entry")?;
            let id = call.field("action_id")?.number()?;
            let args = self.args(&call.list("action_data")?, id, &call)?;
            let action = self.action(&call, id, meter, parts)?;
            if !known.contains(action.as_str()) {
                return call.no("the table has no action with this id");
            }
            let priority = e.get("priority").map(|p| p.number()).transpose()?.unwrap_or(0);
            let cases = cases.join(", ");
            let line = format!("({cases}): {action}({args});");
            all.push((priority, e.path().to_owned(), line));
        }
        // A low number goes first.
        all.sort_by_key(|(priority, ..)| *priority);
        Ok(all.into_iter().map(|(_, node, line)| (node, line)).collect())
    }
}

/// A constant that fits so many bits.
fn constant(n: &Node<'_>, width: u32) -> Result<String> {
    let value = n.hex()?;
    if value.sign() == num_bigint::Sign::Minus || value.bits() > u64::from(width) {
        return n.no(format!("it does not fit {width} bits"));
    }
    Ok(format!("{width}w{value}"))
}

/// A key as entries are compared with it.
struct Key {
    kind: &'static str,
    width: u32,
    truth: bool,
    /// Bits of the field below it.
    shift: u32,
}

impl Key {
    fn value(&self, n: &Node<'_>) -> Result<BigInt> {
        let value = n.hex()? >> self.shift;
        if value.sign() == num_bigint::Sign::Minus || value.bits() > u64::from(self.width) {
            return n.no(format!("it does not fit {} bits", self.width));
        }
        Ok(value)
    }

    fn case(&self, n: &Node<'_>) -> Result<String> {
        let w = self.width;
        let kind = n.field("match_type")?;
        let own = kind.str()?;
        let good = own == self.kind
            || own == "ternary" && self.kind == "optional"
            || own == "valid" && self.truth;
        if !good {
            return kind.no(format!("the table's key is {}", self.kind));
        }
        if own == "valid" {
            return Ok(n.flag("key")?.to_string());
        }
        if own == "range" {
            let (low, high) = (self.value(&n.field("start")?)?, self.value(&n.field("end")?)?);
            return Ok(format!("{w}w{low}..{w}w{high}"));
        }
        let key = n.field("key")?;
        let value = self.value(&key)?;
        let all = (BigInt::one() << w) - 1u32;
        let mask = match own {
            "exact" => all.clone(),
            "lpm" => {
                let length = n.field("prefix_length")?;
                let bits = length.number()?;
                if bits > w {
                    return length.no(format!("the key has {w} bits"));
                }
                &all ^ ((BigInt::one() << (w - bits)) - 1u32)
            }
            _ => self.value(&n.field("mask")?)?,
        };
        if mask == BigInt::ZERO {
            return Ok("_".to_owned());
        }
        if self.truth {
            return Ok((value == BigInt::one()).to_string());
        }
        if mask == all {
            return Ok(format!("{w}w{value}"));
        }
        if self.kind == "optional" {
            return key.no("an optional key is given whole or not at all");
        }
        Ok(format!("{w}w{value} &&& {w}w{mask}"))
    }
}

/// Writes the body of a control.
struct Apply<'s, 'p, 'a, 'n> {
    of: &'s Pipelines<'a, 'n>,
    steps: &'s [Step<'n>],
    tables: HashMap<usize, Table>,
    labels: Vec<Vec<(String, Option<usize>)>>,
    parts: &'p mut Parts,
}

impl Apply<'_, '_, '_, '_> {
    fn pieces(&mut self, pieces: &[Piece], w: &mut Writer) -> Result<()> {
        for piece in pieces {
            match piece {
                Piece::Return => w.line("return;"),
                Piece::Plain(i) => self.plain(*i, w)?,
                Piece::Branch(i, arms) => self.branch(*i, arms, w)?,
            }
        }
        Ok(())
    }

    fn plain(&mut self, i: usize, w: &mut Writer) -> Result<()> {
        w.at(self.steps[i].node().path());
        match &self.steps[i] {
            Step::Table(_) => match &self.tables[&i] {
                Table { call: Some(call), .. } => w.line(format!("{call};")),
                table => w.line(format!("{}.apply();", table.ident)),
            },
            // Both ways are the same; the condition changes nothing.
            Step::If(_) => {}
            Step::Call(n, id) => {
                let action = self.of.action(n, *id, "", self.parts)?;
                w.line(format!("{action}();"));
            }
        }
        Ok(())
    }

    fn branch(&mut self, i: usize, arms: &[Vec<Piece>], w: &mut Writer) -> Result<()> {
        let node = self.steps[i].node().clone();
        w.at(node.path());
        // The arms are those of the successors in order, each once.
        let mut goals: Vec<Option<usize>> = Vec::new();
        for (_, goal) in &self.labels[i] {
            if !goals.contains(goal) {
                goals.push(*goal);
            }
        }
        let table = self.tables.get(&i).map(|t| (t.ident.clone(), t.hit));
        let Some((ident, by_hit)) = table else {
            let cond = self.of.exprs.truth(&node.field("expression")?)?;
            w.line(format!("if ({cond}) {{"));
            return self.both(&node, arms, w);
        };
        if by_hit {
            w.line(format!("if ({ident}.apply().hit) {{"));
            return self.both(&node, arms, w);
        }
        w.line(format!("switch ({ident}.apply().action_run) {{"));
        let labels = self.labels[i].clone();
        for (goal, arm) in goals.iter().zip(arms) {
            let own: Vec<&str> =
                labels.iter().filter(|(_, g)| g == goal).map(|(l, _)| l.as_str()).collect();
            // What has the default's goal needs no label of its own.
            if own.contains(&"default") {
                continue;
            }
            for (n, label) in own.iter().enumerate() {
                match n + 1 == own.len() {
                    true => w.line(format!("{label}: {{")),
                    false => w.line(format!("{label}:")),
                }
            }
            self.pieces(arm, w)?;
            w.at(node.path());
            w.line("}");
        }
        if let Some(arm) = arms.first().filter(|arm| !arm.is_empty()) {
            w.line("default: {");
            self.pieces(arm, w)?;
            w.at(node.path());
            w.line("}");
        }
        w.line("}");
        Ok(())
    }

    fn both(&mut self, node: &Node<'_>, arms: &[Vec<Piece>], w: &mut Writer) -> Result<()> {
        for (n, arm) in arms.iter().enumerate() {
            if n > 0 && !arm.is_empty() {
                w.at(node.path());
                w.line("}");
                w.line("else {");
            }
            self.pieces(arm, w)?;
        }
        w.at(node.path());
        w.line("}");
        Ok(())
    }
}
