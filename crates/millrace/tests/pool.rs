//! A pool of outside ports, claimed in a real broker's store: by who runs short, and freed of who is gone.

mod pair;

use pair::Pair;
use serde_json::Value;
use testkit::running::Running;

/// Senders, each with a datagram: more than a member has ports for without a claim.
const SENDERS: u8 = 200;

struct Bed(Pair);

impl Bed {
    fn new() -> Option<Bed> {
        let pair = Pair::new("nats", None)?;
        let flows = "priority=10,ip,in_port=9 actions=softflow(out)\n";
        std::fs::write(pair.path("flows"), flows).unwrap();
        std::fs::write(pair.path("in.pcap"), capture()).unwrap();
        Some(Bed(pair))
    }

    fn member(&self, name: &str) -> Running {
        let service = "out nat direction=out addresses=10.0.2.101 ports=1024-1279 group=home";
        let flows = self.0.path("flows").display().to_string();
        let options = ["--service", service, "--flows", &flows];
        self.0.member(name, "stripes=pool share=one services=home", &options)
    }

    /// Until the share is so, as a member shows it.
    fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) {
        self.0.until(what, || is(&self.0.shown(name)["shares"][0]));
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
    let spec = format!("in:9=pcap:rx={}", bed.0.path("in.pcap").display());
    let added = bed.0.ask("a", &["port", "add", &spec]).output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    bed.until("a", "a has claimed", |share| share["stripes"]["claimed"].as_u64() >= Some(4));
    bed.until("a", "a may use it", |share| share["stripes"]["usable"].as_u64() >= Some(13 + 4));
    bed.until("b", "b knows of it", |share| {
        share["stripes"]["claimed"] == 0 && share["stripes"]["free"].as_u64() <= Some(28)
    });
    let text =
        String::from_utf8(bed.0.ask("a", &["replication"]).output().unwrap().stdout).unwrap();
    assert!(text.contains(" of 64 stripes here, "), "{text}");
    // The same for who watches.
    let told = |of: &Running, what: &str| of.metric(&format!("millrace_replication_{what}"));
    let stripes = |of: &Running, state: &str, member: &str| {
        told(
            of,
            &format!("stripes{{group=\"gw\",member=\"{member}\",state=\"{state}\",share=\"one\"}}"),
        )
    };
    let claims = |outcome: &str| {
        told(&a, &format!("claims_total{{group=\"gw\",member=\"a\",outcome=\"{outcome}\"}}"))
    };
    assert!(stripes(&a, "claimed", "a") >= Some(4.0) && stripes(&a, "usable", "a") >= Some(17.0));
    assert_eq!(stripes(&b, "claimed", "b"), Some(0.0));
    assert!(stripes(&b, "free", "b").is_some_and(|free| free > 0.0 && free <= 28.0));
    assert!(claims("asked") >= Some(1.0));
    assert_eq!(claims("refused"), Some(0.0));
    let forget = |name: &str| {
        let output = bed.0.ask("b", &["replication", "forget", name]).output().unwrap();
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
