//! Other structures for a table's rules: what is to be made of them, and what was made.
//!
//! A structure is made of a copy of the rules ([`RebuildInput::make`]), on a control core if that takes its time. By then the
//! table has changed; [`Replacement`] knows, or is told, which entries it lacks.

use classify::{Kind, Rule};
use plan::choose::{self, Decomposition, Facts, Refused, TablePlan};
use plan::{Column, Model};
use std::sync::{Arc, Mutex, PoisonError};

/// A structure to be made of a table's rules.
#[derive(Clone)]
pub(crate) enum StructureChoice {
    Kind(Kind),
    Decomposed(Arc<Decomposition>),
    /// What a plan says, which is still to be made of the rules; if it says nothing, perhaps the general form, arranged anew.
    Planned(Arc<Planning>, bool),
}

/// What a plan depends on beside a table's rules.
pub(crate) struct Planning {
    pub(super) name: String,
    /// Those that the rules' keys are packed from.
    pub(super) columns: Vec<Column>,
    pub(super) model: Model,
    pub(super) options: choose::Options,
}

impl Planning {
    /// How a table with these rules is looked up best.
    pub(super) fn plan(
        &self,
        table: &classify::Table,
        options: &choose::Options,
    ) -> Result<TablePlan, Refused> {
        let shape = table.shape();
        let rules = || table.iter().collect::<Vec<Rule>>();
        let facts = Facts {
            columns: &self.columns,
            rules: Some(&rules),
            memory_bytes: Some(table.memory_bytes() as u64),
            ..Facts::new(&self.name, &shape)
        };
        choose::choose_table(&facts, &self.model, options)
    }

    /// The plan as it is asked for, or the best where what is asked for cannot serve.
    pub(super) fn possible(&self, table: &classify::Table) -> Option<TablePlan> {
        let any = || self.plan(table, &choose::Options { force: None, ..self.options.clone() });
        self.plan(table, &self.options).or_else(|_refused| any()).ok()
    }
}

impl StructureChoice {
    /// What a plan asks for, if it is another structure than this, which serves.
    pub(crate) fn of_plan(plan: TablePlan, serves: Kind) -> Option<StructureChoice> {
        match (plan.template.kind(), plan.decomposition) {
            // Which of the general forms it is, is decided by what lookups take.
            (Some(Kind::TupleMerge), _) if serves.is_general() => None,
            (Some(kind), _) if kind == serves => None,
            (_, Some(decomposition)) => Some(StructureChoice::Decomposed(Arc::new(decomposition))),
            (Some(kind), None) => Some(StructureChoice::Kind(kind)),
            // It becomes code; its index is for those who come by before that.
            (None, None) => None,
        }
    }

    /// The same with the plan made, if that was still to be done.
    fn decided(self, table: &classify::Table) -> Option<StructureChoice> {
        match self {
            StructureChoice::Planned(planning, general) => {
                let plan = planning.possible(table);
                let planned = plan.and_then(|plan| StructureChoice::of_plan(plan, table.kind()));
                planned.or(general.then_some(StructureChoice::Kind(Kind::TupleMerge)))
            }
            other => Some(other),
        }
    }

    /// Makes it of a table's rules, and leaves the table alone: none if it cannot hold them, or, where a general
    /// form serves already, if looking these keys up would not become much faster.
    pub(super) fn of(&self, table: &classify::Table, all: &[Box<[u8]>]) -> Option<classify::Table> {
        let mut keys = all.iter().map(|key| &**key);
        match self {
            StructureChoice::Kind(Kind::TupleMerge) if table.kind().is_general() => {
                table.improved(&mut keys)
            }
            // The general form has several, and time to choose.
            StructureChoice::Kind(Kind::TupleMerge) => Some(table.arranged_for(&mut keys)),
            StructureChoice::Kind(kind) => table.rebuilt(*kind).ok(),
            // It is decided before.
            StructureChoice::Planned(..) => self.clone().decided(table)?.of(table, all),
            StructureChoice::Decomposed(plan) => {
                let rules: Vec<Rule> = table.iter().collect();
                let structure = plan.structure(table.layout().clone(), &rules).ok()?;
                Some(classify::Table::from_structure(Box::new(structure)))
            }
        }
    }
}

/// What an index was built over; while that stays, its rules fit into another structure made for it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KeyLayout {
    pub(super) used: Vec<u16>,
    pub(super) flat: bool,
}

/// A table's rules as they were when another structure was asked for, and what to make of them.
pub(crate) struct RebuildInput {
    pub(super) served: StructureChoice,
    pub(super) table: classify::Table,
    pub(super) keys: Vec<Box<[u8]>>,
    pub(super) over: KeyLayout,
}

impl RebuildInput {
    /// Makes the structure, for each replica; takes its time. None if there is nothing to gain.
    pub(crate) fn make(self) -> Option<Replacement> {
        let RebuildInput { served, table, keys, over } = self;
        let served = served.decided(&table)?;
        let mut first = served.of(&table, &keys)?;
        // Copies share it.
        first.generate(&jit::lookup::generate);
        let ns = match keys.is_empty() {
            true => None,
            false => first.ns(&mut keys.iter().map(|key| &**key)),
        };
        let second = match served {
            StructureChoice::Decomposed(_) => served.of(&table, &keys)?,
            _ => first.snapshot(),
        };
        Some(Replacement { tables: Mutex::new(vec![second, first]), over, lacks: Vec::new(), ns })
    }
}

/// Another structure for a table, made beside the one that serves: one for each replica.
pub(crate) struct Replacement {
    tables: Mutex<Vec<classify::Table>>,
    pub(super) over: KeyLayout,
    /// Entries that have come, changed or gone since the rules were copied.
    pub(super) lacks: Vec<u32>,
    /// What looking up a key of traffic takes in it, counted.
    pub(crate) ns: Option<f64>,
}

impl Replacement {
    /// Takes out the structure for one of the replicas.
    pub(super) fn take(&self) -> Option<classify::Table> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// The same, which lacks these entries.
    pub(super) fn lacking(self, lacks: Vec<u32>) -> Replacement {
        Replacement { lacks, ..self }
    }

    /// Brings it up to date: what these entries are now.
    pub(crate) fn follow(&mut self, changes: &[(u32, Option<Rule>)]) {
        let tables = self.tables.get_mut().unwrap_or_else(PoisonError::into_inner);
        for table in tables {
            changes.iter().for_each(|(id, rule)| replace(table, *id, rule.as_ref()));
        }
    }
}

/// Makes an entry of a structure what it is now. What a structure refuses it lacks, so it is not adopted.
pub(super) fn replace(table: &mut classify::Table, id: u32, rule: Option<&Rule>) {
    table.remove(id);
    if let Some(rule) = rule {
        let _ = table.insert(rule);
    }
}
