//! A pool of outside ports, claimed in a real broker's store: by who runs short, and freed of who is gone.

use serde_json::Value;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::nats::Nats;
use testkit::running::{PATIENCE, Running};

/// Senders, each with a datagram: more than a member has ports for without a claim.
const SENDERS: u8 = 200;

struct Bed {
    nats: Nats,
    dir: tempfile::TempDir,
    ports: [u16; 2],
}

impl Bed {
    fn new() -> Option<Bed> {
        let nats = Nats::start(None)?;
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (a, b) = (free(), free());
        let ports = [&a, &b].map(|socket| socket.local_addr().unwrap().port());
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("flows"),
            "priority=10,ip,in_port=9 actions=softflow(out)\n",
        )
        .unwrap();
        std::fs::write(dir.path().join("in.pcap"), capture()).unwrap();
        Some(Bed { nats, dir, ports })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn member(&self, name: &str) -> Running {
        let (own, other, peer) = if name == "a" { (0, 1, "b") } else { (1, 0, "a") };
        let settings = format!(
            "group=gw member={name} server=nats://{} listen=127.0.0.1:{} peer={peer}@127.0.0.1:{} interval=50ms misses=20 \
             stripes=pool share=one services=home",
            self.nats.at(),
            self.ports[own],
            self.ports[other]
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let port = format!("memory:pool-{name}");
        let service = "out nat direction=out addresses=10.0.2.101 ports=1024-1279 group=home";
        command.args(["run", "--port", &port, "--service", service, "--replication", &settings]);
        command.arg("--flows").arg(self.path("flows")).arg("--ctl").arg(self.path(name));
        Running::start(&mut command, "millrace: ready")
    }

    fn ask(&self, name: &str, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(words).arg("--ctl").arg(self.path(name)).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// The share, as a member shows it.
    fn share(&self, name: &str) -> Value {
        let said = self.ask(name, &["replication", "--json"]).stdout;
        serde_json::from_slice::<Value>(&said).unwrap_or_default()["shares"][0].clone()
    }

    fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is(&self.share(name)) {
            assert!(Instant::now() < deadline, "{what}: {:#}", self.share(name));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A capture of a datagram of each sender.
fn capture() -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0xffff, 1] {
        out.extend(word.to_le_bytes());
    }
    for n in 0..SENDERS {
        let mut ip = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, n, 10, 0, 2, 2];
        let sum =
            ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
        frame.extend(ip);
        for word in [5000_u16, 53, 12, 0, 7, 7] {
            frame.extend(word.to_be_bytes());
        }
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(frame);
    }
    out
}

#[test]
fn who_runs_short_claims_and_who_is_gone_leaves_it() {
    let Some(bed) = Bed::new() else { return };
    let mut a = bed.member("a");
    bed.until("a", "a is active, and knows of the pool", |share| {
        share["role"] == "active" && share["stripes"]["free"] == 32
    });
    let b = bed.member("b");
    bed.until("b", "b has all connections", |share| share["protected"] == true);
    let spec = format!("in:9=pcap:rx={}", bed.path("in.pcap").display());
    let added = bed.ask("a", &["port", "add", &spec]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    bed.until("a", "a has claimed", |share| share["stripes"]["claimed"].as_u64() >= Some(4));
    bed.until("a", "a may use it", |share| share["stripes"]["usable"].as_u64() >= Some(13 + 4));
    bed.until("b", "b knows of it", |share| {
        share["stripes"]["claimed"] == 0 && share["stripes"]["free"].as_u64() <= Some(28)
    });
    let text = String::from_utf8(bed.ask("a", &["replication"]).stdout).unwrap();
    assert!(text.contains(" of 64 stripes here, "), "{text}");
    let forget = |name: &str| {
        let output = bed.ask("b", &["replication", "forget", name]);
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (done, why) = forget("a");
    assert!(!done && why.contains("a lives"), "{why}");
    a.kill();
    bed.until("b", "b goes on", |share| share["role"] == "active");
    bed.until("b", "a's claims stand", |share| share["stripes"]["free"].as_u64() <= Some(28));
    let (done, why) = forget("a");
    assert!(done, "{why}");
    bed.until("b", "they are free", |share| share["stripes"]["free"] == 32);
    drop(b);
}
