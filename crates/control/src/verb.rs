//! What a verb of the control socket is. Each has a file of its own in [`verbs`](crate::verbs).
//!
//! The arguments are a serde type, which is also what a client asks with; the answer is one, too, and the verb makes
//! text of it for people. A verb that changes the switch says what it changes, for `--log-changes`.

use crate::bridges::{Bridge, Bridges};
use crate::controller::Controllers;
use crate::protocol::Reply;
use crate::reload::Reload;
use crate::role::Role;
use crate::takeover::handover::Handover;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use switch::Switch;

/// What a verb is asked of.
pub struct At<'a> {
    /// A bridge's switch, and what programs it; none where there is no bridge.
    switch: Option<(&'a Switch, &'a Controllers)>,
    /// All bridges; none of a switch that is no server's.
    bridges: Option<&'a Bridges>,
    /// The bridge that the question names.
    named: Option<&'a Arc<Bridge>>,
    /// What another process needs to take this one's place.
    pub(crate) handover: Option<&'a Arc<Handover>>,
    /// Configurations of the process; none of one that a database configures.
    pub(crate) reload: Option<&'a Arc<Reload>>,
}

impl<'a> At<'a> {
    /// A switch that nobody programs and no process serves.
    pub fn alone(switch: &'a Switch) -> At<'a> {
        static NONE: Controllers = Controllers::none();
        At {
            switch: Some((switch, &NONE)),
            bridges: None,
            named: None,
            handover: None,
            reload: None,
        }
    }

    /// Of a process's bridges this one, which the question names or is the first.
    pub(crate) fn of(
        bridges: &'a Bridges,
        bridge: Option<&'a Arc<Bridge>>,
        is_named: bool,
        handover: Option<&'a Arc<Handover>>,
    ) -> At<'a> {
        let switch = bridge.map(|bridge| (bridge.switch(), bridge.controllers()));
        let named = bridge.filter(|_| is_named);
        At { switch, bridges: Some(bridges), named, handover, reload: None }
    }

    /// The switch.
    pub fn switch(&self) -> Result<&'a Switch, String> {
        self.switch.map(|(switch, _)| switch).ok_or_else(no_bridge)
    }

    /// What programs it.
    pub fn controllers(&self) -> Result<&'a Controllers, String> {
        self.switch.map(|(_, controllers)| controllers).ok_or_else(no_bridge)
    }

    /// All bridges.
    pub fn bridges(&self) -> Result<&'a Bridges, String> {
        self.bridges.ok_or_else(|| "this is no bridge of a running process".to_owned())
    }

    /// The bridge that the question names, or the first one.
    pub fn bridge(&self) -> Result<Arc<Bridge>, String> {
        let first = || self.bridges()?.first().ok_or_else(no_bridge);
        self.named.cloned().map_or_else(first, Ok)
    }

    /// The bridge that the question names, if it names one.
    pub fn named(&self) -> Option<&'a Arc<Bridge>> {
        self.named
    }
}

fn no_bridge() -> String {
    "there is no bridge: add one with `millrace bridge add NAME`".to_owned()
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

    /// Who may ask.
    fn role(&self) -> Role {
        match (self.names_files(), self.change()) {
            (true, _) => Role::Admin,
            (_, Some(_)) => Role::Operate,
            (_, None) => Role::Read,
        }
    }
}

/// A question that was read.
pub(crate) trait Asked {
    /// Its arguments as they are written.
    fn written(&self) -> Value;
    fn change(&self) -> Option<Change>;
    fn names_files(&self) -> bool;
    fn role(&self) -> Role;
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

    fn role(&self) -> Role {
        Verb::role(self)
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
