//! Port specifications as users write them: `[NAME[:NUMBER]=]SPEC`, where SPEC is `KIND:...`.
//!
//! What stands behind the colon is up to the [kind](crate::kind). A specification that begins with a kind and a colon has no
//! name, unless digits and `=` follow: `pcap:rx=a` is a file, `pcap:3=tap:t0` is port 3, called `pcap`. File names cannot
//! contain commas.
//!
//! Errors name the word and, for an unknown one, the nearest known one; positions are for programs. The texts are golden.
//! Checked by: the tests of `control::port_kinds`, with all kinds.

pub mod error;
pub mod words;

pub use error::SpecError;

use crate::kind::{Attached, Environment, Kinds};
use crate::{Error, Port};
use std::fmt;

/// One port as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name given, if one was.
    pub given_name: Option<String>,
    /// The number given, if one was. 0 is for P4 programs.
    pub number: Option<u32>,
    /// What it is attached to.
    pub attachment: Attached,
}

impl Spec {
    /// Reads a specification of one of these kinds.
    pub fn parse(text: &str, kinds: Kinds) -> Result<Spec, SpecError> {
        let (given_name, number, at) = match split_name(text, kinds) {
            None => (None, None, 0),
            Some(prefix) => {
                let (name, number) = parse_name(prefix)?;
                (Some(name), number, prefix.len() + 1)
            }
        };
        let attachment = attachment(&text[at..], at, kinds)?;
        match attachment.kind().must_be_named {
            Some(wanted) if given_name.is_none() => {
                let word = attachment.kind().word;
                let what = format!("the {word} port's own name");
                Err(SpecError::Unnamed { what, wanted })
            }
            _ => Ok(Spec { given_name, number, attachment }),
        }
    }

    /// The port's name: the one given, else that of the interface, ring or kind.
    pub fn name(&self) -> &str {
        self.given_name.as_deref().unwrap_or_else(|| self.attachment.default_name())
    }

    /// Opens the port.
    pub fn open(&self, environment: &Environment) -> Result<Box<dyn Port>, Error> {
        self.attachment.open(self.name(), environment)
    }
}

/// The part before `=`, if it is a name and not the start of an option.
fn split_name(text: &str, kinds: Kinds) -> Option<&str> {
    let (prefix, _) = text.split_once('=')?;
    let Some((first, rest)) = prefix.split_once(':') else { return Some(prefix) };
    let is_number = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    (is_number || kinds.get(first).is_none()).then_some(prefix)
}

fn parse_name(prefix: &str) -> Result<(String, Option<u32>), SpecError> {
    let (name, number) = match prefix.split_once(':') {
        None => (prefix, None),
        Some((name, word)) => {
            (name, Some(words::number(word, name.len() + 1, "port number", 0, u32::MAX)?))
        }
    };
    let wanted = "NAME=SPEC or NAME:NUMBER=SPEC";
    Ok((words::required(name, 0, "the port's name", wanted)?, number))
}

/// Reads the part behind the name, which starts at `at`.
fn attachment(text: &str, at: usize, kinds: Kinds) -> Result<Attached, SpecError> {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    if word.is_empty() {
        return Err(SpecError::Missing { at, what: "the kind of port", wanted: "KIND:..." });
    }
    match kinds.get(word) {
        Some(kind) => (kind.parse)(rest, at + word.len() + 1),
        None => Err(words::unknown(at, "kind of port", word, &kinds.words())),
    }
}

/// As it is parsed.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.given_name {
            f.write_str(name)?;
            if let Some(number) = self.number {
                write!(f, ":{number}")?;
            }
            f.write_str("=")?;
        }
        write!(f, "{}", self.attachment)
    }
}

/// Body of the fuzz target `port_spec`: any text is a specification that is written and read again the same, or refused
/// with a place in it.
pub fn fuzz(data: &[u8], kinds: Kinds) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Spec::parse(text, kinds) {
        Ok(spec) => {
            assert_eq!(Spec::parse(&spec.to_string(), kinds).as_ref(), Ok(&spec), "{text:?}");
        }
        Err(error) => assert!(error.at() <= text.len() + 1, "{error}"),
    }
}
