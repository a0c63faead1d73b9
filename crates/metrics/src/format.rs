//! Which format a client wants.

/// A format of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, 0.0.4. What has no header `Accept` reads it.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What a header `Accept` asks for. The media type with the highest weight wins, of equal ones the first.
    pub fn of(accept: Option<&str>) -> Format {
        let mut best = (0.0, Format::Prometheus);
        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let format = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "application/openmetrics-text" => Format::OpenMetrics,
                "text/plain" | "text/*" | "*/*" => Format::Prometheus,
                _ => continue,
            };
            let weight = parts
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
                .map_or(1.0, |(_, weight)| weight.trim().parse::<f32>().unwrap_or(0.0));
            if weight > best.0 {
                best = (weight, format);
            }
        }
        best.1
    }

    /// The header `Content-Type` of the text.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_what_the_client_wants_most() {
        use Format::{OpenMetrics, Prometheus};
        let cases = [
            (None, Prometheus),
            (Some(""), Prometheus),
            (Some("text/html"), Prometheus),
            (Some("application/openmetrics-text"), OpenMetrics),
            (
                Some("text/plain;q=0.5, application/openmetrics-text;version=1.0.0;q=0.8"),
                OpenMetrics,
            ),
            (Some("application/openmetrics-text;q=0.2,*/*;q=0.3"), Prometheus),
            (Some("application/openmetrics-text;q=x,text/plain;q=0.1"), Prometheus),
        ];
        for (accept, format) in cases {
            assert_eq!(Format::of(accept), format, "{accept:?}");
        }
    }
}
