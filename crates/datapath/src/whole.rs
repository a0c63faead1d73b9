//! The engine's second code: whole programs, one packet at a time ([`jit::whole`]), for packets that the code of
//! bursts leaves.
//!
//! It does not depend on entries, so it stays while they change. A program's own takes tens of milliseconds and is
//! made on a control core, as is that of many actions that are new; until then the interpreter runs what is left. Code
//! of a few actions is made while the transaction waits.

use ir::{Action, ActionId, Group, GroupId, GroupKind, Program};
use jit::whole::{Code, Compiler, Parts};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Actions by id.
type Actions = BTreeMap<ActionId, Arc<Action>>;

/// So many actions are made while a transaction waits, each in some hundred microseconds.
const AT_ONCE_MAX: usize = 4;

/// So many actions of packets of the control side's have code.
const INJECTED_MAX: usize = 64;

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
    /// Groups that choose by a hash.
    groups: BTreeMap<GroupId, Arc<Group>>,
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
    groups: Vec<Arc<Group>>,
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
        let Task { compiler, settings, code, program, actions, injected, groups } = self;
        let mut compiler = match compiler.map_or_else(|| Compiler::new(settings), Ok) {
            Ok(compiler) => compiler,
            Err(error) => return Made { program, compiler: None, code: Err(error) },
        };
        let code = match code {
            Some(code) => Ok(code),
            None => compiler.program(&program).map(Arc::new),
        };
        let actions = actions.iter().map(|(id, action)| (*id, action));
        let parts = Parts { injected: &injected, groups: &groups };
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
            groups: BTreeMap::new(),
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
        match group.filter(|group| group.kind == GroupKind::Select) {
            Some(group) => {
                self.groups.insert(id, group.clone());
                self.lacks = true;
            }
            None => drop(self.groups.remove(&id)),
        }
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
        injected + self.groups.values().filter(|group| !code.hashes(group)).count()
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
            groups: self.groups.values().cloned().collect(),
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
