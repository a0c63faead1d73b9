//! The kind `memory`.

use crate::doctor::Finding;
use crate::error::Error;
use crate::kind::{Attached, Attachment, Environment, Kind, OffWire, TakeOver};
use crate::port::Port;
use crate::spec::words::required;
use std::fmt;

/// `memory:NAME`
pub static KIND: Kind = Kind {
    form: "memory:NAME",
    about: "rings in the process",
    use_for: "tests",
    diagnose: Some(|_| diagnose()),
    unprivileged: true,
    off_wire: Some(OffWire { why: "memory ports lead to nowhere but this process", instead: None }),
    ..Kind::plain("memory", |text, at| {
        Ok(Attached::new(Rings(required(text, at, "the ring's name", "memory:NAME")?)))
    })
};

/// Rings of this name.
struct Rings(String);

impl fmt::Display for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory:{}", self.0)
    }
}

impl Attachment for Rings {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn default_name(&self) -> &str {
        &self.0
    }

    fn open(&self, _: &str, _: &Environment) -> Result<Box<dyn Port>, Error> {
        Ok(Box::new(super::open(&self.0)?))
    }

    fn take_over(&self) -> TakeOver {
        TakeOver::Shared
    }
}

fn diagnose() -> Finding {
    match super::port("doctor", super::Config::default()) {
        Ok(_) => Finding::good("needs no privilege"),
        Err(error) => Finding::bad(error.to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_for_everyone() {
        assert!(diagnose().works);
    }
}
