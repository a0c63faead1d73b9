//! The kinds of ports that millrace has: the list that specifications, help, `millrace doctor`, the gauge and the database's
//! interface types are made from. A kind of another crate joins by a line here.
//!
//! Checked by: the tests here, which hold every kind to what [`port::kind`] promises.

use port::kind::Kinds;
use port::spec::{Spec, SpecError};

/// All kinds, in the order in which they are told.
pub const KINDS: Kinds = Kinds(&[
    &port::memory::KIND,
    &port::pcap::KIND,
    &port::tap::KIND,
    &port::af_packet::KIND,
    &port_xdp::KIND,
    &port_dpdk::KIND,
    &port::patch::KIND,
    &port::tap::INTERNAL,
    &tunnel::kinds::GENEVE,
    &tunnel::kinds::VXLAN,
    &tunnel::kinds::GRE,
    &tunnel::kinds::ERSPAN,
]);

/// Reads a specification of any of them.
pub fn parse(text: &str) -> Result<Spec, SpecError> {
    Spec::parse(text, KINDS)
}

/// For help: what a specification is, and a line for each kind.
pub fn help(about: &str) -> String {
    let indented: String = KINDS.help().lines().map(|line| format!("\n  {line}")).collect();
    format!("{about}\n\nSPEC is one of:\n{indented}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::kind::{Environment, TakeOver};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_kind_tells_what_it_is() {
        let words: BTreeSet<&str> = KINDS.iter().map(|kind| kind.word).collect();
        assert_eq!(words.len(), KINDS.words().len(), "a word is there twice");
        for kind in KINDS.iter() {
            assert!(kind.form.starts_with(&format!("{}:", kind.word)), "{kind:?}: {}", kind.form);
            assert!(!kind.about.is_empty() && !kind.use_for.is_empty(), "{kind:?}");
            assert!(kind.diagnose.is_some() || !kind.unprivileged, "{kind:?}");
            assert!(KINDS.help().contains(kind.form), "{kind:?}");
        }
        let asked = KINDS.database_words().len();
        assert_eq!(KINDS.database_words().iter().collect::<BTreeSet<_>>().len(), asked);
    }

    /// docs/ports.md has tables of kinds and of their options, and they are true. `BLESS=1` writes them anew.
    #[test]
    fn the_book_has_every_kind() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ports.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let with_options = KINDS.iter().filter(|kind| !kind.options.is_empty());
        for table in
            std::iter::once(KINDS.table()).chain(with_options.map(port::kind::options_table))
        {
            let from = lines.iter().position(|line| *line == table[0]);
            let from =
                from.unwrap_or_else(|| panic!("docs/ports.md lacks the table {:?}", table[0]));
            let rows = lines[from..].iter().take_while(|line| line.starts_with('|')).count();
            match std::env::var_os("BLESS") {
                Some(_) => drop(lines.splice(from..from + rows, table)),
                None => assert_eq!(lines[from..from + rows], table, "BLESS=1 writes it anew"),
            }
        }
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        }
    }

    #[test]
    fn the_database_gets_the_kind_it_asks_for() {
        let tunnels = ["erspan", "geneve", "gre", "internal", "ip6erspan", "ip6gre"];
        let mut words = [&tunnels[..], &["patch", "system", "tap", "vxlan"]].concat();
        if port_dpdk::BUILT_IN {
            words.splice(0..0, ["dpdk", "dpdkvhostuser", "dpdkvhostuserclient"]);
        }
        assert_eq!(KINDS.database_words(), words);
        let options = BTreeMap::from([("peer".to_owned(), "b".to_owned())]);
        for (word, spec) in [
            ("internal", "internal:a"),
            ("patch", "patch:b"),
            ("system", "af_packet:a"),
            ("tap", "tap:a"),
        ] {
            let attach = KINDS.of_database(word).unwrap().attach;
            assert_eq!(attach("a", &options).to_string(), spec);
        }
        assert!(KINDS.of_database("stt").is_none());
    }

    #[test]
    fn a_take_over_knows_what_two_processes_may_have() {
        use TakeOver::{Anew, Exclusive, Shared};
        for (text, wanted) in [
            ("tap:t0", Exclusive),
            ("internal:t0", Exclusive),
            ("af_packet:p1", Shared),
            ("af_xdp:p1", Exclusive),
            ("dpdk:net_null0", Exclusive),
            ("memory:m", Shared),
            ("a=patch:b", Shared),
            ("pcap:rx=a", Shared),
            ("pcap:rx=a,tx=b", Anew),
        ] {
            assert_eq!(parse(text).unwrap().attachment.take_over(), wanted, "{text}");
        }
    }

    #[test]
    fn reads_every_kind() {
        for (text, shown) in [
            ("tap:t0", "tap:t0"),
            ("af_packet:veth-a", "af_packet:veth-a"),
            ("af_xdp:eth0", "af_xdp:eth0"),
            ("af_xdp:eth0,send=live,busy-poll=20", "af_xdp:eth0,busy-poll=20,send=live"),
            ("af_xdp:eth0,mode=generic,queue=3", "af_xdp:eth0,queue=3,mode=generic"),
            ("af_xdp:eth0,mode=native", "af_xdp:eth0,mode=native"),
            ("pcap:rx=a.pcap", "pcap:rx=a.pcap"),
            ("pcap:loop,tx=/c/d.pcap,rx=a=b", "pcap:rx=a=b,tx=/c/d.pcap,loop"),
            ("memory:left", "memory:left"),
            ("internal:br0", "internal:br0"),
            (
                "dpdk:net_pcap0,rx_pcap=a.pcap,infinite_rx=1",
                "dpdk:net_pcap0,rx_pcap=a.pcap,infinite_rx=1",
            ),
        ] {
            let spec = parse(text).unwrap();
            assert_eq!((spec.given_name.as_ref(), spec.number), (None, None));
            assert_eq!(spec.to_string(), shown);
            assert_eq!(parse(shown), Ok(spec));
        }
    }

    #[test]
    fn reads_names_and_numbers() {
        for (text, name, number, shown) in [
            ("lan=tap:t0", Some("lan"), None, "lan"),
            ("lan:7=pcap:rx=f", Some("lan"), Some(7), "lan"),
            ("pcap:3=tap:t0", Some("pcap"), Some(3), "pcap"),
            ("tap=memory:m", Some("tap"), None, "tap"),
            ("a:2=patch:b", Some("a"), Some(2), "a"),
            ("pcap:rx=f", None, None, "pcap"),
            ("dpdk:net_tap0,iface=x", None, None, "net_tap0"),
        ] {
            let spec = parse(text).unwrap();
            assert_eq!(
                (spec.given_name.as_deref(), spec.number, spec.name()),
                (name, number, shown)
            );
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, wanted) in [
            (
                "tapp:t0",
                "unknown kind of port \"tapp\", did you mean \"tap\"?; known: memory, pcap, tap, \
                 af_packet, af_xdp, dpdk, patch, internal, geneve, vxlan, gre, erspan",
            ),
            (
                "a:1=xyzzyx:t0",
                "unknown kind of port \"xyzzyx\"; known: memory, pcap, tap, af_packet, af_xdp, \
                 dpdk, patch, internal, geneve, vxlan, gre, erspan",
            ),
            ("", "the kind of port is missing; wanted KIND:..."),
            ("tap", "the interface is missing; wanted KIND:INTERFACE"),
            ("=tap:t0", "the port's name is missing; wanted NAME=SPEC or NAME:NUMBER=SPEC"),
            ("a:-1=tap:t", "port number \"-1\" is not a number from 0 to 4294967295"),
            ("a:x=tap:t", "port number \"x\" is not a number from 0 to 4294967295"),
            (
                "tap:much-too-long-a-name",
                "\"much-too-long-a-name\" cannot be an interface name: 1 to 15 bytes, no '/', \
                 ':' nor white space",
            ),
            ("af_xdp:e,queue=-1", "queue \"-1\" is not a number from 0 to 65535"),
            ("af_xdp:e,queue", "\"queue\" wants a value: NAME=VALUE"),
            (
                "af_xdp:e,mode=nativ",
                "unknown mode \"nativ\", did you mean \"native\"?; known: native, generic",
            ),
            (
                "af_xdp:e,send=wire",
                "unknown way to send \"wire\", did you mean \"live\"?; known: ring, live",
            ),
            ("af_xdp:e,queue=1,queue=1", "\"queue\" was given already"),
            ("pcap:", "the file is missing; wanted pcap:rx=FILE[,tx=FILE][,loop]"),
            ("pcap:loop", "the file is missing; wanted pcap:rx=FILE[,tx=FILE][,loop]"),
            ("pcap:rx=", "the file's name is missing; wanted rx=FILE or tx=FILE"),
            ("pcap:rx=a,loop=1", "\"loop\" takes no value"),
            (
                "pcap:rx=a,lop",
                "unknown option of pcap \"lop\", did you mean \"loop\"?; known: rx, tx, loop",
            ),
            ("memory:", "the ring's name is missing; wanted memory:NAME"),
            ("a=patch:", "the other port's name is missing; wanted NAME=patch:PEER"),
            ("patch:b", "the patch port's own name is missing; wanted NAME=patch:PEER"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), wanted);
        }
    }

    #[test]
    fn opens_what_needs_no_privilege() {
        let nothing = Environment::default();
        let spec = parse("m=memory:spec-test").unwrap();
        assert_eq!(spec.open(&nothing).unwrap().info().kind, "memory");
        let error = parse("a=patch:b").unwrap().open(&nothing).err().unwrap();
        assert_eq!(error.to_string(), "a: patch ports are opened at a panel that switches share");
        let panel = nothing.with(port::patch::Panel::new(1));
        assert_eq!(parse("a=patch:b").unwrap().open(&panel).unwrap().info().kind, "patch");
    }

    #[test]
    fn survives_any_text() {
        let mut random = port::prng::Prng::new(9);
        let pieces = ["tap", "pcap", "af_xdp", ":", "=", ",", "rx", "queue", "1", "é", "loop", " "];
        for _ in 0..20_000 {
            let text: String =
                (0..random.below(9)).map(|_| pieces[random.below(12) as usize]).collect();
            if let Ok(spec) = parse(&text) {
                assert_eq!(parse(&spec.to_string()), Ok(spec));
            }
        }
    }

    #[test]
    fn any_text_reads_back_or_is_refused() {
        let seeds = [
            "lan:7=af_xdp:eth0,queue=3,mode=native,busy-poll=20,send=live",
            "a=pcap:rx=f,tx=g=h,loop",
            "pcap:3=tap:t0",
            "memory:3=4",
            "a=patch:b",
            "x=memory:3=4",
            "dpdk:net_pcap0,rx_pcap=a.pcap",
        ];
        seeds.iter().for_each(|seed| port::spec::fuzz(seed.as_bytes(), KINDS));
        let letters = b":=,07+amepx-\xc3\xa9 \0\n";
        for seed in 0..20_000 {
            let mut random = port::prng::Prng::new(seed);
            let mut bytes = seeds[random.below(seeds.len() as u64) as usize].as_bytes().to_vec();
            for _ in 0..random.below(5) {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                let letter = letters[random.below(letters.len() as u64) as usize];
                match (random.below(3), at < bytes.len()) {
                    (0, true) => drop(bytes.remove(at)),
                    (1, true) => bytes[at] = letter,
                    _ => bytes.insert(at, letter),
                }
            }
            port::spec::fuzz(&bytes, KINDS);
        }
    }
}
