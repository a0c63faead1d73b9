//! Which program a call is of: by the name that the binary was called by, or by the word after `stand-in`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A program of bmv2's or of p4c's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `p4c-bm2-ss`
    CompilerForBmv2,
    /// `p4c`, the driver of compilers
    Compiler,
    /// `simple_switch_grpc`
    Switch,
    /// `simple_switch_CLI`
    Shell,
}

/// All of them, by their names.
pub const PROGRAMS: [(&str, Program); 4] = [
    ("p4c-bm2-ss", Program::CompilerForBmv2),
    ("p4c", Program::Compiler),
    ("simple_switch_grpc", Program::Switch),
    ("simple_switch_CLI", Program::Shell),
];

/// The word that stands before such a name where it is not the binary's.
pub const WORD: &str = "stand-in";

/// A call of one of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub program: Program,
    /// Its words, its name first.
    pub words: Vec<OsString>,
}

fn named(name: &OsStr) -> Option<Program> {
    PROGRAMS.iter().find(|(known, _)| name == *known).map(|(_, program)| *program)
}

/// The call that these words are, if they are one of these programs.
pub fn call(words: &[OsString]) -> Option<Call> {
    let first = words.first()?;
    if let Some(program) = Path::new(first).file_name().and_then(named) {
        return Some(Call { program, words: words.to_vec() });
    }
    let program = named(words.get(2)?)?;
    (words.get(1)? == WORD).then(|| Call { program, words: words[2..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_call_is_known_by_its_name() {
        let called = call(&words("/usr/bin/p4c-bm2-ss -o a.json a.p4")).unwrap();
        assert_eq!(called.program, Program::CompilerForBmv2);
        assert_eq!(called.words.len(), 4);
        let called = call(&words("millrace stand-in simple_switch_grpc --no-p4")).unwrap();
        assert_eq!(called.program, Program::Switch);
        assert_eq!(called.words, words("simple_switch_grpc --no-p4"));
        for other in ["millrace run", "millrace stand-in", "millrace stand-in x", "millrace p4c x"]
        {
            assert_eq!(call(&words(other)), None, "{other}");
        }
        assert_eq!(call(&[]), None);
    }
}
