//! Logs to standard error: logfmt, or JSON by `--log json`.

use crate::cli::LogFormat;
use std::fmt::Write as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Starts logging; `RUST_LOG` overrides the level.
pub(crate) fn start(format: &LogFormat, verbose: u8) {
    let level = match verbose {
        0 => "info",
        1 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Logfmt => builder.event_format(Logfmt).init(),
    }
}

/// `level=info msg="..." key=value ...`
struct Logfmt;

struct Pairs(String, String);

impl Pairs {
    fn add(&mut self, field: &Field, value: &str) {
        let plain = !value.is_empty()
            && value.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'=' | b'\\'));
        let quoted = if plain { value.to_string() } else { format!("{value:?}") };
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        } else {
            // Writing to a string does not fail.
            let _ = write!(self.1, " {}={quoted}", field.name());
        }
    }
}

impl Visit for Pairs {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let mut pairs = Pairs(String::new(), String::new());
        event.record(&mut pairs);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let target = event.metadata().target();
        writeln!(writer, "level={level} target={target} msg={}{}", pairs.0, pairs.1)
    }
}
