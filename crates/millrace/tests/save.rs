//! What `millrace save` writes starts the same switch again.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use testkit::running::Running;

fn millrace(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(words).stdin(Stdio::null()).output().expect("it was built for this test")
}

fn start(words: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.arg("run").args(words);
    Running::start(&mut command, "millrace: ready")
}

struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new() -> Bed {
        Bed { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.file(name)
    }

    fn ask(&self, words: &[&str]) -> Output {
        let ctl = self.file("ctl");
        millrace(&[words, &["--ctl", &ctl]].concat())
    }

    fn done(&self, words: &[&str]) -> Value {
        let output = self.ask(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one object")
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// What is programmed and configured, without what counts and ages.
    fn all(&self) -> Value {
        let mut all = Vec::new();
        for what in ["flows", "groups", "meters", "port", "bridge", "queue", "service", "mirror"] {
            let mut told = self.done(&[what]);
            forget(&mut told);
            all.push(told);
        }
        Value::from(all)
    }
}

/// What differs from process to process.
fn forget(value: &mut Value) {
    const CHANGES: [&str; 5] = ["id", "age_seconds", "idle_seconds", "mac", "counters"];
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !CHANGES.contains(&&**key));
            map.values_mut().for_each(forget);
        }
        Value::Array(list) => list.iter_mut().for_each(forget),
        _ => {}
    }
}

#[test]
fn what_is_saved_starts_the_same_switch_again() {
    let bed = Bed::new();
    let flows = "table=0,cookie=0x77,priority=9,idle_timeout=600,send_flow_rem,importance=3,ip,nw_dst=10.0.0.0/8,\
                 actions=group:5,goto_table:1\n\
                 table=1,in_port=7,vlan_tci=0x1000/0x1000,actions=set_field:02:00:00:00:00:01->eth_dst,output:2\n\
                 table=1,priority=0,actions=NORMAL\n\
                 table=2,priority=4,ip,actions=ct(commit,zone=3),learn(table=3,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),drop\n";
    let flows = flows.replace(",drop\n", "\n");
    let flows = bed.write("f", &flows);
    // One that is named by another of a lower number.
    let groups = bed.write(
        "g",
        "group_id=9,type=all,bucket=output:2,bucket=output:7\n\
         group_id=5,type=select,bucket=weight:3,actions=group:9,bucket=weight:1,actions=drop\n",
    );
    let meters = bed.write("m", "meter=4,pktps,burst,bands=type=drop,rate=10,burst_size=5\n");
    let (ctl, listen) = (bed.file("ctl"), format!("punix:{}", bed.file("of")));
    let configuration = format!(
        "port = [\"a:7=memory:save-a\", \"b=memory:save-b\"]\nflows = [{flows:?}]\nlisten = [{listen:?}]\nprotocols = \"OpenFlow13,OpenFlow15\"\n\
         workers = 2\nengine = \"interp\"\nwatchdog = 30\n\
         [[bridge]]\nname = \"br1\"\nport = [\"c=memory:save-c\"]\ndatapath-id = \"1f\"\n"
    );
    let configuration = bed.write("switch.toml", &configuration);
    let running = start(&[
        &configuration,
        "--groups",
        &groups,
        "--meters",
        &meters,
        "--ctl",
        &ctl,
        "--queue",
        "b:1,max=5M,priority=2",
        "--inactivity-probe",
        "9",
    ]);
    // What is changed at run time is saved as it is now.
    bed.done(&["port", "add", "d:12=memory:save-d", "--vlan", "vlan=10"]);
    bed.done(&["port", "remove", "c", "--bridge", "br1"]);
    bed.done(&["queue", "set", "d,max=8M"]);
    bed.done(&["service", "add", "slow", "rate_limiter", "rate=1M"]);
    bed.done(&["mirror", "add", "m1,src=a,to=d"]);
    let key = bed.write("key", "000102030405060708090a0b0c0d0e0f");
    let key = format!("key-file={key}");
    bed.done(&["service", "add", "aes", "transcoder", "direction=encrypt", &key]);
    let before = bed.all();
    let folder = bed.file("saved");
    let told = bed.done(&["save", &folder]);
    assert_eq!(
        (&told["flows"], &told["groups"], &told["meters"]),
        (&4.into(), &2.into(), &1.into())
    );
    assert_eq!(told["left_out"], serde_json::json!([]));
    let there = bed.refused(&["save", &folder]);
    assert!(there.contains("is there already; --force replaces it"), "{there}");
    bed.done(&["save", &folder, "--force"]);
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|one| one.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["flows.txt", "groups.txt", "meters.txt", "millrace.toml"]);
    drop(running);
    for name in ["f", "g", "m", "switch.toml"] {
        std::fs::remove_file(bed.path(name)).unwrap();
    }
    let saved = format!("{folder}/millrace.toml");
    let running = start(&[&saved]);
    assert_eq!(bed.all(), before);
    // What is saved of it is the same, too.
    let again = bed.file("again");
    bed.done(&["save", &again]);
    for name in ["flows.txt", "groups.txt", "meters.txt"] {
        let read = |folder: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        assert_eq!(read(&again), read(&folder), "{name}");
    }
    let text = std::fs::read_to_string(format!("{again}/millrace.toml")).unwrap();
    assert_eq!(text.replace(&again, &folder), std::fs::read_to_string(&saved).unwrap());
    for said in ["workers = 2", "watchdog = 30", "inactivity-probe = 9", "engine = \"interp\""] {
        assert!(text.contains(said), "{said}: {text}");
    }
    drop(running);
}

#[test]
fn entries_of_other_bridges_are_lines_of_the_configuration() {
    let bed = Bed::new();
    let ctl = bed.file("ctl");
    let configuration = bed.write(
        "switch.toml",
        "flow = [\"cookie=1,actions=drop\"]\n[[bridge]]\nname = \"br1\"\nport = [\"c:3=memory:save-other\"]\n\
         meter = [\"meter=4,pktps,bands=type=drop,rate=10\"]\n\
         flow = [\"cookie=2,table=3,priority=7,in_port=c,actions=meter:4,output:9\"]\n",
    );
    let running = start(&[&configuration, "--engine", "interp", "--ctl", &ctl]);
    let entries = |bridge: &str| bed.done(&["flows", "--bridge", bridge])["flows"].clone();
    let of = |flow: &serde_json::Value| {
        format!("{} {} {}", flow["cookie"], flow["match"], flow["actions"])
    };
    let all = || {
        ["br0", "br1"]
            .map(|bridge| entries(bridge).as_array().unwrap().iter().map(of).collect::<Vec<_>>())
    };
    let before = all();
    assert!(before[0].len() == 1 && before[1].len() == 1, "{before:?}");
    let folder = bed.file("saved");
    bed.done(&["save", &folder]);
    drop(running);
    let running = start(&[&format!("{folder}/millrace.toml")]);
    assert_eq!(all(), before);
    drop(running);
}

#[test]
fn what_files_cannot_say_is_refused() {
    let bed = Bed::new();
    let ctl = bed.file("ctl");
    let flows = bed.write("f", "actions=drop\n");
    let configuration = bed.write("switch.toml", "[[bridge]]\nname = \"br1\"\n");
    let running = start(&[&configuration, "--flows", &flows, "--engine", "interp", "--ctl", &ctl]);
    let folder = bed.file("saved");
    bed.done(&["save", &folder]);
    // Of the second bridge, which has no entries, nothing is missing; then the first one is that.
    let alone = bed.file("alone");
    let told = bed.done(&["save", &alone, "--bridge", "br1"]);
    assert_eq!((&told["bridge"], &told["flows"]), (&"br1".into(), &0.into()));
    let text = std::fs::read_to_string(format!("{alone}/millrace.toml")).unwrap();
    assert!(text.contains("bridge-name = \"br1\"") && !text.contains("[[bridge]]"), "{text}");
    drop(running);
    let program = format!("{}/../../examples/p4/router.p4", env!("CARGO_MANIFEST_DIR"));
    let _running = start(&["--p4", &program, "--engine", "interp", "--ctl", &ctl]);
    let why = bed.refused(&["save", &bed.file("p4")]);
    assert!(why.contains("runs a P4 program, whose entries cannot be saved"), "{why}");
    assert!(!bed.path("p4").exists());
}
