//! What lowering keeps for v1model, and the caches by instance.

use super::operand::V;
use crate::hir::{self, Callee, ExprKind, Stmt, StmtKind};
use crate::types::*;
use ir::builder::Builder;
use ir::{BlockId, Expr, FieldRef, MetaId, Op};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What one of the delayed operations needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) flag: FieldRef,
    pub(super) session: FieldRef,
    /// 0 is none, `n + 1` field list `n`.
    pub(super) list: FieldRef,
}

/// What a packet carries from service to service, besides what the program sees of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Softflow {
    /// The number of the last service.
    pub(super) action: FieldRef,
    /// Services so far.
    pub(super) stage: FieldRef,
}

/// Where an action is written out: the path of its control, the action, and for an action whose arguments
/// the table gives, that table with its path.
pub(super) type ActionSite = (String, ActionId, Option<(String, TableId)>);

/// What lowering keeps for the architecture and the caches by instance.
#[derive(Debug)]
pub(super) struct State {
    pub(super) clone_ingress: Request,
    pub(super) clone_egress: Request,
    pub(super) resubmit: Request,
    pub(super) recirculate: Request,
    pub(super) uses_clone_egress: bool,
    pub(super) own_lists: u8,
    pub(super) made: BTreeMap<ir::HeaderId, super::counted::Made>,
    pub(super) mirror_port: MetaId,
    /// Bytes that a clone is cut to; 0 cuts none.
    pub(super) mirror_length: MetaId,
    /// The queue that a clone leaves by.
    pub(super) mirror_queue: MetaId,
    pub(super) copy_port: MetaId,
    pub(super) copy_rid: MetaId,
    pub(super) again: MetaId,
    pub(super) softflow: Option<Softflow>,
    pub(super) top_objects: HashMap<InstanceId, usize>,
    /// Widths of the parameters of the action being written.
    pub(super) params: Vec<u32>,
    /// Actions that ask the entry's own meter, by its object.
    pub(super) metered: HashMap<ir::ActionId, usize>,
    /// Inside of an action that is called in place.
    pub(super) in_called: bool,
    /// The meter that the action being written asks.
    pub(super) asked: Option<usize>,
    pub(super) loop_vars: HashSet<VarId>,
    pub(super) local_places: HashMap<(String, VarId), V>,
    /// Headers that hold varbit variables.
    pub(super) varbits: HashSet<ir::HeaderId>,
    pub(super) stack: Vec<usize>,
    pub(super) key_homes: HashMap<(usize, usize), V>,
    pub(super) table_sites: HashMap<(String, TableId), usize>,
    pub(super) no_action: Option<ir::ActionId>,
    pub(super) actions: HashMap<ActionSite, ir::ActionId>,
    pub(super) value_sets: HashMap<(String, ValueSetId), ir::ValueSetId>,
    /// Stacks that the parser counts itself, as far as that is known; and when more of them are found.
    pub(super) counted: super::counted::Counted,
    pub(super) anew: Option<super::counted::Counted>,
    /// The next indices of these stacks.
    pub(super) nexts: Vec<MetaId>,
    /// Counts of stacks that are not zero here.
    pub(super) filled: HashSet<Expr>,
    /// Metadata that is written once, before it is read.
    pub(super) kept: HashSet<MetaId>,
    pub(super) counts: Option<HashMap<InstanceId, u32>>,
    pub(super) blocks: Vec<(Vec<Op>, ir::Terminator)>,
    pub(super) places: HashMap<BlockId, BlockId>,
    pub(super) deparser: Vec<ir::HeaderId>,
}

impl State {
    pub(super) fn new(b: &mut Builder) -> State {
        let mut request = |name: &str| Request {
            flag: FieldRef::Meta(b.meta(&format!("v1.{name}"), 1)),
            session: FieldRef::Meta(b.meta(&format!("v1.{name}.session"), 32)),
            list: FieldRef::Meta(b.meta(&format!("v1.{name}.list"), 8)),
        };
        let clone_ingress = request("clone_i2e");
        let clone_egress = request("clone_e2e");
        let resubmit = request("resubmit");
        let recirculate = request("recirculate");
        State {
            clone_ingress,
            clone_egress,
            resubmit,
            recirculate,
            uses_clone_egress: false,
            own_lists: 0,
            made: BTreeMap::new(),
            mirror_port: b.meta("v1.mirror_port", 9),
            mirror_length: b.meta("v1.mirror_length", 32),
            mirror_queue: b.meta("v1.mirror_queue", 32),
            copy_port: b.meta("v1.copy_port", 9),
            copy_rid: b.meta("v1.copy_rid", 16),
            again: b.meta("v1.again", 1),
            softflow: None,
            top_objects: HashMap::new(),
            params: Vec::new(),
            metered: HashMap::new(),
            in_called: false,
            asked: None,
            loop_vars: HashSet::new(),
            local_places: HashMap::new(),
            varbits: HashSet::new(),
            stack: Vec::new(),
            key_homes: HashMap::new(),
            table_sites: HashMap::new(),
            no_action: None,
            actions: HashMap::new(),
            value_sets: HashMap::new(),
            counted: Default::default(),
            anew: None,
            nexts: Vec::new(),
            filled: HashSet::new(),
            kept: HashSet::new(),
            counts: None,
            blocks: Vec::new(),
            places: HashMap::new(),
            deparser: Vec::new(),
        }
    }

    /// How often an instance is applied, as written.
    pub(super) fn site_count(&mut self, p: &hir::Program, i: InstanceId) -> u32 {
        let counts = self.counts.get_or_insert_with(|| {
            let mut counts = HashMap::new();
            for a in &p.applicables {
                let Some(b) = &a.body else { continue };
                count(&b.apply, 1, &mut counts);
                b.states.iter().for_each(|s| count(&s.stmts, 1, &mut counts));
            }
            counts
        });
        counts.get(&i).copied().unwrap_or(0)
    }
}

/// Counts applications of instances; inside of a loop they count as many.
fn count(stmts: &[Stmt], weight: u32, out: &mut HashMap<InstanceId, u32>) {
    for s in stmts {
        match &s.kind {
            StmtKind::Call(e) => {
                if let ExprKind::Call(c) = &e.kind
                    && let Callee::Apply(object, _) = &c.callee
                    && let ExprKind::Instance(i) = &object.kind
                {
                    *out.entry(*i).or_insert(0) += weight;
                }
            }
            StmtKind::If(_, a, b) => {
                count(a, weight, out);
                count(b, weight, out);
            }
            StmtKind::Block(b) => count(b, weight, out),
            StmtKind::For(_, _, _, b) | StmtKind::ForIn(_, _, b) => count(b, 2, out),
            StmtKind::Switch(_, cases, d) => {
                cases.iter().for_each(|(_, b)| count(b, weight, out));
                d.iter().for_each(|b| count(b, weight, out));
            }
            StmtKind::SwitchAction(_, cases, d) => {
                cases.iter().for_each(|(_, b)| count(b, weight, out));
                d.iter().for_each(|b| count(b, weight, out));
            }
            _ => {}
        }
    }
}
