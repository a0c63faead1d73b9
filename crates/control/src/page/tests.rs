//! The server of the page, asked over its socket.

mod tls;

use super::*;
use crate::bridges::BridgeConfig;
use crate::bridges::bed::{LONG, bridges, flow, frame, memory};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use switch::EngineKind;

const TOKEN: &str = "0123456789abcdef";

/// A bridge with two ports and an entry, and its page.
struct Bed {
    bridges: Bridges,
    served: Served,
    one: port::memory::Handle,
    two: port::memory::Handle,
}

fn bed(name: &str, token: bool, address: &str) -> Bed {
    let bridges = bridges(1, EngineKind::default());
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let ports = [format!("{name}1"), format!("{name}2")];
    let [one, two] = ports.each_ref().map(|port| memory(&bridges, "br0", port));
    flow(&bridges, "br0", "in_port=1,actions=output:2");
    let token = token.then(|| Token::of(TOKEN).unwrap());
    let at = PageAt { address: address.parse().unwrap(), token, reports: None };
    let answers = crate::server::answers(&bridges, None, None);
    let served = serve(Some(&at), &bridges, Bind::Now, answers, || Ok(None)).unwrap().unwrap();
    Bed { bridges, served, one, two }
}

impl Bed {
    fn open(&self, line: &str, headers: &str, body: &str) -> TcpStream {
        let address = ([127, 0, 0, 1], self.served.address().port());
        let mut stream = TcpStream::connect(std::net::SocketAddr::from(address)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let host = if headers.contains("Host:") { "" } else { "Host: localhost\r\n" };
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Status, head and body.
    fn ask(&self, line: &str, headers: &str, body: &str) -> (u16, String, String) {
        let mut text = String::new();
        self.open(line, headers, body).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = self.ask(&format!("GET {path}"), "", "");
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }
}

const AS_JSON: &str = "Content-Type: application/json\r\n";

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn the_page_comes_with_a_policy_that_lets_nothing_else_in() {
    let bed = bed("page-a", false, "127.0.0.1:0");
    let (status, head, body) = bed.ask("GET /", "", "");
    assert_eq!(status, 200);
    for line in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
        "cross-origin-resource-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert!(!head.contains("access-control") && !head.contains("set-cookie"), "{head}");
    assert!(body.starts_with("<!DOCTYPE html>") && body.contains("role=\"tablist\""));
    assert_eq!(bed.ask("GET /other", "", "").0, 404);
    assert_eq!(bed.ask("DELETE /api/port", "", "").0, 405);
    bed.bridges.stop();
}

#[test]
fn verbs_that_look_answer_as_the_control_socket_does() {
    let bed = bed("page-b", false, "127.0.0.1:0");
    assert!(bed.one.inject_bytes(&frame(2, 1, 7)));
    bed.two.take_within(LONG).expect("a frame comes through");
    let (status, told) = bed.get("/api/flows?sort=packets&limit=1");
    assert_eq!((status, &told["result"]["flows"][0]["packets"]), (200, &Value::from(1)));
    let (status, told) = bed.get("/api/trace?in_port=1&packet=tcp%2Cnw_dst%3D10.0.0.2");
    assert_eq!((status, &told["result"]["outputs"][0]["port"]), (200, &Value::from(2)), "{told}");
    for (verb, key) in [
        ("stats", "ports"),
        ("port?bridge=br0", "ports"),
        ("explain", "tables"),
        ("graph", "edges"),
        ("conntrack", "held"),
        ("events", "events"),
        ("queue", "ports"),
        ("version", "verbs"),
        ("page", "changes"),
    ] {
        let (status, told) = bed.get(&format!("/api/{verb}"));
        assert!(status == 200 && !told["result"][key].is_null(), "{verb}: {told}");
    }
    for (path, status, why) in [
        ("fly", 404, "there is no \"fly\" to look at here; there are bond, "),
        ("capture", 404, "to look at here"),
        ("take_over", 404, "to look at here"),
        ("stats?bridge=br9", 400, "br9"),
        ("flows?limit=10001", 400, "limit: at most 10000 here"),
        ("flows?lim=1", 400, "unknown field `lim`"),
        ("trace?in_port=1&packet=zz", 400, "neither hexadecimal nor a flow"),
        ("events?follow=true", 400, "a stream is read by the control socket"),
        ("conntrack?flush=true", 405, "GET changes nothing"),
        ("port?remove=%5B%22page-b1%22%5D", 405, "GET changes nothing"),
        ("bridge?add=%7B%22name%22%3A%22x%22%7D", 405, "GET changes nothing"),
    ] {
        let (got, told) = bed.get(&format!("/api/{path}"));
        let error = told["error"].as_str().unwrap_or_default();
        assert!(got == status && error.contains(why), "{path}: {got} {told}");
    }
    bed.bridges.stop();
}

#[test]
fn other_names_of_the_host_are_refused() {
    let bed = bed("page-c", false, "127.0.0.1:0");
    for path in ["/", "/api/stats", "/api/live"] {
        let line = format!("GET {path}");
        assert_eq!(bed.ask(&line, "Host: evil.example\r\n", "").0, 403, "{path}");
    }
    assert_eq!(bed.ask("GET /api/stats", "Host: 127.0.0.1:99\r\n", "").0, 200);
    bed.bridges.stop();
}

#[test]
fn changes_want_the_token() {
    let without = bed("page-d", false, "127.0.0.1:0");
    let line = "POST /api/flow";
    let body = "{\"line\": \"priority=7,ip,actions=drop\"}";
    assert_eq!(without.ask(line, &(AS_JSON.to_owned() + &bearer(TOKEN)), body).0, 403);
    without.bridges.stop();

    let bed = bed("page-e", true, "127.0.0.1:0");
    let right = AS_JSON.to_owned() + &bearer(TOKEN);
    assert_eq!(bed.get("/api/stats").0, 200);
    for wrong in [String::new(), bearer("0123456789abcdeF"), "Authorization: Basic x\r\n".into()] {
        let (status, head, _) = bed.ask(line, &(AS_JSON.to_owned() + &wrong), body);
        assert!(status == 401 && head.contains("www-authenticate: Bearer"), "{wrong}: {head}");
    }
    // A wrong one is wrong also where none is wanted.
    assert_eq!(bed.ask("GET /api/stats", &bearer("wrong"), "").0, 401);
    // What a form of another page can send.
    let (status, ..) = bed.ask(line, &(bearer(TOKEN) + "Content-Type: text/plain\r\n"), body);
    assert_eq!(status, 415);
    let flows = || bed.get("/api/flows").1["result"]["total"].clone();
    assert_eq!(flows(), 1);
    let (status, _, told) = bed.ask(line, &right, body);
    assert_eq!((status, told.as_str()), (200, "{\"result\":{\"total\":2}}"));
    assert_eq!(flows(), 2);
    let (status, _, told) = bed.ask("POST /api/port", &right, "{\"remove\": [\"page-e2\"]}");
    assert!(status == 200 && !told.contains("page-e2"), "{told}");
    for (verb, body, status) in [
        ("port", "{\"add\": [\"x=memory:x\"]}", 403),
        ("p4_load", "{}", 404),
        ("config", "{}", 404),
        ("flow", "[]", 400),
        ("flow", "{\"line\": \"nonsense\"}", 400),
    ] {
        let (got, _, told) = bed.ask(&format!("POST /api/{verb}"), &right, body);
        assert_eq!(got, status, "{verb}: {told}");
    }
    bed.bridges.stop();
}

#[test]
fn beyond_loopback_readers_want_the_token_too() {
    let bed = bed("page-f", true, "0.0.0.0:0");
    for path in ["/api/stats", "/api/live", "/api/page"] {
        assert_eq!(bed.ask(&format!("GET {path}"), "Host: any\r\n", "").0, 401, "{path}");
    }
    // The page itself has nothing to hide, and asks for the token.
    assert_eq!(bed.ask("GET /", "Host: any\r\n", "").0, 200);
    let (status, _, told) = bed.ask("GET /api/stats", &bearer(TOKEN), "");
    assert!(status == 200 && told.contains("page-f1"), "{told}");
    bed.bridges.stop();
}

#[test]
fn samples_come_as_a_stream_and_say_what_was_dropped() {
    let bed = bed("page-g", false, "127.0.0.1:0");
    let mut stream = BufReader::new(bed.open("GET /api/live", "", ""));
    let mut read = |kind: &str| loop {
        let (mut line, mut data) = (String::new(), String::new());
        stream.read_line(&mut line).unwrap();
        if line == format!("event: {kind}\n") {
            stream.read_line(&mut data).unwrap();
            let data = data.strip_prefix("data: ").unwrap();
            break serde_json::from_str::<Value>(data).unwrap();
        }
    };
    assert!(read("history").is_array());
    let first = read("sample");
    assert_eq!(first["bridges"][0]["kind"], "openflow");
    assert_eq!(first["bridges"][0]["ports"][0]["name"], "page-g1");
    assert!(bed.one.inject_bytes(&frame(2, 1, 7)));
    assert!(bed.two.inject_bytes(&frame(2, 1, 7)));
    bed.two.take_within(LONG).expect("a frame comes through");
    // Until both were counted.
    let (mut rx, mut drops) = (0, 0);
    let end = std::time::Instant::now() + LONG;
    while (rx, drops) != (2, 1) {
        assert!(std::time::Instant::now() < end, "{rx} {drops}");
        let sample = read("sample");
        rx += sample["point"]["rx_packets"].as_u64().unwrap();
        let told = sample["point"]["drops"].as_object().unwrap();
        drops += told.values().filter_map(Value::as_u64).sum::<u64>();
    }
    bed.bridges.stop();
}
