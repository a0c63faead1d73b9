//! A script's interpreter, within its budget.

use super::limits::{MEMORY_MAX, PATIENCE};
use super::measurement::{Measurement, bad};
use crate::error::Error;
use mlua::{HookTriggers, Lua, LuaOptions, StdLib, Value, VmState};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A script's interpreter, with the time at which the call in progress must be over.
pub(super) struct Machine {
    pub(super) lua: Lua,
    until: Rc<RefCell<Instant>>,
    pub(super) patience: Duration,
    pub(super) t: Measurement,
    pub(super) path: String,
}

/// How much a script may use.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) memory: usize,
    pub(super) patience: Duration,
    /// Instructions in all, in units of [`STEP`].
    pub(super) steps: u64,
}

/// Instructions between two looks at the time.
const STEP: u32 = 10_000;

const BUDGET: Budget = Budget { memory: MEMORY_MAX, patience: PATIENCE, steps: u64::MAX };

/// What the libraries would let a script do that nothing could end or that is not its own: an error that says that its time is
/// over is not to be caught (`pcall`, `xpcall`, coroutines), finalizers run where it cannot be stopped, bytecode is not
/// verified, and a move over all numbers is one instruction.
const GUARDS: &str = r#"
local over = ...
local pcall, xpcall, resume, load, type, rawget = pcall, xpcall, coroutine.resume, load, type, rawget
local setmetatable, move, error, close = setmetatable, table.move, error, coroutine.close
local wrap, create = coroutine.wrap, coroutine.create
local function checked(...) over() return ... end
_G.pcall = function(...) return checked(pcall(...)) end
_G.xpcall = function(...) return checked(xpcall(...)) end
coroutine.resume = function(...) return checked(resume(...)) end
coroutine.close = function(...) return checked(close(...)) end
_G.load = function(chunk, name, mode, ...)
    if select('#', ...) > 0 then return load(chunk, name, 't', (...)) end
    return load(chunk, name, 't')
end
_G.setmetatable = function(t, m)
    if type(m) == 'table' and rawget(m, '__gc') ~= nil then error('finalizers (__gc) are not allowed', 2) end
    return setmetatable(t, m)
end
table.move = function(a, from, to, ...)
    if type(from) == 'number' and type(to) == 'number' and to - from > 1e7 then error('table.move: too many elements', 2) end
    return move(a, from, to, ...)
end
dofile, loadfile, collectgarbage = nil, nil, nil
"#;

impl Machine {
    pub(super) fn new(path: &str, text: &str) -> Result<Machine, String> {
        Machine::within(BUDGET, path, text)
    }

    pub(super) fn within(budget: Budget, path: &str, text: &str) -> Result<Machine, String> {
        let libraries =
            StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8 | StdLib::COROUTINE;
        let failed = |e: mlua::Error| format!("{path}: {e}");
        let lua = Lua::new_with(libraries, LuaOptions::default()).map_err(failed)?;
        lua.set_memory_limit(budget.memory).map_err(failed)?;
        let until = Rc::new(RefCell::new(Instant::now() + budget.patience));
        let steps = Rc::new(RefCell::new(0u64));
        let (deadline, spent) = (until.clone(), steps.clone());
        let is_over =
            Rc::new(move || *spent.borrow() > budget.steps || Instant::now() > *deadline.borrow());
        let late = || bad(format!("did not return within {} s", PATIENCE.as_secs()));
        let (hooked, guarded) = (is_over.clone(), is_over);
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(STEP), move |_, _| {
            *steps.borrow_mut() += 1;
            if hooked() { Err(late()) } else { Ok(VmState::Continue) }
        })
        .map_err(failed)?;
        let over = lua.create_function(move |_, ()| if guarded() { Err(late()) } else { Ok(()) });
        lua.load(GUARDS)
            .set_mode(mlua::chunk::ChunkMode::Text)
            .call::<()>(over.map_err(failed)?)
            .map_err(failed)?;
        lua.load(text)
            .set_mode(mlua::chunk::ChunkMode::Text)
            .set_name(format!("@{path}"))
            .exec()
            .map_err(failed)?;
        let patience = budget.patience;
        Ok(Machine { lua, until, patience, t: Measurement::default(), path: path.to_string() })
    }

    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        match self.lua.globals().get::<Value>(name) {
            Ok(Value::String(text)) => Ok(text.to_string_lossy()),
            _ => Err(format!("{}: sets no {name}; expected {name} = \"...\"", self.path)),
        }
    }

    /// Calls a function of the script, if it has it.
    pub(super) fn call(&self, name: &str, argument: Value) -> Result<Value, Error> {
        let failed = |e: mlua::Error| Error::Script(format!("{}: {name}: {e}", self.path));
        let Value::Function(function) = self.lua.globals().get(name).map_err(failed)? else {
            return Ok(Value::Nil);
        };
        *self.until.borrow_mut() = Instant::now() + self.patience;
        function.call((self.t.clone(), argument)).map_err(failed)
    }
}
