use super::*;
use crate::verdict::Verdict;

const SOURCE: &str = "\
; A switch of two ports.
test run plan
engines interp, jit(template=lpm)
table route { key ipv4.dst lpm; actions forward drop }
entry route 10.1.0.0/16 => forward(2)

packet in=7 at=5 eth/ipv4(dst=10.1.2.3)/udp
; expect out=2 eth/ipv4(dst=10.1.2.3)/udp
; trace route: 10.1.0.0/16 -> forward(2)
; plan route: lpm
; Prose stays.
insert route 10.1.0.0/16 => drop
; error old
hex in=1 0011 22
";

/// Sends everything to port 2, or what the test says.
struct Fake(Vec<Outcome>);

impl Engine for Fake {
    fn load(&mut self, _: &Pipeline) {}
    fn update(&mut self, _: &[Update], _: &Pipeline) {}
    fn packet(&mut self, packet: &Injected<'_>) -> Outcome {
        self.0.pop().unwrap_or(Outcome {
            events: vec![Event::Out { port: 2, queue: 0, bytes: packet.bytes.to_vec() }],
            verdict: Verdict::Forward,
            trace: vec!["  route: 10.1.0.0/16 -> forward(2)".into()],
        })
    }
    fn parse(&mut self, _: &[u8]) -> Option<Parsing> {
        None
    }
    fn set_register(&mut self, _: RegisterId, _: u32, _: &Bits) {}
    fn register(&mut self, _: RegisterId, _: u32) -> Option<Bits> {
        None
    }
    fn set_port(&mut self, _: u32, _: bool) {}
    fn stats(&mut self, _: &str) -> Option<String> {
        None
    }
}

fn document(source: &str) -> Document {
    Document::parse(source).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_file_is_read_and_run() {
    let doc = document(SOURCE);
    assert_eq!(doc.tests, ["run", "plan"]);
    assert_eq!(doc.engines, ["interp", "jit(template=lpm)"]);
    assert_eq!(doc.steps.len(), 3);
    let report = run(&doc, &mut Fake(vec![]));
    let lines: Vec<u32> = report.failures.iter().map(|f| f.line).collect();
    assert_eq!(lines, [13, 14], "{:?}", report.failures);
    assert_eq!(report.checks, 3);
}

#[test]
fn blessing_rewrites_what_failed_and_nothing_else() {
    let report = run(&document(SOURCE), &mut Fake(vec![]));
    let blessed = bless(SOURCE, &report);
    let want = SOURCE.replace(
        "; error old",
        "; error table route: entry1 has the same key and priority; modify it or delete it first",
    ) + "; expect out=2 same\n";
    assert_eq!(blessed, want);
    let report = run(&document(&blessed), &mut Fake(vec![]));
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(bless(&blessed, &report), blessed);
}

#[test]
fn what_happened_too_much_or_not_at_all_fails() {
    let source = "packet eth\n; expect out=2 same\n; expect out=3 same\n";
    assert_eq!(run(&document(source), &mut Fake(vec![])).failures.len(), 1);
    let source = "packet eth\n";
    assert_eq!(run(&document(source), &mut Fake(vec![])).failures.len(), 1);
    let drop =
        Outcome { events: vec![], verdict: Verdict::Drop(DropReason::NoOutput), trace: vec![] };
    let source = "packet eth\n; expect drop no_output\n";
    assert!(run(&document(source), &mut Fake(vec![drop.clone()])).failures.is_empty());
    let source = "packet eth\n; expect out=2 same\n";
    let report = run(&document(source), &mut Fake(vec![drop]));
    assert_eq!(bless(source, &report), "packet eth\n; expect drop no_output\n");
}

#[test]
fn packets_are_filled_in() {
    let doc = document(
        "packet eth/vlan(vid=5)/ipv4(src=10.0.0.1, dst=10.0.0.2)/udp(sport=1)/payload(len=3)",
    );
    let StepAction::Packet { bytes, packet: Some(packet), .. } = &doc.steps[0].action else {
        panic!("no packet")
    };
    assert_eq!(bytes.len(), 14 + 4 + 20 + 8 + 3);
    assert_eq!(bytes[12..18], [0x81, 0, 0, 5, 8, 0]);
    assert_eq!(bytes[18..22], [0x45, 0, 0, 31]);
    let sum = |bytes: &[u8]| {
        let mut s: u32 = bytes
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b)))
            .sum();
        while s > 0xffff {
            s = (s & 0xffff) + (s >> 16);
        }
        s
    };
    assert_eq!(sum(&bytes[18..38]), 0xffff);
    let mut pseudo = bytes[30..38].to_vec();
    pseudo.extend([0, 17, 0, 11]);
    pseudo.extend(&bytes[38..]);
    assert_eq!(sum(&pseudo), 0xffff);
    let text = packet.text(doc.pipeline.program());
    assert_eq!(
        text,
        "eth/vlan[0](vid=5)/ipv4(src=10.0.0.1, dst=10.0.0.2)/udp(sport=1)/payload(len=3)"
    );
}

#[test]
fn a_change_is_shown_by_the_fields_that_changed() {
    let doc = document("packet eth/ipv4(dst=10.1.2.3)/udp(dport=7)/0xaabb");
    let p = doc.pipeline.program();
    let StepAction::Packet { packet: Some(input), .. } = &doc.steps[0].action else {
        panic!("no packet")
    };
    let mut out = input.clone();
    let ipv4 = p.find_header("ipv4").unwrap();
    let ttl = p.type_of(ipv4).field("ttl").unwrap();
    out.parts[1].given.insert(ttl, Bits::from_u128(63, 8));
    let bytes = out.bytes(p, &doc.fills);
    // What a parser would say: every field with its value.
    let mut at = 0;
    let mut parsed = Parsing { headers: vec![], payload: out.payload.clone() };
    for part in &out.parts {
        let mut values = vec![];
        for f in &p.type_of(part.header).fields {
            let width = if f.varbit { 0 } else { f.width };
            values.push(Bits::extract(&bytes, at, width));
            at += width as usize;
        }
        parsed.headers.push((part.header, values));
    }
    assert_eq!(
        Packet::show(p, &doc.fills, &parsed, &bytes).unwrap(),
        "eth/ipv4(ttl=63, dst=10.1.2.3)/udp(dport=7)/0xaabb"
    );
    assert_eq!(input.show_change(p, &doc.fills, &parsed, &bytes).unwrap(), "set(ipv4.ttl=63)");
}

#[test]
fn errors_name_the_line_of_the_file() {
    for (source, want) in [
        ("\n\ntable t {\n key ipv4.dst lpm\n oops\n}\n", "5:2"),
        ("packet eth\n; expect out=1 eth/ipv5\n", "2:11"),
        ("packet eth(dts=1)\n", "1:12"),
        ("packet eth\ninsret x => y\n", "2:1"),
        ("hex 001\n", "1:1"),
        ("insert t => drop\n; expect out=1 same\n", "2:1"),
    ] {
        let e = Document::parse(source).unwrap_err();
        assert_eq!(format!("{}:{}", e.line, e.column), want, "{source}: {e}");
    }
}
