//! Against a real `ovsdb-server`. Without one the tests say that they were skipped.

use ovsdb::{Client, Config, Datum, State, Transaction, TransactionError};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

const SCHEMA: &str = r#"{"name": "Test", "version": "1.0.0", "tables": {
    "Root": {"isRoot": true, "maxRows": 1, "columns": {
        "things": {"type": {"key": {"type": "uuid", "refTable": "Thing"}, "min": 0, "max": "unlimited"}},
        "generation": {"type": "integer"}}},
    "Thing": {"columns": {
        "name": {"type": "string"},
        "numbers": {"type": {"key": "integer", "min": 0, "max": "unlimited"}},
        "words": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        "maybe": {"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 9}, "min": 0, "max": 1}}},
        "indexes": [["name"]]}}}"#;

struct Server {
    dir: tempfile::TempDir,
    child: Option<Child>,
}

fn program(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
        .map(|dir| Path::new(dir).join(name))
        .into_iter()
        .find(|path| path.exists())
}

impl Server {
    /// A server of an empty database.
    fn start() -> Option<Server> {
        let Some(tool) = program("ovsdb-tool") else {
            println!("skipped: there is no ovsdb-tool (package openvswitch-common)");
            return None;
        };
        let dir = tempfile::tempdir().expect("a folder");
        let (schema, db) = (dir.path().join("schema"), dir.path().join("db"));
        std::fs::write(&schema, SCHEMA).expect("a schema");
        let made = Command::new(tool).arg("create").args([&db, &schema]).status();
        assert!(made.expect("ovsdb-tool").success());
        let mut server = Server { dir, child: None };
        server.restart();
        Some(server)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a running server");
            child.wait().expect("an end");
        }
    }

    fn restart(&mut self) {
        self.kill();
        let dir = self.dir.path();
        let child = Command::new(program("ovsdb-server").expect("ovsdb-server beside ovsdb-tool"))
            .arg(format!("--remote=punix:{}", self.socket().display()))
            .arg(format!("--unixctl={}", dir.join("ctl").display()))
            .arg("--no-chdir")
            .arg(dir.join("db"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("ovsdb-server starts"));
    }

    fn config(&self) -> Config {
        let remote = format!("unix:{}", self.socket().display()).parse().expect("a remote");
        Config::new(remote, "Test")
            .follow("Root", ["things", "generation"])
            .follow("Thing", ["name", "numbers", "words", "maybe"])
    }

    fn client(&self) -> Client {
        Client::start(self.config()).expect("a thread")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn up(client: &Client) -> State {
    let state = client.wait_until(SOON, |state| state.connected);
    assert!(state.connected, "{state:?}");
    state
}

fn names(state: &State) -> Vec<String> {
    let database = state.database.as_ref().expect("a replica");
    let mut names: Vec<String> = database
        .rows("Thing")
        .map(|(_, row)| row.text("name").expect("a name").to_owned())
        .collect();
    names.sort();
    names
}

/// A root with these things.
fn insert(client: &Client, things: &[&str]) {
    let mut transaction = Transaction::new();
    let rows: Vec<_> = things
        .iter()
        .map(|name| transaction.insert("Thing", [("name", Datum::from(*name))]))
        .collect();
    transaction.insert("Root", [("things", Datum::set(rows)), ("generation", Datum::from(1))]);
    let outcome = client.transact(transaction).expect("sent").wait(SOON).expect("done");
    assert!(outcome.results.iter().all(|done| done.uuid.is_some()));
}

#[test]
fn what_a_transaction_does_is_in_the_replica_when_its_answer_comes() {
    let Some(server) = Server::start() else { return };
    let (client, other) = (server.client(), server.client());
    assert!(up(&client).database.expect("a replica").is_empty());
    up(&other);
    insert(&client, &["a", "b"]);
    let before = client.state();
    assert_eq!(names(&before), ["a", "b"]);
    let database = before.database.as_ref().expect("a replica");
    let (a, row) =
        database.rows("Thing").find(|(_, row)| row.text("name") == Some("a")).expect("a");
    assert_eq!(row.get("numbers"), Some(&Datum::empty()));
    assert_eq!(row.get("words"), Some(&Datum::Map(Default::default())));
    let (root, _) = database.only("Root").expect("a root");
    // Differences of sets, maps and single values, and a row that goes when nobody refers to it.
    let steps: [&[(&str, Datum)]; 3] = [
        &[("numbers", Datum::set([1, 2, 3])), ("words", Datum::map([("k", "v"), ("l", "w")]))],
        &[("numbers", Datum::set([3, 4])), ("words", Datum::map([("k", "x"), ("m", "y")]))],
        &[("maybe", Datum::from(7)), ("name", Datum::from("A"))],
    ];
    for columns in steps {
        let mut transaction = Transaction::new();
        transaction.update("Thing", a, columns.iter().cloned());
        client.transact(transaction).expect("sent").wait(SOON).expect("done");
        let state = client.state();
        let row = state.database.as_ref().expect("a replica").row("Thing", a).expect("a").clone();
        for (column, datum) in columns {
            assert_eq!(row.get(column), Some(datum), "{column}");
        }
    }
    let mut transaction = Transaction::new();
    transaction.update("Root", root, [("things", Datum::from(a))]);
    client.transact(transaction).expect("sent").wait(SOON).expect("done");
    assert_eq!(names(&client.state()), ["A"]);
    // Another client sees the same state.
    let wanted = client.state().database;
    let seen = other.wait_until(SOON, |state| state.database == wanted);
    assert_eq!(seen.database, wanted);
}

#[test]
fn a_refused_transaction_tells_which_operation_and_why() {
    let Some(server) = Server::start() else { return };
    let client = server.client();
    up(&client);
    insert(&client, &["a"]);
    let refused = |transaction: Transaction| {
        client.transact(transaction).expect("sent").wait(SOON).expect_err("refused")
    };
    let state = client.state();
    let (root, _) = state.database.as_ref().expect("a replica").only("Root").expect("a root");
    // A value out of bounds, an unknown column, a condition that does not hold, a lock that is not held.
    let (thing, _) = state.database.as_ref().expect("a replica").only("Thing").expect("a thing");
    let mut transaction = Transaction::new();
    transaction.comment("first");
    transaction.update("Thing", thing, [("maybe", Datum::from(10))]);
    let TransactionError::Refused { operation, error, .. } = refused(transaction) else {
        panic!("not refused by the server")
    };
    assert_eq!((operation, error.as_str()), (1, "constraint violation"));
    let mut transaction = Transaction::new();
    transaction.update("Thing", thing, [("colour", Datum::from("red"))]);
    assert!(refused(transaction).to_string().contains("colour"));
    let mut transaction = Transaction::new();
    transaction.expect("Root", root, [("generation", Datum::from(2))]);
    transaction.update("Root", root, [("generation", Datum::from(3))]);
    assert!(refused(transaction).to_string().contains("timed out"));
    let mut transaction = Transaction::new();
    transaction.assert("l");
    assert!(refused(transaction).to_string().contains("not owner"));
    // An index that two rows share is found at the commit, behind all operations.
    let mut transaction = Transaction::new();
    let second = transaction.insert("Thing", [("name", Datum::from("a"))]);
    let things = Datum::set([ovsdb::Atom::Uuid(thing), second]);
    transaction.update("Root", root, [("things", things)]);
    let TransactionError::Refused { operation, .. } = refused(transaction) else {
        panic!("not refused by the server")
    };
    assert_eq!(operation, 2);
    assert_eq!(client.state().database, state.database);
}

#[test]
fn a_client_comes_back_when_its_server_does_and_keeps_what_it_knew() {
    let Some(mut server) = Server::start() else { return };
    let client = server.client();
    up(&client);
    insert(&client, &["a"]);
    server.kill();
    let state = client.wait_until(SOON, |state| !state.connected);
    assert_eq!(names(&state), ["a"], "what was known stays");
    assert!(state.error.is_some());
    let error = client.transact(Transaction::new()).err().expect("nothing is sent");
    assert!(matches!(error, TransactionError::NotConnected(_)), "{error}");
    server.restart();
    let state = client.wait_until(SOON, |state| state.connected && state.sessions == 2);
    assert_eq!((names(&state), state.sessions, state.error), (vec!["a".to_owned()], 2, None));
}

#[test]
fn one_client_at_a_time_has_a_lock() {
    let Some(server) = Server::start() else { return };
    let with_lock = |server: &Server| {
        let mut config = server.config();
        config.lock = Some("worker".to_owned());
        Client::start(config).expect("a thread")
    };
    let first = with_lock(&server);
    assert!(first.wait_until(SOON, |state| state.locked).locked);
    let second = with_lock(&server);
    assert!(!up(&second).locked);
    let mut transaction = Transaction::new();
    transaction.assert("worker");
    first.transact(transaction.clone()).expect("sent").wait(SOON).expect("it has the lock");
    second.transact(transaction).expect("sent").wait(SOON).expect_err("it has not");
    drop(first);
    assert!(second.wait_until(SOON, |state| state.locked).locked);
}

#[test]
fn columns_that_the_schema_lacks_are_told_and_the_others_followed() {
    let Some(server) = Server::start() else { return };
    let config = server.config().follow("Thing", ["colour"]).follow("Wheel", ["radius"]);
    let client = Client::start(config).expect("a thread");
    let state = up(&client);
    assert_eq!(*state.missing, ["Thing.colour", "Wheel"]);
    insert(&client, &["a"]);
    assert_eq!(names(&client.state()), ["a"]);
}

#[test]
fn thousands_of_rows_come_and_go() {
    let Some(server) = Server::start() else { return };
    let client = server.client();
    up(&client);
    let things: Vec<String> = (0..4000).map(|n| format!("thing{n}")).collect();
    insert(&client, &things.iter().map(String::as_str).collect::<Vec<_>>());
    let late = server.client();
    assert_eq!(names(&up(&late)).len(), 4000);
    let before = late.state();
    let (root, _) = before.database.as_ref().expect("a replica").only("Root").expect("a root");
    let mut transaction = Transaction::new();
    transaction.update("Root", root, [("things", Datum::empty())]);
    client.transact(transaction).expect("sent").wait(SOON).expect("done");
    let state = late.wait_until(SOON, |state| names(state).is_empty());
    let changes = state.database.as_ref().expect("a replica");
    let changes = changes.changes(before.database.as_ref().expect("a replica"));
    assert_eq!(changes.len(), 4001, "4,000 things and the root");
}

#[test]
fn a_database_that_is_not_there_is_told_and_waited_for() {
    let Some(server) = Server::start() else { return };
    let config = Config { database: "Other".to_owned(), ..server.config() };
    let client = Client::start(config).expect("a thread");
    let state = client.wait_until(SOON, |state| state.attempts > 1);
    let error = state.error.expect("an error");
    assert!(error.starts_with("get_schema: the server answers unknown database"), "{error}");
    let began = Instant::now();
    drop(client);
    assert!(began.elapsed() < Duration::from_secs(5), "a client ends at once");
}

#[test]
fn a_server_is_followed_by_tls() {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let (Some(mut server), Some(openssl)) = (Server::start(), program("openssl")) else {
        println!("skipped: there is no ovsdb-tool or no openssl");
        return;
    };
    server.kill();
    let (key, cert) = (server.dir.path().join("key.pem"), server.dir.path().join("cert.pem"));
    let made = Command::new(openssl)
        .args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(' '),
        )
        .args(["-subj", "/CN=ovsdb", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("openssl").success());
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
    let port = port.expect("an address").port();
    let child = Command::new(program("ovsdb-server").expect("ovsdb-server beside ovsdb-tool"))
        .arg(format!("--remote=pssl:{port}:127.0.0.1"))
        .arg(format!("--private-key={}", key.display()))
        .arg(format!("--certificate={}", cert.display()))
        .args(["--ca-cert=none", "--no-chdir"])
        .arg(format!("--unixctl={}", server.dir.path().join("ctl").display()))
        .arg(server.dir.path().join("db"))
        .stderr(Stdio::null())
        .spawn();
    server.child = Some(child.expect("ovsdb-server starts"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&cert).expect("a certificate")).expect("a root");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let remote = format!("ssl:127.0.0.1:{port}").parse().expect("a remote");
    let config = Config { remote, tls: Some(std::sync::Arc::new(tls)), ..server.config() };
    let without = Client::start(Config { tls: None, ..config.clone() }).expect("a thread");
    let client = Client::start(config).expect("a thread");
    up(&client);
    insert(&client, &["a"]);
    assert_eq!(names(&client.state()), ["a"]);
    let error = without.wait_until(SOON, |state| state.error.is_some()).error.expect("an error");
    assert!(error.contains("needs keys: a private key, a certificate"), "{error}");
}
