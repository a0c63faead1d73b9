//! `config`: another configuration, planned, applied, confirmed, taken back.

use crate::protocol::Reply;
use crate::reload::{Applied, CONFIRM_MAX, Plan};
use crate::role::Role;
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigQuestion {
    /// What to do.
    pub what: What,
    /// The file, as the switch finds it; without one that which it was started with.
    pub file: Option<PathBuf>,
    /// Of `apply`: all is undone unless it is confirmed within so many seconds.
    pub confirm_within_seconds: Option<u64>,
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Tell what would be changed.
    Plan,
    /// Change it.
    Apply,
    /// Keep what was applied last.
    Confirm,
    /// Undo what was applied last.
    Rollback,
    /// Tell what was applied.
    #[default]
    History,
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// What would be changed.
    Plan(Plan),
    /// What was done.
    Applied(Applied),
    /// All that was done, the oldest first.
    History(Vec<Applied>),
}

impl Verb for ConfigQuestion {
    const NAME: &'static str = "config";
    const ABOUT: &'static str = "Another configuration: planned, applied, confirmed, rolled back";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let reload = at
            .reload
            .ok_or("this process has no configuration file: a database says what it is")?;
        let file = self.file.as_deref();
        let within = self.confirm_within_seconds.map(Duration::from_secs);
        if within.is_some_and(|within| within.is_zero() || within > CONFIRM_MAX) {
            return Err(format!(
                "a confirmation is waited for 1 to {} seconds",
                CONFIRM_MAX.as_secs()
            ));
        }
        if matches!(self.what, What::Apply | What::Confirm | What::Rollback) {
            reload.of_a_fleet()?;
        }
        Ok(Reply::Answer(match self.what {
            What::Plan => Answer::Plan(reload.plan(file)?),
            What::Apply => Answer::Applied(reload.apply(file, within)?),
            What::Confirm => Answer::Applied(reload.confirm()?),
            What::Rollback => Answer::Applied(reload.rollback()?),
            What::History => Answer::History(reload.history()),
        }))
    }

    /// A file may be named, and what one holds is told.
    fn role(&self) -> Role {
        Role::Admin
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        match answer {
            Answer::Plan(plan) => {
                for line in &plan.changes {
                    let _ = writeln!(out, "{line}");
                }
                for setting in &plan.restart {
                    let _ = writeln!(out, "! {setting}: changes with a restart");
                }
                for line in &plan.ignored {
                    let _ = writeln!(out, "! {line}");
                }
                if plan.changes.is_empty() && plan.restart.is_empty() {
                    let _ = writeln!(out, "{}: nothing to change", plan.file);
                }
            }
            Answer::Applied(one) => {
                for line in &one.changes {
                    let _ = writeln!(out, "{line}");
                }
                for line in &one.ignored {
                    let _ = writeln!(out, "! {line}");
                }
                let _ = writeln!(out, "configuration {}: {}", one.number, one.outcome);
            }
            Answer::History(all) => {
                for one in all {
                    let (number, time, file) = (one.number, &one.time, &one.file);
                    let _ = writeln!(
                        out,
                        "{number:>4} {time} {file}, {} changes: {}",
                        one.changes.len(),
                        one.outcome
                    );
                }
            }
        }
        out
    }

    /// The switch reads the file.
    fn names_files(&self) -> bool {
        matches!(self.what, What::Plan | What::Apply)
    }
}
