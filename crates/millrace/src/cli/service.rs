//! What `millrace service` is told.

use super::to::To;
use clap::{Args, Subcommand};
use std::time::Duration;

/// `millrace service`.
#[derive(Args, Debug)]
pub(crate) struct ServiceOptions {
    /// What to do; without it, show
    #[command(subcommand)]
    pub(crate) command: Option<ServiceCommand>,
    /// One JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: To,
}

/// What to do with services.
#[derive(Subcommand, Debug)]
pub(crate) enum ServiceCommand {
    /// Show the services that are there, and what they have counted
    Show,
    /// Show what there is to add, with its settings
    Kinds,
    /// Add a service, for flows to name in softflow(NAME,ARG)
    Add {
        /// Its name: letters, digits, '_', '-' and '.'
        name: String,
        /// Its kind: see kinds
        kind: String,
        /// Its settings
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Set what can be set while a service runs: a balancer's backends=, hosts= and health=NAME:up|draining|down,...
    Set {
        /// Its name
        name: String,
        /// What is to be set
        #[arg(value_name = "KEY=VALUE", required = true)]
        settings: Vec<String>,
    },
    /// Show backends of balancers: whether they take flows, what checks have found, what they were given
    Backends {
        /// Of this balancer alone
        name: Option<String>,
    },
    /// Give a balancer's backend no new flows; it keeps those that it has, until the deadline if there is one
    Drain {
        /// The balancer
        name: String,
        /// Its backend
        backend: String,
        /// Then it is down, and what it still has is cut: 90s, 5m, 1h
        #[arg(long, value_name = "TIME", value_parser = time)]
        deadline: Option<Duration>,
    },
    /// Give a balancer's backend flows again
    Undrain {
        /// The balancer
        name: String,
        /// Its backend
        backend: String,
    },
    /// Take a service away; packets that flows hand to it are dropped from then on
    Remove {
        /// Its name
        name: String,
    },
}

/// `90s`, `5m`, `1h`, `500ms`; a number alone is seconds.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let factor_ms = match unit {
        "ms" => Some(1),
        "s" | "" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let ms =
        digits.parse::<u64>().ok().zip(factor_ms).and_then(|(n, factor)| n.checked_mul(factor));
    ms.map(Duration::from_millis).ok_or_else(|| "a time is 500ms, 90s, 5m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, ms) in [("90s", 90_000), ("90", 90_000), ("5m", 300_000), ("250ms", 250)] {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)));
        }
        for text in ["", "s", "1d", "-1s", "18446744073709551615h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
