//! What happened to a packet, step by step: a tree of lines.
//!
//! Its text is stable; filetests and scripts match lines of it:
//!
//! ```text
//! parse start: eth, ipv4, udp; payload 46 bytes
//! route: 10.1.0.0/16 -> forward(2)
//!   key: 10.1.2.3
//!   ipv4.ttl = 63
//!   output 2: 88 bytes
//! verdict: forward
//! ```

use ir::{EntryId, TableId};
use std::fmt;

/// What kind of step a line tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A pass begins.
    Pass,
    /// The parser ran; its children are the states.
    Parse,
    /// A block was entered.
    Block,
    /// A table was looked up; its children are the action's steps.
    Table,
    /// The key of a lookup.
    Key,
    /// An operation without an effect outside of the packet.
    Op,
    /// A copy went to a port.
    Output,
    /// A copy went to the control plane.
    Punt,
    /// A message went to the control plane.
    Digest,
    /// A group; its children are buckets.
    Group,
    /// A bucket; its children are the action's steps.
    Bucket,
    /// A copy of the packet took its own way.
    Clone,
    /// A meter was asked.
    Meter,
    /// The packet, or a copy, was given up.
    Drop,
    /// What became of the frame.
    Verdict,
}

/// One step, and the steps inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What kind of step.
    pub kind: Kind,
    /// One line.
    pub text: String,
    /// The entry that a lookup hit.
    pub hit: Option<(TableId, EntryId)>,
    /// Steps inside it, in order.
    pub children: Vec<Event>,
}

/// A tree of steps, in the order in which they happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The outermost steps.
    pub events: Vec<Event>,
    /// Steps that are still going on, outermost first.
    open: Vec<Event>,
}

impl Trace {
    /// Nothing happened yet.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// Every line, indented by two spaces for each level.
    pub fn lines(&self) -> Vec<String> {
        self.lines_with(&mut |_, _| None)
    }

    /// The same, with a line more for each entry that was hit, where there is one to tell of it.
    pub fn lines_with(
        &self,
        tell: &mut dyn FnMut(TableId, EntryId) -> Option<String>,
    ) -> Vec<String> {
        fn walk(
            events: &[Event],
            depth: usize,
            tell: &mut dyn FnMut(TableId, EntryId) -> Option<String>,
            out: &mut Vec<String>,
        ) {
            for event in events {
                out.push(format!("{:1$}{2}", "", 2 * depth, event.text));
                if let Some(told) = event.hit.and_then(|(table, entry)| tell(table, entry)) {
                    out.push(format!("{:1$}{told}", "", 2 * (depth + 1)));
                }
                walk(&event.children, depth + 1, tell, out);
            }
        }
        let mut out = Vec::new();
        walk(&self.events, 0, tell, &mut out);
        out
    }

    /// A step without steps inside.
    pub(crate) fn add(&mut self, kind: Kind, text: String) {
        self.push(Event { kind, text, hit: None, children: Vec::new() });
    }

    /// A step begins; what follows until [`close`](Self::close) is inside it.
    pub(crate) fn open(&mut self, kind: Kind, text: String) {
        self.open.push(Event { kind, text, hit: None, children: Vec::new() });
    }

    /// The step opened last is a lookup that hit this entry.
    pub(crate) fn hit(&mut self, table: TableId, entry: EntryId) {
        if let Some(event) = self.open.last_mut() {
            event.hit = Some((table, entry));
        }
    }

    /// The step opened last ends; its line may be another one by now.
    pub(crate) fn close(&mut self, text: Option<String>) {
        if let Some(mut event) = self.open.pop() {
            event.text = text.unwrap_or(event.text);
            self.push(event);
        }
    }

    fn push(&mut self, event: Event) {
        match self.open.last_mut() {
            Some(parent) => parent.children.push(event),
            None => self.events.push(event),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
