//! What the compiling engine says of itself: plans, stages, dumps.

use super::JitEngine;
use super::code::Code;
use crate::engine::{Engine as _, TableExplanation};
use classify::Kind;
use ir::TableId;
use std::fmt::Write as _;

impl JitEngine {
    /// How tables are looked up, and where packets leave the code.
    fn plan_text(&self, code: &Code) -> String {
        let mut text = String::new();
        for table in self.explain() {
            text.push_str(table.choice.trim_end());
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "code: {} bytes in {} segments, compiled in {:.3} ms",
            code.compiled.code_bytes(),
            code.compiled.reused().0,
            code.compile_time.as_secs_f64() * 1e3
        );
        let to = match self.whole.why_not() {
            None => "the code of whole programs".to_string(),
            Some(why) => format!("the interpreter ({why})"),
        };
        for bail in code.compiled.leaves() {
            let _ = writeln!(text, "left to {to}: {bail}");
        }
        text
    }

    fn code_text(&self, code: &Code, machine: bool) -> String {
        let nodes = (0..code.unit.nodes.len() + code.compiled.stops().count()).map(Some);
        let mut out = String::new();
        for node in [None].into_iter().chain(nodes) {
            let name = node.map(|n| match code.unit.nodes.get(n) {
                Some(node) => self.program.tables[node.table.index()].name.clone(),
                None => {
                    let mut stops = code.compiled.stops();
                    format!("service {}", stops.nth(n - code.unit.nodes.len()).unwrap_or("?"))
                }
            });
            for (version, text) in (1..).zip(code.compiled.texts(node)) {
                let name = match &name {
                    None => "the packet comes in".to_string(),
                    Some(name) => format!("behind {name}, version {version}"),
                };
                let text = if machine { &text.disasm } else { &text.clif };
                let _ = writeln!(out, "; {name}\n{}\n", text.trim_end());
            }
        }
        out
    }

    /// By table: packets may come to it that code has left.
    fn behind_leaves(&self) -> Vec<bool> {
        let input = self.input(self.replicas.serving());
        let passes = opt::Options { bail: opt::Bail::default(), ..self.options.passes };
        let whole = opt::optimise(&input.program, &input.contents, &passes);
        let reached = crate::reach::tables(&input.program, &input.contents);
        whole.tables.iter().zip(reached).map(|(live, reached)| live.is_some() && reached).collect()
    }

    /// How a table is looked up behind services, one line for each pass.
    fn behind_services(&self, table: TableId) -> Vec<String> {
        let Some(code) = self.code.as_deref() else { return Vec::new() };
        let tables = self.program.tables.len() as u32;
        let all = code.unit.nodes.iter().zip(&code.views).enumerate();
        let copies =
            all.filter(|(_, (n, v))| n.table == table && (n.applied != table || v.is_some()));
        copies
            .map(|(at, (node, view))| {
                let behind = match node.applied.0 / tables {
                    0 => "where packets come in".to_string(),
                    1 => "behind a service".to_string(),
                    n => format!("behind {n} services"),
                };
                let narrowed =
                    code.unit.program.residuals.iter().find(|r| r.applied == node.applied);
                match (narrowed, &node.direct) {
                    (Some(residual), _) => format!(
                        "{behind}, {} of its entries are left, as part of the code",
                        residual.left.len()
                    ),
                    (None, Some(_)) => format!("{behind}, its entries are part of the code"),
                    (None, None) if view.is_some() => {
                        let replica = self.replicas.serving();
                        let fields = view.as_ref().map_or(0, |view| view.columns.len());
                        let (held, kind) = replica.part(at).unwrap_or((0, Kind::Linear));
                        format!(
                            "{behind}, {held} of its entries are left, looked up by {fields} of {} \
                             fields: {kind} serves",
                            replica.columns(table).len()
                        )
                    }
                    (None, None) if code.restless.contains(&table) => {
                        format!("{behind}, it is looked up whole: it changes often")
                    }
                    (None, None) => format!(
                        "{behind}, it is looked up whole: more than {} entries are left",
                        opt::residual::LEFT_MAX
                    ),
                }
            })
            .collect()
    }

    /// What [`Engine::stages`](crate::Engine::stages) answers, of so many packets of so many flows in frames spread over so many bytes.
    pub(super) fn stages_of(
        &self,
        (packets, flows, frame_bytes): (u64, u64, u64),
        lookups: &dyn Fn(TableId) -> u64,
    ) -> Option<plan::cost::Pipeline> {
        let code = self.code.as_deref()?;
        let replica = self.replicas.serving();
        let program = &code.unit.program.program;
        let mut stages = Vec::new();
        for node in &code.unit.nodes {
            let (table, at) = (node.table, node.table.index());
            // A table's lookups are counted together, whatever copy of the pipeline they are in.
            if node.applied != table {
                continue;
            }
            let visits = lookups(table) as f64 / packets.max(1) as f64;
            if visits == 0.0 {
                continue;
            }
            let plan = self.plan(replica, table);
            let planned = plan.as_ref().map_or(plan::Template::TupleSpace, |p| p.template);
            let template = match (&node.direct, planned) {
                (Some(_), _) => plan::Template::DirectCode,
                // What is to become code is looked up until then.
                (None, plan::Template::DirectCode) => plan::Template::Hash,
                (None, planned) => planned,
            };
            let entries = replica.len(table) as u64;
            let steps = match template {
                plan::Template::DirectCode => (entries as f64).max(1.0) / 2.0,
                _ => plan.as_ref().map_or(1.0, |p| p.steps),
            };
            // In the mean over the actions of its entries; those of misses are rare.
            let contents = replica.contents(table);
            let ids = if contents.actions.is_empty() {
                vec![contents.default.action]
            } else {
                contents.actions
            };
            let mut action = plan::cost::ActionShape::default();
            for id in &ids {
                let Some(body) = code.unit.program.actions.get(id) else { continue };
                let one = crate::stages::action_shape(program, body);
                let share = 1.0 / ids.len() as f64;
                action.stores += share * one.stores;
                action.checksums += share * one.checksums;
                action.pushes += share * one.pushes;
                action.pops += share * one.pops;
                action.outputs += share * one.outputs;
            }
            let key_bytes: u32 = node
                .columns
                .iter()
                .map(|k| self.program.tables[at].key[*k as usize].width.div_ceil(8))
                .sum();
            let active = entries.min(((flows as f64) * visits).ceil() as u64).max(1);
            stages.push(plan::cost::Stage {
                name: self.program.tables[at].name.clone(),
                visits,
                template,
                entries,
                active,
                key_words: key_bytes.div_ceil(8).max(1),
                bytes: replica.memory_bytes(table) as u64,
                steps,
                record_bytes: 8 * replica.records(table).words().len() as u64,
                counters: self.program.tables[at].counters,
                action,
            });
        }
        Some(plan::cost::Pipeline {
            parse_layers: crate::stages::parse_layers(program),
            frame_bytes,
            stages,
        })
    }

    /// What [`Engine::dump`](crate::Engine::dump) answers.
    pub(super) fn dump_text(&self, stage: &str) -> Result<String, String> {
        let Some(code) = &self.code else {
            let why = self.failed.as_deref().or(self.wanted.as_deref());
            return Err(format!("there is no code now: {}", why.unwrap_or("ask again")));
        };
        match stage {
            "opt" => Ok(opt_text(&code.unit.program)),
            "plan" => Ok(self.plan_text(code)),
            "clif" | "asm" => {
                // The same once more, with its text kept.
                let mut input = self.input(self.replicas.serving());
                input.options.keep_text = true;
                let code = input.compile(&mut jit::Cache::default()).map_err(|e| e.to_string())?;
                Ok(self.code_text(&code, stage == "asm"))
            }
            _ => Err(format!("there is no stage {stage:?}; there are ir, opt, plan, clif, asm")),
        }
    }

    /// What [`Engine::leaves`](crate::Engine::leaves) answers.
    pub(super) fn leave_texts(&self) -> Vec<String> {
        match &self.code {
            Some(code) => {
                // What packets may meet between a change and the code that is made for it is in all code.
                let leaves = code.compiled.leaves().iter().map(|text| text.to_string());
                let calls = code.compiled.stops().next().is_some();
                let own = |text: &String| match text.as_str() {
                    "the table has changed its shape" => false,
                    "a service is to see it alone" => calls,
                    _ => true,
                };
                leaves.filter(own).collect()
            }
            None => {
                let why = self.failed.as_deref().or(self.wanted.as_deref());
                vec![format!("everything: there is no code now, {}", why.unwrap_or("ask again"))]
            }
        }
    }

    /// What [`Engine::explain`](crate::Engine::explain) answers.
    pub(super) fn explanations(&self) -> Vec<TableExplanation> {
        let replica = self.replicas.serving();
        let node = |table: TableId| {
            let code = self.code.as_deref()?;
            let nodes = &code.unit.nodes;
            // The table's own lookup, else one in a copy of the pipeline.
            let own = nodes.iter().find(|node| node.applied == table);
            own.or_else(|| nodes.iter().find(|node| node.table == table))
        };
        let behind = self.code.as_ref().map(|_| self.behind_leaves());
        let tables = (0..self.program.tables.len() as u32).map(TableId);
        let with_entries = tables.filter(|id| replica.len(*id) > 0);
        let explained = with_entries.map(|id| {
            let name = &self.program.tables[id.index()].name;
            let plan = self.plan(replica, id);
            let mut choice = match &plan {
                Some(plan) => plan.text.trim_end().to_string(),
                None => format!("{name} ({} entries)", replica.len(id)),
            };
            let serves = match node(id) {
                None if behind.as_ref().is_some_and(|behind| behind[id.index()]) => format!(
                    "{} serves; packets come to it only behind what the code for bursts leaves",
                    replica.kind_for_one(id)
                ),
                None if self.code.is_some() => "no packet can reach it".to_string(),
                Some(node) if node.direct.is_some() => {
                    "direct_code serves: its entries are part of the code".to_string()
                }
                _ => format!("{} serves", replica.kind(id)),
            };
            let tree = plan.and_then(|p| p.decomposition).filter(|_| !serves.starts_with("direct"));
            let _ = write!(choice, "\n  {serves}");
            if let Some(line) = replica.accounting(id).filter(|_| !serves.starts_with("direct")) {
                let _ = write!(choice, "\n  {line}");
            }
            if let Some(decomposition) = tree {
                for line in decomposition.tree.to_string().lines() {
                    let _ = write!(choice, "\n  {line}");
                }
            }
            for line in self.behind_services(id) {
                let _ = write!(choice, "\n  {line}");
            }
            TableExplanation {
                table: name.clone(),
                entries: replica.len(id),
                choice,
                memory_bytes: replica.memory_bytes(id),
            }
        });
        explained.collect()
    }
}

/// The optimised program, without what is dead, and what each pass did.
fn opt_text(optimised: &opt::Optimised) -> String {
    let mut text = String::new();
    for note in &optimised.notes {
        let _ = writeln!(text, "; {note}");
    }
    let program = &optimised.program;
    let dead = |line: &str| {
        let mut words = line.split_whitespace();
        let (kind, name) = (words.next(), words.next().unwrap_or(""));
        match kind {
            Some("table") => {
                let at = program.find_table(name);
                at.is_some_and(|id| optimised.tables[id.index()].is_none())
            }
            _ => false,
        }
    };
    let mut skip = false;
    for line in ir::text::print_program(program).lines() {
        if !line.starts_with([' ', '}']) {
            skip = dead(line);
        }
        if !skip {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
