//! Against a server that plays older ones and breaks off.

use ovsdb::message::{Frames, Message};
use ovsdb::{Client, Config, State, Transaction, TransactionError};
use serde_json::{Value as Json, json};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
const ROW: &str = "00000000-0000-0000-0000-000000000001";

/// What a server answers to a request: a result, an error, nothing, or that it breaks off.
enum Answer {
    Result(Json),
    Error(Json),
    Silence,
    Close,
}

fn schema() -> Answer {
    let columns = json!({"name": {"type": "string"}});
    Answer::Result(json!({"name": "T", "version": "1.0.0", "tables": {"T": {"columns": columns}}}))
}

fn unknown() -> Answer {
    Answer::Error(json!("unknown method"))
}

/// One end of a connection that a client made.
struct Peer {
    stream: UnixStream,
    frames: Frames,
}

impl Peer {
    fn tell(&mut self, message: &Message) {
        // The client may be gone.
        drop(self.stream.write_all(&message.to_bytes()));
    }

    fn notify(&mut self, method: &str, params: Json) {
        let params = params.as_array().cloned().expect("an array");
        self.tell(&Message::Notification { method: method.to_owned(), params });
    }

    fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(json) = self.frames.take().expect("JSON") {
                return Some(Message::of_json(json).expect("a message"));
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.frames.push(&buffer[..count]),
            }
        }
    }
}

/// Serves one client after another until the test ends; methods that were asked for are told.
fn serve(
    dir: &std::path::Path,
    mut answer: impl FnMut(&mut Peer, &str, &[Json]) -> Answer + Send + 'static,
) -> (Config, Receiver<String>) {
    let path = dir.join("sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let (sender, asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut peer = Peer { stream: stream.expect("a client"), frames: Frames::default() };
            while let Some(message) = peer.next() {
                let Message::Request { method, params, id } = message else { continue };
                drop(sender.send(method.clone()));
                match answer(&mut peer, &method, &params) {
                    Answer::Result(result) => {
                        peer.tell(&Message::Response { result: Ok(result), id })
                    }
                    Answer::Error(error) => {
                        peer.tell(&Message::Response { result: Err(error), id })
                    }
                    Answer::Silence => {}
                    Answer::Close => break,
                }
            }
        }
    });
    let remote = format!("unix:{}", path.display()).parse().expect("a remote");
    (Config::new(remote, "T").follow("T", ["name"]), asked)
}

fn name(state: &State) -> Option<String> {
    let (_, row) = state.database.as_ref()?.only("T")?;
    row.text("name").map(str::to_owned)
}

#[test]
fn a_server_of_rfc_7047_alone_is_followed_by_monitor() {
    let dir = tempfile::tempdir().expect("a folder");
    let (config, asked) = serve(dir.path(), |peer, method, _| match method {
        "get_schema" => schema(),
        "monitor" => Answer::Result(json!({"T": {ROW: {"new": {"name": "a"}}}})),
        "transact" => {
            let change = json!({"old": {"name": "a"}, "new": {"name": "b"}});
            peer.notify("update", json!(["millrace", {"T": {ROW: change}}]));
            Answer::Result(json!([{}]))
        }
        _ => unknown(),
    });
    let client = Client::start(config).expect("a thread");
    let state = client.wait_until(SOON, |state| state.connected);
    assert_eq!(name(&state).as_deref(), Some("a"));
    let methods: Vec<String> = asked.try_iter().collect();
    let wanted =
        ["set_db_change_aware", "get_schema", "monitor_cond_since", "monitor_cond", "monitor"];
    assert_eq!(methods, wanted);
    let mut transaction = Transaction::new();
    transaction.comment("x");
    client.transact(transaction).expect("sent").wait(SOON).expect("done");
    assert_eq!(name(&client.state()).as_deref(), Some("b"));
}

#[test]
fn after_a_lost_connection_only_what_has_changed_is_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut sessions = 0;
    let (config, _asked) = serve(dir.path(), move |peer, method, params| match method {
        "get_schema" => schema(),
        "monitor_cond_since" => {
            sessions += 1;
            let last = params[3].as_str().expect("a transaction");
            let update = match sessions {
                1 => {
                    assert_eq!(last, "00000000-0000-0000-0000-000000000000");
                    json!([false, "t1", {"T": {ROW: {"initial": {"name": "a"}}}}])
                }
                _ => {
                    assert_eq!(last, "t2");
                    json!([true, "t3", {"T": {ROW: {"modify": {"name": "c"}}}}])
                }
            };
            Answer::Result(update)
        }
        "transact" => {
            let change = json!({"T": {ROW: {"modify": {"name": "b"}}}});
            peer.notify("update3", json!(["millrace", "t2", change]));
            Answer::Close
        }
        _ => unknown(),
    });
    let client = Client::start(config).expect("a thread");
    client.wait_until(SOON, |state| state.connected);
    let mut transaction = Transaction::new();
    transaction.comment("x");
    let lost = client.transact(transaction).expect("sent").wait(SOON);
    assert_eq!(lost, Err(TransactionError::Lost));
    let state = client.wait_until(SOON, |state| state.connected && state.sessions == 2);
    assert_eq!(name(&state).as_deref(), Some("c"));
}

#[test]
fn an_update_that_does_not_fit_makes_the_client_ask_for_everything() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut sessions = 0;
    let (config, _asked) = serve(dir.path(), move |peer, method, params| match method {
        "get_schema" => schema(),
        "monitor_cond_since" => {
            sessions += 1;
            assert_eq!(params[3], json!("00000000-0000-0000-0000-000000000000"));
            if sessions == 1 {
                return Answer::Result(json!([false, "t1", {}]));
            }
            let _ = &peer;
            Answer::Result(json!([false, "t2", {"T": {ROW: {"initial": {"name": "a"}}}}]))
        }
        "transact" => {
            let nonsense = json!({"T": {ROW: {"modify": {"name": "b"}}}});
            peer.notify("update3", json!(["millrace", "t9", nonsense]));
            Answer::Silence
        }
        _ => unknown(),
    });
    let client = Client::start(config).expect("a thread");
    client.wait_until(SOON, |state| state.connected);
    let mut transaction = Transaction::new();
    transaction.comment("x");
    let lost = client.transact(transaction).expect("sent").wait(SOON);
    assert_eq!(lost, Err(TransactionError::Lost));
    let state = client.wait_until(SOON, |state| state.sessions == 2 && state.connected);
    assert_eq!((name(&state).as_deref(), state.resyncs), (Some("a"), 1));
}

#[test]
fn a_server_that_is_silent_is_given_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut config, _asked) = serve(dir.path(), |_, method, _| match method {
        "get_schema" => schema(),
        "monitor_cond_since" => Answer::Result(json!([false, "t1", {}])),
        "echo" => Answer::Silence,
        _ => unknown(),
    });
    config.probe = Duration::from_millis(100);
    let client = Client::start(config).expect("a thread");
    client.wait_until(SOON, |state| state.connected);
    let state = client.wait_until(SOON, |state| !state.connected && state.error.is_some());
    assert_eq!(state.error.as_deref(), Some("echo: no answer within 100ms"));
}

#[test]
fn a_server_that_never_answers_the_handshake_is_given_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut config, _asked) = serve(dir.path(), |_, _, _| Answer::Silence);
    config.answer_max = Duration::from_millis(100);
    let client = Client::start(config).expect("a thread");
    let state = client.wait_until(SOON, |state| state.error.is_some());
    let error = state.error.expect("an error");
    assert_eq!(error, "set_db_change_aware: no answer within 100ms");
}

#[test]
fn a_server_that_asks_is_answered_and_one_that_sends_nonsense_is_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let (sender, heard) = channel();
    let (config, _asked) = serve(dir.path(), move |peer, method, _| match method {
        "get_schema" => {
            for method in ["echo", "steal"] {
                let (params, id) = (vec![json!(1)], json!("s"));
                peer.tell(&Message::Request { method: method.to_owned(), params, id });
                drop(sender.send(peer.next()));
            }
            peer.stream.write_all(b"nonsense").expect("a client");
            Answer::Silence
        }
        _ => unknown(),
    });
    let client = Client::start(config).expect("a thread");
    let answer = |result| Some(Message::Response { result, id: json!("s") });
    assert_eq!(heard.recv_timeout(SOON).expect("an answer"), answer(Ok(json!([1]))));
    assert_eq!(heard.recv_timeout(SOON).expect("an answer"), answer(Err(json!("unknown method"))));
    let state = client.wait_until(SOON, |state| state.error.is_some());
    let error = state.error.expect("an error");
    assert!(error.contains("an opening brace was expected"), "{error}");
}
