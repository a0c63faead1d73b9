//! A group and its broker: TLS, certificates, credentials and permissions, with a real server; and confined members.

mod credentials;

mod pair;

use pair::Pair;
use serde_json::Value;
use std::path::Path;
use testkit::running::Running;

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

struct Bed(Pair);

impl Bed {
    fn new(server: &str) -> Option<Bed> {
        Pair::new("tls", Some(server)).map(Bed)
    }

    fn ask(&self, name: &str, words: &[&str]) -> String {
        let output = self.0.ask(name, words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) {
        self.0.until(what, || is(&self.0.shown(name)));
    }

    /// One of both is protected by the other.
    fn protected(&self) {
        let is = |name: &str| {
            let one = self.0.shown(name);
            one["role"] == "active" && one["protected"] == true && one["engine"] == true
        };
        self.0.until("one of both is protected", || is("a") != is("b"));
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
        let counted = running.metric("millrace_replication_engine_faults_total").unwrap();
        assert!(counted > 2.0, "{counted}");
        let events = self.ask(name, &["events", "--json"]);
        let told = events.lines().filter(|line| line.contains("the engine of the group\"")).count();
        assert_eq!(told, 1, "{events}");
    }
}

#[test]
fn members_with_certificates_are_protected_confined_or_not() {
    let Some(bed) = Bed::new(&tls("")) else { return };
    let words = format!("ca={} {}", file("ca.pem"), identity());
    let _a = bed.0.member("a", &words, &["--confine"]);
    let _b = bed.0.member("b", &words, &[]);
    assert!(_a.said.contains("msg=\"confined\""), "{}", _a.said);
    bed.protected();
    // A confined member hears that the server is gone, and comes back to it.
    let mut bed = bed;
    bed.0.nats.down();
    bed.until("a", "it is away", |shown| shown["engine"] == false);
    bed.0.nats.up();
    bed.protected();
    assert!(bed.0.shown("a")["fault"].is_null(), "what was wrong is over");
}

#[test]
fn a_server_of_another_authority_is_refused() {
    let Some(bed) = Bed::new(&tls("")) else { return };
    let a = bed.0.member("a", &format!("ca={} {}", file("other.pem"), identity()), &[]);
    bed.faulty(&a, "a", "ca=, certificate= and key= do not fit the server's");
    assert_eq!(bed.0.shown("a")["engine"], false);
}

#[test]
fn a_member_without_a_certificate_is_refused_by_the_server() {
    let Some(bed) = Bed::new(&tls("")) else { return };
    let a = bed.0.member("a", &format!("ca={}", file("ca.pem")), &[]);
    bed.until("a", "it is told", |shown| shown["fault"].is_string());
    assert_eq!(bed.0.shown("a")["engine"], false);
    drop(a);
}

#[test]
fn who_may_not_publish_is_told_so() {
    let permissions = "authorization { users = [ { user: \"member@millrace.test\", permissions: { publish: { deny: \"millrace.gw\" } } } ] }\n";
    let server = tls(", verify_and_map: true") + permissions;
    let Some(bed) = Bed::new(&server) else { return };
    let a = bed.0.member("a", &format!("ca={} {}", file("ca.pem"), identity()), &[]);
    bed.faulty(&a, "a", "Permissions Violation for Publish to \"millrace.gw\"");
    assert_eq!(bed.0.shown("a")["engine"], true);
}

#[test]
fn credentials_open_the_server_and_those_of_another_do_not() {
    let operator = credentials::Operator::new();
    let Some(bed) = Bed::new(&(tls("") + &operator.configuration())) else { return };
    let creds = |name: &str, text: String| {
        let path = bed.0.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let tls = format!("ca={} {}", file("ca.pem"), identity());
    let good = creds("good.creds", operator.user());
    let _a = bed.0.member("a", &format!("{tls} credentials={good}"), &[]);
    let b = bed.0.member("b", &format!("{tls} credentials={good}"), &[]);
    bed.protected();
    drop(b);
    let stranger = creds("stranger.creds", credentials::Operator::new().user());
    let b = bed.0.member("b", &format!("{tls} credentials={stranger}"), &[]);
    bed.faulty(&b, "b", "authorization violation");
    assert_eq!(bed.0.shown("b")["engine"], false);
    // No secret is told.
    let secret = std::fs::read_to_string(bed.0.path("stranger.creds")).unwrap();
    let seed = secret.lines().find(|line| line.starts_with("SU")).unwrap().to_owned();
    let told =
        b.said.clone() + &bed.ask("b", &["events", "--json"]) + &bed.ask("b", &["replication"]);
    assert!(!told.contains(&seed));
}
