//! A fleet whose configuration lies in the store of a real broker: applied, refused, confirmed, taken back, and started from its copy.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::nats::Nats;
use testkit::running::{PATIENCE, Running};

struct Bed {
    nats: Nats,
    dir: tempfile::TempDir,
}

impl Bed {
    fn new() -> Option<Bed> {
        let nats = Nats::start(None)?;
        Some(Bed { nats, dir: tempfile::tempdir().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn store(&self) -> String {
        format!("nats://{}/gw", self.nats.at())
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.path("fleet.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, member: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let cache = self.path(&format!("{member}.cache"));
        let place = format!("{} member={member} cache={}", self.store(), cache.display());
        command.args(["run", "--config", &place, "--ctl"]);
        command.arg(self.path(&format!("{member}.ctl"))).args(more);
        command
    }

    fn member(&self, member: &str) -> Running {
        Running::start(&mut self.command(member, &[]), "millrace: ready")
    }

    fn config(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.arg("config").args(words).args(["--to", &self.store()]);
        command.stdin(Stdio::null()).output().expect("it was built for this test")
    }

    fn apply(&self, text: &str, more: &[&str]) -> (bool, String) {
        let file = self.file(text).display().to_string();
        told(&self.config(&[&["apply", &file], more].concat()))
    }

    fn status(&self) -> Value {
        let output = self.config(&["status", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one object")
    }

    fn of(&self, member: &str) -> Value {
        let status = self.status();
        let members = status["members"].as_array().unwrap();
        members.iter().find(|one| one["member"] == member).cloned().unwrap_or_default()
    }

    fn ask(&self, member: &str, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(words).arg("--ctl").arg(self.path(&format!("{member}.ctl")));
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Names of a member's ports.
    fn ports(&self, member: &str) -> Vec<String> {
        let output = self.ask(member, &["port", "show", "--json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).expect("one object");
        let mut names = Vec::new();
        collect(&shown, &mut names);
        names.sort();
        names
    }

    fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is() {
            assert!(Instant::now() < deadline, "{what}: {:#}", self.status());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Names of ports, wherever they are in an answer.
fn collect(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let (Some(Value::String(name)), Some(_)) = (fields.get("name"), fields.get("number"))
            {
                names.push(name.clone());
            }
            fields.values().for_each(|value| collect(value, names));
        }
        Value::Array(all) => all.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

fn told(output: &Output) -> (bool, String) {
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn stop(running: Running) {
    let pid = rustix::process::Pid::from_raw(running.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.ended(), Some(0));
}

const ONE: &str = "port = [\"p1=memory:fleet-1\"]\n";
const TWO: &str = "port = [\"p1=memory:fleet-1\", \"p2=memory:fleet-2\"]\n\n[member.b]\nport = [\"q1=memory:fleet-3\"]\n";

#[test]
fn members_apply_what_is_written_each_its_own_and_say_so() {
    let Some(bed) = Bed::new() else { return };
    // Nobody is there yet: it is written, and nobody has it.
    let (done, text) = bed.apply(ONE, &["--wait", "1"]);
    assert!(!done && text.contains("no member has said anything"), "{text}");
    let (_a, _b) = (bed.member("a"), bed.member("b"));
    bed.until("both run it", || bed.of("a")["running"] == 1 && bed.of("b")["running"] == 1);
    let (done, text) = bed.apply(TWO, &[]);
    assert!(done && text.contains("2 of 2 members have version 2"), "{text}");
    assert!(text.contains("a: version 2 applied, digest "), "{text}");
    assert_eq!(
        (bed.ports("a"), bed.ports("b")),
        (vec!["p1".to_owned(), "p2".to_owned()], vec!["q1".to_owned()])
    );
    assert_eq!(bed.of("a")["digest"], bed.of("b")["digest"]);
    // Nobody changes it beside the store.
    let file = bed.path("fleet.toml").display().to_string();
    for words in [&["config", "apply", &file][..], &["config", "rollback"], &["config", "confirm"]]
    {
        let (done, text) = told(&bed.ask("a", words));
        assert!(!done && text.contains("comes from a fleet's store: add --to nats://"), "{text}");
    }
    // One refuses: it goes on with what it has, and the other one has it.
    let bad = TWO.replace("q1=memory:fleet-3", "q1=pcap:rx=/nonexistent/none.pcap");
    let (done, text) = bed.apply(&bad, &[]);
    assert!(
        !done && text.contains("b: version 3 refused: ") && text.contains("runs version 2"),
        "{text}"
    );
    assert!(text.contains("none.pcap") && text.contains("1 of 2 members have version 3"), "{text}");
    assert_eq!(bed.ports("b"), ["q1"]);
    let refused = std::fs::read_to_string(bed.path("b.cache/refused.toml")).unwrap();
    assert!(refused.contains("none.pcap"), "{refused}");
    // What is no configuration is refused before it is written.
    let (done, text) = bed.apply("[member.a]\nprot = []\n", &[]);
    assert!(!done && text.contains("member a: unknown field `prot`"), "{text}");
    assert_eq!(bed.status()["version"], 3);
    // What differs, what was, and back.
    let (_, text) = told(&bed.config(&["plan", &bed.file(TWO).display().to_string()]));
    assert_eq!(
        text,
        "- port = [\"q1=pcap:rx=/nonexistent/none.pcap\"]\n+ port = [\"q1=memory:fleet-3\"]\n"
    );
    let (done, text) = told(&bed.config(&["rollback"]));
    assert!(done && text.contains("2 of 2 members have version 4"), "{text}");
    let (_, text) = told(&bed.config(&["show"]));
    assert_eq!(text, TWO);
    let (_, text) = told(&bed.config(&["show", "1"]));
    assert_eq!(text, ONE);
    let (_, text) = told(&bed.config(&["history"]));
    let numbers: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(numbers, ["1", "2", "3", "4"], "{text}");
    // A member that is no more.
    drop(_b);
    let (done, _) = told(&bed.config(&["forget", "b"]));
    assert!(done && bed.of("b").is_null());
}

#[test]
fn what_nobody_confirms_is_taken_back_and_a_start_does_not_take_it() {
    let Some(bed) = Bed::new() else { return };
    bed.apply(ONE, &["--wait", "0"]);
    let _a = bed.member("a");
    let (done, text) = bed.apply(TWO, &["--confirm-within", "3"]);
    assert!(done && text.contains("waits for confirmation"), "{text}");
    assert_eq!(bed.ports("a"), ["p1", "p2"]);
    let (done, text) = bed.apply(ONE, &[]);
    assert!(!done && text.contains("version 2 waits for confirmation"), "{text}");
    // Who starts meanwhile takes what stands.
    let c = bed.member("c");
    assert!(c.said.contains("listening"), "{}", c.said);
    bed.until("it is taken back", || {
        bed.of("a")["outcome"] == "lapsed" && bed.of("a")["running"] == 1
    });
    assert_eq!(bed.ports("a"), ["p1"]);
    let (done, text) = told(&bed.config(&["confirm"]));
    assert!(!done && text.contains("not confirmed in time"), "{text}");
    let status = bed.status();
    assert_eq!((&status["version"], &status["stands"]), (&2.into(), &1.into()));
    let d = bed.member("d");
    assert_eq!(bed.ports("d"), ["p1"], "what was not confirmed is not taken");
    drop((c, d));
    for member in ["c", "d"] {
        bed.config(&["forget", member]);
    }
    // And what somebody confirms stays, also over a restart.
    let (done, _) = bed.apply(TWO, &["--confirm-within", "60"]);
    assert!(done);
    let (done, text) = told(&bed.config(&["confirm"]));
    assert!(done && text.contains("1 of 1 members have version 3\n"), "{text}");
    assert_eq!(bed.of("a")["outcome"], "applied");
    stop(_a);
    let _a = bed.member("a");
    assert_eq!(bed.ports("a"), ["p1", "p2"]);
    // What waits is taken back by hand.
    let (done, _) = bed.apply(ONE, &["--confirm-within", "60"]);
    assert!(done && bed.ports("a") == ["p1"]);
    let (done, text) = told(&bed.config(&["rollback"]));
    assert!(done && bed.ports("a") == ["p1", "p2"], "{text}");
}

#[test]
fn a_member_starts_from_its_copy_where_the_store_is_away() {
    let Some(mut bed) = Bed::new() else { return };
    bed.apply(TWO, &["--wait", "0"]);
    let a = bed.member("a");
    stop(a);
    bed.nats.down();
    let a = bed.member("a");
    assert!(a.said.contains("starts with its copy of version 1"), "{}", a.said);
    assert_eq!(bed.ports("a"), ["p1", "p2"]);
    let events = told(&bed.ask("a", &["events"])).1;
    bed.nats.up();
    bed.until("it is there again", || bed.of("a")["running"] == 1);
    let (done, text) = bed.apply(ONE, &[]);
    assert!(done, "{text}");
    assert_eq!(bed.ports("a"), ["p1"]);
    // The store goes away while it runs: said once, and packets go on.
    bed.nats.down();
    let away = |bed: &Bed| {
        let told = told(&bed.ask("a", &["events"])).1;
        told.matches("the fleet's store is away").count()
            - events.matches("the fleet's store is away").count()
    };
    let deadline = Instant::now() + PATIENCE;
    while away(&bed) == 0 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(away(&bed), 1, "once, though it is tried ten times a second");
    assert_eq!(bed.ports("a"), ["p1"]);
    bed.nats.up();
    let (done, text) = bed.apply(TWO, &[]);
    assert!(done, "it has followed the store again: {text}");
    stop(a);
}

#[test]
fn what_needs_a_restart_is_said_and_taken_by_one() {
    let Some(bed) = Bed::new() else { return };
    bed.apply(ONE, &["--wait", "0"]);
    let a = bed.member("a");
    let (done, text) = bed.apply(&format!("workers = 2\n{ONE}"), &[]);
    assert!(
        !done && text.contains("version 2 waits for a restart: --workers change with a restart"),
        "{text}"
    );
    assert_eq!(bed.of("a")["running"], 1);
    stop(a);
    let a = bed.member("a");
    bed.until("it runs it", || bed.of("a")["running"] == 2);
    // A version with which no switch starts: the next start takes the last good one, and says why.
    let bad = "workers = 2\nengine = \"interp\"\nport = [\"p1=pcap:rx=/nonexistent/none.pcap\"]\n";
    let (done, _) = bed.apply(bad, &[]);
    assert!(!done);
    stop(a);
    let failed = bed.command("a", &[]).stdin(Stdio::null()).output().unwrap();
    let (done, text) = told(&failed);
    assert!(
        !done
            && text.contains(
                "version 3 of the configuration is refused; the next start takes version 2"
            ),
        "{text}"
    );
    let a = bed.member("a");
    assert!(a.said.contains("starts with its copy of version 2"), "{}", a.said);
    bed.until("it says so", || bed.of("a")["outcome"] == "refused" && bed.of("a")["version"] == 3);
    assert!(bed.of("a")["error"].as_str().unwrap().contains("none.pcap"));
    stop(a);
}

#[test]
fn who_has_no_configuration_waits_for_one_and_is_confined_by_it() {
    let Some(bed) = Bed::new() else { return };
    let mut command = bed.command("a", &["--confine"]);
    let file = bed.file(TWO).display().to_string();
    let store = bed.store();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        told(&command.args(["config", "apply", &file, "--to", &store]).output().unwrap())
    });
    let a = Running::start(&mut command, "millrace: ready");
    assert!(
        a.said.contains("waits for a configuration: ") && a.said.contains("msg=\"confined\""),
        "{}",
        a.said
    );
    assert_eq!(a.said.matches("waits for a configuration").count(), 1);
    let (done, text) = later.join().unwrap();
    assert!(done, "{text}");
    let (done, text) = bed.apply(ONE, &[]);
    assert!(done && bed.ports("a") == ["p1"], "{text}");
    let folder = bed.path("a.cache");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(folder).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    stop(a);
}

#[test]
fn no_two_versions_have_one_number() {
    let Some(bed) = Bed::new() else { return };
    let write = |n: usize| {
        let file = bed.path(&format!("{n}.toml"));
        std::fs::write(&file, format!("# {n}\n{ONE}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.arg("config").arg("apply").arg(file).args(["--wait", "0", "--to", &bed.store()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<_> = (0..12).map(write).collect();
    let mut raced = 0;
    for one in all {
        let (_, text) = told(&one.wait_with_output().unwrap());
        raced += usize::from(text.contains("somebody else has written a version at the same time"));
    }
    let history = bed.config(&["history", "--json"]);
    let history: Value = serde_json::from_slice(&history.stdout).unwrap();
    let versions = history["versions"].as_array().unwrap();
    let numbers: Vec<u64> = versions.iter().map(|one| one["version"].as_u64().unwrap()).collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected);
    assert_eq!(numbers.len() + raced, 12, "each is written with a number of its own, or refused");
}

#[test]
fn members_of_a_group_with_different_versions_do_not_take_over() {
    let Some(bed) = Bed::new() else { return };
    let free = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (at_a, at_b) = (free(), free());
    let [port_a, port_b] = [&at_a, &at_b].map(|socket| socket.local_addr().unwrap().port());
    drop((at_a, at_b));
    let text = |bad: &str| {
        let server = bed.nats.at();
        let of = |name: &str, own: u16, other: &str, theirs: u16| {
            format!(
                "[member.{name}]\nport = [\"p=memory:group-{name}\"{}]\nreplication = \"group=gw member={name} server=nats://{server} \
                 listen=127.0.0.1:{own} peer={other}@127.0.0.1:{theirs} interval=50ms misses=20\"\n",
                if name == "b" { bad } else { "" }
            )
        };
        of("a", port_a, "b", port_b) + &of("b", port_b, "a", port_a)
    };
    bed.apply(&text(""), &["--wait", "0"]);
    let a = bed.member("a");
    let _b = bed.member("b");
    let shown = |member: &str| -> Value {
        let output = bed.ask(member, &["replication", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    bed.until("b has all connections", || {
        shown("a")["role"] == "active" && shown("a")["protected"] == true
    });
    bed.until("both have said so", || bed.of("a")["running"] == 1 && bed.of("b")["running"] == 1);
    // b refuses a version that a has.
    let (done, text_of_it) = bed.apply(&text(", \"q=pcap:rx=/nonexistent/none.pcap\""), &[]);
    assert!(!done && text_of_it.contains("b: version 2 refused"), "{text_of_it}");
    bed.until("they are different", || {
        shown("b")["peers"][0]["same"] == false && shown("a")["protected"] == false
    });
    drop(a);
    bed.until("a is dead", || shown("b")["peers"][0]["alive"] == false);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(shown("b")["role"], "standby", "it has another configuration");
    assert!(bed.ask("b", &["replication", "promote"]).status.success(), "and goes on when it must");
    assert_eq!(shown("b")["role"], "active");
}
