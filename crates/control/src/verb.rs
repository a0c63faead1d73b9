//! What a verb of the control socket is. Each has a file of its own in [`verbs`](crate::verbs).
//!
//! The arguments are a serde type, which is also what a client asks with; the answer is one, too, and the verb makes
//! text of it for people. A verb that changes the switch says what it changes, for `--log-changes`.

use crate::controller::Controllers;
use crate::protocol::Reply;
use crate::takeover::handover::Handover;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use switch::Switch;

/// What a verb is asked of.
pub struct At<'a> {
    /// The switch.
    pub switch: &'a Switch,
    /// What programs it.
    pub controllers: &'a Controllers,
    /// What another process needs to take this one's place; none of a switch that is no server's.
    pub(crate) handover: Option<&'a Arc<Handover>>,
}

impl<'a> At<'a> {
    /// A switch that nobody programs and no process serves.
    pub fn alone(switch: &'a Switch) -> At<'a> {
        static NONE: Controllers = Controllers::none();
        At { switch, controllers: &NONE, handover: None }
    }
}

/// What a question has changed: what, how, and all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What: `queue`, `service`.
    pub kind: &'static str,
    /// `add`, `modify` or `delete`.
    pub how: &'static str,
    /// All of it.
    pub text: String,
}

/// A verb, implemented by its arguments.
pub trait Verb: Serialize + DeserializeOwned {
    /// Its name on the wire.
    const NAME: &'static str;
    /// What it does, in a line.
    const ABOUT: &'static str;
    /// What it answers.
    type Answer: Serialize + DeserializeOwned;

    /// Does it.
    fn answer(self, at: &At<'_>) -> Result<Reply<Self::Answer>, String>;

    /// The answer for people.
    fn text(answer: &Self::Answer) -> String;

    /// What it changes if it is answered, if anything.
    fn change(&self) -> Option<Change> {
        None
    }

    /// Whether it makes the switch open files by name. Fuzzers leave such questions out.
    fn names_files(&self) -> bool {
        false
    }
}

/// A question that was read.
pub(crate) trait Asked {
    /// Its arguments as they are written.
    fn written(&self) -> Value;
    fn change(&self) -> Option<Change>;
    fn names_files(&self) -> bool;
    fn answer(self: Box<Self>, at: &At<'_>) -> Result<Reply<Value>, String>;
}

impl<V: Verb> Asked for V {
    fn written(&self) -> Value {
        value(self)
    }

    fn change(&self) -> Option<Change> {
        Verb::change(self)
    }

    fn names_files(&self) -> bool {
        Verb::names_files(self)
    }

    fn answer(self: Box<Self>, at: &At<'_>) -> Result<Reply<Value>, String> {
        Ok(match Verb::answer(*self, at)? {
            Reply::Answer(answer) => Reply::Answer(value(&answer)),
            Reply::Stream(answer, write) => Reply::Stream(value(&answer), write),
        })
    }
}

/// Arguments and answers are structures with names of text: each has a form in JSON.
fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// A verb as it is listed.
pub struct Row {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    pub(crate) read: fn(Value) -> serde_json::Result<Box<dyn Asked>>,
}

impl Row {
    /// The row of a verb.
    pub(crate) const fn of<V: Verb + 'static>() -> Row {
        Row {
            name: V::NAME,
            about: V::ABOUT,
            read: |arguments| Ok(Box::new(serde_json::from_value::<V>(arguments)?)),
        }
    }
}
