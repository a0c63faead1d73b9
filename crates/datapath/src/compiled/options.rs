//! How the compiling engine compiles, and what a table may be forced to be.

use classify::Kind;
use plan::Model;
use plan::decompose::Goal;
use std::sync::Arc;
use std::time::Duration;

/// A way to look a table up that is asked for, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// Compares in the instruction stream.
    DirectCode,
    /// A structure.
    Index(Kind),
}

impl Template {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Template> {
        [Template::DirectCode].into_iter().chain(Kind::ALL.map(Template::Index))
    }
}

impl std::str::FromStr for Template {
    type Err = String;

    fn from_str(word: &str) -> Result<Template, String> {
        match word {
            "direct_code" => Ok(Template::DirectCode),
            _ => word.parse().map(Template::Index).map_err(|_| {
                let kinds: Vec<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
                format!("there is no template {word:?}: choose direct_code, {}", kinds.join(", "))
            }),
        }
    }
}

impl std::fmt::Display for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Template::DirectCode => f.write_str("direct_code"),
            Template::Index(kind) => kind.fmt(f),
        }
    }
}

/// How the engine compiles.
#[derive(Clone, Debug)]
pub struct Options {
    /// Every table is looked up so, where that is possible at all.
    pub template: Option<Template>,
    /// Tables of so many entries at most become code.
    pub direct_max: usize,
    /// Tables may be decomposed.
    pub decompose: bool,
    /// When the parts of a decomposed table are simple enough.
    pub goal: Goal,
    /// What lookups cost on this machine.
    pub model: Arc<Model>,
    /// Rewrites of the program.
    pub passes: opt::Options,
    /// Packets that the code of bursts leaves run by code, too ([`jit::whole`]); else the interpreter runs them.
    pub whole: bool,
    /// Compiles before each publication that wants it, however long that takes.
    pub synchronous: bool,
    /// A table is quiet when it has not changed for so long; how it is looked up is thought over then, and
    /// ten times as long after the last time at the earliest.
    pub quiet: Duration,
    /// What the code generator does.
    pub code: jit::Options,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            template: None,
            direct_max: DIRECT_MAX,
            decompose: true,
            goal: Goal::default(),
            model: Arc::new(Model::builtin()),
            // What the code generator leaves to the interpreter has no effect on code.
            passes: opt::Options { bail: BAIL, ..opt::Options::default() },
            whole: true,
            synchronous: false,
            quiet: QUIET,
            code: jit::Options::default(),
        }
    }
}

/// What the code generator leaves to the interpreter.
const BAIL: opt::Bail =
    opt::Bail { services: false, copies: false, groups: false, ..opt::Bail::ALL };

/// Tables of so many entries at most become code, if they do not change often.
pub const DIRECT_MAX: usize = 16;
/// Forced to become code, tables may have so many entries: each is a compare and an action's body.
pub(super) const DIRECT_FORCED_MAX: usize = 256;
/// A table is quiet when it has not changed for so long.
const QUIET: Duration = Duration::from_millis(100);
