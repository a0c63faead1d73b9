//! The engine's second code: whole programs, one packet at a time ([`jit::whole`]), for packets that the code of
//! bursts leaves.
//!
//! It does not depend on entries, so it stays while they change. A program's own takes tens of milliseconds and is
//! made on a control core, as is that of many actions that are new; until then the interpreter runs what is left. Code
//! of a few actions is made while the transaction waits.

use ir::{Action, ActionId, Expr, Group, GroupId, Program};
use jit::whole::{Code, Compiler, Parts};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Actions by id.
type Actions = BTreeMap<ActionId, Arc<Action>>;

/// So many actions are made while a transaction waits, each in some hundred microseconds.
const AT_ONCE_MAX: usize = 4;

/// So many actions of packets of the control side's have code.
const INJECTED_MAX: usize = 64;

/// Hashes of groups have code while there are no more of them; those of later ones are interpreted.
const HASHES_MAX: usize = 64;

/// Inputs of a hash that groups choose by. Groups share them.
struct Hash {
    inputs: Arc<[Expr]>,
    /// Groups.
    users: usize,
    /// It is to have code.
    coded: bool,
}

/// What the engine has of it.
pub(crate) struct Whole {
    /// None if there shall be none.
    settings: Option<jit::isa::Settings>,
    /// With whoever compiles, if there is none.
    compiler: Option<Compiler>,
    /// Of the program, and of some of its actions.
    code: Option<Arc<Code>>,
    /// Actions that packets of the control side's began with, the oldest ones first.
    injected: VecDeque<Arc<Action>>,
    /// Groups that choose by a hash, with where its inputs lie.
    groups: HashMap<GroupId, usize>,
    /// These hashes.
    hashes: HashMap<usize, Hash>,
    /// Some of these have no code, or some of those.
    lacks: bool,
    /// It has all actions.
    complete: bool,
    /// Program or actions have changed since that was found out.
    stale: bool,
    /// Why there is none; not tried again until something changes.
    failed: Option<String>,
    compiling: bool,
}

/// Code to be made.
pub(crate) struct Task {
    compiler: Option<Compiler>,
    settings: jit::isa::Settings,
    code: Option<Arc<Code>>,
    program: Arc<Program>,
    actions: Actions,
    injected: Vec<Arc<Action>>,
    hashes: Vec<Arc<[Expr]>>,
}

/// What came of it.
pub(crate) struct Made {
    program: Arc<Program>,
    compiler: Option<Compiler>,
    code: Result<Code, jit::Error>,
}

impl Task {
    /// Makes it; takes its time.
    pub(crate) fn run(self) -> Made {
        let Task { compiler, settings, code, program, actions, injected, hashes } = self;
        let mut compiler = match compiler.map_or_else(|| Compiler::new(settings), Ok) {
            Ok(compiler) => compiler,
            Err(error) => return Made { program, compiler: None, code: Err(error) },
        };
        let code = match code {
            Some(code) => Ok(code),
            None => compiler.program(&program).map(Arc::new),
        };
        let actions = actions.iter().map(|(id, action)| (*id, action));
        let parts = Parts { injected: &injected, hashes: &hashes };
        let code = code.and_then(|code| compiler.actions(&code, actions, parts));
        Made { program, compiler: Some(compiler), code }
    }
}

impl Whole {
    pub(crate) fn new(settings: Option<jit::isa::Settings>) -> Whole {
        Whole {
            settings,
            compiler: None,
            code: None,
            injected: VecDeque::new(),
            groups: HashMap::new(),
            hashes: HashMap::new(),
            lacks: false,
            complete: false,
            stale: true,
            failed: None,
            compiling: false,
        }
    }

    /// Another program is there.
    pub(crate) fn forget(&mut self) {
        (self.code, self.failed) = (None, None);
        // Actions of another program's may mean what this one does not have.
        self.injected.clear();
        self.groups.clear();
        self.hashes.clear();
        self.lacks = false;
        self.changed();
    }

    /// Other actions are there.
    pub(crate) fn changed(&mut self) {
        (self.complete, self.stale) = (false, true);
        self.failed = None;
    }

    /// A packet of the control side's begins with this action.
    pub(crate) fn begins_with(&mut self, action: &Arc<Action>) {
        let known =
            |known: &Arc<Action>| known.body == action.body && known.params == action.params;
        if self.settings.is_none() || self.injected.iter().rev().any(known) {
            return;
        }
        if self.injected.len() == INJECTED_MAX {
            self.injected.pop_front();
        }
        self.injected.push_back(action.clone());
        (self.lacks, self.failed) = (true, None);
    }

    /// This group is another one now.
    pub(crate) fn set_group(&mut self, id: GroupId, group: Option<&Arc<Group>>) {
        let hash = group.filter(|group| group.kind.hashes()).map(|group| &group.hash);
        let at = |inputs: &Arc<[Expr]>| inputs.as_ptr() as usize;
        let old = match hash {
            Some(inputs) => {
                let coded = self.hashes.len() < HASHES_MAX;
                let hash = self.hashes.entry(at(inputs)).or_insert_with(|| {
                    self.lacks |= coded;
                    Hash { inputs: inputs.clone(), users: 0, coded }
                });
                hash.users += 1;
                self.groups.insert(id, at(inputs))
            }
            None => self.groups.remove(&id),
        };
        if let Some(old) = old
            && let Some(hash) = self.hashes.get_mut(&old)
        {
            hash.users -= 1;
            if hash.users == 0 {
                self.hashes.remove(&old);
            }
        }
    }

    /// Inputs of the hashes that are to have code.
    fn coded(&self) -> impl Iterator<Item = &Arc<[Expr]>> {
        self.hashes.values().filter(|hash| hash.coded).map(|hash| &hash.inputs)
    }

    /// The code, if it has all of these actions.
    pub(crate) fn serves(&mut self, actions: &Actions) -> Option<&Arc<Code>> {
        if self.stale {
            self.stale = false;
            self.complete = self
                .code
                .as_ref()
                .is_some_and(|code| actions.iter().all(|(id, action)| !code.lacks(*id, action)));
        }
        self.code.as_ref().filter(|_| self.complete)
    }

    /// How much code lacks, beside actions of entries.
    fn lacking(&self, code: &Code) -> usize {
        let injected = self.injected.iter().filter(|action| !code.injects(action)).count();
        injected + self.coded().filter(|inputs| !code.hashes(inputs)).count()
    }

    /// Only code of so few actions is to be made that nobody minds to wait for it.
    pub(crate) fn lacks_little(&self, actions: &Actions) -> bool {
        let Some(code) = &self.code else { return false };
        let lacks = actions.iter().filter(|(id, action)| code.lacks(**id, action)).count();
        lacks + self.lacking(code) <= AT_ONCE_MAX
    }

    /// Why packets that the code of bursts leaves are interpreted, if they are.
    pub(crate) fn why_not(&self) -> Option<&str> {
        match (&self.failed, self.settings) {
            (_, None) => Some("the interpreter is to run what the code of bursts leaves"),
            (Some(failed), _) => Some(failed),
            _ => (!self.complete).then_some("the code for whole programs is being made"),
        }
    }

    /// There is code to be made.
    pub(crate) fn wants_work(&self) -> bool {
        let wants = !self.complete || self.lacks;
        self.settings.is_some() && wants && self.failed.is_none() && !self.compiling
    }

    /// Code is being made, or is to be.
    pub(crate) fn is_at_work(&self) -> bool {
        self.compiling || self.wants_work()
    }

    /// What is to be made, for a control core.
    pub(crate) fn task(&mut self, program: &Arc<Program>, actions: &Actions) -> Task {
        self.compiling = true;
        Task {
            compiler: self.compiler.take(),
            settings: self.settings.unwrap_or_default(),
            code: self.code.clone(),
            program: program.clone(),
            actions: actions.clone(),
            injected: self.injected.iter().cloned().collect(),
            hashes: self.coded().cloned().collect(),
        }
    }

    /// Takes what was made; true if it is of use.
    pub(crate) fn finish(&mut self, made: Made, program: &Arc<Program>) -> bool {
        self.compiling = false;
        self.compiler = made.compiler;
        // The program may have been replaced meanwhile.
        if !Arc::ptr_eq(&made.program, program) {
            return false;
        }
        match made.code {
            Ok(code) => {
                let (us, (program, actions)) = (code.compile_time().as_micros(), code.code_bytes());
                tracing::debug!(us, program, actions, "code for whole programs");
                self.lacks = self.lacking(&code) > 0;
                self.code = Some(Arc::new(code));
                self.stale = true;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the interpreter runs what the code of bursts leaves");
                self.failed = Some(error.to_string());
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{CounterId, GroupKind};

    #[test]
    fn code_is_wanted_for_each_hash_once() {
        let mut whole = Whole::new(None);
        let group = |hash: &Arc<[Expr]>| {
            let (kind, buckets, hash) = (GroupKind::Select, Vec::new(), hash.clone());
            Arc::new(Group { kind, buckets, hash, counter: CounterId(0) })
        };
        let hashes: Vec<Arc<[Expr]>> = (0..100).map(|n| [Expr::int(n, 64)].into()).collect();
        for id in 0..1000 {
            whole.set_group(GroupId(id), Some(&group(&hashes[0])));
        }
        assert!(std::mem::take(&mut whole.lacks));
        assert_eq!(whole.coded().collect::<Vec<_>>(), [&hashes[0]]);
        whole.set_group(GroupId(7), Some(&group(&hashes[0])));
        assert!(!whole.lacks, "nothing is new");
        // The last user of a hash takes it along, whether it goes or changes.
        (0..999).for_each(|id| whole.set_group(GroupId(id), None));
        whole.set_group(GroupId(999), Some(&group(&hashes[1])));
        assert!(whole.lacks);
        assert_eq!(whole.coded().collect::<Vec<_>>(), [&hashes[1]]);
        for (id, hash) in (0..).zip(&hashes) {
            whole.set_group(GroupId(id), Some(&group(hash)));
        }
        assert_eq!(whole.coded().count(), HASHES_MAX, "more would be compiled in vain");
        whole.forget();
        assert_eq!(whole.coded().count(), 0);
    }
}
