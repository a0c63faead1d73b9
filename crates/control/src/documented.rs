//! docs/control.md describes every verb by an example, and the examples are true.
//!
//! Each section of a verb has blocks in pairs: a question, and its answer. Every question is asked of a running switch,
//! those of P4 of a second one. The answer must have the documented one's form: the same keys, kinds of values and
//! lengths of lists; a text of an error must be the same. `BLESS=1` writes the answers anew.

use crate::bridges::Bridges;
use crate::config::{self, Config, Options};
use crate::controllers;
use crate::ports::{Opened, Ports};
use crate::role::Role;
use crate::server::answers;
use crate::socket::{Place, Server};
use crate::takeover::handover::Handover;
use crate::verbs;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::Workers;

/// The document begins a verb's section so.
const HEADING: &str = "### `";
/// Where the document has files of connections.
const IMAGES: &str = "/var/lib/millrace/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A pair of blocks in a verb's section.
struct Example {
    verb: String,
    question: String,
    /// The lines between the fences of the answer, from and to.
    lines: (usize, usize),
}

fn examples(text: &str) -> Vec<Example> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut verb, mut at, mut found) = (String::new(), 0, Vec::new());
    let mut question: Option<String> = None;
    while at < lines.len() {
        if let Some(name) = lines[at].strip_prefix(HEADING) {
            verb = name.split('`').next().unwrap_or("").to_owned();
        } else if lines[at].starts_with("## ") {
            verb.clear();
        }
        if lines[at] == "```json" && !verb.is_empty() {
            let end = (at + 1..lines.len()).find(|n| lines[*n] == "```").expect("a block ends");
            match question.take() {
                None => question = Some(lines[at + 1..end].join("")),
                Some(question) => {
                    found.push(Example { verb: verb.clone(), question, lines: (at + 1, end) });
                }
            }
            at = end;
        }
        at += 1;
    }
    assert!(question.is_none(), "{verb}: a question without its answer");
    found
}

/// A switch that is served, until it is dropped.
struct Served {
    bridges: Bridges,
    path: PathBuf,
    _server: Server,
    _wake: UnixStream,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.bridges.stop();
    }
}

/// Serves a switch of this configuration.
fn served(folder: &Path, name: &str, file: &str) -> Served {
    let file = config::parse(file).unwrap();
    let config = Config::of(file, Options::default()).unwrap();
    let ports = Ports::plan(&config).unwrap();
    let workers = Workers::start(config.workers, &config.cpus).unwrap();
    let begun = controllers::begin(&config, &workers).unwrap();
    let bridges =
        Bridges::with_environment(workers, ports.environment().clone(), config.defaults());
    let switch = begun.switch().clone();
    ports.add(&switch, Opened::default()).unwrap();
    let switches = bridges.switches();
    let first = begun.start(&switches).unwrap();
    let controllers = controllers::join(&config, &switch, first, &switches).unwrap();
    let (wake, _wake) = UnixStream::pair().unwrap();
    bridges.adopt(config.bridge(), switch.clone(), controllers, ports.configs()).unwrap();
    let handover = Arc::new(Handover::new(wake));
    let path = folder.join(name);
    let socket = Place { path: path.clone(), group: None }.open().unwrap();
    let answers = answers(&bridges, Some(&handover), None);
    let _server = socket.serve(None, move |request| answers(Role::Admin, request)).unwrap();
    switch.sync();
    // What `explain` tells is what the engine comes to.
    let until = Instant::now() + Duration::from_secs(60);
    while !switch.is_settled() && Instant::now() < until {
        switch.advance();
        std::thread::sleep(Duration::from_millis(2));
    }
    Served { bridges, path, _server, _wake }
}

/// The answer to a line, and what can be read behind it at once.
fn ask(path: &Path, line: &str) -> (Value, Vec<u8>) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let (mut answer, mut behind) = (String::new(), Vec::new());
    let mut stream = BufReader::new(stream);
    stream.read_line(&mut answer).unwrap();
    if line.contains("export") {
        stream.read_to_end(&mut behind).unwrap();
    }
    (serde_json::from_str(&answer).unwrap(), behind)
}

/// What differs in form, by its place.
fn unlike(documented: &Value, got: &Value, at: &str) -> Option<String> {
    match (documented, got) {
        // Counters that have counted nothing.
        (Value::Object(a), Value::Object(_)) if a.is_empty() => None,
        (Value::Object(a), Value::Object(b)) => {
            let keys = |map: &serde_json::Map<String, Value>| {
                map.keys().cloned().collect::<Vec<_>>().join(", ")
            };
            if keys(a) != keys(b) {
                return Some(format!("{at}: {{{}}}, not {{{}}}", keys(b), keys(a)));
            }
            a.iter().find_map(|(key, value)| unlike(value, &b[key], &format!("{at}.{key}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(n, (a, b))| unlike(a, b, &format!("{at}[{n}]")))
        }
        (Value::String(a), Value::String(b)) if at == ".error" && a != b => {
            Some(format!("{at}: {b:?}, not {a:?}"))
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, Value::Null) => None,
        _ => Some(format!("{at}: {got}, not as {documented}")),
    }
}

/// As the document shows an answer: each part of its value on a line of its own.
fn shown(answer: &Value) -> String {
    let Some(result) = answer["result"].as_object().filter(|result| result.len() > 1) else {
        return answer.to_string();
    };
    let parts: Vec<String> = result
        .iter()
        .map(|(key, value)| format!("  {}: {value}", Value::from(key.as_str())))
        .collect();
    format!("{{\"result\": {{\n{}\n}}}}", parts.join(",\n"))
}

#[test]
fn every_verb_is_documented_by_examples_that_are_true() {
    let document = root().join("docs/control.md");
    let text = std::fs::read_to_string(&document).unwrap();
    let examples = examples(&text);
    for row in verbs::ALL {
        let has = examples.iter().any(|example| example.verb == row.name);
        assert!(
            has,
            "docs/control.md has no section {HEADING}{}` with a question and its answer",
            row.name
        );
        assert!(
            text.contains(row.about),
            "docs/control.md does not say of {}: {}",
            row.name,
            row.about
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let flows = folder.path().join("flows.txt");
    std::fs::write(
        &flows,
        "priority=100,ip,nw_dst=10.0.0.2 actions=output:2\npriority=1 actions=drop\n",
    )
    .unwrap();
    let openflow = format!(
        "port = [\"p1=memory:documented1\", \"p2=memory:documented2\"]\nflows = [{:?}]\nqueue = [\"p2:1,max=10M\"]\n",
        flows.display().to_string()
    );
    let program = root().join("examples/p4/router.p4");
    let p4 =
        format!("port = [\"p1=memory:documented3\"]\np4 = {:?}\n", program.display().to_string());
    let openflow = served(folder.path(), "openflow", &openflow);
    let p4 = served(folder.path(), "p4", &p4);
    let bless = std::env::var_os("BLESS").is_some();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut wrong = Vec::new();
    // From the end on, so that the places of those before stay; asked in the document's order.
    let mut answered = Vec::new();
    for Example { verb, question, .. } in &examples {
        let asked: Value =
            serde_json::from_str(question).unwrap_or_else(|e| panic!("{question}: {e}"));
        assert_eq!(asked["command"], **verb, "{question}");
        let line = question
            .replace(IMAGES, &format!("{}/", folder.path().display()))
            .replace("examples/", &format!("{}/examples/", root().display()));
        let of = if verb.starts_with("p4_") { &p4 } else { &openflow };
        let (answer, behind) = ask(&of.path, &line);
        if !behind.is_empty() {
            std::fs::write(folder.path().join("connections"), behind).unwrap();
        }
        answered.push(answer);
    }
    for (Example { question, lines: (from, to), .. }, answer) in
        examples.iter().zip(&answered).rev()
    {
        if bless {
            lines.splice(*from..*to, shown(answer).lines().map(str::to_owned));
            continue;
        }
        let documented = lines[*from..*to].join("\n");
        let documented: Value =
            serde_json::from_str(&documented).unwrap_or_else(|e| panic!("{documented}: {e}"));
        wrong.extend(unlike(&documented, answer, "").map(|why| format!("{question}: {why}")));
    }
    if bless {
        std::fs::write(&document, lines.join("\n") + "\n").unwrap();
    }
    assert!(wrong.is_empty(), "docs/control.md (BLESS=1 writes it anew):\n{}", wrong.join("\n"));
}

#[test]
fn another_form_is_found() {
    let documented: Value = serde_json::json!({"result": {"a": 1, "list": [{"b": "x"}]}});
    let unlike = |got: Value| unlike(&documented, &got, "");
    assert_eq!(unlike(serde_json::json!({"result": {"a": 2, "list": [{"b": "y"}]}})), None);
    for (got, why) in [
        (serde_json::json!({"error": "no"}), "{error}, not {result}"),
        (serde_json::json!({"result": {"a": 1, "list": []}}), ".result.list: []"),
        (serde_json::json!({"result": {"a": "1", "list": [{"b": "x"}]}}), ".result.a: \"1\""),
        (serde_json::json!({"result": {"a": 1, "list": [{"b": "x", "c": 1}]}}), "{b, c}, not {b}"),
    ] {
        assert!(unlike(got).unwrap().contains(why), "{why}");
    }
}
