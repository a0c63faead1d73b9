//! The text form reads back what it prints, and refuses precisely.

use ir::text;

fn round_trip(source: &str) -> ir::Pipeline {
    let p = text::pipeline(source).unwrap_or_else(|e| panic!("{e}"));
    let printed = text::print_pipeline(&p);
    let again = text::pipeline(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(**p.program(), **again.program(), "{printed}");
    assert_eq!(printed, text::print_pipeline(&again));
    p
}

#[test]
fn the_example_of_the_style_guide() {
    let p = round_trip(
        "use std
table route { key ipv4.dst lpm; actions forward drop }
entry route 10.1.0.0/16 => forward(2)
entry route 10.0.0.0/8  => forward(1)
",
    );
    let route = p.program().find_table("route").unwrap();
    assert_eq!(p.entries(route).len(), 2);
    let printed = text::print_pipeline(&p);
    assert!(printed.contains("entry route 10.1.0.0/16 => forward(2)"), "{printed}");
    assert_eq!(p.program().blocks.len(), 2);
}

#[test]
fn everything_once() {
    round_trip(
        r#"use std
type odd { a: 13; b: 3; "c d": 8 }
header "x y": odd
header u1: odd; header u2: odd
union u: u1 u2
meta m: 32; meta port: 32; meta wide: 200; meta valid: 8
value_set types: 16, 4
register r: 32, 8
counter c: 8
digest d(m: 32, port: 16)
reject continues
state other { extract "x y"; m = remaining; advance 8; verify "x y.a" == 5, 16
  select "x y.a", "x y.b" { 3, in small => accept; 1..5, _ => reject
    8 &&& 0x18, 1 => select m { 5 => start; _ => accept } } }
value_set small: 3, 2
action all(port: 32, v: 13) {
  field(port) = port + 1
  m[7:0] = 5
  m = port > 5 ? m |+| 1 : ~m << 3
  m = (cast(16, "x y.a") ++ 16w0x12) ^ sign_cast(32, v)
  if slt(m, 5) || valid(ipv4) && !valid(udp) { set_valid udp } else if m == 3 { exit } else { drop meter_drop }
  set_invalid vlan[1]; copy u1 from u2; push vlan 1; pop vlan 2; reparse
  output port; group 5; clone later; clone later ingress; resubmit m port; recirculate
  punt action; punt group(m, 5w3); digest d(m, 7); meter 3 -> "valid", "valid"
  count c(m); write r(0) = m; m = read r(m & 7); m = random(1, m); m = hash(crc32, 32, m, ipv4.src[7:0])
  m = vlan.last.vid == 5 ? cast(32, size(vlan)) : -m
  wide = 0x123456789abcdef0123456789abcdef0123456789abc
  goto later
}
table t { key ipv4.src exact; key p = m & 0xff lpm; key ipv6.dst ternary; key udp.sport range; key "valid" optional
  actions all forward drop; const default all(4, 0x1fff); capacity 7; counters }
table t2 { key like t }
block first { m = 4; apply t hit later miss second on all later }
block second { clone later; branch m == 4 then third else later }
block third { apply t2 }
block later { end }
action extra(p: 8) id=99 { output cast(32, p) }
entry t ipv4.src=1.2.3.4 p=0/0 ipv6.dst=fe80::1 &&& ffff:: udp.sport=1..5 priority=-3 id=7 cookie=0x5 idle_ns=5 hard_ns=6 => forward(3)
entry t2 ipv4.src=5.6.7.8 "valid"=3 => #99(5)
default t2 => drop
members types = 5, 8 &&& 0xc, 6..9
group 3 select counter=4 hash(ipv4.src, m) { bucket weight=3 watch_port=2 watch_group=9 counter=1 => forward(3); bucket => drop }
meter 9 packets { band rate=5 burst=2 color=2 level=1; band rate=7 }
"#.replace("ipv6.dst=fe80::1 &&& ffff::", "ipv6.dst=fe80:: &&& ffff::").as_str(),
    );
}

#[test]
fn refusals_name_the_place_and_the_nearest_word() {
    for (source, want) in [
        ("use sdt", "1:5: there is no library `sdt`; did you mean `std`?"),
        ("tabel t {}", "1:1: `tabel` begins no declaration; did you mean `table`?"),
        (
            "use std\ntable t {\n  key ipv4.dts lpm\n}",
            "3:7: header ipv4 has no field `dts`; did you mean `dst`?",
        ),
        (
            "use std\ntable t { key ipv4.dst lpn }",
            "2:24: `lpn` is not a kind of match (`exact`, `lpm`, `ternary`, `range`, `optional`); \
             did you mean `lpm`?",
        ),
        (
            "use std\naction a { outptu 5 }",
            "2:12: `outptu` is no operation; did you mean `output`?; an assignment is `field = value`",
        ),
        ("meta m: 8\naction a { m = 256 }", "2:16: 0x100 does not fit in 8 bits"),
        (
            "meta m: 8\naction a { m = 1 + hash(crc32, 8, 5) }",
            "2:35: nothing here says how wide 5 is; write 16w5 for 16 bits",
        ),
        ("action a { exit", "1:16: expected `}`, found the end of the text"),
        (
            "use std\ntable t { key ipv4.dst exact }\nentry t 1.2.3.4 => frward(1)",
            "3:20: there is no action `frward`; did you mean `forward`?",
        ),
        (
            "use std\ntable t { key ipv4.dst exact }\nentry t => drop",
            "3:7: table t, entry1: key ipv4.dst is matched exact, so it needs a value (rule E4)",
        ),
    ] {
        assert_eq!(text::pipeline(source).unwrap_err().to_string(), want, "{source}");
    }
}

#[test]
fn deep_nesting_is_refused_not_overflown() {
    let parens = format!("meta m: 8\naction a {{ m = {}1{} }}", "(".repeat(5000), ")".repeat(5000));
    let chain = format!("meta m: 8\naction a {{ m = 1{} }}", "+1".repeat(50_000));
    let minus = format!("meta m: 8\naction a {{ m = {}1 }}", "-".repeat(50_000));
    let ifs = format!("action a {{ {} }}", "if 1 { ".repeat(5000));
    let elses = format!("action a {{ if 1 {{ }} {} }}", "else if 1 { } ".repeat(5000));
    let muxes = format!("meta m: 8\naction a {{ m = {} }}", "1 ? 2 : ".repeat(5000));
    for text in [parens, chain, minus, ifs, elses, muxes] {
        let e = text::pipeline(&text).unwrap_err();
        assert!(e.text.contains("nested"), "{e}");
    }
}

#[test]
fn every_filetest_reads() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../filetests/ir");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let doc = text::filetest::Document::parse(&source)
            .unwrap_or_else(|e| panic!("{}:{e}", path.display()));
        let printed = text::print_pipeline(&doc.pipeline);
        let again = text::pipeline(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert_eq!(**doc.pipeline.program(), **again.program(), "{}", path.display());
        read += 1;
    }
    assert!(read > 20);
}
