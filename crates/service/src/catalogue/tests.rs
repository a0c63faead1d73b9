//! Elements by kind and settings, and what is said of wrong ones.

use super::*;
use crate::craft::Frame;
use crate::element::{Fate, Passing};
use crate::packet::Packet;

/// Settings that make an element of a kind whose settings have no default.
fn enough(kind: &Kind) -> Vec<(String, String)> {
    parse(
        match kind.name {
            "rate_limiter" => "rate=1M",
            "nat" => "direction=out addresses=192.0.2.1",
            "payload_match" => "patterns=a,0x00ff",
            "balancer" => "backends=a:1,b:2:draining",
            "neighbour" => "addresses=10.0.0.9 mac=02:00:00:00:00:09",
            "transcoder" => "direction=encrypt key=000102030405060708090a0b0c0d0e0f",
            "wasm" => concat!(
                "writes=anything module=",
                env!("CARGO_MANIFEST_DIR"),
                "/../../examples/wasm/noop.wat"
            ),
            _ => "",
        }
        .split_whitespace(),
    )
    .unwrap()
}

fn made(kind: &str, words: &str) -> Result<Box<dyn Element>, Error> {
    element(kind, &parse(words.split_whitespace())?)
}

fn error(kind: &str, words: &str) -> String {
    match made(kind, words) {
        Ok(_) => panic!("{kind} {words} is no element"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_kind_makes_an_element_that_takes_packets() {
    for kind in kinds() {
        if kind.name == "wasm" && cfg!(not(feature = "wasm")) {
            continue;
        }
        let made = element(kind.name, &enough(kind)).unwrap();
        assert_eq!((made.name(), made.writes()), (kind.name, kind.writes));
        let mut instance = made.instance(0, 0, 1);
        let ends: [(IpAddr, u16); 2] = [([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2)];
        let mut frames = [Frame::udp(ends[0], ends[1], 20).bytes(), vec![0; 5]];
        let mut burst: Vec<_> = frames.iter_mut().map(|f| Passing::new(Packet::of(f))).collect();
        instance.ingress(1, &mut burst);
        assert!(burst.iter().all(|passing| passing.fate == Fate::Continue), "{}", kind.name);
        for setting in kind.settings {
            assert!(!setting.about.is_empty());
        }
        let error = made.set(&[("nonsense".into(), "1".into())]).unwrap_err().to_string();
        assert!(error.contains("cannot be set while it runs"), "{error}");
    }
}

#[test]
fn defaults_are_the_tracker_s_own() {
    let kind = KINDS.iter().find(|k| k.name == "conntrack").unwrap();
    let config = firewall(&Given::new(kind, &[]).unwrap()).unwrap();
    let want = conntrack::Config::new(65_536, 0);
    assert_eq!(format!("{config:?}"), format!("{want:?}"));
    let some = parse(["connections=10", "half_open=3", "tcp_closed=7", "udp=1"]).unwrap();
    let config = firewall(&Given::new(kind, &some).unwrap()).unwrap();
    assert_eq!((config.connections_max, config.half_open_max), (10, 3));
    assert_eq!((config.timeouts.tcp.closed, config.timeouts.udp), (7, 1));
}

#[test]
fn errors_say_what_is_wrong_and_what_there_is() {
    let kinds = "noop, counter, memory_walker, rate_limiter, payload_match, conntrack";
    assert!(
        error("dns", "")
            .starts_with(&format!("there is no kind of service \"dns\"; there are {kinds}"))
    );
    for (kind, words, want) in [
        ("noop", "x=1", "noop has no setting \"x\"; it has none"),
        (
            "rate_limiter",
            "rate=1 brust=2",
            "rate_limiter has no setting \"brust\"; it has rate and burst",
        ),
        ("rate_limiter", "", "rate_limiter needs rate=: octets a second"),
        (
            "rate_limiter",
            "rate",
            "\"rate\" is not KEY=VALUE, with a key of letters, digits, '_' and '-'",
        ),
        ("rate_limiter", "rate=1 rate=2", "rate= is given twice"),
        (
            "rate_limiter",
            "rate=1T",
            "rate_limiter: rate=1T is not a number from 1 to 1125899906842624, perhaps with k, M or G \
             behind it",
        ),
        (
            "rate_limiter",
            "rate=99999999999G",
            "rate_limiter: rate=99999999999G is not a number from 1 to 1125899906842624, perhaps with \
             k, M or G behind it",
        ),
        ("payload_match", "patterns=a drop=1", "payload_match: drop=1 is not yes or no"),
        (
            "payload_match",
            "patterns=a,0x123",
            "payload_match: patterns=a,0x123 is not patterns separated by commas, each text or 0x and \
             an even number of hex digits, none empty (a comma is 0x2c)",
        ),
        (
            "conntrack",
            "connections=5 half_open=6",
            "conntrack: half_open=6 is not `half`, or a number from 1 to 5",
        ),
        ("nat", "direction=up addresses=192.0.2.1", "nat: direction=up is not out or in"),
        (
            "nat",
            "direction=in addresses=192.0.2.1-",
            "nat: addresses=192.0.2.1- is not ADDRESS or FIRST-LAST",
        ),
        (
            "nat",
            "direction=in addresses=192.0.2.1 ports=5",
            "nat: ports=5 is not FIRST-LAST, from 1 to 65535",
        ),
        ("conntrack", "udp=+3", "conntrack: udp=+3 is not a number from 1 to 100000000"),
        (
            "balancer",
            "backends=a:1,b:x",
            "balancer: backends=a:1,b:x is not a list of backends at \"b:x\": NAME, NAME:WEIGHT or \
             NAME:WEIGHT:up|draining|down, separated by commas, each weight from 0 to 65535",
        ),
        (
            "balancer",
            "backends=a,a",
            "balancer: backends=a,a is not a list in which each name is there once: \"a\" is not",
        ),
    ] {
        assert_eq!(error(kind, words), want);
    }
    for (words, want) in [
        (
            "direction=encrypt",
            "transcoder needs key=: 32 hex digits for AES-128, 64 for AES-256; or key-file=PATH of a file that holds it",
        ),
        ("direction=up key=00", "transcoder: direction=up is not encrypt or decrypt"),
        ("direction=encrypt key=00 mode=ecb", "transcoder: mode=ecb is not cbc or gcm"),
        ("direction=encrypt key=00 left=x", "transcoder: left=x is not pass or drop"),
        (
            "direction=encrypt key=00",
            "transcoder: key=(2 characters, not shown) is not 32 hex digits for AES-128, or 64 for \
             AES-256",
        ),
    ] {
        assert_eq!(error("transcoder", words), want);
    }
    let why = error("balancer", "backends=a key=0xfeed");
    assert!(why.contains("key=(6 characters, not shown) is not a number"), "{why}");
    for list in ["", "a,", "a:1:up:x", "a:1:gone", ":1", "a:65536", "a:+1", "a:-1"] {
        assert!(error("balancer", &format!("backends={list}")).contains("at \""), "{list}");
    }
    let many: Vec<_> = (0..1001).map(|n| n.to_string()).collect();
    let why = error("balancer", &format!("backends={}", many.join(",")));
    assert!(why.ends_with("is not a list of 1000 backends at most"), "{why}");
    let twice = [("rate".to_string(), "1".to_string()), ("rate".into(), "2".into())];
    let Err(why) = element("rate_limiter", &twice) else { panic!("twice") };
    assert_eq!(why.to_string(), "rate= is given twice");
}

#[test]
fn a_kind_that_this_build_lacks_is_refused_and_said() {
    let said = "this build has no services of the kind wasm; one that is made with `cargo build --release \
                --features wasm` has";
    assert_eq!(Error::Build { kind: "wasm", feature: "wasm" }.to_string(), said);
    if cfg!(not(feature = "wasm")) {
        assert_eq!(error("wasm", "module=/nowhere"), said);
    }
}

#[cfg(feature = "wasm")]
#[test]
fn modules_are_read_from_files_and_refused_with_the_reason() {
    let why = error("wasm", "module=/nowhere");
    assert!(why.starts_with("wasm: module=/nowhere is not a file that can be read: "), "{why}");
    let path = format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let why = error("wasm", &format!("module={path}"));
    assert!(why.starts_with(&format!("wasm: {path}: expected `(`")), "{why}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/wasm/noop.wat");
    for (words, want) in [
        ("writes=all", "writes=all is not nothing, payload, ends or anything"),
        ("memory=1k", "memory=1k is not a number from 65536 to 256000000"),
        ("fuel=0", "fuel=0 is not a number from 100 to"),
        ("memory=66k", "octets= of a burst's frames take 67584 of memory, and memory= is 66000"),
    ] {
        let why = error("wasm", &format!("module={path} {words}"));
        assert!(why.contains(want), "{why}");
    }
}

#[test]
fn sizes_and_patterns_are_read() {
    let kind = KINDS.iter().find(|k| k.name == "rate_limiter").unwrap();
    for (text, want) in [("7", 7), ("2k", 2000), ("3M", 3_000_000), ("1G", 1_000_000_000)] {
        let settings = [("rate".to_string(), text.to_string())];
        assert_eq!(Given::new(kind, &settings).unwrap().size("rate", 1..=u64::MAX), Ok(want));
    }
    assert_eq!(hex("00fFa1"), Some(vec![0, 255, 0xa1]));
    assert_eq!((hex("0"), hex("0g"), hex("é")), (None, None, None));
    assert_eq!(parse(["patterns=a=b c"]), Ok(vec![("patterns".into(), "a=b c".into())]));
}

#[test]
fn a_match_drops_if_told_to() {
    let ends: [(IpAddr, u16); 2] = [([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2)];
    for (drop, fate) in [("no", Fate::Continue), ("yes", Fate::Drop)] {
        let made = made("payload_match", &format!("patterns=0x787878,EVIL drop={drop}")).unwrap();
        let mut instance = made.instance(0, 0, 1);
        let mut frames = [2, 3].map(|len| Frame::udp(ends[0], ends[1], len).bytes());
        let mut burst: Vec<_> = frames.iter_mut().map(|f| Passing::new(Packet::of(f))).collect();
        instance.ingress(1, &mut burst);
        assert_eq!(burst.iter().map(|p| p.fate).collect::<Vec<_>>(), [Fate::Continue, fate]);
        assert_eq!(burst[1].metadata.register, 1);
        assert_eq!(instance.counters(), [("found", 1), ("none", 1)]);
    }
}

#[test]
fn checks_and_places_of_backends_are_read() {
    use crate::balance::check::Ask;
    use std::time::Duration;
    let made = |words: &str| made("balancer", &format!("backends=web,10.0.0.3 {words}")).unwrap();
    let spread_of =
        |made: &dyn Element| made.itself().unwrap().downcast_ref::<Spread>().unwrap().clone();
    assert!(spread_of(&*made("")).check().is_none());
    let http = made(
        "hosts=web=fd00::2 check=http check_port=8080 check_path=/alive check_host=a.b check_expect=204 \
         check_interval=500ms check_timeout=250ms check_rise=1 check_fall=5 check_source=10.0.0.1 check_device=eth0",
    );
    let spread = spread_of(&*http);
    let check = spread.check().unwrap();
    let (path, host) = ("/alive".to_owned(), "a.b".to_owned());
    assert_eq!(check.ask, Ask::Http { path, host, expect: (204, 204) });
    assert_eq!((check.port, check.rise, check.fall, &*check.device), (8080, 1, 5, "eth0"));
    assert_eq!(
        (check.interval, check.timeout),
        (Duration::from_millis(500), Duration::from_millis(250))
    );
    assert_eq!(check.source, Some("10.0.0.1".parse().unwrap()));
    let due = spread.backends().due(check, 0);
    let hosts: Vec<String> = due.iter().map(|(_, host)| host.to_string()).collect();
    assert_eq!(hosts, ["fd00::2", "10.0.0.3"]);
    // A backend that comes needs a place, and one that goes takes its place along.
    let set = |words: &str| {
        let settings = parse(words.split_whitespace()).unwrap();
        http.set(&settings).map_err(|error| error.to_string())
    };
    assert!(set("backends=web,db").unwrap_err().contains("hosts=db=ADDRESS"));
    assert!(set("backends=web,db hosts=web=fd00::2,db=fd00::3").is_ok());
    assert!(set("hosts=db=fd00::3").unwrap_err().contains("needs the address of web"));
    assert!(set("backends=db").is_ok());
    assert!(http.current().contains(&("hosts".to_owned(), "db=fd00::3".to_owned())));
    for (words, why) in [
        ("check=udp", "none, tcp, http or icmp"),
        ("check=tcp", "check= needs the address of web: hosts=web=ADDRESS"),
        ("hosts=other=10.0.0.1", "hosts= names other, and backends= does not"),
        ("hosts=web=here", "NAME=ADDRESS, separated by commas, each name once, at \"web=here\""),
        ("check_interval=1s check_timeout=2s", "check_timeout= is longer than check_interval="),
        ("check_interval=9d", "a time from 10ms to 86400s"),
        ("hosts=web=10.0.0.2 check=http check_path=alive", "a path that begins with /"),
        ("hosts=web=10.0.0.2 check=http check_expect=500-200", "N or FIRST-LAST, from 100 to 999"),
        ("all_down=maybe", "keep or refuse"),
        ("check_source=here", "an address"),
    ] {
        let why_not = error("balancer", &format!("backends=web,10.0.0.3 {words}"));
        assert!(why_not.contains(why), "{words}: {why_not}");
    }
}

#[test]
fn addresses_to_answer_for_are_read() {
    for words in
        ["addresses=10.0.0.9-10.0.0.1", "addresses=10.0.0.1-fd00::1", "addresses=", "addresses=x"]
    {
        let why = error("neighbour", &format!("{words} mac=02:00:00:00:00:09"));
        assert!(why.contains("ADDRESS or FIRST-LAST"), "{why}");
    }
    for mac in ["02:00:00:00:00", "03:00:00:00:00:09", "2:0:0:0:0:9", "02:00:00:00:00:+9"] {
        let why = error("neighbour", &format!("addresses=10.0.0.9 mac={mac}"));
        assert!(why.contains("six octets of hex digits"), "{why}");
    }
}

#[test]
fn a_balancer_is_set_while_it_runs() {
    let spread = made("balancer", "backends=a,b").unwrap();
    let mut instance = spread.instance(0, 0, 1);
    let mut seen = || {
        let mut seen = [0; 4];
        for n in 0..200 {
            let ends: [(IpAddr, u16); 2] = [([10, 0, 0, 1].into(), n), ([10, 0, 0, 2].into(), 2)];
            let mut frame = Frame::udp(ends[0], ends[1], 2).bytes();
            let mut burst = [Passing::new(Packet::of(&mut frame))];
            instance.ingress(1, &mut burst);
            seen[burst[0].metadata.register as usize] += 1;
        }
        seen.map(|n| n > 0)
    };
    let set = |words: &str| spread.set(&parse([words]).unwrap()).map_err(|e| e.to_string());
    assert_eq!(seen(), [false, true, true, false]);
    assert_eq!(set("health=a:down"), Ok(()));
    assert_eq!(seen(), [false, false, true, false]);
    assert_eq!(set("health=b:down"), Ok(()));
    assert_eq!(seen(), [true, false, false, false]);
    assert_eq!(set("backends=b,c@1:0,d@3:5"), Ok(()));
    assert_eq!(seen(), [false, false, true, true]);
    for (words, why) in [
        ("backends=b,x@2", "each number is one backend's: 2 is x's"),
        ("backends=b@4,x@4", "each number is one backend's: 4 is b's"),
        ("backends=b@0", "at \"b@0\": the number behind @ is from 1 to 65534"),
        ("backends=b@+1", "at \"b@+1\": the number behind @ is from 1 to 65534"),
        ("backends=@1", "a list of backends at \"@1\": NAME"),
    ] {
        let error = set(words).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(
        set("health=b:down,e:up").unwrap_err(),
        "balancer: health=b:down,e:up is not NAME:up|draining|down, separated by commas, at \"e:up\"; \
         the backends are b, c and d"
    );
    assert_eq!(seen(), [false, false, true, true], "with an error, nothing is set");
    assert_eq!(
        set("flows=1").unwrap_err(),
        "balancer: \"flows\" cannot be set while it runs; backends=, hosts= and health= can"
    );
}

/// A folder for a test's files, gone with it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let name = format!("millrace-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // One that stays is in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SECRET: &str = "00112233445566778899aabbccddeeff";

/// An element with a secret that takes it as an option or from a file, and its other settings.
const WITH_SECRETS: [(&str, &str, &str); 2] =
    [("transcoder", "direction=encrypt", SECRET), ("balancer", "backends=a", "9876543210123")];

#[test]
fn every_kind_with_a_secret_takes_it_from_a_file_and_shows_the_file() {
    let dir = Folder::new("secrets-shown");
    let secret = |kind: &&Kind| kind.settings.iter().any(|s| s.secret);
    assert_eq!(KINDS.iter().filter(secret).count(), WITH_SECRETS.len());
    for (kind, others, secret) in WITH_SECRETS {
        let path = dir.0.join(kind);
        std::fs::write(&path, format!("  {secret}\r\n")).unwrap();
        let word = format!("key-file={}", path.display());
        assert!(is_file(kind, "key-file") && !is_file(kind, "key"));
        let given = parse(others.split(' ').chain([word.as_str()])).unwrap();
        assert!(element(kind, &given).is_ok() && open_secret(kind, &given).is_none());
        let settings = with_files(kind, given).unwrap();
        assert!(settings.contains(&("key".into(), secret.into())));
        let entry = self::kind(kind).unwrap();
        let shown = format!("{:?}", entry.shown(&settings));
        assert!(!shown.contains(secret) && shown.contains("key-file"), "{shown}");
        assert!(!shown.contains("..."), "{shown}");
        // The same secret by the other way is the same setting of a group.
        let open = parse([others, &format!("key={secret}")]).unwrap();
        assert_eq!(entry.differ(&settings, &open), None);
        assert_eq!(open_secret(kind, &open), Some("key"));
    }
}

#[test]
fn a_file_that_holds_no_secret_is_told_by_its_name() {
    let dir = Folder::new("secrets-refused");
    let file = |name: &str, content: &[u8]| {
        let path = dir.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    for (path, why) in [
        (file("empty", b" \n"), "it holds not one line"),
        (file("lines", b"00\n11\n"), "it holds not one line"),
        (file("octets", &[0xff; 9]), "it holds no text"),
        (file("long", &[b'0'; 5000]), "it holds no text of at most 4096 octets"),
        (dir.0.display().to_string(), "it is no file"),
        ("/dev/zero".into(), "it is no file"),
        ("/nowhere/at/all".into(), "No such file"),
    ] {
        let text = error("transcoder", &format!("direction=encrypt key-file={path}"));
        assert!(text.starts_with(&format!("transcoder: key-file={path}: ")), "{text}");
        assert!(text.contains(why), "{text}");
    }
    let path = file("wrong", b"0011223344");
    let text = error("transcoder", &format!("direction=encrypt key-file={path}"));
    assert!(text.contains("key=(10 characters, not shown) is not"), "{text}");
    let both = format!("direction=encrypt key={SECRET} key-file={path}");
    let both = with_files("transcoder", parse(both.split(' ')).unwrap());
    let text = both.unwrap_err().to_string();
    assert!(text.contains("two ways to say the same"), "{text}");
    let text = error("counter", &format!("key-file={path}"));
    assert_eq!(text, "counter has no setting \"key-file\"; it has none");
}

#[test]
fn no_error_holds_a_secret_wherever_it_was_put() {
    for line in [
        format!("x transcoder key={SECRET}"),
        format!("x transcoder key:{SECRET}"),
        format!("x transcoder {SECRET}"),
        format!("x transcoder kye={SECRET} direction=up"),
        format!("x transcoder {SECRET}=key direction=up"),
        format!("x transcoder key={SECRET} key={SECRET}"),
        format!("x transcoder direction=encrypt key={SECRET}00"),
        format!("x key={SECRET} transcoder"),
        format!("x transcoder \"key={SECRET}\""),
        format!("x balancer backends=a key=0x{SECRET}"),
        format!("x counter key={SECRET}"),
    ] {
        assert!(!without_secrets(&line).contains(&SECRET[..8]), "{}", without_secrets(&line));
        let mut words = line.split(' ').skip(1);
        let kind = words.next().unwrap_or_default();
        let made = parse(words).and_then(|settings| element(kind, &settings));
        let Err(error) = made else { panic!("{line}") };
        assert!(!error.to_string().contains(&SECRET[..8]), "{line}: {error}");
    }
    let plain = "limit rate_limiter rate=1000000000 burst=64k group=a key-file=/etc/k";
    assert_eq!(without_secrets(plain), plain);
    assert_eq!(without_secrets("decade facade 1234567"), "decade facade 1234567");
}

#[test]
fn addresses_that_are_answered_for_are_read_with_the_other_settings() {
    let of = |kind: &str, words: &str| answers(kind, &parse(words.split_whitespace()).unwrap());
    let nat = "direction=out addresses=192.0.2.1-192.0.2.8 answer=02:00:00:00:00:09";
    assert!(made("nat", nat).is_ok());
    let all = of("nat", nat).unwrap();
    assert_eq!((all.len(), all[0].last, all[0].mac[5]), (1, IpAddr::from([192, 0, 2, 8]), 9));
    assert_eq!(of("counter", "").unwrap(), []);
    assert_eq!(of("balancer", "backends=a").unwrap(), []);
    let refused = error("balancer", "backends=a answer=02:00:00:00:00:09");
    assert!(
        refused.starts_with("balancer: answer=02:00:00:00:00:09 is not ADDRESS@MAC"),
        "{refused}"
    );
    assert!(error("counter", "answer=10.0.0.9@02:00:00:00:00:09").contains("no setting"));
}
