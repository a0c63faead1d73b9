//! `/api/VERB`: the verbs of the control socket, as the page asks them.
//!
//! A value behind `=` is JSON where it reads as JSON, and text where it does not: `in_port=1` is a number, `sort=packets`
//! a text, `packet="0011"` a text of digits.
//! Refused: verbs that stream or that another process has a conversation by; questions that change anything by GET, and
//! that name files by either; lists longer than [`LIST_MAX`].

use crate::protocol::{Answer, Reply, Request};
use crate::role::Role;
use crate::verbs;
use grpc::site::{Asked, Told};
use serde_json::{Map, Value};

/// What the control socket would answer.
pub(super) type Answers = Box<dyn Fn(Role, Request) -> Result<Reply<Value>, String> + Send + Sync>;

/// Verbs that look.
const LOOKS: &[&str] = &[
    "bond",
    "bridge",
    "conntrack",
    "dump",
    "events",
    "explain",
    "flows",
    "graph",
    "groups",
    "meters",
    "mirror",
    "p4_names",
    "port",
    "queue",
    "replication",
    "service",
    "stations",
    "stats",
    "trace",
    "version",
];
/// Verbs that change something.
const CHANGES: &[&str] =
    &["bond", "bridge", "conntrack", "flow", "mirror", "port", "queue", "stations"];
/// Entries of a list, at most.
pub(super) const LIST_MAX: u64 = 10_000;

const JSON: &str = "application/json";

/// A value as an answer.
pub(super) fn result(value: &impl serde::Serialize) -> Told {
    match serde_json::to_vec(&serde_json::json!({ "result": value })) {
        Ok(bytes) => Told::new(JSON, bytes),
        Err(error) => refused(500, error.to_string()),
    }
}

/// An error in the form of the control socket.
pub(super) fn refused(status: u16, text: String) -> Told {
    let body = serde_json::to_vec(&Answer::Error(text)).unwrap_or_default();
    Told { status, ..Told::new(JSON, body) }
}

fn no_verb(verb: &str, verbs: &[&str], how: &str) -> Told {
    refused(404, format!("there is no {verb:?} to {how} here; there are {}", verbs.join(", ")))
}

/// A question by GET.
pub(super) fn look(answers: &Answers, verb: &str, query: Option<&str>) -> Result<Told, Told> {
    if !LOOKS.contains(&verb) {
        return Err(no_verb(verb, LOOKS, "look at"));
    }
    let arguments = arguments(query.unwrap_or_default()).map_err(|text| refused(400, text))?;
    let request = request(verb, defaults(verb, arguments))?;
    let read = verbs::read(request.again()).map_err(|text| refused(400, text))?;
    if read.change().is_some() || read.names_files() {
        return Err(refused(405, "GET changes nothing; a change goes by POST".to_owned()));
    }
    answer(answers, Role::Read, request)
}

/// A change by POST.
pub(super) fn change(answers: &Answers, verb: &str, asked: &Asked) -> Result<Told, Told> {
    if !CHANGES.contains(&verb) {
        return Err(no_verb(verb, CHANGES, "change"));
    }
    // A form of another page cannot say this.
    let json = asked.content_type.as_deref().is_some_and(|text| {
        text.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON))
    });
    if !json {
        return Err(refused(415, format!("Content-Type: {JSON} was expected")));
    }
    let arguments =
        serde_json::from_slice(&asked.body).map_err(|error| refused(400, error.to_string()))?;
    let request = request(verb, arguments)?;
    let read = verbs::read(request.again()).map_err(|text| refused(400, text))?;
    if read.names_files() {
        let text = "this makes the switch open files, which only the control socket may ask for";
        return Err(refused(403, text.to_owned()));
    }
    answer(answers, Role::Operate, request)
}

/// What the control socket's clients always say, where nothing is said here.
fn defaults(verb: &str, mut arguments: Map<String, Value>) -> Map<String, Value> {
    let mut has = |name: &str, value: Value| {
        arguments.entry(name).or_insert(value);
    };
    match verb {
        "conntrack" => {
            has("flush", false.into());
            has("limit", 100.into());
        }
        "queue" => {
            has("set", Value::Array(Vec::new()));
            has("clear", Value::Array(Vec::new()));
        }
        _ => {}
    }
    arguments
}

fn request(verb: &str, mut arguments: Map<String, Value>) -> Result<Request, Told> {
    if arguments.get("limit").and_then(Value::as_u64).is_some_and(|limit| limit > LIST_MAX) {
        return Err(refused(400, format!("limit: at most {LIST_MAX} here")));
    }
    let bridge = match arguments.remove("bridge") {
        None | Some(Value::Null) => None,
        Some(Value::String(bridge)) => Some(bridge),
        Some(other) => Some(other.to_string()),
    };
    Ok(Request { verb: verb.to_owned(), bridge, arguments: Value::Object(arguments) })
}

impl Request {
    fn again(&self) -> Request {
        let Request { verb, bridge, arguments } = self;
        Request { verb: verb.clone(), bridge: bridge.clone(), arguments: arguments.clone() }
    }
}

fn answer(answers: &Answers, role: Role, request: Request) -> Result<Told, Told> {
    match answers(role, request) {
        Ok(Reply::Answer(value)) => Ok(result(&value)),
        Ok(Reply::Stream(..)) => {
            Err(refused(400, "a stream is read by the control socket".to_owned()))
        }
        Err(text) => Err(refused(400, text)),
    }
}

/// Arguments of what stands behind `?`.
fn arguments(query: &str) -> Result<Map<String, Value>, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let read = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value)?;
        let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
        Ok((decoded(name)?, value))
    });
    read.collect()
}

/// Text whose octets may be written `%xx`, and a space `+`.
pub(super) fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("{text}: `%` and two hexadecimal digits were expected, of UTF-8");
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                (high << 4 | low) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Bytes of the body of an answer, for tests.
#[cfg(test)]
pub(super) fn body(told: Told) -> bytes::Bytes {
    match told.body {
        grpc::site::Content::Whole(bytes) => bytes,
        grpc::site::Content::Stream(_) => bytes::Bytes::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_json_where_they_read_as_json() {
        let read = |query: &str| arguments(query).map(Value::Object);
        assert_eq!(
            read("in_port=1&sort=packets&filter=ip%2Cnw_dst%3d10.0.0.1&packet=%220011%22&x"),
            Ok(
                json!({"in_port": 1, "sort": "packets", "filter": "ip,nw_dst=10.0.0.1", "packet": "0011", "x": ""})
            )
        );
        assert_eq!(read("a+b=c+d&&"), Ok(json!({"a b": "c d"})));
        assert!(read("a=%f").unwrap_err().contains("hexadecimal"));
        assert!(read("a=%ff").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn verbs_stand_where_they_belong() {
        for verb in LOOKS.iter().chain(CHANGES) {
            assert!(verbs::ALL.iter().any(|row| row.name == *verb), "{verb}");
        }
    }
}
