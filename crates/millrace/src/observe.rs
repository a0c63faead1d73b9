//! `millrace observe`: frames of a running switch as they come in, a line each, with what became of them.

use crate::cli::ObserveOptions;
use control::client::follow;
use control::failure::Failure;
use control::output::say;
use control::verbs::observe::{Observe, shown};
use std::io::{BufRead as _, BufReader};

/// `millrace observe`.
pub(crate) fn observe(options: ObserveOptions) -> Result<(), Failure> {
    let question = Observe {
        filter: options.filter.join(","),
        dropped: options.dropped,
        reason: options.reason,
        rate: options.rate,
        count: options.count,
        hex: options.hex,
    };
    for line in BufReader::new(follow(options.to.whom(), &question)?).lines() {
        // The switch has stopped.
        let Ok(line) = line else { return Ok(()) };
        match options.json {
            true => say(format_args!("{line}\n")),
            false => {
                let told = serde_json::from_str(&line)
                    .map_err(|e| Failure::Bad(format!("the switch's answer: {e}")))?;
                say(format_args!("{}\n", shown(&told)));
            }
        }
    }
    Ok(())
}
