//! `millrace p4 shell` without a terminal, `p4 do help`, and the names of bmv2's programs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use testkit::running::confined;

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");
const ROUTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/p4/router.p4");

/// A switch that ends with this.
struct Switch(Child);

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(command: &mut Command) -> Switch {
    let child = confined(command).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut switch = Switch(child);
    let mut lines = BufReader::new(switch.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("millrace: ready") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
    }
    // What it says from now on must not fill the pipe.
    std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
    switch
}

fn shell(ctl: &Path, lines: &str) -> Output {
    let mut command = Command::new(MILLRACE);
    command.args(["p4", "shell", "--ctl"]).arg(ctl);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn lines_of_a_script_are_done_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let ctl = folder.path().join("ctl");
    let _switch = started(
        Command::new(MILLRACE)
            .args(["run", "--port", "memory:p4-shell", "--p4", ROUTER, "--ctl"])
            .arg(&ctl),
    );
    let good = shell(
        &ctl,
        "table_add routes route 10.0.0.0/8 => 2 10.0.0.1\n\ntable_dump routes\nexit\nfly\n",
    );
    assert!(good.status.success(), "{}", text(&good.stderr));
    let told = text(&good.stdout);
    assert!(
        told.starts_with("handle 0\ntable_add Forward.routes Forward.route 10.0.0.0/8 => 2 "),
        "{told}"
    );
    assert!(!told.contains("p4> "), "{told}");
    let wrong = shell(&ctl, "table_dum routes\nhelp table_dump\n");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stdout).starts_with("table_dump TABLE\n"), "{}", text(&wrong.stdout));
    let told = text(&wrong.stderr);
    assert!(
        told.contains("the nearest is `table_dump`") && told.contains("1 line went wrong"),
        "{told}"
    );
    let help =
        Command::new(MILLRACE).args(["p4", "do", "--ctl"]).arg(&ctl).arg("help").output().unwrap();
    assert!(text(&help.stdout).contains("\ntable_dump "), "{}", text(&help.stdout));
    // A runtime file, with its wrong entry by its place.
    let file = folder.path().join("runtime.json");
    let json = r#"{"table_entries": [{"table": "routes", "match": {"h.ip.dst": ["10.9.0.0", 16]},
        "action_name": "Forward.route", "action_params": {"port": 1, "next_hop": "10.9.0.1"}},
        {"table": "rout", "action_name": "x"}]}"#;
    std::fs::write(&file, json).unwrap();
    let done = Command::new(MILLRACE)
        .args(["p4", "do", "--ctl"])
        .arg(&ctl)
        .arg("--file")
        .arg(&file)
        .output()
        .unwrap();
    let told = text(&done.stderr);
    assert!(told.contains("runtime.json: table_entries[1]: there is no table `rout`"), "{told}");
    let dump = text(&shell(&ctl, "table_dump routes\n").stdout);
    assert!(dump.contains("10.9.0.0/16 => 1 10.9.0.1"), "{dump}");
}

#[test]
fn the_binary_is_bmv2_s_programs_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let named = |name: &str| {
        let mut command = Command::new(MILLRACE);
        command.arg0(name).current_dir(folder.path());
        command
    };
    let compiled = named("p4c-bm2-ss")
        .args(["--p4v", "16", "--p4runtime-files", "r.p4.p4info.txtpb", "-o", "r.json", ROUTER])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    assert!(std::fs::read_to_string(at("r.p4.p4info.txtpb")).unwrap().contains("Forward.routes"));
    let wrong = named("p4c").args(["--target", "ebpf", ROUTER]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(text(&wrong.stderr), "p4c: --target ebpf: bmv2 is the only target\n");
    let unknown = Command::new(MILLRACE).args(["stand-in", "p4c-ebpf", "-x"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("there are p4c-bm2-ss, p4c"),
        "{}",
        text(&unknown.stderr)
    );
    let help = named("simple_switch_grpc").arg("--help").output().unwrap();
    assert!(
        help.status.success() && text(&help.stdout).contains("--interface"),
        "{}",
        text(&help.stdout)
    );
    let refused = named("simple_switch_grpc").args(["--no-p4", "--fly"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    // Control sockets are in the user's own folder, or root's; the number keeps tests apart.
    let thrift = (20_000 + std::process::id() % 40_000).to_string();
    let port = "7@bmv2-names";
    let words = [
        "--thrift-port",
        &thrift,
        "--pcap",
        "x",
        "-i",
        port,
        "r.json",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:0",
        "--dp-grpc-server-addr",
        "127.0.0.1:0",
    ];
    let mut command = named("simple_switch_grpc");
    let switch = started(command.args(words).env("XDG_RUNTIME_DIR", folder.path()));
    let mut cli = named("simple_switch_CLI");
    cli.args(["--thrift-port", &thrift]).env("XDG_RUNTIME_DIR", folder.path());
    let mut child =
        cli.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"show_tables\n").unwrap();
    let told = child.wait_with_output().unwrap();
    assert!(
        text(&told.stdout).starts_with("Forward.neighbours: "),
        "{}{}",
        text(&told.stdout),
        text(&told.stderr)
    );
    drop(switch);
}
