//! `millrace replication upgrade`: a pair with a real broker, upgraded by a command that restarts one member at a time.

mod pair;

use pair::Pair;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use testkit::running::Running;

/// Restarts a member when somebody asks for it by a file, and answers by another one.
const ASKS: &str =
    "touch FOLDER/restart-{member}; while [ ! -e FOLDER/restarted-{member} ]; do sleep 0.05; done";

struct Bed(Pair);

impl Bed {
    fn new() -> Option<Bed> {
        Pair::new("nats", None).map(Bed)
    }

    fn member(&self, name: &str) -> Running {
        self.0.member(name, "", &[])
    }

    fn shown(&self, name: &str) -> Value {
        self.0.shown(name)
    }

    fn protected(&self) {
        let both = || ["a", "b"].map(|name| self.shown(name));
        self.0.until("the group is protected", || {
            let alive = |one: &Value| one["peers"][0]["alive"] == true;
            both().iter().all(|one| one["protected"] == true && one["engine"] == true && alive(one))
        });
    }

    /// An upgrade of these members, asked at this control socket.
    fn upgrade_of(&self, members: &[&str], ctl: &str, by: &str, words: &[&str]) -> Command {
        let by = by.replace("FOLDER", &self.0.path("").display().to_string());
        let program = env!("CARGO_BIN_EXE_millrace");
        let how = ["--via", "sh -c", "--program", program, "--by", &by];
        self.0.ask(ctl, &[&["replication", "upgrade"], members, &how, words].concat())
    }

    fn upgrade(&self, by: &str, words: &[&str]) -> Command {
        self.upgrade_of(&["a", "b"], "{member}", by, words)
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn members_are_upgraded_one_after_the_other_standbys_first() {
    let Some(bed) = Bed::new() else { return };
    let a = bed.member("a");
    bed.0.until("a is active", || bed.shown("a")["role"] == "active");
    let b = bed.member("b");
    bed.protected();
    let pids = [a.pid(), b.pid()];
    // What would be done changes nothing.
    let planned = bed.upgrade(ASKS, &["--dry-run"]).output().unwrap();
    let plan = text(&planned);
    assert!(planned.status.success(), "{plan}");
    let at = |what: &str| plan.find(what).unwrap_or_else(|| panic!("{what}: {plan}"));
    assert!(at(&format!("b: standby, process {}", pids[1])) < at("a: active"), "{plan}");
    assert!(at("a: active") < at("drain: it hands over to another member"), "{plan}");
    assert!(plan.contains("restart-a; while"), "{plan}");
    assert_eq!(bed.shown("a")["pid"], pids[0]);
    let upgrade = bed.upgrade(ASKS, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let upgrade = upgrade.unwrap();
    let mut members = [Some(a), Some(b)];
    let mut order = Vec::new();
    for _ in 0..2 {
        let asked = |name: &str| bed.0.path(&format!("restart-{name}")).exists();
        let next = || (0..2).find(|n| asked(["a", "b"][*n]) && !order.contains(n));
        bed.0.until("a member is to restart", || next().is_some());
        let n = next().unwrap();
        let name = ["a", "b"][n];
        // It forwards nothing by then.
        assert_eq!(bed.shown(name)["role"], "standby");
        assert_eq!(bed.shown(["b", "a"][n])["role"], "active");
        drop(members[n].take());
        members[n] = Some(bed.member(name));
        std::fs::write(bed.0.path(&format!("restarted-{name}")), "").unwrap();
        order.push(n);
    }
    let done = upgrade.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(order, [1, 0]);
    assert!(text(&done).contains("upgraded b, a, in "), "{}", text(&done));
    assert_eq!(
        (bed.shown("a")["role"].as_str(), bed.shown("b")["role"].as_str()),
        (Some("standby"), Some("active"))
    );
}

#[test]
fn an_upgrade_stops_at_what_fails_first_and_says_how_the_group_is() {
    let Some(mut bed) = Bed::new() else { return };
    let a = bed.member("a");
    bed.0.until("a is active", || bed.shown("a")["role"] == "active");
    let b = bed.member("b");
    bed.protected();
    let fails = |bed: &Bed, by: &str, why: &[&str]| {
        let output = bed.upgrade(by, &["--within", "2s"]).output().unwrap();
        let text = text(&output);
        assert!(!output.status.success(), "{text}");
        why.iter().for_each(|why| assert!(text.contains(why), "{why}: {text}"));
    };
    // The standby's command fails, and the active member is not touched.
    let state =
        ["upgraded: none; not tried: a", "a:\n  group gw, member a: active", "b:\n  group gw"];
    let failed = "stopped at b: the command has failed: exit status: 3";
    fails(&bed, "exit 3", &[&[failed][..], &state].concat());
    // It ends well, and nothing was restarted.
    let same = format!("process {} runs as before", b.pid());
    fails(&bed, "true", &[&[&*same][..], &state].concat());
    assert_eq!(bed.shown("a")["pid"], a.pid());
    // Somebody else answers there; nobody does.
    let output = bed.upgrade_of(&["b"], "a", "true", &[]).output().unwrap();
    assert!(text(&output).contains("b: member a of group gw answers there"), "{}", text(&output));
    // Without its broker a group is not upgraded.
    bed.0.nats.down();
    bed.0.until("the broker is missed", || bed.shown("a")["engine"] == false);
    fails(&bed, "true", &["nothing was done: ", "the engine is away"]);
    drop(b);
    bed.0.until("b is missed", || bed.shown("a")["peers"][0]["alive"] == false);
    fails(&bed, "true", &["b does not answer"]);
}
