//! What a module is.

use crate::bench::Bench;
use crate::error::Error;
use crate::run::Run;

/// A question.
#[derive(Debug)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// What it asks, in a line.
    pub about: &'static str,
    /// The single figures of its runs.
    pub figures: &'static [&'static str],
    /// The latencies of its runs.
    pub latencies: &'static [&'static str],
    /// What its runs are drawn over.
    pub over: &'static [Over],
    /// Asks it; each step is told to the second argument.
    pub run: Ask,
}

/// A plot of figures over another figure, a point for each run; runs of one
/// [`group`](crate::run::Run::group) make up a line.
#[derive(Debug)]
pub struct Over {
    /// What it shows.
    pub title: &'static str,
    /// The figure to the right.
    pub x: &'static str,
    /// What that is, with its unit.
    pub x_label: &'static str,
    /// What lies upwards, with its unit.
    pub y_label: &'static str,
    /// The figures upwards, a line each; percentiles as thresholds name them.
    pub ys: &'static [&'static str],
    /// Which axes are logarithmic: to the right, upwards.
    pub log: (bool, bool),
    /// What a reader should know: a paper's figure that it stands for, and what differs.
    pub note: &'static str,
}

/// Adds the run of one more parameter. `false`: the switch or the version cannot be asked with this one, as when a table
/// is full, and what was asked before stands; without anything before, the whole module is not asked.
pub(super) fn add_run(
    runs: &mut Vec<Run>,
    done: Result<Run, Error>,
    what: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<bool, Error> {
    match done {
        Ok(run) => {
            runs.push(run);
            Ok(true)
        }
        Err(e) if e.is_of_one_module() && !runs.is_empty() => {
            progress(&format!("{what} and what would follow is left out: {e}"));
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

/// See [`Module::run`].
pub type Ask = fn(&mut Bench, &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_before_a_refusal_stands() {
        let (mut runs, mut told) = (Vec::new(), String::new());
        let mut add = |runs: &mut Vec<Run>, done| {
            add_run(runs, done, "100 rules", &mut |line| told = line.to_string())
        };
        let full = || Err(Error::NotAsked("the table is full".into()));
        assert!(add(&mut runs, full()).is_err());
        assert!(add(&mut runs, Ok(Run::default())).unwrap());
        assert!(!add(&mut runs, full()).unwrap());
        assert!(add(&mut runs, Err(Error::Closed { reason: None })).is_err());
        assert_eq!(runs.len(), 1);
        assert_eq!(told, "100 rules and what would follow is left out: the table is full");
    }
}
