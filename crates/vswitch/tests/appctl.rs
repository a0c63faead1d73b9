//! `ovs-appctl` against the server of commands.

mod bed;

use bed::Bed;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vswitch::unixctl::commands::Counts;
use vswitch::unixctl::{Context, Server};
use vswitch::vlog::Levels;

fn server(bed: &Bed, ended: &Arc<AtomicBool>) -> Server {
    let ended = ended.clone();
    let context = Context {
        switch: bed.fake.clone(),
        watch: bed.reconciler().watch(),
        levels: Arc::new(Levels::new(&["vswitch"])),
        log_file: Box::new(|_| Ok(String::new())),
        exit: Box::new(move || ended.store(true, Ordering::Relaxed)),
        version: format!("millrace (in place of Open vSwitch) {}", vswitch::OVS_VERSION),
        counts: Counts::default(),
    };
    Server::start(&bed.dir.path().join("x.ctl"), context).expect("a socket")
}

fn ask(bed: &Bed, server: &Server, words: &[&str]) -> (bool, String) {
    let target = server.path().display().to_string();
    let mut all = vec!["-t", target.as_str()];
    all.extend(words);
    let output = bed.run("ovs-appctl", &all);
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn ovs_appctl_asks_and_is_answered() {
    let Some(bed) = Bed::new() else { return };
    let ended: Arc<AtomicBool> = Arc::default();
    let server = server(&bed, &ended);
    bed.vsctl("add-br br0");
    let ask = |words: &[&str]| ask(&bed, &server, words);
    assert_eq!(ask(&["version"]), (true, "millrace (in place of Open vSwitch) 3.1.0\n".to_owned()));
    assert_eq!(ask(&["ofproto/list"]), (true, "br0\n".to_owned()));
    assert_eq!(ask(&["fdb/show", "br0"]).1, " port  VLAN  MAC                Age\n");
    let (good, said) = ask(&["fdb/show", "nobr"]);
    assert!(!good && said.starts_with("no such bridge\n"), "{said}");
    assert!(said.contains("server returned an error"), "{said}");
    assert!(ask(&["list-commands"]).1.contains("  fdb/show                bridge\n"));
    assert!(ask(&["stp/show"]).1.contains("stp/show: spanning trees are not built\n"));
    assert!(ask(&["coverage/show"]).1.contains("bridge_reconfigure       total: "));
    assert_eq!(ask(&["coverage/read-counter", "fake_never"]).1, "0\n");
    assert!(ask(&["memory/show"]).1.contains("ovsdb-rows:"));
    assert!(ask(&["dpif/dump-flows", "br0"]).1.contains("there is no flow cache"));
    assert!(!ended.load(Ordering::Relaxed));
    assert!(ask(&["exit"]).0 && ended.load(Ordering::Relaxed));
    let path = server.path().to_owned();
    drop(server);
    assert!(!path.exists());
}

#[test]
fn what_is_no_request_ends_its_connection_alone() {
    use std::io::{Read, Write};
    let Some(bed) = Bed::new() else { return };
    let server = server(&bed, &Arc::default());
    for wrong in [&b"hello"[..], b"{\"a\":", b"{}", b"[[[[", &[0xff; 100]] {
        let mut stream =
            std::os::unix::net::UnixStream::connect(server.path()).expect("it listens");
        stream.write_all(wrong).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("a socket");
        let mut answer = Vec::new();
        // Whether the end is clean or a reset depends on what it has read.
        drop(stream.read_to_end(&mut answer));
        assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }
    assert!(ask(&bed, &server, &["version"]).0);
}
