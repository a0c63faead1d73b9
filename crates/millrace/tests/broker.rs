//! A group and its broker: TLS, certificates, credentials and permissions, with a real server; and confined members.

mod credentials;

use serde_json::Value;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::nats::Nats;
use testkit::running::{PATIENCE, Running};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broker").join(name);
    path.display().to_string()
}

/// The server's part of TLS: clients must show a certificate of its authority.
fn tls(more: &str) -> String {
    format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true{more} }}\n",
        file("server.pem"),
        file("server-key.pem"),
        file("ca.pem")
    )
}

/// A member's part.
fn identity() -> String {
    format!("certificate={} key={}", file("member.pem"), file("member-key.pem"))
}

struct Bed {
    nats: Nats,
    dir: tempfile::TempDir,
    /// Where members listen.
    ports: [u16; 2],
}

impl Bed {
    fn new(server: &str) -> Option<Bed> {
        let nats = Nats::start(Some(server))?;
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (a, b) = (free(), free());
        let ports = [&a, &b].map(|socket| socket.local_addr().unwrap().port());
        Some(Bed { nats, dir: tempfile::tempdir().unwrap(), ports })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn member(&self, name: &str, words: &str, options: &[&str]) -> Running {
        let (own, other) = if name == "a" { (0, 1) } else { (1, 0) };
        let peer = if name == "a" { "b" } else { "a" };
        let settings = format!(
            "group=gw member={name} server=tls://{} listen=127.0.0.1:{} peer={peer}@127.0.0.1:{} interval=50ms misses=20 {words}",
            self.nats.at(),
            self.ports[own],
            self.ports[other]
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args([
            "run",
            "--port",
            &format!("memory:broker-{name}"),
            "--metrics",
            "127.0.0.1:0",
        ]);
        command.args(["--replication", &settings, "--ctl"]).arg(self.path(name)).args(options);
        Running::start(&mut command, "millrace: ready")
    }

    fn ask(&self, name: &str, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(words).arg("--ctl").arg(self.path(name)).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn shown(&self, name: &str) -> Value {
        serde_json::from_str(&self.ask(name, &["replication", "--json"])).unwrap()
    }

    fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.shown(name);
            if is(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline, "{what}: {shown:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// One of both is protected by the other.
    fn protected(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let both = ["a", "b"].map(|name| self.shown(name));
            let is = |one: &Value| {
                one["role"] == "active" && one["protected"] == true && one["engine"] == true
            };
            if both.iter().filter(|one| is(one)).count() == 1 {
                return;
            }
            assert!(Instant::now() < deadline, "{both:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What is told of a fault: by the group, by metrics, and once in the log.
    fn faulty(&self, running: &Running, name: &str, why: &str) {
        let faulty = |shown: &Value| {
            let fault = shown["fault"].as_str().unwrap_or_default();
            fault.contains(why) && shown["faults"].as_u64() > Some(2)
        };
        self.until(name, why, faulty);
        let text = self.ask(name, &["replication"]);
        assert!(text.contains("engine: ") && text.contains(why), "{text}");
        let counted = metric(running, "millrace_replication_engine_faults_total");
        assert!(counted > 2.0, "{counted}");
        let events = self.ask(name, &["events", "--json"]);
        let told = events.lines().filter(|line| line.contains("the engine of the group\"")).count();
        assert_eq!(told, 1, "{events}");
    }
}

fn metric(running: &Running, name: &str) -> f64 {
    use std::io::{Read as _, Write as _};
    let at = running.said.split("metrics:").nth(1).unwrap().split(',').next().unwrap();
    let mut stream = std::net::TcpStream::connect(at.trim()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).unwrap_or(0.0)
}

#[test]
fn members_with_certificates_are_protected_confined_or_not() {
    let Some(bed) = Bed::new(&tls("")) else { return };
    let words = format!("ca={} {}", file("ca.pem"), identity());
    let _a = bed.member("a", &words, &["--confine"]);
    let _b = bed.member("b", &words, &[]);
    assert!(_a.said.contains("msg=\"confined\""), "{}", _a.said);
    bed.protected();
    // A confined member hears that the server is gone, and comes back to it.
    let mut bed = bed;
    bed.nats.down();
    bed.until("a", "it is away", |shown| shown["engine"] == false);
    bed.nats.up();
    bed.protected();
    assert!(bed.shown("a")["fault"].is_null(), "what was wrong is over");
}

#[test]
fn a_server_of_another_authority_is_refused() {
    let Some(bed) = Bed::new(&tls("")) else { return };
    let a = bed.member("a", &format!("ca={} {}", file("other.pem"), identity()), &[]);
    bed.faulty(&a, "a", "ca=, certificate= and key= do not fit the server's");
    assert_eq!(bed.shown("a")["engine"], false);
}

#[test]
fn a_member_without_a_certificate_is_refused_by_the_server() {
    let Some(bed) = Bed::new(&tls("")) else { return };
    let a = bed.member("a", &format!("ca={}", file("ca.pem")), &[]);
    bed.until("a", "it is told", |shown| shown["fault"].is_string());
    assert_eq!(bed.shown("a")["engine"], false);
    drop(a);
}

#[test]
fn who_may_not_publish_is_told_so() {
    let permissions = "authorization { users = [ { user: \"member@millrace.test\", permissions: { publish: { deny: \"millrace.gw\" } } } ] }\n";
    let server = tls(", verify_and_map: true") + permissions;
    let Some(bed) = Bed::new(&server) else { return };
    let a = bed.member("a", &format!("ca={} {}", file("ca.pem"), identity()), &[]);
    bed.faulty(&a, "a", "Permissions Violation for Publish to \"millrace.gw\"");
    assert_eq!(bed.shown("a")["engine"], true);
}

#[test]
fn credentials_open_the_server_and_those_of_another_do_not() {
    let operator = credentials::Operator::new();
    let Some(bed) = Bed::new(&(tls("") + &operator.configuration())) else { return };
    let creds = |name: &str, text: String| {
        let path = bed.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let tls = format!("ca={} {}", file("ca.pem"), identity());
    let good = creds("good.creds", operator.user());
    let _a = bed.member("a", &format!("{tls} credentials={good}"), &[]);
    let b = bed.member("b", &format!("{tls} credentials={good}"), &[]);
    bed.protected();
    drop(b);
    let stranger = creds("stranger.creds", credentials::Operator::new().user());
    let b = bed.member("b", &format!("{tls} credentials={stranger}"), &[]);
    bed.faulty(&b, "b", "authorization violation");
    assert_eq!(bed.shown("b")["engine"], false);
    // No secret is told.
    let secret = std::fs::read_to_string(bed.path("stranger.creds")).unwrap();
    let seed = secret.lines().find(|line| line.starts_with("SU")).unwrap().to_owned();
    let told =
        b.said.clone() + &bed.ask("b", &["events", "--json"]) + &bed.ask("b", &["replication"]);
    assert!(!told.contains(&seed));
}
