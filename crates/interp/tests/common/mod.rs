//! What the tests share: running one packet, and a program with a bit of everything.

#![allow(dead_code, unreachable_pub)]

use interp::{Collect, Input, Machine, MemoryExterns, Start, Trace};
use ir::builder::Builder;
use ir::program::{Field, intrinsic};
use ir::{
    ActionCall, BinaryOp, Bits, Entry, EntryId, Expr, FieldRef, Group, GroupId, HeaderId,
    HeaderTypeId, Key, KeyMatch, MatchKind, Op, ParserOp, ParserStateId, Pattern, Pipeline,
    Program, Select, SelectCase, Table, TableId, Terminator, Transition, Update, Verdict,
};
use std::sync::Arc;

/// What one packet led to.
pub struct Ran {
    pub verdict: Verdict,
    pub sink: Collect,
    pub externs: MemoryExterns,
    pub trace: String,
}

impl Ran {
    /// Ports and bytes of the outputs.
    pub fn outputs(&self) -> Vec<(u32, Vec<u8>)> {
        self.sink.outputs.iter().map(|o| (o.port, o.bytes.clone())).collect()
    }

    pub fn ports(&self) -> Vec<u32> {
        self.sink.outputs.iter().map(|o| o.port).collect()
    }

    /// The only output's bytes.
    pub fn only(&self) -> &[u8] {
        assert_eq!(self.sink.outputs.len(), 1, "{}", self.trace);
        &self.sink.outputs[0].bytes
    }

    #[track_caller]
    pub fn says(&self, line: &str) {
        let found = self.trace.lines().any(|l| l.trim() == line);
        assert!(found, "no line {line:?} in\n{}", self.trace);
    }
}

pub fn pipeline(program: Program) -> Pipeline {
    Pipeline::new(Arc::new(program)).unwrap()
}

pub fn run_with(pipeline: &Pipeline, mut externs: MemoryExterns, bytes: &[u8]) -> Ran {
    let mut sink = Collect::default();
    let mut trace = Trace::new();
    let input = Input { bytes, in_port: 7, now_ns: 1_000, start: Start::Pipeline };
    let mut machine = Machine::new();
    let verdict = machine.run(pipeline, input, &mut externs, &mut sink, Some(&mut trace));
    // Tracing and used buffers change nothing.
    let mut again = Collect::default();
    let mut fresh = externs.clone();
    let second = machine.run(pipeline, input, &mut fresh, &mut again, None);
    if externs.registers.is_empty() {
        assert_eq!((verdict, &sink), (second, &again));
    }
    Ran { verdict, sink, externs, trace: trace.to_string() }
}

pub fn run(pipeline: &Pipeline, bytes: &[u8]) -> Ran {
    let externs = MemoryExterns::new(pipeline.program());
    run_with(pipeline, externs, bytes)
}

/// A program with these declarations whose only block does these operations.
pub fn one_block(mut b: Builder, ops: Vec<Op>) -> Pipeline {
    let main = b.block("main");
    b.set_block(main, ops, Terminator::Exit);
    pipeline(b.finish())
}

pub fn out(port: u32) -> Op {
    Op::Output { port: num(port, 32) }
}

pub fn num(value: impl Into<u128>, width: u32) -> Expr {
    Expr::int(value.into(), width)
}

pub fn bits(value: impl Into<u128>, width: u32) -> Bits {
    Bits::from_u128(value.into(), width)
}

pub fn bin(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::binary(op, a, b)
}

pub fn field(b: &Builder, header: HeaderId, name: &str) -> FieldRef {
    FieldRef::Header(header, b.field(header, name))
}

pub fn extract(header: HeaderId) -> ParserOp {
    ParserOp::Extract { header, varbit: None }
}

/// A select of one key over exact values.
pub fn select(
    key: Expr,
    width: u32,
    cases: &[(u128, ParserStateId)],
    or: Transition,
) -> Transition {
    let mut list: Vec<SelectCase> = cases
        .iter()
        .map(|(value, state)| SelectCase {
            patterns: vec![Select::Masked(bits(*value, width), Bits::ones(width))],
            next: Transition::State(*state),
        })
        .collect();
    list.push(SelectCase { patterns: vec![Select::Any], next: or });
    Transition::Select { keys: vec![key], cases: list }
}

pub fn key(name: &str, expr: Expr, kind: MatchKind, width: u32) -> Key {
    Key { name: name.to_string(), expr, kind, width }
}

pub fn table(name: &str, key: Vec<Key>, default: ActionCall) -> Table {
    Table {
        name: name.to_string(),
        key: key.into(),
        actions: None,
        default,
        default_const: false,
        capacity: 1000,
        counters: true,
    }
}

pub fn entry(id: u32, priority: i32, matches: &[(u16, Pattern)], action: ActionCall) -> Arc<Entry> {
    Arc::new(Entry {
        id: EntryId(id),
        priority,
        matches: matches
            .iter()
            .map(|(key, pattern)| KeyMatch { key: *key, pattern: pattern.clone() })
            .collect(),
        action,
        cookie: 0,
        idle_timeout_ns: 0,
        hard_timeout_ns: 0,
    })
}

pub fn insert(pipeline: &mut Pipeline, table: TableId, entries: Vec<Arc<Entry>>) {
    let updates: Vec<Update> = entries.into_iter().map(|e| Update::Insert(table, e)).collect();
    pipeline.transact(&updates).unwrap();
}

pub fn set_group(pipeline: &mut Pipeline, id: u32, group: Group) {
    pipeline.transact(&[Update::SetGroup(GroupId(id), Arc::new(group))]).unwrap();
}

/// Ethernet, 802.1Q stack of two, IPv4 with options, UDP, TCP; checksums of IPv4 and UDP.
pub struct Net {
    pub b: Builder,
    pub eth: HeaderId,
    pub vlan: ir::StackId,
    pub vlan_type: HeaderTypeId,
    pub ipv4: HeaderId,
    pub udp: HeaderId,
    pub tcp: HeaderId,
}

impl Net {
    pub fn new() -> Net {
        let mut b = Builder::new();
        let eth_type = b.header_type("eth", &[("dst", 48), ("src", 48), ("type", 16)]);
        let vlan_type = b.header_type("vlan", &[("pcp", 3), ("dei", 1), ("vid", 12), ("type", 16)]);
        let fixed = |name: &str, width| Field { name: name.to_string(), width, varbit: false };
        let ipv4_type = b.header_type_fields(
            "ipv4",
            vec![
                fixed("version", 4),
                fixed("ihl", 4),
                fixed("tos", 8),
                fixed("length", 16),
                fixed("id", 16),
                fixed("flags", 3),
                fixed("offset", 13),
                fixed("ttl", 8),
                fixed("proto", 8),
                fixed("csum", 16),
                fixed("src", 32),
                fixed("dst", 32),
                Field { name: "options".to_string(), width: 320, varbit: true },
            ],
        );
        let udp_type =
            b.header_type("udp", &[("src", 16), ("dst", 16), ("length", 16), ("csum", 16)]);
        let tcp_type = b.header_type(
            "tcp",
            &[
                ("src", 16),
                ("dst", 16),
                ("seq", 32),
                ("ack", 32),
                ("flags", 16),
                ("window", 16),
                ("csum", 16),
                ("urgent", 16),
            ],
        );
        let eth = b.header("eth", eth_type);
        let vlan = b.stack("vlan", vlan_type, 2);
        let ipv4 = b.header("ipv4", ipv4_type);
        let udp = b.header("udp", udp_type);
        let tcp = b.header("tcp", tcp_type);
        let start = b.state("start");
        let tagged = b.state("tagged");
        let ip = b.state("ip");
        let udp_state = b.state("udp");
        let tcp_state = b.state("tcp");
        let at = |b: &Builder, h, name| Expr::Field(field(b, h, name));
        let by_type = |key| select(key, 16, &[(0x8100, tagged), (0x0800, ip)], Transition::Accept);
        let next = by_type(at(&b, eth, "type"));
        b.set_state(start, vec![extract(eth)], next);
        let tag_type = b.field(b.element(vlan, 0), "type");
        let next = by_type(Expr::Field(FieldRef::Last(vlan, tag_type)));
        b.set_state(tagged, vec![ParserOp::ExtractNext { stack: vlan, varbit: None }], next);
        let words = bin(BinaryOp::SubSat, at(&b, ipv4, "ihl").cast(16), num(5u8, 16));
        let varbit = Some(bin(BinaryOp::Mul, words, num(32u8, 16)));
        let proto = at(&b, ipv4, "proto");
        let cases = [(17, udp_state), (6, tcp_state)];
        b.set_state(
            ip,
            vec![ParserOp::Extract { header: ipv4, varbit }],
            select(proto, 8, &cases, Transition::Accept),
        );
        b.set_state(udp_state, vec![extract(udp)], Transition::Accept);
        b.set_state(tcp_state, vec![extract(tcp)], Transition::Accept);
        b.emit(eth);
        b.emit_stack(vlan);
        b.emit(ipv4);
        b.emit(udp);
        b.emit(tcp);
        Net { b, eth, vlan, vlan_type, ipv4, udp, tcp }
    }

    pub fn field(&self, header: HeaderId, name: &str) -> FieldRef {
        field(&self.b, header, name)
    }

    pub fn get(&self, header: HeaderId, name: &str) -> Expr {
        Expr::Field(self.field(header, name))
    }

    /// All fields of IPv4 but the checksum: the inputs of its checksum.
    pub fn ipv4_inputs(&self) -> Vec<Expr> {
        let names = [
            "version", "ihl", "tos", "length", "id", "flags", "offset", "ttl", "proto", "src",
            "dst",
        ];
        let names = names.iter().map(|n| self.get(self.ipv4, n));
        names.chain([self.get(self.ipv4, "options")]).collect()
    }

    /// Pseudo header and UDP header without the checksum.
    pub fn udp_inputs(&self) -> Vec<Expr> {
        vec![
            self.get(self.ipv4, "src"),
            self.get(self.ipv4, "dst"),
            num(0u8, 8),
            self.get(self.ipv4, "proto"),
            self.get(self.udp, "length"),
            self.get(self.udp, "src"),
            self.get(self.udp, "dst"),
            self.get(self.udp, "length"),
        ]
    }
}

/// RFC 1071, anew.
pub fn csum(runs: &[&[u8]]) -> u16 {
    let bytes = runs.concat();
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// An IPv4/UDP frame with correct checksums, `tags` 802.1Q tags and this payload.
pub fn udp_frame(tags: &[u16], options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        frame.extend([0x81, 0x00]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend([0x08, 0x00]);
    let udp_len = (8 + payload.len()) as u16;
    let ip_len = 20 + options.len() as u16 + udp_len;
    let ihl = 0x45 + (options.len() / 4) as u8;
    let mut ip = vec![ihl, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 2, 3];
    ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
    ip.extend(options);
    let sum = csum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut udp = vec![0x10, 0x00, 0x00, 0x35];
    udp.extend(udp_len.to_be_bytes());
    udp.extend([0, 0]);
    let pseudo = [&ip[12..20], &[0, 17], &udp_len.to_be_bytes()].concat();
    let sum = csum(&[&pseudo, &udp, payload]);
    udp[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    [frame, ip, udp, payload.to_vec()].concat()
}

pub const IN_PORT: FieldRef = FieldRef::Meta(intrinsic::IN_PORT);
