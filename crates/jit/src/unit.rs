//! What is compiled: an optimised program, the nodes at which tables are looked up, and who answers
//! lookups when the code runs.

pub use crate::buckets::NO_ACTION;
use crate::messages::Repeatable;
use classify::Hit;
use interp::Color;
use ir::{
    ActionCall, ActionId, Bits, BlockId, EntryId, Expr, KeyMatch, MeterId, RegisterId, Select,
    ServiceId, TableId, Terminator,
};
use opt::Optimised;
use std::sync::Arc;

/// What is compiled together.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The program.
    pub program: Arc<Optimised>,
    /// One for each live block that applies a table, by ascending block.
    pub nodes: Vec<NodeSpec>,
    /// Members of the value sets.
    pub value_sets: Vec<Vec<Select>>,
    /// Actions that groups' buckets run, by number ([`Groups::actions`](crate::Groups::actions)).
    pub buckets: Vec<ActionId>,
    /// Inputs of hashes that groups choose by, by number ([`Groups::hashes`](crate::Groups::hashes)).
    pub hashes: Vec<Option<Arc<[Expr]>>>,
}

/// A place where a table is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// The block that applies the table.
    pub block: BlockId,
    /// The table that is looked up, of the pipeline.
    pub table: TableId,
    /// What the program calls it: in a copy of the pipeline ([`opt::unroll`]), the copy's.
    pub applied: TableId,
    /// Positions of the key fields in the packed key, ascending.
    pub columns: Vec<u16>,
    /// Actions that the code knows: position *v* is variant *v + 1* in a record.
    pub actions: Vec<ActionId>,
    /// Words of an action record.
    pub record_words: u32,
    /// Entries to compile into the code, best first; no lookup then.
    pub direct: Option<Vec<DirectEntry>>,
    /// What happens on a miss; matters to the code only if `direct` is set.
    pub default: ActionCall,
    /// A later node that packets of this one wait at, too: a *twin*, with the same columns, actions,
    /// records and ways on. (So no way leads from one to the other.) The code behind the twins, and
    /// the lookups of a burst, are then shared, however many tables there are.
    pub leader: Option<usize>,
}

/// Two nodes may be twins: the code behind them would be the same.
pub fn are_twins(program: &ir::Program, a: &NodeSpec, b: &NodeSpec) -> bool {
    let block = |node: &NodeSpec| program.blocks.get(node.block.index()).map(|b| &b.end);
    let ways = match (block(a), block(b)) {
        (
            Some(Terminator::Apply { hit, miss, by_action, .. }),
            Some(Terminator::Apply { hit: h, miss: m, by_action: by, .. }),
        ) => hit == h && miss == m && by_action == by,
        _ => false,
    };
    let tables = (program.tables.get(a.applied.index()), program.tables.get(b.applied.index()));
    let (Some(t), Some(u)) = tables else { return false };
    let width = |t: &ir::Table, c: &u16| t.key.get(*c as usize).map(|k| k.width);
    ways && a.direct.is_none()
        && b.direct.is_none()
        && a.columns == b.columns
        && a.columns.iter().all(|c| width(t, c) == width(u, c))
        && a.actions == b.actions
        && a.record_words == b.record_words
        && t.counters == u.counters
}

/// Makes twins of all nodes that can be: the last of them leads.
pub fn pair_twins(program: &ir::Program, nodes: &mut [NodeSpec]) {
    for at in (0..nodes.len()).rev() {
        let later = (at + 1..nodes.len()).find(|other| {
            nodes[*other].leader.is_none() && are_twins(program, &nodes[at], &nodes[*other])
        });
        nodes[at].leader = later;
    }
}

/// An entry that becomes code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirectEntry {
    /// Its id, for the log.
    pub entry: EntryId,
    /// What must match.
    pub matches: Box<[KeyMatch]>,
    /// What then happens.
    pub call: ActionCall,
}

/// A packet that is handed to a service.
#[derive(Debug)]
pub struct Handed<'a> {
    /// Its number in the burst.
    pub packet: usize,
    /// Its bytes. Only a service that [edits](ir::program::Service::edits) may change them.
    pub bytes: &'a mut [u8],
    /// What the service is told: each argument in as many words as its width takes, the lowest first.
    pub args: &'a [u64],
    /// What it answers, likewise. They hold anything when it is called: of a packet that goes on, it writes all of them,
    /// which is checked where debug assertions are on.
    pub results: &'a mut [u64],
    /// It goes on; set when the service is called.
    pub passes: bool,
    /// It is left to whoever runs what code leaves, and comes to the service again by that way; it was not answered, and
    /// its bytes are as they were.
    pub left: bool,
}

/// Answers calls of services while the code runs.
pub trait Services {
    /// Takes the packets of a burst that wait for one call, in the order in which they came in.
    fn call(&mut self, service: ServiceId, packets: &mut [Handed<'_>]);
}

/// Has the state that outlives packets, for the code while it runs. Values are words, the lowest first, without bits above
/// their width.
pub trait State {
    /// Counts a packet of so many bytes in a cell of an array; past its end, does nothing.
    fn count(&mut self, array: u32, index: u32, bytes: u32);
    /// Asks a meter about a packet of so many bytes; one that does not exist is green.
    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color;
    /// Reads a register into words that are zero; past the end, they stay so.
    fn read_register(&mut self, register: RegisterId, index: u32, value: &mut [u64]);
    /// Writes a register; past the end, does nothing.
    fn write_register(&mut self, register: RegisterId, index: u32, value: &[u64]);
    /// A random number between two, both included, of the width of `lo`, for a packet of the burst by its number.
    fn random(&mut self, packet: usize, lo: &Bits, hi: &Bits) -> Bits;
    /// A message of a packet of the burst, a punt or a digest, is held back, since a limit lets none pass.
    fn holds_back(&mut self, packet: usize, punt: bool) -> bool;
    /// A message that may be left out is the same as one sent a moment ago. If it is another one about the same, what was
    /// sent is forgotten.
    fn is_repeat(&mut self, message: &Repeatable<'_>) -> bool;
}

/// No services, no state: nothing happens, the answers are zero, or the least that may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServices;

impl State for NoServices {
    fn count(&mut self, _: u32, _: u32, _: u32) {}
    fn meter(&mut self, _: MeterId, _: u32) -> Color {
        Color::default()
    }
    fn read_register(&mut self, _: RegisterId, _: u32, _: &mut [u64]) {}
    fn write_register(&mut self, _: RegisterId, _: u32, _: &[u64]) {}
    fn random(&mut self, _: usize, lo: &Bits, _: &Bits) -> Bits {
        lo.clone()
    }
    fn holds_back(&mut self, _: usize, _: bool) -> bool {
        false
    }
    fn is_repeat(&mut self, _: &Repeatable<'_>) -> bool {
        false
    }
}

impl Services for NoServices {
    fn call(&mut self, _: ServiceId, packets: &mut [Handed<'_>]) {
        packets.iter_mut().for_each(|handed| handed.results.fill(0));
    }
}

/// Answers lookups while the code runs.
pub trait Tables {
    /// Looks up `hits.len()` keys, `stride` bytes apart, in the table of a node. False: the table
    /// cannot be looked up by these columns (any more), so the packets bail out.
    fn lookup(&self, node: usize, keys: &[u8], stride: usize, hits: &mut [Hit]) -> bool;

    /// The action records of the node's table: every `Hit::action` times `record_words` is the
    /// first word of one of them.
    fn records(&self, node: usize) -> &[u64];

    /// Groups, and which ports are live.
    fn groups(&self) -> abi::Groups<'_> {
        abi::Groups::none()
    }

    /// Where the burst's packets may be dealt to.
    fn ways(&self) -> abi::Ways<'_> {
        abi::Ways::none()
    }

    /// As [`lookup`](Self::lookup) for keys of several tables alike: the i-th key's is that of node `nodes[of[i]]`.
    fn lookup_mixed(
        &self,
        nodes: &[u32],
        of: &[u8],
        keys: &[u8],
        stride: usize,
        hits: &mut [Hit],
    ) -> bool {
        let keys = keys.chunks_exact(stride);
        hits.iter_mut().zip(keys).zip(of).all(|((hit, key), of)| {
            let node = nodes[usize::from(*of)] as usize;
            self.lookup(node, key, stride, std::slice::from_mut(hit))
        })
    }
}

/// Groups that are inside of each other in code, at most.
pub(crate) const GROUP_DEPTH_MAX: u32 = 3;
/// Copies that the action of one bucket makes in code, at most.
pub(crate) const BUCKET_COPIES_MAX: usize = 3;

impl NodeSpec {
    /// Actions that may run at the node.
    pub(crate) fn may_run(&self) -> Vec<ActionId> {
        let mut actions: Vec<ActionId> = match &self.direct {
            Some(entries) => {
                entries.iter().map(|e| e.call.action).chain([self.default.action]).collect()
            }
            None => self.actions.clone(),
        };
        actions.sort_unstable();
        actions.dedup();
        actions
    }
}
