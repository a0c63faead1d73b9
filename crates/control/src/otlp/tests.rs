//! An exporter beside a small receiver.

use super::slow::Span;
use super::*;
use crate::logging::events::{Event, KEPT};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

const PATIENCE: Duration = Duration::from_secs(60);

/// A collector that answers one request after another with these lines of status, then with 200. What it got, by path.
fn collector(listener: TcpListener, statuses: &[&str]) -> Receiver<(String, Value)> {
    let (to, got) = channel();
    let statuses: Vec<String> = statuses.iter().map(|one| (*one).to_owned()).collect();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut line) = (Vec::new(), String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                head.push(std::mem::take(&mut line));
            }
            let length = head.iter().find_map(|line| line.strip_prefix("Content-Length: "));
            let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let status = statuses.get(n).map_or("200 OK", String::as_str);
            let answer = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{{}}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            let path = head[0].split(' ').nth(1).unwrap().to_owned();
            if to.send((path, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    got
}

struct Bed {
    events: &'static Events,
    counts: &'static Counts,
    spans: Arc<Spans>,
    exporter: Option<Exporter>,
}

impl Bed {
    fn start(address: SocketAddr) -> Bed {
        // An exporter's live as long as the process.
        let events: &'static Events = Box::leak(Box::new(Events::new()));
        let counts: &'static Counts = Box::leak(Box::default());
        Bed { events, counts, spans: Arc::default(), exporter: None }.export_to(address)
    }

    fn export_to(mut self, address: SocketAddr) -> Bed {
        let at = crate::config::otlp_at(Some(&format!("http://{address}")), None).unwrap().unwrap();
        let (to, got) = channel();
        let watch = move |spans: &Arc<Spans>, _| drop(to.send(spans.clone()));
        let times = (Duration::from_millis(10), Duration::from_millis(20));
        self.exporter = Some(Exporter::begin(&at, self.events, self.counts, times, watch).unwrap());
        self.spans = got.recv().unwrap();
        self
    }

    fn log(&self, level: &str, message: &str) {
        self.events.add(Event {
            unix_ns: 1_764_400_000_123_456_789,
            level: level.to_owned(),
            target: "control::ports".to_owned(),
            message: message.to_owned(),
            fields: BTreeMap::from([("port".to_owned(), "p1".to_owned())]),
            ..Event::default()
        });
    }

    fn counted(&self, signal: usize) -> [u64; 3] {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        [of(&self.counts.sent[signal]), of(&self.counts.dropped[signal]), of(&self.counts.failed)]
    }

    fn until(&self, what: &str, is: impl Fn(&Bed) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is(self) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.counts);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn attributes(of: &Value) -> BTreeMap<String, String> {
    let all = of["attributes"].as_array().unwrap().iter();
    let text = |value: &Value| {
        value.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    };
    all.map(|one| (one["key"].as_str().unwrap().to_owned(), text(&one["value"]))).collect()
}

fn records(body: &Value) -> &Vec<Value> {
    body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap()
}

#[test]
fn logs_and_slow_work_come_to_the_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bed = Bed::start(listener.local_addr().unwrap());
    let got = collector(listener, &[]);
    bed.log("warn", "the link is down");
    let (path, body) = got.recv_timeout(PATIENCE).unwrap();
    assert_eq!(path, "/v1/logs");
    let resource = attributes(&body["resourceLogs"][0]["resource"]);
    assert_eq!(resource["service.name"], "millrace");
    assert_eq!(resource["process.pid"], std::process::id().to_string());
    assert_eq!(resource["service.instance.id"].len(), 32);
    let record = &records(&body)[0];
    assert_eq!(record["body"]["stringValue"], "the link is down");
    assert_eq!((&record["severityNumber"], &record["severityText"]), (&13.into(), &"WARN".into()));
    assert_eq!(record["timeUnixNano"], "1764400000123456789");
    let fields = attributes(record);
    assert_eq!((&*fields["port"], &*fields["code.namespace"]), ("p1", "control::ports"));

    let (start_ns, end_ns) = (1_000_000_000, 1_250_000_000);
    bed.spans.add(Span { bridge: "br7".to_owned(), name: "publication", start_ns, end_ns });
    let (path, body) = got.recv_timeout(PATIENCE).unwrap();
    assert_eq!(path, "/v1/traces");
    let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["name"], "publication");
    assert_eq!(
        (&span["startTimeUnixNano"], &span["endTimeUnixNano"]),
        (&"1000000000".into(), &"1250000000".into())
    );
    assert_eq!(
        (span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()),
        (32, 16)
    );
    assert_eq!(attributes(span)["millrace.bridge"], "br7");
    bed.until("both are counted", |bed| {
        (bed.counted(LOGS), bed.counted(SPANS)) == ([1, 0, 0], [1, 0, 0])
    });
    // What has not been sent yet is sent at the end.
    bed.log("info", "stopping");
    drop(bed);
    assert_eq!(
        records(&got.recv_timeout(PATIENCE).unwrap().1)[0]["body"]["stringValue"],
        "stopping"
    );
}

#[test]
fn a_busy_collector_is_asked_again_and_a_refused_batch_is_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bed = Bed::start(listener.local_addr().unwrap());
    let got = collector(listener, &["503 Busy", "429 Slow down", "200 OK", "400 Bad"]);
    let next = || {
        let (_, body) = got.recv_timeout(PATIENCE).unwrap();
        records(&body)[0]["body"]["stringValue"].as_str().unwrap().to_owned()
    };
    bed.log("info", "first");
    assert_eq!([next(), next(), next()], ["first"; 3]);
    bed.until("it is sent once", |bed| bed.counted(LOGS) == [1, 0, 2]);
    bed.log("info", "second");
    assert_eq!(next(), "second");
    bed.until("it is dropped", |bed| bed.counted(LOGS) == [1, 1, 3]);
    bed.log("info", "third");
    assert_eq!(next(), "third");
    bed.until("others go on", |bed| bed.counted(LOGS) == [2, 1, 3]);
}

#[test]
fn without_a_collector_the_newest_wait_and_the_rest_are_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let bed = Bed::start(address);
    let more = 1000;
    for n in 0..KEPT + more {
        bed.log("info", &n.to_string());
    }
    for n in 0..slow::KEPT + 7 {
        let span = Span {
            bridge: "br0".to_owned(),
            name: "barrier",
            start_ns: n as u64,
            end_ns: n as u64,
        };
        bed.spans.add(span);
    }
    bed.until("it was tried", |bed| bed.counted(LOGS)[2] > 2);
    let got = collector(TcpListener::bind(address).unwrap(), &[]);
    bed.until("all that was kept is sent", |bed| {
        bed.counted(LOGS)[0] == KEPT as u64 && bed.counted(SPANS)[0] == slow::KEPT as u64
    });
    assert_eq!((bed.counted(LOGS)[1], bed.counted(SPANS)[1]), (more as u64, 7));
    let (path, body) = got.recv_timeout(PATIENCE).unwrap();
    assert_eq!((path.as_str(), records(&body).len()), ("/v1/logs", BATCH));
    assert_eq!(records(&body)[0]["body"]["stringValue"], more.to_string());
}
