//! What the rules have to say: where, what is wrong, what to do.

use std::fmt;

/// What breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the root.
    pub file: String,
    /// The line, from 1 on; 0 is the file as a whole.
    pub line: usize,
    /// What is wrong.
    pub wrong: String,
    /// What to do about it.
    pub mend: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        file: &str,
        line: usize,
        wrong: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        Finding { file: file.into(), line, wrong: wrong.into(), mend: mend.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}; {}", self.file, self.wrong, self.mend),
            line => write!(f, "{}:{line}: {}; {}", self.file, self.wrong, self.mend),
        }
    }
}

/// What the rules have to say.
#[derive(Debug, Default)]
pub struct Report {
    /// What breaks a rule.
    pub findings: Vec<Finding>,
    /// Counts of baselines, and what was skipped.
    pub notes: Vec<String>,
}

impl Report {
    /// Adds what breaks a rule.
    pub fn add(
        &mut self,
        file: &str,
        line: usize,
        wrong: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.findings.push(Finding::new(file, line, wrong, mend));
    }
}
