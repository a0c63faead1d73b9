//! Kinds of ports: a descriptor for each, and what one may ask of a port that is still to be opened.
//!
//! A [`Kind`] says how its specifications are written and read, what help tells of it, what `millrace doctor` finds out, and
//! what the database calls it. Reading a specification gives an [`Attachment`]: what the port will be attached to, with its
//! options. Nobody matches over kinds. Who needs to know something of a port asks its attachment or its kind.
//!
//! The crate of a kind declares its descriptor. One list ([`Kinds`]) names all that a program knows; `control::port_kinds`
//! has the one of millrace. So a new kind is a module and a line.
//!
//! Invariants: a word is there once in a list; an attachment is written as it is read.
//! Checked by: the tests of `control::port_kinds`, which hold all kinds to this.

use crate::doctor::{Finding, Machine};
use crate::error::Error;
use crate::port::Port;
use crate::spec::error::SpecError;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A kind of port.
pub struct Kind {
    /// The word in front of the colon.
    pub word: &'static str,
    /// The form of a specification.
    pub form: &'static str,
    /// What may stand for `OPTION` there, and what it does.
    pub options: &'static [(&'static str, &'static str)],
    /// What the port is.
    pub about: &'static str,
    /// What to use it for.
    pub use_for: &'static str,
    /// Reads what stands behind the colon; the number says where that starts in the specification.
    pub parse: fn(&str, usize) -> Result<Attached, SpecError>,
    /// The form that gives the port a name of its own, for kinds that have none to give.
    pub must_be_named: Option<&'static str>,
    /// Finds out whether it works on this machine. None where there is nothing to find out.
    pub diagnose: Option<fn(&Machine) -> Finding>,
    /// It works for every user, so that it is a fault of the machine if it does not.
    pub unprivileged: bool,
    /// Why its ports reach no other switch, if they do not.
    pub off_wire: Option<OffWire>,
    /// Every worker has a receive queue of its own, so that queues are not spread.
    pub queue_per_worker: bool,
    /// Capabilities of Linux without which it does not work (capabilities(7)), by name.
    pub capabilities: &'static [&'static str],
    /// Folders that it writes to, beside what its attachments name and `/dev`.
    pub folders: &'static [&'static str],
    /// What Open vSwitch's database calls it, for kinds that the database may ask for.
    pub database: &'static [Database],
}

/// Why ports of a kind reach no other switch.
#[derive(Clone, Copy, Debug)]
pub struct OffWire {
    /// What they are instead.
    pub why: &'static str,
    /// What does what is meant; a port of another kind if not said.
    pub instead: Option<&'static str>,
}

/// A kind as the database knows it.
#[derive(Clone, Copy)]
pub struct Database {
    /// The value of `Interface.type`.
    pub word: &'static str,
    /// From the interface's name and `Interface.options`.
    pub attach: fn(&str, &BTreeMap<String, String>) -> Attached,
}

impl Kind {
    /// A kind with a specification and nothing else that is special: what others are made from.
    pub const fn plain(
        word: &'static str,
        parse: fn(&str, usize) -> Result<Attached, SpecError>,
    ) -> Kind {
        Kind {
            word,
            form: "",
            options: &[],
            about: "",
            use_for: "",
            parse,
            must_be_named: None,
            diagnose: None,
            unprivileged: false,
            off_wire: None,
            queue_per_worker: false,
            capabilities: &[],
            folders: &[],
            database: &[],
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

/// What a port is attached to, shared by all that keep it. What is written the same is the same.
#[derive(Clone)]
pub struct Attached(Arc<dyn Attachment>);

impl Attached {
    /// This one.
    pub fn new(attachment: impl Attachment + 'static) -> Attached {
        Attached(Arc::new(attachment))
    }
}

impl Deref for Attached {
    type Target = dyn Attachment;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Attached {
    fn eq(&self, other: &Attached) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Attached {}

/// What a port that is asked for is attached to. It is written as it is read, without name and number.
pub trait Attachment: fmt::Display + Send + Sync {
    /// Its kind.
    fn kind(&self) -> &'static Kind;

    /// The port's name, if it is given none.
    fn default_name(&self) -> &str;

    /// Opens a port of this name.
    fn open(&self, name: &str, environment: &Environment) -> Result<Box<dyn Port>, Error>;

    /// Finds out what can be known without opening it: nothing is made, and nobody is disturbed.
    fn check(&self, name: &str) -> Result<(), String> {
        let _ = name;
        Ok(())
    }

    /// What becomes of it while one process takes the place of another.
    fn take_over(&self) -> TakeOver;

    /// Files that it names, to be read or written.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The kernel's interface behind it, if there is one.
    fn interface(&self) -> Option<&str> {
        None
    }

    /// The file that it writes, if there is one.
    fn writes(&self) -> Option<&Path> {
        None
    }
}

/// What becomes of a port while one process takes the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// Two processes may have it: the new one opens it before the old one lets go, which keeps it open.
    Shared,
    /// One process may have it: the old one closes it, and then the new one opens it.
    Exclusive,
    /// The new one makes it anew when the old one has let go, which keeps its own.
    Anew,
}

/// What the program has for all ports of a kind, such as where patch ports meet. A kind looks for the type that it knows.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Environment {
    /// With this, in place of another one of its type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, value: T) -> Environment {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// What there is of a type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment of {} values", self.0.len())
    }
}

/// In the [`Environment`] of who generates traffic: ports send as fast as they can, where they have a choice.
#[derive(Clone, Copy, Debug)]
pub struct Generates;

/// The kinds that a program knows, in the order in which help and doctor list them.
#[derive(Clone, Copy, Debug)]
pub struct Kinds(pub &'static [&'static Kind]);

impl Kinds {
    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = &'static Kind> {
        self.0.iter().copied()
    }

    /// The kind of a word.
    pub fn get(self, word: &str) -> Option<&'static Kind> {
        self.iter().find(|kind| kind.word == word)
    }

    /// The words.
    pub fn words(self) -> Vec<&'static str> {
        self.iter().map(|kind| kind.word).collect()
    }

    /// What the database calls this, and how it is made of that.
    pub fn of_database(self, word: &str) -> Option<Database> {
        self.iter().flat_map(|kind| kind.database).copied().find(|database| database.word == word)
    }

    /// What the database may ask for, in order of words.
    pub fn database_words(self) -> Vec<&'static str> {
        let mut words: Vec<&str> =
            self.iter().flat_map(|kind| kind.database).map(|database| database.word).collect();
        words.sort_unstable();
        words
    }

    /// The kinds whose ports lead to other switches.
    pub fn on_wire(self) -> Vec<&'static str> {
        self.iter().filter(|kind| kind.off_wire.is_none()).map(|kind| kind.word).collect()
    }

    /// Lines for each: its form and what it is; then its options.
    pub fn help(self) -> String {
        let width = self.iter().map(|kind| kind.form.len()).max().unwrap_or(0);
        let mut lines = Vec::new();
        for kind in self.iter() {
            lines.push(format!("{:<width$}  {}", kind.form, kind.about));
            lines.extend(kind.options.iter().map(|(form, about)| format!("    {form}: {about}")));
        }
        lines.join("\n")
    }

    /// For the book: a table of kinds.
    pub fn table(self) -> Vec<String> {
        let row =
            |kind: &Kind| format!("| `{}` | {} | {} |", cell(kind.form), kind.about, kind.use_for);
        let head = ["| SPEC | is | use it for |", "|---|---|---|"].map(str::to_owned);
        head.into_iter().chain(self.iter().map(row)).collect()
    }
}

/// Text of a cell: what would end it is escaped.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// For the book: a table of a kind's options.
pub fn options_table(kind: &Kind) -> Vec<String> {
    let row = |(form, about): &(&str, &str)| format!("| `{}` | {about} |", cell(form));
    let head = [format!("| option of `{}` | meaning |", kind.word), "|---|---|".to_owned()];
    head.into_iter().chain(kind.options.iter().map(row)).collect()
}
