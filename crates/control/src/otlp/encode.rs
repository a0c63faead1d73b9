//! Log records and spans in OTLP's JSON: names of fields in lowerCamelCase, whole numbers of 64 bits as strings, identifiers in
//! hexadecimal (OTLP specification, "JSON Protobuf Encoding").

use super::slow::Span;
use crate::logging::events::Event;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};

/// Who tells: OpenTelemetry's `service.*`, `host.*` and `process.*`.
#[derive(Clone, Debug)]
pub(super) struct Resource(Vec<(&'static str, String)>);

impl Resource {
    /// This process.
    pub(super) fn of_this_process() -> Resource {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Resource(vec![
            ("service.name", "millrace".to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("service.instance.id", identifier::<16>()),
            ("host.name", host),
            ("host.arch", std::env::consts::ARCH.to_owned()),
            ("process.pid", std::process::id().to_string()),
        ])
    }

    fn told(&self) -> Value {
        let all = self.0.iter().map(|(key, value)| match *key {
            "process.pid" => json!({"key": key, "value": {"intValue": value}}),
            _ => attribute(key, value),
        });
        json!({"attributes": all.collect::<Vec<_>>()})
    }
}

/// Random octets in hexadecimal.
fn identifier<const N: usize>() -> String {
    let mut octets = [0; N];
    // Without any an identifier of zeros would be none; such a machine has no keys either.
    if SystemRandom::new().fill(&mut octets).is_err() {
        octets = [1; N];
    }
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn scope() -> Value {
    json!({"name": "millrace", "version": env!("CARGO_PKG_VERSION")})
}

/// The body of a request to `/v1/logs`.
pub(super) fn logs(resource: &Resource, events: &[Event]) -> String {
    let records: Vec<Value> = events.iter().map(record).collect();
    let scoped = json!([{"scope": scope(), "logRecords": records}]);
    json!({"resourceLogs": [{"resource": resource.told(), "scopeLogs": scoped}]}).to_string()
}

fn record(event: &Event) -> Value {
    let (number, text) = match event.level.as_str() {
        "error" => (17, "ERROR"),
        "warn" => (13, "WARN"),
        _ => (9, "INFO"),
    };
    let mut attributes = vec![attribute("code.namespace", &event.target)];
    attributes.extend(event.fields.iter().map(|(key, value)| attribute(key, value)));
    let time = event.unix_ns.to_string();
    json!({
        "timeUnixNano": time, "observedTimeUnixNano": time, "severityNumber": number, "severityText": text,
        "body": {"stringValue": event.message}, "attributes": attributes,
    })
}

/// The body of a request to `/v1/traces`. Each span is a trace of its own.
pub(super) fn spans(resource: &Resource, spans: &[Span]) -> String {
    let told: Vec<Value> = spans.iter().map(span).collect();
    let scoped = json!([{"scope": scope(), "spans": told}]);
    json!({"resourceSpans": [{"resource": resource.told(), "scopeSpans": scoped}]}).to_string()
}

fn span(span: &Span) -> Value {
    json!({
        "traceId": identifier::<16>(), "spanId": identifier::<8>(), "name": span.name,
        // Of the process itself.
        "kind": 1,
        "startTimeUnixNano": span.start_ns.to_string(), "endTimeUnixNano": span.end_ns.to_string(),
        "attributes": [attribute("millrace.bridge", &span.bridge)], "status": {},
    })
}
